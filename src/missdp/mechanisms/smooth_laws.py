"""Laws of answers whose noise follows a private bound, or a released bound of it.

Every law holds public numbers only: how much noise there is per unit of the bound, and how far the
exact numbers may move. The private bound comes with the exact numbers (`Bounded`).

Which noise an answer gets and what is charged for it: decided from public facts only.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from missdp.accounting import (
    ApproximateEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    ZCDPEvent,
    scale_for,
)
from missdp.errors import ParameterError, UnprovenError
from missdp.mechanisms.answers import Law, Noise
from missdp.mechanisms.asks import Ask, ReleasedScale
from missdp.mechanisms.exact_smooth import round_cauchy
from missdp.mechanisms.noise import (
    NoiseSource,
    above,
    check_scale,
    distance,
    gaussian_exceeds,
    pure_exceeds,
    too_far,
)
from missdp.mechanisms.questions import Question
from missdp.mechanisms.release import add_noise, count_event
from missdp.mechanisms.smooth import (
    SmoothNoise,
    bits_of,
    plan_smooth,
    public_grid,
    reference_bound,
    release_smooth,
)

__all__ = [
    "PAPER_LEAST_EPSILON",
    "Bounded",
    "Choice",
    "PaperLaw",
    "ScaledGaussian",
    "SmoothKind",
    "SmoothLaw",
    "plain_law",
]


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
    >>> from missdp.mechanisms.smooth import plan_smooth
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
        As for `SmoothLaw`; their L_1 is the number of rows that one row can move, and at least 1.

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
                "the mechanism of Clifton et al. is proven for epsilon >= 2 ln 2 = 1.386 only; "
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


SmoothKind: TypeAlias = Literal["lomax", "cauchy", "paper"]
Radius: TypeAlias = Callable[[float], float]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Rules that turn asks into events, and answers into laws.

    A question that reads cells filled from other rows gets noise in proportion to a private smooth
    bound; or Gaussian noise at a released scale, if that is cheaper; or, if a bound on the rows
    that one row can move is declared, noise for that bound. All others get plain noise.

    Parameters
    ----------
    kind : {"lomax", "cauchy", "paper"}
        Noise in proportion to a private bound.
    cap : int or None
        Declared bound on the rows that one row can move; None if it is private.
    scale : ReleasedScale or None
        A released bound on it.
    """

    kind: SmoothKind = "lomax"
    cap: int | None = None
    scale: ReleasedScale | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(SmoothKind):
            raise ParameterError(f"noise must be one of {get_args(SmoothKind)}, not {self.kind!r}")

    def events(self, ask: Ask, *, depends: bool) -> tuple[Event, ...]:
        """Return what an ask is charged as.

        Raises
        ------
        UnprovenError, ParameterError
            If it cannot be released.
        """
        failure: tuple[Event, ...] = ()
        if ask.delta:
            fails = f"{ask.label} fails"
            failure = (ApproximateEvent(epsilon=0.0, delta=ask.delta, label=fails),)
        return (self._event(ask, depends=depends), *failure)

    def law(self, ask: Ask, event: Event, question: Question, *, depends: bool) -> Law:
        """Return how a question that was charged as ``event`` is answered.

        Raises
        ------
        UnprovenError
            If one row moves the question's result further than was charged for.
        """
        kind = self._kind(ask, depends=depends)
        if kind == "plain":
            self._check_plain(event, question, depends=depends)
            return plain_law(event)
        if not question.donee < math.inf:
            raise UnprovenError("nobody said how far a row whose filled cells change moves this")
        if kind == "gaussian":
            assert self.scale is not None
            assert ask.rho is not None
            return ScaledGaussian.costing(
                ask.rho, own=question.own, donee=question.donee_l2, most=self.scale.donees
            )
        if kind == "paper":
            return PaperLaw(epsilon=ask.epsilon, own=question.own, donee=question.donee)
        noise = self._plan(ask, question.own, question.donee)
        return SmoothLaw(noise=noise, own=question.own, donee=question.donee)

    def radius(self, law: Law, question: Question) -> Radius | None:
        """Return from a level to the half-width of the error; None if the scale is private."""
        unit = float(question.unit)
        if isinstance(law, Noise):
            return (_laplace_radius if law.kind == "laplace" else _gaussian_radius)(law.scale, unit)
        if isinstance(law, ScaledGaussian):
            return _gaussian_radius(law.sigma, unit)
        if self.scale is None or not isinstance(law, SmoothLaw):
            return None
        if law.noise.beta < self.scale.beta:
            return None
        return _scaled(law.noise, (law.own + law.donee * self.scale.donees) * unit)

    def _event(self, ask: Ask, *, depends: bool) -> Event:
        kind = self._kind(ask, depends=depends)
        if kind == "plain":
            size = ask.own * (1 + ask.moves * (self.cap or 0) * depends)
            return _plain_event(ask, size)
        if isinstance(ask.cost, Noise):
            raise UnprovenError("a noise scale cannot be chosen where a private bound sets it")
        if kind == "paper":
            PaperLaw(epsilon=ask.epsilon, own=1, donee=1)
            if ask.dimension > 1:
                raise UnprovenError("the mechanism of Clifton et al. is for single numbers")
        else:
            self._plan(ask, 1.0, float(ask.moves))  # what cannot be released is not charged
        if self._chooses(ask, depends=depends):
            # Which noise it will be depends on a released number. An event may not: both are
            # rho-zCDP, and that alone is stated, whichever it is.
            return ZCDPEvent(rho=ask.rho or 0.0, label=ask.label)
        return PureEvent(epsilon=ask.epsilon, label=ask.label)

    def _check_plain(self, event: Event, question: Question, *, depends: bool) -> None:
        # Without a cap any number of rows may move: no plain noise covers that.
        most = math.inf if self.cap is None else self.cap
        moved = question.donee * most if depends and question.donee and most else 0
        if question.own + moved > getattr(event, "sensitivity", 0):
            raise UnprovenError("the release is more sensitive than what was charged for")

    def _chooses(self, ask: Ask, *, depends: bool) -> bool:
        """Whether the released scale decides between Gaussian and Lomax noise."""
        can = self.scale is not None and self.scale.gaussian and self.cap is None
        return can and depends and ask.rho is not None and self.kind == "lomax"

    def _kind(self, ask: Ask, *, depends: bool) -> str:
        if not depends or self.cap is not None:
            return "plain"
        if not self._chooses(ask, depends=depends):
            return self.kind
        assert self.scale is not None
        assert ask.rho is not None
        lomax = self._plan(ask, 1.0, float(ask.moves))
        heavy = lomax.standard_deviation * reference_bound(lomax.beta, 1.0, float(ask.moves))
        norm_2 = math.sqrt(2.0) if ask.moves > 1 else 1.0
        light = (1 + norm_2 * self.scale.donees) / math.sqrt(2 * ask.rho)
        return "gaussian" if light < heavy and 2 * ask.own * light < 2.0**39 else "lomax"

    def _plan(self, ask: Ask, own: float, donee: float) -> SmoothNoise:
        law: Literal["lomax", "cauchy"] = "cauchy" if self.kind == "cauchy" else "lomax"
        epsilon, dimension = ask.epsilon, ask.dimension
        least = 0.0 if self.scale is None else self.scale.beta
        with contextlib.suppress(UnprovenError):
            return plan_smooth(
                epsilon, own=own, donee=donee, dimension=dimension, law=law, least_beta=least
            )
        return plan_smooth(epsilon, own=own, donee=donee, dimension=dimension, law=law)


