"""Numbers at which many rows pile up: levels of their own, drawn exactly, beside their bin."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import AIM, Categorical, Numeric, PrivBayes, Schema, Table
from missdp.errors import SchemaError
from missdp.evaluate import marginal_distance


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
        inner = (
            draw(st.lists(st.integers(lower + 1, upper - 1), max_size=5, unique=True))
            if (upper - lower > 1)
            else []
        )
        edges = (lower, *sorted(inner), upper)
    bins = None if edges else draw(st.none() | st.integers(1, most))
    return Numeric(
        name="x", lower=lower, upper=upper, integer=integer, bins=bins, edges=edges,
        spikes=tuple(spikes), nullable=True,
    )  # fmt: skip


@settings(max_examples=60)
@given(attributes(), st.data())
def test_what_is_drawn_from_a_code_is_read_as_that_code(attribute, data):
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


@settings(max_examples=40)
@given(attributes())
def test_codes_go_up_and_every_one_is_named(attribute):
    assert len(attribute.interval_names) == attribute.size == len(attribute.centres)
    assert len(set(attribute.interval_names)) == attribute.size
    assert (np.diff(attribute.centres) >= 0).all()
    if not attribute.spikes:
        assert attribute.size == len(attribute.bin_edges) - 1


@settings(max_examples=30)
@given(st.integers(-5, 30), st.sets(st.integers(0, 4), max_size=2))
def test_the_other_whole_numbers_of_a_bin_stay_equally_likely(lower, places):
    spikes = {lower + place for place in places}
    attribute = Numeric(
        name="x", lower=lower, upper=lower + 4, integer=True, bins=1, spikes=tuple(spikes)
    )
    rest = int(np.flatnonzero(["[" in name for name in attribute.interval_names])[0])
    drawn = attribute.decode(np.full(600, rest), (np.arange(600) + 0.5) / 600)
    found, counts = np.unique(drawn, return_counts=True)
    assert set(found) == set(range(lower, lower + 5)) - spikes
    assert (counts == 600 // (5 - len(spikes))).all()


@pytest.mark.parametrize("bounds", [(0, 5e-324), (1, 1 + 2**-52)])
def test_what_is_drawn_where_only_spikes_are_left_is_in_the_domain(bounds):
    for spikes in ((bounds[0],), bounds):
        attribute = Numeric(name="x", lower=bounds[0], upper=bounds[1], bins=1, spikes=spikes)
        drawn = attribute.decode(np.arange(attribute.size), np.zeros(attribute.size))
        assert ((drawn >= attribute.lower) & (drawn <= attribute.upper)).all()


def incomes(n=8_000, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    income = np.where(rng.random(n) < 0.15 + 0.3 * sex, 0.0, np.exp(rng.normal(7, 1, n)))
    frame = pd.DataFrame({"sex": np.array(["m", "f"])[sex], "income": income.clip(0, 50_000)})
    return frame.mask(np.column_stack([np.zeros(n, bool), rng.random(n) < 0.1]))


def schema(*spikes):
    return Schema(
        (
            Categorical(name="sex", levels=("f", "m")),
            Numeric(name="income", lower=0, upper=50_000, bins=20, spikes=spikes, nullable=True),
        )
    )


@pytest.mark.parametrize("family", [AIM, PrivBayes])
def test_a_pile_of_zeros_stays_one(family):
    truth = incomes()
    kept = family(epsilon=3.0, missing="joint", random_state=0).fit(truth, schema=schema(0))
    synthetic = kept.sample(8_000)
    share = (truth["income"] == 0).sum() / truth["income"].notna().sum()
    assert (synthetic["income"] == 0).mean() == pytest.approx(share, abs=0.02)
    by_sex = (synthetic["income"] == 0).groupby(synthetic["sex"]).mean()
    assert by_sex["f"] - by_sex["m"] == pytest.approx(0.3, abs=0.05)
    holes = kept.sample(2000, missing_values="keep")["income"]
    assert holes.isna().any()
    assert (holes == 0).any()
    # Without the spike nobody earns exactly nothing.
    smooth = family(epsilon=3.0, random_state=0).fit(truth, schema=schema()).sample(8_000)
    assert (smooth["income"] == 0).mean() < 0.01
    errors = [abs(t["income"].mean() / truth["income"].mean() - 1) for t in (synthetic, smooth)]
    assert errors[0] < errors[1]


def test_evaluation_sees_spikes_in_finer_bins():
    table = Table.read(incomes(2000), schema(0))
    assert marginal_distance(table, table, k=1, bins=50).mean == 0
    moved = Table.from_codes(table.schema, {n: table.codes(n) for n in table.schema.names})
    assert marginal_distance(table, moved.with_values(np.random.default_rng(0)), k=1).mean == 0
    with pytest.raises(SchemaError, match="different domains"):
        marginal_distance(table, Table.read(incomes(200), schema()), k=1)


@pytest.mark.parametrize("integer", [True, False])
def test_a_bin_reaches_no_spike_at_its_ends(integer):
    income = Numeric(
        name="i", lower=0, upper=20, bins=2, integer=integer, spikes=(0, 1, 10, 15, 20)
    )
    least, greatest = income.reach
    for code in range(income.size):
        values = income.decode(np.full(500, code), np.linspace(0, 1, 500, endpoint=False))
        assert least[code] <= values.min()
        assert values.max() <= greatest[code]
    bins = least < greatest
    assert bins.sum() == 2
    assert not np.isin([*least[bins], *greatest[bins]], income.spikes).any()
    if integer:
        assert list(zip(least[bins], greatest[bins], strict=True)) == [(2, 9), (11, 19)]


def test_spikes_that_short_numbers_do_not_tell_apart_have_names_of_their_own():
    near = Numeric(
        name="x", lower=1.0, upper=2.0, edges=(1.0, 2.0), spikes=(1.0, np.nextafter(1.0, 2))
    )
    rest = "[1, 2) except 1, 1.0000000000000002"
    assert near.interval_names == ("1", "1.0000000000000002", rest)
