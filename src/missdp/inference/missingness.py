"""A model of missing cells given the complete row, learned from released marginals.

Each attribute has a logistic regression on the others:

    logit P(a missing | x) = α_a + Σ_b β_ab(x_b) + Σ_bc γ_abc(x_b, x_c),   b, c ≠ a.

Given the model of complete rows, the sufficient statistics are small released tables. The term α
needs the missing rate of ``a``. The term β needs this rate at each observed level of ``b``. The
term γ needs a joint measurement of the three attributes. A table without evidence of an effect adds
no effect. Values are then treated as missing completely at random. Observed tables are divided by
their probability of being observed, as in inverse probability weighting. This corrects for values
missing at random (Rubin 1976), as far as this form holds and the needed marginals were measured. If
two attributes decide together (``a`` is missing if exactly one of two others is set), neither shows
an effect by itself. The estimate then stays biased unless the three were measured together.

In real tables, cells are missing together, for example if a questionnaire is left unfinished. The
missing cells of two attributes have one odds ratio given the row (Plackett 1965). It is fitted to
the released number of rows in which both are missing. Noise would hide most of that number, so each
pair is shrunk towards the mean of all pairs (empirical Bayes). All these odds ratios determine the
chance that a pair is observed. Missing cells are drawn along a tree of the most correlated pairs,
each given an earlier one (Chow and Liu 1968). The chance of each single cell stays exactly as it
is. If two attributes are clearly missing together, the observed levels of one are not a sample of
all its levels. Then the rates of the other by these levels are not learned. They are learned only
if they differ by more rows than are missing together beyond chance. If the two are missing apart,
only the rates with more evidence are learned.

Attributes that are missing in nearly the same rows form a set (`missdp.inference.mask_sets`). They
have the same effects, learned from the mean of their tables. With effects of their own, the chances
of two attributes given the row would differ, and the two could not be missing together as often.
The tree connects the attributes of a set first.

A declared rule may fix a level of ``a``, such as "not applicable", by other attributes. A cell at
this level is missing exactly where one of these others is missing. A declared level that no other
attribute determines is never missing. This is dropped if two attributes are missing together more
often than it allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from graphlib import TopologicalSorter
from typing import Any

import numpy as np
from pydantic.dataclasses import dataclass

from missdp.inference.mask_sets import CountsOfBoth, counts_by_sets, sets_missing_together
from missdp.inference.missing_rates import EVIDENCE, RatesByLevel, mean_rates, shrunk
from missdp.inference.model import cell_index
from missdp.serialization import Record
from missdp.types import Clique, Flags, Floats, Ints

# Largest log odds ratio of two missing cells: one is then missing with the other.
_MAX_LOG_ODDS = 12.0
_SOLVED = 1e-3  # tolerance of a log odds ratio
_BLOCK = 128  # pairs whose odds ratios are solved at once: their chances fit into a cache
_MIN_ROWS = 100  # rows from which odds ratios are first solved for some of the rows
_SOLVED_FIRST = 10  # every tenth row
_MAX_NEWTON = 50  # steps of Newton's method, or of bisection, which halves an interval of 24
_APART = -1.0  # log odds ratio below which two attributes are missing apart
# Share of the rows in which two are missing: a smaller excess may come from the model's form.
_FORM = 0.25
_MAX_ROWS = 1000  # rows of the model over which odds ratios are fitted
_MIN_RATE = 1e-6  # smallest missing rate, and smallest chance that is divided by
_MATCHING = 5  # sweeps after which rates agree
_DAMPING = 0.7  # share of a Newton step that is taken
_MAX_STEP = 1.0  # largest change of a parameter in one sweep


def joint_chance(p: Floats, q: Floats, log_odds: float | Floats) -> Floats:
    """Return the chance of two events together, by their chances and odds ratio (Plackett 1965).

    Parameters
    ----------
    p, q : ndarray of float64
        Chance of either event, from 0 to 1.
    log_odds : float or ndarray of float64
        Logarithm of the odds ratio, 0 if the events are independent.

    Returns
    -------
    ndarray of float64
        From 0 to the smaller chance.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.inference.missingness import joint_chance
    >>> joint_chance(np.array([0.5]), np.array([0.5]), np.log(9.0))
    array([0.375])
    """
    ratio = np.exp(log_odds)
    total = 1 + (p + q) * (ratio - 1)
    root = np.sqrt(np.maximum(total**2 - 4 * ratio * (ratio - 1) * p * q, 0.0))
    return np.asarray(np.clip(2 * ratio * p * q / (total + root), 0.0, np.minimum(p, q)))


def log_odds_of_joint(p: Floats, q: Floats, total: Floats) -> Floats:
    """Return log odds ratios with which two events happen together as often as requested.

    The sum of the joint chances grows with the log odds ratio. Newton's method solves for it, with
    bisection where a step leaves the interval of the solution. It starts from the solution for
    every tenth row, and that from the odds ratio of the mean chances (Plackett 1965).

    Parameters
    ----------
    p, q : ndarray of float64, shape (n, k)
        Chance of either event of k pairs in n rows, from 0 to 1.
    total : ndarray of float64, shape (k,)
        Requested number of joint events.

    Returns
    -------
    ndarray of float64, shape (k,)
        From -12 to 12.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.inference.missingness import log_odds_of_joint
    >>> chances = np.full((100, 1), 0.5)
    >>> np.exp(log_odds_of_joint(chances, chances, np.array([37.5]))).round(2)
    array([9.])
    """
    if len(p) < _MIN_ROWS:
        solved = _log_odds_of_means(p.mean(axis=0), q.mean(axis=0), total / len(p))
    else:
        some = slice(None, None, _SOLVED_FIRST)
        solved = log_odds_of_joint(p[some], q[some], total * (len(p[some]) / len(p)))
    low, high = np.full(len(total), -np.inf), np.full(len(total), np.inf)
    unsolved = np.arange(len(total))
    for _ in range(_MAX_NEWTON):
        last = solved[unsolved]
        excess, slope = _joint_and_slope(p[:, unsolved], q[:, unsolved], last)
        excess -= total[unsolved]
        below, above = unsolved[excess <= 0], unsolved[excess >= 0]
        low[below], high[above] = solved[below], solved[above]
        with np.errstate(divide="ignore", invalid="ignore"):  # a flat sum is bisected
            step = np.clip(last - excess / slope, -_MAX_LOG_ODDS, _MAX_LOG_ODDS)
        lower, upper = low[unsolved], high[unsolved]
        ends = np.clip([lower, upper], -_MAX_LOG_ODDS, _MAX_LOG_ODDS)
        solved[unsolved] = np.where((lower < step) & (step < upper), step, ends.mean(axis=0))
        unsolved = unsolved[np.abs(solved[unsolved] - last) > _SOLVED]
        if not len(unsolved):
            break
    return solved


def _log_odds_of_means(p: Floats, q: Floats, both: Floats) -> Floats:
    """Return the log odds ratio of two events by their chances and their joint chance."""
    cells = np.array([both, 1 - p - q + both, p - both, q - both])
    one, neither, first, second = np.log(np.maximum(cells, np.finfo(float).tiny))
    log_odds: Floats = np.clip(one + neither - first - second, -_MAX_LOG_ODDS, _MAX_LOG_ODDS)
    return log_odds


def _joint_and_slope(p: Floats, q: Floats, log_odds: Floats) -> tuple[Floats, Floats]:
    """Return the sums of joint chances over rows, and their derivatives by the log odds ratio.

    The log odds ratio is the sum of the logarithms of the four cells, two of them negative. Each
    cell moves by as much as the joint chance. So the derivative is 1 over the sum of 1 / cell.
    """
    both = joint_chance(p, q, log_odds)
    with np.errstate(divide="ignore"):  # a row with an empty cell has no slope
        inverse = 1 / both
        for cell in (p - both, q - both, 1 - p - q + both):
            inverse += 1 / np.maximum(cell, 0.0)
    return both.sum(axis=0), (1 / inverse).sum(axis=0)


@dataclass(eq=False)
class MissingnessModel(Record):
    """Probability that cells are missing, one by one and together, given the complete row.

    * ``rates`` (shape (d,)): Released missing rates. A complete attribute has the rate 0.
    * ``always``: Map from an attribute to a level that is missing by a rule only.
    * ``implied_by``: Map from an attribute to the attributes that determine by a rule whether it
      has that level. If one of them is missing, the level is missing. A level that no other
      attribute determines is never missing.
    * ``slopes`` (by (a, b) or (a, b, c)): Terms of the logit of ``a`` by the levels of others.
    * ``odds`` (by (a, b), a < b): Log odds ratio of both masks, given the row.
    * ``evident``: Pairs whose own counts show that their masks depend on each other.
    * ``intercepts`` (shape (d,)): Logit of the rate of each attribute, corrected for ``slopes``. By
      default it is the logit of the rate.
    * ``sets`` (length d): A number for each attribute. Attributes with the same number are missing
      in nearly the same rows, and have the same slopes. By default all differ.
    """

    rates: Floats
    always: dict[int, int] = field(default_factory=dict)
    implied_by: dict[int, tuple[int, ...]] = field(default_factory=dict)
    slopes: dict[tuple[int, ...], Floats] = field(default_factory=dict)
    odds: dict[tuple[int, int], float] = field(default_factory=dict)
    evident: tuple[tuple[int, int], ...] = ()
    intercepts: Floats = field(default_factory=lambda: np.zeros(0))
    sets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        from scipy.special import logit

        self.sets = self.sets or tuple(range(len(self.rates)))
        if len(self.sets) != len(self.rates):
            raise ValueError(f"sets must have {len(self.rates)} numbers, one for each attribute.")
        if not len(self.intercepts):
            self.intercepts = logit(np.clip(self.rates, _MIN_RATE, 1 - _MIN_RATE))

    def copied(self, rates: Floats) -> MissingnessModel:
        """Return a copy with other missing rates. Learning changes the copy only."""
        always, slopes, odds = dict(self.always), dict(self.slopes), dict(self.odds)
        return replace(self, rates=rates, always=always, slopes=slopes, odds=odds)

    def restricted_to(self, attributes: Sequence[int]) -> MissingnessModel:
        """Return the model of some attributes, in order, without the effects of all others.

        An attribute that loses an effect has the usual rate where its other effects are 0.
        """
        from scipy.special import logit

        place = {a: i for i, a in enumerate(attributes)}
        loses = {effect[0] for effect in self.slopes if not place.keys() >= {*effect}}
        usual = logit(np.clip(self.rates, _MIN_RATE, 1 - _MIN_RATE))
        intercepts = np.where([a in loses for a in range(len(usual))], usual, self.intercepts)

        def selected(terms: Mapping[Any, Any]) -> dict[Any, Any]:
            inside = {key: term for key, term in terms.items() if place.keys() >= {*key}}
            return {tuple(place[a] for a in key): term for key, term in inside.items()}

        implied_by = {
            place[a]: tuple(place[b] for b in by if b in place)
            for a, by in self.implied_by.items()
            if a in place
        }
        return MissingnessModel(
            self.rates[[*attributes]],
            {place[a]: level for a, level in self.always.items() if a in place},
            implied_by,
            selected(self.slopes),
            selected(self.odds),
            tuple(selected(dict.fromkeys(self.evident))),
            intercepts[[*attributes]],
            tuple(self.sets[a] for a in attributes),
        )

    @property
    def present(self) -> Flags:
        """Flags of attributes with missing cells, shape ``(d,)``."""
        return np.asarray(self.rates > 0)

    def missing(self, rows: Ints, attributes: Iterable[int] | None = None) -> Floats:
        """Return the probability that each cell of complete rows is missing.

        Parameters
        ----------
        rows : ndarray of int64, shape (n, d)
            The complete rows.
        attributes : iterable of int, optional
            Attributes that are needed. By default all.

        Returns
        -------
        ndarray of float64, shape (n, d)
            NaN for attributes that are neither needed nor determine one that is.
        """
        from scipy.special import expit

        every = {*range(rows.shape[1])}
        needed = every
        if attributes is not None:
            needed = {b for a in attributes for b in (a, *self.ancestors(a))}
        usual = np.where(self.present, expit(self.intercepts), 0.0)
        usual[[*(every - needed)]] = np.nan
        out = np.empty(rows.shape, order="F")
        out[:] = usual
        for a in needed & {effect[0] for effect in self.slopes}:  # most attributes have no slopes
            if self.present[a]:
                out[:, a] = expit(self._logits(a, rows))
        for a in TopologicalSorter({a: self._determining(a) for a in self.always}).static_order():
            if a in self.always and a in needed:
                level = np.flatnonzero(rows[:, a] == self.always[a])
                out[level, a] = 1 - self.observed(rows, self._determining(a), out, at=level)
        return out

    def observed(
        self, rows: Ints, clique: Sequence[int], missing: Floats, *, at: Ints | None = None
    ) -> Floats:
        """Return the probability that all cells of a clique are observed, shape ``(n,)``.

        In a clique of more than two dependent attributes, each depends on one earlier attribute
        only.

        Parameters
        ----------
        rows : ndarray of int64, shape (n, d)
            The complete rows.
        clique : sequence of int
            The attributes.
        missing : ndarray of float64, shape (n, d)
            Probability that each cell is missing: see `missing`.
        at : ndarray of int64, optional
            Positions of some rows. By default all rows.

        Returns
        -------
        ndarray of float64, shape (n,) or that of ``at``
            A probability for each row.
        """
        chosen: Any = slice(None) if at is None else at
        if len(clique) == 2 and self._are_independent(*clique):  # most pairs
            one, other = clique
            return np.asarray((1 - missing[chosen, one]) * (1 - missing[chosen, other]))
        chance = np.ones(len(rows) if at is None else len(at))
        for a, before, dependence in self._order(clique, rules=True):
            observed = 1 - missing[chosen, a]
            if dependence:
                last = 1 - missing[chosen, before]
                together = self.both(rows, a, before, missing, at=at)
                neither = observed - missing[chosen, before] + together
                observed = np.clip(neither / np.maximum(last, _MIN_RATE), 0.0, 1.0)
            chance *= observed
        return chance

    def both(
        self, rows: Ints, a: int, b: int, missing: Floats, *, at: Ints | None = None
    ) -> Floats:
        """Return the probability that two attributes are both missing, shape ``(n,)``.

        Parameters
        ----------
        rows : ndarray of int64, shape (n, d)
            The complete rows.
        a, b : int
            The attributes.
        missing : ndarray of float64, shape (n, d)
            Probability that each cell is missing: see `missing`.
        at : ndarray of int64, optional
            Positions of some rows. By default all rows.

        Returns
        -------
        ndarray of float64, shape (n,) or that of ``at``
            A probability for each row.
        """
        chosen: Any = slice(None) if at is None else at
        if a == b:
            return np.asarray(missing[chosen, a])
        p, q = missing[chosen, a], missing[chosen, b]
        chance = joint_chance(p, q, self.odds.get(_pair(a, b), 0.0))
        for one, other in ((a, b), (b, a)):
            if determining := self._determining(one):
                # Positions, since copies of wide rows are slow.
                level = np.flatnonzero(rows[chosen, one] == self.always[one])
                some = level if at is None else at[level]
                theirs = missing[some, other]
                none = np.ones(len(some))  # no determining attribute is missing
                for c in determining:
                    together = self.both(rows, c, other, missing, at=some)
                    none *= 1 - together / np.maximum(theirs, _MIN_RATE)
                chance[level] = theirs * (1 - none)
        return chance

    def draw(self, rows: Ints, rng: np.random.Generator) -> Flags:
        """Draw masks for complete rows. True is missing."""
        uniforms, missing = rng.random(rows.shape), self.missing(rows)
        drawn = np.asarray(uniforms < missing)
        for a, before, dependence in self._order(range(rows.shape[1])):
            if dependence:
                both, other_missing = self.both(rows, a, before, missing), missing[:, before]
                where = both / np.maximum(other_missing, _MIN_RATE)
                elsewhere = (missing[:, a] - both) / np.maximum(1 - other_missing, _MIN_RATE)
                drawn[:, a] = uniforms[:, a] < np.where(drawn[:, before], where, elsewhere)
            if determining := self._determining(a):
                level = rows[:, a] == self.always[a]
                drawn[level, a] = drawn[np.ix_(level, determining)].any(axis=1)
        return drawn

    def learn(
        self,
        rows: Ints,
        n_rows: float,
        tables: Mapping[Clique, RatesByLevel],
        *,
        both: CountsOfBoth,
        ridge: float,
        sweeps: int,
        start: bool = False,
    ) -> None:
        """Fit the parameters to the released tables, given rows of the model of complete rows.

        Each sweep takes a damped, clipped Newton step on every parameter of the penalised
        likelihood. The penalty ``ridge · std`` lets a slope of one leave ``ridge`` standard
        deviations unexplained. Tables without evidence of selection have no slope, so noise alone
        does not look like selective missingness.

        Parameters
        ----------
        rows : ndarray of int64, shape (n, d)
            Rows of the model of complete rows.
        n_rows : float
            Released number of rows.
        tables : mapping of tuple of int to RatesByLevel
            Missing rates of the first attribute by levels of the others.
        both : mapping of (int, int) to (float, float)
            Released number of rows in which both are missing, and its noise.
        ridge : float
            Strength of the penalty.
        sweeps : int
            Number of sweeps.
        start : bool, default False
            Whether joint missingness is fitted first, without slopes.
        """
        rows = np.asfortranarray(rows)  # columns are contiguous
        # A rule decides about the missing cells of an attribute that others determine.
        free = {pair: of for pair, of in both.items() if not any(map(self._determining, pair))}
        self.sets = sets_missing_together(self.rates, free, n_rows)
        both = {**both, **counts_by_sets(self.rates, free, n_rows, self.sets)}
        if start:
            for _ in range(_MATCHING):
                self._match_rates(self.missing(rows))
            self._doubt_levels(rows, both, n_rows)
            self.fit_odds_ratios(rows, both, n_rows)
        tables = self._share_tables(tables)
        excess = {
            (a, b): abs(both[a, b][0] - n_rows * self.rates[a] * self.rates[b])
            for a, b in self.evident
        }
        explained = {e for e in tables if self._is_explained_by_masks(e, tables, excess)}
        tables = {e: table for e, table in tables.items() if e not in explained}
        self.slopes = {e: slope for e, slope in self.slopes.items() if e in tables}
        self._copy_slopes()
        # The mean over a set is clear about many attributes that depend on each other. With a
        # penalty of its smaller noise, their slopes would be large and offset each other.
        ridges = ridge * np.sqrt(np.bincount(self.sets))
        moving, cells = dict[int, dict[Clique, RatesByLevel]](), dict[Clique, Ints]()
        for effect, table in tables.items():
            has_slope = table.selective or effect in self.slopes
            if has_slope and self.present[effect[0]]:
                moving.setdefault(effect[0], {})[effect] = table
                if effect[1:] not in cells:
                    cells[effect[1:]] = cell_index(rows.T, effect[1:], table.shape, len(rows))
        for _ in range(sweeps):
            missing = self.missing(rows)
            self._match_rates(missing)
            for a, effects in moving.items():
                per_row, mine = n_rows / max(1, len(rows)), float(ridges[a])
                self._learn_one(a, effects, rows, cells, missing, per_row, mine)
            self._copy_slopes()
        self.fit_odds_ratios(rows, both, n_rows)

    def fit_odds_ratios(self, rows: Ints, both: CountsOfBoth, n_rows: float) -> None:
        """Fit odds ratios to the released numbers of rows in which two attributes are missing.

        Parameters
        ----------
        rows : ndarray of int64, shape (n, d)
            Rows of the model of complete rows.
        both : mapping of (int, int) to (float, float)
            Released number of rows in which both are missing, and its noise.
        n_rows : float
            Released number of rows.
        """
        rows, some = rows[:: max(1, len(rows) // _MAX_ROWS)], self.present
        pairs = [(a, b) for a, b in both if some[a] and some[b] and len(rows)]
        self.odds, self.evident, missing = {}, (), self.missing(rows)
        if not pairs:
            return
        counts, stds = np.array([both[pair] for pair in pairs]).T / n_rows
        spread, at = np.sqrt(missing * (1 - missing)), tuple(np.array(pairs).T)
        scale = np.maximum(_MIN_RATE, (spread.T @ spread)[at] / len(rows))
        expected = (missing.T @ missing)[at] / len(rows)
        ruled = [i for i, pair in enumerate(pairs) if any(map(self._determining, pair))]
        for i in ruled:
            expected[i] = self.both(rows, *pairs[i], missing).mean()
        noise = np.sqrt(stds**2 + np.maximum(expected * (1 - expected) / n_rows, _MIN_RATE**2))
        correlations = shrunk((counts - expected) / scale, noise / scale)
        targets, together = expected + correlations * scale, np.flatnonzero(correlations).tolist()
        # Pairs with rules depend on other pairs, which come first.
        groups = [[i for i in together if i not in ruled], *([i] for i in together if i in ruled)]
        for group in groups:
            for start in range(0, len(group), _BLOCK):
                block = group[start : start + _BLOCK]
                self._fit_odds(rows, [pairs[i] for i in block], missing, targets[block])
        evident = np.flatnonzero(np.abs(counts - expected) > EVIDENCE * noise)
        self.evident = tuple(pairs[i] for i in evident)

    def _share_tables(self, tables: Mapping[Clique, RatesByLevel]) -> dict[Clique, RatesByLevel]:
        """Return tables in which the first attribute of each set stands for all of its set.

        Its tables are means over the set, whose noise is smaller. An effect that a rule relates to
        one attribute of the set is no effect of the set.
        """
        members, ruled = dict[Clique, list[RatesByLevel]](), set[Clique]()
        for (a, *others), table in tables.items():
            first = self.sets[a]
            if self._is_ruled((a, *others)):
                ruled.add((first, *others))
            if all(self.sets[b] != first for b in others):
                members.setdefault((first, *others), []).append(table)
        return {e: mean_rates(theirs) for e, theirs in members.items() if e not in ruled}

    def _copy_slopes(self) -> None:
        """Give all attributes of a set the slopes of the first one.

        Attributes with different chances given a row cannot be missing together as often.
        """
        members = dict[int, list[int]]()
        for a, first in enumerate(self.sets):
            members.setdefault(first, []).append(a)
        firsts = {effect: slope for effect, slope in self.slopes.items() if effect[0] in members}
        self.slopes = {(a, *e[1:]): s for e, s in firsts.items() for a in members[e[0]]}

    def _doubt_levels(self, rows: Ints, both: CountsOfBoth, n_rows: float) -> None:
        """Drop levels that are never missing if two are missing together more than they allow."""
        missing = self.missing(rows)
        for pair in self.evident:
            count, std = both[pair]
            expected = n_rows * float(self.both(rows, *pair, missing).mean())
            noise = EVIDENCE * math.hypot(std, math.sqrt(expected))
            if count - expected > max(noise, _FORM * expected):
                for a in {*pair} - {*self.implied_by}:
                    self.always.pop(a, None)

    def _fit_odds(
        self, rows: Ints, pairs: Sequence[tuple[int, int]], missing: Floats, targets: Floats
    ) -> None:
        """Solve for the odds ratios of pairs that are missing together in a share of the rows."""
        one, other = np.array(pairs).T
        p, q, total = missing[:, one], missing[:, other], targets * len(rows)
        for k, pair in enumerate(pairs):
            for a in filter(self._determining, pair):  # rules determine rows at one level
                level = np.flatnonzero(rows[:, a] == self.always[a])
                total[k] -= self.both(rows, *pair, missing, at=level).sum()
                p[level, k] = 0.0
        self.odds |= zip(pairs, log_odds_of_joint(p, q, total).tolist(), strict=True)

    def _order(
        self, attributes: Sequence[int], *, rules: bool = False
    ) -> list[tuple[int, int, float]]:
        """Order attributes after their determining ones, each with its most dependent earlier one.

        The result has the edges of a spanning forest of the largest correlations (Prim 1957). Edges
        inside of a set come first. The last number is 0 if an attribute depends on none.
        """
        best, order = dict.fromkeys(attributes, (0.0, -1)), list[tuple[int, int, float]]()
        while best:
            ready = [a for a in best if not best.keys() & {*self._determining(a)}]
            a = max(ready, key=lambda one: best[one][0])
            dependence, before = best.pop(a)
            order.append((a, before, dependence))
            for other in best:
                together = float(self.sets[a] == self.sets[other])
                best[other] = max(
                    best[other], (together + self._dependence(a, other, rules=rules), a)
                )
        return order

    def _dependence(self, a: int, b: int, *, rules: bool) -> float:
        if rules and self._is_ruled((a, b)):
            return math.inf
        if _pair(a, b) not in self.odds:
            return 0.0
        p, q = self.rates[[a, b]]
        both = joint_chance(p, q, self.odds[_pair(a, b)])
        return float(abs(both - p * q) / max(_MIN_RATE, math.sqrt(p * (1 - p) * q * (1 - q))))

    def _are_independent(self, a: int, b: int) -> bool:
        """Return whether the masks of two attributes are independent given the row."""
        is_ruled = bool(self.implied_by) and self._is_ruled((a, b))
        return _pair(a, b) not in self.odds and not is_ruled

    def _determining(self, a: int) -> tuple[int, ...]:
        return self.implied_by.get(a, ()) if a in self.always and self.present[a] else ()

    def _is_explained_by_masks(
        self,
        effect: Clique,
        tables: Mapping[Clique, RatesByLevel],
        excess: Mapping[tuple[int, int], float],
    ) -> bool:
        """Return whether dependent masks could explain different rates by levels of the others.

        Dependent masks shift at most as many rows as are missing together, or apart, beyond chance.
        If two attributes are missing apart, only the effect with less evidence is dropped.
        """
        a, rows = effect[0], tables[effect].selected_rows
        tied = [b for b in effect[1:] if rows <= excess.get(_pair(a, b), -1.0)]
        apart = len(effect) == 2 and all(self.odds[_pair(a, b)] < _APART for b in tied)
        back = tables.get((self.sets[effect[1]], a))
        weaker = back is not None and back.evidence > tables[effect].evidence
        return bool(tied and (weaker or not apart))

    def _is_ruled(self, effect: Clique) -> bool:
        """Return whether rules relate the mask of the first attribute to the mask of another."""
        first, *others = ({a, *self.ancestors(a)} for a in effect)
        return any(first & other for other in others)

    def ancestors(self, a: int) -> set[int]:
        """Return the attributes that determine by rules, also by steps, whether one applies."""
        return {b for c in self.implied_by.get(a, ()) for b in (c, *self.ancestors(c))}

    def _logits(self, a: int, rows: Ints) -> Floats:
        logits = np.full(len(rows), self.intercepts[a])
        for effect, slope in self.slopes.items():
            if effect[0] == a:
                logits += slope[tuple(rows[:, b] for b in effect[1:])]
        return logits

    def _match_rates(self, missing: Floats) -> None:
        gap = self.rates - missing.mean(axis=0)
        curvature = np.maximum((missing * (1 - missing)).mean(axis=0), 1e-3)
        self.intercepts = self.intercepts + np.where(
            self.present, np.clip(gap / curvature, -_MAX_STEP, _MAX_STEP), 0.0
        )

    def _learn_one(
        self,
        a: int,
        tables: Mapping[Clique, RatesByLevel],
        rows: Ints,
        cells: Mapping[Clique, Ints],
        missing: Floats,
        per_row: float,
        ridge: float,
    ) -> None:
        """Update the slopes of one attribute, one effect after another."""
        from scipy.special import expit

        logits, level = self._logits(a, rows), rows[:, a] == self.always.get(a, -1)
        for effect, table in tables.items():
            slope = self.slopes.get(effect, np.zeros(table.shape)).ravel()
            if table.selective:
                chance = np.where(level, missing[:, a], expit(logits))
                observed = per_row * np.asarray(math.prod(1 - missing[:, b] for b in effect[1:]))
                step = _step(chance, cells[effect[1:]], observed, table, ridge, slope)
                self.slopes[effect] = (slope + step).reshape(table.shape)
            else:
                step = -slope
                self.slopes.pop(effect, None)
            logits += step[cells[effect[1:]]]


def _pair(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


def _step(
    chance: Floats, codes: Ints, observed: Floats, table: RatesByLevel, ridge: float, slope: Floats
) -> Floats:
    """Return a clipped, damped Newton step of a slope.

    Rates and not counts are matched, so that errors of the model in the predictor's marginal do not
    look like selective missingness. Only their shape is matched, because their level also depends
    on joint missingness.
    """
    levels = len(slope)
    expected = np.bincount(codes, weights=observed * chance, minlength=levels)
    curvature = np.bincount(codes, weights=observed * chance * (1 - chance), minlength=levels)
    aim = table.rates * np.bincount(codes, weights=observed, minlength=levels)
    if aim.sum() <= 0:
        return np.zeros(levels)
    aim *= expected.sum() / aim.sum()
    penalty = ridge * table.std
    step = (aim - expected - penalty * slope) / (curvature + penalty + 1e-9)
    return np.asarray(np.clip(_DAMPING * step, -_MAX_STEP, _MAX_STEP))
