"""Vector-valued answers with discrete noise: real ones on a public grid, and counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Event, RDPEvent
from missdp.errors import ParameterError
from missdp.mechanisms.movement import (
    above,
    distance,
    gaussian_exceeds,
    laplace_exceeds,
    too_far,
)
from missdp.mechanisms.noise import NoiseSource
from missdp.mechanisms.release import add_noise

__all__ = [
    "NoiseKind",
    "VectorNoise",
    "check_kind",
    "gaussian_slack",
    "laplace_slack",
    "noisy_gaussian",
    "noisy_laplace",
    "sum_slack",
]

FloatArray = NDArray[np.float64]
NoiseKind = Literal["gaussian", "laplace"]
_FINENESS = 2**20  # Grid cells per standard deviation (or scale) of the noise.
# Rounding two values to the grid moves their difference by at most one cell per coordinate; the
# rest is room for the floating-point error of a few operations (of sums: see `sum_slack`).
_CELLS = 1 + 2**-10
_LARGEST = 2.0**61


@dataclass(frozen=True)
class VectorNoise:
    """The law of a noisy vector, with how far one replaced row can move what is exact.

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
    scale : float
        Standard deviation, or Laplace scale, of the noise on each coordinate; above 0.
    sensitivity : float
        Bound on the distance of the exact vectors of two neighbouring tables, whatever happens to
        rows on the way: in Euclidean norm for Gaussian noise, in L1 norm for Laplace noise.
    whole : bool, default False
        Whether the vector holds whole numbers. They get whole noise, other numbers are rounded to
        a grid first (see `noisy_gaussian`).

    Examples
    --------
    >>> from missdp.mechanisms import SecureNoise
    >>> law = VectorNoise("laplace", 4.0, sensitivity=2.0, whole=True)
    >>> law.draw(np.array([5, 7]), SecureNoise()).shape
    (2,)
    """

    kind: NoiseKind
    scale: float
    sensitivity: float
    whole: bool = False

    def __post_init__(self) -> None:
        check_kind(self.kind)
        if not (0 < self.scale < math.inf and 0 <= self.sensitivity < math.inf):
            raise ParameterError("scale and sensitivity must be finite, scale above 0")

    def slack(self, dimension: int) -> float:
        """Return what rounding adds to sensitivity / scale."""
        if self.whole:
            return 0.0
        return gaussian_slack(dimension) if self.kind == "gaussian" else laplace_slack(dimension)

    def draw(self, exact: NDArray[Any], source: NoiseSource) -> NDArray[Any]:
        """Return the vector plus noise."""
        if self.whole:
            return add_noise(exact, self.kind, self.scale, source)
        add = noisy_gaussian if self.kind == "gaussian" else noisy_laplace
        return add(exact, self.scale, source)

    def exceeds(self, event: Event, exact: NDArray[Any], other: NDArray[Any]) -> str | None:
        """Return why an event does not pay: the vector moves too far, or the noise is too small.

        The noise is compared with what is charged as pure epsilon or as rho. A Rényi curve may
        count on samples of the rows, too: there the declared sensitivity alone is checked.
        """
        moved = distance(exact, other, 1 if self.kind == "laplace" else 2)
        if above(moved, self.sensitivity):
            return too_far(moved, self.sensitivity)
        if isinstance(event, RDPEvent):
            return None
        exceeds = laplace_exceeds if self.kind == "laplace" else gaussian_exceeds
        return exceeds(event, moved, self.scale)

    def log_ratio(self, answer: NDArray[Any], exact: NDArray[Any], other: NDArray[Any]) -> float:
        """Return the log of the probability of an answer given one vector over that given another.

        Examples
        --------
        >>> law = VectorNoise("gaussian", 2.0, sensitivity=1.0)
        >>> law.log_ratio(np.array([1.0]), np.array([1.0]), np.array([0.0]))
        0.125
        """
        cell = 1.0 if self.whole else self.scale / _FINENESS
        k, a, b = (_cells(v, cell).astype(np.float64) for v in (answer, exact, other))
        scale = self.scale / cell
        if self.kind == "laplace":
            return float((np.abs(k - b) - np.abs(k - a)).sum() / scale)
        return float(((a - b) * (2 * k - a - b)).sum() / (2 * scale**2))


def check_kind(kind: Any) -> None:
    """Refuse noise that is neither Gaussian nor Laplace."""
    if kind not in get_args(NoiseKind):
        raise ParameterError("mechanism must be 'gaussian' or 'laplace'")


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


def sum_slack(rows: int, multiplier: float) -> float:
    """Return what adding up in floating point adds to shift / scale, for a mean over ``rows`` rows.

    Neighbours' sums are rounded differently, behind the row that was replaced too (Casacuberta et
    al. 2022). In whatever order m vectors of norm at most L are added up, their mean is off by at
    most m 2^-53 L, but for a relative m 2^-53, in Euclidean norm; in L1 norm by sqrt(d) times that.
    The noise is ``multiplier`` times the sensitivity, 2 L / m (or sqrt(d) times that).

    Examples
    --------
    >>> sum_slack(10_000, 10.0) < 1e-8
    True
    """
    return rows * (rows + 16) * 2.0**-53 / multiplier


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
