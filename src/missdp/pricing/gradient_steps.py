"""Noisy gradients of a loss over rows: many from one charge, or the last iterate of a hidden run.

Rows are sampled, their gradients bounded and noised behind the door. Whoever asks gets noisy
gradients at points of its choice, or one noisy iterate, and nothing else. `Labels` and
`BoundedNumbers` say how the target of a loss is read.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from missdp.accounting import Assumption, Condition, Event
from missdp.errors import DataError, ParameterError, UnprovenError, number, replacing, whole
from missdp.mechanisms.laws import Law, no_warnings, read_only
from missdp.mechanisms.noise import NoiseSource, SeededNoise
from missdp.pricing.domain import FloatArray, RowDomain, as_number, clip_rows
from missdp.pricing.gradient_maps import IterationMap, Loss, SubsampledMap, gradient_descent_map
from missdp.pricing.maps import GaussianMap, TableDistance
from missdp.pricing.vector_query import (
    Target,
    VectorNoise,
    VectorQuery,
    check_frozen,
    check_multiplier,
    noisy_on_grid,
    rounding_slack,
    sum_slack,
)

__all__ = [
    "Asked",
    "BoundedNumbers",
    "GradientSteps",
    "Labels",
    "LastIterate",
    "LossGradients",
    "NoisyGradients",
    "SecretStop",
    "samples",
]


Sample = NDArray[np.int64] | None


@dataclass(frozen=True, kw_only=True)
class _LossQuestion:
    """What every question about the gradients of a loss names."""

    domain: RowDomain
    loss: Loss
    target: Target
    multiplier: float

    def __post_init__(self) -> None:
        check_multiplier(self.multiplier)
        check_frozen(self.loss, "a loss")
        check_frozen(self.target, "a target")
        if not self.loss.radius >= self.domain.radius:
            raise ParameterError("the constants of the loss must hold for the radius of the rows")

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each coordinate."""
        raise NotImplementedError

    def _facts(self, slack: float) -> dict[str, Any]:
        """Return what privacy maps of noisy gradients take."""
        constants = {"lipschitz": self.loss.lipschitz, "smoothness": self.loss.smoothness}
        return {**constants, "rows": self.domain.rows, "sigma": self.sigma, "slack": slack}


@dataclass(frozen=True, kw_only=True)
class GradientSteps(_LossQuestion):
    """Ask for noisy mean gradients of a linear model, ``steps`` of them, at points of one's choice.

    Parameters
    ----------
    domain : RowDomain
    loss : Loss
        A frozen dataclass with the loss of one row; its constants must hold for rows of the
        domain's radius. Gradients of rows are scaled down to its ``lipschitz`` constant.
    target : Target
        How the target is read.
    multiplier : float
        Standard deviation of the noise over 2 L / (rows read), the sensitivity of one step.
    steps : int
    batch : int or None, default None
        Rows of a step, a fresh secret sample without replacement. None: all rows.

    Examples
    --------
    >>> from missdp.pricing.gradient_maps import LogisticLoss
    >>> from missdp.pricing.gradient_steps import Labels
    >>> steps = GradientSteps(
    ...     domain=RowDomain(rows=1000, columns=2), target=Labels(1), multiplier=8.0, steps=50,
    ...     loss=LogisticLoss(radius=1.0, coefficient_norm=1.0))
    >>> round(steps.sigma, 4)
    0.0117
    """

    steps: int
    batch: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("steps", self.steps)
        if self.batch is not None and whole("batch", self.batch) > self.domain.rows:
            raise ParameterError("batch must be at most the number of rows")

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each coordinate of a mean gradient."""
        return self.multiplier * (2 * self.loss.lipschitz / (self.batch or self.domain.rows))

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """No condition."""
        return ()

    @property
    def privacy_map(self) -> GaussianMap | SubsampledMap:
        """What all steps together reveal."""
        loss, rows = self.loss, self.domain.rows
        slack = rounding_slack("gaussian", self.domain.columns) + sum_slack(
            self.batch or rows, self.multiplier
        )
        if self.batch is None:
            return gradient_descent_map(
                loss, rows=rows, sigma=self.sigma, steps=self.steps, slack=slack
            )
        return SubsampledMap(batch=self.batch, steps=self.steps, **self._facts(slack))

    def law(self, distance: TableDistance) -> VectorNoise:
        """Return the law of one step, for neighbours that are this far apart where it reads.

        Its sensitivity is for one and the same sample of rows.
        """
        most = self.privacy_map.largest_shift(distance)
        return VectorNoise("gaussian", self.sigma, sensitivity=most)


@dataclass(frozen=True, kw_only=True)
class SecretStop(_LossQuestion):
    """Ask for the last iterate of a run over the rows, one a step, stopped at a secret time.

    Nothing else of the run is released: neither its length nor any other iterate.

    Parameters
    ----------
    domain, loss, target, multiplier
        See `GradientSteps`; a step reads one row.
    rate : float
        Step size, at most 2 / curvature of the loss, so that steps are contractive.
    """

    rate: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if number("learning_rate", self.rate, least=1e-30) * self.loss.curvature > 2:
            raise ParameterError(
                "amplification by iteration needs learning_rate <= 2 / curvature of the loss "
                f"({2 / self.loss.curvature:.6g} here)"
            )

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each coordinate of a row's gradient."""
        return self.multiplier * (2 * self.loss.lipschitz)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Return the idealisation that amplification by iteration rests on."""
        return (
            Assumption(
                "Noise on a fine grid is treated as continuous, which amplification by iteration "
                "is proven for."
            ),
        )

    @property
    def privacy_map(self) -> IterationMap:
        """What the last iterate reveals."""
        return IterationMap(**self._facts(rounding_slack("gaussian", self.domain.columns)))

    def law(self, distance: TableDistance) -> LastIterate:
        """Return the law of the answer; neighbours' gradients are bounded row by row."""
        del distance
        return LastIterate(self)


