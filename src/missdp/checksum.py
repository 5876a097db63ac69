"""Documents that show whether they are as they were written: JSON with a checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from missdp.errors import DataError

__all__ = ["sealed", "unsealed"]

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
