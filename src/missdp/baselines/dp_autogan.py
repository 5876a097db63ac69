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
    """Synthesizer with a generator of codes and a private autoencoder (DP-auto-GAN).

    An autoencoder learns to encode rows as a few numbers (codes), and to decode them. A generator
    network learns to draw codes, against a critic of decoded rows. It is for comparison: families
    that measure marginals are closer to the truth at usual epsilons. A fit is accounted by privacy
    loss distributions, with add-remove adjacency. Fitting needs PyTorch and Opacus (``pip install
    'missdp[neural]'``), and sampling does not.

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
        Strategy for missing cells. ``"observed"`` reads every row. Missing cells are zeros in the
        inputs, and the decoder is trained on observed cells only. ``"complete-rows"`` drops rows
        with a missing cell before anything else. ``"impute-first"`` fills missing cells privately
        first.
    coder_share : float from 0.0001 to 0.99, default 0.4
        Share of the budget of the trainings for the autoencoder. The critic gets the rest.
    sampling_rate : float from 0.000001 to 1, default 0.02
        Probability with which a step of training reads a row. It is public, so it must not depend
        on the private number of rows.
    steps : int, optional
        Steps of training of the critic, from 1 to 100,000, by default 800. The autoencoder has half
        as many.
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
    One private training fits encoder and decoder. The published method leaves the encoder out of it
    (see ``docs/referees/claims.md``). A second private training in the same plan fits the critic.

    References
    ----------
    Tantipongpipat, Waites, Boob, Siva, Cummings (2021), "Differentially private synthetic
    mixed-type data generation for unsupervised learning", Intelligent Decision Technologies 15(4).

    Examples
    --------
    >>> from missdp import DPAutoGAN
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
