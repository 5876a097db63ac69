"""Built-in losses with their Lipschitz and smoothness constants."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from missdp.errors import ParameterError

__all__ = ["LogisticLoss", "Loss", "SquaredLoss"]

FloatArray = NDArray[np.float64]


class Loss(Protocol):
    """A convex loss of a linear model on bounded rows and bounded coefficients."""

    @property
    def radius(self) -> float:
        """Largest norm of a row that the constants hold for."""

    @property
    def coefficient_norm(self) -> float:
        """Largest norm of the coefficients that the constants hold for."""

    @property
    def lipschitz(self) -> float:
        """Largest norm of one row's gradient."""

    @property
    def smoothness(self) -> float:
        """How much one row's gradient stretches a movement of the row (label fixed)."""

    @property
    def curvature(self) -> float:
        """How much one row's gradient stretches a movement of the coefficients."""

    def gradients(self, theta: FloatArray, X: FloatArray, y: FloatArray) -> FloatArray:
        """Return the factor of each row in the gradient: row i's gradient is factor_i x_i."""


@dataclass(frozen=True, kw_only=True)
class LogisticLoss:
    """log(1 + exp(-y theta'x)) for labels -1 and 1.

    Parameters
    ----------
    radius : float
        Largest norm of a row, R.
    coefficient_norm : float
        Largest norm of the coefficients, B.

    Notes
    -----
    With t = y theta'x in [-RB, RB] and s = 1 / (1 + e^t) <= S = 1 / (1 + e^(-RB)), the gradient is
    -y s x: norm at most S R. Its derivative in x is -y s I + s (1 - s) x theta', of norm at most
    s + s (1 - s) R B, maximised over s in [0, S]. Its derivative in theta is at most R^2 / 4.

    Examples
    --------
    >>> loss = LogisticLoss(radius=1.0, coefficient_norm=1.0)
    >>> round(loss.lipschitz, 4), round(loss.smoothness, 4), loss.curvature
    (0.7311, 0.9277, 0.25)
    """

    radius: float
    coefficient_norm: float

    def __post_init__(self) -> None:
        _check(self.radius, self.coefficient_norm)

    @property
    def lipschitz(self) -> float:
        """Largest norm of one row's gradient."""
        return self.radius * _logistic(self.radius * self.coefficient_norm)

    @property
    def smoothness(self) -> float:
        """How much one row's gradient stretches a movement of the row."""
        a = self.radius * self.coefficient_norm
        s = min(_logistic(a), (1 + a) / (2 * a))
        return s + a * s * (1 - s)

    @property
    def curvature(self) -> float:
        """How much one row's gradient stretches a movement of the coefficients."""
        return self.radius**2 / 4

    def gradients(self, theta: FloatArray, X: FloatArray, y: FloatArray) -> FloatArray:
        """Return each row's factor, -y / (1 + exp(y theta'x))."""
        return np.asarray(-y * expit(-y * (X @ theta)))


@dataclass(frozen=True, kw_only=True)
class SquaredLoss:
    """(theta'x - y)^2 / 2 for targets in [-bound, bound].

    Parameters
    ----------
    radius, coefficient_norm : float
        Largest norm of a row, R, and of the coefficients, B.
    target_bound : float
        Largest absolute target, Y.

    Notes
    -----
    The gradient (theta'x - y) x has norm at most R (R B + Y); its derivative in x,
    (theta'x - y) I + x theta', at most 2 R B + Y; in theta at most R^2.

    Examples
    --------
    >>> loss = SquaredLoss(radius=1.0, coefficient_norm=1.0, target_bound=1.0)
    >>> loss.lipschitz, loss.smoothness, loss.curvature
    (2.0, 3.0, 1.0)
    """

    radius: float
    coefficient_norm: float
    target_bound: float

    def __post_init__(self) -> None:
        _check(self.radius, self.coefficient_norm)
        _check(self.radius, self.target_bound)

    @property
    def lipschitz(self) -> float:
        """Largest norm of one row's gradient."""
        return self.radius * (self.radius * self.coefficient_norm + self.target_bound)

    @property
    def smoothness(self) -> float:
        """How much one row's gradient stretches a movement of the row."""
        return 2 * self.radius * self.coefficient_norm + self.target_bound

    @property
    def curvature(self) -> float:
        """How much one row's gradient stretches a movement of the coefficients."""
        return self.radius**2

    def gradients(self, theta: FloatArray, X: FloatArray, y: FloatArray) -> FloatArray:
        """Return each row's factor, theta'x - y."""
        return np.asarray(X @ theta - y)


def _check(*values: float) -> None:
    if not all(math.isfinite(v) and v > 0 for v in values):
        raise ParameterError("radius, coefficient_norm and target_bound must be finite and above 0")


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))
