"""Queries of rows with a public number of rows: a noisy vector, or noisy gradients.

A query is public. It states which rows it reads, the function that it computes, and the
sensitivity of that function to one replaced row. Noise is added to whole numbers: to counts as they
are, to other numbers after they are rounded to a public grid.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from missdp.errors import DataError, ParameterError, check_integer, check_number, replacing
from missdp.pricing.domain import (
    NEIGHBOURS,
    RowDomain,
    TableDistance,
    as_number,
    require,
)
from missdp.pricing.privacy_maps import PrivacyMap, Sensitivity
from missdp.session.mechanisms import Noise
from missdp.session.noise import NoiseSource, SeededNoise
from missdp.types import Floats

NoiseKind = Literal["gaussian", "laplace"]
"""The noise of a private estimator."""
Sample: TypeAlias = NDArray[np.int64] | None
"""The numbers of the rows that are read, or None for all rows."""


@dataclass(frozen=True, kw_only=True, eq=False)
class VectorQuery:
    """A vector computed from rows, with noise calibrated to the effect of one replaced row.

    Parameters
    ----------
    domain : RowDomain
        Public facts about the rows, enforced before the function sees them.
    function : callable
        ``function(rows, *arguments)`` returns ``size`` finite numbers. The rows are read-only. The
        function must depend on its arguments alone.
    size : int
        Public number of entries of the vector.
    sensitivity : Sensitivity
        Sensitivity of the vector, which the author proves: in Euclidean norm for Gaussian noise, in
        L1 norm for Laplace noise. `mean` knows its own.
    multiplier : float
        Noise scale over ``sensitivity.replaced``, from 1e-9 to 1e10.
    noise : {"gaussian", "laplace"}, default "gaussian"
    integer : bool, default False
        Whether the entries are whole numbers, which get discrete noise.
    arguments : tuple, default ()
        Public or released arrays, numbers and text for the function. They are copied.
    averages : bool, default False
        Whether the function averages a term of each row in floating point. The norm of the terms is
        at most ``rows * sensitivity.replaced / 2`` on average. Then the price includes rounding.
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
    integer: bool = False
    arguments: tuple[Any, ...] = ()
    averages: bool = False

    steps: ClassVar[int] = 1
    batch: ClassVar[None] = None

    def __post_init__(self) -> None:
        # Copies: a later change by the caller is neither charged for nor handed to the function.
        object.__setattr__(self, "arguments", _frozen(tuple(self.arguments)))
        require(self.noise in get_args(NoiseKind), "mechanism must be 'gaussian' or 'laplace'")
        _check_multiplier(self.multiplier)
        check_integer("size", self.size)

    @classmethod
    def mean(
        cls, domain: RowDomain, *, multiplier: float, noise: NoiseKind = "gaussian"
    ) -> VectorQuery:
        """Return the query for the mean row.

        One replaced row moves it by at most the diameter over n, since rows are scaled down to the
        radius first. Rows that move change it by their mean movement. In L1 norm both are
        multiplied by sqrt(d).

        Parameters
        ----------
        domain : RowDomain
            Public facts about the rows.
        multiplier : float
            Noise scale over sensitivity.
        noise : {"gaussian", "laplace"}, default "gaussian"
            The noise.

        Returns
        -------
        VectorQuery
            A query with one entry per column.
        """
        n, spread = domain.rows, math.sqrt(domain.columns) if noise == "laplace" else 1.0
        unit = Sensitivity(
            replaced=spread * domain.diameter / n, l12=spread / n, frobenius=spread / math.sqrt(n)
        )
        return cls(
            domain=domain,
            function=_mean,
            size=domain.columns,
            sensitivity=unit,
            multiplier=multiplier,
            noise=noise,
            averages=True,
        )

    @property
    def scale(self) -> float:
        """Scale of the noise on each entry."""
        return self.multiplier * self.sensitivity.replaced

    @property
    def privacy_map(self) -> PrivacyMap:
        """Bounds on the privacy loss of the noisy vector."""
        slack = self.noise_for(NEIGHBOURS).slack(self.size)
        if self.averages:
            slack += _sum_slack(self.domain.rows, self.multiplier)
        if self.noise == "laplace":
            return PrivacyMap.laplace(sensitivity=self.sensitivity, scale=self.scale, slack=slack)
        return PrivacyMap.gaussian(sensitivity=self.sensitivity, sigma=self.scale, slack=slack)

    def noise_for(self, distance: TableDistance) -> VectorNoise:
        """Return the noise of the answer, for neighbours at this distance where it reads.

        Parameters
        ----------
        distance : TableDistance
            Distance of neighbouring tables as the query reads them.

        Returns
        -------
        VectorNoise
            With the sensitivity at this distance.
        """
        shift = self.sensitivity.largest_shift(distance)
        return VectorNoise(self.noise, self.scale, sensitivity=shift, integer=self.integer)

    def exact(self, rows: Floats) -> NDArray[Any]:
        """Return the private vector without noise.

        Parameters
        ----------
        rows : ndarray, shape (n_rows, n_columns)
            Private rows.

        Returns
        -------
        ndarray, shape (size,)
            Private.

        Raises
        ------
        DataError
            If the function fails, or returns another shape.
        """
        failed = DataError("the function of a query failed")  # its own error may quote a cell
        with replacing(Exception, by=failed):
            result = self.function(rows, *self.arguments)
            vector = np.asarray(result, dtype=None if self.integer else np.float64)
        if vector.shape != (self.size,) or not np.isfinite(vector).all():
            raise DataError(f"the function of a query must return {self.size} finite numbers")
        return vector


