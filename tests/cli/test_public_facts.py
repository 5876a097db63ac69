"""Kinds of missing, rules, units and weights of a schema, from the command line."""

import contextlib
import sqlite3
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from missdp import Categorical, Guarantee, Numeric, Schema, load
from missdp.schema import Always, Determined, Never, NotApplicable
from missdp.table import draft_columns, units

WHOLE = {"integer": True, "nullable": True}
FACTS = Schema(
    (
        Categorical(
            name="arbeitet", levels=("ja", "nein"), nullable=True, refused=(-7,), unknown=("-8",)
        ),
        Numeric(
            name="Löhne", lower=0, upper=5000, bins=8, nullable=True, missing_codes=(-1,),
            refused=(-7,), not_applicable=(-9,),
        ),
        Categorical(
            name="degree", levels=("none", "bachelor", "master"), nullable=True, refused=("REF",)
        ),
        Numeric(name="years", lower=5, upper=25, **WHOLE),
        Numeric(name="age", lower=18, upper=97, not_asked=(-3,), **WHOLE),
        Numeric(name="born", lower=1927, upper=2006, **WHOLE),
        Numeric(name="start", lower=0, upper=100, integer=True),
        Numeric(name="end", lower=0, upper=100, **WHOLE),
    ),
    (
        NotApplicable("Löhne", unless="arbeitet = 'ja'"),
        Never("degree = 'master' and age < 22"),
        Determined("years", by="degree", map=(("none", 9), ("bachelor", 15), ("master", 18))),
        Always("age + born = 2024", determines="born"),
        Always("start <= end"),
    ),
)  # fmt: skip
RULES = [
    "Löhne is not applicable unless arbeitet = 'ja'",
    "never degree = 'master' and age < 22",
    "years follows from degree",
    "age + born = 2024",
    "start <= end",
]
KEPT = dict.fromkeys(RULES, 0)


def survey(n, seed):
    """Return codes of rows that obey every rule, with missing cells of every kind."""
    rng = np.random.default_rng(seed)
    works = rng.choice(["ja", "nein", "-7", "-8"], n, p=[0.6, 0.3, 0.06, 0.04])
    paid = np.where(rng.random(n) < 0.1, -7, np.round(rng.gamma(4, 500, n).clip(0, 5000), 2))
    age = rng.integers(18, 98, n)
    degree = rng.choice(["none", "bachelor", "master"], n, p=[0.5, 0.3, 0.2])
    degree = np.where((degree == "master") & (age < 22), "none", degree)
    years = pd.Series(degree).map({"none": 9, "bachelor": 15, "master": 18}).to_numpy()
    start = rng.integers(0, 101, n)
    end = rng.integers(start, 101)
    frame = pd.DataFrame(
        {
            "arbeitet": works,
            "Löhne": np.where(works == "ja", paid, np.where(works == "nein", -9, -1)),
            "degree": np.where(rng.random(n) < 0.1, "REF", degree),
            "years": pd.array(years, dtype="Int64"),
            "age": np.where(rng.random(n) < 0.1, -3, age),
            "born": pd.array(2024 - age, dtype="Int64"),
            "start": start,
            "end": pd.array(end, dtype="Int64"),
        }
    )
    frame.loc[frame["degree"] == "REF", "years"] = pd.NA
    frame.loc[frame["age"] == -3, "born"] = pd.NA
    frame.loc[rng.random(n) < 0.1, "end"] = pd.NA
    return frame


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FACTS.to_toml("schema.toml")
    survey(400, 0).to_csv("data.csv", index=False)
    return tmp_path


EVALUATE = "evaluate data.csv other.csv --schema schema.toml"
CHECK = "schema check schema.toml"


