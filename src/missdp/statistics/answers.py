"""How each statistic is answered, from released counts and sums; a new one has its line below.

Variances and correlations are sums of products around released means. A histogram, and a statistic
of groups, is one release: a vector whose norm one row moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.mechanisms.questions import Ask, Counts, Question, Rows, Sums
from missdp.mechanisms.row_door import Charged, Noisy
from missdp.schema import Numeric
from missdp.schema.conditions import Predicate
from missdp.statistics.asking import NO_INTERVAL, NOBODY, Asking, members, middle_and_half
from missdp.statistics.estimates import Estimate, Histogram, clip, corners, within
from missdp.statistics.worst_case import Interval, Names


def answered(ask: Asking) -> Estimate | Histogram:
    """Charge for a question, and answer it."""
    if ask.question.by:
        return _grouped(ask, ask.question.by)
    return _ANSWERS[ask.kind](ask)


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


def _mean(ask: Asking) -> Estimate:
    """Return the middle of the bounds plus a released sum of deviations over a released count."""
    (name,) = ask.names
    (average, bounds), small = ask.average(name), ask.for_rows(0.1, moving=0.4)
    first, second = ask.begin(
        ask.sum_ask("centred sum", name, ask.part(1 - small)),
        ask.count_ask("rows", ask.part(small)),
    )
    return ask.combined(average, ask.centred(first, name), ask.size(second), bounds=bounds)


def _total(ask: Asking) -> Estimate:
    """Return a released sum of the known or imputed values."""
    (name,) = ask.names
    a = ask.numeric(name)
    (charged,) = ask.begin(ask.sum_ask("sum", name, ask.cost))
    limit = max(abs(a.lower), abs(a.upper))
    found = ask.products(charged, (name,), (0.0,), limit, ask.moved(name))
    bounds = (0.0 if a.lower >= 0 else -math.inf, 0.0 if a.upper <= 0 else math.inf)
    return ask.combined(lambda n: n, found, bounds=bounds)


def _variance(ask: Asking) -> Estimate:
    """Return the sample variance: squares around the released mean, over the released size - 1."""
    (name,), fixed = ask.names, not ask.depends()
    charged = ask.begin(
        ask.count_ask("rows", ask.part(0.1 if fixed else 0.2)),
        ask.sum_ask("centred sum", name, ask.part(0.3)),
        ask.sum_ask("squares", name, ask.part(0.6 if fixed else 0.5)),
    )
    size, first = ask.size(charged[0]), ask.centred(charged[1], name)
    centre = _mean_of(ask, name, first, size, 3)[0]
    squares = _moment(ask, charged[2], (name, name), (centre, centre))
    a = ask.numeric(name)
    # The sample variance of values in an interval is largest for two values at its ends.
    bounds = (0.0, (a.upper - a.lower) ** 2 / 2)
    shown = math.sqrt if ask.kind == "standard_deviation" else float

    def spread(total: float, rows: float, off: float = 0.0) -> float:
        rows = max(rows, 2.0)
        return (total - rows * off**2) / (rows - 1)

    def interval(times: float) -> Interval | None:
        wide = _mean_of(ask, name, first, size, 3, times)[1]
        off = None if wide is None else (0.0, max(wide[1] - centre, centre - wide[0]))
        found = corners(spread, [*ask.boxes((squares, size), 3, times), off], bounds)
        return (shown(found[0]), shown(found[1])) if found else None

    value = shown(clip(spread(squares.value, size.value), bounds))
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
        return [_mean_of(ask, n, s, size, 6, times) for n, s in zip(names, sums, strict=True)]

    (a, _), (b, _) = means(1.0)
    pairs = (((first, first), (a, a)), ((second, second), (b, b)), (names, (a, b)))
    moments = [
        _moment(ask, token, pair, centres)
        for token, (pair, centres) in zip(charged[3:], pairs, strict=True)
    ]

    def interval(times: float) -> Interval | None:
        found = moments
        if times != 1:  # what is lost in its noise: as of a spread of a tenth of the range
            wide = [(x.upper - x.lower) ** 2 / 100 for x in map(ask.numeric, names)]
            even = [max(size.value, 1.0) * square for square in (*wide, 0.0)]
            found = [*map(_found_again, moments, even)]
        boxes = ask.boxes((*found, size), 6, times)
        return _correlation_interval(boxes, means(times))

    value = clip(_ratio(*(m.value for m in moments)), (-1.0, 1.0))
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
    return corners(_ratio, [first, second, (low - slack, high + slack)], (-1.0, 1.0))


def _mean_of(
    ask: Asking, name: str, total: Noisy, size: Noisy, pieces: int, times: float = 1.0
) -> tuple[float, Interval | None]:
    """Return a mean from released numbers, and its interval if noise were less."""
    average, bounds = ask.average(name)
    wide = corners(average, ask.boxes((total, size), pieces, times), bounds)
    return clip(average(total.value, size.value), bounds), wide


def _moment(ask: Asking, charged: Charged, names: Names, centres: tuple[float, float]) -> Noisy:
    """Return the released sum of products of deviations from released centres."""
    known = [(ask.numeric(name), centre) for name, centre in zip(names, centres, strict=True)]
    limits = [max(a.upper - centre, centre - a.lower) for a, centre in known]
    move = _product_change(limits, [*map(ask.moved, names)], same=names[0] == names[1])
    return ask.products(charged, names, centres, limits[0] * limits[1], move)


def _product_change(limits: list[float], moves: list[float], *, same: bool) -> float:
    """Return how far the product of two deviations changes when one donor is exchanged.

    Of one and the same deviation, (y - c)^2, if y moves and |y - c| stays within its limit.

    >>> _product_change([3.0, 3.0], [1.0, 1.0], same=True)
    5.0
    """
    if same:
        width = min(moves[0], limits[0])
        return width * (2 * limits[0] - width)
    one_at_a_time = moves[0] * limits[1] + moves[1] * limits[0]
    return min(one_at_a_time, 2 * limits[0] * limits[1])


_COUNT: Interval = (0.0, math.inf)
_Intervals: TypeAlias = Callable[[float], Sequence[Interval | None]]


def _histogram(ask: Asking) -> Histogram:
    """Return released counts per level; rows where the attribute is missing are not counted."""
    (name,) = ask.names
    question = Counts(
        function=_level, reads=ask.where.names | {name}, given=(ask.where, name),
        cells=ask.schema[name].size, stays=name not in ask.filled,
    )  # fmt: skip
    noisy = _at_once(ask, f"histogram of {name}", question)

    def intervals(times: float) -> list[Interval | None]:
        return [box and within(box, _COUNT) for box in ask.boxes(noisy, len(noisy), times)]

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
        centre, half = middle_and_half(a)
        question = Sums(
            function=_deviations, given=(who, by, a.name, centre, half), bound=2.0,
            numbers=2 * size, change=ask.moved(a.name) / half if stays else None, **facts,
        )  # fmt: skip
        bounds = (a.lower, a.upper)
    else:
        centre, half, bounds = 0.0, 1.0, (_COUNT if kind == "count" else (0.0, 1.0))
        question = Counts(
            function=_cells, given=(who, by, ask.condition),
            cells=size if ask.condition is None else 2 * size,
            stays=stays and ask.condition is None, **facts,
        )  # fmt: skip
    noisy = _at_once(ask, f"{kind} by {by}", question)
    quotient = _share if kind == "proportion" else _average
    pairs = [*zip(noisy[:size], noisy[size:], strict=True)] if kind != "count" else []

    def intervals(times: float) -> list[Interval | None]:
        boxes = ask.boxes(noisy, len(noisy), times)
        if pairs:
            both = zip(boxes[:size], boxes[size:], strict=True)
            boxes = [corners(quotient, pair, (-math.inf, math.inf)) for pair in both]
        return [b and within((centre + half * b[0], centre + half * b[1]), bounds) for b in boxes]

    found = [quotient(one.value, other.value) for one, other in pairs] or [n.value for n in noisy]
    values = [clip(centre + half * value, bounds) for value in found]
    rows = pairs if kind == "proportion" else [(n,) for n in noisy[-size:]]
    return _per_level(ask, by, values, intervals, whole=bounds, rows=rows)


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


def _widest(intervals: _Intervals, among: Sequence[int], times: float) -> Interval | None:
    boxes = intervals(times)
    return max((boxes[at] for at in among), key=lambda box: box[1] - box[0] if box else math.inf)


def _per_level(
    ask: Asking,
    name: str,
    values: Sequence[float],
    intervals: _Intervals,
    *,
    whole: Interval = _COUNT,
    rows: Sequence[tuple[Noisy, ...]] = (),
) -> Histogram:
    """Put the answers for levels together.

    ``intervals(times)`` are the intervals if noise were that many times less; ``rows`` are the
    released numbers of rows that stand behind each.
    """
    found = intervals(1.0)
    known = [interval for interval in found if interval is not None]
    note = "" if known else NO_INTERVAL
    lost = [at for at, box in enumerate(found) if box is not None and np.allclose(box, whole)]
    if lost:
        note = "Where an interval is the whole range, noise is as large as what it is added to"
        there = [
            at for at in lost if any(box and box[0] > 0 for box in ask.boxes(rows[at], len(found)))
        ]
        note += f". {ask.halved(partial(_widest, intervals, there), whole) if there else NOBODY}"
    about = [*ask.question.of, *([f"by {name}"] if ask.question.by else [])]
    attribute = ask.schema[name]
    levels = attribute.interval_names if isinstance(attribute, Numeric) else attribute.levels
    return Histogram(
        name=f"{ask.kind}({', '.join(about)})", levels=tuple(levels),
        values=tuple(values), intervals=tuple(known) if len(known) == len(values) else None,
        confidence=ask.confidence, note=note,
        guarantee=ask.door.guarantee(*ask.asks), applicable=ask.applicable,
    )  # fmt: skip


_ANSWERS: dict[str, Callable[[Asking], Estimate | Histogram]] = {
    "count": _count, "proportion": _proportion, "mean": _mean, "sum": _total,
    "variance": _variance, "standard_deviation": _variance, "correlation": _correlation,
    "histogram": _histogram,
}  # fmt: skip


# What the door runs of rows, each alone


def _level(rows: Rows, chosen: Predicate, name: str) -> NDArray[np.int64]:
    """Return the level of each row of a subpopulation, -1 for the others."""
    return np.where(chosen.select(rows), rows.codes(name), -1)


def _cells(
    rows: Rows, who: tuple[Any, ...], by: str, condition: Predicate | None
) -> NDArray[np.int64]:
    """Return the group of each row, from the number of groups on for those without a property."""
    group, there = rows.codes(by), members(rows, *who)
    if condition is not None:
        group = group + np.where(condition.select(rows), 0, rows.schema[by].size)
    return np.where(there, group, -1)


def _deviations(
    rows: Rows, who: tuple[Any, ...], by: str, name: str, centre: float, half: float
) -> NDArray[np.float64]:
    """Return each row's deviation in the place of its group, and its 1 in another one."""
    size, there = rows.schema[by].size, members(rows, *who)
    found = np.zeros((len(rows), 2 * size))
    row, group = np.flatnonzero(there), rows.codes(by)[there]
    found[row, group] = np.clip((rows.values(name)[there] - centre) / half, -1.0, 1.0)
    found[row, size + group] = 1.0
    return found
