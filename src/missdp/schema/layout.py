"""How a table lies in its container, besides its columns: what is never read, how text is written.

All of it is declared for a whole file, once: nothing is guessed from cells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from missdp.errors import SchemaError
from missdp.record import Record
from missdp.schema.attributes import read_number

_SEPARATORS: Final = (",", ";", "|")
_DECIMAL: Final = (".", ",")
_THOUSANDS: Final = ("", ".", ",", "'", "\u2019", "_", " ", "\u00a0", "\u202f")


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

    def __post_init__(self) -> None:
        for name in ("ignore", "keys", "columns"):
            given = getattr(self, name)
            listed = tuple(given) if isinstance(given, (list, tuple)) else None
            if listed is None or not all(isinstance(n, str) and n for n in listed):
                raise SchemaError(f"{name} must be a list of names of columns")
            object.__setattr__(self, name, listed)
        for names in (self.unread, self.columns):
            if len({*names}) < len(names):
                raise SchemaError("ignore, keys and columns name each column once")
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
