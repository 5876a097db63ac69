"""Laws of one attribute given all others, of models that draw one attribute after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.inference.heads import Features, Heads
from missdp.inference.model import Codes, draw_each

__all__ = ["full_conditional", "redraw"]

Floats = NDArray[np.float64]

_NEVER = -1e30
_ROWS_AT_ONCE = 20_000


def full_conditional(law: Heads, rows: Codes, a: int) -> Floats:
    """Return the probability of each level of an attribute given the rest of each row.

    Parameters
    ----------
    law : Heads
    rows : ndarray of int64, shape (n, d)
        Complete rows; what they hold of the attribute itself plays no part.
    a : int
        Its position.

    Returns
    -------
    ndarray of float, shape (levels, n)
        By Bayes' rule: proportional to the attribute's own law given the earlier ones, times the
        laws of all later attributes that depend on it.

    Examples
    --------
    >>> from missdp.inference.fit_heads import fit_tree
    >>> table = np.array([[0.4, 0.1], [0.1, 0.4]])
    >>> law = fit_tree([table.sum(1), table.sum(0)], {(0, 1): table - 0.25}, {})
    >>> full_conditional(law, np.array([[0, 0], [0, 1]]), 0).round(2).tolist()
    [[0.8, 0.2], [0.2, 0.8]]
    """
    size = len(law.margins[a])
    known = np.array(rows)
    scores = _scores(law, known, a)
    for b in range(len(law.margins)):
        if (b, a) in law.weights:
            weights = law.weights[b, a]
            without = _scores(law, known, b) - weights[:, known[:, a]]
            without -= without.max(axis=0)
            # exp(s + w) summed over the levels of b, for every level of a: one product of matrices.
            top = weights.max()
            total = np.exp(weights - top).T @ np.exp(without)
            told = np.take_along_axis(without, known[None, :, b], axis=0)
            scores += weights[known[:, b]].T + told - np.log(np.maximum(total, 1e-300)) - top
        for (one, other), possible in law.allowed.items():
            if {one, other} == {a, b} and a != b:
                table = possible if one == a else possible.T
                scores = np.where(table[:, known[:, b]], scores, _NEVER)
    scores -= scores.max(axis=0) if size else 0.0
    found = np.exp(scores)
    return np.asarray(found / found.sum(axis=0))


def redraw(law: Heads, rows: Codes, wanted: tuple[int, ...], rng: np.random.Generator) -> Codes:
    """Return the rows with some attributes drawn anew, one after the other, given all the rest.

    Parameters
    ----------
    law : Heads
    rows : ndarray of int64, shape (n, d)
    wanted : tuple of int
        Positions of the attributes.
    rng : numpy Generator
    """
    found = np.array(rows)
    for start in range(0, len(found), _ROWS_AT_ONCE):
        part = found[start : start + _ROWS_AT_ONCE]
        for a in wanted:
            part[:, a] = draw_each(np.ascontiguousarray(full_conditional(law, part, a).T), rng)
    return found


def _scores(law: Heads, rows: Codes, a: int) -> NDArray[Any]:
    """Return the logarithm of the odds of each level given the earlier attributes."""
    parents = law.parents[a]
    biases = law.biases[a][:, None]
    if not parents:
        return np.repeat(biases, len(rows), axis=1)
    features = Features(rows, parents, [len(m) for m in law.margins])
    weights = np.concatenate([law.weights[a, c] for c in parents], axis=1)
    return np.asarray(features.scores(weights).astype(np.float64) + biases)
