"""The private side of training: gradients of single rows, clipped, on a grid, and added up."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from missdp.errors import ParameterError, replacing
from missdp.mechanisms.session import no_warnings, plain_function, read_only
from missdp.types import Floats, Ints

Codes: TypeAlias = Mapping[str, Ints]
Gradient: TypeAlias = Callable[..., Any]
_BITS = 61  # of the lower part of a sum; the upper part counts multiples of 2^61
_LARGEST = 2**_BITS
_LARGEST_DIMENSION = 2**22
_MOST_ROWS_AT_ONCE = 2**10  # whose sum is exact in floating point, at up to 2^42 cells each
# What rounding may make of the rows beside a row, in clip norms; the slack of the noise covers it.
_TOLERANCE = 2.0**-30
SLACK = 2.0**-10
"""The noise is so much larger than claimed: room for what rounding does to other rows."""
_PAIRS = ((0, 0), (1, 1), (0, 1), (1, 0), (2, 2), (2, 0), (3, 3), (4, 5))


@dataclass(frozen=True)
class Grid:
    """Where clipped gradients lie: whole numbers of cells, of norm at most ``cells``.

    Notes
    -----
    A gradient g becomes rint(g r / max(clip, norm of g)), r = (cells - sqrt(dimension) / 2)
    (1 - 2^-30). Its length before rounding is at most r but for a relative error below 2^-31 (sums
    of up to 2^22 squares in floating point), and rounding adds at most sqrt(dimension) / 2. So the
    norm is at most ``cells``: exactly, since these are whole numbers.
    """

    clip: float
    cells: int
    dimension: int

    def __post_init__(self) -> None:
        if not 1 <= self.dimension <= _LARGEST_DIMENSION or self.cells < 64 * self.dimension**0.5:
            raise ParameterError(
                f"gradients of {self.dimension} parameters are too long for this noise: use fewer "
                "parameters or a smaller noise multiplier"
            )

    @property
    def radius(self) -> float:
        """Length, in cells, of a clipped gradient before it is rounded."""
        return (self.cells - math.sqrt(self.dimension) / 2) * (1 - 2.0**-30)

    @property
    def width(self) -> float:
        """Width of a cell, in the unit of the gradients."""
        return self.clip / self.radius

    @property
    def beside(self) -> int:
        """Largest number of rows of a sample in blocks with others, which the slack covers.

        One row more moves each of them by the tolerance, and then by a cell in each coordinate.
        """
        each = _TOLERANCE * self.cells + math.sqrt(self.dimension)
        return int(SLACK * self.cells / each)

    def cells_of(self, gradients: Floats) -> Floats:
        """Return the gradients clipped and rounded; rows that are not finite become 0."""
        known = np.isfinite(gradients).all(axis=1, keepdims=True)
        values = np.where(known, gradients, 0.0)
        largest = np.abs(values).max(axis=1, initial=0.0)
        # Divided by the largest entry, which neither overflows nor vanishes when squared.
        unit = values / np.where(largest > 0, largest, 1.0)[:, None]
        with np.errstate(over="ignore"):
            norm = np.sqrt(np.square(unit).sum(axis=1))
            scale = self.radius / np.maximum(self.clip / np.where(largest > 0, largest, 1.0), norm)
        return np.asarray(np.rint(unit * scale[:, None]))


class RowFunction:
    """A family's gradient function, run on blocks of rows of one public size.

    Notes
    -----
    That a row's gradient depends on this row alone is what the privacy claim rests on. It is tried
    out on made-up rows: in another order and beside others, at the state given and near it. A plain
    function is no prison: one that writes to the variables of its module is not found out.

    Rounding may depend on the place in a block and on its size. The slack of the noise covers
    functions that it moves by at most 2^-30 clip norms: smooth ones, in double precision, in blocks
    of up to 1024 rows, and as many rows as `Grid.beside` says; rows of a sample beyond are run one
    by one. It does not cover a jump: at a kink (a hinge loss, a leaky activation, a clipped value)
    a row that stands within rounding of it may move by two clip norms. Functions with kinks are
    covered if what each kink is fed with is added up in one order whatever stands beside the row,
    as it is by `numpy.einsum` and not by products of matrices, or in blocks of one row.
    """

    def __init__(
        self,
        function: Gradient,
        sizes: Mapping[str, int],
        state: tuple[Any, ...],
        rows_at_once: int,
    ) -> None:
        plain_function(function, "a gradient function")
        whole = isinstance(rows_at_once, int | np.integer) and not isinstance(rows_at_once, bool)
        if not whole or not 1 <= rows_at_once <= _MOST_ROWS_AT_ONCE:
            raise ParameterError(f"rows_at_once must be from 1 to {_MOST_ROWS_AT_ONCE}")
        self._function, self._at_once = function, int(rows_at_once)
        rng = np.random.default_rng(0)
        self._made_up, self._others, self._more = (
            {name: rng.integers(0, size, self._at_once) for name, size in sizes.items()}
            for _ in range(3)
        )
        for name, size in sizes.items():  # rows at both ends: nothing missing, everything missing
            self._made_up[name][:2] = np.array([0, size - 1])[: self._at_once]
        self.shapes, self.several = self._look(state)
        self.dimension = sum(math.prod(shape) for shape in self.shapes)

    @property
    def rows_at_once(self) -> int:
        """Number of rows of every block."""
        return self._at_once

    def padded(self, block: Codes, rows: int) -> Codes:
        """Return a block of the public size, made-up rows behind these."""
        return {name: np.append(block[name], c[rows:]) for name, c in self._made_up.items()}

    def __call__(self, block: Codes, state: tuple[Any, ...]) -> Floats:
        """Return the gradient of every row of a block, all parameters in one vector."""
        parts = self._parts(self._function(fixed_copy(block), *map(fixed_copy, state)))
        if [part.shape[1:] for part in parts] != self.shapes:
            raise ParameterError("the gradient function changed the shape of its result")
        return self._joined(parts)

    def check(self, state: tuple[Any, ...], clip: float) -> None:
        """Refuse a function that fails on made-up rows, or lets rows look at each other.

        Nothing private is read.
        """
        self.check_runs(state)
        for values in (state, _near(state)):
            with np.errstate(all="ignore"), replacing(Exception, by=_failed):
                self._check_rows(values, clip)

    def check_runs(self, state: tuple[Any, ...]) -> None:
        """Refuse a function that fails on made-up rows at this state.

        A block is filled up with such rows: what they break would be broken in some blocks only.
        """
        with np.errstate(all="ignore"), replacing(Exception, by=_failed):
            self(self._made_up, state)

    def _check_rows(self, state: tuple[Any, ...], clip: float) -> None:
        rows, rng = self._made_up, np.random.default_rng(1)
        alone = self(rows, state)
        turned = rng.permutation(self._at_once)
        same = [self(rows, state), self(_taken(rows, turned), state)[np.argsort(turned)]]
        for others in (self._others, self._more):
            for keep in (rng.random(self._at_once) < 0.5, rng.permutation(self._at_once) == 0):
                mixed = {name: np.where(keep, rows[name], others[name]) for name in rows}
                same.append(np.where(keep[:, None], self(mixed, state), alone))
        for one, other in _PAIRS:  # one row among others that are all alike
            one, other = min(one, self._at_once - 1), min(other, self._at_once - 1)
            pair = np.full(self._at_once, other)
            pair[one] = one
            keep = np.arange(self._at_once)[:, None] == one
            same.append(np.where(keep, self(_taken(rows, pair), state), alone))
        length = np.linalg.norm(alone, axis=1)
        known = np.isfinite(length)
        most = np.maximum(length, min(clip, length[known].max(initial=0.0)))
        for found in same:
            off = np.linalg.norm(found - alone, axis=1)
            if (~(off <= _TOLERANCE * most) & (known | np.isfinite(found).all(axis=1))).any():
                raise ParameterError(_LOCAL)

    def split(self, vector: Floats) -> Any:
        """Return a vector of all parameters in the form of one row's gradient."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
        parts = [p.reshape(s) for p, s in zip(np.split(vector, ends), self.shapes, strict=True)]
        return tuple(parts) if self.several else parts[0]

    def _look(self, state: tuple[Any, ...]) -> tuple[list[tuple[int, ...]], bool]:
        """Return the shapes of a row's gradient, as made-up rows have it."""
        with np.errstate(all="ignore"), replacing(Exception, by=_failed):
            found = self._function(fixed_copy(self._made_up), *map(fixed_copy, state))
            parts = self._parts(found)
            return [part.shape[1:] for part in parts], isinstance(found, tuple)

    def _parts(self, found: Any) -> list[Floats]:
        parts = found if isinstance(found, tuple) else (found,)
        arrays = [np.asarray(part, dtype=np.float64) for part in parts]
        if not arrays or any(a.ndim == 0 or len(a) != self._at_once for a in arrays):
            raise ParameterError("a gradient function returns one gradient for every row")
        return arrays

    def _joined(self, parts: list[Floats]) -> Floats:
        return np.concatenate([part.reshape(self._at_once, -1) for part in parts], axis=1)


