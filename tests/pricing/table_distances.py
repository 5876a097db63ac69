"""The exact distance of two tables, with which tests compare the bounds on it."""

import numpy as np

from missdp.pricing import TableDistance

TOLERANCE = 1e-9  # of floating-point error, when a distance is compared with its bound


def row_movements(first, second):
    """Return the distance of each pair of rows. Infinite if their missing cells differ."""
    a, b = (np.asarray(table, dtype=np.float64) for table in (first, second))
    assert a.shape == b.shape
    missing_a, missing_b = np.isnan(a), np.isnan(b)
    gap = np.where(missing_a | missing_b, 0.0, a - b)
    return np.where((missing_a != missing_b).any(axis=1), np.inf, np.sqrt((gap**2).sum(axis=1)))


def other_movements(first, second, replaced):
    """Return the movements without those of the replaced rows.

    The rows that moved most are set aside as replaced, which minimises every norm of the rest.
    """
    return np.sort(row_movements(first, second))[::-1][replaced:]


def distance_between(first, second, *, replaced=1):
    """Return the exact distance of two tables, the most different rows counted as replaced.

    No more rows than these may have changed which of their cells are missing.

    >>> distance_between([[0.0], [1.0]], [[0.5], [9.0]]).shift_l12
    0.5
    """
    rest = other_movements(first, second, replaced)
    assert np.isfinite(rest).all()
    return TableDistance(
        replaced=replaced,
        shifted_rows=int(np.count_nonzero(rest)),
        max_shift=float(rest.max(initial=0.0)),
        shift_l12=float(rest.sum()),
        shift_frobenius=float(np.sqrt((rest**2).sum())),
    )


def covers(bound, first, second):
    """Whether two tables are within a distance, up to rounding.

    >>> covers(TableDistance(replaced=1), [[0.0], [1.0]], [[0.0], [9.0]])
    True
    >>> covers(TableDistance(replaced=1), [[0.0], [1.0]], [[0.1], [9.0]])
    False
    """
    rest = other_movements(first, second, bound.replaced)
    room = TOLERANCE * (1 + bound.max_shift)
    return bool(
        np.count_nonzero(rest > room) <= bound.shifted_rows
        and rest.max(initial=0.0) <= bound.max_shift + room
        and rest.sum() <= bound.shift_l12 + room * max(1, rest.size)
        and np.sqrt((rest**2).sum()) <= bound.shift_frobenius + room * max(1, rest.size)
    )
