"""Marginals of three and four attributes that a fit selects privately, because pairs miss them.

Pairs contain no information about an exclusive or of two columns, so candidates cannot come from
released pairs. In each round, the exponential mechanism selects the marginal that the fitted pairs
describe worst, or no marginal. Gaussian noise releases the selected marginal, and the rows of the
model are weighted such that it holds. The selection of no marginal ends the search. The remaining
budget of the search then releases all pairs again. The mean of both releases by their precisions is
as exact as one release for the sum of their costs.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from missdp.accounting import Cost
from missdp.calibration import selection_epsilon
from missdp.inference.completion import Completed
from missdp.inference.marginals import NoisyMarginals, QuickFit
from missdp.inference.models import targets
from missdp.inference.raking import centred_share, rake, scaled_to_smaller
from missdp.session import Expected, LevelMerge, Marginal, Misfits, Noise, Selection, Session
from missdp.session.scores import MISFIT_SENSITIVITY
from missdp.synth.learn_pairs import PairRelease, release_again
from missdp.synth.workload import MAX_CELLS
from missdp.types import Clique, Floats, Ints

_MAX_COLUMNS = {3: 50, 4: 12}  # attributes up to which all marginals of an order are candidates
_MAX_TOTAL_CELLS = 2**24  # cells of all candidates together: 128 MB of counts
_ROUNDS = 8  # largest number of selected marginals
_SELECTION_SHARE = 0.15  # share of the cost of a round for its selection
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
    >>> search_candidates([2, 3, 2])
    [(0, 1, 2)]
    """
    by_size = np.argsort(sizes, kind="stable").tolist()
    compared = ((k, sorted(by_size[:limit])) for k, limit in _MAX_COLUMNS.items())
    return [clique for k, members in compared for clique in combinations(members, k)]


@dataclass
class PairExtension:
    """Extension of a release of all pairs by a search for larger marginals.

    * ``session``: Measures rows. Its budget has the cost of the search.
    * ``release``: The released pairs, and after a call also the selected marginals.
    * ``cost``: Cost of the search. The search spends the rest on a second release of all pairs.
    """

    session: Session
    release: PairRelease
    cost: Cost

    def __call__(self, completed: Completed, rows: Ints) -> PairRelease:
        """Search with the rows of a model of all pairs, and return the extended release."""
        before = self.session.remaining.amount
        search = HigherOrderSearch.start(self, completed, rows)
        search.run()
        self.release = replace(self.release, marginals=search.marginals)
        rest = self.cost.amount - (before - self.session.remaining.amount)
        if rest > _MIN_REST * self.cost.amount:
            cost = replace(self.cost, amount=rest)
            self.release = release_again(self.session, self.release, cost)
        return self.release


@dataclass
class HigherOrderSearch:
    """A running search: the released marginals, a model of rows, and the remaining budget.

    * ``session``: Measures marginals on merged levels.
    * ``candidates``: Marginals that may be selected.
    * ``marginals``: All marginals that were measured so far.
    * ``model``: Weighted rows of a model of all pairs, with chances of missing cells.
    * ``pairs``: Tables of pairs, to which the rows are weighted.
    * ``noise``: Noise of each selected marginal.
    * ``selection``: Mechanism that selects a marginal.
    """

    session: Session
    candidates: list[Clique]
    marginals: NoisyMarginals
    model: QuickFit
    pairs: dict[Clique, Floats]
    noise: Noise
    selection: Selection

    @classmethod
    def start(cls, extension: PairExtension, completed: Completed, rows: Ints) -> HigherOrderSearch:
        """Return a search with the rows of a model of all pairs, before its first selection."""
        session, marginals = extension.session, extension.release.marginals
        each = extension.cost.amount / _ROUNDS
        selection_cost = replace(extension.cost, amount=each * _SELECTION_SHARE)
        noise = Noise.from_cost(replace(extension.cost, amount=each * (1 - _SELECTION_SHARE)))
        pairs = targets(completed, rows)
        observed = np.ascontiguousarray((1 - completed.masks.missing(rows)).T)
        weights = rake(rows, pairs, sweeps=_SWEEPS)
        columns = np.ascontiguousarray(rows.T)
        return cls(
            session=session.apply(LevelMerge(marginals.groups(session.facts.schema.names))),
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
        for _ in range(_ROUNDS):
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
