"""Counts, proportions, sums and histograms."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost
from missdp.knn.costs import share
from missdp.knn.estimates import Estimate, Histogram, clip, corners
from missdp.knn.parts import Parts, members, members_of_both
from missdp.knn.predicates import Predicate
from missdp.knn.worst_case import MissingCells
from missdp.mechanisms.asks import Ask
from missdp.mechanisms.questions import Counts, Rows
from missdp.schema import AnyAttribute, Level, Numeric

__all__ = ["count", "histogram", "proportion", "total"]


def count(parts: Parts, label: str, missing: MissingCells) -> Estimate:
    """Return the released number of rows of a subpopulation."""
    chosen = missing.where
    asks = [parts.count_ask("count", missing.rest, chosen), *missing.asks]
    first, *more = parts.begin(*asks)
    noisy = parts.one(first, Counts(function=members, reads=chosen.names, given=(chosen,)))
    bounds = (0.0, math.inf)
    interval = corners(lambda n: n, [noisy.within(parts.level(1))], bounds)
    answer = parts.estimate(f"count({label})", clip(noisy.value, bounds), interval, asks)
    return missing.total(answer, parts, more)


def proportion(parts: Parts, of: str, missing: MissingCells) -> Estimate:
    """Return one released count divided by another."""
    part, whole, cost = parts.where(of), missing.where, missing.rest
    small = 0.5 if parts.depends(whole) else 0.15
    asks = [
        parts.count_ask("part", share(cost, 1 - small), whole, part),
        parts.count_ask("whole", share(cost, small), whole),
        *missing.asks,
    ]
    first, second, *more = parts.begin(*asks)
    both = Counts(function=members_of_both, reads=whole.names | part.names, given=(whole, part))
    everyone = Counts(function=members, reads=whole.names, given=(whole,))
    noisy = (parts.one(first, both), parts.one(second, everyone))
    answer = parts.quotient(f"proportion({of})", noisy, asks, (0.0, 1.0), lambda q: q)
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
    interval = corners(lambda n: n, [noisy.within(parts.level(1))], bounds)
    answer = parts.estimate(f"sum({name})", clip(noisy.value, bounds), interval, asks)
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
    level = parts.level(attribute.size)
    found = [n.within(level) for n in noisy]
    intervals = tuple((max(i[0], 0.0), max(i[1], 0.0)) for i in found if i is not None)
    return Histogram(
        name=f"histogram({name})", levels=_level_names(attribute),
        values=tuple(max(n.value, 0.0) for n in noisy),
        intervals=intervals if len(intervals) == attribute.size else None,
        confidence=parts.confidence,
        guarantee=parts.door.guarantee(ask),
    )  # fmt: skip


def _level(rows: Rows, chosen: Predicate, name: str) -> NDArray[np.int64]:
    """Return the level of each row of a subpopulation, -1 for the others."""
    return np.where(chosen.select(rows), rows.codes(name), -1)


def _level_names(attribute: AnyAttribute) -> tuple[Level | str, ...]:
    if not isinstance(attribute, Numeric):
        return tuple(attribute.levels)
    edges = attribute.bin_edges.tolist()
    return tuple(f"[{low:g}, {high:g})" for low, high in pairwise(edges))
