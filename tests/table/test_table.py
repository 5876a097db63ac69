"""Tables, and the files that they are read from and written to."""

import contextlib
import csv
import errno
import gzip
import os
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from missdp import Categorical, Filter, Numeric, PrivBayes, Schema, Table
from missdp.errors import DataError, OutputError, ParameterError, SchemaError
from missdp.sources import DuckDBSource
from missdp.table import draft_schema
from missdp.table.read_files import DataFile
from missdp.table.written import write_blocks
from refusing import refuses

SCHEMA = Schema(
    (
        Categorical(name="größe", levels=("S", "L"), nullable=True),
        Numeric(name='say "age"', lower=0, upper=100, integer=True, nullable=True),
        Numeric(name="score", lower=0, upper=1, nullable=True),
        Categorical(name="ok", levels=(False, True), nullable=True),
    )
)
FRAME = pd.DataFrame(
    {"größe": ["S", None, "L"], 'say "age"': [1.0, 50.0, None], "score": [0.25, None, 1.0],
     "ok": [True, False, None]}
)  # fmt: skip
LOOSE = {"nullable": True, "outside": "missing"}
A = Categorical(name="a", levels=("x", "'y'", "#z"), **LOOSE)
TWO = Schema((A, Numeric(name="b", lower=0, upper=9, bins=9, **LOOSE)))
STRICT = Schema((A, Numeric(name="b", lower=0, upper=9)))


@pytest.fixture
def table():
    return Table.read(FRAME, SCHEMA)


def same_cells(one, two):
    for name in one.schema.names:
        np.testing.assert_array_equal(one.codes(name), two.codes(name))


def test_a_table_shows_public_facts_and_comes_out_as_the_frame_that_came_in(table):
    assert repr(table) == 'Table(größe, say "age", score, ok)'
    kinds = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}
    for kind, expected in kinds.items():
        out, empty = (t.to_native(kind) for t in (table, table.take(np.zeros(3, dtype=bool))))
        types = (lambda f: f.schema) if kind != "pandas" else (lambda f: list(f.dtypes))
        assert types(empty) == types(out)
        again = Table.read(out, SCHEMA)
        assert (again.kind, type(again.to_native())) == (kind, expected)
        same_cells(again, table)


@pytest.mark.parametrize("wrong", ["schema.toml", {"age": 1}, SCHEMA.attributes])
def test_objects_other_than_schemas_raise(wrong):
    for read in (Table.read, PrivBayes(epsilon=1.0).fit):
        with refuses(SchemaError, r"must be a missdp.Schema.*Schema.from_toml"):
            read(FRAME, schema=wrong)


# -- CSV -----------------------------------------------------------------------------------------
HEADERS = [
    (b"\xef\xbb\xbfa,b\r\nx,1\r\n", [0]),
    (b"a;b\nx;1\n;2\n", [0, 3]),
    *((b"a|b\nx|1", [0]), (b"a\tb\nx\t1\n", [0]), (b"a,b\n", []), (b"a,b", [])),
    (b"a,b\n'y',1\n'y',2\n", [1, 1]),
    (b"a,b\n" + b"#z,1\n" * 50, [2] * 50),
    *((b"a,b\nx,1\n%b,1\n" % (9 * other), [0, 3]) for other in (b";", b"|", b"\t", b"x;'y'")),
    (b"a;b\nx;1\nx,x,x,x;1\n", [0, 3]),
    (b'"a","b"\n" x ","1"\n"",\n', [0, 3]),
    (b'b,a\n1,"x\n"\n2,x"\n3,"2 ""x""', None),  # open at the end
    (b'b,a\n1,"x\n"\n2,x"\n3,"2 ""x"""', [0, 3, 3]),
    (b'b,a\n1,"x\n"\n2,"x"""\n3,"2 ""x"""', [0, 3, 3]),
]


@pytest.mark.parametrize(("content", "codes"), HEADERS)
def test_the_header_decides_how_a_csv_file_is_read(tmp_path, content, codes):
    (tmp_path / "x.csv").write_bytes(content)
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(content))
    for name in ("x.csv", "x.csv.gz"):
        if codes is None:
            with refuses(DataError, "a quote is not closed"):
                Table.read(tmp_path / name, TWO)
        else:
            assert Table.read(tmp_path / name, TWO).codes("a").tolist() == codes


