"""``missdp sample``: more synthetic rows from a saved model, at no cost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from missdp.cli.app import HolesOption, JsonOption, SeedOption, emit
from missdp.cli.side_files import check_no_table, check_together
from missdp.cli.synthesize import arrow_rows, check_rows, counted, rows_wanted, write_rows
from missdp.cli.where import MemoryOption
from missdp.errors import ParameterError
from missdp.files import check_outputs, reserved
from missdp.progress import Progress, progress_bar
from missdp.synth import load
from missdp.synth.base import MissingValues, Synthesizer
from missdp.table import Holes
from missdp.table.written import numbered, output_format, write_each

__all__ = ["sample"]

_MOST_TABLES = 1000


def sample(
    model: Annotated[Path, typer.Argument(help="A saved model (JSON).", show_default=False)],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="CSV or Parquet file to write.", show_default=False),
    ],
    rows: Annotated[
        int | None, typer.Option(help="Rows to draw; by default the released row count.")
    ] = None,
    multiple: Annotated[
        int | None,
        typer.Option(
            help="Draw that many tables, which vary as the model is uncertain, for means and "
            "shares with intervals; OUTPUT-1, OUTPUT-2, ... are written. AIM and MST only.",
            show_default=False,
        ),
    ] = None,
    keep_holes: Annotated[
        bool, typer.Option("--keep-holes", help="Keep holes in synthetic rows.")
    ] = False,
    holes: HolesOption = "nulls",
    memory: MemoryOption = None,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw rows from a saved model. Free: the model holds released values only."""
    del memory  # in force since it was read
    output_format(output)
    if multiple is not None and not 2 <= multiple <= _MOST_TABLES:
        raise ParameterError(f"--multiple must be from 2 to {_MOST_TABLES:,} tables")
    check_rows(rows, output=output, tables=multiple or 1)
    outputs = [output] if multiple is None else numbered(output, multiple)
    check_outputs(outputs, inputs=[model])
    check_together(model)
    check_no_table(outputs)
    keep: MissingValues = "keep" if keep_holes else "fill"
    with reserved(outputs), progress_bar() as progress:
        progress("reading the model", None)
        released = load(model)
        if multiple is None:
            written = write_rows(
                released,
                output,
                rows=rows,
                keep_holes=keep_holes,
                holes=holes,
                seed=seed,
                progress=progress,
            )
        else:
            written = rows_wanted(released, output, rows, tables=multiple)
            write_each(outputs, _tables(released, multiple, rows, keep, holes, seed, progress))
    names = [str(path) for path in outputs]
    document = {
        "output": names[0] if multiple is None else names,
        "rows": written,
        "guarantee": released.guarantee_.to_dict(),
    }
    drawn = counted(written, "synthetic row") + ("" if multiple is None else " each")
    text = f"Wrote {', '.join(names)}: {drawn}.\n\n{released.guarantee_.in_words()}"
    emit(document, text, as_json=as_json)


def _tables(
    released: Synthesizer,
    multiple: int,
    rows: int | None,
    keep: MissingValues,
    holes: Holes,
    seed: int | None,
    progress: Progress,
) -> Iterator[Iterator[pa.Table]]:
    """Yield the blocks of rows of each table, drawn from a model of its own."""
    stage = f"drawing and writing {multiple} tables"
    progress(stage, None)
    models = released.uncertain_models(multiple, random_state=seed)
    for done, model in enumerate(models, start=1):
        blocks = model.sample_blocks(rows, missing_values=keep)
        yield (arrow_rows(block, released, holes) for block in blocks)
        progress(stage, done / multiple)
