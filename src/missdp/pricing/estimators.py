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
    """Differentially private mean of the rows of a table, with Gaussian or Laplace noise.

    Use it on its own for complete rows, or at the end of a `PricedPipeline`. `fit` charges the
    budget and then releases the noisy mean of each column.

    Parameters
    ----------
    noise_multiplier : float
        Noise scale divided by the sensitivity to one replaced row, from 1e-9 to 1e10. Without
        preprocessing, Laplace noise gives (1 / noise_multiplier)-DP, up to rounding.
    mechanism : {"gaussian", "laplace"}, default "gaussian"
        Gaussian noise is calibrated to the Euclidean norm of the change of the mean. Laplace
        noise is calibrated to the sum of absolute changes.
    radius : float, default 1.0
        Public bound on the Euclidean norm of a row, in the units of the columns, from 1e-100 to
        1e100. Longer rows are scaled down to this norm.
    delta : float, default 1e-6
        The delta at which ``guarantee_`` states epsilon, in [0, 1). At 0, only a pure DP bound
        counts, as of Laplace noise.
    budget : Filter, Composition or None, default None
        Privacy budget that `fit` charges before it computes anything. It must accept
        replace-one adjacency. None: a budget for this release alone.
    random_state : int or None, default None
        None draws noise from a secure source. A seed is for tests, and the guarantee then
        states it as a condition.

    Attributes
    ----------
    mean_ : ndarray of float, shape (n_columns,)
        Released mean of each column, in the units and order of the columns.
    guarantee_ : Guarantee
        The guarantee of the released attributes, under replace-one adjacency (one row is
        replaced, and the number of rows is public). Outside a pipeline it states the condition
        that no preprocessing was fitted to the same table. Public.
    n_features_in_ : int
        Number of columns. Public.

    Raises
    ------
    ParameterError
        If a parameter has an invalid type or value. Some parameters are checked when they are
        set, and the others by `fit`.

    Notes
    -----
    Let R be the radius, n the number of rows and tau the summed shift of the rows that
    preprocessing changes. One replaced row moves the mean by at most 2 R / n, and shifted rows move
    it by at most tau / n. In L1 norm both bounds are multiplied by the root of the number of
    columns.

    Examples
    --------
    >>> from missdp.pricing import PrivateMean
    >>> estimator = PrivateMean(noise_multiplier=5.0, random_state=0).fit([[0.1], [0.3]] * 500)
    >>> round(float(estimator.mean_[0]), 1), round(estimator.guarantee_.epsilon, 3)
    (0.2, 0.9)
    """

    mechanism: NoiseKind = field(default="gaussian", metadata=word_of("gaussian", "laplace"))

    def question(self, domain: RowDomain) -> VectorQuery:
        """Return the query for the noisy mean of each column of a private table.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the rows as they reach the estimator: their shape and the largest
            row norm.

        Returns
        -------
        VectorQuery
            Public. Its vector has one entry for each column.

        Raises
        ------
        ParameterError
            If ``noise_multiplier`` is not a number from 1e-9 to 1e10.
        """
        return VectorQuery.mean(domain, multiplier=self.noise_multiplier, noise=self.mechanism)

    def keep(self, question: Question, answer: Floats) -> None:
        """Store a released noisy mean as the attribute ``mean_`` of the estimator.

        Parameters
        ----------
        question : VectorQuery
            The query that was answered. It is ignored.
        answer : ndarray of float, shape (n_columns,)
            The released noisy mean, in the units of the columns.
        """
        del question
        self.mean_ = answer


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateCovariance(PrivateEstimator):
    """Differentially private covariance matrix of the columns, with symmetric Gaussian noise.

    Use it on its own for complete rows, or at the end of a `PricedPipeline`. `fit` charges the
    budget and then releases the noisy matrix (divisor n - 1).

    Parameters
    ----------
    noise_multiplier : float
        Noise scale divided by the sensitivity to one replaced row, from 1e-9 to 1e10. The
        sensitivity is in Frobenius norm.
    radius : float, default 1.0
        Public bound on the Euclidean norm of a row, in the units of the columns, from 1e-100 to
        1e100. Longer rows are scaled down to this norm.
    delta : float, default 1e-6
        The delta at which ``guarantee_`` states epsilon, in [0, 1). At 0, only a pure DP bound
        counts, as of Laplace noise.
    budget : Filter, Composition or None, default None
        Privacy budget that `fit` charges before it computes anything. It must accept
        replace-one adjacency. None: a budget for this release alone.
    random_state : int or None, default None
        None draws noise from a secure source. A seed is for tests, and the guarantee then
        states it as a condition.

    Attributes
    ----------
    covariance_ : ndarray of float, shape (n_columns, n_columns)
        Released. Symmetric, in products of the units of two columns. Noise can make an
        eigenvalue negative.
    guarantee_ : Guarantee
        The guarantee of the released attributes, under replace-one adjacency (one row is
        replaced, and the number of rows is public). Outside a pipeline it states the condition
        that no preprocessing was fitted to the same table. Public.
    n_features_in_ : int
        Number of columns. Public.

    Raises
    ------
    ParameterError
        If a parameter has an invalid type or value. Some parameters are checked when they are
        set, and the others by `fit`.

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
    >>> from missdp.pricing import PrivateCovariance
    >>> rows = [[0.5, 0.5], [-0.5, -0.5]] * 500
    >>> estimator = PrivateCovariance(noise_multiplier=5.0, random_state=0).fit(rows)
    >>> estimator.covariance_.shape
    (2, 2)
    """

    def question(self, domain: RowDomain) -> VectorQuery:
        """Return the query for the noisy upper triangle of the covariance matrix.

        Entries off the diagonal are multiplied by sqrt(2). So the Euclidean norm of the vector is
        the Frobenius norm of the matrix.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the rows as they reach the estimator: their shape and the largest
            row norm.

        Returns
        -------
        VectorQuery
            Public. Its vector has d (d + 1) / 2 entries for d columns, row by row of the upper
            triangle.

        Raises
        ------
        ParameterError
            If ``noise_multiplier`` is not a number from 1e-9 to 1e10.
        """
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
        """Store a released noisy covariance matrix as the attribute ``covariance_``.

        Parameters
        ----------
        question : VectorQuery
            The query that was answered. Only its public number of columns is used.
        answer : ndarray of float, shape (d * (d + 1) / 2,)
            The released noisy upper triangle, with entries off the diagonal multiplied by sqrt(2).
        """
        columns = question.domain.columns
        matrix = np.zeros((columns, columns))
        matrix[np.triu_indices(columns)] = answer / _stretch(columns)
        self.covariance_ = matrix + np.triu(matrix, 1).T


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateHistogram(PrivateEstimator):
    """Differentially private counts of one column in declared bins, with discrete noise.

    Use it on its own for complete rows, or at the end of a `PricedPipeline`. `fit` charges the
    budget and then releases the noisy counts. Scaling or PCA before a histogram is expensive,
    because every row that they change counts as replaced.

    Parameters
    ----------
    edges : sequence of float, length n_bins + 1
        Public bin edges, increasing, in the units of the column. A bin contains its lower edge.
        Values outside the edges count in the first or last bin.
    column : int, default 0
        Number of the column, from 0.
    noise_multiplier : float
        Noise scale divided by the sensitivity to one replaced row, from 1e-9 to 1e10. One
        replaced row changes two counts by 1, so the sensitivity is sqrt(2) for Gaussian noise
        and 2 for Laplace noise.
    mechanism : {"gaussian", "laplace"}, default "gaussian"
        Distribution of the discrete noise.
    radius : float, default 1.0
        Public bound on the Euclidean norm of a row, in the units of the columns, from 1e-100 to
        1e100. Longer rows are scaled down to this norm.
    delta : float, default 1e-6
        The delta at which ``guarantee_`` states epsilon, in [0, 1). At 0, only a pure DP bound
        counts, as of Laplace noise.
    budget : Filter, Composition or None, default None
        Privacy budget that `fit` charges before it computes anything. It must accept
        replace-one adjacency. None: a budget for this release alone.
    random_state : int or None, default None
        None draws noise from a secure source. A seed is for tests, and the guarantee then
        states it as a condition.

    Attributes
    ----------
    counts_ : ndarray of int, shape (n_bins,)
        Released noisy numbers of rows, in the order of the bins. May be negative.
    guarantee_ : Guarantee
        The guarantee of the released attributes, under replace-one adjacency (one row is
        replaced, and the number of rows is public). Outside a pipeline it states the condition
        that no preprocessing was fitted to the same table. Public.
    n_features_in_ : int
        Number of columns. Public.

    Raises
    ------
    ParameterError
        If a parameter has an invalid type or value. Some parameters are checked when they are
        set, and the others by `fit`.

    Notes
    -----
    Counts are not continuous in the values: however little a row moves, it may cross an edge. So a
    row that moves counts as replaced, and after scaling or PCA only group privacy is left.

    Examples
    --------
    >>> from missdp.pricing import PrivateHistogram
    >>> estimator = PrivateHistogram(edges=[0, 0.5, 1], noise_multiplier=5.0, random_state=0)
    >>> estimator.fit([[0.2], [0.8]] * 500).counts_.shape
    (2,)
    """

    edges: Sequence[float]
    column: int = count(0, low=0)
    mechanism: NoiseKind = field(default="gaussian", metadata=word_of("gaussian", "laplace"))

    def question(self, domain: RowDomain) -> VectorQuery:
        """Return the query for noisy counts of private rows in the declared bins.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the rows as they reach the estimator: their shape and the largest
            row norm.

        Returns
        -------
        VectorQuery
            Public. Its vector has one whole number for each bin.

        Raises
        ------
        ParameterError
            If the table lacks the column, ``edges`` are not at least two increasing numbers, or
            ``noise_multiplier`` is not a number from 1e-9 to 1e10.
        """
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
        """Store released noisy counts of bins as the attribute ``counts_`` of the estimator.

        Parameters
        ----------
        question : VectorQuery
            The query that was answered. It is ignored.
        answer : ndarray of int64, shape (n_bins,)
            The released noisy numbers of rows.
        """
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
        """Return the convex loss of the linear model, with public constants for a row norm.

        Parameters
        ----------
        radius : float
            Largest Euclidean norm of a row, without the constant entry of an intercept.

        Returns
        -------
        Loss
            Public.

        Raises
        ------
        ParameterError
            If a parameter of the loss is out of range.
        """
        raise NotImplementedError

    def check_target(self, y: ArrayLike | None, rows: int) -> None:
        """Raise an error if the target is missing or has the wrong length, before any charge.

        Parameters
        ----------
        y : array_like or None
            Private target. Only its length is read.
        rows : int
            Public number of rows.

        Raises
        ------
        DataError
            If the target is missing, is not one-dimensional, or has another length.
        """
        wrong = DataError("this estimator needs a target y with one entry for every row")
        with replacing(TypeError, by=wrong):
            shape = getattr(y, "shape", None) or (len(y),)  # type: ignore[arg-type]
        if tuple(shape) != (rows,):
            raise wrong

    def question(self, domain: RowDomain) -> GradientQuery:
        """Return the query for the noisy gradients of the linear model.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the rows as they reach the estimator: their shape and the largest
            row norm.

        Returns
        -------
        GradientQuery
            Public. It has ``n_iter`` steps.

        Raises
        ------
        ParameterError
            If a parameter is out of range.
        """
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
        """Run noisy gradient descent, and store the mean of all iterates as released coefficients.

        It sets ``coef_`` and ``intercept_``. This is post-processing, so nothing is charged.

        Parameters
        ----------
        question : GradientQuery
            The query of this estimator.
        answer : callable
            Function of coefficients that releases the next noisy gradient. The charge covers
            ``n_iter`` calls.
        """
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
    """Differentially private logistic regression for two classes, by noisy gradient descent.

    Use it on its own for complete rows, or at the end of a `PricedPipeline`. `fit` needs a target.
    It charges the budget for all steps, and then takes ``n_iter`` steps along noisy gradients
    (DP-GD or DP-SGD). Coefficients are projected on a ball after each step. The mean of all
    iterates is released.

    Parameters
    ----------
    noise_multiplier : float
        Noise of one step divided by its sensitivity to one replaced row, from 1e-9 to 1e10.
    coefficient_norm : float, optional
        Radius of the ball on which coefficients are projected, at least 1e-100. The default is
        4 over the largest norm of a row: scores are then from -4 to 4, and probabilities from
        1.8 % to 98.2 %. Larger values cost more only where preprocessing changes rows.
    method : {"gd", "sgd"}, default "gd"
        Whether a step reads all rows ("gd"), or a fresh secret sample without replacement ("sgd").
    n_iter : int, default 100
        Number of steps, at least 1.
    batch_size : int, default 100
        Rows per step, for "sgd", at least 1. At most the number of rows is used.
    learning_rate : float, optional
        Step size, from 1e-30 to 1e30. The default is 1.5 over the curvature of the loss, which
        is R^2 / 4 for rows of norm R.
    fit_intercept : bool, default True
        Whether the score has a constant term. Every row gets one more entry, 0.7 times the
        radius, so that R^2 grows by half and the noise by a fifth. Without an intercept, scores
        of rows that are not centred at 0 follow the share of the classes.
    classes : sequence of two labels, default (0, 1)
        The two labels, public. Any other label in the target counts as the first.
    radius : float, default 1.0
        Public bound on the Euclidean norm of a row, in the units of the columns, from 1e-100 to
        1e100. Longer rows are scaled down to this norm.
    delta : float, default 1e-6
        The delta at which ``guarantee_`` states epsilon, in [0, 1). At 0, only a pure DP bound
        counts, as of Laplace noise.
    budget : Filter, Composition or None, default None
        Privacy budget that `fit` charges before it computes anything. It must accept
        replace-one adjacency. None: a budget for this release alone.
    random_state : int or None, default None
        None draws noise from a secure source. A seed is for tests, and the guarantee then
        states it as a condition.

    Attributes
    ----------
    coef_ : ndarray of float, shape (n_columns,)
        Released coefficients (log odds of the second class per unit of a column), in column
        order. They apply to rows as they reached the estimator.
    intercept_ : float
        Released constant term (log odds). It is 0 without an intercept.
    guarantee_ : Guarantee
        The guarantee of the released attributes, under replace-one adjacency (one row is
        replaced, and the number of rows is public). Outside a pipeline it states the condition
        that no preprocessing was fitted to the same table. Public.
    n_features_in_ : int
        Number of columns. Public.

    Raises
    ------
    ParameterError
        If a parameter has an invalid type or value. Some parameters are checked when they are
        set, and the others by `fit`.

    Notes
    -----
    One replaced row moves a mean gradient by at most 2 L / n with L = R / (1 + exp(-R B)). R is the
    largest norm of a row, its constant entry included, and B the coefficient norm. Proofs, also for
    rows that preprocessing moves, stand at `Loss.logistic`. All defaults follow from the public
    radius. Use of the noisy gradients is post-processing.

    References
    ----------
    Hu, Sanyal & Schölkopf (2024), for the shift of rows by preprocessing.
    Abadi et al. (2016), for noisy gradients of samples.

    Examples
    --------
    >>> from missdp.pricing import PrivateLogisticRegression
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
        """Return the logistic loss of a model, with public constants for rows up to a given norm.

        Parameters
        ----------
        radius : float
            Largest Euclidean norm of a row, above 0, in the units of the columns. The constant
            entry of an intercept is not counted.

        Returns
        -------
        Loss
            Public.

        Raises
        ------
        ParameterError
            If ``classes`` are not two different labels, or a norm is out of range.
        """
        constant = CONSTANT * radius if self.fit_intercept else 0.0
        longest = math.hypot(radius, constant)
        norm = LARGEST_SCORE / longest if self.coefficient_norm is None else self.coefficient_norm
        return Loss.logistic(
            radius=longest, coefficient_norm=norm, positive=self._pair()[1:], constant=constant
        )

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return the released model's score of each row: the log odds of the second class.

        Parameters
        ----------
        X : array_like of float, shape (n_rows, n_columns)
            Rows as they reach the estimator, in the column order of the fit. A missing cell
            counts as 0. The rows are not changed.

        Returns
        -------
        ndarray of float, shape (n_rows,)
            Log odds of the second class, in the order of the rows. As private as the rows.

        Raises
        ------
        NotFittedError
            If the model is not fitted.
        DataError
            If the rows are not a table with the columns of the fit.
        SchemaError
            If an attribute of a `Table` is not applicable to some rows. A schema with a unit of
            protection, weights, or facts that are not declared public raises the error, too.
        """
        return self._predictor(X)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the probabilities of both classes for each row, by the released model.

        Parameters
        ----------
        X : array_like of float, shape (n_rows, n_columns)
            Rows as they reach the estimator, in the column order of the fit. A missing cell
            counts as 0. The rows are not changed.

        Returns
        -------
        ndarray of float, shape (n_rows, 2)
            Probabilities in the order of ``classes``. Each row sums to 1. As private as the rows.

        Raises
        ------
        NotFittedError
            If the model is not fitted.
        DataError
            If the rows are not a table with the columns of the fit.
        SchemaError
            If an attribute of a `Table` is not applicable to some rows. A schema with a unit of
            protection, weights, or facts that are not declared public raises the error, too.
        """
        from scipy.special import expit

        second = expit(self._predictor(X))
        return np.column_stack([1 - second, second])

    def predict(self, X: ArrayLike) -> NDArray[np.generic]:
        """Return the more probable class of each row, by the released model.

        Parameters
        ----------
        X : array_like of float, shape (n_rows, n_columns)
            Rows as they reach the estimator, in the column order of the fit. A missing cell
            counts as 0. The rows are not changed.

        Returns
        -------
        ndarray of labels, shape (n_rows,)
            Labels of ``classes``, in the order of the rows. The first class is returned if both
            are equally probable. As private as the rows.

        Raises
        ------
        NotFittedError
            If the model is not fitted.
        DataError
            If the rows are not a table with the columns of the fit.
        SchemaError
            If an attribute of a `Table` is not applicable to some rows. A schema with a unit of
            protection, weights, or facts that are not declared public raises the error, too.
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
    """Differentially private least-squares regression without intercept, by noisy gradient descent.

    Use it on its own for complete rows, or at the end of a `PricedPipeline`. `fit` needs a target.
    It charges the budget for all steps, and then takes ``n_iter`` steps along noisy gradients
    (DP-GD or DP-SGD). Coefficients are projected on a ball after each step. The mean of all
    iterates is released.

    Parameters
    ----------
    target_bound : float, default 1.0
        Public bound, at least 1e-100, in the units of the target. Targets are clipped to
        [-target_bound, target_bound]. An entry that is not a number counts as 0.
    noise_multiplier : float
        Noise of one step divided by its sensitivity to one replaced row, from 1e-9 to 1e10.
    coefficient_norm : float, default 1.0
        Radius of the ball on which coefficients are projected, at least 1e-100.
    method : {"gd", "sgd"}, default "gd"
        Whether a step reads all rows ("gd"), or a fresh secret sample without replacement ("sgd").
    n_iter : int, default 100
        Number of steps, at least 1.
    batch_size : int, default 100
        Rows per step, for "sgd", at least 1. At most the number of rows is used.
    learning_rate : float, default 0.5
        Step size, from 1e-30 to 1e30.
    radius : float, default 1.0
        Public bound on the Euclidean norm of a row, in the units of the columns, from 1e-100 to
        1e100. Longer rows are scaled down to this norm.
    delta : float, default 1e-6
        The delta at which ``guarantee_`` states epsilon, in [0, 1). At 0, only a pure DP bound
        counts, as of Laplace noise.
    budget : Filter, Composition or None, default None
        Privacy budget that `fit` charges before it computes anything. It must accept
        replace-one adjacency. None: a budget for this release alone.
    random_state : int or None, default None
        None draws noise from a secure source. A seed is for tests, and the guarantee then
        states it as a condition.

    Attributes
    ----------
    coef_ : ndarray of float, shape (n_columns,)
        Released coefficients (units of the target per unit of a column), in column order. They
        apply to rows as they reached the estimator.
    intercept_ : float
        Always 0.
    guarantee_ : Guarantee
        The guarantee of the released attributes, under replace-one adjacency (one row is
        replaced, and the number of rows is public). Outside a pipeline it states the condition
        that no preprocessing was fitted to the same table. Public.
    n_features_in_ : int
        Number of columns. Public.

    Raises
    ------
    ParameterError
        If a parameter has an invalid type or value. Some parameters are checked when they are
        set, and the others by `fit`.

    Notes
    -----
    One replaced row moves a mean gradient by at most 2 L / n with L = R (R B + Y). R is the radius,
    B the coefficient norm and Y the bound on targets. Proofs, also for rows that preprocessing
    moves, stand at `Loss.squared`. Use of the noisy gradients is post-processing.

    References
    ----------
    Hu, Sanyal & Schölkopf (2024), for the shift of rows by preprocessing.
    Abadi et al. (2016), for noisy gradients of samples.

    Examples
    --------
    >>> from missdp.pricing import PrivateLinearRegression
    >>> rows, target = [[0.8], [-0.8]] * 500, [0.4, -0.4] * 500
    >>> model = PrivateLinearRegression(noise_multiplier=20.0, random_state=0).fit(rows, target)
    >>> round(float(model.predict([[0.8]])[0]), 1)
    0.4
    """

    target_bound: float = real(1.0, low=1e-100)
    learning_rate: float = real(0.5, low=1e-30, high=1e30)

    def loss(self, radius: float) -> Loss:
        """Return the squared loss of a model, with public constants for rows up to a given norm.

        Parameters
        ----------
        radius : float
            Largest Euclidean norm of a row, above 0, in the units of the columns.

        Returns
        -------
        Loss
            Public.

        Raises
        ------
        ParameterError
            If the radius is not finite and above 0.
        """
        assert self.coefficient_norm is not None  # as it was checked when it was set
        norm, bound = self.coefficient_norm, self.target_bound
        return Loss.squared(radius=radius, coefficient_norm=norm, target_bound=bound)

    def predict(self, X: ArrayLike) -> Floats:
        """Return the predicted target of each row, by the released model.

        Parameters
        ----------
        X : array_like of float, shape (n_rows, n_columns)
            Rows as they reach the estimator, in the column order of the fit. A missing cell
            counts as 0. The rows are not changed.

        Returns
        -------
        ndarray of float, shape (n_rows,)
            Predictions in the units of the target, in the order of the rows. They are not
            clipped. As private as the rows.

        Raises
        ------
        NotFittedError
            If the model is not fitted.
        DataError
            If the rows are not a table with the columns of the fit.
        SchemaError
            If an attribute of a `Table` is not applicable to some rows. A schema with a unit of
            protection, weights, or facts that are not declared public raises the error, too.
        """
        return self._predictor(X)
