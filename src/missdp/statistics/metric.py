"""Distances between rows: integer tables for each matching attribute, all public.

The distance is a sum of per-attribute terms (Gower: range-normalised absolute differences for
ordinal and numeric attributes, mismatch for categorical ones; Euclidean: their squares, which give
the same order as the root). Scales are public: they come from the schema. Terms are rounded to
whole multiples of 2**-16 so that sums are exact and ties are ties whatever the order of summation.

A cell without a value is a level of its own, at the largest distance from every other: one level
for what is missing, one for what is not applicable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError, UnprovenError
from missdp.mechanisms.questions import Rows
from missdp.schema import AnyAttribute, Categorical, Numeric, Schema

__all__ = ["FAR", "MAX_SITES", "Metric", "MetricName", "build_metric", "state"]


MetricName = Literal["gower", "euclidean"]
UNIT = 1 << 16
# A mismatch in a grouping attribute: beyond any sum of matching terms, yet far from overflow.
FAR = 1 << 26
MAX_SITES = 1 << 20
_MAX_MATCH, _MAX_GROUP = 128, 8
_MAX_KEYS = 1 << 62


@dataclass(frozen=True, eq=False)
class Metric:
    """Integer distance tables of the matching attributes, all public.

    Parameters
    ----------
    names : tuple of str
        Grouping attributes, then matching ones.
    tables : tuple of int32 arrays, each of shape (levels, levels)
        Distance from a code of a recipient to one of a donor; what is missing, and what is not
        applicable, is one more level each. Those of ``together`` come first, then ``names``.
    site_tables : tuple of int32 arrays, each of shape (levels, blocks)
        Smallest distance from a code to a block of the public partition (a block is one level
        unless the partition is coarser).
    together : tuple of str
        Attributes that a donor must have if they apply to the recipient, and must not have if they
        do not: see `state`.
    """

    names: tuple[str, ...]
    tables: tuple[NDArray[np.int32], ...]
    site_tables: tuple[NDArray[np.int32], ...]
    together: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Levels of every attribute."""
        return tuple(len(table) for table in self.tables)

    @property
    def site_shape(self) -> tuple[int, ...]:
        """Blocks of every attribute."""
        return tuple(table.shape[1] for table in self.site_tables)

    @property
    def sites(self) -> int:
        """Number of sites where a hypothetical donor can be."""
        return int(np.prod(self.site_shape, dtype=np.int64))

    def distances(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int32]:
        """Distances between cells, shapes (a, m) and (b, m) to (a, b)."""
        total = np.zeros((len(left), len(right)), dtype=np.int32)
        for column, table in enumerate(self.tables):
            total += np.take(table[left[:, column]], right[:, column], axis=1)
        return total


