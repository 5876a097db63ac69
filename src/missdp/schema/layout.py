"""Facts of a schema about all rows of a table: file layout, units, and weights.

Each class here is a table of the TOML file of a schema, with the same fields: ``[file]``,
``[unit]`` and ``[weight]``. Nothing is guessed from cells.
"""

from __future__ import annotations

import codecs
import difflib
import encodings
import pkgutil
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import Field
from pydantic.dataclasses import dataclass

from missdp.errors import SchemaError, did_you_mean
from missdp.schema.attributes import Text, read_number
from missdp.serialization import Record

TOP_LEVEL: Final = ("format", "ledger", "ignore")
"""The fields of a TOML file above its tables."""


@dataclass(frozen=True)
class SchemaTable(Record, abstract=True):
    """Base class of the tables of a schema file that describe all rows, such as ``[file]``.

    A subclass sets ``table``, the name of its table in the file. The keys of the table are the
    fields of the subclass.
    """

    table: ClassVar[str]

    sparse = True

    @classmethod
    def from_table(cls, data: Any) -> Self:
        """Create the facts of a table of a schema's TOML file from its keys and values.

        Parameters
        ----------
        data : mapping of str to JSON value
            The keys and values of the table, without the key ``kind``. Public.

        Returns
        -------
        SchemaTable
            An instance of this class. Public.

        Raises
        ------
        SchemaError
            If the data are not a table, or if a key is unknown, absent or of the wrong type. Also
            if a value is out of its range. The message names the table and the field.
        """
        if not isinstance(data, Mapping):
            names = ", ".join(f.name for f in fields(cls))
            why = f"must be a table: write [{cls.table}] and its fields below, which are {names}"
            raise SchemaError(f"{cls.table} {why}")
        if "kind" in data:
            raise cls._refusal(data, cls._unknown_field("kind"))
        return cls.from_dict(data)

    def to_table(self) -> dict[str, Any]:
        """Return the keys and values of the table in a schema's TOML file.

        Returns
        -------
        dict of str to JSON value
            The facts that differ from their defaults. Public.
        """
        return {name: value for name, value in self.to_dict().items() if name != "kind"}

    @classmethod
    def _refusal(cls, data: Mapping[str, Any], why: str) -> SchemaError:
        del data
        return SchemaError(f"[{cls.table}]: {why}")

    @classmethod
    def _unknown_field(cls, name: str) -> str:
        if name in TOP_LEVEL:
            return f"unknown field {name!r}. Write it above the first table of the file."
        return super()._unknown_field(name)

    def _wrong(self, why: str) -> SchemaError:
        return self._refusal({}, why)


Column: TypeAlias = Annotated[str, Field(min_length=1, description="the name of a column")]
Texts: TypeAlias = Annotated[tuple[Text, ...], Field(description="a list of texts")]
Thousands: TypeAlias = Annotated[
    str,
    Field(pattern="^[.,'_ \u2019\u00a0\u202f]?$", description="empty, or one of . , ' _ and blank"),
]
LargestWeight: TypeAlias = Annotated[
    float,
    Field(gt=0, lt=2.0**53, description="the largest weight that counts, above 0 and below 2**53"),
]


