"""A plan, made from declared facts, matches the later run."""

import json
import math
import time
from statistics import fmean

import numpy as np
import pandas as pd
import pytest

from missdp import AIM, MST, AllPairs, Categorical, Numeric, Schema, Table
from missdp.cli.main import main
from missdp.errors import ParameterError
from missdp.estimate.intervals import estimate_quickly
from missdp.evaluate import marginal_distance
from missdp.governance import Plan, plan
from missdp.governance.rehearsal import (
    Declared,
    _distribution,
    _interpolated,
    _Rehearsed,
    fitted_error,
    noise_of_tables,
    with_dates,
)
from missdp.schema import Date, Difference, NotApplicable, OpenCategorical, SurveyWeight, Unit
from missdp.table.encode import CodedColumn
from refusing import refused

ROWS, MISSING = 2500, {"smoker": 0.2, "pay": 0.1}
SCHEMA = Schema(
    (
        Categorical(name="smoker", levels=("no", "yes"), nullable=True),
        Categorical(name="region", levels=("n", "e", "s", "w", "abroad")),
        Numeric(name="age", lower=18, upper=98, integer=True, bins=8),
        Numeric(name="pay", lower=0, upper=100, bins=10, nullable=True),
    )
)


def width_of_mean(model, name):
    """The width of the 95 % interval of a mean."""
    return 2 * 1.959964 * model.estimate(f"mean(`{name}`)").errors[0]


@pytest.fixture(scope="module")
def people():
    """Real people: dependent, skewed, and not missing at random."""
    rng = np.random.default_rng(5)
    age = np.clip(rng.normal(50, 18, ROWS), 18, 98).round()
    pay = np.clip(30 + 0.4 * (age - 50) + rng.normal(0, 14, ROWS), 0, 100)
    smoker = np.where(rng.random(ROWS) < 0.2 + 0.004 * (98 - age), "yes", "no")
    region = rng.choice(["n", "e", "s", "w", "abroad"], ROWS, p=[0.5, 0.2, 0.15, 0.1, 0.05])
    frame = pd.DataFrame({"smoker": smoker, "region": region, "age": age, "pay": pay})
    frame["smoker"] = frame["smoker"].mask(rng.random(ROWS) < 0.2 + 0.1 * (age > 60))
    spreads = {"age": float(age.std()), "pay": float(pay.std())}
    frame["pay"] = frame["pay"].mask(rng.random(ROWS) < 0.1)
    return frame, spreads


@pytest.mark.long
@pytest.mark.parametrize("method", [pytest.param("all-pairs", marks=pytest.mark.slow), "mst"])
def test_noise_and_intervals_are_those_of_a_run(people, method):
    """Within 1.25, though real attributes depend on each other. bench/plan.py tries more."""
    frame, spreads = people
    family, epsilons, wanted = MST, (0.5, 2.0), {}
    if method == "all-pairs":
        family, epsilons, wanted = AllPairs, (1.0,), {"age": float(frame["age"].mean())}
    declared = {"rows": ROWS, "missing": MISSING, "spreads": spreads, "means": wanted}
    found = plan(SCHEMA, **declared, epsilons=epsilons, method=method, delta=1e-6)
    for planned in found.planned:
        run = family(epsilon=planned.epsilon, delta=1e-6, random_state=1).fit(frame, schema=SCHEMA)
        one_way, two_way = noise_of_tables(run)
        assert planned.one_way == pytest.approx(one_way, rel=0.01)
        assert 0.8 < planned.two_way / two_way < 1.25
        fitted = fitted_error(Table.read(frame, SCHEMA), run.sample(ROWS, random_state=1))
        assert 0.5 < planned.fitted / fitted < 2
        for name in wanted:
            fits = [run, *(family(**run.get_params() | {"random_state": k}) for k in (2, 3))]
            widths = [width_of_mean(one.fit(frame, schema=SCHEMA), name) for one in fits]
            assert 0.8 < planned.widths[name] / fmean(widths) < 1.25
        assert (
            planned.ground_truth == planned.epsilon
        )  # every row is read, if missing values are levels
    assert Plan.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_the_distance_of_many_columns_is_that_of_a_hundred_of_them():
    schema = Schema(tuple(Categorical(name=f"q{i}", levels=(0, 1)) for i in range(130)))
    one, two = (Declared(schema=schema, rows=50).simulate(seed) for seed in (1, 2))
    every = marginal_distance(one, two)
    assert fitted_error(one, two) == pytest.approx(every.mean, rel=0.05)
    assert fitted_error(one, two) != every.mean
    few = schema.names[:100]
    assert fitted_error(one.subset(few), two.subset(few)) == pytest.approx(
        marginal_distance(one.subset(few), two.subset(few)).mean
    )


