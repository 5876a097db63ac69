"""Open the data of a fit, and check the public facts about it."""

from __future__ import annotations

from typing import Any

from missdp.errors import SchemaError, replacing
from missdp.schema import Numeric, Schema
from missdp.sources import MarginalSource, is_source, open_source
from missdp.table import FrameKind, Table
from missdp.table.frames import frame_kind

__all__ = ["check_text", "open_data"]


def check_text(schema: Schema) -> None:
    """Refuse names and levels that no file can hold, before anything is spent on them."""
    for attribute in schema:
        texts = [attribute.name]
        if not isinstance(attribute, Numeric):
            texts += [level for level in attribute.levels if isinstance(level, str)]
        refused = SchemaError(
            "an attribute has a name or level with half a surrogate pair, which is no text; "
            f"attribute number {schema.names.index(attribute.name) + 1}"
        )
        with replacing(UnicodeEncodeError, by=refused):
            "".join(texts).encode("utf-8")


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
