"""The paid, optional part of a question: how far missing cells could move the answer.

The imputed table is one completion of the table among many. Independently of it, the numbers of
`missdp.knn.completions` are released: they have public sensitivity 1 whatever the imputation,
because a row adds to them by its own observed cells alone. They bound the statistic over all
completions, so no assumption on why cells are missing is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from missdp.accounting import Cost
from missdp.errors import ParameterError
from missdp.knn.completions import average_bounds, places, tally, total_bounds
from missdp.knn.costs import share
from missdp.knn.estimates import Estimate, Interval
from missdp.knn.parts import Parts
from missdp.knn.predicates import Predicate
from missdp.mechanisms.asks import Ask
from missdp.mechanisms.questions import QUANTA, Sums
from missdp.mechanisms.row_door import Charged
from missdp.schema import Numeric, Schema

__all__ = ["WORST_CASE_SHARE", "MissingCells", "Uncertainty"]

Uncertainty = Literal["noise", "worst-case"]
WORST_CASE_SHARE = 0.1
"""Share of the cost of a question that pays for its `Estimate.imputation_interval`."""


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
        return share(self.cost, 1 - WORST_CASE_SHARE) if self.asks else self.cost

    @property
    def asks(self) -> list[Ask]:
        """The release to charge; none if only noise is asked for."""
        if self.uncertainty == "noise":
            return []
        return [
            Ask(
                label="missing cells", cost=share(self.cost, WORST_CASE_SHARE), reads=self._reads,
                own=QUANTA, dimension=len(self._places), observed=True,
            )
        ]  # fmt: skip

    def total(self, estimate: Estimate, parts: Parts, charged: Sequence[Charged]) -> Estimate:
        """Add the interval of a count or sum, if it was charged for."""
        lower, upper = self._bounds
        return self._widened(estimate, parts, charged, lambda box: total_bounds(box, lower, upper))

    def average(self, estimate: Estimate, parts: Parts, charged: Sequence[Charged]) -> Estimate:
        """Add the interval of a proportion or mean, if it was charged for."""
        lower, upper = (0.0, 1.0) if not isinstance(self.of, Numeric) else self._bounds

        def interval(box: dict[str, Interval]) -> Interval:
            low, high = average_bounds(box)
            return lower + (upper - lower) * low, upper - (upper - lower) * (1 - high)

        return self._widened(estimate, parts, charged, interval)

    @property
    def _bounds(self) -> Interval:
        return (self.of.lower, self.of.upper) if isinstance(self.of, Numeric) else (1.0, 1.0)

    @property
    def _places(self) -> tuple[str, ...]:
        nullable = set(self.schema.nullable)
        return places(
            where_open=bool(nullable & self.where.names), share_open=bool(nullable & self._shares),
            share_one=self.of is None,
        )  # fmt: skip

    @property
    def _shares(self) -> frozenset[str]:
        """Attributes that decide what a row adds."""
        if self.of is None:
            return frozenset()
        return frozenset({self.of.name}) if isinstance(self.of, Numeric) else self.of.names

    @property
    def _reads(self) -> frozenset[str]:
        return self.where.names | self._shares

    def _widened(
        self,
        estimate: Estimate,
        parts: Parts,
        charged: Sequence[Charged],
        bounds: Callable[[dict[str, Interval]], Interval],
    ) -> Estimate:
        if not charged:
            return estimate
        names, (token,) = self._places, charged
        question = Sums(
            function=tally, reads=self._reads, given=(self.where, self.of, names),
            bound=1.0, numbers=len(names), change=0.0,
        )  # fmt: skip
        released = parts.door.answer(token, question).each()
        # Public noise scale: no share of the error probability goes to the released scale.
        level = 1 - (1 - parts.confidence) / len(names)
        box = {}
        for name, noisy in zip(names, released, strict=True):
            found = noisy.within(level)
            assert found is not None
            box[name] = found
        low, high = bounds(box)
        # The released answer is one completion plus noise; an interval without it helps nobody.
        interval = (min(low, estimate.value), max(high, estimate.value))
        return replace(estimate, imputation_interval=interval)
