"""Drafts: every table can be read by its own completed draft."""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import os
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from missdp import Schema, Table
from missdp.cli.app import app
from missdp.errors import DataError, OutputError
from missdp.table import draft_columns, draft_schema

D = decimal.Decimal
SECRET = 2**53 + 1234567


def completed(data: Any, folder: Path) -> tuple[Schema | None, Any]:
    """What a person gets who only deletes the marks and drops the columns that are comments."""
    draft = draft_columns(data)
    draft.to_toml(folder / "draft.toml")
    document = tomllib.loads((folder / "draft.toml").read_text(encoding="utf-8"))
    for attribute in document.get("attribute", []):
        assert attribute.pop("undeclared")
    if isinstance(data, Path):
        with open(data, newline="", encoding="utf-8") as lines:
            rows = list(csv.reader(lines))
        keep = [i for i, name in enumerate(rows[0]) if name not in draft.stubs]
        with open(data, "w", newline="", encoding="utf-8") as lines:
            csv.writer(lines).writerows([[row[i] for i in keep] for row in rows])
    else:
        data = data.drop(columns=list(draft.stubs))
    return (Schema.from_dict(document) if document.get("attribute") else None), data


text = st.one_of(
    st.sampled_from(
        ["7", "007", "1.0", "a", " a", "", " ", "?", "NA", "NaN", "nan", "inf", "-Inf"]
    ),
    st.sampled_from(
        ["Refused", "DK", "iap", ".r", ".", "-1", "-7", "-9.0", "97", "99", "999", "1"]
    ),
    st.sampled_from(
        ["True", "true", "FALSE", "2020-01-01", "1e400", "None", "9007199254740993", "."]
    ),
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=4),
)
typed = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(0, 9),
    st.sampled_from([-9, -8.0, -1, 97, 98, 999, "Don't know"]),
    st.floats(),
    st.decimals(),
    st.dates(),
    st.datetimes(),
    st.binary(max_size=3),
    st.sampled_from([[1], "\ud800", pd.NA, pd.NaT, 1j]),
    text,
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    columns=st.integers(0, 3).flatmap(
        lambda n: st.lists(st.lists(text, min_size=n, max_size=n), min_size=1, max_size=4)
    )
)
def test_a_csv_file_is_read_by_its_own_completed_draft(
    columns: list[list[str]], tmp_path: Path
) -> None:
    path = tmp_path / "x.csv"
    with open(path, "w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines)
        writer.writerow([f"c{i}" for i in range(len(columns))])
        writer.writerows(zip(*columns, strict=True))
    schema, data = completed(path, tmp_path)
    if schema is not None:
        Table.read(data, schema)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(cells=st.lists(typed, max_size=5), guessed=st.booleans())
def test_a_frame_is_read_by_its_own_completed_draft(
    cells: list[Any], guessed: bool, tmp_path: Path
) -> None:
    array = np.fromiter(cells, dtype=object, count=len(cells))
    frame = pd.DataFrame({"a": pd.Series(array, dtype=object), "b": ["x"] * len(cells)})
    if guessed and "\ud800" not in [cell for cell in cells if isinstance(cell, str)]:
        frame = frame.infer_objects()
    schema, data = completed(frame, tmp_path)
    if schema is not None:
        Table.read(data, schema)


def test_an_odd_column_becomes_a_comment_and_the_others_are_drafted(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "age": [31, 70, 31],
            "big": [SECRET, 1, 2],
            "odd\nname": [[1], [2], None],
            "none": [None] * 3,
            "born": [dt.date(2020, 1, 1), None, dt.date(1999, 1, 1)],
            "price": [D("0.10"), D("2.5"), None],
            "yes": ["True", "true", "FALSE"],
        }
    )
    draft = draft_columns(frame)
    assert [a.name for a in draft.attributes] == ["age", "born", "price", "yes"]
    assert set(draft.stubs) == {"big", "odd\nname", "none"}
    draft.to_toml(tmp_path / "x.toml")
    written = (tmp_path / "x.toml").read_text()
    again = Schema.from_toml(tmp_path / "x.toml")
    assert again.names == ("age", "born", "price", "yes")
    assert again["born"].levels == ("1999-01-01", "2020-01-01")
    assert again["yes"].levels == (False, True)
    assert (again["price"].lower, again["price"].upper) == (0.1, 2.5)
    assert '# name = "big"' in written
    assert '# name = "odd\\nname"' in written
    assert "\nname" not in written.replace('\nname = "', "")
    assert str(SECRET) not in written
    # Filled in by hand, the comment is an attribute.
    tail = written[written.index('# [[attribute]]\n# name = "none"') :].replace("# ", "")
    assert tomllib.loads(tail.replace("[]", '["x"]'))["attribute"][0]["name"] == "none"


