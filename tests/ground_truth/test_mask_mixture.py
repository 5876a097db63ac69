"""The mask mixture against brute force, the paper's examples, and its own monotonicity."""

import itertools
import math
import time
from decimal import Decimal, localcontext

import numpy as np
import pytest
from algorithm4 import paper_approximation, sound_partition
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp.errors import ParameterError
from missdp.ground_truth import (
    amplified_epsilon,
    mask_mixture,
)
from missdp.ground_truth.mixture import log_expectation, min_fill_order

EXAMPLE = {"State": 0.75, "Occupation": 1.0, "Gender": 0.75, "Income": 0.75}


def brute_force(gates, epsilons, observed, deltas=None):
    """Enumerate every mask; no reduction, no factor graph."""
    names = sorted(observed)
    deltas = deltas or [0.0] * len(gates)
    total = slip = 0.0
    for mask in itertools.product((0, 1), repeat=len(names)):
        seen = {name for name, bit in zip(names, mask, strict=True) if bit}
        weight = math.prod(observed[name] if name in seen else 1 - observed[name] for name in names)
        opened = [j for j, gate in enumerate(gates) if set(gate or ()) <= seen]
        total += weight * math.exp(math.fsum(epsilons[j] for j in opened))
        slip += weight * math.fsum(deltas[j] for j in opened)
    return math.log(total), slip


@st.composite
def systems(draw, attributes=7, mechanisms=7):
    names = [f"a{i}" for i in range(draw(st.integers(1, attributes)))]
    count = draw(st.integers(1, mechanisms))
    subsets = st.frozensets(st.sampled_from(names), max_size=len(names))
    gates = draw(st.lists(subsets, min_size=count, max_size=count))
    small = st.floats(0.0, 3.0)
    epsilons = draw(st.lists(small, min_size=count, max_size=count))
    rates = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.01, 0.99))
    observed = {name: draw(rates) for name in names}
    return gates, epsilons, observed


# --- The paper's running example (six digits) -------------------------------------------------


def test_example_5_5_complete_rows():
    everything = set(EXAMPLE)
    bound = mask_mixture([everything] * 4, [0.25] * 4, observed=EXAMPLE)
    assert bound.epsilon == pytest.approx(0.545169, abs=5e-7)
    figure = paper_approximation([everything] * 4, [0.25] * 4, observed=EXAMPLE)
    assert figure.linear_epsilon == pytest.approx(0.421875, abs=1e-12)
    assert figure.sound.cost == pytest.approx(0.545169, abs=5e-7)


def test_example_5_7_disjoint_marginals():
    gates = [{"State"}, {"Occupation"}, {"Gender", "Income"}]
    bound = mask_mixture(gates, [1 / 3] * 3, observed=EXAMPLE)
    figure = paper_approximation(gates, [1 / 3] * 3, observed=EXAMPLE)
    assert figure.linear_epsilon == pytest.approx(0.770833, abs=5e-7)
    assert figure.sound.cost == pytest.approx(0.794087, abs=5e-7)
    assert bound.epsilon == pytest.approx(0.794087, abs=5e-7)


def test_example_5_8_overlapping_marginals():
    gates = [{"State"}, {"Occupation"}, {"Gender"}, {"Gender", "Income"}]
    bound = mask_mixture(gates, [0.25] * 4, observed=EXAMPLE)
    figure = paper_approximation(gates, [0.25] * 4, observed=EXAMPLE)
    assert figure.linear_epsilon == pytest.approx(0.8125, abs=1e-12)  # beats the naive 0.828125
    # Sound cost of the partition that the paper names (M3 and M4 share Gender) ...
    named = [("State", 0.25), ("Occupation", 0.25), ("Gender", 0.5)]
    priced = math.fsum(amplified_epsilon(EXAMPLE[name], cost) for name, cost in named)
    assert priced == pytest.approx(0.839564, abs=5e-7)
    # ... which ties with {Gender | Income} at the linear cost, and loses to it at the sound one.
    assert figure.sound.cost == pytest.approx(0.829337, abs=5e-7)
    assert bound.epsilon == pytest.approx(0.792473, abs=5e-7)


def test_example_5_13_column_wise():
    targets = sorted(EXAMPLE)
    expected = pytest.approx(0.829337, abs=5e-7)
    assert mask_mixture([{t} for t in targets], [0.25] * 4, observed=EXAMPLE).epsilon == expected
    # Theorem 5.12 amplifies one attribute only, at the smallest factor, and linearly.
    linear = min(EXAMPLE.values()) * 0.25 + 3 * 0.25
    assert linear == 0.9375


