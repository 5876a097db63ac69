"""Released generators draw rows and missing cells in NumPy, and keep released marginals."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from missdp.baselines.networks import Layers, NetworkModel
from missdp.inference.model import Levels

SIZES = [3, 4, 2]
WIDTH = sum(SIZES)


def levels():
    plain = [Levels(np.arange(k), np.ones(k)) for k in SIZES]
    plain[1] = Levels(np.array([0, 1, 1, 2, 3]), np.array([1, 0.5, 0.5, 1, 1]))
    return tuple(plain)


def layers(sizes, rng):
    shapes = [*pairwise(sizes)]
    weights = tuple(rng.standard_normal(shape) / np.sqrt(shape[0]) for shape in shapes)
    return Layers(weights, tuple(np.zeros(m) for _, m in shapes))


def network(*, sees_values=True, conditions=False, always=None, rng=None):
    rng = rng or np.random.default_rng(0)
    inputs = 2 + sees_values * WIDTH
    shares = [rng.dirichlet(np.ones(k)) for k in SIZES]
    given = np.concatenate([shares[0] / 4, 0 * shares[1], 3 * shares[2] / 4])
    return NetworkModel(
        levels=levels(),
        values=layers([4 + conditions * WIDTH, 8, WIDTH], rng),
        masks=layers([inputs, 6, 2], rng),
        may_miss=(0, 2),
        sees_values=sees_values,
        always=always or {},
        conditions=given if conditions else np.zeros(0),
        n_rows=12.0,
    )


def test_holes_are_where_they_may_be_and_never_at_what_is_never_missing():
    rows = network(always={0: 1}).sample(2000, np.random.default_rng(0), keep_missing=True)
    sizes = [len(level.groups) for level in levels()]
    holes = np.stack([r == k for r, k in zip(rows, sizes, strict=True)], axis=1)
    assert holes[:, [0, 2]].mean(axis=0).min() > 0.05
    assert not holes[:, 1].any()
    complete = network(always={0: 1}).sample(2000, np.random.default_rng(0), keep_missing=False)
    assert all(r.max() < k for r, k in zip(complete, sizes, strict=True))
    # A row whose value is never missing keeps it: as many as complete rows have.
    assert abs((rows[0] == 1).mean() - (complete[0] == 1).mean()) < 0.04


def test_rows_have_the_level_that_the_generator_is_given():
    """One level is all that is ever asked for: every row has it."""
    made = replace(network(conditions=True), conditions=np.eye(WIDTH)[3 + 2])
    rows, _ = made.drawn(500, np.random.default_rng(0))
    assert (rows[:, 1] == 2).all()
    assert len(np.unique(rows[:, 0])) > 1


def test_levels_are_asked_for_as_often_as_released():
    made = network(conditions=True)
    # A generator that gives every attribute its first level, unless another is asked for.
    scores = np.full(WIDTH, -1e3)
    scores[[0, 3, 7]] = 1e3
    fixed = Layers((np.zeros((4 + WIDTH, WIDTH)),), (scores,))
    rows, _ = replace(made, values=fixed).drawn(20_000, np.random.default_rng(0))
    assert (rows[:, 1] == 0).all()
    for a, first in ((0, 0), (2, 7)):
        found = np.bincount(rows[:, a], minlength=SIZES[a])[1:] / 20_000
        assert found == pytest.approx(made.conditions[first + 1 : first + SIZES[a]], abs=0.015)


@pytest.mark.parametrize("sees_values", [False, True])
def test_calibrated_models_have_the_margins_of_what_is_observed_and_the_rates_of_holes(sees_values):
    rng = np.random.default_rng(3)
    margins = [rng.dirichlet(np.full(k, 3.0)) for k in SIZES]
    rates = np.array([0.3, 0.1])
    made = network(sees_values=sees_values).calibrated(margins, rates, rng)
    rows = np.stack(made.sample(40_000, rng, keep_missing=True), axis=1)
    for a, margin in ((0, margins[0]), (2, margins[2])):
        seen = rows[rows[:, a] < SIZES[a], a]
        assert abs(1 - len(seen) / 40_000 - rates[a // 2]) < 0.015
        assert np.abs(np.bincount(seen, minlength=SIZES[a]) / len(seen) - margin).max() < 0.015
    joined = np.array([0, 1, 1, 2, 3])[rows[:, 1]]
    assert np.abs(np.bincount(joined, minlength=4) / 40_000 - margins[1]).max() < 0.015


def test_joined_networks_feed_the_tangent_of_the_first_to_the_second():
    rng = np.random.default_rng(0)
    one, other, inputs = layers([3, 5, 2], rng), layers([2, 4, 6], rng), rng.normal(size=(7, 3))
    assert one.compose(other)(inputs) == pytest.approx(other(np.tanh(one(inputs))))
