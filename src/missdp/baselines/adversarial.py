"""What adversarial families have in common: how torch is found, and generators against critics.

A step of a critic sees a sample of real rows through the door (noisy, clipped gradients of
softplus(-score), all charged before the first step) and a batch of generated rows, whose gradient
of softplus(score) needs no noise. Generators only ever see critics, so they are free.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from missdp.accounting import Budget
from missdp.baselines.networks import (
    LEAK,
    Layers,
    NetworkModel,
    known_margins,
    observed_shares,
    through,
)
from missdp.errors import MissingDependencyError, ParameterError, replacing
from missdp.inference.masks import RowModel
from missdp.mechanisms.door import Door, Total, Training
from missdp.synth.all_pairs import PairsSynthesizer
from missdp.synth.learn_pairs import Crude
from missdp.types import Floats

LATENT = 16
"""Numbers of noise that a generator of rows is given."""

CRITIC = 32
"""Units of each hidden layer of a critic of rows."""

HEAT = 0.66
"""Of the relaxation by which gradients pass a drawn level (Jang, Gu & Poole 2017)."""

_BATCH = 512
_MOST_CELLS = 1 << 23  # of all pairs, that are fitted together
_CLIP = 1.0  # norm of a row's gradient; with Adam, its unit does not matter
_ROWS_AT_ONCE = 32
_BETAS = (0.5, 0.9)  # of Adam, as are rates
_CRITIC_RATE, _GENERATOR_RATE = 5e-3, 4e-3
_TURNS = 10  # steps of critics for each step of generators
_KEPT = 0.98  # of the average of a generator, at each of its steps
_LEAST_VARIANCE = 1e-12


class Blocks:
    """Levels of all attributes side by side, as tensors, with their released shares."""

    def __init__(self, rng: np.random.Generator, margins: Sequence[Floats]) -> None:
        self.torch: Any = import_torch()
        self.device = torch_device()
        self._stream = self.torch.Generator(self.device).manual_seed(int(rng.integers(2**62)))
        self.sizes = [len(margin) for margin in margins]
        starts = np.cumsum([0, *self.sizes])
        self.starts = [int(start) for start in starts]
        self.shares = np.concatenate(margins)
        self.whose = self.tensor(np.repeat(np.arange(len(margins)), self.sizes))
        self.margins = self.tensor(self.shares)
        self._of = self.tensor(np.repeat(np.eye(len(margins)), self.sizes, axis=1))

    def tensor(self, array: Any) -> Any:
        """Return an array as a tensor in double precision; whole numbers stay so."""
        kind = self.torch.int64 if np.asarray(array).dtype.kind == "i" else self.torch.float64
        return self.torch.tensor(np.asarray(array), dtype=kind, device=self.device)

    def learned(self, arrays: Sequence[Floats]) -> list[Any]:
        """Return arrays as tensors that are to be learned."""
        return [self.tensor(array).requires_grad_() for array in arrays]

    def normal(self, n: int, width: int) -> Any:
        """Draw normal numbers."""
        kind = {"generator": self._stream, "dtype": self.torch.float64, "device": self.device}
        return self.torch.randn((n, width), **kind)

    def uniform(self, *shape: int) -> Any:
        """Draw uniform numbers, never 0 or 1."""
        kind = {"generator": self._stream, "dtype": self.torch.float64, "device": self.device}
        return self.torch.rand(shape, **kind).clamp(1e-12, 1 - 1e-12)

    def drawn(self, scores: Any, *, soft: bool) -> Any:
        """Draw one level of each attribute, as indicators; ``soft`` lets gradients pass."""
        torch = self.torch
        noisy = scores - torch.log(-torch.log(self.uniform(*scores.shape)))
        parts = []
        for part in torch.split(noisy, self.sizes, dim=1):
            hard = torch.zeros_like(part).scatter_(1, part.argmax(1, keepdim=True), 1.0)
            if soft:
                relaxed = torch.softmax(part / HEAT, dim=1)
                hard = hard + relaxed - relaxed.detach()
            parts.append(hard)
        return torch.cat(parts, dim=1)

    def expected(self, rows: Any, seen: Any, w1: Any, b1: Any, more: Any = 0.0) -> Any:
        """Return expected activations of the first layer; see `missdp.baselines.critics`.

        ``rows`` are indicators of levels, ``seen`` is 1 where an attribute is observed (None if
        nothing is missing), and ``more`` is added to the mean.
        """
        torch = self.torch
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


class Side(abc.ABC):
    """A generator's side of a contest: it draws rows, and critics score them."""

    def __init__(self, model: NetworkModel, blocks: Blocks, batch: int) -> None:
        self._model, self._blocks, self._batch = model, blocks, batch
        self.parameters: list[Any] = []

    @abc.abstractmethod
    def model_of(self, parameters: Sequence[Floats]) -> NetworkModel:
        """Return the model with these parameters in place of those that are learned."""

    @abc.abstractmethod
    def _generated(self, *, soft: bool) -> tuple[Any, ...]:
        """Return a fresh batch; ``soft`` lets gradients pass."""

    @abc.abstractmethod
    def _scores(self, critic: Sequence[Any], *made: Any) -> list[Any]:
        """Return what each critic makes of a batch."""

    def fake_loss(self, critic: Sequence[Any]) -> Any:
        """Return the critics' mean loss on a fresh batch."""
        torch = self._blocks.torch
        with torch.no_grad():
            made = self._generated(soft=False)
        return sum(torch.nn.functional.softplus(s).mean() for s in self._scores(critic, *made))

    def loss(self, critic: Sequence[Any]) -> Any:
        """Return the generators' loss against critics."""
        plus, made = self._blocks.torch.nn.functional.softplus, self._generated(soft=True)
        return sum(plus(-score).mean() for score in self._scores(critic, *made))


