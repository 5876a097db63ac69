"""Laws of a Bayesian network, restricted to what public rules allow.

Rows are drawn attribute by attribute, so each is drawn from its law given that the row can still
obey every rule: nothing is drawn that would have to be drawn again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from missdp.mechanisms.door import Clique
from missdp.schema.rulebook import ImpossibleCells
from missdp.synth.network import Family, Network

__all__ = ["restricted"]

_RESTRICTED_CELLS = 2_000_000  # of one conditional table: 16 MB


def restricted(network: Network, impossible: ImpossibleCells) -> Network:
    """Return the network with every attribute's law restricted to what rules allow.

    Each attribute is also given those attributes drawn before it that a rule connects it with, and
    its law is set to zero where the row would be impossible, or no attribute drawn later could be
    allowed. So what was drawn before keeps its law, and what comes later adapts. A table that would
    grow too large is left as it is.

    Parameters
    ----------
    network : Network
    impossible : mapping of tuple of str to ndarray of bool
        Cells that no row is in, on levels; "missing" after the levels is never impossible.

    Examples
    --------
    >>> families = (Family("work", ()), Family("hours", ()))
    >>> laws = {"work": np.array([0.25, 0.75]), "hours": np.array([0.5, 0.25, 0.25])}
    >>> never = {("work", "hours"): np.array([[True, True, False], [False, False, True]])}
    >>> restricted(Network(families, laws), never).conditionals["hours"].round(2).tolist()
    [[0.0, 0.0, 1.0], [0.67, 0.33, 0.0]]
    """
    sizes = {f.child: network.conditionals[f.child].shape[-1] for f in network.families}
    families, laws = [], {}
    placed: set[str] = set()
    ahead = _looked_ahead(impossible, sizes)
    for family in network.families:
        law, child = network.conditionals[family.child], family.child
        placed.add(child)
        for names, cells in ahead.items():
            if child in names and placed.issuperset(names):
                parents = (*family.parents, *(n for n in names if n not in family.clique))
                if sizes[child] * math.prod(sizes[n] for n in parents) <= _RESTRICTED_CELLS:
                    law = _allowed(law, (*parents, child), names, cells, sizes)
                    family = Family(child, parents)
        families.append(family)
        laws[child] = law
    return Network(tuple(families), laws)


def _looked_ahead(
    impossible: ImpossibleCells, sizes: Mapping[str, int]
) -> dict[Clique, NDArray[np.bool_]]:
    """Add the cells that leave an attribute that is drawn later without any level.

    Attributes are taken from the last one drawn to the first: what all its tables together rule out
    of the attributes before it is one more table (bucket elimination; Dechter 1999).
    """
    found = dict(impossible)
    place = {name: i for i, name in enumerate(sizes)}
    for last in reversed(list(sizes)):
        about = [names for names in found if max(names, key=place.__getitem__) == last]
        near = {name for names in about for name in names if name != last}
        clique = (*sorted(near, key=place.__getitem__), last)
        if not near or math.prod(sizes[name] for name in clique) > _RESTRICTED_CELLS:
            continue
        never = np.zeros([sizes[name] for name in clique], dtype=bool)
        for names in about:
            never |= _along(clique, names, found[names], sizes)
        dead = never.all(axis=-1)
        if dead.any():
            found[clique[:-1]] = dead | found.get(clique[:-1], np.zeros_like(dead))
    return found


def _allowed(
    law: NDArray[np.float64],
    clique: Clique,
    names: Clique,
    cells: NDArray[np.bool_],
    sizes: Mapping[str, int],
) -> NDArray[np.float64]:
    """Return the law of a family with more parents, zero where its cells are impossible."""
    shape = tuple(sizes[name] for name in clique)
    wide = law.reshape(law.shape[:-1] + (1,) * (len(shape) - law.ndim) + law.shape[-1:])
    wide = np.broadcast_to(wide, shape)
    possible = ~_along(clique, names, cells, sizes)
    left = wide * possible
    # Where the law has nothing that is allowed, all that is allowed; if nothing is, the law.
    total = left.sum(axis=-1, keepdims=True)
    some = np.broadcast_to(possible.any(axis=-1, keepdims=True), total.shape)
    left = np.where(total > 0, left, np.where(some, possible * np.ones(shape), wide))
    return np.asarray(left / left.sum(axis=-1, keepdims=True))


def _along(
    clique: Clique, names: Clique, cells: NDArray[np.bool_], sizes: Mapping[str, int]
) -> NDArray[np.bool_]:
    """Return impossible cells with an axis for each of a clique's attributes."""
    never = np.pad(cells, [(0, sizes[n] - k) for n, k in zip(names, cells.shape, strict=True)])
    order = sorted(range(len(names)), key=lambda i: clique.index(names[i]))
    return never.transpose(order).reshape([sizes[n] if n in names else 1 for n in clique])
