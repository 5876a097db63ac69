"""Synthetic rows of the private table's shape, from rows of what was modelled; rules hold in each.

Rows are always drawn in blocks: a table is its blocks, one after the other, so a file that is
written block by block has exactly the rows that the same seed gives as one table.

Values are drawn inside bins, what follows from others is computed, and what is not applicable is
said so. A row that breaks a rule is drawn again: first its values inside the same bins, then the
whole row. So rows have the model's law given that the rules hold, but for one thing: a value where,
for all values inside the bins, an attribute is not applicable is taken away, and the row stays.
A model that is all noise may give no possible row; then some of its cells become any level.

Where some rows were asked for, a model is conditioned on the levels they may have, and others are
dropped: a row that is kept has the model's law given that it is asked for, whatever the family, and
none is a copy of another. How many are dropped follows from the released model alone.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from missdp.errors import DataError, ParameterError
from missdp.inference.conditioned import conditioned
from missdp.inference.model import related
from missdp.inference.models import GraphicalModel, PairModel
from missdp.schema import Categorical, Numeric, Schema
from missdp.schema.conditions import Join, Known, Predicate, Routes, decided
from missdp.schema.language import attribute_named, compare, parse_where, reading
from missdp.sources.modelled import Modelled
from missdp.synth.first_parts import KindShares
from missdp.table import FrameKind, Table
from missdp.table.encode import Column, code_dtype
from missdp.table.follow import Rows
from missdp.table.memory import batch_room
from missdp.table.table import in_order
from missdp.types import Flags

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
    if (_JOBS + 2) * _BYTES_PER_CELL * columns * sizes[0] > batch_room():
        yield from (draw(*block) for block in blocks)
        return
    yield from in_order(lambda block: draw(*block), blocks, n_jobs=_JOBS)


def restored(
    modelled: Modelled,
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
    modelled: Modelled, codes: Codes, rng: np.random.Generator
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
    modelled: Modelled, codes: Codes, rng: np.random.Generator, *, overrule: bool
) -> tuple[Table, NDArray[np.bool_]]:
    """Draw values and compute what follows; ``overrule`` drawn values that are not applicable."""
    schema = modelled.whole
    n = len(next(iter(codes.values())))
    columns = {}
    for attribute in schema:
        cells = codes.get(attribute.name)
        # A place for what follows: the first level, until it is computed.
        cells = np.zeros(n, dtype=np.int64) if cells is None else cells
        columns[attribute.name] = Column(cells.astype(code_dtype(attribute)))
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
    columns |= {name: Column(codes[name], cells) for name, cells in found.items()}
    return Table(table.schema, columns, kind=table.kind)


def followed(table: Table, *, overrule: bool = False) -> tuple[Table, NDArray[np.bool_]]:
    """Return synthetic rows with what follows from their cells, and which rows break a rule.

    With ``overrule``, values are taken away where they are surely not applicable; else such rows
    break a rule.
    """
    schema, n = table.schema, len(table)
    rows = Rows(schema, {name: table.column(name) for name in schema.names})
    book = schema.rulebook
    broken = np.zeros(n, dtype=bool)
    for target in book.order:
        if target in book.derives:
            rule = book.derives[target]
            derived = rule.derived(rows.known, n)
            broken |= rule.outside(derived)
            rows.follow(rule)
            if rule.instead is not None:  # without the first, there is no difference
                rows.lose(rule.by[1], rows.known[rule.by[0]].hole)
            if schema[target].nullable:
                rows.lose(target, derived.hole)
            else:
                broken |= derived.hole
        if target in book.routes:
            broken |= _misrouted(book.routes[target], rows, overrule=overrule)
            rows.route(book.routes[target])
    known = rows.known
    for bound in book.bound:
        broken |= bound.broken(known, n)[0]
    return Table(
        schema, {name: rows.column(name) for name in schema.names}, kind=table.kind
    ), broken


def _loosened(modelled: Modelled, codes: Codes, share: float, rng: np.random.Generator) -> Codes:
    """Return rows in which a share of the cells is any level: for models that are all noise."""
    found = {}
    for name, drawn in codes.items():
        anything = rng.integers(0, modelled.schema[name].size, len(drawn))
        found[name] = np.where(rng.random(len(drawn)) < share, anything, drawn)
    return found


def _misrouted(rule: Routes, rows: Rows, *, overrule: bool) -> NDArray[np.bool_]:
    """Tell which rows have no value although the condition holds, or one although it fails."""
    surely, maybe = decided(rule.unless, rows.known, rows.n)
    found = surely & rows.known[rule.target].absent
    return np.asarray(found if overrule else found | (~maybe & rows.known[rule.target].present))


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
        columns[name] = Column(codes, values)
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
        columns[name] = Column(codes, column.values)
    return Table(table.schema, columns, kind=kind)


def _spread(share: NDArray[np.float64], n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw n kinds evenly: each has its law, and their counts are as near to it as can be."""
    places = (rng.permutation(n) + rng.random()) / max(1, n)
    found = np.searchsorted(np.cumsum(share), places, side="right")
    spread: NDArray[np.int64] = np.minimum(found, np.flatnonzero(share)[-1])
    return spread


Where: TypeAlias = str | Mapping[str, Any]
_Model: TypeAlias = Any  # a fitted synthesizer: what draws its rows knows no door

