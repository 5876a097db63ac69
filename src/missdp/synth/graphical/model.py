"""The released model: complete-data law, mask law, and how to sample both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.synth.graphical.beliefs import Calibrated, Draws
from missdp.synth.graphical.entropy import Parameters, log_linear
from missdp.synth.graphical.junction import Clique
from missdp.synth.graphical.levels import Levels
from missdp.synth.graphical.masks import MaskModel
from missdp.synth.graphical.levels import Zeros, merge_zeros
from missdp.checksum import array_from_json, array_to_json

__all__ = ["GraphicalModel"]


@dataclass(frozen=True, eq=False)
class GraphicalModel:
    """Released values only.

    Parameters
    ----------
    levels : tuple of Levels
        How rare levels were merged.
    parameters : mapping of Clique to ndarray
        Log-linear parameters of the complete-data law on merged levels.
    masks : MaskModel
        Which cells go missing, given the complete row.
    zeros : mapping of Clique to ndarray of bool
        Impossible cells on the declared levels (public); each group of merged levels is possible
        or impossible as a whole.
    """

    levels: tuple[Levels, ...]
    parameters: Parameters
    masks: MaskModel
    zeros: Zeros = field(default_factory=dict)

    @cached_property
    def law(self) -> Calibrated:
        """The complete-data law on merged levels."""
        sizes = [level.n_groups for level in self.levels]
        return log_linear(sizes, self.parameters, merge_zeros(self.zeros, self.levels))[0]

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """Marginal of the complete-data law on the declared levels, at sorted positions."""
        table = self.law.marginal(clique)
        for axis, v in enumerate(clique):
            level = self.levels[v]
            along = [-1 if i == axis else 1 for i in range(len(clique))]
            table = table.take(level.groups, axis=axis) * level.shares.reshape(along)
        return table

    def sample(
        self, n: int, rng: np.random.Generator, *, keep_holes: bool, draws: Draws = "even"
    ) -> list[NDArray[np.int64]]:
        """Draw ``n`` rows as one array of codes per attribute; a hole has the code ``size``."""
        rows = self.law.sample(n, rng, draws=draws)
        holes = self.masks.draw(rows, rng) if keep_holes else np.zeros(rows.shape, dtype=bool)
        out = []
        for v, level in enumerate(self.levels):
            codes = level.split(rows[:, v], rng)
            out.append(np.where(holes[:, v], len(level.groups), codes))
        return out

    def to_json(self) -> dict[str, Any]:
        """Return JSON values, exact to the last bit."""
        return {
            "groups": [level.groups.tolist() for level in self.levels],
            "shares": [array_to_json(level.shares) for level in self.levels],
            "parameters": [[list(c), array_to_json(t)] for c, t in self.parameters.items()],
            "masks": self.masks.to_json(),
            "zeros": [[list(c), table.tolist()] for c, table in self.zeros.items()],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> GraphicalModel:
        """Inverse of :meth:`to_json`."""
        levels = tuple(
            Levels(np.asarray(g, dtype=np.int64), array_from_json(s))
            for g, s in zip(stored["groups"], stored["shares"], strict=True)
        )
        parameters = {tuple(c): array_from_json(t) for c, t in stored["parameters"]}
        zeros = {tuple(c): np.asarray(t, dtype=bool) for c, t in stored.get("zeros", [])}
        return cls(levels, parameters, MaskModel.from_json(stored["masks"]), zeros)
