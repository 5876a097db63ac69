"""A fit as the caps of its parts, and who chose their gates: what `missdp.ground_truth` amplifies.

Every number here is a cap that was set before anything was released: that of the whole fit, and
those of the parts that a fit reserves for releases that read observed cells only. Why each kind of
part is amplified stands in docs/referees/proofs.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

from missdp.accounting import (
    Event,
    FilterEvent,
    Guarantee,
    PureEvent,
    RDPEvent,
    difference,
    releases,
)
from missdp.accounting.exact import exact, float_up
from missdp.accounting.filters import ROW
from missdp.accounting.gates import DataChosenGates, FixedGates, Structure
from missdp.sources import Strategy
from missdp.sources.modelled import Modelled
from missdp.synth.caps import Caps

__all__ = ["Parts", "ground_truth_parts", "of_parts"]

Parts: TypeAlias = tuple[Guarantee, Structure | None]


def ground_truth_parts(
    guarantee: Guarantee,
    *,
    strategy: Strategy,
    modelled: Modelled,
    fixed_gates: bool = False,
    caps: Caps | None = None,
) -> Parts:
    """Return a fit as the caps of its parts, and who chose their gates; None if there are none.

    Parameters
    ----------
    guarantee : Guarantee
        What the fit guarantees for the incomplete table.
    strategy : Strategy
        The missing-data strategy, which knows who chose the gates.
    modelled : Modelled
        Public facts: which attributes are modelled, and which of them rules may fill.
    fixed_gates : bool
        Whether the family fixes, by public facts and parameters, what a row must have observed for
        each of its releases. Noise may follow from what was released before: each gate counts with
        what was spent behind it, within the cap of the whole, and the rest as if behind no gate.
    caps : Caps, optional
        What the parts of the fit cost at most, by parameters and public facts alone.
    """
    if guarantee.unit != ROW:
        return guarantee, None
    whole = guarantee.events[0] if len(guarantee.events) == 1 else None
    if not isinstance(whole, FilterEvent):
        return guarantee, None
    reserved = caps is None or isinstance(caps.structure, DataChosenGates)  # then in the log
    if caps is not None and not reserved and caps.hold(whole):
        return of_parts(guarantee, caps)
    if fixed_gates and whole.cost.currency == "renyi":
        return _of_parts(guarantee, _gate_by_gate(whole)), FixedGates()
    if whole.cost.currency != "pure":
        return guarantee, None
    gated, chosen = _gated(whole, strategy)
    names = modelled.schema.names
    always = {*names} - {*modelled.schema.nullable} | modelled.filled & {*names}
    if not gated or (chosen and always):
        return guarantee, None
    structure = DataChosenGates(attributes=names, smallest=1) if chosen else FixedGates()
    return replace(guarantee, events=_with_the_rest(whole.cost.amount, gated)), structure


def of_parts(guarantee: Guarantee, caps: Caps | None) -> Parts:
    """Return the guarantee of a whole fit as that of its parts, if their caps are known."""
    if caps is None:
        return guarantee, None
    return _of_parts(guarantee, caps.events), caps.structure


def _of_parts(guarantee: Guarantee, events: tuple[Event, ...]) -> Guarantee:
    """Return a guarantee by its parts, which rounding makes a little more than the whole."""
    parts = Guarantee.from_events(events, delta=guarantee.delta)
    return replace(guarantee, epsilon=max(guarantee.epsilon, parts.epsilon), events=events)


def _gated(whole: FilterEvent, strategy: Strategy) -> tuple[list[FilterEvent], bool]:
    """Return what may be amplified, by caps, and whether the data chose the gates."""
    if strategy.gates == "parameters":
        margins = [e for e in whole.log if e.gate and not isinstance(e, FilterEvent)]
        caps = [Guarantee.from_events(event).epsilon for event in margins]
        return [_cap(e, c, e.gate) for e, c in zip(margins, caps, strict=True)], False
    if strategy.gates == "none":
        return [], False
    found, chosen = [], strategy.gates == "data"
    for part in whole.log:
        gates = [release.gate for release in releases(part)]
        known = [gate for gate in gates if gate]
        if isinstance(part, FilterEvent) and known and len(known) == len(gates):
            # Data-chosen: one of the smallest, as good as any. Fixed: what all of them have.
            smallest = min(known, key=lambda names: (len(names), sorted(names)))
            gate = smallest if chosen else frozenset.intersection(*known)
            found.append(_cap(part, part.cost.amount, gate))
    return [part for part in found if part.gate], chosen


def _gate_by_gate(whole: FilterEvent) -> tuple[Event, ...]:
    """Return what each gate's releases cost at most, and one event of all that is left of the cap.

    A release whose noise was fixed costs what it costs; a part that was reserved, its cap.
    """
    cap, order = whole.cost, float(whole.cost.order or 0)
    found: dict[frozenset[str], Fraction] = defaultdict(Fraction)
    for part in whole.log:
        gates = {release.gate or frozenset() for release in releases(part)}
        gate = frozenset.intersection(*gates) if gates else frozenset[str]()
        if isinstance(part, FilterEvent):
            same = part.cost.order == cap.order
            cost = exact(part.cost.amount) if same else Fraction(0)
        else:
            cost = cap.price(part)
        if gate:
            found[gate] += cost
    # Each is rounded up by itself: the rest is what is left exactly, not less for their rounding.
    amounts = {gate: float_up(cost) for gate, cost in found.items()}
    rest = float_up(max(Fraction(0), exact(cap.amount) - sum(found.values())))

    def at_order(amount: float, gate: frozenset[str] | None, label: str) -> FilterEvent:
        capacity = RDPEvent(orders=(order,), epsilons=(amount,))
        return FilterEvent(capacity=capacity, gate=gate, label=label)

    gated = [at_order(amount, gate, "behind one gate") for gate, amount in amounts.items()]
    return (*gated, at_order(rest, None, "everything else"))


def _cap(event: Event, epsilon: float, gate: frozenset[str] | None) -> FilterEvent:
    return FilterEvent(capacity=PureEvent(epsilon=epsilon), label=event.label, gate=gate)


def _with_the_rest(cap: float, gated: Sequence[FilterEvent]) -> tuple[Event, ...]:
    """Return the gated parts, and one event of all that the cap leaves for everything else.

    Rounding takes from the gated parts what it adds to the rest.
    """
    caps = [event.cost.amount for event in gated]
    rest = difference(cap, *caps, up=True)
    last = _cap(gated[-1], difference(cap, rest, *caps[:-1]), gated[-1].gate)
    everything_else = FilterEvent(capacity=PureEvent(epsilon=rest), label="everything else")
    return (*gated[:-1], last, everything_else)
