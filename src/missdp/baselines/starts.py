"""Where generators start: at the released margins, and holes at their released rates."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from missdp.baselines.networks import Layers, NetworkModel, same_masks
from missdp.synth.learn_pairs import Crude

__all__ = ["START", "known_margins", "margins_only", "network_start"]

Floats = NDArray[np.float64]

START = 0.1
"""Factor of the last weights of a generator, small enough for it to be near the margins."""

_LEAST = 1e-6  # share of a level


def known_margins(crude: Crude) -> tuple[list[Floats], Floats, tuple[int, ...]]:
    """Return margins of what is observed, rates of what is missing, and which may be missing."""
    margins, rates = [], []
    for margin, level in zip(crude.margins, crude.levels, strict=True):
        known = np.maximum(margin[: level.n_groups], _LEAST)
        margins.append(known / known.sum())
        rates.append(float(margin[level.n_groups :].sum()))
    holed = tuple(a for a, rate in enumerate(rates) if len(crude.margins[a]) > len(margins[a]))
    return margins, np.array(rates)[list(holed)], holed


def network_start(
    crude: Crude, values: Layers, masks: Layers, *, sees_values: bool, always: Mapping[int, int]
) -> NetworkModel:
    """Return a model of networks before any training, calibrated to nothing yet."""
    holed = known_margins(crude)[2]
    return NetworkModel(
        levels=crude.levels,
        values=values,
        masks=masks,
        holed=holed,
        sees_values=sees_values,
        always={a: level for a, level in always.items() if a in holed},
        conditions=(),
        asked=np.zeros(0),
        n_rows=crude.rows,
    )


def margins_only(crude: Crude, always: Mapping[int, int]) -> NetworkModel:
    """Return a model of independent attributes, with the released margins."""
    margins, rates, _ = known_margins(crude)
    scores = np.log(np.concatenate(margins))
    values = Layers((np.zeros((1, len(scores))),), (scores,), ())
    return network_start(crude, values, same_masks(rates), sees_values=False, always=always)
