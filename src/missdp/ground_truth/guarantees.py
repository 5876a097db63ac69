"""Guarantees for the ground truth, the table before values went missing.

Of events, of fitted models, of fits that are planned, and of several releases of one table. All of
the last see one draw of the missing cells: a row that was complete enough to be read by one is more
likely complete enough for the next, so that amplified figures do not add up. Their events are put
together first, and amplified then.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic.dataclasses import dataclass

from missdp.accounting.composition import proven_epsilon
from missdp.accounting.events import Adjacency, Event, Protects, SampledGaussianEvent, flatten
from missdp.accounting.exact import boundary, exact, float_up
from missdp.accounting.filters import FilterEvent
from missdp.accounting.guarantee import Guarantee
from missdp.accounting.measures import is_pure, zcdp_rho_of
from missdp.conditions import (
    BoundedObservation,
    Condition,
    FixedSchedule,
    MissingCompletelyAtRandom,
)
from missdp.errors import ParameterError, UnprovenError, did_you_mean, number
from missdp.ground_truth.bounds import amplify, or_infinite
from missdp.required_attributes import (
    ChosenRequirements,
    DataChosenRequirements,
    FixedRequirements,
    Structure,
)
from missdp.schema import Schema

if TYPE_CHECKING:
    from missdp.synth import Synthesizer

_MOST = 64.0
_PRECISE = 1e-4
# The events of a fit that trains may stay below its epsilon by this factor: noise is calibrated.
_CALIBRATED = 1.002

Parts: TypeAlias = tuple[Guarantee, Structure | None]
Release: TypeAlias = tuple[Guarantee, Structure | None, Condition]  # and what is assumed of it


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
    structure : FixedRequirements, DataChosenRequirements or ChosenRequirements
        Who chose the gates.

    Examples
    --------
    >>> from missdp.accounting import BoundedObservation, PureEvent
    >>> event = AmplifiedEvent(
    ...     events=[PureEvent(epsilon=1.0, required={"a"})],
    ...     assumption=BoundedObservation(0.5),
    ...     structure=FixedRequirements(),
    ... )
    >>> round(event.epsilon_bound(0.0, adjacency="add-remove", protects="ground-truth"), 4)
    0.6201
    """

    events: tuple[Event, ...]
    assumption: Condition
    structure: Structure

    def __post_init__(self) -> None:
        if any(event.adjacency != "add-remove" for event in self.flatten()):
            raise UnprovenError("amplification is proven under add-remove adjacency only")
        _checked(self.structure, self.flatten())

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
        plain = proven_epsilon(self.events, delta, adjacency)
        events, known = self.flatten(), (self.assumption, self.structure)
        return amplify(events, delta, *known, adjacency, plain=plain)[0]


def ground_truth_guarantee(
    source: Synthesizer | Guarantee | Event | Iterable[Event],
    assumption: Condition | None,
    *,
    structure: Structure | None = None,
    delta: float = 0.0,
    conditions: Iterable[Condition] = (),
) -> Guarantee:
    """Return the guarantee that a release gives for the table before values went missing.

    Parameters
    ----------
    source : fitted synthesizer, Guarantee, Event, or iterable of Event
        What was released. Events say by their ``required`` which rows they read. For a
        guarantee, its events, delta, adjacency and conditions are used; a fit knows them all.
    assumption : Condition
        How values went missing. ``RowIndependentMissingness()``: no amplification, ε̄ <= ε.
        ``MissingCompletelyAtRandom(observed)``: the best valid bound for independent masks.
        ``BoundedObservation(p_max)``: whatever its values, a row opens at least one of all these
        gates with probability at most ``p_max`` (MAR, MNAR).
    structure : FixedRequirements, DataChosenRequirements or ChosenRequirements
        Whether gates were fixed in advance. Required as soon as an event has a gate and the
        assumption can amplify; it becomes a condition of the result.
    delta : float, default 0.0
        Target δ, where ``source`` is a list of events.
    conditions : iterable of Condition
        Further conditions, such as the confidence at which a rate is known.

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
    >>> events = [LaplaceEvent(sensitivity=1, scale=4.0, required=names) for names in marginals]
    >>> mcar = MissingCompletelyAtRandom({"State": 0.75, "Gender": 0.75, "Income": 0.75})
    >>> guarantee = ground_truth_guarantee(events, mcar, structure=FixedRequirements())
    >>> round(guarantee.epsilon, 6), guarantee.protects
    (0.792473, 'ground-truth')
    """
    if hasattr(source, "ground_truth_parts"):
        if structure is not None or delta != 0.0:
            raise ParameterError("structure and delta are for events; a fit brings its own")
        fit: Any = source
        parts = fit.ground_truth_parts()
        _check_names(assumption, fit.schema_)
        return _better(fit.guarantee_, parts, assumption, conditions)
    if assumption is None or not assumption.implies_row_independence:
        raise UnprovenError(
            "nothing is proven for the ground truth unless rows lose values independently of "
            "each other; state an assumption, e.g. RowIndependentMissingness()"
        )
    plain = _incomplete(source, delta)
    _refuse_limits_on_the_masked_table(plain.conditions)
    events = flatten(plain.events)
    found, proof = (plain.epsilon, plain.delta), plain.events
    extra = [assumption, *conditions]
    can_amplify = isinstance(assumption, MissingCompletelyAtRandom | BoundedObservation)
    if can_amplify and any(event.required for event in events):
        who = _checked(structure, events)
        better = amplify(events, plain.delta, assumption, who, plain.adjacency, plain=plain.epsilon)
        if better[0] < plain.epsilon and _explained(plain):
            event = AmplifiedEvent(events=plain.events, assumption=assumption, structure=who)
            extra += event.required_conditions()
            found, proof = better, (event,)
    conditions = (*plain.conditions, *extra)
    return Guarantee(*found, plain.adjacency, "ground-truth", conditions, proof)


