"""What caps admit, whoever asks, costs no more than they claim: exact small worlds."""

import math
from collections import Counter
from copy import deepcopy
from itertools import combinations, product

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from missdp.accounting import Cost, GaussianEvent
from missdp.ground_truth.replicas import _chosen_curve, chosen_costs
from missdp.synth.caps import Keeper
from synth.tables import chosen_caps

A, B, C, AB, AC, BC, ABC = (
    frozenset(names) for size in (1, 2, 3) for names in combinations("abc", size)
)
SETS = [A, B, C, AB, AC, BC, ABC]


def moment(spent, chances, n):
    """Rényi divergence of order n of Gaussian answers behind gates: n copies of every mask."""
    masks = [frozenset(), *SETS]
    p = [math.prod(chances[a] if a in m else 1 - chances[a] for a in "abc") for m in masks]
    found = 0.0
    for copies in product(range(len(masks)), repeat=n):
        k = {gate: sum(gate <= masks[i] for i in copies) for gate in spent}
        power = math.exp(sum(rho * k[gate] * (k[gate] - 1) for gate, rho in spent.items()))
        found += math.prod(p[i] for i in copies) * power
    return math.log(found) / (n - 1)


def admitted(caps, asked):
    """Return what of the questions is admitted, by gate."""
    kept, spent = Keeper(caps), Counter()
    for number, (gate, rho) in enumerate(asked):
        sigma, label = (2 * rho) ** -0.5, f"marginal {number}"
        event = GaussianEvent(sensitivity=1, sigma=sigma, discrete=False, label=label, gate=gate)
        after = deepcopy(kept)
        if after.room_for(event):
            kept = after
            spent[gate] += rho
    return spent


@given(
    chances=st.tuples(*[st.sampled_from([0.02, 0.3, 0.9, 1.0])] * 3),
    among=st.lists(st.sampled_from(SETS), min_size=1, max_size=3),
    share=st.sampled_from([0.34, 0.5, 1.0]),
    others=st.tuples(*[st.sampled_from([0.0, 0.2])] * 2),
    asked=st.lists(
        st.tuples(st.sampled_from([frozenset(), *SETS]), st.sampled_from([0.08, 0.17, 0.25, 0.5])),
        max_size=8,
    ),
)
@example((0.5, 0.01, 1.0), [A, B], 0.5, (0.0, 0.0), [(A, 0.25), (AC, 0.25)])
@example((0.9, 0.02, 1.0), [AB, C], 0.5, (0.0, 0.2), [(AB, 0.25), (AB, 0.25), (ABC, 0.5)])
def test_what_is_admitted_is_within_the_claim(chances, among, share, others, asked):
    observed, (ungated, single) = dict(zip("abc", chances, strict=True)), others
    whole = Cost(currency="zcdp", amount=0.5 + ungated + single)
    caps = chosen_caps(
        whole, ungated=ungated, selections=0, fixed={A: single}, among=among, largest=share * 0.5
    )
    spent, costs = admitted(caps, asked), chosen_costs(caps.events, caps.structure, observed)
    orders = np.array([2, 3])
    for n, claim in zip(orders, _chosen_curve(costs, observed, orders=orders), strict=True):
        assert moment(spent, observed, int(n)) <= claim * (1 + 1e-7)


def test_two_shares_behind_one_set_are_not_a_share_of_each():
    """Of chances .5 and .01, at order 3: .697, where a share of each set claims .500."""
    whole, observed = Cost(currency="zcdp", amount=0.5), {"a": 0.5, "b": 0.01, "c": 1.0}
    caps = chosen_caps(whole, ungated=0, selections=0, fixed={}, among=[A, B], largest=0.25)
    claim = _chosen_curve(
        chosen_costs(caps.events, caps.structure, observed), observed, orders=np.array([3])
    )
    assert round(float(claim[0]), 3) == 0.5
    assert round(moment({A: 0.25, AC: 0.25}, observed, 3), 3) == 0.697
    assert admitted(caps, [(A, 0.25), (AC, 0.25)]) == {A: 0.25}
    assert admitted(caps, [(A, 0.25), (B, 0.25)]) == {A: 0.25, B: 0.25}