_LOCAL = (
    "the gradient of a row must depend on this row only, but it changes with the rows beside it "
    "(as by batch normalisation, or an average over the batch) or from call to call"
)


def _failed(error: BaseException) -> ParameterError:
    if isinstance(error, ParameterError):
        return ParameterError(str(error))
    # The rows were made up, and the state is released: nothing private is quoted.
    return ParameterError(f"the gradient function fails on made-up rows: {error!r}")


class RowGradients:
    """The clipped gradients of all rows at one state; private, and computed when asked for."""

    def __init__(
        self,
        codes: Callable[[], Codes],
        function: RowFunction,
        state: tuple[Any, ...],
        grid: Grid,
    ) -> None:
        self._codes, self._function, self._state, self._grid = codes(), function, state, grid

    def __len__(self) -> int:
        return len(next(iter(self._codes.values())))

    @cached_property
    def total(self) -> Ints:
        """The sum over all rows, in cells."""
        return self.sum(np.arange(len(self)))

    @property
    def cells(self) -> int:
        """The clip norm, in cells."""
        return self._grid.cells

    @cached_property
    def each(self) -> Ints:
        """The gradient of every row, in cells."""
        parts = [np.zeros((0, self._grid.dimension)), *self._blocks(np.arange(len(self)))]
        return np.concatenate(parts).astype(np.int64)

    @property
    def active(self) -> Ints:
        """The gradients that are not 0, one by one, in cells."""
        return self.each[self.each.any(axis=1)]

    def sum(self, rows: Ints) -> Ints:
        """Return the sum over these rows, in cells."""
        low, high = (np.zeros(self._grid.dimension, dtype=np.int64) for _ in range(2))
        for part in self._blocks(rows):
            low += part.sum(axis=0).astype(np.int64)
            high, low = high + (low >> _BITS), low & (_LARGEST - 1)
        # Clipped, so that noise cannot make it wrap around: once, when all rows are in, so that it
        # does not matter which rows are beside each other. No two sums move further apart.
        total = np.where(high > 0, _LARGEST, (high << _BITS) + low)
        return np.where(high < -1, -_LARGEST, total)

    def _blocks(self, rows: Ints) -> Any:
        beside = min(len(rows), self._grid.beside)
        blocks = range(0, beside, self._function.rows_at_once)
        starts = itertools.chain(blocks, range(beside, len(rows)), [len(rows)])
        for start, end in itertools.pairwise(starts):
            chosen = rows[start:end]
            block = {name: c[chosen].astype(np.int64) for name, c in self._codes.items()}
            yield self._grid.cells_of(self._gradients(block, len(chosen)))

    def _gradients(self, block: Codes, rows: int) -> Floats:
        """Gradients of the rows of a block; a row for which there is none has gradient 0."""
        found = self._tried(self._function.padded(block, rows))
        if found is not None:
            return found[:rows]
        # Some row makes the function fail. A refusal would tell of it, so each is tried by itself.
        out = np.zeros((rows, self._grid.dimension))
        for i in range(rows if rows > 1 else 0):
            one = {name: codes[i : i + 1] for name, codes in block.items()}
            out[i] = self._gradients(one, 1)[0]
        return out

    def _tried(self, block: Codes) -> Floats | None:
        with contextlib.suppress(Exception), no_warnings():  # either would tell of the rows
            return self._function(block, self._state)
        return None


