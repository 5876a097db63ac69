"""The samplers are exact: checked bit by bit against decimal arithmetic, then statistically.

A uniform real number is compared with an acceptance probability p through its binary digits. The
tests hand the sampler the digits themselves. The sampler must accept just below p and reject just
above p, at every stage and for every proposal. For the given table, this enumeration proves the
distribution of the accepted integers. The text of the sampler's module states this distribution.
"""

import itertools
import math
import os
import pickle
import warnings
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from missdp.session import SecureNoise, SeededNoise
from missdp.session import noise as exact
from missdp.session.noise import (
    NoiseSource,
    _Format,
    _LatticeSampler,
    os_words,
    seeded_words,
)

PRECISE = Context(prec=120, Emin=-(10**9), Emax=10**9)
LAWS = ["laplace", "gaussian"]
REGIMES = [0.3, 17.3, 1e12]
ACCEPT, REJECT = 1e-9, 1e-12  # of draws without a seed, some twenty times
WORD = 2**64 - 1


class OutOfWordsError(Exception):
    """The script has ended."""


class Script:
    """Words that a test has written down."""

    def __init__(self, words=()):
        self.left = [int(word) for word in words]

    def __call__(self, count):
        if count > len(self.left):
            raise OutOfWordsError
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken, dtype=np.uint64)


def exponent(law, scale, value):
    ratio = abs(int(value)) / Fraction(scale)
    return ratio if law == "laplace" else ratio**2 / 2


def exp_minus(x, scaled=0):
    """2**scaled * exp(-x) to 120 digits: Python's decimal rounds its exp correctly."""
    with localcontext(PRECISE):
        return (-Decimal(x.numerator) / Decimal(x.denominator)).exp() * Decimal(2) ** scaled


def whole_digits(bound, count):
    with localcontext(PRECISE):
        return int((bound * Decimal(2) ** count).to_integral_value("ROUND_FLOOR"))


def nearest_to(bound, total):
    """Yield words of uniform numbers just below and just above a bound, at three precisions.

    The largest precision is ``total`` digits. The sampler requests the last word where the bound is
    within 2**-8 of a whole number of digits.
    """
    digits = whole_digits(bound, total)
    for step, difference in itertools.product((0, 64, 128), (-1, 1)):
        known = (digits >> step) + difference
        if 0 <= known < 1 << (total - step):
            known = (known << step) | ((1 << step) - 1 if difference < 0 else 0)
            last = (known >> 64) & WORD, known & WORD, WORD if difference < 0 else 0
            yield difference < 0, known >> 128, last


# Arithmetic
@pytest.mark.parametrize("top", [1e-9, 0.1, 1.0, 32.0])
def test_floating_point_exp_is_as_near_as_proven(top):
    x = np.append(np.random.default_rng(1).uniform(0, top, 300), (0.0, top, top / 2))
    near = exact._exp_enclosure(x, 0.0)[1]
    low, high = exact._exp_enclosure(x, _Format().slack)
    for i in range(x.size):
        wanted = exp_minus(Fraction(float(x[i])))
        error = abs(Decimal(float(near[i])) / wanted - 1)
        assert error < Decimal(2) ** -42
        assert Decimal(float(low[i])) < wanted or x[i] >= 32
        assert wanted < Decimal(float(high[i]))


@settings(max_examples=150, deadline=None)
@given(
    x=st.fractions(min_value=0, max_value=300, max_denominator=10**30)
    | st.floats(min_value=0, max_value=200).map(Fraction),
    precision=st.integers(min_value=1, max_value=350),
)
def test_whole_number_exp_encloses_tightly(x, precision):
    low, high = exact._exact_exp_enclosure(x, precision)
    wanted = exp_minus(x, scaled=precision)
    assert low <= wanted <= high
    assert high - low <= 2


