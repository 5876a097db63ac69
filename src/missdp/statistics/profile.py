"""How many recipients one donor could ever serve: the profile that bounds an imputed question.

A donor t would find N(x) donors strictly nearer to a recipient x than itself, and T(x) others as
near. It would count for the share min(1, (k - N)^+ / (T + 1)) of a donor of x (see
`missdp.statistics.donors.choose_donors`). The donation profile M_j says how many recipients that is
in all, if up to j donors could have gone before:

    h_j(N, T) = max over r + q <= j, r <= N, q <= T of min(1, (k - N + r)^+ / (T - q + 1))
    M_j(D)    = max_t sum over x in I of h_j(N(x), T(x))

where t ranges over every possible donor: every cell of the public domain (or every block of a
public partition, at the smallest distance from x to the block). T leaves out one donor that stands
in t's cell (or block) if there is one: t may be this donor, that goes. Who gives (C), who lacks
(I), and who is neither, because what is asked for does not apply, is decided by each row's own
cells; rows that are neither move nothing.

*Shares.* A donor t that comes or goes moves no more than h_0(N, T) of the ways of x to ways with
t in them, all others stay. *Proof.* Let m = k - N. If m <= 0, t is beyond the k-th donor. If
T < m, all T + 1 are taken, h_0 = 1, and there is nothing to prove. Otherwise the k-th distance is
that of t, with or without it. Without it each of T runs of m donors on the circle has the weight
1 / T; with it there are T + 1 runs, m of which hold t, and T + 1 - m were there before: each of
these keeps 1 / (T + 1), and what is left is m / (T + 1) = h_0. ∎ (If T = m, there was one choice,
of all T; the run without t is that one.)

So an average over ways moves by at most h_0 times the range of what is averaged, for any function
of the row; a mean of k values, by at most h_0 / k times their range, as the T donors count alike.
Where the function moves by at most c when one of the k donors is exchanged, its average moves by
2 c h_0 at most: m - 1 of the runs that hold t replace runs from which they differ in one donor, and
1 / (T + 1) of all ways moves to a run that differs in m at most. With k = 1 it is c h_0.

*Property.* ``M_j(D) <= M_{j+1}(D')`` if D' has one donor more or less, and ``|M_j(D) - M_j(D')| <=
1`` if it has one recipient more or less. *Proof.* For a fixed place of t, one donor more or less
moves N by one, or T, or neither, and one more change in the place of t takes that back: h_j(N, T)
<= h_{j+1}(N', T'), because h falls in N and in T and rises in j. A recipient adds at most 1. Take
maxima. ∎ In a block a donor may come that is not at the smallest distance from x: then T (less the
one) falls by one, or N is as it was; the same holds. And the true share of a donor farther off in
its block is no larger: it has N + T nearer ones.

h_j takes r first, then q: (m + 1) / (D) >= m / (D - 1) for m < D. It is rounded up to multiples of
2**-20, which keeps the property, so that all sums are of whole numbers.

The smooth bound of a query on imputed data, for every beta above 0, follows:

    U_j(D) = own + donee * A_j(D),   A_j(D) = max_{a + b = j} (a + M_b(D))
    S_beta(D) = max_j exp(-beta j) U_j(D)

*Theorem.* U_0 bounds the local sensitivity, and U_j(D) <= U_{j+1}(D') for neighbours, so S_beta is
a beta-smooth upper bound. *Proof.* Adding or removing a donor moves the query by its own
contribution and by ``donee`` times the shares above, at most M_0 in all. Any other row has its own
contribution only. For the second claim use the property of M: one donor more or less is taken up by
b -> b + 1, one recipient more or less by a -> a + 1. ∎

Beyond ``Profile.max_terms`` (a public number) M_b is replaced by the number of recipients |I|,
which changes by at most 1 when an incomplete row comes or goes, so the same argument holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError
from missdp.shelf import blocks
from missdp.statistics.donors import IntArray, Layout, NearCells, near_cells

__all__ = ["Profile"]

_CELLS = 1 << 26
_PAIRS = 1 << 22
_FIRST_TERMS = 32
_UNIT = 1 << 20
# Above the rounding of exp and of the products, and far below the slack left in the noise.
_ROUND_UP = 1 + 2.0**-42


class Profile:
    """The donation profile of a table: how many donees one donor could serve. Private, and lazy."""

    def __init__(self, layout: Layout, k: int) -> None:
        self._layout, self._k = layout, k
        # Public: depends on the domain alone.
        self.max_terms = int(min(2048, max(_FIRST_TERMS, _CELLS // layout.metric.sites)))
        self._served = np.zeros(0)

    def __repr__(self) -> str:
        return "Profile(private)"

    @property
    def donees(self) -> int:
        """Number of incomplete rows. Private."""
        return len(self._layout.donees.rows)

    def served(self, terms: int) -> NDArray[np.float64]:
        """Return M_0 .. M_{terms - 1}, multiples of 2**-20; ``terms <= max_terms``."""
        if terms > len(self._served):
            self._served = _served(self._layout, self._k, terms)
        return self._served[:terms]

    def smooth_bound(self, *, own: float, donee: float, beta: float) -> float:
        """Return S_beta, rounded up by a factor of at most 1 + 2**-40. Private.

        Later terms are skipped once even |I| recipients could not beat the maximum so far.

        ``own`` and ``donee`` are public weights: how far a row's own contribution, and one
        recipient that exchanges one donor, can move the query.
        """
        if not (beta > 0 and own >= 0 and donee >= 0):
            raise ParameterError("beta must be above 0 and the weights at least 0")
        if donee == 0:
            return own * _ROUND_UP
        terms = min(_FIRST_TERMS, self.max_terms)
        while True:
            changed = _change_bounds(self.served(terms))
            best = float(np.max(np.exp(-beta * np.arange(terms)) * (own + donee * changed)))
            tail = _tail(own + donee * self.donees, donee, beta, terms)
            if tail <= best or terms >= self.max_terms:
                return max(best, tail if tail > best else 0.0) * _ROUND_UP
            terms = min(4 * terms, self.max_terms)


def _change_bounds(profile: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return A_j = max over a + b = j of a + M_b, for every j of ``profile``.

    >>> _change_bounds(np.array([4.5, 5, 7, 7, 7, 8])).tolist()
    [4.5, 5.5, 7.0, 8.0, 9.0, 10.0]
    """
    steps = np.arange(len(profile))
    return np.asarray(steps + np.maximum.accumulate(profile - steps), dtype=np.float64)


