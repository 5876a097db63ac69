"""The mechanism of Clifton, Hanson, Merrill & Merrill (2022), for comparison.

Their bound 1 + L_1 is (ln 2)-smooth and no better, and their generalised Cauchy noise has
gamma = 1 + epsilon / (2 ln 2) (Corollaries 5.2, 5.5, 5.7). The proof of their Theorem 3.8 needs
gamma >= 2, that is epsilon >= 2 ln 2: below, the mechanism loses more than the epsilon it states
(at 0.5 at least 0.9), so it is refused.
"""

from __future__ import annotations

import math
from fractions import Fraction

from missdp.errors import UnprovenError
from missdp.mechanisms import NoiseSource
from missdp.mechanisms.smooth import bits_of
from missdp.mechanisms.smooth_exact import round_cauchy

__all__ = ["PAPER_LEAST_EPSILON", "paper_gamma", "paper_mechanism"]

PAPER_LEAST_EPSILON = 2 * math.log(2)
_LARGEST = 64


def paper_gamma(epsilon: float) -> Fraction:
    """Return gamma = 1 + epsilon / (2 ln 2), rounded down to a sixteenth (which is still private).

    Raises
    ------
    UnprovenError
        If epsilon is below 2 ln 2, where the paper's proof fails.

    Examples
    --------
    >>> import math
    >>> paper_gamma(6 * math.log(2))
    Fraction(4, 1)
    """
    if not PAPER_LEAST_EPSILON <= epsilon < math.inf:
        raise UnprovenError(
            "the paper's mechanism is proven for epsilon >= 2 ln 2 = 1.386 only; "
            "use the library's own noise, which is valid for every epsilon"
        )
    # Float rounding of epsilon may not lose a sixteenth; above gamma = 2 the proof has slack.
    sixteenths = math.floor(16 * (1 + epsilon / PAPER_LEAST_EPSILON) + 2.0**-30)
    # A smaller gamma from 2 on is private as well; larger ones would take minutes to draw.
    return Fraction(min(sixteenths, 16 * _LARGEST), 16)


def paper_mechanism(
    value: Fraction,
    *,
    own: float,
    donee: float,
    donees: int,
    epsilon: float,
    grid: Fraction,
    source: NoiseSource,
) -> Fraction:
    """Release a value as the paper does; the caller has charged ``epsilon``.

    Parameters
    ----------
    value : Fraction
        Exact private answer.
    own, donee : float
        Public weights of the query.
    donees : int
        M_0 of the private table; the paper's L_1 is max(M_0, 1).
    epsilon : float
        At least 2 ln 2.
    grid : Fraction
        Public spacing of the output.
    source : NoiseSource
        Randomness.

    Raises
    ------
    UnprovenError
        If epsilon is below 2 ln 2.

    Examples
    --------
    >>> from missdp.mechanisms import SecureNoise
    >>> paper_mechanism(Fraction(9), own=1, donee=1, donees=4, epsilon=0.5, grid=Fraction(1),
    ...                 source=SecureNoise())
    Traceback (most recent call last):
        ...
    missdp.errors.UnprovenError: ...
    """
    gamma = paper_gamma(epsilon)
    bound = own + donee * max(donees, 1)
    # ln 2 is rounded down, which only adds noise.
    scale = Fraction(bound) / Fraction(math.log(2) * (1 - 2.0**-40)) / grid
    return round_cauchy(value / grid, scale, gamma=gamma, bits=bits_of(source)) * grid
