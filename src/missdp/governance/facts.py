"""The summary of a fitted model that the documents of a release show.

Everything here is a function of released values and public facts. Where a family keeps its
measurements, they are shown with their noise. Where it does not, rows of the model are counted
instead, and no noise is stated.
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
from missdp.governance.rendering import plain, short
from missdp.inference.completion import ModelFacts, PairTables, complete
from missdp.inference.smoothing import Smoothing
from missdp.schema import AnyAttribute, Numeric, Schema
from missdp.synth.base import Synthesizer
from missdp.synth.learn_pairs import PairRelease, ordered_levels
from missdp.synth.relations import mostly_noise_of
from missdp.types import Floats, Ints

_ROWS = 20_000  # of the model
_FEWER = 6_000  # by which clipping is undone
_CLEAR = 3.0  # standard deviations of noise, of a group that is compared with others
_BLURRED = 0.08  # standard deviation of a rate that says nothing any more
_FEWEST = 0.01  # share of drawn rows, of a group that is compared with others
_APART = 3.0  # standard deviations, from chance
_LIKELY = 1e-3  # probability from which on nothing speaks against chance
_SAFE = 1e-300
_DOUBT = 0.05  # probability that attributes are independent, from which on a relation is not clear


class OneWay(NamedTuple):
    """What is known of one attribute; noise is None where no measurement is kept."""

    name: str
    label: str
    levels: tuple[str, ...]  # rare ones may be merged
    shares: Floats  # of the rows that have a value
    stds: Floats | None
    missing: float  # share of the rows
    missing_std: float | None
    nullable: bool
    units: str


class _Relation(NamedTuple):
    """Whether two attributes or more are together as in the table, or follow by a rule."""

    names: tuple[str, ...]
    how: Literal["measured", "modelled", "follows"]
    std: float | None = None  # noise of a cell, as a share of the rows
    strength: float | None = None  # Cramér's V of two attributes in rows of the model
    clear: bool | None = None  # whether it stands out from noise; None if noise is not kept
    rule: str = ""


class Rate(NamedTuple):
    """How often an attribute is missing at a level of another; no noise of the model's rows."""

    level: str
    value: float
    std: float | None


class Gaps(NamedTuple):
    """How often one attribute is missing at the levels of another."""

    at: int
    by: int
    ends: tuple[Rate, Rate]  # at the levels where the fewest and the most are missing
    # How likely rates that differ so much were, if values went missing by chance alone; None of
    # the model's rows, and where rows of one unit belong together.
    chance: float | None

    @property
    def evidence(self) -> str:
        """The evidence against values that go missing by chance alone, in words."""
        if self.chance is None:
            is_drawn = self.ends[0].std is None
            return "modelled" if is_drawn else "not worked out: rows belong together"
        if self.chance < _LIKELY:
            return f"strong: p < 1e{max(math.ceil(math.log10(self.chance + 1e-12)), -12)}"
        return "none is clear"


