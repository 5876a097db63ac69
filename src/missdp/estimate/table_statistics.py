"""Statistics of released tables: means, shares, deviations, quantiles, correlations, regressions.

Each function returns the values of all groups, and the share of the rows that each is about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from missdp.errors import ParameterError
from missdp.estimate.columns import QuestionColumn
from missdp.estimate.released import Tables
from missdp.schema import Numeric
from missdp.schema.logic import Cells
from missdp.schema.question_text import Question
from missdp.types import Floats, Ints

Values = tuple[Floats, Floats]

MIN_DIVISOR = 1e-9  # smallest share in a divisor
_STEADY = 0.05  # shift of a mean by slopes, in standard deviations


def _cells(tables: Tables, first: QuestionColumn, groups: Sequence[QuestionColumn]) -> Floats:
    """Return shares by the codes of an attribute, one column for each group."""
    table = tables.of(first.at, *(group.at for group in groups))
    for axis, group in enumerate(groups, start=1):
        table = np.moveaxis(group.by_bin(np.moveaxis(table, axis, 0)), 0, axis)
    return table[: first.width].reshape(first.width, -1)


def _ratio(sums: Floats, cells: Floats) -> Values:
    share = cells.sum(axis=0)
    return sums / np.maximum(share, MIN_DIVISOR), share


def _mean(tables: Tables, _: Question, columns: Sequence[QuestionColumn]) -> Values:
    return _group_means(tables, columns, _cells(tables, columns[0], columns[1:]))


def _group_means(tables: Tables, columns: Sequence[QuestionColumn], cells: Floats) -> Values:
    """Return the means of a number by groups, from released products for one group."""
    first, *groups = columns
    if len(groups) != 1:
        return _ratio((first.relation_means if groups else first.mean)(tables) @ cells, cells)
    features, sums = first.features(tables)[:, 0], np.zeros(cells.shape[1])
    if first.score is not None:
        by_level = tables.cells[~first.at, groups[0].at][: groups[0].width]
        sums = groups[0].by_bin(by_level)
    return _ratio(features @ np.vstack([cells, sums]), cells)


def _share(tables: Tables, question: Question, columns: Sequence[QuestionColumn]) -> Values:
    first, *groups = columns
    cells = _cells(tables, first, groups)
    if isinstance(first.attribute, Numeric):
        values, lying = _values_by_group(tables, columns, cells)
        codes = np.repeat(np.tile(first.home, len(values) // len(first.home)), values.shape[1])
        named = _with_named_values(question, first.attribute, values)
        selected = _selected(question, first, codes, named.ravel()).reshape(values.shape)
        return _ratio(np.einsum("cp,cpg->g", selected, lying), cells)
    if first.shift is not None:
        raise ParameterError(f"{first.name!r} has levels: nothing can be added to a share")
    return _ratio(_selected(question, first, first.home) @ cells, cells)


def _selected(
    question: Question, first: QuestionColumn, codes: Ints, numbers: Floats | None = None
) -> Floats:
    """Return 1 where codes, and numbers if it is one, satisfy the condition of a share, else 0."""
    assert question.where is not None
    cells = {first.name: Cells.of(first.attribute, codes, numbers)}
    return question.where.truth(cells, len(codes)).is_true.astype(np.float64)


def _with_named_values(question: Question, number: Numeric, values: Floats) -> Floats:
    """Return values of which the nearest one to each value in the condition is replaced by it.

    If ``covers_segments``, all values in its segment are replaced.
    """
    values = values.copy()
    for part in question.where.comparisons() if question.where is not None else ():
        value = part.right
        if part.operator in ("==", "!=") and isinstance(value, float):
            lies = values[number.encode_values(np.clip([value], number.lower, number.upper))[0]]
            segment = np.searchsorted(number.binning.subintervals, [*lies, value], side="right")
            off = np.abs(lies - value)
            if off.min() > 0 and number.lower <= value <= number.upper:
                same = segment[:-1] == segment[-1] if question.covers_segments else off == off.min()
                lies[same] = value
    return values


def _values_by_group(tables: Tables, columns: Sequence[QuestionColumn], cells: Floats) -> Values:
    """Return values, and shares of rows by code, value and group.

    Slopes inside bins give the means of the groups.
    """
    first, *groups = columns
    values, weights = first.values(tables)
    even = weights[:, :, None] * cells[:, None, :]
    if not groups or first.at not in tables.slopes:
        return values, even
    tilt = tables.slopes[first.at].group_tilt(weights, cells)
    lean: Any = tables.lean
    if len(groups) == 1 and first.score is not None:
        means = _group_means(tables, columns, cells)[0]
        flat, gain = (_ratio(np.einsum("cp,cpg->g", values, x), cells)[0] for x in (even, tilt))
        shares = even.sum(axis=2) / max(float(cells.sum()), MIN_DIVISOR)
        variance = float((np.square(values) * shares).sum() - np.square((values * shares).sum()))
        residual = means - flat - lean * gain
        lean = lean + residual * gain / (np.square(gain) + _STEADY**2 * max(variance, MIN_DIVISOR))
    return values, _nonnegative(even, even + lean * tilt, cells, len(first.home))


def _nonnegative(even: Floats, tilted: Floats, cells: Floats, codes: int) -> Floats:
    """Return tilted shares without negative ones that the tilt made.

    Others have less there, so that all groups together stay as they are, as does the size of each
    group. Rows with and without missing values, if separated, are tilted together.
    """
    parts = cells.reshape(-1, codes, 1, cells.shape[1])
    shape = (len(parts), codes, *even.shape[1:])
    straight, flat = (x.reshape(shape).sum(axis=0) for x in (tilted, even))
    shares = np.maximum(straight, np.minimum(flat, 0.0))
    above = np.maximum(shares, 0.0)
    excess = (shares - flat).sum(axis=2) / np.maximum(above.sum(axis=2), MIN_DIVISOR)
    shares -= above * np.clip(excess, 0.0, 1.0)[:, :, None]
    total = parts.sum(axis=0)
    shares = np.where(total == 0, 0.0, shares)  # a tilt gives no rows to a cell without rows
    shares *= total.sum(axis=(0, 1)) / np.maximum(shares.sum(axis=(0, 1)), MIN_DIVISOR)
    part = parts / np.where(total == 0, 1.0, total)
    return np.asarray((shares * part).reshape(even.shape))


def _missing(tables: Tables, _: Question, columns: Sequence[QuestionColumn]) -> Values:
    missing, applicable = tables.missing[tuple(column.at for column in columns)]
    share = _cells(tables, columns[0], columns[1:]).sum(axis=0)  # rows as of any question
    return missing[: len(share)] / np.maximum(applicable[: len(share)], MIN_DIVISOR), share


def _sd(tables: Tables, _: Question, columns: Sequence[QuestionColumn]) -> Values:
    cells = _cells(tables, columns[0], columns[1:])
    values, lying = _values_by_group(tables, columns, cells)
    mean, share = _ratio(np.einsum("cp,cpg->g", values, lying), cells)
    square = _ratio(np.einsum("cp,cpg->g", np.square(values), lying), cells)[0]
    variance = square - mean**2  # below 0 by noise. The value 0 in all draws would seem certain
    return np.sign(variance) * np.sqrt(np.abs(variance)), share


def _quantile(tables: Tables, question: Question, columns: Sequence[QuestionColumn]) -> Values:
    cells = _cells(tables, columns[0], columns[1:])
    values, lying = _values_by_group(tables, columns, np.maximum(cells, 0.0))
    points = values.ravel()
    order = np.argsort(points, kind="stable")
    # Noise makes this sum fall here and there. Without negative shares, the others would add up.
    mass = np.cumsum(lying.reshape(len(points), -1)[order], axis=0)
    place = (mass < question.level * mass[-1]).sum(axis=0)
    return points[order][np.minimum(place, len(order) - 1)], cells.sum(axis=0)


def _correlation(tables: Tables, _: Question, columns: Sequence[QuestionColumn]) -> Values:
    covariance, share = _moments(tables, columns)[1:]
    scale = np.sqrt(np.maximum(np.diag(covariance), MIN_DIVISOR))
    return np.clip([covariance[0, 1] / scale[0] / scale[1]], -1.0, 1.0), np.array([share])


def _regression(tables: Tables, _: Question, columns: Sequence[QuestionColumn]) -> Values:
    """Return the coefficients of the first column on the others, the intercept first."""
    means, covariance, share = _moments(tables, columns)
    slopes = np.linalg.lstsq(covariance[1:, 1:], covariance[1:, 0], rcond=1e-10)[0]
    coefficients = np.append(means[0] - slopes @ means[1:], slopes)
    return coefficients, np.full(len(coefficients), share)


STATISTICS: Mapping[str, Callable[[Tables, Question, Sequence[QuestionColumn]], Values]] = {
    "mean": _mean,
    "share": _share,
    "missing": _missing,
    "sd": _sd,
    "quantile": _quantile,
    "correlation": _correlation,
    "regression": _regression,
}
"""By `Question.what`."""


def _moments(tables: Tables, columns: Sequence[QuestionColumn]) -> tuple[Floats, Floats, float]:
    """Return means and covariances of the features of columns, and the share of rows."""
    if any(column.may_not_apply for column in columns):  # of two: rows in which both apply
        cells = _joint(tables, *columns)[:-1, :-1]
        share = float(cells.sum())
        marginals = [cells.sum(axis=1) / share, cells.sum(axis=0) / share]
    else:
        share, marginals = 1.0, [tables.of(c.at)[: c.width] for c in columns]
    single = [_moments_of(tables, c, m) for c, m in zip(columns, marginals, strict=True)]
    features = [column.features(tables) for column in columns]

    def block(i: int, j: int) -> Floats:
        if i == j:
            return single[i][1]
        joint, one, other = _joint(tables, columns[i], columns[j]) / share, features[i], features[j]
        means = one.T @ joint[:, :-1].sum(axis=1), joint[:-1].sum(axis=0) @ other
        return np.asarray(one.T @ joint @ other - np.outer(*means))

    places = range(len(columns))
    covariance = np.block([[block(i, j) for j in places] for i in places])
    return np.concatenate([mean for mean, _ in single]), covariance, share


def _joint(tables: Tables, one: QuestionColumn, other: QuestionColumn) -> Floats:
    """Return shares by the codes of two attributes, and the sums of their ``z`` behind them."""
    joint = np.zeros((one.width + 1, other.width + 1))
    joint[:-1, :-1] = tables.of(one.at, other.at)[: one.width, : other.width]
    if one.score is not None:
        joint[-1, :-1] = tables.cells[~one.at, other.at][: other.width]
    if other.score is not None:
        joint[:-1, -1] = tables.cells[~other.at, one.at][: one.width]
    if one.score is not None and other.score is not None:
        joint[-1, -1] = tables.cells[~min(one.at, other.at), ~max(one.at, other.at)]
    return joint


def _moments_of(tables: Tables, column: QuestionColumn, marginal: Floats) -> tuple[Floats, Floats]:
    """Return means and covariances of the features of one column."""
    if column.by_levels:
        means = marginal[1:]
        return means, np.diag(means) - np.outer(means, means)
    mean = float(marginal @ column.mean(tables))
    square = float(marginal @ column.mean(tables, np.square))
    return np.array([mean]), np.array([[square - mean**2]])
