"""Commands that know what rows count."""

import json

import numpy as np
import pandas as pd
import pytest

from missdp import load
from missdp.table import draft_columns, units

SCHEMA = """{}
[[attribute]]
name = "sex"
kind = "categorical"
levels = ["f", "m"]

[[attribute]]
name = "ill"
kind = "categorical"
levels = ["no", "yes"]
nullable = true
"""


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    folder = tmp_path_factory.mktemp("survey")
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 3000)
    frame = pd.DataFrame({"house": np.arange(3000) // 2, "wt": np.where(sex == "f", 40, 10)})
    frame = frame.assign(sex=sex, ill=rng.choice(["no", "yes", None], 3000))
    frame.drop(columns="house").to_csv(folder / "rows.csv", index=False)
    frame.to_csv(folder / "houses.csv", index=False)
    (folder / "s.toml").write_text(SCHEMA.format(""))
    (folder / "wt.toml").write_text(SCHEMA.format('weight = "wt"\nweight_upper = 40'))
    return folder


def test_synthesize_weighs_rows_and_evaluate_knows(survey, ok, tmp_path):
    made = tmp_path / "out.csv"
    how = ("--schema", survey / "s.toml", "--weight", "wt", "--weight-upper", 40)
    ok("synthesize", survey / "rows.csv", *how, "-o", made, "--epsilon", 20, "--json")
    share = (pd.read_csv(made)["sex"] == "f").mean()
    assert share == pytest.approx(0.8, abs=0.03)
    pytest.importorskip("jinja2")
    distances, rows = {}, pd.read_csv(survey / "rows.csv")
    rows.drop(columns="wt").to_csv(survey / "plain.csv", index=False)
    rows.assign(wt="40 kg").to_csv(tmp_path / "kg.csv", index=False)
    assert "domain: wt." in ok("schema", "check", survey / "wt.toml", tmp_path / "kg.csv")
    assert "domain" not in ok("schema", "check", survey / "wt.toml", survey / "rows.csv")
    for schema, data in (("wt.toml", "rows.csv"), ("s.toml", "plain.csv")):
        said = ok("evaluate", survey / data, made, "--schema", survey / schema, "--json")
        distances[schema] = json.loads(said)["marginals"]["1"]["mean"]
    assert distances["wt.toml"] < 0.03 < 0.1 < distances["s.toml"]
    (page := tmp_path / "own" / "page.html").parent.mkdir()
    ok("report", tmp_path / "out.model.json", "--private", survey / "rows.csv", "-o", page)


def test_evaluate_chooses_the_rows_of_a_unit_once(survey, ok, tmp_path, monkeypatch):
    facts = 'unit = "house"\nmax_rows = 1\nweight = "wt"\nweight_upper = 40'
    (tmp_path / "s.toml").write_text(SCHEMA.format(facts))
    chosen, drawn = units.chosen, []
    monkeypatch.setattr(units, "chosen", lambda *one: drawn.append(one) or chosen(*one))
    data = survey / "houses.csv"
    pd.read_csv(data)[["sex", "ill"]].to_csv(tmp_path / "made.csv", index=False)
    ok("evaluate", data, tmp_path / "made.csv", "--schema", tmp_path / "s.toml", "--json")
    assert len(drawn) == 1


def test_units_that_count_as_one_are_asked_for_beside_weights(survey, ok, fails, tmp_path):
    unit = ("--schema", survey / "s.toml", "--unit", "house", "--max-rows", 2)
    weight = ("--weight", "unit", "--weight", "wt", "--weight-upper", 40)
    asked = ("synthesize", survey / "houses.csv", *unit, "-o", tmp_path / "o.csv", "--epsilon", 1)
    said = json.loads(ok(*asked, *weight, "--json"))
    assert said["guarantee"]["events"][0]["counts"] == "unit"
    assert load(tmp_path / "o.model.json").population_ == pytest.approx(37_500, rel=0.2)
    output = ("-o", tmp_path / "p.csv", "--epsilon", 1)
    fails(3, "weight_upper", *asked[:2], *unit, "--weight", "wt", *output)
    fails(2, "--weight-upper is for", *asked[:2], *unit, "--weight-upper", 9, *output)
    declared = ("--schema", survey / "wt.toml", "--weight", "wt", "--weight-upper", 9)
    fails(2, "leave --weight out", "synthesize", survey / "rows.csv", *declared, *output)


def test_a_plan_says_what_a_generous_upper_end_costs(survey, ok, fails):
    asked = ("plan", survey / "wt.toml", "--rows", 3000, "--epsilons", 1)
    said = ok(*asked, "--mean-weight", 4)
    assert "A row counts 10.0% of weight_upper on average" in said
    fails(2, "--mean-weight is above 0", *asked, "--mean-weight", 41)


def test_a_draft_marks_what_may_be_a_weight_for_a_person(tmp_path):
    draft_columns({"pweight": [1.5, 2.5] * 100, "age": [31, 70] * 100}).to_toml(tmp_path / "d.toml")
    written = (tmp_path / "d.toml").read_text()
    assert written.count("write weight = and its name") == 1
