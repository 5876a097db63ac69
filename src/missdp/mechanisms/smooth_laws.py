"""Laws of answers whose noise follows a private bound, or a released bound of it.

Every law holds public numbers only: how much noise there is per unit of the bound, and how far the
exact numbers may move. The private bound comes with the exact numbers (`Bounded`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Event
from missdp.errors import UnprovenError
from missdp.mechanisms.movement import above, distance, gaussian_exceeds, pure_exceeds, too_far
from missdp.mechanisms.noise import NoiseSource
from missdp.mechanisms.release import add_noise
from missdp.mechanisms.smooth import SmoothNoise, bits_of, release_smooth
from missdp.mechanisms.smooth_exact import round_cauchy
from missdp.mechanisms.smooth_plan import public_grid

__all__ = ["PAPER_LEAST_EPSILON", "Bounded", "PaperLaw", "ScaledGaussian", "SmoothLaw"]

PAPER_LEAST_EPSILON = 2 * math.log(2)
_LARGEST = 64


@dataclass(frozen=True, repr=False)
class Bounded:
    """Exact numbers and how far a neighbour can move them. Private.

    Parameters
    ----------
    totals : tuple of int
    bound : float
        What the law needs to know: a smooth bound, or the number of rows that one row can move.
    """

    totals: tuple[int, ...]
    bound: float


@dataclass(frozen=True, kw_only=True)
class SmoothLaw:
    """Noise in proportion to a smooth bound of ``own + donee * (rows that one row can move)``.

    Parameters
    ----------
    noise : SmoothNoise
        Public parameters; they state what the answer costs.
    own, donee : float
        How far one row of its own, and one other row that it moves, can move the numbers, in L1.

    Examples
    --------
    >>> from missdp.mechanisms import SecureNoise
    >>> from missdp.mechanisms.smooth_plan import plan_smooth
    >>> law = SmoothLaw(noise=plan_smooth(1.0), own=1, donee=1)
    >>> (answer,) = law.draw(Bounded((100,), 5.0), SecureNoise())
    >>> law.grid, (answer / law.grid).denominator
    (Fraction(1, 256), 1)
    """

    noise: SmoothNoise
    own: float
    donee: float

    @property
    def grid(self) -> Fraction:
        """Spacing of the answers."""
        return public_grid(self.own, self.donee, self.noise.epsilon)

    def draw(self, exact: Bounded, source: NoiseSource) -> tuple[Fraction, ...]:
        """Return the numbers plus noise, rounded to the grid."""
        values = [Fraction(total) for total in exact.totals]
        return release_smooth(values, exact.bound, self.noise, grid=self.grid, source=source)

    def exceeds(self, event: Event, exact: Bounded, other: Bounded) -> str | None:
        """Return why an event does not pay.

        The numbers may move by either bound, and the log of the bound by beta.
        """
        beta = self.noise.beta + 2.0**-36  # bounds are rounded up
        return _bounds_exceed(
            exact.totals, other.totals, (exact.bound, other.bound), beta
        ) or pure_exceeds(event, self.noise.epsilon)

    def log_ratio(self, answer: tuple[Fraction, ...], exact: Bounded, other: Bounded) -> float:
        """Return the log of the answer's density given ``exact`` over that given ``other``.

        Of the real-valued answer, before it is rounded to the grid.
        """
        return self._log_density(answer, exact) - self._log_density(answer, other)

    def _log_density(self, answer: tuple[Fraction, ...], exact: Bounded) -> float:
        scale, exponent = exact.bound / self.noise.alpha, float(self.noise.exponent)
        off = sum(abs(float(a - t)) for a, t in zip(answer, exact.totals, strict=True)) / scale
        if self.noise.law == "lomax":
            tail = (exponent + len(answer)) * math.log1p(off)
        else:
            tail = _log_one_plus_power(off, exponent)
        return -tail - len(answer) * math.log(scale)


@dataclass(frozen=True, kw_only=True)
class ScaledGaussian:
    """Discrete Gaussian noise at a scale that was released before.

    Parameters
    ----------
    sigma : float
    own, donee : float
        How far one row of its own, and one other row that it moves, can move the numbers, in L2.
    most : float
        Released bound on the number of rows that one row can move.
    """

    sigma: float
    own: float
    donee: float
    most: float

    @classmethod
    def costing(cls, rho: float, *, own: float, donee: float, most: float) -> ScaledGaussian:
        """Return the law that is rho-zCDP as long as the released bound holds.

        Examples
        --------
        >>> round(ScaledGaussian.costing(0.5, own=1, donee=1, most=4.0).sigma, 9)
        5.0
        """
        # Room for rounding: here the event states rho, and not the scale.
        sigma = (own + donee * most) / math.sqrt(2 * rho) * (1 + 2.0**-48)
        return cls(sigma=sigma, own=own, donee=donee, most=most)

    def draw(self, exact: NDArray[np.int64], source: NoiseSource) -> NDArray[np.int64]:
        """Return the numbers plus noise."""
        return add_noise(exact, "gaussian", self.sigma, source)

    def exceeds(
        self, event: Event, exact: NDArray[np.int64], other: NDArray[np.int64]
    ) -> str | None:
        """Return why an event does not pay; it may fail where the released bound does."""
        moved, most = distance(exact, other, 2), self.own + self.donee * self.most
        if above(moved, most):
            return too_far(moved, most)
        return gaussian_exceeds(event, moved, self.sigma)

    def log_ratio(
        self, answer: NDArray[np.int64], exact: NDArray[np.int64], other: NDArray[np.int64]
    ) -> float:
        """Return the log of the answer's probability given ``exact`` over that given ``other``."""
        here, there = (np.asarray(answer - e, dtype=np.float64) for e in (exact, other))
        return float((there**2 - here**2).sum() / (2 * self.sigma**2))


