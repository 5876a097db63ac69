"""Private linear models: logistic and least-squares regression by noisy gradients."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from missdp.accounting import Assumption, Budget, Condition
from missdp.errors import DataError, NotFittedError, ParameterError
from missdp.mechanisms.gradient_losses import LogisticLoss, Loss, SquaredLoss
from missdp.mechanisms.gradient_maps import IterationMap, SubsampledMap, gradient_descent_map
from missdp.mechanisms.noise import NoiseSource, SeededNoise
from missdp.mechanisms.rdp_maps import PrivacyMap
from missdp.mechanisms.rdp_noise import gaussian_slack, noisy_gaussian
from missdp.pipelines.estimators import PrivateEstimator
from missdp.transforms import RowDomain
from missdp.transforms.domain import as_rows, clip_rows

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

    def _target(self, y: ArrayLike | None, rows: int) -> FloatArray:
        raise NotImplementedError

    def privacy_map(self, domain: RowDomain) -> PrivacyMap:
        """Return the map of the gradient method on rows of ``domain``."""
        loss = self.loss(domain.radius)
        sigma = self._sigma(domain)
        slack = gaussian_slack(domain.columns)
        if self.method == "gd":
            steps = self._whole("n_iter", self.n_iter)
            return gradient_descent_map(
                loss, rows=domain.rows, sigma=sigma, steps=steps, slack=slack
            )
        if self.method == "sgd":
            return SubsampledMap(
                lipschitz=loss.lipschitz,
                smoothness=loss.smoothness,
                rows=domain.rows,
                batch=self._batch(domain),
                sigma=sigma,
                steps=self._whole("n_iter", self.n_iter),
                slack=slack,
            )
        if self.learning_rate * loss.curvature > 2:
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
        target = self._target(y, domain.rows)
        loss, sigma = self.loss(domain.radius), self._sigma(domain)
        theta = np.zeros(domain.columns)
        total, count = np.zeros(domain.columns), 0
        for rows in _schedule(self.method, domain.rows, self._steps(), self._batch(domain), noise):
            X, y_rows = (values, target) if rows is None else (values[rows], target[rows])
            gradient = X.T @ loss.gradients(theta, X, y_rows) / X.shape[0]
            step = noisy_gaussian(gradient, sigma, noise)
            theta = clip_rows(
                (theta - float(self.learning_rate) * step)[None, :], float(self.coefficient_norm)
            )[0]
            total, count = total + theta, count + 1
        # Averages of the iterates are post-processing, except where only the last one is released.
        self.coef_ = theta if self.method == "iteration" else total / max(1, count)
        return self

    def _predictor(self, X: ArrayLike) -> FloatArray:
        if not hasattr(self, "coef_"):
            raise NotFittedError(f"{type(self).__name__} is not fitted yet; call fit first")
        return np.asarray(np.nan_to_num(as_rows(X), nan=0.0) @ self.coef_)

    def _sigma(self, domain: RowDomain) -> float:
        """Standard deviation of the noise on the mean gradient of the rows a step reads."""
        reads = {"gd": domain.rows, "sgd": self._batch(domain), "iteration": 1}
        if self.method not in reads:
            raise ParameterError("method must be 'gd', 'sgd' or 'iteration'")
        sensitivity = 2 * self.loss(domain.radius).lipschitz / reads[self.method]
        return self._multiplier() * sensitivity

    def _batch(self, domain: RowDomain) -> int:
        return min(self._whole("batch_size", self.batch_size), domain.rows)

    def _steps(self) -> int:
        return self._whole("n_iter", self.n_iter)

    def _whole(self, name: str, value: float) -> int:
        if not (value == int(value) and value >= 1):
            raise ParameterError(f"{name} must be a whole number of at least 1")
        return int(value)


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
        return LogisticLoss(radius=radius, coefficient_norm=float(self.coefficient_norm))

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return the scores of rows, positive for the second class."""
        return self._predictor(X)

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return the probabilities of both classes."""
        second = expit(self._predictor(X))
        return np.column_stack([1 - second, second])

    def predict(self, X: ArrayLike) -> NDArray[np.generic]:
        """Return the likelier class of each row."""
        first, second = self.classes
        return np.where(self._predictor(X) > 0, np.asarray(second), np.asarray(first))

    def _target(self, y: ArrayLike | None, rows: int) -> FloatArray:
        labels = _labels(y, rows)
        return np.where(labels == self.classes[1], 1.0, -1.0)


class PrivateLinearRegression(_LinearModel):
    """Least-squares regression without intercept, by DP-GD or DP-SGD.

    Parameters
    ----------
    target_bound : float, default 1.0
        Targets are clipped to [-target_bound, target_bound]; public.
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
            coefficient_norm=float(self.coefficient_norm),
            target_bound=float(self.target_bound),
        )

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return the predicted targets."""
        return self._predictor(X)

    def _target(self, y: ArrayLike | None, rows: int) -> FloatArray:
        try:
            values = _labels(y, rows).astype(np.float64)
        except (TypeError, ValueError):
            raise DataError("the target must be numeric") from None
        bound = float(self.target_bound)
        return np.asarray(np.clip(np.nan_to_num(values, nan=0.0), -bound, bound))


def _labels(y: ArrayLike | None, rows: int) -> NDArray[np.generic]:
    if y is None:
        raise DataError("this estimator needs a target y")
    labels = np.asarray(y)
    if labels.shape != (rows,):
        raise DataError("y must have one entry for every row")
    return labels


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
