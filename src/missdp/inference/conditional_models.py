"""Models of rows that draw one attribute after the other, each by one regression on the others.

A model of all pairs at once does not fit a junction tree. `ConditionalModels` is a sequence of
regressions instead: every attribute has a law given the earlier ones, multinomial logistic in their
levels,

    P(x_a = j | earlier) ∝ exp(b_j + Σ_c W_ac[j, x_c]),

so that it can hold every pair, and rows are drawn ancestrally. Rows are drawn systematically: the
law of each row is the right one, and counts differ from their expectation by about one. What a
head's law makes of a margin is calibrated to that margin while it is drawn.

`missdp.inference.fit_conditional_models` fits them to noisy tables.
"""

from __future__ import annotations

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

_DENSE = 48  # levels per earlier attribute up to which a full matrix of indicators is quicker
_NUMBERS_AT_ONCE = 1 << 21  # of indicators or probabilities: 8 MB
_FEW_ROWS = 4096
_NEVER = 1e-30
_ROUNDS = 6  # of calibration to a margin, at most
_NEWTON = 100  # levels up to which these are Newton's
_STEP = 2.0
_RIDGE = 1e-3
_ROWS_ALIKE = 8  # rows that agree on the attributes by which they are sorted, at least


@dataclass(frozen=True, eq=False)
class ConditionalModels(Record):
    """A law of complete rows, drawn attribute by attribute; released values only.

    * ``order``: The attributes in the order in which they are drawn.
    * ``marginals``: One-way margin of each attribute, which draws are calibrated to.
    * ``biases``: Logarithm of the odds of each attribute's levels, before any earlier attribute
      speaks.
    * ``weights`` (by (attribute, earlier attribute)): What is added to it for each level of an
      earlier attribute; one row per level drawn.
    * ``allowed`` (by (attribute, attribute)): Which cells of a pair are possible (public, or one
      attribute is a function of the other, by what was released); pairs without a table are free.
    * ``interactions``: Of cliques of three attributes and more: what is added for each level of the
      first, which is drawn last, by the levels of all others together.
    """

    order: tuple[int, ...]
    marginals: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    weights: dict[Pair, Floats]
    allowed: dict[Pair, Flags] = field(default_factory=dict)
    interactions: dict[Clique, Floats] = field(default_factory=dict)

    @cached_property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        """Earlier attributes that each attribute depends on, in the order of drawing."""
        place = {a: k for k, a in enumerate(self.order)}
        parents: list[list[int]] = [[] for _ in self.marginals]
        for a, c in self.weights:
            parents[a].append(c)
        return tuple(tuple(sorted(earlier, key=lambda c: place[c])) for earlier in parents)

    def sample(self, n: int, rng: np.random.Generator) -> Ints:
        """Draw ``n`` rows, one column per attribute.

        Draws are spread systematically and keep the one-way margins, so that tables carry less
        sampling noise than independent rows would.
        """
        rows = np.zeros((n, len(self.marginals)), dtype=np.int64)
        parts = self._n_parts(n)
        for k in range(parts):  # alike in distribution, as rows are
            block = np.zeros((len(range(k, n, parts)), rows.shape[1]), dtype=np.int64)
            for place in range(len(self.order)):
                self.draw_next(block, place, rng)
            rows[k::parts] = block
        return rows

    def draw_next(self, rows: Ints, place: int, rng: np.random.Generator) -> None:
        """Draw one more attribute, by its place in the order, into rows that hold the earlier ones.

        Rows to which no level is possible become copies of others.
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
        """Return in how many parts so many rows are drawn."""
        widest = max([1, *(len(m) for m in self.marginals)])
        columns = max(sum(len(self.marginals[c]) for c in p) for p in (*self.parents, ()))
        at_once = max(_FEW_ROWS, _NUMBERS_AT_ONCE // max(widest, min(columns, 1000)))
        return max(1, -(-n // at_once))

    def _small_tables(self, rows: Ints, a: int) -> tuple[Floats, Ints]:
        """Laws given one attribute or none, and which of them each row has."""
        if not self.parents[a]:
            return _softmax(self.biases[a][:, None].copy()).T, np.zeros(len(rows), dtype=np.int64)
        c = self.parents[a][0]
        scores = self.biases[a][:, None] + self.weights[a, c]
        if c in self.limits[a]:
            possible = self.limits[a][c]
            # A level with which nothing is possible is not drawn; its law may be any.
            scores = np.where(possible | ~possible.any(axis=0), scores, -np.inf)
        return _softmax(scores).T, rows[:, c]

    def scores(self, rows: Ints, a: int) -> Singles:
        """Return the logarithm of the odds of each level (down) in each row (across)."""
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
        """Order of the rows in which neighbours have much the same law, and are random else."""
        order = rng.permutation(len(rows))
        key, cells = np.zeros(len(rows), dtype=np.int64), 1
        for c in self._most_influential(a):
            cells *= len(self.marginals[c])
            if cells * _ROWS_ALIKE > len(rows) or cells > 1 << 16:
                break
            key = key * len(self.marginals[c]) + rows[:, c]
        ordered: Ints = order[np.argsort(key.astype(np.uint16)[order], kind="stable")]
        return ordered

    def _most_influential(self, a: int) -> list[int]:
        """Earlier attributes, those first that say most about one."""
        influence = {
            c: float(self.marginals[a] @ np.square(self.weights[a, c]) @ self.marginals[c])
            for c in self.parents[a]
        }
        return sorted(influence, key=lambda c: -influence[c])

    @cached_property
    def limits(self) -> tuple[dict[int, Flags], ...]:
        """For each attribute, what levels of earlier ones leave possible of it."""
        place = {a: k for k, a in enumerate(self.order)}
        limits: tuple[dict[int, Flags], ...] = tuple({} for _ in self.order)
        for (a, c), table in self.allowed.items():
            later, earlier, possible = (a, c, table) if place[a] > place[c] else (c, a, table.T)
            if not possible.all():
                limits[later][earlier] = possible
        return limits


class Features:
    """Indicators of the levels of earlier attributes, one column per row; dense or sparse."""

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
        """Sum of the weights of each row's levels: one row per level drawn, as weights have."""
        small = weights.astype(np.float32)
        if self.dense:
            scores: Singles = small @ self.matrix
            return scores
        return np.ascontiguousarray((self.matrix.T @ small.T).T)

    def sums(self, values: Singles) -> Floats:
        """Sum over rows of each value, for each level of each earlier attribute."""
        sums: Floats = (self.matrix @ values.T).T.astype(np.float64)
        return sums

    def gram(self) -> Floats:
        """Mean product of two indicators."""
        product = self.matrix @ self.matrix.T
        dense: Singles = product if self.dense else product.toarray()
        mean: Floats = dense.astype(np.float64) / self.matrix.shape[1]
        return mean


