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
"""Neighbouring relation of tables, under which a privacy guarantee holds.

``"add-remove"``: one table has one row more. ``"replace-one"``: one row is replaced by another row,
so the number of rows is not protected.
"""
Protects = Literal["incomplete", "ground-truth"]
"""Table that a privacy guarantee protects.

``"incomplete"``: the table of the curator, with its missing cells. ``"ground-truth"``: the table
before values went missing.
"""

RequiredAttributes = Annotated[
    frozenset[str] | None,
    Field(description="a collection of attribute names, not one string"),
    BeforeValidator(as_set),
]
"""Attributes that a row must have observed to be read, or None if every row is read."""

ROW = "row"
"""The unit of protection where nothing else is declared."""


def check_adjacency(value: str) -> Adjacency:
    """Return the name of a neighbouring relation, after a check.

    Parameters
    ----------
    value : str
        The name.

    Returns
    -------
    {"add-remove", "replace-one"}
        The name.

    Raises
    ------
    ParameterError
        If it is another text.
    """
    adjacency: Adjacency = check_choice("adjacency", value, get_args(Adjacency))
    return adjacency


@dataclass(frozen=True, kw_only=True)
class Event(Record, abstract=True):
    """Base class of accounting events: the facts about a release from which its cost follows.

    An event states noise and sensitivity, or a privacy parameter that is known. Budgets and
    guarantees compute costs from events, and never from data. A subclass is a frozen dataclass. It
    overrides ``_doubled`` if a replace-one form is proven for it. Every kind of event has these
    parameters.

    Parameters
    ----------
    label : str, default ""
        A public name for reports.
    required : frozenset of str or None, default None
        Names of attributes. The mechanism reads a row only if all of them are observed (not
        missing) in it. None and the empty set: it reads every row.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The neighbouring relation under which the numbers of this event (sensitivities, epsilon,
        rho) are true.

    Raises
    ------
    ParameterError
        If a number is out of range, or a field has the wrong type.

    Examples
    --------
    >>> from missdp.accounting import Event, LaplaceEvent
    >>> event = LaplaceEvent(sensitivity=1, scale=2.0, required={"age"})
    >>> Event.from_json(event.to_json()) == event
    True
    """

    label: str = ""
    required: RequiredAttributes = None
    adjacency: Adjacency = "add-remove"

    def flatten(self) -> tuple[Event, ...]:
        """Return the elementary accounting events whose costs bound the cost of an event.

        Returns
        -------
        tuple of Event
            This event itself, unless a subclass states several releases or a cap. Public.
        """
        return (self,)

    def epsilon_bound(self, delta: float, *, adjacency: Adjacency, protects: Protects) -> float:
        """Return an epsilon that an accounting event proves by a separate proof, or infinity.

        Examples of separate proofs are amplification by missing values and a test before a release.
        The code of the proof recomputes the epsilon whenever a guarantee states it.

        Parameters
        ----------
        delta : float
            The delta of the guarantee, in [0, 1).
        adjacency : {"add-remove", "replace-one"}
            The neighbouring relation of the guarantee.
        protects : {"incomplete", "ground-truth"}
            The protected table: the incomplete table, or the table before values went missing.

        Returns
        -------
        float
            At least 0. Infinite if this event has no separate proof. Public.
        """
        del delta, adjacency, protects
        return math.inf

    def required_conditions(self) -> tuple[Record, ...]:
        """Return the assumptions that the separate proof of an accounting event needs.

        `Event.epsilon_bound` describes separate proofs. A `Guarantee` without these conditions
        raises an error.

        Returns
        -------
        tuple of Condition
            Public. Empty unless a subclass has a separate proof.
        """
        return ()

    def protected_unit(self) -> tuple[str, int]:
        """Return the unit of protection of a release, and its largest number of rows read.

        A unit is a single row, or all rows with one value in an identifying column, such as a
        person.

        Returns
        -------
        unit : str
            ``"row"``, or the name of the identifying column.
        rows : int
            Largest number of rows of one unit that are read, at least 1. Public.

        Raises
        ------
        UnprovenError
            If the event consists of events that protect different units.
        """
        return unit_of(getattr(self, "events", ()))

    def to_replace_one(self) -> Event:
        """Return the cost of a release for neighbouring tables in which one row is replaced.

        Replacing a row is removing a row and adding another row. So the numbers follow from two
        add-remove steps.

        Returns
        -------
        Event
            An event with the cost of two add-remove steps, or the event itself if it already is a
            replace-one event. Public.

        Raises
        ------
        UnprovenError
            If no conversion is proven for this kind of event.
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
    """Accounting event of a release by an epsilon-DP mechanism about which nothing else is known.

    Parameters
    ----------
    epsilon : float
        Pure epsilon under ``adjacency``, finite and at least 0.
    label : str, default ""
        A public name for reports.
    required : frozenset of str or None, default None
        Names of attributes that a row must have observed (not missing) to be read. None and the
        empty set: every row is read.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The neighbouring relation under which the numbers of this event are true.

    Raises
    ------
    ParameterError
        If epsilon is out of range, or a field has the wrong type.

    Examples
    --------
    >>> from missdp.accounting import PureEvent
    >>> PureEvent(epsilon=0.5).to_replace_one().epsilon
    1.0
    """

    epsilon: NonNegative

    def _doubled(self) -> dict[str, Any]:
        return {"epsilon": 2 * self.epsilon}


@dataclass(frozen=True, kw_only=True)
class SelectionEvent(PureEvent):
    """Accounting event of a selection by the exponential mechanism (Gumbel noise).

    Its privacy loss lies in an interval of length epsilon (bounded range, Durfee & Rogers 2019). So
    it is epsilon-DP. It is also (epsilon^2 / 8)-zCDP, which is better than for an arbitrary
    epsilon-DP mechanism (Cesar & Rogers 2021).

    Parameters
    ----------
    epsilon : float
        Pure epsilon of the selection under ``adjacency``, finite and at least 0. For Gumbel
        noise, it is ``2 * sensitivity / scale``.
    label : str, default ""
        A public name for reports.
    required : frozenset of str or None, default None
        Names of attributes that a row must have observed (not missing) to be read. None and the
        empty set: every row is read.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The neighbouring relation under which the numbers of this event are true.

    Raises
    ------
    ParameterError
        If epsilon is out of range, or a field has the wrong type.

    References
    ----------
    Durfee, Rogers (2019), "Practical differentially private top-k selection with pay-what-you-get
    composition", NeurIPS.

    Cesar, Rogers (2021), "Bounding, concentrating, and truncating: unifying privacy loss
    composition for data analytics", ALT.

    Examples
    --------
    >>> from missdp.accounting import SelectionEvent
    >>> SelectionEvent(epsilon=0.5).to_replace_one().epsilon
    1.0
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
    """Accounting event of a release with Laplace noise on every number of its answer.

    With ``discrete=True`` (the default) the answer and the noise are integers. The noise has mass
    proportional to exp(-abs(x) / scale). The discrete privacy loss counts then, which is *larger*
    than the continuous privacy loss. With ``discrete=False`` answer and noise are real numbers.

    Parameters
    ----------
    sensitivity : float
        L1 sensitivity of the answer under ``adjacency``: at least 1 if discrete, above 0 otherwise.
    scale : float
        Noise scale b, above 0, in the unit of the answer.
    discrete : bool, default True
        Whether answer and noise are integers.
    label : str, default ""
        A public name for reports.
    required : frozenset of str or None, default None
        Names of attributes that a row must have observed (not missing) to be read. None and the
        empty set: every row is read.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The neighbouring relation under which the numbers of this event are true.

    Raises
    ------
    ParameterError
        If a number is out of range, or a field has the wrong type.

    Examples
    --------
    >>> from missdp.accounting import LaplaceEvent
    >>> LaplaceEvent(sensitivity=1, scale=2.0).to_replace_one().sensitivity
    2.0
    """

    scale: Positive


