"""Values of a number inside its released bins, and in its tail intervals.

Everything here is a function of released values and public facts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from missdp.accounting import LaplaceEvent
from missdp.estimate.tail_intervals import (
    MIN_SHARE,
    TailIntervals,
    counted_attribute,
    representative_values,
)
from missdp.schema.layout import STEPS
from missdp.synth.base import Synthesizer
from missdp.types import Floats, Ints

_MIN_WEIGHT = 0.1  # smallest share of observed rows, and smallest number of rows
_TREE = 4.0  # error of a segment, in SDs of the noise of a tree's count
_MAX_REMOVED = 0.9  # largest share of a bin that may lie outside of it
_SLOPE = 1.0  # tilt of tail rows towards an end of their interval, in standard deviations
# Differences between groups of tail rows, relative to expected rows, and to additional rows.
_USUAL_SPREAD, _MORE_SPREAD = 0.5, 1.0
_HIDDEN = 1.645  # standard deviations above the rows that counts and sums show (95 %)
_MIN_STD = 1.5  # SDs of noise that a bin must exceed for known values


@dataclass(frozen=True, eq=False)
class ReleasedSums:
    """Sums of a number that were released beside its bins, over rows in which it is observed."""

    values: Floats  # (finer codes,): the number of each finer code, in increasing order
    parts: Floats  # (sums, finer codes): contribution of a row, after clipping
    means: Floats  # (sums,)
    stds: Floats  # (sums,): noise of these
    shares: Floats  # (codes,): share of each bin
    share_std: float  # noise of each

    @classmethod
    def none(cls, shares: Floats) -> Self:
        """Return no sums at all."""
        return cls(np.zeros(1), np.zeros((0, 1)), np.zeros(0), np.zeros(0), shares, 0.0)

    def at(self, points: Floats) -> Floats:
        """Return the contribution of a row at each number: shape ``(sums, *points.shape)``."""
        middle = (self.values[1:] + self.values[:-1]) / 2
        return np.asarray(self.parts[:, np.searchsorted(middle, points)])


@dataclass(frozen=True, eq=False)
class WithinBinDraw:
    """A draw of the positions of a number's values."""

    weights: Floats  # (codes, points): weight of each value in its code. They add up to 1
    hidden: Floats  # (k,): share of all rows in each tail interval
    spread: Floats  # (k,): standard deviation of this share between groups
    shift: Floats  # (codes,): shares of bins less their counted shares


