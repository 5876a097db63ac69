"""Filling of missing cells from released distributions.

A filled row is a function of the row, of the distributions, and of random numbers for its place in
the table. Adding or removing a row therefore adds or removes one filled row. Every bound for counts
of rows also holds for counts of filled rows (proof: ``_fill_codes``). Distributions are copied as
plain numbers at construction, so filling a row never depends on another row. If a filled row breaks
a rule of the schema, its missing cells and the values inside bins are drawn again. After several
attempts the missing cells stay missing.
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

#: Draws of each missing cell in a row with several. All but the first are given all other cells.
SWEEPS = 4

#: Random numbers per row and attribute.
DRAWS = SWEEPS + 1


def _fill_codes(
    model: Conditionals,
    codes: Ints,
    uniforms: Floats,
    *,
    never: Mapping[int, int] | None = None,
    filling: Filling = "random",
) -> Ints:
    """Fill the missing cells of rows from released distributions, each row independently.

    A single missing cell is drawn from its distribution given all other cells. Several missing
    cells of a row are first drawn in order, each given the cells that are complete so far. Then
    they are drawn in turns, each given all other cells (Gibbs sampling).

    Row i becomes f(row i, uniforms i), with one f that is fixed by the distributions. No sum runs
    over rows, and floating-point results of a row do not depend on other rows. Consider two tables
    that differ by one added or removed row, with equal uniforms of the common rows. The filled
    tables differ by one added or removed row. The uniforms of rows are independent and identically
    distributed, so they can be taken to be equal for any added row. A mechanism that bounds the
    effect of one row does so for every value of the uniforms, and hence on average. Mixing with
    weights that do not depend on the table preserves differential privacy. The distributions were
    released and charged before, so filling costs no privacy.
    """
    filled = codes.copy()
    missing = codes >= np.array(model.sizes, dtype=np.int64)
    several = missing.sum(axis=1) > 1
    never, random = never or {}, filling == "random"
    for a in model.order:
        for condition, chosen in ((model.given_all, ~several), (model.given_some, several)):
            rows = np.flatnonzero(missing[:, a] & chosen)
            cells = filled if random else codes
            weights = _without(condition.of(a, cells[rows]), never.get(a))
            draws = uniforms[rows, 0, a]
            filled[rows, a] = _drawn(weights, draws) if random else weights.argmax(axis=1)
    for sweep in range(1, SWEEPS) if random else ():
        for a in model.order:
            rows = np.flatnonzero(missing[:, a] & several)
            weights = _without(model.given_all.of(a, filled[rows]), never.get(a))
            filled[rows, a] = _drawn(weights, uniforms[rows, sweep, a])
    return filled


def _without(weights: Floats, level: int | None) -> Floats:
    """Return distributions without a level, uniform on other levels if it had all the mass."""
    if level is None:
        return weights
    weights[:, level] = 0.0
    lost = ~(weights > 0).any(axis=1)
    weights[lost] = 1.0
    weights[lost, level] = 0.0
    return weights


def _drawn(weights: Floats, uniforms: Floats) -> Ints:
    """Draw a level for each row from its weights, which need not sum to 1."""
    ends = np.cumsum(weights, axis=1)
    last = ends[:, -1]
    place = np.minimum(uniforms * last, np.nextafter(last, 0.0))
    levels: Ints = (ends > place[:, None]).argmax(axis=1)
    return levels


def modelled_codes(table: Table) -> Ints:
    """Return the codes of the modelled attributes of a table, one column per attribute."""
    block = map_rows(ModelledRow(table.schema), table.block(), len(table))
    return np.column_stack([codes.astype(np.int64) for codes in block.values()])


def _fill_modelled(
    model: Conditionals,
    codes: Ints,
    uniforms: Floats,
    modelled: ModelView,
    *,
    filling: Filling = "random",
) -> Ints:
    """Fill missing cells of modelled rows. "Not applicable" is a level in the draws."""
    filled = _fill_codes(model, codes, uniforms, never=modelled.never_imputed, filling=filling)
    names = modelled.schema.names
    wrong = modelled.wrongly_not_applicable(dict(zip(names, filled.T, strict=True)))
    for place, name in enumerate(names):
        if name not in wrong:
            continue
        rows = np.flatnonzero(wrong[name] & (codes[:, place] != filled[:, place]))
        level = modelled.not_applicable_levels[place]
        weights = _without(model.given_all.of(place, filled[rows]), level)
        filled[rows, place] = _drawn(weights, uniforms[rows, SWEEPS, place])
    return filled


@row_function
@dataclass(frozen=True, eq=False)
class MarginallyFilledRow(RowFunction):
    """Row function that draws missing cells from released marginals, each cell independently.

    Attributes
    ----------
    schema : Schema
        The declared schema. Its rules set cells to "not applicable" after the draws.
    distributions : mapping of str to ndarray
        Released probabilities of the levels of each nullable modelled attribute.
    """

    schema: Schema
    distributions: Mapping[str, Floats]

    def __post_init__(self) -> None:
        modelled = self._modelled
        nullable = (modelled.schema[name] for name in modelled.schema.nullable)
        weights = {a.name: _distribution(a, self.distributions) for a in nullable}
        distributions = {n: modelled.without_not_applicable(n, w) for n, w in weights.items()}
        object.__setattr__(self, "distributions", distributions)
        super().__post_init__()

    @cached_property
    def _modelled(self) -> ModelView:
        return ModelView(self.schema)

    @cached_property
    def columns(self) -> Mapping[Any, Range]:
        """The codes of all modelled attributes, without missing cells."""
        return column_ranges(complete_schema(self._modelled.schema))

    @property
    def draws(self) -> int:
        """Number of draws: one for each modelled attribute."""
        return len(self._modelled.schema)

    def apply(self, rows: Block, uniforms: Floats) -> Block:
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
        return _routed(self._modelled, codes)


def _distribution(attribute: AnyAttribute, distributions: Mapping[str, ArrayLike]) -> Floats:
    """Return the probabilities of the levels, normalized."""
    distribution = np.array(distributions.get(attribute.name, ()), dtype=np.float64)
    if (
        distribution.shape != (attribute.size,)
        or not (distribution >= 0).all()
        or not distribution.any()
    ):
        why = f"the distribution of {attribute.name} must have a probability for each level"
        raise ParameterError(why)
    return np.asarray(distribution / distribution.sum())


def _routed(modelled: ModelView, codes: dict[str, Ints]) -> Block:
    """Return filled codes after the rules, in the types of the complete schema."""
    routed = modelled.apply_routing(codes)
    return {a.name: routed[a.name].astype(code_dtype(a)) for a in complete_schema(modelled.schema)}


_STREAM = (7, 1, 5)  # key of the random numbers of this module
_ROUNDS = 12  # attempts to fill a row that breaks a rule
_LOOSE = 12  # later attempts, with uniform levels in half of the missing cells


@row_function
@dataclass(frozen=True, eq=False)
class CompletedRow(RowFunction):
    """Row function that fills missing cells from a released model, with values inside bins.

    A filled row that breaks a rule is filled again, with other random numbers. After several
    attempts its missing cells stay missing.

    Attributes
    ----------
    schema : Schema
        The declared schema.
    valued : tuple of str
        The attributes with numbers in addition to codes.
    conditionals : Conditionals
        The released distribution of each modelled attribute given all others.
    filling : {"random", "likely", "mean"}
        Choice of a level: a draw, the most likely level, or the mean of a number.
    """

    schema: Schema
    valued: tuple[str, ...]
    conditionals: Conditionals
    filling: Filling = "random"

    def __post_init__(self) -> None:
        sizes = [attribute.size for attribute in self.modelled.schema]
        # This is an immutable copy of a fixed class.
        object.__setattr__(self, "conditionals", Conditionals.fixed(self.conditionals, sizes))
        super().__post_init__()

    @cached_property
    def modelled(self) -> ModelView:
        """The modelled view of the schema."""
        return ModelView(self.schema)

    @cached_property
    def columns(self) -> Mapping[Any, Range]:
        """The codes of all attributes, and the numbers of the attributes ``valued``."""
        return column_ranges(self.schema, self.valued)

    @cached_property
    def draws(self) -> int:
        """Number of draws: those of the first attempt, and a seed for later attempts."""
        numbers = sum(isinstance(a, Numeric) for a in self.schema)
        return DRAWS * len(self.modelled.schema) + numbers + 1

    def apply(self, rows: Block, uniforms: Floats) -> Block:
        """Return the rows with their missing cells filled."""
        table = Table.of_block(self.schema, rows)
        columns = {name: copy.deepcopy(table.column(name)) for name in table.schema.names}
        part = _Block(table, self.conditionals, self.modelled, partial(_attempt_numbers, uniforms))
        for filled, cells in part.filled(self.filling):
            _fill(table.schema, columns, filled, cells)
        return Table(self.schema, columns).block()


def _attempt_numbers(uniforms: Floats, turn: int, width: int) -> Floats:
    """Return ``width`` uniform numbers of each row for an attempt.

    Numbers of later attempts are hashes of the last number of the row (SplitMix64).
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


