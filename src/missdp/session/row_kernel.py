"""The row kernel: the only code that turns private rows into other private rows.

A *row function* maps one row to exactly one row. Its contract:

* It turns one row into exactly one row. No row is dropped, doubled or moved.
* The function has no state. It sees no index, no block and no neighbour. The result for a row does
  not depend on its block, its place or other rows.
* It is total. A cell that cannot be read becomes a public code. Exceptions are outputs: a schema
  may ask for a refusal instead (``outside="error"``). Whether a table is refused is not private.
* It is a function of the row, of the row's own random numbers, and of a frozen copy of public and
  released values. The kernel draws the random numbers, for each row independently and with one
  distribution, from a generator that the operating system seeds. A fit with an explicit seed draws
  them in the order of the rows, and its guarantee states `ExplicitSeed`.

So if two tables differ by one row, their images differ by one row. For the proof, let the random
numbers of the common rows be equal, which changes no distribution. Every bound on one row's
influence on counts then holds for the images too.

`map_rows` applies a row function to a block of rows. It checks everything about the result that can
be checked: names, numbers of rows, types and public ranges. Independence of other rows is a
property of a function's text, which `tests/session/test_row_functions.py` tests for every
registered function. This property is tested, not proven.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError, ParameterError
from missdp.schema import Numeric, Schema
from missdp.schema.numeric import code_dtype
from missdp.session.redaction import redacted
from missdp.types import Floats

Block: TypeAlias = Mapping[Any, Any]
"""Columns of some rows, all of one length: arrays, or cells as a file holds them.

