"""Post-processing of noisy counts: the number of rows, consistent proportions.

How many rows a table has is told by everything released that tells it, put together. Noisy
marginals are projected onto the simplex and made to agree with each other.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost
from missdp.errors import MissDPWarning, ParameterError
from missdp.mechanisms.door import Door, Noise, Total
from missdp.schema import AnyAttribute, Numeric
from missdp.types import Ints

_SMALL = 3.0  # standard deviations of the noise
_HARDLY, _FEW = 0.05, 0.2  # share of complete rows; the same, where noise says no more
_HIDDEN, _SEEN = 0.5, 1.0  # rows in a cell, over the noise of a cell
_MOST_EPSILON = 10.0  # that is worth suggesting
_STEP = 1.2


class SmallTableWarning(MissDPWarning):
    """The table is too small for its epsilon: noise is as large as what there is to be seen.

    That is the number of rows, or the number of them in a cell of two attributes. Or hardly a row
    is complete, and complete rows are all that ``missing="complete-rows"`` learns from.

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


def whole_rows(total: Total, *, epsilon: float) -> int:
    """Return how many rows to draw by default, at least one; warn if there may be none."""
    if total.value < _SMALL * total.std:
        warnings.warn(
            f"the table is too small for epsilon={epsilon:g}: its number of rows was released as "
            f"{max(0.0, total.value):.0f}, give or take {2 * total.std:.0f} (two standard "
            "deviations), so expect noise rather than signal. Use a larger epsilon or coarser "
            "levels, or declare the number of rows if it is public. As many rows as asked for can "
            "be drawn in any case",
            SmallTableWarning,
            stacklevel=4,
        )
    return max(1, round(total.value))


def warn_if_noise(
    rows: int, sizes: Sequence[int], noise: Callable[[float, int], float], *, epsilon: float
) -> None:
    """Warn with `SmallTableWarning` if noise hides how attributes go together.

    It does where a cell of a pair of attributes has fewer rows, on average, than half of the noise
    that it would have if nothing but a tree of pairs were measured: synthetic rows are then nearly
    as far from the private ones as rows drawn evenly. ``noise`` is that of each of so many counts
    that share a budget, by epsilon.
    """
    tables = max(1, len(sizes) - 1)
    cells = float(np.median([a * b for a, b in combinations(sizes, 2)] or sizes))

    def seen(epsilon: float) -> float:
        return rows / cells / noise(epsilon, tables)

    if seen(epsilon) >= _HIDDEN:
        return
    enough = float(f"{_SEEN * cells * noise(epsilon, tables):.1e}")
    larger = epsilon
    while larger <= _MOST_EPSILON and seen(larger) < _SEEN:
        larger *= _STEP
    otherwise = f", or epsilon={larger:.2g}," if larger <= _MOST_EPSILON else ""
    warnings.warn(
        f"the table is too small for epsilon={epsilon:g}: of {rows} rows, noise hides how "
        f"{len(sizes)} attributes go together; about {enough:,.0f} rows{otherwise} would begin to "
        "show it",
        SmallTableWarning,
        stacklevel=4,
    )


def warn_if_hardly_complete(complete: Iterable[Total], *, rows: int) -> None:
    """Warn with `SmallTableWarning` if hardly any of the rows that are learned from is complete."""
    known = list(complete)
    found = least_squares_total(known) if known else Total(math.inf, 0.0)
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

_MOST_NOISE = 0.1  # of a count of masks, as a share of the rows


def release_masks(
    door: Door,
    pairs: Sequence[tuple[int, int]],
    apart: Mapping[str, Ints],
    *,
    cost: Cost,
    rows: float,
) -> tuple[list[Ints], Noise] | None:
    """Release which cells of pairs are missing together; nothing, if noise would hide it.

    Marginals of masks are small: what many cells of a large one would hide is seen in one. Levels
    are counted as one, or as ``apart`` has them.
    """
    if not pairs:
        return None
    try:
        noise = Noise.worth(replace(cost, amount=cost.amount / len(pairs)))
    except ParameterError:  # more than can be drawn
        return None
    if noise.std > _MOST_NOISE * rows:
        return None
    named = [tuple(door.schema.names[a] for a in pair) for pair in pairs]
    door.expect(named)
    bare = door.merged(apart)
    return [bare.marginal(clique, noise) for clique in named], noise


_PLAIN, _PLAIN_END = 3.0, 2.0  # standard deviations of noise: top codes lie at the ends
_FEW_NUMBERS = 16  # of longer lists bins are found


def falling_ends(counts: NDArray[np.float64], std: float) -> NDArray[np.float64]:
    """Return noisy counts of numbers in their order, with ends that fall off outwards.

    Beyond the outermost count that stands out of the noise, nothing tells one number from the next:
    left as they are, counts that noise lifts above 0 would be where they weigh most, far out.
    """
    from scipy.optimize import isotonic_regression

    found, least = np.array(counts, dtype=np.float64), np.full(len(counts), _PLAIN * std)
    least[[0, -1]] = _PLAIN_END * std
    plain = np.flatnonzero(found > least)
    if plain.size:
        for end, rising in ((slice(plain[0]), True), (slice(plain[-1] + 1, None), False)):
            if found[end].size:
                found[end] = isotonic_regression(found[end], increasing=rising).x
    return found


def has_numbers(attribute: AnyAttribute) -> bool:
    """Return whether each level of an attribute is one of a few numbers, in their order."""
    if not isinstance(attribute, Numeric) or attribute.spikes or attribute.size > _FEW_NUMBERS:
        return False
    least, greatest = attribute.reach
    return len(least) == attribute.size and bool(
        (least == greatest).all() & (np.diff(least) > 0).all()
    )


def project_to_simplex(counts: NDArray[np.float64], total: float = 1.0) -> NDArray[np.float64]:
    """Return the point of ``{p >= 0, sum p = total}`` nearest to ``counts`` in Euclidean distance.

    Unlike clipping at zero and dividing by the sum, this does not hand the mass of clipped
    negative noise to the large cells in proportion: it subtracts one constant everywhere.

    >>> project_to_simplex(np.array([0.7, 0.5, -0.2])).round(2).tolist()
    [0.6, 0.4, 0.0]
    """
    flat = counts.ravel()
    ordered = np.sort(flat)[::-1]
    thresholds = (np.cumsum(ordered) - total) / np.arange(1, flat.size + 1)
    last = np.flatnonzero(ordered > thresholds)[-1]
    return np.asarray(np.maximum(counts - thresholds[last], 0.0))
