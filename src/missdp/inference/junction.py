"""Junction trees: the order in which a graphical model over a discrete domain is summed out.

Pure combinatorics on public facts (domain sizes and the attribute sets that were measured).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from math import prod

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


def _eliminate(
    sizes: Sequence[int], near: Sequence[int], left: int | None = None
) -> dict[int, int]:
    """Maximal cliques (bit masks) of a triangulation, with their cells.

    Always eliminates the vertex whose elimination clique has the fewest cells.  Greedy, so not
    optimal, but deterministic and quick: it runs for many candidates in every selection round.
    An attribute of one level counts as two: a limit on cells is then one on attributes as well,
    of which an array can have but a few dozen. Of some parts of the graph alone, if ``left``.
    """
    near = list(near)
    sizes = [max(2, size) for size in sizes]
    left = (1 << len(sizes)) - 1 if left is None else left
    weight = {v: prod(sizes[u] for u in _members(near[v])) * sizes[v] for v in _members(left)}
    queue = [(w, v) for v, w in weight.items()]
    heapify(queue)
    found: dict[int, int] = {}
    inner: set[int] = set()
    while left:
        cells, v = heappop(queue)
        if not left >> v & 1 or cells != weight[v]:  # an entry that was overtaken
            continue
        around = near[v]
        left &= ~(1 << v)
        # Inside an earlier clique only if it is all that an earlier elimination left of one.
        if around | 1 << v not in inner:
            found[around | 1 << v] = cells
        inner.add(around)
        for u in _members(around):
            now = (near[u] | around) & ~(1 << u) & ~(1 << v)
            more = prod(sizes[x] for x in _members(now & ~near[u]))
            weight[u] = weight[u] // sizes[v] * more
            near[u] = now
            heappush(queue, (weight[u], u))
    return found


def tree_cells(sizes: Sequence[int], cliques: Iterable[Clique]) -> int:
    """Cells of a junction tree that holds every given clique (a single level counts as two)."""
    return sum(_eliminate(sizes, _neighbours(len(sizes), cliques)).values())


class Growth:
    """How large the junction tree would be with one more clique; remembers what it worked out."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = tuple(sizes)
        self._near: list[int] = []
        self._part: list[int] = []
        self._alone: dict[int, int] = {}
        self._held = 0
        self._known: dict[Clique, int] = {}
        self._least: dict[Clique, int] = {}
        self.hold([])

    def hold(self, cliques: Iterable[Clique]) -> None:
        """Set the cliques that are there already; more of them each time."""
        cliques = list(cliques)
        near = _neighbours(len(self._sizes), cliques)
        if near != self._near:
            self._near = near
            self._least |= self._known
            self._known = {}
            number = components(len(near), cliques)
            masks = {p: sum(1 << v for v, q in enumerate(number) if p == q) for p in number}
            self._part = [masks[p] for p in number]
            self._alone = {part: self._of(near, part) for part in masks.values()}
            self._held = sum(self._alone.values())

    def _of(self, near: Sequence[int], part: int) -> int:
        return sum(_eliminate(self._sizes, near, part).values())

    def cells(self, clique: Clique) -> int:
        """Cells of the tree with ``clique`` added."""
        if clique not in self._known:
            whole = sum(1 << v for v in clique)
            near = list(self._near)
            for v in clique:
                near[v] |= whole & ~(1 << v)
            parts = {self._part[v] for v in clique}  # the others stay as they are
            alone = sum(self._alone[part] for part in parts)
            self._known[clique] = self._held - alone + self._of(near, sum(parts))
        return self._known[clique]

    def fits(self, clique: Clique, limit: float) -> bool:
        """Whether the tree with ``clique`` added has at most ``limit`` cells.

        What was too large with fewer cliques held is taken for too large still, which saves most
        of the work: only the greedy order of elimination could say otherwise.
        """
        return self._least.get(clique, 0) <= limit and self.cells(clique) <= limit


def components(attributes: int, edges: Iterable[Clique]) -> list[int]:
    """Number the parts of a graph: attributes with the same number hang together."""
    number = list(range(attributes))
    for edge in edges:
        joined = {number[v] for v in edge}
        number = [min(joined) if k in joined else k for k in number]
    return number


