"""Rows of the form of a schema: one row for each table of the file, and back to its facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import tomli_w

from missdp.errors import SchemaError
from missdp.schema.attributes import CODE_FIELDS, read_number
from missdp.schema.edits import NO_CODE, FileTable, SchemaText, fact_of_text
from missdp.schema.schema import read_toml

Form = Mapping[str, str]
_CODES = tuple(CODE_FIELDS.values())
_COMMON = f"nullable {' '.join(_CODES)} outside label more"
_NUMBERS = "bins = 20, and in other lines spikes = [0, 40] or edges = [0, 18, 65]"
KINDS = {
    "categorical": ("categories without an order", f"levels {_COMMON}", 'labels = {1 = "woman"}'),
    "ordinal": ("categories in an order", f"levels {_COMMON}", 'labels = {1 = "never"}'),
    "numeric": ("numbers", f"lower upper integer {_COMMON}", _NUMBERS),
    "date": ("dates", f"lower upper format {_COMMON}", 'step = "month"'),
    "datetime": ("dates with a time", f"lower upper format {_COMMON}", 'step = "hour"'),
    "open": ("text: the release finds frequent values", f"max_levels {_COMMON}", 'other = "other"'),
    "difference": ("time between two dates", "lower upper more", 'later = "out"'),
    "unit": ("identifier of a person with several rows", "max_rows if_missing counts_as more", ""),
    "weight": ("survey weight", "upper more", "default = 1"),
    "key": ("identifier of a row: never read", "", ""),
    "ignore": ("never read", "", ""),
    "file": ("format of the file", "more", "decimal = ','"),
}
"""Kinds of tables of a schema: words, the facts in the form, and an example of further facts."""
LATER = {*_CODES, "outside", "label", "more", "if_missing", "counts_as"} - {"missing_codes"}
"""Facts whose fields are shown on request."""
TICKS = ("integer", "nullable")


class Field(NamedTuple):
    """A field of the form: its label, a hint, and its shape."""

    label: str
    hint: str = ""
    lines: int = 0
    options: Form | None = None


_OUTSIDE = {"": "stop with an error", "missing": "count as missing", "clamp": "take the bound"}
_NO_ID = {"": "are left out", "refuse": "stop with an error", "own_unit": "are single persons"}
FIELDS = {
    "levels": Field("Possible answers", "One in a line.", lines=4),
    "lower": Field("Smallest possible value", "A public bound, not the smallest cell."),
    "upper": Field("Largest possible value", "A public bound, not the largest cell."),
    "integer": Field("Whole numbers only"),
    "format": Field("Format of dates", "For example: %d.%m.%Y. Empty: 2024-12-31."),
    "max_levels": Field("Largest number of values"),
    "nullable": Field("Cells may be missing"),
    "missing_codes": Field("Codes for missing", "Separate codes by commas."),
    "refused": Field("Codes for refused", "The person would not say."),
    "unknown": Field("Codes for unknown", "The person did not know."),
    "not_asked": Field("Codes for not asked"),
    "not_applicable": Field("Codes for not applicable", "There is nothing to ask for."),
    "outside": Field("Cells outside these facts", options=_OUTSIDE),
    "label": Field("Description"),
    "more": Field("Further facts, as in the file", "For example: ", lines=3),
    "max_rows": Field("Largest number of rows of a person", "A public fact. Noise grows with it."),
    "if_missing": Field("Rows without an identifier", options=_NO_ID),
    "counts_as": Field("Rows of a person count as", "Empty, or one: as one row together."),
}
"""Facts of the form with their fields."""
RULES = {
    "never": "No row has this",
    "always": "Every row has this",
    "not_applicable": "Columns have a value only if",
    "determined": "A column follows from others by a table",
}
_MAX_LEVELS = 50  # whole numbers that may become levels when the kind becomes a category


def texts(table: FileTable, form: Form) -> dict[str, str]:
    """Return the texts of the form of a table: as typed, or as stored.

    Whole numbers between typed bounds become levels if the kind becomes a category. So no fact
    comes from the data that the form did not show.
    """
    kind = form.get("kind", table.kind)
    stored = {name: _text(table, kind, name) for name in _names(kind)}
    typed = {name: form.get(name, "") for name in stored if name in form or name in TICKS}
    shown = stored | (typed if form else {})
    ends = [read_number(form.get(end, "")) for end in ("lower", "upper")]
    if shown.get("levels") == "" and "integer" in form and None not in ends:
        low, high = (end or 0.0 for end in ends)
        if 0 <= high - low < _MAX_LEVELS:
            shown["levels"] = "\n".join(map(str, range(int(low), int(high) + 1)))
    return shown | {"kind": kind, "public": form.get("public", table.public)}


def edited(text: SchemaText, form: Form) -> SchemaText:
    """Return the file with the facts and rules of the form of the page."""
    tables: dict[int, FileTable | None] = {}
    for place, table in enumerate(text.tables):
        part = form_part(form, place)
        if "kind" in part:
            reason = part.get("public") or (form.get("reason", "") if table.marks else "")
            facts = _facts(table, part)
            tables[place] = table.changed(part["kind"], facts, reason)
        elif "drop" in part:
            tables[place] = None
    changed = text.with_tables(tables)
    return changed.with_rule(_rule(form)) if form.get("condition", "").strip() else changed


def form_part(form: Form, place: int) -> dict[str, str]:
    """Return the fields of one row in the form of the page."""
    return {key.partition(".")[2]: form[key] for key in form if key.startswith(f"{place}.")}


def _names(kind: str) -> list[str]:
    """Return the facts of a kind in the form."""
    return KINDS[kind][1].split() if kind in KINDS else []


def _rule(form: Form) -> dict[str, Any]:
    """Return the table of the rule that is added."""
    kind, text = form["rule"], form["condition"].strip()
    if kind == "not_applicable":
        return {kind: [name.strip() for name in form["names"].split(",")], "unless": text}
    if kind == "determined":
        return {kind: form["names"].strip(), **_further(text, "the new rule")}
    return {kind: text}


def _facts(table: FileTable, form: Form) -> dict[str, Any]:
    """Return the facts of a form. Facts whose text is as stored are as stored."""
    kind, facts = form["kind"], dict[str, Any]()
    for name in _names(kind):
        text = form.get(name, "").strip()
        is_stored = text == _text(table, kind, name).strip()
        if name == "more":
            facts |= _more(table, kind) if is_stored else _further(text, table.name)
        else:
            facts[name] = table.facts.get(name) if is_stored else fact_of_text(name, text, kind)
    return {name: fact for name, fact in facts.items() if fact is not None}


def _more(table: FileTable, kind: str) -> dict[str, Any]:
    """Return the facts of a table that have no field of their own."""
    facts = table.further if kind == table.kind else {}
    return {name: fact for name, fact in facts.items() if name not in _names(kind)}


def _further(text: str, name: str) -> dict[str, Any]:
    """Return facts that are typed as lines of a schema file."""
    return read_toml(text.encode("utf-8"), f"the further facts of {name}", SchemaError)


def _text(table: FileTable, kind: str, name: str) -> str:
    """Return a fact of a table as the form of a kind shows it."""
    if name == "more":
        return tomli_w.dumps(_more(table, kind))
    value = table.facts.get(name) if kind == table.kind or name in _COMMON.split() else None
    if isinstance(value, list):
        between = "\n" if name == "levels" else ", "
        return between.join(map(_shown, value)) or NO_CODE * (name != "levels")
    return "" if value is None or value is False else _shown(value)


def _shown(value: Any) -> str:
    """Return a value of a TOML file as the form shows it."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)
