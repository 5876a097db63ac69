"""Tables of three or more attributes in a model of pairs: what pairs do not tell.

A head of `missdp.inference.heads` adds up effects of single earlier attributes. Where a table of
several attributes was measured, the one that is drawn last gets an effect of all others together,
by iterative scaling of the law of its level given theirs.

Everything here is a function of released values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.inference.junction import Clique
from missdp.inference.masks import MaskModel
from missdp.inference.model import cell_index
from missdp.inference.raking import shrunk
from missdp.types import Floats, Ints

_PRIOR_ROWS = 5.0  # strength with which a cell's chance to be observed leans on that of all
_LEAST_CHANCE = 0.02
_LEAST_BASE = 0.1  # of independence: what few rows of a model lack may still be there
_ROUNDS = 15
_STEP = 3.0  # in logarithms
_MOST = 20.0
_NEVER = 1e-12
_STILL = 1e-4


def completed(
    counts: Mapping[Clique, Floats],
    stds: Mapping[Clique, float],
    masks: MaskModel,
    rows: Ints,
    sizes: Sequence[int],
    *,
    leaned: bool = True,
) -> dict[Clique, Floats]:
    """Return what noisy tables with missing values say of complete rows, leaned on a model's rows.

    Observed cells are divided by their chance to be observed, as those of pairs are. If not
    ``leaned``, shares are as they come out, and noise makes some negative.
    """
    if not counts:
        return {}
    missing, columns = masks.missing(rows), np.ascontiguousarray(rows.T)
    found = {}
    for clique, table in counts.items():
        shape = tuple(sizes[a] for a in clique)
        cells = cell_index(columns, clique, shape, len(rows))
        seen = masks.observed(rows, clique, missing)
        number = np.bincount(cells, minlength=math.prod(shape)).astype(np.float64)
        weighted = np.bincount(cells, seen, len(number)) + _PRIOR_ROWS * seen.mean()
        chance = np.maximum(weighted / (number + _PRIOR_ROWS), _LEAST_CHANCE).reshape(shape)
        whole = table[tuple(map(slice, shape))] / chance
        total = max(1.0, float(whole.sum()))
        if not leaned:
            found[clique] = whole / total
            continue
        margins = [np.bincount(columns[a], minlength=sizes[a]) / len(rows) for a in clique]
        alone = margins[0]
        for margin in margins[1:]:
            alone = np.multiply.outer(alone, margin)
        base = np.maximum(number.reshape(shape) / len(rows), _LEAST_BASE * alone)
        found[clique] = shrunk(whole / total, base / base.sum(), stds[clique] / total / chance)
    return found


def last_of(clique: Clique, order: Sequence[int]) -> Clique:
    """Return a clique with the attribute first that is drawn last."""
    last = max(clique, key=list(order).index)
    return (last, *(a for a in clique if a != last))


def fit_interactions(
    scores: NDArray[Any], rows: Ints, tables: Mapping[Clique, Floats], order: Sequence[int]
) -> dict[Clique, Floats]:
    """Find what is to be added to the logarithms of one attribute's law, so that tables hold.

    Parameters
    ----------
    scores : ndarray, shape (levels, rows)
        Logarithms of the law without that, up to a constant in each row.
    rows : ndarray of int64
        Rows that hold all attributes before it.
    tables : mapping of Clique to ndarray
        Of that attribute, which is drawn last of each, and others.
    order : sequence of int
        In which attributes are drawn.
    """
    scores = scores.astype(np.float64)
    columns, found = np.ascontiguousarray(rows.T), {}
    turned = {last_of(clique, order): clique for clique in tables}
    for own, clique in turned.items():
        table = tables[clique].transpose([clique.index(a) for a in own])
        cells = cell_index(columns, own[1:], table.shape[1:], len(rows))
        found[own] = (np.zeros(table.shape), table.reshape(len(table), -1), cells)
    for _ in range(_ROUNDS):
        moved = 0.0
        for total, table, cells in found.values():
            law = np.exp(scores - scores.max(axis=0))
            law /= law.sum(axis=0)
            here = np.stack([np.bincount(cells, level, table.shape[1]) for level in law])
            aim = table * (here.sum(axis=0) / np.maximum(table.sum(axis=0), _NEVER))
            moved += float(np.abs(aim - here).sum()) / len(rows)
            step = np.log(np.maximum(aim, _NEVER) / np.maximum(here, _NEVER))
            flat = total.reshape(table.shape)
            step = np.clip(flat + np.clip(step, -_STEP, _STEP), -_MOST, _MOST) - flat
            flat += step
            scores += step[:, cells]
        if moved < _STILL:
            break
    return {own: total for own, (total, _, _) in found.items()}
