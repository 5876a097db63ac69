"""What the parts of a fit cost at most, known before anything is read.

A guarantee for the ground truth is computed from what no output decides: parameters, public facts,
and caps that hold on every path: a fit is refused every release that does not fit into its part.
What was released in the end is an outcome and proves nothing; it is only checked against the caps,
for a file may have been edited.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from missdp.accounting import Cost, Event, FilterEvent, GaussianEvent, SelectionEvent, releases
from missdp.accounting.exact import difference, exact
from missdp.accounting.filters import filter_cost
from missdp.accounting.gates import ChosenGates, DataChosenGates, FixedGates, Structure
from missdp.errors import BudgetExceededError
from missdp.mechanisms.door import Noise

__all__ = [
    "Caps",
    "Gate",
    "Keeper",
    "chosen_caps",
    "costs_less",
    "fixed_caps",
    "imputation_caps",
    "one_gate_caps",
    "target_caps",
]

Gate = frozenset[str]

_ROUNDED = 1 + 1e-9
_CLEARLY = 1e-11


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

    Parameters
    ----------
    caps : Caps

    Examples
    --------
    >>> from missdp.accounting import GaussianEvent
    >>> caps = one_gate_caps(Cost(currency="gdp", amount=0.05), ungated=0.01, gate=frozenset("a"))
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
        self._limits: dict[Part, Fraction] = defaultdict(Fraction)
        for event in caps.events:
            self._limits[self._part_of_cap(event)] += exact(event.cost.amount)
        self._spent: dict[Part, Fraction] = defaultdict(Fraction)
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
        cost = filter_cost(event, self._caps.whole)
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

    def _within(self, part: Part) -> bool:
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

    def _part_of_cap(self, event: Event) -> Part:
        if event.label == ChosenGates.chosen:
            return _CHOSEN
        if event.label == ChosenGates.selections:
            return _SELECTIONS
        return event.gate or _EVERY

    def _part(self, event: Event) -> Part:
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


Part: TypeAlias = Gate | str
_EVERY, _SELECTIONS, _CHOSEN = "every row", "selections", "chosen"


def _is_single(event: Event, gate: Gate) -> bool:
    """Whether a release is the margin, or tree, of the one attribute of its gate, by its label."""
    name = next(iter(gate))
    return len(gate) == 1 and event.label in (f"marginal {name}", f"tree {name}")


def one_gate_caps(whole: Cost, *, ungated: float, gate: Gate) -> Caps | None:
    """Return the caps of a fit that reads every row for so much, and else those behind one gate.

    Parameters
    ----------
    whole : Cost
    ungated : float
        In the currency of the whole; fixed by parameters and public facts.
    gate : set of str

    Examples
    --------
    >>> whole = Cost(currency="gdp", amount=0.05)
    >>> caps = one_gate_caps(whole, ungated=0.01, gate=frozenset("ab"))
    >>> [round(event.cost.amount, 2) for event in caps.events]
    [0.01, 0.04]
    """
    if not gate or ungated >= whole.amount:
        return None
    counted = [_cap(whole, ungated, None, "every row")] if ungated else []
    rest = difference(whole.amount, *(event.cost.amount for event in counted))
    return Caps(
        whole=whole,
        events=(*counted, _cap(whole, rest, gate, "rows behind the gate")),
        structure=FixedGates(),
    )


def chosen_caps(
    whole: Cost,
    *,
    ungated: float,
    selections: float,
    fixed: Mapping[Gate, float],
    among: Iterable[Gate],
    largest: float | None = None,
) -> Caps | None:
    """Return the caps of a fit that chooses marginals, and measures some that are fixed.

    Parameters
    ----------
    whole : Cost
    ungated : float
        Cap of what reads every row and is no selection, in the currency of the whole.
    selections : float
    fixed : mapping of set of str to float
        By gate.
    among : iterable of set of str
        The gates of all marginals that may be chosen; what is left of the whole is for them.
    largest : float, optional
        Cap of every single one of them.
    """
    gates = list(among)
    parts = [_cap(whole, ungated, None, "every row")] if ungated else []
    if selections:
        parts.append(_cap(whole, selections, None, ChosenGates.selections))
    parts += [_cap(whole, c, gate, "fixed in advance") for gate, c in fixed.items() if c]
    rest = difference(whole.amount, *(part.cost.amount for part in parts))
    if not gates and fixed:
        return Caps(whole=whole, events=tuple(parts), structure=FixedGates())
    if rest <= 0 or not any(gates):
        return None
    smallest = min(gates, key=lambda gate: (len(gate), sorted(gate)))
    share = 1.0 if largest is None else min(1.0, largest / rest)
    structure = ChosenGates(among=tuple(map(tuple, gates)), largest_share=share)
    chosen = _cap(whole, rest, smallest or None, ChosenGates.chosen)
    return Caps(whole=whole, events=(*parts, chosen), structure=structure)


def fixed_caps(whole: Cost, fixed: Iterable[tuple[Gate, float]]) -> Caps | None:
    """Return the caps of a fit whose gates are fixed; all else of the whole reads every row.

    Parameters
    ----------
    whole : Cost
    fixed : iterable of (set of str, float)
        Costs behind gates; fixed by parameters and public facts.
    """
    costs: dict[Gate, float] = defaultdict(float)
    for gate, cost in fixed:
        costs[gate] += cost
    gated = [_cap(whole, c, gate, "fixed in advance") for gate, c in costs.items() if gate and c]
    rest = difference(whole.amount, *(part.cost.amount for part in gated), up=True)
    if not gated or rest <= 0:
        return None
    events = (*gated, _cap(whole, rest, None, "every row"))
    return Caps(whole=whole, events=events, structure=FixedGates())


def imputation_caps(
    whole: Cost, cost: Cost, gates: Mapping[str, Gate], *, imputer: str
) -> Caps | None:
    """Return the caps of a fit that imputes first; what it makes of filled rows reads every row.

    Parameters
    ----------
    whole, cost : Cost
        Of the fit, and of the margins of attributes with holes, which share it evenly.
    gates : mapping of str to set of str
        By attribute that may be missing; empty where rules fill it.
    imputer : str
        None is known of those that release anything but margins.
    """
    if imputer not in ("marginal", "mean") or not gates:
        return None
    one, holed = cost.amount / len(gates), [gate for gate in gates.values() if gate]
    return None if costs_less(whole, one) else fixed_caps(whole, [(gate, one) for gate in holed])


def costs_less(whole: Cost, *amounts: float) -> bool:
    """Whether noise of counts that is worth so much costs clearly less: more is left than is told.

    Where it is about as small as its steps, its costs in Gaussian DP have gaps, and an end.
    """

    def cost(amount: float) -> Fraction:
        sigma = Noise.worth(replace(whole, amount=amount)).scale
        return filter_cost(GaussianEvent(sensitivity=1, sigma=sigma), whole)

    if whole.currency == "pure":
        return False
    return any(cost(a) < exact(a) * exact(1 - _CLEARLY) for a in amounts if a > 0)


def target_caps(whole: Cost, tables: float, attributes: Iterable[str]) -> Caps:
    """Return the caps of a network in pure epsilon; every attribute may be missing.

    Tables count as one release behind an attribute that the data chose: see `missdp.synth.parts`.
    """
    names = tuple(attributes)
    rest = _cap(whole, difference(whole.amount, tables, up=True), None, "every row")
    gated = _cap(whole, difference(whole.amount, rest.cost.amount), Gate(names[:1]), "tables")
    structure = DataChosenGates(attributes=names, smallest=1)
    return Caps(whole=whole, events=(rest, gated), structure=structure)


def _cap(whole: Cost, amount: float, gate: Gate | None, label: str) -> FilterEvent:
    return FilterEvent(capacity=replace(whole, amount=amount).event(), gate=gate, label=label)
