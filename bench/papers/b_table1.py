"""Table 1 of Hu, Sanyal & Schölkopf (2024): RDP and smooth RDP of six mechanisms, and ours.

The table has every printed formula at one setting, and the bound that this library proves for the
mechanism. If a pair of tables exceeds the printed entry, the pair is shown, too. Constants L, mu
and sensitivities are 1. Movements are tau = 0.2 spread over 20 of 1000 rows (an imputation), and
tau = 1 over all rows (scaling, principal components). epsilon is 0.01, because the entry for DP-SGD
by iteration requires sigma >= L sqrt(2 alpha (alpha - 1)).

Run: python bench/papers/b_table1.py        (2 seconds, also with --short)
"""

from __future__ import annotations

import math

import numpy as np
from _tables import Results, markdown, run
from b_shared import exponential_map, iteration_map
from scipy.optimize import brentq
from scipy.special import logsumexp

from missdp.pricing import NEIGHBOURS, TableDistance
from missdp.pricing.privacy_maps import (
    PrivacyMap,
    Sensitivity,
)

ALPHA, EPSILON, N = 11.0, 0.01, 1000
SHORT_WAY = TableDistance(replaced=0, shifted_rows=20, max_shift=0.01)
LONG_WAY = TableDistance(replaced=0, shifted_rows=N, max_shift=1 / N)
STEPS = 100  # of DP-GD and of sampled DP-SGD, whose formulas do not depend on it


def mechanisms() -> dict[str, PrivacyMap]:
    """The six mechanisms at the noise of Table 1, if it states the noise."""
    unit = Sensitivity(replaced=1.0, l12=1.0, frobenius=1.0)
    gradient = Sensitivity(replaced=2 / N, l12=1 / N, frobenius=1 / math.sqrt(N))
    return {
        "Gaussian": PrivacyMap.gaussian(sensitivity=unit, sigma=1 / EPSILON),
        "Laplace": PrivacyMap.laplace(sensitivity=unit, scale=1 / EPSILON),
        "exponential": exponential_map(sensitivity=unit, epsilon=EPSILON),
        "DP-GD": PrivacyMap.gaussian(
            sensitivity=gradient, sigma=math.sqrt(STEPS) / (EPSILON * N), steps=STEPS
        ),
        "DP-SGD (sample)": sampled(sampled_sigma()),
        "DP-SGD (iteration)": iterated(iterated_sigma()),
    }


def sampled(sigma: float) -> PrivacyMap:
    """DP-SGD with one row per step, as in the paper."""
    return PrivacyMap.subsampled(
        lipschitz=1.0, smoothness=1.0, rows=N, batch=1, sigma=sigma, steps=STEPS
    )


def iterated(sigma: float) -> PrivacyMap:
    return iteration_map(lipschitz=1.0, smoothness=1.0, rows=N, sigma=sigma)


def sampled_sigma() -> float:
    """Noise at which our bound for a replaced row is the printed bound ("Omega" is no value)."""
    target = ALPHA**2 * EPSILON**2 / 2
    return brentq(lambda s: sampled(s).curve(ALPHA, NEIGHBOURS) - target, 0.1, 1e4)


def iterated_sigma() -> float:
    """The printed noise: sigma^2 = 8 L^2 log(n) / (n epsilon^2)."""
    return math.sqrt(8 * math.log(N) / N) / EPSILON


def printed(name: str, moved: TableDistance) -> float:
    """The printed smooth RDP."""
    a, e, tau = ALPHA, EPSILON, moved.shift_l12
    if name in ("Laplace", "exponential"):
        return e * tau
    if name == "DP-SGD (sample)":
        gamma = N / moved.shifted_rows  # inverse point-wise divergence: all moved rows move alike
        return a * tau**2 * e**2 * gamma**2 / 2
    if name == "DP-SGD (iteration)":
        remaining = N - min(moved.shifted_rows, N - 1) + 1
        # Table 1 and Theorem 15 print no epsilon^2. Table 2 follows if it is added.
        return a * tau**2 * e**2 * N * math.log(remaining + 1) / (2 * remaining * math.log(N))
    return a * tau**2 * e**2 / 2


def printed_rdp(name: str) -> float:
    if name in ("Laplace", "exponential"):
        return EPSILON
    power = {"DP-GD": 4.0, "DP-SGD (sample)": ALPHA}.get(name, 1.0)
    return power * ALPHA * EPSILON**2 / 2


