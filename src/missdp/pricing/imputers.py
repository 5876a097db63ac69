"""Imputation by a constant, by a column's own statistic, by regression, and by near rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Condition
from missdp.errors import UnprovenError
from missdp.pricing.domain import RowDomain, TableDistance, count, real, require
from missdp.pricing.steps import (
    BoundedDonations,
    CentralGaps,
    IncompleteRows,
    MinEigenvalue,
    Response,
    RowFunction,
    StableTransformer,
    TrimmedRange,
)
from missdp.session.redaction import no_warnings
from missdp.types import Floats


@dataclass(kw_only=True, eq=False, repr=False)
class ConstantImputer(StableTransformer):
    """Preprocessing step that fills every missing cell with one declared value.

    The value is public and is not read from the data. So the step adds nothing to the price of a
    pipeline and needs no condition. It is the baseline for imputations that are fitted.

    Parameters
    ----------
    value : float, default 0.0
        Public value of a filled cell, from -1e100 to 1e100, in the units of the columns.

    Raises
    ------
    ParameterError
        If the value is out of range.

    Notes
    -----
    Two rows with missing cells in the same columns keep their distance, and nothing is fitted.

    Examples
    --------
    >>> from missdp.pricing import ConstantImputer
    >>> ConstantImputer(value=0.5).fit_transform([[0.1, float("nan")]])
    array([[0.1, 0.5]])
    """

    value: float = real(0.0, low=-1e100)

    _needs_complete, _fills, _each_by_itself = False, True, True

    def radius_after(self, domain: RowDomain) -> float:
        """Return a bound on a row's Euclidean norm after missing cells were filled with a constant.

        The bound combines the largest observed row with a row of filled cells only.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        float
            Public upper bound on the Euclidean norm of a row, in the units of the output columns.
            Above 0.
        """
        return math.hypot(domain.radius, abs(self.value) * math.sqrt(domain.columns))

    def _learn(self, table: Floats) -> RowFunction:
        del table
        return lambda rows: np.where(np.isnan(rows), self.value, rows)


@dataclass(kw_only=True, eq=False, repr=False)
class Imputer(StableTransformer):
    """Base class of preprocessing steps that fill the missing cells of a limited number of rows.

    A table whose domain is complete stays as it is, and the step then has no condition. A subclass
    defines ``_learn``, `response` and `radius_after`.

    Parameters
    ----------
    max_incomplete : int
        Condition of the guarantee: at most this many rows have a missing cell, at least 1. It
        is stated with the guarantee and is not checked against the table. It must be below the
        public number of rows.

    Raises
    ------
    ParameterError
        If a parameter is out of range.

    Examples
    --------
    >>> from missdp.pricing import Imputer, RowDomain, TrimmedMeanImputer
    >>> step = TrimmedMeanImputer(max_incomplete=10, trim=20, trimmed_range=0.5)
    >>> isinstance(step, Imputer)
    True
    >>> print(step.assumed(RowDomain(rows=550, columns=1, complete=False))[0])
    At most 10 rows have a missing cell, and none has more than 1.
    """

    max_incomplete: int = count()

    _needs_complete, _fills = False, True

    def assumed(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return the condition of the guarantee that limits the number of incomplete rows.

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

        Raises
        ------
        ParameterError
            If ``max_incomplete`` is not below the number of rows.
        """
        return (IncompleteRows(self._p(domain), self._cells(domain)),)

    def _p(self, domain: RowDomain) -> int:
        require(self.max_incomplete < domain.rows, "max_incomplete must be below the row count")
        return self.max_incomplete

    def _cells(self, domain: RowDomain) -> int:
        """Bound on the missing cells of one row."""
        return domain.columns


