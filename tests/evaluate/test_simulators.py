"""Rates are exact, and each mechanism depends on what it says and on nothing else.

Dependence is tested both ways: the same statistic that finds no dependence under MAR must find it
under self-masking, so a test that could not fail would be noticed.
"""

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
    missing_patterns,
)
from missdp.evaluate.simulators import _draw_exact
from missdp.schema import Determined, Equation, NotApplicable

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


def p_value(holes, other, given=None):
    """Chi-square test of independence of holes and ``other``, summed over strata."""
    strata = np.zeros(len(holes), dtype=int)
    for codes in given or []:
        strata = strata * 10 + codes
    statistic, freedom = 0.0, 0
    for stratum in np.unique(strata):
        rows = strata == stratum
        counts = np.zeros((2, int(other.max()) + 1))
        np.add.at(counts, (holes[rows].astype(int), other[rows]), 1)
        counts = counts[:, counts.sum(axis=0) > 20]
        if counts.shape[1] > 1 and (counts.sum(axis=1) > 20).all():
            found = stats.chi2_contingency(counts, correction=False)
            statistic, freedom = statistic + found.statistic, freedom + found.dof
    assert freedom > 0
    return float(stats.chi2.sf(statistic, freedom))


MECHANISMS = {
    "mcar": MCAR,
    "mar": MAR,
    "mnar": MNAR,
    "mnar-all": lambda **k: MNAR(model="all-columns", **k),
    "self": SelfMasking,
}


@pytest.fixture(params=MECHANISMS.values(), ids=MECHANISMS.keys())
def make(request):
    return request.param


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
def test_exact_rates_are_met_hole_for_hole(kind, rate, n, seed):
    mechanism = MECHANISMS[kind](rate=rate, rates="exact")
    table = TABLE.take(np.arange(n))
    holed = mechanism.apply(table, random_state=seed)
    for name in holed.schema.nullable:
        assert holed.mask(name).sum() == round(rate * n)
    assert not mechanism.row_independent


def test_holes_are_drawn_with_the_probabilities(make):
    mechanism, table = make(rate=0.3), correlated(40_000, seed=9)
    chances = mechanism.probabilities(table, random_state=3)
    holed = mechanism.apply(table, random_state=3)
    assert holed.schema.nullable == tuple(n for n in SCHEMA.names if n in chances)
    for name, chance in chances.items():
        holes = holed.mask(name)
        # Calibration over ten groups of rows with like probabilities.
        tenths = np.array_split(np.argsort(chance, kind="stable"), 10)
        for part in [*tenths, np.arange(len(holes))]:
            sd = np.sqrt(np.sum(chance[part] * (1 - chance[part])))
            assert abs(holes[part].sum() - chance[part].sum()) < 4.5 * sd


def test_exact_draws_keep_each_cells_probability():
    rng = np.random.default_rng(0)
    chance = np.array([0.05, 0.2, 0.35, 0.6, 0.8])
    draws = np.array([_draw_exact(chance, rng) for _ in range(8000)])
    assert set(draws.sum(axis=1)) == {2}
    sd = np.sqrt(chance * (1 - chance) / len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - chance) < 4.5 * sd)


def test_the_seed_decides_everything_and_nothing_else_does(make):
    np.random.seed(0)  # noqa: NPY002  the global state must not matter
    one = missing_mask(make(rate=0.3).apply(TABLE, random_state=7))
    np.random.seed(1)  # noqa: NPY002
    two = missing_mask(make(rate=0.3).apply(TABLE, random_state=7))
    other = missing_mask(make(rate=0.3).apply(TABLE, random_state=8))
    np.testing.assert_array_equal(one, two)
    assert np.any(one != other)


def test_mcar_depends_on_nothing():
    holed = MCAR(rate=0.3).apply(TABLE, random_state=0)
    mask = missing_mask(holed)
    values = [p_value(mask[:, i], TABLE.codes(n)) for i in range(4) for n in SCHEMA.names]
    values += [p_value(mask[:, i], mask[:, j].astype(int)) for i in range(4) for j in range(i)]
    assert min(values) > 0.001 / len(values) * 5
    assert stats.kstest(values, "uniform").pvalue > 1e-3


