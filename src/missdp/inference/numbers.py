"""What sums of products with standardised numbers tell of complete rows, beside tables of bins.

Of a pair of attributes, a table of bins has the noise of many cells in every trend. Where one of
them is a number ``z`` that was summed up by itself, its covariance with the levels of the other one
is known with the noise of one cell each, and that of two numbers with the noise of one. Written
under the table, as one more row (and column), they are smoothed together with it.

Everything here is a function of released values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from missdp.inference.heads import Pair
from missdp.inference.masks import MaskModel
from missdp.types import Floats, Ints

_LEAST_CHANCE = 0.02
_LEAST_SPREAD = 1e-6  # variance, below which a number is a constant


@dataclass(frozen=True, eq=False)
class NumberMoments:
    """What was released of standardised numbers, unshrunk: means over all rows, clipping undone.

    A cell without a value has a ``z`` of 0. Each comes with the standard deviation of its noise.

    Parameters
    ----------
    means : mapping of int to (float, float)
        Of ``z``, by attribute.
    powers : mapping of int to (ndarray, ndarray)
        Of the number as it is, clipped far out, and of its square.
    by_level : mapping of (int, int) to (ndarray, ndarray)
        Of ``z`` of one attribute where another one has each of its levels, or is missing: shares of
        all rows times conditional means.
    both : mapping of (int, int) to (float, float)
        Of products of the ``z`` of two attributes, the earlier one first.
    """

    means: Mapping[int, tuple[float, float]]
    powers: Mapping[int, tuple[Floats, Floats]]
    by_level: Mapping[Pair, tuple[Floats, Floats]]
    both: Mapping[Pair, tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Numbers:
    """Covariances of standardised numbers in complete rows, with the variances of their noise.

    Parameters
    ----------
    levels : mapping of int to ndarray
        Mean ``z`` of each level of an attribute that is a number.
    spread : mapping of int to float
        Variance of ``z`` in all rows.
    by_level : mapping of (int, int) to (ndarray, ndarray)
        Of ``z`` of one attribute with the indicators of the levels of another one.
    both : mapping of (int, int) to (float, float)
        Of two numbers, the earlier one first.
    """

    levels: Mapping[int, Floats]
    spread: Mapping[int, float]
    by_level: Mapping[Pair, tuple[Floats, Floats]]
    both: Mapping[Pair, tuple[float, float]]

    def less(self, other: Numbers, left: Mapping[Pair, float]) -> Numbers:
        """Return by how much covariances differ from those of another draw of the noise.

        What is clipped grows with sums, of which a part is ``left``, and noise grows with it.
        """
        by_level = {
            (a, c): ((found - other.by_level[a, c][0]) / left[min(a, c), max(a, c)], variance)
            for (a, c), (found, variance) in self.by_level.items()
        }
        both = {
            pair: ((found - other.both[pair][0]) / left[pair], variance)
            for pair, (found, variance) in self.both.items()
        }
        return replace(self, by_level=by_level, both=both)

    def under(self, pair: Pair, table: Floats, *, noise: bool) -> Floats:
        """Return a table with a row and a column more for each number, or that of its noise."""
        a, b = pair
        found = np.zeros([n + (v in self.levels) for n, v in zip(table.shape, pair, strict=True)])
        found[: table.shape[0], : table.shape[1]] = table
        if a in self.levels:
            found[-1, : table.shape[1]] = self.by_level[a, b][noise]
        if b in self.levels:
            found[: table.shape[0], -1] = self.by_level[b, a][noise]
        if a in self.levels and b in self.levels:
            found[-1, -1] = self.both[pair][noise]
        return found


def complete_numbers(
    moments: NumberMoments,
    levels: Mapping[int, Floats],
    inside: Mapping[int, Floats],
    margins: Sequence[Floats],
    rows: Ints,
    holes: NDArray[np.bool_],
    masks: MaskModel,
) -> Numbers:
    """Return what moments of observed cells say of complete rows.

    Parameters
    ----------
    moments : NumberMoments
    levels, inside : mappings of int to ndarray
        Mean and variance of ``z`` at each level of an attribute that is a number.
    margins : sequence of ndarray
        Of complete rows.
    rows : ndarray of int64
        Of a model of complete rows: they tell what is missing where observed cells are not like
        all, and nothing else.
    holes : ndarray of bool
        What is missing in them: a draw, in which holes coincide as often as they do.
    masks : MaskModel
    """
    missing = masks.missing(rows)
    z = {a: mean[rows[:, a]] for a, mean in levels.items()}
    middle = {a: float(margins[a] @ mean) for a, mean in levels.items()}
    spread = {
        a: float(margins[a] @ (inside[a] + np.square(mean))) - middle[a] ** 2
        for a, mean in levels.items()
    }
    holed = bool(holes.any())

    def chance(pair: Pair) -> tuple[Floats, float]:
        """How much more a row counts than it should, and the share of rows that are observed."""
        if not holed:
            return np.zeros(0), 1.0
        seen = masks.observed(rows, pair, missing)
        share = max(_LEAST_CHANCE, 1 - float(holes[:, pair].any(axis=1).mean()))
        return (1 - seen / max(_LEAST_CHANCE, float(seen.mean()))) / len(rows), share

    by_level: dict[Pair, tuple[Floats, Floats]] = {}
    both: dict[Pair, tuple[float, float]] = {}
    for (a, c), (found, std) in moments.by_level.items():
        lacking, share = chance((a, c))
        size = len(margins[c])
        whole = found[:size] / share
        if holed:
            whole = whole + np.bincount(rows[:, c], lacking * z[a], size)
        whole = whole - margins[c] * whole.sum()
        by_level[a, c] = whole, np.square(std[:size] / share)
    for (a, b), (product, noise) in moments.both.items():
        lacking, share = chance((a, b))
        told = product / share + (float(lacking @ (z[a] * z[b])) if holed else 0.0)
        both[a, b] = told - middle[a] * middle[b], (noise / share) ** 2
    vary = {a: mean for a, mean in levels.items() if spread[a] > _LEAST_SPREAD}
    return Numbers(vary, spread, by_level, both)
