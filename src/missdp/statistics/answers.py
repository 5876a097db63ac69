"""Counts, sums, means, variances, correlations and histograms, from released counts and sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost
from missdp.errors import ParameterError
from missdp.mechanisms.asks import Ask, Noisy
from missdp.mechanisms.questions import QUANTA, Counts, Rows, Sums
from missdp.mechanisms.row_door import Charged
from missdp.schema import AnyAttribute, Level, Numeric, Schema
from missdp.schema.bound import may_be_open
from missdp.schema.predicates import Predicate
from missdp.statistics.estimates import Estimate, Histogram, Interval, Names, clip, corners
from missdp.statistics.parts import Parts, members, members_of_both, share
from missdp.statistics.worst_case import average_bounds, places, tally, total_bounds

__all__ = [
    "WORST_CASE_SHARE",
    "MissingCells",
    "Uncertainty",
    "correlation",
    "count",
    "histogram",
    "mean",
    "proportion",
    "square_change",
    "total",
    "variance",
]


def count(parts: Parts, label: str, missing: MissingCells) -> Estimate:
    """Return the released number of rows of a subpopulation."""
    chosen = missing.where
    asks = [parts.count_ask("count", missing.rest, chosen), *missing.asks]
    first, *more = parts.begin(*asks)
    noisy = parts.one(first, Counts(function=members, reads=chosen.names, given=(chosen, ())))
    answer = parts.single(f"count({label})", noisy, asks, (0.0, math.inf))
    return missing.total(answer, parts, more)


def proportion(parts: Parts, of: str, missing: MissingCells) -> Estimate:
    """Return one released count divided by another."""
    part, whole, cost = parts.where(of), missing.where, missing.rest
    about = parts.applicable(part.names)
    small = 0.5 if parts.depends(whole) else 0.15
    asks = [
        parts.count_ask("part", share(cost, 1 - small), whole, part),
        parts.count_ask("whole", share(cost, small), whole),
        *missing.asks,
    ]
    first, second, *more = parts.begin(*asks)
    both = Counts(
        function=members_of_both, reads=whole.names | part.names, given=(whole, part, about)
    )
    everyone = Counts(
        function=members, reads=whole.names, given=(whole, about), applies=frozenset(about)
    )  # fmt: skip
    noisy = (parts.one(first, both), parts.one(second, everyone))
    answer = parts.quotient(f"proportion({of})", noisy, asks, (0.0, 1.0), lambda q: q, about)
    return missing.average(answer, parts, more)


def total(parts: Parts, name: str, missing: MissingCells) -> Estimate:
    """Return a released sum of the known or imputed values."""
    chosen, attribute = missing.where, parts.numeric(name)
    limit = max(abs(attribute.lower), abs(attribute.upper))
    asks = [parts.sum_ask("sum", name, chosen, missing.rest, known=(name,)), *missing.asks]
    first, *more = parts.begin(*asks)
    noisy = parts.total(first, name, chosen, (name,), centre=0.0, limit=limit)
    bounds = (
        0.0 if attribute.lower >= 0 else -math.inf,
        0.0 if attribute.upper <= 0 else math.inf,
    )
    answer = parts.single(f"sum({name})", noisy, asks, bounds, (name,))
    return missing.total(answer, parts, more)


def histogram(parts: Parts, name: str, chosen: Predicate, cost: Cost) -> Histogram:
    """Return released counts per level; rows where the attribute is missing are not counted."""
    attribute = parts.schema[name]
    moves = name in parts.imputation.shared()
    question = Counts(
        function=_level, reads=chosen.names | {name}, given=(chosen, name), cells=attribute.size,
        stays=not moves,
    )  # fmt: skip
    ask = Ask(
        label=f"histogram of {name}", cost=cost, reads=question.reads, moves=2 if moves else 1,
        dimension=attribute.size,
    )  # fmt: skip
    (charged,) = parts.begin(ask)
    noisy = parts.door.answer(charged, question).each()
    each = parts.confidence_of_each(attribute.size)
    found = [n.within(each) for n in noisy]
    intervals = tuple((max(i[0], 0.0), max(i[1], 0.0)) for i in found if i is not None)
    known = len(intervals) == attribute.size
    return Histogram(
        name=f"histogram({name})", levels=_level_names(attribute),
        values=tuple(max(n.value, 0.0) for n in noisy),
        intervals=intervals if known else None,
        confidence=parts.confidence,
        note="" if known else parts.without_interval([ask]),
        guarantee=parts.door.guarantee(ask),
        applicable=parts.applicable([name]),
    )  # fmt: skip


def _level(rows: Rows, chosen: Predicate, name: str) -> NDArray[np.int64]:
    """Return the level of each row of a subpopulation, -1 for the others."""
    return np.where(chosen.select(rows), rows.codes(name), -1)


def _level_names(attribute: AnyAttribute) -> tuple[Level | str, ...]:
    if not isinstance(attribute, Numeric):
        return tuple(attribute.levels)
    return attribute.interval_names


def mean(parts: Parts, name: str, missing: MissingCells) -> Estimate:
    """Return the mean: the middle of the bounds, plus a released sum of deviations over a count."""
    chosen, cost = missing.where, missing.rest
    small = 0.4 if parts.depends(chosen) else 0.1
    known = (name,)
    asks = [
        parts.sum_ask("centred sum", name, chosen, share(cost, 1 - small), known=known),
        parts.count_ask("rows", share(cost, small), chosen, known=known),
        *missing.asks,
    ]
    first, second, *more = parts.begin(*asks)
    noisy = (_centred(parts, first, name, chosen, known), parts.size(second, chosen, known))
    attribute = parts.numeric(name)
    middle = (attribute.lower + attribute.upper) / 2
    bounds = (attribute.lower, attribute.upper)
    answer = parts.quotient(f"mean({name})", noisy, asks, bounds, lambda q: middle + q, known)
    return missing.average(answer, parts, more)


def variance(parts: Parts, name: str, chosen: Predicate, cost: Cost, *, root: bool) -> Estimate:
    """Return the sample variance: squares around the released mean, over the released size - 1."""
    fixed = not parts.depends(chosen)
    known = (name,)
    asks = [
        parts.count_ask("rows", share(cost, 0.1 if fixed else 0.2), chosen, known=known),
        parts.sum_ask("centred sum", name, chosen, share(cost, 0.3), known=known),
        parts.sum_ask("squares", name, chosen, share(cost, 0.6 if fixed else 0.5), known=known),
    ]
    charged = parts.begin(*asks)
    size = parts.size(charged[0], chosen, known)
    first = _centred(parts, charged[1], name, chosen, known)
    centre = _mean_of(parts, name, first, size, pieces=3)[0]
    squares = _moment(parts, charged[2], (name, name), (centre, centre), chosen, known)
    attribute = parts.numeric(name)
    # The sample variance of values in an interval is largest for two values at its ends.
    bounds = (0.0, (attribute.upper - attribute.lower) ** 2 / 2)

    def spread(total: float, rows: float, off: float = 0.0) -> float:
        rows = max(rows, 2.0)
        return (total - rows * off**2) / (rows - 1)

    def interval(times: float) -> Interval | None:
        each = parts.confidence_of_each(3)
        wide = _mean_of(parts, name, first, size, pieces=3, times=times)[1]
        off = None if wide is None else (0.0, max(wide[1] - centre, centre - wide[0]))
        boxes = [squares.within(each, times=times), size.within(each, times=times), off]
        found = corners(spread, boxes, bounds)
        return (math.sqrt(found[0]), math.sqrt(found[1])) if root and found else found

    value = clip(spread(squares.value, size.value), bounds)
    label, ends = "variance", bounds
    if root:
        label, value = "standard_deviation", math.sqrt(value)
        ends = (0.0, math.sqrt(bounds[1]))
    return parts.estimate(f"{label}({name})", value, interval, asks, ends, known)


def correlation(parts: Parts, first: str, second: str, chosen: Predicate, cost: Cost) -> Estimate:
    """Return Pearson's correlation from three released moments around released means."""
    names = (first, second)
    # The products are labelled by an attribute that makes them depend on other rows, if one does.
    moved = max(names, key=lambda name: name in parts.imputation.shared())
    product = parts.sum_ask("products", moved, chosen, share(cost, 0.2), known=names)
    asks = [
        parts.count_ask("rows", share(cost, 0.1), chosen, known=names),
        *(parts.sum_ask("centred sum", n, chosen, share(cost, 0.15), known=names) for n in names),
        *(parts.sum_ask("squares", n, chosen, share(cost, 0.2), known=names) for n in names),
        replace(product, reads=product.reads.union(names)),
    ]
    charged = parts.begin(*asks)
    size = parts.size(charged[0], chosen, names)
    sums = [
        _centred(parts, token, name, chosen, names)
        for token, name in zip(charged[1:3], names, strict=True)
    ]

    def means(times: float) -> list[tuple[float, Interval | None]]:
        pairs = zip(names, sums, strict=True)
        return [_mean_of(parts, n, s, size, pieces=6, times=times) for n, s in pairs]

    (a, _), (b, _) = means(1.0)
    moments = [
        _moment(parts, token, pair, centres, chosen, names)
        for token, pair, centres in (
            (charged[3], (first, first), (a, a)),
            (charged[4], (second, second), (b, b)),
            (charged[5], (first, second), (a, b)),
        )
    ]
    value = clip(_ratio(*(m.value for m in moments)), (-1.0, 1.0))

    def interval(times: float) -> Interval | None:
        found = moments
        if times != 1:  # what is lost in its noise: as of a spread of a seventh of the range
            wide = [(a.upper - a.lower) ** 2 / 48 for a in map(parts.numeric, names)]
            even = [max(size.value, 1.0) * square for square in (*wide, 0.0)]
            found = [*map(_found_again, moments, even)]
        return _correlation_interval(parts, found, size, means(times), times)

    label = f"correlation({first}, {second})"
    return parts.estimate(label, value, interval, asks, (-1.0, 1.0), names)


