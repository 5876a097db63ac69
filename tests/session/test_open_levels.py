"""Values that occur are found privately: thresholds are exact, rare values hardly ever leave."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri

from missdp import Filter, OpenCategorical, Schema
from missdp.accounting import GaussianEvent, LaplaceEvent
from missdp.errors import DataError, ParameterError, SchemaError, UnprovenError
from missdp.schema import ReleasedCategorical
from missdp.session import SeededNoise, Session
from missdp.session.frequent_values import (
    FrequentValues,
    OccurringValues,
    OpenRows,
    _min_count,
)
from missdp.session.noise import _exact_exp_enclosure
from missdp.table import Rows, Table
from missdp.table.encode import Encoder
from missdp.testing import undercharges

OPEN = OpenCategorical(name="d", nullable=True, missing_codes=("?", -9, "n/a"), refused=("R",))
BITS = 300


def exact_tail(sigma, first):
    """P(noise >= first) of the discrete Gaussian, below and above, in whole numbers."""

    def mass(k):
        return _exact_exp_enclosure(Fraction(k) ** 2 / (2 * Fraction(sigma) ** 2), BITS)

    last = math.ceil(30 * sigma)
    masses = [mass(k) for k in range(last + 1)]
    low = [m[0] for m in masses]
    high = [m[1] for m in masses]
    rest = 4 * last * high[-1] + 4 * last  # a geometric tail is far below
    all_low, all_high = low[0] + 2 * sum(low[1:]), high[0] + 2 * sum(high[1:]) + 2 * rest
    return Fraction(sum(low[first:]), all_high), Fraction(sum(high[first:]) + rest, all_low)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0, 5.0, 20.0])
def test_thresholds_are_the_smallest_that_hold_for_the_noise_that_is_drawn(sigma):
    for failure in (1e-6, 1e-7, 1e-8, 1e-9, 0.05):
        least = _min_count(sigma, failure)
        assert exact_tail(sigma, least - 1)[1] <= Fraction(failure)
        assert exact_tail(sigma, least - 2)[0] > Fraction(failure)


def test_the_tail_of_the_continuous_gaussian_would_be_too_light():
    """1 + sigma times the normal quantile is too low by up to a step: the mutant is found."""
    wrong = math.ceil(1 + 0.5 * -ndtri(1e-8))
    assert _min_count(0.5, 1e-8) > wrong
    assert exact_tail(0.5, wrong - 1)[0] > Fraction(1, 10**8)
    for sigma, failure in ((0, 0.1), (-1, 0.1), (2, 0), (2, 1), (2, math.nan)):
        with pytest.raises(ParameterError):
            FrequentValues(sigma, failure, 5)


@pytest.mark.long
def test_a_value_that_one_row_has_leaves_as_rarely_as_was_charged_for():
    """At the threshold, with power: the chance is known exactly, and drawn 20,000 times."""
    sigma, failure, runs = 2.0, 0.05, 20_000
    how, source = FrequentValues(sigma, failure, 10), SeededNoise(0)
    assert [how.draw({}, source), how.draw({"x": 0}, source)] != [("x",), ("x",)]
    kept = sum(how.draw({"rare": 1}, source) == ("rare",) for _ in range(runs))
    low, high = exact_tail(sigma, _min_count(sigma, failure) - 1)
    assert low <= failure
    assert abs(kept / runs - float(high)) < 4 * math.sqrt(failure / runs)
    assert kept / runs <= failure + 4 * math.sqrt(failure / runs)
    # Without the failure, with a threshold of 1, this test sees it leave.
    leaks = sum(1 + int(source.discrete_gaussian(sigma, 1)[0]) >= 1 for _ in range(2000)) / 2000
    assert leaks > 0.4


def test_what_else_is_found_does_not_depend_on_a_value_that_is_not_kept():
    others = {f"v{k}": 3 * k for k in range(12)}
    how = FrequentValues(3.0, 0.01, 5)
    for seed in range(200):
        with_it = how.draw({**others, "zz rare": 1}, SeededNoise(seed))  # the last to be drawn for
        without = how.draw(others, SeededNoise(seed))
        assert with_it == without or "zz rare" in with_it


def test_at_most_so_many_are_kept_the_most_frequent_ones():
    counts = {f"v{k:02}": 1000 + 100 * k for k in range(30)}
    kept = FrequentValues(1.0, 1e-6, 7).draw(counts, SeededNoise(0))
    assert kept == tuple(f"v{k}" for k in range(23, 30))


def opened(data, budget=None, seed=0, attributes=(OPEN,)):
    budget = budget or Filter(50.0, 1e-6)
    rows = OpenRows(tuple(attributes), Rows.of(data), 0.999)
    return Session(rows, budget=budget, noise=SeededNoise(seed))


def test_it_is_charged_for_before_a_row_is_read():
    budget, how = Filter(0.1, 1e-6), FrequentValues(100.0, 1e-6, 5)
    session = opened({"d": ["x"]}, budget)
    session._rows = replace(session._rows, rows=None)  # every read fails, after the charge
    with pytest.raises(DataError, match="could not be computed"):
        session.measure(OccurringValues("d"), how)
    assert len(budget.events) == 1
    budget = Filter(0.1, 1e-6)
    session = opened({"d": ["x"]}, budget)
    for query, words in (
        ("d", "open rows answer OccurringValues"),
        (OccurringValues("e"), "no open levels"),
    ):
        with pytest.raises(ParameterError, match=words):
            session.measure(query, how)
    assert budget.remaining.amount == Filter(0.1, 1e-6).remaining.amount
    session.measure(OccurringValues("d"), how)
    (event,) = budget.events
    assert (event.sensitivity, event.sigma, event.label) == (1, 100.0, "levels of d")
    with pytest.raises(Exception, match=r"budget|exceed|left"):
        session.measure(OccurringValues("d"), FrequentValues(0.6, 1e-6, 5))


CELLS = st.one_of(
    st.text(max_size=6),
    st.sampled_from(["?", "n/a", "R", "-9", " other ", "nan", "e\u0301", "é", "007", "7.0"]),
    st.just("x" * 150),
    st.floats(allow_nan=True),
    st.integers(-10, 10),
    st.booleans(),
    st.none(),
    st.binary(max_size=3),
)  # fmt: skip


def frame_of(cells):
    return np.array([*cells, None], dtype=object)[:-1]


def counted(cells):
    return opened({"d": frame_of(cells).tolist()})._rows.counts["d"]


@pytest.mark.long
@given(st.lists(CELLS, max_size=8), CELLS)
def test_a_row_counts_for_one_value_at_most(cells, more):
    before, after = counted(cells), counted([*cells, more])
    changed = {v: after.get(v, 0) - before.get(v, 0) for v in after.keys() | before.keys()}
    moved = [by for by in changed.values() if by]
    assert moved in ([], [1])
    assert all(count > 0 for count in after.values())
    assert "other" not in after


@pytest.mark.long
@given(st.lists(CELLS, min_size=1, max_size=6))
def test_what_a_cell_is_follows_from_the_cell_alone(cells):
    """Once levels are selected, a cell that was counted as a value is also read as this value."""
    closed = OPEN.with_levels({v for cell in cells for v in counted([cell])})
    whole = Encoder(closed).encode(frame_of(cells)).codes
    for cell, code in zip(cells, whole.tolist(), strict=True):
        assert code == Encoder(closed).encode(frame_of([cell])).codes[0]
        (value,) = counted([cell]) or ("other",)
        assert code >= closed.size or closed.levels[code] == value


def test_columns_are_counted_in_one_pass_and_come_sorted_whatever_the_order_of_rows(tmp_path):
    rows = pd.DataFrame({"e": ["u", "v", "u"], "d": ["x", None, "x"]})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    session = opened(tmp_path / "rows.csv", attributes=(OPEN, OpenCategorical(name="e")))
    assert session._rows.counts == {"d": {"x": 2}, "e": {"u": 2, "v": 1}}
    unused = pd.DataFrame({"d": pd.Categorical(["x", "x"], categories=["x", "never"])})
    assert opened(unused)._rows.counts["d"] == {"x": 2}
    values, how = ["b"] * 50 + ["a"] * 70 + ["é"] * 60, FrequentValues(1.0, 1e-6, 10)
    for order in (1, -1):
        found = opened({"d": values[::order]}).measure(OccurringValues("d"), how)
        assert found.value == ("a", "b", "é")


def test_events_must_pay_for_neighbours():
    how, loud = FrequentValues(2.0, 1e-6, 5), FrequentValues(4.0, 1e-6, 5)
    event = GaussianEvent(sensitivity=1, sigma=2.0)
    # It costs as much as noise of 2 if a row changes a count by 1.
    twice = GaussianEvent(sensitivity=2, sigma=4.0)
    for law, paid, one, other, words in (
        (how, event, {"a": 4, "b": 2}, {"a": 5, "b": 2}, None),
        (how, event, {"a": 4}, {"a": 4, "b": 1}, None),
        (how, event, {"a": 4}, {"a": 6}, "was charged for"),
        (how, twice, {"a": 4}, {"a": 5}, None),
        (how, twice, {"a": 4}, {"a": 6}, "at least 4 was charged for"),
        (loud, twice, {"a": 4}, {"a": 6}, None),
        # The proof has a case for either, not for both.
        (how, event, {"a": 4}, {"a": 5, "b": 1}, "one was charged for"),
        (how, twice, {"a": 4}, {"a": 5, "b": 1}, "one was charged for"),
        (how, GaussianEvent(sensitivity=1, sigma=3.0), {"a": 4}, {"a": 4}, "noise"),
        (how, LaplaceEvent(sensitivity=1, scale=1.0), {}, {}, "LaplaceEvent"),
    ):
        found = undercharges(law, paid, one, other)
        assert words in found if words else found is None
    with pytest.raises(UnprovenError, match="several values"):
        undercharges(how, event, {"a": 4}, {"a": 4, "b": 2})


@pytest.mark.parametrize(
    ("message", "facts"),
    [
        *(("max_levels", {"max_levels": bad}) for bad in (0, 5000, True)),
        *(("other", {"other": bad}) for bad in ("", " x", "e\u0301", "a\nb", 3)),
        ("Leave levels out", {"levels": ("a", "other")}),
        ("does not apply", {"outside": "missing", "nullable": True}),
        ("overlap", {"missing_codes": ("other",), "nullable": True}),
    ],
)
def test_open_attributes_say_what_is_wrong(message, facts):
    with pytest.raises(Exception, match=message) as refused:
        OpenCategorical(name="d", **facts)
    assert "\n" not in str(refused.value)


def test_released_levels_without_the_bucket_last_raise():
    with pytest.raises(SchemaError, match="the last"):
        ReleasedCategorical(name="d", levels=("other", "a"), other="other")


@pytest.mark.parametrize("outside", ["missing", "other"])
def test_released_levels_with_outside_raise_error(outside):
    facts = {"levels": ("a", "other"), "other": "other", "nullable": True}
    with pytest.raises(SchemaError, match="outside does not apply"):
        ReleasedCategorical(name="d", outside=outside, **facts)


def test_a_schema_file_says_open(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('format = 1\n[[attribute]]\nname = "d"\nlevels = "open"\nmax_levels = 9\n')
    schema = Schema.from_toml(path)
    assert schema["d"] == OpenCategorical(name="d", max_levels=9)
    schema.to_toml(path)
    assert Schema.from_toml(path) == schema
    with pytest.raises(SchemaError, match="'d' are open"):
        Table.read({"d": ["x", "other"]}, schema)


def test_values_that_leave_with_more_probability_than_was_charged_are_refused():
    budget, how = Filter(50.0, 1e-6), FrequentValues(1.0, 1e-6, 5)
    rows = OpenRows((OPEN, OPEN), Rows.of({"d": ["x"]}), 1.9e-6)  # one column less was paid for
    session = Session(rows, budget=budget, noise=SeededNoise(0))
    with pytest.raises(ParameterError, match="more probability than was charged"):
        session.measure(OccurringValues("d"), how)
    assert budget.events == ()
