"""Sums over rows of the products of every two attributes: what is public about such a release.

A row's vector is clipped as a whole by one factor, which depends on its own codes only. Blocks
and factors are multiples of a grid's step, so vectors are whole numbers in steps of the grid, their
norms are known exactly, and the noise is discrete.

Each attribute ``a`` has, for each of its codes, a block ``x_a`` of numbers and perhaps further
numbers ``y_a`` that enter no product: the square of a number, say. All are whole numbers of steps.
The vector of a row consists of ``α x_a`` and ``α y_a`` for every ``a``, and of the outer product of
``x_a`` and ``x_b`` for every ``a < b``. With ``s_a = ‖x_a‖²`` and ``r_a = ‖y_a‖²`` its squared
length is, since an outer product is as long as the product of the lengths,

    α² Σ_a (s_a + r_a) + Σ_{a<b} s_a s_b = α² (S + R) + (S² − Q) / 2,

where ``S = Σ s_a``, ``Q = Σ s_a²`` and ``R = Σ r_a``: a function of one number per code of an
attribute, known exactly, whatever the blocks hold. Missing is a code like any other, with a block
of its own. A row's vector is multiplied by the largest whole number of steps, at most 1, that keeps
it no longer than the clip norm. So one row more or less moves the sum by at most the clip norm in
L2, whatever its codes and whichever of its cells are missing; no length of a block is assumed. All
sums together are one Gaussian release of that sensitivity.
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

_FINEST, _COARSEST = 10, 4  # bits of blocks, and of factors
_FINER = 3  # by so many bits blocks are coarser where rows count different amounts
_LARGEST = 2.0**38  # noise, in steps of the grid
_LONGEST = 2**30  # squared lengths of all blocks, in steps, so that their square fits into 64 bits


def _blocks(tables: Mapping[str, Floats]) -> Mapping[str, Floats]:
    """Return a copy of the tables, which nobody changes from now on."""
    wrong = ParameterError("each block must be a table of numbers from -4 to 4")
    with replacing(AttributeError, TypeError, ValueError, by=wrong):
        held = {str(name): np.array(table, float) for name, table in tables.items()}
    for block in held.values():
        block.flags.writeable = False
        if block.ndim != 2 or not (np.abs(block) <= 4).all():
            raise wrong
    return MappingProxyType(held)


Blocks = Annotated[Mapping[str, Floats], PlainValidator(_blocks)]


@pydantic.dataclasses.dataclass(frozen=True, eq=False)
class RowProducts(Record):
    """Sums over rows of all products of two attributes' blocks of numbers: a query for a cost.

    A row's vector holds its blocks, times ``first_order_weight``, and all products of two numbers
    from different blocks. The vector is clipped as a whole to ``clip`` in L2 norm and rounded to a
    grid. The vectors of all rows are added up, and every number gets discrete Gaussian noise. So
    the cost is not in pure epsilon. "Missing" is the last code of an attribute. All parameters are
    public or released.

    Parameters
    ----------
    blocks : mapping of str to array of float, shape (codes, width)
        For each attribute the block of numbers that a row has for each of its codes, between -4
        and 4: its indicator less its mean, say. They are rounded to a grid.
    clip : float
        L2 norm to which the vector of each row is clipped; from 2**-10 to 2**20.
    first_order_weight : float, default 1.0
        Factor of the blocks themselves, beside their products, in that vector; in (0, 16].
    extra_features : mapping of str to array of float, shape (codes, width), optional
        For some attributes, numbers that stand in that vector beside the block, with the same
        factor, and in no product; between -4 and 4.
    """

    max_numbers: ClassVar[int] = 60_000_000
    """Most numbers that are released together."""

    blocks: Blocks
    clip: Annotated[float, Field(ge=2.0**-10, le=2.0**20)]
    first_order_weight: Annotated[float, Field(gt=0, le=16)] = 1.0
    extra_features: Blocks = field(default_factory=lambda: MappingProxyType({}))

    def __reduce__(self) -> tuple[type[RowProducts], tuple[Any, ...]]:
        blocks, extra = dict(self.blocks), dict(self.extra_features)
        return RowProducts, (blocks, self.clip, self.first_order_weight, extra)

    def plan(self, rows: CountedRows, mechanism: Any) -> Release:
        """Return how the sums are released for a cost; refuse them, by public facts alone."""
        if not isinstance(mechanism, Cost):
            raise ParameterError("sums of products are released for a cost")
        weighted_source(rows.raw)
        sums = self.on_grid(rows.codes_of_rows, mechanism, steps=rows.facts.steps)
        event = sums.noise.event(
            float(sums.bound),
            required=rows.required(()) or None,
            label="products of all pairs of attributes",
        )
        return Release(event, sums.noise, partial(sums.exact, rows), read=sums.read)

    def on_grid(self, codes: Mapping[str, int], cost: Cost, *, steps: int = 1) -> _ProductSums:
        """Return what is summed up, in whole numbers, and its noise.

        ``codes`` is how many each attribute may have in a row. If a row has several ``steps``, as
        rows count different amounts, factors are on a finer grid than blocks: what a row counts is
        rounded down to it.
        """
        if cost.privacy_measure == "pure":
            raise ParameterError("the noise of products is Gaussian, which is never pure DP")
        known = {name: len(block) for name, block in self.blocks.items()}
        if known != dict(codes) or not known.items() >= {
            (name, len(table)) for name, table in self.extra_features.items()
        }:
            raise ParameterError("blocks must have a row for each code of each attribute")
        widths = [np.shape(self.blocks[name])[1] for name in codes]
        numbers = sum(widths) + sum(a * b for a, b in combinations(widths, 2))
        numbers += sum(table.shape[1] for table in self.extra_features.values())
        if numbers > self.max_numbers:
            raise ParameterError(
                f"all pairs of attributes have {numbers:,} cells, more than the "
                f"{self.max_numbers:,} that are released together; use fewer attributes, bins or "
                "levels, or the synthesizer 'mst'"
            )
        for bits in range(_FINEST, _COARSEST - 1, -1):
            blocks = bits if steps == 1 else max(_COARSEST, bits - _FINER)
            sums = _ProductSums(self, tuple(codes), blocks, 3 * bits - 2 * blocks, cost)
            if sums.fits:
                return sums
        raise ParameterError(
            "the blocks are too long, or the noise is too large, for a grid of whole numbers"
        )


@dataclass(frozen=True, eq=False)
class _ProductSums:
    """Sums of products in whole numbers: how rows enter them, their size, and their noise."""

    plan: RowProducts
    names: tuple[str, ...]
    bits: int
    factor_bits: int
    cost: Cost

    @property
    def fits(self) -> bool:
        """Whether all that is computed fits into 64 bits, and the noise can be drawn; public."""
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
        """Noise of every number."""
        return Noise.from_cost(self.cost, sensitivity=float(self.bound))

    def exact(self, rows: CountedRows) -> Ints:
        """Return the sums; private."""
        cliques: list[Clique] = [*((name,) for name in self.names), *combinations(self.names, 2)]
        return self.summed(rows.counts.weighted(cliques, self.weight))

    @cached_property
    def weight(self) -> RowWeight:
        """The factor of a row's vector, in steps of the grid."""
        return RowWeight(
            _squares(self._blocks),
            first_order_weight=self._first_order_weight,
            bound=self.bound,
            max_weight=1 << self.factor_bits,
            extra_squares=_squares(self._extra_features),
        )

    def summed(self, counts: Mapping[Clique, Ints]) -> Ints:
        """Return the sums, given the sums of the weights of the rows in every cell; private."""
        blocks = self._blocks
        known = {name: len(block) for name, block in blocks.items()}  # of complete rows, no hole

        def table(*clique: str) -> Ints:
            inner = tuple(slice(known[v]) for v in clique)
            return np.asarray(counts[clique][inner])

        one = np.ones((1, 1), dtype=np.int64)
        parts = [
            _sums(self._first_order_weight * one, table(name)[np.newaxis], block)
            for part in (blocks, self._extra_features)
            for name, block in part.items()
        ]
        for a, b in combinations(blocks, 2):
            parts.append(_sums(blocks[a], table(a, b), blocks[b]))
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    def read(self, cells: Ints) -> Products:
        """Return noisy sums in units of rows."""
        return products_of(
            cells,
            self._blocks,
            self._extra_features,
            alone=self._first_order_weight,
            grid=2.0**self.bits,
            unit=float(self._unit),
            scale=self.noise.scale,
        )

    @property
    def _unit(self) -> int:
        """Of a product of two blocks and a factor, in steps."""
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
        """The same of the numbers that enter no product."""
        return {name: self._on_grid(table) for name, table in self.plan.extra_features.items()}

    def _on_grid(self, table: Floats) -> Ints:
        return np.rint(table * (1 << self.bits)).astype(np.int64)


def _squares(blocks: Mapping[str, Ints]) -> dict[str, Ints]:
    return {name: (block * block).sum(axis=1) for name, block in blocks.items()}


def _sums(left: Ints, table: Ints, right: Ints) -> Ints:
    """Return ``left.T @ table @ right``, no number beyond 2**61 either way.

    Numbers that do not fit into 64 bits are worked out in two parts. Cutting them off there, and
    cells of tables with more rows than there are, only shortens what a row adds.
    """
    longest = (max(1, int(np.abs(side).max(initial=0))) for side in (left, right))
    largest = math.prod(longest) * table.size
    low = 60 - largest.bit_length()  # bits, so that the sums of this part are below 2**60
    table = np.minimum(table, min(2**62, (2**60 // largest) << low))
    high = table >> low
    found = left.T @ (table - (high << low)) @ right
    if high.any():
        top = 1 << (62 - low)  # beyond it, the other part cannot bring the number back below 2**61
        found += np.clip(left.T @ high @ right, -top, top) << low
    return np.asarray(np.clip(found, -(2**61), 2**61).ravel())
