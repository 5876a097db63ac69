"""Tables of complete rows, estimated from tables of all pairs in which values are missing.

Every released table of two attributes has a level for missing values. The missing rates of one
attribute by the levels of another give a model of the masks (`missdp.inference.missingness`).
Tables of observed values are divided by the chance of being observed, as in inverse probability
weighting (Robins, Rotnitzky and Zhao 1994). Given two values, this chance depends on all other
values. So it is a mean over rows drawn from the model of complete rows, and both models are fitted
in turns. This corrects for values that are missing at random, as far as the model of the masks
holds. If released rates differ by no more than noise, values are treated as missing completely at
random. The tables then remain the observed ones.

Everything here is a function of released values.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np

from missdp.inference.conditional_models import Pair
from missdp.inference.counts import precision_mean
from missdp.inference.fit_conditional_models import fit_tree
from missdp.inference.missing_rates import RatesByLevel
from missdp.inference.missingness import MissingnessModel
from missdp.inference.model import cell_index
from missdp.inference.raking import centred, centred_share, rake, resample, scaled_to, shrunk
from missdp.types import Clique, Flags, Floats, Ints


@dataclass(frozen=True, eq=False)
class PairTables:
    """Noisy shares of the rows in all cells of every attribute and every pair of attributes.

    All values are released. `missdp.inference.completion` derives tables of complete rows.

    * ``sizes``: Number of levels of each attribute, without "missing".
    * ``marginals``: Share of the rows at each level and, if the attribute may be missing, of
      missing cells. Not negative.
    * ``tables`` (by (attribute, attribute)): Share of the rows in each cell of a pair. Noise makes
      some shares negative.
    * ``variances`` (by (attribute, attribute)): Variance of the noise of each share, beyond the
      marginals.
    * ``n_rows``: Released number of rows.
    * ``both_missing`` (by (attribute, attribute)): Share of the rows in which both are missing, and
      its noise, if it was released in addition to the tables.
    * ``missing_by_two``: Missing rates of an attribute by the levels of two others, if the three
      were measured together.
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
        """Share of the rows in which each attribute is missing, shape ``(d,)``."""
        return np.array([m[s:].sum() for m, s in zip(self.marginals, self.sizes, strict=True)])


_MIN_CHANCE = 0.02  # smallest chance of being observed
_MIN_CHANGE = 0.1  # SDs of noise: stop when tables change by less
_MIN_DIVISOR = 0.2  # chance of being observed below which a model replaces unobserved rows
_STEADY_DIVISOR = 0.5  # the chance for levels whose pairs have cells below that divisor
_MIN_SHARE = 1e-7  # smallest share of a level
# Smallest variance of a share, and smallest variance that is divided by.
_MIN_VARIANCE, _NO_CHANGE = 1e-30, 1e-14
_MIN_DEGREES = 0.01  # degrees of freedom of an attribute of one level, in place of 0
_RIDGE = 0.1  # penalty of `MissingnessModel.learn`
_PRIOR_ROWS = 5.0  # rows with which the chance of a cell is shrunk towards that of its two levels
_QUIET_STD = 0.05  # noise of a marginal, as a share of the rows, whose square is negligible
_CLEAR_SD = 3.0  # SDs of a sum of squared noise
SWEEPS, _MANY = 11, 22  # sweeps of learning the model of missing cells, later and at the start
_UNCORRECTED_ROUNDS = 2  # rounds at the start whose rows are not corrected for selection
_RAKING_SWEEPS = 8  # sweeps of raking
# Effective share of the rows: noisy tables of many pairs may contradict each other.
_MIN_EFFECTIVE = 0.1
_MIN_BASE = 0.1  # share of independence in cells that few rows of a model have
_ROWS = 30_000  # rows of the quick model
_MIN_ROWS = 6_000  # rows that are used at least
_PAIRS = 200  # pairs of attributes: with more, fewer rows are used
_IMPLIED_STD = 0.1  # stated noise of a table that public facts imply, in rows
_ROWS_PER_ROW = 20  # rows of a model for each private row


