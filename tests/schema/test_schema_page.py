"""The pages about schemas: the example is read, and the tables of the reference list all fields."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from missdp import Schema, Table
from missdp.cli.main import main
from missdp.errors import SchemaError
from missdp.schema import (
    Always,
    Categorical,
    Date,
    DateTime,
    Determined,
    Difference,
    Layout,
    Never,
    NotApplicable,
    Numeric,
    OpenCategorical,
    Ordinal,
    SurveyWeight,
    Unit,
)
from missdp.schema.differences import WITHOUT_EFFECT
from missdp.schema.layout import TOP_LEVEL

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "schema.md").read_text(encoding="utf-8")
REFERENCE = (DOCS / "schema-reference.md").read_text(encoding="utf-8")
EXAMPLE = re.search(r"^## A complete example\n.*?^```toml\n(.*?)^```", PAGE, re.M | re.S)[1]
# Fields that no file states: made by missdp, or fixed by the kind.
MADE = {"settled", "resolution"}
UNSTATED = {
    Categorical: MADE,
    Ordinal: MADE,
    OpenCategorical: MADE | {"outside"},
    Numeric: MADE | {"other"},
    Date: MADE | {"other", "integer"},
    DateTime: MADE | {"other", "integer"},
    Difference: WITHOUT_EFFECT,
}
KINDS = [kind.kind for kind in UNSTATED]


def rows_of_table(heading):
    """The cells of each row of the table of the reference with this heading."""
    lines = REFERENCE.partition(f"\n{heading}\n")[2].partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def has(cell, kind):
    """Whether a cell of the column of kinds names a kind."""
    if cell.startswith("all"):
        return kind not in cell.partition(" but ")[2].split(", ")
    assert {*cell.split(", ")} <= {*KINDS}
    return kind in cell.split(", ")


@pytest.mark.parametrize("kind", UNSTATED)
def test_the_table_of_fields_is_that_of_the_kinds(kind):
    stated = rows_of_table("| field | kinds | default | states |")
    names = [(cell.split("`, `"), kinds) for cell, kinds, *_ in stated]
    listed = [name for row, kinds in names for name in row if has(kinds, kind.kind)]
    assert len({*listed}) == len(listed) > 10
    assert {*listed} == {f.name for f in fields(kind)} - UNSTATED[kind]


def test_the_table_of_tables_lists_all_their_fields():
    stated = rows_of_table("| table | field | default | states |")
    found = {place: {row[1] for row in stated if row[0] == place} for place, *_ in stated}
    rules = (Always, Never, NotApplicable, Determined)
    assert found == {
        "top of the file": {*TOP_LEVEL},
        **{f"[{t.table}]": {f.name for f in fields(t)} for t in (Unit, SurveyWeight, Layout)},
        "[[rule]]": {f.name for rule in rules for f in fields(rule)},
    }


def test_the_complete_example_is_read_and_stops_no_release(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(EXAMPLE, encoding="utf-8")
    Path("stays.csv").write_text(
        "case,doctor,remarks,patient,wt,ward,age,minutes,admitted,discharged\n"
        "1,X,fine,p1,2,surgery,50,30,2020-01-01,2020-01-04\n"
        "2,Y,fine,p1,,medicine,51,,2020-02-01,2020-02-04\n"
        "3,Y,fine,p2,3,surgery,40,-1,2020-03-04,2020-03-01\n"
    )
    assert main(["schema", "check", "schema.toml", "stays.csv"]) == 0
    out = capsys.readouterr().out
    assert "Protected unit: 'patient'. At most 5 rows take part of each.\n" in out
    assert "Rows count by their 'wt', up to 40.\n" in out
    assert "Difference stay: discharged - admitted, 0 to 60 in units of a day.\n" in out
    assert out.endswith("The data fits.\n")


DATES = """
[[attribute]]
name = "admitted"
kind = "date"
lower = "2018-01-01"
upper = "2024-12-31"
nullable = true

