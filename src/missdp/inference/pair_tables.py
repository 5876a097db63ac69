"""Noisy tables of all pairs of attributes, "missing" included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from missdp.inference.heads import Pair

__all__ = ["PairTables"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PairTables:
    """Noisy shares of the rows in all cells of every attribute and every pair of attributes.

    Released values with the variance of their noise; `missdp.inference.completion` tells what they
    say of complete rows.

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
        Variance of the noise of each share, less what the margins tell.
    n_rows : float
        Number of rows, as far as it is known.

    Examples
    --------
    >>> table = np.array([[0.4, 0.1], [0.1, 0.4]])
    >>> known = PairTables(
    ...     (2, 2), (table.sum(1), table.sum(0)), {(0, 1): table}, {(0, 1): table * 0}, 100.0
    ... )
    >>> known.rates.tolist()
    [0.0, 0.0]
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
