"""Privacy filters: an adaptive sequence of releases, accounted by its cap.

Suppose that a later noise scale, or the existence of a later release, depends on an earlier answer.
Then the amount that was spent is an outcome and proves nothing. The cap proves the guarantee. It
must be fixed before the first release, with the privacy definition in which it counts. Pure
epsilons add up for every adaptive choice (Rogers et al. 2016). So do zCDP rhos (Feldman & Zrnic
2021, Whitehouse et al. 2023) and the squares of mu in Gaussian DP (Smith & Thakurta 2022).

Failures
--------
An `ApproximateEvent` holds except with probability delta. For given neighbours, a coin with
probability delta under both of them decides between two mechanisms. One reveals the table, and the
other is epsilon-DP (Kairouz, Oh & Viswanath 2015). A filter adds the deltas up to a cap,
``failure``, and the epsilons as costs of its measure. Let w be the probability that no coin of a
path comes up. It is equal under both neighbours, at least 1 - failure, and at most 1. If no coin
comes up, the densities of a path are w p and w q, with p and q within the cap. So the hockey-stick
divergence is at most failure plus the divergence of p and q (Whitehouse et al. 2023, Theorem 1,
for zCDP). A fixed composition of the cap with an `ApproximateEvent` of epsilon 0 and delta
``failure`` gives an equal statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Annotated, Any

from pydantic import WrapValidator
from pydantic.dataclasses import dataclass

from missdp.accounting.events import (
    ApproximateEvent,
    Event,
    GaussianEvent,
    PureEvent,
    ZCDPEvent,
    convert_adjacency,
    flatten,
    unit_of,
)
from missdp.accounting.exact import exact, float_down, replace_one_of, total
from missdp.accounting.measures import Cost, approximate_delta, gdp_cost
from missdp.errors import ParameterError
from missdp.validation import Delta


def without_failure(event: Event) -> Event:
    """Return an accounting event without its delta: the bound if the release does not fail.

    Parameters
    ----------
    event : Event
        An elementary event.

    Returns
    -------
    Event
        A `PureEvent` for an `ApproximateEvent`, and all other events unchanged.
    """
    if not isinstance(event, ApproximateEvent):
        return event
    return PureEvent(epsilon=event.epsilon, required=event.required, adjacency=event.adjacency)


class CheckedLog(tuple[Event, ...]):
    """The log of a live filter, which computed the cost of each event when it charged the event.

    No other check follows.

    >>> from missdp.accounting import FilterEvent, PureEvent
    >>> from missdp.accounting.filters import CheckedLog
    >>> FilterEvent(capacity=PureEvent(epsilon=0.1), log=CheckedLog([PureEvent(epsilon=0.1)])).log
    (PureEvent(label='', required=None, adjacency='add-remove', epsilon=0.1),)
    """

    __slots__ = ()


def _log(log: Any, check: Callable[[Any], tuple[Event, ...]]) -> tuple[Event, ...]:
    return log if isinstance(log, CheckedLog) else check(log)


@dataclass(frozen=True, kw_only=True)
class FilterEvent(Event):
    """Accounting event of releases that are chosen one after the other, up to a fixed cap.

    The cost of the event is the cap, for every sequence of releases. `Filter.filter` makes it from
    a budget.

    Parameters
    ----------
    capacity : PureEvent, ZCDPEvent or continuous GaussianEvent
        The cap, chosen before the first release. All bounds are computed from the cap alone.
    log : sequence of Event, default ()
        The accounting events of the releases that were made. They are recorded, and no bound
        follows from them.
    failure : float, default 0.0
        Upper bound on the sum of the deltas of the releases (`ApproximateEvent`), in addition
        to the cap. In [0, 1).
    label : str, default ""
        A public name for reports.
    required : frozenset of str or None, default None
        Names of attributes that a row must have observed (not missing) to be read. None and the
        empty set: every row is read.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The neighbouring relation under which the numbers of this event are true. It equals the
        adjacency of the capacity.

    Raises
    ------
    ParameterError
        If the capacity is of another type or has another adjacency. If the log costs more than the
        capacity, or its deltas add up to more than the failure.

    Examples
    --------
    >>> from missdp.accounting import FilterEvent
    >>> from missdp.accounting import PureEvent, epsilon_of
    >>> event = FilterEvent(capacity=PureEvent(epsilon=1.0), log=[PureEvent(epsilon=0.2)])
    >>> epsilon_of(event, 0.0)
    1.0
    """

    capacity: Event
    log: Annotated[tuple[Event, ...], WrapValidator(_log)] = ()
    failure: Delta = 0.0

    def __post_init__(self) -> None:
        is_checked = isinstance(self.log, CheckedLog)
        object.__setattr__(self, "log", tuple(self.log))
        cost = self.cost
        if self.capacity.adjacency != self.adjacency or self.capacity.required:
            raise ParameterError("a capacity has the adjacency of its filter and requires nothing")
        if not is_checked:
            self._check_log(cost)

    def _check_log(self, cost: Cost) -> None:
        """Raise if the log costs more than the capacity, since a file may have been edited."""
        logged, cap = flatten(self.log), cost.price(self.capacity)
        failures = convert_adjacency(self.adjacency, (e for e in logged if approximate_delta(e)))
        if sum(map(exact, map(approximate_delta, failures))) > exact(self.failure):
            raise ParameterError("the deltas in the log of a filter exceed its failure")
        parts = map(without_failure, logged)
        if cost.privacy_measure == "gdp" and self.adjacency == "replace-one":
            # Two add-remove steps double mu. Doubling the sensitivity costs more.
            spent = [cost.price(p) * (4 if p.adjacency == "add-remove" else 1) for p in parts]
        else:
            spent = [cost.price(part) for part in convert_adjacency(self.adjacency, parts)]
        if total(spent) > cap and sum(spent) > cap:  # the rounded sum is quick
            raise ParameterError("the log of a filter costs more than its capacity")

    @property
    def cost(self) -> Cost:
        """Return the fixed cap of the sequence of releases as an amount in its privacy measure.

        Returns
        -------
        Cost
            An amount of pure epsilon, zCDP rho, or squared mu of Gaussian DP (rounded down).
            Public.
        """
        cap = self.capacity
        if type(cap) is PureEvent:
            return Cost(privacy_measure="pure", amount=cap.epsilon)
        if type(cap) is ZCDPEvent:
            return Cost(privacy_measure="zcdp", amount=cap.rho)
        if isinstance(cap, GaussianEvent) and not cap.discrete:
            return Cost(privacy_measure="gdp", amount=float_down(gdp_cost(cap)))
        raise ParameterError(
            "the capacity of a filter must be pure epsilon, zCDP rho, or the mu of Gaussian DP"
        )

    def protected_unit(self) -> tuple[str, int]:
        """Return the unit of protection of the logged releases, and 1 as its number of rows.

        A unit is a single row, or all rows with one value in an identifying column. The cap is the
        cost for a complete unit.

        Returns
        -------
        unit : str
            ``"row"``, or the name of the identifying column.
        rows : int
            Always 1, since the cap is the cost for a complete unit. Public.

        Raises
        ------
        UnprovenError
            If the logged releases protect different units.
        """
        return unit_of(self.log)[0], 1

    def flatten(self) -> tuple[Event, ...]:
        """Return the cap of the sequence of releases as elementary accounting events.

        All bounds are computed from these events, and not from the log.

        Returns
        -------
        tuple of Event
            The capacity. If ``failure`` is above 0, an `ApproximateEvent` with this delta follows.
            Public.
        """
        label, required = self.capacity.label or self.label, self.required or None
        cap = replace(self.capacity, label=label, required=required)
        if not self.failure:
            return (cap,)
        fails = ApproximateEvent(epsilon=0.0, delta=self.failure, required=required, label=label)
        return (cap, replace(fails, adjacency=self.adjacency))

    def _doubled(self) -> dict[str, Any]:
        failure = replace_one_of(0.0, self.failure)[1]
        return {"capacity": self.capacity.to_replace_one(), "failure": failure}


def releases(events: Event | Iterable[Event]) -> tuple[Event, ...]:
    """Return the accounting events of all single releases, logged releases of filters included.

    The sum of their costs is no bound, since it depends on released answers. Bounds are computed
    from `flatten`.

    Use it to list releases in a report.

    Parameters
    ----------
    events : Event or iterable of Event
        Events of releases. A `FilterEvent` is replaced by the events in its log.

    Returns
    -------
    tuple of Event
        In the order of the releases.

    Examples
    --------
    >>> from missdp.accounting import FilterEvent, PureEvent, releases
    >>> inner = FilterEvent(capacity=PureEvent(epsilon=0.5), log=[PureEvent(epsilon=0.2)])
    >>> outer = FilterEvent(capacity=PureEvent(epsilon=1.0), log=[PureEvent(epsilon=0.1), inner])
    >>> [event.epsilon for event in releases(outer)]
    [0.1, 0.2]
    """
    if isinstance(events, FilterEvent):
        return releases(events.log)
    if isinstance(events, Event):
        return flatten(events)
    return tuple(release for event in events for release in releases(event))
