"""Numeric attributes: spikes, grids, steps, and values inside subintervals."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Numeric, Schema, Table
from missdp.errors import SchemaError
from missdp.evaluate import marginal_distance
from missdp.inference.dyadic import fit_histogram, measured_levels, node_counts
from missdp.schema import Binning, BinSource
from missdp.synth.first_parts import find_bins
from missdp.synth.search_grid import MAX_CODES, before_fit, with_pending_bins, with_search_grid


@st.composite
def attributes(draw):
    integer = draw(st.booleans())
    lower = draw(st.integers(-20, 20))
    upper = lower + draw(st.integers(1, 60))
    numbers = st.integers(lower, upper) if integer else st.floats(lower, upper)
    spikes = draw(st.lists(numbers, max_size=4, unique_by=float))
    most = min(12, upper - lower + 1)
    edges = None
    if draw(st.booleans()):
        inner = draw(st.sets(st.sampled_from(range(lower, upper)), max_size=5)) - {lower}
        edges = (lower, *sorted(inner), upper)
    bins = None if edges else draw(st.none() | st.integers(1, most))
    cuts = {"bins": bins, "edges": edges, "spikes": tuple(spikes)}
    return Numeric(name="x", lower=lower, upper=upper, integer=integer, nullable=True, **cuts)


@settings(max_examples=60)
@given(attributes(), st.data())
def test_draws_from_a_code_encode_to_it_and_have_a_label(attribute, data):
    assert len({*attribute.bin_labels}) == attribute.size == len(attribute.centres)
    assert (np.diff(attribute.centres) >= 0).all()
    assert attribute.spikes or attribute.size == len(attribute.bin_edges) - 1
    codes = np.repeat(np.arange(attribute.size), 4)
    extremes = np.array([0.0, 1 - 2**-53])
    uniform = np.concatenate([extremes, np.random.default_rng(0).random(2)])
    drawn = attribute.decode(codes, np.tile(uniform, attribute.size))
    # The last float below an edge may be rounded onto it, as without spikes.
    moved = attribute.encode_values(drawn) != codes
    assert not moved[np.tile(uniform, attribute.size) != extremes[1]].any()
    assert (drawn >= attribute.lower).all()
    assert (drawn <= attribute.upper).all()
    assert not attribute.integer or np.array_equal(drawn, np.floor(drawn))
    values = np.array(data.draw(st.lists(st.sampled_from(attribute.spikes or (attribute.lower,)))))
    again = attribute.decode(attribute.encode_values(values), np.full(len(values), 0.7))
    if attribute.spikes:
        np.testing.assert_array_equal(again, values)


@settings(max_examples=30)
@given(st.integers(-5, 30), st.sets(st.integers(0, 4), max_size=2))
def test_other_integers_of_a_bin_stay_equally_likely(lower, places):
    spikes = {lower + place for place in places}
    cuts = {"integer": True, "bins": 1, "spikes": tuple(spikes)}
    attribute = Numeric(name="x", lower=lower, upper=lower + 4, **cuts)
    rest = int(np.flatnonzero(["[" in name for name in attribute.bin_labels])[0])
    drawn = attribute.decode(np.full(600, rest), (np.arange(600) + 0.5) / 600)
    found, counts = np.unique(drawn, return_counts=True)
    assert set(found) == set(range(lower, lower + 5)) - spikes
    assert (counts == 600 // (5 - len(spikes))).all()


@pytest.mark.parametrize("bounds", [(0, 5e-324), (1, 1 + 2**-52)])
def test_draws_from_bins_of_spikes_only_are_in_the_domain(bounds):
    for spikes in ((bounds[0],), bounds):
        attribute = Numeric(name="x", lower=bounds[0], upper=bounds[1], bins=1, spikes=spikes)
        drawn = attribute.decode(np.arange(attribute.size), np.zeros(attribute.size))
        assert ((drawn >= attribute.lower) & (drawn <= attribute.upper)).all()


RELEASED = Binning(
    edges=(0, 9000, 50_000), spikes=(0,), subintervals=(0, 100, 9000, 50_000), weights=(1, 1, 1)
)


@pytest.mark.parametrize("facts", [{"bins": 20, "spikes": (0,)}, {"bins": RELEASED}])
def test_evaluation_sees_spikes_in_finer_bins(facts):
    spiky = Schema((Numeric(name="pay", lower=0, upper=50_000, nullable=True, **facts),))
    frame = pd.DataFrame({"pay": [0.0, 0.0, None, *np.geomspace(1, 50_000, 200)]})
    table = Table.read(frame, spiky)
    assert marginal_distance(table, table, k=1, bins=50).mean == 0
    moved = Table.from_codes(spiky, {"pay": table.codes("pay")})
    assert marginal_distance(table, moved.with_values(np.random.default_rng(0)), k=1).mean == 0


@pytest.mark.parametrize("integer", [True, False])
def test_a_bin_reaches_no_spike_at_its_ends(integer):
    cuts = {"bins": 2, "integer": integer, "spikes": (0, 1, 10, 15, 20)}
    income = Numeric(name="i", lower=0, upper=20, **cuts)
    least, greatest = income.code_ranges
    for code in range(income.size):
        values = income.decode(np.full(500, code), np.linspace(0, 1, 500, endpoint=False))
        assert least[code] <= values.min()
        assert values.max() <= greatest[code]
    bins = least < greatest
    assert bins.sum() == 2
    assert not np.isin([*least[bins], *greatest[bins]], income.spikes).any()
    if integer:
        assert list(zip(least[bins], greatest[bins], strict=True)) == [(2, 9), (11, 19)]


# Numeric attributes without bins: grids, steps, and values inside subintervals
STEPS = [{"integer": True}, {}, {"step": 0.01}, {"step": 5.0, "integer": True}]
STEPS += [{"step": 1e-10}, {"step": 250_000.0}]


@st.composite
def open_attributes(draw):
    """Attributes of all sizes, with and without steps."""
    facts = draw(st.sampled_from(STEPS))
    step = facts.get("step") or 1.0
    lower = step * draw(st.sampled_from((0, 0, -100, 3, 1900, -50_000)))
    width = step * draw(st.integers(17, 40) | st.integers(41, 200_000))
    return Numeric(name="x", lower=lower, upper=lower + width, nullable=True, **facts)


def cells_of(attribute):
    schema = with_pending_bins(Schema((attribute,)), ["x"])
    return schema["x"], with_search_grid(schema)["x"]


def spread(attribute, n, seed):
    """Values near the lower end, many of them equal, some at the bounds."""
    rng = np.random.default_rng(seed)
    width = attribute.upper - attribute.lower
    values = attribute.lower + width * np.minimum(1, rng.exponential(rng.choice([0.01, 0.3]), n))
    values[: n // 3] = rng.choice([attribute.lower, values[0], attribute.upper])
    values[-2:] = attribute.lower, attribute.upper
    values = np.rint(values) if attribute.integer else values
    return attribute.round_to_step(values)


@given(open_attributes(), st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_cells_of_a_grid_are_in_order_and_values_stay_in_their_cell(attribute, seed):
    _, grid = cells_of(attribute)
    values = np.sort(spread(attribute, 200, seed))
    codes = grid.encode_values(values)
    assert (np.diff(codes) >= 0).all()
    again = grid.decode(codes, np.random.default_rng(seed).random(len(codes)))
    assert np.array_equal(grid.encode_values(again), codes)
    least, greatest = grid.code_ranges
    assert (least[codes] <= values).all()
    assert (values <= greatest[codes]).all()


@pytest.mark.long
@given(open_attributes(), st.integers(0, 2**32 - 1), st.sampled_from((1e-6, 5.0, 400.0)))
@settings(max_examples=60)
def test_cut_attributes_draw_values_on_the_step_inside_their_bins(attribute, seed, std):
    marked, grid = cells_of(attribute)
    rng = np.random.default_rng(seed)
    cells = np.bincount(grid.encode_values(spread(attribute, 3000, seed)), minlength=grid.size)
    levels = measured_levels(grid.size, every=1)
    noisy = [v + rng.normal(0, std, v.shape) for v in node_counts(cells, levels)]
    told = fit_histogram(noisy, std=std, size=grid.size, levels=levels)
    found = replace(marked, bins=find_bins(grid, told, unit=std))
    assert found.size <= marked.size <= MAX_CODES
    assert before_fit(Schema((found,)))["x"] == marked
    codes = rng.integers(0, found.size, 2000)
    values = found.decode(codes, rng.random(2000))
    assert np.array_equal(found.encode_values(values), codes)
    assert values.min() >= attribute.lower
    assert values.max() <= attribute.upper
    assert np.array_equal(attribute.round_to_step(values), values)
    if attribute.integer:
        assert np.array_equal(np.rint(values), values)
    # The code of a grid cell does not depend on which of its values is encoded.
    least, greatest = grid.code_ranges
    assert np.array_equal(found.encode_values(least), found.encode_values(greatest))


def test_values_follow_the_weights_of_subintervals_and_spikes_are_exact():
    bins = Binning(
        edges=(0, 50, 100), spikes=(0,), subintervals=(0, 10, 50, 90, 100),
        weights=(0.3, 0.1, 0.0, 0.2),
    )  # fmt: skip
    x = Numeric(name="x", lower=0, upper=100, bins=bins)
    rng = np.random.default_rng(0)
    low = x.decode(np.full(40_000, 1), rng.random(40_000))
    assert (low < 10).mean() == pytest.approx(0.75, abs=0.015)
    assert (low > 0).all()
    assert x.decode(np.full(99, 2), rng.random(99)).min() >= 90
    assert set(x.decode(np.zeros(9, int), rng.random(9))) == {0.0}


def test_no_bin_draws_values_of_another_bin():
    """Sums of weights are rounded.

    The sampler never draws a spike or a value beyond the bounds.
    """
    bins = Binning(
        edges=(960698151, 960698169), spikes=(960698169,), weights=(0.1, 0.2, 0.0),
        subintervals=(960698151, 960698160, 960698168.5, 960698169),
    )  # fmt: skip
    x = Numeric(name="x", lower=960698151, upper=960698169, integer=True, bins=bins)
    u = np.array([0.0, 0.5, np.nextafter(1, 0)])
    assert x.decode(np.zeros(3, int), u).max() <= 960698168
    bins = Binning(
        edges=(0, 5e14, 1e15), subintervals=(0, 5e14, 5e14 + 10, 1e15), weights=(0.0, 0.999, 0.001)
    )
    wide = Numeric(name="x", lower=0, upper=1e15, integer=True, bins=bins)
    values = wide.decode(np.ones(10_000, int), np.random.default_rng(0).random(10_000))
    assert (values < 5e14 + 10).mean() == pytest.approx(0.999, abs=0.003)


def test_nearly_equal_numbers_are_distinguished():
    a = Numeric(name="x", lower=63172.799999999996, upper=64400.99999999999, step=0.3)
    assert cells_of(a)[1].size > 4000
    cuts = {"edges": (1.0, 2.0), "spikes": (1.0, np.nextafter(1.0, 2))}
    near = Numeric(name="x", lower=1.0, upper=2.0, **cuts)
    rest = "[1, 2) except 1, 1.0000000000000002"
    assert near.bin_labels == ("1", "1.0000000000000002", rest)


def test_few_numbers_are_a_bin_each_and_declared_bins_stay():
    facts = {"few": {"upper": 15}, "bins": {"bins": 9}, "spikes": {"spikes": (0,)}, "open": {}}
    whole = {"lower": 0, "upper": 90, "integer": True}
    schema = Schema(tuple(Numeric(name=n, **{**whole, **own}) for n, own in facts.items()))
    found = with_pending_bins(schema, schema.names)
    assert [a.size for a in found] == [16, 9, 11, MAX_CODES]
    assert (found["bins"], found["spikes"]) == (schema["bins"], schema["spikes"])
    assert with_pending_bins(schema, ())["open"] == schema["open"]


@pytest.mark.parametrize(
    ("told", "facts"),
    [
        ("have a weight each", {"subintervals": (0, 50, 100), "weights": (0.1,)}),
        ("contain all edges", {"subintervals": (0, 50), "weights": (0.1,)}),
        ("must increase", {"subintervals": (0, 60, 50, 100), "weights": (0.1, 0.1, 0.1)}),
        ("weights must be at least 0", {"subintervals": (0, 100), "weights": (-0.1,)}),
        ("must be a finite number", {"subintervals": (0, 100), "weights": (np.nan,)}),
        ("have a weight each", {"subintervals": (0, 100)}),
    ],
)
def test_released_bins_that_do_not_fit_raise(told, facts):
    with pytest.raises(SchemaError, match=told):
        Binning(edges=(0, 100), **facts)


@pytest.mark.parametrize(
    ("told", "bins", "facts"),
    [
        ("start at lower", {"edges": (1, 100)}, {}),
        ("inside", {"edges": (0, 100), "spikes": (101,)}, {}),
        ("not both", {"edges": (0, 100)}, {"edges": (0, 100)}),
        ("Leave spikes out", {"edges": (0, 100)}, {"spikes": (0,)}),
    ],
)
def test_released_bins_that_a_number_does_not_have_raise(told, bins, facts):
    with pytest.raises(SchemaError, match=told):
        Numeric(name="x", lower=0, upper=100, bins=Binning(**bins), **facts)


def test_binnings_of_other_releases_are_equal():
    bins = Binning(edges=(0, 1), source=BinSource.RELEASE, release="a")
    assert bins == replace(bins, release="b")
    # A release that uses bins of another one says so. They must not pass for declared ones.
    assert bins != Binning(edges=(0, 1)) == bins.cells
    with pytest.raises(SchemaError, match="source is required"):
        Binning.from_dict({"edges": [0, 1]})
    assert bins != replace(bins, spikes=(0,))
