"""A model of which cells are missing, learned from released marginals.

One logistic regression per attribute, independent over attributes given the complete row ``x``:

    logit P(a missing | x) = α_a + Σ_b β_ab(x_b) + Σ_bc γ_abc(x_b, x_c),   b, c ≠ a.

Given the complete-data model, the sufficient statistics are small released tables: how often ``a``
is missing (α), and how often it is missing at each observed level of ``b`` (β; a `Strip` of the
extended marginal of ``{a, b}``), or of ``b`` and ``c`` together (γ, if the three were measured
together).  No table, or one without evidence against it, means no effect: missing completely at
random.  Observed tables are divided by their probability of being observed, as in inverse
probability weighting.  That corrects for values missing at random (Rubin 1976) in so far as this
form holds and the marginals it needs were measured.  Where two attributes decide together (``a`` is
missing if exactly one of two others is set), each alone shows nothing: without the three measured
together the estimate stays as biased as if nothing had been done.

In real tables holes come together (a questionnaire is left half-way).  Released pair tables count
rows with both cells missing; where that differs from independence given the row by more than noise,
the latent correlation of a Gaussian copula makes up for it.  The chance of each single cell to be
missing is not touched, so nothing else is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, permutations
from math import prod

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import cumulative_trapezoid
from scipy.special import expit, logit, ndtr, ndtri

from missdp.inference.junction import Clique
from missdp.record import Record

__all__ = [
    "MaskModel",
    "Measured",
    "Strip",
    "both_missing",
    "coincident",
    "fit_correlation",
    "strips",
]


Floats = NDArray[np.float64]

_COINCIDENCE = 3.0  # standard deviations
_LARGEST = 0.99  # correlation
_ROWS = 1000  # rows of the model that expectations are taken over
_NODES = 129
_LEAST_EIGENVALUE = 1e-6


def coincident(chances: Floats, correlation: Floats, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw events with given chances whose latent normal variables are correlated.

    Parameters
    ----------
    chances : ndarray, shape (n, d)
        Probability of each event.
    correlation : ndarray, shape (d, d)
        Positive definite, ones on the diagonal.
    rng : numpy Generator

    Returns
    -------
    ndarray of bool, shape (n, d)

    Examples
    --------
    >>> chances = np.full((4000, 2), 0.2)
    >>> both = coincident(chances, np.array([[1, 0.9], [0.9, 1]]), np.random.default_rng(0))
    >>> bool(both.all(axis=1).mean() > 0.1), bool(abs(both.mean() - 0.2) < 0.02)
    (True, True)
    """
    if np.array_equal(correlation, np.eye(len(correlation))):
        return np.asarray(rng.random(chances.shape) < chances)
    latent = rng.standard_normal(chances.shape) @ np.linalg.cholesky(correlation).T
    return np.asarray(ndtr(latent) < chances)


