"""The weights by which vectors of products are clipped, and the sources that add them up.

Sums of products alone need them (`missdp.session.products`). A row's weight depends on that row's
codes and on public numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError
from missdp.session.counting import MarginalSource, offers
from missdp.types import Ints


@dataclass(frozen=True, eq=False)
class RowWeight:
    """The factor by which a row's vector of products is clipped: a whole number for each row.

    A row has a block of numbers for each attribute, of squared length ``squares[name][code]``, and
    further numbers that enter no product, of squared length ``further[name][code]``. Its vector is
    made of the blocks and the further numbers, each times ``alone``, and of the products of every
    two blocks. Let S be the sum of the squared lengths of blocks, Q the sum of their squares, and R
    the sum of the squared lengths of the further numbers. The vector's squared length is then
    ``alone^2 (S + R) + (S^2 - Q) / 2``. The weight is the largest whole number up to ``most`` by
    which that vector can be multiplied without becoming longer than ``bound``.

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
    further : mapping of str to array of int64
        By attribute of ``squares`` that has further numbers.

    Examples
    --------
    >>> squares = {"a": np.array([4, 0]), "b": np.array([9, 1])}
    >>> weight = RowWeight(squares, alone=1, bound=70, most=20)
    >>> weight({"a": np.array([0, 1]), "b": np.array([0, 1])}).tolist()  # of lengths 7 and 1
    [9, 20]
    """

    squares: Mapping[str, Ints]
    alone: int
    bound: int
    most: int
    further: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes whose codes it reads."""
        return tuple(self.squares)

    def __call__(self, codes: Mapping[str, NDArray[Any]]) -> Ints:
        """Return the weight of each row of a chunk."""
        size = len(next(iter(codes.values()))) if codes else 0
        total, squared = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        for name, lengths in self.squares.items():
            block = lengths[codes[name]]
            total += block
            squared += block * block
        rest = np.zeros(size, dtype=np.int64)
        for name, lengths in self.further.items():
            rest += lengths[codes[name]]
        length = np.sqrt(
            (self.alone**2 * (total + rest) + (total * total - squared) // 2).astype(np.float64)
        )
        # Rounding of the conversion, the root and the quotient together is far below 2**-50.
        with np.errstate(divide="ignore"):
            factor = self.bound * (1 - 2.0**-50) / length
        return np.asarray(np.floor(np.minimum(factor, self.most)), dtype=np.int64)

    def recoded(self, codes: Mapping[str, Ints]) -> RowWeight:
        """Return the weight of rows with other codes, of which ``codes`` tells those known here."""
        squares = {name: lengths[codes[name]] for name, lengths in self.squares.items()}
        further = {name: lengths[codes[name]] for name, lengths in self.further.items()}
        return RowWeight(squares, self.alone, self.bound, self.most, further)


def weighing(source: MarginalSource) -> Any:
    """Return a source that adds up weights of rows (``weighted_counts``); refuse others."""
    if not offers(source, "weighted_counts"):
        raise ParameterError(
            "this release counts rows by weights, and the source has no method weighted_counts; "
            "read the rows with Table.read, or use another synthesizer"
        )
    return source
