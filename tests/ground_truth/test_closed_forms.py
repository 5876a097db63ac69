"""Closed-form bounds: known values, and validity over every structure the data might choose."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp.errors import ParameterError
from missdp.ground_truth import (
    amplified_epsilon,
    distinct_targets_bound,
    largest_gate_probability,
    mask_mixture,
)

probabilities = st.floats(0.0, 1.0)
costs = st.floats(0.0, 4.0)


@given(probabilities, st.floats(0.0, 600.0))
def test_amplified_epsilon_is_the_log_of_the_mixture(p, epsilon):
    value = amplified_epsilon(p, epsilon)
    assert 0.0 <= value <= epsilon * (1 + 1e-12)
    if 0 < p < 1 and epsilon > 0.01:
        # Straight from the definition, shifted to stay in range: log(1 - p + p e^ε).
        direct = epsilon + math.log(p + (1 - p) * math.exp(-epsilon))
        assert value == pytest.approx(direct, rel=1e-9, abs=1e-9)


@given(probabilities, costs)
def test_amplified_epsilon_exceeds_the_linear_figure(p, epsilon):
    assert amplified_epsilon(p, epsilon) >= p * epsilon - 1e-12


def test_linear_figure_at_one_half():
    assert amplified_epsilon(0.5, 1.0) == pytest.approx(0.620115, abs=5e-7)  # not 0.5


def test_huge_epsilon():
    assert amplified_epsilon(0.5, 5000.0) == pytest.approx(5000.0 + math.log(0.5))


def test_remove_direction_is_the_smaller_one():
    for p, epsilon in itertools.product((0.01, 0.3, 0.9), (0.1, 1.0, 5.0)):
        remove = -math.log1p(-p * -math.expm1(-epsilon))
        assert remove <= amplified_epsilon(p, epsilon) + 1e-15


structures = st.lists(
    st.sets(st.sampled_from("abcd"), min_size=1, max_size=4), min_size=1, max_size=4
)
rates = st.fixed_dictionaries({name: st.floats(0.05, 1.0) for name in "abcd"})


@given(structures, rates, st.data())
@settings(max_examples=150, deadline=None)
def test_the_likeliest_gate_covers_every_structure(gates, observed, data):
    """Hölder: behind any gates that the data might choose, no more than behind the likeliest."""
    smallest = min(len(gate) for gate in gates)
    epsilons = [data.draw(st.floats(0.0, 2.0)) for _ in gates]
    door = largest_gate_probability(["a", "b", "c", "d"], observed, smallest=smallest)
    bound = amplified_epsilon(door, math.fsum(epsilons))
    assert mask_mixture(gates, epsilons, observed=observed).epsilon <= bound + 2e-12
    assert bound <= math.fsum(epsilons) + 1e-12


def test_the_bound_is_reached_when_all_gates_are_the_likeliest():
    observed = {"a": 0.9, "b": 0.8, "c": 0.1}
    door = largest_gate_probability({"a", "b", "c"}, observed, smallest=2)
    worst = mask_mixture([{"a", "b"}] * 2, [0.5, 0.5], observed=observed)
    assert amplified_epsilon(door, 1.0) == pytest.approx(worst.epsilon, abs=1e-9)


def test_an_undeclared_rate_counts_as_always_observed():
    """Leaving an attribute out of `observed` must not make the bound smaller."""
    observed = {"a": 0.5}
    assert largest_gate_probability({"a", "b"}, observed, smallest=1) == 1.0
    assert largest_gate_probability({"a", "b"}, observed, smallest=2) == 0.5


def test_always_attributes_count_first():
    observed = {"a": 0.1, "b": 0.9, "c": 0.8}
    door = largest_gate_probability({"a", "b", "c"}, observed, smallest=2, always={"a"})
    assert door == pytest.approx(0.09)


@given(rates, st.lists(st.floats(0.0, 2.0), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_distinct_targets_cover_every_assignment(observed, epsilons):
    bound = distinct_targets_bound(epsilons, attributes=set("abcd"), observed=observed)
    worst = max(
        math.fsum(amplified_epsilon(observed[a], e) for a, e in zip(order, epsilons, strict=False))
        for order in itertools.permutations("abcd")
    )
    assert bound == pytest.approx(worst, abs=1e-12)


@pytest.mark.parametrize(
    "call",
    [
        lambda: amplified_epsilon(1.5, 1.0),
        lambda: amplified_epsilon(0.5, -1.0),
        lambda: largest_gate_probability("abc", {}, smallest=1),
        lambda: largest_gate_probability({"a"}, {}, smallest=2),
        lambda: distinct_targets_bound([1.0, 1.0], attributes={"a"}, observed={}),
    ],
)
def test_refuses_bad_input(call):
    with pytest.raises(ParameterError):
        call()