def alike_but_one(one: RowGradients, other: RowGradients) -> bool:
    """Whether two tables of rows, in one order, have the same gradients but for one row.

    Up to what rounding may make of the rows beside a row, which the noise has room for.
    """
    few, many = sorted((one.each, other.each), key=len)
    if len(many) - len(few) > 1:
        return False
    most = _TOLERANCE * one.cells + math.sqrt(few.shape[1])

    def leading(a: Ints, b: Ints) -> int:
        off = np.linalg.norm((a - b).astype(np.float64), axis=1) > most
        return int(off.argmax()) if off.any() else len(off)

    same = leading(few, many[: len(few)])
    rest = leading(few[::-1], many[::-1][: len(few)])
    return same + rest >= len(few)


def fixed_copy(value: Any) -> Any:
    """Return a copy that cannot be written to; of a mapping, one with copies of its values."""
    if isinstance(value, Mapping):
        return {name: fixed_copy(item) for name, item in value.items()}
    return read_only(value.copy() if isinstance(value, np.ndarray) else value)


def _taken(rows: Codes, order: Ints) -> Codes:
    return {name: codes[order] for name, codes in rows.items()}


def _near(state: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the state, its real numbers moved a little: at 0, every gradient may be 0."""
    rng = np.random.default_rng(2)

    def moved(value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            return (value + 0.1 * rng.standard_normal(value.shape)).astype(value.dtype)
        return value

    return tuple(map(moved, state))
