"""Computation of each statistic from released counts and sums.

Variances and correlations are sums of products around released means. A histogram is one release of
a vector. A statistic of groups is one release of a vector too. Sensitivities are norms of vectors.
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
from missdp.statistics.estimates import Estimate, LevelEstimates, clip, clip_interval, corners
from missdp.statistics.imputed_rows import RowView
from missdp.statistics.noisy import Noisy
from missdp.statistics.row_queries import RowCounts, RowQuery, RowSums
from missdp.statistics.tasks import (
    MAY_BE_EMPTY,
    QUESTION_NAMES,
    PlannedRelease,
    StatisticTask,
    membership,
    middle_and_half,
)
from missdp.statistics.worst_case import Interval


def answer_question(task: StatisticTask) -> Estimate | LevelEstimates:
    """Charge the cost of a question, and return its estimate."""
    levels = task.names[0] if task.kind == "histogram" else task.question.by
    if levels and not task.apart:
        return _grouped(task, levels)
    if task.kind == "correlation":
        return _correlation(task)
    return _variance(task) if task.kind in ("variance", "standard_deviation") else _quotient(task)


def check_width(task: StatisticTask) -> None:
    """Raise ParameterError if noise is expected to hide a mean or proportion of large groups.

    Public facts decide: the cost, the number of levels and the reference profile. So the check
    comes before any charge.
    """
    by = task.question.by
    if not by or task.apart or task.kind == "count" or not task.is_smooth:
        return
    expected = task.imputed.preview(_group_query(task, by), task.cost).expected_radius
    assert expected is not None  # known of all noise of single rows
    radius = expected / GROUP_ROWS
    half = middle_and_half(task.numeric(task.names[0]))[1] if task.kind == "mean" else 0.5
    width = radius * half if task.kind == "mean" else radius
    if width >= half:
        raise ParameterError(
            f"noise alone would change the {task.kind} of a group of {GROUP_ROWS:,} rows by up to "
            f"about {float(f'{width:.2g}'):,g} (95 %). Cells of {by!r} are filled, so one row can "
            f"change every group. Do not impute {by!r}, or fit a synthesizer and use missdp "
            "estimate"
        )


def _quotient(task: StatisticTask) -> Estimate | LevelEstimates:
    """Return a count, a sum or a quotient of both, for all rows or for each group by itself.

    Missing cells of a group are filled from donors of the group. The noise follows the sensitivity
    of the group: the number of its recipients that one of its rows can serve.

    *Theorem.* If each release is epsilon-DP for the table of one group, all groups together are
    epsilon-DP. *Proof.* The group of a row is decided by the row's own cell, which is not filled.
    A row that is added or removed changes the table of one group only. Cells of other groups are
    filled from other rows, and their noise is drawn independently. So the answers of all other
    groups have the same distribution for both tables. Only the release of the one group differs,
    and this release is epsilon-DP by the smooth bound of its table. ∎
    """
    parts, function, bounds = _parts_of(task)
    released = [paid.numbers() for paid in task.reserve(*parts)]
    groups = [*zip(*released, strict=True)]  # the numbers of each group
    if not task.apart:
        return task.combined(function, groups[0], bounds)
    n_numbers = len(groups) * len(parts)

    def intervals(times: float) -> list[Interval]:
        boxes = (task.boxes(group, n_numbers, times) for group in groups)
        return [corners(function, box, bounds) for box in boxes]

    values = [clip(function(*(n.value for n in group)), bounds) for group in groups]
    rows = [group[-1:] for group in groups]
    return _per_level(task, task.apart, values, intervals, full_range=bounds, rows=rows)


def _parts_of(task: StatisticTask) -> tuple[list[PlannedRelease], Callable[..., float], Interval]:
    """Return the releases of a statistic, the function that combines them, and public bounds."""
    if task.kind == "count":
        return [task.part(task.count_query("count"))], float, _COUNT
    if task.condition is not None:
        small = task.for_rows(0.15, imputed_share=0.5)
        part, total = task.count_query("part", task.condition), task.count_query("whole")
        parts = [task.part(part, 1 - small), task.part(total, small)]
        return parts, lambda a, b: a / max(b, 1.0), (0.0, 1.0)
    (name,) = task.names
    a = task.numeric(name)
    if task.kind == "sum":
        limit = max(abs(a.lower), abs(a.upper))
        query = task.sum_query(f"sum of {name}", (name,), (0.0,), limit, task.recipient_shift(name))
        bounds = (0.0 if a.lower >= 0 else -math.inf, 0.0 if a.upper <= 0 else math.inf)
        return [task.part(query)], float, bounds
    small = task.for_rows(0.1, imputed_share=0.4)
    rows = task.part(task.count_query("rows"), small)
    parts = [task.part(task.centred_query(name), 1 - small), rows]
    return parts, _average_around(a), (a.lower, a.upper)


def _average_around(a: Numeric) -> Callable[[float, float], float]:
    """Return the function that makes a mean of a sum of deviations and a number of rows."""
    middle, _ = middle_and_half(a)
    return lambda top, rows: middle + top / max(rows, 1.0)


def _variance(task: StatisticTask) -> Estimate:
    """Return the sample variance: squares around the released mean, over the released size - 1."""
    (name,), fixed = task.names, not task.depends()
    a = task.numeric(name)
    size, first, last = task.reserve(
        task.part(task.count_query("rows"), 0.1 if fixed else 0.2),
        task.part(task.centred_query(name), 0.3),
        task.part(_moment(task, "squares", (a, a)), 0.6 if fixed else 0.5),
    )
    (rows,), (total,) = size.numbers(), first.numbers()
    centre = _mean_of(task, a, total, rows, 3)[0]
    (squares,) = last.numbers(_moment(task, "squares", (a, a), (centre, centre)))
    # The sample variance of values in an interval is largest for two values at its ends.
    bounds = (0.0, (a.upper - a.lower) ** 2 / 2)
    shown = math.sqrt if task.kind == "standard_deviation" else float

    def spread(total: float, rows: float, off: float = 0.0) -> float:
        rows = max(rows, 2.0)
        return (total - rows * off**2) / (rows - 1)

    def interval(times: float) -> Interval:
        wide = _mean_of(task, a, total, rows, 3, times)[1]
        off = (0.0, max(wide[1] - centre, centre - wide[0]))
        box = corners(spread, [*task.boxes((squares, rows), 3, times), off], bounds)
        return shown(box[0]), shown(box[1])

    value = shown(clip(spread(squares.value, rows.value), bounds))
    return task.estimate(value, interval, (0.0, shown(bounds[1])), rows=rows)


def _correlation(task: StatisticTask) -> Estimate:
    """Return Pearson's correlation from three released moments around released means."""
    first, second = both = (task.numeric(task.names[0]), task.numeric(task.names[1]))
    pairs = {"squares": ((first, first), (second, second)), "products": (both,)}
    kinds = [(label, pair) for label, some in pairs.items() for pair in some]
    count, *paid = task.reserve(
        task.part(task.count_query("rows"), 0.1),
        *(task.part(task.centred_query(a.name), 0.15) for a in both),
        *(task.part(_moment(task, label, pair), 0.2) for label, pair in kinds),
    )
    (size,) = count.numbers()
    sums = [one.numbers()[0] for one in paid[:2]]

    def means(times: float) -> list[tuple[float, Interval]]:
        return [_mean_of(task, a, s, size, 6, times) for a, s in zip(both, sums, strict=True)]

    centres = {a.name: at for a, (at, _) in zip(both, means(1.0), strict=True)}
    moments = [
        one.numbers(_moment(task, label, pair, tuple(centres[a.name] for a in pair)))[0]
        for one, (label, pair) in zip(paid[2:], kinds, strict=True)
    ]

    def interval(times: float) -> Interval:
        restored = moments
        if times != 1:  # with less noise: a moment below its noise has a deviation of a tenth
            wide = [(a.upper - a.lower) ** 2 / 100 for a in both]
            even = [max(size.value, 1.0) * square for square in (*wide, 0.0)]
            restored = [*map(_restored_moment, moments, even)]
        boxes = task.boxes((*restored, size), 6, times)
        return _correlation_interval(boxes, means(times))

    value = clip(_ratio(*(m.value for m in moments)), (-1.0, 1.0))
    return task.estimate(value, interval, (-1.0, 1.0))