def _leaky(torch: Any, fed: Any) -> Any:
    return torch.nn.functional.leaky_relu(fed, LEAK)


def leaky_score(torch: Any, hidden: Any, critic: Sequence[Any]) -> Any:
    """Return a critic's scores from what its first layer gives."""
    w2, b2, w3, b3 = critic
    return _leaky(torch, hidden @ w2 + b2) @ w3 + b3


def adam(torch: Any, parameters: Sequence[Any], rate: float = _CRITIC_RATE) -> Any:
    """Return an optimiser."""
    return torch.optim.Adam(list(parameters), lr=rate, betas=_BETAS)


def descend(optimiser: Any, parameters: Sequence[Any], gradients: Sequence[Any]) -> None:
    """Take a step against gradients."""
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    optimiser.step()


@dataclass(frozen=True, eq=False)
class Contest:
    """Critics trained on the rows behind a door, and generators against them.

    All that is left of the door's budget is charged, once, before the first step; the rest is
    released. A step of the critics is expected to read ``batch`` rows, and as many are generated.
    """

    door: Door
    crude: Crude
    steps: int
    batch: int
    always: dict[int, int]
    rng: np.random.Generator
    blocks: Blocks
    report: Callable[[float], None]

    @property
    def shown(self) -> tuple[Any, ...]:
        """What gradients are shown: where levels of attributes start, and their shares."""
        return np.array(self.blocks.starts), self.blocks.shares

    def start(
        self, values: Layers, masks: Layers | None = None, *, sees_values: bool = False
    ) -> NetworkModel:
        """Return a model before any training; if there are no masks, holes are at random."""
        crude, always = self.crude, self.always
        masks = Layers.same(known_margins(crude)[1]) if masks is None else masks
        return NetworkModel.start(crude, values, masks, sees_values=sees_values, always=always)

    def calibrated(self, model: NetworkModel) -> NetworkModel:
        """Return a model calibrated to released margins."""
        margins, rates, _ = known_margins(self.crude)
        return model.calibrated(margins, rates, self.rng)

    def gradients(
        self,
        gradient: Callable[..., Any],
        shown: tuple[Any, ...],
        learned: Sequence[Any],
        *,
        label: str,
    ) -> Iterator[list[Any]]:
        """Yield, for each training step, the noisy mean of the rows' gradients at ``learned``.

        A row's gradient is ``gradient(codes, *shown, *learned)``, with public or released arrays
        ``shown`` (see `missdp.baselines.critics`).
        """
        rows = max(1.0, self.crude.rows)
        rate = min(1.0, self.batch / rows)
        setting = Training.worth(self.door.left, rate=rate, steps=self.steps, clip=_CLIP)
        state = (*shown, *map(as_array, learned))
        training = self.door.train(
            setting, gradient, state, rows_at_once=_ROWS_AT_ONCE, label=label
        )
        for t in range(self.steps):
            found = training.step(*shown, *map(as_array, learned))
            yield [self.blocks.tensor(part / (setting.rate * rows)) for part in found]
            self.report((t + 1) / self.steps)

    def model(
        self,
        side: Side,
        gradient: Callable[..., Any],
        critic: Sequence[Floats],
        *,
        label: str,
        shown: tuple[Any, ...] | None = None,
    ) -> NetworkModel:
        """Return a calibrated generator, averaged over its last steps against critics."""
        torch, players = self.blocks.torch, self.blocks.learned(critic)
        minds = adam(torch, players)
        hands = adam(torch, side.parameters, _GENERATOR_RATE)
        kept = [p.detach().clone() for p in side.parameters]
        steps = self.gradients(gradient, shown or self.shown, players, label=label)
        for t, real in enumerate(steps, start=1):
            fake = torch.autograd.grad(side.fake_loss(players), players)
            descend(minds, players, [a + b for a, b in zip(real, fake, strict=True)])
            if t % _TURNS == 0:
                gradients = torch.autograd.grad(side.loss(players), side.parameters)
                descend(hands, side.parameters, gradients)
                for old, new in zip(kept, side.parameters, strict=True):
                    old.mul_(_KEPT).add_(new.detach(), alpha=1 - _KEPT)
        found = [as_array(p) for p in kept]
        if not all(np.isfinite(array).all() for array in found):
            raise ParameterError("the generators have diverged: choose smaller learning rates")
        return self.calibrated(side.model_of(found))