@dataclass(frozen=True)
class JunctionTree:
    """A rooted tree of maximal cliques with the running intersection property.

    * ``sizes``: Number of levels of every attribute.
    * ``cliques``: Maximal cliques in a top-down order: parents come before their children.
    * ``parents``: Index of each clique's parent, -1 for the root.
    """

    sizes: tuple[int, ...]
    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]

    @classmethod
    def build(cls, sizes: Sequence[int], cliques: Iterable[Clique]) -> JunctionTree:
        """Triangulate, then join the maximal cliques by a maximum-weight spanning tree."""
        masks = list(_eliminate(sizes, _neighbours(len(sizes), cliques)))
        root = max(range(len(masks)), key=lambda i: prod(sizes[v] for v in _members(masks[i])))
        order, parents = [root], [-1]
        # Prim: the widest separator first keeps the running intersection.  For each clique that is
        # left, the width of its best separator and (negative) where the other clique is.
        best = {c: ((masks[c] & masks[root]).bit_count(), 0) for c in range(len(masks))}
        del best[root]
        while best:
            child = max(best, key=lambda c: (*best[c], -c))
            parents.append(-best.pop(child)[1])
            for c, (width, _) in best.items():
                wider = (masks[c] & masks[child]).bit_count()
                if wider > width:
                    best[c] = wider, -len(order)
            order.append(child)
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

    @cached_property
    def toward(self) -> tuple[dict[int, int], ...]:
        """For each clique, the child below which an attribute lies that it does not hold."""
        return tuple(
            {v: j for j in children for v in self.below[j] if v not in clique}
            for clique, children in zip(self.cliques, self.children, strict=True)
        )

    @cached_property
    def cells(self) -> int:
        """Total number of cells over the cliques."""
        return sum(self.clique_cells(i) for i in range(len(self.cliques)))

    def clique_cells(self, i: int) -> int:
        """Cells of the i-th clique, a single level counted as two."""
        return prod(max(2, self.sizes[v]) for v in self.cliques[i])

    def shape(self, clique: Clique) -> tuple[int, ...]:
        """Shape of a table over ``clique``."""
        return tuple(self.sizes[v] for v in clique)

    @cached_property
    def holding(self) -> tuple[Clique, ...]:
        """Indices of the cliques that hold each attribute, those with fewest cells first."""
        found: list[list[int]] = [[] for _ in self.sizes]
        for i in sorted(range(len(self.cliques)), key=self.clique_cells):
            for v in self.cliques[i]:
                found[v].append(i)
        return tuple(tuple(indices) for indices in found)

    def home(self, clique: Clique) -> int | None:
        """Index of the smallest tree clique that contains ``clique``, if any."""
        if not clique:
            return min(range(len(self.cliques)), key=self.clique_cells)
        wanted = set(clique)
        fits = (i for i in self.holding[clique[0]] if wanted.issubset(self.cliques[i]))
        return next(fits, None)

    def meeting(self, a: int, b: int) -> int:
        """Index of the lowest clique that has both attributes in it or below it."""
        i = (self._above[self._tops[a]] & self._above[self._tops[b]]).bit_length() - 1
        while True:  # the one that the clique holds may go on towards the other
            toward = self.toward[i]
            if b in toward and a in self.separators[toward[b]]:
                i = toward[b]
            elif a in toward and b in self.separators[toward[a]]:
                i = toward[a]
            else:
                return i

    @cached_property
    def _tops(self) -> list[int]:
        """Index of the highest clique that holds each attribute."""
        return [min(indices) for indices in self.holding]

    @cached_property
    def _above(self) -> list[int]:
        """Each clique and its ancestors, as bits; parents come before their children."""
        found: list[int] = []
        for i, parent in enumerate(self.parents):
            found.append(1 << i | (found[parent] if parent >= 0 else 0))
        return found

    def grown(self, clique: Clique) -> int:
        """Cells of one tree that holds ``clique`` too; the best tree may have fewer.

        Every attribute of the clique is carried to where the largest one is, along the tree.
        """
        *others, hub = sorted(clique, key=lambda v: self.sizes[v])
        extra: dict[int, set[int]] = {}
        for v in others:
            i, j = self.holding[v][0], self.holding[hub][0]
            while i != j:  # up from the later one: parents come before their children
                i, j = max(i, j), min(i, j)
                extra.setdefault(i, set()).add(v)
                i = self.parents[i]
            extra.setdefault(i, set()).add(v)
        more = 0
        for i, carried in extra.items():
            new = carried.difference(self.cliques[i])
            more += self.clique_cells(i) * (prod(max(2, self.sizes[v]) for v in new) - 1)
        return self.cells + more
