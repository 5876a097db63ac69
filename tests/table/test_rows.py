"""Rows come from every place in one way. A file is opened by its name once."""

import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from missdp import Categorical, DateTime, Numeric, Schema, Table
from missdp.cli.main import main
from missdp.schema import Layout
from missdp.table import Rows, read_files
from missdp.table.cells import UNREADABLE, canonical_cell, to_arrow_array
from missdp.table.encode import Encoder

SCHEMA = Schema(
    (
        Categorical(name="a", levels=("x", "y"), nullable=True),
        Numeric(name="b", lower=0, upper=10, bins=5, nullable=True),
    )
)


@pytest.fixture
def opened(monkeypatch):
    """Return the names of files that are opened to be read.

    Each file loses its name when it is opened.
    """
    paths, real = [], read_files._OpenFile

    def once(path, *mode):
        file = real(path, *mode)
        if not mode:
            paths.append(os.path.basename(path))
            os.remove(path)
        return file

    monkeypatch.setattr(read_files, "_OpenFile", once)
    return paths


def write(path):
    rng = np.random.default_rng(0)
    levels = rng.choice(np.array(["x", "y", None]), 500)
    frame = pd.DataFrame({"a": levels, "b": np.arange(500) % 9})
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return frame


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.tsv", "rows.parquet"])
def test_all_passes_read_the_file_opened_once(tmp_path, opened, name):
    if name.endswith("tsv"):
        (tmp_path / name).write_text("a\tb\n" + "x\t1\n" * 500)
    else:
        write(tmp_path / name)
    rows = Rows.of(tmp_path / name)
    assert rows.names == ("a", "b")
    assert rows.approximate_length() == (500 if name == "rows.parquet" else 501)
    first, again = (Table.read(rows, SCHEMA).to_arrow() for _ in range(2))
    assert first == again
    assert len(first) == 500
    assert opened == [name]


def test_synthesize_opens_a_csv_file_once(tmp_path, opened, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv")
    SCHEMA.to_toml("s.toml")
    command = "synthesize rows.csv --schema s.toml --epsilon 1 -o out.csv --rows 20"
    assert main([*command.split(), "--method", "privbayes"]) == 0
    assert opened == ["rows.csv"]
    assert len(pd.read_csv("out.csv")) == 20


def test_file_in_another_layout_is_the_same_open_file(tmp_path, opened):
    (tmp_path / "x.csv").write_text("a;b\nx;1,5\n", "latin-1")
    rows = Rows.of(tmp_path / "x.csv")
    assert rows.names == ("a", "b")
    schema = Schema(SCHEMA.attributes, file=Layout(decimal=",", encoding="latin-1"))
    assert Table.read(rows, schema).values("b").tolist() == [1.5]
    assert opened == ["x.csv"]


CANONICAL = {
    "7": [7, 7.0, np.int8(7), np.float32(7), pa.scalar(7).as_py()],
    "true": [True, np.bool_(True)],
    "2020-01-01": [pd.Timestamp("2020-01-01"), np.datetime64("2020-01-01T00")],
    "9007199254740993": [2**53 + 1],
}


@pytest.mark.parametrize("text", CANONICAL)
def test_equal_values_of_any_type_have_one_text(text):
    assert {canonical_cell(cell) for cell in CANONICAL[text]} == {(text, True)}
    assert canonical_cell(text) == canonical_cell(text.encode()) == (text, False)


def test_cells_without_text_are_unreadable_or_missing():
    assert {canonical_cell(cell) for cell in ([1], object(), "x" * 4097, 1j)} == {UNREADABLE}
    assert {canonical_cell(cell) for cell in (None, pd.NA, pd.NaT, float("nan"))} == {None}


def test_typed_value_is_no_text_code():
    kinds = {"nullable": True, "outside": "missing"}
    flag = Categorical(name="c", levels=("a",), refused=("true", "1e3"), **kinds)
    cells = [True, "true", 1000, "1e3", "a"]
    codes = Encoder(flag).encode(to_arrow_array(cells)).codes.tolist()
    assert codes == [Encoder(flag).encode(to_arrow_array([cell])).codes[0] for cell in cells]
    assert codes == [1, 2, 2, 2, 0]


def test_code_of_a_date_does_not_depend_on_cells_beside_it():
    facts = {"lower": "2020-01-01T00:00", "upper": "2020-12-31T00:00", "timezone": "UTC"}
    seen = DateTime(name="t", nullable=True, outside="missing", refused=("9999-12-31",), **facts)
    day = pd.Timestamp("9999-12-31").date()
    for cells in ([day], [day, None], [day, "2020-02-02T00:00Z"], [day, 7]):
        assert Encoder(seen).encode(to_arrow_array(cells)).codes[0] == seen.size + 1
