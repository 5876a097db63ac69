"""What the parts of a fit cost at most, known before anything is read.

A guarantee for the ground truth is computed from what no output decides: parameters, public facts,
and caps that hold on every path. What was released in the end is an outcome and proves nothing; it
is only checked against the caps, for a file may have been edited.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from missdp.accounting import Cost, Event, FilterEvent, SelectionEvent, releases
from missdp.accounting.exact import difference, exact
from missdp.accounting.filters import filter_cost
from missdp.ground_truth import ChosenGates, DataChosenGates, FixedGates
from missdp.ground_truth.gates import Structure

__all__ = [
    "Caps",
    "Gate",
    "chosen_caps",
    "costs_less",
    "fixed_caps",
    "one_gate_caps",
    "target_caps",
]

Gate = frozenset[str]

_ROUNDED = 1 + 1e-9
_NEAR = 1e-3
_GAP = 1.1  # in Gaussian DP; see `missdp.accounting.gdp.gdp_noise`


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
    Only the caps of what reads every row have to be kept; a release behind a gate may be counted as
    one that reads every row, which costs more of the ground truth, not less. So what they leave of
    the whole is a cap for all that is gated.
    """

    whole: Cost
    events: tuple[FilterEvent, ...]
    structure: Structure

    def hold(self, whole: FilterEvent) -> bool:
        """Whether a fit was capped as a whole by this, and what it released is within the parts."""
        if whole.cost != FilterEvent(capacity=self.whole.event()).cost:
            return False
        log = releases(whole)
        among = self.structure.among if isinstance(self.structure, ChosenGates) else ()
        # If marginals that may be chosen read every row, all that is left of the whole may.
        for selects in (True,) if () in among else (False, True):
            cap = sum(exact(e.cost.amount) for e in self.events if _open(e, selects=selects))
            spent = [filter_cost(e, self.whole) for e in log if _open(e, selects=selects)]
            if sum(spent) > cap * exact(_ROUNDED):
                return False
        gates = {*map(Gate, among), *(e.gate or Gate() for e in self.events)}
        return all(any((e.gate or Gate()) >= gate for gate in gates if gate) for e in _gated(log))


def _gated(log: Iterable[Event]) -> list[Event]:
    return [event for event in log if event.gate]


def _open(event: Event, *, selects: bool) -> bool:
    """Whether an event reads every row, and is a selection or the cap of selections."""
    selection = isinstance(event, SelectionEvent) or event.label == ChosenGates.selections
    return not event.gate and selection == selects


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


def fixed_caps(whole: Cost, *, fixed: Mapping[Gate, float]) -> Caps | None:
    """Return the caps of a fit whose gates are fixed; all else of the whole reads every row.

    Parameters
    ----------
    whole : Cost
    fixed : mapping of set of str to float
        Costs behind gates, by gate; fixed by parameters and public facts.
    """
    gated = [_cap(whole, c, gate, "fixed in advance") for gate, c in fixed.items() if gate and c]
    rest = difference(whole.amount, *(part.cost.amount for part in gated), up=True)
    if not gated or rest <= 0:
        return None
    events = (*gated, _cap(whole, rest, None, "every row"))
    return Caps(whole=whole, events=events, structure=FixedGates())


def costs_less(whole: Cost, *amounts: float) -> bool:
    """Whether noise that is worth so much may cost clearly less, so that more is left than is told.

    Where the noise of a count is about as small as its steps, its costs in Gaussian DP have a gap.
    """
    return whole.currency == "gdp" and any(1 - _NEAR < amount < _GAP for amount in amounts)


def target_caps(whole: Cost, tables: float, attributes: Iterable[str]) -> Caps:
    """Return the caps of a network in pure epsilon; every attribute may be missing.

    Tables count as one release behind an attribute that the data chose: see `before_holes`.
    """
    names = tuple(attributes)
    rest = _cap(whole, difference(whole.amount, tables, up=True), None, "every row")
    gated = _cap(whole, difference(whole.amount, rest.cost.amount), Gate(names[:1]), "tables")
    structure = DataChosenGates(attributes=names, smallest=1)
    return Caps(whole=whole, events=(rest, gated), structure=structure)


def _cap(whole: Cost, amount: float, gate: Gate | None, label: str) -> FilterEvent:
    return FilterEvent(capacity=replace(whole, amount=amount).event(), gate=gate, label=label)
