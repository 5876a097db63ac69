"""Questions about rows whose number is public: a noisy vector, noisy gradients, a hidden run.

A question is public: what rows it reads, what is computed from them, and how far one replaced row
can move that. Answers are noised as whole numbers: counts as they are, others on a public grid.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NoReturn, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from missdp.accounting import Assumption, Condition, Event, RDPEvent
from missdp.errors import DataError, ParameterError, UnprovenError, number, replacing, whole
from missdp.mechanisms.exact_noise import NoiseSource, SeededNoise
from missdp.mechanisms.noise import Noise, distance, too_far
from missdp.mechanisms.session import no_warnings, plain_function, read_only
from missdp.pricing.domain import (
    NEIGHBOURS,
    RowDomain,
    TableDistance,
    as_number,
    clip_rows,
    require,
)
from missdp.pricing.privacy_maps import PrivacyMap, Sensitivity
from missdp.types import Floats

NoiseKind = Literal["gaussian", "laplace"]
"""The noise of a private estimator."""
Sample = NDArray[np.int64] | None


@dataclass(frozen=True, kw_only=True, eq=False)
class VectorQuery:
    """A vector computed from rows, with noise calibrated to what one replaced row can change.

    Parameters
    ----------
    domain : RowDomain
        What the rows are like, made true before the function sees them.
    function : callable
        ``function(rows, *given)``, or ``function(rows, target, *given)`` if a target is read,
        returns ``size`` finite numbers. A plain function without a closure or defaults; arrays
        are handed over read-only.
    size : int
        Number of entries of the vector; public.
    sensitivity : Sensitivity
        How far the vector moves: the author's proof, in Euclidean norm for Gaussian noise, in L1
        norm for Laplace noise. `mean` knows its own.
    multiplier : float
        Noise scale over ``sensitivity.replaced``, from 1e-9 to 1e10.
    noise : {"gaussian", "laplace"}, default "gaussian"
    whole : bool, default False
        Whether the vector holds whole numbers, which get whole noise.
    given : tuple, default ()
        Public or released arrays, numbers and text for the function.
    target_bound : float or None, default None
        If given, a target is read: numbers clipped to this absolute value, 0 for what is none.
    averages : bool, default False
        Whether the function averages a term of each row in floating point, of a norm of at most
        ``rows * sensitivity.replaced / 2`` on average: what rounding adds is then in the price.
        Otherwise the author's proof has to include it.

    Examples
    --------
    >>> def share_of_positive(rows):
    ...     return (rows[:, :1] > 0).mean(axis=0)
    >>> domain = RowDomain(rows=100, columns=2)
    >>> query = VectorQuery(domain=domain, function=share_of_positive, size=1,
    ...               sensitivity=Sensitivity(replaced=1 / 100), multiplier=5.0)
    >>> query.scale
    0.05
    """

    domain: RowDomain
    function: Callable[..., Any]
    size: int
    sensitivity: Sensitivity
    multiplier: float
    noise: NoiseKind = "gaussian"
    whole: bool = False
    given: tuple[Any, ...] = ()
    target_bound: float | None = None
    averages: bool = False

    conditions: ClassVar[tuple[Condition, ...]] = ()

    def __post_init__(self) -> None:
        plain_function(self.function, "the function of a query")
        require(self.noise in get_args(NoiseKind), "mechanism must be 'gaussian' or 'laplace'")
        _check_multiplier(self.multiplier)
        whole("size", self.size)
        if self.target_bound is not None:
            number("target_bound", self.target_bound)
        for value in self.given:
            read_only(value)

    @classmethod
    def mean(
        cls, domain: RowDomain, *, multiplier: float, noise: NoiseKind = "gaussian"
    ) -> VectorQuery:
        """Return the query for the mean row; times the public number of rows it is the sum.

        One replaced row moves it by at most the diameter over n, since rows are scaled down to
        the radius behind the door; rows that move, by their mean movement. In L1 norm both times
        sqrt(d).
        """
        n, spread = domain.rows, math.sqrt(domain.columns) if noise == "laplace" else 1.0
        unit = Sensitivity(
            replaced=spread * domain.diameter / n, l12=spread / n, frobenius=spread / math.sqrt(n)
        )
        asked: dict[str, Any] = {"domain": domain, "multiplier": multiplier, "noise": noise}
        return cls(function=_mean, size=domain.columns, sensitivity=unit, averages=True, **asked)

    @property
    def scale(self) -> float:
        """Scale of the noise on each entry."""
        return self.multiplier * self.sensitivity.replaced

    @property
    def privacy_map(self) -> PrivacyMap:
        """What the noisy vector reveals."""
        slack = self.law(NEIGHBOURS).slack(self.size)
        if self.averages:
            slack += _sum_slack(self.domain.rows, self.multiplier)
        known, scale = self.sensitivity, self.scale
        if self.noise == "laplace":
            return PrivacyMap.laplace(sensitivity=known, scale=scale, slack=slack)
        return PrivacyMap.gaussian(sensitivity=known, sigma=scale, slack=slack)

    def law(self, distance: TableDistance) -> VectorNoise:
        """Return the law of the answer, for neighbours that are this far apart where it reads."""
        most = self.sensitivity.largest_shift(distance)
        return VectorNoise(self.noise, self.scale, sensitivity=most, whole=self.whole)

    def read(self, y: Any) -> Floats | None:
        """Return the target as numbers, each entry by itself; None if none is read."""
        return None if self.target_bound is None else _bounded_numbers(y, self.target_bound)

    def exact(self, rows: Floats, target: Floats | None) -> NDArray[Any]:
        """Return the vector without noise; private."""
        failed = DataError("the function of a query failed")  # an error or a warning could tell
        read = () if target is None else (read_only(target),)
        with replacing(Exception, by=failed), no_warnings():
            found = self.function(read_only(rows), *read, *map(read_only, self.given))
            vector = np.asarray(found, dtype=None if self.whole else np.float64)
        if vector.shape != (self.size,) or not np.isfinite(vector).all():
            raise DataError(f"the function of a query must return {self.size} finite numbers")
        return vector


def _mean(rows: Floats) -> Floats:
    return np.asarray(rows.mean(axis=0))


def _check_multiplier(value: float) -> None:
    number("noise_multiplier", value, least=1e-9, most=1e10)


# Gradients


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A convex loss of a linear model on bounded rows and coefficients, with its target.

    The loss of a row x depends on its score, theta'x, and its target; so its gradient is the slope
    in the score, times x. `logistic` and `squared` know their constants.

    Parameters
    ----------
    radius, coefficient_norm : float
        Largest norm of a row, R, and of the coefficients, B, that the constants hold for.
    lipschitz : float
        Largest norm of one row's gradient.
    smoothness : float
        How much one row's gradient stretches a movement of the row (target fixed).
    curvature : float
        How much one row's gradient stretches a movement of the coefficients.
    slope : callable
        ``slope(scores, target)``, the derivative in the score, row by row. A plain function.
    target_bound : float, default 1.0
        The target is read as numbers, clipped to this absolute value; what is none counts as 0.
    positive : tuple, default ()
        If not empty, the target is read as labels instead: these count as 1, all others as -1.

    Examples
    --------
    >>> loss = Loss.logistic(radius=1.0, coefficient_norm=1.0, positive=("yes",))
    >>> loss.read(["yes", "no", None]).tolist(), round(loss.lipschitz, 4)
    ([1.0, -1.0, -1.0], 0.7311)
    """

    radius: float
    coefficient_norm: float
    lipschitz: float
    smoothness: float
    curvature: float
    slope: Callable[..., Any]
    target_bound: float = 1.0
    positive: tuple[object, ...] = ()

    def __post_init__(self) -> None:
        plain_function(self.slope, "the slope of a loss")
        facts = {k: v for k, v in vars(self).items() if k not in ("slope", "positive")}
        known = all(0 < value < math.inf for value in facts.values())
        require(known, "bounds and constants of a loss must be finite and above 0")

    @classmethod
    def logistic(
        cls, *, radius: float, coefficient_norm: float, positive: tuple[object, ...] = (1,)
    ) -> Loss:
        """Return log(1 + exp(-y theta'x)), for labels that are read as -1 and 1.

        With t = y theta'x in [-RB, RB] and s = 1 / (1 + e^t) <= S = 1 / (1 + e^(-RB)), the gradient
        is -y s x: norm at most S R. Its derivative in x is -y s I + s (1 - s) x theta', of norm at
        most s + s (1 - s) R B, maximised over s in [0, S]. Its derivative in theta is at most
        R^2 / 4.
        """
        a = radius * coefficient_norm
        require(a > 0, "radius and coefficient_norm must be finite and above 0")
        steepest = 1 / (1 + math.exp(-a))
        s = min(steepest, (1 + a) / (2 * a))
        return cls(
            radius=radius,
            coefficient_norm=coefficient_norm,
            lipschitz=radius * steepest,
            smoothness=s + a * s * (1 - s),
            curvature=radius**2 / 4,
            slope=_logistic_slope,
            positive=positive,
        )

    @classmethod
    def squared(cls, *, radius: float, coefficient_norm: float, target_bound: float) -> Loss:
        """Return (theta'x - y)^2 / 2, for targets in [-Y, Y].

        The gradient (theta'x - y) x has norm at most R (R B + Y); its derivative in x,
        (theta'x - y) I + x theta', at most 2 R B + Y; in theta at most R^2.
        """
        a = radius * coefficient_norm
        return cls(
            radius=radius,
            coefficient_norm=coefficient_norm,
            lipschitz=radius * (a + target_bound),
            smoothness=2 * a + target_bound,
            curvature=radius**2,
            slope=_squared_slope,
            target_bound=target_bound,
        )

    def read(self, y: Any) -> Floats:
        """Return the target as numbers, each entry by itself."""
        if not self.positive:
            return _bounded_numbers(y, self.target_bound)
        return _each(lambda label: 1.0 if _among(label, self.positive) else -1.0, y)

    def exact(self, rows: Floats, target: Floats) -> Callable[[Floats, Sample], Floats]:
        """Return the mean gradient of a sample of rows (None: of all) as a function; private.

        Of the coefficients. The gradient of each row is scaled down to ``lipschitz``.
        """
        rows, target = read_only(rows), read_only(target)
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))

        def mean(point: Floats, sample: Sample) -> Floats:
            pick = slice(None) if sample is None else sample
            X, y, lengths = rows[pick], target[pick], norms[pick]
            failed = DataError("the loss failed")  # an error or a warning could tell of rows
            with replacing(Exception, by=failed), no_warnings():
                slopes = np.asarray(self.slope(X @ point, y), dtype=float)
            if slopes.shape != lengths.shape or not np.isfinite(slopes).all():
                raise DataError("a loss must have one finite slope for each row")
            shorter = self.lipschitz / np.maximum(np.abs(slopes) * lengths, self.lipschitz)
            return np.asarray(X.T @ (slopes * shorter) / X.shape[0])

        return mean


