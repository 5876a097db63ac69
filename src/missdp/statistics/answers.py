"""How each statistic is answered, from released counts and sums.

`Asking` is one question while it is answered: its releases, all charged at once before anything is
read, and what is made of them. Everything here is public, or released; what the door runs stands in
`of_rows`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from missdp.accounting import Cost
from missdp.accounting.guarantee import warn_if_weak
from missdp.errors import DataError
from missdp.mechanisms.questions import QUANTA, Ask, Counts, Question, Sums
from missdp.mechanisms.row_door import Charged, Noisy, RowDoor
from missdp.schema import AnyAttribute, Level, Numeric
from missdp.schema.applies import not_everywhere
from missdp.schema.conditions import Predicate
from missdp.statistics import of_rows
from missdp.statistics.estimates import Estimate, Histogram
from missdp.statistics.imputation import KNNImputation, check_range
from missdp.statistics.questions import BOUNDED, Statistic
from missdp.statistics.total import Beside
from missdp.statistics.worst_case import Interval, MissingCells, Names

__all__ = ["Asking", "share"]

# Shares are rounded down by more than floating point can round their sum up.
_SHARE = 1 - 2.0**-40
_WORST_CASE = 0.1  # of the cost of a question, for `Estimate.imputation_interval`
_ABOUT = 0.02  # of it, for each number that says how large other errors are
_TIMES = tuple(2 ** (k / 2) for k in range(1, 81))  # by which noise might be less


def share(cost: Cost, part: float) -> Cost:
    """Return a part of a cost; shares never add up to more than the whole."""
    return replace(cost, amount=cost.amount * part * _SHARE)


class Asking:
    """One question while it is answered: public facts, its door to the rows, its releases.

    Raises, before anything is charged, what public facts are enough to refuse.
    """

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
        self.applicable = not_everywhere(self.schema, sorted({*of}))
        # Attributes that may be missing after imputation.
        self.holes = tuple(name for name in self.names if name not in self.filled)
        self.rough = bool(reads & self.filled)  # noise follows a private bound
        self.about, self._whole = self._others(), cost
        self.missing, self._known = self._missing_cells(), dict[str, Noisy]()
        rest = 1 - _ABOUT * len(self.about) - (0.0 if self.missing is None else _WORST_CASE)
        self.cost = share(cost, rest) if rest < 1 else cost

    def answer(self) -> Estimate | Histogram:
        """Charge, and answer."""
        if self.question.by:
            return _grouped(self, self.question.by)
        return _ANSWERS[self.kind](self)

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
        worst = []
        if self.missing is not None:
            worst.append(self._observed("missing cells", self.missing.question, _WORST_CASE))
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
        question = self.question
        return question.uncertainty != "noise" and self.kind in BOUNDED and not question.by

    def _others(self) -> dict[str, Question]:
        """Return what is asked beside the answer: how many rows there are, are filled, and vary.

        Of the rows as they came, each by itself, with noise of public scale.
        """
        kind = self.kind
        if (self.rough and not self.door.tells_scale) or not self._wants_total:
            return {}
        every = self.question.reads(self.schema)
        lacking: Names = tuple(sorted(every & self.filled))
        about: Names = not_everywhere(self.schema, sorted(every))
        reads = self.where.names
        asked: dict[str, Question] = {}
        if self.rough:
            asked["rows filled"] = Counts(
                function=of_rows.possible,
                reads=reads.union(lacking),
                given=(self.where, lacking, about),
                applies=frozenset(about),
            )
        if self.rough or kind == "sum":
            asked["rows in question"] = Counts(
                function=of_rows.possible,
                reads=reads,
                given=(self.where, (), about),
                applies=frozenset(about),
            )
        if kind in ("count", "sum"):
            asked["all rows"] = Counts(
                function=of_rows.applicable, given=(about,), applies=frozenset(about)
            )
        if kind in ("mean", "sum"):
            (name,) = self.names
            a = self.numeric(name)
            asked["squares as observed"] = Sums(
                function=of_rows.squares,
                reads=reads.union({name}),
                bound=((a.upper - a.lower) / 2) ** 2,
                given=(self.where, name, (a.lower + a.upper) / 2),
                change=0.0,
            )
        return asked

    def size(self, charged: Charged, *also: Predicate) -> Noisy:
        """Return the released number of rows in which the attributes are known."""
        question = Counts(
            function=of_rows.members, reads=charged.ask.reads, applies=frozenset(self.applicable),
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
            function=of_rows.products, reads=charged.ask.reads, applies=frozenset(self.applicable),
            given=(((self.where,), self.holes, self.applicable), names, centres),
            bound=limit, change=change,
        )  # fmt: skip
        return self.door.answer(charged, question).each()[0]

    def centred(self, charged: Charged, name: str) -> Noisy:
        """Return the released sum of deviations from the middle of the bounds."""
        a = self.numeric(name)
        middle, half = (a.lower + a.upper) / 2, (a.upper - a.lower) / 2
        return self.products(charged, (name,), (middle,), half, self.moved(name))

    def moment(self, charged: Charged, names: Names, centres: tuple[float, float]) -> Noisy:
        """Return the released sum of products of deviations from released centres."""
        limits = []
        for name, centre in zip(names, centres, strict=True):
            attribute = self.numeric(name)
            limits.append(max(attribute.upper - centre, centre - attribute.lower))
        moves = [self.moved(name) for name in names]
        move = _product_change(limits, moves, same=names[0] == names[1])
        return self.products(charged, names, centres, limits[0] * limits[1], move)

    def mean_of(
        self, name: str, total: Noisy, size: Noisy, pieces: int, times: float = 1.0
    ) -> tuple[float, Interval | None]:
        """Return a mean from released numbers, and its interval if noise were less."""
        average, bounds = self.average(name)
        wide = _corners(average, self.boxes((total, size), pieces, times), bounds)
        return _clip(average(total.value, size.value), bounds), wide

    def average(self, name: str) -> tuple[Callable[[float, float], float], Interval]:
        """Return how a sum of deviations from the middle and a size make a mean; its bounds."""
        a = self.numeric(name)
        middle = (a.lower + a.upper) / 2
        return lambda top, rows: middle + top / max(rows, 1.0), (a.lower, a.upper)

    # What is made of them

    def confidence_of_each(self, pieces: int) -> float:
        """Return the confidence that each of several numbers needs so that all hold together."""
        return 1 - self.may_fail / pieces

    @property
    def may_fail(self) -> float:
        """Probability that is left to the noise of what is released."""
        scale = self.door.scale
        fails = 0.0 if scale is None else scale.failure
        return (1 - self.confidence) - fails

    def boxes(
        self, numbers: Iterable[Noisy], pieces: int, times: float = 1.0
    ) -> list[Interval | None]:
        """Return where noiseless numbers are, ``pieces`` of them at once."""
        each = self.confidence_of_each(pieces)
        return [number.within(each, times=times) for number in numbers]

    def combined(
        self, function: Callable[..., float], *numbers: Noisy, bounds: Interval
    ) -> Estimate:
        """Return a function of released numbers that is monotone in each, within public bounds.

        The first one's noise matters most, so it may fail four times as often as a second one's.
        """
        value = _clip(function(*(number.value for number in numbers)), bounds)
        each = (1.0,) if len(numbers) == 1 else (0.8, 0.2)

        def interval(times: float) -> Interval | None:
            boxes = [
                number.within(1 - self.may_fail * part, times=times)
                for number, part in zip(numbers, each, strict=True)
            ]
            return _corners(function, boxes, bounds)

        rows = numbers[1] if len(numbers) > 1 else None
        found = self.estimate(value, interval, bounds, rows=rows)
        beside = self._beside(*numbers)
        total = None if beside is None else beside.interval(value, numbers[0], self.confidence)
        return found if total is None else replace(found, total_interval=_within(total, bounds))

    def _beside(self, *numbers: Noisy) -> Beside | None:
        """Return what was released beside an answer, if the population's value was asked for."""
        if not self._wants_total or (self.rough and not self.door.tells_scale):
            return None
        a = self.numeric(self.names[0]) if self.kind in ("mean", "sum") else None
        return Beside(
            kind=self.kind, bounds=(0.0, 1.0) if a is None else (a.lower, a.upper),
            known={name: max(noisy.value, 0.0) for name, noisy in self._known.items()},
            divisor=numbers[1] if len(numbers) > 1 else None,
        )  # fmt: skip

    def estimate(
        self,
        value: float,
        interval: Callable[[float], Interval | None],
        bounds: Interval,
        *,
        rows: Noisy | None = None,
    ) -> Estimate:
        """Put an answer and its guarantee together.

        ``interval(times)`` is the interval if noise were that many times less, within ``bounds``;
        ``rows`` is the released number that the answer is divided by.
        """
        found = interval(1.0)
        note = self.without_interval() if found is None else ""
        if found == bounds:
            note = self._whole_range(interval, bounds, None if rows is None else rows.within(0.95))
        of = self.question.where or "" if self.kind == "count" else ", ".join(self.question.of)
        answer = Estimate(
            name=f"{self.kind}({of})", value=value, interval=found, confidence=self.confidence,
            note=note, guarantee=self.door.guarantee(*self.asks), applicable=self.applicable,
        )  # fmt: skip
        return answer if self.missing is None else self._widened(answer, self.missing)

    def _whole_range(
        self,
        interval: Callable[[float], Interval | None],
        bounds: Interval,
        rows: Interval | None,
    ) -> str:
        """Return why an interval is as wide as it can be, and about which epsilon would help."""
        why = "The interval is the whole range: noise is as large as what it is added to"
        if rows is not None and rows[0] <= 0:  # less noise would perhaps show that nobody is there
            return f"{why}. Even whether there are such rows at all cannot be told from it"
        half = (bounds[1] - bounds[0]) / 2
        boxes = ((times, interval(times)) for times in _TIMES)
        enough = next((t for t, box in boxes if box and box[1] - box[0] <= half), _TIMES[-1])
        # Noise for filled cells falls with the square of epsilon, about: so does its scale.
        needed = self._worth(math.sqrt(enough) if self._rough() else enough)
        had = self._worth(1.0).rpartition(" ")[2]
        return f"{why}. It would be half as wide with an {needed} instead of {had}"

    def _missing_cells(self) -> MissingCells | None:
        if self.question.uncertainty != "worst-case":
            return None
        of = self.numeric(self.names[0]) if self.names else self.condition
        mean = self.kind in ("proportion", "mean")
        return MissingCells(schema=self.schema, where=self.where, of=of, mean=mean)

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

    def without_interval(self) -> str:
        """Return why an answer has no interval, and what would give it one; public."""
        return (
            "No noise interval: the answer reads filled cells, so the scale of its noise is "
            "private. For the same epsilon, noise that is somewhat wider tells it (ScaleRelease(), "
            "or --error-bar)"
        )

    def _rough(self) -> list[Ask]:
        """Return the releases whose noise follows a private bound."""
        return [ask for ask in self.asks if ask.reads & self.filled and not ask.observed]

    def _worth(self, times: float) -> str:
        """Return so many times what an answer costs, the released scale apart, in words."""
        costs = [ask.cost for ask in self.asks if isinstance(ask.cost, Cost)]
        whole = math.fsum(cost.amount for cost in costs)
        name, power = ("rho", 2) if costs[0].currency == "zcdp" else ("epsilon", 1)
        return f"{name} of about {float(f'{whole * times**power:.2g}'):g}"


