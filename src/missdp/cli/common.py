"""Options and output that several commands share."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = [
    "DataArgument",
    "JsonOption",
    "SchemaOption",
    "SeedOption",
    "SyntheticArgument",
    "emit",
    "progress_bar",
    "say",
]

DataArgument: TypeAlias = Annotated[
    Path, typer.Argument(help="CSV or Parquet file with the private rows.", show_default=False)
]
SyntheticArgument: TypeAlias = Annotated[
    Path, typer.Argument(help="CSV or Parquet file with the synthetic rows.", show_default=False)
]
SchemaOption: TypeAlias = Annotated[
    Path, typer.Option("--schema", help="TOML file with the public facts.", show_default=False)
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
SeedOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--seed", help="Make the run repeatable; for tests only.", show_default=False),
]


def say(text: str = "") -> None:
    """Print text for people as it is."""
    Console(soft_wrap=True, highlight=False, markup=False).print(text)


def emit(document: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print a result once: as JSON for machines, or as text for people."""
    if as_json:
        typer.echo(json.dumps(document, ensure_ascii=False, indent=1))
    else:
        say(text)


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """Show a progress bar on standard error; it gets stage names and fractions only."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("starting", total=1.0)
        yield lambda stage, done: bar.update(task, description=stage, completed=done)
