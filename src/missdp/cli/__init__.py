"""The ``missdp`` command, a thin shell over the Python API.

Here is what all commands share without importing anything heavy: the two streams, and what a run
has spent and released so far, so that no later failure hides it.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from dataclasses import dataclass, field

from missdp.errors import OutputError, replacing

__all__ = [
    "allow_unprintable",
    "check_stdout",
    "complain",
    "flush_or_drop",
    "note_release",
    "note_spending",
    "note_warning",
    "released_anything",
    "say",
    "start_run",
    "warning_texts",
    "what_is_out",
]


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


def allow_unprintable() -> None:
    """Show a question mark where a terminal cannot show a letter; that is no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def flush_or_drop() -> None:
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


@dataclass
class _Outcome:
    """What the run has spent and released so far, so that no later failure hides it."""

    cost: str = ""
    released: str = ""
    warnings: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)


# One command runs per process; `start_run` forgets the one before.
_runs = [_Outcome()]


def start_run() -> None:
    """Begin a run: nothing is spent and nothing is out."""
    _runs[:] = [_Outcome()]


def note_spending(epsilon: float, delta: float = 0.0) -> None:
    """Say that from now on private cells are read, at this cost in all."""
    _runs[0].cost = f"epsilon = {epsilon:g}" + (f", delta = {delta:g}" if delta else "")


def note_release(what: str) -> None:
    """Say what is out by now, and where it is or how to go on from it."""
    _runs[0].released = what
    while _runs[0].held:
        complain(_runs[0].held.pop(0))


def released_anything() -> bool:
    """Return whether a failure from here on would hide a release."""
    return bool(_runs[0].released)


def note_warning(text: str) -> None:
    """Say a warning, and keep it for the JSON document.

    What is said between the charge and the release may tell of what is released: it waits for it.
    """
    now, line = _runs[0], f"missdp: warning: {text}"
    if text not in now.warnings:
        now.warnings.append(text)
    if now.cost and not now.released:
        now.held.append(line)
    else:
        complain(line)


def warning_texts() -> list[str]:
    """Return the warnings of this run, in order."""
    return list(_runs[0].warnings)


def what_is_out(*, in_doubt: bool) -> list[str]:
    """Return what a message about a failure has to add.

    Parameters
    ----------
    in_doubt : bool
        Whether the run may have stopped between charging and releasing. A refusal on purpose comes
        before the charge, an interruption at any moment.
    """
    now = _runs[0]
    if now.released:
        return [f"This was released before, and is charged ({now.cost}):", now.released]
    if now.cost and in_doubt:
        return [f"Nothing was released, but {now.cost} counts as charged: private cells were read."]
    return []
