"""Run a command for the page: ``python -m missdp.app.child WORD...``.

The command is the ordinary command line. Its progress goes to standard output before its document,
one JSON text in a line. Standard input is a pipe from the server. If the server dies, the pipe
ends, and the command gets the signal that a terminal sends to it when it closes.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import sys
import threading
import time
from typing import Any

from missdp.progress import send_progress

MARK = "\x1f"  # begins each line with progress
_MIN_SECONDS = 0.1  # seconds between two lines about one stage
_sent: list[Any] = ["", 0.0]  # the last stage, and the time of the last line


def _send(stage: str, done: float | None) -> None:
    """Write the stage and the share that is done, but not too often."""
    now = time.monotonic()
    if stage == _sent[0] and now - _sent[1] < _MIN_SECONDS:
        return
    _sent[:] = [stage, now]
    with contextlib.suppress(OSError):  # without a server, the signal ends the command
        sys.stdout.write(f"{MARK}{json.dumps([stage, done])}\n")
        sys.stdout.flush()


def _stop_with_server() -> None:
    """Wait until the server's end of the pipe is closed, then stop as on a signal."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_stop_with_server, daemon=True).start()
    send_progress(_send)
    sys.argv[0] = "missdp"
    runpy.run_module("missdp", run_name="__main__", alter_sys=True)
