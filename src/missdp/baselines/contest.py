"""Generators and critics against each other, the critics trained privately.

A step of a critic sees a sample of real rows through the door (noisy, clipped gradients of
softplus(-score), all charged before the first step) and a batch of generated rows, whose gradient
of softplus(score) needs no noise. Generators only ever see critics, so they are free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from missdp.baselines.critics import LEAK
from missdp.baselines.networks import Layers
from missdp.baselines.neural_base import torch_device
from missdp.errors import ParameterError
from missdp.mechanisms.door import Door, Training

__all__ = [
    "Blocks",
    "Pace",
    "Side",
    "Torch",
    "adam",
    "contest",
    "descend",
    "leaky_score",
    "planned",
    "through",
]

Floats = NDArray[np.float64]

_CLIP = 1.0  # norm of a row's gradient; with Adam, its unit does not matter
_ROWS_AT_ONCE = 32
_BETAS = (0.5, 0.9)
_KEPT = 0.98  # of the average of a generator, at each of its steps
_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long and how fast networks are trained; public, and fixed before the first step.

    Parameters
    ----------
    steps : int
        Of the critics, all charged in advance.
    batch : int
        Rows that a step is expected to read, and rows that are generated for it.
    turns : int
        Steps of critics for each step of generators.
    critic_rate, generator_rate : float
        Learning rates of Adam.
    """

    steps: int
    batch: int
    turns: int = 10
    critic_rate: float = 5e-3
    generator_rate: float = 4e-3


class Side(Protocol):
    """A generator's side of the contest: what it generates, and what it loses."""

    parameters: list[Any]

    def fake_loss(self, critic: Sequence[Any]) -> Any:
        """Return the critic's mean loss on a fresh batch of generated rows."""

    def loss(self, critic: Sequence[Any]) -> Any:
        """Return the generators' loss against a critic."""


class Torch:
    """The library, where its tensors lie, and a random stream of our own.

    Parameters
    ----------
    torch : module
    rng : numpy Generator
        Seeds the stream; the library's global one is left alone.
    """

    def __init__(self, torch: Any, rng: np.random.Generator) -> None:
        self.torch = torch
        self.device = torch_device()
        self.stream = torch.Generator(self.device).manual_seed(int(rng.integers(2**62)))

    def tensor(self, array: Any) -> Any:
        """Return an array as a tensor in double precision; whole numbers stay so."""
        kind = self.torch.int64 if np.asarray(array).dtype.kind == "i" else self.torch.float64
        return self.torch.tensor(np.asarray(array), dtype=kind, device=self.device)

    def learned(self, arrays: Sequence[Floats]) -> list[Any]:
        """Return arrays as tensors that are to be learned."""
        return [self.tensor(array).requires_grad_() for array in arrays]

    def normal(self, n: int, width: int) -> Any:
        """Draw normal numbers."""
        shape = (n, width)
        return self.torch.randn(
            shape, generator=self.stream, dtype=self.torch.float64, device=self.device
        )

    def uniform(self, *shape: int) -> Any:
        """Draw uniform numbers, never 0 or 1."""
        drawn = self.torch.rand(
            shape, generator=self.stream, dtype=self.torch.float64, device=self.device
        )
        return drawn.clamp(1e-12, 1 - 1e-12)


class Blocks:
    """Levels of all attributes side by side, as tensors.

    Parameters
    ----------
    torch : Torch
    sizes : sequence of int
        Number of levels of each attribute.
    margins : sequence of ndarray
        Released shares of the levels of each attribute.
    heat : float
        Of the relaxation by which gradients pass a drawn level (Jang, Gu & Poole 2017).
    """

    def __init__(
        self, torch: Torch, sizes: Sequence[int], margins: Sequence[Floats], heat: float
    ) -> None:
        self.torch, self.heat, self.sizes = torch, heat, list(sizes)
        self.starts = [int(start) for start in np.cumsum([0, *sizes])]
        self.whose = torch.tensor(np.repeat(np.arange(len(sizes)), sizes))
        self.margins = torch.tensor(np.concatenate(list(margins)))
        self._of = torch.tensor(np.repeat(np.eye(len(sizes)), sizes, axis=1))

    def drawn(self, scores: Any, *, soft: bool) -> Any:
        """Draw one level of each attribute, as indicators; ``soft`` lets gradients pass."""
        torch = self.torch.torch
        noisy = scores - torch.log(-torch.log(self.torch.uniform(*scores.shape)))
        parts = []
        for part in torch.split(noisy, self.sizes, dim=1):
            hard = torch.zeros_like(part).scatter_(1, part.argmax(1, keepdim=True), 1.0)
            if soft:
                relaxed = torch.softmax(part / self.heat, dim=1)
                hard = hard + relaxed - relaxed.detach()
            parts.append(hard)
        return torch.cat(parts, dim=1)

    def expected(self, rows: Any, seen: Any, w1: Any, b1: Any, more: Any = 0.0) -> Any:
        """Return expected activations of the first layer; see `missdp.baselines.critics`.

        Parameters
        ----------
        rows : tensor
            Indicators of levels.
        seen : tensor or None
            1 where an attribute is observed, 0 where not; None if nothing is missing.
        w1, b1 : tensor
        more : tensor, optional
            What is added to the mean.
        """
        torch = self.torch.torch
        if seen is None:
            return _leaky(torch, rows @ w1 + b1 + more)
        law = self._of @ (self.margins[:, None] * w1)
        square = self._of @ (self.margins[:, None] * w1**2)
        mean = (rows * seen[:, self.whose]) @ w1 + (1 - seen) @ law + b1 + more
        variance = (1 - seen) @ (square - law**2).clamp(min=0.0)
        sure = variance <= _LEAST_VARIANCE
        s = torch.sqrt(torch.where(sure, torch.ones_like(variance), variance))
        z = mean / s
        density = torch.exp(-(z**2) / 2) / (2 * np.pi) ** 0.5
        out = torch.where(sure, mean.clamp(min=0.0), s * density + mean * torch.special.ndtr(z))
        return LEAK * mean + (1 - LEAK) * out


