"""Open standards of code books: Frictionless Table Schema (JSON), DDI-Codebook (XML).

A table schema stands by itself or in a data package with one table. DDI-Codebook (1.2, 2.5, 2.6) is
read element by element, without entities or a network.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from missdp.codebooks.book import CodeBook, Domain, Value, Variable
from missdp.errors import SchemaError, replacing
from missdp.schema.attributes import is_number, read_number

_TYPES: Final[dict[str, Domain]] = {
    "number": "number",
    "integer": "whole",
    "year": "whole",
    "boolean": "boolean",
    "date": "date",
    "datetime": "datetime",
    "string": "other",
}
_TOLD: Final = {"required", "unique", "enum", "minimum", "maximum"}
_USUAL: Final = {"true", "false", "1", "0"}


def read_frictionless(text: str) -> CodeBook:
    """Return the code book of a Table Schema; of a package, that of its only table."""
    with replacing(ValueError, RecursionError, by=SchemaError("the code book is not JSON")):
        data = json.loads(text)
    table = _table(data)
    missing = tuple(_missing(table.get("missingValues", data.get("missingValues", []))))
    key = table.get("primaryKey", [])
    keys = [key] if isinstance(key, str) else key if isinstance(key, list) else []
    fields = table["fields"]
    if not all(isinstance(f, Mapping) and isinstance(f.get("name"), str) for f in fields):
        raise SchemaError("each field of a Table Schema is an object with a name")
    notes = ["foreign keys"] if table.get("foreignKeys") else []
    variables = (_variable(f, missing, is_key=f["name"] in keys) for f in fields)
    return CodeBook("Frictionless Table Schema", tuple(variables), tuple(notes))


def _table(data: Any) -> Mapping[str, Any]:
    """Return the object that has the fields."""
    if isinstance(data, Mapping) and isinstance(data.get("resources"), list):
        tables = [
            r["schema"] for r in data["resources"] if isinstance(r, Mapping) and "schema" in r
        ]
        if len(tables) != 1:
            raise SchemaError(
                f"the data package has {len(tables)} tables with a schema; pass the Table Schema "
                "of one as a file of its own"
            )
        data = tables[0]
    if not isinstance(data, Mapping) or not isinstance(data.get("fields"), list):
        raise SchemaError("a Frictionless Table Schema is an object with a list of fields")
    return data


def _missing(given: Any) -> Iterator[Value]:
    """Yield the codes that stand for missing cells in every column; empty text always does."""
    for item in given if isinstance(given, list) else []:
        code = item.get("value") if isinstance(item, Mapping) else item
        label = item.get("label", "") if isinstance(item, Mapping) else ""
        if isinstance(code, str) and code.strip():
            yield Value(code.strip(), str(label), missing=True)


def _variable(given: Mapping[str, Any], missing: tuple[Value, ...], *, is_key: bool) -> Variable:
    limits = given.get("constraints") or {}
    if not isinstance(limits, Mapping):
        raise SchemaError(f"the constraints of field {given['name']!r} are not an object")
    full = limits.get("required") is True
    listed = given.get("categories", limits.get("enum"))
    kind = str(given.get("type", "string"))
    domain: Domain = _TYPES.get(kind, "other")
    values = tuple(_values(listed)) if isinstance(listed, list) else ()
    notes = [f"not translated: {name}" for name in sorted(set(limits) - _TOLD, key=str)]
    if is_key or limits.get("unique") is True:
        domain, values = "key", ()
    elif values:
        domain = "ordered" if given.get("categoriesOrdered") is True else "levels"
    if domain == "boolean":
        domain, values, notes = _truth(given, notes)
    if given.get("decimalChar", ".") != "." or given.get("groupChar"):
        notes.append("numbers are written in another way: read them into plain ones first")
    return Variable(
        name=given["name"],
        source=f"field of type {kind}",
        domain=domain,
        values=(
            *values,
            *(m for m in missing if m.code not in {v.code for v in values} and not full),
        ),
        lower=_bound(limits.get("minimum"), domain),
        upper=_bound(limits.get("maximum"), domain),
        written=_written(given, kind),
        nullable=not full,
        label=str(given.get("title") or ""),
        notes=tuple(notes),
    )


def _truth(
    given: Mapping[str, Any], notes: list[str]
) -> tuple[Domain, tuple[Value, ...], list[str]]:
    """Return how true and false are written, if that is not as usual."""
    words = [given.get(name, []) for name in ("falseValues", "trueValues")]
    if {str(word).lower() for given in words for word in given} <= _USUAL:
        return "boolean", (), notes
    if all(isinstance(given, list) and len(given) == 1 for given in words):
        return "levels", tuple(Value(str(given[0])) for given in words), notes
    return "other", (), [*notes, "not translated: several words for true or for false"]


def _values(listed: list[Any]) -> Iterator[Value]:
    for item in listed:
        code = item.get("value") if isinstance(item, Mapping) else item
        label = item.get("label", "") if isinstance(item, Mapping) else ""
        yield Value(json.dumps(code) if isinstance(code, (int, float)) else str(code), str(label))


def _bound(given: Any, domain: Domain) -> float | str | None:
    """Return a bound; JSON may have numbers as text, and has dates so."""
    if domain in ("date", "datetime"):
        return given if isinstance(given, str) else None
    if isinstance(given, str):
        return read_number(given.strip())
    return float(given) if is_number(given) else None


def _written(given: Mapping[str, Any], kind: str) -> dict[str, str]:
    """Return how dates are written; by default moments end with a Z, for UTC."""
    pattern = str(given.get("format", "default"))
    if kind not in ("date", "datetime"):
        return {}
    if pattern != "default":
        return {"format": pattern}
    return {"timezone": "UTC"} if kind == "datetime" else {}


_DEEPEST = 100
_SYSTEM = frozenset({"", ".", "sysmiss"})  # an empty cell, as writers of code books call it
_ORDERED: Final = frozenset({"ordinal"})
_NUMBERS: Final = frozenset({"interval", "ratio", "percent"})


def read_ddi(data: bytes) -> CodeBook:
    """Return the code book of a DDI-Codebook document."""
    root = _elements(data)
    variables = () if root is None else tuple(map(_described, root.iter("var")))
    if not variables:
        raise SchemaError("the code book has no variables: a DDI-Codebook has them in dataDscr")
    return CodeBook("DDI-Codebook", variables)


def _elements(data: bytes) -> Element | None:
    """Return the elements of a document, by names without a namespace; None if it has none."""
    tree, parser, path = TreeBuilder(), expat.ParserCreate(), list[str]()

    def start(tag: str, given: dict[str, str]) -> None:
        path.append(tag.rpartition(":")[2])
        if len(path) > _DEEPEST:
            raise SchemaError("the code book nests its elements too deeply to be read")
        tree.start(path[-1], given)

    def refuse(*_: object) -> None:
        raise SchemaError("the code book declares a document type or entities, which is refused")

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: tree.end(path.pop())
    parser.CharacterDataHandler = tree.data
    with replacing(expat.ExpatError, by=SchemaError("the code book is not XML")):
        parser.Parse(data, True)
    return tree.close()


def _described(var: Element) -> Variable:
    """Return what a ``var`` element says of a column."""
    name, values = var.get("name", ""), _once([*_invalid(var), *_categories(var)])
    limits = {k: v for found in var.iterfind("valrng/range") for k, v in found.items()}
    ranges = var.iterfind("invalrng/range")
    notes = ["not translated: a range of invalid values" for _ in ranges]
    asked = [text for universe in var.iterfind("universe") if (text := _text(universe))]
    notes += [f"not translated: asked of: {text}" for text in asked]
    if {"min", "max"} & limits.keys():
        notes.append("some archives state the least and the greatest cell: then widen the bounds")
    return Variable(
        name=name,
        source=f"var {var.get('ID') or name}",
        domain=_domain(var, values),
        values=values,
        lower=read_number(limits.get("min", "").strip()),
        upper=read_number(limits.get("max", "").strip()),
        label=_text(var.find("labl")),
        notes=tuple(notes),
    )


def _text(element: Element | None) -> str:
    return "" if element is None else " ".join("".join(element.itertext()).split())


def _invalid(var: Element) -> Iterator[Value]:
    for item in var.iterfind("invalrng/item"):
        yield Value(item.get("VALUE", "").strip(), "", missing=True)


def _categories(var: Element) -> Iterator[Value]:
    for category in var.iter("catgry"):
        code = _text(category.find("catValu"))
        if code.lower() not in _SYSTEM:  # of labels in several languages, the first
            yield Value(code, _text(category.find("labl")), category.get("missing") == "Y")


def _domain(var: Element, values: tuple[Value, ...]) -> Domain:
    nature, form = var.get("nature", ""), var.find("varFormat")
    number = nature in _NUMBERS or var.get("intrvl") == "contin"
    if any(not value.missing for value in values) and not number:
        return "ordered" if nature in _ORDERED else "levels"
    if form is not None and form.get("type") == "character":
        return "other"
    return "whole" if var.get("dcml", "").strip() == "0" else "number"


def _once(values: list[Value]) -> tuple[Value, ...]:
    """Return values, of which those that are only said to be invalid stand once."""
    labelled = {value.code: value.label for value in values if value.label}
    invalid = {value.code for value in values if value.missing}
    found = (Value(v.code, labelled.get(v.code, "") if v.code in invalid else v.label,
                   v.code in invalid) for v in values)  # fmt: skip
    return tuple(dict.fromkeys(found))
