"""What can be asked of single rows: pure functions of rows, with proven sensitivities.

A query holds a function that the session runs on a read-only view of the rows (`Rows`), after the
charge, and public facts that say how far one row can move its result. Where it can, the session
makes those facts true by itself:

* `RowCounts`: the function returns the cell in which a row is counted; the session counts.
* `RowSums`: the function returns a number for each row, or a few; the session clips them to a
  public bound, rounds them to public units and adds them up.
* `CustomQuery`: the function returns whole numbers of a public shape; how far one row moves them is
  the author's proof.

For the first two the author promises one thing: what the function returns for a row depends on that
row alone. All results are whole numbers, so that no rounding of floating point can move them
further.
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

from missdp.errors import DataError, ParameterError, check_number, replacing
from missdp.session.redaction import no_warnings
from missdp.statistics import imputed_rows
from missdp.statistics.imputed_rows import ImputedRows, Rows, Ways
from missdp.types import Floats, Ints

QUANTA = 1 << 20
"""Units in which a sum is rounded, per bound."""
_LARGEST = np.uint64(2**62)


def plain_function(function: Any) -> None:
    """Refuse what could hold rows or change between charge and answer: closures, objects."""
    if not isinstance(function, FunctionType) or (
        function.__closure__ or function.__defaults__ or function.__kwdefaults__
    ):
        raise ParameterError(
            "a query takes a plain function, without a closure or defaults: hand released values "
            "over with 'given'"
        )


def frozen(value: Any) -> Any:
    """Return a copy of a public value that nobody can change after the charge.

    Numbers, text, arrays, and tuples, sets and frozen objects made of those, in which arrays must
    be read-only already.
    """
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        copy = value.copy()
        copy.flags.writeable = False
        return copy
    if isinstance(value, tuple):
        return tuple(map(frozen, value))
    if not _is_frozen(value):
        raise ParameterError("only arrays, numbers, text and frozen objects of those can be given")
    return value


def _is_frozen(value: Any) -> bool:
    """Whether a value cannot be written to, nor anything that it holds."""
    if value is None or isinstance(value, (bool, int, float, str, Fraction, np.generic)):
        return not hasattr(value, "__dict__")  # in which a type of others could keep rows
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
    """A pure function of rows with whole-number results.

    Use `RowCounts`, `RowSums` or `CustomQuery`. Sessions answer no subclasses of these.

    Parameters
    ----------
    function : callable
        ``function(rows, *given)``; a plain function without a closure or defaults, so that nothing
        but its arguments decides the result: it sees ``Rows``, the given values, and no index.
    reads : frozenset of str
        Attributes that it reads; it is shown no others.
    given : tuple
        Public or released values: arrays, numbers, text, and frozen objects made of those. They
        are copied.
    applies : frozenset of str
        Attributes of which it reads no more than to which rows they apply (``Rows.applies``).
    label : str
        Public name.

    Attributes
    ----------
    own_sensitivity : float
        How far one row that comes or goes moves the result, in units of ``unit``; the same in L1
        and L2.
    recipient_sensitivity : float
        How far a row whose filled cells change moves it, in L1; infinite if that has no bound.
    dimension : int
        How many numbers the result has.
    """

    function: Callable[..., Any]
    reads: frozenset[str] = frozenset()
    given: tuple[Any, ...] = ()
    applies: frozenset[str] = frozenset()
    label: str = "query"

    unit = Fraction(1)
    own_sensitivity: float = field(init=False)
    recipient_sensitivity: float = field(init=False)
    dimension: int = field(init=False)

    def __post_init__(self) -> None:
        plain_function(self.function)
        given = tuple(map(frozen, self.given))
        self._state(reads=frozenset(self.reads), applies=frozenset(self.applies), given=given)

    def _state(self, **facts: Any) -> None:
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    def exact(self, cells: ImputedRows) -> Ints:
        """Return the result, shape ``(dimension,)``; private, as is why a function fails."""
        failed = DataError("the function of a query failed")
        # Neither an error nor a warning may quote rows.
        with replacing(Exception, by=failed), no_warnings():
            rows = Rows(cells, self.reads, self.applies)
            in_parts = self._adds_up and len(rows) > imputed_rows.PART_ROWS
            parts = [part for _, part in rows.parts()] if in_parts else [rows]
            return sum(map(self._integers, parts), np.zeros(1, dtype=np.int64))

    @property
    def fine(self) -> int:
        """How many units an average has for each one: a row moves it by about ``QUANTA``."""
        return max(1, int(QUANTA // self.own_sensitivity))

    def average(self, cells: ImputedRows, ways: Ways) -> Ints:
        """Return the result on average over all ways to fill rows, in `fine` units; private.

        The sums of floating-point numbers are rounded once, each weight is off by less than 2**-52
        of itself: that is less than half a unit for 2**30 rows that are filled. Rounding to units
        is half a unit more. So neighbours differ by two units more than averages do.
        """
        failed = DataError("the function of a query failed")
        # Neither an error nor a warning may quote rows.
        with replacing(Exception, by=failed), no_warnings():
            fixed = np.ones(len(cells))
            fixed[ways.rows] = 0.0
            came = Rows(cells, self.reads, self.applies)
            parts: list[Any] = [[0.0] * self.dimension]
            parts += [self._totals(rows, fixed[where]) for where, rows in came.parts()]
            for some, weights in cells.in_all_ways(ways, self.reads | self.applies):
                parts.append(self._totals(Rows(some, self.reads, self.applies), weights))
            totals = np.array([math.fsum(column) for column in zip(*parts, strict=True)])
            return np.asarray(np.rint(totals * self.fine), dtype=np.int64)

    _adds_up = False  # whether the result of all rows is the sum of the results of some and others

    def _integers(self, rows: Rows) -> Ints:
        return np.asarray(self._totals(rows), dtype=np.int64)

    def _returned(self, rows: Rows) -> NDArray[Any]:
        return np.asarray(self.function(rows, *self.given))

    def _totals(self, rows: Rows, weights: Floats | None = None) -> Any:
        """Return the result of some rows; with weights, if each row stands for so many rows.

        Numbers with weights are rounded once.
        """
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, eq=False)
class RowCounts(RowQuery):
    """How many rows each cell has. The function returns the cell of each row, from it alone.

    Parameters
    ----------
    function, reads, given
        See `RowQuery`. The function returns whole numbers, shape ``(n,)``; rows below 0 or from
        ``cells`` on are not counted. With one cell it may say True or False instead.
    cells : int, default 1
        Public number of cells.
    stays : bool, default False
        The author's promise that filled cells decide only whether a row counts, not where.
    """

    cells: int = 1
    stays: bool = False
    _adds_up = True

    def __post_init__(self) -> None:
        super().__post_init__()
        # A row is in one cell, or in none; changed, it can come, go, or change its cell.
        recipient = 1 if self.stays or self.cells == 1 else 2
        self._state(own_sensitivity=1, recipient_sensitivity=recipient, dimension=self.cells)

    def _totals(self, rows: Rows, weights: Floats | None = None) -> Any:
        cell = self._cell(rows)
        if weights is None:
            return np.bincount(cell[(cell >= 0) & (cell < self.cells)], minlength=self.cells)
        order = np.argsort(cell, kind="stable")
        ends = np.searchsorted(cell[order], np.arange(self.cells + 1))
        return [math.fsum(weights[order[a:b]].tolist()) for a, b in pairwise(ends)]

    def _cell(self, rows: Rows) -> Ints:
        found, kinds = self._returned(rows), "biu" if self.cells == 1 else "iu"
        if found.shape != (len(rows),) or found.dtype.kind not in kinds:
            raise DataError("not a cell for each row")
        return found if found.dtype.kind != "b" else np.where(found, 0, -1)


@dataclass(frozen=True, kw_only=True, eq=False)
class RowSums(RowQuery):
    """Sums over rows of one or a few bounded numbers each, in units of ``bound / QUANTA``.

    What the function returns for a row comes from this row alone.

    Parameters
    ----------
    function, reads, given
        See `RowQuery`. The function returns numbers, shape ``(n,)``, or ``(n, numbers)``.
    bound : float
        Public, above 0. Each row's number is clipped to it (the absolute values of several numbers
        together: the last ones first).
    numbers : int, default 1
        Numbers per row.
    change : float, optional
        The author's promise how far a row's numbers move, in L1, when one of the rows that it was
        filled from is exchanged. By default anything within the bound, which needs no promise.
    """

    bound: float
    numbers: int = 1
    change: float | None = None
    _adds_up = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("the bound", self.bound, max_value=math.inf, exclude_min=True)
        self._state(
            unit=Fraction(self.bound) / QUANTA,
            own_sensitivity=QUANTA,
            recipient_sensitivity=self._moved(),
            dimension=self.numbers,
        )

    def _moved(self) -> float:
        """Return the change in units; both ends of each number are rounded, by one unit together.

        Of several numbers, where one that grows leaves later ones less of the bound, twice that.
        """
        if self.change is None:
            return 2 * QUANTA
        if self.change <= 0:
            return 0
        moved = math.ceil(self.change / self.bound * QUANTA) + self.numbers
        return min(moved if self.numbers == 1 else 2 * moved, 2 * QUANTA)

    def _totals(self, rows: Rows, weights: Floats | None = None) -> Any:
        steps = self._steps(rows)
        if weights is None:
            return steps.sum(axis=0)
        return [math.fsum((column * weights).tolist()) for column in steps.T]

    def _steps(self, rows: Rows) -> Ints:
        """Return each row's numbers in units, within the bound together."""
        found, size = self._returned(rows), len(rows)
        if found.shape != ((size,) if self.numbers == 1 else (size, self.numbers)):
            raise DataError("not the right numbers for each row")
        shares = np.nan_to_num(found.astype(np.float64, copy=False) / self.bound)
        steps = np.rint(np.clip(shares, -1.0, 1.0) * QUANTA).astype(np.int64)
        if self.numbers == 1:
            return steps[:, None]
        within = np.minimum(np.cumsum(np.abs(steps), axis=1), QUANTA)
        return np.asarray(np.sign(steps) * np.diff(within, axis=1, prepend=0))