def _mean(rows: Floats) -> Floats:
    return np.asarray(rows.mean(axis=0))


def _frozen(value: Any) -> Any:
    """Return a value with read-only copies of its arrays, and tuples in place of its lists."""
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.flags.writeable = False
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


def _check_multiplier(value: float) -> None:
    check_number("noise_multiplier", value, min_value=1e-9, max_value=1e10)


# Gradients


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A convex loss of a linear model on bounded rows and coefficients, with its target.

    The loss of a row x depends on its score, theta'x, and its target. So its gradient is the slope
    in the score, times x. `logistic` and `squared` know their constants.

    Parameters
    ----------
    radius, coefficient_norm : float
        Largest norm of a row, R, and of the coefficients, B, that the constants hold for. The row
        includes ``constant``.
    lipschitz : float
        Largest norm of one row's gradient.
    smoothness : float
        Lipschitz constant of one row's gradient in the row (target fixed).
    curvature : float
        Lipschitz constant of one row's gradient in the coefficients.
    slope : callable
        ``slope(scores, target)``, the derivative in the score, row by row. It must depend on its
        arguments alone.
    target_bound : float, default 1.0
        The target is read as numbers, clipped to this absolute value. Other entries count as 0.
    positive : tuple, default ()
        If not empty, the target is read as labels instead: these count as 1, all others as -1.
    constant : float, default 0.0
        If above 0, a public number that is appended to every row: its coefficient makes an
        intercept.

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
    constant: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "positive", tuple(self.positive))
        facts = {k: v for k, v in vars(self).items() if k not in ("slope", "positive", "constant")}
        valid = all(0 < value < math.inf for value in facts.values())
        require(valid, "bounds and constants of a loss must be finite and above 0")
        require(0 <= self.constant < math.inf, "the constant of a loss must be at least 0")

    @classmethod
    def logistic(
        cls,
        *,
        radius: float,
        coefficient_norm: float,
        positive: tuple[object, ...] = (1,),
        constant: float = 0.0,
    ) -> Loss:
        """Return log(1 + exp(-y theta'x)), for labels that are read as -1 and 1.

        ``radius`` bounds the norm R of x, the constant included. B is the coefficient norm.

        Let t = y theta'x in [-RB, RB] and s = 1 / (1 + e^t) <= S = 1 / (1 + e^(-RB)). The gradient
        is -y s x, with norm at most S R. Its derivative in x is -y s I + s (1 - s) x theta'. The
        norm of this derivative is at most s + s (1 - s) R B, maximised over s in [0, S]. Its
        derivative in theta is at most R^2 / 4.

        *Intercept.* A row z is read as x = (z, c), c the public constant, so R^2 is the largest
        |z|^2 plus c^2. All of the above holds for x. If z moves by dz, x moves by (dz, 0), which is
        as long. The constant never moves. So the derivative in z is a part of the derivative in x,
        and has no larger norm. The intercept is c times the last coefficient.

        Parameters
        ----------
        radius : float
            Largest norm of a row, the constant included.
        coefficient_norm : float
            Largest norm of the coefficients.
        positive : tuple, default (1,)
            Labels that count as 1.
        constant : float, default 0.0
            Public constant of every row, for an intercept.

        Returns
        -------
        Loss
            The loss with its constants.
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
            constant=constant,
        )

    @classmethod
    def squared(cls, *, radius: float, coefficient_norm: float, target_bound: float) -> Loss:
        """Return (theta'x - y)^2 / 2, for targets in [-Y, Y].

        The gradient (theta'x - y) x has norm at most R (R B + Y). Its derivative in x, (theta'x -
        y) I + x theta', has norm at most 2 R B + Y. Its derivative in theta has norm at most R^2.

        Parameters
        ----------
        radius : float
            Largest norm of a row.
        coefficient_norm : float
            Largest norm of the coefficients.
        target_bound : float
            Largest absolute value Y of a target.

        Returns
        -------
        Loss
            The loss with its constants.
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
        """Return the target as numbers, each entry by itself.

        Parameters
        ----------
        y : array_like, shape (n_rows,)
            Private target.

        Returns
        -------
        ndarray, shape (n_rows,)
            Private numbers.
        """
        if not self.positive:
            return _bounded_numbers(y, self.target_bound)
        return _each(lambda label: 1.0 if _among(label, self.positive) else -1.0, y)

    def exact(self, rows: Floats, target: Floats) -> Callable[[Floats, Sample], Floats]:
        """Return the private mean gradient of a sample of rows (None: of all) as a function.

        The argument of the function is the coefficients. The gradient of each row is scaled down to
        ``lipschitz``.
        """
        if self.constant:
            rows = np.column_stack([rows, np.full(len(rows), self.constant)])
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))

        def mean(point: Floats, sample: Sample) -> Floats:
            pick = slice(None) if sample is None else sample
            X, y, lengths = rows[pick], target[pick], norms[pick]
            failed = DataError("the loss failed")  # its own error may quote a cell
            with replacing(Exception, by=failed):
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
    """Read a target row by row: an odd entry raises no error and changes no other entry."""
    return np.fromiter(map(read, y), np.float64, len(y))


