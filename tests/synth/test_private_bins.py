"""Privately found bins: their charges, results that do not change without them, and odd columns."""

from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from missdp import AIM, MST, AllPairs, Categorical, Kamino, Numeric, PrivBayes, Schema, Table
from missdp.accounting import (
    BinsFromRelease,
    BoundedObservation,
    Filter,
    RowIndependentMissingness,
    releases,
)
from missdp.accounting.exact import exact
from missdp.errors import ParameterError
from missdp.ground_truth import planned_ground_truth
from missdp.inference.dyadic import Histogram, tree_depth
from missdp.session import CountedRows, Session, Tree
from missdp.sources import open_source, strategy_named
from missdp.synth.family import Request
from missdp.synth.first_parts import _roundest, _with_points, find_bins
from missdp.synth.search_grid import MAX_CODES, with_pending_bins, with_search_grid
from missdp.testing import RecordingNoise
from refusing import refuses

pytestmark = pytest.mark.usefixtures("one_turn")
FAMILIES = (AllPairs, AIM, MST, Kamino, PrivBayes)
SCHEMA = Schema(
    (
        Numeric(name="pay", lower=-1e5, upper=1e6, step=0.01, nullable=True),
        Numeric(name="age", lower=0, upper=110, integer=True, nullable=True),
        Numeric(name="kids", lower=0, upper=11, integer=True),
        Categorical(name="sex", levels=("f", "m"), nullable=True),
    )
)


def people(n, seed=0, holes=0.2):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    pay = np.where(rng.random(n) < 0.2, 0, rng.lognormal(5 + age / 60, 1, n) - 50).round(2)
    frame = pd.DataFrame(
        {"pay": pay, "age": age.astype(float), "kids": rng.poisson(1, n).clip(0, 11)}
    )
    frame["sex"] = rng.choice(["f", "m"], n)
    for name in ("pay", "age", "sex"):
        frame[name] = frame[name].where(rng.random(n) >= holes)
    return frame


def with_bins(grid, told, *, unit):
    return replace(grid, bins=find_bins(grid, told, unit=unit))


def trees(model):
    return [e for e in releases(model.guarantee_.events) if e.label.startswith("tree ")]


def exact_trees(frame, strategy, measure, within, levels):
    source = open_source(frame, SCHEMA)
    grid = with_search_grid(with_pending_bins(SCHEMA, SCHEMA.names))
    delta = 0.0 if measure == "pure" else 1e-6
    budget = Filter(1.0, delta, measure=measure)
    with RecordingNoise(0) as noise:
        facts = {"budget": budget, "noise": noise}
        session = Session(
            CountedRows.from_source(source.coded_as(grid), strategy_named(strategy)), **facts
        )
        for name in ("pay", "age"):
            size = session.facts.schema[name].size
            tree = Tree(name=name, size=size, levels=levels, within=within or (0, size))
            session.measure(tree, session.share(0.1))
    return {one.event.label: (one.event, one.exact) for one in noise.answers}


@pytest.mark.long
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(("joint", "observed", "complete-rows")),
    st.sampled_from(("gdp", "pure", "zcdp")),
)
@settings(max_examples=20)
def test_a_row_moves_a_tree_by_what_was_charged_for_or_by_nothing_if_it_has_a_hole(
    seed, strategy, measure
):
    rng = np.random.default_rng(seed)
    more = people(int(rng.integers(1, 40)), seed)
    row = more.index[-1]
    more.loc[row, "pay"] = rng.choice([more.loc[row, "pay"], np.nan, -1e5, 1e6, 0])
    within = (int(rng.integers(0, 40)), int(rng.integers(42, 111)))
    deepest = tree_depth(within[1] - within[0])
    levels = sorted({*rng.integers(1, deepest + 1, 3).tolist()})
    facts = (strategy, measure, within, levels)
    few, many = (exact_trees(f, *facts) for f in (more.iloc[:-1], more))
    for name in ("pay", "age"):
        (event, before), (_, after) = few[f"tree {name}"], many[f"tree {name}"]
        moved = np.abs(after - before)
        norm = moved.sum() if measure == "pure" else np.sqrt((moved**2).sum())
        hole = more.loc[row].isna()
        read = not (hole.any() if strategy == "complete-rows" else hole[name])
        assert norm <= event.sensitivity <= norm * (1 + 1e-15) if read else norm == 0
        assert event.required == (strategy_named(strategy).required((name,), SCHEMA) or None)


