"""Commands on tables that do not fit into the limit: odd tables, odd places, and drafts of them."""

import gzip
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import missdp
from missdp import Categorical, Numeric, Schema, Table
from missdp.sources import DuckDBSource
from missdp.synth import sampling
from missdp.table import Rows, distinct_cells, draft_columns, memory_limit
from missdp.table.memory import fits_into_memory

SCHEMA = Schema(
    (
        Categorical(name="a", levels=("x", "y"), nullable=True),
        Numeric(name="b", lower=0, upper=10, bins=5, nullable=True),
    )
)
posix = pytest.mark.skipif(sys.platform == "win32", reason="limits of another kind")


def frame(n, seed=0):
    rng = np.random.default_rng(seed)
    a, gone = rng.choice(np.array(["x", "y", None]), n), rng.random(n) < 0.2
    return pd.DataFrame({"a": a, "b": np.where(gone, np.nan, np.round(rng.random(n) * 10, 2))})


def whole(n):
    return frame(n).fillna({"a": "x", "b": 1.0})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SCHEMA.to_toml("s.toml")
    frame(3000).to_csv("rows.csv", index=False)
    return tmp_path


@pytest.fixture
def streamed(monkeypatch):
    """Every file is too large to be held."""
    monkeypatch.setattr(Rows, "approximate_length", lambda rows: 10**12)


FIT = "--schema s.toml --epsilon 1 --method privbayes --delta 1e-6 --overwrite"
SYNTHESIZE = f"synthesize rows.csv -o out.csv {FIT} --seed 1"
IMPUTE = "--model out.model.json"


# -- the limit -----------------------------------------------------------------------------------
def test_rows_and_columns_decide_and_not_the_size_of_the_file(tmp_path):
    path = tmp_path / "flat.parquet"  # many rows in few bytes
    pq.write_table(pa.table({"a": pa.array(["x"]).take(pa.array([0] * 2_000_000))}), path)
    schema = SCHEMA.subset(["a"])
    assert path.stat().st_size < 10**5
    assert Rows.of(path).approximate_length() == 2_000_000
    for memory, rows, fit in (
        ("600MB", 2_000_000, True), ("600MB", 20_000_000, False), ("600MB", None, False),
        ("3GB", 20_000_000, True),
    ):  # fmt: skip
        with memory_limit(memory):
            assert fits_into_memory(rows, schema) == fit


@pytest.mark.parametrize(("name", "end"), [("rows.csv", b"\r\n"), ("rows.csv.gz", b"\r")])
def test_rows_of_a_csv_file_are_counted_for_any_start(tmp_path, name, end):
    text = b"a" + end + b"s" * 1_500_000 + end + (b"x" + end) * 300_000
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    assert Rows.of(tmp_path / name).approximate_length() == 300_002


PEAK = """
import resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, done.stderr)
"""


@pytest.mark.long
@posix
@pytest.mark.parametrize(
    ("dictionary", "expected"), [pytest.param(True, 0, marks=pytest.mark.slow), (False, 3)]
)
def test_long_cells_take_no_more_memory_than_there_may_be(folder, dictionary, expected):
    cells = pa.array(["s" * (10_000_000 if dictionary else 30_000_000), "x"])
    rows = pa.array([0] * (1000 if dictionary else 10) + [1])
    column = pa.DictionaryArray.from_arrays(rows, cells)
    column = column if dictionary else column.cast(pa.string())
    options = {"use_dictionary": dictionary, "store_schema": False, "compression": "zstd"}
    pq.write_table(pa.table({"a": column, "b": [1.0] * len(rows)}), "long.parquet", **options)
    Schema(tuple(replace(one, outside="missing") for one in SCHEMA)).to_toml("loose.toml")
    check = "schema check loose.toml long.parquet --memory 512MiB"
    command = [sys.executable, "-c", PEAK, sys.executable, "-m", "missdp", *check.split()]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    code, taken, *said = found.split(maxsplit=2)
    assert int(code) == expected
    assert int(taken) <= 1.05 * 2**29
    if expected:
        assert ("exceeds the limit of memory" in said[0], "sss" in said[0]) == (True, False)


