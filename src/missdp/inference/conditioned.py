"""Rows of a model that have some levels only: drawn as such, not drawn and dropped.

A junction tree is conditioned on wanted levels exactly: the wanted share of each group of levels is
one more factor.

A model that rakes rows to tables has no law that could be written down. So rows of two kinds are
raked together, as the model rakes its own: some are drawn as the model draws all, and most are
drawn with wanted levels only. The second kind has, up to each step, some ``r`` times the density of
the first; with a share ``a`` of the first kind, a row that is weighted by ``1 / (a + (1 - a) r)``
stands for the model's rows whichever kind it is (the balance heuristic; Veach and Guibas 1995).
Wanted rows are then many, however rare they are in the model, and are chosen by their weights, none
of them twice: the largest weights are cut, by which a hundredth of all is lost at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, prod
from typing import TypeAlias

import numpy as np

from missdp.inference.beliefs import log_linear
from missdp.inference.heads import Heads, Singles
from missdp.inference.junction import Clique
from missdp.inference.model import (
    Draws,
    Levels,
    cell_index,
    draw,
    merge_zeros,
    tree_steps,
)
from missdp.inference.models import GraphicalModel, PairModel
from missdp.inference.raking import effective_share, rake, resample
from missdp.types import Flags, Floats, Ints

_WHOLE = 100_000  # rows of the whole model, beside wanted ones
_LEAST, _MOST, _TIMES = 20_000, 100_000, 8  # wanted rows: by how many of them are drawn
_RENEW = 0.7  # rows are drawn anew when the effective share of what raking made has fallen below
_SWEEPS, _LEAST_SHARE = 4, 0.5
_NEVER = 1e-300
_LOST = 0.01  # of all weight, at most, where the largest weights are cut


@dataclass(eq=False, repr=False)
class _Conditioned:
    """Rows of a raked model that have wanted levels; drawn in advance, and again if need be.

    * ``levels``: With the shares of wanted levels alone.
    * ``shares``: How much of each group of levels is wanted, by attribute.
    """

    model: GraphicalModel | PairModel
    levels: tuple[Levels, ...]
    shares: Mapping[int, Floats]
    steps: Sequence[_Step]
    share: float = field(default=1.0, init=False)
    _ready: list[Ints] = field(default_factory=list, init=False)

    def prepare(self, n: int, rng: np.random.Generator) -> None:
        """Draw about so many rows or more, and tell how common such rows are."""
        wanted = min(max(_TIMES * n, _LEAST), _MOST)
        codes, weights = _raked(self.model, self.steps, _WHOLE, wanted, rng)
        inside = np.ones(codes.shape[1], dtype=bool)
        for v, share in self.shares.items():
            inside &= (share > 0)[codes[v]]
        self.share = float(weights[inside].sum() / weights.sum())
        if self.share:
            codes, weights = codes[:, inside], _cut(weights[inside])
            most = max(1, int(weights.sum() / weights.max()))  # so that no row is worth two
            self._ready.append(codes[:, resample(weights, most, rng, codes=codes.T)].T)

    def sample(
        self, n: int, rng: np.random.Generator, *, keep_holes: bool, draws: Draws = "even"
    ) -> list[Ints]:
        """Draw ``n`` rows as one array of codes per attribute; a hole has the code ``size``."""
        del draws
        while (left := n - sum(map(len, self._ready))) > 0:
            self.prepare(left, rng)
        ready = np.concatenate([np.zeros((0, len(self.levels)), dtype=np.int64), *self._ready])
        rows, self._ready = ready[:n], [ready[n:]]
        return self.model.masks.coded(self.levels, rows, rng, keep_holes=keep_holes)


def conditioned(
    model: GraphicalModel | PairModel,
    wanted: Mapping[int, Flags],
    n: int,
    rng: np.random.Generator,
) -> tuple[GraphicalModel | _Conditioned | None, float]:
    """Return what draws the rows of a model with wanted levels, and how common they are in it.

    * ``wanted``: Which levels, by position of attributes.
    * ``n``: About how many rows will be drawn.
    """
    levels, shares = list(model.levels), dict[int, Floats]()
    for v, among in wanted.items():
        levels[v], shares[v] = _among(levels[v], among)
    if any(not share.any() for share in shares.values()):
        return None, 0.0
    if isinstance(model, PairModel):
        steps: list[_Step] = [
            _HeadStep(model.law, place, shares.get(a, np.ones(len(model.law.margins[a]))))
            for place, a in enumerate(model.law.order)
        ]
    else:
        try:
            part, share = _conditioned_tree(model, tuple(levels), shares)
        except ValueError:  # nothing is possible
            return None, 0.0
        if not model.tables:
            return part, share
        both = zip(tree_steps(model.law), tree_steps(part.law), strict=True)
        steps = [_TreeStep(new, given, one, two) for (given, new, one), (_, _, two) in both]
    found = _Conditioned(model, tuple(levels), shares, steps)
    found.prepare(n, rng)
    return (found if found.share else None), found.share


def _among(level: Levels, wanted: Flags) -> tuple[Levels, Floats]:
    """Return how wanted levels are split, and the share of each group that is wanted."""
    kept = level.shares * wanted
    share = np.bincount(level.groups, weights=kept, minlength=level.n_groups).astype(np.float64)
    whole = share[level.groups]
    shares = np.divide(kept, whole, out=level.shares.copy(), where=whole > 0)
    return replace(level, shares=shares), share


def _conditioned_tree(
    model: GraphicalModel, levels: tuple[Levels, ...], shares: Mapping[int, Floats]
) -> tuple[GraphicalModel, float]:
    """Return a graphical model, not raked, given wanted levels; and their share in the model."""
    parameters, zeros = dict(model.parameters), dict(model.zeros)
    sizes = [level.n_groups for level in levels]
    log_z = log_linear(sizes, parameters, merge_zeros(zeros, levels))[1]
    for v, share in shares.items():
        parameters[(v,)] = parameters.get((v,), 0.0) + np.log(np.maximum(share, _NEVER))
        zeros[(v,)] = zeros.get((v,), False) | (share <= 0)[levels[v].groups]
    log_part = log_linear(sizes, parameters, merge_zeros(zeros, levels))[1]
    part = GraphicalModel(levels, parameters, model.masks, zeros)
    return part, min(1.0, exp(log_part - log_z))


@dataclass(frozen=True, eq=False)
class _TreeStep:
    """Attributes of a clique of a junction tree, given those of its separator."""

    new: Clique
    given: Clique
    law: Floats
    wanted: Floats

    def fill(self, codes: Ints, whole: int, rng: np.random.Generator) -> Floats:
        """Draw the attributes."""
        n, before = codes.shape[1], self.law.shape[: len(self.given)]
        sizes = self.law.shape[len(self.given) :]
        laws = [table.reshape(prod(before), -1) for table in (self.law, self.wanted)]
        cells = cell_index(codes, self.given, before, n)
        first, second = slice(None, whole), slice(whole, None)
        flat = np.concatenate([draw(laws[0], cells[first], rng), draw(laws[1], cells[second], rng)])
        chances = [
            np.divide(law, total, out=np.zeros_like(law), where=total > 0)
            for law in laws
            for total in [law.sum(axis=1, keepdims=True)]
        ]
        ratio = chances[1][cells, flat] / np.maximum(chances[0][cells, flat], _NEVER)
        for v, size in zip(reversed(self.new), reversed(sizes), strict=True):
            flat, codes[v] = np.divmod(flat, size)
        return np.asarray(ratio, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _HeadStep:
    """One attribute of a law that draws one after the other."""

    law: Heads
    place: int
    wanted: Floats

    @property
    def new(self) -> Clique:
        """The attribute."""
        return (self.law.order[self.place],)

    def fill(self, codes: Ints, whole: int, rng: np.random.Generator) -> Floats:
        """Draw the attribute; rows with wanted levels are calibrated by all others."""
        first, second = codes[:, :whole], codes[:, whole:]
        ratio, pieces = np.ones(codes.shape[1]), self.law.pieces(whole)
        logs = np.zeros(len(self.wanted))
        for k in range(pieces):
            rows = first[:, k::pieces].T.copy()
            law, factor = self.law.law_next(rows, self.place, rng)
            logs += np.log(factor) / pieces
            rows[:, self.new[0]] = level = self.law.draw_evenly(law, rows, self.place, rng)
            first[:, k::pieces] = rows.T
            ratio[:whole][k::pieces] = self.wanted[level] / np.maximum(self.wanted @ law, _NEVER)
        pieces = self.law.pieces(codes.shape[1] - whole)
        for k in range(pieces):
            rows = second[:, k::pieces].T.copy()
            law = self.law.law_with(rows, self.place, np.exp(logs))
            level, ratio[whole:][k::pieces] = self._wanted(law, rows, rng)
            second[self.new[0], k::pieces] = level
        return ratio

    def _wanted(self, law: Singles, rows: Ints, rng: np.random.Generator) -> tuple[Ints, Floats]:
        """Draw among wanted levels; rows that can have none get any, and are of no weight."""
        among = law * self.wanted.astype(np.float32)[:, None]
        part = among.sum(axis=0)
        among[:, part <= 0] = 1.0
        level = self.law.draw_evenly(among / among.sum(axis=0), rows, self.place, rng)
        ratio = self.wanted[level] / np.maximum(part, _NEVER)
        return level, np.where(part > 0, ratio, np.inf)


_Step: TypeAlias = _TreeStep | _HeadStep
"""Draws attributes of rows of both kinds, and returns by what ``r`` is multiplied, row by row."""


def _cut(weights: Floats) -> Floats:
    """Cut the largest weights to one, so that more rows can be chosen and none is worth two."""
    falling = np.sort(weights)[::-1]
    above = np.cumsum(falling) - falling * np.arange(1, len(falling) + 1)
    most = float(falling[np.searchsorted(above, _LOST * weights.sum()) - 1])
    return np.minimum(weights, most)


def _raked(
    model: GraphicalModel | PairModel,
    steps: Sequence[_Step],
    whole: int,
    wanted: int,
    rng: np.random.Generator,
) -> tuple[Ints, Floats]:
    """Return rows of both kinds, one per column, and their weights when raked together."""
    n, a, on_the_way = whole + wanted, whole / (whole + wanted), not isinstance(model, PairModel)
    codes, drawn = np.zeros((len(model.levels), n), dtype=np.int64), set[int]()
    ratio, made, base = np.ones(n), np.ones(n), np.ones(n)
    for step in steps:
        ratio = ratio * step.fill(codes, whole, rng)
        base = 1 / (a + (1 - a) * ratio)
        drawn |= {*step.new}
        ready = {c: t for c, t in model.tables.items() if {*c} <= drawn and {*c} & {*step.new}}
        if not on_the_way or not ready:
            continue
        weights = rake(codes.T, ready, weights=base * made, sweeps=1, least_share=0.0)
        made = np.divide(weights, base, out=np.zeros(n), where=base > 0)
        if effective_share(made) < _RENEW and len(drawn) < len(codes):
            for kind in (slice(0, whole), slice(whole, n)):  # each by itself
                again = resample(made[kind], made[kind].size, rng, codes=codes[:, kind].T)
                codes[:, kind], ratio[kind] = codes[:, kind][:, again], ratio[kind][again]
                made[kind] = made[kind].mean()
            base = 1 / (a + (1 - a) * ratio)
    weights = base * made
    least = _LEAST_SHARE * effective_share(base)
    return codes, rake(codes.T, model.tables, weights=weights, sweeps=_SWEEPS, least_share=least)
