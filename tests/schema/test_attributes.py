import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Ordinal
from missdp.errors import SchemaError


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"levels": ()}, "empty"),
        ({"levels": ("a", "a")}, "distinct"),
        ({"levels": ("a", 1)}, "levels"),
        ({"levels": (1, True)}, "levels"),
        ({"levels": ("",)}, "empty text"),
        ({"levels": (" a",)}, "blanks"),
        ({"levels": ("a" * 4097,)}, "at most 4096 characters"),
        ({"levels": (1.5,)}, "is not valid: levels must be a list, all text"),
        ({"levels": ("a", 1)}, "is not valid: levels must be a list, all text"),
        ({"levels": "a"}, "is not valid: levels must be a list, all text"),
        ({"levels": (1, 2**63)}, "2\\*\\*53"),
        ({"levels": (None,)}, "levels"),
        ({"levels": ("a",), "missing_codes": ("?",)}, "nullable"),
        ({"levels": ("a", "?"), "missing_codes": ("?",), "nullable": True}, "overlap"),
        ({"levels": ("a",), "outside": "clamp"}, "numeric"),
        ({"levels": ("a",), "outside": "missing"}, "nullable"),
        ({"levels": ("a",), "outside": "guess"}, "outside"),
        ({"levels": ("a",), "undeclared": ("colour",)}, "colour"),
        ({"levels": ("a",), "colour": 1}, "colour"),
        ({"levels": ("a",), "nullable": "yes"}, "nullable"),
        ({"levels": (2**53,)}, "2\\*\\*53"),
        ({"levels": (-(10**400),)}, "2\\*\\*53"),
        ({"levels": (7,), "missing_codes": (7.0,), "nullable": True}, "overlap"),
        ({"levels": (7,), "missing_codes": ("7.0",), "nullable": True}, "overlap"),
        ({"levels": ("7",), "missing_codes": (7,), "nullable": True}, "overlap"),
        ({"levels": ("?",), "missing_codes": (" ? ",), "nullable": True}, "overlap"),
        ({"levels": (False, True), "missing_codes": (1,), "nullable": True}, "overlap"),
        ({"levels": ("a",), "missing_codes": (2**53,), "nullable": True}, "2\\*\\*53"),
        ({"levels": ("a",), "missing_codes": (math.nan,), "nullable": True}, "finite"),
        ({"levels": ("a",), "missing_codes": (True,), "nullable": True}, "text or numbers"),
        ({"levels": ("a",), "missing_codes": ("\ud800",), "nullable": True}, "text or numbers"),
        ({"levels": ("a\udfff",)}, "levels must be a list, all text"),
        ({"levels": ("a",), "label": "\ud800"}, "label"),
    ],
)
def test_bad_levels_are_refused_with_the_reason(facts, says):
    with pytest.raises(SchemaError, match=says) as caught:
        Categorical(name="x", **facts)
    assert "'x'" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["", None, 3, "a\ud800"])
def test_a_name_is_text(name):
    with pytest.raises(SchemaError):
        Categorical(name=name, levels=("a",))


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"lower": 1, "upper": 1}, "below"),
        ({"lower": 2, "upper": 1}, "below"),
        ({"lower": -math.inf, "upper": 1}, "finite"),
        ({"lower": 0, "upper": math.nan}, "finite"),
        ({"lower": -1.7e308, "upper": 1.7e308}, "2\\*\\*53"),
        ({"lower": 0.5, "upper": 3, "integer": True}, "whole"),
        ({"lower": 0, "upper": 3, "integer": True, "bins": 9}, "whole number"),
        ({"lower": 0, "upper": 2**64, "integer": True}, "2\\*\\*53"),
        ({"lower": 1.0, "upper": 1.0 + 2e-16, "bins": 10}, "narrower"),
        ({"lower": 0, "upper": 1, "bins": 0}, "bins"),
        ({"lower": 0, "upper": 1, "bins": 2, "edges": (0, 1)}, "not both"),
        ({"lower": 0, "upper": 1, "edges": (0, 0.5)}, "lower and end"),
        ({"lower": 0, "upper": 1, "edges": (0, 0.5, 0.5, 1)}, "increasing"),
        ({"lower": 0, "upper": 1, "missing_codes": ("-9",), "nullable": True}, "quotes"),
        ({"lower": 0, "upper": 1, "missing_codes": (" inf",), "nullable": True}, "quotes"),
        ({"lower": 0, "upper": 2**53}, "2\\*\\*53"),
        ({"lower": -(10**400), "upper": 1}, "number"),
        ({"lower": 0, "upper": 99, "missing_codes": (99,), "nullable": True}, "outside"),
        ({"lower": 0, "upper": 1, "missing_codes": (-9, 0.5), "nullable": True}, "outside"),
        ({"lower": 0, "upper": 1, "missing_codes": (2**60,), "nullable": True}, "2\\*\\*53"),
    ],
)
def test_bad_numbers_are_refused_with_the_reason(facts, says):
    with pytest.raises(SchemaError, match=says) as caught:
        Numeric(name="x", **facts)
    assert caught.value.__context__ is caught.value.__cause__ is None


