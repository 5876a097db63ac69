"""Merging of rare levels, impossible cells, draws of levels, and values inside bins.

`Levels` groups the levels of an attribute that are modelled together. A level whose released count
is hidden by noise cannot be separated from other rare levels in a larger marginal. There it would
only add noise. As in the public implementations of MST (McKenna, Miklau and Sheldon 2021), rare
levels are merged for modelling and split again for sampling. Merging is post-processing of the
released one-way marginals. Summing private counts over merged levels does not change their
sensitivity.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from missdp.serialization import Record
from missdp.types import Clique, Flags, Floats, Ints

Draws: TypeAlias = Literal["even", "independent"]
Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Levels(Record):
    """Released groups of the levels of one attribute, in which rare levels are merged.

    Parameters
    ----------
    groups : ndarray of int64, shape (size,)
        Group of each level, from 0 to the number of groups less 1.
    shares : ndarray of float, shape (size,)
        Share of each level in its group. Shares sum to 1 in each group.
    """

    groups: Ints
    shares: Floats

    @classmethod
    def from_counts(cls, counts: Floats, *, threshold: float, kinds: Ints | None = None) -> Levels:
        """Merge levels with a released count below ``threshold`` into one group per kind.

        Parameters
        ----------
        counts : ndarray of shape (size,)
            Released counts.
        threshold : float
            Count in rows.
        kinds : ndarray of int64, shape (size,), optional
            Kind of each level: see `level_kinds`.

        Returns
        -------
        Levels
            Released groups.
        """
        rare = counts < threshold
        groups = np.arange(len(counts))
        if np.count_nonzero(rare) > 1:
            kind = np.zeros(len(counts), dtype=np.int64) if kinds is None else kinds
            rank = np.searchsorted(np.unique(kind[rare]), kind)
            groups = np.where(rare, np.count_nonzero(~rare) + rank, np.cumsum(~rare) - 1)
        weight = np.maximum(counts, 0.0) + 1e-6
        totals = np.bincount(groups, weights=weight)
        return cls(groups.astype(np.int64), weight / totals[groups])

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.groups.max()) + 1

    def split(self, codes: Ints, rng: Generator) -> Ints:
        """Draw a level for each group code."""
        order = np.argsort(self.groups, kind="stable")
        sizes = np.bincount(self.groups)
        last = np.cumsum(sizes) - 1
        drawn: Ints = order[last][codes]
        among = np.flatnonzero((sizes > 1)[codes])  # most groups have a single level
        if among.size:
            ends = np.cumsum(self.shares[order])  # one unit per group, in group order
            groups = codes[among]
            places = np.searchsorted(ends, groups + rng.random(among.size), side="right")
            first = last - sizes + 1
            drawn[among] = order[np.clip(places, first[groups], last[groups])]
        return drawn


def split_rows(levels: Sequence[Levels], rows: Ints, missing: Flags, rng: Generator) -> list[Ints]:
    """Draw a level for each group, attribute by attribute. A missing cell has the code ``size``.

    Parameters
    ----------
    levels : sequence of Levels
        Groups of levels of each attribute.
    rows : ndarray of int64, shape (n, d)
        Groups.
    missing : ndarray of bool, shape (n, d)
        Missing cells.
    rng : numpy.random.Generator
        Draws the levels.

    Returns
    -------
    list of ndarray of int64
        Codes of each attribute.
    """
    return [
        np.where(missing[:, v], len(level.groups), level.split(rows[:, v], rng))
        for v, level in enumerate(levels)
    ]


Zeros: TypeAlias = dict[Clique, Flags]
"""Impossible cells by sorted attribute positions, on the declared levels."""


def level_kinds(zeros: Zeros, sizes: Sequence[int]) -> list[Ints]:
    """Number the levels of each attribute by their impossible combinations.

    Levels of one kind are interchangeable, so merging them preserves all constraints.
    """
    kinds = []
    for v, size in enumerate(sizes):
        tables = [
            np.moveaxis(table, clique.index(v), 0).reshape(size, -1)
            for clique, table in zeros.items()
            if v in clique
        ]
        pattern = np.concatenate([np.zeros((size, 1), dtype=bool), *tables], axis=1)
        kinds.append(np.unique(pattern, axis=0, return_inverse=True)[1].reshape(size))
    return kinds


def merge_zeros(zeros: Zeros, levels: Sequence[Levels]) -> Zeros:
    """Return impossible cells on merged levels of one kind each."""
    first = [np.unique(level.groups, return_index=True)[1] for level in levels]
    return {c: table[np.ix_(*(first[v] for v in c))] for c, table in zeros.items()}


def cell_index(codes: Any, names: Sequence[Any], shape: Sequence[int], n: int) -> Ints:
    """Return the index of each row's cell in a flat table over some attributes.

    Parameters
    ----------
    codes : mapping or sequence of ndarray
        Codes of rows by attribute.
    names : sequence
        The attributes.
    shape : sequence of int
        Number of codes of each attribute.
    n : int
        Number of rows.

    Returns
    -------
    ndarray of int64, shape (n,)
        Indices.
    """
    index = np.zeros(n, dtype=np.int64)
    for name, size in zip(names, shape, strict=True):
        index = index * size + codes[name]
    return index


def _narrow(groups: Ints, number: int) -> NDArray[np.integer]:
    """Return small integers in a type that is sorted by digits, in linear time."""
    return groups.astype(np.uint16) if number <= 2**16 else groups


def draw(distributions: Floats, cells_of_rows: Ints, rng: Generator) -> Ints:
    """Draw a level for each row by the unnormalised distribution of its cell.

    Draws are systematic, and each single draw has exactly its distribution. Rows of one cell are
    negatively correlated, so counts differ from their expectation by less than one per level. The
    rows of a cell are placed at even distances between 0 and 1, with one random shift. A row at u
    gets the first level with ``u < cumulative``.

    Parameters
    ----------
    distributions : ndarray of shape (cells, levels)
        The unnormalised distribution of each cell.
    cells_of_rows : ndarray of int64, shape (n,)
        The cell of each row.
    rng : numpy.random.Generator
        Draws the levels.

    Returns
    -------
    ndarray of int64, shape (n,)
        The level of each row.
    """
    cells, width = distributions.shape
    positive = distributions.sum(axis=1, keepdims=True) > 0
    cumulative = np.cumsum(np.where(positive, distributions, 1.0), axis=1)
    cumulative /= cumulative[:, -1:]
    counts = np.bincount(cells_of_rows, minlength=cells)
    upto = np.ceil(cumulative * counts[:, None] - rng.random((cells, 1))).astype(np.int64)
    upto = np.clip(upto, 0, counts[:, None])  # rows that get this level or an earlier one
    upto = np.where(cumulative < 1.0, upto, counts[:, None])  # independent of rounding
    many = np.diff(upto, axis=1, prepend=0)
    order = rng.permutation(len(cells_of_rows))
    order = order[np.argsort(_narrow(cells_of_rows, cells)[order], kind="stable")]
    drawn = np.empty(len(cells_of_rows), dtype=np.int64)
    drawn[order] = np.repeat(np.tile(np.arange(width), cells), many.ravel())
    return drawn


def draw_each(distributions: Floats, rng: Generator) -> Ints:
    """Draw a level from each of many unnormalised distributions."""
    cumulative = np.cumsum(distributions, axis=1)
    cumulative /= cumulative[:, -1:]
    uniform = rng.random(len(distributions))
    codes = np.zeros(len(distributions), dtype=np.int64)
    for level in range(distributions.shape[1] - 1):
        codes += uniform >= cumulative[:, level]
    return codes


_FEWEST = 100  # rows that are needed for a regression line
_RIDGE = 1e-3  # ridge of the regression
_CLOSEST = 0.95  # largest correlation inside a bin
_MIN_SHARE = 1e-9  # smallest divisor


def relate_within_bins(
    codes: Mapping[Name, NDArray[np.integer]],
    values: Mapping[Name, Floats],
    sizes: Mapping[Name, int],
    rng: Generator,
    *,
    free: Collection[Name],
) -> dict[Name, Floats]:
    """Reorder values inside bins so that relations between numbers continue there.

    A model draws bins, so values inside bins are independent at first. Each number has a regression
    line on the others, in logits of ranks. The values of a bin are assigned in an order that
    follows the line. Each bin keeps its values.

    Parameters
    ----------
    codes : mapping of name to ndarray of int
        Bins of each number. Larger codes than ``sizes`` have no value.
    values : mapping of name to ndarray of float64
        Values of each number.
    sizes : mapping of name to int
        Number of bins.
    rng : numpy.random.Generator
        Draws the order.
    free : collection of name
        Numbers whose values may be reordered.

    Returns
    -------
    dict of name to ndarray of float64
        Values of each number.
    """
    reordered = dict(values)
    if len(sizes) < 2 or len(values[next(iter(sizes))]) < _FEWEST:
        return reordered
    scores = np.stack([_scores(codes[a], values[a], size) for a, size in sizes.items()], axis=1)
    gram = scores.T @ scores / len(scores)
    for i, name in enumerate(sizes):
        if name in free:
            others = np.arange(len(sizes)) != i
            line = gram[np.ix_(others, others)] + _RIDGE * np.eye(len(sizes) - 1)
            slopes = np.linalg.solve(line, gram[others, i])
            explained = float(slopes @ gram[others, i] / max(gram[i, i], _MIN_SHARE))
            cells, along = codes[name].astype(np.int64), scores[:, others] @ slopes
            reordered[name] = _in_order(cells, values[name], scores[:, i], along, explained, rng)
    return reordered


def _scores(codes: NDArray[np.integer], values: Floats, size: int) -> Floats:
    """Return standardised logits of mid-ranks of the values, 0 without a value."""
    from scipy.special import logit
    from scipy.stats import rankdata

    standardised, has_value = np.zeros(len(codes)), codes < size
    if has_value.any():
        scores = logit((rankdata(values[has_value]) - 0.5) / has_value.sum())
        standardised[has_value] = (scores - scores.mean()) / max(_MIN_SHARE, scores.std())
    return standardised


def _in_order(
    codes: Ints, values: Floats, scores: Floats, line: Floats, share: float, rng: Generator
) -> Floats:
    """Return the values of each bin in an order that follows ``line`` as far as it explains them.

    Given the number, the expectation of the line rises by ``share``, in every part of its
    range. This determines the correlation inside each bin.
    """
    middle, spread = _by_code(codes, line)
    within = max(0.0, share) * _by_code(codes, scores)[1] / np.maximum(spread, _MIN_SHARE)
    part = np.minimum(within, _CLOSEST)[codes]
    score = part * (line - middle[codes]) / np.maximum(spread, _MIN_SHARE)[codes]
    score += np.sqrt(1 - np.square(part)) * rng.standard_normal(len(codes))
    reordered = np.empty(len(codes))
    reordered[np.lexsort((score, codes))] = values[np.lexsort((values, codes))]
    return reordered


def _by_code(codes: Ints, numbers: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the numbers of each code."""
    rows = np.maximum(np.bincount(codes), 1)
    mean = np.bincount(codes, numbers) / rows
    square = np.bincount(codes, np.square(numbers)) / rows
    return mean, np.sqrt(np.maximum(square - np.square(mean), 0.0))
