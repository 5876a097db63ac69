"""``missdp query``."""

import json

import pytest

from missdp.cli.main import main
from missdp.datasets import yrbss
from missdp.statistics import Estimate

ASK = (
    "query",
    str(yrbss().path),
    "--schema",
    str(yrbss().schema_path),
    "--impute",
    "strength_training_7d",
    "--match",
    "age,gender,grade",
    "--epsilon",
    "2",
)
MEAN = ("--mean", "strength_training_7d")


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_a_mean_with_an_error_bar_and_a_guarantee(capsys):
    code, out, _ = run(capsys, *ASK, *MEAN, "--where", "age >= 15 and age < 17", "--json")
    assert code == 0
    answer = json.loads(out)
    assert Estimate.from_dict(answer).to_dict().items() <= answer.items()
    low, high = answer["interval"]
    assert 0 <= low <= answer["value"] <= high <= 7
    assert 2.3 < answer["value"] < 3.5
    assert answer["guarantee"]["epsilon"] == pytest.approx(2.0)


def test_what_the_missing_cells_could_hide(capsys):
    code, out, _ = run(capsys, *ASK, *MEAN, "--uncertainty", "worst-case", "--json")
    assert code == 0
    answer = json.loads(out)
    assert Estimate.from_dict(answer).to_dict().items() <= answer.items()
    low, high = answer["imputation_interval"]
    assert low <= answer["value"] <= high
    assert high - low > 0.3  # some 9 % of the answers are missing, and an answer is 0 to 7
    assert answer["guarantee"]["epsilon"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    "question",
    [
        ("--count", "--where", "strength_training_7d >= 3"),
        ("--proportion", "strength_training_7d >= 3"),
        ("--sum", "strength_training_7d"),
        ("--variance", "strength_training_7d"),
        ("--standard-deviation", "strength_training_7d"),
        ("--correlation", "strength_training_7d,physically_active_7d"),
        ("--histogram", "strength_training_7d"),
        (*MEAN, "--no-error-bar"),
        (*MEAN, "--uncertainty", "worst-case"),
    ],
)
def test_every_question(capsys, question):
    code, out, err = run(capsys, *ASK, *question)
    assert (code, err) == (0, ""), err
    assert "differentially private" in out


@pytest.mark.parametrize(
    ("extra", "code", "says"),
    [
        ((), 2, "exactly one"),
        ((*MEAN, "--count"), 2, "exactly one"),
        ((*MEAN, "--epsilon", "0"), 2, "epsilon"),
        ((*MEAN, "--k", "0"), 2, "k"),
        (("--proportion", "age >"), 2, "--proportion: expected"),
        ((*MEAN, "--where", "age >>> 3"), 2, "where"),
        ((*MEAN, "--where", "__import__('os')"), 2, ""),
        (("--mean", "race"), 2, "numeric"),
        (("--mean", "nobody"), 3, "nobody"),
        ((*MEAN, "--match", "nobody"), 3, "nobody"),
        (("--correlation", "age"), 2, "2 attribute"),
    ],
)
def test_bad_questions(capsys, extra, code, says):
    found, out, err = run(capsys, *ASK, *extra)
    assert (found, out) == (code, ""), err
    assert says in err
    assert "unexpected" not in err
