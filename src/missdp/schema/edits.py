"""Edits of the text of a schema file, which keep its comments and all lines that stay true.

`missdp schema set` and the page of `missdp app` edit files with this module.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import tomli_w

from missdp.errors import SchemaError, import_optional, replacing
from missdp.schema.attributes import CODE_FIELDS, read_number
from missdp.schema.schema import READ_BOUNDS, Schema, read_toml

PUBLIC = "# Public because: "
"""The beginning of the comment that states why the facts of a column are public."""
WHOLE_TABLES = ("unit", "weight", "file")
"""Tables with facts about all rows. Each of them occurs at most once."""
NO_CODE = "(no code)"
"""The text of an empty list of codes: a kind of missing that may occur and has no code."""
_UNREAD = ("key", "ignore")  # kinds without facts
_ALWAYS = ("nullable", "integer")  # facts whose absence is a fact, too
_TEXTS = ("label", "format", "units")  # facts that are text, even if it is written like a number
_HEADER = re.compile(
    r"((?:^#.*\n)*)(^\[\[?(attribute|rule|unit|weight|file)\]\]?[ \t]*(?:#.*)?\n)", re.MULTILINE
)
_TAIL = re.compile(r"(?:^[ \t]*(?:#.*)?\n)*\Z", re.MULTILINE)
_DRAFTED = re.compile(r"^# column .*\n(?:^#.*\n)*", re.MULTILINE)  # a private note of a draft


@dataclass(frozen=True)
class FileTable:
    """A table of a schema file: the comments above it, its header and facts, and lines below."""

    comments: str
    table: str
    text: str
    tail: str

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The fields of the table."""
        stored = read_toml(self.text.encode("utf-8"), "the schema", SchemaError)[self.table]
        return dict(stored[0] if isinstance(stored, list) else stored)

    @property
    def name(self) -> str:
        """The name of the column, or the header of a table about all rows."""
        return str(self.facts.get("name", self.facts.get("column", f"[{self.table}]")))

    @property
    def kind(self) -> str:
        """The kind of the column: a kind of attribute, ``open``, or the name of the table."""
        is_open = self.facts.get("levels") == "open"
        return "open" if is_open else str(self.facts.get("kind", self.table))

    @property
    def marks(self) -> list[str]:
        """The facts that were read from the data and are not declared public."""
        return list(self.facts.get("undeclared", ()))

    @property
    def public(self) -> str:
        """The reason why the facts are public, or an empty text."""
        return "".join(re.findall(f"(?m)^{PUBLIC}(.*)", self.comments)[:1])

    @property
    def reasons(self) -> list[str]:
        """The other comments above the table, such as the reasons of a draft."""
        return re.findall(f"(?m)^(?!{PUBLIC})# (.*)", self.comments)

    @property
    def further(self) -> dict[str, Any]:
        """The facts without the name, the kind, the marks, and open levels."""
        left_out = ["name", "column", "kind", "undeclared", *["levels"] * (self.kind == "open")]
        return {name: fact for name, fact in self.facts.items() if name not in left_out}

    def changed(self, kind: str, facts: Mapping[str, Any], reason: str) -> FileTable:
        """Return the table with another kind, other facts, or another reason.

        Facts of a table with marks stay marked, also under another kind, until a reason is stated.

        Parameters
        ----------
        kind : str
            The kind, as in the property `kind`.
        facts : mapping of str to TOML value
            All facts, as in the property `further`.
        reason : str
            The reason why the facts are public. An empty text is no reason.

        Returns
        -------
        FileTable
            The table with the lines of equal facts, and with its comments.
        """
        table = kind if kind in WHOLE_TABLES else "attribute"
        complete = {"column" if kind in ("unit", "weight") else "name": self.name}
        complete |= {} if table == kind else {"kind": "categorical" if kind == "open" else kind}
        complete |= {"levels": "open"} if kind == "open" else {}
        complete = {} if kind == "file" else complete
        reason = " ".join(reason.split())
        if self.marks and kind in ("unit", "weight") and not reason:
            raise SchemaError(
                f"{self.name}: a {kind} has no marks of facts that were read from the data. State "
                "why its facts are public"
            )
        text, comments, marks = self.text, self.comments, self._marks(kind, facts)
        if reason != self.public:
            # The comments above a table with marks are those of the draft, which are private.
            comments = "" if self.marks else re.sub(f"(?m)^{PUBLIC}.*\n", "", comments)
            comments += f"{PUBLIC}{reason}\n" if reason else ""
            if reason:
                text, marks = text.replace(f"{READ_BOUNDS}\n", ""), {}
        if table == self.table:
            text = _with_facts(text, table, {**complete, **facts, **marks})
        else:
            header = "[[attribute]]" if table == "attribute" else f"[{table}]"
            text = f"{header}\n{tomli_w.dumps({**complete, **facts, **marks})}"
        return replace(self, comments=comments, table=table, text=text)

    def words_from(self, old: FileTable) -> list[str]:
        """Return the words of ``missdp schema set`` that change another table to this table."""
        facts = dict.fromkeys(old.further) | self.further
        facts = {name: fact for name, fact in facts.items() if fact != old.further.get(name)}
        words = [f"kind={self.kind}"] * (self.kind != old.kind)
        for name, fact in facts.items():
            value = "" if fact is None else tomli_w.dumps({"x": fact}).removeprefix("x = ").strip()
            words.append(f"{name}={value}")
        words += ["--public", self.public] if self.public != old.public else []
        return [self.name, *words] if words else []

    def _marks(self, kind: str, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the field with the marks of other facts."""
        marks = self.marks
        if marks and kind in _UNREAD:
            marks = ["kind"]
        elif marks and kind != self.kind:  # the new facts were chosen with the data in view
            marks = ["levels"] * (kind == "open") + [*facts, "nullable"]
        else:
            marks = [m for m in marks if m in facts or m in _ALWAYS or m == "levels"]
            marks += [m for m in facts if marks and facts[m] != self.further.get(m)]
            # A removed fact may return in a later edit, which then needs a reason.
            marks = marks or ["nullable"] * bool(self.marks)
        in_table = {"undeclared": list(dict.fromkeys(marks))}
        return in_table if marks and kind not in ("unit", "weight") else {}


@dataclass(frozen=True)
class SchemaText:
    """The text of a schema file, and its parts. An empty text is no schema.

    Parameters
    ----------
    toml : str
        The text.
    name : str, default "schema.toml"
        The name of the file in messages.
    """

    toml: str
    name: str = "schema.toml"

    @classmethod
    def of_file(cls, path: Path) -> SchemaText:
        """Return the text of a file. SchemaError is raised for a file that cannot be read."""
        unreadable = SchemaError(f"cannot read {str(path)!r}. Check the path.")
        with replacing(OSError, ValueError, by=unreadable):
            return cls(path.read_text(encoding="utf-8-sig"), str(path))

    @cached_property
    def checked(self) -> tuple[Schema, list[str]]:
        """The schema, and its warnings. SchemaError is raised for a text that is no schema."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            schema = Schema.from_toml_text(self.toml, name=self.name)
        return schema, [str(one.message) for one in caught]

    @cached_property
    def tables(self) -> list[FileTable]:
        """The tables of the file, in their order."""
        _, *parts = _HEADER.split(self.toml)
        tables = []
        for comments, header, table, body in zip(*(parts[k::4] for k in range(4)), strict=True):
            place = len(body) if (tail := _TAIL.search(body)) is None else tail.start()
            tables.append(FileTable(comments, table, header + body[:place], body[place:]))
        return tables

    def with_tables(self, tables: Mapping[int, FileTable | None]) -> SchemaText:
        """Return the text with some other tables.

        Once no fact is marked, private notes at the end of a draft are left out.

        Parameters
        ----------
        tables : mapping of int to FileTable or None
            The tables by their places. None removes a table.

        Returns
        -------
        SchemaText
            The text, which is not checked.
        """
        text = _HEADER.split(self.toml)[0]
        for place, old in enumerate(self.tables):
            new = tables.get(place, old)
            text += ("" if new is None else new.comments + new.text) + old.tail
        is_draft = any(table.marks for table in SchemaText(text).tables)
        return replace(self, toml=text if is_draft else _DRAFTED.sub("", text))

    def with_rule(self, rule: Mapping[str, Any]) -> SchemaText:
        """Return the text with one more rule, which is not checked."""
        return replace(self, toml=f"{self.toml.rstrip()}\n\n[[rule]]\n{tomli_w.dumps(rule)}")


def fact_of_text(name: str, text: str, kind: str = "") -> Any:
    r"""Return the value of a fact that is typed without the quotes and brackets of the file.

    Possible values have one line each. Codes of missing values have commas between them. Numbers
    become numbers, except in text such as a description.

    Parameters
    ----------
    name : str
        The name of the fact, such as ``lower`` or ``levels``.
    text : str
        The typed text.
    kind : str, default ""
        The kind of the column. The bounds of dates are text.

    Returns
    -------
    TOML value or None
        The value. None removes the fact, for an empty text and for ``false``.

    Examples
    --------
    >>> from missdp.schema.edits import fact_of_text
    >>> fact_of_text("lower", "0.5"), fact_of_text("missing_codes", "999, x")
    (0.5, [999, 'x'])
    >>> fact_of_text("levels", "1\n2"), fact_of_text("levels", "01\n02")
    ([1, 2], ['01', '02'])
    """
    if not text:
        return None
    if name in _ALWAYS:
        return {"true": True, "false": None}.get(text, text)
    if name in CODE_FIELDS.values():
        codes = (code.strip() for code in text.split(","))
        return [_number_of_text(code) for code in codes if code not in ("", NO_CODE)]
    if name == "levels":
        levels = [level.strip() for level in text.split("\n") if level.strip()]
        if {*levels} == {"true", "false"}:
            return [level == "true" for level in levels]
        is_integer = all(re.fullmatch("-?(0|[1-9][0-9]{0,14})", level) for level in levels)
        return [int(level) for level in levels] if is_integer else levels
    is_text = name in _TEXTS or kind in ("date", "datetime")
    return text if is_text else _number_of_text(text)


def _number_of_text(text: str) -> Any:
    """Return a number if a text is written like one, else the text."""
    number = read_number(text)
    if number is None or not abs(number) < 2**53:
        return text
    return int(number) if number.is_integer() else number


def _with_facts(text: str, table: str, facts: Mapping[str, Any]) -> str:
    """Return the text of a table with other facts. Lines of equal facts and comments stay."""
    tomlkit = import_optional("tomlkit", purpose="edits of schema files")
    document = tomlkit.parse(text)
    fields = document[table] if table in WHOLE_TABLES else document[table][0]
    stored = fields.unwrap()
    for name in stored.keys() - facts.keys():
        del fields[name]
    for name, fact in facts.items():
        if name not in stored or stored[name] != fact:
            fields[name] = fact
    return str(tomlkit.dumps(document))
