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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from missdp.errors import ParameterError
from missdp.inference.conditionals import Conditionals
from missdp.schema import AnyAttribute, Date, Numeric, Schema
from missdp.schema.dates import completed_years, plus_years
from missdp.schema.modelled import ModelView, complete_schema
from missdp.schema.numeric import code_dtype
from missdp.session.modelled_rows import ModelledRow
from missdp.session.row_kernel import (
    ROWS_AT_ONCE,
    Block,
    Range,
    RowFunction,
    column_ranges,
    map_rows,
    row_function,
)
from missdp.table import Table
from missdp.table.encode import CodedColumn
from missdp.table.follow import RuledRows, cells_by_name
from missdp.threads import one_blas_thread
from missdp.types import Flags, Floats, Ints

Filling: TypeAlias = Literal["random", "likely", "mean"]

#: How often each hole of a row with several is drawn: all but the first time given all others.
SWEEPS = 4

#: Random numbers of each row for each attribute.
DRAWS = SWEEPS + 1


def _fill_codes(
    conditionals: Conditionals,
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
    holes = codes >= np.array(conditionals.sizes, dtype=np.int64)
    several = holes.sum(axis=1) > 1
    never = never or {}
    for a in conditionals.order:
        for given, chosen in (
            (conditionals.given_all, ~several),
            (conditionals.given_some, several),
        ):
            rows = np.flatnonzero(holes[:, a] & chosen)
            known = filled if filling == "random" else codes
            distribution = _without(given.of(a, known[rows]), never.get(a))
            likeliest = filling != "random"
            filled[rows, a] = (
                distribution.argmax(axis=1)
                if likeliest
                else _drawn(distribution, uniforms[rows, 0, a])
            )
    for sweep in range(1, SWEEPS) if filling == "random" else ():
        for a in conditionals.order:
            rows = np.flatnonzero(holes[:, a] & several)
            distribution = _without(conditionals.given_all.of(a, filled[rows]), never.get(a))
            filled[rows, a] = _drawn(distribution, uniforms[rows, sweep, a])
    return filled


def _without(distribution: Floats, level: int | None) -> Floats:
    """Return the laws without a level; uniform on the others if it had all the mass."""
    if level is None:
        return distribution
    distribution[:, level] = 0.0
    lost = ~(distribution > 0).any(axis=1)
    distribution[lost] = 1.0
    distribution[lost, level] = 0.0
    return distribution


def _drawn(distribution: Floats, uniforms: Floats) -> Ints:
    """Draw a level of each row's law, which need not add up to one."""
    ends = np.cumsum(distribution, axis=1)
    last = ends[:, -1]
    place = np.minimum(uniforms * last, np.nextafter(last, 0.0))
    found: Ints = (ends > place[:, None]).argmax(axis=1)
    return found


def modelled_codes(table: Table) -> Ints:
    """Return the codes of what is modelled of a table, one column for each attribute."""
    block = map_rows(ModelledRow(table.schema), table.block(), len(table))
    found = np.empty((len(table), len(block)), dtype=np.int64)
    for place, codes in enumerate(block.values()):
        found[:, place] = codes
    return found


def _fill_modelled(
    conditionals: Conditionals,
    codes: Ints,
    uniforms: Floats,
    modelled: ModelView,
    *,
    filling: Filling = "random",
) -> Ints:
    """Fill missing cells of modelled rows, "not applicable" being a level while they are drawn."""
    filled = _fill_codes(
        conditionals, codes, uniforms, never=modelled.never_imputed, filling=filling
    )
    names = modelled.schema.names
    lacking = modelled.wrongly_not_applicable(dict(zip(names, filled.T, strict=True)))
    for place, name in enumerate(names):
        if name not in lacking:
            continue
        rows = np.flatnonzero(lacking[name] & (codes[:, place] != filled[:, place]))
        distribution = _without(
            conditionals.given_all.of(place, filled[rows]), modelled.not_applicable_levels[place]
        )
        filled[rows, place] = _drawn(distribution, uniforms[rows, SWEEPS, place])
    return filled


@row_function
@dataclass(frozen=True, eq=False)
class MarginallyFilledRow(RowFunction):
    """A modelled row whose missing cells are drawn from released marginals, each by itself.

    Attributes
    ----------
    schema : Schema
        The declared schema. What it says is not applicable becomes so after cells are drawn.
    distributions : mapping of str to ndarray
        For each nullable modelled attribute a released probability for each level.
    """

    schema: Schema
    distributions: Mapping[str, Floats]

    def __post_init__(self) -> None:
        modelled = self._modelled
        distributions = {
            name: modelled.without_not_applicable(
                name, _distribution(modelled.schema[name], self.distributions)
            )
            for name in modelled.schema.nullable
        }
        object.__setattr__(self, "distributions", distributions)
        super().__post_init__()

    @cached_property
    def _modelled(self) -> ModelView:
        return ModelView(self.schema)

    @cached_property
    def columns(self) -> Mapping[Any, Range]:
        """The codes of all modelled attributes, of which none is missing."""
        return column_ranges(complete_schema(self._modelled.schema))

    @property
    def draws(self) -> int:
        """One for each modelled attribute."""
        return len(self._modelled.schema)

    def of_rows(self, rows: Block, uniforms: Floats) -> Block:
        """Return the rows without missing cells."""
        codes = {}
        for place, attribute in enumerate(self._modelled.schema):
            cells = rows[attribute.name].astype(np.int64)
            if attribute.nullable:
                missing, distribution = cells >= attribute.size, self.distributions[attribute.name]
                ends = np.cumsum(distribution) / np.sum(distribution)
                drawn = np.searchsorted(ends, uniforms[missing, place], side="right")
                cells[missing] = np.minimum(drawn, np.flatnonzero(distribution)[-1])
            codes[attribute.name] = cells
        return _settled(self._modelled, codes)


def _distribution(attribute: AnyAttribute, distributions: Mapping[str, ArrayLike]) -> Floats:
    """Return the probability of each level, as a fraction of all."""
    distribution = np.array(distributions.get(attribute.name, ()), dtype=np.float64)
    if (
        distribution.shape != (attribute.size,)
        or not (distribution >= 0).all()
        or not distribution.any()
    ):
        raise ParameterError(f"the law of {attribute.name} must have a probability for each level")
    return np.asarray(distribution / distribution.sum())


def _settled(modelled: ModelView, codes: dict[str, Ints]) -> Block:
    """Return filled codes, settled by rules, in the types of the complete schema."""
    settled = modelled.apply_routing(codes)
    return {a.name: settled[a.name].astype(code_dtype(a)) for a in complete_schema(modelled.schema)}


_STREAM = (7, 1, 5)  # of random numbers: no other part of the library draws from it
_ROUNDS = 12  # in which a row that breaks a rule is filled again
_LOOSE = 12  # further ones, in which half of its missing cells become any level


@row_function
@dataclass(frozen=True, eq=False)
class CompletedRow(RowFunction):
    """A row whose missing cells are filled by laws of what is modelled, with values inside bins.

    A row that breaks a rule once it is filled is filled again, with other random numbers. If that
    does not help, its missing cells stay.

    Attributes
    ----------
    schema : Schema
        The declared schema.
    valued : tuple of str
        The attributes of which there are numbers besides codes.
    conditionals : Conditionals
        The released distribution of each modelled attribute given all others.
    filling : {"random", "likely", "mean"}
        How a cell is filled from its distribution.
    """

    schema: Schema
    valued: tuple[str, ...]
    conditionals: Conditionals
    filling: Filling = "random"

    def __post_init__(self) -> None:
        sizes = [attribute.size for attribute in self.modelled.schema]
        # A copy that nobody can change, of a class that does nothing else.
        object.__setattr__(self, "conditionals", Conditionals.fixed(self.conditionals, sizes))
        super().__post_init__()

    @cached_property
    def modelled(self) -> ModelView:
        """What is modelled of the schema."""
        return ModelView(self.schema)

    @cached_property
    def columns(self) -> Mapping[Any, Range]:
        """The codes of all attributes, and the numbers of some."""
        return column_ranges(self.schema, self.valued)

    @cached_property
    def draws(self) -> int:
        """Those of the first attempt, and one from which those of further attempts follow."""
        numbers = sum(isinstance(a, Numeric) for a in self.schema)
        return DRAWS * len(self.modelled.schema) + numbers + 1

    def of_rows(self, rows: Block, uniforms: Floats) -> Block:
        """Return the rows with their missing cells filled."""
        table = Table.of_block(self.schema, rows)
        found = {name: copy.deepcopy(table.column(name)) for name in table.schema.names}
        part = _Block(table, self.conditionals, self.modelled, partial(_attempt_numbers, uniforms))
        for filled, cells in part.filled(self.filling):
            _fill(table.schema, found, filled, cells)
        return Table(self.schema, found).block()


def _attempt_numbers(uniforms: Floats, turn: int, width: int) -> Floats:
    """Return so many uniform numbers of each row for an attempt to fill it.

    Those of further attempts are hashes of the last number of the row (SplitMix64).
    """
    if turn == 0:
        return uniforms[:, :width]
    seeds = (uniforms[:, -1] * 2.0**53).astype(np.uint64)
    places = np.arange(1, width + 1, dtype=np.uint64) + np.uint64(turn << 32)
    mixed = seeds[:, None] * np.uint64(0xD1342543DE82EF95) + places * np.uint64(_GOLDEN)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return np.asarray((mixed >> np.uint64(11)) * 2.0**-53, dtype=np.float64)


_GOLDEN = 0x9E3779B97F4A7C15  # SplitMix64's step


@one_blas_thread()
def complete_table(
    table: Table,
    conditionals: Conditionals,
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
    rows = table.block()
    valued = tuple(n for n in table.schema.names if table.column(n).values is not None)
    function, parts = CompletedRow(table.schema, valued, conditionals, filling), []
    starts = range(0, max(1, len(table)), ROWS_AT_ONCE)
    for block, start in enumerate(starts, first // ROWS_AT_ONCE):
        part = {key: column[start : start + ROWS_AT_ONCE] for key, column in rows.items()}
        seed = np.random.SeedSequence(entropy, spawn_key=(*_STREAM, draw, block))
        size = min(ROWS_AT_ONCE, len(table) - start)
        parts.append(map_rows(function, part, size, np.random.default_rng(seed)))
    found = {key: np.concatenate([part[key] for part in parts]) for key in rows}
    return Table.of_block(table.schema, found, kind=table.kind)


def _fill(
    schema: Schema, found: Mapping[str, CodedColumn], rows: Ints, cells: Mapping[str, CodedColumn]
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
    _modelled: ModelView
    _uniforms: Callable[[int, int], Floats]

    def __post_init__(self) -> None:
        self._names = self._modelled.schema.names
        self._numbers = [a.name for a in self._table.schema if isinstance(a, Numeric)]
        self._codes = modelled_codes(self._table)

    def filled(self, filling: Filling) -> Iterator[tuple[Ints, dict[str, CodedColumn]]]:
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

    def _attempt(
        self, rows: Ints, turn: int, filling: Filling
    ) -> tuple[dict[str, CodedColumn], Flags]:
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
        distribution = np.where(several, some.of(place, codes), whole.of(place, codes))
        distribution = distribution[:, : attribute.size]  # without "not applicable"
        # Added up one after the other: rounded in each row as if it stood alone.
        total = np.cumsum(distribution, axis=1)[:, -1]
        return np.cumsum(distribution * attribute.centres, axis=1)[:, -1] / np.where(
            total > 0, total, 1
        )

    def _loosened(self, codes: Ints, rows: Ints, turn: int) -> Ints:
        """Let half of the missing cells be any level, for rows that no filling made obey."""
        d = len(self._names)
        drawn = self._uniforms(_ROUNDS + _LOOSE + turn, 2 * d)[rows]
        never = self._modelled.never_imputed
        sizes = np.array([n - (a in never) for a, n in enumerate(self._laws.sizes)])
        anything = np.minimum(np.floor(drawn[:, :d] * sizes).astype(np.int64), sizes - 1)
        loose = (self._codes[rows] != codes) & (drawn[:, d:] < 0.5)
        return np.where(loose, anything, codes)

    def _already_broken(self, rows: Ints) -> Flags:
        """Tell which rows break a rule by what was observed, whatever their holes are."""
        part, found = self._table.take(rows), np.zeros(len(rows), dtype=bool)
        known = cells_by_name(part.schema, {n: part.column(n) for n in part.schema.names})
        for rule in part.schema.rule_set.bound:
            found |= rule.broken(known, len(rows)).is_true
        return found


def _with_cells(
    attribute: AnyAttribute,
    column: CodedColumn,
    codes: Ints,
    unit: Floats | None,
    mean: Floats | None,
) -> CodedColumn:
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
    return CodedColumn(cells.astype(code_dtype(attribute)), values)


def _ruled(part: Table, columns: dict[str, CodedColumn]) -> tuple[dict[str, CodedColumn], Flags]:
    """Let rules settle what follows from cells that were filled; tell which rows disobey."""
    schema, n = part.schema, len(part)
    book, broken = schema.rule_set, np.zeros(n, dtype=bool)
    if not book.bound:
        return columns, broken
    rows = RuledRows(schema, _at_observed_years(part, _but_one_term(part, columns)))
    for rule in book.solved:
        rows.solve(rule)
    for target in book.order:
        if target in book.derived:
            rows.follow(book.derived[target], missing_only=True)
        if target in book.routing:
            applies = book.routing[target].unless.truth(rows.cells, n)
            cell, observed = rows.cells[target], ~part.mask(target)
            broken |= applies.is_true & cell.not_applicable
            broken |= applies.is_false & cell.has_value & observed
            rows.route(book.routing[target])
    for bound in book.bound:
        broken |= bound.broken(rows.cells, n).is_true
    found = {name: rows.column(name) for name in schema.names}
    for attribute in schema:
        broken |= found[attribute.name].codes >= attribute.missing_code
    return found, broken


def _but_one_term(part: Table, columns: dict[str, CodedColumn]) -> dict[str, CodedColumn]:
    """Take back one filled term of each equation whose sum was observed: it follows."""
    schema, found = part.schema, dict(columns)
    for target, rule in schema.rule_set.derived.items():
        if not rule.is_linear:
            continue
        open_ = ~part.mask(target)
        for name in reversed(rule.by):
            attribute = schema[name]
            take = open_ & (part.codes(name) >= attribute.missing_code)
            take &= found[name].codes < attribute.size
            codes = np.where(take, attribute.missing_code, found[name].codes)
            found[name] = CodedColumn(codes.astype(found[name].codes.dtype), found[name].values)
            open_ &= ~take
    return found


def _at_observed_years(part: Table, columns: dict[str, CodedColumn]) -> dict[str, CodedColumn]:
    """Move one filled date by whole years where the years between two dates were observed.

    Otherwise only one filling in a hundred or so would agree with the age that was observed.
    """
    schema, found = part.schema, dict(columns)
    for target, rule in schema.rule_set.derived.items():
        cells = [found[name].values for name in (*rule.by, target)]
        if rule.units is None or any(values is None for values in cells):
            continue
        first, last, observed = (np.asarray(values) for values in cells)
        there = found[target].codes < schema[target].size
        for name in rule.by:
            there &= found[name].codes < schema[name].size
        excess = np.where(there, completed_years(first, last, rule.units) - observed, 0.0)
        for name, values, years in zip(rule.by, (first, last), (excess, -excess), strict=True):
            date = schema[name]
            assert isinstance(date, Date)
            moved = date.round_down(plus_years(values, years, date.unit))
            take = there & (part.codes(name) >= date.missing_code)
            there &= ~take
            take &= (date.lower <= moved) & (moved <= date.upper)  # others are filled again
            moved = np.where(take, moved, values)
            codes = np.where(take, date.encode_values(np.clip(moved, date.lower, date.upper)), 0)
            codes = np.where(take, codes, found[name].codes).astype(found[name].codes.dtype)
            found[name] = CodedColumn(codes, moved)
    return found
