"""Errors carry no private value, not even in their context."""

from fractions import Fraction
from pathlib import Path

import pytest

from missdp import Categorical, Numeric, Schema, Table
from missdp.cli.main import main
from missdp.cli.pipeline_files import load_pipeline
from missdp.errors import (
    DataError,
    MissDPError,
    OutputError,
    ParameterError,
    check_epsilon,
    check_integer,
    check_number,
    replacing,
)
from missdp.evaluate import classifier_f1
from missdp.schema import Determined, Never, NotApplicable
from missdp.schema.expressions import parse_names, parse_where
from missdp.schema.question_text import parse_question
from missdp.sources import strategy_named
from refusing import refused, refuses


def test_a_replaced_error_keeps_nothing_of_the_original_but_public_facts():
    def refusal(error):
        return OutputError(getattr(error, "strerror", None))

    with refuses(DataError) as caught, replacing(ValueError, by=DataError("public")):
        float("private")
    with refuses(OutputError, "No such file") as replaced, replacing(OSError, by=refusal):
        Path("/nonexistent/private").read_text()
    for error in (caught.value, replaced.value):
        assert error.__cause__ is error.__context__ is None
    with pytest.raises(KeyError), replacing(ValueError, by=DataError("public")):
        raise KeyError


def test_numbers_too_large_for_floats_are_refused_like_others():
    for huge in (10**400, Fraction(10**400), -(10**400)):
        refused(ParameterError, "finite", check_number, "share", huge)
    assert check_integer("rows", 10**400) == 10**400
    refused(ParameterError, "whole", check_integer, "rows", Fraction(10**400))


AGE = Numeric(name="age", lower=0, upper=99)
WORK = Categorical(name="work", levels=("employed", "retired"))
SCHEMA = Schema((AGE, WORK))
ROWS = Table.from_codes(SCHEMA, {"age": [1, 2], "work": [0, 1]})
MISSPELT = {
    "'age'?": (
        lambda: SCHEMA["agee"],
        lambda: SCHEMA["AGE"],
        lambda: parse_names("work,agee", SCHEMA),
        lambda: parse_where("agee > 3", SCHEMA),
        lambda: Schema((AGE, WORK), (NotApplicable("agee", unless="work = 'employed'"),)),
        lambda: Schema((AGE, WORK), (Never("agee > 3"),)),
    ),
    "'retired'?": (
        lambda: parse_where("work in ('employed', 'retird')", SCHEMA),
        lambda: Schema((AGE, WORK), (NotApplicable("age", unless="work = 'Retird'"),)),
        lambda: Schema((AGE, WORK), (Determined("age", by="work", map=(("retird", 1),)),)),
    ),
    "'levels'?": (lambda: Categorical(name="work", levls=("a",)),),
    "'categorical'?": (
        lambda: Schema.from_dict({"attribute": [{"name": "w", "kind": "categoric"}]}),
    ),
    "'upper'?": (lambda: Schema.from_dict({"attribute": [{**AGE.to_dict(), "uper": 9}]}),),
    "'mean'?": (lambda: parse_question("average(age)", SCHEMA),),
    "'observed'?": (lambda: strategy_named("obsrved"),),
    "'RandomForest'?": (
        lambda: classifier_f1(ROWS, ROWS, random_state=0, learners=["RandomForst"]),
    ),
}


def test_a_misspelt_name_is_answered_with_the_one_that_is_meant(tmp_path, capsys):
    for meant, call in ((meant, call) for meant, calls in MISSPELT.items() for call in calls):
        with refuses(MissDPError) as raised:
            call()
        assert f". Did you mean {meant}" in str(raised.value)
    assert main(["synthesise", "rows.csv"]) == 2
    assert "Did you mean 'synthesize'?" in capsys.readouterr().err
    text = "delta = 1e-6\n[table]\nrows = 9\ncolums = 2\n[mechanism]\nkind = 'mean'\n"
    (tmp_path / "pipeline.toml").write_text(text)
    refused(ParameterError, r"Did you mean 'columns'\?", load_pipeline, tmp_path / "pipeline.toml")


def test_only_public_names_are_proposed(tmp_path):
    guessed = Schema((Categorical(name="w", levels=("secret",), undeclared=("levels",)),))
    refused(ParameterError, "not a level", parse_where, "w = 'secrt'", guessed)
    rows = tmp_path / "no-header.csv"
    rows.write_text("ages,working\n31,employed\n")  # a header, or the cells of the first row
    with refuses(DataError, "the data does not have") as missing:
        Table.read(rows, SCHEMA)
    assert "ages" not in str(missing.value)
    with refuses(MissDPError) as unlike:
        SCHEMA["zzz"]
    assert "Did you mean" not in str(unlike.value)


@pytest.mark.parametrize("wrong", [10**400, True, "1", None, float("nan")])
def test_an_epsilon_that_is_no_finite_number_is_named_so(wrong):
    with refuses(ParameterError, "epsilon must be a finite number"):
        check_epsilon(wrong)
