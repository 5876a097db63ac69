"""The door to rows: questions are run behind it, and only charged answers come out.

Several releases of one question are charged together (`RowDoor.begin`) before anything is read,
and then answered one by one, so that a later one may be asked with what an earlier one answered.
Rows can be changed behind the door by a pure function (`Preparation`): filled, or dropped.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import (
    Budget,
    Cost,
    Event,
    Guarantee,
    LaplaceEvent,
    PureEvent,
)
from missdp.accounting.conditions import domain_conditions
from missdp.errors import DataError, ParameterError, UnprovenError, replacing
from missdp.mechanisms.asks import Ask, Choice, Released, plain_law
from missdp.mechanisms.laws import Handle, Law, Noise
from missdp.mechanisms.noise import NoiseSource, noise_source
from missdp.mechanisms.private_rows import PrivateRows, with_one_kind_of_hole
from missdp.mechanisms.questions import (
    Averaged,
    Preparation,
    Prepared,
    Query,
    Question,
    Rows,
)
from missdp.mechanisms.smooth import ReleasedScale, ScaleRelease, log_moves, log_steps
from missdp.mechanisms.smooth_laws import Bounded, SmoothLaw
from missdp.schema import Schema
from missdp.table import Table

__all__ = ["Charged", "RandomState", "RowDoor"]


RandomState: TypeAlias = "int | np.random.Generator | NoiseSource | None"


@dataclass(frozen=True, eq=False, repr=False)
class Charged:
    """A release that was charged for: it can be answered once."""

    ask: Ask
    events: tuple[Event, ...]

    def __repr__(self) -> str:
        return f"Charged({self.ask.label!r})"


class RowDoor(Handle):
    """One handle on the rows of a table: public facts, and answers to questions about rows.

    Parameters
    ----------
    table : Table
        Private rows.
    budget : Budget
        Charged before anything is computed.
    random_state : int, Generator, NoiseSource or None
        None (the default) for releases. Anything else is for tests and becomes a condition.
    undeclared : {"refuse", "accept"}
        What to do about facts of the schema that nobody has declared public.

    Examples
    --------
    >>> from missdp.accounting import Budget, Cost
    >>> from missdp.datasets import yrbss
    >>> from missdp.mechanisms.questions import Counts
    >>> def female(rows, code):
    ...     return rows.codes("gender") == code
    >>> door = RowDoor(yrbss().table(), budget=Budget(1.0))
    >>> count = Counts(function=female, reads={"gender"}, given=(0,))
    >>> answer = door.ask(count, Cost(currency="pure", amount=0.5), label="female")
    >>> bool(abs(answer.values[0] - 6600) < 200), door.budget.remaining_epsilon
    (True, 0.5)
    """

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
        conditions = domain_conditions(table.schema, undeclared)
        super().__init__(budget=budget, noise=noise_source(random_state), conditions=conditions)
        self._table = table = with_one_kind_of_hole(table)
        self._schema, self._valued = table.schema, _valued(table)
        self._choice = Choice()
        self._shared: frozenset[str] = frozenset()
        self._averaged = False
        self._rows = self._came = PrivateRows(table, None, self._noise)
        self._resting: tuple[Event, ...] = ()
        self._open: set[Charged] = set()  # charged and not answered

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
    def scale(self) -> ReleasedScale | None:
        """The released bound on the rows that one row can move."""
        return self._choice.scale

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

        Parameters
        ----------
        preparation : Preparation
        using : sequence of Charged
            Releases whose answers are given to the function: part of every later guarantee.
        """
        return self._with(
            _rows=PrivateRows(self._table, preparation, self._noise),
            _shared=preparation.shared,
            _averaged=preparation.averaged,
            _choice=Choice(),
            _resting=self._resting + tuple(e for charged in using for e in charged.events),
            _open=set(),
        )

    def scaled(self, release: ScaleRelease, *, confidence: float) -> RowDoor:
        """Return a door with a released bound on the rows that one row can move.

        Charged and released now, for error bars and for Gaussian noise.
        """
        if not self.needs_scale:
            raise ParameterError("how many rows one row can move is public here")
        beta, rows = release.beta(confidence), self._rows
        (charged,) = self.begin(
            Ask(
                label="upper bound of the noise scale", cost=release.cost,
                own=log_moves(beta), delta=release.delta or 0.0,
            )
        )  # fmt: skip

        def exact() -> NDArray[np.int64]:
            return np.array([log_steps(rows.bound(own=0.0, donee=1.0, beta=beta))])

        self._take(charged)
        event = charged.events[0]
        steps = self._answer(event, plain_law(event), exact)
        scale = release.released(float(steps[0]), confidence)
        return self._with(
            _choice=replace(self._choice, scale=scale),
            _resting=(*self._resting, *charged.events),
            _open=set(),
        )

    # Answers

    def begin(self, *asks: Ask) -> tuple[Charged, ...]:
        """Charge for releases, all or none, before anything is read; each can be answered once."""
        charges = tuple(Charged(ask, self._events(ask)) for ask in asks)
        self._charge(*(event for charged in charges for event in charged.events))
        self._open.update(charges)
        return charges

    def answer(self, charged: Charged, question: Question) -> Released:
        """Answer a question that was charged for.

        Parameters
        ----------
        charged : Charged
            From `begin`.
        question : Counts, Sums or Query
            Which may be made from what was released before.

        Raises
        ------
        UnprovenError
            If one row moves its result further than was charged for, or a `Query` reads cells that
            are filled in several ways. The charge stays.
        DataError
            If its function fails. The charge stays.
        """
        ask, event = charged.ask, charged.events[0]
        if self._depends(ask) and self._averaged:
            if isinstance(question, Query):
                raise UnprovenError(
                    "rows that are filled in several ways answer Counts and Sums: averages over "
                    "the ways of what each row adds"
                )
            question = Averaged(function=question.function, reads=question.reads, of=question)
        if not question.reads <= ask.reads or question.dimension != ask.dimension:
            raise ParameterError("the question is not the one that was charged for")
        law = self._choice.law(ask, event, question, depends=self._depends(ask))
        self._take(charged)
        rows = self._observed(ask.gate) if ask.observed else self._rows
        found = self._answer(event, law, lambda: _exact(rows, question, law))
        known = (self._choice.radius(law, question, likely=likely) for likely in (False, True))
        return Released(_values(found, question), *known)

    def ask(
        self,
        question: Question,
        cost: Cost | Noise,
        *,
        label: str,
        gate: frozenset[str] = frozenset(),
    ) -> Released:
        """Charge for a question and answer it.

        Parameters
        ----------
        question : Counts, Sums or Query
        cost : Cost or Noise
            What to spend, or how much noise, which questions of rows that depend on others cannot
            choose.
        label : str
            For reports.
        gate : frozenset of str
            Rows are read as they came, and only if all these attributes have a value in them.
            Attributes whose missing cells a rule of the schema may have filled are left out of
            what is charged: a row is read although they were missing.
        """
        moves = max(1, math.ceil(min(question.donee / question.own, 2.0**20)))
        (charged,) = self.begin(
            Ask(
                label=label, cost=cost, reads=question.reads, own=question.own, moves=moves,
                dimension=question.dimension, gate=gate, observed=bool(gate),
            )
        )  # fmt: skip
        return self.answer(charged, question)

    def _events(self, ask: Ask) -> tuple[Event, ...]:
        """Return what is charged; its gate claims nothing of cells that rules may have filled."""
        claimed = ask.gate - self._schema.rulebook.filled
        return self._choice.events(replace(ask, gate=claimed), depends=self._depends(ask))

    def _depends(self, ask: Ask) -> bool:
        return bool(ask.reads & self._shared) and not ask.observed

    def _take(self, charged: Charged) -> None:
        """Let a charge be answered, now and never again."""
        refused = ParameterError("a release is answered once, by the door that charged for it")
        with replacing(KeyError, by=refused):
            self._open.remove(charged)

    def _observed(self, gate: frozenset[str]) -> PrivateRows:
        if not gate:
            return self._came
        preparation = Preparation(function=_observed_on, reads=gate, given=(tuple(sorted(gate)),))
        return PrivateRows(self._table, preparation, self._noise)


def _exact(rows: PrivateRows, question: Question, law: Law) -> NDArray[np.int64] | Bounded:
    """Return what a law needs; private."""
    totals = question.exact(rows.cells)
    if isinstance(law, SmoothLaw):
        bound = rows.bound(own=law.own, donee=law.donee, beta=law.noise.beta)
        return Bounded(tuple(totals.tolist()), bound)
    return totals


def _values(found: NDArray[np.int64] | tuple[Any, ...], question: Question) -> NDArray[np.float64]:
    """Return released whole numbers of units as numbers."""
    if isinstance(found, tuple):
        return np.array([float(value * question.unit) for value in found])
    return np.asarray(found * float(question.unit), dtype=np.float64)


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
