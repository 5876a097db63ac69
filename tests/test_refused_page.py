"""docs/refused.md quotes the messages that are really raised, and the messages keep silent."""

import inspect
import re
from pathlib import Path

import pytest

from missdp.errors import MissDPError
from refusals_met import CASES

PAGE = (Path(__file__).parents[1] / "docs" / "refused.md").read_text(encoding="utf-8")
STARTS = re.findall(r"^\| `(.*?)` \| [^|]* \| [^|]* \|$", PAGE, re.MULTILINE)[: len(CASES)]
CELLS = ("140", "female", "Ann", "\xe9")  # of private rows, in the cases


@pytest.mark.filterwarnings("ignore::missdp.errors.MissDPWarning")
@pytest.mark.parametrize(("start", "case"), [*zip(STARTS, CASES, strict=True)], ids=STARTS)
def test_the_message_is_as_the_page_has_it(start, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissDPError) as raised:
        case()
    message = str(raised.value)
    assert message.startswith(start), inspect.getsource(case)
    assert not any(cell in message for cell in CELLS)
    assert "\n" not in message
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None


def test_the_page_has_no_other_messages():
    tables = PAGE.split("## Warnings")[0]
    assert len(re.findall(r"^\| `", tables, re.MULTILINE)) == len(CASES)
