"""Privacy maps: from the distance of two tables to the Rényi divergence of two outputs."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError
from missdp.preprocess.domain import TableDistance

__all__ = [
    "Curve",
    "ExponentialMap",
    "GaussianMap",
    "LaplaceMap",
    "PrivacyMap",
    "Sensitivity",
    "tabulated",
    "theorem_two",
]


FloatArray = NDArray[np.float64]
Curve = Callable[[float], float]
# About 2 % apart, and every integer up to 64, where subsampled curves are evaluated.
_GRID: list[float] = sorted(
    {*(1 + np.geomspace(1e-3, 8e3, 600)).tolist(), *(float(a) for a in range(2, 65))}
)


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """How far a query moves, in the norm its noise is calibrated to.

    Parameters
    ----------
    replaced : float
        For each replaced row; above 0.
    l12 : float, default infinity
        Lipschitz constant in the summed movement of rows.
    frobenius : float, default infinity
        Lipschitz constant in the Frobenius norm of the movement.

    Examples
    --------
    >>> from missdp.preprocess.domain import TableDistance
    >>> moved = TableDistance(replaced=1, moved_rows=100, moved_max=0.01)
    >>> Sensitivity(replaced=1.0, l12=1.0, frobenius=1.0).shift(moved)
    1.1
    """

    replaced: float
    l12: float = math.inf
    frobenius: float = math.inf

    def __post_init__(self) -> None:
        if not (self.replaced > 0 and self.l12 >= 0 and self.frobenius >= 0):
            raise ParameterError("sensitivities must be above 0, Lipschitz constants at least 0")

    def moved(self, distance: TableDistance) -> float:
        """Return the bound for the rows that moved alone."""
        if distance.moved_rows == 0:
            return 0.0
        return min(self.l12 * distance.moved_l12, self.frobenius * distance.moved_frobenius)

    def shift(self, distance: TableDistance) -> float:
        """Return the bound for replaced and moved rows together."""
        return self.replaced * distance.replaced + self.moved(distance)

    def largest_shift(self, distance: TableDistance) -> float:
        """Return the smaller of `shift` and the bound that counts moved rows as replaced."""
        return min(self.shift(distance), self.shift(distance.forget_movement()))


class PrivacyMap:
    """Bounds on the Rényi divergence between a mechanism's outputs on two tables.

    `rho` (zCDP), `pure` (pure DP) and `curve` (Rényi) are *direct*: they treat replaced and moved
    rows at once, and are infinite where nothing is proven. `replaced_curve` is the mechanism's
    RDP for replaced rows and `moved_curve` its smooth RDP; `theorem_two` combines these.
    All hold for every pair of tables whose rows lie in the domain the map was built for.

    Notes
    -----
    After Hu, Sanyal & Schölkopf 2024, Definition 3 and Table 1.
    """

    def rho(self, distance: TableDistance) -> float:
        """Return the zCDP parameter, or infinity."""
        del distance
        return math.inf

    def pure(self, distance: TableDistance) -> float:
        """Return the pure-DP parameter, or infinity."""
        del distance
        return math.inf

    def curve(self, alpha: float, distance: TableDistance) -> float:
        """Return a direct bound on the Rényi divergence of order ``alpha`` > 1."""
        rho, pure = self.rho(distance), self.pure(distance)
        return min(alpha * rho, _pure_curve(alpha, pure))

    def replaced_curve(self, alpha: float, replaced: int) -> float:
        """Return the RDP of order ``alpha`` when ``replaced`` rows are replaced, none moved."""
        return self.curve(alpha, TableDistance(replaced=replaced))

    def moved_curve(self, alpha: float, distance: TableDistance) -> float:
        """Return the smooth RDP of order ``alpha``: rows only move."""
        return self.curve(alpha, replace(distance, replaced=0))


@dataclass(frozen=True, kw_only=True)
class GaussianMap(PrivacyMap):
    """Gaussian noise on one query, or on ``steps`` adaptively chosen queries of one sensitivity.

    Parameters
    ----------
    sensitivity : Sensitivity
        In Euclidean norm.
    sigma : float
        Standard deviation of the noise on each coordinate, above 0.
    steps : int, default 1
        Number of queries, at least 1.
    slack : float, default 0.0
        Added to shift / sigma for rounding to a grid (see `missdp.preprocess.questions`).

    Notes
    -----
    Two Gaussians of equal variance have D_alpha = alpha shift^2 / (2 sigma^2), and the shift is
    at most h Delta + min(L12 tau, LF phi): direct, tighter than the triangle inequality (Theorem 2
    of Hu, Sanyal & Schölkopf 2024). The discrete Gaussian obeys the same bound (Canonne et al.
    2020).

    Examples
    --------
    >>> from missdp.preprocess.domain import NEIGHBOURS
    >>> GaussianMap(sensitivity=Sensitivity(replaced=1.0), sigma=2.0).rho(NEIGHBOURS)
    0.125
    """

    sensitivity: Sensitivity
    sigma: float
    steps: int = 1
    slack: float = 0.0

    def __post_init__(self) -> None:
        if not (self.sigma > 0 and self.steps >= 1 and self.slack >= 0):
            raise ParameterError("sigma must be above 0 and steps at least 1")

    def rho(self, distance: TableDistance) -> float:
        """Return steps (shift / sigma)^2 / 2."""
        shift = self.sensitivity.shift(distance)
        if shift == 0:
            return 0.0
        return self.steps * (shift / self.sigma + self.slack) ** 2 / 2

    def largest_shift(self, distance: TableDistance) -> float:
        """Return how far one query can move."""
        return self.sensitivity.largest_shift(distance)


@dataclass(frozen=True, kw_only=True)
class LaplaceMap(PrivacyMap):
    """Laplace noise on every coordinate of one query.

    Parameters
    ----------
    sensitivity : Sensitivity
        In summed absolute value (L1).
    scale : float
        Noise scale b, above 0.
    slack : float, default 0.0
        Added to shift / scale for rounding to a grid.

    Notes
    -----
    Pure DP of shift / scale, and the Rényi curve of any mechanism with that guarantee: the curve
    of the continuous Laplace law is lower, but not proven for the discrete one.

    Examples
    --------
    >>> from missdp.preprocess.domain import NEIGHBOURS
    >>> LaplaceMap(sensitivity=Sensitivity(replaced=1.0), scale=2.0).pure(NEIGHBOURS)
    0.5
    """

    sensitivity: Sensitivity
    scale: float
    slack: float = 0.0

    def __post_init__(self) -> None:
        if not (self.scale > 0 and self.slack >= 0):
            raise ParameterError("scale must be above 0")

    def pure(self, distance: TableDistance) -> float:
        """Return shift / scale."""
        shift = self.sensitivity.shift(distance)
        return shift / self.scale + self.slack if shift > 0 else 0.0


@dataclass(frozen=True, kw_only=True)
class ExponentialMap(PrivacyMap):
    """The exponential mechanism with mass proportional to exp(score * epsilon / (2 Delta)).

    Parameters
    ----------
    sensitivity : Sensitivity
        Of the scores, in maximum norm; ``sensitivity.replaced`` is Delta.
    epsilon : float
        Its parameter: pure DP for one replaced row; above 0.

    Notes
    -----
    If every score moves by at most s, log-ratios of probabilities lie in an interval of length
    epsilon s / Delta: pure DP of that size and, by bounded range, an eighth of its square in zCDP
    (Cesar & Rogers 2021).

    Examples
    --------
    >>> from missdp.preprocess.domain import NEIGHBOURS
    >>> mechanism = ExponentialMap(sensitivity=Sensitivity(replaced=1.0), epsilon=1.0)
    >>> mechanism.pure(NEIGHBOURS), mechanism.rho(NEIGHBOURS)
    (1.0, 0.125)
    """

    sensitivity: Sensitivity
    epsilon: float

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise ParameterError("epsilon must be above 0")

    def pure(self, distance: TableDistance) -> float:
        """Return epsilon times the shift in units of Delta."""
        return self.epsilon * self.sensitivity.shift(distance) / self.sensitivity.replaced

    def rho(self, distance: TableDistance) -> float:
        """Return an eighth of the squared range."""
        return self.pure(distance) ** 2 / 8


def _pure_curve(alpha: float, epsilon: float) -> float:
    """Rényi divergence of randomised response: the largest of any epsilon-DP mechanism."""
    if epsilon == 0 or math.isinf(epsilon):
        return epsilon
    yes, no = -math.log1p(math.exp(-epsilon)), -math.log1p(math.exp(epsilon))
    up = alpha * yes + (1 - alpha) * no
    down = alpha * no + (1 - alpha) * yes
    return min(epsilon, float(np.logaddexp(up, down)) / (alpha - 1))


def tabulated(curve: Curve) -> Curve:
    """Return the curve rounded up to a fixed grid of orders; quick to evaluate many times.

    Rényi divergence grows with its order, so the value at the next grid point is a bound. Beyond
    the grid it is infinite.

    Examples
    --------
    >>> calls = []
    >>> quick = tabulated(lambda a: calls.append(a) or a)
    >>> quick(2.5) <= 2.55, quick(2.5) <= 2.55, len(calls)
    (True, True, 1)
    """
    known: dict[int, float] = {}

    def look_up(alpha: float) -> float:
        place = bisect.bisect_left(_GRID, alpha)
        if place == len(_GRID):
            return math.inf
        if place not in known:
            known[place] = curve(_GRID[place])
        return known[place]

    return look_up


def theorem_two(alpha: float, replaced: Curve, moved: Curve, *, c: float | None = None) -> float:
    """Combine RDP and smooth RDP by the weak triangle inequality, with the best split.

    Parameters
    ----------
    alpha : float
        Order above 1.
    replaced, moved : callable
        Bounds on the divergence at any order above 1, when rows are only replaced or only move.
    c : float or None, default None
        A fixed split (Hu, Sanyal & Schölkopf 2024 use 2); None: optimised.

    Returns
    -------
    float
        A bound at ``alpha`` when rows are replaced and others move.

    Notes
    -----
    D_alpha(1 | 2) <= (c alpha - 1) / (c (alpha - 1)) D_{c alpha}(1 | 3)
    + D_{(c alpha - 1) / (c - 1)}(3 | 2) for every c > 1 and every law 3 (Mironov 2017). The table
    in between may have the replaced rows of one side and the moved rows of the other, or the
    other way about, in *either* direction: the better of the two counts. Hu, Sanyal &
    Schölkopf (2024), Theorem 2, take the worse one.

    Examples
    --------
    >>> half = lambda a: a / 2
    >>> round(theorem_two(11.0, half, half, c=2.0), 3), round(theorem_two(11.0, half, half), 3)
    (22.05, 22.0)
    """
    if c is not None:
        return _split(alpha, replaced, moved, c)
    grid = 1 + np.exp(np.linspace(-7.0, 7.0, 57))
    values = [_split(alpha, replaced, moved, float(x)) for x in grid]
    best = int(np.argmin(values))
    low, high = grid[max(0, best - 1)], grid[min(grid.size - 1, best + 1)]
    fine = np.linspace(low, high, 33)
    return min(values[best], min(_split(alpha, replaced, moved, float(x)) for x in fine))


def _split(alpha: float, replaced: Curve, moved: Curve, c: float) -> float:
    first, second = c * alpha, (c * alpha - 1) / (c - 1)
    weight = (c * alpha - 1) / (c * (alpha - 1))
    return min(
        weight * replaced(first) + moved(second),
        weight * moved(first) + replaced(second),
    )