@dataclass(frozen=True, kw_only=True)
class GaussianEvent(_NoiseEvent):
    """Accounting event of a release with Gaussian noise on every number of its answer.

    With ``discrete=True`` (the default) answer and noise are integers. The noise has mass
    proportional to exp(-x^2 / (2 sigma^2)). The zCDP and RDP bounds of the continuous Gaussian hold
    for it (Canonne, Kamath & Steinke 2020, Theorem 14). The continuous privacy loss distribution
    does not hold. The discrete distribution is composed if the sensitivity is below 2, since the
    change of the answer is then a known integer. With ``discrete=False`` every bound is the bound
    of continuous noise.

    Parameters
    ----------
    sensitivity : float
        L2 sensitivity of the answer under ``adjacency``: at least 1 if discrete, above 0 otherwise.
    sigma : float
        Noise parameter, above 0, in the unit of the answer. It is the standard deviation if
        continuous.
    discrete : bool, default True
        Whether answer and noise are integers.
    label : str, default ""
        A public name for reports.
    required : frozenset of str or None, default None
        Names of attributes that a row must have observed (not missing) to be read. None and the
        empty set: every row is read.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The neighbouring relation under which the numbers of this event are true.

    Raises
    ------
    ParameterError
        If a number is out of range, or a field has the wrong type.

    References
    ----------
    Canonne, Kamath, Steinke (2020), "The discrete Gaussian for differential privacy", NeurIPS.

    Examples
    --------
    >>> from missdp.accounting import GaussianEvent
    >>> GaussianEvent(sensitivity=1, sigma=5.0).to_replace_one().sensitivity
    2.0
    """

    sigma: Positive


