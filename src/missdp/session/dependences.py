"""Scores of candidate marginals by dependence, for Bayesian networks.

The sensitivity of such a score to one row is proven here, at `dependence`.
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

# The proven sensitivity is below 2. The rest covers one rounding of each of two neighbours' scores.
# Scores are at most _MAX_DEPENDENCE, so both roundings together are at most 2**-18, for every
# number of rows that counts can hold.
DEPENDENCE_SENSITIVITY = 2.0 + 1e-5
"""Largest change of a dependence by one row, in rows."""
_MAX_DEPENDENCE = 2**34  # rows
_MAX_INT64_ROWS = 2**31  # rows; twice the square of any smaller number of rows is an int64


@dataclass(frozen=True, eq=False)
class Dependences(Scores):
    """Query for scores of candidate marginals by the dependence of their last attribute.

    A marginal is a table of counts over some attributes. Its score is half the L1 distance of its
    counts from counts under independence, in rows. Pass the query to `Session.measure` with a
    `Selection`, which releases the position of one candidate. One row changes each score by at most
    2.00001. Bayesian networks are selected in this way.

    Parameters
    ----------
    cliques : tuple of tuple of str
        The candidates: parents first, the child last. Public, or chosen from releases.

    Notes
    -----
    The query is public, and releases nothing by itself. A session charges the epsilon of the
    selection before it counts. The bound on the change of a score holds under add-remove adjacency.

    References
    ----------
    Zhang, Cormode, Procopiuc, Srivastava, Xiao (2017), "PrivBayes: private data release via
    Bayesian networks", ACM Transactions on Database Systems 42(4).

    Examples
    --------
    >>> from missdp.session import Dependences
    >>> Dependences((("age", "sex"),)).sensitivity(float("inf"))
    2.00001
    """

    def check(self, rows: CountedRows) -> None:
        """Raise an error if public facts show that a set of columns has no dependence score.

        Parameters
        ----------
        rows : CountedRows
            The private rows, of which only public facts are used.

        Raises
        ------
        ParameterError
            If the schema lacks an attribute of a candidate, or rows have survey weights.
        """
        super().check(rows)
        if rows.facts.steps > 1:
            raise ParameterError(
                "a selection by dependence is not proven where rows count different amounts"
            )

    def sensitivity(self, norm: float) -> float:
        """Return the largest change of one candidate's score by one added or removed row.

        Parameters
        ----------
        norm : float
            Not used: the sensitivity of a selection is the largest change of one score.

        Returns
        -------
        float
            2.00001, in rows. Public. The proof is at ``missdp.session.dependences.dependence``.
        """
        del norm
        return DEPENDENCE_SENSITIVITY

    def exact(self, rows: CountedRows) -> Floats:
        """Return the exact score of each candidate marginal, its distance from independence.

        Only a session calls it, after the charge.

        Parameters
        ----------
        rows : CountedRows
            The private rows.

        Returns
        -------
        ndarray of float64, shape (n_candidates,)
            In rows, in the order of ``cliques``. Private.
        """
        scores = rows.scores.setdefault(type(self), {})
        absent = [clique for clique in dict.fromkeys(self.cliques) if clique not in scores]
        for clique, counts in rows.count(absent):
            scores[clique] = None, dependence(counts)
        return np.array([scores[c][1] for c in self.cliques], dtype=np.float64)


def dependence(counts: NDArray[np.int64]) -> float:
    """Return the distance of counts from independence of their last attribute, the child.

    ``S = 1/2 sum |c(x, pi) - c(x) c(pi) / m|`` with ``m = sum c``, over the rows observed on all
    attributes. The unit is rows, and S lies between 0 and ``m``.

    Parameters
    ----------
    counts : ndarray of int64
        Counts with one axis for each attribute, the child last. Private.

    Returns
    -------
    float
        In rows, at most 2**34. Private.

    Notes
    -----
    The sensitivity under add-remove is below 2 for every ``m``. Let p and q be the distributions of
    child and parents. Adding the row (x, pi) changes ``D = c - c c / m`` by ``m / (m + 1) * (e_x -
    p) (e_pi - q)^T``. The L1 norm of this change is below 2 * 2, and half of it is below 2. A row
    without one of the attributes changes nothing. So no private row count enters the sensitivity,
    unlike with mutual information. The whole numbers ``|m c - c c|`` are added up exactly. Their
    quotient by ``2 m`` is clipped to 2^34, which moves no two values further apart, and is rounded
    once.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.session.dependences import dependence
    >>> dependence(np.array([[5, 0], [0, 5]])), dependence(np.array([[2, 2], [4, 4]]))
    (5.0, 0.0)
    """
    joint = counts.reshape(-1, counts.shape[-1])
    total = int(joint.sum())
    if total == 0:
        return 0.0
    if total >= _MAX_INT64_ROWS:
        joint = joint.astype(object)  # whole numbers of any size
    deviation = int(np.abs(joint * total - np.outer(joint.sum(axis=1), joint.sum(axis=0))).sum())
    return min(deviation, 2 * total * _MAX_DEPENDENCE) / (2 * total)
