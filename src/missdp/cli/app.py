"""The commands of ``missdp``. Each command is imported when it is called, for a fast start."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from missdp import __version__
from missdp.cli.options import EVERYWHERE
from missdp.errors import MissDPError, ParameterError, UnprovenError, did_you_mean

GROUPS = {
    "Prepare": {
        "schema": "Draft, import and check schemas.",
        "app": "Do all steps on a page in the browser.",
        "plan": "State noise, intervals and resources for each epsilon, without private rows.",
    },
    "Release": {
        "fit": "Fit a model to private rows. The model file is the release.",
        "sample": "Draw synthetic rows from a model, at no cost.",
        "synthesize": "Fit a model and draw rows in one call.",
        "query": "Answer questions about private rows.",
    },
    "Use": {
        "estimate": "Estimate from a model, with intervals, at no cost.",
        "impute": "Fill missing cells of private rows from a model, at no cost.",
    },
    "Inspect": {
        "guarantee": "Explain the guarantees of models.",
        "evaluate": "Compare synthetic rows with private ones, for the curator.",
        "publish": "Write the dossier of a release, from its model.",
    },
    "Ledger": {"ledger": "Keep privacy budgets of tables in a ledger."},
    "Other": {
        "demo": "Synthesize a bundled survey with missing values.",
        "simulate": "Remove cells of a complete table, for experiments.",
        "price": "Price a pipeline of preprocessing.",
        "version": "Print the version, and the installed packages.",
    },
}
"""Commands by the section of the overview, with one line each."""
COMMANDS = {name: line for commands in GROUPS.values() for name, line in commands.items()}
_EXAMPLES = """\
\b
Examples:
  missdp schema init patients.csv -o patients.toml
  missdp synthesize patients.csv --schema patients.toml --epsilon 1 -o synthetic.csv
  missdp estimate synthetic.model.json "mean(age) by smoker"

Differential privacy for tables with missing values."""
# Commands whose file has another name.
_FILES = {
    "synthesize": "fit",
    "price": "guarantee",
    "version": "about",
    "demo": "about",
    "app": "browser",
}
# Options whose parameters in the Python API have another name.
_WORDS = "n=rows n_rows=public-rows random_state=seed match_on=match missing=strategy draws=copies "
_WORDS += "k=neighbors group=within uncertainty=interval epsilons=epsilon"
_OPTIONS = dict(pair.split("=") for pair in _WORDS.split())


class _Overview(click.Group):
    """The command ``missdp``, with its commands in sections."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context | None, cmd_name: str) -> click.Command | None:
        """Import a command and return it."""
        del ctx
        return command_named(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Resolve a command. The error for an unknown name proposes a similar command."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> Any:
        """Return the commands with a prefix, without importing them."""
        commands = {name: click.Command(name, help=line) for name, line in COMMANDS.items()}
        listed = click.Group(self.name, commands=commands, params=self.params)
        return listed.shell_complete(click.Context(listed, info_name=ctx.info_name), incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in sections."""
        del ctx
        for section, commands in GROUPS.items():
            with formatter.section(section):
                formatter.write_dl(list(commands.items()))


def command_named(name: str) -> Any:
    """Import a command and return it."""
    module = import_module(f"missdp.cli.{_FILES.get(name, name)}")
    return getattr(module, name)


@click.group(
    "missdp",
    cls=_Overview,
    help=_EXAMPLES,
    no_args_is_help=True,
    epilog="Each command has --help. Exit codes: docs/troubleshooting.md.",
)
@click.version_option(__version__, message="missdp %(version)s")
def app() -> None:
    """Run a command of missdp."""


def in_option_words(error: MissDPError, arguments: Sequence[str]) -> str:
    """Return the text of an error with options of the command in place of Python parameters.

    >>> from missdp.cli.app import in_option_words
    >>> from missdp.errors import ParameterError
    >>> error = ParameterError("missing='level' keeps no cells. Use missing='joint'")
    >>> in_option_words(error, ["synthesize"])
    '--strategy level keeps no cells. Use --strategy joint'
    """
    options = _option_names(arguments)

    def option(word: str) -> str | None:
        name = "--" + _OPTIONS.get(word, word).replace("_", "-")
        return name if name in options else None

    def assigned(match: re.Match[str]) -> str:
        named = option(match[1]) or {"undeclared": "`missdp fit` and --undeclared"}.get(match[1])
        return match[0] if named is None else f"{named} {match[2].strip(chr(39))}"

    text = re.sub(r"\b(\w+)=('[\w-]*'|[\w.]+)", assigned, str(error))
    first = re.match(r"\w*", text)
    if first is None or not isinstance(error, (ParameterError, UnprovenError)):
        return text
    return f"{option(first[0]) or first[0]}{text[first.end() :]}"


# Expected values of options, by a part of click's text.
_EXPECTED = {"valid float": "a number", "valid integer": "a whole number"}


def usage_message(error: click.UsageError, arguments: Sequence[str]) -> str | None:
    """Return the message about an invalid value of an option, or None for other errors.

    Parameters
    ----------
    error : click.UsageError
        The error of the parser of the command line.
    arguments : sequence of str
        The words of the command line.

    Returns
    -------
    str or None
        The message, with the option and its valid values.
    """
    if isinstance(error, click.NoSuchOption):
        vars(error)["possibilities"] = None
        near = did_you_mean(error.option_name, sorted(_option_names(arguments)))
        vars(error)["message"] = f"No such option: {error.option_name}{near}"
    if not isinstance(error, click.BadParameter) or error.param is None:
        return None
    name, text = max(error.param.opts, key=len), error.message or ""
    value = text[1 : text.rindex("' is not")] if "' is not" in text else ""
    for part, expected in _EXPECTED.items():
        if part in text:
            return f"{name} must be {expected}, not {value!r}."
    words = re.findall(r"'([^']*)'", text.partition("is not one of")[2])
    near = did_you_mean(value, words) if words else ""
    listed = ", ".join(words)
    return f"{name} must be one of {listed}, not {value!r}{near or '.'}" if words else None


def _option_names(arguments: Sequence[str]) -> set[str]:
    """Return the options of the called command."""
    command: Any = app
    for word in arguments:
        if isinstance(command, click.Group):
            command = command.get_command(click.Context(command), word) or command
    return {name for parameter in (*command.params, *EVERYWHERE) for name in parameter.opts}
