"""Numeric scores in addition to bins: finer codes, sensitivity to one row, and released moments."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import AllPairs, Categorical, Numeric, Schema
from missdp.accounting import Cost, Filter
from missdp.errors import BudgetExceededError, ParameterError
from missdp.inference.dyadic import Histogram
from missdp.session import CountedRows, FineCodes, LevelMerge, Noise, Recoding, SeededNoise, Session
from missdp.sources import open_source, strategy_named
from missdp.synth.first_parts import find_bins
from missdp.synth.learn_pairs import _plan_products, measure_one_way, release_pairs
from missdp.synth.numeric_scores import (
    WEIGHT,
    draw_fine_codes,
    numeric_scores,
    with_fine_bins,
    with_shares,
)
from missdp.synth.search_grid import with_pending_bins, with_search_grid
from missdp.testing import RecordingNoise
from refusing import refuses

OPEN = Schema(
    (
        Numeric(name="pay", lower=0, upper=1e6, step=0.01, nullable=True),
        Numeric(name="age", lower=0, upper=110, integer=True, nullable=True),
        Numeric(name="kids", lower=0, upper=9, integer=True),
        Categorical(name="sex", levels=("f", "m"), nullable=True),
    )
)
MARKED = with_pending_bins(OPEN, OPEN.names)
GRID = with_search_grid(MARKED)


def found_cuts():
    """Cuts as a fit may find them: half of the pay is nothing, the rest has a long tail."""
    size = GRID["pay"].size
    places = np.r_[0, 1, np.linspace(0.4, 0.8, 40) * size, size].astype(int)
    mass = np.r_[0.5, 0.0, np.full(39, 0.5 / 39), 0.0]
    even = Histogram(np.arange(112), np.full(111, 1 / 111), 1e4)
    told = {"pay": Histogram(places, mass, 1e4), "age": even}
    bins = {name: find_bins(GRID[name], one, unit=20.0) for name, one in told.items()}
    return MARKED.with_attributes({n: replace(MARKED[n], bins=b) for n, b in bins.items()})


CUT = found_cuts()
FINE = with_fine_bins(CUT)


def people(n, seed=0, holes=0.2):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    pay = np.where(rng.random(n) < 0.5, 0, rng.lognormal(5 + age / 40, 1, n)).clip(0, 1e6).round(2)
    frame = pd.DataFrame(
        {"pay": pay, "age": age.astype(float), "kids": rng.poisson(1, n).clip(0, 9)}
    )
    frame["sex"] = np.where(rng.random(n) < age / 100, "f", "m")
    for name in ("pay", "age", "sex"):
        frame[name] = frame[name].where(rng.random(n) >= holes)
    return frame


def session_on(data, noise, amount=1e6):
    source = open_source(data, OPEN)
    budget = Filter.from_cost(Cost(privacy_measure="gdp", amount=amount), delta=1e-6)
    session = Session(
        CountedRows.from_source(source.coded_as(GRID), strategy_named("joint")),
        budget=budget,
        noise=noise,
    )
    cells = {n: CUT[n].encode_values(GRID[n].code_ranges[0]) for n in ("pay", "age")}
    return session.apply(Recoding(CUT, cells, FINE))


def crude_of(session, amount=1e5):
    return measure_one_way(
        session, Noise.from_cost(Cost(privacy_measure="gdp", amount=amount)), {}
    )[0]


CRUDE = crude_of(session_on(people(3000), SeededNoise(0)))
NUMBERS = numeric_scores(CUT, OPEN.names, CRUDE.levels, CRUDE.one_way)


def test_finer_codes_lie_inside_bins_and_are_few():
    for a, fine in zip(CUT, FINE, strict=True):
        if a.name in ("pay", "age"):
            assert {*a.bin_edges} <= {*fine.bin_edges} <= {*GRID[a.name].bin_edges}
            assert a.size < fine.size <= 41
            assert fine.bins.spikes == a.bins.spikes
        else:
            assert fine is a
    assert with_fine_bins(OPEN) is OPEN  # where nothing is cut, nothing is finer
    assert [n is not None for n in NUMBERS] == [True, True, True, False]


@given(st.integers(0, 2), st.integers(0, 2**32))
def test_a_number_lifts_blocks_to_finer_codes_and_back(at, seed):
    number, rng = NUMBERS[at], np.random.default_rng(seed)
    size = OPEN[OPEN.names[at]].nullable + CUT[OPEN.names[at]].size
    block = rng.normal(size=(size, 3))
    lifted = number.add_to_block(block)
    assert (number.drop_from_block(lifted) == block).all()
    assert np.abs(lifted[:, -1]).max() <= 4
    assert np.abs(number.extra_features(len(lifted))).max() <= 4
    codes = rng.integers(0, size, 500)
    fine = number.draw_codes(codes, rng)
    assert (lifted[fine, :-1] == block[codes]).all()
    missing = np.arange(len(number.groups), len(lifted))
    assert not lifted[missing, -1].any()
    assert not number.extra_features(len(lifted))[missing].any()


def row_of(missing):
    maybe = (lambda cells: st.none()) if missing else (lambda cells: cells)
    pay = st.sampled_from([0.0, 0.01, 55.5, 4_000.0, 30_000.0, 1e6])
    return st.tuples(
        maybe(pay), st.sampled_from([0.0, 18.0, 55.0, 110.0]), st.integers(0, 9),
        st.sampled_from(["f", "m", None]),
    )  # fmt: skip


def behind(rows, clip):
    frame = pd.DataFrame(rows, columns=list(OPEN.names))
    frame["pay"], frame["age"] = frame["pay"].astype(float), frame["age"].astype(float)
    with RecordingNoise(0) as noise:
        release_pairs(session_on(frame, noise), CRUDE, clip=clip, numbers=NUMBERS)
    return noise.answers[-1]


@pytest.mark.long
@settings(max_examples=40)
@given(
    st.lists(st.booleans().flatmap(row_of), min_size=1, max_size=3),
    st.booleans().flatmap(row_of),
    st.sampled_from([0.5, 6.0, 40.0]),
)
def test_one_row_moves_the_release_by_no_more_than_is_charged_for(rows, more, clip):
    """The release includes numbers and their squares. Half of the rows have no pay."""
    one, two = behind(rows, clip), behind([*rows, more], clip)
    moved = [int(x) for x in two.exact - one.exact]
    bound = int(two.event.sensitivity)
    assert sum(x * x for x in moved) <= bound * bound
    assert one.event == two.event
    assert not one.event.required


def test_a_row_with_a_large_number_uses_up_the_clip():
    """And so the test above has power."""
    plain = behind([(None, 55.0, 1, "f")], 8.0)
    far = behind([(None, 55.0, 1, "f"), (1e6, 110.0, 9, "m")], 8.0)
    length = np.linalg.norm((far.exact - plain.exact).astype(float))
    assert 0.99 < length / far.event.sensitivity <= 1


def test_finer_codes_spend_what_the_door_itself_does():
    session = session_on(people(50), SeededNoise(0), amount=1.0)
    plan = _plan_products(OPEN.names, CRUDE, session.remaining, clip=5.0, numbers=NUMBERS)
    part = session.reserve(Cost(privacy_measure="gdp", amount=0.5), label="half")
    groups = CRUDE.groups(OPEN.names)
    groups |= {a.name: np.arange(a.size) for a in FINE if a.name != "sex"}
    part.apply(FineCodes()).apply(LevelMerge(groups)).measure(plan, part.remaining)
    assert part.remaining.amount < 1e-9
    assert session.remaining.amount == pytest.approx(0.5)
    with refuses(BudgetExceededError):
        session.apply(FineCodes()).apply(LevelMerge(groups)).measure(
            plan, Cost(privacy_measure="gdp", amount=0.6)
        )
    merged = session.apply(LevelMerge(CRUDE.groups(OPEN.names)))
    assert session.facts.has_fine_codes
    assert not merged.facts.has_fine_codes
    with refuses(ParameterError, "not changed again"):
        merged.apply(FineCodes())


@pytest.mark.parametrize("clip", [60.0, 6.0])
def test_what_is_told_of_numbers_is_right_and_its_noise_too(clip):
    frame = people(4000, seed=1)
    session = session_on(frame, SeededNoise(1), amount=4.0)
    release = release_pairs(session, CRUDE, clip=clip, numbers=NUMBERS)
    release = replace(release, marginals=crude_of(session_on(frame, SeededNoise(2))))
    table = open_source(frame, OPEN).table
    coarse = np.stack([table.coded_as(CUT).codes(n) for n in OPEN.names], axis=1).astype(int)
    # The moments of the rows are exact, apart from the positions inside bins.
    told, z, slack = (
        release.moments(release.clipping_bias(coarse)),
        {},
        0.002 if clip > 50 else 0.03,
    )
    for a, number in release.numeric_scores.items():
        codes = table.coded_as(FINE).codes(OPEN.names[a])
        column = release.products.blocks[OPEN.names[a]][:, -1] / WEIGHT
        z[a] = column[codes]
        beyond = np.zeros((2, len(column) - len(number.groups)))
        wanted = np.concatenate([number.powers, beyond], axis=1)[:, codes].mean(axis=1)
        powers, stds = told.powers[a]
        assert (np.abs(powers - wanted) < 4 * stds + [2 * slack, 5 * slack]).all()
        mean, std = told.means[a]
        assert mean == pytest.approx(z[a].mean(), abs=4 * std + slack)
    for (a, b), (both, std) in told.both.items():
        assert both == pytest.approx((z[a] * z[b]).mean(), abs=4 * std + 2 * slack)
    for (a, c), (shares, std) in told.by_level.items():
        wanted = np.bincount(coarse[:, c], z[a], len(shares)) / len(coarse)
        assert (np.abs(shares - wanted) < 4 * std + slack).all()
    assert {*told.means} == {0, 1, 2}
    assert told.by_level.keys() == {(a, c) for a in range(3) for c in range(4) if a != c}


@pytest.mark.long
@given(st.integers(0, 1), st.floats(0.0, 0.3), st.floats(0.0, 0.3), st.integers(0, 100))
def test_tails_are_what_explains_the_moments(at, below, above, seed):
    number = NUMBERS[at]
    margin = np.append(
        np.random.default_rng(seed).dirichlet(np.ones(CUT[OPEN.names[at]].size)), 0.0
    )
    plain = number.with_tails(
        margin, number.powers @ number.fine_marginal(margin)[:-1], np.full(2, 1e-3)
    )
    # Shares that explain the moments stay unchanged.
    assert plain.shares == pytest.approx(number.shares, abs=1e-9)
    lacking = np.array([above - below, above + below])
    found = number.with_tails(
        margin, plain.powers @ number.fine_marginal(margin)[:-1] + lacking, np.ones(2)
    )
    assert np.bincount(found.groups, found.shares) == pytest.approx(1.0)
    assert (found.shares >= 0).all()


EVEN = np.append(np.full(CUT["pay"].size, 1 / CUT["pay"].size), 0.0)


def test_what_lies_beyond_is_taken_from_where_it_was_counted():
    """A tree counts rows beyond its reach in its outermost piece: no heap is left there."""
    number = replace(NUMBERS[0], deviation=1e4)
    last = np.where(number.shares > 0, number.values, -np.inf).argmax()
    heap = number.shares.copy()
    heap[(number.groups == number.groups[last]) & (heap > 0)] *= 0.6
    heap[last] += 0.4
    beyond = heap.copy()  # a fifth of the bin is further out than it was found
    beyond[last] -= 0.2
    beyond[last + 1 : last + 6] += 0.04
    told = number.powers @ replace(number, shares=beyond).fine_marginal(EVEN)[:-1]
    found = replace(number, shares=heap).with_tails(EVEN, told, np.full(2, 1e-3))
    assert found.powers @ found.fine_marginal(EVEN)[:-1] == pytest.approx(told, rel=0.02)
    taken = np.maximum(heap - found.shares, 0.0)
    assert taken[last] > 0.9 * taken.sum() > 0.05


def test_what_noise_put_far_out_is_moved_inwards():
    """A spread that is larger than the released one falls, and no bin gains or loses rows."""
    number = NUMBERS[0]
    told = number.powers @ number.fine_marginal(EVEN)[:-1]
    found = number.with_tails(EVEN, told - [0.0, 0.2], np.full(2, 1e-2))
    left = found.powers @ found.fine_marginal(EVEN)[:-1]
    assert told[1] - 0.25 < left[1] < told[1] - 0.1
    assert np.bincount(found.groups, found.shares) == pytest.approx(1.0)
    assert (found.shares >= 0).all()


def test_finer_codes_are_drawn_together():
    """Each keeps its bin and its share there, and relations of numbers go on inside bins."""
    rng, rows = np.random.default_rng(0), np.zeros((20_000, 2), dtype=int)
    numbers, latent = {0: NUMBERS[0], 1: NUMBERS[1]}, rng.standard_normal(rows.shape)
    latent[:, 1] = 0.8 * latent[:, 0] + 0.6 * latent[:, 1]
    for a, number in numbers.items():
        ends = np.cumsum(np.bincount(number.groups, number.shares))
        ranks = (np.argsort(np.argsort(latent[:, a])) + 0.5) / len(rows)
        rows[:, a] = np.searchsorted(ends / ends[-1], ranks)

    def alone():
        return np.stack([n.draw_codes(rows[:, a], rng) for a, n in numbers.items()], axis=1)

    def correlation(codes):
        return np.corrcoef(*(n.z[codes[:, a]] for a, n in numbers.items()))[0, 1]

    drawn, apart = draw_fine_codes(numbers, rows, rng), [alone() for _ in range(10)]
    for a, number in numbers.items():
        assert (number.groups[drawn[:, a]] == rows[:, a]).all()
        counts = (np.bincount(c[:, a], minlength=len(number.groups)) for c in (drawn, apart[0]))
        bins = np.bincount(rows[:, a])[number.groups]
        wanted = bins * number.shares / np.bincount(number.groups, number.shares)[number.groups]
        for found in counts:
            assert np.abs(found - wanted).max() < 6 * np.sqrt(len(rows) / 10)
    apart = [correlation(codes) for codes in apart]
    assert correlation(drawn) > np.mean(apart) + 5 * np.std(apart)


def test_values_inside_bins_have_the_shares_of_finer_codes():
    moved = dict.fromkeys(OPEN.names)
    for a in (0, 1):
        number = NUMBERS[a]
        shares = np.random.default_rng(a).random(len(number.shares)) + 0.05
        shares /= np.bincount(number.groups, shares)[number.groups]
        moved[OPEN.names[a]] = replace(number, shares=shares)
    schema = with_shares(CUT, moved)
    places = (np.arange(40_000) + 0.5) / 40_000
    for name in ("pay", "age"):
        fine = FINE[name]
        assert schema[name].bins.edges == CUT[name].bins.edges
        for code in range(CUT[name].size):
            drawn = fine.encode_values(schema[name].decode(np.full(40_000, code), places))
            share = np.bincount(drawn, minlength=fine.size) / 40_000
            wanted = np.where(moved[name].groups == code, moved[name].shares, 0.0)
            assert share == pytest.approx(wanted, abs=1e-3)
    assert with_shares(CUT, dict.fromkeys(OPEN.names)) == CUT


@pytest.mark.long
def test_numbers_are_released_only_where_bins_are_found():
    frame = people(500, holes=0.1)
    facts = {"epsilon": 2.0, "delta": 1e-6, "random_state": 0}
    model = AllPairs(**facts).fit(frame, schema=OPEN)
    assert model.tables_.numeric_scores.keys() == {0, 1, 2}
    for other in (
        AllPairs(**facts, bins="equal").fit(frame, schema=OPEN),
        AllPairs(**facts).fit(frame, schema=OPEN.with_bins(model.bins_)),
        AllPairs(**facts, missing="impute-first").fit(frame, schema=OPEN),
    ):
        assert not other.tables_.numbers
        assert not other.tables_.products.extra_features
