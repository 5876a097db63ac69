"""Guarantees for the ground truth, the table before values went missing.

They are computed for events, fitted models, planned fits, and several releases of one table.
Several releases see one draw of the missing cells. A row that was complete enough for one release
is more likely complete enough for the next one. So amplified epsilons do not add up. The events of
all releases are composed first, and amplified then.
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
from missdp.errors import ParameterError, UnprovenError, check_number, did_you_mean
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

_MAX_EPSILON = 64.0  # largest epsilon of a search
_PRECISE = 1e-4  # relative precision of a search
# Largest ratio of the epsilon of a fit with trainings to that of its events: noise is calibrated.
_CALIBRATED = 1.002

Parts: TypeAlias = tuple[Guarantee, Structure | None]
Release: TypeAlias = tuple[Guarantee, Structure | None, Condition]  # the last: its assumption


@dataclass(frozen=True, kw_only=True)
class AmplifiedEvent(Event):
    """Accounting event whose epsilon is smaller for the table before values went missing.

    Amplification means this: a release reads a row only if its required attributes are observed, so
    some rows do not affect it. Budgets charge the original releases, whose costs are bounds
    for either table. `AmplifiedEvent.epsilon_bound` recomputes the amplified epsilon.
    `ground_truth_guarantee` makes this event.

    Parameters
    ----------
    events : sequence of Event
        The releases, under add-remove adjacency, with required attributes.
    assumption : MissingCompletelyAtRandom or BoundedObservation
        Condition on the way in which values went missing. It is stated and not checked.
    structure : FixedRequirements, DataChosenRequirements or ChosenRequirements
        Condition on the choice of the required attributes: fixed in advance, or from the data.
    label : str, default ""
        A public name for reports.
    required : frozenset of str or None, default None
        Not used: the events state their required attributes.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The neighbouring relation of the events, which must be add-remove.

    Raises
    ------
    UnprovenError
        If an event is not under add-remove adjacency.
    ParameterError
        If the structure is of another type, or contradicts the required attributes of the events.

    Notes
    -----
    The guarantee rests on the assumption and on the structure. Both are stated and not checked.

    References
    ----------
    Mohapatra et al. (2024), for the guarantee of the table before values went missing.
    Balle, Barthe & Gaboardi (2018), for amplification of (epsilon, delta).

    Examples
    --------
    >>> from missdp.ground_truth import AmplifiedEvent, FixedRequirements
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
        _checked_structure(self.structure, self.flatten())

    def flatten(self) -> tuple[Event, ...]:
        """Return the elementary accounting events of the releases, without amplification.

        An elementary event states the noise and sensitivity of one release, or the cap of an
        adaptive sequence. Its cost is a bound without amplification.

        Returns
        -------
        tuple of Event
            Public, in the order of the releases.
        """
        return flatten(self.events)

    def required_conditions(self) -> tuple[Condition, ...]:
        """Return the conditions that a guarantee must state if it uses the amplified epsilon.

        Returns
        -------
        tuple of Condition
            The assumption about missing values and the structure. `FixedSchedule` follows unless
            all events are caps, which are fixed in advance. Under caps the proofs hold for adaptive
            choices. Public.
        """
        only_caps = all(isinstance(event, FilterEvent) for event in self.events)
        return (self.assumption, self.structure, *(() if only_caps else (FixedSchedule(),)))

    def epsilon_bound(self, delta: float, *, adjacency: Adjacency, protects: Protects) -> float:
        """Return the epsilon of releases for the table before values went missing.

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
            Public and at least 0. Infinite for the incomplete table, or if no amplified epsilon is
            proven.

        Raises
        ------
        UnprovenError
            If no bound covers the events.
        ParameterError
            If ``delta`` or ``adjacency`` is not valid.
        """
        if protects != "ground-truth":
            return math.inf
        plain = proven_epsilon(self.events, delta, adjacency)
        events, facts = self.flatten(), (self.assumption, self.structure)
        return amplify(events, delta, *facts, adjacency, plain=plain)[0]


