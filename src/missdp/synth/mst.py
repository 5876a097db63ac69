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
    """Synthetic tables from a spanning tree of two-way marginals (McKenna et al. 2021).

    One-way marginals are measured first. The exponential mechanism then selects each of the
    ``d - 1`` edges. Its candidates are the pairs that connect two trees. Its score is the distance
    of a pair from independence. Each edge is measured with Gaussian noise, or with Laplace noise if
    delta is 0. MST is fast, and it suits small budgets and many attributes. In other cases AIM is
    more accurate. Adjacency and accounting are those of AIM.

    Three details differ from the paper. A selection gets 15 % of the cost of an edge, where the
    paper has half of it. Scores are reduced by the distance that noise adds. The model of rows is
    fitted to all pairs and is not a tree.

    A tree contains few pairs. A reserve of 35 % of the budget measures the other pairs if that
    pays. There must be at most 600 pairs. The mean count of a cell must be at least 2.2 standard
    deviations of the noise, by the released number of rows.

    Parameters
    ----------
    epsilon, delta, n_rows, bins, random_state, budget, progress
        See :class:`~missdp.synth.base.Synthesizer`. delta may be 0, for pure epsilon-DP.
    missing : {"joint", "observed", "complete-rows", "impute-first"}, default "joint"
        See :class:`~missdp.synth.aim.AIM`.
    imputer, imputer_share
        See :class:`~missdp.synth.aim.AIM`.

    Attributes
    ----------
    guarantee_, model_, tables_, measured_, n_rows_, n_rows_std_
        See :class:`~missdp.synth.aim.AIM`.

    References
    ----------
    McKenna, Miklau, Sheldon (2021), "Winning the NIST Contest", JPC 11(3).

    Examples
    --------
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
