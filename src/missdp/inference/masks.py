"""A model of which cells are missing, learned from released marginals.

One logistic regression per attribute, independent over attributes given the complete row ``x``:

    logit P(a missing | x) = α_a + Σ_b β_ab(x_b) + Σ_bc γ_abc(x_b, x_c),   b, c ≠ a.

Given the complete-data model, the sufficient statistics are small released tables: how often ``a``
is missing (α), and how often it is missing at each observed level of ``b`` (β; a `Strip` of the
extended marginal of ``{a, b}``), or of ``b`` and ``c`` together (γ, if the three were measured
together).  No table, or one without evidence against it, means no effect: missing completely at
random.  Observed tables are divided by their probability of being observed, as in inverse
probability weighting.  That corrects for values missing at random (Rubin 1976) in so far as this
form holds and the marginals it needs were measured.  Where two attributes decide together (``a`` is
missing if exactly one of two others is set), each alone shows nothing: without the three measured
together the estimate stays as biased as if nothing had been done.

In real tables holes come together (a questionnaire is left half-way).  Released pair tables count
rows with both cells missing; where that differs from independence given the row by more than noise,
latent normal variables of a Gaussian copula are correlated, and one and the same where attributes
are missing together (`missdp.inference.completion`). The chance of each single cell to be missing
is not touched, so nothing else is.

If, however, ``a`` is missing at other rates by the observed levels of ``b``, and at a rate again
where ``b`` is missing that no mean of those explains, then ``b`` is taken to count only where it is
observed, as values missing at random have it: β_ab(x_b) where it is observed, one number
where it is not.  The same if that explains why ``b`` seems to be missing by the levels of ``a``.

A level of ``a`` that only ``b`` tells ("not applicable") goes missing where ``b`` does if nothing
is written for it; if a code is, there alone, and only if released tables lack it there.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import TopologicalSorter
from itertools import chain
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.inference.model import Levels, finite, shaped, split_rows
from missdp.record import Record
from missdp.types import Flags, Floats, Ints

_EVIDENCE = 3.0  # standard deviations of the statistic
_TREND = 1.7  # the same of a trend, which is leaned on no trend as well
_COINCIDENCE = 3.0  # standard deviations
_LARGEST = 0.99  # correlation
_ROWS = 1000  # rows of the model that expectations are taken over
_NODES = 129
_LEAST_EIGENVALUE = 1e-6


def _latent_uniforms(n: int, correlation: Floats, rng: np.random.Generator) -> Floats:
    """Draw uniform numbers whose normal quantiles are correlated, one column per event."""
    from scipy.special import ndtr

    if np.array_equal(correlation, np.eye(len(correlation))):
        return rng.random((n, len(correlation)))
    latent = rng.standard_normal((n, len(correlation))) @ np.linalg.cholesky(correlation).T
    return np.asarray(ndtr(latent))


def _coincidence_evidence(count: float, std: float, alone: float, n_rows: float) -> float:
    """Return by how many standard deviations two events coincide more often than by chance."""
    expected = n_rows * alone
    return float((count - expected) / np.sqrt(std**2 + expected * (1 - alone)))


def both_missing(
    counts: Floats, std: float, holes: Sequence[tuple[float, float]], n_rows: float
) -> tuple[float, float]:
    """Return in how many rows both are missing, and its noise, given how often either is."""
    one, other = ([n - 1, 1] for n in counts.shape)
    cells = np.outer(one, other).ravel()  # of each quarter of the table
    edges = [[0, n - 1] for n in counts.shape]
    quarters = np.add.reduceat(np.add.reduceat(counts, edges[0], 0), edges[1], 1).ravel()
    told = np.append(quarters - [n_rows, 0, 0, 0], [count for count, _ in holes])
    noise = np.append(std * np.sqrt(cells), [unsure for _, unsure in holes])
    # Of both, of the first and of the second: neither, the second alone, the first alone, both.
    of = np.array([[1, -1, -1], [-1, 0, 1], [-1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    weighted = of / noise[:, np.newaxis]
    spread = np.linalg.inv(weighted.T @ weighted)
    return float((spread @ weighted.T @ (told / noise))[0]), float(np.sqrt(spread[0, 0]))


def fit_correlation(
    chances: Floats,
    both: Mapping[tuple[int, int], tuple[float, float]],
    n_rows: float,
    *,
    explained: Collection[tuple[int, int]] = (),
    settled: Mapping[tuple[int, int], Flags] | None = None,
) -> Floats:
    """Find latent correlations under which pairs of holes coincide as often as released.

    Where a pair is ``settled``, by row, the first is missing just where the second is.
    """
    from scipy.special import ndtri

    size = chances.shape[1]
    correlation, known = np.eye(size), np.eye(size, dtype=bool)
    step = max(1, len(chances) // _ROWS)
    rows = chances[::step]
    same = {pair: flags[::step] for pair, flags in (settled or {}).items()}
    quantiles = ndtri(np.clip(rows, 1e-12, 1 - 1e-12))
    for (a, b), (count, std) in both.items():
        one, other = (b, a) if (b, a) in same else (a, b)
        tied = same.get((one, other), np.zeros(len(rows), dtype=bool))
        alone = float((np.where(tied, 1.0, rows[:, one]) * rows[:, other]).mean())
        known[a, b] = known[b, a] = True
        evidence = _coincidence_evidence(count, std, alone, n_rows)
        free = quantiles[~tied]
        if abs(evidence) > _COINCIDENCE and len(free) and not {(a, b), (b, a)} & set(explained):
            share = len(free) / max(1, len(rows))
            found = _latent(free[:, a], free[:, b], alone, count / n_rows, share)
            correlation[a, b] = correlation[b, a] = found
    return positive(_completed(correlation, known))


def _latent(h: Floats, k: Floats, alone: float, target: float, share: float = 1.0) -> float:
    """Solve E[Φ₂(h, k; ρ)] = target for ρ, along ρ = sin θ (Drezner and Wesolowsky 1990)."""
    from scipy.integrate import cumulative_trapezoid

    theta = np.linspace(-np.arcsin(_LARGEST), np.arcsin(_LARGEST), _NODES)[:, np.newaxis]
    exponent = (h**2 + k**2 - 2 * h * k * np.sin(theta)) / (2 * np.cos(theta) ** 2)
    density = np.exp(-exponent).sum(axis=1) / max(1, len(h)) / (2 * np.pi)
    grown = cumulative_trapezoid(density, theta[:, 0], initial=0.0)
    rates = alone + share * (grown - grown[_NODES // 2])  # of all rows, such a share is correlated
    return float(np.sin(np.interp(target, rates, theta[:, 0])))


def _completed(correlation: Floats, known: NDArray[np.bool_]) -> Floats:
    """Fill unknown pairs with the largest product along a chain of pairs."""
    filled = correlation.copy()
    for via in range(len(filled)):
        chain = np.outer(filled[:, via], filled[via])
        better = ~known & (np.abs(chain) > np.abs(filled))
        filled = np.where(better, chain, filled)
    return filled


def positive(correlation: Floats) -> Floats:
    """Return the correlations, mended if no normal variables have them."""
    values, vectors = np.linalg.eigh(correlation)
    if values[0] >= _LEAST_EIGENVALUE:
        return correlation
    mended = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
    return np.asarray(mended / np.sqrt(np.outer(np.diag(mended), np.diag(mended))))


Both: TypeAlias = Mapping[tuple[int, int], tuple[float, float]]

_LEAST_RATE = 1e-6
_DAMPING = 0.7
_NEVER = -50.0  # logit of no chance at all
_MOST_LEFT = 0.03  # of the evidence against a simpler reason, by the one that replaces it
_LEAST_GAP = 0.1  # of the rows in which two cells are missing: less is a matter of the form
_LEAST_SKIPPED = 0.2  # of rows that skip one question: less is a matter of the form
_STEP = 1.0  # largest move of a parameter in one sweep


@dataclass(frozen=True, eq=False)
class Strip:
    """How often ``a`` is missing, by observed levels of others: a part of a released marginal.

    * ``missing``: Noisy counts of rows where ``a`` is missing, one per cell of the others; may be
      negative.
    * ``rows``: Noisy counts of all rows, one per cell of the others.
    * ``std``: Standard deviation of the noise of each missing count.
    * ``observed_cells``: How many counts with the same noise make up the observed part of each of
      ``rows``.
    * ``levels``, optional: Numbers of levels of the others, if there are several.
    * ``ordered``: Whether the levels have an order: then a trend of rates is evidence too.
    """

    missing: Floats
    rows: Floats
    std: float
    observed_cells: float
    levels: tuple[int, ...] = ()
    ordered: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of levels of the others."""
        return self.levels or (len(self.missing),)

    @property
    def selective(self) -> bool:
        """Whether missing rates differ between levels by more than noise and chance explain."""
        return self.evidence > _EVIDENCE

    @cached_property  # asked for in every sweep
    def evidence(self) -> float:
        """How much missing rates differ between levels, in standard deviations beyond the mean."""
        trend = _EVIDENCE * self._trend[1] / _TREND**2 if self.ordered else 0.0
        return max(self.against(np.ones(len(self.missing))), trend)

    @property
    def _places(self) -> Floats:
        """Mid-ranks of the levels, of mean 0."""
        rows = np.maximum(self.rows, self.std)
        places: Floats = (np.cumsum(rows) - rows / 2) / rows.sum() - 0.5
        return places

    @cached_property
    def _trend(self) -> tuple[float, float]:
        """By how much rates rise with the mid-rank, and the squared ratio to its noise."""
        rows, whole = np.maximum(self.rows, self.std), float(self.missing.sum())
        if whole <= self.std * math.sqrt(len(rows)):  # hardly any are missing
            return 0.0, 0.0
        rate = min(1.0, max(0.0, whole / float(rows.sum())))  # it hardly matters for a trend
        noise = self.std**2 * ((1 - rate) ** 2 + rate**2 * self.observed_cells)
        part = self._places * rows / (noise + rows * rate * (1 - rate))
        told = max(float(part @ (self._places * rows)), _LEAST_RATE)
        slope = float(part @ (self.missing - rate * rows)) / told
        return slope, slope**2 * told

    def against(self, profile: Floats) -> float:
        """How much missing rates differ from a multiple of the ones given, by chi-squared."""
        levels, whole = len(self.missing), float(self.missing.sum())
        if levels < 2 or whole <= 3 * self.std * np.sqrt(levels):
            return 0.0
        factor = whole / max(float(self.rows @ profile), 1.0)
        rate = np.clip(factor * profile, 0.0, 1.0)
        noise = self.std**2 * ((1 - rate) ** 2 + rate**2 * self.observed_cells)
        chance = np.maximum(self.rows, 0.0) * rate * (1 - rate)
        statistic = float((np.square(self.missing - rate * self.rows) / (noise + chance)).sum())
        freedom = levels - 1
        return (statistic - freedom) / float(np.sqrt(2 * freedom))

    def lack(self, level: int, rate: float, n_rows: float) -> float:
        """By how many standard deviations a level is too rare where ``a`` is missing."""
        rows = np.maximum(self.rows, 0.0)
        own, at, seen = float(self.missing[level]), float(rows[level]), float(rows.sum())
        whole, part, expected = float(self.missing.sum()), at / max(seen, 1.0), rate * at
        noise = self.std**2 * ((1 - part) ** 2 + part**2 * (len(rows) - 1))
        if part * whole - own > _EVIDENCE * math.sqrt(noise + part * (1 - part) * max(whole, 0.0)):
            # There ``a`` is rarely missing: as rarely beside other levels, were they all observed.
            others = (whole - own) * (n_rows - at) / max(seen - at, 1.0)
            expected = min(expected, rate * n_rows * own / max(own + others, 1.0))
        gap = expected - own if expected - own > _LEAST_SKIPPED * expected else 0.0
        return gap / math.sqrt(self.std**2 + max(expected, 0.0))

    @cached_property  # asked for in every sweep
    def rates(self) -> Floats:
        """Missing rate by level, leaning on the whole rate, or a trend, as far as it is noise.

        Empirical Bayes: how much rates vary between levels is told by how much the released ones
        vary beyond their noise (DerSimonian and Laird 1986).
        """
        rows = np.maximum(self.rows, self.std)
        whole = float(np.clip(self.missing.sum() / rows.sum(), 0.0, 1.0))
        noise = self.std**2 * ((1 - whole) ** 2 + whole**2 * self.observed_cells)
        variance = (noise + rows * whole * (1 - whole)) / rows**2
        line = np.full(len(rows), whole)
        if self.ordered:
            slope, known = self._trend
            line += slope * max(0.0, 1 - 1 / max(known, 1.0)) * self._places
        weight, off = 1 / np.maximum(variance, _LEAST_RATE**2), self.missing / rows - line
        beyond = max(0.0, float(weight @ np.square(off)) - len(rows) + 1)
        spread = beyond / max(weight.sum() - np.square(weight).sum() / weight.sum(), _LEAST_RATE)
        rates: Floats = np.clip(line + off * spread / (spread + variance), 0.0, 1.0)
        return rates