def test_evaluate_counts_violations_and_kinds_of_missing(folder, ok, told):
    other = survey(300, 1)
    other.loc[other.index[:7], ["start", "end"]] = [9, 3]
    other.loc[other.index[7:10], "arbeitet"] = "nein"
    other.loc[other.index[7:10], "Löhne"] = 1000.0
    other.to_csv("other.csv", index=False)
    document = told(EVALUATE, quiet=True)
    assert document["rules"]["truth"]["broken"] == KEPT
    broken = document["rules"]["synthetic"]
    assert broken["broken"] == KEPT | {RULES[-1]: 7, RULES[0]: 3}
    assert (broken["rows"], broken["broken_rows"]) == (300, 10)
    kinds = document["kinds"]["truth_shares"]
    assert set(kinds["Löhne"]) == {"not_applicable", "missing", "refused"}
    assert kinds["age"]["not_asked"] == pytest.approx((survey(400, 0)["age"] == -3).mean())
    out = ok(EVALUATE)
    assert "synthetic table: 10 of 300 rows break a rule" in out
    assert "private table: 0 of 400 rows break a rule" in out
    assert "Löhne, not applicable" in out
    Schema(FACTS.attributes).to_toml("schema.toml")
    assert {"rules", "kinds"} & {*told(EVALUATE)} == {"kinds"}
    Schema((Categorical(name="a", levels=("x",), nullable=True),)).to_toml("schema.toml")
    pd.DataFrame({"a": ["x", "x"]}).to_csv("other.csv", index=False)
    document = told(f"{EVALUATE.replace('data', 'other')} --ways 1")
    assert {*document} == {"curator_only", "fidelity", "marginals", "missing", "warnings"}


def test_check_shows_rules_in_words_and_never_how_many_rows_break_them(folder, run, told, fails):
    good = run(f"{CHECK} data.csv")
    bad = survey(400, 0)
    bad.loc[:50, ["start", "end"]] = [9, 3]
    bad.loc[:50, "age"] = 30
    bad.to_csv("data.csv", index=False)
    assert run(f"{CHECK} data.csv") == good
    code, out, err = good
    assert (code, err) == (0, "")
    assert all(f"  {text}\n" in out for text in RULES)
    assert "May be not applicable: Löhne." in out
    assert "May be refused: arbeitet, Löhne, degree." in out
    document = told(CHECK)
    assert document["rules"] == RULES
    assert document["kinds"]["age"] == ["missing", "not_asked"]
    text = Path("schema.toml").read_text("utf-8").replace("by = [", 'by = ["gibt-es-nicht", ')
    Path("schema.toml").write_text(text, "utf-8")
    fails(3, "years follows from gibt-es-nicht, degree", CHECK)


@pytest.mark.long
@pytest.mark.parametrize("method", [pytest.param("aim", marks=pytest.mark.slow), "privbayes"])
def test_every_method_obeys_the_rules_and_keeps_the_kinds(folder, ok, told, method):
    def kinds_in(name):
        """Evaluate a written file, and fail if a cell is outside of the domain."""
        document = told(f"{EVALUATE.replace('other.csv', name)} --ways 1", quiet=True)
        assert document["rules"]["synthetic"]["broken"] == KEPT
        return document["kinds"]

    survey(5000, 0).to_csv("data.csv", index=False)
    fit = f"fit data.csv --schema schema.toml --epsilon 2 --seed 1 --method {method}"
    ok(f"{fit} -o m.json")
    ok("sample m.json -o out.csv --keep-missing --missing-as code --seed 1")
    found = kinds_in("out.csv")
    # Shares were at most .018 apart with three other seeds of each method, and .015 with eighty
    # of AllPairs.
    assert found["max_difference"] < 0.04
    assert found["synthetic_shares"]["arbeitet"]["refused"] > 0.01
    cells = pd.read_csv("out.csv")
    assert {"-7", "-8"} <= {*cells["arbeitet"]}
    assert {-7, -9} <= {*cells["Löhne"]}
    assert "REF" in {*cells["degree"]}
    # Again from the model, with nulls: the row still determines which cells are not applicable.
    ok("sample m.json -o more.parquet --rows 5000 --keep-missing")
    shares = kinds_in("more.parquet")["synthetic_shares"]["Löhne"]
    assert shares["refused"] == 0.0
    assert abs(shares["not_applicable"] - 0.3) < 0.05
    # Without missing cells: only cells that are not applicable have no value.
    ok("sample m.json -o full.csv --missing-as code")
    full = pd.read_csv("full.csv")
    assert not full.isna().any().any()
    assert ((full["Löhne"] == -9) == (full["arbeitet"] == "nein")).all()
    kinds_in("full.csv")


def test_errors_say_nothing_of_rows(folder, fails):
    """A cell outside the domain raises an error as before. No message names rule or row."""
    bad = survey(400, 0).astype({"age": "object"})
    bad.loc[17, "age"] = 4711
    bad.to_csv("other.csv", index=False)
    for command in (EVALUATE, f"{CHECK} other.csv"):
        err = fails(3, "'age'", command)
        assert not {"4711", "17", "400"} & {*err.replace(",", " ").split()}


