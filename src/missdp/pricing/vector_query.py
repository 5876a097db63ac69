"""Questions about rows whose number is public: a vector computed from them, with discrete noise.

A question is public: what rows it reads, a function of them, and how far one replaced row can move
its value. Its answer is noised as whole numbers: counts as they are, others on a public grid.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from missdp.accounting import Condition, Event, RDPEvent
from missdp.errors import DataError, ParameterError, number, replacing, whole
from missdp.mechanisms.laws import no_warnings, plain_function, read_only
from missdp.mechanisms.noise import (
    NoiseSource,
    above,
    add_noise,
    distance,
    gaussian_exceeds,
    laplace_exceeds,
    too_far,
)
from missdp.pricing.domain import FloatArray, RowDomain
from missdp.pricing.maps import GaussianMap, LaplaceMap, PrivacyMap, Sensitivity, TableDistance

__all__ = [
    "NoiseKind",
    "Question",
    "Target",
    "VectorNoise",
    "VectorQuery",
    "check_frozen",
    "check_kind",
    "check_multiplier",
    "noisy_on_grid",
    "rounding_slack",
    "sum_slack",
]


NoiseKind = Literal["gaussian", "laplace"]
"""The noise of a private estimator."""


class Target(Protocol):
    """How the entries of a target are read as numbers, each by itself; public."""

    def read(self, y: Any) -> FloatArray:
        """Return a number for each entry. An odd one is not refused."""


class Question(Protocol):
    """What can be asked about rows: public facts, from which its price follows."""

    @property
    def domain(self) -> RowDomain:
        """What the rows must be like."""

    @property
    def privacy_map(self) -> PrivacyMap:
        """What the answer reveals, for any distance between two tables of the domain."""

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What the privacy map itself assumes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class VectorQuery:
    """A vector computed from rows, with noise calibrated to what one replaced row can change.

    Parameters
    ----------
    domain : RowDomain
        What the rows are like, made true before the function sees them.
    function : callable
        ``function(rows, *given)``, or ``function(rows, target, *given)`` if there is a target,
        returns ``size`` finite numbers. A plain function without a closure or defaults; arrays
        are handed over read-only.
    size : int
        Number of entries of the vector; public.
    sensitivity : Sensitivity
        How far the vector moves: the author's proof, in Euclidean norm for Gaussian noise, in L1
        norm for Laplace noise. `mean` and `bin_counts` know theirs.
    multiplier : float
        Noise scale over ``sensitivity.replaced``, from 1e-9 to 1e10.
    noise : {"gaussian", "laplace"}, default "gaussian"
    whole : bool, default False
        Whether the vector holds whole numbers, which get whole noise.
    given : tuple, default ()
        Public or released arrays, numbers and text for the function.
    target : Target or None
        How a target is read, if the function takes one.
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
    target: Target | None = None
    averages: bool = False

    def __post_init__(self) -> None:
        plain_function(self.function, "the function of a query")
        check_kind(self.noise)
        check_multiplier(self.multiplier)
        whole("size", self.size)
        if self.target is not None:
            check_frozen(self.target, "a target")
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
        check_kind(noise)
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

    @classmethod
    def bin_counts(
        cls,
        domain: RowDomain,
        *,
        column: int,
        edges: ArrayLike,
        multiplier: float,
        noise: NoiseKind = "gaussian",
    ) -> VectorQuery:
        """Return the query for the number of rows in each bin of a column.

        One replaced row changes two counts by 1. However little a row moves, it may cross an
        edge: there is no Lipschitz constant.
        """
        check_kind(noise)
        known = np.array(edges, dtype=np.float64)
        return cls(
            domain=domain,
            function=_bin_counts,
            size=known.size - 1,
            sensitivity=Sensitivity(replaced=2.0 if noise == "laplace" else math.sqrt(2)),
            multiplier=multiplier,
            noise=noise,
            whole=True,
            given=(column, known),
        )

    @property
    def scale(self) -> float:
        """Scale of the noise on each entry."""
        return self.multiplier * self.sensitivity.replaced

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """No condition."""
        return ()

    @property
    def privacy_map(self) -> PrivacyMap:
        """What the noisy vector reveals."""
        slack = self.law(TableDistance(replaced=1)).slack(self.size)
        if self.averages:
            slack += sum_slack(self.domain.rows, self.multiplier)
        if self.noise == "laplace":
            return LaplaceMap(sensitivity=self.sensitivity, scale=self.scale, slack=slack)
        return GaussianMap(sensitivity=self.sensitivity, sigma=self.scale, slack=slack)

    def law(self, distance: TableDistance) -> VectorNoise:
        """Return the law of the answer, for neighbours that are this far apart where it reads."""
        most = self.sensitivity.largest_shift(distance)
        return VectorNoise(self.noise, self.scale, sensitivity=most, whole=self.whole)

    def exact(self, rows: FloatArray, target: FloatArray | None) -> NDArray[Any]:
        """Return the vector without noise; private."""
        failed = DataError("the function of a query failed")  # an error or a warning could tell
        read = () if target is None else (read_only(target),)
        with replacing(Exception, by=failed), no_warnings():
            found = self.function(read_only(rows), *read, *map(read_only, self.given))
            vector = np.asarray(found, dtype=None if self.whole else np.float64)
        if vector.shape != (self.size,) or not np.isfinite(vector).all():
            raise DataError(f"the function of a query must return {self.size} finite numbers")
        return vector


