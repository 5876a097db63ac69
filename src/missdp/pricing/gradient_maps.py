"""Losses of linear models, and privacy maps of the gradient methods that minimise them.

Built-in losses come with their Lipschitz and smoothness constants; the maps are of full-batch
gradients, of subsampled ones, and of a hidden run by iteration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import numpy as np
from scipy.special import expit, gammaln, logsumexp

from missdp.errors import ParameterError
from missdp.pricing.domain import FloatArray
from missdp.pricing.maps import GaussianMap, PrivacyMap, Sensitivity, TableDistance

__all__ = [
    "IterationMap",
    "LogisticLoss",
    "Loss",
    "SquaredLoss",
    "SubsampledMap",
    "gradient_descent_map",
    "subsampled_gaussian_curve",
]


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


_LARGEST_ORDER = 512


def gradient_descent_map(
    loss: Loss, *, rows: int, sigma: float, steps: int, slack: float = 0.0
) -> GaussianMap:
    """Return the map of DP-GD: ``steps`` noisy mean gradients of all rows.

    Parameters
    ----------
    loss : Loss
        With its Lipschitz constant L and smoothness mu.
    rows : int
        Number of rows n, public.
    sigma : float
        Standard deviation of the noise on each coordinate of the mean gradient.
    steps : int
        Number of iterations T.
    slack : float, default 0.0
        See `GaussianMap`.

    Returns
    -------
    GaussianMap
        A replaced row moves the mean gradient by at most 2 L / n (Hu, Sanyal & Schölkopf 2024
        write L / n in their proof of Theorem 13), rows that move by mu tau / n, at every
        coefficient vector; the iterates are post-processing, and the T steps compose adaptively.

    Examples
    --------
    >>> from missdp.pricing.gradient_maps import SquaredLoss
    >>> loss = SquaredLoss(radius=1.0, coefficient_norm=1.0, target_bound=1.0)
    >>> gradient_descent_map(loss, rows=100, sigma=0.1, steps=10).sensitivity.replaced
    0.04
    """
    sensitivity = Sensitivity(
        replaced=2 * loss.lipschitz / rows,
        l12=loss.smoothness / rows,
        frobenius=loss.smoothness / math.sqrt(rows),
    )
    return GaussianMap(sensitivity=sensitivity, sigma=sigma, steps=steps, slack=slack)


@dataclass(frozen=True, kw_only=True)
class _LossMap(PrivacyMap):
    """What every map of noisy gradients, some rows at a time, is made of."""

    lipschitz: float
    smoothness: float
    rows: int
    sigma: float
    slack: float = 0.0


@dataclass(frozen=True, kw_only=True)
class SubsampledMap(_LossMap):
    """DP-SGD: each step averages the gradients of a fresh uniform sample without replacement.

    Parameters
    ----------
    lipschitz, smoothness : float
        Of the loss, L and mu.
    rows, batch : int
        n (public) and the sample size b, at most n.
    sigma : float
        Standard deviation of the noise on each coordinate of the sample's mean gradient.
    steps : int
        Number of steps.
    slack : float, default 0.0
        See `GaussianMap`.

    Notes
    -----
    *Replaced rows*: subsampled Rényi DP for replace-one (Wang, Balle & Kasiviswanathan 2019,
    Theorem 9), which bounds the base mechanism only through its Rényi curve.
    *Moved rows*: couple the two runs by the same sample J. The function p^alpha q^(1 - alpha) is
    jointly convex, so exp((alpha - 1) D) of the mixtures is at most the mean over J of
    exp((alpha - 1) D_J), and D_J = alpha s_J^2 / (2 sigma^2) with s_J = mu Delta H_J / b, where
    H_J, the number of moved rows in the sample, is hypergeometric. The same coupling with a
    replaced row in the sample is the direct bound. Nothing depends on the inverse
    point-wise divergence of Hu, Sanyal & Schölkopf (2024), and no order is excluded.

    Examples
    --------
    >>> from missdp.pricing.maps import NEIGHBOURS
    >>> sgd = SubsampledMap(
    ...     lipschitz=1.0, smoothness=1.0, rows=1000, batch=10, sigma=1.0, steps=100
    ... )
    >>> sgd.curve(4.0, NEIGHBOURS) < 0.01
    True
    """

    batch: int
    steps: int

    def __post_init__(self) -> None:
        if not (1 <= self.batch <= self.rows and self.sigma > 0 and self.steps >= 1):
            raise ParameterError("batch must be between 1 and rows, sigma above 0, steps >= 1")

    def curve(self, alpha: float, distance: TableDistance) -> float:
        """Return the better of amplification (nothing moved) and coupling."""
        found = self.steps * self._coupled(alpha, distance)
        if distance.moved_rows == 0 and distance.replaced == 1:
            own = 2 * self.lipschitz / (self.batch * self.sigma) + self.slack
            amplified = subsampled_gaussian_curve(alpha, self.batch / self.rows, 1 / own)
            found = min(found, self.steps * amplified)
        return found

    def largest_shift(self, distance: TableDistance) -> float:
        """Return how far the mean gradient of one and the same sample can move."""
        replaced = 2 * self.lipschitz * min(distance.replaced, self.batch)
        moved = min(distance.moved_max * min(distance.moved_rows, self.batch), distance.moved_l12)
        coarse = 2 * self.lipschitz * min(distance.forget_movement().replaced, self.batch)
        return min(replaced + self.smoothness * moved, coarse) / self.batch

    def _coupled(self, alpha: float, distance: TableDistance) -> float:
        replaced, moved = min(distance.replaced, self.rows), distance.moved_rows
        moved = min(moved, self.rows - replaced)
        a, h, log_weight = _sample_counts(self.rows, replaced, moved, self.batch)
        total = 2 * self.lipschitz * a + self.smoothness * distance.moved_max * h
        # Whatever the sample, its summed movement is at most tau.
        most = 2 * self.lipschitz * a + self.smoothness * distance.moved_l12
        shift = np.minimum(total, most) / (self.batch * self.sigma)
        shift = np.where(shift > 0, shift + self.slack, 0.0)
        exponent = alpha * (alpha - 1) * shift**2 / 2
        return float(logsumexp(exponent + log_weight)) / (alpha - 1)


@lru_cache(maxsize=64)
def _sample_counts(
    rows: int, replaced: int, moved: int, batch: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Numbers of replaced and of moved rows in a sample, with the logarithm of their mass."""
    in_sample, others, weights = [], [], []
    for a, log_a in zip(*_hypergeometric(rows, replaced, batch), strict=True):
        h, log_h = _hypergeometric(rows - replaced, moved, batch - int(a))
        in_sample.append(np.full(h.size, a))
        others.append(h)
        weights.append(log_a + log_h)
    # Rounding in the masses is far below the guard added here.
    return (
        np.concatenate(in_sample),
        np.concatenate(others),
        np.concatenate(weights) + 1e-9,
    )


