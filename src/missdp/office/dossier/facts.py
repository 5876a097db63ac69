"""What a released model tells of its table, attribute by attribute and pair by pair, with noise.

Everything here is a function of released values and public facts. Where a family keeps what was
measured, that is shown with its noise. Where it does not, rows of the model are counted instead,
and no noise is stated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from missdp.inference.completion import PairTables
from missdp.inference.model import Levels
from missdp.office.dossier.words import short
from missdp.schema import AnyAttribute, Numeric, Schema
from missdp.sources.modelled import Modelled
from missdp.synth import AIM, MST, AllPairs
from missdp.synth.base import Synthesizer
from missdp.types import Floats, Ints

_ROWS = 20_000  # of the model
_FEWER = 6_000  # by which clipping is undone
_CLEAR = 3.0  # standard deviations of noise, of a group that is compared with others
_BLURRED = 0.08  # standard deviation of a rate that says nothing any more
_APART = 3.0  # standard deviations, from chance
_SAFE = 1e-300


@dataclass(frozen=True, eq=False)
class OneWay:
    """What is known of one attribute.

    Parameters
    ----------
    name, label : str
    levels : tuple of str
        Rare levels may be merged.
    shares : ndarray
        Of the rows that have a value.
    stds : ndarray or None
        Noise of each share; None if no measurement is kept.
    missing : float
        Share of the rows without a value.
    missing_std : float or None
    nullable : bool
    """

    name: str
    label: str
    levels: tuple[str, ...]
    shares: Floats
    stds: Floats | None
    missing: float
    missing_std: float | None
    nullable: bool


@dataclass(frozen=True, eq=False)
class Relation:
    """Whether two attributes or more are together as in the table.

    Parameters
    ----------
    names : tuple of str
    how : str
        ``"measured"``, ``"modelled"``, or ``"follows"`` if a rule makes it so.
    std : float or None
        Noise of a cell, as a share of the rows.
    strength : float or None
        Cramér's V of two attributes in rows of the model.
    rule : str
    """

    names: tuple[str, ...]
    how: str
    std: float | None = None
    strength: float | None = None
    rule: str = ""


@dataclass(frozen=True, eq=False)
class Gaps:
    """How often one attribute is missing at the levels of another.

    Parameters
    ----------
    name, by : str
    low, high : tuple of (str, float, float or None)
        The level at which it is missing least, and most: with the rate and its noise.
    chance : float or None
        How likely rates that differ so much were, if values went missing by chance alone; None of
        the model's rows, and where rows of one unit belong together.
    """

    name: str
    by: str
    low: tuple[str, float, float | None]
    high: tuple[str, float, float | None]
    chance: float | None


@dataclass(frozen=True, eq=False)
class Coincidence:
    """How often two attributes are missing together, and would be by chance.

    Parameters
    ----------
    names : tuple of str
    rate, alone : float
    std : float or None
    """

    names: tuple[str, str]
    rate: float
    alone: float
    std: float | None


class Facts:
    """What a model tells; computed once, from released values and public facts.

    Parameters
    ----------
    model : Synthesizer
    """

    def __init__(self, model: Synthesizer) -> None:
        self.model = model
        self.schema: Schema = model.schema_
        self.names = model.modelled_.names
        self.keeps_gaps = model._applied_strategy.models_holes
        self.rows = max(1.0, float(model.n_rows_))

    @property
    def measured(self) -> bool:
        """Whether the model keeps what was measured."""
        return self._pairs is not None or self._marginals is not None

    @property
    def counts_observed(self) -> bool:
        """Whether shares are of the rows in which a value is there, not of all made up for."""
        return self._marginals is None

    @cached_property
    def _pairs(self) -> PairTables | None:
        """The tables of all pairs, with what clipping took put back."""
        if not isinstance(self.model, AllPairs) or self.model.pairs_ is None:
            return None
        release, fitted, rng = self.model.pairs_, self.model.model_, np.random.default_rng(0)
        rows = fitted.law.sample(_FEWER, rng)
        sizes = [level.n_groups for level in release.crude.levels]
        seen = np.where(fitted.masks.draw(rows, rng), sizes, rows)
        if release.plan is None:
            return release.tables(None)
        # What is put back grows with the sums, so their noise does.
        larger = {pair: 1 / kept for pair, kept in release.left(seen)[1].items()}
        return release.tables(release.taken(seen), larger)

    @property
    def pair_tables(self) -> dict[tuple[int, int], tuple[Floats, Floats]]:
        """Shares of all pairs, missing values included, with their variances; or nothing."""
        found = self._pairs
        return (
            {} if found is None else {c: (t, found.variances[c]) for c, t in found.tables.items()}
        )

    @property
    def _marginals(self) -> Any:
        return self.model.marginals_ if isinstance(self.model, AIM | MST) else None

    @cached_property
    def _levels(self) -> Sequence[Levels] | None:
        fitted: Any = self.model.__dict__.get("model_")
        return getattr(fitted, "levels", None) if self.measured else None

    @cached_property
    def codes(self) -> list[Ints]:
        """Rows of the model, on groups of levels; a missing value has the code after them."""
        keep: Any = "keep" if self.keeps_gaps else "fill"
        drawn = self.model._sample(_ROWS, keep, np.random.default_rng(0))
        found = []
        for at, name in enumerate(self.names):
            size = self.model.modelled_[name].size
            groups = np.arange(size) if self._levels is None else self._levels[at].groups
            whole = np.append(groups, groups.max(initial=-1) + 1)
            found.append(whole[np.minimum(drawn[name], size)])
        return found

    @cached_property
    def level_names(self) -> list[tuple[str, ...]]:
        """What each group of levels of each modelled attribute is called, exactly."""
        return self._named(level_names)

    @cached_property
    def shown_names(self) -> list[tuple[str, ...]]:
        """The same in short, for people."""
        return self._named(_shown_names)

    def _named(self, names: Callable[[AnyAttribute], tuple[str, ...]]) -> list[tuple[str, ...]]:
        found = []
        for at, name in enumerate(self.names):
            named = code_names(self.model._modelled, name, names)
            groups = np.arange(len(named)) if self._levels is None else self._levels[at].groups
            found.append(_grouped(named, groups))
        return found

    @cached_property
    def columns(self) -> list[OneWay]:
        """What is known of each modelled attribute."""
        return [self._column(at) for at in range(len(self.names))]

    def _column(self, at: int) -> OneWay:
        name, size = self.names[at], len(self.level_names[at])
        attribute = self.schema[name]
        stds, missing_std = None, None
        if self._pairs is None:
            counts = np.bincount(self.codes[at], minlength=size + 1)[: size + 1] / _ROWS
            shares, missing = counts[:size] / max(_SAFE, counts[:size].sum()), float(counts[size])
        if self._pairs is not None:
            margin, noise = self._pairs.margins[at], self._margin_stds[at]
            seen = max(_SAFE, float(margin[:size].sum()))
            shares, stds = margin[:size] / seen, noise[:size] / seen
            missing = float(margin[size]) if len(margin) > size else 0.0
            missing_std = float(noise[size]) if len(margin) > size else None
        elif self._marginals is not None:
            shares, stds = self._marginals[at,]
            recipe = self.model._recipe
            if attribute.nullable and self.keeps_gaps:
                missing_std = recipe.first_sigma / max(1.0, recipe.n_rows)
        label = attribute.label or name
        gaps = (missing, missing_std, attribute.nullable)
        return OneWay(name, label, self.shown_names[at], shares, stds, *gaps)

    @cached_property
    def _margin_stds(self) -> list[Floats]:
        assert isinstance(self.model, AllPairs)
        assert self.model.pairs_ is not None
        return self.model.pairs_.margin_stds

    @cached_property
    def relations(self) -> list[Relation]:
        """Every pair, larger tables that were measured, and what rules make of the rest."""
        found = [
            self._relation(a, b, float(self._strengths[a, b]))
            for a, b in combinations(range(len(self.names)), 2)
        ]
        found += self._larger()
        for rule in self.schema.rules:
            about = sorted(rule.about(self.schema.columns), key=self.schema.names.index)
            found.append(Relation(tuple(about), "follows", rule=rule.text))
        return found

    def _relation(self, a: int, b: int, strength: float) -> Relation:
        names = self.names[a], self.names[b]
        if self._pairs is not None:
            variance = self._pairs.variances.get((a, b))
            std = None if variance is None else float(np.sqrt(np.mean(variance)))
            return Relation(names, "measured", std, strength)
        stds = [
            float(np.sqrt(np.square(table[1]).mean() * np.prod(table[1].shape) / self._cells(a, b)))
            for clique, table in (self._marginals or {}).items()
            if {a, b} <= {*clique}
        ]
        how = "measured" if stds else "modelled"
        return Relation(names, how, min(stds, default=None), strength)

    def _cells(self, a: int, b: int) -> int:
        return len(self.level_names[a]) * len(self.level_names[b])

    def _larger(self) -> list[Relation]:
        """Return tables of three attributes and more."""
        if isinstance(self.model, AllPairs) and self.model.pairs_ is not None:
            stds = {c: s / self.rows for c, s in self.model.pairs_.together_stds.items()}
        else:
            known = (self._marginals or {}).items()
            stds = {c: float(np.sqrt(np.square(t[1]).mean())) for c, t in known if len(c) > 2}
        return [
            Relation(tuple(self.names[a] for a in c), "measured", std) for c, std in stds.items()
        ]

    @cached_property
    def _strengths(self) -> Floats:
        """Cramér's V of all pairs, in rows of the model in which both have a value."""
        sizes = [len(names) for names in self.level_names]
        found = np.zeros((len(sizes), len(sizes)))
        if isinstance(self.model, AllPairs):  # whose rows are raked to these tables
            tables = self.model.model_.tables
            for a, b in combinations(range(len(sizes)), 2):
                if (a, b) in tables:
                    found[a, b] = found[b, a] = _cramers_v(tables[a, b] * _ROWS)
            return found
        starts = np.cumsum([0, *sizes])
        shown = np.zeros((_ROWS, starts[-1]), dtype=np.float32)
        for at, codes in enumerate(self.codes):
            rows = np.flatnonzero(codes < sizes[at])
            shown[rows, starts[at] + codes[rows]] = 1.0
        both = (shown.T @ shown).astype(np.float64)
        for a, b in combinations(range(len(sizes)), 2):
            table = both[starts[a] : starts[a + 1], starts[b] : starts[b + 1]]
            found[a, b] = found[b, a] = _cramers_v(table)
        return found

    @property
    def strengths(self) -> Floats:
        """Cramér's V of all pairs of modelled attributes."""
        return self._strengths

    @cached_property
    def gaps(self) -> list[Gaps]:
        """For each attribute with missing values, the other one by which its rates differ most."""
        nullable = [at for at, c in enumerate(self.columns) if c.nullable and c.missing > 0]
        found = []
        for at in nullable if self.keeps_gaps else ():
            others = [self._gaps(at, by) for by in range(len(self.names)) if by != at]
            known = [one for one in others if one is not None]
            if known:
                found.append(min(known, key=_interest))
        return found

    def _gaps(self, at: int, by: int) -> Gaps | None:
        size, names = len(self.level_names[at]), self.shown_names[by]
        if self._pairs is not None:
            table, variance = self._pair(at, by)
            if len(table) <= size:
                return None
            weight, noise = table[:, : len(names)].sum(axis=0), np.sqrt(variance[size])
            weight = np.maximum(weight, _SAFE)
            # The table of a pair is a small difference of sums: only clear groups are compared.
            clear = weight > _CLEAR * np.sqrt(variance[:, : len(names)].sum(axis=0))
            rates, stds = table[size, : len(names)] / weight, noise[: len(names)] / weight
            clear &= stds < _BLURRED
        else:
            gone, codes = self.codes[at] == size, self.codes[by]
            count = np.bincount(codes, minlength=len(names) + 1)[: len(names)]
            clear = count >= _ROWS / 100
            weight = np.maximum(count, 1) / _ROWS
            rates = np.bincount(codes, gone, len(names) + 1)[: len(names)] / np.maximum(count, 1)
            stds = None
        if clear.sum() < 2:
            return None
        rates = np.clip(rates, 0.0, 1.0)
        low, high = (int(np.flatnonzero(clear)[f(rates[clear])]) for f in (np.argmin, np.argmax))
        ends = [
            (names[i], float(rates[i]), None if stds is None else float(stds[i]))
            for i in (low, high)
        ]
        alike = self.model.guarantee_.max_rows == 1 and self.model._size is None
        alone = stds is not None and alike
        chance = self._chance(rates[clear], stds[clear], weight[clear]) if alone else None
        return Gaps(self.names[at], self.names[by], ends[0], ends[1], chance)

    def _chance(self, rates: Floats, stds: Floats, weight: Floats) -> float:
        """Return how likely rates were to differ so much, were they one and the same."""
        from scipy.stats import chi2

        mean = float(np.average(rates, weights=weight))
        variance = np.square(stds) + mean * (1 - mean) / (self.rows * weight) + _SAFE
        mean = float(np.average(rates, weights=1 / variance))
        return float(chi2.sf((np.square(rates - mean) / variance).sum(), len(rates) - 1))

    def _pair(self, a: int, b: int) -> tuple[Floats, Floats]:
        assert self._pairs is not None
        if a < b:
            return self._pairs.tables[a, b], self._pairs.variances[a, b]
        return self._pairs.tables[b, a].T, self._pairs.variances[b, a].T

    @cached_property
    def together(self) -> list[Coincidence]:
        """Pairs that are missing together more or less often than by chance, furthest first."""
        sizes = [len(names) for names in self.level_names]
        nullable = [at for at, c in enumerate(self.columns) if c.nullable and c.missing > 0]
        found = []
        for a, b in combinations(nullable if self.keeps_gaps else (), 2):
            alone, std = self.columns[a].missing * self.columns[b].missing, None
            if self._pairs is not None:
                table, variance = self._pair(a, b)
                most = min(self.columns[a].missing, self.columns[b].missing)
                rate = float(np.clip(table[sizes[a], sizes[b]], 0.0, most))
                std = float(np.sqrt(variance[sizes[a], sizes[b]]))
            else:
                rate = float(np.mean((self.codes[a] == sizes[a]) & (self.codes[b] == sizes[b])))
            if abs(rate - alone) > _APART * (std or np.sqrt(max(alone, 1 / _ROWS) / _ROWS)):
                found.append(Coincidence((self.names[a], self.names[b]), rate, alone, std))
        return sorted(found, key=lambda one: -abs(one.rate - one.alone))


