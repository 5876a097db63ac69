"""Scaling of columns, and principal component analysis."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from missdp.accounting import Condition, EigenGap
from missdp.errors import ParameterError, UnprovenError, number, replacing, whole
from missdp.pricing.assumptions import (
    CovarianceGap,
    ExtremeGaps,
    FrameOverlap,
    LeastRange,
    LeastStandardDeviation,
)
from missdp.pricing.domain import (
    FloatArray,
    RowDomain,
)
from missdp.pricing.maps import TableDistance
from missdp.pricing.steps import PrivateState, Response, StableTransformer, require

__all__ = ["MinMaxScaler", "PCADimensionReducer", "PCARankReducer", "StandardScaler"]


@dataclass(kw_only=True, eq=False, repr=False)
class StandardScaler(StableTransformer):
    """Subtract each column's mean and divide by its standard deviation (divisor n).

    Parameters
    ----------
    least_std : float
        Lower bound s on the standard deviation of every column.
    below : {"assume", "floor"}, default "assume"
        What ``least_std`` means. ``"assume"``: a condition of the guarantee. ``"floor"``: no
        condition; smaller standard deviations are raised to it, so the bound holds for every
        table, for a slightly larger constant.

    Notes
    -----
    Write R for the radius, h for replaced rows and tau for the summed movement. Means differ by
    at most (2 R h + tau) / n in norm. For one column, v' - v is at most the mean change of
    (x - mu)^2, because subtracting (mu' - mu)^2 only lowers it (and the same with the tables
    exchanged); each replaced row contributes at most w^2 and each moved row 2 w d, so
    |v - v'| <= (h w^2 + 2 w tau) / n, where w bounds |x_j - mu_j|. With |1/sigma - 1/sigma'| <=
    |v - v'| / (2 s^3), a row x moves by

        |x - mu| (h w^2 + 2 w tau) / (2 n s^3) + (2 R h + tau) / (n s).

    ``"assume"``: sigma^2 <= (R - mu)(R + mu) (Bhatia & Davis 2000) gives w = R + sqrt(R^2 - s^2),
    and |mu|^2 <= R^2 - d s^2 gives |x - mu| <= R + sqrt(R^2 - d s^2). ``"floor"``: raising the
    variance to s^2 is a contraction, and w = |x - mu| = 2 R. Hu et al., Proposition 6, use 2 / n
    for the change of a variance on the unit ball; it can be 4 / n, so its constant 2 / s^3 is too
    small (a column of mostly -1 with one -1 replaced by 1 exceeds it); ours tends to 4 / s^3.

    Examples
    --------
    >>> from missdp.pricing import NEIGHBOURS, RowDomain
    >>> step = StandardScaler(least_std=0.5)
    >>> after = step.stability(NEIGHBOURS, RowDomain(rows=1000, columns=1))
    >>> after.moved_rows, round(after.moved_max, 4)
    (999, 0.03)
    """

    least_std: float
    below: Literal["assume", "floor"] = "assume"

    def conditions(self, domain: RowDomain) -> tuple[Condition, ...]:  # noqa: ARG002
        """Return the bound on standard deviations, or nothing with a floor."""
        return () if self.below == "floor" else (LeastStandardDeviation(self._least()),)

    def response(self, distance: TableDistance, domain: RowDomain) -> Response:
        """Return the bound: every other row moves."""
        n, R, s = domain.rows, domain.radius, self._least()
        width, norm = self._reach(domain)
        h, tau = distance.replaced, distance.moved_l12
        variance = min((h * width**2 + 2 * width * tau) / n, width**2)
        mean = min((2 * R * h + tau) / n, 2 * R)
        shift = norm * variance / (2 * s**3) + mean / s
        return Response(lipschitz=1 / s, shift=shift, hit=n)

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return the domain of centred rows, stretched by at most 1 / least_std."""
        self._require_complete(domain)
        return replace(domain, radius=self._reach(domain)[1] / self._least())

    def failure_margin(
        self, values: FloatArray, incoming: TableDistance, domain: RowDomain
    ) -> float:
        """Return how many replacements the smallest variance is from the bound.

        A variance moves by at most (4 R^2 h + 4 R tau) / n (the argument above with w = 2 R).
        """
        if self.below == "floor":
            return math.inf
        least = float(values.var(axis=0).min())
        R, n = domain.radius, domain.rows
        step = (4 * R**2 * incoming.replaced + 4 * R * incoming.moved_l12) / n
        return max(0.0, (least - self._least() ** 2) / max(step, 1e-300))

    def _reach(self, domain: RowDomain) -> tuple[float, float]:
        """Bounds on |x_j - mu_j| and |x - mu|."""
        R, s = domain.radius, self._least()
        require(self.below in ("assume", "floor"), "below must be 'assume' or 'floor'")
        if self.below == "floor":
            return 2 * R, 2 * R
        spare = R**2 - domain.columns * s**2
        require(spare >= 0, "no table in this domain has so large a least_std in every column")
        return R + math.sqrt(R**2 - s**2), R + math.sqrt(spare)

    def _learn(self, table: FloatArray) -> Mapping[str, Any]:
        # Off the collection a column could be constant; on it the floor changes nothing.
        spread = np.maximum(table.std(axis=0), self._least())
        return {"mean": table.mean(axis=0), "spread": spread}

    def _apply(self, table: FloatArray, state: PrivateState) -> FloatArray:
        return np.asarray((table - state["mean"]) / state["spread"])

    def _least(self) -> float:
        return number("least_std", self.least_std, least=1e-100)