@dataclass(frozen=True, eq=False)
class Completed:
    """Estimates of tables of complete rows, from noisy tables with missing values.

    * ``marginals``: One-way marginal of each attribute, with the sum 1.
    * ``pairs`` (by (attribute, attribute)): Table of each pair less the product of its marginals.
    * ``variances`` (by (attribute, attribute)): Variance of the noise of each cell, without the
      error of the masks.
    * ``masks``: Model of missing cells, given the complete row.
    * ``n_rows``: Released number of rows.
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
    """Public facts, on released groups of levels, for a model of rows.

    * ``ordered``: Flags of attributes whose levels have an order. Their dependence is shrunk
      towards smooth functions.
    * ``always``: Map from an attribute to its group of levels that is never missing.
    * ``implied_by``: Map from an attribute with a level that follows from others to these others.
    * ``allowed``: Possible cells by pair.
    * ``selective``: Whether missing values may depend on values. If not, the rows observed on a
      pair represent all rows.
    """

    ordered: Sequence[bool] = ()
    always: Mapping[int, int] = field(default_factory=dict)
    implied_by: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    allowed: Mapping[Pair, Flags] = field(default_factory=dict)
    selective: bool = True


def complete(
    tables: PairTables, facts: ModelFacts, *, rng: np.random.Generator, rounds: int = 3
) -> Completed:
    """Estimate tables of complete rows and a model of missing cells from noisy tables.

    Parameters
    ----------
    tables : PairTables
        The noisy tables.
    facts : ModelFacts
        Public facts.
    rng : numpy.random.Generator
        Draws rows of a quick model of complete rows.
    rounds : int, default 3

        Number of times that the model of missing cells is learned. With 0, cells are treated as
        missing completely at random.

    Returns
    -------
    Completed
        Released values.
    """
    completed = complete_with_rows(tables, facts, np.zeros((0, len(tables.sizes)), dtype=np.int64))
    enough = rows_enough(_ROWS, attributes=len(tables.sizes), known_rows=tables.n_rows)
    for turn in range(rounds if completed.masks.present.any() else 0):
        rows, weights = weighted_tree_rows(completed, rng, n=enough)
        rows, before = rows[resample(weights, enough, rng)], completed
        start, first = completed.masks, turn < _UNCORRECTED_ROUNDS
        sweeps = SWEEPS if turn else _MANY
        completed = complete_with_rows(tables, facts, rows, start=start, sweeps=sweeps, first=first)
        change = mean_change(before.pairs, completed.pairs, completed.variances)
        if not first and change <= _MIN_CHANGE:
            break
    return completed


def complete_with_rows(
    tables: PairTables,
    facts: ModelFacts,
    rows: Ints,
    *,
    start: MissingnessModel | None = None,
    sweeps: int = SWEEPS,
    first: bool = False,
) -> Completed:
    """Estimate tables of complete rows from noisy tables, with rows of a model of complete rows.

    Parameters
    ----------
    tables : PairTables
        The noisy tables.
    facts : ModelFacts
        Public facts.
    rows : ndarray of int64, shape (n, d)
        Rows of a model of complete rows.
    start : MissingnessModel, optional
        Initial model of missing cells. None: cells are missing completely at random.
    sweeps : int, default 11
        Sweeps of learning that model.
    first : bool, default False
        Whether the rows are not yet corrected for selection. See `MissingnessModel.learn`.

    Returns
    -------
    Completed
        Released values.
    """
    if start is None:
        masks, rows = random_masks(tables, facts), rows[:0]
    else:
        masks = learn_masks(tables, rows, start=start, sweeps=sweeps, first=first)
    corrected = CorrectedTables(tables, rows, masks)
    completed = Completed(
        tuple(corrected.marginal(a) for a in range(len(tables.sizes))),
        {pair: corrected.excess(pair) for pair in tables.tables},
        {pair: corrected.variance(pair) for pair in tables.tables},
        masks,
        tables.n_rows,
    )
    return _with_implied(completed, facts.allowed)


def random_masks(tables: PairTables, facts: ModelFacts) -> MissingnessModel:
    """Return the model of cells that are missing completely at random, at released rates."""
    rates = np.clip(tables.rates, 0.0, 1 - _MIN_CHANCE)
    return MissingnessModel(rates, dict(facts.always), implied_by=dict(facts.implied_by))


def learn_masks(
    tables: PairTables,
    rows: Ints,
    *,
    start: MissingnessModel,
    sweeps: int = SWEEPS,
    first: bool = False,
) -> MissingnessModel:
    """Return the model of missing cells that noisy tables and rows of a model determine.

    Parameters
    ----------
    tables : PairTables
        The noisy tables.
    rows : ndarray of int64, shape (n, d)
        Rows of a model of complete rows.
    start : MissingnessModel
        The initial model, which does not change.
    sweeps : int, default 11
        Sweeps of learning.
    first : bool, default False
        Whether the rows are not yet corrected for selection. See `MissingnessModel.learn`.

    Returns
    -------
    MissingnessModel
        Released values.
    """
    masks = start.copied(np.clip(tables.rates, 0.0, 1 - _MIN_CHANCE))
    if masks.present.any():
        by_level = _rates_by_level(tables, masks.present)
        by_level |= {e: s for e, s in tables.missing_by_two.items() if masks.present[e[0]]}
        both = _both_missing(tables)
        masks.learn(
            rows, tables.n_rows, by_level, both=both, ridge=_RIDGE, sweeps=sweeps, start=first
        )
    return masks


def _with_implied(completed: Completed, allowed: Mapping[Pair, Flags]) -> Completed:
    """Add tables that follow from marginals and excluded cells, for pairs without a release.

    Without the table of a filter and its follow-up question, AIM would spend a round on this pair.
    Noisy marginals may contradict the excluded cells. The stated variance contains the difference.
    """
    marginals, pairs, variances = completed.marginals, {**completed.pairs}, {**completed.variances}
    for (a, b), cells in allowed.items():
        if (a, b) not in pairs and _determine_tables(cells):
            ends = marginals[a], marginals[b]
            product = np.outer(*ends)
            table = scaled_to(product * cells, ends)
            difference = np.square(table.sum(axis=1) - ends[0]).mean()
            pairs[a, b] = table - product
            rounding = (_IMPLIED_STD / max(1.0, completed.n_rows)) ** 2
            variances[a, b] = np.full(product.shape, rounding + difference)
    return replace(completed, pairs=pairs, variances=variances)


def _determine_tables(cells: Flags) -> bool:
    """Whether possible cells determine a table, given its marginals.

    A cell that is alone in its row or column is determined by a marginal, and then removed.
    """
    if not (bool(cells.any(axis=1).all()) and bool(cells.any(axis=0).all())):
        return False
    rest = cells
    while rest.any():
        alone = (rest.sum(axis=1, keepdims=True) == 1) | (rest.sum(axis=0, keepdims=True) == 1)
        if not (rest & alone).any():
            return False
        rest = rest & ~alone
    return True


def mean_change(
    before: Mapping[Any, Floats], after: Mapping[Any, Floats], variances: Mapping[Any, Floats]
) -> float:
    """Return the root mean square change of tables, in standard deviations of their noise.

    Parameters
    ----------
    before, after : mapping of tuple of int to ndarray
        Tables of two or more attributes, in shares of rows.
    variances : mapping of tuple of int to ndarray
        Variance of the noise of each share.

    Returns
    -------
    float
        0 without tables. A table that did not exist before is left out.
    """
    changes = [
        float(np.square(table - before[p]).mean()) / max(_NO_CHANGE, float(variances[p].mean()))
        for p, table in after.items()
        if p in before
    ]
    return math.sqrt(np.mean(changes)) if changes else 0.0


def rows_enough(n: int, *, attributes: int = 0, known_rows: float = np.inf) -> int:
    """Return the number of a model's rows that are sufficient for means.

    With many attributes, the work grows with the number of pairs, and the noise of pairs exceeds
    the sampling error of fewer rows. Few private rows vary more among themselves than twenty times
    as many rows of a model.

    Parameters
    ----------
    n : int
        Number of available rows.
    attributes : int, default 0
        Number of attributes.
    known_rows : float, optional
        Released number of private rows.

    Returns
    -------
    int
        At most ``n``.
    """
    pairs = attributes * (attributes - 1) // 2
    enough = min(n * _PAIRS / max(1, pairs), _ROWS_PER_ROW * max(0.0, known_rows))
    return min(n, int(max(_MIN_ROWS, enough)))


def weighted_tree_rows(
    completed: Completed, rng: np.random.Generator, *, n: int
) -> tuple[Ints, Floats]:
    """Draw rows from a tree of pairs, and weight them so that the tables of all pairs hold.

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
        Codes of groups of levels.
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
    """Return the missing rates of each attribute at each observed level of each other attribute."""
    rates: dict[Clique, RatesByLevel] = {}
    for (one, other), table in tables.tables.items():
        noise = tables.variances[one, other]
        for a, b, cells, variance in ((one, other, table, noise), (other, one, table.T, noise.T)):
            if present[a] and len(cells) > tables.sizes[a]:
                rates[a, b] = _pair_rates(tables, a, b, cells, variance)
    return rates


