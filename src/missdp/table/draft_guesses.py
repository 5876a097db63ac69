"""Guesses about columns for drafts: formats of dates, ordered words, keys and weights.

A person checks all guesses. A release reads cells by declared facts, and guesses nothing.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Collection, Iterable, Iterator
from itertools import permutations, product
from typing import Any, Final, Literal

import numpy as np

from missdp.errors import SchemaError
from missdp.schema import AnyAttribute, Date, DateTime, Difference, Schema
from missdp.schema.dates import DateFormat
from missdp.table.distinct_cells import DistinctCells
from missdp.table.encode import Encoder
from missdp.table.rows import Rows

_DAYS: Final = (
    *("%d.%m.%Y", "%-d.%-m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%-d/%-m/%Y", "%-m/%-d/%Y", "%d-%m-%Y"),
    *("%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d-%b-%Y", "%d %b %Y", "%d%b%Y"),
)
_TIMES: Final = (" %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %-H:%M")
_FORMATS: Final = (None, *_DAYS, *("".join(both) for both in product(_DAYS, _TIMES)))
_FIRST_CELLS = 50  # distinct cells of the first test of a format
_NEVER = re.compile(r"(?<!\d)9999(?!\d)")  # the year of a code for a missing date
_ORDERS: Final = tuple(
    line.split(", ")
    for line in """none, very mild, mild, moderate, severe, very severe
never, rarely, seldom, sometimes, occasionally, often, usually, very often, always
very poor, poor, fair, average, good, very good, excellent
bottom, lowest, very low, low, medium, middle, moderate, high, very high, highest, top
strongly disagree, disagree, neutral, agree, strongly agree""".splitlines()
)
_RANGE = re.compile(r"(?:under|below|less than|up to|[<>≤≥]=?)? ?(\d+)(?: ?[-–+<>] ?\d*)?.*", re.I)
_MAX_SHAPES = 3  # shapes of ranges: the first, the middle, the last
_PERSON = (  # words for persons in names of identifiers
    r"case|resp|respondent|person|pers|p|household|hh|h|family|fam|individual|indiv|ind|child"
    r"|mother|student|stud|subject|subj|sub|patient|pat|pt|customer|cust|user|member|worker|wave"
    r"|employee|emp|participant|part|interview|int"
)
_UNIT = re.compile(
    rf"(?:^|[\W_])(?:(?:{_PERSON})?(?:id|idno|idnr|idnum|idcode|uuid|guid)"
    r"|pidp|hidp|patient|subject|person|household|customer)s?\d*$"
)
_KEY = re.compile(
    rf"{_UNIT.pattern}|(?:^|[\W_])(?:(?:record|rec|row|obs|case|serial|sample)?"
    r"(?:id|key|nr|no|num|number)|case|row|seqn|record)s?\d*$"
)
_WEIGHT = re.compile(
    r"(?:^|[\W_])(?:[a-z]*weights?|(?:final|[a-z])?wts?|[a-z]*wgts?|wt(?:mec|int)\w*)\d*$"
)
_MIN_PAIRS = 20  # rows with both dates, below which no difference is proposed
_A_FEW = 10  # smallest number of units of the longest difference
_UNITS: Final = {"year": 31_557_600, "day": 86_400, "hour": 3600, "minute": 60, "second": 1}
_SECONDS: Final = {"D": 86_400, "h": 3600, "m": 60, "s": 1}
_MIN_KEYS = 100  # distinct cells, below which no column is proposed as a key


def date_facts(cells: DistinctCells) -> tuple[type[Date], dict[str, Any]] | None:
    """Return the kind of dates, with their format, bounds and codes, or None for other cells."""
    codes = [text for text in cells.texts if _NEVER.search(text)] if cells.in_text else []
    dates = cells.without({"missing": tuple(codes)}) if codes else cells
    if not dates.in_text or not len(dates) or not np.isnan(dates.numbers).all():
        return None
    for form, zoned in product(_FORMATS, (False, True)):
        if not _reads(form, dates.texts[:_FIRST_CELLS], zoned=zoned).all():
            continue
        values, possible = DateFormat(form).read(dates.texts, "s", zoned=zoned)
        if not possible.all():
            continue
        facts: dict[str, Any] = {"format": form} if form else {}
        facts |= {"missing_codes": tuple(sorted(codes))} if codes else {}
        size = next(
            s for s in (86_400, 60, 1) if (s < 86_400 or not zoned) and not np.any(values % s)
        )
        low, high = values.min() // size, max(values.max() // size, values.min() // size + 1)
        facts |= {"lower": low, "upper": high} | ({"timezone": "UTC"} if zoned else {})
        if size == 86_400:
            return Date, facts
        return DateTime, facts | {"step": "minute" if size == 60 else "second"}
    return None


def _reads(form: str | None, texts: list[str], *, zoned: bool) -> Any:
    """Return a flag for each text that is a date in a format."""
    return DateFormat(form).read(texts, "s", zoned=zoned)[1]


def other_format(texts: list[str], form: str | None) -> str | None:
    """Return the format with day and month swapped, if it reads all texts too."""
    swapped = str(form).replace("d", "?").replace("m", "d").replace("?", "m")
    if form is None or swapped not in _FORMATS:
        return None
    both = (_reads(one, texts, zoned=False) for one in (form, swapped))
    return swapped if np.array_equal(*both) else None


def usual_order(levels: Collection[str]) -> tuple[str, ...] | None:
    """Return words or ranges in their usual order, lowest first, or None without an order."""
    by_word = {level.lower(): level for level in levels}
    if len(by_word) < len(levels) or len(levels) < 2:
        return None
    for order in _ORDERS:
        if len(levels) > 2 and by_word.keys() <= {*order}:
            return tuple(by_word[word] for word in order if word in by_word)
    starts = {level: int(match[1]) for level in levels if (match := _RANGE.fullmatch(level))}
    different = len(starts) == len(levels) == len({*starts.values()})
    shapes = {re.sub(r"\d+", "0", level) for level in levels}
    if not different or all(level.isdecimal() for level in levels) or len(shapes) > _MAX_SHAPES:
        return None
    return tuple(sorted(levels, key=starts.__getitem__))


def is_key_name(name: str) -> bool:
    """Return True for a usual name of keys: ``id``, ``CaseNo``, ``hhid``, ``persid``."""
    return _KEY.search(_words(name)) is not None


def is_weight_name(name: str) -> bool:
    """Return True for a usual name of survey weights: ``wt``, ``pweight``, ``WTMEC2YR``."""
    return _WEIGHT.search(name.lower()) is not None


def _words(name: str) -> str:
    """Return a name in lower case, with an underscore before each capital."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def identifies(name: str, cells: DistinctCells) -> Literal["row", "unit"] | None:
    """Return "row" or "unit" for a column that identifies rows or units, or None."""
    if len(cells) < _MIN_KEYS:
        return None
    if (cells.counts == 1).all():
        integer = not cells.missing and bool(np.all(cells.numbers % 1 == 0))
        return "row" if integer and is_key_name(name) else None
    several = len(cells) <= 0.9 * cells.counts.sum()
    return "unit" if several and _UNIT.search(_words(name)) else None