def _bounded_numbers(y: Any, bound: float) -> Floats:
    return np.asarray(np.clip(np.nan_to_num(_each(as_number, y), nan=0.0), -bound, bound))


def _among(label: Any, labels: tuple[object, ...]) -> bool:
    try:
        return any(bool(label == one) for one in labels)
    except Exception:  # noqa: BLE001 - pandas' NA, an array, or another object that cannot be compared
        return False


@dataclass(frozen=True, kw_only=True, eq=False)
class GradientQuery:
    """Noisy mean gradients of a linear model, ``steps`` of them, at points that the caller chooses.

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
    >>> round(GradientQuery(domain=domain, loss=loss, multiplier=8.0, steps=50).sigma, 4)
    0.0117
    """

    domain: RowDomain
    loss: Loss
    multiplier: float
    steps: int
    batch: int | None = None

    def __post_init__(self) -> None:
        _check_multiplier(self.multiplier)
        longest = math.hypot(self.domain.radius, self.loss.constant)
        enough = self.loss.radius >= longest
        require(enough, "the constants of the loss must hold for the radius of the rows")
        check_integer("steps", self.steps)
        if self.batch is not None and check_integer("batch", self.batch) > self.domain.rows:
            raise ParameterError("batch must be at most the number of rows")

    @property
    def size(self) -> int:
        """Number of coefficients: one for each column, and one for the constant if there is one."""
        return self.domain.columns + bool(self.loss.constant)

    def point(self, at: ArrayLike) -> Floats:
        """Return a copy of coefficients, or raise if they lie outside the ball of the loss.

        Parameters
        ----------
        at : array_like, shape (size,)
            Coefficients.

        Returns
        -------
        ndarray, shape (size,)
            A copy.

        Raises
        ------
        ParameterError
            If the coefficients have another shape, or a larger norm than the loss allows.
        """
        point = np.array(at, dtype=np.float64)
        max_norm = self.loss.coefficient_norm * (1 + 1e-9)
        if point.shape != (self.size,) or not np.linalg.norm(point) <= max_norm:
            raise ParameterError("a gradient is taken at coefficients within the loss's ball")
        return point

    @property
    def _read(self) -> int:
        return self.batch or self.domain.rows

    @property
    def _unit(self) -> Sensitivity:
        """Sensitivity of the mean gradient of the rows of a step, at every coefficient vector."""
        n, each, mu = self._read, 2 * self.loss.lipschitz, self.loss.smoothness
        return Sensitivity(replaced=each / n, l12=mu / n, frobenius=mu / math.sqrt(n))

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each coordinate of a mean gradient."""
        return self.multiplier * self._unit.replaced

    @property
    def privacy_map(self) -> PrivacyMap:
        """Bounds on the privacy loss of all steps together.

        A replaced row moves the mean gradient of all rows by at most 2 L / n at every coefficient
        vector. Rows that move change it by mu tau / n. The iterates are post-processing, and the
        steps compose adaptively.
        """
        slack = self.noise_for(NEIGHBOURS).slack(self.size)
        slack += _sum_slack(self._read, self.multiplier)
        noise: dict[str, Any] = {"sigma": self.sigma, "steps": self.steps, "slack": slack}
        if self.batch is None:
            return PrivacyMap.gaussian(sensitivity=self._unit, **noise)
        L, mu, n = self.loss.lipschitz, self.loss.smoothness, self.domain.rows
        return PrivacyMap.subsampled(lipschitz=L, smoothness=mu, rows=n, batch=self.batch, **noise)

    def noise_for(self, distance: TableDistance) -> VectorNoise:
        """Return the noise of one step, for neighbours at this distance where it reads.

        Its sensitivity is for one and the same sample of rows.

        Parameters
        ----------
        distance : TableDistance
            Distance of neighbouring tables as the query reads them.

        Returns
        -------
        VectorNoise
            With the sensitivity at this distance.
        """
        n, unit = self._read, self._unit
        replaced, shifted = min(distance.replaced, n), min(distance.shifted_rows, n)
        shift = unit.largest_shift(replace(distance, replaced=replaced, shifted_rows=shifted))
        return VectorNoise("gaussian", self.sigma, sensitivity=min(shift, n * unit.replaced))

    def exact(self, rows: Floats, target: Any) -> Callable[[ArrayLike], Any]:
        """Return the private mean gradient without noise, as a function of the coefficients.

        With a ``batch`` its value is a function of the sample of rows.

        Parameters
        ----------
        rows : ndarray, shape (n_rows, n_columns)
            Private rows.
        target : array_like, shape (n_rows,)
            Private target.

        Returns
        -------
        callable
            A private function of coefficients.
        """
        with replacing(Exception, by=DataError("the target cannot be read")):
            numbers = self.loss.read(target)
        numbers.flags.writeable = False
        mean = self.loss.exact(rows, numbers)

        def gradient(at: ArrayLike) -> Any:
            point = self.point(at)
            return mean(point, None) if self.batch is None else partial(mean, point)

        return gradient


Question: TypeAlias = VectorQuery | GradientQuery

# Noise

_FINENESS = 2**20  # grid cells per standard deviation (or scale) of the noise
# Rounding two values to the grid moves their difference by at most one cell per coordinate. The
# rest covers the floating-point error of a few operations. For sums see `_sum_slack`.
_CELLS = 1 + 2**-10
_LARGEST = 2.0**61  # largest absolute number of grid cells


@dataclass(frozen=True)
class VectorNoise:
    """The mechanism of a noisy vector, with the sensitivity of the exact vector.

    ``scale`` is the standard deviation, or the Laplace scale, of the noise on each coordinate.
    ``sensitivity`` bounds the distance of the exact vectors of two neighbouring tables, all steps
    included. The distance is in Euclidean norm for Gaussian noise, and in L1 norm for Laplace
    noise. ``integer`` numbers get whole noise, others are rounded to a grid of scale / 2**20 first.
    """

    kind: NoiseKind
    scale: float
    sensitivity: float
    integer: bool = False

    def __post_init__(self) -> None:
        valid = 0 < self.scale < math.inf and 0 <= self.sensitivity < math.inf
        require(valid, "scale and sensitivity must be finite, scale above 0")

    def slack(self, dimension: int) -> float:
        """Return the increase of sensitivity / scale by rounding a vector to the grid."""
        norm = math.sqrt(dimension) if self.kind == "gaussian" else dimension
        return 0.0 if self.integer else norm * _CELLS / _FINENESS

    def draw(self, exact: NDArray[Any], source: NoiseSource) -> NDArray[Any]:
        """Return the vector plus noise.

        Integers are noised and then rescaled, so no floating-point artefact of the private values
        survives. Guarantee: as `PrivacyMap.gaussian` or `PrivacyMap.laplace` with this slack.
        """
        noisy = self._in_cells.draw(self._cells(exact), source)
        return noisy if self.integer else noisy * self._cell

    @property
    def _cell(self) -> float:
        return 1.0 if self.integer else self.scale / _FINENESS

    @property
    def _in_cells(self) -> Noise:
        return Noise(self.kind, self.scale / self._cell)

    def _cells(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Return the values as integer numbers of cells. Their sum with the noise is exact."""
        if self.integer:
            return values
        cells = np.rint(np.asarray(values, dtype=np.float64) / self._cell)
        # Clipping is a contraction. Only noise of 1e-12 of the values could reach this bound.
        return np.clip(cells, -_LARGEST, _LARGEST).astype(np.int64)


