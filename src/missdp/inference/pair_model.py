"""A model of rows that holds the tables of all pairs: regressions, raking, and holes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.inference.fit_heads import fit_heads, fit_tree
from missdp.inference.heads import Heads, Pair
from missdp.inference.junction import Clique
from missdp.inference.masks import MaskModel
from missdp.inference.model import Codes, Draws, Levels
from missdp.inference.pair_tables import Moments
from missdp.inference.raking import rake, resample
from missdp.inference.shrinkage import shrunk
from missdp.record import Record

__all__ = ["Base", "PairModel", "fit_rows"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Base: TypeAlias = Literal["heads", "tree"]

_SWEEPS = {"heads": 6, "tree": 15}
_POOL = 100_000  # rows that are weighted together


@dataclass(frozen=True, eq=False)
class PairModel(Record):
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
    sweeps : int
        Times that rows are raked to every table.
    """

    levels: tuple[Levels, ...]
    law: Heads
    tables: dict[Clique, Floats]
    masks: MaskModel
    sweeps: int = 6

    def complete(self, n: int, rng: np.random.Generator, *, draws: Draws = "even") -> Codes:
        """Draw ``n`` complete rows on groups of levels."""
        parts = []
        for start in range(0, max(n, 1), _POOL):
            rows = self.law.sample(_POOL, rng)
            weights = rake(rows, self.tables, sweeps=self.sweeps, least_share=0.0)
            part = min(_POOL, n - start)
            if draws == "even":
                chosen = resample(weights, part, rng, codes=rows)
            else:
                chosen = rng.choice(len(rows), size=part, p=weights)
            parts.append(rows[chosen])
        return np.concatenate(parts)

    def sample(
        self, n: int, rng: np.random.Generator, *, keep_holes: bool, draws: Draws = "even"
    ) -> list[NDArray[np.int64]]:
        """Draw ``n`` rows as one array of codes per attribute; a hole has the code ``size``."""
        rows = self.complete(n, rng, draws=draws)
        holes = self.masks.draw(rows, rng) if keep_holes else np.zeros(rows.shape, dtype=bool)
        out = []
        for v, level in enumerate(self.levels):
            codes = level.split(rows[:, v], rng)
            out.append(np.where(holes[:, v], len(level.groups), codes))
        return out


def fit_rows(
    moments: Moments,
    *,
    base: Base,
    rng: np.random.Generator,
    allowed: Mapping[Pair, Bools] | None = None,
) -> tuple[Heads, dict[Clique, Floats]]:
    """Return a law of complete rows, and the tables that its rows are to be raked to."""
    margins, pairs, noise = moments.margins, moments.pairs, moments.variances
    if base == "tree":
        law = fit_tree(margins, pairs, noise, allowed=allowed)
    else:
        law = fit_heads(margins, pairs, noise, rng=rng, allowed=allowed)
    tables: dict[Clique, Floats] = {}
    for (a, b), moment in pairs.items():
        product = np.outer(margins[a], margins[b])
        if allowed and (a, b) in allowed:
            product = np.where(allowed[a, b], product, 0.0)
            product /= product.sum()
        noisy = moment + np.outer(margins[a], margins[b])
        tables[a, b] = shrunk(
            noisy, product, np.sqrt(noise[a, b]), margins=(margins[a], margins[b])
        )
    return law, tables
