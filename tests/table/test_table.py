import gzip
import os

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from missdp import Categorical, Numeric, PrivBayes, Schema, Table
from missdp.errors import DataError, OutputError, ParameterError, SchemaError
from missdp.sources import DuckDBSource
from missdp.table import draft_schema
from missdp.table.written import write_all

SCHEMA = Schema(
    (
        Categorical(name="größe", levels=("S", "L"), nullable=True),
        Numeric(name='say "age"', lower=0, upper=100, integer=True, nullable=True),
        Numeric(name="score", lower=0, upper=1, nullable=True),
        Categorical(name="ok", levels=(False, True), nullable=True),
    )
)
FRAME = pd.DataFrame(
    {
        "größe": ["S", None, "L"],
        'say "age"': [1.0, 50.0, None],
        "score": [0.25, None, 1.0],
        "ok": [True, False, None],
    }
)


@pytest.fixture
def table():
    return Table.read(FRAME, SCHEMA)


def test_repr_shows_public_facts_only(table):
    assert repr(table) == 'Table(größe, say "age", score, ok)'
    assert "3" not in repr(table)


def test_rejects_other_columns():
    with pytest.raises(DataError, match=r"lacks.*score"):
        Table.read(FRAME.drop(columns="score"), SCHEMA)
    with pytest.raises(DataError, match=r"does not declare.*extra"):
        Table.read(FRAME.assign(extra=1), SCHEMA)
    doubled = pd.concat([FRAME, FRAME["score"]], axis=1)
    with pytest.raises(DataError, match=r"repeated.*score"):
        Table.read(doubled, SCHEMA)


def test_rejects_cells_of_other_types_and_strangers_without_quoting():
    with pytest.raises(DataError, match="cannot be read") as caught:
        Table.read(FRAME.assign(score=[0.5, "secret", None]), SCHEMA)
    assert "secret" not in str(caught.value)
    for stranger in ({"a": [1]}, [1, 2], 3, None):
        with pytest.raises(DataError, match="cannot read a table"):
            Table.read(stranger, SCHEMA)


@pytest.mark.parametrize("wrong", ["schema.toml", {"age": 1}, None, SCHEMA.attributes])
def test_what_is_no_schema_is_refused_as_such(wrong):
    with pytest.raises(SchemaError, match=r"must be a missdp.Schema.*Schema.from_toml"):
        Table.read(FRAME, wrong)
    if wrong is not None:
        with pytest.raises(SchemaError, match=r"must be a missdp.Schema.*Schema.from_toml"):
            PrivBayes(epsilon=1.0).fit(FRAME, schema=wrong)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_output_has_the_kind_and_dtypes_of_the_schema(table, kind):
    out = table.to_native(kind)
    again = Table.read(out, SCHEMA)
    assert again.kind == kind
    for name in SCHEMA.names:
        np.testing.assert_array_equal(again.codes(name), table.codes(name))
    empty = table.take(np.zeros(3, dtype=bool)).to_native(kind)
    full = table.to_native(kind)
    types = (lambda f: f.schema) if kind != "pandas" else (lambda f: list(f.dtypes))
    assert types(empty) == types(full)
    expected = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}[kind]
    assert isinstance(out, expected)


