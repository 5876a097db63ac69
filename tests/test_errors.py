"""Errors carry no private value, not even in their context."""

from pathlib import Path

import pytest

from missdp.errors import DataError, OutputError, replacing


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
