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

from missdp.errors import ParameterError
from missdp.schema import Numeric
from missdp.schema.logic import Predicate
from missdp.statistics.asking import (
    NOBODY,
    Asking,
    Paid,
    members,
    middle_and_half,
    written_name,
)
from missdp.statistics.estimates import Estimate, Histogram, clip, corners, within
from missdp.statistics.imputed_rows import Rows
from missdp.statistics.noisy import Noisy, noisy_numbers
from missdp.statistics.row_queries import RowCounts, RowQuery, RowSums
from missdp.statistics.worst_case import Interval, Names


def answered(ask: Asking) -> Estimate | Histogram:
    """Charge for a question, and answer it."""
    if ask.apart:
        return _apart(ask, ask.apart)
    if ask.question.by:
        return _grouped(ask, ask.question.by)
    return _ANSWERS[ask.kind](ask)


def check_width(ask: Asking) -> None:
    """Raise ParameterError if noise is expected to hide a mean or proportion of large groups.

    Decided by public facts, so this is checked before any charge: the cost, the number of levels
    and the reference profile.
    """
    if ask.question.by and not ask.apart:
        _check_width(ask, ask.question.by, _group_query(ask, ask.question.by))


def _count(ask: Asking) -> Estimate:
    (paid,) = ask.reserve(ask.count_part("count", ask.cost))
    return ask.combined(lambda n: n, ask.size(paid), bounds=(0.0, math.inf))


def _proportion(ask: Asking) -> Estimate:
    """Return one released count divided by another."""
    assert ask.condition is not None
    part, whole = _reserve_proportion(ask, ask.condition)
    numbers = (ask.size(part, ask.condition), ask.size(whole))
    return ask.combined(lambda a, b: a / max(b, 1.0), *numbers, bounds=(0.0, 1.0))


def _reserve_proportion(ask: Asking, condition: Predicate) -> tuple[Paid, ...]:
    """Set aside the cost of the two counts of a proportion."""
    small = ask.for_rows(0.15, moving=0.5)
    return ask.reserve(
        ask.count_part("part", ask.part(1 - small), condition),
        ask.count_part("whole", ask.part(small)),
    )


def _reserve_mean(ask: Asking, name: str) -> tuple[Paid, ...]:
    """Set aside the cost of the sum and of the count of a mean."""
    small = ask.for_rows(0.1, moving=0.4)
    return ask.reserve(
        ask.sum_part("centred sum", name, ask.part(1 - small)),
        ask.count_part("rows", ask.part(small)),
    )


def _mean(ask: Asking) -> Estimate:
    """Return the middle of the bounds plus a released sum of deviations over a released count."""
    (name,) = ask.names
    average, bounds = ask.average(name)
    first, second = _reserve_mean(ask, name)
    return ask.combined(average, ask.centred(first, name), ask.size(second), bounds=bounds)


def _total(ask: Asking) -> Estimate:
    """Return a released sum of the known or imputed values."""
    (name,) = ask.names
    a = ask.numeric(name)
    (paid,) = ask.reserve(ask.sum_part("sum", name, ask.cost))
    limit = max(abs(a.lower), abs(a.upper))
    found = ask.products(paid, (name,), (0.0,), limit, ask.moved(name))
    bounds = (0.0 if a.lower >= 0 else -math.inf, 0.0 if a.upper <= 0 else math.inf)
    return ask.combined(lambda n: n, found, bounds=bounds)


def _variance(ask: Asking) -> Estimate:
    """Return the sample variance: squares around the released mean, over the released size - 1."""
    (name,), fixed = ask.names, not ask.depends()
    paid = ask.reserve(
        ask.count_part("rows", ask.part(0.1 if fixed else 0.2)),
        ask.sum_part("centred sum", name, ask.part(0.3)),
        ask.sum_part("squares", name, ask.part(0.6 if fixed else 0.5)),
    )
    size, first = ask.size(paid[0]), ask.centred(paid[1], name)
    centre = _mean_of(ask, name, first, size, 3)[0]
    squares = _moment(ask, paid[2], (name, name), (centre, centre))
    a = ask.numeric(name)
    # The sample variance of values in an interval is largest for two values at its ends.
    bounds = (0.0, (a.upper - a.lower) ** 2 / 2)
    shown = math.sqrt if ask.kind == "standard_deviation" else float

    def spread(total: float, rows: float, off: float = 0.0) -> float:
        rows = max(rows, 2.0)
        return (total - rows * off**2) / (rows - 1)

    def interval(times: float) -> Interval:
        wide = _mean_of(ask, name, first, size, 3, times)[1]
        off = (0.0, max(wide[1] - centre, centre - wide[0]))
        found = corners(spread, [*ask.boxes((squares, size), 3, times), off], bounds)
        return shown(found[0]), shown(found[1])

    value = shown(clip(spread(squares.value, size.value), bounds))
    return ask.estimate(value, interval, (0.0, shown(bounds[1])), rows=size)


