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
    WRITTEN,
    PlannedRelease,
    StatisticTask,
    members,
    middle_and_half,
)
from missdp.statistics.estimates import Estimate, LevelEstimates, clip, corners, within
from missdp.statistics.imputed_rows import RowView
from missdp.statistics.noisy import Noisy
from missdp.statistics.row_queries import RowCounts, RowQuery, RowSums
from missdp.statistics.worst_case import Interval


def answered(ask: StatisticTask) -> Estimate | LevelEstimates:
    """Charge for a question, and answer it."""
    levels = ask.names[0] if ask.kind == "histogram" else ask.question.by
    if levels and not ask.apart:
        return _grouped(ask, levels)
    if ask.kind == "correlation":
        return _correlation(ask)
    return _variance(ask) if ask.kind in ("variance", "standard_deviation") else _quotient(ask)


def check_width(ask: StatisticTask) -> None:
    """Raise ParameterError if noise is expected to hide a mean or proportion of large groups.

    Decided by public facts, so this is checked before any charge: the cost, the number of levels
    and the reference profile.
    """
    by = ask.question.by
    if not by or ask.apart or ask.kind == "count" or not ask.is_smooth:
        return
    expected = ask.imputed.preview(_group_query(ask, by), ask.cost).expected_radius
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


def _quotient(ask: StatisticTask) -> Estimate | LevelEstimates:
    """Return a count or a sum, or one divided by another: of all rows, or of each group apart.

    Missing cells of a group are filled from donors of the group, and noise follows the group's own
    sensitivity: how many of its recipients one of its rows can serve.

    *Theorem.* If each release is epsilon-DP for the table of one group, all groups together are
    epsilon-DP. *Proof.* The group of a row is decided by the row's own cell, which is not filled.
    A row that comes or goes changes the table of one group only. Cells of other groups are filled
    from other rows, and their noise is drawn apart. So the answers of all other groups have one law
    under both tables, and only the one group's release tells them apart. That release is
    epsilon-DP by the smooth bound of its own table. ∎
    """
    parts, function, bounds = _parts_of(ask)
    released = [paid.numbers() for paid in ask.reserve(*parts)]
    groups = [*zip(*released, strict=True)]  # the numbers of each group
    if not ask.apart:
        return ask.combined(function, groups[0], bounds)
    pieces = len(groups) * len(parts)

    def intervals(times: float) -> list[Interval]:
        boxes = (ask.boxes(group, pieces, times) for group in groups)
        return [corners(function, box, bounds) for box in boxes]

    values = [clip(function(*(n.value for n in group)), bounds) for group in groups]
    rows = [group[-1:] for group in groups]
    return _per_level(ask, ask.apart, values, intervals, whole=bounds, rows=rows)


def _parts_of(ask: StatisticTask) -> tuple[list[PlannedRelease], Callable[..., float], Interval]:
    """Return what is released for a statistic, how it is made of that, and its public bounds."""
    if ask.kind == "count":
        return [ask.part(ask.count_query("count"))], float, _COUNT
    if ask.condition is not None:
        small = ask.for_rows(0.15, moving=0.5)
        part, whole = ask.count_query("part", ask.condition), ask.count_query("whole")
        parts = [ask.part(part, 1 - small), ask.part(whole, small)]
        return parts, lambda a, b: a / max(b, 1.0), (0.0, 1.0)
    (name,) = ask.names
    a = ask.numeric(name)
    if ask.kind == "sum":
        limit = max(abs(a.lower), abs(a.upper))
        query = ask.sum_query(f"sum of {name}", (name,), (0.0,), limit, ask.moved(name))
        bounds = (0.0 if a.lower >= 0 else -math.inf, 0.0 if a.upper <= 0 else math.inf)
        return [ask.part(query)], float, bounds
    small = ask.for_rows(0.1, moving=0.4)
    parts = [ask.part(ask.centred_query(name), 1 - small), ask.part(ask.count_query("rows"), small)]
    return parts, _average_around(a), (a.lower, a.upper)


def _average_around(a: Numeric) -> Callable[[float, float], float]:
    """Return how a sum of deviations from the middle of the bounds and a size make a mean."""
    middle, _ = middle_and_half(a)
    return lambda top, rows: middle + top / max(rows, 1.0)


