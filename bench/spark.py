"""All two-way marginals of Parquet files by Spark on this machine: seconds, and driver memory.

Claim: with two threads (`local[2]`), after Spark has started, a million rows × 105 pairs take at
most 3 seconds. The seconds for each million are equal for 20 million and 1 million rows. The memory
of the driver does not grow.

    python bench/spark.py --rows 1 5 20 --data ../shared/data/adult

The tables are those of `bench/marginals_duckdb.py`: UCI Adult, drawn with replacement, with more
missing cells. CPU seconds are a total over Java and all workers. Seconds by the clock depend on the
other load of the machine.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
from marginals_duckdb import adult_schema
from rich.console import Console
from rich.table import Table as RichTable

from missdp import Table
from missdp.engines import SparkSource
from missdp.sources import MemorySource

_WARM_UP = 1_000_000  # rows, after which Java has compiled the code of the count


def session_of(threads: int, memory: str):
    """Start Spark. This time is not counted."""
    from pyspark.sql import SparkSession

    build = SparkSession.builder.master(f"local[{threads}]").appName("missdp bench")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": memory,
    }.items():
        build = build.config(name, value)
    session = build.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def cpu_seconds() -> float:
    """CPU seconds of this process and all its running descendants."""
    parents, ticks = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(place.name))
        ticks[int(place.name)] = sum(map(int, fields[11:15]))

    def total(process: int) -> int:
        return ticks.get(process, 0) + sum(map(total, parents.get(process, [])))

    return total(os.getpid()) / os.sysconf("SC_CLK_TCK")


def resident(process: int) -> float:
    """Current memory of a process in MB."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def file_of(rows: int, folder: Path, data: Path) -> Path:
    path = folder / f"rows-{rows}.parquet"
    if not path.is_file():
        command = [sys.executable, str(Path(__file__).with_name("marginals_duckdb.py"))]
        command += ["--measure", "write", "--file", str(path), "--rows", str(rows)]
        subprocess.run([*command, "--data", str(data)], check=True)
    return path


def counted(path: Path, schema, session):
    pairs = list(itertools.combinations(schema.names, 2))
    source = SparkSource(session.read.parquet(str(path)), schema)
    return source.counts(pairs, rows="extended")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 5, 20], help="millions")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/adult"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", default="1g", help="memory of the Java process")
    parser.add_argument("--folder", type=Path, help="keep the generated files here, or reuse them")
    arguments = parser.parse_args()
    schema = adult_schema(arguments.data)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        paths = {n: file_of(n * 10**6, folder, arguments.data) for n in arguments.rows}
        small = file_of(_WARM_UP, folder, arguments.data)
        session = session_of(arguments.threads, arguments.memory)
        java = session.sparkContext._gateway.proc.pid
        marginals = counted(small, schema, session)  # starts the workers, and compiles
        expected = MemorySource(Table.read(small, schema)).counts(marginals, rows="extended")
        if not all((marginals[pair] == expected[pair]).all() for pair in expected):
            raise SystemExit("the counts are not those of the same rows in memory")
        del expected
        pairs = len(schema) * (len(schema) - 1) // 2
        title = f"{len(schema)} columns, {pairs} pairs, local[{arguments.threads}]"
        heads = ("rows", "seconds", "per million", "CPU per million", "driver MB", "Java MB")
        table = RichTable(*heads, title=title)
        for millions, path in paths.items():
            start, spent = time.perf_counter(), cpu_seconds()
            marginals = counted(path, schema, session)
            seconds, spent = time.perf_counter() - start, cpu_seconds() - spent
            rows = {int(counts.sum()) for counts in marginals.values()}
            if rows != {pq.read_metadata(path).num_rows}:
                raise SystemExit("the marginals do not agree on the number of rows")
            table.add_row(
                f"{millions * 10**6:,}",
                f"{seconds:.1f}",
                f"{seconds / millions:.2f}",
                f"{spent / millions:.2f}",
                f"{resident(os.getpid()):,.0f}",
                f"{resident(java):,.0f}",
            )
        session.stop()
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
