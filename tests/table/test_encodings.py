"""Text files in other encodings than UTF-8, which Python decodes for DuckDB."""

import codecs
import gzip
import os
import tempfile
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Schema, Table
from missdp.cli.main import main
from missdp.errors import DataError, OutputError, SchemaError
from missdp.schema import Layout
from missdp.schema.layout import _encodings
from missdp.table import Rows, csv_files, draft_columns
from missdp.table.csv_files import CsvFile
from missdp.table.read_files import DataFile
from missdp.table.written import check_holds, write_blocks
from refusing import refuses

TEXTS = {
    "latin-1": "größe,naïf",
    "cp1252": "€,œuvre",
    "koi8-r": "да,нет",
    "shift_jis": "表|示,ソ能",  # whose second bytes are | and \ in ASCII
    "gb18030": "是,否𠀀",
    "utf-8-sig": "ä,ö",
    "utf-16": "Ċ,表𠀀",  # U+010A has the byte of a line feed
    "utf-16-be": "是,ä",
    "utf-32-le": "是,ä",
}
WIDE = {"utf-16", "utf-16-be", "utf-16-le", "utf-32", "utf-32-be", "utf-32-le"}
WIDE |= {name.replace("-", "_") for name in WIDE}
MARKED = {"utf_8_sig"}  # in front of the first row, and of no other
STATEFUL = ["utf-7", "hz", "iso2022_jp", "iso2022_kr", "iso2022_jp_2", "raw_unicode_escape"]
NO_ASCII = ["cp500", "cp037", "punycode", "idna", "unicode_escape", "rot13", "hex", "none such"]


