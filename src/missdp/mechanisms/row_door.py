"""The door to rows: questions are run behind it, and only charged answers come out.

Several releases of one question are charged together (`RowDoor.begin`) before anything is read,
and then answered one by one, so that a later one may be asked with what an earlier one answered.
Rows can be changed behind the door by a pure function (`Preparation`): filled, or dropped.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import (
    ApproximateEvent,
    Budget,
    Cost,
    Event,
    Guarantee,
    LaplaceEvent,
    PureEvent,
    ZCDPEvent,
)
from missdp.accounting.budget import check_paid
from missdp.accounting.conditions import domain_conditions
from missdp.errors import DataError, ParameterError, UnprovenError, replacing
from missdp.mechanisms.exact_noise import NoiseSource, noise_source
from missdp.mechanisms.noise import Noise
from missdp.mechanisms.questions import (
    PART_ROWS,
    QUANTA,
    Ask,
    Counts,
    Filled,
    Preparation,
    Prepared,
    Query,
    Question,
    Rows,
    Sums,
    Ways,
)
from missdp.mechanisms.session import (
    Charged,
    Measurement,
    Noisy,
    Radius,
    Session,
    exactly,
    no_warnings,
)
from missdp.mechanisms.smooth import (
    Bounded,
    ReleasedScale,
    ScaleRelease,
    SelfScaledNoise,
    SmoothNoise,
    plan_smooth,
    reference_bound,
)
from missdp.schema import Numeric, Schema
from missdp.schema.conditions import Known, Verdict
from missdp.shelf import blocks, in_portions, pick, room, runs
from missdp.table import Table
from missdp.table.encode import Column
from missdp.types import Flags, Floats, Ints

__all__ = ["Charged", "Measurement", "Noisy", "RandomState", "RowDoor"]

RandomState: TypeAlias = "int | np.random.Generator | NoiseSource | None"


def _with_one_kind_of_hole(table: Table) -> Table:
    """Return the table with all missing cells plainly missing; what is not applicable stays so."""
    merged = [a for a in table.schema if set(a.kinds) - {"not_applicable", "missing"}]
    if not merged:
        return table
    schema = table.schema.replaced({a.name: a.plainly_missing() for a in merged})
    columns = {name: table.column(name) for name in schema.names}
    for a in merged:
        column = columns[a.name]
        codes = room(len(table), column.codes.dtype)
        plainly = column.codes.dtype.type(a.missing_code)
        for where in blocks(len(table), PART_ROWS):
            codes[where] = np.minimum(column.codes[where], plainly)
        columns[a.name] = Column(codes, column.values)
    return Table(schema, columns, kind=table.kind)


class _PrivateRows:
    """Rows as a preparation makes them, when they are first needed. Private."""

    def __init__(self, table: Table, preparation: Preparation | None, noise: NoiseSource) -> None:
        self._table, self._preparation, self._noise = table, preparation, noise

    def __repr__(self) -> str:
        return "Rows(private)"

    def bound(self, *, own: float, donee: float, beta: float) -> float:
        """Return a smooth bound of how far one row moves a question."""
        return float(self.cells.profile.smooth_bound(own=own, donee=donee, beta=beta))

    @cached_property
    def cells(self) -> FilledRows:
        """What questions read."""
        if (how := self._preparation) is None:
            return FilledRows(self._table, Prepared())
        failed = DataError("the preparation of the rows failed")
        # Neither an error nor a warning may quote rows.
        with replacing(Exception, by=failed), no_warnings():
            rows = Rows(FilledRows(self._table, Prepared()), how.reads)
            draws = self._noise.generator() if how.draws == "generator" else None
            made = how.function(rows, draws, *how.given)
            if how.shared and made.profile is None:
                raise DataError("the preparation did not bound how many rows one row moves")
            return FilledRows(self._table, made)


class FilledRows:
    """Codes and values of every attribute, filled cells in the place of missing cells. Private.

    Whatever a preparation does, a cell without a value gets one only where its attribute surely
    applies to the row, as the row came.
    """

    def __init__(self, table: Table, made: Prepared) -> None:
        size, columns = len(table), dict(made.columns)
        if not all(
            isinstance(column, Filled) and column.fits(size, table.schema[name].size)
            for name, column in columns.items()
        ) or not (made.ways is None or (made.keep is None and made.ways.fits(size))):
            raise DataError("the preparation did not return what it should")
        self._table, self._known, self.profile = table, dict[str, Known](), made.profile
        self.ways = made.ways
        columns = {name: self._only_holes(name, column) for name, column in columns.items()}
        if made.keep is not None:
            keep = np.asarray(made.keep, dtype=bool)
            self._table, self._known = table.take(keep), {}
            columns = {name: _kept(column, keep) for name, column in columns.items()}
        self._columns = columns

    def __len__(self) -> int:
        return len(self._table)

    @property
    def schema(self) -> Schema:
        """Public facts."""
        return self._table.schema

    def part(self, start: int, stop: int) -> FilledRows:
        """Return some of the rows."""
        columns = {name: filled.between(start, stop) for name, filled in self._columns.items()}
        return FilledRows(self._cut(start, stop), Prepared(columns))

    def in_all_ways(
        self, names: frozenset[str]
    ) -> Iterator[tuple[FilledRows, NDArray[np.float64]]]:
        """Yield rows filled in each way, alike ones once, and how many each stands for."""
        if (ways := self.ways) is None or not len(ways.rows):
            return
        first, alike = self._alike(ways, names)
        some, lists = ways.rows[first], ways.lists[first]
        many = np.diff(ways.start)[lists]
        for part in in_portions(many, PART_ROWS):
            owner, step = runs(many[part])
            way, table = ways.start[lists[part]][owner] + step, self._table.take(some[part][owner])
            filled = {}
            for name, column in ways.columns.items():
                holes = np.flatnonzero(table.codes(name) >= self.schema[name].missing_code)
                filled[name] = replace(column.where(way[holes]), rows=holes)
            yield FilledRows(table, Prepared(filled)), (alike[part] / many[part])[owner]

    def _alike(self, ways: Ways, names: frozenset[str]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return one of each kind of rows that are filled, and how many there are of it."""
        kind = np.asarray(ways.lists, dtype=np.int64)
        # Whether an attribute applies is told by the attributes that rules are about.
        for name in sorted(names.union(*(rule.names for rule in self.schema.rulebook.bound))):
            column = self._table.column(name)
            for array in (column.codes, column.values):
                if array is not None:
                    cells = pick(array, ways.rows)
                    bits = cells.view(np.int64) if cells.dtype.kind == "f" else cells
                    found, place = np.unique(bits, return_inverse=True)
                    kind = np.unique(kind * len(found) + place, return_inverse=True)[1]
        _, first, alike = np.unique(kind, return_index=True, return_counts=True)
        return first, alike

    def _cut(self, start: int, stop: int) -> Table:
        def cut(column: Column) -> Column:
            values = None if column.values is None else column.values[start:stop]
            return Column(column.codes[start:stop], values)

        schema = self._table.schema
        return Table(schema, {name: cut(self._table.column(name)) for name in schema.names})

    def codes(self, name: str) -> NDArray[np.integer]:
        """Codes of an attribute; cells that are still missing have its missing code."""
        codes = self._table.codes(name)
        if name in self._columns:
            codes = codes.copy()
            codes[self._columns[name].rows] = self._columns[name].codes
        return codes

    def values(self, name: str) -> Floats:
        """Values of a numeric attribute; its lower bound where still missing."""
        values = self._table.values(name)
        if values is None or name not in self._columns:
            return values
        filled = self._columns[name].values
        if filled is None:
            raise DataError("no numeric values")
        values = values.copy()
        values[self._columns[name].rows] = self._within_bounds(name, filled)
        return values

    def _within_bounds(self, name: str, filled: NDArray[Any]) -> Floats:
        """Keep to what is declared: a question's sensitivity is of values within the bounds."""
        attribute = self.schema[name]
        assert isinstance(attribute, Numeric)  # no other table has values
        numbers = np.nan_to_num(filled.astype(np.float64), nan=attribute.lower)
        return np.asarray(np.clip(numbers, attribute.lower, attribute.upper))

    def applies(self, name: str) -> Verdict:
        """Tell to which rows, as they came, an attribute surely applies, and to which it may."""
        return self.schema.rulebook.applies(self._known_cells, name)

    def _known_cells(self, name: str) -> Known:
        if name not in self._known:
            column = self._table.column(name)
            codes = column.codes.astype(np.int64)
            self._known[name] = Known.of(self.schema[name], codes, column.values)
        return self._known[name]

    def _only_holes(self, name: str, filled: Filled) -> Filled:
        """Take back what was filled where the attribute does not apply, or may not."""
        if self.schema[name].not_applicable is None:
            return filled
        if len(self) <= PART_ROWS:
            return filled.where(self.applies(name)[0][filled.rows])
        keep = room(len(filled.rows), bool)
        for part in blocks(len(self), PART_ROWS):
            came = FilledRows(self._cut(part.start, part.stop), Prepared())
            here = filled.places(part.start, part.stop)
            keep[here] = came.applies(name)[0][filled.rows[here].astype(np.int64) - part.start]
        return filled if keep.all() else filled.where(keep)


