"""Private estimators: what may end a pipeline. Mean, covariance, histogram."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Budget
from missdp.errors import ParameterError, replacing, whole
from missdp.preprocess.domain import RowDomain
from missdp.preprocess.gradient_steps import Asked
from missdp.preprocess.maps import Sensitivity
from missdp.preprocess.pipeline import PrivateEstimator, RandomState
from missdp.preprocess.questions import NoiseKind, VectorQuery

__all__ = ["PrivateCovariance", "PrivateHistogram", "PrivateMean"]


FloatArray = NDArray[np.float64]


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
        At which `guarantee_` is stated; 0 for Laplace noise if pure DP is wanted.
    budget : Budget or None
        Charged before anything is computed.
    random_state : None, int, Generator or NoiseSource
        None: secure noise. A seed is for tests and becomes a condition.

    Attributes
    ----------
    mean_ : ndarray of shape (d,)
        Released.

    Notes
    -----
    One replaced row moves the mean by 2 R / n, rows that move by tau / n; in L1 both times
    sqrt(d).

    Examples
    --------
    >>> estimator = PrivateMean(noise_multiplier=5.0, random_state=0).fit([[0.1], [0.3]] * 500)
    >>> round(float(estimator.mean_[0]), 1), round(estimator.guarantee_.epsilon, 3)
    (0.2, 0.9)
    """

    def __init__(
        self,
        *,
        noise_multiplier: float,
        mechanism: NoiseKind = "gaussian",
        radius: float = 1.0,
        delta: float = 1e-6,
        budget: Budget | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.noise_multiplier = noise_multiplier
        self.mechanism = mechanism
        self.radius = radius
        self.delta = delta
        self.budget = budget
        self.random_state = random_state

    def question(self, domain: RowDomain) -> VectorQuery:
        """Return the query for the mean row."""
        return VectorQuery.mean(domain, multiplier=self.noise_multiplier, noise=self.mechanism)

    def keep(self, question: Asked, answer: FloatArray) -> None:
        """Keep the noisy mean."""
        del question
        self.mean_ = answer


class PrivateCovariance(PrivateEstimator):
    """Covariance matrix (divisor n - 1) with symmetric Gaussian noise.

    Parameters
    ----------
    noise_multiplier, radius, delta, budget, random_state
        See `PrivateMean`.

    Attributes
    ----------
    covariance_ : ndarray of shape (d, d)
        Released; symmetric, not necessarily positive.

    Notes
    -----
    Replacing z by z' beside n - 1 rows of mean m changes the matrix by exactly (b b' - a a') / n,
    a = z - m, b = z' - m. In Frobenius norm that is at most 4 R^2 / n: the square, |a|^4 + |b|^4 -
    2 (a.b)^2, is convex in |a|^2 along each ray and in m, so it is largest with z (and z') either
    at m, where it is at most (2R)^4, or on the sphere, where with m on the sphere too and
    s = |z + z'|, in units of R, it is at most 16 - s^4. A row that moves by d adds at most
    4 R d / n. The upper triangle is noised, with off-diagonal
    entries scaled by sqrt(2) so that its Euclidean norm is the Frobenius norm.

    Examples
    --------
    >>> rows = [[0.5, 0.5], [-0.5, -0.5]] * 500
    >>> estimator = PrivateCovariance(noise_multiplier=5.0, random_state=0).fit(rows)
    >>> estimator.covariance_.shape
    (2, 2)
    """

    def __init__(
        self,
        *,
        noise_multiplier: float,
        radius: float = 1.0,
        delta: float = 1e-6,
        budget: Budget | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.noise_multiplier = noise_multiplier
        self.radius = radius
        self.delta = delta
        self.budget = budget
        self.random_state = random_state

    def question(self, domain: RowDomain) -> VectorQuery:
        """Return the query for the upper triangle, off-diagonal entries stretched by sqrt(2)."""
        R, n = domain.radius, domain.rows
        return VectorQuery(
            domain=domain,
            function=_stretched_covariance,
            size=domain.columns * (domain.columns + 1) // 2,
            sensitivity=Sensitivity(
                replaced=4 * R**2 / n, l12=4 * R / n, frobenius=4 * R / math.sqrt(n)
            ),
            multiplier=self.noise_multiplier,
            averages=True,  # squared distances to the mean, R^2 on average at most
        )

    def keep(self, question: Asked, answer: FloatArray) -> None:
        """Keep the noisy covariance."""
        columns = question.domain.columns
        matrix = np.zeros((columns, columns))
        matrix[np.triu_indices(columns)] = answer / _stretch(columns)
        self.covariance_ = matrix + np.triu(matrix, 1).T


class PrivateHistogram(PrivateEstimator):
    """Counts of one column in declared bins, with discrete noise.

    Parameters
    ----------
    edges : sequence of float
        Bin edges, increasing; public. Values outside count in the first or last bin.
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

    def __init__(
        self,
        *,
        edges: Sequence[float],
        noise_multiplier: float,
        column: int = 0,
        mechanism: NoiseKind = "gaussian",
        radius: float = 1.0,
        delta: float = 1e-6,
        budget: Budget | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.edges = edges
        self.noise_multiplier = noise_multiplier
        self.column = column
        self.mechanism = mechanism
        self.radius = radius
        self.delta = delta
        self.budget = budget
        self.random_state = random_state

    def question(self, domain: RowDomain) -> VectorQuery:
        """Return the query for the counts."""
        if (column := whole("column", self.column, least=0)) >= domain.columns:
            raise ParameterError("column must be a column of the table")
        return VectorQuery.bin_counts(
            domain,
            column=column,
            edges=self._edges(),
            multiplier=self.noise_multiplier,
            noise=self.mechanism,
        )

    def keep(self, question: Asked, answer: NDArray[np.int64]) -> None:
        """Keep the noisy counts."""
        del question
        self.counts_ = answer

    def _edges(self) -> FloatArray:
        with replacing(TypeError, ValueError, by=ParameterError("edges must be numbers")):
            edges = np.asarray(self.edges, dtype=np.float64)
        if edges.ndim != 1 or edges.size < 2 or not np.all(np.diff(edges) > 0):
            raise ParameterError("edges must be at least two increasing numbers")
        return edges


def _stretched_covariance(rows: FloatArray) -> FloatArray:
    """Return the upper triangle such that its Euclidean norm is the matrix's Frobenius norm."""
    centred = rows - rows.mean(axis=0)
    exact = centred.T @ centred / (len(rows) - 1)
    columns = rows.shape[1]
    return np.asarray(exact[np.triu_indices(columns)] * _stretch(columns))


def _stretch(columns: int) -> FloatArray:
    upper = np.triu_indices(columns)
    return np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
