"""Schemas and attributes raise errors for wrong declarations, and files keep valid ones."""

import math
import time
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Ordinal, Schema
from missdp.errors import OutputError, SchemaError
from refusing import refuses

names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)
texts = names.map(str.strip).filter(bool)


@st.composite
def attributes(draw, name):
    common = {"name": name, "label": draw(texts), "units": draw(texts)}
    common["nullable"] = nullable = draw(st.booleans())
    kind = draw(st.sampled_from([Categorical, Ordinal, Numeric]))
    if kind is Numeric:
        lower = draw(st.integers(-9, 9))
        common |= {"missing_codes": (-99,) if nullable else ()}
        common |= {"outside": draw(st.sampled_from(["error", "clamp"]))}
        common |= {"undeclared": draw(st.sampled_from([(), ("lower", "upper")]))}
        return Numeric(lower=lower, upper=lower + draw(st.integers(1, 9)), **common)
    some = (st.lists(of, min_size=1, max_size=4, unique=True) for of in (texts, st.integers(-5, 5)))
    return kind(**common, levels=tuple(draw(st.one_of(*some, st.just([True, False])))))


@st.composite
def schemas(draw):
    chosen = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    return Schema(tuple(draw(attributes(name)) for name in chosen))


@settings(max_examples=40)
@given(schemas())
def test_toml_round_trip(tmp_path, schema):
    path = tmp_path / "schema.toml"
    schema.to_toml(path)
    assert Schema.from_toml(path) == schema


BAD_FILES = [
    *(("format = 1", "attribute"), ("format = 9\nattribute = []", "format 1")),
    *(
        ("attribute = [1]", "attribute"),
        ("attribute = []", "at least one"),
        ("colour = 1", "colour"),
    ),
    ("[[attribute]]\nname = 'x'", "kind"),
    ("[[attribute]]\nname = 'x'\nkind = 'text'", "kind"),
    ("[[attribute]]\nname = 'x'\nkind = 'categorical'", "levels"),
    ("[[attribute]]\nkind = 'categorical'\nlevels = ['a']", "name"),
    *(("not toml", "TOML"), ("§secret", r"not valid TOML \(line 1, column 1\)")),
]


@pytest.mark.parametrize(("text", "says"), BAD_FILES)
def test_bad_files_are_refused_in_one_line(tmp_path, text, says):
    path = tmp_path / "s.toml"
    path.write_text(text, encoding="utf-8")
    with refuses(SchemaError, says) as caught:
        Schema.from_toml(path)
    assert "§" not in str(caught.value).replace(str(path), "")


def test_files_of_other_editors(tmp_path):
    path = tmp_path / "s.toml"
    schema = Schema((Categorical(name="größe", levels=("a",)),))
    schema.to_toml(path)
    text = path.read_text(encoding="utf-8")
    for encoding in ("utf-8", "utf-8-sig"):
        path.write_bytes(text.replace("\n", "\r\n").encode(encoding))
        assert Schema.from_toml(path) == schema
    path.write_bytes(text.encode("latin-1"))
    with refuses(SchemaError, r"s.toml' is not valid TOML: save it as UTF-8$"):
        Schema.from_toml(path)


def test_absent_file_and_unwritable_path_are_typed(tmp_path):
    with refuses(SchemaError, "there is no file"):
        Schema.from_toml(tmp_path / "none.toml")
    schema = Schema((Categorical(name="x", levels=("a",)),))
    with refuses(OutputError, "does not exist"):
        schema.to_toml(tmp_path / "nowhere" / "s.toml")
    with refuses(OutputError, "folder"):
        schema.to_toml(tmp_path)


