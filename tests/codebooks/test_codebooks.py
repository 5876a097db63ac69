"""Code books become schemas. Facts that are absent or that cannot be translated are listed."""

import json
import tomllib
from pathlib import Path

import pandas as pd
import pyreadstat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp import MST, Categorical, Schema, Table
from missdp.codebooks import CodeBook, read_codebook
from missdp.codebooks.book import Value, Variable
from missdp.codebooks.redcap import _condition_of
from missdp.errors import SchemaError
from missdp.governance.rehearsal import Declared
from refusing import refuses

COLUMNS = (
    "Variable / Field Name,Form Name,Section Header,Field Type,Field Label,"
    '"Choices, Calculations, OR Slider Labels",Field Note,'
    "Text Validation Type OR Show Slider Number,Text Validation Min,Text Validation Max,"
    "Identifier?,Branching Logic (Show field only if...),Required Field?"
)
REDCAP = f"""{COLUMNS}
record_id,base,,text,Record,,,,,,,,
surname,base,,text,Surname,,,,,,y,,
sex,base,,radio,<b>Sex</b> at birth,"1, Female | 2, Male | 9, Unknown",,,,,,,y
age,base,,text,Age,,,integer,0,120,,,y
bmi,base,,calc,BMI,[weight]/[height],,,,,,,
smoker,base,,yesno,Smoker,,,,,,,[age] >= 12,
cigs,base,,text,Cigarettes,,,integer,1,100,,"[smoker] = '1' and ([age] > 17 or [sex]='2')",
drugs,base,,checkbox,Drugs,"1, Aspirin | 2, Insulin | other, Other",,,,,,[smoker] = '1',
dose,base,,text,Dose,,,number,0,500,,[drugs(2)] = '1',
plz,base,,dropdown,Region,"01, North | 02, South",,,,,,"datediff([age],'today') > 3",
seen,base,,text,Seen,,,date_dmy,2020-01-01,2024-12-31,,,
at,base,,text,At,,,datetime_dmy,2020-01-01 00:00,2024-12-31 23:59,,,
told2,base,,text,Told,,,date_mdy,,,,,
pain,base,,slider,Pain,none | some | much,,,,,,[bmi] > 30,
told,base,,descriptive,Thank you,,,,,,,,
"""
SINCE_1900 = {"minimum": "1900-01-01"}
OF_2020 = {"minimum": "2020-01-01T00:00:00Z", "maximum": "2021-01-01T00:00:00Z"}
FRICTIONLESS = {
    "fields": [
        {"name": "id", "type": "integer"},
        {"name": "sex", "title": "Sex", "constraints": {"required": True, "enum": ["f", "m"]}},
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120}},
        {"name": "pay", "type": "number", "constraints": {"minimum": "0"}},
        {"name": "ill", "type": "boolean"},
        {"name": "ok", "type": "boolean", "trueValues": ["ja"], "falseValues": ["nein"]},
        {"name": "many", "type": "boolean", "trueValues": ["ja", "si"], "falseValues": ["nein"]},
        {"name": "grade", "categories": [{"value": "low"}, "high"], "categoriesOrdered": True},
        {"name": "code", "type": "integer", "categories": [{"value": 1, "label": "A"}, 2]},
        {"name": "year", "type": "year", "constraints": {"minimum": "1900", "maximum": "2100"}},
        {"name": "born", "type": "date", "format": "%d/%m/%Y", "constraints": SINCE_1900},
        {"name": "seen", "type": "datetime", "constraints": OF_2020},
        {"name": "zip", "type": "string", "constraints": {"pattern": "^[0-9]{5}$"}},
    ],
    "missingValues": ["", "-99", {"value": "-98", "label": "Refused"}],
    "primaryKey": "id",
}
DDI = """<?xml version="1.0" encoding="UTF-8"?>
<d:codeBook xmlns:d="ddi:codebook:2_5" version="2.5"><d:dataDscr>
<d:var ID="V1" name="sex" intrvl="discrete" nature="nominal"><d:labl>Sex of respondent</d:labl>
 <d:catgry><d:catValu>1</d:catValu><d:labl>Male</d:labl><d:labl>Mann</d:labl>
  <d:catStat type="freq">10</d:catStat></d:catgry>
 <d:catgry><d:catValu>2</d:catValu><d:labl>Female</d:labl></d:catgry>
 <d:catgry missing="Y"><d:catValu>9</d:catValu><d:labl>Refused</d:labl></d:catgry>
 <d:catgry missing="Y"><d:catValu>Sysmiss</d:catValu></d:catgry></d:var>
<d:var ID="V2" name="age" intrvl="contin" dcml="0"><d:labl>Age</d:labl>
 <d:valrng><d:range UNITS="INT" min="0" max="110"/></d:valrng>
 <d:invalrng><d:item VALUE="-9"/></d:invalrng><d:universe>Everybody</d:universe>
 <d:catgry missing="Y"><d:catValu>-9</d:catValu><d:labl>Don't know</d:labl></d:catgry></d:var>
<d:var ID="V3" name="school" intrvl="discrete" nature="ordinal">
 <d:catgry><d:catValu>1</d:catValu><d:labl>Little</d:labl></d:catgry>
 <d:catgry><d:catValu>2</d:catValu><d:labl>Much</d:labl></d:catgry></d:var>
<d:var ID="V4" name="note"><d:varFormat type="character"/></d:var>
</d:dataDscr></d:codeBook>"""