class Together(NamedTuple):
    """How often two attributes are missing together, as a share of rows."""

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
        #: Whether the model keeps what was measured.
        self.measured = self._release is not None
        #: How people call each attribute, in one short line.
        self.labels = _labels_of(self.schema)
        self._levels = None if self._release is None else self._release.levels

    @cached_property
    def _pairs(self) -> PairTables | None:
        """The tables of all pairs, with what clipping took put back."""
        if (release := self._release) is None:
            return None
        # What is put back grows with the sums, so their noise does.
        larger = {pair: 1 / kept for pair, kept in self._kept.items()}
        return release.tables(release.taken(self._seen), larger)

    @cached_property
    def _seen(self) -> Ints:
        # Rows of the model of all pairs, with the missing values that it draws.
        fitted, rng = self.model.model_, np.random.default_rng(0)
        rows = fitted.law.sample(_FEWER, rng)
        sizes = [level.n_groups for level in fitted.levels]
        return np.where(fitted.masks.draw(rows, rng), sizes, rows)

    @cached_property
    def _kept(self) -> dict[tuple[int, int], float]:
        # By pair, what clipping leaves of its sums.
        release = self._release
        return {} if release is None else release.left(self._seen)[1]

    @cached_property
    def pair_tables(self) -> dict[tuple[int, int], tuple[Floats, Floats]]:
        """Shares of all pairs, missing values included, with their variances; or nothing."""
        if (found := self._pairs) is None:
            return {}
        return {pair: (table, found.variances[pair]) for pair, table in found.tables.items()}

    def _groups(self, at: int, size: int) -> Ints:
        """Return the group that each level of an attribute is in; rare ones are merged."""
        return np.arange(size) if self._levels is None else self._levels[at].groups

    @cached_property
    def codes(self) -> list[Ints]:
        """Rows of the model, on groups of levels; a missing value has the code after them."""
        rng = np.random.default_rng(0)
        drawn = self.model.sample_codes(_ROWS, rng, keep_missing=self.keeps_gaps)
        found = []
        for at, name in enumerate(self.names):
            size = self.model.modelled_[name].size
            groups = self._groups(at, size)
            whole = np.append(groups, groups.max(initial=-1) + 1)
            found.append(whole[np.minimum(drawn[name], size)])
        return found

    @cached_property
    def level_names(self) -> list[tuple[str, ...]]:
        """What each group of levels of each modelled attribute is called, exactly."""
        return self._named(_level_names)

    @cached_property
    def _shown_names(self) -> list[tuple[str, ...]]:
        """The same in short, for people."""
        return self._named(_shown_names)

    @cached_property
    def _sizes(self) -> list[int]:
        return [len(names) for names in self.level_names]

    def _named(self, names: Callable[[AnyAttribute], tuple[str, ...]]) -> list[tuple[str, ...]]:
        found, modelled = [], self.model.modelled_
        for at, name in enumerate(self.names):
            size = modelled[name].size
            named = [*names(self.model.fitted_.modelled.full_schema[name]), "not applicable"][:size]
            found.append(_grouped(named, self._groups(at, size)))
        return found

    @cached_property
    def columns(self) -> list[OneWay]:
        """What is known of each modelled attribute."""
        return [self._column(at) for at in range(len(self.names))]

    def _column(self, at: int) -> OneWay:
        name, size = self.names[at], self._sizes[at]
        attribute = self.schema[name]
        stds, missing_std, missing = None, None, 0.0
        if self._pairs is not None and self._release is not None:
            margin, noise = self._pairs.margins[at], self._release.margin_stds[at]
            seen = max(_SAFE, float(margin[:size].sum()))
            shares, stds = margin[:size] / seen, noise[:size] / seen
            if len(margin) > size:
                missing, missing_std = float(margin[size]), float(noise[size])
        else:
            counts = np.bincount(self.codes[at], minlength=size + 1)[: size + 1] / _ROWS
            shares, missing = counts[:size] / max(_SAFE, counts[:size].sum()), float(counts[size])
        # Merged levels come last, and are shown where the first of them, which names them, is.
        order = np.argsort(np.unique(self._groups(at, size), return_index=True)[1])
        shown, gaps = self._shown_names[at], (missing, missing_std, attribute.nullable)
        known = tuple(shown[i] for i in order), shares[order], None if stds is None else stds[order]
        return OneWay(name, self.labels[name], *known, *gaps, attribute.units)

    @cached_property
    def pairs(self) -> dict[tuple[int, int], _Relation]:
        """Every pair, by positions."""
        return {pair: self._relation(*pair) for pair in combinations(range(len(self.names)), 2)}

    @cached_property
    def mostly_noise(self) -> str | None:
        """One line if most relations are noise, as the fit said it."""
        return mostly_noise_of(self.model)

    @cached_property
    def relations(self) -> list[_Relation]:
        """Every pair, larger tables that were measured, and what rules make of the rest."""
        found = [*self.pairs.values()]
        stds = {} if self._release is None else self._release.marginals.together_stds
        for c, std in stds.items():
            found.append(_Relation(tuple(self.names[a] for a in c), "measured", std / self.rows))
        for rule in self.schema.rules:
            about = sorted(rule.about(self.schema.columns), key=self.schema.names.index)
            found.append(_Relation(tuple(about), "follows", rule=rule.text))
        return found

    def _relation(self, a: int, b: int) -> _Relation:
        names, strength = (self.names[a], self.names[b]), float(self.strengths[a, b])
        clear = self._clear(a, b)
        variance = None if self._pairs is None else self._pairs.variances.get((a, b))
        if self._pairs is None or variance is None:
            return _Relation(names, "modelled", None, strength, clear)
        # What a model puts back is unsure, of many rows by more.
        back = CLIPPED * (1 - self._kept.get((a, b), 1.0)) * self._pairs.tables[a, b]
        std = float(np.sqrt(np.mean(variance + np.square(back))))
        return _Relation(names, "measured", std, strength, clear)

    @cached_property
    def _independent(self) -> dict[tuple[int, int], float] | None:
        """By measured pair, the posterior probability that its attributes are independent; or none.

        How many pairs are independent, and how strongly others depend, is estimated over all of
        them together (`missdp.inference.shrinkage`). Of the pairs with a probability below 5 %, at
        most 5 % are expected to be independent.
        """
        size = self.model.fitted_.size
        rows = self.rows if size is None else size.units  # as many as vary as these do
        if self._pairs is None or self._release is None:
            return None
        # As if values were missing completely at random.
        known = complete(self._pairs, ModelFacts(), rng=np.random.default_rng(0), rounds=0)
        ordered = ordered_levels(self.model.modelled_, self._release.levels)
        tables = known.margins, known.pairs, known.variances
        found = Smoothing.of(*tables, ordered, rows=rows, flat=False).independent
        return {pair: found.get(pair, 1.0) for pair in known.pairs}

    def _clear(self, a: int, b: int) -> bool | None:
        """Whether a relation stands out from noise; None where no noise is kept.

        What a model makes of measured relations does if clear ones lead from one attribute to the
        other, and it is as strong as the weakest of all clear ones.
        """
        if self._independent is None:
            return None
        if (chance := self._independent.get((a, b))) is not None:
            return chance < _DOUBT
        ties, least = self._ties
        return bool(ties[a] == ties[b] and self.strengths[a, b] >= least)

    @cached_property
    def _ties(self) -> tuple[list[int], float]:
        """A number that all attributes share that clear relations tie, and the weakest of these."""
        clear = [pair for pair, chance in (self._independent or {}).items() if chance < _DOUBT]
        found = list(range(len(self.names)))
        for a, b in clear:
            found = [found[a] if tie == found[b] else tie for tie in found]
        return found, min((float(self.strengths[pair]) for pair in clear), default=math.inf)

    @cached_property
    def strengths(self) -> Floats:
        """Cramér's V of all pairs, in rows of the model in which both have a value.

        Where rows are drawn, what they show by chance is taken off (Bergsma 2013).
        """
        sizes = self._sizes
        found = np.zeros((len(sizes), len(sizes)))
        # Rows are raked to these tables.
        raked = {} if self._release is None else self.model.model_.tables
        for a, b in combinations(range(len(sizes)), 2):
            if (a, b) in raked:
                strength = _cramers_v(raked[a, b] * _ROWS, drawn=False)
            else:
                both = self._drawn_table(a, b)[: sizes[a], : sizes[b]]
                strength = _cramers_v(both * _ROWS, drawn=True)
            found[a, b] = found[b, a] = strength
        return found

    @cached_property
    def _drawn(self) -> tuple[Floats, Ints]:
        """Shares of drawn rows in all pairs of cells, missing ones included, and where each begins.

        One product of a matrix is much faster than counting each pair.
        """
        starts = np.cumsum([0, *(size + 1 for size in self._sizes)])
        shown = np.zeros((_ROWS, starts[-1]), dtype=np.float32)
        for start, codes in zip(starts, self.codes, strict=False):
            shown[np.arange(_ROWS), start + codes] = 1.0
        return (shown.T @ shown).astype(np.float64) / _ROWS, starts

    def _drawn_table(self, a: int, b: int) -> Floats:
        shares, starts = self._drawn
        return shares[starts[a] : starts[a + 1], starts[b] : starts[b + 1]]

    def _table(self, a: int, b: int) -> tuple[Floats, Floats | None]:
        """Return the shares of a pair, missing values included, with their variance if released."""
        tables = self.pair_tables
        drawn = self._drawn_table(a, b), None
        if (a, b) in tables:
            table, variance = tables[a, b]
        elif (b, a) in tables:
            table, variance = (one.T for one in tables[b, a])
        else:
            return drawn
        sizes = zip((a, b), table.shape, strict=True)
        lacks = any(at in self._gapped and size <= self._sizes[at] for at, size in sizes)
        return drawn if lacks else (table, variance)

    @cached_property
    def _gapped(self) -> list[int]:
        """Attributes with missing values, if the model has any."""
        found = [at for at, c in enumerate(self.columns) if c.nullable and c.missing > 0]
        return found if self.keeps_gaps else []

    @cached_property
    def gaps(self) -> list[Gaps]:
        """For each attribute with missing values, the other one by which its rates differ most."""
        found = []
        for at in self._gapped:
            others = [self._gaps(at, by) for by in range(len(self.names)) if by != at]
            if known := [one for one in others if one is not None]:
                found.append(min(known, key=_interest))
        return found

    def _gaps(self, at: int, by: int) -> Gaps | None:
        size, names = self._sizes[at], self._shown_names[by]
        if self.columns[at].missing <= 0:
            return None
        table, variance = self._table(at, by)
        weight, missing = table[:, : len(names)].sum(axis=0), table[size, : len(names)]
        clear, weight = weight >= _FEWEST, np.maximum(weight, _SAFE)
        stds: Floats | None = None
        if variance is not None:
            stds = np.sqrt(variance[size, : len(names)]) / weight
            # The table of a pair is a small difference of sums: only clear groups are compared.
            noise = np.sqrt(variance[:, : len(names)].sum(axis=0))
            clear = (weight > _CLEAR * noise) & (stds < _BLURRED)
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
        """Return how likely rates were to differ so much, were they one and the same."""
        from scipy.stats import chi2

        mean = float(np.average(rates, weights=weight))
        variance = np.square(stds) + mean * (1 - mean) / (self.rows * weight) + _SAFE
        mean = float(np.average(rates, weights=1 / variance))
        return float(chi2.sf((np.square(rates - mean) / variance).sum(), len(rates) - 1))

    @cached_property
    def together(self) -> list[Together]:
        """Pairs that are missing together more or less often than by chance, furthest first."""
        found = []
        for a, b in combinations(self._gapped, 2):
            missing = (self.columns[a].missing, self.columns[b].missing)
            alone = missing[0] * missing[1]
            table, variance = self._table(a, b)
            rate, std = float(table[self._sizes[a], self._sizes[b]]), None
            if variance is not None:
                rate = min(max(rate, 0.0), *missing)
                std = float(np.sqrt(variance[self._sizes[a], self._sizes[b]]))
            if abs(rate - alone) > _APART * (std or np.sqrt(max(alone, 1 / _ROWS) / _ROWS)):
                found.append(Together((a, b), rate, alone, std))
        return sorted(found, key=lambda one: -abs(one.rate - one.by_chance))


