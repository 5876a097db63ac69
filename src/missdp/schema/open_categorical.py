"""Categorical attributes whose levels are not declared: a fit finds them, from noisy counts.

Levels are found among values that are compared as text. `OpenCategorical` declares how many may be
found. With the levels that a fit released it becomes a `ReleasedCategorical`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Annotated, Any, ClassVar, Final, TypeAlias, TypeVar

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from missdp.errors import SchemaError
from missdp.schema.attributes import Attribute, Categorical, Text, number_text
from missdp.schema.schema import Schema

MAX_LEVEL_CHARACTERS: Final = 100  # of a value; longer text is in the bucket
_MOST_LEVELS: Final = 1000
MaxLevels: TypeAlias = Annotated[
    int,
    Field(ge=1, le=_MOST_LEVELS, description=f"a whole number from 1 to {_MOST_LEVELS}"),
]


_Cell = TypeVar("_Cell")


def normalize_text(cell: _Cell) -> _Cell | str:
    """Return text in Unicode's form NFC, true and false as text, and anything else as it is."""
    if isinstance(cell, bool):
        return str(cell).lower()
    return unicodedata.normalize("NFC", cell) if isinstance(cell, str) else cell


def level_text(cell: object) -> str | None:
    """Return the text that a cell with a value is compared by; None if it cannot be a level.

    >>> level_text(" J45 "), level_text(7.0), level_text(" ")
    ('J45', '7', None)
    """
    text = number_text(cell) if isinstance(cell, float) else cell
    if isinstance(text, str) and len(text) > 4 * MAX_LEVEL_CHARACTERS:
        return None
    text = normalize_text(text)
    if not isinstance(text, str):
        return None
    text = text.strip()
    usable = text and len(text) <= MAX_LEVEL_CHARACTERS and text.isprintable()
    return text if usable else None


@dataclass(frozen=True, kw_only=True)
class OpenCategorical(Categorical):
    """A categorical attribute whose frequent levels a fit finds privately, and a bucket for others.

    Parameters
    ----------
    max_levels : int, default 200
        How many levels are kept at most, those with the largest noisy counts.
    other : str, default "other"
        The level of every other value, and of cells that cannot be read or read like its name.

    Notes
    -----
    Values are compared as text, in Unicode's form NFC and without blanks around them: ``7`` and
    ``"7"`` are one value, ``"07"`` is another. Text of more than 100 characters is in the bucket.
    In a schema file ``levels = "open"`` says so.

    Examples
    --------
    >>> illness = OpenCategorical(name="illness", nullable=True)
    >>> illness.levels, illness.with_levels(["J45", "E11"]).levels
    (('other',), ('E11', 'J45', 'other'))
    """

    kind: ClassVar[str] = "open"
    levels: Annotated[
        tuple[Text, ...],
        Field(description="a list of text"),
        BeforeValidator(lambda levels: () if levels == "open" else levels),
    ] = ()
    max_levels: MaxLevels = 200
    other: str = "other"

    def __post_init__(self) -> None:
        if self.levels == ():
            object.__setattr__(self, "levels", (self.other,))
        super().__post_init__()

    @property
    def refuses(self) -> bool:
        """Whether some cell makes reading fail: a missing one, if none may be."""
        return not self.kinds

    def not_a_level(self, value: object) -> str:
        """Say that no level is known yet, and what to do."""
        del value
        return (
            f"the levels of {self.name!r} are open, and are found by a fit: take the schema of the "
            "fitted model (schema_; in commands the saved model as --schema), declare the levels, "
            "or ignore the column"
        )

    def with_levels(self, levels: Iterable[str]) -> ReleasedCategorical:
        """Return the attribute with levels that a fit released, sorted by their text."""
        facts = {f.name: getattr(self, f.name) for f in fields(Categorical)}
        facts["levels"] = (*sorted({*levels} - {self.other}), self.other)
        facts["undeclared"] = tuple(name for name in self.undeclared if name in facts)
        return ReleasedCategorical(**facts)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as people write them: ``levels = "open"``."""
        return super().to_dict() | {"kind": "categorical", "levels": "open"}

    def _problems(self) -> Iterator[str]:
        if self.other != level_text(self.other):
            yield "other must be text that is printable, in Unicode's form NFC, and not too long"
        if self.levels != (self.other,):
            yield "levels are found by a fit: leave them out"
        if self.outside != "error":
            yield "outside does not apply: every other value is in the bucket"
        yield from super()._problems()
        # Numbers have labels by their text, and levels of one number may follow.
        yield from self._labelled_nothing(lambda key: key == self.other)


@dataclass(frozen=True, kw_only=True)
class ReleasedCategorical(Categorical):
    """A categorical attribute with the levels that a fit released, and a bucket for all others.

    Made by :meth:`OpenCategorical.with_levels`. The bucket ``other`` is the last level. Another fit
    that uses the levels states that as a condition.
    """

    kind: ClassVar[str] = "released"
    is_declared = False

    @property
    def refuses(self) -> bool:
        """Whether some cell makes reading fail: a missing one, if none may be."""
        return not self.kinds

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        if self.levels[-1] != self.other or any(x != level_text(x) for x in self.levels):
            yield "levels must be canonical text, and the bucket must be the last of them"


def open_attributes(schema: Schema) -> tuple[OpenCategorical, ...]:
    """Return the attributes whose levels are still to be found; refuse one that a rule names."""
    wanted = tuple(a for a in schema if isinstance(a, OpenCategorical))
    named = {name for rule in schema.rule_set.bound for name in rule.names}
    for attribute in wanted:
        if attribute.name in named:
            raise SchemaError(
                f"a rule names {attribute.name!r}, whose levels are open: declare them, or leave "
                "the rule out"
            )
    return wanted


def check_levels_declared(attributes: Iterable[Attribute]) -> None:
    """Refuse open levels where all levels must be known."""
    for attribute in attributes:
        if isinstance(attribute, OpenCategorical):
            raise SchemaError(attribute.not_a_level(""))


def with_max_levels(schema: Schema) -> Schema:
    """Return the schema with as many levels as a fit may find: what is public before it."""
    most = {a.name: _most_levels(a) for a in schema if isinstance(a, OpenCategorical)}
    return with_levels(schema, most)


def _most_levels(attribute: OpenCategorical) -> list[str]:
    """Return as many levels as a fit may find, none of which is the bucket."""
    texts = (f"level {k}" for k in range(attribute.max_levels + 1))
    return [text for text in texts if text != attribute.other][: attribute.max_levels]


def with_levels(schema: Schema, levels: Mapping[str, Iterable[str]]) -> Schema:
    """Return a schema with the levels that a fit released."""
    known = (a for a in schema if isinstance(a, OpenCategorical) and a.name in levels)
    return schema.with_attributes({a.name: a.with_levels(levels[a.name]) for a in known})
