"""The partition search against brute force over all set partitions of the attributes."""

import itertools
import math

import pytest
from algorithm4 import (
    LinearCost,
    PureCost,
    paper_approximation,
    pruned_partition,
    sound_partition,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp.ground_truth import RenyiCost, best_partition, gate_probability

NAMES = "abcd"


def set_partitions(items):
    """All partitions of a list into non-empty blocks (Bell numbers)."""
    if not items:
        yield []
        return
    first, *rest = items
    for smaller in set_partitions(rest):
        yield [[first], *smaller]
        for i, block in enumerate(smaller):
            yield [*smaller[:i], [first, *block], *smaller[i + 1 :]]


def brute_force(gates, weights, observed, cost, *, allow_ungated):
    """Every partition of the attributes, every assignment of mechanisms to its blocks."""
    best = math.inf
    for partition in set_partitions(sorted(set().union(*gates))):
        blocks = [frozenset(block) for block in partition]
        options = [
            [b for b in blocks if b <= gate] + ([None] if allow_ungated or not gate else [])
            for gate in gates
        ]
        for choice in itertools.product(*options):
            groups = {}
            for block, weight in zip(choice, weights, strict=True):
                groups.setdefault(block, []).append(weight)
            total = math.fsum(
                cost.value(1.0 if b is None else gate_probability(b, observed), math.fsum(w))
                for b, w in groups.items()
            )
            best = min(best, total)
    return best


systems = st.tuples(
    st.lists(st.frozensets(st.sampled_from(NAMES), min_size=1), min_size=1, max_size=4),
    st.fixed_dictionaries({name: st.sampled_from([0.2, 0.5, 0.75, 0.9, 1.0]) for name in NAMES}),
)


@given(systems, st.sampled_from([LinearCost(), PureCost(), RenyiCost(4)]), st.booleans(), st.data())
@settings(max_examples=60, deadline=None)
def test_finds_the_best_of_all_partitions(system, cost, allow_ungated, data):
    gates, observed = system
    weights = [data.draw(st.sampled_from([0.1, 0.25, 1.0])) for _ in gates]
    search = best_partition if allow_ungated else pruned_partition
    found = search(gates, weights, observed=observed, cost=cost)
    expected = brute_force(gates, weights, observed, cost, allow_ungated=allow_ungated)
    assert found.optimal
    assert found.cost == pytest.approx(expected, abs=2e-6)


@given(systems)
@settings(max_examples=60, deadline=None)
def test_partition_is_valid(system):
    gates, observed = system
    found = sound_partition(gates, [0.5] * len(gates), observed=observed)
    members = sorted(j for block in found.blocks for j in block.members)
    assert members == list(range(len(gates)))
    for block in found.blocks:
        assert block.probability == gate_probability(block.attributes, observed)
        assert all(block.attributes <= gates[j] for j in block.members)
    for one, other in itertools.combinations(found.blocks, 2):
        assert not one.attributes & other.attributes


def test_lemma_5_10_is_false():
    """Leaving one mechanism alone can be best: the lemma's pruning discards that partition."""
    gates, rates = [{"a"}, *[{"a", "b"}] * 99], {"a": 0.5, "b": 0.5}
    pruned = paper_approximation(gates, [0.01] * 100, observed=rates).linear_epsilon
    free = best_partition(gates, [0.01] * 100, observed=rates, cost=LinearCost()).cost
    assert pruned == pytest.approx(0.5)
    assert free == pytest.approx((1 + 99 / 4) / 100)


def test_linear_figure_is_below_the_sound_one():
    gates = [{"a"}, {"a", "b"}, {"c"}]
    rates = {"a": 0.5, "b": 0.6, "c": 0.7}
    figure = paper_approximation(gates, [1.0, 1.0, 1.0], observed=rates)
    assert figure.linear_epsilon < figure.sound.cost
    assert "may under-state" in str(figure)
    assert not hasattr(figure, "epsilon")


def test_too_many_subsets_still_gives_a_valid_partition():
    names = [f"a{i}" for i in range(12)]
    gates = [set(names[i : i + 6]) for i in range(7)]
    rates = dict.fromkeys(names, 0.8)
    full = sound_partition(gates, [0.2] * 7, observed=rates)
    short = best_partition(gates, [0.2] * 7, observed=rates, cost=PureCost(), block_limit=20)
    assert full.optimal
    assert not short.optimal
    assert full.cost <= short.cost + 1e-9 <= 1.4 + 1e-9


def test_out_of_time_still_gives_a_valid_partition():
    gates = [{"a", "b"}, {"b", "c"}, {"a", "c"}, {"d"}]
    found = best_partition(
        gates,
        [0.5] * 4,
        observed=dict.fromkeys("abcd", 0.5),
        cost=PureCost(),
        seconds=0.0,
    )
    assert sorted(j for block in found.blocks for j in block.members) == [0, 1, 2, 3]
    assert found.cost <= 2.0 + 1e-12


def test_mechanisms_without_a_gate_stay_outside():
    found = sound_partition([None, set(), {"a"}], [0.5, 0.5, 1.0], observed={"a": 0.5})
    assert found.cost == pytest.approx(1.0 + math.log1p(0.5 * math.expm1(1.0)))


@pytest.mark.parametrize("cost", [PureCost(), RenyiCost(2), RenyiCost(16)])
@pytest.mark.parametrize("p", [0.0, 0.1, 0.7, 1.0])
def test_costs_are_convex_with_the_stated_slope(cost, p):
    for weight in (0.05, 0.4, 2.0):
        step = 1e-5
        ahead, behind = cost.value(p, weight + step), cost.value(p, weight - step)
        assert (ahead - behind) / (2 * step) == pytest.approx(cost.slope(p, weight), abs=1e-6)
        assert ahead + behind >= 2 * cost.value(p, weight) - 1e-12
    assert cost.value(p, 0.0) == pytest.approx(0.0, abs=1e-12)
