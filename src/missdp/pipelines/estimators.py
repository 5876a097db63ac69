"""Private estimators: what may end a pipeline. Mean, covariance, histogram."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from missdp.accounting import Budget, Condition, DeclaredRowCount, Guarantee, PublicDomain
from missdp.accounting.weakness import warn_if_weak
from missdp.errors import NotFittedError, ParameterError, replacing
from missdp.mechanisms.noise import NoiseSource, noise_source
from missdp.mechanisms.rdp_maps import GaussianMap, LaplaceMap, PrivacyMap, Sensitivity
from missdp.mechanisms.rdp_noise import (
    gaussian_slack,
    laplace_slack,
    noisy_gaussian,
    noisy_laplace,
)
from missdp.pipelines.bounds import bounds
from missdp.transforms import NEIGHBOURS, NotFittedOnThisTable, RowDomain
from missdp.transforms.domain import as_rows
from missdp.transforms.parameters import number, whole

__all__ = [
    "NoiseKind",
    "PrivateCovariance",
    "PrivateEstimator",
    "PrivateHistogram",
    "PrivateMean",
    "TellsUnfitted",
]

FloatArray = NDArray[np.float64]
NoiseKind = Literal["gaussian", "laplace"]


class TellsUnfitted:
    """Mixin: attributes that `fit` sets raise `NotFittedError` before it."""

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_"):
            raise NotFittedError(f"{type(self).__name__} has no {name} yet; call fit first")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class PrivateEstimator(TellsUnfitted, BaseEstimator):  # type: ignore[misc]
    """Base class of mechanisms that end a pipeline.

    Adjacency is *replace-one*: the number of rows is public. Noise is ``noise_multiplier`` times
    the sensitivity to one replaced row, so the guarantee for raw rows depends on it alone.
    Subclasses state their `privacy_map` and implement `release`.

    Fitted on its own, an estimator assumes that nothing upstream was fitted on the same table
    (condition `NotFittedOnThisTable`); `PricedPipeline` accounts for steps that were.

    Attributes
    ----------
    guarantee_ : Guarantee
        After `fit`: what the released attributes promise.
    """

    noise_multiplier: float
    radius: float
    delta: float
    budget: Budget | None
    random_state: int | np.random.Generator | NoiseSource | None

    def privacy_map(self, domain: RowDomain) -> PrivacyMap:
        """Return the privacy map on rows of ``domain``; public facts only."""
        raise NotImplementedError

    def release(
        self, values: FloatArray, y: ArrayLike | None, domain: RowDomain, noise: NoiseSource
    ) -> Self:
        """Compute and keep the private release; called after its cost was charged.

        Raises for no table of the domain: what can be wrong is checked before the charge.
        """
        raise NotImplementedError

    def check_target(self, y: ArrayLike | None, rows: int) -> None:
        """Refuse a target that is not there or of the wrong length, before anything is charged."""
        del y, rows

    def model_conditions(self) -> tuple[Condition, ...]:
        """Return what the privacy map itself assumes; nothing unless a subclass says so."""
        return ()

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Charge the budget, then release.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Rows are scaled down to norm ``radius``; a missing cell counts as 0.
        y : array_like of shape (n,), optional
            Target, for estimators that need one.

        Returns
        -------
        self

        Raises
        ------
        BudgetExceededError
            If the budget cannot afford it; nothing was computed.
        """
        table = as_rows(X)
        domain = RowDomain(rows=table.shape[0], columns=table.shape[1], radius=self.radius)
        self.check_target(y, domain.rows)
        noise = noise_source(self.random_state)
        best = bounds(self.privacy_map(domain), NEIGHBOURS, self.delta, label=self._label())[0]
        conditions = (
            DeclaredRowCount(domain.rows),
            PublicDomain(),
            NotFittedOnThisTable(),
            *self.model_conditions(),
            *noise.conditions,
        )
        guarantee = Guarantee.from_events(
            [best.event], delta=self.delta, adjacency="replace-one", conditions=conditions
        )
        warn_if_weak(guarantee.epsilon, guarantee.delta, n=domain.rows)
        if self.budget is not None:
            self.budget.charge(best.event, conditions=conditions)
        # A fit that is broken off leaves no guarantee of an earlier one behind.
        self.__dict__.pop("guarantee_", None)
        self.n_features_in_ = domain.columns
        self.release(domain.enforce(table), y, domain, noise)
        self.guarantee_ = guarantee
        return self

    def _label(self) -> str:
        return type(self).__name__

    def _multiplier(self) -> float:
        return number("noise_multiplier", self.noise_multiplier, least=1e-9, most=1e10)


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
        random_state: int | np.random.Generator | NoiseSource | None = None,
    ) -> None:
        self.noise_multiplier = noise_multiplier
        self.mechanism = mechanism
        self.radius = radius
        self.delta = delta
        self.budget = budget
        self.random_state = random_state

    def privacy_map(self, domain: RowDomain) -> PrivacyMap:
        """Return the map of the noisy mean."""
        unit = _mean_sensitivity(domain, self.mechanism)
        return additive_map(self.mechanism, unit, self._multiplier(), domain.columns)

    def release(
        self, values: FloatArray, y: ArrayLike | None, domain: RowDomain, noise: NoiseSource
    ) -> Self:
        """Release the noisy mean."""
        del y
        scale = self._multiplier() * _mean_sensitivity(domain, self.mechanism).replaced
        add = noisy_gaussian if self.mechanism == "gaussian" else noisy_laplace
        self.mean_ = add(values.mean(axis=0), scale, noise)
        return self


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
        random_state: int | np.random.Generator | NoiseSource | None = None,
    ) -> None:
        self.noise_multiplier = noise_multiplier
        self.radius = radius
        self.delta = delta
        self.budget = budget
        self.random_state = random_state

    def privacy_map(self, domain: RowDomain) -> PrivacyMap:
        """Return the map of the noisy covariance."""
        entries = domain.columns * (domain.columns + 1) // 2
        return additive_map("gaussian", self._unit(domain), self._multiplier(), entries)

    def release(
        self, values: FloatArray, y: ArrayLike | None, domain: RowDomain, noise: NoiseSource
    ) -> Self:
        """Release the noisy covariance."""
        del y
        centred = values - values.mean(axis=0)
        exact = centred.T @ centred / (domain.rows - 1)
        upper = np.triu_indices(domain.columns)
        stretch = np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
        scale = self._multiplier() * self._unit(domain).replaced
        noisy = noisy_gaussian(exact[upper] * stretch, scale, noise) / stretch
        matrix = np.zeros_like(exact)
        matrix[upper] = noisy
        self.covariance_ = matrix + np.triu(matrix, 1).T
        return self

    def _unit(self, domain: RowDomain) -> Sensitivity:
        R, n = domain.radius, domain.rows
        return Sensitivity(replaced=4 * R**2 / n, l12=4 * R / n, frobenius=4 * R / math.sqrt(n))


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
        random_state: int | np.random.Generator | NoiseSource | None = None,
    ) -> None:
        self.edges = edges
        self.noise_multiplier = noise_multiplier
        self.column = column
        self.mechanism = mechanism
        self.radius = radius
        self.delta = delta
        self.budget = budget
        self.random_state = random_state

    def privacy_map(self, domain: RowDomain) -> PrivacyMap:
        """Return the map of the noisy counts: no Lipschitz constant."""
        if whole("column", self.column, least=0) >= domain.columns:
            raise ParameterError("column must be a column of the table")
        self._edges()
        unit = Sensitivity(replaced=self._unit())
        if self.mechanism == "laplace":
            return LaplaceMap(sensitivity=unit, scale=self._multiplier() * unit.replaced)
        return GaussianMap(sensitivity=unit, sigma=self._multiplier() * unit.replaced)

    def release(
        self, values: FloatArray, y: ArrayLike | None, domain: RowDomain, noise: NoiseSource
    ) -> Self:
        """Release the noisy counts."""
        del y, domain
        edges = self._edges()
        bins = np.searchsorted(edges[1:-1], values[:, int(self.column)], side="right")
        counts = np.bincount(bins, minlength=edges.size - 1)
        scale = self._multiplier() * self._unit()
        laplace = self.mechanism == "laplace"
        draw = noise.discrete_laplace if laplace else noise.discrete_gaussian
        self.counts_ = counts + draw(scale, counts.size)
        return self

    def _edges(self) -> FloatArray:
        with replacing(TypeError, ValueError, by=ParameterError("edges must be numbers")):
            edges = np.asarray(self.edges, dtype=np.float64)
        if edges.ndim != 1 or edges.size < 2 or not np.all(np.diff(edges) > 0):
            raise ParameterError("edges must be at least two increasing numbers")
        return edges

    def _unit(self) -> float:
        _check_kind(self.mechanism)
        return 2.0 if self.mechanism == "laplace" else math.sqrt(2)


def additive_map(
    kind: str, unit: Sensitivity, multiplier: float, dimension: int, *, steps: int = 1
) -> PrivacyMap:
    """Return the map of noise of ``multiplier`` sensitivities on a grid (see `rdp_noise`)."""
    _check_kind(kind)
    scale = multiplier * unit.replaced
    if kind == "laplace":
        return LaplaceMap(sensitivity=unit, scale=scale, slack=laplace_slack(dimension))
    slack = gaussian_slack(dimension)
    return GaussianMap(sensitivity=unit, sigma=scale, steps=steps, slack=slack)


def _check_kind(kind: Any) -> None:
    if kind not in ("gaussian", "laplace"):
        raise ParameterError("mechanism must be 'gaussian' or 'laplace'")


def _mean_sensitivity(domain: RowDomain, kind: NoiseKind) -> Sensitivity:
    _check_kind(kind)
    n, spread = domain.rows, math.sqrt(domain.columns) if kind == "laplace" else 1.0
    return Sensitivity(
        replaced=spread * domain.diameter / n, l12=spread / n, frobenius=spread / math.sqrt(n)
    )
