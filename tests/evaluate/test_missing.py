from __future__ import annotations

import itertools

import numpy as np
import pytest

from missdp import Categorical, Schema, Table
from missdp.evaluate import MAR, MCAR, missing_fidelity, missing_mask

NAMES = ("a", "b", "c")
SCHEMA = Schema(tuple(Categorical(name=n, levels=(0, 1, 2)) for n in NAMES))


def complete(n: int, seed: int) -> Table:
    rng = np.random.default_rng(seed)
    return Table.from_codes(SCHEMA, {name: rng.integers(0, 3, n) for name in NAMES})


def naive(one: np.ndarray, two: np.ndarray, columns: tuple[int, ...]) -> float:
    distance = 0.0
    for pattern in itertools.product([False, True], repeat=len(columns)):
        share = [np.mean(np.all(m[:, columns] == pattern, axis=1)) for m in (one, two)]
        distance += abs(share[0] - share[1]) / 2
    return distance


def test_rates_and_patterns_follow_their_definitions() -> None:
    one = MCAR(rate={"a": 0.3, "b": 0.1}).apply(complete(400, 0), random_state=0)
    two = MAR(rate=0.4, drivers=("a",), strength=3.0).apply(complete(300, 1), random_state=1)
    found = missing_fidelity(one, two)
    p, q = missing_mask(one), missing_mask(two)
    assert list(found.truth_rates.values()) == pytest.approx(p.mean(axis=0))
    assert list(found.synthetic_rates.values()) == pytest.approx(q.mean(axis=0))
    for i, j in itertools.combinations(range(3), 2):
        assert found.pairs[NAMES[i], NAMES[j]] == pytest.approx(naive(p, q, (i, j)))
    assert found.patterns == pytest.approx(naive(p, q, (0, 1, 2)))
    gap = np.abs(q.mean(axis=0) - p.mean(axis=0))
    assert found.mean_rate_difference == pytest.approx(gap.mean())
    assert found.max_rate_difference == pytest.approx(gap.max())


def test_equal_rates_with_another_dependence_are_told_apart() -> None:
    """Holes that come together, against holes that come alone: only the patterns see it."""
    schema = Schema(tuple(Categorical(name=n, levels=(0,), nullable=True) for n in "ab"))
    together = Table.from_codes(schema, {"a": [1, 1, 0, 0], "b": [1, 1, 0, 0]})
    alone = Table.from_codes(schema, {"a": [1, 1, 0, 0], "b": [0, 0, 1, 1]})
    found = missing_fidelity(together, alone)
    assert found.max_rate_difference == 0.0
    assert found.pairs["a", "b"] == found.patterns == 1.0


def test_tables_without_rows() -> None:
    table = MCAR(rate=0.3).apply(complete(100, 0), random_state=0)
    empty = table.take(np.arange(0))
    assert missing_fidelity(table, empty).patterns == 1.0
    assert missing_fidelity(empty, empty).mean_pair_distance == 0.0
