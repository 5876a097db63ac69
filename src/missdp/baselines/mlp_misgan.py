"""MisGAN with small networks for critics, as in the publication, trained privately.

A generator of complete rows, a generator of masks, and a critic for each of their outcomes: one
sees generated rows with generated holes beside incomplete real rows, the other the masks alone (Li,
Jiang & Marlin 2019). One clipped vector holds what a row says to both critics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from missdp.baselines.contest import Blocks, Pace, Torch, contest, leaky_score, through
from missdp.baselines.critics import (
    LEAK,
    expected_gradient,
    random_critic,
    two_critics_gradient,
)
from missdp.baselines.networks import NetworkModel, calibrated, random_layers, same_masks
from missdp.baselines.starts import START, known_margins, network_start
from missdp.mechanisms.door import Door
from missdp.synth.learn_pairs import Crude

__all__ = ["mlp_misgan"]

Floats = NDArray[np.float64]

_LATENT = 16
_HIDDEN = 64
_MASK_LATENT = 4
_MASK_HIDDEN = 32
_CRITIC = 32
_MASK_CRITIC = 16
_HEAT = 0.66
_WEIGHT = 0.2  # of the critic of rows in the loss of masks
_LEAST = 1e-6  # rate of holes


def mlp_misgan(
    door: Door,
    crude: Crude,
    pace: Pace,
    *,
    torch: Any,
    sees_values: bool,
    always: Mapping[int, int],
    report: Callable[[float], None],
) -> NetworkModel:
    """Return generators of rows and masks, their critics trained with all that is left.

    Parameters
    ----------
    door : Door
        To rows on groups of levels.
    crude : Crude
        Released margins, at which generators start and to which they are calibrated.
    pace : Pace
    torch : module
    sees_values : bool
        Whether masks may depend on values (missing at random, or not at random).
    always : mapping of int to int
        By attribute, a group of levels that is never missing.
    report : callable
        Told the share of the work that is done.
    """
    rng = door.generator()
    margins, rates, holed = known_margins(crude)
    blocks = Blocks(Torch(torch, rng), [len(m) for m in margins], margins, _HEAT)
    width = blocks.starts[-1]
    scores = np.log(np.concatenate(margins))
    values = random_layers([_LATENT, _HIDDEN, _HIDDEN, width], rng, last=START, out=scores)
    masks = same_masks(rates)
    if holed:
        inputs = _MASK_LATENT + sees_values * width
        out = logit(np.clip(rates, _LEAST, 1 - _LEAST))
        masks = random_layers([inputs, _MASK_HIDDEN, len(holed)], rng, last=START, out=out)
    model = network_start(
        crude, values, masks, sees_values=sees_values and bool(holed), always=always
    )
    side = _MisGANSide(model, blocks, pace.batch)
    starts = np.array(blocks.starts)
    critic = random_critic(width, _CRITIC, rng)
    if holed:
        critic += random_critic(len(holed), _MASK_CRITIC, rng)
    found = contest(
        door,
        two_critics_gradient if holed else expected_gradient,
        (starts, np.array(holed)) if holed else (starts, np.concatenate(margins)),
        critic,
        side,
        pace,
        torch=blocks.torch,
        rows=crude.rows,
        report=report,
        label="critics of rows and masks",
    )
    return calibrated(side.model_of(found), margins, rates, rng)


class _MisGANSide:
    """Generators of rows and of masks.

    Parameters
    ----------
    model : NetworkModel
        As generators start.
    blocks : Blocks
    batch : int
        Rows generated at once.
    """

    def __init__(self, model: NetworkModel, blocks: Blocks, batch: int) -> None:
        self._model, self._blocks, self._batch = model, blocks, batch
        self._torch = blocks.torch
        self._values = self._torch.learned(model.values.parameters)
        self._masks = self._torch.learned(model.masks.parameters) if model.holed else []
        self._attributes = len(blocks.sizes)
        self.parameters: list[Any] = [*self._values, *self._masks]

    def model_of(self, parameters: Sequence[Floats]) -> NetworkModel:
        """Return the model with these parameters."""
        cut = len(self._values)
        masks = self._model.masks
        return replace(
            self._model,
            values=self._model.values.with_parameters(parameters[:cut]),
            masks=masks.with_parameters(parameters[cut:]) if self._masks else masks,
        )

    def _generated(self, *, soft: bool) -> tuple[Any, Any]:
        """Return indicators of rows, and 1 where each attribute that may be missing is observed."""
        torch, model = self._torch.torch, self._model
        noise = self._torch.normal(self._batch, len(model.values.weights[0]))
        scores = through(torch, model.values, self._values, noise)
        rows = self._blocks.drawn(scores, soft=soft)
        if not model.holed:
            return rows, None
        inputs = self._torch.normal(self._batch, _MASK_LATENT)
        if model.sees_values:
            inputs = torch.cat([inputs, rows.detach()], dim=1)
        odds = through(torch, model.masks, self._masks, inputs)
        uniform = self._torch.uniform(*odds.shape)
        noisy = odds + torch.log(uniform) - torch.log1p(-uniform)
        lost = (noisy > 0).to(noisy.dtype)
        if soft:
            relaxed = torch.sigmoid(noisy / self._blocks.heat)
            lost = lost + relaxed - relaxed.detach()
        return rows, self._never_lost(1 - lost, rows)

    def _never_lost(self, seen: Any, rows: Any) -> Any:
        """Put back what is never missing: an attribute that is not applicable is observed."""
        columns = list(seen.unbind(1))
        for k, a in enumerate(self._model.holed):
            if a in self._model.always:
                there = rows[:, self._blocks.starts[a] + self._model.always[a]].detach()
                columns[k] = columns[k] * (1 - there) + there
        return self._torch.torch.stack(columns, dim=1)

    def _scores(self, critic: Sequence[Any], rows: Any, seen: Any) -> tuple[Any, Any]:
        torch, leaky = self._torch.torch, self._torch.torch.nn.functional.leaky_relu
        if seen is not None:
            # What rows say about masks counts less than what masks themselves do.
            light = _WEIGHT * seen + (1 - _WEIGHT) * seen.detach()
            whole = torch.ones(len(rows), self._attributes, dtype=rows.dtype, device=rows.device)
            whole = whole.index_copy(1, self._torch.tensor(np.array(self._model.holed)), light)
            rows = rows * whole[:, self._blocks.whose]
        first = leaky_score(torch, leaky(rows @ critic[0] + critic[1], LEAK), critic[2:6])
        if seen is None:
            return first, None
        hidden = leaky(seen @ critic[6] + critic[7], LEAK)
        return first, leaky_score(torch, hidden, critic[8:])

    def fake_loss(self, critic: Sequence[Any]) -> Any:
        """Return the critics' mean loss on a fresh batch of generated rows and masks."""
        with self._torch.torch.no_grad():
            made = self._generated(soft=False)
        return self._mean(self._scores(critic, *made))

    def loss(self, critic: Sequence[Any]) -> Any:
        """Return the generators' loss."""
        first, second = self._scores(critic, *self._generated(soft=True))
        return self._mean((-first, None if second is None else -second))

    def _mean(self, scores: tuple[Any, Any]) -> Any:
        plus = self._torch.torch.nn.functional.softplus
        first, second = scores
        return plus(first).mean() + (0.0 if second is None else plus(second).mean())
