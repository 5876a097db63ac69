"""Synthetic rows of the private table's shape, from rows of what was modelled; rules hold in each.

Rows are always drawn in blocks: a table is its blocks, one after the other, so a file that is
written block by block has exactly the rows that the same seed gives as one table.

Values are drawn inside bins, what follows from others is computed, and what is not applicable is
said so. A row that breaks a rule is drawn again: first its values inside the same bins, then the
whole row. So rows have the model's law given that the rules hold, but for one thing: a value where,
for all values inside the bins, an attribute is not applicable is taken away, and the row stays.
A model that is all noise may give no possible row; then some of its cells become any level.

Rows that meet a condition are drawn by rejection (von Neumann 1951): rows are drawn from the model,
and rows that do not match are dropped. So a row that comes out has the distribution of the matching
rows among many rows of the model, whatever the family. The number of rows drawn has a public limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from missdp.errors import DataError, ParameterError, replacing
from missdp.inference.model import related
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
from missdp.threads import in_order
from missdp.types import Flags, FrameKind

Codes = dict[str, NDArray[np.int64]]
_VALUE_ROUNDS = 30
_ROW_ROUNDS = 40
_LOOSE = (0.1, 0.3, 0.6, 1.0)  # shares of cells that may be anything, if the model never obeys
_TRIED = 5000  # rows; if none of so many obeys, other values in the same bins will not either
_CELLS = 3_000_000  # in a block
_ROWS = (20_000, 200_000)  # at least, where there are many columns; at most
_JOBS = 2  # threads that draw, if there is memory for as many blocks and two more
_BYTES_PER_CELL = 20


def block_sizes(n: int, columns: int) -> list[int]:
    """Return how many rows each block has; there is always one, perhaps without rows.

    >>> block_sizes(0, 5), block_sizes(200_000, 5), block_sizes(500_000, 5)
    ([0], [200000], [166667, 166667, 166666])
    """
    most = min(max(_CELLS // max(1, columns), _ROWS[0]), _ROWS[1])
    blocks = max(1, -(-n // most))
    return [n // blocks + (k < n % blocks) for k in range(blocks)]


def drawn_in_blocks(
    draw: Callable[[int, np.random.Generator], Table],
    sizes: list[int],
    rng: np.random.Generator,
    columns: int,
) -> Iterator[Table]:
    """Yield blocks of rows, each drawn by itself; one at a time where memory is short.

    A single block draws from the generator, each of several from one that is spawned from it.
    """
    if len(sizes) == 1:
        yield draw(sizes[0], rng)
        return
    blocks = zip(sizes, rng.spawn(len(sizes)), strict=True)
    if (_JOBS + 2) * _BYTES_PER_CELL * columns * sizes[0] > batch_capacity():
        yield from (draw(*block) for block in blocks)
        return
    yield from in_order(lambda block: draw(*block), blocks, n_jobs=_JOBS)


def restored(
    modelled: ModelView,
    draw: Callable[[int], Codes],
    n: int,
    rng: np.random.Generator,
    *,
    shares: KindShares,
    kind: FrameKind = "pandas",
) -> Table:
    """Return ``n`` synthetic rows that obey the rules; ``draw(m)`` gives ``m`` rows of the model.

    Raises
    ------
    DataError
        If no row that was drawn obeys the rules.
    """
    table, broken = _ruled(modelled, draw(n), rng)
    for _ in range(_ROW_ROUNDS):
        lacking = np.flatnonzero(broken)
        if not lacking.size:
            break
        accepted = max(0.05, 1 - lacking.size / max(1, n))
        more, bad = _ruled(modelled, draw(int(lacking.size / accepted * 1.1) + 8), rng)
        good = np.flatnonzero(~bad)[: lacking.size]
        table = put(table, lacking[: good.size], more, good)
        broken[lacking[: good.size]] = False
    for share in _LOOSE if n and broken.all() else ():
        loose, bad = _ruled(modelled, _loosened(modelled, draw(_TRIED), share, rng), rng)
        if not bad.all():
            where = np.arange(n)
            table = put(table, where, loose, rng.choice(np.flatnonzero(~bad), size=n))
            broken[:] = False
            break
    if broken.any():
        table = _repeated(table, broken, rng)
    return _with_kinds(table, shares, rng, kind)


def _ruled(
    modelled: ModelView, codes: Codes, rng: np.random.Generator
) -> tuple[Table, NDArray[np.bool_]]:
    """Return rows with values and what follows from them, and which of them break a rule."""
    table, broken = _completed(modelled, codes, rng, overrule=False)
    free = any(isinstance(a, Numeric) for a in modelled.schema)
    left, in_vain = _VALUE_ROUNDS if free else 1, 0
    while left and broken.any():
        again = np.flatnonzero(broken)
        part = {name: cells[again] for name, cells in codes.items()}
        more, bad = _completed(modelled, part, rng, overrule=left == 1)
        good = np.flatnonzero(~bad)
        in_vain = 0 if good.size else in_vain + again.size
        left = min(left - 1, 1 if in_vain >= _TRIED else _VALUE_ROUNDS)
        table = put(table, again[good], more, good)
        broken[again[good]] = False
    return table, broken


def _completed(
    modelled: ModelView, codes: Codes, rng: np.random.Generator, *, overrule: bool
) -> tuple[Table, NDArray[np.bool_]]:
    """Draw values and compute what follows; ``overrule`` drawn values that are not applicable."""
    schema = modelled.full_schema
    n = len(next(iter(codes.values())))
    columns = {}
    for attribute in schema:
        cells = codes.get(attribute.name)
        # A place for what follows: the first level, until it is computed.
        cells = np.zeros(n, dtype=np.int64) if cells is None else cells
        columns[attribute.name] = CodedColumn(cells.astype(code_dtype(attribute)))
    return followed(with_related_values(Table(schema, columns), rng), overrule=overrule)


def with_related_values(table: Table, rng: np.random.Generator) -> Table:
    """Return a table with values inside its bins, in which relations between numbers go on."""
    drawn = table.with_values(rng)
    names = [a.name for a in table.schema if isinstance(a, Numeric)]
    codes = {name: drawn.codes(name) for name in names}
    values = {name: drawn.values(name) for name in names}
    sizes = {name: table.schema[name].size for name in names}
    free = {name for name in names if table.column(name).values is None}
    found = related(codes, values, sizes, rng, free=free)
    columns = {name: drawn.column(name) for name in table.schema.names}
    columns |= {name: CodedColumn(codes[name], cells) for name, cells in found.items()}
    return Table(table.schema, columns, kind=table.kind)


def followed(table: Table, *, overrule: bool = False) -> tuple[Table, NDArray[np.bool_]]:
    """Return synthetic rows with what follows from their cells, and which rows break a rule.

    With ``overrule``, values are taken away where they are surely not applicable; else such rows
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
            if rule.instead is not None:  # without the first, there is no difference
                rows.lose(rule.by[1], rows.cells[rule.by[0]].missing)
            if schema[target].nullable:
                rows.lose(target, derived.missing)
            else:
                broken |= derived.missing
        if target in book.routing:
            broken |= _misrouted(book.routing[target], rows, overrule=overrule)
            rows.route(book.routing[target])
    known = rows.cells
    for bound in book.bound:
        broken |= bound.broken(known, n).is_true
    return Table(
        schema, {name: rows.column(name) for name in schema.names}, kind=table.kind
    ), broken


