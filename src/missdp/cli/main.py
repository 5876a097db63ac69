"""Entry point: runs a command, turns typed errors into one line and an exit code."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console

from missdp import __version__, errors
from missdp.cli import demo, evaluate, price, query, sample, schema, simulate, synthesize

__all__ = ["EXIT_CODES", "app", "main"]

EXIT_CODES: dict[type[Exception], int] = {
    errors.ParameterError: 2,
    errors.SchemaError: 3,
    errors.DataError: 3,
    errors.BudgetExceededError: 4,
    errors.OutputError: 5,
    errors.UnprovenError: 6,
    errors.MissingDependencyError: 7,
}

_INTERRUPTED = 130

app = typer.Typer(
    name="missdp",
    help="Differential privacy for the tables people really have: the ones with holes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=(
        "Exit codes: 0 done, 2 bad parameter, 3 bad data or schema, 4 budget exceeded, 5 output "
        "not writable, 6 no proven bound, 7 optional package absent, 1 anything unexpected, "
        "130 interrupted."
    ),
)
app.add_typer(schema.app, name="schema")
app.command("synthesize")(synthesize.synthesize)
app.command("sample")(sample.sample)
app.command("evaluate")(evaluate.evaluate)
app.command("simulate")(simulate.simulate)
app.command("query")(query.query)
app.command("price")(price.price)
app.command("demo")(demo.demo)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"missdp {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    del version


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.

    Notes
    -----
    An unexpected error shows its type only: its text and its traceback could quote private
    cells. Set ``MISSDP_DEBUG=1`` to see them.
    """
    try:
        result = app(args=arguments, standalone_mode=False)
    except errors.MissDPError as error:
        return _fail(str(error), _exit_code(error))
    except (KeyboardInterrupt, typer.Abort):
        result = _INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last line of defence against leaks
        return _fail_unexpected(error)
    if result == _INTERRUPTED:
        return _fail("interrupted; what was charged to a budget stays charged", _INTERRUPTED)
    return result if isinstance(result, int) else 0


def run() -> None:
    """Console script."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character must not turn a finished release into a failure.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    # Stopped politely, the command tidies up as if interrupted from the keyboard.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())


def _fail_unexpected(error: Exception) -> int:
    # Usage errors know how to show themselves; typer carries its own copy of click's classes.
    show, code = getattr(error, "show", None), getattr(error, "exit_code", None)
    if callable(show) and isinstance(code, int):
        show()
        return code
    if os.environ.get("MISSDP_DEBUG") == "1":
        raise error
    return _fail(
        f"unexpected {type(error).__name__}; details are withheld because they may quote "
        "private data (set MISSDP_DEBUG=1 to see them)",
        1,
    )


def _exit_code(error: errors.MissDPError) -> int:
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)


def _fail(message: str, code: int) -> int:
    Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(f"missdp: {message}")
    return code