FIRST = 2_000  # rows that are drawn to see how many are asked for
MOST_BLOCK = 200_000
TRIES = 1000  # rows that are drawn for each that is asked for, at most
LEAST_TRIES = 1_000_000
FEW = 0.2  # share of rows below which a model is conditioned


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


class Selection:
    """Which rows are asked for, and how many of those drawn were such.

    * ``where``: A condition such as ``"age >= 60 and sex = 'f'"``, at whose end ``and name is
      missing`` may stand, or by name a value, a list of values, a pair of bounds (both belong to
      it), or None for cells that are missing.
    """

    def __init__(self, where: Where, schema: Schema) -> None:
        self.drawn = self.kept = 0
        self._within = 1.0  # the share of the model's rows that those drawn last are among
        missing: Iterable[str]
        with reading("", schema.names, lambda why: ParameterError(f"where: {why}")):
            if isinstance(where, str):
                rest, missing = _without_missing(where)
                self._predicate = parse_where(rest, schema)
            elif isinstance(where, Mapping):
                asked = {attribute_named(schema.columns, n).name: v for n, v in where.items()}
                missing = [name for name, value in asked.items() if value is None]
                parts = (_compared(schema, n, v) for n, v in asked.items() if v is not None)
                self._predicate = Join(tuple(parts), all_of=True)
            else:
                raise ParameterError("where must be a condition in text, or a mapping of names")
            self.missing = tuple(attribute_named(schema.columns, n).name for n in missing)

    @property
    def share(self) -> float:
        """The share of the model's rows that are asked for, as far as rows were drawn."""
        return self._within * self.kept / max(1, self.drawn)

    def codes(self, schema: Schema, modelled: Schema) -> dict[str, Flags]:
        """Return, by modelled attribute, which of its codes a row may have that is asked for.

        Only of attributes that are restricted, and whatever the other cells of the row are.
        """
        found: dict[str, Flags] = {}
        for name in sorted(self._predicate.names & {*modelled.names}):
            attribute, n = schema[name], modelled[name].size
            unknown = np.full(n, True)
            open_ = Known(np.full(n, -np.inf), np.full(n, np.inf), unknown, ~unknown)
            cells = dict.fromkeys(self._predicate.names, open_)
            cells[name] = Known.of(attribute, np.arange(n), None)
            maybe = decided(self._predicate, cells, n)[1]
            # A cell may be lost on the way, and what has none may be as well.
            lost = decided(self._predicate, cells | {name: open_.without_holes()}, n)[1]
            if not (maybe | lost).all():
                found[name] = maybe | lost
        return found

    def of(self, table: Table) -> Flags:
        """Return which rows of a table are asked for, and count them."""
        found = self._predicate.select(table)
        for name in self.missing:
            attribute = table.schema[name]
            found = found & (table.codes(name) >= attribute.missing_code)
        self.drawn, self.kept = self.drawn + len(table), self.kept + int(np.count_nonzero(found))
        return found

    def _given(self, model: _Model, n: int, rng: Generator) -> tuple[_Model, float]:
        """Return a model of the rows with levels that may be asked for, and how common they are.

        Of AllPairs, AIM, MST and what draws rows as they do; other models come back as they are.
        """
        released = getattr(model, "model_", None)
        codes = self.codes(model.schema_, model.modelled_)
        if not codes or not isinstance(released, (GraphicalModel, PairModel)):
            return model, 1.0
        self.drawn = self.kept = 0
        place = {name: i for i, name in enumerate(model.modelled_.names)}
        wanted = {place[name]: found for name, found in codes.items()}
        another: Any = copy.copy(model)
        another.model_, share = conditioned(released, wanted, n, rng)
        return another, share

    def blocks(self, model: _Model, missing_values: str, n: int, rng: Generator) -> Iterator[Table]:
        """Yield exactly ``n`` rows of a model: the first among all that it draws.

        Where few of these are asked for, further ones are drawn with levels that may be.

        Raises
        ------
        ParameterError
            If they are not found among a public number of rows.
        """
        left, tries = n, max(LEAST_TRIES, TRIES * n)
        size, tried, given = FIRST if n else 0, 0, False
        while True:
            table = model._block(missing_values, size, rng)
            tried += len(table)
            rows = np.flatnonzero(self.of(table))[:left]
            left -= rows.size
            yield table.take(rows)
            if not left:
                return
            if tried >= tries:
                break
            if not given and self.share < FEW:
                given = True
                model, self._within = self._given(model, left, rng)
                if not self._within:
                    break
            kept = (self.kept + 1) / (self.drawn + 1)  # before any is drawn, all may be kept
            size = min(int(1.1 * left / kept) + 100, MOST_BLOCK)
        raise ParameterError(
            f"of {tried:,} rows that the model drew {n - left:,} are as 'where' asks, and "
            f"{n:,} were wanted: ask for fewer rows, or for more common ones"
        )


def _compared(schema: Schema, name: str, value: Any) -> Predicate:
    """Return the condition that one item of a mapping stands for."""
    attribute = schema[name]
    several = isinstance(value, (list, tuple, Set, np.ndarray))
    values = [v.item() if isinstance(v, np.generic) else v for v in (value if several else [value])]
    if isinstance(value, tuple) and len(value) == 2 and not isinstance(attribute, Categorical):
        ends = zip((">=", "<="), values, strict=True)
        return Join(tuple(compare(attribute, sign, v) for sign, v in ends), all_of=True)
    return Join(tuple(compare(attribute, "==", v) for v in values), all_of=False)
