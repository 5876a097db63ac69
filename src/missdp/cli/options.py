"""Commands and their shared options, each declared once. Slow imports are avoided here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from missdp.cli import RUN
from missdp.cli.project import project_settings

Function = TypeVar("Function", bound=Callable[..., Any])
Decorator = Callable[[Function], Function]

ENV = "MISSDP_"  # prefix of environment variables
FILE = click.Path(path_type=Path)
PRINTED = Path("-")  # an output that is printed and not stored
STRATEGIES = ("joint", "observed", "complete-rows", "impute-first")


class Option(click.Option):
    """An option in a group of the help."""

    def __init__(self, *names: Any, group: str = "Options", **facts: Any) -> None:
        super().__init__(*names, **facts)
        self.group = group


def option(names: str, text: str, group: str = "Options", **facts: Any) -> Decorator[Any]:
    """Return the decorator that adds an option to a command.

    Parameters
    ----------
    names : str
        The names with spaces between them, and the name of the parameter if it differs.
    text : str
        The help of the option.
    group : str
        The group of the help.
    **facts : object
        Arguments of `click.Option`.

    Returns
    -------
    callable
        A decorator.
    """
    return click.option(*names.split(), cls=Option, group=group, help=text, **facts)


def choice(names: str, text: str, group: str = "Options", **facts: Any) -> Decorator[Any]:
    """Return the decorator that adds an option with a choice of words to a command.

    Parameters
    ----------
    names, text, group : str
        As in `option`.
    **facts : object
        The words ``of``, and arguments of `click.Option`.

    Returns
    -------
    callable
        A decorator.
    """
    return option(names, text, group, type=click.Choice(facts.pop("of")), **facts)


def _note(name: str) -> Callable[[click.Context, click.Parameter, bool], None]:
    """Return the callback that sets a flag of the run."""

    def noted(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
        del ctx, parameter
        setattr(RUN, name, value)

    return noted


def _limit(ctx: click.Context, parameter: click.Parameter, size: str | None) -> None:
    """Set the limit of memory for the command."""
    del parameter
    if size is not None:
        from missdp.table.memory import memory_limit

        ctx.with_resource(memory_limit(size))


def _everywhere(name: str, text: str, callback: Any, **facts: Any) -> Option:
    """Return an option of all commands."""
    where: dict[str, Any] = {"expose_value": False, "group": "All commands"}
    return Option(name.split(), help=text, callback=callback, **where, **facts)


#: Options of all commands. Commands do not declare them.
EVERYWHERE = (
    _everywhere("--overwrite", "Replace files that exist.", _note("overwrite"), is_flag=True),
    _everywhere("--json", "Print one JSON object.", _note("as_json"), is_flag=True),
    _everywhere("--quiet -q", "Print warnings and errors only.", _note("quiet"), is_flag=True),
    _everywhere("--memory", "Limit of memory, such as 2GB. At least 512MiB.", _limit),
)


class Command(click.Command):
    """A command with examples first in its help, and options in groups.

    Examples are the lines after ``Try:`` at the end of a docstring. A line with a larger indent
    continues the line before it.
    """

    def __init__(self, *arguments: Any, **facts: Any) -> None:
        super().__init__(*arguments, **facts)
        words, _, examples = inspect.cleandoc(self.help or "").partition("\n\nTry:\n")
        self.examples = tuple(re.sub(r"\n    +", " ", examples).strip().split("\n  "))
        lines = "\n".join(["\b", "Examples:", *(f"  {line}" for line in self.examples)])
        self.help = f"{lines}\n\n{words}"
        self.short_help = " ".join(words.partition("\n\n")[0].split())

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options of all commands, and the parameters of this command."""
        return [*EVERYWHERE, *super().get_params(ctx)]

    def make_context(self, *arguments: Any, **facts: Any) -> click.Context:
        """Take defaults of options from the project file."""
        return super().make_context(*arguments, **{"default_map": project_settings(), **facts})

    def make_parser(self, ctx: click.Context) -> Any:
        """Raise an error for a repeated option that takes one text.

        Without this check all texts but the last are dropped. For numbers, files and switches the
        last value counts, so that a script can override earlier values.
        """
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_args(args: list[str]) -> Any:
            values, rest, order = parse(args)
            for one in order:
                text = isinstance(one, Option) and not one.multiple and one.type.name == "text"
                if text and order.count(one) > 1:
                    name = max(one.opts, key=len)
                    commas = "by commas" in (getattr(one, "help", "") or "")
                    several = f", with several names by commas ({name} a,b)" if commas else ""
                    ctx.fail(f"Option {name!r} is repeated. Use it once{several}")
            return values, rest, order

        parser.parse_args = parse_args  # type: ignore[method-assign]
        return parser

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups. The options of all commands are last."""
        groups: dict[str, list[tuple[str, str]]] = {}
        special = [p for p in self.get_params(ctx) if p not in EVERYWHERE]
        for one in (*special, *EVERYWHERE):
            record = one.get_help_record(ctx) if isinstance(one, click.Option) else None
            if record is not None:
                group = getattr(one, "group", "All commands")
                groups.setdefault(group, []).append(record)
        for name in sorted(groups, key=lambda one: one == "All commands"):
            with formatter.section(name):
                formatter.write_dl(groups[name])


class Commands(click.Group):
    """A command with subcommands, such as ``missdp ledger``."""

    command_class = Command


def data_argument(**facts: Any) -> Decorator[Any]:
    """Return the decorator for the argument with the place of the private rows."""
    return click.argument("data", metavar=facts.pop("metavar", "DATA"), **facts)


def output_option(text: str, *, required: bool = True) -> Decorator[Any]:
    """Return the decorator for the output file or folder of a command."""
    return option("--output -o", text, type=FILE, required=required)


def _stacked(*decorators: Decorator[Any]) -> Decorator[Any]:
    """Return one decorator that applies several decorators. The first is outermost."""

    def decorate(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


_METHODS = "all-pairs, aim, mst, privbayes, kamino or another. Default: all-pairs, or aim with "
_METHODS += "--delta 0 and if the tables of all pairs are too large."
_ASSUMED = "Assumption about missingness: mcar=0.8, mcar=age:0.9,income:0.8, bounded=0.9 or "
_ASSUMED += "row-independent."
ROWS_FILE = "File to write: .csv, .csv.gz, .tsv, .parquet, .feather, .xlsx, .sav or .dta."
# Data
table_option = option("--table", "Table name or SELECT of a database.", "Data")
schema_option = option(
    "--schema", "Public facts. `missdp schema init` drafts them.", "Data", type=FILE, required=True
)
undeclared_option = choice(
    "--undeclared",
    "Refuse or accept schema facts that were read from private data.",
    "Data",
    of=("refuse", "accept"),
    default="refuse",
)
# Privacy
epsilon_option = option("--epsilon", "Privacy budget, above 0.", "Privacy", type=float)
assume_option = option("--assume", _ASSUMED, "Privacy")
#: Options of the fit that `fit`, `synthesize` and `plan` share.
method_options = _stacked(
    option("--delta", "Default: 1e-6, for up to 10,000 rows. 0 is pure.", "Privacy", type=float),
    option("--method", _METHODS, "Model"),
    option("--strategy", f"For missing values: {', '.join(STRATEGIES)}.", "Model"),
    option(
        "--set settings", "NAME=VALUE of the method, such as rounds=30.", "Model", multiple=True
    ),
)
public_rows_option = option("--public-rows", "Number of rows, a public fact.", "Privacy", type=int)
# Ledger
ledger_option = option(
    "--ledger",
    "sqlite:///FILE or postgresql://ROLE@SERVER/DATABASE.",
    "Ledger",
    envvar=f"{ENV}LEDGER",
)
account_option = option(
    "--account",
    "Account to charge: TABLE, or TABLE/PART for a part.",
    "Ledger",
    envvar=f"{ENV}ACCOUNT",
)
ledger_options = _stacked(ledger_option, account_option)
purpose_option = option("--purpose", "Purpose of the release.", "Ledger", default="")
new_schema_option = option(
    "--new-schema", "Allow a schema that differs from earlier releases.", "Ledger", is_flag=True
)
# Rows
rows_option = option("--rows -n", "Rows to draw. Default: the released number.", type=int)
copies_option = option("--copies", "Number of tables to write: OUTPUT-1, OUTPUT-2, ...", type=int)
keep_missing_option = option("--keep-missing", "Draw missing values too.", is_flag=True)
missing_as_option = choice(
    "--missing-as",
    "Output of missing values. Default: null, or code in .sav and .dta.",
    of=("null", "code"),
)
seed_option = option("--seed", "Make the run repeatable. For tests only.", type=int)
