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
from missdp.synth.workload import AUTO, Workload, candidates, fixed_workload

# Pure DP has fewer rounds. With n rounds its noise grows by n, in other measures by the root of
# n.
_ROUNDS_PER_ATTRIBUTE, _PURE_ROUNDS = 3, 1.5
_MANY_ROUNDS, _MAX_ROUNDS = 100, 10_000
_MIN_CELL_SD = 3.5  # SDs of noise: smallest mean count of a cell with which a reserve pays
_MISSING_FACTOR = 3  # factor of _MIN_CELL_SD if cells may be missing
_SLACK = 1 - 1e-9  # factor that protects the last planned round from rounding
_SMALL_DOMAIN = 2**17  # combinations of levels up to which rounds are enough for all pairs
_ANNEALED = 4  # factor of the cost of a round
_RESERVE_SHARE = 0.25  # share of the budget for pairs that no selected marginal contains


@dataclass
class Rounds:
    """Costs of the rounds: equal shares at first, larger ones once noise hides all changes.

    * ``fit``: Has the remaining budget.
    * ``cost``: Cost of the next round, in the measure of the budget. The measure is the square of
      mu, rho, or epsilon in pure DP.
    """

    fit: AdaptiveFit
    cost: float

    def __iter__(self) -> Iterator[float]:
        """Yield the cost of each round. The last round takes the remaining budget."""
        last = False
        while not last:
            last = self.fit.remaining < 2 * _SLACK * self.cost or len(self.fit.workload) == 1
            yield self.fit.remaining if last else self.cost

    def anneal(self) -> None:
        """Divide the noise of later rounds by two, or by four in pure DP."""
        self.cost *= _ANNEALED


def select_and_measure(fit: AdaptiveFit, request: Request[AIM], plan: SelectionPlan) -> None:
    """Select, measure, estimate and anneal, until the budget of the rounds is spent.

    One-way marginals were measured before. Pairs that no selected marginal contains are measured
    afterwards, with a reserve that is not in ``fit.remaining``.

    Parameters
    ----------
    fit : AdaptiveFit
        Selects and measures marginals.
    request : Request
        Reports how much of the work is done.
    plan : SelectionPlan
        States the number of rounds and the share of a selection.
    """
    estimate = fit.estimate()
    rounds = Rounds(fit, fit.remaining / plan.rounds)
    for cost in rounds:
        selection_cost = fit.selection_cost(plan.selection_share, cost)
        noise = fit.noise(cost - selection_cost)
        # Select: the exponential mechanism has the score w_r (|M_r(rows) - M_r(estimate)| - bias_r)
        # of a marginal r. The bias is the distance that noise adds, sqrt(2/pi) sigma for each cell.
        expected = {r: fit.expected(r, estimate, noise) for r in fit.workload}
        selected = fit.select(expected, selection_cost)
        # Measure.
        fit.measure(selected, noise)
        # Estimate complete rows and their missing cells from all measured marginals.
        estimate = fit.estimate(before=estimate)
        # Anneal: later rounds cost more if the last estimate changed by no more than noise.
        change = np.abs(estimate.expected(selected) - expected[selected].table)
        if change.sum() <= expected[selected].bias:
            rounds.anneal()
        request.report("selecting and measuring", fit.progress)


def _check(parameters: AIM) -> None:
    """Raise ParameterError for a parameter that is not valid."""
    check_imputation(parameters)
    check_share(parameters, "first_share", "selection_share")
    rounds = parameters.rounds
    if rounds != "auto" and not (is_integer(rounds) and 1 <= rounds <= _MAX_ROUNDS):
        raise ParameterError(f"rounds must be 'auto' or a whole number from 1 to {_MAX_ROUNDS:,}")


def selection_plan(request: Request[AIM]) -> SelectionPlan:
    """Return the public plan by which marginals are selected."""
    parameters, schema = request.parameters, request.public
    nullable = bool(schema.nullable) and not request.strategy.fills
    each = _ROUNDS_PER_ATTRIBUTE if request.delta else _PURE_ROUNDS
    usual = min(round(each * len(schema)), max(len(schema), _MANY_ROUNDS))
    return SelectionPlan(
        workload=candidates(fixed_workload(parameters.workload), schema),
        one_way_share=parameters.first_share,
        selection_share=parameters.selection_share,
        rounds=usual if parameters.rounds == "auto" else parameters.rounds,
        reserve_share=_RESERVE_SHARE,
        min_rows=_MIN_CELL_SD * (_MISSING_FACTOR if nullable else 1),
        searches=parameters.workload == AUTO,
        small_domain=_SMALL_DOMAIN,
    )


