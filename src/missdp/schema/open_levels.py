"""Columns whose levels nobody can list: diagnoses, occupations, free codes.

A fit finds the frequent ones privately; until then every value is in one bucket, whose name is
public. What a cell is counted as is a function of that cell and of public facts.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, TypeGuard, TypeVar

from missdp.errors import SchemaError
from missdp.schema.attributes import Attribute, Categorical, number_text
from missdp.schema.schema import Schema

MOST_CHARACTERS: Final = 100  # of a value; longer text is in the bucket
_MOST_LEVELS: Final = 1000


_Cell = TypeVar("_Cell")


def composed(cell: _Cell) -> _Cell | str:
    """Return text in Unicode's form NFC, true and false as text, and anything else as it is."""
    if isinstance(cell, bool):
        return str(cell).lower()
    return unicodedata.normalize("NFC", cell) if isinstance(cell, str) else cell


def canonical(cell: object) -> str | None:
    """Return the text that a cell with a value is compared by; None if it cannot be a level."""
    text = number_text(cell) if isinstance(cell, float) else cell
    if isinstance(text, str) and len(text) > 4 * MOST_CHARACTERS:
        return None
    text = composed(text)
    if not isinstance(text, str):
        return None
    text = text.strip()
    usable = text and len(text) <= MOST_CHARACTERS and text.isprintable()
    return text if usable else None


@dataclass(frozen=True, kw_only=True)
class OpenCategorical(Categorical):
    """A categorical attribute whose frequent levels a fit finds privately, and a bucket for others.

    Parameters
    ----------
    max_levels : int, default 200
        How many levels are kept at most, those with the largest noisy counts.
    other : str, default "other"
        The bucket: the level of every other value, of cells that cannot be read, and of those that
        read like its name.
    levels : tuple of str, optional
        What was found, sorted, and the bucket last. Leave it out: a fit finds them.
    found : bool, default False
        Whether a fit found them. Another fit that uses them states that as a condition.

    Notes
    -----
    Values are compared as text, in Unicode's form NFC and without blanks around them: ``7`` and
    ``"7"`` are one value, ``"07"`` is another. Text of more than 100 characters is in the bucket.
    In a schema file ``levels = "open"`` says so.

    Examples
    --------
    >>> illness = OpenCategorical(name="illness", nullable=True)
    >>> illness.levels, illness.canonical(" J45 "), illness.canonical(7.0)
    (('other',), 'J45', '7')
    """

    kind: ClassVar[str] = "open"
    levels: tuple[str, ...] = ()
    max_levels: int = 200
    other: str = "other"
    found: bool = False

    def __post_init__(self) -> None:
        if self.levels == () and isinstance(self.other, str):
            object.__setattr__(self, "levels", (self.other,))
        super().__post_init__()

    @property
    def refuses(self) -> bool:
        """Whether some cell makes reading fail: a missing one, if none may be."""
        return not self.kinds

    def canonical(self, cell: object) -> str:
        """Return the text that a cell with a value is compared by; the bucket's, if it has none."""
        return canonical(cell) or self.other

    def closed(self, found: Iterable[str]) -> OpenCategorical:
        """Return the attribute with the levels that were found, sorted by their text."""
        kept = sorted({*found} - {self.other})
        return replace(self, levels=(*kept, self.other), found=True)

    def _problems(self) -> Iterator[str]:
        if self.other != canonical(self.other):
            yield "other must be text that is printable, in Unicode's form NFC, and not too long"
        whole = isinstance(self.max_levels, int) and not isinstance(self.max_levels, bool)
        if not whole or not 1 <= self.max_levels <= _MOST_LEVELS:
            yield f"max_levels must be a whole number from 1 to {_MOST_LEVELS}"
        if not isinstance(self.found, bool):
            yield "found must be true or false"
        if not self.found and self.levels != (self.other,):
            yield "levels are found by a fit, which says so: leave them out"
        if self.outside != "error":
            yield "outside does not apply: every other value is in the bucket"
        yield from super()._problems()
        if not self.found:  # numbers have labels by their text, and levels of one number may follow
            yield from self._labelled_nothing(lambda key: key == self.other)
        if self.levels[-1] != self.other or any(x != canonical(x) for x in self.levels):
            yield "levels must be canonical text, and the bucket must be the last of them"


def is_open(attribute: Attribute) -> TypeGuard[OpenCategorical]:
    """Whether the levels of an attribute are still to be found."""
    return isinstance(attribute, OpenCategorical) and not attribute.found


def open_attributes(schema: Schema) -> tuple[OpenCategorical, ...]:
    """Return the attributes whose levels are still to be found.

    Raises
    ------
    SchemaError
        If a rule names one: what it says of levels would depend on which are found.
    """
    wanted = tuple(a for a in schema if is_open(a))
    book = schema.rulebook
    named = {name for rule in (*book.bound, *book.pairs) for name in rule.names}
    for attribute in wanted:
        if attribute.name in named:
            raise SchemaError(
                f"a rule names {attribute.name!r}, whose levels are open: declare them, or leave "
                "the rule out"
            )
    return wanted


def check_found(attributes: Iterable[Attribute]) -> None:
    """Refuse open levels where all levels must be known."""
    for attribute in attributes:
        if is_open(attribute):
            raise SchemaError(
                f"the levels of {attribute.name!r} are open, and are found by a fit: take the "
                "schema of the fitted model (schema_; in commands the saved model as --schema), or "
                "declare the levels"
            )


def at_most(schema: Schema) -> Schema:
    """Return the schema with as many levels as a fit may find: what is public before it."""
    return with_levels(schema, {a.name: _most_levels(a) for a in schema if is_open(a)})


def _most_levels(attribute: OpenCategorical) -> list[str]:
    """Return as many levels as a fit may find, none of which is the bucket."""
    texts = (f"level {k}" for k in range(attribute.max_levels + 1))
    return [text for text in texts if text != attribute.other][: attribute.max_levels]


def with_levels(schema: Schema, found: Mapping[str, Iterable[str]]) -> Schema:
    """Return a schema with the levels that were found."""
    closed = {a.name: a.closed(found[a.name]) for a in schema if is_open(a) and a.name in found}
    if not closed:
        return schema
    return replace(schema, attributes=tuple(closed.get(a.name, a) for a in schema))
