"""A model of rows that draws one attribute after another, each by a regression on earlier ones.

A junction tree cannot hold all pairs of many attributes. `ConditionalModels` is a sequence of
regressions instead. The distribution of an attribute given the earlier attributes is multinomial
logistic in their levels,

    P(x_a = j | earlier) ∝ exp(b_j + Σ_c W_ac[j, x_c]).

So the model can hold every pair, and rows are drawn ancestrally. Draws are systematic: each row has
the right distribution, and counts differ from their expectation by about one. Drawing calibrates
each attribute to its one-way marginal.

`missdp.inference.fit_conditional_models` fits the regressions to noisy tables.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from missdp.inference.model import cell_index, draw
from missdp.serialization import Record
from missdp.types import Clique, Flags, Floats, Ints

Singles = NDArray[np.float32]
Pair: TypeAlias = tuple[int, int]

_DENSE = 48  # levels per earlier attribute up to which a dense matrix of indicators is faster
_NUMBERS_AT_ONCE = 1 << 21  # indicators or probabilities in memory: 8 MB
_FEW_ROWS = 4096  # rows that are drawn together at least
_NEVER = 1e-30  # smallest probability
_ROUNDS = 6  # largest number of rounds of calibration to a marginal
_NEWTON = 100  # levels up to which calibration uses Newton steps
_TINY = np.float32(1e-12)  # chance that does not count in the matrix of a Newton step
_STEP = 2.0  # largest step of a logarithm in a round of calibration
_RIDGE = 1e-3  # relative ridge of the Newton matrix
_ROWS_ALIKE = 8  # smallest number of rows that agree on the sorting attributes


@dataclass(frozen=True, eq=False)
class ConditionalModels(Record):
    """A distribution of complete rows, drawn attribute by attribute. All values are released.

    * ``order``: The attributes in drawing order.
    * ``marginals``: One-way marginal of each attribute, to which draws are calibrated.
    * ``biases``: Log odds of each attribute's levels, without effects of earlier attributes.
    * ``weights`` (by (attribute, earlier attribute)): Effects on the log odds for each level of an
      earlier attribute. There is one row per level drawn.
    * ``allowed`` (by (attribute, attribute)): Possible cells of a pair. Public facts limit them,
      and released values if one attribute is a function of the other. All cells of pairs without a
      table are possible.
    * ``interactions``: Effects of cliques of three or more attributes on the first attribute, which
      is drawn last, by the levels of all others together.
    """

    order: tuple[int, ...]
    marginals: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    weights: dict[Pair, Floats]
    allowed: dict[Pair, Flags] = field(default_factory=dict)
    interactions: dict[Clique, Floats] = field(default_factory=dict)

    @cached_property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        """Earlier attributes that each attribute depends on, in drawing order."""
        place = {a: k for k, a in enumerate(self.order)}
        parents: list[list[int]] = [[] for _ in self.marginals]
        for a, c in self.weights:
            parents[a].append(c)
        return tuple(tuple(sorted(earlier, key=lambda c: place[c])) for earlier in parents)

    def only(self, a: int, bias: Floats, weights: Mapping[Pair, Floats]) -> ConditionalModels:
        """Return models that can draw one attribute, without a check of all the others."""
        models = copy.copy(self)
        biases = (*self.biases[:a], bias, *self.biases[a + 1 :])
        vars(models).update(biases=biases, weights=dict(weights), interactions={})
        vars(models).pop("parents", None)
        return models

    def sample(self, n: int, rng: np.random.Generator) -> Ints:
        """Draw ``n`` rows, one column per attribute.

        Draws are systematic and preserve the one-way marginals. So tables have less sampling noise
        than tables of independent rows.
        """
        rows = np.zeros((n, len(self.marginals)), dtype=np.int64)
        parts = self._n_parts(n)
        for k in range(parts):  # the parts have one distribution
            shape = len(range(k, n, parts)), rows.shape[1]
            block = np.zeros(shape, dtype=np.int64, order="F")  # columns are read one by one
            for place in range(len(self.order)):
                self.draw_next(block, place, rng)
            rows[k::parts] = block
        return rows

    def draw_next(self, rows: Ints, place: int, rng: np.random.Generator) -> None:
        """Draw the next attribute, by its place in the order, into rows with earlier attributes.

        Rows without a possible level become copies of other rows.
        """
        a = self.order[place]
        parents, limits = self.parents[a], self.limits[a]
        plain = len(parents) <= 1 and all(a != clique[0] for clique in self.interactions)
        if plain and set(limits) <= set(parents):
            rows[:, a] = draw(*self._small_tables(rows, a), rng)
            return
        closed = log_mask(rows, limits, rng, len(self.marginals[a]))
        scores, marginal = self.scores(rows, a), self.marginals[a]
        if closed is not None:
            scores += closed
            marginal = attainable_marginal(marginal, *level_blocks(closed))
        probabilities = _calibrated(_softmax(scores), marginal)
        rows[:, a] = _draw_evenly(probabilities, self._similar_rows(rows, a, rng), rng)

    def _n_parts(self, n: int) -> int:
        """Return the number of parts in which ``n`` rows are drawn."""
        widest = max([1, *(len(m) for m in self.marginals)])
        columns = max(sum(len(self.marginals[c]) for c in p) for p in (*self.parents, ()))
        at_once = max(_FEW_ROWS, _NUMBERS_AT_ONCE // max(widest, min(columns, 1000)))
        return max(1, -(-n // at_once))

    def _small_tables(self, rows: Ints, a: int) -> tuple[Floats, Ints]:
        """Return the distributions given at most one attribute, and the index of each row."""
        if not self.parents[a]:
            return _softmax(self.biases[a][:, None].copy()).T, np.zeros(len(rows), dtype=np.int64)
        c = self.parents[a][0]
        scores = self.biases[a][:, None] + self.weights[a, c]
        if c in self.limits[a]:
            possible = self.limits[a][c]
            # A level without a possible partner is never drawn. Its distribution is arbitrary.
            scores = np.where(possible | ~possible.any(axis=0), scores, -np.inf)
        return _softmax(scores).T, rows[:, c]

    def scores(self, rows: Ints, a: int) -> Singles:
        """Return the log odds of each level (down) in each row (across)."""
        features = Features(rows, self.parents[a], [len(m) for m in self.marginals])
        weights = [self.weights[a, c] for c in self.parents[a]]
        scores = np.tile(self.biases[a].astype(np.float32)[:, None], len(rows))
        if weights:
            scores += features.scores(np.concatenate(weights, axis=1))
        for clique, table in self.interactions.items():
            if clique[0] == a:
                cells = cell_index(rows.T, clique[1:], table.shape[1:], len(rows))
                scores += table.reshape(len(table), -1).astype(np.float32)[:, cells]
        return scores

    def _similar_rows(self, rows: Ints, a: int, rng: np.random.Generator) -> Ints:
        """Return an order of the rows in which neighbours have similar distributions."""
        order = rng.permutation(len(rows))
        key, cells = np.zeros(len(rows), dtype=np.int64), 1
        for c in self._most_influential(a):
            cells *= len(self.marginals[c])
            if cells * _ROWS_ALIKE > len(rows) or cells > 1 << 16:
                break
            key = key * len(self.marginals[c]) + rows[:, c]
        return np.asarray(order[np.argsort(key.astype(np.uint16)[order], kind="stable")])

    def _most_influential(self, a: int) -> list[int]:
        """Return earlier attributes in decreasing order of their effect on an attribute."""
        influence = {
            c: float(self.marginals[a] @ np.square(self.weights[a, c]) @ self.marginals[c])
            for c in self.parents[a]
        }
        return sorted(influence, key=lambda c: -influence[c])

    @cached_property
    def limits(self) -> tuple[dict[int, Flags], ...]:
        """For each attribute, the levels that the levels of earlier attributes leave possible."""
        place = {a: k for k, a in enumerate(self.order)}
        limits: tuple[dict[int, Flags], ...] = tuple({} for _ in self.order)
        for (a, c), table in self.allowed.items():
            later, earlier, possible = (a, c, table) if place[a] > place[c] else (c, a, table.T)
            if not possible.all():
                limits[later][earlier] = possible
        return limits


class Features:
    """Indicators of the levels of earlier attributes, one column per row, dense or sparse."""

    def __init__(self, rows: Ints, parents: Sequence[int], sizes: Sequence[int]) -> None:
        from scipy.sparse import csr_array

        sizes = [sizes[c] for c in parents]
        self.starts = np.cumsum([0, *sizes])
        n, width = len(rows), int(self.starts[-1])
        at = rows[:, list(parents)].T + self.starts[:-1, None]
        self.dense = width <= _DENSE * len(parents)
        if self.dense:
            self.matrix: Any = np.zeros((width, n), dtype=np.float32)
            self.matrix.ravel()[at * n + np.arange(n)] = 1.0
        else:
            ends = np.arange(n + 1) * len(parents)
            ones = np.ones(at.size, dtype=np.float32)
            self.matrix = csr_array((ones, at.T.ravel(), ends), shape=(n, width)).T

    def scores(self, weights: Floats) -> Singles:
        """Return the sum of the weights of each row's levels, one row per level drawn."""
        small = weights.astype(np.float32)
        if self.dense:
            return np.asarray(small @ self.matrix)
        return np.ascontiguousarray((self.matrix.T @ small.T).T)

    def sums(self, values: Singles) -> Floats:
        """Return sums of values over rows, for each level of each earlier attribute."""
        return np.asarray((self.matrix @ values.T).T.astype(np.float64))

    def gram(self) -> Floats:
        """Return the mean products of two indicators."""
        product = self.matrix @ self.matrix.T
        dense: Singles = product if self.dense else product.toarray()
        return np.asarray(dense.astype(np.float64) / self.matrix.shape[1])


