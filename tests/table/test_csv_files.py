"""CSV files as DuckDB reads them, everything declared: records, refusals, and no cell in errors."""

import csv
import gzip
import io
import traceback

import duckdb
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Schema, Table
from missdp.errors import DataError
from missdp.schema import Layout
from missdp.schema.layout import PLAIN
from missdp.table import Rows, csv_files, draft_columns
from missdp.table.csv_files import CsvFile
from missdp.table.read_files import DataFile
from refusing import refuses

SECRET = "Jane-Doe-1977"


def cells(path, names=("a", "b"), layout=PLAIN):
    """Return the rows of a file, as lists of texts."""
    batches = DataFile(path, layout).batches(names)
    return [[*row.values()] for batch in batches for row in batch.to_pylist()]


REFUSED = None
ADVERSARIAL = {
    "plain": (b"a,b\n1,x\n2,y\n", [["1", "x"], ["2", "y"]]),
    "quoted": (b'a,b\n1,"x, ""y"""\n2,"l1\nl2"\n', [["1", 'x, "y"'], ["2", "l1\nl2"]]),
    "unclosed": (b'a,b\n1,"x\n2,y\n3,z\n', REFUSED),
    "two rows pair quotes": (b'a,b\n1,"x\n2,y\n3,"z"\n', REFUSED),
    "quote inside a cell": (b'a,b\n1,x"y\n2,z\n', [["1", 'x"y'], ["2", "z"]]),
    "text after a quote": (b'a,b\n1,"x"y\n2,z\n', REFUSED),
    "too many": (b"a,b\n1,x,3\n2,y\n", REFUSED),
    "too few": (b"a,b\n1\n2,y\n", REFUSED),
    "not UTF-8": (b"a,b\n1,\xff\n2,y\n", REFUSED),
    "empty line": (b"a,b\n1,x\n\n2,y\n", [["1", "x"], ["2", "y"]]),
    "empty fields": (b'a,b\n,""\n2,y\n', [[None, None], ["2", "y"]]),
    "byte order mark": (b"\xef\xbb\xbfa,b\n1,x\n", [["1", "x"]]),
    "CR LF": (b"a,b\r\n1,x\r\n2,y\r\n", [["1", "x"], ["2", "y"]]),
    "null byte": (b"a,b\n1,x\x00y\n2,z\n", [["1", "x\0y"], ["2", "z"]]),
    "no line end": (b"a,b\n1,x\n2,y", [["1", "x"], ["2", "y"]]),
    "blanks": (b"a,b\n  1 , x \n2,y\n", [["  1 ", " x "], ["2", "y"]]),
    "odd quotes in two rows": (b'a,b\n1,x"\n2,"y\n3,"z"\n', REFUSED),
    "different line ends": (b"a,b\r\n1,x\n2,y\r\n", REFUSED),
    "empty fields behind the last": (b"a,b\n1,x,\n2,y,,\n", [["1", "x"], ["2", "y"]]),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ADVERSARIAL)