def _correlation(ask: Asking) -> Estimate:
    """Return Pearson's correlation from three released moments around released means."""
    names, (first, second) = ask.names, ask.names
    # The products are labelled by an attribute that makes them depend on other rows, if one does.
    moved = max(names, key=lambda name: name in ask.filled)
    paid = ask.reserve(
        ask.count_part("rows", ask.part(0.1)),
        *(ask.sum_part("centred sum", name, ask.part(0.15)) for name in names),
        *(ask.sum_part("squares", name, ask.part(0.2)) for name in names),
        ask.sum_part("products", moved, ask.part(0.2), *names),
    )
    size = ask.size(paid[0])
    sums = [ask.centred(one, name) for one, name in zip(paid[1:3], names, strict=True)]

    def means(times: float) -> list[tuple[float, Interval]]:
        return [_mean_of(ask, n, s, size, 6, times) for n, s in zip(names, sums, strict=True)]

    (a, _), (b, _) = means(1.0)
    pairs = (((first, first), (a, a)), ((second, second), (b, b)), (names, (a, b)))
    moments = [
        _moment(ask, one, pair, centres)
        for one, (pair, centres) in zip(paid[3:], pairs, strict=True)
    ]

    def interval(times: float) -> Interval:
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
    noise = moment.radius(0.95)
    lost = moment.value < noise if even else abs(moment.value) < noise
    return replace(moment, value=min(noise / 2, even)) if lost else moment


def _ratio(first: float, second: float, both: float) -> float:
    if first <= 0 or second <= 0:
        return 0.0 if both == 0 else math.copysign(1.0, both)
    return both / math.sqrt(first * second)


def _correlation_interval(
    boxes: Sequence[Interval], means: Sequence[tuple[float, Interval]]
) -> Interval:
    """Return the box of the three moments (the rows come last), widened for means being off."""
    offs = [max(wide[1] - at, at - wide[0]) for at, wide in means]
    most = max(boxes[3][1], 1.0)
    # Around the true means the moments are smaller by size * off^2, and differ by size * off * off.
    first = (boxes[0][0] - most * offs[0] ** 2, boxes[0][1])
    second = (boxes[1][0] - most * offs[1] ** 2, boxes[1][1])
    low, high = boxes[2]
    slack = most * offs[0] * offs[1]
    if first[0] <= 0 or second[0] <= 0:
        return (-1.0, 1.0)
    return corners(_ratio, [first, second, (low - slack, high + slack)], (-1.0, 1.0))


def _mean_of(
    ask: Asking, name: str, total: Noisy, size: Noisy, pieces: int, times: float = 1.0
) -> tuple[float, Interval]:
    """Return a mean from released numbers, and its interval if noise were less."""
    average, bounds = ask.average(name)
    wide = corners(average, ask.boxes((total, size), pieces, times), bounds)
    return clip(average(total.value, size.value), bounds), wide


def _moment(ask: Asking, paid: Paid, names: Names, centres: tuple[float, float]) -> Noisy:
    """Return the released sum of products of deviations from released centres."""
    known = [(ask.numeric(name), centre) for name, centre in zip(names, centres, strict=True)]
    limits = [max(a.upper - centre, centre - a.lower) for a, centre in known]
    move = _product_change(limits, [*map(ask.moved, names)], same=names[0] == names[1])
    return ask.products(paid, names, centres, limits[0] * limits[1], move)


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
_Intervals: TypeAlias = Callable[[float], Sequence[Interval]]


