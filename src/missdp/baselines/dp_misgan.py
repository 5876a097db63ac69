"""The DP-MisGAN synthesizer: generators of values and of masks, and critics of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

from missdp.baselines.adversarial import Phases, adversarial_family, steps_of
from missdp.baselines.networks import NetworkModel
from missdp.errors import check_choice
from missdp.inference.marginals import NoisyMarginals
from missdp.session import Session
from missdp.synth.base import Synthesizer
from missdp.synth.family import Family, Request
from missdp.synth.impute_first import Imputer

Masks: TypeAlias = Literal["conditional", "independent"]


def _check(parameters: DPMisGAN) -> None:
    check_choice("masks", parameters.masks, get_args(Masks))


def _phases(parameters: DPMisGAN) -> Phases:
    return (("critics", steps_of(parameters, usual=1000), 1.0),)


def _networks(request: Request[DPMisGAN], rows: Session, one_way: NoisyMarginals) -> NetworkModel:
    from missdp.baselines.games import MaskGame

    return MaskGame(request, rows, one_way, request.parameters.masks).result()


@dataclass(kw_only=True, eq=False, repr=False)
class DPMisGAN(Synthesizer):
    """Synthetic tables from a generator of values and one of masks, against two critics.

    One critic sees a row's observed values, the other its mask, as in MisGAN (Li et al. 2019). The
    published training of DP-MisGAN adds noise where it does not protect (see
    ``docs/synthesizers.md``). Here one private training clips the gradients of both critics
    together, and generators see critics only. This family is for comparison: families that measure
    marginals are closer to the truth at usual epsilons. A fit is accounted by privacy loss
    distributions, with add-remove adjacency. Fitting needs PyTorch and Opacus (``pip install
    'missdp[neural]'``), sampling does not.

    Parameters
    ----------
    epsilon, delta, n_rows, bins, random_state, budget, progress
        See :class:`~missdp.synth.base.Synthesizer`. delta must be above 0.
    missing : {"observed", "complete-rows", "impute-first"}, default "observed"
        ``"observed"`` reads every row, its observed values and its mask. Missing cells can be
        sampled. ``"complete-rows"`` drops incomplete rows. ``"impute-first"`` fills missing cells
        privately before.
    masks : {"conditional", "independent"}, default "conditional"
        Whether the generator of masks sees the generated values (missing at random), or noise only
        (missing completely at random).
    sampling_rate : float from 0.000001 to 1, default 0.02
        Probability with which a step of training reads a row. It is public, so it must not depend
        on the private number of rows.
    steps : int, optional
        Steps of training of the critics, by default 1,000.
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
    Li, Jiang, Marlin (2019), "MisGAN: learning from incomplete data with generative adversarial
    networks", ICLR.
    Mohapatra, Zong, Kerschbaum, He (2024), PVLDB 17(8), for DP-MisGAN.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> model = DPMisGAN(epsilon=1.0, steps=4).fit(yrbss().table())
    >>> model.sample(5, missing_values="keep").shape
    (5, 13)
    >>> model.guarantee_.epsilon
    1.0
    """

    family: ClassVar[Family] = adversarial_family(
        _networks, phases=_phases, parameters=_check, reads_masks=True
    )

    masks: Masks = "conditional"
    missing: str = "observed"
    sampling_rate: float = 0.02
    steps: int | None = None
    first_share: float | None = None
    imputer: Imputer = "marginal"
    imputer_share: float = 0.1
