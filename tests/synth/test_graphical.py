"""AIM and MST: accounting, measured marginals, values missing at random, and scores."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from missdp import AllPairs, Categorical, Filter, PrivBayes, Schema, Table
from missdp.accounting import GaussianEvent, SelectionEvent, releases
from missdp.accounting.exact import mu_from_epsilon
from missdp.accounting.measures import gdp_cost
from missdp.datasets import yrbss
from missdp.errors import ParameterError
from missdp.inference.missing_rates import both_missing
from missdp.schema import NotApplicable
from missdp.session import Noise
from missdp.session.scores import MISFIT_SENSITIVITY, Expected, misfit
from missdp.synth import AIM, MST
from missdp.synth.workload import candidates
from missdp.testing import RecordingNoise
from refusing import refuses
from synth.tables import rows_of, schema_of

SCHEMA = schema_of(dict.fromkeys("abcd", 4), "bd")
N = 30_000


def population(n):
    """A chain a - b - c - d."""
    rng = np.random.default_rng(0)
    columns = [rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])]
    for _ in "bcd":
        move = rng.choice(4, n, p=[0.6, 0.3, 0.05, 0.05])
        columns.append((columns[-1] + move) % 4)
    return dict(zip("abcd", columns, strict=True))


CODES = population(N)


def with_holes(codes, slope, *, together=False):
    """Values of b and d missing at random: more so the larger a is."""
    rng = np.random.default_rng(1)
    chance = expit(slope * (codes["a"] - 1.0) - 0.5)
    holes = rng.random((2, len(chance))) < chance
    holes = {"b": holes[0], "d": holes[0 if together else 1]}
    return Table.from_codes(SCHEMA, codes).with_missing(holes)


def errors(model):
    """Mean distance of the model's tables of pairs to those of the complete rows."""
    found = []
    drawn = model.sample_table(N, random_state=0)
    for a, b in itertools.combinations("abcd", 2):
        truth = np.bincount(4 * CODES[a] + CODES[b], minlength=16) / N
        cells = np.bincount(4 * drawn.codes(a) + drawn.codes(b), minlength=16) / N
        found.append(0.5 * np.abs(cells - truth).sum())
    return float(np.mean(found))


def fit(table, **options):
    options = {"epsilon": 5.0, "delta": 1e-6, "random_state": 0, **options}
    return AIM(**options).fit(table)


@pytest.fixture(scope="module")
def by_strategy():
    table = with_holes(CODES, slope=1.5)
    return {m: fit(table, missing=m) for m in ("joint", "observed", "complete-rows")}


def test_joint_is_right_when_values_are_missing_at_random(by_strategy):
    joint, observed, complete_rows = map(errors, by_strategy.values())
    assert joint < 0.5 * observed < 0.5 * complete_rows
    assert joint < errors(fit(Table.from_codes(SCHEMA, CODES))) + 0.01


@pytest.mark.long
def test_holes_that_always_coincide_do_not_mislead():
    table = with_holes(CODES, slope=1.0, together=True)
    joint = errors(fit(table))
    assert joint < 0.02
    assert joint < 0.5 * errors(fit(table, missing="observed"))


def test_kept_holes_follow_the_mechanism(by_strategy):
    table = with_holes(CODES, slope=1.5)
    kept = by_strategy["joint"].sample_table(N, missing_values="keep", random_state=0)
    for level in range(4):
        real = table.mask("d")[CODES["a"] == level].mean()
        assert kept.mask("d")[kept.codes("a") == level].mean() == pytest.approx(real, abs=0.08)
    assert not kept.mask("a").any()


