"""Queries of single rows: pure functions of rows, with proven sensitivities.

A query holds a function, and public facts that bound the effect of one row on its result. The
session runs the function after the charge, on a read-only view of the rows (`RowView`). The session
enforces the bound where it can:

* `RowCounts`: the function returns the cell in which a row is counted. The session counts.
* `RowSums`: the function returns one or a few numbers for each row. The session clips them to a
  public bound, rounds them to public units and adds them up.
* `CustomQuery`: the function returns whole numbers of a public shape. The author proves the
  sensitivity.

For the first two the author makes one promise: the result of the function for a row depends on that
row alone. All results are whole numbers, so that rounding of floating-point numbers cannot increase
a sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from itertools import pairwise
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError, ParameterError, check_integer, check_number, replacing
from missdp.session.redaction import no_warnings
from missdp.statistics import imputed_rows
from missdp.statistics.imputed_rows import ImputedRows, RowView, Ways
from missdp.types import Floats, Ints

QUANTA = 1 << 20
"""Units in which a sum is rounded, per bound."""
_LARGEST = np.uint64(2**62)


def require_plain_function(function: Any) -> None:
    """Raise ParameterError for closures and objects, which could hold rows or change later."""
    if not isinstance(function, FunctionType) or (
        function.__closure__ or function.__defaults__ or function.__kwdefaults__
    ):
        raise ParameterError(
            "a query takes a plain function, without a closure or defaults. Pass released values "
            "in 'arguments'"
        )


def freeze(value: Any) -> Any:
    """Return an immutable copy of a public value.

    Values are numbers, text, arrays, and tuples, sets and frozen objects of these. Arrays inside of
    tuples, sets and objects must be read-only already.
    """
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        copy = value.copy()
        copy.flags.writeable = False
        return copy
    if isinstance(value, tuple):
        return tuple(map(freeze, value))
    if not _is_frozen(value):
        raise ParameterError("arguments are arrays, numbers, text and frozen objects of these")
    return value


def _is_frozen(value: Any) -> bool:
    """Return whether a value and all its parts are immutable."""
    if value is None or isinstance(value, (bool, int, float, str, Fraction, np.generic)):
        return not hasattr(value, "__dict__")  # a subclass could keep rows in it
    if isinstance(value, np.ndarray):
        return not (value.flags.writeable or value.dtype.hasobject)
    if isinstance(value, (tuple, frozenset)):
        return all(map(_is_frozen, value))
    if is_dataclass(value) and not isinstance(value, type):
        parameters = value.__dataclass_params__  # type: ignore[attr-defined]
        return parameters.frozen and all(_is_frozen(getattr(value, f.name)) for f in fields(value))
    return False


@dataclass(frozen=True, kw_only=True, eq=False)
class RowQuery:
    """Base class of public queries that add up a function of single rows to whole numbers.

    Use `RowCounts`, `RowSums` or `CustomQuery`. Sessions answer no subclasses of these.

    Parameters
    ----------
    function : callable
        ``function(rows, *arguments)``, a plain function without a closure or defaults. Its
        arguments alone decide the result: a ``RowView`` of private rows and the values of
        ``arguments``.
    reads : frozenset of str
        Attributes that the function reads. The view hides all others.
    arguments : tuple
        Public or released values: arrays, numbers, text, and frozen objects made of these. They
        are copied.
    applies : frozenset of str
        Attributes of which the function reads only to which rows they apply (``RowView.applies``).
    label : str
        Public name.

    Attributes
    ----------
    row_sensitivity : float
        Largest change of the result when one row is added or removed, in multiples of ``unit``.
        L1 and L2 norm are equal.
    recipient_sensitivity : float
        Largest change of the result when the filled cells of a row change, in L1 norm and
        multiples of ``unit``. Infinite if the change has no bound.
    dimension : int
        Number of entries of the result.
    unit : Fraction
        Value of one step of the whole-number result.
    """

    function: Callable[..., Any]
    reads: frozenset[str] = frozenset()
    arguments: tuple[Any, ...] = ()
    applies: frozenset[str] = frozenset()
    label: str = "query"

    unit = Fraction(1)
    row_sensitivity: float = field(init=False)
    recipient_sensitivity: float = field(init=False)
    dimension: int = field(init=False)

    def __post_init__(self) -> None:
        require_plain_function(self.function)
        self._state(reads=frozenset(self.reads), applies=frozenset(self.applies))
        self._state(arguments=tuple(map(freeze, self.arguments)))

    def _state(self, **facts: Any) -> None:
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    def exact(self, cells: ImputedRows) -> Ints:
        """Return the exact private result of the query, without noise.

        Parameters
        ----------
        cells : ImputedRows
            Private rows.

        Returns
        -------
        ndarray of int64, shape (dimension,)
            Private, in multiples of ``unit``.

        Raises
        ------
        DataError
            If the function fails, or returns an array of another shape or type.
        """
        failed = DataError("the function of a query failed")
        # Neither an error nor a warning may quote rows.
        with replacing(Exception, by=failed), no_warnings():
            rows = RowView(cells, self.reads, self.applies)
            in_parts = self._adds_up and len(rows) > imputed_rows.PART_ROWS
            parts = [part for _, part in rows.parts()] if in_parts else [rows]
            totals = (np.asarray(self._totals(part), dtype=np.int64) for part in parts)
            return sum(totals, np.zeros(1, dtype=np.int64))

    @property
    def fine(self) -> int:
        """Public number of fine units in one unit of a sum, for averages over ways to fill cells.

        It is chosen so that one row adds about ``QUANTA`` fine units.
        """
        return max(1, int(QUANTA // self.row_sensitivity))

    def average(self, cells: ImputedRows, ways: Ways) -> Ints:
        """Return the private result of the query, averaged over all ways to fill missing cells.

        The sums of floating-point numbers are rounded once. Each weight has a relative error below
        2**-52, which is less than half a unit for 2**30 filled rows. Rounding to units adds half a
        unit. So results of neighbours differ by two units more than averages do.

        Parameters
        ----------
        cells : ImputedRows
            Private rows.
        ways : Ways
            Private: all ways to choose donors for the rows that are filled.

        Returns
        -------
        ndarray of int64, shape (dimension,)
            Private, in multiples of ``unit`` / `fine`.

        Raises
        ------
        DataError
            If the function fails, or returns an array of another shape or type.
        """
        failed = DataError("the function of a query failed")
        # Neither an error nor a warning may quote rows.
        with replacing(Exception, by=failed), no_warnings():
            fixed = np.ones(len(cells))
            fixed[ways.rows] = 0.0
            came = RowView(cells, self.reads, self.applies)
            parts: list[Any] = [[0.0] * self.dimension]
            parts += [self._totals(rows, fixed[where]) for where, rows in came.parts()]
            for some, weights in cells.in_all_ways(ways, self.reads | self.applies):
                parts.append(self._totals(RowView(some, self.reads, self.applies), weights))
            totals = np.array([math.fsum(column) for column in zip(*parts, strict=True)])
            return np.asarray(np.rint(totals * self.fine), dtype=np.int64)

    _adds_up = False  # whether the result of a table is the sum of the results of its parts

    def _returned(self, rows: RowView) -> NDArray[Any]:
        return np.asarray(self.function(rows, *self.arguments))

    def _totals(self, rows: RowView, weights: Floats | None = None) -> Any:
        """Return the result of some rows, each with the weight of so many rows.

        Numbers with weights are rounded once.
        """
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, eq=False)
class RowCounts(RowQuery):
    """Public query for the numbers of private rows in the cells of a table of counts.

    A function returns the cell of each row, which depends on this row alone. A session
    (`open_table`) charges the query and releases the counts with noise.

    Parameters
    ----------
    function : callable
        ``function(rows, *arguments)``, a plain function without a closure or defaults. It
        returns whole numbers, shape ``(n_rows,)``: the cell of each row. Rows below 0 or from
        ``cells`` on are not counted. With one cell it may return True or False instead.
    reads : frozenset of str, default frozenset()
        Attributes that the function reads. The view of the private rows hides all others.
    arguments : tuple, default ()
        Public or released values: arrays, numbers, text, and frozen objects made of these. They
        are copied.
    applies : frozenset of str, default frozenset()
        Attributes of which the function reads only to which rows they apply.
    label : str, default "query"
        Public name.
    cells : int, default 1
        Public number of cells, at least 1.
    stays : bool, default False
        The author's promise that filled cells decide only whether a row counts, and not its cell.

    Attributes
    ----------
    row_sensitivity : int
        Largest change of the counts when one row is added or removed, 1.
    recipient_sensitivity : int
        Largest change of the counts in L1 norm when the filled cells of a row change, 1 or 2.
    dimension : int
        Number of counts, equal to ``cells``.

    Raises
    ------
    ParameterError
        If ``function`` is not a plain function, ``arguments`` can change later, or ``cells`` is
        below 1.
    DataError
        Raised by the session after the charge, if the function fails or returns an array of
        another shape or type.

    Notes
    -----
    The query is public and reads no rows by itself. A session charges for it under add-remove
    adjacency. The noise covers ``row_sensitivity``. If ``reads`` has filled attributes, it also
    covers the effect of one donor on all rows that are filled from it.

    Examples
    --------
    >>> from missdp.statistics import RowCounts
    >>> def female(rows, code):
    ...     return rows.codes("gender") == code
    >>> RowCounts(function=female, reads={"gender"}, arguments=(0,)).row_sensitivity
    1
    """

    cells: int = 1
    stays: bool = False
    _adds_up = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._state(cells=check_integer("cells", self.cells))
        # A row is in one cell or in none. A change can add, remove or move it.
        recipient = 1 if self.stays or self.cells == 1 else 2
        self._state(row_sensitivity=1, recipient_sensitivity=recipient, dimension=self.cells)

    def _totals(self, rows: RowView, weights: Floats | None = None) -> Any:
        cell = self._cell(rows)
        if weights is None:
            return np.bincount(cell[(cell >= 0) & (cell < self.cells)], minlength=self.cells)
        order = np.argsort(cell, kind="stable")
        ends = np.searchsorted(cell[order], np.arange(self.cells + 1))
        return [math.fsum(weights[order[a:b]].tolist()) for a, b in pairwise(ends)]

    def _cell(self, rows: RowView) -> Ints:
        cells, kinds = self._returned(rows), "biu" if self.cells == 1 else "iu"
        if cells.shape != (len(rows),) or cells.dtype.kind not in kinds:
            raise DataError("the function of a query must return one cell for each row")
        return cells if cells.dtype.kind != "b" else np.where(cells, 0, -1)


@dataclass(frozen=True, kw_only=True, eq=False)
class RowSums(RowQuery):
    """Public query for sums over private rows of one or a few numbers with a public bound.

    A function returns the numbers of each row, which depend on this row alone. A session
    (`open_table`) clips them to the bound, charges the query and releases the sums with noise. Sums
    are whole multiples of ``bound / QUANTA``.

    Parameters
    ----------
    function : callable
        ``function(rows, *arguments)``, a plain function without a closure or defaults. It
        returns numbers, shape ``(n_rows,)``, or ``(n_rows, numbers)``. An entry that is not a
        number counts as 0.
    reads : frozenset of str, default frozenset()
        Attributes that the function reads. The view of the private rows hides all others.
    arguments : tuple, default ()
        Public or released values: arrays, numbers, text, and frozen objects made of these. They
        are copied.
    applies : frozenset of str, default frozenset()
        Attributes of which the function reads only to which rows they apply.
    label : str, default "query"
        Public name.
    bound : float
        Public, above 0, in the units of the numbers. Each row's number is clipped to this
        absolute value. The absolute values of several numbers are clipped together, the last
        numbers first.
    numbers : int, default 1
        Number of numbers per row, at least 1.
    change : float, optional
        The author's promise on the largest change of a row's numbers in L1 norm, when one of
        its donors is exchanged. At least 0, in the units of the numbers. Donors are the rows
        from which missing cells are filled. The default is any change within the bound, which
        needs no promise.

    Attributes
    ----------
    unit : Fraction
        Value of one step of the whole-number sums, ``bound / QUANTA``.
    row_sensitivity : int
        Largest change of the sums when one row is added or removed, in multiples of ``unit``.
    recipient_sensitivity : int
        Largest change of the sums in L1 norm when the filled cells of a row change, in
        multiples of ``unit``.
    dimension : int
        Number of sums, equal to ``numbers``.

    Raises
    ------
    ParameterError
        If ``function`` is not a plain function, ``arguments`` can change later, ``bound`` is not
        above 0, ``numbers`` is below 1, or ``change`` is negative.
    DataError
        Raised by the session after the charge, if the function fails or returns an array of
        another shape or type.

    Notes
    -----
    The query is public and reads no rows by itself. A session charges for it under add-remove
    adjacency. The noise covers ``row_sensitivity``. If ``reads`` has filled attributes, it also
    covers the effect of one donor on all rows that are filled from it.

    Examples
    --------
    >>> from missdp.statistics import RowSums
    >>> def ages(rows):
    ...     return rows.values("age")
    >>> RowSums(function=ages, reads={"age"}, bound=99.0).dimension
    1
    """

    bound: float
    numbers: int = 1
    change: float | None = None
    _adds_up = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("the bound", self.bound, max_value=math.inf, exclude_min=True)
        self._state(numbers=check_integer("numbers", self.numbers))
        if self.change is not None:
            check_number("change", self.change, max_value=math.inf)
        self._state(
            unit=Fraction(self.bound) / QUANTA,
            row_sensitivity=QUANTA,
            recipient_sensitivity=self._change_in_units(),
            dimension=self.numbers,
        )

    def _change_in_units(self) -> float:
        """Return the change in units, with one unit for the rounding of each number.

        The change of several numbers counts twice, because a larger number leaves less of the
        bound.
        """
        if self.change is None:
            return 2 * QUANTA
        if self.change == 0:
            return 0
        change = math.ceil(self.change / self.bound * QUANTA) + self.numbers
        return min(change if self.numbers == 1 else 2 * change, 2 * QUANTA)

    def _totals(self, rows: RowView, weights: Floats | None = None) -> Any:
        steps = self._steps(rows)
        if weights is None:
            return steps.sum(axis=0)
        return [math.fsum((column * weights).tolist()) for column in steps.T]

    def _steps(self, rows: RowView) -> Ints:
        """Return each row's numbers in units, within the bound together."""
        numbers, size = self._returned(rows), len(rows)
        if numbers.shape != ((size,) if self.numbers == 1 else (size, self.numbers)):
            raise DataError("the function of a query must return the stated numbers for each row")
        shares = np.nan_to_num(numbers.astype(np.float64, copy=False) / self.bound)
        steps = np.rint(np.clip(shares, -1.0, 1.0) * QUANTA).astype(np.int64)
        if self.numbers == 1:
            return steps[:, None]
        within = np.minimum(np.cumsum(np.abs(steps), axis=1), QUANTA)
        return np.asarray(np.sign(steps) * np.diff(within, axis=1, prepend=0))