def cells(path, layout):
    columns = DataFile(path, layout).names
    batches = DataFile(path, layout).batches(columns)
    return [list(row.values()) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("encoding", TEXTS)
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv"])
@pytest.mark.parametrize("size", [1, 5, 2**20])
def test_file_in_any_encoding_has_the_cells_of_utf8(encoding, suffix, size, tmp_path, monkeypatch):
    names = TEXTS[encoding].split(",")
    rows = [[*names], ["two\nlines", names[0] * 3], ["", "x"]]
    mark = "\t" if suffix == ".tsv" else ","
    lines = [mark.join(names), *(mark.join(f'"{c}"' if c else c for c in row) for row in rows)]
    text = "".join(f"{line}\n" for line in lines)
    path, layout = tmp_path / f"x{suffix}", Layout(encoding=encoding)
    content = text.encode(encoding)
    path.write_bytes(gzip.compress(content) if suffix == ".csv.gz" else content)
    if size > 5:  # the header record lies within one chunk
        assert DataFile(path, layout).names == tuple(names)
        assert cells(path, layout) == [[cell or None for cell in row] for row in rows]
    monkeypatch.setattr(csv_files, "_CHUNK_BYTES", size)
    decoded = b"".join(CsvFile(path, path, layout).in_utf8()).decode("utf-8-sig")
    assert decoded == text
    assert CsvFile(path, path, layout).undecodable_line() is None


SECRET = "s3cret"


@pytest.mark.parametrize(
    ("encoding", "wrong"),
    [("ascii", b"\xe9"), ("cp1252", b"\x81"), ("shift_jis", b"\x81\xff"), ("gbk", b"\x81"),
     ("utf-16-le", b"\x00\xdc"), ("utf-32-le", b"\xff\xff\xff\xff"), ("utf-8", b"\xff")],
)  # fmt: skip
def test_bytes_that_do_not_decode_are_refused_by_line_and_never_quoted(encoding, wrong, tmp_path):
    path, schema = tmp_path / "x.csv", Schema((A,), file=Layout(encoding=encoding))
    for before in (0, 1, 40_000):
        head = f"a\n{SECRET}\n".encode(encoding) + "x\n".encode(encoding) * before
        path.write_bytes(head + f"{SECRET}".encode(encoding) + wrong + "\n".encode(encoding))
        with refuses(DataError, f"line {before + 3} is not {encoding.upper()}. State the") as found:
            Table.read(path, schema)
        error = found.value
        assert (error.__cause__, error.__context__) == (None, None)
        shown = "".join(traceback.format_exception(error)) + repr(error.__dict__) + repr(error.args)
        assert SECRET not in shown
        assert repr(wrong)[2:-1] not in shown


A = Categorical(name="a", levels=("x", "é"), nullable=True)


def test_truncated_character_at_the_end_is_refused(tmp_path):
    (tmp_path / "x.csv").write_bytes("a\nx\né".encode("utf-16-le")[:-1])
    with refuses(DataError, "line 3 is not UTF-16-LE"):
        Table.read(tmp_path / "x.csv", Schema((A,), file=Layout(encoding="utf-16-le")))


# -- row by row ----------------------------------------------------------------------------------
@pytest.mark.parametrize("encoding", [*STATEFUL, *NO_ASCII])
def test_encodings_with_state_across_rows_raise(encoding):
    with pytest.raises(SchemaError, match=f"encoding '{encoding}' cannot be read"):
        Layout(encoding=encoding)


@pytest.mark.long
@pytest.mark.parametrize("encoding", sorted({*_encodings()} - WIDE - MARKED))
@given(st.binary(max_size=8), st.binary(max_size=8))
def test_no_row_changes_how_the_next_one_is_decoded(encoding, one, other):
    """For all bytes of a row, the file is refused or the line feed ends the row."""
    one, other = (row.replace(b"\n", b"") + b"\n" for row in (one, other))
    try:
        alone = one.decode(encoding), other.decode(encoding)
    except UnicodeDecodeError:
        with pytest.raises(UnicodeDecodeError):
            (one + other).decode(encoding)
        return
    assert (one + other).decode(encoding) == "".join(alone)
    assert [text.count("\n") for text in alone] == [1, 1]


def test_a_table_of_two_files_is_both_tables(tmp_path):
    schema = Schema((A,), file=Layout(encoding="shift_jis", header=("a",)))
    schema = Schema((Categorical(name="a", levels=("表", "x")),), file=schema.file)
    parts = ["表\nx\n", "x\n表\n表\n"]
    codes = []
    for text in (*parts, "".join(parts)):
        (tmp_path / "x.csv").write_text(text, encoding="shift_jis")
        codes.append(Table.read(tmp_path / "x.csv", schema).codes("a").tolist())
    assert codes[0] + codes[1] == codes[2]


# -- the copy ------------------------------------------------------------------------------------
def test_decoded_copy_has_no_name_and_does_not_stay(tmp_path, monkeypatch):
    (tmp_path / "temp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    path = tmp_path / "x.csv"
    path.write_text("a\n" + "é\n" * 70_000, encoding="latin-1")
    known, rows = {*os.listdir("/dev/fd")}, 0
    for batch in DataFile(path, Layout(encoding="latin-1")).batches(("a",)):
        rows += batch.num_rows
        assert not list((tmp_path / "temp").iterdir())
    assert rows == 70_000
    assert {*os.listdir("/dev/fd")} == known


def test_copy_that_cannot_be_written_raises_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    (tmp_path / "x.csv").write_text(f"a\n{SECRET}\n", encoding="latin-1")
    with refuses(DataError, "Free space in the folder of TMPDIR"):
        Table.read(tmp_path / "x.csv", Schema((A,), file=Layout(encoding="latin-1")))


def test_files_in_utf8_are_read_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    (tmp_path / "x.csv").write_text("a\né\n", encoding="utf-8")
    for encoding in ("utf-8", "UTF8", "utf_8_sig"):
        table = Table.read(tmp_path / "x.csv", Schema((A,), file=Layout(encoding=encoding)))
        assert table.codes("a").tolist() == [1]


@pytest.mark.long
# -- schemas, drafts and rows that are written ---------------------------------------------------
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-32-be"])
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv"])
def test_rows_are_written_as_they_are_read(encoding, suffix, tmp_path):
    schema = Schema((A,), file=Layout(encoding=encoding), keys=("größe",))
    table = Table.read({"a": ["é", None, "x"] * 40_000}, schema)
    path = tmp_path / f"x{suffix}"
    check_holds(path, schema)
    write_blocks([path], [(0, table.to_arrow())] * 2, schema=schema)
    content = path.read_bytes()
    content = gzip.decompress(content) if suffix == ".csv.gz" else content
    assert content.decode(encoding).count("é") == 80_000
    again = Table.read(path, schema)
    assert again.codes("a").tolist() == table.codes("a").tolist() * 2


def test_level_without_a_form_in_the_encoding_is_refused_before_a_fit(tmp_path):
    euro = Categorical(name="a", levels=("x", "€"), labels=(("x", "ſ"),))
    schema = Schema((euro,), file=Layout(encoding="latin-1"))
    with refuses(OutputError, "the encoding 'latin-1' cannot represent"):
        check_holds(tmp_path / "x.csv", schema)
    check_holds(tmp_path / "x.parquet", schema)
    latin = Schema((Categorical(name="a", levels=("x",), labels=(("x", "ſ"),)),), file=schema.file)
    check_holds(tmp_path / "x.csv", latin)
    with refuses(OutputError, "cannot represent"):
        check_holds(tmp_path / "x.csv", latin, "labels")
    table = Table.read({"a": ["€"]}, schema)
    with refuses(OutputError, "cannot represent") as found:
        write_blocks([tmp_path / "x.csv"], [(0, table.to_arrow())], schema=schema)
    assert "€" not in str(found.value)
    assert not list(tmp_path.iterdir())


def test_schema_draft_reads_the_encoding_that_is_stated(tmp_path, capsys):
    path, toml = tmp_path / "x.csv", tmp_path / "s.toml"
    path.write_text("größe;ja\n" + "1,5;é\n2,5;x\n" * 40, encoding="cp1252")
    assert main(["schema", "init", str(path), "-o", str(toml)]) == 3
    assert "line 1 is not UTF-8. State the encoding" in capsys.readouterr().err
    command = ["schema", "init", str(path), "-o", str(toml), "--encoding"]
    assert main([*command, "cp1252"]) == 0
    schema = Schema.from_toml(toml)
    assert (schema.names, schema.file.encoding) == (("größe", "ja"), "cp1252")
    assert schema["ja"].levels == ("x", "é")
    assert main([*command, "utf-7", "--overwrite"]) == 3
    numbered = draft_columns(path, header=False, encoding="cp1252").facts.file
    assert numbered == Layout(encoding="cp1252", header=("column1", "column2"), delimiter=";")
    with refuses(DataError, "only text files"):
        draft_columns({"a": ["x"]}, encoding="latin-1")
    capsys.readouterr()
    assert main(["schema", "check", str(toml), str(path)]) == 3  # the draft has marks
    assert "The data fits, but" in capsys.readouterr().out


def test_numbers_in_another_encoding_have_their_marks(tmp_path):
    pay = Numeric(name="pay", lower=0, upper=9999)
    layout = Layout(encoding="cp1252", decimal=",", thousands="\u00a0")
    (tmp_path / "x.csv").write_text("pay;b\n1\u00a0234,5;é\n", encoding="cp1252")
    rows = Rows.of(tmp_path / "x.csv")
    table = Table.read(rows, Schema((pay,), file=layout, ignore=("b",)))
    assert table.values("pay").tolist() == [1234.5]


def test_every_encoding_of_python_that_can_be_read_decodes_in_chunks():
    for name in (*_encodings(), *WIDE):
        decoder = codecs.getincrementaldecoder(name)()
        decoder.setstate(decoder.getstate())
        assert "".join(map(decoder.decode, [b"a"[:0], *("ab\n".encode(name),)])) == "ab\n"
        assert codecs.getincrementalencoder(name)().encode("a\n")
