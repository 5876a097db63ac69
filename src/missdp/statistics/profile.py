"""How many donees one donor could ever serve: the profile that bounds an imputed question.

The donation profile M_j says how many, after j other changes:

    M_j(D) = max_t #{x in I : rank_D(x, t) <= k + j},  rank_D(x, t) = 1 + #{y in C - {t} : y <_x t}

where t ranges over every possible donor: every cell of the public domain (or every block of a
public partition, at the smallest distance from x to the block) and every label. Who gives (C), who
lacks (I), and who is neither, because what is asked for does not apply, is decided by each row's
own cells; rows that are neither move no rank and no count. A hypothetical t whose label equals
another row's wins the tie, so the maximum over labels also covers the removal of every donor that
is there.

*Property.* ``M_j(D) <= M_{j+1}(D')`` if D' has one donor more or less, and
``|M_j(D) - M_j(D')| <= 1`` if it has one donee more or less. *Proof.* For fixed (site, label), one
donor more or less moves the rank of every x by at most 1; a donee more or less changes the count by
at most 1. Take maxima. Blocks keep the property (ranks at a smallest distance are still ranks) and
only enlarge the counts. ∎

How it is computed: for each site, first an upper bound per j (``t`` wins every tie at a positive
distance), all j in one pass over pairs (donee cell, site within reach); then, for the j that
matter, the sites whose bound exceeds what is already found are swept exactly over the circle of
labels.

The smooth bound of a query on imputed data, for every beta above 0, follows:

    U_j(D) = own + donee * A_j(D),   A_j(D) = max_{a + b = j} (a + M_b(D))
    S_beta(D) = max_j exp(-beta j) U_j(D)

*Theorem.* U_0 bounds the local sensitivity, and U_j(D) <= U_{j+1}(D') for neighbours, so S_beta is
a beta-smooth upper bound. *Proof.* Adding or removing a donor t moves the query by its own
contribution and that of the donees whose donor set changes, each of which exchanges one donor:
those with rank_D(x, t) <= k, at most M_0. Any other row has its own contribution only. For the
second claim use the property of M: one donor more or less is taken up by b -> b + 1, one donee more
or less by a -> a + 1. ∎

Beyond ``Profile.max_terms`` (a public number) M_b is replaced by the number of donees |I|, which
changes by at most 1 when an incomplete row comes or goes, so the same argument holds.

Exact counts over the circle of labels: a donee x with N strictly nearer donors is served (rank at
most r) by a hypothetical donor at a tied distance if fewer than r - N of the tied donors lie
between x's label and the donor's, walking upwards round the circle. So x is served on one arc, from
its own label to its (r - N)-th tied donor, and the worst label is where most arcs overlap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError
from missdp.shelf import blocks, portions, room
from missdp.statistics.donors import DONEES, IntArray, Ints, Layout, NearCells, near_cells

__all__ = ["Profile"]

_CELLS = 1 << 27
_PAIRS = 1 << 22
_FIRST_TERMS = 32
# Above the rounding of exp and of the products, and far below the slack left in the noise.
_ROUND_UP = 1 + 2.0**-42


class Profile:
    """The donation profile of a table: how many donees one donor could serve. Private, and lazy."""

    def __init__(self, layout: Layout, k: int) -> None:
        self._layout, self._k = layout, k
        self._exact: dict[int, int] = {}
        # Public: depends on the domain alone.
        self.max_terms = int(min(2048, max(_FIRST_TERMS, _CELLS // layout.metric.sites)))
        self._near: NearCells
        self._upper = np.zeros((0, 0), dtype=np.int32)
        self._bounds = np.zeros(0, dtype=np.int64)

    def __repr__(self) -> str:
        return "Profile(private)"

    @property
    def donees(self) -> int:
        """Number of incomplete rows. Private."""
        return len(self._layout.donees.rows)

    def upper(self, terms: int) -> IntArray:
        """Upper bounds of M_0 .. M_{terms - 1}, exact where already computed."""
        if terms > len(self._bounds):
            wanted = max(terms, 4 * len(self._bounds), _FIRST_TERMS)
            self._prepare(min(self.max_terms, wanted))
        bounds = self._bounds[:terms].copy()
        for j, value in self._exact.items():
            if j < terms:
                bounds[j] = value
        return bounds

    def exact(self, j: int) -> int:
        """Return M_j exactly, ``j < max_terms``."""
        if j not in self._exact:
            if j >= len(self._bounds):
                self.upper(j + 1)
            self._exact[j] = self._sweep(j)
        return self._exact[j]

    def smooth_bound(self, *, own: float, donee: float, beta: float) -> float:
        """Return S_beta, rounded up by a factor of at most 1 + 2**-40. Private.

        Terms of the profile are made exact only where the maximum is attained, and later terms are
        skipped once even |I| donees could not beat it; the result is that of the full exact
        profile.

        ``own`` and ``donee`` are public weights: how far a row's own contribution, and one donee
        that exchanges one donor, can move the query.
        """
        if not (beta > 0 and own >= 0 and donee >= 0):
            raise ParameterError("beta must be above 0 and the weights at least 0")
        if donee == 0:
            return own * _ROUND_UP
        terms = min(_FIRST_TERMS, self.max_terms)
        while True:
            upper = self.upper(terms)
            scores = np.exp(-beta * np.arange(terms)) * (own + donee * _change_bounds(upper))
            j = int(np.argmax(scores))
            excess = upper[: j + 1] - np.arange(j + 1)
            attained = np.flatnonzero(excess == excess.max())
            if not self._exact.keys() & set(attained.tolist()):
                self.exact(int(attained[0]))
                continue
            best = float(scores[j])
            tail = _tail(own + donee * self.donees, donee, beta, terms)
            if tail <= best or terms >= self.max_terms:
                return max(best, tail if tail > best else 0.0) * _ROUND_UP
            terms = min(4 * terms, self.max_terms)

    def _prepare(self, terms: int) -> None:
        self._near = near_cells(self._layout, self._k + terms)
        self._upper = _site_bounds(self._layout, self._near, self._k, terms)
        self._bounds = self._upper.max(axis=0, initial=0).astype(np.int64)

    def _sweep(self, j: int) -> int:
        """Visit sites by descending bound until no bound exceeds the best exact value."""
        bounds = self._upper[:, j]
        # M is non-decreasing in j, so an earlier exact term is a floor.
        best = max((value for i, value in self._exact.items() if i < j), default=0)
        candidates = np.flatnonzero(bounds > best)
        for site in candidates[np.argsort(-bounds[candidates], kind="stable")]:
            if bounds[site] <= best:
                break
            best = max(best, _site_count(self._layout, self._near, int(site), self._k + j))
        return best


def _change_bounds(profile: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return A_j = max over a + b = j of a + M_b, for every j of ``profile``.

    >>> _change_bounds(np.array([4, 5, 7, 7, 7, 8])).tolist()
    [4, 5, 7, 8, 9, 10]
    """
    steps = np.arange(len(profile))
    return np.asarray(steps + np.maximum.accumulate(profile - steps), dtype=np.int64)