@pytest.mark.parametrize(
    "column",
    [
        pa.array([SECRET, 1]),
        pa.array([D(SECRET), D(1)]),
        pa.array([str(SECRET), "1"]),
        pa.array([dt.time(12, 34, 56)]),
        pa.array([[SECRET]]),
    ],
)
def test_what_cannot_be_drafted_is_typed_and_quotes_nothing(column: pa.Array) -> None:
    for data in (pa.table({"x": column}), pl.from_arrow(pa.table({"x": column}))):
        with pytest.raises(DataError, match="'x'") as caught:
            draft_schema(data)
        error: BaseException | None = caught.value
        assert error is not None
        assert error.__context__ is error.__cause__ is None
        for secret in (str(SECRET), "12:34", "34, 56"):
            assert secret not in str(error)


def test_a_numeric_csv_column_with_nan_is_numeric(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("x\n1.5\nNaN\n2\n")
    draft = draft_schema(tmp_path / "x.csv")
    assert (draft["x"].kind, draft["x"].nullable, draft["x"].missing_codes) == ("numeric", True, ())
    assert Table.read(tmp_path / "x.csv", draft).mask("x").tolist() == [False, True, False]


def test_decimal_commas_are_said_to_be_so() -> None:
    numbers = [f"{i},{i % 7}" for i in range(150)]
    stubs = draft_columns(pd.DataFrame({"size": [*numbers, "refused", ""]})).stubs
    assert "looks like numbers with a decimal comma" in stubs["size"]
    assert (
        "an identifier"
        in draft_columns(
            pd.DataFrame({"id": [*numbers[:40], *map("p{}".format, range(100))]})
        ).stubs["id"]
    )


@pytest.mark.parametrize(
    ("cells", "levels"),
    [
        (["01067", "10115", "", "80331"], ("01067", "10115", "80331")),
        (["00", "1", "2"], ("00", "1", "2")),
        (["0", "10", "0.5"], None),
        (["-01", "12"], None),
    ],
)
def test_codes_that_begin_with_zeros_stay_text(
    cells: list[str], levels: tuple[str, ...] | None, tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["code,other", *(f"{cell},a" for cell in cells * 5)]))
    for data in (path, pd.DataFrame({"code": cells * 5, "other": "a"})):
        drafted = draft_schema(data)["code"]
        assert getattr(drafted, "levels", None) == levels
        table = Table.read(data, Schema((drafted, draft_schema(data)["other"])).declare_public())
        assert levels is None or len(np.unique(table.codes("code"))) == len(cells)


def test_the_command_goes_on_and_writes_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "x.csv").write_text("id,age\n" + "".join(f"p{i},{i}\n" for i in range(200)))
    arguments = ["schema", "draft", str(tmp_path / "x.csv"), "-o", str(tmp_path / "d.toml")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert "column 'id' has more than 100 distinct values" in result.output
    assert Schema.from_toml(tmp_path / "d.toml").names == ("age",)
    before = (tmp_path / "d.toml").read_bytes()

    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OutputError, match="No space left"):
        draft_columns(tmp_path / "x.csv").to_toml(tmp_path / "d.toml")
    assert (tmp_path / "d.toml").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.toml", "x.csv"]
