"""Generators against critics, in PyTorch: critics are trained privately, generators see critics.

A step of the critics sees private rows through `PrivateTraining`, and generated rows, which follow
from released values. The loss of a real row is softplus(-score), and of a generated row
softplus(score). A row is shown as indicators of its levels, with zeros for missing cells.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, softplus
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from missdp.baselines.networks import LEAK, Layers, NetworkModel, log_odds, public_marginals
from missdp.baselines.private_training import PrivateTraining, RowLoss
from missdp.errors import ParameterError
from missdp.inference.marginals import NoisyMarginals
from missdp.session import Session
from missdp.synth.family import Request
from missdp.synth.learn_pairs import model_facts
from missdp.types import Floats

_LATENT, _MASK_LATENT = 16, 4  # numbers of noise of a generator of rows, and of masks
_CRITIC, _MASK_CRITIC = 32, 16  # units of a hidden layer of a critic of rows, and of masks
_HIDDEN, _MASK_HIDDEN = 64, 32  # units of a hidden layer of a generator of rows, and of masks
_CODE, _CODE_HIDDEN = 12, 32  # units of a code of the autoencoder, and of its hidden layer
# factors of last weights, so that generators start near the marginals
_START, _CODE_START = 0.1, 0.3
_HEAT = 0.66  # temperature of relaxed draws (Jang, Gu & Poole 2017)
_GENERATED = 512  # generated rows in a step
_LEARNING_RATE, _BETAS = 4e-3, (0.5, 0.9)  # parameters of Adam, for generators
_TURNS = 10  # steps of critics for each step of generators
_AVERAGE_DECAY = 0.98  # decay of the average of a generator at each of its steps
# Weights of the losses of the critics of rows and of masks. Both share the clip norm.
_WEIGHTS = 1.0, 0.3
_MASK_WEIGHT = 0.2  # weight of the critic of rows in the loss of masks (Li, Jiang & Marlin 2019)


class Game(abc.ABC):
    """Generators and critics of one fit."""

    def __init__(self, request: Request[Any], rows: Session, one_way: NoisyMarginals) -> None:
        self.request, self.rows, self.one_way, self.rng = request, rows, one_way, rows.generator()
        self.stream = torch.Generator().manual_seed(int(self.rng.integers(2**62)))
        self._facts: dict[str, Any] = {"generator": self.stream, "dtype": torch.float64}
        self.always = model_facts(request.modelled, one_way.levels, selective=False).always
        self.marginals, observed, self.may_miss = public_marginals(one_way)
        self.sizes = [len(marginal) for marginal in self.marginals]
        self.observed, self.rates = torch.from_numpy(observed), 1 - observed[[*self.may_miss]]
        self.width, self.out = sum(self.sizes), np.log(np.concatenate(self.marginals))
        self.starts = torch.tensor(np.cumsum([0, *self.sizes[:-1]]))
        # Indicators of the levels of each attribute, shape (attributes, levels).
        whose = torch.eye(len(self.sizes), dtype=torch.float64)
        self.levels_of = whose.repeat_interleave(torch.tensor(self.sizes), dim=1)

    @abc.abstractmethod
    def scores(self, *shown: Tensor) -> list[Tensor]:
        """Return the scores that each critic gives to rows."""

    @abc.abstractmethod
    def generated(self, *, soft: bool) -> tuple[Tensor, ...]:
        """Return generated rows in the form that critics see. With ``soft``, gradients pass."""

    def shown(self, codes: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """Return real rows in the form that critics see: indicators and observed flags."""
        columns, sizes = torch.stack([*codes.values()], dim=1), torch.tensor(self.sizes)
        observed, empty = (columns < sizes).double(), torch.zeros(len(columns), self.width).double()
        levels = self.starts + torch.minimum(columns, sizes - 1)
        return empty.scatter_(1, levels, observed), observed

    def row_loss(self, codes: Mapping[str, Tensor]) -> Tensor:
        """Return the loss of each real row."""
        scores = zip(_WEIGHTS, self.scores(*self.shown(codes)), strict=False)
        return torch.stack([w * softplus(-score).squeeze(1) for w, score in scores]).sum(dim=0)

    def loss(self, *, soft: bool) -> Tensor:
        """Return the loss of generated rows: of the generators if ``soft``, else of the critics."""
        with torch.set_grad_enabled(soft):
            made = self.generated(soft=soft)
        sign, weights = (-1.0, (1.0, 1.0)) if soft else (1.0, _WEIGHTS)
        scores = zip(weights, self.scores(*made), strict=False)
        return torch.stack([w * softplus(sign * score).mean() for w, score in scores]).sum()

    def noise(self, width: int) -> Tensor:
        """Draw normal numbers for generated rows."""
        return torch.randn((_GENERATED, width), **self._facts)

    def uniform(self, width: int) -> Tensor:
        """Draw uniform numbers for generated rows, never 0 or 1."""
        return torch.rand((_GENERATED, width), **self._facts).clamp(1e-12, 1 - 1e-12)

    def drawn(self, scores: Tensor, *, soft: bool) -> Tensor:
        """Draw a level of each attribute, as indicators. With ``soft``, gradients pass."""
        parts = []
        for part in (scores - torch.log(-torch.log(self.uniform(self.width)))).split(self.sizes, 1):
            hard = torch.zeros_like(part).scatter_(1, part.argmax(1, keepdim=True), 1.0)
            relaxed = torch.softmax(part / _HEAT, dim=1) if soft else hard
            parts.append(hard + relaxed - relaxed.detach())
        return torch.cat(parts, dim=1)

    def at_rates(self) -> Tensor:
        """Draw flags of observed cells, at the released rates."""
        return (self.uniform(len(self.sizes)) < self.observed).double()

    def train(self, phase: int, network: nn.Module, loss: RowLoss) -> Iterator[PrivateTraining]:
        """Yield the private training of a network before each of its steps."""
        trainings, rate = self.request.trainings, float(self.request.parameters.sampling_rate)
        event, steps = trainings[phase], [event.steps for event in trainings]
        rows, batch = self.rows.train(event), rate * self.one_way.rows
        training = PrivateTraining(rows, network, loss, expected_batch=batch)
        for step in range(event.steps):
            yield training
            done = (sum(steps[:phase]) + step + 1) / sum(steps)
            self.request.report("training", 0.1 + 0.85 * done)

    def play(self, phase: int, critics: nn.Module, *generators: nn.Module) -> list[Layers]:
        """Train critics, and generators against them. Return the averages of the generators."""
        learned = nn.ModuleList(generators)
        hands = [*learned.parameters()]
        adam = torch.optim.Adam(hands, lr=_LEARNING_RATE, betas=_BETAS)
        average = AveragedModel(learned, multi_avg_fn=get_ema_multi_avg_fn(_AVERAGE_DECAY))
        average.update_parameters(learned)
        for step, training in enumerate(self.train(phase, critics, self.row_loss), start=1):
            training.step(partial(self.loss, soft=False))
            if step % _TURNS == 0:
                adam.zero_grad()
                torch.autograd.backward(self.loss(soft=True), inputs=hands)
                adam.step()
                average.update_parameters(learned)
        if not all(torch.isfinite(parameter).all() for parameter in average.parameters()):
            raise ParameterError(
                "the generators have diverged. Use a larger epsilon or fewer steps"
            )
        return [as_layers(generator) for generator in average.module.children()]

    def calibrated(self, values: Layers, masks: Layers | None = None, **more: Any) -> NetworkModel:
        """Return the released model, with the released marginals and rates of missing cells."""
        always = {a: level for a, level in self.always.items() if a in self.may_miss}
        facts: dict[str, Any] = {"may_miss": self.may_miss, "always": always, "sees_values": False}
        facts |= {"conditions": np.zeros(0), **more}
        masks = masks or Layers((np.zeros((1, len(self.may_miss))),), (log_odds(self.rates),))
        facts |= {"levels": self.one_way.levels, "n_rows": self.one_way.rows}
        start = NetworkModel(values=values, masks=masks, **facts)
        return start.calibrated(self.marginals, self.rates, self.rng)

    def random(self, *sizes: int, last: float = 1.0, out: Floats | None = None) -> nn.Sequential:
        """Return a network with random weights. ``last`` is a factor, ``out`` the last biases."""
        parts: list[nn.Module] = []
        for n, m in pairwise(sizes):
            linear = torch.nn.utils.skip_init(nn.Linear, n, m, dtype=torch.float64)
            gain = last if len(parts) == 2 * len(sizes) - 4 else math.sqrt(2)
            nn.init.normal_(linear.weight, std=gain / math.sqrt(n), generator=self.stream)
            nn.init.zeros_(linear.bias)
            parts += [linear, nn.LeakyReLU(LEAK)]
        if out is not None:
            linear.bias.data = torch.from_numpy(out.copy())
        return nn.Sequential(*parts[:-1])


class MaskGame(Game):
    """MisGAN (Li, Jiang & Marlin 2019): generators of values and of masks, and a critic of each.

    One critic sees observed values of real rows, and generated values with generated masks. The
    other sees masks.
    """

    def __init__(
        self, request: Request[Any], rows: Session, one_way: NoisyMarginals, masks: str
    ) -> None:
        super().__init__(request, rows, one_way)
        count, sizes = len(self.may_miss), (_HIDDEN, _HIDDEN, self.width)
        self.sees_values = masks == "conditional" and count > 0
        self._values = self.random(_LATENT, *sizes, last=_START, out=self.out)
        self.network = nn.ModuleDict({"rows": self.random(self.width, _CRITIC, _CRITIC, 1)})
        self._masks: list[nn.Sequential] = []
        if count:
            sizes = (_MASK_LATENT + self.width * self.sees_values, _MASK_HIDDEN, count)
            self._masks = [self.random(*sizes, last=_START, out=log_odds(self.rates))]
            self.network["masks"] = self.random(count, _MASK_CRITIC, _MASK_CRITIC, 1)

    def scores(self, *shown: Tensor) -> list[Tensor]:
        """Return the scores of rows and of masks."""
        rows, observed = shown
        masks = [self.network["masks"](observed[:, [*self.may_miss]])] if self._masks else []
        return [self.network["rows"](rows), *masks]

    def generated(self, *, soft: bool) -> tuple[Tensor, ...]:
        """Return generated values at cells that generated masks show, and the masks."""
        rows = self.drawn(self._values(self.noise(_LATENT)), soft=soft)
        observed = torch.ones(_GENERATED, len(self.sizes)).double()
        inputs = self.noise(_MASK_LATENT)
        if self.sees_values:
            inputs = torch.cat([inputs, rows.detach()], dim=1)
        for masks in self._masks:
            noisy = masks(inputs) + torch.logit(self.uniform(len(self.may_miss)))
            lost, relaxed = (noisy > 0).double(), torch.sigmoid(noisy / _HEAT)
            lost = lost + relaxed - relaxed.detach()
            observed = observed.index_copy(1, torch.tensor(self.may_miss), 1 - lost)
        for a, level in self.always.items():  # "not applicable" is never missing
            there = rows[:, [int(self.starts[a]) + level]].detach()
            column = observed[:, [a]] * (1 - there) + there
            observed = observed.index_copy(1, torch.tensor([a]), column)
        # The critic of rows counts less for masks than the critic of masks does.
        light = _MASK_WEIGHT * observed + (1 - _MASK_WEIGHT) * observed.detach()
        return rows * (light @ self.levels_of), observed

    def result(self) -> NetworkModel:
        """Return the generators after the training of both critics."""
        generators = self.play(0, self.network, self._values, *self._masks)
        return self.calibrated(*generators, sees_values=self.sees_values)


class CodeGame(Game):
    """DPautoGAN: an autoencoder, and a generator of codes against a critic of decoded rows."""

    def __init__(self, request: Request[Any], rows: Session, one_way: NoisyMarginals) -> None:
        super().__init__(request, rows, one_way)
        decoder = (_CODE, _CODE_HIDDEN, self.width)
        coder = {"encoder": self.random(self.width, _CODE_HIDDEN, _CODE)}
        coder["decoder"] = self.random(*decoder, last=_CODE_START, out=self.out)
        self.coder = nn.ModuleDict(coder)
        self._generator = self.random(_LATENT, _CODE_HIDDEN, _CODE)
        self.network = self.random(self.width, _CRITIC, _CRITIC, 1)

    def coding_loss(self, codes: Mapping[str, Tensor]) -> Tensor:
        """Return the cross entropy of the observed cells of each row after coding and decoding."""
        rows, _ = self.shown(codes)
        decoded = self.coder["decoder"](torch.tanh(self.coder["encoder"](rows)))
        parts = [log_softmax(part, dim=1) for part in decoded.split(self.sizes, dim=1)]
        return -(rows * torch.cat(parts, dim=1)).sum(dim=1)

    def scores(self, *shown: Tensor) -> list[Tensor]:
        """Return the scores of rows."""
        return [self.network(shown[0])]

    def generated(self, *, soft: bool) -> tuple[Tensor, ...]:
        """Return decoded rows, with missing cells at the released rates."""
        code = torch.tanh(self._generator(self.noise(_LATENT)))
        rows, observed = self.drawn(self.coder["decoder"](code), soft=soft), self.at_rates()
        return rows * (observed @ self.levels_of), observed

    def result(self) -> NetworkModel:
        """Return generator and decoder after both trainings."""
        for training in self.train(0, self.coder, self.coding_loss):
            training.step()
        (generator,) = self.play(1, self.network, self._generator)
        return self.calibrated(generator.compose(as_layers(self.coder["decoder"])))


class ConditionalGame(Game):
    """DPCTGAN: a generator that is given one level of one attribute, and a critic that sees it.

    A real row is shown with each of its levels in turn. Its loss is the mean over them, so it
    depends on no other row. Conditions of generated rows come from released marginals.
    """

    def __init__(self, request: Request[Any], rows: Session, one_way: NoisyMarginals) -> None:
        super().__init__(request, rows, one_way)
        width, sizes = self.width, (_HIDDEN, _HIDDEN, self.width)
        self._generator = self.random(_LATENT + width, *sizes, last=_START, out=self.out)
        upper = nn.Sequential(nn.LeakyReLU(LEAK), *self.random(_CRITIC, _CRITIC, 1))
        parts = {"rows": self.random(width, _CRITIC), "levels": self.random(width, _CRITIC)}
        self.network = nn.ModuleDict({**parts, "upper": upper})
        self._conditions = np.exp(self.out) * (self.observed @ self.levels_of).numpy()

    def scores(self, *shown: Tensor) -> list[Tensor]:
        """Return the scores of each row with each of its conditions."""
        rows, levels = shown
        fed = self.network["rows"](rows)[:, None] + self.network["levels"](levels)
        return [self.network["upper"](fed).squeeze(2)]

    def row_loss(self, codes: Mapping[str, Tensor]) -> Tensor:
        """Return the mean loss of each real row over the levels that it has."""
        rows, observed = self.shown(codes)
        (scores,) = self.scores(rows, rows[:, None] * self.levels_of)
        shares = observed / observed.sum(dim=1, keepdim=True).clamp(min=1.0)
        return (shares * softplus(-scores)).sum(dim=1)

    def generated(self, *, soft: bool) -> tuple[Tensor, ...]:
        """Return generated rows with a given level, and that level."""
        shares, stream = torch.from_numpy(self._conditions), self.stream
        chosen = torch.multinomial(shares, _GENERATED, replacement=True, generator=stream)
        level = torch.eye(self.width, dtype=torch.float64)[chosen]
        about = level @ self.levels_of.T  # the attribute, whose cell is observed
        scores = self._generator(torch.cat([self.noise(_LATENT), level], dim=1))
        rows = self.drawn(scores, soft=soft) * (1 - about @ self.levels_of) + level
        return rows * (torch.maximum(self.at_rates(), about) @ self.levels_of), level[:, None]

    def result(self) -> NetworkModel:
        """Return the generator after the training of the critic."""
        (values,) = self.play(0, self.network, self._generator)
        return self.calibrated(values, conditions=self._conditions)


def as_layers(module: nn.Module) -> Layers:
    """Return the released arrays of a module."""
    arrays = [p.detach().numpy().T.copy() for p in module.parameters()]
    return Layers(tuple(arrays[::2]), tuple(arrays[1::2]))
