"""What options have in common: where private rows are, how they lost values, what is written."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import typer

from missdp.accounting import (
    BoundedObservation,
    Condition,
    MissingCompletelyAtRandom,
    RowIndependentMissingness,
)
from missdp.cli import check_stdout, complain, say
from missdp.errors import DataError, MissDPError, OutputError, ParameterError, replacing
from missdp.files import check_outputs, picture_format, unnamed
from missdp.schema import Schema
from missdp.schema.layout import UnitCounts
from missdp.table import Rows, memory_limit

_PIPE = "-"  # in place of a file: rows from standard input, results to standard output

# Without showing what they are by default, which mostly is nothing.
option = partial(typer.Option, show_default=False)
argument = partial(typer.Argument, show_default=False)


def _limited(ctx: typer.Context, memory: str | None) -> str | None:
    """Set the limit for as long as the command runs."""
    ctx.with_resource(memory_limit(memory))
    return memory


SyntheticArgument = Annotated[Path, argument(help="File with the synthetic rows.")]
SchemaOption = Annotated[Path, option("--schema", help="TOML; `missdp schema draft` begins one.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
OverwriteOption = Annotated[
    bool,
    typer.Option(
        "--overwrite", help="Replace what is there, of a release all files, once this is whole."
    ),
]
SeedOption = Annotated[
    int | None, option("--seed", help="Make the run repeatable; for tests only.")
]
HolesOption = Annotated[
    Literal["nulls", "codes"] | None,
    option(
        "--holes",
        help="Write cells without a value as nulls, or as the codes that the schema declares; by "
        "default as nulls, and as codes into files of SPSS and Stata.",
    ),
]
ValuesOption = Annotated[
    Literal["codes", "labels"],
    typer.Option("--values", help="Write levels as they are, or as the labels that they have."),
]
OutputOption = Annotated[
    Path,
    option(
        "--output", "-o",
        help="File to write: .csv, .csv.gz, .tsv, .parquet, .feather, .xlsx, .sav, .dta or .xpt; - "
        "prints CSV, but not of synthesize.",
    ),
]  # fmt: skip
RowsOption = Annotated[
    int | None, typer.Option(help="Rows to draw; by default the released row count.")
]
KeepHolesOption = Annotated[
    bool, typer.Option("--keep-holes", help="Keep holes in synthetic rows.")
]
UndeclaredOption = Annotated[
    Literal["refuse", "accept"],
    typer.Option(help="Facts read from the data: refuse, or accept as a condition."),
]
UnitOption = Annotated[
    str | None,
    option(
        "--unit",
        metavar="COLUMN",
        help="Protect all rows together that have the same value in this column, which is never "
        "modelled; as column in [unit] of the schema.",
    ),
]
UnitRowsOption = Annotated[
    int | None,
    option("--max-rows", help="How many rows of a unit take part at most; by default 1."),
]
CountsAsOption = Annotated[
    UnitCounts | None,
    option("--counts-as", help="Whether a unit counts as its rows, or as one; by default as rows."),
]
WeightOption = Annotated[
    str | None,
    option(
        "--weight",
        metavar="COLUMN",
        help="How much each row counts: the survey weight in this column, which is never modelled; "
        "as column in [weight] of the schema.",
    ),
]
UpperOption = Annotated[
    float | None,
    option("--weight-upper", help="The largest weight that counts: a public fact."),
]
MemoryOption = Annotated[
    str | None,
    option(
        "--memory",
        callback=_limited,
        metavar="SIZE",
        help="Most memory to take, such as 2GB and at least 512MiB: larger tables are streamed, or "
        "wait in a temporary file. By default half of this machine's.",
    ),
]
EngineOption = Annotated[
    Literal["missdp", "spark"],
    typer.Option(
        "--engine",
        help="What reads and counts the rows: missdp, or Spark, on this machine or as spark-submit "
        "or SPARK_REMOTE say. Spark also reads Parquet at a URL, such as s3a://bucket/folder.",
    ),
]
ObservedOption = Annotated[
    str | None,
    typer.Option(
        help="Holes completely at random: ATTRIBUTE=PROBABILITY observed, by commas; or one "
        "probability for every attribute that may be missing."
    ),
]
MostOption = Annotated[
    float | None,
    typer.Option(help="Any row is read with at most this probability, whatever its values."),
]
IndependentOption = Annotated[
    bool, typer.Option("--row-independent", help="Rows lose values independently of each other.")
]


def _rows_at(
    data: str,
    *,
    parts: Annotated[
        bool,
        typer.Option(
            "--parts", help="DATA is a folder of Parquet files, or a pattern such as '*.pq'."
        ),
    ] = False,
    table: Annotated[
        str | None,
        option(
            metavar="NAME",
            help="DATA is a database, by its URL or a .duckdb file: read this table of it.",
        ),
    ] = None,
    select: Annotated[
        str | None,
        option(metavar="SQL", help="DATA is a database: read the rows of this SELECT statement."),
    ] = None,
    memory: MemoryOption = None,
    engine: EngineOption = "missdp",
) -> Rows | str:
    """Return what reads the rows that a command was pointed to; for Spark, where they are."""
    del memory  # in force by now
    asked = table is not None or select is not None
    if asked and engine != "missdp":
        raise ParameterError("--table and --select are for --engine missdp")
    if parts and asked:
        raise ParameterError("--parts is for files, and --table and --select are for databases")
    if parts:
        return Rows.of_parts(data)
    if engine == "spark":
        return data
    is_database = "://" in data or data.lower().endswith((".duckdb", ".ddb"))
    if is_database and (table is None) == (select is None):
        raise ParameterError("a database requires either --table NAME or --select SQL.")
    if "://" in data:
        from missdp.engines import sql_rows

        return sql_rows(data, table=table, query=select)
    if data.lower().endswith((".duckdb", ".ddb")):
        from missdp.engines import duckdb_rows

        return duckdb_rows(data, table=table, query=select)
    if asked:
        raise ParameterError(
            "--table and --select are for databases: name a .duckdb file, or a URL such as "
            "postgresql://user@server/database or sqlite:///visits.db"
        )
    return Rows.of(data)


def reads_rows(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say where rows are: its ``data`` is what reads them."""
    own = signature(command, eval_str=True)
    of_rows, where = signature(_rows_at, eval_str=True).parameters, own.parameters["data"]
    more = {name: of_rows[name] for name in ("parts", "table", "select", "memory")}

    @wraps(command)
    def called(data: str | None, **given: Any) -> None:
        asked = {name: given.pop(name) for name in more} | {"engine": given.get("engine", "missdp")}
        if data is None:
            command(data=None, **given)
            return
        if data == _PIPE and (asked["parts"] or asked["table"] or asked["select"]):
            raise ParameterError("--parts, --table and --select are not for standard input")
        with _as_file(data) as path:
            command(data=_rows_at(path, **asked), **given)

    if where.default is where.empty:
        what = (
            "File with the private rows (CSV, Parquet, Feather, Excel, SPSS, Stata, SAS); - for "
            "CSV from standard input; or a database, see --table."
        )
        where = where.replace(annotation=Annotated[str, argument(help=what)])
    else:
        what = "Data that should fit it."
        where = where.replace(annotation=Annotated[str | None, argument(help=what)])
    options = own.parameters | {"data": where} | more
    vars(called)["__signature__"] = own.replace(parameters=[*options.values()])
    return called