def _restored_moment(moment: Noisy, even: float) -> Noisy:
    """Return a plausible moment in place of a moment that is smaller than its noise."""
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
    """Return the interval of a correlation from intervals of moments, rows and means."""
    errors = [max(wide[1] - at, at - wide[0]) for at, wide in means]
    max_rows = max(boxes[3][1], 1.0)
    # Around the true means the moments are smaller by size * off^2, and differ by size * off * off.
    first = (boxes[0][0] - max_rows * errors[0] ** 2, boxes[0][1])
    second = (boxes[1][0] - max_rows * errors[1] ** 2, boxes[1][1])
    low, high = boxes[2]
    slack = max_rows * errors[0] * errors[1]
    if first[0] <= 0 or second[0] <= 0:
        return (-1.0, 1.0)
    return corners(_ratio, [first, second, (low - slack, high + slack)], (-1.0, 1.0))


def _mean_of(
    task: StatisticTask, a: Numeric, total: Noisy, size: Noisy, n_numbers: int, times: float = 1.0
) -> tuple[float, Interval]:
    """Return a mean from released numbers, and its interval with ``times`` times less noise."""
    average, bounds = _average_around(a), (a.lower, a.upper)
    wide = corners(average, task.boxes((total, size), n_numbers, times), bounds)
    return clip(average(total.value, size.value), bounds), wide


