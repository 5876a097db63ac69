"""The paid, optional part of a question: how far missing cells could move the answer.

The imputed table is one completion of the table among many. Independently of it, the numbers of
`missdp.knn.ledger` are released: they have public sensitivity 1 whatever the imputation, because a
row adds to them by its own observed cells alone. They bound the statistic over all completions, so
no assumption on why cells are missing is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError
from missdp.knn.asks import Ask, Cost
from missdp.knn.estimates import Estimate, Interval
from missdp.knn.filled import FilledTable
from missdp.knn.ledger import average_bounds, places, tally, total_bounds
from missdp.knn.predicates import Predicate
from missdp.knn.releases import Releaser
from missdp.knn.rows import QUANTA, RowSum, Weights
from missdp.schema import Numeric, Schema

__all__ = ["WORST_CASE_SHARE", "MissingCells", "Uncertainty"]

Uncertainty = Literal["noise", "worst-case"]
WORST_CASE_SHARE = 0.1
"""Share of the cost of a question that pays for its `Estimate.imputation_interval`."""

_WEIGHTS = Weights(QUANTA, 0, 0.0, Fraction(1, QUANTA))


@dataclass(frozen=True, kw_only=True)
class MissingCells:
    """What a question asks, as far as missing cells matter. Public.

    Parameters
    ----------
    schema : Schema
        Says which attributes may be missing, and bounds.
    uncertainty : {"noise", "worst-case"}
        Whether to pay for the interval.
    cost : Cost
        Of the whole question.
    where : Predicate
        The subpopulation.
    of : Numeric, Predicate or None
        What is added up: values, rows that satisfy a condition, or all rows.

    Raises
    ------
    ParameterError
        If ``uncertainty`` is neither.
    """

    schema: Schema
    uncertainty: Uncertainty
    cost: Cost
    where: Predicate
    of: Numeric | Predicate | None = None

    def __post_init__(self) -> None:
        if self.uncertainty not in get_args(Uncertainty):
            raise ParameterError(f"uncertainty must be one of {get_args(Uncertainty)}")

    @property
    def rest(self) -> Cost:
        """What is left for the answer itself."""
        return self.cost.share(1 - WORST_CASE_SHARE) if self.asks else self.cost

    @property
    def asks(self) -> list[Ask]:
        """The release to charge; none if only noise is asked for."""
        if self.uncertainty == "noise":
            return []
        return [
            Ask(
                label="missing cells", cost=self.cost.share(WORST_CASE_SHARE), depends=False,
                whole=QUANTA, dimension=len(self._places),
            )
        ]  # fmt: skip

    def total(self, estimate: Estimate, releaser: Releaser) -> Estimate:
        """Add the interval of a count or sum; the question has been charged."""
        lower, upper = self._bounds
        return self._widened(estimate, releaser, lambda box: total_bounds(box, lower, upper))

    def average(self, estimate: Estimate, releaser: Releaser) -> Estimate:
        """Add the interval of a proportion or mean; the question has been charged."""
        lower, upper = (0.0, 1.0) if not isinstance(self.of, Numeric) else self._bounds

        def interval(box: dict[str, Interval]) -> Interval:
            low, high = average_bounds(box)
            return lower + (upper - lower) * low, upper - (upper - lower) * (1 - high)

        return self._widened(estimate, releaser, interval)

    @property
    def _bounds(self) -> Interval:
        return (self.of.lower, self.of.upper) if isinstance(self.of, Numeric) else (1.0, 1.0)

    @property
    def _places(self) -> tuple[str, ...]:
        reads = frozenset({self.of.name}) if isinstance(self.of, Numeric) else frozenset()
        if self.of is not None and not isinstance(self.of, Numeric):
            reads = self.of.names
        nullable = set(self.schema.nullable)
        return places(
            where_open=bool(nullable & self.where.names), share_open=bool(nullable & reads),
            share_one=self.of is None,
        )  # fmt: skip

    def _widened(
        self,
        estimate: Estimate,
        releaser: Releaser,
        bounds: Callable[[dict[str, Interval]], Interval],
    ) -> Estimate:
        if not self.asks:
            return estimate
        rows, names = releaser.observed(), self._places
        share, known = self._shares(rows)
        answer = RowSum(tally(self.where.decide(rows), share, known, names), _WEIGHTS)
        released = releaser.release(self.asks[0], answer)
        # Public noise scale: no share of the error probability goes to the released scale.
        level = 1 - (1 - releaser.confidence) / len(names)
        box = {}
        for name, noisy in zip(names, released, strict=True):
            found = noisy.within(level)
            assert found is not None
            box[name] = found
        low, high = bounds(box)
        # The released answer is one completion plus noise; an interval without it helps nobody.
        interval = (min(low, estimate.value), max(high, estimate.value))
        return replace(estimate, imputation_interval=interval)

    def _shares(self, rows: FilledTable) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Share of each row, and where its observed cells decide it."""
        if self.of is None:
            return np.ones(len(rows)), np.ones(len(rows), dtype=bool)
        if isinstance(self.of, Numeric):
            width = self.of.upper - self.of.lower
            known = rows.codes(self.of.name) != self.of.missing_code
            return (rows.values(self.of.name) - self.of.lower) / width, known
        surely, maybe = self.of.decide(rows)
        return surely.astype(np.float64), surely | ~maybe
