"""Post-processing of noisy marginals: onto the simplex, and in agreement with each other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["make_consistent", "project_to_simplex"]

_ROUNDS = 5


def project_to_simplex(counts: NDArray[np.float64], total: float = 1.0) -> NDArray[np.float64]:
    """Return the point of ``{p >= 0, sum p = total}`` nearest to ``counts`` in Euclidean distance.

    Unlike clipping at zero and dividing by the sum, this does not hand the mass of clipped
    negative noise to the large cells in proportion: it subtracts one constant everywhere.

    Parameters
    ----------
    counts : array of float, any shape
        Noisy counts, negative ones included.
    total : float, positive

    Returns
    -------
    array of float, same shape

    Examples
    --------
    >>> project_to_simplex(np.array([0.7, 0.5, -0.2])).round(2).tolist()
    [0.6, 0.4, 0.0]
    """
    flat = counts.ravel()
    ordered = np.sort(flat)[::-1]
    thresholds = (np.cumsum(ordered) - total) / np.arange(1, flat.size + 1)
    last = np.flatnonzero(ordered > thresholds)[-1]
    return np.asarray(np.maximum(counts - thresholds[last], 0.0))


def make_consistent(
    tables: Mapping[tuple[str, ...], NDArray[np.float64]],
    variances: Mapping[tuple[str, ...], float],
) -> dict[tuple[str, ...], NDArray[np.float64]]:
    """Make noisy proportion tables agree on the attributes they share, and non-negative.

    Each attribute's one-way margin is estimated from every table that contains it, weighted by
    the inverse of its variance (a margin over many cells is noisier), and the difference is spread
    evenly over the cells of each table; then each table is projected onto the simplex. A few
    rounds suffice. Post-processing: no privacy cost.

    Parameters
    ----------
    tables : mapping of clique to array
        Proportions; noise makes them negative here and there.
    variances : mapping of clique to float
        Noise variance of one cell of each table, in the same unit.

    Returns
    -------
    dict of clique to array
        Tables on the simplex.

    Examples
    --------
    >>> ab, b = np.array([[0.5, 0.1], [0.1, 0.3]]), np.array([0.7, 0.3])
    >>> out = make_consistent({("a", "b"): ab, ("b",): b}, {("a", "b"): 1.0, ("b",): 1.0})
    >>> out["a", "b"].sum(axis=0).round(3).tolist() == out["b",].round(3).tolist()
    True
    """
    current = {clique: np.array(table, dtype=np.float64) for clique, table in tables.items()}
    attributes = sorted({name for clique in current for name in clique})
    for _ in range(_ROUNDS):
        for name in attributes:
            _agree_on(name, current, variances)
        current = {clique: project_to_simplex(table) for clique, table in current.items()}
    return current


def _agree_on(
    name: str,
    tables: dict[tuple[str, ...], NDArray[np.float64]],
    variances: Mapping[tuple[str, ...], float],
) -> None:
    cliques = [clique for clique in tables if name in clique]
    if len(cliques) < 2:
        return
    margins, weights, summed = [], [], []
    for clique in cliques:
        axis = clique.index(name)
        others = tuple(i for i in range(len(clique)) if i != axis)
        margins.append(tables[clique].sum(axis=others))
        summed.append(tables[clique].size // tables[clique].shape[axis])
        weights.append(1.0 / (variances[clique] * summed[-1]))
    best = np.average(margins, axis=0, weights=weights)
    for clique, margin, cells in zip(cliques, margins, summed, strict=True):
        shape = [1] * len(clique)
        shape[clique.index(name)] = -1
        tables[clique] += ((best - margin) / cells).reshape(shape)
