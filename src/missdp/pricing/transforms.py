"""Steps that rewrite complete rows: scaling, principal components, and good clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from missdp.accounting import Condition, EigenGap
from missdp.errors import ParameterError, UnprovenError, check_integer, replacing
from missdp.pricing.domain import RowDomain, TableDistance, count, real, require, word_of
from missdp.pricing.steps import (
    CovarianceGap,
    ExtremeGaps,
    FrameOverlap,
    LargestCluster,
    MinRange,
    MinStandardDeviation,
    Response,
    RowFunction,
    StableTransformer,
)
from missdp.types import Floats, Ints


@dataclass(kw_only=True, eq=False, repr=False)
class StandardScaler(StableTransformer):
    """Preprocessing step that subtracts each column's mean and divides by its standard deviation.

    Means and standard deviations (divisor n) are computed without noise from the private table, and
    the price of the pipeline accounts for them. Scaling by declared bounds costs nothing.

    Parameters
    ----------
    min_std : float
        Lower bound on the standard deviation of every column, at least 1e-100, in the units of
        the columns.
    below : {"assume", "floor"}, default "assume"
        Meaning of ``min_std``. With ``"assume"``, it is a condition of the guarantee, which is
        stated and is not checked against the table. With ``"floor"``, smaller standard
        deviations are raised to it, so that no condition is needed. The bound is then slightly
        larger.

    Raises
    ------
    ParameterError
        If a parameter is out of range.

    Notes
    -----
    Write n for the number of rows, q for the number of columns, R for the radius and s for
    ``min_std``. Write h for the number of replaced rows and tau for the summed shift of rows by
    earlier steps. Means differ by at most (2 R h + tau) / n in norm. For one column, v' - v is at
    most the mean change of (x - mu)^2, because subtracting (mu' - mu)^2 only lowers it. This also
    holds with the tables exchanged. Each replaced row contributes at most w^2, and each moved row 2
    w d. So |v - v'| <= (h w^2 + 2 w tau) / n, where w bounds |x_j - mu_j|. With |1/sigma -
    1/sigma'| <= |v - v'| / (2 s^3), a row x moves by

        |x - mu| (h w^2 + 2 w tau) / (2 n s^3) + (2 R h + tau) / (n s).

    ``"assume"``: sigma^2 <= (R - mu)(R + mu) (Bhatia & Davis 2000) gives w = R + sqrt(R^2 - s^2),
    and |mu|^2 <= R^2 - q s^2 gives |x - mu| <= R + sqrt(R^2 - q s^2). ``"floor"``: raising the
    variance to s^2 is a contraction, and w = |x - mu| = 2 R.

    References
    ----------
    Bhatia & Davis (2000), for the bound on a variance.

    Examples
    --------
    >>> from missdp.pricing import StandardScaler
    >>> from missdp.pricing import NEIGHBOURS, RowDomain
    >>> step = StandardScaler(min_std=0.5)
    >>> after = step.stability(NEIGHBOURS, RowDomain(rows=1000, columns=1))
    >>> after.shifted_rows, round(after.max_shift, 4)
    (999, 0.03)
    """

    min_std: float = real(low=1e-100)
    below: Literal["assume", "floor"] = field(default="assume", metadata=word_of("assume", "floor"))

    def assumed(self, domain: RowDomain) -> tuple[Condition, ...]:  # noqa: ARG002
        """Return the condition of the guarantee that bounds standard deviations from below.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        tuple of Condition
            Public. Empty if ``below`` is ``"floor"``. The condition is stated with the
            guarantee and is not checked against the table.
        """
        return () if self.below == "floor" else (MinStandardDeviation(self.min_std),)

    def response(self, distance: TableDistance, domain: RowDomain) -> Response:
        """Return a bound on the distance between rows scaled by the deviations of two tables.

        All rows change, because they are scaled by the means and standard deviations of the table.

        Parameters
        ----------
        distance : TableDistance
            Public upper bound on the difference between the two tables that reach the step.
            `NEIGHBOURS` stands for one replaced row.
        domain : RowDomain
            Public facts about both tables: their shape, the largest row norm, and whether cells
            may be missing.

        Returns
        -------
        Response
            Public. Its ``shift`` is a Euclidean norm in the units of the output columns, and
            its ``shifted_rows`` is a number of rows.

        Raises
        ------
        ParameterError
            If no table of the domain has so large a ``min_std`` in every column.
        """
        n, R, s = domain.rows, domain.radius, self.min_std
        width, norm = self._reach(domain)
        h, tau = distance.replaced, distance.shift_l12
        variance = min((h * width**2 + 2 * width * tau) / n, width**2)
        mean = min((2 * R * h + tau) / n, 2 * R)
        shift = norm * variance / (2 * s**3) + mean / s
        return Response(lipschitz=1 / s, shift=shift, shifted_rows=n)

    def radius_after(self, domain: RowDomain) -> float:
        """Return a bound on a row's Euclidean norm after scaling by standard deviations.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        float
            Public upper bound on the norm of a row, without unit. It is the bound on a centred
            row over ``min_std``.

        Raises
        ------
        ParameterError
            If no table of the domain has so large a ``min_std`` in every column.
        """
        return self._reach(domain)[1] / self.min_std

    def distance_to_failure(
        self, values: Floats, incoming: TableDistance, domain: RowDomain
    ) -> float:
        """Return how many rows must at least be replaced before a deviation is too small.

        It is the surplus of the smallest variance over the squared ``min_std``, divided by the
        largest change of a variance. This change is (4 R^2 h + 4 R tau) / n for radius R, h
        replaced rows and summed shift tau. It is infinite if ``below`` is ``"floor"``.

        Parameters
        ----------
        values : ndarray of float, shape (n_rows, n_columns)
            Private rows that reach the step.
        incoming : TableDistance
            Public upper bound on the difference between two neighbouring tables where they
            reach the step.
        domain : RowDomain
            Public facts about these tables: their shape, the largest row norm, and whether
            cells may be missing.

        Returns
        -------
        float
            A number of row replacements, at least 0. Private.
        """
        if self.below == "floor":
            return math.inf
        variance = float(values.var(axis=0).min())
        R, n = domain.radius, domain.rows
        step = (4 * R**2 * incoming.replaced + 4 * R * incoming.shift_l12) / n
        return max(0.0, (variance - self.min_std**2) / max(step, 1e-300))

    def _reach(self, domain: RowDomain) -> tuple[float, float]:
        """Bounds on |x_j - mu_j| and |x - mu|."""
        R, s = domain.radius, self.min_std
        if self.below == "floor":
            return 2 * R, 2 * R
        spare = R**2 - domain.columns * s**2
        require(spare >= 0, "no table in this domain has so large a min_std in every column")
        return R + math.sqrt(R**2 - s**2), R + math.sqrt(spare)

    def _learn(self, table: Floats) -> RowFunction:
        # Without the conditions a column could be constant. With them the floor changes nothing.
        mean, spread = table.mean(axis=0), np.maximum(table.std(axis=0), self.min_std)
        return lambda rows: (rows - mean) / spread


@dataclass(kw_only=True, eq=False, repr=False)
class MinMaxScaler(StableTransformer):
    """Preprocessing step that scales each column to [0, 1] by its minimum and maximum.

    Minima and maxima are computed without noise from the private table, and the price of the
    pipeline accounts for them. Scaling by declared bounds costs nothing.

    Parameters
    ----------
    min_range : float
        Condition of the guarantee: maximum and minimum of every column differ by at least this.
        At least 1e-100, in the units of the columns. Conditions are stated with the guarantee
        and are not checked against the table.
    extreme_gap : float
        Condition of the guarantee: consecutive values at either end of a column differ by at
        most this. At least 0, in the units of the columns.
    extreme_ranks : int, default 1
        Number of the outermost gaps at either end that ``extreme_gap`` covers, at least 1. It must
        be at least the number of rows that may be replaced before this step.

    Raises
    ------
    ParameterError
        If a parameter is out of range.

    Notes
    -----
    Let h be the number of replaced rows and Delta be the largest shift of a row by earlier steps.
    Let g be ``extreme_gap``, r be ``min_range`` and m a column's minimum without the replaced rows.
    In either table the minimum lies in [m - h g, m], because the condition bounds its h outermost
    gaps. Moved rows move m by at most Delta. So minimum and maximum move by at most delta = h g +
    Delta. For y = (x - a) / (b - a) in [0, 1], ``y' - y = ((1 - y)(a - a') + y (b - b')) / (b' -
    a')``, at most delta / r.

    Examples
    --------
    >>> from missdp.pricing import MinMaxScaler
    >>> from missdp.pricing import NEIGHBOURS, RowDomain
    >>> step = MinMaxScaler(min_range=1.0, extreme_gap=0.01)
    >>> round(step.stability(NEIGHBOURS, RowDomain(rows=100, columns=4)).max_shift, 6)
    0.02
    """

    min_range: float = real(low=1e-100)
    extreme_gap: float = real()
    extreme_ranks: int = count(1)

    def assumed(self, domain: RowDomain) -> tuple[Condition, ...]:  # noqa: ARG002
        """Return the conditions of the guarantee on ranges and on gaps at the extremes.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        tuple of Condition
            Public. The conditions are stated with the guarantee and are not checked against the
            table.
        """
        return (MinRange(self.min_range), ExtremeGaps(self.extreme_gap, self.extreme_ranks))

    def response(self, distance: TableDistance, domain: RowDomain) -> Response:
        """Return a bound on the distance between rows scaled by the extremes of two tables.

        All rows change, because they are scaled by the extremes of the table.

        Parameters
        ----------
        distance : TableDistance
            Public upper bound on the difference between the two tables that reach the step.
            `NEIGHBOURS` stands for one replaced row.
        domain : RowDomain
            Public facts about both tables: their shape, the largest row norm, and whether cells
            may be missing.

        Returns
        -------
        Response
            Public. Its ``shift`` is a Euclidean norm in the units of the output columns, and
            its ``shifted_rows`` is a number of rows.

        Raises
        ------
        UnprovenError
            If more rows may be replaced before this step than ``extreme_ranks``.
        """
        if distance.replaced > self.extreme_ranks:
            raise UnprovenError(
                f"extreme_gap covers {self.extreme_ranks} gaps, but {distance.replaced} rows may "
                "be replaced before min-max scaling. Declare more extreme_ranks"
            )
        r, delta = self.min_range, distance.replaced * self.extreme_gap + distance.max_shift
        side = math.sqrt(domain.columns)
        return Response(
            lipschitz=1 / r, shift=side * delta / r, shifted_rows=domain.rows, diameter=side
        )

    def radius_after(self, domain: RowDomain) -> float:
        """Return a bound on a row's Euclidean norm after scaling to [0, 1].

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        float
            The square root of the number of columns. Public, without unit.
        """
        return math.sqrt(domain.columns)

    def _learn(self, table: Floats) -> RowFunction:
        low, spread = table.min(axis=0), np.maximum(np.ptp(table, axis=0), self.min_range)
        return lambda rows: np.clip((rows - low) / spread, 0.0, 1.0)


Moment = Literal["covariance", "second"]
# Largest less smallest eigenvalue of n times the matrix's change: per replaced row over R^2, and
# per unit of movement over R.
_SPREAD = {"covariance": (3 * math.sqrt(3), 4.0), "second": (2.0, 2.0)}


@dataclass(kw_only=True, eq=False, repr=False)
class PCARankReducer(StableTransformer):
    """Preprocessing step that projects rows on the k largest principal components.

    The projected rows keep their columns and lie in a subspace of dimension k. The components are
    computed without noise from the private table, and the price of the pipeline accounts for them.
    Use `PCADimensionReducer` for rows with k columns.

    Parameters
    ----------
    n_components : int
        Rank k of the projection, at least 1 and below the number of columns.
    min_gap : float
        Condition of the guarantee: eigenvalues k and k + 1 (in decreasing order) differ by at
        least this. At least 1e-100, in squared units of the columns. It is stated with the
        guarantee and is not checked against the table.
    moment : {"covariance", "second"}, default "covariance"
        The matrix whose eigenvectors are used: the covariance with divisor n - 1, or the second
        moment X'X / n. One row can turn eigenvectors of the second moment by less. Rows are
        projected without centring in either case.

    Raises
    ------
    ParameterError
        If a parameter is out of range.

    Notes
    -----
    Let n be the number of rows, R the radius, h the number of replaced rows and tau the summed
    shift of rows by earlier steps. Let beta be ``min_gap``. *Change of the matrix.* Let the spread
    of a symmetric matrix be its largest less its smallest eigenvalue. The spread of a sum is at
    most the sum of spreads. Covariance: let z' replace z, let m be the mean of the n - 1 other
    rows, and let a = z - m and b = z' - m. The matrix changes by exactly (b b' - a a') / n. The
    eigenvalues other than 0 have the sum (|b|^2 - |a|^2) / n and the product ((a.b)^2 - |a|^2
    |b|^2) / n^2. So the spread is |a - b| |a + b| / n. With s = |z + z'|, |a - b| <= sqrt(4 R^2 -
    s^2) and |a + b| <= s + 2 R. The product is largest at s = R: 3 sqrt(3) R^2 / n. Second moment:
    m = 0, and |z - z'| |z + z'| <= 2 R^2. A row that moves by d adds at most 4 R d / n (covariance)
    or 2 R d / n.

    *Change of the projection.* P and P' are also the top-k projections of A and of A' - c I, for
    any c. Both gaps are at least beta, so (lambda_k - lambda'_{k+1} + c) + (lambda'_k - c -
    lambda_{k+1}) >= 2 beta and one of the two is at least beta. The sin-theta theorem of Davis &
    Kahan (1970) holds for spectra separated by beta. From that side it gives |P - P'| = |sin theta|
    <= |A' - A - c I| / beta, with constant 1 and no side condition. The best c is midway between
    the extreme eigenvalues of A' - A, and leaves half its spread. So |P - P'| <= (3 sqrt(3) / 2 R^2
    h + 2 R tau) / (n beta) for the covariance. For the second moment it is at most (R^2 h + R tau)
    / (n beta). Adversarial tables attain this bound. A row moves by R |P - P'|.

    References
    ----------
    Davis & Kahan (1970), for the sin-theta theorem.
    Hu, Sanyal & Schölkopf (2024), for the stability of principal components.

    Examples
    --------
    >>> from missdp.pricing import PCARankReducer
    >>> from missdp.pricing import NEIGHBOURS, RowDomain
    >>> step = PCARankReducer(n_components=2, min_gap=0.1)
    >>> round(step.stability(NEIGHBOURS, RowDomain(rows=1000, columns=9)).max_shift, 6)
    0.025981
    """

    n_components: int = count()
    min_gap: float = real(low=1e-100)
    moment: Moment = field(default="covariance", metadata=word_of("covariance", "second"))

    def assumed(self, domain: RowDomain) -> tuple[Condition, ...]:  # noqa: ARG002
        """Return the condition of the guarantee on the gap between eigenvalues k and k + 1.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        tuple of Condition
            Public. The conditions are stated with the guarantee and are not checked against the
            table.
        """
        kind = CovarianceGap if self.moment == "covariance" else EigenGap
        return (kind(self.n_components, self.min_gap),)

    def response(self, distance: TableDistance, domain: RowDomain) -> Response:
        """Return a bound on the distance between rows projected on the components of two tables.

        All rows change, because they are projected on the principal components of the table.

        Parameters
        ----------
        distance : TableDistance
            Public upper bound on the difference between the two tables that reach the step.
            `NEIGHBOURS` stands for one replaced row.
        domain : RowDomain
            Public facts about both tables: their shape, the largest row norm, and whether cells
            may be missing.

        Returns
        -------
        Response
            Public. Its ``shift`` is a Euclidean norm in the units of the output columns, and
            its ``shifted_rows`` is a number of rows.
        """
        shift = domain.radius * self.subspace_shift(distance, domain)
        return Response(shift=shift, shifted_rows=domain.rows)

    def subspace_shift(self, distance: TableDistance, domain: RowDomain) -> float:
        """Return the largest change of the projection on principal components between two tables.

        The change is measured by the operator norm of the difference of the two projection
        matrices.

        Parameters
        ----------
        distance : TableDistance
            Public upper bound on the difference between the two tables that reach the step.
            `NEIGHBOURS` stands for one replaced row.
        domain : RowDomain
            Public facts about both tables: their shape, the largest row norm, and whether cells
            may be missing.

        Returns
        -------
        float
            Public upper bound on the operator norm, in [0, 1].
        """
        return min(1.0, self._spread(distance, domain) / (2 * self.min_gap))

    def _spread(self, distance: TableDistance, domain: RowDomain) -> float:
        """Bound on the spread of the change of the matrix."""
        per_row, per_move = _SPREAD[self.moment]
        change = per_row * domain.radius * distance.replaced + per_move * distance.shift_l12
        return change * domain.radius / domain.rows

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return public facts about the table after projection on principal components.

        A projection keeps the columns and does not lengthen rows, so the facts do not change.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        RowDomain
            Public facts about the transformed table.

        Raises
        ------
        ParameterError
            If ``n_components`` is not below the number of columns, or cells may be missing.
        """
        below = self.n_components < domain.columns
        require(below, "n_components must be at least 1 and below the number of columns")
        return super().output_domain(domain)

    def distance_to_failure(
        self, values: Floats, incoming: TableDistance, domain: RowDomain
    ) -> float:
        """Return how many rows must at least be replaced before the eigenvalue gap is too small.

        It is the surplus of the gap over ``min_gap``, divided by the largest change of the gap. By
        Weyl's inequality, the gap changes by at most the spread (largest less smallest eigenvalue)
        of the matrix's change. For one replaced row this is 3 sqrt(3) R^2 / n for the covariance,
        and 2 R^2 / n for the second moment.

        Parameters
        ----------
        values : ndarray of float, shape (n_rows, n_columns)
            Private rows that reach the step.
        incoming : TableDistance
            Public upper bound on the difference between two neighbouring tables where they
            reach the step.
        domain : RowDomain
            Public facts about these tables: their shape, the largest row norm, and whether
            cells may be missing.

        Returns
        -------
        float
            A number of row replacements, at least 0. Private.
        """
        gap = _top(values, self.n_components, self.moment)[1]
        step = max(self._spread(incoming, domain), 1e-300)
        return max(0.0, (gap - self.min_gap) / step)

    def _learn(self, table: Floats) -> RowFunction:
        basis = self._basis(table)
        return lambda rows: (rows @ basis) @ basis.T

    def _basis(self, table: Floats) -> Floats:
        within = self.n_components <= table.shape[1]
        require(within, "n_components is above the number of columns")
        return _top(table, self.n_components, self.moment)[0]