def _hypergeometric(rows: int, marked: int, drawn: int) -> tuple[FloatArray, FloatArray]:
    """Numbers of marked rows among those drawn without replacement, with their log-masses.

    From the mode on, neighbours by their ratio, and all together 1: factorials of large numbers
    would lose more digits than the masses have.
    """
    k = np.arange(max(0, drawn - (rows - marked)), min(marked, drawn) + 1, dtype=np.float64)
    here = k[:-1]
    up = np.log((marked - here) * (drawn - here)) - np.log(
        (here + 1) * (rows - marked - drawn + here + 1)
    )
    mode = int(np.count_nonzero(up > 0))
    left, right = -np.cumsum(up[:mode][::-1])[::-1], np.cumsum(up[mode:])
    log_mass = np.concatenate([left, [0.0], right])
    return k, log_mass - float(logsumexp(log_mass))


@lru_cache(maxsize=4096)
def subsampled_gaussian_curve(alpha: float, rate: float, multiplier: float) -> float:
    """Return the RDP of a Gaussian mechanism on a sample without replacement, replace-one.

    Parameters
    ----------
    alpha : float
        Order; rounded up to the next integer. Above 512 the bound is that of no sampling.
    rate : float
        Sample size over number of rows, in (0, 1].
    multiplier : float
        Noise standard deviation over replace-one sensitivity.

    Returns
    -------
    float
        Wang, Balle & Kasiviswanathan 2019, Theorem 9, or no amplification, whichever is less.

    Examples
    --------
    >>> round(subsampled_gaussian_curve(2.0, 0.01, 1.0), 6)
    0.000544
    """
    plain = alpha / (2 * multiplier**2)
    order = max(2, math.ceil(alpha))
    if order > _LARGEST_ORDER or rate >= 1:
        return plain
    j = np.arange(2, order + 1)
    log_choose = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
    two = 1 / multiplier**2  # The divergence of order 2.
    base = np.log(2) + j * (j - 1) / (2 * multiplier**2)
    base[0] = min(math.log(4) + math.log(math.expm1(two)) if two < 700 else math.inf, base[0])
    terms = j * math.log(rate) + log_choose + base
    return min(plain, float(np.logaddexp(0.0, logsumexp(terms))) / (order - 1))


