"""Steps that ask which rows are near: k-nearest-neighbour imputation, and good clusters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from missdp.accounting import Condition
from missdp.errors import UnprovenError, number, whole
from missdp.pricing.assumptions import BoundedDonations, LargestCluster
from missdp.pricing.domain import FloatArray, RowDomain
from missdp.pricing.maps import TableDistance
from missdp.pricing.steps import Imputer, PrivateState, Response, StableTransformer, require

__all__ = ["Deduplicator", "NeighbourImputer", "Quantizer", "packing_number"]


_BLOCK = 4_000_000  # Distances held in memory at once.


@dataclass(kw_only=True, eq=False, repr=False)
class NeighbourImputer(Imputer):
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

    The donors of `missdp.statistics` are chosen by other code: there rows come and go, so that ties
    cannot go by row number but need an order of all possible rows, which a finite domain has and
    real vectors have not.

    Examples
    --------
    >>> from missdp.pricing import NEIGHBOURS, RowDomain
    >>> step = NeighbourImputer(n_neighbors=4, max_incomplete=50, max_donations=3)
    >>> after = step.stability(NEIGHBOURS, RowDomain(rows=500, columns=3, complete=False))
    >>> after.moved_rows, after.moved_max
    (6, 0.5)
    """

    n_neighbors: int = 5
    max_donations: int | None = None

    _continuous = False

    def assumed(self) -> tuple[Condition, ...]:
        """Return the bound on donations, if it is declared."""
        if self.max_donations is None:
            return ()
        return (BoundedDonations(self._donations(self.max_donations)),)

    def response(self, distance: TableDistance, domain: RowDomain) -> Response:
        """Return the bound: up to p rows move, or 2 M for each replaced row."""
        k, hit, h = self._k(), self._p(domain), distance.replaced
        if self.max_donations is not None:
            hit = min(hit, 2 * self._donations(self.max_donations) * h)
        return Response(shift=2 * domain.radius * min(h, k) / k, hit=hit)

    def filled_radius(self, domain: RowDomain) -> float:
        """Return the bound: donated cells are a mean of vectors in the ball."""
        self._p(domain)
        return domain.radius * math.sqrt(2)

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


IntArray = NDArray[np.int64]
# Directions pairwise more than 60 degrees apart: at most the kissing number, and 5 in the plane.
# Known upper bounds (Levenshtein 1979; Musin 2008; Mittelmann & Vallentin 2010).
_KISSING = {1: 2, 2: 5, 3: 12, 4: 24, 5: 44, 6: 78, 7: 134, 8: 240}


def packing_number(columns: int) -> int:
    """Return how many good clusters can have their centres within 3 eta of one point.

    Centres of different good clusters are more than 3 eta apart, so the directions to any two of
    them are more than 60 degrees apart, which kissing numbers bound; beyond eight dimensions,
    balls of radius 1.5 eta around the centres are disjoint and fit in one of radius 4.5 eta.

    Examples
    --------
    >>> [packing_number(d) for d in (1, 2, 3, 9)]
    [2, 5, 12, 19683]
    """
    return _KISSING.get(columns, int(3 ** min(columns, 30)))


