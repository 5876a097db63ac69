"""What a draft must know of a column, in memory that does not grow with the number of rows.

Distinct cells are counted, all of them as long as they are few. A column of very many distinct
numbers keeps the lowest and the highest, the most frequent, and an even sample of the others: which
numbers are sampled is decided by a fixed function of the number, so that each is counted from its
first cell to its last.

Codes that usually stand for a kind of missing are proposed for a person to check. Words say their
kind. Numbers follow what most surveys do: -1 is not applicable; what ends in 7 was refused, in 8 is
not known, in 9 is missing. A number is proposed only if it is clearly no value. Numbers and dates
in a spelling that is not read as such are pointed out, not converted. For the curator, whom a
release must not tell, cells that a schema loses without a word are counted alike.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError
from missdp.schema import AnyAttribute, Date, Numeric, OpenCategorical, Schema
from missdp.schema.attributes import KINDS, MISSING, OUTSIDE, Kind, read_number
from missdp.table.cells import Cells, Chunk, Plain, Unreadable, dated, distinct, read_numbers, taken
from missdp.table.encode import Encoder
from missdp.table.streams import RowStream, rows_of
from missdp.types import Flags, Floats, Ints

_GROUPS, _COMMA, _SIGN = "thousands separators", "a decimal comma", "a currency or percent sign"
_EITHER = f"{_GROUPS} or {_COMMA}"
_REMEDIES: Final = {
    _GROUPS: "without separators",
    _COMMA: "with a point",
    _EITHER: "without separators and with a point",
    _SIGN: "without the sign",
}
_UNITS = re.compile(r"[$€£¥%]|\b(?:USD|EUR|GBP|CHF|JPY)\b")
_BLANKS = "['’_ \u00a0\u202f]"  # the last two are blanks at which no line is broken
_STYLES: Final = tuple(
    (re.compile(rf"[+-]?{pattern}"), styles)
    for pattern, styles in (
        (r"[1-9][0-9]{0,2},[0-9]{3}", {_EITHER}),
        (r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]*)?", {_GROUPS}),
        (rf"[1-9][0-9]{{0,2}}(?:{_BLANKS}[0-9]{{3}})+(?:\.[0-9]*)?", {_GROUPS}),
        (r"[1-9][0-9]{0,2}(?:\.[0-9]{3}){2,}", {_GROUPS}),
        (rf"[1-9][0-9]{{0,2}}(?:(?:{_BLANKS}|\.)[0-9]{{3}})+,[0-9]*", {_GROUPS, _COMMA}),
    )
)


def _number_style(texts: Collection[str], *, every: bool) -> str | None:
    """Say how the numbers of a column are written, and how to write them instead."""
    found = [styles for text in texts if (styles := _styles(text)) is not None]
    odd = set[str]().union(*found)
    if not odd or 2 * len(found) <= len(texts) or (every and len(found) < len(texts)):
        return None
    if odd & {_GROUPS, _COMMA}:  # others of the column tell which it is
        odd -= {_EITHER}
    named = [style for style in _REMEDIES if style in odd]
    remedies = [_REMEDIES[style] for style in named]
    return (
        f"looks like numbers with {' and '.join(named)}: write them {' and '.join(remedies)}, "
        "each cell by itself"
    )


def _spelled_number(text: str) -> bool:
    """Whether a text is a number, in whichever spelling, without a sign of a unit."""
    styles = _styles(text)
    return styles is not None and _SIGN not in styles


def _styles(text: str) -> set[str] | None:
    """Return what is odd about a text that is a number, None if it is none."""
    bare = _UNITS.sub("", text, count=1).strip()
    signs = {_SIGN} if bare != text else set[str]()
    if read_number(bare) is not None:
        return signs
    for pattern, styles in _STYLES:
        if pattern.fullmatch(bare):
            return signs | styles
    return signs | {_COMMA} if read_number(bare.replace(",", ".", 1)) is not None else None


_PARTS = (
    r"(?:[0-9]{4}([-/.])[0-9]{1,2}\1[0-9]{1,2}|[0-9]{1,2}([-/.])[0-9]{1,2}\2(?:[0-9]{4}|[0-9]{2}))"
)
_DATE = re.compile(rf"{_PARTS}(?:[T ][0-9]{{1,2}}:[0-9:.]+(?: ?[AP]M|Z|[+-][0-9:]+)?)?")


def _date_style(texts: Collection[str]) -> str | None:
    """Say what to do about a column of which more than half of the distinct cells are dates."""
    dates = sum(_DATE.fullmatch(text) is not None for text in texts)
    if 2 * dates <= len(texts):
        return None
    return "looks like dates: write a year, a month or an age instead, each cell by itself"


def odd_spelling(
    texts: Collection[str], *, every: bool
) -> tuple[str, tuple[str, ...] | None] | None:
    """Say that most texts are dates, or that most or all are numbers in an odd spelling: these."""
    if style := _date_style(texts):
        return style, None
    style = _number_style(texts, every=every)
    return None if style is None else (style, tuple(filter(_spelled_number, texts)))


Proposed: TypeAlias = Mapping[Kind, tuple[str | float, ...]]

_SAID: Final[dict[Kind, str]] = {
    "refused": "refused, refuse, refusal, declined, declined to answer, prefer not to say, "
    "prefer not to answer, prefer not to disclose, rather not say, would not say, .r",
    "unknown": "don't know, dont know, do not know, doesn't know, does not know, didn't know, "
    "dk, unknown, cannot say, can't say, .d",
    "not_asked": "not asked, question not asked, not administered",
    "not_applicable": "not applicable, does not apply, inapplicable, inap, iap, valid skip, "
    "legitimate skip, .i",
    "missing": "?, na, n/a, n.a., <na>, null, ., missing, no answer, no response, nonresponse, "
    "non-response, not available, not ascertained, not reported, not stated, not answered, "
    "skipped, unanswered, refused/don't know, don't know/refused, dk/ref, dk/rf, dk/na",
}
_WORDS: Final = {word: kind for kind, words in _SAID.items() for word in words.split(", ")}
_PYTHON_NONE = "None"  # among numbers only: elsewhere it may be an answer, to "religion?" say
_STATA = re.compile(r"\.[a-z]", re.IGNORECASE)
_TWO_LETTERS = re.compile(r"[A-Za-z]{2}")
_OTHERS = 3  # at least as many others of two letters: NA is a country then, and DK another

_LAST: Final[dict[int, Kind]] = {7: "refused", 8: "unknown", 9: "missing"}
_TOPS = (10, 100, 1000, 10_000)  # codes of one group are the three numbers below one of these
_HIGHEST = 2 / 3  # of a code: the greatest value that leaves it clearly apart
_WIDEST = 3  # times the widest gap between values: the least gap below a code
_SHARE = 0.01  # the least share of all cells that have codes above all values
_PILE = 0.05  # the same for a single -1 just below zero


def text_codes(texts: Iterable[str]) -> dict[Kind, tuple[str | float, ...]]:
    """Return which of the texts of a column usually stand for a kind of missing."""
    found: dict[Kind, list[str]] = {}
    given = {text.strip() for text in texts}
    two = {text for text in given if _TWO_LETTERS.fullmatch(text)}
    countries = sum(text.lower() not in _WORDS for text in two) >= _OTHERS
    numbers = all(read_number(t) is not None or t.lower() in _WORDS for t in given - {_PYTHON_NONE})
    for text in sorted(given):
        if (text in two and countries) or (text == _PYTHON_NONE and not numbers):
            continue
        kind = _WORDS.get(text.replace("\u2019", "'").lower())
        if kind is None and (text == _PYTHON_NONE or _STATA.fullmatch(text)):
            kind = "missing"
        if kind is not None:
            found.setdefault(kind, []).append(text)
    return {kind: tuple(found[kind]) for kind in KINDS if kind in found}


def number_codes(
    numbers: Floats, counts: Floats, *, total: int | None = None
) -> dict[Kind, tuple[str | float, ...]]:
    """Return which of the distinct numbers of a column usually stand for a kind of missing."""
    found: dict[Kind, list[int]] = {}
    whole = float(total or counts.sum())
    low = _low(numbers, counts, whole)
    rest = ~np.isin(numbers, low)
    left = whole - counts[~rest].sum()
    for code in [*low, *_high(numbers[rest], counts[rest], left)]:
        kind: Kind = "not_applicable" if code == -1 else _LAST[abs(code) % 10]
        found.setdefault(kind, []).append(code)
    return {kind: tuple(sorted(found[kind])) for kind in KINDS if kind in found}


def _low(numbers: Floats, counts: Floats, total: float) -> list[int]:
    """Return codes below zero, where nothing else is below zero."""
    usual = {-1, *(-code for top in _TOPS for code in range(top - 3, top))}
    below = numbers < 0
    codes = {int(x) for x in numbers[below] if float(x).is_integer()}
    values = numbers[~below]
    if not codes or len(codes) < below.sum() or not codes <= usual or len(values) < 2:
        return []
    often = counts[below].sum()
    least = counts[~below][np.argsort(values)][:3]  # of the values next to the codes
    pile = often >= _WIDEST * least.mean()
    if codes == {-1}:
        many = values.max() >= 10 and often >= _PILE * total
        return [-1] if len(values) > 2 and pile and (values.min() > 0 or many) else []
    gap = values.min() - max(codes - {-1})
    apart = gap >= _WIDEST * np.diff(np.sort(values)).max()
    return sorted(codes) if often >= 2 and (apart or pile) else []


def _high(numbers: Floats, counts: Floats, total: float) -> list[int]:
    """Return codes far above all other values of a column of whole numbers."""
    if not len(numbers) or np.any(numbers != np.floor(numbers)):
        return []
    for top in _TOPS[1:]:
        above = numbers >= top - 3
        values = np.sort(numbers[~above])
        if not above.any() or numbers.max() >= top or len(values) < 2:
            continue
        gap = numbers[above].min() - values[-1]
        apart = values[-1] <= _HIGHEST * top and gap >= _WIDEST * np.diff(values).max()
        apart &= len(values) > 2 or values[-1] < _TOPS[0]  # two prices are no scale
        often = counts[above].sum() >= max(2, _SHARE * total)
        return sorted(int(x) for x in numbers[above]) if apart and often else []
    return []


_FEW = 20_000  # distinct cells, of which all are kept
_TEXTS = 10_000  # distinct texts beside many numbers: far more than any draft has levels
_ENDS = 200  # lowest numbers, and as many highest ones
_SAMPLED = 50_000
_FREQUENT = 2000


class Tally:
    """Distinct cells of one column and how often each occurs. Private."""

    def __init__(self) -> None:
        self._cells: Counter[tuple[type, Plain]] = Counter()  # by type, since True == 1.0
        self._values, self._counts = np.zeros(0), np.zeros(0, dtype=np.int64)
        self._fraction: float | None = None
        self._many = False
        #: Number of cells that are numbers, if there are many distinct ones; else 0.
        self.numbers = 0

    def add(self, cells: Cells) -> None:
        """Count the cells of a few more rows."""
        import pyarrow as pa

        for chunk in cells.chunks if isinstance(cells, pa.ChunkedArray) else [cells]:
            if self.numbers or _native(chunk):
                self._add_numbers(chunk)
            else:
                self._add_cells(chunk)
        if len(self._cells) + len(self._values) > _FEW:
            self._thin()

    def found(self) -> list[tuple[Plain, int]]:
        """Return plain values and how often each occurs: text without blanks, None for missing."""
        numbers = [(float(x), int(n)) for x, n in zip(self._values, self._counts, strict=True)]
        if self._fraction is not None and self._fraction not in self._values:
            numbers.append((self._fraction, 1))
        return [*((value, n) for (_, value), n in self._cells.items()), *numbers]

    def _add_cells(self, chunk: Chunk) -> None:
        values, indices = distinct(chunk, dated)
        for index, count in zip(*np.unique(indices, return_counts=True), strict=True):
            value = values[index] if index >= 0 else None
            value = value.strip() if type(value) is str else value
            if self._many and isinstance(value, str) and len(self._cells) > _TEXTS:
                continue  # far more than the levels of any draft, whichever these are
            self._cells[type(value), value] += int(count)

    def _add_numbers(self, chunk: Chunk) -> None:
        """Count numbers, and text written like one, as numbers; others, and "007", as cells."""
        values, _ = read_numbers(chunk)
        known = ~np.isnan(values)
        if not _native(chunk):
            known &= ~_padded(chunk)
        self._merge(*np.unique(values[known] + 0.0, return_counts=True))
        rest = np.flatnonzero(~known)
        if rest.size:
            self._add_cells(taken(chunk, rest))

    def _merge(self, values: Floats, counts: Ints) -> None:
        if self.numbers:
            self.numbers += int(counts.sum())
        both = np.concatenate([self._values, values])
        self._values, places = np.unique(both, return_inverse=True)
        weights = np.concatenate([self._counts, counts])
        self._counts = np.bincount(places.reshape(-1), weights).astype(np.int64)

    def _thin(self) -> None:
        """Keep as much of the numbers as a draft needs."""
        self._many = True
        if not self.numbers:
            self._take_numbers_for_numbers()
            for key in [k for k in self._cells if issubclass(k[0], str)][_TEXTS:]:
                del self._cells[key]
        if len(self._values) <= _FEW:
            return
        self.numbers = self.numbers or int(self._counts.sum())
        fractions = self._values[np.isfinite(self._values) & (self._values % 1 != 0)]
        if self._fraction is None and fractions.size:
            self._fraction = float(fractions[0])
        keep = np.zeros(len(self._values), dtype=bool)
        keep[:_ENDS] = keep[-_ENDS:] = True
        keep[np.argsort(-self._counts, kind="stable")[:_FREQUENT]] = True
        marks = _mixed(self._values)
        keep |= marks <= np.partition(marks, min(_SAMPLED, len(marks)) - 1)[:_SAMPLED].max()
        self._values, self._counts = self._values[keep], self._counts[keep]

    def _take_numbers_for_numbers(self) -> None:
        """Move texts written like numbers to the numbers, but those that begin with zeros."""
        cells, self._cells = self._cells, Counter()
        numbers: Counter[float] = Counter()
        for (kind, value), count in cells.items():
            number = read_number(value) if isinstance(value, str) else value
            if isinstance(number, float) and number == number and not is_padded(value):
                numbers[number] += count
            else:
                self._cells[kind, value] += count
        values = np.fromiter(numbers.keys(), np.float64, len(numbers))
        counts = np.fromiter(numbers.values(), np.int64, len(numbers))
        self._merge(values + 0.0, counts)


def is_padded(cell: Plain) -> bool:
    """Whether digits begin with a zero that a number would lose, as in postal codes."""
    return isinstance(cell, str) and len(cell) > 1 and cell[0] == "0" and cell.isdecimal()


def _padded(chunk: Chunk) -> Flags:
    """Return which cells are padded."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(chunk, pa.Array) and chunk.type in (pa.string(), pa.large_string()):
        found = pc.match_substring_regex(chunk, r"^\s*0[0-9]+\s*$")
        return np.asarray(found.fill_null(False), dtype=np.bool_)
    cells, indices = distinct(chunk)
    padded = [is_padded(cell.strip() if isinstance(cell, str) else cell) for cell in cells]
    return np.array([*padded, False])[indices]


