"""Imputation by the mean of the k nearest complete rows.

Imputation of one column by ridge or least-squares regression on the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Condition
from missdp.errors import UnprovenError, number, whole
from missdp.preprocess.conditions import BoundedDonations, IncompleteRows, LeastEigenvalue
from missdp.preprocess.domain import RowDomain, TableDistance
from missdp.preprocess.steps import PrivateState, StableTransformer, require

__all__ = ["NeighbourImputer", "RegressionImputer"]


FloatArray = NDArray[np.float64]
_BLOCK = 4_000_000  # Distances held in memory at once.


class NeighbourImputer(StableTransformer):
    """Fill the missing cells of a row with the mean of its k nearest complete rows.

    Nearness is Euclidean distance on the row's observed cells; ties go to the lower row number.

    Parameters
    ----------
    n_neighbors : int, default 5
        Number of donors k, at least 1.
    max_incomplete : int
        Condition: at most this many rows have a missing cell (p).
    max_donations : int or None, default None
        Condition, if given: no row is a donor of more incomplete rows than this (M).

    Notes
    -----
    Replacing a row changes each donor set by at most one swap: if the old row leaves a set,
    either the new row or the runner-up takes its place; otherwise at most the new row enters.
    The imputed cells are means of k donors within the ball of radius R, so they move by at most
    2 R min(h, k) / k for h replaced rows. Rows that move do so only if a replaced row donates to
    them in one of the two tables: at most min(p, 2 M h) of them. Nearness is not continuous in
    the values, so rows that moved before this step are counted as replaced.

    Examples
    --------
    >>> from missdp.preprocess import NEIGHBOURS, RowDomain
    >>> step = NeighbourImputer(n_neighbors=4, max_incomplete=50, max_donations=3)
    >>> after = step.stability(NEIGHBOURS, RowDomain(rows=500, columns=3, complete=False))
    >>> after.moved_rows, after.moved_max
    (6, 0.5)
    """

    _needs_complete = False

    def __init__(
        self, *, max_incomplete: int, n_neighbors: int = 5, max_donations: int | None = None
    ) -> None:
        self.max_incomplete = max_incomplete
        self.n_neighbors = n_neighbors
        self.max_donations = max_donations

    def conditions(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return the bounds on incomplete rows and, if declared, on donations."""
        if domain.complete:
            return ()
        rows = IncompleteRows(self._p(domain), domain.columns)
        if self.max_donations is None:
            return (rows,)
        return (rows, BoundedDonations(self._donations(self.max_donations)))

    def stability(self, distance: TableDistance, domain: RowDomain) -> TableDistance:
        """Return the bound, with rows that moved before counted as replaced."""
        if domain.complete:
            return distance
        start = distance.forget_movement()
        if start.replaced >= domain.rows:
            raise UnprovenError(
                "k-NN imputation is not continuous in the values: after a step that moves every "
                "row, no bound is proven; impute first"
            )
        k, p, h = self._k(), self._p(domain), start.replaced
        hit = p
        if self.max_donations is not None:
            hit = min(p, 2 * self._donations(self.max_donations) * h)
        return start.after(
            rows=domain.rows,
            lipschitz=1.0,
            shift=2 * domain.radius * min(h, k) / k,
            hit=hit,
            diameter=self.output_domain(domain).diameter,
        )

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return a complete domain; donated cells are a mean of vectors in the ball."""
        self._p(domain)
        if domain.complete:
            return domain
        return replace(domain, radius=domain.radius * math.sqrt(2), complete=True)

    def _p(self, domain: RowDomain) -> int:
        p = whole("max_incomplete", self.max_incomplete)
        require(p <= domain.rows - self._k(), "max_incomplete must leave n_neighbors complete rows")
        return p

    @staticmethod
    def _donations(most: int) -> int:
        # No donation at all means no incomplete row: each takes from k rows.
        return whole("max_donations", most, least=0)

    def _k(self) -> int:
        return whole("n_neighbors", self.n_neighbors)

    def _learn(self, table: FloatArray) -> Mapping[str, Any]:
        return {"donors": table[~np.isnan(table).any(axis=1)]}

    def _apply(self, table: FloatArray, state: PrivateState) -> FloatArray:
        donors: FloatArray = state["donors"]
        filled = table.copy()
        missing = np.isnan(table)
        if not missing.any():
            return filled
        for pattern in np.unique(missing[missing.any(axis=1)], axis=0):
            rows = np.flatnonzero((missing == pattern).all(axis=1))
            size = max(1, _BLOCK // max(1, donors.shape[0]))
            for block in np.split(rows, range(size, rows.size, size)):
                filled[np.ix_(block, pattern)] = self._donated(table[block], pattern, donors)
        return filled

    def _donated(
        self, rows: FloatArray, pattern: NDArray[np.bool_], donors: FloatArray
    ) -> FloatArray:
        if donors.shape[0] == 0:
            return np.zeros((rows.shape[0], int(pattern.sum())))
        known = ~pattern
        # Direct differences, not |a|^2 - 2ab + |b|^2: equal rows must tie exactly.
        gaps = np.zeros((rows.shape[0], donors.shape[0]))
        for column in np.flatnonzero(known):
            gaps += (rows[:, [column]] - donors[:, column]) ** 2
        order = np.argsort(gaps, axis=1, kind="stable")[:, : self._k()]
        return np.asarray(donors[order][:, :, pattern].mean(axis=1))


class RegressionImputer(StableTransformer):
    """Fill one column with its linear prediction from the other columns.

    Parameters
    ----------
    target : int
        The column to predict. A missing cell of any other column becomes 0: each row is mapped on
        its own, so no table is refused for the holes of one row.
    max_incomplete : int
        Condition: at most this many rows have a missing cell (p).
    regularization : float, default 0.0
        Ridge penalty rho on the mean squared error, at least 0.
    least_eigenvalue : float, default 0.0
        Condition, if above 0: the smallest eigenvalue of X'X / n over the rows with an observed
        target is at least this (lambda). At least one of the two must be above 0; with
        ``regularization`` alone the conditioning needs no condition.

    Notes
    -----
    With A = X'X + n rho, b = X'y and w = A^-1 b, two tables give ``w' - w = A'^-1 (e - E w)``
    where E = A' - A, e = b' - b, and A' >= n (lambda + rho). A replaced row contributes twice
    ``x (y - x'w)``, whose norm on the ball of radius R is at most R^2 (W + sqrt(1 + W^2)) / 2; a
    row that moves by d contributes at most 2 R sqrt(1 + W^2) d. The norm W of w is at most
    sqrt((R^2 - (d - 1) lambda) / (lambda + rho)), since |A^-1/2 X'| <= 1 and the targets' squares
    sum to at most n R^2 less the trace of X'X. An imputed cell x'w then moves by R |w - w'|, and
    a row's own movement is stretched by at most sqrt(1 + W^2). Only the second table's A' and the
    first table's w enter, so no table in between matters.

    Hu et al., Table 3, perturb one table by an added row only, and with the absolute spectrum.

    Examples
    --------
    >>> import numpy as np
    >>> step = RegressionImputer(target=1, max_incomplete=1, least_eigenvalue=0.01)
    >>> step.fit_transform([[0.1, 0.2], [0.3, 0.6], [0.2, np.nan]]).round(6)
    array([[0.1, 0.2],
           [0.3, 0.6],
           [0.2, 0.4]])
    """

    _needs_complete = False

    def __init__(
        self,
        *,
        target: int,
        max_incomplete: int,
        regularization: float = 0.0,
        least_eigenvalue: float = 0.0,
    ) -> None:
        self.target = target
        self.max_incomplete = max_incomplete
        self.regularization = regularization
        self.least_eigenvalue = least_eigenvalue

    def conditions(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return the bound on incomplete rows and, without enough ridge, on the spectrum."""
        if domain.complete:
            return ()
        rows, (least, _) = IncompleteRows(self._p(domain), domain.columns), self._strength()
        return (rows, LeastEigenvalue(least)) if least > 0 else (rows,)

    def stability(self, distance: TableDistance, domain: RowDomain) -> TableDistance:
        """Return the bound: up to p rows move with the fitted coefficients."""
        if domain.complete:
            return distance
        W = self._coefficient_norm(domain)
        R, stretch = domain.radius, math.sqrt(1 + W * W)
        strength = domain.rows * sum(self._strength())
        pull = distance.replaced * R**2 * (W + stretch) + 2 * R * stretch * distance.moved_l12
        return distance.after(
            rows=domain.rows,
            lipschitz=stretch if distance.moved_rows else 1.0,
            shift=R * min(pull / strength, 2 * W),
            hit=self._p(domain),
            diameter=self.output_domain(domain).diameter,
        )

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return a complete domain; an imputed cell is at most W times its row's norm."""
        require(domain.columns >= 2, "a regression needs a predictor beside its target")
        self._column(domain.columns)
        if domain.complete:
            return domain
        W = self._coefficient_norm(domain)
        return replace(domain, radius=domain.radius * math.sqrt(1 + W * W), complete=True)

    def _coefficient_norm(self, domain: RowDomain) -> float:
        least, ridge = self._strength()
        spare = domain.radius**2 - (domain.columns - 1) * least
        require(spare >= 0, "no table in this domain has so large a least_eigenvalue")
        return math.sqrt(spare / (least + ridge))

    def _p(self, domain: RowDomain) -> int:
        p = whole("max_incomplete", self.max_incomplete)
        require(p < domain.rows, "max_incomplete must be below the row count")
        return p

    def _column(self, columns: int) -> int:
        target = whole("target", self.target, least=0)
        require(target < columns, "target must be a column of the table")
        return target

    def _strength(self) -> tuple[float, float]:
        """Lower bounds on the predictors' spectrum: declared, and added by the ridge."""
        least = number("least_eigenvalue", self.least_eigenvalue)
        ridge = number("regularization", self.regularization)
        require(least + ridge > 1e-100, "declare least_eigenvalue, or use regularization")
        return least, ridge

    def _parts(self, table: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Predictors, missing ones as 0, and the target."""
        target = self._column(table.shape[1])
        predictors = np.delete(table, target, axis=1)
        return np.nan_to_num(predictors, nan=0.0), table[:, target]

    def _learn(self, table: FloatArray) -> Mapping[str, Any]:
        predictors, target = self._parts(table)
        seen = ~np.isnan(target)
        X, y, n = predictors[seen], target[seen], table.shape[0]
        least, ridge = self._strength()
        # Off the collection the solution could be huge; on it this floor changes nothing.
        values, vectors = np.linalg.eigh(X.T @ X)
        inverse = 1 / (np.maximum(values, n * least) + n * ridge)
        return {"w": (vectors * inverse) @ (vectors.T @ (X.T @ y))}

    def _apply(self, table: FloatArray, state: PrivateState) -> FloatArray:
        predictors, target = self._parts(table)
        filled = np.where(np.isnan(target), predictors @ state["w"], target)
        return np.insert(predictors, self._column(table.shape[1]), filled, axis=1)
