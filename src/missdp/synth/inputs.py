"""Open the data of a fit; small questions about its parameters."""

from __future__ import annotations

import numbers
from typing import Any, TypeGuard

from missdp.errors import SchemaError
from missdp.schema import Schema
from missdp.sources import MarginalSource, is_source, open_source
from missdp.table import FrameKind, Table
from missdp.table.frames import frame_kind

__all__ = ["chosen_delta", "is_declared", "is_noisy", "is_whole", "open_data"]


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


def chosen_delta(delta: float | None, n_rows: str | int) -> float:
    """Return the delta of a fit: what was asked for, else 1e-6, or 1 / (100 n) for a large known n.

    Examples
    --------
    >>> chosen_delta(None, "noisy"), chosen_delta(None, 10**6), chosen_delta(0.0, 10**6)
    (1e-06, 1e-08, 0.0)
    """
    if delta is not None:
        return delta
    return min(1e-6, 1 / (100 * n_rows)) if is_declared(n_rows) and n_rows > 0 else 1e-6


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether a parameter is a whole number."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_noisy(n_rows: Any) -> TypeGuard[str]:
    """Whether the number of rows is to be released."""
    return isinstance(n_rows, str) and n_rows == "noisy"


def is_declared(n_rows: str | int) -> TypeGuard[int]:
    """Whether the number of rows was declared public."""
    return not is_noisy(n_rows)
