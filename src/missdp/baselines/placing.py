"""Synthetic rows between which denial constraints hold.

Rows are drawn from the released model independently, and then placed together:

1. Under a functional dependency, rows that agree in the determining attributes get one value of the
   determined one: the most frequent. Under two strict orders within groups (a higher rank earns no
   less), the values of one attribute change rows within each group, so that both rise together. The
   marginal of this attribute stays.
2. Rows that still violate a constraint are dropped, rows with most conflicts first. They become
   copies of retained rows: a copy conflicts with no other row.
3. If a row violates a constraint with its own copy (a key), other rows are drawn from the model
   instead, and the rows that violate nothing are retained. If some rows do not fit, an error states
   the number of rows that fit.

All of this reads synthetic rows, the released model and public facts. It is post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from missdp.baselines.denial_constraints import (
    DenialConstraint,
    cells_of,
    count_conflicts,
    violates_itself,
)
from missdp.errors import DataError
from missdp.synth.sampling import enforce_rules, replace_rows
from missdp.table import Table
from missdp.types import Flags, Floats, Ints

SyntheticRows: TypeAlias = Table

Draw: TypeAlias = Callable[[int], Table]
"""Draws a number of rows from the released model, each of which obeys the rules of the schema."""

_MAX_DRAWS = 60  # draws in place of dropped rows
_MAX_VAIN = 3  # draws in succession without a retained row
_MAX_ROUNDS = 60  # rounds of dropping rows, each of which retains at least one row


def place_rows(
    rows: Table,
    constraints: Sequence[DenialConstraint],
    rng: np.random.Generator,
    *,
    draw: Draw,
    order: Sequence[str],
) -> Table:
    """Return synthetic rows changed so that no two of them violate a constraint.

    Parameters
    ----------
    rows : Table
        Synthetic rows that obey the rules of their schema.
    constraints : sequence of DenialConstraint
        Public facts about any two rows.
    rng : Generator
        A generator that is not the source of the noise.
    draw : callable
        Draws additional rows from the released model.
    order : sequence of str
        Attributes in the order in which the model draws them. The last ones are changed first.

    Returns
    -------
    Table
        A table of the same length, unchanged if no two rows violate a constraint.

    Raises
    ------
    DataError
        If not all rows fit.

    Notes
    -----
    Post-processing: no privacy cost.
    """
    placing = _Placing(tuple(constraints), rng, {name: k for k, name in enumerate(order)})
    if not placing.conflicts(rows).any():
        return rows
    rows = placing.arranged(rows)
    retained = placing.consistent(rows)
    sources = np.flatnonzero(retained & ~placing.conflict_with_copies(rows))
    if sources.size:
        dropped = np.flatnonzero(~retained)
        return replace_rows(rows, dropped, rows, rng.choice(sources, size=dropped.size))
    return placing.drawn_again(rows, retained, draw)


@dataclass(frozen=True)
class _Placing:
    """Placement of rows under constraints. ``place`` has the drawing position of each attribute."""

    constraints: tuple[DenialConstraint, ...]
    rng: np.random.Generator
    place: dict[str, int]

    def conflicts(
        self, rows: Table, others: Table | None = None, ranks: Ints | None = None
    ) -> Ints:
        """Count for each row its conflicts under all constraints."""
        counts = np.zeros(len(rows), dtype=np.int64)
        for constraint in self.constraints:
            counts += count_conflicts(constraint, rows, others, ranks=ranks)
        return counts

    def arranged(self, rows: Table) -> Table:
        """Return rows that obey the constraints with a direct solution, unless these collide."""
        changed, fixed = rows, {*rows.schema.rule_set.derived}
        last = len(self.place)
        dependencies = [c.dependency for c in self.constraints if c.dependency is not None]
        # A determined attribute may determine another one, which is drawn later.
        dependencies.sort(key=lambda each: self.place.get(each[1], last))
        for determining, name in dependencies:
            if name not in fixed:
                changed = self._with_one_value(changed, determining, name)
                fixed.add(name)
        for determining, one, two, rising in filter(None, (c.order for c in self.constraints)):
            free = [n for n in (one, two) if n not in fixed]
            if free:
                name = max(free, key=lambda n: self.place.get(n, last))
                by = one if name == two else two
                changed = self._in_order(changed, determining, by, name, rising=rising)
                fixed.add(name)
        changed, broken = enforce_rules(changed)
        back = np.flatnonzero(broken)
        return replace_rows(changed, back, rows, back)

    def _with_one_value(self, rows: Table, determining: Sequence[str], name: str) -> Table:
        """Give rows that agree in some attributes the most frequent value of another one."""
        where = _observed((*determining, name), rows)
        part = rows.take(where)
        group = _groups([cells_of(part, other) for other in determining], where.size)
        both = _groups([group, part.codes(name).astype(np.int64)], where.size)
        times = np.bincount(both, minlength=1)[both]
        # The last row of each group in this line has its most frequent code.
        line = np.lexsort((self.rng.random(where.size), both, times, group))
        last = np.searchsorted(group[line], group, side="right") - 1
        return replace_rows(rows, where, part, line[last], (name,))

    def _in_order(
        self, rows: Table, groups: Sequence[str], by: str, name: str, *, rising: bool
    ) -> Table:
        """Let the values of one attribute rise with another one, or fall, within groups."""
        where = _observed((*groups, by, name), rows)
        part = rows.take(where)
        group = _groups([cells_of(part, other) for other in groups], where.size)
        height = _groups([cells_of(part, name)], where.size) * (1 if rising else -1)
        ties = self.rng.random(where.size)
        target = np.lexsort((ties, height, cells_of(part, by), group))
        source = np.lexsort((ties, height, group))
        return replace_rows(rows, where[target], part, source, (name,))

    def consistent(self, rows: Table) -> Flags:
        """Return flags of retained rows, no two of which conflict.

        Rows without a conflict with a row of fewer conflicts are retained. Rows in conflict with
        them are dropped. The other rows take part in the next round. This is a parallel form of the
        greedy choice of an independent set.
        """
        retained = np.zeros(len(rows), dtype=bool)
        waiting = np.arange(len(rows))
        for _ in range(_MAX_ROUNDS):
            part = rows.take(waiting)
            line = np.lexsort((self.rng.random(waiting.size), self.conflicts(part)))
            ranks = np.empty(waiting.size, dtype=np.int64)
            ranks[line] = np.arange(waiting.size)
            free = self.conflicts(part, ranks=ranks) == 0
            retained[waiting[free]] = True
            rest = part.take(~free)
            waiting = waiting[~free][self.conflicts(rest, part.take(free)) == 0]
            if not waiting.size:
                break
        return retained

    def conflict_with_copies(self, rows: Table) -> Flags:
        """Return flags of rows that violate a constraint with a copy of themselves."""
        return np.asarray(np.any([violates_itself(c, rows) for c in self.constraints], axis=0))

    def drawn_again(self, rows: Table, retained: Flags, draw: Draw) -> Table:
        """Draw rows in place of dropped ones until all rows fit."""
        vain = 0
        for _ in range(_MAX_DRAWS):
            dropped = np.flatnonzero(~retained)
            if not dropped.size or vain == _MAX_VAIN:
                break
            fresh = draw(dropped.size)
            fits = np.flatnonzero(self.conflicts(fresh, rows.take(retained)) == 0)
            fits = fits[self.consistent(fresh.take(fits))]
            rows = replace_rows(rows, dropped[fits], fresh, fits)
            retained[dropped[fits]] = True
            vain = 0 if fits.size else vain + 1
        if not retained.all():
            texts = "; ".join(constraint.text for constraint in self.constraints)
            fitting = int(retained.sum())
            raise DataError(
                f"only {fitting} of {len(retained)} synthetic rows fit under the constraints "
                f"{texts}. Draw at most {fitting} rows, enlarge the domains, or leave out the "
                "constraints that two equal rows violate."
            )
        return rows


def _observed(names: Sequence[str], rows: Table) -> Ints:
    """Return the positions of the rows with a value of each of these attributes."""
    return np.flatnonzero(~np.any([rows.mask(name) for name in names], axis=0))


def _groups(columns: Sequence[Floats | Ints], n: int) -> Ints:
    """Return one number for each row, equal for rows that agree in all columns."""
    numbers = np.zeros(n, dtype=np.int64)
    for column in columns:
        values, codes = np.unique(column, return_inverse=True)
        numbers = np.unique(numbers * len(values) + codes, return_inverse=True)[1]
    return numbers
