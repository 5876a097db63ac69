"""Every noisy number that a model keeps, with its variance, in one tidy table; and what it keeps.

``measurements.parquet`` has one row for each number: its kind, up to some attributes with the cell
of each, the value, the variance of its noise. ``maintained.csv`` has one row for each relation.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from missdp.office.dossier.facts import Facts
from missdp.office.dossier.words import in_csv
from missdp.synth import AIM, MST, AllPairs
from missdp.synth.learn_pairs import PairRelease
from missdp.synth.state import model_text
from missdp.types import Floats

RECORD, SEAL = b"missdp.model", b"missdp.seal"
"""Metadata of the file: the released model that it is of, and what both add up to."""

MISSING = "(missing)"

KINDS = {
    "rows": "the number of rows",
    "count": "a noisy count of the rows in a cell",
    "share": "a share of the rows at a level, from a noisy count: none is below 0, all add up to 1",
    "completed share": "a share of all rows in a cell, from a noisy count of those observed on it",
    "sum": "a noisy sum over rows, each of which is clipped, of a coordinate of an attribute",
    "product": "the same of a product of two coordinates",
    "pair": "a share of the rows in a cell of two attributes, missing ones included, from the sums "
    "and products, with what clipping takes from rows of the model put back, which makes the noise "
    "larger; cells share noise",
    "coordinate": "the number that stands for a code of an attribute in these sums: no measurement",
    "clip": "the L2 norm to which rows are clipped: no measurement",
}
"""What kinds of numbers there are."""


@dataclass(frozen=True, eq=False)
class _Table:
    """Numbers of one kind, by the cells of some attributes."""

    kind: str
    names: tuple[str, ...]
    cells: tuple[Sequence[str], ...]
    values: Floats
    variances: Floats


def measurements(facts: Facts, labels: Mapping[bytes, bytes]) -> bytes:
    """Return a Parquet file of everything that was measured and is kept.

    Parameters
    ----------
    facts : Facts
    labels : mapping of bytes to bytes
        What the file says of itself.
    """
    tables = list(_tables(facts))
    most = max(2, max((len(table.names) for table in tables), default=0))
    arrays: dict[str, pa.Array] = {"kind": _repeated([(t.kind, t.values.size) for t in tables])}
    for place in range(most):
        named = [(t.names[place] if place < len(t.names) else None, t.values.size) for t in tables]
        arrays[f"attribute_{place + 1}"] = _repeated(named)
        arrays[f"cell_{place + 1}"] = _cells(tables, place)
    for name in ("values", "variances"):
        parts = [getattr(table, name).ravel() for table in tables]
        arrays[name.removesuffix("s")] = pa.array(np.concatenate([*parts, np.zeros(0)]))
    sink = io.BytesIO()
    table = pa.table(arrays)
    record = base64.b64encode(zlib.compress(model_text(facts.model)))
    own = {RECORD: record, SEAL: seal(record, table)}
    table = table.replace_schema_metadata({**labels, **own})
    pyarrow.parquet.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def seal(record: bytes, table: pa.Table) -> bytes:
    """Return the SHA-256 of a record with every number, name and cell of a table, in order.

    It shows edits; it is no signature, for anyone can compute it.
    """
    found = hashlib.sha256(record)
    for name, column in zip(table.column_names, table.columns, strict=True):
        found.update(f"\n{name} {column.null_count} ".encode())
        if pa.types.is_floating(column.type):
            found.update(column.to_numpy().astype("<f8").tobytes())
            continue
        coded = pa.concat_arrays(column.cast(pa.string()).chunks).dictionary_encode()
        texts, codes = coded.dictionary.to_pylist(), coded.indices.fill_null(-1).to_numpy()
        order = sorted(range(len(texts)), key=texts.__getitem__)
        ranks = np.append(np.argsort(order), -1)  # in whatever order texts came
        found.update(json.dumps([texts[i] for i in order]).encode())
        found.update(ranks[codes].astype("<i8").tobytes())
    return found.hexdigest().encode()


def _repeated(values: Sequence[tuple[str | None, int]]) -> pa.Array:
    """Return a column of texts, each repeated so often."""
    known = list(dict.fromkeys(text for text, _ in values if text is not None))
    place: dict[str | None, int] = {text: i for i, text in enumerate(known)}
    codes = np.repeat([place.get(text, -1) for text, _ in values], [n for _, n in values])
    return _dictionary(codes, known)


def _cells(tables: Sequence[_Table], axis: int) -> pa.Array:
    """Return the cells of one axis of all tables."""
    known: dict[str, int] = {}
    codes = [np.zeros(0, dtype=np.int64)]
    for table in tables:
        own = [-1]
        if axis < len(table.names):
            own = [known.setdefault(cell, len(known)) for cell in table.cells[axis]]
        shape = [-1 if i == axis else 1 for i in range(max(1, len(table.names)))]
        whole = np.array(own).reshape(shape if axis < len(table.names) else 1)
        codes.append(np.broadcast_to(whole, table.values.shape).ravel())
    return _dictionary(np.concatenate(codes), list(known))


def _dictionary(codes: Any, values: Sequence[str]) -> pa.Array:
    indices = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(values, pa.string()))


def _tables(facts: Facts) -> Iterator[_Table]:
    """Yield all tables of numbers; none of a family that keeps no measurement."""
    model = facts.model
    total, variance = np.array([float(model.n_rows_)]), np.array([model.n_rows_std_**2])
    yield _Table("rows", (), (), total, variance)
    if isinstance(model, AllPairs) and model.pairs_ is not None:
        yield from _of_all_pairs(facts, model.pairs_)
    elif isinstance(model, AIM | MST):
        for clique, (values, stds) in (model.marginals_ or {}).items():
            named = tuple(facts.names[a] for a in clique)
            cells = tuple(facts.level_names[a] for a in clique)
            yield _Table("completed share", named, cells, values, np.square(stds))


def _of_all_pairs(facts: Facts, release: PairRelease) -> Iterator[_Table]:
    crude = release.crude
    levels = [(*names, MISSING) for names in facts.level_names]
    for at, margin in enumerate(crude.margins):
        noise = np.full(margin.shape, (crude.std / crude.rows) ** 2)
        yield _Table("share", (facts.names[at],), (levels[at][: len(margin)],), margin, noise)
    for clique, counts in release.together.items():
        named = tuple(facts.names[a] for a in clique)
        cells = tuple(levels[a][:n] for a, n in zip(clique, counts.shape, strict=True))
        noise = np.full(counts.shape, release.together_stds[clique] ** 2)
        yield _Table("count", named, cells, counts, noise)
    if release.products is not None and release.plan is not None:
        yield from _of_products(facts, release, levels)


def _of_products(
    facts: Facts, release: PairRelease, levels: Sequence[tuple[str, ...]]
) -> Iterator[_Table]:
    """Yield sums and products as they were released, what they are sums of, and pairs from them."""
    products, plan = release.products, release.plan
    assert products is not None
    assert plan is not None
    axes = []
    for at, (name, block) in enumerate(products.blocks.items()):
        width = block.shape[1] - (at in release.numbered)
        axes.append((*levels[at][:width], *["(number)"] * (block.shape[1] - width)))
        codes = levels[at][: len(block)]
        if at in release.numbered:
            codes = tuple(f"(finer code {i})" for i in range(len(block)))
        yield _Table("coordinate", (name, name), (codes, axes[at]), block, np.zeros(block.shape))
        noise = np.full(products.single[name].shape, products.single_std**2)
        yield _Table("sum", (name,), (axes[at],), products.single[name], noise)
    clip = np.array([plan.clip])
    yield _Table("clip", (), (), clip, np.zeros(1))
    for a, b in combinations(range(len(axes)), 2):
        named, both = (facts.names[a], facts.names[b]), (axes[a], axes[b])
        found = products.pairs[named]
        yield _Table("product", named, both, found, np.full(found.shape, products.std**2))
    for (a, b), (table, variance) in facts.pair_tables.items():
        both = (levels[a][: len(table)], levels[b][: table.shape[1]])
        yield _Table("pair", (facts.names[a], facts.names[b]), both, table, variance)


def maintained(facts: Facts) -> bytes:
    """Return a CSV file of the relations that were measured, that are modelled, and that follow.

    Parameters
    ----------
    facts : Facts
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    columns = ("attributes", "maintained", "noise of a cell (share of rows)", "strength", "rule")
    writer.writerow(columns)
    for one in facts.relations:
        numbers = ("" if x is None else in_csv(float(x)) for x in (one.std, one.strength))
        writer.writerow([in_csv("; ".join(one.names)), one.how, *numbers, in_csv(one.rule)])
    return file.getvalue().encode("utf-8")
