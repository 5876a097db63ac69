"""Commands that the page runs, each in a process of its own, with their progress."""

from __future__ import annotations

import contextlib
import json
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from missdp.app.child import MARK

Document = dict[str, Any]
_KINDS = {
    2: "An option is not valid",
    3: "The schema or the data do not fit",
    4: "The budget is too small",
    5: "A file cannot be written",
    6: "No guarantee is proven",
    7: "A package is missing",
    9: "The ledger cannot be used",
}


@dataclass(frozen=True)
class Problem:
    """An error of a step: its kind, its message with the remedy, and all that was charged."""

    step: str
    kind: str
    message: str
    released: tuple[str, ...] = ()

    @classmethod
    def of_document(cls, step: str, error: Document) -> Problem:
        """Return the problem of an error document of a command."""
        kind = _KINDS.get(error["exit_code"], "The command failed")
        return cls(step, kind, error["message"], tuple(error["released"]))


class Job:
    """A command that runs in a process of its own.

    Parameters
    ----------
    step : str
        The step of the page that started it.
    words : sequence of str
        The words of the command line, without ``missdp``.
    finish : callable
        Function that gets the JSON document of a command that succeeds.
    fail : callable
        Function that gets the `Problem` of a command that fails.
    """

    def __init__(
        self,
        step: str,
        words: Sequence[str],
        finish: Callable[[Document], None],
        fail: Callable[[Problem], None],
    ) -> None:
        self.step, self.words = step, tuple(words)
        self.stage, self.done = "starting", None
        self._finish, self._fail = finish, fail
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, "-m", "missdp.app.child", *words, "--json"],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._read_progress, daemon=True)
        self._waiter = threading.Thread(target=self._wait, daemon=True)
        self._reader.start()
        self._waiter.start()

    @property
    def is_running(self) -> bool:
        """Whether the command has not ended, or its result is not stored yet."""
        return self._waiter.is_alive()

    def stop(self) -> None:
        """Interrupt the command as Ctrl-C does. A charged model is saved first."""
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGINT)

    def wait(self) -> None:
        """Wait for the end of the command."""
        self._waiter.join()

    def _read_progress(self) -> None:
        for line in self._process.stderr or ():
            if line.startswith(MARK):  # other lines are in the document, too
                self.stage, self.done = json.loads(line[1:])

    def _wait(self) -> None:
        with self._process as process:  # closes the pipes at the end
            text = process.stdout.read() if process.stdout else ""
            self._reader.join()
        code = process.returncode
        document: Document = {}
        with contextlib.suppress(ValueError):
            document = json.loads(text)
        if code == 0 or (document and "error" not in document):
            self._finish(document)
        elif document:
            self._fail(Problem.of_document(self.step, document["error"]))
        else:
            why = "the command was stopped before its end. A charge of a ledger stays spent."
            self._fail(Problem(self.step, "The command was stopped", why))


def shown(words: Sequence[str]) -> str:
    """Return a command line as a person types it."""
    return shlex.join(["missdp", *words])
