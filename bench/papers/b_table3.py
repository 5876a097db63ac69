"""Table 3 of Hu, Sanyal & Schölkopf (2024): movements of imputation models, tested on pairs.

The first table has each printed formula at one setting, and this library's bound. The second table
has pairs of neighbouring tables, drawn at random or constructed. Every quantity of the table (p,
order statistics, eigenvalues) is taken from the pair itself. The pair is the smallest collection
that holds both tables, so no collection makes the formula smaller. The printed formula fails if the
largest true movement is more than the formula, which is a ratio above 1. Our bounds are tested
likewise, at the tightest parameters.

The movement is the movement of a row that lacks all cells that the model fills (Proposition 16).

Run: python bench/papers/b_table3.py        (25 seconds with 20,000 pairs a line, or 2 with --short)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from _tables import Results, markdown, run

from missdp.pricing import (
    NEIGHBOURS,
    MeanImputer,
    MedianImputer,
    RegressionImputer,
    RowDomain,
    TrimmedMeanImputer,
)

N, P, TRIM = 1000, 20, 50
SPAN, CENTRAL_GAP, EIGENVALUE = 0.8, 0.002, 0.2
SEED = 20240722

Table = np.ndarray
Pair = tuple[Table, Table]


def columns(pair: Pair) -> list[np.ndarray]:
    return [np.sort(c[~np.isnan(c)]) for table in pair for c in table.T]


def incomplete(pair: Pair) -> int:
    return max(int(np.isnan(table).any(axis=1).sum()) for table in pair)


# --- Values that a model fills in, and the printed bound on their movement, from a pair.


def mean(table: Table) -> np.ndarray:
    return np.nanmean(table, axis=0)


def printed_mean(pair: Pair) -> float:
    return 2 / (len(pair[0]) - incomplete(pair))


def median(table: Table) -> np.ndarray:
    return np.nanmedian(table, axis=0)


def printed_median(pair: Pair) -> float:
    """Largest upper median less smallest lower median, of any column of any table."""
    ordered = columns(pair)
    return max(c[c.size // 2] for c in ordered) - min(c[(c.size - 1) // 2] for c in ordered)


def trimmed(table: Table, m: int = 2) -> np.ndarray:
    ordered = (np.sort(c[~np.isnan(c)]) for c in table.T)
    return np.array([c[m : c.size - m].mean() for c in ordered])


def printed_trimmed(pair: Pair, m: int = 2) -> float:
    """Largest m-th largest value less smallest m-th smallest, over n - 2 m - p."""
    ordered = columns(pair)
    span = max(c[-m] for c in ordered) - min(c[m - 1] for c in ordered)
    return span / (len(pair[0]) - 2 * m - incomplete(pair))


def regression(table: Table) -> np.ndarray:
    """Coefficients for the first column: a unit row's filled cell is at most their norm."""
    rows = table[~np.isnan(table[:, 0])]
    return np.linalg.lstsq(rows[:, 1:], rows[:, 0], rcond=None)[0]


def printed_regression(pair: Pair) -> float:
    """By the extreme eigenvalues of X'X, the target's column included, as their proof takes it."""
    rows = (table[~np.isnan(table[:, 0])] for table in pair)
    values = np.concatenate([np.linalg.eigvalsh(x.T @ x) for x in rows])
    high, low = float(values.max()), max(float(values.min()), 1e-12)
    return high**2 / ((high + 1) * low**2) + 1 / low


# --- Our bounds, at the tightest parameters of a pair.


def our_mean(pair: Pair, cells: int | None) -> float:
    step = MeanImputer(max_incomplete=max(1, incomplete(pair)), cells_per_row=cells)
    return step.shift(NEIGHBOURS, domain(pair))


def our_median(pair: Pair) -> float:
    ranks, gaps = 5, [0.0]
    for c in columns(pair):
        middle = (c.size - 1) / 2
        near = (g for i, g in enumerate(np.diff(c)) if abs(i + 0.5 - middle) <= ranks + 0.5)
        gaps.extend(map(float, near))
    step = MedianImputer(
        max_incomplete=max(1, incomplete(pair)), central_gap=max(gaps), central_ranks=ranks
    )
    return step.shift(NEIGHBOURS, domain(pair))


def our_trimmed(pair: Pair, m: int = 2) -> float:
    span = max(float(c[-m] - c[m - 1]) for c in columns(pair))
    step = TrimmedMeanImputer(
        max_incomplete=max(1, incomplete(pair)), trim=m, trimmed_range=max(span, 0.0)
    )
    return step.shift(NEIGHBOURS, domain(pair))


def our_regression(pair: Pair) -> float:
    rows = [table[~np.isnan(table[:, 0])][:, 1:] for table in pair]
    least = min(float(np.linalg.eigvalsh(x.T @ x)[0]) for x in rows) / len(pair[0])
    step = RegressionImputer(
        target=0, max_incomplete=max(1, incomplete(pair)), min_eigenvalue=max(least, 1e-9)
    )
    return step.response(NEIGHBOURS, domain(pair)).shift


def domain(pair: Pair) -> RowDomain:
    return RowDomain(rows=len(pair[0]), columns=pair[0].shape[1], complete=False)


# --- Pairs.


def in_ball(rows: Table) -> Table:
    return rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))