def _logistic_slope(scores: Floats, target: Floats) -> Floats:
    from scipy.special import expit

    return np.asarray(-target * expit(-target * scores))


def _squared_slope(scores: Floats, target: Floats) -> Floats:
    return np.asarray(scores - target)


def _each(read: Callable[[Any], float], y: Any) -> Floats:
    """Read a target row by row: an odd entry neither refuses it nor changes how others are read."""
    return np.fromiter(map(read, y), np.float64, len(y))


def _bounded_numbers(y: Any, bound: float) -> Floats:
    return np.asarray(np.clip(np.nan_to_num(_each(as_number, y), nan=0.0), -bound, bound))


def _among(label: Any, wanted: tuple[object, ...]) -> bool:
    try:
        return any(bool(label == one) for one in wanted)
    except Exception:  # noqa: BLE001 - pandas' NA, an array, or whatever refuses to be compared
        return False


def _check_loss(question: GradientSteps | SecretStop) -> None:
    _check_multiplier(question.multiplier)
    enough = question.loss.radius >= question.domain.radius
    require(enough, "the constants of the loss must hold for the radius of the rows")


@dataclass(frozen=True, kw_only=True)
class GradientSteps:
    """Ask for noisy mean gradients of a linear model, ``steps`` of them, at points of one's choice.

    Parameters
    ----------
    domain : RowDomain
    loss : Loss
        Its constants must hold for rows of the domain's radius.
    multiplier : float
        Standard deviation of the noise over 2 L / (rows read), the sensitivity of one step.
    steps : int
    batch : int or None, default None
        Rows of a step, a fresh secret sample without replacement. None: all rows.

    Examples
    --------
    >>> loss = Loss.logistic(radius=1.0, coefficient_norm=1.0)
    >>> domain = RowDomain(rows=1000, columns=2)
    >>> round(GradientSteps(domain=domain, loss=loss, multiplier=8.0, steps=50).sigma, 4)
    0.0117
    """

    domain: RowDomain
    loss: Loss
    multiplier: float
    steps: int
    batch: int | None = None

    conditions: ClassVar[tuple[Condition, ...]] = ()

    def __post_init__(self) -> None:
        _check_loss(self)
        whole("steps", self.steps)
        if self.batch is not None and whole("batch", self.batch) > self.domain.rows:
            raise ParameterError("batch must be at most the number of rows")

    @property
    def _read(self) -> int:
        return self.batch or self.domain.rows

    @property
    def _unit(self) -> Sensitivity:
        """How far the mean gradient of the rows that a step reads moves, at every coefficient."""
        n, each, mu = self._read, 2 * self.loss.lipschitz, self.loss.smoothness
        return Sensitivity(replaced=each / n, l12=mu / n, frobenius=mu / math.sqrt(n))

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each coordinate of a mean gradient."""
        return self.multiplier * self._unit.replaced

    @property
    def privacy_map(self) -> PrivacyMap:
        """What all steps together reveal.

        A replaced row moves the mean gradient of all rows by at most 2 L / n, rows that move by mu
        tau / n, at every coefficient vector; the iterates are post-processing, and the steps
        compose adaptively.
        """
        slack = self.law(NEIGHBOURS).slack(self.domain.columns)
        slack += _sum_slack(self._read, self.multiplier)
        told: dict[str, Any] = {"sigma": self.sigma, "steps": self.steps, "slack": slack}
        if self.batch is None:
            return PrivacyMap.gaussian(sensitivity=self._unit, **told)
        L, mu, n = self.loss.lipschitz, self.loss.smoothness, self.domain.rows
        return PrivacyMap.subsampled(lipschitz=L, smoothness=mu, rows=n, batch=self.batch, **told)

    def law(self, distance: TableDistance) -> VectorNoise:
        """Return the law of one step, for neighbours that are this far apart where it reads.

        Its sensitivity is for one and the same sample of rows.
        """
        n, unit = self._read, self._unit
        replaced, moved = min(distance.replaced, n), min(distance.moved_rows, n)
        shift = unit.largest_shift(replace(distance, replaced=replaced, moved_rows=moved))
        return VectorNoise("gaussian", self.sigma, sensitivity=min(shift, n * unit.replaced))

    def samples(self, noise: NoiseSource) -> Iterator[Sample]:
        """Yield the rows of each step: None for all, or a fresh sample without replacement."""
        if self.batch is None:
            yield from [None] * self.steps
            return
        secret, rows = _secret(noise), range(self.domain.rows)
        yield from (np.array(secret.sample(rows, self.batch)) for _ in range(self.steps))


def _secret(noise: NoiseSource) -> random.Random:
    """Return what samples of rows and secret stops are drawn from."""
    if isinstance(noise, SeededNoise):
        return random.Random(int(noise.generator().integers(2**62)))
    return random.SystemRandom()


@dataclass(eq=False, repr=False)
class NoisyGradients:
    """Noisy mean gradients at points of one's choice; as many as were charged for.

    A door makes it, and ``_answer(point)`` is what leaves the door, so often as was charged for.
    """

    _question: GradientSteps
    _answer: Callable[[Floats], Floats]
    _left: int

    @property
    def left(self) -> int:
        """How many gradients can still be asked for."""
        return self._left

    def at(self, point: ArrayLike) -> Floats:
        """Return the noisy mean gradient of the next sample, at coefficients in the loss's ball."""
        point = np.array(point, dtype=np.float64)
        most = self._question.loss.coefficient_norm * (1 + 1e-9)
        if point.shape != (self._question.domain.columns,) or not np.linalg.norm(point) <= most:
            raise ParameterError("a gradient is taken at coefficients within the loss's ball")
        found = self._answer(point)
        self._left -= 1
        return found