@dataclass(frozen=True, eq=False)
class WithinBins:
    """Values of a number inside its bins, and their uncertainty.

    Tail intervals in which rows may be hidden are additional codes, after the codes of the
    attribute.
    """

    points: Floats  # (codes, points): values that represent each bin
    segment: Ints  # (codes, points): the segment of the released tree in which each value lies
    shares: Floats  # (codes,): share of each bin
    tails: TailIntervals
    sums: ReleasedSums
    std: float  # noise of a segment, as a share of the rows. 0 for declared bins
    n_rows: float
    observed: float  # share of the rows in which the number is observed
    design: float  # variance of sums over rows, relative to independent rows

    @classmethod
    def of(
        cls,
        model: Synthesizer,
        name: str,
        marginal: Floats,
        n_rows: float,
        observed: float,
        sums: ReleasedSums | None,
    ) -> Self:
        """Return the values of a number of a model.

        Parameters
        ----------
        model : Synthesizer
            A fitted model.
        name : str
            The number.
        marginal : ndarray, shape (codes,)
            Its estimated marginal.
        n_rows : float
            Released number of rows.
        observed : float
            Share of the rows in which it is observed.
        sums : ReleasedSums or None
            Sums that were released beside its bins.

        Returns
        -------
        WithinBins
        """
        attribute, observed = counted_attribute(model, name), max(observed, _MIN_WEIGHT)
        points = representative_values(attribute)
        segment = np.searchsorted(attribute.binning.subintervals, points, side="right")
        std = _tree_std(model, name) if attribute.binning.subintervals else 0.0
        std *= _TREE / (n_rows * observed)
        shares = np.maximum(marginal[: attribute.size], max(MIN_SHARE, _MIN_STD * std))
        tails = TailIntervals.of(model, attribute)
        tails = tails.with_falling_tails(points, marginal, n_rows * observed)
        sums = sums or ReleasedSums.none(shares)
        rows = n_rows, observed, model.fitted_.design
        return cls(points, segment, shares, tails, sums, std, *rows)

    @property
    def noise(self) -> float:
        """Standard deviation of a count, as a share of rows, or 0 for declared bins."""
        return self.std / _TREE

    @cached_property
    def released(self) -> WithinBinDraw:
        """The values as they were released."""
        return self._updated(self._hidden.mean(axis=0))

    @cached_property
    def extreme(self) -> tuple[WithinBinDraw, float, float] | None:
        """Values with as many rows as noise can hide in the interval that moves the mean most.

        Returns the values, the number of these rows, and their value. None without such an
        interval.
        """
        tails, rows, hidden = self.tails, self.n_rows * self.observed, self.released.hidden
        if not len(hidden):
            return None
        effects = self._effects[1] / rows
        weighted = np.linalg.solve(self._covariance, effects).T
        precision = np.diag(weighted @ effects) + tails.noise**-2
        pull = weighted @ self._residual(hidden) + (tails.counts - hidden * rows) / tails.noise**2
        largest = np.maximum(hidden * rows + pull / precision, 0.0) + _HIDDEN / np.sqrt(precision)
        ends = self.points[tails.home, np.where(tails.above, -1, 0)]
        distance = np.abs(tails.points.mean(axis=1) - ends)
        k = int(np.argmax((largest - hidden * rows) * distance))
        more = np.where(np.arange(len(hidden)) == k, np.maximum(hidden, largest / rows), hidden)
        return self._updated(more), float(largest[k]), float(tails.points[k].mean())

    def noisy(self, rng: np.random.Generator, shift: Floats) -> WithinBinDraw:
        """Return another draw of the noise in each segment, and in tail intervals.

        ``shift`` is the marginal of the same draw less the released marginal.
        """
        hidden, size = self._hidden[rng.integers(len(self._hidden))], len(self.shares)
        stds = self._stds[:-size]
        prior = np.append(rng.normal(size=len(stds)) * stds, shift[:size])
        noise = self.sums.stds * rng.normal(size=len(self.sums.stds))
        update = self._gain @ (self._residual(hidden) + noise - self._effects[0] @ prior)
        prior[-size:] = 0.0  # these are in the marginal already
        draw = self._changed(prior + update, hidden)
        # Rows lie anywhere in a tail interval: between its lower and its upper part.
        points = self.segment.shape[1]
        slope = _SLOPE * (2 * (np.arange(points) + 0.5) / points - 1)
        draw.weights[size:] += rng.normal(size=(len(hidden), 1)) * slope / points
        usual = np.minimum(hidden, self.tails.usual / (self.n_rows * self.observed))
        return replace(draw, spread=_USUAL_SPREAD * usual + _MORE_SPREAD * (hidden - usual))

    def resampled(self, rng: np.random.Generator) -> tuple[WithinBinDraw, WithinBinDraw]:
        """Return the values of other rows, of the observed ones and of complete ones."""
        hidden, weights = self.released.hidden, self.released.weights
        off, off_hidden = rng.normal(size=weights.shape), rng.normal(size=len(hidden))
        share, n_rows = np.append(self.shares, np.abs(hidden)), self.n_rows / self.design

        def draw(observed: float) -> WithinBinDraw:
            rows = np.maximum(n_rows * observed * share, 1.0)[:, None]
            change = _centred(off * np.sqrt(np.maximum(weights, 0.0) / rows))
            stds = np.sqrt(np.abs(hidden) / observed / n_rows)
            return replace(
                self.released,
                weights=weights + change,
                hidden=hidden + off_hidden * stds,
                spread=stds,
            )

        return draw(self.observed), draw(1.0)

    def split_table(
        self, table: Floats, axis: int, draw: WithinBinDraw, rng: np.random.Generator
    ) -> Floats:
        """Return a table in which hidden rows have codes of their own.

        Parameters
        ----------
        table : ndarray
            Shares of the rows. Hidden rows are counted in their bins.
        axis : int
            Axis of the number.
        draw : WithinBinDraw
            The number of hidden rows. They relate to other attributes as their bins do, up to a
            random difference.
        rng : numpy.random.Generator
            Draws the difference.

        Returns
        -------
        ndarray
            The shares, with one more code for each tail interval.
        """
        table = np.moveaxis(table, axis, 0)
        width = math.prod(table.shape[1:])
        shares = np.maximum(table[self.tails.home], 0.0).reshape(-1, width)
        total, even = shares.sum(axis=1, keepdims=True), np.full(shares.shape, 1 / width)
        shares = np.divide(shares, total, out=even, where=total > 0)
        off = np.sqrt(shares) * rng.normal(size=shares.shape) * draw.spread[:, None]
        hidden = (draw.hidden - off.sum(axis=1))[:, None] * shares + off
        return np.moveaxis(self._split(table, hidden), 0, axis)

    def split_sums(
        self, sums: Floats, marginal: Floats, draw: WithinBinDraw, rng: np.random.Generator
    ) -> Floats:
        """Return sums of a ``z`` by code in which hidden rows have codes of their own.

        Parameters
        ----------
        sums : ndarray, shape (codes,)
            Sums over rows of the standardised number ``z`` of another attribute.
        marginal : ndarray, shape (codes,)
            Shares of the rows.
        draw : WithinBinDraw
            The number of hidden rows. Their ``z`` is as in their bins, up to a random difference.
        rng : numpy.random.Generator
            Draws the difference. ``z`` has a variance of about 1.

        Returns
        -------
        ndarray
        """
        home = self.tails.home
        part = draw.hidden / np.maximum(marginal[home], _MIN_WEIGHT / self.n_rows)
        off = rng.normal(size=len(home)) * draw.spread
        return self._split(sums, sums[home] * part + off)

    def _split(self, table: Floats, hidden: Floats) -> Floats:
        """Return a table with hidden rows taken out of their bins, and put after all bins."""
        size, table = len(self.shares), table.copy()
        hidden = hidden.reshape(len(hidden), *table.shape[1:])
        np.subtract.at(table, self.tails.home, hidden)
        return np.concatenate([table[:size], hidden, table[size:]])

    @cached_property
    def _hidden(self) -> Floats:
        """Draws of the share of rows in each tail interval, given counts and sums."""
        rows, effects = self.n_rows * self.observed, self._effects[1]
        residual = self._residual(np.zeros(effects.shape[1]))
        chances = self.tails.spike_chances(self.points, self.shares)
        return self.tails.draw_rows(effects / rows, residual, self._covariance, chances) / rows

    @cached_property
    def _stds(self) -> Floats:
        """Errors of the shares of segments, and of bins, by their counts."""
        segments = np.full(int(self.segment.max()) + 1, self.std)
        return np.append(segments, np.full(len(self.shares), self.sums.share_std))

    @cached_property
    def _effects(self) -> tuple[Floats, Floats]:
        """Contributions of segments and bins, and of tail rows, to released sums, by share."""
        parts, tails, shares = self.sums.at(self.points), self.tails, self.sums.shares
        means = parts.mean(axis=2)
        ends = np.where(tails.above, parts[:, tails.home, -1], parts[:, tails.home, 0])
        tail_effects = self.sums.at(tails.points).mean(axis=2) - ends
        off, number = parts - means[:, :, None], np.bincount(self.segment.ravel())
        segments = np.zeros((len(off), len(number)))
        for row, one in zip(segments, off, strict=True):
            row += np.bincount(self.segment.ravel(), one.ravel()) / np.maximum(number, 1)
        bins = means - (means @ shares / shares.sum())[:, None]
        return np.concatenate([segments, bins], axis=1), tail_effects

    @cached_property
    def _covariance(self) -> Floats:
        """Covariance of the errors of released sums, without tail rows."""
        errors = self._effects[0] * self._stds
        return np.asarray(errors @ errors.T + np.diag(np.square(self.sums.stds)))

    @cached_property
    def _gain(self) -> Floats:
        """Shift of shares by the residual of the sums: both have independent errors."""
        errors = self._effects[0] * self._stds
        return np.asarray((self._stds[:, None] * errors.T) @ np.linalg.inv(self._covariance))

    def _residual(self, hidden: Floats) -> Floats:
        """Return released sums less the sums that the counts and the tail rows imply."""
        means = self.sums.at(self.points).mean(axis=2)
        return np.asarray(self.sums.means - means @ self.sums.shares - self._effects[1] @ hidden)

    def _updated(self, hidden: Floats) -> WithinBinDraw:
        """Return the most likely values, given the tail rows."""
        return self._changed(self._gain @ self._residual(hidden), hidden)

    def _changed(self, change: Floats, hidden: Floats) -> WithinBinDraw:
        """Return the values with changed shares of segments and bins, and tail rows."""
        segments = len(change) - len(self.shares)
        number = np.bincount(self.segment.ravel())[self.segment]
        shifts = change[:segments][self.segment] / number
        weights = 1 / self.segment.shape[1] + _centred(shifts) / self.shares[:, None]
        tails = self.tails
        for home, above in {*zip(tails.home.tolist(), tails.above.tolist(), strict=True)}:
            share = hidden[(tails.home == home) & (tails.above == above)].sum()
            weights[home] = _without(weights[home], share / self.shares[home], above=above)
        even = np.full((len(hidden), weights.shape[1]), 1 / weights.shape[1])
        weights = np.concatenate([weights, even])
        return WithinBinDraw(weights, hidden, np.zeros(len(hidden)), change[segments:])


def _tree_std(model: Synthesizer, name: str) -> float:
    """Return the noise of a count of the tree of a number, in rows, or 0 without a tree."""
    log = [event for group in model.guarantee_.events for event in getattr(group, "log", ())]
    for event in (event for event in log[::-1] if event.label == f"tree {name}"):
        std = event.scale * math.sqrt(2) if isinstance(event, LaplaceEvent) else event.sigma
        return float(std / (STEPS if event.sensitivity >= STEPS else 1))  # rows may have weights
    return 0.0


def _centred(change: Floats) -> Floats:
    """Return changes of weights that add up to 0 in each code."""
    return np.asarray(change - change.mean(axis=1, keepdims=True))


def _without(weights: Floats, share: float, *, above: bool) -> Floats:
    """Return weights without a share of increasing values, from the outermost value on."""
    # All values count as equally likely. A negative share adds to the outermost value.
    share, outward = min(share, _MAX_REMOVED), weights[::-1] if above else weights
    place = np.arange(len(weights))
    removed = np.clip(share * len(weights) - place, 0.0, 1.0) / len(weights) if share > 0 else 0.0
    rest = (outward - removed + (place == 0) * max(0.0, -share)) / (1 - share)
    return np.asarray(rest[::-1] if above else rest)