def _mean(rows: FloatArray) -> FloatArray:
    return np.asarray(rows.mean(axis=0))


def _bin_counts(rows: FloatArray, column: int, edges: FloatArray) -> NDArray[np.int64]:
    bins = np.searchsorted(edges[1:-1], rows[:, column], side="right")
    return np.bincount(bins, minlength=edges.size - 1)


def check_multiplier(value: float) -> float:
    """Return a noise multiplier; refuse what is not a number from 1e-9 to 1e10."""
    return number("noise_multiplier", value, least=1e-9, most=1e10)


def check_frozen(value: Any, what: str) -> None:
    """Refuse what could keep private rows: it must be a frozen dataclass."""
    settings = getattr(type(value), "__dataclass_params__", None)
    if not dataclasses.is_dataclass(value) or settings is None or not settings.frozen:
        raise ParameterError(f"{what} must be a frozen dataclass, so that it can keep no rows")


_FINENESS = 2**20  # Grid cells per standard deviation (or scale) of the noise.
# Rounding two values to the grid moves their difference by at most one cell per coordinate; the
# rest is room for the floating-point error of a few operations (of sums: see `sum_slack`).
_CELLS = 1 + 2**-10
_LARGEST = 2.0**61


@dataclass(frozen=True)
class VectorNoise:
    """The law of a noisy vector, with how far one replaced row can move what is exact.

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
    scale : float
        Standard deviation, or Laplace scale, of the noise on each coordinate; above 0.
    sensitivity : float
        Bound on the distance of the exact vectors of two neighbouring tables, whatever happens to
        rows on the way: in Euclidean norm for Gaussian noise, in L1 norm for Laplace noise.
    whole : bool, default False
        Whether the vector holds whole numbers. They get whole noise, other numbers are rounded to
        a grid first (see `noisy_on_grid`).

    Examples
    --------
    >>> from missdp.mechanisms import SecureNoise
    >>> law = VectorNoise("laplace", 4.0, sensitivity=2.0, whole=True)
    >>> law.draw(np.array([5, 7]), SecureNoise()).shape
    (2,)
    """

    kind: NoiseKind
    scale: float
    sensitivity: float
    whole: bool = False

    def __post_init__(self) -> None:
        check_kind(self.kind)
        if not (0 < self.scale < math.inf and 0 <= self.sensitivity < math.inf):
            raise ParameterError("scale and sensitivity must be finite, scale above 0")

    def slack(self, dimension: int) -> float:
        """Return what rounding adds to sensitivity / scale."""
        if self.whole:
            return 0.0
        return rounding_slack(self.kind, dimension)

    def draw(self, exact: NDArray[Any], source: NoiseSource) -> NDArray[Any]:
        """Return the vector plus noise."""
        if self.whole:
            return add_noise(exact, self.kind, self.scale, source)
        return noisy_on_grid(exact, self.kind, self.scale, source)

    def exceeds(self, event: Event, exact: NDArray[Any], other: NDArray[Any]) -> str | None:
        """Return why an event does not pay: the vector moves too far, or the noise is too small.

        The noise is compared with what is charged as pure epsilon or as rho. A Rényi curve may
        count on samples of the rows, too: there the declared sensitivity alone is checked.
        """
        moved = distance(exact, other, 1 if self.kind == "laplace" else 2)
        if above(moved, self.sensitivity):
            return too_far(moved, self.sensitivity)
        if isinstance(event, RDPEvent):
            return None
        exceeds = laplace_exceeds if self.kind == "laplace" else gaussian_exceeds
        return exceeds(event, moved, self.scale)

    def log_ratio(self, answer: NDArray[Any], exact: NDArray[Any], other: NDArray[Any]) -> float:
        """Return the log of the probability of an answer given one vector over that given another.

        Examples
        --------
        >>> law = VectorNoise("gaussian", 2.0, sensitivity=1.0)
        >>> law.log_ratio(np.array([1.0]), np.array([1.0]), np.array([0.0]))
        0.125
        """
        cell = 1.0 if self.whole else self.scale / _FINENESS
        k, a, b = (_cells(v, cell).astype(np.float64) for v in (answer, exact, other))
        scale = self.scale / cell
        if self.kind == "laplace":
            return float((np.abs(k - b) - np.abs(k - a)).sum() / scale)
        return float(((a - b) * (2 * k - a - b)).sum() / (2 * scale**2))


