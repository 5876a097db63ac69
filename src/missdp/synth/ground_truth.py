"""What a synthesizer's guarantee means for the table before values went missing."""

from __future__ import annotations

import math
from dataclasses import replace

from missdp.accounting import (
    Condition,
    DataChosenGates,
    Event,
    FixedGates,
    Guarantee,
    MissingCompletelyAtRandom,
    PureAccountant,
    PureEvent,
    ground_truth_guarantee,
)
from missdp.errors import ParameterError
from missdp.schema import Schema
from missdp.synth.strategies import ROW_STRATEGIES

__all__ = ["synthesizer_ground_truth"]


def synthesizer_ground_truth(
    guarantee: Guarantee, *, missing: str, schema: Schema, assumption: Condition | None
) -> Guarantee:
    """Return the ground-truth guarantee of a fit.

    Parameters
    ----------
    guarantee : Guarantee
        What the fit guarantees for the incomplete table.
    missing : str
        The missing-data strategy, which decides who chose the gates.
    schema : Schema
        Public facts.
    assumption : Condition
        How values went missing.

    Raises
    ------
    ParameterError
        If rates are stated of attributes that the schema does not have, or says are never missing.

    Returns
    -------
    Guarantee
        Never worse than ``guarantee``; equal where no amplification is proven.

    Notes
    -----
    With ``"adaptive"`` the network decides which attributes a row must have observed, and even how
    the epsilon E of the tables is split among them. Given the row's mask m, the output (network r,
    tables) has log-ratio at most ``sum_j e_j(r) 1[S_j(r) within obs(m)]`` with ``sum_j e_j(r) =
    E``. By convexity its exponential is at most ``sum_j (e_j(r) / E) exp(E 1[S_j(r) within
    obs(m)])``, whose mean over m is at most ``1 + p* (e^E - 1)`` for every r, with p* the largest
    probability of observing one nullable attribute. So the tables count as one mechanism with
    epsilon E and a gate of at least one attribute, whatever the data chose, provided that every
    attribute is nullable; otherwise some table may read every row and nothing is amplified. The
    other direction follows as in the mask-mixture theorem (spec, ``privacy.md`` §3). With
    ``"complete-rows"`` all gates are the same, and the same argument needs no structure at all.
    Gaussian releases keep their epsilon: no bound is proven for them when the data chose the gates.
    """
    _check_names(assumption, schema)
    gates = {event.gate for event in guarantee.events if event.gate}
    chosen = missing == "adaptive" and bool(gates)
    # Of a strategy that is not known here, nothing is known about who chose its gates.
    known = missing in ("adaptive", *ROW_STRATEGIES)
    if guarantee.delta > 0 or not known or (chosen and len(schema.nullable) < len(schema)):
        return ground_truth_guarantee(_ungated(guarantee), assumption, structure=FixedGates())
    if not chosen and len(gates) != 1:
        # Nothing is gated, or every gate and its epsilon was fixed in advance (imputation first).
        return ground_truth_guarantee(guarantee, assumption, structure=FixedGates())
    structure = DataChosenGates(attributes=schema.names, smallest=1) if chosen else FixedGates()
    merged = replace(guarantee, events=_merge_gated(guarantee.events))
    return ground_truth_guarantee(merged, assumption, structure=structure)


def _check_names(assumption: Condition | None, schema: Schema) -> None:
    """Refuse rates that contradict public facts: a mistyped name, or another table."""
    if not isinstance(assumption, MissingCompletelyAtRandom):
        return
    stated = dict(assumption.observed)
    if unknown := sorted(set(stated) - set(schema.names)):
        raise ParameterError(
            f"observed names attributes that the schema does not have: {', '.join(unknown)}; it "
            f"has {', '.join(schema.names)}"
        )
    never = [name for name, rate in stated.items() if rate < 1 and name not in schema.nullable]
    if never:
        raise ParameterError(
            f"observed must be 1 for attributes that the schema says are never missing: "
            f"{', '.join(never)}"
        )


def _ungated(guarantee: Guarantee) -> Guarantee:
    return replace(guarantee, events=tuple(replace(e, gate=None) for e in guarantee.events))


def _merge_gated(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """Add the gated events up into one, with one of the smallest of their gates."""
    gated = [event for event in events if event.gate]
    gate = min((e.gate for e in gated if e.gate), key=lambda names: (len(names), sorted(names)))
    total = math.fsum(PureAccountant().epsilon([event], 0.0) for event in gated)
    one = PureEvent(epsilon=total, gate=gate, label="everything that reads observed cells only")
    return (*(event for event in events if not event.gate), one)
