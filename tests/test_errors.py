"""Errors carry no private value, not even in their context."""

import ast
from fractions import Fraction
from pathlib import Path

import pytest

from missdp import Categorical, Numeric, Schema, Table
from missdp.cli.main import main
from missdp.errors import (
    DataError,
    MissDPError,
    OutputError,
    ParameterError,
    number,
    replacing,
    whole,
)
from missdp.evaluate import classifier_f1
from missdp.preprocess import load_pipeline
from missdp.schema import Determined, Impossible, NotApplicable
from missdp.schema.predicates import parse_names, parse_where
from missdp.sources.strategies import strategy_named


def test_replaced_error_keeps_nothing_of_the_original():
    with pytest.raises(DataError) as caught, replacing(ValueError, by=DataError("public")):
        float("private")
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_other_errors_pass():
    with pytest.raises(KeyError), replacing(ValueError, by=DataError("public")):
        raise KeyError


def test_public_facts_of_the_original_can_be_used():
    def refusal(error: BaseException) -> OutputError:
        return OutputError(getattr(error, "strerror", None))

    with pytest.raises(OutputError, match="No such file") as caught, replacing(OSError, by=refusal):
        Path("/nonexistent/private").read_text()
    assert caught.value.__context__ is None


SOURCE = Path(__file__).parents[1] / "src" / "missdp"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.name)
def test_no_error_is_raised_while_another_is_handled(path):
    """An error raised in an ``except`` block keeps the one that it replaces in its context."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    handlers = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
    raised = [
        node.lineno
        for handler in handlers
        for node in ast.walk(handler)
        if isinstance(node, ast.Raise) and node.exc is not None
    ]
    assert not raised, "use missdp.errors.replacing, or raise outside the except block"


def test_numbers_too_large_for_floats_are_refused_like_others():
    for huge in (10**400, Fraction(10**400), -(10**400)):
        with pytest.raises(ParameterError, match="finite"):
            number("share", huge)
    assert whole("rows", 10**400) == 10**400
    with pytest.raises(ParameterError, match="whole"):
        whole("rows", Fraction(10**400))


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
        lambda: Schema((AGE, WORK), (Impossible("agee > 3"),)),
    ),
    "'retired'?": (
        lambda: parse_where("work in ('employed', 'retird')", SCHEMA),
        lambda: Schema((AGE, WORK), (NotApplicable("age", unless="work = 'Retird'"),)),
        lambda: Schema((AGE, WORK), (Determined("age", by="work", map=(("retird", 1),)),)),
    ),
    "'levels'?": (lambda: Categorical(name="work", levls=("a",)),),  # type: ignore[call-arg]
    "'observed'?": (lambda: strategy_named("obsrved"),),
    "'MLP'?": (lambda: classifier_f1(ROWS, ROWS, random_state=0, learners=["MLPP"]),),
}


@pytest.mark.parametrize(
    ("meant", "call"), [(meant, call) for meant, calls in MISSPELT.items() for call in calls]
)
def test_a_misspelt_name_is_answered_with_the_one_that_is_meant(meant, call):
    with pytest.raises(MissDPError) as raised:
        call()
    assert f"; did you mean {meant}" in str(raised.value)


def test_so_are_misspelt_commands_and_settings_of_pipelines(tmp_path, capsys):
    assert main(["synthesise", "rows.csv"]) == 2
    assert "did you mean 'synthesize'?" in capsys.readouterr().err
    text = "delta = 1e-6\n[table]\nrows = 9\ncolums = 2\n[mechanism]\nkind = 'mean'\n"
    (tmp_path / "pipeline.toml").write_text(text)
    with pytest.raises(ParameterError, match=r"did you mean 'columns'\?"):
        load_pipeline(tmp_path / "pipeline.toml")


def test_only_public_names_are_proposed(tmp_path):
    guessed = Schema((Categorical(name="w", levels=("secret",), undeclared=("levels",)),))
    with pytest.raises(ParameterError, match="not a level") as raised:
        parse_where("w = 'secrt'", guessed)
    assert "secret" not in str(raised.value)
    rows = tmp_path / "no-header.csv"
    rows.write_text("ages,working\n31,employed\n")  # a header, or the cells of the first row
    with pytest.raises(DataError, match="lacks columns") as missing:
        Table.read(rows, SCHEMA)
    assert "ages" not in str(missing.value)
    with pytest.raises(MissDPError) as unlike:
        SCHEMA["zzz"]
    assert "did you mean" not in str(unlike.value)