def check_kind(kind: Any) -> None:
    """Refuse noise that is neither Gaussian nor Laplace."""
    if kind not in get_args(NoiseKind):
        raise ParameterError("mechanism must be 'gaussian' or 'laplace'")


def rounding_slack(kind: NoiseKind, dimension: int) -> float:
    """Return what rounding adds to shift / scale, for a vector of ``dimension`` coordinates.

    Examples
    --------
    >>> rounding_slack("gaussian", 100) < rounding_slack("laplace", 100) < 1e-4
    True
    """
    cells = math.sqrt(dimension) if kind == "gaussian" else dimension
    return cells * _CELLS / _FINENESS


def sum_slack(rows: int, multiplier: float) -> float:
    """Return what adding up in floating point adds to shift / scale, for a mean over ``rows`` rows.

    Neighbours' sums are rounded differently, behind the row that was replaced too (Casacuberta et
    al. 2022). In whatever order m vectors of norm at most L are added up, their mean is off by at
    most m 2^-53 L, but for a relative m 2^-53, in Euclidean norm; in L1 norm by sqrt(d) times that.
    The noise is ``multiplier`` times the sensitivity, 2 L / m (or sqrt(d) times that).

    Examples
    --------
    >>> sum_slack(10_000, 10.0) < 1e-8
    True
    """
    return rows * (rows + 16) * 2.0**-53 / multiplier


def noisy_on_grid(
    values: FloatArray, kind: NoiseKind, scale: float, noise: NoiseSource
) -> FloatArray:
    """Round to a grid of scale / 2**20 and add discrete noise.

    Integers are noised and then rescaled, so no floating-point artefact of the private values
    survives. Guarantee: as `GaussianMap` or `LaplaceMap` with `rounding_slack`.

    Parameters
    ----------
    values : ndarray
        Finite.
    kind : {"gaussian", "laplace"}
    scale : float
        Standard deviation, or Laplace scale, above 0.
    noise : NoiseSource
        Where the noise comes from.

    Returns
    -------
    ndarray
        Of the same shape.

    Examples
    --------
    >>> from missdp.mechanisms.noise import SeededNoise
    >>> noisy_on_grid(np.zeros(3), "gaussian", 0.5, SeededNoise(0)).shape
    (3,)
    """
    cell = scale / _FINENESS
    discrete = noise.discrete_gaussian if kind == "gaussian" else noise.discrete_laplace
    noisy = _cells(values, cell) + discrete(_FINENESS, values.shape)
    return noisy.astype(np.float64) * cell


def _cells(values: FloatArray, cell: float) -> NDArray[np.int64]:
    """Return the values as whole numbers of cells; the sum with the noise is then exact."""
    cells = np.rint(np.asarray(values, dtype=np.float64) / cell)
    # Clipping is a contraction; only noise of 1e-12 of the values could get here.
    return np.clip(cells, -_LARGEST, _LARGEST).astype(np.int64)
