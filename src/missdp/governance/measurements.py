"""All noisy numbers of a model, with their variances, in one tidy table.

``measurements.parquet`` has one row for each number: its kind, its attributes with the cell of
each, its value, and the variance of its noise. ``maintained.csv`` has one row for each relation.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
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
    "sum": "a noisy sum over clipped rows of a coordinate of an attribute",
    "product": "a noisy sum over clipped rows of a product of two coordinates",
    "pair": "a share of the rows in a cell of two attributes, missing cells included, from sums "
    "and products. The clipping bias, estimated from rows of the model, is added back, which makes "
    "the noise larger. Cells share noise",
    "coordinate": "the number of a code of an attribute in these sums: no measurement",
    "clip": "the L2 norm to which rows are clipped: no measurement",
}
"""Map from the kinds of numbers to their meanings."""


class _Table(NamedTuple):
    """Numbers of one kind, by the cells of some attributes."""

    kind: str
    names: tuple[str, ...]
    cells: tuple[Sequence[str], ...]
    value: Floats
    variance: Floats


def measurements(facts: ModelSummary, labels: Mapping[bytes, bytes]) -> bytes:
    """Return a Parquet file of all measurements of a model, with labels in its metadata."""
    tables = list(_tables(facts))
    axes = max(2, max((len(table.names) for table in tables), default=0))
    columns = [f"{name}_{axis + 1}" for axis in range(axes) for name in ("attribute", "cell")]
    text, number = pa.dictionary(pa.int32(), pa.string()), pa.float64()
    types = {"kind": text, **dict.fromkeys(columns, text), "value": number, "variance": number}
    result = pa.concat_tables(_in_arrow(table, pa.schema(types)) for table in tables)
    result = result.unify_dictionaries().replace_schema_metadata(dict(labels))
    sink = io.BytesIO()
    pyarrow.parquet.write_table(result, sink, compression="zstd")
    return sink.getvalue()


def _in_arrow(table: _Table, schema: pa.Schema) -> pa.Table:
    """Return one row for each number of a table. Axes that the table lacks are null."""
    size = table.value.size
    columns = {field.name: pa.nulls(size, field.type) for field in schema}
    columns["kind"] = _repeated([table.kind], np.zeros(size, dtype=np.int64))
    places = np.indices(table.value.shape).reshape(-1, size)
    named = zip(table.names, table.cells, places, strict=False)
    for axis, (name, cells, place) in enumerate(named, 1):
        columns[f"attribute_{axis}"] = _repeated([name], np.zeros(size, dtype=np.int64))
        columns[f"cell_{axis}"] = _repeated(cells, place)
    columns["value"] = pa.array(table.value.ravel(), pa.float64())
    columns["variance"] = pa.array(table.variance.ravel(), pa.float64())
    return pa.table(columns, schema=schema)


def _repeated(values: Sequence[str], places: Ints) -> pa.Array:
    indices = pa.array(places.astype(np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([*values], pa.string()))


def _tables(facts: ModelSummary) -> Iterator[_Table]:
    """Yield all tables of numbers, or none for a family that keeps no measurements."""
    model = facts.model
    total, variance = np.array([float(model.n_rows_)]), np.array([model.n_rows_std_**2])
    yield _Table("rows", (), (), total, variance)
    tables: PairRelease | NoisyMarginals | None = getattr(model, "tables_", None)
    if tables is None:
        return
    released = PairRelease.of(tables)
    yield from _marginals(facts, released.marginals)
    yield from _sums(facts, released)


def _table(
    facts: ModelSummary,
    kind: str,
    clique: Sequence[int],
    values: Floats,
    noise: Floats | float,
    *axes: Sequence[str],
) -> _Table:
    """Return a table whose cells are levels, unless other axes are passed."""
    pairs = zip(clique, values.shape, strict=True)
    cells = axes or tuple((*facts.level_names[a], _MISSING)[:n] for a, n in pairs)
    names = tuple(facts.names[a] for a in clique)
    return _Table(kind, names, cells, values, np.broadcast_to(noise, values.shape))


def _marginals(facts: ModelSummary, released: NoisyMarginals) -> Iterator[_Table]:
    """Yield shares, counts of larger marginals, and counts of missing cells."""
    for at, (marginal, level) in enumerate(zip(released.one_way, released.levels, strict=True)):
        # Counts of one attribute got their noise before levels were merged.
        merged = np.ones(len(marginal))
        merged[: level.n_groups] = np.bincount(level.groups)
        yield _table(facts, "share", (at,), marginal, (released.std / released.rows) ** 2 * merged)
    for clique, table in released.counts.items():
        yield _table(facts, "count", clique, table, released.stds[clique] ** 2)
    for pair, table in released.masks.items():
        yield _table(facts, "mask", pair, table, released.masks_std**2, _EITHER, _EITHER)


def _sums(facts: ModelSummary, release: PairRelease) -> Iterator[_Table]:
    """Yield sums of coordinates and products with the pairs from them, if there are any."""
    products, plan = release.products, release.plan
    if products is None or plan is None:
        return
    axes = []
    for at, (name, block) in enumerate(products.blocks.items()):
        levels = (*facts.level_names[at], _MISSING)
        width, codes = block.shape[1], levels[: len(block)]
        axes.append(levels[:width])
        if at in release.numeric_scores:
            axes[at] = (*levels[: width - 1], "(number)")
            codes = tuple(f"(finer code {i})" for i in range(len(block)))
        yield _table(facts, "coordinate", (at, at), block, 0.0, codes, axes[at])
        yield _table(facts, "sum", (at,), products.single[name], products.single_std**2, axes[at])
    yield _Table("clip", (), (), np.array([plan.clip]), np.zeros(1))
    for (one, other), sums in products.pairs.items():
        a, b = facts.names.index(one), facts.names.index(other)
        yield _table(facts, "product", (a, b), sums, products.std**2, axes[a], axes[b])
    for pair, (values, noise) in facts.pair_tables.items():
        yield _table(facts, "pair", pair, values, noise)