def _pair_rates(tables: PairTables, a: int, b: int, cells: Floats, noise: Floats) -> RatesByLevel:
    missing, levels = tables.sizes[a], tables.sizes[b]
    n = tables.n_rows
    std = n * float(np.sqrt(max(_MIN_VARIANCE, noise[missing, :levels].mean())))
    rate = max(float(tables.marginals[a][missing:].sum()), 1e-6)
    # Rows are counted by the marginal, whose noise is smaller than that of a sum of cells. A sum
    # would contain the noise of missing values. This number of cells corrects for the difference.
    return RatesByLevel(
        cells[missing, :levels] * n, tables.marginals[b][:levels] * n, std, (2 - rate) / rate
    )


def _both_missing(tables: PairTables) -> dict[tuple[int, int], tuple[float, float]]:
    """Return the numbers of rows in which two attributes are both missing, and their noise."""
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


class CorrectedTables:
    """Tables of complete rows: observed shares, divided by their chance of being observed.

    A table is computed when it is asked for, since most questions need few tables. The marginal of
    an attribute needs the chances of all its pairs.

    Parameters
    ----------
    tables : PairTables
        The noisy tables.
    rows : ndarray of int64, shape (n, d)
        Rows of a model of complete rows. Without missing cells they are not needed.
    masks : MissingnessModel
        The model of missing cells.
    attributes : collection of int, optional
        The attributes that are asked for. By default all.
    marginals : dict of int to ndarray, optional
        Marginals that the same tables, rows and model had before. New ones are added.
    """

    def __init__(
        self,
        tables: PairTables,
        rows: Ints,
        masks: MissingnessModel,
        *,
        attributes: Collection[int] | None = None,
        marginals: dict[int, Floats] | None = None,
    ) -> None:
        rows = rows if masks.present.any() else rows[:0]
        self._marginals = {} if marginals is None else marginals
        is_known = attributes is not None and self._marginals.keys() >= {*attributes}
        self._missing = masks.missing(rows, attributes if is_known else None)
        self._tables, self._masks, self._rows = tables, masks, rows
        self._columns = np.ascontiguousarray(rows.T)
        self._is_lacking = (self._missing > 0).any(axis=0) | masks.present
        self._of_levels: dict[int, tuple[Floats, Floats]] = {}
        self._of_pairs: dict[Pair, tuple[Floats, Floats]] = {}
        self._pairs_of: dict[int, list[Pair]] = {a: [] for a in range(len(tables.sizes))}
        for pair in tables.tables:
            for a in pair:
                self._pairs_of[a].append(pair)

    def marginal(self, a: int) -> Floats:
        """Return the marginal of complete rows of an attribute, shape ``(size,)``.

        The model's rows determine the chance that a level is observed, and the quotient by this
        chance determines the share of the level in the next model. If a model replaces most cells
        of a pair, these quotients would oscillate with growing amplitude. So the model replaces a
        part of these levels, too.
        """
        if a not in self._marginals:
            model, chance = self._of_attribute(a)
            is_low = np.zeros(len(model), dtype=bool)
            for pair in self._pairs_of[a]:
                is_low |= (self._of_pair(pair)[1] < _MIN_DIVISOR).any(axis=1 - pair.index(a))
            enough = np.where(is_low, _STEADY_DIVISOR, 0.0)
            observed = self._tables.marginals[a][: len(model)]
            shares = np.maximum(_complete_shares(observed, chance, model, enough), _MIN_SHARE)
            self._marginals[a] = shares / shares.sum()
        return self._marginals[a]

    def excess(self, pair: Pair) -> Floats:
        """Return the table of complete rows of a pair, less the product of its marginals."""
        model, chance = self._of_pair(pair)
        table = self._tables.tables[pair][: len(chance), : chance.shape[1]]
        shares = _complete_shares(table, chance, model, _MIN_DIVISOR)
        marginals = [self.marginal(a) for a in pair]
        noise = self._tables.variances[pair]
        return centred(shares - _independent(shares, chance, noise, marginals))

    def variance(self, pair: Pair) -> Floats:
        """Return the variance of the noise of each cell of a pair."""
        chance = self._of_pair(pair)[1]
        noise = self._tables.variances[pair][: len(chance), : chance.shape[1]]
        return np.maximum(noise / chance**2, _MIN_VARIANCE)

    def _of_pair(self, pair: Pair) -> tuple[Floats, Floats]:
        """Return the shares of the model's rows in each cell, and their chance to be observed.

        The shares of a pair without missing cells are not needed, and 0.
        """
        if pair not in self._of_pairs:
            self._of_pairs[pair] = self._new_pair(*pair)
        return self._of_pairs[pair]

    def _of_attribute(self, a: int) -> tuple[Floats, Floats]:
        """Return the shares of the model's rows at each level, and their chance to be observed."""
        if a not in self._of_levels:
            observed, usual = 1 - self._missing[:, a], 1 - self._masks.rates[a]
            shape = (self._tables.sizes[a],)
            self._of_levels[a] = _chance_observed(self._columns[a], observed, usual, shape)
        return self._of_levels[a]

    def _new_pair(self, a: int, b: int) -> tuple[Floats, Floats]:
        shape = self._tables.sizes[a], self._tables.sizes[b]
        if not (self._is_lacking[a] or self._is_lacking[b]):
            return np.zeros(shape), np.ones(shape)
        cells = cell_index(self._columns, (a, b), shape, len(self._rows))
        chances = self._masks.observed(self._rows, (a, b), self._missing)
        usual = np.outer(self._of_attribute(a)[1], self._of_attribute(b)[1])
        return _chance_observed(cells, chances, usual, shape)


