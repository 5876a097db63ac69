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
from missdp.inference.completion import PairTables, complete
from missdp.inference.junction import Clique
from missdp.inference.masks import MaskModel
from missdp.inference.model import Codes, Levels
from missdp.schema import Numeric
from missdp.synth import AIM, MST, AllPairs
from missdp.synth.base import Synthesizer
from missdp.synth.learn_pairs import PairRelease
from missdp.synth.workload import candidates

Floats = NDArray[np.float64]
Cells = Mapping[Clique, Floats]
"""Shares of complete rows, by sorted positions of attributes; noise makes some negative."""

_DRAWS = 100
_ROWS = 20_000  # of the model, which play the private rows
_FEWER = 6_000  # to complete tables by
_POINTS = 256  # values that stand for what lies inside a bin
_NOTHING = 1e-5  # of the rows: a piece in which none were found
_PRIOR_ROWS = 5.0
_LEAST_SHARE, _LEAST_WEIGHT = 1e-9, 0.1


@dataclass(frozen=True, eq=False)
class Tables:
    """Shares of complete rows on declared codes, and how numbers lie inside their bins.

    Parameters
    ----------
    cells : mapping of Clique to array
    inside : mapping of int to array, shape (codes, points)
        By numeric attribute, the weight of each value in its code.
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

    rows: Codes
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
        self._about([*range(len(self.levels))])

    def about(self, wanted: Sequence[Clique]) -> Self:
        """Return the same for some attributes; for all of them, if values are missing."""
        for clique in wanted:
            if len(clique) > 2:
                raise ParameterError(
                    f"{[self._names[a] for a in clique]} are more than two: AllPairs releases "
                    "pairs. AIM offers what its workload= names"
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
        drawn = self.rows[:rows, of]
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
        # What is clipped grows with the sums, so that noise counts for more than it was.
        tables = {
            (i, j): table + (again.tables[i, j] - table) / self._left[self._of[i], self._of[j]]
            for (i, j), table in self._known.tables.items()
        }
        return self._completed(replace(self._known, margins=again.margins, tables=tables))

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


def _counted(rows: Codes, clique: Clique, shape: tuple[int, ...], weights: Floats) -> Floats:
    """Return sums of weights by the codes of some columns."""
    cells = np.ravel_multi_index(tuple(rows[:, v] for v in clique), shape)
    return np.asarray(np.bincount(cells, weights, int(np.prod(shape))).reshape(shape), float)


def _released(source: _Source, model: Synthesizer, wanted: Sequence[Clique]) -> Released:
    """Return what a source tells, on declared codes, and draws around it."""
    rng = np.random.default_rng(2)
    cliques = [*{(a,): None for clique in wanted for a in clique}, *(c for c in wanted if c[1:])]
    exact = source.point()

    def spread(cells: Cells) -> dict[Clique, Floats]:
        return {c: _declared(source.levels, c, cells[c]) for c in cliques}

    point = spread(exact)
    inside = [
        i for i in (_Inside.of(model, c[0], point, source) for c in cliques if not c[1:]) if i
    ]
    noise, sampled, complete_ = [], [], []
    for weights, noisy, resampled in source.draws:
        shapes = {i.at: i.noisy(rng) for i in inside}
        noise.append(Tables(spread(noisy), shapes, rng.normal(1.0, 1.0)))
        jitter = {i.at: rng.normal(size=i.piece.shape) for i in inside}
        shapes = {i.at: i.resampled(jitter[i.at], i.seen) for i in inside}
        sampled.append(Tables(spread(resampled), shapes))
        moved = {c: exact[c] + _counted(source.rows, c, exact[c].shape, weights) for c in cliques}
        shapes = {i.at: i.resampled(jitter[i.at], 1.0) for i in inside}
        complete_.append(Tables(spread(moved), shapes))
    even = {i.at: i.even for i in inside}
    whole, plain = Tables(point, even), Tables(spread(source.observed()), even)
    sets = tuple(noise), tuple(sampled), tuple(complete_)
    return Released(whole, plain, *sets, source.n_rows, source.flags)


def _declared(levels: Sequence[Levels], clique: Clique, table: Floats) -> Floats:
    """Return a table on declared codes: levels of a group have their shares of it."""
    for axis, v in enumerate(clique):
        along = [-1 if i == axis else 1 for i in range(len(clique))]
        table = table.take(levels[v].groups, axis=axis) * levels[v].shares.reshape(along)
    return table


# How numbers lie inside bins


def numbers(attribute: Numeric) -> Floats:
    """Return values that stand for each code alike, shape ``(codes, points)``.

    The last two are values that hardly any row is beyond; they have no weight but where noise is
    drawn that hides some rows there.
    """
    places = np.tile((np.arange(_POINTS) + 0.5) / _POINTS, attribute.size)
    codes = np.repeat(np.arange(attribute.size), _POINTS)
    values = attribute.decode(codes, places).reshape(attribute.size, _POINTS)
    low, high = reach(attribute)
    ends = max(attribute.lower, 2 * low - high), min(attribute.upper, 2 * high - low)
    return np.column_stack([values, np.tile(ends, (attribute.size, 1))])


def reach(attribute: Numeric) -> tuple[float, float]:
    """Return the ends of where values were found, if bins were; else the bounds."""
    if attribute.pieces is None or attribute.shares is None:
        return attribute.lower, attribute.upper
    known = np.flatnonzero(np.array(attribute.shares) > _NOTHING)
    found = [*attribute.spikes]
    if known.size:
        found += [attribute.pieces[known[0]], attribute.pieces[known[-1] + 1]]
    return (min(found), max(found)) if found else (attribute.lower, attribute.upper)


@dataclass(frozen=True, eq=False)
class _Inside:
    """How the values of a number lie inside its bins, and how sure that is.

    Parameters
    ----------
    at : int
        The attribute.
    piece : array of int, shape (codes, points)
        The piece of the released tree in which each point lies.
    shares : array, shape (codes,)
    n_rows, seen : float
        Rows, and the share of them in which the number is observed.
    std : float
        Noise of a piece, as a share of the rows; 0 if bins are declared.
    """

    at: int
    piece: NDArray[np.int64]
    shares: Floats
    n_rows: float
    seen: float
    std: float

    @classmethod
    def of(cls, model: Synthesizer, at: int, cells: Cells, source: _Source) -> _Inside | None:
        """Return that of an attribute, if it is a number."""
        attribute = model.schema_[model.modelled_.names[at]]
        if not isinstance(attribute, Numeric):
            return None
        piece = np.searchsorted(attribute.pieces or (), numbers(attribute), side="right")
        piece[:, -2:] = piece.max() + 1
        log = [e for whole in model.guarantee_.events for e in getattr(whole, "log", ())]
        trees = [e.sigma for e in log if e.label == f"tree {attribute.name}"]
        std = trees[-1] / source.n_rows if trees and attribute.pieces else 0.0
        shares, seen = cells[at,][: attribute.size], 1 - float(source.holes[:, at].mean())
        return cls(at, piece, np.maximum(shares, _LEAST_SHARE), source.n_rows, seen, std)

    @property
    def even(self) -> Floats:
        """Weights of points, as released."""
        weights = np.full(self.piece.shape, 1 / (self.piece.shape[1] - 2))
        weights[:, -2:] = 0.0
        return weights

    def noisy(self, rng: np.random.Generator) -> Floats:
        """Return weights of points with other noise in each piece, and beyond all of them."""
        number = np.bincount(self.piece.ravel())[self.piece]
        moved = rng.normal(0, self.std, int(self.piece.max()) + 1)[self.piece] / number
        moved[:, -2:] = 0.0
        moved[0, -2], moved[-1, -1] = rng.normal(0, self.std, 2)
        return _normal(self.even + moved / self.shares[:, None])

    def resampled(self, jitter: Floats, seen: float) -> Floats:
        """Return weights of points had other rows been there."""
        rows = np.maximum(self.n_rows * seen * self.shares, 1.0)[:, None]
        return _normal(self.even * (1 + jitter * np.sqrt(self.piece.shape[1] / rows)))


def _normal(weights: Floats) -> Floats:
    """Return weights that add up to 1 in each code; as they are, where noise leaves too little."""
    total = weights.sum(axis=1, keepdims=True)
    return np.asarray(weights / np.where(total > _LEAST_WEIGHT, total, 1.0))
