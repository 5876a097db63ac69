"""Edits of the text of a schema file: changed facts only, comments, marks and reasons."""

import json
from pathlib import Path

import pytest

from missdp.cli.main import main
from missdp.errors import SchemaError
from missdp.schema.edits import SchemaText, fact_of_text
from missdp.table import draft_columns

pytest.importorskip("tomlkit")
TEXT = """\
# Survey of 2024, by Ada.
format = 1

# The smallest age is fixed by law.
[[attribute]]
name = "age"   # in years
kind = "numeric"
lower = 18     # by law
upper = 120
nullable = true

# Question 2.
[[attribute]]   # asked since 2020
name = "sex"
kind = "categorical"
levels = [
    1,  # woman
    2,  # man
]

[attribute.labels]
1 = "woman"

# Nobody knows.
[[rule]]
never = "age < 20 and sex = 2"
# The end.
"""


def changed(text, name, kind=None, reason=None, **facts):
    """Return a text with other facts of one table. None removes a fact."""
    old = SchemaText(text)
    ((place, table),) = [(k, t) for k, t in enumerate(old.tables) if t.name == name]
    stated = {k: v for k, v in (table.further | facts).items() if v is not None}
    reason = table.public if reason is None else reason
    return old.with_tables({place: table.changed(kind or table.kind, stated, reason)}).toml


def drafted():
    rows = {"id": list(range(40)), "sex": [1, 2] * 20, "age": [30.5, 41, 52, 63] * 10}
    return draft_columns(rows).toml_text()


def test_tables_that_stay_equal_change_no_byte():
    for text in (TEXT, drafted(), TEXT.replace("# The end.\n", "")):
        old = SchemaText(text)
        same = {k: t.changed(t.kind, t.further, t.public) for k, t in enumerate(old.tables[:2])}
        assert old.with_tables(same).toml == text


@pytest.mark.parametrize(
    ("name", "facts", "line", "new"),
    [
        ("age", {"lower": 17}, "lower = 18     # by law", "lower = 17     # by law"),
        ("age", {"nullable": None}, "nullable = true\n", ""),
        ("age", {"bins": 10}, "nullable = true\n", "nullable = true\nbins = 10\n"),
        ("sex", {"nullable": True}, "]\n\n[attribute.l", "]\nnullable = true\n\n[attribute.l"),
    ],
)
def test_an_edit_changes_its_line_only(name, facts, line, new):
    assert TEXT.count(line) == 1
    assert changed(TEXT, name, **facts) == TEXT.replace(line, new)


def test_a_reason_stands_above_its_table_and_other_comments_stay():
    comment = "# The smallest age is fixed by law.\n"
    once = changed(TEXT, "age", reason="the law")
    assert once == TEXT.replace(comment, f"{comment}# Public because: the law\n")
    assert changed(once, "age", reason="its text") == once.replace("the law", "its text", 1)
    assert changed(once, "age", reason="") == TEXT


def test_marks_stay_until_a_reason_is_stated_and_private_comments_go():
    text = drafted()
    assert "smallest and the largest cell" in text
    wider = changed(text, "age", upper=120, nullable=True)
    marks = SchemaText(text).checked[0].undeclared["age"]
    assert SchemaText(wider).checked[0].undeclared["age"] == marks
    for name in ("id", "sex", "age"):
        wider = changed(wider, name, reason="code book")
    assert SchemaText(wider).checked[0].undeclared == {}
    assert "cell." not in wider.partition("[[attribute]]")[2]
    assert wider.count("# Public because: code book") == 3


def test_facts_of_another_kind_are_marked_if_the_former_were():
    facts = {"lower": None, "upper": None, "integer": None, "levels": [1, 2]}
    text = changed(drafted(), "sex", kind="categorical", **facts)
    assert set(SchemaText(text).checked[0].undeclared["sex"]) == {"levels", "nullable"}
    opened = changed(drafted(), "sex", kind="open", lower=None, upper=None, integer=None)
    assert "levels" in SchemaText(opened).checked[0].undeclared["sex"]
    assert SchemaText(changed(opened, "sex", kind="ignore", nullable=None)).checked[0].undeclared


def test_a_column_becomes_the_unit_and_a_column_again():
    facts = dict.fromkeys(("lower", "upper", "nullable"))
    text = changed(TEXT, "age", kind="unit", max_rows=3, **facts)
    unit = SchemaText(text.partition("# Nobody")[0]).checked[0].unit
    assert (unit.column, unit.max_rows) == ("age", 3)
    again = changed(text, "age", kind="numeric", max_rows=None, lower=18, upper=120)
    assert "age" in SchemaText(again).checked[0]


def test_a_rule_is_added_and_removed_with_its_comment():
    old = SchemaText(TEXT)
    assert old.with_tables({2: None}).toml == TEXT.partition("# Nobody")[0] + "# The end.\n"
    rules = old.with_rule({"never": "age > 119"}).checked[0].rules
    assert [rule.text for rule in rules][1] == "never age > 119"


def test_arrays_that_look_like_headers_are_no_tables():
    text = TEXT.replace("upper = 120\n", "upper = 120\nedges = [\n18,\n50,\n120,\n]\n")
    assert [t.name for t in SchemaText(text).tables] == ["age", "sex", "[rule]"]


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(TEXT)
    return Path("s.toml")


