"""Private estimators: mean, covariance, histogram, logistic and linear regression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from missdp.errors import DataError, ParameterError, replacing
from missdp.pricing.domain import (
    RowDomain,
    as_rows,
    check_fillable,
    clip_rows,
    count,
    real,
    require,
    word_of,
)
from missdp.pricing.privacy_maps import Sensitivity
from missdp.pricing.private_estimator import PrivateEstimator
from missdp.pricing.queries import GradientQuery, Loss, NoiseKind, Question, VectorQuery
from missdp.types import Floats

Method = Literal["gd", "sgd"]


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateMean(PrivateEstimator):
    """Mean of the rows with Gaussian or Laplace noise.

    Parameters
    ----------
    noise_multiplier : float
        Noise scale over sensitivity, from 1e-9 to 1e10. Laplace noise is (1 / noise_multiplier)-DP.
    mechanism : {"gaussian", "laplace"}, default "gaussian"
        Gaussian noise is calibrated to the Euclidean norm, Laplace noise to the sum of absolute
        values.
    radius : float, default 1.0
        Rows are scaled down to this norm.
    delta : float, default 1e-6
        The delta of ``guarantee_``. It is 0 for pure DP with Laplace noise.
    budget : Filter, Composition or None
        Charged before anything is computed.
    random_state : int or None
        None: secure noise. A seed is for tests and becomes a condition.

    Attributes
    ----------
    mean_ : ndarray of shape (d,)
        Released.

    Notes
    -----
    One replaced row moves the mean by 2 R / n, and rows that move by tau / n. In L1 both are
    multiplied by sqrt(d).

    Examples
    --------
    >>> estimator = PrivateMean(noise_multiplier=5.0, random_state=0).fit([[0.1], [0.3]] * 500)
    >>> round(float(estimator.mean_[0]), 1), round(estimator.guarantee_.epsilon, 3)
    (0.2, 0.9)
    """

    mechanism: NoiseKind = field(default="gaussian", metadata=word_of("gaussian", "laplace"))

    def question(self, domain: RowDomain) -> VectorQuery:
        """Return the query for the mean row."""
        return VectorQuery.mean(domain, multiplier=self.noise_multiplier, noise=self.mechanism)

    def keep(self, question: Question, answer: Floats) -> None:
        """Keep the noisy mean."""
        del question
        self.mean_ = answer


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateCovariance(PrivateEstimator):
    """Covariance matrix (divisor n - 1) with symmetric Gaussian noise.

    Parameters
    ----------
    noise_multiplier, radius, delta, budget, random_state
        See `PrivateMean`.

    Attributes
    ----------
    covariance_ : ndarray of shape (d, d)
        Released. Symmetric, not necessarily positive.

    Notes
    -----
    Let z' replace z, let m be the mean of the n - 1 other rows, and let a = z - m and b = z' - m.
    The matrix changes by exactly (b b' - a a') / n. The Frobenius norm of this change is at most 4
    R^2 / n, for the following reason. Its square times n^2, |a|^4 + |b|^4 - 2 (a.b)^2, is convex in
    |a|^2 along each ray, and in m. So it is largest with z (and z') either at m or on the sphere.
    At m it is at most (2R)^4. On the sphere, with m on the sphere too and s = |z + z'|, it is at
    most 16 - s^4 in units of R^4. A row that moves by d adds at most 4 R d / n. The upper triangle
    is noised, with off-diagonal entries scaled by sqrt(2) so that its Euclidean norm is the
    Frobenius norm.

    Examples
    --------
    >>> rows = [[0.5, 0.5], [-0.5, -0.5]] * 500
    >>> estimator = PrivateCovariance(noise_multiplier=5.0, random_state=0).fit(rows)
    >>> estimator.covariance_.shape
    (2, 2)
    """

    def question(self, domain: RowDomain) -> VectorQuery:
        """Return the query for the upper triangle, off-diagonal entries stretched by sqrt(2)."""
        R, n = domain.radius, domain.rows
        unit = Sensitivity(replaced=4 * R**2 / n, l12=4 * R / n, frobenius=4 * R / math.sqrt(n))
        return VectorQuery(
            domain=domain,
            function=_stretched_covariance,
            size=domain.columns * (domain.columns + 1) // 2,
            sensitivity=unit,
            multiplier=self.noise_multiplier,
            averages=True,  # squared distances to the mean, R^2 on average at most
        )

    def keep(self, question: Question, answer: Floats) -> None:
        """Keep the noisy covariance."""
        columns = question.domain.columns
        matrix = np.zeros((columns, columns))
        matrix[np.triu_indices(columns)] = answer / _stretch(columns)
        self.covariance_ = matrix + np.triu(matrix, 1).T


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateHistogram(PrivateEstimator):
    """Counts of one column in declared bins, with discrete noise.

    Parameters
    ----------
    edges : sequence of float
        Bin edges, increasing. Public. Values outside count in the first or last bin.
    column : int, default 0
        Which column.
    noise_multiplier, mechanism, radius, delta, budget, random_state
        See `PrivateMean`. One replaced row changes two counts by 1.

    Attributes
    ----------
    counts_ : ndarray of int
        Released.

    Notes
    -----
    Counts are not continuous in the values: however little a row moves, it may cross an edge. So
    a row that moves counts as replaced, and after scaling or PCA only group privacy is left.

    Examples
    --------
    >>> estimator = PrivateHistogram(edges=[0, 0.5, 1], noise_multiplier=5.0, random_state=0)
    >>> estimator.fit([[0.2], [0.8]] * 500).counts_.shape
    (2,)
    """

    edges: Sequence[float]
    column: int = count(0, low=0)
    mechanism: NoiseKind = field(default="gaussian", metadata=word_of("gaussian", "laplace"))

    def question(self, domain: RowDomain) -> VectorQuery:
        """Return the query for the counts."""
        require(self.column < domain.columns, "column must be a column of the table")
        with replacing(TypeError, ValueError, by=ParameterError("edges must be numbers")):
            edges = np.asarray(self.edges, dtype=np.float64)
        rising = edges.ndim == 1 and edges.size > 1 and bool(np.all(np.diff(edges) > 0))
        require(rising, "edges must be at least two increasing numbers")
        return VectorQuery(
            domain=domain,
            function=_bin_counts,
            size=edges.size - 1,
            sensitivity=Sensitivity(replaced=2.0 if self.mechanism == "laplace" else math.sqrt(2)),
            multiplier=self.noise_multiplier,
            noise=self.mechanism,
            integer=True,
            arguments=(self.column, edges.copy()),
        )

    def keep(self, question: Question, answer: NDArray[np.int64]) -> None:
        """Keep the noisy counts."""
        del question
        self.counts_ = answer


def _bin_counts(rows: Floats, column: int, edges: Floats) -> NDArray[np.int64]:
    bins = np.searchsorted(edges[1:-1], rows[:, column], side="right")
    return np.bincount(bins, minlength=edges.size - 1)


def _stretched_covariance(rows: Floats) -> Floats:
    """Return the upper triangle such that its Euclidean norm is the matrix's Frobenius norm."""
    centred = rows - rows.mean(axis=0)
    exact = centred.T @ centred / (len(rows) - 1)
    columns = rows.shape[1]
    return np.asarray(exact[np.triu_indices(columns)] * _stretch(columns))


def _stretch(columns: int) -> Floats:
    upper = np.triu_indices(columns)
    return np.where(upper[0] == upper[1], 1.0, math.sqrt(2))


STEP_SIZE = 1.5  # step size times the curvature of the loss. Steps are stable below 2


@dataclass(kw_only=True, eq=False, repr=False)
class _LinearModel(PrivateEstimator):
    """Projected noisy gradient descent on a linear model."""

    coefficient_norm: float | None = real(1.0, low=1e-100)
    method: Method = field(default="gd", metadata=word_of("gd", "sgd"))
    n_iter: int = count(100)
    batch_size: int = count(100)
    learning_rate: float | None = real(1.0, low=1e-30, high=1e30)

    def loss(self, radius: float) -> Loss:
        """Return the loss with its public constants on rows of this norm."""
        raise NotImplementedError

    def check_target(self, y: ArrayLike | None, rows: int) -> None:
        """Raise an error for a missing target or one of the wrong length, before any charge."""
        wrong = DataError("this estimator needs a target y with one entry for every row")
        with replacing(TypeError, by=wrong):
            shape = getattr(y, "shape", None) or (len(y),)  # type: ignore[arg-type]
        if tuple(shape) != (rows,):
            raise wrong

    def question(self, domain: RowDomain) -> GradientQuery:
        """Return the query for noisy gradients."""
        return GradientQuery(
            domain=domain,
            loss=self.loss(domain.radius),
            multiplier=self.noise_multiplier,
            steps=self.n_iter,
            batch=min(self.batch_size, domain.rows) if self.method == "sgd" else None,
        )

    def _rate(self, loss: Loss) -> float:
        """Return the step size: as given, or by the public curvature of the loss."""
        return STEP_SIZE / loss.curvature if self.learning_rate is None else self.learning_rate

    def keep(self, question: Question, answer: Any) -> None:
        """Follow the noisy gradients and keep the mean iterate."""
        assert isinstance(question, GradientQuery)
        coefficients = self._mean_iterate(question, answer)
        constant = question.loss.constant
        self.intercept_ = float(coefficients[-1] * constant) if constant else 0.0
        self.coef_ = coefficients[: question.domain.columns]

    def _mean_iterate(self, question: GradientQuery, gradient: Any) -> Floats:
        """Return the mean of the iterates: post-processing, like each of them."""
        point = np.zeros(question.size)
        total, rate = np.zeros_like(point), self._rate(question.loss)
        for _ in range(question.steps):
            step = (point - rate * gradient(point))[None, :]
            point = clip_rows(step, question.loss.coefficient_norm)[0]
            total = total + point
        return total / question.steps

    def _predictor(self, X: ArrayLike) -> Floats:
        coefficients = self.coef_
        check_fillable(X)
        rows = np.nan_to_num(as_rows(X), nan=0.0)
        if rows.shape[1] != len(coefficients):
            raise DataError(f"expected {len(coefficients)} columns")
        return np.asarray(rows @ coefficients + self.intercept_)


LARGEST_SCORE = 4.0  # log odds: a default model states probabilities from 1.8 % to 98.2 %
CONSTANT = 0.7  # entry of every row for the intercept, over the radius of the rows


def _yes_or_no(name: str, value: Any) -> bool:
    require(isinstance(value, bool), f"{name} must be True or False")
    return bool(value)


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogisticRegression(_LinearModel):
    """Binary logistic regression by DP-GD or DP-SGD.

    Parameters
    ----------
    noise_multiplier : float
        Noise of one step over its sensitivity 2 L / (rows read), above 0.
    coefficient_norm : float, optional
        Radius B of the ball on which coefficients are projected. The constants depend on it. The
        default is 4 over the largest norm of a row: scores are then from -4 to 4, and probabilities
        from 1.8 % to 98.2 %. Larger values cost more only where preprocessing moves rows.
    method : {"gd", "sgd"}, default "gd"
        Whether a step reads all rows ("gd"), or a fresh sample without replacement ("sgd").
    n_iter : int, default 100
        Number of steps.
    batch_size : int, default 100
        Rows per step, for "sgd".
    learning_rate : float, optional
        Step size. The default is 1.5 over the curvature of the loss, which is R^2 / 4 for rows of
        norm R.
    fit_intercept : bool, default True
        Whether the score has a constant term. Every row gets one more entry, 0.7 times the radius,
        so that R^2 grows by half and the noise by a fifth. Without an intercept, scores of rows
        that are not centred at 0 follow the share of the classes.
    classes : pair, default (0, 1)
        The two labels, public. Any other label counts as the first.
    radius, delta, budget, random_state
        See `PrivateMean`.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        Released. Scores are for rows as they reached the estimator.
    intercept_ : float
        Released. It is 0 without an intercept.

    Notes
    -----
    One replaced row moves a mean gradient by at most 2 L / n with L = R / (1 + exp(-R B)). R is the
    largest norm of a row, its constant entry included. Proofs, also for rows that preprocessing
    moves, stand at `Loss.logistic`. All defaults follow from the public radius. Use of the noisy
    gradients is post-processing.

    Examples
    --------
    >>> rows, labels = [[0.9], [-0.9]] * 500, [1, 0] * 500
    >>> model = PrivateLogisticRegression(noise_multiplier=20.0, random_state=0).fit(rows, labels)
    >>> model.predict([[0.5], [-0.5]]).tolist()
    [1, 0]
    """

    coefficient_norm: float | None = real(None, low=1e-100)
    learning_rate: float | None = real(None, low=1e-30, high=1e30)
    fit_intercept: bool = field(default=True, metadata={"check": _yes_or_no})
    classes: Sequence[object] = (0, 1)

    def loss(self, radius: float) -> Loss:
        """Return the logistic loss with its constants."""
        constant = CONSTANT * radius if self.fit_intercept else 0.0
        longest = math.hypot(radius, constant)
        norm = LARGEST_SCORE / longest if self.coefficient_norm is None else self.coefficient_norm
        return Loss.logistic(
            radius=longest, coefficient_norm=norm, positive=self._pair()[1:], constant=constant
        )

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return the scores of rows, positive for the second class.

        Parameters
        ----------
        X : array_like, shape (n_rows, n_columns)
            Rows as they reach the estimator.

        Returns
        -------
        ndarray, shape (n_rows,)
            Log odds of the second class.
        """
        return self._predictor(X)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the probabilities of both classes.

        Parameters
        ----------
        X : array_like, shape (n_rows, n_columns)
            Rows as they reach the estimator.

        Returns
        -------
        ndarray, shape (n_rows, 2)
            Probabilities in the order of ``classes``.
        """
        from scipy.special import expit

        second = expit(self._predictor(X))
        return np.column_stack([1 - second, second])

    def predict(self, X: ArrayLike) -> NDArray[np.generic]:
        """Return the likelier class of each row.

        Parameters
        ----------
        X : array_like, shape (n_rows, n_columns)
            Rows as they reach the estimator.

        Returns
        -------
        ndarray, shape (n_rows,)
            Labels of ``classes``.
        """
        first, second = self._pair()
        return np.where(self._predictor(X) > 0, np.asarray(second), np.asarray(first))

    def _pair(self) -> tuple[object, object]:
        with replacing(TypeError, ValueError, by=ParameterError("classes must be two labels")):
            first, second = self.classes
        require(first != second, "classes must be two different labels")
        return first, second


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLinearRegression(_LinearModel):
    """Least-squares regression without intercept, by DP-GD or DP-SGD.

    Parameters
    ----------
    target_bound : float, default 1.0
        Public bound. Targets are clipped to [-target_bound, target_bound]. An entry that is not a
        number counts as 0.
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

    target_bound: float = real(1.0, low=1e-100)
    learning_rate: float = real(0.5, low=1e-30, high=1e30)

    def loss(self, radius: float) -> Loss:
        """Return the squared loss with its constants."""
        assert self.coefficient_norm is not None  # as it was checked when it was set
        norm, bound = self.coefficient_norm, self.target_bound
        return Loss.squared(radius=radius, coefficient_norm=norm, target_bound=bound)

    def predict(self, X: ArrayLike) -> Floats:
        """Return the predicted targets.

        Parameters
        ----------
        X : array_like, shape (n_rows, n_columns)
            Rows as they reach the estimator.

        Returns
        -------
        ndarray, shape (n_rows,)
            Numbers.
        """
        return self._predictor(X)
