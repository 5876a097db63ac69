"""Conditions that hold for every refusal."""

import contextlib

import pytest


@contextlib.contextmanager
def refuses(kind, match=None):
    """Expect an error of missdp: one line of public facts, without a chained error."""
    with pytest.raises(kind, match=match) as caught:
        yield caught
    said = str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert "\n" not in said
    assert "secret" not in said.lower()


def refused(kind, match, call, *given, **named):
    """Expect a call to raise this error. Return its message."""
    with refuses(kind, match) as caught:
        call(*given, **named)
    return str(caught.value)