def plain_law(event: Event) -> Noise:
    """Return the noise that a Laplace or Gaussian event states."""
    if isinstance(event, GaussianEvent):
        return Noise("gaussian", event.sigma)
    assert isinstance(event, LaplaceEvent)
    return Noise("laplace", event.scale)


def _plain_event(ask: Ask, sensitivity: float) -> Event:
    """Return Laplace or Gaussian noise for whole numbers of known sensitivity."""
    gate = ask.gate or None
    if isinstance(ask.cost, Noise):
        return count_event(
            ask.cost.kind, ask.cost.scale, sensitivity, gate=gate, label=ask.label
        )  # fmt: skip
    if ask.rho is None:
        scale = check_scale("scale", scale_for(sensitivity, ask.epsilon))
        return LaplaceEvent(sensitivity=sensitivity, scale=scale, gate=gate, label=ask.label)
    sigma = math.nextafter(sensitivity / math.sqrt(2 * ask.rho), math.inf)
    check_scale("sigma", sigma)
    return GaussianEvent(sensitivity=sensitivity, sigma=sigma, gate=gate, label=ask.label)


def _laplace_radius(scale: float, unit: float) -> Radius:
    return lambda level: (-scale * math.log1p(-level) + 1) * unit


def _gaussian_radius(sigma: float, unit: float) -> Radius:
    return lambda level: (sigma * float(norm.isf((1 - level) / 2)) + 1) * unit


def _scaled(noise: SmoothNoise, scale: float) -> Radius:
    return lambda level: noise.quantile(level) * scale
