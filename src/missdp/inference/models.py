"""Models as they are released: graphical, and of all pairs; released values and public facts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError
from missdp.inference.beliefs import Calibrated, Parameters, log_linear
from missdp.inference.completion import Completed
from missdp.inference.heads import Heads
from missdp.inference.junction import Clique
from missdp.inference.masks import MaskModel, RowModel
from missdp.inference.model import (
    Draws,
    Levels,
    Zeros,
    cell_index,
    finite,
    merge_zeros,
    sample_tree,
    shaped,
    tree_steps,
)
from missdp.inference.raking import draw_weighted, rake, sample_raked, scaled_to, shrunk
from missdp.record import Record
from missdp.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class GraphicalModel(Record):
    """A log-linear model of complete rows, with a model of their holes; released values only.

    * ``levels``: How rare levels were merged.
    * ``parameters``: Log-linear parameters of the complete-data law on merged levels.
    * ``masks``: Which cells go missing, given the complete row.
    * ``zeros``: Impossible cells on the declared levels (public); each group of merged levels is
      possible or impossible as a whole.
    * ``tables``: Tables on merged levels that rows are raked to, because the parameters do not hold
      them.
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
            and self.masks.fits(sizes)
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

    def rows(self, n: int, rng: np.random.Generator, *, draws: Draws = "even") -> Ints:
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
        return self.masks.coded(self.levels, rows, rng, keep_holes=keep_holes)


@dataclass(frozen=True, kw_only=True)
class Recipe(Record):
    """How a model was learned; public parameters and released values.

    * ``n_rows``: Released number of rows behind the marginals.
    * ``first_sigma``: Noise of each one-way marginal.
    * ``sigmas``: Noise of each larger marginal that the model was fitted to.
    * ``extended``: Attributes counted with a level for missing.
    * ``partial``: Whether marginals counted only the rows observed on them.
    * ``shrink``, ``ridge``, ``model_rows``, ``always``: See
      :class:`~missdp.inference.estimate.Estimate`.
    * ``pairs``: Noise of each marginal that rows are raked to.
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


_SWEEPS = 4
_POOL = 100_000  # rows that are weighted together, at most
_FEWEST = 20_000  # at least
_ROUNDS = 1000  # of swaps, which all pools share: what is left of rounding matters less there
_LEAST_SHARE = 0.5  # effective rows, of those that are weighted
_LEAST_CELL = 1e-9
_LEAST_DEGREES = 0.01  # an attribute of one level has none


@dataclass(frozen=True, eq=False)
class PairModel(RowModel):
    """A law of complete rows in which all pairs are right, and of their holes; released values.

    * ``levels``: How the levels of each attribute are grouped.
    * ``law``: Draws rows, on groups of levels.
    * ``tables``: What the rows drawn are raked to.
    * ``masks``: What goes missing.
    * ``n_rows``: Number of rows that were counted.
    """

    levels: tuple[Levels, ...]
    law: Heads
    tables: dict[Clique, Floats]
    masks: MaskModel
    n_rows: float

    @classmethod
    def _read(cls, data: Mapping[str, Any]) -> Self:
        """Read also what was written when there were other ways to draw rows than by heads."""
        if data.get("base", "heads") != "heads":
            raise DataError(
                "rows of this model are drawn along a spanning tree (base='tree'), which is gone: "
                "fit AllPairs again, or sample the model with missdp 0.2"
            )
        return super()._read({name: value for name, value in data.items() if name != "base"})

    def _coheres(self) -> bool:
        sizes = [level.n_groups for level in self.levels]
        return (
            sizes == [len(margin) for margin in self.law.margins]
            and shaped(self.tables, sizes)
            and finite(self.tables.values(), least=0.0)
            and self.masks.fits(sizes)
        )

    def complete(self, n: int, rng: np.random.Generator, *, draws: Draws = "even") -> Ints:
        """Draw ``n`` complete rows on groups of levels."""
        parts = [np.zeros((0, len(self.levels)), dtype=np.int64)]
        starts = range(0, n, _POOL)
        for start in starts:
            part = min(_POOL, n - start)
            rows = self.law.sample(min(_POOL, max(_FEWEST, 4 * part)), rng)
            weights = rake(rows, self.tables, sweeps=_SWEEPS, least_share=_LEAST_SHARE)
            chosen = draw_weighted(
                rows, self.tables, weights, part, rng, draws=draws, rounds=_ROUNDS // len(starts)
            )
            parts.append(rows[chosen])
        return np.concatenate(parts)

    def sample(
        self, n: int, rng: np.random.Generator, *, keep_holes: bool, draws: Draws = "even"
    ) -> list[NDArray[np.int64]]:
        """Draw ``n`` rows as one array of codes per attribute; a hole has the code ``size``."""
        rows = self.complete(n, rng, draws=draws)
        return self.masks.coded(self.levels, rows, rng, keep_holes=keep_holes)


def targets(known: Completed, rows: Ints) -> dict[Clique, Floats]:
    """Return the tables that rows are to be raked to: noisy ones, leaned on those of a model.

    * ``rows``: Rows of the model.
    """
    found: dict[Clique, Floats] = {}
    sizes = [len(margin) for margin in known.margins]
    columns = np.ascontiguousarray(rows.T)
    for a, b in combinations(range(len(sizes)), 2):
        if (a, b) not in known.pairs:
            continue
        shape, ends = (sizes[a], sizes[b]), (known.margins[a], known.margins[b])
        product = np.outer(*ends)
        cells = cell_index(columns, (a, b), shape, len(rows))
        told = np.bincount(cells, minlength=product.size).reshape(shape) / max(1, len(rows))
        model = scaled_to(np.maximum(told, _LEAST_CELL * (told > 0)), ends)
        degrees = max(_LEAST_DEGREES, (1 - 1 / shape[0]) * (1 - 1 / shape[1]))
        noise = np.sqrt(known.variances[a, b] / degrees)
        found[a, b] = shrunk(known.pairs[a, b] + product, model, noise, margins=ends)
    return found
