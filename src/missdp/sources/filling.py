"""Missing cells filled from released distributions. A filled row is a function of three things.

They are the row itself, the laws, and random numbers that belong to its place in the table. So
adding or removing a row still adds or removes one filled row, and whatever is proven of counts of
rows holds of counts of filled ones (proof: ``_fill_codes``). Laws are plain numbers, fixed
when they come in: nothing that fills a row can look at another one. Where a schema has rules, a row
that breaks one once it is filled is filled again: its missing cells, and the values inside bins. If
that does not help, its missing cells stay.
"""

from __future__ import annotations

import copy
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from missdp.inference.conditionals import Conditionals
from missdp.schema import AnyAttribute, Numeric, Schema
from missdp.schema.conditions import decided
from missdp.sources.counts import (
    Counter,
    CountingSource,
    MarginalSource,
    MemorySource,
    RowWeight,
    count_block,
    offers,
)
from missdp.sources.modelled import Modelled
from missdp.sources.streamed import CodeBlock
from missdp.table import Table
from missdp.table.encode import Column, code_dtype
from missdp.table.follow import Rows, known_cells
from missdp.table.memory import memory_in_force
from missdp.table.table import in_order
from missdp.threads import one_blas_thread
from missdp.types import Flags, Floats, Ints

Filling: TypeAlias = Literal["random", "likely", "mean"]

#: How often each hole of a row with several is drawn: all but the first time given all others.
SWEEPS = 4

#: Random numbers of each row for each attribute.
DRAWS = SWEEPS + 1

ROWS_AT_ONCE = 4096


def _fill_codes(
    laws: Conditionals,
    codes: Ints,
    uniforms: Floats,
    *,
    never: Mapping[int, int] | None = None,
    filling: Filling = "random",
) -> Ints:
    """Fill the missing cells of rows, each row by itself, from released laws.

    A missing cell alone is drawn from its law given all other cells. Of several missing cells in a
    row each is first drawn given what is known by then, and then, in turns, given all other cells
    (Gibbs sampling).

    Row i becomes f(row i, uniforms i), with one f that is fixed by the laws: nothing is added up
    over rows, and products, quotients and running sums of doubles are rounded in each row as if it
    stood alone. So tables that differ by one added or removed row become, for equal uniforms of the
    common rows, tables that differ by one added or removed row. The uniforms of different rows are
    independent and have the same law, so whichever row is added, they can be taken to be equal; a
    mechanism that bounds what one row changes does so for every value of the uniforms, and so on
    average over them (differential privacy is preserved by mixing with weights that do not depend
    on the table). The laws were released before: that is paid for, and this costs nothing.
    """
    filled = codes.copy()
    holes = codes >= np.array(laws.sizes, dtype=np.int64)
    several = holes.sum(axis=1) > 1
    never = never or {}
    for a in laws.order:
        for given, chosen in ((laws.given_all, ~several), (laws.given_some, several)):
            rows = np.flatnonzero(holes[:, a] & chosen)
            known = filled if filling == "random" else codes
            law = _without(given.of(a, known[rows]), never.get(a))
            likeliest = filling != "random"
            filled[rows, a] = law.argmax(axis=1) if likeliest else _drawn(law, uniforms[rows, 0, a])
    for sweep in range(1, SWEEPS) if filling == "random" else ():
        for a in laws.order:
            rows = np.flatnonzero(holes[:, a] & several)
            law = _without(laws.given_all.of(a, filled[rows]), never.get(a))
            filled[rows, a] = _drawn(law, uniforms[rows, sweep, a])
    return filled


def _without(law: Floats, level: int | None) -> Floats:
    """Return the laws without a level; uniform on the others if it had all the mass."""
    if level is None:
        return law
    law[:, level] = 0.0
    lost = ~(law > 0).any(axis=1)
    law[lost] = 1.0
    law[lost, level] = 0.0
    return law


def _drawn(law: Floats, uniforms: Floats) -> Ints:
    """Draw a level of each row's law, which need not add up to one."""
    ends = np.cumsum(law, axis=1)
    last = ends[:, -1]
    place = np.minimum(uniforms * last, np.nextafter(last, 0.0))
    found: Ints = (ends > place[:, None]).argmax(axis=1)
    return found


def filled_given_all(
    source: MarginalSource, laws: Conditionals, rng: np.random.Generator, modelled: Modelled
) -> MarginalSource:
    """Return rows whose missing cells are drawn given the rest of the row, and settled again."""
    names = source.schema.names

    def filled(block: CodeBlock) -> dict[str, Ints]:
        codes = np.stack([block[name].astype(np.int64) for name in names], axis=1)
        for start in range(0, len(codes), ROWS_AT_ONCE):
            part = codes[start : start + ROWS_AT_ONCE]
            uniforms = rng.random((len(part), DRAWS, codes.shape[1]))
            codes[start : start + ROWS_AT_ONCE] = _fill_modelled(laws, part, uniforms, modelled)
        return dict(zip(names, codes.T, strict=True))

    return _settled(source, filled, modelled)


def modelled_codes(table: Table) -> Ints:
    """Return the codes of a table, one column for each attribute."""
    found = np.empty((len(table), len(table.schema)), dtype=np.int64)
    for place, name in enumerate(table.schema.names):
        found[:, place] = table.codes(name)
    return found


