"""What a draft takes cells for: dates in a format, words in an order, keys, what is between dates.

All of it is for a person to check: a release reads cells as they are declared, and guesses nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any, Final, Literal

import numpy as np

from missdp.errors import SchemaError
from missdp.schema import AnyAttribute, Date, DateTime, Difference, Schema
from missdp.schema.attributes import read_number
from missdp.schema.dates import DateFormat
from missdp.table.cells import Iso, Plain
from missdp.table.encode import Encoder
from missdp.table.streams import RowStream

_DAYS: Final = (
    *("%d.%m.%Y", "%-d.%-m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%-d/%-m/%Y", "%-m/%-d/%Y", "%d-%m-%Y"),
    *("%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d-%b-%Y", "%d %b %Y", "%d%b%Y"),
)
_TIMES: Final = (" %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %-H:%M")
_FORMATS: Final = (None, *_DAYS, *("".join(both) for both in product(_DAYS, _TIMES)))
_NEVER = re.compile(r"(?<!\d)9999(?!\d)")  # the year of a date that stands for none
_ORDERS: Final = tuple(
    line.split(", ")
    for line in """none, very mild, mild, moderate, severe, very severe
never, rarely, seldom, sometimes, occasionally, often, usually, very often, always
very poor, poor, fair, average, good, very good, excellent
bottom, lowest, very low, low, medium, middle, moderate, high, very high, highest, top
very small, small, medium, large, very large
not at all, a little, slightly, somewhat, moderately, quite, very, very much, extremely
strongly disagree, disagree, neutral, neither agree nor disagree, agree, strongly agree
very dissatisfied, dissatisfied, neutral, satisfied, very satisfied
no, partly, partially, mostly, yes
first, second, third, fourth, fifth
primary, secondary, tertiary""".splitlines()
)
_RANGE = re.compile(r"(?:under|below|less than|up to|[<>≤≥]=?)? ?(\d+)(?: ?[-–+<>] ?\d*)?.*", re.I)
_ONE = (  # of whom a number is
    r"case|resp|respondent|person|pers|p|household|hh|h|family|fam|individual|indiv|ind|child"
    r"|mother|student|stud|subject|subj|sub|patient|pat|pt|customer|cust|user|member|worker|wave"
    r"|employee|emp|participant|part|interview|int"
)
_NUMBER = r"(?:id|idno|idnr|idnum|idcode|uuid|guid)"
_WHOSE = re.compile(
    rf"(?:^|[\W_])(?:(?:{_ONE})?{_NUMBER}|pidp|hidp|patient|subject|person|household|customer)s?\d*$"
)
_KEY = re.compile(
    rf"{_WHOSE.pattern}|(?:^|[\W_])(?:(?:record|rec|row|obs|case|serial|sample)?"
    r"(?:id|key|nr|no|num|number)|case|row|seqn|record)s?\d*$"
)
_FEWEST = 100  # rows, below which no column is taken for a key
_WITH_BOTH = 20  # rows, below which nothing is said of two dates
_UNITS: Final = {"year": 31_557_600, "day": 86_400, "hour": 3600, "minute": 60, "second": 1}
_A_FEW = 10
_SECONDS: Final = {"D": 86_400, "h": 3600, "m": 60, "s": 1}


def date_facts(cells: Collection[Plain]) -> tuple[type[Date], dict[str, Any]] | None:
    """Return the kind, the format, the codes and the bounds of a column of dates."""
    if not cells or not all(isinstance(cell, str) for cell in cells):
        return None
    texts = [str(cell) for cell in cells]
    formats = (None,) if all(isinstance(cell, Iso) for cell in cells) else _FORMATS
    never = [text for text in texts if _NEVER.search(text)]
    dates = [text for text in texts if not _NEVER.search(text)]
    for form, zoned in product(formats if dates else (), (False, True)):
        values, possible = DateFormat(form).read(dates, "s", zoned=zoned)
        if not possible.all():
            continue
        facts: dict[str, Any] = {"format": form} if form else {}
        facts |= {"missing_codes": tuple(never)} if never else {}
        days = values / _SECONDS["D"]
        if not zoned and np.all(days % 1 == 0):
            return Date, facts | {"lower": days.min(), "upper": max(days.max(), days.min() + 1)}
        facts |= {"timezone": "UTC"} if zoned else {}
        step = next(size for size in (60, 1) if np.all(values % size == 0))
        low, high = values.min() // step, max(values.max() // step, values.min() // step + 1)
        step_name = {60: "minute", 1: "second"}[step]
        return DateTime, facts | {"lower": low, "upper": high, "step": step_name}
    return None


def other_format(cells: Iterable[Plain], form: str | None) -> str | None:
    """Return another format that all dates may be written in, as day and month may be confused."""
    swapped = str(form).replace("d", "?").replace("m", "d").replace("?", "m")
    if form is None or swapped not in _FORMATS:
        return None
    texts = [*map(str, cells)]
    own, other = (DateFormat(f).read(texts, "D", zoned=False)[1] for f in (form, swapped))
    return swapped if np.array_equal(own, other) else None


def in_order(levels: Collection[str]) -> tuple[str, ...] | None:
    """Return words in the order that they usually have, lowest first; None if they have none."""
    given = {level.lower(): level for level in levels}
    if len(given) < len(levels) or len(levels) < 2:
        return None
    for order in _ORDERS:
        if len(levels) > 2 and given.keys() <= {*order}:
            return tuple(given[word] for word in order if word in given)
    starts = {level: match[1] for level in levels if (match := _RANGE.fullmatch(level.strip()))}
    apart = len(starts) == len(levels) == len({*map(int, starts.values())})
    ranges = any(not level.strip().isdecimal() for level in levels)
    if not (apart and ranges) or len({*map(_shape, levels)}) > _SHAPES:
        return None
    return tuple(sorted(levels, key=lambda level: int(starts[level])))


_SHAPES = 3  # of ranges: the first, those between, the last


def _shape(text: str) -> str:
    return re.sub(r"\d+", "0", text)


def is_key_name(name: str) -> bool:
    """Whether a column has a name that keys have: ``id``, ``CaseNo``, ``hhid``, ``persid``."""
    return _KEY.search(_words(name)) is not None


def _words(name: str) -> str:
    """Return a name in lower case, with a mark between words that capitals begin."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def identifies(name: str, found: Sequence[tuple[Plain, int]]) -> Literal["row", "unit"] | None:
    """Whether values tell rows apart, or persons: by their name, and by how often each comes."""
    if len(found) < _FEWEST:
        return None
    if all(n == 1 for _, n in found):
        numbers = (read_number(cell) if isinstance(cell, str) else cell for cell, _ in found)
        whole = all(isinstance(number, float) and number.is_integer() for number in numbers)
        return "row" if whole and is_key_name(name) else None
    several = len(found) <= 0.9 * sum(n for _, n in found)
    return "unit" if several and _WHOSE.search(_words(name)) else None


