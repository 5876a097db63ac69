"""The layout around columns: unread columns, files without a header, and decimal commas."""

import gzip
import re
import tomllib
from dataclasses import fields

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from missdp import AllPairs, Categorical, Numeric, Schema, Table, load
from missdp.errors import DataError, SchemaError
from missdp.evaluate import fidelity
from missdp.schema import Layout
from missdp.schema.layout import TABLES
from missdp.table import Rows
from missdp.table.read_files import READABLE
from missdp.table.written import write_blocks
from refusing import refuses

PAY = Numeric(name="pay", lower=0, upper=9999, nullable=True, outside="missing", bins=4)
SEX = Categorical(name="sex", levels=("f", "m"))
SCHEMA = Schema((PAY, SEX), ignore=("note",), keys=("id",))
CELLS = {"pay": [1.5, None, 3.0], "sex": ["f", "m", "f"]}
TABLE = Table.read(CELLS, SCHEMA)


class Unread(list):
    """A column that raises an error on every read."""

    def __getitem__(self, place):
        raise AssertionError("read")

    __iter__ = __len__ = __getitem__


class Cell:
    @property
    def __class__(self):
        raise AssertionError("read")


BESIDE_ONE = {"id": Cell(), "note": Cell()}
QUERY = "SELECT error('read') AS id, 1.5 AS pay, 'f' AS sex, error('read') AS note"
HOLDERS = {
    "lists": {"id": Unread(), **CELLS, "note": Unread()},
    "records": [{**BESIDE_ONE, "pay": p, "sex": s} for p, s in zip(*CELLS.values(), strict=True)],
    "pandas": pd.DataFrame({"id": pd.Series(np.array([Cell()] * 3), dtype=object), **CELLS}),
    "polars": pl.DataFrame({**CELLS, "id": pl.Series([{"a": 1}] * 3), "note": [[1]] * 3}),
    "arrow": pa.table({**CELLS, "id": [[1]] * 3}),
    "neither is there": CELLS,
}


@pytest.mark.parametrize("data", HOLDERS.values(), ids=HOLDERS)
def test_columns_that_are_left_out_are_never_read(data):
    assert Table.read(data, SCHEMA).to_arrow().equals(TABLE.to_arrow())


def test_a_query_computes_no_column_that_is_left_out():
    assert Table.read(duckdb.sql(QUERY), SCHEMA).codes("sex").tolist() == [0]
    key = Numeric(name="id", lower=0, upper=1)
    with refuses(DataError, "malformed or the query fails"):
        Table.read(duckdb.sql(QUERY), Schema((PAY, SEX, key), ignore=("note",)))


@pytest.mark.parametrize("suffix", sorted({*READABLE} - {".zsav", ".sas7bdat", ".xpt", ".arrow"}))
def test_every_file_has_fresh_keys_from_block_to_block_and_is_read_again(suffix, tmp_path):
    path = tmp_path / f"rows{suffix}"
    write_blocks([path], [(0, TABLE.to_arrow())] * 2, schema=SCHEMA)
    assert Rows.of(path).names == ("id", "pay", "sex")
    again = Table.read(path, SCHEMA)
    assert again.codes("sex").tolist() == [0, 1, 0] * 2
    key = Numeric(name="id", lower=0, upper=9, integer=True)
    keys = Table.read(path, Schema((key,), ignore=("pay", "sex")))
    assert keys.values("id").tolist() == [1, 2, 3, 4, 5, 6]


def test_a_model_draws_the_same_rows_with_fresh_keys_and_tells_nothing_of_the_old(tmp_path):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"pay": rng.uniform(0, 9999, 600), "sex": rng.choice(["f", "m"], 600)})
    options = {"epsilon": 1, "delta": 1e-6, "random_state": 0}
    bare = AllPairs(**options).fit(rows, schema=Schema((PAY, SEX))).sample(50, random_state=1)
    with_keys = rows.assign(id=[f"secret{k}" for k in range(600)], note="secret")
    model = AllPairs(**options).fit(with_keys, schema=SCHEMA)
    model.save(tmp_path / "m.json")
    assert "secret" not in (tmp_path / "m.json").read_text()
    for found in (model, load(tmp_path / "m.json")):
        drawn = found.sample(50, random_state=1)
        assert drawn["id"].tolist() == [*range(1, 51)]
        assert str(drawn["id"].dtype) == "Int64"
        pd.testing.assert_frame_equal(drawn.drop(columns="id"), bare)
    assert next(model.sample_blocks(3)).to_arrow(first_key=7)["id"].to_pylist() == [7, 8, 9]
    assert fidelity(with_keys, model.sample(600), schema=SCHEMA).ks["pay"] < 0.2


