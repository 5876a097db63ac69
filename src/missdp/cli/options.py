"""What options have in common: where private rows are, how they lost values, what is written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer

from missdp.accounting import (
    BoundedObservation,
    Condition,
    MissingCompletelyAtRandom,
    RowIndependentMissingness,
)
from missdp.errors import OutputError, ParameterError, replacing
from missdp.files import check_outputs
from missdp.schema import Schema
from missdp.table import PartRows, RowStream, memory_limit

__all__ = [
    "DataArgument", "EngineOption", "HolesOption", "IndependentOption", "JsonOption",
    "KeepHolesOption", "MemoryOption", "MostOption", "ObservedOption", "OutputOption",
    "OverwriteOption", "PartsOption", "RowsOption", "SchemaOption", "SeedOption", "SelectOption",
    "SyntheticArgument", "TableOption", "UndeclaredOption",
    "argument", "check_apart", "check_epsilon", "option", "read_by", "rows_at", "stated_assumption",
]  # fmt: skip

# Without showing what they are by default, which mostly is nothing.
option = partial(typer.Option, show_default=False)
argument = partial(typer.Argument, show_default=False)


def _limited(ctx: typer.Context, memory: str | None) -> str | None:
    """Set the limit for as long as the command runs."""
    ctx.with_resource(memory_limit(memory))
    return memory


SyntheticArgument: TypeAlias = Annotated[
    Path, argument(help="CSV or Parquet file with the synthetic rows.")
]
SchemaOption: TypeAlias = Annotated[
    Path, option("--schema", help="TOML file with the public facts.")
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
OverwriteOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--overwrite", help="Replace the whole release that is there, once this is whole."
    ),
]
SeedOption: TypeAlias = Annotated[
    int | None, option("--seed", help="Make the run repeatable; for tests only.")
]
HolesOption: TypeAlias = Annotated[
    Literal["nulls", "codes"],
    typer.Option(
        "--holes",
        help="Write cells without a value as nulls, or as the codes that the schema declares.",
    ),
]
OutputOption: TypeAlias = Annotated[
    Path, option("--output", "-o", help="CSV or Parquet file to write.")
]
RowsOption: TypeAlias = Annotated[
    int | None, typer.Option(help="Rows to draw; by default the released row count.")
]
KeepHolesOption: TypeAlias = Annotated[
    bool, typer.Option("--keep-holes", help="Keep holes in synthetic rows.")
]
UndeclaredOption: TypeAlias = Annotated[
    Literal["refuse", "accept"],
    typer.Option(help="Facts read from the data: refuse, or accept as a condition."),
]
DataArgument: TypeAlias = Annotated[
    str, argument(help="CSV or Parquet file with the private rows; or a database, see --table.")
]
MemoryOption: TypeAlias = Annotated[
    str | None,
    option(
        "--memory",
        callback=_limited,
        metavar="SIZE",
        help="Most memory to take, such as 2GB and at least 512MiB: larger tables are streamed, or "
        "wait in a temporary file. By default half of this machine's.",
    ),
]
PartsOption: TypeAlias = Annotated[
    bool,
    typer.Option("--parts", help="DATA is a folder of Parquet files, or a pattern such as '*.pq'."),
]


TableOption: TypeAlias = Annotated[
    str | None,
    option(
        "--table",
        metavar="NAME",
        help="DATA is a database, by its URL or a .duckdb file: read this table of it.",
    ),
]
SelectOption: TypeAlias = Annotated[
    str | None,
    option(
        "--select",
        metavar="SQL",
        help="DATA is a database: read the rows of this SELECT statement.",
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
ObservedOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Holes completely at random: ATTRIBUTE=PROBABILITY observed, by commas; or one "
        "probability for every attribute that may be missing."
    ),
]
MostOption: TypeAlias = Annotated[
    float | None,
    typer.Option(help="Any row is read with at most this probability, whatever its values."),
]
IndependentOption: TypeAlias = Annotated[
    bool, typer.Option("--row-independent", help="Rows lose values independently of each other.")
]


_EPSILONS = (1e-6, 1e5)


def check_epsilon(epsilon: float) -> None:
    """Refuse early an epsilon with which nothing sensible can be released."""
    if not _EPSILONS[0] <= epsilon <= _EPSILONS[1]:
        raise ParameterError(
            f"--epsilon must be from {_EPSILONS[0]:g} (all else is noise) to {_EPSILONS[1]:,.0f} "
            "(all else is bare data)"
        )


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


def stated_assumption(
    observed: str | None, p_max: float | None, *, row_independent: bool, schema: Schema | None
) -> Condition | None:
    """Return the one assumption that the options state, or None.

    Parameters
    ----------
    observed, p_max, row_independent
        Values of the options.
    schema : Schema or None
        Of the table; None where one probability for all attributes means nothing.

    Raises
    ------
    ParameterError
        If more than one is stated, or one cannot be read.

    Examples
    --------
    >>> stated_assumption("a=0.5", None, row_independent=False, schema=None)
    MissingCompletelyAtRandom(observed=(('a', 0.5),))
    """
    stated: list[Condition] = []
    if observed is not None:
        stated.append(MissingCompletelyAtRandom(_rates(observed, schema)))
    if p_max is not None:
        stated.append(BoundedObservation(p_max))
    if row_independent:
        stated.append(RowIndependentMissingness())
    if len(stated) > 1:
        raise ParameterError("state one assumption: --observed, --p-max or --row-independent")
    return stated[0] if stated else None


def _rates(text: str, schema: Schema | None) -> list[tuple[str, float]]:
    if schema is not None and "=" not in text:
        with replacing(ValueError, by=_unreadable):
            rate = float(text)
        return [(name, rate) for name in schema.nullable]
    observed = []
    for part in text.split(","):
        name, _, value = part.rpartition("=")
        with replacing(ValueError, by=_unreadable):
            observed.append((name.strip(), float(value)))
        if not name.strip():
            raise _unreadable()
    return observed


def _unreadable(_: BaseException | None = None) -> ParameterError:
    return ParameterError(
        "--observed must look like age=0.9,income=0.75: for each attribute the probability that a "
        "cell is observed; or be one such number for all"
    )
