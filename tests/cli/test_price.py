"""``missdp price``."""

import json

import numpy as np
import pytest

from missdp import PrivBayes
from missdp.datasets import yrbss
from missdp.pricing import column_names
from missdp.pricing.prices import Price


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.json"
    rows = yrbss().table().take(np.arange(1000))
    PrivBayes(epsilon=1.0, missing="complete-rows").fit(rows).save(path)
    return str(path)


def test_without_ground_truth_it_is_the_guarantee(model, ok):
    assert "-differentially private" in ok("price", model)


def test_ground_truth(model, run, ok):
    rates = ",".join(f"{name}=0.9" for name in yrbss().schema().names)
    code, out, _ = run("price", model, "--ground-truth", "--observed", rates, "--json")
    found = json.loads(out)["guarantee"]
    assert code == 0
    assert found["protects"] == "ground-truth"
    assert 0.3 < found["epsilon"] < 0.45
    assert "does not depend on any other row" in ok(
        "price", model, "--ground-truth", "--row-independent"
    )
    code, out, _ = run("price", model, "--ground-truth", "--p-max", 0.5, "--json")
    assert json.loads(out)["guarantee"]["epsilon"] < 0.7


PIPELINE = """
delta = 1e-6
[table]
rows = 1000
columns = 4
complete = false
[[step]]
kind = "impute-mean"
max_incomplete = 30
[[step]]
kind = "pca-rank"
n_components = 2
least_gap = 0.2
[mechanism]
kind = "mean"
noise_multiplier = 8.0
"""


@pytest.fixture
def pipeline(tmp_path):
    (tmp_path / "p.toml").write_text(PIPELINE)
    return tmp_path / "p.toml"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("least_gap = 0.2\n", "[[step]] 2 (pca-rank) needs least_gap"),
        ("noise_multiplier = 8.0\n", "[mechanism] (mean) needs noise_multiplier"),
        ("max_incomplete = 30\n", "[[step]] 1 (impute-mean) needs max_incomplete"),
    ],
)
def test_what_a_step_lacks_is_named_as_in_the_file(pipeline, run, line, says):
    pipeline.write_text(PIPELINE.replace(line, ""))
    code, out, err = run("price", pipeline)
    assert (code, out, err) == (2, "", f"missdp: {says}\n")


def test_a_pipeline_costs_more_than_its_last_step_claims(pipeline, run, ok):
    code, out, _ = run("price", pipeline, "--json")
    found = json.loads(out)
    assert Price.from_dict(found).to_dict() == {k: v for k, v in found.items() if k != "warnings"}
    assert code == 0
    assert found["epsilon"] > found["naive_epsilon"] > 0
    assert found["adjacency"] == "replace-one"
    out = ok("price", pipeline, "--delta", 1e-9)
    assert "naive claim (wrong here)" in out
    assert "conditions:" in out


def test_a_picture_of_the_price(pipeline, run, ok, tmp_path):
    pytest.importorskip("matplotlib")
    ok("price", pipeline, "--plot", tmp_path / "p.svg")
    assert (tmp_path / "p.svg").stat().st_size > 1000
    assert run("price", pipeline, "--plot", tmp_path / "no" / "p.svg")[0] == 5


BY_MODEL = """
delta = 1e-6
[table]
rows = 2000
columns = {columns}
radius = 3.0
complete = false
[[step]]
kind = "impute-model"
model = "{model}"
[mechanism]
kind = "mean"
noise_multiplier = 8.0
"""


def test_a_step_that_fills_by_a_saved_model_moves_no_row(model, run, ok, tmp_path, fails):
    columns = len(column_names(yrbss().schema()))
    path = tmp_path / "p.toml"
    path.write_text(BY_MODEL.format(columns=columns, model=model))
    out = ok("price", path, "--json")
    found = Price.from_dict({k: v for k, v in json.loads(out).items() if k != "warnings"})
    assert found.steps[0].transformer == "DPImputer"
    assert found.steps[0].rows_moved == 0
    assert found.epsilon == found.naive_epsilon
    path.write_text(BY_MODEL.format(columns=columns + 1, model=model))
    fails(2, f"makes {columns} columns", "price", path)
    path.write_text(BY_MODEL.format(columns=columns, model="none.json"))
    assert run("price", path)[0] == 3
