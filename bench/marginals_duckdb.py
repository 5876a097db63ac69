"""All two-way marginals of a large Parquet file: seconds and peak memory, against a plain scan.

Claim: 10 million rows × 15 columns are counted in less than 2 GB. The time is a small multiple of
DuckDB's time to read these columns.

    python bench/marginals_duckdb.py --rows 10000000 --data ../shared/data/adult

The table is UCI Adult (raw, with its original missing values), drawn with replacement in chunks.
Each measurement runs in a separate process. Without the data folder, a table of equal shape is
drawn at random.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as RichTable

from missdp import Categorical, Numeric, Schema

CHUNK = 500_000
MEASUREMENTS = {
    "rows": "SELECT count(*)",
    "aggregate": "SELECT count(column) of every column",
    "scan": "plain scan: all columns to Arrow batches",
    "sql_pairs": "105 GROUP BY queries (extrapolated from 5)",
    "memory_pairs": "Table.read, then MemorySource, 105 pairs",
    "duckdb_pairs": "DuckDBSource, 105 pairs, one pass",
}


def adult_schema(folder: Path) -> Schema:
    if not (folder / "domain.json").is_file():
        return Schema(
            tuple(Numeric(name=f"x{i}", lower=0, upper=1, nullable=True) for i in range(6))
            + tuple(
                Categorical(name=f"c{i}", levels=tuple("abcdefgh"), nullable=True) for i in range(9)
            )
        )
    attributes = []
    for name, facts in json.loads((folder / "domain.json").read_text()).items():
        if facts["kind"] == "numeric":
            bounds = {k: facts[k] for k in ("lower", "upper", "integer")}
            attributes.append(Numeric(name=name, nullable=True, bins=10, outside="clamp", **bounds))
        else:
            attributes.append(Categorical(name=name, nullable=True, levels=tuple(facts["levels"])))
    return Schema(tuple(attributes))


def seed_rows(folder: Path, schema: Schema, rng: np.random.Generator) -> pa.Table:
    if (folder / "raw.parquet").is_file():
        return pq.read_table(folder / "raw.parquet", columns=list(schema.names))
    columns = [
        pa.array(rng.random(30_000))
        if isinstance(a, Numeric)
        else pa.array(rng.choice(np.array(a.levels), 30_000))
        for a in schema
    ]
    return pa.table(columns, names=list(schema.names))


def write_rows(path: Path, seed_table: pa.Table, n_rows: int, rng: np.random.Generator) -> None:
    """Draw rows with replacement, with 5 % more missing cells, a bounded chunk at a time."""
    with pq.ParquetWriter(path, seed_table.schema) as writer:
        for start in range(0, n_rows, CHUNK):
            n = min(CHUNK, n_rows - start)
            rows = seed_table.take(pa.array(rng.integers(0, len(seed_table), n)))
            columns = [
                pa.compute.if_else(pa.array(rng.random(n) < 0.05), pa.scalar(None, c.type), c)
                for c in rows.columns
            ]
            chunk = pa.table(columns, schema=seed_table.schema)
            writer.write_table(chunk, row_group_size=122_880)


def measure(what: str, path: Path, schema: Schema) -> None:
    """Run one measurement and print its seconds and peak memory as JSON."""
    start = time.perf_counter()
    factor = {
        "rows": _rows,
        "aggregate": _aggregate,
        "scan": _scan,
        "sql_pairs": _sql_pairs,
        "memory_pairs": _memory_pairs,
        "duckdb_pairs": _duckdb_pairs,
    }[what](path, schema)
    seconds = (time.perf_counter() - start) * factor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    sys.stdout.write(json.dumps({"seconds": seconds, "peak_gb": peak}) + "\n")


def _connect(path: Path) -> tuple[duckdb.DuckDBPyConnection, duckdb.DuckDBPyRelation]:
    connection = duckdb.connect(config={"preserve_insertion_order": "false"})
    return connection, connection.read_parquet(str(path))


def _rows(path: Path, _: Schema) -> float:
    _connect(path)[1].aggregate("count(*)").fetchall()
    return 1.0


def _aggregate(path: Path, schema: Schema) -> float:
    columns = ", ".join(f'count("{n}"), min("{n}")' for n in schema.names)
    _connect(path)[1].aggregate(columns).fetchall()
    return 1.0


def _scan(path: Path, _: Schema) -> float:
    for _batch in _connect(path)[1].to_arrow_reader(131_072):
        pass
    return 1.0


def _sql_pairs(path: Path, schema: Schema) -> float:
    """Group by the raw text and binned numbers, as a user would write the query by hand."""
    connection, relation = _connect(path)
    terms = {}
    for a in schema:
        width = (a.upper - a.lower) / a.size if isinstance(a, Numeric) else 0
        terms[a.name] = f'floor("{a.name}" / {width})' if width else f'"{a.name}"'
    pairs = list(itertools.combinations(schema.names, 2))
    sample = pairs[:: len(pairs) // 5][:5]
    for one, two in sample:
        relation.aggregate(f"{terms[one]}, {terms[two]}, count(*)").fetchall()
    connection.close()
    return len(pairs) / len(sample)


def _memory_pairs(path: Path, schema: Schema) -> float:
    from missdp import Table
    from missdp.sources import MemorySource

    source = MemorySource(Table.read(path, schema))
    source.counts(itertools.combinations(schema.names, 2), rows="extended")
    return 1.0


def _duckdb_pairs(path: Path, schema: Schema) -> float:
    from missdp.sources import DuckDBSource

    source = DuckDBSource(path, schema)
    counts = source.counts(itertools.combinations(schema.names, 2), rows="extended")
    rows = {int(c.sum()) for c in counts.values()}
    if len(counts) != len(schema) * (len(schema) - 1) // 2 or len(rows) != 1:
        raise SystemExit("the marginals do not agree on the number of rows")
    return 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/adult"))
    parser.add_argument("--only", nargs="*", choices=list(MEASUREMENTS), default=None)
    parser.add_argument("--file", type=Path, help="keep the generated file here, or reuse it")
    parser.add_argument("--measure", choices=["write", *MEASUREMENTS], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    schema = adult_schema(arguments.data)
    if arguments.measure == "write":
        rng = np.random.default_rng(0)
        write_rows(arguments.file, seed_rows(arguments.data, schema, rng), arguments.rows, rng)
        return
    if arguments.measure:
        measure(arguments.measure, arguments.file, schema)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.file or Path(folder) / "rows.parquet"
        if not path.is_file():
            # A child writes it: the peak memory of a process starts at its parent's size.
            child("write", path, arguments)
        report(path, arguments, schema)


def child(what: str, path: Path, arguments: argparse.Namespace) -> str:
    command = [sys.executable, __file__, "--measure", what, "--file", str(path)]
    command += ["--data", str(arguments.data), "--rows", str(arguments.rows)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def report(path: Path, arguments: argparse.Namespace, schema: Schema) -> None:
    n_rows = pq.read_metadata(path).num_rows
    size = path.stat().st_size / 2**20
    title = f"{n_rows:,} rows × {len(schema)} columns, {size:,.0f} MB of Parquet"
    table = RichTable("measurement", "seconds", "peak memory (GB)", title=title)
    for what in arguments.only or MEASUREMENTS:
        measured = json.loads(child(what, path, arguments))
        table.add_row(
            MEASUREMENTS[what], f"{measured['seconds']:.2f}", f"{measured['peak_gb']:.2f}"
        )
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