@dataclass(frozen=True, kw_only=True)
class SecretStop:
    """Ask for the last iterate of a run over the rows, one a step, stopped at a secret time.

    Nothing else of the run is released: neither its length nor any other iterate. The question is
    its own law; what is exact is the gradient of every row as a function of the iterate.

    Parameters
    ----------
    domain, loss, multiplier
        See `GradientSteps`; a step reads one row. Iterates are projected on the loss's ball.
    rate : float
        Step size, at most 2 / curvature of the loss, so that steps are contractive.
    """

    domain: RowDomain
    loss: Loss
    multiplier: float
    rate: float

    conditions: ClassVar[tuple[Condition, ...]] = (
        Assumption(
            "Noise on a fine grid is treated as continuous, which amplification by iteration "
            "is proven for."
        ),
    )

    def __post_init__(self) -> None:
        _check_loss(self)
        if number("learning_rate", self.rate, least=1e-30) * self.loss.curvature > 2:
            raise ParameterError(
                "amplification by iteration needs learning_rate <= 2 / curvature of the loss "
                f"({2 / self.loss.curvature:.6g} here)"
            )

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each coordinate of a row's gradient."""
        return self.multiplier * self.sensitivity

    @property
    def sensitivity(self) -> float:
        """How far the gradient of a replaced row can move, at every iterate."""
        return 2 * self.loss.lipschitz

    @property
    def privacy_map(self) -> PrivacyMap:
        """What the last iterate reveals."""
        return PrivacyMap.iteration(
            lipschitz=self.loss.lipschitz,
            smoothness=self.loss.smoothness,
            rows=self.domain.rows,
            sigma=self.sigma,
            slack=self._step.slack(self.domain.columns),
        )

    @property
    def _step(self) -> VectorNoise:
        return VectorNoise("gaussian", self.sigma, sensitivity=self.sensitivity)

    def law(self, distance: TableDistance) -> SecretStop:
        """Return the question; neighbours' gradients are bounded row by row."""
        del distance
        return self

    def draw(self, exact: Callable[[Floats, Sample], Floats], source: NoiseSource) -> Floats:
        """Run noisy gradient descent up to a secret row, and return only where it ends."""
        point = np.zeros(self.domain.columns)
        for row in range(_secret(source).randint(1, self.domain.rows)):
            gradient = exact(point, np.array([row]))
            step = self._step.draw(gradient, source)
            point = clip_rows((point - self.rate * step)[None, :], self.loss.coefficient_norm)[0]
        return point

    def exceeds(self, event: Event, exact: Any, other: Any) -> NoReturn:
        """Refuse: sensitivity at a few iterates that are tried says nothing of all others."""
        del event, exact, other
        raise UnprovenError(
            "how far a row moves gradients cannot be seen at every iterate: prove the constants "
            "of the loss"
        )


