"""Releases to come: what is asked, which noise it gets, and what is charged for it.

An `Ask` says what is public about a release before anything is computed. `Choice` holds the rules
that turn asks into events, and events into laws, from public facts only. `Released` is what comes
out: numbers, with error bars where the scale of the noise may be told.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import (
    ApproximateEvent,
    Cost,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    ZCDPEvent,
    scale_for,
)
from missdp.errors import ParameterError, UnprovenError
from missdp.mechanisms.laws import Law, Noise
from missdp.mechanisms.noise import above, distance, too_far
from missdp.mechanisms.questions import QUANTA, Question
from missdp.mechanisms.smooth import (
    BarPlan,
    ReleasedScale,
    ScaleRelease,
    SmoothNoise,
    plan_bar,
    plan_smooth,
    reference_bound,
)
from missdp.mechanisms.smooth_laws import SmoothLaw

__all__ = [
    "Ask",
    "BarPlan",
    "Choice",
    "Noisy",
    "Released",
    "ScaleRelease",
    "ScaledGaussian",
    "half_width",
    "plain_law",
    "plan_bar",
]


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A release to come, as far as it is public before anything is computed.

    Parameters
    ----------
    label : str
        For reports.
    cost : Cost or Noise
        What it may spend, in pure epsilon or rho; or the noise itself, for a question that reads no
        cell filled from other rows.
    reads : frozenset of str
        Attributes that the question may read.
    own : float, default 1
        How far one row of its own moves the result.
    moves : int, default 1
        How far one other row moves it, in units of ``own``, at most.
    dimension : int, default 1
        How many numbers the result has.
    observed : bool, default False
        Whether it is asked of the rows as they came, with their holes.
    gate : frozenset of str, default empty
        Rows are read only if all these attributes are observed in them; for ``observed`` ones.
    delta : float, default 0
        Probability that what is deduced from the answer is wrong, if that costs.
    """

    label: str
    cost: Cost | Noise
    reads: frozenset[str] = frozenset()
    own: float = 1
    moves: int = 1
    dimension: int = 1
    observed: bool = False
    gate: frozenset[str] = frozenset()
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "reads", frozenset(self.reads))
        object.__setattr__(self, "gate", frozenset(self.gate))
        if isinstance(self.cost, Cost) and self.cost.currency == "renyi":
            raise ParameterError("a question is paid for in pure epsilon or rho")
        if self.gate and not self.observed:
            raise ParameterError("a gate is for questions of the rows as they came")

    @property
    def epsilon(self) -> float:
        """Pure epsilon that fits into the cost: rho-zCDP follows from sqrt(2 rho)-DP."""
        assert isinstance(self.cost, Cost)
        return self.cost.amount if self.cost.currency == "pure" else math.sqrt(2 * self.cost.amount)

    @property
    def rho(self) -> float | None:
        """The cost if it is a rho."""
        zcdp = isinstance(self.cost, Cost) and self.cost.currency == "zcdp"
        return self.cost.amount if zcdp else None  # type: ignore[union-attr]


Radius: TypeAlias = Callable[[float], float]


@dataclass(frozen=True)
class Noisy:
    """A released number, and what is publicly known of its error.

    Parameters
    ----------
    value : float
    radius, likely : callable or None
        From a level to the half-width that holds the noise with that probability, at most and
        about; None if the scale of the noise is private.
    """

    value: float
    radius: Radius | None
    likely: Radius | None = None

    def within(self, level: float, *, times: float = 1.0) -> tuple[float, float] | None:
        """Interval of the noiseless number, or what it were if noise were that many times less."""
        if self.radius is None:
            return None
        width = self.radius(level) / times
        return self.value - width, self.value + width


# Probabilities beyond levels at which noise is looked at, in falling order.
_BEYOND = np.geomspace(1.0, 1e-7, 301)


def half_width(radius: Radius, std: float, level: float) -> float:
    """Return what holds a noise plus an independent normal error with a probability.

    Rounded up: the noise is taken to be as large as it is at the far end of each of 300 steps.

    Examples
    --------
    >>> wide = half_width(lambda level: -math.log1p(-level), 1.0, 0.95)
    >>> 3.4 < wide < 3.8
    True
    """
    if std <= 0:
        return radius(level)
    from scipy.special import ndtr

    weights = np.append(-np.diff(_BEYOND), _BEYOND[-1]) / 2
    noise = np.array([radius(1 - beyond) for beyond in np.append(_BEYOND[1:], _BEYOND[-1] / 2)])

    def outside(width: float) -> float:
        past = ndtr((noise - width) / std) + ndtr((-noise - width) / std)
        return float(2 * (weights * past).sum())

    low, high = 0.0, radius(1 - _BEYOND[-1]) + 8 * std
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if outside(middle) > 1 - level else (low, middle)
    return high


@dataclass(frozen=True, eq=False)
class Released:
    """Released numbers, with what is publicly known of their error; as in `Noisy`."""

    values: NDArray[np.float64]
    radius: Radius | None
    likely: Radius | None = None

    def each(self) -> list[Noisy]:
        """Return the numbers one by one."""
        return [Noisy(value, self.radius, self.likely) for value in self.values.tolist()]


