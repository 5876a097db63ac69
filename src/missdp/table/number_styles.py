"""Numbers and dates in formats that are not read, with remedies for the curator.

`missdp schema check` and drafts report them to the curator. No cell is ever converted by a guess. A
schema declares the decimal mark of a file, and each cell is read independently.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from itertools import product
from typing import Final

from missdp.schema import Layout
from missdp.schema.attributes import read_number
from missdp.schema.layout import PLAIN

_GROUPS, _COMMA, _SIGN = "thousands separators", "a decimal comma", "a currency or percent sign"
_EITHER = f"{_GROUPS} or {_COMMA}"
_REMEDIES: Final = {
    _GROUPS: "without separators",
    _COMMA: "with a point",
    _EITHER: "without separators and with a point",
    _SIGN: "without the sign",
}
_UNITS = re.compile(r"[$€£¥%]|\b(?:USD|EUR|GBP|CHF|JPY)\b")
_MARKS = (",", ".", "'", "\u2019", " ", "\u00a0", "\u202f", "_")
_LAYOUTS: Final = tuple(
    Layout(decimal=decimal, thousands=thousands)
    for decimal, thousands in product(".,", ("", *_MARKS))
    if decimal != thousands
)
_ZERO = re.compile(r"[+-]?0\D")  # a leading zero is not a group of digits: 0,123 is a fraction
_PARTS = (
    r"(?:[0-9]{4}([-/.])[0-9]{1,2}\1[0-9]{1,2}|[0-9]{1,2}([-/.])[0-9]{1,2}\2(?:[0-9]{4}|[0-9]{2}))"
)
_DATE = re.compile(rf"{_PARTS}(?:[T ][0-9]{{1,2}}:[0-9:.]+(?: ?[AP]M|Z|[+-][0-9:]+)?)?")


def number_style(texts: Collection[str], *, every: bool) -> str | None:
    """Return the format and the remedy of texts that look like numbers in another format.

    Parameters
    ----------
    texts : collection of str
        Distinct cells without surrounding blanks. Private.
    every : bool
        True if all texts must be numbers. Otherwise more than half of them must be.

    Returns
    -------
    str or None
        None if the texts are not numbers, or are numbers in the format that is read.
    """
    styles = [style for text in texts if (style := _styles(text)) is not None]
    named = set[str]().union(*styles)
    if not named or 2 * len(styles) <= len(texts) or (every and len(styles) < len(texts)):
        return None
    if named & {_GROUPS, _COMMA}:  # other cells of the column decide between the two
        named -= {_EITHER}
    odd = [style for style in _REMEDIES if style in named]
    remedies = " and ".join(_REMEDIES[style] for style in odd)
    return f"looks like numbers with {' and '.join(odd)}: write each cell {remedies}"


def has_sign(text: str) -> bool:
    """Return True if a text has a currency or percent sign."""
    return _UNITS.search(text) is not None


def date_style(texts: Collection[str]) -> str | None:
    """Return the remedy for a column of which more than half of the distinct cells are dates."""
    if 2 * sum(_DATE.fullmatch(text) is not None for text in texts) <= len(texts):
        return None
    return "looks like dates: write a year, a month or an age in each cell instead"


def layout_of(texts: Collection[str]) -> Layout:
    """Return the first layout in which all texts are numbers, or the default layout."""
    return next((x for x in _LAYOUTS if all(_is_number(text, x) for text in texts)), PLAIN)


def _styles(text: str) -> set[str] | None:
    """Return the odd features of a number, an empty set without any, or None for other texts."""
    bare = _UNITS.sub("", text, count=1).strip()
    signs = {_SIGN} if bare != text else set[str]()
    if read_number(bare) is not None:
        return signs
    ways = {frozenset(_marks_in(bare, x)) for x in _LAYOUTS if _is_number(bare, x)}
    if not ways:
        return None
    return signs | (ways.pop() if len(ways) == 1 else {_EITHER})


def _is_number(text: str, layout: Layout) -> bool:
    """Return True if a text is a number in a layout, without a doubtful group of digits."""
    grouped = layout.thousands and layout.thousands in text
    return layout.number(text) is not None and not (grouped and _ZERO.match(text))


def _marks_in(text: str, layout: Layout) -> Iterable[str]:
    """Yield the odd features of a number in a layout."""
    if layout.thousands and layout.thousands in text:
        yield _GROUPS
    if layout.decimal == "," and "," in text:
        yield _COMMA
