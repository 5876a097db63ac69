"""Rates are exact, and each mechanism depends only on its stated drivers.

Dependence is tested both ways. The statistic finds no dependence under MAR, and must find it under
self-masking. So a test that could not fail would be noticed.
"""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.errors import DataError, ParameterError, SchemaError, UnprovenError
from missdp.evaluate import (
    MAR,
    MCAR,
    MNAR,
    DeclaredMechanism,
    SelfMasking,
    missing_mask,
)
from missdp.evaluate.simulators import _draw_exact
from missdp.schema import Always, Determined, NotApplicable

SCHEMA = Schema(
    (
        Ordinal(name="x", levels=(1, 2, 3, 4, 5)),
        Categorical(name="c", levels=("r", "g", "b")),
        Ordinal(name="y", levels=(1, 2, 3, 4, 5)),
        Numeric(name="z", lower=0, upper=1, bins=4),
    )
)
DECLARED = DeclaredMechanism(
    intercepts={"y": -1.0, "z": 0.0},
    weights={"y": {"x": 1.5, "c": {"r": 0.5, "b": -1.0}}, "z": {"z": 2.0, "y": {1: 1.0}}},
)


def correlated(n, seed=0):
    """A table in which y follows x and z follows c, so that confounding would show."""
    rng = np.random.default_rng(seed)
    x, c = rng.integers(0, 5, n), rng.integers(0, 3, n)
    y = np.clip(x + rng.integers(-1, 2, n), 0, 4)
    z = np.clip(c + rng.integers(0, 2, n), 0, 3)
    return Table.from_codes(SCHEMA, {"x": x, "c": c, "y": y, "z": z})


TABLE = correlated(20_000)


def p_value(missing, other, given=None):
    """Chi-square test of independence of missing cells and ``other``, summed over strata."""
    strata = np.zeros(len(missing), dtype=int)
    for codes in given or []:
        strata = strata * 10 + codes
    statistic, freedom = 0.0, 0
    for stratum in np.unique(strata):
        rows = strata == stratum
        counts = np.zeros((2, int(other.max()) + 1))
        np.add.at(counts, (missing[rows].astype(int), other[rows]), 1)
        counts = counts[:, counts.sum(axis=0) > 20]
        if counts.shape[1] > 1 and (counts.sum(axis=1) > 20).all():
            result = stats.chi2_contingency(counts, correction=False)
            statistic, freedom = statistic + result.statistic, freedom + result.dof
    assert freedom > 0
    return float(stats.chi2.sf(statistic, freedom))


MECHANISMS = {
    "mcar": MCAR,
    "mar": MAR,
    "mnar": MNAR,
    "mnar-all": partial(MNAR, model="all-columns"),
    "self": SelfMasking,
}
of_all = pytest.mark.parametrize("make", MECHANISMS.values(), ids=MECHANISMS.keys())


@of_all
def test_the_expected_rate_equals_the_target(make):
    for rate in (0.0, 0.01, 0.5, 0.9):
        for chance in make(rate=rate).probabilities(TABLE, random_state=5).values():
            assert abs(chance.mean() - rate) < 1e-10
            assert 0 <= chance.min() <= chance.max() <= 1


@settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(sorted(MECHANISMS)),
    rate=st.floats(0, 0.999),
    n=st.integers(1, 80),
    seed=st.integers(0, 2**32 - 1),
)
def test_exact_rates_are_met_cell_for_cell(kind, rate, n, seed):
    mechanism = MECHANISMS[kind](rate=rate, rates="exact")
    table = TABLE.take(np.arange(n))
    incomplete = mechanism.apply(table, random_state=seed)
    for name in incomplete.schema.nullable:
        assert incomplete.mask(name).sum() == round(rate * n)
    assert not mechanism.row_independent


