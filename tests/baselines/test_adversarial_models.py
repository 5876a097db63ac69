"""Released generators: rows and holes drawn in NumPy, calibrated, with the law of their tables."""

import numpy as np
import pytest
from scipy.stats import chisquare

from missdp.baselines.fit_classes import ClassTable
from missdp.baselines.networks import Layers, NetworkModel
from missdp.inference.model import Levels

SIZES = [3, 4, 2]
WIDTH = sum(SIZES)


def levels():
    plain = [Levels(np.arange(k), np.ones(k)) for k in SIZES]
    plain[1] = Levels(np.array([0, 1, 1, 2, 3]), np.array([1, 0.5, 0.5, 1, 1]))
    return tuple(plain)


def model(*, sees_values=True, conditions=False, always=None, rng=None):
    rng = rng or np.random.default_rng(0)
    inputs = 2 + sees_values * WIDTH
    laws = tuple(rng.dirichlet(np.ones(k)) for k in SIZES) if conditions else ()
    return NetworkModel(
        levels=levels(),
        values=Layers.random([4 + conditions * WIDTH, 8, WIDTH], rng),
        masks=Layers.random([inputs, 6, 2], rng),
        holed=(0, 2),
        sees_values=sees_values,
        always=always or {},
        conditions=laws,
        asked=np.array([1.0, 0.0, 3.0]) if conditions else np.zeros(0),
        n_rows=12.0,
    )


def test_holes_are_where_they_may_be_and_never_at_what_is_never_missing():
    rows = model(always={0: 1}).sample(2000, np.random.default_rng(0), keep_holes=True)
    sizes = [len(level.groups) for level in levels()]
    holes = np.stack([r == k for r, k in zip(rows, sizes, strict=True)], axis=1)
    assert holes[:, [0, 2]].mean(axis=0).min() > 0.05
    assert not holes[:, 1].any()
    complete = model(always={0: 1}).sample(2000, np.random.default_rng(0), keep_holes=False)
    assert all(r.max() < k for r, k in zip(complete, sizes, strict=True))
    # A row whose value is never missing keeps it: as many as complete rows have.
    assert abs((rows[0] == 1).mean() - (complete[0] == 1).mean()) < 0.04


def test_conditions_are_met():
    made = model(conditions=True)
    laws, given = made.laws(5000, np.random.default_rng(0))
    rows = made.picked(laws, given, np.random.default_rng(0))
    about = np.searchsorted(made.starts, given, side="right") - 1
    assert abs((about == 0).mean() - 0.25) < 0.03
    assert not (about == 1).any()
    assert (rows[np.arange(5000), about] == given - made.starts[about]).all()
    found = np.bincount(given[about == 2] - made.starts[2], minlength=2) / (about == 2).sum()
    assert np.abs(found - made.conditions[2]).max() < 0.03


@pytest.mark.parametrize("sees_values", [False, True])
def test_calibrated_models_have_the_margins_of_what_is_observed_and_the_rates_of_holes(sees_values):
    rng = np.random.default_rng(3)
    margins = [rng.dirichlet(np.full(k, 3.0)) for k in SIZES]
    rates = np.array([0.3, 0.1])
    made = model(sees_values=sees_values).calibrated(margins, rates, rng)
    rows = np.stack(made.sample(40_000, rng, keep_holes=True), axis=1)
    for a, margin in ((0, margins[0]), (2, margins[2])):
        seen = rows[rows[:, a] < SIZES[a], a]
        assert abs(1 - len(seen) / 40_000 - rates[a // 2]) < 0.015
        assert np.abs(np.bincount(seen, minlength=SIZES[a]) / len(seen) - margin).max() < 0.015
    joined = np.array([0, 1, 1, 2, 3])[rows[:, 1]]
    assert np.abs(np.bincount(joined, minlength=4) / 40_000 - margins[1]).max() < 0.015


def levels_of(*sizes):
    return tuple(Levels(np.arange(size), np.ones(size)) for size in sizes)


def some(always=None):
    rng = np.random.default_rng(0)
    heads = tuple(rng.dirichlet(np.ones(size), 3) for size in (2, 4))
    observed = np.array([[1.0, 0.2], [0.5, 0.9], [0.7, 0.4]])
    shares = np.array([0.2, 0.5, 0.3])
    return ClassTable(levels_of(2, 4), shares, heads, observed, always or {}, 100.0)


def law(model):
    """Probability of every row, holes included, by adding up over classes."""
    found = np.zeros((3, 5))
    for k, share in enumerate(model.shares):
        parts = []
        for a, head in enumerate(model.heads):
            seen = np.full(head.shape[1], model.observed[k, a])
            if a in model.always:
                seen[model.always[a]] = 1.0
            parts.append(np.append(head[k] * seen, (head[k] * (1 - seen)).sum()))
        found += share * np.outer(*parts)
    return found


@pytest.mark.parametrize("always", [{}, {1: 2}], ids=["any", "never missing"])
def test_rows_have_the_law_of_the_table(always):
    model, rng = some(always), np.random.default_rng(1)
    one, other = model.sample(200_000, rng, keep_holes=True)
    counts = np.bincount(one * 5 + other, minlength=15).reshape(3, 5)
    expected = law(model) * 200_000
    assert chisquare(counts.ravel(), expected.ravel()).pvalue > 1e-4
    wrong = np.roll(expected, 1, axis=1)
    assert chisquare(counts.ravel(), wrong.ravel()).pvalue < 1e-6


def test_draws_are_closer_than_chance_and_each_row_has_the_same_law():
    model = some()
    expected = sum(s * h for s, h in zip(model.shares, model.heads[1], strict=True))
    rng = np.random.default_rng(2)
    tables = [model.sample(300, rng, keep_holes=False)[1] for _ in range(400)]
    shares = np.array([np.bincount(table, minlength=4) / 300 for table in tables])
    assert shares.mean(axis=0) == pytest.approx(expected, abs=0.01)
    independent = rng.multinomial(300, expected, size=400) / 300
    assert np.abs(shares - expected).mean() < np.abs(independent - expected).mean() / 3
    first = np.bincount([table[0] for table in tables], minlength=4)
    assert chisquare(first, 400 * expected).pvalue > 1e-4
