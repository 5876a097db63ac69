"""Single rows, with imputed cells where a change asked for them: one of the kinds of private rows.

Statistics are asked of them (`missdp.statistics.row_queries`). A query that reads imputed cells
gets noise in proportion to a private smooth bound, and the scale of this noise is released with the
answer. All other queries read the rows as they came, and get plain noise. `TableRows.plan` decides
which, by public facts, before anything is charged.

Rows are changed by the frozen types below alone. `ObservedOn` chooses rows by their own cells.
`EachLevel` divides them into groups by a cell of their own. An `Imputation` fills cells of a row
from other rows. So it does not keep neighbours apart by one row, and states a bound on the rows
that one row moves. Its type must be registered.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar, Protocol, TypeVar

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
from missdp.session.redaction import no_warnings
from missdp.session.sampling import NoiseSource
from missdp.session.session import Release, Session
from missdp.statistics.groups import OfEachGroup
from missdp.statistics.imputed_rows import (
    ImputationResult,
    ImputedRows,
    Rows,
    valued_attributes,
    with_one_kind_of_missing,
)
from missdp.statistics.row_queries import CustomQuery, RowCounts, RowQuery, RowSums
from missdp.statistics.smooth import Bounded, SmoothNoise, calibrate_smooth_noise
from missdp.table import Table
from missdp.types import Floats

QUERIES = (RowCounts, RowSums, CustomQuery)
"""The types of queries that are proven for single rows; no subclass is."""


# Changes


@dataclass(frozen=True)
class ObservedOn:
    """Read only the rows that have a value in all of some attributes, as they came."""

    names: frozenset[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", frozenset(self.names))


@dataclass(frozen=True)
class EachLevel:
    """Answer each query for each level of an attribute, from the rows of that level alone.

    A row is in one group at most, by its own cell, so all groups together cost what one costs. The
    value of a measurement is a tuple with one `Measurement` for each level.
    """

    name: str


class Imputation(Protocol):
    """A frozen change that fills cells of some attributes from other rows.

    Its type is registered by ``register_imputation``, and its proofs stand where it is defined.
    """

    @property
    def imputed(self) -> frozenset[str]:
        """The attributes of which it fills cells; no other cell depends on other rows."""

    @property
    def reads(self) -> frozenset[str]:
        """The attributes that it reads."""

    @property
    def averaged(self) -> bool:
        """Whether it returns several ways to fill rows, over which queries are averaged."""

    def fill(self, rows: Rows) -> ImputationResult:
        """Return what is filled, with a bound on how many rows one row moves. Private."""


_Kind = TypeVar("_Kind", bound=type)
_IMPUTATIONS: set[type] = set()


def register_imputation(kind: _Kind) -> _Kind:
    """Register a type of imputations, whose bound on moved rows is proven where it is defined."""
    parameters = getattr(kind, "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        raise ParameterError("an imputation is a frozen dataclass")
    _IMPUTATIONS.add(kind)
    return kind


# Rows


@dataclass(frozen=True)
class TableFacts:
    """What is publicly known of single rows.

    Attributes
    ----------
    schema : Schema
        The schema, in which all missing cells are plainly missing.
    valued : frozenset of str
        The numeric attributes that have values, and not bins alone.
    imputed : frozenset of str
        The attributes whose missing cells are filled from other rows.
    averaged : bool
        Whether queries are averaged over several ways to fill rows.
    observed : frozenset of str
        Only rows that have a value in all of these attributes are read.
    groups : str
        The attribute for each of whose levels queries are answered; empty if there is none.
    """

    schema: Schema
    valued: frozenset[str]
    imputed: frozenset[str] = frozenset()
    averaged: bool = False
    observed: frozenset[str] = frozenset()
    groups: str = ""


class ChosenRows:
    """Rows of a table, chosen and imputed once they are needed. Private."""

    def __init__(self, choose: Callable[[], Table]) -> None:
        self._choose = choose
        self._cells: dict[Imputation | None, ImputedRows] = {}
        self._groups: dict[str, tuple[ChosenRows, ...]] = {}

    def __repr__(self) -> str:
        return "Rows(private)"

    @cached_property
    def table(self) -> Table:
        """The rows as they came."""
        return self._choose()

    def observed(self, names: frozenset[str]) -> ChosenRows:
        """Return the rows that have a value in all of some attributes."""

        def choose() -> Table:
            sizes = {name: self.table.schema[name].size for name in names}
            known = [self.table.codes(name) < size for name, size in sizes.items()]
            return self.table.take(np.all(known, axis=0))

        return ChosenRows(choose)

    def groups(self, name: str) -> tuple[ChosenRows, ...]:
        """Return the rows of each level of an attribute; a row without a level is in no group.

        No row is in two groups. So what is imputed in a group depends on the rows of the group.
        """

        def choose(code: int) -> Table:
            return self.table.take(self.table.codes(name) == code)

        if name not in self._groups:
            levels = range(self.table.schema[name].size)
            self._groups[name] = tuple(ChosenRows(partial(choose, code)) for code in levels)
        return self._groups[name]

    def cells(self, imputation: Imputation | None) -> ImputedRows:
        """Return what queries read: the rows as they came, or with cells filled, computed once."""
        if imputation not in self._cells:
            came = ImputedRows(self.table, ImputationResult())
            self._cells[imputation] = came if imputation is None else _imputed(came, imputation)
        return self._cells[imputation]


def _imputed(came: ImputedRows, imputation: Imputation) -> ImputedRows:
    """Return rows with the cells that an imputation fills."""
    failed = DataError("the imputation of the rows failed")
    # Neither an error nor a warning may quote rows.
    with replacing(Exception, by=failed), no_warnings():
        made = imputation.fill(Rows(came, imputation.reads))
        ways = {} if made.ways is None else made.ways.columns
        if made.profile is None or not {*made.columns, *ways} <= imputation.imputed:
            raise failed
        return ImputedRows(came.table, made)


@dataclass(frozen=True, eq=False, repr=False)
class TableRows:
    """The private rows of a table, with their public facts.

    Attributes
    ----------
    facts : TableFacts
        Public.
    rows : ChosenRows
        The rows. Private.
    imputation : Imputation, optional
        Fills the cells of the attributes that ``facts.imputed`` names. Public.
    """

    facts: TableFacts
    rows: ChosenRows
    imputation: Imputation | None = None

    adjacency: ClassVar[Adjacency] = "add-remove"
    conditions: ClassVar[tuple[Condition, ...]] = ()

    @classmethod
    def of(cls, table: Table) -> TableRows:
        """Return the rows of a table, in which all missing cells are plainly missing.

        Parameters
        ----------
        table : Table
            The private rows, each of them protected by itself.
        """
        if not isinstance(table, Table):
            raise DataError("statistics are asked of a Table: use Table.read(data, schema)")
        table.schema.refuse_units("a statistic")
        table = with_one_kind_of_missing(table)
        facts = TableFacts(table.schema, valued_attributes(table))
        return cls(facts, ChosenRows(lambda: table))

    def __repr__(self) -> str:
        return f"TableRows({', '.join(self.facts.schema.names)})"

    @property
    def ledger(self) -> str:
        """The budget in a ledger without which nothing may be read; empty if there is none."""
        return self.facts.schema.ledger

    def expect(self, queries: Any) -> None:
        """Nothing is prepared in advance."""

    # Changes

    def changed(self, change: Any, rng: Any) -> TableRows:  # noqa: ARG002
        """Return the rows after one of the changes of this file; they are computed when needed."""
        if type(change) in _IMPUTATIONS:
            return self._imputed(change)
        known: dict[type, Callable[[Any], TableRows]] = {
            ObservedOn: self._observed,
            EachLevel: self._grouped,
        }
        if type(change) not in known:
            raise ParameterError(
                "single rows are changed by ObservedOn, EachLevel and registered imputations alone"
            )
        return known[type(change)](change)

    def _imputed(self, change: Imputation) -> TableRows:
        facts = self.facts
        if facts.imputed or facts.observed or facts.groups:
            raise ParameterError("rows are imputed once, before they are chosen or divided")
        imputed = frozenset(change.imputed)
        if not imputed or not imputed | change.reads <= {*facts.schema.names}:
            raise ParameterError("an imputation names attributes of the rows")
        facts = replace(facts, imputed=imputed, averaged=change.averaged)
        return replace(self, facts=facts, imputation=change)

    def _observed(self, change: ObservedOn) -> TableRows:
        facts = self.facts
        if facts.imputed or facts.groups:
            raise ParameterError("rows are chosen as they came, before they are divided")
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
                f"{name!r} does not divide the rows into groups by their own cells: no row may "
                "depend on other rows for its group"
            )
        if not facts.schema[name].size:
            raise ParameterError(f"{name!r} has no levels, so it makes no groups")
        return replace(self, facts=replace(facts, groups=name))

    # Queries

    def plan(self, query: Any, mechanism: Any) -> Release:
        """Return how a query is answered, and its price; refuse it, by public facts alone."""
        if type(query) not in QUERIES:  # a subclass could state another sensitivity
            known = ", ".join(kind.__name__ for kind in QUERIES)
            raise ParameterError(f"single rows answer queries of the types {known}")
        if type(mechanism) not in (Cost, Noise):
            raise ParameterError("a query of single rows is answered with Noise, or for a Cost")
        facts = self.facts
        label = f"{query.label} by {facts.groups}" if facts.groups else query.label
        if query.reads & facts.imputed:
            smooth = _smooth_noise(query, mechanism, averaged=facts.averaged)
            event = PureEvent(epsilon=smooth.epsilon, label=label)
            return self._release(query, smooth, event, averaged=facts.averaged)
        noise = _plain_noise(query, mechanism)
        # Nothing is claimed of cells that rules may have filled.
        gate = facts.observed - facts.schema.rule_set.filled
        plain = noise.event(query.own_sensitivity, gate=gate or None, label=label)
        return self._release(query, noise, plain, averaged=False)

    def _release(
        self, query: RowQuery, noise: Noise | SmoothNoise, event: Any, *, averaged: bool
    ) -> Release:
        """Return a release of all rows, or of each group in parallel."""
        unit = query.unit / (query.fine if averaged else 1)
        imputation = self.imputation if isinstance(noise, SmoothNoise) else None
        exact = partial(_exact, query, noise, imputation, averaged=averaged)
        read = partial(_values, unit, query.dimension)
        radius = partial(_radius, noise, float(unit))
        expected = _expected_radius(noise) * float(unit)
        rows, groups = self.rows, self.facts.groups
        if not groups:
            return Release(
                event, noise, lambda: exact(rows), read=read, radius=radius,
                expected_radius=expected,
            )  # fmt: skip

        def each(released: tuple[Any, ...]) -> tuple[Measurement, ...]:
            return tuple(Measurement(read(one), noise, event, radius(one)) for one in released)

        return Release(
            event, OfEachGroup(noise, self.facts.schema[groups].size),
            lambda: tuple(map(exact, rows.groups(groups))), read=each, expected_radius=expected,
        )  # fmt: skip


def open_table(
    table: Table,
    *,
    budget: Filter,
    random_state: int | None = None,
    undeclared: str = "refuse",
    may_refuse: bool = False,
) -> Session:
    """Return a session on the rows of a table.

    Parameters
    ----------
    table : Table
        The private rows.
    budget : Filter
        Charged before anything is computed.
    random_state : int or None
        A seed, for tests and examples. None: noise from the operating system.
    undeclared : {"refuse", "accept"}
        What to do about facts of the schema that nobody has declared public.
    may_refuse : bool, default False
        Whether what the table was read from may be refused for what is in a row, as CSV files
        are.

    Returns
    -------
    Session
        Answers queries of single rows. It charges ``budget``.

    Examples
    --------
    >>> from missdp.accounting import Cost, Filter
    >>> from missdp.datasets import yrbss
    >>> from missdp.statistics import RowCounts, open_table
    >>> def female(rows, code):
    ...     return rows.codes("gender") == code
    >>> session = open_table(yrbss().table(), budget=Filter(1.0))
    >>> query = RowCounts(function=female, reads={"gender"}, given=(0,), label="female")
    >>> answer = session.measure(query, Cost(currency="pure", amount=0.5))
    >>> bool(abs(answer.values[0] - 6600) < 200), session.left.amount
    (True, 0.5)
    """
    rows = TableRows.of(table)
    conditions = [*domain_conditions(table.schema, undeclared), RowFunctionsTested()]
    if may_refuse or any(attribute.refuses for attribute in table.schema):
        conditions.append(RefusalsNotPrivate())
    return Session(rows, budget=budget, noise=NoiseSource.of(random_state), conditions=conditions)


def smooth_epsilon(cost: Cost) -> float:
    """Return the largest epsilon of a pure release that costs at most this.

    An epsilon-DP release is (epsilon ** 2 / 2)-zCDP.

    Parameters
    ----------
    cost : Cost
        Pure epsilon, or rho.
    """
    if cost.currency == "pure":
        return cost.amount
    if cost.currency != "zcdp":
        raise UnprovenError("cells filled from other rows are paid for in pure epsilon or rho")
    epsilon = math.sqrt(2 * cost.amount)
    while exactly_written(epsilon) ** 2 > 2 * exactly_written(cost.amount):
        epsilon = math.nextafter(epsilon, 0.0)
    return epsilon


def _smooth_noise(query: RowQuery, mechanism: Cost | Noise, *, averaged: bool) -> SmoothNoise:
    """Return noise for cells filled from other rows; refuse a query that has no bound."""
    if not isinstance(mechanism, Cost):
        raise UnprovenError("a noise scale cannot be chosen where a private bound sets it")
    if averaged and isinstance(query, CustomQuery):
        raise UnprovenError(
            "a CustomQuery cannot read cells that are filled from other rows, equally near ones "
            "averaged over: ask RowCounts or RowSums instead"
        )
    if not query.recipient_sensitivity < math.inf:
        raise UnprovenError("nobody said how far a row whose filled cells change moves this")
    fine = query.fine if averaged else 1
    # An average is rounded: neighbours differ by two units more.
    rounding = 2.0 * query.dimension if averaged else 0.0
    return calibrate_smooth_noise(
        smooth_epsilon(mechanism),
        own=rounding + fine * query.own_sensitivity,
        donee=fine * query.recipient_sensitivity,
        dimension=query.dimension,
    )


def _plain_noise(query: RowQuery, mechanism: Cost | Noise) -> Noise:
    """Return the noise of whole numbers that a row moves by the query's own sensitivity."""
    if isinstance(mechanism, Noise):
        return mechanism
    name = {"pure": "epsilon", "zcdp": "rho", "gdp": "mu squared"}[mechanism.currency]
    little = (
        f"{name} {mechanism.amount:.2g} is too little for {query.label!r}: no noise so large can "
        "be drawn"
    )
    with replacing(ParameterError, by=ParameterError(little)):
        if mechanism.currency == "pure":
            return Noise("laplace", scale_for(query.own_sensitivity, mechanism.amount))
        return Noise.worth(mechanism, sensitivity=query.own_sensitivity)


