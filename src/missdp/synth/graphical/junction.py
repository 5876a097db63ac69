"""Junction trees: the order in which a graphical model over a discrete domain is summed out.

Pure combinatorics on public facts (domain sizes and the attribute sets that were measured).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

__all__ = ["Clique", "JunctionTree", "tree_cells"]

Clique = tuple[int, ...]


def _neighbours(n: int, cliques: Iterable[Clique]) -> list[int]:
    """Adjacency of the moral graph, one bit mask per vertex."""
    masks = [0] * n
    for clique in cliques:
        whole = 0
        for v in clique:
            whole |= 1 << v
        for v in clique:
            masks[v] |= whole
    return [mask & ~(1 << v) for v, mask in enumerate(masks)]


def _members(mask: int) -> Clique:
    out = []
    while mask:
        low = mask & -mask
        out.append(low.bit_length() - 1)
        mask ^= low
    return tuple(out)


def _eliminate(sizes: Sequence[int], cliques: Iterable[Clique]) -> list[int]:
    """Maximal cliques (bit masks) of the triangulation by cheapest-clique elimination.

    Always eliminates the vertex whose elimination clique has the fewest cells.  Greedy, so not
    optimal, but deterministic and quick: it runs for every candidate in every selection round.
    """
    near = _neighbours(len(sizes), cliques)
    weight = [prod(sizes[u] for u in _members(near[v])) * sizes[v] for v in range(len(sizes))]
    left = set(range(len(sizes)))
    found: list[int] = []
    while left:
        v = min(left, key=weight.__getitem__)
        left.remove(v)
        clique = near[v] | (1 << v)
        if not any(clique & ~other == 0 for other in found):
            found.append(clique)
        for u in _members(near[v]):
            near[u] = (near[u] | near[v]) & ~(1 << u) & ~(1 << v)
        for u in _members(near[v]):
            weight[u] = prod(sizes[w] for w in _members(near[u])) * sizes[u]
    return found


def tree_cells(sizes: Sequence[int], cliques: Iterable[Clique]) -> int:
    """Cells that a junction tree holding every given clique needs.

    Examples
    --------
    >>> tree_cells([2, 3, 4], [(0, 1), (1, 2)])
    18
    >>> tree_cells([2, 3, 4], [(0, 1), (1, 2), (0, 2)])
    24
    """
    return sum(prod(sizes[v] for v in _members(c)) for c in _eliminate(sizes, cliques))


@dataclass(frozen=True)
class JunctionTree:
    """A rooted tree of maximal cliques with the running intersection property.

    Parameters
    ----------
    sizes : tuple of int
        Number of levels of every attribute.
    cliques : tuple of Clique
        Maximal cliques in a top-down order: parents come before their children.
    parents : tuple of int
        Index of each clique's parent, -1 for the root.
    """

    sizes: tuple[int, ...]
    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]

    @classmethod
    def build(cls, sizes: Sequence[int], cliques: Iterable[Clique]) -> JunctionTree:
        """Triangulate, then join the maximal cliques by a maximum-weight spanning tree.

        Examples
        --------
        >>> JunctionTree.build([2, 3, 4], [(0, 1), (1, 2)]).cells
        18
        """
        masks = _eliminate(sizes, cliques)
        root = max(range(len(masks)), key=lambda i: prod(sizes[v] for v in _members(masks[i])))
        order, parents = [root], [-1]
        left = set(range(len(masks))) - {root}
        while left:  # Prim: the widest separator first keeps the running intersection
            child, slot = max(
                ((c, p) for c in left for p in range(len(order))),
                key=lambda e: ((masks[e[0]] & masks[order[e[1]]]).bit_count(), -e[1], -e[0]),
            )
            left.remove(child)
            order.append(child)
            parents.append(slot)
        return cls(tuple(sizes), tuple(_members(masks[i]) for i in order), tuple(parents))

    @cached_property
    def separators(self) -> tuple[Clique, ...]:
        """Attributes that each clique shares with its parent (empty for the root)."""
        return tuple(
            () if p < 0 else tuple(v for v in c if v in self.cliques[p])
            for c, p in zip(self.cliques, self.parents, strict=True)
        )

    @cached_property
    def children(self) -> tuple[Clique, ...]:
        """Indices of each clique's children."""
        return tuple(
            tuple(j for j, p in enumerate(self.parents) if p == i) for i in range(len(self.cliques))
        )

    @cached_property
    def below(self) -> tuple[frozenset[int], ...]:
        """Attributes that occur in the subtree of each clique."""
        seen: list[set[int]] = [set(c) for c in self.cliques]
        for i in range(len(self.cliques) - 1, 0, -1):
            seen[self.parents[i]] |= seen[i]
        return tuple(frozenset(s) for s in seen)

    @property
    def cells(self) -> int:
        """Total number of cells over the cliques."""
        return sum(self.clique_cells(i) for i in range(len(self.cliques)))

    def clique_cells(self, i: int) -> int:
        """Cells of the i-th clique."""
        return prod(self.sizes[v] for v in self.cliques[i])

    def shape(self, clique: Clique) -> tuple[int, ...]:
        """Shape of a table over ``clique``."""
        return tuple(self.sizes[v] for v in clique)

    def home(self, clique: Clique) -> int | None:
        """Index of the smallest tree clique that contains ``clique``, if any."""
        wanted = set(clique)
        fits = [i for i, c in enumerate(self.cliques) if wanted <= set(c)]
        return min(fits, key=self.clique_cells, default=None)
