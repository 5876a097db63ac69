"""How numbers lie inside the bins that a model released, and what noise may hide beyond them.

Everything here is a function of released values and public facts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from missdp.accounting import GaussianEvent, LaplaceEvent
from missdp.schema import Numeric
from missdp.schema.layout import STEPS
from missdp.synth.base import Synthesizer
from missdp.synth.coordinates import Coordinate
from missdp.types import Flags, Floats, Ints

_POINTS = 128  # values that stand for what lies inside a bin
_NOTHING = 1e-5  # of the rows: a piece in which none were found
_LEAST_SHARE, _LEAST_WEIGHT = 1e-9, 0.1
_FURTHER = 16  # intervals beyond that are reckoned with: those that may move means most
_FAR = 100.0  # times as far from the middle as where rows were found; further out is flagged only
_TREE = 4.0  # times the noise of a count: what does not stand out is moved, and errors add up
_MOST_TAKEN = 0.9  # of a bin
_DECAY = 1.5  # power with which rows beyond are usually fewer, the further out
_USUAL = 0.5  # as many rows beyond, on either side, times the noise of a count
_SURELY, _LARGEST = 10.0, 0.4  # a tail with this times the noise, at most this share, is known
_LEAST_STEP, _LONGEST = 0.01, 50.0  # of logarithms of distances, so that all stays finite
_GROWS = 1e-6, 1.0  # by how much more a tail falls: not at all, and as exponential ones do
_SPIKE = 0.002, 0.5  # chance that an interval beyond has as many rows as its count can hide:
_HEAVY = 8.0, 16.0  # least and most, by how many quartiles from the median the reach ends
_LOWEST = -8.0  # standard deviations: with a mean below, what is above 0 is exponential
_CHAINS, _TURNS = 200, 150  # draws of what is beyond, and turns of the sampler
_PART = 1.0  # how far rows beyond may lie towards either end of their interval
_APART = 0.5, 1.0  # how much these may differ from the bin beside, in standard deviations of
# others: as many as are usual, and more
_FURTHEST = 1e-6  # rank from either end
_HIDE = 1.645  # standard deviations above what counts and sums tell: 95 %
_HARDLY = 1.5  # standard deviations: of smaller bins it is not known how values lie in them


def numbers(attribute: Numeric) -> Floats:
    """Return values that stand for each code alike, shape ``(codes, points)``."""
    places = np.tile((np.arange(_POINTS) + 0.5) / _POINTS, attribute.size)
    codes = np.repeat(np.arange(attribute.size), _POINTS)
    return attribute.decode(codes, places).reshape(attribute.size, _POINTS)


def counted(model: Synthesizer, name: str) -> Numeric:
    """Return a number whose values lie as they were counted, with nothing where noise hides rows.

    What moments of numbers tell of these is taken into account by `Inside`, with how unsure it is.
    """
    attribute = model.schema_[name]
    assert isinstance(attribute, Numeric)
    if attribute.pieces is None or attribute.shares is None:
        return attribute
    low, high = model.fitted_.tails.get(name, np.zeros((0, 4))).T[:2]
    above = low + high > 2 * _median(attribute)
    pieces = np.asarray(attribute.pieces)
    middle = (pieces[1:] + pieces[:-1]) / 2
    # Intervals of whole numbers end before the next one begins: all that is further out is beyond.
    first = min(low[above], default=math.inf)
    last = max(high[~above], default=-math.inf)
    hidden = (middle <= last) | (middle >= first)
    shares = np.where(hidden, 0.0, attribute.shares)
    of = np.searchsorted(attribute.edges or (), pieces[:-1], side="right")
    known = np.bincount(of, shares)[of] > 0  # a bin that is hidden as a whole has rows all the same
    return replace(attribute, shares=tuple(np.where(known, shares, attribute.shares).tolist()))


def reach(attribute: Numeric) -> tuple[float, float]:
    """Return the ends of where values were found, if bins were; else the bounds."""
    if attribute.pieces is None or attribute.shares is None:
        return attribute.lower, attribute.upper
    known = np.flatnonzero(np.array(attribute.shares) > _NOTHING)
    found = [*attribute.spikes]
    if known.size:
        found += [attribute.pieces[known[0]], attribute.pieces[known[-1] + 1]]
    return (min(found), max(found)) if found else (attribute.lower, attribute.upper)


@dataclass(frozen=True, eq=False)
class Beyond:
    """Intervals beyond the reach of a number, in which noise may hide rows.

    On either side as many rows as the noise of a count are usual, three times fewer twice as far
    from the middle, or more if the tail that was found goes on as it falls: see `_tail`. The prior
    of an interval is exponential, with this mean. With some chance there is a spike, whose mean is
    the noise of its own count: one in 500, and up to one half where numbers have a long tail
    already as far as they were found.
    """

    home: Ints  # (k,): the bin that each interval lies in
    above: Flags  # on which side of the reach
    points: Floats  # (k, points): values that stand for it
    counts: Floats  # noisy number of rows
    noise: Floats
    usual: Floats

    @classmethod
    def of(cls, model: Synthesizer, attribute: Numeric) -> Self:
        """Return those of an attribute that may move its mean most."""
        known = model.fitted_.tails.get(attribute.name, np.zeros((0, 4)))
        low, high = reach(attribute)
        middle = _median(attribute) if len(known) else low
        far = middle + _FAR * (np.array([low, high]) - middle)
        near = (known[:, 1] > far[0]) & (known[:, 0] < far[1])
        centre = known[:, :2].mean(axis=1)
        known = known[near & ((centre < low) | (centre > high))]
        ends, (counts, noise) = np.clip(known[:, :2], *far), known[:, 2:].T
        above = ends.mean(axis=1) > middle
        scale = np.maximum(np.where(above, high - middle, middle - low), _LEAST_SHARE)
        near, away = np.sort(np.abs(ends - middle) / scale[:, None], axis=1).T
        near, away = np.maximum(near, 1.0) ** -_DECAY, np.maximum(away, 1.0) ** -_DECAY
        of_side = np.array([(near - away)[above].sum(), (near - away)[~above].sum()])
        part = (near - away) / np.maximum(np.where(above, *of_side), _LEAST_SHARE)
        off = np.abs(ends.mean(axis=1) - np.where(above, high, low))
        usual = np.maximum(_USUAL * noise * part, _LEAST_SHARE)
        most = np.sort(np.argsort(-(usual + _SPIKE[0] * noise) * off)[:_FURTHER])
        places = (np.arange(_POINTS) + 0.5) / _POINTS
        steps = (near[:, None] - places * (near - away)[:, None])[most] ** (-1 / _DECAY)
        points = middle + np.where(above, scale, -scale)[most, None] * steps
        home = attribute.encode_values(np.clip(ends.mean(axis=1), attribute.lower, attribute.upper))
        return cls(home[most], above[most], points, counts[most], noise[most], usual[most])

    def falling(self, values: Floats, margin: Floats, rows: float) -> Self:
        """Return the same, if the tails of values in bins go on as they were found to fall."""
        shares = np.maximum(margin[: len(values)], 0.0)
        if not (len(self.home) and shares.any()):
            return self
        order, points = np.argsort(values, axis=None, kind="stable"), values.shape[1]
        values, mass = values.ravel()[order], (np.repeat(shares, points) / points)[order]
        mass, usual = mass / mass.sum(), self.usual.copy()
        middle = values[min(int(np.searchsorted(np.cumsum(mass), 0.5)), len(mass) - 1)]
        least = _SURELY * float(np.median(self.noise)) / max(rows, 1.0)
        for side, off, tail in (
            (self.above, (values - middle)[::-1], np.cumsum(mass[::-1])),
            (~self.above, middle - values, np.cumsum(mass)),
        ):
            ends = np.abs(self.points[side][:, [0, -1]] - middle)
            usual[side] = np.maximum(usual[side], rows * _tail(off, tail, ends, least))
        return replace(self, usual=usual)

    def drawn(self, effects: Floats, lacking: Floats, spread: Floats, chances: Floats) -> Floats:
        """Draw numbers of rows, given counts and sums: Gibbs sampling, shape ``(draws, k)``.

        ``effects`` are what one row in each interval adds to the sums, ``lacking`` what was
        released of them beyond what is known of other rows, with its covariance ``spread``;
        ``chances`` are those of spikes.
        """
        rng = np.random.default_rng(3)  # public: draws tell how numbers vary
        weighed = np.linalg.solve(spread, effects).T if len(lacking) else effects.T
        precision = weighed @ effects + np.diag(self.noise**-2)
        pull = weighed @ lacking + self.counts / self.noise**2
        rows = np.maximum(rng.normal(self.counts, self.noise, (_CHAINS, len(pull))), 0.0)
        rates = np.stack([1 / self.usual, 1 / np.maximum(self.usual, self.noise)])[:, :, None]
        for _ in range(_TURNS if len(pull) else 0):
            for at, own in enumerate(np.diag(precision)):
                others = rows @ precision[at] - rows[:, at] * own
                scores = (pull[at] - rates[:, at] - others) / math.sqrt(own)
                rows[:, at] = _either(scores, rates[:, at], chances[at], rng) / math.sqrt(own)
        return rows


def _either(scores: Floats, rates: Floats, chance: float, rng: np.random.Generator) -> Floats:
    """Draw normal numbers above 0, given one of two exponential priors, the other by chance."""
    from scipy.special import expit, log_ndtr, logit, ndtr, ndtri

    log = np.log(rates) + np.square(scores) / 2 + log_ndtr(scores)
    spike = rng.random(scores.shape[1]) < expit(log[1] - log[0] + logit(chance))
    at, place = np.where(spike, scores[1], scores[0]), 1 - rng.random(len(spike))
    near = np.maximum(at, _LOWEST)
    normal, exponential = near - ndtri(place * ndtr(near)), np.log(place) / np.minimum(at, -1.0)
    return np.asarray(np.maximum(np.where(at < _LOWEST, exponential, normal), 0.0))


def _tail(off: Floats, shares: Floats, ends: Floats, least: float) -> Floats:
    """Return the share of rows between two distances from the middle, shape ``(k, 2)``.

    Beyond each distance ``off`` there are ``shares``, which tell where there are ``least``, twice
    and four times as much. By how many powers of two a tail falls while distances grow by a factor
    of e is constant for a power law; with lighter tails it grows, and goes on growing alike.
    """
    wanted = least * np.array([1.0, 2.0, 4.0])
    found = off[np.minimum(np.searchsorted(shares, wanted), len(off) - 1)]
    if wanted[-1] > _LARGEST or found[-1] <= 0:
        return np.zeros(len(ends))
    falls = 1 / np.maximum(-np.diff(np.log(found)), _LEAST_STEP)
    grows = float(np.clip(falls[0] - falls[1], *_GROWS))
    further = np.log(np.maximum(ends / found[0], 1.0))
    halved = (falls[0] + grows / 2) * np.expm1(np.minimum(grows * further, _LONGEST)) / grows
    return np.asarray(-np.diff(least * 2.0**-halved, axis=1)[:, 0])


def _median(attribute: Numeric) -> float:
    """Return about where the middle of the values is, as the bins tell: they have equal mass."""
    return float(np.median(numbers(attribute)))


@dataclass(frozen=True, eq=False)
class Move:
    """A draw of how the values of a number lie."""

    weights: Floats  # (codes, points): of each value in its code; add up to 1
    hidden: Floats  # (k,): share of all rows in each interval beyond
    spread: Floats  # (k,): how much that varies between groups
    margin: Floats | float = 0.0  # (codes,): by how much shares of bins differ from those counted


def found_alone(number: Coordinate) -> Floats:
    """Return what sums are released of, by finer code: ``z``, the number, and its square less 1."""
    line, square = number.powers
    return np.stack([number.z, line, square - 1.0])


@dataclass(frozen=True, eq=False)
class Sums:
    """What was released of a number beside its bins, of rows in which it is observed."""

    number: Coordinate
    left: Floats  # of rows with each finer code, when whole rows are clipped: far out, less
    means: Floats  # of ``z``, the number clipped far out, its square less 1, as far as left
    stds: Floats  # the noise of these
    law: Floats  # share of each bin
    law_std: float  # noise of each

    def at(self, points: Floats) -> Floats:
        """Return what the means are of, at numbers: shape ``(3, *points.shape)``."""
        order = np.argsort(self.number.values, kind="stable")
        values = self.number.values[order]
        code = order[np.searchsorted((values[1:] + values[:-1]) / 2, points)]
        return np.asarray(found_alone(self.number) * self.left)[:, code]


@dataclass(frozen=True, eq=False)
class Inside:
    """How the values of a number lie inside its bins, and how sure that is.

    Intervals in which rows may be hidden are further codes, after those of the attribute.
    """

    piece: Ints  # (codes, points): the piece of the released tree in which each point lies
    shares: Floats  # (codes,)
    n_rows: float
    seen: float  # share of the rows in which the number is observed
    std: float  # noise of a piece, as a share of the rows; 0 if bins are declared
    beyond: Beyond
    points: Floats  # (codes, points)
    sums: Sums | None = None  # which tell more of pieces, and rows beyond, than their counts
    design: float = 1.0  # by how much sums over rows vary more than if these were independent

    @classmethod
    def of(
        cls,
        model: Synthesizer,
        at: int,
        margin: Floats,
        *,
        n_rows: float,
        holes: Flags,
        sums: Sums | None = None,
    ) -> Self:
        """Return that of a numeric attribute of a model, whose margin is estimated like this."""
        attribute = counted(model, model.modelled_.names[at])
        points = numbers(attribute)
        piece = np.searchsorted(attribute.pieces or (), points, side="right")
        log = [e for whole in model.guarantee_.events for e in getattr(whole, "log", ())]
        trees = [
            _std(e) / (STEPS if e.sensitivity >= STEPS else 1)  # of rows that count by weights
            for e in log
            if e.label == f"tree {attribute.name}"
        ]
        seen = max(1 - float(holes.mean()), _LEAST_WEIGHT)
        std = _TREE * trees[-1] / (n_rows * seen) if trees and attribute.pieces else 0.0
        shares = np.maximum(margin[: attribute.size], max(_LEAST_SHARE, _HARDLY * std))
        if sums is not None:
            # Where it is not applicable, its square less 1 was added, too, and is no number's.
            others = np.array([0.0, 0.0, sums.law[attribute.size :].sum()])
            sums = replace(sums, law=sums.law[: attribute.size], means=sums.means + others)
        beyond = Beyond.of(model, attribute).falling(points, margin, n_rows * seen)
        return cls(piece, shares, n_rows, seen, std, beyond, points, sums, model.fitted_.design)

    @property
    def noise(self) -> float:
        """Standard deviation of a count, as a share of rows; 0 if bins are declared."""
        return self.std / _TREE

    @property
    def values(self) -> Floats:
        """Values that stand for each code, hidden rows included."""
        return np.concatenate([self.points, self.beyond.points])

    @property
    def home(self) -> Ints:
        """The bin that each code lies in."""
        return np.append(np.arange(len(self.shares)), self.beyond.home)

    @cached_property
    def even(self) -> Move:
        """As released."""
        return self._given(self._hidden.mean(axis=0))

    def _given(self, hidden: Floats) -> Move:
        return self._moved(self._gain @ self._lacking(hidden), hidden)

    @cached_property
    def most(self) -> tuple[Move, float, float] | None:
        """As many rows as noise can hide where they move means most, their number, and where."""
        beyond, rows, known = self.beyond, self.n_rows * self.seen, self.even.hidden
        if not len(known):
            return None
        effects = self._effects[1] / rows
        weighed = np.linalg.solve(self._spread, effects).T if self.sums else effects.T
        precision = np.diag(weighed @ effects) + beyond.noise**-2
        pull = weighed @ self._lacking(known) + (beyond.counts - known * rows) / beyond.noise**2
        found = np.maximum(known * rows + pull / precision, 0.0) + _HIDE / np.sqrt(precision)
        near = self.points[beyond.home, np.where(beyond.above, -1, 0)]
        k = int(np.argmax((found - known * rows) * np.abs(beyond.points.mean(axis=1) - near)))
        hidden = np.where(np.arange(len(known)) == k, np.maximum(known, found / rows), known)
        return self._given(hidden), float(found[k]), float(beyond.points[k].mean())

    def noisy(self, rng: np.random.Generator, off: Floats) -> Move:
        """Return another draw of the noise in each piece, and beyond all of them.

        ``off`` is by how much the margin of the same draw differs from that which was released.
        """
        hidden, size = self._hidden[rng.integers(len(self._hidden))], len(self.shares)
        unsure = self._unsure[:-size]
        prior = np.append(rng.normal(size=len(unsure)) * unsure, off[:size])
        noise = 0.0 if self.sums is None else self.sums.stds * rng.normal(size=3)
        update = self._gain @ (self._lacking(hidden) + noise - self._effects[0] @ prior)
        prior[-size:] = 0.0  # these are in the margin already
        found = self._moved(prior + update, hidden)
        # Where rows lie in an interval beyond is not known: between its lower and its upper part.
        points = self.piece.shape[1]
        slope = _PART * (2 * (np.arange(points) + 0.5) / points - 1)
        found.weights[size:] += rng.normal(size=(len(hidden), 1)) * slope / points
        usual = np.minimum(hidden, self.beyond.usual / (self.n_rows * self.seen))
        return replace(found, spread=_APART[0] * usual + _APART[1] * (hidden - usual))

    @cached_property
    def _hidden(self) -> Floats:
        """Draws of the share of rows in each interval beyond, given counts and sums."""
        rows = self.n_rows * self.seen
        further = self._effects[1]
        none = np.zeros(further.shape[1])
        drawn = self.beyond.drawn(further / rows, self._lacking(none), self._spread, self._spikes)
        return drawn / rows

    @property
    def _spread(self) -> Floats:
        """Covariance of what sums lack by all but the rows beyond."""
        spread = self._effects[0] * self._unsure
        stds = np.zeros(0) if self.sums is None else self.sums.stds
        return np.asarray(spread @ spread.T + np.diag(np.square(stds)))

    @property
    def _spikes(self) -> Floats:
        """Chance of a spike in each interval beyond, by how long the tail is that was found."""
        order = np.argsort(self.points, axis=None, kind="stable")
        mass = np.cumsum(np.repeat(self.shares, self.points.shape[1])[order])
        found = self.points.ravel()[order]
        low, middle, high = found[np.searchsorted(mass, mass[-1] * np.array([0.25, 0.5, 0.75]))]
        ends = np.where(self.beyond.above, found[-1], found[0]) - middle
        near = np.where(self.beyond.above, high, low) - middle
        long = np.abs(ends) / np.maximum(np.abs(near), _LEAST_SHARE)
        return np.asarray(np.interp(long, _HEAVY, _SPIKE))

    @cached_property
    def _unsure(self) -> Floats:
        """How unsure masses are by counts: those of pieces, and those of bins."""
        pieces = np.full(int(self.piece.max()) + 1, self.std)
        of_bins = 0.0 if self.sums is None else self.sums.law_std
        return np.append(pieces, np.full(len(self.shares), of_bins))

    @cached_property
    def _effects(self) -> tuple[Floats, Floats]:
        """What masses of pieces and bins, and those beyond, add to released sums."""
        if self.sums is None:
            return np.zeros((0, len(self._unsure))), np.zeros((0, len(self.beyond.home)))
        found, beyond, law = self.sums.at(self.points), self.beyond, self.sums.law
        means = found.mean(axis=2)
        ends = np.where(beyond.above, found[:, beyond.home, -1], found[:, beyond.home, 0])
        further = self.sums.at(beyond.points).mean(axis=2) - ends
        off = found - means[:, :, None]
        sums = np.stack([np.bincount(self.piece.ravel(), one.ravel()) for one in off])
        pieces = sums / np.maximum(np.bincount(self.piece.ravel()), 1)
        of_bins = means - (means @ law / law.sum())[:, None]
        return np.concatenate([pieces, of_bins], axis=1), further

    def _lacking(self, hidden: Floats) -> Floats:
        """Return what released sums say beside counts, given the rows beyond."""
        if self.sums is None:
            return np.zeros(0)
        means = self.sums.at(self.points).mean(axis=2)
        return np.asarray(self.sums.means - means @ self.sums.law - self._effects[1] @ hidden)

    @cached_property
    def _gain(self) -> Floats:
        """By how much masses move with what sums lack: both have independent errors."""
        if self.sums is None:
            return np.zeros((len(self._unsure), 0))
        spread = self._effects[0] * self._unsure
        return np.asarray((self._unsure[:, None] * spread.T) @ np.linalg.inv(self._spread))

    def _moved(self, change: Floats, hidden: Floats) -> Move:
        """Return pieces and bins with so much more mass, and rows beyond."""
        pieces = len(change) - len(self.shares)
        number = np.bincount(self.piece.ravel())[self.piece]
        moved = change[:pieces][self.piece] / number
        weights = 1 / self.piece.shape[1] + _centred(moved) / self.shares[:, None]
        beyond = self.beyond
        for home, above in {*zip(beyond.home.tolist(), beyond.above.tolist(), strict=True)}:
            taken = hidden[(beyond.home == home) & (beyond.above == above)].sum()
            weights[home] = _without(weights[home], taken / self.shares[home], above=above)
        even = np.full((len(hidden), weights.shape[1]), 1 / weights.shape[1])
        spread = np.zeros(len(hidden))
        return Move(np.concatenate([weights, even]), hidden, spread, change[pieces:])

    def jitter(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return what other rows may be like, to be scaled by their number."""
        hidden = len(self.beyond.home)
        shape = len(self.shares) + hidden, self.piece.shape[1]
        return rng.normal(size=shape), rng.normal(size=hidden)

    def resampled(self, jitter: tuple[Floats, Floats], seen: float) -> Move:
        """Return what other rows would have been like."""
        beyond, even = self.even.hidden, self.even.weights
        share = np.append(self.shares, np.abs(beyond))
        n_rows = self.n_rows / self.design
        rows = np.maximum(n_rows * seen * share, 1.0)[:, None]
        weights = even + _centred(jitter[0] * np.sqrt(np.maximum(even, 0.0) / rows))
        stds = np.sqrt(np.abs(beyond) / seen / n_rows)
        return Move(weights, beyond + jitter[1] * stds, stds, self.even.margin)

    def hiding(self, table: Floats, axis: int, move: Move, rng: np.random.Generator) -> Floats:
        """Return a table in which rows that may be hidden have codes of their own.

        They are taken out of the bins that they were counted in; what other attributes they go with
        is as in these, up to a draw.
        """
        table, home, size = np.moveaxis(table, axis, 0).copy(), self.beyond.home, len(self.shares)
        law = np.maximum(table[home], 0.0).reshape(len(home), math.prod(table.shape[1:]))
        total = law.sum(axis=1, keepdims=True)
        law = np.where(total > 0, law / np.where(total > 0, total, 1.0), 1 / max(1, law.shape[1]))
        draw = np.sqrt(law) * rng.normal(size=law.shape) * move.spread[:, None]
        further = (move.hidden - draw.sum(axis=1))[:, None] * law + draw
        further = further.reshape(len(home), *table.shape[1:])
        np.subtract.at(table, home, further)
        return np.moveaxis(np.concatenate([table[:size], further, table[size:]]), 0, axis)

    def hiding_of(
        self, vector: Floats, margin: Floats, move: Move, rng: np.random.Generator
    ) -> Floats:
        """Return sums of a ``z`` by code in which rows that may be hidden have codes of their own.

        What they add is as in the bins that they were counted in, up to a draw; ``z`` has a
        variance of about 1.
        """
        home, size = self.beyond.home, len(self.shares)
        part = move.hidden / np.maximum(margin[home], _LEAST_WEIGHT / self.n_rows)
        draw = rng.normal(size=len(home)) * move.spread
        further, vector = vector[home] * part + draw, vector.copy()
        np.subtract.at(vector, home, further)
        return np.concatenate([vector[:size], further, vector[size:]])


