"""Tail intervals of a number: intervals beyond its released values, in which noise may hide rows.

Everything here is a function of released values and public facts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import expit, log_ndtr, logit, ndtri_exp

from missdp.schema import Numeric
from missdp.synth.base import Synthesizer
from missdp.types import Flags, Floats, Ints

MIN_SHARE = 1e-9  # smallest share of the rows, or of a scale, in a divisor
_POINTS = 128  # values that represent a bin
_PLACES = (np.arange(_POINTS) + 0.5) / _POINTS
_EMPTY = 1e-5  # largest share of the rows in a segment without rows
_MAX_INTERVALS = 16  # largest number of modelled intervals: those with most effect on means
_FAR = 100.0  # largest distance of a modelled interval, in distances of the outermost rows
_DECAY = 1.5  # power by which rows decrease with their distance from the middle
_USUAL = 0.5  # expected rows outside on either side, in SDs of a count's noise
_CLEAR_SDS = 10.0  # rows in a tail whose decay can be measured, in SDs of a count
_LARGEST = 0.4  # largest share of the rows in a tail
_MIN_STEP, _MAX_STEP = 0.01, 50.0  # bounds on logarithms of distances, so that they are finite
_GROWS = 1e-6, 1.0  # growth of a tail's decay: of a power law, of an exponential law
_SPIKE_CHANCE = 0.002, 0.5  # chance of a spike in an interval, without and with a long tail
_LONG_TAIL = 8.0, 16.0  # range of the reach of a long tail, in distances of a quartile
_CHAINS, _SWEEPS = 200, 150  # chains of the Gibbs sampler, and sweeps of each chain


def representative_values(attribute: Numeric) -> Floats:
    """Return values that represent each code, shape ``(codes, points)``."""
    codes = np.repeat(np.arange(attribute.size), _POINTS)
    values = attribute.decode(codes, np.tile(_PLACES, attribute.size))
    return values.reshape(attribute.size, _POINTS)


def counted_attribute(model: Synthesizer, name: str) -> Numeric:
    """Return a number with its values as counted, and without values where noise hides rows.

    The moments of the number are read by ``WithinBins``, with their noise.
    """
    attribute = model.schema_[name]
    assert isinstance(attribute, Numeric)
    binning = attribute.binning
    if not binning.weights:
        return attribute
    low, high = _hidden_counts(model, name).T[:2]
    above = low + high > 2 * _median(attribute)
    segments = np.asarray(binning.subintervals)
    middle = (segments[1:] + segments[:-1]) / 2
    # Intervals of integers end before the next interval begins. All numbers outside are in tail
    # intervals.
    first = min(low[above], default=math.inf)
    last = max(high[~above], default=-math.inf)
    hidden = (middle <= last) | (middle >= first)
    shares = np.where(hidden, 0.0, binning.weights)
    of = np.searchsorted(binning.edges, segments[:-1], side="right")
    shown = np.bincount(of, shares)[of] > 0  # a bin that is hidden entirely keeps its shares
    weights = tuple(np.where(shown, shares, binning.weights).tolist())
    return replace(attribute, bins=replace(binning, weights=weights))


def value_range(attribute: Numeric) -> tuple[float, float]:
    """Return the range in which values were counted if bins were released, else the bounds."""
    binning, parts = attribute.binning, attribute.binning.subintervals
    if not binning.weights:
        return attribute.lower, attribute.upper
    filled = np.flatnonzero(np.array(binning.weights) > _EMPTY)
    ends = [parts[filled[0]], parts[filled[-1] + 1]] if filled.size else []
    ends += binning.spikes
    return (min(ends), max(ends)) if ends else (attribute.lower, attribute.upper)


def _hidden_counts(model: Synthesizer, name: str) -> Floats:
    """Return the released tail intervals of a number: ends, count, noise, shape ``(k, 4)``."""
    return model.fitted_.tails.get(name, np.zeros((0, 4)))


def _median(attribute: Numeric) -> float:
    """Return about the median of the values, since bins have equal mass."""
    return float(np.median(representative_values(attribute)))


@dataclass(frozen=True, eq=False)
class TailIntervals:
    """Tail intervals of a number, in which noise may hide rows.

    The prior expects rows equal to the noise of a count on either side, and three times fewer at
    twice the distance from the middle. It expects more if the counted tail continues (see
    `_tail_shares`). The prior of an interval is exponential, with this mean. With some chance there
    is a spike, whose mean is the noise of its own count. The chance is one in 500, and up to one
    half if the counted values have a long tail.
    """

    home: Ints  # (k,): the bin that each interval lies in
    above: Flags  # (k,): whether it lies above the range, or below
    points: Floats  # (k, points): values that represent it
    counts: Floats  # (k,): noisy number of rows
    noise: Floats  # (k,): standard deviation of the noise of a count, in rows
    usual: Floats  # (k,): number of rows that is expected

    @classmethod
    def of(cls, model: Synthesizer, attribute: Numeric) -> Self:
        """Return the intervals of an attribute that may move its mean most."""
        released = _hidden_counts(model, attribute.name)
        low, high = value_range(attribute)
        median = _median(attribute) if len(released) else low
        far = median + _FAR * (np.array([low, high]) - median)
        is_near = (released[:, 1] > far[0]) & (released[:, 0] < far[1])
        centre = released[:, :2].mean(axis=1)
        released = released[is_near & ((centre < low) | (centre > high))]
        ends, (counts, noise) = np.clip(released[:, :2], *far), released[:, 2:].T
        centre = ends.mean(axis=1)
        above = centre > median
        scale = np.maximum(np.where(above, high - median, median - low), MIN_SHARE)
        near, away = np.sort(np.abs(ends - median) / scale[:, None], axis=1).T
        near, away = np.maximum(near, 1.0) ** -_DECAY, np.maximum(away, 1.0) ** -_DECAY
        of_side = np.array([(near - away)[above].sum(), (near - away)[~above].sum()])
        part = (near - away) / np.maximum(np.where(above, *of_side), MIN_SHARE)
        usual = np.maximum(_USUAL * noise * part, MIN_SHARE)
        distance = np.abs(centre - np.where(above, high, low))
        effect = (usual + _SPIKE_CHANCE[0] * noise) * distance
        chosen = np.sort(np.argsort(-effect)[:_MAX_INTERVALS])
        steps = (near[:, None] - _PLACES * (near - away)[:, None])[chosen] ** (-1 / _DECAY)
        points = median + np.where(above, scale, -scale)[chosen, None] * steps
        home = attribute.encode_values(np.clip(centre, attribute.lower, attribute.upper))
        rows = counts[chosen], noise[chosen], usual[chosen]
        return cls(home[chosen], above[chosen], points, *rows)

    def appended_to(self, points: Floats) -> tuple[Floats, Ints]:
        """Return the values of each code, these intervals last, and the bin of each code."""
        home = np.append(np.arange(len(points)), self.home)
        return np.concatenate([points, self.points]), home

    def with_falling_tails(self, values: Floats, marginal: Floats, rows: float) -> Self:
        """Return the same intervals if the tails of values in bins continue as they fall."""
        shares = np.maximum(marginal[: len(values)], 0.0)
        if not (len(self.home) and shares.any()):
            return self
        values, mass = _in_order(values, shares)
        mass, usual = mass / mass.sum(), self.usual.copy()
        median = values[min(int(np.searchsorted(np.cumsum(mass), 0.5)), len(mass) - 1)]
        min_share = _CLEAR_SDS * float(np.median(self.noise)) / max(rows, 1.0)
        for side, distances, tail in (
            (self.above, (values - median)[::-1], np.cumsum(mass[::-1])),
            (~self.above, median - values, np.cumsum(mass)),
        ):
            ends = np.abs(self.points[side][:, [0, -1]] - median)
            more = rows * _tail_shares(distances, tail, ends, min_share)
            usual[side] = np.maximum(usual[side], more)
        return replace(self, usual=usual)

    def spike_chances(self, values: Floats, shares: Floats) -> Floats:
        """Return the chance of a spike in each interval, by the length of the counted tail."""
        values, mass = _in_order(values, shares)
        mass = np.cumsum(mass)
        low, median, high = values[np.searchsorted(mass, mass[-1] * np.array([0.25, 0.5, 0.75]))]
        ends = np.where(self.above, values[-1], values[0]) - median
        quartile = np.where(self.above, high, low) - median
        length = np.abs(ends) / np.maximum(np.abs(quartile), MIN_SHARE)
        return np.asarray(np.interp(length, _LONG_TAIL, _SPIKE_CHANCE))

    def draw_rows(
        self, effects: Floats, residual: Floats, covariance: Floats, chances: Floats
    ) -> Floats:
        """Draw numbers of rows given counts and sums, by Gibbs sampling.

        Parameters
        ----------
        effects : ndarray, shape (sums, k)
            Contribution of one row in each interval to the released sums.
        residual : ndarray, shape (sums,)
            Released sums less the contribution of all other rows.
        covariance : ndarray, shape (sums, sums)
            Covariance of the residual.
        chances : ndarray, shape (k,)
            Chance of a spike in each interval.

        Returns
        -------
        ndarray, shape (draws, k)
            Numbers of rows, at least zero.
        """
        rng = np.random.default_rng(3)  # public: draws show how numbers vary
        weighted = np.linalg.solve(covariance, effects).T
        precision = weighted @ effects + np.diag(self.noise**-2)
        pull = weighted @ residual + self.counts / self.noise**2
        rows = np.maximum(rng.normal(self.counts, self.noise, (_CHAINS, len(pull))), 0.0)
        rates = np.stack([1 / self.usual, 1 / np.maximum(self.usual, self.noise)])[:, :, None]
        for _ in range(_SWEEPS if len(pull) else 0):
            for at, diagonal in enumerate(np.diag(precision)):
                others = rows @ precision[at] - rows[:, at] * diagonal
                scores = (pull[at] - rates[:, at] - others) / math.sqrt(diagonal)
                positive = _draw_positive(scores, rates[:, at], chances[at], rng)
                rows[:, at] = positive / math.sqrt(diagonal)
        return rows


def _in_order(values: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Return all values of all codes in increasing order, and the share of the rows at each."""
    order, points = np.argsort(values, axis=None, kind="stable"), values.shape[1]
    return values.ravel()[order], (np.repeat(shares, points) / points)[order]


