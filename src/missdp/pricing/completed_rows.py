"""Rows of a table completed by released laws, each by itself, as the schema's rules have them.

What a row becomes is a function of its own cells, of public facts and released laws, and of random
numbers that belong to its place in the table. A row that breaks a rule once it is filled is filled
again: its holes, and the values inside bins. If that does not help, its holes stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from missdp.inference.conditionals import Conditionals
from missdp.pricing.domain import Floats
from missdp.schema import AnyAttribute, Categorical, Numeric, Schema
from missdp.schema.conditions import decided
from missdp.sources.filling import DRAWS, ROWS_AT_ONCE, Filling, fill_modelled, modelled_codes
from missdp.sources.modelled import Modelled
from missdp.table import Table
from missdp.table.encode import Column, code_dtype
from missdp.table.follow import Rows, known_cells
from missdp.threads import one_blas_thread

Codes = NDArray[np.int64]
Flags = NDArray[np.bool_]

_STREAM = (7, 1, 5)  # of random numbers: no other part of the library draws from it
_ROUNDS = 12  # in which a row that breaks a rule is filled again
_LOOSE = 12  # further ones, in which half of its holes become any level


@one_blas_thread()
def completed(
    table: Table,
    laws: Conditionals,
    modelled: Modelled,
    *,
    entropy: int,
    draw: int = 0,
    filling: Filling = "random",
    first: int = 0,
) -> Table:
    """Return the table with its holes filled; private, as the table is.

    ``laws`` are of what is modelled of its attributes; random numbers come from ``entropy``, and
    each of several tables has ``draw`` of its own. With ``filling`` "likely", the likeliest level,
    or the middle of the likeliest bin; with "mean", the likeliest level, or the mean of a number's
    law. ``first`` is the place of the first row in a longer table, a multiple of `ROWS_AT_ONCE`.
    """
    schema = table.schema
    found = {name: _copied(table.column(name)) for name in schema.names}
    for block, start in enumerate(range(0, len(table), ROWS_AT_ONCE), first // ROWS_AT_ONCE):
        rows = np.arange(start, min(start + ROWS_AT_ONCE, len(table)))

        def uniforms(turn: int, width: int, *, n: int = len(rows), block: int = block) -> Floats:
            seed = np.random.SeedSequence(entropy, spawn_key=(*_STREAM, draw, turn, block))
            return np.random.default_rng(seed).random((n, width))  # row by row

        part = _Block(table.take(rows), laws, modelled, uniforms)
        where, columns = part.filled(filling)
        for name, column in columns.items():
            found[name].codes[rows[where]] = column.codes
            values = found[name].values
            if values is not None and column.values is not None:
                values[rows[where]] = column.values
    return Table(schema, found, kind=table.kind)


def _copied(column: Column) -> Column:
    return Column(column.codes.copy(), None if column.values is None else column.values.copy())


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

    def filled(self, filling: Filling) -> tuple[Codes, dict[str, Column]]:
        """Return which rows have changed, and the columns of these rows."""
        table = self._table
        left = np.flatnonzero(table.incomplete_rows())
        if not left.size:
            return left, {}
        fresh, broken = self._attempt(left, 0, filling)
        if not table.schema.rulebook.bound:
            return left, fresh
        result = Table(table.schema, fresh)
        hopeless = self._already_broken(left)
        lacking = np.flatnonzero(broken & ~hopeless)
        for turn in range(1, 1 + _ROUNDS + _LOOSE):
            if not lacking.size:
                break
            again, broken = self._attempt(left[lacking], turn, "random")
            good = np.flatnonzero(~broken)
            result = _put(result, lacking[good], Table(table.schema, again).take(good))
            lacking = lacking[broken]
        result = _put(result, lacking, table.take(left[lacking]))  # as they came
        return left, _observed_kept(table.take(left), result)

    def _attempt(self, rows: Codes, turn: int, filling: Filling) -> tuple[dict[str, Column], Flags]:
        """Fill rows once; tell which of them then break a rule, or still have a hole."""
        wide = DRAWS * len(self._names)
        drawn = self._uniforms(turn, wide + len(self._numbers))[rows]
        each = drawn[:, :wide].reshape(len(rows), DRAWS, len(self._names))
        codes = fill_modelled(self._laws, self._codes[rows], each, self._modelled, filling=filling)
        if turn > _ROUNDS:
            codes = self._loosened(codes, rows, turn)
        inside = drawn[:, wide:] if filling == "random" else np.full((len(rows), 1), 0.5)
        spread = np.broadcast_to(inside, (len(rows), max(inside.shape[1], len(self._numbers))))
        unit = dict(zip(self._numbers, spread.T, strict=False))
        means = self._means(rows) if filling == "mean" else {}
        columns = self._with_cells(self._table.take(rows), codes, unit, means)
        if not self._table.schema.rulebook.bound:
            return columns, np.zeros(len(rows), dtype=bool)
        return _ruled(self._table.take(rows), columns)

    def _with_cells(
        self, part: Table, codes: Codes, unit: Mapping[str, Floats], means: Mapping[str, Floats]
    ) -> dict[str, Column]:
        """Return the columns with cells in place of holes; what follows from others still has its.

        "Not applicable" has the same code in what is modelled as in the table.
        """
        columns = {}
        place = {name: i for i, name in enumerate(self._names)}
        for attribute in part.schema:
            column = part.column(attribute.name)
            if attribute.name not in place:
                columns[attribute.name] = column
                continue
            hole = column.codes >= attribute.missing_code
            cells = np.where(hole, codes[:, place[attribute.name]], column.codes)
            values = column.values
            if values is not None and isinstance(attribute, Numeric):
                absent = cells >= attribute.size
                drawn = attribute.decode(np.where(absent, 0, cells), unit[attribute.name])
                if attribute.name in means:
                    drawn = means[attribute.name]
                    inside = attribute.encode_values(drawn)
                    cells = np.where(hole & ~absent, inside, cells)
                values = np.where(hole, np.where(absent, attribute.lower, drawn), values)
            columns[attribute.name] = Column(cells.astype(code_dtype(attribute)), values)
        return columns

    def _means(self, rows: Codes) -> dict[str, Floats]:
        """Return the mean of each number's law given the observed cells of its row."""
        codes, found = self._codes[rows], {}
        sizes = np.array(self._laws.sizes, dtype=np.int64)
        several = (codes >= sizes).sum(axis=1, keepdims=True) > 1
        for place, name in enumerate(self._names):
            attribute = self._table.schema[name]
            if not isinstance(attribute, Numeric):
                continue
            some, whole = self._laws.given_some, self._laws.given_all
            law = np.where(several, some.of(place, codes), whole.of(place, codes))
            law = law[:, : attribute.size]  # without "not applicable"
            # Added up one after the other: rounded in each row as if it stood alone.
            total = np.cumsum(law, axis=1)[:, -1]
            mean = np.cumsum(law * attribute.centres, axis=1)[:, -1] / np.where(total > 0, total, 1)
            mean = np.clip(mean, attribute.lower, attribute.upper)
            found[name] = np.rint(mean) if attribute.integer else mean
        return found

    def _loosened(self, codes: Codes, rows: Codes, turn: int) -> Codes:
        """Let half of the holes be any level, for rows that the laws do not fill as rules have it.

        Never "not applicable" where no rule says so.
        """
        d = len(self._names)
        drawn = self._uniforms(_ROUNDS + _LOOSE + turn, 2 * d)[rows]
        never = self._modelled.never_filled
        sizes = np.array([n - (a in never) for a, n in enumerate(self._laws.sizes)])
        anything = np.minimum(np.floor(drawn[:, :d] * sizes).astype(np.int64), sizes - 1)
        loose = (self._codes[rows] != codes) & (drawn[:, d:] < 0.5)
        return np.where(loose, anything, codes)

    def _already_broken(self, rows: Codes) -> Flags:
        """Tell which rows break a rule by what was observed, whatever their holes are."""
        part = self._table.take(rows)
        known = known_cells(part.schema, {n: part.column(n) for n in part.schema.names})
        bound = part.schema.rulebook.bound
        found: Flags = np.any([rule.broken(known, len(rows))[0] for rule in bound], axis=0)
        return found


