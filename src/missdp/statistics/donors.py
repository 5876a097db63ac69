"""The k nearest donors of every incomplete row, and how many donees one donor could ever serve.

The second is the donation profile M_j, after j other changes:

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
from missdp.mechanisms.questions import Filled, Prepared, Rows
from missdp.schema import AnyAttribute, Numeric
from missdp.shelf import blocks, numbered, pick, put, room, shelved
from missdp.statistics.layout import IntArray, Layout, NearCells, lay_out, near_cells, roles
from missdp.statistics.metric import Metric
from missdp.statistics.rings import DONEES, Ring, site_count

__all__ = ["Profile", "Ring", "change_bounds", "choose_donors", "impute", "site_count"]


def choose_donors(layout: Layout, k: int) -> IntArray:
    """Return the row numbers of the k nearest donors of each donee, -1 where there are fewer.

    Order of donors for a donee with label l: by distance, then by how far the donor's label lies
    after l on the circle of labels. Both are fixed by the two rows alone, so the order over all
    possible donors is fixed before any table is seen, as the sensitivity theorem needs; the
    donee's own label spreads the donees of a cell evenly over its donors. (Where no row comes or
    goes, as for `missdp.pricing.NeighbourImputer`, row numbers break ties of real vectors.)

    Parameters
    ----------
    layout : Layout
        Private rows.
    k : int
        At least 1.

    Returns
    -------
    array of int, shape (donees, k)
        Nearest first; rows in the order of ``layout.donees.rows``.
    """
    donors, donees = layout.donors, layout.donees
    chosen = room(len(donees.rows) * k, np.int64, filled=-1).reshape(-1, k)
    if not len(donees.rows) or not len(donors.rows):
        return chosen
    near = near_cells(layout, k)
    for part in blocks(len(donees.rows), DONEES):
        for some in _few(layout, near, part, k):
            _choose(layout, near, some, chosen[some])
    return chosen


def _few(layout: Layout, near: NearCells, part: slice, k: int) -> Iterator[slice]:
    """Cut some donees up, so that those of a block have few donors to choose from."""
    if len(near.pair_cell) * k * (part.stop - part.start) <= _HEARD:
        yield part
        return
    heard = np.concatenate([[0], np.cumsum(np.minimum(layout.donors.counts[near.pair_cell], k))])
    of_cell = heard[near.pair_start[1:]] - heard[near.pair_start[:-1]]
    cell_index = np.searchsorted(near.cells, layout.donees.cells_of(part))
    after = np.cumsum(of_cell[cell_index])
    start = 0
    while start < len(after):
        before = after[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(after, before + _HEARD, side="right")))
        yield slice(part.start + start, part.start + stop)
        start = stop


def _choose(layout: Layout, near: NearCells, part: slice, chosen: IntArray) -> None:
    """Write the donors of some donees."""
    donors, donees = layout.donors, layout.donees
    labels = donees.labels(part).astype(np.int64)
    cell_index = np.searchsorted(near.cells, donees.cells_of(part))
    start = near.pair_start[cell_index]
    owner, step = _runs(near.pair_start[cell_index + 1] - start)
    pair = start[owner] + step
    cell = near.pair_cell[pair]
    counts = donors.counts[cell]
    after = donors.below(cell, labels[owner])
    take, step = _runs(np.minimum(counts, chosen.shape[1]))
    at = donors.start[cell[take]] + (after[take] + step) % counts[take]
    owner = owner[take]
    gap = (donors.labels(at).astype(np.int64) - labels[owner]) % layout.size
    order = np.lexsort((gap, near.pair_distance[pair[take]], owner))
    owner, at = owner[order], at[order]
    place = np.arange(len(owner)) - np.searchsorted(owner, owner)
    first = place < chosen.shape[1]
    chosen[owner[first], place[first]] = pick(donors.rows, at[first])


def _runs(counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return each i ``counts[i]`` times, and beside it the numbers from 0 up."""
    owner = np.repeat(np.arange(len(counts)), counts)
    step = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return owner, step


