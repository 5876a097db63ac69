"""Documents that show whether they are as they were written: JSON with a checksum."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError

__all__ = ["array_from_json", "array_to_json", "sealed", "unsealed"]

_NAME = "sha256"


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with a checksum of its content.

    It shows damage and careless edits; it is no signature, for anyone can compute it.

    Parameters
    ----------
    document : mapping of str to JSON values

    Examples
    --------
    >>> unsealed(sealed({"epsilon": 1.0}))
    {'epsilon': 1.0}
    """
    return {**document, _NAME: _digest(document)}


def unsealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document without its checksum.

    Raises
    ------
    DataError
        If the checksum is absent, or not that of the content.
    """
    rest = dict(document)
    if rest.pop(_NAME, None) != _digest(rest):
        raise DataError(
            "the checksum of the file is not that of its content: it was damaged or edited. Use "
            "the file as it was written"
        )
    return rest


def _digest(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def array_to_json(array: NDArray[np.float64]) -> dict[str, Any]:
    """Encode an array exactly: shape and little-endian doubles in base64."""
    data = np.ascontiguousarray(array, dtype="<f8")
    return {"shape": list(array.shape), "data": base64.b64encode(data.tobytes()).decode("ascii")}


def array_from_json(stored: Mapping[str, Any]) -> NDArray[np.float64]:
    """Inverse of :func:`array_to_json`."""
    flat = np.frombuffer(base64.b64decode(stored["data"]), dtype="<f8")
    return flat.reshape(stored["shape"]).astype(np.float64)