def _ruled(part: Table, columns: dict[str, Column]) -> tuple[dict[str, Column], Flags]:
    """Let rules settle what follows from cells that were filled; tell which rows do not obey them.

    ``part`` are the rows before; what was observed in them stays, or the row does not obey.
    """
    schema, n = part.schema, len(part)
    book = schema.rulebook
    rows = Rows(schema, _but_one_term(part, columns))
    broken = np.zeros(n, dtype=bool)
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


def _observed_kept(before: Table, after: Table) -> dict[str, Column]:
    """Return columns in which every cell that was no hole is as it was."""
    columns = {}
    for attribute in before.schema:
        old, new = before.column(attribute.name), after.column(attribute.name)
        hole = old.codes >= attribute.missing_code
        values = new.values
        if values is not None and old.values is not None:
            values = np.where(hole, values, old.values)
        columns[attribute.name] = Column(np.where(hole, new.codes, old.codes), values)
    return columns


def _put(table: Table, where: Codes, other: Table) -> Table:
    """Return a table with some rows replaced."""
    columns = {}
    for name in table.schema.names:
        column, theirs = _copied(table.column(name)), other.column(name)
        column.codes[where] = theirs.codes
        if column.values is not None and theirs.values is not None:
            column.values[where] = theirs.values
        columns[name] = column
    return Table(table.schema, columns, kind=table.kind)


# The same for rows of numbers, as steps of preprocessing take them


def table_of(rows: Floats, schema: Schema) -> Table:
    """Return rows of numbers as a table: the inverse of `rows_of`, for any numbers.

    Each row is read by itself: numbers outside the domain become its ends, and of several columns
    of one attribute the largest is its level. A missing number makes the cell missing.
    """
    columns, start = {}, 0
    for attribute in schema:
        width = attribute.size if isinstance(attribute, Categorical) else 1
        columns[attribute.name] = _read(attribute, rows[:, start : start + width])
        start += width
    return Table(schema, columns)


def _read(attribute: AnyAttribute, numbers: Floats) -> Column:
    hole = np.asarray(np.isnan(numbers).any(axis=1))
    known = np.where(hole[:, None], 0.0, numbers)
    values = None
    if isinstance(attribute, Categorical):
        codes = known.argmax(axis=1)
    else:
        unit = (np.clip(known[:, 0], -1.0, 1.0) + 1) / 2
        if isinstance(attribute, Numeric):
            values = attribute.lower + unit * (attribute.upper - attribute.lower)
            values = np.clip(values, attribute.lower, attribute.upper)
            values = np.rint(values) if attribute.integer else values
            codes = attribute.encode_values(values)
            values = np.where(hole, attribute.lower, values)
        else:
            codes = np.rint(unit * (attribute.size - 1)).astype(np.int64)
    codes = np.where(hole, attribute.missing_code, codes)
    return Column(codes.astype(code_dtype(attribute)), values)
