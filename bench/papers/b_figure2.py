"""Figure 2 of Hu, Sanyal & Schölkopf (2024): Gaussian mechanism after three kinds of preprocessing.

The script writes docs/img/papers-b-figure2.svg. The mechanism has sensitivity 1, noise 10, and is
1-Lipschitz in the Frobenius norm of the movement, as in the paper. Epsilon is stated at delta =
1e-6. The paper prints no numbers and no setting. The script therefore checks the statements of its
text about the curves.

Run: python bench/papers/b_figure2.py        (4 seconds, or 2 with the fewer points of --short)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from _tables import Results, markdown, run, save_figure
from matplotlib.figure import Figure

from missdp.accounting import RDPEvent, epsilon_of
from missdp.pricing import (
    NEIGHBOURS,
    MeanImputer,
    PCARankReducer,
    Quantizer,
    RowDomain,
    StableTransformer,
    TableDistance,
    bounds,
)
from missdp.pricing.privacy_maps import ORDERS, PrivacyMap, Sensitivity, _split

DELTA, NOISE = 1e-6, 10.0
MECHANISM = PrivacyMap.gaussian(
    sensitivity=Sensitivity(replaced=1.0, l12=1.0, frobenius=1.0), sigma=NOISE
)


def ours(step: StableTransformer, domain: RowDomain) -> tuple[float, float]:
    """The best bound, and group privacy, for one replaced row."""
    ordered = bounds(MECHANISM, step.stability(NEIGHBOURS, domain), DELTA)
    group = {b.name: b.epsilon for b in ordered}["group privacy"]
    return ordered[0].epsilon, group


def published(tau: float) -> float:
    """Theorem 2 with c = 2, orders of at least 11, and the published sensitivities."""
    moved = TableDistance(replaced=0, shifted_rows=1, shift_l12=tau)
    orders = [a for a in ORDERS if a >= 11]
    curve = [
        _split(a, lambda o: o / (2 * NOISE**2), lambda o: MECHANISM.curve(o, moved), 2.0)
        for a in orders
    ]
    return epsilon_of(RDPEvent(orders=orders, epsilons=curve), DELTA)


def panels(points: int) -> Iterator[dict[str, Any]]:
    """The curves of each panel: x, our bound and group privacy, and the summed movement."""
    sizes = np.unique(np.geomspace(2, 200, points).astype(int))
    for eta in (0.005, 0.05):
        domain = RowDomain(rows=1000, columns=1)
        bounds = [ours(Quantizer(eta=eta, max_cluster=max(1, b // 4)), domain) for b in sizes]
        yield panel("quantisation", f"eta = {eta}", "rows that change", sizes, bounds, sizes * eta)
    missing = np.unique(np.geomspace(2, 950, points).astype(int))
    domain = RowDomain(rows=1000, columns=1, complete=False)
    bounds = [ours(MeanImputer(max_incomplete=int(p), cells_per_row=1), domain) for p in missing]
    tau = 2 * missing / (1000 - missing)
    yield panel("mean imputation", "", "incomplete rows of 1000", missing, bounds, tau)
    counts = np.unique(np.geomspace(101, 10_000, points).astype(int))
    for gap in (0.05, 0.5):
        step = PCARankReducer(n_components=2, min_gap=gap)
        bounds = [ours(step, RowDomain(rows=int(n), columns=5)) for n in counts]
        tau = 4 * (3 * counts + 2) / ((counts - 1) * gap)
        yield panel("PCA for rank reduction", f"gap = {gap}", "rows", counts, bounds, tau)


def panel(name: str, note: str, label: str, x: Any, bounds: Any, tau: Any) -> dict[str, Any]:
    best, group = zip(*bounds, strict=True)
    theirs = [published(float(t)) for t in tau]
    x = [int(v) for v in x]
    curves = {"published": theirs, "ours": list(best), "group": list(group)}
    return {"panel": name, "note": note, "label": label, "x": x, **curves}


def measure(short: bool) -> Results:
    curves = list(panels(3 if short else 12))
    met = {} if short else {str(n): meets(n) for n in (50, 100, 1000)}
    setting = {"noise": NOISE, "delta": DELTA}
    return {**setting, "panels": curves, "checks": checks(curves), "group_is_met_at": met}


def meets(n: int) -> float | None:
    """Smallest share of incomplete rows, from 90 %, at which group privacy is better."""
    domain = RowDomain(rows=n, columns=1, complete=False)
    for p in range(math.ceil(0.9 * n), n):
        group = ours(MeanImputer(max_incomplete=p, cells_per_row=1), domain)[1]
        if published(2 * p / (n - p)) > group:
            return p / n
    return None


def checks(curves: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """Statements of sections 4.2 and 5.1 about the figure, by the published bound and by ours."""
    by = {(p["panel"], p["note"]): p for p in curves}
    fine, coarse = by["quantisation", "eta = 0.005"], by["quantisation", "eta = 0.05"]
    impute, pca = by["mean imputation", ""], by["PCA for rank reduction", "gap = 0.5"]

    def less(p: dict[str, Any], i: int, curve: str = "published") -> float:
        return p["group"][i] / p[curve][i]

    return [
        ("quantisation: the smaller η, the more is gained on group privacy",
         less(fine, -1) > 3 * less(coarse, -1)),
        ("mean imputation: much is gained where few values are missing",
         less(impute, len(impute["x"]) // 2) > 3),
        ("mean imputation: beyond 90 % missing, the printed bound is near group privacy (50 rows)",
         meets(50) is not None),
        ("the same with 1000 rows, at 95 % missing", less(impute, -1) < 2),
        ("PCA: the printed bound stays where it is as n grows",
         max(pca["published"]) < 1.1 * min(pca["published"])),
        ("PCA: ours falls or stays as n grows", pca["ours"][-1] <= pca["ours"][0] * 1.001),
        ("PCA: group privacy grows with n", pca["group"][-1] > 10 * pca["group"][0]),
        ("everywhere: ours is below the printed bound",
         all(a < b for p in curves for a, b in zip(p["ours"], p["published"], strict=True))),
    ]  # fmt: skip


def tables(results: Results) -> list[str]:
    rows = [
        (f"{p['panel']} {p['note']}".strip(), f"{p['x'][i]} {p['label']}",
         *(f"{p[curve][i]:.3g}" for curve in ("published", "ours", "group")))
        for p in results["panels"]
        for i in (0, len(p["x"]) // 2, len(p["x"]) - 1)
    ]  # fmt: skip
    header = ("panel", "at", "published (theorem 2, c = 2)", "ours", "group privacy")
    statements = [(text, "yes" if holds else "no") for text, holds in results["checks"]]
    return [markdown(header, rows), markdown(("the text says", "found"), statements)]


def draw(results: Results) -> None:
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    axes = figure.subplots(1, 3)
    place = {"quantisation": 0, "mean imputation": 1, "PCA for rank reduction": 2}
    lines = {
        "group": ("--", "group privacy"),
        "published": (":", "published"),
        "ours": ("-", "ours"),
    }
    for p in results["panels"]:
        axis = axes[place[p["panel"]]]
        for curve, (style, text) in lines.items():
            if curve == "group" and axis.lines:
                continue  # group privacy does not depend on the note
            axis.plot(
                p["x"],
                p[curve],
                style,
                label=text if curve == "group" else f"{text} {p['note']}".strip(),
            )
        axis.set(title=p["panel"], xscale="log", yscale="log", xlabel=p["label"])
        axis.legend(frameon=False, fontsize=7)
    axes[0].set_ylabel(f"epsilon at delta = {results['delta']:g}")
    save_figure(figure, "papers-b-figure2")


if __name__ == "__main__":
    run(__file__, measure, tables, draw)