def _fill_modelled(
    laws: Conditionals,
    codes: Ints,
    uniforms: Floats,
    modelled: Modelled,
    *,
    filling: Filling = "random",
) -> Ints:
    """Fill missing cells of modelled rows, "not applicable" being a level while they are drawn."""
    filled = _fill_codes(laws, codes, uniforms, never=modelled.never_filled, filling=filling)
    names = modelled.schema.names
    lacking = modelled.lacking(dict(zip(names, filled.T, strict=True)))
    for place, name in enumerate(names):
        if name not in lacking:
            continue
        rows = np.flatnonzero(lacking[name] & (codes[:, place] != filled[:, place]))
        law = _without(laws.given_all.of(place, filled[rows]), modelled.absent[place])
        filled[rows, place] = _drawn(law, uniforms[rows, SWEEPS, place])
    return filled


def filled_rows(
    source: MarginalSource,
    laws: Mapping[str, Floats],
    rng: np.random.Generator,
    modelled: Modelled,
) -> MarginalSource:
    """Return rows whose missing cells are drawn from released margins, each by itself; settled."""
    schema = source.schema

    def filled(block: CodeBlock) -> dict[str, Ints]:
        codes = {}
        # Row by row, so that rows are filled alike however many come at once.
        uniforms = rng.random((len(block[schema.names[0]]), len(schema)))
        for place, attribute in enumerate(schema):
            cells = block[attribute.name].astype(np.int64)
            if attribute.nullable:
                hole, law = cells >= attribute.size, laws[attribute.name]
                ends = np.cumsum(law) / np.sum(law)
                drawn = np.searchsorted(ends, uniforms[hole, place], side="right")
                cells[hole] = np.minimum(drawn, np.flatnonzero(law)[-1])
            codes[attribute.name] = cells
        return codes

    return _settled(source, filled, modelled)


_SHARE = 0.25  # of the memory in force, for codes


class _CodeStore(CountingSource):
    """Rows that were filled while they streamed, once, so that every count sees the same rows.

    Their codes, one or two bytes for each cell, are in memory as long as there is room, then in a
    temporary file, which has no name where the system can do that: nothing is left of it when the
    process ends, however it ends.
    """

    def __init__(self, schema: Schema, blocks: Iterable[CodeBlock]) -> None:
        super().__init__(schema)
        self._types = {a.name: np.dtype(code_dtype(a)) for a in schema}
        self._sizes: list[int] = []  # of blocks
        self._lock = threading.Lock()  # several counts read the one file
        room = max(1, int(_SHARE * memory_in_force()))
        self._file = tempfile.SpooledTemporaryFile(room, prefix="missdp-")  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        for block in blocks:
            self._sizes.append(len(block[schema.names[0]]))
            for name, kind in self._types.items():
                self._file.write(block[name].astype(kind).data)

    def _count(self, counter: Counter, weight: RowWeight | None) -> None:
        def count(block: CodeBlock) -> None:
            count_block(counter, block, len(block[self.schema.names[0]]), weight)

        for _ in in_order(count, self._blocks()):
            pass

    def _blocks(self) -> Iterator[CodeBlock]:
        width, start = sum(kind.itemsize for kind in self._types.values()), 0
        for size in self._sizes:
            with self._lock:
                self._file.seek(start)
                block = self._file.read(size * width)
            start, at, codes = start + size * width, 0, {}
            for name, kind in self._types.items():
                codes[name] = np.frombuffer(block, kind, size, at)
                at += size * kind.itemsize
            yield codes


def _settled(
    source: MarginalSource,
    filled: Callable[[CodeBlock], dict[str, Ints]],
    modelled: Modelled,
) -> MarginalSource:
    """Return the rows filled, and settled by rules: at once, or block by block as they stream."""
    complete = complete_schema(source.schema)
    if isinstance(source, MemorySource):

        def whole(table: Table) -> Table:
            cells = {name: table.codes(name) for name in table.schema.names}
            return Table.from_codes(complete, modelled.settled(filled(cells)), kind=table.kind)

        return source.later(complete, whole)
    assert offers(source, "code_blocks")  # checked before anything was charged
    blocks = source.code_blocks()  # type: ignore[attr-defined]
    return _CodeStore(complete, (modelled.settled(filled(block)) for block in blocks))


def complete_schema(schema: Schema) -> Schema:
    """Return the schema of a table whose holes have been filled."""
    facts: dict[str, Any] = {"nullable": False, "missing_codes": (), "outside": "error"}
    return Schema(tuple(replace(a, **facts, labels=()) for a in schema))


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
    """Return the table with its missing cells filled by laws of what is modelled; private.

    Random numbers come from ``entropy``, and each of several tables has ``draw`` of its own.
    ``first`` is the place of the first row in a longer table, a multiple of `ROWS_AT_ONCE`.
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
        codes = _fill_modelled(self._laws, self._codes[rows], each, self._modelled, filling=filling)
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
        """Let half of the missing cells be any level, for rows that no filling made obey."""
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
    """Return a column with codes in place of missing cells; numbers in their bins, or the mean."""
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
    """Let rules settle what follows from cells that were filled; tell which rows disobey."""
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
    """Take back one filled term of each equation whose sum was observed: it follows."""
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
