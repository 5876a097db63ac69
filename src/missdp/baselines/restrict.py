"""A Bayesian network whose rows are possible: each attribute is drawn as public rules allow.

Post-processing of a released network. What was drawn first keeps its law; what comes later is also
given what rules connect it with, has no chance where the row could no longer be possible, and is
weighted so that its own margin stays what was released.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from missdp.baselines.network import Codes, Family, Network
from missdp.inference.model import cell_index, draw
from missdp.mechanisms.door import Clique
from missdp.schema.rulebook import ImpossibleCells

_CELLS = 2_000_000  # of one conditional table: 16 MB
_ROWS = 50_000  # on which margins are taken
_ROUNDS = 30
_MOST = 50.0  # by which one level may be weighted more, or less


def restricted(network: Network, impossible: ImpossibleCells, rng: np.random.Generator) -> Network:
    """Return the network with every attribute's law restricted to what rules allow.

    A table that would grow too large is left as it is.
    """
    if not impossible:
        return network
    sizes = {f.child: network.conditionals[f.child].shape[-1] for f in network.families}
    ahead = _looked_ahead(impossible, sizes)
    families, laws, rows = [], {}, Codes()
    for family in network.families:
        law, child = network.conditionals[family.child], family.child
        cells = cell_index(rows, family.parents, law.shape[:-1], _ROWS)
        wide, new = _with_rules(family, law, ahead, sizes, {*rows})
        given = cell_index(rows, new.parents, wide.shape[:-1], _ROWS)
        if wide is not law:
            target = _margin(law, cells)
            wide = _keeping_margin(wide, given, target)
        rows[child] = draw(wide.reshape(-1, wide.shape[-1]), given, rng)
        families.append(new)
        laws[child] = wide
    return Network(tuple(families), laws, network.tables)


def _with_rules(
    family: Family,
    law: NDArray[np.float64],
    impossible: ImpossibleCells,
    sizes: Mapping[str, int],
    placed: set[str],
) -> tuple[NDArray[np.float64], Family]:
    """Return the law given also what rules connect the child with, and the family it is of."""
    child = family.child
    for names, cells in impossible.items():
        if child in names and placed.issuperset({*names} - {child}):
            parents = (*family.parents, *(n for n in names if n not in family.clique))
            if sizes[child] * math.prod(sizes[n] for n in parents) <= _CELLS:
                law = _allowed(law, (*parents, child), names, cells, sizes)
                family = Family(child, parents)
    return law, family


def _margin(law: NDArray[np.float64], cells: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the law of the child alone, over rows in these cells of its parents."""
    flat = law.reshape(-1, law.shape[-1])
    share = np.bincount(cells, minlength=len(flat)) / len(cells)
    return np.asarray(share @ flat)


def _keeping_margin(
    law: NDArray[np.float64], cells: NDArray[np.int64], target: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Weight the levels of the child so that its margin is the target, as far as it can be."""
    flat = law.reshape(-1, law.shape[-1])
    share = np.bincount(cells, minlength=len(flat)) / len(cells)
    weight = np.ones(len(target))
    for _ in range(_ROUNDS):
        found = flat * weight
        found /= np.maximum(found.sum(axis=1, keepdims=True), 1e-300)
        margin = share @ found
        weight *= np.where(margin > 0, target / np.maximum(margin, 1e-12), 1.0)
        weight = np.clip(weight / max(weight.max(), 1e-300) * _MOST, 1 / _MOST, _MOST)
    found = flat * weight
    found /= np.maximum(found.sum(axis=1, keepdims=True), 1e-300)
    kept: NDArray[np.float64] = found.reshape(law.shape)
    return kept


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
        if not near or math.prod(sizes[name] for name in clique) > _CELLS:
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
