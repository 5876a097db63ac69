"""Attacks on released rows, measured beside rows that the fit never saw: for the curator only.

Each attack is tried on rows that were synthesized from and, in the same way, on control rows of the
same population. What works on both is knowledge of people in general; only what works better on the
former can come from their being in the table. A small excess proves nothing, for other attacks may
do better, and none found is no guarantee: that is what epsilon is for.

After Giomi, Boenisch, Wehmeyer and Tasnádi (2023), "A unified framework for quantifying privacy
risk in synthetic data", PoPETs, with codes of levels and bins for values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from missdp.errors import DataError
from missdp.record import Record
from missdp.schema import Categorical
from missdp.table import Table
from missdp.types import Flags, Floats, Ints

__all__ = ["Attack", "attacks"]

_TARGETS = 1000  # rows that are attacked, of either kind
_RELEASED = 20_000  # released rows that attacks use
_NEIGHBOURS = 5  # among which linkage looks for the same row
_SURE = 3.0  # standard errors of a difference that is more than chance


@dataclass(frozen=True)
class Attack(Record):
    """How often an attack succeeds. Private: made from the rows without noise.

    Parameters
    ----------
    name : str
    success, control : int
        Of so many attempts each, on rows of the table and on rows that the fit never saw.
    attempts : int

    Examples
    --------
    >>> Attack("copies", 900, 10, 1000).found, Attack("copies", 12, 10, 1000).found
    (True, False)
    """

    name: str
    success: int
    control: int
    attempts: int

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
    both = tuple(_codes(table, n, rng) for table in (private, control))
    rows = _codes(released, _RELEASED, rng)
    weights = np.array(
        [1.0 if isinstance(a, Categorical) else 1 / max(1, a.size - 1) for a in private.schema]
    )
    holes = np.array([a.size for a in private.schema])

    def apart(target: Ints, of: Ints) -> Floats:
        gap = np.minimum(1.0, np.abs(rows[:, of] - target[of]) * weights[of])
        unlike = (rows[:, of] >= holes[of]) != (target[of] >= holes[of])
        return np.asarray(np.where(unlike, 1.0, gap).sum(axis=1) + 1e-6 * rng.random(len(rows)))

    tried: dict[str, Callable[[Ints], Flags]] = {
        "copies: the whole row, in bins, is among the released ones": lambda x: _copied(x, rows),
        "singling out: two thirds of the cells of a released row are those of one row only": (
            lambda x: _singled_out(x, rows)
        ),
        "linkage: one half of the columns and the other lead to one released row": (
            lambda x: _linked(x, apart)
        ),
        "inference: the nearest released row tells the cell that is left": (
            lambda x: _inferred(x, rows, apart)
        ),
    }
    found = []
    for name, attempt in tried.items():
        one, other = (attempt(x) for x in both)
        found.append(Attack(name, int(one.sum()), int(other.sum()), len(one)))
    return tuple(found)


def _codes(table: Table, most: int, rng: np.random.Generator) -> Ints:
    chosen = rng.permutation(len(table))[:most]
    return np.column_stack([table.codes(a.name)[chosen].astype(np.int64) for a in table.schema])


def _copied(targets: Ints, rows: Ints) -> Flags:
    known = set(map(bytes, rows))
    return np.array([bytes(row) in known for row in targets[:_TARGETS]])


def _singled_out(targets: Ints, rows: Ints) -> Flags:
    rng = np.random.default_rng(0)  # the same guesses for either kind of rows
    columns = targets.shape[1]
    chosen = [rng.permutation(columns)[: 2 * columns // 3 + 1] for _ in rows[:_TARGETS]]
    pairs = zip(rows, chosen, strict=False)
    return np.array([(targets[:, of] == row[of]).all(axis=1).sum() == 1 for row, of in pairs])


def _linked(targets: Ints, apart: Callable[[Ints, Ints], Floats]) -> Flags:
    columns = np.arange(targets.shape[1])
    halves = columns[::2], columns[1::2]

    def near(row: Ints, of: Ints) -> set[int]:
        far = apart(row, of)
        return {*np.argpartition(far, min(_NEIGHBOURS, len(far)) - 1)[:_NEIGHBOURS].tolist()}

    return np.array([bool(near(x, halves[0]) & near(x, halves[1])) for x in targets[:_TARGETS]])


def _inferred(targets: Ints, rows: Ints, apart: Callable[[Ints, Ints], Floats]) -> Flags:
    columns = np.arange(targets.shape[1])
    found = []
    for place, row in enumerate(targets[:_TARGETS]):
        secret = place % len(columns)
        nearest = int(np.argmin(apart(row, np.delete(columns, secret))))
        found.append(rows[nearest, secret] == row[secret])
    return np.array(found)
