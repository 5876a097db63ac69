"""Open the data of a fit."""

from __future__ import annotations

from typing import Any

from missdp.errors import SchemaError
from missdp.schema import Schema
from missdp.sources import MarginalSource, is_source, open_source
from missdp.table import FrameKind, Table
from missdp.table.frames import frame_kind

__all__ = ["open_data"]


def open_data(data: Any, schema: Schema | None) -> tuple[MarginalSource, FrameKind]:
    """Return a source for any input, and the kind of frame to give back."""
    if isinstance(data, Table):
        return open_source(data, schema or data.schema), data.kind
    if is_source(data):
        return open_source(data, schema or data.schema), "pandas"
    if schema is None:
        raise SchemaError(
            "a schema is needed: pass fit(data, schema=...), or read the data with Table.read"
        )
    return open_source(data, schema), frame_kind(data)
