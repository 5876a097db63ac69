"""Table 2 of Hu, Sanyal & Schölkopf (2024), every pair, compared with this library's figures.

Each number is the overall Rényi bound divided by the mechanism's bound for a raw neighbour, at
order alpha = 11. This number is the factor that preprocessing costs. Columns:

* published: the printed entry.
* theorem 2: the published sensitivities through Theorem 2 with c = 2, without rounding.
* optimised: the published sensitivities, best split and best intermediate table.
* ours: this library's sensitivities and its best bound.

The Gaussian, Laplace and exponential rows are for a query with sensitivity 1 *and* Frobenius-
Lipschitz constant 1, as published. The shipped mean has sensitivity 2 R / n. Its Frobenius-
Lipschitz constant is 1 / sqrt(n), sqrt(n) / 2 times its sensitivity at R = 1. It pays more where
every row moves. Its rows follow the others. Two printed scaling entries come last, with a pair of
tables that exceeds them.

Run: python bench/papers/b_table2.py        (2 seconds, also with --short)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from _tables import Results, markdown, run
from b_shared import exponential_map, iteration_map, overall_curve
from scipy.optimize import brentq

from missdp.pricing import (
    NEIGHBOURS,
    Deduplicator,
    MeanImputer,
    PCARankReducer,
    PrivateMean,
    Quantizer,
    RowDomain,
    StandardScaler,
    TableDistance,
)
from missdp.pricing.privacy_maps import (
    PrivacyMap,
    Sensitivity,
    _split,
    _theorem_two,
)

ALPHA, EPSILON = 11.0, 0.1
N, P, ETA, GAP, STD = 1000, 20, 0.01, 0.5, 0.7


@dataclass(frozen=True)
class Step:
    """A preprocessing step with the published movement and the movement of this library."""

    name: str
    tau: float
    ours: TableDistance


def steps() -> list[Step]:
    """Steps on one column (PCA: two), with at most P rows in clusters or incomplete."""
    one, two = RowDomain(rows=N, columns=1), RowDomain(rows=N, columns=2)
    incomplete = RowDomain(rows=N, columns=1, complete=False)
    impute = MeanImputer(max_incomplete=P, cells_per_row=1).stability(NEIGHBOURS, incomplete)
    # Their p counts rows that change. Ours follows from the cluster size, P / 4 on a line.
    quantize = Quantizer(eta=ETA, max_cluster=P // 4).stability(NEIGHBOURS, one)
    dedup = Deduplicator(eta=ETA, max_cluster=P // 4).stability(NEIGHBOURS, one)
    pca = PCARankReducer(n_components=1, min_gap=GAP).stability(NEIGHBOURS, two)
    scale = StandardScaler(min_std=STD).stability(NEIGHBOURS, one)
    return [
        Step("deduplication", float(P), dedup),
        Step("quantisation", P * ETA, quantize),
        Step("mean imputation", 2 * P / (N - P), impute),
        Step("PCA (rank)", 4 * (3 * N + 2) / ((N - 1) * GAP), pca),
        Step("standard scaling", 2 / STD**3 + 2 / STD, scale),
    ]


def published(mechanism: str, step: Step) -> float | None:
    """The printed entry over the mechanism's Rényi bound, or None without a printed entry."""
    tau = {"PCA (rank)": 12.2 / GAP, "standard scaling": None}.get(step.name, step.tau)
    scaling = 4 / STD**3  # Printed unsquared in the first two rows.
    a, e2 = ALPHA, EPSILON**2
    if mechanism == "Gaussian":
        added = scaling if tau is None else tau**2
        return 1.05 * a * e2 * (1 + added) / (a * e2 / 2)
    if mechanism == "DP-GD":
        added = 4 / STD**3 if tau is None else tau**2
        return 1.05 * a * e2 * (4 + added) / (2 * a * e2)
    if mechanism in ("Laplace", "exponential"):
        return 1 + (scaling if tau is None else tau)
    if mechanism == "DP-SGD (sample)":
        if step.name not in ("PCA (rank)", "standard scaling"):
            return None
        added = 16 / STD**6 if tau is None else tau**2
        return 1.05 * a * e2 * (2 * a + added) / (a**2 * e2 / 2)
    if step.name in ("PCA (rank)", "standard scaling"):
        return None
    spread = N * math.log(N - P) / ((N - P) * math.log(N))
    return 1.1 * a * e2 * (1 + tau**2 * spread) / (a * e2 / 2)


