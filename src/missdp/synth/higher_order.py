"""Marginals of three and four attributes that a fit selects privately, because pairs miss them.

Pairs contain no information about an exclusive or of two columns, so candidates cannot come from
released pairs. In each round, the exponential mechanism selects the marginal that the fitted pairs
describe worst, or no marginal. Noise releases the selected marginal, and the rows of the fitted
model are weighted such that it holds. The selection of no marginal ends the search. The remaining
budget of the search then releases pairs again. The mean of both releases by their precisions is as
exact as one release for the sum of their costs. AIM in pure DP is the exception: Laplace noise of a
small cost makes a mean hardly more exact.

*Privacy.* A round is one `Misfits` query and one `Marginal` query, charged to the session one by
one. A score is the distance of exact counts from expected counts, which are a function of released
values. One added or removed row changes one count of a marginal by at most one, for every mask of
missing cells and every weight. So it changes each score by at most `MISFIT_SENSITIVITY`. The proof
is at `missdp.session.scores.misfit`. The row raises some scores and lowers others. So the exponent
of the mechanism is ``epsilon u / (2 sensitivity)``, without the saving for monotone scores, and
each selection is one `SelectionEvent`. The score of "no marginal" compares no cell and is constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from missdp.accounting import Cost
from missdp.calibration import selection_epsilon
from missdp.inference.completion import Completed
from missdp.inference.marginals import NoisyMarginals, QuickFit
from missdp.inference.models import targets
from missdp.inference.raking import centred_share, rake, scaled_to_smaller
from missdp.session import Expected, Marginal, Misfits, Noise, Selection, Session
from missdp.session.scores import MISFIT_SENSITIVITY
from missdp.synth.family import Request
from missdp.synth.learn_pairs import PairRelease
from missdp.synth.split import BudgetPlan, Part
from missdp.synth.workload import AUTO, MAX_CELLS
from missdp.types import Clique, Floats, Ints

_MAX_COLUMNS = {3: 50, 4: 12}  # attributes up to which all marginals of an order are candidates
_MAX_TOTAL_CELLS = 2**24  # cells of all candidates together: 128 MB of counts
_SHARE = 0.03  # share of the search in the budget that remains after masks of pairs
# Largest number of selected marginals. With n rounds, noise grows by n in pure DP, and by the root
# of n in other measures.
_ROUNDS, _PURE_ROUNDS = 8, 2
# Share of the cost of a round for its selection.
_SELECTION_SHARE, _PURE_SELECTION_SHARE = 0.15, 0.4
_MAX_HIDDEN = 0.5  # share of the rows: expected noise of a candidate, summed over its cells
_MARGIN = 3.0  # scales of selection noise by which a score must exceed the noise of a marginal
_SWEEPS, _MIN_EFFECTIVE = 4, 0.1  # sweeps of raking, and effective share of the weighted rows
_MIN_REST = 1e-3  # share of the budget of the search: a smaller rest is not spent


def search_candidates(sizes: Sequence[int]) -> list[Clique]:
    """Return the marginals of three and four attributes that a search compares.

    All triples are compared among up to 50 attributes, and all quadruples among up to 12. Of more
    attributes, those with the fewest levels are compared.

    Parameters
    ----------
    sizes : sequence of int
        Number of levels of each attribute. Public or released.

    Returns
    -------
    list of tuple of int
        Sorted positions of attributes.

    Examples
    --------
    >>> from missdp.synth.higher_order import search_candidates
    >>> search_candidates([2, 3, 2])
    [(0, 1, 2)]
    """
    by_size = np.argsort(sizes, kind="stable").tolist()
    compared = ((k, sorted(by_size[:limit])) for k, limit in _MAX_COLUMNS.items())
    return [clique for k, members in compared for clique in combinations(members, k)]


SEARCH = "marginals that pairs miss"
"""Name of the part of a budget for the marginals that a search measures."""

SEARCH_CHOICES = "selections of marginals that pairs miss"
"""Name of the part of a budget for the selections of a search."""


def search_parts(request: Request[Any]) -> list[Part]:
    """Return the parts of a search, which exist for ``workload="auto"`` and three attributes."""
    if request.parameters.workload != AUTO or len(request.modelled.schema) < 3:
        return []
    chosen = _SELECTION_SHARE if request.delta else _PURE_SELECTION_SHARE
    rounds = _ROUNDS if request.delta else _PURE_ROUNDS
    first, every = chosen * _SHARE, request.required_sets([()])
    measured = (_SHARE - first) / (1 - first)
    return [
        Part(SEARCH_CHOICES, first, every, kind="selections", count=rounds),
        Part(SEARCH, measured, every, count=rounds),
    ]


def search_cost(plan: BudgetPlan) -> float:
    """Return the cost of a search, in the measure of the budget. It is 0 without a search."""
    return plan.cost(SEARCH_CHOICES).amount + plan.cost(SEARCH).amount


@dataclass
class PairExtension:
    """Extension of released pairs by a search for larger marginals.

    * ``session``: Measures marginals on merged levels. Its budget has the cost of the search.
    * ``release``: The released pairs, and after a call also the selected marginals.
    * ``plan``: Has the parts of the search.
    * ``release_again``: ``release_again(release, cost)`` releases the pairs again, and returns the
      mean of both releases. It spends the rest of the search.
    """

    session: Session
    release: PairRelease
    plan: BudgetPlan
    release_again: Callable[[PairRelease, Cost], PairRelease]

    def __call__(self, completed: Completed, rows: Ints) -> PairRelease:
        """Search with the rows of a model of pairs, and return the extended release."""
        before = self.session.remaining.amount
        search = HigherOrderSearch.start(self, completed, rows)
        search.run()
        self.release = replace(self.release, marginals=search.marginals)
        cost = search_cost(self.plan)
        rest = cost - (before - self.session.remaining.amount)
        if rest > _MIN_REST * cost:
            self.release = self.release_again(self.release, replace(self.plan.total, amount=rest))
        return self.release


@dataclass
class HigherOrderSearch:
    """A running search: the released marginals, a model of rows, and the remaining budget.

    * ``session``: Measures marginals on merged levels.
    * ``rounds``: Largest number of selections.
    * ``candidates``: Marginals that may be selected.
    * ``marginals``: All marginals that were measured so far.
    * ``model``: Weighted rows of a model of pairs, with chances of missing cells.
    * ``pairs``: Tables of pairs, to which the rows are weighted.
    * ``noise``: Noise of each selected marginal.
    * ``selection``: Mechanism that selects a marginal.
    """

    session: Session
    rounds: int
    candidates: list[Clique]
    marginals: NoisyMarginals
    model: QuickFit
    pairs: dict[Clique, Floats]
    noise: Noise
    selection: Selection

    @classmethod
    def start(cls, extension: PairExtension, completed: Completed, rows: Ints) -> HigherOrderSearch:
        """Return a search with the rows of a model of pairs, before its first selection."""
        session, marginals = extension.session, extension.release.marginals
        (rounds,) = (part.count for part in extension.plan.parts if part.name == SEARCH)
        selection_cost, noise_cost = (
            replace(cost, amount=cost.amount / rounds)
            for cost in map(extension.plan.cost, (SEARCH_CHOICES, SEARCH))
        )
        noise, pairs = Noise.from_cost(noise_cost), targets(completed, rows)
        observed = np.ascontiguousarray((1 - completed.masks.missing(rows)).T)
        weights = rake(rows, pairs, sweeps=_SWEEPS)
        columns = np.ascontiguousarray(rows.T)
        return cls(
            session=session,
            rounds=int(rounds),
            candidates=_visible_candidates(session, marginals, noise),
            marginals=marginals,
            model=QuickFit(marginals, columns, weights, observed, completed.masks, {}),
            pairs=pairs,
            noise=noise,
            selection=Selection(selection_epsilon(selection_cost), MISFIT_SENSITIVITY),
        )

    def run(self) -> None:
        """Select and measure marginals until no marginal is selected, or the budget is spent."""
        expected = {clique: self.expected(clique) for clique in self.candidates}
        for _ in range(self.rounds):
            selected = self.select(expected) if expected else ()
            if not selected:
                break
            self.measure(selected)
            self._fit_weights()
            del expected[selected]
            # New weights change little in marginals that share no pair with the measured one.
            for clique in expected:
                if len({*clique} & {*selected}) > 1:
                    expected[clique] = self.expected(clique)

    def expected(self, clique: Clique) -> Expected:
        """Return the expected counts of a candidate, with the distance that noise would explain.

        The distance includes the sampling noise of the private rows and of the model's rows.
        """
        table = self.model.expected(clique)
        sampling = 1 + self.marginals.rows / self.model.rows.shape[1]
        spread = np.sqrt((self.noise.variance + sampling * table) * centred_share(table.shape))
        bias = math.sqrt(2 / math.pi) * float(spread.sum())
        return Expected(table, np.ones(table.shape, dtype=bool), bias, 1.0)

    def select(self, expected: Mapping[Clique, Expected]) -> Clique:
        """Select the candidate with the largest misfit, or the empty clique for no marginal."""
        names = self.session.facts.schema.names
        # The score of no marginal is constant: no cell is compared.
        margin = self.selection.scale * (_MARGIN + math.log(len(expected)))
        nothing = Expected(np.zeros(()), np.zeros((), dtype=bool), -margin, 1.0)
        cliques = [(), *expected]
        named = {tuple(names[a] for a in c): expected.get(c, nothing) for c in cliques}
        misfits = Misfits(tuple(named), named.__getitem__)
        return cliques[int(self.session.measure(misfits, self.selection).value)]

    def measure(self, clique: Clique) -> None:
        """Measure a selected marginal with the noise of the search."""
        names = self.session.facts.schema.names
        marginal = Marginal(tuple(names[a] for a in clique))
        counts = self.session.measure(marginal, self.noise).value
        self.marginals = self.marginals.add(clique, counts.astype(np.float64), self.noise.std)

    def _fit_weights(self) -> None:
        """Weight the rows of the model such that all measured marginals hold."""
        rows = np.ascontiguousarray(self.model.rows.T)
        larger = self.marginals.higher_order_targets(self.model.masks, rows)
        larger = scaled_to_smaller(larger, self.pairs) | self.pairs
        weights = rake(
            rows, larger, weights=self.model.weights, sweeps=_SWEEPS, min_share=_MIN_EFFECTIVE
        )
        self.model = replace(self.model, weights=weights)


def _visible_candidates(session: Session, marginals: NoisyMarginals, noise: Noise) -> list[Clique]:
    """Return the candidates whose counts noise would not hide, by released numbers.

    Exact counts of all candidates are in memory together, so the smallest candidates come first.
    """
    names, sizes = session.facts.schema.names, marginals.sizes
    max_cells = _MAX_HIDDEN * marginals.rows / noise.error
    visible, total = list[Clique](), 0
    by_cells = sorted(search_candidates(sizes), key=lambda c: math.prod(sizes[a] for a in c))
    for clique in by_cells:
        total += math.prod(len(marginals.one_way[a]) for a in clique)
        if math.prod(sizes[a] for a in clique) > max_cells or total > _MAX_TOTAL_CELLS:
            break
        if math.prod(session.facts.shape(tuple(names[a] for a in clique))) <= MAX_CELLS:
            visible.append(clique)
    return visible
