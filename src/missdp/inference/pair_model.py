"""A model of rows that holds the tables of all pairs: regressions, raking, and holes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.inference.completion import Completed
from missdp.inference.fit_heads import fit_heads, fit_tree
from missdp.inference.heads import Heads, Pair
from missdp.inference.junction import Clique
from missdp.inference.masks import MaskModel, RowModel, masks_fit
from missdp.inference.measured import scaled_to, shrunk
from missdp.inference.model import (
    Codes,
    Levels,
    cell_index,
    finite,
    shaped,
    split_rows,
)
from missdp.inference.raking import draw_weighted, rake

__all__ = ["Base", "PairModel", "fit_law", "targets"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Base: TypeAlias = Literal["heads", "tree"]

_SWEEPS: dict[str, int] = {"heads": 4, "tree": 15}
_POOL = 100_000  # rows that are weighted together, at most
_FEWEST = 20_000  # at least
_ROUNDS = 1000  # of swaps, which all pools share: what is left of rounding matters less there
_LEAST_SHARE = {"heads": 0.5, "tree": 0.05}  # effective rows, of those that are weighted
_LEAST_CELL = 1e-9
_LEAST_DEGREES = 0.01  # an attribute of one level has none


@dataclass(frozen=True, eq=False)
class PairModel(RowModel):
    """A law of complete rows in which all pairs are right, and of their holes; released values.

    Parameters
    ----------
    levels : tuple of Levels
        How the levels of each attribute are grouped.
    law : Heads
        Draws rows, on groups of levels.
    tables : mapping of Clique to ndarray
        What the rows drawn are raked to.
    masks : MaskModel
        What goes missing.
    base : {"heads", "tree"}
        What ``law`` is.
    n_rows : float
        Number of rows that were counted.
    """

    levels: tuple[Levels, ...]
    law: Heads
    tables: dict[Clique, Floats]
    masks: MaskModel
    base: Base
    n_rows: float

    def _coheres(self) -> bool:
        sizes = [level.n_groups for level in self.levels]
        return (
            sizes == [len(margin) for margin in self.law.margins]
            and shaped(self.tables, sizes)
            and finite(self.tables.values(), least=0.0)
            and masks_fit(self.masks, sizes)
        )

    def complete(self, n: int, rng: np.random.Generator) -> Codes:
        """Draw ``n`` complete rows on groups of levels."""
        parts = [np.zeros((0, len(self.levels)), dtype=np.int64)]
        starts = range(0, n, _POOL)
        for start in starts:
            part = min(_POOL, n - start)
            rows = self.law.sample(min(_POOL, max(_FEWEST, 4 * part)), rng)
            weights = rake(rows, self.tables, sweeps=_SWEEPS[self.base], least_share=self._least)
            chosen = draw_weighted(
                rows, self.tables, weights, part, rng, rounds=_ROUNDS // len(starts)
            )
            parts.append(rows[chosen])
        return np.concatenate(parts)

    @property
    def _least(self) -> float:
        return _LEAST_SHARE[self.base]

    def sample(
        self, n: int, rng: np.random.Generator, *, keep_holes: bool
    ) -> list[NDArray[np.int64]]:
        """Draw ``n`` rows as one array of codes per attribute; a hole has the code ``size``."""
        rows = self.complete(n, rng)
        holes = self.masks.draw(rows, rng) if keep_holes else np.zeros(rows.shape, dtype=bool)
        return split_rows(self.levels, rows, holes, rng)


def fit_law(
    known: Completed,
    *,
    base: Base,
    rng: np.random.Generator,
    allowed: Mapping[Pair, Bools],
    order: Sequence[int] | None = None,
) -> Heads:
    """Return a law of complete rows.

    Parameters
    ----------
    known : Completed
    base : {"heads", "tree"}
    rng : numpy Generator
    allowed : mapping of (attribute, attribute) to ndarray of bool
        Which cells of a pair are possible (public).
    order : sequence of int, optional
        In which heads are drawn.
    """
    parts = known.margins, known.pairs, known.variances
    if base == "tree":
        return fit_tree(*parts, allowed=allowed)
    return fit_heads(*parts, rng=rng, allowed=allowed, order=order)


def targets(known: Completed, rows: Codes, *, base: Base) -> dict[Clique, Floats]:
    """Return the tables that rows are to be raked to: noisy ones, leaned on those of a model.

    Parameters
    ----------
    known : Completed
    rows : ndarray of int64
        Rows of the model. Those of a tree lack most pairs, so there tables lean on independence.
    base : {"heads", "tree"}
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
        model = product * (told > 0) if base == "tree" else told
        model = scaled_to(np.maximum(model, _LEAST_CELL * (told > 0)), ends)
        degrees = max(_LEAST_DEGREES, (1 - 1 / shape[0]) * (1 - 1 / shape[1]))
        noise = np.sqrt(known.variances[a, b] / degrees)
        found[a, b] = shrunk(known.pairs[a, b] + product, model, noise, margins=ends)
    return found
