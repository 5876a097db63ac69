"""Sums of products over clipped rows: the clipping bias, and covariances of numbers.

The vector of a row has a block for each attribute, perhaps extra features, and the products of
every two blocks (see `RowVectors`). It is multiplied by one factor, so that its L2 norm is at most
``clip``. Rows with many rare levels have long vectors, and clipping underweights them. The release
is

    Σ_i w_i x_i + noise,      w_i = min(1, clip / ‖x_i‖),

a biased estimate of ``Σ x_i``. The factor is a known function of the row. So rows of a model give
an estimate of the mean of ``(1 − w) x``, which is added to the release. A model that is fitted to
the corrected sum gives a better estimate. The fixed point is the model whose *clipped* sums are the
released ones, and clipping then causes no bias. So the clip norm can minimise the noise, and need
not exceed almost all norms.

The model may lack a relation of a number, because noise hid it, or because few rows far out have
it, which are clipped strongly. To first order the rows then have the density ``1 + c x`` times the
density of the model, where ``x`` is the product. This adds ``c Σ x²`` to the sum, of which clipping
retains ``c Σ w x²``. So the difference between the release and the model's own clipped sum is
multiplied by the ``gain``

    Σ x² / Σ w x².

A trend in a table of bins has the noise of many cells. If one attribute of a pair is a number ``z``
that was summed by itself, its covariance with each level of the other has the noise of one cell.
The covariance of two numbers has the noise of one cell, too. They are smoothed together with the
table, as one more row and column.

Everything here is a function of released values and public facts.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
import pydantic.dataclasses

from missdp.inference.conditional_models import Pair
from missdp.inference.missingness import MissingnessModel
from missdp.serialization import Record
from missdp.types import Flags, Floats, Ints

_NUMBERS_AT_ONCE = 1 << 22  # numbers in memory
_POINTS = 4096  # integration points
_HALF_SIGNAL = 5000.0  # rows over noise, in norms, at which half of independent rows are clipped
# Smallest and largest share of independent rows that are not clipped.
_MIN_UNCLIPPED, _MAX_UNCLIPPED = 0.2, 0.95
_PER_DECADE = 0.3  # change of this share for each power of ten of the signal
_SHORTEST = 1e-3  # smallest clip norm


class RowVectors(NamedTuple):
    """The vectors of rows before clipping.

    * ``blocks``: The block of each attribute, one row per code.
    * ``first_order_weight``: Factor of blocks and extra features relative to products.
    * ``extra_features``: Features of some attributes, by position, that enter no product. The block
      of such an attribute ends with its number.
    * ``pairs``: The pairs whose products are in the vectors. None: all pairs.
    """

    blocks: Sequence[Floats]
    first_order_weight: float
    extra_features: Mapping[int, Floats] = {}
    pairs: Sequence[Pair] | None = None

    @property
    def later(self) -> dict[int, list[int]]:
        """The later attributes of the pairs of each attribute."""
        d, later = len(self.blocks), dict[int, list[int]]()
        for a, b in combinations(range(d), 2) if self.pairs is None else self.pairs:
            later.setdefault(a, []).append(b)
        return later

    def norms(self, rows: Ints) -> Floats:
        """Return the L2 norm of each row's vector before clipping."""
        squares = np.zeros((len(self.blocks), len(rows)))
        for a, block in enumerate(self.blocks):
            squares[a] = np.square(block).sum(axis=1)[rows[:, a]]
        total = squares.sum(axis=0)
        if self.pairs is None:
            pairs = (np.square(total) - np.square(squares).sum(axis=0)) / 2
        else:
            pairs = np.zeros(len(rows))
            for a, others in self.later.items():
                pairs += squares[a] * squares[others].sum(axis=0)
        for a, table in self.extra_features.items():
            total = total + np.square(table).sum(axis=1)[rows[:, a]]
        return np.asarray(np.sqrt(np.maximum(self.first_order_weight**2 * total + pairs, 0.0)))

    def retained_share(self, rows: Ints, clip: float) -> Floats:
        """Return the factor by which clipping to a norm multiplies each row's vector."""
        return np.asarray(clip / np.maximum(self.norms(rows), clip))


