"""Which noise an answer gets and what is charged for it: decided from public facts only."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

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
from missdp.mechanisms.asks import Ask
from missdp.mechanisms.noise import check_scale
from missdp.mechanisms.questions import Question
from missdp.mechanisms.release import count_event
from missdp.mechanisms.smooth import SmoothNoise
from missdp.mechanisms.smooth_laws import PaperLaw, ScaledGaussian, SmoothLaw
from missdp.mechanisms.smooth_plan import plan_smooth, reference_bound
from missdp.mechanisms.smooth_scale import ReleasedScale

__all__ = ["Choice", "SmoothKind", "plain_law"]

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
                raise UnprovenError("the paper's mechanism is for single numbers")
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
