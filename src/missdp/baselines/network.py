"""Bayesian networks: their structure and tables, draws of rows, and filling of missing cells.

A node is chosen by the distance of its counts from independence of child and parents
(`missdp.session.dependences.dependence`), among all nodes that public facts allow. Everything else
is post-processing of released values.

Rows may be restricted to the combinations that public rules allow. Attributes that are drawn first
keep their distribution. A later attribute depends on its parents, and on the attributes that rules
connect with it. Levels without a possible completion have no chance. Levels are weighted so that
the attribute keeps its released marginal.

Missing cells are filled by a model that has the network's structure, with conditional distributions
of complete cells. It starts at the distribution of each child among rows in which its node is
observed. Then it is re-estimated from the filled synthetic rows, by stochastic
expectation-maximisation. This is the maximum-likelihood estimate for data missing at random (Rubin
1976, Dempster, Laird and Rubin 1977), up to the error of the released model. A dependence that no
node of the network has is missing from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

import numpy as np
from pydantic.dataclasses import dataclass

from missdp.inference.model import cell_index, draw, draw_each
from missdp.inference.raking import raked_rows
from missdp.schema.rule_set import ImpossibleCells
from missdp.serialization import Record
from missdp.session import Clique
from missdp.types import Flags, Floats, Ints

_SWAPS = 60  # rounds of swaps: more rounds improve tables little and take longer


@dataclass(frozen=True, order=True)
class Node(Record):
    """Node of a Bayesian network: an attribute (child) and the attributes it depends on.

    Parameters
    ----------
    child : str
        Name of the attribute.
    parents : tuple of str
        Names of its parents. Empty for an attribute without parents.
    """

    child: str
    parents: Clique

    @property
    def clique(self) -> Clique:
        """Names of the parents and then of the child: the axes of the table of the node."""
        return (*self.parents, self.child)


Codes: TypeAlias = dict[str, Ints]


@dataclass(frozen=True, eq=False)
class Network(Record):
    """Released Bayesian network: each attribute's parents, and its distribution given them.

    PrivBayes fits it. All values are released. Rows are drawn attribute by attribute, and adjusted
    to ``tables`` (raking), because conditional distributions alone do not preserve the joint tables
    of parents.

    Parameters
    ----------
    families : tuple of Node
        The nodes, in the order in which attributes are drawn, parents before children.
    conditionals : mapping of str to ndarray
        For each child, its distribution given its parents, shape ``(parents..., child)``. Sums over
        the last axis are 1.
    tables : dict of tuple of str to ndarray, default {}
        Released joint tables of nodes, as shares of the rows.
    """

    families: tuple[Node, ...]
    conditionals: Mapping[str, Floats]
    tables: dict[Clique, Floats] = field(default_factory=dict)

    @property
    def sizes(self) -> dict[str, int]:
        """Number of levels of each attribute of the network, by name, in the order of the nodes."""
        return {child: table.shape[-1] for child, table in self.conditionals.items()}

    @classmethod
    def from_joints(cls, families: tuple[Node, ...], joints: Mapping[Clique, Floats]) -> Network:
        """Return the network whose conditional distributions follow from released joint tables.

        Empty cells of parents get the marginal distribution of the child.

        Parameters
        ----------
        families : tuple of Node
            The nodes, parents before children.
        joints : mapping of tuple of str to ndarray
            Released table of each node, at least 0, with the axes of its `Node.clique`.

        Returns
        -------
        Network
            A released network with these joint tables.
        """
        conditionals = {f.child: _condition(joints[f.clique]) for f in families}
        return cls(families, conditionals, {f.clique: joints[f.clique] for f in families})

    def sample(self, n: int, rng: np.random.Generator) -> Codes:
        """Draw synthetic rows from the released network, as codes of levels.

        Rows are drawn from parents to children, and adjusted to the joint tables (raking).

        Parameters
        ----------
        n : int
            Number of rows.
        rng : numpy.random.Generator
            Draws the rows.

        Returns
        -------
        dict of str to ndarray of int64, shape (n,)
            Codes by attribute name. Released.
        """
        if not self.tables:
            return self._ancestral(n, rng)
        place = {family.child: i for i, family in enumerate(self.families)}
        tables = {tuple(place[name] for name in c): table for c, table in self.tables.items()}

        def sample(m: int, rng: np.random.Generator) -> Ints:
            return np.stack([*self._ancestral(m, rng).values()]).T  # columns in one piece

        rows = raked_rows(sample, tables, n, rng, rounds=_SWAPS)
        return {name: rows[:, i] for name, i in place.items()}

    def _ancestral(self, n: int, rng: np.random.Generator) -> Codes:
        """Draw ``n`` rows attribute by attribute, each given its parents, evenly."""
        rows = Codes()
        for family in self.families:
            table = self.conditionals[family.child]
            cells = cell_index(rows, family.parents, table.shape[:-1], n)
            rows[family.child] = draw(table.reshape(-1, table.shape[-1]), cells, rng)
        return rows

    def restricted(self, impossible: ImpossibleCells, rng: np.random.Generator) -> Network:
        """Return the network restricted to the combinations of levels that public rules allow.

        Rules whose tables would be too large are not applied.

        Parameters
        ----------
        impossible : mapping of tuple of str to ndarray of bool
            For sets of attributes, flags of the combinations of levels that rules exclude. Public.
        rng : numpy.random.Generator
            Draws rows from which marginals are estimated.

        Returns
        -------
        Network
            A released network. It is this network if no combination is impossible.
        """
        if not impossible:
            return self
        sizes = {f.child: self.conditionals[f.child].shape[-1] for f in self.families}
        ahead = _implied_cells(impossible, sizes)
        families, tables, rows = [], {}, Codes()
        for family in self.families:
            table, child = self.conditionals[family.child], family.child
            cells = cell_index(rows, family.parents, table.shape[:-1], _ROWS)
            wide, new = _with_rules(family, table, ahead, sizes, {*rows})
            wide_cells = cell_index(rows, new.parents, wide.shape[:-1], _ROWS)
            if wide is not table:
                target = _child_marginal(table, cells)
                wide = _with_marginal(wide, wide_cells, target)
            rows[child] = draw(wide.reshape(-1, wide.shape[-1]), wide_cells, rng)
            families.append(new)
            tables[child] = wide
        return Network(tuple(families), tables, self.tables)

    def observed_part(self, sizes: Mapping[str, int]) -> Network:
        """Return the network of the distributions among rows with observed attributes of a node.

        Parameters
        ----------
        sizes : mapping of str to int
            Number of levels of each attribute, without missing.

        Returns
        -------
        Network
            A released network of complete rows, without joint tables.
        """
        conditionals = {}
        for family in self.families:
            inside = tuple(slice(0, sizes[name]) for name in family.clique)
            conditionals[family.child] = _condition(self.conditionals[family.child][inside])
        return Network(self.families, conditionals)

    def filling_model(self, model: Network, n: int, rng: np.random.Generator) -> Network:
        """Return a network of complete rows, learned from incomplete rows of this network.

        It uses stochastic expectation-maximisation. No private rows are read.

        Parameters
        ----------
        model : Network
            Network of complete rows at which the estimation starts.
        n : int
            Number of synthetic rows, of which at most 50,000 are used.
        rng : numpy.random.Generator
            Draws the rows.

        Returns
        -------
        Network
            A released network of complete rows.
        """
        incomplete = self.sample(max(1, min(n, _EM_ROWS)), rng)
        filled = _initial(incomplete, model, rng)
        for _ in range(_EM_ROUNDS):
            filled = _gibbs(filled, incomplete, model, rng, sweeps=_SWEEPS)
            model = _refit(model, filled)
        return model

    def fill_missing(self, incomplete: Codes, rng: np.random.Generator) -> Codes:
        """Draw the missing cells of synthetic rows from this network, given their observed cells.

        Parameters
        ----------
        incomplete : dict of str to ndarray of int64, shape (n,)
            Codes of the rows by attribute name. The code of a missing cell is the number of levels.
        rng : numpy.random.Generator
            Draws the cells.

        Returns
        -------
        dict of str to ndarray of int64, shape (n,)
            Codes of complete rows by attribute name. Released.
        """
        return _gibbs(_initial(incomplete, self, rng), incomplete, self, rng, sweeps=5)


def _condition(joint: Floats) -> Floats:
    """Return the distribution of the last axis given the others, or the marginal, or uniform."""
    flat = joint.reshape(-1, joint.shape[-1])
    marginal = flat.sum(axis=0)
    total = marginal.sum()
    marginal = marginal / total if total > 0 else np.full(len(marginal), 1.0 / len(marginal))
    mass = flat.sum(axis=1, keepdims=True)
    conditional = np.where(mass > 0, flat / np.where(mass > 0, mass, 1.0), marginal)
    return conditional.reshape(joint.shape)


_EM_ROUNDS = 8  # rounds of expectation-maximisation
_SWEEPS = 2  # Gibbs sweeps in a round
_EM_ROWS = 50_000  # largest number of rows


def _initial(incomplete: Codes, model: Network, rng: np.random.Generator) -> Codes:
    """Fill ancestrally: each missing cell from its parents, without other cells."""
    filled: Codes = {}
    for family in model.families:
        codes = incomplete[family.child].copy()
        table = model.conditionals[family.child]
        missing = codes == table.shape[-1]
        cell = cell_index(filled, family.parents, table.shape[:-1], len(codes))[missing]
        distributions = table.reshape(-1, table.shape[-1])
        codes[missing] = draw(distributions, cell, rng)
        filled[family.child] = codes
    return filled


_CELLS_AT_ONCE = 8_000_000  # cells of the distributions of missing cells: 64 MB


def _gibbs(
    filled: Codes, incomplete: Codes, model: Network, rng: np.random.Generator, *, sweeps: int
) -> Codes:
    """Redraw every missing cell given all other cells of its row, ``sweeps`` times."""
    filled, sizes = dict(filled), model.sizes
    for _ in range(sweeps):
        for family in model.families:
            missing = np.flatnonzero(incomplete[family.child] == sizes[family.child])
            codes = filled[family.child].copy()
            step = max(1, _CELLS_AT_ONCE // sizes[family.child])
            for start in range(0, missing.size, step):
                rows = missing[start : start + step]
                codes[rows] = draw_each(_full_conditional(family, model, filled, rows), rng)
            filled[family.child] = codes
    return filled


def _full_conditional(family: Node, model: Network, filled: Codes, rows: Ints) -> Floats:
    """Return the unnormalised distribution of a child given its row, shape ``(rows, child)``."""
    children = [other for other in model.families if family.child in other.parents]
    near = set(family.clique).union(*(other.clique for other in children))
    here = {name: filled[name][rows] for name in near}
    child, tables = family.child, model.conditionals
    direct = _conditional_rows(tables[child], family.clique, child, here)
    product = np.broadcast_to(direct, (len(rows), direct.shape[1])).copy()
    for other in children:
        product *= _conditional_rows(tables[other.child], other.clique, child, here)
    dead = product.sum(axis=1) <= 0
    product[dead] = 1.0
    return product


def _conditional_rows(table: Floats, clique: Clique, free: str, codes: Codes) -> Floats:
    """Look up a table with all attributes of the clique fixed but one, shape ``(rows, free)``."""
    rearranged = np.moveaxis(table, clique.index(free), -1)
    return np.asarray(rearranged[tuple(codes[name] for name in clique if name != free)]).reshape(
        -1, rearranged.shape[-1]
    )


def _refit(model: Network, filled: Codes) -> Network:
    """Estimate the conditional tables from filled rows."""
    conditionals = {}
    n = len(next(iter(filled.values())))
    for family in model.families:
        prior = model.conditionals[family.child]
        cell = cell_index(filled, family.clique, prior.shape, n)
        counts = np.bincount(cell, minlength=prior.size).reshape(prior.shape)
        # Keep a little of the previous law so that no cell of the model dies by sampling.
        conditionals[family.child] = _condition(counts + 0.05 * prior)
    return Network(model.families, conditionals)


_CELLS = 2_000_000  # cells of one conditional table: 16 MB
_ROWS = 50_000  # rows from which marginals are estimated
_ROUNDS = 30  # rounds of weighting
_MAX_WEIGHT = 50.0  # largest relative weight of a level


def _with_rules(
    family: Node,
    table: Floats,
    impossible: ImpossibleCells,
    sizes: Mapping[str, int],
    placed: set[str],
) -> tuple[Floats, Node]:
    """Return the table given also the attributes that rules connect to the child, and its node."""
    child = family.child
    for names, cells in impossible.items():
        if child in names and placed.issuperset({*names} - {child}):
            parents = (*family.parents, *(n for n in names if n not in family.clique))
            if sizes[child] * math.prod(sizes[n] for n in parents) <= _CELLS:
                table = _restricted(table, (*parents, child), names, cells, sizes)
                family = Node(child, parents)
    return table, family


def _child_marginal(table: Floats, cells: Ints) -> Floats:
    """Return the marginal of the child over rows in these cells of its parents."""
    flat = table.reshape(-1, table.shape[-1])
    share = np.bincount(cells, minlength=len(flat)) / len(cells)
    return np.asarray(share @ flat)


def _with_marginal(table: Floats, cells: Ints, target: Floats) -> Floats:
    """Weight the levels of the child so that its marginal is close to the target."""
    weight = np.ones(len(target))
    for _ in range(_ROUNDS):
        marginal = _child_marginal(_weighted(table, weight), cells)
        weight *= np.where(marginal > 0, target / np.maximum(marginal, 1e-12), 1.0)
        weight = weight / max(weight.max(), 1e-300) * _MAX_WEIGHT
        weight = np.clip(weight, 1 / _MAX_WEIGHT, _MAX_WEIGHT)
    return _weighted(table, weight)


def _weighted(table: Floats, weight: Floats) -> Floats:
    weighted = table * weight
    return np.asarray(weighted / np.maximum(weighted.sum(axis=-1, keepdims=True), 1e-300))


def _implied_cells(impossible: ImpossibleCells, sizes: Mapping[str, int]) -> dict[Clique, Flags]:
    """Add the impossible cells that would leave a later attribute without any level.

    Attributes are eliminated from the last one drawn to the first. The tables of an attribute
    together exclude cells of earlier attributes, which form one more table (bucket elimination,
    Dechter 1999).
    """
    tables = dict(impossible)
    place = {name: i for i, name in enumerate(sizes)}
    for last in reversed(list(sizes)):
        about = [names for names in tables if max(names, key=place.__getitem__) == last]
        near = {name for names in about for name in names if name != last}
        clique = (*sorted(near, key=place.__getitem__), last)
        if not near or math.prod(sizes[name] for name in clique) > _CELLS:
            continue
        never = np.zeros([sizes[name] for name in clique], dtype=bool)
        for names in about:
            never |= _aligned(clique, names, tables[names], sizes)
        dead = never.all(axis=-1)
        if dead.any():
            tables[clique[:-1]] = dead | tables.get(clique[:-1], np.zeros_like(dead))
    return tables


def _restricted(
    table: Floats, clique: Clique, names: Clique, cells: Flags, sizes: Mapping[str, int]
) -> Floats:
    """Return a table with more parents, zero in impossible cells."""
    shape = tuple(sizes[name] for name in clique)
    wide = table.reshape(table.shape[:-1] + (1,) * (len(shape) - table.ndim) + table.shape[-1:])
    wide = np.broadcast_to(wide, shape)
    possible = ~_aligned(clique, names, cells, sizes)
    allowed = wide * possible
    # Without a possible level of positive mass, all possible levels. Without those, the table.
    total = allowed.sum(axis=-1, keepdims=True)
    some = np.broadcast_to(possible.any(axis=-1, keepdims=True), total.shape)
    allowed = np.where(total > 0, allowed, np.where(some, possible * np.ones(shape), wide))
    return np.asarray(allowed / allowed.sum(axis=-1, keepdims=True))


def _aligned(clique: Clique, names: Clique, cells: Flags, sizes: Mapping[str, int]) -> Flags:
    """Return impossible cells with an axis for each of a clique's attributes."""
    never = np.pad(cells, [(0, sizes[n] - k) for n, k in zip(names, cells.shape, strict=True)])
    order = sorted(range(len(names)), key=lambda i: clique.index(names[i]))
    return never.transpose(order).reshape([sizes[n] if n in names else 1 for n in clique])
