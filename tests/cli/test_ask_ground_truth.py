"""``missdp synthesize --ground-truth-epsilon``."""

import json

import numpy as np
import pytest

from missdp import Categorical, Schema, Table
from missdp.cli.main import main

SCHEMA = Schema(tuple(Categorical(name=n, levels=("x", "y"), nullable=n != "d") for n in "abcd"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    codes = {n: rng.choice(3 if n != "d" else 2, 3000) for n in "abcd"}
    Table.from_codes(SCHEMA, codes).to_native().to_csv("data.csv", index=False)
    SCHEMA.to_toml("schema.toml")
    return tmp_path


START = ("synthesize", "data.csv", "--schema", "schema.toml", "-o", "out.csv", "--method", "mst")
ASKED = (*START, "--missing", "complete-rows", "--ground-truth-epsilon", "1")


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.mark.parametrize(
    "stated",
    [("--observed", "0.8"), ("--observed", "a=0.8,b=0.8,c=0.8"), ("--p-max", "0.512")],
)
def test_what_was_asked_leads_and_the_other_is_kept(folder, capsys, stated):
    code, out, _ = run(capsys, *ASKED, *stated, "--json")
    assert code == 0
    document = json.loads(out)
    truth, whole = document["ground_truth_guarantee"], document["guarantee"]
    assert truth["protects"] == "ground-truth"
    assert 0.999 < truth["epsilon"] <= 1.0
    assert whole["protects"] == "incomplete"
    assert 1.4 < whole["epsilon"] < 1.6


def test_in_words(folder, capsys):
    code, out, _ = run(capsys, *ASKED, "--observed", "0.8", "--guarantee", "g.json")
    assert code == 0
    first, second = out.split("For the table with its holes:")
    assert "before values went missing" in first
    assert "completely at random" in first
    assert "including which of its cells are missing" in second
    assert json.loads((folder / "g.json").read_text())["protects"] == "incomplete"
    model = "out.model.json"
    code, out, _ = run(capsys, "price", model, "--ground-truth", "--observed", "0.8", "--json")
    assert code == 0
    assert 0.999 < json.loads(out)["guarantee"]["epsilon"] <= 1.0


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ((), "either --epsilon or --ground-truth-epsilon"),
        (("--epsilon", 1, "--ground-truth-epsilon", 1), "either"),
        (("--ground-truth-epsilon", 1), "--observed, --p-max or --row-independent"),
        (("--epsilon", 1, "--p-max", 0.5), "--ground-truth-epsilon"),
        (("--ground-truth-epsilon", 1, "--p-max", 0.5, "--row-independent"), "one assumption"),
        (("--ground-truth-epsilon", 1, "--observed", "much"), "age=0.9"),
        (("--ground-truth-epsilon", 1, "--observed", "1.5"), "[0, 1]"),
        (("--ground-truth-epsilon", 1, "--observed", "nosuch=0.5"), "nosuch"),
        (("--ground-truth-epsilon", 1, "--observed", "d=0.5"), "never missing"),
        (("--ground-truth-epsilon", 0, "--p-max", 0.5), "epsilon must be"),
        (("--ground-truth-epsilon", 99, "--p-max", 0.5), "at most"),
    ],
)
def test_refusals_before_anything_is_read(folder, capsys, extra, says):
    (folder / "data.csv").write_text("not read")
    code, out, err = run(capsys, *START, *extra)
    assert (code, out) == (2, "")
    assert says in err
    assert not (folder / "out.csv").exists()
