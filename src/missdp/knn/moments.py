"""Means, variances and correlations from released sums around released centres."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from missdp.knn.asks import Ask, Cost
from missdp.knn.estimates import Estimate, Interval, Noisy, clip, corners
from missdp.knn.filled import FilledTable
from missdp.knn.parts import QueryParts
from missdp.knn.predicates import Predicate
from missdp.knn.rows import counted, quantised, weights_of
from missdp.knn.worst_case import MissingCells

__all__ = ["correlation", "mean", "square_change", "variance"]


def mean(parts: QueryParts, name: str, missing: MissingCells) -> Estimate:
    """Centre + (sum of centred values) / size, both released."""
    chosen, cost = missing.where, missing.rest
    small = 0.4 if parts.depends(chosen) else 0.1
    asks = [_centred_ask(parts, name, chosen, cost.share(1 - small)),
            _size_ask(parts, chosen, cost.share(small)), *missing.asks]  # fmt: skip
    rows = parts.releaser.begin(asks)
    selected = parts.selected(rows, name, chosen)
    noisy = [_centred(parts, name, chosen, asks[0], rows, selected),
             _size(parts, asks[1], selected)]  # fmt: skip
    attribute = parts.numeric(name)
    middle = (attribute.lower + attribute.upper) / 2
    bounds = (attribute.lower, attribute.upper)
    answer = parts.quotient(f"mean({name})", noisy, asks, bounds, lambda q: middle + q)
    return missing.average(answer, parts.releaser)


def variance(
    parts: QueryParts, name: str, chosen: Predicate, cost: Cost, *, root: bool
) -> Estimate:
    """Sum of squares around the released mean over (released size - 1)."""
    fixed = not parts.depends(chosen)
    asks = [
        _size_ask(parts, chosen, cost.share(0.1 if fixed else 0.2)),
        _centred_ask(parts, name, chosen, cost.share(0.3)),
        parts.sum_ask("squares", name, chosen, cost.share(0.6 if fixed else 0.5)),
    ]
    rows = parts.releaser.begin(asks)
    selected = parts.selected(rows, name, chosen)
    size = _size(parts, asks[0], selected)
    first = _centred(parts, name, chosen, asks[1], rows, selected)
    centre, wide = _mean_of(parts, name, first, size, pieces=3)
    squares = _moment(parts, (name, name), (centre, centre), chosen, asks[2], rows, selected)
    attribute = parts.numeric(name)
    # The sample variance of values in an interval is largest for two values at its ends.
    bounds = (0.0, (attribute.upper - attribute.lower) ** 2 / 2)

    def spread(total: float, rows_: float, off: float = 0.0) -> float:
        rows_ = max(rows_, 2.0)
        return (total - rows_ * off**2) / (rows_ - 1)

    level = parts.releaser.level(3)
    off = None if wide is None else (0.0, max(wide[1] - centre, centre - wide[0]))
    interval = corners(spread, [squares.within(level), size.within(level), off], bounds)
    value = clip(spread(squares.value, size.value), bounds)
    if root:
        value = math.sqrt(value)
        interval = None if interval is None else (math.sqrt(interval[0]), math.sqrt(interval[1]))
    label = "standard_deviation" if root else "variance"
    return parts.estimate(f"{label}({name})", value, interval, asks)


def correlation(
    parts: QueryParts, first: str, second: str, chosen: Predicate, cost: Cost
) -> Estimate:
    """Co-moment over the root of the two second moments, all around released means."""
    names = (first, second)
    both = [_centred_ask(parts, name, chosen, cost.share(0.15)) for name in names]
    squares = [parts.sum_ask("squares", name, chosen, cost.share(0.2)) for name in names]
    asks = [_size_ask(parts, chosen, cost.share(0.1)), *both, *squares,
            _pair_ask(parts, names, chosen, cost.share(0.2))]  # fmt: skip
    rows = parts.releaser.begin(asks)
    selected = parts.selected(rows, first, chosen) & parts.selected(rows, second, chosen)
    size = _size(parts, asks[0], selected)
    sums = [_centred(parts, n, chosen, a, rows, selected) for n, a in zip(names, both, strict=True)]
    means = [_mean_of(parts, n, s, size, pieces=6) for n, s in zip(names, sums, strict=True)]
    (a, wide_a), (b, wide_b) = means
    moments = [
        _moment(parts, pair, centres, chosen, ask, rows, selected)
        for pair, centres, ask in (
            ((first, first), (a, a), asks[3]),
            ((second, second), (b, b), asks[4]),
            ((first, second), (a, b), asks[5]),
        )
    ]
    value = clip(_ratio(*(m.value for m in moments)), (-1.0, 1.0))
    interval = _correlation_interval(parts, moments, size, ((a, wide_a), (b, wide_b)))
    return parts.estimate(f"correlation({first}, {second})", value, interval, asks)


def _ratio(first: float, second: float, both: float) -> float:
    if first <= 0 or second <= 0:
        return 0.0 if both == 0 else math.copysign(1.0, both)
    return both / math.sqrt(first * second)


def _correlation_interval(
    parts: QueryParts,
    moments: list[Noisy],
    size: Noisy,
    means: tuple[tuple[float, Interval | None], tuple[float, Interval | None]],
) -> Interval | None:
    """Box of the three moments, widened for the released means being off."""
    level = parts.releaser.level(6)
    boxes = [found for moment in moments if (found := moment.within(level)) is not None]
    rows = size.within(level)
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
    """Most that (y - c)^2 changes if |y - c| <= limit before and after and y moves by <= width.

    Examples
    --------
    >>> square_change(3.0, 1.0), square_change(3.0, 5.0)
    (5.0, 9.0)
    """
    return limit**2 if width >= limit else width * (2 * limit - width)


def _size_ask(parts: QueryParts, chosen: Predicate, cost: Cost) -> Ask:
    return parts.count_ask("rows", chosen, cost)


def _centred_ask(parts: QueryParts, name: str, chosen: Predicate, cost: Cost) -> Ask:
    return parts.sum_ask("centred sum", name, chosen, cost)


def _pair_ask(parts: QueryParts, names: tuple[str, str], chosen: Predicate, cost: Cost) -> Ask:
    asks = [parts.sum_ask("products", name, chosen, cost) for name in names]
    return max(asks, key=lambda ask: ask.depends)


def _size(parts: QueryParts, ask: Ask, selected: NDArray[np.bool_]) -> Noisy:
    return parts.releaser.release(ask, counted(selected, depends=ask.depends))[0]


def _centred(
    parts: QueryParts,
    name: str,
    chosen: Predicate,
    ask: Ask,
    rows: FilledTable,
    selected: NDArray[np.bool_],
) -> Noisy:
    attribute = parts.numeric(name)
    middle, half = (attribute.lower + attribute.upper) / 2, (attribute.upper - attribute.lower) / 2
    values = np.where(selected, rows.values(name) - middle, 0.0)
    weights = weights_of(half, parts.change(name, chosen, half))
    return parts.releaser.release(ask, quantised(values, half, weights))[0]


def _mean_of(
    parts: QueryParts, name: str, total: Noisy, size: Noisy, *, pieces: int
) -> tuple[float, Interval | None]:
    attribute = parts.numeric(name)
    middle, bounds = (attribute.lower + attribute.upper) / 2, (attribute.lower, attribute.upper)

    def average(top: float, bottom: float) -> float:
        return middle + top / max(bottom, 1.0)

    level = parts.releaser.level(pieces)
    wide = corners(average, [total.within(level), size.within(level)], bounds)
    return clip(average(total.value, size.value), bounds), wide


def _moment(
    parts: QueryParts,
    names: tuple[str, str],
    centres: tuple[float, float],
    chosen: Predicate,
    ask: Ask,
    rows: FilledTable,
    selected: NDArray[np.bool_],
) -> Noisy:
    """Release the sum of products of deviations from released centres."""
    limits, moves = [], []
    for name, centre in zip(names, centres, strict=True):
        attribute = parts.numeric(name)
        limits.append(max(attribute.upper - centre, centre - attribute.lower))
        width = attribute.upper - attribute.lower
        shared = name in parts.imputation.shared()
        moves.append(width * parts.imputation.step(name, parts.schema) if shared else 0.0)
    limit = limits[0] * limits[1]
    change = _product_change(limits, moves, same=names[0] == names[1])
    if parts.depends(chosen):
        # Moving in or out costs at most the limit; inside, the change above.
        change = max(change, limit)
    left, right = (rows.values(n) - c for n, c in zip(names, centres, strict=True))
    values = np.where(selected, left * right, 0.0)
    return parts.releaser.release(ask, quantised(values, limit, weights_of(limit, change)))[0]


def _product_change(limits: list[float], moves: list[float], *, same: bool) -> float:
    """Most that the product of two deviations changes when one donor is exchanged."""
    if same:
        return square_change(limits[0], moves[0]) if moves[0] > 0 else 0.0
    one_at_a_time = moves[0] * limits[1] + moves[1] * limits[0]
    return min(one_at_a_time, 2 * limits[0] * limits[1])
