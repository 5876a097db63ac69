"""One question about a table: its statistic, its releases, and the answer that they make.

Parts of the budget for all releases are set aside at once, before anything is read. Everything here
is public, or released. A session runs the plain functions at the end on private rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost, Event, Guarantee, PureEvent
from missdp.errors import DataError, ParameterError, UnprovenError, check_choice
from missdp.schema import Numeric, Schema
from missdp.schema.expressions import parse_where
from missdp.schema.logic import Predicate
from missdp.session.session import Reservation, Session
from missdp.statistics.estimates import Estimate, TotalError, clip, clip_interval, corners
from missdp.statistics.imputation import KNNImputation, NearestNeighbours, check_range
from missdp.statistics.imputed_rows import RowView
from missdp.statistics.noisy import Noisy, noisy_numbers
from missdp.statistics.row_queries import RowCounts, RowQuery, RowSums
from missdp.statistics.table_rows import EachLevel
from missdp.statistics.worst_case import Interval, MissingCells, Names, decide
from missdp.words import warn_if_weak

Uncertainty: TypeAlias = Literal["total", "noise", "worst-case"]

QUESTION_NAMES = {"proportion": "share", "standard_deviation": "sd"}
"""Names of statistics in questions, where they differ from the names of methods."""
BOUNDED = ("count", "proportion", "mean", "sum")
_GROUPED = ("count", "proportion", "mean")
# Number of attributes of each statistic. A proportion has one condition.
_OF = {
    "count": 0, "proportion": 1, "mean": 1, "sum": 1, "variance": 1, "standard_deviation": 1,
    "correlation": 2, "histogram": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Statistic:
    """A question about a table: the kind of statistic, its attributes and its subpopulation.

    It is public. `ImputedStatistics.answer` and `run_queries` answer it, and `read_questions` reads
    it from text.

    Parameters
    ----------
    kind : str
        "count", "proportion", "mean", "sum", "variance", "standard_deviation", "correlation" or
        "histogram".
    of : tuple of str, default ()
        Attributes that the statistic reads. A count has none, and a correlation has two. A
        proportion has its condition in their place.
    where : str, optional
        The condition of the subpopulation, see `parse_where`. All rows by default.
    uncertainty : {"total", "noise", "worst-case"}, default "total"
        With "total", counts, proportions, means and sums spend up to 8 % of their cost on
        `Estimate.total_interval`. With "noise" they spend nothing on it. With "worst-case" both
        intervals are computed, for 10 % more of the cost.
    by : str, optional
        A categorical or ordinal attribute. The statistic (a count, a proportion or a mean) is
        computed for each of its declared levels. All levels together cost as much as one level.
        Missing cells of a group are filled from donors of the group, unless the attribute is
        imputed itself.

    Raises
    ------
    ParameterError
        If the statistic is unknown, or has another number of attributes.
    UnprovenError
        If "worst-case" is requested for a statistic without a derived bound.

    Examples
    --------
    >>> from missdp.statistics import Statistic
    >>> Statistic("mean", ("income",), where="age < 30").kind
    'mean'
    """

    kind: str
    of: Names = ()
    where: str | None = None
    uncertainty: Uncertainty = "total"
    by: str | None = None

    def __post_init__(self) -> None:
        check_choice("statistic", self.kind, _OF)
        check_choice("uncertainty", self.uncertainty, get_args(Uncertainty))
        if self.uncertainty == "worst-case" and self.kind not in BOUNDED:
            raise UnprovenError(f"worst-case bounds exist for {', '.join(BOUNDED)} only")
        if self.by and self.kind not in _GROUPED:
            raise ParameterError(f"groups are compared by {', '.join(_GROUPED)}, not {self.kind}")
        if self.by and self.uncertainty == "worst-case":
            raise UnprovenError(
                "worst-case bounds exist without groups only. Select one group with where"
            )
        n_attributes = _OF[self.kind]
        if len(self.of) != n_attributes or not all(self.of):
            expected = ("nothing", "one attribute", "2 attributes")[n_attributes]
            raise ParameterError(f"{self.kind} takes {expected}")

    def predicates(self, schema: Schema) -> tuple[Predicate, Predicate | None]:
        """Return a question's parsed conditions: its subpopulation, and the proportion's condition.

        Parameters
        ----------
        schema : Schema
            Public facts about the rows.

        Returns
        -------
        where : Predicate
            Condition of the subpopulation. Public.
        condition : Predicate or None
            Condition whose share is computed. None if the statistic is not a proportion. Public.

        Raises
        ------
        ParameterError
            If a text is not a condition, or does not fit the schema.
        """
        where = parse_where(self.where, schema)
        if self.kind != "proportion":
            return where, None
        return where, parse_where(self.of[0], schema, named=self.kind)

    def reads(self, schema: Schema) -> frozenset[str]:
        """Return the names of all attributes of the table that the question reads.

        No row is read.

        Parameters
        ----------
        schema : Schema
            Public facts about the rows.

        Returns
        -------
        frozenset of str
            Public names of attributes, those of the subpopulation and of ``by`` included.

        Raises
        ------
        ParameterError
            If an attribute does not suit the statistic, or a condition does not fit the schema.
        """
        where, condition = self.predicates(schema)
        groups: set[str] = set()
        if self.by:
            if isinstance(schema[self.by], Numeric):
                raise ParameterError(f"{self.by!r} is numeric. Group by an attribute with levels")
            groups = {self.by}
        for name in (*groups, *(self.of if condition is None else ())):
            if not schema[name].size:
                raise ParameterError(f"{name!r} has no levels, so no row has a value of it")
        if condition is not None:
            return where.names | condition.names | groups
        for attribute in (schema[name] for name in self.of):
            if self.kind != "histogram" and not isinstance(attribute, Numeric):
                raise ParameterError(
                    f"{attribute.name!r} is not numeric. Use proportions or a histogram"
                )
        return where.names | frozenset(self.of) | groups


# Shares are rounded down by more than floating point can round their sum up.
_SHARE = 1 - 2.0**-40
_WORST_CASE = 0.1  # share of a question's cost for `Estimate.imputation_interval`
_ABOUT = 0.02  # share of a question's cost for each number about the size of other errors
# With less noise the released number might show that there are no such rows.
MAY_BE_EMPTY = "It does not even show whether there are such rows"
_TIMES = tuple(2 ** (k / 2) for k in range(1, 81))  # factors by which the noise may be smaller


Narrowed: TypeAlias = Callable[[float], Interval]
"""A function that returns the interval with so many times less noise."""


def cost_share(cost: Cost, part: float) -> Cost:
    """Return a share of a cost. The shares of a cost never add up to more than the cost."""
    return replace(cost, amount=cost.amount * part * _SHARE)


def middle_and_half(a: Numeric) -> tuple[float, float]:
    """Return the middle of an attribute's bounds, and half of their distance."""
    return (a.lower + a.upper) / 2, (a.upper - a.lower) / 2


