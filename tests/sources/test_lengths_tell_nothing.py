"""How long a private file is decides what is held, and nothing that anyone is shown."""

import os
import stat

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import missdp.sources.strategies as strategies
from missdp import AllPairs, Categorical, Kamino, PrivBayes, Schema, Table
from missdp.engines import DuckDBRows
from missdp.errors import ParameterError
from missdp.sources import DuckDBSource, MemorySource, open_source
from missdp.sources.filling import filled_rows
from missdp.sources.modelled import Modelled
from missdp.table import PartRows
from missdp.table.streams import _lines

SCHEMA = Schema(
    tuple(Categorical(name=name, levels=("x", "y"), nullable=True) for name in ("a", "b"))
)


@pytest.fixture
def place(tmp_path):
    rng = np.random.default_rng(0)
    cells = {name: rng.choice(np.array(["x", "y", None]), 500) for name in ("a", "b")}
    pq.write_table(pa.table({k: pa.array(v) for k, v in cells.items()}), tmp_path / "p.parquet")
    return tmp_path / "p.parquet"


@pytest.fixture
def too_long(monkeypatch):
    """Every file is longer than memory, by what metadata tell."""
    monkeypatch.setattr(strategies, "fits_into_memory", lambda *_, **__: False)


@pytest.mark.usefixtures("too_long")
def test_what_reads_rows_is_not_refused_for_a_long_file(place):
    """A refusal would be an answer about the number of rows that nobody paid for."""
    assert isinstance(open_source(place, SCHEMA), DuckDBSource)
    assert isinstance(open_source(place, SCHEMA, reads="rows"), MemorySource)
    assert isinstance(open_source(PartRows(place.parent), SCHEMA, reads="rows"), MemorySource)
    model = Kamino(epsilon=1.0, heads="sequential", steps=2, batch=50).fit(place, schema=SCHEMA)
    assert model.sample(3).shape == (3, 2)


def test_a_relation_is_refused_however_short_it_is(place):
    relation = duckdb.read_parquet(str(place))
    with pytest.raises(ParameterError, match="in memory"):
        Kamino(epsilon=1.0, heads="sequential", steps=2).fit(relation, schema=SCHEMA)


@pytest.mark.parametrize("missing", ["joint", "observed", "complete-rows", "impute-first"])
@pytest.mark.parametrize("family", [PrivBayes, AllPairs])
def test_held_or_streamed_the_model_is_the_same(family, missing, place, monkeypatch):
    drawn = []
    for fits in (True, False):
        monkeypatch.setattr(strategies, "fits_into_memory", lambda *_, f=fits, **__: f)
        model = family(epsilon=1.0, missing=missing, random_state=0).fit(place, schema=SCHEMA)
        drawn.append(model.sample(200, random_state=0).to_csv())
    assert drawn[0] == drawn[1]


def test_rows_are_filled_alike_however_many_come_at_once():
    rng = np.random.default_rng(0)
    codes = {name: rng.integers(0, 3, 1000) for name in ("a", "b")}
    whole = Table.from_codes(SCHEMA, codes)
    laws = {name: np.array([0.3, 0.7]) for name in ("a", "b")}

    def filled(parts):
        noise = np.random.default_rng(1)
        found = []
        for part in parts:
            source = filled_rows(MemorySource(whole.take(part)), laws, noise, Modelled(SCHEMA))
            found.append(np.stack([source.table.codes(n) for n in ("a", "b")], axis=1))
        return np.concatenate(found)

    rows = np.arange(1000)
    once = filled([rows])
    assert np.array_equal(once, filled(np.split(rows, [3, 400, 401])))
    holes = codes["a"] == 2
    assert once[~holes, 0].tolist() == codes["a"][~holes].tolist()
    assert once[holes, 0].mean() == pytest.approx(0.7, abs=0.08)
    laws = {"a": np.array([1.0, 0.0]), "b": np.array([0.0, 1.0])}  # without mass: never drawn
    sure = filled([rows])
    assert not sure[codes["a"] == 2, 0].any()
    assert sure[codes["b"] == 2, 1].all()


def test_a_file_that_is_found_twice_counts_once(place):
    os.symlink(place, place.parent / "latest.parquet")
    os.link(place, place.parent / "copy.parquet")
    for found in (PartRows(place.parent), PartRows(place.parent / "**" / "**" / "*.parquet")):
        counts = DuckDBSource(found, SCHEMA).counts([()], rows="extended")[()]
        assert int(counts) == 500


def test_what_the_engine_spills_is_encrypted_and_nobody_elses(tmp_path):
    with duckdb.connect(str(tmp_path / "a.duckdb")) as made:
        made.execute("CREATE TABLE t AS SELECT 'x' AS a, 'y' AS b")
    rows = DuckDBRows(tmp_path / "a.duckdb", table="t")
    settings = dict(
        rows._connection.execute("SELECT name, value FROM duckdb_settings()").fetchall()
    )
    folder = settings["temp_directory"]
    assert settings.get("temp_file_encryption", "true") == "true"
    if folder:
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    del rows
    assert not (folder and os.path.exists(folder))


def test_a_long_first_cell_does_not_make_many_rows_look_like_few(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"a,b\n" + b'"' + b"x" * 1_100_000 + b'",y\n' + b"x,y\n" * 1_000_000)
    assert _lines(path) > 100_000
