"""Memory and time of every command on tables that are larger than its memory limit.

There are three claims. Every command stays within its ``--memory``. 10 million rows x 15 columns go
from Parquet to synthetic Parquet within 1.5 GB. 100 million x 15 (all 105 pairs) are counted within
2 GB, in a small multiple of DuckDB's time to read the file.

Usage::

    python bench/streaming.py --rows 1          # a tenth of the sizes or less: a few minutes
    python bench/streaming.py --rows 10         # the claimed sizes: ten minutes
    python bench/streaming.py --rows 10 --only query
    python bench/streaming.py --rows 10 --only "query, 5 donors"

``--rows`` is in millions, of the end-to-end run. The sizes of other runs follow from it. DuckDB
makes the data in a temporary folder (8 GB at most). Each command runs in a separate process. The
kernel reports its CPU seconds and peak memory, which hardly depend on other load of the machine.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
from rich.console import Console
from rich.table import Table

from missdp import Categorical, Numeric, Schema

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")


def schema(columns: int) -> Schema:
    numbers, words = (6, 9) if columns == 15 else (3, 3)
    return Schema(
        tuple(
            Numeric(
                name=f"x{i}", lower=0 if i % 2 else 10, upper=1000 if i % 2 else 90, bins=16,
                integer=not i % 2, nullable=True, outside="clamp",
            )
            for i in range(numbers)
        )
        + tuple(
            Categorical(name=f"c{i}", levels=WORDS[: 2 + i % 7], nullable=True)
            for i in range(words)
        )
    )  # fmt: skip


def make(path: Path, rows: int, columns: int) -> None:
    """Write rows whose columns depend on each other a little, a tenth of the cells missing."""

    def number(i: int) -> str:
        return f"hash(range * 31 + {i})"

    cells = []
    for a in schema(columns):
        i = int(a.name[1:])
        if isinstance(a, Numeric):
            other = f"(hash(range % 5000 * 7 + {i}) % 1000)"
            value = f"(({number(i)} % 1000) + {other}) / 2" if i % 2 else f"{number(i)} % 80 + 10"
        else:
            words = ", ".join(f"'{level}'" for level in a.levels)
            least = f"least({number(300 + i)} % {a.size}, {number(400)} % {a.size})"
            value = f"([{words}])[1 + {least}::INTEGER]"
        cells.append(f"CASE WHEN {number(100 + i)} % 10 > 0 THEN {value} END AS {a.name}")
    form = "CSV, HEADER" if path.suffix == ".csv" else "PARQUET"
    with duckdb.connect() as connection:
        connection.execute("SET threads = 2; SET preserve_insertion_order = false")
        connection.execute(
            f"COPY (SELECT {', '.join(cells)} FROM range({rows})) TO '{path}' (FORMAT {form})"
        )


COUNT = """
import itertools, sys
from missdp import Schema
from missdp.sources import DuckDBSource
schema = Schema.from_toml(sys.argv[2])
source = DuckDBSource(sys.argv[1], schema)
source.counts(itertools.combinations(schema.names, 2), rows="extended")
"""
SCAN = """
import sys, duckdb
relation = duckdb.sql(f"SELECT * FROM '{sys.argv[1]}'")
for _ in relation.to_arrow_reader(65536):
    pass