# -- text ----------------------------------------------------------------------------------------
COMMA = Layout(decimal=",", thousands=".")
READ = [
    ("1,5", 1.5), ("1.234,5", 1234.5), ("1.234", 1234), ("1234", 1234), (" 7 ", 7), ("-,5", None),
    ("1.5", None), ("12.34", None), ("1,234.5", None), ("1,2,3", None), ("1.2345", None),
    ("", None), ("1e3", 1000), ("x", None), ("0,5", 0.5),
]  # fmt: skip


def test_numbers_are_read_as_the_file_declares_each_by_itself():
    schema, texts = Schema((PAY,), file=COMMA), [text for text, _ in READ]
    wanted = [float(number or 0) for _, number in READ]
    for cells in (texts, pa.array(texts).dictionary_encode(), pa.array(texts, pa.large_string())):
        held = {"pay": cells} if isinstance(cells, list) else pa.table({"pay": cells})
        table = Table.read(held, schema)
        assert table.values("pay").tolist() == wanted
        assert table.mask("pay").tolist() == [number is None for _, number in READ]
    for text, number in READ:  # whatever the other rows are
        assert Table.read({"pay": [text]}, schema).values("pay").tolist() == [float(number or 0)]
    assert Table.read({"pay": [1.5, 2]}, schema).values("pay").tolist() == [1.5, 2]  # no text


TEXTS = [
    {"file": Layout(decimal=","), "keys": ("id",)},
    {
        "file": Layout(
            decimal=",", thousands=".", header=("note", "pay", "id", "sex"), delimiter=";"
        ),
        "keys": ("id",),
        "ignore": ("note",),
    },
    {"file": Layout(header=("pay", "sex"))},
]


@pytest.mark.parametrize("facts", TEXTS)
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv"])
def test_text_is_written_as_it_is_read(facts, suffix, tmp_path):
    path = tmp_path / f"rows{suffix}"
    coded = Numeric(name="pay", lower=0, upper=9999, nullable=True, refused=("n.a.",))
    schema = Schema((coded, SEX), **facts)
    schema.to_toml(tmp_path / "s.toml")
    assert Schema.from_toml(tmp_path / "s.toml") == schema == Schema.from_dict(schema.to_dict())
    rows = Table.read({"pay": [1234.5, None, "n.a."], "sex": ["f", "m", "f"]}, schema)
    write_blocks([path], [(0, rows.to_arrow(missing_as="codes"))], schema=schema)
    content = path.read_bytes()
    content = gzip.decompress(content) if suffix == ".csv.gz" else content
    assert len(content.splitlines()) == 3 + (not schema.file.header)
    assert (b"1234,5" in content) == (schema.file.decimal == ",")
    assert (
        Table.read(path, schema)
        .to_arrow(missing_as="codes")
        .equals(rows.to_arrow(missing_as="codes"))
    )


def test_a_row_of_another_length_in_a_file_without_a_header_is_refused(tmp_path):
    (tmp_path / "rows.csv").write_text("1,f\n2,m,secret\n")
    with refuses(DataError, "too many or too few fields"):
        Table.read(tmp_path / "rows.csv", Schema((PAY, SEX), file=Layout(header=("pay", "sex"))))


WRONG = [
    ({"header": ("a", "a")}, "once"), ({"decimal": ";"}, "decimal"), ({"delimiter": "x"}, "deli"),
    ({"thousands": "x"}, "thousands"), ({"thousands": "."}, "thousands"),
    ({"header": "a"}, "header must be a list of texts"),
    ({"decimal": 1}, "decimal must be '.' or ','"),
    ({"undeclared": ("ignore",)}, "undeclared must list some of delimiter, encoding"),
    ({"undeclared": ("decimals",)}, "Did you mean 'decimal'"),
    ({"encoding": "latin1x"}, "encoding 'latin1x' cannot be read.*Did you mean 'latin_1'"),
]  # fmt: skip
WRONG_UNREAD = [
    ({"ignore": "note"}, "ignore must be a list"), ({"keys": ("",)}, "keys must be a list"),
    ({"ignore": ("a", "a")}, "each column once"), ({"ignore": ("a",), "keys": ("a",)}, "once"),
    ({"ignore": ("pay",)}, "'pay' is an attribute, and is in ignore or keys"),
    ({"undeclared_columns": ("a",)}, "columns of ignore and keys only"),
]  # fmt: skip