def sampled_truth(noise: float, alpha: float) -> float:
    """Rényi divergence of one step on a pair: one gradient turns from 1 to -1, others are 0."""
    x = np.linspace(-alpha - 40 * noise, alpha + 40 * noise, 200_001)

    def log_density(mean: float) -> np.ndarray:
        away, there = (-(((x - m) / noise) ** 2) / 2 for m in (0.0, mean))
        return np.logaddexp(math.log1p(-1 / N) + away, there - math.log(N))

    log_part = alpha * log_density(1.0) + (1 - alpha) * log_density(-1.0)
    step = math.log((x[1] - x[0]) / (noise * math.sqrt(2 * math.pi)))
    return (float(logsumexp(log_part)) + step) / (alpha - 1)


def least_constant(alpha: float) -> float:
    """Smallest c for which sigma = c L sqrt(T) / (epsilon n) can hold for that pair.

    There are T = (epsilon n)^2 steps, so that sigma is c. Their lemma requires a c of at least 1.
    """
    steps = (EPSILON * N) ** 2
    target = alpha**2 * EPSILON**2 / 2
    return brentq(lambda c: steps * sampled_truth(c, alpha) - target, 0.5, 8.0, xtol=1e-4)


def measure(short: bool) -> Results:
    del short  # it takes seconds
    rows = []
    for name, mechanism in mechanisms().items():
        for moved in (SHORT_WAY, LONG_WAY):
            group = mechanism.curve(ALPHA, TableDistance(replaced=moved.shifted_rows))
            rows.append(
                {
                    "mechanism": name,
                    "tau": moved.shift_l12,
                    "rows": moved.shifted_rows,
                    "printed_rdp": printed_rdp(name),
                    "rdp": mechanism.curve(ALPHA, NEIGHBOURS),
                    "printed_srdp": printed(name, moved),
                    "srdp": mechanism.curve(ALPHA, moved),
                    "group": group,
                }
            )
    our_noise = brentq(
        lambda s: iterated(s).curve(ALPHA, NEIGHBOURS) - ALPHA * EPSILON**2 / 2, 1.0, 1e4
    )
    return {
        "alpha": ALPHA,
        "epsilon": EPSILON,
        "n": N,
        "entries": rows,
        # Theorem 13 has alpha epsilon^2 / 2. A gradient that turns from 1 to -1 gives four times.
        "gd_theorem": ALPHA * EPSILON**2 / 2,
        "gd_pair": ALPHA * STEPS * (2 / N) ** 2 / (2 * STEPS / (EPSILON * N) ** 2),
        "sampled_least_c": {f"{a:g}": least_constant(a) for a in (1.1, 2.0, ALPHA)},
        "iterated_noise": our_noise / iterated_sigma(),
        "iterated_without_square": printed("DP-SGD (iteration)", SHORT_WAY) / EPSILON**2,
    }


def tables(results: Results) -> list[str]:
    header = ("mechanism", "movement", "RDP, printed", "RDP, ours", "smooth RDP, printed",
              "smooth RDP, ours", "group privacy")  # fmt: skip
    rows = []
    for e in results["entries"]:
        first = e["rows"] == results["entries"][0]["rows"]
        rdp = (e["printed_rdp"], e["rdp"]) if first else ("", "")
        movement = f"τ = {e['tau']:g} over {e['rows']} rows"
        rows.append(
            (
                e["mechanism"] if first else "",
                movement,
                *rdp,
                e["printed_srdp"],
                e["srdp"],
                e["group"],
            )
        )
    checks = markdown(
        ("entry", "printed", "found"),
        [
            ("DP-GD, Theorem 13: RDP", results["gd_theorem"],
             f"{results['gd_pair']:.4g}, by a pair"),
            ("DP-SGD (sample): c in σ = c L √T / (ε n)", "Ω(1)",
             ", ".join(f"{c:.3g} at α = {a}" for a, c in results["sampled_least_c"].items())
             + ", at least, by a pair"),
            ("DP-SGD (iteration): σ for the printed RDP", "1",
             f"{results['iterated_noise']:.3g} times that, by our proof"),
        ],
    )  # fmt: skip
    return [markdown(header, rows), checks]


if __name__ == "__main__":
    run(__file__, measure, tables)