def log_mask(
    rows: Ints, limits: Mapping[int, Flags], rng: np.random.Generator, size: int
) -> Singles | None:
    """Return minus infinity where a level (down) is impossible in a row (across), 0 elsewhere.

    Rows without a possible level become copies of other rows, if there are any.

    Parameters
    ----------
    rows : ndarray of int64, shape (n, d)
        The rows, which may change.
    limits : mapping of int to ndarray of bool
        Possible levels by the levels of earlier attributes.
    rng : numpy.random.Generator
        Chooses the copies.
    size : int
        Number of levels.

    Returns
    -------
    ndarray of float32, shape (levels, rows), or None
        None without limits.
    """
    if not limits:
        return None
    possible = np.ones((size, len(rows)), dtype=bool)
    for c, table in limits.items():
        possible &= table[:, rows[:, c]]
    dead = ~possible.any(axis=0)
    if dead.any():
        alive = np.flatnonzero(~dead)
        if len(alive):
            copied = rng.choice(alive, size=np.count_nonzero(dead))
            rows[dead], possible[:, dead] = rows[copied], possible[:, copied]
        else:
            possible[:] = True
    return np.where(possible, np.float32(0), np.float32(-np.inf))


def level_blocks(closed: Singles) -> tuple[Ints, Ints]:
    """Group levels into blocks such that every row can draw levels of one block only.

    Two levels share a block if some row allows both, directly or through a chain of rows.

    Parameters
    ----------
    closed : ndarray of float32, shape (levels, rows)
        Minus infinity where a level is impossible in a row.

    Returns
    -------
    levels : ndarray of int64, shape (levels,)
        The block of each level.
    rows : ndarray of int64, shape (rows,)
        The block of each row.
    """
    from scipy.sparse.csgraph import connected_components

    possible = np.isfinite(closed)
    first, linked = possible.argmax(axis=0), np.zeros((len(possible), len(possible)), dtype=bool)
    for level in np.unique(first):
        linked[level] = possible[:, first == level].any(axis=1)
    levels = connected_components(linked, directed=False)[1].astype(np.int64)
    return levels, levels[first]