def _interest(gaps: Gaps) -> tuple[float, float]:
    return (1.0 if gaps.chance is None else gaps.chance, gaps.ends[0].value - gaps.ends[1].value)


def _level_names(attribute: AnyAttribute) -> tuple[str, ...]:
    """Return what people call each level, or bin."""
    if not isinstance(attribute, Numeric):
        return attribute.level_labels
    if attribute.step is None and not attribute.integer:
        return attribute.bin_labels
    ends = zip(*(map(attribute.format_value, end) for end in attribute.code_ranges), strict=True)
    return tuple(low if low == high else f"{low} to {high}" for low, high in ends)


def _shown_names(attribute: AnyAttribute) -> tuple[str, ...]:
    """Return the same in short lines; numbers have rounded ends, if all bins differ then."""
    exact = tuple(map(plain, _level_names(attribute)))
    if type(attribute) is not Numeric:
        return exact
    ends = zip(*(map(short, end) for end in attribute.code_ranges), strict=True)
    found = tuple(low if low == high else f"{low} to {high}" for low, high in ends)
    return found if len({*found}) == len(found) else exact


def _grouped(names: Sequence[str], groups: Ints) -> tuple[str, ...]:
    """Return the name of each group: that of its level, or how many levels were merged."""
    found = []
    for group in range(int(groups.max(initial=-1)) + 1):
        own = np.flatnonzero(groups == group)
        one = names[int(own[0])]
        found.append(one if len(own) == 1 else f"{one} and {len(own) - 1} more, merged")
    return tuple(found)


def _labels_of(schema: Schema) -> dict[str, str]:
    """Return the label of each attribute, with its name beside it if two share one."""
    found = {a.name: a.label or a.name for a in schema}
    often = Counter(found.values())
    return {n: plain(f"{text} ({n})" if often[text] > 1 else text) for n, text in found.items()}


def _cramers_v(table: Floats, *, drawn: bool) -> float:
    total = max(float(table.sum()), 1.0)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    expected = np.outer(rows, columns) / total
    r, c = np.count_nonzero(rows), np.count_nonzero(columns)
    if min(r, c) < 2:
        return 0.0
    excess = np.square(table - expected)[expected > 0] / expected[expected > 0]
    dependence, most = float(excess.sum()) / total, float(min(r, c) - 1)
    if drawn and total > max(r, c):
        dependence = max(0.0, dependence - (r - 1) * (c - 1) / (total - 1))
        most = min(k - 1 - (k - 1) ** 2 / (total - 1) for k in (r, c))
    return math.sqrt(dependence / max(most, _SAFE))
