"""The list of commands, and how their results are printed."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from missdp import __version__
from missdp.cli import RUN, say
from missdp.errors import MissDPError, ParameterError, UnprovenError, did_you_mean

COMMANDS = {
    "schema": "Draft and check schemas.",
    "plan": "Say what each epsilon buys, before the table is looked at, at no cost.",
    "synthesize": "Turn a private table with holes into a synthetic one.",
    "sample": "Draw rows from a saved model, at no cost.",
    "estimate": "Estimate from a saved model with intervals, without rows, at no cost.",
    "sensitivity": "Show how an estimate moves if values are not missing at random.",
    "impute": "Fill holes of private rows from a saved model, at no cost; they stay private.",
    "evaluate": "Compare a synthetic table with the private one, for the curator.",
    "report": "Show synthetic rows beside the private ones on a page, for the curator.",
    "simulate": "Punch holes into a complete table, for experiments.",
    "query": "Answer one question about a table with holes, privately.",
    "guarantee": "Say what a saved model's guarantee means for one person, in plain words.",
    "price": "Print what a saved model or a preprocessing pipeline really guarantees.",
    "budget": "Keep privacy budgets in a ledger that survives crashes, colleagues and years.",
    "dossier": "Write what publishing a release takes, from its saved model, at no cost.",
    "demo": "Synthesize a real survey with holes, and show what dropping rows does.",
    "doctor": "Say what is installed here, and whether missdp can work with it.",
}
"""Each command with a line for the overview; its file is imported when it is called."""
_SYNTHESIZE = "missdp synthesize patients.csv --schema patients.toml --epsilon 1 -o synthetic.csv"
_IMPUTE = (
    "missdp impute patients.csv --schema patients.toml --model synthetic.model.json -o filled.csv"
)
_QUERY = "missdp query patients.csv --schema patients.toml --impute age --match smoker --epsilon 1"
EXAMPLES = {
    "schema": (
        "missdp schema import codebook.json -o codebook.toml",
        "missdp schema draft patients.csv -o patients.toml",
        "missdp schema check patients.toml patients.csv",
    ),
    "plan": (
        "missdp plan patients.toml --rows 500 --missing age=0.2 --mean age",
        "missdp plan patients.toml --rows 500 --epsilons 1,3 --strategy observed --plot plan.svg",
    ),
    "synthesize": (
        _SYNTHESIZE,
        f"{_SYNTHESIZE} --missing observed",
        f"{_SYNTHESIZE} --delta 0",
        f"{_SYNTHESIZE} --method aim --set rounds=6 --set workload=2",
        f"{_SYNTHESIZE} --keep-holes",
        f"{_SYNTHESIZE} --keep-holes --holes codes",
    ),
    "sample": (
        "missdp sample synthetic.model.json -o more.csv --rows 500",
        "missdp sample aim.model.json -o tables.csv --multiple 5",
        "missdp sample synthetic.model.json -o - --rows 5",
    ),
    "estimate": (
        "missdp estimate synthetic.model.json 'mean(age) by smoker'",
        "missdp estimate synthetic.model.json 'age ~ C(smoker)' --json",
    ),
    "sensitivity": (
        "missdp sensitivity synthetic.model.json 'mean(age)' --attribute age --shift 0:0.5",
        "missdp sensitivity synthetic.model.json 'mean(age) by smoker' --attribute age "
        "--shift -0.5:0.5 --plot departures.svg",
    ),
    "impute": (_IMPUTE, f"{_IMPUTE} --draws 5"),
    "evaluate": ("missdp evaluate patients.csv synthetic.csv --schema patients.toml",),
    "report": (
        "missdp report synthetic.model.json --private patients.csv -o curator/report.html",
        "missdp report synthetic.model.json --private patients.csv --control others.csv "
        "-o curator/attacks.html",
    ),
    "simulate": (
        "missdp simulate complete.csv --schema patients.toml --rate 0.2 --seed 1 -o holed.csv",
    ),
    "query": (
        f"{_QUERY} --mean age",
        f"{_QUERY} --proportion 'age >= 65' --where 'smoker = \"yes\"'",
    ),
    "guarantee": ("missdp guarantee synthetic.model.json --prior 0.1",),
    "price": (
        "missdp price synthetic.model.json",
        "missdp price synthetic.model.json --ground-truth --row-independent",
        "missdp price pipeline.toml",
    ),
    "budget": (
        "missdp budget create patients-2026 --epsilon 3 --delta 1e-6 --budget sqlite:///budget.db",
        "missdp budget show --budget sqlite:///budget.db",
        "missdp budget verify --budget sqlite:///budget.db",
        "missdp budget history --budget sqlite:///budget.db",
        "missdp budget export --budget sqlite:///budget.db -o lines.jsonl",
        "missdp budget import lines.jsonl --budget sqlite:///copy.db",
    ),
    "dossier": (
        "missdp dossier synthetic.model.json -o dossier --title 'Patients'",
        "missdp dossier synthetic.model.json -o papers --tipping 'age=mean(age) by smoker'",
    ),
    "demo": ("missdp demo",),
    "doctor": ("missdp doctor",),
}
"""What the help of each command shows; docs/commands.md explains them, and tests run them."""
_ANSWERS = (
    f"missdp budget request {_QUERY.removeprefix('missdp ')} --mean age "
    "--budget sqlite:///budget.db#patients-2026",
    "missdp budget approve ID --budget sqlite:///budget.db",
    "missdp budget refuse ID --budget sqlite:///budget.db",
)

# Commands that are not in a file of their own name.
_FILES = {
    **dict.fromkeys(("schema", "simulate", "evaluate"), "curator"),
    **dict.fromkeys(("sample", "estimate", "sensitivity", "impute"), "models"),
    **dict.fromkeys(("guarantee", "price"), "models"),
    **dict.fromkeys(("plan", "dossier", "report"), "papers"),
    "demo": "synthesize",
}
# Parameters of the Python API whose options have another name.
_OPTIONS = {"n": "rows", "n_rows": "public-rows", "random_state": "seed", "match_on": "match"}


class _Commands(TyperGroup):
    """Commands of which only the one that is called is imported: the others take seconds."""

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        del ctx
        return command_named(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        commands: dict[str, Any] = {n: TyperGroup(name=n, help=h) for n, h in COMMANDS.items()}
        listed = TyperGroup(name=self.name, commands=commands, params=self.params)
        return listed.shell_complete(type(ctx)(listed), incomplete)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def command_named(name: str) -> Any:
    """Import a command and return it."""
    module = import_module(f"missdp.cli.{_FILES.get(name, name)}")
    command = getattr(module, name)
    found: Any
    if isinstance(command, typer.Typer):
        found = typer.main.get_group(command)
        found.name = name
    else:
        alone = typer.Typer(rich_markup_mode=None, add_completion=False)
        alone.command(name)(command)
        found = typer.main.get_command(alone)
    for part, inner in getattr(found, "commands", {}).items():
        inner.short_help = inner.get_short_help_str(100)
        lines = (*EXAMPLES[name], *_ANSWERS)
        _begin_with([line for line in lines if line.split()[1:3] == [name, part]], inner)
    _begin_with(EXAMPLES[name], found)
    for each in (found, *getattr(found, "commands", {}).values()):
        _refuse_repeats(each)
    return found


def _refuse_repeats(command: Any) -> None:
    """Let a command refuse text that is given more than once to an option that holds one.

    Names and conditions are text, and a user who repeats such an option means all of them. Without
    this check the parser drops all but the last. Of numbers, files and switches the last one
    counts, so that a script can override them.
    """
    make_parser = command.make_parser

    def checked_parser(ctx: Any) -> Any:
        parser = make_parser(ctx)
        parse = parser.parse_args

        def parse_args(args: list[str]) -> Any:
            values, rest, order = parse(args)
            for parameter in order:
                one = not getattr(parameter, "multiple", True)
                if one and _holds_text(parameter) and order.count(parameter) > 1:
                    name = max(parameter.opts, key=len)
                    commas = "by commas" in (parameter.help or "")
                    several = f", with several names by commas ({name} a,b)" if commas else ""
                    ctx.fail(f"Option {name!r} is given more than once: give it once{several}")
            return values, rest, order

        parser.parse_args = parse_args
        return parser

    command.make_parser = checked_parser


def _holds_text(parameter: Any) -> bool:
    """Return whether an option takes text as it is, in typer with its own parser or click's."""
    kind = getattr(parameter, "type", None)
    if kind is not None:
        return bool(kind.name == "text")
    return parameter.type_descriptor.annotation in (str, str | None)