@dataclass(kw_only=True, eq=False, repr=False)
class _ClusterStep(StableTransformer):
    """A step that rewrites the rows of good clusters.

    Parameters
    ----------
    eta : float
        Cluster radius, above 0.
    max_cluster : int
        Condition: no good cluster has more rows than this (b).
    max_neighbours : int or None, default None
        Condition: at most this many good clusters have centres within 3 eta of one point (K),
        whichever rows are removed. None: the packing bound of the dimension, which always holds.

    Notes
    -----
    A row c is a good centre if no row is between eta and 3 eta away from it; its good cluster are
    the rows within eta. Two good clusters that meet are equal, and centres of different ones are
    more than 3 eta apart. The centre with the lowest row number represents its cluster.

    Take away the h replaced rows. A further row z can only spoil good centres within 3 eta of it,
    at most K clusters, or be the centre of one cluster of its own, whose centres are then all
    within eta. So a common row is treated differently in the two tables only if its cluster (of
    at most b rows, in one of the tables) is among the K around one of the 2 h replaced points: at
    most 2 h K b rows. Hu et al., Proposition 3, count 2 b: it overlooks that one row can spoil
    several clusters none of whose members it is close to (on a line, clusters at -2.5 eta and
    2.5 eta, and the row 0).

    Being within a radius is not continuous, so rows that moved before count as replaced.
    """

    eta: float
    max_cluster: int
    max_neighbours: int | None = None

    _continuous = False

    def conditions(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return the bound on the size and number of good clusters."""
        return (LargestCluster(self._eta(), self._most(), self._neighbours(domain)),)

    def response(self, distance: TableDistance, domain: RowDomain) -> Response:
        """Return the bound: up to 2 h K b rows move."""
        hit = 2 * distance.replaced * self._neighbours(domain) * self._most()
        return Response(shift=self._step(domain), hit=hit)

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return the domain unchanged: rows become other rows, or 0."""
        self._require_complete(domain)
        self.conditions(domain)  # Checks the parameters.
        return domain

    def failure_margin(
        self, values: FloatArray, incoming: TableDistance, domain: RowDomain
    ) -> float:
        """Return b + 1 less an upper bound on the cluster size, per row that changes.

        The largest good cluster itself can jump when one row changes (a row between two radii
        hides it). Any cluster lies in an interval of length 2 eta of each coordinate, and the
        largest number of rows in *any* such interval changes by at most one per row; so does the
        smallest of these over the coordinates.
        """
        if self.max_neighbours is not None:
            raise UnprovenError(
                "a declared max_neighbours has no known distance to failure; leave it unset to "
                "use the packing bound"
            )
        # A little wider, so that rounding cannot lose a row at the edge.
        width = 2 * self._eta() * (1 + 1e-9) + 1e-12 * domain.radius
        crowd = domain.rows
        for column in np.sort(values, axis=0).T:
            last = np.searchsorted(column, column + width, side="right")
            crowd = min(crowd, int((last - np.arange(column.size)).max()))
        changes = incoming.replaced + incoming.moved_rows
        return max(0.0, (self._most() + 1 - crowd) / max(1, changes))

    def transform(self, X: Any) -> FloatArray:
        """Refuse: only the table the step was fitted on has clusters.

        Use `fit_transform`; a good cluster is a fact about one table.
        """
        del X
        raise UnprovenError(
            f"{type(self).__name__} rewrites the table it is fitted on; use fit_transform"
        )

    def fit_transform(self, X: Any, y: object = None, **params: object) -> FloatArray:  # noqa: ARG002
        """Fit on the table and return it with its good clusters rewritten; private."""
        return np.asarray(self.fit(X)._private["result"])

    def _neighbours(self, domain: RowDomain) -> int:
        packing = packing_number(domain.columns)
        if self.max_neighbours is None:
            return packing
        return min(packing, whole("max_neighbours", self.max_neighbours))

    def _eta(self) -> float:
        return number("eta", self.eta, least=1e-100)

    def _most(self) -> int:
        return whole("max_cluster", self.max_cluster)

    def _step(self, domain: RowDomain) -> float:
        raise NotImplementedError

    def _rewrite(self, table: FloatArray, centre_of: IntArray) -> FloatArray:
        raise NotImplementedError

    def _learn(self, table: FloatArray) -> Mapping[str, Any]:
        return {"result": self._rewrite(table, _centres(table, self._eta()))}


class Deduplicator(_ClusterStep):
    """Keep one row of every good cluster; the others become empty (all zero) rows.

    The number of rows stays the public n: an empty row adds nothing to sums, moments or the
    gradient of a model without intercept. Movement of a row is at most the radius.

    Parameters
    ----------
    eta, max_cluster, max_neighbours
        Radius of a good cluster; conditions on its size and on how many meet at one point.

    Notes
    -----
    Stability: at most 2 h K b rows move, from themselves to 0 or back, by at most R; see the
    module's base class for the proof.

    Examples
    --------
    >>> step = Deduplicator(eta=0.1, max_cluster=2)
    >>> step.fit_transform([[0.5], [0.5], [-0.5]])
    array([[ 0.5],
           [ 0. ],
           [-0.5]])
    """

    def _step(self, domain: RowDomain) -> float:
        return domain.radius

    def _rewrite(self, table: FloatArray, centre_of: IntArray) -> FloatArray:
        rows = np.arange(table.shape[0])
        drop = (centre_of >= 0) & (centre_of != rows)
        return np.where(drop[:, None], 0.0, table)


class Quantizer(_ClusterStep):
    """Replace the rows of every good cluster by its centre.

    Parameters
    ----------
    eta, max_cluster, max_neighbours
        Radius of a good cluster; conditions on its size and on how many meet at one point.

    Notes
    -----
    Stability: at most 2 h K b rows move, by at most 2 eta: in either table a row is its own image
    or is mapped within eta. Hu et al. say eta, but if the replaced row is the cluster's centre in
    both tables, the two centres can be almost 2 eta apart.

    Examples
    --------
    >>> Quantizer(eta=0.1, max_cluster=2).fit_transform([[0.5], [0.55], [-0.5]])
    array([[ 0.5],
           [ 0.5],
           [-0.5]])
    """

    def _step(self, domain: RowDomain) -> float:
        del domain
        return 2 * self._eta()

    def _rewrite(self, table: FloatArray, centre_of: IntArray) -> FloatArray:
        rows = np.arange(table.shape[0])
        return table[np.where(centre_of >= 0, centre_of, rows)]


def _centres(table: FloatArray, eta: float) -> IntArray:
    """Return for each row the number of its cluster's representative, or -1 outside clusters."""
    tree = cKDTree(table)
    near = tree.query_ball_point(table, eta, return_length=True)
    wide = tree.query_ball_point(table, 3 * eta, return_length=True)
    centre_of = np.full(table.shape[0], -1, dtype=np.int64)
    # Every good centre claims its rows; the lowest number is written last and wins.
    for centre in np.flatnonzero(near == wide)[::-1]:
        centre_of[tree.query_ball_point(table[centre], eta)] = centre
    return centre_of
