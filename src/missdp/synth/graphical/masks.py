"""A model of which cells are missing: one logistic regression per attribute, fitted to marginals.

    logit P(a missing | x) = α_a + Σ_b β_ab(x_b),   b ≠ a,

independent over attributes given the complete row ``x``.  Given the complete-data model, the
sufficient statistics are small released tables: how often ``a`` is missing (α), and how often it is
missing at each observed level of ``b`` (β; a strip of the extended marginal of ``{a, b}``).  No
table means β = 0: missing completely at random.  This is what makes the strategy ``"joint"``
correct when values are missing at random (Rubin 1976): observed tables are divided by their
probability of being observed, as in inverse probability weighting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from missdp.synth.storage import array_from_json, array_to_json

__all__ = ["MaskModel", "Strip"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

_LEAST_RATE = 1e-6
_STEP = 1.0  # largest move of a parameter in one sweep


@dataclass(frozen=True, eq=False)
class Strip:
    """Released counts of rows where ``a`` is missing, by observed level of ``b``.

    Parameters
    ----------
    counts : ndarray
        One per level of ``b``; may be negative.
    std : float
        Standard deviation of the noise of each count.
    """

    counts: Floats
    std: float


@dataclass(eq=False)
class MaskModel:
    """Probability that each cell is missing, given the complete row.

    Parameters
    ----------
    rates : ndarray, shape (d,)
        Released missing rates; 0 where an attribute is never missing.
    """

    rates: Floats
    intercepts: Floats = field(init=False)
    slopes: dict[tuple[int, int], Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.intercepts = logit(np.clip(self.rates, _LEAST_RATE, 1 - _LEAST_RATE))

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which attributes have holes at all."""
        return np.asarray(self.rates > 0)

    def missing(self, rows: Codes) -> Floats:
        """Probability that each cell of complete rows is missing, shape ``(n, d)``."""
        logits = np.empty(rows.shape, order="F")
        logits[:] = self.intercepts
        for (a, b), slope in self.slopes.items():
            logits[:, a] += slope[rows[:, b]]
        out: Floats = np.where(self.present, expit(logits), 0.0)
        return out

    def draw(self, rows: Codes, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Draw masks for complete rows; True is missing."""
        return np.asarray(rng.random(rows.shape) < self.missing(rows))

    def learn(
        self,
        rows: Codes,
        n_rows: float,
        strips: Mapping[tuple[int, int], Strip],
        *,
        ridge: float,
        sweeps: int,
    ) -> None:
        """Move the parameters towards the released tables, given rows of the complete-data model.

        Each sweep takes a damped, clipped Newton step on every parameter of the penalised
        likelihood; the penalty ``ridge · std`` lets a slope of one leave ``ridge`` standard
        deviations unexplained, so that noise alone does not make data look selectively missing.

        Parameters
        ----------
        rows : ndarray of int64, shape (n, d)
            Synthetic rows.
        n_rows : float
            Released number of private rows.
        strips : mapping of (a, b) to Strip
        ridge : float
            Above 0.
        sweeps : int
        """
        per_row = n_rows / max(1, len(rows))
        rows = np.asfortranarray(rows)  # columns are read one by one
        for _ in range(sweeps):
            missing = self.missing(rows)
            self._match_rates(missing)
            for (a, b), strip in strips.items():
                if self.present[a]:
                    damping = 0.6 if sum(k == a for k, _ in strips) <= 2 else 0.4
                    step = self._slope_step(a, b, strip, rows, missing, per_row, ridge)
                    self.slopes[a, b] = self.slopes[a, b] + damping * step

    def _match_rates(self, missing: Floats) -> None:
        gap = self.rates - missing.mean(axis=0)
        curvature = np.maximum((missing * (1 - missing)).mean(axis=0), 1e-3)
        self.intercepts = self.intercepts + np.where(
            self.present, np.clip(gap / curvature, -_STEP, _STEP), 0.0
        )

    def _slope_step(
        self,
        a: int,
        b: int,
        strip: Strip,
        rows: Codes,
        missing: Floats,
        per_row: float,
        ridge: float,
    ) -> Floats:
        levels = len(strip.counts)
        slope = self.slopes.setdefault((a, b), np.zeros(levels))
        seen = (1 - missing[:, b]) * per_row
        p = missing[:, a]
        expected = np.bincount(rows[:, b], weights=seen * p, minlength=levels)
        curvature = np.bincount(rows[:, b], weights=seen * p * (1 - p), minlength=levels)
        total = float(strip.counts.sum())
        # Only the shape of the strip is used: its total also carries how often holes coincide.
        if total <= 3 * strip.std * np.sqrt(levels):
            return np.zeros(levels)
        aim = strip.counts * (expected.sum() / total)
        penalty = ridge * strip.std
        step: Floats = (aim - expected - penalty * slope) / (curvature + penalty + 1e-9)
        return np.clip(step, -_STEP, _STEP)

    def to_json(self) -> dict[str, Any]:
        """Return released values as JSON."""
        return {
            "rates": array_to_json(self.rates),
            "intercepts": array_to_json(self.intercepts),
            "slopes": [[a, b, array_to_json(s)] for (a, b), s in self.slopes.items()],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> MaskModel:
        """Inverse of :meth:`to_json`."""
        model = cls(array_from_json(stored["rates"]))
        model.intercepts = array_from_json(stored["intercepts"])
        model.slopes = {(int(a), int(b)): array_from_json(s) for a, b, s in stored["slopes"]}
        return model
