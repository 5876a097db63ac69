"""Commands on tables that do not fit into the limit: odd tables, odd places, disks that fill up."""

import gzip
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import missdp
from missdp import Categorical, Numeric, Schema, Table
from missdp.sources import DuckDBSource
from missdp.synth import sampling
from missdp.table import FileRows, PartRows, draft_columns, memory_limit
from missdp.table.memory import fits_into_memory
from missdp.table.tally import Tally

SCHEMA = Schema(
    (
        Categorical(name="a", levels=("x", "y"), nullable=True),
        Numeric(name="b", lower=0, upper=10, bins=5, nullable=True),
    )
)
LOOSE = Schema(tuple(replace(attribute, outside="missing") for attribute in SCHEMA))
posix = pytest.mark.skipif(sys.platform == "win32", reason="limits of another kind")


def frame(n, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "a": rng.choice(np.array(["x", "y", None]), n),
            "b": np.where(rng.random(n) < 0.2, np.nan, np.round(rng.random(n) * 10, 2)),
        }
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SCHEMA.to_toml("s.toml")
    frame(3000).to_csv("rows.csv", index=False)
    return tmp_path


@pytest.fixture
def streamed(monkeypatch):
    """Every file is too large to be held."""
    monkeypatch.setattr(FileRows, "about", lambda rows: 10**12)


SYNTHESIZE = ("synthesize", "rows.csv", "--schema", "s.toml", "--epsilon", 1, "-o", "out.csv",
              "--overwrite", "--method", "privbayes", "--delta", 1e-6)  # fmt: skip


# -- the limit -----------------------------------------------------------------------------------
def test_rows_and_columns_decide_and_not_the_size_of_the_file(tmp_path):
    path = tmp_path / "flat.parquet"  # many rows in few bytes
    pq.write_table(pa.table({"a": pa.array(["x"]).take(pa.array([0] * 2_000_000))}), path)
    schema = SCHEMA.subset(["a"])
    assert path.stat().st_size < 10**5
    assert FileRows(path).about() == 2_000_000
    with memory_limit("600MB"):
        assert fits_into_memory(2_000_000, schema)
        assert not fits_into_memory(20_000_000, schema)
        assert not fits_into_memory(None, schema)
    with memory_limit("3GB"):
        assert fits_into_memory(20_000_000, schema)


@pytest.mark.parametrize(("name", "end"), [("rows.csv", b"\r\n"), ("rows.csv.gz", b"\r")])
def test_the_rows_of_a_csv_file_are_counted_whatever_it_begins_with(tmp_path, name, end):
    text = b"a" + end + b"s" * 1_500_000 + end + (b"x" + end) * 300_000
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    assert FileRows(tmp_path / name).about() == 300_002


def peak(*arguments):
    """Exit code, bytes of memory at the most, and what was said, of a run in its own process."""
    code = (
        "import resource, subprocess, sys\n"
        "resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))\n"
        "done = subprocess.run(sys.argv[1:], capture_output=True, text=True)\n"
        "peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n"
        "print(done.returncode, peak * 1024, done.stderr)"
    )
    command = [sys.executable, "-c", code, sys.executable, "-m", "missdp", *arguments]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return (*map(int, found.split()[:2]), found.split(maxsplit=2)[2:])


@posix
@pytest.mark.parametrize(
    ("name", "expected"),
    [pytest.param("dictionary.parquet", 0, marks=pytest.mark.slow), ("plain.parquet", 3)],
)
def test_long_cells_take_no_more_memory_than_there_may_be(folder, name, expected):
    cells = pa.array(["s" * (10_000_000 if expected == 0 else 30_000_000), "x"])
    rows = pa.array([0] * (1000 if expected == 0 else 10) + [1])
    column = pa.DictionaryArray.from_arrays(rows, cells)
    whole = column if expected == 0 else column.cast(pa.string())
    table = pa.table({"a": whole, "b": [1.0] * len(rows)})
    options = {"use_dictionary": expected == 0, "store_schema": False}
    pq.write_table(table, name, compression="zstd", **options)
    LOOSE.to_toml("loose.toml")
    code, taken, said = peak("schema", "check", "loose.toml", name, "--memory", "512MiB")
    assert code == expected
    assert taken <= 1.05 * 2**29
    assert expected == 0 or ("is longer than the limit of memory" in said[0] and "ss" not in said)


def test_rows_are_drawn_within_the_limit_and_are_the_same(folder, run, ok, monkeypatch):
    ok(*SYNTHESIZE, "--seed", 1)
    monkeypatch.setattr(sampling, "_ROWS", (100, 100))
    sample = ("sample", "out.model.json", "--rows", 1050, "--seed", 5)
    ok(*sample, "-o", "threads.csv")
    monkeypatch.setattr(sampling, "_BYTES_PER_CELL", 10**9)
    monkeypatch.setattr(sampling, "in_order", None)  # which holds several blocks at once
    ok(*sample, "-o", "single.csv", "--memory", "512MiB")
    assert Path("single.csv").read_bytes() == Path("threads.csv").read_bytes()
    assert run(*sample, "-o", "none.csv", "--memory", "500MiB")[0] == 2