def impute(
    rows: Rows,
    labels: NDArray[np.uint64],
    fills: tuple[tuple[str, str, float], ...],
    k: int,
    metric: Metric,
) -> Prepared:
    """Fill rows from their k nearest donors; the result is private.

    Parameters
    ----------
    rows : Rows
        Private rows.
    labels : array of unsigned int, shape (n,)
        Tie-breaking labels.
    fills : tuple of (str, str, float)
        Attributes to fill, how k values become one, and what stands in for absent donors: a value
        for numeric attributes, a code for others.
    k : int
        Donors per incomplete row.
    metric : Metric
    """
    layout = lay_out(rows, metric, *roles(rows, [name for name, _, _ in fills]), labels)
    donors = choose_donors(layout, k)
    columns = {
        name: _fill(rows, name, layout.donees.rows, donors, how=how, default=default)
        for name, how, default in fills
    }
    return Prepared(columns, profile=Profile(layout, k))


def _fill(
    table: Rows, name: str, rows: NDArray[np.integer], donors: IntArray, *, how: str, default: float
) -> Filled:
    """Return the holes of one attribute in ``rows``, filled from the donors of each.

    Donor -1 is the virtual one, which holds ``default``: a value, or a code if not numeric.
    """
    attribute = table.schema[name]
    order = _sorted_rows(rows, len(table))
    numeric = isinstance(attribute, Numeric)
    given, absent = (
        (table.values(name), default) if numeric else (_codes(table, name), int(default))
    )
    lacking, done = room(len(rows), rows.dtype), 0
    codes = room(len(rows), _code_type(attribute))
    values = room(len(rows), np.float64) if numeric else None
    for part in blocks(len(rows), max(1, DONEES // donors.shape[1])):
        of_rows = pick(rows, order[part])
        keep = _lacks(table, name, of_rows)
        here = slice(done, done + int(np.count_nonzero(keep)))
        done, lacking[here] = here.stop, of_rows[keep]
        chosen = pick(donors, order[part][keep])
        of_donors = np.where(chosen < 0, absent, pick(given, chosen))
        if isinstance(attribute, Numeric) and values is not None:
            ones = of_donors.mean(axis=1) if how == "mean" else of_donors[:, 0]
            values[here] = np.clip(ones, attribute.lower, attribute.upper)
            codes[here] = attribute.encode_values(values[here])
        else:
            codes[here] = _majority(of_donors.astype(np.int64))
    return Filled(lacking[:done], codes[:done], None if values is None else values[:done])


def _sorted_rows(rows: NDArray[np.integer], size: int) -> NDArray[np.integer]:
    """Return the order of some rows, each there once, of a table."""
    if not shelved():
        return np.argsort(rows)
    there = room(size, bool, filled=0)
    for part in blocks(len(rows), DONEES):
        put(there, rows[part], 1)
    place, order = numbered(there, np.int64), room(len(rows), np.int64)
    for part in blocks(len(rows), DONEES):
        put(order, pick(place, rows[part]), np.arange(part.start, part.stop))
    return order


def _lacks(table: Rows, name: str, rows: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Tell which of some rows, in increasing order, have a hole that is to be filled."""
    found = np.zeros(len(rows), dtype=bool)
    for where, part in table.parts():
        here = slice(*np.searchsorted(rows, (where.start, where.stop)))
        if here.start < here.stop:
            hole = part.holes(name) & part.applies(name)[0]
            found[here] = hole[rows[here].astype(np.int64) - where.start]
    return found


def _codes(table: Rows, name: str) -> NDArray[np.integer]:
    """Return the codes of all rows in little room."""
    codes = room(len(table), _code_type(table.schema[name]))
    for where, part in table.parts():
        codes[where] = part.codes(name)
    return codes


def _code_type(attribute: AnyAttribute) -> type[np.integer]:
    return np.int16 if attribute.extended_size < 2**15 else np.int64


def _majority(votes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Most frequent vote of each row; ties go to the vote that comes first."""
    support = np.zeros_like(votes)
    for column in range(votes.shape[1]):
        support += votes == votes[:, [column]]
    return np.asarray(votes[np.arange(len(votes)), support.argmax(axis=1)])


_HEARD = 1 << 20  # donors at once
_CELLS = 1 << 27
_PAIRS = 1 << 22
_FIRST_TERMS = 32
# Above the rounding of exp and of the products, and far below the slack left in the noise.
_ROUND_UP = 1 + 2.0**-42


class Profile:
    """The donation profile of a table: how many donees one donor could serve. Private, and lazy.

    Parameters
    ----------
    layout : Layout
        Private rows.
    k : int
        Number of donors per donee.
    """

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

    def is_exact(self, j: int) -> bool:
        """Whether M_j has been computed exactly."""
        return j in self._exact

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

        Parameters
        ----------
        own, donee : float
            Public weights: how far a row's own contribution, and one donee that exchanges one
            donor, can move the query.
        beta : float
            Above 0.
        """
        if not (beta > 0 and own >= 0 and donee >= 0):
            raise ParameterError("beta must be above 0 and the weights at least 0")
        if donee == 0:
            return own * _ROUND_UP
        terms = min(_FIRST_TERMS, self.max_terms)
        while True:
            upper = self.upper(terms)
            scores = np.exp(-beta * np.arange(terms)) * (own + donee * change_bounds(upper))
            j = int(np.argmax(scores))
            excess = upper[: j + 1] - np.arange(j + 1)
            attained = np.flatnonzero(excess == excess.max())
            if not any(self.is_exact(int(b)) for b in attained):
                self.exact(int(attained[0]))
                continue
            best = float(scores[j])
            tail = _tail(own + donee * self.donees, donee, beta, terms)
            if tail <= best or terms >= self.max_terms:
                return max(best, tail if tail > best else 0.0) * _ROUND_UP
            terms = min(4 * terms, self.max_terms)

    def most(self) -> int:
        """Return M_0: how many donees one donor could serve."""
        return self.exact(0)

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
            best = max(best, site_count(self._layout, self._near, int(site), self._k + j))
        return best


def change_bounds(profile: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return A_j = max over a + b = j of a + M_b, for every j of ``profile``.

    Examples
    --------
    >>> change_bounds(np.array([4, 5, 7, 7, 7, 8])).tolist()
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
    at_home: list[tuple[IntArray, IntArray]] = []
    for rows in _chunks(near, sites):
        index, site, distance = _within_reach(layout, near, rows)
        home = distance == 0
        at_home.append((index[home], site[home]))
        index, site, distance = index[~home], site[~home], distance[~home]
        first = np.maximum(0, near.nearer(index, distance)[0] - k + 1)
        inside = first < terms
        np.add.at(flat, site[inside] * terms + first[inside], weights[index[inside]])
    np.cumsum(bounds, axis=1, out=bounds)
    index, site = (
        (np.concatenate(part) for part in zip(*at_home, strict=True))
        if at_home
        else (np.zeros(0, np.int64), np.zeros(0, np.int64))
    )
    ring = Ring(layout, near)
    for j, depths in enumerate(ring.depths(range(k, k + terms))):
        found = np.bincount(site, weights=depths[index], minlength=sites)
        bounds[:, j] += found.astype(np.int32)
    return bounds


def _chunks(near: NearCells, sites: int) -> list[IntArray]:
    """Donee cells in portions whose reach fits in memory."""
    wide = np.flatnonzero(near.radius > 0)
    narrow = np.flatnonzero(near.radius == 0)
    step = max(1, _PAIRS // sites)
    return [
        rows[begin : begin + size]
        for rows, size in ((narrow, _PAIRS), (wide, step))
        for begin in range(0, len(rows), size)
    ]


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
