"""What the parts of a fit cost at most, known before anything is read.

A guarantee for the ground truth is computed from what no output decides: parameters, public facts,
and caps that hold on every path: a fit is refused every release that does not fit into its part.
What was released in the end is an outcome and proves nothing; it is only checked against the caps,
for a file may have been edited.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from missdp.accounting import Cost, Event, FilterEvent, SelectionEvent, releases
from missdp.accounting.exact import exact
from missdp.accounting.gates import ChosenGates, Structure
from missdp.errors import BudgetExceededError

Gate = frozenset[str]

_ROUNDED = 1 + 1e-9


@dataclass(frozen=True, kw_only=True)
class Caps:
    """Caps of all parts of a fit, which add up to that of the whole.

    Parameters
    ----------
    whole : Cost
        The cap of the fit.
    events : tuple of FilterEvent
        One for each part; a part that only reads rows observed on a set has that gate.
    structure : FixedGates, DataChosenGates or ChosenGates
        Who chose the gates.

    Notes
    -----
    A release behind a gate may be counted as one that reads every row, or as one behind a smaller
    gate: that costs more of the ground truth, not less. So a part may spend what an ungated one
    leaves. What is counted as a set of the family must fit into the share of that set: a bound with
    a share weighs each set by its own chance, and releases behind two gates that both hold one set
    would otherwise get two shares at the chance of that set, while the claim counts the chance of
    another set for the second.
    """

    whole: Cost
    events: tuple[FilterEvent, ...]
    structure: Structure

    def hold(self, whole: FilterEvent) -> bool:
        """Whether a fit was capped as a whole by this, and what it released is within the parts."""
        if whole.cost != FilterEvent(capacity=self.whole.event()).cost:
            return False
        keeper = Keeper(self)
        return all(keeper.room_for(event) for event in releases(whole))


class Keeper:
    """What a fit has spent of each part: releases beyond a cap are refused before they are made.

    Examples
    --------
    >>> from missdp.accounting import GaussianEvent
    >>> from missdp.synth.split import Part, Split
    >>> parts = Part("number of rows", 0.2), Part("pairs", 1.0, (frozenset("a"),))
    >>> caps = Split(Cost(currency="gdp", amount=0.05), parts).caps()
    >>> keeper = Keeper(caps)
    >>> keeper.admit(GaussianEvent(sensitivity=1, sigma=11.0))
    >>> keeper.admit(GaussianEvent(sensitivity=1, sigma=11.0))
    Traceback (most recent call last):
        ...
    missdp.errors.BudgetExceededError: this release would spend more than its part of the fit may...
    """

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._among, self._share = Counter[Gate](), 1.0  # how many marginals each gate has
        if isinstance(caps.structure, ChosenGates):
            self._among = Counter(map(Gate, caps.structure.among))
            self._share = caps.structure.largest_share
        self._limits: dict[Place, Fraction] = defaultdict(Fraction)
        for event in caps.events:
            self._limits[self._part_of_cap(event)] += exact(event.cost.amount)
        self._spent: dict[Place, Fraction] = defaultdict(Fraction)
        self._alone: dict[Gate, Fraction] = defaultdict(Fraction)

    def admit(self, event: Event) -> None:
        """Count a release that is about to be made.

        Raises
        ------
        BudgetExceededError
            If its part has no room for it; what the guarantee says would then be false.
        """
        if not self.room_for(event):
            raise BudgetExceededError(
                "this release would spend more than its part of the fit may; the guarantee for the "
                "ground truth rests on that cap. Nothing was released"
            )

    def room_for(self, event: Event) -> bool:
        """Count a release, if its part has room for it."""
        cost = self._caps.whole.price(event)
        part = self._part(event)
        most = self._limits[part] * exact(_ROUNDED) - self._spent[part]
        if isinstance(part, frozenset) and cost > most:
            over = min(cost, cost - max(Fraction(0), most))
            self._spent[part] += cost - over
            # What reads rows observed on a set of the family may count as one of the chosen.
            part, cost = (_EVERY if self._member(part) is None else _CHOSEN), over
        elif part == _EVERY and cost > most and Gate() in self._among:
            part = _CHOSEN  # which reads every row
        self._spent[part] += cost
        if part == _CHOSEN:
            self._alone[self._member(event.gate or Gate()) or Gate()] += cost
        return self._within(part)

    def _within(self, part: Place) -> bool:
        spent, limits = self._spent, self._limits
        if part != _CHOSEN and spent[part] > limits[part] * exact(_ROUNDED):
            return False
        together = (_EVERY, _SELECTIONS, _CHOSEN)
        if sum(spent[p] for p in together) > sum(limits[p] for p in together) * exact(_ROUNDED):
            return False
        most = exact(self._share) * limits[_CHOSEN] * exact(_ROUNDED)
        alone = self._alone.items() if self._share < 1 else ()
        return all(cost <= most * self._among[member] for member, cost in alone)

    def _member(self, gate: Gate) -> Gate | None:
        """Return the set of the family that a release behind the gate is counted as, if any."""
        if gate in self._among:
            return gate
        inside = (known for known in self._among if known <= gate)
        return max(inside, key=lambda known: (len(known), sorted(known)), default=None)

    def _part_of_cap(self, event: Event) -> Place:
        if event.label == ChosenGates.chosen:
            return _CHOSEN
        if event.label == ChosenGates.selections:
            return _SELECTIONS
        return event.gate or _EVERY

    def _part(self, event: Event) -> Place:
        """Return the part that an event is charged to."""
        if self._among and isinstance(event, SelectionEvent):
            return _SELECTIONS
        gate = event.gate or Gate()
        if gate in self._limits and (not self._among or _is_single(event, gate)):
            return gate
        if self._member(gate):  # of the empty set, only what every row leaves no room for
            return _CHOSEN
        wider = [p for p in self._limits if isinstance(p, frozenset) and p <= gate]
        return min(wider, key=sorted) if wider and not self._among else _EVERY


Place: TypeAlias = Gate | str
_EVERY, _SELECTIONS, _CHOSEN = "every row", "selections", "chosen"


def _is_single(event: Event, gate: Gate) -> bool:
    """Whether a release is the margin, or tree, of the one attribute of its gate, by its label."""
    name = next(iter(gate))
    return len(gate) == 1 and event.label in (f"marginal {name}", f"tree {name}")
