"""Releases that precede the fit of every family: levels, effective size, bins, kinds of missing.

* Levels of open attributes. The proof is in `missdp.session.frequent_values`. Costs add up as those
  of Gaussian releases. Failures are subtracted from the delta of the fit before the rest is
  converted.
* Effective size (Kish 1965), if rows count unequally. A unit counts as the sum of its rows, and
  units are independent. So a sum over units varies as if ``(Σ W)² / Σ W²`` units counted equally.
  This number is at most the number of units, and equal to it if all units count equally.
* Bins of numeric attributes that declare none, found by a noisy tree. They have about equal mass. A
  number that many rows have is a spike. Values inside a bin are drawn by the counts of the tree.
* Shares of the kinds of missing values.

Everything here is post-processing of answers of a session.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress, pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pydantic.dataclasses import dataclass

from missdp.accounting import Composition, Cost, Filter, Guarantee
from missdp.accounting.events import ROW
from missdp.accounting.exact import exact, float_down
from missdp.errors import ParameterError, UnprovenError, replacing
from missdp.inference.dyadic import (
    SPIKE,
    Histogram,
    decaying_tail,
    fit_histogram,
    measured_levels,
    occupied_range,
    tail_counts,
    tree_depth,
)
from missdp.schema import Numeric, OpenCategorical, Schema, SurveyWeight, Unit
from missdp.schema.binning import Binning, BinSource
from missdp.serialization import Record
from missdp.session import Marginal, MissingKinds, Noise, Session, Tree, UnitSums
from missdp.session.frequent_values import FrequentValues, OccurringValues
from missdp.synth.search_grid import MAX_CODES, is_pending
from missdp.synth.split import BINS, KINDS, BudgetPlan, Part, RequiredAttributes
from missdp.types import Flags, Floats, Ints

if TYPE_CHECKING:
    from missdp.synth.family import Request

OPEN: Final = "open levels"
_BINS_SHARE = 0.3  # share of the budget for the trees of all attributes without bins
_SIZES_SHARE = 0.02  # share of the budget for the effective size
# Shares of the budget for open levels: of one attribute, and of all at most.
_OPEN_SHARE, _MAX_OPEN_SHARE = 0.12, 0.3
# Shares of the budget for kinds: of one attribute, and of all at most.
_KIND_SHARE, _MAX_KINDS_SHARE = 0.02, 0.06
_PURE_SPIKE = 8.4  # SDs of Laplace noise with the tail probability of `SPIKE` SDs of Gaussian noise
_FADE = 0.25  # ratio of the shares of neighbouring segments without clear mass
_MIN_MASS = 1e-6  # share of the rows that replaces 0
_FIRST_LEVEL = 4  # level of the tree that finds the occupied range
_NEIGHBOURS = 4  # intervals that predict the number of rows of the last interval
_PILE_SD = 2.0  # SDs by which the last interval must exceed this prediction
_CLEAR_SD = 3.5  # SDs from which an interval is separated from its predecessor
_FIRST_COUNTS = 2  # counts of the first tree that decide whether rows lie outside the range
_BINS = 10  # bins of equal mass for all rows, and in proportion for the rows outside spikes
_MIN_BIN = 0.02  # share of the rows on each side of a spike that divides a bin
_MAX_BINS = 16  # bins if counts are so large that noise is negligible
_MIN_RATIO = 3.0  # density of a narrow spike relative to both of its neighbours
# Largest width of the cell of a narrow spike, relative to the range of 90 % of the rows.
_WIDEST = 0.01
_IN_CELL = np.array([0.0, 1.0, 0.0])  # masses before, at and after a spike in its cell
_MAX_DIGITS = 300  # decimals that are tried
_LARGE_BIN = 1000  # rows in a bin, in units of noise, with which there may be more than ten bins


def first_parts(request: Request[Any]) -> list[Part]:
    """Return the public parts of a budget that all families have: levels, sizes, bins, kinds."""
    opened, unit, schema = request.opened, request.unit, request.modelled.schema
    unequal = request.weight is not None or (unit is not None and unit.bound > 1)
    pending = (a.name for a in request.schema if is_pending(a) and a.name in schema)
    bin_requirements = tuple(request.observed_requirement((name,)) for name in pending)
    kinds = request.modelled.kinds if request.strategy.models_missingness else ()
    levels = min(_MAX_OPEN_SHARE, _OPEN_SHARE * len(opened))
    parts = [
        Part(OPEN, levels, (RequiredAttributes(),) * len(opened)),
        Part(SIZES, _SIZES_SHARE),
        Part(BINS, _BINS_SHARE, bin_requirements, kind="other"),
        Part(
            KINDS,
            min(_MAX_KINDS_SHARE, _KIND_SHARE * len(kinds)),
            (RequiredAttributes(),) * len(kinds),
        ),
    ]
    return list(compress(parts, map(bool, (opened, unequal, bin_requirements, kinds))))


def release_bins(
    session: Session, grid: Schema, schema: Schema, plan: BudgetPlan
) -> tuple[Schema, dict[str, Floats]]:
    """Release bins of numeric attributes, and the intervals whose rows noise hides.

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
        ``schema`` with bins that are narrow where many rows are. Released.
    dict of str to ndarray of shape (n_intervals, 4)
        For each attribute, the intervals whose counts did not exceed the noise. A row has the lower
        bound, the upper bound, the noisy count in rows and its standard deviation. Released.
    """
    pending = [a for a in schema if is_pending(a) and a.name in session.facts.schema]
    session.expect(Marginal((name,)) for name in session.facts.schema.names)
    unit = Noise.from_cost(session.remaining).std
    attributes, hidden = {}, {}
    for a, cost in zip(pending, plan.costs(BINS), strict=True):
        cells = grid[a.name]
        assert isinstance(cells, Numeric)
        histogram, outside = _measure_histogram(session, a.name, cells, cost)
        attributes[a.name] = replace(a, bins=find_bins(cells, histogram, unit=unit))
        lower, upper = cells.code_ranges
        first, last = outside[:, 0].astype(int), outside[:, 1].astype(int) - 1
        hidden[a.name] = np.column_stack([lower[first], upper[last], outside[:, 2:]])
    return schema.with_attributes(attributes), hidden


def _measure_tree(session: Session, tree: Tree, cost: Cost) -> tuple[list[Ints], Noise]:
    """Return noisy counts of the nodes of a dyadic tree, by level, and the noise of each count."""
    answer = session.measure(tree, cost)
    assert isinstance(answer.mechanism, Noise)
    ends = np.cumsum([1 << level for level in tree.levels])[:-1]
    return np.split(np.asarray(answer.value), ends), answer.mechanism


def _measure_histogram(
    session: Session, name: str, grid: Numeric, cost: Cost
) -> tuple[Histogram, Floats]:
    """Return the released distribution of an attribute, and the counts outside its range."""
    every, share = (3, 0.2) if cost.privacy_measure == "pure" else (2, 0.1)
    size = grid.size
    within, outside = (0, size), np.zeros((0, 4))
    if tree_depth(size) > _FIRST_LEVEL + 2:
        look = Tree(name=name, size=size, levels=(_FIRST_LEVEL,), within=within)
        (counts,), noise = _measure_tree(session, look, replace(cost, amount=cost.amount * share))
        within = occupied_range(counts, std=noise.std, size=size)
        outside = _outside_counts(counts, noise.std, within, size)
        cost = replace(cost, amount=cost.amount * (1 - share))
    inside = within[1] - within[0]
    levels = measured_levels(inside, every=every)
    full_tree = Tree(name=name, size=size, levels=levels, within=within)
    tree, noise = _measure_tree(session, full_tree, cost)
    lower, upper = (ends[slice(*within)] for ends in grid.code_ranges)
    min_spike = _PURE_SPIKE if cost.privacy_measure == "pure" else SPIKE
    histogram = fit_histogram(
        tree, std=noise.std, size=inside, levels=levels, reach=(lower, upper), min_spike=min_spike
    )
    retained = histogram.certain_range or (0, inside)
    near = tail_counts(tree, std=noise.std, size=inside, levels=levels, retained=retained)
    near[:, :2] += within[0]
    starts, rows = histogram.starts + within[0], histogram.mass * histogram.rows
    hidden = np.concatenate([near, outside])
    ends = 2 if len(rows) > 2 or inside < size else 0  # a tree of noise has no tails
    for _ in range(ends):  # both ends
        starts, rows, hidden = _with_tail(starts, rows, hidden, size=size, std=noise.std)
        hidden[:, :2] = size - hidden[:, 1::-1]
        starts, rows = size - starts[::-1], rows[::-1]
    if np.count_nonzero(rows) == 1 and histogram.likely is not None:
        # All other rows are in one wide bin. Uncertain counts say where in it they are likely.
        below = np.append(0.0, np.cumsum(histogram.likely))
        rows = rows + _MIN_MASS * histogram.rows * np.diff(
            np.interp(starts, histogram.starts + within[0], below)
        )
    return Histogram(starts, rows / max(float(rows.sum()), _MIN_MASS), histogram.rows), hidden


def _with_tail(
    starts: Ints,
    rows: Floats,
    hidden: Floats,
    *,
    size: int,
    std: float,
) -> tuple[Ints, Floats, Floats]:
    """Return the rows in the last occupied interval, the rows outside it, and the hidden counts.

    Rows outside the range were counted at its end. Their number is the excess of the last interval
    over a prediction by its neighbours, if a first tree may have missed as many rows.
    """
    cells, stop = np.diff(starts), int(starts[-1])
    at = int(np.flatnonzero(rows > 0).max(initial=0))
    if at > 1 and rows[at] < _CLEAR_SD * std and cells[at - 1] > 1:  # it may be noise only
        rows = np.add.reduceat(rows, np.delete(np.arange(len(rows)), at))
        starts, at = np.delete(starts, at), at - 1
        cells = np.diff(starts)
    neighbours = slice(max(0, at - _NEIGHBOURS), at) if at else slice(1)
    even = float(np.median(rows[neighbours] / cells[neighbours]))
    low, high, counts, stds = hidden.T
    outer, more = low >= stop, 0.0
    if at == len(rows) - 1 and stop < size:
        nearest = np.flatnonzero(outer)[np.argsort(low[outer])][:_FIRST_COUNTS]
        observed, doubt = counts[nearest].sum(), np.sqrt(np.square(stds[nearest]).sum())
        max_more = float(observed + doubt if observed > doubt else max(0.0, observed))
        more = min(float(rows[at]) - even * int(cells[at]), max_more)
        more = more if more > _PILE_SD * std else 0.0
    stops, inside = decaying_tail(float(rows[at]) - more, int(cells[at]), even=even)
    ends, outside = np.array([stop]), np.zeros(0)
    if more:
        outer_stops, outside = decaying_tail(more, min(size - stop, max(1, stop // 4)), even=even)
        ends = np.append(stop, stop + outer_stops)
    below = np.append(0.0, np.cumsum(outside))
    explained = np.interp(high, ends, below) - np.interp(low, ends, below)
    low = np.where(outer, np.maximum(low, ends[-1]), low)
    remaining = np.column_stack([low, high, counts - explained, stds])[high > low]
    starts = np.concatenate([starts[: at + 1], starts[at] + stops, starts[at + 2 :], ends[1:]])
    rows = np.concatenate([rows[:at], inside, rows[at + 1 :], outside])
    if starts[-1] < size:
        starts, rows = np.append(starts, size), np.append(rows, 0.0)
    return starts, rows, remaining


def _outside_counts(counts: Ints, std: float, within: tuple[int, int], size: int) -> Floats:
    """Return the counts of a first tree outside an interval of cells, as `tail_counts` does."""
    width = (1 << tree_depth(size)) // len(counts)
    first = np.arange(len(counts)) * width
    after = np.minimum(first + width, size)
    intervals = np.column_stack([first, after, counts, np.full(len(counts), std)])
    return intervals[(first < size) & ((after <= within[0]) | (first >= within[1]))]


def find_bins(grid: Numeric, histogram: Histogram, *, unit: float) -> Binning:
    """Return bins and spikes where a histogram on the grid of an attribute has its mass.

    Parameters
    ----------
    grid : Numeric
        The attribute with the bins of the search grid.
    histogram : Histogram
        The released distribution.
    unit : float
        Standard deviation of one count that the complete budget is spent on, in rows.

    Returns
    -------
    Binning
        At most ``MAX_CODES`` bins and spikes.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp import Numeric, Schema
    >>> from missdp.inference.dyadic import Histogram
    >>> from missdp.synth.first_parts import find_bins
    >>> from missdp.synth.search_grid import with_pending_bins, with_search_grid
    >>> schema = Schema((Numeric(name="x", lower=0, upper=99, integer=True),))
    >>> grid = with_search_grid(with_pending_bins(schema, ["x"]))["x"]
    >>> histogram = Histogram(np.array([0, 1, 5, 10, 100]), np.array([0.5, 0.2, 0.3, 0.0]), 1e4)
    >>> found = find_bins(grid, histogram, unit=4.0)
    >>> found.spikes, found.edges
    ((0.0,), (0.0, 5.0, 99.0))
    """
    if len(histogram.mass) <= 2:  # the counts are noise only
        return Binning(edges=_even_edges(grid), source=BinSource.PENDING)
    first, last = (
        grid.code_ranges[0][histogram.starts[:-1]],
        grid.code_ranges[1][histogram.starts[1:] - 1],
    )
    heavy = np.flatnonzero((first == last) & (histogram.mass > 1 / (2 * _BINS)))
    heavy = heavy[np.argsort(-histogram.mass[heavy], kind="stable")][: MAX_CODES - 1]
    spikes = np.sort(first[heavy])
    rest = histogram.mass.copy()
    rest[heavy] = 0.0
    segments, shares = _grid_segments(grid, histogram.starts, rest)
    share = float(rest.sum())
    large = min(_MAX_BINS, share * histogram.rows / unit / _LARGE_BIN)
    bins = max(1, round(max(_BINS * share, large)))
    edges = _quantile_edges(segments, shares, min(bins, MAX_CODES - len(spikes)))
    # Spikes between segments are equal to their edges, to the last bit.
    apart = _separated_edges(edges, segments, shares, spikes[np.isin(spikes, segments)])
    edges = apart if len(apart) + len(spikes) <= MAX_CODES + 1 else edges
    narrow = _narrow_spikes(grid, segments, shares)
    of = np.searchsorted(edges, segments[:-1], side="right") - 1  # the bin of each segment
    has_mass = np.bincount(of, weights=shares)[of] > 0
    shares = np.where(has_mass, shares, _fading_shares(segments, shares, spikes))
    segments, shares = _with_points(segments, shares, narrow)
    return Binning(
        edges=tuple(edges.tolist()),
        spikes=tuple(spikes.tolist()),
        subintervals=tuple(segments.tolist()),
        weights=tuple(shares.tolist()),
        source=BinSource.PENDING,
    )


def _even_edges(grid: Numeric) -> tuple[float, ...]:
    """Return edges of a grid that make bins of about equal width."""
    edges = grid.bin_edges
    targets = np.linspace(grid.lower, grid.upper, _BINS + 1)
    return tuple(np.unique([edges[np.abs(edges - one).argmin()] for one in targets]).tolist())


def _grid_segments(grid: Numeric, starts: Ints, mass: Floats) -> tuple[Floats, Floats]:
    """Return the edges of segments, a number with the interval after it, and their mass."""
    edges, lower = grid.bin_edges, grid.code_ranges[0]
    place = np.searchsorted(edges, lower[starts[:-1]], side="right") - 1
    first = edges[np.clip(place, 0, len(edges) - 2)]
    segments, segment = np.unique(first, return_inverse=True)
    shares = np.bincount(segment, weights=mass)
    return np.append(segments, edges[-1]), np.asarray(shares, dtype=np.float64)


def _narrow_spikes(grid: Numeric, segments: Floats, shares: Floats) -> Flags:
    """Return the segments that are single cells of the grid and denser than both neighbours.

    All other numbers must spread far wider than a cell. Otherwise a cell may hold most of the
    variation.
    """
    if grid.integer or grid.step is not None:
        return np.zeros(len(shares), dtype=bool)
    cells, widths = np.diff(np.searchsorted(grid.bin_edges, segments)), np.diff(segments)
    density = np.pad(shares / widths, 1)
    neighbours = np.maximum(density[:-2], density[2:])
    below = np.append(0.0, np.cumsum(shares))
    low, high = np.interp([0.05 * below[-1], 0.95 * below[-1]], below, segments)
    is_narrow = (cells == 1) & (widths <= _WIDEST * (high - low))
    return np.asarray(is_narrow & (density[1:-1] > _MIN_RATIO * neighbours))


def _with_points(segments: Floats, shares: Floats, narrow: Flags) -> tuple[Floats, Floats]:
    """Return segments and shares in which each narrow spike is one number.

    Rounded values cause narrow spikes: many rows at 1.57 are many rows in the cell around it. The
    number of the cell with the fewest decimals is taken as the value.
    """
    starts, mass = list[Floats](), list[Floats]()
    for low, high, share, spike in zip(segments[:-1], segments[1:], shares, narrow, strict=True):
        parts, weights, retained = np.array([low]), np.array([share]), np.array([True])
        if spike:
            point = _roundest(float(low), float(high))
            parts, weights = np.array([low, point, np.nextafter(point, np.inf)]), share * _IN_CELL
            retained = np.append(np.diff(parts) > 0, parts[-1] < high)
        starts.append(parts[retained])
        mass.append(weights[retained])
    return np.concatenate([*starts, segments[-1:]]), np.concatenate(mass)


def _roundest(low: float, high: float) -> float:
    """Return the number in [low, high) with the fewest decimals, and one in the middle of several.

    >>> from missdp.synth.first_parts import _roundest
    >>> _roundest(1.5698, 1.5702), _roundest(0.0, 3.0), _roundest(1234.0, 1290.0)
    (1.57, 0.0, 1260.0)
    >>> _roundest(-1.5702, -1.5698), _roundest(-1290.0, -1234.0)
    (-1.57, -1260.0)
    """
    if low <= 0 < high:
        return 0.0
    for digits in range(-math.floor(math.log10(high - low)) - 1, _MAX_DIGITS):
        first, last = math.ceil(low * 10.0**digits), math.ceil(high * 10.0**digits) - 1
        middle = first + (last - first + (first < 0)) // 2
        point = float(f"{middle}e{-digits}")
        if first <= last and low <= point < high:
            return point
    return low


def _separated_edges(
    edges: Floats,
    segments: Floats,
    shares: Floats,
    spikes: Floats,
) -> Floats:
    """Return edges and the spikes that have much of a bin's mass on both sides.

    Otherwise small and large numbers would share a bin if all numbers between them are spikes.
    """
    separated = [edges[0]]
    for low, high in pairwise(edges):
        inside = (segments[:-1] >= low) & (segments[:-1] < high)
        start, mass = segments[:-1][inside], shares[inside]
        for spike in spikes[(spikes > low) & (spikes < high)]:
            below = mass[(start >= separated[-1]) & (start < spike)].sum()
            if min(below, mass[start >= spike].sum()) > _MIN_BIN:
                separated.append(spike)
        separated.append(high)
    return np.array(separated)


def _fading_shares(segments: Floats, shares: Floats, spikes: Floats) -> Floats:
    """Return shares for bins without clear mass: largest next to segments with mass."""
    has_mass = shares > 0
    has_mass[np.searchsorted(segments[1:-1], spikes, side="right")] = True
    away = np.abs(np.subtract.outer(np.arange(len(shares)), np.flatnonzero(has_mass)))
    return _MIN_MASS * _FADE ** (away.min(axis=1) if has_mass.any() else np.zeros(len(shares)))


def _quantile_edges(segments: Floats, shares: Floats, bins: int) -> Floats:
    """Return the edges of bins whose shares are as equal as the segments allow, and above 0."""
    below = np.concatenate([[0.0], np.cumsum(shares)])
    targets = below[-1] * np.arange(1, bins) / bins
    nearest = {int(np.abs(below - share).argmin()) for share in targets}
    inner = [place for place in nearest if 0 < below[place] < below[-1]]
    return np.unique(np.concatenate([segments[:1], segments[inner], segments[-1:]]))


SIZES = "what units count"
_CLEARLY = 2.0  # SDs of noise: a smaller value may be 0


@dataclass(frozen=True, kw_only=True)
class EffectiveSize(Record):
    """Released sums of the weights of all units, from which the design effect of a fit follows.

    A unit is one row, or all rows of one person if the schema declares persons. Weights are in rows
    that count as one.

    Parameters
    ----------
    total : float
        Noisy sum of the weights of all units.
    square : float
        Noisy sum of the squared weights of all units, divided by ``bound``.
    std : float
        Standard deviation of the noise of ``square``.
    bound : float
        Largest weight of a unit. Public.
    weight : SurveyWeight or None
        The survey weight by which rows count, or None if each row counts as one.

    Examples
    --------
    >>> from missdp.synth.first_parts import EffectiveSize
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
        """Design effect: variance of sums, relative to independent rows that count as one."""
        square = max(self.square, _CLEARLY * self.std) * self.bound
        min_design = 1.0 if self.weight is None else 0.0
        return min(self.bound, max(min_design, square / max(self.total, 1.0)))

    @property
    def units(self) -> float:
        """The effective number of units, at least 1."""
        return max(1.0, self.total / self.design)

    @property
    def full(self) -> tuple[float, float]:
        """Smallest and largest share of the total weight of units that have the largest weight.

        The mean weight of a row's unit is the sum of squares over the sum, with its noise. Other
        units have 1 to ``bound - 1`` rows, or any part of one row by weight.
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
        """The sum of all survey weights, each up to the largest weight that counts."""
        return None if self.weight is None else max(0.0, self.total) * self.weight.upper


def release_sizes(
    session: Session, plan: BudgetPlan, unit: Unit | None, weight: SurveyWeight | None
) -> EffectiveSize | None:
    """Release the total weight of all units and its sum of squares, if the plan has a part for it.

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
    answer = session.measure(UnitSums(), plan.cost(SIZES))
    assert isinstance(answer.mechanism, Noise)
    bound, (total, square) = 1 if unit is None else unit.bound, answer.values.tolist()
    std = answer.mechanism.std
    return EffectiveSize(total=total, square=square, std=std, bound=float(bound), weight=weight)


