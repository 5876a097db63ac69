"""How each statistic is answered, from released counts and sums; a new one has its line here."""

from __future__ import annotations

import math
from collections.abc import Callable

from missdp.statistics.asking import Asking
from missdp.statistics.estimates import Estimate, Histogram
from missdp.statistics.groups import grouped, histogram
from missdp.statistics.moments import correlation, variance

__all__ = ["answered"]


def answered(ask: Asking) -> Estimate | Histogram:
    """Charge for a question, and answer it."""
    if ask.question.by:
        return grouped(ask, ask.question.by)
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


_ANSWERS: dict[str, Callable[[Asking], Estimate | Histogram]] = {
    "count": _count, "proportion": _proportion, "mean": _mean, "sum": _total,
    "variance": variance, "standard_deviation": variance, "correlation": correlation,
    "histogram": histogram,
}  # fmt: skip