def _histogram(ask: Asking) -> Histogram:
    """Return released counts per level; rows where the attribute is missing are not counted."""
    (name,) = ask.names
    query = RowCounts(
        label=f"histogram of {name}", function=_level, reads=ask.where.names | {name},
        given=(ask.where, name), cells=ask.schema[name].size, stays=name not in ask.filled,
    )  # fmt: skip
    noisy = _at_once(ask, query)

    def intervals(times: float) -> list[Interval]:
        return [within(box, _COUNT) for box in ask.boxes(noisy, len(noisy), times)]

    return _per_level(ask, name, [max(n.value, 0.0) for n in noisy], intervals)


def _apart(ask: Asking, by: str) -> Histogram:
    """Return a statistic of each group, answered from the rows of that group alone.

    Missing cells of a group are filled from donors of the group, and noise follows the group's own
    sensitivity: how many of its recipients one of its rows can serve.

    *Theorem.* If each release is epsilon-DP for the table of one group, all groups together are
    epsilon-DP. *Proof.* The group of a row is decided by the row's own cell, which is not filled.
    A row that comes or goes changes the table of one group only. Cells of other groups are filled
    from other rows, and their noise is drawn apart. So the answers of all other groups have one law
    under both tables, and only the one group's release tells them apart. That release is
    epsilon-DP by the smooth bound of its own table. ∎
    """
    quotient, bounds = _quotient_of(ask)
    numbers: list[tuple[Noisy, ...]]
    if ask.kind == "count":
        (paid,) = ask.reserve(ask.count_part("count", ask.cost))
        numbers = [(size,) for size in ask.sizes(paid)]
    elif ask.condition is not None:
        part, whole = _reserve_proportion(ask, ask.condition)
        numbers = [*zip(ask.sizes(part, ask.condition), ask.sizes(whole), strict=True)]
    else:
        (name,) = ask.names
        first, second = _reserve_mean(ask, name)
        numbers = [*zip(ask.centred_sums(first, name), ask.sizes(second), strict=True)]
    pieces = len(numbers) * len(numbers[0])

    def intervals(times: float) -> list[Interval]:
        boxes = (ask.boxes(group, pieces, times) for group in numbers)
        return [corners(quotient, box, bounds) for box in boxes]

    values = [clip(quotient(*(n.value for n in group)), bounds) for group in numbers]
    rows = [(group[-1],) for group in numbers]
    return _per_level(ask, by, values, intervals, whole=bounds, rows=rows)


def _quotient_of(ask: Asking) -> tuple[Callable[..., float], Interval]:
    """Return how a statistic is made of the numbers released for it, and its public bounds."""
    if ask.kind == "count":
        return float, _COUNT
    if ask.kind == "proportion":
        return (lambda part, rows: part / max(rows, 1.0)), (0.0, 1.0)
    return ask.average(ask.names[0])


def _grouped(ask: Asking, by: str) -> Histogram:
    """Return a statistic of each group, from one release: a vector whose norm a row moves.

    A row is in one group, where it adds to one number or to two: those that satisfy a condition and
    those that do not, or its deviation from the middle of the bounds and itself. A row whose filled
    cells change may leave one group and enter another.
    """
    size, kind = ask.schema[by].size, ask.kind
    query = _group_query(ask, by)
    _check_width(ask, by, query)
    centre, half, bounds = 0.0, 1.0, (_COUNT if kind == "count" else (0.0, 1.0))
    if kind == "mean":
        a = ask.numeric(ask.names[0])
        (centre, half), bounds = middle_and_half(a), (a.lower, a.upper)
    noisy = _at_once(ask, query)
    quotient = _share if kind == "proportion" else _average
    pairs = [*zip(noisy[:size], noisy[size:], strict=True)] if kind != "count" else []

    def intervals(times: float) -> list[Interval]:
        boxes = ask.boxes(noisy, len(noisy), times)
        if pairs:
            both = zip(boxes[:size], boxes[size:], strict=True)
            boxes = [corners(quotient, pair, (-math.inf, math.inf)) for pair in both]
        return [within((centre + half * low, centre + half * high), bounds) for low, high in boxes]

    found = [quotient(one.value, other.value) for one, other in pairs] or [n.value for n in noisy]
    values = [clip(centre + half * value, bounds) for value in found]
    rows = pairs if kind == "proportion" else [(n,) for n in noisy[-size:]]
    return _per_level(ask, by, values, intervals, whole=bounds, rows=rows)


