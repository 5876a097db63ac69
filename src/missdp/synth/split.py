"""How a fit splits its budget: one list of parts, by which it is checked, capped and spent.

A family states its parts as functions of parameters and public facts. Three folds go over them:
`Split.check` refuses a fit for which no noise can be drawn, `Split.caps` says what each part costs
at most, which guarantees for the ground truth rest on, and `Split.cost` is what is spent.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal

from missdp.accounting import Cost, FilterEvent, GaussianEvent
from missdp.accounting.exact import difference, exact
from missdp.accounting.gates import ChosenGates, DataChosenGates, FixedGates
from missdp.errors import ParameterError, replacing
from missdp.mechanisms.door import Noise, RowProducts
from missdp.mechanisms.exact_noise import check_scale
from missdp.synth.caps import Caps, Gate

EVERY_ROW = Gate()
BINS, KINDS, ROWS = "bins", "kinds of missing", "the number of rows"
MARGINS, CHOICES, TABLES = "single attributes", "selections", "tables"

_ALL = 1 - 1e-6
_CLEARLY = 1e-11
_MOST_MARGINALS = 20_000  # more are not worth the while
_SELECTED = 16.0  # scale of the noise of a selection, times its epsilon, at most


@dataclass(frozen=True)
class Part:
    """One part of the budget of a fit.

    Parameters
    ----------
    name : str
        What is released.
    share : float
        Share of what the parts before it leave; 1 is all of it.
    gates : tuple of frozenset of str
        The releases of this part, each as the attributes that a row must have observed to be read.
    kind : {"counts", "products", "selections", "other"}
        Noisy counts, sums of products, selections by the exponential mechanism, or anything that
        whoever releases it checks.
    weights : tuple of float
        How much of the part each release gets; evenly, if empty.
    count : float
        Into how many pieces a release is divided at most, for the check.
    chosen : bool
        Whether the data choose what is released, any of ``gates``, with noise chosen as well.
    largest : float
        Share of the part that no chosen release exceeds.
    reserved : bool
        Whether the part is set aside as a whole before any of it is spent.

    Examples
    --------
    >>> Part("margins", 0.1, (frozenset("a"), frozenset("b"))).shares
    [0.5, 0.5]
    """

    name: str
    share: float
    gates: tuple[Gate, ...] = (EVERY_ROW,)
    kind: Literal["counts", "products", "selections", "other"] = "counts"
    weights: tuple[float, ...] = ()
    count: float = 1.0
    chosen: bool = False
    largest: float = 1.0
    reserved: bool = False

    @property
    def shares(self) -> list[float]:
        """Share of the part that each release gets."""
        weights = self.weights or (1.0,) * len(self.gates)
        return [weight / sum(weights) for weight in weights]


@dataclass(frozen=True)
class Split:
    """The budget of a fit, and its parts; the last one gets what the others leave.

    Examples
    --------
    >>> whole = Cost(currency="gdp", amount=0.08)
    >>> split = Split(whole, (Part("margins", 0.25), Part("pairs", 1.0, (frozenset("ab"),))))
    >>> split.cost("margins").amount, split.cost("pairs").amount
    (0.02, 0.06)
    >>> [sorted(event.gate or ()) for event in split.caps().events]
    [[], ['a', 'b']]
    """

    whole: Cost
    parts: tuple[Part, ...]

    @cached_property
    def _amounts(self) -> dict[str, float]:
        left, found = self.whole.amount, {}
        for part in self.parts:
            found[part.name] = part.share * left
            left -= found[part.name]
        return found

    def __contains__(self, name: str) -> bool:
        return name in self._amounts

    def cost(self, name: str) -> Cost:
        """Return the cost of a whole part; nothing, if there is none of that name."""
        return replace(self.whole, amount=self._amounts.get(name, 0.0))

    def costs(self, name: str) -> list[Cost]:
        """Return the cost of each release of a part."""
        shares = (share for part in self.parts if part.name == name for share in part.shares)
        return [replace(self.whole, amount=self._amounts[name] * share) for share in shares]

    def after(self, *names: str) -> Cost:
        """Return what parts leave of the whole, of those that there are."""
        spent = (self._amounts.get(name, 0.0) for name in names)
        return replace(self.whole, amount=self.whole.amount - math.fsum(spent))

    def noise(self, name: str) -> Noise:
        """Return the noise of each of the counts that share a part evenly."""
        return Noise.worth(self.costs(name)[0])

    def check(self, *, steps: int = 1) -> None:
        """Refuse, before anything is charged, a part that no noise can be drawn for.

        Counts are in so many steps of a row.
        """
        for part in self.parts:
            refused = ParameterError(
                f"too little is left of the budget for {part.name}: use a larger epsilon, or leave "
                "it a larger share"
            )
            with replacing(ParameterError, by=refused):
                for amount in {cost.amount for cost in self.costs(part.name)}:
                    _check(part, replace(self.whole, amount=amount / part.count), steps)

    def caps(self) -> Caps | None:
        """Return what each part costs at most; None where parts are unknown or amplify nothing.

        A release behind a gate that the data choose has a cap together with all others like it.
        What rounding leaves belongs to the last part.
        """
        if not self.parts or self.parts[-1].share < _ALL:
            return None
        last = self.parts[-1]
        chosen = last if last.chosen and any(last.gates) else None
        if chosen and self.whole.currency == "pure":
            return self._reserved(chosen) if chosen.reserved and all(chosen.gates) else None
        if (chosen and len(chosen.gates) > _MOST_MARGINALS) or self._leaves_more_than_told():
            return None
        fixed, selections = defaultdict[Gate, float](float), 0.0
        for part in self.parts if chosen is None else self.parts[:-1]:
            if chosen and part.kind == "selections":
                selections += self._amounts[part.name]
                continue
            for gate, share in zip(part.gates, part.shares, strict=True):
                fixed[gate] += self._amounts[part.name] * share
        if chosen:
            return self._with_chosen(fixed, selections, chosen)
        rest = last.gates[-1]
        del fixed[rest]
        events = [self._cap(cost, gate, _label(gate)) for gate, cost in fixed.items() if cost > 0]
        left = difference(self.whole.amount, *(e.cost.amount for e in events), up=True)
        if left <= 0 or not (rest or any(event.gate for event in events)):
            return None
        events.append(self._cap(left, rest, _label(rest)))
        return Caps(whole=self.whole, events=tuple(events), structure=FixedGates())

    def _with_chosen(
        self, fixed: dict[Gate, float], selections: float, chosen: Part
    ) -> Caps | None:
        events = [self._cap(cost, gate, _label(gate)) for gate, cost in fixed.items() if cost > 0]
        if selections:
            events.append(self._cap(selections, EVERY_ROW, ChosenGates.selections))
        rest = difference(self.whole.amount, *(event.cost.amount for event in events))
        if rest <= 0:
            return None
        largest = min(1.0, chosen.largest)
        if largest < 1 and _costs_less(self.whole, largest * rest):
            largest = 1.0
        smallest = min(chosen.gates, key=lambda gate: (len(gate), sorted(gate)))
        among = tuple(tuple(gate) for gate in chosen.gates)
        events.append(self._cap(rest, smallest, ChosenGates.chosen))
        structure = ChosenGates(among=among, largest_share=largest)
        return Caps(whole=self.whole, events=tuple(events), structure=structure)

    def _reserved(self, part: Part) -> Caps:
        """Return the caps of pure releases, each behind an attribute that the data chose.

        They count as one release behind one attribute: see `missdp.synth.parts`.
        """
        amount, names = (
            self._amounts[part.name],
            tuple(name for gate in part.gates for name in gate),
        )
        rest = self._cap(difference(self.whole.amount, amount, up=True), EVERY_ROW, "every row")
        behind = difference(self.whole.amount, rest.cost.amount)
        events = (rest, self._cap(behind, Gate(names[:1]), part.name))
        structure = DataChosenGates(attributes=names, smallest=1)
        return Caps(whole=self.whole, events=events, structure=structure)

    def _leaves_more_than_told(self) -> bool:
        """Whether counts leave more than was planned to what is not behind their gates."""
        *parts, last = self.parts
        if len(last.gates) == 1 and last.gates[0]:
            return False
        parts += [last] if len(last.gates) > 1 and not last.chosen else []
        gated = (
            cost.amount
            for part in parts
            for cost, gate in zip(self.costs(part.name), part.gates, strict=True)
            if part.kind == "counts" and (gate or last.chosen)
        )
        return _costs_less(self.whole, *gated)

    def _cap(self, amount: float, gate: Gate, label: str) -> FilterEvent:
        capacity = replace(self.whole, amount=amount).event()
        return FilterEvent(capacity=capacity, gate=gate or None, label=label)


def _label(gate: Gate) -> str:
    return "fixed in advance" if gate else "every row"


def _check(part: Part, cost: Cost, steps: int) -> None:
    if part.kind in ("counts", "products"):
        scale = replace(Noise.worth(cost), steps=steps).scale
        if part.kind == "products" and scale > RowProducts.noisiest:
            raise ParameterError("no products can be drawn with so much noise")
    elif part.kind == "selections":
        check_scale(part.name, _SELECTED / cost.selection)


def _costs_less(whole: Cost, *amounts: float) -> bool:
    """Whether noise of counts that is worth so much costs clearly less: more is left than is told.

    Where it is about as small as its steps, its costs in Gaussian DP have gaps, and an end.
    """

    def cost(amount: float) -> Fraction:
        sigma = Noise.worth(replace(whole, amount=amount)).scale
        return whole.price(GaussianEvent(sensitivity=1, sigma=sigma))

    if whole.currency == "pure":
        return False
    return any(cost(a) < exact(a) * exact(1 - _CLEARLY) for a in {*amounts} if a > 0)
