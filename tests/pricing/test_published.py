"""Regression: entries of Hu, Sanyal & Schölkopf (2024), Table 2, that follow from its theorems."""

from __future__ import annotations

import importlib
import math
from functools import partial
from pathlib import Path

import pytest

from missdp.pricing import (
    NEIGHBOURS,
    MeanImputer,
    PCARankReducer,
    PricedPipeline,
    PrivateMean,
    RowDomain,
    TableDistance,
    bounds,
)
from missdp.pricing.chain import theorem_two
from missdp.pricing.maps import ExponentialMap, GaussianMap, LaplaceMap, Sensitivity

N, P, ETA, GAP, EPSILON = 1000, 20, 0.01, 0.25, 0.3
UNIT = Sensitivity(replaced=1.0, l12=1.0)
TAUS = {
    "deduplication": P,
    "quantisation": ETA * P,
    "mean imputation": 2 * P / (N - P),
    "PCA": 12.2 / GAP,
}
PRINTED_GAUSSIAN = {
    "deduplication": 1 + P**2,
    "quantisation": 1 + ETA**2 * P**2,
    "mean imputation": 1 + 4 * P**2 / (N - P) ** 2,
    "PCA": 1 + 12.2**2 / GAP**2,
}


def movement(tau):
    return TableDistance(replaced=1, moved_rows=N - 1, moved_l12=tau)


@pytest.mark.parametrize("step", TAUS)
@pytest.mark.parametrize("alpha", [11.0, 20.0, 50.0])
def test_gaussian_and_gradient_descent_rows(step, alpha):
    """1.05 alpha e^2 (1 + tau^2) and 1.05 alpha e^2 (4 + tau^2): Theorem 2 at c = 2, rounded up."""
    moved = movement(TAUS[step])
    gaussian = GaussianMap(sensitivity=UNIT, sigma=1 / EPSILON)
    descent = GaussianMap(
        sensitivity=Sensitivity(replaced=2 / N, l12=1 / N),
        sigma=math.sqrt(7) / (EPSILON * N),
        steps=7,
    )
    for mechanism, printed in (
        (gaussian, PRINTED_GAUSSIAN[step]),
        (descent, PRINTED_GAUSSIAN[step] + 3),
    ):
        entry = 1.05 * alpha * EPSILON**2 * printed
        exact = 1.05 * (
            mechanism.replaced_curve(2 * alpha, 1) + mechanism.moved_curve(2 * alpha, moved)
        )
        assert entry == pytest.approx(exact, rel=1e-9)
        curves = (
            partial(mechanism.replaced_curve, replaced=1),
            partial(mechanism.moved_curve, distance=moved),
        )
        assert theorem_two(alpha, *curves) <= theorem_two(alpha, *curves, c=2.0) <= entry
        assert mechanism.curve(alpha, moved) <= theorem_two(alpha, *curves) * (1 + 1e-9)


@pytest.mark.parametrize("step", TAUS)
def test_laplace_and_exponential_rows(step):
    """epsilon (1 + tau), pure."""
    for mechanism in (
        LaplaceMap(sensitivity=UNIT, scale=1 / EPSILON),
        ExponentialMap(sensitivity=UNIT, epsilon=EPSILON),
    ):
        best = bounds(mechanism, movement(TAUS[step]), 0.0)[0]
        assert best.epsilon == pytest.approx(EPSILON * (1 + TAUS[step]))
        assert best.name == "direct"


def test_constants_of_the_sensitivities():
    assert pytest.approx(12.2) == 4 * (3 * 101 + 2) / 100
    holes = RowDomain(rows=N, columns=1, complete=False)
    step = MeanImputer(max_incomplete=P, cells_per_row=1)
    assert step.stability(NEIGHBOURS, holes).moved_l12 == pytest.approx(TAUS["mean imputation"])
    ours = PCARankReducer(n_components=1, least_gap=GAP)
    tau = ours.stability(NEIGHBOURS, RowDomain(rows=N, columns=3)).moved_l12
    assert tau == pytest.approx(3 * math.sqrt(3) / 2 / GAP * (N - 1) / N)


def test_the_printed_scaling_entry_forgets_a_square():
    """Table 2 prints 1 + 4 / s^3 for the Gaussian mechanism; its proof gives 1 + (4 / s^3)^2."""
    s, alpha = 0.5, 11.0
    gaussian = GaussianMap(sensitivity=UNIT, sigma=1 / EPSILON)
    printed = 1.05 * alpha * EPSILON**2 * (1 + 4 / s**3)
    truth = gaussian.curve(alpha, movement(2 / s**3 + 2 / s))  # Its own sensitivity, attainable.
    assert truth > 2 * printed


def test_the_printed_comparison_and_what_the_shipped_mean_pays(monkeypatch):
    """Figures of the documentation: a query as Lipschitz as it is sensitive, and the mean."""
    root = Path(__file__).parents[2]
    monkeypatch.syspath_prepend(str(root / "bench" / "papers"))
    bench, document = importlib.import_module("b_table2"), root / "docs" / "papers-prices.md"
    steps, unit = {s.name: s for s in bench.steps()}, bench.mechanisms()["Gaussian"]
    assert unit.sensitivity == Sensitivity(replaced=1.0, l12=1.0, frobenius=1.0)
    text = document.read_text(encoding="utf-8")
    for name, ours in (("PCA (rank)", 1.355), ("mean imputation", 1.018)):
        found = bench.factors("Gaussian", unit, steps[name])
        assert found[-1] == pytest.approx(ours, rel=1e-3)
        cells = " | ".join(f"{cell:.4g}" for cell in found)
        assert f"| Gaussian | {name} | {cells} |" in text
    for name, step in steps.items():
        means = bench.shipped(2 if name.startswith("PCA") else 1).values()
        cells = " | ".join(f"{bench.paid(mean, step):.4g}" for mean in means)
        assert f"| {name} | {cells} |" in text
    gaussian = bench.shipped(2)["mean, Gaussian noise"]
    assert bench.paid(gaussian, steps["PCA (rank)"]) == pytest.approx(12.93, rel=1e-3)
    assert bench.paid(gaussian, steps["mean imputation"]) == pytest.approx(1.041, rel=1e-3)
    loose = TableDistance(replaced=1, moved_rows=N - 1, moved_max=4 / (N * bench.GAP))
    assert gaussian.rho(loose) / gaussian.rho(NEIGHBOURS) == pytest.approx(24.96, rel=1e-3)
    alone = PrivateMean(noise_multiplier=1 / bench.EPSILON)
    priced = PricedPipeline(
        [("pca", PCARankReducer(n_components=1, least_gap=bench.GAP))], alone,
        rows=N, columns=2,
    )  # fmt: skip
    assert priced.bounds()[0].event.rho == pytest.approx(12.93 * gaussian.rho(NEIGHBOURS), rel=1e-3)
