"""Where private rows are, what is written beside them, and how values may have gone missing."""

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

#: What a refusal to replace a file ends with.
TO_REPLACE = "Use --overwrite to replace it, or choose another output."
_DATABASES = (".duckdb", ".ddb")


def rows_at(data: str, table: str | None = None) -> Rows:
    """Return the rows of a file, a folder or pattern of Parquet files, or a database.

    Parameters
    ----------
    data : str
        A path, a pattern, or the URL of a database.
    table : str, optional
        Of a database: the name of a table, or a SELECT statement.

    Returns
    -------
    Rows
        Opened when it is read.

    Raises
    ------
    ParameterError
        If a database has no ``table``, or anything else has one.
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
    """Return the schema of a TOML file, or of a model with the levels and bins that it released."""
    if path.suffix != ".json":
        return Schema.from_toml(path)
    from missdp.synth import load

    return load(path).fitted_.schema_of_release()


def check_apart(
    outputs: Iterable[Path | None], data: Rows | str | None, *others: Path | None
) -> None:
    """Refuse early outputs that cannot be written, or that are, or would be, read from."""
    named = [path for path in outputs if path is not None]
    check_outputs(named, inputs=[*_files_of(data), *others])
    for path in named:
        if isinstance(data, Rows) and data.would_read(path):
            raise OutputError(
                f"cannot write {str(path)!r}: from then on it would be one of the files that are "
                f"read from {str(data.place)!r}; write into another folder"
            )


def _files_of(data: Rows | str | None) -> list[Path]:
    """Return the files that rows are read from, none of which may be written to."""
    if isinstance(data, Rows):
        return [*data.files, *([] if data.place is None else [data.place])]
    return [] if data is None else [Path(data)]


def check_picture(plot: Path | None, *inputs: Path) -> None:
    """Refuse early a picture that cannot be drawn, or written beside what is read."""
    if plot is not None:
        picture_format(plot)
        check_outputs([plot], inputs=inputs)
        check_free([plot])


def check_free(outputs: Sequence[Path]) -> None:
    """Refuse to replace a file unasked; several outputs are one set of tables."""
    for output in outputs:
        if os.path.lexists(output) and not RUN.overwrite:
            from missdp.synth.fitted import release_in

            release = release_in(output)
            if release is None:
                raise OutputError(f"{shown(output)!r} exists. {TO_REPLACE}")
            raise OutputError(
                f"{shown(output)!r} is the model of release {release}, which was paid for. "
                f"{TO_REPLACE}"
            )
    first = outputs[0] if len(outputs) > 1 else None
    if first is not None and first.stem.endswith("-1"):
        form = re.compile(rf"{re.escape(first.stem.removesuffix('1'))}\d+{re.escape(first.suffix)}")
        for path in sorted(first.parent.iterdir()):
            if form.fullmatch(path.name) and path not in outputs:
                raise OutputError(
                    f"{shown(path)!r} would seem to be of the same set of tables; remove it, or "
                    "name another output"
                )


def shown(path: Path) -> str:
    """Return the shorter of a path's names, as people would write it."""
    try:
        return min(str(path), os.path.relpath(path), key=len)
    except ValueError:  # on another drive
        return str(path)