def attainable_marginal(marginal: Floats, levels: Ints, rows: Ints) -> Floats:
    """Rescale a noisy marginal to the share of rows that limits assign to each block.

    Within a block, levels keep their proportions. They are equal if the marginal of the block is 0.

    Parameters
    ----------
    marginal : ndarray of float64, shape (levels,)
        The noisy marginal.
    levels, rows : ndarray of int64
        The block of each level, and of each row: see `level_blocks`.

    Returns
    -------
    ndarray of float64, shape (levels,)
        The attainable marginal.
    """
    size, total = np.bincount(levels), np.bincount(levels, marginal)[levels]
    inside = np.divide(marginal, total, out=1 / size[levels], where=total > 0)
    return np.asarray(inside * (np.bincount(rows, minlength=len(size)) / len(rows))[levels])


def _softmax(scores: NDArray[Any]) -> NDArray[Any]:
    """Return the distribution of each column, computed in place."""
    scores -= scores.max(axis=0)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=0)
    return scores


def _calibrated(probabilities: Singles, marginal: Floats) -> Singles:
    """Scale the levels of all columns so that the mean of the columns is the marginal."""
    for _ in range(_ROUNDS):
        mean = probabilities.mean(axis=1, dtype=np.float64)
        if np.abs(mean - marginal).sum() * probabilities.shape[1] < 1:
            break
        probabilities *= np.exp(_bias(probabilities, mean, marginal)).astype(np.float32)[:, None]
        probabilities /= probabilities.sum(axis=0)
    return probabilities


