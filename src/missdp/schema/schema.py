"""A schema: the public facts about all columns of a table.

TOML in and out.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from missdp.errors import SchemaError, replacing
from missdp.files import write_atomically
from missdp.schema.attributes import AnyAttribute, Categorical, Numeric, Ordinal

__all__ = ["Schema", "dump_toml", "load_toml"]


_KINDS: dict[str, Callable[..., AnyAttribute]] = {
    "categorical": Categorical,
    "ordinal": Ordinal,
    "numeric": Numeric,
}
_FORMAT = 1


@dataclass(frozen=True)
class Schema:
    """Public facts about the columns of a table, in order. Output shape depends on nothing else.

    Parameters
    ----------
    attributes : tuple of Categorical, Ordinal or Numeric
        At least one; names must be distinct.

    Raises
    ------
    SchemaError
        If there are no attributes or two have the same name.

    Examples
    --------
    >>> from missdp.schema import Categorical, Numeric, Schema
    >>> schema = Schema((
    ...     Categorical(name="smoker", levels=("no", "yes"), nullable=True),
    ...     Numeric(name="age", lower=0, upper=100, integer=True, bins=10),
    ... ))
    >>> schema.names
    ('smoker', 'age')
    >>> schema.shape(("smoker", "age")), schema.extended_shape(("smoker", "age"))
    ((2, 10), (3, 10))
    """

    attributes: tuple[AnyAttribute, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.attributes, Iterable):
            raise SchemaError("a schema is made of Categorical, Ordinal and Numeric attributes")
        object.__setattr__(self, "attributes", tuple(self.attributes))
        if not self.attributes:
            raise SchemaError("a schema needs at least one attribute")
        if any(not isinstance(a, (Categorical, Ordinal, Numeric)) for a in self.attributes):
            raise SchemaError("a schema is made of Categorical, Ordinal and Numeric attributes")
        names = self.names
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise SchemaError(f"attribute names must be distinct; repeated: {repeated}")

    @property
    def names(self) -> tuple[str, ...]:
        """Attribute names in order."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def nullable(self) -> tuple[str, ...]:
        """Names of the attributes that may be missing."""
        return tuple(a.name for a in self.attributes if a.nullable)

    def __len__(self) -> int:
        return len(self.attributes)

    def __iter__(self) -> Iterator[AnyAttribute]:
        return iter(self.attributes)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> AnyAttribute:
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        raise SchemaError(f"the schema has no attribute {name!r}; it has {list(self.names)}")

    def shape(self, clique: Iterable[str]) -> tuple[int, ...]:
        """Sizes of the attributes of a clique, missing not counted."""
        return tuple(self[name].size for name in clique)

    def extended_shape(self, clique: Iterable[str]) -> tuple[int, ...]:
        """Sizes of the attributes of a clique with missing as one more level where nullable."""
        return tuple(self[name].extended_size for name in clique)

    def subset(self, names: Iterable[str]) -> Schema:
        """Schema of the named attributes, in the order given."""
        return Schema(tuple(self[name] for name in names))

    @property
    def undeclared(self) -> dict[str, tuple[str, ...]]:
        """Facts read from private data and not yet declared public, per attribute."""
        return {a.name: a.undeclared for a in self.attributes if a.undeclared}

    def declare_public(self) -> Schema:
        """Return the same schema with every fact declared public: you take responsibility.

        Examples
        --------
        >>> from missdp.schema import Categorical, Schema
        >>> draft = Schema((Categorical(name="a", levels=("x",), undeclared=("levels",)),))
        >>> draft.undeclared, draft.declare_public().undeclared
        ({'a': ('levels',)}, {})
        """
        return Schema(tuple(a.model_copy(update={"undeclared": ()}) for a in self.attributes))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for TOML or JSON."""
        rows = [_attribute_dict(a) for a in self.attributes]
        return {"format": _FORMAT, "attribute": rows}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Schema:
        """Read what :meth:`to_dict` wrote."""
        if not isinstance(document, Mapping):
            raise SchemaError("a schema is read from a mapping with [[attribute]] tables")
        if document.get("format", _FORMAT) != _FORMAT:
            raise SchemaError(f"this version reads schema format {_FORMAT} only")
        if unknown := sorted(set(document) - {"format", "attribute"}):
            raise SchemaError(f"a schema has 'format' and [[attribute]] tables only, not {unknown}")
        rows = document.get("attribute")
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            raise SchemaError("a schema needs [[attribute]] tables, one per column")
        return cls(tuple(_parse_attribute(row) for row in rows))

    @classmethod
    def from_toml(cls, source: str | Path) -> Schema:
        """Read a schema from a TOML file.

        Raises
        ------
        SchemaError
            If the file cannot be read or is not a valid schema.
        """
        return cls.from_dict(load_toml(Path(source)))

    def to_toml(self, path: str | Path) -> None:
        """Write the schema to a TOML file, whole or not at all."""
        dump_toml(self.to_dict(), Path(path))


def _attribute_dict(attribute: AnyAttribute) -> dict[str, Any]:
    row: dict[str, Any] = {"name": attribute.name, "kind": attribute.kind}
    facts = attribute.model_dump(exclude_defaults=True, exclude_none=True)
    for key, value in facts.items():
        row[key] = list(value) if isinstance(value, tuple) else value
    return row


def _parse_attribute(row: Mapping[str, Any]) -> AnyAttribute:
    kind = row.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise SchemaError(
            f"attribute {row.get('name')!r}: kind must be one of {sorted(_KINDS)}, not {kind!r}"
        )
    facts = {key: tuple(v) if isinstance(v, list) else v for key, v in row.items()}
    if not all(isinstance(key, str) for key in facts):
        raise SchemaError(f"attribute {row.get('name')!r}: the names of facts must be text")
    return _KINDS[kind](**facts)


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