def as_array(tensor: Any) -> Floats:
    """Return what a tensor holds."""
    return np.asarray(tensor.detach().cpu().numpy(), dtype=np.float64)


class RowsSide(Side):
    """A generator of complete rows against one critic that takes missing cells in expectation.

    Generated rows are shown with missing cells at the released rates, so that these alone do not
    tell them from real ones. The last ``frozen`` maps are not learned.
    """

    def __init__(
        self, model: NetworkModel, blocks: Blocks, batch: int, crude: Crude, *, frozen: int = 0
    ) -> None:
        super().__init__(model, blocks, batch)
        arrays = model.values.parameters
        cut = len(arrays) - 2 * frozen
        self._frozen = [blocks.tensor(array) for array in arrays[cut:]]
        self.parameters = blocks.learned(arrays[:cut])
        observed = observed_shares(crude)
        self._observed = blocks.tensor(observed) if (observed < 1).any() else None

    def model_of(self, parameters: Sequence[Floats]) -> NetworkModel:
        """Return the model with these parameters in place of those that are learned."""
        arrays = [*parameters, *self._model.values.parameters[len(parameters) :]]
        return replace(self._model, values=self._model.values.with_parameters(arrays))

    def _generated(self, *, soft: bool) -> tuple[Any, Any, Any]:
        """Return indicators of rows, which cells are shown, and the level of each condition."""
        blocks, layers = self._blocks, self._model.values
        torch, seen = blocks.torch, self._shown()
        width = blocks.starts[-1] if self._model.conditions else 0
        inputs = blocks.normal(self._batch, len(layers.weights[0]) - width)
        parameters = [*self.parameters, *self._frozen]
        if not width:
            scores = through(torch, layers.bends, parameters, inputs)
            return blocks.drawn(scores, soft=soft), seen, None
        about, given = self._conditions(seen)
        asked = torch.zeros_like(inputs[:, :1]).expand(-1, width).clone()
        asked.scatter_(1, given[:, None], 1.0)
        fed = torch.cat([inputs, asked], dim=1)
        scores = through(torch, layers.bends, parameters, fed)
        rows = blocks.drawn(scores, soft=soft)
        free = (blocks.whose[None, :] != about[:, None]).to(rows.dtype)
        return rows * free + asked, seen, given

    def _shown(self) -> Any:
        if self._observed is None:
            return None
        uniform = self._blocks.uniform(self._batch, len(self._blocks.sizes))
        return (uniform < self._observed).to(uniform.dtype)

    def _conditions(self, seen: Any) -> tuple[Any, Any]:
        """Draw each row's condition: one of its observed attributes, and a level by the margin."""
        blocks = self._blocks
        uniform = blocks.uniform(self._batch, len(blocks.sizes))
        about = (uniform if seen is None else uniform + seen).argmax(dim=1)
        # One level of each attribute by its margin, of which that of the condition is taken.
        scores = blocks.torch.log(blocks.margins).expand(self._batch, blocks.starts[-1])
        every = blocks.drawn(scores, soft=False)
        of = (blocks.whose[None, :] == about[:, None]).to(every.dtype)
        return about, (every * of).argmax(dim=1)

    def _scores(self, critic: Sequence[Any], *made: Any) -> list[Any]:
        rows, seen, given = made
        more: Any = 0.0
        if given is not None:
            more, critic = critic[0][given], critic[1:]
        hidden = self._blocks.expected(rows, seen, critic[0], critic[1], more)
        return [leaky_score(self._blocks.torch, hidden, critic[2:])]


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralSynthesizer(PairsSynthesizer):
    """Base of adversarial families: margins first, at which the generator starts, then critics."""

    strategies: ClassVar[tuple[str, ...]] = ("observed", "complete-rows", "impute-first")
    fixed_gates: ClassVar[bool] = True
    usual_steps: ClassVar[int] = 800

    missing: str = "observed"
    steps: int | None = None
    batch: int | None = None

    @property
    def _steps_planned(self) -> int:
        """Number of steps of private training."""
        return self.usual_steps if self.steps is None else int(self.steps)

    @property
    def _batch(self) -> int:
        return _BATCH if self.batch is None else int(self.batch)

    def _check_parameters(self) -> Budget:
        import_torch()
        self._check_training(steps=self.steps, batch=self.batch)
        return super()._check_parameters()

    @property
    def _most_cells(self) -> int:
        return super()._most_cells if self._steps_planned else _MOST_CELLS

    def _fit(self, door: Door) -> Total:
        door, total = self._opened_rows(door)
        crude = self._crude(door, total)
        if len(door.schema) == 1:
            # Margins say everything.
            self.model_ = NetworkModel.independent(crude, self._never_missing(crude))
        else:
            if self._steps_planned:
                self._training(0.0)
            with _one_torch_thread():
                self.model_ = self._trained(door, crude)
        self._report("done", 1.0)
        return self._counted(door, crude, total)

    def _training(self, done: float) -> None:
        """Report how much of the training is done."""
        self._report("training", 0.1 + 0.85 * done)

    def _contest(self, door: Door, crude: Crude, steps: int) -> Contest:
        """Return a contest of so many steps, for all that is left of the budget."""
        grouped = door.merged(crude.groups(door.schema.names))
        rng, always = grouped.generator(), self._never_missing(crude)
        blocks = Blocks(rng, known_margins(crude)[0])
        return Contest(grouped, crude, steps, self._batch, always, rng, blocks, self._training)

    @abc.abstractmethod
    def _trained(self, door: Door, crude: Crude) -> RowModel:
        """Return the model of several attributes, for all that is left of the budget."""


def import_torch() -> ModuleType:
    """Return the module torch."""
    absent = MissingDependencyError(
        "adversarial families need PyTorch, an extra: pip install 'missdp[neural]'"
    )
    with replacing(ImportError, by=absent):
        import torch
    return torch


@contextlib.contextmanager
def _one_torch_thread() -> Iterator[None]:
    """Keep torch to one thread: its count belongs to the thread that calls, so none need wait."""
    torch = import_torch()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def torch_device() -> str:
    """Return where generators are fitted: on a CUDA device if torch sees one, else on the CPU."""
    return "cuda" if import_torch().cuda.is_available() else "cpu"