@pytest.mark.long
def test_what_is_charged_is_what_is_measured():
    with RecordingNoise(0) as noise:
        model = fit(with_holes(population(2000), 1.0), epsilon=1.0)
    kept = [answer.mechanism for answer in noise.answers if isinstance(answer.mechanism, Noise)]
    events = releases(model.guarantee_.events)
    charged = [(e.label, e.sigma) for e in events if isinstance(e, GaussianEvent)]
    assert [sigma for _, sigma in charged] == [law.scale for law in kept]
    assert [label for label, _ in charged[:4]] == [f"marginal {n}" for n in "abcd"]
    assert charged[4][0] == "marginal b x d"  # of masks
    assert sum(isinstance(e, SelectionEvent) for e in events) == len(charged) - 5
    measured = {f"marginal {' x '.join(clique)}" for clique in model.measured_}
    assert measured == {label for label, _ in charged[5:]}


FEW = Table.from_codes(SCHEMA, population(2000))


def test_an_interrupted_fit_stays_charged_and_progress_never_goes_back():
    budget, seen = Filter(1.0, 1e-6), []

    def interrupt(stage, done):
        if done > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(FEW, epsilon=1.0, budget=budget, progress=interrupt)
    assert not budget.can_afford(*budget.events)
    assert budget.spent.epsilon == pytest.approx(1.0)
    fit(FEW, progress=lambda _, done: seen.append(done))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_the_workload_decides_what_may_be_measured():
    model = fit(FEW, workload={("a", "b"): 2.0, ("c", "d"): 1.0})
    assert set(model.measured_) == {("a", "b"), ("c", "d")}
    assert fit(FEW, workload=1).measured_ == ()
    assert ("a", "b", "c") in fit(FEW, workload=[("a", "b", "c")], epsilon=20.0).measured_


def test_the_workload_is_closed_downwards_and_weighted():
    schema = schema_of(dict.fromkeys("abcd", 2))
    found = candidates({("a", "b", "c"): 2.0, ("c", "d"): 1.0}, schema)
    assert set(found) == {(0, 1), (0, 2), (1, 2), (0, 1, 2), (2, 3)}
    assert found[0, 1, 2] == 1.0
    assert found[2, 3] == pytest.approx((2 + 2) / (6 + 1))
    assert candidates([("b", "a")], schema) == {(0, 1): 1.0}
    assert candidates(1, schema) == {}
    wide = schema_of([90] * 16)
    assert len(candidates(2, wide)) == 120
    with refuses(ParameterError, "one pass"):
        candidates(3, wide)


# -- the tree of MST -----------------------------------------------------------------------------
FIVE = schema_of(dict.fromkeys("abcde", 3))


def linked(n=20_000):
    """a - b - c - d - e, with a fifth of all cells missing."""
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 3, n)]
    for _ in "bcde":
        columns.append(np.where(rng.random(n) < 0.8, columns[-1], rng.integers(0, 3, n)))
    return {k: np.where(rng.random(n) < 0.2, 3, c) for k, c in zip("abcde", columns, strict=True)}


@pytest.mark.parametrize("missing", ["joint", "impute-first"])
def test_the_tree_is_found_and_paid_for(missing):
    model = MST(epsilon=3.0, delta=1e-6, missing=missing, random_state=0)
    model.fit(Table.from_codes(FIVE, linked()))
    edges = set(model.measured_)
    assert edges == set(itertools.pairwise("abcde")) if missing == "joint" else len(edges) == 4
    spent = float(sum(gdp_cost(e) for e in releases(model.guarantee_.events)))
    assert spent == pytest.approx(mu_from_epsilon(3.0, 1e-6) ** 2, rel=1e-6)


def test_no_cycle_is_ever_measured():
    for seed in range(2):
        model = MST(epsilon=0.5, delta=1e-6, random_state=seed)
        edges = model.fit(rows_of(FIVE, 300, 1)).measured_
        roots = {n: n for n in "abcde"}
        for a, b in edges:
            assert roots[a] != roots[b]
            roots = {n: roots[a] if r == roots[b] else r for n, r in roots.items()}
        assert len(edges) == 4