@pytest.mark.parametrize("family", FAMILIES)
def test_cuts_are_charged_saved_and_hold_values_on_the_step(family, tmp_path):
    model = family(epsilon=2.0, random_state=1).fit(people(4000), schema=SCHEMA)
    looks = ["tree pay", "tree pay", "tree age", "tree age"]  # for the range, and inside of it
    assert [e.label for e in trees(model)] == looks
    whole = Request(model).budget.remaining
    paid = [float(whole.price(e) / exact(whole.amount)) for e in trees(model)]
    assert np.add.reduceat(paid, [0, 2]) == pytest.approx([0.15, 0.15], rel=0.02)  # looks included
    assert set(model.bins_) == {"pay", "age"}
    assert model.bins_["pay"].spikes == (0.0,)
    assert f"bins found: pay ({model.schema_['pay'].size}), age" in repr(model)
    frame = model.sample(3000)
    cents = frame["pay"].to_numpy() * 100
    np.testing.assert_allclose(cents, np.rint(cents), atol=1e-4)
    assert (frame["pay"] == 0).mean() == pytest.approx(0.2, abs=0.08)
    assert str(frame["age"].dtype) in ("int64", "Int64")
    assert model.sample_table(5).schema == model.fitted_.declared == SCHEMA
    model.save(tmp_path / "model.json")
    again = family.load(tmp_path / "model.json")
    assert again.bins_ == model.bins_
    pd.testing.assert_frame_equal(
        again.sample(50, random_state=1), model.sample(50, random_state=1)
    )


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES[:3])
def test_declared_bins_cost_nothing_and_equal_bins_are_those_of_before(family):
    bins = {"pay": 10, "age": 10, "kids": 12}
    declared = Schema(tuple(replace(a, bins=bins[a.name]) if a.name in bins else a for a in SCHEMA))
    table = people(600)
    model = family(epsilon=2.0, random_state=3).fit(table, schema=declared)
    assert not trees(model)
    assert not model.bins_
    equal = family(epsilon=2.0, random_state=3, bins="equal").fit(table, schema=declared)
    pd.testing.assert_frame_equal(equal.sample(99), model.sample(99))
    with refuses(ParameterError, "bins must be"):
        family(epsilon=2.0, bins="none").fit(table, schema=SCHEMA)