@dataclass(frozen=True, kw_only=True)
class IterationMap(_LossMap):
    """DP-SGD by iteration: one row a step in fixed order, stopped at a secret uniform time.

    Only the last iterate is released, after T ~ uniform{1..n} steps; T is not.

    Parameters
    ----------
    lipschitz, smoothness : float
        Of the convex loss, L and mu.
    rows : int
        n, public.
    sigma : float
        Standard deviation of the noise on each coordinate of a row's gradient.
    slack : float, default 0.0
        See `GaussianMap`. Requires a step size of at most 2 / curvature (contractive steps).

    Notes
    -----
    Amplification by iteration (Feldman, Mironov, Talwar & Thakurta 2018, Theorem 22): if step i
    of two noisy contractive processes differs by s_i, then D_alpha of the T-th iterates is at
    most alpha / (2 sigma^2) sum a_i^2 for any a with partial sums below those of s and the same
    total (in units of the step size). Rows that move are absorbed where they occur,
    a_i = mu d_i; a replaced row at step t is spread evenly over the T - t + 1 steps left. By
    Minkowski's inequality D_alpha <= alpha (mu phi + 2 L / sqrt(T - t + 1))^2 / (2 sigma^2), phi
    the Frobenius movement. Averaging exp((alpha - 1) D) over T is sound by joint convexity, and
    t = 1 is the worst position. No order of the rows, nor a limit on alpha, is assumed (Hu,
    Sanyal & Schölkopf 2024, Theorem 15, assume that moved rows are consecutive and move equally).

    Examples
    --------
    >>> from missdp.pricing.maps import NEIGHBOURS
    >>> sgd = IterationMap(lipschitz=1.0, smoothness=1.0, rows=10000, sigma=4.0)
    >>> sgd.curve(2.0, NEIGHBOURS) < sgd.curve(2.0, NEIGHBOURS.forget_movement()) + 1e-12
    True
    """

    _spread: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not (self.rows >= 1 and self.sigma > 0):
            raise ParameterError("rows must be at least 1 and sigma above 0")
        object.__setattr__(self, "_spread", 1 / np.sqrt(np.arange(1.0, self.rows + 1)))

    def curve(self, alpha: float, distance: TableDistance) -> float:
        """Return the bound for replaced and moved rows together."""
        drift = self.smoothness * distance.moved_frobenius
        if distance.replaced > 1:
            # Several replaced rows are absorbed where they occur.
            drift = drift + 2 * self.lipschitz * math.sqrt(distance.replaced)
            return alpha * (self._scaled(drift)) ** 2 / 2
        if distance.replaced == 0:
            return alpha * self._scaled(drift) ** 2 / 2
        shift = (drift + 2 * self.lipschitz * self._spread) / self.sigma + self.slack
        exponent = alpha * (alpha - 1) * shift**2 / 2
        return (float(logsumexp(exponent)) - math.log(self.rows)) / (alpha - 1)

    def _scaled(self, drift: float) -> float:
        return drift / self.sigma + self.slack if drift > 0 else 0.0