@dataclass(frozen=True)
class LastIterate:
    """The law of the last iterate of projected noisy steps, one row each, stopped at random.

    What is exact is a `LossGradients`: the gradient of every row as a function of the iterate.
    Iterates are projected on the loss's ball of coefficients.

    Parameters
    ----------
    question : SecretStop
    """

    question: SecretStop

    @property
    def sensitivity(self) -> float:
        """How far the gradient of a replaced row can move, at every iterate."""
        return 2 * self.question.loss.lipschitz

    def draw(self, exact: LossGradients, source: NoiseSource) -> FloatArray:
        """Return the last iterate."""
        asked, point = self.question, np.zeros(self.question.domain.columns)
        for row in range(_secret_stop(asked.domain.rows, source)):
            gradient = exact.mean(point, np.array([row]))
            step = noisy_on_grid(gradient, "gaussian", asked.sigma, source)
            point = clip_rows((point - asked.rate * step)[None, :], asked.loss.coefficient_norm)[0]
        return point

    def exceeds(self, event: Event, exact: LossGradients, other: LossGradients) -> NoReturn:
        """Refuse: gradients are functions of every iterate, of which some would be tried only."""
        del event, exact, other
        raise UnprovenError(
            "how far a row moves gradients cannot be seen at every iterate: prove the constants "
            "of the loss"
        )

    def log_ratio(self, answer: Any, exact: Any, other: Any) -> NoReturn:
        """Refuse: the iterates in between are hidden, and no closed form is known."""
        del answer, exact, other
        raise UnprovenError("the likelihood of a last iterate has no closed form")


Asked: TypeAlias = VectorQuery | GradientSteps | SecretStop


class LossGradients:
    """Gradients of rows as functions of the coefficients, each of bounded norm; private.

    Parameters
    ----------
    loss : Loss
    rows : ndarray of shape (n, d)
    target : ndarray of shape (n,)
    """

    def __init__(self, loss: Loss, rows: FloatArray, target: FloatArray) -> None:
        self._loss, self._rows, self._target = loss, read_only(rows), read_only(target)
        self._norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))

    def mean(self, point: FloatArray, sample: Sample = None) -> FloatArray:
        """Return the mean gradient of a sample of rows (None: of all), at these coefficients."""
        rows, factors = self._factors(point, sample)
        return np.asarray(rows.T @ factors / rows.shape[0])

    def each(self, point: FloatArray) -> FloatArray:
        """Return the gradient of every row, shape (n, d)."""
        rows, factors = self._factors(point, None)
        return np.asarray(rows * factors[:, None])

    def _factors(self, point: FloatArray, sample: Sample) -> tuple[FloatArray, FloatArray]:
        pick = slice(None) if sample is None else sample
        rows, target, norms = self._rows[pick], self._target[pick], self._norms[pick]
        failed = DataError("the loss failed")  # an error or a warning could tell of rows
        with replacing(Exception, by=failed), no_warnings():
            factors = np.asarray(self._loss.gradients(read_only(point), rows, target), dtype=float)
        if factors.shape != norms.shape or not np.isfinite(factors).all():
            raise DataError("a loss must have one finite factor for each row")
        most = self._loss.lipschitz
        return rows, factors * (most / np.maximum(np.abs(factors) * norms, most))


