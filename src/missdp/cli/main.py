"""Entry point: runs a command, turns typed errors into one line and an exit code.

Nothing heavy is imported here, so that a command that is stopped while it starts ends quietly.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, NoReturn

from missdp import errors, files, progress
from missdp.cli import RUN, complain, emit_error, say

EXIT_CODES: dict[type[Exception], int] = {
    errors.ParameterError: 2,
    errors.SchemaError: 3,
    errors.DataError: 3,
    errors.BudgetExceededError: 4,
    errors.OutputError: 5,
    errors.UnprovenError: 6,
    errors.MissingDependencyError: 7,
    errors.LedgerError: 9,
}
_UNEXPECTED, _OUTPUT, _UNFINISHED, _SIGNALLED = 1, 5, 8, 128
_INTERRUPTED = _SIGNALLED + signal.SIGINT
_stopped_by: list[int] = []
_over = [False]  # once all is said, a signal stops nothing any more


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, by default that of the process, and return its exit code.

    An unexpected error shows its type only: its text and its traceback could quote private cells.
    Set ``MISSDP_DEBUG=1`` to see them.
    """
    _stopped_by.clear()
    _over[0] = False
    given = list(sys.argv[1:] if arguments is None else arguments)
    RUN.start(as_json="--json" in given)
    failure: BaseException | None = None
    code = 0
    try:
        try:
            with _warnings_shown():
                code = _called(given)
            say(end="")
        finally:
            _over[0] = True
    except BaseException as error:  # noqa: BLE001 - the last line of defence against leaks
        failure = error
    if _stopped_by or isinstance(failure, KeyboardInterrupt) or code == _INTERRUPTED:
        code = _SIGNALLED + _stopped_by[0] if _stopped_by else _INTERRUPTED
        return _fail("interrupted", code, in_doubt=True)
    return code if failure is None else _failed(failure, given)


def _called(given: list[str]) -> int:
    """Run the command; unlike click's own way, interruptions and errors come out as they are."""
    import click

    from missdp.cli.app import app

    if "_MISSDP_COMPLETE" in os.environ:  # a shell asks which words may follow
        app.main(args=given, prog_name="missdp")
    try:
        with app.make_context("missdp", given) as context:
            app.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    return 0


def run() -> NoReturn:
    """Console script."""
    sys.unraisablehook = _unheard
    _on_stop(_stop_at_once)
    progress.print_stages(lambda stage: None if RUN.quiet else complain(f"missdp: {stage}"))
    from missdp.cli.app import COMMANDS, command_named

    called = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if called in COMMANDS:
        command_named(called)  # what takes long, while stopping is simple
    _allow_unprintable()
    try:
        _on_stop(_stop)
        code = main()
    except KeyboardInterrupt:  # before it began
        _over[0] = True
        code = _fail("interrupted", _SIGNALLED + _stopped_by[0], in_doubt=True)
    _on_stop(signal.SIG_IGN)  # all is done and said: what Python tidies up now is not to be stopped
    _flush_or_drop()
    sys.exit(code)


def _allow_unprintable() -> None:
    """Show a question mark where a terminal cannot show a letter; that is no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _flush_or_drop() -> None:
    """Give what cannot be printed up for lost, instead of a traceback at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _on_stop(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    for number in files.STOP_SIGNALS:
        # A signal that the parent ignores (nohup) stays ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _stop_at_once(number: int, _: FrameType | None) -> NoReturn:
    """Stop where nothing happened yet and there is nothing to tidy up."""
    with contextlib.suppress(OSError):
        os.write(2, b"missdp: interrupted\n")
    os._exit(_SIGNALLED + number)


def _stop(number: int, _: FrameType | None) -> None:
    """Tidy up as if interrupted from the keyboard, and remember which signal it was."""
    if _over[0]:
        return
    _stopped_by.append(number)
    raise KeyboardInterrupt


def _unheard(found: sys.UnraisableHookArgs) -> None:
    """Say nothing of errors that Python only prints: they may quote cells. Stop all the same."""
    if isinstance(found.exc_value, KeyboardInterrupt) and _stopped_by:
        threading.Timer(0.01, os.kill, (os.getpid(), _stopped_by[0])).start()


@contextlib.contextmanager
def _warnings_shown() -> Iterator[None]:
    """Print this library's warnings, which hold public facts only; others may quote cells."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if issubclass(category, errors.MissDPWarning):
            RUN.note_warning(str(message))

    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=errors.MissDPWarning)
        warnings.showwarning = show
        yield


def _failed(error: BaseException, given: Sequence[str]) -> int:
    import click

    from missdp.cli.app import in_option_words, usage_message

    if isinstance(error, errors.MissDPError):
        codes = (code for kind, code in EXIT_CODES.items() if isinstance(error, kind))
        doubt = isinstance(error, errors.OutputError) or RUN.is_charged
        return _fail(in_option_words(error, given), next(codes, _UNEXPECTED), in_doubt=doubt)
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else _UNEXPECTED
    if isinstance(error, OSError) and error.errno:
        return _fail(f"the system refuses: {os.strerror(error.errno)}", _OUTPUT, in_doubt=True)
    if isinstance(error, click.UsageError) and (wrong := usage_message(error, given)) is not None:
        return _fail(wrong, EXIT_CODES[errors.ParameterError])
    if isinstance(error, click.ClickException):  # knows how to show itself
        with contextlib.suppress(OSError):
            error.show()
        emit_error(error.format_message(), error.exit_code)
        return error.exit_code
    if os.environ.get("MISSDP_DEBUG") == "1":
        raise error
    if isinstance(error, MemoryError):
        return _fail("not enough memory", _UNEXPECTED, in_doubt=True)
    return _fail(
        f"unexpected {type(error).__name__}; details are withheld because they may quote "
        "private data (set MISSDP_DEBUG=1 to see them)",
        _UNEXPECTED,
        in_doubt=True,
    )


def _fail(message: str, code: int, *, in_doubt: bool = False) -> int:
    out = RUN.what_is_out(in_doubt=in_doubt)
    for line in (f"missdp: {message}", *out):
        complain(line)
    code = _UNFINISHED if RUN.released and code < _SIGNALLED else code
    emit_error(message, code, out)
    return code
