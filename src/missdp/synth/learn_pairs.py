"""Release of all pairs at once: one-way marginals, and then one sum of products of centred blocks.

Centring by released marginals makes all pairs affordable, because the vector of a typical row is
short. Everything here is post-processing of answers of a session.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pydantic.dataclasses

from missdp.accounting import Cost
from missdp.inference.completion import (
    Completed,
    ModelFacts,
    PairTables,
    complete,
    complete_with_rows,
    mean_change,
    rows_enough,
)
from missdp.inference.conditional_models import Pair
from missdp.inference.counts import enforce_decreasing_tails, precision_mean, project_to_simplex
from missdp.inference.fit_conditional_models import fit_conditional_models
from missdp.inference.marginals import NoisyMarginals, combined_marginal
from missdp.inference.missing_rates import both_missing
from missdp.inference.model import Levels, Zeros, level_kinds, merge_zeros
from missdp.inference.models import PairModel, targets
from missdp.inference.product_sums import (
    ClippingBias,
    NumberMoments,
    Numbers,
    RowVectors,
    clip_norm,
    clipped_away,
    clipped_share,
    independent_rows,
    number_covariances,
)
from missdp.inference.raking import scaled_to_smaller
from missdp.inference.smoothing import Smoothing
from missdp.schema import AnyAttribute, Numeric, Ordinal
from missdp.schema.modelled import ModelView
from missdp.serialization import Record
from missdp.session import (
    FineCodes,
    LevelMerge,
    Marginal,
    Noise,
    Products,
    RowProducts,
    Session,
    Total,
)
from missdp.synth.noisy_counts import has_number_levels, least_squares_total
from missdp.synth.numeric_scores import WEIGHT, NumericScore, draw_fine_codes
from missdp.types import Clique, Flags, Floats, Ints

_FIRST_ORDER_WEIGHT = 1.6  # factor of blocks relative to products
# The factor if blocks contain numbers, which make vectors longer.
_NUMBERS_WEIGHT = 1.2
_FIRST_ORDER_SIGNAL = 1000.0  # rows over noise, in norms: the factor grows for smaller signals
_MAX_WEIGHT_GROWTH = 8.0  # largest growth of the factor
# Smallest squared length of blocks over that of products, with all pairs and with some.
_RATIO_OF_ALL, _RATIO_OF_SOME = 0.5, 1.5
_MAX_WEIGHT = 16.0  # largest factor of blocks
_MANY_LEVELS = 64  # levels: in longer lists, levels that may be noise are merged
_GRID = 2.0**-10  # step of the numbers in blocks
_MASK = 0.35  # factor of the indicator of a missing cell
_POINTS = 4096  # rows with which clipping is estimated at first
_ROWS = 20_000  # rows of the model with which the clipping bias is estimated
_TARGET_ROWS = 40_000  # rows of the model towards which raking targets are shrunk
_TURNS = 3  # smallest number of corrections of the clipping bias
_EXTENDED = 2  # turn in which a search extends the release
_MAX_TURNS = 12  # largest number of corrections of the clipping bias
_MIN_CHANGE = 0.2  # SDs of noise: stop when tables change by less
_MAX_CHANGE_RATIO = 0.8  # stop when a turn shrinks the change by less than this factor
# Rows, and their weight, with which the retained share of rare numbers is estimated.
_USUAL_ROWS, _PRIOR_ROWS = 300, 30.0
_RIDGE, _RIDGE_OF_FEW = 8.0, 2.0  # factors of the noise allowance, for all pairs and for few pairs
# Rounds in which the models of rows and of missing cells are fitted, for all and few pairs.
_ROUNDS, _ROUNDS_OF_FEW = 3, 8


def ordered_levels(attributes: Iterable[AnyAttribute], levels: Iterable[Levels]) -> list[bool]:
    """Return whether the levels of each attribute have an order, and none are merged."""
    return [
        isinstance(attribute, (Numeric, Ordinal)) and level.n_groups == attribute.size
        for attribute, level in zip(attributes, levels, strict=True)
    ]


def model_facts(modelled: ModelView, levels: Sequence[Levels], *, selective: bool) -> ModelFacts:
    """Return the public facts for a model of complete rows.

    Parameters
    ----------
    modelled : Modelled
        The modelled attributes, their rules, and the levels that are never missing.
    levels : sequence of Levels
        Released groups of levels.
    selective : bool
        Whether missing values may depend on values.

    Returns
    -------
    ModelFacts
        Public facts on groups of levels.
    """
    schema = modelled.schema
    never = merge_zeros(impossible_pairs(modelled.impossible_cells, schema.names), levels)
    return ModelFacts(
        ordered=ordered_levels(schema, levels),
        always={a: int(levels[a].groups[level]) for a, level in modelled.never_missing.items()},
        implied_by=modelled.implied_by,
        allowed={(clique[0], clique[1]): ~table for clique, table in never.items()},
        selective=selective,
    )


def measure_one_way(
    session: Session,
    noise: Noise,
    zeros: Zeros,
    row_total: Total | None = None,
    *,
    rare: float | None = None,
    later: Iterable[tuple[str, ...]] = (),
) -> tuple[NoisyMarginals, Total]:
    """Release the one-way marginals of all attributes.

    Parameters
    ----------
    session : Session
        Answers `Marginal`.
    noise : Noise
        Noise of each count.
    zeros : dict of (int, int) to ndarray of bool
        Impossible cells of pairs of attributes, by position. Public.
    row_total : Total, optional
        The released or declared number of all rows.
    rare : float, optional
        Levels with fewer rows than this number of standard deviations of the noise are merged. By
        default only levels of attributes with more than 64 levels that may be noise.
    later : iterable of tuple of str, default ()
        Marginals that are measured later and counted in the same pass over the rows.

    Returns
    -------
    marginals : NoisyMarginals
        Merged levels, and marginals that sum to 1. Released.
    total : Total
        The estimated number of counted rows, which are complete rows if only these are read.
    """
    schema = session.facts.schema
    session.expect(map(Marginal, [*((name,) for name in schema.names), *later]))
    counts = [session.measure(Marginal((name,)), noise).values for name in schema.names]
    every = session.facts.strategy.complete_only  # marginals count complete rows only
    totals: list[Total] = [] if row_total is None or every else [row_total]
    floors: list[Total] = []
    for name, count in zip(schema.names, counts, strict=True):
        total = Total(float(count.sum()), count.size * noise.variance)
        (totals if every or session.facts.sums_to_row_count((name,)) else floors).append(total)
    total = least_squares_total(totals, floors)
    rows = max(1.0, total.value)
    levels, marginals, numbers = list[Levels](), list[Floats](), list[bool]()
    kinds = level_kinds(zeros, [attribute.size for attribute in schema])
    for attribute, count, kind in zip(schema, counts, kinds, strict=True):
        size, single = attribute.size, has_number_levels(attribute)
        below = math.sqrt(2 * math.log(size)) if size > _MANY_LEVELS else -math.inf
        below = below if rare is None else rare
        level_counts = enforce_decreasing_tails(count[:size], noise.std) if single else count[:size]
        level = Levels.from_counts(level_counts, threshold=below * noise.std, kinds=kind)
        merged: Floats = np.bincount(level.groups, weights=level_counts).astype(np.float64)
        if session.facts.strategy.complete_only or not attribute.nullable:
            marginals.append(project_to_simplex(merged / rows))
        else:
            counted = len(count) > size  # otherwise the rest is missing
            missing = count[size:].sum() if counted else rows - merged.sum()
            marginals.append(project_to_simplex(np.append(merged, missing) / rows))
        levels.append(level)
        numbers.append(single and level.n_groups == size)
    parts = tuple(levels), tuple(marginals), noise.std, rows, tuple(numbers)
    return NoisyMarginals(*parts, observed_only=not session.facts.same_total), total


def centred_blocks(marginals: NoisyMarginals) -> list[Floats]:
    """Return the block of numbers of each code of each attribute, given one-way marginals."""
    return [
        _block(marginal, size)
        for marginal, size in zip(marginals.one_way, marginals.sizes, strict=True)
    ]


def _plan_products(
    names: Sequence[str],
    marginals: NoisyMarginals,
    cost: Cost,
    *,
    clip: float | Literal["auto"],
    numbers: Sequence[NumericScore | None] = (),
    pairs: Sequence[Pair] | None = None,
) -> RowProducts:
    """Return the query of the products: blocks of rows and the clip norm, from released values."""
    parts, shares, features = centred_blocks(marginals), list(marginals.one_way), {}
    for a, number in enumerate(numbers):
        if number is not None:
            parts[a], shares[a] = number.add_to_block(parts[a]), number.fine_marginal(shares[a])
            features[a] = number.extra_features(len(parts[a]))
    squared_mu = cost.amount * (2.0 if cost.privacy_measure == "zcdp" else 1.0)
    signal = marginals.rows * math.sqrt(squared_mu)
    usual = _NUMBERS_WEIGHT if features else _FIRST_ORDER_WEIGHT
    weight = usual * min(max(1.0, math.sqrt(_FIRST_ORDER_SIGNAL / signal)), _MAX_WEIGHT_GROWTH)
    ratio = _RATIO_OF_ALL if pairs is None else _RATIO_OF_SOME
    vectors = RowVectors(parts, weight, features, pairs)
    weight = _balanced_weight(shares, vectors, ratio)
    if clip == "auto":
        clip = clip_norm(shares, vectors._replace(first_order_weight=weight), signal)
    named = dict(zip(names, parts, strict=True))
    extra = {names[a]: table for a, table in features.items()}
    by_name = None if pairs is None else tuple((names[a], names[b]) for a, b in pairs)
    return RowProducts(named, clip, weight, extra, by_name)


def _balanced_weight(shares: Sequence[Floats], vectors: RowVectors, ratio: float) -> float:
    """Return a factor with which blocks have at least this ratio of squared length to products.

    Many attributes have few rows for each sum, and one-way marginals must not suffer from pairs.
    """
    rows = independent_rows(shares, _POINTS)
    products = np.square(vectors._replace(first_order_weight=0.0).norms(rows)).mean()
    blocks = np.square(vectors._replace(first_order_weight=1.0, pairs=()).norms(rows)).mean()
    balanced = math.sqrt(ratio * float(products) / max(float(blocks), _GRID))
    return min(max(vectors.first_order_weight, balanced), _MAX_WEIGHT)


def release_pairs(
    session: Session,
    marginals: NoisyMarginals,
    *,
    clip: float | Literal["auto"] = "auto",
    numbers: Sequence[NumericScore | None] = (),
    cost: Cost | None = None,
    pairs: Sequence[Pair] | None = None,
) -> PairRelease:
    """Release sums over rows of the products of pairs of attributes, in one measurement.

    Parameters
    ----------
    session : Session
        Answers `RowProducts`.
    marginals : NoisyMarginals
        The released marginals.
    clip : float or "auto", default "auto"
        Bound on the norm of each row's vector of products. "auto" follows from released values.
    numbers : sequence of NumericScore or None, default ()
        For each attribute, the numeric score at the end of its block, or None. Scores are used only
        if the session has finer codes.
    cost : Cost, optional
        Cost of the measurement. None is the remaining budget of the session.
    pairs : sequence of (int, int), optional
        Positions of the pairs, by public facts. None: all pairs.

    Returns
    -------
    PairRelease
        The marginals, the noisy sums and the measured query. A single attribute has no sums.
    """
    cost = cost or session.remaining
    names = session.facts.schema.names
    groups = marginals.groups(names)
    if len(names) == 1:
        return PairRelease(marginals)
    used = tuple(numbers) if session.facts.has_fine_codes and any(numbers) else ()
    plan = _plan_products(names, marginals, cost, clip=clip, numbers=used, pairs=pairs)
    if used:
        session = session.apply(FineCodes())
        fine = zip(session.facts.schema, used, strict=True)
        groups |= {n.name: np.arange(n.size) for n, number in fine if number is not None}
    released = session.apply(LevelMerge(groups)).measure(plan, cost).value
    return PairRelease(marginals, released, plan, used)


def release_again(session: Session, release: PairRelease, cost: Cost) -> PairRelease:
    """Release all pairs once more, and return the mean of both releases by their precisions.

    Parameters
    ----------
    session : Session
        Answers `RowProducts`.
    release : PairRelease
        The first release, with sums of products.
    cost : Cost
        Cost of the second release.

    Returns
    -------
    PairRelease
        The release, with less noise in its sums of products.
    """
    first, plan, names = release.products, release.plan, session.facts.schema.names
    assert first is not None
    assert plan is not None
    groups = release.marginals.groups(names)
    if any(release.numbers):
        session = session.apply(FineCodes())
        fine = zip(session.facts.schema, release.numbers, strict=True)
        groups |= {n.name: np.arange(n.size) for n, number in fine if number is not None}
    second: Products = session.apply(LevelMerge(groups)).measure(plan, cost).value

    def mean(one: Mapping[Any, Floats], other: Mapping[Any, Floats]) -> dict[Any, Floats]:
        return {
            of: precision_mean((table, first.std), (other[of], second.std))[0]
            for of, table in one.items()
        }

    factor = precision_mean((0.0, first.std), (0.0, second.std))[1] / first.std
    products = replace(
        first,
        single=mean(first.single, second.single),
        pairs=mean(first.pairs, second.pairs),
        extra_features=mean(first.extra_features, second.extra_features),
        std=first.std * factor,
        single_std=first.single_std * factor,
    )
    return replace(release, products=products)


def impossible_pairs(impossible: Mapping[tuple[str, ...], Flags], names: Sequence[str]) -> Zeros:
    """Return the impossible cells of pairs by sorted positions of their attributes.

    Parameters
    ----------
    impossible : mapping of tuple of str to ndarray of bool
        Impossible cells by names. Public.
    names : sequence of str
        The modelled attributes.

    Returns
    -------
    dict of (int, int) to ndarray of bool
        Public.
    """
    place = {name: i for i, name in enumerate(names)}
    zeros: Zeros = {}
    for clique, table in impossible.items():
        if len(clique) == 2:
            a, b = (place[name] for name in clique)
            zeros[min(a, b), max(a, b)] = table if a < b else table.T
    return zeros


def _on_grid(values: Floats) -> Floats:
    return np.asarray(np.rint(values / _GRID) * _GRID)


def _block(marginal: Floats, size: int) -> Floats:
    """Return the block of each code: its centred indicators, and whether it is missing."""
    share = marginal[:size].sum()
    centre = marginal[:size] / share if share > 0 else np.full(size, 1 / size)
    if len(marginal) == size:
        return np.eye(size) - _on_grid(centre)
    block = np.zeros((size + 1, size + 1))
    block[:size, :size] = np.eye(size) - _on_grid(centre)
    block[:, size] = -_on_grid(_MASK * marginal[size:])
    block[size, size] += _MASK
    return block


def _decoder(block: Floats, size: int) -> Floats:
    """Return the matrix that maps sums of blocks to deviations from the marginal."""
    back = np.eye(len(block))
    back[:size, :size] -= 1 / size
    if len(block) > size:
        centre = (np.eye(size) - block[:size, :size])[0]
        scale = block[size, size] - block[0, size]
        back[:size, size] = -centre / scale
        back[size, size] = 1 / scale
    return back


@pydantic.dataclasses.dataclass(frozen=True, eq=False)
class PairRelease(Record):
    """Released tables of a fit: noisy marginals, and perhaps noisy sums for all pairs.

    AllPairs keeps them as ``tables_``. All values are released.

    Parameters
    ----------
    marginals : NoisyMarginals
        One-way marginals, larger marginals, and counts of cells that are missing together.
    products : Products or None
        Noisy sums of products of centred indicators, for all pairs of attributes. None for a single
        attribute, or if marginals of pairs were released instead.
    plan : RowProducts or None
        The query of these sums. None without sums.
    numbers : tuple of (NumericScore or None), default ()
        For each attribute, the numeric score at the end of its indicators, or None. Empty if no
        attribute has a score.
    """

    marginals: NoisyMarginals
    products: Products | None = None
    plan: RowProducts | None = None
    numbers: tuple[NumericScore | None, ...] = ()

    @classmethod
    def of(cls, tables: PairRelease | NoisyMarginals) -> PairRelease:
        """Return the released tables of any family as a `PairRelease`."""
        return tables if isinstance(tables, PairRelease) else cls(tables)

    @property
    def levels(self) -> tuple[Levels, ...]:
        """The groups of levels of each attribute."""
        return self.marginals.levels

    @property
    def rows(self) -> float:
        """Number of counted rows, at least one."""
        return self.marginals.rows

    @property
    def higher_order(self) -> dict[Clique, Floats]:
        """Marginals of three or more attributes."""
        return self.marginals.higher_order

    @property
    def cell_std(self) -> float:
        """Standard deviation of the count of a cell of a pair, in rows."""
        return self.marginals.cell_std if self.products is None else self.products.std

    @property
    def ridge(self) -> float:
        """Factor of the noise allowance in regressions, which is larger for many parents."""
        return _RIDGE_OF_FEW if self.products is None else _RIDGE

    @property
    def rounds(self) -> int:
        """Number of initial fits of the model of missing cells to rows of a quick model."""
        return _ROUNDS_OF_FEW if self.products is None else _ROUNDS

    @property
    def order(self) -> Sequence[int] | None:
        """Drawing order of the attributes, or None if the fit chooses it.

        If pairs of near attributes were released, an attribute follows from those shortly before
        it. Filter questions come first, so their answers never contradict later ones.
        """
        return range(len(self.levels)) if self.has_some_products else None

    @property
    def has_some_products(self) -> bool:
        """Whether products of some pairs were released, and not of all."""
        all_pairs = math.comb(len(self.levels), 2)
        return self.products is not None and len(self.products.pairs) < all_pairs

    @property
    def turns(self) -> int:
        """Largest number of corrections of the tables by rows of the fitted model."""
        if self.products is not None:
            return _MAX_TURNS
        if self.higher_order and self.is_incomplete:
            return _MAX_TURNS
        return 2 if self.higher_order or self.is_incomplete else 1

    @property
    def is_incomplete(self) -> bool:
        """Whether cells of an attribute may be missing."""
        pairs = zip(self.marginals.one_way, self.marginals.sizes, strict=True)
        return any(len(marginal) > size for marginal, size in pairs)

    @property
    def blocks(self) -> list[Floats]:
        """Blocks of the levels of each attribute, one row per level, without numeric scores."""
        tables = [] if self.products is None else list(self.products.blocks.values())
        for a, number in self.numeric_scores.items():
            tables[a] = number.drop_from_block(tables[a])
        return tables

    @property
    def numeric_scores(self) -> dict[int, NumericScore]:
        """The numeric scores by position of the attribute."""
        return {a: number for a, number in enumerate(self.numbers) if number is not None}

    def initial_tables(self) -> PairTables:
        """Return tables in which clipping is corrected as if attributes were independent."""
        if self.products is None:
            return self.tables(None)
        retained, both = self.retained_shares(independent_rows(self.marginals.one_way, _POINTS))
        single = [s / self.rows * (1 / k - 1) for s, k in zip(self._single, retained, strict=True)]
        pairs = {c: t / self.rows * (1 / both[c] - 1) for c, t in self._pairs.items()}
        return self.tables(
            ClippingBias(single, pairs), {pair: 1 / share for pair, share in both.items()}
        )

    def clipping_bias(self, rows: Ints) -> ClippingBias | None:
        """Return the bias that clipping causes in the means of blocks and products over a model's
        rows.

        It includes numeric scores, which are the last columns of blocks. Their squares follow all
        blocks.
        """
        if self.plan is None:
            return None
        return clipped_away(self._fine_rows(rows), self._vectors, self.plan.clip)

    def retained_shares(self, rows: Ints) -> tuple[Floats, dict[Pair, float]]:
        """Return the shares of the sums of blocks and of products that clipping retains."""
        if self.plan is None:
            return np.ones(len(self.levels)), dict.fromkeys(self.tables(None).tables, 1.0)
        return clipped_share(self._fine_rows(rows), self._vectors, self.plan.clip)

    def retained_by_code(self, at: int, rows: Ints) -> Floats:
        """Return the share that clipping retains of rows with each finer code of a number.

        A model has few rows with rare codes. They are estimated from usual rows with that code.
        """
        assert self.plan is not None
        fine_rows, size = self._fine_rows(rows), len(self.numeric_scores[at].groups)
        usual = np.repeat(fine_rows[:_USUAL_ROWS], size, axis=0)
        usual[:, at] = np.tile(np.arange(size), len(usual) // size)
        vectors, clip = self._vectors, self.plan.clip
        retained, prior = (vectors.retained_share(each, clip) for each in (fine_rows, usual))
        prior, inner = prior.reshape(-1, size).mean(axis=0), fine_rows[:, at] < size
        number = np.bincount(fine_rows[inner, at], minlength=size)
        retained_sums = np.bincount(fine_rows[inner, at], retained[inner], size)
        return np.asarray((retained_sums + _PRIOR_ROWS * prior) / (number + _PRIOR_ROWS))

    def _fine_rows(self, rows: Ints) -> Ints:
        """Return rows with finer codes of numbers."""
        # A fixed seed: the rows are public integration points.
        return draw_fine_codes(self.numeric_scores, rows, np.random.default_rng(0))

    @property
    def _vectors(self) -> RowVectors:
        """The vectors that were clipped and summed."""
        assert self.plan is not None
        assert self.products is not None
        names = list(self.products.blocks)
        extra_features = {names.index(n): t for n, t in self.products.extra_blocks.items()}
        return RowVectors(
            list(self.products.blocks.values()),
            self.plan.first_order_weight,
            extra_features,
            tuple(self._pairs) if self.has_some_products else None,
        )

    def tables(
        self,
        bias: ClippingBias | None,
        factors: Mapping[Pair, float] | None = None,
    ) -> PairTables:
        """Return the tables of all pairs, with the noise of every cell.

        Parameters
        ----------
        bias : ClippingBias or None
            Bias that clipping causes in the means of blocks and products. None: marginals of pairs
            were released.
        factors : mapping of (int, int) to float, optional
            Ratio of the noise of a pair to its released noise.

        Returns
        -------
        PairTables
            Released values.
        """
        marginals, released = self.marginals, self.products
        if released is None or bias is None:
            return marginals.tables()
        sizes, blocks, rows = marginals.sizes, self.blocks, marginals.rows
        back = [_decoder(block, size) for block, size in zip(blocks, sizes, strict=True)]
        one_way = [
            self._refined_marginal(a, bias.single[a], *each)
            for a, each in enumerate(zip(blocks, back, strict=True))
        ]
        means = [block.T @ marginal for block, marginal in zip(blocks, one_way, strict=True)]
        # Variance beyond the marginals, which contain the part of the decoder for masks.
        spread = [
            np.append(np.full(size, 1 - 1 / size), np.diag(b)[size:] ** 2)
            for b, size in zip(back, sizes, strict=True)
        ]
        tables, variances = {}, {}
        count_stds = [std[-1] * rows for std in self.marginal_stds] if marginals.masks else []
        for (a, b), sums in self._pairs.items():
            mean = bias.add_bias((a, b), sums / rows)[: len(means[a]), : len(means[b])]
            excess = mean - np.outer(means[a], means[b])
            noise = released.std / rows * (factors[a, b] if factors else 1.0)
            variances[a, b] = noise**2 * np.outer(spread[a], spread[b])
            if (a, b) in marginals.masks:
                last = sizes[a], sizes[b]
                single = [(one_way[v][-1] * rows, count_stds[v]) for v in (a, b)]
                masks, mask_std = marginals.masks[a, b], marginals.masks_std
                count, std = both_missing(masks, mask_std, single, rows)
                measured = (count / rows - one_way[a][-1] * one_way[b][-1]) / (
                    back[a][-1, -1] * back[b][-1, -1]
                )
                variance, count_variance = variances[a, b][last], (std / rows) ** 2
                excess[last] += (measured - excess[last]) * variance / (variance + count_variance)
                variances[a, b][last] = 1 / (1 / variance + 1 / count_variance)
            tables[a, b] = back[a] @ excess @ back[b].T + np.outer(one_way[a], one_way[b])
        if marginals.counts and self.has_some_products:
            counted = marginals.tables()
            tables = dict(counted.tables) | tables
            variances = dict(counted.variances) | variances
        return PairTables(sizes, tuple(one_way), tables, variances, rows)

    @property
    def marginal_stds(self) -> list[Floats]:
        """Standard deviation of each share of the marginals that `tables` returns."""
        first, stds = self.marginals.std / self.rows, []
        if self.products is None:
            return self.marginals.marginal_stds
        for block, size in zip(self.blocks, self.marginals.sizes, strict=True):
            spread = np.square(_decoder(block, size)).sum(axis=1)
            second = self.products.single_std / self.rows * np.sqrt(spread)
            stds.append(first * second / np.hypot(first, second))
        return stds

    def moments(self, bias: ClippingBias | None) -> NumberMoments | None:
        """Return the released moments of numbers, or None: see `clipping_bias`."""
        products, n, sizes = self.products, self.rows, self.marginals.sizes
        if products is None or bias is None or not self.numeric_scores:
            return None
        marginals, blocks = self.tables(bias).marginals, self.blocks
        std, single_std = products.std / (n * WEIGHT), products.single_std / n
        means, powers = {}, {}
        for place, (a, number) in enumerate(self.numeric_scores.items()):
            raw = self._single[a][-1] / n + bias.single[a][-1]
            means[a] = float(raw / WEIGHT), single_std / WEIGHT
            name, observed_share = list(products.blocks)[a], float(marginals[a][: sizes[a]].sum())
            factors = np.array(number.factors)
            sums = (products.extra_features[name] / n + bias.single[len(blocks) + place]) / factors
            powers[a] = sums + np.array([0.0, observed_share]), single_std / factors
        by_level, of_two = {}, {}
        for (a, b), sums in self._pairs.items():
            if a not in means and b not in means:
                continue
            mean, gain = bias.add_bias((a, b), sums / n), bias.gains[a, b]
            if a in means and b in means:
                of_two[a, b] = float(mean[-1, -1] / WEIGHT**2), std / WEIGHT * float(gain[-1, -1])
            for one, other, table, grown in ((a, b, mean, gain), (b, a, mean.T, gain.T)):
                if one in means:
                    back, average = _decoder(blocks[other], sizes[other]), means[one][0]
                    excess = table[-1, : back.shape[1]] / WEIGHT - average * (
                        blocks[other].T @ marginals[other]
                    )
                    spread = std * np.sqrt(np.square(back) @ np.square(grown[-1, : back.shape[1]]))
                    by_level[one, other] = back @ excess + average * marginals[other], spread
        return NumberMoments(means, powers, by_level, of_two)

    def settle_tails(self, model: PairModel, rng: np.random.Generator) -> PairRelease:
        """Return `with_tails` for the rows of a model, as clipping removes most of the tails."""
        release = self
        if self.numeric_scores:
            rows = model.row_model.sample(_ROWS, rng)
            observed = np.where(model.masks.draw(rows, rng), self.marginals.sizes, rows)
            for _ in range(_TURNS):
                release = self.with_tails(release.clipping_bias(observed))
        return release

    def with_tails(self, bias: ClippingBias | None) -> PairRelease:
        """Return the release with the tails of numbers that explain their released moments."""
        moments = self.moments(bias)
        if moments is None:
            return self
        marginals, scores = self.tables(bias).marginals, list(self.numbers)
        for a, number in self.numeric_scores.items():
            scores[a] = number.with_tails(marginals[a], *moments.powers[a])
        return replace(self, numbers=tuple(scores))

    def restricted_to(self, attributes: Sequence[int]) -> PairRelease:
        """Return the release of some attributes, in the order of the table."""
        numbers = tuple(self.numbers[a] for a in attributes) if self.numbers else ()
        marginals = self.marginals.restricted_to(attributes)
        restricted = replace(self, marginals=marginals, numbers=numbers)
        if (products := self.products) is None:
            return restricted
        names = [name for a, name in enumerate(products.blocks) if a in attributes]

        def selected(numbers: Mapping[str, Floats]) -> dict[str, Floats]:
            return {name: table for name, table in numbers.items() if name in names}

        fewer = replace(
            products,
            blocks=selected(products.blocks),
            single=selected(products.single),
            pairs={p: products.pairs[p] for p in combinations(names, 2) if p in products.pairs},
            extra_blocks=selected(products.extra_blocks),
            extra_features=selected(products.extra_features),
        )
        return replace(restricted, products=fewer)

    def redraw_noise(self, rng: np.random.Generator) -> PairRelease:
        """Return the released statistics plus a new draw of their noise."""
        marginals, products = self.marginals.redraw_noise(rng), self.products
        if products is None:
            return replace(self, marginals=marginals)

        def with_noise(sums: Mapping[Any, Floats], std: float) -> dict[Any, Floats]:
            return {of: table + rng.normal(0, std, table.shape) for of, table in sums.items()}

        redrawn = replace(
            products,
            single=with_noise(products.single, products.single_std),
            pairs=with_noise(products.pairs, products.std),
            extra_features=with_noise(products.extra_features, products.single_std),
        )
        return replace(self, marginals=marginals, products=redrawn)

    def _refined_marginal(self, a: int, bias: Floats, block: Floats, back: Floats) -> Floats:
        """Combine a one-way marginal and the mean of blocks, by their inverse variances."""
        marginals, released, one_way = self.marginals, self.products, self.marginals.one_way[a]
        if released is None or len(one_way) == 1:
            return np.ones(1)
        mean = (self._single[a] / marginals.rows + bias)[: block.shape[1]]
        again = one_way + back @ (mean - block.T @ one_way)
        raw = one_way - (one_way.sum() - 1) / len(one_way)
        stds = marginals.std, released.single_std
        first, second = ((std / marginals.rows) ** 2 for std in stds)
        parts = (raw, np.full(len(raw), first)), (again, second * np.square(back).sum(axis=1))
        return combined_marginal(parts, marginals.sizes[a], number=marginals.numbers[a])

    @property
    def _single(self) -> list[Floats]:
        return [] if self.products is None else list(self.products.single.values())

    @property
    def _pairs(self) -> dict[Pair, Floats]:
        """Sums of products by the positions of their attributes."""
        if self.products is None:
            return {}
        place = {name: i for i, name in enumerate(self.products.blocks)}
        return {(place[a], place[b]): t for (a, b), t in self.products.pairs.items()}


def fit_pairs(
    release: PairRelease,
    facts: ModelFacts,
    *,
    rng: np.random.Generator,
    order: Sequence[int] | None = None,
    extend: Callable[[Completed, Ints], PairRelease] | None = None,
) -> PairModel:
    """Fit a model of complete rows and of missing cells to released tables.

    The clipped sums of products of the model's rows match the released clipped sums.

    Parameters
    ----------
    release : PairRelease
        Noisy marginals and tables of all pairs, or of some.
    facts : ModelFacts
        Public facts, and released levels.
    rng : numpy.random.Generator
        Draws rows of the model.
    order : sequence of int, optional
        Positions of the attributes in drawing order. By default the fit chooses it.
    extend : callable, optional
        ``extend(completed, rows)`` returns the release with further measurements, given tables and
        rows of the model. It is called once, in the second turn.

    Returns
    -------
    PairModel
        The distribution of rows and of their missing cells. Released.
    """
    sizes = release.marginals.sizes
    selective, rounds = facts.selective, release.rounds if facts.selective else 0
    plain, together = release, dict[Clique, Floats]()
    tables, n = release.initial_tables(), rows_enough(_ROWS, known_rows=release.rows)
    completed, smoothing = _smooth(complete(tables, facts, rng=rng, rounds=rounds), facts)
    change = math.inf
    for turn in range(1, 1 + (release.turns if extend is None else _MAX_TURNS)):
        row_model = fit_conditional_models(
            completed.marginals,
            completed.pairs,
            completed.variances,
            rng=rng,
            allowed=smoothing.allowed(facts.allowed),
            order=release.order if order is None else order,
            higher_order=together,
            ridge=release.ridge,
            strengths=smoothing.strengths,
        )
        rows = row_model.sample(n, rng)
        if extend is not None and turn == _EXTENDED:
            plain = extend(completed, rows)
            release = replace(plain, numbers=release.numbers)
        missing, before = completed.masks.draw(rows, rng), tables.tables
        bias = release.clipping_bias(np.where(missing, sizes, rows))
        release = plain.with_tails(bias)
        tables = release.tables(bias)
        some = rows[: rows_enough(n, attributes=len(sizes))]
        start = completed.masks if selective else None
        completed = complete_with_rows(tables, facts, some, start=start)
        numbers = released_covariances(release, bias, completed, rows, missing)
        completed, smoothing = _smooth(completed, facts, numbers)
        last_together = together
        together = release.marginals.higher_order_targets(completed.masks, rows)
        # Marginals of AIM contain the only releases of their pairs. Without missing cells, scaling
        # before the last turn would replace these by less accurate pairs.
        if together and (release.products is not None or release.is_incomplete):
            together = scaled_to_smaller(together, targets(completed, rows))
        # With few attributes, clipping removes much of most rows, and the correction needs more
        # turns. Otherwise all tables would be biased in one direction.
        last_change, change = change, mean_change(before, tables.tables, tables.variances)
        # Where cells are missing by the interaction of two attributes, only rows with the
        # interaction correct the tables of pairs, to which larger marginals are scaled.
        change = max(change, _change_of_larger(last_together, together, release))
        if turn >= _TURNS and (change <= _MIN_CHANGE or change > _MAX_CHANGE_RATIO * last_change):
            break
    more = row_model.sample(max(0, _TARGET_ROWS - len(rows)), rng)
    targets_of_rows = targets(completed, np.concatenate([rows, more]), larger=together)
    return PairModel(release.levels, row_model, targets_of_rows, completed.masks, release.rows)


def _change_of_larger(
    before: Mapping[Clique, Floats], after: Mapping[Clique, Floats], release: PairRelease
) -> float:
    """Return the root mean square change of larger marginals, in SDs of their noise."""
    if not before:
        return math.inf if after else 0.0
    stds = release.marginals.higher_order_stds
    same = {c: after[c] for c in stds if c in after}
    variances = {c: np.full(t.shape, (stds[c] / release.rows) ** 2) for c, t in same.items()}
    return mean_change(before, same, variances)


def _smooth(
    completed: Completed, facts: ModelFacts, numbers: Numbers | None = None
) -> tuple[Completed, Smoothing]:
    """Return tables with posterior means of smooth pairs, and the smoothing.

    The smoothing has the strength of dependence of all other pairs.
    """
    smoothing = Smoothing.of(
        completed.marginals,
        completed.pairs,
        completed.variances,
        facts.ordered,
        rows=completed.n_rows,
        flat=False,
        numbers=numbers,
    )
    pairs, variances = smoothing.means(), smoothing.remaining_variance
    smooth = replace(completed, marginals=smoothing.marginals, pairs=pairs, variances=variances)
    return smooth, smoothing


def released_covariances(
    release: PairRelease,
    bias: ClippingBias | None,
    completed: Completed,
    rows: Ints,
    missing: Flags,
) -> Numbers | None:
    """Return covariances of numbers in complete rows, from released products, if there are any.

    Parameters
    ----------
    release : PairRelease
        The release. Only sums of products have numbers.
    bias : ClippingBias or None
        Bias that clipping causes.
    completed : Completed
        Tables of complete rows, and the model of missing cells.
    rows : ndarray of int64, shape (n, d)
        Rows of the model of complete rows.
    missing : ndarray of bool, shape (n, d)
        Flags of their missing cells.

    Returns
    -------
    Numbers or None
        Released covariances.
    """
    moments = release.moments(bias)
    if moments is None:
        return None
    levels = {a: number.levels for a, number in release.numeric_scores.items()}
    return number_covariances(moments, levels, completed.marginals, rows, missing, completed.masks)
