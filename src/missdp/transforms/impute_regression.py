"""Imputation of one column by ridge or least-squares regression on the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Condition
from missdp.errors import DataError
from missdp.transforms.base import PrivateState, StableTransformer, require
from missdp.transforms.conditions import IncompleteRows, LeastEigenvalue
from missdp.transforms.distance import TableDistance
from missdp.transforms.domain import RowDomain

__all__ = ["RegressionImputer"]

FloatArray = NDArray[np.float64]


class RegressionImputer(StableTransformer):
    """Fill one column with its linear prediction from the other, complete columns.

    Parameters
    ----------
    target : int
        The column that may be missing; all others are complete.
    max_incomplete : int
        Condition: at most this many rows miss the target (p).
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

    Paper B, Table 3, perturbs one table by an added row only, and with the absolute spectrum.

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
        rows = IncompleteRows(self._p(domain), 1)
        if self.least_eigenvalue <= 0:
            return (rows,)
        return (rows, LeastEigenvalue(float(self.least_eigenvalue)))

    def stability(self, distance: TableDistance, domain: RowDomain) -> TableDistance:
        """Return the bound: up to p rows move with the fitted coefficients."""
        if domain.complete:
            return distance
        W = self._coefficient_norm(domain)
        R, stretch = domain.radius, math.sqrt(1 + W * W)
        strength = domain.rows * (float(self.least_eigenvalue) + float(self.regularization))
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
        require(0 <= self.target < domain.columns, "target must be a column of the table")
        if domain.complete:
            return domain
        W = self._coefficient_norm(domain)
        return replace(domain, radius=domain.radius * math.sqrt(1 + W * W), complete=True)

    def _coefficient_norm(self, domain: RowDomain) -> float:
        least, ridge = float(self.least_eigenvalue), float(self.regularization)
        require(least >= 0 and ridge >= 0, "least_eigenvalue and regularization must be >= 0")
        require(least + ridge > 0, "declare least_eigenvalue, or use regularization")
        spare = domain.radius**2 - (domain.columns - 1) * least
        require(spare >= 0, "no table in this domain has so large a least_eigenvalue")
        return math.sqrt(spare / (least + ridge))

    def _p(self, domain: RowDomain) -> int:
        p = int(self.max_incomplete)
        require(1 <= p < domain.rows, "max_incomplete must be at least 1 and below the row count")
        return p

    def _learn(self, table: FloatArray) -> Mapping[str, Any]:
        predictors = np.delete(table, self.target, axis=1)
        if np.isnan(predictors).any():
            raise DataError("the predictors of a regression imputation must be complete")
        seen = ~np.isnan(table[:, self.target])
        X, y = predictors[seen], table[seen, self.target]
        n = table.shape[0]
        # Off the collection the solution could be huge; on it this floor changes nothing.
        values, vectors = np.linalg.eigh(X.T @ X)
        floor = n * float(self.least_eigenvalue)
        inverse = 1 / (np.maximum(values, floor) + n * float(self.regularization))
        return {"w": (vectors * inverse) @ (vectors.T @ (X.T @ y))}

    def _apply(self, table: FloatArray, state: PrivateState) -> FloatArray:
        predictors = np.delete(table, self.target, axis=1)
        filled = table.copy()
        missing = np.isnan(table[:, self.target])
        filled[missing, self.target] = predictors[missing] @ state["w"]
        return filled