def test_invalid_schemas_raise_the_reason():
    a = Categorical(name="x", levels=("a",))
    wrong = ("list", ["numeric"], {"a": 1}, 3, None)
    for says, *made in (
        ("Repeated", lambda: Schema((a, a))),
        ("no attribute 'y'", lambda: Schema((a,))["y"]),
        ("at least one", lambda: Schema(())),
        (
            "attributes must be a list of",
            *(partial(Schema, other) for other in (("x",), None, 5, "x", {"x": a})),
        ),
        ("mapping", *(partial(Schema.from_dict, other) for other in (None, [], "x"))),
        ("an attribute: unknown field '3'", partial(read, attribute=[{"kind": "numeric", 3: 4}])),
        (
            "unknown field 'rule'. Known fields: never.$",
            partial(read, rule=[{"never": "a = 1", "rule": ""}]),
        ),
        (
            r"one of always, never, .* and map\). Did you mean 'always'\?$",
            partial(read, rule=[{"alway": "a = 1"}]),
        ),
        (
            "unknown kind",
            *(partial(read, attribute=[{"name": "a", "kind": k}]) for k in wrong),
        ),
    ):
        for make in made:
            with refuses(SchemaError, says):
                make()


def read(**document):
    return Schema.from_dict({"attribute": [], **document})


def test_marks_are_written_on_a_line_that_can_be_deleted(tmp_path):
    odd = Categorical(name="a]", levels=("]", "x"), undeclared=("levels", "nullable"))
    path = tmp_path / "draft.toml"
    Schema((odd, Numeric(name="b", lower=0, upper=1, undeclared=("lower",)))).to_toml(path)
    assert Schema.from_toml(path).undeclared == {"a]": ("levels", "nullable"), "b": ("lower",)}
    lines = path.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not line.startswith("undeclared")]
    path.write_text("\n".join(kept), encoding="utf-8")
    assert Schema.from_toml(path).undeclared == {}


@pytest.mark.parametrize(
    ("part", "around"), [("a.", "{}b = 1"), ('"a b" . ', "[{}b]"), ("'a'.", "x = {{{}b = 1}}")]
)
def test_a_key_of_very_many_parts_is_refused_at_once(tmp_path, part, around):
    path = tmp_path / "deep.toml"
    path.write_text(around.format(part * 60_000), encoding="utf-8")
    started = time.process_time()
    with refuses(SchemaError, "100 parts"):
        Schema.from_toml(path)
    # Reading all parts takes 8 seconds or more. Collecting garbage may take some tenths.
    assert time.process_time() - started < 2