def fit_correlation(
    chances: Floats, both: Mapping[tuple[int, int], tuple[float, float]], n_rows: float
) -> Floats:
    """Find latent correlations under which pairs of holes coincide as often as released.

    Parameters
    ----------
    chances : ndarray, shape (n, d)
        Probability that each cell is missing, on rows of the complete-data model.
    both : mapping of (a, b) to (count, std)
        Released number of rows with both cells missing, and its noise.
    n_rows : float
        Released number of rows.

    Returns
    -------
    ndarray, shape (d, d)
        Pairs without a released table get the correlation of the strongest chain of pairs with
        one; the result is moved to the nearest positive definite matrix by its eigenvalues.
    """
    size = chances.shape[1]
    correlation, known = np.eye(size), np.eye(size, dtype=bool)
    rows = chances[:: max(1, len(chances) // _ROWS)]
    quantiles = ndtri(np.clip(rows, 1e-12, 1 - 1e-12))
    for (a, b), (count, std) in both.items():
        alone = float((rows[:, a] * rows[:, b]).mean())
        chance = n_rows * alone * (1 - alone)
        known[a, b] = known[b, a] = True
        if abs(count - n_rows * alone) > _COINCIDENCE * np.sqrt(std**2 + chance):
            found = _latent(quantiles[:, a], quantiles[:, b], alone, count / n_rows)
            correlation[a, b] = correlation[b, a] = found
    return _positive(_completed(correlation, known))


def _latent(h: Floats, k: Floats, alone: float, target: float) -> float:
    """Solve E[Φ₂(h, k; ρ)] = target for ρ, along ρ = sin θ (Drezner and Wesolowsky 1990)."""
    theta = np.linspace(-np.arcsin(_LARGEST), np.arcsin(_LARGEST), _NODES)[:, np.newaxis]
    exponent = (h**2 + k**2 - 2 * h * k * np.sin(theta)) / (2 * np.cos(theta) ** 2)
    density = np.exp(-exponent).mean(axis=1) / (2 * np.pi)
    grown = cumulative_trapezoid(density, theta[:, 0], initial=0.0)
    rates = alone + grown - grown[_NODES // 2]
    return float(np.sin(np.interp(target, rates, theta[:, 0])))


def _completed(correlation: Floats, known: NDArray[np.bool_]) -> Floats:
    """Fill unknown pairs with the largest product along a chain of pairs."""
    filled = correlation.copy()
    for via in range(len(filled)):
        chain = np.outer(filled[:, via], filled[via])
        better = ~known & (np.abs(chain) > np.abs(filled))
        filled = np.where(better, chain, filled)
    return filled


def _positive(correlation: Floats) -> Floats:
    values, vectors = np.linalg.eigh(correlation)
    if values[0] >= _LEAST_EIGENVALUE:
        return correlation
    mended = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
    return np.asarray(mended / np.sqrt(np.outer(np.diag(mended), np.diag(mended))))


Codes = NDArray[np.int64]

_LEAST_RATE = 1e-6
_DAMPING = 0.7
_EVIDENCE = 3.0  # standard deviations of the statistic
_NEVER = -50.0  # logit of no chance at all
_STEP = 1.0  # largest move of a parameter in one sweep


@dataclass(frozen=True, eq=False)
class Strip:
    """How often ``a`` is missing, by observed levels of others: a part of a released marginal.

    Parameters
    ----------
    missing : ndarray
        Noisy counts of rows where ``a`` is missing, one per cell of the others; may be negative.
    rows : ndarray
        Noisy counts of all rows, one per cell of the others.
    std : float
        Standard deviation of the noise of each missing count.
    observed_cells : int
        How many counts with the same noise make up the observed part of each of ``rows``.
    levels : tuple of int, optional
        Numbers of levels of the others, if there are several.
    """

    missing: Floats
    rows: Floats
    std: float
    observed_cells: int
    levels: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of levels of the others."""
        return self.levels or (len(self.missing),)

    @cached_property  # asked for in every sweep
    def selective(self) -> bool:
        """Whether missing rates differ between levels by more than noise and chance explain.

        A chi-squared statistic of the released counts, against ``_EVIDENCE`` of its standard
        deviations above its mean.
        """
        levels, whole = len(self.missing), float(self.missing.sum())
        if levels < 2 or whole <= 3 * self.std * np.sqrt(levels):
            return False
        rate = float(np.clip(whole / max(self.rows.sum(), 1.0), 0.0, 1.0))
        noise = self.std**2 * ((1 - rate) ** 2 + rate**2 * self.observed_cells)
        chance = np.maximum(self.rows, 0.0) * rate * (1 - rate)
        statistic = float((np.square(self.missing - rate * self.rows) / (noise + chance)).sum())
        freedom = levels - 1
        return statistic > freedom + _EVIDENCE * float(np.sqrt(2 * freedom))

    @cached_property  # asked for in every sweep
    def rates(self) -> Floats:
        """Missing rate by level, leaning on the whole rate where rows are few."""
        whole = np.clip(self.missing.sum() / max(self.rows.sum(), self.std), 0.0, 1.0)
        weight = 3 * self.std
        total = np.maximum(self.rows, 0.0) + weight
        rates: Floats = np.clip((self.missing + weight * whole) / total, 0.0, 1.0)
        return rates


@dataclass(eq=False)
class MaskModel(Record):
    """Probability that each cell is missing, given the complete row.

    Parameters
    ----------
    rates : ndarray, shape (d,)
        Released missing rates; 0 where an attribute is never missing.
    always : mapping of int to int
        By attribute, a level that is always observed: there is nothing to be missing.
    """

    rates: Floats
    always: dict[int, int] = field(default_factory=dict)
    intercepts: Floats = field(init=False)
    slopes: dict[tuple[int, ...], Floats] = field(default_factory=dict)  # whose, then by what
    correlation: Floats = field(init=False)  # of latent variables: which holes coincide

    def __post_init__(self) -> None:
        self.correlation = np.eye(len(self.rates))
        self.intercepts = logit(np.clip(self.rates, _LEAST_RATE, 1 - _LEAST_RATE))

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which attributes have holes at all."""
        return np.asarray(self.rates > 0)

    def missing(self, rows: Codes) -> Floats:
        """Probability that each cell of complete rows is missing, shape ``(n, d)``."""
        out = np.empty(rows.shape, order="F")
        out[:] = np.where(self.present, expit(self.intercepts), 0.0)
        steep: dict[int, list[tuple[int, ...]]] = {}  # most attributes depend on none
        for effect, slope in self.slopes.items():
            if slope.any():
                steep.setdefault(effect[0], []).append(effect)
        for a, effects in steep.items():
            if self.present[a]:
                logits = np.full(len(rows), self.intercepts[a])
                for effect in effects:
                    logits += self.slopes[effect][tuple(rows[:, b] for b in effect[1:])]
                out[:, a] = expit(logits)
        for a, level in self.always.items():
            out[rows[:, a] == level, a] = 0.0
        return out

    def draw(self, rows: Codes, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Draw masks for complete rows; True is missing."""
        return coincident(self.missing(rows), self.correlation, rng)

    def learn(
        self,
        rows: Codes,
        n_rows: float,
        strips: Mapping[tuple[int, ...], Strip],
        *,
        ridge: float,
        sweeps: int,
    ) -> None:
        """Move the parameters towards the released tables, given rows of the complete-data model.

        Each sweep takes a damped, clipped Newton step on every parameter of the penalised
        likelihood; the penalty ``ridge · std`` lets a slope of one leave ``ridge`` standard
        deviations unexplained, and strips without evidence of selection have no slope at all, so
        that noise alone does not make data look selectively missing.

        Parameters
        ----------
        rows : ndarray of int64, shape (n, d)
            Synthetic rows.
        n_rows : float
            Released number of private rows.
        strips : mapping of (a, b) or (a, b, c) to Strip
        ridge : float
            Above 0.
        sweeps : int
        """
        per_row = n_rows / max(1, len(rows))
        rows = np.asfortranarray(rows)  # columns are read one by one
        by_attribute: dict[int, dict[tuple[int, ...], Strip]] = {}
        for effect, strip in strips.items():
            if self.present[effect[0]]:
                by_attribute.setdefault(effect[0], {})[effect] = strip
        for _ in range(sweeps):
            missing = self.missing(rows)
            self._match_rates(missing)
            for a, own in by_attribute.items():
                self._learn_one(a, own, rows, missing, per_row, ridge)

    def _match_rates(self, missing: Floats) -> None:
        gap = self.rates - missing.mean(axis=0)
        curvature = np.maximum((missing * (1 - missing)).mean(axis=0), 1e-3)
        self.intercepts = self.intercepts + np.where(
            self.present, np.clip(gap / curvature, -_STEP, _STEP), 0.0
        )

    def _learn_one(
        self,
        a: int,
        strips: Mapping[tuple[int, ...], Strip],
        rows: Codes,
        missing: Floats,
        per_row: float,
        ridge: float,
    ) -> None:
        """Update the slopes of one attribute, one effect after the other."""
        for effect, strip in strips.items():
            self.slopes.setdefault(effect, np.zeros(strip.shape))
        moving = [e for e in strips if strips[e].selective or self.slopes[e].any()]
        if not moving:
            return
        by = {e: tuple(rows.T[list(e[1:])]) for e in moving}
        cells = {e: np.ravel_multi_index(by[e], strips[e].shape) for e in moving}
        logits = np.full(len(rows), self.intercepts[a])
        for effect in moving:
            logits += self.slopes[effect].ravel()[cells[effect]]
        if a in self.always:
            logits[rows[:, a] == self.always[a]] = _NEVER
        for effect in moving:
            strip, slope = strips[effect], self.slopes[effect].ravel()
            if strip.selective:
                seen = (1 - missing[:, effect[1:]]).prod(axis=1) * per_row
                step = _step(expit(logits), cells[effect], seen, strip, ridge, slope)
            else:
                step = -slope
            self.slopes[effect] = (slope + step).reshape(strip.shape)
            logits += step[cells[effect]]


def _step(
    chance: Floats, codes: Codes, seen: Floats, strip: Strip, ridge: float, slope: Floats
) -> Floats:
    """One clipped, damped Newton step of a slope.

    Rates rather than counts are matched, so that errors of the complete-data model in the
    predictor's own margin do not pass for selective missingness; and only their shape, because
    their level also carries how often holes coincide.
    """
    levels = len(slope)
    expected = np.bincount(codes, weights=seen * chance, minlength=levels)
    curvature = np.bincount(codes, weights=seen * chance * (1 - chance), minlength=levels)
    aim = strip.rates * np.bincount(codes, weights=seen, minlength=levels)
    if aim.sum() <= 0:
        return np.zeros(levels)
    aim *= expected.sum() / aim.sum()
    penalty = ridge * strip.std
    step = (aim - expected - penalty * slope) / (curvature + penalty + 1e-9)
    clipped: Floats = np.clip(_DAMPING * step, -_STEP, _STEP)
    return clipped


@dataclass(frozen=True, eq=False)
class Measured:
    """A released marginal on merged levels.

    Parameters
    ----------
    counts : ndarray
        Noisy counts; the last level of an extended axis is "missing".
    std : float or ndarray
        Noise of each cell.
    """

    counts: Floats
    std: float | Floats

    def combine(self, other: Measured) -> Measured:
        """Average two measurements of one marginal by their precisions."""
        w, v = 1 / np.square(self.std), 1 / np.square(other.std)
        return Measured((w * self.counts + v * other.counts) / (w + v), (w + v) ** -0.5)


def strips(
    measured: Mapping[Clique, Measured], sizes: Sequence[int], present: NDArray[np.bool_]
) -> dict[tuple[int, ...], Strip]:
    """How often ``a`` is missing by levels of one or two others, from the least noisy marginals.

    Parameters
    ----------
    measured : mapping of Clique to Measured
    sizes : sequence of int
        Levels of each attribute, missing aside.
    present : ndarray of bool
        Attributes that have holes.

    Examples
    --------
    >>> table = Measured(np.array([[3.0, 1.0], [4.0, 0.0], [2.0, 9.0]]), 1.0)
    >>> found = strips({(0, 1): table}, [2, 2], np.array([True, False]))
    >>> found[0, 1].missing.tolist(), found[0, 1].rows.tolist()
    ([2.0, 9.0], [9.0, 10.0])
    """
    found: dict[tuple[int, ...], Strip] = {}
    for clique, marginal in measured.items():
        effects: list[tuple[int, ...]] = [*permutations(clique, 2)]
        for a in clique:
            effects += [(a, *both) for both in combinations([v for v in clique if v != a], 2)]
        for effect in effects:
            if present[effect[0]]:
                strip = _strip(effect, clique, marginal, sizes)
                if effect not in found or strip.std < found[effect].std:
                    found[effect] = strip
    return found


def _strip(
    effect: tuple[int, ...], clique: Clique, measured: Measured, sizes: Sequence[int]
) -> Strip:
    """Add up a marginal over what is not in the effect; the rest is seen where it is observed."""
    a, *by = effect
    rest = tuple(i for i, v in enumerate(clique) if v not in effect)
    kept = [v for v in clique if v in effect]
    table = measured.counts.sum(axis=rest).transpose([kept.index(v) for v in effect])
    shape = tuple(sizes[b] for b in by)
    table = table[(slice(None), *(slice(0, size) for size in shape))].reshape(-1, prod(shape))
    std = float(measured.std) * float(np.sqrt(prod(measured.counts.shape[i] for i in rest)))
    return Strip(table[sizes[a]], table.sum(axis=0), std, sizes[a], shape)


def both_missing(
    measured: Mapping[Clique, Measured], sizes: Sequence[int], present: NDArray[np.bool_]
) -> dict[tuple[int, int], tuple[float, float]]:
    """Number of rows in which two cells are missing, with its noise; parameters as `strips`.

    Examples
    --------
    >>> both_missing({(0, 1): Measured(np.eye(2) * 7, 2.0)}, [1, 1], np.array([True, True]))
    {(0, 1): (7.0, 2.0)}
    """
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for clique, marginal in measured.items():
        for (i, a), (j, b) in combinations(enumerate(clique), 2):
            if present[a] and present[b]:
                part = marginal.counts.take(sizes[b], axis=j).take(sizes[a], axis=i)
                std = float(marginal.std) * float(np.sqrt(part.size))
                if (a, b) not in found or std < found[a, b][1]:
                    found[a, b] = float(part.sum()), std
    return found
