"""Questions that were matched with a fitted model, ready to be answered from tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any

import numpy as np

from missdp.errors import ParameterError
from missdp.estimate.columns import QuestionColumn
from missdp.estimate.released import Tables, require_statistics
from missdp.estimate.table_statistics import STATISTICS, Values
from missdp.schema import Date, Numeric
from missdp.schema.question_text import Question, is_formula, parse_formula, parse_question
from missdp.synth import AllPairs
from missdp.synth.base import Synthesizer


@dataclass(frozen=True, eq=False)
class Estimand:
    """A question that was matched with a fitted model."""

    text: str
    question: Question
    columns: Sequence[QuestionColumn]
    cliques: Sequence[tuple[str, ...]]  # attributes whose tables are read
    labels: Sequence[str]
    possible: tuple[float, ...] = ()  # see `Estimates`
    prepare: Callable[[Tables], Tables] = lambda tables: (
        tables
    )  # changes tables before they are read

    def groups(self, tables: Tables, **changes: Any) -> Values:
        """Return the value of each group, and the share of the rows that it is about.

        ``changes`` are other values of fields of the question.
        """
        question = replace(self.question, **changes)
        return STATISTICS[question.what](self.prepare(tables), question, self.columns)

    def values(self, tables: Tables, **changes: Any) -> Values:
        """Return the value of each label: of a group, or of its difference from the first group.

        As little is known of a difference as of the smaller group.
        """
        values, share = self.groups(tables, **changes)
        if not self.question.contrast:
            return values, share
        return values[1:] - values[0], np.minimum(share[1:], share[0])

    @property
    def is_relation(self) -> bool:
        """True if 0 means that there is no difference or no relation."""
        return self.question.contrast or self.question.what in ("correlation", "regression")

    @property
    def dates(self) -> str:
        """The unit of estimates that are dates, else nothing."""
        attribute, question = self.columns[0].attribute, self.question
        is_date = question.what in ("mean", "quantile") and not question.contrast
        return attribute.unit if is_date and isinstance(attribute, Date) else ""


def match_text(model: Synthesizer, text: str, *, by: str | Sequence[str] = ()) -> Estimand:
    """Match the text of a question or a formula with a fitted model.

    Parameters
    ----------
    model : Synthesizer
        A fitted model.
    text : str
        The question, or the formula of a regression.
    by : str or sequence of str, optional
        Attributes whose levels make groups, in addition to attributes in the text of a question.

    Returns
    -------
    Estimand

    Raises
    ------
    ParameterError
        If the text cannot be read, or the model has no answer to it.
    """
    if is_formula(text):
        return match_question(model, text, parse_formula(text, model.schema_))
    return match_question(model, text, parse_question(text, model.schema_, by))


def match_question(model: Synthesizer, text: str, question: Question) -> Estimand:
    """Match a question with a fitted model.

    Parameters
    ----------
    model : Synthesizer
        A fitted model.
    text : str
        The text of the question.
    question : Question
        The question.

    Returns
    -------
    Estimand

    Raises
    ------
    ParameterError
        If the model has no answer to such a question.
    """
    require_statistics(model)
    columns = [QuestionColumn(model, name) for name in (*question.of, *question.by)]
    if question.what == "regression":
        return _match_regression(text, question, columns)
    if question.what == "missing":
        columns[0].check_missing(model)
        if not isinstance(model, AllPairs) or len(question.by) > 1:
            raise ParameterError(
                "share(x is missing) is answered by AllPairs, for all rows or by one attribute"
            )
    groups = product(*(column.labels for column in columns[len(question.of) :]))
    labels = [", ".join(group) for group in groups] if question.by else ["all"]
    if question.contrast:
        labels = [f"{label} - {labels[0]}" for label in labels[1:]]
    cliques = [tuple(column.name for column in columns)]
    return Estimand(text, question, columns, cliques, labels, _possible(question, columns[0]))


def _possible(question: Question, first: QuestionColumn) -> tuple[float, ...]:
    """Return the smallest and the greatest possible answer, from public facts."""
    if question.what == "correlation":
        return (-1.0, 1.0)
    if question.what in ("share", "missing"):
        low, high = 0.0, 1.0
    elif isinstance(first.attribute, Numeric):
        low, high = first.attribute.lower, first.attribute.upper
    elif first.points is not None:
        low, high = float(first.points.min()), float(first.points.max())
    else:
        return ()
    if question.what == "sd":
        return (0.0, (high - low) / 2)
    return (low - high, high - low) if question.contrast else (low, high)


def _match_regression(text: str, question: Question, columns: Sequence[QuestionColumn]) -> Estimand:
    labels = ["intercept"]
    for column in columns[1:]:
        by_levels = column.name in question.by_levels
        if by_levels and isinstance(column.attribute, Numeric):
            raise ParameterError(f"formula: C() takes levels, and {column.name!r} is a number")
        column.by_levels = by_levels or column.points is None
        levels = [f"{column.name}={label}" for label in column.labels[1:]]
        labels += levels if column.by_levels else [column.name]
    conditional = [column.name for column in columns if column.may_not_apply]
    if len(columns) > 2 and conditional:
        raise ParameterError(
            "formula: an attribute that may not be applicable has one term. Use one term, or leave "
            f"out {', '.join(conditional)}"
        )
    question = replace(question, by_levels=tuple(c.name for c in columns if c.by_levels))
    return Estimand(text, question, columns, [*combinations(question.of, 2)], labels)
