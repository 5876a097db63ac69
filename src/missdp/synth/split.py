"""How a fit splits its budget: one list of parts, by which it is checked, capped and amplified.

A family states its parts as functions of parameters and public facts. Three folds go over them:
`BudgetPlan.check` refuses a fit for which no noise can be drawn, `BudgetPlan.limits` says what each
part costs at most, and `BudgetPlan.cost` is what is spent.

A guarantee for the ground truth is computed from what no output decides: parameters, public facts,
and caps that hold on every path: a fit is refused every release that does not fit into its part.
What was released in the end is an outcome and proves nothing; it is only checked against the caps,
for a file may have been edited. `ground_truth_parts` is a fit as these caps, and who chose their
gates: why each kind of part is amplified stands in docs/referees/proofs.md.
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

_ROUNDED = 1 + 1e-9


def share_of(amount: float, part: float) -> float:
    """Return a share of a budget, rounded down, so that shares that sum to 1 fit into it.

    >>> share_of(0.3, 0.1)
    0.03
    """
    amount, part = check_nonnegative("amount", amount), check_nonnegative("part", part)
    return float_down(exact(amount) * exact(part))


def difference(amount: float, *parts: float, up: bool = False) -> float:
    """Return the rest of a budget after some parts of it; 0 if no rest is left.

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
    >>> difference(1.0, 0.1, 0.2)
    0.7
    """
    taken = sum(exact(check_nonnegative("part", part)) for part in parts)
    left = max(Fraction(0), exact(check_nonnegative("amount", amount)) - taken)
    return float_up(left) if up else float_down(left)


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True)
class BudgetLimits(Record):
    """Caps of all parts of a fit, which add up to the ``total``.

    Each of the ``events`` is the cap of the releases that require the same attributes.

    A release behind a gate may be counted as one that reads every row, or as one behind a smaller
    gate: that costs more of the ground truth, not less. So a part may spend what an ungated one
    leaves. What is counted as a set of the family must fit into the share of that set: a bound with
    a share weighs each set by its own chance, and releases behind two gates that both hold one set
    would otherwise get two shares at the chance of that set, while the claim counts the chance of
    another set for the second. The ``structure`` says who chose the gates.
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
        """What all parts cost together, at most."""
        return Cost(privacy_measure=self.privacy_measure, amount=self.amount)

    def cover(self, whole: FilterEvent) -> bool:
        """Whether a fit was capped as a whole by this, and what it released is within the parts."""
        if whole.cost != FilterEvent(capacity=self.total.event()).cost:
            return False
        spending = Spending(self)
        return all(spending.fits(event) for event in releases(whole))


class Spending:
    """What a fit has spent of each part: releases beyond a cap are refused before they are made.

    >>> parts = Part("number of rows", 0.2), Part("pairs", 1.0, (frozenset("a"),))
    >>> limits = BudgetPlan(Cost(privacy_measure="gdp", amount=0.05), parts).limits
    >>> spending = Spending(limits)
    >>> spending.charge(GaussianEvent(sensitivity=1, sigma=11.0))
    >>> spending.charge(GaussianEvent(sensitivity=1, sigma=11.0))
    Traceback (most recent call last):
        ...
    missdp.errors.BudgetExceededError: this release would spend more than its part of the fit may...
    """

    def __init__(self, limits: BudgetLimits) -> None:
        self._total = limits.total
        self._among, self._share = (
            Counter[RequiredAttributes](),
            1.0,
        )  # how many marginals each gate has
        if isinstance(limits.structure, ChosenRequirements):
            self._among = Counter(map(RequiredAttributes, limits.structure.among))
            self._share = limits.structure.largest_share
        self._limits: dict[Place, Fraction] = defaultdict(Fraction)
        for event in limits.events:
            labelled = event.label in (_SELECTIONS, _CHOSEN)
            place = event.label if labelled else event.required or _EVERY
            self._limits[place] += exact(event.cost.amount)
        self._spent: dict[Place, Fraction] = defaultdict(Fraction)
        self._alone: dict[RequiredAttributes, Fraction] = defaultdict(Fraction)

    def charge(self, event: Event) -> None:
        """Count a release that is about to be made, or refuse it if its part has no room for it."""
        if not self.fits(event):
            raise BudgetExceededError(
                "this release would spend more than its part of the fit may; the guarantee for the "
                "ground truth rests on that cap. Nothing was released"
            )

    def fits(self, event: Event) -> bool:
        """Count a release, and return whether it stays within its part of the budget."""
        cost, place = self._total.price(event), self._place(event)
        member = self._member(event.required or RequiredAttributes())
        if isinstance(place, frozenset):
            inside = min(cost, max(Fraction(0), self._left(place)))
            self._spent[place] += inside
            # What reads rows observed on a set of the family may count as one of the chosen.
            cost, place = cost - inside, _EVERY if member is None else _CHOSEN
        elif place == _EVERY and cost > self._left(_EVERY) and RequiredAttributes() in self._among:
            place = _CHOSEN  # which reads every row
        self._spent[place] += cost
        if place == _CHOSEN:
            self._alone[member or RequiredAttributes()] += cost
        return self._within()

    def _left(self, place: Place) -> Fraction:
        """Return what a part has left."""
        return self._limits[place] * exact(_ROUNDED) - self._spent[place]

    def _within(self) -> bool:
        """Whether nothing exceeds its cap; what was chosen may spend what the first two leave."""
        left = [self._left(place) for place in (_EVERY, _SELECTIONS, _CHOSEN)]
        most = exact(self._share) * self._limits[_CHOSEN] * exact(_ROUNDED)
        alone = self._alone.items() if self._share < 1 else ()
        shared = all(cost <= most * self._among[member] for member, cost in alone)
        return shared and min(*left[:2], sum(left)) >= 0

    def _member(self, required: RequiredAttributes) -> RequiredAttributes | None:
        """Return the set of the family that a release behind the gate is counted as, if any."""
        inside = (known for known in self._among if known <= required)
        return max(inside, key=lambda known: (len(known), sorted(known)), default=None)

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
        # An event on the empty set counts for every row, until `fits` finds no room for it there.
        return _CHOSEN if self._member(required) else _EVERY


