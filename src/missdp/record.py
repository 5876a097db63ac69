"""Records: frozen facts that are written to JSON and read back, with a checksum.

Everything that the library releases, states or saves (attributes and schemas, events, conditions,
guarantees, results, models with their arrays) is a `Record`, so that there is one way into a file
and one way back. A document is a record with the number of its format and a checksum.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Hashable, Mapping, Set
from dataclasses import fields
from functools import cache, partial
from importlib import import_module
from types import UnionType
from typing import Any, ClassVar, Literal, Self, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from missdp.errors import (
    DataError,
    MissDPError,
    ParameterError,
    did_you_mean,
    number,
    replacing,
    whole,
)

#: The number of the format that is written; the first one that all documents share.
FORMAT = 4

# Modules that define kinds of their own when they are imported.
_MODULES = (
    "missdp.accounting",
    "missdp.schema",
    "missdp.words",
    "missdp.ground_truth",
    "missdp.pricing.prices",
)
#: Whatever a constructor may raise when it is given values of the wrong type or size.
WRONG = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class Record:
    """Base class of dataclasses that are written to JSON under their ``kind``, and read back.

    Fields may hold None, numbers, text, tuples, sets of text, mappings, arrays and other records; a
    list is read back as a tuple. Three class attributes say how it is written:

    * ``kind`` is the name in files, by default that of the class.
    * ``derived`` names properties that are written as well, for other programs, and not read.
    * ``documented_in`` names the page on which the fields are explained, if users write them.

    A class with ``abstract=True`` is no kind by itself, but reads every kind below it.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Span(Record):
    ...     low: float
    ...     high: float
    >>> Span(0.0, 1.5).to_dict()
    {'kind': 'Span', 'low': 0.0, 'high': 1.5}
    >>> Span.from_json(Span(0.0, 1.5).to_json())
    Span(low=0.0, high=1.5)
    """

    kind: ClassVar[str] = ""
    derived: ClassVar[tuple[str, ...]] = ()
    documented_in: ClassVar[str] = ""
    _kinds: ClassVar[dict[str, type[Record]]] = {}

    def __init_subclass__(cls, *, abstract: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.kind = cls.__dict__.get("kind", cls.__name__)
        if abstract:
            return
        known = Record._kinds.get(cls.kind)
        if known is not None and known.__module__ != cls.__module__:
            raise TypeError(f"{cls.kind} is already registered by {known.__module__}")
        Record._kinds[cls.kind] = cls

    def __post_init__(self) -> None:
        """Keep what the check of each field makes of its value: see `NONNEGATIVE` and the like."""
        for known in fields(self):  # type: ignore[arg-type]
            if check := known.metadata.get("check"):
                object.__setattr__(self, known.name, check(known.name, getattr(self, known.name)))

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON values; ``kind`` says which class it is of."""
        kept = {f.name: encoded(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]
        shown = {name: getattr(self, name) for name in self.derived}
        return {"kind": self.kind, **kept, **{k: _shown(v) for k, v in shown.items()}}

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Return the record that `to_dict` wrote; refuse any other."""
        if not isinstance(data, Mapping):
            raise ParameterError(f"expected a JSON object with a 'kind', got {type(data).__name__}")
        found = cls._kind_of(data)

        def refusal(error: BaseException) -> MissDPError:
            if isinstance(error, MissDPError):
                return error
            return found._refusal(data, "fields are missing, unknown or of the wrong type")

        with replacing(*WRONG, by=refusal):
            read = found._read(data)
            for name, hint in _types(cast(Hashable, found)).items():
                if not fits(getattr(read, name), hint):
                    raise found._refusal(data, f"{name} is of the wrong type")
            if not read._coheres():
                raise found._refusal(data, "its parts do not fit each other")
            return read

    def to_json(
        self, *, release: str | None = None, ledger: Mapping[str, Any] | None = None
    ) -> str:
        """Return the record as a JSON text with the number of its format and a checksum.

        ``release`` is the id of the release whose file this is, ``ledger`` which line paid for it.
        """
        return json.dumps(self.to_document(release=release, ledger=ledger), allow_nan=False)

    def to_document(
        self, *, release: str | None = None, ledger: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the record with its format and checksum as values of JSON, not yet text."""
        known = {"release": release, "ledger": ledger}
        of, found = {k: value for k, value in known.items() if value is not None}, self.to_dict()
        if "format" in found:  # of the cells of a column, not of a file
            raise ParameterError(f"a {self.kind} that states a format is written in a schema only")
        return sealed({"format": FORMAT, **of, **found})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the record that `to_json` wrote; refuse a text that was changed since."""
        return cls.from_document(read_json(text))

    @classmethod
    def from_document(cls, document: Any, *, name: str = "the file") -> Self:
        """Return the record of a parsed text; messages name its file by ``name``."""
        if not isinstance(document, Mapping):
            raise ParameterError("expected a JSON object")
        if "format" not in document:  # never written without one
            raise ParameterError(f"{cls.kind} cannot be read: it has no number of its format")
        if not fits(document["format"], int) or document["format"] != FORMAT:
            raise DataError(
                f"the file is not of format {FORMAT}, the only one that is read. Use a file as "
                "missdp wrote it."
            )
        with replacing(RecursionError, by=ParameterError("nested too deeply")):
            document = unsealed(document, name=name)
        return cls.from_dict(document)

    @classmethod
    def _kind_of(cls, data: Mapping[str, Any]) -> type[Self]:
        """Return the class that a dictionary names, which must be this class or one below it."""
        kind = data.get("kind", cls.kind)
        if isinstance(kind, str) and kind not in Record._kinds:
            for module in _MODULES:
                import_module(module)
        found = Record._kinds.get(kind) if isinstance(kind, str) else None
        if found is None or not issubclass(found, cls):
            known = sorted(name for name, one in Record._kinds.items() if issubclass(one, cls))
            listed = f". Known kinds: {', '.join(known)}."
            if "kind" not in data:
                raise cls._refusal(data, f"kind is required{listed}")
            near = did_you_mean(data["kind"], known)
            raise cls._refusal(data, f"unknown kind {data['kind']!r}{near or listed}")
        return found

    @classmethod
    def _read(cls, data: Mapping[str, Any]) -> Self:
        """Return the record of a dictionary."""
        names = {f.name for f in fields(cls)}  # type: ignore[arg-type]
        skipped = {"kind", "format", "release", "ledger", "warnings", *cls.derived} - names
        values = {key: decoded(value) for key, value in data.items() if key not in skipped}
        if unknown := sorted(set(values) - names):
            raise cls._refusal(data, cls._unknown_field(unknown[0]))
        later = {f.name: values.pop(f.name) for f in fields(cls) if not f.init and f.name in values}  # type: ignore[arg-type]
        read = cls(**values)
        vars(read).update(later)
        return read

    @classmethod
    def _unknown_field(cls, name: str) -> str:
        """Return why a field is not accepted, with the known field that is most like it."""
        known = [f.name for f in fields(cls) if f.init]  # type: ignore[arg-type]
        near = did_you_mean(name, known)
        if cls.documented_in:
            end = "" if near else "."
            return f"unknown field {name!r}{near}{end} See {cls.documented_in} for all fields."
        return f"unknown field {name!r}" + (near or f". Known fields: {', '.join(known)}.")

    def _coheres(self) -> bool:
        """Whether fields that were read fit each other; what would fail later only in some rows."""
        return True

    @classmethod
    def _refusal(cls, data: Mapping[str, Any], why: str) -> MissDPError:
        """Return the error that says why a dictionary cannot be read."""
        del data
        return ParameterError(f"{cls.kind} cannot be read: {why}")


@cache
def _types(kind: Hashable) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind)}  # type: ignore[arg-type]


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type; a whole number is a float too, a bool no number."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(fits(value, choice) for choice in args)
    if origin is Literal:
        return isinstance(value, str) and value in args
    if origin is tuple and args[-1:] == (...,):
        return isinstance(value, tuple) and all(fits(item, args[0]) for item in value)
    if origin is tuple:
        fitting = isinstance(value, tuple) and len(value) == len(args)
        return fitting and all(map(fits, value, args))
    if origin is np.ndarray:
        kinds = get_args(args[1])
        return isinstance(value, np.ndarray) and np.issubdtype(value.dtype, kinds[0])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            return False
        return all(fits(key, args[0]) and fits(item, args[1]) for key, item in value.items())
    if isinstance(origin, type) and issubclass(origin, Set):
        return isinstance(value, Set) and all(fits(item, args[0]) for item in value)
    if hint in (int, float):
        wanted = (int,) if hint is int else (int, float)
        return isinstance(value, wanted) and not isinstance(value, bool)
    return hint is Any or not isinstance(hint, type) or isinstance(value, hint)


def encoded(value: Any) -> Any:
    """Return the JSON values of anything that a record may hold; exact to the last bit.

    >>> encoded({"a": (1, 2.5), "b": {("x", "y"): math.inf}})
    {'a': [1, 2.5], 'b': {'kind': 'mapping', 'items': [[['x', 'y'], {'kind': 'float', 'is': 'inf'}]]}}
    """  # noqa: E501
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, np.ndarray):
        return _encoded_array(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"kind": "float", "is": repr(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        if "kind" not in value and all(isinstance(key, str) for key in value):
            return {key: encoded(item) for key, item in value.items()}
        return {"kind": "mapping", "items": [[encoded(k), encoded(v)] for k, v in value.items()]}
    if isinstance(value, (list, tuple, Set)):
        return [encoded(item) for item in (sorted(value) if isinstance(value, Set) else value)]
    raise ParameterError(f"a {type(value).__name__} cannot be written to a file")


def decoded(value: Any) -> Any:
    """Return what `encoded` wrote, and refuse anything else; a list becomes a tuple."""
    if isinstance(value, list):
        return tuple(decoded(item) for item in value)
    if not isinstance(value, Mapping):
        return value
    kind = value.get("kind")
    if "kind" not in value:
        return {key: decoded(item) for key, item in value.items()}
    if kind not in ("array", "mapping", "float") if isinstance(kind, str) else True:
        return Record.from_dict(value)
    with replacing(*WRONG, by=_unless_ours(f"this is no {kind}")):
        if kind == "array":
            return _decoded_array(value)
        if kind == "mapping":
            return {decoded(key): decoded(item) for key, item in value["items"]}
        return float(value["is"])


def _unless_ours(why: str) -> Any:
    return lambda error: error if isinstance(error, MissDPError) else ParameterError(why)


_ARRAYS = re.compile(r"[<|][biuf][1248]")


def _encoded_array(array: NDArray[Any]) -> dict[str, Any]:
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    if not _ARRAYS.fullmatch(plain.dtype.str):
        raise ParameterError("an array that is written to a file holds numbers or true and false")
    data = base64.b64encode(plain.tobytes()).decode("ascii")
    return {"kind": "array", "type": plain.dtype.str, "shape": list(array.shape), "data": data}


def _decoded_array(stored: Mapping[str, Any]) -> NDArray[Any]:
    if not _ARRAYS.fullmatch(stored["type"]):
        raise ParameterError("this is no array of numbers")
    flat = np.frombuffer(base64.b64decode(stored["data"], validate=True), dtype=stored["type"])
    return flat.reshape(stored["shape"]).astype(flat.dtype.newbyteorder("="))


def _shown(value: Any) -> Any:
    """Return a derived number or table for other programs; null where there is no number."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return encoded(value)


def read_json(text: str) -> Any:
    """Return the value of a JSON text; refuse what is none, and numbers that are not finite."""
    # Also texts nested deeper than Python reads.
    with replacing(ValueError, RecursionError, TypeError, by=ParameterError("not valid JSON")):
        return json.loads(text, parse_constant=_no_number)


def _no_number(text: str) -> float:
    raise ValueError(text)


# Each returns the value of a name as a float, and refuses what is not finite or not in the range.
check_positive = partial(number, most=math.inf, open_end=True)
check_nonnegative = partial(number, most=math.inf)
check_fraction = partial(number, most=1.0)
check_delta = partial(number, most=1.0, below=True)


def check_whole(name: str, value: object, *, least: int = 1) -> int:
    """Return a whole number of at least ``least``; refuse what is too large for a float."""
    number(name, value, most=math.inf)
    return whole(name, value, least=least)


# What a field of a record must be: ``rho: float = field(metadata=NONNEGATIVE)``.
POSITIVE = {"check": check_positive}
NONNEGATIVE = {"check": check_nonnegative}
FRACTION = {"check": check_fraction}
DELTA = {"check": check_delta}
COUNT = {"check": partial(check_whole, least=0)}
COUNT_FROM_1 = {"check": check_whole}

_NAME = "sha256"


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with a checksum of its content.

    It shows damage and careless edits; it is no signature, for anyone can compute it.
    """
    return {**document, _NAME: _digest(document)}


def unsealed(document: Mapping[str, Any], *, name: str = "the file") -> dict[str, Any]:
    """Return the document without its checksum; refuse a checksum that is not that of the content.

    >>> unsealed(sealed({"epsilon": 1.0}))
    {'epsilon': 1.0}
    """
    rest = dict(document)
    if rest.pop(_NAME, None) != _digest(rest):
        raise DataError(
            f"{name} was changed after it was written (checksum mismatch). Use an unmodified copy."
        )
    return rest


def _digest(document: Mapping[str, Any]) -> str:
    with replacing(ValueError, by=ParameterError("a document holds finite numbers only")):
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