"""


def measured(command: list[str], folder: Path) -> tuple[float, float, float]:
    """Run a command. Return wall seconds, CPU seconds, and peak memory in GB."""
    start = time.perf_counter()
    code = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], capture_output=True, text=True)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(done.stderr[-2000:], file=sys.stderr) if done.returncode else None\n"
        "print(done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    rc, cpu, peak = done.stdout.split()
    if rc != "0":
        sys.exit(f"failed: {' '.join(command)}")
    return time.perf_counter() - start, float(cpu), float(peak) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1.0, help="millions, end to end")
    parser.add_argument("--only", default="", help="runs whose name contains this")
    options = parser.parse_args()
    million = options.rows
    folder = Path(tempfile.mkdtemp(prefix="missdp-streaming-"))
    sizes = {"end": million, "count": 10 * million, "query": 5 * million, "each": million / 2}
    table = Table("what", "rows (m)", "cap", "wall s", "CPU s", "peak GB", "CPU / scan")
    try:
        for columns in (6, 15):
            schema(columns).to_toml(folder / f"s{columns}.toml")
        missdp = [sys.executable, "-m", "missdp"]
        small = ["--schema", "s6.toml", "--memory", "600MB"]
        runs = [
            ("scan", "end", 15, "", None),
            ("synthesize", "end", 15, "1.5GB", [*missdp, "synthesize", "DATA", "--schema",
             "s15.toml", "--epsilon", "1", "-o", "end.parquet", "--memory", "1.5GB"]),
            ("synthesize --method mst", "end", 15, "1.5GB", [*missdp, "synthesize", "DATA",
             "--schema", "s15.toml", "--epsilon", "1", "--method", "mst", "-o", "mst.parquet",
             "--memory", "1.5GB"]),
            ("scan", "count", 15, "", None),
            ("105 pairs", "count", 15, "", [sys.executable, "-c", COUNT, "DATA", "s15.toml"]),
            ("scan", "query", 6, "", None),
            ("query", "query", 6, "2GB", [*missdp, "query", "DATA", "--schema", "s6.toml",
             "--impute", "x1", "--match", "c0,c1,x0", "--epsilon", "1", "--mean", "x1",
             "--where", "c2 = 'alpha'", "--memory", "2GB"]),
            *(
                (f"query, {what}", size, 6, "600MB", [*missdp, "query", "DATA", *small, "--epsilon",
                 "1", *question.split()])
                for size, what, question in (
                    ("query", "a mean", "--impute x1 --match c0,c1,x0 --mean x1"),
                    ("end", "a mean", "--impute x1 --match c0,c1,x0 --mean x1"),
                    ("end", "a mean, worst case",
                     "--impute x1 --match c0 --mean x1 --uncertainty worst-case"),
                    ("end", "5 donors, 2 filled",
                     "--impute x1,c2 --match c0,c1,x0 --k 5 --mean x1"),
                    ("end", "20 donors", "--impute x1 --match x0 --group c1 --k 20 --mean x1"),
                    ("end", "a correlation",
                     "--impute x1,x2 --match x0 --group c1 --k 3 --correlation x1,x2"),
                    ("end", "a histogram", "--impute c2 --match x1,x2,c1 --histogram c2"),
                    ("end", "2,000 cells", "--impute x1 --match x0,x2,c0,c1 --variance x1"),
                )
            ),
            ("scan", "each", 6, "", None),
            ("schema check", "each", 6, "600MB", [*missdp, "schema", "check", "s6.toml", "DATA",
             "--memory", "600MB"]),
            ("schema draft", "each", 6, "600MB", [*missdp, "schema", "draft", "DATA", "-o",
             "d.toml", "--memory", "600MB"]),
            ("synthesize", "each", 6, "600MB", [*missdp, "synthesize", "DATA", *small,
             "--epsilon", "1", "-o", "each.csv"]),
            ("synthesize, complete rows", "each", 6, "600MB", [*missdp, "synthesize", "DATA",
             *small, "--epsilon", "1", "--missing", "complete-rows", "-o", "complete.csv"]),
            ("synthesize, impute first", "each", 6, "600MB", [*missdp, "synthesize", "DATA",
             *small, "--epsilon", "1", "--missing", "impute-first", "-o", "first.csv"]),
            ("evaluate", "each", 6, "600MB", [*missdp, "evaluate", "DATA", "each.csv", *small]),
            ("impute", "each", 6, "600MB", [*missdp, "impute", "DATA", *small, "--model",
             "each.model.json", "-o", "filled.parquet"]),
            ("simulate", "each", 6, "600MB", [*missdp, "simulate", "filled.parquet", *small,
             "--rate", "0.1", "--seed", "1", "-o", "missing.parquet"]),
        ]  # fmt: skip
        scan = 1.0
        wanted = {
            (size, columns) for name, size, columns, _, c in runs if c and options.only in name
        }
        for name, size, columns, cap, command in runs:
            if (options.only not in name and command) or (size, columns) not in wanted:
                continue
            rows = round(sizes[size] * 1e6)
            kind = "csv" if size == "each" else "parquet"
            data = folder / f"{size}{columns}.in.{kind}"
            if not data.exists():
                make(data, rows, columns)
            words = [str(data) if part == "DATA" else part for part in command or ()]
            wall, cpu, peak = measured(words or [sys.executable, "-c", SCAN, str(data)], folder)
            scan = scan if command else cpu
            ratio = "" if command is None else f"{cpu / scan:.1f}"
            table.add_row(
                f"{name} ({columns} columns)", f"{rows / 1e6:g}", cap, f"{wall:.0f}", f"{cpu:.1f}",
                f"{peak:.2f}", ratio,
            )  # fmt: skip
            Console(stderr=True).print(f"{name}: {cpu:.1f} s of CPU, {peak:.2f} GB")
    finally:
        shutil.rmtree(folder)
    Console().print(table)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
