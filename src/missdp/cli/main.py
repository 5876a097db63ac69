"""Entry point: runs a command, and converts typed errors to one line and an exit code.

Slow imports are avoided here, so that a command that is stopped at its start ends without output.
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
from missdp.cli import RUN, emit_error, print_error, print_text

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
_stopped_by: list[int] = []  # signals that stopped the command
_over = [False]  # True after the last output, when signals have no effect


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default of the process, and return its exit code.

    An unexpected error shows only its type, since text and traceback could quote private cells.
    ``MISSDP_DEBUG=1`` shows them.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words of the command line.

    Returns
    -------
    int
        The exit code.
    """
    _stopped_by.clear()
    _over[0] = False
    words = list(sys.argv[1:] if arguments is None else arguments)
    RUN.start(as_json="--json" in words)
    failure: BaseException | None = None
    code = 0
    try:
        try:
            with _warnings_shown():
                code = _run_command(words)
            print_text(end="")
        finally:
            _over[0] = True
    except BaseException as error:  # noqa: BLE001 - no error may quote a private cell
        failure = error
    if _stopped_by or isinstance(failure, KeyboardInterrupt) or code == _INTERRUPTED:
        code = _SIGNALLED + _stopped_by[0] if _stopped_by else _INTERRUPTED
        return _fail("interrupted", code, in_doubt=True)
    return code if failure is None else _failed(failure, words)


def _run_command(words: list[str]) -> int:
    """Run the command. Interruptions and errors are raised, which click would convert."""
    import click

    from missdp.cli.app import app

    if "_MISSDP_COMPLETE" in os.environ:  # completion of words by a shell
        app.main(args=words, prog_name="missdp")
    try:
        with app.make_context("missdp", words) as context:
            app.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    return 0


def run() -> NoReturn:
    """Run the command line of the process, and exit with its exit code."""
    sys.unraisablehook = _on_unraisable
    _on_stop(_stop_at_once)
    progress.print_stages(lambda stage: None if RUN.quiet else print_error(f"missdp: {stage}"))
    from missdp.cli.app import COMMANDS, command_named

    called = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if called in COMMANDS:
        command_named(called)  # a slow import, while stopping is simple
    _allow_unprintable()
    try:
        _on_stop(_stop)
        code = main()
    except KeyboardInterrupt:  # before the command started
        _over[0] = True
        code = _fail("interrupted", _SIGNALLED + _stopped_by[0], in_doubt=True)
    _on_stop(signal.SIG_IGN)  # signals must not stop the final cleanup of Python
    _flush_or_drop()
    sys.exit(code)


def _allow_unprintable() -> None:
    """Replace letters that a terminal cannot show by question marks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _flush_or_drop() -> None:
    """Drop output that cannot be printed, instead of a traceback at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _on_stop(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    """Set the handler of all signals that stop a command."""
    for number in files.STOP_SIGNALS:
        # A signal that the parent ignores (nohup) stays ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _stop_at_once(number: int, _: FrameType | None) -> NoReturn:
    """Stop before the command has any effect."""
    with contextlib.suppress(OSError):
        os.write(2, b"missdp: interrupted\n")
    os._exit(_SIGNALLED + number)


def _stop(number: int, _: FrameType | None) -> None:
    """Record the signal, and raise KeyboardInterrupt for the cleanup."""
    if _over[0]:
        return
    _stopped_by.append(number)
    raise KeyboardInterrupt


def _on_unraisable(error: sys.UnraisableHookArgs) -> None:
    """Suppress errors that Python only prints, since they may quote cells. Signals still stop."""
    if isinstance(error.exc_value, KeyboardInterrupt) and _stopped_by:
        threading.Timer(0.01, os.kill, (os.getpid(), _stopped_by[0])).start()


@contextlib.contextmanager
def _warnings_shown() -> Iterator[None]:
    """Print warnings of this library, which have public facts only. Others may quote cells."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if issubclass(category, errors.MissDPWarning):
            RUN.note_warning(str(message))

    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=errors.MissDPWarning)
        warnings.showwarning = show
        yield


def _failed(error: BaseException, words: Sequence[str]) -> int:
    """Print an error without private cells, and return the exit code."""
    import click

    from missdp.cli.app import in_option_words, usage_message

    if isinstance(error, errors.MissDPError):
        codes = (code for kind, code in EXIT_CODES.items() if isinstance(error, kind))
        doubt = isinstance(error, errors.OutputError) or RUN.is_charged
        return _fail(in_option_words(error, words), next(codes, _UNEXPECTED), in_doubt=doubt)
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else _UNEXPECTED
    if isinstance(error, OSError) and error.errno:
        return _fail(f"the system refuses: {os.strerror(error.errno)}", _OUTPUT, in_doubt=True)
    if isinstance(error, click.UsageError) and (wrong := usage_message(error, words)) is not None:
        return _fail(wrong, EXIT_CODES[errors.ParameterError])
    if isinstance(error, click.ClickException):  # has its own output
        with contextlib.suppress(OSError):
            error.show()
        emit_error(error.format_message(), error.exit_code)
        return error.exit_code
    if os.environ.get("MISSDP_DEBUG") == "1":
        raise error
    if isinstance(error, MemoryError):
        return _fail("not enough memory", _UNEXPECTED, in_doubt=True)
    return _fail(
        f"unexpected {type(error).__name__}. Details are withheld because they may quote "
        "private data (set MISSDP_DEBUG=1 to see them)",
        _UNEXPECTED,
        in_doubt=True,
    )


def _fail(message: str, code: int, *, in_doubt: bool = False) -> int:
    """Print a message with the costs and releases of the run, and return the exit code."""
    out = RUN.costs_and_releases(in_doubt=in_doubt)
    for line in (f"missdp: {message}", *out):
        print_error(line)
    code = _UNFINISHED if RUN.released and code < _SIGNALLED else code
    emit_error(message, code, out)
    return code
