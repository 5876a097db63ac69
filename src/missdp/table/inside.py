"""Values of numbers inside their bins: relations between bins go on inside them.

A model draws bins. Were values then drawn by themselves, a correlation would lose what lies inside
bins. So the values of a bin are handed out in an order: where a number rises with the others, as a
straight line through all rows tells, it does so inside its bins too. The line is one in the logit
of ranks, which go on rising far out: there few rows make most of a covariance. Each bin keeps its
values, so that nothing but relations between numbers changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from missdp.schema import AnyAttribute, Numeric
from missdp.table.encode import Column
from missdp.types import Floats, Ints

__all__ = ["related"]


_FEWEST = 100  # rows, of which a line tells something
_RIDGE = 1e-3
_MOST = 0.95  # correlation inside a bin
_LEAST = 1e-9


def related(
    attributes: Iterable[AnyAttribute],
    columns: Mapping[str, Column],
    free: Collection[str],
    rng: np.random.Generator,
) -> dict[str, Column]:
    """Return synthetic columns in which values of the free attributes have another order in bins.

    All numbers have values.
    """
    numbers = [a for a in attributes if isinstance(a, Numeric)]
    found = dict(columns)
    if len(numbers) < 2 or len(columns[numbers[0].name].codes) < _FEWEST:
        return found
    scores = np.stack([_scores(columns[a.name], a.size) for a in numbers], axis=1)
    gram = scores.T @ scores / len(scores)
    for i, a in enumerate(numbers):
        if a.name in free:
            others = np.arange(len(numbers)) != i
            line = gram[np.ix_(others, others)] + _RIDGE * np.eye(len(numbers) - 1)
            slopes = np.linalg.solve(line, gram[others, i])
            told = float(slopes @ gram[others, i] / max(gram[i, i], _LEAST))
            values = _in_order(columns[a.name], scores[:, i], scores[:, others] @ slopes, told, rng)
            found[a.name] = Column(columns[a.name].codes, values)
    return found


def _scores(column: Column, size: int) -> Floats:
    """Return logits of mid-ranks of the values, of mean 0 and variance 1; 0 where there is none."""
    from scipy.special import logit
    from scipy.stats import rankdata

    found, seen = np.zeros(len(column.codes)), column.codes < size
    if seen.any():
        values = column.values[seen]  # type: ignore[index]
        scores = logit((rankdata(values) - 0.5) / len(values))
        found[seen] = (scores - scores.mean()) / max(_LEAST, scores.std())
    return found


def _in_order(
    column: Column, scores: Floats, line: Floats, told: float, rng: np.random.Generator
) -> Floats:
    """Return the values of each bin in another order: as ``line`` says, as far as it tells.

    Given the number, the expectation of the line rises with it by ``told``, whatever part of its
    range is looked at: that makes the correlation inside of each bin.
    """
    codes = column.codes.astype(np.int64)
    middle, spread = _by_code(codes, line)
    within = max(0.0, told) * _by_code(codes, scores)[1] / np.maximum(spread, _LEAST)
    part = np.minimum(within, _MOST)[codes]
    score = part * (line - middle[codes]) / np.maximum(spread, _LEAST)[codes]
    score += np.sqrt(1 - np.square(part)) * rng.standard_normal(len(codes))
    values = np.empty(len(codes))
    values[np.lexsort((score, codes))] = column.values[np.lexsort((column.values, codes))]  # type: ignore[index,arg-type]
    return values


def _by_code(codes: Ints, numbers: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the numbers of each code."""
    rows = np.maximum(np.bincount(codes), 1)
    mean = np.bincount(codes, numbers) / rows
    square = np.bincount(codes, np.square(numbers)) / rows
    return mean, np.sqrt(np.maximum(square - np.square(mean), 0.0))
