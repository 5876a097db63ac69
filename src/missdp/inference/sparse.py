"""Nearly functional pairs in noisy tables: an empirical-Bayes prior with a spike at zero.

Where one attribute says nearly all about another, a table of the two has few full cells and many
empty ones. One variance for all cells, as in a normal prior, leaves noise in the empty cells and
takes from the full ones. Here each cell is empty, or holds a part of what independence would put
there, or is normal around that with one of several variances; how many cells are of each kind is
found by maximum likelihood, pair by pair (Dempster, Laird and Rubin 1977). The posterior means are
then scaled to the margins.

If all that is outside the largest cell of each row adds up to no more than noise, the other cells
of rows whose largest cell is plain are taken for impossible: one attribute is a function of the
other there. Margins that contradict that, since they have noise of their own, are averaged.

Everything here is a function of released values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from missdp.inference.heads import Pair
from missdp.inference.raking import scaled_to
from missdp.types import Flags, Floats

_PARTS = np.array([0.0, 0.05, 0.2, 0.5, 1.0])  # of independence
_SCALES = np.array([0.1, 0.3, 1.0])  # of the most that margins leave room for
_EMPTY = 0.9  # share of cells that are taken for empty to begin with
_STEPS = 30
_CLEARLY = 10.0  # in logarithms of likelihood: less, and the other prior is kept
_STRONG = 0.5  # distance from independence
_PLAIN = 3.0  # standard deviations
_FUNCTION = 2.0  # standard deviations, by which a sum may fall short of that of a function
_MOST_FUNCTIONAL = 10.0  # standard deviations, by which it must be above that of independence
_LEAST_SHARE = 1e-9
_LEAST_WEIGHT = 1e-6
_NEVER = 1e-300


@dataclass(frozen=True, eq=False)
class SparseTable:
    """What is known of a nearly functional pair.

    Parameters
    ----------
    table : ndarray
        Posterior mean of the share of the rows in each cell.
    variance : ndarray
        Posterior variance of each cell.
    possible : ndarray of bool
        False in cells that are empty because one attribute is a function of the other.
    """

    table: Floats
    variance: Floats
    possible: Flags


def sparse_tables(
    margins: Sequence[Floats],
    pairs: Mapping[Pair, Floats],
    variances: Mapping[Pair, Floats],
    ordered: Sequence[bool],
    fits: Mapping[Pair, float],
) -> dict[Pair, SparseTable]:
    """Find the pairs that this prior explains clearly better than a normal one.

    Parameters
    ----------
    margins : sequence of ndarray
    pairs, variances : mapping of Pair to ndarray
        Noisy tables less the product of their margins, and the variance of their noise.
    ordered : sequence of bool
        Whether the levels of each attribute have an order. Where they have, dependence is smooth
        more often than sparse: then it must also be strong.
    fits : mapping of Pair to float
        How much more likely another prior makes a pair than independence does, in logarithms.
    """
    found = {}
    for (a, b), values in pairs.items():
        if min(values.shape) < 2:
            continue
        ends = margins[a], margins[b]
        lower = np.maximum(np.outer(*ends), _LEAST_SHARE**2)
        noise = np.maximum(variances[a, b], _LEAST_SHARE**2)
        rival = max(fits.get((a, b), 0.0), _normal_fit(values, noise, lower))
        if rival <= _CLEARLY:  # hardly more than independence
            continue
        mean, variance, fit = _posterior(values + lower, noise, lower, np.minimum.outer(*ends))
        if fit > rival + _CLEARLY:
            possible = _possible(values + lower, noise, *ends)
            table = np.maximum(mean, _LEAST_SHARE * lower) * possible
            table = _between(table, ends)
            if float(np.abs(table - lower).sum()) / 2 >= _STRONG * (ordered[a] or ordered[b]):
                found[a, b] = SparseTable(table, variance * possible, possible)
    return found


def shared_margins(
    margins: Sequence[Floats], found: Mapping[Pair, SparseTable]
) -> tuple[Floats, ...]:
    """Return the margins with those of nearly functional pairs moved to what both allow."""
    seen: dict[int, list[Floats]] = {}
    for (a, b), pair in found.items():
        if not pair.possible.all():
            seen.setdefault(a, []).append(pair.table.sum(axis=1))
            seen.setdefault(b, []).append(pair.table.sum(axis=0))
    return tuple(np.mean(seen[a], axis=0) if a in seen else m for a, m in enumerate(margins))


def _normal_fit(values: Floats, noise: Floats, lower: Floats) -> float:
    """How much likelier a table is with a variance in proportion to independence than without."""
    squares = np.square(values)
    share = max(0.0, float((squares - noise).sum())) / float(lower.sum())
    whole = noise + share * lower
    return 0.5 * float((squares / noise - squares / whole - np.log(whole / noise)).sum())


def _posterior(
    table: Floats, noise: Floats, lower: Floats, most: Floats
) -> tuple[Floats, Floats, float]:
    """Return mean and variance of each cell, and how much likelier than independence all are."""
    parts, scales = _PARTS[:, None, None], _SCALES[:, None, None]
    centres = np.concatenate([parts * lower, np.ones_like(scales) * lower])
    spreads = np.concatenate([np.zeros_like(parts) * most, np.square(scales * most)])
    whole = spreads + noise
    logs = -0.5 * (np.square(table - centres) / whole + np.log(whole / noise))
    top = logs.max(axis=0)
    likelihood = np.exp(logs - top).reshape(len(logs), -1)
    weights = _weights(likelihood)
    seen = np.maximum(weights @ likelihood, _NEVER)
    alone = -0.5 * float((np.square(table - lower) / noise).sum())
    fit = float(np.log(seen).sum() + top.sum()) - alone
    chance = (weights[:, None] * likelihood / seen).reshape(logs.shape)
    kept = spreads / whole
    means = centres + kept * (table - centres)
    mean = (chance * means).sum(axis=0)
    variance = (chance * (kept * noise + np.square(means - mean))).sum(axis=0)
    return mean, np.minimum(variance, noise), fit


def _weights(likelihood: Floats) -> Floats:
    """Return how many cells are of each kind, by accelerated steps (Varadhan and Roland 2008)."""

    def step(weights: Floats) -> Floats:
        seen = np.maximum(weights @ likelihood, _NEVER)
        return np.asarray(weights * (likelihood @ (1 / seen)) / likelihood.shape[1])

    weights = np.full(len(likelihood), (1 - _EMPTY) / (len(likelihood) - 1))
    weights[0] = _EMPTY
    for _ in range(_STEPS):
        one = step(weights)
        two = step(one)
        first, second = one - weights, two - 2 * one + weights
        turned = max(float(np.linalg.norm(second)), _NEVER)
        size = max(1.0, float(np.linalg.norm(first)) / turned)
        moved = np.maximum(weights + 2 * size * first + size**2 * second, _LEAST_WEIGHT)
        weights = step(moved / moved.sum())
    return weights


def _possible(table: Floats, noise: Floats, one: Floats, other: Floats) -> Flags:
    """Return the cells that are possible if one attribute is a function of the other."""
    of_rows = _of_rows(table, noise, one, other)
    of_columns = _of_rows(table.T, noise.T, other, one).T
    both: Flags = of_rows & of_columns
    if both.any(axis=0).all() and both.any(axis=1).all():
        return both
    return min(of_rows, of_columns, key=np.count_nonzero)  # they contradict each other


def _of_rows(table: Floats, noise: Floats, one: Floats, other: Floats) -> Flags:
    """Return the cells that are possible if the level of a row tells that of the column."""
    rows, best = np.arange(len(table)), table.argmax(axis=1)
    found, std = table[rows, best], np.sqrt(noise[rows, best])
    plain = found > _PLAIN * std
    lacking = float((one - found)[plain].sum())
    beyond = float((found - one * other[best])[plain].sum())
    doubt = max(math.sqrt(float(np.square(std)[plain].sum())), _NEVER)
    if lacking > _FUNCTION * doubt or beyond < _MOST_FUNCTIONAL * doubt:
        return np.ones(table.shape, dtype=bool)
    possible: Flags = ~plain[:, None] | (np.arange(table.shape[1]) == best[:, None])
    return possible


def _between(table: Floats, ends: tuple[Floats, Floats]) -> Floats:
    """Return a table scaled to its margins; between the two, if it cannot have both."""
    by_other = scaled_to(table, ends)
    by_one = scaled_to(by_other.T, ends[::-1], sweeps=1).T
    mean = (by_one + by_other) / 2
    return np.asarray(mean / mean.sum())
