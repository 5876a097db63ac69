"""Released marginals with missing values, and what they tell of who is missing where.

A noisy table is leaned on what a model says by empirical Bayes (`shrunk`). What it adds to the
model is its residual, less everything that smaller tables tell. How far residuals are true is told
by their size: where it is no more than noise explains, the model is right, and the table is taken
for noise (James and Stein 1961; Efron and Morris 1973).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations
from math import prod

import numpy as np
from numpy.typing import NDArray

from missdp.inference.junction import Clique

Floats = NDArray[np.float64]

EVIDENCE = 3.0  # standard deviations of the statistic


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
    observed_cells : float
        How many counts with the same noise make up the observed part of each of ``rows``.
    levels : tuple of int, optional
        Numbers of levels of the others, if there are several.
    """

    missing: Floats
    rows: Floats
    std: float
    observed_cells: float
    levels: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of levels of the others."""
        return self.levels or (len(self.missing),)

    @property
    def selective(self) -> bool:
        """Whether missing rates differ between levels by more than noise and chance explain."""
        return self.evidence > EVIDENCE

    @cached_property  # asked for in every sweep
    def evidence(self) -> float:
        """How much missing rates differ between levels, in standard deviations beyond the mean."""
        return self.against(np.ones(len(self.missing)))

    def against(self, profile: Floats) -> float:
        """How much missing rates differ from a multiple of the ones given, as `evidence`.

        A chi-squared statistic of the released counts; 0 if there are too few of them.
        """
        levels, whole = len(self.missing), float(self.missing.sum())
        if levels < 2 or whole <= 3 * self.std * np.sqrt(levels):
            return 0.0
        factor = whole / max(float(self.rows @ profile), 1.0)
        rate = np.clip(factor * profile, 0.0, 1.0)
        noise = self.std**2 * ((1 - rate) ** 2 + rate**2 * self.observed_cells)
        chance = np.maximum(self.rows, 0.0) * rate * (1 - rate)
        statistic = float((np.square(self.missing - rate * self.rows) / (noise + chance)).sum())
        freedom = levels - 1
        return (statistic - freedom) / float(np.sqrt(2 * freedom))

    @cached_property  # asked for in every sweep
    def rates(self) -> Floats:
        """Missing rate by level, leaning on the whole rate where rows are few."""
        whole = np.clip(self.missing.sum() / max(self.rows.sum(), self.std), 0.0, 1.0)
        weight = 3 * self.std
        total = np.maximum(self.rows, 0.0) + weight
        rates: Floats = np.clip((self.missing + weight * whole) / total, 0.0, 1.0)
        return rates


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
    """How often ``a`` is missing by levels of one or two others, from the least noisy marginals."""
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
    """Number of rows in which two cells are missing, with its noise; parameters as `strips`."""
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for clique, marginal in measured.items():
        for (i, a), (j, b) in combinations(enumerate(clique), 2):
            if present[a] and present[b]:
                part = marginal.counts.take(sizes[b], axis=j).take(sizes[a], axis=i)
                std = float(marginal.std) * float(np.sqrt(part.size))
                if (a, b) not in found or std < found[a, b][1]:
                    found[a, b] = float(part.sum()), std
    return found


_LEAST = 1e-3  # of the model's share of a cell, whatever is released
_SWEEPS = 20
_HELD = 1e-12  # of a margin: no further from it than rounding


def centred(table: Floats) -> Floats:
    """Return a table less its mean along each axis: what its margins do not tell."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def scaled_to(table: Floats, margins: Sequence[Floats], *, sweeps: int = _SWEEPS) -> Floats:
    """Return a table scaled to one-way margins, by iterative proportional fitting."""
    others = [tuple(i for i in range(table.ndim) if i != axis) for axis in range(table.ndim)]
    shapes = [[-1 if i == axis else 1 for i in range(table.ndim)] for axis in range(table.ndim)]
    for _ in range(sweeps):
        furthest = 0.0
        for margin, other, shape in zip(margins, others, shapes, strict=True):
            found = table.sum(axis=other)
            factor = np.divide(margin, found, out=np.ones_like(found), where=found > 0)
            table = table * factor.reshape(shape)
            furthest = max(furthest, float(np.abs(factor - 1).max(initial=0.0)))
        if furthest < _HELD:
            break
    return table


def shrunk(
    noisy: Floats,
    base: Floats,
    std: float | Floats,
    *,
    margins: Sequence[Floats] | None = None,
) -> Floats:
    """Return a noisy table leaned on a model's, scaled to one-way margins.

    Notes
    -----
    Each centred residual has a normal law of variance ``a v + s²``: noise ``s²``, and an error of
    the model proportional to ``v = p (1 − p)``, with one ``a`` for the table, that makes both sides
    add up. Its mean given what was found is ``λ = a v / (a v + s²)`` times the residual.
    """
    residual = centred(noisy - base)
    degrees = float(np.prod([1 - 1 / size for size in base.shape]))
    noise = np.square(np.broadcast_to(std, base.shape)) * degrees
    spread = np.maximum(base * (1 - base), 0.0)
    excess = max(0.0, float((np.square(residual) - noise).sum()))
    error = excess * spread / max(float(spread.sum()), np.finfo(float).tiny)
    trusted = np.divide(error, error + noise, out=np.zeros_like(error), where=error > 0)
    table = np.maximum(base + trusted * residual, _LEAST * base)
    wanted = margins
    if wanted is None:
        axes = range(base.ndim)
        wanted = [base.sum(axis=tuple(i for i in axes if i != axis)) for axis in axes]
    return scaled_to(table, wanted)
