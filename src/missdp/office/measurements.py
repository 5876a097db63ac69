"""Every noisy number that a model keeps, with its variance, in one tidy table; written, and read.

``measurements.parquet`` has one row for each number: its kind, up to some attributes with the cell
of each, the value, the variance of its noise. ``maintained.csv`` has one row for each relation.

The file holds the record of its release, and a seal of both. Where the seal is that of this record
with these numbers, the record's model is returned, and its guarantee rests on one condition more:
that whoever wrote the file told the truth. Otherwise a model is fitted to whatever numbers there
are, and nothing is claimed of it.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from missdp.accounting import TakenFromFile
from missdp.errors import DataError, SchemaError, replacing
from missdp.inference.estimate import Estimate
from missdp.inference.junction import Clique, Growth
from missdp.mechanisms import Total
from missdp.office.facts import Facts, code_names
from missdp.schema import Schema, Unit
from missdp.schema.open_domains import is_pending, uncut
from missdp.sources.modelled import Modelled
from missdp.synth import AIM, MST, AllPairs
from missdp.synth.base import Synthesizer
from missdp.synth.learn_pairs import PairRelease
from missdp.synth.registry import opened_model
from missdp.synth.state import as_declared, model_text
from missdp.types import Floats, Ints

_SHARES = ("pair", "share", "completed share")
_MOST_CELLS = 2.0**18  # of the model; rows are raked to what it cannot hold,
_MOST_RAKED = 600  # to so many tables at most
_MOST_TEXT = 2**30  # bytes of a record, unpacked
RECORD, _SEAL = b"missdp.model", b"missdp.seal"
"""Metadata of the file: the released model that it is of, and what both add up to."""

_MISSING = "(missing)"

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


class _Table(NamedTuple):
    """Numbers of one kind, by the cells of some attributes."""

    kind: str
    names: tuple[str, ...]
    cells: tuple[Sequence[str], ...]
    value: Floats
    variance: Floats


def measurements(facts: Facts, labels: Mapping[bytes, bytes]) -> bytes:
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
    record = base64.b64encode(zlib.compress(model_text(facts.model)))
    own = {RECORD: record, _SEAL: _seal(record, table)}
    table = table.replace_schema_metadata({**labels, **own})
    pyarrow.parquet.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def _seal(record: bytes, table: pa.Table) -> bytes:
    """Return the SHA-256 of a record with every number, name and cell of a table, in order."""
    # It shows edits; it is no signature, for anyone can compute it.
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
    """Yield shares, tables of several, and sums of products with the pairs that they make."""
    crude, products, plan = release.crude, release.products, release.plan
    levels = [(*names, _MISSING) for names in facts.level_names]

    def table(
        kind: str,
        clique: Sequence[int],
        values: Floats,
        noise: Floats | float,
        *axes: Sequence[str],
    ) -> _Table:
        """Return one of cells that are levels, unless other axes are given."""
        pairs = zip(clique, values.shape, strict=True)
        cells = axes or tuple(levels[a][:n] for a, n in pairs)
        names = tuple(facts.names[a] for a in clique)
        return _Table(kind, names, cells, values, np.broadcast_to(noise, values.shape))

    for at, margin in enumerate(crude.margins):
        yield table("share", (at,), margin, (crude.std / crude.rows) ** 2)
    for clique, counts in release.together.items():
        yield table("count", clique, counts, release.together_stds[clique] ** 2)
    if products is None or plan is None:
        return
    axes = []
    for at, (name, block) in enumerate(products.blocks.items()):
        width, codes = block.shape[1], levels[at][: len(block)]
        axes.append(levels[at][:width])
        if at in release.numbered:
            axes[at] = (*levels[at][: width - 1], "(number)")
            codes = tuple(f"(finer code {i})" for i in range(len(block)))
        yield table("coordinate", (at, at), block, 0.0, codes, axes[at])
        yield table("sum", (at,), products.single[name], products.single_std**2, axes[at])
    yield _Table("clip", (), (), np.array([plan.clip]), np.zeros(1))
    for a, b in combinations(range(len(axes)), 2):
        found = products.pairs[facts.names[a], facts.names[b]]
        yield table("product", (a, b), found, products.std**2, axes[a], axes[b])
    for pair, (values, variance) in facts.pair_tables.items():
        yield table("pair", pair, values, variance)


class _Marginal(NamedTuple):
    """Noisy counts of the cells of some attributes, and their noise."""

    counts: Floats
    std: float

    def over(self, axis: int) -> _Marginal:
        """Return the counts of one attribute."""
        others = tuple(i for i in range(self.counts.ndim) if i != axis)
        cells = self.counts.size / self.counts.shape[axis]
        return _Marginal(self.counts.sum(axis=others), self.std * math.sqrt(cells))

    def merged(self, groups: Sequence[Ints]) -> _Marginal:
        """Return the counts of groups of levels, one list of groups for each axis."""
        counts = self.counts
        for axis, own in enumerate(groups):
            starts = np.zeros((int(own.max()) + 1, len(own)))
            starts[own, np.arange(len(own))] = 1.0
            counts = np.moveaxis(np.tensordot(starts, counts, (1, axis)), 0, axis)
        return _Marginal(counts, self.std * math.sqrt(self.counts.size / counts.size))

    @property
    def dependence(self) -> float:
        """How far the counts are from independence, in their noise."""
        total = max(1.0, float(self.counts.sum()))
        margins = [self.over(axis).counts / total for axis in range(self.counts.ndim)]
        apart = self.counts - total * reduce(np.multiply.outer, margins)
        return float(np.sqrt(np.square(apart).mean())) / self.std


def from_measurements(file: str | Path, schema: Schema | None = None) -> Synthesizer:
    """Return a synthesizer from published measurements, without any private row.

    Parameters
    ----------
    file : str or Path
        ``measurements.parquet`` of a dossier, or of ``numpy.savez`` with arrays ``values_0``,
        ``clique_0`` and ``stddev_0``, ``values_1``, ... : the ``noisy_measurement``, ``clique`` and
        ``stddev`` of each linear measurement of the library mbi, all of them marginals. Files that
        mbi writes itself hold a pickle, which runs what it holds, and are refused.
    schema : Schema, optional
        That of the release, or with declared bins; by default the one in the file's own record.

    Returns
    -------
    Synthesizer
        The released one, whose guarantee rests on `TakenFromFile`, if the seal in the file covers
        exactly these measurements, variances and schema. Else a graphical model (`AIM`) of the
        numbers, of which no guarantee is known: it draws rows, and estimates as if these were
        independent, and whatever asks for its guarantee is refused. A checksum is no signature:
        anyone can compute it.

    Raises
    ------
    DataError
        If the file cannot be read, or its cells are not those of the schema.
    SchemaError
        If there is no schema, or one whose bins are not known.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile
    >>> from missdp import Categorical, Schema
    >>> from missdp.office.dossier import from_measurements
    >>> levels = {"levels": ("no", "yes")}
    >>> schema = Schema((Categorical(name="smoker", **levels), Categorical(name="ill", **levels)))
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "marginals.npz"
    >>> np.savez(file, values_0=[52.0, 9.0, 11.0, 28.0], clique_0=["smoker", "ill"], stddev_0=3.0)
    >>> model = from_measurements(file, schema)
    >>> model.sample(4).shape
    (4, 2)
    >>> model.guarantee_
    Traceback (most recent call last):
        ...
    missdp.errors.UnprovenError: no guarantee is known: the model was made from numbers that no \
