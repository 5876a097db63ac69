"""Numbers that are not read as numbers: drafts say how they are written, checks that none is."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

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


TOGETHER = [
    (["1,234", "950"], f"{GROUPS} or {COMMA}"),
    (["1,234", "1,234,567"], GROUPS),
    (["1,234", "0,5"], COMMA),
    (["0,123"], COMMA),
    (["1'000", "-2"], GROUPS),
    (["1.234.567", "1.5"], GROUPS),
    *(
        ([*texts], None)
        for texts in (["1,2,3", "1,2"], ["yes", "1,5"], ["1", "2.5"], ["%", "5"], [])
    ),
]


@pytest.mark.parametrize(("texts", "said"), TOGETHER)
def test_all_cells_tell_together_what_a_comma_means(texts: list[str], said: str | None) -> None:
    found = number_style(texts, every=True)
    assert (found or "None: ").removeprefix("looks like numbers with ").startswith(f"{said}: ")


def schema(**pay: object) -> None:
    sex = Categorical(name="sex", levels=("0", "1"), nullable=True, outside="missing")
    group = Categorical(name="group", levels=tuple("01234"))
    Schema((Numeric(name="pay", lower=0, upper=10**5, **pay), sex, group)).to_toml("s.toml")


def test_the_draft_command_prints_and_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    many = "".join(f'"{a:,.2f}"\n' for a in AMOUNTS)
    for k, rows in enumerate((many, '"1,500.00"\n"2,000.00"\n')):
        Path("rows.csv").write_text("pay\n" + rows)
        assert main(["schema", "draft", "rows.csv", "-o", f"{k}.toml"]) == 0
        said = f"column 'pay' looks like numbers with {GROUPS}: write"
        out = capsys.readouterr().out
        assert said in out
        assert ("that occur in the rows, which is hardly right" in out) == (k == 1)
        assert f"# {said}" in Path(f"{k}.toml").read_text()
    assert Schema.from_toml("1.toml")["pay"].levels == ("1,500.00", "2,000.00")


ODD = "".join(f'"{a:,.2f}",{k % 2},{k % 5}\n' for k, a in enumerate(AMOUNTS))
NOTHING = "no cell of these is in its declared domain: pay."
STYLES = "separators, decimal commas or signs: pay.\n(For the curator only"
UNREAD = "neither short text in UTF-8, numbers nor true/false: pay, sex.\n(For the curator only"
CASES = [
    (ODD, (NOTHING, STYLES)),
    (ODD + "5,0,1\n", (STYLES,)),  # one value is enough, but most are lost
    ("", ()),
    ("5,,1\nx,0,0\n", ()),
    ("5,0,1\n6,ü,1\nü,1,0\n", ()),
    (b"5,0,1\n6,\xfc,1\n\xfc,1,0\n", (UNREAD,)),
    ('"9,9",0,1\n5,1,1\n', ()),  # a code that is declared
]


@pytest.mark.parametrize("pay", [{"outside": "missing", "nullable": True}, {"outside": "clamp"}])
@pytest.mark.parametrize(("rows", "told"), CASES)
def test_the_check_tells_the_curator_of_cells_that_cannot_be_read(
    tmp_path: Path, monkeypatch: Any, capsys: Any, pay: dict[str, Any], rows: Any, told: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    if rows is CASES[-1][0]:
        pay = {"outside": "missing", "nullable": True, "missing_codes": ("9,9",)}
    schema(**pay)
    content = rows if isinstance(rows, bytes) else rows.encode()
    Path("rows.csv").write_bytes(b"pay,sex,group\n" + content)
    assert main(["schema", "check", "s.toml", "rows.csv"]) == 0
    out = capsys.readouterr().out
    assert [said for said in (NOTHING, STYLES, UNREAD) if said in out] == list(told)
    assert told or "But" not in out
    assert main(["schema", "check", "s.toml", "rows.csv", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.get("without_values") == (["pay"] if NOTHING in told else None)
    assert document.get("other_styles") == (["pay"] if STYLES in told else None)
