"""Variances, standard deviations and correlations: sums of products around released means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from missdp.mechanisms.row_door import Charged, Noisy
from missdp.statistics.asking import Asking
from missdp.statistics.estimates import Estimate
from missdp.statistics.intervals import clip, corners
from missdp.statistics.worst_case import Interval, Names

__all__ = ["correlation", "variance"]


def variance(ask: Asking) -> Estimate:
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


def correlation(ask: Asking) -> Estimate:
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
        if times != 1:  # what is lost in its noise: as of a spread of a seventh of the range
            wide = [(x.upper - x.lower) ** 2 / 48 for x in map(ask.numeric, names)]
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
    limits = []
    for name, centre in zip(names, centres, strict=True):
        attribute = ask.numeric(name)
        limits.append(max(attribute.upper - centre, centre - attribute.lower))
    moves = [ask.moved(name) for name in names]
    move = _product_change(limits, moves, same=names[0] == names[1])
    return ask.products(charged, names, centres, limits[0] * limits[1], move)


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
