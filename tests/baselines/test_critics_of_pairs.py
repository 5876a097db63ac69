"""What critics of pairs know: features of rows, released in closed form or step by step."""

import math
from itertools import combinations

import numpy as np
import pytest

from missdp.accounting import Budget, Cost
from missdp.baselines.pair_critic import _features, _products, _stacked, trained_moments
from missdp.baselines.pair_moments import moments_of
from missdp.inference.clipping import row_norms
from missdp.mechanisms import Door, Noise, SeededNoise, Training
from missdp.sources import MemorySource, strategy_named
from missdp.synth.learn_pairs import crude_margins, release_pairs
from synth.all_pairs.test_learn_pairs import SCHEMA, private

CLIP = 1.5


def opened(cost, seed=0, table=None):
    table = private() if table is None else table
    budget = Budget.from_cost(cost, delta=1e-6)
    noise = SeededNoise(seed)
    door = Door(MemorySource(table), strategy_named("joint"), budget=budget, noise=noise)
    crude = crude_margins(door, Noise.worth(door.share(0.1 / 3)), {})
    return door, crude


def exact(moments, table):
    """Means of the clipped features of the rows, by hand."""
    codes = np.stack([table.codes(name) for name in SCHEMA.names], axis=1).astype(int)
    factor = np.minimum(1, moments.clip / row_norms(codes, moments.blocks, alone=moments.alone))
    blocks = np.concatenate([b[codes[:, a]] for a, b in enumerate(moments.blocks)], axis=1)
    products = (blocks * factor[:, None]).T @ blocks / len(codes)
    return (blocks * factor[:, None]).mean(axis=0), np.where(moments.known, products, 0.0)


def test_one_release_tells_the_mean_of_clipped_features():
    door, crude = opened(Cost(currency="gdp", amount=1e6))
    moments = moments_of(release_pairs(door, crude, clip=CLIP))
    single, products = exact(moments, private())
    assert moments.single == pytest.approx(single, abs=0.005)
    assert moments.products == pytest.approx(products, abs=0.005)
    assert np.abs(products).max() > 0.05
    assert moments.known.sum() == 2 * sum(
        a.shape[1] * b.shape[1] for a, b in combinations(moments.blocks, 2)
    )


def test_training_tells_the_same_but_for_chance():
    cost = Training.cost(200.0, 1e-6, rate=0.5, steps=30)
    door, crude = opened(cost)
    seen = []
    moments = trained_moments(door, crude, clip=CLIP, steps=30, batch=1000, report=seen.append)
    single, products = exact(moments, private())
    assert moments.single == pytest.approx(single, abs=6 * moments.single_std)
    off = (moments.products - products)[moments.known]
    assert 0.5 < np.sqrt(np.mean(off**2)) / moments.product_std < 1.5
    assert moments.product_std < 0.01
    assert seen[-1] == 1.0
    assert door.left.amount < 1e-6 * cost.amount


def test_clipping_is_undone_by_rows_of_the_same_law():
    door, crude = opened(Cost(currency="gdp", amount=1e8))
    table = private()
    codes = np.stack([table.codes(name) for name in SCHEMA.names], axis=1).astype(int)
    clipped = moments_of(release_pairs(door, crude, clip=0.5))
    single, products = clipped.corrected(codes)
    blocks = np.concatenate([b[codes[:, a]] for a, b in enumerate(clipped.blocks)], axis=1)
    whole = np.where(clipped.known, blocks.T @ blocks / len(codes), 0.0)
    assert np.abs(products - whole).max() < 0.005 < 0.05 < np.abs(clipped.products - whole).max()
    assert single == pytest.approx(blocks.mean(axis=0), abs=0.005)


def test_features_are_blocks_and_their_products():
    rng = np.random.default_rng(0)
    parts = tuple(rng.normal(size=shape) for shape in ((3, 2), (2, 1), (4, 3)))
    table, starts = _stacked(parts)
    left, right = _products(parts)
    codes = {"a": np.array([2, 0]), "b": np.array([1, 1]), "c": np.array([3, 2])}
    found = _features(codes, table, starts, left, right, np.array(2.0))
    for row in range(2):
        one, two, three = (p[codes[n][row]] for p, n in zip(parts, "abc", strict=True))
        products = [np.outer(one, two), np.outer(one, three), np.outer(two, three)]
        expected = np.concatenate([2 * one, 2 * two, 2 * three])
        assert found[row, :6] == pytest.approx(expected)
        assert sorted(found[row, 6:]) == pytest.approx(
            sorted(np.concatenate([p.ravel() for p in products]))
        )


def test_noise_is_planned_before_the_first_step_and_as_an_independent_accountant_has_it():
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant  # the reference

    cost = Training.cost(1.0, 1e-6, rate=0.136, steps=40)
    plan = Training.worth(cost, rate=0.136, steps=40, clip=CLIP)
    accountant = RdpAccountant()
    event = PoissonSampledDpEvent(0.136, GaussianDpEvent(plan.noise_multiplier))
    accountant.compose(event, 40)
    assert accountant.get_epsilon(1e-6) == pytest.approx(1.0, rel=1e-3)
    assert math.isfinite(plan.noise_multiplier)