# -- 'joint' corrects for missing values that depend on jointly measured attributes ----------------
def three(causes, n=20_000):
    """``a`` tends to be 1 with its cause, and goes missing, and b too, by chance."""
    rng = np.random.default_rng(0)
    b, c = rng.integers(0, 2, n), rng.integers(0, 2, n)
    truth, chance, hidden = causes(rng, b, c)
    a = (rng.random(n) < 0.2 + 0.6 * truth).astype(int)
    schema = schema_of(dict.fromkeys("abc", 2), "ab")
    whole = Table.from_codes(schema, {"a": a, "b": b, "c": c})
    return whole, whole.with_missing({"a": rng.random(n) < chance, "b": hidden})


def off(model, causes, name="a"):
    whole, holed = three(causes)
    synthetic = model.fit(holed).sample_table(20_000, random_state=0)
    return abs(synthetic.codes(name).mean() - whole.codes(name).mean())


def by_xor(rng, b, c):
    """At random, given b and c, of which none is ever missing."""
    return b ^ c, 0.8 * (b ^ c), np.zeros(len(b), dtype=bool)


def where_observed(rng, b, c):
    """By b where b is observed, and at a rate of its own where it is not."""
    hidden = rng.random(len(b)) < 0.3
    return b, np.where(hidden, 0.05, np.where(b == 1, 0.7, 0.1)), hidden


def generous(**options):
    return AIM(epsilon=20.0, delta=1e-6, random_state=0, rounds=4, **options)


@pytest.mark.long
def test_holes_by_the_interaction_of_two_attributes_are_corrected_if_the_three_are_measured():
    assert off(generous(workload=[("a", "b", "c")]), by_xor) < 0.02
    # No sum of an effect of b and one of c is their exclusive or.
    assert off(generous(workload=2), by_xor) > 0.05
    # The fill of PrivBayes corrects them if its families hold them.
    assert off(PrivBayes(epsilon=20.0, degree=2, random_state=0), by_xor) < 0.03


@pytest.mark.long
def test_holes_by_an_attribute_only_where_it_is_observed_are_corrected():
    """Without that, values of 0.2 and 0.4 leave the first margin .020 and .043 off."""
    assert off(generous(), where_observed) < 0.01
    assert off(generous(), where_observed, "b") < 0.01


# -- scores --------------------------------------------------------------------------------------
def _score(counts, expected, *, bias, weight):
    return misfit(counts, Expected(expected, np.ones(expected.shape, dtype=bool), bias, weight))


@pytest.mark.long
@settings(max_examples=300)
@given(
    st.integers(1, 400),
    st.floats(0, 30),
    st.floats(1e-9, 1.0),
    st.floats(0, 1e9),
    st.integers(0, 2**32 - 1),
)
def test_one_row_moves_a_score_by_at_most_its_sensitivity(cells, size, weight, bias, seed):
    """Floating point included."""
    rng = np.random.default_rng(seed)
    exact = rng.integers(0, int(2**size) + 1, cells)
    expected = rng.random(cells) * 2 ** rng.uniform(0, 31, cells)
    more = exact.copy()
    more[rng.integers(cells)] += 1
    one, two = (_score(c, expected, bias=bias, weight=weight) for c in (exact, more))
    assert abs(one - two) <= MISFIT_SENSITIVITY


def test_without_the_grid_one_row_moves_it_by_more_and_predictions_are_bounded():
    # The earlier score: rounding in another binade adds to the difference.
    exact, more = np.array([2**29]), np.array([2**29 + 1])
    worst = 0.0
    for expected in np.random.default_rng(0).random((50, 1)):
        worst = max(worst, np.abs(more - expected).sum() - np.abs(exact - expected).sum())
        pair = [_score(c, expected, bias=0.3, weight=1.0) for c in (exact, more)]
        assert abs(pair[0] - pair[1]) <= 1.0
    assert worst > 1.0
    score = _score(np.array([1, 2]), np.array([1e30, 1e30]), bias=1.0, weight=1.0)
    assert score == pytest.approx(2.0**31)


