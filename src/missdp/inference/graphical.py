"""The released graphical model, and others that differ from it by as much as it is uncertain.

`GraphicalModel` holds released values only.

`Recipe` says how a model was learned, and draws others like it by a parametric bootstrap: several
models that differ as much as the released one is uncertain. Tables drawn from one fitted model
agree with each other far better than with the truth: they know nothing of the noise, of the sample,
or of the holes behind the model. With a recipe each table gets a model of its own: the private
table is simulated (rows, holes), the same marginals are counted in it, noise of the released size
is added, and the model is fitted again. Everything is a function of released values, so it costs no
privacy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from missdp.inference.beliefs import Calibrated, Parameters, log_linear
from missdp.inference.estimate import Estimate
from missdp.inference.junction import Clique
from missdp.inference.masks import MaskModel, masks_fit
from missdp.inference.model import (
    Codes,
    Draws,
    Levels,
    Zeros,
    finite,
    merge_zeros,
    sample_tree,
    shaped,
    split_rows,
    tree_steps,
)
from missdp.inference.raking import sample_raked
from missdp.record import Record


@dataclass(frozen=True, eq=False)
class GraphicalModel(Record):
    """A log-linear model of complete rows, with a model of their holes; released values only.

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
    tables : mapping of Clique to ndarray
        Tables on merged levels that rows are raked to, because the parameters do not hold them.
    """

    levels: tuple[Levels, ...]
    parameters: Parameters
    masks: MaskModel
    zeros: Zeros = field(default_factory=dict)
    tables: Parameters = field(default_factory=dict)

    def _coheres(self) -> bool:
        sizes = [level.n_groups for level in self.levels]
        return (
            shaped(self.parameters, sizes)
            and shaped(self.tables, sizes)
            and shaped(self.zeros, [len(level.groups) for level in self.levels])
            and finite(self.parameters.values())
            and finite(self.tables.values(), least=0.0)
            and masks_fit(self.masks, sizes)
        )

    @cached_property
    def law(self) -> Calibrated:
        """The complete-data law on merged levels, before rows are raked."""
        sizes = [level.n_groups for level in self.levels]
        return log_linear(sizes, self.parameters, merge_zeros(self.zeros, self.levels))[0]

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """Marginal of the complete-data law on the declared levels, at sorted positions.

        Of the parameters alone: what rows are raked to is in ``tables``.
        """
        table = self.law.marginal(clique)
        for axis, v in enumerate(clique):
            level = self.levels[v]
            along = [-1 if i == axis else 1 for i in range(len(clique))]
            table = table.take(level.groups, axis=axis) * level.shares.reshape(along)
        return table

    def rows(self, n: int, rng: np.random.Generator, *, draws: Draws = "even") -> Codes:
        """Draw ``n`` complete rows on merged levels, one column per attribute."""
        if not self.tables:
            return sample_tree(self.law, n, rng, draws=draws)
        codes = sample_raked(tree_steps(self.law), self.tables, n, rng, draws=draws)
        return np.stack([codes[v] for v in range(len(self.levels))]).T

    def sample(
        self, n: int, rng: np.random.Generator, *, keep_holes: bool, draws: Draws = "even"
    ) -> list[NDArray[np.int64]]:
        """Draw ``n`` rows as one array of codes per attribute; a hole has the code ``size``."""
        rows = self.rows(n, rng, draws=draws)
        holes = self.masks.draw(rows, rng) if keep_holes else np.zeros(rows.shape, dtype=bool)
        return split_rows(self.levels, rows, holes, rng)


@dataclass(frozen=True, kw_only=True)
class Recipe(Record):
    """How a model was learned; public parameters and released values.

    Parameters
    ----------
    n_rows : float
        Released number of rows behind the marginals.
    first_sigma : float
        Noise of each one-way marginal.
    sigmas : mapping of Clique to float
        Noise of each larger marginal that the model was fitted to.
    extended : tuple of bool
        Attributes counted with a level for missing.
    partial : bool
        Whether marginals counted only the rows observed on them.
    shrink, ridge, model_rows, always
        See :class:`~missdp.inference.estimate.Estimate`.
    pairs : mapping of Clique to float
        Noise of each marginal that rows are raked to.
    """

    n_rows: float
    first_sigma: float
    sigmas: Mapping[Clique, float]
    extended: tuple[bool, ...]
    partial: bool
    shrink: float
    ridge: float
    model_rows: int
    always: dict[int, int] = field(default_factory=dict)
    pairs: Mapping[Clique, float] = field(default_factory=dict)

    def _coheres(self) -> bool:
        named = {v for clique in (*self.sigmas, *self.pairs) for v in clique} | {*self.always}
        noise = (self.first_sigma, *self.sigmas.values(), *self.pairs.values())
        return named <= {*range(len(self.extended))} and all(0 <= s < math.inf for s in noise)

    def repeat(self, model: GraphicalModel, rng: np.random.Generator) -> GraphicalModel:
        """Simulate a table from ``model``, release it again, and fit a model to that."""
        n = max(1, round(self.n_rows))
        rows = model.rows(n, rng, draws="independent")
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
            always=self.always,
            told=model.masks.told,
        )
        for clique, sigma in self.sigmas.items():
            counts = self._counts(clique, codes, holes, estimate.levels)
            estimate.add(clique, counts + rng.normal(0, sigma, counts.shape), sigma)
        for clique, sigma in self.pairs.items():
            counts = self._counts(clique, codes, holes, estimate.levels)
            estimate.note(clique, counts + rng.normal(0, sigma, counts.shape), sigma)
        estimate.finish()
        return GraphicalModel(
            tuple(estimate.levels),
            estimate.parameters,
            estimate.masks,
            model.zeros,
            estimate.tables(),
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
