"""What every fit releases before its family learns: levels, how much units count, bins, kinds.

* Levels of open attributes. The proof stands in `missdp.session.frequent_values`: costs add up as
  those of Gaussian releases, and failures are taken out of the delta of the fit before the rest of
  it is converted.
* How many units that count alike would tell as much, where rows do not: Kish's effective size. A
  unit counts what its rows do together, and units are independent. So a sum over units varies by
  the sum of the squares of what they count: as if ``(Σ W)² / Σ W²`` units counted alike (Kish
  1965).
  That is never more than there are units, and as many as these where they do count alike.
* Bins of numeric attributes that declare none, found by a noisy tree. They have about equal mass; a
  number that many rows have is a spike of its own; inside a bin values are drawn as the tree tells.
* How holes are spread over the kinds of missing.

Everything here is post-processing of what a session answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress, pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from missdp.accounting import Composition, Cost, Filter, Guarantee
from missdp.accounting.events import ROW
from missdp.accounting.exact import exact, float_down
from missdp.errors import ParameterError, UnprovenError, replacing
from missdp.inference.dyadic import (
    SPIKE,
    Histogram,
    beyond,
    depth_of,
    falling,
    fit_histogram,
    measured_levels,
    occupied,
)
from missdp.schema import Numeric, OpenCategorical, Schema, SurveyWeight, Unit
from missdp.schema.binning import Binning, BinSource
from missdp.serialization import Record
from missdp.session import Kinds, Marginal, Noise, Session, Tree, UnitSums
from missdp.session.frequent_values import FrequentValues, OccurringValues
from missdp.synth.search_grid import MAX_CODES, is_pending
from missdp.synth.split import BINS, KINDS, BudgetPlan, Part, RequiredAttributes
from missdp.types import Ints

if TYPE_CHECKING:
    from missdp.synth.family import Request

OPEN: Final = "open levels"
_CUTS_SHARE = 0.3  # of the budget, for the trees of all attributes that are to be cut
_SIZES_SHARE = 0.02
_OPEN_SHARE, _MOST_OPEN_SHARE = 0.12, 0.3  # for one attribute, and for all
_KIND_SHARE, _MOST_KINDS_SHARE = 0.02, 0.06  # likewise
_PURE_HEAP = 8.4  # for `SPIKE`: Laplace noise goes as far as often
_FADES = 0.25  # from one piece to the next, where no mass stands out
_LEAST = 1e-6
_LOOK = 4  # level of the tree by which the range is found
_BESIDE = 4  # intervals that tell how many rows the one at an end would have
_PILED = 2.0  # standard deviations by which it stands out from them
_PLAIN = 3.5  # standard deviations from which it is told apart from the one before it
_NEAREST = 2  # counts of a first look that tell whether it goes on
_BINS = 10  # of equal mass, for all rows; for those that are in no spike, their share of it
_LEAST_BIN = 0.02  # of the rows, on either side of a spike inside a bin
_MOST_BINS = 16  # where counts are so large that noise does not matter
_LEAST_RATIO = 3.0  # of the density of rows in a narrow spike to that on either side of it
_WIDEST = 0.01  # of the range of nine in ten rows: the largest width of a narrow spike's cell
_MIDDLE = np.array([0.0, 1.0, 0.0])  # where a spike is in its cell
_MOST_DIGITS = 300
_LARGE = 1000  # rows of a bin, in units of noise, with which there may be more than ten


def first_parts(request: Request[Any]) -> list[Part]:
    """Return the parts of a budget that all families have: levels, sizes, bins, kinds; public."""
    opened, unit, schema = request.opened, request.unit, request.modelled.schema
    unequal = request.weight is not None or (unit is not None and unit.bound > 1)
    pending = (a.name for a in request.schema if is_pending(a) and a.name in schema)
    cut = tuple(request.observed_requirement((name,)) for name in pending)
    kinds = request.modelled.kinds if request.strategy.models_missingness else ()
    levels = min(_MOST_OPEN_SHARE, _OPEN_SHARE * len(opened))
    parts = [
        Part(OPEN, levels, (RequiredAttributes(),) * len(opened)),
        Part(SIZES, _SIZES_SHARE),
        Part(BINS, _CUTS_SHARE, cut, kind="other"),
        Part(
            KINDS,
            min(_MOST_KINDS_SHARE, _KIND_SHARE * len(kinds)),
            (RequiredAttributes(),) * len(kinds),
        ),
    ]
    return list(compress(parts, map(bool, (opened, unequal, cut, kinds))))


def release_bins(
    session: Session, grid: Schema, schema: Schema, plan: BudgetPlan
) -> tuple[Schema, dict[str, NDArray[np.float64]]]:
    """Release bins of the numeric attributes that have none, and the intervals that noise hides.

    Parameters
    ----------
    session : Session
        Measures rows that are coded on ``grid``.
    grid : Schema
        The public fine grids of the numeric attributes.
    schema : Schema
        The schema in which bins are pending.
    plan : BudgetPlan
        States the cost of the tree of each attribute.

    Returns
    -------
    Schema
        ``schema`` with bins that are narrow where rows are. Released.
    dict of str to ndarray of shape (n_intervals, 4)
        For each attribute, the intervals whose counts did not stand out of the noise. A row is the
        least number, the greatest number, the noisy count in rows and its standard deviation.
        Released.
    """
    wanted = [a for a in schema if is_pending(a) and a.name in session.facts.schema]
    session.expect(Marginal((name,)) for name in session.facts.schema.names)
    unit = Noise.worth(session.left).std
    found, hidden = {}, {}
    for a, cost in zip(wanted, plan.costs(BINS), strict=True):
        cells = grid[a.name]
        assert isinstance(cells, Numeric)
        histogram, outside = _histogram(session, a.name, cells, cost)
        found[a.name] = replace(a, bins=find_bins(cells, histogram, unit=unit))
        least, greatest = cells.code_ranges
        first, last = outside[:, 0].astype(int), outside[:, 1].astype(int) - 1
        hidden[a.name] = np.column_stack([least[first], greatest[last], outside[:, 2:]])
    return schema.with_attributes(found), hidden


def _measured(session: Session, tree: Tree, cost: Cost) -> tuple[list[Ints], Noise]:
    """Return noisy counts of the nodes of a dyadic tree, by level, and the noise of each count."""
    found = session.measure(tree, cost)
    assert isinstance(found.mechanism, Noise)
    ends = np.cumsum([1 << level for level in tree.levels])[:-1]
    return np.split(np.asarray(found.value), ends), found.mechanism


def _histogram(
    session: Session, name: str, grid: Numeric, cost: Cost
) -> tuple[Histogram, NDArray[np.float64]]:
    """Return how an attribute is distributed, by a tree where rows are, and what is outside."""
    every, share = (3, 0.2) if cost.privacy_measure == "pure" else (2, 0.1)
    size = grid.size
    within, outside = (0, size), np.zeros((0, 4))
    if depth_of(size) > _LOOK + 2:
        look = Tree(name=name, size=size, levels=(_LOOK,), within=within)
        (counts,), noise = _measured(session, look, replace(cost, amount=cost.amount * share))
        within = occupied(counts, std=noise.std, size=size)
        outside = _unseen(counts, noise.std, within, size)
        cost = replace(cost, amount=cost.amount * (1 - share))
    inside = within[1] - within[0]
    levels = measured_levels(inside, every=every)
    whole = Tree(name=name, size=size, levels=levels, within=within)
    tree, noise = _measured(session, whole, cost)
    least, greatest = (ends[slice(*within)] for ends in grid.code_ranges)
    heap = _PURE_HEAP if cost.privacy_measure == "pure" else SPIKE
    reach = least, greatest
    histogram = fit_histogram(
        tree, std=noise.std, size=inside, levels=levels, reach=reach, heap=heap
    )
    near = beyond(
        tree, std=noise.std, size=inside, levels=levels, kept=histogram.sure or (0, inside)
    )
    near[:, :2] += within[0]
    starts, rows = histogram.starts + within[0], histogram.mass * histogram.rows
    hidden = np.concatenate([near, outside])
    ends = 2 if len(rows) > 2 or inside < size else 0  # of noise alone nothing falls off
    for _ in range(ends):  # the end, and the beginning
        starts, rows, hidden = _to_the_end(starts, rows, hidden, size=size, std=noise.std)
        hidden[:, :2] = size - hidden[:, 1::-1]
        starts, rows = size - starts[::-1], rows[::-1]
    if np.count_nonzero(rows) == 1 and histogram.likely is not None:
        # All else will be in one wide bin; where in it is likely, counts that noise may be tell.
        below = np.append(0.0, np.cumsum(histogram.likely))
        rows = rows + _LEAST * histogram.rows * np.diff(
            np.interp(starts, histogram.starts + within[0], below)
        )
    return Histogram(starts, rows / max(float(rows.sum()), _LEAST), histogram.rows), hidden


def _to_the_end(
    starts: NDArray[np.int64],
    rows: NDArray[np.float64],
    hidden: NDArray[np.float64],
    *,
    size: int,
    std: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return how rows lie in the last interval that has any, and beyond it; and what noise hides.

    Rows further out than the range were counted at its end. They are as many as it has more than
    those beside it would tell, if a first look may have missed so many.
    """
    cells, stop = np.diff(starts), int(starts[-1])
    at = int(np.flatnonzero(rows > 0).max(initial=0))
    if at > 1 and rows[at] < _PLAIN * std and cells[at - 1] > 1:  # noise may be all of it
        rows = np.add.reduceat(rows, np.delete(np.arange(len(rows)), at))
        starts, at = np.delete(starts, at), at - 1
        cells = np.diff(starts)
    beside = slice(max(0, at - _BESIDE), at) if at else slice(1)
    even = float(np.median(rows[beside] / cells[beside]))
    low, high, counts, stds = hidden.T
    beyond, more = low >= stop, 0.0
    if at == len(rows) - 1 and stop < size:
        nearest = np.flatnonzero(beyond)[np.argsort(low[beyond])][:_NEAREST]
        seen, doubt = counts[nearest].sum(), np.sqrt(np.square(stds[nearest]).sum())
        most = float(seen + doubt if seen > doubt else max(0.0, seen))
        more = min(float(rows[at]) - even * int(cells[at]), most)
        more = more if more > _PILED * std else 0.0
    stops, inside = falling(float(rows[at]) - more, int(cells[at]), even=even)
    ends, outside = np.array([stop]), np.zeros(0)
    if more:
        further, outside = falling(more, min(size - stop, max(1, stop // 4)), even=even)
        ends = np.append(stop, stop + further)
    below = np.append(0.0, np.cumsum(outside))
    known = np.interp(high, ends, below) - np.interp(low, ends, below)
    low = np.where(beyond, np.maximum(low, ends[-1]), low)
    left = np.column_stack([low, high, counts - known, stds])[high > low]
    starts = np.concatenate([starts[: at + 1], starts[at] + stops, starts[at + 2 :], ends[1:]])
    rows = np.concatenate([rows[:at], inside, rows[at + 1 :], outside])
    if starts[-1] < size:
        starts, rows = np.append(starts, size), np.append(rows, 0.0)
    return starts, rows, left


def _unseen(
    counts: NDArray[np.int64], std: float, within: tuple[int, int], size: int
) -> NDArray[np.float64]:
    """Return what a first look counted outside of an interval of cells, as by `beyond`."""
    width = (1 << depth_of(size)) // len(counts)
    first = np.arange(len(counts)) * width
    after = np.minimum(first + width, size)
    found = np.column_stack([first, after, counts, np.full(len(counts), std)])
    return found[(first < size) & ((after <= within[0]) | (first >= within[1]))]


def find_bins(grid: Numeric, histogram: Histogram, *, unit: float) -> Binning:
    """Return bins and spikes where a histogram on the grid of an attribute has its mass.

    Parameters
    ----------
    grid : Numeric
        The attribute with the bins of the search grid.
    histogram : Histogram
        Released.
    unit : float
        Standard deviation of the noise of one count that all of the budget is spent on, in rows.

    Returns
    -------
    Binning
        At most ``MAX_CODES`` bins and spikes.

    Examples
    --------
    >>> from missdp.synth.search_grid import with_pending_bins, with_search_grid
    >>> schema = Schema((Numeric(name="x", lower=0, upper=99, integer=True),))
    >>> grid = with_search_grid(with_pending_bins(schema, ["x"]))["x"]
    >>> histogram = Histogram(np.array([0, 1, 5, 10, 100]), np.array([0.5, 0.2, 0.3, 0.0]), 1e4)
    >>> found = find_bins(grid, histogram, unit=4.0)
    >>> found.spikes, found.edges
    ((0.0,), (0.0, 5.0, 99.0))
    """
    if len(histogram.mass) <= 2:  # noise is all there is
        return Binning(edges=_even(grid), source=BinSource.PENDING)
    first, last = (
        grid.code_ranges[0][histogram.starts[:-1]],
        grid.code_ranges[1][histogram.starts[1:] - 1],
    )
    heavy = np.flatnonzero((first == last) & (histogram.mass > 1 / (2 * _BINS)))
    heavy = heavy[np.argsort(-histogram.mass[heavy], kind="stable")][: MAX_CODES - 1]
    spikes = np.sort(first[heavy])
    rest = histogram.mass.copy()
    rest[heavy] = 0.0
    pieces, shares = _pieces(grid, histogram.starts, rest)
    share = float(rest.sum())
    large = min(_MOST_BINS, share * histogram.rows / unit / _LARGE)
    bins = max(1, round(max(_BINS * share, large)))
    edges = _quantiles(pieces, shares, min(bins, MAX_CODES - len(spikes)))
    apart = _apart(edges, pieces, shares, spikes[np.isin(spikes, pieces)])  # to the last bit
    edges = apart if len(apart) + len(spikes) <= MAX_CODES + 1 else edges
    narrow = _narrow_spikes(grid, pieces, shares)
    of = np.searchsorted(edges, pieces[:-1], side="right") - 1  # the bin of each piece
    known = np.bincount(of, weights=shares)[of] > 0
    shares = np.where(known, shares, _fading(pieces, shares, spikes))
    pieces, shares = _with_points(pieces, shares, narrow)
    return Binning(
        edges=tuple(edges.tolist()),
        spikes=tuple(spikes.tolist()),
        subintervals=tuple(pieces.tolist()),
        weights=tuple(shares.tolist()),
        source=BinSource.PENDING,
    )


def _even(grid: Numeric) -> tuple[float, ...]:
    """Return edges of a grid that make bins of about equal width."""
    edges = grid.bin_edges
    wanted = np.linspace(grid.lower, grid.upper, _BINS + 1)
    return tuple(np.unique([edges[np.abs(edges - one).argmin()] for one in wanted]).tolist())


def _pieces(
    grid: Numeric, starts: NDArray[np.int64], mass: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return where pieces begin, a number and the interval after it being one, and their mass."""
    edges, least = grid.bin_edges, grid.code_ranges[0]
    place = np.searchsorted(edges, least[starts[:-1]], side="right") - 1
    first = edges[np.clip(place, 0, len(edges) - 2)]
    pieces, piece = np.unique(first, return_inverse=True)
    shares = np.bincount(piece, weights=mass)
    return np.append(pieces, edges[-1]), np.asarray(shares, dtype=np.float64)


def _narrow_spikes(
    grid: Numeric, pieces: NDArray[np.float64], shares: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return which pieces are single cells of the grid with more rows than on either side.

    All other numbers must be spread far wider than a cell, or a cell may hold most of what varies.
    """
    if grid.integer or grid.step is not None:
        return np.zeros(len(shares), dtype=bool)
    cells, widths = np.diff(np.searchsorted(grid.bin_edges, pieces)), np.diff(pieces)
    density = np.pad(shares / widths, 1)
    beside = np.maximum(density[:-2], density[2:])
    below = np.append(0.0, np.cumsum(shares))
    low, high = np.interp([0.05 * below[-1], 0.95 * below[-1]], below, pieces)
    alone = (cells == 1) & (widths <= _WIDEST * (high - low))
    return np.asarray(alone & (density[1:-1] > _LEAST_RATIO * beside))


def _with_points(
    pieces: NDArray[np.float64], shares: NDArray[np.float64], narrow: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return pieces and shares in which each narrow spike is one number.

    People round, and so do scales: many rows at 1.57 are seen as many in a cell around it. The
    number of the cell with the fewest decimals is taken as the value.
    """
    starts, mass = list[NDArray[np.float64]](), list[NDArray[np.float64]]()
    for low, high, share, spike in zip(pieces[:-1], pieces[1:], shares, narrow, strict=True):
        parts, weights, kept = np.array([low]), np.array([share]), np.array([True])
        if spike:
            point = _roundest(float(low), float(high))
            parts, weights = np.array([low, point, np.nextafter(point, np.inf)]), share * _MIDDLE
            kept = np.append(np.diff(parts) > 0, parts[-1] < high)
        starts.append(parts[kept])
        mass.append(weights[kept])
    return np.concatenate([*starts, pieces[-1:]]), np.concatenate(mass)


def _roundest(low: float, high: float) -> float:
    """Return the number in [low, high) with the fewest decimals; of several one in the middle.

    >>> _roundest(1.5698, 1.5702), _roundest(0.0, 3.0), _roundest(1234.0, 1290.0)
    (1.57, 0.0, 1260.0)
    >>> _roundest(-1.5702, -1.5698), _roundest(-1290.0, -1234.0)
    (-1.57, -1260.0)
    """
    if low <= 0 < high:
        return 0.0
    for digits in range(-math.floor(math.log10(high - low)) - 1, _MOST_DIGITS):
        first, last = math.ceil(low * 10.0**digits), math.ceil(high * 10.0**digits) - 1
        middle = first + (last - first + (first < 0)) // 2
        point = float(f"{middle}e{-digits}")
        if first <= last and low <= point < high:
            return point
    return low


def _apart(
    edges: NDArray[np.float64],
    pieces: NDArray[np.float64],
    shares: NDArray[np.float64],
    spikes: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return edges, and those spikes that have much of a bin's mass on either side of them.

    Else small and large numbers share a bin whenever what is between them are spikes.
    """
    found = [edges[0]]
    for low, high in pairwise(edges):
        own = (pieces[:-1] >= low) & (pieces[:-1] < high)
        start, mass = pieces[:-1][own], shares[own]
        for spike in spikes[(spikes > low) & (spikes < high)]:
            below = mass[(start >= found[-1]) & (start < spike)].sum()
            if min(below, mass[start >= spike].sum()) > _LEAST_BIN:
                found.append(spike)
        found.append(high)
    return np.array(found)


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


SIZES = "what units count"
_CLEARLY = 2.0  # standard deviations: of less it is not known that it is more than nothing


@dataclass(frozen=True, kw_only=True)
class EffectiveSize(Record):
    """What was released of how much units count; all numbers are in rows that count as one.

    ``total`` is what all units count, ``square`` the sum of the squares of what each counts over
    ``bound``, the most that one counts, and ``std`` the noise of that sum. Rows count by
    ``weight``, or as one.

    >>> size = EffectiveSize(total=1000.0, square=600.0, std=2.0, bound=5.0, weight=None)
    >>> size.design, size.units
    (3.0, 333.3333333333333)
    """

    total: float
    square: float
    std: float
    bound: float
    weight: SurveyWeight | None

    @property
    def design(self) -> float:
        """By how much sums vary more than those of as many independent rows that count as one."""
        square = max(self.square, _CLEARLY * self.std) * self.bound
        least = 1.0 if self.weight is None else 0.0
        return min(self.bound, max(least, square / max(self.total, 1.0)))

    @property
    def units(self) -> float:
        """The effective size."""
        return max(1.0, self.total / self.design)

    @property
    def full(self) -> tuple[float, float]:
        """Least and greatest share of what counts that is of units that count the bound.

        Reckoned from the mean of what a row's unit counts, the sum of squares over the sum, noise
        included: units that count less count 1 to ``bound - 1`` rows, or any part of one by weight.
        """
        around = _CLEARLY * self.std * 2 * self.bound / max(self.total, 1.0)
        mean = self.square * self.bound / self.total if self.total > 0 else self.bound
        if self.weight is not None:
            return 0.0, min(1.0, max(0.0, (mean + around) / self.bound))
        rest = max(1.0, self.bound - 1)
        low, high = mean - around - rest, (mean + around - 1) / rest
        return min(1.0, max(0.0, low)), min(1.0, max(0.0, high))

    @property
    def population(self) -> float | None:
        """The sum of all survey weights, each up to the largest that counts."""
        return None if self.weight is None else max(0.0, self.total) * self.weight.upper


def release_sizes(
    session: Session, plan: BudgetPlan, unit: Unit | None, weight: SurveyWeight | None
) -> EffectiveSize | None:
    """Release the weight of all units and its sum of squares, if that is a part of the budget.

    Parameters
    ----------
    session : Session
        Answers `UnitSums`.
    plan : BudgetPlan
        The parts of the budget.
    unit : Unit or None
        The declared unit. None: each row is a unit.
    weight : SurveyWeight or None
        The declared weight of rows. None: each row counts as one.

    Returns
    -------
    EffectiveSize or None
        Released. None if the plan has no part for it.
    """
    if SIZES not in plan:
        return None
    found = session.measure(UnitSums(), plan.cost(SIZES))
    assert isinstance(found.mechanism, Noise)
    bound, (total, square) = 1 if unit is None else unit.bound, found.values.tolist()
    std = found.mechanism.std
    return EffectiveSize(total=total, square=square, std=std, bound=float(bound), weight=weight)


_NOTHING = 0.99  # shares so far apart tell nothing


def left_out(size: EffectiveSize | None, guarantee: Guarantee, *, weighed: bool) -> str:
    """Say what is known, from what was released, of rows and weight that did not take part."""
    unit, own = guarantee.unit, "to tell it takes a release of its own"
    if unit == ROW and not weighed:
        return "No row was left out for its unit, and none counts less than one."
    if unit == ROW and size is not None:
        return (
            f"At most about {size.full[1]:.0%} of the weight that counts may be of rows whose "
            "weight is at the largest that counts: only of these was weight cut off, if of any. "
            "How much is not known; compare the sum of the weights with a total that is known."
        )
    low, high = (0.0, 1.0) if size is None or weighed else size.full
    if high - low < _NOTHING:
        return (
            f"About {low:.0%} to {high:.0%} of the rows that took part belong to a {unit} with "
            f"{guarantee.max_rows} of them, as many as may: only these can have had more. How many "
            f"rows did not take part is not known: {own}."
        )
    cut = ", or how much weight was cut off," if weighed else ""
    return f"How many rows of a {unit} did not take part{cut} is not known: {own}."


def check_open(request: Request[Any]) -> None:
    """Refuse, before anything is charged, a fit that cannot find levels."""
    names, budget = request.opened, request.parameters.budget
    if not names:
        return
    if request.delta == 0:
        raise ParameterError(
            f"the levels of {names[0]!r} are open, and finding them needs a delta above 0: state "
            "one, or declare the levels"
        )
    if budget is not None:
        _check_shared(budget, request)
    if request.family.budget(request).delta > request.delta_to_spend:
        family = type(request.parameters).__name__
        raise ParameterError(f"{family} cannot find open levels: declare them")


def _check_shared(budget: Filter | Composition, request: Request[Any]) -> None:
    """Refuse a shared budget that does not count failures."""
    (failure,) = request.failures
    other = f"Filter(..., failure=...) with a failure of at least {failure.delta:g}"
    if budget.charged_first:
        other = "one of a ledger in the privacy measure 'zcdp', made with a delta and failure=..."
    refused = ParameterError(
        f"the levels of {request.opened[0]!r} are open, and a rare one may leave with a small "
        f"probability, which this budget does not count: declare the levels, or use {other}"
    )
    if isinstance(budget, Filter) and not budget.failure:
        raise refused
    with replacing(UnprovenError, by=refused):
        budget.can_afford(failure)


def release_levels(
    session: Session, attributes: Sequence[OpenCategorical], plan: BudgetPlan, *, failure: float
) -> dict[str, tuple[str, ...]]:
    """Release the levels of attributes that declare none.

    Parameters
    ----------
    session : Session
        Answers `OccurringValues`.
    attributes : sequence of OpenCategorical
        The attributes with open levels, at least one.
    plan : BudgetPlan
        States the cost of the levels of each attribute.
    failure : float
        The probability, above 0, that rare values of any attribute are released.

    Returns
    -------
    dict of str to tuple of str
        The released levels of each attribute.
    """
    each, levels = float_down(exact(failure) / len(attributes)), {}
    for attribute, cost in zip(attributes, plan.costs(OPEN), strict=True):
        how = FrequentValues(Noise.worth(cost).scale, each, attribute.max_levels)
        levels[attribute.name] = tuple(session.measure(OccurringValues(attribute.name), how).value)
    return levels


KindShares = Mapping[str, NDArray[np.float64]]
"""For each attribute with several kinds of missing values, their released shares."""


def release_kinds(
    session: Session, names: Iterable[str], plan: BudgetPlan
) -> dict[str, NDArray[np.float64]]:
    """Release the shares of the kinds of missing values, by attribute.

    Parameters
    ----------
    session : Session
        Answers `Kinds`.
    names : iterable of str
        Attributes with several kinds of missing values.
    plan : BudgetPlan
        States the noise of the counts.

    Returns
    -------
    dict of str to ndarray of shape (n_kinds,)
        For each attribute, shares that sum to 1. Values that are missing for no declared reason
        come first. Empty if the plan has no part for kinds.
    """
    shares: dict[str, NDArray[np.float64]] = {}
    for name in names if KINDS in plan else ():
        counts = session.measure(Kinds(name), plan.noise(KINDS)).values.clip(min=0.0)
        plain = np.eye(1, len(counts))[0]
        shares[name] = counts / counts.sum() if counts.sum() > 0 else plain
    return shares