@dataclass(kw_only=True, eq=False, repr=False)
class ColumnImputer(Imputer):
    """Base class of preprocessing steps that fill a column's missing cells with its statistic.

    The statistic is computed from the observed values of the private table, without noise. A
    subclass defines ``_statistic`` and `shift`. A column without any observed value is filled with
    0.

    Parameters
    ----------
    max_incomplete : int
        Condition of the guarantee: at most this many rows have a missing cell, at least 1. It
        is stated with the guarantee and is not checked against the table.
    cells_per_row : int or None, default None
        Condition of the guarantee: no row has more missing cells than this number, which is at
        least 1. No private test can replace a number below the number of columns. None: the number
        of columns, which always holds.

    Raises
    ------
    ParameterError
        If a parameter is out of range.

    Notes
    -----
    Let p be ``max_incomplete``. At most p rows change, and only in their imputed cells. Observed
    and imputed cells are different coordinates. So two versions of a row that are d apart before
    are at most hypot(d, shift) <= d + shift apart after. Subclasses bound the shift of one row's
    imputed cells.

    Examples
    --------
    >>> from missdp.pricing import ColumnImputer, MedianImputer
    >>> step = MedianImputer(max_incomplete=1, central_gap=0.5)
    >>> isinstance(step, ColumnImputer)
    True
    >>> step.fit_transform([[0.1], [float("nan")], [0.2], [0.9]]).tolist()
    [[0.1], [0.2], [0.2], [0.9]]
    """

    cells_per_row: int | None = count(None)

    def response(self, distance: TableDistance, domain: RowDomain) -> Response:
        """Return a bound on the distance between rows that are imputed from two different tables.

        The imputed cells of up to ``max_incomplete`` rows change, each row by at most `shift`.

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
            If ``max_incomplete`` is not below the number of rows.
        UnprovenError
            If no bound on the statistic is proven for these tables.
        """
        return Response(shift=self.shift(distance, domain), shifted_rows=self._p(domain))

    def shift(self, distance: TableDistance, domain: RowDomain) -> float:
        """Return a bound on the change of a row's imputed cells if the table of the fit changes.

        Subclasses define this method.

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
            Public upper bound on the Euclidean norm of the change, in the units of the columns. At
            least 0.

        Raises
        ------
        ParameterError
            If ``max_incomplete`` is not below the number of rows.
        NotImplementedError
            If the subclass defines no bound.
        """
        raise NotImplementedError

    def radius_after(self, domain: RowDomain) -> float:
        """Return a bound on a row's Euclidean norm after the imputation of missing cells.

        The squares of the largest observed row and of the largest imputed cells are added.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        float
            Public upper bound on the Euclidean norm of a row, in the units of the output columns.
            Above 0.

        Raises
        ------
        ParameterError
            If the bound needs ``max_incomplete`` below the number of rows and it is not, as for a
            mean.
        """
        if domain.columns == 1:  # A row is either observed or imputed.
            return domain.radius
        return math.hypot(domain.radius, self._imputed_norm(domain))

    def distance_to_failure(
        self, values: Floats, incoming: TableDistance, domain: RowDomain
    ) -> float:
        """Return how many rows must at least be replaced before too many rows are incomplete.

        It is (``max_incomplete`` + 1 - the number of incomplete rows) / max(1,
        ``incoming.replaced``), at least 0. A shifted row keeps its missing cells. So the number of
        incomplete rows changes by at most the number of replaced rows.

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
            If the step has another condition on the table, as a bound on missing cells per row.
        """
        if self.conditions(domain) != (IncompleteRows(self.max_incomplete, domain.columns),):
            return super().distance_to_failure(values, incoming, domain)
        incomplete = int(np.isnan(values).any(axis=1).sum())
        return max(0.0, (self._p(domain) + 1 - incomplete) / max(1, incoming.replaced))

    def _cells(self, domain: RowDomain) -> int:
        return min(self.cells_per_row or domain.columns, domain.columns)

    def _imputed_norm(self, domain: RowDomain) -> float:
        return domain.radius * math.sqrt(self._cells(domain))

    def _statistic(self, table: Floats) -> Floats:
        raise NotImplementedError

    def _learn(self, table: Floats) -> RowFunction:
        with no_warnings():  # the column may have no value, and is then filled with 0
            fill = np.nan_to_num(self._statistic(table))
        return lambda rows: np.where(np.isnan(rows), fill, rows)


