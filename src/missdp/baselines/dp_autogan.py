"""The DPAutoGAN synthesizer: a generator of codes, and a decoder that makes rows of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from missdp.accounting import Budget
from missdp.baselines.adversarial import (
    CRITIC,
    LATENT,
    Contest,
    NeuralSynthesizer,
    RowsSide,
    adam,
    as_array,
    descend,
)
from missdp.baselines.critics import autoencoder_gradient, expected_gradient
from missdp.baselines.networks import Layers, random_critic
from missdp.inference.masks import RowModel
from missdp.mechanisms.door import Door
from missdp.schema import Schema
from missdp.synth.learn_pairs import Crude
from missdp.synth.split import Part
from missdp.types import Floats

_HIDDEN = 32
_CODE = 12


@dataclass(kw_only=True, eq=False, repr=False)
class DPAutoGAN(NeuralSynthesizer):
    """Synthetic tables from a generator of codes and a decoder, each trained privately.

    For comparison: families that measure marginals are closer to the truth at any epsilon that is
    usual. An autoencoder learns to write rows as a few numbers, and a generator learns to draw such
    numbers, against a critic of decoded rows. Encoder and decoder are trained by one private
    training, of which the published one leaves the encoder out (see ``docs/families.md``); the
    critic by a second, in the same budget. Accounted in Rényi DP; add-remove adjacency. Needs
    PyTorch (``pip install 'missdp[neural]'``) to be fitted, not to be sampled.

    Parameters
    ----------
    epsilon, delta, n_rows, cuts, random_state, budget, progress
        See :class:`~missdp.synth.base.Synthesizer`; delta must be above 0.
    missing : {"observed", "complete-rows", "impute-first"}, default "observed"
        ``"observed"`` reads every row; the first layers of encoder and critic take the expectation
        over what is missing, by released margins, and nothing is asked of the decoder there.
        ``"complete-rows"`` drops incomplete rows. ``"impute-first"`` fills missing cells privately
        before.
    coder_share : float from 0.0001 to 0.99, default 0.4
        Share of what margins leave of the budget for the autoencoder.
    steps : int, optional
        Steps of training of the critic, and of the autoencoder half as many; by default 800.
    batch : int, optional
        Rows that a step of training is expected to read; by default 512.
    first_share : float from 0.0001 to 0.99, optional
        Share of the budget for the one-way margins, at which the generator starts and which its
        rows keep: by default 0.15.
    clip
        Of no use here.
    imputer : {"marginal", "pairs", "random", "mean"}, default "marginal"
        For ``"impute-first"``, with ``imputer_share`` of the budget.

    Attributes
    ----------
    model_ : NetworkModel
        The released generator.

    References
    ----------
    Tantipongpipat, Waites, Boob, Siva, Cummings (2021), "Differentially private synthetic
    mixed-type data generation for unsupervised learning", Intelligent Decision Technologies 15(4);
    Śmieja et al. (2018) for missing cells in expectation.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> model = DPAutoGAN(epsilon=1.0, steps=4, batch=100).fit(yrbss().table())
    >>> model.sample(5).shape
    (5, 13)
    """

    coder_share: float = 0.4

    model_: RowModel = field(init=False)

    def _check_parameters(self) -> Budget:
        self._check_share("coder_share")
        return super()._check_parameters()

    def _split_rest(self, schema: Schema) -> list[Part]:
        (rest,) = super()._split_rest(schema)
        coder = replace(rest, name="autoencoder", share=self.coder_share, count=self._coder_steps)
        return [coder, replace(rest, count=self._critic_steps)]

    @property
    def _steps_planned(self) -> int:
        return self._critic_steps + self._coder_steps

    @property
    def _critic_steps(self) -> int:
        return super()._steps_planned

    @property
    def _coder_steps(self) -> int:
        return max(1, self._critic_steps // 2)

    def _trained(self, door: Door, crude: Crude) -> RowModel:
        """Return a generator whose last maps are a decoder, trained with all that is left.

        A row's clipped vector holds what it says to encoder and decoder: else the former would
        move every gradient of the latter. The autoencoder gets a share, at its own pace.
        """
        contest = self._contest(door, crude, self._critic_steps)
        first = self._coder_steps / self._steps_planned
        part = contest.door.reserve(contest.door.share(self.coder_share), label="autoencoder")
        coder = replace(
            contest,
            door=part,
            steps=self._coder_steps,
            report=lambda done: self._training(first * done),
        )
        coded = _coded(coder)
        generator = Layers.random([LATENT, _HIDDEN, _CODE], contest.rng)
        arrays = [*generator.parameters, *coded[4:]]
        chain = Layers(tuple(arrays[::2]), tuple(arrays[1::2]), ("leaky", "tanh", "leaky"))
        model = contest.calibrated(contest.start(chain))
        rest = replace(contest, report=lambda d: self._training(first + (1 - first) * d))
        return rest.model(
            RowsSide(model, contest.blocks, contest.batch, crude, frozen=2),
            expected_gradient,
            random_critic(contest.blocks.starts[-1], CRITIC, contest.rng),
            label="critic of rows",
        )


def _coded(contest: Contest) -> list[Floats]:
    """Return encoder and decoder after a private training; the decoder starts near the margins."""
    blocks, scores = contest.blocks, np.log(contest.blocks.shares)
    encoder = Layers.random([len(scores), _HIDDEN, _CODE], contest.rng)
    decoder = Layers.random([_CODE, _HIDDEN, len(scores)], contest.rng, last=0.3, out=scores)
    learned = blocks.learned([*encoder.parameters, *decoder.parameters])
    optimiser = adam(blocks.torch, learned)
    for found in contest.gradients(
        autoencoder_gradient, contest.shown, learned, label="autoencoder"
    ):
        descend(optimiser, learned, found)
    return [as_array(tensor) for tensor in learned]