def mechanisms() -> dict[str, PrivacyMap]:
    """Mechanisms at the published calibration, with L = mu = sensitivity = 1 in Frobenius norm."""
    unit = Sensitivity(replaced=1.0, l12=1.0, frobenius=1.0)
    steps_taken = 100
    gradient = Sensitivity(replaced=2 / N, l12=1 / N, frobenius=1 / math.sqrt(N))
    descent = PrivacyMap.gaussian(
        sensitivity=gradient, sigma=math.sqrt(steps_taken) / (EPSILON * N), steps=steps_taken
    )

    def sampled(sigma: float) -> PrivacyMap:
        return PrivacyMap.subsampled(
            lipschitz=1.0, smoothness=1.0, rows=N, batch=50, sigma=sigma, steps=steps_taken
        )

    def iterated(sigma: float) -> PrivacyMap:
        return iteration_map(lipschitz=1.0, smoothness=1.0, rows=N, sigma=sigma)

    return {
        "Gaussian": PrivacyMap.gaussian(sensitivity=unit, sigma=1 / EPSILON),
        "DP-GD": descent,
        "Laplace": PrivacyMap.laplace(sensitivity=unit, scale=1 / EPSILON),
        "exponential": exponential_map(sensitivity=unit, epsilon=EPSILON),
        "DP-SGD (sample)": _at(sampled, ALPHA**2 * EPSILON**2 / 2),
        "DP-SGD (iteration)": _at(iterated, ALPHA * EPSILON**2 / 2),
    }


def _at(make: Callable[[float], PrivacyMap], target: float) -> PrivacyMap:
    """The map that attains the published bound for a raw neighbour, by our proof of the bound."""
    sigma = brentq(lambda s: make(s).curve(ALPHA, NEIGHBOURS) - target, 1e-2, 1e4, xtol=1e-10)
    return make(sigma)


def shipped(columns: int) -> dict[str, PrivacyMap]:
    """The shipped mean of rows in the unit ball, at equal noise in units of sensitivity."""
    domain = RowDomain(rows=N, columns=columns)
    return {
        "mean, Gaussian noise": PrivateMean(noise_multiplier=1 / EPSILON)
        .question(domain)
        .privacy_map,
        "mean, Laplace noise": PrivateMean(noise_multiplier=1 / EPSILON, mechanism="laplace")
        .question(domain)
        .privacy_map,
    }


def paid(mechanism: PrivacyMap, step: Step) -> float:
    """The factor that the shipped mean pays after a step: in rho, or in pure epsilon."""
    if math.isfinite(mechanism.pure(NEIGHBOURS)):
        return mechanism.pure(step.ours) / mechanism.pure(NEIGHBOURS)
    return mechanism.rho(step.ours) / mechanism.rho(NEIGHBOURS)


def base_bound(name: str, mechanism: PrivacyMap) -> float:
    """The mechanism's bound for a raw neighbour: for Laplace and exponential, epsilon itself."""
    if name in ("Laplace", "exponential"):
        return mechanism.pure(NEIGHBOURS)
    return mechanism.curve(ALPHA, NEIGHBOURS)


