"""Rows of a table completed by released laws, each by itself, as the schema's rules have them.

What a row becomes is a function of its own cells, of public facts and released laws, and of random
numbers that belong to its place in the table. A row that breaks a rule once it is filled is filled
again: its missing cells, and the values inside bins. If that does not help, its missing cells stay.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from missdp.inference.conditionals import Conditionals
from missdp.schema import AnyAttribute, Numeric, Schema
from missdp.schema.conditions import decided
from missdp.sources.filling import DRAWS, ROWS_AT_ONCE, Filling, fill_modelled, modelled_codes
from missdp.sources.modelled import Modelled
from missdp.table import Table
from missdp.table.encode import Column, code_dtype
from missdp.table.follow import Rows, known_cells
from missdp.threads import one_blas_thread
from missdp.types import Flags, Floats, Ints

_STREAM = (7, 1, 5)  # of random numbers: no other part of the library draws from it
_ROUNDS = 12  # in which a row that breaks a rule is filled again
_LOOSE = 12  # further ones, in which half of its holes become any level


@one_blas_thread()
def completed(
    table: Table,
    laws: Conditionals,
    *,
    entropy: int,
    draw: int = 0,
    filling: Filling = "random",
    first: int = 0,
) -> Table:
    """Return the table with its missing cells filled; private, as the table is.

    ``laws`` are of what is modelled of its attributes; random numbers come from ``entropy``, and
    each of several tables has ``draw`` of its own. With ``filling`` "likely", the likeliest level,
    or the middle of the likeliest bin; with "mean", the likeliest level, or the mean of a number's
    law. ``first`` is the place of the first row in a longer table, a multiple of `ROWS_AT_ONCE`.
    """
    found = {name: copy.deepcopy(table.column(name)) for name in table.schema.names}
    modelled = Modelled(table.schema)
    for block, start in enumerate(range(0, len(table), ROWS_AT_ONCE), first // ROWS_AT_ONCE):
        rows = np.arange(start, min(start + ROWS_AT_ONCE, len(table)))

        def uniforms(turn: int, width: int, *, n: int = len(rows), block: int = block) -> Floats:
            seed = np.random.SeedSequence(entropy, spawn_key=(*_STREAM, draw, turn, block))
            return np.random.default_rng(seed).random((n, width))  # row by row

        part = _Block(table.take(rows), laws, modelled, uniforms)
        for filled, cells in part.filled(filling):
            _fill(table.schema, found, rows[filled], cells)
    return Table(table.schema, found, kind=table.kind)


def _fill(
    schema: Schema, found: Mapping[str, Column], rows: Ints, cells: Mapping[str, Column]
) -> None:
    """Write cells into the holes of some rows; what was observed stays."""
    for attribute in schema:
        column, new = found[attribute.name], cells[attribute.name]
        holes = column.codes[rows] >= attribute.missing_code
        column.codes[rows[holes]] = new.codes[holes]
        if column.values is not None and new.values is not None:
            column.values[rows[holes]] = new.values[holes]


@dataclass
class _Block:
    """Some rows, and the random numbers of each: ``uniforms(turn, how many)``."""

    _table: Table
    _laws: Conditionals
    _modelled: Modelled
    _uniforms: Callable[[int, int], Floats]

    def __post_init__(self) -> None:
        self._names = self._modelled.schema.names
        self._numbers = [a.name for a in self._table.schema if isinstance(a, Numeric)]
        self._codes = modelled_codes(self._modelled.table(self._table))

    def filled(self, filling: Filling) -> Iterator[tuple[Ints, dict[str, Column]]]:
        """Yield rows with what to fill them with, once each; those that nothing fills are left."""
        lacking = np.flatnonzero(self._table.incomplete_rows())
        broken_before = self._already_broken(lacking)  # filled once, whatever rules say
        for turn in range(1 + _ROUNDS + _LOOSE):
            if not lacking.size:
                return
            cells, broken = self._attempt(lacking, turn, filling if turn == 0 else "random")
            good = ~broken | broken_before
            yield lacking[good], {name: column.take(good) for name, column in cells.items()}
            lacking, broken_before = lacking[~good], broken_before[~good]

    def _attempt(self, rows: Ints, turn: int, filling: Filling) -> tuple[dict[str, Column], Flags]:
        """Fill rows once; tell which of them then break a rule, or still have a hole."""
        part, wide = self._table.take(rows), DRAWS * len(self._names)
        drawn = self._uniforms(turn, wide + len(self._numbers))[rows]
        each = drawn[:, :wide].reshape(len(rows), DRAWS, len(self._names))
        codes = fill_modelled(self._laws, self._codes[rows], each, self._modelled, filling=filling)
        if turn > _ROUNDS:
            codes = self._loosened(codes, rows, turn)
        inside = drawn[:, wide:] if filling == "random" else np.full_like(drawn[:, wide:], 0.5)
        units = dict(zip(self._numbers, inside.T, strict=True))
        columns = {name: part.column(name) for name in part.schema.names}
        for place, name in enumerate(self._names):  # what follows from others has its holes still
            unit = units.get(name)
            mean = self._mean(place, rows) if filling == "mean" and unit is not None else None
            columns[name] = _with_cells(
                part.schema[name], columns[name], codes[:, place], unit, mean
            )
        return _ruled(part, columns)

    def _mean(self, place: int, rows: Ints) -> Floats:
        """Return the mean of a number's law given the observed cells of its row."""
        codes = self._codes[rows]
        attribute: Any = self._table.schema[self._names[place]]
        several = (codes >= np.array(self._laws.sizes)).sum(axis=1, keepdims=True) > 1
        some, whole = self._laws.given_some, self._laws.given_all
        law = np.where(several, some.of(place, codes), whole.of(place, codes))
        law = law[:, : attribute.size]  # without "not applicable"
        # Added up one after the other: rounded in each row as if it stood alone.
        total = np.cumsum(law, axis=1)[:, -1]
        return np.cumsum(law * attribute.centres, axis=1)[:, -1] / np.where(total > 0, total, 1)

    def _loosened(self, codes: Ints, rows: Ints, turn: int) -> Ints:
        """Let half of the missing cells be any level, for rows that no filling made obey the rules.

        Never "not applicable" where no rule says so.
        """
        d = len(self._names)
        drawn = self._uniforms(_ROUNDS + _LOOSE + turn, 2 * d)[rows]
        never = self._modelled.never_filled
        sizes = np.array([n - (a in never) for a, n in enumerate(self._laws.sizes)])
        anything = np.minimum(np.floor(drawn[:, :d] * sizes).astype(np.int64), sizes - 1)
        loose = (self._codes[rows] != codes) & (drawn[:, d:] < 0.5)
        return np.where(loose, anything, codes)

    def _already_broken(self, rows: Ints) -> Flags:
        """Tell which rows break a rule by what was observed, whatever their holes are."""
        part, found = self._table.take(rows), np.zeros(len(rows), dtype=bool)
        known = known_cells(part.schema, {n: part.column(n) for n in part.schema.names})
        for rule in part.schema.rulebook.bound:
            found |= rule.broken(known, len(rows))[0]
        return found


