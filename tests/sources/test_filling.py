"""Each row is filled by itself, as a function of the row, of distributions and of its draws.

Streamed rows are left out and filled as in memory. No released output reveals how many.
"""

import itertools
import os
import stat
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import missdp.sources.opening as opening
from inference.graphs import CHAIN as SIZES
from inference.graphs import chain as complete
from inference.graphs import table_of
from missdp import Categorical, Numeric, Schema, Table
from missdp.engines import duckdb_rows
from missdp.errors import DataError, ParameterError
from missdp.inference.conditionals import fit_conditionals
from missdp.schema import NotApplicable
from missdp.schema.modelled import ModelView
from missdp.session import CountedRows
from missdp.session.filled_rows import CodeStore
from missdp.session.modelled_rows import modelled_source
from missdp.session.observed_rows import complete_rows
from missdp.session.row_kernel import map_rows
from missdp.sources import DuckDBSource, MemorySource, open_source, strategy_named
from missdp.sources.filling import (
    DRAWS,
    CompletedRow,
    MarginallyFilledRow,
    _fill_codes,
    _fill_modelled,
)
from missdp.table import Rows, memory_limit
from refusing import refuses

LAWS = fit_conditionals(complete(), SIZES)


def filled(source, function, seed):
    """Return the source of the rows that a row function fills."""
    rows = CountedRows.from_source(source, strategy_named("impute-first"))
    return rows.changed(function, lambda: np.random.default_rng(seed)).counts._source


def holey(rng, n, rate=0.4):
    rows = complete(n, int(rng.integers(2**32)))
    return np.where(rng.random(rows.shape) < rate, SIZES, rows)


def test_missing_cells_have_their_conditional_distribution():
    n = 60_000
    rng = np.random.default_rng(0)
    rows = complete(n, 1)
    lost = np.where(rng.random(rows.shape) < 0.5, SIZES, rows)
    found = _fill_codes(LAWS, lost, rng.random((n, DRAWS, 3)))
    assert (found[lost != SIZES] == lost[lost != SIZES]).all()
    for a, c in ((0, 1), (0, 2), (1, 2)):
        told, true = (table_of(r, (a, c), SIZES) for r in (found, rows))
        assert np.abs(told - true).sum() / 2 < 0.03


@pytest.mark.parametrize("filling", ["random", "likely"])
def test_a_level_that_is_never_drawn_is_not(filling):
    rows = np.full((400, 3), SIZES)
    uniforms = np.random.default_rng(0).random((400, DRAWS, 3))
    found = _fill_codes(LAWS, rows, uniforms, never={1: 2, 2: 0}, filling=filling)
    assert not (found[:, 1] == 2).any()
    assert not (found[:, 2] == 0).any()
    sure = fit_conditionals(np.zeros((9, 1), dtype=np.int64), [2])
    alone = _fill_codes(sure, np.array([[2]]), np.full((1, DRAWS, 1), 0.5), never={0: 0})
    assert alone.tolist() == [[1]]


JOBS = Schema(
    (
        *(Categorical(name=n, levels=("no", "yes"), nullable=True) for n in ("work", "old")),
        Categorical(name="hours", levels=("few", "many"), nullable=True),
    ),
    rules=(NotApplicable("hours", unless="work = 'yes' and old = 'yes'"),),
)


def test_not_applicable_follows_from_rules_only():
    rng = np.random.default_rng(0)
    n, modelled = 4000, ModelView(JOBS)
    work, old = rng.integers(0, 2, (2, n))
    applies = (work == 1) & (old == 1)
    hours = np.where(applies, rng.random(n) < 0.7, 2).astype(np.int64)
    rows = np.stack([work, old, hours], axis=1)
    sizes = [a.size for a in modelled.schema]
    assert sizes == [2, 2, 3]
    laws = fit_conditionals(rows, sizes)
    lost = np.where(rng.random(rows.shape) < 0.6, sizes, rows)
    found = _fill_modelled(laws, lost, rng.random((n, DRAWS, 3)), modelled)
    kept = lost[:, 2] == 2  # observed to be not applicable
    here = (found[:, 0] == 1) & (found[:, 1] == 1)
    lacking = here & (found[:, 2] == 2)
    assert not (lacking & ~kept).any()
    both = np.isin(lost[:, 0], (2,)) & np.isin(lost[:, 2], (3,))
    assert 0.35 < (found[both, 0] == 0).mean() < 0.65  # the missing value did not rule that out


