"""Division of the budget of a fit into parts: one list that is checked, capped and amplified.

A family states its parts as functions of parameters and public facts. `BudgetPlan.check` raises an
error if no noise can be drawn for a part. `BudgetPlan.limits` returns the cap of each part.
`BudgetPlan.cost` returns the cost that a part spends.

A guarantee for the ground truth follows from values that no output decides: parameters, public
facts and caps. The caps hold on every path, because a fit cannot make a release that exceeds its
part. The events that were released in the end prove nothing. They are only checked against the
caps, for a file may have been edited. `ground_truth_parts` returns a fit as these caps, and the
structure of their required attributes. docs/referees/proofs.md explains why each kind of part is
amplified.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

import pydantic.dataclasses

from missdp.accounting import (
    Cost,
    Event,
    FilterEvent,
    GaussianEvent,
    Guarantee,
    PureEvent,
    SampledGaussianEvent,
    SelectionEvent,
    releases,
)
from missdp.accounting.events import ROW
from missdp.accounting.exact import exact, float_down, float_up
from missdp.accounting.measures import PrivacyMeasure
from missdp.calibration import selection_epsilon
from missdp.errors import BudgetExceededError, ParameterError, check_nonnegative, replacing
from missdp.required_attributes import (
    ChosenRequirements,
    DataChosenRequirements,
    FixedRequirements,
    Structure,
)
from missdp.serialization import Record
from missdp.session import Noise
from missdp.session.noise import check_scale
from missdp.validation import NonNegative

if TYPE_CHECKING:
    from missdp.schema.modelled import ModelView
    from missdp.session.strategies import Strategy


RequiredAttributes = frozenset[str]

_ROUNDED = 1 + 1e-9  # factor for rounding errors of sums


def share_of(amount: float, part: float) -> float:
    """Return a share of a budget, rounded down, so that shares that sum to 1 fit into it.

    >>> from missdp.synth.split import share_of
    >>> share_of(0.3, 0.1)
    0.03
    """
    amount, part = check_nonnegative("amount", amount), check_nonnegative("part", part)
    return float_down(exact(amount) * exact(part))


def difference(amount: float, *parts: float, up: bool = False) -> float:
    """Return the rest of a budget after some parts of it, at least 0.

    Parameters
    ----------
    amount : float
        The budget, at least 0.
    *parts : float
        The parts, in the unit of ``amount``, each at least 0.
    up : bool, default False
        Round the exact difference up instead of down.

    Returns
    -------
    float
        The rest, in the unit of ``amount``, at least 0.

    Examples
    --------
    >>> from missdp.synth.split import difference
    >>> difference(1.0, 0.1, 0.2)
    0.7
    """
    spent = sum(exact(check_nonnegative("part", part)) for part in parts)
    rest = max(Fraction(0), exact(check_nonnegative("amount", amount)) - spent)
    return float_up(rest) if up else float_down(rest)


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True)
class BudgetLimits(Record):
    """Caps of all parts of a fit, which add up to the ``total``.

    Each of the ``events`` is the cap of the releases that require the same attributes.

    A release that requires attributes may be counted as one that reads every row, or as one that
    requires fewer attributes. The loss of the ground truth is then larger, not smaller. So a part
    may spend the rest of a part without required attributes. A release that is counted as a set of
    the family must fit into the share of that set. The reason is that a bound with a share weighs
    each set by its own chance. Releases with two different requirements that contain one set could
    otherwise get two shares at the chance of that set. The claim would count the chance of another
    set for the second release. The ``structure`` says who chose the required attributes.
    """

    privacy_measure: PrivacyMeasure
    amount: NonNegative
    events: tuple[FilterEvent, ...]
    structure: Structure

    @classmethod
    def of(cls, total: Cost, events: Sequence[FilterEvent], structure: Structure) -> BudgetLimits:
        """Return the caps of parts whose costs add up to a total."""
        facts = {"events": tuple(events), "structure": structure}
        return cls(privacy_measure=total.privacy_measure, amount=total.amount, **facts)  # type: ignore[arg-type]

    def _coheres(self) -> bool:
        return bool(self.events)

    @property
    def total(self) -> Cost:
        """Largest cost of all parts together."""
        return Cost(privacy_measure=self.privacy_measure, amount=self.amount)

    def cover(self, fit_event: FilterEvent) -> bool:
        """Return whether a fit had this cap, and all its releases are within the parts."""
        if fit_event.cost != FilterEvent(capacity=self.total.event()).cost:
            return False
        spending = Spending(self)
        return all(spending.fits(event) for event in releases(fit_event))


class Spending:
    """Spending of a fit by parts. A release that exceeds a cap raises an error before it is made.

    >>> from missdp.accounting import Cost, GaussianEvent
    >>> from missdp.synth.split import BudgetPlan, Part, Spending
    >>> parts = Part("number of rows", 0.2), Part("pairs", 1.0, (frozenset("a"),))
    >>> limits = BudgetPlan(Cost(privacy_measure="gdp", amount=0.05), parts).limits
    >>> spending = Spending(limits)
    >>> spending.charge(GaussianEvent(sensitivity=1, sigma=11.0))
    >>> spending.charge(GaussianEvent(sensitivity=1, sigma=11.0))
    Traceback (most recent call last):
        ...
    missdp.errors.BudgetExceededError: this release would exceed the cap of its part of the fit...
    """

    def __init__(self, limits: BudgetLimits) -> None:
        self._total = limits.total
        # Number of marginals with each set of required attributes.
        self._among, self._share = Counter[RequiredAttributes](), 1.0
        if isinstance(limits.structure, ChosenRequirements):
            self._among = Counter(map(RequiredAttributes, limits.structure.among))
            self._share = limits.structure.largest_share
        self._limits: dict[Place, Fraction] = defaultdict(Fraction)
        for event in limits.events:
            labelled = event.label in (_SELECTIONS, _CHOSEN)
            place = event.label if labelled else event.required or _EVERY
            self._limits[place] += exact(event.cost.amount)
        self._spent: dict[Place, Fraction] = defaultdict(Fraction)
        self._spent_on_set: dict[RequiredAttributes, Fraction] = defaultdict(Fraction)

    def charge(self, event: Event) -> None:
        """Count a planned release. Raise BudgetExceededError if it exceeds its part."""
        if not self.fits(event):
            raise BudgetExceededError(
                "this release would exceed the cap of its part of the fit, on which the "
                "guarantee for the ground truth rests. Nothing was released. Use a larger "
                "budget for the part."
            )

    def fits(self, event: Event) -> bool:
        """Count a release, and return whether it stays within its part of the budget."""
        cost, place = self._total.price(event), self._place(event)
        member = self._member(event.required or RequiredAttributes())
        if isinstance(place, frozenset):
            inside = min(cost, max(Fraction(0), self._remaining(place)))
            self._spent[place] += inside
            # A release on rows observed on a set of the family may count as a chosen one.
            cost, place = cost - inside, _EVERY if member is None else _CHOSEN
        elif place == _EVERY and cost > self._remaining(_EVERY) and EVERY_ROW in self._among:
            place = _CHOSEN  # it reads every row
        self._spent[place] += cost
        if place == _CHOSEN:
            self._spent_on_set[member or RequiredAttributes()] += cost
        return self._within()

    def _remaining(self, place: Place) -> Fraction:
        """Return the remaining budget of a part."""
        return self._limits[place] * exact(_ROUNDED) - self._spent[place]

    def _within(self) -> bool:
        """Return whether no cap is exceeded. Chosen releases may spend the rest of the others."""
        remaining = [self._remaining(place) for place in (_EVERY, _SELECTIONS, _CHOSEN)]
        max_share = exact(self._share) * self._limits[_CHOSEN] * exact(_ROUNDED)
        spent_on_sets = self._spent_on_set.items() if self._share < 1 else ()
        shared = all(cost <= max_share * self._among[member] for member, cost in spent_on_sets)
        return shared and min(*remaining[:2], sum(remaining)) >= 0

    def _member(self, required: RequiredAttributes) -> RequiredAttributes | None:
        """Return the set of the family that a release counts as, if any."""
        inside = (chosen for chosen in self._among if chosen <= required)
        return max(inside, key=lambda chosen: (len(chosen), sorted(chosen)), default=None)

    def _place(self, event: Event) -> Place:
        """Return the part that an event is charged to."""
        required = event.required or RequiredAttributes()
        if not self._among:
            wider = [p for p in self._limits if isinstance(p, frozenset) and p <= required]
            return required if required in wider else min(wider, key=sorted, default=_EVERY)
        if isinstance(event, SelectionEvent):
            return _SELECTIONS
        if required in self._limits and _is_single(event, required):
            return required
        # An event on the empty set counts for every row, until that part is spent.
        return _CHOSEN if self._member(required) else _EVERY


def limit_of(limits: BudgetLimits | None) -> Callable[[Event], None] | None:
    """Return the function that raises an error for releases beyond caps, or None.

    Pure parts of networks are reserved instead.
    """
    reserved = limits is not None and isinstance(limits.structure, DataChosenRequirements)
    return None if limits is None or reserved else Spending(limits).charge


Place: TypeAlias = RequiredAttributes | str
_EVERY, _SELECTIONS, _CHOSEN = "every row", ChosenRequirements.selections, ChosenRequirements.chosen


def _is_single(event: Event, required: RequiredAttributes) -> bool:
    """Return whether an event is the marginal or the tree of its one required attribute."""
    name = next(iter(required))
    return len(required) == 1 and event.label in (f"marginal {name}", f"tree {name}")


EVERY_ROW = RequiredAttributes()
BINS, KINDS, ROWS = "bins", "kinds of missing", "the number of rows"
MARGINALS, CHOICES, TABLES = "single attributes", "selections", "tables"
MASKS = "cells missing together"

_ALL = 1 - 1e-6  # share of the last part, from which it gets the complete rest
_CLEARLY = 1e-11  # relative difference of two costs that is not rounding
_MAX_MARGINALS = 20_000  # marginals: the bound for more takes too long
_SELECTED = 16.0  # largest scale of the noise of a selection, times its epsilon


@dataclass(frozen=True)
class Part:
    """One part of the budget of a fit: its releases, and its share of the budget that remains.

    * ``required_sets``: For each release, the attributes that a row must have observed to be read.
    * ``kind``: Noisy counts, selections, or releases that their author checks.
    * ``weights``: Relative costs of the releases. Empty: all costs are equal.
    * ``count``: Largest number of pieces that a release is divided into, for the check.
    * ``chosen``: Whether the data choose the releases among ``required_sets``, and their noise.
    * ``largest``: Largest share of the part that one chosen release gets.
    * ``reserved``: Whether the complete part is reserved before any of it is spent.

    >>> from missdp.synth.split import Part
    >>> Part("marginals", 0.1, (frozenset("a"), frozenset("b"))).shares
    [0.5, 0.5]
    """

    name: str
    share: float
    required_sets: tuple[RequiredAttributes, ...] = (EVERY_ROW,)
    kind: Literal["counts", "selections", "other"] = "counts"
    weights: tuple[float, ...] = ()
    count: float = 1.0
    chosen: bool = False
    largest: float = 1.0
    reserved: bool = False

    @property
    def shares(self) -> list[float]:
        """Share of the part that each release gets."""
        weights = self.weights or (1.0,) * len(self.required_sets)
        return [weight / sum(weights) for weight in weights]


@dataclass(frozen=True)
class BudgetPlan:
    """The budget of a fit and its parts. The last part gets the rest.

    >>> from missdp.accounting import Cost
    >>> from missdp.synth.split import BudgetPlan, Part
    >>> total = Cost(privacy_measure="gdp", amount=0.08)
    >>> plan = BudgetPlan(total, (Part("single", 0.25), Part("pairs", 1.0, (frozenset("ab"),))))
    >>> plan.cost("single").amount, plan.cost("pairs").amount
    (0.02, 0.06)
    >>> [sorted(event.required or ()) for event in plan.limits.events]
    [[], ['a', 'b']]
    """

    total: Cost
    parts: tuple[Part, ...]
    amplified: bool = True  # whether public facts alone decide the queries

    @cached_property
    def _amounts(self) -> dict[str, float]:
        remaining, amounts = self.total.amount, {}
        for part in self.parts:
            amounts[part.name] = part.share * remaining
            remaining -= amounts[part.name]
        return amounts

    def __contains__(self, name: str) -> bool:
        return name in self._amounts

    def cost(self, name: str) -> Cost:
        """Return the cost of a complete part. It is 0 if the plan has no part of that name."""
        return replace(self.total, amount=self._amounts.get(name, 0.0))

    def costs(self, name: str) -> list[Cost]:
        """Return the cost of each release of a part."""
        shares = (share for part in self.parts if part.name == name for share in part.shares)
        return [replace(self.total, amount=self._amounts[name] * share) for share in shares]

    def after(self, *names: str) -> Cost:
        """Return the rest of the total after some parts, of which some may not exist."""
        spent = (self._amounts.get(name, 0.0) for name in names)
        return replace(self.total, amount=self.total.amount - math.fsum(spent))

    def noise(self, name: str) -> Noise:
        """Return the noise of each of the counts that share a part evenly."""
        if name not in self:
            names = ", ".join(repr(part.name) for part in self.parts)
            raise ParameterError(f"the budget plan has no part {name!r}. Its parts are {names}.")
        return Noise.from_cost(self.costs(name)[0])

    def check(self, *, steps: int = 1) -> None:
        """Raise ParameterError, before any charge, for a part that no noise can be drawn for."""
        for part in (part for part in self.parts if part.name != MASKS):  # masks may be omitted
            refused = ParameterError(
                f"the remaining budget is too small for {part.name}. Use a larger epsilon, or a "
                "larger share for it."
            )
            with replacing(ParameterError, by=refused):
                for amount in {cost.amount for cost in self.costs(part.name)}:
                    _check(part, replace(self.total, amount=amount / part.count), steps)

    @cached_property
    def limits(self) -> BudgetLimits | None:
        """Cap of each part. None if the parts are unknown or amplify nothing.

        Releases whose required attributes the data choose have a cap together. The rest of rounding
        belongs to the last part.
        """
        if not (self.amplified and self.parts) or self.parts[-1].share < _ALL:
            return None
        last = self.parts[-1]
        chosen = last if last.chosen and any(last.required_sets) else None
        if chosen and self.total.privacy_measure == "pure":
            return self._reserved(chosen) if chosen.reserved and all(chosen.required_sets) else None
        if (chosen and len(chosen.required_sets) > _MAX_MARGINALS) or self._leaves_unplanned_rest():
            return None
        amounts, rest = defaultdict[Place, float](float), None if chosen else last.required_sets[-1]
        for part in self.parts[:-1] if chosen else self.parts:
            for required, share in zip(part.required_sets, part.shares, strict=True):
                place = _SELECTIONS if chosen and part.kind == "selections" else required
                amounts[place] += self._amounts[part.name] * share
        events = [self._cap(a, place) for place, a in amounts.items() if a > 0 and place != rest]
        cap_amounts = [event.cost.amount for event in events]
        remaining = difference(self.total.amount, *cap_amounts, up=rest is not None)
        if remaining <= 0:
            return None
        if rest is None:
            return self._with_chosen(events, remaining, last)
        events.append(self._cap(remaining, rest))
        amplifies = any(event.required for event in events)
        return BudgetLimits.of(self.total, events, FixedRequirements()) if amplifies else None

    def _with_chosen(
        self, events: Sequence[FilterEvent], remaining: float, chosen: Part
    ) -> BudgetLimits:
        largest = min(1.0, chosen.largest)
        if largest < 1 and _costs_less(self.total, largest * remaining):
            largest = 1.0
        smallest = min(chosen.required_sets, key=lambda required: (len(required), sorted(required)))
        structure = ChosenRequirements(
            among=tuple(map(tuple, chosen.required_sets)), largest_share=largest
        )
        cap = self._cap(remaining, smallest, _CHOSEN)
        return BudgetLimits.of(self.total, (*events, cap), structure)

    def _reserved(self, part: Part) -> BudgetLimits:
        """Return the caps of pure releases, each on an attribute that the data chose."""
        names = tuple(name for required in part.required_sets for name in required)
        amount = difference(self.total.amount, self._amounts[part.name], up=True)
        rest = self._cap(amount, EVERY_ROW)
        behind = difference(self.total.amount, rest.cost.amount)
        events = (rest, self._cap(behind, RequiredAttributes(names[:1]), part.name))
        structure = DataChosenRequirements(attributes=names, smallest=1)
        return BudgetLimits.of(self.total, events, structure)

    def _leaves_unplanned_rest(self) -> bool:
        """Return whether counts leave more than planned to releases that read every row."""
        *parts, last = self.parts
        if len(last.required_sets) == 1 and last.required_sets[0]:
            return False
        parts += [last] if len(last.required_sets) > 1 and not last.chosen else []
        counts = (
            cost.amount
            for part in parts
            for cost, required in zip(self.costs(part.name), part.required_sets, strict=True)
            if part.kind == "counts" and (required or last.chosen)
        )
        return _costs_less(self.total, *counts)

    def _cap(self, amount: float, place: Place, label: str = "") -> FilterEvent:
        """Return the cap of the releases that are charged to a place."""
        capacity = replace(self.total, amount=amount).event()
        if isinstance(place, str):
            return FilterEvent(capacity=capacity, label=place)
        label = label or ("fixed in advance" if place else _EVERY)
        return FilterEvent(capacity=capacity, required=place or None, label=label)


def _check(part: Part, cost: Cost, steps: int) -> None:
    if part.kind == "counts":
        # Raises an error if the noise is larger than can be drawn.
        replace(Noise.from_cost(cost), steps=steps)
    elif part.kind == "selections":
        epsilon = selection_epsilon(cost)
        check_scale(part.name, _SELECTED / epsilon if epsilon else math.inf)


def _costs_less(total: Cost, *amounts: float) -> bool:
    """Return whether the noise of counts costs clearly less: costs in Gaussian DP have gaps."""

    def cost(amount: float) -> Fraction:
        sigma = Noise.from_cost(replace(total, amount=amount)).scale
        return total.price(GaussianEvent(sensitivity=1, sigma=sigma))

    if total.privacy_measure == "pure":
        return False
    return any(cost(a) < exact(a) * exact(1 - _CLEARLY) for a in {*amounts} if a > 0)


Parts: TypeAlias = tuple[Guarantee, Structure | None]


def ground_truth_parts(
    guarantee: Guarantee,
    *,
    strategy: Strategy,
    modelled: ModelView,
    limits: BudgetLimits | None = None,
    training_requirement: RequiredAttributes = frozenset(),
) -> Parts:
    """Return a fit as the caps of its parts, and the structure of their required attributes.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee of the complete fit.
    strategy : Strategy
        Treatment of rows with missing cells in counts.
    modelled : Modelled
        The modelled attributes, and those of them that rules may fill.
    limits : BudgetLimits or None
        The cap of each part, by parameters and public facts alone.
    training_requirement : frozenset of str
        Attributes that a row must have observed for a training to read it.

    Returns
    -------
    Parts
        The guarantee by its parts, and the structure of their required attributes. The structure is
        None if nothing is amplified.
    """
    if guarantee.unit != ROW:
        return guarantee, None
    fit_event, *rest = guarantee.events or (None,)
    if not isinstance(fit_event, FilterEvent):
        return guarantee, None
    # Reserved parts are in the log of the filter.
    trained = all(isinstance(event, SampledGaussianEvent) for event in rest)
    reserved = limits is not None and isinstance(limits.structure, DataChosenRequirements)
    if limits is not None and not reserved and trained and limits.cover(fit_event):
        return of_parts(guarantee, limits, rest, training_requirement)
    if rest or fit_event.cost.privacy_measure != "pure":
        return guarantee, None
    amplified, chosen = _amplifiable_parts(fit_event, strategy)
    names = modelled.schema.names
    always = {*names} - {*modelled.schema.nullable} | modelled.rule_filled & {*names}
    if not amplified or (chosen and always):
        return guarantee, None
    structure = (
        DataChosenRequirements(attributes=names, smallest=1) if chosen else FixedRequirements()
    )
    return replace(guarantee, events=_with_rest(fit_event.cost.amount, amplified)), structure


def of_parts(
    guarantee: Guarantee,
    limits: BudgetLimits | None,
    trainings: Sequence[Event] = (),
    required: RequiredAttributes = EVERY_ROW,
) -> Parts:
    """Return the guarantee of a fit as the guarantee of the caps of its parts and of its trainings.

    Caps, trainings and the required attributes of trainings were fixed in advance. Given the mask
    of a row, the fit is a composition of the parts whose required attributes are observed.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee of the whole fit.
    limits : BudgetLimits or None
        The caps of the parts that are released before the trainings. With None nothing is
        amplified.
    trainings : sequence of Event, default ()
        The trainings of the fit, as they were charged.
    required : frozenset of str
        Attributes that a row must have observed for a training to read it.

    Returns
    -------
    Parts
        The guarantee by its parts, and the structure of their required attributes.
    """
    if limits is None or (trainings and not isinstance(limits.structure, FixedRequirements)):
        return guarantee, None
    events = (*limits.events, *(replace(event, required=required or None) for event in trainings))
    # Rounding makes epsilon a little larger.
    parts = Guarantee.from_events(events, delta=guarantee.delta)
    epsilon = max(guarantee.epsilon, parts.epsilon)
    return replace(guarantee, epsilon=epsilon, events=events), limits.structure


def _amplifiable_parts(event: FilterEvent, strategy: Strategy) -> tuple[list[FilterEvent], bool]:
    """Return the caps of parts that may be amplified, and whether data chose their attributes."""
    if strategy.required_sets == "parameters":
        marginals = [e for e in event.log if e.required and not isinstance(e, FilterEvent)]
        cap_epsilons = [Guarantee.from_events(e).epsilon for e in marginals]
        return [_cap(e, c, e.required) for e, c in zip(marginals, cap_epsilons, strict=True)], False
    if strategy.required_sets == "none":
        return [], False
    amplified, chosen = [], strategy.required_sets == "data"
    for part in event.log:
        required_sets = [release.required for release in releases(part)]
        nonempty = [required for required in required_sets if required]
        if isinstance(part, FilterEvent) and nonempty and len(nonempty) == len(required_sets):
            # Data-chosen sets: one of the smallest. Fixed sets: the attributes that all share.
            smallest = min(nonempty, key=lambda names: (len(names), sorted(names)))
            required = smallest if chosen else frozenset.intersection(*nonempty)
            amplified.append(_cap(part, part.cost.amount, required))
    return [part for part in amplified if part.required], chosen


def _cap(event: Event, epsilon: float, required: frozenset[str] | None) -> FilterEvent:
    return FilterEvent(capacity=PureEvent(epsilon=epsilon), label=event.label, required=required)


def _with_rest(cap: float, amplified: Sequence[FilterEvent]) -> tuple[Event, ...]:
    """Return the amplified parts, and one event for the rest of the cap, less rounding errors."""
    amounts = [event.cost.amount for event in amplified]
    rest = difference(cap, *amounts, up=True)
    last = _cap(amplified[-1], difference(cap, rest, *amounts[:-1]), amplified[-1].required)
    everything_else = FilterEvent(capacity=PureEvent(epsilon=rest), label="everything else")
    return (*amplified[:-1], last, everything_else)