@dataclass(kw_only=True, eq=False, repr=False)
class PCADimensionReducer(PCARankReducer):
    """Preprocessing step that replaces each row by its k coordinates on principal components.

    The components are computed without noise from the private table, and the price of the pipeline
    accounts for them. Eigenvectors are defined up to signs, and up to rotations if eigenvalues are
    equal. So their own coordinates can jump when one row is replaced. Here the coordinates come
    from a public frame, a matrix G of k orthonormal directions. With P the projection, rows are
    mapped by the polar factor U = P G (G'P G)^(-1/2).

    Parameters
    ----------
    n_components : int
        Number k of output columns, at least 1 and below the number of columns.
    min_gap : float
        Condition of the guarantee: eigenvalues k and k + 1 (in decreasing order) differ by at
        least this. At least 1e-100, in squared units of the columns. Conditions are stated with
        the guarantee and are not checked against the table.
    moment : {"covariance", "second"}, default "covariance"
        The matrix whose eigenvectors are used: the covariance with divisor n - 1, or the second
        moment X'X / n. Rows are not centred in either case.
    min_overlap : float
        Condition of the guarantee: the smallest singular value of P G is at least this, from
        1e-30 to 1.
    frame : array_like of float, shape (n_columns, n_components), or None, default None
        Public reference directions as columns, which are made orthonormal. None: the first k
        coordinate axes.

    Raises
    ------
    ParameterError
        If a parameter is out of range.

    Notes
    -----
    Let rho be ``min_overlap``, s = |P - P'| and H = (G'PG)^(1/2) >= rho. Then |H - H'| <= s / (2
    rho), and U - U' = (P - P') G H^-1 + U' (H' - H) H^-1. So |U - U'| <= s / rho + s / (2 rho^2).

    References
    ----------
    Davis & Kahan (1970), for the sin-theta theorem.
    Hu, Sanyal & Schölkopf (2024), for the stability of principal components.

    Examples
    --------
    >>> from missdp.pricing import PCADimensionReducer
    >>> from missdp.pricing import NEIGHBOURS, RowDomain
    >>> step = PCADimensionReducer(n_components=2, min_gap=0.1, min_overlap=0.5)
    >>> step.output_domain(RowDomain(rows=1000, columns=9)).columns
    2
    """

    min_overlap: float = real(low=1e-30, high=1.0)
    frame: ArrayLike | None = None

    def assumed(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return the conditions of the guarantee on the gap of eigenvalues and on the overlap.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        tuple of Condition
            Public. The conditions are stated with the guarantee and are not checked against the
            table.
        """
        return (*super().assumed(domain), FrameOverlap(self.min_overlap))

    def response(self, distance: TableDistance, domain: RowDomain) -> Response:
        """Return a bound on the distance between principal coordinates of rows in two tables.

        All rows change, because the coordinates depend on the principal components of the table.

        Parameters
        ----------
        distance : TableDistance
            Public upper bound on the difference between the two tables that reach the step.
            `NEIGHBOURS` stands for one replaced row.
        domain : RowDomain
            Public facts about both tables: their shape, the largest row norm, and whether cells
            may be missing.

        Returns
        -------
        Response
            Public. Its ``shift`` is a Euclidean norm in the units of the output columns, and
            its ``shifted_rows`` is a number of rows.
        """
        rho = self.min_overlap
        turn = self.subspace_shift(distance, domain) * (1 / rho + 1 / (2 * rho**2))
        return Response(shift=domain.radius * min(2.0, turn), shifted_rows=domain.rows)

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return public facts about the table of k principal coordinates.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        RowDomain
            Public facts about the transformed table, which has ``n_components`` columns.

        Raises
        ------
        ParameterError
            If ``n_components`` is not below the number of columns, or cells may be missing. A
            ``frame`` of another shape, or with entries that are not finite numbers, raises the
            error, too.
        """
        self._frame(domain.columns)
        return replace(super().output_domain(domain), columns=self.n_components)

    def distance_to_failure(
        self, values: Floats, incoming: TableDistance, domain: RowDomain
    ) -> float:
        """Raise an error, because no distance to failure of the condition on the overlap is known.

        So propose-test-release cannot replace the conditions of this step. The condition bounds the
        overlap between the principal subspace and the public frame.

        Parameters
        ----------
        values : ndarray of float, shape (n_rows, n_columns)
            Private rows. They are not read.
        incoming : TableDistance
            Public upper bound on the difference between two neighbouring tables. It is not read.
        domain : RowDomain
            Public facts about the tables that reach the step.

        Raises
        ------
        UnprovenError
            Always.
        """
        return StableTransformer.distance_to_failure(self, values, incoming, domain)

    def _learn(self, table: Floats) -> RowFunction:
        basis = self._basis(table)
        first, _, second = np.linalg.svd(basis.T @ self._frame(table.shape[1]))
        framed = basis @ (first @ second)
        return lambda rows: rows @ framed

    def _frame(self, columns: int) -> Floats:
        k = self.n_components
        if self.frame is None:
            return np.eye(columns, k)
        with replacing(TypeError, ValueError, by=ParameterError("frame must be numbers")):
            frame = np.asarray(self.frame, dtype=np.float64)
        require(frame.shape == (columns, k), "frame must have one row per column and k columns")
        require(bool(np.isfinite(frame).all()), "frame must be finite")
        return np.asarray(np.linalg.qr(frame)[0])


def _top(table: Floats, k: int, moment: Moment) -> tuple[Floats, float]:
    """Return an orthonormal basis of the top-k eigenspace, and the k-th eigen-gap."""
    n = table.shape[0]
    rows = table - table.mean(axis=0) if moment == "covariance" else table
    divisor = max(1, n - 1) if moment == "covariance" else n
    # Columns of the right factor beyond n rows span the null space: full matrices only if needed.
    _, singular, right = np.linalg.svd(rows, full_matrices=k >= min(table.shape))
    values = np.zeros(table.shape[1])
    values[: singular.size] = singular**2 / divisor
    return right[:k].T, float(values[k - 1] - values[k])


# Directions pairwise more than 60 degrees apart: at most the kissing number, and 5 in the plane.
# Published upper bounds of Levenshtein (1979), Musin (2008), and Mittelmann & Vallentin (2010).
_KISSING = {1: 2, 2: 5, 3: 12, 4: 24, 5: 44, 6: 78, 7: 134, 8: 240}


def packing_number(columns: int) -> int:
    """Return a bound on the number of isolated clusters of rows near any point.

    `Quantizer` and `Deduplicator` use it. A good cluster is the set of rows within a radius eta of
    a row that has no row between eta and 3 eta away. The bound counts good clusters with centres
    within 3 eta of one point. Centres of different good clusters are more than 3 eta apart. So the
    directions to any two centres are more than 60 degrees apart, and kissing numbers bound their
    number. Beyond eight dimensions, balls of radius 1.5 eta around the centres are disjoint and fit
    in one ball of radius 4.5 eta.

    Parameters
    ----------
    columns : int
        Public number of columns, at least 1.

    Returns
    -------
    int
        Public upper bound on the number of clusters, at least 1. From 30 columns on it is 3^30,
        which exceeds the number of rows of any table.

    Raises
    ------
    ParameterError
        If ``columns`` is not a whole number of at least 1.

    References
    ----------
    Levenshtein (1979), Musin (2008), and Mittelmann & Vallentin (2010), for kissing numbers.

    Examples
    --------
    >>> from missdp.pricing import packing_number
    >>> [packing_number(d) for d in (1, 2, 3, 9)]
    [2, 5, 12, 19683]
    """
    columns = check_integer("columns", columns)
    return _KISSING.get(columns, int(3 ** min(columns, 30)))


@dataclass(kw_only=True, eq=False, repr=False)
class Quantizer(StableTransformer):
    """Preprocessing step that replaces the rows of every isolated cluster by its centre.

    A row is a good centre if no row is between ``eta`` and 3 ``eta`` away. Its good cluster is the
    set of rows within ``eta``. Clusters are found without noise in the private table, and the price
    of the pipeline accounts for them. Put the step first in a chain: it counts every row that an
    earlier step changed as replaced. Use `fit_transform`, because only the fitted table has
    clusters.

    Parameters
    ----------
    eta : float
        Cluster radius as a Euclidean distance, at least 1e-100, in the units of the columns.
    max_cluster : int
        Condition of the guarantee: no good cluster has more rows than this number, which is at
        least 1. Conditions are stated with the guarantee and are not checked against the table.
    max_neighbours : int or None, default None
        Condition of the guarantee: at most this many good clusters, at least 1, have centres within
        3 ``eta`` of one point, whichever rows are removed. None: the bound of `packing_number`,
        which always holds.

    Raises
    ------
    ParameterError
        If a parameter is out of range.

    Notes
    -----
    Let b be ``max_cluster`` and K be the number of clusters near a point. Two good clusters that
    meet are equal, and centres of different ones are more than 3 eta apart. The centre with the
    lowest row number represents its cluster.

    Take away the h replaced rows. One more row z can only spoil good centres within 3 eta of it, at
    most K clusters. It can also be the centre of one cluster of its own, whose centres are then all
    within eta. So a common row is treated differently in the two tables only for some clusters. Its
    cluster must be among the K clusters around one of the 2 h replaced points. Its cluster has at
    most b rows, in one of the tables. These are at most 2 h K b rows.

    Being within a radius is not continuous, so rows that moved before count as replaced.

    The rows move by at most 2 eta: in either table a row is its own image or is mapped within eta.

    References
    ----------
    Hu, Sanyal & Schölkopf (2024), Proposition 3, whose bound is corrected here.

    Examples
    --------
    >>> from missdp.pricing import Quantizer
    >>> Quantizer(eta=0.1, max_cluster=2).fit_transform([[0.5], [0.55], [-0.5]])
    array([[ 0.5],
           [ 0.5],
           [-0.5]])
    """

    eta: float = real(low=1e-100)
    max_cluster: int = count()
    max_neighbours: int | None = count(None)

    _continuous = False

    def assumed(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return the condition of the guarantee: clusters are small, and few are near any point.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        tuple of Condition
            Public. The conditions are stated with the guarantee and are not checked against the
            table.
        """
        return (LargestCluster(self.eta, self.max_cluster, self._neighbours(domain)),)

    def response(self, distance: TableDistance, domain: RowDomain) -> Response:
        """Return a bound on the distance between rows quantised by the clusters of two tables.

        At most 2 h K b rows change, each by at most 2 ``eta``. Here h is the number of replaced
        rows, K the number of clusters near a point, and b is ``max_cluster``.

        Parameters
        ----------
        distance : TableDistance
            Public upper bound on the difference between the two tables that reach the step.
            `NEIGHBOURS` stands for one replaced row.
        domain : RowDomain
            Public facts about both tables: their shape, the largest row norm, and whether cells
            may be missing.

        Returns
        -------
        Response
            Public. Its ``shift`` is a Euclidean norm in the units of the output columns, and
            its ``shifted_rows`` is a number of rows.
        """
        shifted_rows = 2 * distance.replaced * self._neighbours(domain) * self.max_cluster
        return Response(shift=2 * self.eta, shifted_rows=shifted_rows)

    def distance_to_failure(
        self, values: Floats, incoming: TableDistance, domain: RowDomain
    ) -> float:
        """Return how many rows must at least be replaced before a cluster is too large.

        It is ``max_cluster`` + 1 less an upper bound on the cluster size, divided by the rows that
        change. The largest good cluster itself can jump when one row changes, because a row between
        two radii hides it. Any cluster lies in an interval of length 2 ``eta`` of each coordinate.
        The largest number of rows in *any* interval of this length changes by at most one per row.
        So does the smallest of these numbers over the coordinates.

        Parameters
        ----------
        values : ndarray of float, shape (n_rows, n_columns)
            Private rows that reach the step.
        incoming : TableDistance
            Public upper bound on the difference between two neighbouring tables where they
            reach the step.
        domain : RowDomain
            Public facts about these tables: their shape, the largest row norm, and whether
            cells may be missing.

        Returns
        -------
        float
            A number of row replacements, at least 0. Private.

        Raises
        ------
        UnprovenError
            If ``max_neighbours`` is given.
        """
        if self.max_neighbours is not None:
            raise UnprovenError(
                "a declared max_neighbours has no known distance to failure. Leave it unset to "
                "use the packing bound"
            )
        # A little wider, so that rounding cannot lose a row at the edge.
        width = 2 * self.eta * (1 + 1e-9) + 1e-12 * domain.radius
        crowd = domain.rows
        for column in np.sort(values, axis=0).T:
            last = np.searchsorted(column, column + width, side="right")
            crowd = min(crowd, int((last - np.arange(column.size)).max()))
        changes = incoming.replaced + incoming.shifted_rows
        return max(0.0, (self.max_cluster + 1 - crowd) / max(1, changes))

    def transform(self, X: Any) -> Floats:
        """Raise an error, because isolated clusters are defined only for the table that was fitted.

        Use `fit_transform`, which returns the fitted table.

        Parameters
        ----------
        X : object
            Ignored.

        Raises
        ------
        UnprovenError
            Always.
        """
        del X
        raise UnprovenError(
            f"{type(self).__name__} rewrites the table it is fitted on. Use fit_transform"
        )

    def fit_transform(self, X: Any, y: object = None, **params: object) -> Floats:  # noqa: ARG002
        """Fit a clustering step to a private table, and return the table with rewritten clusters.

        Nothing is charged, because a step on its own releases nothing.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_columns), or Table
            Private rows without missing cells.
        y : object, optional
            Ignored.
        **params : object
            Ignored.

        Returns
        -------
        ndarray of float, shape (n_rows, n_columns)
            Private rows, in the order of ``X``.

        Raises
        ------
        DataError
            If the input is not a table with at least one row and one column, or cells are missing.
        SchemaError
            If the schema of a `Table` has a unit of protection, weights, or facts that are not
            declared public.
        """
        return np.asarray(self.fit(X)._private(np.empty(0)))

    def _neighbours(self, domain: RowDomain) -> int:
        packing = packing_number(domain.columns)
        return min(packing, self.max_neighbours or packing)

    def _learn(self, table: Floats) -> RowFunction:
        rewritten = table[_centres(table, self.eta)]
        return lambda _: rewritten


class Deduplicator(Quantizer):
    """Preprocessing step that keeps one row of every isolated cluster and sets the others to 0.

    A row is a good centre if no row is between ``eta`` and 3 ``eta`` away. Its good cluster is the
    set of rows within ``eta``. Clusters are found without noise in the private table, and the price
    of the pipeline accounts for them. The number of rows stays the public number. A row of zeros
    adds nothing to sums, to moments, or to the gradient of a model without intercept. Put the step
    first in a chain.

    Parameters
    ----------
    eta : float
        Cluster radius as a Euclidean distance, at least 1e-100, in the units of the columns.
    max_cluster : int
        Condition of the guarantee: no good cluster has more rows than this number, which is at
        least 1. Conditions are stated with the guarantee and are not checked against the table.
    max_neighbours : int or None, default None
        Condition of the guarantee: at most this many good clusters, at least 1, have centres within
        3 ``eta`` of one point, whichever rows are removed. None: the bound of `packing_number`,
        which always holds.

    Raises
    ------
    ParameterError
        If a parameter is out of range.

    Notes
    -----
    At most 2 h K b rows change between the tables, from themselves to 0 or back, by at most the
    radius. The proof and the symbols are in `Quantizer`.

    References
    ----------
    Hu, Sanyal & Schölkopf (2024), Proposition 3, whose bound is corrected here.

    Examples
    --------
    >>> from missdp.pricing import Deduplicator
    >>> step = Deduplicator(eta=0.1, max_cluster=2)
    >>> step.fit_transform([[0.5], [0.5], [-0.5]])
    array([[ 0.5],
           [ 0. ],
           [-0.5]])
    """

    def response(self, distance: TableDistance, domain: RowDomain) -> Response:
        """Return a bound on the distance between rows deduplicated by the clusters of two tables.

        At most 2 h K b rows change, each by at most the radius of the domain. Here h is the number
        of replaced rows, K the number of clusters near a point, and b is ``max_cluster``.

        Parameters
        ----------
        distance : TableDistance
            Public upper bound on the difference between the two tables that reach the step.
            `NEIGHBOURS` stands for one replaced row.
        domain : RowDomain
            Public facts about both tables: their shape, the largest row norm, and whether cells
            may be missing.

        Returns
        -------
        Response
            Public. Its ``shift`` is a Euclidean norm in the units of the output columns, and
            its ``shifted_rows`` is a number of rows.
        """
        return super().response(distance, domain)._replace(shift=domain.radius)

    def _learn(self, table: Floats) -> RowFunction:
        is_representative = _centres(table, self.eta) == np.arange(len(table))
        rewritten = np.where(is_representative[:, None], table, 0.0)
        return lambda _: rewritten


def _centres(table: Floats, eta: float) -> Ints:
    """Return for each row the number of its cluster's representative, or its own number."""
    from scipy.spatial import cKDTree

    tree = cKDTree(table)
    near = tree.query_ball_point(table, eta, return_length=True)
    wide = tree.query_ball_point(table, 3 * eta, return_length=True)
    centre_of = np.arange(len(table))
    # Every good centre marks its rows. The lowest number is written last, and stays.
    for centre in np.flatnonzero(near == wide)[::-1]:
        centre_of[tree.query_ball_point(table[centre], eta)] = centre
    return centre_of
