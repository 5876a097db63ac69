"""Noisy tables leaned on a model's."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp.inference.raking import centred, scaled_to, shrunk

SHAPES = st.lists(st.integers(2, 5), min_size=1, max_size=3).map(tuple)
SEEDS = st.integers(0, 2**32 - 1)


def law(shape, rng):
    return rng.dirichlet(np.ones(int(np.prod(shape)))).reshape(shape)


def margins(table):
    axes = range(table.ndim)
    return [table.sum(axis=tuple(i for i in axes if i != axis)) for axis in axes]


@given(SHAPES, SEEDS)
@settings(max_examples=30, deadline=None)
def test_a_centred_table_has_no_margins_left_and_centring_is_a_projection(shape, seed):
    table = np.random.default_rng(seed).normal(size=shape)
    found = centred(table)
    for axis in range(len(shape)):
        np.testing.assert_allclose(found.sum(axis=axis), 0, atol=1e-12)
    np.testing.assert_allclose(centred(found), found, atol=1e-12)


@given(SHAPES, SEEDS)
@settings(max_examples=30, deadline=None)
def test_one_way_margins_are_those_asked_for(shape, seed):
    rng = np.random.default_rng(seed)
    base = law(shape, rng) + 0.02
    base /= base.sum()
    wanted = margins(law(shape, rng) + 0.05)
    wanted = [margin / margin.sum() for margin in wanted]
    found = shrunk(base + rng.normal(0, 0.005, shape), base, 0.005, margins=wanted)
    assert (found > 0).all()
    for mine, theirs in zip(margins(found), wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=2e-3)
    own = shrunk(base + rng.normal(0, 0.005, shape), base, 0.005)
    for mine, theirs in zip(margins(own), margins(base), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=2e-3)


@given(SHAPES, SEEDS)
@settings(max_examples=30, deadline=None)
def test_impossible_cells_stay_so(shape, seed):
    rng = np.random.default_rng(seed)
    base = law(shape, rng)
    base.flat[0] = 0.0
    base /= base.sum()
    assert shrunk(base + 0.1 * rng.random(shape), base, 0.01).flat[0] == 0


def test_noise_alone_leaves_the_model_and_no_noise_leaves_the_table():
    rng = np.random.default_rng(0)
    base = np.outer([0.2, 0.3, 0.5], [0.6, 0.4])
    other = scaled_to(law((3, 2), rng), margins(base), sweeps=200)
    np.testing.assert_allclose(shrunk(other, base, 1e-9), other, atol=1e-6)
    np.testing.assert_allclose(shrunk(other, base, 10.0), base, atol=1e-12)


def test_shrunk_tables_are_nearer_to_the_truth_than_model_and_table():
    rng = np.random.default_rng(0)
    distances = {"model": [], "table": [], "shrunk": []}
    for _ in range(200):
        base = np.outer(rng.dirichlet(np.full(6, 2.0)), rng.dirichlet(np.full(6, 2.0)))
        std = 10 ** rng.uniform(-3, -1.5)
        gap = 10 ** rng.uniform(-1.5, 0)
        truth = base * np.exp(gap * rng.normal(size=base.shape))
        truth = scaled_to(truth / truth.sum(), margins(base))
        noisy = truth + rng.normal(0, std, base.shape)
        found = shrunk(noisy, base, std)
        for name, table in (("model", base), ("table", noisy), ("shrunk", found)):
            distances[name].append(np.abs(table - truth).sum())
    mean = {name: np.mean(values) for name, values in distances.items()}
    assert mean["shrunk"] < 0.8 * min(mean["model"], mean["table"])
