"""Released models on disk: JSON, readable by anyone, executed by no one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from missdp.accounting import Guarantee
from missdp.checksum import sealed, unsealed
from missdp.errors import DataError, replacing
from missdp.files import write_atomically
from missdp.schema import Schema
from missdp.table import FrameKind

__all__ = ["StoredModel", "read_model", "write_model"]

_FORMAT = 2
_WITHOUT_CHECKSUM = 1
# What strategies were called in files written before version 0.2.
_RENAMED = {"adaptive": "observed", "auto": "joint"}


@dataclass(frozen=True, kw_only=True)
class StoredModel:
    """What a model file holds: public facts and released values only."""

    parameters: dict[str, Any]
    schema: Schema
    kind: FrameKind
    n_rows: int
    n_rows_std: float
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
    n_rows_std: float,
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
        "n_rows_std": n_rows_std,
        "guarantee": guarantee.to_dict(),
        "released": dict(released),
    }
    write_atomically(
        path, json.dumps(sealed(document), indent=1, ensure_ascii=False).encode("utf-8")
    )


def read_model(path: Path, *, family: str) -> StoredModel:
    """Read what :func:`write_model` wrote.

    Raises
    ------
    DataError
        If the file is absent, is not a model file, or holds a model of another family.
    """
    broken = DataError(f"{str(path)!r} is not a missdp model file")

    def unreadable(error: BaseException) -> DataError:
        return DataError(f"cannot read {str(path)!r}: {getattr(error, 'strerror', None)}")

    # Not one of ours among the errors of the first two blocks, which are replaced.
    with replacing(OSError, by=unreadable), replacing(ValueError, RecursionError, by=broken):
        document = json.loads(path.read_text(encoding="utf-8"))
    with replacing(KeyError, TypeError, by=broken):
        written, kind = document["format"], document["family"]
    if written not in (_FORMAT, _WITHOUT_CHECKSUM):
        raise DataError(f"{str(path)!r} was written by another version of missdp")
    if written != _WITHOUT_CHECKSUM:
        document = unsealed(document)
    if kind != family:
        raise DataError(f"{str(path)!r} holds a {kind} model; load it with that class")
    with replacing(ValueError, KeyError, TypeError, by=broken):
        return StoredModel(
            parameters=_renamed(document["parameters"]),
            schema=Schema.from_dict(document["schema"]),
            kind=document["kind"],
            n_rows=int(document["n_rows"]),
            n_rows_std=float(document["n_rows_std"]),
            guarantee=Guarantee.from_dict(document["guarantee"]),
            released=document["released"],
        )


def _renamed(parameters: Mapping[str, Any]) -> dict[str, Any]:
    missing = parameters["missing"]
    return {**parameters, "missing": _RENAMED.get(missing, missing)}
