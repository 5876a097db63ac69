"""Which holes coincide: a Gaussian copula over the mask model.

The mask model says how likely each cell is missing given the row, one attribute at a time.  In real
tables holes come together (a questionnaire is left half-way).  Released pair tables count rows with
both cells missing; where that differs from independence given the row by more than noise, a latent
correlation makes up for it.  Margins of the mask model are not touched, so nothing else is.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import cumulative_trapezoid
from scipy.special import ndtr, ndtri

__all__ = ["coincident", "fit_correlation"]

Floats = NDArray[np.float64]

_COINCIDENCE = 3.0  # standard deviations
_LARGEST = 0.99  # correlation
_ROWS = 1000  # rows of the model that expectations are taken over
_NODES = 129
_LEAST_EIGENVALUE = 1e-6


def coincident(chances: Floats, correlation: Floats, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw events with given chances whose latent normal variables are correlated.

    Parameters
    ----------
    chances : ndarray, shape (n, d)
        Probability of each event.
    correlation : ndarray, shape (d, d)
        Positive definite, ones on the diagonal.
    rng : numpy Generator

    Returns
    -------
    ndarray of bool, shape (n, d)

    Examples
    --------
    >>> chances = np.full((4000, 2), 0.2)
    >>> both = coincident(chances, np.array([[1, 0.9], [0.9, 1]]), np.random.default_rng(0))
    >>> bool(both.all(axis=1).mean() > 0.1), bool(abs(both.mean() - 0.2) < 0.02)
    (True, True)
    """
    if np.array_equal(correlation, np.eye(len(correlation))):
        return np.asarray(rng.random(chances.shape) < chances)
    latent = rng.standard_normal(chances.shape) @ np.linalg.cholesky(correlation).T
    return np.asarray(ndtr(latent) < chances)


def fit_correlation(
    chances: Floats, both: Mapping[tuple[int, int], tuple[float, float]], n_rows: float
) -> Floats:
    """Find latent correlations under which pairs of holes coincide as often as released.

    Parameters
    ----------
    chances : ndarray, shape (n, d)
        Probability that each cell is missing, on rows of the complete-data model.
    both : mapping of (a, b) to (count, std)
        Released number of rows with both cells missing, and its noise.
    n_rows : float
        Released number of rows.

    Returns
    -------
    ndarray, shape (d, d)
        Pairs without a released table get the correlation of the strongest chain of pairs with
        one; the result is moved to the nearest positive definite matrix by its eigenvalues.
    """
    size = chances.shape[1]
    correlation, known = np.eye(size), np.eye(size, dtype=bool)
    rows = chances[:: max(1, len(chances) // _ROWS)]
    quantiles = ndtri(np.clip(rows, 1e-12, 1 - 1e-12))
    for (a, b), (count, std) in both.items():
        alone = float((rows[:, a] * rows[:, b]).mean())
        chance = n_rows * alone * (1 - alone)
        known[a, b] = known[b, a] = True
        if abs(count - n_rows * alone) > _COINCIDENCE * np.sqrt(std**2 + chance):
            found = _latent(quantiles[:, a], quantiles[:, b], alone, count / n_rows)
            correlation[a, b] = correlation[b, a] = found
    return _positive(_completed(correlation, known))


def _latent(h: Floats, k: Floats, alone: float, target: float) -> float:
    """Solve E[Φ₂(h, k; ρ)] = target for ρ, along ρ = sin θ (Drezner and Wesolowsky 1990)."""
    theta = np.linspace(-np.arcsin(_LARGEST), np.arcsin(_LARGEST), _NODES)[:, np.newaxis]
    exponent = (h**2 + k**2 - 2 * h * k * np.sin(theta)) / (2 * np.cos(theta) ** 2)
    density = np.exp(-exponent).mean(axis=1) / (2 * np.pi)
    grown = cumulative_trapezoid(density, theta[:, 0], initial=0.0)
    rates = alone + grown - grown[_NODES // 2]
    return float(np.sin(np.interp(target, rates, theta[:, 0])))


def _completed(correlation: Floats, known: NDArray[np.bool_]) -> Floats:
    """Fill unknown pairs with the largest product along a chain of pairs."""
    filled = correlation.copy()
    for via in range(len(filled)):
        chain = np.outer(filled[:, via], filled[via])
        better = ~known & (np.abs(chain) > np.abs(filled))
        filled = np.where(better, chain, filled)
    return filled


def _positive(correlation: Floats) -> Floats:
    values, vectors = np.linalg.eigh(correlation)
    if values[0] >= _LEAST_EIGENVALUE:
        return correlation
    mended = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
    scale = np.sqrt(np.diag(mended))
    return np.asarray(mended / np.outer(scale, scale))
