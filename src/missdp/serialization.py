"""Serialization: public facts as pydantic dataclasses, which are written to JSON and read back.

Everything that the library releases, states or saves (attributes and schemas, events, conditions,
guarantees, results, models with their arrays) is a `Record`. A record is a frozen dataclass of
pydantic: its constructor checks the type and the range of each field. There is one way into a file
and one way back. A document is a record with the number of its format and a checksum.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Set
from dataclasses import fields
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, field_validator

from missdp.errors import DataError, MissDPError, ParameterError, did_you_mean, replacing
from missdp.validation import Checked, jsonable

FORMAT = 5
"""Number of the format that is written. No other format is read."""

# Modules that define kinds of records when they are imported.
_MODULES = (
    "missdp.accounting",
    "missdp.schema",
    "missdp.words",
    "missdp.ground_truth",
    "missdp.pricing.prices",
)
WRONG = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that a constructor may raise for values of the wrong type or size."""


class Record(metaclass=Checked):
    """Base class of immutable public values that are written to JSON and read back exactly.

    Schemas, events, conditions, guarantees and models are records. A subclass is a frozen dataclass
    of pydantic. Its constructor checks the type and the range of each field and raises
    `ParameterError`.

    Fields may hold None, numbers, text, tuples, sets of text, mappings, arrays and other records. A
    list becomes a tuple, and a number of NumPy becomes a number of Python. No other value is
    converted. Arrays are declared by the types of `missdp.types`. The fields of a plain dataclass
    are checked, too. Class attributes determine the form in files:

    * ``kind`` is the name in files, by default the name of the class.
    * ``derived`` names properties that are also written, for other programs, and not read.
    * ``sparse`` omits fields that equal their defaults.
    * ``documented_in`` names the page that explains the fields, if users write them.

    A class with ``abstract=True`` is not a kind, but reads every kind of its subclasses.

    Examples
    --------
    >>> from missdp.serialization import Record
    >>> from pydantic.dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Span(Record):
    ...     low: float
    ...     high: float
    >>> Span(0.0, 1.5).to_dict()
    {'kind': 'Span', 'low': 0.0, 'high': 1.5}
    >>> Span.from_json(Span(0.0, 1.5).to_json())
    Span(low=0.0, high=1.5)
    """

    __pydantic_config__ = ConfigDict(
        strict=True, extra="forbid", defer_build=True, hide_input_in_errors=True
    )
    kind: ClassVar[str] = ""
    derived: ClassVar[tuple[str, ...]] = ()
    sparse: ClassVar[bool] = False
    documented_in: ClassVar[str] = ""
    is_declared: ClassVar[bool] = True  # whether users write the kind, so that messages propose it
    _kinds: ClassVar[dict[str, type[Record]]] = {}

    def __init_subclass__(cls, *, abstract: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.kind = cls.__dict__.get("kind", cls.__name__)
        if "__init__" in cls.__dict__:  # dataclasses add their __init__ later
            raise TypeError(
                f"{cls.__name__}: a record has no __init__ of its own, for it would not be called. "
                "Use __post_init__, or a class method"
            )
        if abstract:
            return
        other = Record._kinds.get(cls.kind)
        if other is not None and other.__module__ != cls.__module__:
            raise TypeError(f"{cls.kind} is already registered by {other.__module__}")
        Record._kinds[cls.kind] = cls

    @field_validator("*", mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        """Return lists as tuples, and numbers of NumPy as numbers of Python."""
        return jsonable(value)

    def to_dict(self) -> dict[str, Any]:
        """Return a public object, such as a schema or a guarantee, as a dictionary of JSON values.

        All fields of the object are public or released values.

        Returns
        -------
        dict
            Each field by its name, and the name of the class under ``"kind"``. `from_dict` reads
            it.

        Raises
        ------
        ParameterError
            If a field has a value of a type that is not written to files.
        """
        values = ((f, getattr(self, f.name)) for f in fields(self))  # type: ignore[arg-type]
        stored = {f.name: pack(v) for f, v in values if not (self.sparse and v == f.default)}
        derived = {name: _encode_derived(getattr(self, name)) for name in self.derived}
        return {"kind": self.kind, **stored, **derived}

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Return the public object, such as a schema or a guarantee, that a dictionary describes.

        All fields of the object are public or released values.

        Parameters
        ----------
        data : mapping
            Fields by name, as `to_dict` returns them. ``"kind"`` names this class or a subclass.

        Returns
        -------
        Record
            An object of the named class.

        Raises
        ------
        MissDPError
            If the dictionary does not describe an object of this class. It is a `ParameterError`,
            unless the class raises another error, such as `SchemaError`.
        """
        if not isinstance(data, Mapping):
            raise ParameterError(f"expected a JSON object with a 'kind', got {type(data).__name__}")
        kind = cls._class_of_kind(data)
        if kind is not cls:  # the class may tell its subclasses apart by other fields
            kind = kind._class_of_kind(data)

        def refusal(error: BaseException) -> MissDPError:
            if isinstance(error, MissDPError):
                return error
            return kind._refusal(data, "fields are missing, unknown or of the wrong type")

        with replacing(*WRONG, by=refusal):
            read = kind._read(data)
            if not read._coheres():
                raise kind._refusal(data, "its parts do not fit each other")
            return read

    def to_json(self) -> str:
        """Return a public object, such as a schema or a guarantee, as a JSON text with a checksum.

        All fields of the object are public or released values.

        Returns
        -------
        str
            Text with the fields, the number of the format and a checksum. `from_json` reads it.

        Raises
        ------
        ParameterError
            If a field has a value of a type that is not written to files.
        """
        return json.dumps(self.to_document(), allow_nan=False)

    def to_document(self) -> dict[str, Any]:
        """Return a public object, such as a schema, as JSON values with format and checksum.

        All fields of the object are public or released values.

        Returns
        -------
        dict
            The fields, ``"kind"``, ``"format"`` and ``"sha256"``. `from_document` reads it.

        Raises
        ------
        ParameterError
            If a field has a value of a type that is not written to files.
        """
        values = self.to_dict()
        if "format" in values:  # format of the cells of a column, not of a file
            raise ParameterError(f"a {self.kind} that states a format is written in a schema only")
        return seal({"format": FORMAT, **values})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the public object, such as a schema or a guarantee, that a JSON text describes.

        All fields of the object are public or released values.

        Parameters
        ----------
        text : str
            The text.

        Returns
        -------
        Record
            An object of the class that the text names: this class or a subclass.

        Raises
        ------
        DataError
            If the text is of another format, or was changed after it was written.
        MissDPError
            If the text is not JSON, or does not describe an object of this class. It is a
            `ParameterError`, unless the class raises another error.
        """
        return cls.from_document(read_json(text))

    @classmethod
    def from_document(cls, document: Any, *, name: str = "the file") -> Self:
        """Return the public object, such as a schema, that JSON values with a checksum describe.

        All fields of the object are public or released values.

        Parameters
        ----------
        document : mapping
            The JSON values, with format and checksum.
        name : str, default "the file"
            Name of their file in error messages.

        Returns
        -------
        Record
            An object of the class that the document names: this class or a subclass.

        Raises
        ------
        DataError
            If the document is of another format, or was changed after it was written.
        MissDPError
            If it does not describe an object of this class. It is a `ParameterError`, unless the
            class raises another error.
        """
        if not isinstance(document, Mapping):
            raise ParameterError("expected a JSON object")
        if "format" not in document:  # every written document has a format
            raise ParameterError(f"{cls.kind} cannot be read: it has no number of its format")
        if type(document["format"]) is not int or document["format"] != FORMAT:
            raise DataError(
                f"the file is not of format {FORMAT}, the only one that is read. Use a file as "
                "missdp wrote it."
            )
        with replacing(RecursionError, by=ParameterError("nested too deeply")):
            document = unseal(document, name=name)
        return cls.from_dict({n: value for n, value in document.items() if n != "format"})

    @classmethod
    def _class_of_kind(cls, data: Mapping[str, Any]) -> type[Self]:
        """Return the class that a dictionary names, which must be this class or a subclass."""
        kind = data.get("kind", cls.kind)
        if isinstance(kind, str) and kind not in Record._kinds:
            for module in _MODULES:
                import_module(module)
        record = Record._kinds.get(kind) if isinstance(kind, str) else None
        if record is None or not issubclass(record, cls):
            kinds = [other for other in Record._kinds.values() if issubclass(other, cls)]
            names = sorted(other.kind for other in kinds if other.is_declared)
            listed = f". Known kinds: {', '.join(names)}."
            if "kind" not in data:
                raise cls._refusal(data, f"kind is required{listed}")
            similar = did_you_mean(data["kind"], names)
            raise cls._refusal(data, f"unknown kind {data['kind']!r}{similar or listed}")
        return record

    @classmethod
    def _read(cls, data: Mapping[str, Any]) -> Self:
        """Return the record of a dictionary."""
        skipped = {"kind", "warnings", *cls.derived}  # commands write these in addition
        return cls(**{str(n): unpack(value) for n, value in data.items() if n not in skipped})

    @classmethod
    def _unknown_field(cls, name: str) -> str:
        """Return the reason that a field is not accepted, with the most similar valid field."""
        valid = [f.name for f in fields(cls) if f.init]  # type: ignore[arg-type]
        similar = did_you_mean(name, valid)
        if cls.documented_in:
            end = "" if similar else "."
            return f"unknown field {name!r}{similar}{end} See {cls.documented_in} for all fields."
        return f"unknown field {name!r}" + (similar or f". Known fields: {', '.join(valid)}.")

    def _coheres(self) -> bool:
        """Whether the read fields fit each other, so that no later step fails for some rows."""
        return True

    @classmethod
    def _refusal(cls, data: Mapping[str, Any], why: str) -> MissDPError:
        """Return the error for a dictionary that cannot be read."""
        del data
        return ParameterError(f"{cls.kind}: {why}")


def pack(value: Any) -> Any:
    """Return the value of a record's field as JSON values, exact to the last bit.

    Parameters
    ----------
    value : object
        None, number, text, tuple, list, set, mapping, array of numbers, or `Record`.

    Returns
    -------
    object
        JSON values, from which `unpack` makes an equal value.

    Raises
    ------
    ParameterError
        If the value is of another type.

    Examples
    --------
    >>> import math
    >>> from missdp.serialization import pack
    >>> pack({"a": (1, 2.5), "b": {("x", "y"): math.inf}})
    {'a': [1, 2.5], 'b': {'kind': 'mapping', 'items': [[['x', 'y'], {'kind': 'float', 'is':
    'inf'}]]}}
    """
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
            return {key: pack(item) for key, item in value.items()}
        return {
            "kind": "mapping",
            "items": [[pack(k), pack(v)] for k, v in value.items()],
        }
    if isinstance(value, (list, tuple, Set)):
        return [pack(item) for item in (sorted(value) if isinstance(value, Set) else value)]
    raise ParameterError(f"a {type(value).__name__} cannot be written to a file")


def unpack(value: Any) -> Any:
    """Return the value of a record's field from JSON values that `pack` returned.

    Parameters
    ----------
    value : object
        The JSON values.

    Returns
    -------
    object
        The value, with lists as tuples.

    Raises
    ------
    ParameterError
        If the JSON values do not describe a value.
    """
    if isinstance(value, list):
        return tuple(unpack(item) for item in value)
    if not isinstance(value, Mapping):
        return value
    kind = value.get("kind")
    if "kind" not in value:
        return {key: unpack(item) for key, item in value.items()}
    if kind not in ("array", "mapping", "float") if isinstance(kind, str) else True:
        return Record.from_dict(value)
    with replacing(*WRONG, by=_unless_ours(f"this is not a valid {kind}")):
        if kind == "array":
            return _decoded_array(value)
        if kind == "mapping":
            return {unpack(key): unpack(item) for key, item in value["items"]}
        return float(value["is"])


def _unless_ours(why: str) -> Any:
    return lambda error: error if isinstance(error, MissDPError) else ParameterError(why)


_ARRAYS = re.compile(r"[<|][biuf][1248]")


def _encoded_array(array: NDArray[Any]) -> dict[str, Any]:
    values = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    if not _ARRAYS.fullmatch(values.dtype.str):
        raise ParameterError("an array that is written to a file holds numbers or true and false")
    data = base64.b64encode(values.tobytes()).decode("ascii")
    return {"kind": "array", "type": values.dtype.str, "shape": list(array.shape), "data": data}


def _decoded_array(stored: Mapping[str, Any]) -> NDArray[Any]:
    if not _ARRAYS.fullmatch(stored["type"]):
        raise ParameterError("this is not an array of numbers")
    flat = np.frombuffer(base64.b64decode(stored["data"], validate=True), dtype=stored["type"])
    return flat.reshape(stored["shape"]).astype(flat.dtype.newbyteorder("="))


def _encode_derived(value: Any) -> Any:
    """Return the JSON values of a derived property, with null for a number that is not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return pack(value)


def read_json(text: str) -> Any:
    """Return the value of a JSON text, in which all numbers are finite.

    Parameters
    ----------
    text : str
        The text.

    Returns
    -------
    object
        Dictionaries, lists, numbers, text, booleans and None.

    Raises
    ------
    ParameterError
        If the text is not JSON, is nested too deeply, or has a number that is not finite.
    """
    # A RecursionError means that the text is nested deeper than Python reads.
    with replacing(ValueError, RecursionError, TypeError, by=ParameterError("not valid JSON")):
        return json.loads(text, parse_constant=_no_number)


def _no_number(text: str) -> float:
    raise ValueError(text)


_NAME = "sha256"


def seal(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dictionary with a checksum of its content under the key ``"sha256"``.

    The checksum finds damage and careless edits. It is not a signature, since anyone can compute
    it.

    Parameters
    ----------
    document : mapping
        JSON values with finite numbers.

    Returns
    -------
    dict
        A copy with the checksum.

    Raises
    ------
    ParameterError
        If a value is not JSON or not finite.
    """
    return {**document, _NAME: _digest(document)}


def unseal(document: Mapping[str, Any], *, name: str = "the file") -> dict[str, Any]:
    """Return a dictionary without its checksum, after checking the checksum.

    Parameters
    ----------
    document : mapping
        JSON values that `seal` returned.
    name : str, default "the file"
        Name of their file in error messages.

    Returns
    -------
    dict
        A copy without the checksum.

    Raises
    ------
    DataError
        If the checksum is missing or wrong.

    Examples
    --------
    >>> from missdp.serialization import seal, unseal
    >>> unseal(seal({"epsilon": 1.0}))
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