MALFORMED = [
    b"",
    b"secret,secret\nx,1\n",  # no header: the first row must not be taken for names
    b"secret,1,1\nx,1,1\n",
    b"title\n\na,b\nx,1\n",
    b"a,b\nx,1\nsecret\n",
    b"a,b\nx,1\nsecret,2,3\n",
    b'a,b\n"secret,1\n',
    b'a,b\nx,1\nx,"secret\nx,2\n',  # open to the end, in the last field
    b'a,b\nx,1\nx,2\nsecret,"',
    b'a,"b\nx,secret\n',
    b"a,b\n" + b"s" * 3_000_000 + b',"1\n',
    "a,b,\nsecrét,1\n".encode("latin-1"),
    "é,b\nsecret,1\n".encode("latin-1"),
    "a,b\nsecret,1\n".encode("utf-16"),
]


@pytest.mark.parametrize("content", MALFORMED)
def test_malformed_csv_is_refused_before_a_charge_and_quotes_no_cell(tmp_path, content):
    for name, data in (("x.csv", content), ("x.csv.gz", gzip.compress(content))):
        path, budget = tmp_path / name, Filter(1.0)
        path.write_bytes(data)
        for read in (
            lambda p: Table.read(p, TWO),
            lambda p: Table.read(p, STRICT),
            lambda p: DuckDBSource(p, TWO).check(),
            lambda p: DuckDBSource(p, TWO).counts([("a",)], rows="observed"),
            lambda p, b=budget: PrivBayes(epsilon=1.0, budget=b).fit(p, schema=TWO),
        ):
            with refuses(DataError):
                read(path)
        assert not budget.events
    (tmp_path / "x.csv.gz").write_bytes(b"not gzip")
    with refuses(DataError, "as CSV: "):
        Table.read(tmp_path / "x.csv.gz", TWO)


cell = st.text('x"\n,\r ', max_size=4)


@pytest.mark.long
@settings(max_examples=80)
@given(rows=st.lists(st.tuples(cell, cell), max_size=5), cut=st.integers(0, 60), end=st.booleans())
def test_a_csv_file_has_all_its_rows_or_is_refused(tmp_path, rows, cut, end):
    """Rows are written with quotes, then read whole and without the last bytes.

    The lost bytes may contain a quote.
    """
    fields = [['"' + text.replace('"', '""') + '"' for text in row] for row in rows]
    whole = "\n".join(["a,b", *map(",".join, fields)]) + "\n" * end
    path, loose = tmp_path / "x.csv", Schema((A, replace(A, name="b")))
    path.write_bytes(whole.encode())
    known = [row[0].strip() == "x" for row in rows]
    assert (Table.read(path, loose).codes("a") == 0).tolist() == known
    start = whole.encode()[: len(whole) - min(cut, len(whole) - 3)]
    path.write_bytes(start)
    if start.count(b'"') % 2:  # every quote is part of a quoted field here
        with refuses(DataError):
            Table.read(path, loose)


@pytest.mark.long
@settings(max_examples=500)
@given(text=st.text('x",\n', max_size=14))
@example(text='1,"x\n2,"y\n')
@example(text='1,"x\n2,"y"\n')
@example(text='"y,1\nu,1\nx",5\n')
@example(text='u,"1\nu,1\nu,5"\n')
def test_no_quote_of_a_row_takes_the_rows_behind_it(tmp_path, text):
    """Records are those of Python's strict reader, but for empty fields behind the last column."""
    path, content = tmp_path / "x.csv", f"a,b\n{text}"
    path.write_bytes(content.encode())
    rows, found = None, None
    with contextlib.suppress(csv.Error):
        rows = [row for row in csv.reader(content.splitlines(keepends=True), strict=True) if row]
    with contextlib.suppress(DataError):
        batches = DataFile(path).batches(("a", "b"))
        found = [[*r.values()] for b in batches for r in b.to_pylist()]
    rows = rows and [row if any(row[2:]) else row[:2] for row in rows]
    if rows is None or any(len(row) != 2 for row in rows):
        assert found is None
    else:
        assert found == [[cell or None for cell in row] for row in rows[1:]]


