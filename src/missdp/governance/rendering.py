"""Rendering of the documents of a release: templates, text and numbers.

Each value in a template becomes plain text, and is escaped for HTML or for Markdown. So names
cannot add markup. Numbers have the digits that their noise supports.
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

_LONG = 10_000  # numbers from which on digits are grouped (years are smaller)
_LONGEST = 80  # characters of a name or label; measurements have complete names
_UNPRINTABLE = {"Cc", "Cs", "Zl", "Zp"}
_JOINERS = "\u200c\u200d"  # characters that some scripts need


def template(name: str) -> Any:
    """Return a template that escapes its values by the suffix of its name.

    In HTML and Markdown all values are escaped, except markup from a filter. In YAML the filter
    ``yaml`` escapes values.
    """
    suffix = Path(name).suffix
    finalize = {".html": _in_html, ".md": _in_markdown}.get(suffix)
    return environment(TEMPLATES, suffix, finalize).get_template(name)


def environment(
    folder: Path, suffix: str = ".html", finalize: Callable[[object], object] | None = None
) -> Any:
    """Return the Jinja environment of the templates in a folder, with filters for text and numbers.

    Parameters
    ----------
    folder : Path
        Folder of the templates.
    suffix : str, default ".html"
        Suffix of the templates. Values are escaped in ``".html"``.
    finalize : callable, optional
        Function that changes each value before it is escaped.

    Returns
    -------
    jinja2.Environment
        A new environment.

    Raises
    ------
    MissingDependencyError
        If jinja2 is not installed.
    """
    jinja2 = import_optional("jinja2", purpose="reports, dossiers and pages")
    page = suffix == ".html"
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=page,
        trim_blocks=suffix != ".md",
        lstrip_blocks=page,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        finalize=finalize,
    )
    shown: tuple[Callable[..., Any], ...] = (plain_text, short, percent, half_width, parted)
    made.filters |= {function.__name__: function for function in shown}
    made.filters["yaml"] = _in_yaml
    return made


def plain_text(text: object, max_length: int | None = _LONGEST) -> str:
    r"""Return a text in one line without control characters or marks that change its direction.

    >>> from missdp.governance.rendering import plain_text
    >>> plain_text("  total\n\u202eincome\x00 "), plain_text("x" * 100, 5)
    ('total income', 'xxxx…')
    """
    printable = "".join(
        " " if unicodedata.category(c) in _UNPRINTABLE or c in "\ufffe\uffff" else c
        for c in str(text)
        if unicodedata.category(c) != "Cf" or c in _JOINERS
    )
    line = " ".join(printable.split())
    if max_length is None or len(line) <= max_length:
        return line
    return f"{line[: max_length - 1]}…"


def markup(text: str) -> Any:
    """Return HTML that is not escaped."""
    return import_optional("markupsafe", purpose="reports and dossiers").Markup(text)


def parted(name: str) -> Any:
    """Return a name in HTML that may be wrapped after an underscore."""
    return markup("_<wbr>").join(name.split("_"))


def _in_html(value: object) -> object:
    """Return a value as plain text, which Jinja escapes, unless it is markup already."""
    return value if hasattr(value, "__html__") else plain_text(value, None)


# Dots between words, as in addresses, become links in some dialects. Dots in numbers do not.
_MARKDOWN = re.compile(
    r"([\\`*_{}\[\]<>|~&$@]|:(?=//)|(?<=[^\W\d])\.(?=[\w-])|(?<=\w)\.(?=[^\W\d]|-))"
)


def _in_markdown(value: object) -> str:
    r"""Return a text that Markdown shows unchanged, without links.

    >>> from missdp.governance.rendering import _in_markdown
    >>> print(_in_markdown("<b>[0.5](http://www.1x) www.-y.de"))
    \<b\>\[0.5\](http\://www\.1x) www\.-y\.de
    """
    return _MARKDOWN.sub(r"\\\1", plain_text(value, None))


def _in_yaml(value: str | float) -> str:
    """Return a scalar of YAML: quoted text, or a number in every version of YAML.

    >>> from missdp.governance.rendering import _in_yaml
    >>> _in_yaml("a: b"), _in_yaml(1e-6), _in_yaml(2.0)
    ('"a: b"', '0.000001', '2.0')
    """
    if isinstance(value, str):
        return json.dumps(plain_text(value, None), ensure_ascii=False)
    return f"{value:.12f}".rstrip("0") if 1e-9 < value < 1 else repr(value)


def short(number: float) -> str:
    """Return a number with four digits. Whole and large numbers have all digits before the point.

    >>> from missdp.governance.rendering import short
    >>> short(1.63018), short(1995.0), short(19654.3), short(1484705.0)
    ('1.63', '1995', '19,654', '1,484,705')
    """
    if abs(number) < 1000 and number != round(number):
        return f"{number:.4g}"
    return f"{number:,.0f}" if abs(number) >= _LONG else f"{number:.0f}"


def percent(value: float, std: float | None = None) -> str:
    """Return a share in per cent, with the digits that its noise supports.

    >>> from missdp.governance.rendering import percent
    >>> percent(0.12345, 0.02), percent(0.12345, 0.0004), percent(0.12345)
    ('12 %', '12.35 %', '12.3 %')
    """
    digits = 1 if std is None else _decimals(100 * std)
    return f"{100 * value:.{min(digits, 3)}f} %"


def half_width(std: float, like: float | None = None) -> str:
    """Return the half width of a 95 % interval of a share, in per cent points, rounded up.

    Its number of digits is the number for the standard deviation ``like``, if that is passed.

    >>> from missdp.governance.rendering import half_width
    >>> half_width(0.01), half_width(0.0171), half_width(0.0021), half_width(0.0021, 0.0031)
    ('± 2.0', '± 3.4', '± 0.42', '± 0.5')
    """
    half = 196 * std
    digits = min(_decimals(196 * (like or std) / 5), 4)
    return f"± {math.ceil(round(half * 10**digits, 9)) / 10**digits:.{digits}f}"


def _decimals(std: float) -> int:
    """Return the number of decimals of a number with this error, up to the error's first digit."""
    return max(0, -math.floor(math.log10(std))) if 0 < std < math.inf else 1
