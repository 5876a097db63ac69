"""The DPAutoGAN synthesizer: a generator of codes, and a decoder that makes rows of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from missdp.baselines.adversarial import Phases, adversarial_family, steps_of
from missdp.baselines.networks import NetworkModel
from missdp.inference.marginals import NoisyMarginals
from missdp.session import Session
from missdp.synth.base import Synthesizer
from missdp.synth.family import Family, Request
from missdp.synth.impute_first import Imputer
from missdp.synth.parameters import check_share


def _check(parameters: DPAutoGAN) -> None:
    check_share(parameters, "coder_share")


def _phases(parameters: DPAutoGAN) -> Phases:
    share, steps = float(parameters.coder_share), steps_of(parameters)
    return (("autoencoder", max(1, steps // 2), share), ("critic", steps, 1 - share))


def _networks(request: Request[DPAutoGAN], rows: Session, one_way: NoisyMarginals) -> NetworkModel:
    from missdp.baselines.games import CodeGame

    return CodeGame(request, rows, one_way).result()


@dataclass(kw_only=True, eq=False, repr=False)
class DPAutoGAN(Synthesizer):
    """Synthetic tables from a generator of codes and a decoder, each trained privately.

    An autoencoder learns to encode rows as a few numbers. A generator learns to draw such codes,
    against a critic of decoded rows. One private training fits encoder and decoder. The published
    method leaves the encoder out of it (see ``docs/synthesizers.md``). A second private training in
    the same plan fits the critic. This family is for comparison: families that measure marginals
    are closer to the truth at usual epsilons. A fit is accounted by privacy loss distributions,
    with add-remove adjacency. Fitting needs PyTorch and Opacus (``pip install 'missdp[neural]'``),
    sampling does not.

    Parameters
    ----------
    epsilon, delta, n_rows, bins, random_state, budget, progress
        See :class:`~missdp.synth.base.Synthesizer`. delta must be above 0.
    missing : {"observed", "complete-rows", "impute-first"}, default "observed"
        ``"observed"`` reads every row. Missing cells are zeros in the inputs, and the decoder is
        trained on observed cells only. ``"complete-rows"`` drops incomplete rows.
        ``"impute-first"`` fills missing cells privately before.
    coder_share : float from 0.0001 to 0.99, default 0.4
        Share of the training for the autoencoder.
    sampling_rate : float from 0.000001 to 1, default 0.02
        Probability with which a step of training reads a row. It is public, so it must not depend
        on the private number of rows.
    steps : int, optional
        Steps of training of the critic, by default 800. The autoencoder has half as many.
    first_share : float from 0.0001 to 0.99, default 0.2
        Share of the budget (squared mu) for the releases before the training: bins, marginals and
        imputation.
    imputer : {"marginal", "random", "mean"}, default "marginal"
        For ``"impute-first"``, with ``imputer_share`` of the first part.

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

    family: ClassVar[Family] = adversarial_family(_networks, phases=_phases, parameters=_check)

    coder_share: float = 0.4
    missing: str = "observed"
    sampling_rate: float = 0.02
    steps: int | None = None
    first_share: float | None = None
    imputer: Imputer = "marginal"
    imputer_share: float = 0.1