def test_headers_without_names_raise_the_reason(tmp_path):
    path = tmp_path / "x.csv"
    pd.DataFrame({"a": ["x"], "b": [1]}).to_csv(path)
    for read in (lambda p: Table.read(p, TWO), lambda p: DuckDBSource(p, TWO), draft_schema):
        with refuses(DataError, r"pandas saves the row labels.*index=False"):
            read(path)
    path.write_text("a,,b\nx,1,2\n")
    with refuses(DataError, "a column without a name"):
        Table.read(path, TWO)
    path.write_text("secret,secret\nx,1\n")
    with refuses(DataError, "header"):
        draft_schema(path)
    pd.DataFrame({"a": ["x"], "b": [1]}, index=[7]).to_parquet(tmp_path / "x.parquet")
    with refuses(DataError, r"__index_level_0__.*row labels.*index=False"):
        Table.read(tmp_path / "x.parquet", TWO)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_path_names_one_file_and_no_other(tmp_path, suffix):
    schema = Schema((Categorical(name='it\'s "a"', levels=("x", "y")),))
    (name,) = schema.names
    for stem in ("d[1]", "[d]", "o'clock", *([] if os.name == "nt" else ["d*", "d?"])):
        for other, level in (("d1", "x"), ("d", "x"), (stem, "y")):
            write_blocks([tmp_path / f"{other}.{suffix}"], [(0, pa.table({name: [level]}))])
        path = tmp_path / f"{stem}.{suffix}"
        assert Table.read(path, schema).codes(name).tolist() == [1]
        counts = DuckDBSource(path, schema).counts([(name,)], rows="observed")
        assert counts[(name,)].tolist() == [0, 1]
    for bad, content in (("x.xls", "suffix"), ("x.parquet", "well-formed")):
        (tmp_path / bad).write_text("secret")
        with refuses(DataError, content):
            Table.read(tmp_path / bad, schema)


# -- codes and missing values ----------------------------------------------------------------------
def test_numeric_values_need_values(table):
    with refuses(DataError, "no numeric values"):
        table.values("größe")
    bins = Table.from_codes(SCHEMA, {name: table.codes(name) for name in SCHEMA.names})
    with refuses(DataError, "bins only"):
        bins.to_arrow()
    drawn = bins.with_values(np.random.default_rng(0))
    same_cells(drawn, table)
    same_cells(Table.read(drawn.to_native(), SCHEMA), table)


def test_codes_are_checked_and_missing_cells_are_added(table):
    schema = Schema((Categorical(name="x", levels=("a", "b")),))
    for kind, why, codes in (
        *((DataError, r"0\.\.1", {"x": np.array([bad])}) for bad in (2, -1)),
        *((ParameterError, "whole|integers", {"x": np.array([0.5])}), (DataError, "no codes", {})),
    ):
        with refuses(kind, why):
            Table.from_codes(schema, codes)
    more = table.with_missing({"score": np.array([True, False, False])})
    assert more.mask("score").tolist() == [True, True, False]
    assert table.mask("score").tolist() == [False, True, False]
    assert table.incomplete_rows().tolist() == [False, True, True]
    with refuses(DataError, "nullable"):
        Table.from_codes(schema, {"x": [0]}).with_missing({"x": np.array([True])})


# -- writing: whole or not at all ------------------------------------------------------------------
def test_unwritable_rows_raise_and_old_files_stay(table, tmp_path, monkeypatch):
    for bad in (tmp_path / "no" / "out.csv", tmp_path / "out.xls", tmp_path):
        with refuses(OutputError):
            write_blocks([bad], [(0, table.to_arrow())])
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", Mock(side_effect=full))
    (tmp_path / "out.parquet").write_text("old")
    with refuses(OutputError, "No space left"):
        write_blocks([tmp_path / "out.parquet"], [(0, table.to_arrow())])
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("out.parquet", "old")]


@pytest.mark.parametrize("refused", ["one.csv", "two.csv", None])
def test_of_several_files_none_appears_before_all_are_complete(tmp_path, monkeypatch, refused):
    paths = [tmp_path / "one.csv", tmp_path / "two.csv"]
    for path in paths:
        path.write_bytes(b"old")
    moved = os.replace

    def refusing(source, target):
        if os.path.basename(target) == refused:
            raise OSError(errno.EIO, "broken")
        moved(source, target)

    def blocks():
        yield from enumerate([pa.table({"a": [1]})] * 2)
        if refused is None:
            raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "replace", refusing)
    with pytest.raises((OSError, OutputError), match=refused):
        write_blocks(paths, blocks())
    kept = paths if refused is None else [tmp_path / refused]
    assert all(path.read_bytes() == b"old" for path in kept)
    assert all(path.read_bytes() in (b"old", b'"a"\n1\n') for path in paths)
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_concatenate_no_table_or_other_schema_raises_error():
    one, two = (Table.without_rows(schema) for schema in (TWO, STRICT))
    assert len(Table.concatenate([one, one])) == 0
    with refuses(DataError, "Pass at least one table"):
        Table.concatenate([])
    for other in (two, Table.without_rows(Schema((A,)))):
        with refuses(DataError, "only if they have one schema"):
            Table.concatenate([one, other])


def test_of_block_absent_attribute_raises_error():
    with refuses(DataError, "no codes for attribute 'b'"):
        Table.of_block(TWO, {"a": np.zeros(2, np.uint8)})
