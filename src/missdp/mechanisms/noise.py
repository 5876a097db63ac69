"""Where noise comes from: secure (the operating system's CSPRNG) or seeded (tests only).

Both sources draw by the same exact samplers (`missdp.mechanisms.exact_noise`): they differ only in
where the bits come from.

Whole counts plus noise are released by `add_noise`, for which an event was charged before. Whether
that event pays for how far a neighbour moves the counts is what the laws' ``exceeds`` ask of the
checks at the end: each returns what is wrong, in words, or None.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from missdp.accounting import (
    ApproximateEvent,
    Condition,
    Event,
    ExplicitSeed,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    ZCDPEvent,
)
from missdp.errors import DataError, ParameterError, replacing
from missdp.mechanisms.exact_noise import (
    Words,
    draw,
    exponential_choice,
    os_words,
    permute_and_flip,
    seeded_words,
)
from missdp.types import Ints

__all__ = ["NoiseSource", "SecureNoise", "SeededNoise", "check_scale", "noise_source"]


Size = int | tuple[int, ...]
SelectionNoise = Literal["gumbel", "exponential"]
"""The noise of scores, of which the largest is selected."""
# Far above any useful noise, far below what could overflow 64-bit integers.
_MAX_SCALE = 2.0**40


class NoiseSource:
    """What a mechanism draws from: `SecureNoise` for releases, `SeededNoise` for tests.

    Both draw by the same exact samplers; they differ in where the random bits come from.

    Examples
    --------
    >>> from missdp.mechanisms import NoiseSource, SeededNoise
    >>> isinstance(SeededNoise(0), NoiseSource)
    True
    """

    conditions: ClassVar[tuple[Condition, ...]] = ()
    """What a release made with this source rests on."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def generator(self) -> np.random.Generator:
        """Return a generator for post-processing (sampling synthetic rows, say)."""
        raise NotImplementedError

    def discrete_laplace(self, scale: float, size: Size) -> Ints:
        """Draw integers with mass proportional to exp(-abs(x) / scale), exactly.

        Parameters
        ----------
        scale : float
            Above 0, at most 2**40.
        size : int or tuple of int
            Shape of the result.
        """
        return draw("laplace", check_scale("scale", scale), size, self._words)

    def discrete_gaussian(self, sigma: float, size: Size) -> Ints:
        """Draw integers with mass proportional to exp(-x^2 / (2 sigma^2)), exactly.

        Parameters
        ----------
        sigma : float
            Above 0, at most 2**40.
        size : int or tuple of int
            Shape of the result.
        """
        return draw("gaussian", check_scale("sigma", sigma), size, self._words)

    def noisy_max(
        self, scores: NDArray[np.float64], scale: float, *, noise: SelectionNoise = "gumbel"
    ) -> int:
        """Return the index of the largest score after adding independent noise to each.

        Parameters
        ----------
        scores : array of float, shape (k,)
            Finite, k at least 1.
        scale : float
            Noise scale, above 0, at most 2**40.
        noise : {"gumbel", "exponential"}
            With scale 2 * sensitivity / epsilon, Gumbel noise is the exponential mechanism
            (epsilon-bounded range) and exponential noise is permute-and-flip (epsilon-DP,
            McKenna & Sheldon 2020).
        """
        if noise not in get_args(SelectionNoise):
            raise ParameterError(f"noise must be 'gumbel' or 'exponential', got {noise!r}")
        values, scale = _check_scores(scores), check_scale("scale", scale)
        choose = exponential_choice if noise == "gumbel" else permute_and_flip
        return choose(values, scale, self._words)

    def coins(self, rate: float, count: int) -> NDArray[np.bool_]:
        """Flip independent coins that fall on True with probability ``rate``, never more.

        Parameters
        ----------
        rate : float
            In [0, 1]; rounded down to a multiple of 2**-64, which floats from 2**-11 on are.
        count : int
            Number of coins.
        """
        if not 0 <= rate <= 1:
            raise ParameterError(f"rate must be in [0, 1], got {rate}")
        if rate == 1:
            return np.ones(count, dtype=np.bool_)
        return self._words(count) < np.uint64(int(Fraction(rate) * 2**64))


class SecureNoise(NoiseSource):
    """Exact discrete noise from the operating system's cryptographic generator. For releases.

    Draws have the discrete Laplace or Gaussian law itself (nothing is rounded or cut off), at tens
    of millions a second. Selection adds Gumbel noise (the exponential mechanism) or exponential
    noise (permute-and-flip) to scores. Random bits are fetched for each call and never kept, so
    forked processes, threads and pickled copies share none. How long a draw takes is not hidden.

    Examples
    --------
    >>> from missdp.mechanisms import SecureNoise
    >>> SecureNoise().discrete_laplace(2.0, 3).shape
    (3,)
    """

    def __init__(self) -> None:
        super().__init__(os_words)

    def generator(self) -> np.random.Generator:
        """Return a fresh generator seeded by the operating system, for post-processing only."""
        return np.random.default_rng()

    def __repr__(self) -> str:
        return "SecureNoise()"


