"""The DP-MisGAN synthesizer: generators of values and of holes, and critics that see both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from missdp.accounting import Budget
from missdp.baselines.adversarial import (
    CRITIC,
    HEAT,
    LATENT,
    Blocks,
    NeuralSynthesizer,
    Side,
    leaky_score,
)
from missdp.baselines.critics import expected_gradient, two_critics_gradient
from missdp.baselines.fit_classes import ClassTable, PairMoments, fit_classes
from missdp.baselines.networks import (
    LEAK,
    START,
    Layers,
    NetworkModel,
    known_margins,
    random_critic,
    through,
)
from missdp.errors import ParameterError
from missdp.inference.masks import RowModel
from missdp.mechanisms.door import Door
from missdp.synth.learn_pairs import Crude
from missdp.synth.state import is_whole
from missdp.types import Floats

Critic: TypeAlias = Literal["kernel", "mlp"]
Masks: TypeAlias = Literal["conditional", "independent"]

_MOST_CLASSES = 100_000
_MOST_FITS = 100
_HIDDEN = 64
_MASK_LATENT = 4
_MASK_HIDDEN = 32
_MASK_CRITIC = 16
_WEIGHT = 0.2  # of the critic of rows in the loss of masks
_LEAST = 1e-6  # rate of holes


@dataclass(kw_only=True, eq=False, repr=False)
class DPMisGAN(NeuralSynthesizer):
    """Synthetic tables from a generator of values and one of masks, which critics judge.

    A critic sees a row's observed values and its mask, as in MisGAN (Li et al. 2019), and
    generators of values and of masks are fitted until it cannot tell their rows from private ones.
    The published training of DP-MisGAN adds noise where it does not protect (see
    ``docs/families.md``); here critics learn from the private rows through one charged answer,
    and generators never see them. Add-remove adjacency. Needs PyTorch
    (``pip install 'missdp[neural]'``) to be fitted, not to be sampled.

    Parameters
    ----------
    epsilon, delta, n_rows, cuts, random_state, budget, progress
        See :class:`~missdp.synth.base.Synthesizer`; delta must be above 0.
    missing : {"observed", "complete-rows", "impute-first"}, default "observed"
        ``"observed"`` reads every row, its observed values and its mask; missing cells can be
        sampled. ``"complete-rows"`` drops incomplete rows. ``"impute-first"`` fills missing cells
        privately before.
    critic : {"kernel", "mlp"}, default "kernel"
        ``"kernel"``: linear in all pairs of values and missing cells of a row, in closed form from
        one Gaussian release. ``"mlp"``: small networks, as in the publication, against generators
        that are networks, for comparison: much further from the truth.
    masks : {"conditional", "independent"}, default "conditional"
        Whether missing cells may depend on the values (missing at random given a hidden class),
        where there is evidence that they do, or never do (missing completely at random).
    classes : int, default 200
        Hidden classes of a generator; of no use to ``"mlp"``.
    fits : int, default 3
        Generators from different starts, whose mixture is the model; of no use to ``"mlp"``.
    steps : int, optional
        Steps of training, for ``"mlp"``; by default 1,000.
    batch : int, optional
        Rows that a step of training is expected to read, for ``"mlp"``; by default 512.
    clip : "auto" or float, default "auto"
        L2 norm to which the features of each row are clipped.
    first_share : float from 0.0001 to 0.99, optional
        Share of the budget for the one-way margins, at which generators start: by default 0.08, or
        0.15 for ``"mlp"``.
    imputer : {"marginal", "pairs", "random", "mean"}, default "marginal"
        For ``"impute-first"``, with ``imputer_share`` of the budget.

    Attributes
    ----------
    model_ : ClassTable or NetworkModel
        The released generator.

    References
    ----------
    Li, Jiang, Marlin (2019), "MisGAN: learning from incomplete data with generative adversarial
    networks", ICLR; Harder, Adamczewski, Park (2021), "DP-MERF", AISTATS, for critics in closed
    form; Mohapatra et al. (2024) for DP-MisGAN.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> model = DPMisGAN(epsilon=1.0, classes=20, fits=1).fit(yrbss().table())
    >>> model.sample(5, missing_values="keep").shape
    (5, 13)
    >>> model.guarantee_.epsilon
    1.0
    """

    critic: Critic = "kernel"
    masks: Masks = "conditional"
    classes: int = 200
    fits: int = 3

    reads_masks: ClassVar[bool] = True
    usual_steps: ClassVar[int] = 1000
    model_: ClassTable | NetworkModel = field(init=False)

    def _check_parameters(self) -> Budget:
        for name, value, choices in (
            ("critic", self.critic, get_args(Critic)),
            ("masks", self.masks, get_args(Masks)),
        ):
            if not (isinstance(value, str) and value in choices):
                raise ParameterError(f"{name} must be one of {list(choices)}")
        for name, number, most in (
            ("classes", self.classes, _MOST_CLASSES),
            ("fits", self.fits, _MOST_FITS),
        ):
            if not (is_whole(number) and 1 <= number <= most):
                raise ParameterError(f"{name} must be a whole number from 1 to {most:,}")
        return super()._check_parameters()

    @property
    def _steps_planned(self) -> int:
        return 0 if self.critic == "kernel" else super()._steps_planned

    def _trained(self, door: Door, crude: Crude) -> RowModel:
        if self.critic == "mlp":
            return self._contested(door, crude)
        moments = PairMoments.of(self._all_pairs(door, crude))
        self._report("fitting", 0.5)
        return fit_classes(
            moments,
            classes=int(self.classes),
            fits=int(self.fits),
            conditional=self.masks == "conditional",
            always=self._never_missing(crude),
            rng=door.generator(),
            report=lambda done: self._report("fitting", 0.5 + 0.5 * done),
        )

    def _contested(self, door: Door, crude: Crude) -> NetworkModel:
        """Return generators of rows and masks, their critics trained with all that is left.

        A generator of complete rows, a generator of masks, and a critic for each of their outcomes:
        one sees generated rows with generated missing cells beside incomplete real rows, the other
        the masks alone (Li, Jiang & Marlin 2019). One clipped vector holds what a row says to both
        critics.
        """
        from scipy.special import logit

        contest = self._contest(door, crude, self._steps_planned)
        rng, blocks, width = contest.rng, contest.blocks, contest.blocks.starts[-1]
        _, rates, holed = known_margins(crude)
        scores, sizes = np.log(blocks.shares), [LATENT, _HIDDEN, _HIDDEN, width]
        values = Layers.random(sizes, rng, last=START, out=scores)
        sees_values = self.masks == "conditional" and bool(holed)
        masks = None
        if holed:
            inputs = _MASK_LATENT + sees_values * width
            out = logit(np.clip(rates, _LEAST, 1 - _LEAST))
            masks = Layers.random([inputs, _MASK_HIDDEN, len(holed)], rng, last=START, out=out)
        model = contest.start(values, masks, sees_values=sees_values)
        side = _MisGANSide(model, blocks, contest.batch)
        critic = random_critic(width, CRITIC, rng)
        if holed:
            critic += random_critic(len(holed), _MASK_CRITIC, rng)
        return contest.model(
            side,
            two_critics_gradient if holed else expected_gradient,
            critic,
            label="critics of rows and masks",
            shown=(np.array(blocks.starts), np.array(holed)) if holed else None,
        )


class _MisGANSide(Side):
    """Generators of rows and of masks."""

    def __init__(self, model: NetworkModel, blocks: Blocks, batch: int) -> None:
        super().__init__(model, blocks, batch)
        self._values = blocks.learned(model.values.parameters)
        self._masks = blocks.learned(model.masks.parameters) if model.holed else []
        self.parameters = [*self._values, *self._masks]

    def model_of(self, parameters: Sequence[Floats]) -> NetworkModel:
        """Return the model with these parameters."""
        cut, masks = len(self._values), self._model.masks
        return replace(
            self._model,
            values=self._model.values.with_parameters(parameters[:cut]),
            masks=masks.with_parameters(parameters[cut:]) if self._masks else masks,
        )

    def _generated(self, *, soft: bool) -> tuple[Any, Any]:
        """Return indicators of rows, and 1 where each attribute that may be missing is observed."""
        blocks, model = self._blocks, self._model
        torch, noise = blocks.torch, blocks.normal(self._batch, len(model.values.weights[0]))
        rows = blocks.drawn(through(torch, model.values.bends, self._values, noise), soft=soft)
        if not model.holed:
            return rows, None
        inputs = blocks.normal(self._batch, _MASK_LATENT)
        if model.sees_values:
            inputs = torch.cat([inputs, rows.detach()], dim=1)
        odds = through(torch, model.masks.bends, self._masks, inputs)
        uniform = blocks.uniform(*odds.shape)
        noisy = odds + torch.log(uniform) - torch.log1p(-uniform)
        lost = (noisy > 0).to(noisy.dtype)
        if soft:
            relaxed = torch.sigmoid(noisy / HEAT)
            lost = lost + relaxed - relaxed.detach()
        return rows, self._never_lost(1 - lost, rows)

    def _never_lost(self, seen: Any, rows: Any) -> Any:
        """Put back what is never missing: an attribute that is not applicable is observed."""
        columns = list(seen.unbind(1))
        for k, a in enumerate(self._model.holed):
            if a in self._model.always:
                there = rows[:, self._blocks.starts[a] + self._model.always[a]].detach()
                columns[k] = columns[k] * (1 - there) + there
        return self._blocks.torch.stack(columns, dim=1)

    def _scores(self, critic: Sequence[Any], *made: Any) -> list[Any]:
        rows, seen = made
        blocks, torch = self._blocks, self._blocks.torch
        leaky = torch.nn.functional.leaky_relu
        if seen is not None:
            # What rows say about masks counts less than what masks themselves do.
            light = _WEIGHT * seen + (1 - _WEIGHT) * seen.detach()
            whole = torch.ones(len(rows), len(blocks.sizes), dtype=rows.dtype, device=rows.device)
            whole = whole.index_copy(1, blocks.tensor(np.array(self._model.holed)), light)
            rows = rows * whole[:, blocks.whose]
        first = leaky_score(torch, leaky(rows @ critic[0] + critic[1], LEAK), critic[2:6])
        if seen is None:
            return [first]
        hidden = leaky(seen @ critic[6] + critic[7], LEAK)
        return [first, leaky_score(torch, hidden, critic[8:])]
