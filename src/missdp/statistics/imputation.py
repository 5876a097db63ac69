"""Missing values filled from the k nearest complete rows, and how far that lets one row go.

The parameters are public and hold no rows. `NearestNeighbours` is the change of rows that a session
takes. The profile of filled rows is private: how many recipients one donor could ever serve.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError, SchemaError, check_choice, check_number, names_of
from missdp.schema import AnyAttribute, Level, Numeric, Schema
from missdp.statistics.blocks import blocks
from missdp.statistics.donors import (
    IntArray,
    Layout,
    Metric,
    MetricName,
    NearCells,
    build_metric,
)
from missdp.statistics.imputed_rows import ImputedCells, Rows, Ways
from missdp.statistics.row_queries import frozen

Aggregate = Literal["nearest", "mean", "majority"]
Fill: TypeAlias = tuple[str, str, float]
"""An attribute to fill, how k values become one, and what stands in for absent donors."""
_CLOSEST = 1e-150
_AT_ONCE = 1 << 20  # values


def check_range(attribute: AnyAttribute) -> None:
    """Refuse bounds whose squares floating point cannot hold; a public fact."""
    if isinstance(attribute, Numeric) and attribute.upper - attribute.lower < _CLOSEST:
        raise SchemaError(
            f"the bounds of {attribute.name!r} are too close for statistics; use another unit"
        )


@dataclass(frozen=True, kw_only=True)
class KNNImputation:
    """k-nearest-neighbour imputation of one or several attributes; public parameters only.

    A row is *complete* (a possible donor) if all of ``impute`` is observed in it. Every other row
    keeps what it has and takes what it lacks from its k nearest donors. Where more donors are as
    near as the k-th, it counts as the average over ways to choose among them, in each of which as
    many that follow each other in the table are taken; each of them counts alike.

    What is not applicable is never filled, and rows to which nothing of ``impute`` applies neither
    give nor take. A missing cell in a routed attribute is filled where the rule's condition surely
    holds in its row; where the condition itself is missing it stays a missing cell. Attributes
    filled together come from donors to which the same of them apply.

    Parameters
    ----------
    impute : str or sequence of str
        Attributes to fill; they share donors.
    match_on : sequence of str, or mapping of str to float
        Attributes that donors are matched on, with weights (default 1). Numeric attributes are
        matched by the bins of the schema. A missing cell is one more level, at the largest distance
        from every other, and "not applicable" another one.
    k : int, default 1
        Donors per incomplete row.
    metric : {"gower", "euclidean"}, default "gower"
        Sum of range-normalised differences (mismatch for categorical attributes), or of their
        squares.
    group : sequence of str, default ()
        Attributes on which a donor must agree exactly.
    aggregate : {"nearest", "mean", "majority"} or mapping, optional
        How k values become one, for all attributes or each. Default: the nearest donor's value if
        k is 1, else the mean of a numeric attribute and the majority of others (ties go to the
        nearest).
    default : mapping of str to a level or number, default {}
        Public value that stands in for donors that do not exist (default: the middle of the
        bounds, or the first level).

    Raises
    ------
    ParameterError
        If the parameters contradict each other.
    SchemaError
        When it is used: if an attribute does not exist or cannot be imputed this way.
    UnprovenError
        When it is used: if the public domain is too large for the sensitivity bound.

    Notes
    -----
    *Fewer than k donors.* Behind all real donors, at infinite distance, every incomplete row has k
    virtual donors that hold the public default. So a donor set always has exactly k members, one
    donor more or less exchanges exactly one of them, and the sensitivity theorem holds unchanged:
    the mean divides by k, never by the number of donors found.

    Examples
    --------
    >>> KNNImputation(impute="income", match_on=("age", "education")).k
    1
    """

    impute: Sequence[str]
    match_on: Sequence[str] | Mapping[str, float]
    k: int = 1
    metric: MetricName = "gower"
    group: Sequence[str] = ()
    aggregate: Aggregate | Mapping[str, Aggregate] | None = None
    default: Mapping[str, Level | float] | None = None

    def __post_init__(self) -> None:
        impute, match_on, group = (
            names_of("attributes", names) for names in (self.impute, self.match_on, self.group)
        )
        weights = self.match_on if isinstance(self.match_on, Mapping) else {}
        facts = {
            "impute": impute, "match_on": {n: weights.get(n, 1.0) for n in match_on},
            "group": group, "default": dict(self.default or {}),
        }  # fmt: skip
        for name, value in facts.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        if not self.impute or not (self.match_on or self.group):
            raise ParameterError("name at least one attribute to impute and one to match on")
        everything = (*self.impute, *self.match_on, *self.group)
        if repeated := [name for name in everything if everything.count(name) > 1]:
            raise ParameterError(
                f"attribute {repeated[0]!r} is listed in more than one of impute, match_on and "
                "group, or twice in one. Use each attribute once."
            )
        if isinstance(self.k, bool) or not isinstance(self.k, int) or not 1 <= self.k <= 1000:
            raise ParameterError("k must be a whole number from 1 to 1000")
        if unknown := {*(self.default or {}), *self._aggregates()} - set(self.impute):
            raise ParameterError(
                f"aggregate or default for attributes not imputed: {sorted(unknown)}"
            )
        for how in self._aggregates().values():
            check_choice("aggregate", how, get_args(Aggregate))
            if how == "nearest" and self.k > 1:
                raise ParameterError("aggregate 'nearest' copies one donor: use k = 1")

    def _aggregates(self) -> Mapping[str, Aggregate]:
        if isinstance(self.aggregate, Mapping):
            return self.aggregate
        return {} if self.aggregate is None else dict.fromkeys(self.impute, self.aggregate)

    def aggregate_of(self, name: str, schema: Schema) -> Aggregate:
        """Return how the values of k donors become one."""
        numeric = isinstance(schema[name], Numeric)
        usual: Aggregate = "mean" if numeric else "majority"
        how = self._aggregates().get(name, "nearest" if self.k == 1 else usual)
        if how == "mean" and not numeric:
            raise SchemaError(f"{name!r} is not numeric: impute it by 'majority'")
        if how == "majority" and numeric:
            raise SchemaError(f"{name!r} is numeric: impute it by 'mean', or declare it ordinal")
        return how

    def default_of(self, name: str, schema: Schema) -> float:
        """Return the public stand-in for absent donors: a value (numeric) or a code."""
        attribute, given = schema[name], self.default or {}
        if isinstance(attribute, Numeric):
            value = given.get(name, (attribute.lower + attribute.upper) / 2)
            what = f"the default of {name!r}"
            return check_number(what, value, min_value=attribute.lower, max_value=attribute.upper)
        level = given.get(name, next(iter(attribute.levels), None))
        if level not in attribute.levels:
            raise ParameterError(f"default of {name!r} must be one of its levels")
        return float(attribute.levels.index(level))

    def step(self, name: str, schema: Schema) -> float:
        """Return the largest move of a filled value per exchanged donor, a share of its range."""
        return 1 / self.k if self.aggregate_of(name, schema) == "mean" else 1.0

    def change(self, schema: Schema) -> NearestNeighbours:
        """Return the change that imputes rows of a schema; see `Session.on`.

        Raises
        ------
        SchemaError
            If the schema has no such attribute, or an attribute cannot be imputed this way.
        UnprovenError
            If the public domain is too large for the sensitivity bound.
        """
        fills = []
        for name in self.impute:
            check_range(schema[name])
            how = self.aggregate_of(name, schema)
            fills.append((name, how, self.default_of(name, schema)))
        together = schema.rule_set.not_everywhere(self.impute) if len(self.impute) > 1 else ()
        assert isinstance(self.match_on, Mapping)  # made one
        metric = build_metric(
            schema, match_on=self.match_on, group=tuple(self.group), metric=self.metric,
            together=together,
        )  # fmt: skip
        return NearestNeighbours(fills=tuple(fills), k=self.k, metric=metric)


@dataclass(frozen=True, kw_only=True, eq=False)
class NearestNeighbours:
    """Fill rows from their k nearest donors, in all ways. Public parameters only.

    Trusted: `_Profile` bounds how many rows one row moves; see docs/referees/donor-noise.md.

    Attributes
    ----------
    fills : tuple
        The attributes to fill, and how.
    k : int
        Donors of each row.
    metric : Metric
        How far rows are from each other; it depends on the domain alone.
    """

    fills: tuple[Fill, ...]
    k: int
    metric: Metric

    def __post_init__(self) -> None:
        frozen((self.fills, self.k, self.metric))  # refuses what can be changed after the charge

    @property
    def imputed(self) -> frozenset[str]:
        """The attributes of which it fills cells."""
        return frozenset(name for name, _, _ in self.fills)

    @property
    def reads(self) -> frozenset[str]:
        """The attributes that it reads."""
        return self.imputed | frozenset(self.metric.names)

    def fill(self, rows: Rows) -> Ways:
        """Return all ways to fill the rows, and how many rows one row moves. Private."""
        layout = Layout.of(rows, [name for name, _, _ in self.fills], self.metric)
        donors, start = layout.ways(self.k)
        order, counts = np.argsort(layout.donees.rows), layout.donees.counts
        filled, lists = (np.empty(len(order), np.int64) for _ in range(2))
        filled[:] = layout.donees.rows[order]
        lists[:] = np.repeat(np.arange(np.count_nonzero(counts)), counts[counts > 0])[order]
        columns = {fill[0]: _fill(rows, fill, donors) for fill in self.fills}
        return Ways(filled, lists, start, columns, _Profile(layout, self.k))


def _fill(table: Rows, fill: Fill, donors: IntArray) -> ImputedCells:
    """Return one attribute in all ways, from the donors of each; donor -1 holds the default."""
    name, how, default = fill
    attribute, given = table.schema[name], np.empty(len(table) + 1, np.float64)
    for where, part in table.parts():
        given[where] = part.values(name) if isinstance(attribute, Numeric) else part.codes(name)
    given[-1] = default
    codes, values = np.empty(len(donors), np.int64), np.empty(len(donors), np.float64)
    for where in blocks(len(donors), max(1, _AT_ONCE // donors.shape[1])):
        some = given[donors[where]]
        if isinstance(attribute, Numeric):
            ones = some.mean(axis=1) if how == "mean" else some[:, 0]
            values[where] = np.clip(ones, attribute.lower, attribute.upper)
            codes[where] = attribute.encode_values(values[where])
        else:
            codes[where] = _majority(some.astype(np.int64))
    numeric = isinstance(attribute, Numeric)
    return ImputedCells(np.arange(len(donors)), codes, values if numeric else None)


def _majority(votes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the most frequent vote of each row; ties go to the vote that comes first."""
    support = np.zeros_like(votes)
    for column in range(votes.shape[1]):
        support += votes == votes[:, [column]]
    return np.asarray(votes[np.arange(len(votes)), support.argmax(axis=1)])


