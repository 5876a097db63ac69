"""The summary of a fitted model that the documents of a release show.

All results are functions of released values and public facts. If a family keeps its measurements,
they are shown with their noise. Otherwise rows of the model are counted, and no noise is stated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from missdp.estimate.replicates import CLIPPED
from missdp.governance.rendering import plain_text, short
from missdp.inference.completion import ModelFacts, PairTables, complete
from missdp.inference.smoothing import Smoothing
from missdp.schema import AnyAttribute, Numeric, Schema
from missdp.synth.base import Synthesizer
from missdp.synth.learn_pairs import PairRelease, impossible_pairs, ordered_levels
from missdp.synth.relations import mostly_noise_of
from missdp.types import Floats, Ints

_MAX_COMPARED = 100  # attributes of which all pairs are described
_ROWS = 20_000  # drawn rows of the model
_CLIPPING_ROWS = 6_000  # drawn rows from which the clipping bias is estimated
_MIN_GROUP_SD = 3.0  # SDs of noise that the size of a compared group must exceed
_MAX_RATE_SD = 0.08  # largest standard deviation of a compared rate
_MIN_GROUP_SHARE = 0.01  # smallest share of drawn rows in a compared group
_MIN_EXCESS_SD = 3.0  # SDs from the rate by chance that a joint rate must exceed
_MAX_CHANCE = 1e-3  # p-value below which the evidence against chance is strong
_SAFE = 1e-300  # avoids a division by zero
_MAX_INDEPENDENCE = 0.05  # probability of independence below which a relation is clear
_MIN_STRENGTH = 0.005  # strength of a relation that is not shown as 0


class OneWay(NamedTuple):
    """Summary of one attribute. Noise is None if no measurement is kept."""

    name: str
    label: str
    levels: tuple[str, ...]  # rare levels may be merged
    shares: Floats  # shares of the rows that have a value
    stds: Floats | None
    missing: float  # share of all rows
    missing_std: float | None
    nullable: bool
    units: str


class _Relation(NamedTuple):
    """Relation of several attributes, which is measured, modelled, or implied by a rule."""

    names: tuple[str, ...]
    how: Literal["measured", "modelled", "follows"]
    std: float | None = None  # noise of a cell, as a share of the rows
    strength: float | None = None  # Cramér's V of two attributes in rows of the model
    clear: bool | None = None  # whether it stands out from noise, or None without noise
    rule: str = ""


class Rate(NamedTuple):
    """Missing rate of an attribute at a level of another, with noise None for rows of the model."""

    level: str
    value: float
    std: float | None


class Gaps(NamedTuple):
    """Missing rates of an attribute at the levels of another attribute."""

    at: int
    by: int
    ends: tuple[Rate, Rate]  # the lowest and the highest rate
    # P-value of the differences of the rates if values are missing by chance alone. It is None for
    # rows of the model, and for units of several rows.
    chance: float | None

    @property
    def evidence(self) -> str:
        """The evidence against missing by chance alone, in words."""
        if self.chance is None:
            is_drawn = self.ends[0].std is None
            return "modelled" if is_drawn else "not computed: rows belong together"
        if self.chance < _MAX_CHANCE:
            return f"strong: p < 1e{max(math.ceil(math.log10(self.chance + 1e-12)), -12)}"
        return "none is clear"


class JointMissingness(NamedTuple):
    """Rate at which two attributes are missing together, as a share of rows."""

    pair: tuple[int, int]
    rate: float
    by_chance: float
    std: float | None


class ModelSummary:
    """The summary of a fitted model, computed once from released values and public facts."""

    def __init__(self, model: Synthesizer) -> None:
        self.model = model
        self.schema: Schema = model.schema_
        self.names = model.modelled_.names
        self.keeps_gaps = model.applied_strategy.models_missingness
        self.rows = max(1.0, float(model.n_rows_))
        tables = getattr(model, "tables_", None)
        self._release = None if tables is None else PairRelease.of(tables)
        #: Whether the model keeps its measurements.
        self.measured = self._release is not None
        #: Label of each attribute, in one short line.
        self.labels = _unique_labels(self.schema)
        self._levels = None if self._release is None else self._release.levels

    @cached_property
    def _pairs(self) -> PairTables | None:
        """The tables of all pairs, with the clipping bias added back."""
        if (release := self._release) is None:
            return None
        # The clipping bias grows with the sums, so it makes their noise larger.
        larger = {pair: 1 / retained for pair, retained in self._retained.items()}
        return release.tables(release.clipping_bias(self._drawn_codes), larger)

    @cached_property
    def _drawn_codes(self) -> Ints:
        """Rows of the model of all pairs, with the missing values that it draws."""
        fitted, rng = self.model.model_, np.random.default_rng(0)
        rows = fitted.row_model.sample(_CLIPPING_ROWS, rng)
        sizes = [level.n_groups for level in fitted.levels]
        return np.where(fitted.masks.draw(rows, rng), sizes, rows)

    @cached_property
    def _retained(self) -> dict[tuple[int, int], float]:
        """Map from each pair to the share of its sums that clipping retains."""
        release = self._release
        return {} if release is None else release.retained_shares(self._drawn_codes)[1]

    @cached_property
    def pair_tables(self) -> dict[tuple[int, int], tuple[Floats, Floats]]:
        """Shares of all pairs, missing values included, with their variances, if released."""
        if (released := self._pairs) is None:
            return {}
        return {pair: (table, released.variances[pair]) for pair, table in released.tables.items()}

    def _groups(self, at: int, size: int) -> Ints:
        """Return the group of each level of an attribute, in which rare levels are merged."""
        return np.arange(size) if self._levels is None else self._levels[at].groups

    @cached_property
    def codes(self) -> list[Ints]:
        """Rows of the model, coded by groups of levels. Missing has the code after the groups."""
        rng = np.random.default_rng(0)
        drawn = self.model.sample_codes(_ROWS, rng, keep_missing=self.keeps_gaps)
        columns = []
        for at, name in enumerate(self.names):
            size = self.model.modelled_[name].size
            groups = self._groups(at, size)
            codes = np.append(groups, groups.max(initial=-1) + 1)
            columns.append(codes[np.minimum(drawn[name], size)])
        return columns

    @cached_property
    def level_names(self) -> list[tuple[str, ...]]:
        """Exact name of each group of levels of each modelled attribute."""
        return self._named(_level_names)

    @cached_property
    def _shown_names(self) -> list[tuple[str, ...]]:
        """Short name of each group of levels of each modelled attribute."""
        return self._named(_shown_names)

    @cached_property
    def _sizes(self) -> list[int]:
        return [len(names) for names in self.level_names]

    def _named(self, names: Callable[[AnyAttribute], tuple[str, ...]]) -> list[tuple[str, ...]]:
        grouped, modelled = [], self.model.modelled_
        for at, name in enumerate(self.names):
            size = modelled[name].size
            named = [*names(self.model.fitted_.modelled.full_schema[name]), "not applicable"][:size]
            grouped.append(_group_names(named, self._groups(at, size)))
        return grouped

    @cached_property
    def columns(self) -> list[OneWay]:
        """Summary of each modelled attribute."""
        return [self._column(at) for at in range(len(self.names))]

    def _column(self, at: int) -> OneWay:
        name, size = self.names[at], self._sizes[at]
        attribute = self.schema[name]
        stds, missing_std, missing = None, None, 0.0
        if self._pairs is not None and self._release is not None:
            marginal, noise = self._pairs.marginals[at], self._release.marginal_stds[at]
            observed = max(_SAFE, float(marginal[:size].sum()))
            shares, stds = marginal[:size] / observed, noise[:size] / observed
            if len(marginal) > size:
                missing, missing_std = float(marginal[size]), float(noise[size])
        else:
            counts = np.bincount(self.codes[at], minlength=size + 1)[: size + 1] / _ROWS
            shares, missing = counts[:size] / max(_SAFE, counts[:size].sum()), float(counts[size])
        # Merged levels are last in the codes. They are shown at the place of their first level.
        groups = self._groups(at, size)
        ranks = _level_ranks(self.model.fitted_.modelled.full_schema[name], len(groups))
        order = np.argsort(ranks[np.unique(groups, return_index=True)[1]])
        shown, gaps = self._shown_names[at], (missing, missing_std, attribute.nullable)
        levels = tuple(shown[i] for i in order)
        values = levels, shares[order], None if stds is None else stds[order]
        return OneWay(name, self.labels[name], *values, *gaps, attribute.units)

    @cached_property
    def pairs(self) -> dict[tuple[int, int], _Relation]:
        """The relation of every described pair, by positions of attributes."""
        return {pair: self._relation(*pair) for pair in self.compared}

    @cached_property
    def is_wide(self) -> bool:
        """Whether there are too many attributes to describe all pairs."""
        return len(self.names) > _MAX_COMPARED

    @cached_property
    def compared(self) -> list[tuple[int, int]]:
        """The described pairs: all pairs, or those of a wide table that were measured."""
        every = combinations(range(len(self.names)), 2)
        return sorted(self.pair_tables) if self.is_wide else list(every)

    @cached_property
    def mostly_noise(self) -> str | None:
        """The warning of the fit, in one line, if most relations are noise."""
        return mostly_noise_of(self.model)

    @cached_property
    def relations(self) -> list[_Relation]:
        """Every pair, all larger measured tables, and the relations that rules imply."""
        relations = [*self.pairs.values()]
        stds = {} if self._release is None else self._release.marginals.higher_order_stds
        for c, std in stds.items():
            names = tuple(self.names[a] for a in c)
            relations.append(_Relation(names, "measured", std / self.rows))
        for rule in self.schema.rules:
            about = sorted(rule.about(self.schema.columns), key=self.schema.names.index)
            relations.append(_Relation(tuple(about), "follows", rule=rule.text))
        return relations

    def _relation(self, a: int, b: int) -> _Relation:
        names, strength = (self.names[a], self.names[b]), float(self.strengths[a, b])
        clear = self._clear(a, b)
        variance = None if self._pairs is None else self._pairs.variances.get((a, b))
        if self._pairs is None or variance is None:
            return _Relation(names, "modelled", None, strength, clear)
        # The estimated clipping bias is uncertain, in proportion to the shares.
        uncertain = CLIPPED * (1 - self._retained.get((a, b), 1.0)) * self._pairs.tables[a, b]
        std = float(np.sqrt(np.mean(variance + np.square(uncertain))))
        return _Relation(names, "measured", std, strength, clear)

    @cached_property
    def _independent(self) -> dict[tuple[int, int], float] | None:
        """Map from each measured pair to the posterior probability of independence.

        The share of independent pairs, and the strength of the others, are estimated from all pairs
        together (`missdp.inference.shrinkage`). Of the pairs with a probability below 5 %, at
        most 5 % are expected to be independent.
        """
        size = self.model.fitted_.size
        rows = self.rows if size is None else size.units  # the effective number of rows
        if self._pairs is None or self._release is None:
            return None
        # The completion assumes values missing completely at random.
        completed = complete(self._pairs, ModelFacts(), rng=np.random.default_rng(0), rounds=0)
        ordered = ordered_levels(self.model.modelled_, self._release.levels)
        tables = completed.marginals, completed.pairs, completed.variances
        independent = Smoothing.of(*tables, ordered, rows=rows, flat=False).independent
        return {pair: independent.get(pair, 1.0) for pair in completed.pairs}

    def _clear(self, a: int, b: int) -> bool | None:
        """Whether a relation stands out from noise, or None if no noise is kept.

        A modelled relation stands out on two conditions. A path of clear relations connects its
        attributes, and it is at least as strong as the weakest clear relation.
        """
        if self._independent is None:
            return None
        if (a, b) in self._independent:
            return (a, b) in self._clear_pairs
        if (a, b) in self._of_rules:
            return True
        components, weakest = self._components
        return bool(components[a] == components[b] and self.strengths[a, b] >= weakest)

    @cached_property
    def _of_rules(self) -> set[tuple[int, int]]:
        """Pairs of attributes whose relation follows from a rule."""
        impossible = self.model.fitted_.modelled.impossible_cells
        cells = impossible_pairs(impossible, self.names)
        return {(a, b) for (a, b), table in cells.items() if table.any()}

    @cached_property
    def _clear_pairs(self) -> set[tuple[int, int]]:
        """The measured pairs whose relation stands out from noise, and is not 0 in the model."""
        pairs = self._independent or {}
        dependent = (pair for pair, chance in pairs.items() if chance < _MAX_INDEPENDENCE)
        return {pair for pair in dependent if self.strengths[pair] >= _MIN_STRENGTH}

    @cached_property
    def _components(self) -> tuple[list[int], float]:
        """The component of each attribute under clear relations, and the weakest strength."""
        clear = self._clear_pairs
        numbers = list(range(len(self.names)))
        for a, b in clear:
            numbers = [numbers[a] if n == numbers[b] else n for n in numbers]
        return numbers, min((float(self.strengths[pair]) for pair in clear), default=math.inf)

    @cached_property
    def strengths(self) -> Floats:
        """Cramér's V of all pairs, in rows of the model in which both have a value.

        The expected strength by chance is subtracted for drawn rows (Bergsma 2013).
        """
        sizes = self._sizes
        strengths = np.zeros((len(sizes), len(sizes)))
        # Rows of the model are raked to these tables.
        raked = {} if self._release is None else self.model.model_.tables
        for a, b in self.compared:
            if (a, b) in raked:
                strength = _cramers_v(raked[a, b] * _ROWS, drawn=False)
            else:
                both = self._drawn_table(a, b)[: sizes[a], : sizes[b]]
                strength = _cramers_v(both * _ROWS, drawn=True)
            strengths[a, b] = strengths[b, a] = strength
        return strengths

    @cached_property
    def _drawn(self) -> tuple[Floats, Ints]:
        """Shares of drawn rows in all pairs of cells, and the first cell of each attribute.

        Missing cells are included. One product of a matrix is much faster than counting each pair.
        """
        starts = np.cumsum([0, *(size + 1 for size in self._sizes)])
        shown = np.zeros((_ROWS, starts[-1]), dtype=np.float32)
        for start, codes in zip(starts, self.codes, strict=False):
            shown[np.arange(_ROWS), start + codes] = 1.0
        return (shown.T @ shown).astype(np.float64) / _ROWS, starts

    def _drawn_table(self, a: int, b: int) -> Floats:
        if self.is_wide:  # few pairs are described
            shape = self._sizes[a] + 1, self._sizes[b] + 1
            cells = np.ravel_multi_index((self.codes[a], self.codes[b]), shape)
            return np.bincount(cells, minlength=math.prod(shape)).reshape(shape) / _ROWS
        shares, starts = self._drawn
        return shares[starts[a] : starts[a + 1], starts[b] : starts[b + 1]]

    def _table(self, a: int, b: int) -> tuple[Floats, Floats | None]:
        """Return the shares of a pair, missing cells included, with their variance if released."""
        tables = self.pair_tables
        drawn = self._drawn_table(a, b), None
        if (a, b) in tables:
            table, variance = tables[a, b]
        elif (b, a) in tables:
            table, variance = (values.T for values in tables[b, a])
        else:
            return drawn
        sizes = zip((a, b), table.shape, strict=True)
        lacks = any(at in self._gapped and size <= self._sizes[at] for at, size in sizes)
        return drawn if lacks else (table, variance)

    @cached_property
    def _gapped(self) -> list[int]:
        """Attributes with missing values, if the model has any."""
        nullable = [at for at, c in enumerate(self.columns) if c.nullable and c.missing > 0]
        return nullable if self.keeps_gaps else []

    @cached_property
    def gaps(self) -> list[Gaps]:
        """For each attribute with missing values, the attribute by which its rates differ most."""
        gaps, partners = [], dict[int, list[int]]()
        for a, b in self.compared:
            partners.setdefault(a, []).append(b)
            partners.setdefault(b, []).append(a)
        for at in self._gapped:
            others = [self._gaps(at, by) for by in sorted(partners.get(at, ()))]
            if computed := [rates for rates in others if rates is not None]:
                gaps.append(min(computed, key=_interest))
        return gaps

    def _gaps(self, at: int, by: int) -> Gaps | None:
        size, names = self._sizes[at], self._shown_names[by]
        if self.columns[at].missing <= 0:
            return None
        table, variance = self._table(at, by)
        weight, missing = table[:, : len(names)].sum(axis=0), table[size, : len(names)]
        clear, weight = weight >= _MIN_GROUP_SHARE, np.maximum(weight, _SAFE)
        stds: Floats | None = None
        if variance is not None:
            stds = np.sqrt(variance[size, : len(names)]) / weight
            # Noise of a pair's table is large relative to small groups, which are not compared.
            noise = np.sqrt(variance[:, : len(names)].sum(axis=0))
            clear = (weight > _MIN_GROUP_SD * noise) & (stds < _MAX_RATE_SD)
        if clear.sum() < 2:
            return None
        rates = np.clip(missing / weight, 0.0, 1.0)
        low, high = (
            Rate(names[i], float(rates[i]), None if stds is None else float(stds[i]))
            for i in (np.flatnonzero(clear)[f(rates[clear])] for f in (np.argmin, np.argmax))
        )
        is_by_row = self.model.guarantee_.max_rows == 1 and self.model.fitted_.size is None
        chance = None
        if stds is not None and is_by_row:
            chance = self._chance(rates[clear], stds[clear], weight[clear])
        return Gaps(at, by, (low, high), chance)

    def _chance(self, rates: Floats, stds: Floats, weight: Floats) -> float:
        """Return the p-value of the differences of rates, by a chi-squared test of homogeneity."""
        from scipy.stats import chi2

        mean = float(np.average(rates, weights=weight))
        variance = np.square(stds) + mean * (1 - mean) / (self.rows * weight) + _SAFE
        mean = float(np.average(rates, weights=1 / variance))
        return float(chi2.sf((np.square(rates - mean) / variance).sum(), len(rates) - 1))

    @cached_property
    def together(self) -> list[JointMissingness]:
        """Pairs missing together more or less often than by chance, largest excess first."""
        pairs, gapped = [], {*self._gapped}
        for a, b in (pair for pair in self.compared if gapped.issuperset(pair)):
            missing = (self.columns[a].missing, self.columns[b].missing)
            by_chance = missing[0] * missing[1]
            table, variance = self._table(a, b)
            rate, std = float(table[self._sizes[a], self._sizes[b]]), None
            if variance is not None:
                rate = min(max(rate, 0.0), *missing)
                std = float(np.sqrt(variance[self._sizes[a], self._sizes[b]]))
            error = std or np.sqrt(max(by_chance, 1 / _ROWS) / _ROWS)
            if abs(rate - by_chance) > _MIN_EXCESS_SD * error:
                pairs.append(JointMissingness((a, b), rate, by_chance, std))
        return sorted(pairs, key=lambda pair: -abs(pair.rate - pair.by_chance))


def _interest(gaps: Gaps) -> tuple[float, float]:
    return (1.0 if gaps.chance is None else gaps.chance, gaps.ends[0].value - gaps.ends[1].value)


def _level_ranks(attribute: AnyAttribute, size: int) -> Ints:
    """Return the place of each code in a chart: bins and single values by their lower ends.

    The codes of a numeric attribute are in the order of the middles of their bins. A wide bin would
    then follow single values within it.

    >>> from missdp.governance.facts import _level_ranks
    >>> from missdp.schema import Numeric
    >>> income = Numeric(name="income", lower=0, upper=100, bins=1, spikes=(5.0, 20.0))
    >>> income.bin_labels
    ('5', '20', '[0, 100) except 5, 20')
    >>> _level_ranks(income, 3).tolist()
    [1, 2, 0]
    """
    ranks = np.arange(size)
    if isinstance(attribute, Numeric):
        low, high = attribute.code_ranges
        ranks[np.lexsort((high, low))] = np.arange(len(low))
    return ranks


def _level_names(attribute: AnyAttribute) -> tuple[str, ...]:
    """Return the name of each level or bin."""
    if not isinstance(attribute, Numeric):
        return attribute.level_labels
    if attribute.step is None and not attribute.integer:
        return attribute.bin_labels
    return _range_names(attribute, attribute.format_value)


def _shown_names(attribute: AnyAttribute) -> tuple[str, ...]:
    """Return short names of levels or bins, with rounded ends if they are then unique."""
    exact = tuple(map(plain_text, _level_names(attribute)))
    if type(attribute) is not Numeric:
        return exact
    rounded = _range_names(attribute, short)
    return rounded if len({*rounded}) == len(rounded) else exact


def _range_names(attribute: Numeric, text: Callable[[float], str]) -> tuple[str, ...]:
    """Return the ends of each bin, or its only value.

    A value that is a bin by itself is left out of the bin around it, which is named "other". The
    number next to a single value 0 is shown as 0.
    """
    lows, highs = attribute.code_ranges
    values, names = lows[lows == highs], []
    for low, high in zip(lows, highs, strict=True):
        inside = (low <= values) & ((values <= high) if attribute.integer else (values < high))
        others = "other " if low < high and inside.any() else ""
        first, last = (
            text(end if abs(end) >= np.finfo(float).tiny else 0.0) for end in (low, high)
        )
        names.append(first if first == last else f"{others}{first} to {last}")
    return tuple(names)


def _group_names(names: Sequence[str], groups: Ints) -> tuple[str, ...]:
    """Return the name of each group: its level, or its first level with the number of others."""
    result = []
    for group in range(int(groups.max(initial=-1)) + 1):
        levels = np.flatnonzero(groups == group)
        first, others = names[int(levels[0])], len(levels) - 1
        result.append(f"{first} and {others} more, merged" if others else first)
    return tuple(result)


def _unique_labels(schema: Schema) -> dict[str, str]:
    """Return the label of each attribute, followed by its name if two labels are equal."""
    labels = {a.name: a.label or a.name for a in schema}
    counts = Counter(labels.values())
    unique = {n: f"{text} ({n})" if counts[text] > 1 else text for n, text in labels.items()}
    return {name: plain_text(text) for name, text in unique.items()}


def _cramers_v(table: Floats, *, drawn: bool) -> float:
    total = max(float(table.sum()), 1.0)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    expected = np.outer(rows, columns) / total
    r, c = np.count_nonzero(rows), np.count_nonzero(columns)
    if min(r, c) < 2:
        return 0.0
    excess = np.square(table - expected)[expected > 0] / expected[expected > 0]
    dependence, largest = float(excess.sum()) / total, float(min(r, c) - 1)
    if drawn and total > max(r, c):
        dependence = max(0.0, dependence - (r - 1) * (c - 1) / (total - 1))
        largest = min(k - 1 - (k - 1) ** 2 / (total - 1) for k in (r, c))
    return math.sqrt(dependence / max(largest, _SAFE))