@dataclass(frozen=True, kw_only=True)
class Layout(SchemaTable):
    """Format of the text files of a table: separators, encoding, number format and column names.

    Pass it as ``file`` to :class:`Schema` if CSV files have no header line or are not UTF-8. It
    also declares numbers with a decimal comma or digit groups. In a TOML file it is the table
    ``[file]``.

    Parameters
    ----------
    delimiter : {",", ";", "|"}, default ","
        The character between the fields of text files without a header line. In ``.tsv`` it is a
        tab. In all other files the header line shows it.
    encoding : str, default "utf-8"
        The encoding of text files, by its name in Python: ``"latin-1"``, ``"cp1252"``,
        ``"utf-16"``. It must contain ASCII, or be UTF-16 or UTF-32. Python decodes the files.
    decimal : {".", ","}, default "."
        The decimal mark of numbers in text.
    thousands : str, default ""
        The separator of digit groups of numbers in text: empty, one of ``.,'_`` or a blank.
    header : tuple of str, default ()
        The names of the columns, in order, of text files that have no header line.
    undeclared : tuple of str, default ()
        Names of the fields that were read from private cells, and have not been declared public
        yet. A release raises SchemaError for a schema with these marks, unless they are accepted.

    Raises
    ------
    SchemaError
        If a field has another type or value, the encoding is unknown, ``header`` repeats a name, or
        ``thousands`` equals ``decimal``.

    Examples
    --------
    >>> from missdp.schema import Layout, Numeric, Schema
    >>> pay = Numeric(name="pay", lower=0, upper=9999)
    >>> schema = Schema((pay,), file=Layout(decimal=",", thousands="."))
    >>> schema.file.number("1.234,5"), schema.file.number("1.5")
    (1234.5, None)
    """

    table = "file"

    delimiter: Annotated[str, Field(pattern="^[,;|]$", description="',', ';' or '|'")] = ","
    encoding: str = "utf-8"
    decimal: Annotated[str, Field(pattern="^[.,]$", description="'.' or ','")] = "."
    thousands: Thousands = ""
    header: Texts = ()
    undeclared: Texts = ()

    def __post_init__(self) -> None:
        if len({*self.header}) < len(self.header) or not all(self.header):
            raise self._wrong("header must name each column once")
        marked = [f.name for f in fields(self) if f.name != "undeclared"]
        if unknown := [name for name in self.undeclared if name not in marked]:
            near = did_you_mean(unknown[0], marked)
            raise self._wrong(f"undeclared must list some of {', '.join(marked)}{near}")
        if self.thousands == self.decimal:
            raise self._wrong("thousands must differ from decimal")
        if not _decodes_row_by_row(self.encoding):
            near = did_you_mean(self.encoding, _encodings())
            raise self._wrong(
                f"encoding {self.encoding!r} cannot be read. It must be an encoding of Python that "
                f"contains ASCII, such as latin-1, or UTF-16 or UTF-32{near}"
            )

    @property
    def plain(self) -> bool:
        """True if numbers in text have a decimal point and no digit groups, as declared.

        Returns
        -------
        bool
            Public.
        """
        return (self.decimal, self.thousands) == (".", "")

    @property
    def is_utf8(self) -> bool:
        """True if text files are declared to be UTF-8, with or without a byte order mark.

        Returns
        -------
        bool
            Public.
        """
        return codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig")

    def number(self, text: str) -> float | None:
        """Read the text of a cell as a number in the declared number format of text files.

        Parameters
        ----------
        text : str
            The text without blanks around it. Private, if the cell is private.

        Returns
        -------
        float or None
            The number. None if the text is not a number in this format. As private as the text.
        """
        integer, mark, fraction = text.partition(self.decimal)
        if self.thousands and self.thousands in integer:
            if not re.fullmatch(
                rf"[+-]?[0-9]{{1,3}}(?:{re.escape(self.thousands)}[0-9]{{3}})+", integer
            ):
                return None
            integer = integer.replace(self.thousands, "")
        if "." in integer + fraction:
            return None
        return read_number(f"{integer}.{fraction}" if mark else integer)


# ASCII text with sequences that decode differently in some encodings. The state of UTF-7 and of
# ISO-2022 lasts beyond a row. IDNA is an encoding of single names.
_PROBES: Final = (b"\\u0041", bytes(range(128)) + b" +AGE- ~{<:~} \x1b$B0!\x1b(B .xn--9ca.")
_WIDE: Final = re.compile("utf-(16|32)(-[lb]e)?")


@cache
def _decodes_row_by_row(encoding: str) -> bool:
    """Return True if text decodes row by row: no row changes the decoding of the next row."""
    try:
        if _WIDE.fullmatch(codecs.lookup(encoding).name):
            return True
        return all(probe.decode(encoding) == probe.decode("ascii") for probe in _PROBES)
    except (LookupError, ValueError):  # unknown encoding, or not an encoding of text
        return False


def _encodings() -> list[str]:
    """Return the names of encodings that can be read."""
    names = (module.name for module in pkgutil.iter_modules(encodings.__path__))
    return [name for name in names if _decodes_row_by_row(name)]


PLAIN: Final = Layout()
"""The layout of files in UTF-8 with a header line, whose numbers have a point."""


UnitCounts = Literal["rows", "one"]
"""The count of a unit: its number of rows, or one."""
MissingUnit = Literal["drop", "refuse", "own_unit"]
"""Treatment of rows without an identifier: drop, refuse, or count each as a unit."""

STEPS: Final = 1 << 20
"""Steps of the largest count of one row. Rows count whole numbers of steps."""


