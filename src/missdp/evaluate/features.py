"""Features and binary targets of a table; their layout is fixed by the schema."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from missdp.schema import AnyAttribute, Categorical
from missdp.table import Table

__all__ = ["balanced_split", "features"]

_MAX_ONE_HOT = 64


def features(table: Table, names: Iterable[str]) -> NDArray[np.float64]:
    """Encode attributes as numbers, shape ``(n, f)``.

    Unordered levels become one indicator each (up to 64 of them); levels with an order, bins and
    very long lists of levels become one number in [-1, 1]. Missing cells are 0 and have one more
    indicator.
    """
    return np.hstack([_block(table.schema[name], table.codes(name)) for name in names])


def _block(attribute: AnyAttribute, codes: NDArray[np.unsignedinteger]) -> NDArray[np.float64]:
    missing = codes == attribute.missing_code
    if isinstance(attribute, Categorical) and attribute.size <= _MAX_ONE_HOT:
        return np.asarray(np.eye(attribute.size + 1)[codes], dtype=np.float64)
    place = 2.0 * codes / max(attribute.size - 1, 1) - 1.0
    return np.column_stack([np.where(missing, 0.0, place), missing])


def balanced_split(attribute: AnyAttribute, counts: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Split the levels of an attribute into two classes that are as equally frequent as possible.

    Parameters
    ----------
    attribute : Attribute
        Ordered levels and bins are cut at one point; unordered ones are split into the most
        balanced pair of sets (an exact subset sum).
    counts : array of int, shape (size,)
        Rows per level.

    Returns
    -------
    array of bool, shape (size,), or None
        True for the rarer class, which counts as positive; None if only one level occurs.
    """
    if np.count_nonzero(counts) < 2:
        return None
    upper = _subset(counts) if isinstance(attribute, Categorical) else _cut(counts)
    return upper if 2 * counts[upper].sum() <= counts.sum() else ~upper


def _cut(counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    below = np.cumsum(counts)[:-1]
    at = int(np.argmin(np.abs(2 * below - counts.sum())))
    return np.asarray(np.arange(len(counts)) > at)


def _subset(counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Levels whose counts add up as closely as possible to half of all rows.

    Bit ``s`` of ``reach[i]`` says whether some of the first ``i`` levels add up to ``s``.
    """
    half = int(counts.sum()) // 2
    window = (1 << (half + 1)) - 1
    reach = [1]
    for count in counts:
        reach.append((reach[-1] | reach[-1] << int(count)) & window)
    rest = reach[-1].bit_length() - 1
    chosen = np.zeros(len(counts), dtype=bool)
    for i in range(len(counts) - 1, -1, -1):
        if not reach[i] >> rest & 1:
            chosen[i] = True
            rest -= int(counts[i])
    return chosen
