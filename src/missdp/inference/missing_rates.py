"""Released missing rates: by levels of other attributes, and of two attributes together.

Everything here is a function of released values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from missdp.types import Floats

EVIDENCE = 3.0
"""Standard deviations of noise and sampling that an effect must exceed."""

_MEAN = 2.0  # SDs that the mean of all pairs must exceed
_MIN_RATE = 1e-6  # smallest divisor


def both_missing(
    counts: Floats, std: float, missing_counts: Sequence[tuple[float, float]], n_rows: float
) -> tuple[float, float]:
    """Estimate the number of rows in which two attributes are both missing.

    Parameters
    ----------
    counts : ndarray of float
        Released counts by the levels of both attributes. The last level is "missing".
    std : float
        Standard deviation of the noise of each count, in rows.
    missing_counts : sequence of (float, float)
        For each attribute, the number of rows in which it is missing, and its noise.
    n_rows : float
        Number of rows.

    Returns
    -------
    (float, float)
        The number of rows, and the standard deviation of its noise.
    """
    edges = [[0, n - 1] for n in counts.shape]
    quarters = np.add.reduceat(np.add.reduceat(counts, edges[0], 0), edges[1], 1).ravel()
    released = np.append(quarters - [n_rows, 0, 0, 0], [count for count, _ in missing_counts])
    weights, error = _weights_of_both(
        (*counts.shape,), float(std), tuple(float(noise) for _, noise in missing_counts)
    )
    return float(weights @ released), error


@lru_cache(maxsize=5000)  # tables of one release have few different noises, drawn a hundred times
def _weights_of_both(
    shape: tuple[int, ...], std: float, missing_stds: tuple[float, ...]
) -> tuple[Floats, float]:
    """Return the weights of six released numbers in the number of rows that lack both attributes.

    The numbers are four quarters of the table and two missing counts. The weights are those of
    least squares by the precision of each number. The last result is the standard deviation.
    """
    first, second = ([n - 1, 1] for n in shape)
    cells = np.outer(first, second).ravel()  # of each quarter of the table
    noise = np.append(std * np.sqrt(cells), missing_stds)
    # Rows: neither missing, only the second, only the first, both. Then the two missing counts.
    of = np.array([[1, -1, -1], [-1, 0, 1], [-1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    weighted = of / noise[:, np.newaxis]
    spread = np.linalg.inv(weighted.T @ weighted)
    return (spread @ weighted.T)[0] / noise, float(np.sqrt(spread[0, 0]))


@dataclass(frozen=True, eq=False)
class RatesByLevel:
    """Missing rates of an attribute by observed levels of others: a part of a released marginal.

    * ``missing``: Noisy counts of rows in which the attribute is missing, one per cell of the
      others. May be negative.
    * ``rows``: Noisy counts of all rows, one per cell of the others.
    * ``std``: Standard deviation of each missing count, in rows.
    * ``observed_cells``: Number of counts with this noise in the observed part of each of ``rows``.
    * ``levels``, optional: Numbers of levels of the others, if there are several.
    """

    missing: Floats
    rows: Floats
    std: float
    observed_cells: float
    levels: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of levels of the others."""
        return self.levels or (len(self.missing),)

    @property
    def selective(self) -> bool:
        """Whether missing rates differ between levels by more than noise and sampling."""
        return self.evidence > EVIDENCE

    @cached_property  # used in every sweep
    def evidence(self) -> float:
        """Chi-squared evidence of different missing rates, in SDs above its mean."""
        levels, total = len(self.missing), float(self.missing.sum())
        if levels < 2 or total <= 3 * self.std * np.sqrt(levels):
            return 0.0
        excess, variance = self._excess
        statistic, freedom = float((np.square(excess) / variance).sum()), levels - 1
        return (statistic - freedom) / float(np.sqrt(2 * freedom))

    @property
    def selected_rows(self) -> float:
        """Number of rows whose cell is missing because rates differ by level.

        The expectation under noise and sampling alone is subtracted.
        """
        excess, variance = self._excess
        by_chance = math.sqrt(2 / math.pi) * float(np.sqrt(variance).sum())
        return max(0.0, float(np.abs(excess).sum()) - by_chance) / 2

    @property
    def _excess(self) -> tuple[Floats, Floats]:
        """Missing cells by level beyond the total rate, and their variance."""
        rate = min(1.0, max(0.0, float(self.missing.sum()) / max(float(self.rows.sum()), 1.0)))
        noise = self.std**2 * ((1 - rate) ** 2 + rate**2 * self.observed_cells)
        chance = np.maximum(self.rows, 0.0) * rate * (1 - rate)
        return self.missing - rate * self.rows, noise + chance

    @cached_property  # used in every sweep
    def rates(self) -> Floats:
        """Missing rate by level, shrunk towards the total rate.

        Empirical Bayes: the variance of the rates is the variance of the released rates beyond
        their noise (DerSimonian and Laird 1986).
        """
        rows = np.maximum(self.rows, self.std)
        total = float(np.clip(self.missing.sum() / rows.sum(), 0.0, 1.0))
        noise = self.std**2 * ((1 - total) ** 2 + total**2 * self.observed_cells)
        variance = (noise + rows * total * (1 - total)) / rows**2
        weight, off = 1 / np.maximum(variance, _MIN_RATE**2), self.missing / rows - total
        spread = variance_beyond_noise(off, weight)
        return np.asarray(np.clip(total + off * spread / (spread + variance), 0.0, 1.0))


