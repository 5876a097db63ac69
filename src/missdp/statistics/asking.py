"""What is asked of a table, and one question while it is answered: its releases, and their use.

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
from missdp.statistics.estimates import Beside, Estimate, clip, corners, within
from missdp.statistics.imputation import KNNImputation, NearestNeighbours, check_range
from missdp.statistics.imputed_rows import Rows
from missdp.statistics.noisy import Noisy, noisy_numbers
from missdp.statistics.row_queries import RowCounts, RowQuery, RowSums
from missdp.statistics.table_rows import EachLevel
from missdp.statistics.worst_case import Interval, MissingCells, Names, decide
from missdp.words import warn_if_weak

Uncertainty: TypeAlias = Literal["total", "noise", "worst-case"]

WRITTEN = {"proportion": "share", "standard_deviation": "sd"}
"""Statistics that questions name otherwise than the methods that answer them."""
BOUNDED = ("count", "proportion", "mean", "sum")
_GROUPED = ("count", "proportion", "mean")
# What each statistic is of: so many attributes, or one condition for a proportion.
_OF = {
    "count": 0, "proportion": 1, "mean": 1, "sum": 1, "variance": 1, "standard_deviation": 1,
    "correlation": 2, "histogram": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Statistic:
    """A question about a table: what is asked for, of what, of whom.

    Parameters
    ----------
    kind : str
        "count", "proportion", "mean", "sum", "variance", "standard_deviation", "correlation" or
        "histogram".
    of : tuple of str
        Attributes that the statistic reads: none for a count, two for a correlation; for a
        proportion the condition.
    where : str, optional
        The subpopulation, see `parse_where`; everyone by default.
    uncertainty : {"total", "noise", "worst-case"}, default "total"
        With "total", counts, proportions, means and sums spend up to 8 % of their cost on
        `Estimate.total_interval`. "noise" spends nothing on it. "worst-case" computes both
        intervals, and spends a further 10 % on `Estimate.imputation_interval`.
    by : str, optional
        A categorical or ordinal attribute: the statistic (a count, a proportion or a mean) is asked
        for each of its declared levels, and all levels cost what one costs. Unless the attribute is
        imputed itself, missing cells of a group are filled from donors of the group.

    Raises
    ------
    ParameterError
        If there is no such statistic, or it is of another number of attributes.
    UnprovenError
        If "worst-case" is asked of another statistic: no bound is derived.

    Examples
    --------
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
                "worst-case bounds exist without groups only: ask for one of them with where"
            )
        wanted = _OF[self.kind]
        if len(self.of) != wanted or not all(self.of):
            what = ("nothing", "one attribute", "2 attributes")[wanted]
            raise ParameterError(f"{self.kind} is of {what}")

    def predicates(self, schema: Schema) -> tuple[Predicate, Predicate | None]:
        """Return the subpopulation, and the condition of a proportion."""
        where = parse_where(self.where, schema)
        if self.kind != "proportion":
            return where, None
        return where, parse_where(self.of[0], schema, named=self.kind)

    def reads(self, schema: Schema) -> frozenset[str]:
        """Return the attributes that it reads; refuse what it cannot be of. Public."""
        where, condition = self.predicates(schema)
        groups: set[str] = set()
        if self.by:
            if isinstance(schema[self.by], Numeric):
                raise ParameterError(f"{self.by!r} is numeric: groups are levels of an attribute")
            groups = {self.by}
        for name in (*groups, *(self.of if condition is None else ())):
            if not schema[name].size:
                raise ParameterError(f"{name!r} has no levels: no row has a value of it")
        if condition is not None:
            return where.names | condition.names | groups
        for attribute in (schema[name] for name in self.of):
            if self.kind != "histogram" and not isinstance(attribute, Numeric):
                raise ParameterError(
                    f"{attribute.name!r} is not numeric; ask for proportions or a histogram"
                )
        return where.names | frozenset(self.of) | groups


# Shares are rounded down by more than floating point can round their sum up.
_SHARE = 1 - 2.0**-40
_WORST_CASE = 0.1  # of the cost of a question, for `Estimate.imputation_interval`
_ABOUT = 0.02  # of it, for each number that says how large other errors are
# Less noise would perhaps show that nobody is there.
NOBODY = "Even whether there are such rows at all cannot be told from it"
_TIMES = tuple(2 ** (k / 2) for k in range(1, 81))  # by which noise might be less


Narrowed: TypeAlias = Callable[[float], Interval]
"""What an interval is if noise were so many times less."""


