"""What released rows give away of single rows of the table, measured: for the curator only.

Attacks are tried on rows that were synthesized from and, in the same way, on control rows of the
same population: only what works better on the former can come from their being in the table. A test
of membership is tried on fits with and without one row; the guarantee bounds what *any* test gains,
so one that gains more shows that it is false. Finding nothing proves nothing: that is what epsilon
is for.

Attacks after Giomi, Boenisch, Wehmeyer and Tasnádi (2023), "A unified framework for quantifying
privacy risk in synthetic data", PoPETs, with codes of levels and bins for values.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from pydantic.dataclasses import dataclass

from missdp.accounting import Guarantee, WeightsOfRows
from missdp.accounting.events import ROW
from missdp.errors import DataError, MissDPWarning, ParameterError
from missdp.schema import Categorical
from missdp.serialization import Record
from missdp.synth.base import MissingValues, Synthesizer
from missdp.table import Table
from missdp.types import Flags, Floats, Ints

_TARGETS = 1000  # rows that are attacked, of either kind
_RELEASED = 20_000  # released rows that attacks use
_NEIGHBOURS = 5  # among which linkage looks for the same row
_SURE = 3.0  # standard errors of a difference that is more than chance
_FEWEST = 16  # refits
_CHANCE = 0.005  # that a rate is beyond either end of its interval
_MOST = 700.0  # beyond which e^epsilon is no float

Refit = Callable[[Table], Table]
"""A fit to some rows, and the synthetic rows that it makes."""
_Apart = Callable[[Ints, Ints], Floats]  # of a row, in some columns, from each released row


@dataclass(frozen=True)
class Attack(Record):
    """How often an attack succeeds, on the table's rows and on the control's. Private: exact."""

    name: str
    success: int
    control: int
    attempts: int  # on either kind of rows

    derived: ClassVar[tuple[str, ...]] = ("excess", "found")

    @property
    def excess(self) -> float:
        """Success beyond the control's, of what the control leaves; below 0 by chance."""
        left = self.attempts - self.control
        return (self.success - self.control) / left if left else 0.0

    @property
    def found(self) -> bool:
        """Whether rows of the table are attacked more easily than chance would have it."""
        n, both = self.attempts, self.success + self.control
        error = math.sqrt(both * (2 * n - both) / (2 * n)) if n else 0.0
        return self.success - self.control > _SURE * max(error, 1.0)


def attacks(
    private: Table, control: Table, released: Table, rng: np.random.Generator
) -> tuple[Attack, ...]:
    """Try to find copies, single out, link and infer attributes; tables share a schema."""
    if not (len(private) and len(control) and len(released)):
        raise DataError("attacks need rows of the table, of the control and of the release")
    n = min(len(private), len(control))  # singling out is about one row among so many
    both = [_codes(t)[rng.permutation(len(t))[:n]] for t in (private, control)]
    rows = _codes(released)[rng.permutation(len(released))[:_RELEASED]]
    weights = np.array(
        [1.0 if isinstance(a, Categorical) else 1 / max(1, a.size - 1) for a in private.schema]
    )
    holes = np.array([a.size for a in private.schema])

    def apart(target: Ints, of: Ints) -> Floats:
        gap = np.minimum(1.0, np.abs(rows[:, of] - target[of]) * weights[of])
        unlike = (rows[:, of] >= holes[of]) != (target[of] >= holes[of])
        return np.asarray(np.where(unlike, 1.0, gap).sum(axis=1) + 1e-6 * rng.random(len(rows)))

    found = []
    for name, attempt in _ATTACKS.items():
        one, other = (attempt(targets, rows, apart) for targets in both)
        found.append(Attack(name, int(one.sum()), int(other.sum()), len(one)))
    return tuple(found)


def _codes(table: Table) -> Ints:
    return np.column_stack([table.codes(a.name).astype(np.int64) for a in table.schema])


def _copied(targets: Ints, rows: Ints, _: _Apart) -> Flags:
    known = set(map(bytes, rows))
    return np.array([bytes(row) in known for row in targets[:_TARGETS]])


