"""The inference oracle against brute force and the mbi library, and what stays from fit to fit."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inference.graphs import joint, marginal, models, table_of
from missdp.inference.beliefs import Drift, Target, fit_entropy, log_linear
from missdp.inference.junction import Growth, JunctionTree, tree_cells
from missdp.inference.model import sample_tree


def queries(d):
    return [c for k in (1, 2, 3) for c in itertools.combinations(range(d), k)]


@settings(max_examples=150)
@given(models())
def test_every_marginal_and_the_normaliser_agree_with_brute_force(model):
    sizes, parameters = model
    table, log_z = joint(sizes, parameters)
    fitted, found = log_linear(sizes, parameters)
    assert found == pytest.approx(log_z, rel=1e-10, abs=1e-9)
    for query in queries(len(sizes)):
        np.testing.assert_allclose(fitted.marginal(query), marginal(table, query), atol=1e-12)


@settings(max_examples=100)
@given(models(max_attributes=7))
def test_the_tree_holds_every_clique_and_has_running_intersections(model):
    sizes, parameters = model
    tree = JunctionTree.build(sizes, parameters)
    assert all(tree.home(c) is not None for c in parameters)
    assert set().union(*map(set, tree.cliques)) == set(range(len(sizes)))
    assert tree.cells == tree_cells(sizes, parameters)
    for v in range(len(sizes)):
        holders = {i for i, c in enumerate(tree.cliques) if v in c}
        tops = [i for i in holders if tree.parents[i] not in holders]
        assert len(tops) == 1  # the cliques that hold an attribute are connected


@settings(max_examples=100)
@given(models(max_attributes=7), st.integers(1, 2000))
@example(([1, 1, 3, 4, 3, 1], dict.fromkeys([(0,), (0, 4), (0, 5), (1, 2, 5), (1,)])), 1)
def test_growth_is_the_size_of_the_larger_tree(model, limit):
    sizes, parameters = model
    cliques = list(parameters)
    growth = Growth(sizes)
    for k in range(len(cliques)):
        growth.hold(cliques[:k])
        for query in queries(len(sizes)):
            more = [*cliques[:k], query]
            grown = tree_cells(sizes, more)
            assert growth.cells(query) == grown == JunctionTree.build(sizes, more).cells
            fits = growth.fits(query, limit)
            assert grown <= limit if fits else k or grown > limit


@settings(max_examples=25)
@given(models(max_attributes=4), st.integers(0, 2**32 - 1))
def test_samples_follow_the_model(model, seed):
    sizes, parameters = model
    n = 20_000
    fitted, _ = log_linear(sizes, parameters)
    rows = sample_tree(fitted, n, np.random.default_rng(seed))
    table, _ = joint(sizes, parameters)
    counts = n * table_of(rows, range(len(sizes)), sizes)
    spread = np.sqrt(n * table * (1 - table))
    assert np.all(np.abs(counts - n * table) <= 6 * spread + 3)


@settings(max_examples=15)
@given(models(max_attributes=4, max_levels=3), st.sampled_from([0.2, 0.5]))
def test_a_fit_satisfies_its_optimality_condition(model, shrink):
    sizes, parameters = model
    rng = np.random.default_rng(0)
    table, _ = joint(sizes, parameters)
    targets = []
    for c in parameters:
        noisy = marginal(table, c) + rng.normal(0, 0.01, [sizes[v] for v in c])
        targets.append(Target(c, noisy / noisy.sum(), 0.01))
    fitted, theta = fit_entropy(sizes, targets, shrink=shrink, iterations=3000)
    for target in targets:
        found = theta[target.clique]
        left = target.values - fitted.marginal(target.clique) - shrink * 0.01 * found
        # A parameter at its bound may be pulled further out.
        inside = np.abs(found) < 30 - 1e-6
        np.testing.assert_allclose(left[inside], 0, atol=2e-5)
        assert (left[~inside] * np.sign(found[~inside]) > -2e-5).all()


def test_a_fit_starts_where_the_last_one_ended_even_on_another_tree():
    rng = np.random.default_rng(1)
    sizes = [4, 3, 5]
    truth, _ = joint(sizes, {(0, 1): rng.normal(size=(4, 3)), (1, 2): rng.normal(size=(3, 5))})
    targets = [Target(c, marginal(truth, c), 0.001) for c in [(0, 1), (1, 2)]]
    _, theta = fit_entropy(sizes, targets, shrink=0.1, iterations=2000)
    more = [*targets, Target((0, 2), marginal(truth, (0, 2)), 0.001)]
    warm, _ = fit_entropy(sizes, more, shrink=0.1, iterations=1, start=theta)
    cold, _ = fit_entropy(sizes, more, shrink=0.1, iterations=1)
    gaps = [np.abs(m.marginal((0, 1)) - marginal(truth, (0, 1))).sum() for m in (warm, cold)]
    assert gaps[0] < 0.02 < gaps[1]


@pytest.mark.reference
@pytest.mark.filterwarnings("ignore")
def test_marginals_and_least_squares_agree_with_mbi():
    import mbi

    rng = np.random.default_rng(2)
    sizes = [3, 4, 2, 5, 3]
    cliques = [(0, 1), (1, 2), (2, 3), (0, 3), (4,)]
    domain = mbi.Domain([str(v) for v in range(5)], sizes)
    names = {c: tuple(str(v) for v in c) for c in cliques}

    theta = {c: rng.normal(0, 1, [sizes[v] for v in c]) for c in cliques}
    factors = {names[c]: mbi.Factor(domain.project(names[c]), t) for c, t in theta.items()}
    potentials = mbi.CliqueVector(domain, list(names.values()), factors)
    theirs = mbi.marginal_oracles.message_passing_hugin(potentials)
    ours, _ = log_linear(sizes, theta)
    for c in cliques:
        found = np.asarray(theirs[names[c]].datavector(flatten=False))
        np.testing.assert_allclose(ours.marginal(c), found, atol=1e-5)  # theirs is float32

    n = 10_000
    noisy = {c: n * ours.marginal(c) + rng.normal(0, 20, [sizes[v] for v in c]) for c in cliques}
    measured = [mbi.LinearMeasurement(noisy[c].ravel(), names[c], stddev=20.0) for c in cliques]
    model = mbi.estimation.MirrorDescent().estimate(domain, measured, known_total=n, iters=3000)
    targets = [Target(c, noisy[c] / n, 20 / n) for c in cliques]
    fitted, _ = fit_entropy(sizes, targets, shrink=0.05, iterations=3000)

    def loss(project):
        return sum(float(np.square(noisy[c] / n - project(c)).sum()) for c in cliques)

    found = {c: np.asarray(model.project(names[c]).datavector(flatten=False)) / n for c in cliques}
    assert loss(fitted.marginal) <= loss(found.get) * 1.01
    for c in cliques:
        np.testing.assert_allclose(fitted.marginal(c), found[c], atol=5e-4)


def test_a_hundred_attributes_in_every_query():
    sizes, d = [2, 3, 1, 2] * 25, 100
    edges = [(max(0, v - 1 - v % 3), v) for v in range(1, d)]
    rng = np.random.default_rng(0)
    parameters = {e: rng.normal(0, 1, [sizes[v] for v in e]) for e in edges}
    fitted, _ = log_linear(sizes, parameters)
    rows = sample_tree(fitted, 20_000, rng)
    for query in [(60, 99), (3, 55, 98), (0, 40, 70, 97)]:
        np.testing.assert_allclose(fitted.marginal(query), table_of(rows, query, sizes), atol=0.02)


def test_a_chain_longer_than_the_recursion_limit():
    d = 1200
    copy = np.log([[0.999, 0.001], [0.001, 0.999]])
    fitted, _ = log_linear([2] * d, {(v, v + 1): copy for v in range(d - 1)})
    for query in [(0, 20), (0, d - 1), (3, 700, 1100)]:
        assert fitted.marginal(query).sum() == pytest.approx(1.0)
    stays = 0.5 + 0.5 * 0.998**20  # an even number of switches in twenty steps
    assert fitted.marginal((0, 20))[0, 0] == pytest.approx(stays / 2)


def test_extremes_are_summed_or_refused():
    # Every pair of 70 attributes: one clique of all of them would need an array of 70 dimensions.
    assert tree_cells([1] * 70, itertools.combinations(range(70), 2)) > 2**60
    pull = np.array([[30.0, -30.0], [-30.0, 30.0]])  # a hub with hundreds of extreme neighbours
    parameters = {(0, v): pull if v % 2 else -pull for v in range(1, 300)}
    parameters |= {(v,): np.array([30.0, -30.0]) for v in range(1, 300)}
    fitted, log_z = log_linear([2] * 300, parameters)
    assert np.isfinite(log_z)
    assert np.isfinite(fitted.marginal((0,))).all()
    zeros = {(0, 1): np.array([[True, False], [False, True]]), (1,): np.array([True, True])}
    with pytest.raises(ValueError, match="nothing is possible"):
        log_linear([2, 2], {}, zeros)


# -- what has moved ------------------------------------------------------------------------------
SIZES = [3, 2, 4, 3, 2, 3, 2, 4]
TOLERANCE = 1e-3


@pytest.mark.parametrize("seed", range(8))
def test_what_is_still_has_the_same_marginal_even_in_another_tree(seed):
    rng = np.random.default_rng(seed)
    parameters = {(v,): rng.normal(size=size) for v, size in enumerate(SIZES)}
    drift, kept, stayed = Drift(), {}, 0
    for _ in range(9):  # all are moved, and there is one clique more
        parameters = {c: t + 1e-5 * rng.normal(size=t.shape) for c, t in parameters.items()}
        pair = tuple(sorted(rng.choice(len(SIZES), 2, replace=False).tolist()))
        parameters |= {pair: rng.normal(size=[SIZES[v] for v in pair])}
        law = log_linear(SIZES, parameters)[0]
        drift.see(law, TOLERANCE)
        kept = {q: table for q, table in kept.items() if drift.still(q)}
        stayed += len(kept)
        for query in queries(len(SIZES)):
            now = law.marginal(query)
            before = kept.setdefault(query, now)
            assert np.abs(now - before).sum() <= len(SIZES) * 2 * TOLERANCE
    assert stayed > 0


def test_small_steps_do_not_add_up_unseen():
    drift, first = Drift(), None
    for step in range(200):
        law = log_linear([2, 2], {(0, 1): np.array([[step * 1e-3, 0.0], [0.0, 0.0]])})[0]
        drift.see(law, 0.01)
        if first is None or not drift.still((0, 1)):
            first = law.marginal((0, 1))
        assert np.abs(law.marginal((0, 1)) - first).sum() <= 0.01
    assert np.abs(first - 0.25).sum() > 0.05


def test_a_pair_of_different_pieces_moves_with_its_margins_only():
    drift = Drift()
    pieces = {(0, 1): np.eye(2), (2, 3): np.eye(2), (4,): np.zeros(2)}
    drift.see(log_linear([2] * 5, pieces)[0], 1e-6)
    drift.see(log_linear([2] * 5, pieces | {(4,): np.array([0.0, 1.0])})[0], 1e-6)
    assert drift.still((0, 2))
    assert not drift.still((0, 4))
