"""Fits of conditional models, which draw one attribute after another, to noisy tables of all pairs.

Each regression of `missdp.inference.conditional_models` is fitted to moments, not to rows. With
contexts ``x_i`` drawn from the regressions before it, it minimises the strictly convex

    (1/N) Σ_i log Σ_j exp(b_j + Σ_c W_ac[j, x_ic]) − ⟨T, (b, W)⟩ + ½ Σ λ W²,

the dual of maximum conditional entropy with a quadratic allowance for noise. At the optimum a
moment is missed by ``λW``. The allowance is ``λ = s²/a``. ``s²`` is the noise variance of the
moment. ``a`` is the variance of true dependence of the pair, relative to that of a product of
marginals, by empirical Bayes. Pairs without dependence beyond noise are left out.

`fit_tree` is the fast alternative: one earlier attribute in each regression, along a maximum
spanning tree, with shrunk tables. `fit_given_all` fits a regression of every attribute given all
others to rows.

A regression adds effects of single earlier attributes. If a table of several attributes was
measured, the attribute that is drawn last gets an effect of all others together
(`_fit_interactions`), by iterative scaling of its distribution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.inference.conditional_models import (
    ConditionalModels,
    Features,
    Pair,
    attainable_marginal,
    level_blocks,
    log_mask,
)
from missdp.inference.model import cell_index
from missdp.types import Clique, Flags, Floats, Ints

_NEVER = 1e-300  # smallest probability in a logarithm
_RARE = 1e-12  # smallest variance
_ROWS = 10_000  # rows to which regressions are fitted
_MAX_PARENTS = 32  # earlier attributes in one regression: those with the clearest dependence
_ITERATIONS = 25  # iterations of the fit of one regression
_FLOOR = 1e-5  # smallest noise allowance, so that weights stay bounded
_MAX_NUMBERS = 1 << 23  # numbers in the matrices that scale one regression
_DAMPING = 1e-4  # damping of the scaling, relative to the variance of indicators
_TOLERANCE = 1e-7  # relative change of the objective at which a fit stops
_STEEP = 1e-5  # gradient at which a fit stops


def fit_conditional_models(
    marginals: Sequence[Floats],
    moments: Mapping[Pair, Floats],
    variances: Mapping[Pair, Floats | float],
    *,
    rng: np.random.Generator,
    allowed: Mapping[Pair, Flags] | None = None,
    order: Sequence[int] | None = None,
    higher_order: Mapping[Clique, Floats] | None = None,
    strengths: Mapping[Pair, float] | None = None,
    ridge: float = 8.0,
) -> ConditionalModels:
    """Fit multinomial logistic regressions to noisy tables of pairs, and of larger cliques.

    Parameters
    ----------
    marginals : sequence of ndarray
        One-way marginal of each attribute.
    moments : mapping of pair to ndarray
        Table of each pair, less the product of its marginals.
    variances : mapping of pair to ndarray or float
        Variance of the noise of these tables. A pair without one has no noise.
    rng : numpy.random.Generator
        Draws the rows to which regressions are fitted.
    allowed : mapping of pair to ndarray, optional
        Possible cells of a pair. All cells of pairs without a table are possible.
    order : sequence of int, optional
        Drawing order of the attributes. By default it is the order of sizes, or an order by
        dependence if some pairs have no table.
    higher_order : mapping of clique to ndarray, optional
        Tables of three attributes and more.
    strengths : mapping of pair to float, optional
        Variance of true dependence of a pair, relative to that of a product of marginals. By
        default it is estimated from the table.
    ridge : float, default 8
        Factor of the allowance for noise.

    Returns
    -------
    ConditionalModels
        A distribution of complete rows.
    """
    pairs = _pairs(marginals, moments, variances, strengths or {})
    clear = {pair: pair_moments.signal_to_noise for pair, pair_moments in pairs.items()}
    sequence = tuple(order) if order is not None else _drawing_order(marginals, clear)
    biases = list(_logs(marginals))
    weights: dict[Pair, Floats] = {}
    effects: dict[Clique, Floats] = {}
    drawn = np.zeros((_ROWS, len(marginals)), dtype=np.int64, order="F")
    models = ConditionalModels(sequence, tuple(marginals), tuple(biases), {}, dict(allowed or {}))

    for place, a in enumerate(sequence):
        candidates = [c for c in sequence[:place] if clear.get((a, c), 0.0) > 0]
        chosen = set(sorted(candidates, key=lambda c: -clear[a, c])[:_MAX_PARENTS])
        parents, fitted = tuple(c for c in candidates if c in chosen), dict[Pair, Floats]()
        if parents and len(marginals[a]) > 1:
            closed = log_mask(drawn, models.limits[a], rng, len(marginals[a]))
            regression = _Regression(drawn, marginals, a, parents, pairs, ridge, closed)
            biases[a], fitted = regression.fit()
            weights |= fitted
        models = models.only(a, biases[a], fitted)
        mine = {c: t for c, t in (higher_order or {}).items() if _last_first(c, sequence)[0] == a}
        if mine:
            scores = models.scores(drawn, a)
            closed = log_mask(drawn, models.limits[a], rng, len(marginals[a]))
            scores = scores if closed is None else scores + closed
            fitted_effects = _fit_interactions(scores, drawn, mine, sequence)
            effects |= fitted_effects
            models.interactions.update(fitted_effects)
        models.draw_next(drawn, place, rng)
    parts = tuple(marginals), tuple(biases), weights, dict(allowed or {}), effects
    return ConditionalModels(sequence, *parts)


def fit_tree(marginals: Sequence[Floats], tables: Mapping[Pair, Floats]) -> ConditionalModels:
    """Fit the fast alternative: a maximum spanning tree of shrunk tables of pairs.

    Parameters
    ----------
    marginals : sequence of ndarray
        One-way marginal of each attribute.
    tables : mapping of pair to ndarray
        Shrunk table of each pair.

    Returns
    -------
    ConditionalModels
        A distribution of complete rows.
    """
    tables = dict(tables)
    tables |= {(c, a): table.T for (a, c), table in tables.items()}
    information = {
        (a, c): float(
            np.sum(t * np.log(np.maximum(t, 1e-300) / np.outer(marginals[a], marginals[c])))
        )
        for (a, c), t in tables.items()
    }
    order = _tree_order(len(marginals), information)
    weights: dict[Pair, Floats] = {}
    for k, a in enumerate(order):
        earlier = [c for c in order[:k] if information.get((a, c), 0.0) > 0]
        if earlier:
            c = max(earlier, key=lambda c: information[a, c])
            base = np.outer(marginals[a], marginals[c])
            weights[a, c] = np.log(np.maximum(tables[a, c], _NEVER) / np.maximum(base, _NEVER))
    return ConditionalModels(order, tuple(marginals), _logs(marginals), weights)


def fit_given_all(
    rows: Ints, sizes: Sequence[int], *, observed: Ints | None
) -> list[tuple[Floats, dict[int, Floats]]]:
    """Fit a multinomial logistic regression of every attribute given all others to rows.

    Parameters
    ----------
    rows : ndarray of int, shape (n, d)
        Complete rows of a model.
    sizes : sequence of int
        Number of levels of each attribute.
    observed : ndarray of int or None
        Observed levels of the others in each row, with one more level for unknown. None: all are
        observed.

    Returns
    -------
    list of (ndarray, dict of int to ndarray)
        For each attribute its biases, and its weights by the other attribute.
    """
    wide = [size + (observed is not None) for size in sizes]
    codes = rows if observed is None else observed
    marginals = [_shares(codes[:, c], size) for c, size in enumerate(wide)]
    regressions = []
    for a, size in enumerate(sizes):
        marginal = _shares(rows[:, a], size)
        moments = {
            (a, c): _moments_of_rows(rows[:, a], codes[:, c], marginal, marginals[c])
            for c in range(len(sizes))
            if c != a
        }
        best = sorted(moments, key=lambda pair: -moments[pair].signal_to_noise)[:_MAX_PARENTS]
        parents = tuple(c for _, c in sorted(best) if moments[a, c].signal_to_noise > 0)
        bias: Floats = np.log(marginal)
        weights: dict[Pair, Floats] = {}
        if parents and size > 1:
            mine = [marginal if c == a else other for c, other in enumerate(marginals)]
            bias, weights = _Regression(codes, mine, a, parents, moments, 1.0, None).fit()
        regressions.append((bias, {c: table for (_, c), table in weights.items()}))
    return regressions


def _shares(codes: Ints, size: int) -> Floats:
    """Return the share of each level, all above 0."""
    counts = np.bincount(codes, minlength=size)
    return np.asarray((counts + 0.5 / size) / (len(codes) + 0.5), dtype=np.float64)


def _moments_of_rows(one: Ints, other: Ints, marginal: Floats, second: Floats) -> _Moments:
    """Return the dependence of two attributes in rows, and its sampling noise."""
    cells = np.bincount(one * len(second) + other, minlength=len(marginal) * len(second))
    product = np.outer(marginal, second)
    spread = np.outer(marginal * (1 - marginal), second * (1 - second))
    variance = np.maximum(product, _RARE) / len(one)
    return _Moments.of(cells.reshape(product.shape) / len(one) - product, variance, spread)


@dataclass(frozen=True)
class _Moments:
    """Noisy dependence of a pair, and its share that exceeds noise."""

    values: Floats
    variance: Floats
    share: float  # variance of true dependence, relative to that of a product of margins
    signal_to_noise: float

    @classmethod
    def of(
        cls,
        values: Floats,
        variance: Floats | float,
        product: Floats,
        strength: float | None = None,
    ) -> _Moments:
        """Return the moments of a pair. Without a strength, it is estimated from the values."""
        noise = np.broadcast_to(np.asarray(variance, dtype=float), values.shape)
        share = strength
        if share is None:
            signal = max(0.0, float((np.square(values) - noise).sum()))
            share = signal / max(float(product.sum()), _NEVER)
        scaled = share * product
        signal_to_noise = float((scaled / (scaled + noise + _NEVER)).sum() * share)
        return cls(values, noise, share, signal_to_noise)

    @property
    def turned(self) -> _Moments:
        """The moments with the attributes exchanged."""
        return _Moments(self.values.T, self.variance.T, self.share, self.signal_to_noise)


def _pairs(
    marginals: Sequence[Floats],
    moments: Mapping[Pair, Floats],
    variances: Mapping[Pair, Floats | float],
    strengths: Mapping[Pair, float],
) -> dict[Pair, _Moments]:
    """Return the dependence of each pair that has a table, in both orders."""
    both_ways: dict[Pair, _Moments] = {}
    for (a, c), values in moments.items():
        product = np.outer(marginals[a] * (1 - marginals[a]), marginals[c] * (1 - marginals[c]))
        strength = strengths.get((a, c))
        both_ways[a, c] = _Moments.of(values, variances.get((a, c), 0.0), product, strength)
        both_ways[c, a] = both_ways[a, c].turned
    return both_ways


def _logs(marginals: Sequence[Floats]) -> tuple[Floats, ...]:
    return tuple(np.log(np.maximum(m, _NEVER)) for m in marginals)


def _drawing_order(marginals: Sequence[Floats], strength: Mapping[Pair, float]) -> tuple[int, ...]:
    """Order attributes by size, or by dependence if some pairs have no table."""
    d = len(marginals)
    if len(strength) < d * (d - 1):
        return _tree_order(d, strength)
    return tuple(np.argsort([len(marginal) for marginal in marginals], kind="stable").tolist())


def _tree_order(d: int, strength: Mapping[Pair, float]) -> tuple[int, ...]:
    """Order attributes as a maximum spanning tree grows from the one with the most dependence."""
    weights = np.zeros((d, d))
    for (a, c), value in strength.items():
        weights[a, c] = max(0.0, value)
    best, remaining, order = weights.sum(axis=1), np.ones(d, dtype=bool), []
    for k in range(d):
        a = int(np.argmax(np.where(remaining, best, -np.inf)))
        remaining[a] = False
        order.append(a)
        best = weights[a] if k == 0 else np.maximum(best, weights[a])
    return tuple(order)


class _Regression:
    """One regression: its contexts, targets, noise allowance and scaling.

    Weights are centred on the marginals of the contexts. They are optimised in coordinates in which
    the Hessian at independence is close to one, so that the optimiser needs few steps.
    """

    def __init__(
        self,
        rows: Ints,
        marginals: Sequence[Floats],
        a: int,
        parents: tuple[int, ...],
        pairs: Mapping[Pair, _Moments],
        ridge: float,
        closed: NDArray[np.float32] | None,
    ) -> None:
        self.a, self.parents, self.n, self.closed = a, parents, len(rows), closed
        self.marginal = marginals[a]
        self.features = Features(rows, parents, [len(m) for m in marginals])
        self.targets = np.concatenate([pairs[a, c].values for c in parents], axis=1)
        noise = [pairs[a, c].variance / pairs[a, c].share for c in parents]
        self.allowance = np.maximum(ridge * np.concatenate(noise, axis=1), _FLOOR)
        one = np.ones((1, self.n), dtype=np.float32)
        self.means = self.features.sums(one)[0] / self.n
        if closed is not None:
            self._apply_limits(closed)
        self.bias_scale = 1 / np.sqrt(np.maximum(self.marginal, 1 / self.n))
        self.weight_scale = self._scaling()
        self.first = np.log(np.maximum(self.marginal, _RARE))

    def _apply_limits(self, closed: NDArray[np.float32]) -> None:
        """Set the targets to the values that limits determine in every context."""
        # No weight can match another target, so weights would grow without bound.
        levels, rows = level_blocks(closed)
        self.marginal = attainable_marginal(self.marginal, levels, rows)
        total = np.bincount(levels, self.marginal)
        if len(total) == 1:
            return
        membership = (np.arange(len(total))[:, None] == rows).astype(np.float32)
        decided = self.features.sums(membership) / self.n - np.outer(total, self.means)
        inside = np.divide(
            self.marginal, total[levels], out=np.zeros_like(self.marginal), where=total[levels] > 0
        )
        for block, share in enumerate(decided):
            where = levels == block
            self.targets[where] += np.outer(inside[where], share - self.targets[where].sum(axis=0))

    def _scaling(self) -> Floats:
        """Return, for each level, the matrix or diagonal that turns coordinates into weights."""
        from scipy.linalg import cholesky, solve_triangular

        share = np.maximum(self.marginal * (1 - self.marginal), 1 / self.n)
        levels, columns = self.allowance.shape
        if levels * columns**2 > _MAX_NUMBERS:
            curved = np.outer(share, self.means * (1 - self.means)) + self.allowance
            return np.asarray(1 / np.sqrt(curved))
        covariance = self.features.gram() - np.outer(self.means, self.means)
        # The indicators of one attribute add up to one, so steps in that direction are limited.
        covariance[np.diag_indices_from(covariance)] += _DAMPING * self.means + _FLOOR
        factors = np.empty((levels, columns, columns))
        for j in range(levels):
            curved = share[j] * covariance + np.diag(self.allowance[j])
            lower = cholesky(curved, lower=True, check_finite=False)
            factors[j] = solve_triangular(lower, np.eye(columns), lower=True)
        return factors

    def _turned(self, values: Floats, *, back: bool) -> Floats:
        """Turn gradients of weights into those of coordinates, or coordinates into weights."""
        scale = self.weight_scale
        if scale.ndim == 2:
            return np.asarray(values * scale)
        turned = values[:, None] @ scale if back else scale @ values[:, :, None]
        return np.reshape(turned, values.shape)

    def _value(self, flat: Floats) -> tuple[float, Floats]:
        m = len(self.marginal)
        bias, weights = self._weights(flat.reshape(m, -1))
        scores = self.features.scores(weights)
        scores += (bias - weights @ self.means).astype(np.float32)[:, None]
        if self.closed is not None:
            scores += self.closed
        top = scores.max(axis=0)
        probabilities = np.exp(np.subtract(scores, top, out=scores), out=scores)
        total = probabilities.sum(axis=0)
        value = float((top.astype(np.float64) + np.log(total, dtype=np.float64)).mean())
        probabilities /= total
        mean = probabilities.mean(axis=1, dtype=np.float64)
        pull = self.allowance * weights
        value += float((weights * (0.5 * pull - self.targets)).sum() - bias @ self.marginal)
        moments = self.features.sums(probabilities) / self.n - np.outer(mean, self.means)
        slope = self._turned(moments - self.targets + pull, back=False)
        both = np.concatenate([((mean - self.marginal) * self.bias_scale)[:, None], slope], axis=1)
        return value, both.ravel()

    def _weights(self, scaled: Floats) -> tuple[Floats, Floats]:
        bias: Floats = self.first + scaled[:, 0] * self.bias_scale
        return bias, self._turned(scaled[:, 1:], back=True)

    def fit(self) -> tuple[Floats, dict[Pair, Floats]]:
        """Return the biases and the weights of the regression."""
        from scipy.optimize import minimize

        here = np.zeros(len(self.marginal) * (1 + len(self.means)))
        options = {"maxiter": _ITERATIONS, "maxcor": 10, "ftol": _TOLERANCE, "gtol": _STEEP}
        solution = minimize(self._value, here, jac=True, method="L-BFGS-B", options=options)
        bias, weights = self._weights(solution.x.reshape(len(self.marginal), -1))
        blocks = {}
        for c, span in zip(self.parents, pairwise(self.features.starts), strict=True):
            block = weights[:, slice(*span)]  # centred: the bias has the constants
            block = block - (block @ self.means[slice(*span)])[:, None]
            blocks[self.a, c] = block - self.marginal @ block
        return bias, blocks


_ROUNDS = 15  # rounds of iterative scaling
_STEP = 3.0  # largest step of a logarithm
_MAX_LOG = 20.0  # largest logarithm of an effect
_MIN_CELL = 1e-12  # smallest mass of a cell
_MIN_CHANGE = 1e-4  # total variation at which scaling stops


def _last_first(clique: Clique, order: Sequence[int]) -> Clique:
    """Return a clique with the attribute first that is drawn last."""
    last = max(clique, key=list(order).index)
    return (last, *(a for a in clique if a != last))


def _fit_interactions(
    scores: NDArray[Any], rows: Ints, tables: Mapping[Clique, Floats], order: Sequence[int]
) -> dict[Clique, Floats]:
    """Return the effects on one attribute's log odds with which its larger tables hold.

    * ``scores`` (shape (levels, rows)): Log odds without these effects, up to a constant in each
      row.
    * ``rows``: Rows with all earlier attributes.
    * ``tables``: Tables of this attribute, which is drawn last, and others.
    * ``order``: The drawing order of the attributes.
    """
    scores = scores.astype(np.float64)
    columns, effects = np.ascontiguousarray(rows.T), {}
    turned = {_last_first(clique, order): clique for clique in tables}
    for turned_clique, clique in turned.items():
        table = tables[clique].transpose([clique.index(a) for a in turned_clique])
        cells = cell_index(columns, turned_clique[1:], table.shape[1:], len(rows))
        effects[turned_clique] = (np.zeros(table.shape), table.reshape(len(table), -1), cells)
    for _ in range(_ROUNDS):
        change = 0.0
        for total, table, cells in effects.values():
            probabilities = np.exp(scores - scores.max(axis=0))
            probabilities /= probabilities.sum(axis=0)
            here = np.stack([np.bincount(cells, level, table.shape[1]) for level in probabilities])
            aim = table * (here.sum(axis=0) / np.maximum(table.sum(axis=0), _MIN_CELL))
            change += float(np.abs(aim - here).sum()) / len(rows)
            step = np.log(np.maximum(aim, _MIN_CELL) / np.maximum(here, _MIN_CELL))
            flat = total.reshape(table.shape)
            step = np.clip(flat + np.clip(step, -_STEP, _STEP), -_MAX_LOG, _MAX_LOG) - flat
            flat += step
            scores += step[:, cells]
        if change < _MIN_CHANGE:
            break
    return {turned_clique: total for turned_clique, (total, _, _) in effects.items()}