def test_a_missing_code_may_be_written_nan_or_beside_the_domain():
    codes = ("NaN", "k.A.", -9, 99.5)
    Numeric(name="x", lower=0, upper=99, nullable=True, missing_codes=codes)
    Categorical(name="x", levels=("7",), nullable=True, missing_codes=("007", " "))


@pytest.mark.parametrize("fact", ["levels", "missing_codes", "refused"])
def test_sets_are_refused_since_their_order_is_that_of_the_day(fact):
    facts = {"levels": ("low", "high"), "nullable": True} | {fact: {"a", "b"}}
    for kind in (Ordinal, Categorical):
        with pytest.raises(SchemaError, match=f"{fact} must be a list"):
            kind(name="x", **facts)
    for numbers in ("edges", "spikes"):
        with pytest.raises(SchemaError, match=f"{numbers} must"):
            Numeric(name="x", lower=0, upper=1, **{numbers: {0, 1}})


def test_extended_domain_has_one_more_code_only_if_nullable():
    open_ = Categorical(name="x", levels=("a", "b"), nullable=True)
    closed = Categorical(name="x", levels=("a", "b"))
    assert (open_.extended_size, closed.extended_size) == (3, 2)
    assert open_.missing_code == closed.missing_code == 2


def test_default_bins_are_ten_or_one_per_whole_number():
    assert Numeric(name="x", lower=0, upper=1).size == 10
    assert Numeric(name="x", lower=0, upper=3, integer=True).size == 4
    assert Numeric(name="x", lower=0, upper=90, integer=True).size == 10


@st.composite
def numeric_attributes(draw):
    integer = draw(st.booleans())
    lower = draw(st.integers(-50, 50))
    upper = lower + draw(st.integers(1, 200))
    if draw(st.booleans()):
        bins = draw(st.integers(1, min(20, upper - lower)))
        return Numeric(name="x", lower=lower, upper=upper, integer=integer, bins=bins)
    inner = draw(st.sets(st.integers(lower + 1, upper), max_size=5)) - {upper}
    edges = (lower, *sorted(inner), upper)
    return Numeric(name="x", lower=lower, upper=upper, integer=integer, edges=edges)


@given(numeric_attributes(), st.integers(0, 2**32 - 1))
def test_decoding_a_bin_lands_in_that_bin(attribute, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, attribute.size, 200)
    values = attribute.decode(codes, rng.random(200))
    assert values.min() >= attribute.lower
    assert values.max() <= attribute.upper
    np.testing.assert_array_equal(attribute.encode_values(values), codes)
    if attribute.integer:
        np.testing.assert_array_equal(values, np.floor(values))


def test_decoding_reaches_every_whole_number_of_a_bin_evenly():
    attribute = Numeric(name="x", lower=0, upper=9, integer=True, bins=2)
    values = attribute.decode(np.ones(50_000, dtype=int), np.random.default_rng(0).random(50_000))
    found, counts = np.unique(values, return_counts=True)
    assert found.tolist() == [5, 6, 7, 8, 9]
    assert np.all(np.abs(counts / 10_000 - 1) < 0.05)


@pytest.mark.parametrize("fact", ["refused", "unknown", "not_asked", "not_applicable"])
def test_an_empty_cell_is_of_one_kind_however_it_is_written(fact: str) -> None:
    """In a CSV file it is null, in a frame it may be text: both must mean the same."""
    with pytest.raises(SchemaError, match="cannot be empty text"):
        Categorical(name="a", levels=("x",), nullable=True, **{fact: ("r", " ")})


def test_an_empty_cell_is_not_applicable_where_none_may_be_missing() -> None:
    assert Categorical(name="a", levels=("x",), not_applicable=("",)).kinds == ("not_applicable",)


def test_one_code_cannot_be_of_two_kinds_however_it_is_written() -> None:
    for one, two in ((-8, "-8.0"), ("nan", "NaN"), (" DK", "DK"), (1e3, "1000")):
        with pytest.raises(SchemaError, match="a code is of two kinds"):
            Categorical(name="a", levels=("x",), nullable=True, refused=(one,), unknown=(two,))
