"""The DPCTGAN synthesizer: a generator of rows with one given level of one attribute."""

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


def _phases(parameters: DPCTGAN) -> Phases:
    return (("critics", steps_of(parameters), 1.0),)


def _networks(request: Request[DPCTGAN], rows: Session, one_way: NoisyMarginals) -> NetworkModel:
    from missdp.baselines.games import ConditionalGame

    return ConditionalGame(request, rows, one_way).result()


@dataclass(kw_only=True, eq=False, repr=False)
class DPCTGAN(Synthesizer):
    """Synthetic tables from a conditional generator whose critic is trained privately.

    The generator is given one level of one attribute and draws a row with that level. The critic
    sees rows with their condition. A step samples rows at one rate and shows each row with every
    level that it has. The published order draws a level first and then a row with that level. It
    reads rows with rare levels more often than it charges for (see ``docs/synthesizers.md``). This
    family is for comparison: families that measure marginals are closer to the truth at usual
    epsilons. A fit is accounted by privacy loss distributions, with add-remove adjacency. Fitting
    needs PyTorch and Opacus (``pip install 'missdp[neural]'``), sampling does not.

    Parameters
    ----------
    epsilon, delta, n_rows, bins, random_state, budget, progress
        See :class:`~missdp.synth.base.Synthesizer`. delta must be above 0.
    missing : {"observed", "complete-rows", "impute-first"}, default "observed"
        ``"observed"`` reads every row. Missing cells are zeros in the input of the critic, and
        only observed levels are conditions. ``"complete-rows"`` drops incomplete rows.
        ``"impute-first"`` fills missing cells privately before.
    sampling_rate : float from 0.000001 to 1, default 0.02
        Probability with which a step of training reads a row. It is public, so it must not depend
        on the private number of rows.
    steps : int, optional
        Steps of training of the critic, by default 800.
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
    Xu, Skoularidou, Cuesta-Infante, Veeramachaneni (2019), "Modeling tabular data using conditional
    GAN", NeurIPS.
    Fang, Dhami, Kersting (2022), "DP-CTGAN: differentially private medical data generation using
    CTGANs", AIME.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> model = DPCTGAN(epsilon=1.0, steps=4).fit(yrbss().table())
    >>> model.sample(5).shape
    (5, 13)
    """

    family: ClassVar[Family] = adversarial_family(_networks, phases=_phases)

    missing: str = "observed"
    sampling_rate: float = 0.02
    steps: int | None = None
    first_share: float | None = None
    imputer: Imputer = "marginal"
    imputer_share: float = 0.1
