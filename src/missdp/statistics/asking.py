"""What is asked of a table, and one question while it is answered: its releases, and their use.

Parts of the budget for all releases are set aside at once, before anything is read. Everything here
is public, or released. A session runs the plain functions at the end on private rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost, Event, Guarantee
from missdp.errors import DataError, ParameterError, UnprovenError, one_of
from missdp.schema import Numeric, Schema
from missdp.schema.expressions import parse_where
from missdp.schema.logic import Predicate
from missdp.session.measurement import Measurement
from missdp.session.session import Reservation, Session
from missdp.statistics.estimates import Beside, Estimate, clip, corners, within
from missdp.statistics.imputation import KNNImputation, NearestNeighbours, check_range
from missdp.statistics.imputed_rows import Rows
from missdp.statistics.noisy import Noisy, noisy_numbers
from missdp.statistics.row_queries import RowCounts, RowQuery, RowSums
from missdp.statistics.table_rows import EachLevel, smooth_epsilon
from missdp.statistics.worst_case import Interval, MissingCells, Names, decide
from missdp.words import warn_if_weak

Uncertainty: TypeAlias = Literal["total", "noise", "worst-case"]

# Statistics that questions name otherwise than the methods that answer them.
_WRITTEN = {"proportion": "share", "standard_deviation": "sd"}
BOUNDED = ("count", "proportion", "mean", "sum")
_GROUPED = ("count", "proportion", "mean")
# What each statistic is of: so many attributes, or one condition for a proportion.
_OF = {
    "count": 0, "proportion": 1, "mean": 1, "sum": 1, "variance": 1, "standard_deviation": 1,
    "correlation": 2, "histogram": 1,
}  # fmt: skip


def written_name(kind: str) -> str:
    """Return the name of a statistic in the text of a question."""
    return _WRITTEN.get(kind, kind)


def check_kind(kind: str, uncertainty: str) -> None:
    """Refuse statistics that do not exist, and bounds that are not derived."""
    one_of("statistic", kind, _OF)
    one_of("uncertainty", uncertainty, get_args(Uncertainty))
    if uncertainty == "worst-case" and kind not in BOUNDED:
        raise UnprovenError(f"worst-case bounds exist for {', '.join(BOUNDED)} only")


@dataclass(frozen=True)
class Statistic:
    """A question about a table: what is asked for, of what, of whom.

    Parameters
    ----------
    kind : str
        "count", "proportion", "mean", "sum", "variance", "standard_deviation", "correlation" or
        "histogram".
    of : tuple of str
        The attributes that it is of: none for a count, two for a correlation; for a proportion
        the condition.
    where : str, optional
        The subpopulation, see `parse_where`; everyone by default.
    uncertainty : {"total", "noise", "worst-case"}, default "total"
        Counts, proportions, means and sums spend a twentieth of their cost at most on
        `Estimate.total_interval`, unless "noise" is enough. "worst-case" spends a tenth more on
        `Estimate.imputation_interval`.
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
        check_kind(self.kind, self.uncertainty)
        if self.by and self.kind not in _GROUPED:
            raise ParameterError(f"groups are compared by {', '.join(_GROUPED)}, not {self.kind}")
        if self.by and self.uncertainty == "worst-case":
            raise UnprovenError(
                "worst-case bounds exist without groups only: ask for one of them with where"
            )
        wanted = _OF[self.kind]
        if len(self.of) != wanted:
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


_Wider: TypeAlias = Callable[[float], Interval]
"""What an interval is if noise were so many times less."""


def share(cost: Cost, part: float) -> Cost:
    """Return a part of a cost; shares never add up to more than the whole."""
    return replace(cost, amount=cost.amount * part * _SHARE)


def middle_and_half(a: Numeric) -> tuple[float, float]:
    """Return the middle of an attribute's bounds, and half of the distance between them."""
    return (a.lower + a.upper) / 2, (a.upper - a.lower) / 2


