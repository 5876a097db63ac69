"""Noisy tables of all pairs of attributes, "missing" included, and what they say of complete rows.

`PairTables` are released values with the variance of their noise. `moments` takes from them what a
model of complete rows is fitted to: the dependence of each pair among the rows observed on both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from missdp.inference.heads import Pair
from missdp.inference.shrinkage import centred

__all__ = ["Moments", "PairTables"]

Floats = NDArray[np.float64]

_LEAST_RATE = 0.02  # of rows observed on a pair, below which its table is as good as empty
_LEAST_SHARE = 1e-7


@dataclass(frozen=True, eq=False)
class Moments:
    """What noisy tables say of complete rows.

    Parameters
    ----------
    margins : tuple of ndarray
        One-way margin of each attribute, adding up to 1.
    pairs : mapping of (attribute, attribute) to ndarray
        Table of each pair less the product of its margins.
    variances : mapping of (attribute, attribute) to ndarray
        Variance of the noise of each cell.
    """

    margins: tuple[Floats, ...]
    pairs: Mapping[Pair, Floats]
    variances: Mapping[Pair, Floats]


@dataclass(frozen=True, eq=False)
class PairTables:
    """Noisy shares of the rows in all cells of every attribute and every pair of attributes.

    Parameters
    ----------
    sizes : tuple of int
        Levels of each attribute, without "missing".
    margins : tuple of ndarray
        Share of the rows at each level and, if the attribute may be missing, missing; nowhere
        negative.
    tables : mapping of (attribute, attribute) to ndarray
        The same for every two attributes; noise makes some negative.
    variances : mapping of (attribute, attribute) to ndarray
        Variance of the noise of each share.
    n_rows : float
        Number of rows, as far as it is known.

    Examples
    --------
    >>> table = np.array([[0.4, 0.1], [0.1, 0.4]])
    >>> known = PairTables(
    ...     (2, 2), (table.sum(1), table.sum(0)), {(0, 1): table}, {(0, 1): table * 0}, 100.0
    ... )
    >>> known.observed().pairs[0, 1].round(2).tolist()
    [[0.15, -0.15], [-0.15, 0.15]]
    """

    sizes: tuple[int, ...]
    margins: tuple[Floats, ...]
    tables: Mapping[Pair, Floats]
    variances: Mapping[Pair, Floats]
    n_rows: float

    @property
    def rates(self) -> Floats:
        """Share of the rows in which each attribute is missing."""
        return np.array([m[s:].sum() for m, s in zip(self.margins, self.sizes, strict=True)])

    def observed(self) -> Moments:
        """Return the moments of the rows observed on each attribute, or on each pair."""
        margins = tuple(
            np.maximum(m[:s], _LEAST_SHARE) / np.maximum(m[:s], _LEAST_SHARE).sum()
            for m, s in zip(self.margins, self.sizes, strict=True)
        )
        pairs, variances = {}, {}
        for (a, b), table in self.tables.items():
            both = table[: self.sizes[a], : self.sizes[b]]
            noise = self.variances[a, b][: self.sizes[a], : self.sizes[b]]
            rate = max(_LEAST_RATE, float(both.sum()))
            degrees = (1 - 1 / self.sizes[a]) * (1 - 1 / self.sizes[b])
            product = np.outer(both.sum(axis=1), both.sum(axis=0)) / rate
            pairs[a, b] = centred(both - product) / rate
            variances[a, b] = np.maximum(noise * degrees, 1e-30) / rate**2
        return Moments(margins, pairs, variances)
