"""Questions to a model or to private rows, as text: parsed, never evaluated.

Models answer ``mean(wage)``, ``sd(wage)``, ``median(wage)``, ``quantile(wage, 0.9)``,
``share(sex == "f")``, ``share(wage is missing)``, ``correlation(wage, age)`` and
``difference(mean(wage))``. Names of groups follow after ``by``. A regression is written
``wage ~ age + C(sex)``. Odd names stand in backticks. Private rows also answer ``count()``,
``sum(wage)``, ``variance(wage)`` and ``histogram(wage)``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from missdp.errors import ParameterError, did_you_mean, replacing
from missdp.schema import Schema
from missdp.schema.expressions import parse_names, parse_where
from missdp.schema.logic import Predicate

_ARGUMENTS = {"mean": 1, "sd": 1, "median": 1, "quantile": 2, "share": 1, "correlation": 2}
_ARGUMENTS |= {"count": 0, "sum": 1, "variance": 1, "histogram": 1}
#: Statistics that a released model answers, and those that `missdp query` answers.
MODEL_STATISTICS = ("mean", "sd", "median", "quantile", "share", "correlation", "difference")
ROW_STATISTICS = ("count", "share", "mean", "sum", "variance", "sd", "correlation", "histogram")
# Other names of statistics, in other programs and in prose.
_SYNONYMS = {
    **dict.fromkeys(("average", "avg"), "mean"),
    **dict.fromkeys(("std", "stdev", "stddev", "standard_deviation"), "sd"),
    **dict.fromkeys(("percentile", "quartile"), "quantile"),
    **dict.fromkeys(("proportion", "percent", "percentage", "fraction", "rate"), "share"),
    **dict.fromkeys(("cor", "corr", "pearson"), "correlation"),
    **dict.fromkeys(("diff", "contrast"), "difference"),
    **dict.fromkeys(("total",), "sum"),
    **dict.fromkeys(("var",), "variance"),
    **dict.fromkeys(("n", "rows"), "count"),
}
_CALL = re.compile(
    r"\s*(?P<what>\w+)\s*\((?P<of>.*)\)\s*(?:by\b(?P<by>(?:`[^`]*`|[^()`])*))?\s*", re.DOTALL
)
_NESTED = re.compile(r"\s*difference\s*\(")
_IS_MISSING = re.compile(r"\s*(?P<of>`[^`]+`|\w+)\s+is\s+(missing|null|na)\s*", re.IGNORECASE)
_NAME = r"(?:`[^`]+`|[^\W\d]\w*)"
_TERM = rf"\s*(?:C\s*\(\s*{_NAME}\s*\)|{_NAME})\s*"
_FORMULA = re.compile(rf"\s*({_NAME})\s*~({_TERM}(?:\+{_TERM})*)")
_TERM_NAME = re.compile(rf"\s*(C\s*\(\s*)?({_NAME})")
_OTHER_CALL = re.compile(r"(?!C\b)\b([^\W\d]\w*)\s*\(")
_OTHER_SIGN = re.compile(r"[^\w\s~+()]|\b\d")


@dataclass(frozen=True)
class Question:
    """A parsed question: one statistic of attributes, by groups.

    Parameters
    ----------
    what : str
        "mean", "sd", "quantile", "share", "missing" (a share, too), "correlation" or "regression".
        For private rows also "count", "sum", "variance" and "histogram".
    of : tuple of str
        Attributes of the statistic. In a regression, the outcome comes first.
    by : tuple of str
        Attributes whose levels make groups.
    level : float
        Level of a quantile, between 0 and 1.
    where : Predicate, optional
        The condition of a share.
    contrast : bool
        True if each group is compared with the first group.
    covers_segments : bool
        True if a segment with a value that ``where`` names has no other value.
    by_levels : tuple of str
        Terms of a regression with a coefficient for each level.
    """

    what: str
    of: tuple[str, ...]
    by: tuple[str, ...] = ()
    level: float = 0.5
    where: Predicate | None = None
    contrast: bool = False
    covers_segments: bool = False
    by_levels: tuple[str, ...] = ()


def parse_question(
    text: str,
    schema: Schema,
    by: str | Sequence[str] = (),
    *,
    available: Sequence[str] = MODEL_STATISTICS,
) -> Question:
    """Parse a question such as ``mean(wage) by sex``.

    Parameters
    ----------
    text : str
        The question.
    schema : Schema
        Attributes that it may name.
    by : str or sequence of str, optional
        Attributes whose levels make groups, in addition to attributes in the text.
    available : sequence of str
        Names of the available statistics. If "count" is available, the condition of a share may
        have several attributes.

    Returns
    -------
    Question

    Raises
    ------
    ParameterError
        If the text cannot be read, or names an unknown attribute.
    """
    call = _CALL.fullmatch(text) if isinstance(text, str) else None
    if call is None:
        if isinstance(text, str) and is_formula(text):
            raise ParameterError("this is a formula, not a question. Use regress(...).")
        raise ParameterError(
            "a question is written as mean(x), sd(x), median(x), quantile(x, 0.9), share(x == 1), "
            "share(x is missing), correlation(x, y) or difference(mean(x)), perhaps with 'by' and "
            "names behind it"
        )
    by = (by,) if isinstance(by, str) else tuple(by)
    groups = (*by, *parse_names(call["by"] or "", schema))
    if call["what"] not in available:
        raise _unavailable(call["what"], available)
    if call["what"] == "difference":
        if _NESTED.match(call["of"]):
            raise ParameterError("difference(...) takes a statistic, not another difference")
        inner = parse_question(call["of"], schema, groups, available=available)
        if inner.contrast or not inner.by:
            raise ParameterError(
                "difference(...) compares groups with the first group. Name the groups, as in "
                "difference(mean(wage)) by sex."
            )
        return replace(inner, contrast=True)
    question = replace(_parse_call(call["what"], call["of"], schema), by=groups)
    if question.what == "share" and len(question.of) != 1 and "count" not in available:
        raise ParameterError("share(...) takes one attribute. Name other attributes after 'by'.")
    names = (*question.of, *groups)
    if len({*names}) < len(names):
        raise ParameterError("each attribute may be named once in a question")
    if question.what == "correlation" and groups:
        raise ParameterError("correlation(x, y) has no groups. Leave 'by' out.")
    return question


def _parse_call(what: str, of: str, schema: Schema) -> Question:
    """Return the question of a statistic with the text in its parentheses."""
    if what == "share" and (missing := _IS_MISSING.fullmatch(of)):
        return Question("missing", parse_names(missing["of"], schema))
    if what == "share":
        where = parse_where(of, schema, named="share")
        return Question(what, tuple(where.names), where=where)
    if what == "count" and not of.strip():
        return Question(what, ())
    names = list(parse_names(of) or ("",))
    level = _level(names) if what == "quantile" else 0.5
    quoted = ", ".join(f"`{name}`" for name in names)
    if len(names) + (what == "quantile") != _ARGUMENTS[what]:
        raise ParameterError(f"{what}(...) takes {_ARGUMENTS[what]} arguments")
    statistic = "quantile" if what == "median" else what
    return Question(statistic, parse_names(quoted, schema), level=level)


def _unavailable(what: str, available: Sequence[str]) -> ParameterError:
    """Return the error about a statistic that does not exist, or is available elsewhere."""
    listed = ", ".join(available)
    if what not in {*MODEL_STATISTICS, *ROW_STATISTICS}:
        near = did_you_mean(what, available, synonyms=_SYNONYMS)
        return ParameterError(f"unknown statistic {what!r}. Available: {listed}{near}")
    command = "estimate`, from a model" if what in MODEL_STATISTICS else "query`, from rows"
    return ParameterError(
        f"{what}(...) is answered by `missdp {command}. Available here: {listed}."
    )


def _level(arguments: list[str]) -> float:
    """Remove the last argument of a quantile, and return it as the level."""
    wrong = ParameterError("quantile(x, q) takes a number q, as in quantile(wage, 0.9)")
    if len(arguments) < 2:
        raise wrong
    with replacing(ValueError, by=wrong):
        level = float(arguments.pop())
    if not 0 < level < 1:
        raise ParameterError("quantile(x, q) takes a q between 0 and 1")
    return level


def is_formula(text: str) -> bool:
    """Return True if a text is a formula rather than a question: it has a tilde outside of quotes.

    >>> from missdp.schema.question_text import is_formula
    >>> is_formula("wage ~ age"), is_formula("share(home == '~')")
    (True, False)
    """
    return "~" in re.sub("`[^`]*`|\"[^\"]*\"|'[^']*'", "", str(text))


def parse_formula(text: str, schema: Schema) -> Question:
    """Parse the formula of a regression, ``outcome ~ name + C(name)``."""
    formula = _FORMULA.fullmatch(str(text))
    if formula is None:
        unquoted = re.sub("`[^`]*`", "", str(text))
        call, sign = _OTHER_CALL.search(unquoted), _OTHER_SIGN.search(unquoted)
        odd = f"{call[1]}(...)" if call else sign[0] if sign else "this"
        raise ParameterError(
            f"formula: {odd} is not read. Write 'outcome ~ name + C(name) + ...': names (odd names "
            "in backticks), + and C() for levels. Interactions, I(), other calls and numbers are "
            "refused. Nothing is evaluated."
        )
    terms = _TERM_NAME.findall(formula[2])
    names = parse_names(", ".join([formula[1], *(name for _, name in terms)]), schema)
    if len({*names}) < len(names):
        raise ParameterError("formula: each attribute may be named once")
    by_levels = [name for name, (call, _) in zip(names[1:], terms, strict=True) if call]
    return Question("regression", names, by_levels=tuple(by_levels))