class MeanImputer(ColumnImputer):
    """Preprocessing step that fills missing cells with the mean of the column's observed values.

    The mean is computed without noise from the private table, and the price of the pipeline
    accounts for it. Use the step if few rows are incomplete. `ConstantImputer` adds nothing to the
    price.

    Parameters
    ----------
    max_incomplete : int
        Condition of the guarantee: at most this many rows have a missing cell, at least 1. It
        is stated with the guarantee and is not checked against the table.
    cells_per_row : int or None, default None
        Condition of the guarantee: no row has more missing cells than this number, which is at
        least 1. No private test can replace a number below the number of columns. None: the number
        of columns, which always holds.

    Raises
    ------
    ParameterError
        If a parameter is out of range.

    Notes
    -----
    Let n be the number of rows, p be ``max_incomplete`` and tau be the summed shift of rows by
    earlier steps. Let m = n - p, a lower bound on the observed values of any column, and R the
    radius. For a column j, let the table with more observed values have n_j of them. The two means
    differ by ``u_j / n_j`` with ``u_j = D_j + Z_j - Z'_j -+ c_j mu_j``. D is the summed difference
    of common rows (norm at most tau). Z and Z' are the sums of the replaced rows' observed values.
    c_j is the difference of the numbers of observed replaced rows, and mu_j is the mean on the
    other side.

    One replaced row: if both rows are observed, u_j = z_j - z'_j. If one row is observed, u_j is
    z_j less the mean of the others. Since (a + b)^2 <= 2 a^2 + 2 b^2, ``|u|^2 <= 2 |z|^2 + 2 |z'|^2
    + 2 |mu|^2 <= 4 R^2 + 2 M^2`` with M^2 = (n - 1) R^2 / m, as a column's squared mean is at most
    its mean square. With one missing cell per row only one coordinate counts, and |u_j| <= 2 R.

    References
    ----------
    Hu, Sanyal & Schölkopf (2024), Corollary 4, whose bound holds for one missing cell in a row.

    Examples
    --------
    >>> from missdp.pricing import MeanImputer
    >>> from missdp.pricing import NEIGHBOURS, RowDomain
    >>> domain = RowDomain(rows=1000, columns=1, complete=False)
    >>> after = MeanImputer(max_incomplete=10).stability(NEIGHBOURS, domain)
    >>> after.shifted_rows, round(after.shift_l12, 5)
    (10, 0.0202)
    """

    def shift(self, distance: TableDistance, domain: RowDomain) -> float:
        """Return a bound on the change of a row's imputed cells if the mean is of another table.

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
            Public upper bound on the Euclidean norm of the change, in the units of the columns. At
            least 0.

        Raises
        ------
        ParameterError
            If ``max_incomplete`` is not below the number of rows.
        """
        n, R, h, tau = domain.rows, domain.radius, distance.replaced, distance.shift_l12
        m = n - self._p(domain)
        if self._cells(domain) == 1:
            replaced = 2 * R * h
        elif h == 1:
            # The other side's mean may itself have moved, by at most tau / m.
            replaced = R * math.sqrt(4 + 2 * (n - 1) / m) + tau / m
        else:
            replaced = h * R * (2 + math.sqrt(2 * n / m))
        return (replaced * (h > 0) + tau) / m

    def _imputed_norm(self, domain: RowDomain) -> float:
        if self._cells(domain) == 1:
            return domain.radius
        # |mu|^2 <= sum over columns of the mean square <= n R^2 / (n - p).
        n = domain.rows
        average = domain.radius * math.sqrt(n / (n - self._p(domain)))
        return min(average, super()._imputed_norm(domain))

    def _statistic(self, table: Floats) -> Floats:
        return np.asarray(np.nanmean(table, axis=0))


