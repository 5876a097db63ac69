"""Synthetic rows of which no two violate a denial constraint.

Rows are drawn without looking at each other, and then placed beside each other, all at once:

1. What has a direct solution gets it. Under a functional dependency, rows that agree in what
   determines get one value, that of most of them. Under a pair of strict orders within groups (who
   is higher in rank earns no less), the values of one attribute change rows within each group, so
   that both go up together; its margin stays as it was.
2. Rows that still violate something are sorted out, those with most conflicts first, and some of
   their cells are drawn again from the model, given their other cells: first the attribute that is
   drawn last, in the end all that the constraints are about. Draws that violate nothing are kept.
3. Rows for which no draw fits take the cells that constraints are about from a kept row. A row that
   equals a kept one conflicts with no other.

So the time is that of some dozen counts of conflicts, none of which looks at pairs. Only where two
equal rows violate a constraint (a key: no two rows have the same number) can rows be left over.
Drawing goes on for them, in the end of anything in the domain. If there are still some, nothing is
returned, and an error says how many rows fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError
from missdp.inference.heads import Heads
from missdp.inference.heads import redraw as redraw_cells
from missdp.inference.model import Levels
from missdp.schema import Numeric, PairDenial, Schema
from missdp.sources.partners import (
    observed_on,
    violates_itself,
    violating_pairs,
    violating_partners,
)
from missdp.synth.sampling import followed, put
from missdp.table import Table
from missdp.types import Flags, Ints

Rows: TypeAlias = Table
"""Synthetic rows."""


_TURNS = 2  # draws of the same attributes
_MOST_TURNS = 60  # where no row can take another one's cells
_IN_VAIN = 5  # turns
_ROUNDS = 60  # in each of which at least one row is kept


Redraw: TypeAlias = Callable[[Table, tuple[str, ...], np.random.Generator], Table]
"""Draws some attributes of rows again from the model's law, given the rows' other cells."""


def placed(
    rows: Table,
    denials: Sequence[PairDenial],
    rng: np.random.Generator,
    *,
    redraw: Redraw | None = None,
    order: Sequence[str] = (),
) -> Table:
    """Return synthetic rows changed so that no two of them violate a denial constraint."""
    for group in _connected(rows.schema, denials):
        rows = _Placing(tuple(group), rng, redraw or redrawn_from_others(rows), order).of(rows)
    if any(violating_pairs(denial, rows) for denial in denials):  # no group touches another one
        raise DataError("synthetic rows still violate what the schema says about two rows")
    return rows


def redrawn_from_others(table: Table) -> Redraw:
    """Return what takes cells from rows of a table, chosen at random: where there is no model."""

    def redraw(rows: Table, names: tuple[str, ...], rng: np.random.Generator) -> Table:
        where = np.arange(len(rows))
        return put(rows, where, table, rng.integers(0, len(table), len(rows)), names)

    return redraw


@dataclass(frozen=True)
class _Placing:
    """How rows are placed under constraints that hang together by attributes."""

    denials: tuple[PairDenial, ...]
    rng: np.random.Generator
    redraw: Redraw
    order: Sequence[str] = field(default=())

    @property
    def _names(self) -> tuple[str, ...]:
        """What the constraints are about, as the model draws it."""
        place = {name: i for i, name in enumerate(self.order)}
        names = dict.fromkeys(name for denial in self.denials for name in denial.names)
        return tuple(sorted(names, key=lambda name: place.get(name, len(place))))

    def _reach(self, rows: Table) -> frozenset[str]:
        """What rules link with it: in no other attribute is a row changed."""
        return rows.schema.rulebook.reached(self._names)

    def of(self, rows: Table) -> Table:
        """Return the rows placed."""
        if not _conflicts(self.denials, rows).any():
            return rows
        rows = self._arranged(rows)
        kept = _without_conflicts(self.denials, rows, self.rng)
        fixed = rows.schema.rulebook.derives
        names = tuple(n for n in self._names if n not in fixed) or rows.schema.names
        for many in range(1, len(names) + 1):
            for _ in range(_TURNS):
                if kept.all():
                    return rows
                rows, kept = self._again(rows, kept, names[-many:], self.redraw)
        return rows if kept.all() else self._copied(rows, kept, names)

    # What has a direct solution

    def _arranged(self, rows: Table) -> Table:
        """Return rows that obey every constraint with a direct solution, as far as they agree."""
        changed = rows
        targets: set[str] = {*rows.schema.rulebook.derives}
        for denial in _after_what_determines(self.denials):
            if denial.dependency is not None and denial.dependency[1] not in targets:
                changed = self._agreeing(changed, *denial.dependency)
                targets.add(denial.dependency[1])
            elif (pair := _strict_orders(denial)) is not None:
                free = [name for name in self._names if name in pair[1:3] and name not in targets]
                if free:
                    changed = self._in_step(changed, pair, moved=free[-1])
                    targets.add(free[-1])
        changed, broken = followed(changed)
        back = np.flatnonzero(broken)
        return put(changed, back, rows, back, rows.schema.names)

    def _agreeing(
        self, rows: Table, given: tuple[str, ...], name: str, sure: Flags | None = None
    ) -> Table:
        """Give rows that agree in some attributes one value: of a sure one, or of most of them."""
        seen = np.flatnonzero(observed_on((*given, name), rows))
        part = rows.take(seen)
        group = _keys([_cells(part, other) for other in given], seen.size)
        both = _keys([group, part.codes(name)], seen.size)
        times = np.bincount(both)[both] if seen.size else both
        first = np.zeros(seen.size) if sure is None else sure[seen]
        # The last of each group in this order is a sure one, or has its most frequent code.
        line = np.lexsort((self.rng.random(seen.size), both, times, first, group))
        last = np.searchsorted(group[line], group, side="right") - 1
        return put(rows, seen, part, line[last], (name,))

    def _in_step(
        self, rows: Table, pair: tuple[tuple[str, ...], str, str, bool], *, moved: str
    ) -> Table:
        """Let the values of one attribute go up with the other one's, or down, within groups."""
        given, one, two, up = pair
        fixed = one if moved == two else two
        seen = np.flatnonzero(observed_on((*given, one, two), rows))
        part = rows.take(seen)
        group = _keys([_cells(part, other) for other in given], seen.size)
        height = _keys([_cells(part, moved)], seen.size) * (1 if up else -1)
        chance = self.rng.random(seen.size)
        places = np.lexsort((chance, height, _cells(part, fixed), group))
        source = np.lexsort((chance, height, group))
        return put(rows, seen[places], part, source, (moved,))

    # What is left is drawn again

    def _again(
        self, rows: Table, kept: Flags, names: tuple[str, ...], redraw: Redraw
    ) -> tuple[Table, Flags]:
        """Draw attributes of the rows that are not kept again, and keep those that fit."""
        lacking = np.flatnonzero(~kept)
        drawn = redraw(rows.take(lacking), names, self.rng)
        others = rows.take(kept)
        drawn, broken = followed(self._determined(drawn, others, names))
        fits = np.flatnonzero(~broken & (_conflicts(self.denials, drawn, others) == 0))
        part = drawn.take(fits)
        fits = fits[_without_conflicts(self.denials, part, self.rng)]
        rows = put(rows, lacking[fits], drawn, fits, self._reach(rows))
        kept = kept.copy()
        kept[lacking[fits]] = True
        return rows, kept

    def _determined(self, drawn: Table, others: Table, names: tuple[str, ...]) -> Table:
        """Give what is determined by a dependency the value that it has in kept rows."""
        rows, place = Table.joined([others, drawn]), np.arange(len(others) + len(drawn))
        for denial in _after_what_determines(self.denials):
            if denial.dependency is not None and denial.dependency[1] in names:
                rows = self._agreeing(rows, *denial.dependency, place < len(others))
        return rows.take(place[len(others) :])

    def _copied(self, rows: Table, kept: Flags, drawn: tuple[str, ...]) -> Table:
        """Let rows that are not kept take cells from kept ones."""
        names = self._names
        lacking, chosen = _donors(self.denials, rows, kept, names, self.rng)
        if not lacking.size:
            return self._on_and_on(rows, kept, drawn)
        whole = put(rows, lacking, rows, chosen, self._reach(rows))
        found = put(rows, lacking, rows, chosen, names)
        for name in names:  # holes stay: what is not there violates nothing
            hole = np.flatnonzero(rows.mask(name) & ~kept)
            found = put(found, hole, rows, hole, (name,))
        found, broken = followed(found)
        # Where other cells do not fit, all that rules link with these are taken, too.
        back = np.flatnonzero((broken | (_conflicts(self.denials, found) > 0)) & ~kept)
        return put(found, back, whole, back, rows.schema.names)

    def _on_and_on(self, rows: Table, kept: Flags, names: tuple[str, ...]) -> Table:
        """Draw rows that are not kept again as long as it helps."""
        for redraw in (self.redraw, _anything):
            vain = 0
            for _ in range(_MOST_TURNS):
                before = int(kept.sum())
                rows, kept = self._again(rows, kept, names, redraw)
                if kept.all():
                    return rows
                vain = 0 if kept.sum() > before else vain + 1
                if vain == _IN_VAIN:
                    break
        texts = ", ".join(denial.text for denial in self.denials)
        raise DataError(
            f"only {int(kept.sum())} of {len(kept)} synthetic rows can be placed, since two equal "
            f"rows violate what the schema says about two rows: {texts}. Draw fewer rows, enlarge "
            "the domains, or declare that it holds mostly"
        )