def _loosened(modelled: ModelView, codes: Codes, share: float, rng: np.random.Generator) -> Codes:
    """Return rows in which a share of the cells is any level: for models that are all noise."""
    found = {}
    for name, drawn in codes.items():
        anything = rng.integers(0, modelled.schema[name].size, len(drawn))
        found[name] = np.where(rng.random(len(drawn)) < share, anything, drawn)
    return found


def _misrouted(rule: Routing, rows: RuledRows, *, overrule: bool) -> NDArray[np.bool_]:
    """Tell which rows have no value although the condition holds, or one although it fails."""
    applies, cells = rule.unless.truth(rows.cells, rows.n), rows.cells[rule.target.name]
    found = applies.is_true & cells.not_applicable
    return np.asarray(found if overrule else found | (applies.is_false & cells.has_value))


def put(
    table: Table,
    where: NDArray[np.integer],
    other: Table,
    which: NDArray[np.integer],
    names: Iterable[str] | None = None,
) -> Table:
    """Return a table of which some rows take the cells of other rows, in all attributes or some."""
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


def _repeated(table: Table, broken: NDArray[np.bool_], rng: np.random.Generator) -> Table:
    """Replace rows that could not be drawn otherwise by rows that obey the rules."""
    good, lacking = np.flatnonzero(~broken), np.flatnonzero(broken)
    if not good.size:
        raise DataError(
            "no row drawn from the model obeys the rules of the schema; look for a rule that "
            "hardly any row can obey"
        )
    return put(table, lacking, table, rng.choice(good, size=lacking.size))


def _with_kinds(
    table: Table, shares: KindShares, rng: np.random.Generator, kind: FrameKind
) -> Table:
    """Draw the kind of every hole."""
    columns = {name: table.column(name) for name in table.schema.names}
    for name, share in shares.items():
        column, first = columns[name], table.schema[name].missing_code
        holes = np.flatnonzero(column.codes == first)
        codes = column.codes.copy()
        codes[holes] = first + _spread(share, holes.size, rng)
        columns[name] = CodedColumn(codes, column.values)
    return Table(table.schema, columns, kind=kind)