def test_adversarial_file_is_read_as_is_or_refused(name, packed, tmp_path):
    content, expected = ADVERSARIAL[name]
    path = tmp_path / ("x.csv.gz" if packed else "x.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    if expected is REFUSED:
        with refuses(DataError, "as CSV"):
            cells(path)
    else:
        assert cells(path) == expected


text = st.text('ab",\n x', max_size=30)


@pytest.mark.long
@settings(max_examples=100)
@given(rows=st.lists(st.tuples(text, text), max_size=40), copies=st.sampled_from([1, 1, 50]))
def test_well_formed_file_is_read_row_by_row(rows, copies, tmp_path):
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(
        [("a", "b"), *rows * copies]
    )
    (tmp_path / "x.csv").write_text(file.getvalue())
    expected = [[a or None, b or None] for a, b in rows] * copies
    assert cells(tmp_path / "x.csv") == expected


@pytest.mark.long
@settings(max_examples=150)
@given(lines=st.lists(st.text("x,1 ;'", max_size=8), min_size=1, max_size=4))
@example(lines=["1,x", "1", "2,y"])
def test_line_without_quotes_changes_no_other_row(lines, tmp_path):
    def read(some):
        (tmp_path / "x.csv").write_text("\n".join(["a,b", *some, ""]))
        try:
            return cells(tmp_path / "x.csv")
        except DataError:
            return REFUSED

    alone = [read([line]) for line in lines]
    together = REFUSED if REFUSED in alone else [row for rows in alone for row in rows]
    assert read(lines) == together


@pytest.mark.long
def test_long_file_keeps_the_order_of_its_rows(tmp_path):
    numbers = np.random.default_rng(0).permutation(150_000)
    (tmp_path / "x.csv").write_text("a,b\n" + "".join(f'{n},"{n}\n"\n' for n in numbers))
    assert [int(a) for a, _ in cells(tmp_path / "x.csv")] == numbers.tolist()
    assert (
        Rows.of(tmp_path / "x.csv").approximate_length() == 300_001
    )  # lines, of which a row has two


PLANTED = {
    "open quote": f'1,"{SECRET}\n2,y\n',
    "text after a quote": f'1,"x"{SECRET}\n',
    "too many fields": f"1,x,{SECRET}\n",
    "too few fields": f"{SECRET}\n",
    "not UTF-8": f"{SECRET},é\n",
    "different line ends": f"1,x\r\n{SECRET},y\n",
    "longer than a row may be": f"{SECRET * 1_400_000},y\n",
}


@pytest.mark.long
@pytest.mark.long
@pytest.mark.parametrize("before", [0, 2_000, 9_000])
def test_quoted_cell_at_the_end_of_a_buffer_is_read(before, tmp_path):
    path, cell = tmp_path / "x.csv", "1,2\n" * 2_500
    row = "3" * 1_000 + ",4\n"
    n, rest = divmod(csv_files._MAX_ROW_BYTES - before - len("a,b\n"), len(row))
    filler = "3" * (rest - len(",4\n")) + ",4\n" if rest > 4 else ""
    quoted = f'"x\n{cell}",2\n' * 3
    path.write_text("a,b\n" + row * n + filler + quoted + "5,6\n" * 100_000, "utf-8")
    batches = [*DataFile(path).batches(("a", "b"))]
    assert sum(b.num_rows for b in batches) == n + bool(filler) + 3 + 100_000
    assert sum(b.column(0).to_pylist().count(f"x\n{cell}") for b in batches) == 3


@pytest.mark.parametrize("rows", ["1,2\n3,4\n", '5,6"\n1,2\n'])
def test_header_with_a_quote_behind_a_blank_is_refused(rows, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('a, "b\n' + rows, "utf-8")
    with refuses(DataError, "as CSV"):
        assert not Rows.of(path).names


@pytest.mark.long
@pytest.mark.parametrize("rows_before", [0, 70_000])
@pytest.mark.parametrize("name", PLANTED)
def test_error_of_a_malformed_file_quotes_no_cell(name, rows_before, tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(("a,b\n" + "1,x\n" * rows_before + PLANTED[name]).encode("latin-1"))
    numbers = Numeric(name="a", lower=0, upper=9, nullable=True, outside="missing")
    schema = Schema(
        (numbers, Categorical(name="b", levels=("x",), nullable=True, outside="missing"))
    )
    for read in (cells, draft_columns, lambda p: Table.read(p, schema)):
        with refuses(DataError, "as CSV") as caught:
            read(path)
        shown = "".join(traceback.format_exception(caught.value))
        assert SECRET not in shown + repr(caught.value.__dict__)
        if name == "not UTF-8":
            assert f"line {rows_before + 2} is not UTF-8" in str(caught.value)


def test_line_that_is_not_utf8_is_found_wherever_chunks_end(tmp_path, monkeypatch):
    content = "é,b\n" * 3 + "ü"
    for size in (1, 2, 3, 100):
        monkeypatch.setattr(csv_files, "_CHUNK_BYTES", size)
        for tail, line in ((b"", None), (b"\xff\n", 4), (b"\n\xe9", 5), (b"\n\n\xe9\n", 6)):
            (tmp_path / "x.csv").write_bytes(content.encode() + tail)
            file = CsvFile(tmp_path / "x.csv", tmp_path / "x.csv")
            assert file.undecodable_line() == line


def test_column_that_is_not_read_may_have_any_bytes(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"a,b\n1,\xff\n2,y\n")
    assert cells(path, ("a",)) == [["1"], ["2"]]


NAMES = [
    (b'"x ""y""",b\n1,2\n', ('x "y"', "b")),
    (b'"two\nlines",b\n1,2\n', ("two\nlines", "b")),
    (b"A,a\n1,2\n", ("A", "a")),  # which SQL would take for one name
    ("größe;c'0\n1;2\n".encode(), ("größe", "c'0")),
]


@pytest.mark.parametrize(("content", "names"), NAMES)
def test_header_record_gives_names_and_delimiter(content, names, tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    assert Rows.of(path).names == names
    assert cells(path, names[::-1]) == [["2", "1"]]


def test_header_record_that_is_not_utf8_is_refused_with_its_line(tmp_path):
    for content in ("größe,b\n1,2\n".encode("latin-1"), "a,b\n1,2\n".encode("utf-16")):
        (tmp_path / "x.csv").write_bytes(content)
        with refuses(DataError, "line 1 is not UTF-8"):
            assert not Rows.of(tmp_path / "x.csv").names


def test_file_without_a_header_line_has_the_declared_names(tmp_path):
    path, layout = tmp_path / "x.csv", Layout(header=("a", "b"), delimiter=";")
    for content, rows in (
        (b"1;x\n2;y\n", [["1", "x"], ["2", "y"]]),
        (b"", []),
        (b"1;x", [["1", "x"]]),
    ):
        path.write_bytes(content)
        assert cells(path, layout=layout) == rows


def test_duckdb_loads_no_extension_and_reads_no_other_place(tmp_path):
    database = csv_files._database()
    for setting in csv_files.NO_EXTENSIONS:
        (found,) = database.execute(f"SELECT current_setting('{setting}')").fetchone()
        assert found is False
    with pytest.raises(duckdb.Error):
        database.execute("SELECT * FROM read_csv('https://example.invalid/x.csv')")
    for name in ("https://example.invalid/x.csv", "s3://bucket/x.csv"):
        with refuses(DataError, "no data file"):
            cells(tmp_path / name)


MARKS = [
    ("1.234,5", 1234.5),
    ("1,5", 1.5),
    ("12.34,5", None),
    ("1.5", None),
    ("x", None),
    ("-7", -7.0),
]


@pytest.mark.parametrize(("text", "number"), MARKS)
def test_marks_of_a_number_are_read_in_each_cell_by_itself(text, number, tmp_path):
    path, layout = tmp_path / "x.csv", Layout(decimal=",", thousands=".")
    pay = Numeric(name="pay", lower=-10, upper=9999, nullable=True, outside="missing")
    others = ["2,5", "bad", "3.000", "", "1e3", "4"]
    path.write_text("pay;b\n" + "".join(f"{cell};1\n" for cell in [text, *others]))
    table = Table.read(path, Schema((pay,), file=layout, ignore=("b",)))
    values, missing = table.values("pay").tolist(), table.mask("pay").tolist()
    assert missing == [number is None, False, True, False, True, False, False]
    assert values[0] == (pay.lower if number is None else number)
    assert values[1:] == [2.5, pay.lower, 3000.0, pay.lower, 1000.0, 4.0]
    assert layout.number(text.strip()) == number
