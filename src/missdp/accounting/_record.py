"""Frozen facts that can be written to JSON and read back: the base of events and conditions."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any, ClassVar, Self

from missdp.errors import ParameterError, replacing

__all__ = [
    "Record",
    "check_delta",
    "check_fraction",
    "check_nonnegative",
    "check_positive",
    "read_json",
]


# Rooms above this one that register kinds of their own when they are imported.
_ROOMS = ("missdp.ground_truth", "missdp.transforms")


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
