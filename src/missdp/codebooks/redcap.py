"""REDCap's data dictionary: a CSV file with a line for each field of the forms."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from missdp.codebooks.book import CodeBook, Domain, Value, Variable
from missdp.errors import SchemaError, replacing
from missdp.schema.attributes import number_text, read_number

_NAME, _TYPE, _LABEL = "Variable / Field Name", "Field Type", "Field Label"
_CHOICES = "Choices, Calculations, OR Slider Labels"
_SHORT = {"Choices OR Calculations": _CHOICES}
_VALID = "Text Validation Type OR Show Slider Number"
_MIN, _MAX = "Text Validation Min", "Text Validation Max"
_IDENTIFIER, _BRANCH = "Identifier?", "Branching Logic (Show field only if...)"
_CHOSEN: Final = ("radio", "dropdown")
_YES_NO: Final = {
    "yesno": (Value("0", "No"), Value("1", "Yes")),
    "truefalse": (Value("0", "False"), Value("1", "True")),
}
_BOXES: Final = (Value("0", "Unchecked"), Value("1", "Checked"))
_NO_DATA: Final = ("descriptive", "section_header")


def read_redcap(text: str) -> CodeBook:
    """Return the code book of a REDCap data dictionary."""
    rows = csv.DictReader(io.StringIO(text, newline=""))
    names = [_SHORT.get(name.strip(), name.strip()) for name in rows.fieldnames or ()]
    if lacking := [name for name in (_NAME, _TYPE, _LABEL, _CHOICES) if name not in names]:
        raise SchemaError(
            f"a REDCap data dictionary has a column {lacking[0]!r}; this file has not"
        )
    rows.fieldnames = names
    malformed = SchemaError("the code book is not a CSV file as REDCap writes them")
    with replacing(csv.Error, AttributeError, by=malformed):
        lines = [{k: (v or "").strip() for k, v in row.items() if k in names} for row in rows]
    lines = [line for line in lines if line[_NAME] and line[_TYPE] not in _NO_DATA]
    fields = {line[_NAME]: line[_TYPE] for line in lines}
    found = [v for at, line in enumerate(lines) for v in _variables(line, fields, first=not at)]
    return CodeBook("REDCap data dictionary", tuple(found))


def _variables(
    line: Mapping[str, str], fields: Mapping[str, str], *, first: bool
) -> Iterator[Variable]:
    """Yield what a field is exported as: one column, or one for each box that can be checked."""
    name, kind = line[_NAME], line[_TYPE]
    notes: list[str] = []
    if first or line.get(_IDENTIFIER, "").lower() == "y":
        why = "it tells the records apart" if first else "it is marked as an identifier"
        yield Variable(name=name, source=f"field of type {kind}", domain="key", notes=(why,))
        return
    branch = line.get(_BRANCH, "")
    condition = _condition_of(branch, fields) or ""
    if branch and not condition:
        notes = [f"not translated: shown only if {' '.join(branch.split())}"]
    variable = Variable(
        name=name,
        source=f"field of type {kind}",
        domain=_domain(line),
        values=tuple(_choices(line)),
        lower=_bound(line, _MIN),
        upper=_bound(line, _MAX),
        written=_written(line.get(_VALID, "")),
        condition=condition,
        label=" ".join(_TAG.sub(" ", line[_LABEL]).split()),
        notes=tuple(notes),
    )
    if kind != "checkbox":
        yield variable
        return
    if branch:  # where it is hidden, its boxes are exported as unchecked
        told = f"not translated: shown only if {' '.join(branch.split())}; else 0"
        variable = replace(variable, condition="", notes=(told,))
    for choice in variable.values:
        label = f"{variable.label}: {choice.label}"
        yield replace(
            variable, name=_box(name, choice.code), values=_BOXES, label=label, nullable=False
        )


def _domain(line: Mapping[str, str]) -> Domain:
    kind, valid = line[_TYPE], line.get(_VALID, "")
    if kind in (*_CHOSEN, *_YES_NO, "checkbox"):
        return "levels"
    if kind == "slider" or valid == "integer":
        return "whole"
    if valid.startswith("date"):  # whichever order people see, exports have year, month, day
        return "datetime" if valid.startswith("datetime") else "date"
    return "number" if kind == "calc" or valid.startswith("number") else "other"


def _bound(line: Mapping[str, str], which: str) -> float | str | None:
    """Return a bound as it is written in exports; a slider goes from 0 to 100."""
    given, usual = line.get(which, ""), {_MIN: 0.0, _MAX: 100.0}
    if line.get(_VALID, "").startswith("date"):
        return given or None
    number = read_number(given)
    return usual[which] if number is None and line[_TYPE] == "slider" else number


def _written(valid: str) -> dict[str, str]:
    if not valid.startswith("datetime"):
        return {}
    seconds = valid.startswith("datetime_seconds")
    return {"step": "second"} if seconds else {"step": "minute", "format": "%Y-%m-%d %H:%M"}


def _choices(line: Mapping[str, str]) -> Iterator[Value]:
    if line[_TYPE] in _YES_NO:
        yield from _YES_NO[line[_TYPE]]
    if line[_TYPE] in (*_CHOSEN, "checkbox"):
        for choice in line[_CHOICES].split("|"):
            code, comma, label = (part.strip() for part in choice.partition(","))
            if not comma or not code:
                raise SchemaError(
                    f"choices of field {line[_NAME]!r} are not written as 'code, label | …'"
                )
            yield Value(code, label)


_TAG = re.compile(r"<[^<>]*>")
_WORD = re.compile(
    r"""\s*(?:\[(?P<name>\w+)(?:\((?P<box>[^()\[\]]+)\))?\](?!\s*\[)"""
    r"""|(?P<text>'[^'`\\]*'|"[^"`\\]*")|(?P<number>-?\d+(?:\.\d+)?)"""
    r"""|(?P<join>and|or)\b|(?P<sign><=|>=|<>|!=|=|<|>)|(?P<bracket>[()]))""",
    re.IGNORECASE,
)
# A letter for each kind of word, by which comparisons are recognized. Brackets are as they are.
_SHAPES = {"name": "n", "box": "n", "text": "c", "number": "c", "join": "j", "sign": "s"}


def _condition_of(branch: str, fields: Mapping[str, str]) -> str | None:
    """Return branching logic in the language of rules; None where that has no words for it.

    Fields are compared with constants, joined by "and" and "or", in parentheses. Functions, sums,
    other events, and fields compared with each other or with nothing are not translated.

    >>> fields = {"sex": "radio", "age": "text", "drugs": "checkbox"}
    >>> told = _condition_of("[sex] = '2' and ([age] >= 18 or [drugs(3)] = '1')", fields)
    >>> print(told.replace("`", ""))
    sex = 2 and (age >= 18 or drugs___3 = 1)
    """
    found, at, shape = [], 0, ""
    while at < len(branch.rstrip()):
        word = _WORD.match(branch, at)
        translated = None if word is None else _translated(word, fields)
        if word is None or translated is None:
            return None
        found.append(translated)
        kind, at = str(word.lastgroup), word.end()
        shape += _SHAPES.get(kind, word[kind])
    text = " ".join(found).replace("( ", "(").replace(" )", ")")
    return text if _is_condition(shape) else None


def _translated(word: re.Match[str], fields: Mapping[str, str]) -> str | None:
    """Return a word in the language of rules: a column, a constant, or an operator."""
    name, box = word["name"], word["box"]
    if name:
        known = name in fields and (fields[name] == "checkbox") == bool(box)
        return f"`{_box(name, box) if box else name}`" if known else None
    constant = word["text"] or word["number"]
    return _constant(constant) if constant else word[str(word.lastgroup)].lower()


def _box(name: str, code: str) -> str:
    """Return the column that one box of a field is exported as."""
    return f"{name}___{re.sub(r'[^a-z0-9_]', '_', code.strip().lower())}"


def _constant(word: str) -> str | None:
    """Return a constant; text that is written like a whole number is one, as choices are."""
    inside = word.strip("'\"")
    if not inside:
        return None
    number = read_number(inside)
    whole = number is not None and number_text(number) == inside
    return inside if whole else f'"{inside}"'


def _is_condition(shape: str) -> bool:
    """Whether the words make comparisons, joined; by what each kind of word is."""
    before = ""
    while shape != before:
        before = shape
        shape = re.sub(r"nsc|csn|\(e\)", "e", shape)
        shape = re.sub(r"eje", "e", shape)
    return shape == "e"