def _kept(filled: Filled, keep: Flags) -> Filled:
    """Return the filled cells of rows that stay, by their new numbers."""
    stays = filled.where(keep[filled.rows])
    return replace(stays, rows=(np.cumsum(keep) - 1)[stays.rows])


class RowDoor(Session):
    """A session for statistics: public facts, and answers to questions about rows.

    A question that reads cells filled from other rows gets noise in proportion to a private smooth
    bound, which tells its own scale if that was asked for (`scaled`); or Gaussian noise at a
    released scale, if that is cheaper. All others get plain noise.

    Parameters
    ----------
    table : Table
        Private rows.
    budget : Budget
        Charged before anything is computed.
    random_state
        See `noise_source`.
    undeclared : {"refuse", "accept"}
        What to do about facts of the schema that nobody has declared public.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> def female(rows, code):
    ...     return rows.codes("gender") == code
    >>> door = RowDoor(yrbss().table(), budget=Budget(1.0))
    >>> count = Counts(function=female, reads={"gender"}, given=(0,))
    >>> answer = door.measure(count, Cost(currency="pure", amount=0.5), label="female")
    >>> bool(abs(answer.values[0] - 6600) < 200), door.budget.remaining_epsilon
    (True, 0.5)
    """

    _queries: ClassVar = (Counts, Sums, Query)
    _rows: _PrivateRows

    def __init__(
        self,
        table: Table,
        *,
        budget: Budget,
        random_state: RandomState = None,
        undeclared: str = "refuse",
    ) -> None:
        if not isinstance(table, Table):
            raise DataError("statistics are asked of a Table: use Table.read(data, schema)")
        if not isinstance(budget, Budget):
            raise ParameterError("budget must be a Budget")
        table.schema.refuse_units("a statistic")
        check_paid(table.schema.ledger, budget)
        conditions = domain_conditions(table.schema, undeclared)
        super().__init__(budget=budget, noise=noise_source(random_state), conditions=conditions)
        self._table = table = _with_one_kind_of_hole(table)
        self._schema, self._valued = table.schema, _valued(table)
        self._shared: frozenset[str] = frozenset()
        self._averaged = False
        self._tells = False
        self._scale: ReleasedScale | None = None
        self._rows = self._came = _PrivateRows(table, None, self._noise)
        self._resting: tuple[Event, ...] = ()

    def __repr__(self) -> str:
        return f"RowDoor({', '.join(self._schema.names)})"

    # Public facts

    @property
    def schema(self) -> Schema:
        """Public facts about the rows, in which all kinds of holes are plainly missing."""
        return self._schema

    @property
    def valued(self) -> frozenset[str]:
        """Numeric attributes of which there are values, not bins only: how the table was made."""
        return self._valued

    @property
    def budget(self) -> Budget:
        """What is charged."""
        return self._budget

    @property
    def needs_scale(self) -> bool:
        """Whether how many rows one row can move is private."""
        return bool(self._shared)

    @property
    def tells_scale(self) -> bool:
        """Whether answers whose noise follows a private bound tell its scale."""
        return self._tells

    @property
    def scale(self) -> ReleasedScale | None:
        """The released bound on the rows that one row can move, for Gaussian noise."""
        return self._scale

    def guarantee(self, *asks: Ask) -> Guarantee:
        """Return what answers alone promise, with the releases that the rows' preparation used."""
        events = self._resting + tuple(e for ask in asks for e in self._events(ask))
        pure = all(isinstance(event, (PureEvent, LaplaceEvent)) for event in events)
        return Guarantee.from_events(
            events,
            delta=0.0 if pure else self._budget.delta,
            adjacency=self._budget.adjacency,
            conditions=self._conditions,
        )

    # The same rows, changed behind the door

    def prepared(self, preparation: Preparation, *, using: Sequence[Charged] = ()) -> RowDoor:
        """Return a door to rows that are changed by a function, when an answer first needs them.

        Releases whose answers the function is ``using`` are part of every later guarantee.
        """
        exactly(Preparation, preparation)
        return self._with(
            _rows=_PrivateRows(self._table, preparation, self._noise),
            _shared=preparation.shared,
            _averaged=preparation.averaged,
            _scale=None,
            _tells=False,
            _resting=self._resting + tuple(e for charged in using for e in charged.events),
            _left={},
        )

    def scaled(self, release: ScaleRelease) -> RowDoor:
        """Return a door whose answers tell the scale of their noise, for the same cost.

        With ``rho`` and ``delta``, a bound on the rows that one row can move is charged and
        released now, for Gaussian noise.
        """
        if not self.needs_scale:
            raise ParameterError("how many rows one row can move is public here")
        exactly(ScaleRelease, release)
        if not release.gaussian:
            return self._with(_tells=True, _left={})
        beta, rows = release.beta, self._rows
        ask = Ask(
            label="upper bound of the noise scale", cost=release.cost,
            own=release.moves, delta=release.delta or 0.0,
        )  # fmt: skip
        (charged,) = self.begin(ask)

        def exact() -> Ints:
            return np.array([release.steps(rows.bound(own=0.0, donee=1.0, beta=beta))])

        steps = self._release(charged.events[0], ask.noise, exact, paid=charged)
        return self._with(
            _tells=True,
            _scale=release.released(float(steps[0])),
            _resting=(*self._resting, *charged.events),
            _left={},
        )

    # Answers

    def begin(self, *asks: Ask) -> tuple[Charged, ...]:
        """Charge for releases, all or none, before anything is read; each can be answered once."""
        for ask in asks:
            exactly(Ask, ask)
        charges = tuple(Charged(self._events(ask), ask=ask) for ask in asks)
        self._charge(*charges)
        return charges

    def answer(self, charged: Charged, question: Question) -> Measurement:
        """Answer a question that was charged for; it may be made from what was released before.

        Raises
        ------
        UnprovenError
            If one row moves its result further than was charged for, or a `Query` reads cells that
            are filled in several ways. The charge stays.
        DataError
            If its function fails. The charge stays.
        """
        self._check(question)
        ask, event = charged.ask, charged.events[0]
        if not question.reads <= ask.reads or question.dimension != ask.dimension:
            raise ParameterError("the question is not the one that was charged for")
        if charged in self._left and charged.events != self._events(ask):  # it was changed
            raise ParameterError("what is asked for is not what was charged for")
        averaged = self._is_averaged(ask, question)
        mechanism = self._mechanism(ask, question, averaged=averaged)
        rows = self._observed(ask.gate) if ask.observed else self._rows

        def exact() -> Ints | Bounded:
            totals = (question.average if averaged else question.exact)(rows.cells)
            if not isinstance(mechanism, SmoothNoise):
                return totals
            weights = {"own": mechanism.own, "donee": mechanism.donee, "beta": mechanism.beta}
            beside = (0,) * (mechanism.coordinates - mechanism.dimension)  # for the scale
            return Bounded((*totals.tolist(), *beside), rows.bound(**weights))

        found = self._release(event, mechanism, exact, paid=charged)
        unit = question.unit / (question.fine if averaged else 1)
        values = _values(found, unit)[: question.dimension]
        return Measurement(values, mechanism, event, _radius(mechanism, found, float(unit)))

    def measure(
        self,
        query: Question,
        how: Cost | Noise,
        *,
        label: str = "question",
        gate: frozenset[str] = frozenset(),
    ) -> Measurement:
        """Charge for a question and answer it.

        Parameters
        ----------
        query : Counts, Sums or Query
        how : Cost or Noise
            What to spend, or how much noise, which questions of rows that depend on others cannot
            choose.
        label : str
            Public name.
        gate : frozenset of str
            Rows are read as they came, and only if all these attributes have a value in them.
            Attributes whose missing cells a rule of the schema may have filled are left out of
            what is charged: a row is read although they were missing.
        """
        self._check(query)
        moves = max(1, math.ceil(min(query.donee / query.own, 2.0**20)))
        ask = Ask(
            label=label, cost=how, reads=query.reads, own=query.own, moves=moves,
            dimension=query.dimension, gate=gate, observed=bool(gate),
        )  # fmt: skip
        self._is_averaged(ask, query)  # what cannot be answered is not charged
        (charged,) = self.begin(ask)
        return self.answer(charged, query)

    ask = measure

    # How asks are charged and answered: by public facts alone

    def _events(self, ask: Ask) -> tuple[Event, ...]:
        """Return what an ask is charged as."""
        event = self._event(ask)
        if not ask.delta:
            return (event,)
        return event, ApproximateEvent(epsilon=0.0, delta=ask.delta, label=f"{ask.label} fails")

    def _event(self, ask: Ask) -> Event:
        if not self._depends(ask):
            # The gate claims nothing of cells that rules may have filled.
            gate = ask.gate - self._schema.rulebook.filled
            return ask.noise.event(ask.own, gate=gate or None, label=ask.label)
        if isinstance(ask.cost, Noise):
            raise UnprovenError("a noise scale cannot be chosen where a private bound sets it")
        self._smooth(ask, 1.0, float(ask.moves))  # what cannot be released is not charged
        if self._scale is not None and ask.rho is not None:
            # Which noise it will be depends on a released number. An event may not: both are
            # rho-zCDP, and that alone is stated, whichever it is.
            return ZCDPEvent(rho=ask.rho, label=ask.label)
        return PureEvent(epsilon=ask.epsilon, label=ask.label)

    def _mechanism(self, ask: Ask, question: Question, *, averaged: bool) -> Noise | SmoothNoise:
        """Return how a question that was charged for is answered."""
        if not self._depends(ask):
            if question.own > ask.own:
                raise UnprovenError("the release is more sensitive than what was charged for")
            return ask.noise
        if not question.donee < math.inf:
            raise UnprovenError("nobody said how far a row whose filled cells change moves this")
        fine, own = (question.fine, 2.0 * question.dimension) if averaged else (1, 0.0)
        own += fine * question.own
        if (scale := self._gaussian(ask)) is not None:
            return scale.noise(ask.rho or 0.0, own=own, donee=fine * question.donee_l2)
        return self._smooth(ask, own, fine * question.donee)

    def _gaussian(self, ask: Ask) -> ReleasedScale | None:
        """Return the released scale if Gaussian noise at it is less: by the ask alone."""
        if (scale := self._scale) is None or ask.rho is None:
            return None
        noise = self._smooth(ask, 1.0, float(ask.moves))
        heavy = noise.standard_deviation * reference_bound(noise.beta, 1.0, float(ask.moves))
        norm_2 = math.sqrt(2.0) if ask.moves > 1 else 1.0
        light = (1 + norm_2 * scale.donees) / math.sqrt(2 * ask.rho)
        most = 2 * max(ask.own, QUANTA)  # averages are in units as fine as that
        return scale if light < heavy and most * light < 2.0**39 else None

    def _smooth(self, ask: Ask, own: float, donee: float) -> SmoothNoise:
        return plan_smooth(
            ask.epsilon, own=own, donee=donee, dimension=ask.dimension, tells=self._tells
        )

    def _is_averaged(self, ask: Ask, question: Question) -> bool:
        """Whether the answer is an average over ways to fill cells; refuse what has none."""
        averaged = self._averaged and self._depends(ask)
        if averaged and isinstance(question, Query):
            raise UnprovenError(
                "a Query cannot read cells that are filled from other rows, equally near ones "
                "averaged over: ask Counts or Sums instead"
            )
        return averaged

    def _depends(self, ask: Ask) -> bool:
        return bool(ask.reads & self._shared) and not ask.observed

    def _observed(self, gate: frozenset[str]) -> _PrivateRows:
        if not gate:
            return self._came
        preparation = Preparation(function=_observed_on, reads=gate, given=(tuple(sorted(gate)),))
        return _PrivateRows(self._table, preparation, self._noise)


def _radius(
    mechanism: Noise | SmoothNoise, found: Ints | tuple[Fraction, ...], unit: float
) -> Radius | None:
    """Return from a level to the half-width of the error; None if the scale is private."""
    if isinstance(mechanism, Noise):
        return lambda level: mechanism.radius(level) * unit
    if not isinstance(mechanism, SelfScaledNoise):
        return None
    told = float(found[-1])
    return lambda level: mechanism.radius(level, told) * unit


def _values(found: Ints | tuple[Fraction, ...], unit: Fraction) -> Floats:
    """Return released whole numbers of units as numbers."""
    if isinstance(found, tuple):
        return np.array([float(value * unit) for value in found])
    return np.asarray(found * float(unit), dtype=np.float64)


def _valued(table: Table) -> frozenset[str]:
    found = set()
    for attribute in table.schema:
        with contextlib.suppress(DataError):
            table.values(attribute.name)
            found.add(attribute.name)
    return frozenset(found)


def _observed_on(rows: Rows, draws: None, gate: tuple[str, ...]) -> Prepared:  # noqa: ARG001
    """Keep the rows in which every attribute of a gate has a value."""
    return Prepared(keep=~np.any([rows.mask(name) for name in gate], axis=0))