def _found_again(moment: Noisy, even: float) -> Noisy:
    noise = 0.0 if moment.radius is None else moment.radius(0.95)
    lost = moment.value < noise if even else abs(moment.value) < noise
    return replace(moment, value=min(noise / 2, even)) if lost else moment


def _ratio(first: float, second: float, both: float) -> float:
    if first <= 0 or second <= 0:
        return 0.0 if both == 0 else math.copysign(1.0, both)
    return both / math.sqrt(first * second)


def _correlation_interval(
    parts: Parts,
    moments: list[Noisy],
    size: Noisy,
    means: Sequence[tuple[float, Interval | None]],
    times: float,
) -> Interval | None:
    """Box of the three moments, widened for the released means being off."""
    each = parts.confidence_of_each(6)
    boxes = [box for moment in moments if (box := moment.within(each, times=times)) is not None]
    rows = size.within(each, times=times)
    offs = [max(wide[1] - at, at - wide[0]) for at, wide in means if wide is not None]
    if rows is None or len(boxes) < 3 or len(offs) < 2:
        return None
    most = max(rows[1], 1.0)
    # Around the true means the moments are smaller by size * off^2, and differ by size * off * off.
    first = (boxes[0][0] - most * offs[0] ** 2, boxes[0][1])
    second = (boxes[1][0] - most * offs[1] ** 2, boxes[1][1])
    low, high = boxes[2]
    slack = most * offs[0] * offs[1]
    if first[0] <= 0 or second[0] <= 0:
        return (-1.0, 1.0)
    return corners(_ratio, [first, second, (low - slack, high + slack)], (-1.0, 1.0))