_CELLS = 1 << 26
_PAIRS = 1 << 22
_FIRST_TERMS = 32
_UNIT = 1 << 20
# Above the rounding of exp and of the products, and far below the slack left in the noise.
_ROUND_UP = 1 + 2.0**-42


class _Profile:
    """How many recipients one donor could ever serve, the bound of imputed questions. Private.

    A donor t would find N(x) donors strictly nearer to a recipient x than itself, and T(x) others
    as near; it would count for the share min(1, (k - N)^+ / (T + 1)) of a donor of x. If up to j
    donors could have gone before, that is for how many recipients in all

        h_j(N, T) = max over r + q <= j, r <= N, q <= T of min(1, (k - N + r)^+ / (T - q + 1))
        M_j(D)    = max_t sum over x in I of h_j(N(x), T(x))

    where t ranges over every cell of the public domain, and T leaves out one donor that stands
    there if there is one: t may be this donor, that goes. h_j takes r first, then q:
    (m + 1) / D >= m / (D - 1) for m < D. It is rounded up to multiples of 2**-20, so that all sums
    are of whole numbers.

    ``M_j(D) <= M_{j+1}(D')`` if D' has one donor more or less, ``|M_j(D) - M_j(D')| <= 1`` if one
    recipient more or less; rows that are neither move nothing. So, for every beta above 0,

        U_j(D) = own + donee * A_j(D),   A_j(D) = max_{a + b = j} (a + M_b(D))
        S_beta(D) = max_j exp(-beta j) U_j(D)

    is a smooth bound: U_0 bounds the local sensitivity, and U_j(D) <= U_{j+1}(D') for neighbours.
    Proofs, of rounding too: docs/referees/donor-noise.md. Beyond ``max_terms`` (public)
    M_b is the number of recipients |I|, which moves by at most 1 with an incomplete row, too.
    """

    def __init__(self, layout: Layout, k: int) -> None:
        self._layout, self._k = layout, k
        # Public: depends on the domain alone.
        self.max_terms = int(min(2048, max(_FIRST_TERMS, _CELLS // layout.metric.sites)))
        self._served = np.zeros(0)

    def __repr__(self) -> str:
        return "Profile(private)"

    def served(self, terms: int) -> NDArray[np.float64]:
        """Return M_0 .. M_{terms - 1}, multiples of 2**-20; ``terms <= max_terms``."""
        if terms > len(self._served):
            self._served = _served(self._layout, self._k, terms)
        return self._served[:terms]

    def smooth_bound(self, *, own: float, donee: float, beta: float) -> float:
        """Return S_beta, rounded up by a factor of at most 1 + 2**-40. Private.

        ``own`` and ``donee`` say how far a row's own contribution, and one recipient that exchanges
        one donor, move the query. Later terms are skipped once |I| could not beat the maximum.
        """
        if not (beta > 0 and own >= 0 and donee >= 0):
            raise ParameterError("beta must be above 0 and the weights at least 0")
        if donee == 0:
            return own * _ROUND_UP
        terms = min(_FIRST_TERMS, self.max_terms)
        while True:
            changed = _change_bounds(self.served(terms))
            best = float(np.max(np.exp(-beta * np.arange(terms)) * (own + donee * changed)))
            tail = _tail(own + donee * len(self._layout.donees.rows), donee, beta, terms)
            if tail <= best or terms >= self.max_terms:
                return max(best, tail if tail > best else 0.0) * _ROUND_UP
            terms = min(4 * terms, self.max_terms)


def _change_bounds(profile: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return A_j = max over a + b = j of a + M_b, for every j of ``profile``."""
    steps = np.arange(len(profile))
    return np.asarray(steps + np.maximum.accumulate(profile - steps), dtype=np.float64)


def _tail(height: float, slope: float, beta: float, start: int) -> float:
    """Supremum of exp(-beta j)(height + slope j) over real j >= start."""
    j = max(float(start), 1 / beta - height / slope)
    return math.exp(-beta * j) * (height + slope * j)


def _served(layout: Layout, k: int, terms: int) -> NDArray[np.float64]:
    """Return M_0 .. M_{terms - 1}."""
    near, sites = layout.near(k + terms), layout.metric.sites
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
    taken = np.zeros(metric.sites, dtype=np.int64)
    codes = layout.codes[layout.donors.counts > 0]
    taken[np.ravel_multi_index(tuple(codes.T), metric.site_shape)] = 1
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
    """Triples (recipient cell, site, distance) up to the cell's radius, built by attribute."""
    metric = layout.metric
    codes = layout.codes[near.cells]
    index, site = rows, np.zeros(len(rows), dtype=np.int64)
    distance = np.zeros(len(rows), dtype=np.int64)
    for column, table in enumerate(metric.site_tables):
        total = distance[:, None] + table[codes[index, column]]
        owner, code = np.nonzero(total <= near.radius[index][:, None])
        site = site[owner] * table.shape[1] + code
        index, distance = index[owner], total[owner, code]
    return index, site, distance