@dataclass(kw_only=True, eq=False, repr=False)
class AIM(Synthesizer):
    """Synthesizer that selects the marginals it measures adaptively (McKenna et al. 2022).

    A marginal is a table of counts over a few attributes. Use AIM if only some marginals matter,
    for many attributes of few rows, or for pure differential privacy.

    All one-way marginals are measured first. In each round, the exponential mechanism selects the
    marginal of the workload that a model of complete rows describes worst. Gaussian noise releases
    it, or Laplace noise if delta is 0, and the model is fitted again. A fit is accounted in
    Gaussian DP. It is accounted in zCDP if epsilon is large, and in pure epsilon if delta is 0.
    Adjacency is add-remove.

    Parameters
    ----------
    epsilon : float
        Privacy budget of the complete fit, from 1e-6 to 10,000. Two neighbouring tables differ by
        one added or removed row (add-remove adjacency).
    delta : float or None, default None
        Delta of the complete fit, from 0 and below 1. 0 gives pure epsilon-DP. None is 1e-6, which
        is meant for up to 10,000 rows. For a declared number n of rows above 10,000, None is
        ``1 / (100 n)``.
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
    missing : {"joint", "observed", "complete-rows", "impute-first"}, default "joint"
        Strategy for missing cells. ``"joint"`` counts every row in every marginal, with "missing"
        as one more level. It fits a model of complete rows, and a model of missing cells given the
        row. ``"observed"`` (AIME, Mohapatra et al. 2024, who call it adaptive) counts each marginal
        over the rows in which its attributes are observed. ``"complete-rows"`` drops rows with a
        missing cell before anything else. ``"impute-first"`` fills missing cells privately first.
        See Notes.
    workload : "auto", int, iterable of tuple of str, or mapping of tuple of str to float, default 2
        Marginals that should be accurate. ``"auto"`` means all pairs, and up to eight marginals of
        three or four attributes that pairs describe badly (two if delta is 0). See Notes. An
        integer k from 1 to 4 means all marginals of k attributes. Otherwise tuples of 1 to 4
        attribute names, or weights from 1e-9 to 1e9 by such tuples.
    rounds : "auto" or int, default "auto"
        Planned number of selections, from 1 to 10,000. ``"auto"`` is three per attribute (1.5 if
        delta is 0) up to 100, and one per attribute above 100 attributes.
    first_share : float from 0.0001 to 0.99, default 0.3
        Share of the budget for the one-way marginals.
    selection_share : float from 0.0001 to 0.99, default 0.1
        Share of the cost of each round for its selection.
    imputer : {"marginal", "random", "mean"}, default "marginal"
        Rule by which ``missing="impute-first"`` fills missing cells. ``"marginal"`` draws from a
        noisy one-way marginal. ``"mean"`` fills a numeric attribute with its noisy mean, and draws
        others from the noisy marginal. ``"random"`` draws any public level at no cost.
    imputer_share : float from 0.0001 to 0.99, default 0.1
        Share of the budget for the marginals of the imputer.

    Attributes
    ----------
    model_ : PairModel
        The released model of rows and of missing cells.
    tables_ : NoisyMarginals
        The released noisy marginals, on groups of levels.
    measured_ : tuple of tuple of str
        The selected marginals, by attribute names.
    guarantee_ : Guarantee
        The guarantee of everything that the fit released, with its conditions.
    n_rows_ : int
        Released or declared number of rows, at least 1.
    n_rows_std_ : float
        Standard deviation of the noise of ``n_rows_``, in rows. 0 if the number was declared.

    Raises
    ------
    ParameterError
        Raised by ``fit`` before the charge, if a parameter has no valid value, or the workload has
        too many marginals or cells.

    Notes
    -----
    Missing values: observed tables are weighted by their chance of being observed. This corrects
    for missingness whose logit is a sum of effects that were measured together with the missing
    attribute. Effects of pairs of attributes need a workload with the three attributes together. An
    example is a value that is missing if exactly one of two attributes is set. Values that decide
    themselves whether they are missing are not corrected. Evidence of selective missingness is
    weighed inside the fit, from released values. Without evidence the result of ``"joint"`` is
    close to the result of ``"observed"``.

    Reserve: rounds leave many pairs of attributes unmeasured. A quarter of the budget measures the
    pairs that no selected marginal contains, if that pays. The workload must have at most 600
    pairs, and more than the rounds would measure. The mean count of a cell must be at least 3.5
    standard deviations of the noise, by the released number of rows. If attributes may be missing,
    the factor is 10.5.

    Search: with ``workload="auto"``, 3 % of the remaining budget pays for a search as in AllPairs,
    after the rounds and the reserve. The unspent rest measures all marginals again.

    The algorithm differs from the paper in four details. There are three rounds per attribute and
    not sixteen. A model of all measured marginals replaces Private-PGM, so no candidate is too
    large. Expected counts are of the rows observed on a marginal, by a model of missing cells. The
    reserve is new. As in the paper, candidates are the marginals of the workload and all their
    subsets. Weights are the overlap with the workload.

    References
    ----------
    McKenna, Mullins, Sheldon, Miklau (2022), "AIM: an adaptive and iterative mechanism for
    differentially private synthetic data", PVLDB 15(11).

    Mohapatra, Zong, Kerschbaum, He (2024), "Differentially private data generation with missing
    data", PVLDB 17(8), for ``"observed"``.

    Examples
    --------
    >>> from missdp import AIM
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
    workload: Workload | Literal["auto"] = 2
    rounds: int | Literal["auto"] = "auto"
    first_share: float = 0.3
    selection_share: float = 0.1
