"""Counts, proportions and sums: one or two released numbers each."""

from __future__ import annotations

import math

import numpy as np

from missdp.knn.asks import Ask
from missdp.knn.estimates import Estimate, clip, corners
from missdp.knn.parts import QueryParts
from missdp.knn.rows import counted, quantised, weights_of
from missdp.knn.worst_case import MissingCells

__all__ = ["count", "proportion", "total"]


def count(parts: QueryParts, label: str, missing: MissingCells) -> Estimate:
    """Released number of rows of a subpopulation."""
    chosen = missing.where
    ask = parts.count_ask("count", chosen, missing.rest)
    asks = [ask, *missing.asks]
    rows = parts.releaser.begin(asks)
    (noisy,) = parts.releaser.release(ask, parts.counted(rows, chosen))
    bounds = (0.0, math.inf)
    interval = corners(lambda n: n, [noisy.within(parts.releaser.level(1))], bounds)
    answer = parts.estimate(f"count({label})", clip(noisy.value, bounds), interval, asks)
    return missing.total(answer, parts.releaser)


def proportion(parts: QueryParts, of: str, missing: MissingCells) -> Estimate:
    """Two released counts divided."""
    part, whole, cost = parts.where(of), missing.where, missing.rest
    small = 0.5 if parts.depends(whole) else 0.15
    depends = parts.depends(part) or parts.depends(whole)
    asks = [
        Ask(label="part", cost=cost.share(1 - small), whole=1, depends=depends),
        parts.count_ask("whole", whole, cost.share(small)),
        *missing.asks,
    ]
    rows = parts.releaser.begin(asks)
    inside = whole.select(rows)
    first = counted(inside & part.select(rows), depends=depends)
    noisy = [
        *parts.releaser.release(asks[0], first),
        *parts.releaser.release(asks[1], counted(inside, depends=asks[1].depends)),
    ]
    answer = parts.quotient(f"proportion({of})", noisy, asks, (0.0, 1.0), lambda q: q)
    return missing.average(answer, parts.releaser)


def total(parts: QueryParts, name: str, missing: MissingCells) -> Estimate:
    """Released sum of the known or imputed values."""
    chosen, attribute = missing.where, parts.numeric(name)
    limit = max(abs(attribute.lower), abs(attribute.upper))
    ask = parts.sum_ask("sum", name, chosen, missing.rest)
    asks = [ask, *missing.asks]
    rows = parts.releaser.begin(asks)
    values = np.where(parts.selected(rows, name, chosen), rows.values(name), 0.0)
    weights = weights_of(limit, parts.change(name, chosen, limit))
    noisy = parts.releaser.release(ask, quantised(values, limit, weights))[0]
    bounds = (
        0.0 if attribute.lower >= 0 else -math.inf,
        0.0 if attribute.upper <= 0 else math.inf,
    )
    interval = corners(lambda n: n, [noisy.within(parts.releaser.level(1))], bounds)
    answer = parts.estimate(f"sum({name})", clip(noisy.value, bounds), interval, asks)
    return missing.total(answer, parts.releaser)