# The statistics


def _count(ask: Asking) -> Estimate:
    (charged,) = ask.begin(ask.count_ask("count", ask.cost))
    return ask.combined(lambda n: n, ask.size(charged), bounds=(0.0, math.inf))


def _proportion(ask: Asking) -> Estimate:
    """Return one released count divided by another."""
    assert ask.condition is not None
    small = ask.for_rows(0.15, moving=0.5)
    part, whole = ask.begin(
        ask.count_ask("part", ask.part(1 - small), ask.condition),
        ask.count_ask("whole", ask.part(small)),
    )
    numbers = (ask.size(part, ask.condition), ask.size(whole))
    return ask.combined(lambda a, b: a / max(b, 1.0), *numbers, bounds=(0.0, 1.0))


def _total(ask: Asking) -> Estimate:
    """Return a released sum of the known or imputed values."""
    (name,) = ask.names
    a = ask.numeric(name)
    (charged,) = ask.begin(ask.sum_ask("sum", name, ask.cost))
    limit = max(abs(a.lower), abs(a.upper))
    found = ask.products(charged, (name,), (0.0,), limit, ask.moved(name))
    bounds = (0.0 if a.lower >= 0 else -math.inf, 0.0 if a.upper <= 0 else math.inf)
    return ask.combined(lambda n: n, found, bounds=bounds)