class OncePerRun:
    """A value that is made when a run first needs it, and then kept.

    It is not a parameter of the mechanism that holds it: all are equal.
    """

    def __init__(self) -> None:
        self._lock, self._made = threading.Lock(), None

    def value(self, make: Callable[[], Any]) -> Any:
        """Return the value. ``make`` is called once, whichever thread comes first."""
        with self._lock:
            if self._made is None:
                self._made = make()
            return self._made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OncePerRun)


@dataclass(frozen=True)
class SampledNoise:
    """The mechanism of steps that read a fresh secret sample of rows each.

    The exact answer is a function of the sample.

    Parameters
    ----------
    noise : VectorNoise
        The noise of one step, given its sample.
    rows : int
        Number of all rows.
    batch : int
        Number of rows of a sample, which is drawn without replacement.
    """

    noise: VectorNoise
    rows: int
    batch: int
    secret: OncePerRun = field(default_factory=OncePerRun, repr=False, compare=False)

    def draw(self, exact: Callable[[Sample], NDArray[Any]], source: NoiseSource) -> NDArray[Any]:
        """Return the noisy vector of the next sample."""
        secret: random.Random = self.secret.value(lambda: _secret(source))
        sample = np.array(secret.sample(range(self.rows), self.batch))
        return self.noise.draw(exact(sample), source)


def _secret(noise: NoiseSource) -> random.Random:
    """Return the source from which the samples of a run are drawn."""
    if isinstance(noise, SeededNoise):
        return random.Random(int(noise.generator().integers(2**62)))
    return random.SystemRandom()


def _sum_slack(rows: int, multiplier: float) -> float:
    """Return the increase of shift / scale by floating-point sums, for a mean over ``rows`` rows.

    Neighbours' sums are rounded differently, behind the row that was replaced too (Casacuberta et
    al. 2022). Add up m vectors of norm at most L in any order. Their mean is off by at most m 2^-53
    L in Euclidean norm, up to a relative m 2^-53. In L1 norm it is off by sqrt(d) times this bound.
    The noise is ``multiplier`` times the sensitivity, 2 L / m (or sqrt(d) times that).
    """
    return rows * (rows + 16) * 2.0**-53 / multiplier
