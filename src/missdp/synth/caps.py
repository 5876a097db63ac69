"""What the parts of a fit cost at most, known before anything is read.

A guarantee for the ground truth is computed from what no output decides: parameters, public facts,
and caps that hold on every path: a fit is refused every release that does not fit into its part.
What was released in the end is an outcome and proves nothing; it is only checked against the caps,
for a file may have been edited.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias

from missdp.accounting import Cost, Event, FilterEvent, GaussianEvent, SelectionEvent, releases
from missdp.accounting.exact import difference, exact
from missdp.accounting.filters import filter_cost
from missdp.accounting.gates import ChosenGates, DataChosenGates, FixedGates, Structure
from missdp.errors import BudgetExceededError
from missdp.inference.junction import Clique, components
from missdp.inference.model import Zeros
from missdp.mechanisms.door import Noise
from missdp.schema import Schema
from missdp.synth.workload import pairs_of

if TYPE_CHECKING:
    from missdp.synth.learn_graphical import Plan

Gate = frozenset[str]

#: Edges of a tree get the same noise, but for rounding.
EVEN = 1 + 1e-6

_ROUNDED = 1 + 1e-9
_ROUNDED_MORE = 1 + 1e-6  # where a fit adds up many parts
_CLEARLY = 1e-11
_MOST_MARGINALS = 20_000  # more are not worth the while
_TRIED = 50


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

    ``ungated`` is the cap of what reads every row and is no selection, ``fixed`` are caps by gate,
    and ``among`` the gates of all marginals that may be chosen: what is left of the whole is for
    them, ``largest`` at most for every single one.
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
    """Return the caps of a fit whose gates are fixed; all else of the whole reads every row."""
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

    ``cost`` is that of the margins of attributes with holes, which share it evenly; ``gates`` are
    theirs, empty where rules fill them. No caps are known of imputers that release anything else.
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


def graphical_caps(
    whole: Cost,
    plan: Plan,
    schema: Schema,
    *,
    count_share: float,
    trees: Mapping[str, float],
    weights: Mapping[Clique, float],
    zeros: Zeros,
    ruled: bool,
    gate_of: Callable[[Iterable[str]], Gate],
    gates: Literal["none", "schema", "parameters", "data"],
) -> Caps | None:
    """Return the caps of a fit of AIM or MST; None where everything may read every row.

    Row locality and charges are the door's; here is why the parts of a fit stay within these caps,
    whatever comes out, for marginals over the rows observed on them. The number of rows is released
    once, and every one-way marginal once, with noise that parameters fix. What is left then is
    spent on rounds: a selection, within a cap of its own that the learner keeps to, and a marginal
    of the workload. Pairs that a share is reserved for, and marginals measured once more, are of
    the workload too, or inside one of its marginals.
    """
    names, counted = schema.names, count_share * plan.whole.amount
    if gates == "schema":
        return one_gate_caps(whole, ungated=counted, gate=gate_of(()))
    # A marginal may spend what selections left. Pure caps would hold together only, at delta 0.
    if gates != "data" or len(weights) > _MOST_MARGINALS or whole.currency == "pure":
        return None

    def gate(clique: Iterable[int]) -> Gate:
        return gate_of([names[v] for v in clique])

    singles = [(v,) for v in range(len(names))]
    ones = (plan.first_share if weights else 1.0) * (plan.whole.amount - counted) / len(names)
    alone = {gate(single): ones + trees.get(names[single[0]], 0.0) for single in singles}
    fixed = {gate: cost for gate, cost in alone.items() if gate}
    known = math.fsum(fixed.values())
    left = plan.whole.amount - counted - ones * len(names)
    pairs = pairs_of(weights)
    unknown = bool(trees) and ruled  # which cells of bins that are yet to be found are impossible
    again = singles if unknown or not _one_fits(weights, zeros, schema, plan) else []
    if costs_less(whole, counted, ones):
        return None
    return chosen_caps(
        whole,
        ungated=max(0.0, counted + math.fsum([ones * len(names), *trees.values()]) - known),
        selections=plan.selection_share * left * _ROUNDED_MORE if len(weights) > 1 else 0.0,
        fixed=fixed,
        among=[gate(clique) for clique in dict.fromkeys([*weights, *pairs, *again])],
        largest=None if zeros or unknown else _largest(plan, left, pairs, len(names)),
    )


def _one_fits(weights: Iterable[Clique], zeros: Zeros, schema: Schema, plan: Plan) -> bool:
    """Whether some marginal surely fits into the model, so that none of one attribute is chosen.

    Whatever the order of elimination, a part of the graph that is one clique has the cells of it,
    and another one at most those of all its attributes together, once for each of them. Levels that
    are merged make both smaller.
    """
    sizes = [max(2, a.extended_size) for a in schema]

    def cells(clique: Clique) -> int:
        held = [*zeros, clique]
        parts: dict[int, list[int]] = defaultdict(list)
        for v, part in enumerate(components(len(sizes), held)):
            parts[part].append(v)
        whole = {frozenset(c) for c in held}
        return sum(
            math.prod(sizes[v] for v in part) * (1 if frozenset(part) in whole else len(part))
            for part in parts.values()
        )

    def alone(clique: Clique) -> int:
        return math.prod(sizes[v] for v in clique)

    tried = heapq.nsmallest(_TRIED, weights, key=alone)
    return not tried or any(cells(clique) <= plan.max_cells for clique in tried)


def _largest(plan: Plan, left: float, pairs: list[Clique], attributes: int) -> float | None:
    """Return the cap of every single marginal of a spanning tree; None if there may be none.

    With all pairs in the workload, and no rules, a tree is always found: as long as it is not
    whole, there is more than one pair that joins two parts of it, if there are three attributes or
    more. So each edge gets the same cost, the pairs outside the tree share evenly what was reserved
    for them, and nothing is left to measure any of them again.
    """
    whole, edges = attributes * (attributes - 1) // 2, attributes - 1
    if not plan.forest or attributes < 3 or len(pairs) != whole:
        return None
    edge = (1 - plan.selection_share) * left / edges
    if costs_less(plan.whole, edge):
        return None
    kept = plan.pairs_share * plan.whole.amount / (whole - edges)
    return max(edge, kept) * EVEN * _ROUNDED_MORE