# -- the same results ----------------------------------------------------------------------------
def test_every_command_says_the_same_of_a_table_that_streams(folder, run, ok, monkeypatch):
    frame(3000).fillna({"a": "x", "b": 1.0}).to_csv("whole.csv", index=False)
    ok(*SYNTHESIZE, "--seed", 1)
    commands = [
        (*SYNTHESIZE, "--seed", 1, "-o", "m.csv"),
        ("evaluate", "rows.csv", "out.csv", "--schema", "s.toml", "--json"),
        ("evaluate", "rows.csv", "out.csv", "--schema", "s.toml", "--bins", 7, "--json"),
        ("impute", "rows.csv", "--schema", "s.toml", "--model", "out.model.json", "-o", "f.csv",
         "--seed", 3, "--overwrite"),
        ("simulate", "whole.csv", "--schema", "s.toml", "--rate", 0.0, "--seed", 1, "-o", "h.csv",
         "--overwrite"),
    ]  # fmt: skip
    held = [run(*command) for command in commands]
    files = {name: Path(name).read_bytes() for name in ("m.csv", "f.csv", "h.csv")}
    monkeypatch.setattr(FileRows, "about", lambda rows: 10**12)
    for command, (code, out, _) in zip(commands, held, strict=True):
        assert code == 0
        assert run(*command)[:2] == (0, out)
    assert files == {name: Path(name).read_bytes() for name in files}


def test_learners_and_mechanisms_that_need_all_rows_say_so(folder, streamed, fails, ok):
    frame(100).to_csv("out.csv", index=False)
    frame(100).fillna({"a": "x", "b": 1.0}).to_csv("whole.csv", index=False)
    fails(2, "in memory", "evaluate", "rows.csv", "out.csv", "--schema", "s.toml", "--f1")
    simulate = ("simulate", "whole.csv", "--schema", "s.toml", "--rate", 0.3, "--seed", 1)
    fails(2, "--memory", *simulate, "-o", "h.csv", "--mechanism", "mar")
    assert not Path("h.csv").exists()
    ok(*simulate, "-o", "h.csv")
    assert 0.2 < pd.read_csv("h.csv")["b"].isna().mean() < 0.4


def test_rows_are_the_same_in_blocks_and_at_once_and_of_any_number(folder, ok, monkeypatch):
    ok(*SYNTHESIZE, "--seed", 1)
    model = missdp.load("out.model.json")
    monkeypatch.setattr(sampling, "_ROWS", (100, 100))
    whole = model.sample_table(1050, random_state=5)
    parts = list(model.sample_blocks(1050, random_state=5))
    assert [len(p) for p in parts] == [96] * 5 + [95] * 6
    assert Table.joined(parts).to_arrow() == whole.to_arrow()
    for name in ("more.csv", "more.parquet"):
        ok("sample", "out.model.json", "-o", name, "--rows", 1050, "--seed", 5)
        assert Table.read(name, SCHEMA).to_arrow() == whole.to_arrow()
    assert len(model.sample_table(0)) == 0
    assert parts[0].to_arrow() != parts[1].to_arrow()  # from generators of their own


# -- odd tables ----------------------------------------------------------------------------------
ODD = {
    "no rows": pd.DataFrame({"a": pd.array([], "string"), "b": pd.array([], "float64")}),
    "one row": pd.DataFrame({"a": ["x"], "b": [3.0]}),
    "all missing": pd.DataFrame({"a": ["x", "y"] * 50, "b": [np.nan] * 100}),
    "nothing at all": pd.DataFrame({"a": [None] * 100, "b": [np.nan] * 100}),
}


@pytest.mark.parametrize(
    ("odd", "kind"), [(odd, ("csv", "parquet")[i % 2]) for i, odd in enumerate(ODD)]
)
def test_odd_tables_stream(folder, streamed, run, ok, odd, kind):
    data = f"odd.{kind}"
    if kind == "csv":
        ODD[odd].to_csv(data, index=False)
    else:
        ODD[odd].astype({"a": "string"}).to_parquet(data, index=False)
    ok("schema", "check", "s.toml", data)
    assert run("schema", "draft", data, "-o", "d.toml")[0] == (3 if odd == "no rows" else 0)
    for missing in ("joint", "impute-first"):
        code, _, err = run(
            "synthesize", data, "--schema", "s.toml", "--epsilon", 1, "--missing", missing, "-o",
            f"{missing}.csv", "--rows", 20, "--method", "privbayes",
        )  # fmt: skip
        assert code == 0, err
        assert len(pd.read_csv(f"{missing}.csv")) == 20
    ok("evaluate", data, "joint.csv", "--schema", "s.toml")
    impute = ("impute", data, "--schema", "s.toml", "--model", "joint.model.json")
    ok(*impute, "-o", "f.parquet")
    filled = pd.read_parquet("f.parquet")
    assert len(filled) == len(ODD[odd])
    assert not filled.isna().any().any()