def _variance(ask: StatisticTask) -> Estimate:
    """Return the sample variance: squares around the released mean, over the released size - 1."""
    (name,), fixed = ask.names, not ask.depends()
    a = ask.numeric(name)
    size, first, last = ask.reserve(
        ask.part(ask.count_query("rows"), 0.1 if fixed else 0.2),
        ask.part(ask.centred_query(name), 0.3),
        ask.part(_moment(ask, "squares", (a, a)), 0.6 if fixed else 0.5),
    )
    (rows,), (total,) = size.numbers(), first.numbers()
    centre = _mean_of(ask, a, total, rows, 3)[0]
    (squares,) = last.numbers(_moment(ask, "squares", (a, a), (centre, centre)))
    # The sample variance of values in an interval is largest for two values at its ends.
    bounds = (0.0, (a.upper - a.lower) ** 2 / 2)
    shown = math.sqrt if ask.kind == "standard_deviation" else float

    def spread(total: float, rows: float, off: float = 0.0) -> float:
        rows = max(rows, 2.0)
        return (total - rows * off**2) / (rows - 1)

    def interval(times: float) -> Interval:
        wide = _mean_of(ask, a, total, rows, 3, times)[1]
        off = (0.0, max(wide[1] - centre, centre - wide[0]))
        found = corners(spread, [*ask.boxes((squares, rows), 3, times), off], bounds)
        return shown(found[0]), shown(found[1])

    value = shown(clip(spread(squares.value, rows.value), bounds))
    return ask.estimate(value, interval, (0.0, shown(bounds[1])), rows=rows)


def _correlation(ask: StatisticTask) -> Estimate:
    """Return Pearson's correlation from three released moments around released means."""
    first, second = both = (ask.numeric(ask.names[0]), ask.numeric(ask.names[1]))
    pairs = {"squares": ((first, first), (second, second)), "products": (both,)}
    kinds = [(label, pair) for label, some in pairs.items() for pair in some]
    count, *paid = ask.reserve(
        ask.part(ask.count_query("rows"), 0.1),
        *(ask.part(ask.centred_query(a.name), 0.15) for a in both),
        *(ask.part(_moment(ask, label, pair), 0.2) for label, pair in kinds),
    )
    (size,) = count.numbers()
    sums = [one.numbers()[0] for one in paid[:2]]

    def means(times: float) -> list[tuple[float, Interval]]:
        return [_mean_of(ask, a, s, size, 6, times) for a, s in zip(both, sums, strict=True)]

    centres = {a.name: at for a, (at, _) in zip(both, means(1.0), strict=True)}
    moments = [
        one.numbers(_moment(ask, label, pair, tuple(centres[a.name] for a in pair)))[0]
        for one, (label, pair) in zip(paid[2:], kinds, strict=True)
    ]

    def interval(times: float) -> Interval:
        found = moments
        if times != 1:  # what is lost in its noise: as of a spread of a tenth of the range
            wide = [(a.upper - a.lower) ** 2 / 100 for a in both]
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
    ask: StatisticTask, a: Numeric, total: Noisy, size: Noisy, pieces: int, times: float = 1.0
) -> tuple[float, Interval]:
    """Return a mean from released numbers, and its interval if noise were less."""
    average, bounds = _average_around(a), (a.lower, a.upper)
    wide = corners(average, ask.boxes((total, size), pieces, times), bounds)
    return clip(average(total.value, size.value), bounds), wide


def _moment(
    ask: StatisticTask,
    label: str,
    pair: tuple[Numeric, Numeric],
    centres: tuple[float, ...] = (),
) -> RowSums:
    """Return the sum of products of deviations from released centres, by default of the middles."""
    centres = centres or tuple(middle_and_half(a)[0] for a in pair)
    limits = [max(a.upper - c, c - a.lower) for a, c in zip(pair, centres, strict=True)]
    names = tuple(a.name for a in pair)
    move = _product_change(limits, [*map(ask.moved, names)], same=names[0] == names[1])
    # Named after an attribute that makes the products depend on other rows, if one does.
    moved = max(names, key=lambda name: name in ask.filled)
    return ask.sum_query(f"{label} of {moved}", names, centres, limits[0] * limits[1], move)


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


