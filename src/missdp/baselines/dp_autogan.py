"""The DPAutoGAN synthesizer: a generator of codes, and a decoder that makes rows of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from missdp.accounting import Budget
from missdp.baselines.autoencoder import autoencoded
from missdp.baselines.contest import Pace
from missdp.baselines.neural_base import NETWORK_BATCH, NeuralSynthesizer, import_torch
from missdp.inference.row_model import RowModel
from missdp.mechanisms.door import Door
from missdp.synth.learn_pairs import Crude

__all__ = ["DPAutoGAN"]

_STEPS = 800
_CODER_RATE = 5e-3


@dataclass(kw_only=True, eq=False, repr=False)
class DPAutoGAN(NeuralSynthesizer):
    """Synthetic tables from a generator of codes and a decoder, each trained privately.

    For comparison: families that measure marginals are closer to the truth at any epsilon that is
    usual. An autoencoder learns to write rows as a few numbers, and a generator learns to draw such
    numbers, against a critic of decoded rows. Encoder and decoder are trained by one private
    training, of which the published one leaves the encoder out (see ``docs/adversarial.md``); the
    critic by a second, in the same budget. Accounted in Rényi DP; add-remove adjacency. Needs
    PyTorch (``pip install 'missdp[neural]'``) to be fitted, not to be sampled.

    Parameters
    ----------
    epsilon : float
        Budget of the whole fit.
    delta : float, optional
        Above 0. By default 1e-6, which is meant for up to 10,000 rows, or 1 / (100 n) if more, n,
        are declared.
    missing : {"observed", "complete-rows", "impute-first"}, default "observed"
        ``"observed"`` reads every row; the first layers of encoder and critic take the expectation
        over what is missing, by released margins, and nothing is asked of the decoder there.
        ``"complete-rows"`` drops incomplete rows. ``"impute-first"`` fills holes privately before.
    coder_share : float in (0, 1), default 0.4
        Share of what margins leave of the budget for the autoencoder.
    steps : int, optional
        Steps of training of the critic, and of the autoencoder half as many; by default 800.
    batch : int, optional
        Rows that a step of training is expected to read; by default 512.
    first_share : float in (0, 1), optional
        Share of the budget for the one-way margins, at which the generator starts and which its
        rows keep: by default 0.15.
    clip
        Of no use here.
    imputer : {"marginal", "pairs", "random", "mean"}, default "marginal"
        For ``"impute-first"``, with ``imputer_share`` of the budget.
    n_rows, random_state, budget
        See :class:`~missdp.synth.base.Synthesizer`.
    progress : callable, optional
        Called with a stage name and the share of the work done; shows nothing private.

    Attributes
    ----------
    guarantee_ : Guarantee
        Computed from what was released.
    model_ : NetworkModel
        The released generator.
    n_rows_, n_rows_std_ : int, float
        Released or declared number of rows, with the standard deviation of its noise.

    References
    ----------
    Tantipongpipat, Waites, Boob, Siva, Cummings (2021), "Differentially private synthetic
    mixed-type data generation for unsupervised learning", Intelligent Decision Technologies 15(4);
    Śmieja et al. (2018) for holes in expectation.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> from missdp.baselines import DPAutoGAN
    >>> model = DPAutoGAN(epsilon=1.0, steps=4, batch=100).fit(yrbss().table())
    >>> model.sample(5).shape
    (5, 13)
    """

    coder_share: float = 0.4

    model_: RowModel = field(init=False)

    def _check_parameters(self) -> Budget:
        self._check_share("coder_share")
        return super()._check_parameters()

    @property
    def _usual_batch(self) -> int:
        return NETWORK_BATCH

    @property
    def _steps_planned(self) -> int:
        return self._critic_steps + self._coder_steps

    @property
    def _critic_steps(self) -> int:
        return _STEPS if self.steps is None else int(self.steps)

    @property
    def _coder_steps(self) -> int:
        return max(1, self._critic_steps // 2)

    def _trained(self, door: Door, crude: Crude) -> RowModel:
        self._report("training", 0.1)
        coder = Pace(steps=self._coder_steps, batch=self._batch, critic_rate=_CODER_RATE)
        pace = Pace(steps=self._critic_steps, batch=self._batch)
        return autoencoded(
            door.merged(crude.groups(door.schema.names)),
            crude,
            coder,
            pace,
            share=self.coder_share,
            torch=import_torch(),
            always=self._never_missing(crude),
            report=lambda done: self._report("training", 0.1 + 0.85 * done),
        )