@dataclass(frozen=True)
class PlannedRelease:
    """One release of an answer, planned by public facts before anything is charged.

    Attributes
    ----------
    query : RowQuery
        The query. If it depends on earlier releases, a query with the same reads and the same
        sensitivity.
    cost : Cost
        The largest cost of the release, in pure epsilon or rho.
    event : Event
        The event that the release alone would be charged with.
    """

    query: RowQuery
    cost: Cost
    event: Event

    @property
    def cap(self) -> Cost:
        """The cost in the measure of the noise, which caps the release most tightly.

        Noise that follows a private bound has a pure event. Other noise for rho is Gaussian. A cap
        in rho would lose both facts.
        """
        if self.cost.privacy_measure == "pure":
            return self.cost
        if isinstance(self.event, PureEvent):
            return Cost(privacy_measure="pure", amount=self.event.epsilon)
        return Cost(privacy_measure="gdp", amount=2 * self.cost.amount)


@dataclass(frozen=True, eq=False)
class PaidRelease:
    """A release with a reserved cost, and the session that answers it."""

    session: Session
    query: RowQuery
    cost: Cost

    def numbers(self, query: RowQuery | None = None) -> list[Noisy]:
        """Return the released numbers of a query, or one number for each group.

        By default the query is the one for which the cost was reserved.
        """
        measurement = self.session.measure(query or self.query, self.cost)
        if isinstance(measurement.value, tuple):
            return [noisy_numbers(group)[0] for group in measurement.value]
        return noisy_numbers(measurement)