@pytest.fixture
def written(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def as_toml(book, folder):
    """The text of the schema of a code book, which is read again."""
    book.to_toml(folder / "schema.toml")
    assert Schema.from_toml(folder / "schema.toml") == book.schema()
    return (folder / "schema.toml").read_text()


def test_a_data_dictionary_of_redcap(written, tmp_path):
    book = read_codebook(written("dictionary.csv", REDCAP))
    schema = book.schema()
    first = ["sex", "age", "smoker", "cigs", "drugs___1", "drugs___2", "drugs___other"]
    assert [*schema.names] == [*first, "dose", "plz", "seen", "at", "pain"]
    assert schema["sex"].levels == (1, 2, 9)  # "Unknown" is a level until a person says otherwise
    assert (schema["age"].lower, schema["age"].upper, schema["age"].integer) == (0, 120, True)
    assert schema["plz"].levels == ("01", "02")
    assert (schema["pain"].lower, schema["pain"].upper) == (0, 100)
    assert schema["sex"].label == "Sex at birth"
    assert [schema[n].kind for n in ("seen", "at")] == ["date", "datetime"]
    for name, cell in (("seen", "2021-02-03"), ("at", "2021-02-03 04:05")):
        assert not Table.read({name: [cell]}, schema.subset([name])).mask(name).any()
    assert [(rule.not_applicable, rule.unless) for rule in schema.rules] == [
        (("smoker",), "`age` >= 12"),
        (("cigs",), "`smoker` = 1 and (`age` > 17 or `sex` = 2)"),
        (("dose",), "`drugs___2` = 1"),
    ]
    assert set(book.omitted()) == {"record_id", "surname", "bmi", "told2"}
    assert book.untranslated() == ("pain has a value only if: `bmi` > 30",)
    text = as_toml(book, tmp_path)
    for comment in (
        "# level 9 is 'Unknown'. If it is missing, move it to unknown\n",
        "# not translated: shown only if datediff([age],'today') > 3\n[[attribute]]\nname = \"plz",
        "# not translated: shown only if [smoker] = '1', otherwise 0\n[[attribute]]\nname = \"dr",
        "# Not translated: pain has a value only if: `bmi` > 30\n",
        "# Not in the schema: 'surname' identifies rows or persons",
    ):
        assert comment in text


def test_conditions_on_other_columns_are_listed(written):
    line = "extra,base,,text,Extra,,,integer,0,9,,[bmi] > 30,\n"
    last = "plz2,base,,text,,,,integer,0,9,,[plz] = '03',\n"  # which is no level
    book = read_codebook(written("dictionary.csv", REDCAP + line + last))
    assert book.untranslated() == (
        "pain has a value only if: `bmi` > 30",
        "extra has a value only if: `bmi` > 30",
        'plz2 has a value only if: `plz` = "03"',
    )


BRANCHES = [
    ("[sex] = '2'", "`sex` = 2"),
    ("[sex]<>'01' OR [age] >= 18.5", '`sex` <> "01" or `age` >= 18.5'),
    ("(([drugs(3)] = '1'))", "((`drugs___3` = 1))"),
    ("'1' < [age]", "1 < `age`"),
    *((f"{box} = '1'", None) for box in ("[drugs]", "[sex(1)]", "[visit_1][sex]")),
    *((text, None) for text in ("[sex] = ''", "[sex] = [age]", "[age] + 1 > 3", "[unknown] = 1")),
    *((text, None) for text in ("sum([age], 2) > 3", "[sex] = 1 and", "([sex] = 1")),
    *(("[sex] = 1) or ([age] = 2", None), ("[sex] = 'a`b'", None)),
]


@pytest.mark.parametrize(("branch", "told"), BRANCHES)
def test_branching_logic(branch, told):
    assert _condition_of(branch, {"sex": "radio", "age": "text", "drugs": "checkbox"}) == told


@given(st.text("[]()'\"=<>1ageor and\n", max_size=40))
def test_every_translation_is_a_condition(branch):
    condition = _condition_of(branch, {"age": "text", "a": "text"})
    if condition is not None:
        facts = {"source": "", "domain": "number", "lower": 0, "upper": 9}
        age, a = Variable(name="age", **facts), Variable(name="a", **facts)
        book = CodeBook("", (age, a, Variable(name="b", condition=condition, **facts)))
        assert bool(book.schema().rules) != bool(book.untranslated())


def test_a_table_schema(written):
    book = read_codebook(written("schema.json", json.dumps(FRICTIONLESS)))
    schema = book.schema()
    assert schema.names == ("sex", "age", "ill", "ok", "grade", "code", "year", "seen")
    seen = ["2020-05-06T07:08:09Z"]
    assert not Table.read({"seen": seen}, schema.subset(["seen"])).mask("seen").any()
    assert (schema["sex"].nullable, schema["sex"].missing_codes) == (False, ())
    assert (schema["age"].missing_codes, schema["age"].refused) == ((-99,), (-98,))
    assert schema["ill"].levels == (False, True)
    assert schema["ok"].levels == ("nein", "ja")
    assert (schema["grade"].kind, schema["grade"].levels) == ("ordinal", ("low", "high"))
    assert schema["code"].levels == (1, 2)
    assert set(book.omitted()) == {"id", "pay", "many", "born", "zip"}
    package = {"resources": [{"schema": FRICTIONLESS}, {"path": "readme.txt"}]}
    assert read_codebook(written("package.json", json.dumps(package))).schema() == schema


def test_a_ddi_codebook(written):
    book = read_codebook(written("codebook.xml", DDI))
    schema = book.schema()
    assert (schema["sex"].levels, schema["sex"].refused) == ((1, 2), (9,))
    assert schema["sex"].label == "Sex of respondent"
    assert dict(schema["sex"].labels) == {"1": "Male", "2": "Female", "9": "Refused"}
    assert (schema["age"].upper, schema["age"].unknown, schema["age"].integer) == (110, (-9,), True)
    assert schema["school"].kind == "ordinal"
    assert set(book.omitted()) == {"note"}


def test_files_of_statistics_packages(tmp_path):
    rows = pd.DataFrame({"sex": [1.0, 9.0], "age": [31.0, 98.0], "name": ["Ada", "Bea"]})
    pyreadstat.write_sav(
        rows, tmp_path / "x.sav", column_labels={"sex": "Sex", "age": "Age"},
        variable_value_labels={"sex": {1: "f", 2: "m", 9: "Refused"}, "age": {98: "Don't know"}},
        missing_ranges={"sex": [9], "age": [{"lo": 98, "hi": 99}]},
        variable_measure={"sex": "nominal", "age": "scale"},
    )  # fmt: skip
    book = read_codebook(tmp_path / "x.sav")
    schema = book.schema()
    assert (schema["sex"].levels, schema["sex"].refused) == ((1, 2), (9,))
    assert schema["sex"].label == "Sex"
    assert set(book.omitted()) == {"age", "name"}  # no bounds: nothing is read from rows
    assert "Ada" not in str(book)


OTHERS = {
    "cps.xml": ({"STATEFIP": ("01", "Alabama"), "MONTH": ("01", "January")}, 6),
    "measurements.csv": ({
        "measurement_category": ("social-history", "Social History"),
        "measurement_status": ("registered", "Registered"),
        "ln_85353_1": ("85353_1", "Vital Signs Panel"),
        "procedure": ("ncit", "NCIT"),
        "procedure_ontology": ("snomed", "SNOMEDCT"),
        "snomedct_122869004_status": ("preparation", "Preparation")}, 11),
    "iris.sav": ({"Species": (1, "setosa")}, 4),
    "person.json": ({"is_management": (False, "false")}, 14),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_code_books_of_others_become_schemas_that_are_synthesized(name, tmp_path):
    levels, lacking = OTHERS[name]
    book = read_codebook(Path(__file__).parents[1] / "data" / "codebooks" / name)
    assert len(book.omitted()) == lacking
    as_toml(book, tmp_path)
    schema = book.schema()
    listed = [a for a in schema if isinstance(a, Categorical)]
    assert {a.name: (a.levels[0], a.level_labels[0]) for a in listed} == levels
    rows = Declared(schema=schema, rows=300).simulate(0)
    drawn = MST(epsilon=5.0, delta=1e-6, random_state=0).fit(rows).sample(50)
    read = Table.read(drawn, schema)
    assert not any(read.mask(a.name, "missing").any() for a in schema if a.nullable)


ENTITIES = '<!DOCTYPE a [<!ENTITY b "cc">]><codeBook><dataDscr>&b;</dataDscr></codeBook>'
ID = f"{COLUMNS}\nid,,,text,,,,,,,,,\n"


CIRCLE = f"{ID}a,,,yesno,,,,,,,,[b] = '1',\nb,,,yesno,,,,,,,,[a] = '1',\n"
BAD = [
    *(("a.pdf", "", "a code book is one of"), ("a.json", "{", "not JSON")),
    *(("a.json", "[" * 100_000, "not JSON"), ("a.json", "[]", "list of fields")),
    ("a.json", '{"fields": [1]}', "an object with a name"),
    ("a.json", '{"fields": [{"name": "a", "constraints": 3}]}', "not an object"),
    *(("a.json", '{"resources": []}', "0 tables"), ("a.json", '{"fields": []}', "no variable")),
    *(("a.json", b"\xff", "not UTF-8"), ("a.csv", "a,b\n1,2\n", "Variable / Field Name")),
    ("a.csv", f"{ID}a,,,radio,,no code,,,,,,,\n", "code, label"),
    ("a.csv", f'{ID}a,,,radio,,"1, A | 1, B",,,,,,,\n', "contradicts"),
    ("a.csv", CIRCLE, "in a circle"),
    *(("a.xml", "<codeBook>", "not XML"), ("a.xml", "<codeBook/>", "no variables")),
    *(("a.xml", "<a>" * 200, "too deeply"), ("a.xml", ENTITIES, "refused")),
    ("a.xml", DDI.replace('name="age"', 'name="sex"'), "twice"),
    *(("a.sav", b"$FL2", "not a file of its format"), ("a.dta", "", "not a file of its format")),
]


@pytest.mark.parametrize(("name", "text", "told"), BAD)
def test_bad_code_books_are_refused_in_a_line(written, name, text, told):
    with refuses(SchemaError, told):
        read_codebook(written(name, text)).schema()


@pytest.mark.slow
def test_a_million_levels_are_read_and_more_refused():
    few = tuple(Value(str(i)) for i in range(1_000_001))
    book = CodeBook("", (Variable(name="a", source="", domain="levels", values=few),))
    assert "1000000" in book.omitted()["a"]


def test_labels_do_not_leave_their_comment(tmp_path):
    notes = ("two\nlines = 1", "[[attribute]]\r\x00\x85name = 2")
    facts = {"source": "a\nb", "values": (Value("1", "Refused\nx = 1"),), "notes": notes}
    book = CodeBook("", (Variable(name="sex", domain="levels", **facts),), ("x\ny = 2",))
    lines = as_toml(book, tmp_path).split("\n")
    assert book.schema().names == ("sex",)
    assert all(line.startswith("#") for line in lines if "lines" in line)


def test_a_box_is_one_column_in_the_schema_and_in_conditions(written):
    lines = (
        'drugs,base,,checkbox,Drugs,"é-1, Other",,,,,,,\n'
        "dose,base,,text,Dose,,,number,0,5,,[drugs(é-1)] = '1',\n"
    )
    schema = read_codebook(written("a.csv", ID + lines)).schema()
    assert schema.names == ("drugs_____1", "dose")
    assert schema.rules[0].unless == "`drugs_____1` = 1"


def test_a_number_without_bounds_has_a_block_to_complete(tmp_path):
    codes = (Value("99", "Not asked", missing=True),)
    hours = Variable(name="hours", source="page 3", domain="whole", values=codes, label="Hours")
    sex = Variable(name="sex", source="page 1", domain="levels", values=(Value("1"), Value("2")))
    CodeBook("by hand", (sex, hours)).to_toml(tmp_path / "s.toml")
    lines = (tmp_path / "s.toml").read_text(encoding="utf-8").splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("# Not in the schema"))
    block = "\n".join(line.removeprefix("# ") for line in lines[start + 1 :])
    whole = block.replace("lower = ", "lower = 1").replace("upper = ", "upper = 80")
    read = Schema.from_dict(tomllib.loads(whole))["hours"]
    assert (read.lower, read.upper, read.integer, read.label) == (1, 80, True, "Hours")
    assert (read.not_asked, dict(read.labels)) == ((99,), {"99": "Not asked"})