@dataclass(frozen=True)
class Unit(SchemaTable):
    """The unit of protection: all rows with one identifier, such as all visits of one patient.

    Declare it in a schema if several rows may belong to one person. The guarantee then covers all
    rows of a unit together. The column of identifiers is read to group rows by unit. It is never
    modelled, and no identifier is released. In a TOML file it is the table ``[unit]``.

    Parameters
    ----------
    column : str
        Name of the column of identifiers. It is not an attribute of the schema. The name ``row`` is
        not allowed.
    max_rows : int, default 1
        The largest number of rows per unit, from 1 to 1,000,000. From a unit with more rows, this
        number of rows is drawn at random. With ``counts_as="rows"`` the noise grows in proportion
        to it.
    if_missing : {"drop", "refuse", "own_unit"}, default "drop"
        Treatment of rows without an identifier. ``"drop"`` omits them. ``"refuse"`` raises
        DataError. ``"own_unit"`` counts each row as a separate unit. The guarantee then states the
        condition that no two of these rows belong to one unit. The condition is not checked.
    missing_codes : tuple of str, default ()
        Codes for an absent identifier, such as ``"NA"``. Null and empty cells are always absent.
    counts_as : {"rows", "one"}, default "rows"
        The count of a unit: its number of rows that take part, or one. With ``"one"`` each row has
        an equal part of the count, and the noise does not grow with ``max_rows``.

    Raises
    ------
    SchemaError
        If a field has another type or value, or the column is named ``row``.

    Examples
    --------
    >>> from missdp.schema import Unit
    >>> Unit("patient_id", max_rows=5)
    Unit(column='patient_id', max_rows=5, if_missing='drop', missing_codes=(), counts_as='rows')
    """

    table = "unit"

    column: Column
    max_rows: Annotated[
        int, Field(ge=1, le=1_000_000, description="a whole number from 1 to 1,000,000")
    ] = 1
    if_missing: MissingUnit = "drop"
    missing_codes: Texts = ()
    counts_as: UnitCounts = "rows"

    def __post_init__(self) -> None:
        if self.column == "row":
            raise self._wrong(
                "the column 'row' cannot identify units, since guarantees for single rows use this "
                "name. Rename the column."
            )

    @property
    def bound(self) -> int:
        """Largest amount, in rows, that all rows of one unit of protection add to a count together.

        A unit of protection is the set of rows with one identifier. The noise of a count is
        proportional to this amount.

        Returns
        -------
        int
            ``max_rows``, or 1 if a unit counts as one. In rows, at least 1. Public.
        """
        return self.max_rows if self.counts_as == "rows" else 1


@dataclass(frozen=True)
class SurveyWeight(SchemaTable):
    """Survey weights of rows: a column whose numbers state how much each row counts.

    Declare it in a schema for a sample in which rows represent different numbers of people. The
    column is read, and never modelled or sampled. A row counts ``min(weight, upper) / upper``,
    rounded down to a multiple of 2**-20. The count is at most 1, so weights cost no privacy, and
    the noise is as large as without weights. Doubling ``upper`` halves the counts of all rows below
    it. In a TOML file it is the table ``[weight]``.

    The guarantee states the condition `WeightsOfRows`: no weight was computed from other rows. The
    condition is not checked.

    Parameters
    ----------
    column : str
        Name of the column of weights. It is not an attribute of the schema.
    upper : float
        The largest weight that counts, above 0 and below 2**53, in the unit of the weights. It is a
        public fact, such as a fact of the survey's design. Larger weights count as ``upper``.
    default : float, default 0.0
        The weight of rows whose cell is missing, negative or not a number, from 0 to ``upper``.

    Raises
    ------
    SchemaError
        If a field has another type or is out of range.

    Examples
    --------
    >>> from missdp.schema import SurveyWeight
    >>> SurveyWeight("wt", upper=500)
    SurveyWeight(column='wt', upper=500.0, default=0.0)
    """

    table = "weight"

    column: Column
    upper: LargestWeight
    default: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.default <= self.upper:
            raise self._wrong("default must be from 0 to upper")


TABLES: Final[dict[str, type[SchemaTable]]] = {
    kind.table: kind for kind in (Unit, SurveyWeight, Layout)
}
"""The tables of a schema's TOML file about all rows of a table, and their classes."""


def field_hint(key: str, valid_keys: Iterable[str] = ()) -> str:
    """Return the advice for an unknown key above all tables: a field of a table, or a valid key.

    >>> from missdp.schema.layout import field_hint
    >>> field_hint("max_rows"), field_hint("weight_upper")
    (". Write 'max_rows' in the table [unit].", ". Write 'upper' in the table [weight].")
    """
    places: dict[str, str] = {}
    for name, kind in TABLES.items():
        for f in fields(kind):
            for spelling in (f.name, f"{name}_{f.name}", f"{f.name}_{name}"):
                places.setdefault(spelling, f". Write {f.name!r} in the table [{name}].")
    near = [key] if key in places else difflib.get_close_matches(key, [*valid_keys, *places], n=1)
    return places.get(near[0]) or f". Did you mean {near[0]!r}?" if near else ""
