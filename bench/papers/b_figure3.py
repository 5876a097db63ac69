"""Figure 3 of Hu, Sanyal & Schölkopf (2024), with sound accounting, and by their recipe.

The table is make_classification with 1000 rows, 6000 columns of rank 50. *Sound*: private logistic
regression by DP-GD inside the ball of radius B, at a total (epsilon, 1e-5), replace-one:

* no preprocessing: all 6000 columns.
* priced PCA: a rank-50 projection fitted without noise. This library prices the pipeline.
* DP-PCA: half of the (zCDP) budget on a noisy second-moment matrix, then 50 coordinates.
* unpriced PCA: the accounting ignores the projection. The claimed epsilon is NOT a guarantee.

Radius and eigen-gap are declared from a second, "public" draw of the generator. Rows are scaled to
the unit ball, where the rank-50 eigen-gap is about 0.0008. With 1000 rows, the bound lets one row
turn the projection by any angle. For rows of norm R, appendix F.2 prints a movement of 12 R /
(n gap). In the rows' units, the movement is 12 R^3 / (n gap). The printed movement needs the gap of
rows scaled by 1 / R.

*By their recipe* (appendix F.1, since their code was not public at the time of writing): DP-SGD on
unscaled rows (norms about 2000), step 0.01, gradients clipped at 10, 10 epochs. Batches of 64 are
our choice. PCA is charged as their Theorem 17 (iii) prints it, with the gap in the rows' units, or
not at all. Both charges are no guarantee. One table has exact rank, and the other 5950 columns of
the second table are noise.

The noise is seeded NumPy noise, for a picture and not for a release. The script writes
docs/img/papers-b-figure3.svg.

Run: python bench/papers/b_figure3.py        (2 minutes, or 4 seconds with --short)
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from _tables import Results, markdown, run, save_figure
from matplotlib.figure import Figure
from scipy.optimize import brentq, minimize
from scipy.special import expit
from sklearn.datasets import make_classification

from missdp.accounting import SampledGaussianEvent, epsilon_of, zcdp_rho
from missdp.pricing import (
    FailedTest,
    PCARankReducer,
    PricedPipeline,
    PrivateLogisticRegression,
    RowClipper,
    calibrate,
    price,
    propose_test_release,
)

DELTA, BATCH, EPOCHS, STEP, CLIP = 1e-5, 64, 10, 0.01, 10.0
MODEL = PrivateLogisticRegression(
    noise_multiplier=1.0, coefficient_norm=5.0, n_iter=50, learning_rate=4.0, fit_intercept=False
)
NAMES = ("no preprocessing", "priced PCA", "DP-PCA", "unpriced PCA (no guarantee)")
CLAIMS = ("no preprocessing", "PCA, charged as printed", "PCA, not charged")


@dataclass(frozen=True)
class Shape:
    """Rows, columns and rank of the table, epsilons, and the number of repeats of each fit."""

    rows: int
    columns: int
    rank: int
    epsilons: tuple[float, ...]
    recipe_epsilons: tuple[float, ...]
    repeats: int


THEIRS = Shape(1000, 6000, 50, (0.5, 1.0, 2.0, 5.0, 10.0), (1.0, 2.0, 5.0), 3)
SMALL = Shape(400, 300, 10, (5.0,), (5.0,), 1)
Labelled = tuple[np.ndarray, np.ndarray]


@lru_cache(maxsize=4)
def draw_rows(shape: Shape, seed: int, *, noise: bool = False) -> Labelled:
    """Draw a table. Columns beyond the rank are combinations of the others, or noise."""
    return make_classification(
        n_samples=shape.rows, n_features=shape.columns, n_informative=shape.rank,
        n_redundant=0 if noise else shape.columns - shape.rank,
        n_clusters_per_class=1, random_state=seed,
    )  # fmt: skip


def loss(theta: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.logaddexp(0.0, -np.where(y == 1, 1.0, -1.0) * (X @ theta)).mean())


def accuracy(theta: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    return float(((X @ theta > 0) == (y == 1)).mean())


def best_loss(X: np.ndarray, y: np.ndarray, rank: int) -> float:
    """Smallest loss in the ball, found in the coordinates that the rows span."""
    Z = X @ np.linalg.svd(X, full_matrices=False)[2][:rank].T
    s = np.where(y == 1, 1.0, -1.0)

    def objective(t: np.ndarray) -> tuple[float, np.ndarray]:
        return loss(t, Z, y), -(Z.T @ (s * expit(-s * (Z @ t)))) / len(y)

    bound = MODEL.coefficient_norm
    minimum = minimize(
        objective, np.zeros(rank), jac=True, method="SLSQP",
        constraints={"type": "ineq", "fun": lambda t: bound**2 - t @ t},
    )  # fmt: skip
    return float(minimum.fun)


# --- Sound accounting.


@dataclass(frozen=True)
class Sound:
    """The table in the unit ball, and the PCA step with the gap that a second draw declares."""

    X: np.ndarray
    y: np.ndarray
    pca: PCARankReducer
    radius: float

    @classmethod
    def make(cls, shape: Shape) -> Sound:
        X, y = draw_rows(shape, 1)
        pilot = draw_rows(shape, 2)[0]
        radius = float(np.linalg.norm(pilot, axis=1).max())
        spectrum = np.linalg.svd(pilot / radius, compute_uv=False) ** 2 / shape.rows
        gap = 0.5 * float(spectrum[shape.rank - 1] - spectrum[shape.rank])
        pca = PCARankReducer(n_components=shape.rank, min_gap=gap, moment="second")
        return cls(RowClipper(radius=1.0).fit_transform(X / radius), y, pca, radius)

    def pipeline(self, steps: list, seed: int = 0) -> PricedPipeline:
        rows, columns = self.X.shape
        return PricedPipeline(
            steps, MODEL, rows=rows, columns=columns, delta=DELTA, random_state=seed
        )

    def learned(self, steps: list, epsilon: float, seed: int, X: np.ndarray) -> np.ndarray:
        priced = calibrate(self.pipeline(steps), epsilon).set_params(random_state=seed)
        return priced.fit(X, self.y).estimator_.coef_


def subspace(X: np.ndarray, rank: int, rho: float, rng: np.random.Generator) -> np.ndarray:
    """Basis of the top of the second moment with Gaussian noise (Analyze Gauss), released."""
    rows, columns = X.shape
    sigma = math.sqrt(2) / rows / math.sqrt(2 * rho)
    noise = rng.standard_normal((columns, columns), dtype=np.float32)
    noise = np.triu(noise) + np.triu(noise, 1).T
    # Off-diagonal entries count twice in the Frobenius norm, so their noise is smaller.
    noise *= sigma / math.sqrt(2)
    noise[np.diag_indices(columns)] *= math.sqrt(2)
    noise += (X.T.astype(np.float32) @ X.astype(np.float32)) / rows
    basis = np.linalg.qr(rng.standard_normal((columns, rank + 10)).astype(np.float32))[0]
    for _ in range(8):  # Subspace iteration on a released matrix: post-processing.
        basis = np.linalg.qr(noise @ basis)[0]
    return basis[:, :rank].astype(np.float64)


def dp_pca(sound: Sound, epsilon: float, seed: int) -> np.ndarray:
    rho = zcdp_rho(epsilon, DELTA)
    basis = subspace(sound.X, sound.pca.n_components, rho / 2, np.random.default_rng(seed))
    half = PrivateLogisticRegression(**{**MODEL.get_params(), "random_state": seed})
    # T steps of relative noise z cost T / (2 z^2).
    half.noise_multiplier = math.sqrt(half.n_iter / rho)
    return basis @ half.set_params(radius=1.0).fit(sound.X @ basis, sound.y).coef_


def soundly(shape: Shape) -> Results:
    sound = Sound.make(shape)
    smallest = best_loss(sound.X, sound.y, shape.rank)
    reduced = sound.pca.fit_transform(sound.X)
    learn: dict[str, Callable[[float, int], np.ndarray]] = {
        "no preprocessing": lambda e, s: sound.learned([], e, s, sound.X),
        "priced PCA": lambda e, s: sound.learned([("pca", sound.pca)], e, s, sound.X),
        "DP-PCA": lambda e, s: dp_pca(sound, e, s),
        "unpriced PCA (no guarantee)": lambda e, s: sound.learned([], e, s, reduced),
    }
    rows = []
    for epsilon in shape.epsilons:
        for name in NAMES:
            thetas = [learn[name](epsilon, seed) for seed in range(shape.repeats)]
            lost = [loss(t, sound.X, sound.y) - smallest for t in thetas]
            right = float(np.mean([accuracy(t, sound.X, sound.y) for t in thetas]))
            rows.append(
                {"epsilon": epsilon, "method": name, "loss": float(np.mean(lost)),
                 "spread": float(np.std(lost)), "accuracy": right}
            )  # fmt: skip
    pipeline = sound.pipeline([("pca", sound.pca)])
    with warnings.catch_warnings(action="ignore"):  # the epsilon of a refused release is huge
        outcome = propose_test_release(pipeline, sound.X, sound.y, test_epsilon=0.5)
    return {
        "gap": sound.pca.min_gap,
        "radius": sound.radius,
        "least_loss": smallest,
        "turns_by": price(pipeline).steps[0].movement,
        "propose_test_release": "refused" if isinstance(outcome, FailedTest) else "released",
        "runs": rows,
    }


# --- By the printed recipe.


@lru_cache(maxsize=64)
def noise_multiplier(epsilon: float, rows: int) -> float:
    def over(z: float) -> float:
        event = SampledGaussianEvent(
            rate=BATCH / rows, noise_multiplier=z, steps=EPOCHS * rows // BATCH
        )
        return epsilon_of([event], DELTA) - epsilon

    return brentq(over, 0.3, 3000.0, xtol=1e-2)


def sgd(X: np.ndarray, y: np.ndarray, noise: float, seed: int) -> np.ndarray:
    """DP-SGD with Poisson samples, as Opacus does it."""
    rng, s, theta = np.random.default_rng(seed), np.where(y == 1, 1.0, -1.0), np.zeros(X.shape[1])
    norms = np.linalg.norm(X, axis=1)
    for _ in range(EPOCHS * len(y) // BATCH):
        i = np.flatnonzero(rng.random(len(y)) < BATCH / len(y))
        factor = -s[i] * expit(-s[i] * (X[i] @ theta))
        factor *= np.minimum(1.0, CLIP / np.maximum(np.abs(factor) * norms[i], 1e-300))
        total = factor @ X[i] + noise * CLIP * rng.standard_normal(X.shape[1])
        theta -= STEP * total / BATCH
    return theta


def projected(X: np.ndarray, rank: int) -> tuple[np.ndarray, float]:
    """Rows in the span of the top components, and the eigen-gap there, both without noise."""
    _, values, directions = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    spectrum = values**2 / (len(X) - 1)
    top = directions[:rank]
    return (X @ top.T) @ top, float(spectrum[rank - 1] - spectrum[rank])


def printed_factor(gap: float, alpha: float = 11.0) -> float:
    """Factor of epsilon in Theorem 17 (iii), for PCA before sampled DP-SGD."""
    return math.sqrt(1.05 * (2 * alpha + 12.2**2 / gap**2) / (alpha / 2))


def by_recipe(shape: Shape) -> list[Results]:
    rows = []
    for noise in (False, True):
        X, y = draw_rows(shape, 1, noise=noise)
        P, gap = projected(X, shape.rank)
        for epsilon in shape.recipe_epsilons:
            charged = epsilon / printed_factor(gap)
            for name, Z, spent in zip(CLAIMS, (X, P, P), (epsilon, charged, epsilon), strict=True):
                z = noise_multiplier(spent, shape.rows)
                thetas = [sgd(Z, y, z, seed) for seed in range(shape.repeats)]
                rows.append(
                    {"columns": "noise" if noise else "combinations", "gap": gap,
                     "factor": printed_factor(gap), "epsilon": epsilon, "method": name,
                     "loss": float(np.mean([loss(t, Z, y) for t in thetas])),
                     "accuracy": float(np.mean([accuracy(t, Z, y) for t in thetas]))}
                )  # fmt: skip
    return rows


def measure(short: bool) -> Results:
    shape = SMALL if short else THEIRS
    return {"sound": soundly(shape), "recipe": by_recipe(shape)}


def tables(results: Results) -> list[str]:
    runs = {(r["epsilon"], r["method"]): r for r in results["sound"]["runs"]}
    epsilons = sorted({epsilon for epsilon, _ in runs})
    sound = [
        (f"{e:g}", *(f"{runs[e, n]['loss']:.3f} ({runs[e, n]['accuracy']:.2f})" for n in NAMES))
        for e in epsilons
    ]
    claimed = {(r["columns"], r["epsilon"], r["method"]): r for r in results["recipe"]}
    recipe = []
    for columns, epsilon in dict.fromkeys(key[:2] for key in claimed):
        cells = (claimed[columns, epsilon, name] for name in CLAIMS)
        shown = (f"{r['loss']:.2f} ({r['accuracy']:.2f})" for r in cells)
        recipe.append((columns, f"{epsilon:g}", *shown))
    return [
        markdown(("epsilon", *NAMES), sound),
        markdown(("other columns", "epsilon", *CLAIMS), recipe),
    ]


def draw(results: Results) -> None:
    figure = Figure(figsize=(5.2, 3.6), layout="constrained")
    axes = figure.subplots()
    for name, style in zip(NAMES, ("-", "--", "-.", ":"), strict=True):
        runs = [r for r in results["sound"]["runs"] if r["method"] == name]
        x, mean, spread = ([r[key] for r in runs] for key in ("epsilon", "loss", "spread"))
        axes.errorbar(x, mean, spread, fmt=style, label=name, capsize=2)
    axes.set(xscale="log", xlabel="epsilon of the whole", ylabel="excess empirical loss")
    axes.legend(frameon=False, fontsize=8)
    save_figure(figure, "papers-b-figure3")


if __name__ == "__main__":
    run(__file__, measure, tables, draw)
