"""Histograms, and statistics of groups: several numbers in one release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from missdp.mechanisms.questions import Ask, Counts, Question, Sums
from missdp.mechanisms.row_door import Noisy
from missdp.schema import AnyAttribute, Level, Numeric
from missdp.statistics import of_rows
from missdp.statistics.asking import Asking
from missdp.statistics.estimates import Histogram
from missdp.statistics.intervals import clip, corners, within
from missdp.statistics.worst_case import Interval

__all__ = ["grouped", "histogram"]

_COUNT: Interval = (0.0, math.inf)


def histogram(ask: Asking) -> Histogram:
    """Return released counts per level; rows where the attribute is missing are not counted."""
    (name,) = ask.names
    question = Counts(
        function=of_rows.level, reads=ask.where.names | {name}, given=(ask.where, name),
        cells=ask.schema[name].size, stays=name not in ask.filled,
    )  # fmt: skip
    noisy = _at_once(ask, f"histogram of {name}", question)
    intervals = [box and within(box, _COUNT) for box in ask.boxes(noisy, len(noisy))]
    return _per_level(ask, name, [max(n.value, 0.0) for n in noisy], intervals)


def grouped(ask: Asking, by: str) -> Histogram:
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
            (quotient(one.value, other.value), corners(quotient, boxes, (-math.inf, math.inf)))
            for one, other, *boxes in pairs
        ]
    values = [clip(centre + half * value, bounds) for value, _ in found]
    intervals = [
        box and within((centre + half * box[0], centre + half * box[1]), bounds) for _, box in found
    ]
    return _per_level(ask, by, values, intervals, whole=bounds)


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
    ask: Asking,
    name: str,
    values: Sequence[float],
    intervals: Sequence[Interval | None],
    *,
    whole: Interval = _COUNT,
) -> Histogram:
    known = [interval for interval in intervals if interval is not None]
    note = "" if known else ask.without_interval()
    if whole in known:
        note = "Where an interval is the whole range, noise is as large as what it is added to"
    about = [*ask.question.of, *([f"by {name}"] if ask.question.by else [])]
    return Histogram(
        name=f"{ask.kind}({', '.join(about)})", levels=_level_names(ask.schema[name]),
        values=tuple(values), intervals=tuple(known) if len(known) == len(values) else None,
        confidence=ask.confidence, note=note,
        guarantee=ask.door.guarantee(*ask.asks), applicable=ask.applicable,
    )  # fmt: skip


def _level_names(attribute: AnyAttribute) -> tuple[Level | str, ...]:
    return attribute.interval_names if isinstance(attribute, Numeric) else tuple(attribute.levels)