def _anything(rows: Table, names: tuple[str, ...], rng: np.random.Generator) -> Table:
    """Draw any level or value of the domain."""
    codes = {
        a.name: rng.integers(0, a.size, len(rows)) if a.name in names else rows.codes(a.name)
        for a in rows.schema
    }
    drawn, every = Table.from_codes(rows.schema, codes).with_values(rng), np.arange(len(rows))
    return put(rows, every, drawn, every, names)


def _after_what_determines(denials: Sequence[PairDenial]) -> list[PairDenial]:
    """Return constraints in an order in which what a dependency reads is settled before it."""
    waiting, done = list(denials), list[PairDenial]()
    while waiting:
        open_ = {d.dependency[1] for d in waiting if d.dependency is not None}
        ready = [d for d in waiting if d.dependency is None or not open_ & {*d.dependency[0]}]
        first = (ready or waiting)[0]
        done.append(first)
        waiting.remove(first)
    # Orders come last: they move values, and do not choose them.
    return sorted(done, key=lambda denial: denial.dependency is None)


def _strict_orders(denial: PairDenial) -> tuple[tuple[str, ...], str, str, bool] | None:
    """Return what a constraint says if it is that two attributes go up together, or do not.

    That is: among rows that agree in some, the two attributes, and whether one goes up with the
    other.
    """
    if denial.first or denial.second or any(one != two for _, one, two in denial.between):
        return None
    given = tuple(name for sign, name, _ in denial.between if sign == "==")
    orders = [(sign, name) for sign, name, _ in denial.between if sign != "=="]
    names = {name for _, name in orders} | {*given}
    if len(orders) != 2 or len(names) != len(given) + 2:
        return None
    (sign, one), (other, two) = orders
    if not {sign, other} <= {"<", ">"}:
        return None
    return given, one, two, sign != other


