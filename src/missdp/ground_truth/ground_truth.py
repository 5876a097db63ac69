"""Guarantees for the ground truth: the table before values went missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from missdp.accounting.accountants import DEFAULT_ACCOUNTANTS, FAST_ACCOUNTANTS
from missdp.accounting.conditions import (
    BoundedObservation,
    Condition,
    MissingCompletelyAtRandom,
)
from missdp.accounting.events import Event, flatten
from missdp.accounting.guarantee import Guarantee
from missdp.accounting.neighbours import epsilon_under
from missdp.errors import ParameterError, UnprovenError
from missdp.ground_truth.amplified import AmplifiedEvent, Structure, amplify
from missdp.ground_truth.candidates import Bound
from missdp.ground_truth.structure import DataChosenGates, FixedGates

__all__ = [
    "GroundTruthPrice",
    "ground_truth_guarantee",
    "ground_truth_price",
    "incomplete_guarantee",
]

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
        ``BoundedObservation(p_max)``: whatever its values, a row opens at least one of the gates
        with probability at most ``p_max`` (MAR, MNAR).
    structure : FixedGates or DataChosenGates
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
    """Do what :func:`ground_truth_guarantee` does, and say which bound gave the number.

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
    if isinstance(structure, DataChosenGates):
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