def build_metric(
    schema: Schema,
    *,
    match_on: Mapping[str, float],
    group: tuple[str, ...],
    metric: MetricName,
    partition: Mapping[str, int],
    together: tuple[str, ...] = (),
) -> Metric:
    """Build the tables from public facts.

    Parameters
    ----------
    schema : Schema
        Domain of the attributes.
    match_on : mapping of str to float
        Matching attributes and their weights, finite and above 0.
    group : tuple of str
        Attributes on which donor and recipient must agree exactly.
    metric : {"gower", "euclidean"}
        How the terms add up.
    partition : mapping of str to int
        Number of blocks for attributes to be coarsened in the sensitivity bound.
    together : tuple of str
        Attributes filled together of which some may not be applicable.

    Raises
    ------
    ParameterError
        If a weight or a block count is out of range.
    UnprovenError
        If the public domain has too many sites for the exact bound: give a coarser partition.

    Examples
    --------
    >>> from missdp import Ordinal, Schema
    >>> schema = Schema((Ordinal(name="grade", levels=("low", "mid", "high")),))
    >>> build_metric(
    ...     schema, match_on={"grade": 1.0}, group=(), metric="gower", partition={}
    ... ).tables[0][0].tolist()
    [0, 32768, 65536]
    """
    if metric not in get_args(MetricName):
        raise ParameterError(f"metric must be 'gower' or 'euclidean', not {metric!r}")
    if len(match_on) > _MAX_MATCH or len(group) > _MAX_GROUP:
        raise ParameterError(f"at most {_MAX_MATCH} matching and {_MAX_GROUP} grouping attributes")
    if len(together) > _MAX_GROUP:
        raise ParameterError(f"impute at most {_MAX_GROUP} attributes that may not be applicable")
    for weight in match_on.values():
        if isinstance(weight, bool) or not isinstance(weight, Real) or not 0 < weight < np.inf:
            raise ParameterError("matching weights must be finite and above 0")
    names = (*group, *match_on)
    if unknown := set(partition) - set(names):
        raise ParameterError(f"partition names attributes not matched on: {sorted(unknown)}")
    heaviest = max(match_on.values(), default=1.0)
    tables = [_far_table(schema[name]) for name in group]
    tables += [_table(schema[n], w / heaviest, metric) for n, w in match_on.items()]
    blocks = [_blocks(schema[n], t, partition.get(n)) for n, t in zip(names, tables, strict=True)]
    states = [_STATES] * len(together)
    tables, blocks = [*states, *tables], [*(s[:, :_OPEN] for s in states), *blocks]
    for table in (*tables, *blocks):
        table.flags.writeable = False
    built = Metric(names, tuple(tables), tuple(blocks), together)
    if np.prod(np.array(built.shape, dtype=object)) >= _MAX_KEYS:
        raise UnprovenError("the domain of the matching attributes is too large; match on fewer")
    if np.prod(np.array(built.site_shape, dtype=object)) > MAX_SITES:
        raise UnprovenError(
            f"the public domain of the matching attributes has more than {MAX_SITES} cells, too "
            "many for the exact sensitivity bound; match on fewer attributes, use coarser bins, "
            "or give partition={attribute: number of blocks}"
        )
    return built


_ABSENT, _OPEN = 1, 2
# Donees of whom it is open whether an attribute applies take what else they lack from anybody.
_STATES = np.array([[0, FAR, FAR], [FAR, 0, FAR], [0, 0, FAR]], dtype=np.int32)


def state(rows: Rows, name: str) -> NDArray[np.int64]:
    """Tell of each row whether an attribute applies (0), does not (1), or may (2)."""
    surely, maybe = rows.applies(name)
    return np.where(surely, 0, np.where(maybe, _OPEN, _ABSENT))


def _far_table(attribute: AnyAttribute) -> NDArray[np.int32]:
    size = attribute.extended_size
    return np.where(np.eye(size, dtype=bool), 0, FAR).astype(np.int32)


def _table(attribute: AnyAttribute, weight: float, metric: MetricName) -> NDArray[np.int32]:
    size = attribute.extended_size
    term = np.ones((size, size))
    if not isinstance(attribute, Categorical):
        at = _positions(attribute)
        term[: attribute.size, : attribute.size] = np.abs(at[:, None] - at[None, :])
    if metric == "euclidean":
        term = term**2
    # Different levels stay apart even when their term rounds to nothing.
    table = np.maximum(np.rint(term * weight * UNIT), 1)
    return np.where(np.eye(size, dtype=bool), 0, table).astype(np.int32)


def _positions(attribute: AnyAttribute) -> NDArray[np.float64]:
    """Place ordered levels in [0, 1]: by rank, or by the middle of the bin."""
    ranks = np.arange(attribute.size, dtype=np.float64)
    at = attribute.centres if isinstance(attribute, Numeric) else ranks
    span = at[-1] - at[0]
    return (at - at[0]) / span if span > 0 else at * 0.0


def _blocks(
    attribute: AnyAttribute, table: NDArray[np.int32], blocks: int | None
) -> NDArray[np.int32]:
    """Smallest distance from each code to each block of consecutive codes."""
    if blocks is None:
        return table
    if not isinstance(blocks, int) or not 1 <= blocks <= attribute.size:
        raise ParameterError(f"partition of {attribute.name!r} must be in 1..{attribute.size}")
    parts = np.array_split(np.arange(attribute.size), blocks)
    parts += [np.array([code]) for code in range(attribute.size, attribute.extended_size)]
    return np.stack([table[:, part].min(axis=1) for part in parts], axis=1)
