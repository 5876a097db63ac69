"""Distances between rows, rows grouped by matching cell, and the donor cells near each donee cell.

The distance is a sum of per-attribute terms (Gower: range-normalised absolute differences for
ordinal and numeric attributes, mismatch for categorical ones; Euclidean: their squares, which give
the same order as the root). Scales are public: they come from the schema. Terms are rounded to
whole multiples of 2**-16 so that sums are exact and ties are ties whatever the order of summation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError, UnprovenError
from missdp.schema import AnyAttribute, Categorical, Numeric, Schema
from missdp.schema.predicates import RowView

__all__ = [
    "FAR",
    "MAX_SITES",
    "IntArray",
    "Layout",
    "Metric",
    "MetricName",
    "NearCells",
    "Side",
    "build_metric",
    "lay_out",
    "near_cells",
]


IntArray = NDArray[np.int64]
MetricName = Literal["gower", "euclidean"]
UNIT = 1 << 16
# A mismatch in a grouping attribute: beyond any sum of matching terms, yet far from overflow.
FAR = 1 << 26
MAX_SITES = 1 << 20
_MAX_MATCH, _MAX_GROUP = 128, 8
_MAX_KEYS = 1 << 62


@dataclass(frozen=True, eq=False)
class Metric:
    """Integer distance tables of the matching attributes, all public.

    Parameters
    ----------
    names : tuple of str
        Grouping attributes, then matching ones.
    tables : tuple of int32 arrays, each of shape (levels, levels)
        Distance between two codes; missing is one more level where the attribute is nullable.
    site_tables : tuple of int32 arrays, each of shape (levels, blocks)
        Smallest distance from a code to a block of the public partition (a block is one level
        unless the partition is coarser).
    """

    names: tuple[str, ...]
    tables: tuple[NDArray[np.int32], ...]
    site_tables: tuple[NDArray[np.int32], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Levels of every attribute."""
        return tuple(len(table) for table in self.tables)

    @property
    def site_shape(self) -> tuple[int, ...]:
        """Blocks of every attribute."""
        return tuple(table.shape[1] for table in self.site_tables)

    @property
    def sites(self) -> int:
        """Number of sites where a hypothetical donor can be."""
        return int(np.prod(self.site_shape, dtype=np.int64))

    def distances(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int32]:
        """Distances between cells, shapes (a, m) and (b, m) to (a, b)."""
        total = np.zeros((len(left), len(right)), dtype=np.int32)
        for column, table in enumerate(self.tables):
            total += np.take(table[left[:, column]], right[:, column], axis=1)
        return total

    def to_site(self, cells: NDArray[np.int64], site: int) -> NDArray[np.int32]:
        """Distances from cells, shape (a, m), to one site."""
        where = np.unravel_index(site, self.site_shape)
        total = np.zeros(len(cells), dtype=np.int32)
        for column, table in enumerate(self.site_tables):
            total += table[cells[:, column], where[column]]
        return total


