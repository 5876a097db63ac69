"""Tables of the complete data, estimated from tables of all pairs in which values are missing.

Every released table of two attributes has a level for missing values. How often one attribute is
missing at each level of another gives a model of the masks (`missdp.inference.missingness`). Tables
of the observed values, divided by the chance to be observed, give those of the complete data, as
in inverse probability weighting (Robins, Rotnitzky and Zhao 1994). That chance, given two values,
depends on all the others, so that it is a mean over rows drawn from the model of the complete data:
both models are fitted in turns. This corrects for values that are missing at random in so far as
the model of the masks holds. Where released rates do not differ by more than noise, values are
taken to be missing completely at random, and the tables stay as they were observed.

Everything here is a function of released values.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TypeAlias

import numpy as np

from missdp.inference.counts import averaged
from missdp.inference.fit_heads import fit_tree
from missdp.inference.heads import Pair
from missdp.inference.missing_rates import RatesByLevel
from missdp.inference.missingness import MissingnessModel
from missdp.inference.model import cell_index
from missdp.inference.raking import centred, centred_share, rake, resample, shrunk
from missdp.types import Clique, Flags, Floats, Ints


@dataclass(frozen=True, eq=False)
class PairTables:
    """Noisy shares of the rows in all cells of every attribute and every pair of attributes.

    Released values with the variance of their noise; `missdp.inference.completion` tells what they
    say of complete rows.

    * ``sizes``: Levels of each attribute, without "missing".
    * ``margins``: Share of the rows at each level and, if the attribute may be missing, missing;
      nowhere negative.
    * ``tables`` (by (attribute, attribute)): The same for every two attributes; noise makes some
      negative.
    * ``variances`` (by (attribute, attribute)): Variance of the noise of each share, less what the
      margins tell.
    * ``n_rows``: Number of rows, as far as it is known.
    * ``both_missing`` (by (attribute, attribute)): Share of the rows in which both are missing, and
      its noise, if it was released beside the tables.
    * ``missing_by_two``: How often an attribute is missing by the levels of two others, if the
      three were measured together.
    """

    sizes: tuple[int, ...]
    margins: tuple[Floats, ...]
    tables: Mapping[Pair, Floats]
    variances: Mapping[Pair, Floats]
    n_rows: float
    both_missing: Mapping[Pair, tuple[float, float]] = field(default_factory=dict)
    missing_by_two: Mapping[Clique, RatesByLevel] = field(default_factory=dict)

    @property
    def rates(self) -> Floats:
        """Share of the rows in which each attribute is missing."""
        return np.array([m[s:].sum() for m, s in zip(self.margins, self.sizes, strict=True)])


_CELLS_AT_ONCE = 4_000_000  # of indicators: 32 MB
_LEAST_CHANCE = 0.02  # no chance to be observed is smaller
_STILL = 0.1  # standard deviations of noise, below which tables no longer move
_ENOUGH = 0.2  # chance to be observed, below which a model stands for what is not
_STEADY = 0.5  # the same of levels, of which pairs have cells with less chance than that
_LEAST_SHARE = 1e-7
_LEAST_VARIANCE, _NOTHING = 1e-30, 1e-14  # of shares; below the second, nothing has moved
_LEAST_DEGREES = 0.01  # an attribute of one level has none
_RIDGE = 0.1  # see `MissingnessModel.learn`
_PRIOR_ROWS = 5.0  # strength with which a cell's chance leans on those of its two levels
_QUIET = 0.05  # noise of a margin, as a share of the rows, below which its square is nothing
_PLAINLY = 3.0  # standard deviations of what noise adds up to
_SWEEPS, _MANY = 11, 22  # of learning the model of missing cells, and where it begins
_STARTING = 2  # rounds, at first by rows in which selection is not yet corrected
_RAKING = 8
_LEAST_EFFECTIVE = 0.1  # rows of those drawn: noisy tables of many pairs may contradict each other
_LEAST_BASE = 0.1  # of independence: what few rows of a model lack may still be there
_ROWS = 30_000
_FEWEST = 6_000  # rows
_PAIRS = 200  # of attributes, beyond which fewer rows are looked at
_TIMES = 20  # as many rows as are known


@dataclass(frozen=True, eq=False)
class Completed:
    """What noisy tables with missing values say of complete rows.

    * ``margins``: One-way margin of each attribute, adding up to 1.
    * ``pairs`` (by (attribute, attribute)): Table of each pair less the product of its margins.
    * ``variances`` (by (attribute, attribute)): Variance of the noise of each cell; an error of the
      masks comes on top.
    * ``masks``: Which cells go missing, given the complete row.
    * ``n_rows``: Number of rows, as far as it is known.
    """

    margins: tuple[Floats, ...]
    pairs: Mapping[Pair, Floats]
    variances: Mapping[Pair, Floats]
    masks: MissingnessModel
    n_rows: float

    @property
    def stds(self) -> dict[Clique, float | Floats]:
        """Standard deviation of the noise of each cell before centring, in shares of rows."""
        found: dict[Clique, float | Floats] = {}
        for (a, b), variance in self.variances.items():
            degrees = centred_share((len(self.margins[a]), len(self.margins[b])))
            found[a, b] = np.sqrt(variance / max(degrees, _LEAST_DEGREES))
        return found


@dataclass(frozen=True, eq=False)
class ModelFacts:
    """Public facts, on released groups of levels, under which a model of rows is fitted.

    * ``ordered``: Which attributes have levels in an order. Dependence is shrunk to what is smooth
      in them.
    * ``always``: By position of an attribute, the group of levels that is never missing.
    * ``implied_by``: By position of an attribute with a level that follows from others, these
      others.
    * ``allowed``: By pair, which cells are possible.
    * ``selective``: Whether missing values may depend on values. If not, the rows observed on a
      pair stand for all rows.
    """

    ordered: Sequence[bool] = ()
    always: Mapping[int, int] = field(default_factory=dict)
    implied_by: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    allowed: Mapping[Pair, Flags] = field(default_factory=dict)
    selective: bool = True


_Rates: TypeAlias = tuple[dict[Clique, RatesByLevel], dict[Pair, tuple[float, float]]]


class PairCounts:
    """Numbers of rows by the levels of two attributes, plain and weighted.

    * ``rows`` (shape (d, n)): Synthetic rows.
    * ``weights`` (shape (d, n)): Weight of each cell; a row has the product of both in a pair.
    * ``sizes``: Levels of each attribute.
    """

    def __init__(self, rows: Ints, weights: Floats, sizes: Sequence[int]) -> None:
        self._ends = np.cumsum([0, *sizes])
        width, n = int(self._ends[-1]), rows.shape[1]
        # Single precision is twice as fast. Whole numbers up to 2^24 are exact in it, and weights
        # are chances to be observed, whose own error is far larger.
        self._counts, self._weighted = np.zeros((width, width)), np.zeros((width, width))
        step = max(1, _CELLS_AT_ONCE // width)
        column = rows + self._ends[:-1, np.newaxis]
        for start in range(0, n, step):
            part = column[:, start : start + step]
            at = np.arange(part.shape[1])
            ones = np.zeros((part.shape[1], width), dtype=np.float32)
            ones[at, part] = 1.0
            self._counts += ones.T @ ones
            table = np.zeros((part.shape[1], width), dtype=np.float32)
            table[at, part] = weights[:, start : start + step]
            self._weighted += table.T @ table

    def of(self, a: int, b: int) -> tuple[Floats, Floats]:
        """Return both counts of a pair, flat, ``b`` running fastest."""
        block = slice(*self._ends[a : a + 2]), slice(*self._ends[b : b + 2])
        return self._counts[block].ravel(), self._weighted[block].ravel()


def complete(
    tables: PairTables,
    facts: ModelFacts,
    *,
    rng: np.random.Generator,
    draw: Callable[[Completed], Ints] | None = None,
    rounds: int = 3,
) -> Completed:
    """Return what noisy tables with missing cells say of complete rows, and a model of these cells.

    Parameters
    ----------
    tables : PairTables
        The noisy tables.
    facts : ModelFacts
        Public facts.
    rng : numpy.random.Generator
        Draws rows, if ``draw`` is None.
    draw : callable, optional
        Returns rows of a model of complete rows, given what is known of them so far.
    rounds : int, default 3
        How often the model of missing cells is learned. With 0, cells are taken to be missing
        completely at random.

    Returns
    -------
    Completed
    """
    masks = _masks(tables, facts, None)
    none = np.zeros((0, len(tables.sizes)), dtype=np.int64)
    known = _corrected(tables, none, masks)
    enough = rows_enough(_ROWS, attributes=len(tables.sizes), known=tables.n_rows)
    if not rounds or not masks.present.any():
        return known
    rates = _released_rates(tables, masks.present)
    for turn in range(rounds):
        rows = tree_rows(known, rng, n=enough) if draw is None else draw(known)
        sweeps, first = _SWEEPS if turn else _MANY, turn < _STARTING
        before, known = known, _learned(tables, rates, rows, masks, sweeps=sweeps, start=first)
        if turn >= _STARTING and moved(before.pairs, known.pairs, known.variances) <= _STILL:
            break
    return known


def complete_by(
    tables: PairTables,
    facts: ModelFacts,
    rows: Ints,
    *,
    start: MissingnessModel | None = None,
    sweeps: int | None = None,
) -> Completed:
    """Return what noisy tables with missing cells say of complete rows, by rows of a model of them.

    Parameters
    ----------
    tables : PairTables
        The noisy tables.
    facts : ModelFacts
        Public facts.
    rows : ndarray of int64, shape (n, d)
        Rows of a model of complete rows.
    start : MissingnessModel, optional
        The model of missing cells to begin with. None: cells are missing completely at random.
    sweeps : int, optional
        Sweeps of learning that model, 11 by default.

    Returns
    -------
    Completed
    """
    masks = _masks(tables, facts, start)
    if start is None or not masks.present.any():
        return _corrected(tables, rows[:0], masks)
    rates = _released_rates(tables, masks.present)
    return _learned(tables, rates, rows, masks, sweeps=sweeps or _SWEEPS, start=False)


def _masks(
    tables: PairTables, facts: ModelFacts, start: MissingnessModel | None
) -> MissingnessModel:
    """Return a model of missing cells to be learned, with the rates of the tables."""
    rates = np.clip(tables.rates, 0.0, 1 - _LEAST_CHANCE)
    if start is None:
        return MissingnessModel(rates, dict(facts.always), implied_by=dict(facts.implied_by))
    masks = copy.deepcopy(start)
    masks.rates = rates
    return masks


def _released_rates(tables: PairTables, present: Flags) -> _Rates:
    """Return how often cells are missing by levels of others, and two of them together."""
    by_level = _rates_by_level(tables, present)
    by_level |= {e: s for e, s in tables.missing_by_two.items() if present[e[0]]}
    return by_level, _both_missing(tables)


def _learned(
    tables: PairTables,
    rates: _Rates,
    rows: Ints,
    masks: MissingnessModel,
    *,
    sweeps: int,
    start: bool,
) -> Completed:
    """Learn the model of missing cells further, and correct the tables by it."""
    by_level, both = rates
    masks.learn(
        rows,
        tables.n_rows,
        by_level,
        both=both,
        ridge=_RIDGE,
        sweeps=sweeps,
        start=start,
    )
    return _corrected(tables, rows, masks)


def moved(
    before: Mapping[Pair, Floats], after: Mapping[Pair, Floats], variances: Mapping[Pair, Floats]
) -> float:
    """By how many standard deviations of their noise tables have moved, on average over pairs.

    Parameters
    ----------
    before, after : mapping of (int, int) to ndarray
        Tables of pairs of attributes, in shares of rows.
    variances : mapping of (int, int) to ndarray
        Variance of the noise of each share.

    Returns
    -------
    float
    """
    moves = [
        float(np.square(table - before[pair]).mean()) / max(_NOTHING, float(variances[pair].mean()))
        for pair, table in after.items()
    ]
    return math.sqrt(np.mean(moves)) if moves else 0.0


def rows_enough(n: int, *, attributes: int = 0, known: float = np.inf) -> int:
    """Return how many of n rows of a model are enough to look at.

    What they are drawn for are means. With many attributes, work grows with the pairs, and the
    noise of pairs is larger by far than that of fewer rows; and where few private rows are known,
    these vary more among themselves than twenty times as many of a model.
    """
    pairs = attributes * (attributes - 1) // 2
    enough = min(n * _PAIRS / max(1, pairs), _TIMES * max(0.0, known))
    return min(n, int(max(_FEWEST, enough)))


def tree_rows(
    known: Completed,
    rng: np.random.Generator,
    *,
    n: int = _ROWS,
) -> Ints:
    """Draw rows quickly: from a tree of pairs, chosen so that the tables of all pairs hold.

    Parameters
    ----------
    known : Completed
        Tables of complete rows.
    rng : numpy.random.Generator
        Draws the rows.
    n : int, default 30,000
        Number of rows.

    Returns
    -------
    ndarray of int64, shape (n, d)
    """
    rows, weights = weighted_tree_rows(known, rng, n=n)
    drawn: Ints = rows[resample(weights, n, rng)]
    return drawn


def weighted_tree_rows(
    known: Completed, rng: np.random.Generator, *, n: int
) -> tuple[Ints, Floats]:
    """Draw rows from a tree of pairs, and weigh them so that the tables of all pairs hold.

    Parameters
    ----------
    known : Completed
        Tables of complete rows.
    rng : numpy.random.Generator
        Draws the rows.
    n : int
        Number of rows.

    Returns
    -------
    rows : ndarray of int64, shape (n, d)
    weights : ndarray of float64, shape (n,)
        Share of each row.
    """
    margins, noisy, products = known.margins, dict[Clique, Floats](), dict[Clique, Floats]()
    for (a, b), moment in known.pairs.items():
        products[a, b] = np.outer(margins[a], margins[b])
        noisy[a, b] = moment + products[a, b]
    wanted = shrunk(noisy, products, known.stds)
    rows = fit_tree(margins, {(a, b): wanted[a, b] for a, b in known.pairs}).sample(n, rng)
    return rows, rake(rows, wanted, sweeps=_RAKING, least_share=_LEAST_EFFECTIVE)


def _rates_by_level(tables: PairTables, present: Flags) -> dict[Clique, RatesByLevel]:
    """How often each attribute is missing at each observed level of each other."""
    found: dict[Clique, RatesByLevel] = {}
    for (one, other), table in tables.tables.items():
        noise = tables.variances[one, other]
        for a, b, cells, variance in ((one, other, table, noise), (other, one, table.T, noise.T)):
            if present[a] and len(cells) > tables.sizes[a]:
                found[a, b] = _rates(tables, a, b, cells, variance)
    return found


def _rates(tables: PairTables, a: int, b: int, cells: Floats, variance: Floats) -> RatesByLevel:
    missing, levels = tables.sizes[a], tables.sizes[b]
    n = tables.n_rows
    std = n * float(np.sqrt(max(_LEAST_VARIANCE, variance[missing, :levels].mean())))
    rate = max(float(tables.margins[a][missing:].sum()), 1e-6)
    # Rows are counted by the margin, whose noise is small, and not by the sum of such a table. In
    # a sum the noise of missing values would be that of a part: so many cells make up for that.
    return RatesByLevel(
        cells[missing, :levels] * n, tables.margins[b][:levels] * n, std, (2 - rate) / rate
    )


def _both_missing(tables: PairTables) -> dict[tuple[int, int], tuple[float, float]]:
    """Rows in which two attributes are both missing, and the noise of their number."""
    found = {}
    for (a, b), table in tables.tables.items():
        at = tables.sizes[a], tables.sizes[b]
        if table.shape == (at[0] + 1, at[1] + 1):
            std = tables.n_rows * float(np.sqrt(tables.variances[a, b][at]))
            found[a, b] = tables.n_rows * float(table[at]), std
    for pair, (share, noise) in tables.both_missing.items():
        new = tables.n_rows * share, tables.n_rows * noise
        found[pair] = averaged(found[pair], new) if pair in found else new
    return found


def _corrected(tables: PairTables, rows: Ints, masks: MissingnessModel) -> Completed:
    """What the observed values say, over the chance to be observed."""
    missing = masks.missing(rows)
    seen = 1.0 - missing
    alone = [
        _alone(rows[:, a], seen[:, a], size, 1 - float(masks.rates[a]))
        for a, size in enumerate(tables.sizes)
    ]
    chances, models = _chances(tables, rows, masks, missing, alone)
    margins = _margins(tables, rows, alone, chances)
    pairs, variances = {}, {}
    for (a, b), chance in chances.items():
        table, (one, other) = tables.tables[a, b], chance.shape
        whole = _whole(table[:one, :other], chance, models[a, b], _ENOUGH)
        pairs[a, b] = centred(whole - _independent(whole, chance, tables, (a, b), margins))
        noise = tables.variances[a, b][:one, :other] / chance**2
        variances[a, b] = np.maximum(noise, _LEAST_VARIANCE)
    return Completed(tuple(margins), pairs, variances, masks, tables.n_rows)


def _chances(
    tables: PairTables, rows: Ints, masks: MissingnessModel, missing: Floats, alone: list[Floats]
) -> tuple[dict[Pair, Floats], dict[Pair, Floats]]:
    """Return the chance of each cell of a pair to be observed, and its share of a model's rows."""
    columns, seen = np.ascontiguousarray(rows.T), np.ascontiguousarray(1.0 - missing.T)
    counts = PairCounts(columns, seen, tables.sizes)
    chances, models = dict[Pair, Floats](), dict[Pair, Floats]()
    for a, b in tables.tables:
        shape = tables.sizes[a], tables.sizes[b]
        number, weighted = (c.reshape(shape) for c in counts.of(a, b))
        if masks.tied((a, b)):
            each = masks.observed(rows, (a, b), missing)
            cells = rows[:, a] * shape[1] + rows[:, b]
            weighted = np.bincount(cells, each, number.size).astype(np.float64).reshape(shape)
        models[a, b] = number / max(1, len(rows))
        chance = weighted + _PRIOR_ROWS * np.outer(alone[a], alone[b])
        chance = chance / (number + _PRIOR_ROWS)
        chances[a, b] = np.minimum(np.maximum(chance, _LEAST_CHANCE), 1.0)
    return chances, models