def share(cost: Cost, part: float) -> Cost:
    """Return a part of a cost; shares never add up to more than the whole."""
    return replace(cost, amount=cost.amount * part * _SHARE)


def middle_and_half(a: Numeric) -> tuple[float, float]:
    """Return the middle of an attribute's bounds, and half of the distance between them."""
    return (a.lower + a.upper) / 2, (a.upper - a.lower) / 2


@dataclass(frozen=True)
class Part:
    """One release of an answer, planned by public facts before anything is charged.

    Attributes
    ----------
    query : RowQuery
        The query, or one that reads as much and is as sensitive, if the query depends on what is
        released before.
    cost : Cost
        What it may cost, in pure epsilon or rho.
    event : Event
        What it would be charged with by itself.
    """

    query: RowQuery
    cost: Cost
    event: Event

    @property
    def cap(self) -> Cost:
        """The cost in the measure of the noise, which caps the release most tightly.

        Noise that follows a private bound has a pure event, and other noise for rho is Gaussian. A
        cap in rho would forget either.
        """
        if self.cost.privacy_measure == "pure":
            return self.cost
        if isinstance(self.event, PureEvent):
            return Cost(privacy_measure="pure", amount=self.event.epsilon)
        return Cost(privacy_measure="gdp", amount=2 * self.cost.amount)


@dataclass(frozen=True, eq=False)
class Paid:
    """A release whose cost is set aside, the session that answers it, and what it may spend."""

    session: Session
    query: RowQuery
    cost: Cost

    def numbers(self, query: RowQuery | None = None) -> list[Noisy]:
        """Return the released numbers of a query, or one number for each group.

        Without a ``query``, the query is answered for which the cost was set aside.
        """
        found = self.session.measure(query or self.query, self.cost)
        if isinstance(found.value, tuple):
            return [noisy_numbers(group)[0] for group in found.value]
        return noisy_numbers(found)