_GOLDEN = 0x9E3779B97F4A7C15  # step of SplitMix64


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
    """Fill the missing cells of a table from a released model. Private.

    Parameters
    ----------
    table : Table
        The private rows.
    conditionals : Conditionals
        The released distribution of each modelled attribute given all others.
    entropy : int
        Seed of the random numbers.
    draw : int, default 0
        Index of the table, if several tables are filled.
    filling : {"random", "likely", "mean"}, default "random"
        Choice of a level, as in `CompletedRow`.
    first : int, default 0
        Place of the first row in a longer table, a multiple of `ROWS_AT_ONCE`.

    Returns
    -------
    Table
        Private. Each row is a function of the row and its random numbers.
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
    filled = {key: np.concatenate([part[key] for part in parts]) for key in rows}
    return Table.of_block(table.schema, filled, kind=table.kind)


def _fill(
    schema: Schema, columns: Mapping[str, CodedColumn], rows: Ints, cells: Mapping[str, CodedColumn]
) -> None:
    """Write cells into the missing cells of some rows. Observed cells stay unchanged."""
    for attribute in schema:
        column, new = columns[attribute.name], cells[attribute.name]
        missing = column.codes[rows] >= attribute.missing_code
        column.codes[rows[missing]] = new.codes[missing]
        if column.values is not None and new.values is not None:
            column.values[rows[missing]] = new.values[missing]


@dataclass
class _Block:
    """Rows with their random numbers, ``uniforms(turn, number)``, and the model that fills them."""

    _table: Table
    _model: Conditionals
    _modelled: ModelView
    _uniforms: Callable[[int, int], Floats]

    def __post_init__(self) -> None:
        self._names = self._modelled.schema.names
        self._numbers = [a.name for a in self._table.schema if isinstance(a, Numeric)]
        self._codes = modelled_codes(self._table)

    def filled(self, filling: Filling) -> Iterator[tuple[Ints, dict[str, CodedColumn]]]:
        """Yield filled rows, each row at most once. Rows that no attempt fills are omitted."""
        waiting = np.flatnonzero(self._table.incomplete_rows())
        broken_before = self._already_broken(waiting)  # these rows are filled without rules
        for turn in range(1 + _ROUNDS + _LOOSE):
            if not waiting.size:
                return
            cells, broken = self._attempt(waiting, turn, filling if turn == 0 else "random")
            good = ~broken | broken_before
            yield waiting[good], {name: column.take(good) for name, column in cells.items()}
            waiting, broken_before = waiting[~good], broken_before[~good]

    def _attempt(
        self, rows: Ints, turn: int, filling: Filling
    ) -> tuple[dict[str, CodedColumn], Flags]:
        """Fill rows once, and mark rows that break a rule or stay incomplete."""
        part, wide = self._table.take(rows), DRAWS * len(self._names)
        drawn = self._uniforms(turn, wide + len(self._numbers))[rows]
        uniforms = drawn[:, :wide].reshape(len(rows), DRAWS, len(self._names))
        observed = self._codes[rows]
        codes = _fill_modelled(self._model, observed, uniforms, self._modelled, filling=filling)
        if turn > _ROUNDS:
            codes = self._loosened(codes, rows, turn)
        inside = drawn[:, wide:] if filling == "random" else np.full_like(drawn[:, wide:], 0.5)
        units = dict(zip(self._numbers, inside.T, strict=True))
        columns = {name: part.column(name) for name in part.schema.names}
        for place, name in enumerate(self._names):  # derived cells are still missing
            unit = units.get(name)
            mean = self._mean(place, rows) if filling == "mean" and unit is not None else None
            cells = codes[:, place]
            columns[name] = _with_cells(part.schema[name], columns[name], cells, unit, mean)
        return _ruled(part, columns)

    def _mean(self, place: int, rows: Ints) -> Floats:
        """Return the mean of a number given the observed cells of its row."""
        codes = self._codes[rows]
        attribute: Any = self._table.schema[self._names[place]]
        several = (codes >= np.array(self._model.sizes)).sum(axis=1, keepdims=True) > 1
        some, every = self._model.given_some, self._model.given_all
        weights = np.where(several, some.of(place, codes), every.of(place, codes))
        weights = weights[:, : attribute.size]  # without "not applicable"
        # Running sums are rounded in each row independently of other rows.
        total = np.cumsum(weights, axis=1)[:, -1]
        return np.cumsum(weights * attribute.centres, axis=1)[:, -1] / np.where(total > 0, total, 1)

    def _loosened(self, codes: Ints, rows: Ints, turn: int) -> Ints:
        """Return codes with uniform levels in half of the missing cells."""
        d = len(self._names)
        drawn = self._uniforms(_ROUNDS + _LOOSE + turn, 2 * d)[rows]
        never = self._modelled.never_imputed
        sizes = np.array([n - (a in never) for a, n in enumerate(self._model.sizes)])
        anything = np.minimum(np.floor(drawn[:, :d] * sizes).astype(np.int64), sizes - 1)
        loose = (self._codes[rows] != codes) & (drawn[:, d:] < 0.5)
        return np.where(loose, anything, codes)

    def _already_broken(self, rows: Ints) -> Flags:
        """Return True for rows whose observed cells already break a rule."""
        part, broken = self._table.take(rows), np.zeros(len(rows), dtype=bool)
        cells = cells_by_name(part.schema, {n: part.column(n) for n in part.schema.names})
        for rule in part.schema.rule_set.bound:
            broken |= rule.broken(cells, len(rows)).is_true
        return broken


def _with_cells(
    attribute: AnyAttribute,
    column: CodedColumn,
    codes: Ints,
    unit: Floats | None,
    mean: Floats | None,
) -> CodedColumn:
    """Return a column with codes for missing cells, and numbers in bins or the mean."""
    missing = column.codes >= attribute.missing_code
    cells, values = np.where(missing, codes, column.codes), column.values
    if values is not None and unit is not None and isinstance(attribute, Numeric):
        absent = cells >= attribute.size
        drawn = attribute.decode(np.where(absent, 0, cells), unit)
        if mean is not None:
            drawn = np.clip(mean, attribute.lower, attribute.upper)
            drawn = np.rint(drawn) if attribute.integer else drawn
            cells = np.where(missing & ~absent, attribute.encode_values(drawn), cells)
        values = np.where(missing, np.where(absent, attribute.lower, drawn), values)
    return CodedColumn(cells.astype(code_dtype(attribute)), values)


def _ruled(part: Table, columns: dict[str, CodedColumn]) -> tuple[dict[str, CodedColumn], Flags]:
    """Apply rules to filled rows. Return the columns, and True for rows that break a rule."""
    schema, n = part.schema, len(part)
    rules, broken = schema.rule_set, np.zeros(n, dtype=bool)
    if not rules.bound:
        return columns, broken
    rows = RuledRows(schema, _at_observed_years(part, _but_one_term(part, columns)))
    for rule in rules.solved:
        rows.solve(rule)
    for target in rules.order:
        if target in rules.derived:
            rows.follow(rules.derived[target], missing_only=True)
        if target in rules.routing:
            applies = rules.routing[target].unless.truth(rows.cells, n)
            cell, observed = rows.cells[target], ~part.mask(target)
            broken |= applies.is_true & cell.not_applicable
            broken |= applies.is_false & cell.has_value & observed
            rows.route(rules.routing[target])
    for bound in rules.bound:
        broken |= bound.broken(rows.cells, n).is_true
    ruled = {name: rows.column(name) for name in schema.names}
    for attribute in schema:
        broken |= ruled[attribute.name].codes >= attribute.missing_code
    return ruled, broken


def _but_one_term(part: Table, columns: dict[str, CodedColumn]) -> dict[str, CodedColumn]:
    """Clear one filled term of each equation with an observed sum, since the term follows."""
    schema, columns = part.schema, dict(columns)
    for target, rule in schema.rule_set.derived.items():
        if not rule.is_linear:
            continue
        open_ = ~part.mask(target)
        for name in reversed(rule.by):
            attribute = schema[name]
            take = open_ & (part.codes(name) >= attribute.missing_code)
            column = columns[name]
            take &= column.codes < attribute.size
            codes = np.where(take, attribute.missing_code, column.codes)
            columns[name] = CodedColumn(codes.astype(column.codes.dtype), column.values)
            open_ &= ~take
    return columns


def _at_observed_years(part: Table, columns: dict[str, CodedColumn]) -> dict[str, CodedColumn]:
    """Shift one filled date by whole years, so that it agrees with observed completed years.

    Otherwise few draws would agree with an observed age.
    """
    schema, columns = part.schema, dict(columns)
    for target, rule in schema.rule_set.derived.items():
        cells = [columns[name].values for name in (*rule.by, target)]
        if rule.units is None or any(values is None for values in cells):
            continue
        first, last, observed = (np.asarray(values) for values in cells)
        there = columns[target].codes < schema[target].size
        for name in rule.by:
            there &= columns[name].codes < schema[name].size
        excess = np.where(there, completed_years(first, last, rule.units) - observed, 0.0)
        for name, values, years in zip(rule.by, (first, last), (excess, -excess), strict=True):
            date = schema[name]
            assert isinstance(date, Date)
            shifted = date.round_down(plus_years(values, years, date.unit))
            take = there & (part.codes(name) >= date.missing_code)
            there &= ~take
            take &= (date.lower <= shifted) & (shifted <= date.upper)  # others are filled again
            shifted = np.where(take, shifted, values)
            codes = np.where(take, date.encode_values(np.clip(shifted, date.lower, date.upper)), 0)
            codes = np.where(take, codes, columns[name].codes).astype(columns[name].codes.dtype)
            columns[name] = CodedColumn(codes, shifted)
    return columns
