"""The DP-MisGAN synthesizer: generators of values and of holes, and critics that see both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias, get_args

from missdp.accounting import Budget
from missdp.baselines.class_table import ClassTable
from missdp.baselines.contest import Pace
from missdp.baselines.fit_classes import fit_classes, independent_classes
from missdp.baselines.mlp_misgan import mlp_misgan
from missdp.baselines.networks import NetworkModel
from missdp.baselines.neural_base import NETWORK_BATCH, NeuralSynthesizer, import_torch
from missdp.baselines.pair_critic import trained_moments
from missdp.baselines.pair_moments import PairMoments, moments_of
from missdp.errors import ParameterError
from missdp.inference.row_model import RowModel
from missdp.mechanisms.door import Door
from missdp.synth.learn_pairs import Crude
from missdp.synth.state import is_whole

__all__ = ["Critic", "DPMisGAN", "Masks"]

Critic: TypeAlias = Literal["kernel", "trained", "mlp"]
Masks: TypeAlias = Literal["conditional", "independent"]

_STEPS = {"trained": 40, "mlp": 1000}
_MOST_CLASSES = 100_000
_MOST_FITS = 100


@dataclass(kw_only=True, eq=False, repr=False)
class DPMisGAN(NeuralSynthesizer):
    """Synthetic tables from generators of values and of holes that critics hold against real rows.

    A critic sees a row's observed values and its mask, as in MisGAN (Li et al. 2019), and
    generators of values and of masks are fitted until it cannot tell their rows from private ones.
    The published training of DP-MisGAN adds noise where it does not protect (see
    ``docs/adversarial.md``); here critics learn from the private rows through one charged answer,
    and generators never see them. Add-remove adjacency. Needs PyTorch
    (``pip install 'missdp[neural]'``) to be fitted, not to be sampled.

    Parameters
    ----------
    epsilon : float
        Budget of the whole fit.
    delta : float, optional
        Above 0. By default 1e-6, which is meant for up to 10,000 rows, or 1 / (100 n) if more, n,
        are declared.
    missing : {"observed", "complete-rows", "impute-first"}, default "observed"
        ``"observed"`` reads every row, its observed values and its mask; holes can be sampled.
        ``"complete-rows"`` drops incomplete rows. ``"impute-first"`` fills holes privately before.
    critic : {"kernel", "trained", "mlp"}, default "kernel"
        ``"kernel"``: linear in all pairs of values and holes of a row, in closed form from one
        Gaussian release. ``"trained"``: the same features, by noisy gradients of sampled rows.
        ``"mlp"``: small networks, as in the publication, against generators that are networks, for
        comparison: much further from the truth.
    masks : {"conditional", "independent"}, default "conditional"
        Whether holes may depend on the values (missing at random given a hidden class), where there
        is evidence that they do, or never do (missing completely at random).
    classes : int, default 200
        Hidden classes of a generator; of no use to ``"mlp"``.
    fits : int, default 3
        Generators from different starts, whose mixture is the model; of no use to ``"mlp"``.
    steps : int, optional
        Steps of training, of a critic that is trained; by default 40, or 1,000 of ``"mlp"``.
    batch : int, optional
        Rows that a step of training is expected to read; by default 4,096, or 512 for ``"mlp"``.
    clip : "auto" or float, default "auto"
        L2 norm to which the features of each row are clipped.
    first_share : float in (0, 1), optional
        Share of the budget for the one-way margins, at which generators start: by default 0.08, or
        0.15 if the critic is trained.
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
    model_ : ClassTable or NetworkModel
        The released generator.
    n_rows_, n_rows_std_ : int, float
        Released or declared number of rows, with the standard deviation of its noise.

    References
    ----------
    Li, Jiang, Marlin (2019), "MisGAN: learning from incomplete data with generative adversarial
    networks", ICLR; Harder, Adamczewski, Park (2021), "DP-MERF", AISTATS, for critics in closed
    form; Mohapatra et al. (2024) for DP-MisGAN.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> from missdp.baselines import DPMisGAN
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
        if self.critic == "kernel":
            return 0
        return _STEPS[self.critic] if self.steps is None else int(self.steps)

    @property
    def _usual_batch(self) -> int:
        return NETWORK_BATCH if self.critic == "mlp" else super()._usual_batch

    def _alone(self, crude: Crude) -> RowModel:
        return independent_classes(crude, self._never_missing(crude))

    def _trained(self, door: Door, crude: Crude) -> RowModel:
        always = self._never_missing(crude)
        if self.critic == "mlp":
            return mlp_misgan(
                door.merged(crude.groups(door.schema.names)),
                crude,
                Pace(steps=self._steps_planned, batch=self._batch),
                torch=import_torch(),
                sees_values=self.masks == "conditional",
                always=always,
                report=lambda done: self._report("training", 0.1 + 0.85 * done),
            )
        moments = self._moments(door, crude)
        self._report("fitting", 0.5)
        return fit_classes(
            moments,
            classes=int(self.classes),
            fits=int(self.fits),
            conditional=self.masks == "conditional",
            always=always,
            rng=door.generator(),
            report=lambda done: self._report("fitting", 0.5 + 0.5 * done),
        )

    def _moments(self, door: Door, crude: Crude) -> PairMoments:
        """Let the critic learn from the private rows, with all that is left of the budget."""
        if self.critic == "kernel":
            return moments_of(self._all_pairs(door, crude))
        return trained_moments(
            door,
            crude,
            clip=self.clip,
            steps=self._steps_planned,
            batch=self._batch,
            report=lambda done: self._report("training", 0.1 + 0.4 * done),
        )