@dataclass(frozen=True, kw_only=True, eq=False)
class CustomQuery(RowQuery):
    """Public query with a user-defined integer answer and a sensitivity that its author proves.

    Use it if the result is neither a count nor a sum over rows. The query cannot read cells that
    are filled from other rows.

    Parameters
    ----------
    function : callable
        ``function(rows, *arguments)``, a plain function without a closure or defaults. It
        returns whole numbers of the shape ``shape``.
    reads : frozenset of str, default frozenset()
        Attributes that the function reads. The view of the private rows hides all others.
    arguments : tuple, default ()
        Public or released values: arrays, numbers, text, and frozen objects made of these. They
        are copied.
    applies : frozenset of str, default frozenset()
        Attributes of which the function reads only to which rows they apply.
    label : str, default "query"
        Public name.
    sensitivity : float
        Largest change of the numbers together when one row is added or removed, at least 1.
        This is the author's proof, for add-remove neighbours. It is the L2 norm for Gaussian
        noise, which is paid for in rho. Otherwise it is the L1 norm.
    shape : tuple of int, default ()
        Public shape of the result. The default is a single number.

    Attributes
    ----------
    row_sensitivity : float
        The sensitivity.
    recipient_sensitivity : float
        Infinite, because no effect of filled cells is proven.
    dimension : int
        Number of entries of the result.

    Raises
    ------
    ParameterError
        If ``function`` is not a plain function, ``arguments`` can change later, or
        ``sensitivity`` is below 1.
    DataError
        Raised by the session after the charge, if the function fails or returns an array of
        another shape or type.

    Notes
    -----
    The query is public and reads no rows by itself. A session charges for it under add-remove
    adjacency. The guarantee holds only if the author's sensitivity is true.

    Examples
    --------
    >>> from missdp.statistics import CustomQuery
    >>> def largest_code(rows):
    ...     return rows.codes("grade").max(initial=0)
    >>> CustomQuery(function=largest_code, reads={"grade"}, sensitivity=4.0).dimension
    1
    """

    sensitivity: float
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        name = "how far a row moves a query"
        check_number(name, self.sensitivity, min_value=1, max_value=math.inf)
        self._state(
            shape=tuple(self.shape),
            row_sensitivity=self.sensitivity,
            recipient_sensitivity=math.inf,  # only sums over rows have exact averages over ways
            dimension=math.prod(self.shape),
        )

    def _totals(self, rows: RowView, weights: Floats | None = None) -> Any:
        del weights
        result = self._returned(rows)
        if result.shape != tuple(self.shape) or result.dtype.kind not in "biu":
            raise DataError("the function of a query must return whole numbers of the stated shape")
        if result.dtype.kind == "u":  # clipped: wrapped around, neighbours could be far apart
            result = np.minimum(result.astype(np.uint64), _LARGEST)
        return result.ravel()