[[attribute]]
name = "discharged"
kind = "date"
lower = "2018-01-01"
upper = "2024-12-31"
nullable = true
"""
STAY = """
[[attribute]]
name = "stay"
kind = "difference"
earlier = "admitted"
later = "discharged"
lower = 0
upper = 60
"""
ORDER = '\n[[rule]]\nalways = "admitted <= discharged"\n'


@pytest.mark.parametrize(
    ("facts", "lost"),
    [(STAY, None), (f'{STAY}outside = "missing"\n', [False, False, True]), (ORDER, [True, True])],
)
def test_dates_in_the_wrong_order_are_read_as_the_page_has_it(tmp_path, facts, lost):
    (tmp_path / "s.toml").write_text(DATES + facts)
    schema = Schema.from_toml(tmp_path / "s.toml")
    rows = {"admitted": ["2020-03-04"], "discharged": ["2020-03-01"]}
    if lost is None:
        with pytest.raises(Exception, match="column 'stay' contains a value"):
            Table.read(rows, schema)
        return
    table = Table.read(rows, schema)
    names = ("admitted", "discharged", "stay")[: len(lost)]
    assert [bool(table.mask(name)[0]) for name in names] == lost


SINGLE = '\n[attribute]\nname = "x"\n'
REGION = '\n[[attribute]]\nname = "region"\nkind = "categorical"\nlevels = ["north", "south"]\n'
OPEN = '\n[[attribute]]\nname = "ill"\nlevels = "open"\nkind = "open"\n'
MISTAKES = {
    "unknown field of a difference": (
        f"{DATES}{STAY}latter = 1\n",
        "attribute 'stay': unknown field 'latter'. Did you mean 'later'? Known fields of kind "
        "'difference': name, nullable, outside, label, units, labels, undeclared, lower, upper, "
        "bins, edges, spikes, later, earlier, unit, computes. See docs/schema-reference.md for all "
        "fields.",
    ),
    "misspelt date of a difference": (
        DATES + STAY.replace('"discharged"', '"discharge"'),
        "attribute 'stay': later = 'discharge' is not a date of this schema. Did you mean "
        "'discharged'? Name an attribute of kind 'date' or 'datetime'.",
    ),
    "equation of a difference": (
        f'{DATES}{STAY}[[rule]]\nalways = "admitted + stay = discharged"\n',
        "rule 'admitted + stay = discharged': 'stay' is of kind 'difference', which an equation "
        "cannot add to dates. The difference itself states what lies between its two dates. Leave "
        "the rule out.",
    ),
    "unknown field of a rule": (
        f'{DATES}{ORDER}\n[[rule]]\nnever = "admitted > discharged"\nwhy = 1\n',
        "[[rule]] number 2: a rule of kind 'never' is not valid: unknown field 'why'. Known "
        "fields: never.",
    ),
    "two rules in one table": (
        f'{DATES}{ORDER}never = "admitted > discharged"\n',
        "[[rule]] number 1: it has always and never, and a rule has one of them. Write a [[rule]] "
        "table for each.",
    ),
    "number for a level": (
        f'{REGION}[[rule]]\nnever = "region = 1"\n',
        "rule 'never region = 1': 1 is not a level of 'region', which has 'north', 'south'. Levels "
        "of 'region' are text: write them in quotes",
    ),
    "date without quotes": (
        f'{DATES}[[rule]]\nnever = "admitted < 2019-01-31"\n',
        "rule 'never admitted < 2019-01-31': expected number or text or true or false, found "
        "'2019-01-31'; a date goes in quotes: '2019-01-31'",
    ),
    "open level in a rule": (
        f"{OPEN}[[rule]]\nnever = \"ill = 'flu'\"\n",
        "rule \"never ill = 'flu'\": the levels of 'ill' are open, so no condition can name it "
        "before a fit. Declare its levels.",
    ),
    "single brackets": (
        REGION + SINGLE,
        "'s.toml' is not valid TOML (line 7, column 11). Write [[attribute]] with two brackets at "
        "either end.",
    ),
    "single brackets only": (
        SINGLE,
        "a schema needs [[attribute]] tables, one per column; [attribute] has single brackets",
    ),
    "a name twice": (
        "format = 1\nformat = 1\n",
        "'s.toml' is not valid TOML (line 2, column 11): cannot overwrite a value. A name stands "
        "once in each table.",
    ),
    "a table twice": (
        '[unit]\ncolumn = "p"\n[unit]\n',
        "'s.toml' is not valid TOML (line 3, column 6): a table is declared twice.",
    ),
}


@pytest.mark.parametrize(("text", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_a_schema_has_its_place_and_remedy(tmp_path, monkeypatch, capsys, text, says):
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(text)
    assert main(["schema", "check", "s.toml"]) == 3
    assert capsys.readouterr().err == f"missdp: {says}\n"


@pytest.mark.parametrize("table", ["unit", "weight"])
def test_an_absent_column_of_a_table_is_named_with_its_table(tmp_path, monkeypatch, capsys, table):
    monkeypatch.chdir(tmp_path)
    upper = "upper = 4\n" * (table == "weight")
    Path("s.toml").write_text(f'[{table}]\ncolumn = "w"\n{upper}{REGION}')
    Path("rows.csv").write_text("region\nnorth\n")
    assert main(["schema", "check", "s.toml", "rows.csv"]) == 3
    said = capsys.readouterr().err
    assert f"the schema declares [{table}] column 'w', which the data does not have." in said


def test_all_that_stops_a_release_is_listed_first(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(
        f'[unit]\ncolumn = "p"\n[weight]\ncolumn = "w"\nupper = 4\n{REGION}'
        'undeclared = ["levels"]\n'
        f"{OPEN}{OPEN.replace('ill', 'job')}"
    )
    Path("rows.csv").write_text("p,w,region,ill,job\na,1,north,x,y\n")
    assert main(["schema", "check", "s.toml", "rows.csv"]) == 3
    lines = capsys.readouterr().out.splitlines()
    proven = "finding the levels of 'ill', 'job' is proven to protect single rows, not"
    assert lines[:5] == [
        "These facts of the schema would stop a release:",
        "  not declared public yet: region (levels).",
        f"  {proven} each 'p', with up to 1 row: declare these levels.",
        f"  {proven} rows that count by their 'w': declare these levels.",
        "",
    ]
    assert lines[-1] == "The data fits, but the schema stops a release."
    Path("rows.csv").write_text("p,w,region,ill,job\na,1,east,x,y\n")
    assert main(["schema", "check", "s.toml", "rows.csv"]) == 3
    out, err = capsys.readouterr()
    assert out.splitlines() == lines[:4]
    assert "column 'region' contains a value" in err


@pytest.mark.parametrize("kind", ["unit", "weight"])
def test_an_attribute_of_kind_unit_or_weight_is_pointed_to_its_table(kind):
    with pytest.raises(SchemaError, match=rf"write a table \[{kind}\] with column"):
        Schema.from_dict({"attribute": [{"name": "w", "kind": kind}]})