An attribute names the column of its codes, and ``(VALUES, attribute)`` the column of its numbers.
"""

VALUES = "values"
ROWS_AT_ONCE = 4096  # rows whose random numbers are in memory at a time
FAILED = "a row could not be read or changed as the schema declares it"


@dataclass(frozen=True)
class Range:
    """Public type and range of the cells of a column, which the result of a row function must keep.

    Parameters
    ----------
    dtype : numpy dtype
        Type of every cell.
    lower, upper : float
        Smallest and largest valid cell. No cell is NaN.
    """

    dtype: np.dtype[Any]
    lower: float
    upper: float

    @classmethod
    def codes(cls, dtype: Any, size: int) -> Range:
        """Return the range of a column of codes from 0 to a number of codes less 1.

        Parameters
        ----------
        dtype : numpy dtype
            Type of every cell.
        size : int
            Number of codes. Public.

        Returns
        -------
        Range
            Public.
        """
        return cls(np.dtype(dtype), 0, size - 1)

    def holds(self, column: Any, n_rows: int) -> bool:
        """Return whether a column has the declared type and length, and no cell out of range.

        Parameters
        ----------
        column : object
            The column. Private.
        n_rows : int
            The number of rows. Private.

        Returns
        -------
        bool
            Private.
        """
        if type(column) is not np.ndarray or column.dtype != self.dtype:
            return False
        if column.shape != (n_rows,):
            return False
        # A comparison with NaN is false.
        return not n_rows or bool(self.lower <= column.min() and column.max() <= self.upper)


def column_ranges(schema: Schema, valued: Iterable[str] = ()) -> dict[Any, Range]:
    """Return the public ranges of the columns of coded rows.

    Parameters
    ----------
    schema : Schema
        Public facts about the rows.
    valued : iterable of str
        The numeric attributes that have numbers besides codes.

    Returns
    -------
    dict to Range
        The range of each column.
    """
    ranges: dict[Any, Range] = {a.name: Range.codes(code_dtype(a), a.extended_size) for a in schema}
    for name in valued:
        attribute = schema[name]
        assert isinstance(attribute, Numeric)
        ranges[VALUES, name] = Range(np.dtype(np.float64), attribute.lower, attribute.upper)
    return ranges


@dataclass(frozen=True, eq=False)
class RowFunction(abc.ABC):
    """Base class of functions that change private rows, each row by itself.

    The result for one row must depend on this row, its random numbers and public or released values
    only. The number of rows, types and ranges of the result are checked. Independence of other rows
    is tested, and a guarantee states it as the condition `RowFunctionsTested`. A subclass is a
    frozen dataclass that `row_function` registers. It defines ``columns`` and ``apply``, and
    ``draws`` if it needs random numbers. Its fields are read-only copies of public or released
    values.

    Raises
    ------
    ParameterError
        If a field has a mutable value of another type than array, mapping, list or tuple.
    """

    def __post_init__(self) -> None:
        for member in fields(self):
            object.__setattr__(self, member.name, _frozen(getattr(self, member.name)))

    @property
    @abc.abstractmethod
    def columns(self) -> Mapping[Any, Range]:
        """Return the columns that a row function makes, with their public types and ranges.

        Returns
        -------
        mapping to Range
            The range of each column. The name of an attribute is the key of its codes. ``(VALUES,
            attribute)`` is the key of its numbers.
        """

    @property
    def draws(self) -> int:
        """Return the number of uniform random numbers that a row function needs for each row.

        Returns
        -------
        int
            0 by default. Public.
        """
        return 0

    @abc.abstractmethod
    def apply(self, rows: Block, uniforms: Floats) -> Block:
        """Return the columns of the changed rows, each row changed by itself.

        Parameters
        ----------
        rows : mapping to columns
            The rows. Private.
        uniforms : ndarray of shape (n_rows, draws)
            The random numbers of each row, in [0, 1). Private.

        Returns
        -------
        mapping to columns
            The columns that `columns` declares, each with ``n_rows`` cells. Private.
        """


_Kind = TypeVar("_Kind", bound=type[RowFunction])
_REGISTERED: set[type[RowFunction]] = set()


def row_function(kind: _Kind) -> _Kind:
    """Register a class of row functions, as a decorator.

    A row function changes private rows, each row by itself. A generic test runs over all registered
    classes.

    Parameters
    ----------
    kind : type
        A frozen dataclass that derives from `RowFunction`.

    Returns
    -------
    type
        The class itself.

    Raises
    ------
    ParameterError
        If the class is not a frozen dataclass that derives from `RowFunction`.
    """
    parameters = getattr(kind, "__dataclass_params__", None)
    if parameters is None or not parameters.frozen or not issubclass(kind, RowFunction):
        raise ParameterError("a row function is a frozen dataclass that derives from RowFunction")
    _REGISTERED.add(kind)
    return kind


def registered_types() -> frozenset[type[RowFunction]]:
    """Return the classes of row functions that were registered by the modules imported so far.

    Returns
    -------
    frozenset of type
        Public.
    """
    return frozenset(_REGISTERED)


def check_registered(function: object) -> None:
    """Raise an error unless the class of a row function is registered. Subclasses are not.

    Parameters
    ----------
    function : object
        The row function.

    Raises
    ------
    ParameterError
        If its class is not registered.
    """
    if type(function) not in _REGISTERED:
        raise ParameterError(
            "rows are changed by registered row functions only. Declare the change as a frozen "
            "dataclass and register it with row_function"
        )


def map_rows(
    function: RowFunction, rows: Block, n_rows: int, generator: np.random.Generator | None = None
) -> dict[Any, NDArray[Any]]:
    """Apply a row function to private rows, and check the result against its public ranges.

    Parameters
    ----------
    function : RowFunction
        Function of a registered type.
    rows : mapping to columns
        The private rows.
    n_rows : int
        The number of rows. Private.
    generator : numpy.random.Generator, optional
        Generator of the random numbers of rows, which are drawn in the order of the rows.

    Returns
    -------
    dict to ndarray
        One array of ``n_rows`` cells for each column that the function declares. Private.

    Raises
    ------
    ParameterError
        If the type of the function is not registered, or it needs random numbers and no generator
        is given.
    DataError
        If the function fails, or does not return ``n_rows`` rows within the public ranges. The text
        is fixed.
    """
    check_registered(function)
    if not function.draws:
        return _checked(function, rows, n_rows, np.zeros((n_rows, 0)))
    if generator is None:
        raise ParameterError("this row function needs random numbers")
    parts = []
    for start in range(0, max(1, n_rows), ROWS_AT_ONCE):
        part = {key: column[start : start + ROWS_AT_ONCE] for key, column in rows.items()}
        size = min(ROWS_AT_ONCE, n_rows - start)
        parts.append(_checked(function, part, size, generator.random((size, function.draws))))
    return {key: np.concatenate([part[key] for part in parts]) for key in function.columns}


def _checked(
    function: RowFunction, rows: Block, n_rows: int, uniforms: Floats
) -> dict[Any, NDArray[Any]]:
    """Call a row function once, and check its result."""
    with redacted(FAILED):
        if any(len(column) != n_rows for column in rows.values()):
            raise DataError(FAILED)
        views = {key: _unwritable(column) for key, column in rows.items()}
        result = function.apply(MappingProxyType(views), uniforms)
        ranges = function.columns
        if result.keys() != ranges.keys():
            raise DataError(FAILED)
        if not all(limits.holds(result[key], n_rows) for key, limits in ranges.items()):
            raise DataError(FAILED)
        return {key: result[key] for key in ranges}


def _unwritable(column: Any) -> Any:
    """Return a view of a column through which no cell can be changed."""
    if not isinstance(column, np.ndarray):
        return column
    view = column.view()
    view.setflags(write=False)
    return view


_PLAIN = (bool, int, float, str, bytes, type(None), np.dtype)


def _frozen(value: Any) -> Any:
    """Return an immutable copy of a value, or raise an error for a mutable value."""
    if isinstance(value, np.ndarray):
        array = np.array(value)
        array.setflags(write=False)
        return array
    if isinstance(value, Mapping):
        return MappingProxyType({key: _frozen(item) for key, item in value.items()})
    if isinstance(value, (tuple, list)):
        return tuple(map(_frozen, value))
    parameters = getattr(type(value), "__dataclass_params__", None)
    if isinstance(value, _PLAIN) or (parameters is not None and parameters.frozen):
        return value
    raise ParameterError("a row function holds public or released values only")
