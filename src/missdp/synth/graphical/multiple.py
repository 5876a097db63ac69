"""Several tables that differ as much as the released model is uncertain: a parametric bootstrap.

Tables drawn from one fitted model agree with each other far better than with the truth: they know
nothing of the noise, of the sample, or of the holes behind the model.  Here each table gets a
model of its own: the private table is simulated (rows, holes), the same marginals are counted in
it, noise of the released size is added, and the model is fitted again.  Everything is a function
of released values, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.synth.graphical.estimate import Estimate
from missdp.synth.graphical.junction import Clique
from missdp.synth.graphical.levels import Levels
from missdp.synth.graphical.model import GraphicalModel

__all__ = ["Recipe"]

Codes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a model was learned; public parameters and released values.

    Parameters
    ----------
    n_rows : float
        Released number of rows behind the marginals.
    first_sigma : float
        Noise of each one-way marginal.
    sigmas : mapping of Clique to float
        Noise of each larger marginal.
    extended : list of bool
        Attributes counted with a level for missing.
    partial : bool
        Whether marginals counted only the rows observed on them.
    shrink, ridge, model_rows
        See :class:`~missdp.synth.graphical.estimate.Estimate`.
    """

    n_rows: float
    first_sigma: float
    sigmas: Mapping[Clique, float]
    extended: list[bool]
    partial: bool
    shrink: float
    ridge: float
    model_rows: int

    def repeat(self, model: GraphicalModel, rng: np.random.Generator) -> GraphicalModel:
        """Simulate a table from ``model``, release it again, and fit a model to that."""
        n = max(1, round(self.n_rows))
        rows = model.law.sample(n, rng, draws="independent")
        holes = model.masks.draw(rows, rng)
        codes = np.stack([lv.split(rows[:, v], rng) for v, lv in enumerate(model.levels)], axis=1)
        ones = [self._one(codes[:, v], holes[:, v], v, model, rng) for v in range(codes.shape[1])]
        estimate = Estimate(
            ones,
            std=self.first_sigma,
            extended=self.extended,
            n_rows=self.n_rows if self.partial else None,
            partial=self.partial,
            rng=rng,
            shrink=self.shrink,
            ridge=self.ridge,
            model_rows=self.model_rows,
            zeros=model.zeros,
        )
        for clique, sigma in self.sigmas.items():
            counts = self._counts(clique, codes, holes, estimate.levels)
            estimate.add(clique, counts + rng.normal(0, sigma, counts.shape), sigma)
        estimate.finish()
        return GraphicalModel(
            tuple(estimate.levels), estimate.parameters, estimate.masks, model.zeros
        )

    def _one(
        self,
        codes: Codes,
        hole: NDArray[np.bool_],
        v: int,
        model: GraphicalModel,
        rng: np.random.Generator,
    ) -> Codes:
        size = len(model.levels[v].groups)
        counts = np.bincount(np.where(hole, size, codes), minlength=size + 1)
        counts = counts[: size + self.extended[v]]
        return np.rint(counts + rng.normal(0, self.first_sigma, len(counts))).astype(np.int64)

    def _counts(
        self, clique: Clique, codes: Codes, holes: NDArray[np.bool_], levels: list[Levels]
    ) -> NDArray[np.float64]:
        shape = [levels[v].n_groups + self.extended[v] for v in clique]
        merged = [
            np.where(holes[:, v], levels[v].n_groups, levels[v].groups[codes[:, v]]) for v in clique
        ]
        seen = np.ones(len(codes), dtype=bool)
        for v in clique:
            seen &= ~holes[:, v] | self.extended[v]
        flat = np.ravel_multi_index(tuple(column[seen] for column in merged), shape)
        return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape).astype(np.float64)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {**vars(self), "sigmas": [[list(c), s] for c, s in self.sigmas.items()]}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Recipe:
        """Inverse of :meth:`to_json`."""
        return cls(**{**stored, "sigmas": {tuple(c): s for c, s in stored["sigmas"]}})
