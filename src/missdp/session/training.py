"""Trainings that a fit is charged for in advance: their plan, their rows, and their steps.

A training is one event, fixed by public parameters: sampling rate, noise and number of steps. It is
charged together with the cap of all other releases of a fit, before anything is read. The session
then hands its rows over once, and answers as many steps as were charged.

**Noise on a grid.** A step adds discrete Gaussian noise to a sum that is rounded to a grid of
cells. It is accounted for as continuous Gaussian noise. Discrete noise with parameter ``sigma``
cells is continuous noise of variance ``sigma**2 - 4``, rounded at random. The lemma in
`missdp.accounting.measures` shows this up to a factor within 1e-33 of 1 for each number. The
rounding depends on the noisy sum and not on the sample. So a complete step, including the choice of
the sample, is post-processing of a step with continuous noise. Rounding the sums of two neighbours
to the grid increases their distance by at most the square root of the number of parameters, in
cells. The noise exceeds the charged noise by the factor ``1 + _NOISE_SLACK``. Half of that covers
the rounding, and the rest is far more than the variance of 4 cells.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn, Protocol

import numpy as np

from missdp.accounting import Composition, Event, Filter, SampledGaussianEvent
from missdp.errors import BudgetExceededError, ParameterError, check_integer, replacing
from missdp.session.noise import NoiseSource
from missdp.types import Floats, Ints

SAMPLING_SLACK = 2.0**-24
"""Charged sampling rate of a training less the rate of its sampler."""

_CELLS = 2.0**38  # cells of the grid in one standard deviation of the noise
_NOISE_SLACK = 2.0**-13  # relative amount by which the noise exceeds the charged noise


class RowGradients(Protocol):
    """Protocol of the gradients of all rows at one step, each clipped to norm 1. Private."""

    def __len__(self) -> int: ...

    def sum(self, rows: Ints) -> Floats:
        """Return the exact sum of the clipped gradients of some rows.

        Parameters
        ----------
        rows : ndarray of int64
            Positions of the rows.

        Returns
        -------
        ndarray of float64, shape (n_parameters,)
            All parameters in one vector. Private.
        """


@dataclass(frozen=True)
class SampledSum:
    """Mechanism of one training step: a noisy sum of the clipped gradients of sampled rows.

    This is a step of DP-SGD with Poisson sampling.

    Parameters
    ----------
    rate : float
        Charged sampling rate, in [0, 1]. Each row is read independently, with a probability that is
        lower by ``SAMPLING_SLACK``, or with certainty at rate 1.
    noise_multiplier : float
        Charged standard deviation of the noise, in clip norms, above 0.

    Examples
    --------
    >>> from missdp.accounting import SampledGaussianEvent
    >>> from missdp.session.training import SampledSum
    >>> event = SampledGaussianEvent(rate=0.01, noise_multiplier=4.0, steps=100)
    >>> SampledSum.from_event(event).noise_multiplier
    4.0
    """

    rate: float
    noise_multiplier: float

    @classmethod
    def from_event(cls, event: SampledGaussianEvent) -> SampledSum:
        """Return the mechanism of one step of a charged network training.

        Parameters
        ----------
        event : SampledGaussianEvent
            The accounting event of the training.

        Returns
        -------
        SampledSum
            The mechanism with the charged rate and noise.
        """
        return cls(event.rate, event.noise_multiplier)

    def draw(self, exact: RowGradients, source: NoiseSource) -> Floats:
        """Return the noisy sum of the gradients of a fresh random sample of rows.

        Only a session calls it, for a charged step.

        Parameters
        ----------
        exact : RowGradients
            Gradients of all rows, each clipped to norm 1. Private.
        source : NoiseSource
            The source of the sample and of the noise.

        Returns
        -------
        ndarray of float64, shape (n_parameters,)
            The noisy sum. Noise alone if the sample is empty. Released.

        Raises
        ------
        ParameterError
            If there are too many parameters for this much noise.
        """
        rate = self.rate if self.rate == 1 else max(0.0, self.rate - SAMPLING_SLACK)
        total = exact.sum(np.flatnonzero(source.coins(rate, len(exact))))
        cell = self.noise_multiplier * (1 + _NOISE_SLACK) / _CELLS
        if math.sqrt(total.size) * cell > _NOISE_SLACK / 2:
            raise ParameterError(
                "there are too many parameters for this much noise. Use fewer attributes or levels"
            )
        return np.asarray(
            (np.rint(total / cell) + source.discrete_gaussian(_CELLS, total.shape)) * cell
        )


@dataclass(frozen=True, eq=False, repr=False)
class TrainingRows:
    """Private rows of one charged network training, for its steps only.

    `Session.train` returns it.

    Parameters
    ----------
    event : SampledGaussianEvent
        The charged training.
    codes : callable
        Function that returns the codes of the rows, an array for each attribute. Private: call it
        only while a step computes its exact gradients.
    release : callable
        ``release(exact)`` draws the answer of one step by `SampledSum`, with the charged rate and
        noise. ``exact`` returns the ``RowGradients``. It raises ParameterError after as many steps
        as were charged.
    """

    event: SampledGaussianEvent
    codes: Callable[[], dict[str, Ints]]
    release: Callable[[Callable[[], RowGradients]], Floats]


class PaidSteps:
    """Counter of the steps of a charged training. Each step is counted before it is drawn.

    >>> from missdp.session.training import PaidSteps
    >>> steps = PaidSteps(1)
    >>> steps.charge()
    >>> steps.charge()
    Traceback (most recent call last):
        ...
    missdp.errors.ParameterError: all steps of this training were answered...
    """

    def __init__(self, steps: int) -> None:
        self._remaining, self._lock = check_integer("steps", steps), threading.Lock()

    def charge(self, *events: Event) -> None:
        """Count one step of a charged network training, or raise an error if no step is left.

        Parameters
        ----------
        *events : Event
            Not used: the event of the step was charged with the training.

        Raises
        ------
        ParameterError
            If all charged steps were counted.
        """
        del events
        with self._lock:
            if self._remaining < 1:
                raise ParameterError(
                    "all steps of this training were answered: no more were charged"
                )
            self._remaining -= 1


class TrainingPlan:
    """Network trainings of a fit that are charged in advance, together with the budget of the fit.

    All trainings and the complete budget of the other releases are composed and proven once. Pass
    the plan to a `Session`. `Session.train` then returns the rows for each training, once.

    Parameters
    ----------
    first : Filter
        The budget of all releases before the trainings, under add-remove adjacency.
    events : iterable of SampledGaussianEvent
        Accounting events of the trainings: sampling rate, noise and number of steps. No two are
        equal.
    epsilon : float
        The epsilon of the complete fit, at the delta of ``first``. At least 0.

    Raises
    ------
    BudgetExceededError
        If the plan costs more than ``epsilon``. Nothing is recorded.
    UnprovenError
        If nothing is proven for the plan at this delta.
    ParameterError
        If two trainings are equal.

    Notes
    -----
    All trainings and the budget ``first`` together are (epsilon, delta)-DP, under the adjacency
    add-remove. The object reads no private rows.

    Examples
    --------
    >>> from missdp import Filter
    >>> from missdp.accounting import SampledGaussianEvent
    >>> from missdp.session import TrainingPlan
    >>> event = SampledGaussianEvent(rate=0.01, noise_multiplier=4.0, steps=100)
    >>> plan = TrainingPlan(Filter(0.5, 1e-6), [event], 1.0)
    >>> plan.take(event)
    >>> plan.take(event)
    Traceback (most recent call last):
        ...
    missdp.errors.ParameterError: this training was not charged, or its rows were given out...
    """

    def __init__(
        self, first: Filter, events: Iterable[SampledGaussianEvent], epsilon: float
    ) -> None:
        self.events = tuple(events)
        if len({*self.events}) != len(self.events):
            raise ParameterError("two trainings of a plan are equal; give them different labels")
        self.first = first
        self._composition = Composition((first.filter(), *self.events), epsilon, first.delta)
        self._composition.charge(first.filter())

    def take(self, event: SampledGaussianEvent) -> None:
        """Mark a charged training as used, so that its rows cannot be requested again.

        Parameters
        ----------
        event : SampledGaussianEvent
            The accounting event of the training, as in the plan.

        Raises
        ------
        ParameterError
            If the training was not charged, or was taken before.
        BudgetExceededError
            If this process is a fork of the process that made the plan.
        """
        self._composition.check_process()
        refused = ParameterError(
            "this training was not charged, or its rows were given out before. A fit charges each "
            "training once, in advance"
        )
        with replacing(BudgetExceededError, by=refused):
            self._composition.charge(event)

    def __reduce__(self) -> NoReturn:
        raise ParameterError("a plan cannot be copied or pickled: its trainings were charged once")
