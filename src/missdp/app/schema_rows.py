"""The text of a schema file as rows of a form: one row for each of its tables, and back.

The text is the only state, so an edit on the page and an edit in the file are equal. An edit
changes the lines of facts that differ. All other lines and comments stay.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import tomli_w

from missdp.errors import ParameterError, SchemaError, import_optional
from missdp.schema import Schema
from missdp.schema.attributes import CODE_FIELDS, read_number
from missdp.schema.schema import READ_BOUNDS, read_toml

Form = Mapping[str, str]
PUBLIC = "# Public because: "
"""The beginning of the comment that states why the facts of a column are public."""
_CODES = tuple(CODE_FIELDS.values())
_COMMON = f"nullable {' '.join(_CODES)} outside label more"
_NUMBERS = 'bins = 20\nspikes = [0, 40]\nedges = [0, 18, 65]\nlabels = {0 = "none"}'
KINDS = {
    "categorical": ("categories without an order", f"levels {_COMMON}", 'labels = {1 = "woman"}'),
    "ordinal": ("categories in an order", f"levels {_COMMON}", 'labels = {1 = "never"}'),
    "numeric": ("numbers", f"lower upper integer {_COMMON}", _NUMBERS),
    "date": ("dates", f"lower upper format {_COMMON}", 'step = "month"'),
    "datetime": ("dates with a time", f"lower upper format {_COMMON}", 'step = "hour"'),
    "open": ("text: the release finds frequent values", f"max_levels {_COMMON}", 'other = "other"'),
    "difference": ("time between two dates", "lower upper more", 'later = "out"\nearlier = "in"'),
    "unit": ("identifier of a person with several rows", "max_rows if_missing counts_as more", ""),
    "weight": ("survey weight", "upper more", "default = 1"),
    "key": ("identifier of a row: never read", "", ""),
    "ignore": ("never read", "", ""),
    "file": ("format of the file", "more", 'decimal = ","'),
}
"""Kinds of tables of a schema: words, the facts in the form, and an example of further facts."""
TICKS = ("integer", "nullable")


class Field(NamedTuple):
    """A field of the form: its label, a hint, and its place and shape."""

    label: str
    hint: str = ""
    first: bool = True
    lines: int = 0
    options: Form | None = None


_OUTSIDE = {"": "stop with an error", "missing": "count as missing", "clamp": "take the nearest bound"}
_NO_ID = {"": "are left out", "refuse": "stop with an error", "own_unit": "are persons of their own"}
FIELDS = {
    "levels": Field("Possible answers, one in a line", lines=4),
    "lower": Field("Smallest possible value", "A public bound, not the smallest cell."),
    "upper": Field("Largest possible value", "A public bound, not the largest cell."),
    "integer": Field("Whole numbers only"),
    "format": Field("Format of dates", "For example: %d.%m.%Y. Empty: 2024-12-31."),
    "max_levels": Field("Largest number of values"),
    "nullable": Field("Cells may be missing"),
    "missing_codes": Field("Codes for missing", "Separate codes by commas."),
    "refused": Field("Codes for refused", "The person would not say.", first=False),
    "unknown": Field("Codes for unknown", "The person did not know.", first=False),
    "not_asked": Field("Codes for not asked", first=False),
    "not_applicable": Field("Codes for not applicable", "There is nothing to ask for.", first=False),
    "outside": Field("Cells outside these facts", first=False, options=_OUTSIDE | {"other": "other"}),
    "label": Field("Description", first=False),
    "more": Field("Further facts, as in the file", "For example: ", first=False, lines=3),
    "max_rows": Field("Largest number of rows of a person", "A public fact. Noise grows with it."),
    "if_missing": Field("Rows without an identifier", options=_NO_ID),
    "counts_as": Field("They count as", options={"": "several rows", "one": "one row together"}),
}
"""Facts of the form with their fields."""
RULES = {
    "never": "No row has this",
    "always": "Every row has this",
    "not_applicable": "Columns have a value only if",
    "determined": "A column follows from others by a table",
}
_TABLES = ("unit", "weight", "file")
_IDENTITY = ("name", "column", "kind", "undeclared", "levels")  # never among further facts
_EMPTY = "(no code)"  # a kind of missing that may occur and has no code
_MAX_LEVELS = 50  # numbers that become levels when numbers become categories
_HEADER = re.compile(
    r"((?:^#.*\n)*)(^\[\[?(attribute|rule|unit|weight|file)\]\]?[ \t]*(?:#.*)?\n)", re.MULTILINE
)
_TAIL = re.compile(r"(?:^[ \t]*(?:#.*)?\n)*\Z", re.MULTILINE)
_DRAFTED = re.compile(r"^# column .*\n(?:^#.*\n)*", re.MULTILINE)  # a private note of a draft
_ADVICE = re.compile(r"(To protect all rows of a unit|If this column has survey weights).*")


@dataclass(frozen=True)
class Row:
    """A table of a schema file: the comments above it, its header and facts, and lines below."""

    comments: str
    table: str
    text: str
    tail: str = ""

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The fields of the table."""
        found = read_toml(self.text.encode("utf-8"), "the schema", SchemaError)[self.table]
        return dict(found[0] if isinstance(found, list) else found)

    @property
    def name(self) -> str:
        """The name of the column."""
        return str(self.facts.get("name") or self.facts.get("column") or f"[{self.table}]")

    @property
    def kind(self) -> str:
        """The kind of the table, as in `KINDS`, or ``rule``."""
        kind = str(self.facts.get("kind")) if self.table == "attribute" else self.table
        return "open" if self.facts.get("levels") == "open" else kind

    @property
    def marks(self) -> list[str]:
        """The facts that were read from the data and are not declared public."""
        return list(self.facts.get("undeclared", ()))

    @property
    def public(self) -> str:
        """The reason why the facts are public, or an empty text."""
        lines = (line for line in self.comments.splitlines() if line.startswith(PUBLIC))
        return next(lines, "").removeprefix(PUBLIC)

    @property
    def reasons(self) -> list[str]:
        """The other comments, such as the reasons of a draft."""
        lines = (line for line in self.comments.splitlines() if not line.startswith(PUBLIC))
        return [_ADVICE.sub("Choose its kind here.", line.removeprefix("# ")) for line in lines]

    def texts(self, form: Form) -> dict[str, str]:
        """Return the texts of the form of this row: as typed, or as stored.

        Whole numbers between typed bounds become levels if the kind becomes a category. So no fact
        comes from the data that the form did not show.
        """
        kind = form.get("kind", self.kind)
        names = KINDS[kind][1].split() if kind in KINDS else []
        stored = names if kind == self.kind else [n for n in names if n in _COMMON.split()[:-1]]
        texts = {name: _text(self, name) if name in stored else "" for name in names}
        texts |= {name: form.get(name, "") for name in names if name in form or form}
        ends = [read_number(form.get(end, "")) for end in ("lower", "upper")]
        if "levels" in names and None not in ends and "levels" not in form:
            low, high = (int(end or 0) for end in ends)
            texts["levels"] = "\n".join(map(str, range(low, min(high + 1, low + _MAX_LEVELS))))
        return {**texts, "kind": kind, "public": form.get("public", self.public)}

    def edited(self, form: Form, reason: str) -> Row:
        """Return the row with the facts of a form, and with a reason why they are public."""
        kind = form["kind"]
        facts = _facts(self, form)
        reason = " ".join(form.get("public", "").split()) or (reason if self.marks else "")
        comments, text, table = self.comments, self.text, kind if kind in _TABLES else "attribute"
        if reason != self.public:
            # The comments above a table with marks are those of the draft, which are private.
            lines = [] if self.marks else comments.splitlines()
            lines = [line for line in lines if not line.startswith(PUBLIC)]
            comments = "".join(f"{x}\n" for x in [*lines, *[PUBLIC + reason] * bool(reason)])
            if reason:
                text = text.replace(f"{READ_BOUNDS}\n", "")
                facts.pop("undeclared", None)
        if table == self.table:
            text = _with_facts(text, table, facts)
        else:
            header = f"[{table}]\n" if table in _TABLES else "[[attribute]]\n"
            text = header + tomli_w.dumps(facts)
        return replace(self, comments=comments, table=table, text=text)


