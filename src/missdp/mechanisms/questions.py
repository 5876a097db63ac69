"""What can be asked of rows: public facts about a release, and a pure function of the rows.

A question is a function that a door runs on a read-only view of the rows, with public facts that
say how far one row can move its result. Where it can, the door makes those facts true by itself:

* `Counts`: the function says in which cell a row is counted; the door counts.
* `Sums`: the function gives each row a number, or a few; the door clips them to a public bound,
  rounds them to public units and adds them up.
* `Query`: the function returns whole numbers of a public shape; how far one row moves them is the
  author's proof.

For the first two the author promises one thing: what the function says of a row depends on that
row alone. All results are whole numbers, so that no rounding of floating point can move them
further.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError, ParameterError, replacing
from missdp.mechanisms.laws import no_warnings, plain_function, read_only
from missdp.mechanisms.private_rows import (
    PART_ROWS,
    Filled,
    FilledRows,
    Preparation,
    Prepared,
    Rows,
    Ways,
)

__all__ = [
    "QUANTA",
    "Counts",
    "Filled",
    "Preparation",
    "Prepared",
    "Query",
    "Question",
    "Rows",
    "Sums",
    "Ways",
]


QUANTA = 1 << 20
"""Units in which a sum is rounded, per bound."""
_LARGEST = np.uint64(2**62)


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """A pure function of rows with whole-number results. Use `Counts`, `Sums` or `Query`.

    Parameters
    ----------
    function : callable
        ``function(rows, *given)``; a plain function without a closure or defaults, so that it
        cannot carry rows away: it sees ``Rows``, what is given, and nothing else.
    reads : frozenset of str
        Attributes that it reads; it is shown no others.
    given : tuple
        Public or released values: arrays, numbers, text, and frozen objects made of those.
    applies : frozenset of str
        Attributes of which it reads no more than to which rows they apply (``Rows.applies``).
    """

    function: Callable[..., Any]
    reads: frozenset[str] = frozenset()
    given: tuple[Any, ...] = ()
    applies: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        plain_function(self.function, "a question")
        object.__setattr__(self, "reads", frozenset(self.reads))
        object.__setattr__(self, "applies", frozenset(self.applies))
        object.__setattr__(self, "given", tuple(map(read_only, self.given)))

    # How far things move the result, in its units (`unit`): one row of its own (`own`), and another
    # row whose filled cells it changes (`donee`; `donee_l2` in the L2 norm).
    unit = Fraction(1)

    @property
    def own(self) -> float:
        """How far one row that comes or goes moves the result; the same in L1 and L2."""
        raise NotImplementedError

    @property
    def donee(self) -> float:
        """How far a row whose filled cells change moves the result, in L1."""
        raise NotImplementedError

    @property
    def donee_l2(self) -> float:
        """How far a row whose filled cells change moves the result, in L2."""
        return self.donee

    @property
    def dimension(self) -> int:
        """How many numbers the result has."""
        raise NotImplementedError

    def exact(self, cells: FilledRows) -> NDArray[np.int64]:
        """Return the result, shape ``(dimension,)``; private.

        Raises
        ------
        DataError
            If the function fails in any way; it says nothing else.
        """
        failed = DataError("the function of a question failed")
        # Neither an error nor a warning may quote rows.
        with replacing(Exception, by=failed), no_warnings():
            rows = Rows(cells, self.reads, self.applies)
            parts = rows.parts() if self._adds_up and len(rows) > PART_ROWS else [(None, rows)]
            return sum(map(self._of, (part for _, part in parts)), np.zeros(1, dtype=np.int64))

    def _of(self, rows: Rows) -> NDArray[np.int64]:
        found = np.asarray(self.function(rows, *self.given))
        return np.asarray(self._totals(found, len(rows)), dtype=np.int64)

    _adds_up = False  # whether the result of all rows is the sum of the results of some and others

    def weighted(self, found: NDArray[Any], size: int, weights: NDArray[np.float64]) -> list[float]:
        """Return the result if each row stands for so many; each number is rounded once."""
        raise NotImplementedError

    def _totals(self, found: NDArray[Any], size: int) -> Any:
        """Turn what the function returned into the result."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, eq=False)
