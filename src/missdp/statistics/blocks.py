"""Slices of long arrays, one block after the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["portions", "runs", "slices"]


def slices(size: int, step: int) -> Iterator[slice]:
    """Yield slices of ``step`` numbers that cover ``size`` numbers in order.

    >>> from missdp.statistics.blocks import slices
    >>> list(slices(5, 3))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))


def runs(counts: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each i ``counts[i]`` times, and the position of each repetition from 0 on."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def portions(sizes: NDArray[np.integer], max_size: int) -> Iterator[slice]:
    """Yield slices of items whose sizes add up to little more than ``max_size``.

    >>> import numpy as np
    >>> from missdp.statistics.blocks import portions
    >>> list(portions(np.array([3, 3, 9, 1]), 5))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    before = (np.cumsum(sizes) - sizes) // max_size
    stops = np.flatnonzero(np.diff(before, append=-1)) + 1
    yield from map(slice, (0, *stops[:-1].tolist()), stops.tolist())
