"""Principal component analysis for rank reduction and for dimension reduction."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from missdp.accounting import Condition, EigenGap
from missdp.errors import UnprovenError
from missdp.transforms.base import PrivateState, StableTransformer, require
from missdp.transforms.conditions import CovarianceGap, FrameOverlap
from missdp.transforms.distance import TableDistance
from missdp.transforms.domain import RowDomain

__all__ = ["PCADimensionReducer", "PCARankReducer"]

FloatArray = NDArray[np.float64]
Moment = Literal["covariance", "second"]


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
        eigenvectors four times less data can move. Rows are projected without centring.

    Notes
    -----
    *How far the matrix moves.* Covariance: replacing z by z' beside n - 1 rows of mean m changes
    it by exactly (b b' - a a') / n, a = z - m, b = z' - m. In Frobenius norm that is at most
    4 R^2 / n: the square, |a|^4 + |b|^4 - 2 (a.b)^2, is convex in |a|^2 along each ray and in m,
    so it is largest with z (and z') either at m, where it is at most (2R)^4, or on the sphere,
    where with m on the sphere too and s = |z + z'|, in units of R, it is at most 16 - s^4.
    Second moment: the eigenvalues of z'z'' - z z' lie within R^2. A row that moves by d adds at
    most 4 R d / n (covariance) or 2 R d / n. Paper B uses 2 (3n + 2) / (n (n - 1)), about 6.1 / n.

    *How far the projection moves.* Both gaps are at least beta, so (lambda_k - lambda'_{k+1}) +
    (lambda'_k - lambda_{k+1}) >= 2 beta and one of the two is at least beta. The sin-theta theorem
    of Davis & Kahan (1970) for spectra separated by beta, from that side, gives
    |P - P'| = |sin theta| <= |change| / beta, with constant 1 and no side condition (Yu, Wang &
    Samworth 2015 pay 2 for needing only one of the gaps). A row moves by R |P - P'|.

    Examples
    --------
    >>> from missdp.transforms import NEIGHBOURS, RowDomain
    >>> step = PCARankReducer(n_components=2, least_gap=0.1)
    >>> round(step.stability(NEIGHBOURS, RowDomain(rows=1000, columns=9)).moved_max, 6)
    0.04
    """

    def __init__(
        self, *, n_components: int, least_gap: float, moment: Moment = "covariance"
    ) -> None:
        self.n_components = n_components
        self.least_gap = least_gap
        self.moment = moment

    def conditions(self, domain: RowDomain) -> tuple[Condition, ...]:  # noqa: ARG002
        """Return the bound on the eigen-gap."""
        kind = CovarianceGap if self.moment == "covariance" else EigenGap
        return (kind(int(self.n_components), float(self.least_gap)),)

    def stability(self, distance: TableDistance, domain: RowDomain) -> TableDistance:
        """Return the bound: every other row moves with the projection."""
        return distance.after(
            rows=domain.rows,
            lipschitz=1.0,
            shift=domain.radius * self.subspace_shift(distance, domain),
            hit=domain.rows,
            diameter=self.output_domain(domain).diameter,
        )

    def subspace_shift(self, distance: TableDistance, domain: RowDomain) -> float:
        """Return the bound on the operator norm of the change of the projection, at most 1."""
        require(self.least_gap > 0, "least_gap must be above 0")
        R, factor = domain.radius, 4.0 if self.moment == "covariance" else 1.0
        pull = factor * R**2 * distance.replaced + max(2.0, factor) * R * distance.moved_l12
        return min(1.0, pull / (domain.rows * float(self.least_gap)))

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return the domain unchanged: projections do not lengthen rows."""
        self._require_complete(domain)
        require(self.moment in ("covariance", "second"), "moment must be 'covariance' or 'second'")
        require(
            1 <= self.n_components < domain.columns,
            "n_components must be at least 1 and below the number of columns",
        )
        return domain

    def failure_margin(
        self, values: FloatArray, incoming: TableDistance, domain: RowDomain
    ) -> float:
        """Return how many replacements the eigen-gap is from the bound.

        By Weyl's inequality the gap changes by at most the largest less the smallest eigenvalue
        of the matrix's change. For (b b' - a a') / n that spread is |a - b| |a + b| / n, and with
        s = |z + z'| it is at most sqrt(4 R^2 - s^2) (2 R + s) / n <= 3 sqrt(3) R^2 / n for the
        covariance and 2 R^2 / n for the second moment (paper B: 12.2 R^2 / n).
        """
        R = domain.radius
        spread = 3 * math.sqrt(3) if self.moment == "covariance" else 2.0
        moved = 4.0 if self.moment == "covariance" else 2.0
        step = (spread * R**2 * incoming.replaced + moved * R * incoming.moved_l12) / domain.rows
        gaps = _top(values, int(self.n_components), self.moment)[1]
        return max(0.0, (gaps - float(self.least_gap)) / step)

    def _learn(self, table: FloatArray) -> Mapping[str, Any]:
        return {"basis": _top(table, int(self.n_components), self.moment)[0]}

    def _apply(self, table: FloatArray, state: PrivateState) -> FloatArray:
        basis: FloatArray = state["basis"]
        return np.asarray((table @ basis) @ basis.T)


class PCADimensionReducer(PCARankReducer):
    """Project every row on the top k principal components, in k coordinates.

    Eigenvectors are defined up to signs, and up to rotations where eigenvalues meet, so their own
    coordinates can jump when one row changes, however wide the k-th gap. (Paper B, Proposition 5,
    equates the trace of A'B with the sum of its singular values at that point, which needs
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
    >>> from missdp.transforms import NEIGHBOURS, RowDomain
    >>> step = PCADimensionReducer(n_components=2, least_gap=0.1, least_overlap=0.5)
    >>> step.output_domain(RowDomain(rows=1000, columns=9)).columns
    2
    """

    def __init__(
        self,
        *,
        n_components: int,
        least_gap: float,
        least_overlap: float,
        moment: Moment = "covariance",
        frame: ArrayLike | None = None,
    ) -> None:
        super().__init__(n_components=n_components, least_gap=least_gap, moment=moment)
        self.least_overlap = least_overlap
        self.frame = frame

    def conditions(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return the bounds on the eigen-gap and on the overlap with the frame."""
        return (*super().conditions(domain), FrameOverlap(float(self.least_overlap)))

    def stability(self, distance: TableDistance, domain: RowDomain) -> TableDistance:
        """Return the bound: every other row moves with the fitted coordinates."""
        rho = float(self.least_overlap)
        require(0 < rho <= 1, "least_overlap must be in (0, 1]")
        turn = self.subspace_shift(distance, domain) * (1 / rho + 1 / (2 * rho**2))
        return distance.after(
            rows=domain.rows,
            lipschitz=1.0,
            shift=domain.radius * min(2.0, turn),
            hit=domain.rows,
            diameter=domain.diameter,
        )

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return the domain with k columns."""
        return replace(super().output_domain(domain), columns=int(self.n_components))

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
        basis = _top(table, int(self.n_components), self.moment)[0]
        left, _, right = np.linalg.svd(basis.T @ self._frame(table.shape[1]))
        return {"basis": basis @ (left @ right)}

    def _apply(self, table: FloatArray, state: PrivateState) -> FloatArray:
        return np.asarray(table @ state["basis"])

    def _frame(self, columns: int) -> FloatArray:
        k = int(self.n_components)
        if self.frame is None:
            return np.eye(columns, k)
        frame = np.asarray(self.frame, dtype=np.float64)
        require(frame.shape == (columns, k), "frame must have one row per column and k columns")
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