@of_all
def test_missing_cells_are_drawn_with_the_probabilities(make):
    mechanism, table = make(rate=0.3), correlated(40_000, seed=9)
    chances = mechanism.probabilities(table, random_state=3)
    incomplete = mechanism.apply(table, random_state=3)
    assert incomplete.schema.nullable == tuple(n for n in SCHEMA.names if n in chances)
    for name, chance in chances.items():
        missing = incomplete.mask(name)
        # Calibration over ten groups of rows with like probabilities.
        tenths = np.array_split(np.argsort(chance, kind="stable"), 10)
        for part in [*tenths, np.arange(len(missing))]:
            sd = np.sqrt(np.sum(chance[part] * (1 - chance[part])))
            assert abs(missing[part].sum() - chance[part].sum()) < 4.5 * sd


def test_exact_draws_keep_each_cells_probability():
    rng = np.random.default_rng(0)
    chance = np.array([0.05, 0.2, 0.35, 0.6, 0.8])
    draws = np.array([_draw_exact(chance, rng) for _ in range(8000)])
    assert set(draws.sum(axis=1)) == {2}
    sd = np.sqrt(chance * (1 - chance) / len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - chance) < 4.5 * sd)


@of_all
def test_the_seed_decides_everything_and_nothing_else_does(make):
    masks = []
    for global_state, seed in ((0, 7), (1, 7), (1, 8)):
        np.random.seed(global_state)  # noqa: NPY002  it must not matter
        masks.append(missing_mask(make(rate=0.3).apply(TABLE, random_state=seed)))
    np.testing.assert_array_equal(masks[0], masks[1])
    assert np.any(masks[0] != masks[2])


def depends(incomplete, name, *on, given=(), where=...):
    """The p-value of no dependence on any of some columns, given others, in some rows."""
    given = [TABLE.codes(other)[where] for other in given]
    missing = incomplete.mask(name)[where]
    return min(p_value(missing, TABLE.codes(n)[where].astype(int), given) for n in on)


def test_mcar_depends_on_nothing():
    incomplete = MCAR(rate=0.3).apply(TABLE, random_state=0)
    mask = missing_mask(incomplete).astype(int)
    values = [depends(incomplete, n, other) for n in SCHEMA.names for other in SCHEMA.names]
    values += [p_value(mask[:, i] > 0, mask[:, j]) for i in range(4) for j in range(i)]
    assert min(values) > 0.001 / len(values) * 5
    assert stats.kstest(values, "uniform").pvalue > 1e-3


def test_missing_cells_depend_on_stated_drivers_only():
    mar = MAR(rate=0.3, drivers=("x", "c")).apply(TABLE, random_state=1)
    mnar = MNAR(rate=0.3, drivers=("x", "c"), strength=2.0).apply(TABLE, random_state=2)
    direct = SelfMasking(rate=0.3).apply(TABLE, random_state=0)
    assert (mar.schema.nullable, mnar.schema.nullable) == (("y", "z"), SCHEMA.names)
    for name in ("y", "z"):
        assert max(depends(incomplete, name, "x", "c") for incomplete in (mar, mnar)) < 1e-9
        for other in ("y", "z"):  # itself, too
            assert depends(mar, name, other, given=("x", "c")) > 1e-3
    # The same statistic detects self-masking.
    assert depends(direct, "y", "y", given=("x", "c")) < 1e-9
    for name in SCHEMA.names:
        assert depends(direct, name, name) < 1e-9
        for other in {*SCHEMA.names} - {name}:
            assert depends(direct, name, other, given=(name,)) > 1e-3
    # Drivers of MNAR are hidden at random. Where they are, the own value predicts the missing cell.
    assert min(depends(mnar, driver, driver) for driver in ("x", "c")) > 1e-3
    hidden = mnar.mask("x") & mnar.mask("c")
    assert min(depends(mnar, name, name, where=hidden) for name in ("y", "z")) < 1e-6
    rest = {name: [n for n in SCHEMA.names if n != name] for name in SCHEMA.names}
    every = MNAR(rate=0.3, model="all-columns").apply(TABLE, random_state=3)
    assert min(depends(every, n, n, given=others) for n, others in rest.items()) < 1e-9