def clip_norm(marginals: Sequence[Floats], vectors: RowVectors, signal: float) -> float:
    """Return the norm to which rows' vectors are clipped, by a public rule.

    The rule takes a quantile of the norms of rows with independent attributes. It is the median at
    a ``signal`` of 5,000, and grows by 0.3 for each power of ten, within 0.2 and 0.95.

    Parameters
    ----------
    marginals : sequence of ndarray
        Released marginal of each attribute, on the codes of the blocks.
    vectors : RowVectors
        The vectors of rows.
    signal : float
        Released number of rows, over the noise of a sum for a norm of one.

    Returns
    -------
    float
        The norm, above 0.

    Notes
    -----
    Errors hardly depend on the norm, because a model corrects the bias (see `clipped_away`). On
    Adult and BR2000, with 1,000 to 300,000 rows and epsilon from 0.1 to 10, quantiles that differ
    by 0.2 increase errors by less than a twentieth.
    """
    norms = vectors.norms(independent_rows(marginals, _POINTS))
    share = 0.5 + _PER_DECADE * np.log10(max(signal, 1.0) / _HALF_SIGNAL)
    norm = float(np.quantile(norms, np.clip(share, _MIN_UNCLIPPED, _MAX_UNCLIPPED)))
    return max(norm, _SHORTEST)


class ClippingBias(NamedTuple):
    """Corrections of released means for clipping, after multiplication by gains.

    * ``single``: Additions to the means of each block, and then to those of extra features.
    * ``pairs``, ``gains``: Additions to the means of products, and factors applied before. A factor
      is 1 except for products with a number.
    """

    single: list[Floats]
    pairs: dict[Pair, Floats]
    gains: Mapping[Pair, Floats] = {}

    def add_bias(self, pair: Pair, mean: Floats) -> Floats:
        """Return the mean of products over all rows, given their mean over clipped rows."""
        return np.asarray(self.gains.get(pair, 1.0) * mean + self.pairs[pair])