def _draw_positive(
    scores: Floats, rates: Floats, chance: float, rng: np.random.Generator
) -> Floats:
    """Draw normal numbers above 0, given one of two exponential priors, the second by chance."""
    log = np.log(rates) + np.square(scores) / 2 + log_ndtr(scores)
    is_spike = rng.random(scores.shape[1]) < expit(log[1] - log[0] + logit(chance))
    mean, place = np.where(is_spike, scores[1], scores[0]), 1 - rng.random(len(is_spike))
    return np.asarray(np.maximum(mean - ndtri_exp(np.log(place) + log_ndtr(mean)), 0.0))


def _tail_shares(distances: Floats, shares: Floats, ends: Floats, min_share: float) -> Floats:
    """Return the share of the rows between two distances from the middle.

    A tail falls by some powers of two while distances grow by a factor of e. This decay is constant
    for a power law. With lighter tails it grows, and is taken to continue to grow.

    Parameters
    ----------
    distances : ndarray, shape (n,)
        Distances from the middle, decreasing.
    shares : ndarray, shape (n,)
        Share of the rows beyond each distance.
    ends : ndarray, shape (k, 2)
        Both ends of each interval.
    min_share : float
        Share from which the tail is measured: there, at twice and at four times as much.

    Returns
    -------
    ndarray, shape (k,)
    """
    levels = min_share * np.array([1.0, 2.0, 4.0])
    places = distances[np.minimum(np.searchsorted(shares, levels), len(distances) - 1)]
    if levels[-1] > _LARGEST or places[-1] <= 0:
        return np.zeros(len(ends))
    falls = 1 / np.maximum(-np.diff(np.log(places)), _MIN_STEP)
    grows = float(np.clip(falls[0] - falls[1], *_GROWS))
    log_ratios = np.log(np.maximum(ends / places[0], 1.0))
    halved = (falls[0] + grows / 2) * np.expm1(np.minimum(grows * log_ratios, _MAX_STEP)) / grows
    return np.asarray(-np.diff(min_share * 2.0**-halved, axis=1)[:, 0])
