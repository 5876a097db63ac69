"""How the documents of a release are written: templates, text and numbers.

Names stay text and do nothing: each value that a template shows becomes plain text, and is escaped
for HTML or for Markdown. Numbers have the digits that their noise supports.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

from missdp.errors import import_optional

TEMPLATES = Path(__file__).parent / "templates"

_LONG = 10_000  # from here on digits are grouped: years are below
_LONGEST = 80  # characters of a name or label; the measurements have all of them
_UNPRINTABLE = {"Cc", "Cs", "Zl", "Zp"}
_JOINERS = "\u200c\u200d"  # which some scripts are not written without


def template(name: str) -> Any:
    """Return a template, which makes inert what it shows, by the suffix of its name.

    In HTML and Markdown this is done to everything, unless a filter made it markup. In YAML the
    filter ``yaml`` does it.
    """
    jinja2 = import_optional("jinja2", purpose="reports and dossiers")
    suffix = Path(name).suffix
    page = suffix == ".html"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=page,
        trim_blocks=suffix != ".md",
        lstrip_blocks=page,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        finalize={".html": _in_html, ".md": _in_markdown}.get(suffix),
    )
    shown: tuple[Callable[..., Any], ...] = (plain, short, share, half_width, parted)
    environment.filters |= {each.__name__: each for each in shown}
    environment.filters["yaml"] = _in_yaml
    return environment.get_template(name)


def plain(text: object, most: int | None = _LONGEST) -> str:
    r"""Return a text in one line without control characters or marks that change its direction.

    >>> plain("  total\n\u202eincome\x00 "), plain("x" * 100, 5)
    ('total income', 'xxxx…')
    """
    found = "".join(
        " " if unicodedata.category(c) in _UNPRINTABLE or c in "\ufffe\uffff" else c
        for c in str(text)
        if unicodedata.category(c) != "Cf" or c in _JOINERS
    )
    found = " ".join(found.split())
    return found if most is None or len(found) <= most else f"{found[: most - 1]}…"


def markup(text: str) -> Any:
    """Return text of HTML that is shown as it is."""
    return import_optional("markupsafe", purpose="reports and dossiers").Markup(text)


def parted(name: str) -> Any:
    """Return a name in HTML that may go on in the next line after an underscore."""
    return markup("_<wbr>").join(name.split("_"))


def _in_html(value: object) -> object:
    """Return a value as plain text, which Jinja escapes, unless it is markup already."""
    return value if hasattr(value, "__html__") else plain(value, None)


# Dots between words, as in addresses, become links in some dialects; those of numbers do not.
_MARKDOWN = re.compile(
    r"([\\`*_{}\[\]<>|~&$@]|:(?=//)|(?<=[^\W\d])\.(?=[\w-])|(?<=\w)\.(?=[^\W\d]|-))"
)


def _in_markdown(value: object) -> str:
    r"""Return a text that Markdown shows as it is, without links.

    >>> print(_in_markdown("<b>[0.5](http://www.1x) www.-y.de"))
    \<b\>\[0.5\](http\://www\.1x) www\.-y\.de
    """
    return _MARKDOWN.sub(r"\\\1", plain(value, None))


def _in_yaml(value: str | float) -> str:
    """Return a scalar of YAML: text is quoted, numbers are numbers to every version of it.

    >>> _in_yaml("a: b"), _in_yaml(1e-6), _in_yaml(2.0)
    ('"a: b"', '0.000001', '2.0')
    """
    if isinstance(value, str):
        return json.dumps(plain(value, None), ensure_ascii=False)
    return f"{value:.12f}".rstrip("0") if 1e-9 < value < 1 else repr(value)


def short(number: float) -> str:
    """Return a number with four digits; a whole or a large one has all before the point.

    >>> short(1.63018), short(1995.0), short(19654.3), short(1484705.0)
    ('1.63', '1995', '19,654', '1,484,705')
    """
    if abs(number) < 1000 and number != round(number):
        return f"{number:.4g}"
    return f"{number:,.0f}" if abs(number) >= _LONG else f"{number:.0f}"


def share(value: float, std: float | None = None) -> str:
    """Return a share in per cent, with no more digits than its noise supports.

    >>> share(0.12345, 0.02), share(0.12345, 0.0004), share(0.12345)
    ('12 %', '12.35 %', '12.3 %')
    """
    digits = 1 if std is None else _decimals(100 * std)
    return f"{100 * value:.{min(digits, 3)}f} %"


def half_width(std: float, like: float | None = None) -> str:
    """Return the half width of a 95 % interval of a share, in per cent points, rounded up.

    With as many digits as one ``like`` it, beside which it stands.

    >>> half_width(0.01), half_width(0.0171), half_width(0.0021), half_width(0.0021, 0.0031)
    ('± 2.0', '± 3.4', '± 0.42', '± 0.5')
    """
    half = 196 * std
    digits = min(_decimals(196 * (like or std) / 5), 4)
    return f"± {math.ceil(round(half * 10**digits, 9)) / 10**digits:.{digits}f}"


def _decimals(std: float) -> int:
    """Return how many decimals a number with this error has: those up to its first digit."""
    return max(0, -math.floor(math.log10(std))) if 0 < std < math.inf else 1