@dataclass(frozen=True, kw_only=True)
class ApproximateEvent(Event):
    """Accounting event of a release about which only (epsilon, delta)-DP is known.

    Use it for releases with a small probability of failure. A `Filter` pays for it only if its
    ``failure`` covers the delta.

    Parameters
    ----------
    epsilon : float
        Epsilon of the release under ``adjacency``, finite and at least 0.
    delta : float
        Delta of the release under ``adjacency``, in [0, 1).
    label : str, default ""
        A public name for reports.
    required : frozenset of str or None, default None
        Names of attributes that a row must have observed (not missing) to be read. None and the
        empty set: every row is read.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The neighbouring relation under which the numbers of this event are true.

    Raises
    ------
    ParameterError
        If a number is out of range.

    Examples
    --------
    >>> from missdp.accounting import ApproximateEvent
    >>> ApproximateEvent(epsilon=1.0, delta=1e-6).to_replace_one().epsilon
    2.0
    """

    epsilon: NonNegative
    delta: Delta

    def _doubled(self) -> dict[str, Any]:
        epsilon, delta = replace_one_of(self.epsilon, self.delta)
        if delta >= 1:
            raise UnprovenError("delta of this ApproximateEvent reaches 1 under replace-one")
        return {"epsilon": epsilon, "delta": delta}


@dataclass(frozen=True, kw_only=True)
class ZCDPEvent(Event):
    """Accounting event of a release by a rho-zCDP mechanism about which nothing else is known.

    zCDP is zero-concentrated differential privacy (Bun & Steinke 2016), in which rhos add up.

    Parameters
    ----------
    rho : float
        The zCDP parameter of the release under ``adjacency``, finite and at least 0.
    label : str, default ""
        A public name for reports.
    required : frozenset of str or None, default None
        Names of attributes that a row must have observed (not missing) to be read. None and the
        empty set: every row is read.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The neighbouring relation under which the numbers of this event are true.

    Raises
    ------
    ParameterError
        If rho is out of range.

    References
    ----------
    Bun, Steinke (2016), "Concentrated differential privacy: simplifications, extensions, and lower
    bounds", TCC.

    Examples
    --------
    >>> from missdp.accounting import ZCDPEvent
    >>> ZCDPEvent(rho=0.1).to_replace_one().rho
    0.4
    """

    rho: NonNegative

    def _doubled(self) -> dict[str, Any]:
        return {"rho": 4 * self.rho}  # Bun & Steinke 2016, Proposition 1.9