def check_apart(outputs: Iterable[Path | None], data: Rows | str, *others: Path | None) -> None:
    """Refuse early outputs that cannot be written, or that rows are, or would be, read from."""
    named = [path for path in outputs if path is not None]
    check_outputs(named, inputs=[*_files_of(data), *others])
    for path in named:
        if isinstance(data, Rows) and data.would_read(path):
            raise OutputError(
                f"cannot write {str(path)!r}: from then on it would be one of the files that are "
                f"read from {str(data.place)!r}; write into another folder"
            )


def check_picture(plot: Path | None, *inputs: Path) -> None:
    """Refuse early a picture that cannot be drawn, or written beside what is read."""
    if plot is not None:
        picture_format(plot)
        check_outputs([plot], inputs=inputs)


def _files_of(data: Rows | str) -> list[Path]:
    """Return the files that rows are read from, none of which may be written to."""
    if isinstance(data, str):
        return [Path(data)]
    return [*data.files, *([] if data.place is None else [data.place])]


def stated_assumption(
    observed: str | None, p_max: float | None, *, row_independent: bool, schema: Schema
) -> Condition | None:
    """Return the one assumption that the options state, or None; refuse several."""
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


def _rates(text: str, schema: Schema) -> list[tuple[str, float]]:
    """Return the probability for each attribute; a number alone is that of all."""
    unreadable = ParameterError(
        "--observed must look like age=0.9,income=0.75: for each attribute the probability that a "
        "cell is observed; or be one such number for all"
    )
    with replacing(ValueError, by=unreadable):
        if "=" not in text:
            return [(name, float(text)) for name in schema.nullable]
        parts = [part.rpartition("=") for part in text.split(",")]
        found = [(name.strip(), float(value)) for name, _, value in parts]
    if not all(name for name, _ in found):
        raise unreadable
    return found


@contextlib.contextmanager
def _as_file(data: str) -> Iterator[str]:
    """Yield the path of a file: of standard input, which is read once, a copy that is removed.

    Where the system can do that the copy has no name of its own, so that nothing is left of it
    when the process ends, however it ends.
    """
    if data != _PIPE:
        yield data
        return
    with tempfile.TemporaryDirectory(prefix="missdp-") as folder:  # for this user alone
        path = Path(folder, "standard-input.csv")
        kept = DataError("standard input cannot be read, or kept in a temporary file")
        with contextlib.ExitStack() as stack:
            with replacing(OSError, ValueError, AttributeError, by=kept):
                file = stack.enter_context(path.open("wb"))
                nameless = Path(f"/proc/{os.getpid()}/fd/{file.fileno()}")
                if nameless.exists():
                    path.unlink()
                    path.symlink_to(nameless)
                shutil.copyfileobj(sys.stdin.buffer, file)
                file.flush()
            try:
                yield str(path)
            except MissDPError as error:  # the user named no such file
                error.args = (str(error).replace(repr(str(path)), "standard input"),)
                raise


def prints(suffix: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let the output of a command be `-`: it alone is printed, when it is whole or not at all."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(*, output: Path, **given: Any) -> None:
            if str(output) != _PIPE:
                command(output=output, **given)
                return
            check_stdout()
            if given.get("multiple") or given.get("draws", 1) > 1:
                raise ParameterError("several tables cannot go to standard output: name a file")
            with tempfile.TemporaryDirectory(prefix="missdp-") as folder:
                path = Path(folder, f"standard-output{suffix}")
                with unnamed(path) as file:  # which may hold private rows
                    with contextlib.redirect_stdout(io.StringIO()) as said:
                        command(output=path, **given)
                    _print(file)
                complain(said.getvalue().replace(str(path), "standard output").rstrip())

        vars(called)["__signature__"] = signature(command, eval_str=True)
        return called

    return decorated


def _print(file: BinaryIO) -> None:
    refused = OutputError("cannot write to standard output: the system refuses")
    with replacing(OSError, by=refused):
        file.seek(0)
        sys.stdout.flush()
        shutil.copyfileobj(file, sys.stdout.buffer)
        say(end="")
