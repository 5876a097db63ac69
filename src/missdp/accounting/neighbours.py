"""Totals under a neighbouring relation: add-remove as it is, replace-one by proven conversions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from missdp.accounting._convert import add_remove_share
from missdp.accounting.accountants import DEFAULT_ACCOUNTANTS, Accountant, epsilon_of
from missdp.accounting.events import (
    Adjacency,
    Event,
    check_adjacency,
    flatten,
    replace_one_refusal,
)
from missdp.errors import UnprovenError

__all__ = ["epsilon_under", "proves"]


def epsilon_under(
    events: Event | Iterable[Event],
    delta: float,
    adjacency: Adjacency,
    *,
    accountants: Sequence[Accountant] = DEFAULT_ACCOUNTANTS,
) -> float:
    """Return the smallest proven epsilon at ``delta`` under ``adjacency``.

    Parameters
    ----------
    events : Event or iterable of Event
        Facts under add-remove or replace-one; the former are converted where needed, one by one
        if each has a proven conversion and as a whole (group privacy) otherwise.
    delta : float
        In [0, 1).
    adjacency : {"add-remove", "replace-one"}
        The relation the result holds for.
    accountants : sequence of Accountant
        Which bounds to try.

    Returns
    -------
    float
        Epsilon, at least 0, possibly infinite.

    Raises
    ------
    UnprovenError
        If replace-one facts are asked for under add-remove (no bound follows), or no accountant
        supports the events.

    Examples
    --------
    >>> from missdp.accounting import LaplaceEvent
    >>> epsilon_under([LaplaceEvent(sensitivity=1, scale=2.0)], 0.0, "replace-one")
    1.0
    """
    parts = flatten(events)
    native = [event for event in parts if event.adjacency == "replace-one"]
    if check_adjacency(adjacency) == "add-remove":
        if native:
            raise replace_one_refusal(native[0])
        return epsilon_of(parts, delta, accountants=accountants)
    try:
        converted = [event.to_replace_one() for event in parts]
        return epsilon_of(converted, delta, accountants=accountants)
    except UnprovenError:
        if native:
            raise
    return _by_group_privacy(parts, delta, accountants)


def proves(
    events: Event | Iterable[Event],
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    *,
    accountants: Sequence[Accountant] = DEFAULT_ACCOUNTANTS,
) -> bool:
    """Return whether the events prove (epsilon, delta) under ``adjacency``.

    Parameters
    ----------
    events, delta, adjacency, accountants
        As for `epsilon_under`.
    epsilon : float
        The statement to check.

    Returns
    -------
    bool

    Examples
    --------
    >>> from missdp.accounting import LaplaceEvent
    >>> proves([LaplaceEvent(sensitivity=1, scale=2.0)], 0.4, 0.0, "add-remove")
    False
    """
    if epsilon_under(events, delta, adjacency, accountants=accountants) <= epsilon:
        return True
    parts = flatten(events)
    if adjacency == "add-remove" or any(event.adjacency == "replace-one" for event in parts):
        return False
    # Half of epsilon for each of two steps; see `replace_one_of`.
    share = add_remove_share(epsilon / 2, delta)
    return epsilon_of(parts, share, accountants=accountants) <= epsilon / 2


def _by_group_privacy(
    parts: tuple[Event, ...], delta: float, accountants: Sequence[Accountant]
) -> float:
    """Smallest 2 e with f(e) = epsilon_of(delta / (1 + exp(e))) <= e, from the safe side.

    f grows with e, so once f(e) <= e, also f(f(e)) <= f(e): every iterate is a valid bound.
    """

    def needed(epsilon: float) -> float:
        share = add_remove_share(epsilon, delta)
        return epsilon_of(parts, share, accountants=accountants)

    high = 1.0
    while (found := needed(high)) > high:
        high *= 2
        if high > 512:
            return math.inf
    for _ in range(30):
        high, before = found, high
        if before - high <= 1e-6 * before:
            break
        found = needed(high)
    return 2 * high
