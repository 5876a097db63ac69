"""Sums of tables over each other's attributes, shared where they can be.

A clique of a junction tree holds many small tables: measured marginals, and what it shares with its
neighbours.  To add the small ones up on the large one, and to sum the large one down to the small
ones, they are nested: a small table goes into, and comes out of, the smallest table that contains
it.  Where several would have to be read off a large table, a table in between is put in, with one
attribute less, so that the large one is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from missdp.inference.junction import Clique

Floats = NDArray[np.float64]

_FEW = 1000  # cells: less than the time to ask for a sum
_LONG = 16  # cells in a row, with which plain sums are the quickest


def spread(table: Floats, inner: Clique, outer: Clique) -> Floats:
    """View of a table over ``inner`` that broadcasts against one over ``outer`` (both sorted)."""
    at = {v: i for i, v in enumerate(inner)}
    return table.reshape([table.shape[at[v]] if v in at else 1 for v in outer])


def summed(table: Floats, axes: tuple[int, ...]) -> Floats:
    """Sum a table over some axes, quickly: NumPy's own sum is slow where few cells lie in a row."""
    if not axes:
        return table
    if table.size < _FEW:
        return np.asarray(np.add.reduce(table, axis=axes))
    for shape, after in _sums(table.shape, axes):
        table = table.reshape(shape)
        if shape[2] >= _LONG or shape[0] == 1:
            table = np.add.reduce(table, axis=1)
        else:
            table = np.einsum("abc->ac", table)
        table = table.reshape(after)
    return table


@lru_cache(maxsize=4096)
def _sums(
    shape: tuple[int, ...], axes: tuple[int, ...]
) -> tuple[tuple[tuple[int, int, int], tuple[int, ...]], ...]:
    """Single sums, of neighbouring axes each, that make up a sum: shapes before and after."""
    runs: list[list[int]] = []
    for axis in axes:
        if runs and runs[-1][-1] == axis - 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    # What lies far apart in memory is quick to add, and makes the rest smaller.
    left, steps = list(enumerate(shape)), []
    for run in runs:
        gone = set(run)
        first = next(i for i, (axis, _) in enumerate(left) if axis in gone)
        sizes = [size for _, size in left]
        last = first + len(run)
        three = (prod(sizes[:first]), prod(sizes[first:last]), prod(sizes[last:]))
        left = left[:first] + left[last:]
        steps.append((three, tuple(size for _, size in left)))
    return tuple(steps)


@dataclass(frozen=True)
class Part:
    """A table in a nest, and how it hangs in the next larger one.

    Parameters
    ----------
    clique : Clique
    sizes : tuple of int
        Its shape.
    outer : int
        Position of the table around it; -1 for the whole.
    shape : tuple of int
        Its shape as it broadcasts against that table.
    axes : tuple of int
        Axes of that table to sum out.
    """

    clique: Clique
    sizes: tuple[int, ...]
    outer: int = -1
    shape: tuple[int, ...] = ()
    axes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Nest:
    """Tables inside a clique; each comes after the one around it.

    Parameters
    ----------
    parts : tuple of Part
        The whole clique first.
    at : dict of Clique to int
        Where each table is.
    """

    parts: tuple[Part, ...]
    at: dict[Clique, int]

    def read(self, whole: Floats) -> list[Floats]:
        """Sum the whole down to every table."""
        found = [whole]
        for part in self.parts[1:]:
            found.append(summed(found[part.outer], part.axes))
        return found

    def pile(self, tables: Sequence[Sequence[Floats]], out: Floats) -> None:
        """Add up all tables of all parts on the whole."""
        piled: list[Floats | None] = [None] * len(self.parts)
        for k in range(len(self.parts) - 1, 0, -1):
            part, total = self.parts[k], piled[k]
            for table in tables[k]:
                total = table if total is None else total + table
            if total is None:
                continue
            around = piled[part.outer]
            if around is None:  # broadcast into place, which is quicker than adding to zeros
                around = np.empty(self.parts[part.outer].sizes) if part.outer else out
                around[...] = total.reshape(part.shape)
                piled[part.outer] = around
            else:
                around += total.reshape(part.shape)
        if piled[0] is None:
            out[...] = 0.0
        for table in tables[0]:
            out += table


def nested(whole: Clique, sizes: Sequence[int], tables: Iterable[Clique]) -> Nest:
    """Nest tables in a clique."""

    def cells(clique: Clique) -> int:
        return prod(sizes[v] for v in clique)

    inside: dict[Clique, list[Clique]] = {whole: []}
    for table in sorted(set(tables) - {whole}, key=lambda c: (-len(c), -cells(c), c)):
        wanted = set(table)
        around = min((c for c in inside if wanted.issubset(c)), key=cells)
        inside[around].append(table)
        inside[table] = []
    waiting = [whole]
    parts = [Part(whole, tuple(sizes[v] for v in whole))]
    at = {whole: 0}
    while waiting:
        outer = waiting.pop()
        _share(outer, inside, cells)
        for inner in inside[outer]:
            at[inner] = len(parts)
            parts.append(
                Part(
                    inner,
                    tuple(sizes[v] for v in inner),
                    at[outer],
                    tuple(sizes[v] if v in inner else 1 for v in outer),
                    tuple(i for i, v in enumerate(outer) if v not in inner),
                )
            )
            waiting.append(inner)
    return Nest(tuple(parts), at)


def _share(
    outer: Clique, inside: dict[Clique, list[Clique]], cells: Callable[[Clique], int]
) -> None:
    """Put tables in between, each with one attribute less, as long as that saves reading cells."""
    while True:
        best, most = None, 0
        for v in outer:
            between = tuple(u for u in outer if u != v)
            many = sum(1 for c in inside[outer] if v not in c and c != between)
            there = between in inside[outer]
            saved = (many - (not there)) * cells(outer) - many * cells(between)
            if saved > most:
                best, most = (v, between), saved
        if best is None:
            return
        v, between = best
        held = inside.setdefault(between, [])
        held += [c for c in inside[outer] if v not in c and c != between]
        inside[outer] = [c for c in inside[outer] if v in c] + [between]
