"""PrivBayes' network: score, possible next families, distributions, missing cells, rules."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from missdp import PrivBayes
from missdp.baselines.network import (
    Network,
    Node,
    _condition,
)
from missdp.baselines.privbayes import _candidates, _reachable_cliques
from missdp.session.dependences import DEPENDENCE_SENSITIVITY, dependence
from synth.conformance import make_table
from synth.tables import rows_of, schema_of


def test_sampling_follows_the_network():
    rng, n = np.random.default_rng(1), 60_000
    families = (Node("a", ()), Node("b", ("a",)), Node("c", ("b", "a")))
    shapes = {"a": (3,), "b": (3, 2), "c": (2, 3, 4)}
    laws = {k: _condition(rng.dirichlet(np.ones(np.prod(s))).reshape(s)) for k, s in shapes.items()}
    rows = Network(families, laws).sample(n, np.random.default_rng(0))
    found, exact = np.zeros((3, 2, 4)), np.einsum("a,ab,bac->abc", *laws.values())
    np.add.at(found, tuple(rows[name] for name in "abc"), 1 / n)
    # Even draws stay closer than independent draws, whose distance would be about sqrt(cells / n) /
    # 2. A wrong table would be off by far more.
    assert 0.5 * np.abs(found - exact).sum() < 0.004


def test_rows_hold_what_a_table_says_of_parents_together():
    """Laws of children given parents do not hold it: here parents are drawn independently."""
    families = (Node("a", ()), Node("b", ()), Node("c", ("a", "b")))
    half = np.array([0.5, 0.5])
    table = np.array([[[0.35, 0.05], [0.06, 0.04]], [[0.02, 0.08], [0.1, 0.3]]])
    network = Network.from_joints(families, {("a",): half, ("b",): half, ("a", "b", "c"): table})
    for n in (2000, 120_000):  # more than are weighted together
        rows, found = network.sample(n, np.random.default_rng(0)), np.zeros((2, 2, 2))
        np.add.at(found, tuple(rows[name] for name in "abc"), 1 / n)
        np.testing.assert_allclose(found, table, atol=0.004)


def test_empty_parent_cells_take_the_margin():
    law = _condition(np.array([[3.0, 1.0], [0.0, 0.0]]))
    np.testing.assert_allclose(law, [[0.75, 0.25], [0.75, 0.25]])
    np.testing.assert_allclose(_condition(np.zeros((2, 2))), np.full((2, 2), 0.5))


def mar_network():
    """Return a network on (driver, value). Missing cells of `value` depend on the driver only."""
    driver = np.array([0.5, 0.5])
    value = np.array([[0.9, 0.1], [0.2, 0.8]])
    hole = np.array([0.1, 0.8])
    extended = np.concatenate([value * (1 - hole)[:, None], hole[:, None]], axis=1)
    network = Network(
        (Node("value", ()), Node("driver", ("value",))),
        {
            "value": (driver[:, None] * extended).sum(0),
            "driver": _condition((driver[:, None] * extended).T),
        },
    )
    return network, driver @ value


def test_filling_is_unbiased_when_missing_at_random():
    """The observed marginal of `value` is far off. Filling given the driver repairs it."""
    network, truth = mar_network()
    sizes = {"value": 2, "driver": 2}
    rng = np.random.default_rng(0)
    observed = network.conditionals["value"][:2]
    assert abs(observed[0] / observed.sum() - truth[0]) > 0.15
    model = network.filling_model(network.observed_part(sizes), 50_000, rng)
    holes = network.sample(50_000, rng)
    filled = model.fill_missing(holes, rng)
    for name, size in sizes.items():
        seen = holes[name] < size
        np.testing.assert_array_equal(filled[name][seen], holes[name][seen])
        assert filled[name].max() < size
    found = np.bincount(filled["value"], minlength=2) / 50_000
    np.testing.assert_allclose(found, truth, atol=0.015)


@pytest.mark.parametrize("order", ["abc", "cab", "bca"])
def test_restricted_laws_leave_no_row_without_an_end(order):
    # a and b are not applicable (their last level) if and only if c is 0.
    laws = {"a": np.array([0.3, 0.3, 0.4]), "b": np.array([0.5, 0.5]), "c": np.array([0.6, 0.4])}
    never = {
        ("a", "c"): np.array([[True, False], [True, False], [False, True]]),
        ("b", "c"): np.array([[True, False], [False, True]]),
    }
    families = tuple(Node(name, ()) for name in order)
    network = Network(families, {name: laws[name] for name in order})
    network = network.restricted(never, np.random.default_rng(0))
    rows = network.sample(2000, np.random.default_rng(0))
    for names, cells in never.items():
        assert not cells[tuple(rows[name] for name in names)].any()
    first = np.bincount(rows[order[0]], minlength=len(laws[order[0]])) / 2000
    # The attribute that is drawn first keeps its distribution.
    np.testing.assert_allclose(first, laws[order[0]], atol=0.001)


def test_laws_are_restricted_by_rules_of_three_attributes_whatever_their_order():
    rng = np.random.default_rng(8)
    families = (Node("a", ()), Node("b", ("a",)), Node("c", ()))
    laws = {
        "a": np.array([0.5, 0.5]),
        "b": np.array([[0.5, 0.5], [0.1, 0.9]]),
        "c": np.array([0.2, 0.3, 0.5]),  # its last level is "missing"
    }
    never = np.ones((2, 2, 2), dtype=bool)  # axes c, a, b
    never[1, 0, 0] = never[0, 1, 1] = never[1, 1, 1] = False
    found = Network(families, laws).restricted({("c", "a", "b"): never}, rng).conditionals["c"]
    assert found.shape == (2, 2, 3)
    np.testing.assert_allclose(found[0, 1], [0.0, 0.0, 1.0])
    assert (found[0, 0] > 0).tolist() == [False, True, True]
    assert (found[1, 1] > 0).all()
    # The marginal of the last attribute is unchanged.
    first = laws["a"][:, None] * laws["b"]
    np.testing.assert_allclose((first[..., None] * found).sum(axis=(0, 1)), laws["c"], atol=0.01)


shapes = st.tuples(st.integers(1, 4), st.integers(1, 4))


def test_the_sensitivity_is_nearly_attained():
    """A smaller constant would be wrong: adversarial neighbours come close to 2."""
    worst = 0.0
    for size, m in itertools.product((2, 10, 50), (10, 1000, 100_000)):
        counts = np.zeros((size + 1, size + 1), dtype=np.int64)
        counts[:-1, :-1] = m
        more = counts.copy()
        more[-1, -1] += 1
        worst = max(worst, abs(dependence(more) - dependence(counts)))
    assert 1.95 < worst < DEPENDENCE_SENSITIVITY


@given(st.data())
def test_the_score_is_exact_for_every_number_of_rows(data):
    """Check all numbers that counts can hold: up to 2^62 rows, and neighbours of these tables."""
    shape = data.draw(shapes)
    most = data.draw(st.sampled_from([2**20, 2**27, 2**40, 2**58]))
    counts = data.draw(arrays(np.int64, shape, elements=st.integers(0, most)))
    more = counts.copy()
    more[tuple(data.draw(st.integers(0, size - 1)) for size in shape)] += 1
    scores = [dependence(table) for table in (counts, more)]
    assert abs(Fraction(scores[0]) - Fraction(scores[1])) < DEPENDENCE_SENSITIVITY
    rows = [[int(c) for c in row] for row in counts]
    total, right = sum(map(sum, rows)), [sum(column) for column in zip(*rows, strict=True)]
    off = sum(abs(total * c - sum(r) * m) for r in rows for c, m in zip(r, right, strict=True))
    exact = min(Fraction(off, 2 * total), Fraction(2**34)) if total else 0
    assert abs(Fraction(scores[0]) - exact) < (DEPENDENCE_SENSITIVITY - 2) / 2


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("cells", [1, 6, 30, 200, 10**6])
def test_candidates_are_the_maximal_allowed_sets(degree, cells):
    names = ("a", "b", "c", "d", "e")
    sizes = dict(zip(names, (2, 3, 5, 7, 2), strict=True))

    def rule(clique):
        return math.prod(sizes[name] for name in clique) <= cells

    placed, waiting = ("c", "a", "e", "b"), ("d",)
    every = [
        frozenset(parents)
        for size in range(1, degree + 1)
        for parents in itertools.combinations(placed, size)
        if rule((*parents, "d"))
    ]
    maximal = {one for one in every if not any(one < other for other in every)}
    found = _candidates(placed, waiting, rule, degree)
    assert {frozenset(f.parents) for f in found} == (maximal or {frozenset()})
    assert len(found) == max(1, len(maximal))
    counted = set(_reachable_cliques(names, rule, degree))
    assert all(tuple(n for n in names if n in f.clique) in counted for f in found)


@pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")
def test_counting_in_small_batches_changes_nothing_and_goes_beyond_memory(monkeypatch):
    def synthetic():
        model = PrivBayes(epsilon=1.0, missing="joint", degree=2, random_state=0)
        return model.fit(make_table()).sample(200)

    def at_once(cells):
        monkeypatch.setattr("missdp.baselines.privbayes._CELLS_PER_CALL", cells)
        monkeypatch.setattr("missdp.session.exact_counts._CELLS_AT_ONCE", cells)

    expected = synthetic()
    at_once(40)
    monkeypatch.setattr("missdp.baselines.network._CELLS_AT_ONCE", 100)
    assert synthetic().equals(expected)
    at_once(10_000)
    monkeypatch.setattr("missdp.schema.cliques._MAX_TOTAL_CELLS", 20_000)
    model = PrivBayes(epsilon=1.0, degree=4).fit(rows_of(schema_of([4] * 8, None), 50))
    assert max(len(f.parents) for f in model.network_.families) == 4
