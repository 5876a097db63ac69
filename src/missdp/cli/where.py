"""Where the private rows of a command are, and how much memory it may take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from missdp.errors import ParameterError
from missdp.table import DuckDBRows, PartRows, RowStream, SQLRows, memory_limit


def _limited(ctx: typer.Context, memory: str | None) -> str | None:
    """Set the limit for as long as the command runs."""
    ctx.with_resource(memory_limit(memory))
    return memory


__all__ = [
    "DataArgument",
    "MemoryOption",
    "PartsOption",
    "SelectOption",
    "TableOption",
    "files_of",
    "rows_at",
]

DataArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="CSV or Parquet file with the private rows; or a database, see --table.",
        show_default=False,
    ),
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


TableOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--table",
        metavar="NAME",
        help="DATA is a database, by its URL or a .duckdb file: read this table of it.",
        show_default=False,
    ),
]
SelectOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--select",
        metavar="SQL",
        help="DATA is a database: read the rows of this SELECT statement.",
        show_default=False,
    ),
]


def rows_at(
    data: str, *, parts: bool = False, table: str | None = None, select: str | None = None
) -> Path | RowStream:
    """Return what reads the rows that a command was pointed to."""
    asked = table is not None or select is not None
    if parts and asked:
        raise ParameterError("--parts is for files, and --table and --select are for databases")
    if parts:
        return PartRows(data)
    if "://" in data:
        return SQLRows(data, table=table, query=select)
    if data.lower().endswith((".duckdb", ".ddb")):
        return DuckDBRows(data, table=table, query=select)
    if asked:
        raise ParameterError(
            "--table and --select are for databases: name a .duckdb file, or a URL such as "
            "postgresql://user@server/database or sqlite:///visits.db"
        )
    return Path(data)


def files_of(data: Path | RowStream) -> list[Path]:
    """Return the files that rows are read from, none of which may be written to."""
    if isinstance(data, Path):
        return [data]
    if isinstance(data, PartRows):
        return list(data.paths)
    path = getattr(data, "path", None)
    return [path] if isinstance(path, Path) else []