sealed record of a release in their file covers
    """
    place, table = Path(file), None
    broken = DataError(f"{str(file)!r} holds no measurements that can be read")
    if place.suffix != ".npz":
        with replacing(OSError, pa.ArrowException, by=broken):
            table = pa.parquet.read_table(place)
        known = _released(table, schema, place)
        if known is not None:
            return known
    if schema is None:
        raise SchemaError("the file has no sealed record of a release: give its schema")
    if schema.of_rows is not schema:
        raise SchemaError(
            "the file has no sealed record of a release from rows of this schema, and its numbers "
            "do not tell how much units count: leave 'unit' and 'weight' out of the schema, and "
            "intervals take rows for independent"
        )
    if pending := [a.name for a in schema if is_pending(a)]:
        raise SchemaError(f"the bins of {', '.join(pending)} are not in the schema: declare them")
    modelled = Modelled(schema)
    unread = (OSError, LookupError, ValueError, TypeError)
    with replacing(*unread, by=lambda error: error if isinstance(error, DataError) else broken):
        rows, found = _saved(place, modelled) if table is None else _tidy(table, modelled)
    return _fitted(modelled, rows, found)


def _released(table: pa.Table, schema: Schema | None, place: Path) -> Synthesizer | None:
    """Return the model of the file's own record, if the seal is that of record and numbers."""
    said = table.schema.metadata or {}
    record = said.get(RECORD, b"")
    if not record or said.get(_SEAL) != _seal(record, table):
        return None
    broken = DataError(f"{str(place)!r} holds a record that is no model")
    with replacing(ValueError, zlib.error, by=broken):
        unpacked = zlib.decompressobj().decompress(base64.b64decode(record), _MOST_TEXT)
        document = json.loads(unpacked)
    model = opened_model(document, place)
    if schema is not None:
        own = as_declared(model, model.schema_)
        counted = _counting(schema.unit) in (None, _counting(own.unit))
        weighed = schema.weight in (None, own.weight)
        if not (counted and weighed and schema.of_rows in (own.of_rows, uncut(own.of_rows))):
            if model._size is not None or model.guarantee_.max_rows > 1:
                raise SchemaError(
                    "the numbers are of a release whose rows are not independent, or count by "
                    "weights, and are understood by its own schema only: give that, or none"
                )
            return None
    model.guarantee_ = model.guarantee_.with_conditions(TakenFromFile())
    return model