class SeededNoise(NoiseSource):
    """Reproducible noise: the same samplers over a NumPy generator. A release must not use it.

    Parameters
    ----------
    seed : int or numpy.random.Generator
        Where to start. Two sources with equal integer seeds draw the same numbers.

    Examples
    --------
    >>> from missdp.mechanisms import SeededNoise
    >>> a, b = SeededNoise(7), SeededNoise(7)
    >>> bool((a.discrete_gaussian(3.0, 5) == b.discrete_gaussian(3.0, 5)).all())
    True
    """

    conditions = (ExplicitSeed(),)
    """Whoever knows the seed can subtract the noise."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.conditions is not SeededNoise.conditions:
            raise TypeError("seeded noise always has the condition ExplicitSeed")

    def __init__(self, seed: int | np.random.Generator) -> None:
        self._generator = np.random.default_rng(seed)
        super().__init__(seeded_words(self._generator))

    def generator(self) -> np.random.Generator:
        """Return a generator spawned from this one, for post-processing only."""
        return self._generator.spawn(1)[0]

    def __repr__(self) -> str:
        return "SeededNoise()"


def noise_source(
    random_state: int | np.random.Generator | NoiseSource | None = None,
) -> NoiseSource:
    """Return the noise source for a ``random_state`` argument.

    Parameters
    ----------
    random_state : int, numpy.random.Generator, NoiseSource or None
        None (the default) gives `SecureNoise`; a seed or generator gives `SeededNoise`, whose
        releases carry the condition `ExplicitSeed`. A source is returned as it is.

    Returns
    -------
    NoiseSource

    Raises
    ------
    ParameterError
        For anything else.

    Examples
    --------
    >>> from missdp.mechanisms import noise_source
    >>> noise_source(), noise_source(0)
    (SecureNoise(), SeededNoise())
    """
    if random_state is None:
        return SecureNoise()
    if isinstance(random_state, NoiseSource):
        return random_state
    whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if isinstance(random_state, np.random.Generator) or (whole and random_state >= 0):
        return SeededNoise(random_state)
    raise ParameterError(
        "random_state must be None, a non-negative int or a numpy.random.Generator, "
        f"got {type(random_state).__name__}"
    )


def check_scale(name: str, value: float) -> float:
    """Return a noise scale as a float; refuse what is not above 0 and at most 2**40."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0 < value <= _MAX_SCALE:
        raise ParameterError(f"{name} must be above 0 and at most 2**40, got {value}")
    return float(value)


def _check_scores(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ParameterError("scores must be a non-empty one-dimensional array")
    if not np.isfinite(values).all():
        raise DataError("scores must all be finite")
    return values


CountNoise = Literal["laplace", "gaussian"]
"""The noise of released counts."""


def add_noise(
    counts: ArrayLike, noise: CountNoise, scale: float, source: NoiseSource
) -> NDArray[np.int64]:
    """Return integer counts plus discrete noise; whoever calls this has charged for it."""
    exact = _as_counts(counts)
    draw = source.discrete_laplace if noise == "laplace" else source.discrete_gaussian
    return np.asarray(exact + draw(float(scale), exact.shape), dtype=np.int64)


# Counts beyond this are clipped, which moves no two neighbours further apart, so that adding
# noise cannot wrap around.
_MAX_COUNT = 2**61


def _as_counts(values: ArrayLike) -> NDArray[np.int64]:
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


_ROUNDING = 1e-9


def above(found: float, most: float) -> bool:
    """Whether a number is above another by more than rounding makes of it; NaN always is."""
    return not found <= most * (1 + _ROUNDING)


def distance(exact: Any, other: Any, norm: int) -> float:
    """Return how far two arrays of numbers are apart, in L1 or L2 norm."""
    gap = (np.asarray(exact) - np.asarray(other)).astype(np.float64).ravel()
    return float(np.linalg.norm(gap, norm))


def too_far(found: float, most: float, what: str = "what is behind it") -> str:
    """Say that one row moves something further than was charged for."""
    return f"one row moves {what} by {found:g}, and {most:g} was charged for"


def laplace_exceeds(event: Event, moved: float, scale: float) -> str | None:
    """Return why an event does not pay for Laplace noise of a scale on numbers that moved in L1."""
    if isinstance(event, LaplaceEvent):
        return _noise_exceeds(moved, scale, event.sensitivity, event.scale)
    epsilon = epsilon_paid(event)
    return other_kind(event, "Laplace noise") if epsilon is None else _lost(moved / scale, epsilon)


def gaussian_exceeds(event: Event, moved: float, sigma: float) -> str | None:
    """Return why an event does not pay for Gaussian noise on numbers that moved in L2."""
    if isinstance(event, GaussianEvent):
        return _noise_exceeds(moved, sigma, event.sensitivity, event.sigma)
    if isinstance(event, ZCDPEvent):
        most = math.sqrt(2 * event.rho) * sigma
        return too_far(moved, most) if above(moved, most) else None
    return other_kind(event, "Gaussian noise")


def pure_exceeds(event: Event, epsilon: float) -> str | None:
    """Return why an event does not pay for an epsilon-DP answer."""
    paid = epsilon_paid(event)
    return other_kind(event, "a pure epsilon") if paid is None else _lost(epsilon, paid)


def epsilon_paid(event: Event) -> float | None:
    """Return the pure epsilon that an event pays for; None if it states none."""
    if isinstance(event, PureEvent | ApproximateEvent):
        return event.epsilon
    if isinstance(event, LaplaceEvent):
        return event.sensitivity / event.scale
    return math.sqrt(2 * event.rho) if isinstance(event, ZCDPEvent) else None


def _noise_exceeds(moved: float, scale: float, sensitivity: float, charged: float) -> str | None:
    if above(moved, sensitivity):
        return too_far(moved, sensitivity)
    least = charged * moved / sensitivity
    if above(least, scale):
        return f"noise is drawn with scale {scale:g}, and at least {least:g} was charged for"
    return None


def _lost(found: float, paid: float) -> str | None:
    if above(found, paid):
        return f"the answer reveals epsilon {found:g}, and {paid:g} was charged for"
    return None


def other_kind(event: Event, what: str) -> str:
    """Say that an event is none that pays for something."""
    return f"{type(event).__name__} does not say what {what} costs: charge an event that does"
