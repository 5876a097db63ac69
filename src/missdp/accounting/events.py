"""Events: frozen facts about mechanisms, apart from the measures that add them up.

An event states noise and sensitivity, never a cost. Costs follow from it. Events travel as JSON.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from missdp.accounting.exact import replace_one_of
from missdp.errors import ParameterError, UnprovenError, check_choice
from missdp.serialization import Record
from missdp.validation import CountFrom1, Delta, NonNegative, Positive, Probability, as_set

Adjacency = Literal["add-remove", "replace-one"]
"""Which tables are neighbours: one row more or less, or one row replaced by another."""
Protects = Literal["incomplete", "ground-truth"]
"""The protected table: the incomplete table, or the table before values went missing."""

RequiredAttributes = Annotated[
    frozenset[str] | None,
    Field(description="a collection of attribute names, not one string"),
    BeforeValidator(as_set),
]
"""Attributes that a row must have observed to be read, or None if every row is read."""

ROW = "row"
"""The unit of protection where nothing else is declared."""


def check_adjacency(value: str) -> Adjacency:
    """Return ``value`` if it names a neighbouring relation, or raise an error."""
    adjacency: Adjacency = check_choice("adjacency", value, get_args(Adjacency))
    return adjacency


@dataclass(frozen=True, kw_only=True)
class Event(Record, abstract=True):
    """Base class of all events. Every kind of event has these parameters.

    Parameters
    ----------
    label : str, default ""
        A public name for reports.
    required : frozenset of str or None, default None
        The mechanism reads a row only if all these attributes are observed in it. None: it reads
        every row. The empty set is the same as None in effect.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The neighbouring relation under which the numbers of this event (sensitivities, epsilon,
        rho) are true.

    Examples
    --------
    >>> event = LaplaceEvent(sensitivity=1, scale=2.0, required={"age"})
    >>> Event.from_json(event.to_json()) == event
    True
    """

    label: str = ""
    required: RequiredAttributes = None
    adjacency: Adjacency = "add-remove"

    def flatten(self) -> tuple[Event, ...]:
        """Return the elementary events of this event."""
        return (self,)

    def epsilon_bound(self, delta: float, *, adjacency: Adjacency, protects: Protects) -> float:
        """Return an epsilon that this event proves by itself at ``delta``, infinite by default.

        Some events carry a separate proof, such as amplification or a test before a release. Their
        epsilon is recomputed here, by the code of the proof, whenever a guarantee states it.
        """
        del delta, adjacency, protects
        return math.inf

    def required_conditions(self) -> tuple[Record, ...]:
        """Return the conditions that the proof of `epsilon_bound` needs, none by default."""
        return ()

    def protected_unit(self) -> tuple[str, int]:
        """Return the protected unit, and the largest number of its rows that are read."""
        return unit_of(getattr(self, "events", ()))

    def to_replace_one(self) -> Event:
        """Return the same mechanism's event under replace-one adjacency.

        Replacing a row is removing one and adding one, so two steps of add-remove.

        Raises
        ------
        UnprovenError
            If no such conversion is proven for this kind of event.
        """
        if self.adjacency == "replace-one":
            return self
        return replace(self, **self._doubled(), adjacency="replace-one")

    def _doubled(self) -> dict[str, Any]:
        """Return the fields that differ under replace-one, by group privacy for two rows."""
        raise UnprovenError(
            f"{type(self).__name__} has no proven replace-one form; account for it under "
            "add-remove and convert the total with Guarantee.to_replace_one()"
        )


@dataclass(frozen=True, kw_only=True)
class PureEvent(Event):
    """An epsilon-DP mechanism of which nothing else is known.

    >>> PureEvent(epsilon=0.5).to_replace_one().epsilon
    1.0
    """

    epsilon: NonNegative

    def _doubled(self) -> dict[str, Any]:
        return {"epsilon": 2 * self.epsilon}


@dataclass(frozen=True, kw_only=True)
class SelectionEvent(PureEvent):
    """The exponential mechanism (noisy max with Gumbel noise): epsilon-bounded range.

    Its privacy loss lies in an interval of length epsilon (bounded range, Durfee & Rogers 2019). So
    it is epsilon-DP. It is also (epsilon^2 / 8)-zCDP, which is better than for an arbitrary
    epsilon-DP mechanism (Cesar & Rogers 2021, "Bounding, concentrating, and truncating").

    Parameters
    ----------
    epsilon : float
        At least 0. For Gumbel noise, 2 * sensitivity / scale.
    """


@dataclass(frozen=True, kw_only=True)
class _NoiseEvent(Event, abstract=True):
    """Noise on every coordinate of a query, whole numbers or real ones."""

    sensitivity: Positive
    discrete: bool = True

    def __post_init__(self) -> None:
        if self.discrete and self.sensitivity < 1:
            raise ParameterError(
                "an integer query that a row can change has sensitivity at least 1, got "
                f"{self.sensitivity}"
            )

    def _doubled(self) -> dict[str, Any]:
        return {"sensitivity": 2 * self.sensitivity}  # triangle inequality


@dataclass(frozen=True, kw_only=True)
class LaplaceEvent(_NoiseEvent):
    """Laplace noise on every coordinate of a query of bounded L1 sensitivity.

    With ``discrete=True`` (the default) query and noise are integers and the noise has mass
    proportional to exp(-abs(x) / scale). The discrete privacy loss counts then, which is *larger*
    than the continuous privacy loss. With ``discrete=False`` both are real.

    Parameters
    ----------
    sensitivity : float
        L1 sensitivity under ``adjacency``: at least 1 if discrete, above 0 otherwise.
    scale : float
        Noise scale b, above 0.
    discrete : bool, default True
        Integer-valued query and noise.
    """

    scale: Positive


@dataclass(frozen=True, kw_only=True)
class GaussianEvent(_NoiseEvent):
    """Gaussian noise on every coordinate of a query of bounded L2 sensitivity.

    With ``discrete=True`` (the default) query and noise are integers, with mass proportional to
    exp(-x^2 / (2 sigma^2)). The zCDP and RDP bounds of the continuous Gaussian hold for it
    (Canonne, Kamath & Steinke 2020, Theorem 14). The continuous privacy loss distribution does
    not hold. The discrete one is composed if the sensitivity is below 2, since the integer shift
    is known then. With ``discrete=False`` every bound is the bound of continuous noise.

    Parameters
    ----------
    sensitivity : float
        L2 sensitivity under ``adjacency``: at least 1 if discrete, above 0 otherwise.
    sigma : float
        Noise parameter, above 0 (the standard deviation if continuous).
    discrete : bool, default True
        Integer-valued query and noise.
    """

    sigma: Positive


@dataclass(frozen=True, kw_only=True)
class ApproximateEvent(Event):
    """An (epsilon, delta)-DP mechanism of which nothing else is known."""

    epsilon: NonNegative
    delta: Delta

    def _doubled(self) -> dict[str, Any]:
        epsilon, delta = replace_one_of(self.epsilon, self.delta)
        if delta >= 1:
            raise UnprovenError("delta of this ApproximateEvent reaches 1 under replace-one")
        return {"epsilon": epsilon, "delta": delta}


@dataclass(frozen=True, kw_only=True)
class ZCDPEvent(Event):
    """A rho-zCDP mechanism.

    Parameters
    ----------
    rho : float
        At least 0.

    Examples
    --------
    >>> ZCDPEvent(rho=0.1).to_replace_one().rho
    0.4
    """

    rho: NonNegative

    def _doubled(self) -> dict[str, Any]:
        return {"rho": 4 * self.rho}  # Bun & Steinke 2016, Proposition 1.9


@dataclass(frozen=True, kw_only=True)
class RDPEvent(Event):
    """A mechanism with known bounds on its Rényi divergence at some orders.

    Parameters
    ----------
    orders : sequence of float
        Rényi orders, each above 1, strictly increasing.
    epsilons : sequence of float
        Upper bound on the Rényi divergence at each order, at least 0.
    """

    orders: tuple[Positive, ...]
    epsilons: tuple[NonNegative, ...]

    def __post_init__(self) -> None:
        if not self.orders or len(self.orders) != len(self.epsilons):
            raise ParameterError("orders and epsilons must be non-empty and of equal length")
        if self.orders[0] <= 1 or any(a >= b for a, b in pairwise(self.orders)):
            raise ParameterError("orders must be above 1 and strictly increasing")


@dataclass(frozen=True, kw_only=True)
class SampledGaussianEvent(Event):
    """Steps of the Poisson-sampled Gaussian mechanism, as in DP-SGD.

    Each step reads each row independently with probability ``rate``. Add-remove only. The noise is
    continuous.

    Parameters
    ----------
    rate : float
        Sampling probability, in [0, 1].
    noise_multiplier : float
        Noise standard deviation divided by the clip norm, above 0.
    steps : int
        Number of steps, at least 1.
    """

    rate: Probability
    noise_multiplier: Positive
    steps: CountFrom1

    def __post_init__(self) -> None:
        if self.adjacency != "add-remove":
            raise UnprovenError("SampledGaussianEvent is accounted under add-remove only")


def flatten(events: Event | Iterable[Event]) -> tuple[Event, ...]:
    """Return the elementary events of one event or of a sequence of them, in order.

    >>> [event.epsilon for event in flatten([PureEvent(epsilon=1), PureEvent(epsilon=2)])]
    [1.0, 2.0]
    """
    sequence: Sequence[Event] = (events,) if isinstance(events, Event) else tuple(events)
    for event in sequence:
        if not isinstance(event, Event):
            raise ParameterError(f"expected an Event, got {type(event).__name__}")
    return tuple(part for event in sequence for part in event.flatten())


def convert_adjacency(adjacency: Adjacency, events: Iterable[Event]) -> tuple[Event, ...]:
    """Return the events as facts under one adjacency, converted from add-remove if necessary."""
    if check_adjacency(adjacency) == "replace-one":
        return tuple(event.to_replace_one() for event in events)
    parts = tuple(events)
    for event in parts:
        if event.adjacency != "add-remove":
            kind = type(event).__name__
            name = f"{event.label} (a {kind})" if event.label else f"a {kind}"
            raise UnprovenError(
                f"{name} hides which value a row has (replace-one), with a public number of rows; "
                "from that nothing follows for adding or removing a row. Use a budget with "
                "adjacency='replace-one': it takes add-remove releases as well, and converts them"
            )
    return parts


def unit_of(events: Iterable[Event]) -> tuple[str, int]:
    """Return the unit that all events protect, and the most rows that an event reads of a unit."""
    units = {event.protected_unit() for event in events}
    if len({unit for unit, _ in units}) > 1:
        named = ", ".join(sorted({repr(unit) for unit, _ in units}))
        raise UnprovenError(
            f"releases that protect different units ({named}) cannot be added up: declare the same "
            "unit in every schema of the table, and give each unit a budget of its own"
        )
    return max(units, default=(ROW, 1))
