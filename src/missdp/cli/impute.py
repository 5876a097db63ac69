"""``missdp impute``: filling of missing cells of private rows from a released model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from missdp.cli import emit
from missdp.cli.options import (
    FILE,
    ROWS_FILE,
    Command,
    choice,
    copies_option,
    data_argument,
    missing_as_option,
    option,
    output_option,
    seed_option,
    table_option,
)
from missdp.progress import progress_bar


@click.command(cls=Command)
@data_argument()
@option("--model", "A model of rows with this schema.", type=FILE, required=True)
@output_option(ROWS_FILE)
@copies_option
@choice("--fill", "How to fill a cell.", of=("random", "likely", "mean"), default="random")
@missing_as_option
@table_option
@seed_option
def impute(data: str, model: Path, output: Path, copies: int | None, **how: Any) -> None:
    """Fill missing cells of private rows from a model. THE FILLED ROWS STAY PRIVATE.

    Each row is filled independently, at no cost. Only the model is a release. A cell gets a draw,
    the most likely level or bin, or the mean of a number.

    Try:
      missdp impute patients.csv --model synthetic.model.json -o filled.csv
      missdp impute patients.csv --model synthetic.model.json -o filled.csv --copies 5
    """
    from missdp.cli.rows import check_apart, check_free, rows_at
    from missdp.cli.sample import MISSING, copies_of
    from missdp.pricing.model_imputer import STAYS_PRIVATE, DPImputer
    from missdp.synth import load
    from missdp.table.written import check_holds, missing_form_of, output_format, write_blocks

    output_format(output)
    outputs, rows = copies_of(output, copies), rows_at(data, how["table"])
    check_apart(outputs, rows, model)
    check_free(outputs)
    with progress_bar() as progress:
        progress("reading the model", None)
        released = load(model)
        facts = released.fitted_.with_unit(released.fitted_.unbinned)
        check_holds(output, facts)
        facts.refuse_units("impute")
        imputer = DPImputer(model=released, filling=how["fill"], random_state=how["seed"]).fit()
        progress("filling and writing", None)
        filled = imputer.transform_blocks(rows, draws=len(outputs))
        codes = missing_form_of(output, MISSING[how["missing_as"]])
        tables = (pair for block in filled for pair in enumerate(block))
        blocks = ((place, table.to_arrow(missing_as=codes)) for place, table in tables)
        write_blocks(outputs, blocks, schema=facts)
    names, guarantee = [str(path) for path in outputs], imputer.guarantee_
    document: dict[str, Any] = {
        "output": names[0] if copies is None else names,
        "model": str(model),
    }
    document |= {"private": True, "says": STAYS_PRIVATE, "guarantee": guarantee.to_dict()}
    emit(document, f"Wrote {', '.join(names)}. {STAYS_PRIVATE}\n\n{guarantee.in_words()}")