def test_polars_in_polars_out():
    assert (
        Table.read(pl.from_pandas(FRAME), SCHEMA)
        .to_native()
        .equals(Table.read(FRAME, SCHEMA).to_native("polars"))
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet", "tsv", "csv.gz"])
def test_files_read_like_frames(table, tmp_path, suffix):
    path = tmp_path / f"data ü.{suffix}"
    if suffix == "parquet":
        FRAME.to_parquet(path)
    else:
        FRAME.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    again = Table.read(path, SCHEMA)
    for name in SCHEMA.names:
        np.testing.assert_array_equal(again.codes(name), table.codes(name))


def test_bad_files_are_typed(tmp_path):
    with pytest.raises(DataError, match="no data file"):
        Table.read(tmp_path / "none.csv", SCHEMA)
    (tmp_path / "x.xlsx").write_text("")
    with pytest.raises(DataError, match="suffix"):
        Table.read(tmp_path / "x.xlsx", SCHEMA)
    (tmp_path / "x.parquet").write_text("secret")
    with pytest.raises(DataError, match="well-formed") as caught:
        Table.read(str(tmp_path / "x.parquet"), SCHEMA)
    assert "secret" not in str(caught.value)


def test_ragged_csv_is_refused_without_quoting_the_row(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\nsecret,3,4,5\n" * 3)
    schema = Schema((Numeric(name="a", lower=0, upper=9), Numeric(name="b", lower=0, upper=9)))
    with pytest.raises(DataError) as caught:
        Table.read(path, schema)
    assert "secret" not in str(caught.value)


TWO = Schema(
    (
        Categorical(name="a", levels=("x", "'y'", "#z"), nullable=True),
        Numeric(name="b", lower=0, upper=9, bins=9, nullable=True),
    )
)


@pytest.mark.parametrize(
    ("content", "codes"),
    [
        (b"\xef\xbb\xbfa,b\r\nx,1\r\n", [0]),
        (b"a;b\nx;1\n;2\n", [0, 3]),
        (b"a|b\nx|1", [0]),
        (b"a\tb\nx\t1\n", [0]),
        (b"a,b\n'y',1\n'y',2\n", [1, 1]),
        (b"a,b\n" + b"#z,1\n" * 50, [2] * 50),
        (b'"a","b"\n" x ","1"\n"",\n', [0, 3]),
        (b"a,b\n", []),
        (b"a,b", []),
    ],
)
def test_the_header_decides_how_a_csv_file_is_read(tmp_path, content, codes):
    (tmp_path / "x.csv").write_bytes(content)
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(content))
    for name in ("x.csv", "x.csv.gz"):
        assert Table.read(tmp_path / name, TWO).codes("a").tolist() == codes


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"secret,secret\nx,1\n",  # no header: the first row must not be taken for names
        b"secret,1,1\nx,1,1\n",
        b"title\n\na,b\nx,1\n",
        b"a,b\nx,1\nsecret\n",
        b"a,b\nx,1\nsecret,2,3\n",
        b'a,b\n"secret,1\n',
        b"a,b\n" + b"s" * 3_000_000 + b",1\n",
        "a,b,\nsecrét,1\n".encode("latin-1"),
        "a,b\nsecrét,1\n".encode("latin-1"),
        "é,b\nsecret,1\n".encode("latin-1"),
        "a,b\nsecret,1\n".encode("utf-16"),
        b"a,b\nsecret\0,1\n",
    ],
)
def test_malformed_csv_is_typed_and_quotes_no_cell(tmp_path, content):
    for name, data in (("x.csv", content), ("x.csv.gz", gzip.compress(content))):
        (tmp_path / name).write_bytes(data)
        for read in (
            lambda p: Table.read(p, TWO),
            lambda p: DuckDBSource(p, TWO).counts([("a",)], rows="observed"),
        ):
            with pytest.raises(DataError) as caught:
                read(tmp_path / name)
            assert "secr" not in str(caught.value)
            assert caught.value.__context__ is caught.value.__cause__ is None
    (tmp_path / "x.csv.gz").write_bytes(b"not gzip")
    with pytest.raises(DataError):
        Table.read(tmp_path / "x.csv.gz", TWO)


def test_a_draft_of_a_file_without_header_quotes_no_cell(tmp_path):
    (tmp_path / "x.csv").write_text("secret,secret\nx,1\n")
    with pytest.raises(DataError, match="header") as caught:
        draft_schema(tmp_path / "x.csv")
    assert "secret" not in str(caught.value)


def test_a_saved_index_is_called_what_it_is(tmp_path):
    pd.DataFrame({"a": ["x"], "b": [1]}).to_csv(tmp_path / "x.csv")
    for read in (lambda p: Table.read(p, TWO), lambda p: DuckDBSource(p, TWO), draft_schema):
        with pytest.raises(DataError, match=r"pandas saves the row labels.*index=False"):
            read(tmp_path / "x.csv")
    (tmp_path / "x.csv").write_text("a,,b\nx,1,2\n")
    with pytest.raises(DataError, match="a column without a name"):
        Table.read(tmp_path / "x.csv", TWO)
    pd.DataFrame({"a": ["x"], "b": [1]}, index=[7]).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"__index_level_0__.*row labels.*index=False"):
        Table.read(tmp_path / "x.parquet", TWO)


def test_names_with_quotes(tmp_path):
    schema = Schema((Categorical(name='it\'s "a"', levels=("x", "y")),))
    write_all([tmp_path / "o'clock.csv"], [pa.table({'it\'s "a"': ["y"]})])
    assert Table.read(tmp_path / "o'clock.csv", schema).codes(schema.names[0]).tolist() == [1]


@pytest.mark.parametrize("stem", ["d[1]", "[d]", *([] if os.name == "nt" else ["d*", "d?"])])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_path_names_one_file_and_no_other(tmp_path, stem, suffix):
    schema = Schema((Categorical(name="a", levels=("x", "y")),))
    for name, level in (("d1", "x"), ("d", "x"), (stem, "y")):
        write_all([tmp_path / f"{name}.{suffix}"], [pa.table({"a": [level]})])
    path = tmp_path / f"{stem}.{suffix}"
    assert Table.read(path, schema).codes("a").tolist() == [1]
    counts = DuckDBSource(path, schema).counts([("a",)], rows="observed")
    assert counts[("a",)].tolist() == [0, 1]


