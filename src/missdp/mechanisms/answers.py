"""What passes through a door: released facts, and the one place where private numbers become them.

A test can put another object in the place of `Answers`, one that records every answer of a fit or
repeats recorded ones: whatever a family learns about the rows passes here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Condition, Cost, scale_for
from missdp.errors import ParameterError
from missdp.mechanisms.noise import NoiseSource, check_scale
from missdp.mechanisms.release import CountNoise, add_noise

__all__ = ["Answers", "Noise", "Score", "Total"]

# More noise than exact arithmetic asks for, so that shares of a budget that sum to 1 fit into it.
_ROOM = 1 + 1e-12


@dataclass(frozen=True)
class Total:
    """A released number of rows with the variance of its noise (0: declared public).

    Examples
    --------
    >>> Total(180.0, 400.0).std
    20.0
    """

    value: float
    variance: float

    @property
    def std(self) -> float:
        """Standard deviation of the noise."""
        return math.sqrt(self.variance)


@dataclass(frozen=True)
class Noise:
    """How much noise each released count gets.

    Parameters
    ----------
    kind : {"laplace", "gaussian"}
        Laplace noise is pure DP; Gaussian noise is zCDP.
    scale : float
        The Laplace scale, or the Gaussian sigma; above 0.

    Examples
    --------
    >>> Noise("laplace", 2.0).variance
    8.0
    """

    kind: CountNoise
    scale: float

    def __post_init__(self) -> None:
        if self.kind not in ("laplace", "gaussian"):
            raise ParameterError(f"noise must be 'laplace' or 'gaussian', got {self.kind!r}")
        object.__setattr__(self, "scale", check_scale("scale", self.scale))

    @classmethod
    def worth(cls, cost: Cost) -> Noise:
        """Return the noise with which a marginal costs at most this.

        Examples
        --------
        >>> from missdp.accounting import Cost
        >>> Noise.worth(Cost(currency="zcdp", amount=0.125)).scale > 2
        True
        """
        if cost.currency == "pure":
            return cls("laplace", scale_for(1.0, cost.amount) * _ROOM if cost.amount else math.inf)
        # A Gaussian is rho = 1 / (2 sigma^2), and (order * rho) at a Rényi order.
        rho = cost.amount / (cost.order or 1.0)
        return cls("gaussian", math.sqrt(1 / (2 * rho)) * _ROOM if rho else math.inf)

    @property
    def variance(self) -> float:
        """Variance of the noise of one count."""
        return 2 * self.scale**2 if self.kind == "laplace" else self.scale**2


@dataclass(frozen=True)
class Score:
    """How much a candidate deserves to be selected: a pure function of its exact counts.

    Parameters
    ----------
    function : callable
        ``function(counts, *given)`` returns a finite number. A plain function without a closure or
        defaults, so that it cannot carry counts away: it sees them, what is given, and nothing
        else.
    sensitivity : float
        How far one row can move the score: the author's proof, rounding of the function included.

    Examples
    --------
    >>> def rows_at_first_level(counts):
    ...     return float(counts[0])
    >>> Score(rows_at_first_level, sensitivity=1.0).sensitivity
    1.0
    """

    function: Callable[..., float]
    sensitivity: float

    def __post_init__(self) -> None:
        plain = isinstance(self.function, FunctionType) and not (
            self.function.__closure__ or self.function.__defaults__ or self.function.__kwdefaults__
        )
        if not plain:
            raise ParameterError(
                "a score must be a plain function, without a closure or defaults: hand released "
                "values over with 'given'"
            )
        if isinstance(self.sensitivity, bool) or not 0 < self.sensitivity < math.inf:
            raise ParameterError(f"sensitivity must be above 0, got {self.sensitivity}")

    def of(self, counts: NDArray[np.int64], given: tuple[Any, ...] = ()) -> float:
        """Return the score; private."""
        return float(self.function(_read_only(counts), *map(_read_only, given)))


def _read_only(value: Any) -> Any:
    """Return an array as a view that cannot be written to, and a number as it is."""
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    if value is None or isinstance(value, (bool, int, float, str, np.generic)):
        return value
    raise ParameterError("a score is given arrays and numbers only")


class Answers:
    """Turn exact numbers into released ones. Whoever asks has charged for the answer.

    Parameters
    ----------
    noise : NoiseSource
    """

    def __init__(self, noise: NoiseSource) -> None:
        self._noise = noise

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What an answer rests on."""
        return self._noise.conditions

    def noisy(self, exact: Callable[[], NDArray[np.int64]], noise: Noise) -> NDArray[np.int64]:
        """Return counts plus noise."""
        return add_noise(exact(), noise.kind, noise.scale, self._noise)

    def best(self, scores: Callable[[], NDArray[np.float64]], scale: float) -> int:
        """Return the index of the largest score after adding Gumbel noise to each."""
        return self._noise.noisy_max(scores(), scale)

    def generator(self) -> np.random.Generator:
        """Return a generator for post-processing; its draws protect nothing."""
        return self._noise.generator()
