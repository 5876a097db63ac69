"""Places of private rows, and checks of output files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from missdp.cli import RUN
from missdp.errors import OutputError, ParameterError
from missdp.files import check_outputs, picture_format
from missdp.schema import Schema
from missdp.table import Rows

#: The remedy in messages about existing files.
TO_REPLACE = "Use --overwrite to replace it, or choose another output."
_DATABASES = (".duckdb", ".ddb")


def rows_at(data: str, table: str | None = None) -> Rows:
    """Open the rows of a file, a folder or pattern of Parquet files, or a database.

    Parameters
    ----------
    data : str
        A path, a pattern, or the URL of a database.
    table : str, optional
        For a database: the name of a table, or a SELECT statement.

    Returns
    -------
    Rows
        Private. The input is opened at the first reading.

    Raises
    ------
    ParameterError
        If a database lacks ``table``, or another input has ``table``.
    """
    is_file = data.lower().endswith(_DATABASES)
    if not is_file and "://" not in data:
        if table is not None:
            raise ParameterError(
                "--table is for databases: a .duckdb file, or a URL such as "
                "postgresql://user@server/database or sqlite:///visits.db"
            )
        pattern = any(sign in data for sign in "*?[") and not os.path.lexists(data)
        return Rows.of_parts(data) if pattern or os.path.isdir(data) else Rows.of(data)
    if table is None:
        raise ParameterError("a database requires --table: the name of a table, or a SELECT.")
    from missdp.engines import duckdb_rows, sql_rows

    opened = duckdb_rows if is_file and "://" not in data else sql_rows
    if re.match(r"\s*(select|with)\b", table, re.IGNORECASE):
        return opened(data, query=table)
    return opened(data, table=table)


def schema_at(path: Path) -> Schema:
    """Return the schema of a TOML file, or of a model with its released levels and bins."""
    if path.suffix != ".json":
        return Schema.from_toml(path)
    from missdp.synth import load

    return load(path).fitted_.schema_of_release()


def check_apart(
    outputs: Iterable[Path | None], data: Rows | str | None, *others: Path | None
) -> None:
    """Raise OutputError early for outputs that cannot be written, or are input files.

    Parameters
    ----------
    outputs : iterable of Path or None
        Files to write.
    data : Rows or str or None
        The private rows.
    *others : Path or None
        Other files that are read.

    Raises
    ------
    OutputError
        If an output cannot be written, is an input, or would become an input.
    """
    named = [path for path in outputs if path is not None]
    check_outputs(named, inputs=[*_files_of(data), *others])
    for path in named:
        if isinstance(data, Rows) and data.would_read(path):
            raise OutputError(
                f"cannot write {str(path)!r}: it would become one of the files that are read from "
                f"{str(data.place)!r}. Write into another folder."
            )


def _files_of(data: Rows | str | None) -> list[Path]:
    """Return the files of the rows, which must not be written."""
    if isinstance(data, Rows):
        return [*data.files, *([] if data.place is None else [data.place])]
    return [] if data is None else [Path(data)]


def check_picture(plot: Path | None, *inputs: Path) -> None:
    """Raise an error early for a picture that cannot be drawn, or is an input file."""
    if plot is not None:
        picture_format(plot)
        check_outputs([plot], inputs=inputs)
        check_free([plot])


def check_free(outputs: Sequence[Path]) -> None:
    """Raise OutputError for existing files without --overwrite. Several outputs are one set."""
    for output in outputs:
        if os.path.lexists(output) and not RUN.overwrite:
            from missdp.synth.fitted import release_in

            release = release_in(output)
            if release is None:
                raise OutputError(f"{shown(output)!r} exists. {TO_REPLACE}")
            raise OutputError(
                f"{shown(output)!r} is the model of release {release}, which was charged. "
                f"{TO_REPLACE}"
            )
    first = outputs[0] if len(outputs) > 1 else None
    if first is not None and first.stem.endswith("-1"):
        form = re.compile(rf"{re.escape(first.stem.removesuffix('1'))}\d+{re.escape(first.suffix)}")
        for path in sorted(first.parent.iterdir()):
            if form.fullmatch(path.name) and path not in outputs:
                raise OutputError(
                    f"{shown(path)!r} would look like a file of this set of tables. Remove it, or "
                    "name another output."
                )


def shown(path: Path) -> str:
    """Return the shorter of the given and the relative form of a path."""
    try:
        return min(str(path), os.path.relpath(path), key=len)
    except ValueError:  # on another drive
        return str(path)
