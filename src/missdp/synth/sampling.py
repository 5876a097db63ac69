"""Synthetic rows with the columns of the private table, from rows of the modelled attributes.

Rows are always drawn in blocks. A table is its blocks in order, so a file that is written block by
block has the rows that the same seed gives as one table.

All rows obey the rules of the schema. Values are drawn inside bins, derived attributes are
computed, and cells that rules make not applicable are marked. A row that breaks a rule is drawn
again: first its values inside the same bins, then the complete row. So rows have the model's
distribution given that the rules hold, with one exception. A value is removed, and its row stays,
if the attribute is not applicable for all values inside the bins. A model that is only noise may
give no possible row. Then some of its cells become any level.

Rows that match a condition are drawn by rejection (von Neumann 1951): rows are drawn from the
model, and other rows are dropped. So returned rows have the distribution of the matching rows of
the model. The number of rows drawn has a public limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from missdp.errors import DataError, ParameterError, replacing
from missdp.inference.model import relate_within_bins
from missdp.schema import Categorical, Numeric, Schema
from missdp.schema.bound_rules import Routing
from missdp.schema.expressions import RuleError, attribute_named, comparison, parse_where
from missdp.schema.logic import Junction, Predicate
from missdp.schema.modelled import ModelView
from missdp.schema.numeric import code_dtype
from missdp.synth.first_parts import KindShares
from missdp.table import Table
from missdp.table.encode import CodedColumn
from missdp.table.follow import RuledRows
from missdp.table.memory import batch_capacity
from missdp.threads import map_in_order
from missdp.types import Flags, Floats, FrameKind, Ints

Codes = dict[str, Ints]
_VALUE_ROUNDS = 30  # rounds in which values inside bins are drawn again
_ROW_ROUNDS = 40  # rounds in which complete rows are drawn again
# Shares of cells that become any level if no row of the model obeys the rules.
_LOOSE = (0.1, 0.3, 0.6, 1.0)
_TRIED = 5000  # rows without success after which values in the same bins are not drawn again
_CELLS = 3_000_000  # cells in a block
# Smallest number of rows in a block with many columns, and largest number.
_ROWS = (20_000, 200_000)
_JOBS = 2  # threads that draw, if memory holds two more blocks than threads
_BYTES_PER_CELL = 20  # bytes of memory


def block_sizes(n: int, columns: int) -> list[int]:
    """Return the number of rows of each block. There is always a block, perhaps without rows.

    >>> from missdp.synth.sampling import block_sizes
    >>> block_sizes(0, 5), block_sizes(200_000, 5), block_sizes(500_000, 5)
    ([0], [200000], [166667, 166667, 166666])
    """
    max_rows = min(max(_CELLS // max(1, columns), _ROWS[0]), _ROWS[1])
    blocks = max(1, -(-n // max_rows))
    return [n // blocks + (k < n % blocks) for k in range(blocks)]


def drawn_in_blocks(
    draw: Callable[[int, np.random.Generator], Table],
    sizes: list[int],
    rng: np.random.Generator,
    columns: int,
) -> Iterator[Table]:
    """Yield independent blocks of rows, one at a time if memory is short.

    A single block draws from the generator. Each of several blocks draws from a spawned one.

    Parameters
    ----------
    draw : callable
        Draws a number of rows with a generator.
    sizes : list of int
        Number of rows of each block.
    rng : numpy.random.Generator
        The generator.
    columns : int
        Number of columns, which decides about memory.

    Yields
    ------
    Table
        The blocks in order.
    """
    if len(sizes) == 1:
        yield draw(sizes[0], rng)
        return
    blocks = zip(sizes, rng.spawn(len(sizes)), strict=True)
    if (_JOBS + 2) * _BYTES_PER_CELL * columns * sizes[0] > batch_capacity():
        yield from (draw(*block) for block in blocks)
        return
    yield from map_in_order(lambda block: draw(*block), blocks, n_jobs=_JOBS)


def restore_rows(
    modelled: ModelView,
    draw: Callable[[int], Codes],
    n: int,
    rng: np.random.Generator,
    *,
    shares: KindShares,
    kind: FrameKind = "pandas",
) -> Table:
    """Return ``n`` synthetic rows of all columns that obey the rules.

    Parameters
    ----------
    modelled : Modelled
        The modelled attributes and the rules.
    draw : callable
        ``draw(m)`` draws ``m`` rows of the model.
    n : int
        Number of rows.
    rng : numpy.random.Generator
        Draws values inside bins and kinds of missing.
    shares : mapping of str to ndarray
        Released shares of the kinds of missing values.
    kind : {"pandas", "polars", "pyarrow"}
        The kind of frame of the table.

    Returns
    -------
    Table
        The rows.

    Raises
    ------
    DataError
        If no row of the model obeys the rules.
    """
    table, broken = _ruled(modelled, draw(n), rng)
    for _ in range(_ROW_ROUNDS):
        broken_rows = np.flatnonzero(broken)
        if not broken_rows.size:
            break
        accepted = max(0.05, 1 - broken_rows.size / max(1, n))
        more, bad = _ruled(modelled, draw(int(broken_rows.size / accepted * 1.1) + 8), rng)
        good = np.flatnonzero(~bad)[: broken_rows.size]
        table = replace_rows(table, broken_rows[: good.size], more, good)
        broken[broken_rows[: good.size]] = False
    for share in _LOOSE if n and broken.all() else ():
        loose, bad = _ruled(modelled, _loosened(modelled, draw(_TRIED), share, rng), rng)
        if not bad.all():
            where = np.arange(n)
            table = replace_rows(table, where, loose, rng.choice(np.flatnonzero(~bad), size=n))
            broken[:] = False
            break
    if broken.any():
        table = _repeated(table, broken, rng)
    return _with_kinds(table, shares, rng, kind)


def _ruled(modelled: ModelView, codes: Codes, rng: np.random.Generator) -> tuple[Table, Flags]:
    """Return rows with values and derived attributes, and flags of rows that break a rule."""
    table, broken = _completed(modelled, codes, rng, overrule=False)
    free = any(isinstance(a, Numeric) for a in modelled.schema)
    rounds, in_vain = _VALUE_ROUNDS if free else 1, 0
    while rounds and broken.any():
        again = np.flatnonzero(broken)
        part = {name: cells[again] for name, cells in codes.items()}
        more, bad = _completed(modelled, part, rng, overrule=rounds == 1)
        good = np.flatnonzero(~bad)
        in_vain = 0 if good.size else in_vain + again.size
        rounds = min(rounds - 1, 1 if in_vain >= _TRIED else _VALUE_ROUNDS)
        table = replace_rows(table, again[good], more, good)
        broken[again[good]] = False
    return table, broken


def _completed(
    modelled: ModelView, codes: Codes, rng: np.random.Generator, *, overrule: bool
) -> tuple[Table, Flags]:
    """Draw values and compute derived attributes. ``overrule`` removes values that do not apply."""
    schema = modelled.full_schema
    n = len(next(iter(codes.values())))
    columns = {}
    for attribute in schema:
        cells = codes.get(attribute.name)
        # A derived attribute has its first level until it is computed.
        cells = np.zeros(n, dtype=np.int64) if cells is None else cells
        columns[attribute.name] = CodedColumn(cells.astype(code_dtype(attribute)))
    return enforce_rules(with_related_values(Table(schema, columns), rng), overrule=overrule)


def with_related_values(table: Table, rng: np.random.Generator) -> Table:
    """Return a table with values inside its bins that continue the relations between numbers."""
    drawn = table.with_values(rng)
    names = [a.name for a in table.schema if isinstance(a, Numeric)]
    codes = {name: drawn.codes(name) for name in names}
    values = {name: drawn.values(name) for name in names}
    sizes = {name: table.schema[name].size for name in names}
    free = {name for name in names if table.column(name).values is None}
    related = relate_within_bins(codes, values, sizes, rng, free=free)
    columns = {name: drawn.column(name) for name in table.schema.names}
    columns |= {name: CodedColumn(codes[name], cells) for name, cells in related.items()}
    return Table(table.schema, columns, kind=table.kind)


def enforce_rules(table: Table, *, overrule: bool = False) -> tuple[Table, Flags]:
    """Return synthetic rows with their derived cells, and flags of rows that break a rule.

    With ``overrule``, values are removed if they are certainly not applicable. Otherwise their rows
    break a rule.
    """
    schema, n = table.schema, len(table)
    rows = RuledRows(schema, {name: table.column(name) for name in schema.names})
    book = schema.rule_set
    broken = np.zeros(n, dtype=bool)
    for target in book.order:
        if target in book.derived:
            rule = book.derived[target]
            derived = rule.compute(rows.cells, n)
            broken |= rule.outside(derived)
            rows.follow(rule)
            if rule.instead is not None:  # without the first value there is no difference
                rows.lose(rule.by[1], rows.cells[rule.by[0]].missing)
            if schema[target].nullable:
                rows.lose(target, derived.missing)
            else:
                broken |= derived.missing
        if target in book.routing:
            broken |= _misrouted(book.routing[target], rows, overrule=overrule)
            rows.route(book.routing[target])
    cells = rows.cells
    for bound in book.bound:
        broken |= bound.broken(cells, n).is_true
    return Table(
        schema, {name: rows.column(name) for name in schema.names}, kind=table.kind
    ), broken


def _loosened(modelled: ModelView, codes: Codes, share: float, rng: np.random.Generator) -> Codes:
    """Return rows in which a share of the cells is any level, for models that are only noise."""
    loosened = {}
    for name, drawn in codes.items():
        anything = rng.integers(0, modelled.schema[name].size, len(drawn))
        loosened[name] = np.where(rng.random(len(drawn)) < share, anything, drawn)
    return loosened


def _misrouted(rule: Routing, rows: RuledRows, *, overrule: bool) -> Flags:
    """Return flags of rows whose cell contradicts the condition of a routing rule."""
    applies, cells = rule.unless.truth(rows.cells, rows.n), rows.cells[rule.target.name]
    misrouted = applies.is_true & cells.not_applicable
    return np.asarray(misrouted if overrule else misrouted | (applies.is_false & cells.has_value))


def replace_rows(
    table: Table,
    where: NDArray[np.integer],
    other: Table,
    which: NDArray[np.integer],
    names: Iterable[str] | None = None,
) -> Table:
    """Return a table in which some rows have the cells of other rows.

    Parameters
    ----------
    table : Table
        The table.
    where : ndarray of int
        Positions of the rows that change.
    other : Table
        The table with the other rows.
    which : ndarray of int
        Positions of the other rows.
    names : iterable of str, optional
        Attributes that change. By default all.

    Returns
    -------
    Table
        A new table.
    """
    if not where.size:
        return table
    columns = {name: table.column(name) for name in table.schema.names}
    for name in columns if names is None else {*names}:
        mine, theirs = columns[name], other.column(name)
        codes = mine.codes.copy()
        codes[where] = theirs.codes[which]
        values = None if mine.values is None else mine.values.copy()
        if values is not None and theirs.values is not None:
            values[where] = theirs.values[which]
        columns[name] = CodedColumn(codes, values)
    return Table(table.schema, columns, kind=table.kind)


def _repeated(table: Table, broken: Flags, rng: np.random.Generator) -> Table:
    """Replace rows that break rules by copies of rows that obey them."""
    good, broken_rows = np.flatnonzero(~broken), np.flatnonzero(broken)
    if not good.size:
        raise DataError(
            "no row drawn from the model obeys the rules of the schema. Correct or remove rules "
            "that few rows can obey."
        )
    return replace_rows(table, broken_rows, table, rng.choice(good, size=broken_rows.size))


def _with_kinds(
    table: Table, shares: KindShares, rng: np.random.Generator, kind: FrameKind
) -> Table:
    """Draw the kind of every missing cell."""
    columns = {name: table.column(name) for name in table.schema.names}
    for name, share in shares.items():
        column, first = columns[name], table.schema[name].missing_code
        missing = np.flatnonzero(column.codes == first)
        codes = column.codes.copy()
        codes[missing] = first + _spread(share, missing.size, rng)
        columns[name] = CodedColumn(codes, column.values)
    return Table(table.schema, columns, kind=kind)


def _spread(share: Floats, n: int, rng: np.random.Generator) -> Ints:
    """Draw n kinds evenly: each kind has its share, and counts are close to their expectations."""
    places = (rng.permutation(n) + rng.random()) / max(1, n)
    kinds = np.searchsorted(np.cumsum(share), places, side="right")
    return np.asarray(np.minimum(kinds, np.flatnonzero(share)[-1]))


Where: TypeAlias = str | Mapping[str, Any]

MIN_BATCH = 5_000  # rows: smaller batches of a model of all pairs cost about as much
SPARE = 1.1  # rows drawn, relative to the number that the acceptance rate requires
MIN_LIMIT = 1_000_000  # rows that are drawn in any case before an error
MAX_DRAWN_PER_ROW = 1_000  # rows drawn for each requested row

_IS_MISSING = re.compile(
    r"(?:(?P<rest>.*)\band\s+|\s*)(?P<name>`[^`]+`|[^\W\d]\w*)\s+is\s+missing\s*",
    re.IGNORECASE | re.DOTALL,
)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")


def _without_missing(where: str) -> tuple[str, list[str]]:
    """Return a condition without the ``and name is missing`` at its end, and these names."""
    names: list[str] = []
    while match := _IS_MISSING.fullmatch(where):
        names.append(match["name"].strip("`"))
        where = match["rest"] or ""
    if names and re.search(r"\bor\b", _QUOTED.sub("", where), re.IGNORECASE):
        raise ParameterError("where: 'is missing' cannot be combined with 'or'")
    return where, names


def drawing_limit(n: int) -> int:
    """Return the largest number of rows that are drawn to find ``n`` matching rows. Public.

    >>> from missdp.synth.sampling import drawing_limit
    >>> drawing_limit(5), drawing_limit(1_000), drawing_limit(3_000)
    (1000000, 1000000, 3000000)
    """
    return max(MIN_LIMIT, MAX_DRAWN_PER_ROW * n)


class RowSelection:
    """A condition on rows, with the numbers of drawn and matching rows.

    * ``where``: A condition such as ``"age >= 60 and sex = 'f'"``, which may end with ``and name is
      missing``. A mapping has a value, a list of values or a pair of inclusive bounds for each
      name. None selects missing cells.
    """

    def __init__(self, where: Where, schema: Schema) -> None:
        self.drawn = self.matched = 0
        missing: Iterable[str]
        with replacing(RuleError, by=lambda error: ParameterError(f"where: {error}")):
            if isinstance(where, str):
                rest, missing = _without_missing(where)
                self._predicate = parse_where(rest, schema)
            elif isinstance(where, Mapping):
                conditions = {attribute_named(schema.columns, n).name: v for n, v in where.items()}
                missing = [name for name, value in conditions.items() if value is None]
                parts = (_compared(schema, n, v) for n, v in conditions.items() if v is not None)
                self._predicate = Junction(tuple(parts), all_of=True)
            else:
                raise ParameterError("where must be a condition in text, or a mapping of names")
            self.missing = tuple(attribute_named(schema.columns, n).name for n in missing)

    @property
    def share(self) -> float:
        """The share of the rows drawn from the model that matched."""
        return self.matched / max(1, self.drawn)

    def of(self, table: Table) -> Flags:
        """Return flags of the matching rows of a table, and count them."""
        matches = self._predicate.select(table)
        for name in self.missing:
            attribute = table.schema[name]
            matches = matches & (table.codes(name) >= attribute.missing_code)
        self.drawn += len(table)
        self.matched += int(np.count_nonzero(matches))
        return matches

    def blocks(
        self, draw: Callable[[int, Generator], Table], n: int, rng: Generator, *, columns: int
    ) -> Iterator[Table]:
        """Yield the first ``n`` matching rows of a model, in blocks that may be empty.

        Rows are drawn in batches, whose size follows the acceptance rate of the batches before.

        Parameters
        ----------
        draw : callable
            Draws a number of rows from the model.
        n : int
            Number of matching rows.
        rng : numpy.random.Generator
            Draws the rows.
        columns : int
            Number of columns of a row, which limits how many rows are held at once.

        Yields
        ------
        Table
            Matching rows.

        Raises
        ------
        ParameterError
            If fewer rows than requested match among `drawing_limit` rows. The search ends at
            the first million rows if fewer than half as many match as that limit requires.
        """
        drawn, matched, limit = 0, 0, drawing_limit(n)
        while True:
            expected = int(SPARE * (n - matched) * (drawn + 1) / (matched + 1))
            requested = max(MIN_BATCH, expected) if n else 0
            batch = min(requested, (MIN_LIMIT if drawn < MIN_LIMIT else limit) - drawn)
            for block in drawn_in_blocks(draw, block_sizes(batch, columns), rng, columns):
                matching = np.flatnonzero(self.of(block))[: n - matched]
                drawn, matched = drawn + len(block), matched + matching.size
                yield block.take(matching)
                if matched == n:
                    return
            if drawn >= limit or (drawn >= MIN_LIMIT and 2 * matched * limit < n * drawn):
                raise ParameterError(
                    f"where: {matched:,} of {drawn:,} rows drawn from the model match the "
                    f"condition, and {n:,} matching rows were requested. Use a wider condition, "
                    "or request fewer rows."
                )


def _compared(schema: Schema, name: str, value: Any) -> Predicate:
    """Return the condition of one item of a mapping."""
    attribute = schema[name]
    several = isinstance(value, (list, tuple, Set, np.ndarray))
    values = [v.item() if isinstance(v, np.generic) else v for v in (value if several else [value])]
    if isinstance(value, tuple) and len(value) == 2 and not isinstance(attribute, Categorical):
        ends = zip((">=", "<="), values, strict=True)
        return Junction(tuple(comparison(attribute, sign, v) for sign, v in ends), all_of=True)
    return Junction(tuple(comparison(attribute, "==", v) for v in values), all_of=False)