@dataclass(kw_only=True, eq=False, repr=False)
class MinMaxScaler(StableTransformer):
    """Scale each column to [0, 1] by its minimum and maximum.

    Parameters
    ----------
    least_range : float
        Condition: maximum and minimum of every column differ by at least this (r).
    extreme_gap : float
        Condition: consecutive values at either end of a column differ by at most this (g).
    extreme_ranks : int, default 1
        How many of the outermost gaps ``extreme_gap`` covers; at least the number of rows that
        may be replaced before this step.

    Notes
    -----
    Let m be a column's minimum without the replaced rows. In either table the minimum lies in
    [m - h g, m], because the condition bounds its h outermost gaps; moved rows move m by at most
    Delta. So minimum and maximum move by at most delta = h g + Delta. For y = (x - a) / (b - a)
    in [0, 1], ``y' - y = ((1 - y)(a - a') + y (b - b')) / (b' - a')``, at most delta / r.

    Examples
    --------
    >>> from missdp.pricing import NEIGHBOURS, RowDomain
    >>> step = MinMaxScaler(least_range=1.0, extreme_gap=0.01)
    >>> round(step.stability(NEIGHBOURS, RowDomain(rows=100, columns=4)).moved_max, 6)
    0.02
    """

    least_range: float
    extreme_gap: float
    extreme_ranks: int = 1

    def conditions(self, domain: RowDomain) -> tuple[Condition, ...]:  # noqa: ARG002
        """Return the bounds on ranges and on the gaps at the extremes."""
        return (LeastRange(self._range()), ExtremeGaps(self._gap(), self._ranks()))

    def response(self, distance: TableDistance, domain: RowDomain) -> Response:
        """Return the bound: every other row moves."""
        if distance.replaced > self._ranks():
            raise UnprovenError(
                f"extreme_gap covers {self.extreme_ranks} gaps, but {distance.replaced} rows may "
                "be replaced before min-max scaling; declare more extreme_ranks"
            )
        r, delta = self._range(), distance.replaced * self._gap() + distance.moved_max
        side = math.sqrt(domain.columns)
        return Response(lipschitz=1 / r, shift=side * delta / r, hit=domain.rows, diameter=side)

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return the domain of the unit cube."""
        self._require_complete(domain)
        self.conditions(domain)  # Checks the parameters.
        return replace(domain, radius=math.sqrt(domain.columns))

    def _range(self) -> float:
        return number("least_range", self.least_range, least=1e-100)

    def _gap(self) -> float:
        return number("extreme_gap", self.extreme_gap)

    def _ranks(self) -> int:
        return whole("extreme_ranks", self.extreme_ranks)

    def _learn(self, table: FloatArray) -> Mapping[str, Any]:
        low = table.min(axis=0)
        return {"low": low, "range": np.maximum(np.ptp(table, axis=0), self._range())}

    def _apply(self, table: FloatArray, state: PrivateState) -> FloatArray:
        return np.asarray(np.clip((table - state["low"]) / state["range"], 0.0, 1.0))


Moment = Literal["covariance", "second"]
# Largest less smallest eigenvalue of n times the matrix's change: per replaced row over R^2, and
# per unit of movement over R.
_SPREAD = {"covariance": (3 * math.sqrt(3), 4.0), "second": (2.0, 2.0)}


@dataclass(kw_only=True, eq=False, repr=False)
class PCARankReducer(StableTransformer):
    """Project every row on the span of the top k principal components, in the old coordinates.

    Parameters
    ----------
    n_components : int
        Rank k of the projection; at least 1 and below the number of columns.
    least_gap : float
        Condition: eigenvalues k and k + 1 differ by at least this (beta).
    moment : {"covariance", "second"}, default "covariance"
        Which matrix: the covariance with divisor n - 1, or the second moment X'X / n, whose
        eigenvectors one row can turn by less. Rows are projected without centring.

    Notes
    -----
    *How far the matrix moves.* Let the spread of a symmetric matrix be its largest less its
    smallest eigenvalue; the spread of a sum is at most the sum of spreads. Covariance: replacing z
    by z' beside n - 1 rows of mean m changes it by exactly (b b' - a a') / n, a = z - m,
    b = z' - m, whose eigenvalues other than 0 have the sum (|b|^2 - |a|^2) / n and the product
    ((a.b)^2 - |a|^2 |b|^2) / n^2, so that the spread is |a - b| |a + b| / n. With s = |z + z'|,
    |a - b| <= sqrt(4 R^2 - s^2) and |a + b| <= s + 2 R; the product is largest at s = R:
    3 sqrt(3) R^2 / n. Second moment: m = 0, and |z - z'| |z + z'| <= 2 R^2. A row that moves by d
    adds at most 4 R d / n (covariance) or 2 R d / n.

    *How far the projection moves.* P and P' are also the top-k projections of A and of A' - c I,
    for any c. Both gaps are at least beta, so (lambda_k - lambda'_{k+1} + c) + (lambda'_k - c -
    lambda_{k+1}) >= 2 beta and one of the two is at least beta. The sin-theta theorem of Davis &
    Kahan (1970) for spectra separated by beta, from that side, gives |P - P'| = |sin theta| <=
    |A' - A - c I| / beta, with constant 1 and no side condition; the best c, midway between the
    extreme eigenvalues of A' - A, leaves half its spread. So |P - P'| <= (3 sqrt(3) / 2 R^2 h +
    2 R tau) / (n beta) for the covariance, (R^2 h + R tau) / (n beta) for the second moment, which
    adversarial tables attain. A row moves by R |P - P'|. Hu et al. have 12.2 in place of 2.6: it
    bounds the covariance by 6.1 / n in norm, and pays 2 for needing only one of the gaps.

    Examples
    --------
    >>> from missdp.pricing import NEIGHBOURS, RowDomain
    >>> step = PCARankReducer(n_components=2, least_gap=0.1)
    >>> round(step.stability(NEIGHBOURS, RowDomain(rows=1000, columns=9)).moved_max, 6)
    0.025981
    """

    n_components: int
    least_gap: float
    moment: Moment = "covariance"

    def conditions(self, domain: RowDomain) -> tuple[Condition, ...]:  # noqa: ARG002
        """Return the bound on the eigen-gap."""
        kind = CovarianceGap if self.moment == "covariance" else EigenGap
        return (kind(self._k(), self._gap()),)

    def response(self, distance: TableDistance, domain: RowDomain) -> Response:
        """Return the bound: every other row moves with the projection."""
        shift = domain.radius * self.subspace_shift(distance, domain)
        return Response(shift=shift, hit=domain.rows)

    def subspace_shift(self, distance: TableDistance, domain: RowDomain) -> float:
        """Return the bound on the operator norm of the change of the projection, at most 1."""
        return min(1.0, self._spread(distance, domain) / (2 * self._gap()))

    def _spread(self, distance: TableDistance, domain: RowDomain) -> float:
        """Bound on the spread of the change of the matrix."""
        self._check_moment()
        per_row, per_move = _SPREAD[self.moment]
        R = domain.radius
        return (
            per_row * R**2 * distance.replaced + per_move * R * distance.moved_l12
        ) / domain.rows

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return the domain unchanged: projections do not lengthen rows."""
        self._require_complete(domain)
        self._check_moment()
        self._gap()
        require(
            self._k() < domain.columns,
            "n_components must be at least 1 and below the number of columns",
        )
        return domain

    def failure_margin(
        self, values: FloatArray, incoming: TableDistance, domain: RowDomain
    ) -> float:
        """Return how many replacements the eigen-gap is from the bound.

        By Weyl's inequality the gap changes by at most the spread of the matrix's change (see
        `PCARankReducer`): 3 sqrt(3) R^2 / n for the covariance and 2 R^2 / n for the second moment
        (Hu et al.: 12.2 R^2 / n).
        """
        gap = _top(values, self._k(), self.moment)[1]
        step = max(self._spread(incoming, domain), 1e-300)
        return max(0.0, (gap - self._gap()) / step)

    def _k(self) -> int:
        return whole("n_components", self.n_components)

    def _gap(self) -> float:
        return number("least_gap", self.least_gap, least=1e-100)

    def _check_moment(self) -> None:
        require(self.moment in _SPREAD, "moment must be 'covariance' or 'second'")

    def _learn(self, table: FloatArray) -> Mapping[str, Any]:
        self._check_moment()
        require(self._k() <= table.shape[1], "n_components is above the number of columns")
        return {"basis": _top(table, self._k(), self.moment)[0]}

    def _apply(self, table: FloatArray, state: PrivateState) -> FloatArray:
        basis: FloatArray = state["basis"]
        return np.asarray((table @ basis) @ basis.T)


