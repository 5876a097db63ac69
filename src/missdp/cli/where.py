"""Where the private rows of a command are, and how much memory it may take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from missdp.table import PartRows, RowStream, memory_limit


def _limited(ctx: typer.Context, memory: str | None) -> str | None:
    """Set the limit for as long as the command runs."""
    ctx.with_resource(memory_limit(memory))
    return memory


__all__ = ["DataArgument", "MemoryOption", "PartsOption", "files_of", "rows_at"]

DataArgument: TypeAlias = Annotated[
    str, typer.Argument(help="CSV or Parquet file with the private rows.", show_default=False)
]
MemoryOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--memory",
        callback=_limited,
        metavar="SIZE",
        help="Most memory to take, such as 2GB: larger tables are streamed. By default half of "
        "this machine's.",
        show_default=False,
    ),
]
PartsOption: TypeAlias = Annotated[
    bool,
    typer.Option("--parts", help="DATA is a folder of Parquet files, or a pattern such as '*.pq'."),
]


def rows_at(data: str, *, parts: bool = False) -> Path | RowStream:
    """Return what reads the rows that a command was pointed to."""
    return PartRows(data) if parts else Path(data)


def files_of(data: Path | RowStream) -> list[Path]:
    """Return the files that rows are read from, none of which may be written to."""
    if isinstance(data, Path):
        return [data]
    return list(data.paths) if isinstance(data, PartRows) else []
