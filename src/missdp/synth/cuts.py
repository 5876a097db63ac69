"""Bins of numeric attributes that are not declared: found by a noisy tree, before anything else.

Everything here is post-processing of what a door answers. Bins have about equal mass; a number that
many rows have is a spike of its own; and inside a bin values are drawn as the tree tells.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost
from missdp.inference.dyadic import (
    Histogram,
    beyond,
    depth_of,
    fit_histogram,
    measured_levels,
    occupied,
)
from missdp.mechanisms.door import Door, Noise
from missdp.schema import Numeric, Schema
from missdp.schema.open_domains import MOST_CODES, is_pending
from missdp.synth.split import BINS, Split

__all__ = ["CUTS_SHARE", "cut", "release_cuts"]

CUTS_SHARE = 0.3
"""Share of the budget for the trees of all attributes that are to be cut."""

_FADES = 0.25  # from one piece to the next, where no mass stands out
_LEAST = 1e-6
_LOOK = 4  # level of the tree by which the range is found
_BINS = 10  # of equal mass, for all rows; for those that are in no spike, their share of it
_MOST_BINS = 16  # where counts are so large that noise does not matter
_LARGE = 1000  # rows of a bin, in units of noise, with which there may be more than ten


def release_cuts(
    door: Door, grid: Schema, schema: Schema, split: Split
) -> tuple[Schema, dict[str, NDArray[np.float64]]]:
    """Return a schema whose numeric attributes are cut where the rows are, and what noise hides.

    By attribute: intervals in which no rows stood out from noise, beyond those in which some did.
    Each has its least and greatest number, its noisy count, and the standard deviation of that.

    Parameters
    ----------
    door : Door
        To rows that are coded on a grid.
    grid, schema : Schema
        Of these rows, and as they are to be, with attributes that are to be cut.
    split : Split
        What each tree may cost.
    """
    wanted = [a for a in schema if is_pending(a) and a.name in door.schema]
    door.expect((name,) for name in door.schema.names)
    unit = Noise.worth(door.left).std
    found, hidden = {}, {}
    for a, cost in zip(wanted, split.costs(BINS), strict=True):
        cells = grid[a.name]
        assert isinstance(cells, Numeric)
        told, outside = _histogram(door, a.name, cells, cost)
        found[a.name] = cut(a, cells, told, unit=unit)
        least, greatest = cells.reach
        first, last = outside[:, 0].astype(int), outside[:, 1].astype(int) - 1
        hidden[a.name] = np.column_stack([least[first], greatest[last], outside[:, 2:]])
    return schema.replaced(found), hidden


def _histogram(
    door: Door, name: str, grid: Numeric, cost: Cost
) -> tuple[Histogram, NDArray[np.float64]]:
    """Return how an attribute is distributed: where rows are at all, then a tree over that range.

    So bounds may be far too generous: what they add is not looked at twice. What was counted
    outside of where rows stood out is returned as well, as by `beyond`.
    """
    every, share = (3, 0.2) if cost.currency == "pure" else (2, 0.1)
    size = grid.size
    within, outside = (0, size), np.zeros((0, 4))
    if depth_of(size) > _LOOK + 2:
        (counts,), noise = door.tree(
            name, replace(cost, amount=cost.amount * share), levels=[_LOOK]
        )
        within = occupied(counts, std=noise.std, size=size)
        outside = _unseen(counts, noise.std, within, size)
        cost = replace(cost, amount=cost.amount * (1 - share))
    inside = within[1] - within[0]
    levels = measured_levels(inside, every=every)
    tree, noise = door.tree(name, cost, levels=levels, within=within)
    least, greatest = (ends[slice(*within)] for ends in grid.reach)
    told = fit_histogram(tree, std=noise.std, size=inside, levels=levels, reach=(least, greatest))
    near = beyond(tree, std=noise.std, size=inside, levels=levels, kept=told.sure or (0, inside))
    near[:, :2] += within[0]
    starts, mass = told.starts + within[0], told.mass
    if within[0]:
        starts, mass = np.append(0, starts), np.append(0.0, mass)
    if within[1] < size:
        starts, mass = np.append(starts, size), np.append(mass, 0.0)
    return Histogram(starts, mass, told.rows), np.concatenate([near, outside])


def _unseen(
    counts: NDArray[np.int64], std: float, within: tuple[int, int], size: int
) -> NDArray[np.float64]:
    """Return what a first look counted outside of an interval of cells, as by `beyond`."""
    width = (1 << depth_of(size)) // len(counts)
    first = np.arange(len(counts)) * width
    after = np.minimum(first + width, size)
    found = np.column_stack([first, after, counts, np.full(len(counts), std)])
    return found[(first < size) & ((after <= within[0]) | (first >= within[1]))]


def cut(attribute: Numeric, grid: Numeric, told: Histogram, *, unit: float) -> Numeric:
    """Return an attribute with bins and spikes where a histogram on a grid has its mass.

    Parameters
    ----------
    attribute, grid : Numeric
        An attribute that is to be cut, as it is declared, and on its grid.
    told : Histogram
        Of the cells of the grid.
    unit : float
        Standard deviation of the noise of one count that all of the budget is spent on.

    Examples
    --------
    >>> from missdp.schema.open_domains import on_grid, pending
    >>> schema = pending(Schema((Numeric(name="x", lower=0, upper=99, integer=True),)), ["x"])
    >>> told = Histogram(np.array([0, 1, 5, 10, 100]), np.array([0.5, 0.2, 0.3, 0.0]), 1e4)
    >>> found = cut(schema["x"], on_grid(schema)["x"], told, unit=4.0)
    >>> found.spikes, found.edges
    ((0.0,), (0.0, 5.0, 99.0))
    """
    if len(told.mass) <= 2:  # noise is all there is
        return replace(attribute, bins=None, edges=_even(grid))
    least, greatest = grid.reach
    cells = np.diff(told.starts)
    single = (cells == 1) & (least[told.starts[:-1]] == greatest[told.starts[:-1]])
    heavy = np.flatnonzero(single & (told.mass > 1 / (2 * _BINS)))
    heavy = heavy[np.argsort(-told.mass[heavy], kind="stable")][: MOST_CODES - 1]
    spikes = np.sort(least[told.starts[heavy]])
    rest = told.mass.copy()
    rest[heavy] = 0.0
    pieces, shares = _pieces(grid, told.starts, rest)
    bins = _how_many(float(rest.sum()), told.rows / unit)
    edges = _quantiles(pieces, shares, min(bins, MOST_CODES - len(spikes)))
    shares = np.where(_inside(edges, pieces, shares) > 0, shares, _fading(pieces, shares, spikes))
    return replace(
        attribute,
        bins=None,
        edges=tuple(edges.tolist()),
        spikes=tuple(spikes.tolist()),
        pieces=tuple(pieces.tolist()),
        shares=tuple(shares.tolist()),
    )


def _how_many(share: float, rows: float) -> int:
    """Return how many bins a share of the rows is cut into; their number is in units of noise."""
    large = min(_MOST_BINS, share * rows / _LARGE)
    return max(1, round(max(_BINS * share, large)))


def _even(grid: Numeric) -> tuple[float, ...]:
    """Return edges of a grid that make bins of about equal width."""
    edges = np.asarray(grid.edges)
    wanted = np.linspace(grid.lower, grid.upper, _BINS + 1)
    return tuple(np.unique([edges[np.abs(edges - one).argmin()] for one in wanted]).tolist())


def _pieces(
    grid: Numeric, starts: NDArray[np.int64], mass: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the numbers at which intervals of cells begin, and how much is in between.

    A single number and the interval that begins with it are one piece.
    """
    edges, least = np.asarray(grid.edges), grid.reach[0]
    place = np.searchsorted(edges, least[starts[:-1]], side="right") - 1
    first = edges[np.clip(place, 0, len(edges) - 2)]
    pieces, piece = np.unique(first, return_inverse=True)
    shares = np.bincount(piece, weights=mass)
    return np.append(pieces, edges[-1]), np.asarray(shares, dtype=np.float64)


