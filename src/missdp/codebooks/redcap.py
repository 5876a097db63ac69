"""REDCap's data dictionary: a CSV file with a line for each field of a form."""

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
    """Read the text of a REDCap data dictionary."""
    rows = csv.DictReader(io.StringIO(text, newline=""))
    names = [_SHORT.get(name.strip(), name.strip()) for name in rows.fieldnames or ()]
    if absent := [name for name in (_NAME, _TYPE, _LABEL, _CHOICES) if name not in names]:
        raise SchemaError(f"the file lacks column {absent[0]!r} of a REDCap data dictionary")
    rows.fieldnames = names
    malformed = SchemaError("the code book is not a CSV file in the format of REDCap")
    with replacing(csv.Error, AttributeError, by=malformed):
        lines = [{k: (v or "").strip() for k, v in row.items() if k in names} for row in rows]
    lines = [line for line in lines if line[_NAME] and line[_TYPE] not in _NO_DATA]
    fields = {line[_NAME]: line[_TYPE] for line in lines}
    variables = (v for k, line in enumerate(lines) for v in _variables(line, fields, first=not k))
    return CodeBook("REDCap data dictionary", tuple(variables))


def _variables(
    line: Mapping[str, str], fields: Mapping[str, str], *, first: bool
) -> Iterator[Variable]:
    """Yield the exported columns of a field: one column, or one column for each checkbox."""
    name, kind = line[_NAME], line[_TYPE]
    if first or line.get(_IDENTIFIER, "").lower() == "y":
        why = "it identifies the records" if first else "it is marked as an identifier"
        yield Variable(name=name, source=f"field of type {kind}", domain="key", notes=(why,))
        return
    branch = line.get(_BRANCH, "")
    hidden = f"not translated: shown only if {' '.join(branch.split())}"
    condition = _condition_of(branch, fields) or ""
    variable = Variable(
        name=name,
        source=f"field of type {kind}",
        domain=_domain(line),
        values=tuple(_choices(line)),
        lower=_bound(line, _MIN),
        upper=_bound(line, _MAX),
        date_facts=_date_facts(line.get(_VALID, "")),
        condition=condition,
        label=" ".join(_TAG.sub(" ", line[_LABEL]).split()),
        notes=(hidden,) if branch and not condition else (),
    )
    if kind != "checkbox":
        yield variable
        return
    if branch:  # boxes of a hidden field are exported as unchecked
        variable = replace(variable, condition="", notes=(f"{hidden}, otherwise 0",))
    boxes = replace(variable, values=_BOXES, nullable=False)
    for choice in variable.values:
        label = f"{variable.label}: {choice.label}"
        yield replace(boxes, name=_box(name, choice.code), label=label)


def _domain(line: Mapping[str, str]) -> Domain:
    """Return the domain of a field."""
    kind, valid = line[_TYPE], line.get(_VALID, "")
    if kind in (*_CHOSEN, *_YES_NO, "checkbox"):
        return "levels"
    if kind == "slider" or valid == "integer":
        return "whole"
    if valid.startswith("date"):  # exports have year, month, day in this order
        return "datetime" if valid.startswith("datetime") else "date"
    return "number" if kind == "calc" or valid.startswith("number") else "other"


def _bound(line: Mapping[str, str], which: str) -> float | str | None:
    """Return a bound in the form of exports. The default of a slider is 0 to 100."""
    text, usual = line.get(which, ""), {_MIN: 0.0, _MAX: 100.0}
    if line.get(_VALID, "").startswith("date"):
        return text or None
    number = read_number(text)
    return usual[which] if number is None and line[_TYPE] == "slider" else number


def _date_facts(valid: str) -> dict[str, str]:
    """Return step and format of a moment in exports."""
    if not valid.startswith("datetime"):
        return {}
    seconds = valid.startswith("datetime_seconds")
    return {"step": "second"} if seconds else {"step": "minute", "format": "%Y-%m-%d %H:%M"}


def _choices(line: Mapping[str, str]) -> Iterator[Value]:
    """Yield the values of a field with choices."""
    if line[_TYPE] in _YES_NO:
        yield from _YES_NO[line[_TYPE]]
    if line[_TYPE] in (*_CHOSEN, "checkbox"):
        for choice in line[_CHOICES].split("|"):
            code, comma, label = (part.strip() for part in choice.partition(","))
            if not comma or not code:
                raise SchemaError(f"choices of {line[_NAME]!r} must be written 'code, label | …'")
            yield Value(code, label)


_TAG = re.compile(r"<[^<>]*>")
_WORD = re.compile(
    r"""\s*(?:\[(?P<name>\w+)(?:\((?P<box>[^()\[\]]+)\))?\](?!\s*\[)"""
    r"""|(?P<text>'[^'`\\]*'|"[^"`\\]*")|(?P<number>-?\d+(?:\.\d+)?)"""
    r"""|(?P<join>and|or)\b|(?P<sign><=|>=|<>|!=|=|<|>)|(?P<bracket>[()]))""",
    re.IGNORECASE,
)
# A letter for each kind of word, to recognize comparisons. Brackets stand for themselves.
_SHAPES = {"name": "n", "box": "n", "text": "c", "number": "c", "join": "j", "sign": "s"}


def _condition_of(branch: str, fields: Mapping[str, str]) -> str | None:
    """Return branching logic in the syntax of rules, or None if it cannot be translated.

    Comparisons of fields with constants, joined by "and" and "or", in parentheses are translated.
    Functions, sums, other events, and comparisons of two fields or with empty text are not.

    >>> from missdp.codebooks.redcap import _condition_of
    >>> fields = {"sex": "radio", "age": "text", "drugs": "checkbox"}
    >>> text = _condition_of("[sex] = '2' and ([age] >= 18 or [drugs(3)] = '1')", fields)
    >>> print(text.replace("`", ""))
    sex = 2 and (age >= 18 or drugs___3 = 1)
    """
    words, at, shape = [], 0, ""
    while at < len(branch.rstrip()):
        word = _WORD.match(branch, at)
        translated = None if word is None else _translated(word, fields)
        if word is None or translated is None:
            return None
        words.append(translated)
        kind, at = str(word.lastgroup), word.end()
        shape += _SHAPES.get(kind, word[kind])
    text = " ".join(words).replace("( ", "(").replace(" )", ")")
    return text if _is_condition(shape) else None


def _translated(word: re.Match[str], fields: Mapping[str, str]) -> str | None:
    """Return a word in the syntax of rules: a column, a constant, or an operator."""
    name, box = word["name"], word["box"]
    if name:
        fits = name in fields and (fields[name] == "checkbox") == bool(box)
        return f"`{_box(name, box) if box else name}`" if fits else None
    constant = word["text"] or word["number"]
    return _constant(constant) if constant else word[str(word.lastgroup)].lower()


def _box(name: str, code: str) -> str:
    """Return the exported column of a checkbox."""
    return f"{name}___{re.sub(r'[^a-z0-9_]', '_', code.strip().lower())}"


def _constant(word: str) -> str | None:
    """Return a constant. Text in the form of a number is a number, as in choices."""
    inside = word.strip("'\"")
    if not inside:
        return None
    number = read_number(inside)
    is_plain = number is not None and number_text(number) == inside
    return inside if is_plain else f'"{inside}"'


def _is_condition(shape: str) -> bool:
    """Return True if the kinds of words form joined comparisons."""
    before = ""
    while shape != before:
        before, shape = shape, re.sub(r"eje", "e", re.sub(r"nsc|csn|\(e\)", "e", shape))
    return shape == "e"
