"""Derive guarantees again from their events by dp_accounting, and their risk by riskcal.

    pip install riskcal
    python bench/accounting_judges.py

The cases are the events of `guarantee_cases.py` and planned fits of every family, each as a
guarantee for the table as it is. Google's dp_accounting composes the privacy loss distributions of
the same events, once with optimistic and once with pessimistic rounding. Our epsilon must not be
below the optimistic one, and should be at most 1.02 times the pessimistic one. riskcal derives the
largest advantage of an attack over guessing from the same distribution. The probability of a right
guess that a guarantee states in words must not be below it.

dp_accounting has no event for a selection of bounded range, which is judged as pure DP here: ours
may be smaller, and is marked. Events of zCDP and of Rényi DP have no loss distribution. They are
left out and counted.
"""

from __future__ import annotations

import argparse
import itertools
import math
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

from dp_accounting.pld import privacy_loss_distribution as pld
from guarantee_cases import EVENTS, options, schema

import missdp
from missdp.accounting import (
    Event,
    FilterEvent,
    GaussianEvent,
    Guarantee,
    LaplaceEvent,
    PureEvent,
    SampledGaussianEvent,
    SelectionEvent,
)
from missdp.accounting.events import flatten
from missdp.errors import MissDPError

TOLERANCE = 1.02  # of our epsilon to the pessimistic one of the judge
GRID = 1e-4  # distance of the losses that dp_accounting rounds to
ROUNDING = 1e-9  # relative, of printed and of converted numbers
DELTAS = (1e-6, 1e-3)


class Case(NamedTuple):
    """A judged release: its events, and the delta at which epsilon is stated."""

    name: str
    events: list[Event]
    delta: float


def loss(event: Event, *, pessimistic: bool) -> Any:
    """Return the privacy loss distribution of an event, or None if dp_accounting has none."""
    grid: Any = {"pessimistic_estimate": pessimistic, "value_discretization_interval": GRID}
    rounded = grid | {"use_connect_dots": pessimistic}  # connected dots round up only
    match event:
        case LaplaceEvent():
            return pld.from_laplace_mechanism(event.scale, event.sensitivity, **rounded)
        case GaussianEvent() if event.discrete and event.sensitivity == 1:  # one count by one row
            return pld.from_discrete_gaussian_mechanism(event.sigma, 1, **rounded)
        case GaussianEvent():
            return pld.from_gaussian_mechanism(event.sigma, event.sensitivity, **rounded)
        case SampledGaussianEvent():
            step = pld.from_gaussian_mechanism(
                event.noise_multiplier, sampling_prob=event.rate, **rounded
            )
            return step.self_compose(event.steps)
        case PureEvent() | SelectionEvent():  # randomized response is the worst of its kind
            right = -math.log1p(math.exp(-event.epsilon))
            with_row, without = (
                {0: right, 1: right - event.epsilon},
                {0: right - event.epsilon, 1: right},
            )
            return pld.from_two_probability_mass_functions(with_row, without, **grid)
        case FilterEvent():
            return loss(event.capacity, pessimistic=pessimistic)
    return None


def composed(events: list[Event], *, pessimistic: bool) -> Any:
    """Return the loss of a composition, or None if an event has none."""
    total = None
    for event in flatten(events):
        one = loss(event, pessimistic=pessimistic)
        if one is None:
            return None
        total = one if total is None else total.compose(one)
    return total


def cases() -> Iterator[Case]:
    """Yield the events of `guarantee_cases.py`, and the planned events of every family."""
    for (name, events), delta in itertools.product(EVENTS.items(), DELTAS):
        yield Case(name, list(events), delta)
    of = schema()
    for family in sorted(missdp.synthesizers().values(), key=lambda f: f.__name__):
        for setting, strategy in itertools.product(
            options(family.__name__), family.family.strategies
        ):
            model = family(epsilon=1.0, missing=strategy, **{"delta": 1e-6, **setting})
            try:
                events = list(model.planned_events(of))
            except MissDPError:
                continue
            yield Case(f"{family.__name__} {setting} {strategy}", events, model.delta)


def advantage(guarantee: Guarantee) -> float:
    """Return the advantage over guessing that the words of a guarantee state."""
    stated = re.search(r"with probability at most\s+([\d.]+) %", str(guarantee))
    assert stated is not None
    return 2 * float(stated[1]) / 100 - 1


def judge(case: Case) -> str:
    """Return a line with our epsilon, the two of dp_accounting, advantages, and problems."""
    from riskcal.analysis import get_advantage_from_pld

    ours = Guarantee.from_events(case.events, delta=case.delta)
    optimistic = composed(case.events, pessimistic=False)
    pessimistic = composed(case.events, pessimistic=True)
    if optimistic is None or pessimistic is None:
        return f"left out: {case.name}"
    low = optimistic.get_epsilon_for_delta(case.delta)
    high = pessimistic.get_epsilon_for_delta(case.delta)
    risk, stated = get_advantage_from_pld(optimistic), advantage(ours)
    selects = any(isinstance(event, SelectionEvent) for event in flatten(case.events))
    wrong = []
    if ours.epsilon < low * (1 - ROUNDING):
        wrong.append("better, as selections have a bounded range" if selects else "BELOW")
    if ours.epsilon > high * TOLERANCE + GRID:
        wrong.append("looser")
    if stated < risk - 1e-4:
        wrong.append("better, as selections have a bounded range" if selects else "RISK")
    ratio = ours.epsilon / high if high else 1.0
    return (
        f"{case.name}; delta {case.delta:g}: epsilon {ours.epsilon:.5f}, judge {low:.5f} to "
        f"{high:.5f} ({ratio:.4f}), advantage {stated:.4f}, judge {risk:.4f} {'; '.join(wrong)}"
    )


def main() -> int:
    """Print a line for every case. Return 1 if a guarantee is below the judge's."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    ).parse_args()
    warnings.simplefilter("ignore")
    lines = []
    for case in cases():
        lines.append(judge(case))
        print(lines[-1], flush=True)
    count = {kind: sum(kind in line for line in lines) for kind in ("left out", "looser")}
    wrong = sum("BELOW" in line or "RISK" in line for line in lines)
    print(
        f"{len(lines)} cases, {count['left out']} left out, {count['looser']} looser, {wrong} wrong"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
