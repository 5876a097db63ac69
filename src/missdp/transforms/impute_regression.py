"""Imputation of one column by ridge or least-squares regression on the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Condition
from missdp.mechanisms.parameters import number, whole
from missdp.mechanisms.row_domain import RowDomain
from missdp.mechanisms.table_distance import TableDistance
from missdp.transforms.base import PrivateState, StableTransformer, require
from missdp.transforms.conditions import IncompleteRows, LeastEigenvalue

__all__ = ["RegressionImputer"]

FloatArray = NDArray[np.float64]


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
