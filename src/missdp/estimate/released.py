"""Tables of complete rows that a model released, unshrunk, and draws of what they do not tell.

Everything here is a function of released values and public facts. Standard errors come from tables
that are moved: by another draw of the noise, by other rows with their missing values, and by other
complete rows. What missing values add is the difference of the last two.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np

from missdp.errors import ParameterError
from missdp.estimate.inside import Inside, Lines, Move, Sums, found_alone
from missdp.estimate.products import Products, about, noisy, observed
from missdp.inference.completion import Completed, ModelFacts, PairTables, complete
from missdp.inference.completion import completed as of_several
from missdp.inference.marginals import NoisyMarginals
from missdp.inference.missingness import MissingnessModel
from missdp.inference.model import Levels
from missdp.inference.products import NumberMoments, Taken, complete_numbers
from missdp.schema import Numeric
from missdp.synth import AIM, MST, AllPairs
from missdp.synth.base import Synthesizer
from missdp.synth.coordinates import Coordinate, finely_drawn
from missdp.synth.learn_pairs import PairRelease, ordered_levels
from missdp.synth.uncertain import counted, noisier
from missdp.synth.workload import candidates
from missdp.threads import one_blas_thread
from missdp.types import Clique, Flags, Floats, Ints

Cells = Mapping[Clique, Floats]
"""Shares of complete rows, by sorted positions of attributes; noise makes some negative."""

_DRAWS = 100
_KEPT = 8  # questions of a model whose tables are kept
_ROWS = 20_000  # of the model, which play the private rows
_FEWER = 6_000  # by which draws are made
_PRIOR_ROWS = 5.0
CLIPPED = 0.1  # of what clipping takes from a sum: a model tells it, and is not exact
_LEAN = 0.5, 0.5  # how steeply relations go on inside bins, and how unsure that is
_UNCHOSEN = 0.8  # of the standard deviation of noise: its mean size, by which choices are made


@dataclass(frozen=True, eq=False)
class Tables:
    """Shares of complete rows on declared codes, and how numbers lie inside their bins."""

    cells: Cells
    inside: Mapping[int, Floats]  # by number, the weight of each value in its code; see `Inside`
    lean: float = _LEAN[0]  # how far relations go on inside bins: 1 is as straight lines
    lines: Mapping[int, Lines] = field(default_factory=dict)  # by number
    products: Products = field(default_factory=Products)  # with numbers, where released
    gone: Cells = field(default_factory=dict)  # see `_Statistics`

    def of(self, *attributes: int) -> Floats:
        """Return the table of some attributes, in this order."""
        clique = tuple(sorted(attributes))
        return self.cells[clique].transpose([clique.index(a) for a in attributes])

    def parted(self, at: int, chances: Mapping[Clique, Floats]) -> Tables:
        """Return the same with rows in which an attribute is missing apart: see `Released`."""
        cells = dict(self.cells)
        for clique, chance in chances.items():
            axis = clique.index(at)
            table = _apart(np.moveaxis(cells[clique], axis, 0), chance)
            cells[clique] = np.moveaxis(table, 0, axis)

        def apart(c: int, vector: Floats) -> Floats:
            return _apart(vector, chances[at,]) if c == at else vector

        return replace(self, cells=cells, products=self.products.on(apart))


def _apart(table: Floats, chance: Floats) -> Floats:
    """Return a table in which a part of the first codes stands apart, after them."""
    first = table[: len(chance)]
    gone = first * chance
    return np.concatenate([first - gone, gone, table[len(chance) :]])


@dataclass(frozen=True, eq=False)
class _Statistics:
    """Tables on groups of levels, and products with numbers, of complete rows."""

    cells: Cells
    products: Products = field(default_factory=Products)
    # By one, and by one and another, at each level of which they are: shares of rows in which the
    # first is missing, and in which it is applicable.
    gone: Cells = field(default_factory=dict)


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
    hiding: Mapping[int, Tables]  # by number, with `Inside.most`

    def _missing(self, clique: Clique, at: int) -> Floats:
        """Return how often an attribute is missing in rows of each cell, as the model has it."""
        source, axis = self.source, clique.index(at)
        shape = tuple(source.levels[v].n_groups for v in clique)
        gone = source.holes[:, at].astype(float)
        found = _share_of(source.rows, clique, shape, gone)
        for place, v in enumerate(clique):
            found = found.take(source.levels[v].groups, axis=place)
        for place, v in enumerate(clique):
            if v in self.inside:
                size, home = len(self.inside[v].shares), self.inside[v].beyond.home
                codes = [*range(size), *home, *range(size, found.shape[place])]
                found = found.take(codes, axis=place)
        return np.moveaxis(found, axis, 0)

    def parted(self, at: int, codes: int) -> Released:
        """Return the same with rows that lack an attribute apart: after the first ``codes``."""
        chances = {c: self._missing(c, at)[:codes] for c in self.point.cells if at in c}

        def parted(draws: Iterable[Tables]) -> tuple[Tables, ...]:
            return tuple(tables.parted(at, chances) for tables in draws)

        point, observed = parted((self.point, self.observed))
        noise, sampled, complete = map(parted, (self.noise, self.sampled, self.complete))
        hiding = {a: tables.parted(at, chances) for a, tables in self.hiding.items()}
        return replace(
            self,
            point=point,
            observed=observed,
            noise=noise,
            sampled=sampled,
            complete=complete,
            hiding=hiding,
        )


_KNOWN: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()


@one_blas_thread()
def released_by(model: Synthesizer, cliques: Iterable[tuple[str, ...]]) -> Released:
    """Return what a fitted model tells of sets of attributes; refuse one that tells nothing."""
    if model.fitted_.tables is None or not isinstance(model, AIM | MST | AllPairs):
        raise ParameterError(
            f"{type(model).__name__} keeps no statistics to estimate from; AllPairs, AIM and MST do"
        )
    if model.applied_strategy.fills:
        raise ParameterError(
            f"missing={model.missing!r} fills values before anything is counted, and no interval "
            "knows of that; fit with missing='joint'"
        )
    names = model.modelled_.names
    wanted = tuple(sorted({tuple(sorted(map(names.index, c))) for c in cliques}))
    _check_measured(model, wanted)
    known = _KNOWN.setdefault(model.model_, {})
    if wanted not in known:
        if () not in known:
            known[()] = _Source(model)
        for oldest in [asked for asked in known if asked][: max(0, len(known) - _KEPT)]:
            del known[oldest]  # the tables of many questions are hundreds of megabytes
        known[wanted] = _released(known[()].about(wanted), model, wanted)
    found: Released = known[wanted]
    return found


def released_of_one(model: Synthesizer, name: str, *, draws: int) -> Released:
    """Return what `released_by` returns of one attribute, from fewer draws, for a plan.

    Pairs that the attribute is not in are left out, and missing cells of others. For made-up
    rows, whose cells are missing completely at random, they add nothing.

    Parameters
    ----------
    model : Synthesizer
        A fitted model.
    name : str
        The attribute.
    draws : int
        How many draws to make.

    Returns
    -------
    Released
        The tables of the attribute, and draws of them.

    Raises
    ------
    ParameterError
        If the family keeps no statistics.
    """
    if not isinstance(model, AIM | MST | AllPairs):
        raise ParameterError(f"{type(model).__name__} keeps no statistics to estimate from")
    clique = (model.modelled_.names.index(name),)
    source = _Source(model)
    source.n_draws = draws
    return _released(source.about_one(clique[0]), model, (clique,))


def _check_measured(model: AIM | MST | AllPairs, wanted: Sequence[Clique]) -> None:
    """Refuse what was not measured, and is not in the workload, before anything is computed."""
    known = [*model.tables_.together, *candidates(model.workload, model.modelled_)]
    every_pair = isinstance(model, AllPairs)
    for clique in wanted:
        if not ((every_pair and len(clique) < 3) or _within(clique, known)):
            names = model.modelled_.names
            raise ParameterError(
                f"{', '.join(names[a] for a in clique)} are not together in the workload: name "
                "them in workload= of AllPairs or AIM"
            )


class _Source:
    """What a release says of complete rows, and what it would say had it come out otherwise."""

    n_draws: int = _DRAWS
    rows: Ints  # (n, d): of the model, which play the private ones
    holes: Flags  # what is missing in them
    levels: Sequence[Levels]
    n_rows: float
    noise: float  # of the share of a cell of two attributes
    flags: tuple[str, ...] = ()
    _release: PairRelease | NoisyMarginals
    _wanted: Sequence[Clique] = ()

    _of: list[int]
    _ordered: list[bool]
    _lost: Taken | None
    _known: PairTables
    _moments: NumberMoments | None
    _alone: int | None = None  # the place of the one attribute that is asked for

    def __init__(self, model: AIM | MST | AllPairs) -> None:
        fitted: Any = model.model_
        self._design = model.fitted_.design
        self._insides: dict[tuple[int, bytes], Inside] = {}  # shared by copies
        self._whole: PairRelease | NoisyMarginals = model.tables_
        self._names = model.modelled_.names
        self._masks, self._rng = fitted.masks, np.random.default_rng(0)  # public: any points do
        self._ordered = ordered_levels(model.modelled_, self._whole.levels)
        self.levels, self.n_rows = fitted.levels, self._whole.rows
        self.noise = self._whole.cell_std / self.n_rows
        named = zip(self.levels, self._names, strict=True)
        self._applied = [np.unique(x.groups[: model.schema_[name].size]) for x, name in named]
        self.rows = fitted.law.sample(_ROWS, self._rng)
        self.holes = self._masks.draw(self.rows, self._rng)
        self._seen = np.where(self.holes, [level.n_groups for level in self.levels], self.rows)
        self._taken: Taken | None = self._whole.taken(self._seen)
        self._left = self._whole.left(self._seen)
        self._told = self._whole.moments(self._taken)
        self._numbers = {} if self._told is None else self._whole.numbered
        self._rows, self._holes = self.rows, self.holes  # for the point; draws tell how it varies
        self.rows, self._seen = self._rows[:_FEWER], self._seen[:_FEWER]
        self.holes = self.holes[:_FEWER]
        finer = finely_drawn(self._numbers, self.rows, self._rng)
        self._z = {a: number.z[finer[:, a]] for a, number in self._numbers.items()}
        self._about([*range(len(self.levels))])

    @cached_property
    def draws(self) -> list[tuple[Floats, _Statistics, _Statistics]]:
        """Weights of rows, what other noise and what rows of these weights would have made."""
        rng, n = np.random.default_rng(1), len(self.rows)  # public: draws tell how numbers vary
        found = []
        for _ in range(self.n_draws):
            weights = rng.normal(size=n) * np.sqrt(self._design / (self.n_rows * n))
            weights -= weights.mean()
            found.append((weights, self.noisy(rng), self.resampled(weights)))
        return found

    def inside(self, model: Synthesizer, at: int, margin: Floats) -> Inside:
        """Return how a number lies inside its bins; it takes long, and questions share it."""
        key = at, margin.tobytes()
        if key not in self._insides:
            holes, sums = self.holes[:, at], self.sums(at)
            self._insides[key] = Inside.of(
                model, at, margin, n_rows=self.n_rows, holes=holes, sums=sums
            )
        return self._insides[key]

    def about(self, wanted: Sequence[Clique]) -> Self:
        """Return the same for some attributes; for all of them, if values are missing."""
        found = copy.copy(self)
        found._wanted = wanted
        if isinstance(self._whole, NoisyMarginals):
            found._suppose([c for c in wanted if not _within(c, self._whole.counts)])
            return found._about([*range(len(self.levels))])
        if self._masks.present.any():
            return found
        return found._about(sorted({a for clique in wanted for a in clique}))

    def _suppose(self, unmeasured: Sequence[Clique]) -> None:
        """Take marginals from the model where it was right enough for nothing to be measured.

        What is selected is off by more than the noise of its cells adds up to. A trend that is off
        by less is not, and adds up in a mean, where noise does not.
        """
        for clique in (c for c in unmeasured if len(c) > 1):
            assert isinstance(self._whole, NoisyMarginals)
            shape, n = self._whole.shape(clique), len(self._seen)
            counts = counted(self._seen, clique, shape, np.full(n, self.n_rows / n))
            off = max(1.0, _UNCHOSEN * math.sqrt(counts.size))
            self._whole = self._whole.add(clique, counts, off * self.noise * self.n_rows)
            self.flags += (
                f"{', '.join(self._names[a] for a in clique)} were not measured together, since "
                "other pairs seemed worse: taken from the model, which loses weak relations.",
            )

    def about_one(self, at: int) -> Self:
        """Return the same for one attribute, as `released_of_one` says."""
        found, present = copy.copy(self), self._masks.present
        if not present[at]:
            found._masks = MissingnessModel(np.zeros(len(present)))
            return found.about(((at,),))
        found._masks = MissingnessModel(
            np.where(np.arange(len(present)) == at, self._masks.rates, 0.0)
        )
        found._alone = at
        return found

    def _about(self, of: list[int]) -> Self:
        self._of, self._release, self._lost = of, self._whole, None
        if isinstance(self._whole, PairRelease):
            self._release = self._whole.about(of)
        if self._taken is not None:
            pairs = {(i, j): (a, b) for (i, a), (j, b) in combinations(enumerate(of), 2)}
            lost = {place: self._taken.pairs[pair] for place, pair in pairs.items()}
            self._lost = Taken([self._taken.single[a] for a in of], lost)
        self._known = self._release.tables(self._lost)
        self._moments = None if self._told is None else about(self._told, of)
        return self

    def _completed(
        self,
        tables: PairTables,
        moments: NumberMoments | None,
        together: Mapping[Clique, Floats],
        rows: int = _FEWER,
    ) -> _Statistics:
        of, holed = self._of, bool(self._masks.present.any())
        drawn = self._rows[:rows, of]
        if self._alone is not None:
            tables = _with_one(tables, self._alone)
        found = complete(
            tables,
            ModelFacts(ordered=[self._ordered[a] for a in of]),
            rng=self._rng,
            draw=lambda _: drawn,
            rounds=int(holed),
            start=self._masks if holed else MissingnessModel(np.zeros(len(of))),
        )
        cells: dict[Clique, Floats] = {(of[i],): m for i, m in enumerate(found.margins)}
        for (i, j), moment in found.pairs.items():
            cells[of[i], of[j]] = moment + np.outer(found.margins[i], found.margins[j])
        if together:
            holes = found.masks, drawn, tables.sizes
            several = of_several(together, {}, *holes, leaned=False)
            cells |= {tuple(of[i] for i in c): table for c, table in several.items()}
        cells |= {c: _summed(cells, c) for c in self._wanted if c not in cells}
        gone = self._gone(tables)
        if moments is None:
            return _Statistics(cells, gone=gone)
        numbers = {i: self._numbers[a] for i, a in enumerate(of) if a in self._numbers}
        told = _completed(moments, numbers, found, drawn, self._holes[:rows, of])
        return _Statistics(cells, told.renamed(of), gone)

    def _gone(self, tables: PairTables) -> Cells:
        """Return where each attribute is missing, by itself and at the levels of others."""
        found: dict[Clique, Floats] = {}
        turned = {(j, i): table.T for (i, j), table in tables.tables.items()}
        alone = {(i, i): margin[:, None] for i, margin in enumerate(tables.margins)}
        for (i, j), table in (turned | alone | {**tables.tables}).items():
            a, size = self._of[i], tables.sizes[i]
            if len(table) > size:
                rows = table[:, : tables.sizes[j]]
                whole = rows[self._applied[a]].sum(axis=0) + rows[size]
                found[(a, self._of[j])[: 1 + (i != j)]] = np.stack([rows[size], whole])
        return found

    def sums(self, at: int) -> Sums | None:
        """Return what was released of a number beside its bins."""
        if at not in self._numbers or self._told is None:
            return None
        assert isinstance(self._whole, PairRelease)  # numbers are measured with all pairs
        level, place = self.levels[at], self._of.index(at)
        law = self._known.margins[place][level.groups] * level.shares
        seen = float(self._known.margins[place][: level.n_groups].sum())
        (mean, std), (powers, stds) = self._told.means[at], self._told.powers[at]
        number, left = self._numbers[at], float(self._left[0][at])
        alone = stds[0] * number.factors[0] * self.n_rows
        law_std = (self._whole.one_way.std**-2 + alone**-2) ** -0.5
        kept = self._whole.left_of(at, self._seen)
        codes = np.bincount(self._seen[:, at], minlength=level.n_groups)[number.groups]
        put_back = found_alone(number) @ ((1 - kept) * number.shares * codes / len(self._seen))
        unsure = np.hypot([std, *stds], CLIPPED * (1 - left))
        return Sums(
            number,
            kept,
            (np.array([mean, powers[0], powers[1] - seen]) - put_back) / seen,
            unsure / seen,
            law / seen,
            law_std / self.n_rows / (seen * left),
        )

    def point(self) -> _Statistics:
        """Return what was released, unshrunk."""
        return self._completed(self._known, self._moments, self._release.together, _ROWS)

    def observed(self) -> _Statistics:
        """Return the same with observed values taken for all."""
        sizes, of, known = self._known.sizes, self._of, self._known
        cells: dict[Clique, Floats] = {(of[i],): m[: sizes[i]] for i, m in enumerate(known.margins)}
        cells |= {(of[i], of[j]): t[: sizes[i], : sizes[j]] for (i, j), t in known.tables.items()}
        for clique, table in self._release.together.items():
            inner = tuple(slice(sizes[i]) for i in clique)
            cells[tuple(of[i] for i in clique)] = table[inner]
        cells |= {c: _summed(cells, c) for c in self._wanted if c not in cells}
        products = Products()
        if self._moments is not None:
            seen = {c: float(table.sum()) for c, table in cells.items()}
            products = observed(self._moments, known.sizes, of, seen)
        shares = {c: table / table.sum() for c, table in cells.items()}
        return _Statistics(shares, products, self._gone(known))

    def noisy(self, rng: np.random.Generator) -> _Statistics:
        """Return what other noise would have made of it."""
        again, apart = self._release.redrawn(rng), rng.spawn(1)[0]
        of, left = self._of, self._left[1]
        share = {(i, j): left.get((of[i], of[j]), 1.0) for i, j in self._known.tables}
        moments = None if self._moments is None else noisy(self._moments, rng)
        tables = noisier(self._known, again.tables(self._lost), share)
        margins = tuple(  # a rate of less than two deviations was taken for none
            m + apart.normal(0.0, np.where(m > 0, std, 2 * std))
            for m, std in zip(self._known.margins, self._release.margin_stds, strict=True)
        )
        gone = self._gone(replace(tables, margins=margins))
        tables = replace(tables, margins=self._put_back(tables.margins, rng))
        return replace(self._completed(tables, moments, again.together), gone=gone)

    def _put_back(self, margins: Sequence[Floats], rng: np.random.Generator) -> tuple[Floats, ...]:
        """Return margins as they were if a model told otherwise what clipping takes from them."""
        if self._taken is None:
            return tuple(margins)
        moved = [
            margin
            + CLIPPED * (1 - self._left[0][a]) * np.sqrt(margin) * rng.normal(size=len(margin))
            for a, margin in zip(self._of, margins, strict=True)
        ]
        found = [np.maximum(margin, 0.0) for margin in moved]
        return tuple(margin / margin.sum() for margin in found)

    def resampled(self, weights: Floats) -> _Statistics:
        """Return what other rows would have made of it: with ``weights`` more of each of these."""
        seen, known, moments = self._seen[:, self._of], self._known, self._moments
        margins = [m + counted(seen, (i,), m.shape, weights) for i, m in enumerate(known.margins)]
        tables = {c: t + counted(seen, c, t.shape, weights) for c, t in known.tables.items()}
        if moments is not None:
            z = {
                i: np.where(self.holes[:, a], 0.0, self._z[a])
                for i, a in enumerate(self._of)
                if a in self._z
            }
            moments = _with_rows(moments, z, seen, weights)
        together = {
            c: t + self.n_rows * counted(seen, c, t.shape, weights)
            for c, t in self._release.together.items()
        }
        moved = replace(known, margins=tuple(margins), tables=tables)
        return self._completed(moved, moments, together)

    def plus(self, found: _Statistics, weights: Floats) -> _Statistics:
        """Return what so much more of each complete row would make of statistics."""
        cells = {c: t + counted(self.rows, c, t.shape, weights) for c, t in found.cells.items()}
        return _Statistics(cells, found.products.plus(self._z, self.rows, weights))


def _with_one(tables: PairTables, at: int) -> PairTables:
    """Return the tables of the pairs that one attribute is in; others are never missing there."""
    cut = [slice(None) if a == at else slice(size) for a, size in enumerate(tables.sizes)]
    pairs = [pair for pair in tables.tables if at in pair]
    return replace(
        tables,
        margins=tuple(margin[own] for margin, own in zip(tables.margins, cut, strict=True)),
        tables={(a, b): tables.tables[a, b][cut[a], cut[b]] for a, b in pairs},
        variances={(a, b): tables.variances[a, b][cut[a], cut[b]] for a, b in pairs},
    )


def _with_rows(
    moments: NumberMoments, z: Mapping[int, Floats], seen: Ints, weights: Floats
) -> NumberMoments:
    """Return the moments that so much more of each observed row would make."""
    by_level = {
        (a, c): (found + np.bincount(seen[:, c], weights * z[a], len(found)), std)
        for (a, c), (found, std) in moments.by_level.items()
    }
    both = {
        (a, b): (found + float(weights @ (z[a] * z[b])), std)
        for (a, b), (found, std) in moments.both.items()
    }
    return replace(moments, by_level=by_level, both=both)


def _completed(
    moments: NumberMoments,
    numbers: Mapping[int, Coordinate],
    known: Completed,
    rows: Ints,
    holes: Flags,
) -> Products:
    """Return what moments of observed cells say of complete rows: see `complete_numbers`."""
    levels = {a: number.levels for a, number in numbers.items()}
    mean, inside = ({a: found[k] for a, found in levels.items()} for k in (0, 1))
    found = complete_numbers(moments, mean, inside, known.margins, rows, holes, known.masks)
    middle = {a: float(known.margins[a] @ level) for a, level in mean.items()}
    by_level = {
        (a, c): told + middle[a] * known.margins[c] for (a, c), (told, _) in found.by_level.items()
    }
    both = {(a, b): told + middle[a] * middle[b] for (a, b), (told, _) in found.both.items()}
    return Products(middle, by_level, both)


def _share_of(rows: Ints, clique: Clique, shape: tuple[int, ...], chosen: Floats) -> Floats:
    """Return the share of rows in each cell that are chosen, drawn towards that of all rows."""
    number = counted(rows, clique, shape, np.ones(len(chosen)))
    found = counted(rows, clique, shape, chosen) + _PRIOR_ROWS * chosen.mean()
    return np.asarray(found / (number + _PRIOR_ROWS))


def _within(clique: Clique, known: Iterable[Clique]) -> bool:
    """Whether a set of attributes is a part of one that was measured."""
    return len(clique) < 2 or any({*clique} <= {*one} for one in known)


def _summed(cells: Cells, clique: Clique) -> Floats:
    """Return a table as a sum over a larger one."""
    larger = min((c for c in cells if {*clique} <= {*c}), key=len)
    others = tuple(i for i, a in enumerate(larger) if a not in clique)
    return np.asarray(cells[larger].sum(axis=others))


def _released(source: _Source, model: Synthesizer, wanted: Sequence[Clique]) -> Released:
    """Return what a source tells, on declared codes, and draws around it."""
    rng = np.random.default_rng(2)
    cliques = [*{(a,): None for clique in wanted for a in clique}, *(c for c in wanted if c[1:])]
    exact = source.point()
    exact = replace(exact, cells={c: exact.cells[c] for c in cliques})
    point = {c: _declared(source.levels, c, exact.cells[c]) for c in cliques}
    inside = {
        at: source.inside(model, at, point[at,])
        for (at,) in (c for c in cliques if not c[1:])
        if isinstance(model.schema_[model.modelled_.names[at]], Numeric)
    }

    def tables(found: _Statistics, moves: Mapping[int, Move], lean: float = _LEAN[0]) -> Tables:
        known = {c: _declared(source.levels, c, found.cells[c]) for c in cliques}
        products = found.products.among(cliques).on(
            lambda c, vector: _hidden(_declared(source.levels, (c,), vector), c, known[c,], moves)
        )
        for at, move in moves.items():
            known[at,][: len(inside[at].shares)] += move.margin
        for clique in known:
            for axis, at in enumerate(clique):
                if at in inside:
                    known[clique] = inside[at].hiding(known[clique], axis, moves[at], rng)
        weights = {at: move.weights for at, move in moves.items()}
        gone = {
            c: np.stack([_declared(source.levels, c[1:], row) for row in both])
            for c, both in found.gone.items()
            if tuple(sorted(c)) in cliques
        }
        return Tables(known, weights, lean, lines, products, gone)

    def _hidden(vector: Floats, c: int, margin: Floats, moves: Mapping[int, Move]) -> Floats:
        return inside[c].hiding_of(vector, margin, moves[c], rng) if c in inside else vector

    even = {at: one.even for at, one in inside.items()}
    lines: dict[int, Lines] = {}
    for at, one in inside.items():
        law = one.hiding(point[at,], 0, even[at], rng)
        codes = len(one.shares) + len(one.beyond.home)
        parts = one.values, even[at].weights, law[:codes], one.home
        lines[at] = Lines.of(*parts, noise=source.noise)

    noise, sampled, complete_ = [], [], []
    for weights, noisier_, resampled in source.draws:
        off = {a: noisier_.cells[a,] - exact.cells[a,] for a in inside}
        moves = {
            a: one.noisy(rng, _declared(source.levels, (a,), off[a])) for a, one in inside.items()
        }
        noise.append(tables(noisier_, moves, rng.normal(*_LEAN)))
        jitter = {at: one.jitter(rng) for at, one in inside.items()}
        moves = {at: one.resampled(jitter[at], one.seen) for at, one in inside.items()}
        sampled.append(tables(resampled, moves))
        moves = {at: one.resampled(jitter[at], 1.0) for at, one in inside.items()}
        complete_.append(tables(replace(source.plus(exact, weights), gone=resampled.gone), moves))
    whole, plain = tables(exact, even), tables(source.observed(), even)
    sets = tuple(noise), tuple(sampled), tuple(complete_)
    size = model.fitted_.size
    weighed = size is not None and size.weight is not None
    rows = source.n_rows / (model.fitted_.design if weighed else 1.0)  # that tell as much
    hiding = {a: tables(exact, even | {a: x.most[0]}) for a, x in inside.items() if x.most}
    return Released(whole, plain, *sets, rows, source.flags, source, inside, hiding)


def _declared(levels: Sequence[Levels], clique: Clique, table: Floats) -> Floats:
    """Return a table on declared codes: levels of a group have their shares of it."""
    for axis, v in enumerate(clique):
        along = [-1 if i == axis else 1 for i in range(len(clique))]
        table = table.take(levels[v].groups, axis=axis) * levels[v].shares.reshape(along)
    return table
