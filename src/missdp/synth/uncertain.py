"""Models that vary as the released one is uncertain: for several synthetic tables.

A statistic ``y`` was released with noise of variance ``v``, and is smoothed by a prior of variance
``t``: given what was released, the private table has ``N(f y, f v)``, with ``f = t / (t + v)``. A
table that is perturbed by noise and smoothed once more would vary by ``f² v`` only: too little
exactly where relations are weak. So each draw is ``f y``, and ``√f`` times what other noise would
have added, and what other rows of the same population, with other missing values, would have added,
which nothing shrinks. One model is then fitted to it; what it is fitted to is not to be shrunk
again. Of a graphical model it is each marginal's dependence, which margins do not tell, that is
drawn so.

Everything here is a function of released values and public facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce

import numpy as np
from numpy.typing import NDArray

from missdp.inference.beliefs import Target, fit_entropy
from missdp.inference.completion import PairTables, complete
from missdp.inference.fit_heads import fit_heads
from missdp.inference.heads import Pair
from missdp.inference.junction import Clique
from missdp.inference.model import merge_zeros
from missdp.inference.models import GraphicalModel, PairModel, Recipe, targets
from missdp.inference.raking import centred, scaled_to
from missdp.inference.smooth import Smoothing
from missdp.synth.learn_pairs import PairRelease, numbers_of
from missdp.types import Floats, Ints

Marginals = Mapping[Clique, Floats]

_ROWS = 20_000  # of the model, which play the private ones
_PRIOR_ROWS = 5.0
_TOLD = 0.2  # of the noise: what is fitted to is not to be shrunk again
_ITERATIONS = 200
_LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class VariedMarginals:
    """What marginals told of a population, to fit models that vary around it.

    ``marginals`` are noisy shares of complete rows (``Estimate.completed``); ``design`` is by how
    much sums over rows vary more than if rows were independent and counted as one.
    """

    marginals: Marginals
    model: GraphicalModel
    recipe: Recipe
    ordered: Sequence[bool]
    design: float = 1.0

    def models(self, rng: np.random.Generator) -> Iterator[GraphicalModel]:
        """Yield models of the population, one after the other, without end."""
        rows = self.model.rows(_ROWS, rng, draws="independent")
        holes = self.model.masks.draw(rows, rng)
        sizes = [level.n_groups for level in self.model.levels]
        zeros = merge_zeros(self.model.zeros, self.model.levels)
        while True:
            margins, tables = self._drawn(rows, holes, rng)
            targets = [Target((a,), margin, _LEAST) for a, margin in enumerate(margins)]
            fitted = [c for c in self.recipe.sigmas if len(c) > 1]
            targets += [
                Target(c, tables[c], np.maximum(_TOLD * self.marginals[c][1], _LEAST))
                for c in fitted
            ]
            law, parameters = fit_entropy(
                sizes,
                targets,
                shrink=self.recipe.shrink,
                iterations=_ITERATIONS,
                start=self.model.parameters,
                forbidden=zeros,
            )
            raked = {
                c: tables[c] if c in self.recipe.pairs else law.marginal(c)
                for c in self.model.tables
            }
            yield replace(self.model, parameters=parameters, tables=raked)

    def _drawn(
        self, rows: NDArray[np.int64], holes: NDArray[np.bool_], rng: np.random.Generator
    ) -> tuple[list[Floats], dict[Clique, Floats]]:
        """Return margins and larger marginals as they may be in the population."""
        n = len(rows)
        weights = rng.normal(size=n) * np.sqrt(self.design / (self.recipe.n_rows * n))
        weights -= weights.mean()
        noise = {c: rng.normal(0.0, table[1]) for c, table in self.marginals.items()}
        other = {
            c: _other_rows(rows, holes, c, table[0].shape, weights)
            for c, table in self.marginals.items()
        }
        moved = {c: table[0] + noise[c] + other[c] for c, table in self.marginals.items()}
        margins, tables = self._margins(moved), {}
        for clique, dependence in self._posterior(noise).items():
            base = _independent(margins, clique)
            table = np.maximum(base + dependence + centred(other[clique]), _LEAST * base)
            tables[clique] = scaled_to(table, [margins[a] for a in clique])
        return margins, tables

    def _margins(self, moved: Marginals) -> list[Floats]:
        """Return the margin of each attribute, from all marginals that tell it."""
        total = [np.zeros(level.n_groups) for level in self.model.levels]
        weight = [_LEAST] * len(total)
        for clique, table in moved.items():
            for axis, a in enumerate(clique):
                others = tuple(i for i in range(len(clique)) if i != axis)
                variance = float(np.square(self.marginals[clique][1]).sum(axis=others).mean())
                total[a] = total[a] + table.sum(axis=others) / max(variance, _LEAST**2)
                weight[a] += 1 / max(variance, _LEAST**2)
        known = [np.maximum(t / w, _LEAST) for t, w in zip(total, weight, strict=True)]
        return [margin / margin.sum() for margin in known]

    @cached_property
    def _released(self) -> tuple[Smoothing, dict[Clique, tuple[Floats, Floats]]]:
        """What was released of pairs, and of larger marginals with the part that is believed."""
        margins = self._margins({c: table[0] for c, table in self.marginals.items()})
        pairs, variances, larger = {}, {}, {}
        for clique, (values, std) in self.marginals.items():
            residual = centred(values - _independent(margins, clique))
            if len(clique) == 2:
                pairs[clique[0], clique[1]] = residual
                variances[clique[0], clique[1]] = np.square(std)
            elif len(clique) > 2:
                noise = np.square(std) * np.prod([1 - 1 / n for n in values.shape])
                excess = max(0.0, float((np.square(residual) - noise).sum()))
                spread = _independent(margins, clique)
                prior = excess * spread / spread.sum()
                larger[clique] = residual, prior / (prior + noise)
        return Smoothing.of(margins, pairs, variances, self.ordered), larger

    def _posterior(self, noise: Marginals) -> dict[Clique, Floats]:
        """Return a draw of the dependence in each marginal, given a draw of its noise."""
        smoothing, larger = self._released
        pairs = {(a, b): centred(noise[a, b]) for a, b in smoothing.pairs}
        found: dict[Clique, Floats] = dict(smoothing.drawn(pairs).items())
        for clique, (residual, kept) in larger.items():
            found[clique] = kept * residual + np.sqrt(kept) * centred(noise[clique])
        return found


def _independent(margins: Sequence[Floats], clique: Clique) -> Floats:
    return np.asarray(reduce(np.multiply.outer, [margins[a] for a in clique]))


def _other_rows(
    rows: NDArray[np.int64],
    holes: NDArray[np.bool_],
    clique: Clique,
    shape: tuple[int, ...],
    weights: Floats,
) -> Floats:
    """Return what so much more of each row would change of a marginal, given what is observed."""
    cells = np.ravel_multi_index(tuple(rows[:, a] for a in clique), shape)
    seen = ~holes[:, list(clique)].any(axis=1)
    number = np.bincount(cells, minlength=int(np.prod(shape)))
    known = np.bincount(cells, seen, len(number)) + _PRIOR_ROWS * max(seen.mean(), _LEAST)
    chance = known / (number + _PRIOR_ROWS)
    return np.asarray((np.bincount(cells, weights * seen, len(number)) / chance).reshape(shape))


_FEWER = 6_000  # to complete tables by


def varied_pairs(
    release: PairRelease,
    model: PairModel,
    rng: np.random.Generator,
    *,
    selective: bool,
    always: Mapping[int, int],
    told: Mapping[int, tuple[int, ...]],
    allowed: Mapping[Pair, NDArray[np.bool_]],
    ordered: Sequence[bool],
    design: float,
) -> Iterator[PairModel]:
    """Yield models that vary around a fit of all pairs, one after the other, without end."""
    rows = model.law.sample(_ROWS, rng)
    completed = partial(
        complete,
        rng=rng,
        draw=lambda _: rows[:_FEWER],
        always=always,
        told=told,
        rounds=int(selective),
        start=model.masks if selective else None,
        ordered=ordered,
    )
    sizes = [level.n_groups for level in release.crude.levels]
    holes = model.masks.draw(rows, rng)
    seen = np.where(holes, sizes, rows)
    taken, left = release.taken(seen), {} if release.plan is None else release.left(seen)[1]
    tables = release.tables(taken)
    known = completed(tables)
    numbers = numbers_of(release, taken, known, rows, holes)
    smoothing = Smoothing.of(known.margins, known.pairs, known.variances, ordered, numbers=numbers)
    possible = smoothing.allowed(allowed)
    while True:
        again = release.redrawn(rng)
        noisy = noisier(tables, again.tables(taken), left)
        noise = completed(noisy)
        as_many = _of_other_rows(noisy, seen, rng, noisy.n_rows / design)
        other = completed(as_many)
        more = numbers_of(again, taken, noise, rows, holes)
        off = more.less(numbers) if more and numbers else None
        pairs = smoothing.drawn({c: t - known.pairs[c] for c, t in noise.pairs.items()}, off)
        pairs = {c: t + other.pairs[c] - noise.pairs[c] for c, t in pairs.items()}
        drawn = replace(other, pairs=pairs, variances=smoothing.told)
        together = again.of_several(drawn.masks, rows)
        parts = drawn.margins, pairs, drawn.variances
        law = fit_heads(*parts, rng=rng, allowed=possible, ordered=ordered, together=together)
        wanted = targets(drawn, law.sample(_ROWS, rng)) | together
        yield replace(model, law=law, tables=wanted, masks=drawn.masks)


def noisier(tables: PairTables, again: PairTables, left: Mapping[Pair, float]) -> PairTables:
    """Return tables with other noise, and clipping with it; what is never missing stays so."""
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