def clipped_away(rows: Ints, vectors: RowVectors, clip: float) -> ClippingBias:
    """Return the bias that clipping causes in the means of blocks and of their products.

    Parameters
    ----------
    rows : ndarray of int64, shape (n, d)
        Codes of a model's rows.
    vectors : RowVectors
        The vectors of rows.
    clip : float
        Norm to which vectors are clipped.

    Returns
    -------
    ClippingBias
        The means of extra features follow those of the blocks.
    """
    blocks, extra_features = vectors.blocks, vectors.extra_features
    lost = 1 - vectors.retained_share(rows, clip)
    lost *= 1 / max(1, len(rows))
    touched = np.flatnonzero(lost > 0)
    ends = np.cumsum([0, *(block.shape[1] for block in blocks)])
    spans = [slice(*pair) for pair in pairwise(ends)]
    single, later = np.zeros(ends[-1]), vectors.later
    everything = [(slice(None), np.arange(ends[-1]))]
    by_first = [(spans[a], np.r_[tuple(spans[b] for b in others)]) for a, others in later.items()]
    areas = everything if vectors.pairs is None else by_first
    sums = [np.zeros((len(single[first]), len(second))) for first, second in areas]
    step = max(1, _NUMBERS_AT_ONCE // max(1, int(ends[-1])))
    for start in range(0, len(touched), step):
        part = touched[start : start + step]
        stacked = np.concatenate([b[rows[part, a]] for a, b in enumerate(blocks)], axis=1)
        scaled = stacked * lost[part, None]
        single += scaled.sum(axis=0)
        for area, (first, second) in zip(sums, areas, strict=True):
            area += scaled[:, first].T @ stacked[:, second]
    pairs = _split_sums(sums, spans, later, together=vectors.pairs is None)
    extra = [table[rows[touched, a]].T @ lost[touched] for a, table in extra_features.items()]
    gains = _clipping_gains(rows, blocks, lost, pairs, extra_features)
    return ClippingBias([*(single[span] for span in spans), *extra], pairs, gains)


def _split_sums(
    sums: Sequence[Floats],
    spans: Sequence[slice],
    later: Mapping[int, list[int]],
    *,
    together: bool,
) -> dict[Pair, Floats]:
    """Return the sums of each pair, from one table of all blocks, or from one for each first."""
    if together:
        return {(a, b): sums[0][spans[a], spans[b]] for a, others in later.items() for b in others}
    pairs: dict[Pair, Floats] = {}
    for (a, others), area in zip(later.items(), sums, strict=True):
        widths = np.cumsum([spans[b].stop - spans[b].start for b in others])[:-1]
        pairs |= {
            (a, b): part for b, part in zip(others, np.split(area, widths, axis=1), strict=True)
        }
    return pairs


def _clipping_gains(
    rows: Ints,
    blocks: Sequence[Floats],
    lost: Floats,
    pairs: dict[Pair, Floats],
    numbered: Collection[int],
) -> dict[Pair, Floats]:
    """Return the gains of products with numbers, and subtract the excess of gains from ``pairs``.

    ``lost`` is the part of each row that clipping removes, as a share of all rows.
    """
    z, gains = {a: blocks[a][rows[:, a], -1] for a in numbered}, {}
    for (a, b), bias in pairs.items():
        gain, corrected = np.ones(bias.shape), bias.copy()
        for one, other, place in ((a, b, np.s_[-1, :]), (b, a, np.s_[:, -1])):
            if one not in z:
                continue
            square, block = np.square(z[one]), blocks[other]
            weights = z[one] / len(rows), square / len(rows), square * lost
            mean, size, less = (np.bincount(rows[:, other], w, len(block)) for w in weights)
            size, less = (np.square(block).T @ np.stack([size, less], axis=1)).T
            gain[place] = 1 / (1 - np.divide(less, size, out=np.zeros_like(size), where=size > 0))
            corrected[place] = bias[place] - (gain[place] - 1) * (block.T @ mean - bias[place])
        if a in z or b in z:
            gains[a, b], pairs[a, b] = gain, corrected
    return gains


def clipped_share(rows: Ints, vectors: RowVectors, clip: float) -> tuple[Floats, dict[Pair, float]]:
    """Return the shares of the squared norm of each block and product that clipping retains.

    It is a first estimate from rows that need not come from a good model. A released sum divided by
    the share has about the right size.

    Parameters
    ----------
    rows : ndarray of int64, shape (n, d)
        Codes of rows.
    vectors : RowVectors
        The vectors of rows.
    clip : float
        Norm to which vectors are clipped.

    Returns
    -------
    ndarray of float64, shape (d,)
        The share of each block.
    dict of (int, int) to float
        The share of each product.
    """
    retained = vectors.retained_share(rows, clip)
    sizes = [np.square(b).sum(axis=1)[rows[:, a]] for a, b in enumerate(vectors.blocks)]
    squares = np.stack(sizes, axis=1)
    everything, clipped = squares.T @ squares, (squares * retained[:, None]).T @ squares
    share = np.divide(clipped, everything, out=np.ones_like(clipped), where=everything > 0)
    pairs = {(a, b): float(share[a, b]) for a, others in vectors.later.items() for b in others}
    total, clipped_total = squares.sum(axis=0), (squares * retained[:, None]).sum(axis=0)
    return np.divide(clipped_total, total, out=np.ones_like(clipped_total), where=total > 0), pairs


def independent_rows(marginals: Sequence[Floats], n: int) -> Ints:
    """Return fixed rows in which all attributes are independent."""
    rng = np.random.default_rng(0)  # public integration points
    places = (np.arange(n) + 0.5) / n
    columns = []
    for marginal in marginals:
        ends = np.cumsum(marginal)
        levels = np.searchsorted(ends / ends[-1], places, side="right")
        columns.append(rng.permutation(np.minimum(levels, len(marginal) - 1)))
    return np.stack(columns, axis=1).astype(np.int64)


_MIN_CHANCE = 0.02  # smallest chance of being observed
_MIN_SPREAD = 1e-6  # variance below which a number is constant


@dataclass(frozen=True, eq=False)
class NumberMoments:
    """Released moments of standardised numbers: means over all rows, corrected for clipping.

    A cell without a value has a ``z`` of 0. Each moment has the standard deviation of its noise.

    * ``means``: Mean of ``z``, by attribute.
    * ``powers``: Means of the number, clipped far out, and of its square.
    * ``by_level`` (by (int, int)): Mean of ``z`` of one attribute times the indicator of each level
      of another one, or of its missing cells.
    * ``both`` (by (int, int)): Mean of the product of two ``z``, the earlier attribute first.
    """

    means: Mapping[int, tuple[float, float]]
    powers: Mapping[int, tuple[Floats, Floats]]
    by_level: Mapping[Pair, tuple[Floats, Floats]]
    both: Mapping[Pair, tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Numbers:
    """Covariances of standardised numbers in complete rows, with the variances of their noise.

    * ``levels``: Mean ``z`` of each level of an attribute that is a number.
    * ``spread``: Variance of ``z`` in all rows.
    * ``by_level`` (by (int, int)): Covariance of ``z`` of one attribute with the indicators of the
      levels of another one.
    * ``both`` (by (int, int)): Covariance of two numbers, the earlier attribute first.
    """

    levels: Mapping[int, Floats]
    spread: Mapping[int, float]
    by_level: Mapping[Pair, tuple[Floats, Floats]]
    both: Mapping[Pair, tuple[float, float]]

    def difference_from(self, other: Numbers) -> Numbers:
        """Return the differences of covariances from those of another draw of the noise."""
        by_level = {p: (x - other.by_level[p][0], v) for p, (x, v) in self.by_level.items()}
        both = {p: (x - other.both[p][0], v) for p, (x, v) in self.both.items()}
        return replace(self, levels=other.levels, by_level=by_level, both=both)

    def with_numbers(self, pair: Pair, table: Floats, *, noise: bool) -> Floats:
        """Return a table with one more row and column for numbers, or the table of its noise.

        Parameters
        ----------
        pair : (int, int)
            The attributes.
        table : ndarray
            Table of the levels, or the variances of its noise.
        noise : bool
            Whether the table has variances.

        Returns
        -------
        ndarray
            One more row or column for each attribute that is a number.
        """
        a, b = pair
        shape = [n + (v in self.levels) for n, v in zip(table.shape, pair, strict=True)]
        extended = np.zeros(shape)
        extended[: table.shape[0], : table.shape[1]] = table
        if a in self.levels:
            extended[-1, : table.shape[1]] = self.by_level[a, b][noise]
        if b in self.levels:
            extended[: table.shape[0], -1] = self.by_level[b, a][noise]
        if a in self.levels and b in self.levels:
            extended[-1, -1] = self.both[pair][noise]
        return extended


def number_covariances(
    moments: NumberMoments,
    levels: Mapping[int, tuple[Floats, Floats]],
    marginals: Sequence[Floats] | Mapping[int, Floats],
    rows: Ints,
    missing_cells: Flags,
    masks: MissingnessModel,
) -> Numbers:
    """Return covariances of numbers in complete rows from moments of observed cells.

    Parameters
    ----------
    moments : NumberMoments
        Released moments.
    levels : mapping of int to (ndarray, ndarray)
        Mean and variance of ``z`` at each level of an attribute that is a number.
    marginals : sequence or mapping of ndarray
        One-way marginals of complete rows, by attribute.
    rows : ndarray of int64, shape (n, d)
        Rows of a model of complete rows, which determine the chances of missing cells.
    missing_cells : ndarray of bool, shape (n, d)
        A draw of their missing cells.
    masks : MissingnessModel
        The model of missing cells.

    Returns
    -------
    Numbers
        Released covariances.
    """
    chances = masks.missing(rows, {a for pair in (*moments.by_level, *moments.both) for a in pair})
    z = {a: mean[rows[:, a]] for a, (mean, _) in levels.items()}
    middle = {a: float(marginals[a] @ mean) for a, (mean, _) in levels.items()}
    spread = {
        a: float(marginals[a] @ (inside + np.square(mean))) - middle[a] ** 2
        for a, (mean, inside) in levels.items()
    }
    lacking: Flags = np.asarray(missing_cells.any(axis=0) | (chances > 0).any(axis=0))

    @functools.cache
    def chance_of(a: int, b: int) -> tuple[Floats, float] | None:
        """Return the excess weight of each row, and the share of observed rows."""
        if not (lacking[a] or lacking[b]):
            return None
        observed = masks.observed(rows, (a, b), chances)
        share = max(_MIN_CHANCE, 1 - float((missing_cells[:, a] | missing_cells[:, b]).mean()))
        return (1 - observed / max(_MIN_CHANCE, float(observed.mean()))) / len(rows), share

    by_level: dict[Pair, tuple[Floats, Floats]] = {}
    both: dict[Pair, tuple[float, float]] = {}
    for (a, c), (values, std) in moments.by_level.items():
        chance, size = chance_of(min(a, c), max(a, c)), len(marginals[c])
        share = 1.0 if chance is None else chance[1]
        sums = values[:size] / share
        if chance is not None:
            sums = sums + np.bincount(rows[:, c], chance[0] * z[a], size)
        sums = sums - marginals[c] * sums.sum()
        by_level[a, c] = sums, np.square(std[:size] / share)
    for (a, b), (product, noise) in moments.both.items():
        chance = chance_of(a, b)
        share = 1.0 if chance is None else chance[1]
        excess = 0.0 if chance is None else float(chance[0] @ (z[a] * z[b]))
        both[a, b] = product / share + excess - middle[a] * middle[b], (noise / share) ** 2
    varying = {a: mean for a, (mean, _) in levels.items() if spread[a] > _MIN_SPREAD}
    return Numbers(varying, spread, by_level, both)


@pydantic.dataclasses.dataclass(frozen=True, eq=False)
class Products(Record):
    """Released noisy sums, over clipped rows, of all attributes' numbers and of pairwise products.

    A block holds the numbers that stand for one attribute in a row. `missdp.session.RowProducts`
    is the query, and this object the value of its measurement. Each row was multiplied by a
    factor, so that its vector is at most the clip norm long. All sums have discrete Gaussian noise.

    Parameters
    ----------
    blocks : mapping of str to ndarray of float, each of shape (n_codes, width)
        For each attribute the block of each code, as the query states it, rounded to the grid.
        Public.
    single : mapping of str to ndarray of float, each of shape (width,)
        For each attribute, the noisy sum of its blocks over rows, in units of rows. Released.
    pairs : mapping of (str, str) to ndarray of float, each of shape (first_width, second_width)
        For pairs of attributes, the earlier one first, the noisy sum of the products of their
        blocks. In units of rows. Released.
    std : float
        Standard deviation of the noise of each number of ``pairs``, in units of rows.
    single_std : float
        Standard deviation of the noise of each number of ``single`` and ``extra_features``, in
        units of rows.
    extra_blocks, extra_features : mapping of str to ndarray of float, default {}
        The extra numbers of each code, shape ``(n_codes, width)``, rounded to the grid. Then
        their noisy sums over rows, shape ``(width,)``.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Notes
    -----
    All values are released or public, so the object may be published.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.session import Products
    >>> blocks = {"sex": np.eye(2), "ill": np.array([[-0.5], [0.5]])}
    >>> single = {"sex": np.array([51.0, 48.0]), "ill": np.array([-20.0])}
    >>> pairs = {("sex", "ill"): np.array([[-12.0], [-8.0]])}
    >>> Products(blocks, single, pairs, std=2.0, single_std=2.0).pairs["sex", "ill"].shape
    (2, 1)
    """

    blocks: Mapping[str, Floats]
    single: Mapping[str, Floats]
    pairs: Mapping[tuple[str, str], Floats]
    std: float
    single_std: float
    extra_blocks: Mapping[str, Floats] = field(default_factory=dict)
    extra_features: Mapping[str, Floats] = field(default_factory=dict)


def products_of(
    cells: Ints,
    blocks: Mapping[str, Ints],
    extra_features: Mapping[str, Ints],
    ordered: Sequence[tuple[str, str]],
    *,
    first_order_weight: int,
    grid: float,
    unit: float,
    scale: float,
) -> Products:
    """Return released sums of products in units of rows.

    Parameters
    ----------
    cells : ndarray of int64
        The noisy sums: of blocks, of extra features, and of the products of pairs of blocks.
    blocks, extra_features : mapping of str to ndarray of int64
        The summed numbers, in steps of the grid.
    ordered : sequence of (str, str)
        The pairs whose products were summed, in their order.
    first_order_weight : int
        Factor of blocks and extra features, in steps of the grid.
    grid : float
        Steps of one number.
    unit : float
        Steps of a product of two numbers and a row's factor.
    scale : float
        Standard deviation of the noise of each cell, in steps.

    Returns
    -------
    Products
        Released values. Post-processing.
    """
    scaled, factor = np.asarray(cells, dtype=np.float64) / unit, first_order_weight / grid
    width = {name: block.shape[1] for name, block in blocks.items()}
    sizes = [*width.values(), *(block.shape[1] for block in extra_features.values())]
    sizes += [width[a] * width[b] for a, b in ordered]
    segments = iter(np.split(scaled, np.cumsum(sizes)[:-1]))
    single = {name: next(segments) / factor for name in blocks}
    extra_sums = {name: next(segments) / factor for name in extra_features}
    pairs = {(a, b): next(segments).reshape(width[a], width[b]) for a, b in ordered}
    std = scale / unit
    rounded, extra_blocks = (
        {name: block / grid for name, block in part.items()} for part in (blocks, extra_features)
    )
    return Products(rounded, single, pairs, std, std / factor, extra_blocks, extra_sums)
