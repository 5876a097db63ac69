"""Facts of a schema about a whole table: how its files are written, units, and weights.

Each class here is a table of the TOML file of a schema, with the same fields: ``[file]``,
``[unit]`` and ``[weight]``. Nothing is guessed from cells.
"""

from __future__ import annotations

import codecs
import difflib
import encodings
import pkgutil
import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Final, Literal, Self, cast, get_args, get_origin, get_type_hints

from missdp.errors import MissDPError, SchemaError, did_you_mean, replacing
from missdp.record import COUNT_FROM_1, Record, fits
from missdp.schema.attributes import read_number

_DELIMITERS: Final = (",", ";", "|")
_DECIMAL: Final = (".", ",")
_THOUSANDS: Final = ("", ".", ",", "'", "\u2019", "_", " ", "\u00a0", "\u202f")
TOP_LEVEL: Final = ("format", "ledger", "ignore")
"""What a TOML file states above its tables."""


@dataclass(frozen=True)
class SchemaTable(Record, abstract=True):
    """A table of the TOML file of a schema. The keys of the table are the fields of the class."""

    table: ClassVar[str]

    def __post_init__(self) -> None:
        """Check the type of each field. A list becomes a tuple, and a whole number a float."""
        for name, hint in _hints(cast(Hashable, type(self))).items():
            value = getattr(self, name)
            if isinstance(value, list):
                value = tuple(value)
            if hint is float and type(value) is int:
                value = float(value)
            if not fits(value, hint):
                raise SchemaError(f"{name} must be {_expected(value, hint)}")
            object.__setattr__(self, name, value)
        super().__post_init__()

    @classmethod
    def from_table(cls, data: Any) -> Self:
        """Return the facts that a table states.

        Raises
        ------
        SchemaError
            If it is no table, a key is unknown, required or of the wrong type, or a value is out of
            its range. The message names the table and the field.
        """
        known = [f.name for f in fields(cls)]
        if not isinstance(data, Mapping):
            raise SchemaError(
                f"{cls.table} must be a table: write [{cls.table}] and its fields below, which are "
                f"{', '.join(known)}"
            )
        if unknown := [str(key) for key in data if key not in known]:
            end = did_you_mean(unknown[0], known) or f". Known fields: {', '.join(known)}."
            if unknown[0] in TOP_LEVEL:
                end = ". Write it above the first table of the file."
            raise SchemaError(f"[{cls.table}]: unknown field {unknown[0]!r}{end}")
        needed = [f.name for f in fields(cls) if f.default is MISSING and f.name not in data]
        if needed:
            raise SchemaError(f"[{cls.table}]: {needed[0]} is required: {_MEANINGS[needed[0]]}")
        with replacing(MissDPError, by=lambda error: SchemaError(f"[{cls.table}]: {error}")):
            return cls(**data)

    def to_table(self) -> dict[str, Any]:
        """Return the facts as a table states them, without those that are as by default."""
        stated = ((f.name, getattr(self, f.name)) for f in fields(self) if not self._is_default(f))
        return {name: list(v) if isinstance(v, tuple) else v for name, v in stated}

    def _is_default(self, known: Any) -> bool:
        return known.default is not MISSING and getattr(self, known.name) == known.default


@cache
def _hints(kind: Hashable) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind)}  # type: ignore[arg-type]


def _expected(value: Any, hint: Any) -> str:
    """Return which values a type has, with the one that is most like a value."""
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        return f"one of {', '.join(map(repr, choices))}{did_you_mean(value, choices)}"
    return {str: "a text", int: "a whole number", float: "a number"}.get(hint, "a list of texts")


_MEANINGS: Final = {
    "column": "the name of a column",
    "upper": "the largest weight that counts, a public fact",
}


