"""What is said not to have moved has moved by no more than a few times the tolerance."""

import itertools

import numpy as np
import pytest

from missdp.inference.beliefs import Drift, log_linear

SIZES = [3, 2, 4, 3, 2, 3, 2, 4]
TOLERANCE = 1e-3


def grown(rng, parameters, strength):
    """The parameters, some of them moved, and one clique more."""
    moved = {c: t + strength * rng.normal(size=t.shape) for c, t in parameters.items()}
    pair = tuple(sorted(rng.choice(len(SIZES), 2, replace=False).tolist()))
    return moved | {pair: rng.normal(size=[SIZES[v] for v in pair])}


@pytest.mark.parametrize("seed", range(8))
def test_what_is_still_has_the_same_marginal_even_in_another_tree(seed):
    rng = np.random.default_rng(seed)
    parameters = {(v,): rng.normal(size=size) for v, size in enumerate(SIZES)}
    queries = [c for k in (2, 3) for c in itertools.combinations(range(len(SIZES)), k)]
    drift, kept, stayed = Drift(), {}, 0
    for _ in range(9):
        parameters = grown(rng, parameters, 1e-5)
        law = log_linear(SIZES, parameters)[0]
        drift.see(law, TOLERANCE)
        kept = {q: table for q, table in kept.items() if drift.still(q)}
        stayed += len(kept)
        for query in queries:
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