def _tail(height: float, slope: float, beta: float, start: int) -> float:
    """Supremum of exp(-beta j)(height + slope j) over real j >= start."""
    j = max(float(start), 1 / beta - height / slope)
    return math.exp(-beta * j) * (height + slope * j)


def _site_bounds(layout: Layout, near: NearCells, k: int, terms: int) -> NDArray[np.int32]:
    """Upper bound of the count at each site for each j, shape (sites, terms)."""
    sites = layout.metric.sites
    bounds = room(sites * terms, np.int32, filled=0).reshape(sites, terms)
    flat = bounds.reshape(-1)
    weights = layout.donees.counts[near.cells].astype(np.int32)
    at_home = [np.zeros((2, 0), dtype=np.int64)]
    for rows in _chunks(near, sites):
        index, site, distance = _within_reach(layout, near, rows)
        home = distance == 0
        at_home.append(np.stack([index[home], site[home]]))
        index, site, distance = index[~home], site[~home], distance[~home]
        first = np.maximum(0, near.nearer(index, distance)[0] - k + 1)
        inside = first < terms
        np.add.at(flat, site[inside] * terms + first[inside], weights[index[inside]])
    np.cumsum(bounds, axis=1, out=bounds)
    index, site = np.concatenate(at_home, axis=1)
    ring = _Ring(layout, near)
    for j in range(terms):
        found = np.bincount(site, weights=ring.depth(k + j)[index], minlength=sites)
        bounds[:, j] += found.astype(np.int32)
    return bounds