Question: TypeAlias = VectorQuery | GradientSteps | SecretStop

# Noise

_FINENESS = 2**20  # Grid cells per standard deviation (or scale) of the noise.
# Rounding two values to the grid moves their difference by at most one cell per coordinate; the
# rest is room for the floating-point error of a few operations (of sums: see `_sum_slack`).
_CELLS = 1 + 2**-10
_LARGEST = 2.0**61


@dataclass(frozen=True)
class VectorNoise:
    """The law of a noisy vector, with how far one replaced row can move what is exact.

    ``scale`` is the standard deviation, or the Laplace scale, of the noise on each coordinate.
    ``sensitivity`` bounds the distance of the exact vectors of two neighbouring tables, whatever
    happens to rows on the way: in Euclidean norm for Gaussian noise, in L1 norm for Laplace noise.
    ``whole`` numbers get whole noise, others are rounded to a grid of scale / 2**20 first.
    """

    kind: NoiseKind
    scale: float
    sensitivity: float
    whole: bool = False

    def __post_init__(self) -> None:
        known = 0 < self.scale < math.inf and 0 <= self.sensitivity < math.inf
        require(known, "scale and sensitivity must be finite, scale above 0")

    def slack(self, dimension: int) -> float:
        """Return what rounding a vector to the grid adds to sensitivity / scale."""
        norm = math.sqrt(dimension) if self.kind == "gaussian" else dimension
        return 0.0 if self.whole else norm * _CELLS / _FINENESS

    def draw(self, exact: NDArray[Any], source: NoiseSource) -> NDArray[Any]:
        """Return the vector plus noise.

        Integers are noised and then rescaled, so no floating-point artefact of the private values
        survives. Guarantee: as `PrivacyMap.gaussian` or `PrivacyMap.laplace` with this slack.
        """
        noisy = self._in_cells.draw(self._cells(exact), source)
        return noisy if self.whole else noisy * self._cell

    def exceeds(self, event: Event, exact: NDArray[Any], other: NDArray[Any]) -> str | None:
        """Return why an event does not pay: the vector moves too far, or the noise is too small.

        The noise is compared with what is charged as pure epsilon or as rho. A Rényi curve may
        count on samples of the rows, too: there the declared sensitivity alone is checked.
        """
        moved = distance(exact, other, 1 if self.kind == "laplace" else 2)
        if (found := too_far(moved, self.sensitivity)) or isinstance(event, RDPEvent):
            return found
        return Noise(self.kind, self.scale).exceeds(event, exact, other)

    def log_ratio(self, answer: NDArray[Any], exact: NDArray[Any], other: NDArray[Any]) -> float:
        """Return the log of the probability of an answer given one vector over that given another.

        >>> law = VectorNoise("gaussian", 2.0, sensitivity=1.0)
        >>> law.log_ratio(np.array([1.0]), np.array([1.0]), np.array([0.0]))
        0.125
        """
        return self._in_cells.log_ratio(*map(self._cells, (answer, exact, other)))

    @property
    def _cell(self) -> float:
        return 1.0 if self.whole else self.scale / _FINENESS

    @property
    def _in_cells(self) -> Noise:
        return Noise(self.kind, self.scale / self._cell)

    def _cells(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Return the values as whole numbers of cells; the sum with the noise is then exact."""
        if self.whole:
            return values
        cells = np.rint(np.asarray(values, dtype=np.float64) / self._cell)
        # Clipping is a contraction; only noise of 1e-12 of the values could get here.
        return np.clip(cells, -_LARGEST, _LARGEST).astype(np.int64)


def _sum_slack(rows: int, multiplier: float) -> float:
    """Return what adding up in floating point adds to shift / scale, for a mean over ``rows`` rows.

    Neighbours' sums are rounded differently, behind the row that was replaced too (Casacuberta et
    al. 2022). In whatever order m vectors of norm at most L are added up, their mean is off by at
    most m 2^-53 L, but for a relative m 2^-53, in Euclidean norm; in L1 norm by sqrt(d) times that.
    The noise is ``multiplier`` times the sensitivity, 2 L / m (or sqrt(d) times that).
    """
    return rows * (rows + 16) * 2.0**-53 / multiplier
