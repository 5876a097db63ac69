"""The commands, and how they name what is wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import typer

from missdp import __version__
from missdp.cli import demo, evaluate, price, query, sample, schema, simulate, synthesize
from missdp.errors import MissDPError, ParameterError, UnprovenError

__all__ = ["app", "in_option_words"]

# Parameters of the Python API whose options have another name.
_OPTIONS = {"n": "rows", "n_rows": "public-rows", "random_state": "seed", "match_on": "match"}

app = typer.Typer(
    name="missdp",
    help="Differential privacy for the tables people really have: the ones with holes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=(
        "Exit codes: 0 done, 1 anything unexpected, 2 bad parameter, 3 bad data or schema, 4 "
        "budget exceeded, 5 output not writable, 6 no proven bound, 7 optional package absent, 8 "
        "released and charged but not finished (the message says what is out and how to go on), "
        "129 hung up, 130 interrupted, 143 terminated."
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


def in_option_words(error: MissDPError, arguments: Sequence[str]) -> str:
    """Return an error's text with parameters of the Python API named as the command's options.

    Examples
    --------
    >>> from missdp.errors import ParameterError
    >>> in_option_words(ParameterError("n_rows must be at least 1"), ["synthesize", "data.csv"])
    '--public-rows must be at least 1'
    >>> error = ParameterError("missing='level' keeps no holes; use missing='joint'")
    >>> in_option_words(error, ["synthesize"])
    '--missing level keeps no holes; use --missing joint'
    """
    options = _option_names(arguments)

    def option(word: str) -> str | None:
        name = "--" + _OPTIONS.get(word, word).replace("_", "-")
        return name if name in options else None

    def assigned(found: re.Match[str]) -> str:
        named = option(found[1])
        return found[0] if named is None else f"{named} {found[2].strip(chr(39))}"

    text = re.sub(r"\b(\w+)=('[\w-]*'|[\w.]+)", assigned, str(error))
    first = re.match(r"\w*", text)
    if first is None or not isinstance(error, (ParameterError, UnprovenError)):
        return text
    return f"{option(first[0]) or first[0]}{text[first.end() :]}"


def _option_names(arguments: Sequence[str]) -> set[str]:
    """Return the long options of the command that was called."""
    command = typer.main.get_command(app)
    for word in arguments:
        command = getattr(command, "commands", {}).get(word, command)
    return {name for parameter in command.params for name in parameter.opts}
