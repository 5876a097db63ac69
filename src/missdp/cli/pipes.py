"""`-` in place of a file: rows from standard input, results to standard output."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any

from missdp.cli import check_stdout, complain, say
from missdp.errors import DataError, OutputError, ParameterError, replacing

PIPE = "-"


@contextlib.contextmanager
def as_file(data: str) -> Iterator[str]:
    """Yield the path of a file: of standard input, which is read once, a copy that is removed.

    Where the system can do that the copy has no name of its own, so that nothing is left of it
    when the process ends, however it ends.
    """
    if data != PIPE:
        yield data
        return
    with tempfile.TemporaryDirectory(prefix="missdp-") as folder:  # for this user alone
        path = Path(folder, "standard-input.csv")
        kept = DataError("standard input cannot be read, or kept in a temporary file")
        with contextlib.ExitStack() as stack:
            with replacing(OSError, ValueError, AttributeError, by=kept):
                file = stack.enter_context(path.open("wb"))
                nameless = Path(f"/proc/{os.getpid()}/fd/{file.fileno()}")
                if nameless.exists():
                    path.unlink()
                    path.symlink_to(nameless)
                shutil.copyfileobj(sys.stdin.buffer, file)
                file.flush()
            yield str(path)


def prints(suffix: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let the output of a command be `-`: then it alone is printed, and what is said of it is not.

    It is printed when it is whole, or not at all.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(*, output: Path, **given: Any) -> None:
            if str(output) != PIPE:
                command(output=output, **given)
                return
            check_stdout()
            if given.get("multiple") or given.get("draws", 1) > 1:
                raise ParameterError("several tables cannot go to standard output: name a file")
            with tempfile.TemporaryDirectory(prefix="missdp-") as folder:
                path = Path(folder, f"standard-output{suffix}")
                with contextlib.redirect_stdout(io.StringIO()) as said:
                    command(output=path, **given)
                _print(path)
                complain(said.getvalue().replace(str(path), "standard output").rstrip())

        vars(called)["__signature__"] = signature(command, eval_str=True)
        return called

    return decorated


def _print(path: Path) -> None:
    refused = OutputError("cannot write to standard output: the system refuses")
    with replacing(OSError, by=refused), path.open("rb") as file:
        sys.stdout.flush()
        shutil.copyfileobj(file, sys.stdout.buffer)
        say(end="")
