import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from missdp import Categorical, PrivBayes, Schema, Table
from missdp.baselines.network import (
    SCORE_SENSITIVITY,
    _dependence_score,
    candidates,
    reachable_cliques,
)
from synth.conformance import make_table

shapes = st.tuples(st.integers(1, 4), st.integers(1, 4))


def test_the_sensitivity_is_nearly_attained():
    """A smaller constant would be wrong: adversarial neighbours come close to 2."""
    worst = 0.0
    for size, m in itertools.product((2, 10, 50), (10, 1000, 100_000)):
        counts = np.zeros((size + 1, size + 1), dtype=np.int64)
        counts[:-1, :-1] = m
        more = counts.copy()
        more[-1, -1] += 1
        worst = max(worst, abs(_dependence_score(more) - _dependence_score(counts)))
    assert 1.95 < worst < SCORE_SENSITIVITY


@given(st.data())
def test_the_score_is_exact_for_every_number_of_rows(data):
    """Whatever counts can hold: up to 2^62 rows, and neighbours of such tables."""
    shape = data.draw(shapes)
    most = data.draw(st.sampled_from([2**20, 2**27, 2**40, 2**58]))
    counts = data.draw(arrays(np.int64, shape, elements=st.integers(0, most)))
    more = counts.copy()
    more[tuple(data.draw(st.integers(0, size - 1)) for size in shape)] += 1
    scores = [_dependence_score(table) for table in (counts, more)]
    assert abs(Fraction(scores[0]) - Fraction(scores[1])) < SCORE_SENSITIVITY
    rows = [[int(c) for c in row] for row in counts]
    total, right = sum(map(sum, rows)), [sum(column) for column in zip(*rows, strict=True)]
    off = sum(abs(total * c - sum(r) * m) for r in rows for c, m in zip(r, right, strict=True))
    exact = min(Fraction(off, 2 * total), Fraction(2**34)) if total else 0
    assert abs(Fraction(scores[0]) - exact) < (SCORE_SENSITIVITY - 2) / 2


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
    found = candidates(placed, waiting, rule, degree)
    assert {frozenset(f.parents) for f in found} == (maximal or {frozenset()})
    assert len(found) == max(1, len(maximal))
    counted = set(reachable_cliques(names, rule, degree))
    assert all(tuple(n for n in names if n in f.clique) in counted for f in found)


def test_counting_in_small_batches_changes_nothing(monkeypatch):
    def synthetic():
        model = PrivBayes(epsilon=1.0, missing="joint", degree=2, random_state=0)
        return model.fit(make_table()).sample(200)

    expected = synthetic()
    monkeypatch.setattr("missdp.baselines.learn_network._CELLS_PER_CALL", 40)
    monkeypatch.setattr("missdp.sources.strategies._CELLS_AT_ONCE", 40)
    monkeypatch.setattr("missdp.baselines.network._CELLS_AT_ONCE", 100)
    assert synthetic().equals(expected)


@pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")
def test_more_cells_than_memory_holds_are_counted_when_needed(monkeypatch):
    monkeypatch.setattr("missdp.sources.counts._MAX_TOTAL_CELLS", 20_000)
    monkeypatch.setattr("missdp.baselines.learn_network._CELLS_PER_CALL", 10_000)
    monkeypatch.setattr("missdp.sources.strategies._CELLS_AT_ONCE", 10_000)
    levels = ("a", "b", "c", "d")
    schema = Schema(tuple(Categorical(name=f"c{i}", levels=levels) for i in range(8)))
    rng = np.random.default_rng(0)
    table = Table.from_codes(schema, {name: rng.integers(0, 4, 50) for name in schema.names})
    model = PrivBayes(epsilon=1.0, degree=4).fit(table)
    assert max(len(f.parents) for f in model.network_.families) == 4