@dataclass(frozen=True)
class Part:
    """One release of an answer: public facts before anything is charged.

    Attributes
    ----------
    query : RowQuery
        The query, or one that reads as much and is as sensitive, if the query depends on what is
        released before.
    cost : Cost
        What it may cost, in pure epsilon or rho.
    is_smooth : bool
        Whether it reads imputed cells, so that its noise follows a private bound.
    """

    query: RowQuery
    cost: Cost
    is_smooth: bool

    @property
    def cap(self) -> Cost:
        """The cost in the measure of the noise, which caps the release most tightly.

        Noise that follows a private bound is pure, and other noise for rho is Gaussian. A cap in
        rho would forget either.
        """
        if self.cost.currency == "pure":
            return self.cost
        if self.is_smooth:
            return Cost(currency="pure", amount=smooth_epsilon(self.cost))
        return Cost(currency="gdp", amount=2 * self.cost.amount)


@dataclass(frozen=True, eq=False)
class Paid:
    """A session that answers one release, the cost of this release, and its public name."""

    session: Session
    cost: Cost
    label: str


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
        reads = question.reads(self.schema)
        self.where, self.condition = question.predicates(self.schema)
        self.names: Names = question.of if self.condition is None else ()
        of = question.of if self.condition is None else self.condition.names
        for name in self.where.names if self.kind == "histogram" else reads:
            if isinstance(self.schema[name], Numeric) and name not in session.facts.valued:
                raise DataError(f"attribute {name!r} has no numeric values in this table")
        for name in () if self.kind == "histogram" else self.names:
            check_range(self.schema[name])
        self.applicable = self.schema.rule_set.not_everywhere(sorted({*of}))
        # Attributes that may be missing after imputation.
        self.holes = tuple(name for name in self.names if name not in self.filled)
        self.rough = bool(reads & self.filled)  # noise follows a private bound
        self.about, self._total = self._others(), cost
        self._known: dict[str, Noisy] = {}
        self.parts: tuple[Part, ...] = ()
        self._worst: Paid | None = None
        self._promised: Guarantee | None = None  # once the price of the answer is known
        self.missing: MissingCells | None = None
        if question.uncertainty == "worst-case":
            whole = self.numeric(self.names[0]) if self.names else self.condition
            mean = self.kind in ("proportion", "mean")
            self.missing = MissingCells(self.schema, self.where, whole, mean)
        rest = 1 - _ABOUT * len(self.about) - (0.0 if self.missing is None else _WORST_CASE)
        self.cost = share(cost, rest) if rest < 1 else cost

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
        return by if self.rough and by not in self.filled else ""

    def depends(self) -> bool:
        """Whether membership reads imputed values that depend on other rows."""
        return bool(self.where.names & self.filled)

    def moved(self, name: str) -> float:
        """Return how far the value of one donee that exchanges a donor moves."""
        if self.imputation is None or name not in self.filled:
            return 0.0
        attribute = self.numeric(name)
        return (attribute.upper - attribute.lower) * self.imputation.step(name, self.schema)

    # Releases

    def part(self, part: float) -> Cost:
        """Return a part of what the answer costs."""
        return share(self.cost, part)

    def for_rows(self, least: float, *, moving: float) -> float:
        """Return the share of a quotient's cost that is for its released number of rows.

        ``least`` is best for the error of the answer; an interval takes the worst of both numbers,
        and a fifth is best for it. ``moving`` is for rows that filled cells decide on.
        """
        if self.depends():
            return moving
        return 0.2 if self.rough else least

    def count_part(self, label: str, cost: Cost, *also: Predicate) -> Part:
        """Return a release of the rows of the subpopulation in which the attributes are known."""
        reads = self._reads((), *also)
        return self.part_of(RowCounts(label=label, function=members, reads=reads), cost)

    def sum_part(self, label: str, name: str, cost: Cost, *also: str) -> Part:
        """Return a release of a sum over these rows."""
        facts: dict[str, Any] = {"label": f"{label} of {name}", "reads": self._reads((name, *also))}
        return self.part_of(RowSums(function=_products, bound=1.0, **facts), cost)

    def part_of(self, query: RowQuery, cost: Cost) -> Part:
        """Return the release of a query."""
        return Part(query, cost, bool(query.reads & self.filled))

    def _reads(self, names: Iterable[str], *also: Predicate) -> frozenset[str]:
        """Return what is read of the rows of the subpopulation."""
        return self.where.names.union(names, self.holes, *(part.names for part in also))

    def reserve(self, *parts: Part) -> tuple[Paid, ...]:
        """Set aside the cost of all releases of the answer, before anything is read.

        A single release is charged when it is measured, for its own price and not for a cap.
        """
        about = [Part(query, share(self._total, _ABOUT), False) for query in self.about.values()]
        hidden = [] if self.missing is None else [self.missing.query]
        worst = [Part(query, share(self._total, _WORST_CASE), False) for query in hidden]
        self.parts, imputed = (*about, *parts, *worst), self.on_imputed(self.session)
        if len(self.parts) == 1:
            return (Paid(imputed, parts[0].cost, parts[0].query.label),)
        for some, session in ((parts, imputed), ((*about, *worst), self.session)):
            for part in some:  # refused before anything is charged
                session.preview(part.query, part.cap)
        reserved = [Reservation(part.cap, self._labelled(part.query.label)) for part in self.parts]
        self._promise(*(each.event for each in reserved))
        sessions = self.session.reserve_each(*reserved)
        paid = [
            Paid(session, part.cap, part.query.label)
            for session, part in zip(sessions, self.parts, strict=True)
        ]
        for one, (name, query) in zip(paid, self.about.items(), strict=False):
            self._known[name] = noisy_numbers(one.session.measure(query, one.cost))[0]
        self._worst = paid[-1]
        main = paid[len(about) : len(about) + len(parts)]
        return tuple(replace(one, session=self.on_imputed(one.session)) for one in main)

    def _labelled(self, label: str) -> str:
        """Return the public name of a release."""
        return f"{label} by {self.apart}" if self.apart else label

    def on_imputed(self, session: Session) -> Session:
        """Return a session on the imputed rows, for each group that is answered apart."""
        if self._change is not None:
            session = session.on(self._change)
        return session.on(EachLevel(self.apart)) if self.apart else session

    def _promise(self, *events: Event) -> None:
        """Keep what the answer will promise, and warn if that is little."""
        self._promised = self.session.promise(*events)
        warn_if_weak(self._promised.epsilon)

    @property
    def guarantee(self) -> Guarantee:
        """What the answer promises by itself."""
        assert self._promised is not None  # stated before the first charge
        return self._promised

    def measure(self, paid: Paid, query: RowQuery) -> Measurement:
        """Return the released answer of a query."""
        if self._promised is None:
            self._promise(paid.session.preview(query, paid.cost).event)
        return paid.session.measure(query, paid.cost)

    @property
    def _wants_total(self) -> bool:
        """Whether the population's value is asked for."""
        question = self.question
        return question.uncertainty != "noise" and self.kind in BOUNDED and not question.by

    def _others(self) -> dict[str, RowQuery]:
        """Return what is asked beside the answer: numbers of rows, and how they vary."""
        kind = self.kind
        if not self._wants_total:
            return {}
        every = self.question.reads(self.schema)
        about: Names = self.schema.rule_set.not_everywhere(sorted(every))
        reads, applies = self.where.names, frozenset(about)

        def possible(label: str, lacking: Names) -> RowCounts:
            given, read = (self.where, lacking, about), reads.union(lacking)
            return RowCounts(
                label=label, function=_possible, reads=read, given=given, applies=applies
            )

        asked: list[RowQuery] = []
        if self.rough:
            asked.append(possible("rows filled", tuple(sorted(every & self.filled))))
        if self.rough or kind == "sum":
            asked.append(possible("rows in question", ()))
        if kind in ("count", "sum"):
            label = "all rows"
            asked.append(
                RowCounts(label=label, function=_applicable, given=(about,), applies=applies)
            )
        if kind in ("mean", "sum"):
            (name,) = self.names
            middle, half = middle_and_half(self.numeric(name))
            asked.append(RowSums(
                label="squares as observed", function=_squares, reads=reads.union({name}),
                bound=half**2, change=0.0, given=(self.where, name, middle),
            ))  # fmt: skip
        return {query.label: query for query in asked}

    def size(self, paid: Paid, *also: Predicate) -> Noisy:
        """Return the released number of rows in which the attributes are known."""
        return self.sizes(paid, *also)[0]

    def sizes(self, paid: Paid, *also: Predicate) -> list[Noisy]:
        """Return the released numbers of such rows, one for each group that is answered apart."""
        query = RowCounts(
            label=paid.label, function=members, reads=self._reads((), *also),
            given=((self.where, *also), self.holes, self.applicable),
            applies=frozenset(self.applicable),
        )  # fmt: skip
        return self._answers(paid, query)

    def _answers(self, paid: Paid, query: RowQuery) -> list[Noisy]:
        """Return the released number of all rows, or of each group that is answered apart."""
        found = self.measure(paid, query)
        if not self.apart:
            return noisy_numbers(found)
        return [noisy_numbers(group)[0] for group in found.value]

    def products(
        self, paid: Paid, names: Names, centres: tuple[float, ...], limit: float, move: float
    ) -> Noisy:
        """Return a released sum of products of deviations, each within the limit."""
        return self._products(paid, names, centres, limit, move)[0]

    def _products(
        self, paid: Paid, names: Names, centres: tuple[float, ...], limit: float, move: float
    ) -> list[Noisy]:
        """Return such sums, one for each group that is answered apart."""
        # A donee that enters or leaves the subpopulation brings or takes its whole term.
        change = max(move, limit) if self.depends() else move
        linear = not self.depends() and len([name for name in names if name in self.filled]) < 2
        if self.imputation is not None and self.imputation.k > 1 and not linear:
            # Of donors that are equally near, runs stand for sets: see `profile`.
            change = min(2 * change, limit if names[1:] == names[:1] else 2 * limit)
        query = RowSums(
            label=paid.label, function=_products, reads=self._reads(names),
            applies=frozenset(self.applicable),
            given=(((self.where,), self.holes, self.applicable), names, centres),
            bound=limit, change=change,
        )  # fmt: skip
        return self._answers(paid, query)

    def centred(self, paid: Paid, name: str) -> Noisy:
        """Return the released sum of deviations from the middle of the bounds."""
        return self.centred_sums(paid, name)[0]

    def centred_sums(self, paid: Paid, name: str) -> list[Noisy]:
        """Return such sums, one for each group that is answered apart."""
        middle, half = middle_and_half(self.numeric(name))
        return self._products(paid, (name,), (middle,), half, self.moved(name))

    def average(self, name: str) -> tuple[Callable[[float, float], float], Interval]:
        """Return how a sum of deviations from the middle and a size make a mean; its bounds."""
        a = self.numeric(name)
        middle, _ = middle_and_half(a)
        return lambda top, rows: middle + top / max(rows, 1.0), (a.lower, a.upper)

    # What is made of them

    @property
    def _may_fail(self) -> float:
        """Probability that is left to the noise of what is released."""
        return 1 - self.confidence

    def boxes(self, numbers: Iterable[Noisy], pieces: int, times: float = 1.0) -> list[Interval]:
        """Return where noiseless numbers are, ``pieces`` of them at once."""
        return [number.within(1 - self._may_fail / pieces, times=times) for number in numbers]

    def combined(
        self, function: Callable[..., float], *numbers: Noisy, bounds: Interval
    ) -> Estimate:
        """Return a function of released numbers that is monotone in each, within public bounds.

        The first one's noise matters most, so it may fail four times as often as a second one's.
        """
        value = clip(function(*(number.value for number in numbers)), bounds)
        each = (1.0,) if len(numbers) == 1 else (0.8, 0.2)

        def interval(times: float) -> Interval:
            boxes = [
                number.within(1 - self._may_fail * part, times=times)
                for number, part in zip(numbers, each, strict=True)
            ]
            return corners(function, boxes, bounds)

        rows = numbers[1] if len(numbers) > 1 else None
        found = self.estimate(value, interval, bounds, rows=rows)
        beside = self._beside(*numbers)
        if beside is None:
            return found
        total = beside.interval(value, numbers[0], self.confidence)
        return replace(found, total_interval=within(total, bounds))

    def _beside(self, *numbers: Noisy) -> Beside | None:
        """Return what was released beside an answer, if the population's value was asked for."""
        if not self._wants_total:
            return None
        a = self.numeric(self.names[0]) if self.kind in ("mean", "sum") else None
        return Beside(
            kind=self.kind, bounds=(0.0, 1.0) if a is None else (a.lower, a.upper),
            known={name: max(noisy.value, 0.0) for name, noisy in self._known.items()},
            divisor=numbers[1] if len(numbers) > 1 else None,
        )  # fmt: skip

    def estimate(
        self, value: float, interval: _Wider, bounds: Interval, *, rows: Noisy | None = None
    ) -> Estimate:
        """Put an answer and its guarantee together.

        ``interval(times)`` is the interval if noise were that many times less, within ``bounds``;
        ``rows`` is the released number that the answer is divided by.
        """
        found = interval(1.0)
        note = ""
        if found == bounds:
            note = self._whole_range(interval, bounds, None if rows is None else rows.within(0.95))
        of = self.question.where or "" if self.kind == "count" else ", ".join(self.question.of)
        answer = Estimate(
            name=f"{written_name(self.kind)}({of})", value=value, interval=found,
            confidence=self.confidence, note=note, guarantee=self.guarantee,
            applicable=self.applicable,
        )  # fmt: skip
        return answer if self.missing is None else self._widened(answer, self.missing)

    def _whole_range(self, interval: _Wider, bounds: Interval, rows: Interval | None) -> str:
        """Return why an interval is as wide as it can be, and about which epsilon would help."""
        why = (
            "Of noise alone the interval is the whole range: it is as large as what it is added to"
        )
        unsure = rows is not None and rows[0] <= 0
        return f"{why}. {NOBODY if unsure else self.halved(interval, bounds)}"

    def halved(self, interval: _Wider, bounds: Interval) -> str:
        """Return with about which epsilon an interval would be half as wide as its bounds."""
        half = (bounds[1] - bounds[0]) / 2
        boxes = ((times, interval(times)) for times in _TIMES)
        enough = next((t for t, (low, high) in boxes if high - low <= half), _TIMES[-1])
        # Noise for filled cells falls with the square of epsilon, about: so does its scale.
        rough = any(part.is_smooth for part in self.parts)
        needed = self._worth(math.sqrt(enough) if rough else enough)
        had = self._worth(1.0).rpartition(" ")[2]
        return f"It would be half as wide with an {needed} instead of {had}"

    def _widened(self, estimate: Estimate, missing: MissingCells) -> Estimate:
        """Add what the missing cells could hide."""
        assert self._worst is not None  # reserved with the others
        released = noisy_numbers(self._worst.session.measure(missing.query, self._worst.cost))
        each = 1 - (1 - self.confidence) / len(released)
        pairs = zip(missing.places, released, strict=True)
        found = {name: noisy.within(each) for name, noisy in pairs}
        low, high = missing.interval(found)
        # The released answer is one completion plus noise; an interval without it helps nobody.
        interval = (min(low, estimate.value), max(high, estimate.value))
        return replace(estimate, imputation_interval=interval)

    def _worth(self, times: float) -> str:
        """Return so many times what an answer costs, in words."""
        costs = [part.cost for part in self.parts]
        whole = math.fsum(cost.amount for cost in costs)
        name, power = ("rho", 2) if costs[0].currency == "zcdp" else ("epsilon", 1)
        return f"{name} of about {float(f'{whole * times**power:.2g}'):g}"


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
