"""``missdp simulate``: removal of cells of a complete table, for experiments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from missdp.cli import emit
from missdp.cli.options import (
    FILE,
    ROWS_FILE,
    Command,
    choice,
    data_argument,
    missing_as_option,
    option,
    output_option,
    schema_option,
    seed_option,
)
from missdp.errors import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

    from missdp.schema import Schema
    from missdp.table import Rows, Table

_HELD = 4  # tables in memory: the rows, the result, and probabilities of all cells
_BLOCK_ROWS = 2**18  # rows of a block
_MECHANISMS = ("mcar", "mar", "mnar", "self-masking")


@click.command(cls=Command)
@data_argument()
@schema_option
@output_option(ROWS_FILE)
@option(
    "--rate",
    "Share of missing cells in each column that loses cells.",
    "Data",
    type=float,
    required=True,
)
@choice("--mechanism", "Mechanism of missingness.", of=_MECHANISMS, default="mcar")
@option("--output-schema", "Write the schema of the result here.", type=FILE)
@missing_as_option
@seed_option
def simulate(data: str, schema: Path, output: Path, rate: float, **how: Any) -> None:
    """Remove cells of a complete table, for experiments. The result is as private as the input.

    Try:
      missdp simulate complete.csv --schema patients.toml --rate 0.2 -o incomplete.csv
    """
    from missdp.cli.rows import check_apart, check_free, rows_at
    from missdp.cli.sample import MISSING
    from missdp.evaluate import MAR, MCAR, MNAR, SelfMasking
    from missdp.schema import Schema
    from missdp.table.written import check_holds, missing_form_of, output_format, write_blocks

    rows, place, mechanism = rows_at(data), how["output_schema"], how["mechanism"]
    outputs = [path for path in (output, place) if path is not None]
    check_apart(outputs, rows, schema)
    for path in outputs:
        check_free([path])
    output_format(output)
    if not 0 <= rate < 1:
        raise ParameterError("--rate must be at least 0 and below 1")
    if how["seed"] is not None and how["seed"] < 0:
        raise ParameterError("--seed must be a whole number, at least 0")
    kind = dict(zip(_MECHANISMS, (MCAR, MAR, MNAR, SelfMasking), strict=True))[mechanism]
    facts = Schema.from_toml(schema)
    facts.refuse_units("a simulation")
    check_holds(output, facts)
    blocks = _blocks(rows, facts, mechanism)
    result, codes = facts, missing_form_of(output, MISSING[how["missing_as"]])

    def incomplete() -> Iterator[tuple[int, pa.Table]]:
        nonlocal result
        for block in kind(rate=rate).apply_blocks(blocks, random_state=how["seed"]):
            result = block.schema
            yield 0, block.to_arrow(missing_as=codes)

    write_blocks([output], incomplete(), schema=facts)
    if place is not None:
        result.to_toml(place)
    text = f"Wrote {output}: {mechanism} at rate {rate:g}."
    if mended := sorted(facts.rule_set.rule_fillable):
        text += f"\nFewer in columns that rules fill or make not applicable: {', '.join(mended)}."
    emit({"output": str(output), "mechanism": mechanism, "private": True}, text)


def _blocks(data: Rows, facts: Schema, mechanism: str) -> Iterator[Table]:
    """Yield the rows at once if they fit into memory, or in blocks for independent cells."""
    from missdp.table import Table
    from missdp.table.memory import fits_into_memory
    from missdp.table.table import read_columns, rebatch

    if fits_into_memory(data.approximate_length(), facts, tables=_HELD):
        yield Table.read(data, facts)
    elif mechanism == "mcar":
        for columns in rebatch(read_columns(data, facts), _BLOCK_ROWS, facts):
            yield Table(facts, columns)
    else:
        raise ParameterError(
            f"--mechanism {mechanism} needs all rows in memory, and these are too many for "
            "--memory. Use mcar, or a larger limit."
        )