# Wrong declarations with their error messages. The attributes have the level "a", or range from 0
# to 100.
CODES = "missing_codes", "refused", "unknown", "not_asked", "not_applicable"
FEW = (("a", 1), (1, True), (1.5,), "a", (None,), ("a\udfff",), {"a"})
SAME = [
    ((7,), 7.0),
    ((7,), "7.0"),
    (("a", "?"), "?"),
    (("7",), 7),
    (("?",), " ? "),
    ((False, True), 1),
]
TWICE = ((-8, "-8.0"), ("nan", "NaN"), (" DK", "DK"), (1e3, "1000"))
LEVELS = [
    *(("levels must not be empty", {"levels": ()}), ("distinct", {"levels": ("a", "a")})),
    *((": levels must be a list, all text", {"levels": bad}) for bad in FEW),
    *(("empty text", {"levels": ("",)}), ("blanks", {"levels": (" a",)})),
    ("at most 4096 characters", {"levels": ("a" * 4097,)}),
    *((r"2\*\*53", {"levels": bad}) for bad in ((1, 2**63), (2**53,), (-(10**400),))),
    *(("numeric", {"outside": "clamp"}), ("outside", {"outside": "guess"})),
    ("nullable", {"outside": "missing", "nullable": False}),
    *(("nullable", {"missing_codes": ("?",), "nullable": bad}) for bad in (False, "yes")),
    *(("colour", {"undeclared": ("colour",)}), ("colour", {"colour": 1})),
    *(("label", {"label": "\ud800"}), ("finite", {"missing_codes": (math.nan,)})),
    *(("overlap", {"levels": levels, "missing_codes": (code,)}) for levels, code in SAME),
    (r"2\*\*53", {"missing_codes": (2**53,)}),
    *(("text or numbers", {"missing_codes": bad}) for bad in ((True,), ("\ud800",))),
    *((f"{fact} must be a list", {fact: {"a"}}) for fact in ("missing_codes", "refused")),
    *(("label", {"labels": bad}) for bad in ({3: "other"}, {"a": 1}, "woman", {-8: "unknown"})),
    *(("other", {"outside": "other", "other": bad}) for bad in (None, "Köln", 3)),
    # In a CSV file it is null, in a frame it may be text: both must mean the same.
    *(("cannot be empty text", {fact: ("r", " ")}) for fact in CODES[1:]),
    *(("a code is of two kinds", {"refused": (a,), "unknown": (b,)}) for a, b in TWICE),
    *(("name must be text|an attribute", {"name": bad}) for bad in ("", None, 3, "a\ud800")),
]
LARGE = ({"lower": -1.7e308, "upper": 1.7e308}, {"upper": 2**64, "integer": True}, {"upper": 2**53})
NUMBERS = [
    *(("below", {"upper": 0}), ("below", {"lower": 200})),
    *(("finite", {"lower": -math.inf}), ("finite", {"upper": math.nan})),
    *((r"2\*\*53", bad) for bad in (*LARGE, {"missing_codes": (2**60,)})),
    *(("number", {"lower": -(10**400)}), ("whole", {"lower": 0.5, "integer": True})),
    ("whole number", {"upper": 3, "integer": True, "bins": 9}),
    ("narrower", {"lower": 1.0, "upper": 1.0 + 2e-16, "bins": 10}),
    *(("bins", {"bins": 0}), ("not both", {"bins": 2, "edges": (0, 100)})),
    *(("lower and end", {"edges": (0, 50)}), ("increasing", {"edges": (0, 50, 50, 100)})),
    ("neither in the domain nor a code", {"labels": {101: "much"}}),
    ("levels only", {"outside": "other", "other": 1}),
    *(("quotes", {"missing_codes": bad}) for bad in (("-9",), (" inf",))),
    *(("outside", {"missing_codes": bad}) for bad in ((99,), (-9, 0.5))),
    *((f"{fact} must", {fact: {0, 1}}) for fact in ("edges", "spikes")),
    *(("inside", {"spikes": bad}) for bad in ((101,), (math.nan,), tuple(range(5000)))),
    ("at most", {"spikes": tuple(x / 50 for x in range(5000))}),
    *(("distinct", {"spikes": bad}) for bad in ((1, 1.0), (0, -0.0))),
    ("whole", {"spikes": (1.5,), "integer": True}),
    *(("list of numbers", {"spikes": bad}) for bad in (("0",), ("x",), ({},), (True,), 0)),
    *(("above 0", {"step": bad}) for bad in (0, math.nan)),
    *(("at least", {"step": 1e-300}), ("whole multiple", {"step": 0.3})),
    ("whole number", {"step": 0.5, "integer": True}),
    ("on the step", {"step": 0.5, "spikes": (0.2,)}),
]


@pytest.mark.parametrize(("says", "facts"), [*LEVELS, *NUMBERS], ids=str)
def test_invalid_facts_raise_the_reason_in_one_line(says, facts):
    known = {"name": "x", "nullable": True}
    if (says, facts) in LEVELS:
        kinds, known = (Categorical, Ordinal), {**known, "levels": ("a",)}
    else:
        kinds, known = (Numeric,), {**known, "lower": 0, "upper": 100}
    for kind in kinds:
        with refuses(SchemaError, says) as caught:
            kind(**{**known, **facts})
        assert "name" in facts or "'x'" in str(caught.value)


def test_valid_facts_and_defaults():
    codes = ("NaN", "k.A.", -9, 99.5)  # written as no number, or beside the domain
    Numeric(name="x", lower=0, upper=99, nullable=True, missing_codes=codes)
    Categorical(name="x", levels=("7",), nullable=True, missing_codes=("007", " "))
    assert Categorical(name="a", levels=("x",), not_applicable=("",)).kinds == ("not_applicable",)
    assert Numeric(name="x", lower=0, upper=1).size == 10
    assert Numeric(name="x", lower=0, upper=3, integer=True).size == 4
    assert Numeric(name="x", lower=0, upper=90, integer=True).size == 10


def test_a_label_in_place_of_a_level_gets_the_level():
    for undeclared, said in (((), "label of the level 1"), (("labels",), "which has 0, 1")):
        facts = {"labels": {"1": "dead"}, "undeclared": undeclared}
        death = Categorical(name="death", levels=(0, 1), **facts)
        assert death.not_a_level("dead").endswith(said)