def _moment(
    task: StatisticTask,
    label: str,
    pair: tuple[Numeric, Numeric],
    centres: tuple[float, ...] = (),
) -> RowSums:
    """Return the sum of products of deviations from released centres, by default of the middles."""
    centres = centres or tuple(middle_and_half(a)[0] for a in pair)
    limits = [max(a.upper - c, c - a.lower) for a, c in zip(pair, centres, strict=True)]
    names = tuple(a.name for a in pair)
    change = _product_change(limits, [*map(task.recipient_shift, names)], same=names[0] == names[1])
    # Named after an attribute that makes the products depend on other rows, if one does.
    name = max(names, key=lambda name: name in task.filled)
    return task.sum_query(f"{label} of {name}", names, centres, limits[0] * limits[1], change)


def _product_change(limits: list[float], shifts: list[float], *, same: bool) -> float:
    """Return the largest change of the product of two deviations when one donor is exchanged.

    With ``same`` it is the square of one deviation, (y - c)^2. Then y changes, and |y - c| stays
    within its limit.

    >>> from missdp.statistics.answers import _product_change
    >>> _product_change([3.0, 3.0], [1.0, 1.0], same=True)
    5.0
    """
    if same:
        width = min(shifts[0], limits[0])
        return width * (2 * limits[0] - width)
    one_at_a_time = shifts[0] * limits[1] + shifts[1] * limits[0]
    return min(one_at_a_time, 2 * limits[0] * limits[1])


_COUNT: Interval = (0.0, math.inf)  # public bounds of a count
_Intervals: TypeAlias = Callable[[float], Sequence[Interval]]


def _grouped(task: StatisticTask, by: str) -> LevelEstimates:
    """Return a histogram, or a statistic of each group, from one release of a vector.

    A row is in one group, and adds to one or two numbers of this group. The two numbers of a
    proportion are the rows that satisfy the condition and the rows that do not. The two numbers of
    a mean are the sum of deviations from the middle of the bounds, and the rows. A row whose filled
    cells change may leave one group and enter another. The groups of a histogram are the levels of
    its attribute. A row without a level is in no group.
    """
    check_width(task)
    size, kind = task.schema[by].size, task.kind
    centre, half, bounds = 0.0, 1.0, ((0.0, 1.0) if kind == "proportion" else _COUNT)
    if kind == "mean":
        a = task.numeric(task.names[0])
        (centre, half), bounds = middle_and_half(a), (a.lower, a.upper)
    (paid,) = task.reserve(task.part(_group_query(task, by)))
    noisy = paid.numbers()
    quotient = _share if kind == "proportion" else _average
    pairs = [*zip(noisy[:size], noisy[size:], strict=True)] if len(noisy) > size else []

    def intervals(times: float) -> list[Interval]:
        boxes = task.boxes(noisy, len(noisy), times)
        if pairs:
            both = zip(boxes[:size], boxes[size:], strict=True)
            boxes = [corners(quotient, pair, (-math.inf, math.inf)) for pair in both]
        return [clip_interval((centre + half * x, centre + half * y), bounds) for x, y in boxes]

    raw = [quotient(one.value, other.value) for one, other in pairs] or [n.value for n in noisy]
    values = [clip(centre + half * value, bounds) for value in raw]
    rows = pairs if kind == "proportion" else [(n,) for n in noisy[-size:]]
    return _per_level(task, by, values, intervals, full_range=bounds, rows=rows)


