"""Scores of candidate marginals for a private selection, declared by released values alone.

A score is the formula below, with released tables, columns and weights, or the formula of
`missdp.session.dependences`. No function of a synthesizer sees the exact counts. The sensitivity of
each score is proven with its formula.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError
from missdp.session.counted_queries import CountQuery
from missdp.session.counting import Clique
from missdp.session.mechanisms import Selection
from missdp.types import Flags, Floats

if TYPE_CHECKING:
    from missdp.session.counted_rows import CountedRows

Counts: TypeAlias = "NDArray[np.number[Any]]"

_GRID = 2.0**-10  # rows; step of the grid of expectations
_MAX_SCORE = 2.0**31  # rows; larger scores are clipped
_MAX_ROWS = 2.0**41  # rows in a table of counts
_MAX_WEIGHT = 2.0**31  # rows in a table of weights, whose steps of 2**-20 need 10 more bits

MISFIT_SENSITIVITY = 1.0 + 2.0**-20
"""Largest change of a misfit by one row."""


@dataclass(frozen=True, eq=False)
class Expected:
    """Expected counts of a marginal, with which a score compares the exact counts.

    A marginal is a table of counts over some attributes. All values are released or public. The
    query `Misfits` takes one object for each candidate.

    Parameters
    ----------
    table : ndarray of float, shape (n_levels_1, ..., n_levels_k)
        Expected counts, in rows, of the cells in which nothing is missing. One axis for each of the
        k attributes of the marginal.
    possible : ndarray of bool, in the shape of ``table``
        The cells that rows can be in. Other cells are left out of the score.
    bias : float
        Expected distance of noisy counts from the expectation by noise alone, in rows. It is
        subtracted from the score.
    weight : float
        Factor of the score, in (0, 1]. Larger weights become 1.

    Notes
    -----
    All fields are released or public, so the object may be published.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.session import Expected
    >>> from missdp.session.scores import misfit
    >>> expected = Expected(np.array([4.0, 4.5]), np.ones(2, dtype=bool), bias=1.0, weight=0.5)
    >>> misfit(np.array([3, 5]), expected)
    0.25
    """

    table: Floats
    possible: Flags
    bias: float
    weight: float


@dataclass(frozen=True, eq=False)
class Scores(CountQuery):
    """Base class of queries for scores of candidate marginals, from which a selection releases one.

    A marginal is a table of counts over some attributes. A subclass defines ``sensitivity`` and
    ``exact``.

    Parameters
    ----------
    cliques : tuple of tuple of str
        Names of the attributes of each candidate. Public, or chosen from releases.
    """

    cliques: tuple[Clique, ...]

    answered_by = Selection
    reads = ()
    label = "selection of a marginal"

    def __post_init__(self) -> None:
        object.__setattr__(self, "cliques", tuple(map(tuple, self.cliques)))

    def check(self, rows: CountedRows) -> None:
        """Raise an error if the schema lacks an attribute of a candidate marginal.

        Parameters
        ----------
        rows : CountedRows
            The private rows, of which only public facts are used.

        Raises
        ------
        ParameterError
            If the schema lacks an attribute.
        """
        for clique in self.cliques:
            rows.refuse_unknown(clique)


@dataclass(frozen=True, eq=False)
class Misfits(Scores):
    """Query for scores of candidate marginals by the distance of exact counts from expected counts.

    A marginal is a table of counts over some attributes. The score is ``weight (sum |counts -
    expected| - bias)`` over the possible cells without missing values, as in AIM (McKenna et al.
    2022). ``expected``, ``bias`` and ``weight`` are fields of an `Expected`. Pass the query to
    `Session.measure` with a `Selection`, which releases the position of one candidate. One row
    changes each score by at most 1 + 2**-20.

    Parameters
    ----------
    cliques : tuple of tuple of str
        Names of the attributes of each candidate. Public, or chosen from releases.
    expected : callable or mapping
        From the names of a candidate to its `Expected` counts. Released or public. A score is
        computed again only if another object is returned than before.

    Raises
    ------
    ParameterError
        Raised by the session before the charge, if an attribute is unknown or a shape is wrong.

    Notes
    -----
    The query is public, and releases nothing by itself. A session charges the epsilon of the
    selection before it counts. The bound on the change of a score holds under add-remove adjacency.

    References
    ----------
    McKenna, Mullins, Sheldon, Miklau (2022), "AIM: an adaptive and iterative mechanism for
    differentially private synthetic data", PVLDB 15(11).

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.session import Expected, Misfits
    >>> expected = Expected(np.array([4.0, 4.5]), np.ones(2, dtype=bool), bias=1.0, weight=0.5)
    >>> round(Misfits((("sex",),), {("sex",): expected}).sensitivity(float("inf")), 3)
    1.0
    """

    expected: Callable[[Clique], Expected] | Mapping[Clique, Expected]

    def sensitivity(self, norm: float) -> float:
        """Return the largest change of one candidate's score by one added or removed row.

        Parameters
        ----------
        norm : float
            Not used: the sensitivity of a selection is the largest change of one score.

        Returns
        -------
        float
            1 + 2**-20, in rows. Public. The proof is at ``missdp.session.scores.misfit``.
        """
        del norm
        return MISFIT_SENSITIVITY

    def exact(self, rows: CountedRows) -> Floats:
        """Return the exact score of each candidate marginal, its distance from expected counts.

        Only a session calls it, after the charge.

        Parameters
        ----------
        rows : CountedRows
            The private rows.

        Returns
        -------
        ndarray of float64, shape (n_candidates,)
            In rows times the weight, in the order of ``cliques``. Private.
        """
        scores = rows.scores.setdefault(type(self), {})
        for clique, counts in rows.count(list(self._outdated(scores))):
            expected = self._expectation(clique)
            if clique not in scores or scores[clique][0]() is not expected:
                # This is a weak reference, which does not keep a large table of expectations.
                scores[clique] = weakref.ref(expected), misfit(rows.in_rows(counts), expected)
        return np.array([scores[c][1] for c in self.cliques], dtype=np.float64)

    def _outdated(self, scores: Mapping[Clique, tuple[Any, float]]) -> Iterator[Clique]:
        for clique in dict.fromkeys(self.cliques):
            fixed = not callable(self.expected) and clique in scores
            if not fixed or scores[clique][0]() is not self._expectation(clique):
                yield clique

    def _expectation(self, clique: Clique) -> Expected:
        return self.expected(clique) if callable(self.expected) else self.expected[clique]


def misfit(counts: Counts, expected: Expected) -> float:
    """Return the weighted distance of exact counts from expected counts, less the noise.

    The formula is ``weight (sum |counts - expected| - bias)`` over the possible cells, clipped. One
    row changes it by at most `MISFIT_SENSITIVITY`.

    Parameters
    ----------
    counts : ndarray
        Exact counts in rows, at least 0, with a sum below 2**41. If rows have survey weights, they
        are multiples of 2**-20, with a sum below 2**31. Private.
    expected : Expected
        Expected counts, possible cells, bias and weight. Released or public.

    Returns
    -------
    float
        The score, in rows times the weight. Private.

    Raises
    ------
    ParameterError
        If the shapes of expected counts and possible cells do not fit the counts.

    Notes
    -----
    One row changes one count by at most one. So in exact arithmetic the score changes by at most
    ``weight``. Omitting fixed cells makes no row's influence larger.

    *Floating point.* ``expected`` and ``bias`` are first rounded to multiples of 2**-10. A table
    ``expected`` with a sum above 2**41 is scaled down. Both are post-processing. Every difference
    and every partial sum is then a multiple of 2**-10 below 2**43. A double represents it exactly
    for every order of addition, so the sum still changes by at most one. If rows have weights,
    every partial sum is a multiple of 2**-20 below 2**33, which a double also represents exactly.
    Clipping at 2**31 moves no two values further apart. Only the product with the weight is
    rounded, by at most 2**-53 * 2**31 for each of two neighbours. Both roundings together are at
    most 2**-21, less than the 2**-20 that `MISFIT_SENSITIVITY` allows.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.session import Expected
    >>> from missdp.session.scores import misfit
    >>> every = np.ones(2, dtype=bool)
    >>> misfit(np.array([3, 5]), Expected(np.array([4.0, 4.5]), every, bias=1.0, weight=0.5))
    0.25
    """
    possible = np.asarray(expected.possible, dtype=bool)
    table = np.asarray(expected.table, dtype=np.float64)
    inside = possible.ndim == counts.ndim and all(map(operator.le, possible.shape, counts.shape))
    if not inside or table.shape != possible.shape:
        raise ParameterError("expected counts must have the shape of the possible cells")
    observed = counts[tuple(slice(0, size) for size in possible.shape)] * possible
    max_total = _MAX_WEIGHT if counts.dtype.kind == "f" else _MAX_ROWS
    table = np.maximum(np.nan_to_num(table), 0.0)
    predicted = _rounded(table / max(1.0, float(table.sum()) / max_total))
    gap = float(np.abs(observed - predicted).sum())
    excess = gap - round(min(max(expected.bias, -_MAX_SCORE), _MAX_SCORE) / _GRID) * _GRID
    return min(max(expected.weight, 0.0), 1.0) * min(max(excess, -_MAX_SCORE), _MAX_SCORE)


def _rounded(values: Floats) -> Floats:
    """Round released values to multiples of 1/1024 of a row, within 2**31 rows."""
    return np.minimum(np.maximum(np.rint(values / _GRID) * _GRID, -_MAX_SCORE), _MAX_SCORE)
