"""Tables of complete rows, from noisy tables of all pairs in which values are missing."""

from functools import cache, partial
from itertools import combinations
from unittest.mock import patch

import numpy as np
import pytest
from scipy.special import expit

from inference.graphs import apart, tables_of
from missdp.inference import completion
from missdp.inference.completion import ModelFacts, PairTables, weighted_tree_rows
from missdp.inference.raking import resample

SIZES = (2, 4, 3)


def observed(tables):
    """Return the tables as they are if all values are missing completely at random."""
    return completion.complete(tables, ModelFacts(), rng=np.random.default_rng(0), rounds=0)


def complete(tables, **facts):
    """Complete tables with few rows of the model, which is quick."""
    with patch.object(completion, "_ROWS", 10_000):
        return completion.complete(tables, ModelFacts(**facts), rng=np.random.default_rng(0))


@cache
def people(n=40_000):
    """Rows of three dependent attributes."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, n)
    b = np.minimum(3, a + rng.integers(0, 3, n))
    c = (rng.random(n) * (1 + b / 2)).astype(int)
    return np.stack([a, b, np.minimum(c, 2)], axis=1)


def released(rows, holes, *, noise=1e-4, seed=1):
    """Return pair tables of rows with missing cells. Complete attributes have no level for them."""
    rng = np.random.default_rng(seed)
    codes = np.where(holes, SIZES, rows)
    wide = [size + bool(holes[:, v].any()) for v, size in enumerate(SIZES)]
    margins = tuple(np.bincount(codes[:, v], minlength=w) / len(rows) for v, w in enumerate(wide))
    tables = {k: t + rng.normal(0, noise, t.shape) for k, t in tables_of(codes, wide).items()}
    variances = {k: np.full(t.shape, noise**2) for k, t in tables.items()}
    return PairTables(SIZES, margins, tables, variances, float(len(rows)))


def distances(moments, rows):
    """Return mean TV distances of marginals and of pair tables to those of complete rows."""
    ones = {(v,): margin for v, margin in enumerate(moments.marginals)}
    pairs = moments.pairs.items()
    twos = {(a, b): np.outer(ones[a,], ones[b,]) + t for (a, b), t in pairs}
    return np.array([np.mean(apart(rows, wanted, SIZES)) for wanted in (ones, twos)])


def by_others(rows):
    """Make cells missing: in the first attribute by both others, in the last by the second."""
    chance = np.zeros(rows.shape)
    chance[:, 0] = expit(-3 + rows[:, 1] + rows[:, 2])
    chance[:, 2] = expit(1 - 1.5 * rows[:, 1])
    return np.random.default_rng(2).random(rows.shape) < chance


def test_holes_by_other_attributes_are_corrected():
    tables = released(people(), by_others(people()))
    assert (distances(observed(tables), people()) > (0.04, 0.05)).all()
    assert (distances(complete(tables), people()) < (0.006, 0.01)).all()


def test_holes_completely_at_random_are_left_as_they_were_observed():
    holes = np.random.default_rng(3).random(people().shape) < (0.3, 0.2, 0.0)
    tables = released(people(), holes, noise=1e-3)
    completed, plain = complete(tables), observed(tables)
    assert not any(slope.any() for slope in completed.masks.slopes.values())
    for one, other in zip(completed.marginals, plain.marginals, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    for pair, table in completed.pairs.items():
        np.testing.assert_allclose(table, plain.pairs[pair], atol=0.002)
        np.testing.assert_allclose(completed.variances[pair], plain.variances[pair], rtol=0.02)


def test_holes_that_coincide_do_not_look_like_smaller_tables():
    """Half of the rows lack two attributes together.

    This holds no information about their values.
    """
    gone = np.random.default_rng(5).random(len(people())) < 0.5
    completed = complete(released(people(), np.stack([gone, np.zeros_like(gone), gone], axis=1)))
    assert completed.masks.odds[0, 2] > 8
    # Divided by a quarter rather than by half, the dependence would be twice as large.
    assert distances(completed, people())[1] < 0.01


@pytest.mark.long
def test_the_noise_that_is_stated_is_about_the_noise_there_is():
    rows, holes = people(), by_others(people())
    exact = complete(released(rows, holes, noise=1e-9))
    stated, found = [], []
    for seed in range(12):
        completed = complete(released(rows, holes, noise=1e-3, seed=seed))
        stated += [v.mean() for v in completed.variances.values()]
        found += [np.square(t - exact.pairs[c]).mean() for c, t in completed.pairs.items()]
    assert 0.4 * np.mean(stated) < np.mean(found) < 2.5 * np.mean(stated)


def test_a_level_that_is_never_missing_is_known_as_such():
    rows, holes = people(), by_others(people())
    holes[rows[:, 2] == 0, 2] = False
    tables = released(rows, holes)
    told = complete(tables, always={2: 0})
    assert not told.masks.missing(rows)[rows[:, 2] == 0, 2].any()
    assert distances(told, rows)[0] < 0.5 * distances(complete(tables), rows)[0]


def test_rows_of_the_tree_hold_pairs_beyond_it():
    rows = people()
    moments = observed(released(rows, np.zeros(rows.shape, dtype=bool)))
    rows_of_tree, weights = weighted_tree_rows(moments, np.random.default_rng(0), n=30_000)
    drawn = rows_of_tree[resample(weights, 30_000, np.random.default_rng(0))]
    assert max(apart(drawn, tables_of(rows, SIZES), SIZES)) < 0.01


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_extreme_tables_give_finite_numbers(rate):
    """Everything missing, or noise beyond all counts."""
    rng = np.random.default_rng(6)
    margins = tuple(np.append(np.full(s, (1 - rate) / s), rate) for s in SIZES)
    shapes = {c: tuple(SIZES[v] + 1 for v in c) for c in combinations(range(3), 2)}
    tables = {c: rng.normal(0, 1, shape) for c, shape in shapes.items()}
    ones = {c: np.ones(shape) for c, shape in shapes.items()}
    completed = complete(PairTables(SIZES, margins, tables, ones, 5.0))
    assert [m.sum() for m in completed.marginals] == pytest.approx([1.0] * 3)
    assert np.isfinite([*completed.masks.odds.values()]).all()
    for found in completed.pairs.values():
        assert np.isfinite(found).all()
    assert all((v > 0).all() for v in completed.variances.values())


def test_two_noises_of_margins_are_not_multiplied():
    # Both marginals of a table, and their sum, are off by far more than the error to detect.
    for seed in range(4):
        tables = released(people(2000), by_others(people(2000)), noise=0.3, seed=seed)
        completed = observed(tables)
        for pair, table in completed.pairs.items():
            assert np.square(table).mean() < 3 * completed.variances[pair].mean()


def test_a_pair_that_was_not_released_has_the_table_that_public_facts_imply():
    """A follow-up question has an answer if and only if its filter is "yes"."""
    marginals = (np.array([0.3, 0.7]), np.array([0.4, 0.3, 0.3]))  # the last level: not applicable
    allowed = {(0, 1): np.array([[False, False, True], [True, True, False]])}
    tables = PairTables((2, 3), marginals, {}, {}, 1000.0)
    complete = partial(completion.complete, tables, rng=np.random.default_rng(0))
    completed = complete(ModelFacts(allowed=allowed))
    table = completed.pairs[0, 1] + np.outer(*completed.marginals)
    np.testing.assert_allclose(table, [[0, 0, 0.3], [0.4, 0.3, 0]], atol=1e-6)
    assert completed.stds[0, 1].max() < 1e-3
    assert not complete(ModelFacts(allowed={(0, 1): np.ones((2, 3), bool)})).pairs


@pytest.mark.parametrize(
    "cells",
    [
        [[0, 0, 0, 1], [1, 1, 1, 0], [1, 1, 1, 0]],  # a filter with three levels
        [[1, 1, 1], [1, 1, 0]],  # a rule that excludes one cell
        [[0, 0], [1, 1]],  # a level without a possible cell
    ],
)
def test_a_table_that_facts_do_not_determine_is_not_stated(cells):
    """A table without further dependence overrode the relation that measured pairs implied."""
    cells = np.array(cells, dtype=bool)
    rows, columns = (np.full(size, 1 / size) for size in cells.shape)
    tables = PairTables(cells.shape, (rows, columns), {}, {}, 1000.0)
    facts = ModelFacts(allowed={(0, 1): cells})
    assert not completion.complete(tables, facts, rng=np.random.default_rng(0)).pairs


def test_contradictory_marginals_of_an_implied_table_are_part_of_its_noise():
    allowed = {(0, 1): np.array([[False, False, True], [True, True, False]])}
    marginals = (np.array([0.3, 0.7]), np.array([0.3, 0.3, 0.4]))
    tables = PairTables((2, 3), marginals, {}, {}, 1000.0)
    completed = completion.complete(
        tables, ModelFacts(allowed=allowed), rng=np.random.default_rng(0)
    )
    assert 0.05 < np.sqrt(completed.variances[0, 1]).min() < 0.2


def test_tables_do_not_depend_on_the_order_in_which_they_are_asked_for():
    """A question asks for a few of them, and keeps the marginals for the next one.

    Few rows of a level of the last attribute are observed with a level of the second. So its
    marginal depends on an attribute that nobody asked for.
    """
    rows = people()
    holes = by_others(rows)
    holes[:, 2] = np.random.default_rng(3).random(len(rows)) < expit(2 - 1.5 * rows[:, 1])
    tables = released(rows, holes)
    start = complete(tables).masks
    whole = completion.complete_with_rows(tables, ModelFacts(), rows[:5000], start=start)
    known = {}
    for wanted in ([2], [1], [0, 2], [1, 2], [0, 1, 2], [0, 1]):
        some = completion.CorrectedTables(
            tables, rows[:5000], whole.masks, attributes=wanted, marginals=known
        )
        for pair in combinations(wanted, 2):
            assert np.array_equal(some.excess(pair), whole.pairs[pair])
            assert np.array_equal(some.variance(pair), whole.variances[pair])
        for a in reversed(wanted):
            assert np.array_equal(some.marginal(a), whole.marginals[a])
    assert known.keys() == {0, 1, 2}