class NoisyGradients:
    """Noisy mean gradients at points of one's choice; as many as were charged for.

    Parameters
    ----------
    question : GradientSteps
    answer : callable
        ``answer(law, exact)`` is the door's place where numbers leave.
    gradients : callable
        Returns the private gradients.
    law : VectorNoise
    samples : iterator
        The rows of each step.
    """

    def __init__(
        self,
        question: GradientSteps,
        answer: Callable[[Law, Callable[[], Any]], Any],
        gradients: Callable[[], LossGradients],
        law: VectorNoise,
        samples: Iterator[Sample],
    ) -> None:
        self._question, self._answer, self._gradients = question, answer, gradients
        self._law, self._samples, self._left = law, samples, question.steps

    @property
    def left(self) -> int:
        """How many gradients can still be asked for."""
        return self._left

    def at(self, point: ArrayLike) -> FloatArray:
        """Return the noisy mean gradient of the next sample of rows.

        Parameters
        ----------
        point : array_like of shape (d,)
            Coefficients within the loss's ball; public or released.
        """
        point = np.array(point, dtype=np.float64)
        most = self._question.loss.coefficient_norm * (1 + 1e-9)
        if point.shape != (self._question.domain.columns,) or not np.linalg.norm(point) <= most:
            raise ParameterError("a gradient is taken at coefficients within the loss's ball")
        if not self._left:
            raise ParameterError("all gradients that were charged for have been released")
        self._left -= 1
        sample, gradients = next(self._samples), self._gradients
        found: FloatArray = self._answer(self._law, lambda: gradients().mean(point, sample))
        return found


def samples(question: GradientSteps, noise: NoiseSource) -> Iterator[Sample]:
    """Yield the rows of each step: None for all, or a fresh secret sample without replacement."""
    rows, batch = question.domain.rows, question.batch
    if batch is None:
        yield from (None for _ in range(question.steps))
    elif isinstance(noise, SeededNoise):
        seeded = noise.generator()
        yield from (seeded.choice(rows, size=batch, replace=False) for _ in range(question.steps))
    else:
        secure = random.SystemRandom()
        yield from (np.array(secure.sample(range(rows), batch)) for _ in range(question.steps))


def _secret_stop(rows: int, noise: NoiseSource) -> int:
    if isinstance(noise, SeededNoise):
        return int(noise.generator().integers(1, rows + 1))
    return random.SystemRandom().randint(1, rows)


@dataclass(frozen=True)
class Labels:
    """A binary target: one label counts as 1, any other as -1.

    Parameters
    ----------
    positive : object
        The label that counts as 1.

    Examples
    --------
    >>> Labels("yes").read(["yes", "no", None])
    array([ 1., -1., -1.])
    """

    positive: object

    def read(self, y: Any) -> FloatArray:
        """Return 1 or -1 for each entry."""
        return _each(lambda label: 1.0 if _same(label, self.positive) else -1.0, y)


@dataclass(frozen=True)
class BoundedNumbers:
    """A target of numbers, clipped to an interval around 0; what is no number counts as 0.

    Parameters
    ----------
    bound : float
        Largest absolute value.

    Examples
    --------
    >>> BoundedNumbers(1.0).read([0.5, "-7", "many"])
    array([ 0.5, -1. ,  0. ])
    """

    bound: float

    def read(self, y: Any) -> FloatArray:
        """Return a number within the bound for each entry."""
        values = _each(as_number, y)
        return np.asarray(np.clip(np.nan_to_num(values, nan=0.0), -self.bound, self.bound))


def _each(read: Callable[[Any], float], y: Any) -> FloatArray:
    """Read a target row by row: an odd entry neither refuses it nor changes how others are read."""
    return np.fromiter(map(read, y), np.float64, len(y))


def _same(label: Any, wanted: object) -> bool:
    try:
        return bool(label == wanted)
    except Exception:  # noqa: BLE001 - pandas' NA, an array, or whatever refuses to be compared
        return False
