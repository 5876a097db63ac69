"""The law of each attribute given others, for filling holes; released values only.

A law is a product of factors, one for the level of each other attribute. There are two sets of
laws: given all other attributes; and given some of them, where not to be known is one more level
of an attribute, with a factor of its own.

Factors, not their logarithms, are kept, because products of doubles are rounded the same whatever
stands beside them: so a law is, bit by bit, a function of the levels that it is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from pydantic.dataclasses import dataclass

from missdp.errors import ParameterError, replacing
from missdp.inference.conditional_models import Pair
from missdp.inference.fit_conditional_models import fit_given_all
from missdp.inference.model import Levels, Zeros, level_kinds, merge_zeros
from missdp.serialization import Record
from missdp.types import Flags, Floats, Ints

_LARGEST = 20.0  # logarithm of a factor, either way
_NEVER = 1e-60  # factor of what is impossible
_MANY = 64  # levels; of longer lists, those with few rows are merged
_FEW = 40
_AT_ONCE = 8  # factors, before a law is scaled: their product stays far from what doubles can hold


@dataclass(frozen=True, eq=False)
class Factors(Record):
    """The law of each attribute given others, as products of factors.

    * ``levels``: How the levels of each attribute are grouped.
    * ``odds``: For each attribute the odds of its groups of levels, before another one speaks.
    * ``factors`` (by (attribute, other attribute)): By what the odds are multiplied for each group
      of levels of the other attribute: one row for each of them, and a last one for a value that is
      not known.
    """

    levels: tuple[Levels, ...]
    odds: tuple[Floats, ...]
    factors: dict[Pair, Floats]

    def fixed(self, sizes: Sequence[int]) -> Factors:
        """Return a copy that nobody can change, of numbers alone; see `Conditionals.fixed`."""
        levels = tuple(_frozen_levels(level) for level in self.levels)
        odds = tuple(_frozen(table) for table in self.odds)
        factors = {(int(a), int(c)): _frozen(table) for (a, c), table in self.factors.items()}
        width = [level.n_groups for level in levels]
        fits = [len(level.groups) for level in levels] == list(sizes)
        fits = fits and [table.shape for table in odds] == [(size,) for size in width]
        fits = fits and {v for pair in factors for v in pair} <= {*range(len(sizes))}
        fits = fits and all(
            a != c and table.shape == (width[c] + 1, width[a]) for (a, c), table in factors.items()
        )
        tables = (*odds, *factors.values())
        fits = fits and all((t >= 0).all() and (t < np.inf).all() for t in tables)
        if not (fits and all(table.any() for table in odds)):
            raise ValueError
        return Factors(levels, odds, factors)

    def of(self, a: int, rows: Ints) -> Floats:
        """Return the law of an attribute for each row, shape (rows, levels)."""
        start = np.broadcast_to(self.odds[a] / self.odds[a].max(), (len(rows), len(self.odds[a])))
        probabilities = start.copy()
        for k, c in enumerate([c for b, c in self.factors if b == a]):
            probabilities *= self.factors[a, c][_grouped(self.levels[c], rows[:, c])]
            if k % _AT_ONCE == _AT_ONCE - 1:
                probabilities = _scaled(probabilities, start)
        probabilities = _scaled(probabilities, start)
        level = self.levels[a]
        if len(level.groups) > level.n_groups:
            probabilities = probabilities[:, level.groups] * level.shares
        # Added up one after the other, so that the sum of a row is rounded as it is by itself.
        probabilities /= np.cumsum(probabilities, axis=1)[:, -1:]
        return probabilities


def _grouped(level: Levels, codes: Ints) -> Ints:
    """Return the group of each code; the one after the last group if the value is not known."""
    return np.append(level.groups, level.n_groups)[codes]


@dataclass(frozen=True, eq=False)
class Conditionals(Record):
    """Laws by which holes are filled: released values, and nothing but numbers.

    * ``order``: The attributes, those first that are told best by the others.
    * ``given_all``: The law of each attribute given all others.
    * ``given_some``: The same, where others may not be known.
    """

    order: tuple[int, ...]
    given_all: Factors
    given_some: Factors

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of levels of each attribute."""
        return tuple(len(level.groups) for level in self.given_all.levels)

    def fixed(self, sizes: Sequence[int]) -> Conditionals:
        """Return a copy that nobody can change, of numbers alone."""
        refused = ParameterError("the laws must be of the attributes and levels of the schema")
        with replacing(TypeError, ValueError, AttributeError, by=refused):
            order = tuple(map(int, self.order))
            # Of these classes: none that does something else.
            parts = [Factors.fixed(part, sizes) for part in (self.given_all, self.given_some)]
        if sorted(order) != list(range(len(sizes))):
            raise refused
        return Conditionals(order, *parts)


def _frozen(table: Floats) -> Floats:
    held = np.array(table, dtype=np.float64)
    held.setflags(write=False)
    return held


