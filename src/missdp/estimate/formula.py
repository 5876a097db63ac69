"""What is asked of a model, in text: parsed, never evaluated.

``mean(wage)``, ``sd(wage)``, ``median(wage)``, ``quantile(wage, 0.9)``, ``share(sex == "f")``,
``share(wage is missing)``, ``correlation(wage, age)`` and ``difference(mean(wage))``, perhaps with
``by`` and names behind; and ``wage ~ age + C(sex)``, a regression. Odd names stand in backticks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from missdp.errors import ParameterError, did_you_mean, replacing
from missdp.schema import Schema
from missdp.schema.expressions import parse_names, parse_where
from missdp.schema.logic import Predicate

_ARGUMENTS = {"mean": 1, "sd": 1, "median": 1, "quantile": 2, "share": 1, "correlation": 2}
# Words that people write for a statistic, in other programs and in prose.
_SYNONYMS = {
    **dict.fromkeys(("average", "avg"), "mean"),
    **dict.fromkeys(("std", "stdev", "stddev", "standard_deviation"), "sd"),
    **dict.fromkeys(("percentile", "quartile"), "quantile"),
    **dict.fromkeys(("proportion", "percent", "percentage", "fraction", "rate"), "share"),
    **dict.fromkeys(("cor", "corr", "pearson"), "correlation"),
    **dict.fromkeys(("diff", "contrast"), "difference"),
}
_CALL = re.compile(
    r"\s*(?P<what>\w+)\s*\((?P<of>.*)\)\s*(?:by\b(?P<by>(?:`[^`]*`|[^()`])*))?\s*", re.DOTALL
)
_GONE = re.compile(r"\s*(?P<of>`[^`]+`|\w+)\s+is\s+(missing|null|na)\s*", re.IGNORECASE)
_TERM = re.compile(r"\s*(?:`(?P<quoted>[^`]+)`|(?P<name>[^\W\d]\w*)|(?P<sign>.))", re.DOTALL)


@dataclass(frozen=True)
class Question:
    """One statistic, of attributes, by groups.

    Parameters
    ----------
    what : str
        "mean", "sd", "quantile", "share", "missing" (a share, too) or "correlation".
    of : tuple of str
        Attributes that it is about.
    by : tuple of str
        Attributes whose levels make groups.
    level : float
        Of a quantile.
    where : Predicate, optional
        What the share is of.
    contrast : bool
        Whether each group is compared with the first one.
    whole : bool
        Whether all that lie in a piece with a value that ``where`` names have it.
    """

    what: str
    of: tuple[str, ...]
    by: tuple[str, ...] = ()
    level: float = 0.5
    where: Predicate | None = None
    contrast: bool = False
    whole: bool = False


@dataclass(frozen=True)
class _Formula:
    """An outcome, and terms: attributes, each as a number or by levels."""

    outcome: str
    terms: tuple[tuple[str, bool], ...]


def parse_question(text: str, schema: Schema, by: tuple[str, ...] = ()) -> Question:
    """Return what a text such as ``mean(wage) by sex`` asks."""
    found = _CALL.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        if isinstance(text, str) and is_formula(text):
            raise ParameterError("this is a formula, not a question: use regress(...)")
        raise ParameterError(
            "a question is written as mean(x), sd(x), median(x), quantile(x, 0.9), share(x == 1), "
            "share(x is missing), correlation(x, y) or difference(mean(x)), perhaps with 'by' and "
            "names behind it"
        )
    what, of = found["what"], found["of"]
    groups = (*by, *parse_names(found["by"] or "", schema))
    if what == "difference":
        inner = parse_question(of, schema, groups)
        if inner.contrast or not inner.by:
            raise ParameterError(
                "difference(...) compares groups with the first one: say which, as in "
                "difference(mean(wage)) by sex"
            )
        return Question(**{**vars(inner), "contrast": True})
    if what not in _ARGUMENTS:
        statistics = (*_ARGUMENTS, "difference")
        raise ParameterError(
            f"unknown statistic {what!r}. Available: {', '.join(statistics)}"
            f"{did_you_mean(what, statistics, synonyms=_SYNONYMS)}"
        )
    if what == "share" and (gone := _GONE.fullmatch(of)):
        return _checked(Question("missing", parse_names(gone["of"], schema), groups))
    if what == "share":
        where = parse_where(of, schema, named="share")
        if len(where.names) != 1:
            raise ParameterError("share(...) is about one attribute; name others behind 'by'")
        return _checked(Question(what, tuple(where.names), groups, where=where))
    names = list(parse_names(of) or ("",))
    level = _level(names) if what == "quantile" else 0.5
    quoted = ", ".join(f"`{name}`" for name in names)
    if len(names) + (what == "quantile") != _ARGUMENTS[what]:
        raise ParameterError(f"{what}(...) takes {_ARGUMENTS[what]} arguments")
    named = "quantile" if what == "median" else what
    return _checked(Question(named, parse_names(quoted, schema), groups, level=level))


def _level(arguments: list[str]) -> float:
    """Take the level of a quantile from its arguments, of which it is the last."""
    wrong = ParameterError("quantile(x, q) takes a number q, as in quantile(wage, 0.9)")
    if len(arguments) < 2:
        raise wrong
    with replacing(ValueError, by=wrong):
        level = float(arguments.pop())
    if not 0 < level < 1:
        raise ParameterError("quantile(x, q) takes a q between 0 and 1")
    return level


def _checked(asked: Question) -> Question:
    names = (*asked.of, *asked.by)
    if len({*names}) < len(names):
        raise ParameterError("each attribute may be named once in a question")
    if asked.what == "correlation" and asked.by:
        raise ParameterError("correlation(x, y) has no groups: leave 'by' out")
    return asked


def is_formula(text: str) -> bool:
    """Whether a text is a formula rather than a question: it has a tilde outside of quotes.

    >>> is_formula("wage ~ age"), is_formula("share(home == '~')")
    (True, False)
    """
    return "~" in re.sub("`[^`]*`|\"[^\"]*\"|'[^']*'", "", str(text))


def parse_formula(text: str, schema: Schema) -> _Formula:
    """Return the outcome and the terms of ``outcome ~ name + C(name)``."""
    tokens = [(str(m.lastgroup), m[str(m.lastgroup)]) for m in _TERM.finditer(str(text).rstrip())]
    follows = [word for _, word in tokens[1:]] + [""]
    shape = "".join(
        "C" if (kind, word, after) == ("name", "C", "(") else word if kind == "sign" else "n"
        for (kind, word), after in zip(tokens, follows, strict=True)
    )
    if re.fullmatch(r"n~(n|C\(n\))(\+(n|C\(n\)))*", shape) is None:
        calls = [
            w for (k, w), after in zip(tokens, follows, strict=True) if after == "(" and w != "C"
        ]
        signs = [w for k, w in tokens if k == "sign" and w not in "~+()"]
        odd = f"{calls[0]}(...)" if calls and calls[0].isidentifier() else "".join(signs[:1])
        raise ParameterError(
            f"formula: {odd or 'this'} is not read. Write 'outcome ~ name + C(name) + ...': names "
            "(odd ones in backticks), + and C() for levels. Interactions, I(), other calls and "
            "numbers are refused; nothing is evaluated"
        )
    names = [word for (kind, word), sign in zip(tokens, shape, strict=True) if sign == "n"]
    parse_names(", ".join(f"`{name}`" for name in names), schema)
    if len({*names}) < len(names):
        raise ParameterError("formula: each attribute may be named once")
    by_levels = [
        after == ")" for after, sign in zip(shape[1:] + " ", shape, strict=True) if sign == "n"
    ]
    return _Formula(names[0], tuple(zip(names[1:], by_levels[1:], strict=True)))