# --- Exactness ---------------------------------------------------------------------------------


@given(systems(), st.data())
@settings(max_examples=150, deadline=None)
def test_equals_brute_force_over_masks(system, data):
    gates, epsilons, observed = system
    deltas = data.draw(
        st.lists(st.floats(0.0, 0.1), min_size=len(gates), max_size=len(gates)), label="deltas"
    )
    bound = mask_mixture(gates, epsilons, deltas, observed=observed)
    epsilon, delta = brute_force(gates, epsilons, observed, deltas)
    assert bound.exact
    assert bound.epsilon == pytest.approx(epsilon, abs=1e-9)
    assert bound.delta == pytest.approx(delta, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_equals_brute_force_with_fifteen_attributes(seed):
    rng = np.random.default_rng(seed)
    names = [f"a{i}" for i in range(15)]
    observed = dict(zip(names, rng.uniform(0.05, 0.95, 15).tolist(), strict=True))
    sizes = rng.integers(1, 5, size=12)
    gates = [set(rng.choice(names, size=size, replace=False)) for size in sizes]
    epsilons = rng.uniform(0.0, 2.0, size=12).tolist()
    bound = mask_mixture(gates, epsilons, observed=observed)
    assert bound.epsilon == pytest.approx(brute_force(gates, epsilons, observed)[0], abs=1e-9)


def test_never_rounds_below_the_exact_value():
    """Against fifty decimal digits: floating-point error must not turn the bound around."""
    rng = np.random.default_rng(11)
    with localcontext() as context:
        context.prec = 50
        for _ in range(40):
            names = [f"a{i}" for i in range(5)]
            rates = dict(zip(names, rng.uniform(0.05, 0.95, 5).tolist(), strict=True))
            gates = [set(rng.choice(names, size=2, replace=False)) for _ in range(5)]
            epsilons = rng.uniform(0.0, 1.0, 5).tolist()
            total = Decimal(0)
            for mask in itertools.product((0, 1), repeat=5):
                seen = {name for name, bit in zip(names, mask, strict=True) if bit}
                term = Decimal(1)
                for name, rate in rates.items():
                    term *= Decimal(rate) if name in seen else 1 - Decimal(rate)
                opened = [Decimal(e) for g, e in zip(gates, epsilons, strict=True) if g <= seen]
                total += term * sum(opened, Decimal(0)).exp()
            exact = total.ln()
            value = Decimal(mask_mixture(gates, epsilons, observed=rates).epsilon)
            assert exact <= value <= exact + Decimal("1e-11")


def test_tiny_losses_do_not_vanish():
    names = {f"a{i}" for i in range(120)}
    bound = mask_mixture([names], [1.0], observed=dict.fromkeys(names, 0.5))
    assert bound.epsilon >= (math.e - 1) * 0.5**120  # not 0, which would be a false claim
    assert bound.epsilon < 1e-11


def test_large_epsilons_do_not_overflow():
    bound = mask_mixture([{"a"}, {"a", "b"}], [800.0, 800.0], observed={"a": 0.5, "b": 0.5})
    assert bound.epsilon == pytest.approx(1600 + math.log(0.25), abs=1e-9)


def test_elimination_order_does_not_change_the_value():
    rng = np.random.default_rng(4)
    scopes = [frozenset(rng.choice(8, size=3, replace=False).tolist()) for _ in range(8)]
    weights, observed = rng.uniform(0, 2, 8).tolist(), rng.uniform(0.1, 0.9, 8).tolist()
    used = sorted(frozenset().union(*scopes))
    values = [
        log_expectation(scopes, weights, observed, order)
        for order in (used, used[::-1], min_fill_order(scopes).order)
    ]
    assert np.ptp(values) < 1e-12


def test_width_of_a_chain_is_one_however_long():
    gates = [{f"a{i}", f"a{i + 1}"} for i in range(200)]
    observed = {f"a{i}": 0.5 + 0.4 * (i % 2) for i in range(201)}
    bound = mask_mixture(gates, [0.01] * 200, observed=observed)
    assert bound.width == 1
    assert bound.exact


# --- Monotone, and ordered against the other bounds ----------------------------------------------


@given(systems(), st.data())
@settings(max_examples=100, deadline=None)
def test_monotone_in_rates_sets_and_epsilons(system, data):
    gates, epsilons, observed = system
    before = mask_mixture(gates, epsilons, observed=observed).epsilon
    name = data.draw(st.sampled_from(sorted(observed)), label="name")
    j = data.draw(st.integers(0, len(gates) - 1), label="j")
    higher = {**observed, name: data.draw(st.floats(observed[name], 1.0), label="rate")}
    smaller = [set(g) - {name} if i == j else g for i, g in enumerate(gates)]
    larger = [e + (0.5 if i == j else 0.0) for i, e in enumerate(epsilons)]
    for more in (
        mask_mixture(gates, epsilons, observed=higher),
        mask_mixture(smaller, epsilons, observed=observed),
        mask_mixture(gates, larger, observed=observed),
    ):
        assert more.epsilon >= before - 2e-12


@given(systems(attributes=5, mechanisms=5))
@settings(max_examples=40, deadline=None)
def test_exact_below_sound_algorithm_4_below_epsilon(system):
    gates, epsilons, observed = system
    exact = mask_mixture(gates, epsilons, observed=observed).epsilon
    sound = sound_partition(gates, epsilons, observed=observed).cost
    assert exact <= sound + 1e-9
    assert sound <= math.fsum(epsilons) + 2e-6


def test_exact_is_strictly_better_where_gates_overlap():
    gates = [{"a", "b"}, {"b", "c"}, {"a", "c"}]
    rates = dict.fromkeys("abc", 0.5)
    exact = mask_mixture(gates, [0.5] * 3, observed=rates).epsilon
    assert exact < sound_partition(gates, [0.5] * 3, observed=rates).cost - 0.05


# --- Relaxation ----------------------------------------------------------------------------------


@given(systems(attributes=8, mechanisms=8), st.integers(1, 2))
@settings(max_examples=80, deadline=None)
def test_relaxed_result_is_an_upper_bound_and_says_so(system, limit):
    gates, epsilons, observed = system
    exact = mask_mixture(gates, epsilons, observed=observed)
    relaxed = mask_mixture(gates, epsilons, observed=observed, treewidth_limit=limit)
    assert relaxed.epsilon >= exact.epsilon - 2e-12
    assert relaxed.epsilon <= math.fsum(epsilons) + 1e-12
    assert relaxed.width <= limit
    assert relaxed.exact == (not relaxed.relaxed)
    if relaxed.exact:
        assert relaxed.epsilon == pytest.approx(exact.epsilon, abs=1e-12)


def test_a_clique_of_pairs_needs_relaxing():
    names = [f"a{i}" for i in range(9)]
    pairs = list(itertools.combinations(names, 2))
    rates = {name: 0.5 + 0.05 * i for i, name in enumerate(names)}
    exact = mask_mixture(pairs, [0.05] * len(pairs), observed=rates)
    relaxed = mask_mixture(pairs, [0.05] * len(pairs), observed=rates, treewidth_limit=4)
    assert exact.exact
    assert exact.width == 8
    assert not relaxed.exact
    assert set(relaxed.relaxed) < set(names)
    assert exact.epsilon < relaxed.epsilon < 0.05 * len(pairs)


# --- Speed and refusals --------------------------------------------------------------------------


def test_thirty_attributes_and_sixty_marginals_in_under_a_second():
    rng = np.random.default_rng(0)
    names = [f"a{i}" for i in range(30)]
    gates = [set(rng.choice(names, 3, replace=False)) for _ in range(60)]
    rates = dict(zip(names, rng.uniform(0.5, 0.95, 30).tolist(), strict=True))
    start = time.perf_counter()
    bound = mask_mixture(gates, [1 / 60] * 60, observed=rates)
    assert time.perf_counter() - start < 1.0
    assert bound.exact


@pytest.mark.parametrize(
    ("gates", "epsilons", "options"),
    [
        (["ab"], [1.0], {"observed": {}}),
        ([{"a"}], [1.0, 1.0], {"observed": {}}),
        ([{"a"}], [-1.0], {"observed": {}}),
        ([{"a"}], [math.inf], {"observed": {}}),
        ([{"a"}], [1.0], {"observed": {"a": 1.5}}),
        ([{"a"}], [1.0], {"observed": {"a": math.nan}}),
        ([{"a"}], [1.0], {"observed": {}, "deltas": [2.0]}),
        ([{"a"}], [1.0], {"observed": {}, "treewidth_limit": 0}),
        ([{1}], [1.0], {"observed": {}}),
    ],
)
def test_refuses_bad_input(gates, epsilons, options):
    with pytest.raises(ParameterError):
        mask_mixture(gates, epsilons, **options)


def test_names_that_contain_each_other_are_different_attributes():
    """The published figures compared attribute sets as text; '1' is not part of '11' here."""
    bound = mask_mixture([{"11"}], [1.0], observed={"1": 0.1})
    assert bound.epsilon == 1.0
