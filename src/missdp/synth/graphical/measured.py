"""Released marginals, and what they say about holes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import prod

import numpy as np
from numpy.typing import NDArray

from missdp.synth.graphical.junction import Clique
from missdp.synth.graphical.masks import Strip

__all__ = ["Measured", "both_missing", "strips"]

Floats = NDArray[np.float64]


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
) -> dict[tuple[int, int], Strip]:
    """How often ``a`` is missing by levels of ``b``, from the least noisy marginal with both.

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
    found: dict[tuple[int, int], Strip] = {}
    for clique, marginal in measured.items():
        for a, b in permutations(clique, 2):
            if present[a]:
                strip = _strip(a, b, clique, marginal, sizes)
                if (a, b) not in found or strip.std < found[a, b].std:
                    found[a, b] = strip
    return found


def _strip(a: int, b: int, clique: Clique, measured: Measured, sizes: Sequence[int]) -> Strip:
    others = tuple(i for i, v in enumerate(clique) if v not in (a, b))
    table = measured.counts.sum(axis=others)
    table = table if clique.index(a) < clique.index(b) else table.T
    table = table[:, : sizes[b]]
    summed = prod(measured.counts.shape[i] for i in others)
    std = float(measured.std) * float(np.sqrt(summed))
    return Strip(table[sizes[a]], table.sum(axis=0), std, sizes[a])


def both_missing(
    measured: Mapping[Clique, Measured], sizes: Sequence[int], present: NDArray[np.bool_]
) -> dict[tuple[int, int], tuple[float, float]]:
    """Number of rows in which two cells are missing, with its noise; parameters as `strips`.

    Examples
    --------
    >>> table = Measured(np.array([[3.0, 1.0], [4.0, 7.0]]), 2.0)
    >>> both_missing({(0, 1): table}, [1, 1], np.array([True, True]))
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
