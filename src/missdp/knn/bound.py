"""The smooth bound of a query on imputed data, for every beta above 0.

    U_j(D) = own + donee * A_j(D),   A_j(D) = max_{a + b = j} (a + M_b(D))
    S_beta(D) = max_j exp(-beta j) U_j(D)

*Theorem* (spec privacy.md §5). U_0 bounds the local sensitivity, and U_j(D) <= U_{j+1}(D') for
neighbours, so S_beta is a beta-smooth upper bound. *Proof.* Adding or removing a complete row t
moves the query by its own contribution and that of the donees whose donor set changes, each of
which exchanges one donor: those with rank_D(x, t) <= k, at most M_0. An incomplete row has its own
contribution only. For the second claim use the property of M (see `missdp.knn.profile`): one donor
more or less is taken up by b -> b + 1, one donee more or less by a -> a + 1. ∎

Beyond ``Profile.max_terms`` (a public number) M_b is replaced by the number of donees |I|, which
changes by at most 1 when an incomplete row comes or goes, so the same argument holds.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError
from missdp.knn.profile import Profile

__all__ = ["ROUND_UP", "change_bounds", "smooth_bound"]

_FIRST_TERMS = 32
# Above the rounding of exp and of the products, and far below the slack left in the noise.
ROUND_UP = 1 + 2.0**-42


def change_bounds(profile: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return A_j = max over a + b = j of a + M_b, for every j of ``profile``.

    Examples
    --------
    >>> change_bounds(np.array([4, 5, 7, 7, 7, 8])).tolist()
    [4, 5, 7, 8, 9, 10]
    """
    steps = np.arange(len(profile))
    return np.asarray(steps + np.maximum.accumulate(profile - steps), dtype=np.int64)


def smooth_bound(profile: Profile, *, own: float, donee: float, beta: float) -> float:
    """Return S_beta, rounded up by a factor of at most 1 + 2**-40. Private.

    Terms of the profile are made exact only where the maximum is attained, and later terms are
    skipped once even |I| donees could not beat it; the result is that of the full exact profile.

    Parameters
    ----------
    profile : Profile
        Private.
    own, donee : float
        Public weights: how far a row's own contribution, and one donee that exchanges one donor,
        can move the query.
    beta : float
        Above 0.
    """
    if not (beta > 0 and own >= 0 and donee >= 0):
        raise ParameterError("beta must be above 0 and the weights at least 0")
    if donee == 0:
        return own * ROUND_UP
    terms = min(_FIRST_TERMS, profile.max_terms)
    while True:
        upper = profile.upper(terms)
        scores = np.exp(-beta * np.arange(terms)) * (own + donee * change_bounds(upper))
        j = int(np.argmax(scores))
        excess = upper[: j + 1] - np.arange(j + 1)
        attained = np.flatnonzero(excess == excess.max())
        if not any(profile.is_exact(int(b)) for b in attained):
            profile.exact(int(attained[0]))
            continue
        best = float(scores[j])
        tail = _tail(own + donee * profile.donees, donee, beta, terms)
        if tail <= best or terms >= profile.max_terms:
            return max(best, tail if tail > best else 0.0) * ROUND_UP
        terms = min(4 * terms, profile.max_terms)


def _tail(level: float, slope: float, beta: float, start: int) -> float:
    """Supremum of exp(-beta j)(level + slope j) over real j >= start."""
    j = max(float(start), 1 / beta - level / slope)
    return math.exp(-beta * j) * (level + slope * j)