def _exact(
    query: RowQuery,
    noise: Noise | SmoothNoise,
    imputation: Imputation | None,
    rows: ChosenRows,
    *,
    averaged: bool,
) -> Any:
    """Return the exact answer of some rows, with the private bound where noise follows it."""
    cells = rows.cells(imputation)
    totals = (query.average if averaged else query.exact)(cells)
    if not isinstance(noise, SmoothNoise):
        return totals
    bound = cells.profile.smooth_bound(own=noise.own, donee=noise.donee, beta=noise.beta)
    # The last number is 0: the released scale takes its place.
    return Bounded((*totals.tolist(), 0), float(bound))


# Post-processing


def _values(unit: Fraction, dimension: int, released: Any) -> Floats:
    """Return released whole numbers of units as numbers, without the released scale."""
    if isinstance(released, tuple):
        return np.array([float(value * unit) for value in released[:dimension]])
    return np.asarray(released * float(unit), dtype=np.float64)[:dimension]


def _radius(noise: Noise | SmoothNoise, unit: float, released: Any) -> Radius:
    """Return a function from a level to the half-width of the error."""
    if isinstance(noise, Noise):
        return lambda level: noise.radius(level) * unit
    released_scale = float(released[-1])
    return lambda level: noise.radius(level, released_scale) * unit


def _expected_radius(noise: Noise | SmoothNoise) -> float:
    """Return the half-width that is expected to hold the noise of one number with 95 %; public."""
    return noise.radius(0.95) if isinstance(noise, Noise) else noise.expected_radius
