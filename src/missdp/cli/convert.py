"""``missdp convert``: a file of an earlier version, in today's format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from missdp.cli.app import JsonOption, emit
from missdp.cli.first_formats import convert_file
from missdp.files import check_outputs

__all__ = ["convert"]

_UNSEALED = "The old file has no checksum: nothing shows whether it was edited."


def convert(
    old: Annotated[
        Path,
        typer.Argument(
            help="A model or guarantee of an earlier version (JSON).", show_default=False
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="JSON file to write.", show_default=False)
    ],
    as_json: JsonOption = False,
) -> None:
    """Write a model or guarantee of an earlier version of missdp in today's format."""
    check_outputs([output], inputs=[old])
    guarantee, sealed = convert_file(old, output)
    document = {"output": str(output), "sealed": sealed, "guarantee": guarantee.to_dict()}
    said = "" if sealed else f" {_UNSEALED}"
    emit(document, f"Wrote {output}.{said}\n\n{guarantee.in_words()}", as_json=as_json)