def ground_truth_guarantee(
    source: Synthesizer | Guarantee | Event | Iterable[Event],
    assumption: Condition | None,
    *,
    structure: Structure | None = None,
    delta: float = 0.0,
    conditions: Iterable[Condition] = (),
) -> Guarantee:
    """Return the guarantee of a release for the table before values went missing.

    This table is called the ground truth. Its epsilon can be smaller than the epsilon for the
    incomplete table. The reason is that a release that requires some attributes skips rows in which
    they are missing (amplification).

    Parameters
    ----------
    source : fitted synthesizer, Guarantee, Event, or iterable of Event
        The release. The ``required`` attributes of events state which rows they read. A guarantee
        has events, delta, adjacency and conditions. A fit has all of these.
    assumption : Condition
        Condition on the way in which values went missing. It is stated and not checked.
        ``RowIndependentMissingness()`` does not amplify: ε̄ <= ε.
        ``MissingCompletelyAtRandom(observed)`` gives the best valid bound for independent masks.
        ``BoundedObservation(p_max)`` covers missing at random and not at random. It bounds the
        probability that a row has all required attributes of any event observed. The bound holds
        for all values of the row.
    structure : FixedRequirements, DataChosenRequirements or ChosenRequirements, optional
        Condition on the choice of the required attributes. Needed if an event has required
        attributes and the assumption can amplify. It becomes a condition of the result.
    delta : float, default 0.0
        Target δ in [0, 1), if ``source`` consists of events.
    conditions : iterable of Condition, default ()
        Additional conditions, such as the confidence of a rate.

    Returns
    -------
    Guarantee
        With ``protects="ground-truth"`` and the adjacency of ``source``. Its epsilon and delta are
        at most the numbers of ``source``. Public.

    Raises
    ------
    UnprovenError
        If no assumption states that rows lose values independently. Without it, a release that is
        private for the incomplete table need not be private for the ground truth. Also if the
        source rests on a condition that other draws of the missing cells may break, such as
        `DatasetCollection`.
    ParameterError
        If ``structure`` is missing, or contradicts the events.

    Notes
    -----
    Without amplification: given the masks of all other rows, the two incomplete tables differ in
    one row, for each mask of that row. Averaging keeps (ε, δ) (Theorem 5.2 of Mohapatra et al.
    2024). Amplified epsilons also rest on ``FixedSchedule()``: the number of mechanisms and their
    noise did not depend on the data. Releases under an adaptive schedule are known by their cap
    only (`FilterEvent`). They are amplified only if all of them share a requirement, which the
    event then states. If all events are caps, no schedule needs to be fixed.

    References
    ----------
    Mohapatra et al. (2024), Theorem 5.2, without amplification.
    Balle, Barthe & Gaboardi (2018), for amplification of (epsilon, delta).

    Examples
    --------
    >>> from missdp.ground_truth import FixedRequirements, ground_truth_guarantee
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
            raise ParameterError("structure and delta apply only to events: a fit already has them")
        fit: Any = source
        parts = fit.ground_truth_parts()
        _check_names(assumption, fit.schema_)
        return _smaller_guarantee(fit.guarantee_, parts, assumption, conditions)
    if assumption is None or not assumption.implies_row_independence:
        raise UnprovenError(
            "no guarantee for the ground truth is proven unless rows lose values independently of "
            "each other. State an assumption, such as RowIndependentMissingness()."
        )
    plain = _incomplete(source, delta)
    _refuse_limits_on_the_masked_table(plain.conditions)
    events = flatten(plain.events)
    bound, proof = (plain.epsilon, plain.delta), plain.events
    extra = [assumption, *conditions]
    can_amplify = isinstance(assumption, MissingCompletelyAtRandom | BoundedObservation)
    if can_amplify and any(event.required for event in events):
        who = _checked_structure(structure, events)
        better = amplify(events, plain.delta, assumption, who, plain.adjacency, plain=plain.epsilon)
        if better[0] < plain.epsilon and _events_explain(plain):
            event = AmplifiedEvent(events=plain.events, assumption=assumption, structure=who)
            extra += event.required_conditions()
            bound, proof = better, (event,)
    conditions = (*plain.conditions, *extra)
    return Guarantee(*bound, plain.adjacency, "ground-truth", conditions, proof)


def planned_ground_truth(
    synthesizer: Synthesizer, schema: Schema, assumption: Condition
) -> Guarantee:
    """Return a bound on a planned fit's guarantee for the table before values went missing.

    The ground truth is the table before values went missing. Nothing is fitted, read or charged.

    Parameters
    ----------
    synthesizer : Synthesizer
        A synthesizer with the parameters of the fit. It need not be fitted, and is not changed.
    schema : Schema
        Schema of the private table. A table of codes (`Table.from_codes`) gets no bins: plan for it
        with ``bins="equal"``.
    assumption : Condition
        Condition on the way in which values go missing: see `ground_truth_guarantee`.

    Returns
    -------
    Guarantee
        Public, with ``protects="ground-truth"``. The conditions that the fit adds are not included.
        The epsilon of the fit for the ground truth is never larger.

    Raises
    ------
    ParameterError
        If the assumption names attributes that the schema lacks or declares complete.
    UnprovenError
        If no assumption states that rows lose values independently, or the schema has differences
        of dates.

    Examples
    --------
    >>> from missdp.accounting import MissingCompletelyAtRandom
    >>> from missdp.ground_truth import planned_ground_truth
    >>> from missdp import MST
    >>> from missdp.datasets import yrbss
    >>> schema = yrbss().schema()
    >>> assumption = MissingCompletelyAtRandom(dict.fromkeys(schema.nullable, 0.7))
    >>> planned = MST(epsilon=1.0, missing="complete-rows")
    >>> planned_ground_truth(planned, schema, assumption).epsilon < 0.3
    True
    """
    _check_names(assumption, schema)
    return _smaller_guarantee(*synthesizer.planned_parts(schema), assumption, ())


def epsilon_for_ground_truth(
    epsilon: float, synthesizer: Synthesizer, schema: Schema, assumption: Condition
) -> float:
    """Convert a requested epsilon for the table before values went missing to the epsilon of a fit.

    The ground truth is the table before values went missing. The epsilon of the fit can be larger,
    so that the fit needs less noise. Nothing is fitted, read or charged.

    Parameters
    ----------
    epsilon : float
        Requested epsilon for the table before values went missing, above 0 and at most 64.
    synthesizer : Synthesizer
        A synthesizer with all other parameters of the fit. Its epsilon is not used.
    schema : Schema
        Schema of the private table: see `planned_ground_truth`.
    assumption : Condition
        Condition on the way in which values go missing. Derive it from other sources than the
        private table.

    Returns
    -------
    float
        From ``epsilon`` to 64. It is ``epsilon`` if nothing is amplified. Found by bisection, to a
        relative 1e-4, and never too large. The epsilon of the fit for the ground truth is at most
        the requested epsilon.

    Raises
    ------
    ParameterError
        If epsilon is out of range, or the assumption names attributes that the schema lacks or
        declares complete.
    UnprovenError
        If no assumption states that rows lose values independently, or the schema has differences
        of dates.

    Notes
    -----
    The result is public. It rests on the assumption, which is stated and not checked.

    Examples
    --------
    >>> from missdp.accounting import MissingCompletelyAtRandom
    >>> from missdp.ground_truth import epsilon_for_ground_truth
    >>> from missdp import PrivBayes
    >>> from missdp.datasets import yrbss
    >>> schema = yrbss().schema()
    >>> assumption = MissingCompletelyAtRandom(dict.fromkeys(schema.nullable, 0.7))
    >>> model = PrivBayes(epsilon=1.0, missing="complete-rows")
    >>> epsilon_for_ground_truth(1.0, model, schema, assumption) > 2
    True
    """
    goal = check_number("epsilon", epsilon, max_value=_MAX_EPSILON, exclude_min=True)
    _check_names(assumption, schema)

    def fits(candidate: float) -> bool:
        parts = synthesizer.planned_parts(schema, epsilon=candidate)
        return _smaller_guarantee(*parts, assumption, ()).epsilon <= goal

    low = high = goal
    while high < _MAX_EPSILON and fits(high := min(_MAX_EPSILON, 1.5 * low)):
        low = high
    if not fits(low * (1 + _PRECISE)):
        return low
    return boundary(lambda candidate: not fits(candidate), low, high, tolerance=_PRECISE)[0]


def _smaller_guarantee(
    fit: Guarantee, parts: Parts, assumption: Condition | None, conditions: Iterable[Condition]
) -> Guarantee:
    """Return the smaller guarantee for the ground truth: of a complete fit, or of its parts."""
    both = [(fit, None), parts] if parts[1] else [(fit, None)]
    guarantees = (
        ground_truth_guarantee(one, assumption, structure=who, conditions=conditions)
        for one, who in both
    )
    return min(guarantees, key=lambda guarantee: guarantee.epsilon)


def _check_names(assumption: Condition | None, schema: Schema) -> None:
    """Raise ParameterError for rates that contradict public facts, such as a mistyped name."""
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
            f"observed must be 1 for attributes that are declared complete: {', '.join(never)}"
        )


def _refuse_differences(schema: Schema) -> None:
    if computed := sorted({*schema.names} - {*schema.input_columns.names}):
        raise UnprovenError(
            f"no guarantee for the ground truth is proven for differences of dates: "
            f"{', '.join(computed)}. Leave these attributes out of the schema."
        )


def _incomplete(source: Guarantee | Event | Iterable[Event], delta: float) -> Guarantee:
    """Return the guarantee of the source for the incomplete table."""
    if not isinstance(source, Guarantee):
        return Guarantee.from_events(source, delta=delta)
    if delta != 0.0:
        raise ParameterError("delta applies only to events: a Guarantee already has one")
    if source.protects != "incomplete":
        raise UnprovenError("this guarantee is for the ground truth already: use its events")
    return source


def _refuse_limits_on_the_masked_table(conditions: Iterable[Condition]) -> None:
    """Raise UnprovenError for conditions on the incomplete table: averaging needs every mask."""
    for condition in conditions:
        if not condition.holds_for_every_mask:
            raise UnprovenError(
                f"the guarantee rests on a {type(condition).__name__} condition, which may fail "
                "for other draws of the missing cells. No guarantee for the ground truth is proven."
            )


def _checked_structure(structure: Structure | None, events: Sequence[Event]) -> Structure:
    if not isinstance(structure, FixedRequirements | DataChosenRequirements | ChosenRequirements):
        raise ParameterError(
            "structure is missing: state who chose the required attributes, by "
            "structure=FixedRequirements() or structure=DataChosenRequirements(...)"
        )
    if isinstance(structure, DataChosenRequirements):
        structure.check([event.required for event in events if event.required])
    return structure


def _events_explain(plain: Guarantee) -> bool:
    """Return whether the events have the complete stated loss, and may be amplified."""
    bound = partial(proven_epsilon, plain.events, plain.delta, plain.adjacency)
    trained = any(isinstance(event, SampledGaussianEvent) for event in flatten(plain.events))
    return plain.epsilon <= or_infinite(bound) * (_CALIBRATED if trained else 1 + 1e-9) < math.inf


def joint(
    releases: Iterable[Synthesizer | Guarantee],
    assumption: Condition,
    *,
    delta: float | None = None,
) -> Guarantee:
    """Return the joint guarantee of several releases of one table, before its values went missing.

    The table before values went missing is called the ground truth. All releases see one draw of
    the missing cells, so their amplified epsilons do not add up.

    Parameters
    ----------
    releases : iterable of fitted synthesizers and Guarantees
        Releases of one table, under add-remove adjacency. A guarantee for the ground truth, under
        this assumption, is replaced by its events. A guarantee for the incomplete table must have
        no required attributes.
    assumption : Condition
        Condition on the way in which values went missing, in all releases at once. A requirement is
        a set of attributes that a row must have observed to be read. ``BoundedObservation(p)``
        bounds the probability that a row meets any requirement of *one* release. Releases share the
        bound if every requirement of one release contains a requirement of the others. Otherwise
        the bounds add up, and the sum is a condition of its own. With ``BoundedObservation(p,
        together=True)``, p bounds the requirements of all releases.
    delta : float, optional
        Target δ in [0, 1), by default the sum of the deltas of all releases.

    Returns
    -------
    Guarantee
        Guarantee for the ground truth. It rests on `FixedSchedule`: the list of releases and their
        sizes did not depend on answers of other releases. Its epsilon is at most the epsilon of all
        releases together without amplification. Public.

    Raises
    ------
    ParameterError
        If there is no release, or an element is not a release. If a guarantee for the incomplete
        table has required attributes.
    UnprovenError
        If a guarantee rests on another assumption, or is not under add-remove adjacency. If the
        schema of a synthesizer has differences of dates.

    Notes
    -----
    Caps of releases are composed like the caps of one fit. If marginals were chosen in several
    releases, the candidates are the candidates of all releases. No marginal of a release gets a
    larger share of the sum than it might get of its own release. Fixed requirements may be counted
    as chosen. Requirements of tables in pure epsilon may be counted as requirements of single
    attributes.

    References
    ----------
    Mohapatra et al. (2024), for the guarantee of the table before values went missing.

    Examples
    --------
    >>> from missdp.ground_truth import FixedRequirements, ground_truth_guarantee, joint
    >>> from missdp.accounting import BoundedObservation, PureEvent
    >>> assumption, fixed = BoundedObservation(0.5), FixedRequirements()
    >>> event = PureEvent(epsilon=1.0, required={"a"})
    >>> one = ground_truth_guarantee(event, assumption, structure=fixed)
    >>> round(one.epsilon, 2), round(joint([one, one], assumption).epsilon, 2)
    (0.62, 1.43)
    """
    parts = [_release(release, assumption) for release in releases]
    if not parts:
        raise ParameterError("joint needs at least one release")
    guarantees = [guarantee for guarantee, _, _ in parts]
    if delta is None:
        delta = float_up(sum((exact(g.delta) for g in guarantees), exact(0.0)))
    events, structure = _merged(parts)
    conditions = [c for g in guarantees for c in g.conditions]
    if len(parts) > 1:
        conditions.append(FixedSchedule())
    plain = Guarantee.from_events(events, delta=delta, conditions=conditions)
    combined: Condition = assumption
    if isinstance(assumption, BoundedObservation) and not assumption.together:
        combined, structure = _combined_bound(parts, structure)
    return ground_truth_guarantee(plain, combined, structure=structure, conditions=(assumption,))


def _release(release: Synthesizer | Guarantee, assumption: Condition) -> Release:
    """Return a release as its guarantee for the incomplete table."""
    parts = getattr(release, "ground_truth_parts", None)
    if parts:
        _refuse_differences(release.schema_)  # type: ignore[union-attr]
    guarantee, structure = parts() if parts else (release, None)
    if not isinstance(guarantee, Guarantee):
        raise ParameterError(
            "releases must be fitted synthesizers or guarantees: all of them see one draw of the "
            "missing cells, so amplified numbers do not add up"
        )
    if guarantee.adjacency != "add-remove":
        raise UnprovenError("amplification is proven under add-remove adjacency only")
    if guarantee.protects == "ground-truth":
        return _incomplete_release(guarantee, assumption)
    if structure is None and any(event.required for event in flatten(guarantee.events)):
        raise ParameterError(
            "a guarantee for the incomplete table does not state who chose its required "
            "attributes. Pass the result of ground_truth_guarantee."
        )
    return guarantee, structure, assumption


def _incomplete_release(guarantee: Guarantee, assumption: Condition) -> Release:
    """Return a guarantee for the ground truth as its guarantee for the incomplete table."""
    events, structure, stated = guarantee.events, None, assumption
    rests = assumption in guarantee.conditions
    if isinstance(assumption, BoundedObservation) and assumption.together:
        rests = any(isinstance(c, BoundedObservation) for c in guarantee.conditions)
    event = events[0] if len(events) == 1 else None
    if isinstance(event, AmplifiedEvent):
        events, structure, stated = event.events, event.structure, event.assumption
    elif any(e.required for e in flatten(events)):  # without a structure, they count for every row
        events = tuple(replace(e, required=None) for e in flatten(events))
    alike = stated == assumption or {type(stated), type(assumption)} == {BoundedObservation}
    if not (rests and alike and events):
        raise UnprovenError(
            "a guarantee for the ground truth rests on another assumption, or has no events. Its "
            "epsilon cannot be added to others, because all releases see one draw of missing cells."
        )
    plain = Guarantee.from_events(events, delta=guarantee.delta)
    return plain.with_conditions(*guarantee.conditions), structure, stated


def _required_sets(guarantee: Guarantee, structure: Structure | None) -> frozenset[frozenset[str]]:
    """Return sets of attributes such that a row that an amplified event reads has one observed."""
    if structure is None:
        return frozenset()
    if isinstance(structure, DataChosenRequirements):
        if structure.smallest == 1 and not structure.always:
            return frozenset(frozenset({name}) for name in structure.attributes)
        return frozenset({frozenset({str(structure)})})  # equal only for an equal choice
    among = structure.among if isinstance(structure, ChosenRequirements) else ()
    required_sets = {event.required for event in flatten(guarantee.events) if event.required}
    return frozenset({*required_sets, *map(frozenset, filter(None, among))})


def _combined_bound(
    releases: Sequence[Release], structure: Structure
) -> tuple[BoundedObservation, Structure]:
    """Return the bound for the union of all requirements, and the structure for which it is valid.

    A release adds nothing if each of its requirements contains a requirement of the others. Pure
    releases need no union: Hölder's inequality needs a bound for each requirement only.
    """
    bounds = [assumed for _, _, assumed in releases if isinstance(assumed, BoundedObservation)]
    required_sets = [_required_sets(guarantee, structure) for guarantee, structure, _ in releases]
    needed = sorted(zip(bounds, required_sets, strict=True), key=lambda one: one[0].p_max)
    for i in reversed(range(len(needed))):
        others = set[frozenset[str]]().union(*(sets for _, sets in needed[:i] + needed[i + 1 :]))
        if all(any(other <= required for other in others) for required in needed[i][1]):
            del needed[i]
    largest = needed[-1][0] if needed else bounds[0]
    if len(needed) < 2 or isinstance(structure, DataChosenRequirements):
        return largest, structure
    amplified = [e for guarantee, _, _ in releases for e in flatten(guarantee.events) if e.required]
    if isinstance(structure, FixedRequirements) and all(map(is_pure, amplified)):
        names = tuple({name for event in amplified for name in event.required or ()})
        return largest, DataChosenRequirements(attributes=names, smallest=1)
    total = float_up(sum((exact(bound.p_max) for bound, _ in needed), exact(0.0)))
    return BoundedObservation(min(1.0, total), together=True), structure


def _merged(releases: Sequence[Release]) -> tuple[tuple[Event, ...], Structure]:
    """Return all events, and one structure that is true of all of them."""
    if any(isinstance(structure, ChosenRequirements) for _, structure, _ in releases):
        return _all_chosen(releases)
    events = tuple(event for guarantee, _, _ in releases for event in guarantee.events)
    chosen = [who for _, who, _ in releases if isinstance(who, DataChosenRequirements)]
    if not chosen:
        return events, FixedRequirements()
    names = {name for event in flatten(events) for name in event.required or ()}
    return events, DataChosenRequirements(
        attributes=tuple(names.union(*(who.attributes for who in chosen))),
        smallest=min([1, *(who.smallest for who in chosen)]),
    )


def _all_chosen(releases: Sequence[Release]) -> tuple[tuple[Event, ...], ChosenRequirements]:
    """Return events with the labels of `ChosenRequirements`, and the family of all releases.

    If a marginal may get the complete cap of its release, it may get the rest of selections, too.
    """
    events: list[Event] = []
    among: list[tuple[str, ...]] = []
    chosen, largest = 0.0, 0.0
    for guarantee, structure, _ in releases:
        labelled, family, share = _labelled(guarantee.events, structure)
        events += labelled
        among += family
        cap = sum(_rho(e) for e in labelled if e.label == ChosenRequirements.chosen)
        selections = sum(_rho(e) for e in labelled if e.label == ChosenRequirements.selections)
        chosen += cap
        largest = max(largest, share * cap if share < 1 else cap + selections)
    has_share = math.isfinite(chosen) and 0 < largest < chosen
    share = min(1.0, largest / chosen * (1 + 1e-9)) if has_share else 1.0
    return tuple(events), ChosenRequirements(among=tuple(among), largest_share=share)


def _labelled(
    events: Sequence[Event], structure: Structure | None
) -> tuple[list[Event], tuple[tuple[str, ...], ...], float]:
    """Return the events of one release, its family, and the largest share of a marginal."""
    if isinstance(structure, ChosenRequirements):
        return list(events), structure.among, structure.largest_share
    if isinstance(structure, DataChosenRequirements) and structure.smallest:
        chosen = ChosenRequirements.chosen
        labelled = [_relabelled(e, chosen if e.required else "", e.required) for e in events]
        return labelled, tuple((name,) for name in structure.attributes), 1.0
    fixed = isinstance(structure, FixedRequirements)
    return [_relabelled(e, "", e.required if fixed else None) for e in events], (), 0.0


def _relabelled(event: Event, label: str, required: frozenset[str] | None) -> Event:
    """Return the event with another label, which its capacity has as well."""
    if isinstance(event, FilterEvent):
        event = replace(event, capacity=replace(event.capacity, label=label))
    return replace(event, label=label, required=required)


def _rho(event: Event) -> float:
    return or_infinite(lambda: sum(map(zcdp_rho_of, flatten(event))))


def joint_epsilon(
    released: Sequence[Synthesizer], assumption: Condition | None
) -> tuple[float | None, float]:
    """Return epsilon and delta of several releases of one table, as if fixed in advance.

    Parameters
    ----------
    released : sequence of fitted synthesizers
        The releases.
    assumption : Condition or None
        How values went missing. None is for the incomplete table.

    Returns
    -------
    epsilon : float or None
        None without a proof.
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