class Counts(Question):
    """How many rows each cell has. The function returns the cell of each row, from it alone.

    Parameters
    ----------
    function, reads, given
        See `Question`. The function returns whole numbers, shape ``(n,)``; rows below 0 or from
        ``cells`` on are not counted. With one cell it may say True or False instead.
    cells : int, default 1
        Public number of cells.
    stays : bool, default False
        The author's promise that filled cells decide only whether a row counts, not where.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> def grades(rows):
    ...     return rows.codes("grade")
    >>> table = yrbss().table()
    >>> counts = Counts(function=grades, reads={"grade"}, cells=table.schema["grade"].size)
    >>> counts.own, counts.donee
    (1, 2)
    """

    cells: int = 1
    stays: bool = False
    _adds_up = True

    @property
    def own(self) -> float:
        """A row is in one cell, or in none."""
        return 1

    @property
    def donee(self) -> float:
        """A row can come, go, or change its cell."""
        return 1 if self.stays or self.cells == 1 else 2

    @property
    def donee_l2(self) -> float:
        """A row can come, go, or change its cell."""
        return math.sqrt(self.donee)

    @property
    def dimension(self) -> int:
        """The number of cells."""
        return self.cells

    def weighted(self, found: NDArray[Any], size: int, weights: NDArray[np.float64]) -> list[float]:
        """Return the weight of the rows in each cell."""
        cell = self._cell(found, size)
        order = np.argsort(cell, kind="stable")
        ends = np.searchsorted(cell[order], np.arange(self.cells + 1))
        return [math.fsum(weights[order[a:b]].tolist()) for a, b in pairwise(ends)]

    def _totals(self, found: NDArray[Any], size: int) -> Any:
        cell = self._cell(found, size)
        return np.bincount(cell[(cell >= 0) & (cell < self.cells)], minlength=self.cells)

    def _cell(self, found: NDArray[Any], size: int) -> NDArray[np.integer]:
        kinds = "biu" if self.cells == 1 else "iu"
        if found.shape != (size,) or found.dtype.kind not in kinds:
            raise DataError("not a cell for each row")
        return found if found.dtype.kind != "b" else np.where(found, 0, -1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sums(Question):
    """Sums over rows of one or a few bounded numbers each, in units of ``bound / QUANTA``.

    What the function returns for a row comes from this row alone.

    Parameters
    ----------
    function, reads, given
        See `Question`. The function returns numbers, shape ``(n,)``, or ``(n, numbers)``.
    bound : float
        Public, above 0. Each row's number is clipped to it (the absolute values of several numbers
        together: the last ones first).
    numbers : int, default 1
        Numbers per row.
    change : float, optional
        The author's promise how far a row's numbers move, in L1, when one of the rows that it was
        filled from is exchanged. By default anything within the bound, which needs no promise.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> def days(rows):
    ...     return rows.values("strength_training_7d")
    >>> Sums(function=days, reads={"strength_training_7d"}, bound=7.0).own == QUANTA
    True
    """

    bound: float
    numbers: int = 1
    change: float | None = None
    _adds_up = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.bound < math.inf:
            raise ParameterError("the bound must be finite and above 0")
        object.__setattr__(self, "unit", Fraction(self.bound) / QUANTA)

    @property
    def own(self) -> float:
        """The bound in units."""
        return QUANTA

    @property
    def donee(self) -> float:
        """The change in units; both ends of each number are rounded, by one unit together.

        Of several numbers, where one that grows leaves later ones less of the bound, twice that.
        """
        if self.change is None:
            return 2 * QUANTA
        if self.change <= 0:
            return 0
        moved = math.ceil(self.change / self.bound * QUANTA) + self.numbers
        return min(moved if self.numbers == 1 else 2 * moved, 2 * QUANTA)

    @property
    def dimension(self) -> int:
        """How many numbers a row has."""
        return self.numbers

    def weighted(self, found: NDArray[Any], size: int, weights: NDArray[np.float64]) -> list[float]:
        """Return the sums of the rows' numbers times their weights."""
        steps = self._steps(found, size)
        return [math.fsum((steps[:, i] * weights).tolist()) for i in range(self.numbers)]

    def _totals(self, found: NDArray[Any], size: int) -> Any:
        return self._steps(found, size).sum(axis=0)

    def _steps(self, found: NDArray[Any], size: int) -> NDArray[np.int64]:
        """Return each row's numbers in units, within the bound together."""
        if found.shape != ((size,) if self.numbers == 1 else (size, self.numbers)):
            raise DataError("not the right numbers for each row")
        shares = np.nan_to_num(found.astype(np.float64, copy=False) / self.bound)
        steps = np.rint(np.clip(shares, -1.0, 1.0) * QUANTA).astype(np.int64)
        if self.numbers == 1:
            return steps[:, None]
        within = np.minimum(np.cumsum(np.abs(steps), axis=1), QUANTA)
        return np.asarray(np.sign(steps) * np.diff(within, axis=1, prepend=0))


@dataclass(frozen=True, kw_only=True, eq=False)
class Query(Question):
    """Whole numbers of a public shape, of which the author proves how far one row moves them.

    Parameters
    ----------
    function, reads, given
        See `Question`. The function returns whole numbers of the shape.
    sensitivity : float
        How far one row that comes or goes moves the numbers together, at least 1: in L1, or in L2
        for Gaussian noise (paid for in rho, and no cell is read that was filled from other rows).
        The author's proof, of add-remove neighbours.
    shape : tuple of int, default ()
        Public.
    change : float, optional
        How far a row whose filled cells change moves the numbers, if filled cells that depend on
        other rows are read.

    Examples
    --------
    >>> def distinct_ages(rows):
    ...     return len(set(rows.codes("age").tolist()))
    >>> Query(function=distinct_ages, reads={"age"}, sensitivity=1).dimension
    1
    """

    sensitivity: float
    shape: tuple[int, ...] = ()
    change: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for number in (self.sensitivity, 1 if self.change is None else self.change):
            if isinstance(number, bool) or not 1 <= number < math.inf:
                raise ParameterError("how far a row moves a query is at least 1 and finite")

    @property
    def own(self) -> float:
        """The declared sensitivity."""
        return self.sensitivity

    @property
    def donee(self) -> float:
        """What was declared; infinite if nothing was."""
        return math.inf if self.change is None else self.change

    @property
    def dimension(self) -> int:
        """How many numbers the shape holds."""
        return math.prod(self.shape)

    def _totals(self, found: NDArray[Any], size: int) -> Any:
        del size
        if found.shape != tuple(self.shape) or found.dtype.kind not in "biu":
            raise DataError("not whole numbers of the stated shape")
        if found.dtype.kind == "u":  # clipped: wrapped around, neighbours could be far apart
            found = np.minimum(found.astype(np.uint64), _LARGEST)
        return found.ravel()


@dataclass(frozen=True, kw_only=True, eq=False)
class Averaged(Question):
    """A question's result, on average over all ways in which rows are filled.

    In units of which a row of its own moves it by about `QUANTA`. The sums of floating-point
    numbers are rounded once, each weight is off by less than 2**-52 of itself: that is less than
    half a unit for 2**30 rows that are filled. Rounding to units is half a unit more, on each of
    two neighbouring tables: two for each number, which ``own`` has on top.
    """

    of: Question

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", self.of.unit / self._fine)

    @property
    def _fine(self) -> int:
        return max(1, int(QUANTA // self.of.own))

    @property
    def own(self) -> float:
        """That of the question, and rounding."""
        return self._fine * self.of.own + 2 * self.of.dimension

    @property
    def donee(self) -> float:
        """That of the question."""
        return self._fine * self.of.donee

    @property
    def donee_l2(self) -> float:
        """That of the question."""
        return self._fine * self.of.donee_l2

    @property
    def dimension(self) -> int:
        """That of the question."""
        return self.of.dimension

    def exact(self, cells: FilledRows) -> NDArray[np.int64]:
        """Return the average result, shape ``(dimension,)``; private."""
        of, failed = self.of, DataError("the function of a question failed")
        # Neither an error nor a warning may quote rows.
        with replacing(Exception, by=failed), no_warnings():
            fixed = np.ones(len(cells), dtype=bool)
            if cells.ways is not None:
                fixed[cells.ways.rows] = False
            parts = [[0.0] * of.dimension]
            for where, rows in Rows(cells, of.reads, of.applies).parts():
                found = np.asarray(of.function(rows, *of.given))
                keep = fixed[where].astype(np.float64)
                parts.append(of.weighted(found, len(rows), keep))
            for some, weights in cells.in_all_ways(of.reads | of.applies):
                found = np.asarray(of.function(Rows(some, of.reads, of.applies), *of.given))
                parts.append(of.weighted(found, len(some), weights))
            totals = np.array([math.fsum(column) for column in zip(*parts, strict=True)])
            return np.asarray(np.rint(totals * self._fine), dtype=np.int64)
