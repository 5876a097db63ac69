"""Sums over rows of the products of every two attributes: what is public about such a release.

A row's vector is clipped as a whole by one factor, which depends on its own codes only. Centres
and factors are multiples of a grid's step, so vectors are whole numbers in steps of the grid, their
norms are known exactly, and the noise is discrete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost
from missdp.errors import ParameterError
from missdp.mechanisms.laws import Noise
from missdp.sources import Clique
from missdp.sources.row_weights import RowWeight

__all__ = ["CentredProducts", "ProductSums", "Products"]

_FINEST, _COARSEST = 10, 4  # bits of centres, and of factors
_LARGEST = 2.0**38  # of noise, in steps of the grid
_MOST_ATTRIBUTES = 1000  # so that squared lengths fit into 64 bits
_MOST_NUMBERS = 60_000_000


@dataclass(frozen=True, eq=False)
class CentredProducts:
    """What is fixed, from public and released values, before products of attributes are released.

    Parameters
    ----------
    centres : mapping of str to array of float
        For each attribute a number in [0, 1] for each of its codes, its share of the rows, say.
        The nearer they are to that, the shorter are the vectors of most rows.
    clip : float
        L2 norm to which the vector of each row is clipped; above 0.
    alone : float, default 1.0
        Factor of the blocks of single attributes within that vector; in (0, 16].

    Examples
    --------
    >>> plan = CentredProducts({"a": np.array([0.5, 0.5])}, clip=2.0)
    >>> plan.alone
    1.0
    """

    centres: Mapping[str, NDArray[np.float64]]
    clip: float
    alone: float = 1.0

    def __post_init__(self) -> None:
        if not 2.0**-10 <= self.clip <= 2.0**20:
            raise ParameterError(f"clip must be from 2**-10 to 2**20, got {self.clip}")
        if not 0 < self.alone <= 16:
            raise ParameterError(f"alone must be above 0 and at most 16, got {self.alone}")
        if len(self.centres) > _MOST_ATTRIBUTES:
            raise ParameterError(f"products are of at most {_MOST_ATTRIBUTES} attributes")

    def on_grid(self, codes: Sequence[int], sizes: Mapping[str, int], cost: Cost) -> ProductSums:
        """Return what is summed up, in whole numbers, and its noise.

        Parameters
        ----------
        codes : sequence of int
            Number of codes that each attribute of a row may have.
        sizes : mapping of str to int
            Number of entries of each attribute's block; a code beyond has a block of zeros.
        cost : Cost
        """
        shapes = {name: np.shape(centre) for name, centre in self.centres.items()}
        if shapes != {name: (size,) for name, size in sizes.items()}:
            raise ParameterError("centres must have a number for each code of each attribute")
        if not all(np.isfinite(self.centres[name]).all() for name in sizes):
            raise ParameterError("centres must be finite")
        numbers = sum(sizes.values()) + sum(a * b for a, b in combinations(sizes.values(), 2))
        if numbers > _MOST_NUMBERS:
            raise ParameterError(
                f"all pairs of attributes have {numbers:,} cells, more than the {_MOST_NUMBERS:,} "
                "that are released together; use fewer bins or levels, or the synthesizer 'mst'"
            )
        bits = _FINEST
        while bits > _COARSEST and self.clip * _noise(cost, 1.0) * 2.0 ** (3 * bits) > _LARGEST:
            bits -= 1
        return ProductSums(self, tuple(codes), tuple(sizes.items()), bits, cost)


def _noise(cost: Cost, sensitivity: float) -> float:
    return Noise.worth(cost, sensitivity=sensitivity).scale


@dataclass(frozen=True, eq=False)
class ProductSums:
    """Sums of products in whole numbers: how rows enter them, how large they are, and their noise.

    A door makes it from a plan.

    Parameters
    ----------
    plan : CentredProducts
    codes : tuple of int
        Number of codes of each attribute of a row.
    sizes : tuple of (str, int)
        Entries of each attribute's block.
    bits : int
        Centres, and the factors that clip, are multiples of 2**-bits.
    cost : Cost
    """

    plan: CentredProducts
    codes: tuple[int, ...]
    sizes: tuple[tuple[str, int], ...]
    bits: int
    cost: Cost

    @property
    def bound(self) -> int:
        """L2 norm of the longest vector of whole numbers that a row can have."""
        return int(Fraction(self.plan.clip) * (1 << 3 * self.bits))

    @property
    def noise(self) -> Noise:
        """Noise of every number."""
        return Noise.worth(self.cost, sensitivity=float(self.bound))

    @cached_property
    def weight(self) -> RowWeight:
        """The factor of a row's vector, in steps of the grid."""
        squares = {name: (block * block).sum(axis=1) for name, block in self._blocks.items()}
        return RowWeight(squares, alone=self._alone, bound=self.bound, most=1 << self.bits)

    def exact(self, counts: Mapping[Clique, NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the sums, given the sums of the weights of the rows in every cell; private."""
        blocks, parts = self._blocks, []
        # So that no product overflows, also of tables with billions of rows. It shortens what a row
        # adds, if anything.
        cells = max((table.size for table in counts.values()), default=1)
        most = 2 ** (61 - 2 * self.bits) // cells
        for name, block in blocks.items():
            parts.append(self._alone * (np.minimum(counts[name,], most) @ block))
        for a, b in combinations(blocks, 2):
            parts.append((blocks[a].T @ np.minimum(counts[a, b], most) @ blocks[b]).ravel())
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    def read(self, cells: NDArray[np.int64]) -> Products:
        """Return noisy sums in units of rows."""
        whole = np.asarray(cells, dtype=np.float64) / 2.0 ** (3 * self.bits)
        factor, place = self._alone / 2.0**self.bits, 0
        single, pairs = {}, {}
        for name, size in self.sizes:
            single[name] = whole[place : place + size] / factor
            place += size
        for (a, rows), (b, columns) in combinations(self.sizes, 2):
            pairs[a, b] = whole[place : place + rows * columns].reshape(rows, columns)
            place += rows * columns
        std = self.noise.scale / 2.0 ** (3 * self.bits)
        centres = {name: self._centre(name) / 2.0**self.bits for name, _ in self.sizes}
        return Products(centres, single, pairs, std=std, single_std=std / factor)

    @property
    def _alone(self) -> int:
        return max(1, round(self.plan.alone * (1 << self.bits)))

    def _centre(self, name: str) -> NDArray[np.int64]:
        share = np.clip(np.asarray(self.plan.centres[name], dtype=np.float64), 0.0, 1.0)
        return np.asarray(np.rint(share * (1 << self.bits)), dtype=np.int64)

    @cached_property
    def _blocks(self) -> dict[str, NDArray[np.int64]]:
        """For each attribute the block of each code."""
        found = {}
        for (name, size), codes in zip(self.sizes, self.codes, strict=True):
            block = np.zeros((codes, size), dtype=np.int64)
            block[:size] = (np.eye(size, dtype=np.int64) << self.bits) - self._centre(name)
            found[name] = block
        return found


@dataclass(frozen=True, eq=False)
class Products:
    """Released sums over rows of clipped, centred indicators and their products.

    Parameters
    ----------
    centres : mapping of str to array of float
        What was subtracted: the centres of the plan, rounded to the grid.
    single : mapping of str to array of float
        For each attribute the sum of its blocks.
    pairs : mapping of (str, str) to array of float
        For every two attributes, the earlier one first, the sum of the products of their blocks.
    std : float
        Standard deviation of the noise of each number of ``pairs``.
    single_std : float
        That of each number of ``single``.
    """

    centres: Mapping[str, NDArray[np.float64]]
    single: Mapping[str, NDArray[np.float64]]
    pairs: Mapping[tuple[str, str], NDArray[np.float64]]
    std: float
    single_std: float