# Cells that are missing together stay so where large tables hide in the noise


def skipped_blocks(n):
    """Rows of eight attributes, of which three are skipped by a quarter of the people."""
    rng = np.random.default_rng(1)
    whole = rows_of(schema_of([4] * 8, ["c2", "c3", "c4"]), n, holes=0.0, common=0.6)
    skips = rng.random(n) < 0.25
    return whole.with_missing({f"c{i}": skips & (rng.random(n) < 0.95) for i in (2, 3, 4)})


@pytest.mark.long
@pytest.mark.parametrize("family", [AIM, AllPairs])
def test_what_few_rows_skip_together_is_missing_together(family):
    private, model = skipped_blocks(3000), family(epsilon=0.5, delta=1e-6)
    kept = []
    for seed in range(3):
        model.random_state = seed
        drawn = model.fit(private).sample_table(4000, missing_values="keep", random_state=seed)
        kept += [drawn.mask(b)[drawn.mask(a)].mean() for a, b in (("c2", "c3"), ("c3", "c4"))]
    assert np.mean(kept) > 0.8  # .95 in truth, .25 if apart


def kept(private, drawn):
    """How much of the excess of joint missingness is kept, by regression over pairs."""

    def excess(table):
        masks = np.stack([table.mask(name) for name in table.schema.names], axis=1)
        return np.cov(masks.T.astype(float))[np.triu_indices(masks.shape[1], 1)]

    truth = excess(private)
    return excess(drawn) @ truth / (truth @ truth)


@pytest.mark.long
@pytest.mark.parametrize("family", [AIM, AllPairs])
def test_joint_missingness_of_two_columns_is_kept(family):
    rng, n = np.random.default_rng(1), 3000
    whole = rows_of(schema_of([4] * 6, ["c0", "c1"]), n, holes=0.0, common=0.6)
    stops, more = rng.random(n) < 0.25, rng.random((2, n)) < 0.1
    private = whole.with_missing({f"c{i}": stops ^ (stops & more[i]) for i in range(2)})
    found = []
    for seed in range(8):
        model = family(epsilon=0.5, delta=1e-6, random_state=seed).fit(private)
        drawn = model.sample_table(10_000, missing_values="keep", random_state=seed)
        found.append(kept(private, drawn))
    assert np.mean(found) > 0.9


@pytest.mark.long
@pytest.mark.parametrize(("family", "least"), [(AIM, 0.7), (AllPairs, 0.4)])
def test_joint_missingness_of_a_survey_is_kept(family, least):
    """Noise hides most of the 78 pairs: AllPairs asks how often two are missing of ten of them."""
    table, rng = yrbss().table(), np.random.default_rng(0)
    some = rng.choice(len(table), 3000, replace=False)
    codes = {name: table.codes(name)[some] for name in table.schema.names}
    private, found = Table.from_codes(table.schema, codes), []
    for seed in range(5):
        model = family(epsilon=1.0, delta=1e-6, random_state=seed).fit(private)
        drawn = model.sample_table(10_000, missing_values="keep", random_state=seed)
        found.append(kept(private, drawn))
    assert np.mean(found) > least


@pytest.mark.long
@pytest.mark.parametrize("family", [AIM, AllPairs])
def test_masks_are_of_few_cells_and_one_row_moves_one_of_them_by_one(family):
    private = skipped_blocks(300)
    codes = {name: private.codes(name).copy() for name in private.schema.names}
    more = {name: np.append(column, 0) for name, column in codes.items()}
    more["c3"][-1] = 4  # a missing value and observed cells
    answers = []
    for rows in codes, more:
        with RecordingNoise(0) as noise:
            family(epsilon=8.0, delta=1e-6).fit(Table.from_codes(private.schema, rows))
        answers.append([a for a in noise.answers if isinstance(a.mechanism, Noise)][8:11])
    for one, two in zip(*answers, strict=True):
        assert one.event == two.event
        assert one.event.sensitivity == 1
        assert one.exact.shape == (2, 2)
        assert np.abs(one.exact - two.exact).sum() == 1


