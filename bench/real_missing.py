"""A table with real missing values, its distances, and the tables of results for `compare.py`.

The table is hmeq, the example of dpmm: 5,960 loans, 10 numbers, 3 categories, and 44 % of the rows
incomplete. There is no complete truth. So synthetic rows keep missing cells, and "missing" is one
more level of each column. Numbers are cut at their deciles in the real rows. The same deciles score
every method. The distance is total variation, as a mean over all 78 pairs of columns.

A fit gets one of two sets of public facts. *Bounds* are levels and bounds, so methods find bins
privately. *Deciles* add the decile edges as if they were public, for methods that need codes.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

HMEQ = Path(__file__).resolve().parents[2] / "shared" / "data" / "hmeq"
BOUNDS, DECILES = "hmeq, bounds", "hmeq, deciles"
TITLES = {
    BOUNDS: "bins found privately",
    DECILES: "decile edges declared",
}
HEADS = ("method", "version", "runs", "two-way", "one-way", "CPU s", "GB", "ratio")
Facts = dict[str, dict[str, Any]]


def read() -> tuple[Facts, pd.DataFrame]:
    """Return the public facts of hmeq, and its rows as text and numbers."""
    facts = json.loads((HMEQ / "domain.json").read_text("utf-8"))
    frame = pd.read_csv(HMEQ / "hmeq.csv", dtype=str)
    numbers = [name for name, fact in facts.items() if fact["kind"] == "numeric"]
    frame[numbers] = frame[numbers].astype(float)
    return facts, frame[list(facts)]


def with_edges(facts: Facts, frame: pd.DataFrame) -> Facts:
    """Return the facts with the decile edges of each number, from its lower to its upper bound."""
    out = {}
    for name, fact in facts.items():
        if fact["kind"] == "numeric":
            inner = np.unique(frame[name].dropna().quantile(np.arange(0.1, 1, 0.1)))
            inner = inner[(inner > fact["lower"]) & (inner < fact["upper"])]
            fact = fact | {"edges": [float(fact["lower"]), *inner.tolist(), float(fact["upper"])]}
        out[name] = fact
    return out


def hmeq(title: str) -> tuple[Facts, pd.DataFrame, pd.DataFrame, tuple[str, ...]]:
    """Return facts, rows to compare with, rows to fit, and no targets of classifiers."""
    facts, frame = read()
    return (with_edges(facts, frame) if title == DECILES else facts), frame, frame, ()


def codes(frame: pd.DataFrame, facts: Facts) -> tuple[np.ndarray, list[int]]:
    """Return codes by column, where the last code is missing, and the numbers of codes."""
    columns, sizes = [], []
    for name, fact in facts.items():
        if "edges" in fact:
            size = len(fact["edges"]) - 1
            cells = frame[name].astype(float)
            code = np.searchsorted(fact["edges"][1:-1], cells, side="right")
            code = np.where(cells.isna(), size, code)
        else:
            levels = {str(level): k for k, level in enumerate(fact["levels"])}
            size = len(levels)
            cells = frame[name].map(lambda x: x if pd.isna(x) else str(x).removesuffix(".0"))
            code = cells.map(levels).fillna(size).to_numpy(int)
        columns.append(code)
        sizes.append(size + 1)
    return np.array(columns), sizes


def distances(truth: pd.DataFrame, made: pd.DataFrame) -> dict[str, float]:
    """Return mean total variation of all columns and pairs, with missing as one more level."""
    facts = with_edges(read()[0], truth)
    (one, sizes), (other, _) = codes(truth, facts), codes(made, facts)

    def mean(ways: int) -> float:
        apart = []
        for clique in itertools.combinations(range(len(sizes)), ways):
            shape = [sizes[c] for c in clique]
            shares = []
            for table in (one, other):
                cells = np.ravel_multi_index([table[c] for c in clique], shape)
                counts = np.bincount(cells, minlength=int(np.prod(shape)))
                shares.append(counts / counts.sum())
            apart.append(np.abs(shares[0] - shares[1]).sum() / 2)
        return float(np.mean(apart))

    return {"two_way": mean(2), "one_way": mean(1)}


def resampled(runs: int = 20) -> dict[str, float]:
    """Return the mean distances of rows that are drawn with replacement from the real rows."""
    _, frame = read()
    scores = [
        distances(frame, frame.sample(len(frame), replace=True, random_state=run))
        for run in range(runs)
    ]
    return {key: statistics.mean(score[key] for score in scores) for key in scores[0]}


def shown(results: list[dict[str, Any]]) -> list[str]:
    """Return a Markdown table for each set of facts. The ratio is to the distance of AllPairs.

    Parameters
    ----------
    results : list of dict
        The runs, as `compare.py` stores them. Runs of other tables are left out.

    Returns
    -------
    list of str
        The tables, ordered by best runs. A method without a result has a row with the reason.
    """
    out = []
    for title, meaning in TITLES.items():
        rows = [r for r in results if r["table"] == title]
        best = [r["two_way"] for r in rows if r["method"] == "AllPairs"]
        lines = [f"| {' | '.join((f'{HEADS[0]}: {meaning}', *HEADS[1:]))} |"]
        lines.append("|---" * len(HEADS) + "|")
        rows.sort(key=lambda r: r.get("two_way", math.inf))
        for name in dict.fromkeys(r["method"] for r in rows):
            runs = [r for r in rows if r["method"] == name]
            lines.append(_line(name, runs, statistics.mean(best) if best else float("nan")))
        out.append("\n".join(lines))
    return out


def _line(name: str, runs: list[dict[str, Any]], best: float) -> str:
    """Return the row of a method: its means, or the reason why there are none."""
    good = [r for r in runs if "problem" not in r]
    start = f"| {name.replace('mbi', '`mbi`')} | {runs[0]['version']} | {len(good)} |"
    if not good:
        spent = f" ({runs[0]['cpu_s']:.0f} CPU s)" if "cpu_s" in runs[0] else ""
        return f"{start} {runs[0]['problem']}{spent} | | | | |"
    mean = {
        key: statistics.mean(r[key] for r in good) for key in ("two_way", "one_way", "cpu_s", "gb")
    }
    two, one = (f"{mean[key]:.3f}".removeprefix("0") for key in ("two_way", "one_way"))
    memory = f"{mean['gb']:.1f}".removeprefix("0")
    costs = f"{mean['cpu_s']:.0f} | {memory}"
    return f"{start} {two} | {one} | {costs} | {mean['two_way'] / best:.2f} |"
