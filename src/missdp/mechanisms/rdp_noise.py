"""Real-valued queries with discrete noise on a public grid."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from missdp.mechanisms.noise import NoiseSource

__all__ = ["gaussian_slack", "laplace_slack", "noisy_gaussian", "noisy_laplace"]

FloatArray = NDArray[np.float64]
_FINENESS = 2**20  # Grid cells per standard deviation (or scale) of the noise.
# Rounding two values to the grid moves their difference by at most one cell per coordinate; the
# rest is room for the floating-point error of the query itself.
_CELLS = 1 + 2**-10
_LARGEST = 2.0**61


def gaussian_slack(dimension: int) -> float:
    """Return what rounding adds to shift / sigma, for a vector of ``dimension`` coordinates.

    Examples
    --------
    >>> gaussian_slack(100) < 1e-4
    True
    """
    return math.sqrt(dimension) * _CELLS / _FINENESS


def laplace_slack(dimension: int) -> float:
    """Return what rounding adds to shift / scale, for a vector of ``dimension`` coordinates."""
    return dimension * _CELLS / _FINENESS


def noisy_gaussian(values: FloatArray, sigma: float, noise: NoiseSource) -> FloatArray:
    """Round to a grid of sigma / 2**20 and add discrete Gaussian noise.

    Integers are noised and then rescaled, so no floating-point artefact of the private values
    survives. Guarantee: as `GaussianMap` with `gaussian_slack`.

    Parameters
    ----------
    values : ndarray
        Finite.
    sigma : float
        Standard deviation, above 0.
    noise : NoiseSource
        Where the noise comes from.

    Returns
    -------
    ndarray
        Of the same shape.

    Examples
    --------
    >>> from missdp.mechanisms.noise import SeededNoise
    >>> noisy_gaussian(np.zeros(3), 0.5, SeededNoise(0)).shape
    (3,)
    """
    cell = sigma / _FINENESS
    noisy = _cells(values, cell) + noise.discrete_gaussian(_FINENESS, values.shape)
    return noisy.astype(np.float64) * cell


def noisy_laplace(values: FloatArray, scale: float, noise: NoiseSource) -> FloatArray:
    """Round to a grid of scale / 2**20 and add discrete Laplace noise, as `noisy_gaussian`."""
    cell = scale / _FINENESS
    noisy = _cells(values, cell) + noise.discrete_laplace(_FINENESS, values.shape)
    return noisy.astype(np.float64) * cell


def _cells(values: FloatArray, cell: float) -> NDArray[np.int64]:
    """Return the values as whole numbers of cells; the sum with the noise is then exact."""
    cells = np.rint(np.asarray(values, dtype=np.float64) / cell)
    # Clipping is a contraction; only noise of 1e-12 of the values could get here.
    return np.clip(cells, -_LARGEST, _LARGEST).astype(np.int64)
