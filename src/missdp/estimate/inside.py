"""How numbers lie inside the bins that a model released, and what noise may hide beyond them.

Everything here is a function of released values and public facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from missdp.schema import Numeric
from missdp.synth.base import Synthesizer
from missdp.types import Floats

_POINTS = 128  # values that stand for what lies inside a bin
_NOTHING = 1e-5  # of the rows: a piece in which none were found
_LEAST_SHARE, _LEAST_WEIGHT = 1e-9, 0.1
_FURTHER = 4  # intervals beyond that are reckoned with: those that may move means most
_FAR = 100.0  # times as far from the middle as where rows were found; further out is flagged only
_PLAIN = 2.5  # standard deviations by which a count must exceed what is expected to be believed
_TREE = 1.4  # times the noise of a count: halves of what stands out are kept, or moved
_MOST_TAKEN = 0.9  # of a bin
_HARDLY = 3.0  # standard deviations: of smaller bins it is not known how values lie in them


def numbers(attribute: Numeric) -> Floats:
    """Return values that stand for each code alike, shape ``(codes, points)``."""
    places = np.tile((np.arange(_POINTS) + 0.5) / _POINTS, attribute.size)
    codes = np.repeat(np.arange(attribute.size), _POINTS)
    return attribute.decode(codes, places).reshape(attribute.size, _POINTS)


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

    On either side as many rows as the noise of a count are expected, four times fewer twice as far
    from the middle; a count that stands out for itself is believed, however far out it is. So an
    interval has a prior of mean and deviation ``t``, and a count ``y`` of noise ``s``. With
    ``v = t²``, to which comes ``(y − t)² − (2.5 s)²`` if that is above 0 and ``y > t``, and
    ``f = v / (v + s²)``, it has ``t + f (y − t)`` rows, with variance ``f s²``.

    Parameters
    ----------
    home : array of int, shape (k,)
        The bin that each interval lies in.
    above : array of bool, shape (k,)
        On which side of the reach it is.
    points : array, shape (k, points)
        Values that stand for it.
    rows, stds : array, shape (k,)
        Number of rows, and its standard deviation.
    """

    home: NDArray[np.int64]
    above: NDArray[np.bool_]
    points: Floats
    rows: Floats
    stds: Floats

    @classmethod
    def of(cls, model: Synthesizer, attribute: Numeric) -> Self:
        """Return those of an attribute that may move its mean most."""
        known = model.__dict__.get("_beyond", {}).get(attribute.name, np.zeros((0, 4)))
        low, high = reach(attribute)
        middle = _median(attribute) if len(known) else low
        far = middle + _FAR * (np.array([low, high]) - middle)
        known = known[(known[:, 1] > far[0]) & (known[:, 0] < far[1])]
        ends, (counts, noise) = np.clip(known[:, :2], *far), known[:, 2:].T
        above = ends.mean(axis=1) > middle
        scale = np.maximum(np.where(above, high - middle, middle - low), _LEAST_SHARE)
        near, away = np.sort(np.abs(ends - middle) / scale[:, None], axis=1).T
        near, away = np.maximum(near, 1.0) ** -2, np.maximum(away, 1.0) ** -2
        of_side = np.array([(near - away)[above].sum(), (near - away)[~above].sum()])
        part = (near - away) / np.maximum(np.where(above, *of_side), _LEAST_SHARE)
        prior = noise * part
        more = np.square(np.maximum(counts - prior, 0.0)) - np.square(_PLAIN * noise)
        plain = np.square(prior) + np.maximum(more, 0.0)
        kept = plain / (plain + np.square(noise))
        rows, stds = np.maximum(prior + kept * (counts - prior), 0.0), np.sqrt(kept) * noise
        off = np.abs(ends.mean(axis=1) - np.where(above, high, low))
        most = np.sort(np.argsort(-(stds + np.abs(rows)) * off)[:_FURTHER])
        places = (np.arange(_POINTS) + 0.5) / _POINTS
        steps = (near[:, None] - places * (near - away)[:, None])[most] ** -0.5
        points = middle + np.where(above, scale, -scale)[most, None] * steps
        home = attribute.encode_values(np.clip(ends.mean(axis=1), attribute.lower, attribute.upper))
        return cls(home[most], above[most], points, rows[most], stds[most])


def _median(attribute: Numeric) -> float:
    """Return about where the middle of the values is, as the bins tell: they have equal mass."""
    return float(np.median(numbers(attribute)))


@dataclass(frozen=True, eq=False)
class Move:
    """A draw of how the values of a number lie.

    Parameters
    ----------
    weights : array, shape (codes, points)
        Of each value in its code; add up to 1.
    hidden, spread : array, shape (k,)
        Share of all rows in each interval beyond, and how much that varies between groups.
    """

    weights: Floats
    hidden: Floats
    spread: Floats


