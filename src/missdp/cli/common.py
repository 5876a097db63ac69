"""Options and output that several commands share."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from missdp.cli import outcome
from missdp.cli.streams import say
from missdp.errors import ParameterError

__all__ = [
    "DataArgument",
    "JsonOption",
    "SchemaOption",
    "SeedOption",
    "SyntheticArgument",
    "check_epsilon",
    "check_rows",
    "counted",
    "emit",
    "progress_bar",
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

# A synthetic cell is held as a code, a value and a text at once, for a moment.
_BYTES_PER_CELL = 32
_EPSILONS = (1e-6, 1e5)


def check_epsilon(epsilon: float) -> None:
    """Refuse early an epsilon with which nothing sensible can be released."""
    if not _EPSILONS[0] <= epsilon <= _EPSILONS[1]:
        raise ParameterError(
            f"--epsilon must be from {_EPSILONS[0]:g} (all else is noise) to {_EPSILONS[1]:,.0f} "
            "(all else is bare data)"
        )


def check_rows(rows: int | None, columns: int = 1) -> None:
    """Refuse early a number of rows that is negative or cannot fit into this machine's memory."""
    if rows is None:
        return
    if rows < 0:
        raise ParameterError("--rows must be at least 0")
    most = _memory() // (_BYTES_PER_CELL * columns)
    if rows > most:
        raise ParameterError(f"--rows must be at most {most:,} here: more do not fit into memory")


def _memory() -> int:
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names:
        return max(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), 2**30)
    return 2**34  # a guess where the system does not say


def counted(number: int, noun: str) -> str:
    """Return the number with its noun, in the plural where it belongs.

    Examples
    --------
    >>> counted(1, "row"), counted(13583, "row")
    ('1 row', '13583 rows')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def emit(document: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print a result once: as JSON for machines, with any warnings, or as text for people."""
    if as_json:
        whole = {**document, "warnings": outcome.warning_texts()}
        say(json.dumps(_finite(whole), ensure_ascii=False, indent=1, allow_nan=False))
    else:
        say(text)


def _finite(value: Any) -> Any:
    """Return the value with null for what JSON has no number for."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[str, float | None], None]]:
    """Show a progress bar on standard error; it gets stage names and fractions only.

    The fraction None stands for a stage of unknown length.
    """
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=sys.stderr is None or not console.is_terminal,
    )
    with bar:
        task = bar.add_task("starting", total=1.0)

        def show(stage: str, done: float | None) -> None:
            total = None if done is None else 1.0
            bar.update(task, description=stage, completed=done or 0.0, total=total)

        yield show