def _mean(ask: Asking) -> Estimate:
    """Return the middle of the bounds plus a released sum of deviations over a released count."""
    (name,) = ask.names
    (average, bounds), small = ask.average(name), ask.for_rows(0.1, moving=0.4)
    first, second = ask.begin(
        ask.sum_ask("centred sum", name, ask.part(1 - small)),
        ask.count_ask("rows", ask.part(small)),
    )
    return ask.combined(average, ask.centred(first, name), ask.size(second), bounds=bounds)


def _variance(ask: Asking) -> Estimate:
    """Return the sample variance: squares around the released mean, over the released size - 1."""
    (name,), fixed = ask.names, not ask.depends()
    charged = ask.begin(
        ask.count_ask("rows", ask.part(0.1 if fixed else 0.2)),
        ask.sum_ask("centred sum", name, ask.part(0.3)),
        ask.sum_ask("squares", name, ask.part(0.6 if fixed else 0.5)),
    )
    size, first = ask.size(charged[0]), ask.centred(charged[1], name)
    centre = ask.mean_of(name, first, size, 3)[0]
    squares = ask.moment(charged[2], (name, name), (centre, centre))
    a = ask.numeric(name)
    # The sample variance of values in an interval is largest for two values at its ends.
    bounds = (0.0, (a.upper - a.lower) ** 2 / 2)
    shown = math.sqrt if ask.kind == "standard_deviation" else float

    def spread(total: float, rows: float, off: float = 0.0) -> float:
        rows = max(rows, 2.0)
        return (total - rows * off**2) / (rows - 1)

    def interval(times: float) -> Interval | None:
        wide = ask.mean_of(name, first, size, 3, times)[1]
        off = None if wide is None else (0.0, max(wide[1] - centre, centre - wide[0]))
        found = _corners(spread, [*ask.boxes((squares, size), 3, times), off], bounds)
        return (shown(found[0]), shown(found[1])) if found else None

    value = shown(_clip(spread(squares.value, size.value), bounds))
    return ask.estimate(value, interval, (0.0, shown(bounds[1])), rows=size)