@dataclass(kw_only=True, eq=False, repr=False)
class MedianImputer(ColumnImputer):
    """Preprocessing step that fills missing cells with the median of the column's observed values.

    The median is computed without noise from the private table, and the price of the pipeline
    accounts for it. Use the step for columns with many values near the median. Without the
    condition on gaps, one replaced row could shift the median across the range of a column.

    Parameters
    ----------
    max_incomplete : int
        Condition of the guarantee: at most this many rows have a missing cell, at least 1. All
        conditions of this step are stated with the guarantee and are not checked against the
        table.
    central_gap : float
        Condition of the guarantee: near the median, consecutive observed values of a column
        differ by at most this much. In the units of the columns, at least 0.
    central_ranks : int, default 2
        Number of ranks on either side of the median that ``central_gap`` covers, at least 1. It
        must exceed the number of rows that may be replaced before this step.
    cells_per_row : int or None, default None
        Condition of the guarantee: no row has more missing cells than this number, which is at
        least 1. None: the number of columns, which always holds.

    Raises
    ------
    ParameterError
        If a parameter is out of range.

    Notes
    -----
    Let n be the number of rows, p be ``max_incomplete``, g be ``central_gap`` and R be the radius.
    Delta is the largest shift of a row by earlier steps. Let a column lose a of its N observed
    values and gain b others, a and b at most h, the replaced rows. Let A(r) be the value at rank r
    (from 0, interpolated halfway), and s = (a + b)/2 <= h. The median m = A((N - 1)/2) becomes a
    value between A((N - 1)/2 - s) and A((N - 1)/2 + s), if these ranks exist. These are h gaps of
    at most g, all within h + 1 ranks of the middle. If they do not, and in the other table neither,
    at most min(a, b) values are common to both. If there is one at all, the smallest common value
    has rank at most a, and at most b. It is within (N - 1)/2 gaps of one median from below, and
    within b - (N' - 1)/2 of the other, or the other way round. Together these are s gaps again. If
    there is none, the gaps of one table do not bound the other table. So unless n - p > h, the
    median may move by 2 R. Values that move by at most Delta move any order statistic by at most
    Delta. A row's imputed cells move by at most sqrt(q) (h g + Delta), q the missing cells of a
    row.

    Examples
    --------
    >>> from missdp.pricing import MedianImputer
    >>> from missdp.pricing import NEIGHBOURS, RowDomain
    >>> step = MedianImputer(max_incomplete=10, central_gap=0.01)
    >>> round(step.shift(NEIGHBOURS, RowDomain(rows=500, columns=4, complete=False)), 6)
    0.02
    """

    central_gap: float = real()
    central_ranks: int = count(2)

    def assumed(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return the conditions of the guarantee on incomplete rows and on gaps near the median.

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

        Raises
        ------
        ParameterError
            If ``max_incomplete`` is not below the number of rows.
        """
        return (*super().assumed(domain), CentralGaps(self.central_gap, self.central_ranks))

    def shift(self, distance: TableDistance, domain: RowDomain) -> float:
        """Return a bound on the change of a row's imputed cells if the median is of another table.

        The bound is the range of the columns if ``central_ranks`` does not exceed the replaced
        rows.

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
            Public upper bound on the Euclidean norm of the change, in the units of the columns. At
            least 0.

        Raises
        ------
        ParameterError
            If ``max_incomplete`` is not below the number of rows.
        """
        h, common = distance.replaced, domain.rows - self._p(domain) - distance.replaced
        jump = h * self.central_gap
        if h > 0 and (h >= self.central_ranks or common < 1):
            # The declared gaps do not reach that far, or lie between values that are all replaced.
            jump = 2 * domain.radius
        each = min(jump + distance.max_shift, 2 * domain.radius)
        return math.sqrt(self._cells(domain)) * each

    def _statistic(self, table: Floats) -> Floats:
        return np.asarray(np.nanmedian(table, axis=0))


@dataclass(kw_only=True, eq=False, repr=False)
class TrimmedMeanImputer(ColumnImputer):
    """Preprocessing step that fills missing cells with the trimmed mean of the column.

    The trimmed mean drops the ``trim`` smallest and the ``trim`` largest observed values of a
    column. It is computed without noise from the private table, and the price of the pipeline
    accounts for it. It changes less than the mean if one row is replaced and the retained values
    have a small range.

    Parameters
    ----------
    max_incomplete : int
        Condition of the guarantee: at most this many rows have a missing cell, at least 1. All
        conditions of this step are stated with the guarantee and are not checked against the
        table.
    trim : int
        Number of observed values to drop at either end of a column, at least 1. ``max_incomplete``
        + 2 ``trim`` must be below the number of rows.
    trimmed_range : float
        Condition of the guarantee: the ``trim``-th smallest and ``trim``-th largest observed
        value of a column differ by at most this much. In the units of the columns, at least 0.
    cells_per_row : int or None, default None
        Condition of the guarantee: no row has more missing cells than this number, which is at
        least 1. None: the number of columns, which always holds.

    Raises
    ------
    ParameterError
        If a parameter is out of range.

    Notes
    -----
    Let n be the number of rows, p be ``max_incomplete``, R be the radius and tau be the summed
    shift of rows by earlier steps. Let N be the number of observed values of a column, N >= n - p,
    m be ``trim`` and r be ``trimmed_range``. Replacing one value shifts the window of retained
    order statistics by at most one rank. Its sum changes by at most r, and the mean by r / (N -
    2m). Dropping one of N + 1 values removes one retained value v (or shifts the window by one).
    The mean changes by |mean - v| / (N - 2m) <= r / (N - 2m). Sorting is a contraction in the
    summed absolute difference, so moved rows add at most tau / (N - 2m) in Euclidean norm
    (Minkowski over columns). For several replaced rows r becomes the full range 2 R per row, since
    tables in between need not satisfy the condition.

    Examples
    --------
    >>> from missdp.pricing import TrimmedMeanImputer
    >>> from missdp.pricing import NEIGHBOURS, RowDomain
    >>> step = TrimmedMeanImputer(max_incomplete=10, trim=20, trimmed_range=0.5)
    >>> round(step.shift(NEIGHBOURS, RowDomain(rows=550, columns=1, complete=False)), 6)
    0.001
    """

    trim: int = count()
    trimmed_range: float = real()

    def assumed(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return the conditions of the guarantee on incomplete rows and on the trimmed range.

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

        Raises
        ------
        ParameterError
            If ``max_incomplete`` is not below the number of rows.
        """
        return (*super().assumed(domain), TrimmedRange(self.trim, self.trimmed_range))

    def shift(self, distance: TableDistance, domain: RowDomain) -> float:
        """Return a bound on the change of imputed cells if the trimmed mean is of another table.

        The change of the imputed cells of one row is measured in Euclidean norm.

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
            Public upper bound on the Euclidean norm of the change, in the units of the columns. At
            least 0.

        Raises
        ------
        ParameterError
            If ``max_incomplete`` is not below the number of rows.
        UnprovenError
            If trimming may leave no observed value of a column.
        """
        n_retained = domain.rows - self._p(domain) - 2 * self.trim
        if n_retained < 1:
            raise UnprovenError("trimming may leave no observed value. Trim less")
        h, full = distance.replaced, 2 * domain.radius
        span = min(self.trimmed_range, full) if h <= 1 else full
        root = math.sqrt(self._cells(domain))
        return min((h * root * span + distance.shift_l12) / n_retained, root * full)

    def _statistic(self, table: Floats) -> Floats:
        ordered, observed = np.sort(table, axis=0), (~np.isnan(table)).sum(axis=0)
        ranks = np.arange(len(table))[:, None]
        is_retained = (ranks >= self.trim) & (ranks < observed - self.trim)
        return np.asarray(np.nanmean(np.where(is_retained, ordered, np.nan), axis=0))


@dataclass(kw_only=True, eq=False, repr=False)
class RegressionImputer(Imputer):
    """Preprocessing step that fills one column with its linear prediction from the other columns.

    The coefficients are fitted without noise to the private rows with an observed target, and the
    price of the pipeline accounts for them. Use the step if one column is incomplete and others
    predict it. The regression has no intercept. A missing cell of any other column becomes 0.

    Parameters
    ----------
    target : int
        Number of the column to predict, from 0.
    max_incomplete : int
        Condition of the guarantee: at most this many rows have a missing cell, at least 1.
        Conditions are stated with the guarantee and are not checked against the table.
    regularization : float, default 0.0
        Ridge penalty on the mean squared error, at least 0, in squared units of the columns.
    min_eigenvalue : float, default 0.0
        Condition of the guarantee, if above 0: the smallest eigenvalue of X'X / n is at least
        this. X holds the predictors of the rows with an observed target, and n is the number of
        all rows. It is at least 0, in squared units of the columns. Either ``regularization``
        or ``min_eigenvalue`` must be above 0. If ``min_eigenvalue`` is 0, this condition is
        absent.

    Raises
    ------
    ParameterError
        If a parameter is out of range.

    Notes
    -----
    Let n be the number of rows, q the number of columns and R the radius. Let rho be
    ``regularization``, lambda be ``min_eigenvalue``, A = X'X + n rho, b = X'y and w = A^-1 b. Two
    tables give ``w' - w = A'^-1 (e - E w)`` with E = A' - A, e = b' - b, and A' >= n (lambda +
    rho). A replaced row contributes twice ``x (y - x'w)``, whose norm on the ball of radius R is at
    most R^2 (W + sqrt(1 + W^2)) / 2. A row that moves by d contributes at most 2 R sqrt(1 + W^2) d.

    The norm W of w is at most ``sqrt((R^2 - (q - 1) lambda) / (lambda + rho))``. The reasons are
    |A^-1/2 X'| <= 1, and that the targets' squares sum to at most n R^2 less the trace of X'X. An
    imputed cell x'w then moves by R |w - w'|. A row's own movement is stretched by at most sqrt(1 +
    W^2). Only the second table's A' and the first table's w enter, so no table in between matters.

    Examples
    --------
    >>> from missdp.pricing import RegressionImputer
    >>> import numpy as np
    >>> step = RegressionImputer(target=1, max_incomplete=1, min_eigenvalue=0.01)
    >>> step.fit_transform([[0.1, 0.2], [0.3, 0.6], [0.2, np.nan]]).round(6)
    array([[0.1, 0.2],
           [0.3, 0.6],
           [0.2, 0.4]])
    """

    target: int = count(low=0)
    regularization: float = real(0.0)
    min_eigenvalue: float = real(0.0)

    def assumed(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return the conditions of the guarantee on incomplete rows and on eigenvalues.

        The condition on eigenvalues is absent if ``min_eigenvalue`` is 0.

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

        Raises
        ------
        ParameterError
            If ``max_incomplete`` is not below the number of rows.
        """
        spectrum = (MinEigenvalue(self.min_eigenvalue),) if self.min_eigenvalue > 0 else ()
        return (*super().assumed(domain), *spectrum)

    def response(self, distance: TableDistance, domain: RowDomain) -> Response:
        """Return a bound on the distance between rows imputed by regressions on two tables.

        The predicted cells of up to ``max_incomplete`` rows change with the coefficients.

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
            If ``max_incomplete`` is not below the number of rows, or no table of the domain can
            meet the condition on eigenvalues. A step without ``regularization`` and
            ``min_eigenvalue`` raises the error, too.
        """
        W = self._coefficient_norm(domain)
        R, stretch = domain.radius, math.sqrt(1 + W * W)
        strength = domain.rows * (self.min_eigenvalue + self.regularization)
        pull = distance.replaced * R**2 * (W + stretch) + 2 * R * stretch * distance.shift_l12
        return Response(
            lipschitz=stretch if distance.shifted_rows else 1.0,
            shift=R * min(pull / strength, 2 * W),
            shifted_rows=self._p(domain),
        )

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return public facts about the table in which a regression has filled one column.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        RowDomain
            Public facts about the transformed table, which is complete and has the columns of
            the input.

        Raises
        ------
        ParameterError
            If the table has fewer than two columns, or lacks the column ``target``. Parameters
            that the domain rules out raise the error, too.
        """
        require(domain.columns >= 2, "a regression needs a predictor beside its target")
        require(self.target < domain.columns, "target must be a column of the table")
        return super().output_domain(domain)

    def radius_after(self, domain: RowDomain) -> float:
        """Return a bound on a row's Euclidean norm after imputation by regression.

        An imputed cell is at most the norm of the coefficients times the norm of its row.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        float
            Public upper bound on the Euclidean norm of a row, in the units of the output columns.
            Above 0.

        Raises
        ------
        ParameterError
            If no table of the domain can meet the condition on eigenvalues. A step without
            ``regularization`` and ``min_eigenvalue`` raises the error, too.
        """
        return domain.radius * math.sqrt(1 + self._coefficient_norm(domain) ** 2)

    def _coefficient_norm(self, domain: RowDomain) -> float:
        strength = self.min_eigenvalue + self.regularization
        require(strength > 1e-100, "declare min_eigenvalue, or use regularization")
        spare = domain.radius**2 - (domain.columns - 1) * self.min_eigenvalue
        require(spare >= 0, "no table in this domain has so large a min_eigenvalue")
        return math.sqrt(spare / strength)

    def _learn(self, table: Floats) -> RowFunction:
        require(self.target < table.shape[1], "target must be a column of the table")
        predictors, target = self._parts(table)
        is_observed = ~np.isnan(target)
        X, y, n = predictors[is_observed], target[is_observed], table.shape[0]
        # Without the conditions the solution could be huge. With them this floor changes nothing.
        values, vectors = np.linalg.eigh(X.T @ X)
        strength = np.maximum(values, n * self.min_eigenvalue) + n * self.regularization
        coefficients = (vectors / strength) @ (vectors.T @ (X.T @ y))

        def fill(rows: Floats) -> Floats:
            predictors, target = self._parts(rows)
            filled = np.where(np.isnan(target), predictors @ coefficients, target)
            return np.insert(predictors, self.target, filled, axis=1)

        return fill

    def _parts(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return the predictors, missing ones as 0, and the target."""
        predictors = np.delete(rows, self.target, axis=1)
        return np.nan_to_num(predictors, nan=0.0), rows[:, self.target]


_BLOCK = 4_000_000  # distances in memory at once


@dataclass(kw_only=True, eq=False, repr=False)
class NeighbourImputer(Imputer):
    """Preprocessing step that fills missing cells with the mean of the k nearest complete rows.

    The nearest rows are found without noise in the private table, and the price of the pipeline
    accounts for them. Nearness is Euclidean distance on the row's observed cells. Ties go to the
    lower row number. Put the step first in a chain: it counts every row that an earlier step
    changed as replaced.

    Parameters
    ----------
    n_neighbors : int, default 5
        Number k of donors, the complete rows whose cells are averaged, at least 1.
    max_incomplete : int
        Condition of the guarantee: at most this many rows have a missing cell, at least 1. It
        must leave ``n_neighbors`` complete rows. Conditions are stated with the guarantee and
        are not checked against the table.
    max_donations : int or None, default None
        Condition of the guarantee, if given: no row is a donor of more incomplete rows than this
        number, which is at least 0. None: no such condition, and a larger price.

    Raises
    ------
    ParameterError
        If a parameter is out of range.

    Notes
    -----
    Let p be ``max_incomplete``, M be ``max_donations`` and R be the radius. Replacing a row changes
    each donor set by at most one swap. If the old row leaves a set, the new row or the next nearest
    row takes its place. Otherwise at most the new row enters. The imputed cells are means of k
    donors within the ball of radius R. So they move by at most 2 R min(h, k) / k for h replaced
    rows. Rows that move do so only if a replaced row donates to them in one of the two tables: at
    most min(p, 2 M h) of them. Nearness is not continuous in the values, so rows that moved before
    this step are counted as replaced.

    The donors of `missdp.statistics` are chosen by other code, because rows are added and removed
    there. Ties then need an order of all possible rows in place of row numbers. A finite domain has
    this order, and real vectors do not.

    Examples
    --------
    >>> from missdp.pricing import NeighbourImputer
    >>> from missdp.pricing import NEIGHBOURS, RowDomain
    >>> step = NeighbourImputer(n_neighbors=4, max_incomplete=50, max_donations=3)
    >>> after = step.stability(NEIGHBOURS, RowDomain(rows=500, columns=3, complete=False))
    >>> after.shifted_rows, after.max_shift
    (6, 0.5)
    """

    n_neighbors: int = count(5)
    # No donation at all means no incomplete row: each takes from k rows.
    max_donations: int | None = count(None, low=0)

    _continuous = False

    def assumed(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return the conditions: few rows are incomplete, and no row fills cells of many others.

        The condition on donations is absent if ``max_donations`` is None.

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

        Raises
        ------
        ParameterError
            If ``max_incomplete`` does not leave ``n_neighbors`` complete rows.
        """
        if self.max_donations is None:
            return super().assumed(domain)
        return (*super().assumed(domain), BoundedDonations(self.max_donations))

    def response(self, distance: TableDistance, domain: RowDomain) -> Response:
        """Return a bound on the distance between rows imputed from the nearest rows of two tables.

        Up to ``max_incomplete`` rows change. With ``max_donations``, at most twice this number of
        rows change for each replaced row.

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
            If ``max_incomplete`` does not leave ``n_neighbors`` complete rows.
        """
        k, rows, h = self.n_neighbors, self._p(domain), distance.replaced
        if self.max_donations is not None:
            rows = min(rows, 2 * self.max_donations * h)
        return Response(shift=2 * domain.radius * min(h, k) / k, shifted_rows=rows)

    def radius_after(self, domain: RowDomain) -> float:
        """Return a bound on a row's Euclidean norm after imputation from the nearest rows.

        Observed cells and donated cells each have at most the norm of the domain's radius.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        float
            Public upper bound on the Euclidean norm of a row, in the units of the output columns.
            Above 0.

        Raises
        ------
        ParameterError
            If ``max_incomplete`` does not leave ``n_neighbors`` complete rows.
        """
        self._p(domain)
        return domain.radius * math.sqrt(2)

    def _p(self, domain: RowDomain) -> int:
        enough = self.max_incomplete <= domain.rows - self.n_neighbors
        require(enough, "max_incomplete must leave n_neighbors complete rows")
        return self.max_incomplete

    def _learn(self, table: Floats) -> RowFunction:
        donors = table[~np.isnan(table).any(axis=1)]
        size = max(1, _BLOCK // max(1, donors.shape[0]))

        def fill(rows: Floats) -> Floats:
            filled, missing = rows.copy(), np.isnan(rows)
            for pattern in np.unique(missing[missing.any(axis=1)], axis=0):
                alike = np.flatnonzero((missing == pattern).all(axis=1))
                for block in np.split(alike, range(size, alike.size, size)):
                    filled[np.ix_(block, pattern)] = self._donated(rows[block], pattern, donors)
            return filled

        return fill

    def _donated(self, rows: Floats, pattern: NDArray[np.bool_], donors: Floats) -> Floats:
        if donors.shape[0] == 0:
            return np.zeros((rows.shape[0], int(pattern.sum())))
        # Direct differences, not |a|^2 - 2ab + |b|^2: equal rows must tie exactly.
        gaps = np.zeros((rows.shape[0], donors.shape[0]))
        for column in np.flatnonzero(~pattern):
            gaps += (rows[:, [column]] - donors[:, column]) ** 2
        order = np.argsort(gaps, axis=1, kind="stable")[:, : self.n_neighbors]
        return np.asarray(donors[order][:, :, pattern].mean(axis=1))
