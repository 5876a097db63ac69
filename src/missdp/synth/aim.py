"""AIM: select, measure, estimate, anneal (McKenna et al. 2022, algorithm 2), with missing cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from missdp.errors import ParameterError
from missdp.synth.adaptive import AdaptiveFit, SelectionPlan, adaptive_family
from missdp.synth.base import Synthesizer
from missdp.synth.family import Family, Request
from missdp.synth.impute_first import Imputer, check_imputation
from missdp.synth.parameters import check_share, is_integer
from missdp.synth.workload import Workload, candidates

# Fewer in pure DP: with n rounds noise grows by n there, and by the root of n otherwise.
_ROUNDS_PER_ATTRIBUTE, _PURE_ROUNDS = 3, 1.5
_MANY_ROUNDS, _MAX_ROUNDS = 100, 10_000
_MIN_CELL_SD = 3.5  # standard deviations
_WITH_MISSING = 3  # times as many standard deviations, since tables with missing cells tell less
_SLACK = 1 - 1e-9  # so that rounding does not take the last one of the planned rounds
_SMALL_DOMAIN = 2**17  # combinations of levels, up to which rounds are enough for all pairs
_ANNEALED = 4  # times the cost
_RESERVE_SHARE = 0.25


@dataclass
class Rounds:
    """The cost of each round: an even share at first, more once noise hides what rounds change.

    Costs are in the measure of the budget: the square of mu, rho, or epsilon in pure DP.
    """

    fit: AdaptiveFit
    cost: float

    def __iter__(self) -> Iterator[float]:
        """Return the cost of each round; the last one takes all that is left."""
        last = False
        while not last:
            last = self.fit.remaining < 2 * _SLACK * self.cost or len(self.fit.workload) == 1
            yield self.fit.remaining if last else self.cost

    def anneal(self) -> None:
        """Spend more on each further round: half the noise, or a quarter in pure DP."""
        self.cost *= _ANNEALED


def select_and_measure(fit: AdaptiveFit, request: Request[AIM], how: SelectionPlan) -> None:
    """Select, measure, estimate and anneal, until the budget of the rounds is spent.

    One-way marginals were measured before, and pairs that no selected marginal contains are
    measured afterwards, with a reserve that is not in ``fit.remaining``.

    Parameters
    ----------
    fit : AdaptiveFit
        Measures marginals.
    request : Request
        Reports how much is done.
    how : SelectionPlan
        Has the planned rounds, and the share of a selection.
    """
    estimate = fit.estimate()
    rounds = Rounds(fit, fit.remaining / how.rounds)
    for cost in rounds:
        choice = fit.selection_cost(how.selection_share, cost)
        noise = fit.noise(cost - choice)
        # Select the marginal r with the largest w_r (|M_r(rows) - M_r(estimate)| - bias_r) by
        # the exponential mechanism. What noise adds to the distance is sqrt(2/pi) sigma a cell.
        expected = {r: fit.expected(r, estimate, noise) for r in fit.workload}
        chosen = fit.select(expected, choice)
        # Measure it.
        fit.measure(chosen, noise)
        # Estimate complete rows, and what is missing in them, from all that was measured.
        estimate = fit.estimate(before=estimate)
        # Anneal: spend more on a round once noise is all that the last one changed.
        change = np.abs(estimate.expected(chosen) - expected[chosen].table)
        if change.sum() <= expected[chosen].bias:
            rounds.anneal()
        request.report("selecting and measuring", fit.progress)


def _check(parameters: AIM) -> None:
    check_imputation(parameters)
    check_share(parameters, "first_share", "selection_share")
    rounds = parameters.rounds
    if rounds != "auto" and not (is_integer(rounds) and 1 <= rounds <= _MAX_ROUNDS):
        raise ParameterError(f"rounds must be 'auto' or a whole number from 1 to {_MAX_ROUNDS:,}")


def selection_plan(request: Request[AIM]) -> SelectionPlan:
    """Return how marginals are selected; public."""
    parameters, schema = request.parameters, request.public
    nullable = bool(schema.nullable) and not request.strategy.fills
    each = _ROUNDS_PER_ATTRIBUTE if request.delta else _PURE_ROUNDS
    usual = min(round(each * len(schema)), max(len(schema), _MANY_ROUNDS))
    return SelectionPlan(
        workload=candidates(parameters.workload, schema),
        one_way_share=parameters.first_share,
        selection_share=parameters.selection_share,
        rounds=usual if parameters.rounds == "auto" else parameters.rounds,
        reserve_share=_RESERVE_SHARE,
        min_rows=_MIN_CELL_SD * (_WITH_MISSING if nullable else 1),
        small_domain=_SMALL_DOMAIN,
    )


@dataclass(kw_only=True, eq=False, repr=False)
class AIM(Synthesizer):
    """Synthetic tables from adaptively chosen marginals (McKenna et al. 2022), holes included.

    All one-way marginals are measured first. In each round, the exponential mechanism picks the
    workload marginal that a model of whole rows gets most wrong. Gaussian noise releases it, or
    Laplace noise if delta is 0, and the model is fitted again. Accounted in Gaussian DP (in zCDP if
    epsilon is large, in pure epsilon if delta is 0), add-remove adjacency.

    Rounds leave many pairs of attributes unmeasured. A quarter of the budget measures those that no
    selected marginal contains, if that pays. There must be at most 600 pairs in the workload, and
    rounds alone would not measure all of them. The average cell of a pair must have rows worth at
    least 3.5 standard deviations of the noise, by the released number of rows; 10.5 if attributes
    may be missing.

    Other than in the paper, there are three rounds per attribute and not sixteen. A model of all
    measured marginals takes the place of Private-PGM, so that no candidate is too large. Expected
    counts are of rows observed on a marginal, by a model of missing cells. The reserve is new, too.
    As in the paper, candidates are the marginals of the workload and all that these contain,
    weighted by how much of the workload they touch.

    Parameters
    ----------
    epsilon, delta, n_rows, cuts, random_state, budget, progress
        See :class:`~missdp.synth.base.Synthesizer`; delta may be 0, for pure epsilon-DP.
    missing : {"joint", "observed", "complete-rows", "impute-first"}, default "joint"
        ``"joint"`` counts every row in every marginal, missing being a level, and fits a model of
        the *complete* data together with a model of what goes missing given the row, so that
        observed tables can be weighted by their chance of being observed.  That corrects for
        missingness whose logit is a sum of effects of single attributes, and of pairs, that were
        measured with the missing one: an interaction (missing if exactly one of two attributes is
        set) needs a workload with the three together.  It does not correct for values that decide
        themselves whether they are missing.  Without evidence for selective missingness it does
        nearly what partial marginals do: evidence for or against it is weighed inside the fit,
        from released values.
        ``"observed"`` (AIME, Mohapatra et al. 2024, who call it adaptive) counts
        each marginal over the rows observed on it.  ``"complete-rows"`` drops incomplete rows.
        ``"impute-first"`` fills holes privately before learning.
    workload : int, names or weights, default 2
        Marginals that should come out right: all k-way ones, or tuples of names, or weights by
        tuples of names.
    rounds : "auto" or int, default "auto"
        Selections planned for; ``"auto"`` is three per attribute (1.5 if delta is 0) up to 100,
        and one per attribute beyond.
    first_share : float from 0.0001 to 0.99, default 0.3
        Share of the budget for the one-way marginals.
    selection_share : float from 0.0001 to 0.99, default 0.1
        Share of each round's budget for the selection.
    imputer : {"marginal", "random", "mean"}, default "marginal"
        For ``"impute-first"``, with ``imputer_share`` of the budget.

    Attributes
    ----------
    model_ : PairModel
        The released model.
    tables_ : NoisyMarginals
        The released marginals, on groups of levels.
    measured_ : tuple of tuple of str
        Which marginals were selected.
    guarantee_, n_rows_, n_rows_std_
        See :class:`~missdp.synth.base.Synthesizer`.

    References
    ----------
    McKenna, Mullins, Sheldon, Miklau (2022), "AIM", PVLDB 15(11).
    Mohapatra, Zong, Kerschbaum, He (2024), PVLDB 17(8), for ``"observed"``.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema
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

    family: ClassVar[Family] = adaptive_family(_check, selection_plan, select_and_measure)

    imputer: Imputer = "marginal"
    imputer_share: float = 0.1
    workload: Workload = 2
    rounds: int | Literal["auto"] = "auto"
    first_share: float = 0.3
    selection_share: float = 0.1