@settings(max_examples=60, deadline=None)
@given(
    x=st.fractions(min_value=0, max_value=40, max_denominator=10**9),
    gain=st.fractions(min_value="1/1000", max_value=1, max_denominator=10**6),
    known=st.integers(min_value=1, max_value=60),
)
def test_a_uniform_real_is_compared_exactly(x, gain, known):
    """Digits just below and just above the bound, and digits that agree for three words."""
    with localcontext(PRECISE):
        bound = exp_minus(x) * gain.numerator / gain.denominator
    digits = whole_digits(bound, known + 192)
    for difference in (-1, 1):
        other = digits + difference
        if 0 <= other < 2 ** (known + 192):
            words = [other >> 128, other >> 64, other, WORD if difference < 0 else 0]
            below = exact._falls_below(
                other >> 192, known, gain, x, Script(word & WORD for word in words)
            )
            assert below == (difference < 0)


# Every proposal, bit by bit
def word_of(sampler, slot, offset, digits):
    form = sampler.form
    shifted = (slot << (form.width - form.slots)) | (offset << sampler.digits)
    return np.array([shifted | digits], dtype=np.uint64)


def proposals(sampler):
    """Every proposal outside the tail: (slot, offset, value), found by looking from outside."""
    form = sampler.form
    offsets = 1 << (form.width - form.slots - sampler.digits)
    slots = np.flatnonzero(sampler._block != sampler._tail).tolist()
    for slot, offset in itertools.product(slots, range(offsets)):
        found = sampler.accepted(word_of(sampler, slot, offset, 0), Script([0] * 3))
        if found.size:
            yield slot, offset, int(found[0])


def assert_compared_exactly(sampler, slot, offset, between, value, bound):
    """The proposal is accepted just below ``bound`` and rejected just above, to 2 * 64 digits."""
    for below, first, (second, *rest) in nearest_to(bound, sampler.digits + 128):
        words = Script([second, *between, *rest])
        found = sampler.accepted(word_of(sampler, slot, offset, first), words)
        assert found.tolist() == ([value] if below else [])


