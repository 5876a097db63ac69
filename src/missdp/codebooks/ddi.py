"""DDI-Codebook 2.5 (and 1.2, 2.6): XML, read element by element, without entities or a network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

from missdp.codebooks.book import CodeBook, Domain, Value, Variable
from missdp.errors import SchemaError, replacing
from missdp.schema.attributes import read_number

_DEEPEST = 100
_SYSTEM = frozenset({"", ".", "sysmiss"})  # an empty cell, as writers of code books call it
_ORDERED: Final = frozenset({"ordinal"})
_NUMBERS: Final = frozenset({"interval", "ratio", "percent"})


@dataclass
class _Reader:
    """Collects the elements of each ``var`` as the parser comes to them."""

    variables: list[Variable] = field(default_factory=list)
    _path: list[str] = field(default_factory=list)
    _text: list[str] = field(default_factory=list)
    _var: dict[str, str] = field(default_factory=dict)
    _facts: dict[str, str] = field(default_factory=dict)
    _value: dict[str, str] = field(default_factory=dict)
    _values: list[Value] = field(default_factory=list)

    def start(self, tag: str, given: dict[str, str]) -> None:
        self._path.append(name := tag.rpartition(":")[2])
        self._text.clear()
        if len(self._path) > _DEEPEST:
            raise SchemaError("the code book nests its elements too deeply to be read")
        if name == "var":
            self._var, self._facts, self._values = dict(given), {}, []
        elif name == "catgry":
            self._value = {"missing": given.get("missing", "N")}
        elif name == "range" and "valrng" in self._path:
            self._facts |= {k: v for k, v in given.items() if k in ("min", "max")}
        elif name == "range" and "invalrng" in self._path:
            self._facts["note"] = "not translated: a range of invalid values"
        elif name == "item" and "invalrng" in self._path:
            self._values.append(Value(given.get("VALUE", "").strip(), "", missing=True))
        elif name == "varFormat":
            self._facts["format"] = given.get("type", "")

    def characters(self, text: str) -> None:
        self._text.append(text)

    def end(self, _: str) -> None:
        name, text = self._path.pop(), " ".join("".join(self._text).split())
        parent = self._path[-1] if self._path else ""
        if name == "catValu":
            self._value["code"] = text
        elif name == "labl" and parent == "catgry":
            self._value.setdefault("label", text)  # of several languages, the first
        elif name == "labl" and parent == "var":
            self._facts.setdefault("label", text)
        elif name == "universe" and parent == "var" and text:
            self._facts["universe"] = text
        elif name == "catgry":
            self._take_value()
        elif name == "var":
            self.variables.append(self._variable())
        self._text.clear()

    def _take_value(self) -> None:
        code, missing = self._value.get("code", ""), self._value["missing"] == "Y"
        if code.lower() not in _SYSTEM:
            self._values.append(Value(code, self._value.get("label", ""), missing))

    def _variable(self) -> Variable:
        name = self._var.get("name", "")
        values = _once(self._values)
        notes = [self._facts["note"]] if "note" in self._facts else []
        if "universe" in self._facts:
            notes.append(f"not translated: asked of: {self._facts['universe']}")
        if {"min", "max"} & self._facts.keys():
            notes.append(
                "some archives state the least and the greatest cell: then widen the bounds"
            )
        return Variable(
            name=name,
            source=f"var {self._var.get('ID') or name}",
            domain=self._domain(values),
            values=values,
            lower=read_number(self._facts.get("min", "").strip()),
            upper=read_number(self._facts.get("max", "").strip()),
            label=self._facts.get("label", ""),
            notes=tuple(notes),
        )

    def _domain(self, values: tuple[Value, ...]) -> Domain:
        nature = self._var.get("nature", "")
        number = nature in _NUMBERS or self._var.get("intrvl") == "contin"
        if any(not value.missing for value in values) and not number:
            return "ordered" if nature in _ORDERED else "levels"
        return "other" if self._facts.get("format") == "character" else self._number()

    def _number(self) -> Domain:
        return "whole" if self._var.get("dcml", "").strip() == "0" else "number"


def _once(values: list[Value]) -> tuple[Value, ...]:
    """Return values, of which those that are only said to be invalid stand once."""
    labelled = {value.code: value.label for value in values if value.label}
    invalid = {value.code for value in values if value.missing}
    found = (Value(v.code, labelled.get(v.code, "") if v.code in invalid else v.label,
                   v.code in invalid) for v in values)  # fmt: skip
    return tuple(dict.fromkeys(found))


def read_ddi(data: bytes) -> CodeBook:
    """Return the code book of a DDI-Codebook document."""
    reader, parser = _Reader(), expat.ParserCreate()

    def refuse(*_: object) -> None:
        raise SchemaError("the code book declares a document type or entities, which is refused")

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    with replacing(expat.ExpatError, by=SchemaError("the code book is not XML")):
        parser.Parse(data, True)
    if not reader.variables:
        raise SchemaError("the code book has no variables: a DDI-Codebook has them in dataDscr")
    return CodeBook("DDI-Codebook", tuple(reader.variables))