def square_change(limit: float, width: float) -> float:
    """Return how far (y - c)^2 can move if y moves by ``width`` and |y - c| stays within a limit.

    Examples
    --------
    >>> square_change(3.0, 1.0), square_change(3.0, 5.0)
    (5.0, 9.0)
    """
    return limit**2 if width >= limit else width * (2 * limit - width)


def _centred(parts: Parts, charged: Charged, name: str, chosen: Predicate, known: Names) -> Noisy:
    attribute = parts.numeric(name)
    middle, half = (attribute.lower + attribute.upper) / 2, (attribute.upper - attribute.lower) / 2
    return parts.total(charged, name, chosen, known, centre=middle, limit=half)


def _mean_of(
    parts: Parts, name: str, total: Noisy, size: Noisy, *, pieces: int, times: float = 1.0
) -> tuple[float, Interval | None]:
    attribute = parts.numeric(name)
    middle, bounds = (attribute.lower + attribute.upper) / 2, (attribute.lower, attribute.upper)

    def average(top: float, bottom: float) -> float:
        return middle + top / max(bottom, 1.0)

    each = parts.confidence_of_each(pieces)
    found = [total.within(each, times=times), size.within(each, times=times)]
    wide = corners(average, found, bounds)
    return clip(average(total.value, size.value), bounds), wide


def _moment(
    parts: Parts,
    charged: Charged,
    names: tuple[str, str],
    centres: tuple[float, float],
    chosen: Predicate,
    known: Names,
) -> Noisy:
    """Release the sum of products of deviations from released centres."""
    limits = []
    for name, centre in zip(names, centres, strict=True):
        attribute = parts.numeric(name)
        limits.append(max(attribute.upper - centre, centre - attribute.lower))
    limit, moves = limits[0] * limits[1], [parts.moved(name) for name in names]
    change = _product_change(limits, moves, same=names[0] == names[1])
    if parts.depends(chosen):
        # Moving in or out costs at most the limit; inside, the change above.
        change = max(change, limit)
    return parts.products(charged, names, centres, chosen, known, limit=limit, change=change)


