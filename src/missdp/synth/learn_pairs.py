"""Release of all pairs at once: one-way margins first, then one sum of products of centred blocks.

Centring by what the margins tell is what makes all pairs affordable: a row that is like most others
has a short vector. Everything here is post-processing of what a session answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pydantic.dataclasses
from numpy.typing import NDArray

from missdp.accounting import Cost
from missdp.inference.completion import (
    Completed,
    ModelFacts,
    PairTables,
    complete,
    complete_by,
    moved,
    rows_enough,
)
from missdp.inference.conditional_models import Pair
from missdp.inference.counts import falling_ends, project_to_simplex
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
    complete_numbers,
    independent_rows,
)
from missdp.inference.smoothing import Smoothing
from missdp.schema import AnyAttribute, Numeric, Ordinal
from missdp.schema.modelled import ModelView
from missdp.serialization import Record
from missdp.session import (
    FineCodes,
    Marginal,
    Merged,
    Noise,
    Products,
    RowProducts,
    Session,
    Total,
)
from missdp.synth.coordinates import WEIGHT, Coordinate, finely_drawn
from missdp.synth.noisy_counts import has_numbers, least_squares_total
from missdp.types import Clique, Floats, Ints

_ALONE = 1.6  # factor of single blocks beside their products
_ALONE_NUMBERED = 1.2  # where there are numbers, which make vectors longer
_MARGINS_FIRST = 1000.0  # rows over noise, in norms, below which that factor grows
_MOST_ALONE = 8.0  # times so much
_MANY = 64  # levels; of longer lists, those that noise alone may lift so high are merged
_GRID = 2.0**-10
_MASK = 0.35  # factor of the number that says whether an attribute is missing
_POINTS = 4096  # rows by which clipping is first guessed
_ROWS = 20_000  # rows of a model by which it is undone
_TARGET_ROWS = 40_000  # of a model, from which tables that rows are raked to are shrunk
_TURNS = 3  # at least
_MOST_TURNS = 12
_STILL = 0.2  # standard deviations of noise, below which tables no longer move
_NEARER = 0.8  # of the last move, above which they only move to and fro
_USUAL_ROWS, _PRIOR_ROWS = 300, 30.0  # by which it is told how much is left of rare numbers
_RIDGE, _RIDGE_OF_FEW = 8.0, 2.0  # with 8 for few pairs, rank correlations are weaker
_ROUNDS, _ROUNDS_OF_FEW = 3, 8  # after which the models of rows and of missing cells agree


def ordered_levels(attributes: Iterable[AnyAttribute], levels: Iterable[Levels]) -> list[bool]:
    """Whether the levels of each attribute have an order, and none are merged."""
    return [
        isinstance(attribute, (Numeric, Ordinal)) and level.n_groups == attribute.size
        for attribute, level in zip(attributes, levels, strict=True)
    ]


def model_facts(modelled: ModelView, levels: Sequence[Levels], *, selective: bool) -> ModelFacts:
    """Return the public facts under which a model of complete rows is fitted.

    Parameters
    ----------
    modelled : Modelled
        The modelled attributes, rules, and which levels are never missing.
    levels : sequence of Levels
        Released groups of levels.
    selective : bool
        Whether missing values may depend on values.

    Returns
    -------
    ModelFacts
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
    number: Total | None = None,
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
    number : Total, optional
        The number of all rows, if it was released or declared before.
    rare : float, optional
        Levels with fewer rows than so many standard deviations of the noise are merged. By default
        only those of attributes with many levels that noise alone may lift so high.
    later : iterable of tuple of str, default ()
        Marginals that are measured later, and counted in the same pass over the rows.

    Returns
    -------
    marginals : NoisyMarginals
        Merged levels, and marginals that sum to 1. Released.
    total : Total
        The estimated number of counted rows: of complete rows, if only those are read.
    """
    schema = session.facts.schema
    session.expect(map(Marginal, [*((name,) for name in schema.names), *later]))
    counts = [session.measure(Marginal((name,)), noise).values for name in schema.names]
    every = session.facts.strategy.complete_only  # margin counts the same rows, though not all
    told: list[Total] = [] if number is None or every else [number]
    floors: list[Total] = []
    for name, count in zip(schema.names, counts, strict=True):
        total = Total(float(count.sum()), count.size * noise.variance)
        (told if every or session.facts.sums_to_row_count((name,)) else floors).append(total)
    total = least_squares_total(told, floors)
    rows = max(1.0, total.value)
    levels, margins, numbers = list[Levels](), list[Floats](), list[bool]()
    kinds = level_kinds(zeros, [attribute.size for attribute in schema])
    for attribute, count, kind in zip(schema, counts, kinds, strict=True):
        size, single = attribute.size, has_numbers(attribute)
        below = math.sqrt(2 * math.log(size)) if size > _MANY else -math.inf
        below = below if rare is None else rare
        seen = falling_ends(count[:size], noise.std) if single else count[:size]
        level = Levels.from_counts(seen, threshold=below * noise.std, kinds=kind)
        merged: Floats = np.bincount(level.groups, weights=seen).astype(np.float64)
        if session.facts.strategy.complete_only or not attribute.nullable:
            margins.append(project_to_simplex(merged / rows))
        else:
            counted = len(count) > size  # else only observed cells are, and the rest is missing
            missing = count[size:].sum() if counted else rows - merged.sum()
            margins.append(project_to_simplex(np.append(merged, missing) / rows))
        levels.append(level)
        numbers.append(single and level.n_groups == size)
    parts = tuple(levels), tuple(margins), noise.std, rows, tuple(numbers)
    return NoisyMarginals(*parts, observed_only=not session.facts.same_total), total


def blocks(marginals: NoisyMarginals) -> list[Floats]:
    """Return what each code of each attribute stands for, given one-way margins."""
    return [
        _block(margin, size)
        for margin, size in zip(marginals.margins, marginals.sizes, strict=True)
    ]


def _plan_products(
    names: Sequence[str],
    marginals: NoisyMarginals,
    cost: Cost,
    *,
    clip: float | Literal["auto"],
    numbers: Sequence[Coordinate | None] = (),
) -> RowProducts:
    """Return the blocks of rows, and where their vectors are clipped; from released values."""
    parts, margins, further = blocks(marginals), list(marginals.margins), {}
    for a, number in enumerate(numbers):
        if number is not None:
            parts[a], margins[a] = number.lifted(parts[a]), number.margin(margins[a])
            further[a] = number.further(len(parts[a]))
    squared_mu = cost.amount * (2.0 if cost.privacy_measure == "zcdp" else 1.0)
    signal = marginals.rows * math.sqrt(squared_mu)
    alone = (_ALONE_NUMBERED if further else _ALONE) * min(
        max(1.0, math.sqrt(_MARGINS_FIRST / signal)), _MOST_ALONE
    )
    if clip == "auto":
        clip = clip_norm(margins, RowVectors(parts, alone, further), signal)
    named = dict(zip(names, parts, strict=True))
    return RowProducts(named, clip, alone, {names[a]: table for a, table in further.items()})


def release_pairs(
    session: Session,
    marginals: NoisyMarginals,
    *,
    clip: float | Literal["auto"] = "auto",
    numbers: Sequence[Coordinate | None] = (),
    cost: Cost | None = None,
) -> PairRelease:
    """Release sums over rows of the products of all pairs of attributes, in one measurement.

    Parameters
    ----------
    session : Session
        Answers `RowProducts`.
    marginals : NoisyMarginals
        The released marginals.
    clip : float or "auto", default "auto"
        Bound on the norm of each row's vector of products. "auto": chosen from released values.
    numbers : sequence of Coordinate or None, default ()
        For each attribute, the number that its block ends with, or None. They are used only if
        the session has finer codes.
    cost : Cost, optional
        Cost of the measurement. None: all that is left of the session's budget.

    Returns
    -------
    PairRelease
        The marginals, the noisy sums and the measured query. There are no sums if there is only one
        attribute.
    """
    cost = cost or session.left
    names = session.facts.schema.names
    groups = marginals.groups(names)
    if len(names) == 1:
        return PairRelease(marginals)
    used = tuple(numbers) if session.facts.has_finer_codes and any(numbers) else ()
    plan = _plan_products(names, marginals, cost, clip=clip, numbers=used)
    if used:
        session = session.on(FineCodes())
        fine = zip(session.facts.schema, used, strict=True)
        groups |= {n.name: np.arange(n.size) for n, number in fine if number is not None}
    released = session.on(Merged(groups)).measure(plan, cost).value
    return PairRelease(marginals, released, plan, used)


def impossible_pairs(
    impossible: Mapping[tuple[str, ...], NDArray[np.bool_]], names: Sequence[str]
) -> Zeros:
    """Return the impossible cells of pairs by the positions of their attributes, earlier first."""
    place = {name: i for i, name in enumerate(names)}
    found: Zeros = {}
    for clique, table in impossible.items():
        if len(clique) == 2:
            a, b = (place[name] for name in clique)
            found[min(a, b), max(a, b)] = table if a < b else table.T
    return found


def _on_grid(values: Floats) -> Floats:
    return np.asarray(np.rint(values / _GRID) * _GRID)


def _block(margin: Floats, size: int) -> Floats:
    """Return the block of each code: centred indicators, and whether it is missing."""
    share = margin[:size].sum()
    centre = margin[:size] / share if share > 0 else np.full(size, 1 / size)
    if len(margin) == size:
        return np.eye(size) - _on_grid(centre)
    block = np.zeros((size + 1, size + 1))
    block[:size, :size] = np.eye(size) - _on_grid(centre)
    block[:, size] = -_on_grid(_MASK * margin[size:])
    block[size, size] += _MASK
    return block


def _back(block: Floats, size: int) -> Floats:
    """Return the matrix that takes sums of blocks back to deviations from the margin."""
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
    """All that was released: noisy marginals, and perhaps sums of products of blocks.

    * ``marginals``: One-way marginals, larger ones, and which cells are missing together.
    * ``products``, ``plan``: None if there is one attribute only, or if marginals of pairs were
      released instead.
    * ``numbers``: Of each attribute, the number that its block ends with, if it has one; empty if
      none has.
    """

    marginals: NoisyMarginals
    products: Products | None = None
    plan: RowProducts | None = None
    numbers: tuple[Coordinate | None, ...] = ()

    @classmethod
    def of(cls, tables: PairRelease | NoisyMarginals) -> PairRelease:
        """Return the release that a family keeps the tables of."""
        return tables if isinstance(tables, PairRelease) else cls(tables)

    @property
    def levels(self) -> tuple[Levels, ...]:
        """Which levels of each attribute are merged."""
        return self.marginals.levels

    @property
    def rows(self) -> float:
        """Number of rows that are counted, at least one."""
        return self.marginals.rows

    @property
    def together(self) -> dict[Clique, Floats]:
        """Marginals of three attributes and more."""
        return self.marginals.together

    @property
    def cell_std(self) -> float:
        """Noise of the count of a cell of a pair."""
        return self.marginals.cell_std if self.products is None else self.products.std

    @property
    def ridge(self) -> float:
        """Factor of the allowance for noise in regressions: larger with many parents."""
        return _RIDGE_OF_FEW if self.products is None else _RIDGE

    @property
    def rounds(self) -> int:
        """How often the model of missing cells is learned from quick rows, to begin with."""
        return _ROUNDS_OF_FEW if self.products is None else _ROUNDS

    @property
    def turns(self) -> int:
        """How often a fit corrects the tables by its own rows, at most."""
        if self.products is not None:
            return _MOST_TURNS
        margins = zip(self.marginals.margins, self.marginals.sizes, strict=True)
        return 2 if self.together or any(len(m) > size for m, size in margins) else 1

    @property
    def blocks(self) -> list[Floats]:
        """What each level of each attribute stands for, numbers aside; one row per level."""
        found = [] if self.products is None else list(self.products.blocks.values())
        for a, number in self.numbered.items():
            found[a] = number.lowered(found[a])
        return found

    @property
    def numbered(self) -> dict[int, Coordinate]:
        """The attributes that have a number."""
        return {a: number for a, number in enumerate(self.numbers) if number is not None}

    def guessed(self) -> PairTables:
        """Return tables from which clipping has been undone as if attributes were independent."""
        if self.products is None:
            return self.tables(None)
        left, both = self.left(independent_rows(self.marginals.margins, _POINTS))
        single = [s / self.rows * (1 / k - 1) for s, k in zip(self._single, left, strict=True)]
        pairs = {c: t / self.rows * (1 / both[c] - 1) for c, t in self._pairs.items()}
        return self.tables(
            ClippingBias(single, pairs), {pair: 1 / share for pair, share in both.items()}
        )

    def taken(self, rows: Ints) -> ClippingBias | None:
        """Return what clipping takes from the means of blocks and products over a model's rows.

        Numbers included: they come last in blocks, and their squares after all blocks.
        """
        if self.plan is None:
            return None
        return clipped_away(self._finely(rows), self._vectors, self.plan.clip)

    def left(self, rows: Ints) -> tuple[Floats, dict[Pair, float]]:
        """Return the shares of the sums of blocks and of products that clipping leaves."""
        if self.plan is None:
            return np.ones(len(self.levels)), dict.fromkeys(self.tables(None).tables, 1.0)
        return clipped_share(self._finely(rows), self._vectors, self.plan.clip)

    def left_of(self, at: int, rows: Ints) -> Floats:
        """Return what part clipping leaves of rows with each finer code of a number.

        Where a model has few such rows, as of rows that are like all others but for the number.
        """
        assert self.plan is not None
        told, size = self._finely(rows), len(self.numbered[at].groups)
        usual = np.repeat(told[:_USUAL_ROWS], size, axis=0)
        usual[:, at] = np.tile(np.arange(size), len(usual) // size)
        left, prior = (self._vectors.kept(each, self.plan.clip) for each in (told, usual))
        prior, inner = prior.reshape(-1, size).mean(axis=0), told[:, at] < size
        number = np.bincount(told[inner, at], minlength=size)
        found = np.bincount(told[inner, at], left[inner], size)
        return np.asarray((found + _PRIOR_ROWS * prior) / (number + _PRIOR_ROWS))

    def _finely(self, rows: Ints) -> Ints:
        """Return rows with finer codes of numbers."""
        return finely_drawn(self.numbered, rows, np.random.default_rng(0))  # public: any points do

    @property
    def _vectors(self) -> RowVectors:
        """The vectors that were clipped and summed up."""
        assert self.plan is not None
        assert self.products is not None
        names = list(self.products.blocks)
        further = {names.index(n): t for n, t in self.products.further_blocks.items()}
        return RowVectors(list(self.products.blocks.values()), self.plan.alone, further)

    def tables(
        self,
        taken: ClippingBias | None,
        factors: Mapping[Pair, float] | None = None,
    ) -> PairTables:
        """Return the tables of all pairs, with the noise of every cell.

        ``taken`` is what clipping took from the means of blocks and products; ``factors`` say by
        how much the noise of a pair is larger than it was released.
        """
        known, released = self.marginals, self.products
        if released is None or taken is None:
            return known.tables()
        sizes, blocks, rows = known.sizes, self.blocks, known.rows
        back = [_back(block, size) for block, size in zip(blocks, sizes, strict=True)]
        margins = [
            self._refined(a, taken.single[a], block, back[a]) for a, block in enumerate(blocks)
        ]
        means = [block.T @ margin for block, margin in zip(blocks, margins, strict=True)]
        # Of what margins do not tell: the part of `back` that goes through the mask is in them.
        spread = [
            np.append(np.full(size, 1 - 1 / size), np.diag(b)[size:] ** 2)
            for b, size in zip(back, sizes, strict=True)
        ]
        tables, variances = {}, {}
        unsure = [std[-1] * rows for std in self.margin_stds] if known.masks else []
        for (a, b), found in self._pairs.items():
            whole = taken.put_back((a, b), found / rows)[: len(means[a]), : len(means[b])]
            excess = whole - np.outer(means[a], means[b])
            noise = released.std / rows * (factors[a, b] if factors else 1.0)
            variances[a, b] = noise**2 * np.outer(spread[a], spread[b])
            if (a, b) in known.masks:
                last = sizes[a], sizes[b]
                holes = [(margins[v][-1] * rows, unsure[v]) for v in (a, b)]
                count, std = both_missing(known.masks[a, b], known.masks_std, holes, rows)
                again = (count / rows - margins[a][-1] * margins[b][-1]) / (
                    back[a][-1, -1] * back[b][-1, -1]
                )
                ours, theirs = variances[a, b][last], (std / rows) ** 2
                excess[last] += (again - excess[last]) * ours / (ours + theirs)
                variances[a, b][last] = 1 / (1 / ours + 1 / theirs)
            tables[a, b] = back[a] @ excess @ back[b].T + np.outer(margins[a], margins[b])
        return PairTables(sizes, tuple(margins), tables, variances, rows)

    @property
    def margin_stds(self) -> list[Floats]:
        """Noise of each share of the margins that `tables` returns."""
        first, found = self.marginals.std / self.rows, []
        if self.products is None:
            return self.marginals.margin_stds
        for block, size in zip(self.blocks, self.marginals.sizes, strict=True):
            spread = np.square(_back(block, size)).sum(axis=1)
            second = self.products.single_std / self.rows * np.sqrt(spread)
            found.append(first * second / np.hypot(first, second))
        return found

    def moments(self, taken: ClippingBias | None) -> NumberMoments | None:
        """Return what was released of numbers, or None if nothing was; see `taken`."""
        products, n, sizes = self.products, self.rows, self.marginals.sizes
        if products is None or taken is None or not self.numbered:
            return None
        margins, blocks = self.tables(taken).margins, self.blocks
        std, alone = products.std / (n * WEIGHT), products.single_std / n
        means, powers = {}, {}
        for place, (a, number) in enumerate(self.numbered.items()):
            raw = self._single[a][-1] / n + taken.single[a][-1]
            means[a] = float(raw / WEIGHT), alone / WEIGHT
            name, seen = list(products.blocks)[a], float(margins[a][: sizes[a]].sum())
            factors = np.array(number.factors)
            found = (products.further[name] / n + taken.single[len(blocks) + place]) / factors
            powers[a] = found + np.array([0.0, seen]), alone / factors
        by_level, both = {}, {}
        for (a, b), found in self._pairs.items():
            if a not in means and b not in means:
                continue
            whole, gain = taken.put_back((a, b), found / n), taken.gains[a, b]
            if a in means and b in means:
                both[a, b] = float(whole[-1, -1] / WEIGHT**2), std / WEIGHT * float(gain[-1, -1])
            for one, other, sums, grown in ((a, b, whole, gain), (b, a, whole.T, gain.T)):
                if one in means:
                    back, mean = _back(blocks[other], sizes[other]), means[one][0]
                    excess = sums[-1, : back.shape[1]] / WEIGHT - mean * (
                        blocks[other].T @ margins[other]
                    )
                    spread = std * np.sqrt(np.square(back) @ np.square(grown[-1, : back.shape[1]]))
                    by_level[one, other] = back @ excess + mean * margins[other], spread
        return NumberMoments(means, powers, by_level, both)

    def settled(self, model: PairModel, rng: np.random.Generator) -> PairRelease:
        """Return `with_tails` for the rows of a model; clipping takes most of what is far out."""
        found = self
        if self.numbered:
            rows = model.law.sample(_ROWS, rng)
            seen = np.where(model.masks.draw(rows, rng), self.marginals.sizes, rows)
            for _ in range(_TURNS):
                found = self.with_tails(found.taken(seen))
        return found

    def with_tails(self, taken: ClippingBias | None) -> PairRelease:
        """Return the release with as much beyond the outermost bins as moments of numbers tell."""
        moments = self.moments(taken)
        if moments is None:
            return self
        margins, found = self.tables(taken).margins, list(self.numbers)
        for a, number in self.numbered.items():
            found[a] = number.with_tails(margins[a], *moments.powers[a])
        return replace(self, numbers=tuple(found))

    def about(self, wanted: Sequence[int]) -> PairRelease:
        """Return what was released about some attributes, in the order of the table."""
        numbers = tuple(self.numbers[a] for a in wanted) if self.numbers else ()
        found = replace(self, marginals=self.marginals.about(wanted), numbers=numbers)
        if (products := self.products) is None:
            return found
        names = [name for a, name in enumerate(products.blocks) if a in wanted]

        def kept(numbers: Mapping[str, Floats]) -> dict[str, Floats]:
            return {name: table for name, table in numbers.items() if name in names}

        fewer = replace(
            products,
            blocks=kept(products.blocks),
            single=kept(products.single),
            pairs={pair: products.pairs[pair] for pair in combinations(names, 2)},
            further_blocks=kept(products.further_blocks),
            further=kept(products.further),
        )
        return replace(found, products=fewer)

    def redrawn(self, rng: np.random.Generator) -> PairRelease:
        """Return the released statistics, moved by another draw of the noise that they have."""
        marginals, products = self.marginals.redrawn(rng), self.products
        if products is None:
            return replace(self, marginals=marginals)

        def again(sums: Mapping[Any, Floats], std: float) -> dict[Any, Floats]:
            return {of: found + rng.normal(0, std, found.shape) for of, found in sums.items()}

        moved = replace(
            products,
            single=again(products.single, products.single_std),
            pairs=again(products.pairs, products.std),
            further=again(products.further, products.single_std),
        )
        return replace(self, marginals=marginals, products=moved)

    def _refined(self, a: int, lost: Floats, block: Floats, back: Floats) -> Floats:
        """Put a one-way margin and the mean of blocks together, by their inverse variances."""
        known, released, one_way = self.marginals, self.products, self.marginals.margins[a]
        if released is None or len(one_way) == 1:
            return np.ones(1)
        mean = (self._single[a] / known.rows + lost)[: block.shape[1]]
        again = one_way + back @ (mean - block.T @ one_way)
        raw = one_way - (one_way.sum() - 1) / len(one_way)
        first, second = ((std / known.rows) ** 2 for std in (known.std, released.single_std))
        parts = (raw, np.full(len(raw), first)), (again, second * np.square(back).sum(axis=1))
        return combined_marginal(parts, known.sizes[a], number=known.numbers[a])

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
) -> PairModel:
    """Fit a model of complete rows, and of what is missing, to released tables.

    Clipped sums of products are those of the model's rows, clipped.

    Parameters
    ----------
    release : PairRelease
        Noisy margins and tables of all pairs, or of some.
    facts : ModelFacts
        Public facts, and released levels.
    rng : numpy.random.Generator
        For draws of the model.
    order : sequence of int, optional
        Positions of the attributes in drawing order.

    Returns
    -------
    PairModel
        The law of rows and of their missing values.
    """
    sizes = release.marginals.sizes
    selective, rounds = facts.selective, release.rounds if facts.selective else 0
    plain, together = release, dict[Clique, Floats]()
    tables, n = release.guessed(), rows_enough(_ROWS, known=release.rows)
    known, smoothing = _smoothed(complete(tables, facts, rng=rng, rounds=rounds), facts)
    move = math.inf
    for turn in range(1, release.turns + 1):
        law = fit_conditional_models(
            known.margins,
            known.pairs,
            known.variances,
            rng=rng,
            allowed=smoothing.allowed(facts.allowed),
            order=order,
            together=together,
            ridge=release.ridge,
            strengths=smoothing.strengths,
        )
        rows = law.sample(n, rng)
        holes, before = known.masks.draw(rows, rng), tables.tables
        taken = release.taken(np.where(holes, sizes, rows))
        release = plain.with_tails(taken)
        tables = release.tables(taken)
        some = rows[: rows_enough(n, attributes=len(sizes))]
        known = complete_by(tables, facts, some, start=known.masks if selective else None)
        numbers = numbers_of(release, taken, known, rows, holes)
        known, smoothing = _smoothed(known, facts, numbers)
        together = release.marginals.of_several(known.masks, rows)
        # Where clipping took much from most rows, as it does with few attributes, putting it back
        # takes more turns: stopped too early, all tables would be biased the same way.
        last, move = move, moved(before, tables.tables, tables.variances)
        if turn >= _TURNS and (move <= _STILL or move > _NEARER * last):
            break
    more = law.sample(max(0, _TARGET_ROWS - len(rows)), rng)
    wanted = targets(known, np.concatenate([rows, more])) | together
    return PairModel(release.levels, law, wanted, known.masks, release.rows)


def _smoothed(
    known: Completed, facts: ModelFacts, numbers: Numbers | None = None
) -> tuple[Completed, Smoothing]:
    """Return tables with posterior means in place of noisy ones where these are smooth.

    With them comes the smoothing, which says how strong all other pairs depend on each other.
    """
    found = Smoothing.of(
        known.margins,
        known.pairs,
        known.variances,
        facts.ordered,
        rows=known.n_rows,
        flat=False,
        numbers=numbers,
    )
    pairs, variances = found.means(), found.remaining_variance
    return replace(known, margins=found.margins, pairs=pairs, variances=variances), found


def numbers_of(
    release: PairRelease,
    taken: ClippingBias | None,
    known: Completed,
    rows: Ints,
    holes: NDArray[np.bool_],
) -> Numbers | None:
    """Return what products with numbers say of complete rows, if there are any.

    Parameters
    ----------
    release : PairRelease
        What was released; only products have numbers.
    taken : Taken or None
        What clipping took.
    known : Completed
        Tables of complete rows, and the model of missing cells.
    rows : ndarray of int64, shape (n, d)
        Rows of the model of complete rows.
    holes : ndarray of bool, shape (n, d)
        Which of their cells are missing.

    Returns
    -------
    Numbers or None
    """
    moments = release.moments(taken)
    if moments is None:
        return None
    levels = {a: number.levels for a, number in release.numbered.items()}
    return complete_numbers(moments, levels, known.margins, rows, holes, known.masks)
