"""``missdp schema``: draft and check the public facts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from missdp.cli.common import DataArgument, JsonOption, emit
from missdp.errors import OutputError
from missdp.files import check_outputs
from missdp.schema import Schema
from missdp.table import Table, draft_columns

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Draft and check schemas.", rich_markup_mode=None)


@app.command()
def draft(
    data: DataArgument,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the draft.", show_default=False)
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a draft schema from column names and cells, for a person to complete.

    Every fact that was read from the private cells is marked `undeclared`; a release refuses a
    schema with such marks. A column that cannot be drafted becomes a comment. The draft itself is
    private until the marks and comments are gone.
    """
    if os.path.lexists(output) and not force:
        raise OutputError(f"{str(output)!r} exists; pass --force to replace it")
    check_outputs([output], inputs=[data])
    drafted = draft_columns(data)
    drafted.to_toml(output)
    marked = [a.name for a in drafted.attributes if a.undeclared]
    lines = [f"Wrote {output}: {len(drafted.attributes)} attributes."]
    if marked:
        lines += [
            f"Facts read from the data and not declared public yet: {', '.join(marked)}.",
            "Check each against what is publicly known, correct it, then delete its 'undeclared' "
            "mark.",
        ]
    if drafted.stubs:
        lines += ["To be written by hand (comments at the end of the file):"]
        lines += [f"  {why}" for why in drafted.stubs.values()]
    text = "\n".join(lines)
    emit({}, text, as_json=False)


@app.command()
def check(
    schema: Annotated[Path, typer.Argument(help="TOML schema.", show_default=False)],
    data: Annotated[
        Path | None, typer.Argument(help="Data that should fit it.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a schema, and whether data fits it."""
    facts = Schema.from_toml(schema)
    if data is not None:
        Table.read(data, facts)
    document = {
        "attributes": list(facts.names),
        "nullable": list(facts.nullable),
        "undeclared": {name: list(marks) for name, marks in facts.undeclared.items()},
        "data_fits": None if data is None else True,
    }
    lines = [f"{len(facts)} attributes, {len(facts.nullable)} may be missing."]
    if data is not None:
        lines.append("The data fits.")
    if facts.undeclared:
        lines.append(
            "Not declared public yet: "
            + "; ".join(f"{name} ({', '.join(m)})" for name, m in facts.undeclared.items())
        )
    emit(document, "\n".join(lines), as_json=as_json)
