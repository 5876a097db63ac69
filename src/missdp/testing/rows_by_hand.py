"""What a source must come to: rows, counts and sums of weights, one row after the other."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.schema import Schema
from missdp.sources import Clique, Rows
from missdp.sources.code_store import streams_codes
from missdp.sources.row_weights import RowWeight
from missdp.table import Table
from missdp.testing.findings import expect

__all__ = [
    "alike",
    "all_cliques",
    "counted_by_hand",
    "made_up_weight",
    "occurrences",
    "rows_alike",
    "weighed_by_hand",
    "weighs",
]


def occurrences(
    table: Table, names: Sequence[str], observed_on: Sequence[str] = ()
) -> collections.Counter[tuple[int, ...]]:
    """Return how often each tuple of codes occurs in rows without a hole in some attributes.

    Examples
    --------
    >>> from missdp import Categorical, Schema
    >>> schema = Schema((Categorical(name="ja", levels=(False, True), nullable=True),))
    >>> table = Table.from_codes(schema, {"ja": [0, 1, 2, 1]})
    >>> [sorted(occurrences(table, ["ja"], on).items()) for on in ([], ["ja"])]
    [[((0,), 1), ((1,), 2), ((2,), 1)], [((0,), 1), ((1,), 2)]]
    """
    kept = _kept(table, observed_on)
    columns = [table.codes(name).tolist() for name in names]
    cells = zip(*columns, strict=True) if columns else itertools.repeat((), len(table))
    return collections.Counter(itertools.compress(cells, kept))


def counted_by_hand(
    table: Table, clique: Clique, rows: Rows, *, observed_on: Sequence[str] = ()
) -> NDArray[np.int64]:
    """Return the counts of a clique, row by row, as the documentation of sources says.

    Examples
    --------
    >>> from missdp import Categorical, Schema
    >>> schema = Schema((Categorical(name="ja", levels=(False, True), nullable=True),))
    >>> table = Table.from_codes(schema, {"ja": [0, 1, 2, 1]})
    >>> [counted_by_hand(table, ("ja",), rows).tolist() for rows in ("observed", "extended")]
    [[1, 2], [1, 2, 1]]
    """
    schema = table.schema
    shape = schema.shape(clique) if rows == "observed" else schema.extended_shape(clique)
    counts = np.zeros(shape, dtype=np.int64)
    for cell, times in occurrences(table, clique, observed_on).items():
        valued = all(code < schema[name].size for code, name in zip(cell, clique, strict=True))
        if valued or rows == "extended":
            counts[cell] = times
    return counts


def weighed_by_hand(
    table: Table, clique: Clique, weight: RowWeight, observed_on: Sequence[str] = ()
) -> NDArray[np.int64]:
    """Return the sums of the weights of rows without a hole in some attributes."""
    kept = np.array(_kept(table, observed_on), dtype=bool)
    each = weight({name: table.codes(name)[kept] for name in weight.names})
    wanted = np.zeros(table.schema.extended_shape(clique), dtype=np.int64)
    cells = tuple(table.codes(name)[kept].astype(np.int64) for name in clique)
    np.add.at(wanted, cells, each if clique else each.sum())
    return wanted


def _kept(table: Table, observed_on: Sequence[str]) -> list[bool]:
    """Whether each row has no hole; what is not applicable has no value, and is no hole."""
    kept = [True] * len(table)
    for name in observed_on:
        attribute = table.schema[name]
        hole = attribute.missing_code if attribute.nullable else attribute.extended_size
        codes = table.codes(name).tolist()
        kept = [k and c < hole for k, c in zip(kept, codes, strict=True)]
    return kept


def alike(found: Any, wanted: NDArray[np.int64], when: str) -> None:
    """Expect counts to be those wanted, in type and shape, too."""
    found = np.asarray(found)
    expect(found.dtype == np.int64, f"counts must be int64, not {found.dtype} ({when})")
    expect(found.shape == wanted.shape, f"shape {found.shape}, expected {wanted.shape} ({when})")
    expect(np.array_equal(found, wanted), f"counts are wrong ({when})")


def weighs(source: object) -> bool:
    """Whether a source counts rows by weights."""
    return callable(getattr(type(source), "weighted_counts", None))


def rows_alike(source: Any, table: Table, when: str, observed_on: Sequence[str] = ()) -> None:
    """Compare the rows of all blocks of codes, if there are any, with those by hand."""
    if not streams_codes(source):
        return
    names, found = table.schema.names, collections.Counter[tuple[int, ...]]()
    for block in source.code_blocks():
        expect(set(names) <= set(block), f"a block lacks codes of an attribute ({when})")
        columns = [np.asarray(block[name]) for name in names]
        expect(len({c.shape for c in columns}) == 1, f"columns of a block are not as long ({when})")
        expect(all(c.dtype.kind in "iu" for c in columns), f"codes must be whole numbers ({when})")
        found.update(zip(*(column.tolist() for column in columns), strict=True))
    wanted = occurrences(table, names, observed_on)
    expect(found == wanted, f"rows of code_blocks are wrong: yield each once ({when})")


def made_up_weight(schema: Schema, seed: int) -> RowWeight:
    """Return weights of rows that differ with every cell."""
    rng = np.random.default_rng(seed)
    squares = {a.name: rng.integers(0, 1000, a.extended_size) for a in schema}
    return RowWeight(squares, alone=3, bound=20_000, most=1000)


def all_cliques(schema: Schema) -> list[Clique]:
    """Return all cliques of up to three attributes, and those of several turned around."""
    sizes = range(min(3, len(schema)) + 1)
    found: list[Clique] = [c for k in sizes for c in itertools.combinations(schema.names, k)]
    return found + [tuple(reversed(clique)) for clique in found if len(clique) > 1]