@pytest.mark.long
def test_bounds_that_are_far_too_generous_cost_next_to_nothing():
    """The first look finds the range. The tree covers this range alone."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"x": rng.lognormal(5, 1, 20_000).round(), "c": rng.choice(["a", "b"], 20_000)}
    )
    errors = []
    for upper in (20_000, 2_000_000):
        schema = Schema(
            (
                Numeric(name="x", lower=0, upper=upper, integer=True, outside="clamp"),
                Categorical(name="c", levels=("a", "b")),
            )
        )
        fits = [AllPairs(epsilon=1.0, random_state=i).fit(frame, schema=schema) for i in range(4)]
        drawn = [fit.sample(20_000, random_state=0)["x"] for fit in fits]
        errors.append(np.mean([abs(x.mean() - frame["x"].mean()) for x in drawn]))
    assert max(errors) < 0.05 * frame["x"].std()


@pytest.mark.long
def test_rows_that_stream_have_the_cuts_of_rows_in_memory_and_codes_alone_have_none():
    frame, model = people(800), AIM(epsilon=1.0, random_state=5)
    relation = duckdb.connect().from_df(frame)
    one, two = (clone(model).fit(data, schema=SCHEMA) for data in (frame, relation))
    assert one.bins_ == two.bins_
    drawn = [fit.sample(200, random_state=1)["age"].to_numpy() for fit in (one, two)]
    np.testing.assert_array_equal(*drawn)
    codes = {a.name: np.zeros(50, dtype=int) for a in SCHEMA}
    without = model.fit(Table.from_codes(SCHEMA, codes))  # values, that is: it keeps its bins
    assert not trees(without)
    assert without.schema_ == SCHEMA
    known = BoundedObservation(0.5)
    for family, missing in ((AllPairs, "impute-first"), (MST, "complete-rows")):  # as is planned
        plain = family(epsilon=1.0, missing=missing, bins="equal", n_rows=50)
        kept = planned_ground_truth(plain, SCHEMA, known).epsilon * (1 + 1e-9)
        fit = clone(plain).set_params(bins="private")
        fit.fit(Table.from_codes(SCHEMA, codes))
        assert fit.ground_truth_guarantee(known).epsilon <= kept


@pytest.mark.long
def test_the_next_table_can_have_the_same_cuts_and_its_guarantee_says_so():
    model = AllPairs(epsilon=1.0).fit(people(2000), schema=SCHEMA)
    model.record_release("r1", None)
    released = SCHEMA.with_bins(model.bins_), "release r1"
    for schema, source in (released, (model.schema_, "an earlier fit")):
        again = AllPairs(epsilon=1.0).fit(people(2000, seed=1), schema=schema)
        assert not trees(again)
        assert again.schema_["pay"].bins == model.schema_["pay"].bins
        assert BinsFromRelease(("pay", "age"), source) in again.guarantee_.conditions


@pytest.mark.parametrize(
    ("family", "missing"),
    [
        pytest.param(family, missing, marks=[pytest.mark.slow] * ((i + k) % 3 > 0))
        for i, family in enumerate(FAMILIES)
        for k, missing in enumerate(["observed", "complete-rows", "impute-first"])
    ],
)
def test_what_is_promised_for_the_ground_truth_is_kept(family, missing):
    known = BoundedObservation(0.5)
    # With a seed: by fresh noise, four tables in a thousand would seem to have too few rows.
    model = family(epsilon=1.0, missing=missing, random_state=0)
    planned = planned_ground_truth(model, SCHEMA, known)
    found = model.fit(people(400), schema=SCHEMA).ground_truth_guarantee(known)
    assert found.epsilon <= planned.epsilon * (1 + 1e-9)
    plain = model.ground_truth_guarantee(RowIndependentMissingness())
    assert plain.epsilon == pytest.approx(1.0)
    caps = model.fitted_.limits
    if family is PrivBayes and missing == "observed":  # pure, and a column is never missing
        assert caps is None
        return
    assert caps.cover(model.guarantee_.events[0])
    gated = sum(event.cost.amount for event in caps.events if event.required)
    if missing == "impute-first":  # trees, and a tenth of the rest for margins
        assert gated / caps.total.amount == pytest.approx(0.3 + 0.7 * 0.1)


@pytest.mark.parametrize(
    ("family", "missing"),
    [(AllPairs, "observed"), (AllPairs, "impute-first"), (Kamino, "impute-first")],
)
def test_a_fit_with_very_little_noise_stays_within_its_caps(family, missing):
    """Trees cost less than their part of the budget.

    No answer that reads every row may have the rest.
    """
    model = family(epsilon=72.6, missing=missing, random_state=0)
    model.fit(people(300).drop(columns="kids"), schema=SCHEMA.subset(["pay", "age", "sex"]))
    whole = model.guarantee_.events[0]
    assert model.fitted_.limits.cover(whole)
    first = next(e for e in trees(model) if e.sensitivity == pytest.approx(1.0))
    told = 0.1 * 0.3 * whole.cost.amount / 2
    assert whole.cost.price(first) < 0.95 * told


ODD = {
    "one value": lambda rng, n: np.full(n, 7.0),
    "two values": lambda rng, n: rng.choice([0.1, 1e5], n),
    "all missing": lambda rng, n: np.full(n, np.nan),
    "huge": lambda rng, n: rng.normal(0, 1e12, n),
    "tiny": lambda rng, n: rng.normal(0, 1e-9, n),
    "negative": lambda rng, n: -rng.lognormal(3, 1, n),
    "pareto": lambda rng, n: rng.pareto(1.1, n),
    "heaped": lambda rng, n: rng.integers(0, 40, n) * 5.0,
}
REACH = dict.fromkeys(ODD, 2e5) | {"huge": 1e13, "tiny": 1e-8}


@pytest.mark.filterwarnings("ignore::missdp.synth.noisy_counts.SmallTableWarning")
@pytest.mark.parametrize(
    ("family", "n"),
    [
        *((family, 50) for family in FAMILIES[:2]),
        *(pytest.param(family, 50, marks=pytest.mark.slow) for family in FAMILIES[2:]),
        *((AllPairs, 0), pytest.param(AllPairs, 3000, marks=pytest.mark.slow)),
    ],
)
def test_odd_columns_give_sensible_values_and_never_a_crash(family, n):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({name: draw(rng, n).astype(float) for name, draw in ODD.items()})
    attributes = (
        Numeric(name=name, lower=-reach, upper=reach, nullable=True, outside="clamp")
        for name, reach in REACH.items()
    )
    model = family(epsilon=16.0 if n == 3000 else 2.0, random_state=n)
    drawn = model.fit(frame, schema=Schema(tuple(attributes))).sample(1000)
    for name, reach in REACH.items():
        found = drawn[name].to_numpy()
        assert np.isfinite(found).all()
        assert (np.abs(found) <= reach).all()
        if n == 3000 and name not in ("all missing", "two values"):
            truth = np.clip(frame[name], -reach, reach)
            width = max(truth.std(), 1e-3 * reach)  # a cell of the grid at most
            levels = np.linspace(0.05, 0.95, 19)
            assert np.abs(np.quantile(found, levels) - np.quantile(truth, levels)).max() < (
                0.5 * width
            )


@pytest.mark.long
@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3))
def test_there_are_never_more_bins_and_spikes_than_caps_are_planned_for(seed, unit):
    rng = np.random.default_rng(seed)
    wide = with_pending_bins(SCHEMA, SCHEMA.names)
    grid = with_search_grid(wide)["age"]
    inner = np.flatnonzero(rng.random(grid.size - 1) < rng.random()) + 1
    starts = np.array([0, *inner, grid.size])
    mass = rng.dirichlet(np.full(len(inner) + 1, 10.0 ** rng.integers(-2, 2)))
    for rows in (1e3, 1e8):
        found = with_bins(grid, Histogram(starts, mass, rows), unit=unit)
        assert found.size <= wide["age"].size == MAX_CODES


def test_no_bin_has_small_and_large_numbers_around_spikes():
    """Common numbers are spikes.

    The rarer numbers below the spikes are not in a bin with the rarer numbers above them.
    """
    grid = with_search_grid(
        with_pending_bins(Schema((Numeric(name="x", lower=0, upper=19, integer=True),)), ["x"])
    )
    mass = np.full(20, 0.01)
    mass[5:15] = 0.09
    told = Histogram(np.arange(21), mass, 1e4)
    found = with_bins(grid["x"], told, unit=40.0)
    assert found.bins.spikes == tuple(range(5, 15))
    assert any(5 <= edge <= 15 for edge in found.bins.edges[1:-1])
    low, high = found.encode_values(np.array([[2.0], [17.0]]))
    assert low < found.encode_values(np.array([9.0])) < high


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_tails_that_a_first_look_missed_are_no_heap_at_its_end(seed):
    """A tenth of the ages lie beyond the range that sixteen noisy counts can detect."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": np.clip(rng.normal(45, 18, 8000), 0, 100).round()})
    names = [f"x{k}" for k in range(9)]
    frame[names] = rng.integers(0, 2, (8000, 9))
    schema = Schema(
        (
            Numeric(name="age", lower=0, upper=110, integer=True),
            *(Numeric(name=name, lower=0, upper=90, integer=True) for name in names),
        )
    )
    model = AllPairs(epsilon=1.0, delta=1e-6, random_state=seed).fit(frame, schema=schema)
    drawn = model.sample(4000, random_state=seed)["age"]
    assert model.bins_["age"].spikes == ()
    assert drawn.value_counts(normalize=True).max() < 0.06
    for low, high in ((-1, 15), (75, 110)):
        share = ((frame["age"] > low) & (frame["age"] <= high)).mean()
        assert ((drawn > low) & (drawn <= high)).mean() == pytest.approx(share, abs=0.025)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_a_spike_among_other_numbers_does_not_swallow_those_beyond_it(seed):
    """Hours of work: noise empties some numbers beside 40, and beyond them are a sixth of all."""
    rng = np.random.default_rng(seed)
    others = np.clip(rng.normal(36, 9, 3000).round(), 1, 80)
    hours = np.where(rng.random(3000) < 0.45, 40, others)
    frame = pd.DataFrame({"hours": np.where(rng.random(3000) < 0.2, 20, hours)})
    names = [f"x{k}" for k in range(11)]
    frame[names] = rng.integers(0, 2, (3000, 11))
    bounds = {"hours": 168, **dict.fromkeys(names, 90)}
    schema = Schema(
        tuple(Numeric(name=n, lower=0, upper=u, integer=True) for n, u in bounds.items())
    )
    model = AllPairs(epsilon=1.0, delta=1e-6, random_state=seed).fit(frame, schema=schema)
    drawn = model.sample(4000, random_state=seed)["hours"]
    for least in (40, 42, 45):
        beyond = (frame["hours"] > least).mean()
        assert (drawn > least).mean() == pytest.approx(beyond, abs=0.06)