def _correlation(ask: Asking) -> Estimate:
    """Return Pearson's correlation from three released moments around released means."""
    names, (first, second) = ask.names, ask.names
    # The products are labelled by an attribute that makes them depend on other rows, if one does.
    moved = max(names, key=lambda name: name in ask.filled)
    charged = ask.begin(
        ask.count_ask("rows", ask.part(0.1)),
        *(ask.sum_ask("centred sum", name, ask.part(0.15)) for name in names),
        *(ask.sum_ask("squares", name, ask.part(0.2)) for name in names),
        ask.sum_ask("products", moved, ask.part(0.2), *names),
    )
    size = ask.size(charged[0])
    sums = [ask.centred(token, name) for token, name in zip(charged[1:3], names, strict=True)]

    def means(times: float) -> list[tuple[float, Interval | None]]:
        return [ask.mean_of(n, s, size, 6, times) for n, s in zip(names, sums, strict=True)]

    (a, _), (b, _) = means(1.0)
    pairs = (((first, first), (a, a)), ((second, second), (b, b)), (names, (a, b)))
    moments = [
        ask.moment(token, pair, centres)
        for token, (pair, centres) in zip(charged[3:], pairs, strict=True)
    ]

    def interval(times: float) -> Interval | None:
        found = moments
        if times != 1:  # what is lost in its noise: as of a spread of a seventh of the range
            wide = [(x.upper - x.lower) ** 2 / 48 for x in map(ask.numeric, names)]
            even = [max(size.value, 1.0) * square for square in (*wide, 0.0)]
            found = [*map(_found_again, moments, even)]
        boxes = ask.boxes((*found, size), 6, times)
        return _correlation_interval(boxes, means(times))

    value = _clip(_ratio(*(m.value for m in moments)), (-1.0, 1.0))
    return ask.estimate(value, interval, (-1.0, 1.0))


