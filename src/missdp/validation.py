"""Validation: pydantic checks the fields of records, and the errors here are of this package.

Errors of pydantic quote the input values, and some of these values may be cells. So they are
replaced in one place, by errors that name the field and its valid values, and quote no input.
"""

from __future__ import annotations

import re
from abc import ABCMeta
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from inspect import Parameter, Signature
from typing import Annotated, Any, Final, cast

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import ArgsKwargs

from missdp.errors import MissDPError, did_you_mean

NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Delta = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
_MAX_COUNT = 2**1023  # a larger integer is not a floating-point number
Count = Annotated[int, Field(ge=0, lt=_MAX_COUNT)]
CountFrom1 = Annotated[int, Field(ge=1, lt=_MAX_COUNT)]

# Map from the type of an error of pydantic to the valid values of the field.
_EXPECTED: Final = {
    "bool_type": "true or false",
    "finite_number": "a finite number",
    "float_type": "a finite number",
    "greater_than": "above {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "int_type": "a whole number",
    "less_than": "below {lt:g}",
    "less_than_equal": "at most {le:g}",
    "literal_error": "one of {expected}",
    "string_type": "text",
    "string_unicode": "text",
}


def jsonable(value: Any) -> Any:
    """Return a value with lists and iterators as tuples, and numbers of NumPy as numbers of Python.

    Parameters
    ----------
    value : object
        The value of a field of a record.

    Returns
    -------
    object
        The converted value, or the value itself if it is of another type.
    """
    if type(value) in (list, tuple) or isinstance(value, Iterator):
        return tuple(map(jsonable, value))
    return value.item() if isinstance(value, np.generic) else value


def as_tuple(value: Any) -> Any:
    """Return the members of a collection as a tuple.

    Parameters
    ----------
    value : object
        A set, sequence, series or other iterable.

    Returns
    -------
    object
        A tuple. Text, bytes, mappings and values that are not iterable are returned unchanged.
    """
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        return value
    return tuple(value)


def as_set(names: Any) -> Any:
    """Return a tuple or set of names as a frozen set of text.

    Parameters
    ----------
    names : object
        A tuple or set of names.

    Returns
    -------
    object
        A frozen set. Values of other types are returned unchanged.
    """
    return frozenset(map(str, names)) if isinstance(names, (tuple, Set)) else names


def is_instance_of(value: Any, hint: Any) -> bool:
    """Return whether a value is of an annotated type, by the strict rules of records.

    Parameters
    ----------
    value : object
        The value.
    hint : type
        A type, possibly annotated with limits.

    Returns
    -------
    bool
        True if a field of this type accepts the value.
    """
    try:
        TypeAdapter(hint).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


class Checked(ABCMeta):
    """Metaclass of records: the only place where errors of pydantic are replaced.

    An error of pydantic quotes values, and nested types do not inherit the setting that hides them.
    The replacement has no reference to the original error.
    """

    def __call__(cls, *args: Any, **facts: Any) -> Any:
        """Return a record, whose fields pydantic has checked."""
        try:
            if "__pydantic_validator__" in cls.__dict__:
                return type.__call__(cls, *args, **facts)
            # This is a dataclass of the standard library, in another package.
            record, values = cast(Any, cls).__new__(cls), ArgsKwargs(args, facts)
            return _reader(cls).validator.validate_python(values, self_instance=record)
        except ValidationError as caught:
            problems = caught.errors(include_url=False)
        first = min(problems, key=lambda problem: problem["type"] != "unexpected_keyword_argument")
        error = first.get("ctx", {}).get("error")
        raise error if isinstance(error, MissDPError) else _typed_error(cls, facts, first)

    @property
    def __signature__(cls) -> Signature:
        """The fields, as `inspect.signature` and documentation show them."""
        members = fields(cast(Any, cls)) if is_dataclass(cls) else ()
        return Signature(sorted(map(_parameter, members), key=lambda parameter: parameter.kind))

    @__signature__.setter
    def __signature__(cls, signature: object) -> None:
        """Ignore the signature of pydantic, whose parameters differ if it builds a class late."""


@cache
def _reader(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _parameter(field: Any) -> Parameter:
    kind = Parameter.KEYWORD_ONLY if field.kw_only else Parameter.POSITIONAL_OR_KEYWORD
    default = field.default if field.default_factory is MISSING else field.default_factory()
    default = Parameter.empty if default is MISSING else default
    return Parameter(field.name, kind, default=default, annotation=field.type)


def _typed_error(kind: Any, facts: Mapping[str, Any], problem: Mapping[str, Any]) -> MissDPError:
    """Return the error for a problem of pydantic, which names the field and no value."""
    names, place = [f.name for f in fields(kind)], next(iter(problem["loc"]), "it")
    name = names[place] if isinstance(place, int) and place < len(names) else str(place)
    field = getattr(kind, "__pydantic_fields__", {}).get(name)
    words, details = getattr(field, "description", None), problem.get("ctx", {})
    if problem["type"] == "unexpected_keyword_argument":
        why = kind._unknown_field(name)
    elif problem["type"].startswith("missing"):
        why = f"{name} is required{': ' if words else ''}{words or ''}"
    elif words or problem["type"] in _EXPECTED:
        choices = re.findall("'([^']+)'", details.get("expected", ""))
        similar = did_you_mean(problem["input"], choices) if choices else ""
        why = f"{name} must be {words or _EXPECTED[problem['type']].format(**details)}{similar}"
    else:
        why = f"{name} is of the wrong type"
    return cast(MissDPError, kind._refusal(facts, why))
