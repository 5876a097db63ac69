"""Expected errors, as promises of the kit: a broken one becomes a finding."""

from collections.abc import Iterator
from contextlib import contextmanager

from missdp.testing.findings import ErrorCatcher, expect


@contextmanager
def refuses(kind: type[Exception], what: str, *, containing: str = "") -> Iterator[None]:
    """Expect an error of a kind, whose message contains some text. Others pass through."""
    with ErrorCatcher() as caught:
        yield
    expect(caught.error is not None, f"{what} must be refused with {kind.__name__}")
    if caught.error is not None and not isinstance(caught.error, kind):
        raise caught.error
    named = containing in str(caught.error)
    expect(named, f"the refusal of {what} should mention {containing!r}")