@pytest.mark.slow
def test_missing_values_amplify_where_only_observed_cells_are_read():
    given = {"rows": 500, "missing": {"pay": 0.5}}
    found = plan(SCHEMA, **given, epsilons=(1,), strategy="observed")
    assert 0 < found.planned[0].ground_truth <= 1.0
    declared = Declared(schema=SCHEMA, **given)
    model = AIM(epsilon=1.0, missing="complete-rows").fit(declared.simulate(0))
    assert declared.true_epsilon(model) < 0.75  # log(1 + (e - 1) / 2) = 0.62, with a delta


def test_cells_that_noise_swamps_are_counted():
    """Two attributes of two levels, 100 rows: 25 in each cell, or 44, 22, 22 and 11."""
    pair = Schema(tuple(Categorical(name=n, levels=("x", "y"), nullable=True) for n in "ab"))
    declared = Declared(schema=pair, rows=100)
    for noise, even, uneven in ((5, 0, 0), (6, 0, 0.25), (12, 0, 0.75), (13, 1, 0.75), (23, 1, 1)):
        assert declared.swamped(noise, "uniform") == even
        assert declared.swamped(noise, "zipf") == uneven
    fewer = Declared(schema=pair, rows=100, missing={"a": 0.5})
    assert fewer.swamped(7, "uniform") == 1


def test_simulated_rows_have_declared_facts_and_keep_rules():
    schema = Schema(
        (*SCHEMA.attributes, Numeric(name="packs", lower=0, upper=9, bins=3, nullable=True)),
        rules=(NotApplicable(("packs",), unless="smoker = 'yes'"),),
    )
    declared = {"rows": 20_000, "missing": {"pay": 0.3}, "spreads": {"age": 12.0}}
    table = Declared(schema=schema, marginals="zipf", **declared).simulate(0)
    skewed = Declared(schema=schema, means={"age": 26.0}, **declared)
    young, law = skewed.simulate(0), skewed.distributions("zipf")["age"]
    for found, mean in ((table, 58.0), (young, 26.0)):  # a long tail, above only
        assert found.values("age").std() == pytest.approx(12.0, abs=0.2)
        assert found.values("age").mean() == pytest.approx(mean, abs=0.2)
    assert np.bincount(young.codes("age"), minlength=8) / 20_000 == pytest.approx(law, abs=0.01)
    missing = table.mask("pay")
    assert missing.mean() == pytest.approx(0.3, abs=0.02)
    for name in ("smoker", "region"):  # whatever the row holds
        assert missing[table.codes(name) == 0].mean() == pytest.approx(0.3, abs=0.03)
    for codes, size in ((table.codes("pay")[~missing], 10), (table.codes("region"), 5)):
        zipf = 1 / np.arange(1, size + 1)
        shares = np.bincount(codes, minlength=size)[:size] / len(codes)
        assert shares == pytest.approx(zipf / zipf.sum(), abs=0.02)
    assert not table.mask("region").any()
    ages, low = table.values("age"), table.codes("region") < 2  # attributes are related
    assert ages[low].mean() < ages[~low].mean() - 2
    assert (table.mask("packs") == (table.codes("smoker") != 1)).all()
    assert _distribution(schema["region"], "zipf").sum() == pytest.approx(1.0)


