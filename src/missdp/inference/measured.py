"""Released marginals with missing values, and what they tell of who is missing where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations
from math import prod

import numpy as np
from numpy.typing import NDArray

from missdp.inference.junction import Clique

__all__ = ["EVIDENCE", "Measured", "Strip", "both_missing", "strips"]

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