def _connected(schema: Schema, denials: Iterable[PairDenial]) -> list[list[PairDenial]]:
    """Return denial constraints by groups that neither share an attribute nor are linked by rules.

    Examples
    --------
    >>> from missdp.schema import Categorical, Denial
    >>> schema = Schema(
    ...     tuple(Categorical(name=n, levels=("x", "y")) for n in ("zip", "city", "state", "job")),
    ...     (
    ...         Denial("t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)"),
    ...         Denial("t1&t2&EQ(t1.job,t2.job)&EQ(t1.job,'x')"),
    ...         Denial("t1&t2&EQ(t1.city,t2.city)&IQ(t1.state,t2.state)"),
    ...     ),
    ... )
    >>> [len(group) for group in _connected(schema, schema.rulebook.pairs)]
    [2, 1]
    """
    reached = schema.rulebook.reached
    groups: list[list[PairDenial]] = []
    for denial in denials:
        mine = reached(denial.names)
        near = [group for group in groups if any(mine & reached(d.names) for d in group)]
        joined = [*(d for group in near for d in group), denial]
        first = groups.index(near[0]) if near else len(groups)
        groups = [*groups[:first], joined, *(g for g in groups[first:] if g not in near)]
    return groups


def _conflicts(denials: Sequence[PairDenial], rows: Table, among: Table | None = None) -> Ints:
    """Count for each row the rows that it violates denial constraints with, once for each."""
    found = np.zeros(len(rows), dtype=np.int64)
    for denial in denials:
        found += violating_partners(denial, rows, among)
    return found