_UNINFORMATIVE = 0.99  # difference of two shares from which they carry no information


def left_out(size: EffectiveSize | None, guarantee: Guarantee, *, weighed: bool) -> str:
    """Describe the rows and the weight that did not take part, from released values.

    Parameters
    ----------
    size : EffectiveSize or None
        Released weights of units.
    guarantee : Guarantee
        Names the unit and its largest number of rows.
    weighed : bool
        Whether rows count by survey weights.

    Returns
    -------
    str
        One to three sentences.
    """
    unit, release_needed = guarantee.unit, "an additional release would be needed to estimate it"
    if unit == ROW and not weighed:
        return "No row was left out because of its unit, and every row counts as one."
    if unit == ROW and size is not None:
        return (
            f"At most about {size.full[1]:.0%} of the weight that counts may belong to rows with "
            "the largest weight that counts. Only their weights may have been cut off. To find out "
            "how much, compare the sum of the weights with a known total."
        )
    low, high = (0.0, 1.0) if size is None or weighed else size.full
    if high - low < _UNINFORMATIVE:
        return (
            f"About {low:.0%} to {high:.0%} of the rows that took part belong to a {unit} with "
            f"{guarantee.max_rows} rows, the largest number. Only such a {unit} can have had more "
            f"rows. The number of rows left out is unknown: {release_needed}."
        )
    or_weight = " and the weight cut off are" if weighed else " is"
    return f"The number of rows of a {unit} left out{or_weight} unknown: {release_needed}."