def _margins(
    tables: PairTables, rows: Ints, alone: list[Floats], chances: Mapping[Pair, Floats]
) -> list[Floats]:
    """Return the margins of complete rows.

    The model's rows say how often a level is observed, and the quotient by that says how often the
    next model has the level. Where a model stands for most cells of a pair, such quotients would
    swing ever further from round to round. So it stands for a part of these levels, too.
    """
    hardly = [np.zeros(size, dtype=bool) for size in tables.sizes]
    for (a, b), chance in chances.items():
        hardly[a] |= (chance < _ENOUGH).any(axis=1)
        hardly[b] |= (chance < _ENOUGH).any(axis=0)
    margins = []
    for a, (margin, size) in enumerate(zip(tables.margins, tables.sizes, strict=True)):
        model = np.bincount(rows[:, a], minlength=size) / max(1, len(rows))
        lifted = _whole(margin[:size], alone[a], model, np.where(hardly[a], _STEADY, 0.0))
        lifted = np.maximum(lifted, _LEAST_SHARE)
        margins.append(lifted / lifted.sum())
    return margins


def _whole(observed: Floats, chance: Floats, model: Floats, enough: float | Floats) -> Floats:
    """Return what observed shares say of complete rows.

    Shares are divided by the chance to be observed. Where that is small, they would be little but
    noise, many times over: below the chance that is ``enough``, a model of complete rows stands for
    most of those that are not observed. If the model is right, both say the same.
    """
    divisor = np.maximum(chance, enough if model.any() else 0.0)
    whole: Floats = observed / divisor + model * (1 - chance / divisor)
    return whole


