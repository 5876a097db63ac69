"""Exact noise, from fair bits: discrete Laplace and Gaussian draws and selections.

`SecureNoise` takes its bits from the operating system's CSPRNG. `SeededNoise` takes them from a
seeded generator and is for tests only. They differ in nothing else.

*Method.* Write ``w(k) = exp(-x(k))`` for the target mass up to a constant, with
``x(k) = |k| / scale`` or ``k^2 / (2 scale^2)``. The integers from -K to K - 1 are divided into
blocks of L = 2^b neighbours. Every block gets a whole number n of 2^t equal slots. A proposal is a
uniform slot and a uniform offset in its block. So an integer k of a block with n slots is proposed
with probability ``n / 2^(t + b)``. It is accepted with probability ``a(k) = C w(k) / n``, where the
whole number C is so small that no a(k) is above 1. The product, ``C w(k) / 2^(t + b)``, does not
depend on the block, so accepted integers have exactly the target distribution. The remaining slots
are always rejected.

*Tail.* All other integers are one more block with n slots. Coin flips give m with probability
``2^-(m + 1)``. A uniform offset r lies below ``L' = 2^b'``, which is at least the scale. Let
``y = K + m L' + r``. A fair sign selects y or -1 - y. So k is proposed with probability
``n / 2^(t + m + 2 + b')``, and is accepted with ``a(k) = 2^(m + 2 + b' - b) C w(k) / n``. From m to
m + 1 the mass falls by a factor of at least e, since L' is at least the scale. For the Gaussian, K
is at least the scale, too. So a(k) is largest near K, where n makes it at most 1. The tail has no
end.

*Accepting with probability a(k), exactly.* The test is U < a(k) for a uniform real U. Only as many
binary digits of U are drawn as the comparison takes. There are three stages. A stage decides only
if its bounds on a(k) are conclusive, so the distribution is exact. The scale is the exact rational
number that the float represents.

1. The remaining digits of the proposal's word are compared with whole numbers that bound a(k) over
   the block. This decides all but a few per cent.
2. Then 64 more digits are compared with a floating-point value of a(k). Its relative error is
   proven to be at most 2^-41, and the comparison allows for an error of 2^-36. It is computed by
   additions, multiplications and divisions alone, which IEEE 754 defines to the last bit. No
   library function exp is trusted.
3. The rest, less than one draw in 5 * 10^7 and mostly in the tail, is decided by whole numbers of
   any length.

*Selection.* A candidate of score s passes its coin with probability exp((s - top) / scale), decided
in the same stages. The exponential mechanism proposes uniform candidates until a candidate passes.
So each candidate is selected in proportion to its coin. Permute-and-flip flips the coin of each
candidate once, in a random order, and selects the first candidate that passes. The largest score
always passes. These are the distributions of the largest score after Gumbel and after exponential
noise (McKenna & Sheldon 2020, Ding et al. 2021).

Timing is not hidden: draws that need the later stages take longer.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Condition, ExplicitSeed
from missdp.errors import DataError, ParameterError, check_choice, check_number
from missdp.types import Flags, Floats, Ints

DiscreteNoise = Literal["laplace", "gaussian"]
WordArray = NDArray[np.uint64]
Words: TypeAlias = Callable[[int], WordArray]
"""Function that returns a number of words of independent fair bits."""
Size = int | tuple[int, ...]
SelectionMethod = Literal["exponential", "permute-and-flip"]
"""Name of the mechanism that selects a candidate by its noisy score.

