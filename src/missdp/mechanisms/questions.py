"""What can be asked of rows: public facts about a release, and a pure function of the rows.

A question is a function that a door runs on a read-only view of the rows (`Rows`: the attributes
that it named, and nothing to change), with public facts that say how far one row can move its
result. Where it can, the door makes those facts true by itself:

* `Counts`: the function says in which cell a row is counted; the door counts.
* `Sums`: the function gives each row a number, or a few; the door clips them to a public bound,
  rounds them to public units and adds them up.
* `Query`: the function returns whole numbers of a public shape; how far one row moves them is the
  author's proof.

For the first two the author promises one thing: what the function says of a row depends on that
row alone. All results are whole numbers, so that no rounding of floating point can move them
further. A `Preparation` changes the rows before: cells are filled, or rows dropped.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost, scale_for
from missdp.errors import DataError, ParameterError, number, replacing
from missdp.mechanisms.noise import Noise
from missdp.mechanisms.session import no_warnings, plain_function, read_only
from missdp.schema import Schema
from missdp.schema.conditions import Verdict
from missdp.shelf import blocks
from missdp.types import Flags, Floats, Ints

if TYPE_CHECKING:
    from missdp.mechanisms.row_door import FilledRows

QUANTA = 1 << 20
"""Units in which a sum is rounded, per bound."""
_LARGEST = np.uint64(2**62)


PART_ROWS = 2**20
"""Most rows that a function of each row by itself is shown at once."""


@dataclass(frozen=True, eq=False, repr=False)
class Filled:
    """Cells of one attribute that a preparation filled: of which rows, and with what. Private.

    Only these are kept, beside the table as it came: a copy of every column would not fit into the
    memory that a large table leaves.

    Parameters
    ----------
    rows : array of int, shape (filled,)
        Row numbers, increasing.
    codes : array of int, shape (filled,)
        Codes of the levels, or of the bins, that the cells get.
    values : array of float, shape (filled,), optional
        Numeric attributes only. Those beyond the bounds become the bounds, NaN the lower one.
    """

    rows: NDArray[np.integer]
    codes: NDArray[np.integer]
    values: Floats | None = None

    def fits(self, size: int, levels: int) -> bool:
        """Whether it tells cells of so many rows, each once, and codes of so many levels."""
        whole = [self.rows, self.codes]
        told = whole if self.values is None else [*whole, self.values]
        return (
            all(isinstance(part, np.ndarray) and part.dtype.kind in "iu" for part in whole)
            and all(part.shape == (len(self.rows),) for part in told)
            and all(self._fits(where, size, levels) for where in blocks(len(self.rows), PART_ROWS))
        )

    def _fits(self, where: slice, size: int, levels: int) -> bool:
        rows, codes = self.rows[where.start : where.stop + 1], self.codes[where]
        rising = rows[1:] > rows[:-1]  # no difference, which could overflow
        known = (rows >= 0) & (rows < size), (codes >= 0) & (codes < levels)
        return all(bool(np.all(part)) for part in (rising, *known))

    def where(self, keep: Flags | Ints | slice) -> Filled:
        """Return some of the cells."""
        values = None if self.values is None else self.values[keep]
        return Filled(self.rows[keep], self.codes[keep], values)

    def places(self, start: int, stop: int) -> slice:
        """Return which of the cells are those of the rows from one on and before another."""
        return slice(*(bisect_left(self.rows, row) for row in (start, stop)))  # NumPy copies rows

    def between(self, start: int, stop: int) -> Filled:
        """Return the cells of the rows from one on and before another, counted from there."""
        some = self.where(self.places(start, stop))
        return Filled(some.rows.astype(np.int64) - start, some.codes, some.values)


@dataclass(frozen=True, eq=False, repr=False)
class Ways:
    """Equally likely ways to fill each of some rows: questions are averaged over them. Private.

    Increasing row numbers; which list of ways each has; where each list begins among all ways, and
    the last one ends (none is empty); and what the missing cells of these attributes are in each
    way, which are the rows of its ``Filled``.
    """

    rows: NDArray[np.integer]
    lists: NDArray[np.integer]
    start: NDArray[np.integer]
    columns: Mapping[str, Filled]

    def fits(self, size: int) -> bool:
        """Whether it tells ways of so many rows, each row once, and no list is empty."""
        ends, many = self.start, len(self.start) - 1
        return Filled(self.rows, self.lists).fits(size, many) and all(
            bool(np.all(ends[where.start + 1 : where.stop + 1] > ends[where]))
            for where in blocks(many, PART_ROWS)
        )


@dataclass(frozen=True, eq=False, repr=False)
class Prepared:
    """What a preparation made of the rows. Private.

    Parameters
    ----------
    columns : mapping of str to Filled
        Attributes that were filled.
    keep : array of bool, shape (n,), optional
        Rows that stay; the others, and their filled cells, are dropped. Not with ``ways``.
    profile : object, optional
        For preparations in which a row's filled cells depend on other rows: how many one row can
        move. Its ``smooth_bound(own=, donee=, beta=)`` is a beta-smooth bound of ``own + donee
        * (rows that one row can move)``, rounded up by a factor of at most 1 + 2**-40. A row that
        is moved in a part of its ways only counts as that part.
    ways : Ways, optional
        How rows are filled in several ways, instead of ``columns``.
    """

    columns: Mapping[str, Filled] = field(default_factory=dict)
    keep: Flags | None = None
    profile: Any = None
    ways: Ways | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Preparation:
    """How rows are changed behind the door: a pure function, and what it means for privacy.

    Parameters
    ----------
    function : callable
        ``function(rows, draws, *given)`` returns `Prepared`; a plain function, without a closure or
        defaults. Each row becomes what it becomes by its own cells, what is given, and draws; only
        attributes in ``shared`` may depend on other rows.
    reads : frozenset of str
        Attributes that it reads.
    given : tuple
        Public or released values.
    draws : {"generator"} or None
        What it gets to draw with.
    shared : frozenset of str
        Attributes whose filled cells depend on other rows without noise. How many rows one row can
        move is then private, and `Prepared.profile` bounds it.
    averaged : bool, default False
        Whether it returns ``Ways``: questions that read shared attributes are averaged over them,
        so that they may only be `Counts` or `Sums`. Public.
    """

    function: Callable[..., Prepared]
    reads: frozenset[str] = frozenset()
    given: tuple[Any, ...] = ()
    draws: Literal["generator"] | None = None
    shared: frozenset[str] = frozenset()
    averaged: bool = False

    def __post_init__(self) -> None:
        plain_function(self.function, "a preparation")
        object.__setattr__(self, "given", tuple(map(read_only, self.given)))


class Rows:
    """The view of private rows that a function gets: read-only, and of the attributes it named."""

    def __init__(
        self, cells: FilledRows, reads: frozenset[str], asks: frozenset[str] = frozenset()
    ) -> None:
        self._cells, self._reads, self._asks = cells, reads, asks

    def __len__(self) -> int:
        return len(self._cells)

    def __repr__(self) -> str:
        return "Rows(private)"

    def parts(self) -> Iterator[tuple[slice, Rows]]:
        """Yield slices of the rows, each with its view, for functions of each row by itself."""
        for where in blocks(len(self), PART_ROWS):
            whole = where.stop - where.start == len(self)
            cells = self._cells if whole else self._cells.part(where.start, where.stop)
            yield where, Rows(cells, self._reads, self._asks)

    @property
    def schema(self) -> Schema:
        """Public facts."""
        return self._cells.schema

    def codes(self, name: str) -> Ints:
        """Codes of an attribute; missing cells have the attribute's missing code."""
        codes = self._cells.codes(self._readable(name))
        found: Ints = read_only(codes.astype(np.int64, copy=False))
        return found

    def mask(self, name: str) -> Flags:
        """Return True where the cell has no value: a hole, or not applicable."""
        return np.asarray(self.codes(name) >= self.schema[name].size)

    def holes(self, name: str) -> Flags:
        """Return True where the cell is a hole; what is not applicable is none."""
        return np.asarray(self.codes(name) >= self.schema[name].missing_code)

    def applies(self, name: str) -> Verdict:
        """Tell to which rows an attribute surely applies, and to which it may.

        By each row's cells as they came: other rows have no say in it, however missing cells are
        filled. Where a value is there it applies; where a cell is missing, the schema's rules
        decide.
        """
        if name not in self._reads | self._asks:
            raise ParameterError("a function reads only the attributes that it named")
        surely, maybe = self._cells.applies(name)
        return read_only(surely), read_only(maybe)

    def values(self, name: str) -> Floats:
        """Values of a numeric attribute; its lower bound where missing."""
        found: Floats = read_only(self._cells.values(self._readable(name)))
        return found

    def _readable(self, name: str) -> str:
        if name not in self._reads:
            raise ParameterError("a function reads only the attributes that it named")
        return name


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A release to come, as far as it is public before anything is computed.

    Parameters
    ----------
    label : str
    cost : Cost or Noise
        What it may spend, in pure epsilon or rho; or the noise itself, for a question that reads no
        cell filled from other rows.
    reads : frozenset of str
        Attributes that the question may read.
    own : float, default 1
        How far one row of its own moves the result.
    moves : int, default 1
        How far one other row moves it, in units of ``own``, at most.
    dimension : int, default 1
        How many numbers the result has.
    observed : bool, default False
        Whether it is asked of the rows as they came, with their missing cells.
    gate : frozenset of str, default empty
        Rows are read only if all these attributes are observed in them; for ``observed`` ones.
    delta : float, default 0
        Probability that what is deduced from the answer is wrong, if that costs.
    """

    label: str
    cost: Cost | Noise
    reads: frozenset[str] = frozenset()
    own: float = 1
    moves: int = 1
    dimension: int = 1
    observed: bool = False
    gate: frozenset[str] = frozenset()
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "reads", frozenset(self.reads))
        object.__setattr__(self, "gate", frozenset(self.gate))
        if type(self.cost) not in (Cost, Noise):
            raise ParameterError("a question is answered with Noise, or for a Cost")
        if isinstance(self.cost, Cost) and self.cost.currency not in ("pure", "zcdp"):
            raise ParameterError("a question is paid for in pure epsilon or rho")
        if self.gate and not self.observed:
            raise ParameterError("a gate is for questions of the rows as they came")

    @property
    def epsilon(self) -> float:
        """Pure epsilon that fits into the cost: rho-zCDP follows from sqrt(2 rho)-DP."""
        assert isinstance(self.cost, Cost)
        return self.cost.amount if self.rho is None else math.sqrt(2 * self.rho)

    @property
    def rho(self) -> float | None:
        """The cost if it is a rho."""
        cost = self.cost
        return cost.amount if isinstance(cost, Cost) and cost.currency == "zcdp" else None

    @property
    def noise(self) -> Noise:
        """The noise of whole numbers that a row moves by ``own``, and by nothing else."""
        if isinstance(self.cost, Noise):
            return self.cost
        spent = f"{'epsilon' if self.rho is None else 'rho'} {self.cost.amount:.2g}"
        little = f"{spent} is too little for {self.label!r}: no noise so large can be drawn"
        with replacing(ParameterError, by=ParameterError(little)):
            if self.rho is None:
                return Noise("laplace", scale_for(self.own, self.epsilon))
            return Noise.worth(self.cost, sensitivity=self.own)


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

    Attributes
    ----------
    own : float
        How far one row that comes or goes moves the result, in units of ``unit``; the same in L1
        and L2.
    donee, donee_l2 : float
        How far a row whose filled cells change moves it, in L1 and in L2.
    dimension : int
        How many numbers the result has.
    """

    function: Callable[..., Any]
    reads: frozenset[str] = frozenset()
    given: tuple[Any, ...] = ()
    applies: frozenset[str] = frozenset()

    unit = Fraction(1)
    own: float = field(init=False)
    donee: float = field(init=False)
    donee_l2: float = field(init=False)
    dimension: int = field(init=False)

    def __post_init__(self) -> None:
        plain_function(self.function, "a question")
        given = tuple(map(read_only, self.given))
        self._state(reads=frozenset(self.reads), applies=frozenset(self.applies), given=given)

    def _state(self, **facts: Any) -> None:
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    def exact(self, cells: FilledRows) -> Ints:
        """Return the result, shape ``(dimension,)``; private, as is why a function fails."""
        failed = DataError("the function of a question failed")
        # Neither an error nor a warning may quote rows.
        with replacing(Exception, by=failed), no_warnings():
            rows = Rows(cells, self.reads, self.applies)
            parts = rows.parts() if self._adds_up and len(rows) > PART_ROWS else [(None, rows)]
            return sum(map(self._of, (part for _, part in parts)), np.zeros(1, dtype=np.int64))

    @property
    def fine(self) -> int:
        """How many units an average has for each one: a row moves it by about ``QUANTA``."""
        return max(1, int(QUANTA // self.own))

    def average(self, cells: FilledRows) -> Ints:
        """Return the result on average over all ways to fill rows, in `fine` units; private.

        The sums of floating-point numbers are rounded once, each weight is off by less than 2**-52
        of itself: that is less than half a unit for 2**30 rows that are filled. Rounding to units
        is half a unit more. So neighbours differ by two units more than averages do.
        """
        failed = DataError("the function of a question failed")
        # Neither an error nor a warning may quote rows.
        with replacing(Exception, by=failed), no_warnings():
            fixed = np.ones(len(cells), dtype=bool)
            if cells.ways is not None:
                fixed[cells.ways.rows] = False
            parts = [[0.0] * self.dimension]
            for where, rows in Rows(cells, self.reads, self.applies).parts():
                found = np.asarray(self.function(rows, *self.given))
                parts.append(self.weighted(found, len(rows), fixed[where].astype(np.float64)))
            for some, weights in cells.in_all_ways(self.reads | self.applies):
                found = np.asarray(self.function(Rows(some, self.reads, self.applies), *self.given))
                parts.append(self.weighted(found, len(some), weights))
            totals = np.array([math.fsum(column) for column in zip(*parts, strict=True)])
            return np.asarray(np.rint(totals * self.fine), dtype=np.int64)

    def _of(self, rows: Rows) -> Ints:
        found = np.asarray(self.function(rows, *self.given))
        return np.asarray(self._totals(found, len(rows)), dtype=np.int64)

    _adds_up = False  # whether the result of all rows is the sum of the results of some and others

    def weighted(self, found: NDArray[Any], size: int, weights: Floats) -> list[float]:
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
    """

    cells: int = 1
    stays: bool = False
    _adds_up = True

    def __post_init__(self) -> None:
        super().__post_init__()
        # A row is in one cell, or in none; changed, it can come, go, or change its cell.
        donee = 1 if self.stays or self.cells == 1 else 2
        self._state(own=1, donee=donee, donee_l2=math.sqrt(donee), dimension=self.cells)

    def weighted(self, found: NDArray[Any], size: int, weights: Floats) -> list[float]:
        """Return the weight of the rows in each cell."""
        cell = self._cell(found, size)
        order = np.argsort(cell, kind="stable")
        ends = np.searchsorted(cell[order], np.arange(self.cells + 1))
        return [math.fsum(weights[order[a:b]].tolist()) for a, b in pairwise(ends)]

    def _totals(self, found: NDArray[Any], size: int) -> Any:
        cell = self._cell(found, size)
        return np.bincount(cell[(cell >= 0) & (cell < self.cells)], minlength=self.cells)

    def _cell(self, found: NDArray[Any], size: int) -> Ints:
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
    """

    bound: float
    numbers: int = 1
    change: float | None = None
    _adds_up = True

    def __post_init__(self) -> None:
        super().__post_init__()
        number("the bound", self.bound, most=math.inf, open_end=True)
        donee = self._moved()
        self._state(
            unit=Fraction(self.bound) / QUANTA, own=QUANTA, donee=donee, donee_l2=donee,
            dimension=self.numbers,
        )  # fmt: skip

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

    def weighted(self, found: NDArray[Any], size: int, weights: Floats) -> list[float]:
        """Return the sums of the rows' numbers times their weights."""
        steps = self._steps(found, size)
        return [math.fsum((steps[:, i] * weights).tolist()) for i in range(self.numbers)]

    def _totals(self, found: NDArray[Any], size: int) -> Any:
        return self._steps(found, size).sum(axis=0)

    def _steps(self, found: NDArray[Any], size: int) -> Ints:
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

    """

    sensitivity: float
    shape: tuple[int, ...] = ()
    change: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for moved in (self.sensitivity, 1 if self.change is None else self.change):
            number("how far a row moves a query", moved, least=1, most=math.inf)
        donee = math.inf if self.change is None else self.change
        many = math.prod(self.shape)
        self._state(own=self.sensitivity, donee=donee, donee_l2=donee, dimension=many)

    def _totals(self, found: NDArray[Any], size: int) -> Any:
        del size
        if found.shape != tuple(self.shape) or found.dtype.kind not in "biu":
            raise DataError("not whole numbers of the stated shape")
        if found.dtype.kind == "u":  # clipped: wrapped around, neighbours could be far apart
            found = np.minimum(found.astype(np.uint64), _LARGEST)
        return found.ravel()
