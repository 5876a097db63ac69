"""Scaling columns to unit standard deviation, or to [0, 1]."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Condition
from missdp.errors import UnprovenError
from missdp.mechanisms.parameters import number, whole
from missdp.mechanisms.row_domain import RowDomain
from missdp.mechanisms.table_distance import TableDistance
from missdp.transforms.base import PrivateState, StableTransformer, require
from missdp.transforms.conditions import ExtremeGaps, LeastRange, LeastStandardDeviation

__all__ = ["MinMaxScaler", "StandardScaler"]

FloatArray = NDArray[np.float64]


class StandardScaler(StableTransformer):
    """Subtract each column's mean and divide by its standard deviation (divisor n).

    Parameters
    ----------
    least_std : float
        Lower bound s on the standard deviation of every column.
    below : {"assume", "floor"}, default "assume"
        What ``least_std`` means. ``"assume"``: a condition of the guarantee. ``"floor"``: no
        condition; smaller standard deviations are raised to it, so the bound holds for every
        table, for a slightly larger constant.

    Notes
    -----
    Write R for the radius, h for replaced rows and tau for the summed movement. Means differ by
    at most (2 R h + tau) / n in norm. For one column, v' - v is at most the mean change of
    (x - mu)^2, because subtracting (mu' - mu)^2 only lowers it (and the same with the tables
    exchanged); each replaced row contributes at most w^2 and each moved row 2 w d, so
    |v - v'| <= (h w^2 + 2 w tau) / n, where w bounds |x_j - mu_j|. With |1/sigma - 1/sigma'| <=
    |v - v'| / (2 s^3), a row x moves by

        |x - mu| (h w^2 + 2 w tau) / (2 n s^3) + (2 R h + tau) / (n s).

    ``"assume"``: sigma^2 <= (R - mu)(R + mu) (Bhatia & Davis 2000) gives w = R + sqrt(R^2 - s^2),
    and |mu|^2 <= R^2 - d s^2 gives |x - mu| <= R + sqrt(R^2 - d s^2). ``"floor"``: raising the
    variance to s^2 is a contraction, and w = |x - mu| = 2 R. Hu et al., Proposition 6, use 2 / n
    for the change of a variance on the unit ball; it can be 4 / n, so its constant 2 / s^3 is too
    small (a column of mostly -1 with one -1 replaced by 1 exceeds it); ours tends to 4 / s^3.

    Examples
    --------
    >>> from missdp.transforms import NEIGHBOURS, RowDomain
    >>> step = StandardScaler(least_std=0.5)
    >>> after = step.stability(NEIGHBOURS, RowDomain(rows=1000, columns=1))
    >>> after.moved_rows, round(after.moved_max, 4)
    (999, 0.03)
    """

    def __init__(self, *, least_std: float, below: Literal["assume", "floor"] = "assume") -> None:
        self.least_std = least_std
        self.below = below

    def conditions(self, domain: RowDomain) -> tuple[Condition, ...]:  # noqa: ARG002
        """Return the bound on standard deviations, or nothing with a floor."""
        return () if self.below == "floor" else (LeastStandardDeviation(self._least()),)

    def stability(self, distance: TableDistance, domain: RowDomain) -> TableDistance:
        """Return the bound: every other row moves."""
        n, R, s = domain.rows, domain.radius, self._least()
        width, norm = self._reach(domain)
        h, tau = distance.replaced, distance.moved_l12
        variance = min((h * width**2 + 2 * width * tau) / n, width**2)
        mean = min((2 * R * h + tau) / n, 2 * R)
        return distance.after(
            rows=n,
            lipschitz=1 / s,
            shift=norm * variance / (2 * s**3) + mean / s,
            hit=n,
            diameter=self.output_domain(domain).diameter,
        )

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return the domain of centred rows, stretched by at most 1 / least_std."""
        self._require_complete(domain)
        return replace(domain, radius=self._reach(domain)[1] / self._least())

    def failure_margin(
        self, values: FloatArray, incoming: TableDistance, domain: RowDomain
    ) -> float:
        """Return how many replacements the smallest variance is from the bound.

        A variance moves by at most (4 R^2 h + 4 R tau) / n (the argument above with w = 2 R).
        """
        if self.below == "floor":
            return math.inf
        least = float(values.var(axis=0).min())
        R, n = domain.radius, domain.rows
        step = (4 * R**2 * incoming.replaced + 4 * R * incoming.moved_l12) / n
        return max(0.0, (least - self._least() ** 2) / max(step, 1e-300))

    def _reach(self, domain: RowDomain) -> tuple[float, float]:
        """Bounds on |x_j - mu_j| and |x - mu|."""
        R, s = domain.radius, self._least()
        require(self.below in ("assume", "floor"), "below must be 'assume' or 'floor'")
        if self.below == "floor":
            return 2 * R, 2 * R
        spare = R**2 - domain.columns * s**2
        require(spare >= 0, "no table in this domain has so large a least_std in every column")
        return R + math.sqrt(R**2 - s**2), R + math.sqrt(spare)

    def _learn(self, table: FloatArray) -> Mapping[str, Any]:
        # Off the collection a column could be constant; on it the floor changes nothing.
        spread = np.maximum(table.std(axis=0), self._least())
        return {"mean": table.mean(axis=0), "spread": spread}

    def _apply(self, table: FloatArray, state: PrivateState) -> FloatArray:
        return np.asarray((table - state["mean"]) / state["spread"])

    def _least(self) -> float:
        return number("least_std", self.least_std, least=1e-100)


