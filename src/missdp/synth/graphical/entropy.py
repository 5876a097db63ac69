"""Fit the maximum-entropy graphical model that agrees with noisy marginals.

Measured marginals ``y_r`` (proportions with noise of standard deviation ``s_r`` per cell) define
the log-linear model ``p(x) ∝ exp(Σ_r θ_r(x_r))``.  The fit minimises the strictly convex

    log Z(θ) − Σ_r ⟨θ_r, y_r⟩ + ½ Σ_r λ_r‖θ_r‖²,      λ_r = shrink · s_r,

the dual of maximum entropy with a quadratic allowance for the noise: at the optimum the residual
of each cell is ``y − μ = λθ``, a fraction ``shrink·θ`` of its noise.  ``shrink → 0`` gives the
least-squares fit of Private-PGM (McKenna, Sheldon and Miklau 2019); a positive value keeps the
model from chasing noise.  Parameters are held within ±30, odds that no table can tell from
certainty, and live on the measured marginals, whatever the junction tree is, so the next fit
starts from the last one even after a new clique changed the tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from missdp.synth.graphical.beliefs import Calibrated, calibrate, spread
from missdp.synth.graphical.junction import Clique, JunctionTree

__all__ = ["Parameters", "Target", "fit_entropy", "log_linear"]

Floats = NDArray[np.float64]
Parameters = dict[Clique, Floats]

_LARGEST = 30.0  # bound on a parameter: no step of the optimiser may over- or underflow a message


@dataclass(frozen=True)
class Target:
    """A noisy marginal, in proportions.

    Parameters
    ----------
    clique : Clique
        Sorted attribute positions.
    values : ndarray
        Noisy proportions, one axis per attribute; may be negative.
    std : float or ndarray
        Standard deviation of the noise of each cell, above 0.
    """

    clique: Clique
    values: Floats
    std: float | Floats


def log_linear(
    sizes: Sequence[int],
    parameters: Mapping[Clique, Floats],
    forbidden: Mapping[Clique, NDArray[np.bool_]] | None = None,
) -> tuple[Calibrated, float]:
    """Return the distribution ``exp(Σ θ) / Z`` and ``log Z``.

    Parameters
    ----------
    sizes : sequence of int
        Levels of each attribute.
    parameters : mapping of Clique to ndarray
        Log-potentials.
    forbidden : mapping of Clique to ndarray of bool, optional
        Cells (True) whose probability is exactly zero.

    Examples
    --------
    >>> model, log_z = log_linear([2, 3], {(0,): np.log([1.0, 3.0])})
    >>> model.marginal((0,)).round(2).tolist(), round(float(np.exp(log_z)), 6)
    ([0.25, 0.75], 12.0)
    """
    tree = JunctionTree.build(sizes, [*parameters, *(forbidden or {})])
    factors = [(_home(tree, c), c, t) for c, t in parameters.items()]
    return _propagate(tree, factors + _barriers(tree, forbidden))


def _barriers(
    tree: JunctionTree, forbidden: Mapping[Clique, NDArray[np.bool_]] | None
) -> list[tuple[int, Clique, Floats]]:
    return [
        (_home(tree, c), c, np.where(table, -np.inf, 0.0)) for c, table in (forbidden or {}).items()
    ]


def _home(tree: JunctionTree, clique: Clique) -> int:
    home = tree.home(clique)
    if home is None:  # pragma: no cover - every tree is built for the cliques it is asked about
        raise ValueError("the junction tree does not hold this clique")
    return home


def _propagate(
    tree: JunctionTree, factors: Sequence[tuple[int, Clique, Floats]]
) -> tuple[Calibrated, float]:
    # Parameters of overlapping cliques may be large and cancel, so they are added up before the
    # exponential is taken.
    potentials = [np.zeros(tree.shape(c)) for c in tree.cliques]
    for home, clique, theta in factors:
        potentials[home] += spread(theta, clique, tree.cliques[home])
    offset = 0.0
    for table in potentials:
        top = float(table.max())
        offset += top
        np.exp(np.subtract(table, top, out=table), out=table)
    model, log_z = calibrate(tree, potentials)
    return model, log_z + offset


def fit_entropy(
    sizes: Sequence[int],
    targets: Sequence[Target],
    *,
    shrink: float,
    iterations: int,
    start: Mapping[Clique, Floats] | None = None,
    forbidden: Mapping[Clique, NDArray[np.bool_]] | None = None,
) -> tuple[Calibrated, Parameters]:
    """Fit the regularised maximum-entropy model to noisy marginals.

    Parameters
    ----------
    sizes : sequence of int
        Levels of each attribute.
    targets : sequence of Target
        One per clique, at least one.
    shrink : float
        Above 0; see the module's text.  0.2 does well across data sets and budgets.
    iterations : int
        Most L-BFGS steps.
    start : mapping of Clique to ndarray, optional
        Parameters of an earlier fit; cliques it lacks start at zero.
    forbidden : mapping of Clique to ndarray of bool, optional
        Cells (True) whose probability is exactly zero.

    Returns
    -------
    (Calibrated, Parameters)

    Examples
    --------
    >>> target = Target((0,), np.array([0.25, 0.75]), 1e-6)
    >>> model, _ = fit_entropy([2, 2], [target], shrink=0.1, iterations=50)
    >>> model.marginal((0,)).round(4).tolist()
    [0.25, 0.75]
    """
    tree = JunctionTree.build(sizes, [*(t.clique for t in targets), *(forbidden or {})])
    homes = [_home(tree, t.clique) for t in targets]
    barriers = _barriers(tree, forbidden)
    spans = np.cumsum([0, *(t.values.size for t in targets)])
    y = np.concatenate([t.values.ravel() for t in targets])
    std = [np.broadcast_to(np.asarray(t.std, dtype=float), t.values.shape) for t in targets]
    allowance = shrink * np.concatenate([s.ravel() for s in std])
    # The Hessian's diagonal is about λ + μ(1 − μ): scaling by it treats rare and common alike.
    scale = 1.0 / np.sqrt(allowance + np.clip(y, 0.0, 0.5))
    begin = dict(start or {})
    theta0 = np.concatenate(
        [np.asarray(begin.get(t.clique, np.zeros(t.values.shape))).ravel() for t in targets]
    )

    def split(theta: Floats) -> list[Floats]:
        return [
            theta[spans[k] : spans[k + 1]].reshape(t.values.shape) for k, t in enumerate(targets)
        ]

    def model(theta: Floats) -> tuple[Calibrated, float]:
        cliques = [t.clique for t in targets]
        return _propagate(tree, [*zip(homes, cliques, split(theta), strict=True), *barriers])

    def objective(scaled: Floats) -> tuple[float, Floats]:
        theta = scaled * scale
        fitted, log_z = model(theta)
        parts = [fitted.local(i, t.clique).ravel() for t, i in zip(targets, homes, strict=True)]
        pull = allowance * theta
        value = log_z - float(theta @ y) + 0.5 * float(theta @ pull)
        return value, (np.concatenate(parts) - y + pull) * scale

    options = {"maxiter": iterations, "maxcor": 12, "gtol": 1e-9, "ftol": 0.0}
    bounds = Bounds(-_LARGEST / scale, _LARGEST / scale)
    found = minimize(
        objective, theta0 / scale, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    best = found.x * scale
    fitted, _ = model(best)
    return fitted, {t.clique: part for t, part in zip(targets, split(best), strict=True)}
