"""Sums over rows of the products of every two attributes: the query and its proof.

A row's vector is clipped as a whole by one factor, which depends on the row's codes only. Blocks
and factors are multiples of a grid's step. So vectors are whole numbers in steps of the grid, their
norms are known exactly, and the noise is discrete.

Each attribute ``a`` has, for each of its codes, a block ``x_a`` of numbers. It may also have extra
numbers ``y_a`` that enter no product, such as the square of a number. All are whole numbers of
steps.
The vector of a row consists of ``α x_a`` and ``α y_a`` for every ``a``, and of the outer product of
``x_a`` and ``x_b`` for every ``a < b``. With ``s_a = ‖x_a‖²`` and ``r_a = ‖y_a‖²`` its squared
length is, since an outer product is as long as the product of the lengths,

    α² Σ_a (s_a + r_a) + Σ_{a<b} s_a s_b = α² (S + R) + (S² − Q) / 2,

where ``S = Σ s_a``, ``Q = Σ s_a²`` and ``R = Σ r_a``. If a query has only some pairs, the vector
has only their outer products, and the last term is the sum of ``s_a s_b`` over these pairs. Either
sum is a function of one number per code of an attribute, which is known exactly for all blocks.
Missing is a code like any other and has a block. A row's vector is multiplied by the largest whole
number of steps, at most 1, that keeps its norm within the clip norm. So one row more or less
changes the sum by at most the clip norm in L2, for all codes and all patterns of missing cells. The
length of a block is not bounded. All sums together are one Gaussian release of this sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from itertools import combinations
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import pydantic.dataclasses
from pydantic import Field, PlainValidator

from missdp.accounting import Cost
from missdp.errors import ParameterError, replacing
from missdp.inference.product_sums import Products, products_of
from missdp.serialization import Record
from missdp.session.counting import Clique
from missdp.session.mechanisms import Noise
from missdp.session.row_weights import RowWeight, weighted_source
from missdp.session.session import Release
from missdp.types import Floats, Ints

if TYPE_CHECKING:
    from missdp.session.counted_rows import CountedRows

_FINEST, _COARSEST = 10, 4  # bits of the grid of blocks and of factors
_WEIGHTED_BITS = 3  # bits that the grid of blocks is coarser if rows have weights
_LARGEST = 2.0**38  # largest scale of the noise, in steps of the grid
_LONGEST = 2**30  # squared length of all blocks, in steps; its square fits into 64 bits


def _blocks(tables: Mapping[str, Floats]) -> Mapping[str, Floats]:
    """Return a read-only copy of the tables."""
    wrong = ParameterError("each block must be a table of numbers from -4 to 4")
    with replacing(AttributeError, TypeError, ValueError, by=wrong):
        copies = {str(name): np.array(table, float) for name, table in tables.items()}
    for block in copies.values():
        block.flags.writeable = False
        if block.ndim != 2 or not (np.abs(block) <= 4).all():
            raise wrong
    return MappingProxyType(copies)


Blocks = Annotated[Mapping[str, Floats], PlainValidator(_blocks)]


@pydantic.dataclasses.dataclass(frozen=True, eq=False)
class RowProducts(Record):
    """Query for sums over rows of numbers of their attributes, and of all products of two numbers.

    It measures all pairs of attributes in one release. Each code (level or bin) of an attribute has
    a block of numbers, such as an indicator less its mean. The vector of a row has its blocks,
    times ``first_order_weight``, and all products of two numbers from different blocks. The vector
    is clipped as a whole to ``clip`` in L2 norm and rounded to a grid. The vectors of all rows are
    added up, and every sum gets discrete Gaussian noise. So the cost is not in pure epsilon.
    "Missing" is the last code of an attribute. All parameters are public or released.
    `Session.measure` takes it with a `Cost`, and its value is a `Products`.

    Parameters
    ----------
    blocks : mapping of str to array of float, shape (codes, width)
        For each attribute and each of its codes a block of numbers between -4 and 4, such as the
        indicator less its mean. They are rounded to a grid.
    clip : float
        L2 norm to which the vector of each row is clipped, from 2**-10 to 2**20.
    first_order_weight : float, default 1.0
        Factor of the blocks in the vector, relative to their products, in (0, 16].
    extra_features : mapping of str to array of float, shape (codes, width), optional
        For some attributes, extra numbers in the vector, with the factor of the blocks and without
        products. They lie between -4 and 4.
    pairs : tuple of (str, str), optional
        The pairs of attributes whose products are summed. By default all pairs.

    Raises
    ------
    ParameterError
        If a number is out of range, or a block is not a table of numbers.

    Notes
    -----
    One row changes the vector of all sums by at most the clip norm in L2, under add-remove
    adjacency. A session charges the cost before it reads rows. The released sums are noisy.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.session import RowProducts
    >>> blocks = {"sex": np.eye(2), "age": np.array([[-0.5], [0.0], [0.5]])}
    >>> RowProducts(blocks, clip=1.0).first_order_weight
    1.0
    """

    max_numbers: ClassVar[int] = 60_000_000
    """Largest number of sums that are released together."""

    blocks: Blocks
    clip: Annotated[float, Field(ge=2.0**-10, le=2.0**20)]
    first_order_weight: Annotated[float, Field(gt=0, le=16)] = 1.0
    extra_features: Blocks = field(default_factory=lambda: MappingProxyType({}))
    pairs: tuple[tuple[str, str], ...] | None = None

    def __reduce__(self) -> tuple[type[RowProducts], tuple[Any, ...]]:
        blocks, extra = dict(self.blocks), dict(self.extra_features)
        return RowProducts, (blocks, self.clip, self.first_order_weight, extra, self.pairs)

    def plan(self, rows: CountedRows, mechanism: Any) -> Release:
        """Return the plan of the release of the noisy sums: the event to charge, and the noise.

        Public facts alone decide. Nothing is read or charged.

        Parameters
        ----------
        rows : CountedRows
            The private rows, of which only public facts are used.
        mechanism : Cost
            The cost of the release, in zCDP or Gaussian DP.

        Returns
        -------
        Release
            The accounting event, the noise, and the exact computation, which a session calls.

        Raises
        ------
        ParameterError
            If ``mechanism`` is not a `Cost`, or is in pure epsilon. If the blocks do not fit
            the codes of the rows, or there are too many sums. If the source of the rows cannot
            add up row weights.
        """
        if not isinstance(mechanism, Cost):
            raise ParameterError("sums of products are released for a cost")
        weighted_source(rows.raw)
        sums = self.on_grid(rows.codes_of_rows, mechanism, steps=rows.facts.steps)
        event = sums.noise.event(
            float(sums.bound),
            required=rows.required(()) or None,
            label="products of pairs of attributes",
        )
        return Release(event, sums.noise, partial(sums.exact, rows), read=sums.read)

    def on_grid(self, codes: Mapping[str, int], cost: Cost, *, steps: int = 1) -> _ProductSums:
        """Return an object that computes the query's sums of products in whole steps of a grid.

        The discrete Gaussian noise of the sums has the scale of the cost, and is drawn later.

        Parameters
        ----------
        codes : mapping of str to int
            Number of possible codes of each attribute, "missing" included.
        cost : Cost
            Cost of the release, in zCDP or Gaussian DP.
        steps : int, default 1
            Smallest weight of a row is 1 / ``steps``, with ``steps`` at least 1. Rows without
            survey weights have one step.

        Returns
        -------
        object
            Sums with the method ``exact``, whose result is private, and ``read``, which returns
            a `Products`. Public until rows are counted.

        Raises
        ------
        ParameterError
            If the cost is in pure epsilon, the blocks do not fit the codes, or there are too many
            numbers.
        """
        if cost.privacy_measure == "pure":
            raise ParameterError("the noise of products is Gaussian, which is never pure DP")
        sizes = {name: len(block) for name, block in self.blocks.items()}
        if sizes != dict(codes) or not sizes.items() >= {
            (name, len(table)) for name, table in self.extra_features.items()
        }:
            raise ParameterError("blocks must have a row for each code of each attribute")
        pairs = self._ordered_pairs(tuple(codes))
        width = {name: np.shape(self.blocks[name])[1] for name in codes}
        numbers = sum(width.values()) + sum(width[a] * width[b] for a, b in pairs)
        numbers += sum(table.shape[1] for table in self.extra_features.values())
        if numbers > self.max_numbers:
            raise ParameterError(
                f"the measured pairs of attributes have {numbers:,} cells, more than the "
                f"{self.max_numbers:,} that are released together; use fewer attributes, bins or "
                "levels, or the synthesizer 'mst'"
            )
        for bits in range(_FINEST, _COARSEST - 1, -1):
            blocks = bits if steps == 1 else max(_COARSEST, bits - _WEIGHTED_BITS)
            sums = _ProductSums(self, tuple(codes), pairs, blocks, 3 * bits - 2 * blocks, cost)
            if sums.fits:
                return sums
        raise ParameterError(
            "the blocks are too long, or the noise is too large, for a grid of whole numbers"
        )

    def _ordered_pairs(self, names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        """Return the pairs whose products are summed, each once, the earlier attribute first."""
        every = combinations(names, 2)
        if self.pairs is None:
            return tuple(every)
        chosen = {frozenset(pair) for pair in self.pairs}
        ordered = tuple(pair for pair in every if frozenset(pair) in chosen)
        if len(ordered) != len(self.pairs):
            raise ParameterError("pairs must be different pairs of two attributes with blocks")
        return ordered


@dataclass(frozen=True, eq=False)
class _ProductSums:
    """Sums of products in whole numbers: how rows enter them, their size, and their noise."""

    plan: RowProducts
    names: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    bits: int
    factor_bits: int
    cost: Cost

    @property
    def fits(self) -> bool:
        """Whether all sums fit into 64 bits, and the noise can be drawn. Public."""
        longest = sum(
            int(lengths.max())
            for part in (self._blocks, self._extra_features)
            for lengths in _squares(part).values()
        )
        unit = Noise.from_cost(self.cost).scale * self.plan.clip
        return longest <= _LONGEST and unit * self._unit <= _LARGEST

    @property
    def bound(self) -> int:
        """L2 norm of the longest vector of whole numbers that a row can have."""
        return int(Fraction(self.plan.clip) * self._unit)

    @property
    def noise(self) -> Noise:
        """The noise of every number."""
        return Noise.from_cost(self.cost, sensitivity=float(self.bound))

    def exact(self, rows: CountedRows) -> Ints:
        """Return the sums. Private."""
        cliques: list[Clique] = [*((name,) for name in self.names), *self.pairs]
        return self.summed(rows.counts.weighted(cliques, self.weight))

    @cached_property
    def weight(self) -> RowWeight:
        """The factor that clips a row's vector, in steps of the grid."""
        return RowWeight(
            _squares(self._blocks),
            first_order_weight=self._first_order_weight,
            bound=self.bound,
            max_weight=1 << self.factor_bits,
            extra_squares=_squares(self._extra_features),
            pairs=None if self.plan.pairs is None else self.pairs,
        )

    def summed(self, counts: Mapping[Clique, Ints]) -> Ints:
        """Return the sums, from the sums of the weights of the rows in every cell. Private."""
        blocks = self._blocks
        sizes = {name: len(block) for name, block in blocks.items()}

        def table(*clique: str) -> Ints:
            inner = tuple(slice(sizes[v]) for v in clique)
            return np.asarray(counts[clique][inner])

        factor = np.full((1, 1), self._first_order_weight, dtype=np.int64)
        parts = [
            _sums(factor, table(name)[np.newaxis], block)
            for part in (blocks, self._extra_features)
            for name, block in part.items()
        ]
        for a, b in self.pairs:
            parts.append(_sums(blocks[a], table(a, b), blocks[b]))
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    def read(self, cells: Ints) -> Products:
        """Return noisy sums in units of rows."""
        return products_of(
            cells,
            self._blocks,
            self._extra_features,
            self.pairs,
            first_order_weight=self._first_order_weight,
            grid=2.0**self.bits,
            unit=float(self._unit),
            scale=self.noise.scale,
        )

    @property
    def _unit(self) -> int:
        """Unit of a product of two blocks and a factor, in steps."""
        return 1 << (2 * self.bits + self.factor_bits)

    @property
    def _first_order_weight(self) -> int:
        return max(1, round(self.plan.first_order_weight * (1 << self.bits)))

    @cached_property
    def _blocks(self) -> dict[str, Ints]:
        """For each attribute the block of each code, in steps of the grid."""
        return {name: self._on_grid(self.plan.blocks[name]) for name in self.names}

    @cached_property
    def _extra_features(self) -> dict[str, Ints]:
        """For each attribute the extra numbers of each code, in steps of the grid."""
        return {name: self._on_grid(table) for name, table in self.plan.extra_features.items()}

    def _on_grid(self, table: Floats) -> Ints:
        return np.rint(table * (1 << self.bits)).astype(np.int64)


def _squares(blocks: Mapping[str, Ints]) -> dict[str, Ints]:
    return {name: (block * block).sum(axis=1) for name, block in blocks.items()}


def _sums(first: Ints, table: Ints, second: Ints) -> Ints:
    """Return ``first.T @ table @ second``, clipped at 2**61 in absolute value.

    Numbers that do not fit into 64 bits are computed in two parts and clipped. The cells of tables
    are clipped beyond any possible number of rows. Clipping only reduces the influence of a row.
    """
    longest = (max(1, int(np.abs(side).max(initial=0))) for side in (first, second))
    largest = math.prod(longest) * table.size
    low = 60 - largest.bit_length()  # bits of this part, whose sums are then below 2**60
    table = np.minimum(table, min(2**62, (2**60 // largest) << low))
    high = table >> low
    sums = first.T @ (table - (high << low)) @ second
    if high.any():
        top = 1 << (62 - low)  # beyond it, the low part cannot bring the number back below 2**61
        sums += np.clip(first.T @ high @ second, -top, top) << low
    return np.asarray(np.clip(sums, -(2**61), 2**61).ravel())