def _std(event: GaussianEvent | LaplaceEvent) -> float:
    """Return the standard deviation of the noise of an event, in its units."""
    return event.scale * math.sqrt(2) if isinstance(event, LaplaceEvent) else event.sigma


def _centred(change: Floats) -> Floats:
    """Return changes of weights that add up to 0 in each code."""
    return np.asarray(change - change.mean(axis=1, keepdims=True))


def _without(weights: Floats, share: float, *, above: bool) -> Floats:
    """Take a share of increasing values out of a bin, from the outermost on."""
    # As if all had the same weight; where less than nothing is taken, the outermost gets more.
    share, outward = min(share, _MOST_TAKEN), weights[::-1] if above else weights
    place = np.arange(len(weights))
    taken = np.clip(share * len(weights) - place, 0.0, 1.0) / len(weights) if share > 0 else 0.0
    kept = (outward - taken + (place == 0) * max(0.0, -share)) / (1 - share)
    return np.asarray(kept[::-1] if above else kept)


@dataclass(frozen=True, eq=False)
class Lines:
    """How relations to other attributes go on inside bins: straight, in the logit of ranks.

    A table of bins says what goes with a bin, not with the values inside it. These differ, most of
    all far out, where a few rows make most of a covariance.
    """

    off: Floats  # (codes, points): how far each value is from the middle of its bin
    home: Ints  # of each code, its bin: itself, but for rows that are hidden far out
    bins: Ints  # in order, without spikes; then those beside each
    below: Ints
    above: Ints
    gap: Floats  # from the middle of that below to the middle of that above
    least: Floats  # share of a bin by which sums are divided, where a draw of noise leaves less

    @classmethod
    def of(
        cls, points: Floats, inside: Floats, law: Floats, home: Ints, *, noise: float = 0.0
    ) -> Self:
        """Find them, given the values of each code, their weights, and the share of each code.

        ``noise`` is that of the share of a cell. A bin with no more than that has no known rates:
        lines lead from the bin below it to the bin above it.
        """
        size = int(home.max()) + 1
        mass = np.maximum(law, 0.0)[:, None] * np.maximum(inside, 0.0)
        order = np.argsort(points, axis=None, kind="stable")
        sorted_mass = mass.ravel()[order]
        rank: Floats = np.empty(mass.size)
        rank[order] = (np.cumsum(sorted_mass) - sorted_mass / 2) / max(
            sorted_mass.sum(), _LEAST_SHARE
        )
        rank = np.clip(rank, _FURTHEST, 1 - _FURTHEST).reshape(mass.shape)
        score = np.log(rank / (1 - rank))
        total = np.maximum(np.bincount(home, mass.sum(axis=1), size), _LEAST_SHARE)
        middle = np.bincount(home, (mass * score).sum(axis=1), size) / total
        bins = np.flatnonzero((np.ptp(points[:size], axis=1) > 0) & (total > noise))
        bins = bins[np.argsort(middle[bins], kind="stable")]
        below, above = np.append(bins[:1], bins[:-1]), np.append(bins[1:], bins[-1:])
        gap = np.maximum(middle[above] - middle[below], _LEAST_SHARE)
        return cls(score - middle[home][:, None], home, bins, below, above, gap, total / 2)

    def along(self, values: Floats, inside: Floats, law: Floats, *, lean: float) -> Floats:
        """Return what a function of a number counts at each code, in a relation to another one.

        Lines go on beyond the outermost bins; the mean over all codes stays as it is. ``lean`` says
        how steep they are: 1 is as between the bins beside, and 0 leaves the means of bins.
        """
        off, slopes = self._off(inside, law)
        more = (off * values).sum(axis=1) @ slopes
        return np.asarray((inside * values).sum(axis=1) + lean * more)

    def tilted(self, inside: Floats, cells: Floats) -> Floats:
        """Return by how much shares of groups differ from those of their bins, value by value.

        ``cells`` (codes, groups) are shares of all rows. Rates of groups go on inside a bin as they
        do between those beside; the share of each bin stays as it is.
        """
        off, slopes = self._off(inside, cells.sum(axis=1))
        return np.asarray(off[:, :, None] * (slopes @ cells)[:, None, :])

    def _off(self, inside: Floats, law: Floats) -> tuple[Floats, Floats]:
        """Return how far values are from the centre of their bin, by share, and its slopes."""
        times = len(law) // len(self.home)  # rows in which it is missing may be apart
        lies = np.tile(np.eye(len(self.least))[self.home], (times, 1))
        mass, off = law[:, None] * inside, np.tile(self.off, (times, 1))
        total = np.maximum(lies.T @ law, self.least)
        centre = lies.T @ (mass * off).sum(axis=1) / total
        rise = np.zeros((len(total), len(total)))
        rise[self.bins, self.above] = 1 / self.gap / total[self.above]
        rise[self.bins, self.below] -= 1 / self.gap / total[self.below]
        return mass * (off - (lies @ centre)[:, None]), lies @ rise @ lies.T