@dataclass(kw_only=True, eq=False, repr=False)
class PCADimensionReducer(PCARankReducer):
    """Project every row on the top k principal components, in k coordinates.

    Eigenvectors are defined up to signs, and up to rotations where eigenvalues meet, so their own
    coordinates can jump when one row changes, however wide the k-th gap. (Hu et al., Proposition 5,
    equate the trace of A'B with the sum of its singular values at that point, which needs
    aligned bases.) Here coordinates come from a public frame G of k orthonormal directions: with
    P the projection, rows are mapped by the polar factor U = P G (G'P G)^(-1/2).

    Parameters
    ----------
    n_components, least_gap, moment
        See `PCARankReducer`.
    least_overlap : float
        Condition: the smallest singular value of P G is at least this (rho), in (0, 1].
    frame : array_like of shape (d, k) or None, default None
        Public; orthonormalised. None: the first k coordinate axes.

    Notes
    -----
    With s = |P - P'| and H = (G'PG)^(1/2) >= rho: |H - H'| <= s / (2 rho), and
    U - U' = (P - P') G H^-1 + U' (H' - H) H^-1, so |U - U'| <= s / rho + s / (2 rho^2).

    Examples
    --------
    >>> from missdp.pricing import NEIGHBOURS, RowDomain
    >>> step = PCADimensionReducer(n_components=2, least_gap=0.1, least_overlap=0.5)
    >>> step.output_domain(RowDomain(rows=1000, columns=9)).columns
    2
    """

    least_overlap: float
    frame: ArrayLike | None = None

    def conditions(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return the bounds on the eigen-gap and on the overlap with the frame."""
        return (*super().conditions(domain), FrameOverlap(self._overlap()))

    def response(self, distance: TableDistance, domain: RowDomain) -> Response:
        """Return the bound: every other row moves with the fitted coordinates."""
        rho = self._overlap()
        turn = self.subspace_shift(distance, domain) * (1 / rho + 1 / (2 * rho**2))
        return Response(shift=domain.radius * min(2.0, turn), hit=domain.rows)

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return the domain with k columns."""
        self._overlap()
        self._frame(domain.columns)
        return replace(super().output_domain(domain), columns=self._k())

    def failure_margin(
        self, values: FloatArray, incoming: TableDistance, domain: RowDomain
    ) -> float:
        """Refuse: the overlap with the frame has no implemented distance to failure."""
        del values, incoming, domain
        raise UnprovenError(
            "no distance to failure is implemented for the overlap with a reference frame; use "
            "PCARankReducer with propose-test-release"
        )

    def _learn(self, table: FloatArray) -> Mapping[str, Any]:
        basis = super()._learn(table)["basis"]
        left, _, right = np.linalg.svd(basis.T @ self._frame(table.shape[1]))
        return {"basis": basis @ (left @ right)}

    def _overlap(self) -> float:
        return number("least_overlap", self.least_overlap, least=1e-30, most=1.0)

    def _apply(self, table: FloatArray, state: PrivateState) -> FloatArray:
        return np.asarray(table @ state["basis"])

    def _frame(self, columns: int) -> FloatArray:
        k = self._k()
        if self.frame is None:
            return np.eye(columns, k)
        with replacing(TypeError, ValueError, by=ParameterError("frame must be numbers")):
            frame = np.asarray(self.frame, dtype=np.float64)
        require(frame.shape == (columns, k), "frame must have one row per column and k columns")
        require(bool(np.isfinite(frame).all()), "frame must be finite")
        return np.asarray(np.linalg.qr(frame)[0])


def _top(table: FloatArray, k: int, moment: Moment) -> tuple[FloatArray, float]:
    """Return an orthonormal basis of the top-k eigenspace, and the k-th eigen-gap."""
    n = table.shape[0]
    rows = table - table.mean(axis=0) if moment == "covariance" else table
    divisor = max(1, n - 1) if moment == "covariance" else n
    # Columns of the right factor beyond n rows span the null space: full matrices only if needed.
    _, singular, right = np.linalg.svd(rows, full_matrices=k >= min(table.shape))
    values = np.zeros(table.shape[1])
    values[: singular.size] = singular**2 / divisor
    return right[:k].T, float(values[k - 1] - values[k])