def limit_of(limits: BudgetLimits | None) -> Callable[[Event], None] | None:
    """Return what refuses releases beyond caps, if there are any.

    Parts of networks in pure epsilon are reserved, which is as good.
    """
    reserved = limits is not None and isinstance(limits.structure, DataChosenRequirements)
    return None if limits is None or reserved else Spending(limits).charge


Place: TypeAlias = RequiredAttributes | str
_EVERY, _SELECTIONS, _CHOSEN = "every row", ChosenRequirements.selections, ChosenRequirements.chosen


def _is_single(event: Event, required: RequiredAttributes) -> bool:
    """Whether a release is the margin, or tree, of the one attribute of its gate, by its label."""
    name = next(iter(required))
    return len(required) == 1 and event.label in (f"marginal {name}", f"tree {name}")


EVERY_ROW = RequiredAttributes()
BINS, KINDS, ROWS = "bins", "kinds of missing", "the number of rows"
MARGINALS, CHOICES, TABLES = "single attributes", "selections", "tables"
MASKS = "cells missing together"

_ALL = 1 - 1e-6
_CLEARLY = 1e-11
_MOST_MARGINALS = 20_000  # more are not worth the while
_SELECTED = 16.0  # scale of the noise of a selection, times its epsilon, at most


@dataclass(frozen=True)
class Part:
    """One part of the budget of a fit: what is released, and its share of what parts before leave.

    * ``required_sets``: Of each release, the attributes that a row must have observed to be read.
    * ``kind``: Noisy counts, selections, or what its releaser checks.
    * ``weights``: How much of the part each release gets; evenly, if empty.
    * ``count``: Into how many pieces a release is divided at most, for the check.
    * ``chosen``: Whether the data choose what is released, any of ``required_sets``, and its noise.
    * ``largest``: Share of the part that no chosen release exceeds.
    * ``reserved``: Whether the part is set aside as a whole before any of it is spent.

    >>> Part("margins", 0.1, (frozenset("a"), frozenset("b"))).shares
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
    """The budget of a fit, and its parts; the last one gets what the others leave.

    >>> whole = Cost(privacy_measure="gdp", amount=0.08)
    >>> plan = BudgetPlan(whole, (Part("margins", 0.25), Part("pairs", 1.0, (frozenset("ab"),))))
    >>> plan.cost("margins").amount, plan.cost("pairs").amount
    (0.02, 0.06)
    >>> [sorted(event.required or ()) for event in plan.limits.events]
    [[], ['a', 'b']]
    """

    total: Cost
    parts: tuple[Part, ...]
    amplified: bool = True  # whether public facts alone say what is counted

    @cached_property
    def _amounts(self) -> dict[str, float]:
        left, found = self.total.amount, {}
        for part in self.parts:
            found[part.name] = part.share * left
            left -= found[part.name]
        return found

    def __contains__(self, name: str) -> bool:
        return name in self._amounts

    def cost(self, name: str) -> Cost:
        """Return the cost of a whole part; nothing, if there is none of that name."""
        return replace(self.total, amount=self._amounts.get(name, 0.0))

    def costs(self, name: str) -> list[Cost]:
        """Return the cost of each release of a part."""
        shares = (share for part in self.parts if part.name == name for share in part.shares)
        return [replace(self.total, amount=self._amounts[name] * share) for share in shares]

    def after(self, *names: str) -> Cost:
        """Return what parts leave of the total, of those that there are."""
        spent = (self._amounts.get(name, 0.0) for name in names)
        return replace(self.total, amount=self.total.amount - math.fsum(spent))

    def noise(self, name: str) -> Noise:
        """Return the noise of each of the counts that share a part evenly."""
        if name not in self:
            names = ", ".join(repr(part.name) for part in self.parts)
            raise ParameterError(f"the plan has no part {name!r}; it has {names}")
        return Noise.worth(self.costs(name)[0])

    def check(self, *, steps: int = 1) -> None:
        """Refuse, before anything is charged, a part that no noise can be drawn for."""
        for part in (part for part in self.parts if part.name != MASKS):  # may be left out
            refused = ParameterError(
                f"too little is left of the budget for {part.name}: use a larger epsilon, or leave "
                "it a larger share"
            )
            with replacing(ParameterError, by=refused):
                for amount in {cost.amount for cost in self.costs(part.name)}:
                    _check(part, replace(self.total, amount=amount / part.count), steps)

    @cached_property
    def limits(self) -> BudgetLimits | None:
        """What each part costs at most; None where parts are unknown or amplify nothing.

        A release behind a gate that the data choose has a cap together with all others like it.
        What rounding leaves belongs to the last part.
        """
        if not (self.amplified and self.parts) or self.parts[-1].share < _ALL:
            return None
        last = self.parts[-1]
        chosen = last if last.chosen and any(last.required_sets) else None
        if chosen and self.total.privacy_measure == "pure":
            return self._reserved(chosen) if chosen.reserved and all(chosen.required_sets) else None
        if (
            chosen and len(chosen.required_sets) > _MOST_MARGINALS
        ) or self._leaves_more_than_told():
            return None
        amounts, rest = defaultdict[Place, float](float), None if chosen else last.required_sets[-1]
        for part in self.parts[:-1] if chosen else self.parts:
            for required, share in zip(part.required_sets, part.shares, strict=True):
                place = _SELECTIONS if chosen and part.kind == "selections" else required
                amounts[place] += self._amounts[part.name] * share
        events = [self._cap(a, place) for place, a in amounts.items() if a > 0 and place != rest]
        known = [event.cost.amount for event in events]
        left = difference(self.total.amount, *known, up=rest is not None)
        if left <= 0:
            return None
        if rest is None:
            return self._with_chosen(events, left, last)
        events.append(self._cap(left, rest))
        gated = any(event.required for event in events)
        return BudgetLimits.of(self.total, events, FixedRequirements()) if gated else None

    def _with_chosen(
        self, events: Sequence[FilterEvent], left: float, chosen: Part
    ) -> BudgetLimits:
        largest = min(1.0, chosen.largest)
        if largest < 1 and _costs_less(self.total, largest * left):
            largest = 1.0
        smallest = min(chosen.required_sets, key=lambda required: (len(required), sorted(required)))
        structure = ChosenRequirements(
            among=tuple(map(tuple, chosen.required_sets)), largest_share=largest
        )
        cap = self._cap(left, smallest, _CHOSEN)
        return BudgetLimits.of(self.total, (*events, cap), structure)

    def _reserved(self, part: Part) -> BudgetLimits:
        """Return the caps of pure releases, each behind an attribute that the data chose."""
        names = tuple(name for required in part.required_sets for name in required)
        amount = difference(self.total.amount, self._amounts[part.name], up=True)
        rest = self._cap(amount, EVERY_ROW)
        behind = difference(self.total.amount, rest.cost.amount)
        events = (rest, self._cap(behind, RequiredAttributes(names[:1]), part.name))
        structure = DataChosenRequirements(attributes=names, smallest=1)
        return BudgetLimits.of(self.total, events, structure)

    def _leaves_more_than_told(self) -> bool:
        """Whether counts leave more than was planned to what is not behind their gates."""
        *parts, last = self.parts
        if len(last.required_sets) == 1 and last.required_sets[0]:
            return False
        parts += [last] if len(last.required_sets) > 1 and not last.chosen else []
        gated = (
            cost.amount
            for part in parts
            for cost, required in zip(self.costs(part.name), part.required_sets, strict=True)
            if part.kind == "counts" and (required or last.chosen)
        )
        return _costs_less(self.total, *gated)

    def _cap(self, amount: float, place: Place, label: str = "") -> FilterEvent:
        """Return the cap of what is charged to a place."""
        capacity = replace(self.total, amount=amount).event()
        if isinstance(place, str):
            return FilterEvent(capacity=capacity, label=place)
        label = label or ("fixed in advance" if place else _EVERY)
        return FilterEvent(capacity=capacity, required=place or None, label=label)


def _check(part: Part, cost: Cost, steps: int) -> None:
    if part.kind == "counts":
        replace(Noise.worth(cost), steps=steps)  # raises for more noise than can be drawn
    elif part.kind == "selections":
        epsilon = selection_epsilon(cost)
        check_scale(part.name, _SELECTED / epsilon if epsilon else math.inf)


def _costs_less(whole: Cost, *amounts: float) -> bool:
    """Whether noise of counts costs clearly less: in Gaussian DP its costs have gaps."""

    def cost(amount: float) -> Fraction:
        sigma = Noise.worth(replace(whole, amount=amount)).scale
        return whole.price(GaussianEvent(sensitivity=1, sigma=sigma))

    if whole.privacy_measure == "pure":
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
    """Return a fit as the caps of its parts, and who chose their gates; None if there are none.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee of the whole fit.
    strategy : Strategy
        How rows with missing cells were counted.
    modelled : Modelled
        The modelled attributes, and those of them that rules may fill.
    limits : BudgetLimits or None
        The most that each part may cost, by parameters and public facts alone.
    training_requirement : frozenset of str
        Attributes that a row must have observed for a training to read it.

    Returns
    -------
    Parts
        The guarantee by its parts, and the structure of their required attributes.
    """
    if guarantee.unit != ROW:
        return guarantee, None
    whole, *rest = guarantee.events or (None,)
    if not isinstance(whole, FilterEvent):
        return guarantee, None
    # Parts that are reserved are in the log.
    known = limits is not None and not isinstance(limits.structure, DataChosenRequirements)
    trained = all(isinstance(event, SampledGaussianEvent) for event in rest)
    if limits is not None and known and trained and limits.cover(whole):
        return of_parts(guarantee, limits, rest, training_requirement)
    if rest or whole.cost.privacy_measure != "pure":
        return guarantee, None
    gated, chosen = _gated(whole, strategy)
    names = modelled.schema.names
    always = {*names} - {*modelled.schema.nullable} | modelled.rule_filled & {*names}
    if not gated or (chosen and always):
        return guarantee, None
    structure = (
        DataChosenRequirements(attributes=names, smallest=1) if chosen else FixedRequirements()
    )
    return replace(guarantee, events=_with_the_rest(whole.cost.amount, gated)), structure


def of_parts(
    guarantee: Guarantee,
    limits: BudgetLimits | None,
    trainings: Sequence[Event] = (),
    required: RequiredAttributes = EVERY_ROW,
) -> Parts:
    """Return the guarantee of a fit as that of the caps of its parts and of its trainings.

    Caps and trainings were fixed in advance, and so were the required attributes of trainings.
    Given the mask of a row, the fit is a composition of the parts whose required attributes are
    observed.

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
    """
    if limits is None or (trainings and not isinstance(limits.structure, FixedRequirements)):
        return guarantee, None
    events = (*limits.events, *(replace(event, required=required or None) for event in trainings))
    parts = Guarantee.from_events(events, delta=guarantee.delta)  # by rounding, a little more
    epsilon = max(guarantee.epsilon, parts.epsilon)
    return replace(guarantee, epsilon=epsilon, events=events), limits.structure


def _gated(whole: FilterEvent, strategy: Strategy) -> tuple[list[FilterEvent], bool]:
    """Return what may be amplified, by caps, and whether the data chose the gates."""
    if strategy.required_sets == "parameters":
        margins = [e for e in whole.log if e.required and not isinstance(e, FilterEvent)]
        caps = [Guarantee.from_events(event).epsilon for event in margins]
        return [_cap(e, c, e.required) for e, c in zip(margins, caps, strict=True)], False
    if strategy.required_sets == "none":
        return [], False
    found, chosen = [], strategy.required_sets == "data"
    for part in whole.log:
        required_sets = [release.required for release in releases(part)]
        known = [required for required in required_sets if required]
        if isinstance(part, FilterEvent) and known and len(known) == len(required_sets):
            # Data-chosen: one of the smallest, as good as any. Fixed: what all of them have.
            smallest = min(known, key=lambda names: (len(names), sorted(names)))
            required = smallest if chosen else frozenset.intersection(*known)
            found.append(_cap(part, part.cost.amount, required))
    return [part for part in found if part.required], chosen


def _cap(event: Event, epsilon: float, required: frozenset[str] | None) -> FilterEvent:
    return FilterEvent(capacity=PureEvent(epsilon=epsilon), label=event.label, required=required)


def _with_the_rest(cap: float, gated: Sequence[FilterEvent]) -> tuple[Event, ...]:
    """Return the gated parts, and one event of all that the cap leaves, less what rounding adds."""
    caps = [event.cost.amount for event in gated]
    rest = difference(cap, *caps, up=True)
    last = _cap(gated[-1], difference(cap, rest, *caps[:-1]), gated[-1].required)
    everything_else = FilterEvent(capacity=PureEvent(epsilon=rest), label="everything else")
    return (*gated[:-1], last, everything_else)
