"""Random small graphical models and the brute-force answer to everything about them."""

import itertools

import numpy as np
from hypothesis import strategies as st


@st.composite
def models(draw, max_attributes=5, max_levels=4):
    """Sizes and random parameters on random cliques."""
    d = draw(st.integers(1, max_attributes))
    sizes = [draw(st.integers(1, max_levels)) for _ in range(d)]
    every = [c for k in (1, 2, 3) for c in itertools.combinations(range(d), k)]
    cliques = draw(st.lists(st.sampled_from(every), min_size=1, max_size=6, unique=True))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread = draw(st.sampled_from([0.1, 1.0, 5.0]))
    return sizes, {c: rng.normal(0, spread, [sizes[v] for v in c]) for c in cliques}


def joint(sizes, parameters):
    """Return the whole joint table and log Z, without any cleverness."""
    table = np.zeros(sizes)
    for clique, theta in parameters.items():
        table = table + theta.reshape([sizes[v] if v in clique else 1 for v in range(len(sizes))])
    log_z = np.log(np.exp(table - table.max()).sum()) + table.max()
    return np.exp(table - log_z), log_z


def marginal(table, clique):
    return table.sum(axis=tuple(v for v in range(table.ndim) if v not in clique))


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
    """Margins, and tables of all pairs less the products of their margins."""
    margins = [table_of(rows, (a,), sizes) for a in range(len(sizes))]
    pairs = tables_of(rows, sizes).items()
    return margins, {(a, b): t - np.outer(margins[a], margins[b]) for (a, b), t in pairs}


def apart(rows, tables, sizes):
    """Total variation distances of the tables of rows to others."""
    return [0.5 * np.abs(table_of(rows, c, sizes) - table).sum() for c, table in tables.items()]


CHAIN = (2, 3, 4)


def chain(n=6000, seed=0):
    """Rows of three attributes, of 2, 3 and 4 levels: each tells the next one."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, n)
    b = np.where(rng.random(n) < 0.5, a, rng.integers(0, 3, n))
    return np.stack([a, b, np.where(rng.random(n) < 0.5, b, rng.integers(0, 4, n))], axis=1)
