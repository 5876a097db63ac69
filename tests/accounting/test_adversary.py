"""Filters against the optimal adversary, and what a schedule that was not fixed can do."""

import math
from fractions import Fraction

import numpy as np
import pytest
from adversary import H, Step, discrete_gaussian, true_delta, two_outcomes

from missdp.accounting import (
    GaussianEvent,
    PureEvent,
    RDPEvent,
    SelectionEvent,
    ZCDPEvent,
    delta_of,
    epsilon_of,
)
from missdp.accounting.filters import Cost

DELTAS = np.geomspace(1e-9, 0.3, 20)


def known_mechanisms(largest):
    """Events with the exact laws they may have: any bounded range, both ways, and Gaussians."""
    found = []
    for k in range(1, largest + 1):
        epsilon = float(k * H)
        found.append((PureEvent(epsilon=epsilon), two_outcomes(k, k)))
        found += [(SelectionEvent(epsilon=epsilon), two_outcomes(j, k - j)) for j in range(1, k)]
    for share in (1, 2):
        sigma = math.sqrt(1 / (2 * share * H))
        found.append((GaussianEvent(sensitivity=1, sigma=sigma), discrete_gaussian(share)))
    return found


@pytest.mark.parametrize(
    ("cost", "event"),
    [
        (Cost(currency="pure", amount=1.0), PureEvent(epsilon=1.0)),
        (Cost(currency="zcdp", amount=0.3), ZCDPEvent(rho=0.3)),
        (Cost(currency="renyi", amount=0.6, order=4.0), RDPEvent(orders=[4.0], epsilons=[0.6])),
        (Cost(currency="renyi", amount=0.6, order=12.0), RDPEvent(orders=[12.0], epsilons=[0.6])),
        (
            Cost(currency="gdp", amount=0.6),
            GaussianEvent(sensitivity=math.sqrt(0.6), sigma=1.0, discrete=False),
        ),
    ],
)
def test_no_adaptive_choice_beats_what_a_filter_is_worth(cost, event):
    units = 10 if cost.currency == "pure" else 120
    unit = Fraction(repr(cost.amount)) / units
    steps = []
    for kind, (losses, chances) in known_mechanisms(8):
        if cost.currency == "pure" and isinstance(kind, GaussianEvent):
            continue
        # Rounding a cost up only takes choices from the adversary.
        steps.append(Step(losses, chances, math.ceil(cost.price(kind) / unit)))
    epsilons = [epsilon_of(event, delta) for delta in DELTAS]
    true = true_delta(steps, units, epsilons)
    assert all(t <= delta * (1 + 1e-9) for t, delta in zip(true, DELTAS, strict=True))
    assert all(t <= delta_of(event, e) * (1 + 1e-9) for t, e in zip(true, epsilons, strict=True))
    assert max(t / delta for t, delta in zip(true, DELTAS, strict=True)) > 0.05  # a real attack