def planned_ground_truth(
    synthesizer: Synthesizer, schema: Schema, assumption: Condition
) -> Guarantee:
    """Return what a fit with these parameters will guarantee for the ground truth, at most.

    Parameters
    ----------
    synthesizer : Synthesizer
        Parameters; it need not be fitted, and is not changed.
    schema : Schema
        Of the private table. Where only codes of it are at hand (`Table.from_codes`), no bins are
        found: plan for it with ``cuts="equal"``.
    assumption : Condition
        How values go missing; see `ground_truth_guarantee`.

    Returns
    -------
    Guarantee
        Without the conditions that the fit adds. What the fit states afterwards is never larger.

    Examples
    --------
    >>> from missdp import MST
    >>> from missdp.datasets import yrbss
    >>> schema = yrbss().schema()
    >>> known = MissingCompletelyAtRandom(dict.fromkeys(schema.nullable, 0.7))
    >>> planned = MST(epsilon=1.0, missing="complete-rows")
    >>> planned_ground_truth(planned, schema, known).epsilon < 0.3
    True
    """
    _check_names(assumption, schema)
    return _better(*synthesizer.planned_parts(schema), assumption, ())


def epsilon_for_ground_truth(
    epsilon: float, synthesizer: Synthesizer, schema: Schema, assumption: Condition
) -> float:
    """Return the epsilon to fit with, for a guarantee of ``epsilon`` for the ground truth.

    Parameters
    ----------
    epsilon : float
        What is wanted for the table before values went missing, above 0.
    synthesizer : Synthesizer
        All other parameters; its own epsilon counts for nothing.
    schema : Schema
        Of the private table; see `planned_ground_truth`.
    assumption : Condition
        How values go missing. State it from other sources than the private table.

    Returns
    -------
    float
        At least ``epsilon``, and ``epsilon`` itself where nothing is amplified; at most 64. Found
        by bisection, to a relative 1e-4, and never too large: the guarantee of the fit for the
        ground truth is at most what was asked.

    Examples
    --------
    >>> from missdp import PrivBayes
    >>> from missdp.datasets import yrbss
    >>> schema = yrbss().schema()
    >>> known = MissingCompletelyAtRandom(dict.fromkeys(schema.nullable, 0.7))
    >>> wanted = PrivBayes(epsilon=1.0, missing="complete-rows")
    >>> found = epsilon_for_ground_truth(1.0, wanted, schema, known)
    >>> found > 2
    True
    """
    goal = number("epsilon", epsilon, most=_MOST, open_end=True)
    _check_names(assumption, schema)

    def fits(candidate: float) -> bool:
        parts = synthesizer.planned_parts(schema, epsilon=candidate)
        return _better(*parts, assumption, ()).epsilon <= goal

    low = high = goal
    while high < _MOST and fits(high := min(_MOST, 1.5 * low)):
        low = high
    if not fits(low * (1 + _PRECISE)):
        return low
    return boundary(lambda candidate: not fits(candidate), low, high, tolerance=_PRECISE)[0]


def _better(
    whole: Guarantee, parts: Parts, assumption: Condition | None, conditions: Iterable[Condition]
) -> Guarantee:
    """Return the better guarantee for the ground truth: of a fit as a whole, or of its parts."""
    both = [(whole, None), parts] if parts[1] else [(whole, None)]
    found = [
        ground_truth_guarantee(one, assumption, structure=who, conditions=conditions)
        for one, who in both
    ]
    return min(found, key=lambda guarantee: guarantee.epsilon)


