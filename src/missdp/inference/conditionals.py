"""The distribution of each attribute given others, for filling missing cells.

A distribution is a product of factors, one for the level of each other attribute. There are two
sets of distributions. The first is given all other attributes. The second is given some of them,
and "unknown" is one more level of an attribute, with a factor of its own. All values are released.

Factors are stored and not their logarithms. Products of doubles are rounded independently of other
rows. So a distribution is a function of its own levels, bit by bit.
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

_LARGEST = 20.0  # largest absolute logarithm of a factor
_NEVER = 1e-60  # factor of an impossible level
_MANY = 64  # levels: in longer lists, levels with few rows are merged
_FEW = 40  # rows of a level that is merged
_AT_ONCE = 8  # factors between two scalings, so that products stay in the range of doubles


@dataclass(frozen=True, eq=False)
class Factors(Record):
    """The distribution of each attribute given others, as products of factors.

    * ``levels``: Groups of the levels of each attribute.
    * ``odds``: For each attribute the odds of its groups of levels, without other attributes.
    * ``factors`` (by (attribute, other attribute)): Factors of the odds, with one row for each
      group of levels of the other attribute, and a last row for an unknown value.
    """

    levels: tuple[Levels, ...]
    odds: tuple[Floats, ...]
    factors: dict[Pair, Floats]

    def fixed(self, sizes: Sequence[int]) -> Factors:
        """Return a checked copy with read-only arrays: see `Conditionals.fixed`."""
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
        """Return the distribution of an attribute for each row, shape (rows, levels)."""
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
        # Sequential sums of a row are rounded independently of other rows.
        probabilities /= np.cumsum(probabilities, axis=1)[:, -1:]
        return probabilities


def _grouped(level: Levels, codes: Ints) -> Ints:
    """Return the group of each code. An unknown value has the number after the last group."""
    return np.append(level.groups, level.n_groups)[codes]


@dataclass(frozen=True, eq=False)
class Conditionals(Record):
    """Distributions with which missing cells are filled: released numbers only.

    * ``order``: The attributes, in decreasing order of the share that the others explain.
    * ``given_all``: The distribution of each attribute given all others.
    * ``given_some``: The distribution of each attribute given others, some of them unknown.
    """

    order: tuple[int, ...]
    given_all: Factors
    given_some: Factors

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of levels of each attribute."""
        return tuple(len(level.groups) for level in self.given_all.levels)

    def fixed(self, sizes: Sequence[int]) -> Conditionals:
        """Return a checked copy with read-only arrays.

        Parameters
        ----------
        sizes : sequence of int
            Number of levels of each attribute of the schema.

        Returns
        -------
        Conditionals
            Released values.

        Raises
        ------
        ParameterError
            If the distributions do not match the schema.
        """
        refused = ParameterError("distributions must match the attributes and levels of the schema")
        with replacing(TypeError, ValueError, AttributeError, by=refused):
            order = tuple(map(int, self.order))
            # The method of this class, since a subclass may override it.
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
    """Divide each row by its largest number. A row of zeros is replaced by another one."""
    largest = probabilities.max(axis=1, keepdims=True)
    dead = largest[:, 0] <= 0
    scaled: Floats = probabilities / np.where(largest > 0, largest, 1.0)
    scaled[dead] = otherwise[dead]
    return scaled


def fit_conditionals(
    rows: Ints, sizes: Sequence[int], *, impossible: Mapping[Pair, Flags] | None = None
) -> Conditionals:
    """Fit the distribution of each attribute given others to rows of a released model.

    Each distribution is a multinomial logistic regression. On Adult, regressions filled rows of all
    families better than boosted trees, and ten times as fast. For the distributions given some
    attributes, a random share of each row's cells is hidden.

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
        Released values.
    """
    rng = np.random.default_rng(0)
    zeros: Zeros = {(a, c): table for (a, c), table in (impossible or {}).items()}
    kinds = level_kinds(zeros, sizes)
    levels = tuple(
        Levels.from_counts(
            np.bincount(rows[:, a], minlength=size).astype(np.float64),
            threshold=_FEW if size > _MANY else -1.0,  # with many levels, rare ones are merged
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
    """Return the distributions that fit rows, given all other attributes or the observed ones."""
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
    """Order attributes by the share of their variation that single others explain."""
    explained = np.zeros(len(sizes))
    for a, c in combinations(range(len(sizes)) if len(rows) else (), 2):
        cells = np.bincount(rows[:, a] * sizes[c] + rows[:, c], minlength=sizes[a] * sizes[c])
        table = cells.reshape(sizes[a], sizes[c]) / len(rows)
        product = np.outer(table.sum(axis=1), table.sum(axis=0))
        spread = float((np.square(table - product) / np.maximum(product, 1e-12)).sum())
        explained[a] += spread / max(1, sizes[a] - 1)
        explained[c] += spread / max(1, sizes[c] - 1)
    return tuple(np.argsort(-explained, kind="stable").tolist())