@dataclass(frozen=True, kw_only=True)
class PaperLaw:
    """The mechanism of Clifton, Hanson, Merrill & Merrill (2022), for comparison; one number.

    Their bound 1 + L_1 is (ln 2)-smooth and no better, and their generalised Cauchy noise has
    gamma = 1 + epsilon / (2 ln 2) (Corollaries 5.2, 5.5, 5.7). The proof of their Theorem 3.8 needs
    gamma >= 2, that is epsilon >= 2 ln 2: below, the mechanism loses more than the epsilon it
    states (at 0.5 at least 0.9), so it is refused.

    Parameters
    ----------
    epsilon : float
        At least 2 ln 2.
    own, donee : float
        As for `SmoothLaw`; the paper's L_1 is the number of rows that one row can move, and at
        least 1.

    Raises
    ------
    UnprovenError
        If epsilon is below 2 ln 2.

    Examples
    --------
    >>> PaperLaw(epsilon=6 * math.log(2), own=1, donee=1).gamma
    Fraction(4, 1)
    >>> PaperLaw(epsilon=0.5, own=1, donee=1)
    Traceback (most recent call last):
        ...
    missdp.errors.UnprovenError: ...
    """

    epsilon: float
    own: float
    donee: float

    def __post_init__(self) -> None:
        if not PAPER_LEAST_EPSILON <= self.epsilon < math.inf:
            raise UnprovenError(
                "the paper's mechanism is proven for epsilon >= 2 ln 2 = 1.386 only; "
                "use the library's own noise, which is valid for every epsilon"
            )

    @property
    def gamma(self) -> Fraction:
        """Exponent of the tail, rounded down to a sixteenth (which is still private)."""
        # Float rounding of epsilon may not lose a sixteenth; above gamma = 2 the proof has slack.
        sixteenths = math.floor(16 * (1 + self.epsilon / PAPER_LEAST_EPSILON) + 2.0**-30)
        # A smaller gamma from 2 on is private as well; larger ones would take minutes to draw.
        return Fraction(min(sixteenths, 16 * _LARGEST), 16)

    @property
    def grid(self) -> Fraction:
        """Spacing of the answers."""
        return public_grid(self.own, self.donee, self.epsilon)

    def draw(self, exact: Bounded, source: NoiseSource) -> tuple[Fraction, ...]:
        """Return the number plus noise, rounded to the grid."""
        value, scale = Fraction(exact.totals[0]), self._scale(exact) / self.grid
        bits = bits_of(source)
        return (round_cauchy(value / self.grid, scale, gamma=self.gamma, bits=bits) * self.grid,)

    def exceeds(self, event: Event, exact: Bounded, other: Bounded) -> str | None:
        """Return why an event does not pay: as for `SmoothLaw`, and bounds at most double."""
        bounds = tuple(self.own + self.donee * max(each.bound, 1) for each in (exact, other))
        return _bounds_exceed(exact.totals, other.totals, bounds, math.log(2)) or pure_exceeds(
            event, self.epsilon
        )

    def log_ratio(self, answer: tuple[Fraction, ...], exact: Bounded, other: Bounded) -> float:
        """Return the log of the answer's density given ``exact`` over that given ``other``."""
        return self._log_density(answer, exact) - self._log_density(answer, other)

    def _log_density(self, answer: tuple[Fraction, ...], exact: Bounded) -> float:
        scale = float(self._scale(exact))
        off = abs(float(answer[0] - exact.totals[0])) / scale
        return -_log_one_plus_power(off, float(self.gamma)) - math.log(scale)

    def _scale(self, exact: Bounded) -> Fraction:
        bound = self.own + self.donee * max(exact.bound, 1)
        # ln 2 is rounded down, which only adds noise.
        return Fraction(bound) / Fraction(math.log(2) * (1 - 2.0**-40))


def _bounds_exceed(
    totals: tuple[int, ...], others: tuple[int, ...], bounds: tuple[float, ...], beta: float
) -> str | None:
    """Say that numbers moved further than their private bounds, or the bounds too far."""
    moved, (low, high) = float(sum(abs(a - b) for a, b in zip(totals, others, strict=True))), bounds
    low, high = min(low, high), max(low, high)
    if above(moved, low):
        return f"one row moves what is behind it by {moved:g}, and its private bound is {low:g}"
    if not low > 0 or above(math.log(high / low), beta):
        return (
            f"one row moves the private bound from {low:g} to {high:g}, more than a factor of "
            f"{math.exp(beta):g}"
        )
    return None


def _log_one_plus_power(base: float, exponent: float) -> float:
    """Return log(1 + base ** exponent) without overflow."""
    return float(np.logaddexp(0.0, exponent * math.log(base))) if base > 0 else 0.0
