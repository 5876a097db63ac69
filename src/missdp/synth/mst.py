"""MST: a spanning tree of pairs, selected one by one, and then the other pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from missdp.schema import Schema
from missdp.synth.adaptive import ROUNDED, AdaptiveFit, AdaptiveSynthesizer
from missdp.synth.split import Part
from missdp.synth.workload import Workload, candidates, pairs_of

_FIRST_SHARE = 1 / 3
_SELECTION_SHARE = 0.15
_LEAST_IN_A_CELL = 2.2  # standard deviations


@dataclass(kw_only=True, eq=False, repr=False)
class MST(AdaptiveSynthesizer):
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

    workload: Workload = field(default=2, init=False)

    reserve_share: ClassVar[float] = 0.35

    def _run(self, fit: AdaptiveFit) -> None:
        """Select and measure the edges of a spanning tree, one after the other.

        One-way marginals were measured before, and pairs outside of the tree are measured
        afterwards, with a reserve that is not in ``fit.left``.
        """
        tree_of = [*range(len(fit.marginals.sizes))]  # two attributes are joined if it is the same
        edges = len(tree_of) - 1  # at least one: of one attribute, nothing is selected
        cost = fit.left / edges
        choice = fit.selection_cost(_SELECTION_SHARE, cost)
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
            self._report("selecting and measuring", fit.done)

    @property
    def _shares(self) -> tuple[float, float]:
        return _FIRST_SHARE, _SELECTION_SHARE

    @property
    def _least_in_a_cell(self) -> float:
        return _LEAST_IN_A_CELL

    def _planned_rounds(self, schema: Schema) -> int:
        return max(1, len(schema) - 1)

    def _largest(self, schema: Schema, parts: Sequence[Part]) -> float:
        """Return the largest share of what edges and pairs get together that one of them gets.

        The guarantee for the ground truth is better where a share is known beforehand.

        A tree is always found: as long as it is not whole, there is more than one pair that joins
        two parts of it, if there are three attributes or more. So each edge gets the same cost, the
        pairs outside the tree share evenly what was reserved for them, and nothing is left to
        measure any of them again.
        """
        edges, pairs = len(schema) - 1, len(pairs_of(candidates(self.workload, schema)))
        if edges < 2 or pairs != math.comb(len(schema), 2):
            return 1.0
        left = math.prod(1 - part.share for part in parts)
        return max(1 / edges, self.reserve_share / left / (pairs - edges)) * ROUNDED