def _independent(
    whole: Floats, chance: Floats, tables: PairTables, pair: Pair, margins: Sequence[Floats]
) -> Floats:
    """Return the table of a pair of independent attributes that its own margins would make.

    Where values are missing, these carry the noise of the missing cells. The product of margins
    takes the same from the cells again, but for the product of two noises. Where few rows are known
    that is too large: it counts as far as margins differ from released ones by more than noise.
    """
    noise, (rows, columns) = tables.variances[pair], whole.shape
    alone = noise[:rows, columns:].sum(axis=1) / np.square(chance.mean(axis=1))
    other_alone = noise[rows:, :columns].sum(axis=0) / np.square(chance.mean(axis=0))
    if max(alone.sum(), other_alone.sum()) < _QUIET**2:
        total = max(_LEAST_CHANCE, float(whole.sum()))
        return np.asarray(np.outer(whole.sum(axis=1), whole.sum(axis=0)) / total)
    one, other = (margins[a] for a in pair)

    def linear(off: Floats, off_other: Floats) -> Floats:
        same = (1 - off.sum()) * np.outer(one, other)
        return np.asarray(same + np.outer(off, other) + np.outer(one, off_other))

    off, off_other = whole.sum(axis=1) - one, whole.sum(axis=0) - other
    ends = (
        np.maximum(one + _more_than_noise(off, alone), 0.0),
        np.maximum(other + _more_than_noise(off_other, other_alone), 0.0),
    )
    total = max(_LEAST_CHANCE, float(ends[0].sum() * ends[1].sum()) ** 0.5)
    beyond = np.outer(*ends) / total - linear(ends[0] - one, ends[1] - other)
    return np.asarray(linear(off, off_other) + beyond)