def test_strength_is_the_spread_of_the_logits_and_half_of_the_columns_drive_by_default():
    for strength in (0.5, 2.0):
        mechanism, observed = MAR(rate=0.3, strength=strength), set()
        for seed in range(10):
            chances = mechanism.probabilities(TABLE, random_state=seed)
            for p in chances.values():
                assert np.std(np.log(p / (1 - p))) == pytest.approx(strength, rel=1e-9)
            assert len(chances) == 2
            observed.add(frozenset(chances))
        assert len(observed) > 2


def test_the_declared_mechanism_follows_its_formula():
    chance = DECLARED.probabilities(TABLE, random_state=0)
    x, c, y, z = (TABLE.codes(n).astype(int) for n in SCHEMA.names)
    of_c = np.array([0.5, 0.0, -1.0])
    logit_y = -1.0 + 1.5 * (x / 2 - 1) + of_c[c]
    logit_z = 2.0 * (2 * z / 3 - 1) + np.where(y == 0, 1.0, 0.0)
    np.testing.assert_allclose(chance["y"], 1 / (1 + np.exp(-logit_y)), rtol=1e-12)
    np.testing.assert_allclose(chance["z"], 1 / (1 + np.exp(-logit_z)), rtol=1e-12)


def test_only_declared_parameters_make_rows_independent():
    """A row's probabilities stay the same, whatever the other rows are, exactly when claimed."""
    row = TABLE.take(np.array([17]))
    crowds = [TABLE.take(np.array([17, *range(a, a + 40)])) for a in (0, 500, 900)]
    for mechanism in (DECLARED, *(kind(rate=0.2) for kind in (MCAR, MAR, MNAR, SelfMasking))):
        single, *others = (mechanism.probabilities(t, random_state=4) for t in (row, *crowds))
        same = all(
            np.allclose(o[n][0], p[0], rtol=1e-12) for o in others for n, p in single.items()
        )
        assert same == mechanism.row_independent
        if not same:
            with pytest.raises(UnprovenError):
                mechanism.max_observation_rates(SCHEMA)


def test_the_bound_on_being_observed_is_the_worst_row_of_the_domain():
    grid = np.array(list(np.ndindex(SCHEMA.shape(SCHEMA.names))))
    every = Table.from_codes(SCHEMA, {n: grid[:, i] for i, n in enumerate(SCHEMA.names)})
    bound = DECLARED.max_observation_rates(SCHEMA)
    for name, chance in DECLARED.probabilities(every, random_state=0).items():
        worst = float((1 - chance).max())
        assert bound[name] >= worst - 1e-15
        assert bound[name] == pytest.approx(worst, rel=1e-12)
    assert bound["x"] == bound["c"] == 1.0


def test_mcar_states_its_rates_except_for_derived_cells():
    assert MCAR(rate=0.25, columns=("x",)).max_observation_rates(SCHEMA)["x"] == 0.75
    given = MCAR(rate={"c": 0.5, "z": 0.1})
    assert given.max_observation_rates(SCHEMA) == {"x": 1, "c": 0.5, "y": 1, "z": 0.9}
    assert given.apply(TABLE, random_state=0).schema.nullable == ("c", "z")
    with pytest.raises(UnprovenError):
        MCAR(rate=0.25, rates="exact").max_observation_rates(SCHEMA)
    years = (
        Numeric(name="age", lower=0, upper=9, integer=True),
        Numeric(name="born", lower=2015, upper=2024, integer=True),
    )
    schema = Schema(years, (Always("age + born = 2024"),))
    assert MCAR(rate=0.9, columns=("age",)).max_observation_rates(schema) == {
        "age": 1.0,
        "born": 1.0,
    }


