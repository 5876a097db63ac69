"""Merge rare levels for modelling, split them again for sampling.

A level whose released count is lost in the noise cannot be told apart from its rare neighbours in
any larger marginal: measuring it there only adds noise.  The public copies of MST (McKenna, Miklau
and Sheldon 2021) merge levels below three standard deviations; merging is post-processing of the
released one-way marginals, and adding up private counts over it leaves their sensitivity alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.synth.graphical.junction import Clique

__all__ = ["Levels", "Zeros", "level_kinds", "merge_zeros"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Levels:
    """How the levels of one attribute are grouped.

    Parameters
    ----------
    groups : ndarray of int64, shape (size,)
        Group of each level, ``0..n_groups - 1``.
    shares : ndarray, shape (size,)
        Share of each level in its group; sums to one in each group.
    """

    groups: NDArray[np.int64]
    shares: Floats

    @classmethod
    def from_counts(
        cls, counts: Floats, *, threshold: float, kinds: NDArray[np.int64] | None = None
    ) -> Levels:
        """Put levels with a released count below ``threshold`` into one group per kind.

        Parameters
        ----------
        counts : ndarray, shape (size,)
            Released counts.
        threshold : float
        kinds : ndarray of int64, shape (size,), optional
            Levels of different kinds are never merged; by default all are of one kind.

        Examples
        --------
        >>> levels = Levels.from_counts(np.array([90.0, 1.0, 50.0, 3.0]), threshold=10)
        >>> levels.groups.tolist(), levels.shares.round(2).tolist()
        ([0, 2, 1, 2], [1.0, 0.25, 1.0, 0.75])
        """
        rare = counts < threshold
        groups = np.arange(len(counts))
        if np.count_nonzero(rare) > 1:
            kind = np.zeros(len(counts), dtype=np.int64) if kinds is None else kinds
            rank = np.searchsorted(np.unique(kind[rare]), kind)
            groups = np.where(rare, np.count_nonzero(~rare) + rank, np.cumsum(~rare) - 1)
        weight = np.maximum(counts, 0.0) + 1e-6
        totals = np.bincount(groups, weights=weight)
        return cls(groups.astype(np.int64), weight / totals[groups])

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.groups.max()) + 1

    def merge(self, table: NDArray[np.generic], axis: int) -> NDArray[np.generic]:
        """Add up an axis of counts over groups; one more last level (missing) is kept.

        Examples
        --------
        >>> levels = Levels(np.array([0, 1, 1]), np.ones(3))
        >>> levels.merge(np.array([5, 1, 2, 9]), 0).tolist()
        [5, 3, 9]
        """
        extra = table.shape[axis] - len(self.groups)
        index = np.concatenate([self.groups, self.n_groups + np.arange(extra)])
        moved = np.moveaxis(table, axis, 0)
        out = np.zeros((self.n_groups + extra, *moved.shape[1:]), dtype=table.dtype)
        np.add.at(out, index, moved)
        return np.moveaxis(out, 0, axis)

    def split(self, codes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw a level for each group code."""
        order = np.argsort(self.groups, kind="stable")
        ends = np.cumsum(self.shares[order])  # one unit per group, in group order
        found = np.searchsorted(ends, codes + rng.random(len(codes)), side="right")
        first = np.searchsorted(self.groups[order], codes, side="left")
        last = np.searchsorted(self.groups[order], codes, side="right") - 1
        drawn: NDArray[np.int64] = order[np.clip(found, first, last)]
        return drawn


Zeros: TypeAlias = dict[Clique, NDArray[np.bool_]]
"""Impossible cells by sorted attribute positions, on the declared levels."""



def level_kinds(zeros: Zeros, sizes: Sequence[int]) -> list[NDArray[np.int64]]:
    """Number the levels of each attribute by what they are impossible with.

    Levels of one kind are interchangeable, so that merging them loses no constraint.

    Examples
    --------
    >>> level_kinds({(0, 1): np.array([[True, False], [False, False], [False, False]])}, [3, 2])
    [array([1, 0, 0]), array([1, 0])]
    """
    kinds = []
    for v, size in enumerate(sizes):
        seen = [
            np.moveaxis(table, clique.index(v), 0).reshape(size, -1)
            for clique, table in zeros.items()
            if v in clique
        ]
        pattern = np.concatenate([np.zeros((size, 1), dtype=bool), *seen], axis=1)
        kinds.append(np.unique(pattern, axis=0, return_inverse=True)[1].reshape(size))
    return kinds


def merge_zeros(zeros: Zeros, levels: Sequence[Levels]) -> Zeros:
    """Put impossible cells on merged levels of one kind each."""
    first = [np.unique(level.groups, return_index=True)[1] for level in levels]
    return {c: table[np.ix_(*(first[v] for v in c))] for c, table in zeros.items()}
