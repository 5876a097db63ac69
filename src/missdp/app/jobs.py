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
        self._process = subprocess.Popen(
            [sys.executable, "-m", "missdp.app.child", *words, "--json"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # its lines are in the document, too
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def is_running(self) -> bool:
        """Whether the command has not ended, or its result is not stored yet."""
        return self._reader.is_alive()

    def stop(self) -> None:
        """Interrupt the command as Ctrl-C does. A charged model is saved first."""
        self._process.send_signal(signal.SIGINT)

    def wait(self) -> None:
        """Wait for the end of the command."""
        self._reader.join()

    def _read(self) -> None:
        """Read lines with progress, and then the document."""
        lines = []
        document: Document = {"error": {"message": _STOPPED, "released": []}}
        # A command that dies may leave half a line. The page then states that it stopped.
        with contextlib.suppress(ValueError), self._process as process:  # closes the pipes
            for line in process.stdout or ():
                if line.startswith(MARK):
                    self.stage, self.share = json.loads(line[1:])
                else:
                    lines.append(line)
            document = json.loads("".join(lines))
        self._done(document)


def shown(words: Sequence[str]) -> str:
    """Return a command line as a person types it."""
    return shlex.join(["missdp", *words])