def mean_rates(tables: Sequence[RatesByLevel]) -> RatesByLevel:
    """Return the mean of tables of attributes that are missing in one set of rows.

    Parameters
    ----------
    tables : sequence of RatesByLevel
        Tables by the levels of the same other attributes.

    Returns
    -------
    RatesByLevel
        The mean of the counts, with its smaller noise.
    """
    if len(tables) == 1:
        return tables[0]
    variances = [table.std**2 for table in tables]
    cells = [table.observed_cells for table in tables]
    return replace(
        tables[0],
        missing=np.mean([table.missing for table in tables], axis=0),
        rows=np.mean([table.rows for table in tables], axis=0),
        std=math.sqrt(sum(variances)) / len(tables),
        observed_cells=float(np.average(cells, weights=variances)),
    )


def variance_beyond_noise(off: Floats, weights: Floats) -> float:
    """Return the variance of values beyond their noise (DerSimonian and Laird 1986).

    Parameters
    ----------
    off : ndarray of float64, shape (k,)
        Distances of noisy values from their mean.
    weights : ndarray of float64, shape (k,)
        Inverse variance of the noise of each value.

    Returns
    -------
    float
        0 if noise explains the distances.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.inference.missing_rates import variance_beyond_noise
    >>> variance_beyond_noise(np.array([-3.0, 3.0]), np.ones(2))
    17.0
    """
    excess = max(0.0, float(weights @ np.square(off)) - len(off) + 1)
    freedom = float(weights.sum() - weights @ weights / weights.sum())
    return excess / max(freedom, _MIN_RATE)


def shrunk(values: Floats, stds: Floats) -> Floats:
    """Return noisy values, shrunk towards their mean.

    Values that clearly differ from the mean stay. Without evidence of a mean, all others are 0.
    Empirical Bayes: see `RatesByLevel.rates`.
    """
    mean, spread = 0.0, 0.0
    # A single precise value must not determine the mean, so its precision is limited.
    variances = np.maximum(stds, np.median(stds)) ** 2
    weight = 1 / variances
    for _ in range(2):
        mean = float(weight @ values / weight.sum())
        if not spread:
            spread = variance_beyond_noise(values - mean, weight)
        weight = 1 / (spread + variances)
    if abs(mean) < _MEAN / math.sqrt(weight.sum()):
        mean = spread = 0.0
    result = mean + (values - mean) * spread / (spread + stds**2)
    return np.asarray(np.where(np.abs(values - mean) > EVIDENCE * stds, values, result))