def test_constraints_between_rows_hold_in_synthesized_rows(folder, ok):
    stated = "t1&t2&EQ(t1.degree,t2.degree)&IQ(t1.start,t2.start); t1&t2&LT(t1.age,t2.age)"
    stated += "&GT(t1.start,t2.start)"
    made = "synthesize data.csv --schema schema.toml --epsilon 1 -o kamino.csv --method kamino"
    ok(f'{made} --set "constraints={stated}"')
    rows = pd.read_csv("kamino.csv")
    assert rows.groupby("degree")["start"].nunique().max() == 1
    starts = rows.groupby("age")["start"].agg(["min", "max"]).sort_index()
    assert (starts["max"].cummax().shift(fill_value=-1) <= starts["min"]).all()
    rows = load("kamino.model.json").sample(50)
    assert rows.groupby("degree", observed=True)["start"].nunique().max() == 1


# -- units and weights ---------------------------------------------------------------------------
UNIT = '[unit]\ncolumn = "person"\nmax_rows = 3\n'
WEIGHT = '[weight]\ncolumn = "wt"\nupper = 40\n'
PEOPLE = Schema(
    (
        Categorical(name="sex", levels=("f", "m")),
        Numeric(name="age", lower=0, upper=100, bins=4),
        Categorical(name="ill", levels=("no", "yes"), nullable=True),
    )
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with visits of people, with weighted rows, and schemas of either."""
    place = tmp_path_factory.mktemp("visits")
    rng = np.random.default_rng(0)
    columns = {"sex": rng.choice(["f", "m"], 400), "age": rng.integers(0, 100, 400)}
    frame = pd.DataFrame({"person": rng.integers(0, 80, 400), **columns})
    frame.to_csv(place / "visits.csv", index=False)
    with duckdb.connect(place / "v.duckdb") as database:
        database.from_df(frame).create("visits")
    with contextlib.closing(sqlite3.connect(place / "v.db")) as database:
        frame.to_sql("visits", database, index=False)
    sex = rng.choice(["f", "m"], 3000)
    frame = pd.DataFrame({"house": np.arange(3000) // 2, "wt": np.where(sex == "f", 40, 10)})
    frame = frame.assign(sex=sex, ill=rng.choice(["no", "yes", None], 3000))
    frame.drop(columns="house").to_csv(place / "weighted.csv", index=False)
    frame.drop(columns=["house", "wt"]).to_csv(place / "plain.csv", index=False)
    frame.to_csv(place / "houses.csv", index=False)
    for name, columns, facts in (
        *(("rows", ["sex", "age"], ""), ("unit", ["sex", "age"], UNIT), ("s", ["sex", "ill"], "")),
        ("wt", ["sex", "ill"], WEIGHT),
        ("house", ["sex", "ill"], '[unit]\ncolumn = "house"\nmax_rows = 1\n' + WEIGHT),
    ):
        PEOPLE.subset(columns).to_toml(path := place / f"{name}.toml")
        path.write_text(path.read_text() + facts)
    return place


@pytest.fixture
def at(made, tmp_path, monkeypatch):
    """Change to an empty folder. Return the path of the made files, relative to it."""
    monkeypatch.chdir(tmp_path)
    return made


@pytest.mark.parametrize(
    ("facts", "most"),
    [(UNIT, 3), (UNIT.replace("3", "2"), 2), ('[unit]\ncolumn = "person"\n', 1)],
)
def test_synthesize_protects_the_unit_that_is_declared(at, told, facts, most):
    Path("own.toml").write_text((at / "rows.toml").read_text() + facts)
    fit = f"synthesize {at}/visits.csv --schema own.toml --epsilon 1 -o out.csv"
    guarantee = Guarantee.from_dict(told(fit)["guarantee"])
    assert (guarantee.unit, guarantee.max_rows, guarantee.epsilon) == ("person", most, 1.0)
    assert list(pd.read_csv("out.csv").columns) == ["sex", "age"]


@pytest.mark.parametrize("place", ["{}/v.duckdb", "sqlite:///{}/v.db"])
@pytest.mark.parametrize(
    "source", ["--table visits", "--table 'SELECT * FROM visits ORDER BY age'"]
)
def test_synthesize_database_with_unit_limits_its_rows(at, told, place, source):
    fit = f"synthesize {place.format(at)} {source} --schema {at}/unit.toml --epsilon 1 -o out.csv"
    assert Guarantee.from_dict(told(fit)["guarantee"]).max_rows == 3
    assert list(pd.read_csv("out.csv").columns) == ["sex", "age"]


def test_commands_that_know_no_unit_or_another_say_so(at, fails, tmp_path):
    rows = f"{at}/visits.csv --schema {at}/unit.toml"
    ask = "--impute age --match sex 'mean(age)' --epsilon 1"
    fails(3, "a statistic treats each row separately", f"query {rows} {ask}")
    holed = "-o holed.csv --rate 0.1 --seed 1"
    fails(3, "a simulation treats each row separately", f"simulate {rows} {holed}")
    assert not list(tmp_path.iterdir())


def test_a_ledger_adds_up_releases_of_one_unit_only(at, ok, told, fails):
    ledger = "--ledger sqlite:///budget.db"
    for name, more in (("rows", ""), ("persons", f"--schema {at}/unit.toml")):
        ok(f"ledger create --account {name} {ledger} --epsilon 4 --delta 1e-5 {more}")
    fit = f"synthesize {at}/visits.csv --epsilon 1 --schema {at}"
    fails(2, "protects each 'row'", f"{fit}/unit.toml -o a.csv {ledger} --account rows")
    found = told(f"{fit}/unit.toml -o b.csv {ledger} --account persons")
    assert Guarantee.from_dict(found["guarantee"]).unit == "person"
    fails(2, "protects each 'person'", f"{fit}/rows.toml -o c.csv {ledger} --account persons")


@pytest.mark.long
def test_synthesize_weighs_rows_and_evaluate_knows(at, ok, told):
    ok(f"synthesize {at}/weighted.csv --schema {at}/wt.toml -o out.csv --epsilon 20")
    share = (pd.read_csv("out.csv")["sex"] == "f").mean()
    assert share == pytest.approx(0.8, abs=0.03)
    pd.read_csv(at / "weighted.csv").assign(wt="40 kg").to_csv("kg.csv", index=False)
    check = f"schema check {at}/wt.toml"
    assert "domain: wt." in ok(f"{check} kg.csv")
    assert "domain" not in ok(f"{check} {at}/weighted.csv")
    weighed, plain = (
        told(f"evaluate {at}/{data}.csv out.csv --schema {at}/{schema}.toml")["marginals"]["1"]
        for schema, data in (("wt", "weighted"), ("s", "plain"))
    )
    assert weighed["mean"] < 0.03 < 0.1 < plain["mean"]
    pytest.importorskip("jinja2")
    Path("own").mkdir()
    ok(f"evaluate {at}/weighted.csv out.model.json --html own/page.html")
    ok(f"synthesize {at}/visits.csv --schema {at}/unit.toml -o people.csv --epsilon 1")
    ok(f"evaluate {at}/visits.csv people.model.json --html own/people.html")
    assert "Adding all rows of one person to the table" in Path("own/people.html").read_text()


def test_evaluate_chooses_the_rows_of_a_unit_once(at, told, monkeypatch):
    chosen, drawn = units.sample_rows_per_unit, []
    monkeypatch.setattr(
        units, "sample_rows_per_unit", lambda *one: drawn.append(one) or chosen(*one)
    )
    told(f"evaluate {at}/houses.csv {at}/plain.csv --schema {at}/house.toml")
    assert len(drawn) == 1


def test_units_that_count_as_one_are_declared_beside_weights(at, told, fails):
    facts, plain = (at / "house.toml").read_text(), (at / "s.toml").read_text()
    declared = facts.replace("max_rows = 1", 'max_rows = 2\ncounts_as = "one"')
    Path("own.toml").write_text(declared)
    fit = f"synthesize {at}/houses.csv --schema own.toml --epsilon 1"
    said = told(f"{fit} -o o.csv")
    assert said["guarantee"]["events"][0]["counts_as"] == "one"
    assert load("o.model.json").population_ == pytest.approx(37_500, rel=0.2)
    Path("own.toml").write_text(f'{plain}[weight]\ncolumn = "wt"\n')
    fails(3, "[weight]: upper is required", f"{fit} -o p.csv")


def test_possible_weights_are_marked_with_advice(at, ok, fails):
    asked = f"plan {at}/wt.toml --rows 3000 --epsilon 1"
    assert "A row counts 10.0% of the largest weight on average" in ok(f"{asked} --mean-weight 4")
    fails(2, "--mean-weight must be above 0", f"{asked} --mean-weight 41")
    draft_columns({"pweight": [1.5, 2.5] * 100, "age": [31, 70] * 100}).to_toml("d.toml")
    assert Path("d.toml").read_text().count("write [weight] above") == 1