def log_mask(
    rows: Ints, limits: Mapping[int, Flags], rng: np.random.Generator, size: int
) -> Singles | None:
    """Return minus infinity where a level (down) is impossible in a row (across), 0 elsewhere.

    Rows to which no level is possible become copies of others, if there are any.
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
    """Group levels into blocks so that every row can draw levels of one block only.

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
    """Rescale a noisy margin to the share of rows that limits assign to each block.

    Within a block, levels keep their proportions; they are equal if the margin gives the block
    nothing.

    Parameters
    ----------
    marginal : ndarray of float64, shape (levels,)
        The noisy margin.
    levels, rows : ndarray of int64
        The block of each level, and of each row; see `level_blocks`.

    Returns
    -------
    ndarray of float64, shape (levels,)
    """
    size, total = np.bincount(levels), np.bincount(levels, marginal)[levels]
    inside = np.divide(marginal, total, out=1 / size[levels], where=total > 0)
    return np.asarray(inside * (np.bincount(rows, minlength=len(size)) / len(rows))[levels])


def _softmax(scores: NDArray[Any]) -> NDArray[Any]:
    """Law of each column, in place."""
    scores -= scores.max(axis=0)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=0)
    return scores


def _calibrated(probabilities: Singles, marginal: Floats) -> Singles:
    """Scale the levels of all columns' laws so that their mean is the margin."""
    for _ in range(_ROUNDS):
        mean = probabilities.mean(axis=1, dtype=np.float64)
        if np.abs(mean - marginal).sum() * probabilities.shape[1] < 1:
            break
        probabilities *= np.exp(_bias(probabilities, mean, marginal)).astype(np.float32)[:, None]
        probabilities /= probabilities.sum(axis=0)
    return probabilities


def _bias(probabilities: Singles, mean: Floats, marginal: Floats) -> Floats:
    """What added to all rows' logarithms takes their mean to the margin, to first order."""
    if len(marginal) > _NEWTON:
        scaled: Floats = np.log(np.maximum(marginal, _NEVER) / np.maximum(mean, _NEVER))
        return np.clip(scaled, -_STEP, _STEP)
    curved = (
        np.diag(mean)
        - (probabilities @ probabilities.T).astype(np.float64) / probabilities.shape[1]
    )
    curved[np.diag_indices_from(curved)] += _RIDGE * mean + _NEVER
    return np.clip(np.linalg.solve(curved, marginal - mean), -_STEP, _STEP)


def _draw_evenly(probabilities: NDArray[Any], order: Ints, rng: np.random.Generator) -> Ints:
    """Draw a level for each row by its own law, a column, evenly along an order of the rows.

    The levels are halved again and again. Rows are walked through in their order, those in the
    same part of the levels one after the other, and go to the upper half whenever the sum of
    their chances to do so passes a whole number.
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
        up[lower <= 0], up[upper <= 0] = 1, 0  # whatever rounding says
        part = 2 * part + up
        again = np.argsort(part.astype(np.uint16) if m <= 1 << 16 else part, kind="stable")
        part, order = part[again], order[again]
    drawn = np.empty(n, dtype=np.int64)
    drawn[order] = part
    return drawn


def _balanced(chance: Floats, part: Ints, expected: Floats) -> Floats:
    """Move the odds of the rows in each part so that about as many go up as are expected to."""
    # Which rows are in a part was drawn, so their chances do not quite add up to that.
    slack = np.bincount(part, chance * (1 - chance), len(expected))
    gap = expected - np.bincount(part, chance, len(expected))
    shifted = np.exp(np.clip(gap / np.maximum(slack, 1.0), -1.0, 1.0))[part] * chance
    balanced: Floats = shifted / (shifted + 1 - chance)
    return balanced
