"""MST: a spanning tree of pairs, selected one by one, and then the other pairs."""

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

_FIRST_SHARE = 1 / 3
_SELECTION_SHARE = 0.15
_RESERVE_SHARE = 0.35
_LEAST_IN_A_CELL = 2.2  # standard deviations


def select_tree(fit: AdaptiveFit, request: Request[Any], how: SelectionPlan) -> None:
    """Select and measure the edges of a spanning tree, one after the other.

    One-way marginals were measured before, and pairs outside of the tree are measured
    afterwards, with a reserve that is not in ``fit.left``.

    Parameters
    ----------
    fit : AdaptiveFit
        Measures marginals.
    request : Request
        Reports how much is done.
    how : SelectionPlan
        Has the share of a selection.
    """
    tree_of = [*range(len(fit.marginals.sizes))]  # two attributes are joined if it is the same
    edges = len(tree_of) - 1  # at least one: of one attribute, nothing is selected
    cost = fit.left / edges
    choice = fit.selection_cost(how.selection_share, cost)
    noise = fit.noise(cost - choice)
    # A pair is scored by its distance from independence, less what noise adds to a distance.
    independent = fit.estimate()
    expected = {pair: fit.expected(pair, independent, noise) for pair in fit.workload}
    for _ in range(edges):
        joining = {c: e for c, e in expected.items() if tree_of[c[0]] != tree_of[c[1]]}
        if not joining:  # other pairs have too many cells to be candidates
            break
        edge = fit.select(joining, choice)
        fit.measure(edge, noise)
        one, other = (tree_of[a] for a in edge)
        tree_of = [one if tree == other else tree for tree in tree_of]
        request.report("selecting and measuring", fit.done)


def selection_plan(request: Request[Any]) -> SelectionPlan:
    """Return how the tree is selected; public."""
    schema = request.public
    workload = candidates(MST.workload, schema)
    edges, pairs = len(schema) - 1, len(pairs_of(workload))

    def largest_share(left: float) -> float:
        """Return the largest share of what edges and pairs get together that one of them gets.

        The guarantee for the ground truth is better where a share is known beforehand.

        A tree is always found: as long as it is not whole, there is more than one pair that joins
        two parts of it, if there are three attributes or more. So each edge gets the same cost, the
        pairs outside the tree share evenly what was reserved for them, and nothing is left to
        measure any of them again.
        """
        if edges < 2 or pairs != math.comb(len(schema), 2):
            return 1.0
        return max(1 / edges, _RESERVE_SHARE / left / (pairs - edges)) * ROUNDED

    return SelectionPlan(
        workload=workload,
        one_way_share=_FIRST_SHARE,
        selection_share=_SELECTION_SHARE,
        rounds=max(1, edges),
        reserve_share=_RESERVE_SHARE,
        min_rows=_LEAST_IN_A_CELL,
        largest_share=largest_share,
    )


@dataclass(kw_only=True, eq=False, repr=False)
class MST(Synthesizer):
    """Synthetic tables from a spanning tree of two-way marginals (McKenna et al. 2021).

    One-way marginals first. Each of ``d - 1`` edges is then selected by the exponential mechanism:
    the pair that independence describes worst, among those that keep the graph a forest. It is
    measured with Gaussian noise, or Laplace noise if delta is 0. Quick, and a good choice for small
    budgets or many attributes; otherwise AIM is more accurate. Accounted as AIM, add-remove
    adjacency.

    Other than in the paper, 15 % of what an edge costs is spent on its selection, and not half. A
    score is reduced by what noise adds to it, and the model is not a tree.

    A tree holds few pairs. A share of .35 of the whole budget measures the others, if that pays.
    There must be at most 600 pairs. The average cell of a pair must have rows worth at least 2.2
    standard deviations of the noise, by the released number of rows. The model of rows is fitted to
    all pairs.

    Parameters
    ----------
    epsilon, delta, n_rows, cuts, random_state, budget, progress
        See :class:`~missdp.synth.base.Synthesizer`; delta may be 0, for pure epsilon-DP.
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
