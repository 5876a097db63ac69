"""What makes a guarantee next to worthless, and a warning that says so."""

from __future__ import annotations

import warnings

from missdp.accounting.exact import rounded_up
from missdp.errors import WeakGuaranteeWarning

__all__ = ["warn_if_weak", "weaknesses"]


def weaknesses(epsilon: float, delta: float = 0.0, *, n: int | None = None) -> tuple[str, ...]:
    """Return what makes a guarantee next to worthless, in sentences; usually nothing.

    Parameters
    ----------
    epsilon, delta : float
        Of the guarantee.
    n : int, optional
        The number of rows, *declared or released*, never the private one: whether there is a
        sentence would tell.

    Examples
    --------
    >>> for sentence in weaknesses(12.0, 0.01, n=1000):
    ...     print(sentence)
    epsilon = 12 is above 10: someone who knows all other rows may learn almost surely what a
    person answered; values of about 1 are usual
    delta = 0.01 is at least 1/n (n = 1000): publishing each row in full with this probability
    would keep the same promise; state a delta far below 1/n
    """
    found = []
    if epsilon > 10:
        found.append(
            f"epsilon = {rounded_up(epsilon)} is above 10: someone who knows all "
            "other rows may learn almost surely what a person answered; values of about 1 are usual"
        )
    if n is not None and delta > 0 and delta * n >= 1:
        found.append(
            f"delta = {rounded_up(delta)} is at least 1/n (n = {n}): publishing each row in full "
            "with this probability would keep the same promise; state a delta far below 1/n"
        )
    return tuple(found)


def warn_if_weak(epsilon: float, delta: float = 0.0, *, n: int | None = None) -> None:
    """Warn of every one of the `weaknesses`."""
    for sentence in weaknesses(epsilon, delta, n=n):
        warnings.warn(sentence, WeakGuaranteeWarning, stacklevel=3)
