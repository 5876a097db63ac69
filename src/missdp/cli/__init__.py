"""The ``missdp`` command, a thin layer over the Python API.

This module has the shared parts of all commands, without slow imports: the two streams, and the
output of results. It also records the costs and the releases of the run, so that no later failure
hides them.
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
    """Raise OutputError before any budget is spent, if standard output is closed."""
    if sys.stdout is None or sys.stdout.closed:
        raise OutputError("cannot write to standard output: it is closed")


def print_text(text: str = "", *, end: str = "\n") -> None:
    """Print text to standard output. Raise OutputError if it cannot be written."""
    check_stdout()
    with replacing(OSError, by=_refusal):
        sys.stdout.write(text + end)
        sys.stdout.flush()


def _refusal(error: BaseException) -> OutputError:
    """Return the error about standard output."""
    number = getattr(error, "errno", None)
    reason = os.strerror(number) if number else "the system refuses"
    return OutputError(f"cannot write to standard output: {reason}")


def print_error(text: str) -> None:
    """Print a line to standard error, if that is possible."""
    with contextlib.suppress(OSError, ValueError):  # standard error is full or closed
        if sys.stderr is not None:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()


class Run:
    """Record of the costs and the releases of the command of this process."""

    def __init__(self) -> None:
        self.start()

    def start(self, *, as_json: bool = False) -> None:
        """Reset the record: no cost, no release, and no printed result."""
        self.as_json, self.is_answered = as_json, False
        self.quiet = self.overwrite = False
        self.cost = self.released = ""
        self.is_charged = False
        self.warnings: list[str] = []
        self._held: list[str] = []

    def note_cost(self, epsilon: float, delta: float = 0.0) -> None:
        """Record the largest cost of this run. Private cells may be read afterwards."""
        self.cost = f"epsilon = {epsilon:g}" + (f", delta = {delta:g}" if delta else "")

    def note_charge(self) -> None:
        """Record a charge to a ledger. It stays spent, even if the run fails later."""
        self.is_charged = True

    def note_release(self, text: str) -> None:
        """Record a release, with its place or the next step, and print withheld warnings."""
        self.released = text
        while self._held:
            print_error(self._held.pop(0))

    def note_warning(self, text: str) -> None:
        """Print a warning once, and store it for the JSON document.

        Between charge and release, a warning may depend on the release. It is then withheld until
        the release.
        """
        line = f"missdp: warning: {text}"
        if text in self.warnings:
            return
        self.warnings.append(text)
        if self.cost and not self.released:
            self._held.append(line)
        else:
            print_error(line)

    def costs_and_releases(self, *, in_doubt: bool) -> list[str]:
        """Return the lines about costs and releases for a message about a failure.

        With ``in_doubt`` the run may have stopped between charge and release. An error before
        `note_charge` precedes the charge. An interruption may happen at any time.
        """
        if self.released:
            return [f"This was released before, and is charged ({self.cost}):", self.released]
        if self.cost and in_doubt:
            charged = f"{self.cost} counts as charged: private cells were read."
            return [f"Nothing was released, but {charged}"]
        return []


RUN = Run()


def note(text: str) -> None:
    """Print a note to standard error, unless only warnings are requested."""
    if not RUN.quiet:
        print_error(text)


def emit(document: dict[str, Any], text: str) -> None:
    """Print a result once: as JSON with all warnings, or as text."""
    if RUN.as_json:
        RUN.is_answered = True
        complete = {**document, "warnings": list(RUN.warnings)}
        print_text(json.dumps(finite(complete), ensure_ascii=False, indent=1, allow_nan=False))
    elif not RUN.quiet:
        print_text(text)


def emit_error(message: str, exit_code: int, released: Sequence[str] = ()) -> None:
    """Print an error as JSON, if the run has printed no result.

    Parameters
    ----------
    message : str
        The text of the error, without private values.
    exit_code : int
        The exit code of the process.
    released : sequence of str
        Lines about costs and releases.
    """
    if RUN.as_json and not RUN.is_answered:
        error = {"message": message, "exit_code": exit_code, "released": [*released]}
        with contextlib.suppress(OutputError):  # standard error has the message
            emit({"error": error}, "")


def finite(value: Any) -> Any:
    """Return a value with null for numbers that are not finite, which JSON lacks."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
