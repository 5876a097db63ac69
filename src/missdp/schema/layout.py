"""What a schema declares of a table besides columns: its layout, whose rows, how much they count.

All of it is declared for a whole table, once: nothing is guessed from cells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, get_args

from missdp.errors import SchemaError
from missdp.record import COUNT_FROM_1, Record
from missdp.schema.attributes import read_number

_SEPARATORS: Final = (",", ";", "|")
_DECIMAL: Final = (".", ",")
_THOUSANDS: Final = ("", ".", ",", "'", "\u2019", "_", " ", "\u00a0", "\u202f")
FILE_FACTS: Final = ("columns", "separator", "decimal", "thousands")
"""What the table ``[file]`` of a schema states."""


@dataclass(frozen=True, kw_only=True)
class Layout(Record):
    """Columns that are never read, and how text is written in the files of a table.

    Parameters
    ----------
    ignore : tuple of str, default ()
        Columns that are left out: never read, and not written.
    keys : tuple of str, default ()
        Columns that tell rows apart: never read, and written with fresh whole numbers from 1 on,
        before all others.
    columns : tuple of str, default ()
        The names of the columns of text files that have no header line, in their order.
    separator : {",", ";", "|"}, default ","
        What separates the fields of text files without a header line; in ``.tsv`` it is a tab. In
        all other files the header line tells.
    decimal : {".", ","}, default "."
        The decimal mark of numbers in text.
    thousands : str, default ""
        What groups the digits of numbers in text: nothing, or one of ``.,'_`` or a blank.
    undeclared : tuple of str, default ()
        Those of ``ignore`` and ``keys`` that were left unread because of private cells, which
        nobody has declared public yet. A release refuses a schema with such marks unless
        they are accepted.
    undeclared_marks : tuple of str, default ()
        Those of ``columns``, ``separator``, ``decimal`` and ``thousands`` that were read from
        private cells, with the same consequence. A file states them as ``undeclared`` in
        ``[file]``.

    Examples
    --------
    >>> from missdp.schema import Layout, Numeric, Schema
    >>> pay = Numeric(name="pay", lower=0, upper=9999)
    >>> layout = Layout(ignore=("note",), keys=("id",), decimal=",", thousands=".")
    >>> schema = Schema((pay,), layout=layout)
    >>> schema.layout.number("1.234,5"), schema.layout.number("1.5")
    (1234.5, None)
    """

    ignore: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    separator: str = ","
    decimal: str = "."
    thousands: str = ""
    undeclared: tuple[str, ...] = ()
    undeclared_marks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("ignore", "keys", "columns", "undeclared", "undeclared_marks"):
            given = getattr(self, name)
            listed = tuple(given) if isinstance(given, (list, tuple)) else None
            if listed is None or not all(isinstance(n, str) and n for n in listed):
                raise SchemaError(f"{name} must be a list of names of columns")
            object.__setattr__(self, name, listed)
        for names in (self.unread, self.columns):
            if len({*names}) < len(names):
                raise SchemaError("ignore, keys and columns name each column once")
        if not {*self.undeclared} <= {*self.unread}:
            raise SchemaError("undeclared marks columns of ignore and keys only")
        if not {*self.undeclared_marks} <= {*FILE_FACTS}:
            raise SchemaError(f"undeclared in [file] marks {', '.join(FILE_FACTS)} only")
        if self.separator not in _SEPARATORS:
            raise SchemaError("separator must be ',', ';' or '|'")
        if self.decimal not in _DECIMAL:
            raise SchemaError("decimal must be '.' or ','")
        if self.thousands not in _THOUSANDS or self.thousands == self.decimal:
            raise SchemaError("thousands must be empty, or another of . , ' _ and blank")

    def to_dict(self) -> dict[str, Any]:
        """Return whatever is not as by default."""
        default = {f.name: f.default for f in fields(self)}
        return {n: v for n, v in super().to_dict().items() if getattr(self, n) != default.get(n)}

    @classmethod
    def _refusal(cls, data: Mapping[str, Any], why: str) -> SchemaError:
        del data
        return SchemaError(f"the layout is not valid: {why}")

    @property
    def unread(self) -> tuple[str, ...]:
        """The columns that are never read."""
        return (*self.keys, *self.ignore)

    @property
    def plain(self) -> bool:
        """Whether numbers in text are written as everywhere: with a point, and ungrouped."""
        return (self.decimal, self.thousands) == (".", "")

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


PLAIN: Final = Layout()
"""The layout of a table of which every column is read, as it is."""


UnitCounts = Literal["rows", "unit"]
"""What all rows of a unit together count for: as many as they are, or one."""
MissingUnit = Literal["drop", "refuse", "own"]
"""What becomes of rows without an identifier: left out, a reason to refuse, each on its own."""

UNIT_FACTS: Final = {
    "unit": "column", "max_rows": "max_rows",
    "missing_unit": "missing", "unit_missing_codes": "missing_codes",
}  # fmt: skip
"""What people write in a schema, and what a `Unit` calls it."""
WEIGHT_FACTS: Final = {"weight": "column", "weight_upper": "upper", "weight_default": "default"}
"""The same of a `SurveyWeight`; ``weight`` may also be ``"unit"``, or both."""
EACH_UNIT: Final = "unit"
"""What people write as ``weight`` where all rows of a unit count as one together."""

STEPS: Final = 1 << 20
"""Of what one row counts at most: rows count whole numbers of these."""
_MOST_ROWS: Final = 1_000_000  # below it, so that no row of a unit counts for nothing
_LARGEST: Final = 2.0**53


@dataclass(frozen=True)
class Unit(Record):
    """The unit of protection: all rows that have the same identifier belong to one unit.

    The column of identifiers is read to know which rows belong together. It is never modelled, and
    no identifier leaves.

    Parameters
    ----------
    column : str
        Name of the column of identifiers. It is no attribute of the schema.
    max_rows : int, default 1
        How many rows of a unit take part at most, from 1 to 1,000,000. Of a unit with more, so many
        are chosen at random. The noise grows in proportion to it.
    missing : {"drop", "refuse", "own"}, default "drop"
        What becomes of rows without an identifier. ``"own"`` counts each as a unit of its own, and
        the guarantee then rests on the condition that no two of them belong together.
    missing_codes : tuple of str, default ()
        Identifiers that stand for none, such as ``"NA"``. Null and empty ones always do.
    counts : {"rows", "unit"}, default "rows"
        What a unit counts for: as many as it has rows that take part, or one, of which each of its
        rows has an equal part. Then the noise does not grow with ``max_rows``.

    Examples
    --------
    >>> Unit("patient_id", max_rows=5)
    Unit(column='patient_id', max_rows=5, missing='drop', missing_codes=(), counts='rows')
    """

    column: str
    max_rows: int = field(default=1, metadata=COUNT_FROM_1)
    missing: MissingUnit = "drop"
    missing_codes: tuple[str, ...] = ()
    counts: UnitCounts = "rows"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.column, str) and self.column):
            raise SchemaError("unit must be the name of a column")
        if self.column == "row":
            raise SchemaError(
                "a column called 'row' cannot identify units, for a guarantee for each row is said "
                "by that name: rename it"
            )
        if self.max_rows > _MOST_ROWS:
            raise SchemaError(f"max_rows must be at most {_MOST_ROWS:,}")
        if self.missing not in get_args(MissingUnit):
            raise SchemaError(f"missing_unit must be one of {', '.join(get_args(MissingUnit))}")
        object.__setattr__(self, "missing_codes", tuple(self.missing_codes))
        if not all(isinstance(code, str) for code in self.missing_codes):
            raise SchemaError("unit_missing_codes must be texts")
        if self.counts not in get_args(UnitCounts):
            raise SchemaError(f"counts must be one of {', '.join(get_args(UnitCounts))}")

    @property
    def bound(self) -> int:
        """How much all its rows count together at most."""
        return self.max_rows if self.counts == "rows" else 1

    def said(self) -> dict[str, Any]:
        """Return the facts as people write them, without those that are as by default."""
        facts = {name: getattr(self, ours) for name, ours in UNIT_FACTS.items()}
        return {name: fact for name, fact in facts.items() if fact not in ((), "drop")}

    @classmethod
    def said_in(cls, data: Mapping[str, Any]) -> Unit | None:
        """Return the unit that a document of ours, or what people write, declares; None if none."""
        if isinstance(data.get("unit"), Mapping):
            return cls.from_dict(data["unit"])
        given = {
            ours: data[name] for name, ours in UNIT_FACTS.items() if data.get(name) is not None
        }
        if given and "column" not in given:
            raise SchemaError(f"{', '.join([*UNIT_FACTS][1:])} are facts about a 'unit'")
        if EACH_UNIT in _weights_said(data):
            if not given:
                raise SchemaError("weight = 'unit' needs a 'unit'")
            given["counts"] = "unit"
        return cls(**given) if given else None


@dataclass(frozen=True)
class SurveyWeight(Record):
    """How much each row counts: the weight in a column, as a share of the largest that counts.

    The column is read, and never modelled or sampled. A row counts ``min(weight, upper) / upper``,
    rounded down to a multiple of 2**-20: 1 at most, so that weights cost no privacy. Noise is as
    large as without them, and ``upper`` weighs as much: one that is twice as large halves what all
    others count for.

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

    column: str
    upper: float
    default: float = 0.0

    def __post_init__(self) -> None:
        for fact in ("upper", "default"):  # a whole number is one as well
            if type(number := getattr(self, fact)) is int:
                object.__setattr__(self, fact, float(number))
        super().__post_init__()
        if not (isinstance(self.column, str) and self.column):
            raise SchemaError("weight must be the name of a column")
        if not 0 < self.upper < _LARGEST:
            raise SchemaError("weight_upper must be a number above 0, and below 2**53")
        if not 0 <= self.default <= self.upper:
            raise SchemaError("weight_default must be from 0 to weight_upper")

    def said(self) -> dict[str, Any]:
        """Return the facts as people write them, without those that are as by default."""
        facts = {name: getattr(self, ours) for name, ours in WEIGHT_FACTS.items()}
        return {name: fact for name, fact in facts.items() if fact}

    @classmethod
    def said_in(cls, data: Mapping[str, Any]) -> SurveyWeight | None:
        """Return the survey weight that a document of ours, or what people write, declares."""
        if isinstance(data.get("weight"), Mapping):
            return cls.from_dict(data["weight"])
        given = {
            ours: data[name] for name, ours in WEIGHT_FACTS.items() if data.get(name) is not None
        }
        columns = [name for name in _weights_said(data) if name != EACH_UNIT]
        facts = given.keys() - {"column"}
        if len(columns) > 1 or (facts and not columns):
            raise SchemaError(
                f"{', '.join([*WEIGHT_FACTS][1:])} are facts about one column, 'weight'"
            )
        if columns and "upper" not in given:
            raise SchemaError("weight needs weight_upper: the largest that counts, a public fact")
        return cls(**given | {"column": columns[0]}) if columns else None


def _weights_said(data: Mapping[str, Any]) -> list[Any]:
    said = data.get("weight")
    if said is None or isinstance(said, Mapping):
        return []
    return list(said) if isinstance(said, (list, tuple)) else [said]
