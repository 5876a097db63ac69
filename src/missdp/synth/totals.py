"""How many rows a table has: everything released that tells it, put together."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable

from missdp.errors import MissDPWarning
from missdp.mechanisms.door import Total

__all__ = ["SmallTableWarning", "Total", "least_squares_total", "whole_rows"]

_SMALL = 3.0  # standard deviations of the noise


class SmallTableWarning(MissDPWarning):
    """The table is too small for its epsilon: the noise is as large as the number of rows.

    Told from released values and public parameters only.

    Examples
    --------
    >>> import warnings
    >>> from missdp.synth import SmallTableWarning
    >>> warnings.simplefilter("error", SmallTableWarning)  # stop instead of going on
    >>> warnings.simplefilter("default", SmallTableWarning)
    """


def least_squares_total(totals: Iterable[Total], floors: Iterable[Total] = ()) -> Total:
    """Return the least-squares estimate of a number that was released several times.

    Parameters
    ----------
    totals : iterable of Total
        Releases of the number itself, with independent noise; at least one of either kind.
    floors : iterable of Total
        Releases of numbers that cannot be larger (rows with something observed, say).

    Returns
    -------
    Total
        The minimiser of the weighted squares under the constraint that no floor is above it: the
        mean weighted by inverse variances, with those floors that lie above it taken in, largest
        first. The variance is that of the totals alone, which floors make no larger; without
        totals it is that of the floors taken in.

    Examples
    --------
    >>> least_squares_total([Total(100.0, 4.0), Total(140.0, 4.0)])
    Total(value=120.0, variance=2.0)
    >>> least_squares_total([Total(100.0, 4.0)], [Total(140.0, 4.0), Total(20.0, 1.0)])
    Total(value=120.0, variance=4.0)
    """
    known = list(totals)
    exact = [total for total in known if total.variance == 0]
    if exact:
        return exact[0]
    weight = math.fsum(1 / total.variance for total in known)
    weighted = math.fsum(total.value / total.variance for total in known)
    variance = 1 / weight if known else 0.0
    for floor in sorted(floors, key=lambda total: -total.value):
        if weight > 0 and floor.value * weight <= weighted:
            break
        weight += 1 / floor.variance
        weighted += floor.value / floor.variance
    return Total(weighted / weight, variance if known else 1 / weight)


def whole_rows(total: Total, *, epsilon: float) -> int:
    """Return the number of synthetic rows to draw by default: at least one, so none is silent.

    Warns with `SmallTableWarning` if the number cannot be told from none.
    """
    if total.value < _SMALL * total.std:
        warnings.warn(
            f"the table is too small for epsilon={epsilon:g}: its number of rows was released as "
            f"{max(0.0, total.value):.0f}, give or take {2 * total.std:.0f} (two standard "
            "deviations), so expect noise rather than signal. Use a larger epsilon or coarser "
            "levels, or declare n_rows if it is public; sample(n) draws as many rows as asked for",
            SmallTableWarning,
            stacklevel=3,
        )
    return max(1, round(total.value))