@dataclass(frozen=True)
class SchemaRows:
    """The text of a schema file, and its parts."""

    toml: str
    name: str = "schema.toml"

    @cached_property
    def checked(self) -> tuple[Schema, list[str]]:
        """The schema, and its warnings. SchemaError is raised for a text that is no schema."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            schema = Schema.from_toml_text(self.toml, name=self.name)
        return schema, [str(one.message) for one in caught]

    @cached_property
    def rows(self) -> list[Row]:
        """The tables of the file, in their order."""
        _, *parts = _HEADER.split(self.toml)
        rows = []
        for comments, header, table, body in zip(*(parts[k::4] for k in range(4)), strict=True):
            tail = _TAIL.search(body)
            place = tail.start() if tail else len(body)
            rows.append(Row(comments, table, header + body[:place], body[place:]))
        return rows

    def edited(self, form: Form) -> SchemaRows:
        """Return the file with the facts and rules of the form of the page."""
        reason, written = " ".join(form.get("reason", "").split()), []
        for place, row in enumerate(self.rows):
            part = form_part(form, place)
            edited = row.edited(part, reason) if "kind" in part else row
            dropped = "drop" in part
            written.append(row.tail if dropped else edited.comments + edited.text + row.tail)
        text = _HEADER.split(self.toml)[0] + "".join(written)
        if form.get("condition", "").strip():
            text = f"{text.rstrip()}\n\n[[rule]]\n{tomli_w.dumps(_rule(form))}"
        edited_rows = SchemaRows(text, self.name)
        if not any(row.marks for row in edited_rows.rows):
            edited_rows = SchemaRows(_DRAFTED.sub("", text), self.name)
        return edited_rows


def form_part(form: Form, place: int) -> dict[str, str]:
    """Return the fields of one row in the form of the page."""
    begin = f"{place}."
    return {name.removeprefix(begin): form[name] for name in form if name.startswith(begin)}


def _rule(form: Form) -> dict[str, Any]:
    """Return the table of the rule that is added."""
    kind, text = form.get("rule", "never"), form["condition"].replace("\r\n", "\n").strip()
    names = [name.strip() for name in form.get("names", "").split(",") if name.strip()]
    if kind == "not_applicable":
        return {"not_applicable": names, "unless": text}
    if kind == "determined":
        return {"determined": ", ".join(names), **_further(text, "the new rule")}
    return {kind if kind == "always" else "never": text}


def _facts(row: Row, form: Form) -> dict[str, Any]:
    """Return the fields of the table of a row with the facts of a form."""
    kind, names = form["kind"], KINDS[form["kind"]][1].split()
    is_same = kind == row.kind
    facts = dict(row.facts)
    if not is_same:
        facts = {name: fact for name, fact in facts.items() if name in names}
        facts |= {"column" if kind in _TABLES else "name": row.name}
        facts |= {"levels": "open"} if kind == "open" else {}
        facts |= {} if kind in _TABLES else {"kind": "categorical" if kind == "open" else kind}
    for name in names:
        text = form.get(name, "").replace("\r\n", "\n").strip()
        if is_same and text == _text(row, name).strip():
            continue
        if name == "more":
            former = [fact for fact in facts if fact not in (*names, *_IDENTITY)]
            facts = {k: v for k, v in facts.items() if k not in former} | _further(text, row.name)
        elif (value := _read(name, text, kind)) is not None:
            facts[name] = value
        else:
            facts.pop(name, None)
    marks = [mark for mark in row.marks if mark in facts or mark in TICKS]
    if marks and not is_same:  # the new facts were chosen with the data in view
        marks = [name for name in names if name in facts] if names else ["kind"]
    facts.pop("undeclared", None)
    return facts | ({"undeclared": marks} if marks and kind not in _TABLES[:2] else {})


def _further(text: str, name: str) -> dict[str, Any]:
    """Return facts that are typed as lines of a schema file."""
    return read_toml(text.encode("utf-8"), f"the further facts of {name}", SchemaError)


def _with_facts(text: str, table: str, facts: Mapping[str, Any]) -> str:
    """Return the text of a table with other facts. Lines of equal facts and comments stay."""
    tomlkit = import_optional("tomlkit", purpose="pages in the browser")
    document = tomlkit.parse(text)
    fields = document[table] if table in _TABLES else document[table][0]
    stored = fields.unwrap()
    for name in stored.keys() - facts.keys():
        del fields[name]
    for name, fact in facts.items():
        if name not in stored or stored[name] != fact:
            fields[name] = fact
    return str(tomlkit.dumps(document))


def _text(row: Row, name: str) -> str:
    """Return a fact of a row as the form shows it."""
    if name == "more":
        known = (*KINDS[row.kind][1].split(), *_IDENTITY)
        return tomli_w.dumps({k: v for k, v in row.facts.items() if k not in known})
    value = row.facts.get(name)
    if isinstance(value, list):
        between = "\n" if name == "levels" else ", "
        return between.join(map(_shown, value)) if value or name == "levels" else _EMPTY
    return "" if value is None else _shown(value)


def _shown(value: Any) -> str:
    """Return a value of a TOML file as the form shows it."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(name: str, text: str, kind: str) -> Any:
    """Return the value of a text of the form, or None if the fact is left out."""
    if name == "levels":
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        if {line.lower() for line in lines} == {"true", "false"}:
            return [line.lower() == "true" for line in lines]
        integers = all(re.fullmatch("-?(0|[1-9][0-9]{0,14})", line) for line in lines)
        return [int(line) for line in lines] if integers else lines
    if name in TICKS:
        return text == "true" or None
    if name in _CODES:
        codes = [part.strip() for part in text.split(",") if part.strip()]
        return [] if text == _EMPTY else [_number(code) for code in codes] or None
    is_text = kind in ("date", "datetime") or name == "label"
    return (text if is_text else _number(text)) if text else None


def _number(text: str) -> Any:
    """Return a number if a text is written like one, else the text."""
    number = read_number(text)
    if number is None or not abs(number) < 2**53:
        return text
    return int(number) if number.is_integer() else number
