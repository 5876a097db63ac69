"""The text of a schema file as rows of a form: one row for each column, and back.

The text is the only state. An edit on the page and an edit in the file are therefore equal. Reasons
and declarations stand in the comments above the block of a column.
"""

from __future__ import annotations

import re
import tomllib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from missdp.errors import SchemaError
from missdp.schema import Schema
from missdp.schema.attributes import read_number
from missdp.schema.schema import read_toml

PUBLIC = "Public because: "
"""The beginning of the comment that states why the facts of a column are public."""
FILE_ROW = "[file]"
_CODES = ("missing_codes", "refused", "unknown", "not_asked", "not_applicable")
_EMPTY = "(no code)"  # a kind of missing that may occur and has no code
_COMMON = ("nullable", *_CODES, "outside", "label")
_FACTS: dict[str, tuple[str, ...]] = {
    "categorical": ("levels", *_COMMON),
    "ordinal": ("levels", *_COMMON),
    "open": ("max_levels", "other", "nullable", *_CODES, "label"),
    "numeric": ("lower", "upper", "integer", "step", *_COMMON),
    "date": ("lower", "upper", "format", *_COMMON),
    "datetime": ("lower", "upper", "format", *_COMMON),
    "difference": ("earlier", "later", "lower", "upper", "unit", "outside", "label"),
    "key": (),
    "ignore": (),
    "unit": ("max_rows", "if_missing", "counts_as"),
    "weight": ("upper", "default"),
    "file": ("delimiter", "encoding", "decimal", "thousands"),
}
"""The facts that the form of each kind of row has. Other facts are edited as text."""
_ADVICE = {
    "To protect all rows of a unit": "If a person has several rows, choose the identifier of a "
    "person below. All rows of a person are then protected together.",
    "If this column has survey weights": "If it has survey weights, choose that below.",
}
_TABLES = ("unit", "weight", "file")
_BLOCK = re.compile(r"((?:^# .*\n)+)\[\[attribute\]\]\n(name = .*\n)", re.MULTILINE)
_NOTES = re.compile(r"(?:^#.*\n|^\n)*\Z", re.MULTILINE)
_DRAFTED = re.compile(r"^# column .*\n(?:^#.*\n)*", re.MULTILINE)  # a private note of a draft


@dataclass(frozen=True)
class Row:
    """A column in the form: its kind, its facts, its marks and its comments."""

    name: str
    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    marks: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()

    @property
    def public(self) -> str:
        """The reason why the facts are public, or an empty text."""
        reasons = (line for line in self.comments if line.startswith(PUBLIC))
        return next(reasons, "").removeprefix(PUBLIC)

    @property
    def reasons(self) -> list[str]:
        """The reasons of the draft."""
        lines = [line for line in self.comments if not line.startswith(PUBLIC)]
        for begins, advice in _ADVICE.items():  # drafts advise to edit the file
            lines = [re.sub(f"{begins}.*", advice, line) for line in lines]
        return lines

    def text(self, name: str) -> str:
        """Return a fact as the form shows it."""
        value = self.facts.get(name)
        if isinstance(value, list):
            between = "\n" if name == "levels" else ", "
            return between.join(map(_shown, value)) if value or name == "levels" else _EMPTY
        return "" if value is None else _shown(value)


def facts_of(kind: str) -> tuple[str, ...]:
    """Return the facts in the form of a kind of row."""
    return _FACTS.get(kind, ())