def test_what_is_declared_of_nothing_is_refused():
    for bad, said in (
        ({"rows": 0}, "rows"),
        ({"missing": {"heigth": 0.1}}, "heigth"),
        ({"missing": {"region": 0.1}}, "never missing"),
        ({"missing": {"pay": 1.0}}, "missing rate"),
        ({"missing": {"pay": math.nan}}, "missing rate"),
        ({"spreads": {"region": 1.0}}, "is not numeric"),
        ({"spreads": {"age": 0.0}}, "spread"),
        ({"spreads": {"age": 41.0}}, "this spread"),
        ({"spreads": {"age": 4.0}, "means": {"age": 99}}, "do not allow this mean"),
        ({"means": {"age": 50.0}}, "declare the spread of 'age'"),
        ({"marginals": "flat"}, "marginals"),
        ({"epsilons": ()}, "epsilons"),
        ({"epsilons": (-1.0,)}, "epsilon"),
        ({"means": ["region"]}, "not a numeric attribute"),
        ({"method": "magic"}, "magic"),
    ):
        refused(ParameterError, said, plan, SCHEMA, **{"rows": 100, **bad})
    schema = Schema((*SCHEMA.attributes, OpenCategorical(name="town")))
    refused(ParameterError, "'town' are open", plan, schema, rows=100)