@dataclass(frozen=True, kw_only=True, eq=False)
class CustomQuery(RowQuery):
    """Whole numbers of a public shape, of which the author proves how far one row moves them.

    Parameters
    ----------
    function, reads, given
        See `RowQuery`. The function returns whole numbers of the shape.
    sensitivity : float
        How far one row that is added or removed moves the numbers together, at least 1. This is the
        author's proof, for add-remove neighbours. It is the L2 norm for Gaussian noise, which is
        paid for in rho. Otherwise it is the L1 norm. The query cannot read cells that are filled
        from other rows.
    shape : tuple of int, default ()
        Public.
    """

    sensitivity: float
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        name = "how far a row moves a query"
        check_number(name, self.sensitivity, min_value=1, max_value=math.inf)
        self._state(
            shape=tuple(self.shape),
            own_sensitivity=self.sensitivity,
            recipient_sensitivity=math.inf,  # only sums over rows have exact averages over ways
            dimension=math.prod(self.shape),
        )

    def _totals(self, rows: Rows, weights: Floats | None = None) -> Any:
        del weights
        found = self._returned(rows)
        if found.shape != tuple(self.shape) or found.dtype.kind not in "biu":
            raise DataError("not whole numbers of the stated shape")
        if found.dtype.kind == "u":  # clipped: wrapped around, neighbours could be far apart
            found = np.minimum(found.astype(np.uint64), _LARGEST)
        return found.ravel()