def _found_again(moment: Noisy, even: float) -> Noisy:
    noise = 0.0 if moment.radius is None else moment.radius(0.95)
    lost = moment.value < noise if even else abs(moment.value) < noise
    return replace(moment, value=min(noise / 2, even)) if lost else moment


def _ratio(first: float, second: float, both: float) -> float:
    if first <= 0 or second <= 0:
        return 0.0 if both == 0 else math.copysign(1.0, both)
    return both / math.sqrt(first * second)


def _correlation_interval(
    boxes: Sequence[Interval | None], means: Sequence[tuple[float, Interval | None]]
) -> Interval | None:
    """Return the box of the three moments (the rows come last), widened for means being off."""
    known = [box for box in boxes if box is not None]
    offs = [max(wide[1] - at, at - wide[0]) for at, wide in means if wide is not None]
    if len(known) < 4 or len(offs) < 2:
        return None
    most = max(known[3][1], 1.0)
    # Around the true means the moments are smaller by size * off^2, and differ by size * off * off.
    first = (known[0][0] - most * offs[0] ** 2, known[0][1])
    second = (known[1][0] - most * offs[1] ** 2, known[1][1])
    low, high = known[2]
    slack = most * offs[0] * offs[1]
    if first[0] <= 0 or second[0] <= 0:
        return (-1.0, 1.0)
    return _corners(_ratio, [first, second, (low - slack, high + slack)], (-1.0, 1.0))


def _histogram(ask: Asking) -> Histogram:
    """Return released counts per level; rows where the attribute is missing are not counted."""
    (name,) = ask.names
    question = Counts(
        function=of_rows.level, reads=ask.where.names | {name}, given=(ask.where, name),
        cells=ask.schema[name].size, stays=name not in ask.filled,
    )  # fmt: skip
    noisy = _at_once(ask, f"histogram of {name}", question)
    intervals = [box and _within(box, _COUNT) for box in ask.boxes(noisy, len(noisy))]
    return _per_level(ask, name, [max(n.value, 0.0) for n in noisy], intervals)


def _grouped(ask: Asking, by: str) -> Histogram:
    """Return a statistic of each group, from one release: a vector whose norm a row moves.

    A row is in one group, where it adds to one number or to two: those that satisfy a condition and
    those that do not, or its deviation from the middle of the bounds and itself. A row whose filled
    cells change may leave one group and enter another.
    """
    size, kind = ask.schema[by].size, ask.kind
    stays = by not in ask.filled and not ask.depends()
    reads = ask.question.reads(ask.schema) | {by}
    who: tuple[Any, ...] = ((ask.where,), (*ask.holes, by), ask.applicable)
    facts: dict[str, Any] = {"reads": reads, "applies": frozenset(ask.applicable)}
    question: Question
    if kind == "mean":
        a = ask.numeric(ask.names[0])
        centre, half = (a.lower + a.upper) / 2, (a.upper - a.lower) / 2
        question = Sums(
            function=of_rows.deviations, given=(who, by, a.name, centre, half), bound=2.0,
            numbers=2 * size, change=ask.moved(a.name) / half if stays else None, **facts,
        )  # fmt: skip
        bounds = (a.lower, a.upper)
    else:
        centre, half, bounds = 0.0, 1.0, (_COUNT if kind == "count" else (0.0, 1.0))
        question = Counts(
            function=of_rows.cells, given=(who, by, ask.condition),
            cells=size if ask.condition is None else 2 * size,
            stays=stays and ask.condition is None, **facts,
        )  # fmt: skip
    noisy = _at_once(ask, f"{kind} by {by}", question)
    boxes = ask.boxes(noisy, len(noisy))
    if kind == "count":
        found = [(n.value, box) for n, box in zip(noisy, boxes, strict=True)]
    else:
        quotient = _share if kind == "proportion" else _average
        pairs = zip(noisy[:size], noisy[size:], boxes[:size], boxes[size:], strict=True)
        found = [
            (quotient(one.value, other.value), _corners(quotient, boxes, (-math.inf, math.inf)))
            for one, other, *boxes in pairs
        ]
    values = [_clip(centre + half * value, bounds) for value, _ in found]
    intervals = [
        box and _within((centre + half * box[0], centre + half * box[1]), bounds)
        for _, box in found
    ]
    return _per_level(ask, by, values, intervals)


