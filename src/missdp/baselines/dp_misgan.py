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
    """Synthesizer with one generator network for values and one for missing cells (DP-MisGAN).

    Two critic networks are trained privately. One critic sees the observed values of a row. The
    other critic sees its mask, the indicators of missing cells, as in MisGAN (Li et al. 2019). It
    is for comparison: families that measure marginals are closer to the truth at usual epsilons. A
    fit is accounted by privacy loss distributions, with add-remove adjacency. Fitting needs PyTorch
    and Opacus (``pip install 'missdp[neural]'``), and sampling does not.

    Parameters
    ----------
    epsilon : float
        Privacy budget of the complete fit, from 1e-6 to 10,000. Two neighbouring tables differ by
        one added or removed row (add-remove adjacency).
    delta : float or None, default None
        Delta of the complete fit, above 0 and below 1. None is 1e-6, which is meant for up to
        10,000 rows. For a declared number n of rows above 10,000, None is ``1 / (100 n)``.
    n_rows : "noisy" or int, default "noisy"
        ``"noisy"`` estimates the private number of rows from released values. A small share of the
        budget releases a noisy count if these values are not precise enough. An integer from 1 to
        2**53 declares the number of rows public.
    bins : {"private", "equal"}, default "private"
        Bins of numeric attributes that declare none. ``"private"`` releases bins by a noisy tree of
        counts, for three tenths of the budget together. ``"equal"`` makes ten bins of equal width
        at no cost.
    random_state : int or None, default None
        None draws noise from the operating system's cryptographic source. A number is for tests:
        the guarantee then states that the seed must be secret.
    budget : Filter, Composition or None, default None
        A budget shared with other releases from the same table. It is charged before the first
        noisy value is released.
    progress : callable, bool or None, default None
        Called with the name of a stage and the share of the work done, in [0, 1]. It shows nothing
        private. True draws a bar in a terminal or notebook, and prints each stage elsewhere.
    missing : {"observed", "complete-rows", "impute-first"}, default "observed"
        Strategy for missing cells. ``"observed"`` reads every row, its observed values and its
        mask. Missing cells can be sampled. ``"complete-rows"`` drops rows with a missing cell
        before anything else. ``"impute-first"`` fills missing cells privately first.
    masks : {"conditional", "independent"}, default "conditional"
        Whether the generator of masks sees the generated values (missing at random), or noise only
        (missing completely at random).
    sampling_rate : float from 0.000001 to 1, default 0.02
        Probability with which a step of training reads a row. It is public, so it must not depend
        on the private number of rows.
    steps : int, optional
        Steps of training of the critics, from 1 to 100,000, by default 1,000.
    first_share : float from 0.0001 to 0.99, optional
        Share of the budget (squared mu) for the releases before the training: bins, marginals and
        imputation. By default 0.2.
    imputer : {"marginal", "random", "mean"}, default "marginal"
        Rule by which ``missing="impute-first"`` fills missing cells. ``"marginal"`` draws from a
        noisy one-way marginal. ``"mean"`` fills a numeric attribute with its noisy mean, and draws
        others from the noisy marginal. ``"random"`` draws any public level at no cost.
    imputer_share : float from 0.0001 to 0.99, default 0.1
        Share of the budget of the releases before the training for the marginals of the imputer.

    Attributes
    ----------
    model_ : NetworkModel
        The released generator.
    guarantee_ : Guarantee
        The guarantee of everything that the fit released, with its conditions.
    n_rows_ : int
        Released or declared number of rows, at least 1.
    n_rows_std_ : float
        Standard deviation of the noise of ``n_rows_``, in rows. 0 if the number was declared.

    Raises
    ------
    ParameterError
        Raised by ``fit`` before the charge, if a parameter has no valid value or no noise keeps the
        training within epsilon.
    MissingDependencyError
        Raised by ``fit``, if PyTorch or Opacus is not installed.

    Notes
    -----
    The published training of DP-MisGAN adds noise where it does not protect (see
    ``docs/referees/claims.md``). Here one private training clips the gradients of both critics
    together, and generators see critics only.

    References
    ----------
    Li, Jiang, Marlin (2019), "MisGAN: learning from incomplete data with generative adversarial
    networks", ICLR.

    Mohapatra, Zong, Kerschbaum, He (2024), PVLDB 17(8), for DP-MisGAN.

    Examples
    --------
    >>> from missdp import DPMisGAN
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
