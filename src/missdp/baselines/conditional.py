"""A generator that is asked for one level of one attribute, and a critic that knows the question.

Published code draws a condition first, and then a real row that meets it. A row with a rare level
is then read far more often than it is charged for. Here each step samples rows, every row by itself
and all at one rate, and shows a row with every level that it has, each counting the same: what it
says to the critic is a function of the row alone, so that a step is one sampled Gaussian.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.baselines.contest import Blocks, Pace, Torch, contest
from missdp.baselines.critics import conditional_gradient, random_critic
from missdp.baselines.networks import NetworkModel, calibrated, random_layers, same_masks
from missdp.baselines.rows_side import RowsSide
from missdp.baselines.starts import START, known_margins, network_start
from missdp.mechanisms.door import Door
from missdp.synth.learn_pairs import Crude

__all__ = ["conditioned"]

Floats = NDArray[np.float64]

_LATENT = 16
_HIDDEN = 64
_CRITIC = 32
_HEAT = 0.66


def conditioned(
    door: Door,
    crude: Crude,
    pace: Pace,
    *,
    torch: Any,
    always: Mapping[int, int],
    report: Callable[[float], None],
) -> NetworkModel:
    """Return a generator with conditions, its critic trained with all that is left of the budget.

    Parameters
    ----------
    door, crude, pace, torch, always, report
        See `missdp.baselines.mlp_misgan.mlp_misgan`.
    """
    rng = door.generator()
    margins, rates, holed = known_margins(crude)
    blocks = Blocks(Torch(torch, rng), [len(m) for m in margins], margins, _HEAT)
    width = blocks.starts[-1]
    scores = np.log(np.concatenate(margins))
    values = random_layers([_LATENT + width, _HIDDEN, _HIDDEN, width], rng, last=START, out=scores)
    observed = np.ones(len(margins))
    observed[list(holed)] = 1 - rates
    model = replace(
        network_start(crude, values, same_masks(rates), sees_values=False, always=always),
        conditions=tuple(margins),
        asked=observed,
    )
    side = RowsSide(model, blocks, pace.batch, observed)
    levels = rng.standard_normal((width, _CRITIC)) * (2 / width) ** 0.5
    found = contest(
        door,
        conditional_gradient,
        (np.array(blocks.starts), np.concatenate(margins)),
        [levels, *random_critic(width, _CRITIC, rng)],
        side,
        pace,
        torch=blocks.torch,
        rows=crude.rows,
        report=report,
        label="critic of rows and conditions",
    )
    return calibrated(side.model_of(found), margins, rates, rng)
