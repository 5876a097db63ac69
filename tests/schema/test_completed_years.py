"""A rule gives the completed years between two dates, and every row obeys the rule."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from missdp import MST, AllPairs, Categorical, Date, DateTime, Difference, Numeric, Schema, Table
from missdp.cli.main import main
from missdp.errors import SchemaError
from missdp.evaluate import rule_violations
from missdp.pricing import DPImputer
from missdp.schema import Always
from missdp.schema.dates import completed_years
from refusing import refuses

LOOSE = {"nullable": True, "outside": "missing"}
RULE = Always("age = years(birth, interview)")
AGE = Numeric(name="age", lower=15, upper=103, integer=True, **LOOSE)
BIRTH = Date(name="birth", lower="1920-01-01", upper="2006-12-31", **LOOSE)
INTERVIEW = Date(name="interview", lower="2022-01-01", upper="2024-12-31", **LOOSE)
WORK = Categorical(name="work", levels=("no", "yes"))
MOMENT = DateTime(name="moment", lower="2022-01-01T00:00", upper="2024-12-31T23:59", step="minute")
ZONED = DateTime(
    name="zoned", lower="2022-01-01T00:00Z", upper="2024-12-31T00:00Z", timezone="Europe/Berlin"
)
SURVEY = Schema((BIRTH, INTERVIEW, AGE, WORK), (RULE,))


def age_on(birth, day):
    """Count completed years by anniversaries.

    The anniversary of 29 February is 1 March in years without that day.
    """
    years = day.year - birth.year
    try:
        anniversary = birth.replace(year=day.year)
    except ValueError:
        anniversary = dt.date(day.year, 3, 1)
    return years if day >= anniversary else years - 1


def count_of(date, unit):
    return np.array([np.datetime64(date).astype(f"datetime64[{unit}]").astype(float)])


DATES = st.dates(dt.date(1850, 1, 1), dt.date(2100, 12, 31))


@pytest.mark.long
@settings(max_examples=300)
@given(DATES, DATES)
@example(dt.date(2000, 2, 29), dt.date(2001, 2, 28))
@example(dt.date(2000, 2, 29), dt.date(2001, 3, 1))
@example(dt.date(2000, 2, 29), dt.date(2004, 2, 29))
@example(dt.date(2000, 3, 1), dt.date(2004, 2, 29))
def test_completed_years_of_days_count_anniversaries(birth, day):
    found = completed_years(count_of(birth, "D"), count_of(day, "D"), ("D", "D"))
    assert found.tolist() == [age_on(birth, day)]


@settings(max_examples=100)
@given(DATES, DATES, st.sampled_from("YMDhs"), st.sampled_from("YMDhs"))
def test_completed_years_of_any_unit_count_first_days(birth, day, one, two):
    shown = [
        np.datetime64(x).astype(f"datetime64[{u}]").astype("datetime64[D]").astype(dt.date)
        for x, u in ((birth, one), (day, two))
    ]
    found = completed_years(count_of(birth, one), count_of(day, two), (one, two))
    assert found.tolist() == [age_on(*shown)]


def people(n, seed=0, *, holes=0.15):
    """Return rows that obey the rule, with missing cells in each of its columns."""
    rng = np.random.default_rng(seed)
    day = np.datetime64("2022-01-01") + rng.integers(0, 1000, n)
    born = day - (365.25 * (18 + 75 * rng.beta(2, 2, n))).astype(int)
    age = [age_on(*pair) for pair in zip(born.astype(object), day.astype(object), strict=True)]
    frame = pd.DataFrame({
        "birth": born.astype("datetime64[s]"), "interview": day.astype("datetime64[s]"),
        "age": np.array(age, dtype=float), "work": rng.choice(WORK.levels, n)})  # fmt: skip
    for name in RULE.about(SURVEY.columns):
        frame.loc[rng.random(n) < holes, name] = np.nan
    return frame


def contradictions(frame):
    """Count the rows whose dates and age, as they are written, contradict each other."""
    whole = frame.dropna(subset=["birth", "interview", "age"])
    assert len(whole)
    pairs = zip(pd.to_datetime(whole["birth"]), pd.to_datetime(whole["interview"]), strict=True)
    found = [age_on(one.date(), two.date()) for one, two in pairs]
    return int(np.sum(np.array(found) != whole["age"].to_numpy(dtype=float)))


STEPS = [
    {}, {"step": "month", "lower": "1920-01", "upper": "2006-12"},
    {"step": "year", "lower": "1920", "upper": "2006"}, {"step": "2 weeks", "upper": "2006-12-21"},
]  # fmt: skip


@pytest.mark.parametrize("missing_values", ["fill", "keep"])
@pytest.mark.parametrize("step", STEPS)
def test_rows_drawn_with_coarse_dates_agree_with_age(step, missing_values):
    bounds = {"lower": "1920-01-01", "upper": "2006-12-31", **LOOSE, **step}
    schema = Schema((Date(name="birth", **bounds), INTERVIEW, AGE, WORK), (RULE,))
    model = MST(epsilon=1, delta=1e-6, random_state=0).fit(people(1000), schema=schema)
    assert model.modelled_.names == ("birth", "interview", "work")
    assert contradictions(model.sample(2000, random_state=1, missing_values=missing_values)) == 0


@pytest.mark.long
@pytest.mark.parametrize("missing", ["observed", "impute-first"])
def test_drawn_rows_agree_with_age_for_any_missing_cells(missing):
    model = AllPairs(epsilon=1, delta=1e-6, missing=missing, random_state=0)
    drawn = model.fit(people(1000), schema=SURVEY).sample(1000, random_state=1)
    assert contradictions(drawn) == 0


@pytest.mark.long
def test_rows_drawn_with_a_difference_agree_with_age():
    lived = Difference(
        name="lived", later="interview", earlier="birth", lower=14, upper=106, unit="year",
        outside="missing")  # fmt: skip
    schema = Schema((*SURVEY.attributes, lived), (RULE,))
    drawn = MST(epsilon=1, delta=1e-6, random_state=0).fit(people(1000), schema=schema).sample(1000)
    assert contradictions(drawn) == 0


@pytest.mark.long
@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.none() | st.dates(dt.date(1910, 1, 1), dt.date(2010, 12, 31)),
            st.none() | st.dates(dt.date(2021, 1, 1), dt.date(2025, 12, 31)),
            st.none() | st.integers(0, 120),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_rows_read_are_settled_each_by_itself(rows):
    columns = ("birth", "interview", "age")
    frame = pd.DataFrame(rows, columns=columns, dtype=object).assign(work="no")
    read = Table.read(frame, SURVEY).to_native()
    for k, (birth, day, age) in enumerate(rows):
        inside = [
            x if x is not None and a.lower <= (x - dt.date(1970, 1, 1)).days <= a.upper else None
            for x, a in ((birth, BIRTH), (day, INTERVIEW))
        ]
        known = None if None in inside else age_on(*inside)
        stated = age if age is not None and AGE.lower <= age <= AGE.upper else None
        if known is None:  # the cells stay as they are
            expected = (*inside, stated)
        elif AGE.lower <= known <= AGE.upper:
            expected = (*inside, known)
        else:
            expected = (None, None, None)
        cells = [None if pd.isna(x) else x for x in read.loc[k, list(columns)]]
        cells = [x.date() if isinstance(x, pd.Timestamp) else x for x in cells]
        assert tuple(cells) == expected
        alone = Table.read(frame.iloc[[k]], SURVEY).to_native()
        assert alone.equals(read.iloc[[k]].reset_index(drop=True))


def test_violations_count_rows_that_contradict_their_dates(tmp_path):
    frame = people(200, holes=0.0)
    frame.loc[:9, "age"] += 1
    found = rule_violations(frame, schema=SURVEY)
    assert found.broken == {RULE.text: 10}
    frame.loc[:3, "birth"] = pd.NaT  # open whether these break it
    assert rule_violations(frame, schema=SURVEY).broken_rows == 6


def test_schema_check_reads_the_rule_from_a_file(tmp_path, capsys):
    SURVEY.to_toml(tmp_path / "s.toml")
    assert Schema.from_toml(tmp_path / "s.toml") == SURVEY
    assert Schema.from_json(SURVEY.to_json()) == SURVEY
    people(100).to_csv(tmp_path / "rows.csv", index=False)
    assert main(["schema", "check", str(tmp_path / "s.toml")]) == 0
    assert main(["schema", "check", str(tmp_path / "s.toml"), str(tmp_path / "rows.csv")]) == 0
    broken = (tmp_path / "s.toml").read_text().replace("years(birth", "years(work")
    (tmp_path / "s.toml").write_text(broken)
    capsys.readouterr()
    assert main(["schema", "check", str(tmp_path / "s.toml")]) == 3
    assert "'work' is not a date" in capsys.readouterr().err


@pytest.mark.long
def test_imputed_dates_agree_with_an_observed_age():
    frame = people(1000)
    model = AllPairs(epsilon=3, delta=1e-6, random_state=0).fit(frame, schema=SURVEY)
    filled = DPImputer(model=model, random_state=0).transform(frame)
    assert contradictions(filled) == 0
    # Before, four in five rows with an age and no birth kept their missing cells.
    assert filled["birth"].isna().mean() < 0.01
    pd.testing.assert_frame_equal(filled.where(frame.notna()), frame, check_dtype=False)


WRONG = [
    ("age = years(work, interview)", "'work' is not a date"),
    ("age = years(age, interview)", "'age' is not a date"),
    ("age = years(birth, zoned)", "'zoned' has a time zone"),
    ("age = years(birth, birth)", "names 'birth' twice"),
    ("age = years(born, interview)", "no attribute 'born'"),
    ("work = years(birth, interview)", "'work' must be numeric with integer = true"),
    ("real = years(birth, interview)", "'real' must be numeric with integer = true"),
    ("fives = years(birth, interview)", "'fives' must be numeric with integer = true"),
    ("birth = years(birth, interview)", "'birth' must be numeric with integer = true"),
    ("child = years(birth, interview)", "leaves no row at all"),
    ("age = years(interview, birth)", "leaves no row at all"),
    ("low = years(birth, interview)", r"no row in which 'birth' is \[1920-01-01"),
    (
        "age = months(birth, interview)",
        r"years\(earlier, later\), the only call in rules, found 'months",
    ),
    ("age = years(birth, interview) + 1", "must be one side"),
    ("age + 1 = years(birth, interview)", "expected an attribute, found 'age . 1'"),
    ("years(birth, interview)", "expected comparisons"),
    ("age = years(birth)", r"expected years\(earlier, later\)"),
    ("age = years(birth, interview, work)", r"expected years\(earlier, later\)"),
    ("years(birth, interview) = years(birth, interview)", "must be one side"),
]
OTHERS = (
    ZONED,
    MOMENT,
    Numeric(name="real", lower=0, upper=120),
    Numeric(name="fives", lower=0, upper=120, integer=True, step=5),
    Numeric(name="child", lower=0, upper=9, integer=True, nullable=True),
    Numeric(name="low", lower=0, upper=40, integer=True, nullable=True),
)


@pytest.mark.parametrize(("text", "why"), WRONG)
def test_years_that_make_no_sense_raise_one_error(text, why):
    with refuses(SchemaError, why):
        Schema((*SURVEY.attributes, *OTHERS), (Always(text),))


def test_years_must_be_nullable_where_a_date_may_be_missing():
    age = Numeric(name="age", lower=15, upper=103, integer=True)
    with refuses(SchemaError, "'age' must be nullable"):
        Schema((BIRTH, INTERVIEW, age), (RULE,))


@pytest.mark.parametrize(
    "text",
    ["age = years(birth, moment)", "years(birth, moment) = age", "age=years( birth,moment )"],
)
def test_years_up_to_a_time_of_day_count_its_date(text):
    schema = Schema((BIRTH, MOMENT, AGE), (Always(text),))
    rows = pd.DataFrame({
        "birth": ["2000-05-02", "2000-05-01"], "moment": ["2022-05-01T23:59"] * 2,
        "age": None})  # fmt: skip
    assert Table.read(rows, schema).to_native()["age"].tolist() == [21, 22]


def test_an_attribute_may_still_be_called_years():
    years = Numeric(name="years", lower=0, upper=99, integer=True)
    other = Numeric(name="twice", lower=0, upper=198, integer=True)
    assert Schema((years, other), (Always("2 * years = twice"),)).rule_set.derived.keys() == {
        "twice"
    }
