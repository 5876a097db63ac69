"""How people write numbers and dates that are not read as such, and what to do about it.

Nothing is converted here: whether ``1,234`` is above a thousand or next to one is not written in
it. Whoever knows the file rewrites it, each cell by itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from missdp.schema.attributes import read_number

__all__ = ["date_style", "number_style"]

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


def number_style(texts: Collection[str], *, every: bool) -> str | None:
    """Say how the numbers of a column are written, and how to write them instead.

    Parameters
    ----------
    texts : collection of str
        Distinct cells.
    every : bool
        Whether all of them must be numbers, written in one way or another, or more than half.

    Returns
    -------
    str or None
        None if the texts are no such numbers, or all of them are read as numbers anyway.

    Examples
    --------
    >>> number_style(["1,234.50", "950"], every=True)
    'looks like numbers with thousands separators: write them without separators, each cell by itself'
    >>> number_style(["1,5 %", "40 %"], every=True)
    'looks like numbers with a decimal comma and a currency or percent sign: write them with a point and without the sign, each cell by itself'
    """  # noqa: E501 - one line of output each
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


def date_style(texts: Collection[str]) -> str | None:
    """Say what to do about a column of which more than half of the distinct cells are dates.

    Examples
    --------
    >>> date_style(["2024-02-28", "29.2.2024"])
    'looks like dates: write a year, a month or an age instead, each cell by itself'
    """
    dates = sum(_DATE.fullmatch(text) is not None for text in texts)
    if 2 * dates <= len(texts):
        return None
    return "looks like dates: write a year, a month or an age instead, each cell by itself"
