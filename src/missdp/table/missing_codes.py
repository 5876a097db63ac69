"""Usual codes of kinds of missing in surveys, proposed for a person to check.

Words name their kind. Numbers follow the convention of most surveys: -1 is not applicable, a last
digit of 7 is refused, 8 is unknown, and 9 is missing. A number is proposed only if it is clearly
not a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import numpy as np

from missdp.schema.attributes import KINDS, Kind, read_number
from missdp.types import Floats

Proposed: TypeAlias = Mapping[Kind, tuple[str | float, ...]]

_WORDS_BY_KIND: Final[dict[Kind, str]] = {
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
_WORDS: Final = {word: kind for kind, words in _WORDS_BY_KIND.items() for word in words.split(", ")}
_PYTHON_NONE = "None"  # a code among numbers only: elsewhere it may be an answer, as to "religion?"
_STATA = re.compile(r"\.[a-z]", re.IGNORECASE)
_DASHES = re.compile(r"-+")
_TWO_LETTERS = re.compile(r"[A-Za-z]{2}")
_OTHERS = 3  # other texts of two letters, from which on NA and DK count as countries

_LAST: Final[dict[int, Kind]] = {7: "refused", 8: "unknown", 9: "missing"}
_TOPS = (10, 100, 1000, 10_000)  # codes are the three numbers below one of these numbers
_HIGHEST = 2 / 3  # largest value below a code, as a share of the top of the group
_WIDEST = 3  # smallest gap below a code, in multiples of the widest gap between values
_SHARE = 0.01  # smallest share of rows with codes above all values
_PILE = 0.05  # smallest share of rows with -1, if -1 is the only code


def text_codes(texts: Iterable[str]) -> dict[Kind, tuple[str | float, ...]]:
    """Return the texts of a column that usually stand for a kind of missing."""
    texts_by_kind: dict[Kind, list[str]] = {}
    distinct = {text.strip() for text in texts}
    two = {text for text in distinct if _TWO_LETTERS.fullmatch(text)}
    countries = sum(text.lower() not in _WORDS for text in two) >= _OTHERS
    # Minus is an answer if plus is another answer, as in blood groups.
    signs = any(re.fullmatch(r"[+-]*\+[+-]*", text) for text in distinct)
    others = distinct - {_PYTHON_NONE}
    numbers = all(read_number(text) is not None or text.lower() in _WORDS for text in others)
    for text in sorted(distinct):
        if signs and _DASHES.fullmatch(text):
            continue
        if (text in two and countries) or (text == _PYTHON_NONE and not numbers):
            continue
        kind = _WORDS.get(text.replace("\u2019", "'").lower())
        if kind is None and (text == _PYTHON_NONE or _STATA.fullmatch(text)):
            kind = "missing"
        if kind is not None:
            texts_by_kind.setdefault(kind, []).append(text)
    return {kind: tuple(texts_by_kind[kind]) for kind in KINDS if kind in texts_by_kind}


def number_codes(
    numbers: Floats, counts: Floats, *, total: int | None = None
) -> dict[Kind, tuple[str | float, ...]]:
    """Return the numbers of a column that usually stand for a kind of missing.

    Parameters
    ----------
    numbers : ndarray of shape (n_numbers,)
        Distinct finite numbers. Private.
    counts : ndarray of shape (n_numbers,)
        Number of rows of each number.
    total : int, optional
        Number of rows with a number, if not all numbers are listed. By default the sum of counts.

    Returns
    -------
    dict of kind to tuple of int
        Proposed codes. Private.
    """
    codes_by_kind: dict[Kind, list[int]] = {}
    n_rows = float(total or counts.sum())
    low = _low(numbers, counts, n_rows)
    rest = ~np.isin(numbers, low)
    high = _high(numbers[rest], counts[rest], n_rows - counts[~rest].sum())
    for code in [*low, *high]:
        kind: Kind = "not_applicable" if code == -1 else _LAST[abs(code) % 10]
        codes_by_kind.setdefault(kind, []).append(code)
    return {kind: tuple(sorted(codes_by_kind[kind])) for kind in KINDS if kind in codes_by_kind}


def _low(numbers: Floats, counts: Floats, total: float) -> list[int]:
    """Return codes below zero, if no other number is below zero."""
    usual = {-1, *(-code for top in _TOPS for code in range(top - 3, top))}
    below = numbers < 0
    codes = {int(x) for x in numbers[below] if float(x).is_integer()}
    values = numbers[~below]
    if not codes or len(codes) < below.sum() or not codes <= usual or len(values) < 2:
        return []
    often = counts[below].sum()
    nearest = counts[~below][np.argsort(values)][:3]  # rows of the values next to the codes
    pile = often >= _WIDEST * nearest.mean()
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
        apart &= len(values) > 2 or values[-1] < _TOPS[0]  # two large values do not make a scale
        often = counts[above].sum() >= max(2, _SHARE * total)
        return sorted(int(x) for x in numbers[above]) if apart and often else []
    return []
