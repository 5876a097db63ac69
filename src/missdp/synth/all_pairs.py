"""The AllPairs synthesizer: one release of all pairs of attributes, and rows that hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

from missdp.accounting import Budget
from missdp.errors import ParameterError
from missdp.inference.pair_model import Base
from missdp.mechanisms.door import Door, Total
from missdp.synth.learn_pairs import fit_pairs
from missdp.synth.pairs_base import PairsSynthesizer

__all__ = ["AllPairs"]


@dataclass(kw_only=True, eq=False, repr=False)
class AllPairs(PairsSynthesizer):
    """Synthetic tables from one noisy release of all pairs of attributes, holes included.

    Two Gaussian releases, whose scales are fixed in advance: one-way margins with a small share of
    the budget, and then all two-way tables at once, as sums over rows of products of centred
    indicators.  Centring by the margins makes the vector of a row short, and one clip norm for the
    whole vector makes all pairs cost no more than a few.  Nothing is selected, so nothing is spent
    on selecting, and no pair is left out.  A model that can hold all pairs is fitted to the tables,
    and its rows are drawn.  Accounted in Gaussian DP, add-remove adjacency.

    Parameters
    ----------
    epsilon : float
        Budget of the whole fit.
    delta : float, optional
        Above 0. By default 1e-6, which is meant for up to 10,000 rows, or 1 / (100 n) if more, n,
        are declared.
    missing : {"joint", "observed", "complete-rows", "impute-first"}, default "joint"
        ``"joint"`` releases, beside the tables of the observed cells, how holes of one attribute
        go with the levels and the holes of every other, models what goes missing given the row,
        and weights observed tables by their chance of being observed.  It corrects for missingness
        that depends on observed attributes one by one.  ``"observed"`` takes the rows observed on a
        pair for all rows.  ``"complete-rows"`` drops incomplete rows.  ``"impute-first"`` fills
        holes privately before learning.
    base : {"heads", "tree"}, default "heads"
        How rows are drawn: by a regression of each attribute on the earlier ones, fitted to all
        pairs; or, quicker and less accurate, along a spanning tree, and raked to all pairs.
    clip : "auto" or float, default "auto"
        L2 norm to which the vector of each row is clipped.  ``"auto"`` follows from the released
        margins and number of rows, epsilon and delta.
    first_share : float in (0, 1), optional
        Share of the budget for the one-way margins, by default 0.08.
    imputer : {"marginal", "pairs", "random", "mean"}, default "marginal"
        For ``"impute-first"``, with ``imputer_share`` of the budget (mu squared).
    n_rows, random_state, budget
        See :class:`~missdp.synth.base.Synthesizer`.
    progress : callable, optional
        Called with a stage name and the share of the work done; shows nothing private.

    Attributes
    ----------
    guarantee_ : Guarantee
        Computed from what was released.
    model_ : PairModel
        The released model.
    n_rows_, n_rows_std_ : int, float
        Released number of rows, from all margins that tell it, with the standard deviation of its
        noise; or the declared number and 0.

    References
    ----------
    Dong, Roth, Su (2022), "Gaussian differential privacy", JRSS B 84(1), for the accounting.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema
    >>> from missdp.synth import AllPairs
    >>> schema = Schema((
    ...     Categorical(name="smoker", levels=("no", "yes"), nullable=True),
    ...     Categorical(name="ill", levels=("no", "yes")),
    ... ))
    >>> people = pd.DataFrame({"smoker": ["yes", None, "no"] * 50, "ill": ["yes", "no", "no"] * 50})
    >>> model = AllPairs(epsilon=1.0, delta=1e-6).fit(people, schema=schema)
    >>> model.sample(4).shape
    (4, 2)
    >>> model.guarantee_.epsilon, model.guarantee_.delta
    (1.0, 1e-06)
    """

    strategies: ClassVar[tuple[str, ...]] = ("joint", "observed", "complete-rows", "impute-first")

    base: Base = "heads"

    def _check_parameters(self) -> Budget:
        budget = super()._check_parameters()
        if not (isinstance(self.base, str) and self.base in get_args(Base)):
            raise ParameterError(f"base must be one of {list(get_args(Base))}")
        return budget

    def _fit(self, door: Door) -> Total:
        door, total = self._opened_rows(door)
        crude = self._crude(door, total)
        release = self._all_pairs(door, crude)
        self._report("fitting", 0.3)
        self.model_ = fit_pairs(
            release,
            base=self.base,
            selective=door.strategy.models_holes,
            always=self._never_missing(crude),
            told=self._modelled.told,
            allowed=self._allowed(door, crude),
            rng=door.generator(),
        )
        self._report("done", 1.0)
        return self._counted(door, crude, total)
