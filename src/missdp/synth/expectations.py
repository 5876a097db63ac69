"""What a model expects of marginals that may be selected, worked out again only where it moved.

With many attributes there are thousands of candidates in every round, and a round changes what the
model says of a few of them. All of this is post-processing of released values: a score is as
private with an expectation that is a little old as with any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from missdp.inference.beliefs import Drift
from missdp.inference.estimate import Estimate
from missdp.inference.junction import Clique
from missdp.mechanisms.door import Facts

__all__ = ["Expectations"]

_STILL = 0.02  # of the noise of a selection
_CELLS = 2**24  # that are kept: 128 MB


class Expectations:
    """The released values that scores of candidates take.

    Parameters
    ----------
    weights : mapping of Clique to float
        Marginals that may be measured, by weight.
    """

    def __init__(self, weights: Mapping[Clique, float]) -> None:
        self._weights = weights
        self._drift = Drift()
        self._kept: dict[Clique, Facts] = {}
        self._cells = 0
        self._selective: frozenset[int] = frozenset()
        self._sigma = 0.0

    def renew(self, estimate: Estimate, *, sigma: float, epsilon: float) -> None:
        """Forget what no longer holds.

        Parameters
        ----------
        estimate : Estimate
        sigma : float
            Noise that the selected marginal will get.
        epsilon : float
            Of the selection: changes far below its noise do not count.
        """
        tolerance = _STILL * 2 / epsilon / estimate.n_rows
        self._drift.see(estimate.model, tolerance)
        changed = estimate.selective | self._selective
        lost = [
            clique
            for clique in self._kept
            if not self._drift.still(clique)
            or clique in estimate.measured
            or not changed.isdisjoint(clique)
        ]
        for clique in lost:
            self._cells -= self._kept.pop(clique)[0].size
        if sigma != self._sigma:
            self._kept = {
                clique: Facts((expected, possible, _bias(sigma, possible), weight))
                for clique, (expected, possible, _, weight) in self._kept.items()
            }
        self._selective, self._sigma = estimate.selective, sigma

    def of(self, clique: Clique, estimate: Estimate) -> Facts:
        """Return what the score of a marginal takes besides its counts."""
        facts = self._kept.get(clique)
        if facts is None:
            expected, possible = estimate.predict(clique), estimate.possible(clique)
            bias = _bias(self._sigma, possible)
            facts = Facts((expected, possible, bias, self._weights[clique]))
            if self._cells + expected.size <= _CELLS:
                self._kept[clique] = facts
                self._cells += expected.size
        return facts


def _bias(sigma: float, possible: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> float:
    """Mean absolute noise of all cells together, if the marginal were measured."""
    return math.sqrt(2 / math.pi) * sigma * int(np.count_nonzero(possible))
