"""Peak memory of commands on files with cells that are far too long, and on very long files.

Claim: no command takes more than 1.05 times its ``--memory``. Files that fit into the memory are
read. A command reports all other files in one line.

    python bench/large_cells.py            # 1 GB of memory is enough
    python bench/large_cells.py --only Parquet

Files are made in a temporary folder (300 MB) and deleted. No process gets more than 12 GB of
addresses, so that a false claim does not exhaust the machine.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from missdp import Categorical, Numeric, Schema
from missdp.table.memory import current_memory_limit, memory_limit

SCHEMA = Schema(
    (
        Categorical(name="a", levels=("x", "y"), nullable=True, outside="missing"),
        Numeric(name="b", lower=0, upper=10, bins=5, nullable=True, outside="missing"),
    )
)
SHORT = b"x,1\ny,2.5\n,3\n" * 10_000
MEASURED = """
import resource, subprocess, sys
def limited():
    resource.setrlimit(resource.RLIMIT_AS, (12 * 2**30, 12 * 2**30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
done = subprocess.run(sys.argv[1:], capture_output=True, text=True, preexec_fn=limited)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, done.stderr[-300:])
"""


def text(path: Path, parts: Iterable[bytes]) -> None:
    with gzip.open(path, "wb", 1) if path.suffix == ".gz" else path.open("wb") as file:
        for part in parts:
            file.write(part)


def cell(size: float, rows: int = 0) -> Iterable[bytes]:
    """A file with a cell of ``size`` bytes, and three times ``rows`` rows after it."""
    yield b"a,b\nx,1\n"
    for done in range(0, int(size), 10**7):
        yield b"z" * min(10**7, int(size) - done)
    yield b",3\n"
    yield from [SHORT] * (rows // 10_000)


def parquet(path: Path, size: float, cells: int, rows: int, dictionary: bool) -> None:
    """Write a file that repeats a few long cells. Every row group has all of them."""
    long = [chr(97 + k) * int(size) for k in range(cells)]
    column = pa.DictionaryArray.from_arrays(
        pa.array([k % (cells + 1) for k in range(rows)], pa.int32()), pa.array([*long, "x"])
    )
    table = pa.table({"a": column, "b": [5.0] * rows})
    if not dictionary:
        table = table.set_column(0, "a", column.cast(pa.string()))
    pq.write_table(table, path, compression="zstd", use_dictionary=dictionary, store_schema=False)


FILES = {
    "Parquet, a cell of 30 MB in 500 rows": lambda p: parquet(p, 3e7, 1, 1000, True),
    "Parquet, 3 cells of 10 MB in 3,000 rows": lambda p: parquet(p, 1e7, 3, 4000, True),
    "Parquet, 3 cells of 10 MB, plain": lambda p: parquet(p, 1e7, 3, 4, False),
    "Parquet, a cell of 300 MB": lambda p: parquet(p, 3e8, 1, 2, True),
    "CSV, 20 million rows": lambda p: text(p, [b"a,b\n", *[SHORT] * 700]),
    "CSV, a cell of 5 MB, 10 million rows": lambda p: text(p, cell(5e6, 3_500_000)),
    "CSV, a cell of 60 MB": lambda p: text(p, cell(6e7)),
    "gzip, 50 million rows": lambda p: text(p, [b"a,b\n", *[SHORT] * 1700]),
    "gzip, a cell of 1.2 GB": lambda p: text(p, cell(1.2e9)),
    "gzip, a cell of 3 GB": lambda p: text(p, cell(3e9)),
    "gzip, 50 million empty lines": lambda p: text(p, [b"a,b\n", *[b"\n" * 10**6] * 50]),
}
SUFFIX = {"Parquet": ".parquet", "CSV": ".csv", "gzip": ".csv.gz"}
COMMANDS = {
    "schema check": ["schema", "check", "s.toml", "DATA"],
    "synthesize": ["synthesize", "DATA", "--schema", "s.toml", "--epsilon", "1", "--method", "mst",
                   "--rows", "10", "-o", "o.csv"],
    "schema draft": ["schema", "draft", "DATA", "-o", "d.toml", "--overwrite"],
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="files whose name contains this")
    parser.add_argument("--memory", default="512MiB")
    options = parser.parse_args()
    with memory_limit(options.memory):
        limit = current_memory_limit()
    table = Table("file", "MB", "command", "exit", "CPU s", f"peak / {options.memory}")
    folder, worst = Path(tempfile.mkdtemp(prefix="missdp-cells-")), 0.0
    try:
        SCHEMA.to_toml(folder / "s.toml")
        for name, make in FILES.items():
            if options.only not in name:
                continue
            data = folder / f"rows{SUFFIX[name.split(',')[0]]}"
            make(data)
            for command, template in COMMANDS.items():
                words = [str(data) if word == "DATA" else word for word in template]
                run = [sys.executable, "-m", "missdp", *words, "--memory", options.memory]
                done = subprocess.run(
                    [sys.executable, "-c", MEASURED, *run], cwd=folder, stdout=subprocess.PIPE,
                    text=True, check=True,
                )  # fmt: skip
                code, cpu, peak, *said = done.stdout.split(maxsplit=3)
                if code not in "03" or (code == "3" and "is longer than" not in said[0]):
                    sys.exit(f"{command} of {name} failed: {code} {said}")
                worst = max(worst, float(peak) / limit)
                size = f"{data.stat().st_size / 1e6:.3g}"
                row = (name, size, command, code, f"{float(cpu):.1f}", f"{float(peak) / limit:.2f}")
                table.add_row(*row)
                Console(stderr=True).print(*row)
            data.unlink()
    finally:
        shutil.rmtree(folder)
    Console().print(table)
    if worst > 1.05:
        sys.exit("a command took more memory than it may")


if __name__ == "__main__":
    main()
