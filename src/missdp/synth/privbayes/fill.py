"""Fill the holes of synthetic rows from the released model's own conditional laws.

Everything here is post-processing of released values. The filling model Q has the network's
families, with conditional laws on complete cells. It starts at the law of each child among family
members that are all observed, and is then re-estimated from the filled synthetic rows: stochastic
expectation-maximisation, which is the maximum-likelihood answer for data missing at random
(Rubin 1976; Dempster, Laird and Rubin 1977) up to the released model's own error: a dependence
that no family of the network holds is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from missdp.mechanisms.door import Clique
from missdp.synth.privbayes.network import (
    Codes,
    Network,
    cell_index,
    condition,
    invert,
    stratified_uniforms,
)
from missdp.synth.privbayes.structure import Family

__all__ = ["fill_holes", "fit_filling_model"]

_EM_ROUNDS = 8
_SWEEPS = 2
_EM_ROWS = 50_000
_CELLS_AT_ONCE = 8_000_000  # of the laws of holes: 64 MB


def fit_filling_model(
    network: Network, sizes: Mapping[str, int], n: int, rng: np.random.Generator
) -> Network:
    """Learn complete-data conditional laws from synthetic rows with holes.

    Parameters
    ----------
    network : Network
        The released model on the extended domain.
    sizes : mapping of str to int
        Number of levels of each attribute, missing not counted.
    n : int
        Number of synthetic rows to learn from (at most 50,000 are used).
    rng : numpy Generator

    Returns
    -------
    Network
        Same families, complete domain.
    """
    rows = max(1, min(n, _EM_ROWS))
    model = _observed_part(network, sizes)
    holes = network.sample(rows, rng)
    filled = _initial(holes, sizes, model, rng)
    for _ in range(_EM_ROUNDS):
        filled = _gibbs(filled, holes, sizes, model, rng, sweeps=_SWEEPS)
        model = _refit(model, filled, sizes)
    return model


def fill_holes(
    holes: Codes, sizes: Mapping[str, int], model: Network, rng: np.random.Generator
) -> Codes:
    """Draw the missing cells of synthetic rows given their observed cells.

    Parameters
    ----------
    holes : dict of str to array
        Codes with ``sizes[name]`` for missing.
    sizes : mapping of str to int
    model : Network
        What :func:`fit_filling_model` returned.
    rng : numpy Generator

    Returns
    -------
    dict of str to array
        Codes without holes; observed cells unchanged.
    """
    filled = _initial(holes, sizes, model, rng)
    return _gibbs(filled, holes, sizes, model, rng, sweeps=5)


def _observed_part(network: Network, sizes: Mapping[str, int]) -> Network:
    conditionals = {}
    for family in network.families:
        inside = tuple(slice(0, sizes[name]) for name in family.clique)
        conditionals[family.child] = condition(network.conditionals[family.child][inside])
    return Network(network.families, conditionals)


def _initial(
    holes: Codes, sizes: Mapping[str, int], model: Network, rng: np.random.Generator
) -> Codes:
    """Fill ancestrally: each hole from its parents, as if nothing else were known."""
    filled: Codes = {}
    for family in model.families:
        codes = holes[family.child].copy()
        hole = codes == sizes[family.child]
        table = model.conditionals[family.child]
        cell = cell_index(filled, family.parents, table.shape[:-1], len(codes))[hole]
        laws = table.reshape(-1, table.shape[-1])
        codes[hole] = invert(laws, cell, stratified_uniforms(cell, rng))
        filled[family.child] = codes
    return filled


def _gibbs(
    filled: Codes,
    holes: Codes,
    sizes: Mapping[str, int],
    model: Network,
    rng: np.random.Generator,
    *,
    sweeps: int,
) -> Codes:
    """Redraw every hole given all other cells of its row, ``sweeps`` times."""
    filled = dict(filled)
    for _ in range(sweeps):
        for family in model.families:
            hole = np.flatnonzero(holes[family.child] == sizes[family.child])
            codes = filled[family.child].copy()
            step = max(1, _CELLS_AT_ONCE // sizes[family.child])
            for start in range(0, hole.size, step):
                rows = hole[start : start + step]
                laws = _full_conditional(family, model, filled, rows)
                codes[rows] = invert(laws, np.arange(rows.size), rng.random(rows.size))
            filled[family.child] = codes
    return filled


def _full_conditional(
    family: Family, model: Network, filled: Codes, rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Unnormalised law of a child given everything else in its row, shape ``(rows, child)``."""
    children = [other for other in model.families if family.child in other.parents]
    near = set(family.clique).union(*(other.clique for other in children))
    here = {name: filled[name][rows] for name in near}
    own = _slice(model.conditionals[family.child], family.clique, family.child, here)
    law = np.broadcast_to(own, (len(rows), own.shape[1])).copy()
    for other in children:
        law *= _slice(model.conditionals[other.child], other.clique, family.child, here)
    dead = law.sum(axis=1) <= 0
    law[dead] = 1.0
    return law


def _slice(
    table: NDArray[np.float64], clique: Clique, free: str, codes: Codes
) -> NDArray[np.float64]:
    """Look up a table with all attributes of the clique fixed but one, shape ``(rows, free)``."""
    moved = np.moveaxis(table, clique.index(free), -1)
    return np.asarray(moved[tuple(codes[name] for name in clique if name != free)]).reshape(
        -1, moved.shape[-1]
    )


def _refit(model: Network, filled: Codes, sizes: Mapping[str, int]) -> Network:
    conditionals = {}
    n = len(next(iter(filled.values())))
    for family in model.families:
        shape = tuple(sizes[name] for name in family.clique)
        cell = cell_index(filled, family.clique, shape, n)
        counts = np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape)
        # Keep a little of the previous law so that no cell of the model dies by sampling.
        prior = model.conditionals[family.child]
        conditionals[family.child] = condition(counts + 0.05 * prior)
    return Network(model.families, conditionals)