def _counting(unit: Unit | None) -> tuple[str, int, str] | None:
    """Return what a record tells of a unit: not which identifiers are missing."""
    return None if unit is None else (unit.column, unit.max_rows, unit.counts)


def _tidy(table: pa.Table, modelled: Modelled) -> tuple[Total, dict[Clique, _Marginal]]:
    """Return the number of rows, and shares of the rows as counts, of a tidy table."""
    frame = table.to_pandas()
    rows = Total(*frame.loc[frame["kind"] == "rows", ["value", "variance"]].iloc[0].astype(float))
    places = [name for name in frame if name.startswith("attribute_")]
    found: dict[Clique, _Marginal] = {}
    for factor, kinds in ((rows.value, _SHARES), (1.0, ("count",))):
        own = frame[frame["kind"].isin(kinds)]
        for named, cells in own.groupby(places, dropna=False, sort=False, observed=True):
            names = [name for name in named if isinstance(name, str)]
            clique, values, variances = _placed(modelled, names, cells)
            std = float(np.sqrt(variances.mean()))
            found[clique] = _Marginal(values * factor, std * factor)
    return rows, found


def _placed(modelled: Modelled, names: list[str], cells: Any) -> tuple[Clique, Floats, Floats]:
    """Return the positions of attributes, and values and variances by the codes of their cells."""
    clique, codes, shape = [], [], []
    for place, name in enumerate(names):
        known = [*code_names(modelled, name), _MISSING]
        at = pd.Index(known).get_indexer(cells[f"cell_{place + 1}"].astype(object))
        if (at < 0).any():
            raise DataError(f"cells of {name!r} are not those of the schema, or merged")
        clique.append(modelled.schema.names.index(name))
        codes.append(at)
        shape.append(len(known) - (not (at == len(known) - 1).any()))
    tables = []
    for column in ("value", "variance"):
        whole = np.full(shape, np.nan)
        whole[tuple(codes)] = cells[column]
        tables.append(whole)
    if np.isnan(tables).any() or len(cells) != tables[0].size:
        raise DataError(f"cells of {', '.join(names)} are absent, or there twice")
    return tuple(clique), tables[0], tables[1]


