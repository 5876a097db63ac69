"""How well a synthetic table with holes reproduces where the holes are."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.evaluate.inputs import align
from missdp.missingness import missing_mask
from missdp.schema import Schema

__all__ = ["MissingFidelity", "missing_fidelity"]


@dataclass(frozen=True)
class MissingFidelity:
    """Missingness of two tables side by side. Private: made from the truth without noise.

    Parameters
    ----------
    truth_rates, synthetic_rates : dict of str to float
        Share of missing cells per attribute (0 for a table without rows).
    pairs : dict of tuple of str to float
        Per pair of attributes, the total variation distance of its four mask patterns.
    patterns : float
        Total variation distance of the whole-row patterns.

    Examples
    --------
    >>> found = MissingFidelity({"a": 0.2}, {"a": 0.3}, {}, 0.1)
    >>> round(found.max_rate_difference, 3)
    0.1
    """

    truth_rates: dict[str, float]
    synthetic_rates: dict[str, float]
    pairs: dict[tuple[str, str], float]
    patterns: float

    @property
    def rate_differences(self) -> dict[str, float]:
        """Synthetic minus true missing rate, per attribute."""
        return {a: self.synthetic_rates[a] - rate for a, rate in self.truth_rates.items()}

    @property
    def mean_rate_difference(self) -> float:
        """Mean absolute difference of the missing rates."""
        return float(np.mean(np.abs(list(self.rate_differences.values()))))

    @property
    def max_rate_difference(self) -> float:
        """Largest absolute difference of the missing rates."""
        return float(np.max(np.abs(list(self.rate_differences.values()))))

    @property
    def mean_pair_distance(self) -> float:
        """Mean distance of the pairwise mask patterns (0 if there is one attribute)."""
        return float(np.mean(list(self.pairs.values()))) if self.pairs else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "truth_rates": dict(self.truth_rates),
            "synthetic_rates": dict(self.synthetic_rates),
            "mean_rate_difference": self.mean_rate_difference,
            "max_rate_difference": self.max_rate_difference,
            "mean_pair_distance": self.mean_pair_distance,
            "pairs": [{"clique": list(p), "distance": d} for p, d in self.pairs.items()],
            "patterns": self.patterns,
        }

    def __str__(self) -> str:
        width = max(map(len, self.truth_rates))
        lines = [
            f"missing rates: mean difference {self.mean_rate_difference:.4f}, "
            f"max {self.max_rate_difference:.4f}; mask patterns, total variation distance: "
            f"pairs {self.mean_pair_distance:.4f}, whole rows {self.patterns:.4f}"
        ]
        for name, rate in self.truth_rates.items():
            lines.append(f"  {name:<{width}}  {rate:.4f} → {self.synthetic_rates[name]:.4f}")
        return "\n".join(lines)


def missing_fidelity(
    truth: Any, synthetic: Any, *, schema: Schema | None = None
) -> MissingFidelity:
    """Compare where cells are missing in two tables.

    Curator only: the result is exact, not private. Do not publish it without a mechanism.

    Parameters
    ----------
    truth, synthetic : Table, or any table or file that Table.read takes
        The private table with its holes, and a synthetic one that kept them.
    schema : Schema, optional
        The declared domain; needed if neither is a Table.

    Returns
    -------
    MissingFidelity
        Rates per attribute and distances of the mask patterns.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema
    >>> from missdp.evaluate import missing_fidelity
    >>> schema = Schema((Categorical(name="a", levels=("x", "y"), nullable=True),))
    >>> one, two = pd.DataFrame({"a": ["x", None]}), pd.DataFrame({"a": ["x", "y"]})
    >>> missing_fidelity(one, two, schema=schema).rate_differences
    {'a': -0.5}
    """
    real, made = align(truth, synthetic, schema)
    names = real.schema.names
    one, two = missing_mask(real), missing_mask(made)
    return MissingFidelity(
        truth_rates=_rates(one, names),
        synthetic_rates=_rates(two, names),
        pairs=_pair_distances(one, two, names),
        patterns=_pattern_distance(one, two),
    )


def _rates(mask: NDArray[np.bool_], names: tuple[str, ...]) -> dict[str, float]:
    rates = mask.mean(axis=0) if len(mask) else np.zeros(len(names))
    return {name: float(rate) for name, rate in zip(names, rates, strict=True)}


def _pair_distances(
    one: NDArray[np.bool_], two: NDArray[np.bool_], names: tuple[str, ...]
) -> dict[tuple[str, str], float]:
    if not len(one) or not len(two):
        distance = float(len(one) != len(two))
        return dict.fromkeys(itertools.combinations(names, 2), distance)
    gap = np.abs(_pair_shares(one) - _pair_shares(two)).sum(axis=0) / 2
    return {
        (names[i], names[j]): float(gap[i, j])
        for i, j in itertools.combinations(range(len(names)), 2)
    }


def _pair_shares(mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Shares of the patterns both, first only, second only, neither; shape ``(4, d, d)``."""
    holes = mask.astype(np.float64)
    both = holes.T @ holes / len(mask)
    rate = holes.mean(axis=0)
    first, second = rate[:, None] - both, rate[None, :] - both
    return np.stack([both, first, second, 1.0 - both - first - second])


def _pattern_distance(one: NDArray[np.bool_], two: NDArray[np.bool_]) -> float:
    if not len(one) or not len(two):
        return float(len(one) != len(two))
    _, index = np.unique(np.vstack([one, two]), axis=0, return_inverse=True)
    index = index.reshape(-1)
    size = int(index.max()) + 1
    p = np.bincount(index[: len(one)], minlength=size) / len(one)
    q = np.bincount(index[len(one) :], minlength=size) / len(two)
    return float(0.5 * np.abs(p - q).sum())