def build_metric(
    schema: Schema,
    *,
    match_on: Mapping[str, float],
    group: tuple[str, ...],
    metric: MetricName,
    partition: Mapping[str, int],
) -> Metric:
    """Build the tables from public facts.

    Parameters
    ----------
    schema : Schema
        Domain of the attributes.
    match_on : mapping of str to float
        Matching attributes and their weights, finite and above 0.
    group : tuple of str
        Attributes on which donor and donee must agree exactly.
    metric : {"gower", "euclidean"}
        How the terms add up.
    partition : mapping of str to int
        Number of blocks for attributes to be coarsened in the sensitivity bound.

    Raises
    ------
    ParameterError
        If a weight or a block count is out of range.
    UnprovenError
        If the public domain has too many sites for the exact bound: give a coarser partition.

    Examples
    --------
    >>> from missdp import Ordinal, Schema
    >>> schema = Schema((Ordinal(name="grade", levels=("low", "mid", "high")),))
    >>> build_metric(
    ...     schema, match_on={"grade": 1.0}, group=(), metric="gower", partition={}
    ... ).tables[0][0].tolist()
    [0, 32768, 65536]
    """
    if metric not in get_args(MetricName):
        raise ParameterError(f"metric must be 'gower' or 'euclidean', not {metric!r}")
    if len(match_on) > _MAX_MATCH or len(group) > _MAX_GROUP:
        raise ParameterError(f"at most {_MAX_MATCH} matching and {_MAX_GROUP} grouping attributes")
    for weight in match_on.values():
        if isinstance(weight, bool) or not isinstance(weight, Real) or not 0 < weight < np.inf:
            raise ParameterError("matching weights must be finite and above 0")
    names = (*group, *match_on)
    if unknown := set(partition) - set(names):
        raise ParameterError(f"partition names attributes not matched on: {sorted(unknown)}")
    heaviest = max(match_on.values(), default=1.0)
    tables = [_far_table(schema[name]) for name in group]
    tables += [_table(schema[n], w / heaviest, metric) for n, w in match_on.items()]
    blocks = [_blocks(schema[n], t, partition.get(n)) for n, t in zip(names, tables, strict=True)]
    for table in (*tables, *blocks):
        table.flags.writeable = False
    built = Metric(names, tuple(tables), tuple(blocks))
    if np.prod(np.array(built.shape, dtype=object)) >= _MAX_KEYS:
        raise UnprovenError("the domain of the matching attributes is too large; match on fewer")
    if np.prod(np.array(built.site_shape, dtype=object)) > MAX_SITES:
        raise UnprovenError(
            f"the public domain of the matching attributes has more than {MAX_SITES} cells, too "
            "many for the exact sensitivity bound; match on fewer attributes, use coarser bins, "
            "or give partition={attribute: number of blocks}"
        )
    return built


def _far_table(attribute: AnyAttribute) -> NDArray[np.int32]:
    size = attribute.extended_size
    return np.where(np.eye(size, dtype=bool), 0, FAR).astype(np.int32)


def _table(attribute: AnyAttribute, weight: float, metric: MetricName) -> NDArray[np.int32]:
    size = attribute.extended_size
    term = np.ones((size, size))
    if not isinstance(attribute, Categorical):
        at = _positions(attribute)
        term[: attribute.size, : attribute.size] = np.abs(at[:, None] - at[None, :])
    if metric == "euclidean":
        term = term**2
    # Different levels stay apart even when their term rounds to nothing.
    table = np.maximum(np.rint(term * weight * UNIT), 1)
    return np.where(np.eye(size, dtype=bool), 0, table).astype(np.int32)


def _positions(attribute: AnyAttribute) -> NDArray[np.float64]:
    """Place ordered levels in [0, 1]: by rank, or by the middle of the bin."""
    if isinstance(attribute, Numeric):
        at = attribute.centres
    else:
        at = np.arange(attribute.size, dtype=np.float64)
    span = at[-1] - at[0]
    return (at - at[0]) / span if span > 0 else at * 0.0


