"""The number of rows: from everything released, with its uncertainty, never silently none."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize_scalar

from missdp import AllPairs, Categorical, Kamino, Numeric, PrivBayes, Schema
from missdp.baselines.privbayes import _make_consistent
from missdp.inference.counts import enforce_decreasing_tails, project_to_simplex
from missdp.synth import AIM, MST, SmallTableWarning
from missdp.synth.noisy_counts import Total, has_number_levels, least_squares_total
from missdp.testing import RecordingNoise, ReplayedNoise
from synth.tables import rows_of, schema_of

pytestmark = pytest.mark.usefixtures("one_turn")
SIZES = [[2] * 8, [10] * 5, [2, 3, 4, 8, 9]]
STRATEGIES = ("joint", "observed", "complete-rows", "impute-first")
QUICK = {"delta": 1e-6}


@pytest.mark.parametrize("missing", STRATEGIES)
def test_a_small_table_keeps_its_size(missing):
    for sizes, rate in zip(SIZES, (0.0, 0.2, 0.2), strict=True):
        private = rows_of(schema_of(sizes, rate > 0), 178, holes=rate)
        model = MST(epsilon=1.0, missing=missing, random_state=0, **QUICK).fit(private)
        assert 100 <= model.n_rows_ <= 260
        assert model.n_rows_std_ < 25
        assert len(model.sample()) == model.n_rows_


@pytest.mark.slow
@pytest.mark.parametrize("missing", STRATEGIES)
@pytest.mark.parametrize("rate", [0.0, 0.2])
@pytest.mark.parametrize("family", [MST, PrivBayes, AIM])
def test_the_number_is_as_uncertain_as_is_said(family, missing, rate):
    options = {PrivBayes: {}, MST: QUICK, AIM: QUICK | {"rounds": 2}}[family]
    private = rows_of(schema_of([2, 5, 3], rate > 0), 1500, holes=rate)
    models = [
        family(epsilon=1.0, missing=missing, random_state=seed, **options).fit(private)
        for seed in range(12)
    ]
    errors = [(m.n_rows_ - 1500) / m.n_rows_std_ for m in models]
    assert np.abs(errors).max() < 4.5
    assert np.std(errors) < 2.0
    assert np.std(errors) > 0.3 or missing in ("observed", "complete-rows")


def warned(model, table):
    """Fit a model, and return the messages of warnings about a table that is too small."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(table)
    return [str(w.message) for w in caught if w.category is SmallTableWarning]


class Scaled(RecordingNoise):
    """Answers in which marginals count so many times as many rows as there are."""

    def __init__(self, times):
        super().__init__(0)
        self.times = times

    def answer(self, event, law, exact):
        found = super().answer(event, law, exact)
        marginal = event.label.startswith(("marginal", "number of counted"))
        return np.rint(found * self.times).astype(np.int64) if marginal else found


@pytest.mark.long
@pytest.mark.parametrize(
    ("family", "rate", "times"),
    [
        *((AllPairs, *how) for how in [(0.5, 1), (0.02, 1), (0.02, 0.03), (0.5, 30)]),
        *((family, 0.5, 1) for family in (AIM, Kamino, MST, PrivBayes)),
    ],
)
def test_what_is_released_tells_that_hardly_a_row_is_complete(family, rate, times):
    """16 or 886 of 1,000 rows are complete.

    The warning depends on the released number of rows, and not on the true number.
    """
    model = family(epsilon=5.0, missing="complete-rows", delta=1e-6, random_state=0)
    noise = Scaled(times)
    with noise:
        said = warned(model, rows_of(schema_of([2] * 6), 1000, holes=rate))
    said = [one for one in said if "effective rows" not in one]
    assert len(said) == (rate * times in (0.5, 0.02 * 0.03))
    assert all(f"of {model.n_rows_} rows are complete" in one for one in said)
    # Of no rows at all nothing is said of complete ones, but where noise makes them up.
    if family is PrivBayes:
        return
    with noise:
        said = warned(model, rows_of(schema_of([2] * 6), 0))
    assert "are complete" not in " ".join(said)


@pytest.mark.long
@pytest.mark.parametrize(
    ("family", "epsilon", "told"),
    [(AllPairs, 1.0, True), (MST, 1.0, True), (PrivBayes, 1.0, True), (MST, 8.0, False)],
)
def test_output_that_is_all_noise_is_told_from_what_was_released(family, epsilon, told):
    """The table has 178 rows of twelve attributes.

    A table with ten times as many rows and the same answers gives the same warning.
    """
    schema, kept = schema_of([6] * 12, None), RecordingNoise(0)
    for n in (178, 1780):
        model = family(epsilon=epsilon, **(QUICK if family is MST else {}))
        with kept if n == 178 else ReplayedNoise(kept):
            said = warned(model, rows_of(schema, n))
        wanted = f"About {model.n_rows_ * epsilon:,.0f} effective rows × epsilon: most relations"
        assert [wanted in one for one in said] == [True] * told


@pytest.mark.long
def test_epsilon_that_is_suggested_is_enough():
    schema = schema_of([6] * 12, None)
    (said,) = warned(MST(epsilon=1.0, n_rows=178, **QUICK), rows_of(schema, 178))
    enough = float(re.search(r"a larger epsilon \(about ([\d.]+)\)", said)[1])
    assert enough > 1.5
    assert warned(MST(epsilon=enough, n_rows=178, **QUICK), rows_of(schema, 178)) == []


totals = st.lists(
    st.builds(Total, st.floats(-1e3, 1e4), st.floats(1e-2, 1e4)), min_size=1, max_size=6
)