def _check_names(assumption: Condition | None, schema: Schema) -> None:
    """Refuse rates that contradict public facts: a mistyped name, or another table."""
    _refuse_differences(schema)
    if not isinstance(assumption, MissingCompletelyAtRandom):
        return
    stated = dict(assumption.observed)
    if unknown := sorted(set(stated) - set(schema.names)):
        raise ParameterError(
            f"observed names attributes that the schema does not have: {', '.join(unknown)}. It "
            f"has {', '.join(schema.names)}{did_you_mean(unknown[0], schema.names)}"
        )
    never = [name for name, rate in stated.items() if rate < 1 and name not in schema.nullable]
    if never:
        raise ParameterError(
            f"observed must be 1 for attributes that the schema says are never missing: "
            f"{', '.join(never)}"
        )


def _refuse_differences(schema: Schema) -> None:
    if computed := sorted({*schema.names} - {*schema.input_columns.names}):
        raise UnprovenError(
            f"nothing is proven yet for the ground truth where dates are computed from each other: "
            f"{', '.join(computed)}; leave such differences out of the schema"
        )


def _incomplete(source: Guarantee | Event | Iterable[Event], delta: float) -> Guarantee:
    """Return what the source guarantees for the incomplete table, the starting point here."""
    if not isinstance(source, Guarantee):
        return Guarantee.from_events(source, delta=delta)
    if delta != 0.0:
        raise ParameterError("delta applies only to events: a Guarantee already has one")
    if source.protects != "incomplete":
        raise UnprovenError("this guarantee is for the ground truth already; start from the events")
    return source


def _refuse_limits_on_the_masked_table(conditions: Iterable[Condition]) -> None:
    """Refuse guarantees of only some incomplete tables: averaging uses them at every mask."""
    for condition in conditions:
        if not condition.holds_for_every_mask:
            raise UnprovenError(
                f"the guarantee rests on a {type(condition).__name__} condition, which may fail "
                "for other draws of the missing cells; nothing is proven for the ground truth"
            )


def _checked(structure: Structure | None, events: Sequence[Event]) -> Structure:
    if not isinstance(structure, FixedRequirements | DataChosenRequirements | ChosenRequirements):
        raise ParameterError(
            "say whether the gates were fixed in advance: structure=FixedRequirements() or "
            "structure=DataChosenRequirements(...)"
        )
    if isinstance(structure, DataChosenRequirements):
        structure.check([event.required for event in events if event.required])
    return structure


def _explained(plain: Guarantee) -> bool:
    """Whether the events account for the whole stated loss, and may be amplified alone."""
    bound = partial(proven_epsilon, plain.events, plain.delta, plain.adjacency)
    trained = any(isinstance(event, SampledGaussianEvent) for event in flatten(plain.events))
    return plain.epsilon <= or_infinite(bound) * (_CALIBRATED if trained else 1 + 1e-9) < math.inf


def joint(
    releases: Iterable[Synthesizer | Guarantee],
    assumption: Condition,
    *,
    delta: float | None = None,
) -> Guarantee:
    """Return what several releases of one table guarantee together for the ground truth.

    Parameters
    ----------
    releases : iterable of fitted synthesizers and Guarantees
        Of one and the same table, under add-remove adjacency. A guarantee is either for the ground
        truth, under the same assumption, and is then taken apart into its events; or for the
        incomplete table, and has no gates.
    assumption : Condition
        How values went missing, in all releases at once. ``BoundedObservation(p)`` bounds the
        chance to open any gate of *one* release. Releases share it if every gate of one holds a
        gate of the others; else the bounds add up, which is stated as a condition of its own. With
        ``BoundedObservation(p, together=True)`` p is a bound for the gates of all of them.
    delta : float, optional
        By default the sum of their deltas.

    Returns
    -------
    Guarantee
        For the ground truth. It rests on `FixedSchedule`: which releases there are, and how large
        each is, did not depend on what the others answered. Never worse than all of them together
        without amplification.

    Raises
    ------
    ParameterError
        If something is no such release: amplified numbers do not add up.
    UnprovenError
        If a guarantee rests on another assumption, or was converted.

    Notes
    -----
    Caps of releases follow each other as those of one fit do. If marginals were chosen in several
    of them, the family is that of all, each release's by itself, and no marginal of one release
    gets a larger share of the sum than it might of its own. Gates that were fixed may be counted
    as chosen, and gates of tables in pure epsilon as those of single attributes.

    Examples
    --------
    >>> from missdp.accounting import BoundedObservation, PureEvent
    >>> known, fixed = BoundedObservation(0.5), FixedRequirements()
    >>> event = PureEvent(epsilon=1.0, required={"a"})
    >>> one = ground_truth_guarantee(event, known, structure=fixed)
    >>> round(one.epsilon, 2), round(joint([one, one], known).epsilon, 2)
    (0.62, 1.43)
    """
    found = [_release(release, assumption) for release in releases]
    if not found:
        raise ParameterError("joint needs at least one release")
    guarantees = [guarantee for guarantee, _, _ in found]
    if delta is None:
        delta = float_up(sum((exact(g.delta) for g in guarantees), exact(0.0)))
    events, structure = _merged(found)
    conditions = [c for g in guarantees for c in g.conditions]
    if len(found) > 1:
        conditions.append(FixedSchedule())
    plain = Guarantee.from_events(events, delta=delta, conditions=conditions)
    known: Condition = assumption
    if isinstance(assumption, BoundedObservation) and not assumption.together:
        known, structure = _of_all(found, structure)
    return ground_truth_guarantee(plain, known, structure=structure, conditions=(assumption,))


