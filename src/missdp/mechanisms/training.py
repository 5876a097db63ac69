"""Private training: noisy sums of clipped gradients of sampled rows, charged once, in advance.

`Training` is the public plan, `RowFunction` a family's gradient of single rows, and
`PrivateTraining` takes the steps, each through the session.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NoReturn, TypeAlias

import numpy as np

from missdp.accounting import Cost, Event, SampledGaussianEvent
from missdp.accounting.costs import RDP_ORDERS, rdp_curve
from missdp.errors import BudgetExceededError, ParameterError, number, replacing, whole
from missdp.mechanisms.exact_noise import NoiseSource
from missdp.mechanisms.noise import too_far
from missdp.mechanisms.session import Charged, Session, no_warnings, plain_function, read_only
from missdp.types import Floats, Ints

Codes: TypeAlias = Mapping[str, Ints]
Gradient: TypeAlias = Callable[..., Any]
_BITS = 61  # of the lower part of a sum; the upper part counts multiples of 2^61
_LARGEST = 2**_BITS
_LARGEST_DIMENSION = 2**22
_MOST_ROWS_AT_ONCE = 2**10  # whose sum is exact in floating point, at up to 2^42 cells each
# What rounding may make of the rows beside a row, in clip norms; the slack of the noise covers it.
_TOLERANCE = 2.0**-30
_SLACK = 2.0**-10  # by which noise is larger than claimed: room for what rounding does to others
_PAIRS = ((0, 0), (1, 1), (0, 1), (1, 0), (2, 2), (2, 0), (3, 3), (4, 5))
_SIGMA = 2.0**38  # cells of the grid to a standard deviation of the noise
_LEAST, _MOST = 2.0**-4, 2.0**16
_MOST_TRIED = 12


@dataclass(frozen=True, kw_only=True)
class Training:
    """What is fixed, publicly, before the first step of private training.

    Parameters
    ----------
    rate : float
        Probability with which each step reads each row, independently; in (0, 1].
    steps : int
        Number of steps, at least 1.
    clip : float
        Norm to which the gradient of each row is clipped, all parameters together; above 0.
    noise_multiplier : float
        Standard deviation of the noise divided by ``clip``; from 2**-4 to 2**16.

    Examples
    --------
    >>> cost = Cost.worth("renyi", 1.0, 1e-5)
    >>> plan = Training.worth(cost, rate=0.02, steps=200, clip=1.0)
    >>> 1 < plan.noise_multiplier < 2
    True
    """

    rate: float
    steps: int
    clip: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", whole("steps", self.steps))
        for name, low, high in (
            ("rate", 2.0**-40, 1.0),
            ("clip", 2.0**-500, 2.0**500),
            ("noise_multiplier", _LEAST, _MOST),
        ):
            value = number(name, getattr(self, name), least=low, most=high)
            object.__setattr__(self, name, value)

    @classmethod
    def worth(cls, cost: Cost, *, rate: float, steps: int, clip: float) -> Training:
        """Return the plan with the least noise that costs at most this.

        The cost is in zCDP, which gains nothing from sampling (it is charged as if each step read
        every row), or at one Rényi order, which does; refused if it is too small for any noise.
        """
        if cost.currency == "pure":
            raise ParameterError(
                "Gaussian noise is never pure DP: training needs a budget with a delta above 0"
            )

        def plan(multiplier: float) -> Training:
            return cls(rate=rate, steps=steps, clip=clip, noise_multiplier=multiplier)

        def fits(multiplier: float) -> bool:
            return cost.price(plan(multiplier).event()) <= Fraction(repr(cost.amount))

        if not fits(_MOST):
            raise ParameterError("no noise is worth so little: use fewer steps or a larger budget")
        return plan(_LEAST if fits(_LEAST) else _least(fits, within=1e-9))

    @staticmethod
    def cost(epsilon: float, delta: float, *, rate: float, steps: int) -> Cost:
        """Return the cost, at one Rényi order, that leaves training with the least noise.

        For a budget that is spent on training: `Budget.from_cost` makes one. It counts at the order
        that is best for this rate and number of steps, which is lower than the best one for
        releases that read every row.
        """
        orders = RDP_ORDERS[(RDP_ORDERS >= 2) & (RDP_ORDERS <= 512)]
        capacity = np.array([Cost.at_order(a, epsilon, delta).amount for a in orders])

        def room(multiplier: float) -> Floats:
            plan = Training(rate=rate, steps=steps, clip=1.0, noise_multiplier=multiplier)
            return capacity - rdp_curve(plan.event(), orders)

        least = _least(lambda multiplier: bool(room(multiplier).max() >= 0), within=1e-6)
        return Cost.at_order(float(orders[int(np.argmax(room(least)))]), epsilon, delta)

    def event(self, *, gate: frozenset[str] | None = None, label: str = "") -> Event:
        """Return the fact that all steps of this plan are run."""
        return SampledGaussianEvent(
            rate=self.rate,
            noise_multiplier=self.noise_multiplier,
            steps=self.steps,
            discrete=True,
            gate=gate,
            label=label,
        )

    def grid(self, dimension: int) -> _Grid:
        """Return the grid on which gradients of so many parameters are clipped and added up."""
        cells = int(_SIGMA / (self.noise_multiplier * (1 + _SLACK)))
        return _Grid(clip=self.clip, cells=cells, dimension=dimension)


def _least(enough: Callable[[float], bool], *, within: float) -> float:
    """Return the least noise multiplier that is enough, within a factor of 1 + ``within``."""
    low, high = _LEAST, _MOST
    while high > low * (1 + within):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class _Grid:
    """Where clipped gradients lie: whole numbers of cells, of norm at most ``cells``.

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
        return int(_SLACK * self.cells / each)

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

    That a row's gradient depends on this row alone is what the privacy claim rests on. It is tried
    out on made-up rows: in another order and beside others, at the state given and near it. A plain
    function is no prison: one that writes to the variables of its module is not found out.

    Rounding may depend on the place in a block and on its size. The slack of the noise covers
    functions that it moves by at most 2^-30 clip norms: smooth ones, in double precision, in blocks
    of up to 1024 rows, and as many rows as a grid's ``beside`` says; rows of a sample beyond are
    run one by one. It does not cover a jump: at a kink (a hinge loss, a leaky activation, a clipped
    value) a row that stands within rounding of it may move by two clip norms. Functions with kinks
    are covered if what each kink is fed with is added up in one order whatever stands beside the
    row, as it is by `numpy.einsum` and not by products of matrices, or in blocks of one row.
    """

    def __init__(
        self,
        function: Gradient,
        sizes: Mapping[str, int],
        state: tuple[Any, ...],
        rows_at_once: int,
    ) -> None:
        plain_function(function, "a gradient function")
        number("rows_at_once", rows_at_once, least=1, most=_MOST_ROWS_AT_ONCE)
        self._function, self.rows_at_once = function, whole("rows_at_once", rows_at_once)
        rng = np.random.default_rng(0)
        self._made_up, self._others, self._more = (
            {name: rng.integers(0, size, self.rows_at_once) for name, size in sizes.items()}
            for _ in range(3)
        )
        for name, size in sizes.items():  # rows at both ends: nothing missing, everything missing
            self._made_up[name][:2] = np.array([0, size - 1])[: self.rows_at_once]
        self.shapes, self.several = self._look(state)
        self.dimension = sum(math.prod(shape) for shape in self.shapes)

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
        """Refuse a function that fails on made-up rows, or lets rows look at each other."""
        self.check_runs(state)
        for values in (state, _near(state)):
            with np.errstate(all="ignore"), replacing(Exception, by=_failed):
                self._check_rows(values, clip)

    def check_runs(self, state: tuple[Any, ...]) -> None:
        """Refuse a function that fails on made-up rows at this state, for they fill up blocks."""
        with np.errstate(all="ignore"), replacing(Exception, by=_failed):
            self(self._made_up, state)

    def _check_rows(self, state: tuple[Any, ...], clip: float) -> None:
        rows, rng = self._made_up, np.random.default_rng(1)
        alone = self(rows, state)
        turned = rng.permutation(self.rows_at_once)
        same = [self(rows, state), self(_taken(rows, turned), state)[np.argsort(turned)]]
        for others in (self._others, self._more):
            for keep in (
                rng.random(self.rows_at_once) < 0.5,
                rng.permutation(self.rows_at_once) == 0,
            ):
                mixed = {name: np.where(keep, rows[name], others[name]) for name in rows}
                same.append(np.where(keep[:, None], self(mixed, state), alone))
        for one, other in _PAIRS:  # one row among others that are all alike
            one, other = min(one, self.rows_at_once - 1), min(other, self.rows_at_once - 1)
            pair = np.full(self.rows_at_once, other)
            pair[one] = one
            keep = np.arange(self.rows_at_once)[:, None] == one
            same.append(np.where(keep, self(_taken(rows, pair), state), alone))
        length = np.linalg.norm(alone, axis=1)
        known = np.isfinite(length)
        most = np.maximum(length, min(clip, length[known].max(initial=0.0)))
        for found in same:
            off = np.linalg.norm(found - alone, axis=1)
            if (~(off <= _TOLERANCE * most) & (known | np.isfinite(found).all(axis=1))).any():
                raise ParameterError(
                    "the gradient of a row must depend on this row only, but it changes with the "
                    "rows beside it (as by batch normalisation, or an average over the batch) or "
                    "from call to call"
                )

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
        if not arrays or any(a.ndim == 0 or len(a) != self.rows_at_once for a in arrays):
            raise ParameterError("a gradient function returns one gradient for every row")
        return arrays

    def _joined(self, parts: list[Floats]) -> Floats:
        return np.concatenate([part.reshape(self.rows_at_once, -1) for part in parts], axis=1)


def _failed(error: BaseException) -> ParameterError:
    if isinstance(error, ParameterError):
        return ParameterError(str(error))
    # The rows were made up, and the state is released: nothing private is quoted.
    return ParameterError(f"the gradient function fails on made-up rows: {error!r}")


class _RowGradients:
    """The clipped gradients of all rows at one state; private, and computed when asked for."""

    def __init__(
        self,
        codes: Callable[[], Codes],
        function: RowFunction,
        state: tuple[Any, ...],
        grid: _Grid,
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


def _alike_but_one(one: _RowGradients, other: _RowGradients) -> bool:
    """Whether two tables' gradients are alike, up to rounding, but for one row's."""
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


@dataclass(frozen=True)
class SampledSum:
    """The law of one step: rows are sampled, their gradients are added up, and noise is added.

    A row moves the sum over a sample by a vector of integers, of a norm of at most
    ``sigma / (noise multiplier * (1 + 2**-10))``, if it is sampled, and not at all otherwise: one
    step of `SampledGaussianEvent` with discrete noise.
    """

    rate: float
    sigma: float

    def draw(self, exact: _RowGradients, source: NoiseSource) -> Ints:
        """Return a noisy sum, in cells of the grid."""
        if self.rate == 1:
            total = exact.total
        else:
            total = exact.sum(np.flatnonzero(source.coins(self.rate, len(exact))))
        return np.asarray(total + source.discrete_gaussian(self.sigma, total.shape))

    def log_ratio(self, answer: Ints, exact: _RowGradients, other: _RowGradients) -> float:
        """Return the log-likelihood of an answer given some rows less that given others.

        Every sample is summed over: few rows may have a gradient that is not 0.
        """
        return self._log_likelihood(answer, exact) - self._log_likelihood(answer, other)

    def exceeds(self, event: Event, exact: _RowGradients, other: _RowGradients) -> str | None:
        """Return why an event does not pay for a step.

        The sum over all rows may move by the standard deviation of the noise over the noise
        multiplier; and the gradients of all rows but one must stay as they are.
        """
        if not isinstance(event, SampledGaussianEvent) or self.rate > event.rate:
            return "a sample of rows costs a SampledGaussianEvent of at least its rate"
        if not _alike_but_one(exact, other):
            return (
                "one row changes the gradients of other rows: a gradient function must treat "
                "every row by itself"
            )
        moved, most = self.shift(exact, other), 1 / event.noise_multiplier
        return too_far(moved, most, "the sum of gradients, in standard deviations of noise,")

    def shift(self, exact: _RowGradients, other: _RowGradients) -> float:
        """Return how far the sums over all rows are apart, in standard deviations of the noise."""
        return float(np.linalg.norm(np.float64(exact.total - other.total))) / self.sigma

    def _log_likelihood(self, answer: Ints, exact: _RowGradients) -> float:
        """Log-likelihood up to a constant that is the same for all rows."""
        from scipy.special import logsumexp

        noisy = np.asarray(answer, dtype=np.float64) / self.sigma
        if self.rate == 1:
            return -float(np.square(noisy - exact.total / self.sigma).sum()) / 2
        rows = exact.active / self.sigma
        if len(rows) > _MOST_TRIED:
            raise ParameterError(f"at most {_MOST_TRIED} rows may have a gradient that is not 0")
        terms = []
        for sampled in itertools.product((0.0, 1.0), repeat=len(rows)):
            many = sum(sampled)
            weight = many * math.log(self.rate) + (len(rows) - many) * math.log1p(-self.rate)
            off = noisy - np.array(sampled) @ rows
            terms.append(weight - float(np.square(off).sum()) / 2)
        return float(logsumexp(terms))


class PrivateTraining:
    """A training that was charged for: answers one noisy sum of gradients for each step.

    A door makes it: see `missdp.mechanisms.Door.train`. How long a step takes is not hidden; it
    grows with the number of rows and with the sample.
    """

    def __init__(
        self,
        plan: Training,
        function: RowFunction,
        *,
        session: Session,
        charged: Charged,
        codes: Callable[[], Codes],
    ) -> None:
        self._plan, self._function = plan, function
        self._grid = plan.grid(function.dimension)
        self._session, self._charged, self._codes = session, charged, codes
        self._lock = threading.Lock()

    @property
    def steps_left(self) -> int:
        """Number of steps that were charged for and not taken."""
        return self._session._left.get(self._charged, 0)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise of each coordinate of a sum."""
        return _SIGMA * self._grid.width

    def step(self, *state: Any) -> Any:
        """Return the noisy sum of the clipped gradients of a fresh sample of rows.

        Parameters
        ----------
        *state : array, number or text
            Released values, such as the parameters as they are now; finite.

        Returns
        -------
        ndarray or tuple of ndarray
            As the gradient function returns for one row. It is a sum: an expected batch has
            ``plan.rate`` times the number of rows, of which only a released or declared number may
            be used.

        Raises
        ------
        BudgetExceededError
            If all steps have been taken.
        ParameterError
            If the gradient function is found out at this state; the step is not taken.
        """
        held = tuple(map(fixed_copy, state))
        if not all(_is_finite(value) for value in held):
            raise ParameterError("the state of the training is not finite: it has diverged")
        event = replace(self._plan, steps=1).event()
        with self._lock:
            self._check(held)
            cells = self._session._release(
                event,
                SampledSum(self._plan.rate, _SIGMA),
                lambda: _RowGradients(self._codes, self._function, held, self._grid),
                paid=self._charged,
            )
        return self._function.split(np.asarray(cells, dtype=np.float64) * self._grid.width)

    def _check(self, state: tuple[Any, ...]) -> None:
        """Refuse a step that was not charged for, or whose gradients fail on made-up rows."""
        taken = self._plan.steps - self.steps_left
        if not self.steps_left:
            raise BudgetExceededError(f"the training was charged for {taken} steps")
        self._function.check_runs(state)
        if taken & (taken - 1) == 0:  # 0, 1, 2, 4, 8, ...
            self._function.check(state, self._plan.clip)

    def __reduce__(self) -> NoReturn:
        raise ParameterError(
            "a training cannot be copied or pickled: private rows are behind it, and its steps "
            "were charged for once"
        )


def _is_finite(value: Any) -> bool:
    if isinstance(value, str) or value is None:
        return True
    return bool(np.isfinite(value).all())