class MinMaxScaler(StableTransformer):
    """Scale each column to [0, 1] by its minimum and maximum.

    Parameters
    ----------
    least_range : float
        Condition: maximum and minimum of every column differ by at least this (r).
    extreme_gap : float
        Condition: consecutive values at either end of a column differ by at most this (g).
    extreme_ranks : int, default 1
        How many of the outermost gaps ``extreme_gap`` covers; at least the number of rows that
        may be replaced before this step.

    Notes
    -----
    Let m be a column's minimum without the replaced rows. In either table the minimum lies in
    [m - h g, m], because the condition bounds its h outermost gaps; moved rows move m by at most
    Delta. So minimum and maximum move by at most delta = h g + Delta. For y = (x - a) / (b - a)
    in [0, 1], ``y' - y = ((1 - y)(a - a') + y (b - b')) / (b' - a')``, at most delta / r.

    Examples
    --------
    >>> from missdp.transforms import NEIGHBOURS, RowDomain
    >>> step = MinMaxScaler(least_range=1.0, extreme_gap=0.01)
    >>> round(step.stability(NEIGHBOURS, RowDomain(rows=100, columns=4)).moved_max, 6)
    0.02
    """

    def __init__(self, *, least_range: float, extreme_gap: float, extreme_ranks: int = 1) -> None:
        self.least_range = least_range
        self.extreme_gap = extreme_gap
        self.extreme_ranks = extreme_ranks

    def conditions(self, domain: RowDomain) -> tuple[Condition, ...]:  # noqa: ARG002
        """Return the bounds on ranges and on the gaps at the extremes."""
        return (LeastRange(self._range()), ExtremeGaps(self._gap(), self._ranks()))

    def stability(self, distance: TableDistance, domain: RowDomain) -> TableDistance:
        """Return the bound: every other row moves."""
        if distance.replaced > self._ranks():
            raise UnprovenError(
                f"extreme_gap covers {self.extreme_ranks} gaps, but {distance.replaced} rows may "
                "be replaced before min-max scaling; declare more extreme_ranks"
            )
        r, delta = self._range(), distance.replaced * self._gap() + distance.moved_max
        return distance.after(
            rows=domain.rows,
            lipschitz=1 / r,
            shift=math.sqrt(domain.columns) * delta / r,
            hit=domain.rows,
            diameter=math.sqrt(domain.columns),
        )

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return the domain of the unit cube."""
        self._require_complete(domain)
        self.conditions(domain)  # Checks the parameters.
        return replace(domain, radius=math.sqrt(domain.columns))

    def _range(self) -> float:
        return number("least_range", self.least_range, least=1e-100)

    def _gap(self) -> float:
        return number("extreme_gap", self.extreme_gap)

    def _ranks(self) -> int:
        return whole("extreme_ranks", self.extreme_ranks)

    def _learn(self, table: FloatArray) -> Mapping[str, Any]:
        low = table.min(axis=0)
        return {"low": low, "range": np.maximum(np.ptp(table, axis=0), self._range())}

    def _apply(self, table: FloatArray, state: PrivateState) -> FloatArray:
        return np.asarray(np.clip((table - state["low"]) / state["range"], 0.0, 1.0))