SMALL = _Format(slots=8, fineness=2, reach=3.0)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [0.15, 1.0, 4.1])
def test_every_proposal_is_accepted_with_exactly_its_probability(law, scale):
    sampler = _LatticeSampler(law, scale, SMALL)
    found = list(proposals(sampler))
    values, counts = np.unique([value for *_, value in found], return_counts=True)
    # Without gaps, and each integer once: -K, ..., K - 1.
    assert (values == np.arange(-(values.size // 2), values.size // 2)).all()
    times = dict(zip(values.tolist(), counts.tolist(), strict=True))
    for value in times:
        slot, offset, _ = next(proposal for proposal in found if proposal[2] == value)
        with localcontext(PRECISE):
            bound = exp_minus(exponent(law, scale, value)) * sampler._factor / times[value]
        assert bound <= 1
        assert_compared_exactly(sampler, slot, offset, (), value, bound)
    # The other slots and offsets of an integer are the same proposal.
    for slot, offset, value in found:
        twin = next(proposal for proposal in found if proposal[2] == value)
        assert sampler._block[slot] == sampler._block[twin[0]]
        assert offset == twin[1]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [0.01, 17.3, 2.0**40])
def test_proposals_of_the_real_tables_are_compared_exactly(law, scale):
    sampler, rng = _LatticeSampler(law, scale), np.random.default_rng(5)
    blocks = rng.choice(sampler._tail, min(12, sampler._tail), replace=False)
    length = 1 << (64 - 15 - sampler.digits)
    for block in blocks:
        slots = np.flatnonzero(sampler._block == block)
        for offset in {0, int(rng.integers(length)), length - 1}:
            value = int(sampler._starts[block]) + offset
            with localcontext(PRECISE):
                weight = exp_minus(exponent(law, scale, value))
                bound = weight * sampler._factor / slots.size
            assert bound <= 1
            assert_compared_exactly(sampler, int(slots[0]), offset, (), value, bound)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [0.3, 5.5, 2.0**40])
@pytest.mark.parametrize("form", [_Format(), _Format(reach=0.6)], ids=["real", "near"])
def test_proposals_of_the_tail_are_compared_exactly(law, scale, form):
    sampler = _LatticeSampler(law, scale, form)
    slots = np.flatnonzero(sampler._block == sampler._tail)
    start, bits = int(sampler._starts[sampler._tail]), max(0, math.frexp(scale)[1])
    block_bits = 64 - 15 - sampler.digits
    for fold, sign, last in itertools.product((0, 1, 3), (0, 1), (0, 1)):
        offset = last * ((1 << bits) - 1)
        value = start + (fold << bits) + offset
        value = -1 - value if sign else value
        flips = [1 << 63] * fold + [0]
        between = [*flips, *([offset << (64 - bits)] if bits else []), sign << 63]
        with localcontext(PRECISE):
            weight = exp_minus(exponent(law, scale, value)) * sampler._factor / slots.size
            bound = weight * 2 ** (fold + 2 + bits - block_bits)
        assert bound <= 1
        # Offsets of the proposal's own word are not used.
        for unused in (0, (1 << block_bits) - 1):
            assert_compared_exactly(sampler, int(slots[0]), unused, between, value, bound)


# Statistics
def cells_of(law, scale, count=25):
    """Edges of cells of about equal mass, and the mass of each."""
    spread = (25 if law == "laplace" else 9) * scale
    grid = np.unique(np.round(np.linspace(-spread - 1, spread + 1, 20_001)))
    share = below(law, scale, grid)
    picks = np.unique(np.searchsorted(share, np.arange(1, count) / count))
    edges = grid[picks[picks < grid.size]]
    return edges, np.diff([0.0, *below(law, scale, edges), 1.0])


def below(law, scale, k):
    """Distribution function of the noise."""
    if law == "laplace":
        upper = np.exp(-(np.maximum(k, 0) + 1) / scale) / (1 + math.exp(-1 / scale))
        lower = np.exp(-np.maximum(-k, 0) / scale) / (1 + math.exp(-1 / scale))
        return np.where(k >= 0, 1 - upper, lower)
    if scale >= 100:
        return stats.norm.cdf((k + 0.5) / scale)
    wide = np.arange(-int(40 * scale) - 40, int(40 * scale) + 41)
    mass = np.exp(-(wide**2) / (2 * scale**2))
    return (np.cumsum(mass) / mass.sum())[k.astype(int) - wide[0]]


def fit(draws, law, scale):
    """P-value of a chi-square test against the law."""
    edges, mass = cells_of(law, scale)
    # Below an edge means at most the edge: the cells are (edge, next edge].
    observed = np.bincount(np.searchsorted(edges, draws), minlength=mass.size)
    wanted = draws.size * mass
    keep = wanted > 10
    statistic = ((observed - wanted)[keep] ** 2 / wanted[keep]).sum()
    rest, rare = observed[~keep].sum(), wanted[~keep].sum()
    statistic += (rest - rare) ** 2 / max(rare, 1.0)
    return stats.chi2.sf(statistic, max(1, keep.sum()))


@pytest.mark.parametrize(
    "source", [SecureNoise(), pytest.param(SeededNoise(20240229), marks=pytest.mark.slow)], ids=repr
)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", REGIMES)
def test_the_law_fits_and_a_scale_2_percent_off_or_the_other_law_does_not(scale, law, source):
    draw = source.discrete_laplace if law == "laplace" else source.discrete_gaussian
    # So many that a wrong law passes by chance less than once in a hundred million runs.
    draws = draw(scale, 1_500_000 if scale < 1 else 800_000)
    assert fit(draws, law, scale) > ACCEPT
    for other, factor in ((law, 1.02), (law, 0.98), (LAWS[law == "laplace"], 1.0)):
        assert fit(draws, other, factor * scale) < REJECT


@pytest.mark.long
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [0.8, 2.0**33 + 1])
def test_the_law_fits_far_out(law, scale):
    """A table that ends early sends half of the draws through the tail."""
    sampler = _LatticeSampler(law, scale, _Format(reach=0.6, slots=12))
    draws = sampler.draw(4_000, seeded_words(np.random.default_rng(9)))
    reach = sampler._starts[sampler._tail]
    assert (np.abs(draws) > reach).mean() > 0.03
    assert fit(draws, law, scale) > ACCEPT
    assert fit(draws, law, 1.3 * scale) < REJECT
    assert fit(draws, law, 0.7 * scale) < REJECT