@of_all
def test_constant_columns_and_tiny_tables_are_fine_and_incomplete_ones_refused(make):
    constant = Table.from_codes(SCHEMA, {n: [1] * 30 for n in SCHEMA.names})
    for chance in make(rate=0.2).probabilities(constant, random_state=0).values():
        np.testing.assert_allclose(chance, 0.2, rtol=1e-9)
    for n in (0, 1):
        assert len(make(rate=0.5).apply(TABLE.take(np.arange(n)), random_state=0)) == n
    with pytest.raises(DataError, match="complete tables"):
        make(rate=0.1).apply(MCAR(rate=0.5).apply(TABLE, random_state=0), random_state=0)


def test_bad_options_are_refused():
    bad = (-0.1, 1.0, 1.5, float("nan"), float("inf"), True, "0.1")
    facts = [(kind, {"rate": rate}) for kind in MECHANISMS.values() for rate in bad]
    facts += [
        (MCAR, {"rate": 0.1, "rates": "about"}),
        (MCAR, {"rate": {"x": 0.1}, "columns": ("x",)}),
        (MCAR, {"rate": {"x": 2.0}}),
        *((MAR, {"rate": 0.1, "strength": strength}) for strength in (0.0, float("inf"))),
        *((MAR, {"rate": 0.1, "drivers": drivers}) for drivers in (SCHEMA.names, "xx", ())),
        (MNAR, {"rate": 0.1, "model": "some"}),
        (MNAR, {"rate": 0.1, "model": "all-columns", "drivers": ("x",)}),
        *((DeclaredMechanism, {"intercepts": i}) for i in ({}, {"x": float("nan")})),
        (DeclaredMechanism, {"intercepts": {"x": 0.0}, "weights": {"y": {"x": 1.0}}}),
        *(
            (DeclaredMechanism, {"intercepts": {"y": 0.0}, "weights": {"y": weights}})
            for weights in ({"c": 1.0}, {"c": {"r": True}}, {"c": {"purple": 1.0}}, {"z": {0: 1.0}})
        ),
    ]
    for kind, options in facts:
        with pytest.raises(ParameterError):
            kind(**options).apply(TABLE, random_state=0)
    with pytest.raises(ParameterError):
        MAR(rate=0.1).apply(TABLE.subset(["x"]), random_state=0)
    for mechanism in (
        MCAR(rate=0.1, columns=("nope",)),
        DeclaredMechanism(intercepts={"y": 0.0}, weights={"y": {"nope": 1.0}}),
    ):
        with pytest.raises(SchemaError):
            mechanism.apply(TABLE, random_state=0)


SURVEY = Schema(
    (
        Categorical(name="work", levels=("no", "yes")),
        Ordinal(name="degree", levels=("none", "school", "college")),
        Numeric(name="years", lower=0, upper=20, integer=True),
        Numeric(name="hours", lower=0, upper=80, not_applicable=(-1,)),
        Ordinal(name="shift", levels=(1, 2, 3), not_applicable=("none",)),
    ),
    (
        NotApplicable("hours", unless="work = 'yes'"),
        Determined("years", by="degree", map=(("none", 6), ("school", 12), ("college", 16))),
    ),
)


def survey(size=3000):
    rng = np.random.default_rng(0)
    work, degree = rng.integers(0, 2, size), rng.integers(0, 3, size)
    shift = np.where(rng.random(size) < 0.2, "none", rng.integers(1, 4, size).astype(str))
    columns = {
        "work": np.array(["no", "yes"])[work],
        "degree": np.array(["none", "school", "college"])[degree],
        "years": np.array([6, 12, 16])[degree],
        "hours": rng.uniform(10, 50, size),
        "shift": shift,
    }
    return Table.read(pd.DataFrame(columns), SURVEY)


SPARED = survey()
EVERY = {
    "MCAR": MCAR(rate=0.3),
    "MCAR exact": MCAR(rate=0.3, rates="exact"),
    "MAR": MAR(rate=0.3, drivers=("work", "degree")),
    "MAR by what may not apply": MAR(rate=0.3, drivers=("hours", "shift"), rates="exact"),
    "MNAR": MNAR(rate=0.3, model="all-columns"),
    "MNAR hidden": MNAR(rate=0.3, drivers=("hours", "years")),
    "self-masking": SelfMasking(rate=0.3),
    "declared": DeclaredMechanism(
        intercepts={"hours": -1.0, "degree": -1.0, "shift": -1.0},
        weights={"degree": {"hours": -2.0}, "shift": {"shift": 1.0}},
    ),
}


