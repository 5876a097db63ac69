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
"""Distribution of the noise of a private estimator: Gaussian or Laplace."""
Sample: TypeAlias = NDArray[np.int64] | None
"""The numbers of the rows that are read, or None for all rows."""


@dataclass(frozen=True, kw_only=True, eq=False)
class VectorQuery:
    """Public query for a noisy vector computed from private rows whose number is public.

    It states the function, its sensitivity and its noise. A session on `StandardisedRows` charges
    the query and then releases the vector with noise. Noise is added to whole numbers: other
    numbers are rounded to a fine public grid before. Use `mean` for the mean row. For another
    function, the author proves the sensitivity.

    Parameters
    ----------
    domain : RowDomain
        Public facts about the rows. They are enforced before the function reads the rows.
    function : callable
        ``function(rows, *arguments)`` returns ``size`` finite numbers. The rows are private and
        read-only. The function must depend on its arguments alone.
    size : int
        Public number of entries of the vector, at least 1.
    sensitivity : Sensitivity
        Largest change of the vector between two tables: in Euclidean norm for Gaussian noise,
        in L1 norm for Laplace noise.
    multiplier : float
        Noise scale divided by ``sensitivity.replaced``, from 1e-9 to 1e10.
    noise : {"gaussian", "laplace"}, default "gaussian"
        Distribution of the noise on each entry.
    integer : bool, default False
        Whether the entries are whole numbers, which get discrete noise.
    arguments : tuple, default ()
        Public or released arrays, numbers and text for the function. They are copied.
    averages : bool, default False
        Whether the function averages a term of each row in floating point. The norm of the
        terms is at most ``rows * sensitivity.replaced / 2`` on average. Then the price includes
        rounding. Otherwise the author's proof has to include it.

    Attributes
    ----------
    steps : int
        Number of answers that one charge pays for, 1.
    batch : None
        None, because all rows are read.

    Raises
    ------
    ParameterError
        If the noise, the multiplier or the size is invalid.

    Examples
    --------
    >>> from missdp.pricing import RowDomain, Sensitivity, VectorQuery
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
        """Return the public query for the noisy mean of each column of a private table.

        One replaced row moves the mean by at most the diameter of the domain over the number of
        rows. Rows that preprocessing shifts move it by at most their mean shift. In L1 norm both
        bounds are multiplied by the root of the number of columns.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the rows: their shape and the largest row norm.
        multiplier : float
            Noise scale divided by the sensitivity to one replaced row, from 1e-9 to 1e10.
        noise : {"gaussian", "laplace"}, default "gaussian"
            Distribution of the noise on each entry.

        Returns
        -------
        VectorQuery
            A query with one entry for each column, in column order.

        Raises
        ------
        ParameterError
            If the noise or the multiplier is invalid.
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
        """Amount of noise that is added to each entry of a noisy vector, in its units. Public.

        Returns
        -------
        float
            The standard deviation of Gaussian noise, or the scale parameter of Laplace noise. Above
            0.
        """
        return self.multiplier * self.sensitivity.replaced

    @property
    def privacy_map(self) -> PrivacyMap:
        """Public bounds on the privacy loss of the noisy vector, by the distance of two tables.

        Returns
        -------
        PrivacyMap
            Public bounds in zero-concentrated, pure and Rényi DP, as functions of a
            `TableDistance`. They include the rounding of the vector to a grid.
        """
        slack = self.noise_for(NEIGHBOURS).slack(self.size)
        if self.averages:
            slack += _sum_slack(self.domain.rows, self.multiplier)
        if self.noise == "laplace":
            return PrivacyMap.laplace(sensitivity=self.sensitivity, scale=self.scale, slack=slack)
        return PrivacyMap.gaussian(sensitivity=self.sensitivity, sigma=self.scale, slack=slack)

    def noise_for(self, distance: TableDistance) -> VectorNoise:
        """Return the noise mechanism of a noisy vector, with its sensitivity after preprocessing.

        Parameters
        ----------
        distance : TableDistance
            Public upper bound on the difference between neighbouring tables where the query
            reads them.

        Returns
        -------
        VectorNoise
            The public mechanism, which adds noise to a vector. The scale of the noise does not
            depend on the distance.
        """
        shift = self.sensitivity.largest_shift(distance)
        return VectorNoise(self.noise, self.scale, sensitivity=shift, integer=self.integer)

    def exact(self, rows: Floats) -> NDArray[Any]:
        """Compute the private vector of a query from private rows, without noise.

        Parameters
        ----------
        rows : ndarray of float, shape (n_rows, n_columns)
            Private rows within the domain.

        Returns
        -------
        ndarray, shape (size,)
            Private numbers in the units of the vector. They are float64, unless the query counts in
            whole numbers (``integer``).

        Raises
        ------
        DataError
            If the function fails, or does not return ``size`` finite numbers.
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
    """Convex loss of a linear model on rows and coefficients of bounded norm, for noisy gradients.

    The loss of a row x depends on its target and on its score, the product of coefficients theta
    and row. So the gradient is the slope of the loss in the score, times x. `logistic` and
    `squared` build losses with proven constants. For another loss, the author proves the constants.

    Parameters
    ----------
    radius : float
        Largest Euclidean norm R of a row that the constants hold for, finite and above 0. In the
        units of the columns. The row includes ``constant``.
    coefficient_norm : float
        Largest Euclidean norm B of the coefficients that the constants hold for, finite and above
        0.
    lipschitz : float
        Largest Euclidean norm of one row's gradient, finite and above 0.
    smoothness : float
        Lipschitz constant of one row's gradient in the row (target fixed), finite and above 0.
    curvature : float
        Lipschitz constant of one row's gradient in the coefficients, finite and above 0.
    slope : callable
        ``slope(scores, target)`` returns the derivative of the loss in the score, one number
        for each row. It must depend on its arguments alone.
    target_bound : float, default 1.0
        The target is read as numbers, clipped to this absolute value, which is finite and above 0.
        Other entries count as 0.
    positive : tuple, default ()
        If not empty, the target is read as labels instead: these labels count as 1, all others
        as -1.
    constant : float, default 0.0
        If above 0, a public number that is appended to every row. Its coefficient makes an
        intercept. At least 0 and finite.

    Raises
    ------
    ParameterError
        If a bound or constant is not a finite number above 0. ``constant`` may be 0.

    Examples
    --------
    >>> from missdp.pricing import Loss
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
        """Return the loss of logistic regression, log(1 + exp(-y theta'x)), with proven constants.

        Labels y are read as -1 and 1.

        Parameters
        ----------
        radius : float
            Largest Euclidean norm R of a row x, finite and above 0, in the units of the columns.
            The constant is included.
        coefficient_norm : float
            Largest Euclidean norm B of the coefficients theta, finite and above 0.
        positive : tuple, default (1,)
            Labels that count as 1. All others count as -1.
        constant : float, default 0.0
            Public constant entry of every row, for an intercept. 0 for no intercept.

        Returns
        -------
        Loss
            Public. Its constants are proven for rows and coefficients of these norms.

        Raises
        ------
        ParameterError
            If ``radius`` or ``coefficient_norm`` is not finite and above 0, or ``constant`` is
            negative.

        Notes
        -----
        Let t = y theta'x in [-RB, RB] and s = 1 / (1 + e^t) <= S = 1 / (1 + e^(-RB)). The gradient
        is -y s x, with norm at most S R. Its derivative in x is -y s I + s (1 - s) x theta'. The
        norm of this derivative is at most s + s (1 - s) R B, maximised over s in [0, S]. Its
        derivative in theta is at most R^2 / 4.

        *Intercept.* A row z is read as x = (z, c), c the public constant, so R^2 is the largest
        |z|^2 plus c^2. All of the above holds for x. If z moves by dz, x moves by (dz, 0), which is
        as long. The constant never moves. So the derivative in z is a part of the derivative in x,
        and has no larger norm. The intercept is c times the last coefficient.
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
        """Return the loss of least-squares regression, (theta'x - y)^2 / 2, with proven constants.

        Parameters
        ----------
        radius : float
            Largest Euclidean norm R of a row x, finite and above 0, in the units of the columns.
        coefficient_norm : float
            Largest Euclidean norm B of the coefficients theta, finite and above 0.
        target_bound : float
            Largest absolute value Y of a target y, finite and above 0, in the units of the target.
            Targets are clipped to it.

        Returns
        -------
        Loss
            Public. Its constants are proven for rows and coefficients of these norms.

        Raises
        ------
        ParameterError
            If a bound is not finite and above 0.

        Notes
        -----
        The gradient (theta'x - y) x has norm at most R (R B + Y). Its derivative in x, (theta'x -
        y) I + x theta', has norm at most 2 R B + Y. Its derivative in theta has norm at most R^2.
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
        """Return a private regression target as numbers, where each entry is converted by itself.

        Labels become 1 or -1. Numbers are clipped to ``target_bound``, and entries that are not
        numbers become 0.

        Parameters
        ----------
        y : array_like, shape (n_rows,)
            Private target.

        Returns
        -------
        ndarray of float, shape (n_rows,)
            Private numbers, in the order of the rows.

        Raises
        ------
        TypeError
            If the target has no length or cannot be iterated.
        """
        if not self.positive:
            return _bounded_numbers(y, self.target_bound)
        return _each(lambda label: 1.0 if _among(label, self.positive) else -1.0, y)

    def exact(self, rows: Floats, target: Floats) -> Callable[[Floats, Sample], Floats]:
        """Return a function that computes the mean gradient of a loss over private rows.

        No noise is added. The gradient of each row is scaled down to the norm ``lipschitz``.

        Parameters
        ----------
        rows : ndarray of float, shape (n_rows, n_columns)
            Private rows.
        target : ndarray of float, shape (n_rows,)
            Private target, as `read` returns it.

        Returns
        -------
        callable
            Function of the coefficients, shape (n_coefficients,), and of the numbers of the
            sampled rows. None in place of the numbers stands for all rows. It returns a private
            array of shape (n_coefficients,). It raises DataError if the slope of the loss
            fails.
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
    """Public query for noisy mean gradients of a linear model, at points that the caller chooses.

    A session on `StandardisedRows` charges all steps at once. It then releases one noisy gradient
    for each step, with Gaussian noise. Private regressions use it for noisy gradient descent.

    Parameters
    ----------
    domain : RowDomain
        Public facts about the rows. They are enforced before the loss reads the rows.
    loss : Loss
        Loss of the model. Its constants must hold for rows of the domain's radius.
    multiplier : float
        Standard deviation of the noise divided by the sensitivity of one step, from 1e-9 to
        1e10. The sensitivity is twice ``loss.lipschitz`` over the number of rows read.
    steps : int
        Number of gradients, at least 1.
    batch : int or None, default None
        Number of rows of a step, a fresh secret sample without replacement. None: all rows.

    Raises
    ------
    ParameterError
        If a parameter is out of range, or the loss does not hold for the radius of the rows.

    References
    ----------
    Hu, Sanyal & Schölkopf (2024), for the shift of rows by preprocessing.
    Wang, Balle & Kasiviswanathan (2019), Theorem 9, for steps that read a sample.
    Abadi et al. (2016), for noisy gradients of samples.

    Examples
    --------
    >>> from missdp.pricing import GradientQuery, Loss, RowDomain
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
        """Number of coefficients of a linear model: one for each column, and one for an intercept.

        Returns
        -------
        int
            Public, at least 1. The coefficient of the intercept is the last.
        """
        return self.domain.columns + bool(self.loss.constant)

    def point(self, at: ArrayLike) -> Floats:
        """Check the norm of the coefficients at which a gradient is requested, and copy them.

        Parameters
        ----------
        at : array_like of float, shape (size,)
            Public or released coefficients.

        Returns
        -------
        ndarray of float, shape (size,)
            A copy. As public as the coefficients.

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
        """Standard deviation of the noise on each coordinate of a mean gradient. Public.

        Returns
        -------
        float
            In the units of the gradient, above 0.
        """
        return self.multiplier * self._unit.replaced

    @property
    def privacy_map(self) -> PrivacyMap:
        """Public bounds on the privacy loss of all noisy gradients, by the distance of two tables.

        Let L be the largest norm of a row's gradient, mu the smoothness of the loss and tau the
        summed shift of rows. A replaced row moves the mean gradient of all n rows by at most 2 L /
        n at every coefficient vector. Shifted rows change it by mu tau / n. The iterates are
        post-processing, and the steps compose adaptively.

        Returns
        -------
        PrivacyMap
            Public bounds in zero-concentrated or Rényi DP, as functions of a `TableDistance`. They
            cover all steps together, and include rounding.
        """
        slack = self.noise_for(NEIGHBOURS).slack(self.size)
        slack += _sum_slack(self._read, self.multiplier)
        noise: dict[str, Any] = {"sigma": self.sigma, "steps": self.steps, "slack": slack}
        if self.batch is None:
            return PrivacyMap.gaussian(sensitivity=self._unit, **noise)
        L, mu, n = self.loss.lipschitz, self.loss.smoothness, self.domain.rows
        return PrivacyMap.subsampled(lipschitz=L, smoothness=mu, rows=n, batch=self.batch, **noise)

    def noise_for(self, distance: TableDistance) -> VectorNoise:
        """Return the noise mechanism of one gradient, with its sensitivity after preprocessing.

        The sensitivity is for one and the same sample of rows.

        Parameters
        ----------
        distance : TableDistance
            Public upper bound on the difference between neighbouring tables where the query
            reads them.

        Returns
        -------
        VectorNoise
            The public mechanism, which adds Gaussian noise to a gradient. The scale of the noise
            does not depend on the distance.
        """
        n, unit = self._read, self._unit
        replaced, shifted = min(distance.replaced, n), min(distance.shifted_rows, n)
        shift = unit.largest_shift(replace(distance, replaced=replaced, shifted_rows=shifted))
        return VectorNoise("gaussian", self.sigma, sensitivity=min(shift, n * unit.replaced))

    def exact(self, rows: Floats, target: Any) -> Callable[[ArrayLike], Any]:
        """Return a function that computes the mean gradient of private rows without noise.

        The result is private. Only noise makes a gradient releasable.

        Parameters
        ----------
        rows : ndarray of float, shape (n_rows, n_columns)
            Private rows within the domain.
        target : array_like, shape (n_rows,)
            Private target.

        Returns
        -------
        callable
            Private function of coefficients of shape (size,). It returns the mean gradient,
            shape (size,), over all rows. With a ``batch``, it returns a function of the numbers
            of the sampled rows. It raises ParameterError for coefficients outside the ball of
            the loss, and DataError if the loss fails.

        Raises
        ------
        DataError
            If the target cannot be read.
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
