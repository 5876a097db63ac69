"""What holds of every refusal, whatever refuses."""

import contextlib

import pytest


@contextlib.contextmanager
def refuses(kind, match=None):
    """Expect an error of ours: one line, of public facts, and no other error behind it."""
    with pytest.raises(kind, match=match) as caught:
        yield caught
    said = str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert "\n" not in said
    assert "secret" not in said.lower()


def refused(kind, match, call, *given, **named):
    """Expect a call to be refused so; return what was said."""
    with refuses(kind, match) as caught:
        call(*given, **named)
    return str(caught.value)
