"""Figure 2 of Hu, Sanyal & Schölkopf (2024): Gaussian mechanism after three kinds of preprocessing.

Writes docs/img/price-figure2.svg. The mechanism has sensitivity 1, noise 10, and is 1-Lipschitz in
the Frobenius norm of the movement, as theirs is; epsilon is stated at delta = 1e-6.

Run: python bench/price_figure2.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from missdp.accounting import RDPEvent, epsilon_of
from missdp.preprocess import (
    NEIGHBOURS,
    MeanImputer,
    PCARankReducer,
    Quantizer,
    RowDomain,
    StableTransformer,
    TableDistance,
    bounds,
)
from missdp.preprocess.chain import ORDERS, theorem_two
from missdp.preprocess.maps import GaussianMap, Sensitivity

mpl.rcParams["svg.hashsalt"] = "missdp"  # The same picture byte for byte.
DELTA, NOISE = 1e-6, 10.0
MECHANISM = GaussianMap(sensitivity=Sensitivity(replaced=1.0, l12=1.0, frobenius=1.0), sigma=NOISE)


def ours(step: StableTransformer, domain: RowDomain) -> tuple[float, float]:
    """The best bound, and group privacy, for one replaced row."""
    found = bounds(MECHANISM, step.stability(NEIGHBOURS, domain), DELTA)
    group = {b.name: b.epsilon for b in found}["group privacy"]
    return found[0].epsilon, group


def published(tau: float) -> float:
    """Theorem 2 with c = 2, orders of at least 11, and the published sensitivities."""
    moved = TableDistance(replaced=1, moved_rows=1, moved_l12=tau)
    orders = [a for a in ORDERS if a >= 11]
    curve = [
        theorem_two(
            a, lambda o: o / (2 * NOISE**2), lambda o: MECHANISM.moved_curve(o, moved), c=2.0
        )
        for a in orders
    ]
    return epsilon_of(RDPEvent(orders=orders, epsilons=curve), DELTA)


def panels():
    """Name, x label, x values, and the three curves of each panel."""
    sizes = np.unique(np.geomspace(2, 200, 12).astype(int))
    for eta in (0.005, 0.05):
        domain = RowDomain(rows=1000, columns=1)
        rows = [ours(Quantizer(eta=eta, max_cluster=max(1, b // 4)), domain) for b in sizes]
        yield "quantisation", f"rows that change (eta = {eta})", sizes, rows, sizes * eta
    missing = np.unique(np.geomspace(2, 950, 12).astype(int))
    domain = RowDomain(rows=1000, columns=1, complete=False)
    rows = [ours(MeanImputer(max_incomplete=int(p), cells_per_row=1), domain) for p in missing]
    yield (
        "mean imputation",
        "incomplete rows of 1000",
        missing,
        rows,
        2 * missing / (1000 - missing),
    )
    counts = np.unique(np.geomspace(101, 10_000, 12).astype(int))
    step = PCARankReducer(n_components=2, least_gap=0.5)
    rows = [ours(step, RowDomain(rows=int(n), columns=5)) for n in counts]
    tau = 4 * (3 * counts + 2) / ((counts - 1) * 0.5)
    yield "PCA for rank reduction", "rows (eigen-gap 0.5)", counts, rows, tau


def main() -> None:
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    axes = figure.subplots(1, 3)
    place = {"quantisation": 0, "mean imputation": 1, "PCA for rank reduction": 2}
    print("| panel | x | published (theorem 2) | ours | group privacy |")
    print("|---|---|---|---|---|")
    for name, label, x, rows, tau in panels():
        theirs = [published(float(t)) for t in tau]
        best, group = (list(column) for column in zip(*rows, strict=True))
        axis = axes[place[name]]
        note = label.split("(")[-1].rstrip(")") if name == "quantisation" else ""
        for values, style, text in (
            (group, "--", "group privacy"),
            (theirs, ":", "theorem 2, c = 2"),
            (best, "-", "this library"),
        ):
            axis.plot(x, values, style, label=" ".join(filter(None, (text, note))))
        axis.set(title=name, xscale="log", yscale="log", xlabel=label.split(" (")[0])
        axis.legend(frameon=False, fontsize=7)
        for i in (0, len(x) // 2, len(x) - 1):
            print(f"| {name} {note} | {x[i]} | {theirs[i]:.3g} | {best[i]:.3g} | {group[i]:.3g} |")
    axes[0].set_ylabel("epsilon at delta = 1e-6")
    path = Path(__file__).parents[1] / "docs" / "img" / "price-figure2.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