def test_mar_depends_on_its_drivers_and_given_them_not_on_its_own_value():
    holed = MAR(rate=0.3, drivers=("x", "c")).apply(TABLE, random_state=1)
    assert holed.schema.nullable == ("y", "z")
    given = [TABLE.codes("x"), TABLE.codes("c")]
    for name in ("y", "z"):
        holes = holed.mask(name)
        assert min(p_value(holes, TABLE.codes("x")), p_value(holes, TABLE.codes("c"))) < 1e-9
        assert p_value(holes, TABLE.codes(name), given) > 1e-3
        other = "z" if name == "y" else "y"
        assert p_value(holes, TABLE.codes(other), given) > 1e-3


def test_self_masking_depends_on_its_own_value_only():
    holed = SelfMasking(rate=0.3).apply(TABLE, random_state=0)
    for name in SCHEMA.names:
        holes, own = holed.mask(name), TABLE.codes(name)
        assert p_value(holes, own) < 1e-9
        for other in set(SCHEMA.names) - {name}:
            assert p_value(holes, TABLE.codes(other), [own]) > 1e-3


def test_the_same_statistic_tells_mar_from_self_masking():
    holed = SelfMasking(rate=0.3, columns=("y",)).apply(TABLE, random_state=1)
    given = [TABLE.codes("x"), TABLE.codes("c")]
    assert p_value(holed.mask("y"), TABLE.codes("y"), given) < 1e-9


def test_mnar_hides_its_drivers_at_random():
    holed = MNAR(rate=0.3, drivers=("x", "c"), strength=2.0).apply(TABLE, random_state=2)
    assert holed.schema.nullable == SCHEMA.names
    for driver in ("x", "c"):
        assert p_value(holed.mask(driver), TABLE.codes(driver)) > 1e-3
    hidden = holed.mask("x") & holed.mask("c")
    own = []
    for name in ("y", "z"):
        holes = holed.mask(name)
        assert min(p_value(holes, TABLE.codes("x")), p_value(holes, TABLE.codes("c"))) < 1e-9
        # Where the drivers are hidden, what is left (the own value) predicts the hole.
        own.append(p_value(holes[hidden], TABLE.codes(name)[hidden]))
    assert min(own) < 1e-6


def test_mnar_of_all_columns_depends_on_its_own_value_given_the_rest():
    holed = MNAR(rate=0.3, model="all-columns").apply(TABLE, random_state=3)
    values = []
    for name in SCHEMA.names:
        given = [TABLE.codes(other) for other in SCHEMA.names if other != name]
        values.append(p_value(holed.mask(name), TABLE.codes(name), given))
    assert min(values) < 1e-9


def test_strength_is_the_spread_of_the_logits():
    for strength in (0.5, 2.0):
        chance = MAR(rate=0.3, drivers=("x", "c"), strength=strength).probabilities(
            TABLE, random_state=0
        )
        for p in chance.values():
            assert np.std(np.log(p / (1 - p))) == pytest.approx(strength, rel=1e-9)


def test_half_of_the_columns_drive_by_default():
    seen = set()
    for seed in range(20):
        nullable = MAR(rate=0.2).apply(TABLE.take(np.arange(50)), random_state=seed).schema.nullable
        assert len(nullable) == 2
        seen.add(nullable)
    assert len(seen) > 2


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
    for mechanism in (
        DECLARED,
        MCAR(rate=0.2),
        MAR(rate=0.2),
        MNAR(rate=0.2),
        SelfMasking(rate=0.2),
    ):
        alone = mechanism.probabilities(row, random_state=4)
        same = all(
            np.allclose(mechanism.probabilities(crowd, random_state=4)[name][0], p[0], rtol=1e-12)
            for crowd in crowds
            for name, p in alone.items()
        )
        assert same == mechanism.row_independent
        if not same:
            with pytest.raises(UnprovenError):
                mechanism.observed_at_most(SCHEMA)


def test_the_bound_on_being_observed_is_the_worst_row_of_the_domain():
    grid = np.array(list(np.ndindex(SCHEMA.shape(SCHEMA.names))))
    every = Table.from_codes(SCHEMA, {n: grid[:, i] for i, n in enumerate(SCHEMA.names)})
    bound = DECLARED.observed_at_most(SCHEMA)
    for name, chance in DECLARED.probabilities(every, random_state=0).items():
        worst = float((1 - chance).max())
        assert bound[name] >= worst - 1e-15
        assert bound[name] == pytest.approx(worst, rel=1e-12)
    assert bound["x"] == bound["c"] == 1.0


