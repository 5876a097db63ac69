"""Private linear models: logistic and least-squares regression by noisy gradients."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from missdp.accounting import Assumption, Budget, Condition
from missdp.errors import DataError, ParameterError, replacing
from missdp.mechanisms.gradient_losses import LogisticLoss, Loss, SquaredLoss
from missdp.mechanisms.gradient_maps import IterationMap, SubsampledMap, gradient_descent_map
from missdp.mechanisms.noise import NoiseSource, SeededNoise
from missdp.mechanisms.rdp_maps import PrivacyMap
from missdp.mechanisms.rdp_noise import gaussian_slack, noisy_gaussian
from missdp.pipelines.estimators import PrivateEstimator
from missdp.transforms import RowDomain
from missdp.transforms.domain import as_number, as_rows, clip_rows
from missdp.transforms.parameters import number, whole

__all__ = ["Method", "PrivateLinearRegression", "PrivateLogisticRegression"]

FloatArray = NDArray[np.float64]
Method = Literal["gd", "sgd", "iteration"]


class _LinearModel(PrivateEstimator):
    """Projected noisy gradient descent on a linear model without intercept."""

    coefficient_norm: float
    method: Method
    n_iter: int
    batch_size: int
    learning_rate: float

    def loss(self, radius: float) -> Loss:
        """Return the loss with its constants on rows of this norm; public."""
        raise NotImplementedError

    def _target(self, y: Any) -> FloatArray:
        raise NotImplementedError

    def check_target(self, y: ArrayLike | None, rows: int) -> None:
        """Refuse a target that is not there or of the wrong length, before anything is charged."""
        if y is None:
            raise DataError("this estimator needs a target y")
        with replacing(TypeError, by=DataError("y must have one entry for every row")):
            shape = getattr(y, "shape", None) or (len(y),)  # type: ignore[arg-type]
        if tuple(shape) != (rows,):
            raise DataError("y must have one entry for every row")

    def privacy_map(self, domain: RowDomain) -> PrivacyMap:
        """Return the map of the gradient method on rows of ``domain``."""
        loss = self.loss(domain.radius)
        sigma = self._sigma(domain)
        slack = gaussian_slack(domain.columns)
        if self.method == "gd":
            return gradient_descent_map(
                loss, rows=domain.rows, sigma=sigma, steps=self._steps(), slack=slack
            )
        if self.method == "sgd":
            return SubsampledMap(
                lipschitz=loss.lipschitz,
                smoothness=loss.smoothness,
                rows=domain.rows,
                batch=self._batch(domain),
                sigma=sigma,
                steps=self._steps(),
                slack=slack,
            )
        if self._rate() * loss.curvature > 2:
            raise ParameterError(
                "amplification by iteration needs learning_rate <= 2 / curvature of the loss "
                f"({2 / loss.curvature:.6g} here)"
            )
        return IterationMap(
            lipschitz=loss.lipschitz,
            smoothness=loss.smoothness,
            rows=domain.rows,
            sigma=sigma,
            slack=slack,
        )

    def model_conditions(self) -> tuple[Condition, ...]:
        """Return the idealisation that amplification by iteration rests on."""
        if self.method != "iteration":
            return ()
        return (
            Assumption(
                "Noise on a fine grid is treated as continuous, which amplification by iteration "
                "is proven for."
            ),
        )

    def release(
        self, values: FloatArray, y: ArrayLike | None, domain: RowDomain, noise: NoiseSource
    ) -> Self:
        """Run the noisy gradient method and keep its coefficients."""
        target = self._target(y)
        loss, sigma = self.loss(domain.radius), self._sigma(domain)
        theta = np.zeros(domain.columns)
        total, count = np.zeros(domain.columns), 0
        for rows in _schedule(self.method, domain.rows, self._steps(), self._batch(domain), noise):
            X, y_rows = (values, target) if rows is None else (values[rows], target[rows])
            gradient = X.T @ loss.gradients(theta, X, y_rows) / X.shape[0]
            step = noisy_gaussian(gradient, sigma, noise)
            theta = clip_rows((theta - self._rate() * step)[None, :], float(self.coefficient_norm))[
                0
            ]
            total, count = total + theta, count + 1
        # Averages of the iterates are post-processing, except where only the last one is released.
        self.coef_ = theta if self.method == "iteration" else total / max(1, count)
        return self

    def _predictor(self, X: ArrayLike) -> FloatArray:
        coefficients = self.coef_
        rows = np.nan_to_num(as_rows(X), nan=0.0)
        if rows.shape[1] != len(coefficients):
            raise DataError(f"expected {len(coefficients)} columns")
        return np.asarray(rows @ coefficients)

    def _sigma(self, domain: RowDomain) -> float:
        """Standard deviation of the noise on the mean gradient of the rows a step reads."""
        reads = {"gd": domain.rows, "sgd": self._batch(domain), "iteration": 1}
        if self.method not in reads:
            raise ParameterError("method must be 'gd', 'sgd' or 'iteration'")
        self._rate()
        sensitivity = 2 * self.loss(domain.radius).lipschitz / reads[self.method]
        return self._multiplier() * sensitivity

    def _batch(self, domain: RowDomain) -> int:
        return min(whole("batch_size", self.batch_size), domain.rows)

    def _steps(self) -> int:
        return whole("n_iter", self.n_iter)

    def _rate(self) -> float:
        return number("learning_rate", self.learning_rate, least=1e-30, most=1e30)


class PrivateLogisticRegression(_LinearModel):
    """Binary logistic regression without intercept, by DP-GD or DP-SGD.

    Parameters
    ----------
    noise_multiplier : float
        Noise of one step over its sensitivity 2 L / (rows read), above 0.
    coefficient_norm : float, default 1.0
        Coefficients are projected on this ball (B); the constants depend on it.
    method : {"gd", "sgd", "iteration"}, default "gd"
        All rows each step; a fresh sample without replacement each step; one row each step in
        fixed order, stopped at a secret time.
    n_iter : int, default 100
        Steps, for "gd" and "sgd".
    batch_size : int, default 100
        Rows per step, for "sgd".
    learning_rate : float, default 1.0
        Step size.
    classes : pair, default (0, 1)
        The two labels, public. Any other label counts as the first.
    radius, delta, budget, random_state
        See `PrivateMean`.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        Released. Scores are for rows as they reached the estimator.

    Examples
    --------
    >>> rows, labels = [[0.9], [-0.9]] * 500, [1, 0] * 500
    >>> model = PrivateLogisticRegression(noise_multiplier=20.0, random_state=0).fit(rows, labels)
    >>> model.predict([[0.5], [-0.5]]).tolist()
    [1, 0]
    """

    def __init__(
        self,
        *,
        noise_multiplier: float,
        coefficient_norm: float = 1.0,
        method: Method = "gd",
        n_iter: int = 100,
        batch_size: int = 100,
        learning_rate: float = 1.0,
        classes: Sequence[object] = (0, 1),
        radius: float = 1.0,
        delta: float = 1e-6,
        budget: Budget | None = None,
        random_state: int | np.random.Generator | NoiseSource | None = None,
    ) -> None:
        self.noise_multiplier = noise_multiplier
        self.coefficient_norm = coefficient_norm
        self.method = method
        self.n_iter = n_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.classes = classes
        self.radius = radius
        self.delta = delta
        self.budget = budget
        self.random_state = random_state

    def loss(self, radius: float) -> LogisticLoss:
        """Return the logistic loss with its constants."""
        return LogisticLoss(radius=radius, coefficient_norm=_norm(self.coefficient_norm))

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return the scores of rows, positive for the second class."""
        return self._predictor(X)

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return the probabilities of both classes."""
        second = expit(self._predictor(X))
        return np.column_stack([1 - second, second])

    def predict(self, X: ArrayLike) -> NDArray[np.generic]:
        """Return the likelier class of each row."""
        first, second = self._pair()
        return np.where(self._predictor(X) > 0, np.asarray(second), np.asarray(first))

    def check_target(self, y: ArrayLike | None, rows: int) -> None:
        """Refuse a target that is not there or of the wrong length, or other than two classes."""
        super().check_target(y, rows)
        self._pair()

    def _pair(self) -> tuple[object, object]:
        with replacing(TypeError, ValueError, by=ParameterError("classes must be two labels")):
            first, second = self.classes
        if first == second:
            raise ParameterError("classes must be two different labels")
        return first, second

    def _target(self, y: Any) -> FloatArray:
        second = self._pair()[1]
        return _each(lambda label: 1.0 if _same(label, second) else -1.0, y)


class PrivateLinearRegression(_LinearModel):
    """Least-squares regression without intercept, by DP-GD or DP-SGD.

    Parameters
    ----------
    target_bound : float, default 1.0
        Targets are clipped to [-target_bound, target_bound]; public. Whatever is not a number
        counts as 0.
    noise_multiplier, coefficient_norm, method, n_iter, batch_size, learning_rate
        See `PrivateLogisticRegression`.
    radius, delta, budget, random_state
        See `PrivateMean`.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        Released.

    Examples
    --------
    >>> rows, target = [[0.8], [-0.8]] * 500, [0.4, -0.4] * 500
    >>> model = PrivateLinearRegression(noise_multiplier=20.0, random_state=0).fit(rows, target)
    >>> round(float(model.predict([[0.8]])[0]), 1)
    0.4
    """

    def __init__(
        self,
        *,
        noise_multiplier: float,
        target_bound: float = 1.0,
        coefficient_norm: float = 1.0,
        method: Method = "gd",
        n_iter: int = 100,
        batch_size: int = 100,
        learning_rate: float = 0.5,
        radius: float = 1.0,
        delta: float = 1e-6,
        budget: Budget | None = None,
        random_state: int | np.random.Generator | NoiseSource | None = None,
    ) -> None:
        self.noise_multiplier = noise_multiplier
        self.target_bound = target_bound
        self.coefficient_norm = coefficient_norm
        self.method = method
        self.n_iter = n_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.radius = radius
        self.delta = delta
        self.budget = budget
        self.random_state = random_state

    def loss(self, radius: float) -> SquaredLoss:
        """Return the squared loss with its constants."""
        return SquaredLoss(
            radius=radius,
            coefficient_norm=_norm(self.coefficient_norm),
            target_bound=self._bound(),
        )

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return the predicted targets."""
        return self._predictor(X)

    def _target(self, y: Any) -> FloatArray:
        values, bound = _each(as_number, y), self._bound()
        return np.asarray(np.clip(np.nan_to_num(values, nan=0.0), -bound, bound))

    def _bound(self) -> float:
        return number("target_bound", self.target_bound, least=1e-100)


def _each(read: Callable[[Any], float], y: Any) -> FloatArray:
    """Read a target row by row: an odd entry neither refuses it nor changes how others are read."""
    return np.fromiter(map(read, y), np.float64, len(y))


def _same(label: Any, wanted: object) -> bool:
    try:
        return bool(label == wanted)
    except (TypeError, ValueError):  # pandas' NA, or an array
        return False


def _norm(value: Any) -> float:
    return number("coefficient_norm", value, least=1e-100)


def _schedule(
    method: Method, rows: int, steps: int, batch: int, noise: NoiseSource
) -> Sequence[NDArray[np.int64] | None]:
    """Which rows each step reads; samples and the stopping time come from a secure source."""
    if method == "gd":
        return [None] * steps
    if isinstance(noise, SeededNoise):
        seeded = noise.generator()
        if method == "iteration":
            return [np.array([i]) for i in range(int(seeded.integers(1, rows + 1)))]
        return [seeded.choice(rows, size=batch, replace=False) for _ in range(steps)]
    secure = random.SystemRandom()
    if method == "iteration":
        return [np.array([i]) for i in range(secure.randint(1, rows))]
    return [np.array(secure.sample(range(rows), batch)) for _ in range(steps)]
