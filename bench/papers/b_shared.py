"""Mechanisms of Tables 1 and 2 of Hu et al. (2024) that no estimator of this library uses."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import logsumexp

from missdp.pricing import Sensitivity, TableDistance
from missdp.pricing.privacy_maps import PrivacyMap, _curves, _theorem_two


def overall_curve(mechanism: PrivacyMap, distance: TableDistance, alpha: float) -> float:
    """Return the smallest Rényi bound at one order, over all three derivations of the library."""
    return min(
        mechanism.curve(alpha, distance),
        _theorem_two(alpha, *_curves(mechanism, distance)),
        mechanism.curve(alpha, distance.forget_movement()),
    )


def exponential_map(*, sensitivity: Sensitivity, epsilon: float) -> PrivacyMap:
    """The exponential mechanism with mass proportional to exp(score * epsilon / (2 Delta)).

    ``sensitivity`` is the sensitivity of the scores, in maximum norm, and ``sensitivity.replaced``
    is Delta. If every score moves by at most s, log-ratios of probabilities lie in an interval of
    length epsilon s / Delta. This length is the pure DP loss. By bounded range, an eighth of its
    square is the loss in zCDP (Cesar & Rogers 2021).
    """

    def pure(distance: TableDistance) -> float:
        return epsilon * sensitivity.shift(distance) / sensitivity.replaced

    return PrivacyMap(pure=pure, rho=lambda distance: pure(distance) ** 2 / 8)


def iteration_map(*, lipschitz: float, smoothness: float, rows: int, sigma: float) -> PrivacyMap:
    """DP-SGD by iteration: one row a step in fixed order, stopped at a secret uniform time.

    Only the last iterate is released, after T ~ uniform{1..n} steps. T is not released. Steps must
    be contractive: of a size of at most 2 / curvature. Noise is continuous, with this ``sigma`` on
    each coordinate of a row's gradient.

    Amplification by iteration is Theorem 22 of Feldman, Mironov, Talwar & Thakurta (2018). Let
    step i of two noisy contractive processes differ by s_i, in units of the step size. Then
    D_alpha of the T-th iterates is at most alpha / (2 sigma^2) sum a_i^2, for any a with partial
    sums below those of s and an equal total. Rows that move are absorbed where they occur,
    a_i = mu d_i. A replaced row at step t is spread evenly over the last T - t + 1 steps. By
    Minkowski's inequality D_alpha <= alpha (mu phi + 2 L / sqrt(T - t + 1))^2 / (2 sigma^2),
    where phi is the Frobenius movement. Averaging exp((alpha - 1) D) over T is sound by joint
    convexity, and t = 1 is the worst position. No order of the rows, nor a limit on alpha, is
    assumed.
    """

    def curve(alpha: float, distance: TableDistance) -> float:
        drift = smoothness * distance.shift_frobenius
        if distance.replaced != 1:
            # Several replaced rows are absorbed where they occur.
            drift = drift + 2 * lipschitz * math.sqrt(distance.replaced)
            return alpha * (drift / sigma) ** 2 / 2
        shift = (drift + 2 * lipschitz * _inverse_roots(rows)) / sigma
        exponent = alpha * (alpha - 1) * shift**2 / 2
        return (float(logsumexp(exponent)) - math.log(rows)) / (alpha - 1)

    return PrivacyMap(renyi=curve)


@lru_cache(maxsize=4)
def _inverse_roots(rows: int) -> np.ndarray:
    return 1 / np.sqrt(np.arange(1.0, rows + 1))