def test_mcar_states_its_rates():
    assert MCAR(rate=0.25, columns=("x",)).observed(SCHEMA)["x"] == 0.75
    assert MCAR(rate={"c": 0.5, "z": 0.1}).observed(SCHEMA) == {"x": 1, "c": 0.5, "y": 1, "z": 0.9}
    holed = MCAR(rate={"c": 0.5, "z": 0.1}).apply(TABLE, random_state=0)
    assert holed.schema.nullable == ("c", "z")
    with pytest.raises(UnprovenError):
        MCAR(rate=0.25, rates="exact").observed(SCHEMA)


def test_constant_columns_and_tiny_tables_are_fine_and_incomplete_ones_refused(make):
    constant = Table.from_codes(SCHEMA, {n: [1] * 30 for n in SCHEMA.names})
    for chance in make(rate=0.2).probabilities(constant, random_state=0).values():
        np.testing.assert_allclose(chance, 0.2, rtol=1e-9)
    for n in (0, 1):
        assert len(make(rate=0.5).apply(TABLE.take(np.arange(n)), random_state=0)) == n
    with pytest.raises(DataError, match="complete tables"):
        make(rate=0.1).apply(MCAR(rate=0.5).apply(TABLE, random_state=0), random_state=0)


def test_bad_options_are_refused():
    cases = [
        lambda: MCAR(rate=0.1, rates="about"),
        lambda: MCAR(rate={"x": 0.1}, columns=("x",)),
        lambda: MCAR(rate={"x": 2.0}),
        lambda: MAR(rate=0.1, strength=0.0),
        lambda: MAR(rate=0.1, strength=float("inf")),
        lambda: MNAR(rate=0.1, model="some"),
        lambda: MNAR(rate=0.1, model="all-columns", drivers=("x",)),
        lambda: MAR(rate=0.1, drivers=SCHEMA.names).apply(TABLE, random_state=0),
        lambda: MAR(rate=0.1, drivers=("x", "x")).apply(TABLE, random_state=0),
        lambda: MAR(rate=0.1, drivers=()).apply(TABLE, random_state=0),
        lambda: MAR(rate=0.1).apply(TABLE.subset(["x"]), random_state=0),
        lambda: DeclaredMechanism(intercepts={}),
        lambda: DeclaredMechanism(intercepts={"x": float("nan")}),
        lambda: DeclaredMechanism(intercepts={"x": 0.0}, weights={"y": {"x": 1.0}}),
        lambda: DeclaredMechanism(intercepts={"x": 0.0}, weights={"x": {"c": {"r": True}}}),
        lambda: declared({"c": 1.0}),
        lambda: declared({"c": {"purple": 1.0}}),
        lambda: declared({"z": {0: 1.0}}),
    ]
    bad = (-0.1, 1.0, 1.5, float("nan"), float("inf"), True, "0.1")
    cases += [lambda m=m, r=r: m(rate=r) for m in MECHANISMS.values() for r in bad]
    for case in cases:
        with pytest.raises(ParameterError):
            case()
    with pytest.raises(SchemaError):
        MCAR(rate=0.1, columns=("nope",)).apply(TABLE, random_state=0)
    with pytest.raises(SchemaError):
        declared({"nope": 1.0})


def declared(drivers):
    mechanism = DeclaredMechanism(intercepts={"y": 0.0}, weights={"y": drivers})
    return mechanism.apply(TABLE, random_state=0)


def test_what_an_equation_may_fill_bounds_no_chance():
    schema = Schema(
        (
            Numeric(name="age", lower=0, upper=9, integer=True),
            Numeric(name="born", lower=2015, upper=2024, integer=True),
        ),
        (Equation("age + born = 2024"),),
    )
    assert MCAR(rate=0.9, columns=("age",)).observed(schema) == {"age": 1.0, "born": 1.0}


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
SIZE = 3000


