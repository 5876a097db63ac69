"""Frozen facts that can be written to JSON and read back: the base of events and conditions.

Documents that show whether they are as they were written: JSON with a checksum.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError, ParameterError, replacing

__all__ = [
    "COUNT",
    "COUNT_FROM_1",
    "DELTA",
    "FRACTION",
    "NONNEGATIVE",
    "POSITIVE",
    "Record",
    "array_from_json",
    "array_to_json",
    "check_delta",
    "check_fraction",
    "check_nonnegative",
    "check_positive",
    "check_whole",
    "read_json",
    "sealed",
    "unsealed",
]


# Rooms above this one that register kinds of their own when they are imported.
_ROOMS = ("missdp.ground_truth", "missdp.preprocess")


class Record:
    """A dataclass whose subclasses register themselves by name, so JSON can find them again.

    A direct subclass opens a *family* (events, conditions); every class below it is a *kind* of
    that family. `from_dict` only ever builds a registered kind of the family it is called on.
    """

    _kinds: ClassVar[dict[str, type[Record]]]
    _families: ClassVar[list[type[Record]]] = []

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if Record in cls.__bases__:
            cls._kinds = {}
            Record._families.append(cls)
            return
        known = cls._kinds.get(cls.__name__)
        if known is not None and known.__module__ != cls.__module__:
            raise TypeError(f"{cls.__name__} is already registered by {known.__module__}")
        cls._kinds[cls.__name__] = cls

    def __post_init__(self) -> None:
        """Keep what the check of each field makes of its value: see `NONNEGATIVE` and the like."""
        for known in fields(self):  # type: ignore[arg-type]
            if check := known.metadata.get("check"):
                object.__setattr__(self, known.name, check(known.name, getattr(self, known.name)))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; ``kind`` names the class."""
        values = {f.name: _encode(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]
        return {"kind": type(self).__name__, **values}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild the record written by `to_dict`.

        Raises
        ------
        ParameterError
            If the kind is unknown, or a field is missing, unknown or out of range.
        """
        if not isinstance(data, Mapping):
            raise ParameterError(f"expected a JSON object with a 'kind', got {type(data).__name__}")
        rest = dict(data)
        kind = rest.pop("kind", None)
        _know(kind)
        found = cls._kinds.get(kind) if isinstance(kind, str) else None
        if found is None or not issubclass(found, cls):
            raise ParameterError(
                f"unknown kind {kind!r}; known kinds: {', '.join(sorted(cls._kinds))}. "
                "If another module defines it, import that module first."
            )
        unreadable = ParameterError(f"{kind} cannot be read: fields are missing or unknown")
        with replacing(TypeError, by=unreadable):
            return found(**{key: cls._decode(value) for key, value in rest.items()})

    def to_json(self) -> str:
        """Return the record as one JSON object."""
        return json.dumps(self.to_dict(), sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Rebuild the record written by `to_json`."""
        return cls.from_dict(read_json(text))

    @classmethod
    def _decode(cls, value: Any) -> Any:
        if isinstance(value, Mapping):  # a record of any family: an event may carry a condition
            kind = value.get("kind")
            _know(kind)
            homes = (family for family in Record._families if kind in family._kinds)
            return next(homes, cls).from_dict(value)
        if isinstance(value, list):
            return tuple(cls._decode(item) for item in value)
        return value


def _know(kind: object) -> None:
    """Import the rooms that define kinds of their own, if a kind is not known without them."""
    if not any(kind in family._kinds for family in Record._families if isinstance(kind, str)):
        for room in _ROOMS:
            import_module(room)


def _encode(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    return value


def read_json(text: str) -> Any:
    """Return the value of a JSON text; refuse what is none."""
    # Also texts nested deeper than Python reads.
    with replacing(ValueError, RecursionError, TypeError, by=ParameterError("not valid JSON")):
        return json.loads(text)


def _number(name: str, value: object) -> float:
    refusal = ParameterError(f"{name} must be a number, got {type(value).__name__}")
    with replacing(TypeError, ValueError, OverflowError, by=refusal):
        number = float(value)  # type: ignore[arg-type]
    if not math.isfinite(number):
        raise ParameterError(f"{name} must be finite, got {number}")
    return number


def check_positive(name: str, value: object) -> float:
    """Return ``value`` as a float; refuse what is not finite and above 0."""
    number = _number(name, value)
    if number <= 0:
        raise ParameterError(f"{name} must be above 0, got {number}")
    return number


def check_nonnegative(name: str, value: object) -> float:
    """Return ``value`` as a float; refuse what is not finite and at least 0."""
    number = _number(name, value)
    if number < 0:
        raise ParameterError(f"{name} must be at least 0, got {number}")
    return number


def check_whole(name: str, value: object, *, least: int) -> int:
    """Return ``value`` as an integer; refuse what is no whole number of at least ``least``."""
    number = check_nonnegative(name, value)
    if isinstance(value, bool) or number != int(number) or number < least:
        raise ParameterError(f"{name} must be a whole number of at least {least}, got {number:g}")
    return int(number)


def check_fraction(name: str, value: object) -> float:
    """Return ``value`` as a float; refuse what is not in [0, 1]."""
    number = _number(name, value)
    if not 0 <= number <= 1:
        raise ParameterError(f"{name} must be in [0, 1], got {number}")
    return number


def check_delta(name: str, value: object) -> float:
    """Return ``value`` as a float; refuse what is not in [0, 1)."""
    number = _number(name, value)
    if not 0 <= number < 1:
        raise ParameterError(f"{name} must be in [0, 1), got {number}")
    return number


# What a field of a record must be: ``rho: float = field(metadata=NONNEGATIVE)``.
POSITIVE = {"check": check_positive}
NONNEGATIVE = {"check": check_nonnegative}
FRACTION = {"check": check_fraction}
DELTA = {"check": check_delta}
COUNT = {"check": partial(check_whole, least=0)}
COUNT_FROM_1 = {"check": partial(check_whole, least=1)}

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
