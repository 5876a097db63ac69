"""Rows that are kept of those that conflict, and cells that rows take from each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.inference.heads import Heads, redraw
from missdp.inference.model import Levels
from missdp.schema import Numeric, PairDenial, Schema
from missdp.sources.partners import observed_on, violates_itself, violating_partners
from missdp.synth.sampling import put
from missdp.table import Table

Rows: TypeAlias = Table
"""Synthetic rows."""

Flags: TypeAlias = NDArray[np.bool_]
Ints: TypeAlias = NDArray[np.int64]

_ROUNDS = 60  # in each of which at least one row is kept


def connected(schema: Schema, denials: Iterable[PairDenial]) -> list[list[PairDenial]]:
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
    >>> [len(group) for group in connected(schema, schema.rulebook.pairs)]
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


def conflicts(denials: Sequence[PairDenial], rows: Table, among: Table | None = None) -> Ints:
    """Count for each row the rows that it violates denial constraints with, once for each."""
    found = np.zeros(len(rows), dtype=np.int64)
    for denial in denials:
        found += violating_partners(denial, rows, among)
    return found


def without_conflicts(
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
        many = conflicts(denials, part)
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
        left = rest[conflicts(denials, rows.take(rest), part.take(free)) == 0]
        if not left.size:
            break
    return kept


def cells(table: Table, name: str) -> NDArray[Any]:
    """Values of a numeric attribute, else codes."""
    numeric = isinstance(table.schema[name], Numeric)
    return table.values(name) if numeric else table.codes(name).astype(np.int64)


def keys(columns: Sequence[NDArray[Any]], n: int) -> Ints:
    """Return one number for each row, the same for rows that agree in all columns.

    Examples
    --------
    >>> keys([np.array([5, 5, 7]), np.array([0.5, 0.5, 0.5])], 3).tolist()
    [0, 0, 1]
    """
    found = np.zeros(n, dtype=np.int64)
    for column in columns:
        values, codes = np.unique(column, return_inverse=True)
        found = np.unique(found * len(values) + codes, return_inverse=True)[1]
    return found


def donors(
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
        found = keys([rows.codes(name) for name in names[:depth]], len(rows))
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
    rows: Rows,
    names: tuple[str, ...],
    rng: np.random.Generator,
) -> Rows:
    """Return rows with some attributes drawn anew given the rest, numbers in the bins drawn."""
    schema = rows.schema
    place = {name: i for i, name in enumerate(schema.names)}
    known = zip(schema.names, levels, strict=True)
    groups = np.stack([level.groups[rows.codes(name)] for name, level in known], axis=1)
    drawn = redraw(law, groups, tuple(place[n] for n in names), rng)
    codes = {n: levels[place[n]].split(drawn[:, place[n]], rng) for n in names}
    again = Table.from_codes(schema.subset(names), codes).with_values(rng)
    every = np.arange(len(rows))
    return put(rows, every, again, every, names)