def _interest(gaps: Gaps) -> tuple[float, float]:
    return (1.0 if gaps.chance is None else gaps.chance, gaps.low[1] - gaps.high[1])


def code_names(
    modelled: Modelled,
    name: str,
    names: Callable[[AnyAttribute], tuple[str, ...]] | None = None,
) -> list[str]:
    """Return what each code of a modelled attribute is called, missing ones aside."""
    own = (names or level_names)(modelled.whole[name])
    return [*own, "not applicable"][: modelled.schema[name].size]


def level_names(attribute: AnyAttribute) -> tuple[str, ...]:
    """Return what people call each level, or bin."""
    if not isinstance(attribute, Numeric):
        return attribute.level_labels
    if attribute.step is None and not attribute.integer:
        return attribute.interval_names
    ends = zip(*(map(attribute.shown, end) for end in attribute.reach), strict=True)
    return tuple(low if low == high else f"{low} to {high}" for low, high in ends)


def _shown_names(attribute: AnyAttribute) -> tuple[str, ...]:
    """Return the same, with bins of numbers between rounded ends, if all of them differ."""
    exact = level_names(attribute)
    if type(attribute) is not Numeric:
        return exact
    ends = zip(*([short(end) for end in ends] for ends in attribute.reach), strict=True)
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


def _cramers_v(table: Floats) -> float:
    total = table.sum()
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    expected = np.outer(rows, columns) / max(total, 1.0)
    smaller = min(np.count_nonzero(rows), np.count_nonzero(columns)) - 1
    if smaller < 1:
        return 0.0
    excess = np.square(table - expected)[expected > 0] / expected[expected > 0]
    return float(np.sqrt(excess.sum() / total / smaller))