def _chunks(near: NearCells, sites: int) -> Iterator[IntArray]:
    """Yield donee cells in portions whose reach fits in memory."""
    for far, step in ((False, _PAIRS), (True, max(1, _PAIRS // sites))):
        rows = np.flatnonzero((near.radius > 0) == far)
        for part in blocks(len(rows), step):
            yield rows[part]


def _within_reach(
    layout: Layout, near: NearCells, rows: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Triples (donee cell, site, distance) with distance up to the cell's radius.

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


class _Ring:
    """Where the donees of each cell stand among its donors on the circle of labels. Private."""

    def __init__(self, layout: Layout, near: NearCells) -> None:
        donors, donees = layout.donors, layout.donees
        self._donors = donors.counts[near.cells]
        self._donees, self._start = donees.counts[near.cells], donees.start[near.cells]
        kind: type[np.signedinteger] = np.int32 if 2 * layout.size < 2**31 else np.int64
        # Two laps of every cell's circle, one after the other, as one increasing sequence.
        self._span = 2 * int(self._donors.max(initial=0)) + 1
        self._size = len(donees.rows)
        self._index, self._position = (room(self._size, kind) for _ in range(2))
        self._keys, self._laps = room(self._size, np.int64), room(2 * self._size, np.int64)
        for part in blocks(self._size, DONEES):
            index = np.searchsorted(near.cells, donees.cells_of(part))
            passed = donors.below(near.cells[index], donees.labels(part))
            keys = index * self._span + passed
            first = self._start[index] + np.arange(part.start, part.stop)
            self._laps[first] = keys
            self._laps[first + self._donees[index]] = keys + self._donors[index]
            self._index[part], self._position[part], self._keys[part] = index, first, keys

    def depth(self, reach: int) -> IntArray:
        """Return how many donees of each cell are, at most, within a reach below one label.

        That is, with fewer than ``reach`` donors of their own cell between their label and it.
        """
        deep = self._donors > reach
        depth = np.zeros(len(deep), dtype=np.int64)
        for part in blocks(self._size if deep.any() else 0, DONEES):
            # There are more donors than ``reach``: a label that far on is within the second lap.
            width = np.searchsorted(self._laps, self._keys[part] + reach) - self._position[part]
            cells = slice(self._index[part.start], self._index[part.stop - 1] + 1)
            first = np.maximum(self._start[cells] - part.start, 0)
            depth[cells] = np.maximum(depth[cells], np.maximum.reduceat(width, first))
        return np.where(deep, depth, self._donees)


def _site_count(layout: Layout, near: NearCells, site: int, reach: int) -> int:
    """Largest number of donees, over labels, that rank a donor at ``site`` within ``reach``."""
    distance = layout.metric.to_site(layout.codes[near.cells], site).astype(np.int64)
    index = np.flatnonzero(distance <= near.radius)
    before, through, shell = near.nearer(index, distance[index])
    wholly = through < reach
    total = int(layout.donees.counts[near.cells[index[wholly]]].sum())
    partly = np.flatnonzero(~wholly & (before < reach))
    if not len(partly):
        return total
    cells = near.cells[index[partly]]
    # A donee is served on an arc: from its label to the last donor of the shell that counts.
    stops = np.cumsum(layout.donees.counts[cells])
    start, stop = (room(int(stops[-1]), layout.donees.ranks.dtype) for _ in range(2))
    for i, cell, done in zip(partly, cells, stops - layout.donees.counts[cells], strict=True):
        of_shell = slice(*near.shell_pair[shell[i] : shell[i] + 2])
        ring, first = _labels_of(layout, near.pair_cell[of_shell]), layout.donees.start[cell]
        for part in blocks(int(layout.donees.counts[cell]), DONEES):
            own = layout.donees.labels(slice(first + part.start, first + part.stop))
            here = slice(done + part.start, done + part.stop)
            start[here] = own
            stop[here] = ring[(np.searchsorted(ring, own) + reach - int(before[i]) - 1) % len(ring)]
    return total + _overlap(start, stop, layout.size)


def _labels_of(layout: Layout, cells: IntArray) -> Ints:
    """Return the labels of the donors of some cells, sorted."""
    donors = layout.donors
    stops = np.cumsum(donors.counts[cells])
    ring = room(int(stops[-1]), donors.ranks.dtype)
    for cell, stop in zip(cells, stops, strict=True):
        first, last = donors.start[cell : cell + 2]
        for part in blocks(int(last - first), DONEES):
            labels = donors.labels(slice(first + part.start, first + part.stop))
            ring[stop - (last - first) :][part] = labels
    if len(cells) > 1:  # those of one cell are sorted
        _sort(ring, layout.size)
    return ring


def _sort(labels: Ints, size: int) -> None:
    """Sort numbers below a size; very many of them with little memory."""
    if len(labels) <= DONEES:
        labels.sort()
        return
    counts, done = room(size, np.int32, filled=0), 0
    for part in blocks(len(labels), DONEES):
        some = labels[part]
        for near in portions(counts, some):
            np.add.at(counts, some[near], 1)
    for part in blocks(size, DONEES):
        some = np.repeat(np.arange(part.start, part.stop), counts[part])
        labels[done : done + len(some)] = some
        done += len(some)


def _overlap(start: Ints, stop: Ints, size: int) -> int:
    """Return the largest number of arcs, ends included, that share a point of a circle.

    It is attained where an arc starts, which no other does there, or at the first point.
    """
    wrapped, most = 0, 0
    for part in blocks(len(start), DONEES):
        wrapped += int(np.count_nonzero(stop[part] < start[part]))
    _sort(start, size)
    _sort(stop, size)
    for part in blocks(len(start), DONEES):
        begun = np.arange(part.start, part.stop) + 1
        most = max(most, int(np.max(begun - np.searchsorted(stop, start[part]))))
    return wrapped + most
