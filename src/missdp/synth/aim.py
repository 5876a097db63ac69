"""The AIM synthesizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from missdp.accounting import Budget
from missdp.errors import ParameterError
from missdp.synth.graphical import GraphicalSynthesizer
from missdp.synth.learn import Plan
from missdp.synth.workload import Workload

__all__ = ["AIM"]

_ROUNDS_PER_ATTRIBUTE = 3
_MANY_ROUNDS = 100
_MOST_ROUNDS = 10_000


@dataclass(kw_only=True, eq=False, repr=False)
class AIM(GraphicalSynthesizer):
    """Synthetic tables from adaptively chosen marginals (McKenna et al. 2022), holes included.

    All one-way marginals are measured first.  Then, round by round, the exponential mechanism
    picks the workload marginal that the model gets most wrong, Gaussian noise releases it, and a
    maximum-entropy graphical model is refitted.  Accounted in zCDP, add-remove adjacency.

    Parameters
    ----------
    epsilon : float
        Budget of the whole fit.
    delta : float, optional
        Above 0. By default 1e-6, or 1 / (100 n) if n rows are declared and that is smaller.
    missing : {"joint", "observed", "complete-rows", "impute-first"}, default "joint"
        ``"joint"`` counts every row in every marginal, missing being a level, and fits a model of
        the *complete* data together with a model of what goes missing given the row, so that
        observed tables can be weighted by their chance of being observed.  That corrects for
        missingness whose logit is a sum of effects of single attributes that were measured with
        the missing one; not for interactions (missing if exactly one of two attributes is set),
        not even if they were measured, nor for values that decide themselves whether they are
        missing.  Without evidence for selective missingness it does nearly what partial marginals
        do: evidence for or against it is weighed inside the fit, from released values.
        ``"observed"`` (AIME, Mohapatra et al. 2024, who call it adaptive) counts
        each marginal over the rows observed on it.  ``"complete-rows"`` drops incomplete rows.
        ``"impute-first"`` fills holes privately before learning.
    workload : int, names or weights, default 2
        Marginals that should come out right: all k-way ones, or tuples of names, or weights by
        tuples of names.
    max_model_size : float, default 1.0
        Megabytes of the junction tree.
    structural_zeros : mapping, optional
        Public facts, never read from the private table: by tuples of attribute names, which
        combinations are impossible, as an array of bool (True is impossible; one axis per name,
        one entry per declared level or bin), or as a list of level combinations.  No filled
        synthetic row has one.  Private rows that do are not counted in those cells, and nothing
        shows how many there are.
    rounds : "auto" or int, default "auto"
        Selections planned for; ``"auto"`` is three per attribute up to 100, and one per attribute
        beyond.
    first_share : float in (0, 1), default 0.3
        Share of the budget for the one-way marginals.
    selection_share : float in (0, 1), default 0.1
        Share of each round's budget for the selection.
    shrink : float, default 0.2
        Regularisation of the complete-data model, in units of the noise.
    ridge : float, default 0.3
        Regularisation of the model of missingness, in units of the noise.
    model_rows : int, default 20,000
        Synthetic rows that expectations over the missingness model are computed on.
    imputer : {"marginal", "random", "mean"}, default "marginal"
        For ``"impute-first"``, with ``imputer_share`` of epsilon.
    n_rows, random_state, budget
        See :class:`~missdp.synth.base.Synthesizer`.
    progress : callable, optional
        Called with a stage name and the share of the budget used; shows nothing private.

    Attributes
    ----------
    guarantee_ : Guarantee
        Computed from what was released.
    model_ : GraphicalModel
        The released model.
    measured_ : tuple of tuple of str
        Which marginals were chosen.
    n_rows_, n_rows_std_ : int, float
        Released number of rows, from all released marginals that tell it, with the standard
        deviation of its noise; or the declared number and 0.

    References
    ----------
    McKenna, Mullins, Sheldon, Miklau (2022), "AIM", PVLDB 15(11).
    Mohapatra, Zong, Kerschbaum, He (2024), PVLDB 17(8), for ``"observed"``.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema
    >>> from missdp.synth.aim import AIM
    >>> schema = Schema((
    ...     Categorical(name="smoker", levels=("no", "yes"), nullable=True),
    ...     Categorical(name="ill", levels=("no", "yes")),
    ... ))
    >>> people = pd.DataFrame({"smoker": ["yes", None, "no"] * 50, "ill": ["yes", "no", "no"] * 50})
    >>> model = AIM(epsilon=1.0, delta=1e-6).fit(people, schema=schema)
    >>> model.sample(4).shape
    (4, 2)
    >>> model.guarantee_.epsilon, model.guarantee_.delta
    (1.0, 1e-06)
    """

    workload: Workload = 2
    max_model_size: float = 1.0
    rounds: int | Literal["auto"] = "auto"
    first_share: float = 0.3
    selection_share: float = 0.1

    def _check_parameters(self) -> Budget:
        budget = super()._check_parameters()
        self._check_share("first_share")
        self._check_share("selection_share")
        rounds = self.rounds
        if rounds != "auto" and (
            isinstance(rounds, (bool, str))
            or not isinstance(rounds, int)
            or not 1 <= rounds <= _MOST_ROUNDS
        ):
            raise ParameterError(
                f"rounds must be 'auto' or a whole number from 1 to {_MOST_ROUNDS:,}"
            )
        return budget

    def _plan(self, attributes: int) -> Plan:
        auto = min(_ROUNDS_PER_ATTRIBUTE * attributes, max(attributes, _MANY_ROUNDS))
        rounds = auto if self.rounds == "auto" else self.rounds
        return Plan(
            rho=self._rho,
            rounds=rounds,
            first_share=self.first_share,
            selection_share=self.selection_share,
            max_cells=self._max_cells,
            forest=False,
            anneal=True,
        )
