"""Rows and holes drawn from a table of classes: their law, even or independent, and its file."""

import numpy as np
import pytest
from scipy.stats import chisquare

from missdp.baselines.class_table import ClassTable
from missdp.inference.model import Levels


def levels(*sizes):
    return tuple(Levels(np.arange(size), np.ones(size)) for size in sizes)


def some(always=None):
    rng = np.random.default_rng(0)
    heads = tuple(rng.dirichlet(np.ones(size), 3) for size in (2, 4))
    observed = np.array([[1.0, 0.2], [0.5, 0.9], [0.7, 0.4]])
    shares = np.array([0.2, 0.5, 0.3])
    return ClassTable(levels(2, 4), shares, heads, observed, always or {}, 100.0)


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
