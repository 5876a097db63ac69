"""Weights of rows: how often a row is counted, by the codes of its own cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["RowWeight"]


@dataclass(frozen=True, eq=False)
class RowWeight:
    """The factor by which a row's vector of products is clipped: a whole number for each row.

    A row has a block of numbers for each attribute, of squared length ``squares[name][code]``. Its
    vector is made of the blocks, each times ``alone``, and of the products of every two blocks, so
    its squared length is ``alone^2 S + (S^2 - Q) / 2`` with S the sum of the squared lengths, and
    Q the sum of their squares. The weight is the largest whole number up to ``most`` by which that
    vector can be multiplied without becoming longer than ``bound``.

    Parameters
    ----------
    squares : mapping of str to array of int64
        For each attribute the squared length of the block of each code, at least 0.
    alone : int
        At least 0.
    bound : int
        At least 1.
    most : int
        At least 1, below 2**32.

    Examples
    --------
    >>> squares = {"a": np.array([4, 0]), "b": np.array([9, 1])}
    >>> weight = RowWeight(squares, alone=1, bound=70, most=20)
    >>> weight({"a": np.array([0, 1]), "b": np.array([0, 1])}).tolist()  # of lengths 7 and 1
    [9, 20]
    """

    squares: Mapping[str, NDArray[np.int64]]
    alone: int
    bound: int
    most: int

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes whose codes it reads."""
        return tuple(self.squares)

    def __call__(self, codes: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
        """Return the weight of each row of a chunk."""
        size = len(next(iter(codes.values()))) if codes else 0
        total, squared = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        for name, lengths in self.squares.items():
            block = lengths[codes[name]]
            total += block
            squared += block * block
        length = np.sqrt(
            (self.alone**2 * total + (total * total - squared) // 2).astype(np.float64)
        )
        # Rounding of the conversion, the root and the quotient together is far below 2**-50.
        with np.errstate(divide="ignore"):
            factor = self.bound * (1 - 2.0**-50) / length
        return np.floor(np.minimum(factor, self.most)).astype(np.int64)

    def recoded(self, codes: Mapping[str, NDArray[np.int64]]) -> RowWeight:
        """Return the weight of rows with other codes, of which ``codes`` tells those known here."""
        squares = {
            name: lengths[codes[name]] if name in codes else lengths
            for name, lengths in self.squares.items()
        }
        return RowWeight(squares, self.alone, self.bound, self.most)
