"""An autoencoder of rows, encoder and decoder trained privately together, and a generator of codes.

Published code trains the decoder privately and the encoder not. But one row then moves the encoder,
the encoder moves the codes of all rows, and these move every gradient of the decoder: clipping each
row's gradient bounds nothing. Here a row's clipped vector holds what it says to both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.baselines.contest import Blocks, Pace, Torch, adam, contest, descend, planned
from missdp.baselines.critics import autoencoder_gradient, expected_gradient, random_critic
from missdp.baselines.networks import (
    Layers,
    NetworkModel,
    calibrated,
    random_layers,
    same_masks,
)
from missdp.baselines.rows_side import RowsSide
from missdp.baselines.starts import known_margins, network_start
from missdp.mechanisms.door import Door
from missdp.synth.learn_pairs import Crude

__all__ = ["autoencoded"]

Floats = NDArray[np.float64]

_LATENT = 16
_HIDDEN = 32
_CODE = 12
_CRITIC = 32
_HEAT = 0.66
_ROWS_AT_ONCE = 32


def autoencoded(
    door: Door,
    crude: Crude,
    coder: Pace,
    pace: Pace,
    *,
    share: float,
    torch: Any,
    always: Mapping[int, int],
    report: Callable[[float], None],
) -> NetworkModel:
    """Return a generator whose last maps are a decoder, trained with all that is left.

    Parameters
    ----------
    door : Door
        To rows on groups of levels.
    crude : Crude
        Released margins.
    coder, pace : Pace
        Of the autoencoder, and of the critic and generator.
    share : float
        Share of what is left for the autoencoder.
    torch : module
    always : mapping of int to int
        By attribute, a group of levels that is never missing.
    report : callable
        Told the share of the work that is done.
    """
    rng = door.generator()
    margins, rates, holed = known_margins(crude)
    blocks = Blocks(Torch(torch, rng), [len(m) for m in margins], margins, _HEAT)
    first = coder.steps / (coder.steps + pace.steps)
    part = door.reserve(door.share(share), label="autoencoder")
    coded = _trained(
        part, crude, coder, blocks, _random_autoencoder(margins, rng), lambda d: report(first * d)
    )
    generator = random_layers([_LATENT, _HIDDEN, _CODE], rng)
    chain = Layers(
        (*generator.weights, coded[4], coded[6]),
        (*generator.biases, coded[5], coded[7]),
        ("leaky", "tanh", "leaky"),
    )
    model = network_start(crude, chain, same_masks(rates), sees_values=False, always=always)
    model = calibrated(model, margins, rates, rng)
    observed = np.ones(len(margins))
    observed[list(holed)] = 1 - rates
    side = RowsSide(model, blocks, pace.batch, observed, frozen=2)
    found = contest(
        door,
        expected_gradient,
        (np.array(blocks.starts), np.concatenate(margins)),
        random_critic(blocks.starts[-1], _CRITIC, rng),
        side,
        pace,
        torch=blocks.torch,
        rows=crude.rows,
        report=lambda d: report(first + (1 - first) * d),
        label="critic of rows",
    )
    return calibrated(side.model_of(found), margins, rates, rng)


def _random_autoencoder(margins: list[Floats], rng: np.random.Generator) -> list[Floats]:
    """Return the parameters of an encoder and of a decoder that says margins, nearly."""
    scores = np.log(np.concatenate(margins))
    width = len(scores)
    encoder = random_layers([width, _HIDDEN, _CODE], rng)
    decoder = random_layers([_CODE, _HIDDEN, width], rng, last=0.3, out=scores)
    return [*encoder.parameters, *decoder.parameters]


def _trained(
    part: Door,
    crude: Crude,
    pace: Pace,
    blocks: Blocks,
    start: list[Floats],
    report: Callable[[float], None],
) -> list[Floats]:
    """Return the parameters of encoder and decoder after all steps of one private training."""
    setting = planned(part, pace, crude.rows)
    shown = np.array(blocks.starts), blocks.margins.cpu().numpy()
    training = part.train(
        setting,
        autoencoder_gradient,
        (*shown, *start),
        rows_at_once=_ROWS_AT_ONCE,
        label="autoencoder",
    )
    torch = blocks.torch
    learned = torch.learned(start)
    optimiser = adam(torch.torch, learned, pace.critic_rate)
    expected = setting.rate * crude.rows
    for t in range(pace.steps):
        state = [tensor.detach().cpu().numpy() for tensor in learned]
        found = training.step(*shown, *state)
        descend(optimiser, learned, [torch.tensor(f / expected) for f in found])
        report((t + 1) / pace.steps)
    return [tensor.detach().cpu().numpy() for tensor in learned]