@dataclass(eq=False)
class MaskModel(Record):
    """Probability that each cell is missing, given the complete row.

    * ``rates`` (shape (d,)): Released missing rates; 0 where an attribute is never missing.
    * ``always``: By attribute, a level that is always observed: there is nothing to be missing.
    * ``told``: By attribute with a level that others tell, these; the level of ``always`` is
      missing where any of them is; where they are in ``unseen``, too, there alone.
    * ``slopes`` (by (a, b) or (a, b, c)): What levels of others add to the logit of ``a``.
    * ``unseen`` (by (a, b)): What is added instead where ``b`` is missing; for pairs without,
      levels count all the same.
    """

    rates: Floats
    always: dict[int, int] = field(default_factory=dict)
    intercepts: Floats = field(init=False)
    slopes: dict[tuple[int, ...], Floats] = field(default_factory=dict)  # whose, then by what
    correlation: Floats = field(init=False)  # of latent variables: which holes coincide
    unseen: dict[tuple[int, int], float] = field(default_factory=dict)
    told: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from scipy.special import logit

        self.correlation = np.eye(len(self.rates))
        self.intercepts = logit(np.clip(self.rates, _LEAST_RATE, 1 - _LEAST_RATE))

    def fits(self, sizes: Sequence[int]) -> bool:
        """Whether masks are of attributes with so many levels; an error if they need themselves."""
        d, told = len(sizes), self.told
        needs = {a: {b for c, b in self.unseen if c == a} for a in range(d)}
        TopologicalSorter({a: {*needs[a], *self._tellers(a)} for a in needs}).prepare()
        named = {*self.always, *told, *chain(*told.values(), *self.unseen, *self.slopes)}
        numbers = self.rates, self.intercepts, self.correlation
        return (
            [table.shape for table in numbers] == [(d,), (d,), (d, d)]
            and named <= {*range(d)}
            and all(shaped({effect[1:]: table}, sizes) for effect, table in self.slopes.items())
            and finite((*numbers, *self.slopes.values()))
            and all(map(math.isfinite, self.unseen.values()))
            and bool(np.linalg.eigvalsh(self.correlation)[0] > 0)
        )

    @property
    def present(self) -> Flags:
        """Which attributes have holes at all."""
        return np.asarray(self.rates > 0)

    def missing(self, rows: Ints) -> Floats:
        """Probability that each cell of complete rows is missing, shape ``(n, d)``.

        Where it depends on another mask, it is given one that is drawn: right on average.
        """
        return self._chances(rows, self._drivers(rows))

    def observed(self, rows: Ints, clique: Iterable[int], missing: Floats) -> Floats:
        """Probability that all cells of a clique are observed in complete rows, shape ``(n,)``."""
        clique = list(clique)
        tied = [a for a in clique if any(self._depends(a, b) for b in clique)]
        chance: Floats = (1.0 - missing[:, [a for a in clique if a not in tied]]).prod(axis=1)
        if tied:
            holes = self._drivers(rows, seen=clique)
            for a in tied:
                chance *= 1.0 - self._chance(a, rows, holes)
        return chance

    def tied(self, clique: Iterable[int]) -> bool:
        """Whether masks of a clique depend on each other."""
        clique = list(clique)
        return any(self._depends(a, b) for a in clique for b in clique)

    def draw(self, rows: Ints, rng: np.random.Generator) -> Flags:
        """Draw masks for complete rows; True is missing."""
        uniforms = _latent_uniforms(len(rows), self.correlation, rng)
        holes = self._drivers(rows, uniforms)
        return np.asarray(uniforms < self._chances(rows, holes))

    def coded(
        self, levels: Sequence[Levels], rows: Ints, rng: np.random.Generator, *, keep_holes: bool
    ) -> list[Ints]:
        """Return the codes of complete rows on groups of levels; a hole has the code ``size``."""
        holes = self.draw(rows, rng) if keep_holes else np.zeros(rows.shape, dtype=bool)
        return split_rows(levels, rows, holes, rng)

    def _drivers(
        self, rows: Ints, uniforms: Floats | None = None, seen: Iterable[int] = ()
    ) -> dict[int, Flags]:
        """Draw the masks that others depend on, each after those that it depends on itself."""
        # By default with the same random numbers whenever it is asked for so many rows.
        drawn = {b for _, b in self.unseen}
        if uniforms is not None:  # for a chance, those that tell a level are not drawn
            drawn |= {b for a in self.always for b in self._tellers(a)}
        waiting = sorted(drawn)
        if uniforms is None and waiting:
            uniforms = np.random.default_rng(0).random((len(rows), len(self.rates)))
        holes: dict[int, Flags] = {b: np.zeros(len(rows), dtype=bool) for b in seen}
        waiting = [b for b in waiting if b not in holes]
        while waiting:
            ready = [b for b in waiting if not any(self._depends(b, c) for c in waiting)]
            for b in ready:
                holes[b] = uniforms[:, b] < self._chance(b, rows, holes)  # type: ignore[index]
            waiting = [b for b in waiting if b not in ready]
        return holes

    def _chances(self, rows: Ints, holes: Mapping[int, Flags]) -> Floats:
        from scipy.special import expit

        out = np.empty(rows.shape, order="F")
        out[:] = np.where(self.present, expit(self.intercepts), 0.0)
        steep = {effect[0] for effect, slope in self.slopes.items() if slope.any()}
        for a in steep | {a for a, _ in self.unseen}:  # most attributes depend on none
            if self.present[a]:
                out[:, a] = expit(self._logits(a, rows, holes))
        for a in sorted(self.always, key=self._depth):
            self._settle(a, out[:, a], rows, lambda b: holes[b] if b in holes else out[:, b])
        return out

    def _chance(self, a: int, rows: Ints, holes: Mapping[int, Flags]) -> Floats:
        from scipy.special import expit

        chance: Floats = expit(self._logits(a, rows, holes)) * bool(self.present[a])
        self._settle(
            a, chance, rows, lambda b: holes[b] if b in holes else self._chance(b, rows, holes)
        )
        return chance

    def _settle(
        self, a: int, chance: Floats, rows: Ints, gone: Callable[[int], Floats | Flags]
    ) -> None:
        """Set the chance of a level that is missing only where what tells it is."""
        if a in self.always:
            level = rows[:, a] == self.always[a]
            seen, sure = np.ones(int(level.sum())), True
            for b in self._tellers(a):
                seen *= 1.0 - gone(b)[level]
                sure &= (a, b) not in self.unseen
            chance[level] = (1.0 - seen) * (1.0 if sure else chance[level])

    def _tellers(self, a: int) -> tuple[int, ...]:
        return self.told.get(a, ()) if a in self.always and self.present[a] else ()

    def _depth(self, a: int) -> int:
        return 1 + max(map(self._depth, self._tellers(a)), default=0)

    @property
    def _told_pairs(self) -> set[tuple[int, int]]:
        """Attributes with a level that is missing where another is, and that other."""
        return _chains({a: self._tellers(a) for a in self.told})

    @property
    def explained(self) -> set[tuple[int, int]]:
        """Pairs whose holes coincide for a reason that is modelled, in all rows."""
        skipped, every = self._told_directly & {*self.unseen}, range(len(self.rates))
        with_it = {(a, c) for a, b in skipped for c in every if not self._depends(c, b)}
        return {*self.unseen, *with_it, *self._told_pairs - self._told_directly}

    @property
    def _told_directly(self) -> set[tuple[int, int]]:
        return {(a, b) for a in self.told for b in self._tellers(a)}

    def settled(self, rows: Ints) -> dict[tuple[int, int], Flags]:
        """In which rows an attribute is missing just where one that tells its level is."""
        return {(a, b): rows[:, a] == self.always[a] for a, b in self._told_directly}

    def _logits(self, a: int, rows: Ints, holes: Mapping[int, Flags]) -> Floats:
        logits = np.full(len(rows), self.intercepts[a])
        for effect, slope in self.slopes.items():
            if effect[0] == a and slope.any():
                part = slope[tuple(rows[:, b] for b in effect[1:])]
                for b in effect[1:]:
                    if (a, b) in self.unseen:
                        part = np.where(holes[b], 0.0, part)
                logits += part
        for (one, b), number in self.unseen.items():
            if one == a:
                logits += number * holes[b]
        return logits

    def learn(
        self,
        rows: Ints,
        n_rows: float,
        strips: Mapping[tuple[int, ...], Strip],
        *,
        ridge: float,
        sweeps: int,
        both: Both | None = None,
    ) -> None:
        """Move the parameters towards the released tables, given rows of the complete-data model.

        Each sweep takes a damped, clipped Newton step on every parameter of the penalised
        likelihood; the penalty ``ridge · std`` lets a slope of one leave ``ridge`` standard
        deviations unexplained, and strips without evidence of selection have no slope at all, so
        that noise alone does not make data look selectively missing.
        """
        per_row = n_rows / max(1, len(rows))
        rows = np.asfortranarray(rows)  # columns are read one by one
        by_attribute: dict[int, dict[tuple[int, ...], Strip]] = {}
        if both:
            self.find_skipped(strips, both, n_rows)
        told = _chains(self.told)  # not seen alike where the attribute is missing and where not
        told |= {(a, b) for a, c in told for b, d in told if c == d}  # nor are those told with it
        tied = {e for e in {*strips, *self.slopes} if told & {(b, e[0]) for b in e[1:]}}
        strips = {e: s for e, s in strips.items() if e not in tied}
        self.slopes = {e: s for e, s in self.slopes.items() if e not in tied}
        for effect, strip in strips.items():
            if self.present[effect[0]]:
                by_attribute.setdefault(effect[0], {})[effect] = strip
        if both:
            self._find_unseen(strips, both, rows, n_rows)
        for _ in range(sweeps):
            holes = self._drivers(rows)
            missing = self._chances(rows, holes)
            self._match_rates(missing)
            for a, own in by_attribute.items():
                self._learn_one(a, own, rows, holes, missing, per_row, ridge)
            self._match_unseen(both or {}, rows, holes, missing, n_rows)

    def find_skipped(
        self, strips: Mapping[tuple[int, ...], Strip], both: Both, n_rows: float
    ) -> None:
        """Find levels of ``always`` that rows lack where another is missing: they skip both."""
        found: list[tuple[bool, float, int, int]] = []
        for (b, a, *more), strip in strips.items():
            known = both.get((a, b), both.get((b, a)))
            if more or a not in self.always or a in self.told or known is None:
                continue
            together = _coincidence_evidence(*known, float(self.rates[a] * self.rates[b]), n_rows)
            level = min(self.always[a], len(strip.missing) - 1)  # others may be one level
            evidence = min(strip.lack(level, float(self.rates[b]), n_rows), together)
            if evidence > _EVIDENCE:
                found.append((b in self.always, -evidence, a, b))
        for *_, a, b in sorted(found):  # last by those that are told themselves
            if a not in self.told and not self._depends(b, a):
                self.told[a] = (b,)
                self.unseen.setdefault((a, b), 0.0)

    def _find_unseen(
        self, strips: Mapping[tuple[int, ...], Strip], both: Both, rows: Ints, n_rows: float
    ) -> None:
        """Find attributes that count for the mask of another only where they are observed."""
        from scipy.special import expit, logit

        missing = self.missing(rows)
        found: dict[tuple[int, int], float] = {}
        told = self._told_pairs | self.explained
        for (one, other), (count, std) in both.items():
            if {(one, other), (other, one)} & told:
                continue
            alone = float((missing[:, one] * missing[:, other]).mean())
            gap = _coincidence_evidence(count, std, alone, n_rows)
            far = abs(gap) > _EVIDENCE and abs(count - n_rows * alone) > _LEAST_GAP * n_rows * alone
            for a, b in ((one, other), (other, one)):
                strip, back = strips.get((a, b)), strips.get((b, a))
                # An attribute that had no missing values so far has no slopes yet.
                slope, other_slope = self.slopes.get((a, b)), self.slopes.get((b, a))
                if strip is None or not strip.selective or slope is None or not slope.any():
                    continue
                rate = min(1.0, max(0.0, count / max(1.0, n_rows * self.rates[b])))
                if not far and back is not None and back.selective and other_slope is not None:
                    moved = logit(np.clip(missing[:, b], 1e-9, 1 - 1e-9)) - other_slope[rows[:, a]]
                    alike = expit(moved)
                    if not _explains(back, rows[:, a], missing[:, a], alike, rate):
                        continue
                elif not far:
                    continue
                found[a, b] = strip.evidence
        for a, b in sorted(found, key=lambda effect: -found[effect]):
            if not self._depends(b, a):  # or neither mask could be drawn first
                self.unseen.setdefault((a, b), 0.0)

    def _depends(self, a: int, b: int) -> bool:
        """Whether the mask of ``a`` depends on that of ``b``, directly or not."""
        causes = {v for one, v in self.unseen if one == a}.union(self._tellers(a))
        return b in causes or any(self._depends(v, b) for v in causes)

    def _match_unseen(
        self,
        both: Both,
        rows: Ints,
        holes: Mapping[int, Flags],
        missing: Floats,
        n_rows: float,
    ) -> None:
        """Move what counts where others are missing towards how often both are missing."""
        for (a, b), number in self.unseen.items():
            known = both.get((a, b), both.get((b, a)))
            if known is not None:
                chance = self._chance(a, rows, {**holes, b: np.ones(len(rows), dtype=bool)})
                weight = missing[:, b]
                aim = float(np.clip(known[0] / max(1.0, n_rows * self.rates[b]), 0.0, 1.0))
                gap = aim * weight.sum() - weight @ chance
                step = gap / max(weight @ (chance * (1 - chance)), 1e-3 * weight.sum(), 1e-9)
                self.unseen[a, b] = float(
                    np.clip(number + np.clip(_DAMPING * step, -_STEP, _STEP), _NEVER, -_NEVER)
                )

    def _match_rates(self, missing: Floats) -> None:
        gap = self.rates - missing.mean(axis=0)
        curvature = np.maximum((missing * (1 - missing)).mean(axis=0), 1e-3)
        self.intercepts = self.intercepts + np.where(
            self.present, np.clip(gap / curvature, -_STEP, _STEP), 0.0
        )

    def _learn_one(
        self,
        a: int,
        strips: Mapping[tuple[int, ...], Strip],
        rows: Ints,
        holes: Mapping[int, Flags],
        missing: Floats,
        per_row: float,
        ridge: float,
    ) -> None:
        """Update the slopes of one attribute, one effect after the other."""
        from scipy.special import expit

        for effect, strip in strips.items():
            self.slopes.setdefault(effect, np.zeros(strip.shape))
        moving = [e for e in strips if strips[e].selective or self.slopes[e].any()]
        if not moving:
            return
        logits = self._logits(a, rows, holes)
        for effect in moving:
            strip, slope = strips[effect], self.slopes[effect].ravel()
            cells = np.ravel_multi_index(tuple(rows.T[list(effect[1:])]), strip.shape)
            hidden = [b for b in effect[1:] if (a, b) in self.unseen]
            if strip.selective:
                seen = (1 - missing[:, effect[1:]]).prod(axis=1) * per_row
                both = seen
                if any((b, a) in self.unseen for b in effect[1:]):
                    both = self._seen_without(a, effect[1:], rows, holes, missing) * per_row
                # A strip is about rows in which the others are observed, whatever is drawn here.
                shown = {b: hole & (b not in hidden) for b, hole in holes.items()}
                own = self._logits(a, rows, shown) if hidden else logits
                chance = expit(own)
                self._settle(a, chance, rows, _unless(effect[1:], missing))
                step = _step(chance, cells, (seen, both), strip, ridge, slope)
            else:
                step = -slope
            self.slopes[effect] = (slope + step).reshape(strip.shape)
            logits = self._logits(a, rows, holes) if hidden else logits + step[cells]

    def _seen_without(
        self,
        a: int,
        others: tuple[int, ...],
        rows: Ints,
        holes: Mapping[int, Flags],
        missing: Floats,
    ) -> Floats:
        """Probability that others are observed where ``a`` is missing, on which they may depend."""
        chance = np.ones(len(rows))
        for b in others:
            if (b, a) in self.unseen:
                gone = {**holes, a: np.ones(len(rows), dtype=bool)}
                chance *= 1 - self._chance(b, rows, gone)
            else:
                chance *= 1 - missing[:, b]
        return chance