def _inside(
    edges: NDArray[np.float64], pieces: NDArray[np.float64], shares: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return, for each piece, the share of the bin that it lies in."""
    of = np.searchsorted(edges, pieces[:-1], side="right") - 1
    return np.asarray(np.bincount(of, weights=shares)[of])


def _fading(
    pieces: NDArray[np.float64], shares: NDArray[np.float64], spikes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return shares for bins of which nothing is known: most beside what has mass, then less."""
    known = shares > 0
    known[np.searchsorted(pieces[1:-1], spikes, side="right")] = True
    away = np.abs(np.subtract.outer(np.arange(len(shares)), np.flatnonzero(known)))
    return _LEAST * _FADES ** (away.min(axis=1) if known.any() else np.zeros(len(shares)))


def _quantiles(
    pieces: NDArray[np.float64], shares: NDArray[np.float64], bins: int
) -> NDArray[np.float64]:
    """Return the edges of bins whose shares are as equal as the pieces allow, none of them 0."""
    below = np.concatenate([[0.0], np.cumsum(shares)])
    wanted = below[-1] * np.arange(1, bins) / bins
    nearest = {int(np.abs(below - share).argmin()) for share in wanted}
    kept = [place for place in nearest if 0 < below[place] < below[-1]]
    return np.unique(np.concatenate([pieces[:1], pieces[kept], pieces[-1:]]))