def survey(size=SIZE):
    rng = np.random.default_rng(0)
    work, degree = rng.integers(0, 2, size), rng.integers(0, 3, size)
    frame = pd.DataFrame(
        {
            "work": np.array(["no", "yes"])[work],
            "degree": np.array(["none", "school", "college"])[degree],
            "years": np.array([6, 12, 16])[degree],
            "hours": rng.uniform(10, 50, size),
            "shift": np.where(rng.random(size) < 0.2, "none", rng.integers(1, 4, size).astype(str)),
        }
    )
    return Table.read(frame, SURVEY)


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
def test_what_is_not_applicable_never_goes_missing(name):
    holed = EVERY[name].apply(SPARED, random_state=1)
    chances = EVERY[name].probabilities(SPARED, random_state=1)
    for column in ("hours", "shift"):
        absent = SPARED.mask(column)
        assert absent.any()
        assert (holed.mask(column, "not_applicable") == absent).all()
        if column in chances:
            assert not chances[column][absent].any()
            lost = missing_mask(holed)[:, SURVEY.names.index(column)]
            assert lost.any()
            if "declared" not in name:  # rates are shares of the cells that can go missing
                width = 1e-3 if "exact" in name or "by what" in name else 0.05
                assert lost[~absent].mean() == pytest.approx(0.3, abs=width)


@pytest.mark.parametrize("name", EVERY)
def test_holes_are_those_of_whoever_reads_the_table(name):
    holed = EVERY[name].apply(SPARED, random_state=1)
    assert holed.schema.rules == SURVEY.rules
    lost = pd.DataFrame(missing_mask(holed), columns=list(SURVEY.names))
    # Years follow from a degree that is left.
    assert not (lost["years"] & ~lost["degree"]).any()
    frame = holed.to_native("pandas")
    for column, code in (("shift", "none"), ("hours", "-1")):
        frame[column] = frame[column].astype("string")
        frame.loc[holed.mask(column, "not_applicable"), column] = code
        frame.loc[holed.mask(column, "missing"), column] = None
    again = Table.read(frame.astype("string"), holed.schema)
    for column in SURVEY.names:
        np.testing.assert_array_equal(again.codes(column), holed.codes(column))


def test_what_follows_from_holes_is_nullable_too():
    holed = MCAR(rate={"degree": 0.5}).apply(SPARED, random_state=0)
    assert holed.schema.nullable == ("degree", "years")
    assert not holed.mask("years").any()
    both = MCAR(rate={"degree": 0.5, "years": 0.5}).apply(SPARED, random_state=0)
    lost = both.mask("degree") & both.mask("years")
    assert lost.any()
    assert (both.mask("years") == lost).all()
    assert (both.values("years")[~lost] == SPARED.values("years")[~lost]).all()


def test_no_bound_is_claimed_of_what_may_be_known_without_a_value():
    claimed = MCAR(rate=0.3).observed(SURVEY)
    assert claimed == {"work": 0.7, "degree": 0.7, "years": 1.0, "hours": 1.0, "shift": 1.0}
    declared = DeclaredMechanism(
        intercepts={"degree": 0.0, "work": 0.0, "hours": 5.0},
        weights={"degree": {"shift": {1: 2.0, 2: 3.0, 3: 4.0}}},
    )
    bounds = declared.observed_at_most(SURVEY)
    assert bounds == {"degree": 0.5, "work": 0.5, "years": 1.0, "hours": 1.0, "shift": 1.0}
    seen = 1 - np.array(declared.probabilities(SPARED, random_state=0)["degree"])
    assert seen.max() == pytest.approx(0.5)  # a shift that is not applicable weighs 0


def test_not_applicable_is_not_missing():
    assert not missing_mask(SPARED).any()
    assert missing_patterns(SPARED) == {(): SIZE}
    kinds = Schema((Ordinal(name="a", levels=(1, 2), nullable=True, refused=(-7,)),))
    frame = pd.DataFrame({"a": pd.array([1, -7, None], dtype="Int64")})
    assert missing_mask(Table.read(frame, kinds)).ravel().tolist() == [False, True, True]


def test_an_attribute_that_applies_to_nobody():
    table = SPARED.take(SPARED.codes("work") == 0)
    for mechanism in EVERY.values():
        holed = mechanism.apply(table, random_state=0)
        assert holed.mask("hours", "not_applicable").all()
