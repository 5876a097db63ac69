"""Tables of the complete data, estimated from tables of all pairs in which values are missing.

Every released table of two attributes has a level for missing values. How often one attribute is
missing at each level of another gives a model of the masks (`missdp.inference.masks`); the tables
of the observed values, divided by the chance to be observed, give those of the complete data, as
in inverse probability weighting (Robins, Rotnitzky and Zhao 1994). That chance, given two values,
depends on all the others, so that it is a mean over rows drawn from the model of the complete data:
both models are fitted in turns. This corrects for values that are missing at random in so far as
the model of the masks holds. Where released rates do not differ by more than noise, values are
taken to be missing completely at random, and the tables stay as they were observed.

Attributes may be missing together. Released counts of rows in which two are both missing are noisy,
and a correlation that follows them tears apart what belongs together. Whether two attributes have
the same holes (the fewer of one are among those of the other) is therefore weighed against
independence, by how likely either makes the counts; evidence of all pairs between two groups adds
up. Within a group, what is known of the holes of each attribute is known of all: it is averaged.

Everything here is a function of released values.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product

import numpy as np

from missdp.inference.estimate import PairCounts
from missdp.inference.fit_heads import fit_tree
from missdp.inference.heads import Pair
from missdp.inference.junction import Clique
from missdp.inference.masks import Both, MaskModel, Strip, fit_correlation, positive
from missdp.inference.model import cell_index
from missdp.inference.raking import centred, rake, resample, shrunk
from missdp.types import Flags, Floats, Ints


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
    """

    sizes: tuple[int, ...]
    margins: tuple[Floats, ...]
    tables: Mapping[Pair, Floats]
    variances: Mapping[Pair, Floats]
    n_rows: float

    @property
    def rates(self) -> Floats:
        """Share of the rows in which each attribute is missing."""
        return np.array([m[s:].sum() for m, s in zip(self.margins, self.sizes, strict=True)])


