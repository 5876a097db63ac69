"""Released numbers of rows and of missing cells, and estimates from several releases together.

The number of rows is estimated from all released values that depend on it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable

import numpy as np

from missdp.errors import MissDPWarning
from missdp.schema import AnyAttribute, Numeric
from missdp.session import Noise, RowCount, Session, Total

_SMALL = 3.0  # SDs of the noise: a smaller number of rows causes a warning
# Shares of complete rows that cause a warning: in general, and if noise is large.
_HARDLY, _FEW = 0.05, 0.2


TOO_FEW_ROWS = "the table is too small for epsilon"
"""Pattern of the warning of `rounded_rows`."""


class SmallTableWarning(MissDPWarning):
    """Warning that the private table is too small for its epsilon, as far as released values show.

    A fit issues it in three cases. The released number of rows may be no larger than its noise. The
    noise may hide the relations between most columns. With ``missing="complete-rows"``, few rows
    may be complete.

    The warning depends on released values and public parameters only. Issuing it costs nothing.

    Examples
    --------
    >>> from missdp.synth import SmallTableWarning
    >>> import warnings
    >>> warnings.simplefilter("error", SmallTableWarning)  # raise an error instead of a warning
    >>> warnings.simplefilter("default", SmallTableWarning)
    """


def least_squares_total(totals: Iterable[Total], floors: Iterable[Total] = ()) -> Total:
    """Return the least-squares estimate of a number that was released several times.

    Totals are releases of the number itself, with independent noise. Floors are releases of numbers
    that cannot be larger, such as the number of rows with an observed cell. The estimate minimises
    the weighted squares under the constraint that no floor exceeds it. It is the mean by inverse
    variances of all totals and of the floors above it, largest floor first. The variance is that of
    the totals alone, which floors do not increase. Without totals it is that of the used floors.

    >>> from missdp.session import Total
    >>> from missdp.synth.noisy_counts import least_squares_total
    >>> least_squares_total([Total(100.0, 4.0), Total(140.0, 4.0)])
    Total(value=120.0, variance=2.0)
    >>> least_squares_total([Total(100.0, 4.0)], [Total(140.0, 4.0), Total(20.0, 1.0)])
    Total(value=120.0, variance=4.0)
    """
    released = list(totals)
    exact = [total for total in released if total.variance == 0]
    if exact:
        return exact[0]
    weight = math.fsum(1 / total.variance for total in released)
    weighted = math.fsum(total.value / total.variance for total in released)
    variance = 1 / weight if released else 0.0
    for floor in sorted(floors, key=lambda total: -total.value):
        if weight > 0 and floor.value * weight <= weighted:
            break
        weight += 1 / floor.variance
        weighted += floor.value / floor.variance
    return Total(weighted / weight, variance if released else 1 / weight)


def rounded_rows(total: Total, *, epsilon: float, declarable: bool = True) -> int:
    """Return the default number of rows to draw, and warn if the table is too small.

    Parameters
    ----------
    total : Total
        The released number of rows.
    epsilon : float
        Epsilon of the fit.
    declarable : bool, default True
        Whether the number of rows may be declared. With units or weights it is private.

    Returns
    -------
    int
        At least 1.
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
    """Warn with `SmallTableWarning` if few rows are complete and only these are read."""
    count = complete or Total(math.inf, 0.0)
    noise = _SMALL * count.std
    if noise < rows and count.value < max(_HARDLY * rows, min(noise, _FEW * rows)):
        warnings.warn(
            f"by released counts, about {max(0.0, count.value):.0f} ± {2 * count.std:.0f} (2 SD) "
            f"of {rows} rows are complete. missing='complete-rows' learns from these only, and "
            "they may differ from all others. Use missing='joint', or 'observed' if the family "
            "lacks it.",
            SmallTableWarning,
            stacklevel=4,
        )


MASKS_SHARE = 0.05
"""Share for joint masks, in the budget that remains after one-way marginals."""


def row_count(session: Session, noise: Noise) -> Total:
    """Return the number of all rows: the declared number without cost, or a noisy one."""
    if session.facts.declared_rows is not None:
        return Total(float(session.facts.declared_rows), 0.0)
    return Total(float(session.measure(RowCount(), noise).value), noise.variance)


_FEW_NUMBERS = 16  # levels: longer lists of numbers get bins


def has_number_levels(attribute: AnyAttribute) -> bool:
    """Return whether each level of an attribute is one of a few numbers, in their order."""
    if not isinstance(attribute, Numeric) or attribute.size > _FEW_NUMBERS:
        return False
    lower, upper = attribute.code_ranges
    each = (lower == upper).all() and (np.diff(lower) > 0).all()
    return bool(each) and not attribute.binning.spikes