def test_layouts_that_say_nothing_clear_are_refused(tmp_path):
    assert [Layout(decimal=",").number(text) for text in ("1,5", "1.5")] == [1.5, None]
    for facts, said in WRONG:
        with pytest.raises(SchemaError, match=said):
            Layout(**facts)
    for facts, said in WRONG_UNREAD:
        with pytest.raises(SchemaError, match=said):
            Schema((PAY,), **facts)
    attribute = '[[attribute]]\nname = "a"\nkind = "categorical"\nlevels = ["x"]\n'
    for text, said in (
        ("[file]\nheader = false\n", r"\[file\]: header must be a list of texts"),
        ('[[attribute]]\nname = "id"\nkind = "key"\nnullable = true\n', "never read"),
        ('[[attribute]]\nkind = "key"\n', "name is required"),
        ("wrong = 1\n", "Known: format, ledger, ignore"),
    ):
        (tmp_path / "s.toml").write_text(text + attribute)
        with pytest.raises(SchemaError, match=said):
            Schema.from_toml(tmp_path / "s.toml")


# -- the tables of a file, which are its classes --------------------------------------------------
KNOWN = ", ".join(("delimiter", "encoding", "decimal", "thousands", "header", "undeclared"))
REFUSED = {
    "[unit]\nmax_row = 3": "[unit]: unknown field 'max_row'. Did you mean 'max_rows'?",
    "[unit]\nmax_rows = 3": "[unit]: column is required: the name of a column",
    '[unit]\ncolumn = "p"\nmax_rows = "3"': "[unit]: max_rows must be a whole number",
    '[unit]\ncolumn = "p"\nmax_rows = 0': "max_rows must be a whole number from 1 to 1,000,000",
    '[unit]\ncolumn = "p"\nmissing_codes = [1]': "[unit]: missing_codes must be a list of texts",
    '[unit]\ncolumn = "p"\ncounts_as = "ones"': (
        "[unit]: counts_as must be one of 'rows' or 'one'. Did you mean 'one'?"
    ),
    '[unit]\ncolumn = "p"\nkind = "Unit"': "[unit]: unknown field 'kind'. Known fields: column,",
    '[unit]\ncolumn = "p"\nignore = ["x"]': (
        "[unit]: unknown field 'ignore'. Write it above the first table of the file."
    ),
    'unit = "p"': "unit must be a table: write [unit] and its fields below, which are column, max",
    '[[unit]]\ncolumn = "p"': "unit must be a table: write [unit]",
    "max_rows = 3": "'max_rows' in a schema. Write 'max_rows' in the table [unit].",
    'missing_unit = "own"': "Write 'if_missing' in the table [unit].",
    'unit_missing_codes = ["NA"]': "Write 'missing_codes' in the table [unit].",
    '[units]\ncolumn = "p"': "unknown table or field 'units' in a schema. Did you mean 'unit'?",
    'weight = "wt"': "weight must be a table: write [weight] and its fields below",
    "weight_upper = 4": "Write 'upper' in the table [weight].",
    "weight_default = 4": "Write 'default' in the table [weight].",
    '[weight]\ncolumn = "w"': "[weight]: upper is required: the largest weight that counts",
    '[weight]\ncolumn = "w"\nupper = -1': "upper must be the largest weight that counts, above 0",
    '[weight]\ncolumn = "w"\nupper = "9"': "[weight]: upper must be the largest weight",
    'delimiter = ";"': "Write 'delimiter' in the table [file].",
    '[file]\nseparator = ";"': f"[file]: unknown field 'separator'. Known fields: {KNOWN}.",
    '[file]\ndelimeter = ";"': "[file]: unknown field 'delimeter'. Did you mean 'delimiter'?",
    '[file]\nencoding = "latn-1"': "Did you mean 'latin_1'?",
}


@pytest.mark.parametrize("text", REFUSED)
def test_errors_in_a_table_name_it_the_field_and_a_remedy(text, tmp_path):
    attribute = '[[attribute]]\nname = "a"\nkind = "categorical"\nlevels = ["x"]\n'
    (tmp_path / "s.toml").write_text(f"{text}\n{attribute}")
    with refuses(SchemaError, re.escape(REFUSED[text])):
        Schema.from_toml(tmp_path / "s.toml")


@pytest.mark.parametrize("kind", TABLES.values())
def test_a_table_has_the_fields_of_its_class(kind, tmp_path):
    facts = {
        "column": "p", "max_rows": 3, "if_missing": "refuse", "missing_codes": ("NA",),
        "counts_as": "one", "upper": 4.0, "default": 1.0, "delimiter": ";", "encoding": "latin-1",
        "decimal": ",", "thousands": ".", "header": ("p", "sex"), "undeclared": ("decimal",),
    }  # fmt: skip
    made = kind(**{f.name: facts[f.name] for f in fields(kind)})
    schema = Schema((SEX,), **{kind.table: made})
    schema.to_toml(tmp_path / "s.toml")
    stated = tomllib.loads((tmp_path / "s.toml").read_text())[kind.table]
    assert stated == schema.to_dict()[kind.table] == made.to_table()
    assert [*stated] == [f.name for f in fields(kind)]
    assert getattr(Schema.from_toml(tmp_path / "s.toml"), kind.table) == made
