"""Tables of the options of commands, and of the parameters of methods, from the code itself."""

from __future__ import annotations

import re
from typing import Any

import click
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from missdp import synthesizers
from missdp.cli.app import command_named
from missdp.cli.options import EVERYWHERE
from missdp.synth.registry import _own_parameters

Rows = list[tuple[str, str]]


def option_rows(name: str) -> Rows:
    """Return the options of one command with their help texts.

    Parameters
    ----------
    name : str
        The words that call the command, such as ``"schema init"``, or ``"every command"`` for the
        options that all commands share.

    Returns
    -------
    list of (str, str)
        Each option as ``--help`` shows it, and its text, in the order of the help.
    """
    shared = name == "every command"
    first, *rest = name.split()
    command: Any = None if shared else command_named(first)
    for word in rest if command else ():
        command = command.commands[word]
    context = click.Context(command or click.Command(name), info_name=name)
    options = EVERYWHERE if shared else [p for p in command.params if isinstance(p, click.Option)]
    records = (option.get_help_record(context) for option in options)
    return [record for record in records if record is not None]


def method_rows() -> Rows:
    """Return each method and the names of the parameters that ``--set`` can set."""
    return [(name, ", ".join(_own_parameters(method))) for name, method in synthesizers().items()]


def table(header: tuple[str, str], rows: Rows, *, literal: bool = False) -> nodes.table:
    """Return a table of two columns, the first in type-writer letters.

    Parameters
    ----------
    header : (str, str)
        The titles of the columns.
    rows : list of (str, str)
        The cells.
    literal : bool, default False
        Whether the second column is in type-writer letters, too.

    Returns
    -------
    docutils.nodes.table
        The table as Sphinx writes it.
    """
    group = nodes.tgroup(cols=2)
    group += [nodes.colspec(colwidth=35), nodes.colspec(colwidth=65)]
    head, body = nodes.thead(), nodes.tbody()
    head += row([nodes.Text(header[0])], [nodes.Text(header[1])])
    for first, second in rows:
        text = [nodes.literal(text=second)] if literal else written(second)
        body += row([nodes.literal(text=first)], text)
    group += [head, body]
    result = nodes.table(align="left")
    result += group
    return result


def row(*cells: list[nodes.Node]) -> nodes.row:
    """Return a row of a table."""
    line = nodes.row()
    for cell in cells:
        line += nodes.entry("", nodes.paragraph("", "", *cell))
    return line


def written(text: str) -> list[nodes.Node]:
    """Return a help text with options and words in backticks in type-writer letters."""
    parts = re.split(r"(`[^`]+`|--[a-z-]+)", text)
    return [
        nodes.literal(text=part.strip("`")) if i % 2 else nodes.Text(part)
        for i, part in enumerate(parts)
    ]


class CommandOptions(SphinxDirective):
    """The options of the command that the argument names."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        name = self.arguments[0]
        return [table((f"options of {name}", "meaning"), option_rows(name))]


class MethodParameters(SphinxDirective):
    """The parameters of each method."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        return [table(("method", "parameters"), method_rows(), literal=True)]


def setup(app: Any) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("command-options", CommandOptions)
    app.add_directive("method-parameters", MethodParameters)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
