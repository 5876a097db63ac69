"""Guarantees for the ground truth: the table before values went missing.

An `AmplifiedEvent` carries everything that its smaller number follows from. `ex_post_loss`
describes one outcome of a data-chosen structure; it is not a guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from missdp.accounting.accountants import DEFAULT_ACCOUNTANTS, FAST_ACCOUNTANTS, epsilon_under
from missdp.accounting.conditions import (
    BoundedObservation,
    Condition,
    FixedSchedule,
    MissingCompletelyAtRandom,
)
from missdp.accounting.events import Adjacency, Event, Protects, flatten
from missdp.accounting.filters import FilterEvent
from missdp.accounting.guarantee import Guarantee
from missdp.errors import ParameterError, UnprovenError
from missdp.ground_truth.bounds import Bound, amplify, best_bound
from missdp.ground_truth.gates import ChosenGates, DataChosenGates, FixedGates, Structure

__all__ = [
    "AmplifiedEvent",
    "ExPostLoss",
    "GroundTruthPrice",
    "ex_post_loss",
    "ground_truth_guarantee",
    "ground_truth_price",
    "incomplete_guarantee",
]


@dataclass(frozen=True, kw_only=True)
class AmplifiedEvent(Event):
    """Releases seen from the table before values went missing.

    Accountants see the releases as they are, which bounds them for either table; `epsilon_bound`
    recomputes the amplified figure from the gates, the assumption and the structure.

    Parameters
    ----------
    events : sequence of Event
        What was released, under add-remove adjacency, with gates.
    assumption : MissingCompletelyAtRandom or BoundedObservation
        How values went missing.
    structure : FixedGates, DataChosenGates or ChosenGates
        Who chose the gates.

    Examples
    --------
    >>> from missdp.accounting import BoundedObservation, PureEvent
    >>> event = AmplifiedEvent(
    ...     events=[PureEvent(epsilon=1.0, gate={"a"})],
    ...     assumption=BoundedObservation(0.5),
    ...     structure=FixedGates(),
    ... )
    >>> round(event.epsilon_bound(0.0, adjacency="add-remove", protects="ground-truth"), 4)
    0.6201
    """

    events: tuple[Event, ...]
    assumption: Condition
    structure: Structure

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "events", tuple(self.events))
        if any(event.adjacency != "add-remove" for event in flatten(self.events)):
            raise UnprovenError("amplification is proven under add-remove adjacency only")
        if not isinstance(self.assumption, Condition):
            raise ParameterError("assumption must be a Condition")
        _checked(self.structure, flatten(self.events))

    def flatten(self) -> tuple[Event, ...]:
        """Return the elementary events of the releases."""
        return flatten(self.events)

    def required_conditions(self) -> tuple[Condition, ...]:
        """Return the assumption, who chose the gates, and that scales were fixed in advance.

        Caps are: under them the proofs hold whatever is chosen along the way.
        """
        caps = all(isinstance(event, FilterEvent) for event in self.events)
        return (self.assumption, self.structure, *(() if caps else (FixedSchedule(),)))

    def epsilon_bound(self, delta: float, *, adjacency: Adjacency, protects: Protects) -> float:
        """Return the amplified epsilon at ``delta``; infinite for the incomplete table."""
        if protects != "ground-truth":
            return math.inf
        plain = epsilon_under(self.events, delta, adjacency)
        found = amplify(
            flatten(self.events), delta, self.assumption, self.structure, adjacency, plain=plain
        )
        return math.inf if found is None else found.epsilon


Source = Guarantee | Event | Iterable[Event]


@dataclass(frozen=True, kw_only=True)
class GroundTruthPrice:
    """A guarantee for the ground truth, and how it was reached.

    Attributes
    ----------
    guarantee : Guarantee
        Protects the ground truth; carries every assumption.
    method : str
        The bound that was smallest, in words.
    exact : bool
        False only where the mask mixture was too wide and was bounded from above.
    relaxed : tuple of str
        Attributes that were then treated as always observed.

    Examples
    --------
    >>> from missdp.accounting import MissingCompletelyAtRandom, PureEvent
    >>> price = ground_truth_price(
    ...     PureEvent(epsilon=1.0, gate={"a"}),
    ...     MissingCompletelyAtRandom({"a": 0.5}),
    ...     structure=FixedGates(),
    ... )
    >>> price.method, round(price.guarantee.epsilon, 6)
    ('mask mixture', 0.620115)
    """

    guarantee: Guarantee
    method: str
    exact: bool
    relaxed: tuple[str, ...]


def ground_truth_guarantee(
    source: Source,
    assumption: Condition | None,
    *,
    structure: Structure | None = None,
    delta: float = 0.0,
    conditions: Iterable[Condition] = (),
) -> Guarantee:
    """Return the guarantee that a release gives for the table before values went missing.

    Parameters
    ----------
    source : Guarantee, Event, or iterable of Event
        What was released. Events say by their ``gate`` which rows they read. For a guarantee, its
        events, delta, adjacency and conditions are used.
    assumption : Condition
        How values went missing. ``RowIndependentMissingness()``: no amplification, ε̄ <= ε.
        ``MissingCompletelyAtRandom(observed)``: the best valid bound for independent masks.
        ``BoundedObservation(p_max)``: whatever its values, a row opens at least one of all these
        gates with probability at most ``p_max`` (MAR, MNAR).
    structure : FixedGates, DataChosenGates or ChosenGates
        Whether gates were fixed in advance. Required as soon as an event has a gate and the
        assumption can amplify; it becomes a condition of the result.
    delta : float, default 0.0
        Target δ, where ``source`` is a list of events.
    conditions : iterable of Condition
        Further conditions, such as those of :class:`ObservedRateBound`.

    Returns
    -------
    Guarantee
        With ``protects="ground-truth"`` and the same adjacency; never worse than ``source``.

    Raises
    ------
    UnprovenError
        If no assumption says that rows lose values independently: without one a release that is
        private for the incomplete table need not be private for the ground truth. Also if the
        source rests on a condition that other draws of the missing cells may break, such as
        `DatasetCollection`.
    ParameterError
        If ``structure`` is missing, or contradicts the events.

    Notes
    -----
    Without amplification: given the masks of all other rows, the two incomplete tables differ in
    one row, whatever its mask is; averaging keeps (ε, δ) (Theorem 5.2 of Mohapatra et al. 2024).
    Amplified figures also rest on ``FixedSchedule()``: how many mechanisms there were and how much
    noise they used did not depend on the data either. What was released under an adaptive schedule
    is known by its cap only (`FilterEvent`): that is not amplified, unless all of it reads rows
    behind one gate, which the event then says. If all events are caps, no schedule was fixed.

    Examples
    --------
    >>> from missdp.accounting import LaplaceEvent, MissingCompletelyAtRandom
    >>> marginals = [{"State"}, {"Occupation"}, {"Gender"}, {"Gender", "Income"}]
    >>> events = [LaplaceEvent(sensitivity=1, scale=4.0, gate=gate) for gate in marginals]
    >>> mcar = MissingCompletelyAtRandom({"State": 0.75, "Gender": 0.75, "Income": 0.75})
    >>> guarantee = ground_truth_guarantee(events, mcar, structure=FixedGates())
    >>> round(guarantee.epsilon, 6), guarantee.protects
    (0.792473, 'ground-truth')
    """
    return ground_truth_price(
        source, assumption, structure=structure, delta=delta, conditions=conditions
    ).guarantee


def ground_truth_price(
    source: Source,
    assumption: Condition | None,
    *,
    structure: Structure | None = None,
    delta: float = 0.0,
    conditions: Iterable[Condition] = (),
) -> GroundTruthPrice:
    """Return what `ground_truth_guarantee` returns, and which bound gave the number.

    Parameters
    ----------
    source, assumption, structure, delta, conditions
        As for :func:`ground_truth_guarantee`.

    Returns
    -------
    GroundTruthPrice

    Examples
    --------
    >>> from missdp.accounting import PureEvent, RowIndependentMissingness
    >>> ground_truth_price(PureEvent(epsilon=1.0), RowIndependentMissingness()).method
    'no amplification'
    """
    if assumption is None or not assumption.implies_row_independence:
        raise UnprovenError(
            "nothing is proven for the ground truth unless rows lose values independently of "
            "each other; state an assumption, e.g. RowIndependentMissingness()"
        )
    plain = incomplete_guarantee(source, delta)
    _refuse_limits_on_the_masked_table(plain.conditions)
    events = flatten(plain.events)
    found = Bound(epsilon=plain.epsilon, delta=plain.delta, method="no amplification")
    extra: list[Condition] = [assumption, *conditions]
    proof: tuple[Event, ...] = plain.events
    if isinstance(assumption, MissingCompletelyAtRandom | BoundedObservation) and any(
        event.gate for event in events
    ):
        known = _checked(structure, events)
        amplified = None
        if _explained(plain):
            amplified = amplify(
                events, plain.delta, assumption, known, plain.adjacency, plain=plain.epsilon
            )
        if amplified is not None and amplified.epsilon < found.epsilon:
            found = amplified
            event = AmplifiedEvent(events=plain.events, assumption=assumption, structure=known)
            extra += event.required_conditions()
            proof = (event,)
    guarantee = Guarantee(
        found.epsilon,
        found.delta,
        plain.adjacency,
        "ground-truth",
        (*plain.conditions, *extra),
        proof,
    )
    return GroundTruthPrice(
        guarantee=guarantee, method=found.method, exact=not found.relaxed, relaxed=found.relaxed
    )


def incomplete_guarantee(source: Source, delta: float) -> Guarantee:
    """Return what the source guarantees for the incomplete table, the starting point here.

    Examples
    --------
    >>> from missdp.accounting import PureEvent
    >>> incomplete_guarantee(PureEvent(epsilon=0.5), 0.0).epsilon
    0.5
    """
    if not isinstance(source, Guarantee):
        return Guarantee.from_events(source, delta=delta)
    if delta != 0.0:
        raise ParameterError("delta is for events; a guarantee brings its own")
    if source.protects != "incomplete":
        raise UnprovenError("this guarantee is for the ground truth already; start from the events")
    return source


def _refuse_limits_on_the_masked_table(conditions: Iterable[Condition]) -> None:
    """Refuse guarantees that hold only for some incomplete tables.

    Averaging over masks uses the guarantee at every mask, also where such a condition fails.
    """
    for condition in conditions:
        if not condition.holds_for_every_mask:
            raise UnprovenError(
                f"the guarantee rests on a {type(condition).__name__} condition, which may fail "
                "for other draws of the missing cells; nothing is proven for the ground truth"
            )


def _checked(structure: Structure | None, events: Sequence[Event]) -> Structure:
    if isinstance(structure, DataChosenGates | ChosenGates):
        structure.check([event.gate for event in events if event.gate])
    elif not isinstance(structure, FixedGates):
        raise ParameterError(
            "say whether the gates were fixed in advance: structure=FixedGates() or "
            "structure=DataChosenGates(...)"
        )
    return structure


def _explained(plain: Guarantee) -> bool:
    """Whether the events account for the whole stated loss.

    A guarantee may state more than its events (a filter over an adaptive schedule, a proof of its
    own); amplifying only the events would then forget the rest.
    """
    for accountants in (FAST_ACCOUNTANTS, DEFAULT_ACCOUNTANTS):
        try:
            known = epsilon_under(
                plain.events, plain.delta, plain.adjacency, accountants=accountants
            )
        except UnprovenError:
            continue
        return plain.epsilon <= known * (1.0 + 1e-9)
    return False


@dataclass(frozen=True, kw_only=True)
class ExPostLoss:
    """The loss of one structure, as if it had been fixed in advance; **not** a guarantee.

    It cannot be composed, converted, or turned into a :class:`~missdp.accounting.Guarantee`.

    Attributes
    ----------
    epsilon, delta : float
        Bound on the loss of the events that were passed, for the structure they have.
    method : str
        How it was computed, in words.

    Examples
    --------
    >>> from missdp.accounting import MissingCompletelyAtRandom, PureEvent
    >>> print(ex_post_loss(PureEvent(epsilon=1.0, gate={"a"}),
    ...                    MissingCompletelyAtRandom({"a": 0.5})))
    ex-post loss 0.620115 of the structure that was chosen (mask mixture); not a guarantee
    """

    epsilon: float
    delta: float
    method: str

    def __str__(self) -> str:
        delta = f" (delta {self.delta:.6g})" if self.delta else ""
        return (
            f"ex-post loss {self.epsilon:.6g}{delta} of the structure that was chosen "
            f"({self.method}); not a guarantee"
        )


def ex_post_loss(
    events: Event | Iterable[Event],
    assumption: MissingCompletelyAtRandom | BoundedObservation,
    *,
    delta: float = 0.0,
) -> ExPostLoss:
    """Return the loss of the structure that the data chose, as if it had been fixed in advance.

    Parameters
    ----------
    events : Event or iterable of Event
        The measurements, under add-remove adjacency. What chose their gates is not covered
        unless its events are passed too.
    assumption : MissingCompletelyAtRandom or BoundedObservation
        How values went missing.
    delta : float, default 0.0
        δ at which to evaluate.

    Returns
    -------
    ExPostLoss
        A description of one outcome. Reporting it as a guarantee for a data-chosen structure is
        wrong: another outcome of the same release may lose more. For a guarantee, see
        :func:`ground_truth_guarantee` with :class:`DataChosenGates`.

    Notes
    -----
    It replaces the figure of Mohapatra et al. (2024), §6.2.3, which is given as a guarantee there.

    Examples
    --------
    >>> from missdp.accounting import MissingCompletelyAtRandom, PureEvent
    >>> chosen = [PureEvent(epsilon=0.5, gate={"a"}), PureEvent(epsilon=0.5, gate={"b"})]
    >>> round(ex_post_loss(chosen, MissingCompletelyAtRandom({"a": 0.5, "b": 0.5})).epsilon, 4)
    0.5619
    """
    plain = incomplete_guarantee(events, delta)
    parts = flatten(plain.events)
    found = best_bound(parts, plain.delta, assumption, FixedGates())
    if found is None or found.epsilon > plain.epsilon:
        found = Bound(epsilon=plain.epsilon, delta=plain.delta, method="no amplification")
    return ExPostLoss(epsilon=found.epsilon, delta=found.delta, method=found.method)