def _with_cells(
    attribute: AnyAttribute, column: Column, codes: Ints, unit: Floats | None, mean: Floats | None
) -> Column:
    """Return a column with codes in place of missing cells; numbers in their bins, or the mean.

    "Not applicable" has the same code in what is modelled as in the table.
    """
    hole = column.codes >= attribute.missing_code
    cells, values = np.where(hole, codes, column.codes), column.values
    if values is not None and unit is not None and isinstance(attribute, Numeric):
        absent = cells >= attribute.size
        drawn = attribute.decode(np.where(absent, 0, cells), unit)
        if mean is not None:
            drawn = np.clip(mean, attribute.lower, attribute.upper)
            drawn = np.rint(drawn) if attribute.integer else drawn
            cells = np.where(hole & ~absent, attribute.encode_values(drawn), cells)
        values = np.where(hole, np.where(absent, attribute.lower, drawn), values)
    return Column(cells.astype(code_dtype(attribute)), values)


def _ruled(part: Table, columns: dict[str, Column]) -> tuple[dict[str, Column], Flags]:
    """Let rules settle what follows from cells that were filled; tell which rows do not obey them.

    ``part`` are the rows before; what was observed in them stays, or the row does not obey.
    """
    schema, n = part.schema, len(part)
    book, broken = schema.rulebook, np.zeros(n, dtype=bool)
    if not book.bound:
        return columns, broken
    rows = Rows(schema, _but_one_term(part, columns))
    for rule in book.solved:
        rows.solve(rule)
    for target in book.order:
        if target in book.derives:
            rows.follow(book.derives[target], holes_only=True)
        if target in book.routes:
            surely, maybe = decided(book.routes[target].unless, rows.known, n)
            cell, observed = rows.known[target], ~part.mask(target)
            broken |= (surely & cell.absent) | (~maybe & cell.present & observed)
            rows.route(book.routes[target])
    for bound in book.bound:
        broken |= bound.broken(rows.known, n)[0]
    found = {name: rows.column(name) for name in schema.names}
    for attribute in schema:
        broken |= found[attribute.name].codes >= attribute.missing_code
    return found, broken


def _but_one_term(part: Table, columns: dict[str, Column]) -> dict[str, Column]:
    """Take back one filled term of each equation whose sum was observed: it follows from the rest.

    Two terms may have been missing, so that neither followed by itself.
    """
    schema, found = part.schema, dict(columns)
    for target, rule in schema.rulebook.derives.items():
        if rule.lookup is not None:
            continue
        open_ = ~part.mask(target)
        for name in reversed(rule.by):
            attribute = schema[name]
            take = open_ & (part.codes(name) >= attribute.missing_code)
            take &= found[name].codes < attribute.size
            codes = np.where(take, attribute.missing_code, found[name].codes)
            found[name] = Column(codes.astype(found[name].codes.dtype), found[name].values)
            open_ &= ~take
    return found