def _saved(place: Path, modelled: Modelled) -> tuple[Total, dict[Clique, _Marginal]]:
    """Return the number of rows, and marginals, of a file of NumPy."""
    found: dict[Clique, _Marginal] = {}
    names, at = modelled.schema.names, 0
    with np.load(place, allow_pickle=False) as saved:
        while f"values_{at}" in saved:
            named = [str(name) for name in saved[f"clique_{at}"]]
            if not {*named} <= {*names}:
                raise DataError("a clique has attributes that are not in the schema")
            values = np.asarray(saved[f"values_{at}"], dtype=float)
            sizes = [[modelled.schema[n].size, modelled.schema[n].extended_size] for n in named]
            shapes = [s for s in zip(*sizes, strict=True) if math.prod(s) == values.size]
            if not shapes:
                raise DataError(f"measurement {at} is no marginal of the levels of the schema")
            std = float(saved[f"stddev_{at}"])
            found[tuple(map(names.index, named))] = _Marginal(values.reshape(shapes[0]), std)
            at += 1
    if not found:
        raise DataError(f"{str(place)!r} holds no measurements that can be read")
    totals = np.array([m.counts.sum() for m in found.values()])
    weights = np.array([1 / (m.counts.size * m.std**2) for m in found.values()])
    return Total(float(totals @ weights / weights.sum()), float(1 / weights.sum())), found


def _fitted(modelled: Modelled, rows: Total, found: Mapping[Clique, _Marginal]) -> AIM:
    """Return a graphical model of marginals, of which no guarantee is known."""
    names, alone = modelled.schema.names, list[_Marginal]()
    for at, name in enumerate(names):
        known = [m.over(c.index(at)) for c, m in found.items() if at in c]
        if not known:
            raise DataError(f"no measurement is about {name!r}")
        alone.append(min(known, key=lambda one: one.std))
    sizes = [len(one.counts) for one in alone]
    if any(m.counts.shape != tuple(sizes[a] for a in c) for c, m in found.items()):
        raise DataError("some marginals have a cell for missing values of an attribute, some none")
    extended = [n > modelled.schema[name].size for n, name in zip(sizes, names, strict=True)]
    model = AIM(epsilon=math.nan, missing="joint" if any(extended) else "observed")
    model.schema_, model.kind_, model.release_ = modelled.whole, "pandas", None
    model._fitted_with, model._kept, model._beyond = model._public_parameters(), None, {}
    kinds = modelled.kinds.items()
    model._kind_shares = {name: np.full(len(one), 1 / len(one)) for name, one in kinds}
    model.n_rows_, model.n_rows_std_ = max(0, round(rows.value)), rows.std
    zeros, std = model._zeros(modelled.schema), max(one.std for one in alone)
    estimate = Estimate(
        [one.counts for one in alone],
        std=std,
        extended=extended,
        n_rows=max(1.0, rows.value),
        partial=False,
        rng=np.random.default_rng(0),
        shrink=model.shrink,
        ridge=model.ridge,
        model_rows=model.model_rows,
        zeros=zeros,
        always=modelled.never_missing,
        told=modelled.told,
    )
    _fit_larger(estimate, found, extended)
    recipe = {"extended": tuple(extended), "partial": False, "always": modelled.never_missing}
    model.keep(estimate, zeros, first_sigma=std, **recipe)
    return model


def _fit_larger(
    estimate: Estimate, found: Mapping[Clique, _Marginal], extended: Sequence[bool]
) -> None:
    """Fit the model to larger marginals: those that tell most first, while it can hold them."""
    groups = [
        np.append(level.groups, level.n_groups) if more else level.groups
        for level, more in zip(estimate.levels, extended, strict=True)
    ]
    larger = {c: m.merged([groups[a] for a in c]) for c, m in found.items() if len(c) > 1}
    growth = Growth(estimate.sizes)
    for clique in sorted(larger, key=lambda c: -larger[c].dependence):
        growth.hold(estimate.cliques)
        one, place = larger[clique], np.argsort(clique)
        ordered, counts = tuple(sorted(clique)), one.counts.transpose(place)
        if growth.fits(ordered, _MOST_CELLS):
            estimate.add(ordered, counts, one.std)
        elif len(estimate.noted) < _MOST_RAKED:
            estimate.note(ordered, counts, one.std)
    estimate.refit(iterations=100, sweeps=8)
    estimate.finish()
