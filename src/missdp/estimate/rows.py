"""Estimates from rows that a model draws, so that both agree.

An estimate is the value in 100,000 rows of the model. Released statistics give its error.
Everything here is a function of released values.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from missdp.estimate.formula import Question
from missdp.schema import Numeric
from missdp.synth.base import Synthesizer
from missdp.synth.fitted import Fitted
from missdp.table import Table
from missdp.types import Floats

_ROWS = 100_000
_ROWS_OF: WeakKeyDictionary[Fitted, Table] = WeakKeyDictionary()


def rows_of(model: Synthesizer) -> Table:
    """Return complete rows that a model draws, the same ones at every call."""
    fitted = model.fitted_
    if fitted not in _ROWS_OF:  # public: any seed does
        rows = model.sample_table(_ROWS, random_state=0).coded_as(fitted.schema)
        _ROWS_OF[fitted] = rows
    return _ROWS_OF[fitted]


def answer_of(rows: Table, asked: Question) -> Floats:
    """Return what rows answer to a question; nan for groups that they lack."""
    rows = _applicable(rows, (*asked.of, *asked.by))
    if asked.what == "correlation" and len(rows) < 2:
        return np.array([np.nan])
    if asked.what == "correlation":
        one, other = (_numbers(rows, name) for name in asked.of)
        spread = np.cov(one, other)
        scale = np.sqrt(np.diag(spread)).prod()
        return np.array([spread[0, 1] / scale if scale > 0 else np.nan])
    if asked.where is not None:
        values = np.asarray(asked.where.select(rows), dtype=np.float64)
    else:
        values = _numbers(rows, asked.of[0])
    found = _means(rows, values, asked.by)
    return found[1:] - found[0] if asked.contrast else found


def line_of(rows: Table, outcome: str, terms: Sequence[tuple[str, bool]]) -> Floats:
    """Return the coefficients of least squares in rows, the intercept first.

    Parameters
    ----------
    rows : Table
        Complete rows. Those in which an attribute does not apply are left out.
    outcome : str
        The attribute that is explained.
    terms : sequence of tuple of str and bool
        Attributes that explain it, and whether each counts by its levels.

    Returns
    -------
    ndarray
        The intercept, and for each term one slope, or one for each level but the first. All are
        nan if the rows do not determine the line, as where they lack a level.
    """
    rows = _applicable(rows, [outcome, *(name for name, _ in terms)])
    parts = [np.ones((len(rows), 1))]
    for name, by_levels in terms:
        if by_levels:
            parts.append(np.eye(rows.schema[name].size)[rows.codes(name)][:, 1:])
        else:
            parts.append(_numbers(rows, name)[:, None])
    design = np.hstack(parts)
    found, _, rank, _ = np.linalg.lstsq(design, _numbers(rows, outcome), rcond=1e-10)
    return np.asarray(found) if rank == design.shape[1] else np.full(design.shape[1], np.nan)


def _applicable(rows: Table, names: Sequence[str]) -> Table:
    """Return the rows in which all of some attributes have a value."""
    return rows.take(~np.any([rows.mask(name) for name in names], axis=0))


def _numbers(rows: Table, name: str) -> Floats:
    """Return the numbers of an attribute, or those that its levels are."""
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