def test_paths_that_cannot_be_are_typed(tmp_path):
    for name in ("x" * 5000 + ".csv", "a\0.csv"):
        with pytest.raises(DataError, match="no data file"):
            Table.read(tmp_path / name, TWO)


def test_an_engine_that_fails_does_not_quote_the_cell():
    schema = Schema((Numeric(name="b", lower=0, upper=9),))
    query = pl.LazyFrame({"b": ["secret"]}).with_columns(pl.col("b").cast(pl.Int64))
    huge = pd.DataFrame({"b": pd.Series([2**70, 1], dtype=object)})
    for data in (query, huge):
        with pytest.raises(DataError) as caught:
            Table.read(data, schema)
        assert "secret" not in str(caught.value)


def test_numeric_values_need_values(table):
    with pytest.raises(DataError, match="no numeric values"):
        table.values("größe")
    bins = Table.from_codes(SCHEMA, {name: table.codes(name) for name in SCHEMA.names})
    with pytest.raises(DataError, match="bins only"):
        bins.to_arrow()
    drawn = bins.with_values(np.random.default_rng(0))
    for name in SCHEMA.names:
        np.testing.assert_array_equal(drawn.mask(name), table.mask(name))
        np.testing.assert_array_equal(
            Table.read(drawn.to_native(), SCHEMA).codes(name), table.codes(name)
        )


def test_codes_are_checked():
    schema = Schema((Categorical(name="x", levels=("a", "b")),))
    for bad in ([2], [-1]):
        with pytest.raises(DataError, match=r"0\.\.1"):
            Table.from_codes(schema, {"x": np.array(bad)})
    with pytest.raises(ParameterError):
        Table.from_codes(schema, {"x": np.array([0.5])})
    with pytest.raises(DataError, match="no codes"):
        Table.from_codes(schema, {})


def test_holes_can_be_added_where_declared(table):
    more = table.with_missing({"score": np.array([True, False, False])})
    assert more.mask("score").tolist() == [True, True, False]
    assert table.mask("score").tolist() == [False, True, False]
    schema = Schema((Categorical(name="x", levels=("a",)),))
    whole = Table.from_codes(schema, {"x": np.zeros(1, dtype=int)})
    with pytest.raises(DataError, match="nullable"):
        whole.with_missing({"x": np.array([True])})


def test_incomplete_rows(table):
    assert table.incomplete_rows().tolist() == [False, True, True]


def test_writing_is_whole_or_not_at_all(table, tmp_path):
    good = tmp_path / "out.csv"
    write_all([good], [table.to_arrow()])
    assert len(Table.read(good, SCHEMA)) == 3
    for bad in (tmp_path / "no" / "out.csv", tmp_path / "out.xlsx", tmp_path):
        with pytest.raises(OutputError):
            write_all([bad], [table.to_arrow()])
    assert sorted(os.listdir(tmp_path)) == ["out.csv"]


def test_a_failing_writer_leaves_the_old_file(table, tmp_path, monkeypatch):
    path = tmp_path / "out.parquet"
    path.write_text("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", fail)
    with pytest.raises(OutputError, match="No space left"):
        write_all([path], [table.to_arrow()])
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.parquet"]


def test_draft_marks_everything_read_from_cells(tmp_path):
    frame = pd.DataFrame({"a": ["1", "?", "3"], "b": ["x", "", " y"], "c": [0.5, None, 2.0]})
    frame.to_csv(tmp_path / "x.csv", index=False)
    draft = draft_schema(tmp_path / "x.csv")
    assert draft["a"].missing_codes == ("?",)
    assert set(draft.undeclared["a"]) >= {"lower", "upper", "integer", "nullable", "missing_codes"}
    assert draft["b"].levels == ("x", "y")
    assert set(draft.undeclared["b"]) == {"levels", "nullable"}
    table = Table.read(tmp_path / "x.csv", draft)
    assert table.mask("a").tolist() == table.mask("b").tolist() == [False, True, False]
    with duckdb.connect() as connection:
        relation = connection.sql("SELECT 'x' AS a, 1 AS b")
        assert draft_schema(relation).names == ("a", "b")


def test_draft_refuses_what_a_person_must_write(tmp_path):
    with pytest.raises(DataError, match="identifier"):
        draft_schema(pd.DataFrame({"id": [f"p{i}" for i in range(200)]}))
    with pytest.raises(DataError, match="empty"):
        draft_schema(pd.DataFrame({"a": [None, None]}))
    with pytest.raises(DataError, match="finite"):
        draft_schema(pd.DataFrame({"a": [np.inf]}))
    with pytest.raises(DataError, match="repeated"):
        draft_schema(pd.DataFrame([[1, 2]], columns=["a", "a"]))
