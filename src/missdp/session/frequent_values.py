"""Frequent values of a column, released privately: values whose noisy count is large enough.

*Claim.* A row counts for at most one value of a column. The count of every value that occurs gets
independent discrete Gaussian noise of scale sigma. The value is released if its noisy count is at
least ``t``, where ``P(1 + noise >= t) <= d``. Let ``D`` be a table, and ``D'`` a table with one
more row.

* If the row's value occurs in ``D``, both tables release noisy counts of the same values, and one
  count differs by 1. This is a Gaussian release of sensitivity 1, and so is any function of it.
* If the value does not occur in ``D``, then ``D'`` has one more candidate. All other releases have
  equal distributions under both tables. They are independent of the release of the candidate,
  which has probability ``p <= d``. So ``P' = (1 - p) P + p W``, where ``P`` is the distribution
  under ``D``.

*Composition.* Let all later mechanisms, chosen after these releases, be (e, c)-DP together with the
Gaussian releases. Take tables of the second case. Let ``Q`` be the distribution of all releases
under ``D``. Let ``R`` be the distribution of all releases with the first part drawn as under ``D``
and the rest under ``D'``. Then ``Q(S) <= e^e R(S) + c`` and ``R(S) <= e^e Q(S) + c``. Under ``D'``
the distribution is ``Q' = (1 - p) R + p W'``. Hence

    Q'(S) <= (1 - p) (e^e Q(S) + c) + p                <= e^e Q(S) + c + d,
    Q(S)  <= (1 - p) (e^e R(S) + c) + p Q(S)           <= e^e Q'(S) + c + d.

With several columns, a row may be the only row with its value in some of them. Then ``p`` is at
most the sum of their ``d``. So the costs of the Gaussian releases add up, and the failures add up
separately. All releases together are (e, c + sum of d)-DP, in both directions.

*Shared budgets.* In the first case, the two distributions are dominated by the pair of a Gaussian
release of sensitivity 1. In the second case, ``P' = (1 - p) P + p W`` with ``p <= d``, so the total
variation distance of ``P`` and ``P'`` is at most ``d``. They are dominated by the pair of an
`ApproximateEvent` of epsilon 0 and delta ``d``. So each pair of neighbours is dominated by the
composition of both pairs. Dominating pairs compose adaptively, with any releases before, between
and after (Zhu, Dong and Wang 2022, Theorem 10). In the ledger the release is ``d``-approximate ``1
/ (2 sigma^2)``-zCDP, which its filter adds up. So a shared budget is charged the cap of the fit
and, with it, the failures.
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
from missdp.errors import ParameterError, check_number
from missdp.schema import OpenCategorical
from missdp.session.noise import NoiseSource, check_scale
from missdp.session.session import Release
from missdp.table.encode import Encoder
from missdp.table.frames import engine_of

_FURTHEST = 40.0  # standard deviations of noise that are summed; the rest of the tail is bounded
_ROUNDED = 1 + 1e-9  # factor above the rounding error of sums of exponentials


def _min_count(sigma: float, failure: float) -> int:
    """Return the smallest integer t with ``P(1 + noise >= t) <= failure``, for discrete noise.

    The tail of the discrete noise is summed and rounded up. The tail of the continuous Gaussian
    would be too light by up to a step.
    """
    check_scale("sigma", sigma)
    check_number("failure", failure, max_value=1 - 2.0**-53, exclude_min=True)
    last = math.ceil(_FURTHEST * sigma) + 1
    masses = np.exp(-np.square(np.arange(last + 1) / sigma) / 2)
    # Beyond `last`, each mass is at most this ratio times the mass before it.
    ratio = math.exp(-(2 * last + 1) / (2 * sigma**2))
    rest = masses[-1] * ratio / (1 - ratio)
    tails = (np.cumsum(masses[::-1])[::-1] + rest) / (masses[0] + 2 * masses[1:].sum())
    enough = np.flatnonzero(tails * _ROUNDED <= failure)
    if not enough.size:
        raise ParameterError("failure is too small for a threshold to be computed")
    return int(enough[0]) + 1


@dataclass(frozen=True, eq=False, repr=False)
class OpenRows:
    """Raw rows with columns whose levels are not declared. Private.

    Attributes
    ----------
    facts : tuple of OpenCategorical
        The columns with open levels. Public.
    rows : Rows, or a frame of an engine
        The rows. Private.
    failure : float, default 0.0
        Probability that was charged in addition to the budget of the session: a value of a single
        row may be released. It covers all columns together. The session charges no delta.
    """

    facts: tuple[OpenCategorical, ...]
    rows: Any
    failure: float = 0.0
    adjacency: ClassVar[Adjacency] = "add-remove"
    conditions: ClassVar[tuple[Condition, ...]] = ()
    # The ledger of the schema was checked, and removed from it, before the rows were opened.
    ledger: ClassVar[str] = ""

    def plan(self, query: Any, mechanism: Any) -> Release:
        """Return the release of the query, or raise an error. Public facts alone decide."""
        if type(query) is not OccurringValues or type(mechanism) is not FrequentValues:
            raise ParameterError("open rows answer OccurringValues by FrequentValues")
        if query.name not in {attribute.name for attribute in self.facts}:
            raise ParameterError(f"{query.name!r} has no open levels")
        if exact(mechanism.failure) * len(self.facts) > exact(self.failure):
            raise ParameterError("a rare value may leave with more probability than was charged")
        event = mechanism.event(1.0, required=None, label=f"levels of {query.name}")
        return Release(event, mechanism, partial(self._column_counts, query.name))

    def changed(self, change: Any, rng: Any) -> OpenRows:  # noqa: ARG002
        """Raise an error for every change."""
        raise ParameterError("open rows are not changed")

    def expect(self, queries: Iterable[Any]) -> None:
        """Ignore the queries, since all columns are read in one pass in any case."""

    def _column_counts(self, name: str) -> Mapping[str, int]:
        return self.counts[name]

    @cached_property
    def counts(self) -> dict[str, dict[str, int]]:
        """Number of rows with each value that occurs, of all columns, read in one pass."""
        names = tuple(a.name for a in self.facts)
        if (engine := engine_of(self.rows)) is not None:
            counts = engine.count_values(self.rows, self.facts)
        else:
            counts = count_texts(self.rows.batches(names), self.facts)
        return dict(zip(names, counts, strict=True))


def count_texts(
    batches: Iterable[Any], attributes: Sequence[OpenCategorical]
) -> list[dict[str, int]]:
    """Return the number of rows with each value, for each column in order. Private."""
    columns: list[dict[str, int]] = [{} for _ in attributes]
    readers = [Encoder(a) for a in attributes]
    for batch in batches:
        for place, (counts, reader) in enumerate(zip(columns, readers, strict=True)):
            for value, times in reader.value_counts(batch.column(place)):
                counts[value] = counts.get(value, 0) + times
    for attribute, counts in zip(attributes, columns, strict=True):
        counts.pop(attribute.other, None)
    return columns


@dataclass(frozen=True)
class FrequentValues:
    """Mechanism that releases the values whose noisy count is at least a threshold.

    It releases the sorted values without their counts.

    Parameters
    ----------
    sigma : float
        Scale of the Gaussian noise of each count, in rows.
    failure : float
        Largest probability that a value of a single row is released.
    max_values : int
        Largest number of released values. The values with the largest noisy counts are released.
    """

    sigma: float
    failure: float
    max_values: int

    norm: ClassVar[float] = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_scale("sigma", self.sigma))
        _min_count(self.sigma, self.failure)

    def event(self, sensitivity: float, *, required: Iterable[str] | None, label: str) -> Event:
        """Return the Gaussian release. Its failure is charged separately."""
        names: Any = required  # the event makes a set of it
        return GaussianEvent(sensitivity=sensitivity, sigma=self.sigma, required=names, label=label)

    def draw(self, exact: Mapping[str, int], source: NoiseSource) -> tuple[str, ...]:
        """Return the released values, sorted by their text."""
        values = sorted(exact)  # so that the order of rows has no effect
        noisy = np.array([exact[value] for value in values], dtype=np.int64)
        noisy += source.discrete_gaussian(self.sigma, len(values))
        order = np.argsort(-noisy, kind="stable")[: self.max_values]
        threshold = _min_count(self.sigma, self.failure)
        return tuple(sorted(values[i] for i in order.tolist() if noisy[i] >= threshold))


@dataclass(frozen=True)
class OccurringValues:
    """Query for the number of rows with each occurring value of an open column.

    A row has at most one value.
    """

    name: str
