"""Whether relations between columns stand out from the noise of a fit, and what helps if not.

Everything here is a function of noise scales, which are public, and of released margins and numbers
of rows. Whether columns are related does not enter: a large table of independent columns is fine.

A table of two columns of ``r`` and ``c`` levels has ``d = (r − 1)(c − 1)`` coefficients of
dependence. Their noise has the variances ``s_i²``; those of the sampling of rows are in them. A
relation of Cramér's V adds up to ``V² m``, with ``m = min(r, c) − 1``, which is ``a = V² m / d`` a
coefficient. Of all sums of squares the one with weights ``1 / s_i⁴`` tells it best from noise: by

    Σ (a / s_i²)² / √(2 Σ (a / s_i²)²) = a √(Σ s_i⁻⁴ / 2)

standard deviations. A relation stands out if this exceeds three.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from missdp.inference.completion import PairTables
from missdp.types import Floats

_CLEAR = 3.0  # standard deviations of the noise
_MIN_SHARE = 1e-12
_MODERATE = 0.3
"""Cramér's V of a moderate relation (Cohen 1988 calls that a medium effect).

Calibrated on samples of a census table of 15 columns, 300 to 30,000 rows, at epsilon .3 to 3. Where
less than this stands out in the median pair, a fit of all pairs keeps 65 to 100 % of true relations
of V above .2. Where more is needed, it keeps 0 to 55 %.
"""
MOSTLY_NOISE = ".*: most relations between columns are noise"
"""Pattern of the line."""
LARGER_EPSILON = "a larger epsilon"
"""One of the remedies, which `mostly_noise` completes with an epsilon."""
MORE_ROWS = "more rows"
"""The remedy where sampling of the rows hides relations at any epsilon."""
_MAX_EPSILON = 10.0  # that is suggested
_STEP = 1.2
_SLOWER = 0.9  # power of epsilon by which noise falls: a little less than in proportion


@dataclass(frozen=True, eq=False)
class PairNoise:
    """Noise of the tables of two columns of a fit.

    Parameters
    ----------
    shapes : sequence of (int, int)
        Levels of both columns, pair by pair.
    relative : sequence of ndarray
        Variance of the noise of each cell, over what it would hold if the columns were independent;
        both are shares of the rows in which both columns have a value.
    rows : sequence of float
        How many rows these are.
    counted : float
        How many rows are counted, whatever values they have.
    """

    shapes: Sequence[tuple[int, int]]
    relative: Sequence[Floats]
    rows: Sequence[float]
    counted: float

    @classmethod
    def of_tables(cls, tables: PairTables) -> PairNoise:
        """Return the noise of released tables of pairs."""
        shapes, relative, rows = [], [], []
        for (a, b), variance in tables.variances.items():
            r, c = tables.sizes[a], tables.sizes[b]
            one, other = tables.marginals[a][:r], tables.marginals[b][:c]
            both = max(float(one.sum() * other.sum()), _MIN_SHARE)
            cells = np.maximum(np.outer(one, other), _MIN_SHARE)
            shapes.append((r, c))
            relative.append(variance[:r, :c] / cells / both)
            rows.append(tables.n_rows * both)
        return cls(shapes, relative, rows, max(tables.n_rows, 1.0))

    @classmethod
    def of_counts(cls, shapes: Iterable[tuple[int, int]], std: float, rows: float) -> PairNoise:
        """Return the noise of counts with this standard deviation, of levels that are as common."""
        shape_list = [*shapes]
        relative = [np.full(shape, math.prod(shape) * (std / rows) ** 2) for shape in shape_list]
        return cls(shape_list, relative, [rows] * len(shape_list), rows)

    def larger(self, factor: float) -> PairNoise:
        """Return noise whose standard deviations are so many times as large."""
        return replace(self, relative=[noise * factor**2 for noise in self.relative])

    @property
    def few_rows(self) -> bool:
        """Whether sampling of the rows hides moderate relations without any noise."""
        return self.larger(0.0).clear > _MODERATE

    @property
    def clear(self) -> float:
        """Cramér's V from which on a relation stands out, in the median pair; 0 without pairs."""
        thresholds = [
            _clear(noise + 1 / max(rows, 1.0))
            for (r, c), noise, rows in zip(self.shapes, self.relative, self.rows, strict=True)
            if min(r, c) > 1
        ]
        return float(np.median(thresholds)) if thresholds else 0.0


def _clear(variances: Floats) -> float:
    """Return the Cramér's V that stands out from coefficients with these variances."""
    r, c = variances.shape
    degrees = (r - 1) * (c - 1)
    precision = math.sqrt(float(np.square(1 / variances).mean()) * degrees / 2)
    return math.sqrt(_CLEAR / precision * degrees / (min(r, c) - 1))


def mostly_noise(
    clear: float, *, effective: float, enough: float | None = None, remedies: Sequence[str]
) -> str | None:
    """Return one line if most relations are noise, with the number behind it and remedies.

    Parameters
    ----------
    clear : float
        See `PairNoise.clear`.
    effective : float
        Effective rows times epsilon. Effective rows are the released weighted total, divided by
        the largest number of rows of a unit.
    enough : float, optional
        An epsilon that would do.
    remedies : sequence of str
        At least one.

    Returns
    -------
    str or None
        None if a moderate relation stands out.
    """
    if clear <= _MODERATE:
        return None
    if clear < 1:
        needs = f"stands out only if its Cramér's V is above {clear:.2f}"
    else:
        needs = "does not stand out, however strong it is"
    enough_is = f"{LARGER_EPSILON} (about {enough:.2g})" if enough else LARGER_EPSILON
    *first, last = (enough_is if one == LARGER_EPSILON else one for one in remedies)
    use = f"{', '.join(first)}, or {last}" if first else last
    return (
        f"About {effective:,.0f} effective rows × epsilon: most relations between columns are "
        f"noise. In the median pair a relation {needs}. Use {use}."
    )


def enough_epsilon(noise: PairNoise, epsilon: float) -> float | None:
    """Return about which epsilon would do, if it is not unusual: noise falls with epsilon."""
    larger = epsilon
    while noise.larger((epsilon / larger) ** _SLOWER).clear > _MODERATE:
        larger *= _STEP
        if larger > _MAX_EPSILON:
            return None
    return larger