_LEAST_CHANCE = 0.02  # no share is divided by less
_LEAST_SHARE = 1e-7
_LEAST_VARIANCE = 1e-30
_LEAST_DEGREES = 0.01  # an attribute of one level has none
_RIDGE = 0.1  # see `MaskModel.learn`
_PRIOR_ROWS = 5.0  # strength with which a cell's chance leans on those of its two levels
_COINCIDENCE = 3.0  # standard deviations
_QUIET = 0.05  # noise of a margin, as a share of the rows, below which its square is nothing
_PLAINLY = 3.0  # standard deviations of what noise adds up to
_SWEEPS = 15
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
    """

    margins: tuple[Floats, ...]
    pairs: Mapping[Pair, Floats]
    variances: Mapping[Pair, Floats]
    masks: MaskModel


def complete(
    tables: PairTables,
    *,
    rng: np.random.Generator,
    draw: Callable[[Completed], Ints] | None = None,
    always: Mapping[int, int] | None = None,
    told: Mapping[int, tuple[int, ...]] | None = None,
    rounds: int = 3,
    start: MaskModel | None = None,
    ordered: Sequence[bool] = (),
) -> Completed:
    """Return what noisy tables with holes say of complete rows, and a model of the masks.

    Where attributes are told to be ``ordered``, how often others are missing may follow a trend.
    """
    rates = np.clip(tables.rates, 0.0, 1 - _LEAST_CHANCE)
    new = MaskModel(rates, dict(always or {}), told=dict(told or {}))
    masks = new if start is None else copy.deepcopy(start)
    masks.rates = rates
    rows = np.zeros((0, len(tables.sizes)), dtype=np.int64)
    known = _corrected(tables, rows, masks)
    if not masks.present.any():
        return known
    enough = rows_enough(_ROWS, attributes=len(tables.sizes), known=tables.n_rows)
    strips, both = _strips(tables, masks.present, ordered), _coincidences(tables)
    if rounds:
        masks.find_skipped(strips, both, tables.n_rows)
    ruled = {*masks.told, *chain(*masks.told.values())}
    groups = _groups_of(both, rates, tables.n_rows, before=masks.correlation, without=ruled)
    strips, both = _pooled(groups, strips, both, rates)
    for turn in range(rounds):
        first = turn == 0 and start is None
        rows = _tree_rows(known, rng, n=enough) if draw is None else draw(known)
        masks.learn(
            rows,
            tables.n_rows,
            strips,
            ridge=_RIDGE,
            sweeps=2 * _SWEEPS if first else _SWEEPS,
            both=None if first else both,
        )
        known = _corrected(tables, rows, masks)
    if rounds:
        chances = masks.missing(rows)
        found = fit_correlation(
            chances,
            both,
            tables.n_rows,
            explained=masks.explained,
            settled=masks.settled(rows),
        )
        masks.correlation = _tied(found, groups)
    return known


def rows_enough(n: int, *, attributes: int = 0, known: float = np.inf) -> int:
    """Return how many of n rows of a model are enough to look at.

    What they are drawn for are means. With many attributes, work grows with the pairs, and the
    noise of pairs is larger by far than that of fewer rows; and where few private rows are known,
    these vary more among themselves than twenty times as many of a model.
    """
    pairs = attributes * (attributes - 1) // 2
    enough = min(n * _PAIRS / max(1, pairs), _TIMES * max(0.0, known))
    return min(n, int(max(_FEWEST, enough)))


def _tree_rows(
    known: Completed,
    rng: np.random.Generator,
    *,
    n: int = _ROWS,
) -> Ints:
    """Draw rows quickly: from a tree of pairs, weighted so that the tables of all pairs hold."""
    margins, pairs, noise = known.margins, known.pairs, known.variances
    rows = fit_tree(margins, pairs, noise).sample(n, rng)
    wanted: dict[Clique, Floats] = {}
    for (a, b), moment in pairs.items():
        product = np.outer(margins[a], margins[b])
        degrees = (1 - 1 / len(margins[a])) * (1 - 1 / len(margins[b]))
        wanted[a, b] = shrunk(
            moment + product, product, np.sqrt(noise[a, b] / max(degrees, _LEAST_DEGREES))
        )
    weights = rake(rows, wanted, sweeps=_RAKING, least_share=_LEAST_EFFECTIVE)
    drawn: Ints = rows[resample(weights, n, rng)]
    return drawn


def _strips(
    tables: PairTables, present: Flags, ordered: Sequence[bool]
) -> dict[tuple[int, ...], Strip]:
    """How often each attribute is missing at each observed level of each other."""
    found: dict[tuple[int, ...], Strip] = {}
    for (one, other), table in tables.tables.items():
        noise = tables.variances[one, other]
        for a, b, cells, variance in ((one, other, table, noise), (other, one, table.T, noise.T)):
            if present[a]:
                strip = _strip(tables, a, b, cells, variance)
                found[a, b] = replace(strip, ordered=bool(ordered) and ordered[b])
    return found


def _strip(tables: PairTables, a: int, b: int, cells: Floats, variance: Floats) -> Strip:
    missing, levels = tables.sizes[a], tables.sizes[b]
    n = tables.n_rows
    std = n * float(np.sqrt(max(_LEAST_VARIANCE, variance[missing, :levels].mean())))
    rate = max(float(tables.margins[a][missing:].sum()), 1e-6)
    # Rows are counted by the margin, whose noise is small, and not by the sum of such a table. In
    # a sum the noise of missing values would be that of a part: so many cells make up for that.
    return Strip(
        cells[missing, :levels] * n, tables.margins[b][:levels] * n, std, (2 - rate) / rate
    )


def _coincidences(tables: PairTables) -> dict[tuple[int, int], tuple[float, float]]:
    """Rows in which two attributes are both missing, and the noise of their number."""
    found = {}
    for (a, b), table in tables.tables.items():
        at = tables.sizes[a], tables.sizes[b]
        if table.shape == (at[0] + 1, at[1] + 1):
            std = tables.n_rows * float(np.sqrt(tables.variances[a, b][at]))
            found[a, b] = tables.n_rows * float(table[at]), std
    return found


def _corrected(tables: PairTables, rows: Ints, masks: MaskModel) -> Completed:
    """What the observed values say, over the chance to be observed."""
    missing = masks.missing(rows)
    seen = 1.0 - missing
    sizes = tables.sizes
    alone = [
        _alone(rows[:, a], seen[:, a], size, 1 - float(masks.rates[a]))
        for a, size in enumerate(sizes)
    ]
    margins = []
    for margin, size, chance in zip(tables.margins, sizes, alone, strict=True):
        lifted = np.maximum(margin[:size], _LEAST_SHARE) / chance
        margins.append(lifted / lifted.sum())
    rates = tables.rates
    counts = PairCounts(np.ascontiguousarray(rows.T), np.ascontiguousarray(seen.T), sizes)
    pairs, variances = {}, {}
    for (a, b), table in tables.tables.items():
        shape = sizes[a], sizes[b]
        number, weighted = (c.reshape(shape) for c in counts.of(a, b))
        if masks.tied((a, b)):
            each = masks.observed(rows, (a, b), missing)
            cells = rows[:, a] * shape[1] + rows[:, b]
            weighted = np.bincount(cells, each, number.size).astype(np.float64).reshape(shape)
        number = number + _PRIOR_ROWS
        chance = (weighted + _PRIOR_ROWS * np.outer(alone[a], alone[b])) / number
        chance = _scaled(chance, number / number.sum(), tables, (a, b), rates)
        whole = table[: shape[0], : shape[1]] / chance
        pairs[a, b] = centred(whole - _independent(whole, chance, tables, (a, b), margins))
        noise = tables.variances[a, b][: shape[0], : shape[1]] / chance**2
        variances[a, b] = np.maximum(noise, _LEAST_VARIANCE)
    return Completed(tuple(margins), pairs, variances, masks)


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


def _scaled(
    chance: Floats, law: Floats, tables: PairTables, pair: tuple[int, int], rates: Floats
) -> Floats:
    """Chance to be observed on a pair, scaled to how often that is, if holes coincide."""
    at = tuple(tables.sizes[v] for v in pair)
    table = tables.tables[pair]
    if table.shape == (at[0] + 1, at[1] + 1):
        rate = max(_LEAST_CHANCE, 1 - float(rates[list(pair)].sum() - table[at]))
        expected = float((law * chance).sum())
        if abs(rate - expected) > _COINCIDENCE * np.sqrt(tables.variances[pair][at]):
            chance = chance * (rate / expected)
    bounded: Floats = np.minimum(np.maximum(chance, _LEAST_CHANCE), 1.0)
    return bounded


def completed(
    counts: Mapping[Clique, Floats],
    stds: Mapping[Clique, float],
    masks: MaskModel,
    rows: Ints,
    sizes: Sequence[int],
    *,
    leaned: bool = True,
) -> dict[Clique, Floats]:
    """Return what noisy tables with missing values say of complete rows, leaned on a model's rows.

    Observed cells are divided by their chance to be observed, as those of pairs are. If not
    ``leaned``, shares are as they come out, and noise makes some negative.
    """
    if not counts:
        return {}
    missing, columns = masks.missing(rows), np.ascontiguousarray(rows.T)
    found = {}
    for clique, table in counts.items():
        shape = tuple(sizes[a] for a in clique)
        cells = cell_index(columns, clique, shape, len(rows))
        seen = masks.observed(rows, clique, missing)
        number = np.bincount(cells, minlength=math.prod(shape)).astype(np.float64)
        weighted = np.bincount(cells, seen, len(number)) + _PRIOR_ROWS * seen.mean()
        chance = np.maximum(weighted / (number + _PRIOR_ROWS), _LEAST_CHANCE).reshape(shape)
        whole = table[tuple(map(slice, shape))] / chance
        total = max(1.0, float(whole.sum()))
        if not leaned:
            found[clique] = whole / total
            continue
        margins = [np.bincount(columns[a], minlength=sizes[a]) / len(rows) for a in clique]
        alone = margins[0]
        for margin in margins[1:]:
            alone = np.multiply.outer(alone, margin)
        base = np.maximum(number.reshape(shape) / len(rows), _LEAST_BASE * alone)
        found[clique] = shrunk(whole / total, base / base.sum(), stds[clique] / total / chance)
    return found


Groups = tuple[tuple[int, ...], ...]

_EVIDENCE = 3.0  # in logarithms of likelihood, beyond that of the number of such groups
_SHORT = 2.0  # standard deviations, by which counts may fall short of what one hole for both makes
_SHORT_AGAIN = 4.0  # of groups that were found before
_ALIKE = 0.8  # ratio of rates above which they have the same reasons
_APART = 1e-6  # what is left of independence, so that a correlation stays one
_TIED = 1 - 1e-5


def _groups_of(
    both: Both,
    rates: Floats,
    n_rows: float,
    *,
    before: Floats | None = None,
    without: Collection[int] = (),
) -> Groups:
    """Find the groups of attributes that are missing together, but for some that are in none.

    ``both`` are rows in which two attributes are both missing, and the noise of their number.
    Groups that latent correlations tied ``before`` stay unless there is much against it.
    """
    d = len(rates)
    evidence, short, pairs = np.full((d, d), -math.inf), np.zeros((d, d)), np.ones((d, d))
    allowed = np.full((d, d), _SHORT) if before is None else _allowed(before)
    for (a, b), (count, std) in both.items():
        if not {a, b} & {*without} and std > 0:
            together, apart = n_rows * min(rates[a], rates[b]), n_rows * rates[a] * rates[b]
            weighed = ((count - apart) ** 2 - (count - together) ** 2) / (2 * std**2)
            evidence[a, b] = evidence[b, a] = weighed
            short[a, b] = short[b, a] = (together - count) / std
    holed = len({*chain(*both)})
    groups, within = {a: [a] for a in range(d)}, np.zeros(d)
    while d > 1:
        plain = np.where(short <= allowed * np.sqrt(pairs), evidence, -math.inf)
        one, other = sorted(map(int, np.unravel_index(plain.argmax(), plain.shape)))
        if plain[one, other] <= 0:
            break
        groups[one] = sorted(groups[one] + groups.pop(other))
        within[one] += within[other] + evidence[one, other]
        for sums in (evidence, short, pairs):  # over all pairs between two groups
            sums[one] += sums[other]
            sums[:, one] = sums[one]
        allowed[one] = np.minimum(allowed[one], allowed[other])
        allowed[:, one] = allowed[one]
        evidence[other] = evidence[:, other] = evidence[one, one] = -math.inf
    plainly = {
        a: _EVIDENCE + math.log(math.comb(max(holed, len(own)), len(own)))
        for a, own in groups.items()
    }
    return tuple(tuple(own) for a, own in groups.items() if len(own) > 1 and within[a] > plainly[a])


def _allowed(before: Floats) -> Floats:
    return np.where(before > _TIED, _SHORT_AGAIN, _SHORT)


def _pooled(
    groups: Groups, strips: Mapping[tuple[int, ...], Strip], both: Both, rates: Floats
) -> tuple[dict[tuple[int, ...], Strip], dict[tuple[int, int], tuple[float, float]]]:
    """Return what is known of holes and of their coincidences, averaged over each group."""
    # Of attributes in one group, nothing is left to learn from each other.
    group = {a: own for own in groups for a in own}
    strips = {e: s for e, s in strips.items() if group.get(e[0], ()) != group.get(e[1], (-1,))}
    for own in groups:
        alike = [a for a in own if rates[a] >= _ALIKE * max(rates[c] for c in own)]
        for effect in [e[1:] for e in strips if e[0] == alike[0]]:
            same = _mean([strips[a, *effect] for a in alike])
            strips |= {(a, *effect): same for a in alike}
    found = {}
    for a, b in both:
        one, other = group.get(a, (a,)), group.get(b, (b,))
        if one != other:
            counts = [both[min(p), max(p)] for p in product(one, other)]
            mean = float(np.mean([number for number, _ in counts]))
            found[a, b] = mean, math.hypot(*(noise for _, noise in counts)) / len(counts)
    return strips, found


def _mean(strips: Sequence[Strip]) -> Strip:
    return replace(
        strips[0],
        missing=np.mean([s.missing for s in strips], axis=0),
        std=math.hypot(*(s.std for s in strips)) / len(strips),
    )


def _tied(correlation: Floats, groups: Iterable[Sequence[int]]) -> Floats:
    """Return latent correlations under which the holes of each group are one."""
    own = np.arange(len(correlation))
    for group in groups:
        own[list(group)] = min(group)
    kept, place = np.unique(own, return_inverse=True)
    if len(kept) == len(own):
        return correlation
    share = np.eye(len(kept))[place]
    share = share / share.sum(axis=0)
    few = share.T @ correlation @ share
    few[np.diag_indices_from(few)] = 1.0
    whole = positive(few)[np.ix_(place, place)]
    return np.asarray((1 - _APART) * whole + _APART * np.eye(len(whole)))
