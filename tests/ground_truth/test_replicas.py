"""Many gates at once: the bound against exact divergences of mixtures over masks."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp.accounting import (
    ApproximateEvent,
    GaussianEvent,
    MissingCompletelyAtRandom,
    RDPEvent,
    ZCDPEvent,
)
from missdp.accounting.exact import epsilon_from_rdp
from missdp.ground_truth import FixedGates, ground_truth_guarantee
from missdp.ground_truth.bounds import _replicas
from missdp.ground_truth.replicas import ORDERS, replica_curve, replica_epsilon

GRID = np.linspace(-12.0, 16.0, 401)
STEP = GRID[1] - GRID[0]


def density(mean):
    return np.exp(-np.square(GRID - mean) / 2) / math.sqrt(2 * math.pi)


def divergences(laws, p, n):
    """Exact divergences of order n, both ways, of two answers, the second chosen by the first.

    ``laws(mask, first)`` are the means of the answers when the row is there; without it all are 0.
    """
    absent = np.outer(density(0.0), density(0.0))
    present = np.zeros_like(absent)
    for mask in itertools.product((0, 1), repeat=2):
        chance = math.prod(q if seen else 1 - q for q, seen in zip(p, mask, strict=True))
        first = density(laws(mask, None))
        second = np.array([density(laws(mask, x)) for x in GRID])
        present += chance * first[:, None] * second
    ratio = present / absent
    forth = (absent * ratio**n).sum() * STEP**2
    back = (absent * ratio ** (1 - n)).sum() * STEP**2
    return math.log(forth) / (n - 1), math.log(back) / (n - 1)


def plain(mask, first):
    return mask[0] if first is None else 0.8 * mask[1]


def turning(mask, first):
    """What is asked second depends on the first answer, and on which other cell is missing."""
    if first is None:
        return mask[0]
    return 0.8 * mask[1] * (1 if (first > 0.5) == bool(mask[0]) else -1)


def following(mask, first):
    """Moves further whenever the row seems to be there."""
    return mask[0] if first is None else 0.8 * mask[1] * (1 if first > 0.5 else 0)


EVENTS = [ZCDPEvent(rho=0.5, gate={"a"}), ZCDPEvent(rho=0.32, gate={"b"})]


@pytest.mark.parametrize("laws", [plain, turning, following])
@pytest.mark.parametrize("p", [(0.5, 0.5), (0.2, 0.9), (0.05, 0.3)])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_no_way_to_ask_beats_the_bound(laws, p, n):
    bound = replica_curve(EVENTS, dict(zip("ab", p, strict=True)))[n - 2]
    forth, back = divergences(laws, p, n)
    assert max(forth, back) <= bound * (1 + 1e-9)
    if laws is plain:
        exact = sum(
            math.log(sum(math.comb(n, k) * q**k * (1 - q) ** (n - k) * math.exp(rho * k * (k - 1))
                         for k in range(n + 1)))
            for q, rho in zip(p, (0.5, 0.32), strict=True)
        ) / (n - 1)  # fmt: skip
        assert forth == pytest.approx(exact, rel=1e-6)  # nothing is given away on this side
        assert bound <= 2 * forth  # the other side is bounded less tightly


def test_one_gate_for_both_would_claim_too_little():
    """The same adversary refutes a bound that puts two gates behind the wider one of them."""
    p = (0.3, 0.3)
    wrong = [ZCDPEvent(rho=0.82, gate={"a"})]
    for n in (2, 3):
        forth, _ = divergences(plain, p, n)
        halved = replica_curve([ZCDPEvent(rho=0.41, gate={"a"})], {"a": 0.3})[n - 2]
        assert forth > halved
        assert replica_curve(EVENTS, dict.fromkeys("ab", 0.3))[n - 2] >= forth
        assert replica_curve(wrong, {"a": 0.3})[n - 2] > forth


rates = st.floats(0.0, 1.0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(1e-6, 3.0), st.sampled_from(["a", "b", "ab", ""])), max_size=5))
def test_it_is_never_worse_than_no_amplification_and_grows_with_what_is_observed(parts):
    events = [ZCDPEvent(rho=rho, gate=set(gate) or None) for rho, gate in parts]
    curves = [
        replica_curve(events, {"a": p, "b": p}) for p in (0.0, 1e-9, 0.2, 0.7, 1 - 1e-12, 1.0)
    ]
    for less, more in itertools.pairwise(curves):
        assert (less <= more * (1 + 1e-6) + 1e-12).all()
    total = sum(rho for rho, _ in parts)
    np.testing.assert_allclose(curves[-1], total * ORDERS, rtol=1e-7, atol=1e-300)
    open_to_all = sum(rho for rho, gate in parts if not gate)
    np.testing.assert_allclose(curves[0], open_to_all * ORDERS, rtol=1e-7, atol=1e-300)


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.9), (0.01, 0.3)])
@pytest.mark.parametrize("scale", [1e-4, 0.02, 1.0])
def test_it_is_the_larger_of_what_is_proven_either_way(p, q, scale):
    """By the formulas, one number of masks at a time. Small costs are bound by the way back."""
    rho = {"a": 0.7 * scale, "b": 0.3 * scale, None: 0.1 * scale}
    events = [ZCDPEvent(rho=r, gate={gate} if gate else None) for gate, r in rho.items()]
    curve = dict(zip(ORDERS.tolist(), replica_curve(events, {"a": p, "b": q}), strict=True))
    ways = set()
    for n in (2, 3, 7, 20):
        forth = back = n * rho[None]
        for gate, chance in (("a", p), ("b", q)):
            mean = sum(
                math.comb(n, k)
                * chance**k
                * (1 - chance) ** (n - k)
                * math.exp(max(0, k - 1) * k * rho[gate])
                for k in range(n + 1)
            )
            forth += math.log(mean) / (n - 1)
            back += chance * (1 + (n - 1) * chance) * rho[gate]
        assert curve[n] == pytest.approx(max(forth, back), rel=1e-6)
        assert curve[n] >= max(forth, back) * (1 - 1e-12)
        ways.add(back > forth)
    assert scale > 0.01 or ways == {True}


def test_small_costs_are_not_lost_to_rounding():
    curve = replica_curve([ZCDPEvent(rho=1e-18, gate={"a"})], {"a": 0.5})
    assert (curve > 0).all()
    assert curve[0] == pytest.approx(0.25 * 2e-18, rel=0.5) or curve[0] >= 0.25 * 2e-18


def test_gates_that_overlap_are_counted_behind_one_attribute_each():
    observed = {"a": 0.5, "b": 0.9}
    both = replica_curve([ZCDPEvent(rho=0.1, gate={"a", "b"})], observed)
    mixed = replica_curve(
        [ZCDPEvent(rho=0.1, gate={"a", "b"}), ZCDPEvent(rho=0.1, gate={"b"})], observed
    )
    apart = replica_curve(
        [ZCDPEvent(rho=0.1, gate={"a"}), ZCDPEvent(rho=0.1, gate={"b"})], observed
    )
    np.testing.assert_array_equal(mixed, apart)
    together = replica_curve([ZCDPEvent(rho=0.1, gate={"c"})], {"c": 0.45})
    np.testing.assert_allclose(both, together)


def test_a_cap_at_one_order_proves_nothing_above_it():
    curve = replica_curve([RDPEvent(orders=(8.0,), epsilons=(0.1,), gate={"a"})], {"a": 0.5})
    assert np.isfinite(curve[ORDERS <= 8]).all()
    assert np.isinf(curve[ORDERS > 8]).all()


def test_what_may_fail_outright_is_not_amplified_like_this():
    known = dict.fromkeys("ab", 0.5)
    failing = ApproximateEvent(epsilon=0.5, delta=1e-7, gate={"a"})
    smooth = ZCDPEvent(rho=0.01, gate={"b"})
    assert _replicas([failing, smooth], 1e-6, known) is None
    assert _replicas([smooth], 1e-6, known) is not None
    assert _replicas([smooth], 0.0, known) is None


def test_it_agrees_with_loss_distributions_where_both_are_proven():
    events = [GaussianEvent(sensitivity=1, sigma=5.0, discrete=False, gate={a}) for a in "abcd"]
    known = dict.fromkeys("abcd", 0.5)
    tight = ground_truth_guarantee(
        events, MissingCompletelyAtRandom(known), structure=FixedGates(), delta=1e-6
    ).epsilon
    ours = replica_epsilon(events, 1e-6, known)
    unamplified = epsilon_from_rdp(ORDERS.astype(float), 4 * 0.02 * ORDERS, 1e-6)
    assert tight <= ours < 1.25 * tight
    assert ours < 0.85 * unamplified


@given(p=st.floats(0.05, 0.95), rho=st.floats(0.01, 1.0), many=st.integers(2, 5))
@settings(max_examples=20, deadline=None)
def test_gates_alike_count_as_often_as_they_are(p, rho, many):
    """Blocks of one rate and cost are worked out once; next to nothing apart, each by itself."""
    names = "abcde"[:many]
    alike = [ZCDPEvent(rho=rho, gate={name}) for name in names]
    apart = [ZCDPEvent(rho=rho * (1 + 1e-9 * k), gate={name}) for k, name in enumerate(names)]
    observed = dict.fromkeys(names, p)
    one, other = replica_curve(alike, observed), replica_curve(apart, observed)
    assert one == pytest.approx(other, rel=1e-6)
    single = replica_curve(alike[:1], observed)
    assert (one > 1.5 * single).all()
