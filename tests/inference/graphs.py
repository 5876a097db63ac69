"""Tables of rows, and how far rows are from tables."""

import itertools

import numpy as np


def table_of(rows, clique, sizes, weights=None):
    """Shares of the cells of some attributes, among rows that may be weighted."""
    shape = [sizes[v] for v in clique]
    flat = np.ravel_multi_index(tuple(rows[:, v] for v in clique), shape)
    counts = np.bincount(flat, weights=weights, minlength=int(np.prod(shape))).reshape(shape)
    return counts / counts.sum()


def tables_of(rows, sizes, k=2, weights=None):
    """The same of all pairs, or of as many attributes."""
    cliques = itertools.combinations(range(len(sizes)), k)
    return {clique: table_of(rows, clique, sizes, weights) for clique in cliques}


def dependence(rows, sizes):
    """Return marginals, and tables of all pairs minus the products of their marginals."""
    margins = [table_of(rows, (a,), sizes) for a in range(len(sizes))]
    pairs = tables_of(rows, sizes).items()
    return margins, {(a, b): t - np.outer(margins[a], margins[b]) for (a, b), t in pairs}


def apart(rows, tables, sizes):
    """Total variation distances of the tables of rows to others."""
    return [0.5 * np.abs(table_of(rows, c, sizes) - table).sum() for c, table in tables.items()]


CHAIN = (2, 3, 4)


def chain(n=6000, seed=0):
    """Return rows of three attributes with 2, 3 and 4 levels. Each depends on the previous one."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, n)
    b = np.where(rng.random(n) < 0.5, a, rng.integers(0, 3, n))
    return np.stack([a, b, np.where(rng.random(n) < 0.5, b, rng.integers(0, 4, n))], axis=1)