def _group_query(ask: Asking, by: str) -> RowQuery:
    """Return the query whose answer has one number or two of each group."""
    size, kind = ask.schema[by].size, ask.kind
    stays = by not in ask.filled and not ask.depends()
    reads = ask.question.reads(ask.schema) | {by}
    who: tuple[Any, ...] = ((ask.where,), (*ask.holes, by), ask.applicable)
    facts: dict[str, Any] = {
        "label": f"{kind} by {by}", "reads": reads, "applies": frozenset(ask.applicable),
    }  # fmt: skip
    if kind == "mean":
        a = ask.numeric(ask.names[0])
        centre, half = middle_and_half(a)
        return RowSums(
            function=_deviations, given=(who, by, a.name, centre, half), bound=2.0,
            numbers=2 * size, change=ask.moved(a.name) / half if stays else None, **facts,
        )  # fmt: skip
    return RowCounts(
        function=_cells, given=(who, by, ask.condition),
        cells=size if ask.condition is None else 2 * size,
        stays=stays and ask.condition is None, **facts,
    )  # fmt: skip


def _share(yes: float, no: float) -> float:
    yes, no = max(yes, 0.0), max(no, 0.0)
    return yes / max(yes + no, 1.0)


def _average(total: float, rows: float) -> float:
    return min(max(total / max(rows, 1.0), -1.0), 1.0)


GROUP_ROWS = 10_000  # rows of a group for which an expected interval is stated


def _check_width(ask: Asking, by: str, query: RowQuery) -> None:
    """Raise ParameterError if noise is expected to hide a mean or proportion of large groups."""
    if ask.kind == "count" or not ask.rough:
        return
    expected = ask.on_imputed(ask.session).preview(query, ask.cost).expected_radius
    assert expected is not None  # known of all noise of single rows
    radius = expected / GROUP_ROWS
    half = middle_and_half(ask.numeric(ask.names[0]))[1] if ask.kind == "mean" else 0.5
    width = radius * half if ask.kind == "mean" else radius
    if width >= half:
        raise ParameterError(
            f"noise alone would move the {ask.kind} of a group of {GROUP_ROWS:,} rows by up to "
            f"about {float(f'{width:.2g}'):,g} (95 %), because cells of {by!r} are filled and one "
            f"row can move every group. Do not impute {by!r}, or fit a synthesizer and ask missdp "
            "estimate"
        )


def _at_once(ask: Asking, query: RowQuery) -> list[Noisy]:
    """Return several numbers that one release answers."""
    (paid,) = ask.reserve(ask.part_of(query, ask.cost))
    return noisy_numbers(ask.measure(paid, query))


def _widest(intervals: _Intervals, among: Sequence[int], times: float) -> Interval:
    boxes = intervals(times)
    return max((boxes[at] for at in among), key=lambda box: box[1] - box[0])


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
    note = ""
    lost = [at for at, box in enumerate(found) if np.allclose(box, whole)]
    if lost:
        note = "Where an interval is the whole range, noise is as large as what it is added to"
        there = [at for at in lost if any(low > 0 for low, _ in ask.boxes(rows[at], len(found)))]
        note += f". {ask.halved(partial(_widest, intervals, there), whole) if there else NOBODY}"
    about = [*ask.question.of, *([f"by {name}"] if ask.question.by else [])]
    attribute = ask.schema[name]
    levels = attribute.bin_labels if isinstance(attribute, Numeric) else attribute.levels
    return Histogram(
        name=f"{written_name(ask.kind)}({', '.join(about)})", levels=tuple(levels),
        values=tuple(values), intervals=tuple(found), confidence=ask.confidence, note=note,
        guarantee=ask.guarantee, applicable=ask.applicable,
    )  # fmt: skip


_ANSWERS: dict[str, Callable[[Asking], Estimate | Histogram]] = {
    "count": _count, "proportion": _proportion, "mean": _mean, "sum": _total,
    "variance": _variance, "standard_deviation": _variance, "correlation": _correlation,
    "histogram": _histogram,
}  # fmt: skip


# What sessions run of rows, each alone


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
