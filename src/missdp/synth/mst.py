"""The MST synthesizer: a graphical model of the two-way marginals along a spanning tree."""

from __future__ import annotations

from dataclasses import dataclass, field

from missdp.synth.aim import GraphicalSynthesizer
from missdp.synth.kept_back import KeptBack
from missdp.synth.learn_graphical import Plan
from missdp.synth.workload import Workload

__all__ = ["MST"]

_FIRST_SHARE = 1 / 3
_SELECTION_SHARE = 0.15
_PAIRS_SHARE = 0.35
_LEAST_IN_A_CELL = 2.2  # standard deviations


@dataclass(kw_only=True, eq=False, repr=False)
class MST(GraphicalSynthesizer):
    """Synthetic tables from a spanning tree of two-way marginals (McKenna et al. 2021).

    One-way marginals first; then ``d − 1`` times the exponential mechanism picks the pair, among
    those that keep the graph a forest, that independence describes worst, and it is measured with
    Gaussian noise.  Quick, and a good choice for small budgets or many attributes; otherwise AIM
    is more accurate.  Accounted as AIM, add-remove adjacency.

    A tree holds few pairs.  A share of .35 of the budget measures the others, and synthetic rows
    are raked to them, if there are at most 600 pairs, and a cell of a pair has, on average, rows
    worth at least 2.2 standard deviations of the noise, by the released number of rows.

    Parameters
    ----------
    epsilon : float
        Budget of the whole fit.
    delta : float, optional
        Above 0. By default 1e-6, which is meant for up to 10,000 rows, or 1 / (100 n) if more, n,
        are declared.
    missing : {"joint", "observed", "complete-rows", "impute-first"}, default "joint"
        See :class:`~missdp.synth.aim.AIM`.
    structural_zeros, shrink, ridge, model_rows, imputer, imputer_share
        See :class:`~missdp.synth.aim.AIM`.
    n_rows, random_state, budget
        See :class:`~missdp.synth.base.Synthesizer`.
    progress : callable, optional
        Called with a stage name and the share of the budget used; shows nothing private.

    Attributes
    ----------
    guarantee_, model_, measured_, n_rows_, n_rows_std_
        See :class:`~missdp.synth.aim.AIM`.

    References
    ----------
    McKenna, Miklau, Sheldon (2021), "Winning the NIST Contest", JPC 11(3).

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema
    >>> from missdp.synth.mst import MST
    >>> schema = Schema((
    ...     Categorical(name="smoker", levels=("no", "yes"), nullable=True),
    ...     Categorical(name="ill", levels=("no", "yes")),
    ... ))
    >>> people = pd.DataFrame({"smoker": ["yes", None, "no"] * 50, "ill": ["yes", "no", "no"] * 50})
    >>> MST(epsilon=1.0, delta=1e-6).fit(people, schema=schema).measured_
    (('smoker', 'ill'),)
    """

    workload: Workload = field(default=2, init=False)
    max_model_size: float = field(default=64.0, init=False)

    def _plan(self, attributes: int) -> Plan:
        return Plan(
            whole=self._whole,
            rounds=max(1, attributes - 1),
            first_share=_FIRST_SHARE,
            selection_share=_SELECTION_SHARE,
            max_cells=self._max_cells,
            forest=True,
            kept_back=KeptBack(share=_PAIRS_SHARE, least=_LEAST_IN_A_CELL),
        )