@dataclass(frozen=True, eq=False)
class Inside:
    """How the values of a number lie inside its bins, and how sure that is.

    Intervals in which rows may be hidden are further codes, after those of the attribute.

    Parameters
    ----------
    piece : array of int, shape (codes, points)
        The piece of the released tree in which each point lies.
    shares : array, shape (codes,)
    n_rows, seen : float
        Rows, and the share of them in which the number is observed.
    std : float
        Noise of a piece, as a share of the rows; 0 if bins are declared.
    beyond : Beyond
    """

    piece: NDArray[np.int64]
    shares: Floats
    n_rows: float
    seen: float
    std: float
    beyond: Beyond

    @classmethod
    def of(
        cls, model: Synthesizer, at: int, margin: Floats, *, n_rows: float, holes: NDArray[np.bool_]
    ) -> Self:
        """Return that of a numeric attribute of a model, whose margin is estimated like this."""
        attribute = model.schema_[model.modelled_.names[at]]
        assert isinstance(attribute, Numeric)
        piece = np.searchsorted(attribute.pieces or (), numbers(attribute), side="right")
        log = [e for whole in model.guarantee_.events for e in getattr(whole, "log", ())]
        trees = [e.sigma for e in log if e.label == f"tree {attribute.name}"]
        seen = max(1 - float(holes.mean()), _LEAST_WEIGHT)
        std = _TREE * trees[-1] / (n_rows * seen) if trees and attribute.pieces else 0.0
        shares = np.maximum(margin[: attribute.size], max(_LEAST_SHARE, _HARDLY * std))
        return cls(piece, shares, n_rows, seen, std, Beyond.of(model, attribute))

    @cached_property
    def even(self) -> Move:
        """As released."""
        return self._move(np.full(self.piece.shape, 1 / self.piece.shape[1]), 0.0, 0.0)

    def noisy(self, rng: np.random.Generator) -> Move:
        """Return another draw of the noise in each piece, and beyond all of them."""
        number = np.bincount(self.piece.ravel())[self.piece]
        moved = rng.normal(0, self.std, int(self.piece.max()) + 1)[self.piece] / number
        weights = _normal(1 / self.piece.shape[1] + moved / self.shares[:, None])
        stds = self.beyond.stds / (self.n_rows * self.seen)
        return self._move(weights, rng.normal(0.0, 1.0, len(stds)) * stds, stds)

    def jitter(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return what other rows may be like, to be scaled by their number."""
        return rng.normal(size=self.piece.shape), rng.normal(size=len(self.beyond.stds))

    def resampled(self, jitter: tuple[Floats, Floats], seen: float) -> Move:
        """Return what other rows would have been like."""
        rows = np.maximum(self.n_rows * seen * self.shares, 1.0)[:, None]
        weights = _normal(
            (1 + jitter[0] * np.sqrt(self.piece.shape[1] / rows)) / self.piece.shape[1]
        )
        stds = np.sqrt(np.abs(self.beyond.rows) / self.seen / seen) / self.n_rows
        return self._move(weights, jitter[1] * stds, stds)

    def _move(self, weights: Floats, off: Floats | float, spread: Floats | float) -> Move:
        beyond = self.beyond
        hidden = beyond.rows / (self.n_rows * self.seen) + off
        for home, above in {*zip(beyond.home.tolist(), beyond.above.tolist(), strict=True)}:
            taken = hidden[(beyond.home == home) & (beyond.above == above)].sum()
            weights[home] = _without(weights[home], taken / self.shares[home], above=above)
        even = np.full((len(hidden), weights.shape[1]), 1 / weights.shape[1])
        return Move(np.concatenate([weights, even]), hidden, np.zeros(len(hidden)) + spread)

    def hiding(self, table: Floats, axis: int, move: Move, rng: np.random.Generator) -> Floats:
        """Return a table in which rows that may be hidden have codes of their own.

        They are taken out of the bins that they were counted in; what other attributes they go with
        is as in these, up to a draw.
        """
        table, size = np.moveaxis(table, axis, 0).copy(), len(self.shares)
        further = np.zeros((len(move.hidden), *table.shape[1:]))
        for place, home in enumerate(self.beyond.home):
            law = np.maximum(table[home], 0.0)
            law = law / law.sum() if law.sum() > 0 else np.full(law.shape, 1 / max(1, law.size))
            draw = np.sqrt(law) * rng.normal(size=law.shape) * move.spread[place]
            further[place] = move.hidden[place] * law + draw - law * draw.sum()
            table[home] -= further[place]
        return np.moveaxis(np.concatenate([table[:size], further, table[size:]]), 0, axis)


def _normal(weights: Floats) -> Floats:
    """Return weights that add up to 1 in each code; as they are, where noise leaves too little."""
    total = weights.sum(axis=1, keepdims=True)
    return np.asarray(weights / np.where(total > _LEAST_WEIGHT, total, 1.0))


def _without(weights: Floats, share: float, *, above: bool) -> Floats:
    """Take a share of increasing values out of a bin, from the outermost on."""
    share, outward = min(share, _MOST_TAKEN), weights[::-1] if above else weights
    left = np.cumsum(outward) - share
    kept = (
        np.clip(left, 0.0, outward) if share > 0 else outward + (np.arange(len(left)) == 0) * -share
    )
    kept = kept / max(kept.sum(), _LEAST_WEIGHT)
    return np.asarray(kept[::-1] if above else kept)
