"""Questions about rows whose number is public: what is asked, and with which noise."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from missdp.accounting import Condition
from missdp.errors import DataError, ParameterError, replacing
from missdp.mechanisms.answers import no_warnings, plain_function, read_only
from missdp.mechanisms.parameters import number, whole
from missdp.mechanisms.rdp_maps import GaussianMap, LaplaceMap, PrivacyMap, Sensitivity
from missdp.mechanisms.rdp_noise import NoiseKind, VectorNoise, check_kind, sum_slack
from missdp.mechanisms.row_domain import RowDomain, Target
from missdp.mechanisms.table_distance import TableDistance

__all__ = ["NoiseKind", "Question", "VectorQuery", "check_frozen", "check_multiplier"]

FloatArray = NDArray[np.float64]


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