def check_open(request: Request[Any]) -> None:
    """Raise an error, before any charge, for a fit that cannot find levels."""
    names, budget = request.opened, request.parameters.budget
    if not names:
        return
    if request.delta == 0:
        raise ParameterError(
            f"attribute {names[0]!r}: finding open levels needs a delta above 0. State a delta, or "
            "declare the levels."
        )
    if budget is not None:
        _check_shared(budget, request)
    if request.family.budget(request).delta > request.delta_to_spend:
        family = type(request.parameters).__name__
        raise ParameterError(f"{family} cannot find open levels. Declare the levels.")


def _check_shared(budget: Filter | Composition, request: Request[Any]) -> None:
    """Raise ParameterError for a shared budget that does not count failures."""
    (failure,) = request.failures
    other = f"Filter(..., failure=...) with a failure of at least {failure.delta:g}"
    if budget.charged_first:
        other = "a ledger budget in the privacy measure 'zcdp', with a delta and failure=..."
    refused = ParameterError(
        f"attribute {request.opened[0]!r}: finding open levels may release a rare level with a "
        "small probability, which this budget does not count. Declare the levels, or use "
        f"{other}."
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
        how = FrequentValues(Noise.from_cost(cost).scale, each, attribute.max_levels)
        levels[attribute.name] = tuple(session.measure(OccurringValues(attribute.name), how).value)
    return levels


KindShares = Mapping[str, Floats]
"""For each attribute with several kinds of missing values, their released shares."""


def release_kinds(session: Session, names: Iterable[str], plan: BudgetPlan) -> dict[str, Floats]:
    """Release the shares of the kinds of missing values, by attribute.

    Parameters
    ----------
    session : Session
        Answers `MissingKinds`.
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
    shares: dict[str, Floats] = {}
    for name in names if KINDS in plan else ():
        counts = session.measure(MissingKinds(name), plan.noise(KINDS)).values.clip(min=0.0)
        plain = np.eye(1, len(counts))[0]
        shares[name] = counts / counts.sum() if counts.sum() > 0 else plain
    return shares