_COUNT: Interval = (0.0, math.inf)


def _share(yes: float, no: float) -> float:
    yes, no = max(yes, 0.0), max(no, 0.0)
    return yes / max(yes + no, 1.0)


def _average(total: float, rows: float) -> float:
    return min(max(total / max(rows, 1.0), -1.0), 1.0)


def _at_once(ask: Asking, label: str, question: Question) -> list[Noisy]:
    """Return several numbers that one release answers."""
    moves = max(1, math.ceil(question.donee / question.own))
    release = Ask(
        label=label, cost=ask.cost, reads=question.reads, own=question.own, moves=moves,
        dimension=question.dimension,
    )  # fmt: skip
    (charged,) = ask.begin(release)
    return ask.door.answer(charged, question).each()


def _per_level(
    ask: Asking, name: str, values: Sequence[float], intervals: Sequence[Interval | None]
) -> Histogram:
    known = [interval for interval in intervals if interval is not None]
    about = [*ask.question.of, *([f"by {name}"] if ask.question.by else [])]
    return Histogram(
        name=f"{ask.kind}({', '.join(about)})", levels=_level_names(ask.schema[name]),
        values=tuple(values), intervals=tuple(known) if len(known) == len(values) else None,
        confidence=ask.confidence, note="" if known else ask.without_interval(),
        guarantee=ask.door.guarantee(*ask.asks), applicable=ask.applicable,
    )  # fmt: skip


def _level_names(attribute: AnyAttribute) -> tuple[Level | str, ...]:
    return attribute.interval_names if isinstance(attribute, Numeric) else tuple(attribute.levels)


_ANSWERS: dict[str, Callable[[Asking], Estimate | Histogram]] = {
    "count": _count, "proportion": _proportion, "mean": _mean, "sum": _total,
    "variance": _variance, "standard_deviation": _variance, "correlation": _correlation,
    "histogram": _histogram,
}  # fmt: skip


def _square_change(limit: float, width: float) -> float:
    """Return how far (y - c)^2 can move if y moves by ``width`` and |y - c| stays within a limit.

    >>> _square_change(3.0, 1.0), _square_change(3.0, 5.0)
    (5.0, 9.0)
    """
    return limit**2 if width >= limit else width * (2 * limit - width)


def _product_change(limits: list[float], moves: list[float], *, same: bool) -> float:
    """Return how far the product of two deviations changes when one donor is exchanged."""
    if same:
        return _square_change(limits[0], moves[0]) if moves[0] > 0 else 0.0
    one_at_a_time = moves[0] * limits[1] + moves[1] * limits[0]
    return min(one_at_a_time, 2 * limits[0] * limits[1])


def _corners(
    function: Callable[..., float], intervals: Iterable[Interval | None], bounds: Interval
) -> Interval | None:
    """Return the extreme values over a box of a function monotone in each argument, clipped."""
    points: list[tuple[float, ...]] = [()]
    for interval in intervals:
        if interval is None:
            return None
        points = [(*point, end) for point in points for end in interval]
    values = [function(*point) for point in points]
    return _clip(min(values), bounds), _clip(max(values), bounds)


def _within(interval: Interval, bounds: Interval) -> Interval:
    return _clip(interval[0], bounds), _clip(interval[1], bounds)


def _clip(value: float, bounds: Interval) -> float:
    """Move a released number into its public bounds."""
    if math.isnan(value):
        return bounds[0]
    return min(max(value, bounds[0]), bounds[1])