def _frozen_levels(level: Levels) -> Levels:
    groups, shares = np.array(level.groups, dtype=np.int64), _frozen(level.shares)
    groups.setflags(write=False)
    is_numbered = {*groups.tolist()} == {*range(int(groups.max()) + 1)}
    is_share = shares.shape == groups.shape and bool((shares >= 0).all() and (shares <= 1).all())
    if not (is_numbered and is_share and np.bincount(groups, weights=shares).all()):
        raise ValueError
    return Levels(groups, shares)


def _scaled(probabilities: Floats, otherwise: Floats) -> Floats:
    """Divide each row by its largest number; a row of zeros becomes another one."""
    largest = probabilities.max(axis=1, keepdims=True)
    dead = largest[:, 0] <= 0
    scaled: Floats = probabilities / np.where(largest > 0, largest, 1.0)
    scaled[dead] = otherwise[dead]
    return scaled


def fit_conditionals(
    rows: Ints, sizes: Sequence[int], *, impossible: Mapping[Pair, Flags] | None = None
) -> Conditionals:
    """Fit the law of each attribute given others to rows of a released model.

    Each law is a multinomial logistic regression: on Adult, rows of all families were filled better
    by it than by boosted trees, and ten times as fast. For the laws given some attributes, cells of
    the rows are hidden at random, from none to all of a row.

    Parameters
    ----------
    rows : ndarray of int, shape (rows, attributes)
        Complete rows that were drawn from the model.
    sizes : sequence of int
        Number of levels of each attribute.
    impossible : mapping of (int, int) to ndarray of bool, optional
        Cells of pairs of attributes that no row can have. Public.

    Returns
    -------
    Conditionals
    """
    rng = np.random.default_rng(0)
    zeros: Zeros = {(a, c): table for (a, c), table in (impossible or {}).items()}
    kinds = level_kinds(zeros, sizes)
    levels = tuple(
        Levels.from_counts(
            np.bincount(rows[:, a], minlength=size).astype(np.float64),
            threshold=_FEW if size > _MANY else -1.0,  # of many, those with few rows are merged
            kinds=kind,
        )
        for a, (size, kind) in enumerate(zip(sizes, kinds, strict=True))
    )
    columns = [_grouped(level, rows[:, a]) for a, level in enumerate(levels)]
    groups = np.stack(columns, axis=1) if columns else rows
    width = [level.n_groups for level in levels]
    hidden = rng.random(rows.shape) < rng.random((len(rows), 1))
    observed = np.where(hidden, np.array(width, dtype=np.int64), groups)
    never = {(c[0], c[1]): table for c, table in merge_zeros(zeros, levels).items()}
    never |= {(c, a): table.T for (a, c), table in never.items()}
    return Conditionals(
        _best_explained_first(groups, width),
        _factors(groups, levels, None, never),
        _factors(groups, levels, observed, never),
    )


def _factors(
    rows: Ints, levels: tuple[Levels, ...], observed: Ints | None, never: Mapping[Pair, Flags]
) -> Factors:
    """Return the laws that fit rows, given all other attributes or what is told of them."""
    sizes = [level.n_groups for level in levels]
    regressions = fit_given_all(rows, sizes, observed=observed) if len(rows) else []
    odds = tuple(np.exp(bias - bias.max()) for bias, _ in regressions)
    factors: dict[Pair, Floats] = {}
    for a, (_, weights_by_other) in enumerate(regressions):
        for c, weights in weights_by_other.items():
            table = np.ones((sizes[c] + 1, sizes[a]))
            table[: weights.shape[1]] = np.exp(np.clip(weights.T, -_LARGEST, _LARGEST))
            factors[a, c] = table
    for (a, c), cells in never.items():
        free = factors.get((a, c), np.ones((sizes[c] + 1, sizes[a])))
        closed = np.vstack([cells.T, np.zeros((1, sizes[a]), dtype=bool)])
        factors[a, c] = np.where(closed, _NEVER, free)
    return Factors(levels, odds or tuple(np.ones(size) for size in sizes), factors)


def _best_explained_first(rows: Ints, sizes: Sequence[int]) -> tuple[int, ...]:
    """Order attributes by how much of their spread the others explain, one by one."""
    explained = np.zeros(len(sizes))
    for a, c in combinations(range(len(sizes)) if len(rows) else (), 2):
        cells = np.bincount(rows[:, a] * sizes[c] + rows[:, c], minlength=sizes[a] * sizes[c])
        table = cells.reshape(sizes[a], sizes[c]) / len(rows)
        product = np.outer(table.sum(axis=1), table.sum(axis=0))
        spread = float((np.square(table - product) / np.maximum(product, 1e-12)).sum())
        explained[a] += spread / max(1, sizes[a] - 1)
        explained[c] += spread / max(1, sizes[c] - 1)
    return tuple(np.argsort(-explained, kind="stable").tolist())
