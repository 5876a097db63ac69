"""Synthetic rows of the private table's shape, from rows of what was modelled; rules hold in each.

Rows are always drawn in blocks: a table is its blocks, one after the other, so a file that is
written block by block has exactly the rows that the same seed gives as one table.

Values are drawn inside bins, what follows from others is computed, and what is not applicable is
said so. A row that breaks a rule is drawn again: first its values inside the same bins, then the
whole row. So rows have the model's law given that the rules hold, but for one thing: a value where,
for all values inside the bins, an attribute is not applicable is taken away, and the row stays.
A model that is all noise may give no possible row; then some of its cells become any level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError
from missdp.mechanisms.door import Door
from missdp.schema import Numeric
from missdp.schema.conditions import Routes, decided
from missdp.sources import Strategy
from missdp.sources.modelled import Modelled
from missdp.synth.split import KINDS, Split
from missdp.table import FrameKind, Table
from missdp.table.encode import Column, code_dtype
from missdp.table.follow import Rows
from missdp.table.memory import batch_room
from missdp.table.table import in_order

Codes = dict[str, NDArray[np.int64]]
KindShares = Mapping[str, NDArray[np.float64]]
"""By attribute with holes of several kinds, the released share of each, plain missing first."""

_SHARE = 0.02  # of the budget, for the kinds of holes of one attribute
_MOST_SHARE = 0.06  # for those of all
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

    Examples
    --------
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


def kinds_share(modelled: Modelled, strategy: Strategy) -> float:
    """Return the share of the budget that is spent on the kinds of holes together; public."""
    if not strategy.models_holes:  # holes are not drawn, then
        return 0.0
    return min(_MOST_SHARE, _SHARE * len(modelled.kinds))


def release_kinds(door: Door, modelled: Modelled, split: Split) -> dict[str, NDArray[np.float64]]:
    """Return the released shares of the kinds of holes, by attribute."""
    shares: dict[str, NDArray[np.float64]] = {}
    for name in modelled.kinds if KINDS in split else ():
        counts = np.maximum(door.kinds(name, split.noise(KINDS)), 0).astype(float)
        plain = np.eye(1, len(counts))[0]
        shares[name] = counts / counts.sum() if counts.sum() > 0 else plain
    return shares


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
    return followed(Table(schema, columns).with_related_values(rng), overrule=overrule)


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