class StatisticTask:
    """One question while it is answered. Public facts are checked before any charge."""

    def __init__(
        self,
        session: Session,
        imputation: KNNImputation | None,
        change: NearestNeighbours | None,
        confidence: float,
        question: Statistic,
        cost: Cost,
    ) -> None:
        self.session, self.schema, self.confidence = session, session.facts.schema, confidence
        self.imputation, self._change = imputation, change
        self.filled = frozenset(() if imputation is None else imputation.impute)
        self.question, self.kind = question, question.kind
        self.reads = question.reads(self.schema)
        self.where, self.condition = question.predicates(self.schema)
        self.names: Names = question.of if self.condition is None else ()
        for name in self.where.names if self.kind == "histogram" else self.reads:
            if isinstance(self.schema[name], Numeric) and name not in session.facts.valued:
                raise DataError(f"attribute {name!r} has no numeric values in this table")
        for name in () if self.kind == "histogram" else self.names:
            check_range(self.schema[name])
        of = self.names if self.condition is None else self.condition.names
        self.applicable = self.schema.rule_set.not_everywhere(sorted({*of}))
        # Attributes that may be missing after imputation.
        self.missing = tuple(name for name in self.names if name not in self.filled)
        self.is_smooth = bool(self.reads & self.filled)
        self.imputed = self._on_imputed(session)
        about, self._worst_case = self._other_queries(), self._missing_cells()
        hidden = [] if self._worst_case is None else [self._worst_case.query]
        self._additional = [self._plan(session, query, cost_share(cost, _ABOUT)) for query in about]
        self._worst = [self._plan(session, q, cost_share(cost, _WORST_CASE)) for q in hidden]
        rest = 1 - _ABOUT * len(self._additional) - _WORST_CASE * len(self._worst)
        self.cost = cost_share(cost, rest) if rest < 1 else cost
        self._parts: tuple[PlannedRelease, ...] = ()
        # Once the cost is set aside:
        self.guarantee: Guarantee
        self._facts: dict[str, float] = {}
        self._paid_worst: PaidRelease

    # Public facts

    def numeric(self, name: str) -> Numeric:
        """Return a numeric attribute of the question."""
        attribute = self.schema[name]
        assert isinstance(attribute, Numeric)  # `Statistic.reads` checked it
        return attribute

    @property
    def apart(self) -> str:
        """The attribute whose groups are answered from their own rows, or an empty text.

        Groups are answered from their own rows if the answer reads filled cells, and the group does
        not. Donors then come from the group itself.
        """
        by = self.question.by or ""
        return by if self.is_smooth and by not in self.filled else ""

    def depends(self) -> bool:
        """Whether membership reads imputed values that depend on other rows."""
        return bool(self.where.names & self.filled)

    def recipient_shift(self, name: str) -> float:
        """Return the largest change of a filled value when one donor is exchanged."""
        if self.imputation is None or name not in self.filled:
            return 0.0
        attribute = self.numeric(name)
        return (attribute.upper - attribute.lower) * self.imputation.step(name, self.schema)

    # Queries

    def count_query(self, label: str, *also: Predicate) -> RowCounts:
        """Return the query for the rows of the subpopulation with values in the attributes."""
        return RowCounts(
            label=label, function=membership, reads=self._reads((), *also),
            arguments=((self.where, *also), self.missing, self.applicable),
            applies=frozenset(self.applicable),
        )  # fmt: skip

    def sum_query(
        self, label: str, names: Names, centres: tuple[float, ...], limit: float, shift: float
    ) -> RowSums:
        """Return the query for a sum of products of deviations, each within the limit."""
        # A recipient that enters or leaves the subpopulation changes the sum by its whole term.
        change = max(shift, limit) if self.depends() else shift
        linear = not self.depends() and len([name for name in names if name in self.filled]) < 2
        if self.imputation is not None and self.imputation.k > 1 and not linear:
            # Equally near donors are used in runs. See `donors` for the factor of 2.
            change = min(2 * change, limit if names[1:] == names[:1] else 2 * limit)
        return RowSums(
            label=label, function=_products, reads=self._reads(names),
            applies=frozenset(self.applicable),
            arguments=(((self.where,), self.missing, self.applicable), names, centres),
            bound=limit, change=change,
        )  # fmt: skip

    def centred_query(self, name: str) -> RowSums:
        """Return the query for the sum of deviations from the middle of the bounds."""
        middle, half = middle_and_half(self.numeric(name))
        label = f"centred sum of {name}"
        return self.sum_query(label, (name,), (middle,), half, self.recipient_shift(name))

    def _reads(self, names: Iterable[str], *also: Predicate) -> frozenset[str]:
        """Return the attributes that a query of the subpopulation reads."""
        return self.where.names.union(names, self.missing, *(one.names for one in also))

    @property
    def _needs_total_interval(self) -> bool:
        """Whether the answer has an interval for the value of the population."""
        question = self.question
        return question.uncertainty != "noise" and self.kind in BOUNDED and not question.by

    def _other_queries(self) -> Iterator[RowQuery]:
        """Yield additional queries for the total interval: numbers of rows, and sums of squares."""
        if not self._needs_total_interval:
            return
        kind, where = self.kind, self.where
        about: Names = self.schema.rule_set.not_everywhere(sorted(self.reads))
        possible: dict[str, Names] = {}
        if self.is_smooth:
            possible["rows filled"] = tuple(sorted(self.reads & self.filled))
        if self.is_smooth or kind == "sum":
            possible["rows in question"] = ()
        for label, lacking in possible.items():
            yield RowCounts(
                label=label, function=_possible, reads=where.names.union(lacking),
                arguments=(where, lacking, about), applies=frozenset(about),
            )  # fmt: skip
        if kind in ("count", "sum"):
            yield RowCounts(
                label="all rows", function=_applicable, arguments=(about,), applies=frozenset(about)
            )
        if kind in ("mean", "sum"):
            (name,) = self.names
            middle, half = middle_and_half(self.numeric(name))
            yield RowSums(
                label="squares as observed", function=_squares, reads=where.names | {name},
                bound=half**2, change=0.0, arguments=(where, name, middle),
            )  # fmt: skip

    def _missing_cells(self) -> MissingCells | None:
        """Return the cells that may be missing, if the question has worst-case bounds."""
        if self.question.uncertainty != "worst-case":
            return None
        of = self.numeric(self.names[0]) if self.names else self.condition
        return MissingCells(self.schema, self.where, of, self.kind in ("proportion", "mean"))

    # Releases

    def part(self, query: RowQuery, weight: float | None = None) -> PlannedRelease:
        """Return the release of a query for a share of the answer's cost, by default for all."""
        cost = self.cost if weight is None else cost_share(self.cost, weight)
        return self._plan(self.imputed, query, cost)

    def _plan(self, session: Session, query: RowQuery, cost: Cost) -> PlannedRelease:
        return PlannedRelease(query, cost, session.preview(query, cost).event)

    def for_rows(self, min_share: float, *, imputed_share: float) -> float:
        """Return the share of a quotient's cost for its released number of rows.

        ``min_share`` minimises the error of the answer. An interval takes the worst of both
        numbers, and a fifth is best for it. ``imputed_share`` is for rows that filled cells decide.
        """
        if self.depends():
            return imputed_share
        return 0.2 if self.is_smooth else min_share

    def _on_imputed(self, session: Session) -> Session:
        """Return a session on the imputed rows, divided into groups if they are separate."""
        if self._change is not None:
            session = session.apply(self._change)
        return session.apply(EachLevel(self.apart)) if self.apart else session

    def reserve(self, *parts: PlannedRelease) -> list[PaidRelease]:
        """Reserve the cost of all releases of the answer, before anything is read.

        A single release is charged when it is measured: its price, and not a cap.
        """
        additional, self._parts = self._additional, (*self._additional, *parts, *self._worst)
        if len(self._parts) == 1:
            self._promise(parts[0].event)
            return [PaidRelease(self.imputed, parts[0].query, parts[0].cost)]
        reserved = [Reservation(part.cap, part.event.label) for part in self._parts]
        self._promise(*(each.event for each in reserved))
        sessions = zip(self.session.reserve_each(*reserved), self._parts, strict=True)
        paid = [PaidRelease(session, part.query, part.cap) for session, part in sessions]
        for one in paid[: len(additional)]:
            self._facts[one.query.label] = max(one.numbers()[0].value, 0.0)
        self._paid_worst = paid[-1]
        main = paid[len(additional) : len(additional) + len(parts)]
        return [replace(one, session=self._on_imputed(one.session)) for one in main]

    def _promise(self, *events: Event) -> None:
        """Set the guarantee of the answer, and warn if its epsilon is large."""
        self.guarantee = self.session.promise(*events)
        warn_if_weak(self.guarantee.epsilon)

    # Estimates from the releases

    def boxes(self, numbers: Iterable[Noisy], n_numbers: int, times: float = 1.0) -> list[Interval]:
        """Return intervals of noiseless numbers that hold for ``n_numbers`` numbers at once."""
        return [n.within(1 - (1 - self.confidence) / n_numbers, times=times) for n in numbers]

    def combined(
        self, function: Callable[..., float], numbers: Sequence[Noisy], bounds: Interval
    ) -> Estimate:
        """Return the estimate of a monotone function of released numbers, within public bounds.

        The noise of the first number matters most. So its interval may fail four times as often as
        the interval of a second number.
        """
        value = clip(function(*(number.value for number in numbers)), bounds)
        each = (1.0,) if len(numbers) == 1 else (0.8, 0.2)

        def interval(times: float) -> Interval:
            boxes = [
                number.within(1 - (1 - self.confidence) * part, times=times)
                for number, part in zip(numbers, each, strict=True)
            ]
            return corners(function, boxes, bounds)

        divisor = numbers[1] if len(numbers) > 1 else None
        result = self.estimate(value, interval, bounds, rows=divisor)
        if self._needs_total_interval:
            a = self.numeric(self.names[0]) if self.names else None
            ends = (0.0, 1.0) if a is None else (a.lower, a.upper)
            error = TotalError(kind=self.kind, bounds=ends, released=self._facts, divisor=divisor)
            total = clip_interval(error.interval(value, numbers[0], self.confidence), bounds)
            result = replace(result, total_interval=total)
        if self._worst_case is None:
            return result
        return replace(result, imputation_interval=self._widest(self._worst_case, value))

    def estimate(
        self, value: float, interval: Narrowed, bounds: Interval, *, rows: Noisy | None = None
    ) -> Estimate:
        """Return an answer with its guarantee.

        ``interval(times)`` returns the interval with ``times`` times less noise, within ``bounds``.
        ``rows`` is the released divisor of the answer.
        """
        box, note = interval(1.0), ""
        if box == bounds:
            may_be_empty = rows is not None and rows.within(0.95)[0] <= 0
            note = (
                "The interval is the whole range, because the noise may be as large as the exact "
                f"number. {MAY_BE_EMPTY if may_be_empty else self.halved(interval, bounds)}"
            )
        of = self.question.where or "" if self.kind == "count" else ", ".join(self.question.of)
        return Estimate(
            name=f"{QUESTION_NAMES.get(self.kind, self.kind)}({of})", value=value, interval=box,
            confidence=self.confidence, note=note, guarantee=self.guarantee,
            applicable=self.applicable,
        )  # fmt: skip

    def halved(self, interval: Narrowed, bounds: Interval) -> str:
        """Return a sentence with the epsilon at which an interval has half the width of bounds."""
        half = (bounds[1] - bounds[0]) / 2
        boxes = ((times, interval(times)) for times in _TIMES)
        enough = next((t for t, (low, high) in boxes if high - low <= half), _TIMES[-1])
        if self.is_smooth:
            # Noise for filled cells falls with about the square of epsilon.
            enough = math.sqrt(enough)
        spent = math.fsum(part.cost.amount for part in self._parts)
        name, power = ("rho", 2) if self.cost.privacy_measure == "zcdp" else ("epsilon", 1)
        needed, had = (float(f"{spent * times**power:.2g}") for times in (enough, 1.0))
        return f"It would be half as wide with an {name} of about {needed:g} instead of {had:g}"

    def _widest(self, cells: MissingCells, value: float) -> Interval:
        """Return bounds of the answer over all values of the missing cells."""
        released = self._paid_worst.numbers()
        boxes = dict(zip(cells.places, self.boxes(released, len(released)), strict=True))
        low, high = cells.interval(boxes)
        # The released answer is one completion plus noise. The interval includes it.
        return min(low, value), max(high, value)