def random_pairs(count: int, d: int, *, target: bool = False) -> Iterator[Pair]:
    """Neighbours of 12 to 30 rows, up to a quarter incomplete. Half differ in missing cells.

    ``target``: only the first column has missing cells.
    """
    rng = np.random.default_rng(SEED + 10 * d + target)
    for _ in range(count):
        n = int(rng.integers(12, 31))
        shape = rng.choice([0.05, 0.3, 1.5], size=d)
        table = in_ball(rng.normal(size=(n, d)) * shape)
        if rng.random() < 0.5:
            table = in_ball(np.round(4 * table) / 4)
        other = table.copy()
        other[0] = in_ball(rng.normal(size=(1, d)) * 3)[0]
        if rng.random() < 0.5:
            table[0] = in_ball(rng.normal(size=(1, d)) * 3)[0]
        is_missing = np.zeros((n, d), dtype=bool)
        rows = rng.choice(np.arange(1, n), int(rng.integers(1, n // 4 + 1)), replace=False)
        is_missing[rows, rng.integers(0, 1 if target else d, rows.size)] = True
        if not target:
            is_missing[rows] |= rng.random((rows.size, d)) < 0.5
        table, other = np.where(is_missing, np.nan, table), np.where(is_missing, np.nan, other)
        if rng.random() < 0.5:
            other[0, 0] = np.nan
        if rng.random() < 0.25 and not target:
            table[0, -1] = np.nan
        yield table, other


def made_pairs() -> Iterator[Pair]:
    """Two columns, and a row that loses one cell and gains another. Both means move equally."""
    side = math.sqrt(0.5)
    for n in (12, 30, 400):
        table = np.array([[1.0, np.nan]] + [[-side, -side]] * (n - 2) + [[np.nan, np.nan]])
        other = table.copy()
        other[0] = [np.nan, 1.0]
        yield table, other


Model = tuple[
    str, Callable[[Table], np.ndarray], Callable[[Pair], float], Callable[[Pair], float], int, bool
]
MODELS: tuple[Model, ...] = (
    ("mean, one column", mean, printed_mean, lambda pair: our_mean(pair, 1), 1, False),
    ("mean, two columns", mean, printed_mean, lambda pair: our_mean(pair, None), 2, False),
    ("median, one column", median, printed_median, our_median, 1, False),
    ("median, two columns", median, printed_median, our_median, 2, False),
    ("trimmed mean, one column", trimmed, printed_trimmed, our_trimmed, 1, False),
    ("trimmed mean, two columns", trimmed, printed_trimmed, our_trimmed, 2, False),
    ("regression on one column", regression, printed_regression, our_regression, 2, True),
    ("regression on two columns", regression, printed_regression, our_regression, 3, True),
)


def search(model: Model, count: int) -> dict[str, object]:
    """Largest true movement over the printed bound, and over ours."""
    name, fill, printed, ours, d, target = model
    worst_printed = worst_ours = 0.0
    pairs = list(random_pairs(count, d, target=target))
    if fill is mean and d == 2:
        pairs.extend(made_pairs())
    for pair in pairs:
        moved = float(np.linalg.norm(fill(pair[0]) - fill(pair[1])))
        if moved < 1e-12:
            continue
        worst_printed = max(worst_printed, moved / max(printed(pair), 1e-12))
        worst_ours = max(worst_ours, moved / max(ours(pair), 1e-12))
    return {"model": name, "pairs": len(pairs), "printed": worst_printed, "ours": worst_ours}


# --- One setting.


def formulas() -> list[dict[str, object]]:
    one = RowDomain(rows=N, columns=1, complete=False)
    two = RowDomain(rows=N, columns=2, complete=False)
    median_step = MedianImputer(max_incomplete=P, central_gap=CENTRAL_GAP)
    trim_step = TrimmedMeanImputer(max_incomplete=P, trim=TRIM, trimmed_range=SPAN)
    line = RegressionImputer(target=0, max_incomplete=P, min_eigenvalue=EIGENVALUE)
    low = high = EIGENVALUE * N
    rows = [
        ("mean, one missing cell a row", 2 / (N - P),
         MeanImputer(max_incomplete=P, cells_per_row=1).shift(NEIGHBOURS, one)),
        ("mean, two missing cells a row", 2 / (N - P),
         MeanImputer(max_incomplete=P).shift(NEIGHBOURS, two)),
        ("median, medians of the collection within 0.02", 0.02, None),
        ("median, gaps around it at most 0.002", None, median_step.shift(NEIGHBOURS, one)),
        ("trimmed mean, 50 off either end, range 0.8", SPAN / (N - 2 * TRIM - P),
         trim_step.shift(NEIGHBOURS, one)),
        ("regression on one column, all eigenvalues 200", high**2 / ((high + 1) * low**2) + 1 / low,
         line.response(NEIGHBOURS, two).shift),
    ]  # fmt: skip
    return [{"model": m, "printed": printed, "ours": ours} for m, printed, ours in rows]


def measure(short: bool) -> Results:
    count = 300 if short else 20_000
    return {
        "n": N, "p": P, "seed": SEED,
        "formulas": formulas(), "search": [search(model, count) for model in MODELS],
    }  # fmt: skip


def tables(results: Results) -> list[str]:
    formulas = ((f["model"], f["printed"], f["ours"]) for f in results["formulas"])
    searched = (
        (s["model"], f"{s['printed']:.3f}", f"{s['ours']:.3f}",
         "no" if s["printed"] > 1 + 1e-9 else "not broken")
        for s in results["search"]
    )  # fmt: skip
    return [
        markdown(("imputation model", "printed", "ours"), formulas),
        markdown(
            ("imputation model", "true / printed", "true / ours", "does the printed one hold?"),
            searched,
        ),
    ]


if __name__ == "__main__":
    run(__file__, measure, tables)
