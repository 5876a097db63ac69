"""``missdp sample``: more synthetic rows from a saved model, at no cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from missdp.cli.common import JsonOption, SeedOption, check_rows, counted, emit, progress_bar
from missdp.cli.release import write_rows
from missdp.files import check_outputs, reserved
from missdp.synth import load
from missdp.table.files import output_format

__all__ = ["sample"]


def sample(
    model: Annotated[Path, typer.Argument(help="A saved model (JSON).", show_default=False)],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="CSV or Parquet file to write.", show_default=False),
    ],
    rows: Annotated[
        int | None, typer.Option(help="Rows to draw; by default the released row count.")
    ] = None,
    keep_holes: Annotated[
        bool, typer.Option("--keep-holes", help="Keep holes in synthetic rows.")
    ] = False,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw rows from a saved model. Free: the model holds released values only."""
    check_rows(rows)
    output_format(output)
    check_outputs([output], inputs=[model])
    with reserved([output]), progress_bar() as progress:
        progress("reading the model", None)
        released = load(model)
        synthetic = write_rows(
            released, output, rows=rows, keep_holes=keep_holes, seed=seed, progress=progress
        )
    document = {
        "output": str(output),
        "rows": len(synthetic),
        "guarantee": released.guarantee_.to_dict(),
    }
    drawn = counted(len(synthetic), "synthetic row")
    text = f"Wrote {output}: {drawn}.\n\n{released.guarantee_.in_words()}"
    emit(document, text, as_json=as_json)
