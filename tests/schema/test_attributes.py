import math

import pytest

from missdp import Categorical, Numeric, Ordinal
from missdp.errors import SchemaError

# What is wrong, and what is said of it; of an attribute with the level "a", or from 0 to 100.
CODES = "missing_codes", "refused", "unknown", "not_asked", "not_applicable"
LEVELS = [
    ("levels must not be empty", {"levels": ()}),
    ("distinct", {"levels": ("a", "a")}),
    *(
        ("is not valid: levels must be a list, all text", {"levels": bad})
        for bad in (("a", 1), (1, True), (1.5,), "a", (None,), ("a\udfff",), {"a"})
    ),
    ("empty text", {"levels": ("",)}),
    ("blanks", {"levels": (" a",)}),
    ("at most 4096 characters", {"levels": ("a" * 4097,)}),
    *(("2\\*\\*53", {"levels": bad}) for bad in ((1, 2**63), (2**53,), (-(10**400),))),
    ("numeric", {"outside": "clamp"}),
    ("nullable", {"outside": "missing", "nullable": False}),
    ("nullable", {"missing_codes": ("?",), "nullable": False}),
    ("nullable", {"nullable": "yes"}),
    ("outside", {"outside": "guess"}),
    ("colour", {"undeclared": ("colour",)}),
    ("colour", {"colour": 1}),
    ("label", {"label": "\ud800"}),
    *(
        ("overlap", {"levels": levels, "missing_codes": codes})
        for levels, codes in (
            (("a", "?"), ("?",)),
            ((7,), (7.0,)),
            ((7,), ("7.0",)),
            (("7",), (7,)),
            (("?",), (" ? ",)),
            ((False, True), (1,)),
        )
    ),
    ("2\\*\\*53", {"missing_codes": (2**53,)}),
    ("finite", {"missing_codes": (math.nan,)}),
    *(("text or numbers", {"missing_codes": bad}) for bad in ((True,), ("\ud800",))),
    *((f"{fact} must be a list", {fact: {"a"}}) for fact in ("missing_codes", "refused")),
    # In a CSV file it is null, in a frame it may be text: both must mean the same.
    *(("cannot be empty text", {fact: ("r", " ")}) for fact in CODES[1:]),
    *(
        ("a code is of two kinds", {"refused": (one,), "unknown": (two,)})
        for one, two in ((-8, "-8.0"), ("nan", "NaN"), (" DK", "DK"), (1e3, "1000"))
    ),
    *(("name must be text|an attribute", {"name": bad}) for bad in ("", None, 3, "a\ud800")),
]
NUMBERS = [
    ("below", {"upper": 0}),
    ("below", {"lower": 200}),
    ("finite", {"lower": -math.inf}),
    ("finite", {"upper": math.nan}),
    *(
        ("2\\*\\*53", bad)
        for bad in (
            {"lower": -1.7e308, "upper": 1.7e308}, {"upper": 2**64, "integer": True},
            {"upper": 2**53}, {"missing_codes": (2**60,)},
        )
    ),
    ("number", {"lower": -(10**400)}),
    ("whole", {"lower": 0.5, "integer": True}),
    ("whole number", {"upper": 3, "integer": True, "bins": 9}),
    ("narrower", {"lower": 1.0, "upper": 1.0 + 2e-16, "bins": 10}),
    ("bins", {"bins": 0}),
    ("not both", {"bins": 2, "edges": (0, 100)}),
    ("lower and end", {"edges": (0, 50)}),
    ("increasing", {"edges": (0, 50, 50, 100)}),
    *(("quotes", {"missing_codes": bad}) for bad in (("-9",), (" inf",))),
    *(("outside", {"missing_codes": bad}) for bad in ((99,), (-9, 0.5))),
    *((f"{fact} must", {fact: {0, 1}}) for fact in ("edges", "spikes")),
    ("inside", {"spikes": (101,)}),
    ("inside", {"spikes": (math.nan,)}),
    ("inside", {"spikes": tuple(range(5000))}),
    ("at most", {"spikes": tuple(x / 50 for x in range(5000))}),
    *(("distinct", {"spikes": bad}) for bad in ((1, 1.0), (0, -0.0))),
    ("whole", {"spikes": (1.5,), "integer": True}),
    *(("list of numbers", {"spikes": bad}) for bad in (("0",), ("x",), ({},), (True,), 0)),
    *(("above 0", {"step": bad}) for bad in (0, math.nan)),
    ("at least", {"step": 1e-300}),
    ("whole multiple", {"step": 0.3}),
    ("whole number", {"step": 0.5, "integer": True}),
    ("on the step", {"step": 0.5, "spikes": (0.2,)}),
    ("one more", {"pieces": (0, 1), "shares": (0.5, 0.5)}),
    ("edges of all bins", {"bins": 2, "pieces": (0, 40, 100), "shares": (0.5, 0.5)}),
    ("at least 0", {"bins": 1, "pieces": (0, 40, 100), "shares": (0.5, -0.5)}),
]  # fmt: skip


@pytest.mark.parametrize(("says", "facts"), [*LEVELS, *NUMBERS], ids=str)
def test_what_is_wrong_is_refused_with_the_reason_in_one_line(says, facts):
    known = {"name": "x", "nullable": True}
    if (says, facts) in LEVELS:
        kinds, known = (Categorical, Ordinal), {**known, "levels": ("a",)}
    else:
        kinds, known = (Numeric,), {**known, "lower": 0, "upper": 100}
    for kind in kinds:
        with pytest.raises(SchemaError, match=says) as caught:
            kind(**{**known, **facts})
        assert "name" in facts or "'x'" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert caught.value.__context__ is caught.value.__cause__ is None


def test_a_missing_code_may_be_written_nan_or_beside_the_domain():
    codes = ("NaN", "k.A.", -9, 99.5)
    Numeric(name="x", lower=0, upper=99, nullable=True, missing_codes=codes)
    Categorical(name="x", levels=("7",), nullable=True, missing_codes=("007", " "))


def test_extended_domain_has_one_more_code_only_if_nullable():
    open_ = Categorical(name="x", levels=("a", "b"), nullable=True)
    closed = Categorical(name="x", levels=("a", "b"))
    assert (open_.extended_size, closed.extended_size) == (3, 2)
    assert open_.missing_code == closed.missing_code == 2


def test_default_bins_are_ten_or_one_per_whole_number():
    assert Numeric(name="x", lower=0, upper=1).size == 10
    assert Numeric(name="x", lower=0, upper=3, integer=True).size == 4
    assert Numeric(name="x", lower=0, upper=90, integer=True).size == 10


def test_an_empty_cell_is_not_applicable_where_none_may_be_missing():
    assert Categorical(name="a", levels=("x",), not_applicable=("",)).kinds == ("not_applicable",)