``"exponential"`` adds Gumbel noise to scores, and ``"permute-and-flip"`` adds exponential noise.
"""
# Larger scales are far above any useful noise. This limit is far below an overflow of 64 bits.
check_scale = partial(check_number, max_value=2.0**40, exclude_min=True)
_AT_ONCE = 2**15  # words in one pass, so that a pass stays in the processor's cache
_FLOAT_ERROR = 2.0**-50  # above the rounding error of a uniform float
_LARGEST_EXPONENT = 32.0  # x above which exp(-x) is bounded by 0 from below
_HALVINGS = 9  # of the exponent, each undone by a squaring
_TERMS = 10  # of the Taylor series


def os_words(count: int) -> WordArray:
    """Return 64-bit words of the operating system's fair bits, which a fork cannot repeat."""
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def seeded_words(generator: np.random.Generator) -> Words:
    """Return a function that draws words from a NumPy generator, for tests only."""
    return cast("Words", partial(generator.integers, 0, 2**64, dtype=np.uint64))


class _Format(NamedTuple):
    """Use of bits by the sampler. It changes the speed and not the distribution."""

    width: int = 64  # bits in a word
    slots: int = 15  # t: a proposal picks one of 2**t slots
    fineness: int = 5  # L is at most scale / 2**(fineness - 1)
    reach: float = 20.0  # x(K) is about this
    slack: float = 2.0**-36  # relative error that stage (2) allows for (2**-41 is proven)


def _exp_enclosure(x: Floats, slack: float) -> tuple[Floats, Floats]:
    """Return floats below and above exp(-x), for x at least 0.

    exp(-x) is the 2^9-th power of exp(-y) with y = x / 2^9 at most 1/16. The relative error of its
    Taylor sum up to y^10 is at most 2^-51: the rest is below 2^-69, and the roundings shrink with
    powers of y / i. Nine squarings double an error nine times and add less than 2^-44. The total is
    at most 2^-41, also for an x with a relative error of 2^-51. ``slack`` must be well above this.
    """
    y = np.minimum(x, _LARGEST_EXPONENT) * 2.0**-_HALVINGS
    value = np.ones_like(y)
    for term in range(_TERMS, 0, -1):
        value = 1.0 - y * value / term
    for _ in range(_HALVINGS):
        value = value * value
    low = np.where(x < _LARGEST_EXPONENT, value * (1.0 - slack), 0.0)
    return low, value * (1.0 + slack)


def _exact_exp_enclosure(x: Fraction, precision: int) -> tuple[int, int]:
    """Return integers below and above ``2**precision * exp(-x)``, for x at least 0.

    Whole-number arithmetic, rounded outwards at every step: the Taylor series of exp(y) with
    y = x / 2^h at most 1/2, squared h times, then the reciprocal.
    """
    if x == 0:
        return 1 << precision, 1 << precision
    if x > precision:
        return 0, 1
    halvings = math.ceil(x).bit_length() + 1
    places = precision + 2 * halvings + 8
    unit = 1 << places
    y = x / (1 << halvings)
    low_y = (y.numerator << places) // y.denominator
    high_y = low_y + 1
    low = high = low_term = high_term = unit
    index = 0
    while high_term > 1:
        index += 1
        low_term = low_term * low_y // (index << places)
        high_term = high_term * high_y // (index << places) + 1
        low, high = low + low_term, high + high_term
    high += 2 * high_term  # the rest of the series is below a geometric series of ratio 1/2
    for _ in range(halvings):
        low, high = low * low >> places, (high * high >> places) + 1
    return (1 << precision + places) // high, (1 << precision + places) // low + 1


def _falls_below(
    bits: int, precision: int, gain: Fraction, exponent: Fraction, words: Words, *, width: int = 64
) -> bool:
    """Whether a uniform real with these first bits is below gain * exp(-exponent)."""
    while True:
        low, high = _exact_exp_enclosure(exponent, precision + 8)
        if (bits + 1) * gain.denominator << 8 <= low * gain.numerator:
            return True
        if bits * gain.denominator << 8 >= high * gain.numerator:
            return False
        bits = (bits << width) | int(words(1)[0])
        precision += width