def test_laws_that_overflow_fill_rows_without_a_warning():
    """Laws may be such that a row with a missing cell beside a certain level overflows."""
    schema = Schema(tuple(Categorical(name=n, levels=("x", "y"), nullable=True) for n in "ab"))
    laws = fit_conditionals(np.arange(120).reshape(60, 2) // 3 % 2, [2, 2])
    for factors in (laws.given_all.factors, laws.given_some.factors):
        for table in factors.values():
            table[1] = 1e308
    rows = Table.from_codes(schema, {"a": np.arange(60) % 3, "b": np.arange(60) // 3 % 3})
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        found = map_rows(CompletedRow(schema, (), laws), rows.block(), 60, np.random.default_rng(0))
    assert all((found[name] < 2).all() for name in "ab")


def test_laws_of_other_attributes_are_refused():
    laws = fit_conditionals(np.zeros((9, 3), dtype=np.int64), [2, 2, 2])
    for schema, wrong in ((PLAIN, laws), (JOBS, laws), (PLAIN, replace(LAWS, order=(0, 0, 1)))):
        with refuses(ParameterError, "distributions must match the attributes"):
            CompletedRow(schema, (), wrong)


# -- rows that stream ------------------------------------------------------------------------------
PLAIN = Schema(
    (
        Categorical(name="a", levels=("x", "y"), nullable=True),
        Numeric(name="b", lower=0, upper=10, bins=5, nullable=True),
        Categorical(name="c", levels=("u", "v", "w")),
    )
)
RULED = Schema(
    (
        Categorical(name="work", levels=("no", "yes"), nullable=True, refused=("R",)),
        Numeric(name="hours", lower=0, upper=80, bins=4, nullable=True, unknown=(-8,)),
        Categorical(name="c", levels=("u", "v"), nullable=True),
    ),
    rules=(NotApplicable("hours", unless="work = 'yes'"),),
)


CELLS = {
    "a": ["x", "y", None], "b": [0.0, 3.3, 7.5, 10.0, np.nan], "c": ["u", "v"],
    "work": ["no", "yes", "R", None], "hours": [1.0, 30.0, 70.0, -8.0, np.nan],
}  # fmt: skip


def written(schema, path, n=150_000):
    """Write rows with missing values of all kinds, in several batches and row groups."""
    rng = np.random.default_rng(0)
    cells = {k: np.array(CELLS[k])[rng.integers(0, len(CELLS[k]), n)] for k in schema.names}
    pq.write_table(pa.table(cells), path, row_group_size=40_000)
    return path


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    return {s: written(s, folder / f"{len(s.rules)}.parquet") for s in (PLAIN, RULED)}


def cliques(schema):
    return [(), *itertools.chain(*(itertools.combinations(schema.names, k) for k in (1, 2, 3)))]


def assert_same(one, two):
    assert one.keys() == two.keys()
    for clique in one:
        np.testing.assert_array_equal(one[clique], two[clique])


@pytest.mark.parametrize("schema", [PLAIN, RULED], ids=["plain", "ruled"])
@pytest.mark.parametrize("rows", ["observed", "extended"])
def testcomplete_rows_are_those_of_memory(places, schema, rows):
    modelled = ModelView(schema)
    held = complete_rows(
        modelled_source(MemorySource(Table.read(places[schema], schema)), modelled)
    )
    streamed = complete_rows(modelled_source(DuckDBSource(places[schema], schema), modelled))
    wanted = cliques(modelled.schema)
    counts = streamed.counts(wanted, rows=rows)
    assert_same(counts, held.counts(wanted, rows=rows))
    assert 0 < counts[()] < 150_000


def laws(schema):
    plain = ModelView(schema).schema
    found = {}
    for place, name in enumerate(plain.names):
        law = np.arange(1.0, plain[name].size + 1) + place
        found[name] = ModelView(schema).without_not_applicable(name, law / law.sum())
    return found


@pytest.mark.parametrize("schema", [PLAIN, RULED], ids=["plain", "ruled"])
def test_rows_are_filled_once_and_every_count_sees_the_same(places, schema):
    modelled = ModelView(schema)
    source = DuckDBSource(places[schema], schema)
    with memory_limit("1GB"):
        store = filled(source, MarginallyFilledRow(schema, laws(schema)), 0)
    assert isinstance(store, CodeStore)
    whole = store.counts([modelled.schema.names], rows="observed")[modelled.schema.names]
    for clique, counts in store.counts(cliques(modelled.schema), rows="observed").items():
        others = tuple(i for i, n in enumerate(modelled.schema.names) if n not in clique)
        np.testing.assert_array_equal(counts, whole.sum(axis=others))
    assert whole.sum() == 150_000


def test_streamed_rows_are_filled_as_those_of_memory_bit_by_bit(places):
    held = MemorySource(Table.read(places[PLAIN], PLAIN))
    sources = (held, DuckDBSource(places[PLAIN], PLAIN, n_jobs=2))
    one, two = (filled(s, MarginallyFilledRow(PLAIN, laws(PLAIN)), 3) for s in sources)
    # The same random numbers belong to the same row, whatever the batches are.
    assert_same(*(source.counts(cliques(PLAIN), rows="extended") for source in (one, two)))


def test_counts_of_kept_rows_at_the_same_time_do_not_disturb_each_other(monkeypatch, tmp_path):
    """And no file is left, nor can one be seen."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rng, names = np.random.default_rng(0), PLAIN.names
    blocks = [{n: rng.integers(0, 2, 500) for n in names} for _ in range(40)]
    store = CodeStore(PLAIN, blocks)
    assert os.fstat(store._spool._file.fileno()).st_size > 0
    assert not list(tmp_path.iterdir())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: store.counts([names], rows="observed"), range(40)))
    whole = {n: np.concatenate([block[n] for block in blocks]) for n in names}
    alone = MemorySource(Table.from_codes(PLAIN, whole)).counts([names], rows="observed")
    assert all(np.array_equal(counts[names], alone[names]) for counts in found)


def test_rows_that_cannot_be_read_again_quote_nothing():
    cell = "CASE WHEN range < 90000 THEN 'x' ELSE error('SECRET') END"
    schema = Schema((replace(PLAIN["a"], outside="missing"),))
    source = DuckDBSource(duckdb.sql(f"SELECT {cell} AS a FROM range(100000)"), schema)
    with refuses(DataError):
        filled(source, MarginallyFilledRow(schema, {"a": np.array([0.5, 0.5])}), 0)


# -- how long a private file is ------------------------------------------------------------------
SCHEMA = Schema(tuple(Categorical(name=n, levels=("x", "y"), nullable=True) for n in "ab"))


@pytest.fixture
def place(tmp_path):
    rng = np.random.default_rng(0)
    cells = {name: rng.choice(np.array(["x", "y", None]), 500) for name in "ab"}
    pq.write_table(pa.table(cells), tmp_path / "p.parquet")
    return tmp_path / "p.parquet"


def test_fits_in_memory_accept_long_files(place, monkeypatch):
    """A refusal would be an answer about the number of rows that nobody paid for."""
    monkeypatch.setattr(opening, "fits_into_memory", lambda *_, **__: False)  # by its metadata
    assert isinstance(open_source(place, SCHEMA), DuckDBSource)
    assert isinstance(open_source(place, SCHEMA, reads="rows"), MemorySource)
    assert isinstance(open_source(Rows.of_parts(place.parent), SCHEMA, reads="rows"), MemorySource)


def test_rows_are_filled_alike_however_many_come_at_once():
    rng = np.random.default_rng(0)
    codes = {name: rng.integers(0, 3, 1000) for name in "ab"}
    laws = {name: np.array([0.3, 0.7]) for name in "ab"}

    def in_parts(parts):
        noise, function = np.random.default_rng(1), MarginallyFilledRow(SCHEMA, laws)
        found = []
        for part in parts:
            rows = {name: codes[name][part].astype(np.uint8) for name in "ab"}
            block = map_rows(function, rows, len(part), noise)
            found.append(np.stack([block[n] for n in "ab"], axis=1))
        return np.concatenate(found)

    rows = np.arange(1000)
    once = in_parts([rows])
    assert np.array_equal(once, in_parts(np.split(rows, [3, 400, 401])))
    holes = codes["a"] == 2
    assert once[~holes, 0].tolist() == codes["a"][~holes].tolist()
    assert once[holes, 0].mean() == pytest.approx(0.7, abs=0.08)
    laws = {"a": np.array([1.0, 0.0]), "b": np.array([0.0, 1.0])}  # without mass: never drawn
    sure = in_parts([rows])
    assert not sure[codes["a"] == 2, 0].any()
    assert sure[codes["b"] == 2, 1].all()


def test_a_file_that_is_found_twice_counts_once(place):
    os.symlink(place, place.parent / "latest.parquet")
    os.link(place, place.parent / "copy.parquet")
    for found in (
        Rows.of_parts(place.parent),
        Rows.of_parts(place.parent / "**" / "**" / "*.parquet"),
    ):
        counts = DuckDBSource(found, SCHEMA).counts([()], rows="extended")[()]
        assert int(counts) == 500


def test_spilled_files_are_encrypted_and_private(tmp_path):
    with duckdb.connect(str(tmp_path / "a.duckdb")) as made:
        made.execute("CREATE TABLE t AS SELECT 'x' AS a, 'y' AS b")
    place = tmp_path / "a.duckdb"
    rows = duckdb_rows(place, query="SELECT name, value FROM duckdb_settings()")
    (table,) = (batch.to_pydict() for batch in rows.batches(("name", "value")))
    as_text = [[(cell or b"").decode() for cell in column] for column in table.values()]
    found = [*zip(*as_text, strict=True)]
    folder = dict(found)["temp_directory"]
    assert dict(found).get("temp_file_encryption", "true") == "true"
    if folder:
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    del rows
    assert not (folder and os.path.exists(folder))


def test_a_long_first_cell_does_not_make_many_rows_look_like_few(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"a,b\n" + b'"' + b"x" * 1_100_000 + b'",y\n' + b"x,y\n" * 1_000_000)
    assert Rows.of(path).approximate_length() > 100_000
