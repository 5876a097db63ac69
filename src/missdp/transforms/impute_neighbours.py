"""Imputation by the mean of the k nearest complete rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Condition
from missdp.errors import UnprovenError
from missdp.mechanisms.parameters import whole
from missdp.mechanisms.row_domain import RowDomain
from missdp.mechanisms.table_distance import TableDistance
from missdp.transforms.base import PrivateState, StableTransformer, require
from missdp.transforms.conditions import BoundedDonations, IncompleteRows

__all__ = ["NeighbourImputer"]

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
    >>> from missdp.transforms import NEIGHBOURS, RowDomain
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