def _more_than_noise(off: Floats, noise: Floats) -> Floats:
    """Return differences, leaned on 0 by how much of them is noise."""
    square = float(np.square(off).sum())
    plain = float(noise.sum()) * (1 + _PLAINLY * np.sqrt(2 / len(off)))
    return off * max(0.0, 1 - plain / square) if square > 0 else off


def _alone(codes: Ints, seen: Floats, size: int, rate: float) -> Floats:
    """Chance to be observed at each level of one attribute."""
    number = np.bincount(codes, minlength=size) + _PRIOR_ROWS
    found = np.bincount(codes, weights=seen, minlength=size) + _PRIOR_ROWS * rate
    chance: Floats = np.maximum(found / number, _LEAST_CHANCE)
    return chance


def completed(
    counts: Mapping[Clique, Floats],
    stds: Mapping[Clique, float],
    masks: MissingnessModel,
    rows: Ints,
    sizes: Sequence[int],
    *,
    leaned: bool = True,
) -> dict[Clique, Floats]:
    """Return what noisy tables with missing values say of complete rows, leaned on a model's rows.

    Observed cells are divided by their chance to be observed, as those of pairs are.

    Parameters
    ----------
    counts : mapping of tuple of int to ndarray
        Noisy counts, with a last level "missing" of an attribute that may be missing.
    stds : mapping of tuple of int to float
        Noise of each cell.
    masks : MissingnessModel
        The model of missing cells.
    rows : ndarray of int64, shape (n, d)
        Rows of the model of complete rows.
    sizes : sequence of int
        Levels of each attribute.
    leaned : bool, default True
        Whether tables are shrunk towards the model. If not, noise makes some shares negative.

    Returns
    -------
    dict of tuple of int to ndarray
        Shares of complete rows.
    """
    if not counts:
        return {}
    missing, columns = masks.missing(rows), np.ascontiguousarray(rows.T)
    noisy, models = dict[Clique, Floats](), dict[Clique, Floats]()
    noise: dict[Clique, float | Floats] = {}
    for clique, table in counts.items():
        shape = tuple(sizes[a] for a in clique)
        cells = cell_index(columns, clique, shape, len(rows))
        seen = masks.observed(rows, clique, missing)
        number = np.bincount(cells, minlength=math.prod(shape)).astype(np.float64)
        weighted = np.bincount(cells, seen, len(number)) + _PRIOR_ROWS * seen.mean()
        chance = np.maximum(weighted / (number + _PRIOR_ROWS), _LEAST_CHANCE).reshape(shape)
        observed = table[tuple(map(slice, shape))]
        total = max(1.0, float(observed.sum() / max(float(seen.mean()), _LEAST_CHANCE)))
        whole = _whole(observed / total, chance, number.reshape(shape) / len(rows), _ENOUGH)
        noisy[clique] = whole / max(float(whole.sum()), _LEAST_CHANCE)
        if not leaned:
            continue
        noise[clique] = stds[clique] / total / chance
        margins = [np.bincount(columns[a], minlength=sizes[a]) / len(rows) for a in clique]
        base = np.maximum(
            number.reshape(shape) / len(rows), _LEAST_BASE * reduce(np.multiply.outer, margins)
        )
        models[clique] = base / base.sum()
    return shrunk(noisy, models, noise) if leaned else noisy
