"""``missdp simulate``: punch holes into a complete table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from missdp.cli.common import DataArgument, SchemaOption
from missdp.cli.streams import say
from missdp.errors import ParameterError
from missdp.files import check_outputs, reserved
from missdp.missingness import MAR, MCAR, MNAR, MissingMechanism, SelfMasking
from missdp.schema import Schema
from missdp.table import Table
from missdp.table.files import output_format, write_arrow

__all__ = ["simulate"]

_MECHANISMS: dict[str, type[MCAR] | type[MAR] | type[MNAR] | type[SelfMasking]] = {
    "mcar": MCAR,
    "mar": MAR,
    "mnar": MNAR,
    "self-masking": SelfMasking,
}


def simulate(
    data: DataArgument,
    schema: SchemaOption,
    rate: Annotated[
        float,
        typer.Option(help="Share of missing cells per column with holes.", show_default=False),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="CSV or Parquet file to write.", show_default=False),
    ],
    seed: Annotated[int, typer.Option(help="Seed of the holes.", show_default=False)],
    mechanism: Annotated[str, typer.Option(help=f"One of {', '.join(_MECHANISMS)}.")] = "mcar",
    output_schema: Annotated[
        Path | None,
        typer.Option(help="Write the schema of the result here (nullable where holes may be)."),
    ] = None,
) -> None:
    """Punch holes into a complete table, for experiments. The result is as private as the input."""
    check_outputs([output, output_schema], inputs=[data, schema])
    output_format(output)
    if mechanism not in _MECHANISMS:
        raise ParameterError(
            f"--mechanism must be one of {', '.join(_MECHANISMS)}, not {mechanism!r}"
        )
    if not 0 <= rate < 1:
        raise ParameterError("--rate must be at least 0 and below 1")
    if seed < 0:
        raise ParameterError("--seed must be a whole number, at least 0")
    simulator: MissingMechanism = _MECHANISMS[mechanism](rate=rate)
    complete = Table.read(data, Schema.from_toml(schema))
    holed = simulator.apply(complete, random_state=seed)
    with reserved([output, output_schema]):
        write_arrow(holed.to_arrow(), output)
        if output_schema is not None:
            holed.schema.to_toml(output_schema)
    say(f"Wrote {output}: {mechanism} holes at rate {rate:g}, seed {seed}.")