@pytest.mark.long
def test_strong_trends_of_few_rows_stay_strong():
    """Of 1,500 rows, the square of a number has about its ranks, and a noisy copy those it had."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 14, 1500) + rng.integers(0, 5, 1500)
    frame = pd.DataFrame({"x": x, "square": x**2, "y": np.round(x + rng.normal(0, 6, 1500))})
    schema = Schema(
        (
            Numeric(name="x", lower=0, upper=30, integer=True),
            Numeric(name="square", lower=0, upper=900, integer=True),
            Numeric(name="y", lower=-40, upper=60, integer=True),
        )
    )
    kept = []
    for seed in range(5):
        model = AllPairs(epsilon=1, delta=1e-6, random_state=seed).fit(frame, schema=schema)
        ranks = model.sample(5000, random_state=0).astype(float).corr(method="spearman")
        kept.append(ranks.loc["x", ["square", "y"]])
    assert np.median(kept, axis=0) == pytest.approx([0.95, 0.57], abs=0.1)  # it was .69 and .49


def test_there_are_more_bins_where_counts_are_large():
    grid = with_search_grid(with_pending_bins(SCHEMA, SCHEMA.names))["age"]
    even = np.arange(112), np.full(111, 1 / 111)
    sizes = [with_bins(grid, Histogram(*even, n), unit=4.0).size for n in (1e4, 52e3, 1e6)]
    assert sizes == [10, 13, 16]


@pytest.mark.long
def test_a_count_of_few_keeps_no_tail_up_to_its_bound():
    """Children, declared up to 15: a bin for each number had noise up to there."""
    rng, spread = np.random.default_rng(0), []
    kids = rng.poisson(1.5, 4000).clip(0, 7)
    frame = pd.DataFrame({"kids": kids, **{f"x{k}": rng.normal(50, 9, 4000) for k in range(5)}})
    rest = [Numeric(name=f"x{k}", lower=0, upper=100) for k in range(5)]
    schema = Schema((Numeric(name="kids", lower=0, upper=15, integer=True), *rest))
    for seed in range(3):
        model = AllPairs(epsilon=1.0, delta=1e-6, random_state=seed).fit(frame, schema=schema)
        spread.append(model.sample(5000, random_state=0)["kids"].astype(float).std() / kids.std())
    assert np.mean(spread) == pytest.approx(1.0, abs=0.15)  # it was 1.4


def test_heaps_where_people_round_are_single_numbers():
    """Prices that end in .99 once shared a cell with prices that nobody paid.

    Numbers without a step had no spikes.
    """
    rng, n = np.random.default_rng(0), 6000
    prices = rng.choice([2.99, 4.99, 9.99, 19.99], n)
    frame = pd.DataFrame(
        {
            "paid": np.where(rng.random(n) < 0.6, prices, rng.lognormal(2.2, 1, n).round(2)),
            "lead": np.maximum(rng.lognormal(0.6, 1.1, n), 0.5),  # the limit of detection
        }
    )
    schema = Schema(
        (
            Numeric(name="paid", lower=0, upper=1000, step=0.01, outside="clamp"),
            Numeric(name="lead", lower=0, upper=1000, outside="clamp"),
        )
    )
    model = AllPairs(epsilon=1.0, delta=1e-6, random_state=0).fit(frame, schema=schema)
    drawn = model.sample(6000, random_state=0)
    for name, heaps in (("paid", (2.99, 4.99, 9.99, 19.99)), ("lead", (0.5,))):
        assert model.bins_[name].spikes == heaps
        for heap in heaps:
            share = (frame[name] == heap).mean()
            assert (drawn[name] == heap).mean() == pytest.approx(share, abs=0.03)


def test_values_of_a_scale_are_drawn_as_they_are_written():
    """Heights in inches, written in metres: many heaps, too small for levels of their own.

    They were drawn anywhere around a heap, so that half of it fell below the heap itself.
    """
    rng = np.random.default_rng(0)
    heights = (np.rint(rng.normal(67, 4, 8000)).clip(50, 85) * 0.0254).round(2)
    schema = Schema((Numeric(name="height", lower=1.2, upper=2.2),))
    for seed in range(3):
        model = AllPairs(epsilon=1.0, delta=1e-6, random_state=seed).fit(
            pd.DataFrame({"height": heights}), schema=schema
        )
        drawn = model.sample(8000, random_state=0)["height"].astype(float)
        assert np.isin(drawn, heights).mean() > 0.85  # it was .22
        below = [abs((drawn < cut).mean() - (heights < cut).mean()) for cut in np.unique(heights)]
        assert max(below) < 0.015  # it was .08


def test_a_spike_in_the_first_or_last_cell_becomes_one_number():
    pieces = np.array([0.0, 0.0101, 1.0, 1.98, 1.9901])
    spikes = np.array([True, False, False, True])
    found, shares = _with_points(pieces, np.array([0.4, 0.1, 0.2, 0.3]), spikes)
    assert np.all(np.diff(found) > 0)
    assert found[[0, -1]].tolist() == pieces[[0, -1]].tolist()
    assert {*pieces} <= {*found}
    heavy = found[:-1][shares > 0.25]
    assert heavy.tolist() == [0.0, 1.98]
    assert shares.sum() == pytest.approx(1.0)


@given(
    low=st.floats(-1e6, 1e6, allow_subnormal=False),
    width=st.floats(1e-9, 1e6, allow_subnormal=False),
)
def test_the_roundest_number_is_in_its_interval(low, width):
    high = low + width
    if low < high:
        point = _roundest(low, high)
        assert low <= point < high
        assert len(repr(point)) <= len(repr((low + high) / 2)) + 4


def test_numbers_of_one_narrow_cell_are_no_spike():
    """Degrees of Kelvin, declared up to a million, all lie in two cells of the grid."""
    degrees = np.random.default_rng(0).normal(300, 1, 8000)
    schema = Schema((Numeric(name="degrees", lower=0, upper=1e6),))
    model = AllPairs(epsilon=1.0, delta=1e-6, random_state=0).fit(
        pd.DataFrame({"degrees": degrees}), schema=schema
    )
    drawn = model.sample(8000, random_state=0)["degrees"].astype(float)
    assert drawn.nunique() > 4000
    assert 0.5 < drawn.std() < 2


@pytest.mark.parametrize(("step", "upper"), [(1 / 3, 2000), (1 / 60, 100)])
def test_heaps_between_thirds_of_a_step_are_cut_as_the_grid_has_them(step, upper):
    """Whatever the last bit of an edge is: a fit must not fail after its charge."""
    grid = with_search_grid(
        with_pending_bins(Schema((Numeric(name="x", lower=0, upper=upper, step=step),)), ["x"])
    )
    least, most = grid["x"].code_ranges
    alone = least[(least == most) & ~np.isin(least, grid["x"].bin_edges)][20:24]
    rng = np.random.default_rng(0)
    spread = rng.integers(0, round(upper / step), 4000) * step
    values = np.where(rng.random(4000) < 0.4, rng.choice(alone, 4000), spread)
    schema = Schema((Numeric(name="x", lower=0, upper=upper, step=step),))
    rows = pd.DataFrame({"x": values})
    assert MST(epsilon=9, delta=1e-6, random_state=0).fit(rows, schema=schema).model_ is not None