def _release(release: Synthesizer | Guarantee, assumption: Condition) -> Release:
    """Return a release by what it guarantees for the incomplete table."""
    parts = getattr(release, "ground_truth_parts", None)
    if parts:
        _refuse_differences(release.schema_)  # type: ignore[union-attr]
    guarantee, structure = parts() if parts else (release, None)
    if not isinstance(guarantee, Guarantee):
        raise ParameterError(
            "releases are fitted synthesizers or guarantees: all of them see one draw of the "
            "missing cells, so that amplified numbers do not add up"
        )
    if guarantee.adjacency != "add-remove":
        raise UnprovenError("amplification is proven under add-remove adjacency only")
    if guarantee.protects == "ground-truth":
        return _taken_apart(guarantee, assumption)
    if structure is None and any(event.required for event in flatten(guarantee.events)):
        raise ParameterError(
            "who chose the gates is not known of a guarantee for the incomplete table; pass what "
            "ground_truth_guarantee made of it"
        )
    return guarantee, structure, assumption


def _taken_apart(guarantee: Guarantee, assumption: Condition) -> Release:
    """Return a guarantee for the ground truth as the one for the incomplete table behind it."""
    events, structure, known = guarantee.events, None, assumption
    rests = assumption in guarantee.conditions
    if isinstance(assumption, BoundedObservation) and assumption.together:
        rests = any(isinstance(c, BoundedObservation) for c in guarantee.conditions)
    event = events[0] if len(events) == 1 else None
    if isinstance(event, AmplifiedEvent):
        events, structure, known = event.events, event.structure, event.assumption
    elif any(e.required for e in flatten(events)):  # nobody says who chose them
        events = tuple(replace(e, required=None) for e in flatten(events))
    alike = known == assumption or {type(known), type(assumption)} == {BoundedObservation}
    if not (rests and alike and events):
        raise UnprovenError(
            "a guarantee for the ground truth rests on another assumption, or has no events: its "
            "number cannot be added to others, for all releases see one draw of the missing cells"
        )
    plain = Guarantee.from_events(events, delta=guarantee.delta)
    return plain.with_conditions(*guarantee.conditions), structure, known


def _gates(guarantee: Guarantee, structure: Structure | None) -> frozenset[frozenset[str]]:
    """Return sets of attributes: a row that a release reads behind a gate is observed on one."""
    if structure is None:
        return frozenset()
    if isinstance(structure, DataChosenRequirements):
        if structure.smallest == 1 and not structure.always:
            return frozenset(frozenset({name}) for name in structure.attributes)
        return frozenset({frozenset({str(structure)})})  # shared with the same choice only
    among = structure.among if isinstance(structure, ChosenRequirements) else ()
    required_sets = {event.required for event in flatten(guarantee.events) if event.required}
    return frozenset({*required_sets, *map(frozenset, filter(None, among))})


