"""Codes of surveys that usually stand for a kind of missing, for a person to check.

Words say their kind. Numbers follow what most surveys do: -1 is not applicable; what ends in 7 was
refused, in 8 is not known, in 9 is missing. A number is proposed only if it is clearly no value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import numpy as np

from missdp.schema.attributes import KINDS, Kind, read_number
from missdp.types import Floats

Proposed: TypeAlias = Mapping[Kind, tuple[str | float, ...]]

_SAID: Final[dict[Kind, str]] = {
    "refused": "refused, refuse, refusal, declined, declined to answer, prefer not to say, "
    "prefer not to answer, prefer not to disclose, rather not say, would not say, .r",
    "unknown": "don't know, dont know, do not know, doesn't know, does not know, didn't know, "
    "dk, unknown, cannot say, can't say, .d",
    "not_asked": "not asked, question not asked, not administered",
    "not_applicable": "not applicable, does not apply, inapplicable, inap, iap, valid skip, "
    "legitimate skip, .i",
    "missing": "?, -, --, na, n/a, n.a., <na>, null, ., missing, no answer, no response, "
    "nonresponse, non-response, not available, not ascertained, not reported, not stated, "
    "not answered, skipped, unanswered, refused/don't know, don't know/refused, dk/ref, dk/rf, "
    "dk/na",
}
_WORDS: Final = {word: kind for kind, words in _SAID.items() for word in words.split(", ")}
_PYTHON_NONE = "None"  # among numbers only: elsewhere it may be an answer, to "religion?" say
_STATA = re.compile(r"\.[a-z]", re.IGNORECASE)
_DASHES = re.compile(r"-+")
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
    # Minus is an answer where plus is another, as of a blood group.
    signs = any(re.fullmatch(r"[+-]*\+[+-]*", text) for text in given)
    numbers = all(read_number(t) is not None or t.lower() in _WORDS for t in given - {_PYTHON_NONE})
    for text in sorted(given):
        if signs and _DASHES.fullmatch(text):
            continue
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
    """Return the distinct numbers of a column that usually stand for a kind of missing.

    Parameters
    ----------
    numbers : ndarray of shape (n_numbers,)
        Distinct finite numbers. Private.
    counts : ndarray of shape (n_numbers,)
        Number of rows of each number.
    total : int, optional
        Number of rows with a number, if there are more numbers; by default the sum of the counts.

    Returns
    -------
    dict of kind to tuple of int
    """
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
