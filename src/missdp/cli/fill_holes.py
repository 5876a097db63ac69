"""``missdp impute``: fill the holes of private rows from a released model, at no cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from missdp.cli.app import HolesOption, JsonOption, SchemaOption, SeedOption, emit
from missdp.cli.side_files import check_no_table, check_together
from missdp.cli.where import (
    DataArgument,
    MemoryOption,
    PartsOption,
    SelectOption,
    TableOption,
    check_apart,
    rows_at,
)
from missdp.errors import DataError, ParameterError
from missdp.files import reserved
from missdp.pricing.model_imputer import STAYS_PRIVATE, DPImputer
from missdp.progress import progress_bar
from missdp.schema import Schema
from missdp.schema.grid import uncut
from missdp.synth import load
from missdp.table.written import numbered, output_format, write_blocks

__all__ = ["impute"]

_MOST_DRAWS = 1000


def impute(
    data: DataArgument,
    schema: SchemaOption,
    model: Annotated[
        Path, typer.Option(help="A saved model (JSON) of this schema.", show_default=False)
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="CSV or Parquet file to write.", show_default=False),
    ],
    draws: Annotated[
        int,
        typer.Option(help="Fill that often; OUTPUT-1, OUTPUT-2, ... are written if above 1."),
    ] = 1,
    filling: Annotated[
        Literal["random", "likely", "mean"],
        typer.Option(
            help="Draw each hole from its law, or take the likeliest level or bin, or a number's "
            "mean."
        ),
    ] = "random",
    holes: HolesOption = "nulls",
    parts: PartsOption = False,
    table: TableOption = None,
    select: SelectOption = None,
    memory: MemoryOption = None,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fill the holes of private rows from a released model. THE FILLED ROWS STAY PRIVATE.

    Each row is filled by itself, so this costs no privacy; only the model is a release.
    """
    del memory  # in force by now, though this takes no more for more rows
    output_format(output)
    if not 1 <= draws <= _MOST_DRAWS:
        raise ParameterError(f"--draws must be from 1 to {_MOST_DRAWS:,}")
    outputs = [output] if draws == 1 else numbered(output, draws)
    private = rows_at(data, parts=parts, table=table, select=select)
    check_apart(outputs, private, schema, model)
    check_no_table(outputs)
    check_together(model)
    facts = Schema.from_toml(schema)
    with reserved(outputs), progress_bar() as progress:
        progress("reading the model", None)
        imputer = DPImputer(model=load(model), filling=filling, random_state=seed).fit()
        if facts not in (imputer.schema_, uncut(imputer.schema_)):
            raise DataError("the model was fitted to another schema than this one")
        progress("filling and writing", None)
        filled = imputer.transform_blocks(private, draws=draws)
        write_blocks(outputs, ([t.to_arrow(holes=holes) for t in block] for block in filled))
    names = [str(path) for path in outputs]
    document = {
        "output": names[0] if draws == 1 else names,
        "model": str(model),
        "private": True,
        "says": STAYS_PRIVATE,
        "guarantee": imputer.guarantee_.to_dict(),
    }
    text = f"Wrote {', '.join(names)}. {STAYS_PRIVATE}\n\n{imputer.guarantee_.in_words()}"
    emit(document, text, as_json=as_json)
