"""The released model: a Bayesian network with sampling and filling of holes.

Fill the holes of synthetic rows from the released model's own conditional laws.

Everything here is post-processing of released values. The filling model Q has the network's
families, with conditional laws on complete cells. It starts at the law of each child among family
members that are all observed, and is then re-estimated from the filled synthetic rows: stochastic
expectation-maximisation, which is the maximum-likelihood answer for data missing at random
(Rubin 1976; Dempster, Laird and Rubin 1977) up to the released model's own error: a dependence
that no family of the network holds is not in it.

Learn a network: choose families, then measure their tables, all through the door.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.inference.model import cell_index, draw, draw_each, sample_rows
from missdp.mechanisms.door import Clique, Door, Noise, Total
from missdp.record import Record
from missdp.synth.noisy_counts import least_squares_total, make_consistent
from missdp.synth.privbayes.structure import (
    DEPENDENCE,
    Family,
    Plan,
    TableRule,
    candidates,
    reachable_cliques,
    usefulness_rule,
)

__all__ = ["Codes", "Learner", "Network", "fill_holes", "fit_filling_model"]


Codes: TypeAlias = dict[str, NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Network(Record):
    """Released families with their conditional tables, in ancestral order.

    Parameters
    ----------
    families : tuple of Family
        Parents come before children.
    conditionals : mapping of str to array
        For each child the law of the child given its parents, shape ``(parents..., child)``; the
        last axis sums to one.
    """

    families: tuple[Family, ...]
    conditionals: Mapping[str, NDArray[np.float64]]

    @classmethod
    def from_joints(
        cls, families: tuple[Family, ...], joints: Mapping[Clique, NDArray[np.float64]]
    ) -> Network:
        """Condition each family's non-negative joint table on the parents.

        Parent cells with no mass take the child's margin.
        """
        conditionals = {f.child: condition(joints[f.clique]) for f in families}
        return cls(families, conditionals)

    def sample(self, n: int, rng: np.random.Generator) -> Codes:
        """Draw ``n`` rows of codes, ancestrally, spread evenly within each parent cell."""
        steps = [(f.parents, (f.child,), self.conditionals[f.child]) for f in self.families]
        return sample_rows(steps, n, rng)


def condition(joint: NDArray[np.float64]) -> NDArray[np.float64]:
    """Law of the last axis given the others; empty cells take the margin, then uniform."""
    flat = joint.reshape(-1, joint.shape[-1])
    margin = flat.sum(axis=0)
    total = margin.sum()
    margin = margin / total if total > 0 else np.full(len(margin), 1.0 / len(margin))
    mass = flat.sum(axis=1, keepdims=True)
    law = np.where(mass > 0, flat / np.where(mass > 0, mass, 1.0), margin)
    return law.reshape(joint.shape)


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
        codes[hole] = draw(laws, cell, rng)
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
                codes[rows] = draw_each(_full_conditional(family, model, filled, rows), rng)
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


_CELLS_PER_CALL = 50_000_000  # 400 MB of counts


class Learner:
    """Choose and measure families over one view of the private rows.

    Parameters
    ----------
    door : Door
        Asked for each choice of parents.
    plan : Plan
    tables : Door
        The same rows; asked for each table.
    total : Total or None
        Released number of rows that the door counts.
    report : callable
        Progress; gets public facts only.
    """

    def __init__(
        self,
        door: Door,
        plan: Plan,
        *,
        tables: Door,
        total: Total | None,
        report: Callable[[str, float], None],
    ) -> None:
        self._door, self._tables = door, tables
        self._plan, self._rows = plan, total
        self._report = report
        self._names = door.schema.names
        #: Released number of rows behind each measured table.
        self.totals: dict[Clique, Total] = {}

    def choose_families(self, *, degree: int | str, theta: float) -> tuple[Family, ...]:
        """Choose parents for every attribute, one private selection at a time.

        The first attribute is the one with fewest codes: a public choice, so it is free.
        """
        sizes = self._door.sizes
        rows = self._rows.value if self._rows is not None else 0.0
        rule, most = usefulness_rule(
            sizes, degree=degree, theta=theta, n_rows=max(0.0, rows), plan=self._plan
        )
        self._expect(rule, most)
        first = min(self._names, key=lambda name: sizes[name])
        chosen = [Family(first, ())]
        waiting = [name for name in self._names if name != first]
        while waiting:
            self._report("choosing parents", 0.1 + 0.5 * len(chosen) / len(self._names))
            placed = tuple(family.child for family in chosen)
            family = self._select(candidates(placed, waiting, rule, most))
            chosen.append(family)
            waiting.remove(family.child)
        return tuple(chosen)

    def measure(self, families: tuple[Family, ...]) -> dict[Clique, NDArray[np.float64]]:
        """Release every family's table as consistent proportions on the simplex."""
        sizes = self._door.sizes
        cliques = self._to_measure(families)
        cells = {clique: math.prod(sizes[n] for n in clique) for clique in cliques}
        scales = self._plan.noise_scales(cells)
        noisy = {}
        for i, clique in enumerate(cliques):
            self._report("measuring tables", 0.6 + 0.3 * i / len(cliques))
            noisy[clique] = self._release(clique, scales[clique])
        totals = self._normalisers()
        consistent = make_consistent(
            {clique: table / totals[clique] for clique, table in noisy.items()},
            {clique: (scales[clique] / totals[clique]) ** 2 for clique in cliques},
        )
        return {f.clique: _table_of(f.clique, consistent) for f in families}

    def _expect(self, rule: TableRule, degree: int) -> None:
        """Have every family that can come up counted in one pass over the rows.

        Not if they would fill the memory: then they are counted when they are needed.
        """
        cliques = reachable_cliques(self._names, rule, degree)
        schema = self._door.schema
        if sum(math.prod(schema.extended_shape(clique)) for clique in cliques) <= _CELLS_PER_CALL:
            self._door.expect(cliques)

    def _select(self, families: list[Family]) -> Family:
        # Charged even if only one family is left to choose from: what a fit spends must not depend
        # on what it found, or its total would be an outcome and no guarantee.
        cliques = [family.clique for family in families]
        epsilon = self._plan.selection_epsilon
        return families[self._door.select(cliques, DEPENDENCE, epsilon=epsilon)]

    def _release(self, clique: Clique, scale: float) -> NDArray[np.float64]:
        noise = Noise("laplace" if self._plan.pure else "gaussian", scale)
        released = self._tables.marginal(clique, noise)
        self.totals[clique] = Total(float(released.sum()), released.size * noise.variance)
        return released.astype(np.float64)

    def _to_measure(self, families: tuple[Family, ...]) -> list[Clique]:
        """Cliques to measure: a family inside another one needs no table of its own.

        Of partial marginals nothing is left out, and every one-way margin is added: a smaller
        clique is observed in more rows, so that it is sharper and less biased when cells do not go
        missing completely at random.
        """
        cliques = list(dict.fromkeys(family.clique for family in families))
        if not self._door.every_row_counts:
            return list(dict.fromkeys([*cliques, *((name,) for name in self._names)]))
        return [c for c in cliques if not any(set(c) < set(other) for other in cliques)]

    def _normalisers(self) -> dict[Clique, float]:
        """Rows behind each table: its own noisy sum, or that of all tables if they count alike."""
        if not self._door.every_row_counts:
            return {clique: max(1.0, total.value) for clique, total in self.totals.items()}
        counted = [] if self._rows is None else [self._rows]
        everywhere = least_squares_total([*counted, *self.totals.values()])
        return dict.fromkeys(self.totals, max(1.0, everywhere.value))


def _table_of(clique: Clique, tables: Mapping[Clique, NDArray[np.float64]]) -> NDArray[np.float64]:
    """Table over a clique, from its own measurement or summed out of a larger one."""
    if clique in tables:
        return tables[clique]
    larger = next(other for other in tables if set(clique) <= set(other))
    out = tuple(i for i, name in enumerate(larger) if name not in clique)
    rest = [name for name in larger if name in clique]
    summed = tables[larger].sum(axis=out)
    return np.transpose(summed, [rest.index(name) for name in clique])
