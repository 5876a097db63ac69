"""Events that coincide: a Gaussian copula, fitted to how often pairs of them do.

Each event has a chance of its own, and a latent normal variable that says whether it happens; the
variables of two events are correlated where the two coincide more or less often than by chance.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["coincidence_evidence", "coincident", "fit_correlation", "latent_uniforms"]

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
    return np.asarray(latent_uniforms(len(chances), correlation, rng) < chances)


def latent_uniforms(n: int, correlation: Floats, rng: np.random.Generator) -> Floats:
    """Draw uniform numbers whose normal quantiles are correlated, one column per event."""
    from scipy.special import ndtr

    if np.array_equal(correlation, np.eye(len(correlation))):
        return rng.random((n, len(correlation)))
    latent = rng.standard_normal((n, len(correlation))) @ np.linalg.cholesky(correlation).T
    return np.asarray(ndtr(latent))


def coincidence_evidence(count: float, std: float, alone: float, n_rows: float) -> float:
    """Return by how many standard deviations two events coincide more often than they would alone.

    Parameters
    ----------
    count, std : float
        Released number of rows with both, and its noise.
    alone : float
        Share of the rows with both, if neither said anything of the other.
    n_rows : float
        Released number of rows.

    Examples
    --------
    >>> coincidence_evidence(300.0, 5.0, 0.2, 1000.0) > 3, coincidence_evidence(190, 5, 0.2, 1000)
    (True, -0.73...)
    """
    expected = n_rows * alone
    return float((count - expected) / np.sqrt(std**2 + expected * (1 - alone)))


def fit_correlation(
    chances: Floats,
    both: Mapping[tuple[int, int], tuple[float, float]],
    n_rows: float,
    *,
    explained: Collection[tuple[int, int]] = (),
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
    explained : collection of (a, b)
        Pairs whose coincidence has another reason; they are left uncorrelated.

    Returns
    -------
    ndarray, shape (d, d)
        Pairs without a released table get the correlation of the strongest chain of pairs with
        one; the result is moved to the nearest positive definite matrix by its eigenvalues.
    """
    from scipy.special import ndtri

    size = chances.shape[1]
    correlation, known = np.eye(size), np.eye(size, dtype=bool)
    rows = chances[:: max(1, len(chances) // _ROWS)]
    quantiles = ndtri(np.clip(rows, 1e-12, 1 - 1e-12))
    for (a, b), (count, std) in both.items():
        alone = float((rows[:, a] * rows[:, b]).mean())
        known[a, b] = known[b, a] = True
        evidence = coincidence_evidence(count, std, alone, n_rows)
        if abs(evidence) > _COINCIDENCE and not {(a, b), (b, a)} & set(explained):
            found = _latent(quantiles[:, a], quantiles[:, b], alone, count / n_rows)
            correlation[a, b] = correlation[b, a] = found
    return _positive(_completed(correlation, known))


def _latent(h: Floats, k: Floats, alone: float, target: float) -> float:
    """Solve E[Φ₂(h, k; ρ)] = target for ρ, along ρ = sin θ (Drezner and Wesolowsky 1990)."""
    from scipy.integrate import cumulative_trapezoid

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
    return np.asarray(mended / np.sqrt(np.outer(np.diag(mended), np.diag(mended))))
