"""Where the private rows of a command are, and how much memory it may take."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer

from missdp.errors import OutputError, ParameterError
from missdp.files import check_outputs
from missdp.table import PartRows, RowStream, memory_limit


def _limited(ctx: typer.Context, memory: str | None) -> str | None:
    """Set the limit for as long as the command runs."""
    ctx.with_resource(memory_limit(memory))
    return memory


__all__ = [
    "DataArgument",
    "EngineOption",
    "MemoryOption",
    "PartsOption",
    "SelectOption",
    "TableOption",
    "check_apart",
    "read_by",
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
        help="Most memory to take, such as 2GB and at least 512MiB: larger tables are streamed, or "
        "wait in a temporary file. By default half of this machine's.",
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


EngineOption: TypeAlias = Annotated[
    Literal["missdp", "spark"],
    typer.Option(
        "--engine",
        help="What reads and counts the rows: missdp, or Spark, on this machine or as spark-submit "
        "or SPARK_REMOTE say. Spark also reads Parquet at a URL, such as s3a://bucket/folder.",
    ),
]


def rows_at(
    data: str,
    *,
    parts: bool = False,
    table: str | None = None,
    select: str | None = None,
    engine: str = "missdp",
) -> Path | RowStream:
    """Return what reads the rows that a command was pointed to."""
    asked = table is not None or select is not None
    if asked and engine != "missdp":
        raise ParameterError("--table and --select are for --engine missdp")
    if parts and asked:
        raise ParameterError("--parts is for files, and --table and --select are for databases")
    if parts:
        return PartRows(data)
    if "://" in data and engine == "missdp":
        from missdp.engines import SQLRows

        return SQLRows(data, table=table, query=select)
    if data.lower().endswith((".duckdb", ".ddb")):
        from missdp.engines import DuckDBRows

        return DuckDBRows(data, table=table, query=select)
    if asked:
        raise ParameterError(
            "--table and --select are for databases: name a .duckdb file, or a URL such as "
            "postgresql://user@server/database or sqlite:///visits.db"
        )
    return Path(data)


@contextlib.contextmanager
def read_by(
    engine: str, data: str, private: Path | RowStream, names: tuple[str, ...]
) -> Iterator[Any]:
    """Yield the rows as an engine reads them, as long as it runs."""
    if engine == "missdp":
        yield private
        return
    from missdp.engines import spark_frame, spark_session

    place = private if isinstance(private, PartRows) else data
    with spark_session() as session:
        yield spark_frame(place, names, session)


def check_apart(
    outputs: Iterable[Path | None], data: Path | RowStream, *others: Path | None
) -> None:
    """Refuse early outputs that cannot be written, or that the rows are, or would be, read from.

    Parameters
    ----------
    outputs : iterable of Path or None
    data : Path or RowStream
        What reads the rows. A table written among the files of a folder would be read with them the
        next time.
    others : Path or None
        Further inputs.

    Raises
    ------
    OutputError
    """
    named = [path for path in outputs if path is not None]
    check_outputs(named, inputs=[*_files_of(data), *others])
    for path in named:
        if isinstance(data, PartRows) and data.would_read(path):
            raise OutputError(
                f"cannot write {str(path)!r}: from then on it would be one of the files that are "
                f"read from {str(data.place)!r}; write into another folder"
            )


def _files_of(data: Path | RowStream) -> list[Path]:
    """Return the files that rows are read from, none of which may be written to."""
    if isinstance(data, Path):
        return [data]
    if isinstance(data, PartRows):
        return list(data.paths)
    path = getattr(data, "path", None)
    return [path] if isinstance(path, Path) else []
