"""When to measure all pairs of attributes, whether or not they fit into a graphical model.

A junction tree of limited size cannot hold every pair, so that its error stops falling, however
many rows there are. A share of the budget, kept back from what is selected, measures the pairs that
no selected marginal contains, and synthetic rows are raked to what they say. That pays if cells of
pairs have rows enough to be seen through the noise, which is decided on public facts and on the
released number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from missdp.accounting import Cost
from missdp.inference.junction import Clique
from missdp.mechanisms.door import Noise

__all__ = ["MOST_PAIRS", "KeptBack", "pairs_of"]

MOST_PAIRS = 600
"""Of 35 attributes, say. With 5,565 pairs of 105 attributes, raking made tables worse."""


@dataclass(frozen=True, kw_only=True)
class KeptBack:
    """What is kept back for all pairs, if it is.

    Parameters
    ----------
    share : float
        Of the budget.
    least : float
        Rows that a cell of a pair must hold on average, in standard deviations of the noise that
        this share buys for each cell.
    """

    share: float
    least: float

    def of(
        self, whole: Cost, *, rows: float, pairs: Iterable[Clique], sizes: Sequence[int]
    ) -> float:
        """Return how much of the budget is kept back: the share, or nothing.

        Nothing if there are more pairs than rows are raked to well.

        Parameters
        ----------
        whole : Cost
            Budget of the whole fit; not pure.
        rows : float
            Number of rows, as released.
        pairs : iterable of Clique
            What would be measured.
        sizes : sequence of int
            Levels of each attribute, as they are modelled.

        Examples
        --------
        >>> kept, one = KeptBack(share=0.25, least=2.0), [(0, 1)]
        >>> whole = Cost(currency="zcdp", amount=0.02)
        >>> [kept.of(whole, rows=rows, pairs=one, sizes=[5, 5]) for rows in (400, 600)]
        [0.0, 0.005]
        """
        cells = [math.prod(sizes[v] for v in pair) for pair in pairs]
        if not cells or len(cells) > MOST_PAIRS or self.share <= 0:
            return 0.0
        kept = self.share * whole.amount
        noise = Noise.worth(replace(whole, amount=kept / len(cells))).scale
        in_a_cell = rows * len(cells) / sum(cells)
        return kept if in_a_cell >= self.least * noise else 0.0


def pairs_of(workload: Iterable[Clique], measured: Iterable[Clique] = ()) -> list[Clique]:
    """Return the pairs inside marginals of the workload that no measured marginal contains.

    Examples
    --------
    >>> pairs_of([(0, 1, 2), (1, 3)], measured=[(1, 2)])
    [(0, 1), (0, 2), (1, 3)]
    """
    known = {pair for clique in measured for pair in combinations(clique, 2)}
    wanted = (pair for clique in workload for pair in combinations(clique, 2))
    return [pair for pair in dict.fromkeys(wanted) if pair not in known]
