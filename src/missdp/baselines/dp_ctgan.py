"""The DPCTGAN synthesizer: a generator that is asked for one level of one attribute."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from missdp.baselines.adversarial import CRITIC, LATENT, NeuralSynthesizer, RowsSide
from missdp.baselines.critics import conditional_gradient
from missdp.baselines.networks import START, Layers, known_margins, observed_shares, random_critic
from missdp.inference.masks import RowModel
from missdp.mechanisms.door import Door
from missdp.synth.learn_pairs import Crude

_HIDDEN = 64


@dataclass(kw_only=True, eq=False, repr=False)
class DPCTGAN(NeuralSynthesizer):
    """Synthetic tables from a conditional generator, its critic trained privately.

    For comparison: families that measure marginals are closer to the truth at any epsilon that is
    usual. The generator is given one level of one attribute and draws a row that has it; the critic
    sees rows with that condition. A step of training samples rows first, all at one rate, and shows
    each with every level that it has; the published order, a level first and then a row that has
    it, reads rows with rare levels more often than it charges for (see ``docs/families.md``).
    Accounted in Rényi DP; add-remove adjacency. Needs PyTorch (``pip install 'missdp[neural]'``) to
    be fitted, not to be sampled.

    Parameters
    ----------
    epsilon, delta, n_rows, cuts, random_state, budget, progress
        See :class:`~missdp.synth.base.Synthesizer`; delta must be above 0.
    missing : {"observed", "complete-rows", "impute-first"}, default "observed"
        ``"observed"`` reads every row; the first layer of the critic takes the expectation over
        what is missing, by released margins, and only observed levels are conditions.
        ``"complete-rows"`` drops incomplete rows. ``"impute-first"`` fills missing cells privately
        before.
    steps : int, optional
        Steps of training of the critic; by default 800.
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
    Xu, Skoularidou, Cuesta-Infante, Veeramachaneni (2019), "Modeling tabular data using conditional
    GAN", NeurIPS; Fang, Dhami, Kersting (2022), "DP-CTGAN: differentially private medical data
    generation using CTGANs", AIME.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> model = DPCTGAN(epsilon=1.0, steps=4, batch=100).fit(yrbss().table())
    >>> model.sample(5).shape
    (5, 13)
    """

    model_: RowModel = field(init=False)

    def _trained(self, door: Door, crude: Crude) -> RowModel:
        """Return a generator with conditions, its critic trained with all that is left.

        A row is shown with every level that it has, so a step is one sampled Gaussian.
        """
        contest = self._contest(door, crude, self._steps_planned)
        rng, blocks = contest.rng, contest.blocks
        width = blocks.starts[-1]
        sizes = [LATENT + width, _HIDDEN, _HIDDEN, width]
        values = Layers.random(sizes, rng, last=START, out=np.log(blocks.shares))
        conditions, asked = tuple(known_margins(crude)[0]), observed_shares(crude)
        model = replace(contest.start(values), conditions=conditions, asked=asked)
        levels = rng.standard_normal((width, CRITIC)) * (2 / width) ** 0.5
        return contest.model(
            RowsSide(model, blocks, contest.batch, crude),
            conditional_gradient,
            [levels, *random_critic(width, CRITIC, rng)],
            label="critic of rows and conditions",
        )
