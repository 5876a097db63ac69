"""What is asked of a table, and one question while it is answered: its releases, and their use.

All releases are charged at once before anything is read. Everything here is public, or released;
what the door runs of private rows are the plain functions at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost
from missdp.accounting.guarantee import warn_if_weak
from missdp.errors import DataError, ParameterError, UnprovenError, one_of
from missdp.mechanisms.questions import QUANTA, Ask, Counts, Question, Rows, Sums
from missdp.mechanisms.row_door import Charged, Noisy, RowDoor
from missdp.schema import Numeric, Schema
from missdp.schema.conditions import Predicate
from missdp.schema.language import parse_where
from missdp.statistics.estimates import Beside, Estimate, clip, corners, within
from missdp.statistics.imputation import KNNImputation, check_range
from missdp.statistics.worst_case import Interval, MissingCells, Names, decide

Uncertainty: TypeAlias = Literal["total", "noise", "worst-case"]

BOUNDED = ("count", "proportion", "mean", "sum")
_GROUPED = ("count", "proportion", "mean")
# What each statistic is of: so many attributes, or one condition for a proportion.
_OF = {
    "count": 0, "proportion": 1, "mean": 1, "sum": 1, "variance": 1, "standard_deviation": 1,
    "correlation": 2, "histogram": 1,
}  # fmt: skip


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
        for each of its declared levels, all in one release.

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


_Wider: TypeAlias = Callable[[float], Interval | None]
"""What an interval is if noise were so many times less."""

NO_INTERVAL = (
    "No noise interval: the answer reads filled cells, so the scale of its noise is private. For "
    "the same epsilon, another noise tells it (ScaleRelease(), or --error-bar)"
)


def share(cost: Cost, part: float) -> Cost:
    """Return a part of a cost; shares never add up to more than the whole."""
    return replace(cost, amount=cost.amount * part * _SHARE)


def middle_and_half(a: Numeric) -> tuple[float, float]:
    """Return the middle of an attribute's bounds, and half of the distance between them."""
    return (a.lower + a.upper) / 2, (a.upper - a.lower) / 2


