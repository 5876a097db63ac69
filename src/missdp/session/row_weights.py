"""Row weights: the factors that clip rows' vectors of products, and the sources that sum them.

Only sums of products need row weights (`missdp.session.products`). A row's weight depends on that
row's codes and on public numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError
from missdp.session.counting import MarginalSource, has_method
from missdp.types import Ints


@dataclass(frozen=True, eq=False)
class RowWeight:
    """Function for the integer weight by which each row's vector is multiplied to limit its norm.

    A row has a block of numbers for each attribute, of squared length ``squares[name][code]``. Some
    attributes have extra numbers that enter no product, of squared length
    ``extra_squares[name][code]``. The row's vector consists of the blocks, the extra numbers and
    the products of every two blocks. Blocks and extra numbers are multiplied by the factor ``f``,
    which is ``first_order_weight``. Let S be the sum of the squared lengths of blocks. Let Q be the
    sum of the squares of these squared lengths, and R the sum of the squared lengths of the extra
    numbers. The squared length of the vector is ``f^2 (S + R) + (S^2 - Q) / 2``. With ``pairs``,
    the last term is the sum over these pairs of the product of both squared lengths. The weight is
    the largest whole number, up to ``max_weight``, that makes the multiplied vector at most
    ``bound`` long.

    Parameters
    ----------
    squares : mapping of str to array of int64, each of shape (n_codes,)
        For each attribute the squared length of the block of each code, at least 0.
    first_order_weight : int
        Factor of blocks and extra numbers in the vector, at least 0.
    bound : int
        Largest L2 norm of the multiplied vector, at least 1.
    max_weight : int
        Largest weight, at least 1 and below 2**32.
    extra_squares : mapping of str to array of int64, each of shape (n_codes,), optional
        For the attributes that have extra numbers, their squared length for each code.
    pairs : tuple of (str, str), optional
        The pairs of attributes whose products are in the vector, each once. None: all pairs.

    Notes
    -----
    The parameters are public or released. The weight of a row depends on this row alone, and is
    private.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.sources import RowWeight
    >>> squares = {"a": np.array([4, 0]), "b": np.array([9, 1])}
    >>> weight = RowWeight(squares, first_order_weight=1, bound=70, max_weight=20)
    >>> weight({"a": np.array([0, 1]), "b": np.array([0, 1])}).tolist()  # of lengths 7 and 1
    [9, 20]
    """

    squares: Mapping[str, Ints]
    first_order_weight: int
    bound: int
    max_weight: int
    extra_squares: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    pairs: tuple[tuple[str, str], ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the attributes whose codes determine the weight of a row.

        Returns
        -------
        tuple of str
            Names of attributes, in the order of ``squares``. Public.
        """
        return tuple(self.squares)

    def __call__(self, codes: Mapping[str, NDArray[Any]]) -> Ints:
        """Return the weight of each row of a chunk."""
        size = len(next(iter(codes.values()))) if codes else 0
        total, squared = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        for name, lengths in self.squares.items():
            block = lengths[codes[name]]
            total += block
            squared += block * block
        extra = np.zeros(size, dtype=np.int64)
        for name, lengths in self.extra_squares.items():
            extra += lengths[codes[name]]
        products = (total * total - squared) // 2
        if self.pairs is not None:
            products = self._of_pairs(codes, size)
        square = self.first_order_weight**2 * (total + extra) + products
        length = np.sqrt(square.astype(np.float64))
        # Rounding of the conversion, the root and the quotient together is far below 2**-50.
        with np.errstate(divide="ignore"):
            factor = self.bound * (1 - 2.0**-50) / length
        return np.asarray(np.floor(np.minimum(factor, self.max_weight)), dtype=np.int64)

    def _of_pairs(self, codes: Mapping[str, NDArray[Any]], size: int) -> Ints:
        """Return the squared length of the products of the pairs, for each row of a chunk."""
        others: dict[str, Ints] = {}
        for a, b in self.pairs or ():
            others[a] = others.get(a, np.zeros(size, dtype=np.int64)) + self.squares[b][codes[b]]
        products = np.zeros(size, dtype=np.int64)
        for a, total in others.items():
            products += self.squares[a][codes[a]] * total
        return products

    def recoded(self, codes: Mapping[str, Ints]) -> RowWeight:
        """Return the function of row weights for rows that are coded in another way.

        Parameters
        ----------
        codes : mapping of str to ndarray of int64, each of shape (n_other_codes,)
            For each attribute, the present code of each code of the other coding.

        Returns
        -------
        RowWeight
            A function that gives each row an equal weight under the other coding. Public.

        Raises
        ------
        KeyError
            If ``codes`` lacks an attribute.
        """
        squares = {name: lengths[codes[name]] for name, lengths in self.squares.items()}
        extra = {name: lengths[codes[name]] for name, lengths in self.extra_squares.items()}
        return replace(self, squares=squares, extra_squares=extra)


def weighted_source(source: MarginalSource) -> Any:
    """Return a source of private rows if it can add up the weights of rows.

    Parameters
    ----------
    source : MarginalSource
        The source of the private rows. Nothing is read.

    Returns
    -------
    MarginalSource
        The source itself, which has the method ``weighted_counts``.

    Raises
    ------
    ParameterError
        If the source has no such method.

    Examples
    --------
    >>> from missdp.sources import weighted_source
    >>> from missdp.datasets import yrbss
    >>> from missdp.sources import MemorySource
    >>> source = MemorySource(yrbss().table())
    >>> weighted_source(source) is source
    True
    """
    if not has_method(source, "weighted_counts"):
        raise ParameterError(
            "this release counts rows by weights, and the source has no method weighted_counts; "
            "read the rows with Table.read, or use another synthesizer"
        )
    return source
