"""Standard output and error, which may be full, closed or a pipe that nobody reads."""

from __future__ import annotations

import contextlib
import io
import os
import sys

from missdp.errors import OutputError, replacing

__all__ = ["check_stdout", "complain", "forgive_streams", "give_streams_up", "say"]


def check_stdout() -> None:
    """Refuse early, before any budget is spent, to print an answer to nowhere."""
    if sys.stdout is None or sys.stdout.closed:
        raise OutputError("cannot write to standard output: it is closed")


def say(text: str = "", *, end: str = "\n") -> None:
    """Print text for people as it is, and see it taken: a full disk shows here."""
    check_stdout()
    with replacing(OSError, by=_refusal):
        sys.stdout.write(text + end)
        sys.stdout.flush()


def complain(text: str) -> None:
    """Print a line on standard error, if anybody listens."""
    with contextlib.suppress(OSError, ValueError):  # full or closed: there is nowhere to say so
        if sys.stderr is not None:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()


def forgive_streams() -> None:
    """Show a question mark where a terminal cannot show a letter; that is no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def give_streams_up() -> None:
    """Give what cannot be printed up for lost, instead of a traceback at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _refusal(error: BaseException) -> OutputError:
    number = getattr(error, "errno", None)
    reason = os.strerror(number) if number else "the system refuses"
    return OutputError(f"cannot write to standard output: {reason}")