# -- the same results ----------------------------------------------------------------------------
@pytest.mark.long
def test_rows_are_the_same_in_blocks_and_at_once_and_within_the_limit(
    folder, ok, fails, monkeypatch
):
    ok(SYNTHESIZE)
    model, sample = missdp.load("out.model.json"), "sample out.model.json --rows 1050 --seed 5 -o"
    monkeypatch.setattr(sampling, "_ROWS", (100, 100))
    at_once = model.sample_table(1050, random_state=5)
    parts = list(model.sample_blocks(1050, random_state=5))
    assert [len(p) for p in parts] == [96] * 5 + [95] * 6
    assert parts[0].to_arrow() != parts[1].to_arrow()  # from generators of their own
    assert Table.concatenate(parts).to_arrow() == at_once.to_arrow()
    for name in ("threads.csv", "more.parquet"):
        ok(f"{sample} {name}")
        assert Table.read(name, SCHEMA).to_arrow() == at_once.to_arrow()
    assert len(model.sample_table(0)) == 0
    monkeypatch.setattr(sampling, "_BYTES_PER_CELL", 10**9)
    monkeypatch.setattr(sampling, "map_in_order", None)  # which holds several blocks at once
    ok(f"{sample} single.csv --memory 512MiB")
    assert Path("single.csv").read_bytes() == Path("threads.csv").read_bytes()
    fails(2, "--memory", f"{sample} none.csv --memory 500MiB")


def without_ids(text):
    """Return the printed text of a command without the random id of the release."""
    return re.sub("[0-9a-f]{32}", "ID", text)


@pytest.mark.long
def test_every_command_says_the_same_of_a_table_that_streams(folder, run, ok, monkeypatch):
    whole(3000).to_csv("whole.csv", index=False)
    ok(SYNTHESIZE)
    commands = (
        SYNTHESIZE.replace("out.csv", "m.csv"),
        "evaluate rows.csv out.csv --schema s.toml --json",
        "evaluate rows.csv out.csv --schema s.toml --ways 2 --json",
        f"impute rows.csv {IMPUTE} -o f.csv --seed 3 --overwrite",
        "simulate whole.csv --schema s.toml --rate 0.0 --seed 1 -o h.csv --overwrite",
    )
    held = [run(command) for command in commands]
    files = {name: Path(name).read_bytes() for name in ("m.csv", "f.csv", "h.csv")}
    monkeypatch.setattr(Rows, "approximate_length", lambda rows: 10**12)
    for command, (code, out, _) in zip(commands, held, strict=True):
        again, said, _ = run(command)
        assert (code, again, without_ids(said)) == (0, 0, without_ids(out))
    assert files == {name: Path(name).read_bytes() for name in files}


def test_learners_and_mechanisms_that_need_all_rows_say_so(folder, streamed, fails, ok):
    frame(100).to_csv("out.csv", index=False)
    whole(100).to_csv("whole.csv", index=False)
    fails(2, "in memory", "evaluate rows.csv out.csv --schema s.toml --f1")
    simulate = "simulate whole.csv --schema s.toml --rate 0.3 --seed 1 -o h.csv"
    fails(2, "--memory", f"{simulate} --mechanism mar")
    assert not Path("h.csv").exists()
    ok(simulate)
    assert 0.2 < pd.read_csv("h.csv")["b"].isna().mean() < 0.4


# -- odd tables ----------------------------------------------------------------------------------
ODD = {
    "no rows.csv": pd.DataFrame({"a": pd.array([], "string"), "b": pd.array([], "float64")}),
    "one row.parquet": pd.DataFrame({"a": ["x"], "b": [3.0]}),
    "all missing.csv": pd.DataFrame({"a": ["x", "y"] * 50, "b": [np.nan] * 100}),
    "nothing at all.parquet": pd.DataFrame({"a": [None] * 100, "b": [np.nan] * 100}),
}


@pytest.mark.long
@pytest.mark.parametrize("data", ODD)
def test_odd_tables_stream(folder, streamed, run, ok, data):
    if data.endswith(".csv"):
        ODD[data].to_csv(data, index=False)
    else:
        ODD[data].astype({"a": "string"}).to_parquet(data, index=False)
    ok(f"schema check s.toml '{data}'")
    assert run(f"schema init '{data}' -o d.toml")[0] == (3 if data == "no rows.csv" else 0)
    for missing in ("impute-first", "joint"):
        ok(f"synthesize '{data}' {FIT} --strategy {missing} -o out.csv --rows 20")
        assert len(pd.read_csv("out.csv")) == 20
    ok(f"evaluate '{data}' out.csv --schema s.toml")
    ok(f"impute '{data}' {IMPUTE} -o f.parquet")
    filled = pd.read_parquet("f.parquet")
    assert len(filled) == len(ODD[data])
    assert not filled.isna().any().any()


