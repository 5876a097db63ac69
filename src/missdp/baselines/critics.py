"""Gradients of small networks for every single row: of critics, and of autoencoders.

Private training clips the gradient of each row, so what is needed is one gradient for each row and
not their sum. Back-propagation by hand, in NumPy, is the quickest way to them on a processor: most
of a row's gradient lies in the first layer, at the levels that the row has, and is written there
without any multiplication (`bench/neural.py` compares it with torch).

A network reads a row as one block of levels for each attribute. The block of a missing attribute is
0, or, in the families that say so, its first layer takes the expectation over what is missing
(Śmieja et al. 2018): given released margins, what a unit is fed with has the mean μ and the
variance s² over what the missing cells may hold, and its activation is replaced by its expectation,
as if that were Gaussian.

All functions treat every row by itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from missdp.baselines.networks import LEAK
from missdp.types import Floats, Ints

Rows = Mapping[str, Ints]

_LEAST_VARIANCE = 1e-12


def two_critics_gradient(
    codes: Rows, starts: Ints, holed: Ints, *weights: Floats
) -> tuple[Floats, ...]:
    """Return, for each row, the gradient of what it says to the critics of values and of masks.

    The loss of a real row is softplus(-score), for either critic, and both gradients together are
    one vector, clipped as such. Only the mask critic sees masks of rows as numbers; the critic of
    values (w, b) sees a block of zeros where an attribute is missing; the one of masks is (v, c).
    """
    w1, b1, w2, b2, w3, b3, v1, c1, v2, c2, v3, c3 = weights
    columns = list(codes.values())
    nothing = np.zeros((len(columns), len(b1)))  # is what a missing attribute feeds
    fed = _moments(columns, starts, (nothing, nothing), w1, 0 * b1)[0] + b1
    parts, under = _upper(_leaky(fed), w2, b2, w3, b3)
    back = under * _slope(fed)
    first = _first(columns, starts, w1.shape, back)
    seen = np.stack([columns[a] < starts[a + 1] - starts[a] for a in holed], axis=1).astype(float)
    fed = _times(seen, v1) + c1
    masks, under = _upper(_leaky(fed), v2, c2, v3, c3)
    behind = under * _slope(fed)
    return first, back, *parts, seen[:, :, None] * behind[:, None, :], behind, *masks


def expected_gradient(
    codes: Rows, starts: Ints, margins: Floats, *weights: Floats
) -> tuple[Floats, ...]:
    """Return, for each row, the gradient of softplus(-score), its holes taken in expectation."""
    w1, b1, w2, b2, w3, b3 = weights
    columns = list(codes.values())
    laws = _laws(starts, margins, w1)
    mean, variance = _moments(columns, starts, laws, w1, b1)
    out, slope, spread = _expected(mean, variance)
    parts, under = _upper(out, w2, b2, w3, b3)
    first = _first_expected(columns, starts, margins, laws, w1, under * slope, under * spread)
    return first, under * slope, *parts


def conditional_gradient(
    codes: Rows, starts: Ints, margins: Floats, *weights: Floats
) -> tuple[Floats, ...]:
    """Return, for each row, the gradient of a critic of rows and conditions.

    A condition is one level of one attribute. A real row is shown with each of the levels that it
    has, and its loss is the mean of softplus(-score) over these conditions: a function of the row
    alone, whatever others have. A row with nothing observed has no condition, and gradient 0.
    """
    u1, w1, b1, w2, b2, w3, b3 = weights
    columns, d = list(codes.values()), len(codes)
    laws = _laws(starts, margins, w1)
    mean, variance = _moments(columns, starts, laws, w1, b1)
    rows, hidden = mean.shape
    sizes = np.diff(starts)
    seen = np.stack([c < k for c, k in zip(columns, sizes, strict=True)], axis=1)
    level = np.stack([np.minimum(c, k - 1) for c, k in zip(columns, sizes, strict=True)], axis=1)
    level = level + starts[:-1]
    share = seen / np.maximum(1, seen.sum(axis=1, keepdims=True))
    fed = (mean[:, None, :] + u1[level]).reshape(rows * d, hidden)
    out, slope, spread = _expected(fed, np.repeat(variance, d, axis=0))
    said, under = _upper(out, w2, b2, w3, b3, share=share.reshape(-1))
    back, behind = ((under * by).reshape(rows, d, hidden) for by in (slope, spread))
    conditions = np.zeros((rows, *u1.shape))
    conditions[np.arange(rows)[:, None], level] = back
    total = back.sum(axis=1)
    first = _first_expected(columns, starts, margins, laws, w1, total, behind.sum(axis=1))
    # `said` holds one value per row and condition; what is wanted is their sum over conditions.
    upper = out.reshape(rows, d, hidden).transpose(0, 2, 1)
    second = np.matmul(upper, said[1].reshape(rows, d, hidden))
    rest = [part.reshape(rows, d, -1).sum(axis=1) for part in said[1:]]
    return conditions, first, total, second, *rest


def autoencoder_gradient(
    codes: Rows, starts: Ints, margins: Floats, *weights: Floats
) -> tuple[Floats, ...]:
    """Return, for each row, the gradient of the cross entropy of its observed cells.

    The encoder (w) takes missing cells in expectation; the decoder (v) has a law for each
    attribute.
    """
    w1, b1, w2, b2, v1, c1, v2, c2 = weights
    columns = list(codes.values())
    laws = _laws(starts, margins, w1)
    out, slope, spread = _expected(*_moments(columns, starts, laws, w1, b1))
    code = np.tanh(_times(out, w2) + b2)
    fed = _times(code, v1) + c1
    hidden = _leaky(fed)
    off = hidden @ v2 + c2
    for a, column in enumerate(columns):
        part = off[:, starts[a] : starts[a + 1]]
        part -= part.max(axis=1, keepdims=True)
        np.exp(part, out=part)
        part /= part.sum(axis=1, keepdims=True)
        seen = np.flatnonzero(column < part.shape[1])
        part[column >= part.shape[1]] = 0.0
        part[seen, column[seen]] -= 1.0
    back = (off @ v2.T) * _slope(fed)
    below = (back @ v1.T) * (1 - code**2)
    under = below @ w2.T
    first = _first_expected(columns, starts, margins, laws, w1, under * slope, under * spread)
    return (
        first,
        under * slope,
        out[:, :, None] * below[:, None, :],
        below,
        code[:, :, None] * back[:, None, :],
        back,
        hidden[:, :, None] * off[:, None, :],
        off,
    )


def _times(rows: Floats, weights: Floats) -> Floats:
    """Return the product, added up in one order whatever the other rows are: kinks follow."""
    return np.asarray(np.einsum("rk,kj->rj", rows, weights))


def _leaky(fed: Floats) -> Floats:
    return np.maximum(fed, LEAK * fed)


def _slope(fed: Floats) -> Floats:
    return np.where(fed > 0, 1.0, LEAK)


def _first(columns: list[Ints], starts: Ints, shape: tuple[int, ...], back: Floats) -> Floats:
    """Gradients of the first layer: at the levels that a row has."""
    found = np.zeros((len(back), *shape))
    for a, column in enumerate(columns):
        seen = np.flatnonzero(column < starts[a + 1] - starts[a])
        found[seen, starts[a] + column[seen]] = back[seen]
    return found


def _upper(
    out: Floats, w2: Floats, b2: Floats, w3: Floats, b3: Floats, share: Floats | None = None
) -> tuple[tuple[Floats, ...], Floats]:
    """Gradients above the first layer, and by its activations; not yet of ``w2``, if shared."""
    from scipy.special import expit

    fed = _times(out, w2) + b2
    hidden = _leaky(fed)
    end = -expit(-(hidden @ w3 + b3))
    if share is not None:
        end = end * share
    below = end[:, None] * w3 * _slope(fed)
    second = below if share is not None else out[:, :, None] * below[:, None, :]
    return (second, below, end[:, None] * hidden, end[:, None]), below @ w2.T


def _laws(starts: Ints, margins: Floats, w1: Floats) -> tuple[Floats, Floats]:
    """Mean and variance that each attribute has in the first layer, if it is missing."""
    mean = np.add.reduceat(margins[:, None] * w1, starts[:-1], axis=0)
    square = np.add.reduceat(margins[:, None] * w1**2, starts[:-1], axis=0)
    return mean, np.maximum(square - mean**2, 0.0)


def _moments(
    columns: list[Ints], starts: Ints, laws: tuple[Floats, Floats], w1: Floats, b1: Floats
) -> tuple[Floats, Floats]:
    """Mean and variance of what the first layer is fed with, given what is observed."""
    mean = np.zeros((len(columns[0]), w1.shape[1])) + b1
    variance = np.zeros_like(mean)
    for a, column in enumerate(columns):
        mean += np.append(w1[starts[a] : starts[a + 1]], laws[0][a : a + 1], axis=0)[column]
        variance += (column >= starts[a + 1] - starts[a])[:, None] * laws[1][a]
    return mean, variance


def _expected(mean: Floats, variance: Floats) -> tuple[Floats, Floats, Floats]:
    """Expected activation, and its derivatives by mean and by variance; no variance, no change."""
    from scipy.special import ndtr

    sure = variance <= _LEAST_VARIANCE
    s = np.sqrt(np.where(sure, 1.0, variance))
    z = mean / s
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    below = ndtr(z)
    out = np.where(sure, np.maximum(mean, 0.0), s * density + mean * below)
    slope = np.where(sure, mean > 0, below)
    spread = np.where(sure, 0.0, density / (2 * s))
    return LEAK * mean + (1 - LEAK) * out, LEAK + (1 - LEAK) * slope, (1 - LEAK) * spread


def _first_expected(
    columns: list[Ints],
    starts: Ints,
    margins: Floats,
    laws: tuple[Floats, Floats],
    w1: Floats,
    back: Floats,
    spread: Floats,
) -> Floats:
    """Gradients of the first layer: at the levels that a row has, or at all that it may have."""
    found = _first(columns, starts, w1.shape, back)
    for a, column in enumerate(columns):
        span = slice(starts[a], starts[a + 1])
        holes = np.flatnonzero(column >= starts[a + 1] - starts[a])
        if not holes.size:
            continue
        p = margins[span, None]
        off = 2 * p * (w1[span] - laws[0][a])
        found[holes, span] = p * back[holes, None, :] + off * spread[holes, None, :]
    return found