def differences(rows: Rows, attributes: Iterable[AnyAttribute]) -> Iterator[dict[str, Any]]:
    """Yield facts of differences of ordered dates, the shortest difference first."""
    dates = [a for a in attributes if isinstance(a, Date)]
    spans = sorted(
        (high - low, low * size, high * size, earlier, later, size)
        for earlier, later, low, high in _spans(rows, dates)
        if low >= 0
        for size in (_SECONDS[next(a.unit for a in dates if a.name == later)],)
    )
    chosen: list[Difference] = []
    for _, low, high, earlier, later, size in spans:
        facts = _difference(earlier, later, low, high, size)
        with contextlib.suppress(SchemaError):  # a date is computed already, or the steps differ
            Schema((*dates, *chosen, difference := Difference(**facts)))
            chosen.append(difference)
            yield facts


def _spans(rows: Rows, dates: list[Date]) -> Iterator[tuple[str, str, float, float]]:
    """Yield pairs of dates with the smallest and the largest difference in a row."""
    units, both = [a.unit for a in dates], permutations(range(len(dates)), 2)
    pairs = [(i, j) for i, j in both if units[i] == units[j]]
    spans = np.tile([np.inf, -np.inf, 0.0], (len(pairs), 1))
    encoders = [Encoder(a) for a in dates]
    for batch in rows.batches(tuple(a.name for a in dates)) if pairs else ():
        columns = [encoder.encode(batch.column(k)) for k, encoder in enumerate(encoders)]
        values = [
            np.where(c.codes < a.size, c.values, np.nan)  # type: ignore[arg-type]  # dates have values
            for c, a in zip(columns, dates, strict=True)
        ]
        for span, (i, j) in zip(spans, pairs, strict=True):
            steps = (values[j] - values[i])[~np.isnan(values[j] - values[i])]
            low, high = steps.min(initial=np.inf), steps.max(initial=-np.inf)
            span[:] = min(span[0], low), max(span[1], high), span[2] + len(steps)
    for (low, high, n), (i, j) in zip(spans, pairs, strict=True):
        if n >= _MIN_PAIRS:
            yield dates[i].name, dates[j].name, float(low), float(high)


def _difference(earlier: str, later: str, low: float, high: float, finest: int) -> dict[str, Any]:
    """Return the facts of a difference in seconds, in the largest unit with enough values."""
    units = {size: name for name, size in _UNITS.items() if size >= finest}
    size = next((size for size in units if high >= _A_FEW * size), min(units))
    lower, upper = math.floor(low / size), math.ceil(high / size)
    return {
        "name": f"{earlier} to {later}", "later": later, "earlier": earlier, "lower": lower,
        "upper": max(lower + 1, upper), "unit": units[size], "undeclared": ["lower", "upper"],
    }  # fmt: skip
