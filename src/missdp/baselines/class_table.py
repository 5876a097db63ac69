"""A generator that is a table of classes: rows of a class have independent values and holes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from missdp.inference.masks import RowModel
from missdp.inference.model import Codes, Levels, finite, split_rows

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ClassTable(RowModel):
    """A law of rows and holes: given a hidden class, all values and all holes are independent.

    Parameters
    ----------
    levels : tuple of Levels
        How the levels of each attribute are grouped.
    shares : ndarray, shape (classes,)
        Probability of each class; they add up to 1.
    heads : tuple of ndarray, shape (classes, groups)
        For each attribute the law of its groups of levels in each class.
    observed : ndarray, shape (classes, attributes)
        Probability that a value is observed.
    always : mapping of int to int
        By attribute, a group of levels that is never missing.
    n_rows : float
        Number of rows that were counted.
    """

    levels: tuple[Levels, ...]
    shares: Floats
    heads: tuple[Floats, ...]
    observed: Floats
    always: dict[int, int]
    n_rows: float

    def _coheres(self) -> bool:
        classes, sizes = len(self.shares), [level.n_groups for level in self.levels]
        return (
            [head.shape for head in self.heads] == [(classes, size) for size in sizes]
            and self.shares.shape == (classes,)
            and self.observed.shape == (classes, len(sizes))
            and {*self.always} <= {*range(len(sizes))}
            and finite((self.shares, *self.heads, self.observed), least=0.0)
            and all((head.sum(axis=1) > 0).all() for head in (self.shares[np.newaxis], *self.heads))
        )

    def sample(
        self, n: int, rng: np.random.Generator, *, keep_holes: bool
    ) -> list[NDArray[np.int64]]:
        """Draw ``n`` rows as one array of codes per attribute; a hole has the code ``size``.

        They are spread over the classes, and over the levels in each, as evenly as
        whole rows can be: less chance than in independent rows, and the same law of each.
        """
        classes, rows = _draw_classes(self.shares, self.heads, n, rng)
        holes = np.zeros(rows.shape, dtype=bool)
        if keep_holes:
            holes = self._holes(classes, rows, rng)
        return split_rows(self.levels, rows, holes, rng)

    def with_holes(self, n: int, rng: np.random.Generator) -> Codes:
        """Draw rows on groups of levels; a hole has the code after the last group."""
        classes, rows = _draw_classes(self.shares, self.heads, n, rng)
        holes = self._holes(classes, rows, rng)
        return np.where(holes, [head.shape[1] for head in self.heads], rows)

    def _holes(
        self, classes: NDArray[np.int64], rows: Codes, rng: np.random.Generator
    ) -> NDArray[np.bool_]:
        holes = rng.random(rows.shape) >= self.observed[classes]
        for a, group in self.always.items():
            holes[:, a] &= rows[:, a] != group
        return np.asarray(holes)

    @classmethod
    def mixed(cls, tables: list[Self]) -> Self:
        """Return the mixture of several tables of the same attributes, all of equal weight."""
        first = tables[0]
        return cls(
            first.levels,
            np.concatenate([table.shares for table in tables]) / len(tables),
            tuple(np.concatenate(parts) for parts in zip(*(t.heads for t in tables), strict=True)),
            np.concatenate([table.observed for table in tables]),
            first.always,
            first.n_rows,
        )


def _draw_classes(
    shares: Floats, heads: tuple[Floats, ...], n: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], Codes]:
    """Return the class of each of ``n`` rows, and their values; see `ClassTable`."""
    uniforms = (np.arange(n) + rng.random()) / max(1, n)
    classes = _placed(np.cumsum(shares)[np.newaxis], uniforms, np.zeros(n, dtype=np.int64))
    rows = np.empty((n, len(heads)), dtype=np.int64)
    counts = np.bincount(classes, minlength=len(shares))
    first = np.cumsum(counts) - counts
    for a, head in enumerate(heads):
        # A random place among the rows of its class, and a point in that place.
        place = np.empty(n, dtype=np.int64)
        place[np.lexsort((rng.random(n), classes))] = np.arange(n)
        uniforms = (place - first[classes] + rng.random(n)) / np.maximum(1, counts[classes])
        rows[:, a] = _placed(np.cumsum(head, axis=1), uniforms, classes)
    order = rng.permutation(n)
    return classes[order], rows[order]


def _placed(ends: Floats, uniforms: Floats, classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each number lies among the cumulative shares of its class."""
    width = ends.shape[1]
    edges = ends[:, :-1] / ends[:, -1:]
    flat = (edges + np.arange(len(ends))[:, np.newaxis]).ravel()
    inside = np.minimum(uniforms, 1 - 1e-12)
    return np.asarray(np.searchsorted(flat, inside + classes, side="right") - classes * (width - 1))