def _without_conflicts(
    denials: Sequence[PairDenial], rows: Table, rng: np.random.Generator
) -> Flags:
    """Tell which rows are kept, no two of which violate anything: few conflicts go first.

    Rows that no row of fewer conflicts conflicts with are kept, those that conflict with them are
    not, and so on with the others (a parallel form of the greedy choice of an independent set).
    """
    kept = np.zeros(len(rows), dtype=bool)
    left = np.arange(len(rows))
    for _ in range(_ROUNDS):
        part = rows.take(left)
        many = _conflicts(denials, part)
        ranks = np.empty(len(left), dtype=np.int64)
        ranks[np.lexsort((rng.random(len(left)), many))] = np.arange(len(left))
        ahead = np.zeros(len(left), dtype=np.int64)
        for denial in denials if many.any() else ():
            ahead += violating_partners(denial, part, ranks=ranks)
        free = ahead == 0
        kept[left[free]] = True
        rest = left[~free]
        if not rest.size:
            break
        left = rest[_conflicts(denials, rows.take(rest), part.take(free)) == 0]
        if not left.size:
            break
    return kept


def _cells(table: Table, name: str) -> NDArray[Any]:
    """Values of a numeric attribute, else codes."""
    numeric = isinstance(table.schema[name], Numeric)
    return table.values(name) if numeric else table.codes(name).astype(np.int64)


def _keys(columns: Sequence[NDArray[Any]], n: int) -> Ints:
    """Return one number for each row, the same for rows that agree in all columns."""
    found = np.zeros(n, dtype=np.int64)
    for column in columns:
        values, codes = np.unique(column, return_inverse=True)
        found = np.unique(found * len(values) + codes, return_inverse=True)[1]
    return found


def _donors(
    denials: Sequence[PairDenial],
    rows: Table,
    kept: Flags,
    names: Sequence[str],
    rng: np.random.Generator,
) -> tuple[Ints, Ints]:
    """Return for rows that are not kept a kept one that they may take cells from.

    What equals a kept row in all that is compared conflicts with no kept row, unless two equal rows
    do. A row gets one that agrees with it in as many of the first attributes as can be, and that
    has a value of all of them if any has.
    """
    able = kept.copy()
    for denial in denials:
        able &= ~violates_itself(denial, rows)
    whole = able & observed_on(names, rows)
    able = whole if whole.any() else able
    lacking, possible = np.flatnonzero(~kept), np.flatnonzero(able)
    if not possible.size:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    chosen = rng.choice(possible, size=lacking.size)
    open_ = np.ones(lacking.size, dtype=bool)
    for depth in range(len(names) - 1, 0, -1):
        found = _keys([rows.codes(name) for name in names[:depth]], len(rows))
        line = possible[np.argsort(found[possible], kind="stable")]
        wanted = found[lacking]
        first = np.searchsorted(found[line], wanted, side="left")
        many = np.searchsorted(found[line], wanted, side="right") - first
        hit = open_ & (many > 0)
        chosen[hit] = line[(first + np.floor(rng.random(lacking.size) * many).astype(int))[hit]]
        open_ &= ~hit
    return lacking, chosen


def redrawn(
    law: Heads,
    levels: tuple[Levels, ...],
    rows: Table,
    names: tuple[str, ...],
    rng: np.random.Generator,
) -> Table:
    """Return rows with some attributes drawn anew given the rest, numbers in the bins drawn."""
    schema = rows.schema
    place = {name: i for i, name in enumerate(schema.names)}
    known = zip(schema.names, levels, strict=True)
    groups = np.stack([level.groups[rows.codes(name)] for name, level in known], axis=1)
    drawn = redraw_cells(law, groups, tuple(place[n] for n in names), rng)
    codes = {n: levels[place[n]].split(drawn[:, place[n]], rng) for n in names}
    again = Table.from_codes(schema.subset(names), codes).with_values(rng)
    every = np.arange(len(rows))
    return put(rows, every, again, every, names)
