"""Private training: noisy sums of clipped gradients of sampled rows, charged once, in advance."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from missdp.accounting import Cost, Event, SampledGaussianEvent
from missdp.accounting.costs import RDP_ORDERS, rdp_curve
from missdp.accounting.filters import filter_cost
from missdp.errors import BudgetExceededError, ParameterError, number, whole
from missdp.mechanisms.noise import NoiseSource, above, check_scale, too_far
from missdp.mechanisms.row_gradients import (
    SLACK,
    Codes,
    Grid,
    RowFunction,
    RowGradients,
    alike_but_one,
    fixed_copy,
)
from missdp.mechanisms.session import Charged, Session
from missdp.types import Floats, Ints

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
    >>> from missdp.accounting import Cost
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

        Parameters
        ----------
        cost : Cost
            In zCDP, which gains nothing from sampling (it is charged as if each step read every
            row), or at one Rényi order, which does.
        rate, steps, clip
            See `Training`.

        Raises
        ------
        ParameterError
            If no noise is worth so little, or the cost is in pure epsilon: Gaussian noise is never
            pure DP.
        """
        if cost.currency == "pure":
            raise ParameterError(
                "Gaussian noise is never pure DP: training needs a budget with a delta above 0"
            )

        def plan(multiplier: float) -> Training:
            return cls(rate=rate, steps=steps, clip=clip, noise_multiplier=multiplier)

        def fits(multiplier: float) -> bool:
            return filter_cost(plan(multiplier).event(), cost) <= Fraction(repr(cost.amount))

        if not fits(_MOST):
            raise ParameterError("no noise is worth so little: use fewer steps or a larger budget")
        return plan(_LEAST if fits(_LEAST) else _least(fits, within=1e-9))

    @staticmethod
    def cost(epsilon: float, delta: float, *, rate: float, steps: int) -> Cost:
        """Return the cost, at one Rényi order, that leaves training with the least noise.

        For a budget that is spent on training: `Budget.from_cost` makes one. It counts at the order
        that is best for this rate and number of steps, which is lower than the best one for
        releases that read every row.

        Parameters
        ----------
        epsilon, delta : float
            What the cost is worth.
        rate, steps
            See `Training`.

        Examples
        --------
        >>> cost = Training.cost(1.0, 1e-5, rate=0.005, steps=100)
        >>> worst = Cost.worth("renyi", 1.0, 1e-5)
        >>> [
        ...     round(Training.worth(c, rate=0.005, steps=100, clip=1.0).noise_multiplier, 2)
        ...     for c in (cost, worst)
        ... ]
        [0.97, 1.28]
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

    def grid(self, dimension: int) -> Grid:
        """Return the grid on which gradients of so many parameters are clipped and added up."""
        cells = int(_SIGMA / (self.noise_multiplier * (1 + SLACK)))
        return Grid(clip=self.clip, cells=cells, dimension=dimension)


def _least(enough: Callable[[float], bool], *, within: float) -> float:
    """Return the least noise multiplier that is enough, within a factor of 1 + ``within``."""
    low, high = _LEAST, _MOST
    while high > low * (1 + within):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class SampledSum:
    """The law of one step: rows are sampled, their gradients are added up, and noise is added.

    Notes
    -----
    A row moves the sum over a sample by a vector of integers, of a norm of at most
    ``sigma / (noise multiplier * (1 + 2**-10))``, if it is sampled, and not at all otherwise: one
    step of `SampledGaussianEvent` with discrete noise.
    """

    rate: float
    sigma: float

    def draw(self, exact: RowGradients, source: NoiseSource) -> Ints:
        """Return a noisy sum, in cells of the grid."""
        if self.rate == 1:
            total = exact.total
        else:
            total = exact.sum(np.flatnonzero(source.coins(self.rate, len(exact))))
        return np.asarray(total + source.discrete_gaussian(self.sigma, total.shape))

    def log_ratio(self, answer: Ints, exact: RowGradients, other: RowGradients) -> float:
        """Return the log-likelihood of an answer given some rows less that given others.

        Every sample is summed over, so at most 12 of the rows may have a gradient that is not 0,
        unless every row is read.
        """
        return self._log_likelihood(answer, exact) - self._log_likelihood(answer, other)

    def exceeds(self, event: Event, exact: RowGradients, other: RowGradients) -> str | None:
        """Return why an event does not pay for a step.

        The sum over all rows may move by the standard deviation of the noise over the noise
        multiplier; and the gradients of all rows but one must stay as they are.
        """
        if not isinstance(event, SampledGaussianEvent) or self.rate > event.rate:
            return "a sample of rows costs a SampledGaussianEvent of at least its rate"
        if not alike_but_one(exact, other):
            return (
                "one row changes the gradients of other rows: a gradient function must treat "
                "every row by itself"
            )
        moved, most = self.shift(exact, other), 1 / event.noise_multiplier
        if above(moved, most):
            return too_far(moved, most, "the sum of gradients, in standard deviations of noise,")
        return None

    def shift(self, exact: RowGradients, other: RowGradients) -> float:
        """Return how far the sums over all rows are apart, in standard deviations of the noise."""
        return float(np.linalg.norm(np.float64(exact.total - other.total))) / self.sigma

    def _log_likelihood(self, answer: Ints, exact: RowGradients) -> float:
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

    Parameters
    ----------
    plan : Training
    function : RowFunction
    session : Session
        Which charged for it, and by which each step is answered.
    charged : Charged
    codes : callable
        Returns the codes of all rows; private.
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
        return check_scale("sigma", _SIGMA) * self._grid.width

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
            If the gradient function fails on made-up rows at this state, or lets rows look at each
            other; the step is not taken.
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
                lambda: RowGradients(self._codes, self._function, held, self._grid),
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