def factors(name: str, mechanism: PrivacyMap, step: Step) -> tuple[float | None, ...]:
    """One cell: published, theorem 2 at c = 2, optimised, ours."""
    rows = step.ours.shifted_rows
    # Only the summed movement, as published. Sampling also needs its largest part in a row.
    each = step.tau / rows if name.startswith("DP-SGD") else step.tau
    paper = TableDistance(replaced=1, shifted_rows=rows, shift_l12=step.tau, max_shift=each)
    base = base_bound(name, mechanism)
    if name in ("Laplace", "exponential"):
        at_paper = mechanism.pure(paper) / base
        return published(name, step), at_paper, at_paper, mechanism.pure(step.ours) / base

    def replaced(a: float) -> float:
        return mechanism.curve(a, NEIGHBOURS)

    def moved(a: float) -> float:
        return mechanism.curve(a, replace(paper, replaced=0))

    return (
        published(name, step),
        _split(ALPHA, replaced, moved, 2.0) / base,
        _theorem_two(ALPHA, replaced, moved) / base,
        overall_curve(mechanism, step.ours, ALPHA) / base,
    )


def scaling_pair(n: int, s: float) -> tuple[np.ndarray, np.ndarray]:
    """Half of the rows at -1, half at -1 + 2 s. In the neighbour, one row is at 1."""
    table = np.repeat([[-1.0], [-1.0 + 2 * s]], n // 2, axis=0)
    other = table.copy()
    other[0] = 1.0
    return table, other


def tent(z: np.ndarray, reach: float) -> np.ndarray:
    """A function in [-reach, reach] of slope at most 1, steep where scaled rows lie, |z| = 1."""
    return np.interp(np.abs(z), [1 - reach, 1.0, 1.5, 4.0], [-reach, 0.0, 0.5, -reach])


def beaten(s: float) -> dict[str, float]:
    """A pair whose scaled rows move two sums by more than two entries for scaling allow.

    The first sum is one step of DP-GD on a loss with gradient `tent` of reach 1. The second sum is
    noise on the sum of `tent` of reach 1/2, whose sensitivity is 1. Outputs are Gaussians, so
    divergences are exact. They are in units of alpha epsilon^2.
    """
    pair = scaling_pair(N, s)
    least = min(float(table.std()) for table in pair)
    scaled = [StandardScaler(min_std=least * (1 - 1e-9)).fit_transform(t) for t in pair]
    gradients, total = (
        abs(float(tent(scaled[0], reach).sum() - tent(scaled[1], reach).sum()))
        for reach in (1.0, 0.5)
    )
    return {
        "std": least,
        "gd_printed": 4.2 * (1 + 1 / least**3),
        "gd_found": gradients**2 / 2,
        "sum_printed": 1.05 * (1 + 4 / least**3),
        "sum_found": total**2 / 2,
    }


def measure(short: bool) -> Results:
    del short  # it takes seconds
    cells = [
        {"mechanism": name, "step": step.name, "factors": factors(name, mechanism, step)}
        for name, mechanism in mechanisms().items()
        for step in steps()
    ]
    means = []
    for step in steps():
        kinds = shipped(2 if step.name.startswith("PCA") else 1).values()
        means.append({"step": step.name, "factors": [paid(mechanism, step) for mechanism in kinds]})
    setting = {"alpha": ALPHA, "n": N, "p": P, "eta": ETA, "gap": GAP, "std": STD}
    return {**setting, "cells": cells, "means": means, "beaten": [beaten(s) for s in (0.1, 0.2)]}


def tables(results: Results) -> list[str]:
    header = ("mechanism", "step", "published", "theorem 2, c = 2", "optimised", "ours")
    cells = ((c["mechanism"], c["step"], *c["factors"]) for c in results["cells"])
    means = ((c["step"], *c["factors"]) for c in results["means"])
    beaten = [
        (f"{b['std']:.2f}", entry, b[f"{key}_printed"], b[f"{key}_found"])
        for b in results["beaten"]
        for entry, key in (("DP-GD", "gd"), ("Gaussian noise on a sum", "sum"))
    ]
    return [
        markdown(header, cells),
        markdown(("step", "mean, Gaussian noise", "mean, Laplace noise"), means),
        markdown(("standard deviation", "entry", "printed", "a pair has"), beaten),
    ]


if __name__ == "__main__":
    run(__file__, measure, tables)
