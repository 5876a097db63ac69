"""Graphical models that vary as the released one is uncertain: for several synthetic tables.

As for all pairs (`uncertain_pairs`): a released statistic ``y`` of noise ``v`` has, given a prior
of variance ``t``, the posterior ``N(f y, f v)`` with ``f = t / (t + v)``. Refits to tables that a
fitted model simulates would shrink what was shrunk before. Here each marginal's dependence, which
is what margins do not tell, is drawn from its posterior; to it comes what other rows of the
population, with other missing values, would have changed. One model is fitted to it, and not to be
shrunk again.

Everything here is a function of released values and public facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from missdp.inference.beliefs import Target, fit_entropy
from missdp.inference.graphical import GraphicalModel, Recipe
from missdp.inference.junction import Clique
from missdp.inference.model import merge_zeros
from missdp.inference.raking import centred, scaled_to
from missdp.inference.smooth import Smoothing
from missdp.types import Floats

Marginals = Mapping[Clique, Floats]

_ROWS = 20_000  # of the model, which play the private ones
_PRIOR_ROWS = 5.0
_TOLD = 0.2  # of the noise: what is fitted to is not to be shrunk again
_ITERATIONS = 200
_LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class VariedMarginals:
    """What marginals told of a population, to fit models that vary around it.

    Parameters
    ----------
    marginals : mapping of Clique to array
        Noisy shares of complete rows, and their noise; see ``Estimate.completed``.
    model : GraphicalModel
        As it was fitted.
    recipe : Recipe
    ordered : sequence of bool
        Whether the groups of levels of each attribute have an order.
    design : float
        By how much sums over rows vary more than if rows were independent and counted as one.
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