def _leaky(torch: Any, fed: Any) -> Any:
    return torch.nn.functional.leaky_relu(fed, LEAK)


def through(torch: Any, layers: Layers, parameters: Sequence[Any], inputs: Any) -> Any:
    """Return what a network gives for inputs, with these parameters as tensors."""
    for k, (weight, bias) in enumerate(zip(parameters[::2], parameters[1::2], strict=True)):
        inputs = inputs @ weight + bias
        if k < len(layers.bends):
            bent = layers.bends[k] == "leaky"
            inputs = _leaky(torch, inputs) if bent else torch.tanh(inputs)
    return inputs


def leaky_score(torch: Any, hidden: Any, critic: Sequence[Any]) -> Any:
    """Return a critic's scores from what its first layer gives."""
    w2, b2, w3, b3 = critic
    return _leaky(torch, hidden @ w2 + b2) @ w3 + b3


def adam(torch: Any, parameters: Sequence[Any], rate: float) -> Any:
    """Return an optimiser."""
    return torch.optim.Adam(list(parameters), lr=rate, betas=_BETAS)


def descend(optimiser: Any, parameters: Sequence[Any], gradients: Sequence[Any]) -> None:
    """Take a step against gradients."""
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    optimiser.step()


def planned(part: Door, pace: Pace, rows: float) -> Training:
    """Return the training that all that is left of a budget buys; from released values only."""
    rate = min(1.0, pace.batch / max(1.0, rows))
    return Training.worth(part.left, rate=rate, steps=pace.steps, clip=_CLIP)


def contest(
    part: Door,
    gradient: Callable[..., Any],
    shown: tuple[Any, ...],
    critic: Sequence[Floats],
    side: Side,
    pace: Pace,
    *,
    torch: Torch,
    rows: float,
    report: Callable[[float], None],
    label: str,
) -> list[Floats]:
    """Train critics on the rows behind a door and generators against them.

    Parameters
    ----------
    part : Door
        All that is left of its budget is charged, once, before the first step.
    gradient : callable
        ``gradient(codes, *shown, *critic)``; see `missdp.baselines.critics`.
    shown : tuple
        Public or released arrays.
    critic : sequence of ndarray
        Its parameters at the start.
    side : Side
    pace : Pace
    torch : Torch
    rows : float
        Released number of rows, by which the sampling rate is planned.
    report : callable
        Told the share of the steps that are done.
    label : str

    Returns
    -------
    list of ndarray
        The generators' parameters, averaged over their last steps.
    """
    setting = planned(part, pace, rows)
    state = tuple(critic)
    training = part.train(
        setting, gradient, (*shown, *state), rows_at_once=_ROWS_AT_ONCE, label=label
    )
    library = torch.torch
    players = torch.learned(state)
    minds = adam(library, players, pace.critic_rate)
    hands = adam(library, side.parameters, pace.generator_rate)
    kept = [p.detach().clone() for p in side.parameters]
    expected = setting.rate * max(1.0, rows)
    for t in range(pace.steps):
        real = training.step(*shown, *(_array(p) for p in players))
        fake = library.autograd.grad(side.fake_loss(players), players)
        noisy = [torch.tensor(found / expected) for found in real]
        descend(minds, players, [a + b for a, b in zip(noisy, fake, strict=True)])
        if (t + 1) % pace.turns == 0:
            gradients = library.autograd.grad(side.loss(players), side.parameters)
            descend(hands, side.parameters, gradients)
            for old, new in zip(kept, side.parameters, strict=True):
                old.mul_(_KEPT).add_(new.detach(), alpha=1 - _KEPT)
        report((t + 1) / pace.steps)
    found = [_array(p) for p in kept]
    if not all(np.isfinite(array).all() for array in found):
        raise ParameterError("the generators have diverged: choose smaller learning rates")
    return found


def _array(tensor: Any) -> Floats:
    return np.asarray(tensor.detach().cpu().numpy(), dtype=np.float64)