@given(totals, totals | st.just([]))
def test_totals_are_put_together_by_constrained_least_squares(known, floors):
    def loss(n):
        above = sum(max(0.0, f.value - n) ** 2 / f.variance for f in floors)
        return above + sum((n - t.value) ** 2 / t.variance for t in known)

    found = least_squares_total(known, floors)
    best = minimize_scalar(loss, bounds=(-2e3, 2e4), method="bounded", options={"xatol": 1e-8})
    assert loss(found.value) <= best.fun * (1 + 1e-9) + 1e-6
    assert found.variance == pytest.approx(1 / sum(1 / t.variance for t in known))


vectors = arrays(float, st.integers(1, 8), elements=st.floats(-3, 3))


@given(vectors)
def test_projection_is_on_the_simplex_and_optimal(point):
    out = project_to_simplex(point)
    assert np.all(out >= 0)
    np.testing.assert_allclose(out.sum(), 1.0, rtol=1e-9)
    # Optimality: the point minus its projection is one constant on the support, larger off it.
    gap = point - out
    support = out > 1e-12
    np.testing.assert_allclose(gap[support], gap[support].mean(), atol=1e-9)
    assert np.all(gap[~support] <= gap[support].mean() + 1e-9)


def test_consistency_makes_shared_margins_agree_and_is_better_than_none():
    rng, gains = np.random.default_rng(0), []
    truth = rng.dirichlet(np.ones(4 * 3 * 5)).reshape(4, 3, 5)
    cliques = {("a", "b"): truth.sum(2), ("b", "c"): truth.sum(0), ("a", "c"): truth.sum(1)}
    for _ in range(50):
        noisy = {k: v + rng.normal(0, 0.02, v.shape) for k, v in cliques.items()}
        out = _make_consistent(noisy, dict.fromkeys(cliques, 0.02**2))
        np.testing.assert_allclose(out["a", "b"].sum(0), out["b", "c"].sum(1), atol=0.02)
        alone = {k: project_to_simplex(v) for k, v in noisy.items()}
        gains.append([sum(np.abs(t[k] - cliques[k]).sum() for k in t) for t in (out, alone)])
    after, before = np.sum(gains, axis=0)
    assert after < 0.97 * before
    # The more precise table is trusted.
    sharp, blunt = np.array([0.8, 0.2]), np.array([[0.1, 0.1], [0.4, 0.4]])
    out = _make_consistent({("a",): sharp, ("a", "b"): blunt}, {("a",): 1e-6, ("a", "b"): 1.0})
    np.testing.assert_allclose(out["a", "b"].sum(1), sharp, atol=1e-3)


# Ends of numbers


def test_what_noise_lifts_far_out_is_brought_to_where_counts_stand_out():
    counts = np.array([5.0, -3.0, 100.0, 2.0, 300.0, 1.0, -4.0, 9.0, 3.0, 8.0])
    found = enforce_decreasing_tails(counts, 4.0)
    assert found[2:5].tolist() == counts[2:5].tolist()
    assert found[:2].tolist() == [1.0, 1.0]
    assert found[5:].tolist() == pytest.approx([3.4] * 5)
    heap = np.array([300.0, 5.0, 8.0, 90.0])  # an end that stands out stays
    assert enforce_decreasing_tails(heap, 4.0).tolist() == heap.tolist()
    assert enforce_decreasing_tails(heap, 400.0).tolist() == heap.tolist()  # or nothing does
    assert (
        enforce_decreasing_tails(heap, 40.0).tolist() == heap.tolist()
    )  # a top code, by less than in between
    assert enforce_decreasing_tails(heap, 50.0).tolist() == pytest.approx([300.0, *[103 / 3] * 3])


def test_only_numbers_in_their_order_have_ends():
    numbers = Numeric(name="n", lower=0, upper=4, integer=True)
    assert has_number_levels(numbers)
    assert not has_number_levels(replace(numbers, bins=2))
    assert not has_number_levels(replace(numbers, spikes=(4,)))
    assert not has_number_levels(replace(numbers, upper=16))
    assert not has_number_levels(Numeric(name="n", lower=0, upper=4, bins=5))
    assert not has_number_levels(Categorical(name="n", levels=("0", "1", "2")))


@pytest.mark.long
@pytest.mark.parametrize("family", [AllPairs, AIM])
def test_few_children_are_not_many(family):
    rng = np.random.default_rng(0)
    children = rng.choice(9, 3000, p=[0.8, 0.15, 0.04, 0.01, 0, 0, 0, 0, 0])
    schema = Schema(
        (
            Numeric(name="children", lower=0, upper=8, integer=True),
            *(Categorical(name=c, levels=tuple("abcd")) for c in "pqrst"),
        )
    )
    rows = {"children": children} | {c: rng.choice(list("abcd"), 3000) for c in "pqrst"}
    off = []
    for seed in range(8):
        model = family(epsilon=0.5, delta=1e-6, random_state=seed)
        drawn = model.fit(pd.DataFrame(rows), schema=schema).sample(3000, random_state=seed)
        off.append(drawn["children"].astype(float).std() / children.std() - 1)
    assert abs(np.mean(off)) < 0.33
    if family is AllPairs:  # alone, margins are not measured again
        few = {"children": children[:200]}
        model = AllPairs(epsilon=0.5, delta=1e-6, random_state=0)
        law = model.fit(pd.DataFrame(few), schema=schema.subset(["children"])).model_.row_model
        assert (np.diff(law.marginals[0][2:]) <= 1e-9).all()
