"""Products with standardised numbers, which a release of all pairs tells beside its tables.

Everything here is a function of released values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from missdp.inference.heads import Pair
from missdp.inference.products import NumberMoments
from missdp.types import Clique, Floats, Ints


@dataclass(frozen=True, eq=False)
class Products:
    """Means of products with standardised numbers ``z`` over complete rows.

    Of ``z`` alone, as bins have it (0 where it is not applicable); of ``z`` of one attribute where
    another one has each of its codes; of the ``z`` of two attributes, the earlier one first.
    """

    mean: Mapping[int, float] = field(default_factory=dict)
    by_level: Mapping[Pair, Floats] = field(default_factory=dict)
    both: Mapping[Pair, float] = field(default_factory=dict)

    def on(self, codes: Callable[[int, Floats], Floats]) -> Products:
        """Return the same with other codes, given what a vector becomes on them."""
        found = {(a, c): codes(c, vector) for (a, c), vector in self.by_level.items()}
        return replace(self, by_level=found)

    def renamed(self, of: Sequence[int]) -> Products:
        """Return the same with the positions that attributes have in the table."""
        return Products(
            {of[a]: mean for a, mean in self.mean.items()},
            {(of[a], of[c]): found for (a, c), found in self.by_level.items()},
            {(of[a], of[b]): found for (a, b), found in self.both.items()},
        )

    def among(self, cliques: Sequence[Clique]) -> Products:
        """Return those of pairs that are among some sets of attributes."""
        kept = {*cliques}
        by_level = {c: told for c, told in self.by_level.items() if (min(c), max(c)) in kept}
        return replace(self, by_level=by_level)

    def plus(self, z: Mapping[int, Floats], rows: Ints, weights: Floats) -> Products:
        """Return the means that so much more of each row would make."""
        return Products(
            {a: mean + float(weights @ z[a]) for a, mean in self.mean.items()},
            {
                (a, c): found + np.bincount(rows[:, c], weights * z[a], len(found))
                for (a, c), found in self.by_level.items()
            },
            {(a, b): one + float(weights @ (z[a] * z[b])) for (a, b), one in self.both.items()},
        )


def observed(
    moments: NumberMoments, sizes: Sequence[int], of: Sequence[int], seen: Mapping[Clique, float]
) -> Products:
    """Return products with observed values taken for all; ``seen`` has shares of such rows."""

    def share(a: int, b: int) -> float:
        return seen[min(of[a], of[b]), max(of[a], of[b])]

    return Products(
        {a: mean / seen[of[a],] for a, (mean, _) in moments.means.items()},
        {
            (a, c): found[: sizes[c]] / share(a, c)
            for (a, c), (found, _) in moments.by_level.items()
        },
        {(a, b): product / share(a, b) for (a, b), (product, _) in moments.both.items()},
    ).renamed(of)


def noisy(moments: NumberMoments, rng: np.random.Generator) -> NumberMoments:
    """Return moments with other noise."""

    def again(found: Floats | float, std: Floats | float) -> Floats:
        return np.asarray(found + std * rng.normal(size=np.shape(found)))

    by_level = {c: (again(*told), told[1]) for c, told in moments.by_level.items()}
    both = {c: (float(again(*told)), told[1]) for c, told in moments.both.items()}
    return replace(moments, by_level=by_level, both=both)


def about(moments: NumberMoments, of: list[int]) -> NumberMoments:
    """Return the moments of some attributes, by their positions among these."""
    place = {a: i for i, a in enumerate(of)}

    def alone(known: Mapping[int, Any]) -> dict[int, Any]:
        return {place[a]: told for a, told in known.items() if a in place}

    def kept(pairs: Mapping[Pair, Any]) -> dict[Pair, Any]:
        among = {(a, c): told for (a, c), told in pairs.items() if a in place and c in place}
        return {(place[a], place[c]): told for (a, c), told in among.items()}

    of_pairs = kept(moments.by_level), kept(moments.both)
    return NumberMoments(alone(moments.means), alone(moments.powers), *of_pairs)
