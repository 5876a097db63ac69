"""Numbers that are not read as numbers: drafts say how they are written, checks that none is."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pandas as pd
import pytest

from missdp import Categorical, Numeric, Schema
from missdp.cli.main import main
from missdp.table import draft_columns
from missdp.table.tally import number_style

rng = random.Random(0)
AMOUNTS = [round(rng.uniform(1000, 90_000), 2) for _ in range(178)]
GROUPS, COMMA, SIGN = "thousands separators", "a decimal comma", "a currency or percent sign"
"""What is said to be odd."""


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{:,.2f}", GROUPS),
        ("{:,.0f}", f"{GROUPS} or {COMMA}"),
        ("{:_.1f}", GROUPS),
        ("${:,.2f}", f"{GROUPS} and {SIGN}"),
        ("{:.2f} €", SIGN),
        ("{:.3f}%", SIGN),
        ("EUR {:.2f}", SIGN),
        ("{:.2f}", None),
        ("p{:,.2f}", None),
    ],
)
def test_a_draft_says_how_numbers_are_written(written: str, said: str | None) -> None:
    cells = [written.format(amount) for amount in AMOUNTS]
    many = draft_columns(pd.DataFrame({"pay": [*cells, "refused", "N/A", ""]}))
    few = draft_columns(pd.DataFrame({"pay": cells[:9] * 5}))
    assert few.stubs == {}
    assert [a.name for a in few.attributes] == ["pay"]
    if said is None:
        assert few.doubts == {}
        assert not any("looks like numbers" in why for why in many.stubs.values())
    else:
        assert f"column 'pay' looks like numbers with {said}: write them" in many.stubs["pay"]
        assert f"column 'pay' looks like numbers with {said}: write them" in few.doubts["pay"]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["1,234", "950"], f"{GROUPS} or {COMMA}"),
        (["1,234", "1,234,567"], GROUPS),
        (["1,234", "0,5"], COMMA),
        (["0,123"], COMMA),
        (["1'000", "-2"], GROUPS),
        (["1.234.567", "1.5"], GROUPS),
        (["1,2,3", "1,2"], None),
        (["yes", "1,5"], None),
        (["1", "2.5"], None),
        (["%", "5"], None),
        ([], None),
    ],
)
def test_all_cells_tell_together_what_a_comma_means(texts: list[str], said: str | None) -> None:
    found = number_style(texts, every=True)
    assert (
        (found is None)
        if said is None
        else (found or "").startswith(f"looks like numbers with {said}: ")
    )


@pytest.mark.parametrize(
    "written", ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%y", "%Y-%m-%dT%H:%M:%S", "%d/%m/%Y %I:%M %p"]
)
def test_a_draft_says_that_dates_are_to_be_recoded(written: str) -> None:
    days = pd.date_range("2023-01-30", periods=178, freq="D").strftime(written)
    stubs = draft_columns(pd.DataFrame({"day": [*days, "", "unknown"]})).stubs
    assert stubs["day"].startswith("column 'day' looks like dates: write a year, a month or an age")
    others = draft_columns(pd.DataFrame({"id": [f"{day}x{k}" for k, day in enumerate(days)]}))
    assert "dates" not in others.stubs["id"]
    few = draft_columns(pd.DataFrame({"day": days[:30]}))
    assert (few.stubs, few.doubts, len(few.attributes)) == ({}, stubs, 1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def schema(**pay: object) -> None:
    sex = Categorical(name="sex", levels=("0", "1"), nullable=True, outside="missing")
    group = Categorical(name="group", levels=tuple("01234"))
    Schema((Numeric(name="pay", lower=0, upper=10**5, **pay), sex, group)).to_toml("s.toml")


def test_the_draft_command_prints_and_writes_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "rows.csv").write_text("pay\n" + "".join(f'"{a:,.2f}"\n' for a in AMOUNTS))
    (folder / "few.csv").write_text('pay\n"1,500.00"\n"2,000.00"\n')
    assert main(["schema", "draft", "rows.csv", "-o", "d.toml"]) == 0
    said = f"column 'pay' looks like numbers with {GROUPS}: write"
    assert said in capsys.readouterr().out
    assert main(["schema", "draft", "few.csv", "-o", "few.toml"]) == 0
    assert f"that occur in the rows, which is hardly right:\n  {said}" in capsys.readouterr().out
    assert f"# {said}" in (folder / "few.toml").read_text()
    assert Schema.from_toml(folder / "few.toml")["pay"].levels == ("1,500.00", "2,000.00")


ODD = "".join(f'"{a:,.2f}",{k % 2},{k % 5}\n' for k, a in enumerate(AMOUNTS))
NOTHING = "no cell of these is in its declared domain: pay."
STYLES = "separators, decimal commas or signs: pay.\n(For the curator only"
UNREAD = "neither short text in UTF-8, numbers nor true/false: pay, sex.\n(For the curator only"


@pytest.mark.parametrize("pay", [{"outside": "missing", "nullable": True}, {"outside": "clamp"}])
@pytest.mark.parametrize(
    ("rows", "encoding", "told"),
    [
        (ODD, "utf-8", (NOTHING, STYLES)),
        (ODD + "5,0,1\n", "utf-8", (STYLES,)),  # one value is enough, but most are lost
        ("", "utf-8", ()),
        ("5,,1\nx,0,0\n", "utf-8", ()),
        ("5,0,1\n6,ü,1\nü,1,0\n", "utf-8", ()),
        ("5,0,1\n6,ü,1\nü,1,0\n", "latin-1", (UNREAD,)),
        ('"9,9",0,1\n5,1,1\n', "utf-8", ()),  # a code that is declared
    ],
)
def test_the_check_tells_the_curator_of_cells_that_cannot_be_read(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    pay: dict[str, object],
    rows: str,
    encoding: str,
    told: tuple[str, ...],
) -> None:
    if rows.startswith('"9,9"'):
        pay = {"outside": "missing", "nullable": True, "missing_codes": ("9,9",)}
    schema(**pay)
    (folder / "rows.csv").write_text("pay,sex,group\n" + rows, encoding)
    assert main(["schema", "check", "s.toml", "rows.csv"]) == 0
    out = capsys.readouterr().out
    assert [said for said in (NOTHING, STYLES, UNREAD) if said in out] == list(told)
    assert told or "But" not in out
    assert main(["schema", "check", "s.toml", "rows.csv", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.get("without_values") == (["pay"] if NOTHING in told else None)
    assert document.get("other_styles") == (["pay"] if STYLES in told else None)