@dataclass(frozen=True, kw_only=True)
class Layout(SchemaTable):
    """How the text files of a table are written: the table ``[file]`` of a schema.

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
        What groups the digits of numbers in text: nothing, or one of ``.,'_`` or a blank.
    header : tuple of str, default ()
        The names of the columns, in order, of text files that have no header line.
    undeclared : tuple of str, default ()
        Those of the other fields that were read from private cells, and that nobody has declared
        public yet. A release refuses a schema with such marks unless they are accepted.

    Examples
    --------
    >>> from missdp.schema import Layout, Numeric, Schema
    >>> pay = Numeric(name="pay", lower=0, upper=9999)
    >>> schema = Schema((pay,), file=Layout(decimal=",", thousands="."))
    >>> schema.file.number("1.234,5"), schema.file.number("1.5")
    (1234.5, None)
    """

    table = "file"

    delimiter: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str = ""
    header: tuple[str, ...] = ()
    undeclared: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if len({*self.header}) < len(self.header) or not all(self.header):
            raise SchemaError("header must name each column once")
        marked = [f.name for f in fields(self) if f.name != "undeclared"]
        if unknown := [name for name in self.undeclared if name not in marked]:
            near = did_you_mean(unknown[0], marked)
            raise SchemaError(f"undeclared must list some of {', '.join(marked)}{near}")
        if self.delimiter not in _DELIMITERS:
            raise SchemaError("delimiter must be ',', ';' or '|'")
        if self.decimal not in _DECIMAL:
            raise SchemaError("decimal must be '.' or ','")
        if self.thousands not in _THOUSANDS or self.thousands == self.decimal:
            raise SchemaError("thousands must be empty, or another of . , ' _ and blank")
        if not _decodes_row_by_row(self.encoding):
            near = did_you_mean(self.encoding, _encodings())
            raise SchemaError(
                f"encoding {self.encoding!r} cannot be read. It must be an encoding of Python that "
                f"contains ASCII, such as latin-1, or UTF-16 or UTF-32{near}"
            )

    @property
    def plain(self) -> bool:
        """Whether numbers in text are written as everywhere: with a point, and ungrouped."""
        return (self.decimal, self.thousands) == (".", "")

    @property
    def is_utf8(self) -> bool:
        """Whether text files are UTF-8, with or without a mark in front."""
        return codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig")

    def number(self, text: str) -> float | None:
        """Return the number that a text is, written as declared; None if it is none."""
        whole, mark, fraction = text.partition(self.decimal)
        if self.thousands and self.thousands in whole:
            if not re.fullmatch(
                rf"[+-]?[0-9]{{1,3}}(?:{re.escape(self.thousands)}[0-9]{{3}})+", whole
            ):
                return None
            whole = whole.replace(self.thousands, "")
        if "." in whole + fraction:
            return None
        return read_number(f"{whole}.{fraction}" if mark else whole)


# ASCII, with the sequences that mean something else in encodings whose state lasts beyond a row,
# such as UTF-7 and ISO-2022, and in encodings of single names, such as IDNA.
_PROBES: Final = (b"\\u0041", bytes(range(128)) + b" +AGE- ~{<:~} \x1b$B0!\x1b(B .xn--9ca.")
_WIDE: Final = re.compile("utf-(16|32)(-[lb]e)?")


@cache
def _decodes_row_by_row(encoding: str) -> bool:
    """Whether text in an encoding decodes row by row: no row changes how the next one is read."""
    try:
        if _WIDE.fullmatch(codecs.lookup(encoding).name):
            return True
        return all(probe.decode(encoding) == probe.decode("ascii") for probe in _PROBES)
    except (LookupError, ValueError):  # there is no such encoding, or it is none of text
        return False


def _encodings() -> list[str]:
    """Return the names of encodings that can be read."""
    known = (one.name for one in pkgutil.iter_modules(encodings.__path__))
    return [name for name in known if _decodes_row_by_row(name)]


PLAIN: Final = Layout()
"""The layout of files in UTF-8 with a header line, whose numbers have a point."""


UnitCounts = Literal["rows", "one"]
"""What all rows of a unit together count as: as many as they are, or one."""
MissingUnit = Literal["drop", "refuse", "own_unit"]
"""What becomes of rows without an identifier: left out, a reason to refuse, each on its own."""

STEPS: Final = 1 << 20
"""Of what one row counts at most: rows count whole numbers of these."""
_MOST_ROWS: Final = 1_000_000  # below it, so that no row of a unit counts for nothing
_LARGEST: Final = 2.0**53


