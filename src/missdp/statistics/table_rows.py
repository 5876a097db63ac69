"""Single rows of a table, with imputed cells after an imputation: one kind of private rows.

Queries of single rows are in `missdp.statistics.row_queries`. A query that reads imputed cells gets
noise in proportion to a private smooth bound. The scale of this noise is released with the answer.
All other queries read the original rows, and get plain noise. `TableRows.plan` chooses the noise by
public facts, before anything is charged.

Only the frozen types below change rows. `ObservedOn` chooses rows by their own cells. `EachLevel`
divides them into groups by a cell of their own. `NearestNeighbours` fills cells of a row from other
rows. So a changed row may change other rows, and the imputation states a bound on their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from missdp.accounting import Condition, Cost, Filter, PureEvent, scale_for
from missdp.accounting.events import Adjacency
from missdp.accounting.exact import exact as exactly_written
from missdp.conditions import RefusalsNotPrivate, RowFunctionsTested
from missdp.errors import DataError, ParameterError, UnprovenError, replacing
from missdp.schema import Schema
from missdp.schema.undeclared import domain_conditions
from missdp.session.measurement import Measurement, Radius
from missdp.session.mechanisms import Noise
from missdp.session.noise import NoiseSource
from missdp.session.redaction import no_warnings
from missdp.session.session import Release, Session
from missdp.statistics.groups import ParallelGroups
from missdp.statistics.imputation import NearestNeighbours
from missdp.statistics.imputed_rows import (
    ImputedRows,
    RowView,
    Ways,
    valued_attributes,
    with_one_kind_of_missing,
)
from missdp.statistics.row_queries import CustomQuery, RowCounts, RowQuery, RowSums
from missdp.statistics.smooth_sensitivity import Bounded, SmoothNoise, calibrate_smooth_noise
from missdp.table import Table

QUERIES = (RowCounts, RowSums, CustomQuery)
"""The types of queries that are proven for single rows, without their subclasses."""


# Changes


@dataclass(frozen=True)
class ObservedOn:
    """Change of private rows in a session that keeps only rows with a value in some attributes.

    A cell has a value if it was observed when the table was read. Each row is kept or dropped by
    its own cells. Pass it to ``Session.apply``. Answers are then charged as reads of these rows
    only, which a guarantee for the complete table can use.

    Parameters
    ----------
    names : frozenset of str
        Attributes in which a row must have a value. At least one attribute of the rows.

    Raises
    ------
    ParameterError
        Raised by ``Session.apply``, if a name is not an attribute of the rows. Also if rows are
        imputed or divided already.

    Notes
    -----
    The object is public, and the change costs nothing.

    Examples
    --------
    >>> from missdp.statistics import ObservedOn
    >>> sorted(ObservedOn({"age", "income"}).names)
    ['age', 'income']
    """

    names: frozenset[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", frozenset(self.names))


@dataclass(frozen=True)
class EachLevel:
    """Change of private rows in a session that divides them into the levels of an attribute.

    Each query is then answered for each level. A row is in at most one group, by its own cell. So
    all groups together cost as much as one group. The value of a measurement is a tuple with one
    `Measurement` for each level, in declared order. Pass it to ``Session.apply``.

    Parameters
    ----------
    name : str
        An attribute of the rows with levels or bins, which no imputation fills.

    Raises
    ------
    ParameterError
        Raised by ``Session.apply``, if the attribute has no levels, or rows are divided
        already.
    UnprovenError
        Raised by ``Session.apply``, if the attribute is imputed or is not an attribute of the
        rows.

    Notes
    -----
    The object is public, and the change costs nothing.

    Examples
    --------
    >>> from missdp.statistics import EachLevel
    >>> EachLevel("gender").name
    'gender'
    """

    name: str


# Rows


@dataclass(frozen=True)
class TableFacts:
    """Public facts about the private rows of a session on a table, after changes of the rows.

    `TableRows` holds them. They decide the noise and the price of a query, so both are known before
    any charge.

    Parameters
    ----------
    schema : Schema
        The schema, in which all kinds of missing cells are one kind.
    valued : frozenset of str
        Numeric attributes that have values, and not only bins.
    imputed : frozenset of str, default frozenset()
        Attributes whose missing cells are filled from other rows.
    observed : frozenset of str, default frozenset()
        Only rows that have a value in all of these attributes are read.
    groups : str, default ""
        The attribute whose levels are the groups. Empty if there are no groups.

    Examples
    --------
    >>> from missdp.statistics import TableRows
    >>> from missdp.datasets import yrbss
    >>> facts = TableRows.of(yrbss().table()).facts
    >>> "age" in facts.schema.names, facts.groups
    (True, '')
    """

    schema: Schema
    valued: frozenset[str]
    imputed: frozenset[str] = frozenset()
    observed: frozenset[str] = frozenset()
    groups: str = ""


class ChosenRows:
    """Rows of a table, chosen and imputed once they are needed. Private."""

    def __init__(self, choose: Callable[[], Table]) -> None:
        self._choose = choose
        self._ways: dict[NearestNeighbours, Ways] = {}
        self._groups: dict[str, tuple[ChosenRows, ...]] = {}

    def __repr__(self) -> str:
        return "Rows(private)"

    @cached_property
    def table(self) -> Table:
        """The rows as they came."""
        return self._choose()

    @cached_property
    def cells(self) -> ImputedRows:
        """The cells of the rows as they came."""
        return ImputedRows(self.table)

    def ways(self, imputation: NearestNeighbours) -> Ways:
        """Return all ways to fill the rows, computed once."""
        if imputation not in self._ways:
            came = RowView(self.cells, imputation.reads)
            failed = DataError("the imputation of the rows failed")
            # Neither an error nor a warning may quote rows.
            with replacing(Exception, by=failed), no_warnings():
                self._ways[imputation] = imputation.fill(came)
        return self._ways[imputation]

    def observed(self, names: frozenset[str]) -> ChosenRows:
        """Return the rows that have a value in all of some attributes."""

        def choose() -> Table:
            sizes = {name: self.table.schema[name].size for name in names}
            is_observed = [self.table.codes(name) < size for name, size in sizes.items()]
            return self.table.take(np.all(is_observed, axis=0))

        return ChosenRows(choose)

    def groups(self, name: str) -> tuple[ChosenRows, ...]:
        """Return the rows of each level of an attribute. A row without a level is in no group.

        No row is in two groups. So the imputed cells of a group depend on the rows of the group.
        """

        def choose(code: int) -> Table:
            return self.table.take(self.table.codes(name) == code)

        if name not in self._groups:
            levels = range(self.table.schema[name].size)
            self._groups[name] = tuple(ChosenRows(partial(choose, code)) for code in levels)
        return self._groups[name]


@dataclass(frozen=True, eq=False, repr=False)
class TableRows:
    """Private rows of a table, each protected by itself, with public facts, for a session.

    A session on these rows charges a budget and releases noisy answers to `RowCounts`, `RowSums`
    and `CustomQuery`. This object computes exact answers, which stay private, and releases nothing.
    `open_table` makes a session.

    Parameters
    ----------
    facts : TableFacts
        Public facts about the rows.
    rows : ChosenRows
        The private rows.
    imputation : NearestNeighbours, optional
        Fills the cells of the attributes that ``facts.imputed`` names. Public parameters.

    Attributes
    ----------
    adjacency : {"add-remove"}
        Neighbouring relation of all guarantees: one row is added or removed.
    conditions : tuple of Condition
        Empty: the rows add no condition to a guarantee.

    Notes
    -----
    A query that reads filled cells has noise for the smooth sensitivity of the imputation.

    References
    ----------
    Nissim, Raskhodnikova, Smith (2007), "Smooth sensitivity and sampling in private data analysis",
    STOC.

    Examples
    --------
    >>> from missdp.statistics import ObservedOn, TableRows
    >>> from missdp.datasets import yrbss
    >>> rows = TableRows.of(yrbss().table())
    >>> sorted(rows.changed(ObservedOn({"age"}), None).facts.observed)
    ['age']
    """

    facts: TableFacts
    rows: ChosenRows
    imputation: NearestNeighbours | None = None

    adjacency: ClassVar[Adjacency] = "add-remove"
    conditions: ClassVar[tuple[Condition, ...]] = ()

    @classmethod
    def of(cls, table: Table) -> TableRows:
        """Return the rows of a private table for a session, with one kind of missing cell.

        Parameters
        ----------
        table : Table
            Private rows, each of them protected by itself.

        Returns
        -------
        TableRows
            Private rows. Nothing is computed yet.

        Raises
        ------
        DataError
            If the argument is not a `Table`.
        SchemaError
            If the schema has a unit of protection (all rows of one person) or weights.
        """
        if not isinstance(table, Table):
            raise DataError("statistics need a Table. Use Table.read(data, schema)")
        table.schema.refuse_units("a statistic")
        table = with_one_kind_of_missing(table)
        facts = TableFacts(table.schema, valued_attributes(table))
        return cls(facts, ChosenRows(lambda: table))

    def __repr__(self) -> str:
        return f"TableRows({', '.join(self.facts.schema.names)})"

    @property
    def ledger(self) -> str:
        """Public name of the ledger budget that must pay for every answer, or an empty text.

        Returns
        -------
        str
            The name in the schema of the table. Empty without a ledger.
        """
        return self.facts.schema.ledger

    def expect(self, queries: Any) -> None:
        """Ignore an announcement of queries, because nothing is prepared in advance.

        Parameters
        ----------
        queries : iterable
            Ignored. Public.
        """

    # Changes

    def changed(self, change: Any, rng: Any) -> TableRows:  # noqa: ARG002
        """Return the private rows after a change with public parameters, without computing them.

        The change costs nothing, since neighbouring tables stay neighbours.

        Parameters
        ----------
        change : NearestNeighbours, ObservedOn or EachLevel
            Fills missing cells, keeps only rows with values, or divides the rows into groups.
        rng : object
            Ignored, because these changes draw no random numbers.

        Returns
        -------
        TableRows
            Private rows. They are computed when an answer needs them.

        Raises
        ------
        ParameterError
            If the change has another type, or public facts rule it out. Chosen rows cannot be
            imputed, and imputed rows cannot be chosen. Rows are imputed before they are
            divided, and each happens once.
        UnprovenError
            If a grouping attribute is imputed or is not an attribute of the rows.
        """
        changes: dict[type, Callable[[Any], TableRows]] = {
            NearestNeighbours: self._imputed,
            ObservedOn: self._observed,
            EachLevel: self._grouped,
        }
        if type(change) not in changes:
            names = ", ".join(kind.__name__ for kind in changes)
            raise ParameterError(f"only {names} change single rows")
        return changes[type(change)](change)

    def _imputed(self, change: NearestNeighbours) -> TableRows:
        facts = self.facts
        if facts.imputed or facts.observed or facts.groups:
            raise ParameterError("rows are imputed once, and not after they are chosen or divided")
        if not change.imputed | change.reads <= {*facts.schema.names}:
            raise ParameterError("an imputation names attributes of the rows")
        return replace(self, facts=replace(facts, imputed=change.imputed), imputation=change)

    def _observed(self, change: ObservedOn) -> TableRows:
        facts = self.facts
        if facts.imputed or facts.groups:
            raise ParameterError("rows are not chosen after they are imputed or divided")
        if not change.names or not change.names <= {*facts.schema.names}:
            raise ParameterError("ObservedOn names attributes of the rows")
        facts = replace(facts, observed=facts.observed | change.names)
        return replace(self, facts=facts, rows=self.rows.observed(change.names))

    def _grouped(self, change: EachLevel) -> TableRows:
        facts, name = self.facts, change.name
        if facts.groups:
            raise ParameterError("rows are divided into groups once")
        if name not in facts.schema.names or name in facts.imputed:
            raise UnprovenError(
                f"{name!r} does not divide the rows into groups by their own cells. The group of "
                "a row must not depend on other rows"
            )
        if not facts.schema[name].size:
            raise ParameterError(f"{name!r} has no levels, so it makes no groups")
        return replace(self, facts=replace(facts, groups=name))

    # Queries

    def plan(self, query: Any, mechanism: Any) -> Release:
        """Return the price, noise and computation of an answer to a query, before any charge.

        Public facts alone decide it. A query that reads filled cells gets noise in proportion to a
        private smooth bound on its sensitivity. The scale of this noise is released with the
        answer.

        Parameters
        ----------
        query : RowCounts, RowSums or CustomQuery
            The query, of exactly one of these types.
        mechanism : Cost or Noise
            The cost of the answer, or its noise. A query that reads filled cells needs a cost.

        Returns
        -------
        Release
            Its accounting event, noise and expected error are public. Its function ``exact``
            computes private numbers.

        Raises
        ------
        ParameterError
            If the query or the mechanism has another type, or the cost is too small for any noise.
        UnprovenError
            If the query reads filled cells and has no bound, or the cost is in a measure
            without a bound.
        """
        if type(query) not in QUERIES:  # a subclass could state another sensitivity
            names = ", ".join(kind.__name__ for kind in QUERIES)
            raise ParameterError(f"single rows answer queries of the types {names}")
        if type(mechanism) not in (Cost, Noise):
            raise ParameterError("a query of single rows is answered with Noise, or for a Cost")
        facts, rows = self.facts, self.rows
        label = f"{query.label} by {facts.groups}" if facts.groups else query.label
        release = self._smooth_release if query.reads & facts.imputed else self._plain_release
        planned = release(query, mechanism, label)
        if facts.groups:
            return _of_each_group(planned, rows, facts)
        return replace(planned, exact=partial(planned.exact, rows))

    def _plain_release(self, query: RowQuery, mechanism: Cost | Noise, label: str) -> Release:
        # The exact answer takes the rows as an argument.
        noise, unit = _plain_noise(query, mechanism), float(query.unit)
        # Cells that rules may have filled are not required.
        required = self.facts.observed - self.facts.schema.rule_set.rule_filled
        return Release(
            noise.event(query.row_sensitivity, required=required or None, label=label),
            noise,
            lambda rows: query.exact(rows.cells),
            read=lambda released: np.asarray(released * unit, dtype=np.float64),
            radius=lambda _: lambda level: noise.radius(level) * unit,
            expected_radius=noise.radius(0.95) * unit,
        )

    def _smooth_release(self, query: RowQuery, mechanism: Cost | Noise, label: str) -> Release:
        # As above, with the private bound that the noise follows.
        noise, unit = _smooth_noise(query, mechanism), query.unit / query.fine

        def exact(rows: ChosenRows) -> Bounded:
            assert self.imputation is not None  # plan() checked that attributes are imputed
            ways = rows.ways(self.imputation)
            totals = query.average(rows.cells, ways).tolist()
            weights = {"row_weight": noise.row_weight, "recipient_weight": noise.recipient_weight}
            bound = ways.profile.smooth_bound(**weights, beta=noise.beta)
            # The last number is 0: the released scale takes its place.
            return Bounded((*totals, 0), float(bound))

        def radius(released: tuple[Fraction, ...]) -> Radius:
            released_scale = float(released[-1])
            return lambda level: noise.radius(level, released_scale) * float(unit)

        return Release(
            PureEvent(epsilon=noise.epsilon, label=label),
            noise,
            exact,
            read=lambda released: np.array([float(value * unit) for value in released[:-1]]),
            radius=radius,
            expected_radius=noise.expected_radius * float(unit),
        )


def _of_each_group(release: Release, rows: ChosenRows, facts: TableFacts) -> Release:
    """Return a release of each group in parallel."""

    def read(released: tuple[Any, ...]) -> tuple[Measurement, ...]:
        return tuple(
            Measurement(release.read(one), release.mechanism, release.event, release.radius(one))
            for one in released
        )

    return replace(
        release,
        mechanism=ParallelGroups(release.mechanism, facts.schema[facts.groups].size),
        exact=lambda: tuple(map(release.exact, rows.groups(facts.groups))),
        read=read,
        radius=lambda _: None,
    )


def open_table(
    table: Table,
    *,
    budget: Filter,
    random_state: int | None = None,
    undeclared: str = "refuse",
    may_refuse: bool = False,
) -> Session:
    """Return a session that charges a budget and answers queries of single rows of a private table.

    Use it for counts and sums that `ImputedStatistics` does not offer.

    Parameters
    ----------
    table : Table
        Private rows, each of them protected by itself.
    budget : Filter
        Privacy budget that is charged before anything is computed.
    random_state : int or None, default None
        None draws noise from a secure source. A seed is for tests, and the guarantee then
        states it as a condition.
    undeclared : {"refuse", "accept"}, default "refuse"
        Whether a schema with facts that were read from private data and not declared public
        raises an error.
    may_refuse : bool, default False
        Whether the source of the table may raise an error because of a row, as CSV files may.
        Then the guarantee states that errors are not private.

    Returns
    -------
    Session
        It answers `RowCounts`, `RowSums` and `CustomQuery`, under add-remove adjacency (one row
        is added or removed).

    Raises
    ------
    DataError
        If the argument is not a `Table`.
    SchemaError
        If the schema has a unit of protection (all rows of one person), weights, or facts that
        are not declared public.
    LedgerError
        If the schema names a ledger and the budget is not a part of it.
    ParameterError
        If the budget is not a `Filter` or a `Composition`, or ``random_state`` is invalid.

    Examples
    --------
    >>> from missdp.accounting import Cost, Filter
    >>> from missdp.datasets import yrbss
    >>> from missdp.statistics import RowCounts, open_table
    >>> def female(rows, code):
    ...     return rows.codes("gender") == code
    >>> session = open_table(yrbss().table(), budget=Filter(1.0))
    >>> query = RowCounts(function=female, reads={"gender"}, arguments=(0,), label="female")
    >>> answer = session.measure(query, Cost(privacy_measure="pure", amount=0.5))
    >>> bool(abs(answer.values[0] - 6600) < 200), session.remaining.amount
    (True, 0.5)
    """
    rows = TableRows.of(table)
    conditions = [*domain_conditions(table.schema, undeclared), RowFunctionsTested()]
    if may_refuse or any(attribute.refuses for attribute in table.schema):
        conditions.append(RefusalsNotPrivate())
    noise = NoiseSource.from_seed(random_state)
    return Session(rows, budget=budget, noise=noise, conditions=conditions)


def smooth_epsilon(cost: Cost) -> float:
    """Return the largest epsilon of a pure release that costs at most this.

    An epsilon-DP release is (epsilon ** 2 / 2)-zCDP.

    Parameters
    ----------
    cost : Cost
        Pure epsilon, or rho.
    """
    if cost.privacy_measure == "pure":
        return cost.amount
    if cost.privacy_measure != "zcdp":
        raise UnprovenError("cells filled from other rows are paid for in pure epsilon or rho")
    epsilon = math.sqrt(2 * cost.amount)
    while exactly_written(epsilon) ** 2 > 2 * exactly_written(cost.amount):
        epsilon = math.nextafter(epsilon, 0.0)
    return epsilon


def _smooth_noise(query: RowQuery, mechanism: Cost | Noise) -> SmoothNoise:
    """Return the noise of a query that reads cells filled from other rows."""
    if not isinstance(mechanism, Cost):
        raise UnprovenError("a noise scale cannot be chosen where a private bound sets it")
    if not query.recipient_sensitivity < math.inf:
        raise UnprovenError(
            "a CustomQuery cannot read cells that are filled from other rows, "
            "because it has no average over equally near donors. Use RowCounts or RowSums"
        )
    # An average is rounded, so that neighbours differ by two units more.
    return calibrate_smooth_noise(
        smooth_epsilon(mechanism),
        row_weight=2.0 * query.dimension + query.fine * query.row_sensitivity,
        recipient_weight=query.fine * query.recipient_sensitivity,
        dimension=query.dimension,
    )


def _plain_noise(query: RowQuery, mechanism: Cost | Noise) -> Noise:
    """Return the noise of whole numbers that a row moves by the query's own sensitivity."""
    if isinstance(mechanism, Noise):
        return mechanism
    name = {"pure": "epsilon", "zcdp": "rho", "gdp": "mu squared"}[mechanism.privacy_measure]
    little = (
        f"{name} {mechanism.amount:.2g} is too little for {query.label!r}: no noise so large can "
        "be drawn"
    )
    with replacing(ParameterError, by=ParameterError(little)):
        if mechanism.privacy_measure == "pure":
            return Noise("laplace", scale_for(query.row_sensitivity, mechanism.amount))
        return Noise.from_cost(mechanism, sensitivity=query.row_sensitivity)
