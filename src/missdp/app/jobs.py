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
from typing import Any

from missdp.app.child import MARK

Document = dict[str, Any]
_STOPPED = "the command was stopped before its end. A charge of a ledger stays spent."


class Job:
    """A command that runs in a process of its own.

    Parameters
    ----------
    words : sequence of str
        The words of the command line, without ``missdp``.
    done : callable
        Function that gets the JSON document of the command. A command that fails has the key
        ``error`` there.
    """

    def __init__(self, words: Sequence[str], done: Callable[[Document], None]) -> None:
        self.stage, self.share = "starting", None
        self._done = done
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, "-m", "missdp.app.child", *words, "--json"],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
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
                self.stage, self.share = json.loads(line[1:])

    def _wait(self) -> None:
        with self._process as process:  # closes the pipes at the end
            text = process.stdout.read() if process.stdout else ""
            self._reader.join()
        document: Document = {"error": {"message": _STOPPED, "released": []}}
        with contextlib.suppress(ValueError):
            document = json.loads(text)
        self._done(document)


def shown(words: Sequence[str]) -> str:
    """Return a command line as a person types it."""
    return shlex.join(["missdp", *words])