@pytest.mark.long
def test_of_many_columns_those_with_the_most_holes_are_looked_at():
    schema = schema_of([2] * 34, [f"c{i}" for i in range(34)])
    rows = rows_of(schema, 600, holes=0.5)
    holed = {f"c{i}": np.arange(600) % (34 if i == 7 else 3) == 0 for i in range(34)}
    rows = Table.from_codes(schema, {n: rows.codes(n) % 2 for n in schema.names}).with_missing(
        holed
    )
    model = AllPairs(epsilon=60.0, delta=1e-6, random_state=0, n_rows=600).fit(rows)
    assert len(model.tables_.marginals.masks) == 32 * 31 / 2
    assert 7 not in {a for pair in model.tables_.marginals.masks for a in pair}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")
def test_nothing_is_spent_on_masks_that_noise_hides():
    few = AllPairs(epsilon=0.5, delta=1e-6, random_state=0).fit(skipped_blocks(300))
    assert len(releases(few.guarantee_.events)) == 9
    assert not few.tables_.marginals.masks
    few = AIM(epsilon=0.5, delta=1e-6, random_state=0).fit(skipped_blocks(300))
    marginals = [e for e in releases(few.guarantee_.events) if isinstance(e, GaussianEvent)]
    assert len({*(e.label for e in marginals[8:])}) == len(few.measured_)
    names = "abcdefghijklmnopqrstuvwxy"
    wide = Table.from_codes(schema_of(dict.fromkeys(names, 2), names), {n: [0, 2] for n in names})
    model = MST(epsilon=1.0, delta=1e-6, random_state=0).fit(wide)
    chosen = [e for e in releases(model.guarantee_.events) if isinstance(e, SelectionEvent)]
    assert len(chosen) == len(names) - 1
    assert chosen[-1].epsilon == pytest.approx(chosen[0].epsilon, rel=0.01)


def test_all_quarters_of_a_table_tell_how_often_cells_are_missing_together():
    def estimate(counts, std):
        missing = [(30.0, 0.5), (20.0, 0.5)]
        return both_missing(np.array(counts, dtype=float), std, missing, 100.0)

    count, std = estimate([[66, 4], [14, 16]], 4.0)
    assert count == pytest.approx(16)
    assert std < 4.0 / np.sqrt(2)  # other quarters tell as much as the one of both
    assert 16 < estimate([[66, 4], [14, 20]], 4.0)[0] < 20
    assert estimate([[66, 4], [14, 16]], 0.4)[1] < std / 2  # the noise of the table counts


def test_aim_spends_no_round_on_a_relation_that_a_rule_implies():
    """A filter and its follow-up question depend more than any other two columns."""
    rng, n = np.random.default_rng(0), 10_000
    asked, x = rng.random(n) < 0.5, rng.integers(0, 2, n)
    y = np.where(rng.random(n) < 0.75, x, 1 - x)
    levels = {"asked": ("no", "yes"), "answer": ("a", "b"), "x": ("0", "1"), "y": ("0", "1")}
    schema = Schema(
        tuple(Categorical(name=name, levels=of) for name, of in levels.items()),
        rules=(NotApplicable("answer", unless="asked = 'yes'"),),
    )
    frame = pd.DataFrame({name: rng.choice(of, n) for name, of in levels.items()})
    frame["asked"] = np.where(asked, "yes", "no")
    frame["answer"] = frame["answer"].where(asked, None)
    frame["x"], frame["y"] = x.astype(str), y.astype(str)
    model = AIM(epsilon=2.0, delta=1e-6, rounds=1, random_state=0).fit(frame, schema=schema)
    assert model.measured_ == (("x", "y"),)
    drawn = model.sample(n, random_state=0)
    assert (drawn["answer"].isna() == (drawn["asked"] == "no")).all()
