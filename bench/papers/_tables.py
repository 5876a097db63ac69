"""Shared code of the scripts in this folder: short runs, results in files, tables of pages.

A script has `measure(short)`, which returns plain numbers and text. Its `tables(found)` makes the
tables of its page from them, and `draw(found)` makes the picture, if there is one. Without
``--short``, the numbers go to ``results/NAME.json``. A test compares the tables of the page with
the tables of this file.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

HERE = Path(__file__).parent
IMAGES = HERE.parents[1] / "docs" / "img"

Results = dict[str, Any]
sys.path.append(str(HERE.parent))  # for `_data`


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table: numbers with four digits, and a dash for None."""
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    lines += [f"| {' | '.join(map(shown, row))} |" for row in rows]
    return "\n".join(lines)


def shown(cell: object) -> str:
    if cell is None:
        return "-"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def results(name: str) -> Results:
    """Return the results of the last full run of a script."""
    return json.loads((HERE / "results" / f"{name}.json").read_text(encoding="utf-8"))


def written(measured: Results) -> str:
    """Return JSON with six digits per number, and one line for each record."""

    def rounded(x: Any) -> Any:
        if isinstance(x, dict):
            return {key: rounded(value) for key, value in x.items()}
        if isinstance(x, list | tuple):
            return [rounded(value) for value in x]
        return float(f"{x:.6g}") if isinstance(x, float) else x

    text = json.dumps(rounded(measured), indent=1, ensure_ascii=False)
    for inner in (r"\[[^\[\]{}]*\]", r"\{[^{}]*\}"):
        text = re.sub(inner, lambda m: re.sub(r"\s+", " ", m[0]), text)
    return f"{text}\n"


def save_figure(figure: Figure, name: str) -> None:
    """Write a picture for the pages. Equal figures give equal bytes."""
    mpl.rcParams.update({"svg.hashsalt": "missdp", "svg.fonttype": "none"})
    figure.savefig(IMAGES / f"{name}.svg", metadata={"Date": None})


def run(
    script: str,
    measure: Callable[[bool], Results],
    tables: Callable[[Results], list[str]],
    draw: Callable[[Results], None] | None = None,
) -> None:
    """Measure and print the tables. A full run also stores the numbers and draws the picture."""
    path = Path(script)
    parser = argparse.ArgumentParser(description=f"See the top of {path.name}.")
    parser.add_argument("--short", action="store_true", help="seconds, stores and draws nothing")
    parser.add_argument(
        "--kept", action="store_true", help="tables and picture of the stored results"
    )
    options = parser.parse_args()
    measured = results(path.stem) if options.kept else measure(options.short)
    print("\n\n".join(tables(measured)))
    print(f"\n{time.process_time():.0f} s of CPU")
    if options.short:
        return
    if not options.kept:
        text = written(measured)
        (HERE / "results" / f"{path.stem}.json").write_text(text, encoding="utf-8")
    if draw is not None:
        draw(measured)
