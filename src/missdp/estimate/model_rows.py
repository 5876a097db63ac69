"""Statistics of rows that a model draws, so that estimates and rows agree.

An estimate is the value in 100,000 rows of the model. Released statistics give its error.
Everything here is a function of released values.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from missdp.schema import Numeric
from missdp.schema.question_text import Question
from missdp.synth.base import Synthesizer
from missdp.synth.fitted import Fitted
from missdp.table import Table
from missdp.types import Floats

_ROWS = 100_000  # rows of the model that answer questions
_ROWS_OF: WeakKeyDictionary[Fitted, Table] = WeakKeyDictionary()


def rows_of_model(model: Synthesizer) -> Table:
    """Return complete rows that a model draws, the same ones at every call."""
    fitted = model.fitted_
    if fitted not in _ROWS_OF:  # public: any seed does
        _ROWS_OF[fitted] = model.sample_table(_ROWS, random_state=0).coded_as(fitted.schema)
    return _ROWS_OF[fitted]


def answer_by_rows(rows: Table, question: Question) -> Floats:
    """Return the answer of rows to a question, NaN for groups without rows.

    Rows in which an attribute of the question does not apply are left out.
    """
    names = (*question.of, *question.by)
    rows = rows.take(~np.any([rows.mask(name) for name in names], axis=0))
    if question.what == "regression":
        return _regression(rows, question)
    if question.what == "correlation":
        if len(rows) < 2:
            return np.array([np.nan])
        one, other = (_numbers(rows, name) for name in question.of)
        with np.errstate(invalid="ignore"):  # a constant has no correlation
            return np.asarray(np.corrcoef(one, other)[:1, 1])
    if question.where is not None:
        values = np.asarray(question.where.select(rows), dtype=np.float64)
    else:
        values = _numbers(rows, question.of[0])
    means = _means(rows, values, question.by)
    return means[1:] - means[0] if question.contrast else means


def _regression(rows: Table, question: Question) -> Floats:
    """Return the coefficients of a regression, all nan if the rows do not determine them."""
    outcome, *terms = question.of
    parts = [np.ones((len(rows), 1))]
    for name in terms:
        if name in question.by_levels:
            parts.append(np.eye(rows.schema[name].size)[rows.codes(name)][:, 1:])
        else:
            parts.append(_numbers(rows, name)[:, None])
    design = np.hstack(parts)
    slopes, _, rank, _ = np.linalg.lstsq(design, _numbers(rows, outcome), rcond=1e-10)
    return np.asarray(slopes) if rank == design.shape[1] else np.full(design.shape[1], np.nan)


def _numbers(rows: Table, name: str) -> Floats:
    """Return the values of an attribute, or the numbers that are its levels."""
    attribute = rows.schema[name]
    if isinstance(attribute, Numeric):
        return rows.values(name)
    return np.asarray(np.array(attribute.levels, dtype=np.float64)[rows.codes(name)])


def _means(rows: Table, values: Floats, by: Sequence[str]) -> Floats:
    """Return the mean of the values in each group."""
    group, groups = np.zeros(len(rows), dtype=np.int64), 1
    for name in by:
        size = rows.schema[name].size
        group, groups = group * size + rows.codes(name), groups * size
    number = np.bincount(group, minlength=groups)
    sums = np.bincount(group, values, groups)
    return np.asarray(np.divide(sums, number, out=np.full(groups, np.nan), where=number > 0))
