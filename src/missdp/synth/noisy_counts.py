"""Numbers of rows and of missing cells: releases, and what they tell together.

The number of rows is estimated from everything released that depends on it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable

import numpy as np

from missdp.errors import MissDPWarning
from missdp.schema import AnyAttribute, Numeric
from missdp.session import Noise, RowCount, Session, Total

_SMALL = 3.0  # standard deviations of the noise
_HARDLY, _FEW = 0.05, 0.2  # share of complete rows; the same, where noise says no more


TOO_FEW_ROWS = "the table is too small for epsilon"
"""Pattern of the warning of `rounded_rows`."""


class SmallTableWarning(MissDPWarning):
    """The table is too small for its epsilon: noise is as large as what there is to be seen.

    That is the number of rows, or how most columns are related. Or hardly a row is complete, and
    complete rows are all that ``missing="complete-rows"`` learns from.

    Told from released values and public parameters only.

    >>> import warnings
    >>> warnings.simplefilter("error", SmallTableWarning)  # stop instead of going on
    >>> warnings.simplefilter("default", SmallTableWarning)
    """


def least_squares_total(totals: Iterable[Total], floors: Iterable[Total] = ()) -> Total:
    """Return the least-squares estimate of a number that was released several times.

    Totals are releases of the number itself, with independent noise; floors, of numbers that cannot
    be larger (rows with something observed, say). It minimises the weighted squares under the
    constraint that no floor is above it: the mean weighted by inverse variances, with those floors
    that lie above it taken in, largest first. The variance is that of the totals alone, which
    floors make no larger; without totals it is that of the floors taken in.

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


def rounded_rows(total: Total, *, epsilon: float, declarable: bool = True) -> int:
    """Return how many rows to draw by default, at least one; warn if there may be none.

    Parameters
    ----------
    total : Total
        The released number of rows.
    epsilon : float
        Of the fit.
    declarable : bool, default True
        Whether the number of rows may be declared; with units or weights it is private.

    Returns
    -------
    int
    """
    if total.value < _SMALL * total.std:
        declare = ", or declare the row count if it is public" if declarable else ""
        warnings.warn(
            f"{TOO_FEW_ROWS} = {epsilon:g}: released row count "
            f"{max(0.0, total.value):.0f} ± {2 * total.std:.0f} (2 SD). Results will be mostly "
            f"noise. Use a larger epsilon or coarser levels{declare}.",
            SmallTableWarning,
            stacklevel=4,
        )
    return max(1, round(total.value))


def warn_if_hardly_complete(complete: Total | None, *, rows: int) -> None:
    """Warn with `SmallTableWarning` if hardly any of the rows that are learned from is complete."""
    found = complete or Total(math.inf, 0.0)
    noise = _SMALL * found.std
    if noise < rows and found.value < max(_HARDLY * rows, min(noise, _FEW * rows)):
        warnings.warn(
            f"by what was released, about {max(0.0, found.value):.0f} of {rows} rows are complete, "
            f"give or take {2 * found.std:.0f}, and missing='complete-rows' learns from these "
            "alone: they may differ from all others. missing='joint', or 'observed' where a family "
            "lacks it, reads the rest as well",
            SmallTableWarning,
            stacklevel=4,
        )


MASKS_SHARE = 0.05
"""Share of what margins leave of the budget, for masks: two-way distances do not tell."""


def row_count(session: Session, noise: Noise) -> Total:
    """Return the number of all rows: the declared one, which costs nothing, or a noisy one."""
    if session.facts.declared_rows is not None:
        return Total(float(session.facts.declared_rows), 0.0)
    return Total(float(session.measure(RowCount(), noise).value), noise.variance)


_FEW_NUMBERS = 16  # of longer lists bins are found


def has_numbers(attribute: AnyAttribute) -> bool:
    """Return whether each level of an attribute is one of a few numbers, in their order."""
    if not isinstance(attribute, Numeric) or attribute.size > _FEW_NUMBERS:
        return False
    least, greatest = attribute.code_ranges
    each = (least == greatest).all() and (np.diff(least) > 0).all()
    return bool(each) and not attribute.binning.spikes
