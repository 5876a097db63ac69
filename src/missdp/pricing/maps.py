"""How far two tables are apart, and how far apart that leaves the outputs of a mechanism."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from missdp.errors import ParameterError
from missdp.pricing.domain import row_movements

__all__ = [
    "NEIGHBOURS",
    "Curve",
    "ExponentialMap",
    "GaussianMap",
    "LaplaceMap",
    "PrivacyMap",
    "Sensitivity",
    "TableDistance",
    "tabulated",
]

# Room for floating-point error when a distance is compared with its bound.
_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True)
class TableDistance:
    """An upper bound on the distance between two tables with the same number of rows.

    Row i of one table is compared with row i of the other. At most ``replaced`` rows are
    unrelated; among the rest at most ``moved_rows`` differ, each by at most ``moved_max`` in
    Euclidean norm, by ``moved_l12`` summed, and by ``moved_frobenius`` in root sum of squares. A
    row that keeps its values but whose missing cells change counts as replaced.

    Parameters
    ----------
    replaced : int
        Rows replaced outright (h), at least 0.
    moved_rows : int, default 0
        Other rows that moved.
    moved_max, moved_l12, moved_frobenius : float, default infinity
        Norms of the movement; each is tightened to what the others imply. With no row moved all
        are 0.

    Raises
    ------
    ParameterError
        If a number is negative, or rows move without any finite norm.

    Notes
    -----
    Replacing one row is ``TableDistance(replaced=1)``. For any number of replaced rows, the
    choice of the rows that moved most minimises every norm at once, so the distance of two given
    tables is computable exactly (``between``).

    Examples
    --------
    >>> step = TableDistance(replaced=1, moved_rows=4, moved_max=0.5)
    >>> step.moved_l12, step.moved_frobenius
    (2.0, 1.0)
    """

    replaced: int
    moved_rows: int = 0
    moved_max: float = math.inf
    moved_l12: float = math.inf
    moved_frobenius: float = math.inf

    def __post_init__(self) -> None:
        norms = (self.moved_max, self.moved_l12, self.moved_frobenius)
        if self.replaced < 0 or self.moved_rows < 0 or not all(v >= 0 for v in norms):
            raise ParameterError("distances are counts and norms, and cannot be negative or NaN")
        if self.moved_rows and math.isinf(min(norms)):
            raise ParameterError("rows that move need at least one finite norm of their movement")
        rows = self.moved_rows
        largest = min(norms) if rows else 0.0
        l12 = min(self.moved_l12, rows * largest, math.sqrt(rows) * self.moved_frobenius)
        frobenius = min(self.moved_frobenius, math.sqrt(rows) * largest, l12) if rows else 0.0
        object.__setattr__(self, "moved_max", largest)
        object.__setattr__(self, "moved_l12", l12 if rows else 0.0)
        object.__setattr__(self, "moved_frobenius", frobenius)
        if largest == 0:
            object.__setattr__(self, "moved_rows", 0)

    @classmethod
    def between(cls, first: ArrayLike, second: ArrayLike, *, replaced: int = 1) -> Self:
        """Return the exact distance of two tables, the ``replaced`` worst rows set aside.

        Parameters
        ----------
        first, second : array_like of shape (n, d)
            Tables; NaN is a missing cell.
        replaced : int, default 1
            How many rows count as replaced.

        Returns
        -------
        TableDistance

        Raises
        ------
        ParameterError
            If more rows than ``replaced`` changed which of their cells are missing.

        Examples
        --------
        >>> TableDistance.between([[0.0], [1.0]], [[0.5], [9.0]]).moved_l12
        0.5
        """
        rest = np.sort(row_movements(first, second))[::-1][replaced:]
        if np.isinf(rest).any():
            raise ParameterError("more rows than `replaced` changed which cells are missing")
        return cls(
            replaced=replaced,
            moved_rows=int(np.count_nonzero(rest)),
            moved_max=float(rest.max(initial=0.0)),
            moved_l12=float(rest.sum()),
            moved_frobenius=float(np.sqrt((rest**2).sum())),
        )

    def covers(self, first: ArrayLike, second: ArrayLike) -> bool:
        """Whether two tables are within this distance (up to rounding of 1e-9).

        Examples
        --------
        >>> NEIGHBOURS.covers([[0.0], [1.0]], [[0.0], [9.0]])
        True
        >>> NEIGHBOURS.covers([[0.0], [1.0]], [[0.1], [9.0]])
        False
        """
        rest = np.sort(row_movements(first, second))[::-1][self.replaced :]
        if np.isinf(rest).any():
            return False
        room = _TOLERANCE * (1 + self.moved_max)
        return bool(
            np.count_nonzero(rest > room) <= self.moved_rows
            and rest.max(initial=0.0) <= self.moved_max + room
            and rest.sum() <= self.moved_l12 + room * max(1, rest.size)
            and np.sqrt((rest**2).sum()) <= self.moved_frobenius + room * max(1, rest.size)
        )

    def forget_movement(self) -> TableDistance:
        """Return the coarser distance in which every moved row counts as replaced.

        Examples
        --------
        >>> TableDistance(replaced=1, moved_rows=3, moved_max=0.1).forget_movement().replaced
        4
        """
        return TableDistance(replaced=self.replaced + self.moved_rows)

    def after(
        self, *, rows: int, lipschitz: float, shift: float, hit: int, diameter: float
    ) -> TableDistance:
        """Return the distance after a step that moves row i by at most lipschitz * d_i + shift.

        Parameters
        ----------
        rows : int
            Number of rows of the table.
        lipschitz : float
            How much the fitted row function stretches distances, at least 0.
        shift : float
            How far the fitted function itself moves, at any row it is applied to.
        hit : int
            To how many rows ``shift`` applies.
        diameter : float
            Largest possible distance between two output rows.

        Returns
        -------
        TableDistance
            By the triangle inequality in each of the three norms.
        """
        others = max(0, rows - self.replaced)
        hit = min(hit, others) if shift > 0 else 0
        return TableDistance(
            replaced=min(self.replaced, rows),
            moved_rows=min(others, self.moved_rows + hit),
            moved_max=min(diameter, lipschitz * self.moved_max + shift * (hit > 0)),
            moved_l12=lipschitz * self.moved_l12 + hit * shift,
            moved_frobenius=lipschitz * self.moved_frobenius + math.sqrt(hit) * shift,
        )


NEIGHBOURS = TableDistance(replaced=1)
"""The distance of two neighbouring tables: one row is replaced, and no other moves."""


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
    >>> from missdp.pricing.maps import TableDistance
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
    RDP for replaced rows and `moved_curve` its smooth RDP; ``theorem_two`` combines these.
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
        Added to shift / sigma for rounding to a grid (see `missdp.pricing.vector_query`).

    Notes
    -----
    Two Gaussians of equal variance have D_alpha = alpha shift^2 / (2 sigma^2), and the shift is
    at most h Delta + min(L12 tau, LF phi): direct, tighter than the triangle inequality (Theorem 2
    of Hu, Sanyal & Schölkopf 2024). The discrete Gaussian obeys the same bound (Canonne et al.
    2020).

    Examples
    --------
    >>> from missdp.pricing.maps import NEIGHBOURS
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
    >>> from missdp.pricing.maps import NEIGHBOURS
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
    >>> from missdp.pricing.maps import NEIGHBOURS
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


Curve = Callable[[float], float]
# About 2 % apart, and every integer up to 64, where subsampled curves are evaluated.
_GRID: list[float] = sorted(
    {*(1 + np.geomspace(1e-3, 8e3, 600)).tolist(), *(float(a) for a in range(2, 65))}
)


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