class Asking:
    """One question while it is answered; what public facts refuse is refused before any charge."""

    def __init__(
        self,
        door: RowDoor,
        imputation: KNNImputation | None,
        confidence: float,
        question: Statistic,
        cost: Cost,
    ) -> None:
        self.door, self.schema, self.confidence = door, door.schema, confidence
        self.imputation = imputation
        self.filled = frozenset(() if imputation is None else imputation.impute)
        self.question, self.kind = question, question.kind
        reads = question.reads(self.schema)
        self.where, self.condition = question.predicates(self.schema)
        self.names: Names = question.of if self.condition is None else ()
        of = question.of if self.condition is None else self.condition.names
        for name in self.where.names if self.kind == "histogram" else reads:
            if isinstance(self.schema[name], Numeric) and name not in door.valued:
                raise DataError(f"attribute {name!r} has no numeric values in this table")
        for name in () if self.kind == "histogram" else self.names:
            check_range(self.schema[name])
        self.applicable = self.schema.rulebook.not_everywhere(sorted({*of}))
        # Attributes that may be missing after imputation.
        self.holes = tuple(name for name in self.names if name not in self.filled)
        self.rough = bool(reads & self.filled)  # noise follows a private bound
        self.about, self._whole = self._others(), cost
        self._known: dict[str, Noisy] = {}
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
        return 0.2 if self.door.tells_scale else least

    def count_ask(self, label: str, cost: Cost, *also: Predicate) -> Ask:
        """Return a release of the rows of the subpopulation in which the attributes are known."""
        reads = self.where.names.union(self.holes, *(part.names for part in also))
        return Ask(label=label, cost=cost, reads=reads)

    def sum_ask(self, label: str, name: str, cost: Cost, *also: str) -> Ask:
        """Return a release of a sum over these rows."""
        reads = self.where.names.union({name}, self.holes, also)
        return Ask(label=f"{label} of {name}", cost=cost, reads=reads, own=QUANTA, moves=2)

    def begin(self, *asks: Ask) -> tuple[Charged, ...]:
        """Charge for all releases of the answer, before anything is read."""
        about = [self._observed(name, q, _ABOUT) for name, q in self.about.items()]
        hidden = [] if self.missing is None else [self.missing.question]
        worst = [self._observed("missing cells", question, _WORST_CASE) for question in hidden]
        self.asks = (*about, *asks, *worst)
        warn_if_weak(self.door.guarantee(*self.asks).epsilon)
        self._charged = self.door.begin(*self.asks)
        for charged, (name, question) in zip(self._charged, self.about.items(), strict=False):
            self._known[name] = self.door.answer(charged, question).each()[0]
        return self._charged[len(about) : len(about) + len(asks)]

    def _observed(self, label: str, question: Question, part: float) -> Ask:
        """Return a release of rows as they came, for a part of what the question costs."""
        return Ask(
            label=label, cost=share(self._whole, part), reads=question.reads, own=question.own,
            dimension=question.dimension, observed=True,
        )  # fmt: skip

    @property
    def _wants_total(self) -> bool:
        """Whether the population's value is asked for, and the scale of all noise is known."""
        question, told = self.question, self.door.tells_scale or not self.rough
        return question.uncertainty != "noise" and self.kind in BOUNDED and not question.by and told

    def _others(self) -> dict[str, Question]:
        """Return what is asked beside the answer: numbers of rows, and how they vary."""
        kind = self.kind
        if not self._wants_total:
            return {}
        every = self.question.reads(self.schema)
        about: Names = self.schema.rulebook.not_everywhere(sorted(every))
        reads, applies = self.where.names, frozenset(about)

        def possible(lacking: Names) -> Counts:
            given = (self.where, lacking, about)
            read = reads.union(lacking)
            return Counts(function=_possible, reads=read, given=given, applies=applies)

        asked: dict[str, Question] = {}
        if self.rough:
            asked["rows filled"] = possible(tuple(sorted(every & self.filled)))
        if self.rough or kind == "sum":
            asked["rows in question"] = possible(())
        if kind in ("count", "sum"):
            asked["all rows"] = Counts(function=_applicable, given=(about,), applies=applies)
        if kind in ("mean", "sum"):
            (name,) = self.names
            middle, half = middle_and_half(self.numeric(name))
            asked["squares as observed"] = Sums(
                function=_squares, reads=reads.union({name}), bound=half**2, change=0.0,
                given=(self.where, name, middle),
            )  # fmt: skip
        return asked

    def size(self, charged: Charged, *also: Predicate) -> Noisy:
        """Return the released number of rows in which the attributes are known."""
        question = Counts(
            function=members, reads=charged.ask.reads, applies=frozenset(self.applicable),
            given=((self.where, *also), self.holes, self.applicable),
        )  # fmt: skip
        return self.door.answer(charged, question).each()[0]

    def products(
        self, charged: Charged, names: Names, centres: tuple[float, ...], limit: float, move: float
    ) -> Noisy:
        """Return a released sum of products of deviations, each within the limit."""
        # A donee that enters or leaves the subpopulation brings or takes its whole term.
        change = max(move, limit) if self.depends() else move
        linear = not self.depends() and len([name for name in names if name in self.filled]) < 2
        if self.imputation is not None and self.imputation.k > 1 and not linear:
            # Of donors that are equally near, runs stand for sets: see `profile`.
            change = min(2 * change, limit if names[1:] == names[:1] else 2 * limit)
        question = Sums(
            function=_products, reads=charged.ask.reads, applies=frozenset(self.applicable),
            given=(((self.where,), self.holes, self.applicable), names, centres),
            bound=limit, change=change,
        )  # fmt: skip
        return self.door.answer(charged, question).each()[0]

    def centred(self, charged: Charged, name: str) -> Noisy:
        """Return the released sum of deviations from the middle of the bounds."""
        middle, half = middle_and_half(self.numeric(name))
        return self.products(charged, (name,), (middle,), half, self.moved(name))

    def average(self, name: str) -> tuple[Callable[[float, float], float], Interval]:
        """Return how a sum of deviations from the middle and a size make a mean; its bounds."""
        a = self.numeric(name)
        middle, _ = middle_and_half(a)
        return lambda top, rows: middle + top / max(rows, 1.0), (a.lower, a.upper)

    # What is made of them

    @property
    def _may_fail(self) -> float:
        """Probability that is left to the noise of what is released."""
        scale = self.door.scale
        fails = 0.0 if scale is None else scale.failure
        return (1 - self.confidence) - fails

    def boxes(
        self, numbers: Iterable[Noisy], pieces: int, times: float = 1.0
    ) -> list[Interval | None]:
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

        def interval(times: float) -> Interval | None:
            boxes = [
                number.within(1 - self._may_fail * part, times=times)
                for number, part in zip(numbers, each, strict=True)
            ]
            return corners(function, boxes, bounds)

        rows = numbers[1] if len(numbers) > 1 else None
        found = self.estimate(value, interval, bounds, rows=rows)
        beside = self._beside(*numbers)
        total = None if beside is None else beside.interval(value, numbers[0], self.confidence)
        return found if total is None else replace(found, total_interval=within(total, bounds))

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
        note = NO_INTERVAL if found is None else ""
        if found == bounds:
            note = self._whole_range(interval, bounds, None if rows is None else rows.within(0.95))
        of = self.question.where or "" if self.kind == "count" else ", ".join(self.question.of)
        answer = Estimate(
            name=f"{self.kind}({of})", value=value, interval=found, confidence=self.confidence,
            note=note, guarantee=self.door.guarantee(*self.asks), applicable=self.applicable,
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
        enough = next((t for t, box in boxes if box and box[1] - box[0] <= half), _TIMES[-1])
        # Noise for filled cells falls with the square of epsilon, about: so does its scale.
        rough = any(ask.reads & self.filled and not ask.observed for ask in self.asks)
        needed = self._worth(math.sqrt(enough) if rough else enough)
        had = self._worth(1.0).rpartition(" ")[2]
        return f"It would be half as wide with an {needed} instead of {had}"

    def _widened(self, estimate: Estimate, missing: MissingCells) -> Estimate:
        """Add what the missing cells could hide."""
        released = self.door.answer(self._charged[-1], missing.question).each()
        # Public noise scale: no share of the error probability goes to the released scale.
        each = 1 - (1 - self.confidence) / len(released)
        found = {
            name: box
            for name, noisy in zip(missing.places, released, strict=True)
            if (box := noisy.within(each)) is not None
        }
        low, high = missing.interval(found)
        # The released answer is one completion plus noise; an interval without it helps nobody.
        interval = (min(low, estimate.value), max(high, estimate.value))
        return replace(estimate, imputation_interval=interval)

    def _worth(self, times: float) -> str:
        """Return so many times what an answer costs, the released scale apart, in words."""
        costs = [ask.cost for ask in self.asks if isinstance(ask.cost, Cost)]
        whole = math.fsum(cost.amount for cost in costs)
        name, power = ("rho", 2) if costs[0].currency == "zcdp" else ("epsilon", 1)
        return f"{name} of about {float(f'{whole * times**power:.2g}'):g}"


# What the door runs of rows, each alone: plain functions of rows and of public facts


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
    found = decide(where, rows)[1] & _applicable(rows, about)
    holes = [rows.holes(name) & rows.applies(name)[0] for name in lacking]
    return np.asarray(found & np.logical_or.reduce(holes) if holes else found)


def _applicable(rows: Rows, about: Names) -> NDArray[np.bool_]:
    """Tell to which rows all of some attributes surely apply."""
    found = np.ones(len(rows), dtype=bool)
    for name in about:
        found &= rows.applies(name)[0]
    return found


def _squares(rows: Rows, where: Predicate, name: str, centre: float) -> NDArray[np.float64]:
    """Return squared deviations of observed values, of rows that are surely in a subpopulation."""
    there = decide(where, rows)[0] & ~rows.mask(name)
    return np.where(there, np.square(rows.values(name) - centre), 0.0)
