"""Categorical attributes without declared levels. A fit releases levels from noisy counts.

Values are compared as text. `OpenCategorical` declares the largest number of levels. With the
levels that a fit released it becomes a `ReleasedCategorical`.
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

MAX_LEVEL_CHARACTERS: Final = 100  # characters of a level. Longer text is in the bucket.
_MAX_LEVELS: Final = 1000  # levels that one attribute may request
MaxLevels: TypeAlias = Annotated[
    int, Field(ge=1, le=_MAX_LEVELS, description=f"a whole number from 1 to {_MAX_LEVELS}")
]


_Cell = TypeVar("_Cell")


def normalize_text(cell: _Cell) -> _Cell | str:
    """Return text in Unicode's form NFC. True and false become text. Other cells stay unchanged."""
    if isinstance(cell, bool):
        return str(cell).lower()
    return unicodedata.normalize("NFC", cell) if isinstance(cell, str) else cell


def level_text(cell: object) -> str | None:
    """Return the text of a cell for comparisons, or None if the cell cannot be a level.

    >>> from missdp.schema.open_categorical import level_text
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
    """A categorical attribute without declared levels: a fit releases frequent values as levels.

    Use it for columns such as diagnoses or places, if no public list of their values exists. A fit
    counts the values, adds noise, and charges the counts to its budget. The values with the largest
    noisy counts become levels. All other values share one more level, ``other``, which is called
    the bucket.

    :class:`Attribute` documents the facts in more detail. A guarantee holds only if they are
    public. It states this as its condition `PublicDomain`, which is not checked.

    Parameters
    ----------
    name : str
        Name of the column, any non-empty text.
    max_levels : int, default 200
        Largest number of released levels without the bucket, from 1 to 1,000. Public.
    other : str, default "other"
        The level of every other value. Unreadable cells and cells equal to its name have it too.
    nullable : bool, default False
        True if a cell may be missing.
    missing_codes : tuple of str or number, default ()
        Values that stand for a missing cell in the data, such as ``-9``. They need
        ``nullable=True``.
    refused, unknown, not_asked : tuple of str or number, or None, default None
        Values that stand for other reasons of a missing cell. They need ``nullable=True``. None:
        the reason does not occur.
    not_applicable : tuple of str or number, or None, default None
        Values of cells that can have no value, such as working hours without work. None: there are
        no such cells.
    imputed_before : bool, default False
        True if missing cells of the column may have been filled before.
    label, units : str, default ""
        Description of the column, and unit of its values, for human readers.
    undeclared : tuple of str, default ()
        Names of parameters that were read from private data and are not declared public yet.
    labels : mapping of str to str, default {}
        Meanings of ``other`` and of codes for human readers, by their text.
    levels, outside
        Left out. The levels are the level ``other`` alone until a fit releases levels.

    Raises
    ------
    SchemaError
        If ``levels`` or ``outside`` is declared, ``other`` is not printable text of at most 100
        characters, or another fact is not valid. A fit also raises it if a rule names the
        attribute.

    Notes
    -----
    Values are compared as text, in Unicode's form NFC and without blanks around them: ``7`` and
    ``"7"`` are one value, and ``"07"`` differs. Text of more than 100 characters is in the bucket.
    In a schema file it is declared by ``levels = "open"``.

    Examples
    --------
    >>> from missdp import OpenCategorical
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
        """True if a missing cell of the attribute makes reading of the table fail with DataError.

        This is the case if the attribute declares no kind of missing. Every other cell can be read,
        since all values that are not levels have the level ``other``.

        Returns
        -------
        bool
            Public.
        """
        return not self.kinds

    def not_a_level(self, value: object) -> str:
        """Return an error message stating that the levels of a column are not declared yet.

        Parameters
        ----------
        value : object
            The value that was used as a level. It is not quoted.

        Returns
        -------
        str
            The message, with the remedies. Public.
        """
        del value
        return (
            f"the levels of {self.name!r} are open until a fit releases them. Use the schema of "
            "the fitted model (schema_, or in commands the saved model as --schema), declare the "
            "levels, or ignore the column."
        )

    def with_levels(self, levels: Iterable[str]) -> ReleasedCategorical:
        """Return an attribute with the levels that a fit released, by which rows can be coded.

        Parameters
        ----------
        levels : iterable of str
            The released values, without blanks around them. Repeated values count once. The level
            ``other`` of all other values need not be among them.

        Returns
        -------
        ReleasedCategorical
            The attribute with these levels in the order of their text, then ``other``. Released.

        Raises
        ------
        SchemaError
            If a level is empty, has blanks around it, is longer than 100 characters or is not
            printable.
        """
        facts = {f.name: getattr(self, f.name) for f in fields(Categorical)}
        facts["levels"] = (*sorted({*levels} - {self.other}), self.other)
        facts["undeclared"] = tuple(name for name in self.undeclared if name in facts)
        return ReleasedCategorical(**facts)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts of a column whose levels are not declared, as a dictionary.

        Returns
        -------
        dict of str to JSON value
            The keys of an ``[[attribute]]`` table: ``name``, ``kind = "categorical"``, ``levels =
            "open"`` and each fact that differs from its default. Public.
        """
        return super().to_dict() | {"kind": "categorical", "levels": "open"}

    def _problems(self) -> Iterator[str]:
        if self.other != level_text(self.other):
            yield "other must be text that is printable, in Unicode's form NFC, and not too long"
        if self.levels != (self.other,):
            yield "a fit releases the levels. Leave levels out"
        if self.outside != "error":
            yield "outside does not apply: every other value is in the bucket"
        yield from super()._problems()
        # Only the bucket is a level that may have a label before a fit.
        yield from self._labelled_nothing(lambda key: key == self.other)


@dataclass(frozen=True, kw_only=True)
class ReleasedCategorical(Categorical):
    """A categorical attribute whose levels an earlier fit released from noisy counts.

    The schema of a fitted model has it in place of an :class:`OpenCategorical`, whose method
    ``with_levels`` creates it. The last level, ``other``, is the bucket: it holds all values that
    are not levels. If another release uses the levels, its guarantee states the condition
    `LevelsFromRelease`: the cost of the fit is stated separately. The condition is not checked.

    Parameters
    ----------
    name : str
        Name of the column, any non-empty text.
    levels : tuple of str
        The released levels, then ``other``. Each is printable text of at most 100 characters.
    other : str
        The level of every other value, the last of ``levels``.
    nullable : bool, default False
        True if a cell may be missing.
    missing_codes : tuple of str or number, default ()
        Values that stand for a missing cell in the data, such as ``-9``. They need
        ``nullable=True``.
    refused, unknown, not_asked : tuple of str or number, or None, default None
        Values that stand for other reasons of a missing cell. They need ``nullable=True``. None:
        the reason does not occur.
    not_applicable : tuple of str or number, or None, default None
        Values of cells that can have no value, such as working hours without work. None: there are
        no such cells.
    imputed_before : bool, default False
        True if missing cells of the column may have been filled before.
    label, units : str, default ""
        Description of the column, and unit of its values, for human readers.
    undeclared : tuple of str, default ()
        Names of parameters that were read from private data and are not declared public yet.
    labels : mapping of str to str, default {}
        Meanings of levels and codes for human readers, by their text.
    outside : {"error", "missing", "other"}, default "error"
        Must keep its default, since every other value has the level ``other``.

    Raises
    ------
    SchemaError
        If a level is not such a text, ``other`` is not the last level, or ``outside`` is declared.

    Examples
    --------
    >>> from missdp import OpenCategorical
    >>> OpenCategorical(name="illness").with_levels(["J45", "E11"]).codes_by_level[str, "J45"]
    1
    """

    kind: ClassVar[str] = "released"
    is_declared = False

    @property
    def refuses(self) -> bool:
        """True if a missing cell of the attribute makes reading of the table fail with DataError.

        This is the case if the attribute declares no kind of missing. Every other cell can be read,
        since all values that are not levels have the level ``other``.

        Returns
        -------
        bool
            Public.
        """
        return not self.kinds

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        if self.outside != "error":
            yield "outside does not apply: every other value is in the bucket"
        if self.levels[-1] != self.other or any(x != level_text(x) for x in self.levels):
            yield "levels must be canonical text, and the bucket must be the last of them"


def open_attributes(schema: Schema) -> tuple[OpenCategorical, ...]:
    """Return the attributes with open levels. Raise SchemaError if a rule names one of them."""
    opened = tuple(a for a in schema if isinstance(a, OpenCategorical))
    named = {name for rule in schema.rule_set.bound for name in rule.names}
    for attribute in opened:
        if attribute.name in named:
            raise SchemaError(
                f"a rule names {attribute.name!r}, whose levels are open. Declare its levels, or "
                "leave the rule out."
            )
    return opened


def check_levels_declared(attributes: Iterable[Attribute]) -> None:
    """Raise SchemaError if an attribute has open levels, where all levels must be declared."""
    for attribute in attributes:
        if isinstance(attribute, OpenCategorical):
            raise SchemaError(attribute.not_a_level(""))


def with_max_levels(schema: Schema) -> Schema:
    """Return the schema with the largest number of levels that a fit may release. Public."""
    levels = {a.name: _placeholder_levels(a) for a in schema if isinstance(a, OpenCategorical)}
    return with_levels(schema, levels)


def _placeholder_levels(attribute: OpenCategorical) -> list[str]:
    """Return the largest number of levels that a fit may release, without the bucket."""
    texts = (f"level {k}" for k in range(attribute.max_levels + 1))
    return [text for text in texts if text != attribute.other][: attribute.max_levels]


def with_levels(schema: Schema, levels: Mapping[str, Iterable[str]]) -> Schema:
    """Return a schema with the levels that a fit released."""
    opened = (a for a in schema if isinstance(a, OpenCategorical) and a.name in levels)
    return schema.with_attributes({a.name: a.with_levels(levels[a.name]) for a in opened})
