"""The ``missdp`` command, a thin shell over the Python API.

Here is what all commands share without importing anything heavy: the two streams, how a result is
printed, and what a run has spent and released so far, so that no later failure hides it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Sequence
from typing import Any

from missdp.errors import OutputError, replacing


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


def _refusal(error: BaseException) -> OutputError:
    number = getattr(error, "errno", None)
    reason = os.strerror(number) if number else "the system refuses"
    return OutputError(f"cannot write to standard output: {reason}")


def complain(text: str) -> None:
    """Print a line on standard error, if anybody listens."""
    with contextlib.suppress(OSError, ValueError):  # full or closed: there is nowhere to say so
        if sys.stderr is not None:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()


class Run:
    """What the one command of this process has spent and released so far."""

    def __init__(self) -> None:
        self.start()

    def start(self, *, as_json: bool = False) -> None:
        """Begin: nothing is spent, nothing is out, and no result is printed."""
        self.as_json, self.is_answered = as_json, False
        self.quiet = self.overwrite = False
        self.cost = self.released = ""
        self.is_charged = False
        self.warnings: list[str] = []
        self._held: list[str] = []

    def note_cost(self, epsilon: float, delta: float = 0.0) -> None:
        """Note the most that this run may spend; private cells are read from now on."""
        self.cost = f"epsilon = {epsilon:g}" + (f", delta = {delta:g}" if delta else "")

    def note_charge(self) -> None:
        """Note that a ledger was charged: that stays spent, even if the run fails from now on."""
        self.is_charged = True

    def note_release(self, what: str) -> None:
        """Say what is out by now, and where it is or how to go on from it."""
        self.released = what
        while self._held:
            complain(self._held.pop(0))

    def note_warning(self, text: str) -> None:
        """Say a warning once, and keep it for the JSON document.

        Between the charge and the release it may tell of what is released: it waits for that.
        """
        line = f"missdp: warning: {text}"
        if text in self.warnings:
            return
        self.warnings.append(text)
        if self.cost and not self.released:
            self._held.append(line)
        else:
            complain(line)

    def what_is_out(self, *, in_doubt: bool) -> list[str]:
        """Return what a message about a failure has to add.

        It is in doubt whether anything was charged where the run may have stopped between charging
        and releasing. A refusal before `note_charge` comes before the charge, an interruption at
        any moment.
        """
        if self.released:
            return [f"This was released before, and is charged ({self.cost}):", self.released]
        if self.cost and in_doubt:
            charged = f"{self.cost} counts as charged: private cells were read."
            return [f"Nothing was released, but {charged}"]
        return []


RUN = Run()


def note(text: str) -> None:
    """Print a line on standard error that is no warning, unless only warnings are wanted."""
    if not RUN.quiet:
        complain(text)


def emit(document: dict[str, Any], text: str) -> None:
    """Print a result once: as JSON for machines, with any warnings, or as text for people."""
    if RUN.as_json:
        RUN.is_answered = True
        whole = {**document, "warnings": list(RUN.warnings)}
        say(json.dumps(finite(whole), ensure_ascii=False, indent=1, allow_nan=False))
    elif not RUN.quiet:
        say(text)


def emit_error(message: str, exit_code: int, released: Sequence[str] = ()) -> None:
    """Print an error as the one JSON object of a run that has printed no result."""
    if RUN.as_json and not RUN.is_answered:
        error = {"message": message, "exit_code": exit_code, "released": [*released]}
        with contextlib.suppress(OutputError):  # standard error has it anyway
            emit({"error": error}, "")


def finite(value: Any) -> Any:
    """Return the value with null for what JSON has no number for."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def counted(number: int, noun: str) -> str:
    """Return the number with its noun, in the plural where it belongs."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
