"""Released models on disk: JSON, readable by anyone, executed by no one."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Guarantee
from missdp.errors import DataError
from missdp.files import write_atomically
from missdp.schema import Schema
from missdp.table import FrameKind

__all__ = ["StoredModel", "array_from_json", "array_to_json", "read_model", "write_model"]

_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class StoredModel:
    """What a model file holds: public facts and released values only."""

    parameters: dict[str, Any]
    schema: Schema
    kind: FrameKind
    n_rows: int
    guarantee: Guarantee
    released: dict[str, Any]


def write_model(
    path: Path,
    *,
    family: str,
    parameters: Mapping[str, Any],
    schema: Schema,
    kind: FrameKind,
    n_rows: int,
    guarantee: Guarantee,
    released: Mapping[str, Any],
) -> None:
    """Write a released model, whole or not at all."""
    document = {
        "format": _FORMAT,
        "family": family,
        "parameters": dict(parameters),
        "schema": schema.to_dict(),
        "kind": kind,
        "n_rows": n_rows,
        "guarantee": guarantee.to_dict(),
        "released": dict(released),
    }
    write_atomically(path, json.dumps(document, indent=1, ensure_ascii=False).encode("utf-8"))


def read_model(path: Path, *, family: str) -> StoredModel:
    """Read what :func:`write_model` wrote.

    Raises
    ------
    DataError
        If the file is absent, is not a model file, or holds a model of another family.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != _FORMAT:
            raise DataError(f"{str(path)!r} was written by another version of missdp")
        if document["family"] != family:
            raise DataError(
                f"{str(path)!r} holds a {document['family']} model; load it with that class"
            )
        return StoredModel(
            parameters=document["parameters"],
            schema=Schema.from_dict(document["schema"]),
            kind=document["kind"],
            n_rows=int(document["n_rows"]),
            guarantee=Guarantee.from_dict(document["guarantee"]),
            released=document["released"],
        )
    except OSError as error:
        raise DataError(f"cannot read {str(path)!r}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{str(path)!r} is not a missdp model file") from None


def array_to_json(array: NDArray[np.float64]) -> dict[str, Any]:
    """Encode an array exactly: shape and little-endian doubles in base64."""
    data = np.ascontiguousarray(array, dtype="<f8")
    return {"shape": list(array.shape), "data": base64.b64encode(data.tobytes()).decode("ascii")}


def array_from_json(stored: Mapping[str, Any]) -> NDArray[np.float64]:
    """Inverse of :func:`array_to_json`."""
    flat = np.frombuffer(base64.b64decode(stored["data"]), dtype="<f8")
    return flat.reshape(stored["shape"]).astype(np.float64)
