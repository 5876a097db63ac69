"""Frequent values of a column, found privately: noisy counts of what occurs, kept if large enough.

*Claim.* Let a row count for at most one value of a column, and let every value that occurs get
independent discrete Gaussian noise of scale sigma and be released if its noisy count is at least
``t``, where ``P(1 + noise >= t) <= d``. Let ``D`` be a table, and ``D'`` one with a row more.

* If the row's value occurs in ``D``, both tables release the same values' noisy counts, of which
  one moves by 1: that is a Gaussian release of sensitivity 1, and so is any function of it.
* If it does not, ``D'`` has one candidate more. Whatever else is released has one and the same law
  under both, and is independent of whether the candidate is kept, which has probability
  ``p <= d``. So ``P' = (1 - p) P + p W``, where ``P`` is the law under ``D``.

*Composition.* Let all later mechanisms, chosen after seeing this, be (e, c)-DP together with the
Gaussian releases. For tables of the second case let ``R`` be the law of everything with the first
part drawn as under ``D`` and the rest under ``D'``; then ``Q(S) <= e^e R(S) + c`` and the reverse,
where ``Q`` is the law of everything under ``D``, and ``Q' = (1 - p) R + p W'`` under ``D'``. Hence

    Q'(S) <= (1 - p) (e^e Q(S) + c) + p                <= e^e Q(S) + c + d,
    Q(S)  <= (1 - p) (e^e R(S) + c) + p Q(S)           <= e^e Q'(S) + c + d.

With several columns a row may be the only one with its value in some of them: ``p`` is then at
most the sum of their ``d``. So costs add up as those of Gaussian releases, and failures beside
them: the whole is (e, c + sum of d)-DP, in both directions.

*Shared budgets.* In the first case, the two laws are dominated by the pair of a Gaussian release of
sensitivity 1. In the second case, ``P' = (1 - p) P + p W`` with ``p <= d``, so the total variation
distance of ``P`` and ``P'`` is at most ``d``. They are dominated by the pair of an
`ApproximateEvent` of epsilon 0 and delta ``d``. So each pair of neighbours is dominated by the
composition of both pairs. Dominating pairs compose adaptively, whatever is released before,
meanwhile and after (Zhu, Dong and Wang 2022, Theorem 10). In the ledger the release is
``d``-approximate ``1 / (2 sigma^2)``-zCDP, which its filter adds up. So a shared budget is charged
the cap of the fit and, with it, the failures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from missdp.accounting import Condition, Event, GaussianEvent
from missdp.accounting.events import Adjacency
from missdp.accounting.exact import exact
from missdp.errors import ParameterError, number
from missdp.schema import OpenCategorical
from missdp.session.noise import NoiseSource, check_scale
from missdp.session.session import Release
from missdp.table.encode import Encoder
from missdp.table.frames import engine_of

_FURTHEST = 40.0  # standard deviations of the noise; what lies beyond is bounded
_ROUNDED = 1 + 1e-9  # far more than sums of exponentials are off


def _least_count(sigma: float, failure: float) -> int:
    """Return the smallest whole t with ``P(1 + noise >= t) <= failure``, for discrete noise.

    The tail of the noise that is really drawn is summed, and rounded up: that of the continuous
    Gaussian is too light by up to a step.
    """
    check_scale("sigma", sigma)
    number("failure", failure, most=1 - 2.0**-53, open_end=True)
    last = math.ceil(_FURTHEST * sigma) + 1
    masses = np.exp(-np.square(np.arange(last + 1) / sigma) / 2)
    # Beyond `last` each mass is at most the one before times this.
    ratio = math.exp(-(2 * last + 1) / (2 * sigma**2))
    beyond = masses[-1] * ratio / (1 - ratio)
    tails = (np.cumsum(masses[::-1])[::-1] + beyond) / (masses[0] + 2 * masses[1:].sum())
    enough = np.flatnonzero(tails * _ROUNDED <= failure)
    if not enough.size:
        raise ParameterError("failure is too small for a threshold to be computed")
    return int(enough[0]) + 1


@dataclass(frozen=True, eq=False, repr=False)
class OpenRows:
    """Rows as they came, of which some columns have levels that are not declared. Private.

    Attributes
    ----------
    facts : tuple of OpenCategorical
        The columns with open levels; public.
    rows : Rows, or a frame of an engine
        Private.
    failure : float, default 0.0
        What was charged, beside the budget of the session, for values of single rows in all columns
        together. The session adds no delta to its budget.
    """

    facts: tuple[OpenCategorical, ...]
    rows: Any
    failure: float = 0.0
    adjacency: ClassVar[Adjacency] = "add-remove"
    conditions: ClassVar[tuple[Condition, ...]] = ()
    # What the schema names was checked, and left out of it, before the rows were opened.
    ledger: ClassVar[str] = ""

    def plan(self, query: Any, mechanism: Any) -> Release:
        """Return how the query is answered, and its price; refuse it by public facts alone."""
        if type(query) is not OccurringValues or type(mechanism) is not FrequentValues:
            raise ParameterError("open rows answer OccurringValues by FrequentValues")
        if query.name not in {attribute.name for attribute in self.facts}:
            raise ParameterError(f"{query.name!r} has no open levels")
        if exact(mechanism.failure) * len(self.facts) > exact(self.failure):
            raise ParameterError("a rare value may leave with more probability than was charged")
        event = mechanism.event(1.0, required=None, label=f"levels of {query.name}")
        return Release(event, mechanism, partial(self._counts_of, query.name))

    def changed(self, change: Any, rng: Any) -> OpenRows:  # noqa: ARG002
        """Refuse every change."""
        raise ParameterError("open rows are not changed")

    def expect(self, queries: Iterable[Any]) -> None:
        """Read all columns in one pass, as always."""

    def _counts_of(self, name: str) -> Mapping[str, int]:
        return self.counts[name]

    @cached_property
    def counts(self) -> dict[str, dict[str, int]]:
        """How many rows have each value that occurs, of all columns: read in one pass."""
        names = tuple(a.name for a in self.facts)
        if (engine := engine_of(self.rows)) is not None:
            counts = engine.count_values(self.rows, self.facts)
        else:
            counts = occurring(self.rows.batches(names), self.facts)
        return dict(zip(names, counts, strict=True))


def occurring(
    batches: Iterable[Any], attributes: Sequence[OpenCategorical]
) -> list[dict[str, int]]:
    """Return how many rows have each value of each column, in this order; private."""
    found: list[dict[str, int]] = [{} for _ in attributes]
    readers = [Encoder(a) for a in attributes]
    for batch in batches:
        for place, (counts, reader) in enumerate(zip(found, readers, strict=True)):
            for value, times in reader.value_counts(batch.column(place)):
                counts[value] = counts.get(value, 0) + times
    for attribute, counts in zip(attributes, found, strict=True):
        counts.pop(attribute.other, None)
    return found


@dataclass(frozen=True)
class FrequentValues:
    """Values whose count with Gaussian noise is at least a threshold: sorted, and no counts.

    ``sigma`` is the scale of the noise of each count; a value that a single row has is released
    with probability ``failure`` at most; ``most`` values are kept, those with the largest noisy
    counts.
    """

    sigma: float
    failure: float
    most: int

    norm: ClassVar[float] = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_scale("sigma", self.sigma))
        _least_count(self.sigma, self.failure)

    def event(self, sensitivity: float, *, required: Iterable[str] | None, label: str) -> Event:
        """Return the Gaussian release; its failure is charged beside it."""
        names: Any = required  # the event makes a set of it
        return GaussianEvent(sensitivity=sensitivity, sigma=self.sigma, required=names, label=label)

    def draw(self, exact: Mapping[str, int], source: NoiseSource) -> tuple[str, ...]:
        """Return the values that are kept, sorted by their text."""
        values = sorted(exact)  # so that nothing follows from the order of rows
        noisy = np.array([exact[value] for value in values], dtype=np.int64)
        noisy += source.discrete_gaussian(self.sigma, len(values))
        order = np.argsort(-noisy, kind="stable")[: self.most]
        least = _least_count(self.sigma, self.failure)
        return tuple(sorted(values[i] for i in order.tolist() if noisy[i] >= least))


@dataclass(frozen=True)
class OccurringValues:
    """How many rows have each value of an open column that occurs; a row has at most one."""

    name: str
