"""The two mechanisms of counts and scores: `Noise` and `Selection`.

Whether an event pays for how far a neighbour moves what is exact is what ``exceeds`` of mechanisms
asks of the checks in the middle: each returns what is wrong, in words, or None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from missdp.accounting import (
    ApproximateEvent,
    Cost,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SelectionEvent,
    ZCDPEvent,
    scale_for,
)
from missdp.accounting.costs import gdp_noise
from missdp.errors import DataError, UnprovenError, one_of, replacing
from missdp.mechanisms.exact_noise import NoiseSource, SelectionNoise, check_scale
from missdp.types import Floats, Ints

CountNoise = Literal["laplace", "gaussian"]
"""The noise of released counts."""


# Counts beyond this are clipped, which moves no two neighbours further apart, so that adding
# noise cannot wrap around.
_MAX_COUNT = 2**61


def _as_counts(values: ArrayLike) -> Ints:
    """Return int64 counts; refuse, without naming a value, what is not finite and whole."""
    refusal = DataError("counts must form one array of whole numbers")
    with replacing(TypeError, ValueError, by=refusal):
        array = np.asarray(values)
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or (array != np.rint(array)).any():
            raise DataError("counts must be finite whole numbers")
    elif array.dtype.kind not in "iub":
        raise DataError(f"counts must be whole numbers, got dtype {array.dtype}")
    if array.dtype.kind == "u":
        return np.minimum(array.astype(np.uint64), _MAX_COUNT).astype(np.int64)
    wide = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
    return np.clip(wide, -_MAX_COUNT, _MAX_COUNT).astype(np.int64)


def above(found: float, most: float) -> bool:
    """Whether a number is above another by more than rounding makes of it; NaN always is."""
    return not found <= most * (1 + 1e-9)


def distance(exact: Any, other: Any, norm: float) -> float:
    """Return how far two arrays of numbers are apart, in L1 or L2 norm."""
    gap = (np.asarray(exact) - np.asarray(other)).astype(np.float64).ravel()
    return float(np.linalg.norm(gap, norm))


def too_far(found: float, most: float, what: str = "what is behind it") -> str | None:
    """Say so if one row moves something further than was charged for."""
    said = f"one row moves {what} by {found:g}, and {most:g} was charged for"
    return said if above(found, most) else None


def pure_exceeds(event: Event, epsilon: float) -> str | None:
    """Return why an event does not pay for an epsilon-DP answer."""
    paid = _epsilon_paid(event)
    if paid is None:
        return other_kind(event, "a pure epsilon")
    if above(epsilon, paid):
        return f"the answer reveals epsilon {epsilon:g}, and {paid:g} was charged for"
    return None


def _epsilon_paid(event: Event) -> float | None:
    """Return the pure epsilon that an event pays for; None if it states none."""
    if isinstance(event, PureEvent | ApproximateEvent):
        return event.epsilon
    if isinstance(event, LaplaceEvent):
        return event.sensitivity / event.scale
    return math.sqrt(2 * event.rho) if isinstance(event, ZCDPEvent) else None


def other_kind(event: Event, what: str) -> str:
    """Say that an event is none that pays for something."""
    return f"{type(event).__name__} does not say what {what} costs: charge an event that does"


# More noise than exact arithmetic asks for, so that shares of a budget that sum to 1 fit into it.
_ROOM = 1 + 1e-12


@dataclass(frozen=True)
class Noise:
    """How much noise each released count gets.

    Parameters
    ----------
    kind : {"laplace", "gaussian"}
        Laplace noise is pure DP; Gaussian noise is zCDP.
    scale : float
        The Laplace scale, or the Gaussian sigma; above 0.
    steps : int, default 1
        How many steps a row has: exact counts are in steps, where rows do not count alike, and so
        is the discrete noise, of ``steps`` times the scale. It costs the same, since a row moves
        them as many steps further. Released counts are in rows, rounded.

    Examples
    --------
    >>> Noise("laplace", 2.0).variance
    8.0
    """

    kind: CountNoise
    scale: float
    steps: int = 1

    def __post_init__(self) -> None:
        one_of("noise", self.kind, get_args(CountNoise))
        object.__setattr__(self, "scale", check_scale("scale", self.scale))
        check_scale("scale", self.scale * self.steps)

    @classmethod
    def worth(cls, cost: Cost, *, sensitivity: float = 1.0) -> Noise:
        """Return the noise with which whole numbers cost at most this, if a row moves them so far.

        The sensitivity is in L1 norm for a cost in pure epsilon, else in L2 norm.

        >>> Noise.worth(Cost(currency="zcdp", amount=0.125)).scale > 2
        True
        """
        if cost.currency == "pure":
            scale = scale_for(sensitivity, cost.amount) if cost.amount else math.inf
            return cls("laplace", scale * _ROOM)
        if cost.currency == "gdp":
            return cls("gaussian", gdp_noise(cost.amount, sensitivity=sensitivity) * _ROOM)
        # A Gaussian is rho = 1 / (2 sigma^2), and (order * rho) at a Rényi order.
        rho = cost.amount / (cost.order or 1.0)
        sigma = sensitivity * math.sqrt(1 / (2 * rho)) if rho else math.inf
        return cls("gaussian", sigma * _ROOM)

    @property
    def norm(self) -> float:
        """The norm in which it matters how far a row moves the counts: 1 or 2."""
        return 1 if self.kind == "laplace" else 2

    @property
    def variance(self) -> float:
        """Variance of the noise of one count."""
        return 2 * self.scale**2 if self.kind == "laplace" else self.scale**2

    @property
    def std(self) -> float:
        """Standard deviation of the noise of one count."""
        return math.sqrt(self.variance)

    @property
    def error(self) -> float:
        """Mean absolute noise of one count."""
        return self.scale if self.kind == "laplace" else math.sqrt(2 / math.pi) * self.scale

    def radius(self, level: float) -> float:
        """Return the half-width that holds the noise of one count with this probability."""
        from scipy.special import ndtri

        if self.kind == "laplace":
            return 1 - self.scale * math.log1p(-level)
        return 1 - self.scale * float(ndtri((1 - level) / 2))

    def draw(self, exact: Ints, source: NoiseSource) -> Ints:
        """Return counts plus noise."""
        counts = _as_counts(exact)
        draw = source.discrete_laplace if self.kind == "laplace" else source.discrete_gaussian
        found = np.asarray(counts + draw(self._scale, counts.shape), dtype=np.int64)
        return found if self.steps == 1 else np.rint(found / self.steps).astype(np.int64)

    def event(self, sensitivity: float, *, gate: Iterable[str] | None, label: str) -> Event:
        """Return the fact that numbers which a row moves so far are released with this noise."""
        moved = sensitivity * self.steps
        facts: dict[str, Any] = {"gate": gate, "label": label, "sensitivity": moved}
        if self.kind == "laplace":
            return LaplaceEvent(scale=self._scale, **facts)
        return GaussianEvent(sigma=self._scale, **facts)

    @property
    def _scale(self) -> float:
        """In steps."""
        return self.scale * self.steps

    def exceeds(self, event: Event, exact: Ints, other: Ints) -> str | None:
        """Return why an event does not pay: counts move too far, or the noise is too small."""
        moved, scale, laplace = distance(exact, other, self.norm), self._scale, self.norm == 1
        if laplace and not isinstance(event, LaplaceEvent):
            return pure_exceeds(event, moved / scale)
        if isinstance(event, ZCDPEvent):
            return too_far(moved, math.sqrt(2 * event.rho) * scale)
        if not isinstance(event, LaplaceEvent if laplace else GaussianEvent):
            return other_kind(event, "Gaussian noise")
        charged = event.scale if isinstance(event, LaplaceEvent) else event.sigma
        least = charged * moved / event.sensitivity
        little = f"noise is of scale {scale:g}, and at least {least:g} was charged for"
        return too_far(moved, event.sensitivity) or (little if above(least, scale) else None)

    def log_ratio(self, answer: Ints, exact: Ints, other: Ints) -> float:
        """Return the log of how much likelier an answer is given ``exact`` than given ``other``."""
        released = np.asarray(answer, dtype=np.float64) * self.steps
        here, there = (released - counts for counts in (exact, other))
        if self.kind == "laplace":
            return float((np.abs(there) - np.abs(here)).sum() / self._scale)
        return float(((there - here) * (there + here)).sum() / (2 * self._scale**2))


SelectionMethod = Literal["exponential", "permute-and-flip"]
"""How one of several candidates is selected privately."""


@dataclass(frozen=True)
class Selection:
    """The candidate with the largest score after adding noise to each.

    Parameters
    ----------
    epsilon : float
        Above 0.
    sensitivity : float
        How far one row can move a score.
    method : {"exponential", "permute-and-flip"}
        Gumbel noise, whose range is bounded; or exponential noise, which errs less, but is pure DP
        and no more.
    """

    epsilon: float
    sensitivity: float
    method: SelectionMethod = "exponential"

    norm: ClassVar[float] = math.inf  # in which it matters how far a row moves the scores

    def __post_init__(self) -> None:
        one_of("method", self.method, get_args(SelectionMethod))
        for name in ("epsilon", "sensitivity"):  # of 64 bits, whatever was passed
            object.__setattr__(self, name, float(getattr(self, name)))
        check_scale("2 * sensitivity / epsilon", self.scale)

    @property
    def scale(self) -> float:
        """Of the noise, rounded up: it keeps the promise."""
        return scale_for(self.sensitivity, self.epsilon, count=2)

    def event(
        self, sensitivity: float, *, gate: Iterable[str] | None = None, label: str = ""
    ) -> Event:
        """Return the fact that one of several candidates is selected, whose scores move so far."""
        if sensitivity > self.sensitivity:
            raise UnprovenError("a score is more sensitive than its selection")
        kind = SelectionEvent if self.method == "exponential" else PureEvent
        return kind(epsilon=self.epsilon, gate=gate, label=label)  # type: ignore[arg-type]

    def draw(self, exact: Floats, source: NoiseSource) -> int:
        """Return the position of the candidate that is selected."""
        noise: SelectionNoise = "gumbel" if self.method == "exponential" else "exponential"
        return source.noisy_max(exact, self.scale, noise=noise)

    def exceeds(self, event: Event, exact: Floats, other: Floats) -> str | None:
        """Return why an event does not pay: some score moves too far for its epsilon.

        A `SelectionEvent` does not pay for permute-and-flip, whose range is not bounded.
        """
        paid = _epsilon_paid(event)
        ranged = self.method == "exponential" or not isinstance(event, SelectionEvent)
        if paid is None or not ranged:
            return other_kind(event, "a selection")
        moved = float(np.abs(np.subtract(exact, other, dtype=np.float64)).max(initial=0.0))
        return too_far(moved, paid * self.scale / 2, "a score")

    def log_ratio(self, answer: int, exact: Floats, other: Floats) -> float:
        """Return the log of how much likelier an answer is given ``exact`` than given ``other``."""
        here, there = (self._log_chance(int(answer), scores) for scores in (exact, other))
        return here - there

    def _log_chance(self, answer: int, scores: Floats) -> float:
        z = np.asarray(scores, dtype=np.float64) / self.scale
        if self.method == "exponential":
            return float(z[answer] - np.logaddexp.reduce(z))
        # A candidate flips at a uniform time t, if no other has passed its coin before. The chance
        # of that is a polynomial of t, of lower degree than these nodes integrate exactly.
        coins = np.exp(z - z.max())
        nodes, weights = np.polynomial.legendre.leggauss(len(z) // 2 + 1)
        passed = np.delete(coins, answer)[:, np.newaxis] * (nodes + 1) / 2
        first = float((weights * np.prod(1 - passed, axis=0)).sum() / 2)
        return float(z[answer] - z.max()) + math.log(first)