@dataclass(frozen=True)
class Unit(SchemaTable):
    """The unit of protection: all rows that have the same identifier belong to one unit.

    The column of identifiers is read to know which rows belong together. It is never modelled, and
    no identifier leaves. In a TOML file it is the table ``[unit]``.

    Parameters
    ----------
    column : str
        Name of the column of identifiers. It is no attribute of the schema.
    max_rows : int, default 1
        How many rows of a unit take part at most, from 1 to 1,000,000. Of a unit with more, so many
        are chosen at random. The noise grows in proportion to it.
    if_missing : {"drop", "refuse", "own_unit"}, default "drop"
        What becomes of rows without an identifier. ``"own_unit"`` counts each as a unit of its own,
        and the guarantee then rests on the condition that no two of them belong together.
    missing_codes : tuple of str, default ()
        Identifiers that stand for none, such as ``"NA"``. Null and empty ones always do.
    counts_as : {"rows", "one"}, default "rows"
        What a unit counts as: as many as it has rows that take part, or one, of which each of its
        rows has an equal part. Then the noise does not grow with ``max_rows``.

    Examples
    --------
    >>> Unit("patient_id", max_rows=5)
    Unit(column='patient_id', max_rows=5, if_missing='drop', missing_codes=(), counts_as='rows')
    """

    table = "unit"

    column: str
    max_rows: int = field(default=1, metadata=COUNT_FROM_1)
    if_missing: MissingUnit = "drop"
    missing_codes: tuple[str, ...] = ()
    counts_as: UnitCounts = "rows"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.column:
            raise SchemaError("column must be the name of a column")
        if self.column == "row":
            raise SchemaError(
                "a column called 'row' cannot identify units, for a guarantee for each row is said "
                "by that name: rename it"
            )
        if self.max_rows > _MOST_ROWS:
            raise SchemaError(f"max_rows must be at most {_MOST_ROWS:,}")

    @property
    def bound(self) -> int:
        """How much all its rows count together at most."""
        return self.max_rows if self.counts_as == "rows" else 1


@dataclass(frozen=True)
class SurveyWeight(SchemaTable):
    """How much each row counts: the weight in a column, as a share of the largest that counts.

    The column is read, and never modelled or sampled. A row counts ``min(weight, upper) / upper``,
    rounded down to a multiple of 2**-20: 1 at most, so that weights cost no privacy. Noise is as
    large as without them, and ``upper`` weighs as much: one that is twice as large halves what all
    others count for. In a TOML file it is the table ``[weight]``.

    Parameters
    ----------
    column : str
        Name of the column of weights. It is no attribute of the schema.
    upper : float
        The largest weight that counts, a public fact such as one of the survey's design; larger
        ones count as this one.
    default : float, default 0.0
        The weight of rows whose own is missing, negative or none; at most ``upper``.

    Examples
    --------
    >>> SurveyWeight("wt", upper=500)
    SurveyWeight(column='wt', upper=500.0, default=0.0)
    """

    table = "weight"

    column: str
    upper: float
    default: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.column:
            raise SchemaError("column must be the name of a column")
        if not 0 < self.upper < _LARGEST:
            raise SchemaError("upper must be a number above 0, and below 2**53")
        if not 0 <= self.default <= self.upper:
            raise SchemaError("default must be from 0 to upper")


TABLES: Final[dict[str, type[SchemaTable]]] = {
    kind.table: kind for kind in (Unit, SurveyWeight, Layout)
}
"""The tables of a schema's TOML file about a whole table, and their classes."""


def place_of(key: str, known: Iterable[str] = ()) -> str:
    """Return what an unknown key above all tables means: a field of a table, or a known key.

    >>> place_of("max_rows"), place_of("weight_upper")
    (". Write 'max_rows' in the table [unit].", ". Write 'upper' in the table [weight].")
    """
    places: dict[str, str] = {}
    for name, kind in TABLES.items():
        for f in fields(kind):
            for spelling in (f.name, f"{name}_{f.name}", f"{f.name}_{name}"):
                places.setdefault(spelling, f". Write {f.name!r} in the table [{name}].")
    near = [key] if key in places else difflib.get_close_matches(key, [*known, *places], n=1)
    return places.get(near[0]) or f". Did you mean {near[0]!r}?" if near else ""