@pytest.mark.long
def test_the_command_prints_and_writes_json(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SCHEMA.to_toml("people.toml")
    given = "plan people.toml --rows 300 --missing-rate pay=0.2 --epsilon 1 --method"
    mean = "--sd pay=9 --mean pay=20"
    assert main(f"{given} mst {mean} --mean age".split()) == 2
    capsys.readouterr()
    assert main(f"{given} mst {mean} --json".split()) == 0
    document = json.loads(capsys.readouterr().out)
    (planned,) = document["planned"]
    assert (planned["epsilon"], {*planned["widths"]}) == (1.0, {"pay"})
    assert (document["memory"] > 50, document["means"]) == (True, {"pay": 20.0})
    assert main(f"{given} privbayes --delta 0".split()) == 0
    said = capsys.readouterr().out
    assert ("as you declared" in said, "nan" in said) == (True, False)
    assert main(f"{given} mst --missing-rate pay".split()) == 2


def test_noise_is_said_in_rows_of_which_a_unit_may_have_several():
    schema = Schema(SCHEMA.attributes[:2], unit=Unit("p", max_rows=3))
    said = str(plan(schema, rows=300, epsilons=(5.0,), method="mst"))
    assert ("one-way (± rows)" in said, "people" in said) == (True, False)


STAY = Schema(
    (
        Date(name="admission", lower="2018-01-01", upper="2024-12-31"),
        Date(name="discharge", lower="2018-01-01", upper="2025-02-28", nullable=True),
        Date(name="birth", lower="1920-01-01", upper="2024-12-31"),
        Categorical(name="ward", levels=("surgery", "medicine")),
        Difference(name="stay", later="discharge", earlier="admission", lower=0, upper=60),
        Difference(name="age", later="admission", earlier="birth", lower=0, upper=110, unit="year"),
    )
)


def test_simulated_dates_lie_their_difference_apart():
    declared = Declared(schema=STAY, rows=3000, missing={"discharge": 0.2}, spreads={"age": 15})
    table = declared.simulate(0)
    values = {name: table.values(name) for name in STAY.names if name != "ward"}
    missing = table.mask("discharge")
    assert missing.mean() == pytest.approx(0.2, abs=0.03)
    assert (table.mask("stay") == missing).all()
    stay = values["discharge"] - values["admission"]
    assert (stay[~missing] == values["stay"][~missing]).all()
    assert ((stay[~missing] >= 0) & (stay[~missing] <= 60)).all()
    assert (values["admission"] - values["birth"] == values["age"]).all()
    # Births before 1920 are out of bounds: some of the oldest are replaced.
    assert values["age"].std() / 365.25 == pytest.approx(15, abs=1.5)


@pytest.mark.long
def test_plan_of_differences_is_made():
    given = {"missing": {"discharge": 0.1}, "epsilons": (1.0,), "means": ["stay"], "delta": 1e-6}
    found = plan(STAY, rows=800, **given)
    (planned,) = found.planned
    assert 0 < planned.widths["stay"] < 60
    refused(ParameterError, "two dates", plan, STAY, rows=800, missing={"stay": 0.1})


def test_dates_out_of_bounds_become_dates_that_fit():
    declared = Declared(schema=STAY, rows=400)
    table, rng = declared.simulate(0), np.random.default_rng(0)
    columns = {name: table.column(name) for name in STAY.names}
    early, ages = STAY["admission"].lower, np.full(400, 110 * 365.25 // 1)
    columns["admission"] = CodedColumn(np.zeros(400, np.uint8), np.full(400, early))
    refused(ParameterError, "bounds of 'stay', 'age'", with_dates, STAY, _aged(columns, ages), rng)
    ages[7] = 365.0
    found = Table(STAY, with_dates(STAY, _aged(columns, ages), rng))
    assert (found.values("age") == 365.0).all()
    assert (found.values("birth") == early - 365.0).all()


def _aged(columns, ages):
    codes = STAY["age"].encode_values(ages)
    return columns | {"age": CodedColumn(codes.astype(np.uint8), ages)}


WEIGHED = Schema(SCHEMA.attributes, weight=SurveyWeight("w", upper=4.0))


@pytest.mark.long
def test_plan_with_a_weight_asks_for_its_mean(tmp_path, capsys, monkeypatch):
    refused(ParameterError, "mean_weight is needed", plan, WEIGHED, rows=100)
    for bad in (0.0, 4.5):
        refused(ParameterError, "at most 4", plan, WEIGHED, rows=100, mean_weight=bad)
    refused(ParameterError, "declares a weight", plan, SCHEMA, rows=100, mean_weight=1.0)
    monkeypatch.chdir(tmp_path)
    WEIGHED.to_toml("survey.toml")
    given = ["plan", "survey.toml", "--rows", "300", "--epsilon", "1", "--method", "mst"]
    assert main(given) == 2
    assert "--mean-weight is needed" in capsys.readouterr().err
    assert main([*given, "--mean-weight", "2"]) == 0
    assert "counts 50.0%" in capsys.readouterr().out


WIDE = Schema(
    (
        *(
            Categorical(name=f"c{place}", levels=tuple(range(2 + place)), nullable=place % 2 == 0)
            for place in range(9)
        ),
        *(
            Numeric(name=f"n{place}", lower=0, upper=100, bins=10, nullable=place % 2 == 1)
            for place in range(7)
        ),
    )
)


@pytest.mark.slow
def test_plan_of_sixteen_columns_takes_ten_seconds():
    start = time.process_time()
    found = plan(WIDE, rows=20_000, missing={"c0": 0.1, "n1": 0.2}, means=["n0"], delta=1e-6)
    assert time.process_time() - start < 10
    assert [p.rehearsed for p in found.planned] == [False, True, False]
    assert "Rehearsed: epsilon 1." in str(found)


@pytest.mark.slow
def test_scaled_numbers_are_those_of_rehearsals(monkeypatch):
    given = {"rows": 3000, "missing": {"pay": 0.1}, "spreads": {"age": 15.0}, "delta": 1e-6}
    whole = plan(SCHEMA, **given)
    monkeypatch.setattr(
        "missdp.governance.rehearsal.number_of_fits", lambda columns, epsilons: (1, 2)
    )
    scaled = plan(SCHEMA, **given)
    assert [p.rehearsed for p in scaled.planned] == [False, True, False]
    for one, other in zip(scaled.planned, whole.planned, strict=True):
        assert one.delta == other.delta
        assert one.ground_truth == other.ground_truth
        assert one.one_way == pytest.approx(other.one_way, rel=0.01)
        for name in ("two_way", "fitted"):
            assert 0.7 < getattr(one, name) / getattr(other, name) < 1.4
        assert 0.75 < one.widths["age"] / other.widths["age"] < 1.33


@pytest.mark.long
def test_plan_says_which_epsilons_leave_mostly_noise():
    levels = tuple("abcdef")
    columns = tuple(Categorical(name=f"c{i}", levels=levels) for i in range(6))
    survey = Schema(columns, unit=Unit("id", max_rows=2), weight=SurveyWeight("w", upper=4.0))
    found = plan(survey, rows=8000, mean_weight=1.0, epsilons=(0.5, 1, 9), method="all-pairs")
    clears = [planned.clear for planned in found.planned]
    assert clears[0] > clears[1] > 0.3 > clears[2] > 0
    assert (
        "With epsilon 1 or less: about 1,000 effective rows × epsilon: most relations between "
        "columns are noise. In the median pair a relation exceeds the noise only if its "
        f"Cramér's V is above {clears[1]:.2f}. Use fewer columns, a larger epsilon, a smaller "
        "weight upper bound, a smaller max_rows, or AIM (--method aim)."
    ) in str(found)
    many = plan(Schema(columns), rows=50_000, epsilons=(1,), method="all-pairs")
    assert many.mostly_noise is None
    assert "most relations" not in str(many)


def test_two_ends_of_a_grid_tell_what_lies_between():
    ends = {0.5: _rehearsal(4.0, 40.0), 2.0: _rehearsal(1.0, 12.0)}
    assert _interpolated(1.0, 2.0, ends).tables[1] == pytest.approx((20 * 24) ** 0.5)
    assert _interpolated(4.0, 0.5, {2.0: _rehearsal(1.0, 12.0)}).tables[1] == 6.0


def _rehearsal(noise, two_way):
    return _Rehearsed(noise, np.array([1.0, two_way, 0.2]), 0.1, np.ones((2, 1)), 1.0)


@pytest.mark.long
@pytest.mark.parametrize("nullable", [False, True])
def test_estimate_of_one_is_that_of_all(nullable):
    missing = {"smoker": 0.2, "pay": 0.3}
    table = Declared(schema=SCHEMA, rows=2000, missing=missing).simulate(0)
    model = AllPairs(epsilon=1.0, delta=1e-6, random_state=0).fit(table)
    question = "mean(pay)" if nullable else "mean(age)"
    (one,) = estimate_quickly(model, [question], draws=100)
    whole = model.estimate(question)
    assert one.estimate == pytest.approx(whole.estimate, rel=0.02)
    assert one.errors[0] == pytest.approx(whole.errors[0], rel=0.15)


@pytest.mark.long
def test_plan_shows_its_progress():
    shown = []
    plan(SCHEMA, rows=300, epsilons=(1.0,), method="mst", progress=lambda *one: shown.append(one))
    shares = [share for _, share in shown]
    assert {stage for stage, _ in shown} == {"rehearsing epsilon 1"}
    assert shares == sorted(shares)
    assert len({*shares}) > 2


def test_estimate_of_one_where_cells_are_missing_together():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.integers(0, 10, 3000).astype(float) for name in "abc"})
    frame.loc[rng.random(3000) < 0.3, ["a", "b"]] = np.nan
    facts = {"lower": 0, "upper": 9, "integer": True, "bins": 10, "nullable": True}
    schema = Schema(tuple(Numeric(name=name, **facts) for name in "abc"))
    model = AllPairs(epsilon=5.0, delta=1e-6, random_state=0).fit(frame, schema=schema)
    (found,) = estimate_quickly(model, ["mean(a)"], draws=20)
    assert found.estimate[0] == pytest.approx(4.5, abs=0.3)
    assert 0.02 < found.errors[0] < 0.5


def test_plan_without_epsilons_prints_its_header():
    text = str(Plan(method="mst", rows=2000, rehearsed_rows=2000))
    assert text.startswith("Plan for mst and 2,000 rows")
