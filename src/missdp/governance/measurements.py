"""Every noisy number that a model keeps, with its variance, in one tidy table.

``measurements.parquet`` has one row for each number: its kind, up to some attributes with the cell
of each, the value, the variance of its noise. ``maintained.csv`` has one row for each relation.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from missdp.governance.facts import ModelSummary
from missdp.inference.marginals import NoisyMarginals
from missdp.synth.learn_pairs import PairRelease
from missdp.types import Floats, Ints

_MISSING = "(missing)"
_EITHER = ("(observed)", _MISSING)

KINDS = {
    "rows": "the number of rows",
    "count": "a noisy count of the rows in a cell of several attributes: of all rows if missing "
    "values have cells, otherwise of the rows observed on these attributes",
    "share": "a share of the rows at a level, from a noisy count: none is below 0, all add up to 1",
    "mask": "a noisy count of the rows in which each of two attributes is observed or missing",
    "sum": "a noisy sum over rows, each of which is clipped, of a coordinate of an attribute",
    "product": "the same of a product of two coordinates",
    "pair": "a share of the rows in a cell of two attributes, missing ones included, from the sums "
    "and products, with what clipping takes from rows of the model put back, which makes the noise "
    "larger; cells share noise",
    "coordinate": "the number that stands for a code of an attribute in these sums: no measurement",
    "clip": "the L2 norm to which rows are clipped: no measurement",
}
"""What kinds of numbers there are."""


class _Table(NamedTuple):
    """Numbers of one kind, by the cells of some attributes."""

    kind: str
    names: tuple[str, ...]
    cells: tuple[Sequence[str], ...]
    value: Floats
    variance: Floats


def measurements(facts: ModelSummary, labels: Mapping[bytes, bytes]) -> bytes:
    """Return a Parquet file of whatever was measured and is kept; labels go into its head."""
    tables = list(_tables(facts))
    most = max(2, max((len(table.names) for table in tables), default=0))
    kinds = {table.kind: None for table in tables}
    places = [[*kinds].index(table.kind) for table in tables]
    sizes = [table.value.size for table in tables]
    arrays: dict[str, pa.Array] = {"kind": _dictionary(np.repeat(places, sizes), kinds)}
    for axis in range(most):
        names = f"attribute_{axis + 1}", f"cell_{axis + 1}"
        arrays |= dict(zip(names, _cells(tables, axis), strict=True))
    for name in ("value", "variance"):
        parts = [getattr(table, name).ravel() for table in tables]
        arrays[name] = pa.array(np.concatenate(parts))
    sink = io.BytesIO()
    table = pa.table(arrays)
    table = table.replace_schema_metadata(dict(labels))
    pyarrow.parquet.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def _cells(tables: Sequence[_Table], axis: int) -> tuple[pa.Array, pa.Array]:
    """Return the attribute of one axis of all tables, if they have one, and its cells."""
    named, known = dict[str, int](), dict[str, int]()
    codes = [(np.zeros(0, dtype=np.int64),) * 2]
    for table in tables:
        whole = np.full(table.value.shape, -1)
        attribute = np.full(whole.size, -1)
        if axis < len(table.names):
            attribute[:] = named.setdefault(table.names[axis], len(named))
            own = [known.setdefault(cell, len(known)) for cell in table.cells[axis]]
            whole[:] = np.expand_dims(own, [i for i in range(whole.ndim) if i != axis])
        codes.append((attribute, whole.ravel()))
    first, second = (np.concatenate(parts) for parts in zip(*codes, strict=True))
    return _dictionary(first, named), _dictionary(second, known)


def _dictionary(codes: Ints, values: Iterable[str]) -> pa.Array:
    indices = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array([*values], pa.string()))


def _tables(facts: ModelSummary) -> Iterator[_Table]:
    """Yield all tables of numbers; none of a family that keeps no measurement."""
    model = facts.model
    total, variance = np.array([float(model.n_rows_)]), np.array([model.n_rows_std_**2])
    yield _Table("rows", (), (), total, variance)
    tables: PairRelease | NoisyMarginals | None = getattr(model, "tables_", None)
    if tables is None:
        return
    released = PairRelease.of(tables)
    yield from _marginals(facts, released.marginals)
    yield from _sums(facts, released)


def _of(
    facts: ModelSummary,
    kind: str,
    clique: Sequence[int],
    values: Floats,
    noise: Floats | float,
    *axes: Sequence[str],
) -> _Table:
    """Return a table whose cells are levels, unless other axes are given."""
    pairs = zip(clique, values.shape, strict=True)
    cells = axes or tuple((*facts.level_names[a], _MISSING)[:n] for a, n in pairs)
    names = tuple(facts.names[a] for a in clique)
    return _Table(kind, names, cells, values, np.broadcast_to(noise, values.shape))


def _marginals(facts: ModelSummary, released: NoisyMarginals) -> Iterator[_Table]:
    """Yield shares, counts of larger marginals, and counts of missing cells."""
    for at, (margin, level) in enumerate(zip(released.margins, released.levels, strict=True)):
        # Counts of one attribute got their noise before levels were merged.
        merged = np.ones(len(margin))
        merged[: level.n_groups] = np.bincount(level.groups)
        yield _of(facts, "share", (at,), margin, (released.std / released.rows) ** 2 * merged)
    for clique, table in released.counts.items():
        yield _of(facts, "count", clique, table, released.stds[clique] ** 2)
    for pair, table in released.masks.items():
        yield _of(facts, "mask", pair, table, released.masks_std**2, _EITHER, _EITHER)


def _sums(facts: ModelSummary, release: PairRelease) -> Iterator[_Table]:
    """Yield sums of coordinates and of products with the pairs that they make, if there are any."""
    products, plan = release.products, release.plan
    if products is None or plan is None:
        return
    axes = []
    for at, (name, block) in enumerate(products.blocks.items()):
        levels = (*facts.level_names[at], _MISSING)
        width, codes = block.shape[1], levels[: len(block)]
        axes.append(levels[:width])
        if at in release.numbered:
            axes[at] = (*levels[: width - 1], "(number)")
            codes = tuple(f"(finer code {i})" for i in range(len(block)))
        yield _of(facts, "coordinate", (at, at), block, 0.0, codes, axes[at])
        yield _of(facts, "sum", (at,), products.single[name], products.single_std**2, axes[at])
    yield _Table("clip", (), (), np.array([plan.clip]), np.zeros(1))
    for a, b in combinations(range(len(axes)), 2):
        found = products.pairs[facts.names[a], facts.names[b]]
        yield _of(facts, "product", (a, b), found, products.std**2, axes[a], axes[b])
    for pair, (values, noise) in facts.pair_tables.items():
        yield _of(facts, "pair", pair, values, noise)
