"""``missdp synthesize --ground-truth-epsilon``."""

import json

import numpy as np
import pytest

from missdp import Categorical, Schema, Table

SCHEMA = Schema(tuple(Categorical(name=n, levels=("x", "y"), nullable=n != "d") for n in "abd"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    codes = {n: rng.choice(3 if n != "d" else 2, 500) for n in "abd"}
    Table.from_codes(SCHEMA, codes).to_native().to_csv("data.csv", index=False)
    SCHEMA.to_toml("schema.toml")
    return tmp_path


START = (
    "synthesize",
    "data.csv",
    "--schema",
    "schema.toml",
    "-o",
    "out.csv",
    "--method",
    "privbayes",
)
ASKED = (*START, "--missing", "complete-rows", "--ground-truth-epsilon", "1")

RATES = "a=0.64,b=0.8"  # 0.512 of the rows are complete


def test_what_was_asked_leads_and_the_other_is_kept(folder, run):
    code, out, _ = run(*ASKED, "--observed", RATES, "--json")
    assert code == 0
    document = json.loads(out)
    truth, whole = document["ground_truth_guarantee"], document["guarantee"]
    assert truth["protects"] == "ground-truth"
    assert 0.999 < truth["epsilon"] <= 1.0
    assert whole["protects"] == "incomplete"
    assert 1.4 < whole["epsilon"] < 1.6
    code, out, _ = run("price", "out.model.json", "--ground-truth", "--observed", RATES, "--json")
    assert code == 0
    assert 0.999 < json.loads(out)["guarantee"]["epsilon"] <= 1.0


def test_in_words(folder, run):
    code, out, _ = run(*ASKED, "--p-max", "0.512", "--guarantee", "g.json")
    assert code == 0
    first, second = out.split("For the table with its holes:")
    assert "before values went missing" in first
    assert "including which of its cells are missing" in second
    stored = json.loads((folder / "g.json").read_text())
    assert stored["protects"] == "incomplete"
    assert 1.4 < stored["epsilon"] < 1.6
