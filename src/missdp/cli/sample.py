"""``missdp sample``: synthetic rows of a released model, with a label file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from missdp.cli import emit, pluralize
from missdp.cli.options import (
    FILE,
    ROWS_FILE,
    Command,
    choice,
    copies_option,
    keep_missing_option,
    missing_as_option,
    option,
    output_option,
    rows_option,
    seed_option,
)
from missdp.errors import ParameterError
from missdp.progress import progress_bar

if TYPE_CHECKING:
    import pyarrow as pa

    from missdp.progress import Progress
    from missdp.synth.base import MissingValues, Synthesizer
    from missdp.synth.sampling import RowSelection
    from missdp.table import MissingForm, Values

MAX_TABLES = 1000  # tables of one command
# Smallest size of a cell in a file, in bytes.
_MIN_BYTES = {"text": 2.0, "columns": 1 / 64, "whole": 1 / 64}
_AT_ONCE = "which this file format requires"
_TOGETHER = "which constraints between two rows require"
_BYTES_PER_CELL = 32  # bytes of a cell in memory: a code, a number and a text
LEVELS: dict[str, Values] = {"code": "codes", "label": "labels"}
MISSING: dict[str | None, MissingForm | None] = {None: None, "null": "nulls", "code": "codes"}


@click.command(cls=Command)
@click.argument("model", type=FILE)
@output_option(ROWS_FILE)
@rows_option
@copies_option
@option("--where", "Draw only rows that match this condition. Requires --rows.")
@keep_missing_option
@missing_as_option
@choice("--levels-as", "Write levels as codes or labels.", of=("code", "label"), default="code")
@seed_option
def sample(
    model: Path, output: Path, rows: int | None, copies: int | None, where: str | None, **how: Any
) -> None:
    """Draw synthetic rows from a model, at no cost. The model has released values only.

    OUTPUT.synthetic.json states that the rows are synthetic, their release, and their SHA-256. With
    --copies each table is drawn from a different model, according to the uncertainty of the
    released model (AllPairs, AIM and MST).

    Try:
      missdp sample synthetic.model.json -o more.csv --rows 500
      missdp sample synthetic.model.json -o tables.csv --copies 5
      missdp sample synthetic.model.json -o older.csv --rows 100 --where "age >= 60"
    """
    from missdp.cli.provenance import label_of
    from missdp.cli.rows import check_free
    from missdp.files import check_outputs
    from missdp.synth import load
    from missdp.synth.sampling import RowSelection
    from missdp.table.written import check_holds, output_format

    output_format(output)
    if where is not None and rows is None:
        raise ParameterError("--where requires --rows: the number of rows to draw.")
    outputs = copies_of(output, copies)
    check_rows(rows, output=output, tables=len(outputs))
    labels = [label_of(path) for path in outputs]
    check_outputs([*outputs, *labels], inputs=[model])
    check_free(outputs)
    for label in labels:
        check_free([label])
    with progress_bar() as progress:
        progress("reading the model", None)
        released = load(model)
        check_holds(output, released.schema_, LEVELS[how["levels_as"]])
        selection = None if where is None else RowSelection(where, released.schema_)
        drawn = draw_tables(released, outputs, rows, progress, where=selection, **how)
    names = [str(path) for path in outputs]
    document: dict[str, Any] = {"output": names[0] if copies is None else names, "rows": drawn}
    document |= {"synthetic": True, "release": released.release_}
    document |= {"guarantee": released.guarantee_.to_dict()}
    words = pluralize(drawn, "synthetic row") + (" each" if copies else "")
    if selection is not None:
        document["share"] = selection.share
        words += f", a share of {selection.share:.2g} of the rows drawn from the model"
    label_text = f"{labels[0]}{', and further labels' if copies else ''}"
    text = f"Wrote {', '.join(names)}: {words}. Label: {label_text}.{name_tip(output)}"
    emit(document, f"{text}\n\n{released.guarantee_.in_words()}")


def copies_of(output: Path, copies: int | None) -> list[Path]:
    """Return the output file of each table."""
    from missdp.table.written import numbered_paths

    if copies is None:
        return [output]
    if not 2 <= copies <= MAX_TABLES:
        raise ParameterError(f"--copies must be from 2 to {MAX_TABLES:,} tables")
    return numbered_paths(output, copies)


def draw_tables(
    model: Synthesizer,
    outputs: list[Path],
    rows: int | None,
    progress: Progress,
    *,
    keep_missing: bool,
    seed: int | None,
    missing_as: str | None = None,
    levels_as: str = "code",
    where: RowSelection | None = None,
) -> int:
    """Draw a table for each file, and write tables and labels. Return the rows of each table.

    Several tables are drawn from models that vary with the uncertainty of the released model. A
    Parquet file has metadata: synthetic rows, the release, and the guarantee.

    Parameters
    ----------
    model : Synthesizer
        The released model.
    outputs : list of Path
        One file for each table.
    rows : int or None
        Rows of each table. None is the released number.
    progress : callable
        A function of the name of the stage and the completed share.
    keep_missing, seed, missing_as, levels_as
        Options of the command.
    where : RowSelection, optional
        The condition of the rows.

    Returns
    -------
    int
        The number of rows of each table.

    Raises
    ------
    ParameterError
        If the rows do not fit on the disk or into memory, or the released number is 0.
    """
    from missdp.cli.provenance import STAMP, write_label
    from missdp.table.written import missing_form_of, write_blocks
    from missdp.words import in_a_line

    number = _number_of_rows(model, outputs[0], rows, tables=len(outputs))
    several = len(outputs) > 1
    tables = f"{len(outputs)} tables of " if several else ""
    stage = f"drawing and writing {tables}{pluralize(number, 'row')}"
    progress(stage, None)
    models = model.uncertain_models(len(outputs), random_state=seed) if several else [model]
    keep: MissingValues = "keep" if keep_missing else "fill"
    facts = {b"missdp.synthetic": b"yes", b"missdp.guarantee": in_a_line(model.guarantee_).encode()}
    facts |= {STAMP: model.release_.encode()} if model.release_ else {}
    total = max(1, number * len(outputs))
    missing = missing_form_of(outputs[0], MISSING[missing_as])

    def drawn() -> Iterator[tuple[int, pa.Table]]:
        done, drawing = 0, None if several else seed
        for place, one in enumerate(models):
            for block in one.sample_blocks(
                rows, missing_values=keep, random_state=drawing, where=where
            ):
                done += len(block)
                table = block.to_arrow(missing_as=missing, values=LEVELS[levels_as])
                yield place, table.replace_schema_metadata(facts)
                progress(stage, done / total)

    write_blocks(outputs, drawn(), schema=model.schema_)
    for path in outputs:
        write_label(model, path)
    return number


def check_rows(
    rows: int | None, columns: int = 1, *, output: Path, together: bool = False, tables: int = 1
) -> None:
    """Raise ParameterError early for a number of rows that is negative or too large.

    Parameters
    ----------
    rows : int or None
        Requested rows of each table. None is not checked.
    columns : int, default 1
        Number of columns.
    output : Path
        The file, whose folder must have enough space.
    together : bool, default False
        True if the model draws all rows together.
    tables : int, default 1
        Number of tables.

    Raises
    ------
    ParameterError
        If the number is negative, or the rows do not fit on the disk or into memory.
    """
    from missdp.table.memory import current_memory_limit
    from missdp.table.written import output_format

    if rows is None:
        return
    if rows < 0:
        raise ParameterError("--rows must be at least 0")
    folder, kind = Path(os.path.realpath(output)).parent, output_format(output)
    free = shutil.disk_usage(folder).free if folder.is_dir() else 2**62
    at_once = current_memory_limit() // (_BYTES_PER_CELL * columns)
    for applies, max_rows, why in (
        (True, int(free / (_MIN_BYTES[kind] * columns * tables)), "do not fit on the disk"),
        (kind == "whole", at_once, f"do not fit into memory, {_AT_ONCE}. Write CSV or Parquet"),
        (together, at_once, f"do not fit into memory, {_TOGETHER}"),
    ):
        if applies and rows > max_rows:
            raise ParameterError(f"--rows must be at most {max_rows:,} here: more rows {why}")


def _number_of_rows(model: Synthesizer, output: Path, rows: int | None, *, tables: int) -> int:
    """Return the rows of each table. Raise ParameterError for too many rows, or a released 0."""
    number = model.n_rows_ if rows is None else rows
    together = model.draws_together
    check_rows(number, len(model.schema_), output=output, together=together, tables=tables)
    if number == 0 and rows != 0:
        raise ParameterError(
            "--rows is required here: the released number of rows is 0, since the table is small "
            "for this epsilon. Use --rows 0 to write an empty file."
        )
    return number


def name_tip(output: Path) -> str:
    """Return a tip if neither the file nor its name states that the rows are synthetic."""
    from missdp.table.written import output_format

    if output_format(output) != "text" or "synth" in output.name.lower():
        return ""
    return " Tip: include 'synthetic' in the file name before you publish it."
