"""MST: a spanning tree of pairs, selected one by one, and then the other pairs.

The algorithm is published (McKenna, Miklau and Sheldon 2021). `select_tree` is its tree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from missdp.synth.adaptive import (
    ROUNDED,
    AdaptiveFit,
    SelectionPlan,
    adaptive_family,
)
from missdp.synth.base import Synthesizer
from missdp.synth.family import Family, Request
from missdp.synth.impute_first import Imputer, check_imputation
from missdp.synth.workload import Workload, candidates, pairs_of

_FIRST_SHARE = 1 / 3  # share of the budget for one-way marginals
_SELECTION_SHARE = 0.15  # share of the cost of an edge for its selection
_RESERVE_SHARE = 0.35  # share of the budget for the pairs outside the tree
_MIN_CELL_SD = 2.2  # SDs of noise: smallest mean count of a cell with which a reserve pays


def select_tree(fit: AdaptiveFit, request: Request[Any], plan: SelectionPlan) -> None:
    """Select and measure the edges of a spanning tree, one after the other.

    One-way marginals were measured before. Pairs outside the tree are measured afterwards, with a
    reserve that is not in ``fit.remaining``.

    Parameters
    ----------
    fit : AdaptiveFit
        Selects and measures marginals.
    request : Request
        Reports how much of the work is done.
    plan : SelectionPlan
        States the share of a selection.
    """
    tree_of = [*range(len(fit.marginals.sizes))]  # equal numbers: attributes that are connected
    edges = len(tree_of) - 1  # at least one: nothing is selected for a single attribute
    cost = fit.remaining / edges
    selection_cost = fit.selection_cost(plan.selection_share, cost)
    noise = fit.noise(cost - selection_cost)
    # The score of a pair is its distance from independence, less the part that noise adds.
    independent = fit.estimate()
    expected = {pair: fit.expected(pair, independent, noise) for pair in fit.workload}
    for _ in range(edges):
        joining = {c: e for c, e in expected.items() if tree_of[c[0]] != tree_of[c[1]]}
        if not joining:  # all other pairs have too many cells to be candidates
            break
        edge = fit.select(joining, selection_cost)
        fit.measure(edge, noise)
        one, other = (tree_of[a] for a in edge)
        tree_of = [one if tree == other else tree for tree in tree_of]
        request.report("selecting and measuring", fit.progress)


def selection_plan(request: Request[Any]) -> SelectionPlan:
    """Return the public plan by which the tree is selected."""
    schema = request.public
    workload = candidates(MST.workload, schema)
    edges, pairs = len(schema) - 1, len(pairs_of(workload))

    def largest_share(remaining: float) -> float:
        """Return the largest share of the cost of all pairs that one pair gets.

        A guarantee for the ground truth is better if this share is fixed in advance. A spanning
        tree always exists here. An incomplete tree of three or more attributes can be extended by
        more than one pair. So each edge has the same cost. The pairs outside the tree share the
        reserve evenly, and nothing remains to measure a pair again.
        """
        if edges < 2 or pairs != math.comb(len(schema), 2):
            return 1.0
        return max(1 / edges, _RESERVE_SHARE / remaining / (pairs - edges)) * ROUNDED

    return SelectionPlan(
        workload=workload,
        one_way_share=_FIRST_SHARE,
        selection_share=_SELECTION_SHARE,
        rounds=max(1, edges),
        reserve_share=_RESERVE_SHARE,
        min_rows=_MIN_CELL_SD,
        largest_share=largest_share,
    )


@dataclass(kw_only=True, eq=False, repr=False)
class MST(Synthesizer):
    """Synthesizer that measures a spanning tree of two-way marginals (McKenna et al. 2021).

    A two-way marginal is a table of counts over a pair of attributes. MST is fast, and it suits
    small budgets and many attributes. In other cases AIM is more accurate.

    One-way marginals are measured first. The exponential mechanism then selects each of the
    ``d - 1`` edges for d attributes. Its candidates are the pairs that connect two trees. Its score
    is the distance of a pair from independence. Each edge is measured with Gaussian noise, or with
    Laplace noise if delta is 0. A fit is accounted in Gaussian DP. It is accounted in zCDP if
    epsilon is large, and in pure epsilon if delta is 0. Adjacency is add-remove.

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
        row. ``"observed"`` counts each marginal over the rows in which its attributes are observed.
        ``"complete-rows"`` drops rows with a missing cell before anything else. ``"impute-first"``
        fills missing cells privately first.
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
        The selected pairs, by attribute names.
    guarantee_ : Guarantee
        The guarantee of everything that the fit released, with its conditions.
    n_rows_ : int
        Released or declared number of rows, at least 1.
    n_rows_std_ : float
        Standard deviation of the noise of ``n_rows_``, in rows. 0 if the number was declared.

    Raises
    ------
    ParameterError
        Raised by ``fit`` before the charge, if a parameter has no valid value.

    Notes
    -----
    Three details differ from the paper. A selection gets 15 % of the cost of an edge, where the
    paper has half of it. Scores are reduced by the distance that noise adds. The model of rows is
    fitted to all pairs and is not a tree.

    A tree contains few pairs. A reserve of 35 % of the budget measures the other pairs if that
    pays. There must be at most 600 pairs. The mean count of a cell must be at least 2.2 standard
    deviations of the noise, by the released number of rows.

    References
    ----------
    McKenna, Miklau, Sheldon (2021), "Winning the NIST contest: a scalable and general approach to
    differentially private synthetic data", Journal of Privacy and Confidentiality 11(3).

    Examples
    --------
    >>> from missdp import MST
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema
    >>> schema = Schema((
    ...     Categorical(name="smoker", levels=("no", "yes"), nullable=True),
    ...     Categorical(name="ill", levels=("no", "yes")),
    ... ))
    >>> people = pd.DataFrame({"smoker": ["yes", None, "no"] * 50, "ill": ["yes", "no", "no"] * 50})
    >>> MST(epsilon=1.0, delta=1e-6).fit(people, schema=schema).measured_
    (('smoker', 'ill'),)
    """

    family: ClassVar[Family] = adaptive_family(check_imputation, selection_plan, select_tree)

    workload: ClassVar[Workload] = 2

    imputer: Imputer = "marginal"
    imputer_share: float = 0.1
