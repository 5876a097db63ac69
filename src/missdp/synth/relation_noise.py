"""Noise of the relations between columns: a test whether moderate relations exceed it.

Everything here is a function of public noise scales, released marginals and numbers of rows. The
relations themselves are not used, so a large table of independent columns passes the test.

A table of two columns of ``r`` and ``c`` levels has ``d = (r − 1)(c − 1)`` coefficients of
dependence. Their noise has the variances ``s_i²``, sampling of the rows included. A relation of
Cramér's V has the sum of squares ``V² m`` with ``m = min(r, c) − 1``, which is ``a = V² m / d`` for
each coefficient. Among all weighted sums of squares, the weights ``1 / s_i⁴`` separate it best from
noise, by

    Σ (a / s_i²)² / √(2 Σ (a / s_i²)²) = a √(Σ s_i⁻⁴ / 2)

standard deviations. A relation is clear if this exceeds three.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from missdp.inference.completion import PairTables
from missdp.types import Floats

_CLEAR = 3.0  # SDs of the noise that a clear relation exceeds
_MIN_SHARE = 1e-12
_MODERATE = 0.3
"""Cramér's V of a moderate relation (Cohen 1988 calls that a medium effect).

It was calibrated on samples of a census table of 15 columns, 300 to 30,000 rows, at epsilon .3 to
3. If smaller relations are clear in the median pair, a fit of all pairs preserves 65 to 100 % of
the true relations with V above .2. If only larger relations are clear, it preserves 0 to 55 %.
"""
MOSTLY_NOISE = ".*: most relations between columns are noise"
"""Pattern of the sentence."""
LARGER_EPSILON = "a larger epsilon"
"""A remedy, which `mostly_noise` completes with an epsilon."""
MORE_ROWS = "more rows"
"""The remedy if sampling of the rows hides relations at any epsilon."""
_MAX_EPSILON = 10.0  # largest epsilon that is suggested
_STEP = 1.2  # factor between the epsilons that are tried
_SLOWER = 0.9  # power of epsilon by which noise falls, a little less than proportionally


@dataclass(frozen=True, eq=False)
class PairNoise:
    """Noise of the tables of all pairs of columns of a fit.

    Parameters
    ----------
    shapes : sequence of (int, int)
        Levels of both columns, pair by pair.
    relative : sequence of ndarray
        Variance of the noise of each cell, over its expectation if the columns were independent.
        Both are shares of the rows in which both columns have a value.
    rows : sequence of float
        Number of these rows, pair by pair.
    counted : float
        Number of all counted rows.
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
        """Return the noise of counts with this standard deviation, for equally common levels.

        Parameters
        ----------
        shapes : iterable of (int, int)
            Levels of both columns, pair by pair.
        std : float
            Standard deviation of each count, in rows.
        rows : float
            Number of rows.

        Returns
        -------
        PairNoise
            Public, except for the released number of rows.
        """
        shape_list = [*shapes]
        relative = [np.full(shape, math.prod(shape) * (std / rows) ** 2) for shape in shape_list]
        return cls(shape_list, relative, [rows] * len(shape_list), rows)

    def larger(self, factor: float) -> PairNoise:
        """Return the noise with all standard deviations multiplied by a factor."""
        return replace(self, relative=[noise * factor**2 for noise in self.relative])

    @property
    def few_rows(self) -> bool:
        """Whether sampling of the rows hides moderate relations even without noise."""
        return self.larger(0.0).clear > _MODERATE

    @property
    def clear(self) -> float:
        """Smallest Cramér's V of a clear relation in the median pair, 0 without pairs."""
        thresholds = [
            _clear(noise + 1 / max(rows, 1.0))
            for (r, c), noise, rows in zip(self.shapes, self.relative, self.rows, strict=True)
            if min(r, c) > 1
        ]
        return float(np.median(thresholds)) if thresholds else 0.0


def _clear(variances: Floats) -> float:
    """Return the smallest clear Cramér's V for coefficients with these variances."""
    r, c = variances.shape
    degrees = (r - 1) * (c - 1)
    precision = math.sqrt(float(np.square(1 / variances).mean()) * degrees / 2)
    return math.sqrt(_CLEAR / precision * degrees / (min(r, c) - 1))


def mostly_noise(
    clear: float, *, effective: float, enough: float | None = None, remedies: Sequence[str]
) -> str | None:
    """Return a sentence if most relations are noise, with the measure behind it and remedies.

    Parameters
    ----------
    clear : float
        See `PairNoise.clear`.
    effective : float
        Effective rows times epsilon. Effective rows are the released weighted total, divided by
        the largest number of rows of a unit.
    enough : float, optional
        A sufficient epsilon.
    remedies : sequence of str
        At least one remedy.

    Returns
    -------
    str or None
        None if a moderate relation is clear.
    """
    if clear <= _MODERATE:
        return None
    if clear < 1:
        needs = f"exceeds the noise only if its Cramér's V is above {clear:.2f}"
    else:
        needs = "does not exceed the noise, however strong it is"
    enough_is = f"{LARGER_EPSILON} (about {enough:.2g})" if enough else LARGER_EPSILON
    *first, last = (enough_is if one == LARGER_EPSILON else one for one in remedies)
    use = f"{', '.join(first)}, or {last}" if first else last
    return (
        f"About {effective:,.0f} effective rows × epsilon: most relations between columns are "
        f"noise. In the median pair a relation {needs}. Use {use}."
    )


def enough_epsilon(noise: PairNoise, epsilon: float) -> float | None:
    """Return an approximately sufficient epsilon, or None if it would exceed 10."""
    larger = epsilon
    while noise.larger((epsilon / larger) ** _SLOWER).clear > _MODERATE:
        larger *= _STEP
        if larger > _MAX_EPSILON:
            return None
    return larger
