"""Missing values filled from the k nearest complete rows, and the sensitivity of the filled table.

The parameters are public and hold no rows. `NearestNeighbours` is the change of rows that a session
takes. The profile of filled rows is private: the number of recipients that one donor could ever
serve.
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
from missdp.statistics.blocks import slices
from missdp.statistics.donors import (
    DonorLayout,
    IntArray,
    Metric,
    MetricName,
    NearbyCells,
    build_metric,
)
from missdp.statistics.imputed_rows import ImputedCells, RowView, Ways
from missdp.statistics.row_queries import freeze

Aggregate = Literal["nearest", "mean", "majority"]
Fill: TypeAlias = tuple[str, str, float]
"""An attribute to fill, the aggregation of k values, and the value in place of absent donors."""
_CLOSEST = 1e-150  # smallest width of bounds, so that its square is above 0
_AT_ONCE = 1 << 20  # values in memory at once


def check_range(attribute: AnyAttribute) -> None:
    """Raise SchemaError if the bounds are too close for squares in floating point."""
    if isinstance(attribute, Numeric) and attribute.upper - attribute.lower < _CLOSEST:
        raise SchemaError(
            f"the bounds of {attribute.name!r} are too close for statistics. Use another unit"
        )


@dataclass(frozen=True, kw_only=True)
class KNNImputation:
    """Parameters of a k-nearest-neighbour imputation of missing cells, for private statistics.

    All parameters are public, and the object holds no rows. Pass it to `ImputedStatistics` or
    `run_queries`. A *donor* is a row in which all attributes of ``impute`` are observed. Every
    other row keeps its values, and takes missing values from its k nearest donors. The noise of a
    statistic covers the effect of one donor on all rows that are filled from it.

    If more donors are as near as the k-th, the row counts as an average over ways to choose among
    them. In each way the chosen donors follow each other in the table. All donors count equally.

    Cells that are not applicable are never filled. Rows to which no attribute of ``impute`` applies
    are neither donors nor recipients. A missing cell of an attribute with a rule is filled if the
    rule's condition surely holds in its row. If the condition itself is missing, the cell stays
    missing. Attributes filled together come from donors to which the same of them apply.

    Parameters
    ----------
    impute : str or sequence of str
        Names of the attributes to fill, at least one. They share donors.
    match_on : sequence of str, or mapping of str to float
        Attributes that donors are matched on, with weights (default 1). Numeric attributes are
        matched by the bins of the schema. A missing cell is one more level, at the largest
        distance from every other, and "not applicable" another one.
    k : int, default 1
        Donors per incomplete row, from 1 to 1000.
    metric : {"gower", "euclidean"}, default "gower"
        Sum of range-normalised differences (mismatch for categorical attributes), or of their
        squares.
    group : sequence of str, default ()
        Attributes on which a donor must agree exactly.
    aggregate : {"nearest", "mean", "majority"} or mapping, optional
        Aggregation of k values, for all attributes or for each. The default with k = 1 is the
        nearest donor's value. With larger k it is the mean of a numeric attribute and the
        majority of other attributes. Ties go to the nearest donor.
    default : mapping of str to a level or number, default {}
        Public value in place of absent donors. The default is the middle of the bounds, or the
        first level.

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
    virtual donors that hold the public default. So a donor set always has exactly k members. One
    donor more or less exchanges exactly one member, and the sensitivity theorem holds unchanged.
    The mean divides by k, and never by the number of donors.

    *Privacy.* Filled cells stay private. The object costs nothing: a budget pays for each
    statistic.

    References
    ----------
    Clifton, Hanson, Merrill, Merrill (2022), "Differentially private k-nearest neighbor missing
    data imputation", ACM Transactions on Privacy and Security 25(3).

    Examples
    --------
    >>> from missdp.statistics import KNNImputation
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
                raise ParameterError("aggregate 'nearest' copies one donor. Use k = 1")

    def _aggregates(self) -> Mapping[str, Aggregate]:
        if isinstance(self.aggregate, Mapping):
            return self.aggregate
        return {} if self.aggregate is None else dict.fromkeys(self.impute, self.aggregate)

    def aggregate_of(self, name: str, schema: Schema) -> Aggregate:
        """Return the rule that turns the values of k donors into the value of a filled cell.

        Parameters
        ----------
        name : str
            An attribute that is imputed.
        schema : Schema
            Public facts about the rows.

        Returns
        -------
        {"nearest", "mean", "majority"}
            Public. The nearest donor's value, the mean of a numeric attribute, or the most
            frequent level.

        Raises
        ------
        SchemaError
            If the aggregation does not suit the kind of the attribute.
        """
        numeric = isinstance(schema[name], Numeric)
        usual: Aggregate = "mean" if numeric else "majority"
        how = self._aggregates().get(name, "nearest" if self.k == 1 else usual)
        if how == "mean" and not numeric:
            raise SchemaError(f"{name!r} is not numeric. Impute it by 'majority'")
        if how == "majority" and numeric:
            raise SchemaError(f"{name!r} is numeric. Impute it by 'mean', or declare it ordinal")
        return how

    def default_of(self, name: str, schema: Schema) -> float:
        """Return the public value that fills a cell in place of absent donors.

        Parameters
        ----------
        name : str
            An attribute that is imputed.
        schema : Schema
            Public facts about the rows.

        Returns
        -------
        float
            Public. The value of a numeric attribute in its units, or the code of a level (its
            place in the declared order, from 0).

        Raises
        ------
        ParameterError
            If the default is outside of the bounds, or is not a level.
        """
        attribute, defaults = schema[name], self.default or {}
        if isinstance(attribute, Numeric):
            value = defaults.get(name, (attribute.lower + attribute.upper) / 2)
            label = f"the default of {name!r}"
            return check_number(label, value, min_value=attribute.lower, max_value=attribute.upper)
        level = defaults.get(name, next(iter(attribute.levels), None))
        if level not in attribute.levels:
            raise ParameterError(f"default of {name!r} must be one of its levels")
        return float(attribute.levels.index(level))

    def step(self, name: str, schema: Schema) -> float:
        """Return the largest change of a filled cell when one of its donors is exchanged.

        It is 1 / k for a mean of k donors, and 1 otherwise.

        Parameters
        ----------
        name : str
            An attribute that is imputed.
        schema : Schema
            Public facts about the rows.

        Returns
        -------
        float
            Public share of the attribute's range, in (0, 1].

        Raises
        ------
        SchemaError
            If the aggregation does not suit the kind of the attribute.
        """
        return 1 / self.k if self.aggregate_of(name, schema) == "mean" else 1.0

    def change(self, schema: Schema) -> NearestNeighbours:
        """Return this nearest-neighbour imputation as a change that ``Session.apply`` accepts.

        Parameters
        ----------
        schema : Schema
            Public facts about the rows.

        Returns
        -------
        NearestNeighbours
            The change of rows, with public parameters only. It costs nothing.

        Raises
        ------
        SchemaError
            If the schema has no such attribute, or an attribute cannot be imputed this way.
        ParameterError
            If a default is outside of the bounds, or is not a level.
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
    """Imputation of rows from their k nearest donors, in all ways. Public parameters only.

    Trusted: `_Profile` bounds the number of rows that one row changes, with proofs in
    docs/referees/donor-noise.md.

    Attributes
    ----------
    fills : tuple
        The attributes to fill, and how.
    k : int
        Donors of each row.
    metric : Metric
        The distance of rows. It depends on the domain alone.
    """

    fills: tuple[Fill, ...]
    k: int
    metric: Metric

    def __post_init__(self) -> None:
        freeze((self.fills, self.k, self.metric))  # raises for values that could change later

    @property
    def imputed(self) -> frozenset[str]:
        """The attributes whose cells are filled."""
        return frozenset(name for name, _, _ in self.fills)

    @property
    def reads(self) -> frozenset[str]:
        """The attributes that it reads."""
        return self.imputed | frozenset(self.metric.names)

    def fill(self, rows: RowView) -> Ways:
        """Return all ways to fill the rows, and how many rows one row moves. Private."""
        layout = DonorLayout.of(rows, [name for name, _, _ in self.fills], self.metric)
        donors, start = layout.ways(self.k)
        order, counts = np.argsort(layout.recipients.rows), layout.recipients.counts
        filled, lists = (np.empty(len(order), np.int64) for _ in range(2))
        filled[:] = layout.recipients.rows[order]
        lists[:] = np.repeat(np.arange(np.count_nonzero(counts)), counts[counts > 0])[order]
        columns = {fill[0]: _fill(rows, fill, donors) for fill in self.fills}
        return Ways(filled, lists, start, columns, _Profile(layout, self.k))


def _fill(table: RowView, fill: Fill, donors: IntArray) -> ImputedCells:
    """Return one attribute in all ways, from the donors of each way."""
    name, how, default = fill
    attribute, cells = table.schema[name], np.empty(len(table) + 1, np.float64)
    for where, part in table.parts():
        cells[where] = part.values(name) if isinstance(attribute, Numeric) else part.codes(name)
    cells[-1] = default
    codes, values = np.empty(len(donors), np.int64), np.empty(len(donors), np.float64)
    for where in slices(len(donors), max(1, _AT_ONCE // donors.shape[1])):
        some = cells[donors[where]]
        if isinstance(attribute, Numeric):
            ones = some.mean(axis=1) if how == "mean" else some[:, 0]
            values[where] = np.clip(ones, attribute.lower, attribute.upper)
            codes[where] = attribute.encode_values(values[where])
        else:
            codes[where] = _majority(some.astype(np.int64))
    numeric = isinstance(attribute, Numeric)
    return ImputedCells(np.arange(len(donors)), codes, values if numeric else None)


def _majority(votes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the most frequent vote of each row, and the first of equally frequent votes."""
    support = np.zeros_like(votes)
    for column in range(votes.shape[1]):
        support += votes == votes[:, [column]]
    return np.asarray(votes[np.arange(len(votes)), support.argmax(axis=1)])


