"""The public rule that chooses noise parameters for releases with smooth sensitivity.

Parameters depend on epsilon, the number of coordinates and the query's public
weights only. They minimise the noise's standard deviation on a fixed reference profile
``M_j = 4 + j`` (the slowest growth possible is one per step), never on the table at hand.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np

from missdp.errors import ParameterError, UnprovenError
from missdp.mechanisms.smooth import NoiseLaw, SmoothNoise

__all__ = ["plan_smooth", "public_grid", "reference_bound"]

# Room for rounding S upwards and for floating point, taken off beta and off epsilon.
_SLACK = 2.0**-20
_REFERENCE_LEVEL = 4.0


def reference_bound(beta: float, own: float, donee: float) -> float:
    """S_beta of the public reference profile M_j = 4 + j: max of exp(-beta j)(own + donee (4 + j)).

    Examples
    --------
    >>> reference_bound(1.0, 1.0, 1.0)
    5.0
    """
    level = own + donee * _REFERENCE_LEVEL
    if donee <= 0 or beta * level >= donee:
        return level
    return donee / beta * math.exp(beta * level / donee - 1)


@functools.lru_cache(maxsize=512)
def plan_smooth(
    epsilon: float,
    *,
    own: float = 1.0,
    donee: float = 1.0,
    dimension: int = 1,
    law: NoiseLaw = "lomax",
    least_beta: float = 0.0,
) -> SmoothNoise:
    """Choose noise parameters from public facts only.

    Parameters
    ----------
    epsilon : float
        What the release may cost; finite and above 0.
    own, donee : float, default 1
        The query's public weights: how far a row of its own, and one donee, can move it.
    dimension : int, default 1
        Number of coordinates released together.
    law : {"lomax", "cauchy"}, default "lomax"
        The noise.
    least_beta : float, default 0
        A public lower limit on beta.

    Returns
    -------
    SmoothNoise
        The parameters with the smallest standard deviation on the reference profile.

    Raises
    ------
    ParameterError
        If epsilon is out of range.
    UnprovenError
        If no parameters give this epsilon.

    Examples
    --------
    >>> plan_smooth(0.5).epsilon
    0.5
    """
    if not 0 < epsilon < math.inf:
        raise ParameterError("epsilon must be finite and above 0")
    if not (own >= 0 and donee >= 0 and own + donee > 0):
        raise ParameterError("weights must be at least 0 and not both 0")
    candidates = _lomax_plans if law == "lomax" else _cauchy_plans
    best, best_error = None, math.inf
    for noise in candidates(epsilon, dimension):
        if noise.beta < least_beta:
            continue
        error = noise.standard_deviation * reference_bound(noise.beta, own, donee)
        if error < best_error:
            best, best_error = noise, error
    if best is None:
        raise UnprovenError("no noise parameters are proven for this epsilon and dimension")
    return best


def _lomax_plans(epsilon: float, dimension: int) -> list[SmoothNoise]:
    """One plan per shape, with beta and alpha as large as the theorem allows."""
    spend = epsilon * (1 - _SLACK)
    plans = []
    for shape in range(max(3, dimension + 1), max(64, 8 * dimension) + 1):
        beta = spend / shape
        # A huge epsilon may not overflow; less alpha only means more noise.
        alpha = math.expm1(min((spend - dimension * beta) / (shape + dimension), 500.0))
        if beta > 2.0**-30 and alpha > 0:
            plans.append(_noise("lomax", epsilon, Fraction(shape), alpha, beta, dimension))
    return plans


def _cauchy_plans(epsilon: float, dimension: int) -> list[SmoothNoise]:
    """Plans on a grid of tails (eighths) and splits of epsilon between slide and dilation."""
    spend = epsilon * (1 - _SLACK)
    plans = []
    for eighths in range(25, 97):
        gamma = eighths / 8
        slide = (gamma - 1) ** (1 - 1 / gamma)
        for split in np.arange(0.02, 0.98, 0.02).tolist():
            alpha, beta = spend * (1 - split) / slide, spend * split / max(gamma - 1, 1.0)
            if beta > 2.0**-30:
                exponent = Fraction(eighths, 8)
                plans.append(_noise("cauchy", epsilon, exponent, alpha, beta, dimension))
    return plans


def _noise(
    law: NoiseLaw, epsilon: float, exponent: Fraction, alpha: float, beta: float, dimension: int
) -> SmoothNoise:
    return SmoothNoise(
        law=law, epsilon=epsilon, exponent=exponent, alpha=alpha, beta=beta, dimension=dimension
    )


def public_grid(own: float, donee: float, epsilon: float) -> Fraction:
    """Return a grid far finer than any noise this query can get: a power of two.

    Examples
    --------
    >>> public_grid(1.0, 1.0, 1.0)
    Fraction(1, 256)
    """
    exponent = math.floor(math.log2(max(own, donee) / epsilon)) - 8
    return Fraction(2) ** exponent
