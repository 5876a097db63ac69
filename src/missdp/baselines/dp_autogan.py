"""The DPAutoGAN synthesizer: a generator of codes, and a decoder that makes rows of them."""

from __future__ import annotations

from dataclasses import dataclass

from missdp.accounting import Filter
from missdp.baselines.adversarial import NeuralSynthesizer, Phases
from missdp.baselines.networks import NetworkModel
from missdp.session import Session
from missdp.synth.learn_pairs import OneWayMarginals


@dataclass(kw_only=True, eq=False, repr=False)
class DPAutoGAN(NeuralSynthesizer):
    """Synthetic tables from a generator of codes and a decoder, each trained privately.

    An autoencoder learns to write rows as a few numbers. A generator learns to draw such numbers,
    against a critic of decoded rows. Encoder and decoder are trained by one private training, of
    which the published method leaves the encoder out (see ``docs/families.md``). The critic is
    trained by a second one in the same plan. For comparison: families that measure marginals are
    closer to the truth at usual epsilons. Accounted by privacy loss distributions, add-remove
    adjacency. Fitting needs PyTorch and Opacus (``pip install 'missdp[neural]'``), sampling does
    not.

    Parameters
    ----------
    epsilon, delta, n_rows, cuts, random_state, budget, progress
        See :class:`~missdp.synth.base.Synthesizer`. delta must be above 0.
    missing : {"observed", "complete-rows", "impute-first"}, default "observed"
        ``"observed"`` reads every row. Missing cells are zeros in the inputs, and the decoder is
        trained on observed cells only. ``"complete-rows"`` drops incomplete rows.
        ``"impute-first"`` fills missing cells privately before.
    coder_share : float from 0.0001 to 0.99, default 0.4
        Share of the training for the autoencoder.
    sampling_rate : float from 0.000001 to 1, default 0.02
        Probability with which a step of training reads a row. It is public, and so does not follow
        from the number of rows.
    steps : int, optional
        Steps of training of the critic, and of the autoencoder half as many; by default 800.
    first_share : float from 0.0001 to 0.99, default 0.2
        Share of the budget (squared mu) for what is released before the training: bins, marginals
        and imputation.
    imputer : {"marginal", "random", "mean"}, default "marginal"
        For ``"impute-first"``, with ``imputer_share`` of the first part.
    clip
        Leave it out: it is a parameter of AllPairs and Kamino.

    Attributes
    ----------
    model_ : NetworkModel
        The released generator.

    References
    ----------
    Tantipongpipat, Waites, Boob, Siva, Cummings (2021), "Differentially private synthetic
    mixed-type data generation for unsupervised learning", Intelligent Decision Technologies 15(4).

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> model = DPAutoGAN(epsilon=1.0, steps=4).fit(yrbss().table())
    >>> model.sample(5).shape
    (5, 13)
    """

    coder_share: float = 0.4

    def _check_parameters(self) -> Filter:
        self._check_share("coder_share")
        return super()._check_parameters()

    @property
    def _phases(self) -> Phases:
        share, steps = float(self.coder_share), self._steps
        return (("autoencoder", max(1, steps // 2), share), ("critic", steps, 1 - share))

    def _fit_networks(self, rows: Session, one_way: OneWayMarginals) -> NetworkModel:
        from missdp.baselines.games import CodeGame

        return CodeGame(self, rows, one_way).result()