def between(rows: RowStream, attributes: Iterable[AnyAttribute]) -> Iterator[Mapping[str, Any]]:
    """Yield facts of differences of dates, one never before the other, the least first."""
    dates = [a for a in attributes if isinstance(a, Date)]
    spans = _spans(rows, dates)
    likely = [
        (high - low, *pair, low, high)
        for pair, (low, high, n) in spans.items()
        if low >= 0 and n >= _WITH_BOTH
    ]
    chosen: list[Difference] = []
    for _, earlier, later, low, high in sorted(likely):
        size = _SECONDS[next(a.unit for a in dates if a.name == later)]
        facts = _difference(earlier, later, (low * size, high * size), size)
        try:
            Schema((*dates, *chosen, found := Difference(**facts)))
        except SchemaError:  # one of them is computed by now, or their steps differ
            continue
        chosen.append(found)
        yield facts


def _spans(
    rows: RowStream, dates: Sequence[Date]
) -> dict[tuple[str, str], tuple[float, float, int]]:
    """Return the least and the greatest step from one date to another, and in how many rows."""
    names, pairs = tuple(a.name for a in dates), [*combinations(range(len(dates)), 2)]
    pairs = [(i, j) for i, j in pairs if dates[i].unit == dates[j].unit]
    found = {(i, j): [math.inf, -math.inf, 0.0] for i, j in pairs}
    encoders = [Encoder(a) for a in dates]
    for batch in rows.batches(names) if pairs else ():
        columns = [encoder.encode(batch.column(k)) for k, encoder in enumerate(encoders)]
        known = [c.codes < a.size for c, a in zip(columns, dates, strict=True)]
        for (i, j), span in found.items():
            both, (first, second) = known[i] & known[j], (columns[i].values, columns[j].values)
            assert first is not None
            assert second is not None
            if both.any():
                steps = (second - first)[both]
                span[:] = min(span[0], steps.min()), max(span[1], steps.max()), span[2] + both.sum()
    spans: dict[tuple[str, str], tuple[float, float, int]] = {}
    for (i, j), (low, high, n) in found.items():
        spans[names[i], names[j]] = low, high, int(n)
        spans[names[j], names[i]] = -high, -low, int(n)
    return spans


def _difference(earlier: str, later: str, span: tuple[float, float], finest: int) -> dict[str, Any]:
    """Return the facts of a difference of so many seconds, in a unit of which there are a few."""
    units = {u: size for u, size in _UNITS.items() if size >= finest}
    fitting = (size for size in units.values() if span[1] >= _A_FEW * size)
    size = next(fitting, min(units.values()))
    lower, upper = math.floor(span[0] / size), math.ceil(span[1] / size)
    return {
        "name": f"{earlier} to {later}",
        "later": later,
        "earlier": earlier,
        "lower": lower,
        "upper": max(lower + 1, upper),
        "unit": next(unit for unit, known in units.items() if known == size),
        "undeclared": ["lower", "upper"],
    }
