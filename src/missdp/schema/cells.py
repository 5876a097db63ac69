"""What one cell means: a function of the cell and of public facts, never of other rows.

Every container (pandas, polars, Arrow, CSV, Parquet, DuckDB) hands its cells to the two readers
here, as text, as a number or as true/false. So the same value means the same thing everywhere, and
one person's cell cannot change how another person's cell is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["MAX_WHOLE", "MISSING", "OUTSIDE", "LevelReader", "number_text", "read_number"]


MAX_WHOLE: Final = 2**53  # from here on, floating-point numbers skip whole ones
MISSING: Final = -1
OUTSIDE: Final = -2

_NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)",
    re.IGNORECASE | re.ASCII,
)
_TRUTH = {"true": True, "false": False}


def read_number(text: str) -> float | None:
    """Return the floating-point number nearest to what is written, None if it is no number.

    Digits are 0 to 9, with an optional sign, decimal point and exponent; ``inf``, ``infinity`` and
    ``nan`` in any case. Nothing else: no blanks, no thousands separators, no other bases.

    Examples
    --------
    >>> read_number("007"), read_number("-.5e1"), read_number("1_000"), read_number("0x10")
    (7.0, -5.0, None, None)
    """
    return float(text) if _NUMBER.fullmatch(text) else None


def number_text(number: float) -> str:
    """Return the shortest text of a number; a whole one has no decimal point.

    Examples
    --------
    >>> number_text(7.0), number_text(0.1), number_text(-0.0)
    ('7', '0.1', '0')
    """
    if number.is_integer() and abs(number) < MAX_WHOLE:
        return str(int(number))
    return repr(number)


class LevelReader:
    """Read cells of a column with levels.

    Text equal to a level, blanks around it apart, is that level. Anything else that is a number,
    or is written like one, is the level that is the same number; true and false likewise. Several
    levels that are the same number, such as ``"7"`` and ``"007"``, are told apart by their text
    only; a number without text is the one that is written shortest.

    Parameters
    ----------
    levels : iterable of str, of int or of bool
        The domain, in order.
    missing_codes : iterable of str, int or float
        What else stands for missing.

    Examples
    --------
    >>> reader = LevelReader(("7", "8"), ("?", -9))
    >>> [reader.read(cell) for cell in ("7", " 8 ", 7.0, "07.0", "?", -9.0, "", "9")]
    [0, 1, 0, 0, -1, -1, -1, -2]
    """

    def __init__(
        self,
        levels: Iterable[str | int | bool],
        missing_codes: Iterable[str | float] = (),
    ) -> None:
        self._text: dict[str, int] = {}
        self._truth: dict[bool, int] = {}
        self._number: dict[float, int] = {}
        numbers: dict[float, list[tuple[str, int]]] = {}
        truths: dict[bool, list[tuple[str, int]]] = {}
        for code, level in enumerate(levels):
            if isinstance(level, bool):
                self._truth[level] = self._number[float(level)] = code
            elif isinstance(level, int):
                self._number[float(level)] = code
            else:
                self._text[level] = code
                number, truth = read_number(level), _TRUTH.get(level.lower())
                if number is not None:
                    numbers.setdefault(number, []).append((level, code))
                if truth is not None:
                    truths.setdefault(truth, []).append((level, code))
        for number, found in numbers.items():
            self._number[number] = _chosen(found, number_text(number))
        for truth, found in truths.items():
            self._truth[truth] = _chosen(found, str(truth).lower())
        self._add_codes(missing_codes)

    def _add_codes(self, missing_codes: Iterable[str | float]) -> None:
        for code in missing_codes:
            number: float | None
            if isinstance(code, str):
                self._text.setdefault(code.strip(), MISSING)
                number = read_number(code.strip())
            else:
                number = float(code)
            if number is not None:
                self._number.setdefault(number, MISSING)

    def read(self, cell: str | float | bool) -> int:
        """Return the number of the cell's level, or ``MISSING``, or ``OUTSIDE``."""
        if isinstance(cell, str):
            return self._read_text(cell.strip())
        if isinstance(cell, bool):
            return self._truth.get(cell, OUTSIDE)
        return MISSING if cell != cell else self._number.get(cell, OUTSIDE)

    def _read_text(self, text: str) -> int:
        if not text:
            return MISSING
        code = self._text.get(text)
        if code is not None:
            return code
        number = read_number(text)
        if number is not None:
            return self.read(number)
        truth = _TRUTH.get(text.lower())
        return OUTSIDE if truth is None else self._truth.get(truth, OUTSIDE)


def _chosen(found: list[tuple[str, int]], shortest: str) -> int:
    """Return the level that a value without text stands for."""
    if len(found) == 1:
        return found[0][1]
    return dict(found).get(shortest, OUTSIDE)
