"""``missdp sample``: more synthetic rows from a saved model, at no cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from missdp.cli.common import JsonOption, SeedOption, emit
from missdp.cli.families import load_model
from missdp.errors import ParameterError
from missdp.files import check_outputs
from missdp.table.files import output_format, write_arrow

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
    if rows is not None and rows < 0:
        raise ParameterError("rows must be at least 0")
    check_outputs([output], inputs=[model])
    output_format(output)
    released = load_model(model)
    synthetic = released.sample_table(
        rows, missing_values="keep" if keep_holes else "fill", random_state=seed
    )
    write_arrow(synthetic.to_arrow(), output)
    document = {
        "output": str(output),
        "rows": len(synthetic),
        "guarantee": released.guarantee_.to_dict(),
    }
    text = f"Wrote {output}: {len(synthetic)} synthetic rows.\n\n{released.guarantee_.in_words()}"
    emit(document, text, as_json=as_json)
