"""What of a model has moved since something was worked out from it.

A marginal follows from the cliques on the way between its attributes in the junction tree.  As long
as none of them has moved by more than a tolerance, what was worked out still holds, up to a few
times the tolerance.  That the tree itself has changed does not matter: cliques are only ever added
to what a model is fitted to, so the model before has every independence that the one after has,
and factors in the same way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from missdp.inference.beliefs import Calibrated
from missdp.inference.junction import Clique

__all__ = ["Drift"]


class Drift:
    """Follow the marginals of a model's cliques from fit to fit, as cliques are added.

    Examples
    --------
    >>> from missdp.inference.beliefs import log_linear
    >>> drift = Drift()
    >>> pairs = {(0, 1): np.zeros((2, 2)), (1, 2): np.zeros((2, 2)), (3,): np.zeros(2)}
    >>> drift.see(log_linear([2] * 4, pairs)[0], 0.01)
    >>> drift.see(log_linear([2] * 4, pairs | {(1, 2): np.eye(2)})[0], 0.01)
    >>> [drift.still(clique) for clique in ((0, 1), (0, 2), (1, 2), (0, 3))]
    [True, False, False, True]
    """

    def __init__(self) -> None:
        self._law: Calibrated | None = None
        self._known: dict[Clique, NDArray[np.float64]] = {}
        self._held: list[int] = []
        self._piece: list[int] = []

    def see(self, law: Calibrated, tolerance: float) -> None:
        """Compare with what was seen before.

        Parameters
        ----------
        law : Calibrated
            Not changed afterwards.
        tolerance : float
            In total absolute difference of a clique's probabilities. It is measured from where the
            clique was when it last moved, or appeared, so that small steps of one clique do not
            add up unseen.
        """
        tree = law.tree
        known: dict[Clique, NDArray[np.float64]] = {}
        part: list[int] = []  # connected parts of the tree that stayed as they were; -1: moved
        piece: list[int] = []  # pieces that have nothing to do with each other
        self._held, self._piece = [0] * len(tree.sizes), [0] * len(tree.sizes)
        for i, (clique, belief) in enumerate(zip(tree.cliques, law.beliefs, strict=True)):
            before = self._known.get(clique)
            if before is None and self._law is not None:
                before = self._law.marginal(clique)
            still = before is not None and float(np.abs(belief - before).sum()) <= tolerance
            known[clique] = before if before is not None and still else belief
            part.append(i if still else -1)
            piece.append(i)
            if tree.separators[i]:
                parent = tree.parents[i]
                piece[i] = piece[parent]
                if still and part[parent] >= 0:
                    part[i] = part[parent]
            for v in clique:
                self._piece[v] = piece[i]
                self._held[v] |= 1 << part[i] if still else 0
        self._law, self._known = law, known

    def still(self, clique: Clique) -> bool:
        """Whether what the last two laws seen say of these attributes is about the same."""
        common: dict[int, int] = {}
        for v in clique:
            common[self._piece[v]] = common.get(self._piece[v], -1) & self._held[v]
        return all(common.values())
