"""Open standards of code books: Frictionless Table Schema (JSON), DDI-Codebook (XML).

A table schema is a file, or a part of a data package with one table. DDI-Codebook (1.2, 2.5, 2.6)
is read element by element, without entities or a network.
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
    "number": "number", "integer": "whole", "year": "whole", "boolean": "boolean", "date": "date",
    "datetime": "datetime",
}  # fmt: skip
_TRANSLATED: Final = {"required", "unique", "enum", "minimum", "maximum"}
_USUAL: Final = {"true", "false", "1", "0"}


def read_frictionless(text: str) -> CodeBook:
    """Read the JSON text of a Table Schema, or of a data package with one table."""
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
        resources = (r for r in data["resources"] if isinstance(r, Mapping))
        tables = [resource["schema"] for resource in resources if "schema" in resource]
        if len(tables) != 1:
            raise SchemaError(
                f"the data package has {len(tables)} tables with a schema. Pass the Table Schema "
                "of one table as a separate file."
            )
        data = tables[0]
    if not isinstance(data, Mapping) or not isinstance(data.get("fields"), list):
        raise SchemaError("a Frictionless Table Schema is an object with a list of fields")
    return data


def _missing(listed: Any) -> Iterator[Value]:
    """Yield the codes of missing cells of every column. Empty text is always missing."""
    for code, label in map(_code_and_label, listed if isinstance(listed, list) else []):
        if isinstance(code, str) and code.strip():
            yield Value(code.strip(), label, missing=True)


def _code_and_label(item: Any) -> tuple[Any, str]:
    """Return the code and the label of an item, which is an object or a code."""
    facts = item if isinstance(item, Mapping) else {"value": item}
    return facts.get("value"), str(facts.get("label", ""))


def _variable(field: Mapping[str, Any], missing: tuple[Value, ...], *, is_key: bool) -> Variable:
    """Return the facts of a field of a Table Schema."""
    limits = field.get("constraints") or {}
    if not isinstance(limits, Mapping):
        raise SchemaError(f"the constraints of field {field['name']!r} are not an object")
    full = limits.get("required") is True
    listed = field.get("categories", limits.get("enum"))
    kind = str(field.get("type", "string"))
    domain: Domain = _TYPES.get(kind, "other")
    values = tuple(_values(listed)) if isinstance(listed, list) else ()
    notes = [f"not translated: {name}" for name in sorted(set(limits) - _TRANSLATED, key=str)]
    if is_key or limits.get("unique") is True:
        domain, values = "key", ()
    elif values:
        domain = "ordered" if field.get("categoriesOrdered") is True else "levels"
    if domain == "boolean":
        domain, values, notes = _truth(field, notes)
    if field.get("decimalChar", ".") != "." or field.get("groupChar"):
        notes.append("numbers are in another format: convert them to plain numbers first")
    codes = {value.code for value in values}
    values += tuple(value for value in missing if value.code not in codes and not full)
    return Variable(
        name=field["name"],
        source=f"field of type {kind}",
        domain=domain,
        values=values,
        lower=_bound(limits.get("minimum"), domain),
        upper=_bound(limits.get("maximum"), domain),
        date_facts=_date_facts(field, kind),
        nullable=not full,
        label=str(field.get("title") or ""),
        notes=tuple(notes),
    )


def _truth(
    field: Mapping[str, Any], notes: list[str]
) -> tuple[Domain, tuple[Value, ...], list[str]]:
    """Return domain, values and notes of a field of true and false with its declared words."""
    words = [field.get(name, []) for name in ("falseValues", "trueValues")]
    if {str(word).lower() for listed in words for word in listed} <= _USUAL:
        return "boolean", (), notes
    if all(isinstance(listed, list) and len(listed) == 1 for listed in words):
        return "levels", tuple(Value(str(listed[0])) for listed in words), notes
    return "other", (), [*notes, "not translated: several words for true or for false"]


def _values(listed: list[Any]) -> Iterator[Value]:
    """Yield the listed values of a field."""
    for code, label in map(_code_and_label, listed):
        yield Value(json.dumps(code) if isinstance(code, (int, float)) else str(code), label)


def _bound(bound: Any, domain: Domain) -> float | str | None:
    """Return a bound. In JSON, dates and some numbers are text."""
    if domain in ("date", "datetime"):
        return bound if isinstance(bound, str) else None
    if isinstance(bound, str):
        return read_number(bound.strip())
    return float(bound) if is_number(bound) else None


def _date_facts(field: Mapping[str, Any], kind: str) -> dict[str, str]:
    """Return the format of dates. By default moments are in UTC, with a Z at the end."""
    pattern = str(field.get("format", "default"))
    if kind not in ("date", "datetime"):
        return {}
    if pattern != "default":
        return {"format": pattern}
    return {"timezone": "UTC"} if kind == "datetime" else {}


_MAX_DEPTH = 100  # nested elements of a document
_SYSTEM = frozenset({"", ".", "sysmiss"})  # names of empty cells in code books
_ORDERED: Final = frozenset({"ordinal"})
_NUMBERS: Final = frozenset({"interval", "ratio", "percent"})


def read_ddi(data: bytes) -> CodeBook:
    """Read the bytes of a DDI-Codebook document."""
    root = _elements(data)
    variables = () if root is None else tuple(map(_described, root.iter("var")))
    if not variables:
        raise SchemaError("the code book has no variables: a DDI-Codebook has them in dataDscr")
    return CodeBook("DDI-Codebook", variables)


def _elements(data: bytes) -> Element | None:
    """Return the root element of a document, with names without namespaces, or None."""
    tree, parser, path = TreeBuilder(), expat.ParserCreate(), list[str]()

    def start(tag: str, attributes: dict[str, str]) -> None:
        path.append(tag.rpartition(":")[2])
        if len(path) > _MAX_DEPTH:
            raise SchemaError("the code book nests its elements too deeply to be read")
        tree.start(path[-1], attributes)

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
    """Return the facts of a ``var`` element about a column."""
    name, values = var.get("name", ""), _once([*_invalid(var), *_categories(var)])
    limits = {k: v for valid in var.iterfind("valrng/range") for k, v in valid.items()}
    notes = ["not translated: a range of invalid values" for _ in var.iterfind("invalrng/range")]
    universes = [text for universe in var.iterfind("universe") if (text := _text(universe))]
    notes += [f"not translated: asked of: {text}" for text in universes]
    if {"min", "max"} & limits.keys():
        notes.append("the bounds may be the smallest and the largest cell: then widen them")
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
    """Return the text of an element with single blanks."""
    return "" if element is None else " ".join("".join(element.itertext()).split())


def _invalid(var: Element) -> Iterator[Value]:
    """Yield the declared codes of missing cells."""
    for item in var.iterfind("invalrng/item"):
        yield Value(item.get("VALUE", "").strip(), "", missing=True)


def _categories(var: Element) -> Iterator[Value]:
    """Yield the categories of a variable."""
    for category in var.iter("catgry"):
        code = _text(category.find("catValu"))
        if code.lower() not in _SYSTEM:  # the first label, if there are several languages
            yield Value(code, _text(category.find("labl")), category.get("missing") == "Y")


def _domain(var: Element, values: tuple[Value, ...]) -> Domain:
    """Return the domain of a variable with these values."""
    nature, form = var.get("nature", ""), var.find("varFormat")
    number = nature in _NUMBERS or var.get("intrvl") == "contin"
    if any(not value.missing for value in values) and not number:
        return "ordered" if nature in _ORDERED else "levels"
    if form is not None and form.get("type") == "character":
        return "other"
    return "whole" if var.get("dcml", "").strip() == "0" else "number"


def _once(values: list[Value]) -> tuple[Value, ...]:
    """Return distinct values. Codes of missing cells take their labels from categories."""
    labelled = {value.code: value.label for value in values if value.label}
    missing = {v.code: Value(v.code, labelled.get(v.code, ""), True) for v in values if v.missing}
    return tuple(dict.fromkeys(missing.get(value.code, value) for value in values))