@dataclass(frozen=True, kw_only=True)
class RDPEvent(Event):
    """Accounting event of a release with known bounds on its Rényi divergence at some orders.

    Use it for a mechanism whose Rényi differential privacy (RDP) is known. A `Filter` does not pay
    for it, since RDP is not one of its privacy measures. A `Composition` does.

    Parameters
    ----------
    orders : sequence of float
        Rényi orders, each above 1, strictly increasing.
    epsilons : sequence of float
        Upper bound on the Rényi divergence at each order, at least 0.
    label : str, default ""
        A public name for reports.
    required : frozenset of str or None, default None
        Names of attributes that a row must have observed (not missing) to be read. None and the
        empty set: every row is read.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The neighbouring relation under which the numbers of this event are true.

    Raises
    ------
    ParameterError
        If the sequences are empty or differ in length. Also if the orders are not increasing
        and above 1, or a bound is negative.

    References
    ----------
    Mironov (2017), "Rényi differential privacy", CSF.

    Examples
    --------
    >>> from missdp.accounting import RDPEvent
    >>> from missdp.accounting import epsilon_of
    >>> event = RDPEvent(orders=(2.0, 8.0), epsilons=(0.1, 0.4))
    >>> epsilon_of(event, 1e-6) > 1
    True
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
    """Accounting event of a training whose steps add Gaussian noise to sums over sampled rows.

    This is the Poisson-sampled Gaussian mechanism of DP-SGD (Abadi et al. 2016). Each step reads
    each row independently with probability ``rate``. The noise is continuous. Only add-remove
    adjacency is supported.

    Parameters
    ----------
    rate : float
        Sampling probability, in [0, 1].
    noise_multiplier : float
        Standard deviation of the noise divided by the clip norm (largest L2 norm of the vector of a
        row), above 0.
    steps : int
        Number of steps, at least 1.
    label : str, default ""
        A public name for reports.
    required : frozenset of str or None, default None
        Names of attributes that a row must have observed (not missing) to be read. None and the
        empty set: every row is read.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The neighbouring relation under which the numbers of this event are true.

    Raises
    ------
    UnprovenError
        If the adjacency is not add-remove.
    ParameterError
        If a number is out of range.

    References
    ----------
    Abadi et al. (2016), "Deep learning with differential privacy", CCS.

    Examples
    --------
    >>> from missdp.accounting import SampledGaussianEvent
    >>> from missdp.accounting import epsilon_of
    >>> event = SampledGaussianEvent(rate=0.01, noise_multiplier=4.0, steps=100)
    >>> epsilon_of(event, 1e-6) < 0.5
    True
    """

    rate: Probability
    noise_multiplier: Positive
    steps: CountFrom1

    def __post_init__(self) -> None:
        if self.adjacency != "add-remove":
            raise UnprovenError("SampledGaussianEvent is accounted under add-remove only")


def flatten(events: Event | Iterable[Event]) -> tuple[Event, ...]:
    """Return the elementary accounting events of one event or of several events.

    A cap of an adaptive sequence (`FilterEvent`) becomes its capacity.

    Parameters
    ----------
    events : Event or iterable of Event
        The events of releases.

    Returns
    -------
    tuple of Event
        In the order of ``events``. Public.

    Raises
    ------
    ParameterError
        If an element is not an `Event`.

    Examples
    --------
    >>> from missdp.accounting import PureEvent, flatten
    >>> [event.epsilon for event in flatten([PureEvent(epsilon=1), PureEvent(epsilon=2)])]
    [1.0, 2.0]
    """
    sequence: Sequence[Event] = (events,) if isinstance(events, Event) else tuple(events)
    for event in sequence:
        if not isinstance(event, Event):
            raise ParameterError(f"expected an Event, got {type(event).__name__}")
    return tuple(part for event in sequence for part in event.flatten())


def convert_adjacency(adjacency: Adjacency, events: Iterable[Event]) -> tuple[Event, ...]:
    """Return accounting events as facts under one neighbouring relation.

    Parameters
    ----------
    adjacency : {"add-remove", "replace-one"}
        The relation. Add-remove events are converted for ``"replace-one"``.
    events : iterable of Event
        Elementary events.

    Returns
    -------
    tuple of Event
        In the given order.

    Raises
    ------
    UnprovenError
        If a replace-one event is to become an add-remove event, or an event has no replace-one
        form.
    """
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
    """Return the unit of protection of several releases, and the largest number of its rows read.

    Parameters
    ----------
    events : iterable of Event
        Accounting events of the releases.

    Returns
    -------
    unit : str
        ``"row"``, or the name of the column that identifies the rows of a unit.
    rows : int
        Largest number of rows of one unit that an event reads.

    Raises
    ------
    UnprovenError
        If the events protect different units.
    """
    units = {event.protected_unit() for event in events}
    if len({unit for unit, _ in units}) > 1:
        named = ", ".join(sorted({repr(unit) for unit, _ in units}))
        raise UnprovenError(
            f"releases that protect different units ({named}) cannot be added up: declare the same "
            "unit in every schema of the table, and give each unit a budget of its own"
        )
    return max(units, default=(ROW, 1))