def _explains(back: Strip, codes: Ints, missing: Floats, other: Floats, rate: float) -> bool:
    """Whether rates of the other mask by levels of this attribute are but what hiding does.

    Who is seen depends on the other only where that is observed: so that among those who are seen,
    it is missing at other rates by level, though it has no reason to.
    """
    levels = len(back.missing)
    gone = np.bincount(codes, weights=other * (1 - rate), minlength=levels)
    there = np.bincount(codes, weights=(1 - other) * (1 - missing), minlength=levels)
    left = back.against(gone / np.maximum(gone + there, 1e-9))
    return left < max(_EVIDENCE, _MOST_LEFT * back.evidence)


def _chains(told: Mapping[int, tuple[int, ...]]) -> set[tuple[int, int]]:
    found, more = set[tuple[int, int]](), {(a, b) for a, by in told.items() for b in by}
    while more - found:
        found |= more
        more = {(a, c) for a, b in found for c in told.get(b, ())}
    return found


def _unless(seen: Iterable[int], missing: Floats) -> Callable[[int], Floats]:
    return lambda b: np.zeros(len(missing)) if b in seen else missing[:, b]


def _step(
    chance: Floats,
    codes: Ints,
    seen: tuple[Floats, Floats],
    strip: Strip,
    ridge: float,
    slope: Floats,
) -> Floats:
    """One clipped, damped Newton step of a slope.

    Rates, not counts, are matched, so that errors of the model in the predictor's own margin do not
    pass for selective missingness; and only their shape: their level tells how holes coincide, too.
    """
    levels = len(slope)
    whole, both = seen  # in how many rows the others are, and where this one is missing
    expected = np.bincount(codes, weights=both * chance, minlength=levels)
    curvature = np.bincount(codes, weights=both * chance * (1 - chance), minlength=levels)
    aim = strip.rates * np.bincount(codes, weights=whole, minlength=levels)
    if aim.sum() <= 0:
        return np.zeros(levels)
    aim *= expected.sum() / aim.sum()
    penalty = ridge * strip.std
    step = (aim - expected - penalty * slope) / (curvature + penalty + 1e-9)
    clipped: Floats = np.clip(_DAMPING * step, -_STEP, _STEP)
    return clipped


class RowModel(Record, abc.ABC, abstract=True):
    """A law of rows and of their holes; released values."""

    levels: tuple[Levels, ...]
    n_rows: float

    @abc.abstractmethod
    def sample(
        self, n: int, rng: np.random.Generator, *, keep_holes: bool
    ) -> list[NDArray[np.int64]]:
        """Draw ``n`` rows as one array of codes per attribute; a hole has the code ``size``."""