@dataclass(frozen=True, kw_only=True)
class ScaledGaussian(Noise):
    """Discrete Gaussian noise at a scale that was released before."""

    own: float
    donee: float
    most: float

    @classmethod
    def costing(cls, rho: float, *, own: float, donee: float, most: float) -> ScaledGaussian:
        """Return the law that is rho-zCDP as long as the released bound holds."""
        # Room for rounding: here the event states rho, and not the scale.
        sigma = (own + donee * most) / math.sqrt(2 * rho) * (1 + 2.0**-48)
        return cls("gaussian", sigma, own=own, donee=donee, most=most)

    def exceeds(
        self, event: Event, exact: NDArray[np.int64], other: NDArray[np.int64]
    ) -> str | None:
        """Return why an event does not pay; it may fail where the released bound does."""
        moved, most = distance(exact, other, 2), self.own + self.donee * self.most
        return too_far(moved, most) if above(moved, most) else super().exceeds(event, exact, other)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Rules that turn asks into events, and answers into laws.

    A question that reads cells filled from other rows gets noise in proportion to a private smooth
    bound; or Gaussian noise at a released scale, if that is cheaper. All others get plain noise.

    Parameters
    ----------
    scale : ReleasedScale or None
        A released bound on it.
    """

    scale: ReleasedScale | None = None

    def events(self, ask: Ask, *, depends: bool) -> tuple[Event, ...]:
        """Return what an ask is charged as."""
        event = self._event(ask, depends=depends)
        if not ask.delta:
            return (event,)
        return event, ApproximateEvent(epsilon=0.0, delta=ask.delta, label=f"{ask.label} fails")

    def law(self, ask: Ask, event: Event, question: Question, *, depends: bool) -> Law:
        """Return how a question that was charged as ``event`` is answered."""
        kind = self._kind(ask, depends=depends)
        if kind == "plain":
            if question.own > getattr(event, "sensitivity", 0):
                raise UnprovenError("the release is more sensitive than what was charged for")
            return plain_law(event)
        if not question.donee < math.inf:
            raise UnprovenError("nobody said how far a row whose filled cells change moves this")
        if kind == "gaussian":
            assert self.scale is not None
            assert ask.rho is not None
            return ScaledGaussian.costing(
                ask.rho, own=question.own, donee=question.donee_l2, most=self.scale.donees
            )
        noise = self._plan(ask, question.own, question.donee)
        return SmoothLaw(noise=noise, own=question.own, donee=question.donee)

    def radius(self, law: Law, question: Question, *, likely: bool = False) -> Radius | None:
        """Return from a level to the half-width of the error; None if the scale is private.

        With ``likely``, at the scale as it was released, not at its upper bound.
        """
        unit = float(question.unit)
        if isinstance(law, Noise):
            return lambda level: law.radius(level) * unit
        if self.scale is None or not isinstance(law, SmoothLaw) or law.noise.beta < self.scale.beta:
            return None
        donees = self.scale.likely if likely else self.scale.donees
        scale = (law.own + law.donee * donees) * unit
        return lambda level: law.noise.quantile(level) * scale

    def _event(self, ask: Ask, *, depends: bool) -> Event:
        kind = self._kind(ask, depends=depends)
        if kind == "plain":
            return _plain_event(ask)
        if isinstance(ask.cost, Noise):
            raise UnprovenError("a noise scale cannot be chosen where a private bound sets it")
        self._plan(ask, 1.0, float(ask.moves))  # what cannot be released is not charged
        if self._chooses(ask, depends=depends):
            # Which noise it will be depends on a released number. An event may not: both are
            # rho-zCDP, and that alone is stated, whichever it is.
            return ZCDPEvent(rho=ask.rho or 0.0, label=ask.label)
        return PureEvent(epsilon=ask.epsilon, label=ask.label)

    def _chooses(self, ask: Ask, *, depends: bool) -> bool:
        """Whether the released scale decides between Gaussian and Lomax noise."""
        can = self.scale is not None and self.scale.gaussian
        return can and depends and ask.rho is not None

    def _kind(self, ask: Ask, *, depends: bool) -> str:
        if not depends:
            return "plain"
        if not self._chooses(ask, depends=depends):
            return "lomax"
        assert self.scale is not None
        assert ask.rho is not None
        lomax = self._plan(ask, 1.0, float(ask.moves))
        heavy = lomax.standard_deviation * reference_bound(lomax.beta, 1.0, float(ask.moves))
        norm_2 = math.sqrt(2.0) if ask.moves > 1 else 1.0
        light = (1 + norm_2 * self.scale.donees) / math.sqrt(2 * ask.rho)
        most = 2 * max(ask.own, QUANTA)  # averages are in units as fine as that
        return "gaussian" if light < heavy and most * light < 2.0**39 else "lomax"

    def _plan(self, ask: Ask, own: float, donee: float) -> SmoothNoise:
        least = 0.0 if self.scale is None else self.scale.beta
        facts = {"own": own, "donee": donee, "dimension": ask.dimension}
        with contextlib.suppress(UnprovenError):
            return plan_smooth(ask.epsilon, least_beta=least, **facts)
        return plan_smooth(ask.epsilon, **facts)


def plain_law(event: Event) -> Noise:
    """Return the noise that a Laplace or Gaussian event states."""
    if isinstance(event, GaussianEvent):
        return Noise("gaussian", event.sigma)
    assert isinstance(event, LaplaceEvent)
    return Noise("laplace", event.scale)


def _plain_event(ask: Ask) -> Event:
    """Return Laplace or Gaussian noise for whole numbers of known sensitivity."""
    if isinstance(ask.cost, Noise):
        noise = ask.cost
    elif ask.rho is None:
        noise = Noise("laplace", scale_for(ask.own, ask.epsilon))
    else:
        noise = Noise("gaussian", math.nextafter(ask.own / math.sqrt(2 * ask.rho), math.inf))
    return noise.event(ask.own, gate=ask.gate or None, label=ask.label)