_CELLS = 1 << 26  # entries of the profile in memory at once
_PAIRS = 1 << 22  # pairs of recipient cells and sites in memory at once
_FIRST_TERMS = 32  # terms of the profile that are computed first
_UNIT = 1 << 20  # integer steps of a share of 1
# Larger than the rounding error of exp and of the products, and far below the slack of the noise.
_ROUND_UP = 1 + 2.0**-42


class _Profile:
    """Bound on the recipients that one donor could ever serve. Private.

    Let t be a possible donor. N(x) donors are strictly nearer to a recipient x than t, and T(x)
    other donors are as near. Then t would count for the share min(1, (k - N)^+ / (T + 1)) of a
    donor of x. If up to j donors are removed first, the sum over all recipients is at most

        h_j(N, T) = max over r + q <= j, r <= N, q <= T of min(1, (k - N + r)^+ / (T - q + 1))
        M_j(D)    = max_t sum over x in I of h_j(N(x), T(x))

    where t ranges over every cell of the public domain. T leaves out one donor at this cell, if
    there is one, because t may be this donor. The maximum of h_j takes r first, then q:
    ``(m + 1) / D >= m / (D - 1)`` for m < D. It is rounded up to multiples of 2**-20, so that all
    sums are sums of integers.

    ``M_j(D) <= M_{j+1}(D')`` if D' has one donor more or less. ``|M_j(D) - M_j(D')| <= 1`` if D'
    has one recipient more or less. Other rows have no effect. So, for every beta above 0,

        U_j(D) = row_weight + recipient_weight * A_j(D),  A_j(D) = max_{a + b = j} (a + M_b(D))
        S_beta(D) = max_j exp(-beta j) U_j(D)

    is a smooth bound: U_0 bounds the local sensitivity, and U_j(D) <= U_{j+1}(D') for neighbours.
    Proofs, of rounding too: docs/referees/donor-noise.md. Beyond ``max_terms`` (public)
    M_b is the number of recipients |I|, which moves by at most 1 with an incomplete row, too.
    """

    def __init__(self, layout: DonorLayout, k: int) -> None:
        self._layout, self._k = layout, k
        # Public: depends on the domain alone.
        self.max_terms = int(min(2048, max(_FIRST_TERMS, _CELLS // layout.metric.sites)))
        self._served = np.zeros(0)

    def __repr__(self) -> str:
        return "Profile(private)"

    def served(self, terms: int) -> NDArray[np.float64]:
        """Return M_0 .. M_{terms - 1}, multiples of 2**-20, for ``terms <= max_terms``."""
        if terms > len(self._served):
            self._served = _served(self._layout, self._k, terms)
        return self._served[:terms]

    def smooth_bound(self, *, row_weight: float, recipient_weight: float, beta: float) -> float:
        """Return S_beta, rounded up by a factor of at most 1 + 2**-40. Private.

        ``row_weight`` bounds the change by a row's own contribution, ``recipient_weight`` the
        change by one recipient that exchanges one donor. Later terms are skipped once |I| cannot
        exceed the maximum.
        """
        if not (beta > 0 and row_weight >= 0 and recipient_weight >= 0):
            raise ParameterError("beta must be above 0 and the weights at least 0")
        if recipient_weight == 0:
            return row_weight * _ROUND_UP
        terms = min(_FIRST_TERMS, self.max_terms)
        while True:
            changed = _change_bounds(self.served(terms))
            bounds = np.exp(-beta * np.arange(terms)) * (row_weight + recipient_weight * changed)
            best, recipients = float(bounds.max()), len(self._layout.recipients.rows)
            tail = _tail(row_weight + recipient_weight * recipients, recipient_weight, beta, terms)
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


def _served(layout: DonorLayout, k: int, terms: int) -> NDArray[np.float64]:
    """Return M_0 .. M_{terms - 1}."""
    near, sites = layout.near(k + terms), layout.metric.sites
    occupied = _occupied_sites(layout)
    served = np.zeros((terms, sites))  # whole numbers of 2**-20, far below 2**53
    for rows in _chunks(near, sites):
        index, site, distance = _within_reach(layout, near, rows)
        before, through = near.nearer(index, distance)
        order = np.argsort(before, kind="stable")
        site, before, index = site[order], before[order], index[order]
        others = np.maximum(through[order] - before - occupied[site], 0)
        weights = layout.recipients.counts[near.cells[index]]
        for j, ends in enumerate(np.searchsorted(before, k + np.arange(terms))):
            shares = _share(before[:ends], others[:ends], k, j) * weights[:ends]
            served[j] += np.bincount(site[:ends], weights=shares, minlength=sites)
    return np.asarray(served.max(axis=1, initial=0.0) / _UNIT)


def _share(nearer: IntArray, tied: IntArray, k: int, j: int) -> IntArray:
    """Return h_j, rounded up to multiples of 2**-20, in these.

    >>> import numpy as np
    >>> from missdp.statistics.imputation import _UNIT, _share
    >>> (_share(np.array([0, 0, 1, 2]), np.array([3, 0, 1, 0]), 1, 1) / _UNIT).round(3).tolist()
    [0.333, 1.0, 0.5, 0.0]
    """
    gone = np.minimum(nearer, j)
    places = np.maximum(k - nearer + gone, 0)
    among = tied - np.minimum(tied, j - gone) + 1
    return np.asarray(np.minimum(-(-places * _UNIT // among), _UNIT))


def _occupied_sites(layout: DonorLayout) -> IntArray:
    """Return 1 for the sites where a donor stands, 0 for the others."""
    metric = layout.metric
    occupied = np.zeros(metric.sites, dtype=np.int64)
    codes = layout.codes[layout.donors.counts > 0]
    occupied[np.ravel_multi_index(tuple(codes.T), metric.site_shape)] = 1
    return occupied


def _chunks(near: NearbyCells, sites: int) -> Iterator[IntArray]:
    """Yield recipient cells in portions whose reach fits in memory."""
    for far, step in ((False, _PAIRS), (True, max(1, _PAIRS // sites))):
        rows = np.flatnonzero((near.radius > 0) == far)
        for part in slices(len(rows), step):
            yield rows[part]


def _within_reach(
    layout: DonorLayout, near: NearbyCells, rows: IntArray
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