class Asking:
    """One question while it is answered; what public facts refuse is refused before any charge."""

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
        self._beside = [self._plan(session, query, share(cost, _ABOUT)) for query in about]
        self._worst = [self._plan(session, query, share(cost, _WORST_CASE)) for query in hidden]
        rest = 1 - _ABOUT * len(self._beside) - _WORST_CASE * len(self._worst)
        self.cost = share(cost, rest) if rest < 1 else cost
        self._parts: tuple[Part, ...] = ()
        # Once the cost is set aside:
        self.guarantee: Guarantee
        self._known: dict[str, float] = {}
        self._paid_worst: Paid

    # Public facts

    def numeric(self, name: str) -> Numeric:
        """Return an attribute of which the question is known to be able to be."""
        attribute = self.schema[name]
        assert isinstance(attribute, Numeric)  # checked from the start
        return attribute

    @property
    def apart(self) -> str:
        """The attribute whose groups are answered apart, each from its own rows; else nothing.

        That is so where the answer reads filled cells and the group does not. Donors then come from
        the group itself.
        """
        by = self.question.by or ""
        return by if self.is_smooth and by not in self.filled else ""

    def depends(self) -> bool:
        """Whether membership reads imputed values that depend on other rows."""
        return bool(self.where.names & self.filled)

    def moved(self, name: str) -> float:
        """Return how far the value of one donee that exchanges a donor moves."""
        if self.imputation is None or name not in self.filled:
            return 0.0
        attribute = self.numeric(name)
        return (attribute.upper - attribute.lower) * self.imputation.step(name, self.schema)

    # Queries

    def count_query(self, label: str, *also: Predicate) -> RowCounts:
        """Return the number of rows of the subpopulation in which the attributes are known."""
        return RowCounts(
            label=label, function=members, reads=self._reads((), *also),
            given=((self.where, *also), self.missing, self.applicable),
            applies=frozenset(self.applicable),
        )  # fmt: skip

    def sum_query(
        self, label: str, names: Names, centres: tuple[float, ...], limit: float, move: float
    ) -> RowSums:
        """Return the sum over these rows of products of deviations, each within the limit."""
        # A donee that enters or leaves the subpopulation brings or takes its whole term.
        change = max(move, limit) if self.depends() else move
        linear = not self.depends() and len([name for name in names if name in self.filled]) < 2
        if self.imputation is not None and self.imputation.k > 1 and not linear:
            # Of donors that are equally near, runs stand for sets: see `profile`.
            change = min(2 * change, limit if names[1:] == names[:1] else 2 * limit)
        return RowSums(
            label=label, function=_products, reads=self._reads(names),
            applies=frozenset(self.applicable),
            given=(((self.where,), self.missing, self.applicable), names, centres),
            bound=limit, change=change,
        )  # fmt: skip

    def centred_query(self, name: str) -> RowSums:
        """Return the sum of deviations from the middle of the bounds."""
        middle, half = middle_and_half(self.numeric(name))
        label = f"centred sum of {name}"
        return self.sum_query(label, (name,), (middle,), half, self.moved(name))

    def _reads(self, names: Iterable[str], *also: Predicate) -> frozenset[str]:
        """Return what is read of the rows of the subpopulation."""
        return self.where.names.union(names, self.missing, *(one.names for one in also))

    @property
    def _wants_total(self) -> bool:
        """Whether the population's value is asked for."""
        question = self.question
        return question.uncertainty != "noise" and self.kind in BOUNDED and not question.by

    def _other_queries(self) -> Iterator[RowQuery]:
        """Yield what is asked beside the answer: numbers of rows, and how they vary."""
        if not self._wants_total:
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
                given=(where, lacking, about), applies=frozenset(about),
            )  # fmt: skip
        if kind in ("count", "sum"):
            yield RowCounts(
                label="all rows", function=_applicable, given=(about,), applies=frozenset(about)
            )
        if kind in ("mean", "sum"):
            (name,) = self.names
            middle, half = middle_and_half(self.numeric(name))
            yield RowSums(
                label="squares as observed", function=_squares, reads=where.names | {name},
                bound=half**2, change=0.0, given=(where, name, middle),
            )  # fmt: skip

    def _missing_cells(self) -> MissingCells | None:
        """Return which cells may be missing, if all that they could hold is asked for."""
        if self.question.uncertainty != "worst-case":
            return None
        of = self.numeric(self.names[0]) if self.names else self.condition
        return MissingCells(self.schema, self.where, of, self.kind in ("proportion", "mean"))

    # Releases

    def part(self, query: RowQuery, weight: float | None = None) -> Part:
        """Return the release of a query for a part of what the answer costs, or for all of it."""
        cost = self.cost if weight is None else share(self.cost, weight)
        return self._plan(self.imputed, query, cost)

    def _plan(self, session: Session, query: RowQuery, cost: Cost) -> Part:
        return Part(query, cost, session.preview(query, cost).event)

    def for_rows(self, least: float, *, moving: float) -> float:
        """Return the share of a quotient's cost that is for its released number of rows.

        ``least`` is best for the error of the answer; an interval takes the worst of both numbers,
        and a fifth is best for it. ``moving`` is for rows that filled cells decide on.
        """
        if self.depends():
            return moving
        return 0.2 if self.is_smooth else least

    def _on_imputed(self, session: Session) -> Session:
        """Return a session on the imputed rows, for each group that is answered apart."""
        if self._change is not None:
            session = session.apply(self._change)
        return session.apply(EachLevel(self.apart)) if self.apart else session

    def reserve(self, *parts: Part) -> list[Paid]:
        """Set aside the cost of all releases of the answer, before anything is read.

        A single release is charged when it is measured, for its own price and not for a cap.
        """
        beside, self._parts = self._beside, (*self._beside, *parts, *self._worst)
        if len(self._parts) == 1:
            self._promise(parts[0].event)
            return [Paid(self.imputed, parts[0].query, parts[0].cost)]
        reserved = [Reservation(part.cap, part.event.label) for part in self._parts]
        self._promise(*(each.event for each in reserved))
        sessions = zip(self.session.reserve_each(*reserved), self._parts, strict=True)
        paid = [Paid(session, part.query, part.cap) for session, part in sessions]
        for one in paid[: len(beside)]:
            self._known[one.query.label] = max(one.numbers()[0].value, 0.0)
        self._paid_worst = paid[-1]
        main = paid[len(beside) : len(beside) + len(parts)]
        return [replace(one, session=self._on_imputed(one.session)) for one in main]

    def _promise(self, *events: Event) -> None:
        """Keep what the answer will promise by itself, and warn if that is little."""
        self.guarantee = self.session.promise(*events)
        warn_if_weak(self.guarantee.epsilon)

    # What is made of them

    def boxes(self, numbers: Iterable[Noisy], pieces: int, times: float = 1.0) -> list[Interval]:
        """Return where noiseless numbers are, ``pieces`` of them at once."""
        return [n.within(1 - (1 - self.confidence) / pieces, times=times) for n in numbers]

    def combined(
        self, function: Callable[..., float], numbers: Sequence[Noisy], bounds: Interval
    ) -> Estimate:
        """Return a function of released numbers that is monotone in each, within public bounds.

        The first one's noise matters most, so it may fail four times as often as a second one's.
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
        found = self.estimate(value, interval, bounds, rows=divisor)
        if self._wants_total:
            a = self.numeric(self.names[0]) if self.names else None
            ends = (0.0, 1.0) if a is None else (a.lower, a.upper)
            beside = Beside(kind=self.kind, bounds=ends, known=self._known, divisor=divisor)
            total = within(beside.interval(value, numbers[0], self.confidence), bounds)
            found = replace(found, total_interval=total)
        if self._worst_case is None:
            return found
        return replace(found, imputation_interval=self._widest(self._worst_case, value))

    def estimate(
        self, value: float, interval: Narrowed, bounds: Interval, *, rows: Noisy | None = None
    ) -> Estimate:
        """Put an answer and its guarantee together.

        ``interval(times)`` is the interval if noise were that many times less, within ``bounds``;
        ``rows`` is the released number that the answer is divided by.
        """
        found, note = interval(1.0), ""
        if found == bounds:
            nobody = rows is not None and rows.within(0.95)[0] <= 0
            note = (
                "Of noise alone the interval is the whole range: it is as large as what it is "
                f"added to. {NOBODY if nobody else self.halved(interval, bounds)}"
            )
        of = self.question.where or "" if self.kind == "count" else ", ".join(self.question.of)
        return Estimate(
            name=f"{WRITTEN.get(self.kind, self.kind)}({of})", value=value, interval=found,
            confidence=self.confidence, note=note, guarantee=self.guarantee,
            applicable=self.applicable,
        )  # fmt: skip

    def halved(self, interval: Narrowed, bounds: Interval) -> str:
        """Return with about which epsilon an interval would be half as wide as its bounds."""
        half = (bounds[1] - bounds[0]) / 2
        boxes = ((times, interval(times)) for times in _TIMES)
        enough = next((t for t, (low, high) in boxes if high - low <= half), _TIMES[-1])
        if self.is_smooth:
            # Noise for filled cells falls with the square of epsilon, about: so does its scale.
            enough = math.sqrt(enough)
        spent = math.fsum(part.cost.amount for part in self._parts)
        name, power = ("rho", 2) if self.cost.privacy_measure == "zcdp" else ("epsilon", 1)
        needed, had = (float(f"{spent * times**power:.2g}") for times in (enough, 1.0))
        return f"It would be half as wide with an {name} of about {needed:g} instead of {had:g}"

    def _widest(self, cells: MissingCells, value: float) -> Interval:
        """Return what the missing cells could hide."""
        released = self._paid_worst.numbers()
        found = dict(zip(cells.places, self.boxes(released, len(released)), strict=True))
        low, high = cells.interval(found)
        # The released answer is one completion plus noise; an interval without it helps nobody.
        return min(low, value), max(high, value)


# What sessions run of rows, each alone: plain functions of rows and of public facts


def members(
    rows: Rows, chosen: tuple[Predicate, ...], known: Names, about: Names
) -> NDArray[np.bool_]:
    """Tell which rows are in all subpopulations, with values, of those to which some apply."""
    found = _applicable(rows, about)
    for predicate in chosen:
        found &= predicate.select(rows)
    for name in known:
        found &= ~rows.mask(name)
    return found


def _products(
    rows: Rows, who: tuple[Any, ...], names: Names, centres: tuple[float, ...]
) -> NDArray[np.float64]:
    """Return products of deviations from centres, of rows in question."""
    factors = (rows.values(n) - c for n, c in zip(names, centres, strict=True))
    return np.where(members(rows, *who), math.prod(factors), 0.0)


def _possible(rows: Rows, where: Predicate, lacking: Names, about: Names) -> NDArray[np.bool_]:
    """Tell which rows may be in a subpopulation, and lack one of some attributes, if any."""
    found = ~decide(where, rows).is_false & _applicable(rows, about)
    holes = [rows.holes(name) & rows.applies(name).is_true for name in lacking]
    return np.asarray(found & np.logical_or.reduce(holes) if holes else found)


def _applicable(rows: Rows, about: Names) -> NDArray[np.bool_]:
    """Tell to which rows all of some attributes surely apply."""
    found = np.ones(len(rows), dtype=bool)
    for name in about:
        found &= rows.applies(name).is_true
    return found


def _squares(rows: Rows, where: Predicate, name: str, centre: float) -> NDArray[np.float64]:
    """Return squared deviations of observed values, of rows that are surely in a subpopulation."""
    there = decide(where, rows).is_true & ~rows.mask(name)
    return np.where(there, np.square(rows.values(name) - centre), 0.0)
