"""Variable elimination, and the mask mixture that uses it, against enumeration."""

import itertools
import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from missdp.ground_truth import mask_mixture, observation_probability
from missdp.ground_truth.elimination import elimination_order, log_total


def outward(costs):
    """Return the documented outward rounding of a mixture: a bound may exceed by about this."""
    return 1e-12 + 1e-14 * math.fsum(costs)


def width(steps):
    return max(len(near) for _, near in steps)


@st.composite
def factor_sets(draw):
    """Draw logarithms of factors over up to six variables of one, two or three levels."""
    levels = draw(st.lists(st.integers(1, 3), min_size=1, max_size=6))
    scope = st.permutations(range(len(levels))).flatmap(
        lambda order: st.integers(0, min(4, len(order))).map(lambda n: tuple(order[:n]))
    )
    scopes = {*draw(st.lists(scope, max_size=8)), *((v,) for v in range(len(levels)))}
    size = draw(st.sampled_from([1.0, 30.0, 1000.0]))
    finite = st.floats(-size, size)
    tables = {
        s: draw(arrays(float, tuple(levels[v] for v in s), elements=finite)) for s in sorted(scopes)
    }
    return levels, tables


@pytest.mark.long
@given(factor_sets())
@settings(max_examples=300, deadline=None)
def test_log_total_any_factors_equals_enumeration(drawn):
    levels, tables = drawn
    terms = [
        math.fsum(float(table[tuple(cell[v] for v in scope)]) for scope, table in tables.items())
        for cell in itertools.product(*map(range, levels))
    ]
    top = max(terms)
    expected = top + math.log(math.fsum(math.exp(term - top) for term in terms))
    size = 1.0 + sum(float(np.abs(table).max()) for table in tables.values())
    steps = elimination_order(len(levels), tables)
    assert log_total(tables, steps) == pytest.approx(expected, rel=0, abs=1e-14 * size)


@given(factor_sets())
@settings(max_examples=50, deadline=None)
def test_elimination_order_next_factor_is_smallest(drawn):
    levels, tables = drawn
    edges = {frozenset(e) for scope in tables for e in itertools.combinations(scope, 2)}
    left = set(range(len(levels)))
    for v, near in elimination_order(len(levels), tables):
        around = {u: {w for w in left if {u, w} in edges and u != w} for u in left}
        assert near == around[v]
        assert (len(near), v) == min((len(around[u]), u) for u in left)
        edges |= {frozenset(e) for e in itertools.combinations(near, 2)}
        left.remove(v)
    assert not left


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ([(i, i + 1) for i in range(9)], 1),
        ([(0, i) for i in range(1, 10)], 1),
        ([(i, (i + 1) % 10) for i in range(10)], 2),
        (list(itertools.combinations(range(10), 2)), 9),
    ],
    ids=["chain", "star", "cycle", "all pairs"],
)
def test_elimination_order_known_graphs_have_their_width(edges, expected):
    assert width(elimination_order(10, edges)) == expected


def test_log_total_tiny_terms_are_not_lost():
    """Variable 0 goes first: a term of e^-2000 beside others, which a later factor makes large."""
    tables = {(0, 1): np.array([[0.0, -2000.0]] * 2), (1, 2): np.array([[0.0] * 2, [3000.0] * 2])}
    assert log_total(tables, elimination_order(3, tables)) == pytest.approx(1000 + math.log(4))


# --- The mixture ---
NAMES = "abcdef"
GATES = st.lists(st.sets(st.sampled_from(NAMES), max_size=4), min_size=1, max_size=8)
RATES = st.dictionaries(st.sampled_from(NAMES), st.floats(0, 1), min_size=1)


def enumerated(required_sets, costs, rates):
    """Return the logarithm of the mean over all masks, to fifty digits."""
    names, mean = sorted(rates), Decimal(0)
    for mask in itertools.product((False, True), repeat=len(names)):
        missing = {name for name, seen in zip(names, mask, strict=True) if not seen}
        chances = (
            Decimal(rates[name]) if seen else 1 - Decimal(rates[name])
            for name, seen in zip(names, mask, strict=True)
        )
        read = (
            Decimal(c)
            for required, c in zip(required_sets, costs, strict=True)
            if not required & missing
        )
        mean += math.prod(chances, start=Decimal(1)) * sum(read, Decimal(0)).exp()
    return mean.ln()


@given(GATES, st.lists(st.floats(0, 40), min_size=8, max_size=8), RATES, st.integers(1, 5))
@settings(max_examples=50, deadline=None)
def test_mixture_any_gates_equals_enumeration(required_sets, costs, rates, limit):
    costs = costs[: len(required_sets)]
    bound = mask_mixture(required_sets, costs, observed=rates, treewidth_limit=limit)
    with localcontext() as context:
        context.prec = 50
        relaxed = enumerated(required_sets, costs, rates | dict.fromkeys(bound.relaxed, 1.0))
        error = float(Decimal(bound.epsilon) - relaxed)
        assert enumerated(required_sets, costs, rates) <= relaxed
    # Never below. Plain sums of costs, without masks that matter, are rounded to nearest.
    masks_matter = any(
        0.0 < observation_probability(required, rates) < 1.0 for required in required_sets
    )
    plain = not masks_matter or bound.epsilon == math.fsum(costs)
    below = 1e-40 + 1e-15 * math.fsum(costs) if plain else 0.0
    assert -below <= error <= 1.2 * outward(costs)


@pytest.mark.parametrize(("attributes", "limit"), [(4, 3), (5, 3), (6, 1), (8, 4)])
def test_mixture_wide_gates_relaxes_down_to_the_limit(attributes, limit):
    pairs = list(itertools.combinations([f"q{i}" for i in range(attributes)], 2))
    rates = {f"q{i}": 0.9 - 0.1 * i for i in range(attributes)}
    bound = mask_mixture(pairs, [0.1] * len(pairs), observed=rates, treewidth_limit=limit)
    # Those that are observed most often lose least by it.
    assert bound.relaxed == tuple(f"q{i}" for i in range(attributes - 1 - limit))


@pytest.mark.long
@pytest.mark.parametrize(("cost", "rate"), [(0.5, 0.5), (5.0, 0.5), (0.1, 0.3)])
def test_mixture_2000_gates_never_rounds_below(cost, rate):
    """A chain and a star, whose exact values are known to fifty digits."""
    n, hub = 2000, "a0"
    rates = {f"a{i}": rate for i in range(n + 1)}
    chain = [{f"a{i}", f"a{i + 1}"} for i in range(n)]
    star = [{hub, f"a{i + 1}"} for i in range(n)]
    with localcontext() as context:
        context.prec = 50
        p, factor = Decimal(rate), Decimal(cost).exp()
        state = [1 - p, p]
        for _ in range(n):
            state = [sum(state) * (1 - p), (state[0] + state[1] * factor) * p]
        exact = [sum(state).ln(), (1 - p + p * (1 - p + p * factor) ** n).ln()]
        for required_sets, value in zip((chain, star), exact, strict=True):
            bound = mask_mixture(required_sets, [cost] * n, observed=rates)
            error = float(Decimal(bound.epsilon) - value)
            assert 0.0 <= error <= 1.5 * outward([cost] * n)
            assert bound.exact