def _of_all(found: Sequence[Release], structure: Structure) -> tuple[BoundedObservation, Structure]:
    """Return what is known of the union of all gates, and the structure that it is enough for.

    A release whose every gate holds a gate of the others is opened only by rows that open one of
    those, and adds nothing. Pure releases need no union: by Hölder's inequality it is enough that
    each gate has its bound.
    """
    known = [assumed for _, _, assumed in found if isinstance(assumed, BoundedObservation)]
    required_sets = [_gates(guarantee, structure) for guarantee, structure, _ in found]
    kept = sorted(zip(known, required_sets, strict=True), key=lambda one: one[0].p_max)
    for i in reversed(range(len(kept))):
        others = {
            required for _, required_sets in kept[:i] + kept[i + 1 :] for required in required_sets
        }
        if all(any(other <= required for other in others) for required in kept[i][1]):
            del kept[i]
    largest = kept[-1][0] if kept else known[0]
    if len(kept) < 2 or isinstance(structure, DataChosenRequirements):
        return largest, structure
    gated = [e for guarantee, _, _ in found for e in flatten(guarantee.events) if e.required]
    if isinstance(structure, FixedRequirements) and all(map(is_pure, gated)):
        names = tuple({name for event in gated for name in event.required or ()})
        return largest, DataChosenRequirements(attributes=names, smallest=1)
    total = float_up(sum((exact(bound.p_max) for bound, _ in kept), exact(0.0)))
    return BoundedObservation(min(1.0, total), together=True), structure


def _merged(found: Sequence[Release]) -> tuple[tuple[Event, ...], Structure]:
    """Return all events, and one structure that is true of all of them."""
    if any(isinstance(structure, ChosenRequirements) for _, structure, _ in found):
        return _all_chosen(found)
    events = tuple(event for guarantee, _, _ in found for event in guarantee.events)
    chosen = [who for _, who, _ in found if isinstance(who, DataChosenRequirements)]
    if not chosen:
        return events, FixedRequirements()
    names = {name for event in flatten(events) for name in event.required or ()}
    return events, DataChosenRequirements(
        attributes=tuple(names.union(*(who.attributes for who in chosen))),
        smallest=min([1, *(who.smallest for who in chosen)]),
    )


def _all_chosen(found: Sequence[Release]) -> tuple[tuple[Event, ...], ChosenRequirements]:
    """Return events labelled as `ChosenRequirements` wants them, and the family of all releases.

    Where a marginal may get the whole cap of its release, it may get what selections leave, too.
    """
    events: list[Event] = []
    among: list[tuple[str, ...]] = []
    chosen, largest = 0.0, 0.0
    for guarantee, structure, _ in found:
        own, family, share = _labelled(guarantee.events, structure)
        events += own
        among += family
        cap = sum(_rho(e) for e in own if e.label == ChosenRequirements.chosen)
        left = sum(_rho(e) for e in own if e.label == ChosenRequirements.selections)
        chosen += cap
        largest = max(largest, share * cap if share < 1 else cap + left)
    known = math.isfinite(chosen) and 0 < largest < chosen
    share = min(1.0, largest / chosen * (1 + 1e-9)) if known else 1.0
    return tuple(events), ChosenRequirements(among=tuple(among), largest_share=share)


def _labelled(
    events: Sequence[Event], structure: Structure | None
) -> tuple[list[Event], tuple[tuple[str, ...], ...], float]:
    """Return the events of one release, its family, and the largest share of a marginal."""
    if isinstance(structure, ChosenRequirements):
        return list(events), structure.among, structure.largest_share
    if isinstance(structure, DataChosenRequirements) and structure.smallest:
        own = [
            _relabelled(e, ChosenRequirements.chosen if e.required else "", e.required)
            for e in events
        ]
        return own, tuple((name,) for name in structure.attributes), 1.0
    fixed = isinstance(structure, FixedRequirements)
    return [_relabelled(e, "", e.required if fixed else None) for e in events], (), 0.0


def _relabelled(event: Event, label: str, required: frozenset[str] | None) -> Event:
    """Return the event under a label that accountants see: a capacity may have one of its own."""
    if isinstance(event, FilterEvent):
        event = replace(event, capacity=replace(event.capacity, label=label))
    return replace(event, label=label, required=required)


def _rho(event: Event) -> float:
    return or_infinite(lambda: sum(map(zcdp_rho_of, flatten(event))))


def together(
    released: Sequence[Synthesizer], assumption: Condition | None
) -> tuple[float | None, float]:
    """Return epsilon and delta of several releases of one table, as if fixed in advance.

    Parameters
    ----------
    released : sequence of fitted synthesizers
    assumption : Condition or None
        How values went missing; None is for the incomplete table.

    Returns
    -------
    epsilon : float or None
        None if nothing is proven.
    delta : float
        The sum of the deltas.
    """
    delta = sum(model.guarantee_.delta for model in released)
    try:
        if assumption is not None:
            return joint(released, assumption, delta=delta).epsilon, delta
        events = [event for model in released for event in model.guarantee_.events]
        return proven_epsilon(events, delta, released[0].guarantee_.adjacency), delta
    except UnprovenError:
        return None, delta
