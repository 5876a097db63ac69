"""Tables of complete rows that a model released, unshrunk, and draws of what they do not tell.

Everything here is a function of released values and public facts. Standard errors come from tables
that are moved: by another draw of the noise, by other rows with their missing values, and by other
complete rows. What missing values add is the difference of the last two.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError
from missdp.estimate.inside import Inside, Move
from missdp.inference.completion import PairTables, complete
from missdp.inference.junction import Clique
from missdp.inference.masks import MaskModel
from missdp.inference.model import Levels
from missdp.schema import Numeric
from missdp.synth import AIM, MST, AllPairs
from missdp.synth.base import Synthesizer
from missdp.synth.learn_pairs import PairRelease
from missdp.synth.uncertain_pairs import noisier
from missdp.synth.workload import candidates
from missdp.types import Floats, Ints

Cells = Mapping[Clique, Floats]
"""Shares of complete rows, by sorted positions of attributes; noise makes some negative."""

_DRAWS = 100
_KEPT = 8  # questions of a model whose tables are kept
_ROWS = 20_000  # of the model, which play the private rows
_FEWER = 6_000  # by which draws are made
_PRIOR_ROWS = 5.0


@dataclass(frozen=True, eq=False)
class Tables:
    """Shares of complete rows on declared codes, and how numbers lie inside their bins.

    Parameters
    ----------
    cells : mapping of Clique to array
    inside : mapping of int to array, shape (codes, points)
        By numeric attribute, the weight of each value in its code; codes as of `Inside`.
    lean : float
        How far relations between bins are taken to go on inside them: 1 is as straight lines.
    """

    cells: Cells
    inside: Mapping[int, Floats]
    lean: float = 1.0

    def of(self, *attributes: int) -> Floats:
        """Return the table of some attributes, in this order."""
        clique = tuple(sorted(attributes))
        return self.cells[clique].transpose([clique.index(a) for a in attributes])

    def parted(self, at: int, chances: Mapping[Clique, Floats]) -> Tables:
        """Return the same with rows in which an attribute is missing apart: see `Released`."""
        cells = dict(self.cells)
        for clique, chance in chances.items():
            axis, codes = clique.index(at), len(chance)
            table = np.moveaxis(cells[clique], axis, 0)
            gone = table[:codes] * chance
            parts = [table[:codes] - gone, gone, table[codes:]]
            cells[clique] = np.moveaxis(np.concatenate(parts), 0, axis)
        return replace(self, cells=cells)


@dataclass(frozen=True, eq=False)
class Released:
    """What was released, and draws that vary by noise, by rows with missing values, and without.

    ``observed`` is the point had observed values been taken for all.
    """

    point: Tables
    observed: Tables
    noise: tuple[Tables, ...]
    sampled: tuple[Tables, ...]
    complete: tuple[Tables, ...]
    n_rows: float
    flags: tuple[str, ...]
    source: _Source
    inside: Mapping[int, Inside]

    def missing(self, clique: Clique, at: int) -> Floats:
        """Return how often an attribute is missing in rows of each cell, as the model has it."""
        source, axis = self.source, clique.index(at)
        shape = tuple(source.levels[v].n_groups for v in clique)
        gone = source.holes[:, at].astype(float)
        number = _counted(source.rows, clique, shape, np.ones(len(gone)))
        found = _counted(source.rows, clique, shape, gone) + _PRIOR_ROWS * gone.mean()
        found = found / (number + _PRIOR_ROWS)
        for place, v in enumerate(clique):
            found = found.take(source.levels[v].groups, axis=place)
        for place, v in enumerate(clique):
            if v in self.inside:
                size, home = len(self.inside[v].shares), self.inside[v].beyond.home
                codes = [*range(size), *home, *range(size, found.shape[place])]
                found = found.take(codes, axis=place)
        return np.moveaxis(found, axis, 0)

    def parted(self, at: int, codes: int) -> Released:
        """Return the same with rows in which an attribute is missing apart from the others.

        They have codes of their own, after the first ``codes`` of it.
        """
        chances = {c: self.missing(c, at)[:codes] for c in self.point.cells if at in c}
        names = ("point", "observed"), ("noise", "sampled", "complete")
        one: Any = {name: getattr(self, name).parted(at, chances) for name in names[0]}
        many: Any = {
            name: tuple(t.parted(at, chances) for t in getattr(self, name)) for name in names[1]
        }
        return replace(self, **one, **many)


_KNOWN: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()


def released_by(model: Synthesizer, cliques: Iterable[tuple[str, ...]]) -> Released:
    """Return what a fitted model tells of some sets of attributes.

    Raises
    ------
    ParameterError
        If its family, its strategy or its file keeps no statistics, or none of such a set.
    """
    model._check_fitted()
    if not isinstance(model, AllPairs | AIM | MST):
        raise ParameterError(
            f"{type(model).__name__} keeps no statistics to estimate from; AllPairs, AIM and MST do"
        )
    if model._applied_strategy.fills:
        raise ParameterError(
            f"missing={model.missing!r} fills values before anything is counted, and no interval "
            "knows of that; fit with missing='joint'"
        )
    if (model.pairs_ if isinstance(model, AllPairs) else model.marginals_) is None:
        raise ParameterError(
            "the model was saved by an earlier version of missdp, which kept nothing to estimate "
            "from: fit it again"
        )
    names = model.modelled_.names
    wanted = tuple(sorted({tuple(sorted(map(names.index, c))) for c in cliques}))
    known = _KNOWN.setdefault(model.model_, {})
    if wanted not in known:
        if () not in known:
            known[()] = (
                _AllPairsSource(model) if isinstance(model, AllPairs) else _MarginalsSource(model)
            )
        for oldest in [asked for asked in known if asked][: max(0, len(known) - _KEPT)]:
            del known[oldest]  # the tables of many questions are hundreds of megabytes
        known[wanted] = _released(known[()].about(wanted), model, wanted)
    found: Released = known[wanted]
    return found


class _Source(abc.ABC):
    """What a release says of complete rows, and what it would say had it come out otherwise.

    Attributes
    ----------
    rows, holes : arrays of shape (n, d)
        Rows of the model, which play the private ones, and what is missing in them.
    """

    rows: Ints
    holes: NDArray[np.bool_]
    levels: Sequence[Levels]
    n_rows: float
    flags: tuple[str, ...] = ()

    @cached_property
    def draws(self) -> list[tuple[Floats, Cells, Cells]]:
        """Weights of rows, what other noise and what rows of these weights would have made."""
        rng, n = np.random.default_rng(1), len(self.rows)  # public: draws tell how numbers vary
        found = []
        for _ in range(_DRAWS):
            weights = rng.normal(size=n) / np.sqrt(self.n_rows * n)
            weights -= weights.mean()
            found.append((weights, self.noisy(rng), self.resampled(weights)))
        return found

    @abc.abstractmethod
    def about(self, wanted: Sequence[Clique]) -> Self:
        """Return the same for some attributes; refuse what was not measured."""

    @abc.abstractmethod
    def point(self) -> Cells:
        """Return what was released, unshrunk."""

    @abc.abstractmethod
    def observed(self) -> Cells:
        """Return the same with observed values taken for all."""

    @abc.abstractmethod
    def noisy(self, rng: np.random.Generator) -> Cells:
        """Return what other noise would have made of it."""

    @abc.abstractmethod
    def resampled(self, weights: Floats) -> Cells:
        """Return what other rows would have made of it: with ``weights`` more of each of these."""


class _AllPairsSource(_Source):
    """The release of all pairs."""

    _of: list[int]
    _release: PairRelease
    _lost: Any
    _known: PairTables

    def __init__(self, model: AllPairs) -> None:
        fitted: Any = model.model_
        assert model.pairs_ is not None
        self._whole, self._names = model.pairs_, model.modelled_.names
        self._masks, self._rng = fitted.masks, np.random.default_rng(0)  # public: any points do
        self.levels, self.n_rows = fitted.levels, self._whole.crude.rows
        self.rows = fitted.law.sample(_ROWS, self._rng)
        self.holes = self._masks.draw(self.rows, self._rng)
        self._seen = np.where(self.holes, [level.n_groups for level in self.levels], self.rows)
        self._taken: Any = None
        self._left: dict[Any, float] = {}
        if self._whole.plan is not None:
            self._taken = self._whole.taken(self._seen)
            self._left = self._whole.left(self._seen)[1]
        self._rows = self.rows  # the point takes all of them, and draws are about how it varies
        self.rows, self._seen = self._rows[:_FEWER], self._seen[:_FEWER]
        self.holes = self.holes[:_FEWER]
        self._about([*range(len(self.levels))])

    def about(self, wanted: Sequence[Clique]) -> Self:
        """Return the same for some attributes; for all of them, if values are missing."""
        for clique in wanted:
            if len(clique) > 2:
                raise ParameterError(
                    f"{[self._names[a] for a in clique]} are more than two: estimates "
                    "from AllPairs read pairs only. AIM offers what its workload= names"
                )
        if self._masks.present.any():
            return self
        return copy.copy(self)._about(sorted({a for clique in wanted for a in clique}))

    def _about(self, of: list[int]) -> Self:
        self._of, self._release, self._lost = of, self._whole.about(of), None
        if self._taken is not None:
            single, both = self._taken
            lost = {(i, j): both[a, b] for (i, a), (j, b) in combinations(enumerate(of), 2)}
            self._lost = [single[a] for a in of], lost
        self._known = self._release.tables(self._lost)
        return self

    def _completed(self, tables: PairTables, rows: int = _FEWER) -> Cells:
        of, holed = self._of, bool(self._masks.present.any())
        drawn = self._rows[:rows, of]
        found = complete(
            tables,
            rng=self._rng,
            draw=lambda _: drawn,
            rounds=int(holed),
            start=self._masks if holed else MaskModel(np.zeros(len(of))),
        )
        cells: dict[Clique, Floats] = {(of[i],): m for i, m in enumerate(found.margins)}
        for (i, j), moment in found.pairs.items():
            cells[of[i], of[j]] = moment + np.outer(found.margins[i], found.margins[j])
        return cells

    def point(self) -> Cells:
        """Return what was released, unshrunk."""
        return self._completed(self._known, _ROWS)

    def observed(self) -> Cells:
        """Return the same with observed values taken for all."""
        sizes, of, known = self._known.sizes, self._of, self._known
        cells: dict[Clique, Floats] = {(of[i],): m[: sizes[i]] for i, m in enumerate(known.margins)}
        cells |= {(of[i], of[j]): t[: sizes[i], : sizes[j]] for (i, j), t in known.tables.items()}
        return {clique: table / table.sum() for clique, table in cells.items()}

    def noisy(self, rng: np.random.Generator) -> Cells:
        """Return what other noise would have made of it."""
        again = self._release.redrawn(rng).tables(self._lost)
        of, left = self._of, self._left
        share = {(i, j): left[of[i], of[j]] for i, j in self._known.tables}
        return self._completed(noisier(self._known, again, share))

    def resampled(self, weights: Floats) -> Cells:
        """Return what other rows would have made of it."""
        seen, known = self._seen[:, self._of], self._known
        margins = [m + _counted(seen, (i,), m.shape, weights) for i, m in enumerate(known.margins)]
        tables = {c: t + _counted(seen, c, t.shape, weights) for c, t in known.tables.items()}
        return self._completed(replace(known, margins=tuple(margins), tables=tables))


class _MarginalsSource(_Source):
    """Marginals that were measured one by one."""

    _wanted: Sequence[Clique]

    def __init__(self, model: AIM | MST) -> None:
        assert model.marginals_ is not None
        rng = np.random.default_rng(0)  # public: any points do
        self._names, self._marginals = model.modelled_.names, model.marginals_
        self.levels, self.n_rows = model.model_.levels, model._recipe.n_rows
        self._law, self._workload = model.model_.law, candidates(model.workload, model.modelled_)
        recipe = model._recipe
        self._std = (
            float(np.median([*recipe.sigmas.values()] or [recipe.first_sigma])) / self.n_rows
        )
        self.rows = model.model_.rows(_ROWS, rng, draws="independent")
        self.holes = model.model_.masks.draw(self.rows, rng)

    def about(self, wanted: Sequence[Clique]) -> Self:
        """Return the same for some attributes; refuse what was not measured together."""
        found = copy.copy(self)
        found._wanted = sorted({(a,) for c in wanted for a in c}.union(wanted))
        read = {a for clique in wanted for a in clique}
        found._marginals = {c: t for c, t in self._marginals.items() if read & {*c}}
        for clique in wanted:
            if not any({*clique} <= {*known} for known in self._marginals):
                found._marginals[clique] = self._supposed(clique)
                found.flags += (
                    f"{self._named(clique)} were not measured together, since the model had them "
                    "about right: taken from it, as if with the noise of a measurement.",
                )
        return found

    def _named(self, clique: Clique) -> str:
        return ", ".join(self._names[a] for a in clique)

    def _supposed(self, clique: Clique) -> Floats:
        """Return what the model has where it was right enough for nothing to be measured."""
        if not any({*clique} <= {*known} for known in self._workload):
            raise ParameterError(
                f"{self._named(clique)} are not together in the workload: name them in workload= "
                "of AIM"
            )
        table = self._law.marginal(clique)
        return np.stack([table, np.full(table.shape, self._std)])

    def _together(self, values: Mapping[Clique, Floats]) -> Cells:
        """Return the tables that are asked for, from all that tell them, by their precision."""
        cells: dict[Clique, Floats] = {}
        for clique in sorted(self._wanted, key=len):
            total: Any = 0.0
            weight = 0.0
            for known, table in values.items():
                if {*clique} <= {*known}:
                    others = tuple(i for i, v in enumerate(known) if v not in clique)
                    variance = np.square(self._marginals[known][1]).sum(axis=others).mean()
                    total = total + table.sum(axis=others) / variance
                    weight += 1 / float(variance)
            cells[clique] = _with_margins(total / weight, clique, cells)
        return cells

    def point(self) -> Cells:
        """Return what was released, unshrunk."""
        return self._together({c: t[0] for c, t in self._marginals.items()})

    def observed(self) -> Cells:
        """Return the same with observed values taken for all."""
        found = {}
        for clique, (values, _) in self._marginals.items():
            seen = values * self._chance(clique, values.shape)
            found[clique] = seen / seen.sum()
        return self._together(found)

    def noisy(self, rng: np.random.Generator) -> Cells:
        """Return what other noise would have made of it."""
        return self._together({c: rng.normal(t[0], t[1]) for c, t in self._marginals.items()})

    def resampled(self, weights: Floats) -> Cells:
        """Return what other rows would have made of it."""
        moved = {}
        for clique, (values, _) in self._marginals.items():
            seen = weights * ~self.holes[:, list(clique)].any(axis=1)
            more = _counted(self.rows, clique, values.shape, seen)
            moved[clique] = values + more / self._chance(clique, values.shape)
        return self._together(moved)

    def _chance(self, clique: Clique, shape: tuple[int, ...]) -> Floats:
        """Return the share of rows in each cell that are observed."""
        seen = np.asarray(~self.holes[:, list(clique)].any(axis=1), float)
        number = _counted(self.rows, clique, shape, np.ones(len(seen)))
        known = _counted(self.rows, clique, shape, seen)
        prior = seen.mean()
        return np.asarray((known + _PRIOR_ROWS * prior) / (number + _PRIOR_ROWS))


def _with_margins(table: Floats, clique: Clique, cells: Cells) -> Floats:
    """Spread over a table what its margins lack."""
    for axis, a in enumerate(clique if len(clique) > 1 else ()):
        others = tuple(i for i in range(len(clique)) if i != axis)
        lack = (cells[a,] - table.sum(axis=others)) * table.shape[axis] / table.size
        table = table + np.expand_dims(lack, others)
    return np.asarray(table)


def _counted(rows: Ints, clique: Clique, shape: tuple[int, ...], weights: Floats) -> Floats:
    """Return sums of weights by the codes of some columns."""
    cells = np.ravel_multi_index(tuple(rows[:, v] for v in clique), shape)
    return np.asarray(np.bincount(cells, weights, int(np.prod(shape))).reshape(shape), float)


def _released(source: _Source, model: Synthesizer, wanted: Sequence[Clique]) -> Released:
    """Return what a source tells, on declared codes, and draws around it."""
    rng = np.random.default_rng(2)
    cliques = [*{(a,): None for clique in wanted for a in clique}, *(c for c in wanted if c[1:])]
    exact = source.point()
    point = {c: _declared(source.levels, c, exact[c]) for c in cliques}
    inside = {
        at: Inside.of(model, at, point[at,], n_rows=source.n_rows, holes=source.holes[:, at])
        for (at,) in (c for c in cliques if not c[1:])
        if isinstance(model.schema_[model.modelled_.names[at]], Numeric)
    }

    def tables(cells: Cells, moves: Mapping[int, Move], lean: float = 1.0) -> Tables:
        known = {c: _declared(source.levels, c, cells[c]) for c in cliques}
        for clique in known:
            for axis, at in enumerate(clique):
                if at in inside:
                    known[clique] = inside[at].hiding(known[clique], axis, moves[at], rng)
        return Tables(known, {at: move.weights for at, move in moves.items()}, lean)

    noise, sampled, complete_ = [], [], []
    for weights, noisy, resampled in source.draws:
        moves = {at: one.noisy(rng) for at, one in inside.items()}
        noise.append(tables(noisy, moves, rng.normal(1.0, 1.0)))
        jitter = {at: one.jitter(rng) for at, one in inside.items()}
        moves = {at: one.resampled(jitter[at], one.seen) for at, one in inside.items()}
        sampled.append(tables(resampled, moves))
        moved = {c: exact[c] + _counted(source.rows, c, exact[c].shape, weights) for c in cliques}
        moves = {at: one.resampled(jitter[at], 1.0) for at, one in inside.items()}
        complete_.append(tables(moved, moves))
    even = {at: one.even for at, one in inside.items()}
    whole, plain = tables(exact, even), tables(source.observed(), even)
    sets = tuple(noise), tuple(sampled), tuple(complete_)
    return Released(whole, plain, *sets, source.n_rows, source.flags, source, inside)


def _declared(levels: Sequence[Levels], clique: Clique, table: Floats) -> Floats:
    """Return a table on declared codes: levels of a group have their shares of it."""
    for axis, v in enumerate(clique):
        along = [-1 if i == axis else 1 for i in range(len(clique))]
        table = table.take(levels[v].groups, axis=axis) * levels[v].shares.reshape(along)
    return table