@pytest.mark.parametrize("name", EVERY)
def test_not_applicable_cells_never_go_missing(name):
    incomplete = EVERY[name].apply(SPARED, random_state=1)
    chances = EVERY[name].probabilities(SPARED, random_state=1)
    lost = pd.DataFrame(missing_mask(incomplete), columns=list(SURVEY.names))
    for column in ("hours", "shift"):
        absent = SPARED.mask(column)
        assert absent.any()
        assert (incomplete.mask(column, "not_applicable") == absent).all()
        if column in chances:
            assert not chances[column][absent].any()
            assert lost[column].any()
            if "declared" not in name:  # rates are shares of the cells that can go missing
                width = 1e-3 if "exact" in name or "by what" in name else 0.05
                assert lost[column][~absent].mean() == pytest.approx(0.3, abs=width)
    assert incomplete.schema.rules == SURVEY.rules
    assert not (lost["years"] & ~lost["degree"]).any()  # years follow from a degree that is left
    frame = incomplete.to_native("pandas").astype("string")
    for column, code in (("shift", "none"), ("hours", "-1")):
        frame.loc[incomplete.mask(column, "not_applicable"), column] = code
        frame.loc[incomplete.mask(column, "missing"), column] = None
    again = Table.read(frame, incomplete.schema)
    for column in SURVEY.names:
        np.testing.assert_array_equal(again.codes(column), incomplete.codes(column))
    nobody = SPARED.take(SPARED.codes("work") == 0)
    assert EVERY[name].apply(nobody, random_state=0).mask("hours", "not_applicable").all()


def test_columns_derived_from_missing_cells_are_nullable():
    incomplete = MCAR(rate={"degree": 0.5}).apply(SPARED, random_state=0)
    assert incomplete.schema.nullable == ("degree", "years")
    assert not incomplete.mask("years").any()
    both = MCAR(rate={"degree": 0.5, "years": 0.5}).apply(SPARED, random_state=0)
    lost = both.mask("degree") & both.mask("years")
    assert lost.any()
    assert (both.mask("years") == lost).all()
    assert (both.values("years")[~lost] == SPARED.values("years")[~lost]).all()


def test_derived_attributes_have_an_observation_rate_of_one():
    claimed = MCAR(rate=0.3).max_observation_rates(SURVEY)
    assert claimed == {"work": 0.7, "degree": 0.7, "years": 1.0, "hours": 1.0, "shift": 1.0}
    declared = DeclaredMechanism(
        intercepts={"degree": 0.0, "work": 0.0, "hours": 5.0},
        weights={"degree": {"shift": {1: 2.0, 2: 3.0, 3: 4.0}}},
    )
    bounds = declared.max_observation_rates(SURVEY)
    assert bounds == {"degree": 0.5, "work": 0.5, "years": 1.0, "hours": 1.0, "shift": 1.0}
    observed = 1 - np.array(declared.probabilities(SPARED, random_state=0)["degree"])
    assert observed.max() == pytest.approx(0.5)  # a shift that is not applicable weighs 0


@pytest.mark.parametrize("seed", [-1, 0.5, "a"])
def test_missing_mechanism_wrong_seed_raises_error(seed):
    table = Table.from_codes(Schema((Categorical(name="a", levels=("x", "y")),)), {"a": [0, 1]})
    known = MCAR(rate=0.2)
    for call in (known.apply, known.probabilities):
        with pytest.raises(ParameterError, match="random_state must be an integer of at least 0"):
            call(table, random_state=seed)
    with pytest.raises(ParameterError, match="random_state must be an integer of at least 0"):
        next(known.apply_blocks([table], random_state=seed))