def _grouped(ask: StatisticTask, by: str) -> LevelEstimates:
    """Return a histogram, or a statistic of each group, from one release of a vector.

    A row is in one group, where it adds to one number or to two: those that satisfy a condition and
    those that do not, or its deviation from the middle of the bounds and itself. A row whose filled
    cells change may leave one group and enter another. The groups of a histogram are the levels of
    its attribute. A row without a level is in no group.
    """
    check_width(ask)
    size, kind = ask.schema[by].size, ask.kind
    centre, half, bounds = 0.0, 1.0, ((0.0, 1.0) if kind == "proportion" else _COUNT)
    if kind == "mean":
        a = ask.numeric(ask.names[0])
        (centre, half), bounds = middle_and_half(a), (a.lower, a.upper)
    (paid,) = ask.reserve(ask.part(_group_query(ask, by)))
    noisy = paid.numbers()
    quotient = _share if kind == "proportion" else _average
    pairs = [*zip(noisy[:size], noisy[size:], strict=True)] if len(noisy) > size else []

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


def _group_query(ask: StatisticTask, by: str) -> RowQuery:
    """Return the query whose answer has one number or two of each group."""
    size, kind = ask.schema[by].size, ask.kind
    stays = by not in ask.filled and (kind == "histogram" or not ask.depends())
    who: tuple[Any, ...] = ((ask.where,), (*ask.missing, by), ask.applicable)
    facts: dict[str, Any] = {
        "label": f"histogram of {by}" if kind == "histogram" else f"{kind} by {by}",
        "reads": ask.reads | {by}, "applies": frozenset(ask.applicable),
    }  # fmt: skip
    if kind == "mean":
        a = ask.numeric(ask.names[0])
        centre, half = middle_and_half(a)
        return RowSums(
            function=_deviations, arguments=(who, by, a.name, centre, half), bound=2.0,
            numbers=2 * size, change=ask.moved(a.name) / half if stays else None, **facts,
        )  # fmt: skip
    return RowCounts(
        function=_cells, arguments=(who, by, ask.condition),
        cells=size if ask.condition is None else 2 * size,
        stays=stays and ask.condition is None, **facts,
    )  # fmt: skip


def _share(yes: float, no: float) -> float:
    yes, no = max(yes, 0.0), max(no, 0.0)
    return yes / max(yes + no, 1.0)


def _average(total: float, rows: float) -> float:
    return min(max(total / max(rows, 1.0), -1.0), 1.0)


GROUP_ROWS = 10_000  # rows of a group for which an expected interval is stated


def _widest(intervals: _Intervals, among: Sequence[int], times: float) -> Interval:
    boxes = intervals(times)
    return max((boxes[at] for at in among), key=lambda box: box[1] - box[0])


def _per_level(
    ask: StatisticTask,
    name: str,
    values: Sequence[float],
    intervals: _Intervals,
    *,
    whole: Interval,
    rows: Sequence[tuple[Noisy, ...]],
) -> LevelEstimates:
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
    return LevelEstimates(
        name=f"{WRITTEN.get(ask.kind, ask.kind)}({', '.join(about)})", levels=tuple(levels),
        values=tuple(values), intervals=tuple(found), confidence=ask.confidence, note=note,
        guarantee=ask.guarantee, applicable=ask.applicable,
    )  # fmt: skip


# What sessions run of rows, each alone


def _cells(
    rows: RowView, who: tuple[Any, ...], by: str, condition: Predicate | None
) -> NDArray[np.int64]:
    """Return the group of each row, from the number of groups on for those without a property."""
    group, there = rows.codes(by), members(rows, *who)
    if condition is not None:
        group = group + np.where(condition.select(rows), 0, rows.schema[by].size)
    return np.where(there, group, -1)


def _deviations(
    rows: RowView, who: tuple[Any, ...], by: str, name: str, centre: float, half: float
) -> NDArray[np.float64]:
    """Return each row's deviation in the place of its group, and its 1 in another one."""
    size, there = rows.schema[by].size, members(rows, *who)
    found = np.zeros((len(rows), 2 * size))
    row, group = np.flatnonzero(there), rows.codes(by)[there]
    found[row, group] = np.clip((rows.values(name)[there] - centre) / half, -1.0, 1.0)
    found[row, size + group] = 1.0
    return found