def _begin_with(examples: Sequence[str], command: Any) -> None:
    """Put examples in front of a command's help; the mark keeps the lines as they are."""
    lines = "\n".join(["\b", "Examples:", *(f"  {line}" for line in examples)])
    command.help = f"{lines}\n\n{inspect.cleandoc(command.help or '')}"


app = typer.Typer(
    cls=_Commands,
    name="missdp",
    help="Differential privacy for the tables people really have: the ones with holes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=(
        "Exit codes: 0 done, 1 anything unexpected, 2 bad parameter, 3 bad data or schema, 4 "
        "budget exceeded, 5 output not writable, 6 no proven bound, 7 optional package absent, 8 "
        "released and charged but not finished (the message says what is out and how to go on), 9 "
        "the ledger cannot be used or refuses the request, 129 hung up, 130 interrupted, 143 "
        "terminated."
    ),
)


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


# By a part of the text of click or pydantic: what an option expects.
_EXPECTED = {
    "valid number": "a number",
    "valid float": "a number",
    "valid integer": "a whole number",
}


def wrong_value(error: BaseException, arguments: Sequence[str]) -> str | None:
    """Return one line about an option's value that cannot be read, or None for other errors.

    Parameters
    ----------
    error : BaseException
        An error of the command line parser. Its classes have two homes, in typer and in click.
    arguments : sequence of str
        The command as it was typed.
    """
    parameter = getattr(error, "param", None)
    names, text = getattr(parameter, "opts", ()), getattr(error, "message", None)
    value = next((v for name in names if (v := _value_of(name, arguments)) is not None), None)
    if value is None or not isinstance(text, str):
        return None
    for part, expected in _EXPECTED.items():
        if part in text:
            return f"{max(names, key=len)} must be {expected}; got {value!r}."
    choices = re.search(r"is not one of (.*)", text)
    if choices is None:
        return None
    known = re.findall(r"'([^']*)'", choices[1])
    near = did_you_mean(value, known)
    listed = ", ".join(known)
    return f"{max(names, key=len)} must be one of {listed}; got {value!r}{near or '.'}"