def _singled_out(targets: Ints, rows: Ints, _: _Apart) -> Flags:
    rng = np.random.default_rng(0)  # the same guesses for either kind of rows
    columns = targets.shape[1]
    chosen = [np.sort(rng.permutation(columns)[: 2 * columns // 3 + 1]) for _ in rows[:_TARGETS]]
    guesses = dict.fromkeys((*of, *row[of]) for row, of in zip(rows, chosen, strict=False))
    each = np.array([*guesses]).reshape(len(guesses), 2, -1)  # once: alike, they fail together
    return np.array([(targets[:, of] == cells).all(axis=1).sum() == 1 for of, cells in each])


def _linked(targets: Ints, rows: Ints, apart: _Apart) -> Flags:
    columns, most = np.arange(targets.shape[1]), min(_NEIGHBOURS, len(rows))

    def near(row: Ints, of: Ints) -> set[int]:
        return {*np.argpartition(apart(row, of), most - 1)[:most].tolist()}

    return np.array(
        [bool(near(row, columns[::2]) & near(row, columns[1::2])) for row in targets[:_TARGETS]]
    )


def _inferred(targets: Ints, rows: Ints, apart: _Apart) -> Flags:
    columns = np.arange(targets.shape[1])
    found = []
    for place, row in enumerate(targets[:_TARGETS]):
        secret = place % len(columns)
        nearest = int(np.argmin(apart(row, np.delete(columns, secret))))
        found.append(rows[nearest, secret] == row[secret])
    return np.array(found)


_ATTACKS = {
    "copies: the whole row, in bins, is among the released ones": _copied,
    "singling out: two thirds of the cells of a released row are those of one row only": (
        _singled_out
    ),
    "linkage: one half of the columns and the other lead to one released row": _linked,
    "inference: the nearest released row tells the cell that is left": _inferred,
}


@dataclass(frozen=True)
class Membership(Record):
    """What a test of membership gained, on refits that it was not tuned on. Private.

    It said that the row was there in ``hits`` of so many ``refits`` with it and in ``false_alarms``
    of as many without it; ``bound`` is what the guarantee allows any test.
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
    """Return by how much a guarantee lets any test's true positive rate exceed its false one."""
    grown = math.exp(min(guarantee.epsilon, _MOST))
    return min(1.0, (grown - 1 + 2 * guarantee.delta) / (grown + 1))


def check_membership(guarantee: Guarantee, refits: int) -> None:
    """Refuse early a test of membership that would not be about what is guaranteed."""
    if guarantee.unit != ROW:
        raise ParameterError("membership is measured for rows: this release protects larger units")
    if any(isinstance(condition, WeightsOfRows) for condition in guarantee.conditions):
        raise ParameterError(
            "membership is measured for rows that count as one: these have weights"
        )
    if refits < _FEWEST:
        raise ParameterError(f"refits must be at least {_FEWEST}, half of them with the row")


def membership(refit: Refit, private: Table, guarantee: Guarantee, *, refits: int) -> Membership:
    """Fit again with the row that is least like others and without it, and test which it was.

    Half of at least 16 fits, each with fresh noise, are with the row; half of either tune the test.
    """
    check_membership(guarantee, refits)
    codes = _codes(private)
    rarity = -sum(np.log(np.bincount(column)[column]) for column in codes.T)
    target = int(np.argmax(rarity))
    without = private.take(np.arange(len(codes)) != target)
    n = refits // 4
    scores = [
        np.array([_near(codes[target], refit(rows)) for _ in range(2 * n)])
        for rows in (private, without)
    ]
    threshold = _best(scores[0][:n], scores[1][:n])
    hits, alarms = (int((found[n:] > threshold).sum()) for found in scores)
    return Membership(n, hits, alarms, allowed(guarantee))


def _near(row: Ints, synthetic: Table) -> float:
    """Return how many of the synthetic rows are like one row; the nearest count most, by far."""
    same = (_codes(synthetic) == row).sum(axis=1)
    return float(np.exp2(2.0 * same).sum())


def _best(inside: Floats, outside: Floats) -> float:
    """Return the threshold that tells most of either apart."""
    ends = np.unique([*inside, *outside, -np.inf])
    gains = [(inside > end).mean() - (outside > end).mean() for end in ends]
    return float(ends[int(np.argmax(gains))])


def refit_of(model: Synthesizer) -> Refit:
    """Return what makes synthetic rows of others as a model was made, with fresh noise."""
    keep: MissingValues = "keep" if model.applied_strategy.models_holes else "fill"

    def refit(rows: Table) -> Table:
        with warnings.catch_warnings(action="ignore", category=MissDPWarning):  # said once, by then
            again = type(model)(**model.fitted_.parameters).fit(rows)
        return again.sample_table(missing_values=keep)

    return refit
