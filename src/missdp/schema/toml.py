"""TOML in and out."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from missdp.errors import SchemaError, replacing
from missdp.files import write_atomically

__all__ = ["dump_toml", "load_toml"]

_PLACE = re.compile(r" \(at .*\)$")
_MARKS = re.compile(r"^undeclared = \[\n[^\]]*\]", re.MULTILINE)
_HEADER = """\
# missdp schema: public facts about the columns of a table.
# Every fact here enters released output. A name in `undeclared` marks a fact that was read from
# the private data: check it, replace it by what is publicly known, then delete the mark.

"""


def load_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file."""

    def unreadable(error: BaseException) -> SchemaError:
        reason = getattr(error, "strerror", None) or "it is not a readable file"
        return SchemaError(f"cannot read the schema {str(path)!r}: {reason}")

    def malformed(error: BaseException) -> SchemaError:
        # The place only: the reason may quote a character of what is perhaps no schema at all.
        place = _PLACE.search(str(error))
        return SchemaError(f"{str(path)!r} is not a TOML file{place[0] if place else ''}")

    with (
        replacing(tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, by=malformed),
        replacing(OSError, by=unreadable),
    ):
        return tomllib.loads(path.read_text(encoding="utf-8"))


def dump_toml(document: Mapping[str, Any], path: Path, *, notes: str = "") -> None:
    """Write a TOML file, whole or not at all; ``notes`` are comment lines that go last."""
    text = _MARKS.sub(_on_one_line, tomli_w.dumps(document))
    write_atomically(path, (_HEADER + text + notes).encode("utf-8"))


def _on_one_line(marks: re.Match[str]) -> str:
    """Write the marks of an attribute as one line, which a person can delete whole."""
    items = (line.strip() for line in marks[0].splitlines())
    return " ".join(items).replace("[ ", "[").replace(", ]", "]")
