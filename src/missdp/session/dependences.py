"""Scores of candidate marginals by dependence, for Bayesian networks.

How far one row moves such a score is proven here, at `dependence`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError
from missdp.session.scores import Scores
from missdp.types import Floats

if TYPE_CHECKING:
    from missdp.session.counted_rows import CountedRows

# Proven: below 2. The rest is room for one rounding of each of two neighbours' scores, which are at
# most _MOST_DEPENDENT: 2**-18 together, for every number of rows that counts can hold.
DEPENDENCE_SENSITIVITY = 2.0 + 1e-5
"""How far one row moves a dependence, at most."""
_MOST_DEPENDENT = 2**34
_WHOLE = 2**31  # twice the square of any smaller number of rows is an int64


@dataclass(frozen=True, eq=False)
class Dependences(Scores):
    """How far the counts of each candidate are from independence of its last attribute.

    Attributes
    ----------
    cliques : tuple of tuple of str
        The candidates: parents first, the child last. Public, or chosen from what was released.
    """

    def check(self, rows: CountedRows) -> None:
        """Refuse attributes that there are not, and rows that count different amounts."""
        super().check(rows)
        if rows.facts.steps > 1:
            raise ParameterError(
                "a selection by dependence is not proven where rows count different amounts"
            )

    def sensitivity(self, norm: float) -> float:
        """Return how far one row moves any of the scores; see ``dependence``."""
        del norm
        return DEPENDENCE_SENSITIVITY

    def exact(self, rows: CountedRows) -> Floats:
        """Return the scores; private."""
        known = rows.scores.setdefault(type(self), {})
        lacking = [clique for clique in dict.fromkeys(self.cliques) if clique not in known]
        for clique, counts in rows.each(lacking):
            known[clique] = None, dependence(counts)
        return np.array([known[c][1] for c in self.cliques], dtype=np.float64)


def dependence(counts: NDArray[np.int64]) -> float:
    """Return the distance of counts from independence of their last attribute, the child.

    ``S = 1/2 sum |c(x, pi) - c(x) c(pi) / m|`` with ``m = sum c``, over the rows observed on all
    attributes, in units of rows: between 0 and ``m``. Sensitivity under add-remove is below 2
    whatever ``m`` is. With p, q the distributions of child and parents, adding the row (x, pi)
    changes ``D = c - c c / m`` by ``m / (m + 1) * (e_x - p) (e_pi - q)^T``, whose L1 norm is below
    2 * 2, halved: 2. A row that misses one of them changes nothing. So no private row count
    enters the sensitivity, unlike with mutual information. Added up are the whole numbers
    ``|m c - c c|``, exactly, and their quotient by ``2 m`` is rounded once; before that it is
    clipped to 2^34, which moves no two values further apart.

    >>> dependence(np.array([[5, 0], [0, 5]])), dependence(np.array([[2, 2], [4, 4]]))
    (5.0, 0.0)
    """
    joint = counts.reshape(-1, counts.shape[-1])
    total = int(joint.sum())
    if total == 0:
        return 0.0
    if total >= _WHOLE:
        joint = joint.astype(object)  # whole numbers of any size
    off = int(np.abs(joint * total - np.outer(joint.sum(axis=1), joint.sum(axis=0))).sum())
    return min(off, 2 * total * _MOST_DEPENDENT) / (2 * total)
