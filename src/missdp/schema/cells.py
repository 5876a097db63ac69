"""What one cell means: a function of the cell and of public facts, never of other rows.

Every container (pandas, polars, Arrow, CSV, Parquet, DuckDB) hands its cells to the two readers
here, as text, as a number or as true/false. So the same value means the same thing everywhere, and
one person's cell cannot change how another person's cell is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_WHOLE", "MISSING", "OUTSIDE", "Bins", "LevelReader", "number_text", "read_number"]


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


class Bins:
    """Intervals of numbers, and single numbers at which many rows pile up: what codes stand for.

    Codes go up with the middle of what they stand for. A bin whose whole numbers are all spikes
    has no code of its own.

    Parameters
    ----------
    edges : array of float, shape (bins + 1,)
        Increasing. Bins are closed on the left; the last one is closed on both sides.
    spikes : sequence of float
        Distinct numbers from the first edge to the last one.
    integer : bool
        Whether values are whole numbers.

    Examples
    --------
    >>> bins = Bins(np.array([0.0, 10.0, 20.0]), spikes=(12.0,), integer=True)
    >>> bins.names, bins.encode(np.array([11.0, 12.0, 13.0])).tolist()
    (('[0, 10)', '12', '[10, 20) except 12'), [2, 1, 2])
    """

    def __init__(
        self, edges: NDArray[np.float64], *, spikes: Sequence[float], integer: bool
    ) -> None:
        self._edges, self._integer = edges, integer
        self._spikes = np.unique(np.asarray(spikes, dtype=np.float64)) + 0.0  # no -0.0
        self._home = self._bin_of(self._spikes)
        self.firsts = np.ceil(edges)
        """First whole number from each edge on; of the last one, the first after the domain."""
        self.firsts[-1] = edges[-1] + 1
        taken = np.bincount(self._home, minlength=len(edges) - 1)
        others = np.diff(self.firsts) - taken if integer else np.ones(len(edges) - 1)
        kept = np.flatnonzero(others > 0) if len(self._spikes) else np.arange(len(edges) - 1)
        low = np.concatenate([self._spikes, edges[:-1][kept]])
        high = np.concatenate([self._spikes, edges[1:][kept]])
        order = np.argsort((low + high) / 2, kind="stable")
        self._low, self._high = low[order], high[order]
        self._bin = np.concatenate([np.full(len(self._spikes), -1), kept])[order]
        code = np.argsort(order)
        self._spike_code = code[: len(self._spikes)]
        # Where only spikes are left, what is no spike (a mean, say) counts as one of them.
        self._bin_code = np.full(len(edges) - 1, -1, dtype=np.int64)
        self._bin_code[self._home] = self._spike_code
        self._bin_code[kept] = code[len(self._spikes) :]

    def _bin_of(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        codes = np.searchsorted(self._edges, values, side="right") - 1
        return np.clip(codes, 0, len(self._edges) - 2)

    @property
    def size(self) -> int:
        """Number of codes."""
        return len(self._low)

    @property
    def centres(self) -> NDArray[np.float64]:
        """The middle of what each code stands for, increasing."""
        return np.asarray((self._low + self._high) / 2)

    @property
    def names(self) -> tuple[str, ...]:
        """What each code stands for, in text."""
        found = []
        for low, high, one in zip(self._low, self._high, self._bin, strict=True):
            without = ", ".join(f"{s:g}" for s in self._spikes[self._home == one])
            rest = f" except {without}" if without else ""
            found.append(f"{low:g}" if one < 0 else f"[{low:g}, {high:g}){rest}")
        return tuple(found)

    def encode(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the code of each value."""
        codes = self._bin_code[self._bin_of(values)]
        if not len(self._spikes):
            return codes
        near = np.clip(np.searchsorted(self._spikes, values), 0, len(self._spikes) - 1)
        return np.where(self._spikes[near] == values, self._spike_code[near], codes)

    def decode(
        self, codes: NDArray[np.integer], uniform: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return values drawn uniformly from bins, never a spike, and spikes as they are."""
        where = self._bin[codes]
        if self._integer:
            taken = np.bincount(self._home, minlength=len(self._edges) - 1)
            counts = np.diff(self.firsts) - taken
            drawn = self.firsts[where] + np.floor(uniform * counts[where])
            for spike, home in zip(self._spikes, self._home, strict=True):
                drawn[(where == home) & (drawn >= spike)] += 1  # the next one may be a spike, too
        else:
            last = np.nextafter(self._high, -np.inf)
            drawn = self._low[codes] + uniform * (self._high - self._low)[codes]
            drawn = self._beside_spikes(np.minimum(drawn, last[codes]), where)
        return np.asarray(np.where(where < 0, self._low[codes], drawn))

    def _beside_spikes(
        self, drawn: NDArray[np.float64], where: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Move what was drawn on a spike by the least step towards the middle of its bin."""
        middle = (self._edges[:-1] + self._edges[1:])[self._home] / 2
        up, down = self._spikes < middle, self._spikes >= middle
        for spike, home in zip(self._spikes[up], self._home[up], strict=True):
            drawn[(where == home) & (drawn == spike)] = np.nextafter(spike, np.inf)
        for spike, home in zip(self._spikes[down][::-1], self._home[down][::-1], strict=True):
            drawn[(where == home) & (drawn == spike)] = np.nextafter(spike, -np.inf)
        return drawn
