"""Errors carry no private value, not even in their context."""

import ast
from fractions import Fraction
from pathlib import Path

import pytest

from missdp.errors import DataError, OutputError, ParameterError, number, replacing, whole


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