def test_parts_of_a_table_are_read_if_asked_for(folder, fails, ok):
    Path("visits/2024").mkdir(parents=True)
    Path("visits/_old").mkdir()
    whole = frame(3000)
    for k, place in enumerate(("visits/1.parquet", "visits/2024/2.parquet", "visits/3.pq")):
        whole.iloc[1000 * k : 1000 * (k + 1)].to_parquet(place, index=False)
    frame(10, 1).to_parquet("visits/_old/0.parquet", index=False)
    Path("visits/notes.txt").write_text("no table")
    cliques = [("a", "b"), ()]
    found = DuckDBSource(PartRows("visits"), SCHEMA).counts(cliques, rows="extended")
    held = DuckDBSource(Path("rows.csv"), SCHEMA).counts(cliques, rows="extended")
    np.testing.assert_array_equal(found["a", "b"], held["a", "b"])
    assert PartRows("visits").about() == 3000
    assert PartRows("visits/*.parquet").about() == 1000
    assert PartRows("visits/**/*.parquet").about() == 2010
    fails(3, "--parts", "schema", "check", "s.toml", "visits")
    ok("schema", "check", "s.toml", "visits", "--parts")
    pd.DataFrame({"z": [1]}).to_parquet("visits/4.parquet")
    fails(3, "other columns", "schema", "check", "s.toml", "visits", "--parts")


def test_nothing_is_written_among_the_parts_that_are_read(folder, fails, ok):
    Path("visits/2024").mkdir(parents=True)
    frame(300).to_parquet("visits/1.parquet", index=False)
    ok(*SYNTHESIZE)
    before = {path: path.read_bytes() for path in Path("visits").rglob("*.parquet")}
    for place, outputs in (
        ("visits", ("visits/out.parquet", "visits/2024/out.PQ", "visits/../visits/out.parquet")),
        ("visits/*.parquet", ("visits/out.parquet", "./visits/2.parquet")),
        ("visits/**/*.parquet", ("visits/2024/out.parquet",)),
    ):
        for output in outputs:
            for command in (
                ("synthesize", place, "--schema", "s.toml", "--epsilon", 1),
                ("simulate", place, "--schema", "s.toml", "--rate", 0.2, "--seed", 1),
                ("impute", place, "--schema", "s.toml", "--model", "out.model.json"),
            ):
                fails(5, "write into another folder", *command, "--parts", "-o", output)
    for output in ("visits/2024/out.parquet", "visits/out.csv", "visits/_out.parquet"):
        place = "visits/*.parquet" if "2024" in output else "visits"
        impute = ("impute", place, "--schema", "s.toml", "--model", "out.model.json")
        ok(*impute, "--parts", "-o", output)
        Path(output).unlink()
    assert {path: path.read_bytes() for path in Path("visits").rglob("*.parquet")} == before


# -- disks and signals ---------------------------------------------------------------------------
@posix
def test_a_run_that_is_stopped_while_it_writes_leaves_no_half_written_file(bench, folder):
    def hook():
        class Stopping(pa.csv.CSVWriter):
            def write_table(self, table):
                super().write_table(table)
                os.kill(os.getpid(), signal.SIGINT)

        pa.csv.CSVWriter = Stopping

    asked = [*map(str, SYNTHESIZE), "--rows", "500000"]
    code, _, err = bench.ended(bench.forked(folder, asked, hook))
    assert code == 130
    assert not Path("out.csv").exists()
    assert not [*Path().glob(".missdp-*.tmp")]
    (kept,) = Path().glob("out-*.model.json")
    assert missdp.load(kept).guarantee_.epsilon == 1.0
    assert "charged (epsilon = 1" in err
    assert f"missdp sample {kept}" in err


# -- drafts --------------------------------------------------------------------------------------
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
    few = "missdp.table.tally._FEW"
    for path in (tmp_path / "t.csv", tmp_path / "t.parquet"):
        monkeypatch.setattr(few, 600)
        monkeypatch.setattr("missdp.table.tally._SAMPLED", 300)
        some = draft_columns(path)
        monkeypatch.setattr(few, 10**9)
        whole = draft_columns(path)
        assert some.attributes == whole.attributes
        assert some.stubs == whole.stubs


def test_a_tally_holds_no_more_for_more_rows(monkeypatch):
    monkeypatch.setattr("missdp.table.tally._FEW", 1000)
    monkeypatch.setattr("missdp.table.tally._SAMPLED", 500)
    monkeypatch.setattr("missdp.table.tally._TEXTS", 500)
    tally = Tally()
    for start in range(0, 100_000, 10_000):
        tally.add(pa.array([str(i / 7) for i in range(start, start + 10_000)]))
        tally.add(pa.array([f"t{i}" for i in range(start, start + 10_000)]))
        assert len(tally.found()) < 25_000
    assert tally.numbers == 100_000
    numbers = [x for x, _ in tally.found() if isinstance(x, float)]
    assert min(numbers) == 0.0
    assert max(numbers) == 99_999 / 7