def _product_change(limits: list[float], moves: list[float], *, same: bool) -> float:
    """Most that the product of two deviations changes when one donor is exchanged."""
    if same:
        return square_change(limits[0], moves[0]) if moves[0] > 0 else 0.0
    one_at_a_time = moves[0] * limits[1] + moves[1] * limits[0]
    return min(one_at_a_time, 2 * limits[0] * limits[1])


Uncertainty = Literal["noise", "worst-case"]
WORST_CASE_SHARE = 0.1
"""Share of the cost of a question that pays for its `Estimate.imputation_interval`."""


@dataclass(frozen=True, kw_only=True)
class MissingCells:
    """A question with a worst case: what it is of, what it costs, which cells may be missing.

    Parameters
    ----------
    schema : Schema
        Says which attributes may be missing, and bounds.
    uncertainty : {"noise", "worst-case"}
        Whether to pay for the interval.
    cost : Cost
        Of the whole question.
    where : Predicate
        The subpopulation.
    of : Numeric, Predicate or None
        What is added up: values, rows that satisfy a condition, or all rows.

    Raises
    ------
    ParameterError
        If ``uncertainty`` is neither.
    """

    schema: Schema
    uncertainty: Uncertainty
    cost: Cost
    where: Predicate
    of: Numeric | Predicate | None = None

    def __post_init__(self) -> None:
        if self.uncertainty not in get_args(Uncertainty):
            raise ParameterError(f"uncertainty must be one of {get_args(Uncertainty)}")

    @property
    def rest(self) -> Cost:
        """What is left for the answer itself."""
        return share(self.cost, 1 - WORST_CASE_SHARE) if self.asks else self.cost

    @property
    def asks(self) -> list[Ask]:
        """The release to charge; none if only noise is asked for."""
        if self.uncertainty == "noise":
            return []
        return [
            Ask(
                label="missing cells", cost=share(self.cost, WORST_CASE_SHARE), reads=self._reads,
                own=QUANTA, dimension=len(self._places), observed=True,
            )
        ]  # fmt: skip

    def total(self, estimate: Estimate, parts: Parts, charged: Sequence[Charged]) -> Estimate:
        """Add the interval of a count or sum, if it was charged for."""
        lower, upper = self._bounds
        return self._widened(estimate, parts, charged, lambda box: total_bounds(box, lower, upper))

    def average(self, estimate: Estimate, parts: Parts, charged: Sequence[Charged]) -> Estimate:
        """Add the interval of a proportion or mean, if it was charged for."""
        lower, upper = (0.0, 1.0) if not isinstance(self.of, Numeric) else self._bounds

        def interval(box: dict[str, Interval]) -> Interval:
            low, high = average_bounds(box)
            return lower + (upper - lower) * low, upper - (upper - lower) * (1 - high)

        return self._widened(estimate, parts, charged, interval)

    @property
    def _bounds(self) -> Interval:
        return (self.of.lower, self.of.upper) if isinstance(self.of, Numeric) else (1.0, 1.0)

    @property
    def _places(self) -> tuple[str, ...]:
        nullable = set(self.schema.nullable)
        routed = may_be_open(self.schema, self._portions)
        return places(
            where_open=routed or bool(nullable & self.where.names),
            portion_open=bool(nullable & self._portions), portion_one=self.of is None,
        )  # fmt: skip

    @property
    def _portions(self) -> frozenset[str]:
        """Attributes that decide what a row adds."""
        if self.of is None:
            return frozenset()
        return frozenset({self.of.name}) if isinstance(self.of, Numeric) else self.of.names

    @property
    def _reads(self) -> frozenset[str]:
        return self.where.names | self._portions

    def _widened(
        self,
        estimate: Estimate,
        parts: Parts,
        charged: Sequence[Charged],
        bounds: Callable[[dict[str, Interval]], Interval],
    ) -> Estimate:
        if not charged:
            return estimate
        names, (token,) = self._places, charged
        about = parts.applicable(self._portions)
        question = Sums(
            function=tally, reads=self._reads, given=(self.where, self.of, about, names),
            bound=1.0, numbers=len(names), change=0.0,
        )  # fmt: skip
        released = parts.door.answer(token, question).each()
        # Public noise scale: no share of the error probability goes to the released scale.
        each = 1 - (1 - parts.confidence) / len(names)
        box = {}
        for name, noisy in zip(names, released, strict=True):
            found = noisy.within(each)
            assert found is not None
            box[name] = found
        low, high = bounds(box)
        # The released answer is one completion plus noise; an interval without it helps nobody.
        interval = (min(low, estimate.value), max(high, estimate.value))
        return replace(estimate, imputation_interval=interval)