def _tail(height: float, slope: float, beta: float, start: int) -> float:
    """Supremum of exp(-beta j)(height + slope j) over real j >= start."""
    j = max(float(start), 1 / beta - height / slope)
    return math.exp(-beta * j) * (height + slope * j)


def _served(layout: Layout, k: int, terms: int) -> NDArray[np.float64]:
    """Return M_0 .. M_{terms - 1}."""
    near, sites = near_cells(layout, k + terms), layout.metric.sites
    taken = _taken(layout)
    served = np.zeros((terms, sites))  # whole numbers of 2**-20, far below 2**53
    for rows in _chunks(near, sites):
        index, site, distance = _within_reach(layout, near, rows)
        before, through = near.nearer(index, distance)
        order = np.argsort(before, kind="stable")
        site, before, index = site[order], before[order], index[order]
        others = np.maximum(through[order] - before - taken[site], 0)
        weights = layout.donees.counts[near.cells[index]]
        for j, ends in enumerate(np.searchsorted(before, k + np.arange(terms))):
            shares = _share(before[:ends], others[:ends], k, j) * weights[:ends]
            served[j] += np.bincount(site[:ends], weights=shares, minlength=sites)
    return np.asarray(served.max(axis=1, initial=0.0) / _UNIT)


def _share(nearer: IntArray, tied: IntArray, k: int, j: int) -> IntArray:
    """Return h_j, rounded up to multiples of 2**-20, in these.

    >>> (_share(np.array([0, 0, 1, 2]), np.array([3, 0, 1, 0]), 1, 1) / _UNIT).round(3).tolist()
    [0.333, 1.0, 0.5, 0.0]
    """
    gone = np.minimum(nearer, j)
    places = np.maximum(k - nearer + gone, 0)
    among = tied - np.minimum(tied, j - gone) + 1
    return np.asarray(np.minimum(-(-places * _UNIT // among), _UNIT))


def _taken(layout: Layout) -> IntArray:
    """Return 1 for the sites where a donor stands, 0 for the others."""
    metric = layout.metric
    # A code is at the distance 0 from its own block, and from no other.
    tables = [table.argmin(axis=1) for table in metric.site_tables]
    codes = layout.codes[layout.donors.counts > 0]
    blocks_of = [table[codes[:, column]] for column, table in enumerate(tables)]
    taken = np.zeros(metric.sites, dtype=np.int64)
    taken[np.ravel_multi_index(blocks_of, metric.site_shape)] = 1
    return taken


def _chunks(near: NearCells, sites: int) -> Iterator[IntArray]:
    """Yield donee cells in portions whose reach fits in memory."""
    for far, step in ((False, _PAIRS), (True, max(1, _PAIRS // sites))):
        rows = np.flatnonzero((near.radius > 0) == far)
        for part in blocks(len(rows), step):
            yield rows[part]


def _within_reach(
    layout: Layout, near: NearCells, rows: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Triples (recipient cell, site, distance) with distance up to the cell's radius.

    Built one attribute at a time, dropping what is already too far.
    """
    metric = layout.metric
    codes = layout.codes[near.cells]
    index, site = rows, np.zeros(len(rows), dtype=np.int64)
    distance = np.zeros(len(rows), dtype=np.int64)
    for column, table in enumerate(metric.site_tables):
        total = distance[:, None] + table[codes[index, column]]
        owner, block = np.nonzero(total <= near.radius[index][:, None])
        site = site[owner] * table.shape[1] + block
        index, distance = index[owner], total[owner, block]
    return index, site, distance
