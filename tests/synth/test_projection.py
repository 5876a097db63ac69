import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from missdp.synth.noisy_counts import make_consistent, project_to_simplex

vectors = arrays(float, st.integers(1, 8), elements=st.floats(-3, 3))


@given(vectors, st.floats(0.1, 50))
def test_projection_is_on_the_simplex_and_optimal(point, total):
    out = project_to_simplex(point, total)
    assert np.all(out >= 0)
    np.testing.assert_allclose(out.sum(), total, rtol=1e-9)
    # Optimality: the point minus its projection is one constant on the support, larger off it.
    gap = point - out
    support = out > 1e-12
    np.testing.assert_allclose(gap[support], gap[support].mean(), atol=1e-9)
    assert np.all(gap[~support] <= gap[support].mean() + 1e-9)


def test_projection_agrees_with_a_numerical_optimiser():
    point = np.array([0.9, 0.6, -0.3, 0.1])
    found = minimize(
        lambda p: ((p - point) ** 2).sum(),
        np.full(4, 0.25),
        bounds=[(0, None)] * 4,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
    )
    np.testing.assert_allclose(project_to_simplex(point), found.x, atol=1e-6)


def test_consistency_makes_shared_margins_agree_and_is_better_than_none():
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.ones(4 * 3 * 5)).reshape(4, 3, 5)
    cliques = {("a", "b"): truth.sum(2), ("b", "c"): truth.sum(0), ("a", "c"): truth.sum(1)}
    before = after = 0.0
    for _ in range(50):
        noisy = {k: v + rng.normal(0, 0.02, v.shape) for k, v in cliques.items()}
        out = make_consistent(noisy, dict.fromkeys(cliques, 0.02**2))
        b = [out["a", "b"].sum(0), out["b", "c"].sum(1)]
        np.testing.assert_allclose(b[0], b[1], atol=0.02)
        alone = {k: project_to_simplex(v) for k, v in noisy.items()}
        before += sum(np.abs(alone[k] - v).sum() for k, v in cliques.items())
        after += sum(np.abs(out[k] - v).sum() for k, v in cliques.items())
    assert after < 0.97 * before


def test_consistency_trusts_the_more_precise_table():
    sharp, blunt = np.array([0.8, 0.2]), np.array([[0.1, 0.1], [0.4, 0.4]])
    out = make_consistent({("a",): sharp, ("a", "b"): blunt}, {("a",): 1e-6, ("a", "b"): 1.0})
    np.testing.assert_allclose(out["a", "b"].sum(1), sharp, atol=1e-3)
