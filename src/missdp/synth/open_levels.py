"""Levels of open attributes, found before anything else of a fit: what it costs, and by whom.

The proof stands in `missdp.mechanisms.open_levels`: costs add up as those of Gaussian releases, and
failures are taken out of the delta of the fit before the rest of it is converted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from missdp.accounting import ApproximateEvent, Budget, Guarantee
from missdp.accounting.exact import exact, float_down
from missdp.errors import ParameterError, UnprovenError, replacing
from missdp.mechanisms.door import Noise
from missdp.mechanisms.open_levels import FrequentValues, OccurringValues, RowsAsTheyCame
from missdp.schema import OpenCategorical, Schema
from missdp.schema.open_domains import with_levels
from missdp.synth.split import Part, Split

if TYPE_CHECKING:
    from missdp.synth.base import Synthesizer

OPEN: Final = "open levels"
_SHARE, _MOST_SHARE = 0.12, 0.3  # of the budget, for one attribute and for all
_FAILURE = Fraction(1, 10)  # of the delta of a fit, for all attributes


def open_part(names: Sequence[str]) -> Part:
    """Return the part of the budget by which levels are found."""
    return Part(OPEN, min(_MOST_SHARE, _SHARE * len(names)), (frozenset(),) * len(names))


def failure_of(delta: float, names: Sequence[str]) -> float:
    """Return the part of delta with which a rare value may be released; 0 without open levels."""
    return float_down(exact(delta) * _FAILURE) if names else 0.0


def delta_beside(delta: float, names: Sequence[str]) -> float:
    """Return what failures leave of the delta of a fit."""
    return float_down(exact(delta) - exact(failure_of(delta, names)))


def failures(delta: float, names: Sequence[str]) -> tuple[ApproximateEvent, ...]:
    """Return the event that rare levels are charged by, beside all else; none without open ones."""
    chance = failure_of(delta, names)
    return (ApproximateEvent(epsilon=0.0, delta=chance, label="rare levels"),) if names else ()


def with_failure(spent: Guarantee, delta: float, names: Sequence[str]) -> Guarantee:
    """Return what a fit guarantees at its whole delta, failures included."""
    events = (*spent.events, *failures(delta, names))
    return replace(spent, delta=delta, events=events) if names else spent


def check_open(model: Synthesizer, names: Sequence[str]) -> None:
    """Refuse, before anything is charged, a fit that cannot find levels."""
    if names and model._delta == 0:
        raise ParameterError(
            f"the levels of {names[0]!r} are open, and finding them needs a delta above 0: state "
            "one, or declare the levels"
        )
    if names and model.budget is not None:
        _check_shared(model.budget, model._delta, names)
    if names and model._budget.delta > model._delta_to_spend:
        raise ParameterError(f"{type(model).__name__} cannot find open levels: declare them")


def _check_shared(budget: Budget, delta: float, names: Sequence[str]) -> None:
    """Refuse a shared budget that does not count failures."""
    refused = ParameterError(
        f"the levels of {names[0]!r} are open, and a rare one may leave with a small probability, "
        "which this budget does not count: use one with schedule='fixed', or a ledger's in the "
        "currency 'zcdp' with failure=..., or declare the levels"
    )
    with replacing(UnprovenError, by=refused):
        budget.can_afford(*failures(delta, names))


def release_levels(
    session: RowsAsTheyCame,
    schema: Schema,
    attributes: Sequence[OpenCategorical],
    split: Split,
    *,
    delta: float,
) -> Schema:
    """Return a schema with the levels that were found, for what the split gives each attribute."""
    names = [attribute.name for attribute in attributes]
    each = float_down(exact(failure_of(delta, names)) / len(names))
    found = {}
    for attribute, cost in zip(attributes, split.costs(OPEN), strict=True):
        how = FrequentValues(Noise.worth(cost).scale, each, attribute.max_levels)
        found[attribute.name] = session.measure(OccurringValues(attribute.name), how).value
    return with_levels(schema, found)
