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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from missdp.inference.conditional_models import Pair
from missdp.inference.counts import precision_mean
from missdp.inference.fit_conditional_models import fit_tree
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
    * ``marginals``: Share of the rows at each level and, if the attribute may be missing, missing;
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
    marginals: tuple[Floats, ...]
    tables: Mapping[Pair, Floats]
    variances: Mapping[Pair, Floats]
    n_rows: float
    both_missing: Mapping[Pair, tuple[float, float]] = field(default_factory=dict)
    missing_by_two: Mapping[Clique, RatesByLevel] = field(default_factory=dict)

    @property
    def rates(self) -> Floats:
        """Share of the rows in which each attribute is missing."""
        return np.array([m[s:].sum() for m, s in zip(self.marginals, self.sizes, strict=True)])


_MIN_CHANCE = 0.02  # no chance to be observed is smaller
_MIN_CHANGE = 0.1  # standard deviations of noise, below which tables no longer move
_MIN_DIVISOR = 0.2  # chance to be observed, below which a model stands for what is not
_STEADY_DIVISOR = 0.5  # the same of levels, of which pairs have cells with less chance than that
_MIN_SHARE = 1e-7
_MIN_VARIANCE, _NO_CHANGE = 1e-30, 1e-14  # of shares; below the second, nothing has moved
_MIN_DEGREES = 0.01  # an attribute of one level has none
_RIDGE = 0.1  # see `MissingnessModel.learn`
_PRIOR_ROWS = 5.0  # strength with which a cell's chance leans on those of its two levels
_QUIET_STD = 0.05  # noise of a margin, as a share of the rows, below which its square is nothing
_CLEAR_SD = 3.0  # standard deviations of what noise adds up to
_SWEEPS, _MANY = 11, 22  # of learning the model of missing cells, and where it begins
_UNCORRECTED_ROUNDS = 2  # rounds, at first by rows in which selection is not yet corrected
_RAKING_SWEEPS = 8
_MIN_EFFECTIVE = 0.1  # rows of those drawn: noisy tables of many pairs may contradict each other
_MIN_BASE = 0.1  # of independence: what few rows of a model lack may still be there
_ROWS = 30_000
_MIN_ROWS = 6_000  # rows
_PAIRS = 200  # of attributes, beyond which fewer rows are looked at
_ROWS_PER_ROW = 20  # as many rows as are known


@dataclass(frozen=True, eq=False)
class Completed:
    """What noisy tables with missing values say of complete rows.

    * ``marginals``: One-way margin of each attribute, adding up to 1.
    * ``pairs`` (by (attribute, attribute)): Table of each pair less the product of its margins.
    * ``variances`` (by (attribute, attribute)): Variance of the noise of each cell; an error of the
      masks comes on top.
    * ``masks``: Which cells go missing, given the complete row.
    * ``n_rows``: Number of rows, as far as it is known.
    """

    marginals: tuple[Floats, ...]
    pairs: Mapping[Pair, Floats]
    variances: Mapping[Pair, Floats]
    masks: MissingnessModel
    n_rows: float

    @property
    def stds(self) -> dict[Clique, float | Floats]:
        """Standard deviation of the noise of each cell before centring, in shares of rows."""
        stds: dict[Clique, float | Floats] = {}
        for (a, b), variance in self.variances.items():
            degrees = centred_share((len(self.marginals[a]), len(self.marginals[b])))
            stds[a, b] = np.sqrt(variance / max(degrees, _MIN_DEGREES))
        return stds


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


def complete(
    tables: PairTables, facts: ModelFacts, *, rng: np.random.Generator, rounds: int = 3
) -> Completed:
    """Return what noisy tables with missing cells say of complete rows, and a model of these cells.

    Parameters
    ----------
    tables : PairTables
        The noisy tables.
    facts : ModelFacts
        Public facts.
    rng : numpy.random.Generator
        Draws rows of a quick model of complete rows.
    rounds : int, default 3
        How often the model of missing cells is learned. With 0, cells are taken to be missing
        completely at random.

    Returns
    -------
    Completed
    """
    completed = complete_with_rows(tables, facts, np.zeros((0, len(tables.sizes)), dtype=np.int64))
    enough = rows_enough(_ROWS, attributes=len(tables.sizes), known_rows=tables.n_rows)
    for turn in range(rounds if completed.masks.present.any() else 0):
        rows, weights = weighted_tree_rows(completed, rng, n=enough)
        rows, before, first = (
            rows[resample(weights, enough, rng)],
            completed,
            turn < _UNCORRECTED_ROUNDS,
        )
        sweeps = _SWEEPS if turn else _MANY
        completed = complete_with_rows(
            tables, facts, rows, start=completed.masks, sweeps=sweeps, first=first
        )
        if (
            not first
            and mean_change(before.pairs, completed.pairs, completed.variances) <= _MIN_CHANGE
        ):
            break
    return completed


