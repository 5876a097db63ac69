"""A critic of pairs that is trained on the private rows, step by step (DP-SGD).

The critic is linear in a row's pair features, so the gradient of its loss for a private row is that
row's features, whatever its weights are. Each step adds up the clipped features of a fresh sample
of rows, and noise; weights are the mean of all steps. One charge, planned before the first step,
pays for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from missdp.baselines.pair_moments import PairMoments
from missdp.mechanisms.door import Door, Training
from missdp.synth.learn_pairs import Crude, plan_products

__all__ = ["trained_moments"]

Floats = NDArray[np.float64]

_NUMBERS_AT_ONCE = 1 << 18  # of the features of a block of rows: what a cache holds
_MOST_AT_ONCE = 256


def trained_moments(
    door: Door,
    crude: Crude,
    *,
    clip: float | str,
    steps: int,
    batch: int,
    report: Callable[[float], None],
) -> PairMoments:
    """Return what a trained critic knows, for all that is left of a door's budget.

    Parameters
    ----------
    door : Door
        Its budget counts divergences at a Rényi order.
    crude : Crude
        Of its attributes.
    clip : "auto" or float
        L2 norm to which the features of a row are clipped.
    steps : int
    batch : int
        Rows that a step is expected to read.
    report : callable
        Told the share of the work that is done.
    """
    names = door.schema.names
    plan = plan_products(names, crude, door.left, clip=clip)  # type: ignore[arg-type]
    blocks = tuple(plan.blocks[name] for name in names)
    table, starts = _stacked(blocks)
    left, right = _products(blocks)
    setting = Training.worth(
        door.left, rate=min(1.0, batch / crude.rows), steps=steps, clip=plan.clip
    )
    state = (table, starts, left, right, np.array(plan.alone))
    training = door.merged(crude.groups(names)).train(
        setting,
        _features,
        state,
        rows_at_once=max(1, min(_MOST_AT_ONCE, _NUMBERS_AT_ONCE // max(1, len(left)))),
        label="critic of all pairs",
    )
    total = np.zeros(table.shape[1] + len(left))
    for step in range(steps):
        total += training.step(*state)
        report((step + 1) / steps)
    expected = setting.rate * steps * crude.rows
    mean, width = total / expected, table.shape[1]
    noise = training.noise_std * math.sqrt(steps) / expected
    # Which rows were sampled is chance as well: a row's features are at most as long as the clip.
    sampled = (1 - setting.rate) / expected * plan.clip**2 / len(total)
    std = math.sqrt(noise**2 + sampled)
    products = np.zeros((width, width))
    products[left, right] = products[right, left] = mean[width:]
    return PairMoments(
        crude,
        blocks,
        mean[:width] / plan.alone,
        products,
        std / plan.alone,
        std,
        plan.clip,
        plan.alone,
    )


def _stacked(blocks: tuple[Floats, ...]) -> tuple[Floats, NDArray[np.int64]]:
    """Return the blocks of all attributes in one table, each in columns of its own."""
    heights, widths = zip(*(block.shape for block in blocks), strict=True)
    rows, columns = np.cumsum([0, *heights]), np.cumsum([0, *widths])
    table = np.zeros((int(rows[-1]), int(columns[-1])))
    for a, block in enumerate(blocks):
        table[rows[a] : rows[a + 1], columns[a] : columns[a + 1]] = block
    return table, np.asarray(rows[:-1], dtype=np.int64)


def _products(blocks: tuple[Floats, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of the two numbers of each product, those of the earlier block first."""
    whose = np.repeat(np.arange(len(blocks)), [block.shape[1] for block in blocks])
    left, right = np.nonzero(whose[:, np.newaxis] < whose)
    return left.astype(np.int64), right.astype(np.int64)


def _features(
    codes: Mapping[str, NDArray[np.int64]],
    table: Floats,
    starts: NDArray[np.int64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    alone: Floats,
) -> Floats:
    """Return the features of each row: its blocks, and their products."""
    columns = list(codes.values())
    whole = np.zeros((len(columns[0]), table.shape[1]))
    for start, column in zip(starts, columns, strict=True):
        whole += table[start + column]
    return np.concatenate([alone * whole, whole[:, left] * whole[:, right]], axis=1)