def _chance_observed(
    cells: Ints, observed: Floats, usual: float | Floats, shape: tuple[int, ...]
) -> tuple[Floats, Floats]:
    """Return the share of a model's rows in each cell, and their chance of being observed.

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
    shares, chances : ndarray of shape ``shape``
    """
    size = math.prod(shape)
    number = np.bincount(cells, minlength=size).reshape(shape)
    weighted = np.bincount(cells, observed, size).reshape(shape) + _PRIOR_ROWS * usual
    chance = np.clip(weighted / (number + _PRIOR_ROWS), _MIN_CHANCE, 1.0)
    return number / max(1, len(cells)), chance


def _complete_shares(
    observed: Floats, chance: Floats, model: Floats, enough: float | Floats
) -> Floats:
    """Return estimated shares of complete rows, given observed shares.

    Shares are divided by the chance of being observed. A small chance would multiply the noise.
    Below the chance ``enough``, a model of complete rows replaces most unobserved rows. Both
    estimates agree if the model is right.
    """
    divisor = np.maximum(chance, enough if model.any() else 0.0)
    return np.asarray(observed / divisor + model * (1 - chance / divisor))


def _independent(
    shares: Floats, chance: Floats, noise: Floats, marginals: Sequence[Floats]
) -> Floats:
    """Return the table of a pair of independent attributes with the marginals of this table.

    If values are missing, these marginals contain the noise of missing cells. The product of the
    marginals subtracts this noise from the cells, except for a product of two errors. With few rows
    this product is too large. It is used as far as the marginals differ from the released ones by
    more than noise. ``noise`` has the variances of all released cells of the pair.
    """
    rows, columns = shares.shape
    sums, other_sums = shares.sum(axis=1), shares.sum(axis=0)
    row_noise = noise[:rows, columns:].sum(axis=1) / np.square(chance.sum(axis=1) / columns)
    column_noise = noise[rows:, :columns].sum(axis=0) / np.square(chance.sum(axis=0) / rows)
    if max(row_noise.sum(), column_noise.sum()) < _QUIET_STD**2:
        return np.asarray(np.outer(sums, other_sums) / max(_MIN_CHANCE, float(shares.sum())))
    one, other = marginals

    def linear(off: Floats, off_other: Floats) -> Floats:
        same = (1 - off.sum()) * np.outer(one, other)
        return np.asarray(same + np.outer(off, other) + np.outer(one, off_other))

    off, off_other = sums - one, other_sums - other
    ends = (
        np.maximum(one + _more_than_noise(off, row_noise), 0.0),
        np.maximum(other + _more_than_noise(off_other, column_noise), 0.0),
    )
    total = max(_MIN_CHANCE, float(ends[0].sum() * ends[1].sum()) ** 0.5)
    second_order = np.outer(*ends) / total - linear(ends[0] - one, ends[1] - other)
    return np.asarray(linear(off, off_other) + second_order)


def _more_than_noise(off: Floats, noise: Floats) -> Floats:
    """Return differences, shrunk towards 0 by their share of noise."""
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
    """Estimate larger marginals of complete rows, shrunk towards those of a model's rows.

    Observed cells are divided by their chance of being observed, as in tables of pairs.

    Parameters
    ----------
    counts : mapping of tuple of int to ndarray
        Noisy counts. The last level of an attribute that may be missing is "missing".
    stds : mapping of tuple of int to float
        Noise of each cell.
    masks : MissingnessModel
        The model of missing cells.
    rows : ndarray of int64, shape (n, d)
        Rows of the model of complete rows.
    sizes : sequence of int
        Number of levels of each attribute.
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