def test_folders_and_patterns_are_read_as_one_table(folder, fails, ok):
    for place in ("visits/2024", "visits/_old"):
        Path(place).mkdir(parents=True)
    for k, place in enumerate(("visits/1.parquet", "visits/2024/2.parquet", "visits/3.pq")):
        frame(3000).iloc[1000 * k : 1000 * (k + 1)].to_parquet(place, index=False)
    frame(10, 1).to_parquet("visits/_old/0.parquet", index=False)
    Path("visits/notes.txt").write_text("no table")
    found, held = (
        DuckDBSource(rows, SCHEMA).counts([("a", "b"), ()], rows="extended")["a", "b"]
        for rows in (Rows.of_parts("visits"), Path("rows.csv"))
    )
    np.testing.assert_array_equal(found, held)
    for place, rows in (
        ("visits", 3000),
        ("visits/*.parquet", 1000),
        ("visits/**/*.parquet", 2010),
    ):
        assert Rows.of_parts(place).approximate_length() == rows
    ok("schema check s.toml visits")
    ok("schema check s.toml 'visits/*.parquet'")
    pd.DataFrame({"z": [1]}).to_parquet("visits/4.parquet")
    fails(3, "other columns", "schema check s.toml visits")


@pytest.mark.long
def test_nothing_is_written_among_the_parts_that_are_read(folder, fails, ok):
    Path("visits/2024").mkdir(parents=True)
    frame(300).to_parquet("visits/1.parquet", index=False)
    ok(SYNTHESIZE)
    before = {path: path.read_bytes() for path in Path("visits").rglob("*.parquet")}
    for place, *outputs in (
        ("visits", "visits/out.parquet", "visits/2024/out.PQ", "visits/../visits/out.parquet"),
        ("visits/*.parquet", "visits/out.parquet", "./visits/2.parquet"),
        ("visits/**/*.parquet", "visits/2024/out.parquet"),
    ):
        for output in outputs:
            for command in (
                f"synthesize {place} --schema s.toml --epsilon 1",
                f"simulate {place} --schema s.toml --rate 0.2 --seed 1",
                f"impute {place} {IMPUTE}",
            ):
                fails(5, "Write into another folder", f"{command} -o {output}")
    for output in ("visits/2024/out.parquet", "visits/out.csv", "visits/_out.parquet"):
        place = "visits/*.parquet" if "2024" in output else "visits"
        ok(f"impute {place} {IMPUTE} -o {output}")
        Path(output).unlink()
    assert {path: path.read_bytes() for path in Path("visits").rglob("*.parquet")} == before


# -- drafts --------------------------------------------------------------------------------------
@pytest.mark.long
def test_a_draft_of_very_many_numbers_is_that_of_all_of_them(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    n = 1_500
    table = pd.DataFrame(
        {
            "x": rng.normal(50, 10, n).round(6),
            "id": [f"u{i}" for i in range(n)],
            "z": np.where(rng.random(n) < 0.2, 0.0, rng.gamma(2, 100, n)),
            "k": rng.integers(0, 40_000, n),
            "code": np.where(rng.random(n) < 0.1, -7, rng.integers(0, 30_000, n)),
            "g": rng.choice(np.array(["a", "b", None]), n),
        }
    )
    table.loc[5, "x"] = None
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet", index=False)
    for path in (tmp_path / "t.csv", tmp_path / "t.parquet"):
        drafts = []
        for most in (400, 10**9):
            monkeypatch.setattr(distinct_cells, "MAX_CELLS", most)
            drafts.append(draft_columns(path))
        some, every = drafts
        assert (some.facts, some.unread) == (every.facts, every.unread)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["numbers", "numbers in text", "texts"])
def test_a_draft_holds_no_more_cells_for_more_rows(kind, monkeypatch):
    monkeypatch.setattr(distinct_cells, "MAX_CELLS", 1000)
    read = {"numbers": float, "numbers in text": str, "texts": "t{}".format}[kind]
    cells = {"x": [read(k / 7) for k in range(100_000)]}
    found = distinct_cells.distinct_cells(Rows.of(cells), ("x",))["x"]
    assert found.sampled
    assert 500 < len(found) < 5_000
    assert found.rows == 100_000
    if kind != "texts":
        assert (found.numbers.min(), found.numbers.max()) == (0.0, 99_999 / 7)


def test_a_number_that_a_sampled_draft_did_not_see_is_found_by_reading_all_rows(monkeypatch):
    monkeypatch.setattr(distinct_cells, "MAX_CELLS", 100)
    cells = [*range(20_000), "50x"]  # of which one is no number
    rows = pa.table({"x": [*map(str, cells)], "y": ["a", "b", "c"] * 6667})
    drafted = draft_columns(rows)
    Table.read(rows, drafted.facts)