def _spread(share: NDArray[np.float64], n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw n kinds evenly: each has its law, and their counts are as near to it as can be."""
    places = (rng.permutation(n) + rng.random()) / max(1, n)
    found = np.searchsorted(np.cumsum(share), places, side="right")
    spread: NDArray[np.int64] = np.minimum(found, np.flatnonzero(share)[-1])
    return spread


Where: TypeAlias = str | Mapping[str, Any]

MIN_BATCH = 5_000  # rows: smaller batches cost a model of all pairs about as much
SPARE = 1.1  # times as many rows are drawn as the acceptance rate so far asks for
MIN_LIMIT = 1_000_000
MAX_DRAWN_PER_ROW = 1_000

_IS_MISSING = re.compile(
    r"(?:(?P<rest>.*)\band\s+|\s*)(?P<name>`[^`]+`|[^\W\d]\w*)\s+is\s+missing\s*",
    re.IGNORECASE | re.DOTALL,
)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")


def _without_missing(where: str) -> tuple[str, list[str]]:
    """Return a condition without the ``and name is missing`` at its end, and these names."""
    names: list[str] = []
    while found := _IS_MISSING.fullmatch(where):
        names.append(found["name"].strip("`"))
        where = found["rest"] or ""
    if names and re.search(r"\bor\b", _QUOTED.sub("", where), re.IGNORECASE):
        raise ParameterError("where: 'is missing' and 'or' cannot be asked for together")
    return where, names


def drawing_limit(n: int) -> int:
    """Return how many rows are drawn at most to find ``n`` matching rows; public.

    >>> drawing_limit(5), drawing_limit(1_000), drawing_limit(3_000)
    (1000000, 1000000, 3000000)
    """
    return max(MIN_LIMIT, MAX_DRAWN_PER_ROW * n)


class Selection:
    """Which rows are asked for, and how many of the rows drawn matched.

    * ``where``: A condition such as ``"age >= 60 and sex = 'f'"``, at whose end ``and name is
      missing`` may stand, or by name a value, a list of values, a pair of bounds (both belong to
      it), or None for cells that are missing.
    """

    def __init__(self, where: Where, schema: Schema) -> None:
        self.drawn = self.kept = 0
        missing: Iterable[str]
        with replacing(RuleError, by=lambda error: ParameterError(f"where: {error}")):
            if isinstance(where, str):
                rest, missing = _without_missing(where)
                self._predicate = parse_where(rest, schema)
            elif isinstance(where, Mapping):
                asked = {attribute_named(schema.columns, n).name: v for n, v in where.items()}
                missing = [name for name, value in asked.items() if value is None]
                parts = (_compared(schema, n, v) for n, v in asked.items() if v is not None)
                self._predicate = Junction(tuple(parts), all_of=True)
            else:
                raise ParameterError("where must be a condition in text, or a mapping of names")
            self.missing = tuple(attribute_named(schema.columns, n).name for n in missing)

    @property
    def share(self) -> float:
        """The share of the rows drawn from the model that matched."""
        return self.kept / max(1, self.drawn)

    def of(self, table: Table) -> Flags:
        """Return which rows of a table are asked for, and count them."""
        found = self._predicate.select(table)
        for name in self.missing:
            attribute = table.schema[name]
            found = found & (table.codes(name) >= attribute.missing_code)
        self.drawn, self.kept = self.drawn + len(table), self.kept + int(np.count_nonzero(found))
        return found

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
        drawn, kept, limit = 0, 0, drawing_limit(n)
        while True:
            wanted = max(MIN_BATCH, int(SPARE * (n - kept) * (drawn + 1) / (kept + 1))) if n else 0
            batch = min(wanted, (MIN_LIMIT if drawn < MIN_LIMIT else limit) - drawn)
            for block in drawn_in_blocks(draw, block_sizes(batch, columns), rng, columns):
                matching = np.flatnonzero(self.of(block))[: n - kept]
                drawn, kept = drawn + len(block), kept + matching.size
                yield block.take(matching)
                if kept == n:
                    return
            if drawn >= limit or (drawn >= MIN_LIMIT and 2 * kept * limit < n * drawn):
                raise ParameterError(
                    f"where: {kept:,} of {drawn:,} rows drawn from the model match the condition, "
                    f"and {n:,} matching rows were requested. Use a less narrow condition, or "
                    "request fewer rows."
                )


def _compared(schema: Schema, name: str, value: Any) -> Predicate:
    """Return the condition that one item of a mapping stands for."""
    attribute = schema[name]
    several = isinstance(value, (list, tuple, Set, np.ndarray))
    values = [v.item() if isinstance(v, np.generic) else v for v in (value if several else [value])]
    if isinstance(value, tuple) and len(value) == 2 and not isinstance(attribute, Categorical):
        ends = zip((">=", "<="), values, strict=True)
        return Junction(tuple(comparison(attribute, sign, v) for sign, v in ends), all_of=True)
    return Junction(tuple(comparison(attribute, "==", v) for v in values), all_of=False)
