"""Whether a release tells that one row was in the table: measured by fitting again, for curators.

The fit is repeated with the row that is least like others, and without it: neighbours under
add-remove. A test that sees the synthetic rows alone says which it was; the guarantee bounds what
*any* test gains. One that gains more shows that the guarantee is false; one that gains less proves
nothing, for another test may do better.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from missdp.accounting import Guarantee
from missdp.accounting.filters import ROW
from missdp.errors import MissDPWarning, ParameterError
from missdp.record import Record
from missdp.synth.base import MissingValues, Synthesizer
from missdp.table import Table
from missdp.types import Floats, Ints

__all__ = ["Membership", "membership"]

Refit = Callable[[Table], Table]
"""A fit to some rows, and the synthetic rows that it makes."""

_FEWEST = 16
_CHANCE = 0.005  # that a rate is beyond either end of its interval
_MOST = 700.0  # beyond which e^epsilon is no float


@dataclass(frozen=True)
class Membership(Record):
    """What a test of membership gained, on refits that it was not tuned on. Private.

    Parameters
    ----------
    refits : int
        So many with the row, and as many without it.
    hits, false_alarms : int
        How often the test said that the row was there: with it, and without it.
    bound : float
        What the guarantee allows any test: the share of hits less that of false alarms.

    Examples
    --------
    >>> found = Membership(refits=20, hits=20, false_alarms=0, bound=0.47)
    >>> found.advantage, found.broken
    (1.0, True)
    """

    refits: int
    hits: int
    false_alarms: int
    bound: float

    derived: ClassVar[tuple[str, ...]] = ("advantage", "interval", "broken")

    @property
    def advantage(self) -> float:
        """The share of hits less that of false alarms."""
        return (self.hits - self.false_alarms) / self.refits

    @property
    def interval(self) -> tuple[float, float]:
        """Least and greatest advantage, at a confidence of 98 %; exact (Clopper and Pearson)."""
        (low, high), (least, most) = (self._rate(n) for n in (self.hits, self.false_alarms))
        return low - most, high - least

    @property
    def broken(self) -> bool:
        """Whether the test surely gains more than the guarantee allows."""
        return self.interval[0] > self.bound

    def _rate(self, successes: int) -> tuple[float, float]:
        from scipy.stats import beta

        n, k = self.refits, successes
        low = float(beta.ppf(_CHANCE, k, n - k + 1)) if k else 0.0
        return low, float(beta.ppf(1 - _CHANCE, k + 1, n - k)) if k < n else 1.0


def allowed(guarantee: Guarantee) -> float:
    """Return what a guarantee allows any test to gain: true less false positives.

    Examples
    --------
    >>> round(allowed(Guarantee(1.0)), 3)
    0.462
    """
    grown = math.exp(min(guarantee.epsilon, _MOST))
    return min(1.0, (grown - 1 + 2 * guarantee.delta) / (grown + 1))


def membership(refit: Refit, private: Table, guarantee: Guarantee, *, refits: int) -> Membership:
    """Fit again with one row and without it, and test which it was.

    Parameters
    ----------
    refit : callable
        From rows to synthetic ones, with fresh noise each time.
    private : Table
    guarantee : Guarantee
        Of one fit.
    refits : int
        How many fits, at least 16: half of them with the row; half of either tunes the test.
    """
    if guarantee.unit != ROW:
        raise ParameterError("membership is measured for rows: this release protects larger units")
    if refits < _FEWEST:
        raise ParameterError(f"refits must be at least {_FEWEST}, half of them with the row")
    codes = np.column_stack([private.codes(a.name).astype(np.int64) for a in private.schema])
    target = _least_like_others(codes)
    without = private.take(np.arange(len(codes)) != target)
    n = refits // 4
    scores = [
        np.array([_near(codes[target], refit(rows)) for _ in range(2 * n)])
        for rows in (private, without)
    ]
    threshold = _best(scores[0][:n], scores[1][:n])
    hits, alarms = (int((found[n:] > threshold).sum()) for found in scores)
    return Membership(n, hits, alarms, allowed(guarantee))


def refit_of(model: Synthesizer) -> Refit:
    """Return what makes synthetic rows of others as a model was made, with fresh noise."""
    keep: MissingValues = "keep" if model.strategy_of(model.missing).models_holes else "fill"

    def refit(rows: Table) -> Table:
        with warnings.catch_warnings(action="ignore", category=MissDPWarning):  # said once, by then
            again = type(model)(**model._fitted_with).fit(rows)
        return again.sample_table(missing_values=keep)

    return refit


def _least_like_others(codes: Ints) -> int:
    """Return the row whose cells are rarest."""
    rarity = np.zeros(len(codes))
    for column in codes.T:
        rarity -= np.log(np.bincount(column)[column])
    return int(np.argmax(rarity))


def _near(row: Ints, synthetic: Table) -> float:
    """Return how many of the synthetic rows are like one row; the nearest count most, by far."""
    same = sum(
        (synthetic.codes(a.name) == code).astype(np.int64)
        for a, code in zip(synthetic.schema, row.tolist(), strict=True)
    )
    return float(np.exp2(2.0 * np.asarray(same)).sum())


def _best(inside: Floats, outside: Floats) -> float:
    """Return the threshold that tells most of either apart."""
    ends = np.unique([*inside, *outside, -np.inf])
    gains = [(inside > end).mean() - (outside > end).mean() for end in ends]
    return float(ends[int(np.argmax(gains))])
