"""A generator that is a table of classes: rows of a class have independent values and holes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from missdp.inference.masks import RowModel
from missdp.inference.model import Levels, draw, finite, split_rows
from missdp.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class ClassTable(RowModel):
    """A distribution of rows: given a hidden class, values and missing cells are independent.

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
        """Draw ``n`` rows, an array of codes per attribute; a missing cell has the code ``size``.

        They are spread over the classes, and over the levels in each, as evenly as
        whole rows can be: less chance than in independent rows, and the same law of each.
        """
        classes, rows = self._drawn(n, rng)
        holes = self._holes(classes, rows, rng) & keep_holes
        return split_rows(self.levels, rows, holes, rng)

    def with_holes(self, n: int, rng: np.random.Generator) -> Ints:
        """Draw rows on groups of levels; a hole has the code after the last group."""
        classes, rows = self._drawn(n, rng)
        holes = self._holes(classes, rows, rng)
        return np.where(holes, [head.shape[1] for head in self.heads], rows)

    def _drawn(self, n: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Return the class of each of ``n`` rows, and their values."""
        classes = draw(self.shares[np.newaxis], np.zeros(n, dtype=np.int64), rng)
        rows = [draw(head, classes, rng) for head in self.heads]
        return classes, np.stack(rows, axis=1)

    def _holes(
        self, classes: NDArray[np.int64], rows: Ints, rng: np.random.Generator
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