# Plain functions of single rows and of public facts, which sessions run


def membership(
    rows: RowView, chosen: tuple[Predicate, ...], complete: Names, about: Names
) -> NDArray[np.bool_]:
    """Return True for rows of all subpopulations to which ``about`` applies, with values.

    Parameters
    ----------
    rows : RowView
        Private rows.
    chosen : tuple of Predicate
        Conditions of the subpopulations.
    complete : tuple of str
        Attributes in which a row must have a value.
    about : tuple of str
        Attributes that must surely apply to a row.

    Returns
    -------
    ndarray of bool, shape (n_rows,)
        Private.
    """
    is_member = _applicable(rows, about)
    for predicate in chosen:
        is_member &= predicate.select(rows)
    for name in complete:
        is_member &= ~rows.mask(name)
    return is_member


def _products(
    rows: RowView, who: tuple[Any, ...], names: Names, centres: tuple[float, ...]
) -> NDArray[np.float64]:
    """Return products of deviations from centres, and 0 for rows outside the subpopulation."""
    factors = (rows.values(n) - c for n, c in zip(names, centres, strict=True))
    return np.where(membership(rows, *who), math.prod(factors), 0.0)


def _possible(rows: RowView, where: Predicate, lacking: Names, about: Names) -> NDArray[np.bool_]:
    """Return True for rows that may be in a subpopulation and lack one of some attributes."""
    possible = ~decide(where, rows).is_false & _applicable(rows, about)
    missing = [rows.is_missing(name) & rows.applies(name).is_true for name in lacking]
    return np.asarray(possible & np.logical_or.reduce(missing) if missing else possible)


def _applicable(rows: RowView, about: Names) -> NDArray[np.bool_]:
    """Return True for rows to which all of some attributes surely apply."""
    is_applicable = np.ones(len(rows), dtype=bool)
    for name in about:
        is_applicable &= rows.applies(name).is_true
    return is_applicable


def _squares(rows: RowView, where: Predicate, name: str, centre: float) -> NDArray[np.float64]:
    """Return squared deviations of observed values, 0 outside of the certain subpopulation."""
    there = decide(where, rows).is_true & ~rows.mask(name)
    return np.where(there, np.square(rows.values(name) - centre), 0.0)
