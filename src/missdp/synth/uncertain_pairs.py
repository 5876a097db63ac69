"""Models of all pairs that vary as the released one is uncertain: for several synthetic tables.

A statistic ``y`` was released with noise of variance ``v``, and is smoothed by a prior of variance
``t``: given what was released, the private table has ``N(f y, f v)``, with ``f = t / (t + v)``. A
table that is perturbed by noise and smoothed once more would vary by ``f² v`` only: too little
exactly where relations are weak. So each draw is ``f y``, and ``√f`` times what other noise would
have added, and what other rows of the same population would have added, which nothing shrinks.
One model is then fitted to it; what it is fitted to is not to be shrunk again.

Everything here is a function of released values and public facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.inference.completion import Completed, PairTables, complete
from missdp.inference.fit_heads import fit_heads
from missdp.inference.heads import Pair
from missdp.inference.pair_model import PairModel, targets
from missdp.inference.smooth import Smoothing
from missdp.synth.learn_pairs import PairRelease, numbers_of
from missdp.types import Floats, Ints

_ROWS = 20_000  # of the model, which play the private ones
_FEWER = 6_000  # to complete tables by


@dataclass(frozen=True, eq=False)
class Varied:
    """What a fit of all pairs was told, to fit models that vary around it.

    Parameters
    ----------
    release : PairRelease
    model : PairModel
        As it was fitted.
    selective, always, told, allowed, ordered
        As for the fit.
    design : float
        By how much sums over rows vary more than if rows were independent and counted as one.
    """

    release: PairRelease
    model: PairModel
    selective: bool
    always: Mapping[int, int]
    told: Mapping[int, tuple[int, ...]]
    allowed: Mapping[Pair, NDArray[np.bool_]]
    ordered: Sequence[bool]
    design: float = 1.0

    def models(self, rng: np.random.Generator) -> Iterator[PairModel]:
        """Yield models of the population, one after the other, without end."""
        release, model = self.release, self.model
        rows = model.law.sample(_ROWS, rng)
        sizes = [level.n_groups for level in release.crude.levels]
        holes = model.masks.draw(rows, rng)
        seen = np.where(holes, sizes, rows)
        taken, left = _clipping(release, seen)
        tables = release.tables(taken)
        known = self._completed(tables, rows, rng)
        numbers = numbers_of(release, taken, known, rows, holes)
        smoothing = Smoothing.of(
            known.margins, known.pairs, known.variances, self.ordered, numbers=numbers
        )
        allowed = smoothing.allowed(self.allowed)
        while True:
            again = release.redrawn(rng)
            noisy = noisier(tables, again.tables(taken), left)
            noise = self._completed(noisy, rows, rng)
            as_many = _of_other_rows(noisy, seen, rng, noisy.n_rows / self.design)
            other = self._completed(as_many, rows, rng)
            more = numbers_of(again, taken, noise, rows, holes)
            off = more.less(numbers, left) if more and numbers else None
            pairs = smoothing.drawn({c: t - known.pairs[c] for c, t in noise.pairs.items()}, off)
            pairs = {c: t + other.pairs[c] - noise.pairs[c] for c, t in pairs.items()}
            drawn = replace(other, pairs=pairs, variances=smoothing.told)
            together = again.of_several(drawn.masks, rows)
            parts = drawn.margins, pairs, drawn.variances
            law = fit_heads(*parts, rng=rng, allowed=allowed, together=together)
            wanted = targets(drawn, law.sample(_ROWS, rng)) | together
            yield replace(model, law=law, tables=wanted, masks=drawn.masks)

    def _completed(self, tables: PairTables, rows: Ints, rng: np.random.Generator) -> Completed:
        return complete(
            tables,
            rng=rng,
            draw=lambda _: rows[:_FEWER],
            always=self.always,
            told=self.told,
            rounds=int(self.selective),
            start=self.model.masks if self.selective else None,
        )


def _clipping(release: PairRelease, seen: Ints) -> tuple[Any, Mapping[Pair, float]]:
    """Return what clipping takes from such rows, and the share of each product that is left."""
    if release.plan is None:
        return None, {}
    return release.taken(seen), release.left(seen)[1]


def noisier(tables: PairTables, again: PairTables, left: Mapping[Pair, float]) -> PairTables:
    """Return tables with other noise: what is clipped grows with sums, and noise grows with it.

    Attributes of which nothing is missing, as far as was released, stay so.
    """
    moved = {c: t + (again.tables[c] - t) / left[c] for c, t in tables.tables.items()}
    whole = [
        margin[size:].sum() == 0 for margin, size in zip(tables.margins, tables.sizes, strict=True)
    ]
    margins = [
        np.where(np.arange(len(m)) < size, m, 0.0) if one else m
        for m, size, one in zip(again.margins, tables.sizes, whole, strict=True)
    ]
    return replace(tables, margins=tuple(m / m.sum() for m in margins), tables=moved)


def _of_other_rows(
    tables: PairTables, seen: Ints, rng: np.random.Generator, rows: float
) -> PairTables:
    """Return the tables of so many other rows of the population that these rows stand for."""
    n = len(seen)
    times = rng.poisson(rows / n, n) / max(1.0, rows) if n else np.zeros(0)
    weights = times - times.mean()

    def moved(clique: tuple[int, ...], table: Floats) -> Floats:
        cells = np.ravel_multi_index(tuple(seen[:, a] for a in clique), table.shape)
        return table + np.bincount(cells, weights, table.size).reshape(table.shape)

    margins = [np.maximum(moved((a,), m), 0.0) for a, m in enumerate(tables.margins)]
    return replace(
        tables,
        margins=tuple(margin / margin.sum() for margin in margins),
        tables={pair: moved(pair, table) for pair, table in tables.tables.items()},
    )
