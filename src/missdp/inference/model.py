"""Merge rare levels for modelling, split them again for sampling.

A level whose released count is lost in the noise cannot be told apart from its rare neighbours in
any larger marginal: measuring it there only adds noise.  The public copies of MST (McKenna, Miklau
and Sheldon 2021) merge levels below three standard deviations; merging is post-processing of the
released one-way marginals, and adding up private counts over it leaves their sensitivity alone.

The released model: complete-data law, mask law, and how to sample both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.inference.beliefs import Calibrated, Draws, Parameters, log_linear
from missdp.inference.junction import Clique
from missdp.inference.masks import MaskModel
from missdp.record import array_from_json, array_to_json

__all__ = ["GraphicalModel", "Levels", "Zeros", "level_kinds", "merge_zeros"]


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


@dataclass(frozen=True, eq=False)
class GraphicalModel:
    """Released values only.

    Parameters
    ----------
    levels : tuple of Levels
        How rare levels were merged.
    parameters : mapping of Clique to ndarray
        Log-linear parameters of the complete-data law on merged levels.
    masks : MaskModel
        Which cells go missing, given the complete row.
    zeros : mapping of Clique to ndarray of bool
        Impossible cells on the declared levels (public); each group of merged levels is possible
        or impossible as a whole.
    """

    levels: tuple[Levels, ...]
    parameters: Parameters
    masks: MaskModel
    zeros: Zeros = field(default_factory=dict)

    @cached_property
    def law(self) -> Calibrated:
        """The complete-data law on merged levels."""
        sizes = [level.n_groups for level in self.levels]
        return log_linear(sizes, self.parameters, merge_zeros(self.zeros, self.levels))[0]

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """Marginal of the complete-data law on the declared levels, at sorted positions."""
        table = self.law.marginal(clique)
        for axis, v in enumerate(clique):
            level = self.levels[v]
            along = [-1 if i == axis else 1 for i in range(len(clique))]
            table = table.take(level.groups, axis=axis) * level.shares.reshape(along)
        return table

    def sample(
        self, n: int, rng: np.random.Generator, *, keep_holes: bool, draws: Draws = "even"
    ) -> list[NDArray[np.int64]]:
        """Draw ``n`` rows as one array of codes per attribute; a hole has the code ``size``."""
        rows = self.law.sample(n, rng, draws=draws)
        holes = self.masks.draw(rows, rng) if keep_holes else np.zeros(rows.shape, dtype=bool)
        out = []
        for v, level in enumerate(self.levels):
            codes = level.split(rows[:, v], rng)
            out.append(np.where(holes[:, v], len(level.groups), codes))
        return out

    def to_json(self) -> dict[str, Any]:
        """Return JSON values, exact to the last bit."""
        return {
            "groups": [level.groups.tolist() for level in self.levels],
            "shares": [array_to_json(level.shares) for level in self.levels],
            "parameters": [[list(c), array_to_json(t)] for c, t in self.parameters.items()],
            "masks": self.masks.to_json(),
            "zeros": [[list(c), table.tolist()] for c, table in self.zeros.items()],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> GraphicalModel:
        """Inverse of :meth:`to_json`."""
        levels = tuple(
            Levels(np.asarray(g, dtype=np.int64), array_from_json(s))
            for g, s in zip(stored["groups"], stored["shares"], strict=True)
        )
        parameters = {tuple(c): array_from_json(t) for c, t in stored["parameters"]}
        zeros = {tuple(c): np.asarray(t, dtype=bool) for c, t in stored.get("zeros", [])}
        return cls(levels, parameters, MaskModel.from_json(stored["masks"]), zeros)