def test_the_command_changes_one_line(file, capsys):
    words = ["schema", "set", "s.toml", "age", "lower=17", "--public", "the law", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["changed"] == ["age"]
    comment = "# The smallest age is fixed by law.\n"
    expected = TEXT.replace("lower = 18 ", "lower = 17 ")
    assert file.read_text() == expected.replace(comment, f"{comment}# Public because: the law\n")


def test_the_command_states_one_reason_for_all_marks(file, capsys):
    file.write_text(drafted())
    assert main(["schema", "set", "s.toml", "sex", "upper=3"]) == 0
    assert "Not declared public yet: id, sex, age" in capsys.readouterr().out
    assert main(["schema", "set", "s.toml", "--public", "code book"]) == 0
    assert SchemaText.of_file(file).checked[0].undeclared == {}
    assert SchemaText.of_file(file).checked[0]["sex"].upper == 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere", "upper=3"], "no column"),
        (["age", "upper"], "FACT=VALUE"),
        (["age", "colour=red"], "colour"),
        (["age", "upper=3"], "age"),
        (["age", "nullable=yes"], "nullable"),
    ],
)
def test_a_wrong_fact_changes_nothing(file, capsys, words, says):
    assert main(["schema", "set", "s.toml", *words]) != 0
    assert says in capsys.readouterr().err
    assert file.read_text() == TEXT


def test_codes_lack_their_brackets_and_levels_are_open(file):
    words = ["age", "missing_codes=999, x", "refused=(no code)"]
    assert main(["schema", "set", "s.toml", *words]) == 0
    assert SchemaText.of_file(file).tables[0].facts["missing_codes"] == [999, "x"]
    assert SchemaText.of_file(file).tables[0].facts["refused"] == []
    assert main(["schema", "set", "s.toml", "age", "missing_codes=999"]) == 0
    assert SchemaText.of_file(file).tables[0].facts["missing_codes"] == [999]
    file.write_text(TEXT.partition("# Nobody knows.")[0])
    for text, levels in (("a,b, c", ["a", "b", "c"]), ("1,2", [1, 2]), ("1", [1]), ("a", ["a"])):
        assert main(["schema", "set", "s.toml", "sex", f"levels={text}", "labels="]) == 0
        assert SchemaText.of_file(file).tables[1].facts["levels"] == levels
    assert main(["schema", "set", "s.toml", "sex", "levels=open", "labels="]) == 0
    assert SchemaText.of_file(file).tables[1].kind == "open"


@pytest.mark.parametrize(
    ("name", "text", "kind", "value"),
    [
        ("lower", ".5", "numeric", 0.5),
        ("lower", "1990", "date", "1990"),
        ("upper", "99999999999999999999", "numeric", "99999999999999999999"),
        ("label", "7", "numeric", "7"),
        ("levels", "true\nfalse", "categorical", [True, False]),
        ("levels", "1\n\n01", "categorical", ["1", "01"]),
        ("nullable", "false", "numeric", None),
        ("missing_codes", "", "numeric", None),
    ],
)
def test_typed_fact_becomes_a_value_of_the_file(name, text, kind, value):
    assert fact_of_text(name, text, kind) == value


def test_the_words_of_an_edit_repeat_it(file):
    old = SchemaText(TEXT).tables
    new = SchemaText(changed(TEXT, "age", reason="law", lower=17, nullable=None, bins=10)).tables
    assert new[1].words_from(old[1]) == []
    assert main(["schema", "set", "s.toml", *new[0].words_from(old[0])]) == 0
    assert SchemaText.of_file(file).tables[0].facts == new[0].facts
    assert SchemaText.of_file(file).tables[0].public == "law"


def test_a_file_that_is_absent_raises(tmp_path):
    with pytest.raises(SchemaError, match="cannot read"):
        SchemaText.of_file(tmp_path / "absent.toml")


def test_a_weight_or_a_unit_needs_a_reason_for_facts_that_were_read():
    """These tables have no marks, so a bound that was read would be published without one."""
    text = drafted()
    assert SchemaText(text).checked[0].undeclared["age"]
    for kind in ("weight", "unit"):
        with pytest.raises(SchemaError, match="why its facts are public"):
            changed(text, "age", kind=kind, lower=None)
    weighted = changed(text, "age", kind="weight", reason="by design", lower=None, integer=None)
    assert "# Public because: by design" in weighted


def test_facts_that_are_added_or_removed_beside_marks_stay_marked():
    text = drafted()
    spiked = changed(text, "age", spikes=[63])
    assert "spikes" in SchemaText(spiked).checked[0].undeclared["age"]
    facts = {"lower": None, "upper": None, "integer": None, "levels": [1, 2]}
    coded = changed(text, "sex", kind="categorical", **facts)
    without = changed(coded, "sex", label="sex")
    assert SchemaText(without).checked[0].undeclared["sex"]


def test_a_reason_is_one_line():
    reason = "line one\n[[rule]]\nnever = 'age > 93'"
    text = changed(TEXT, "age", reason=reason)
    assert SchemaText(text).checked[0].rules == SchemaText(TEXT).checked[0].rules
    assert "# Public because: line one [[rule]]" in text