def _bias(chances: Singles, mean: Floats, marginal: Floats) -> Floats:
    """Return the addition to all logarithms that makes their mean the marginal, to first order."""
    if len(marginal) > _NEWTON:
        scaled: Floats = np.log(np.maximum(marginal, _NEVER) / np.maximum(mean, _NEVER))
        return np.clip(scaled, -_STEP, _STEP)
    large = np.where(chances > _TINY, chances, 0)  # products below the normal range are slow
    products = (large @ large.T).astype(np.float64)
    curved = np.diag(mean) - products / chances.shape[1]
    curved[np.diag_indices_from(curved)] += _RIDGE * mean + _NEVER
    return np.clip(np.linalg.solve(curved, marginal - mean), -_STEP, _STEP)


def _draw_evenly(probabilities: NDArray[Any], order: Ints, rng: np.random.Generator) -> Ints:
    """Draw a level for each row, a column, evenly along an order of the rows.

    The levels are halved again and again. Rows in the same part of the levels are processed in
    their order. A row goes to the upper half whenever the cumulative sum of the chances passes an
    integer.
    """
    m, n = probabilities.shape
    depth = max(1, int(m - 1).bit_length())
    ends = np.zeros(((1 << depth) + 1, n))
    np.cumsum(probabilities, axis=0, out=ends[1 : m + 1])
    ends[m + 1 :] = ends[m]
    flat, expected = ends.ravel(), ends.sum(axis=1)
    part = np.zeros(n, dtype=np.int64)
    for level in range(depth):
        half = 1 << (depth - level - 1)
        low = order + 2 * half * n * part
        middle = flat[low + half * n]
        lower, upper = middle - flat[low], flat[low + 2 * half * n] - middle
        chance = _balanced(
            upper / (lower + upper),
            part,
            expected[2 * half :: 2 * half] - expected[half :: 2 * half],
        )
        passed = np.floor(np.cumsum(chance) + rng.random()).astype(np.int64)
        up = np.diff(passed, prepend=0)
        up[lower <= 0], up[upper <= 0] = 1, 0  # independent of rounding
        part = 2 * part + up
        again = np.argsort(part.astype(np.uint16) if m <= 1 << 16 else part, kind="stable")
        part, order = part[again], order[again]
    drawn = np.empty(n, dtype=np.int64)
    drawn[order] = part
    return drawn


def _balanced(chance: Floats, part: Ints, expected: Floats) -> Floats:
    """Shift the odds of the rows in each part so that the expected number goes up."""
    # The rows of a part were drawn, so their chances do not add up exactly to the expectation.
    slack = np.bincount(part, chance * (1 - chance), len(expected))
    gap = expected - np.bincount(part, chance, len(expected))
    shifted = np.exp(np.clip(gap / np.maximum(slack, 1.0), -1.0, 1.0))[part] * chance
    return np.asarray(shifted / (shifted + 1 - chance))