def _group_query(task: StatisticTask, by: str) -> RowQuery:
    """Return the query whose answer has one or two numbers for each group."""
    size, kind = task.schema[by].size, task.kind
    stays = by not in task.filled and (kind == "histogram" or not task.depends())
    who: tuple[Any, ...] = ((task.where,), (*task.missing, by), task.applicable)
    facts: dict[str, Any] = {
        "label": f"histogram of {by}" if kind == "histogram" else f"{kind} by {by}",
        "reads": task.reads | {by}, "applies": frozenset(task.applicable),
    }  # fmt: skip
    if kind == "mean":
        a = task.numeric(task.names[0])
        centre, half = middle_and_half(a)
        return RowSums(
            function=_deviations, arguments=(who, by, a.name, centre, half),
            change=task.recipient_shift(a.name) / half if stays else None,
            bound=2.0, numbers=2 * size, **facts,
        )  # fmt: skip
    return RowCounts(
        function=_cells, arguments=(who, by, task.condition),
        cells=size if task.condition is None else 2 * size,
        stays=stays and task.condition is None, **facts,
    )  # fmt: skip


def _share(yes: float, no: float) -> float:
    yes, no = max(yes, 0.0), max(no, 0.0)
    return yes / max(yes + no, 1.0)


def _average(total: float, rows: float) -> float:
    return min(max(total / max(rows, 1.0), -1.0), 1.0)


GROUP_ROWS = 10_000  # rows of a large group, for which `check_width` computes the expected noise


def _widest(intervals: _Intervals, among: Sequence[int], times: float) -> Interval:
    boxes = intervals(times)
    return max((boxes[at] for at in among), key=lambda box: box[1] - box[0])


def _per_level(
    task: StatisticTask,
    name: str,
    values: Sequence[float],
    intervals: _Intervals,
    *,
    full_range: Interval,
    rows: Sequence[tuple[Noisy, ...]],
) -> LevelEstimates:
    """Return the answers for all levels as one object.

    ``intervals(times)`` returns the intervals with ``times`` times less noise. ``rows`` are the
    released numbers of rows of each level.
    """
    boxes = intervals(1.0)
    note = ""
    lost = [at for at, box in enumerate(boxes) if np.allclose(box, full_range)]
    if lost:
        note = "Where an interval is the whole range, the noise may be as large as the exact number"
        there = [at for at in lost if any(low > 0 for low, _ in task.boxes(rows[at], len(boxes)))]
        widest = partial(_widest, intervals, there)
        note += f". {task.halved(widest, full_range) if there else MAY_BE_EMPTY}"
    about = [*task.question.of, *([f"by {name}"] if task.question.by else [])]
    attribute = task.schema[name]
    levels = attribute.bin_labels if isinstance(attribute, Numeric) else attribute.levels
    return LevelEstimates(
        name=f"{QUESTION_NAMES.get(task.kind, task.kind)}({', '.join(about)})", note=note,
        levels=tuple(levels), values=tuple(values), intervals=tuple(boxes),
        confidence=task.confidence, guarantee=task.guarantee, applicable=task.applicable,
    )  # fmt: skip


# Functions of single rows, which sessions run


def _cells(
    rows: RowView, who: tuple[Any, ...], by: str, condition: Predicate | None
) -> NDArray[np.int64]:
    """Return the cell of each row: its group, plus the number of groups if ``condition`` fails."""
    group, there = rows.codes(by), membership(rows, *who)
    if condition is not None:
        group = group + np.where(condition.select(rows), 0, rows.schema[by].size)
    return np.where(there, group, -1)


def _deviations(
    rows: RowView, who: tuple[Any, ...], by: str, name: str, centre: float, half: float
) -> NDArray[np.float64]:
    """Return each row's deviation at its group, and a 1 at the group's number of rows."""
    size, there = rows.schema[by].size, membership(rows, *who)
    deviations = np.zeros((len(rows), 2 * size))
    row, group = np.flatnonzero(there), rows.codes(by)[there]
    deviations[row, group] = np.clip((rows.values(name)[there] - centre) / half, -1.0, 1.0)
    deviations[row, size + group] = 1.0
    return deviations