def complete_with_rows(
    tables: PairTables,
    facts: ModelFacts,
    rows: Ints,
    *,
    start: MissingnessModel | None = None,
    sweeps: int = _SWEEPS,
    first: bool = False,
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
    sweeps : int, default 11
        Sweeps of learning that model.
    first : bool, default False
        Whether selection is not yet corrected in the rows; see `MissingnessModel.learn`.

    Returns
    -------
    Completed
    """
    rates = np.clip(tables.rates, 0.0, 1 - _MIN_CHANCE)
    if start is None:
        masks = MissingnessModel(rates, dict(facts.always), implied_by=dict(facts.implied_by))
        return _correct(tables, rows[:0], masks)
    masks = copy.deepcopy(start)
    masks.rates = rates
    if not masks.present.any():
        return _correct(tables, rows[:0], masks)
    by_level = _rates_by_level(tables, masks.present)
    by_level |= {e: s for e, s in tables.missing_by_two.items() if masks.present[e[0]]}
    masks.learn(
        rows,
        tables.n_rows,
        by_level,
        both=_both_missing(tables),
        ridge=_RIDGE,
        sweeps=sweeps,
        start=first,
    )
    return _correct(tables, rows, masks)


def mean_change(
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
    changes = [
        float(np.square(table - before[pair]).mean())
        / max(_NO_CHANGE, float(variances[pair].mean()))
        for pair, table in after.items()
    ]
    return math.sqrt(np.mean(changes)) if changes else 0.0


def rows_enough(n: int, *, attributes: int = 0, known_rows: float = np.inf) -> int:
    """Return how many of n rows of a model are enough to look at.

    What they are drawn for are means. With many attributes, work grows with the pairs, and the
    noise of pairs is larger by far than that of fewer rows; and where few private rows are known,
    these vary more among themselves than twenty times as many of a model.
    """
    pairs = attributes * (attributes - 1) // 2
    enough = min(n * _PAIRS / max(1, pairs), _ROWS_PER_ROW * max(0.0, known_rows))
    return min(n, int(max(_MIN_ROWS, enough)))


def weighted_tree_rows(
    completed: Completed, rng: np.random.Generator, *, n: int
) -> tuple[Ints, Floats]:
    """Draw rows from a tree of pairs, and weigh them so that the tables of all pairs hold.

    Parameters
    ----------
    completed : Completed
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
    marginals, noisy, products = completed.marginals, dict[Clique, Floats](), dict[Clique, Floats]()
    for (a, b), moment in completed.pairs.items():
        products[a, b] = np.outer(marginals[a], marginals[b])
        noisy[a, b] = moment + products[a, b]
    targets = shrunk(noisy, products, completed.stds)
    rows = fit_tree(marginals, {(a, b): targets[a, b] for a, b in completed.pairs}).sample(n, rng)
    return rows, rake(rows, targets, sweeps=_RAKING_SWEEPS, min_share=_MIN_EFFECTIVE)


def _rates_by_level(tables: PairTables, present: Flags) -> dict[Clique, RatesByLevel]:
    """How often each attribute is missing at each observed level of each other."""
    rates: dict[Clique, RatesByLevel] = {}
    for (one, other), table in tables.tables.items():
        noise = tables.variances[one, other]
        for a, b, cells, variance in ((one, other, table, noise), (other, one, table.T, noise.T)):
            if present[a] and len(cells) > tables.sizes[a]:
                rates[a, b] = _rates_of_pair(tables, a, b, cells, variance)
    return rates


def _rates_of_pair(
    tables: PairTables, a: int, b: int, cells: Floats, variance: Floats
) -> RatesByLevel:
    missing, levels = tables.sizes[a], tables.sizes[b]
    n = tables.n_rows
    std = n * float(np.sqrt(max(_MIN_VARIANCE, variance[missing, :levels].mean())))
    rate = max(float(tables.marginals[a][missing:].sum()), 1e-6)
    # Rows are counted by the margin, whose noise is small, and not by the sum of such a table. In
    # a sum the noise of missing values would be that of a part: so many cells make up for that.
    return RatesByLevel(
        cells[missing, :levels] * n, tables.marginals[b][:levels] * n, std, (2 - rate) / rate
    )


def _both_missing(tables: PairTables) -> dict[tuple[int, int], tuple[float, float]]:
    """Rows in which two attributes are both missing, and the noise of their number."""
    counts = {}
    for (a, b), table in tables.tables.items():
        at = tables.sizes[a], tables.sizes[b]
        if table.shape == (at[0] + 1, at[1] + 1):
            std = tables.n_rows * float(np.sqrt(tables.variances[a, b][at]))
            counts[a, b] = tables.n_rows * float(table[at]), std
    for pair, (share, noise) in tables.both_missing.items():
        new = tables.n_rows * share, tables.n_rows * noise
        counts[pair] = precision_mean(counts[pair], new) if pair in counts else new
    return counts


def _correct(tables: PairTables, rows: Ints, masks: MissingnessModel) -> Completed:
    """What the observed values say, over the chance to be observed."""
    missing, sizes, columns = masks.missing(rows), tables.sizes, np.ascontiguousarray(rows.T)
    single = [
        _chance_observed(columns[a], 1 - missing[:, a], 1 - masks.rates[a], (size,))
        for a, size in enumerate(sizes)
    ]
    observed = dict[Pair, tuple[Floats, Floats]]()
    for a, b in tables.tables:
        shape = sizes[a], sizes[b]
        cells = cell_index(columns, (a, b), shape, len(rows))
        chances = masks.observed(rows, (a, b), missing)
        usual = np.outer(single[a][1], single[b][1])
        observed[a, b] = _chance_observed(cells, chances, usual, shape)
    marginals = _complete_marginals_of(
        tables, single, {pair: chance for pair, (_, chance) in observed.items()}
    )
    pairs, variances = {}, {}
    for (a, b), (model, chance) in observed.items():
        table, (one, other) = tables.tables[a, b], chance.shape
        shares = _complete_shares(table[:one, :other], chance, model, _MIN_DIVISOR)
        pairs[a, b] = centred(shares - _independent(shares, chance, tables, (a, b), marginals))
        noise = tables.variances[a, b][:one, :other] / chance**2
        variances[a, b] = np.maximum(noise, _MIN_VARIANCE)
    return Completed(tuple(marginals), pairs, variances, masks, tables.n_rows)


def _chance_observed(
    cells: Ints, observed: Floats, usual: float | Floats, shape: tuple[int, ...]
) -> tuple[Floats, Floats]:
    """Return the share of a model's rows in each cell, and how likely they are observed there.

    Parameters
    ----------
    cells : ndarray of int64, shape (n,)
        The cell of each row of the model.
    observed : ndarray of float64, shape (n,)
        Chance that a row is observed.
    usual : float or ndarray
        Chance towards which that of a cell with few rows is shrunk.
    shape : tuple of int
        Numbers of levels.

    Returns
    -------
    shares, chances : ndarray of the given shape
    """
    size = math.prod(shape)
    number = np.bincount(cells, minlength=size).reshape(shape)
    weighted = np.bincount(cells, observed, size).reshape(shape) + _PRIOR_ROWS * usual
    chance = np.clip(weighted / (number + _PRIOR_ROWS), _MIN_CHANCE, 1.0)
    return number / max(1, len(cells)), chance


def _complete_marginals_of(
    tables: PairTables, single: list[tuple[Floats, Floats]], chances: Mapping[Pair, Floats]
) -> list[Floats]:
    """Return the margins of complete rows.

    The model's rows say how often a level is observed, and the quotient by that says how often the
    next model has the level. Where a model stands for most cells of a pair, such quotients would
    swing ever further from round to round. So it stands for a part of these levels, too.
    """
    hardly = [np.zeros(size, dtype=bool) for size in tables.sizes]
    for (a, b), chance in chances.items():
        hardly[a] |= (chance < _MIN_DIVISOR).any(axis=1)
        hardly[b] |= (chance < _MIN_DIVISOR).any(axis=0)
    marginals = []
    for observed, (model, chance), few in zip(tables.marginals, single, hardly, strict=True):
        shares = _complete_shares(
            observed[: len(model)], chance, model, np.where(few, _STEADY_DIVISOR, 0.0)
        )
        shares = np.maximum(shares, _MIN_SHARE)
        marginals.append(shares / shares.sum())
    return marginals


def _complete_shares(
    observed: Floats, chance: Floats, model: Floats, enough: float | Floats
) -> Floats:
    """Return what observed shares say of complete rows.

    Shares are divided by the chance to be observed. Where that is small, they would be little but
    noise, many times over: below the chance that is ``enough``, a model of complete rows stands for
    most of those that are not observed. If the model is right, both say the same.
    """
    divisor = np.maximum(chance, enough if model.any() else 0.0)
    shares: Floats = observed / divisor + model * (1 - chance / divisor)
    return shares


def _independent(
    shares: Floats, chance: Floats, tables: PairTables, pair: Pair, marginals: Sequence[Floats]
) -> Floats:
    """Return the table of a pair of independent attributes that its own margins would make.

    Where values are missing, these carry the noise of the missing cells. The product of margins
    takes the same from the cells again, but for the product of two noises. Where few rows are known
    that is too large: it counts as far as margins differ from released ones by more than noise.
    """
    noise, (rows, columns) = tables.variances[pair], shares.shape
    row_noise = noise[:rows, columns:].sum(axis=1) / np.square(chance.mean(axis=1))
    column_noise = noise[rows:, :columns].sum(axis=0) / np.square(chance.mean(axis=0))
    if max(row_noise.sum(), column_noise.sum()) < _QUIET_STD**2:
        total = max(_MIN_CHANCE, float(shares.sum()))
        return np.asarray(np.outer(shares.sum(axis=1), shares.sum(axis=0)) / total)
    one, other = (marginals[a] for a in pair)

    def linear(off: Floats, off_other: Floats) -> Floats:
        same = (1 - off.sum()) * np.outer(one, other)
        return np.asarray(same + np.outer(off, other) + np.outer(one, off_other))

    off, off_other = shares.sum(axis=1) - one, shares.sum(axis=0) - other
    ends = (
        np.maximum(one + _more_than_noise(off, row_noise), 0.0),
        np.maximum(other + _more_than_noise(off_other, column_noise), 0.0),
    )
    total = max(_MIN_CHANCE, float(ends[0].sum() * ends[1].sum()) ** 0.5)
    second_order = np.outer(*ends) / total - linear(ends[0] - one, ends[1] - other)
    return np.asarray(linear(off, off_other) + second_order)


def _more_than_noise(off: Floats, noise: Floats) -> Floats:
    """Return differences, leaned on 0 by how much of them is noise."""
    square = float(np.square(off).sum())
    plain = float(noise.sum()) * (1 + _CLEAR_SD * np.sqrt(2 / len(off)))
    return off * max(0.0, 1 - plain / square) if square > 0 else off


def complete_marginals(
    counts: Mapping[Clique, Floats],
    stds: Mapping[Clique, float],
    masks: MissingnessModel,
    rows: Ints,
    sizes: Sequence[int],
    *,
    shrink: bool = True,
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
    shrink : bool, default True
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
        observed = masks.observed(rows, clique, missing)
        model, chance = _chance_observed(cells, observed, float(observed.mean()), shape)
        counted = table[tuple(map(slice, shape))]
        total = max(1.0, float(counted.sum() / max(float(observed.mean()), _MIN_CHANCE)))
        shares = _complete_shares(counted / total, chance, model, _MIN_DIVISOR)
        noisy[clique] = shares / max(float(shares.sum()), _MIN_CHANCE)
        if not shrink:
            continue
        noise[clique] = stds[clique] / total / chance
        marginals = [np.bincount(columns[a], minlength=sizes[a]) / len(rows) for a in clique]
        base = np.maximum(model, _MIN_BASE * reduce(np.multiply.outer, marginals))
        models[clique] = base / base.sum()
    return shrunk(noisy, models, noise) if shrink else noisy