@dataclass(frozen=True)
class SchemaRows:
    """The text of a schema file, and its parts."""

    toml: str
    name: str = "schema.toml"

    @cached_property
    def tables(self) -> dict[str, Any]:
        """The tables of the file."""
        return read_toml(self.toml.encode("utf-8"), self.name, SchemaError)

    @cached_property
    def checked(self) -> tuple[Schema, tuple[str, ...]]:
        """The schema, and its warnings."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            schema = Schema.from_toml_text(self.toml, name=self.name)
        return schema, tuple(str(one.message) for one in caught)

    @property
    def schema(self) -> Schema:
        """The schema. SchemaError is raised for a text that is not a schema."""
        return self.checked[0]

    @cached_property
    def rows(self) -> list[Row]:
        """The rows of the form: columns, then the facts about all rows."""
        comments = {
            tomllib.loads(block[2])["name"]: tuple(line[2:] for line in block[1].splitlines())
            for block in _BLOCK.finditer(self.toml)
        }
        rows = []
        for table in self.tables.get("attribute", []):
            facts = {key: value for key, value in table.items() if key not in ("name", "kind")}
            marks = tuple(facts.pop("undeclared", ()))
            kind = "open" if facts.get("levels") == "open" else table.get("kind", "")
            rows.append(Row(table["name"], kind, facts, marks, comments.get(table["name"], ())))
        rows += [Row(name, "ignore") for name in self.tables.get("ignore", ())]
        for kind in _TABLES:
            if kind in self.tables:
                facts = dict(self.tables[kind])
                name, marks = facts.pop("column", FILE_ROW), tuple(facts.pop("undeclared", ()))
                rows.append(Row(name, kind, facts, marks))
        return rows

    def with_row(self, name: str, form: Mapping[str, str]) -> SchemaRows:
        """Return the file with the facts of a form in place of the facts of one row."""
        rows = [_edited(row, form) if row.name == name else row for row in self.rows]
        return self._with(rows)

    def all_public(self, reason: str) -> SchemaRows:
        """Return the file with one reason for every row that has marks."""
        rows = [_declared(row, reason) if row.marks else row for row in self.rows]
        return self._with(rows)

    def with_rule(self, rule: Mapping[str, Any]) -> SchemaRows:
        """Return the file with one more rule."""
        return self._with(self.rows, [*self.tables.get("rule", []), rule])

    def without_rule(self, place: int) -> SchemaRows:
        """Return the file without a rule."""
        rules = self.tables.get("rule", [])
        return self._with(self.rows, rules[:place] + rules[place + 1 :])

    def _with(self, rows: list[Row], rules: list[Any] | None = None) -> SchemaRows:
        """Return the file with other rows, and with other rules if they are passed."""
        tables: dict[str, Any] = {k: v for k, v in self.tables.items() if k in ("format", "ledger")}
        tables["attribute"] = [
            {"name": row.name, "kind": row.kind, **row.facts, **_mark(row)}
            for row in rows
            if row.kind not in _TABLES
        ]
        for row in rows:
            if row.kind in _TABLES:
                column = {} if row.kind == "file" else {"column": row.name}
                tables[row.kind] = {**column, **row.facts, **_mark(row)}
        tables["rule"] = self.tables.get("rule", []) if rules is None else rules
        notes = _NOTES.search(self.toml)
        text = notes[0] if notes else ""
        if not any(row.marks for row in rows):
            text = _DRAFTED.sub("", text)
        comments = {row.name: row.comments for row in rows}
        written = Schema.from_dict(tables).toml_text(comments=comments, notes=text)
        return SchemaRows(written, self.name)


def _mark(row: Row) -> dict[str, list[str]]:
    """Return the marks of a row as a field of its table."""
    return {"undeclared": [*row.marks]} if row.marks else {}


def _edited(row: Row, form: Mapping[str, str]) -> Row:
    """Return a row with the facts of a form."""
    kind = form.get("kind", row.kind)
    names, facts = facts_of(kind), dict(row.facts)
    if kind != row.kind:  # facts of the former kind do not fit
        facts = {name: facts[name] for name in names if name in facts and name in _COMMON}
    for name in names:
        text = form.get(name, "").replace("\r\n", "\n").strip()
        if text == row.text(name) and kind == row.kind:
            continue
        value = _read(name, text, kind)
        facts.pop(name, None)
        if value is not None:
            facts[name] = value
    marks = tuple(mark for mark in row.marks if mark in facts)
    if kind in ("key", "ignore"):
        marks = ("kind",) * bool(row.marks)
    elif kind in _TABLES[:2]:
        marks = ()
    elif kind != row.kind and row.marks:  # the new facts were chosen with the data in view
        marks = tuple(name for name in names if name in facts)
    changed = Row(row.name, kind, facts, marks, row.comments)
    reason = " ".join(form.get("public", "").split())
    return _declared(changed, reason) if reason else changed


def _declared(row: Row, reason: str) -> Row:
    """Return a row without marks, with the reason why its facts are public."""
    return Row(row.name, row.kind, row.facts, (), (f"{PUBLIC}{reason}",))


def _shown(value: Any) -> str:
    """Return a value of a TOML file as the form shows it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def _read(name: str, text: str, kind: str) -> Any:
    """Return the value of a text of the form, or None if the fact is left out."""
    if name == "levels":
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        if {*map(str.lower, lines)} == {"true", "false"}:
            return [line.lower() == "true" for line in lines]
        integers = all(re.fullmatch("-?(0|[1-9][0-9]{0,14})", line) for line in lines)
        return [int(line) for line in lines] if integers and lines else lines
    if name in ("integer", "nullable"):
        return text == "true" or None
    if name in _CODES:
        codes = [part.strip() for part in text.split(",") if part.strip()]
        return [] if text == _EMPTY else [_number(code) for code in codes] or None
    is_text = kind in ("date", "datetime", "file") or name in ("label", "format", "other")
    return (text if is_text else _number(text)) if text else None


def _number(text: str) -> Any:
    """Return a number if a text is written like one, else the text."""
    number = read_number(text)
    if number is None or not abs(number) < 2**53:
        return text
    return int(number) if number.is_integer() else number