def _value_of(name: str, arguments: Sequence[str]) -> str | None:
    """Return the last value that was typed for an option."""
    found = None
    for word, following in zip(arguments, [*arguments[1:], None], strict=True):
        if word == name:
            found = following
        elif word.startswith(f"{name}="):
            found = word.removeprefix(f"{name}=")
    return found


def name_likely_option(error: BaseException, arguments: Sequence[str]) -> None:
    """Let an error about an unknown option propose the option that is most like it."""
    unknown = getattr(error, "option_name", None)
    if isinstance(unknown, str) and hasattr(error, "possibilities"):
        vars(error)["possibilities"] = None
        near = did_you_mean(unknown, sorted(_option_names(arguments)))
        vars(error)["message"] = f"No such option: {unknown}{near}"


def _option_names(arguments: Sequence[str]) -> set[str]:
    """Return the long options of the command that was called."""
    command: Any = typer.main.get_command(app)
    for word in arguments:
        if hasattr(command, "get_command"):
            command = command.get_command(None, word) or command
    return {name for parameter in command.params for name in parameter.opts}


def emit(document: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print a result once: as JSON for machines, with any warnings, or as text for people."""
    if as_json:
        whole = {**document, "warnings": list(RUN.warnings)}
        say(json.dumps(finite(whole), ensure_ascii=False, indent=1, allow_nan=False))
    else:
        say(text)


def finite(value: Any) -> Any:
    """Return the value with null for what JSON has no number for."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