def _native(chunk: Chunk) -> bool:
    """Whether every cell is a number by the type of the column."""
    import pyarrow as pa

    if not isinstance(chunk, pa.Array) or isinstance(chunk, pa.ExtensionArray):
        return False
    return bool(pa.types.is_integer(chunk.type) or pa.types.is_floating(chunk.type))


def _mixed(values: Floats) -> NDArray[np.uint64]:
    """Return a number for each value that has nothing to do with its size."""
    bits = values.view(np.uint64).copy()
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53)):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    return bits ^ (bits >> np.uint64(33))


def lost_cells(stream: RowStream, schema: Schema) -> dict[str, tuple[str, ...]]:
    """Return the columns of which a schema loses cells without a word, by what is lost. Private.

    No cell is in the declared domain (but of columns that rules may fill), or nothing stands in any
    cell but codes of missing; or a cell looks like a number that is not read as one, or is neither
    text, number nor true/false.
    """
    filled, by, schema = schema.rule_set.rule_fillable, schema.weight, schema.stored
    if by is not None:  # nor is a row refused for a weight that cannot be read
        own = Numeric(name=by.column, lower=0, upper=by.upper, nullable=True, outside="clamp")
        schema = replace(schema, attributes=(*schema.attributes, own), weight=None)
    closed = [a for a in schema if a.size and not isinstance(a, OpenCategorical)]
    bare = [replace(a, nullable=True, outside="missing") for a in closed]
    empty = {a.name: Encoder(a) for a in bare if a.name not in filled}
    blank = {a.name: Encoder(replace(a, outside="error")) for a in bare if a.name in empty}
    styles, unreadable, rows = set[str](), set[str](), 0
    for batch in rows_of(stream, schema).batches(schema.names):
        rows += batch.num_rows
        for place, attribute in enumerate(schema):
            name, column = attribute.name, batch.column(place)
            if name in empty and (empty[name].encode(column).codes < attribute.size).any():
                del empty[name]
            if name in empty and name in blank:
                try:
                    blank[name].encode(column)
                except DataError:
                    del blank[name]
            for cell in () if attribute.refuses else _unread(column, attribute):
                if isinstance(cell, Unreadable):
                    unreadable.add(name)
                elif isinstance(cell, str) and attribute.kind == "numeric":
                    styles |= {name} if _number_style([cell.strip()], every=True) else set()
    ordered = (tuple(n for n in schema.names if n in found) for found in (styles, unreadable))
    nothing = tuple(name for name in empty if name in blank and rows)
    without = tuple(n for n in empty if rows and n not in nothing)
    names = ("without_values", "blank", "other_styles", "unreadable")
    found = zip(names, (without, nothing, *ordered), strict=True)
    return {name: columns for name, columns in found if columns}


def _unread(column: Chunk, attribute: AnyAttribute) -> list[Plain]:
    """Return the distinct cells, of numbers those that are neither numbers nor codes."""
    if isinstance(attribute, Date):
        return distinct(column, dated)[0]
    if isinstance(attribute, Numeric):
        codes = (code for kind in attribute.kinds for code in attribute.codes_of(kind))
        texts = {code.strip(): MISSING for code in codes if isinstance(code, str)}
        _, marks = read_numbers(column, texts)
        column = taken(column, np.flatnonzero(marks == OUTSIDE))
    return distinct(column)[0]