class _LatticeSampler:
    """Exact sampler of one discrete distribution and scale, by the method of the module's text."""

    def __init__(self, kind: DiscreteNoise, scale: float, form: _Format | None = None) -> None:
        form = _Format() if form is None else form
        self.kind, self.scale, self.form = kind, float(scale), form
        self._tail_bits = max(0, math.frexp(scale)[1])  # b': the scale is at most 2**b'
        self._length_bits = max(0, self._tail_bits - form.fineness)
        self._tail_spread = 2 + self._tail_bits - self._length_bits
        self.digits = form.width - form.slots - self._length_bits
        length = 1 << self._length_bits
        widest = form.reach * scale if kind == "laplace" else math.sqrt(2 * form.reach) * scale
        reach = length * max(1, math.ceil(widest / length))
        starts = np.arange(-reach, reach, length, dtype=np.int64)
        ends = starts + (length - 1)
        self._tail = starts.size  # the blocks, then the tail, then the remaining slots
        # In stage (2), K represents the complete tail: acceptance is most likely there.
        self._starts = np.append(starts, (reach, 0))
        nearest = np.append(np.maximum(starts, -ends), reach)
        self._share_slots(
            self._enclosure(nearest)[1], self._enclosure(np.maximum(-starts, ends))[0]
        )

    def _share_slots(self, upper: Floats, lower: Floats) -> None:
        """Distribute slots by the largest w of blocks and tail, and tabulate stage (1)."""
        upper[self._tail] *= 2.0**self._tail_spread
        count = 1 << self.form.slots
        # Each share is rounded up, by one slot at most.
        self._factor = int((count - upper.size - 1) / upper.sum())  # C
        slots = np.floor(self._factor * upper).astype(np.int64) + 1
        self._slots = np.append(slots, count - slots.sum())
        self._block = np.repeat(np.arange(upper.size + 1), self._slots).astype(np.uint16)
        gain, unit = self._factor / slots, 2.0**self.digits
        self._certain = np.append(np.floor(gain[:-1] * lower * unit), (0.0, 0.0)).astype(np.int64)
        self._possible = np.append(np.ceil(gain * upper * unit), 0.0).astype(np.int64)
        gain[self._tail] *= 2.0**self._tail_spread
        self._gain = gain

    def _enclosure(self, values: Ints) -> tuple[Floats, Floats]:
        """Return floats below and above w of integers below 2**53 (relative error of x: 2**-51)."""
        with np.errstate(over="ignore"):
            x = np.abs(values) / self.scale
            if self.kind == "gaussian":
                x = x * x / 2
        return _exp_enclosure(x, self.form.slack)

    def _exponent(self, value: int) -> Fraction:
        ratio = abs(value) / Fraction(self.scale)
        return ratio if self.kind == "laplace" else ratio * ratio / 2

    def draw(self, count: int, words: Words) -> Ints:
        """Return independent draws."""
        out = np.empty(count, dtype=np.int64)
        filled = 0
        while filled < count:
            missing = count - filled
            draws = self.accepted(words(min(missing + missing // 6 + 8, _AT_ONCE)), words)
            draws = draws[:missing]
            out[filled : filled + draws.size] = draws
            filled += draws.size
        return out

    def accepted(self, proposals: WordArray, words: Words) -> Ints:
        """Return the integers of the accepted proposals, in order."""
        form = self.form
        block = self._block.take((proposals >> np.uint64(form.width - form.slots)).view(np.int64))
        digits = (proposals & np.uint64((1 << self.digits) - 1)).view(np.int64)
        values = self._starts.take(block)
        if self._length_bits:
            offset = (proposals >> np.uint64(self.digits)) & np.uint64((1 << self._length_bits) - 1)
            values += offset.view(np.int64)
        keep = digits < self._certain.take(block)
        later = np.flatnonzero(~keep)
        later = later[digits[later] < self._possible.take(block[later])]
        if later.size:
            undecided = block[later], values[later], digits[later]
            keep[later], values[later] = self._second(*undecided, words)
        return values[keep]

    def _second(
        self, block: NDArray[np.uint16], values: Ints, digits: Ints, words: Words
    ) -> tuple[Flags, Ints]:
        """Decide proposals with one more word each. Return acceptances and values."""
        more = words(block.size)
        width, tail = self.form.width, block == self._tail
        values = np.where(tail, self._starts[self._tail], values)
        low, high = (bound * self._gain[block] for bound in self._enclosure(values))
        uniform = (digits + more * 2.0**-width) * 2.0**-self.digits
        error = _FLOAT_ERROR + 2.0 ** -(width + self.digits)
        keep = (uniform + error < low) & ~tail
        for i in np.flatnonzero(~keep & (uniform - error <= high)):
            longer = (int(digits[i]) << width) | int(more[i])
            keep[i], values[i] = self._third(int(block[i]), int(values[i]), longer, words)
        return keep, values

    def _third(self, block: int, value: int, digits: int, words: Words) -> tuple[bool, int]:
        """Decide one proposal exactly. A proposal of the tail is drawn here."""
        width = self.form.width
        gain = Fraction(self._factor, int(self._slots[block]))
        if block == self._tail:
            fold = 0
            while _some_bits(words, 1, width):
                fold += 1
            value += (fold << self._tail_bits) + _some_bits(words, self._tail_bits, width)
            value = -1 - value if _some_bits(words, 1, width) else value
            gain *= 1 << (fold + self._tail_spread)
        below = _falls_below(
            digits, self.digits + width, gain, self._exponent(value), words, width=width
        )
        return below, value


def _some_bits(words: Words, count: int, width: int) -> int:
    return int(words(1)[0]) >> (width - count) if count else 0


@lru_cache(maxsize=64)
def _lattice_sampler(kind: DiscreteNoise, scale: float) -> _LatticeSampler:
    """Return the sampler of a distribution and a scale."""
    return _LatticeSampler(kind, scale)


def _draw(kind: DiscreteNoise, scale: float, size: int | tuple[int, ...], words: Words) -> Ints:
    """Return independent draws of a distribution in a shape."""
    shape = tuple(size) if isinstance(size, tuple | list) else (int(size),)
    return _lattice_sampler(kind, scale).draw(math.prod(shape), words).reshape(shape)


def _exponential_choice(scores: Floats, scale: float, words: Words) -> int:
    """Return an index drawn with probability proportional to exp(score / scale)."""
    spare = 64 - max(1, (scores.size - 1).bit_length())
    while True:
        drawn = words(min(2 * scores.size + 16, _AT_ONCE)) >> np.uint64(spare)
        picks = drawn[drawn < scores.size].astype(np.int64)
        winners = picks[_coins(scores, picks, scale, words)]
        if winners.size:
            return int(winners[0])


def _permute_and_flip(scores: Floats, scale: float, words: Words) -> int:
    """Return the first candidate, in random order, to pass a coin of exp((score - top) / scale)."""
    keys = words(scores.size)
    order = np.argsort(keys)
    while (np.diff(keys[order]) == 0).any():  # equal keys would be sorted by index
        keys = words(scores.size)
        order = np.argsort(keys)
    return int(order[_coins(scores, order, scale, words).argmax()])


def _coins(scores: Floats, picks: Ints, scale: float, words: Words) -> Flags:
    """Flip a coin of exp((score - top) / scale) for each pick."""
    top = scores.max()
    with np.errstate(over="ignore"):
        low, high = _exp_enclosure((top - scores[picks]) / scale, _Format().slack)
    drawn = words(picks.size)
    uniform = drawn * 2.0**-64
    passed = uniform + _FLOAT_ERROR < low
    for i in np.flatnonzero(~passed & (uniform - _FLOAT_ERROR <= high)):
        gap = Fraction(float(top)) - Fraction(float(scores[picks[i]]))
        passed[i] = _falls_below(int(drawn[i]), 64, Fraction(1), gap / Fraction(scale), words)
    return passed


# Sources of noise


class NoiseSource:
    """Base class of sources of random noise: `SecureNoise` for releases, `SeededNoise` for tests.

    Both draw from exactly the stated discrete distributions, with different random bits. A subclass
    passes a function that returns random words to the constructor, and defines ``generator``.

    Parameters
    ----------
    words : callable
        Function from a number to an array of uint64 with this many independent random 64-bit
        words.

    Notes
    -----
    A source holds no private values. The guarantee of a release rests on the secrecy of its random
    bits.

    Examples
    --------
    >>> from missdp.session import NoiseSource
    >>> NoiseSource.from_seed(0).discrete_laplace(2.0, 5).shape
    (5,)
    """

    conditions: ClassVar[tuple[Condition, ...]] = ()
    """Conditions of the guarantee of every release with this source of noise."""

    def __init__(self, words: Words) -> None:
        self._words = words

    @staticmethod
    def from_seed(random_state: int | None = None) -> NoiseSource:
        """Return a new source of random noise: secure noise, or reproducible noise from a seed.

        Parameters
        ----------
        random_state : int or None, default None
            None gives `SecureNoise`. A seed, at least 0, gives `SeededNoise`, whose releases carry
            the condition `ExplicitSeed`.

        Returns
        -------
        NoiseSource
            The source.

        Raises
        ------
        ParameterError
            If ``random_state`` is neither None nor a whole number of at least 0. A source or
            generator of the caller would receive the exact scores of selections.

        Examples
        --------
        >>> from missdp.session import NoiseSource
        >>> NoiseSource.from_seed(), NoiseSource.from_seed(0)
        (SecureNoise(), SeededNoise())
        """
        if random_state is None:
            return SecureNoise()
        integer = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
        if integer and random_state >= 0:
            return SeededNoise(int(random_state))
        raise ParameterError("random_state must be None or an integer, at least 0")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def generator(self) -> np.random.Generator:
        """Return a random generator for post-processing of released values, which gives no privacy.

        Returns
        -------
        numpy.random.Generator
            The generator, for example for drawing synthetic rows.

        Raises
        ------
        NotImplementedError
            In this base class. Each subclass defines the method.
        """
        raise NotImplementedError

    def discrete_laplace(self, scale: float, size: Size) -> Ints:
        """Return random integers with the discrete Laplace distribution, drawn exactly.

        The mass of an integer x is proportional to exp(-abs(x) / scale).

        Parameters
        ----------
        scale : float
            Scale of the noise, above 0, at most 2**40. A count of rows has a scale in rows.
        size : int or tuple of int
            Shape of the result.

        Returns
        -------
        ndarray of int64, shape ``size``
            Independent draws. They are noise, and must not be released apart from the answer.

        Raises
        ------
        ParameterError
            If the scale is out of range.
        """
        return _draw("laplace", check_scale("scale", scale), size, self._words)

    def discrete_gaussian(self, sigma: float, size: Size) -> Ints:
        """Return random integers with the discrete Gaussian distribution, drawn exactly.

        The mass of an integer x is proportional to exp(-x^2 / (2 sigma^2)).

        Parameters
        ----------
        sigma : float
            Parameter of the noise, close to its standard deviation. Above 0, at most 2**40.
        size : int or tuple of int
            Shape of the result.

        Returns
        -------
        ndarray of int64, shape ``size``
            Independent draws. They are noise, and must not be released apart from the answer.

        Raises
        ------
        ParameterError
            If sigma is out of range.

        References
        ----------
        Canonne, Kamath, Steinke (2020), "The discrete Gaussian for differential privacy", NeurIPS.
        """
        return _draw("gaussian", check_scale("sigma", sigma), size, self._words)

    def noisy_max(self, scores: Floats, scale: float, *, method: SelectionMethod) -> int:
        """Return the position of the largest score after adding independent noise to each score.

        Parameters
        ----------
        scores : array of float, shape (n_candidates,)
            The scores, all finite. There is at least one. Private.
        scale : float
            Scale of the noise in the unit of the scores, above 0, at most 2**40.
        method : {"exponential", "permute-and-flip"}
            Let the scale be 2 * sensitivity / epsilon. The exponential mechanism adds Gumbel noise
            and has an epsilon-bounded range. Permute-and-flip adds exponential noise and is
            epsilon-DP (McKenna & Sheldon 2020).

        Returns
        -------
        int
            The position, from 0. Released.

        Raises
        ------
        ParameterError
            If there is no score, or the scale or the method is invalid.
        DataError
            If a score is not finite.

        References
        ----------
        McKenna, Sheldon (2020), "Permute-and-flip: a new mechanism for differentially private
        selection", NeurIPS.
        """
        check_choice("method", method, get_args(SelectionMethod))
        values, scale = _check_scores(scores), check_scale("scale", scale)
        choose = _exponential_choice if method == "exponential" else _permute_and_flip
        return choose(values, scale, self._words)

    def coins(self, rate: float, count: int) -> Flags:
        """Return independent random coins that are True with at most a given probability.

        Parameters
        ----------
        rate : float
            The probability, in [0, 1]. It is rounded down to a multiple of 2**-64. Floats from
            2**-11 on are such multiples.
        count : int
            Number of coins, at least 0.

        Returns
        -------
        ndarray of bool, shape (count,)
            The coins.

        Raises
        ------
        ParameterError
            If the rate is out of range.
        """
        if check_number("rate", rate, max_value=1.0) == 1:
            return np.ones(count, dtype=np.bool_)
        return self._words(count) < np.uint64(int(Fraction(rate) * 2**64))


class SecureNoise(NoiseSource):
    """Source of exact discrete noise from the operating system's cryptographic generator.

    Draws have exactly the discrete Laplace or Gaussian distribution, without rounding or
    truncation, at tens of millions of draws per second. Selection adds Gumbel noise (the
    exponential mechanism) or exponential noise (permute-and-flip) to scores. Random bits are
    fetched for each call and never stored. So forked processes, threads and pickled copies share no
    bits. The duration of a draw is not hidden.

    Notes
    -----
    Releases with this noise have no further condition in their guarantee.

    Examples
    --------
    >>> from missdp.session import SecureNoise
    >>> SecureNoise().discrete_laplace(2.0, (3, 2)).shape
    (3, 2)
    """

    def __init__(self) -> None:
        super().__init__(os_words)

    def generator(self) -> np.random.Generator:
        """Return a fresh random generator for post-processing, which gives no privacy.

        Returns
        -------
        numpy.random.Generator
            Seeded by the operating system.
        """
        return np.random.default_rng()


class SeededNoise(NoiseSource):
    """Source of reproducible noise from a seed, for tests only. A release must not use it.

    It has the samplers of `SecureNoise`, with bits of a NumPy generator. Every release carries
    the condition `ExplicitSeed`, since anyone who knows the seed can subtract the noise.

    Parameters
    ----------
    seed : int or numpy.random.Generator
        A seed, at least 0, or a generator. Two sources with equal integer seeds draw equal
        numbers.

    Examples
    --------
    >>> from missdp.session import SeededNoise
    >>> draws = [SeededNoise(7).discrete_gaussian(3.0, 4).tolist() for _ in range(2)]
    >>> draws[0] == draws[1]
    True
    """

    conditions = (ExplicitSeed(),)
    """Anyone who knows the seed can subtract the noise."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.conditions is not SeededNoise.conditions:
            raise TypeError("seeded noise always has the condition ExplicitSeed")

    def __init__(self, seed: int | np.random.Generator) -> None:
        self._generator = np.random.default_rng(seed)
        super().__init__(seeded_words(self._generator))

    def generator(self) -> np.random.Generator:
        """Return a random generator for post-processing, which is derived from the seed.

        Returns
        -------
        numpy.random.Generator
            Each call returns another generator, spawned from the generator of the source.
        """
        return self._generator.spawn(1)[0]


def _check_scores(scores: Floats) -> Floats:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ParameterError("scores must be a non-empty one-dimensional array")
    if not np.isfinite(values).all():
        raise DataError("scores must all be finite")
    return values