def _blocks(
    attribute: AnyAttribute, table: NDArray[np.int32], blocks: int | None
) -> NDArray[np.int32]:
    """Smallest distance from each code to each block of consecutive codes."""
    if blocks is None:
        return table
    if not isinstance(blocks, int) or not 1 <= blocks <= attribute.size:
        raise ParameterError(f"partition of {attribute.name!r} must be in 1..{attribute.size}")
    parts = np.array_split(np.arange(attribute.size), blocks)
    if attribute.nullable:
        parts.append(np.array([attribute.missing_code]))
    return np.stack([table[:, part].min(axis=1) for part in parts], axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class Side:
    """Donors, or donees, sorted by cell and label. Private.

    Parameters
    ----------
    rows : array of int, shape (n,)
        Row numbers in the table.
    labels : array of int, shape (n,)
        Their labels, a permutation of ranks shared by both sides.
    cells : array of int, shape (n,)
        Their cells, non-decreasing.
    start : array of int, shape (cells + 1,)
        Where each cell begins.
    """

    rows: IntArray
    labels: IntArray
    cells: IntArray
    start: IntArray

    @property
    def counts(self) -> IntArray:
        """Rows per cell."""
        return np.diff(self.start)


@dataclass(frozen=True, eq=False, repr=False)
class Layout:
    """A private table as the search for donors sees it.

    Parameters
    ----------
    metric : Metric
        Public distances.
    codes : array of int, shape (cells, attributes)
        Codes of the distinct matching cells that occur.
    donors, donees : Side
        Complete and incomplete rows.
    size : int
        Number of rows.
    """

    metric: Metric
    codes: IntArray
    donors: Side
    donees: Side
    size: int


def lay_out(
    rows: RowView, metric: Metric, complete: NDArray[np.bool_], labels: NDArray[np.uint64]
) -> Layout:
    """Group rows by matching cell.

    Parameters
    ----------
    rows : RowView
        Private.
    metric : Metric
        Its names are the matching attributes.
    complete : array of bool, shape (n,)
        True for donors.
    labels : array of unsigned int, shape (n,)
        Tie-breaking labels; only their cyclic order matters.
    """
    size = len(rows)
    key = np.zeros(size, dtype=np.int64)
    for name, levels in zip(metric.names, metric.shape, strict=True):
        key = key * levels + rows.codes(name)
    found, cell = np.unique(key, return_inverse=True)
    codes = np.stack(np.unravel_index(found, metric.shape), axis=1).astype(np.int64)
    by_label = np.argsort(labels, kind="stable")
    rank = np.empty(size, dtype=np.int64)
    rank[by_label] = np.arange(size)
    ordered = by_label[np.argsort(cell[by_label], kind="stable")]
    donors, donees = (
        _side(ordered[keep[ordered]], cell, rank, len(found)) for keep in (complete, ~complete)
    )
    return Layout(metric, codes, donors, donees, size)


def _side(rows: IntArray, cell: IntArray, rank: IntArray, cells: int) -> Side:
    of_rows = cell[rows]
    start = np.concatenate([[0], np.cumsum(np.bincount(of_rows, minlength=cells))])
    return Side(rows, rank[rows], of_rows, start.astype(np.int64))


_CHUNK = 1 << 22


@dataclass(frozen=True, eq=False, repr=False)
class NearCells:
    """Donor cells around donee cells, nearest first, in shells of equal distance. Private.

    Parameters
    ----------
    cells : array of int, shape (x,)
        The donee cells.
    pair_start : array of int, shape (x + 1,)
        Where the donor cells of each donee cell begin in ``pair_cell``.
    pair_cell, pair_distance : array of int, shape (pairs,)
        Donor cells, by distance.
    shell_start : array of int, shape (x + 1,)
        Where the shells of each donee cell begin.
    shell_distance, shell_before, shell_through : array of int, shape (shells,)
        Distance of the shell, and the donors strictly nearer, and up to it.
    shell_pair : array of int, shape (shells + 1,)
        Where each shell's donor cells begin.
    radius : array of int, shape (x,)
        Distance within which donors are complete: the last shell's if it reaches the wanted
        number of donors, else all that the group allows.
    """

    cells: IntArray
    pair_start: IntArray
    pair_cell: IntArray
    pair_distance: IntArray
    shell_start: IntArray
    shell_distance: IntArray
    shell_before: IntArray
    shell_through: IntArray
    shell_pair: IntArray
    radius: IntArray

    def nearer(self, index: IntArray, distance: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Donors strictly nearer than ``distance``, and up to it, and the shell at it (or -1).

        Parameters
        ----------
        index : array of int, shape (q,)
            Positions in ``cells``.
        distance : array of int, shape (q,)
            At most ``radius``.
        """
        if not len(self.shell_distance):
            none = np.zeros(len(index), dtype=np.int64)
            return none, none, none - 1
        owner = np.repeat(np.arange(len(self.cells)), np.diff(self.shell_start))
        keys = owner * (2 * FAR) + self.shell_distance
        at = np.searchsorted(keys, index * (2 * FAR) + distance)
        inside = at < self.shell_start[index + 1]
        safe = np.minimum(at, len(keys) - 1)
        last = np.maximum(self.shell_start[index + 1] - 1, 0)
        some = self.shell_start[index + 1] > self.shell_start[index]
        total = np.where(some, self.shell_through[last], 0)
        before = np.where(inside, self.shell_before[safe], total)
        hit = inside & (self.shell_distance[safe] == distance)
        return before, np.where(hit, self.shell_through[safe], before), np.where(hit, at, -1)


def near_cells(layout: Layout, wanted: int) -> NearCells:
    """Find, for every cell with donees, its donor cells up to ``wanted`` donors and ties.

    A cell with that many donors of its own has itself as its only neighbour; the distance matrix
    of the others to the donor cells is built in chunks.
    """
    counts = layout.donors.counts
    cells = np.flatnonzero(layout.donees.counts > 0)
    donor_cells = np.flatnonzero(counts > 0)
    sparse = counts[cells] < wanted
    dense = np.flatnonzero(~sparse)
    owners, found, distances = [dense], [cells[dense]], [np.zeros(len(dense), dtype=np.int64)]
    if len(donor_cells):
        rows = np.flatnonzero(sparse)
        step = max(1, _CHUNK // len(donor_cells))
        for begin in range(0, len(rows), step):
            chunk = rows[begin : begin + step]
            owner, cell, distance = _nearest(layout, cells[chunk], donor_cells, counts, wanted)
            owners.append(chunk[owner])
            found.append(cell)
            distances.append(distance)
    owner, cell, distance = (np.concatenate(part) for part in (owners, found, distances))
    order = np.argsort(owner, kind="stable")
    return _shells(cells, owner[order], cell[order], distance[order], counts, wanted)


def _nearest(
    layout: Layout, cells: IntArray, donor_cells: IntArray, counts: IntArray, wanted: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Pairs (position in ``cells``, donor cell, distance), by distance, up to ``wanted`` donors."""
    matrix = layout.metric.distances(layout.codes[cells], layout.codes[donor_cells])
    limit = np.full(len(cells), FAR - 1, dtype=np.int64)
    if wanted < matrix.shape[1]:
        # Every donor cell holds at least one donor, so this many cells hold enough of them.
        kth = np.partition(matrix, wanted - 1, axis=1)[:, wanted - 1]
        limit = np.minimum(limit, kth)
    owner, column = np.nonzero(matrix <= limit[:, None])
    distance = matrix[owner, column].astype(np.int64)
    order = np.lexsort((distance, owner))
    owner, column, distance = owner[order], column[order], distance[order]
    weight = counts[donor_cells[column]]
    through = np.cumsum(weight)
    starts = np.searchsorted(owner, np.arange(len(cells)))
    offset = np.concatenate([[0], through])[starts]
    before_pair = through - weight - offset[owner]
    # Keep whole shells: a pair stays if fewer than ``wanted`` donors are strictly nearer.
    first = _first_of_shell(owner, distance)
    keep = before_pair[first] < wanted
    return owner[keep], donor_cells[column[keep]], distance[keep]


def _first_of_shell(owner: IntArray, distance: IntArray) -> IntArray:
    """Index of the first pair with the same owner and distance."""
    new = np.ones(len(owner), dtype=bool)
    new[1:] = (owner[1:] != owner[:-1]) | (distance[1:] != distance[:-1])
    return np.maximum.accumulate(np.where(new, np.arange(len(owner)), 0))


def _shells(
    cells: IntArray,
    owner: IntArray,
    cell: IntArray,
    distance: IntArray,
    counts: IntArray,
    wanted: int,
) -> NearCells:
    bounds = np.arange(len(cells) + 1)
    pair_start = np.searchsorted(owner, bounds)
    through = np.concatenate([[0], np.cumsum(counts[cell])])
    first = np.unique(_first_of_shell(owner, distance)) if len(owner) else np.zeros(0, np.int64)
    shell_pair = np.concatenate([first, [len(owner)]]).astype(np.int64)
    shell_owner = owner[first]
    offset = through[pair_start[shell_owner]]
    shell_through = through[shell_pair[1:]] - offset
    shell_start = np.searchsorted(shell_owner, bounds)
    radius = np.full(len(cells), FAR - 1, dtype=np.int64)
    has = shell_start[1:] > shell_start[:-1]
    last = np.maximum(shell_start[1:] - 1, 0)
    if len(first):
        reached = has & (shell_through[last] >= wanted)
        radius[reached] = distance[first][last[reached]]
    return NearCells(
        cells, pair_start, cell, distance, shell_start, distance[first],
        through[shell_pair[:-1]] - offset, shell_through, shell_pair, radius,
    )  # fmt: skip