@pytest.mark.parametrize("law", LAWS)
def test_low_digits_are_uniform_and_draws_of_tiny_scales_are_zero(law):
    draws = exact._draw(law, 1e3, 400_000, os_words)
    for modulus in (2, 3, 64, 100):
        assert stats.chisquare(np.bincount(draws % modulus)).pvalue > ACCEPT
    for scale in (0.01, 1e-3, 1e-200, 5e-324):
        assert not exact._draw(law, scale, 50_000, os_words).any()


# Selection
def test_the_coins_of_a_selection_are_compared_exactly():
    scores, scale = np.array([0.0, 1.5, 1.5 + 2**-40, -800.0, -38.8, 1.4]), 1.3
    for index, score in enumerate(scores):
        bound = exp_minus((Fraction(scores.max()) - Fraction(score)) / Fraction(scale))
        for below, first, rest in nearest_to(bound, 192):
            words = Script([first, *rest])
            passed = exact._coins(scores, np.array([index]), scale, words)
            assert bool(passed[0]) == below


def test_equal_keys_of_a_permutation_and_candidates_beyond_the_last_are_drawn_again():
    """The order of a permutation must not depend on the index."""
    words = Script([5, 5, 9, 7, 3, 3, 8, 2, 1, 0, 0, 0])
    assert exact._permute_and_flip(np.zeros(3), 1.0, words) == 2
    words = Script([*([WORD] * 21), 2 << 62, *([WORD] * 21), 0, 0, 0])
    assert exact._exponential_choice(np.zeros(3), 1.0, words) == 2


@pytest.mark.parametrize("choose", [exact._exponential_choice, exact._permute_and_flip])
def test_selections_with_extreme_scores(choose):
    assert choose(np.array([3.0]), 1.0, os_words) == 0
    assert choose(np.array([-1.7e308, 1.7e308]), 5e-324, os_words) == 1
    many = np.zeros(70_000)
    many[40_000] = 50.0
    assert choose(many, 1.0, os_words) == 40_000
    counts = np.bincount([choose(np.zeros(5), 2.0, os_words) for _ in range(2000)])
    assert stats.chisquare(counts).pvalue > ACCEPT


# Where the bits come from
def test_forked_processes_and_pickled_sources_draw_different_noise():
    source = SecureNoise()
    source.discrete_gaussian(1e6, 10)
    drawn = [source.discrete_gaussian(1e6, 8).tobytes()]
    for _ in range(3):
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # other threads of the test run
            child = os.fork()
        if child == 0:
            os.write(write, source.discrete_gaussian(1e6, 8).tobytes())
            os._exit(0)
        drawn.append(os.read(read, 64))
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)
    drawn.append(pickle.loads(pickle.dumps(source)).discrete_gaussian(1e6, 8).tobytes())
    assert all(len(draw) == 64 for draw in drawn)
    assert len(set(drawn)) == 5
    assert len(pickle.dumps(source)) < 300


def test_secure_bits_are_the_operating_systems_and_none_are_used_twice(monkeypatch):
    """With the system's generator replaced, draws are a function of its bytes, all of them."""
    asked = []

    def drawn(seed):
        rng = np.random.default_rng(seed)
        monkeypatch.setattr(os, "urandom", lambda count: asked.append(count) or rng.bytes(count))
        return SecureNoise().discrete_gaussian(1e6, 1000)

    assert (drawn(1) == drawn(1)).all()
    assert (drawn(1) != drawn(2)).mean() > 0.99
    assert sum(asked) >= 4 * 8000
    source = SeededNoise(3)  # the second draw goes on where the first stopped
    first, second = source.discrete_laplace(1e9, 1000), source.discrete_laplace(1e9, 1000)
    assert not set(first.tolist()) & set(second.tolist())


@pytest.mark.parametrize("rate", [0.5, 0.3, 2.0**-11, 1 - 2.0**-24])
def test_coins_are_no_likelier_than_their_rate(rate):
    """Of 2^64 equally likely words, at most so many give a coin that falls on True."""
    first = math.floor(Fraction(rate) * 2**64)
    for word, passes in ((first - 1, True), (first, False), (2**64 - 1, False), (0, True)):
        source = NoiseSource(lambda count, word=word: np.full(count, word, dtype=np.uint64))
        assert source.coins(rate, 2).tolist() == [passes] * 2
