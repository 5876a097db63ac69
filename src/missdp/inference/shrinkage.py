"""Noisy tables leaned on what a model says, by empirical Bayes.

What a released table adds to a model is its residual, less everything that smaller tables tell.
How far residuals are true is told by their size: where it is no more than noise explains, the model
is right, and the table is taken for noise (James and Stein 1961; Efron and Morris 1973).

Everything here is released values and public facts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["centred", "scaled_to", "shrunk"]

Floats = NDArray[np.float64]

_LEAST = 1e-3  # of the model's share of a cell, whatever is released
_SWEEPS = 20
_HELD = 1e-12  # of a margin: no further from it than rounding


def centred(table: Floats) -> Floats:
    """Return a table less its mean along each axis: what its margins do not tell.

    Examples
    --------
    >>> centred(np.array([[3.0, 1.0], [1.0, 1.0]])).tolist()
    [[0.5, -0.5], [-0.5, 0.5]]
    """
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def scaled_to(table: Floats, margins: Sequence[Floats], *, sweeps: int = _SWEEPS) -> Floats:
    """Return a table scaled to one-way margins, by iterative proportional fitting.

    Parameters
    ----------
    table : ndarray
        Nowhere negative; a cell that is 0 stays so.
    margins : sequence of ndarray
        One for each axis.
    sweeps : int

    Examples
    --------
    >>> half = np.array([0.5, 0.5])
    >>> scaled_to(np.array([[3.0, 1.0], [1.0, 3.0]]), [half, half]).tolist()
    [[0.375, 0.125], [0.125, 0.375]]
    """
    others = [tuple(i for i in range(table.ndim) if i != axis) for axis in range(table.ndim)]
    shapes = [[-1 if i == axis else 1 for i in range(table.ndim)] for axis in range(table.ndim)]
    for _ in range(sweeps):
        furthest = 0.0
        for margin, other, shape in zip(margins, others, shapes, strict=True):
            found = table.sum(axis=other)
            factor = np.divide(margin, found, out=np.ones_like(found), where=found > 0)
            table = table * factor.reshape(shape)
            furthest = max(furthest, float(np.abs(factor - 1).max(initial=0.0)))
        if furthest < _HELD:
            break
    return table


def shrunk(
    noisy: Floats,
    base: Floats,
    std: float | Floats,
    *,
    margins: Sequence[Floats] | None = None,
) -> Floats:
    """Return a noisy table leaned on a model's, scaled to one-way margins.

    Parameters
    ----------
    noisy : ndarray
        Released shares of the rows, with as many axes as the clique has attributes.
    base : ndarray
        What the model says; nowhere negative, adding up to 1. A cell that is 0 stays so.
    std : float or ndarray
        Noise of the shares.
    margins : sequence of ndarray, optional
        One-way margins of the result, by axis; by default those of ``base``.

    Returns
    -------
    ndarray
        Nowhere negative.

    Notes
    -----
    Each centred residual has a normal law of variance ``a v + s²``: noise ``s²``, and an error of
    the model proportional to ``v = p (1 − p)``, with one ``a`` for the table, that makes both sides
    add up. Its mean given what was found is ``λ = a v / (a v + s²)`` times the residual.

    Examples
    --------
    >>> base, noisy = np.full((2, 2), 0.25), np.array([[0.4, 0.1], [0.1, 0.4]])
    >>> shrunk(noisy, base, 0.01).round(2).tolist()
    [[0.4, 0.1], [0.1, 0.4]]
    >>> shrunk(noisy, base, 0.5).round(2).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """
    residual = centred(noisy - base)
    degrees = float(np.prod([1 - 1 / size for size in base.shape]))
    noise = np.square(np.broadcast_to(std, base.shape)) * degrees
    spread = np.maximum(base * (1 - base), 0.0)
    excess = max(0.0, float((np.square(residual) - noise).sum()))
    error = excess * spread / max(float(spread.sum()), np.finfo(float).tiny)
    trusted = np.divide(error, error + noise, out=np.zeros_like(error), where=error > 0)
    table = np.maximum(base + trusted * residual, _LEAST * base)
    wanted = margins
    if wanted is None:
        axes = range(base.ndim)
        wanted = [base.sum(axis=tuple(i for i in axes if i != axis)) for axis in axes]
    return scaled_to(table, wanted)
