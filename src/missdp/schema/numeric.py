"""Numbers: what is public about a column of them, and how they are cut into bins and spikes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from missdp.schema.attributes import (
    MAX_LEVELS,
    MAX_WHOLE,
    Attribute,
    Categorical,
    Kind,
    Ordinal,
    is_number,
    number_text,
    read_number,
)
from missdp.types import Floats, Ints

_MOST_SPIKES = 1000
_NEAR = 1e-9  # of a step, by which arithmetic may have missed it
_LEAST_STEP = 1e-15  # beyond it decimals are no longer told apart
_DIGITS = 6  # of a number in steps
_BELOW_ONE = float(np.nextafter(1.0, 0.0))
_LEAST_SHARE = 1e-12


@dataclass(frozen=True, kw_only=True)
class Numeric(Attribute):
    """A bounded number, cut into bins wherever a finite domain is needed.

    Parameters
    ----------
    lower, upper : float
        Public bounds, ``lower < upper``; both belong to the domain.
    integer : bool, default False
        Whether the values are whole numbers.
    bins : int, optional
        Number of bins of equal width (10, or one per whole number if there are fewer).
    edges : tuple of float, optional
        Bin edges instead of ``bins``: increasing, from ``lower`` to ``upper``. Bins are closed on
        the left; the last one is closed on both sides.
    spikes : tuple of float, default ()
        Values at which many rows pile up, such as an income of 0. Each is counted by itself, as
        if it were a level, and drawn exactly; its bin keeps the other values.
    step : float, optional
        All values are ``lower`` plus a whole multiple of it: 0.01 for amounts in cents. Values are
        rounded to it as they are read.
    pieces, shares : tuple of float, optional
        Edges that divide the bins further, and how much of a bin's values lie in each piece, as
        a synthesizer released them: values inside a bin are drawn accordingly. Spikes do not count.
    cuts_from : str, optional
        The release that bins, spikes and pieces were found by; None if they were declared.

    Notes
    -----
    Without ``bins``, ``edges`` and ``spikes``, synthesizers find them privately, at a small share
    of the budget; all else takes ten bins of equal width.

    Examples
    --------
    >>> age = Numeric(name="age", lower=0, upper=100, integer=True, bins=10)
    >>> age.encode_values(np.array([0.0, 9.9, 10.0, 100.0])).tolist()
    [0, 0, 1, 9]
    >>> income = Numeric(name="income", lower=0, upper=1000, bins=2, spikes=(0,))
    >>> income.size, income.encode_values(np.array([0.0, 1.0, 1000.0])).tolist()
    (3, [0, 1, 2])
    """

    kind: ClassVar[str] = "numeric"
    lower: float
    upper: float
    integer: bool = False
    bins: int | None = None
    edges: tuple[float, ...] | None = None
    spikes: tuple[float, ...] = ()
    step: float | None = None
    pieces: tuple[float, ...] | None = None
    shares: tuple[float, ...] | None = None
    cuts_from: str | None = None

    def __post_init__(self) -> None:
        for number in ("lower", "upper", "step"):
            object.__setattr__(self, number, _as_float(getattr(self, number)))
        for fact in ("edges", "spikes", "pieces", "shares"):
            if isinstance(given := getattr(self, fact), (list, tuple)):
                object.__setattr__(self, fact, tuple(map(_as_float, given)))
        super().__post_init__()

    def plain(self) -> Numeric:
        """Return the same numbers, without what a kind of its own knows of them."""
        return Numeric(**{f.name: getattr(self, f.name) for f in fields(Numeric)})

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        bounds = (self.lower, self.upper)
        if not _all_finite(bounds):
            yield "lower and upper must be finite numbers"
        if not self.lower < self.upper:
            yield "lower must be below upper"
        if self.integer and not all(bound.is_integer() for bound in bounds):
            yield "integer attributes need whole-number bounds"
        if max(map(abs, bounds)) >= MAX_WHOLE:
            yield "lower and upper must be below 2**53 in size, where numbers are still told apart"
        yield from self._wrong_step()
        yield from self._wrong_bins()
        yield from self._wrong_pieces()
        for kind in self.kinds:
            yield from self._codes_that_are_values(kind)
        yield from self._labelled_nothing(self._is_value)
        if self.outside == "other" or self.other is not None:
            yield 'outside = "other" is for attributes with levels only'

    def _is_value(self, text: str) -> bool:
        """Whether a text is a number in the domain."""
        number = read_number(text)
        return number is not None and self.lower <= number <= self.upper

    def _codes_that_are_values(self, kind: Kind) -> Iterator[str]:
        fact, codes = "missing_codes" if kind == "missing" else kind, self.codes_of(kind)
        numbers = [read_number(c.strip()) for c in codes if isinstance(c, str)]
        if any(number is not None and not math.isnan(number) for number in numbers):
            yield f"{fact} of a numeric attribute that are numbers go without quotes"
        if any(is_number(c) and self.lower <= c <= self.upper for c in codes):
            yield (
                f"{fact} that are numbers must lie outside [lower, upper]: inside, they cannot be "
                "told from values"
            )

    def _wrong_step(self) -> Iterator[str]:
        step = self.step
        if step is None:
            return
        if not (_all_finite((step,)) and step > 0):
            yield "step must be a number above 0"
        if step < _LEAST_STEP:
            yield f"step must be at least {_LEAST_STEP:g}"
        if self.integer and not step.is_integer():
            yield "the step of an integer attribute must be a whole number"
        steps = (self.upper - self.lower) / step
        if not (steps < MAX_WHOLE and abs(steps - round(steps)) < _NEAR * max(1.0, steps)):
            yield "upper must be lower plus a whole multiple of step"

    def _wrong_pieces(self) -> Iterator[str]:
        if self.pieces is None and self.shares is None:
            return
        pieces, shares = self.pieces or (), self.shares or ()
        if len(pieces) != len(shares) + 1 or not _all_finite((*pieces, *shares)):
            yield "pieces must be finite edges, one more than there are shares"
        if np.any(np.diff(pieces) <= 0) or not {*self.bin_edges.tolist()} <= {*pieces}:
            yield "pieces must increase, and have the edges of all bins among them"
        if min(shares) < 0:
            yield "shares must be at least 0"

    def _wrong_bins(self) -> Iterator[str]:
        whole = type(self.bins) is int and 0 < self.bins <= MAX_LEVELS
        if self.bins is not None and not whole:
            yield f"bins must be a whole number from 1 to {MAX_LEVELS}"
        if self.bins is not None and self.edges is not None:
            yield "give bins or edges, not both"
        if self.edges is not None:
            numbers = isinstance(self.edges, tuple) and _all_finite(self.edges)
            if not numbers or len(self.edges) < 2 or np.any(np.diff(self.edges) <= 0):
                yield "edges must be at least two finite, strictly increasing numbers"
            if (self.edges[0], self.edges[-1]) != (self.lower, self.upper):
                yield "edges must start at lower and end at upper"
        if np.any(np.diff(self.bin_edges) <= 0):
            yield "bins are narrower than floating-point numbers can tell apart"
        yield from self._wrong_spikes()
        if self._whole and np.any(np.diff(self._bins.intervals.firsts) < 1):
            yield "every bin must hold a whole number, or a whole number of steps"

    def _wrong_spikes(self) -> Iterator[str]:
        spikes = self.spikes
        if not isinstance(spikes, tuple) or not all(isinstance(s, float) for s in spikes):
            yield "spikes must be a list of numbers"
        if not all(self.lower <= spike <= self.upper for spike in spikes):
            yield "spikes must lie inside [lower, upper]"
        if len(set(spikes)) < len(spikes):
            yield "spikes must be distinct"
        if len(spikes) > _MOST_SPIKES:
            yield f"at most {_MOST_SPIKES} spikes are supported; use bins, or an ordinal attribute"
        if self.integer and not all(spike.is_integer() for spike in spikes):
            yield "spikes of an integer attribute must be whole numbers"
        if self.step and not np.array_equal(self.on_step(np.array(spikes)), spikes):
            yield "spikes must lie on the step"

    @property
    def bin_edges(self) -> Floats:
        """Edges of the bins, shape ``(number of bins + 1,)``."""
        if self.edges is not None:
            return np.asarray(self.edges, dtype=np.float64)
        steps = round((self.upper - self.lower) / (self.step or 1.0))
        whole = steps + 1 if self._whole else 10
        return np.linspace(self.lower, self.upper, (self.bins or min(10, whole)) + 1)

    @property
    def _whole(self) -> bool:
        """Whether values are whole multiples of a step."""
        return self.integer or self.step is not None

    def _units(self, values: ArrayLike) -> Floats:
        """Return numbers in steps from ``lower``, or as they are."""
        found = np.asarray(values, dtype=np.float64)
        return found if self.step is None else np.round((found - self.lower) / self.step, _DIGITS)

    def _values(self, units: Floats) -> Floats:
        """Inverse of ``_units``, with no more digits than the step has."""
        if self.step is None:
            return units
        values = np.round(self.lower + self.step * units, decimals(self.step, self.lower))
        return np.clip(values, self.lower, self.upper)

    def on_step(self, values: Floats) -> Floats:
        """Return each number's nearest value that is a whole number of steps from ``lower``."""
        return values if self.step is None else self._values(np.rint(self._units(values)))

    @cached_property
    def _bins(self) -> _Bins:
        edges, spikes = self._units(self.bin_edges), self._units(self.spikes).tolist()
        pieces = None if self.pieces is None else self._units(self.pieces)
        return _Bins(edges, spikes=spikes, integer=self._whole, pieces=pieces, shares=self.shares)

    @property
    def size(self) -> int:
        """Number of bins and spikes; a bin in which there are only spikes is none."""
        return len(self._bins.centres)

    @property
    def centres(self) -> Floats:
        """The middle of each bin, and each spike; increasing, shape ``(size,)``."""
        if self.step is None:
            return self._bins.centres
        return self.lower + self.step * self._bins.centres

    @property
    def reach(self) -> tuple[Floats, Floats]:
        """Least and greatest value that each code stands for, two arrays of shape ``(size,)``."""
        least, greatest = self._bins.reach
        return self._values(least), self._values(greatest)

    def shown(self, value: float) -> str:
        """Return a number as it is shown to people."""
        return f"{value:g}"

    @property
    def interval_names(self) -> tuple[str, ...]:
        """What each code stands for, in text: ``"[0, 10)"``, or ``"0"`` for a spike."""
        return self._bins.names(self._values, self.shown)

    def encode_values(self, values: Floats) -> Ints:
        """Return the bin, or spike, of each value in ``[lower, upper]``."""
        units = self._units(values)
        return self._bins.encode(units if self.step is None else np.rint(units))

    def pieces_at(self, constants: Iterable[float]) -> tuple[Ints, Floats, Floats]:
        """Return code, least and greatest value of each part of the domain that numbers cut out."""
        inside = np.array([c for c in constants if self.lower <= c <= self.upper])
        cuts = self._units(inside)
        whole = cuts == np.rint(cuts) if self._whole else np.ones(len(cuts), dtype=bool)
        spikes = np.union1d(self._units(self.spikes), cuts[whole]).tolist()
        edges = np.union1d(self._units(self.bin_edges), cuts)
        least, greatest = map(self._values, _Bins(edges, spikes=spikes, integer=self._whole).reach)
        # A number beside the step counts as a value, since it may be read.
        read = (inside == np.rint(inside)) if self.integer else ~whole
        beside = inside[read & ~whole & ~np.isin(self.on_step(inside), self.spikes)]
        least, greatest = np.append(least, beside), np.append(greatest, beside)
        return self.encode_values(least), least, greatest

    def decode(self, codes: NDArray[np.integer], uniform: Floats) -> Floats:
        """Draw a value inside each bin, uniformly in each of its pieces; a spike is itself.

        ``uniform`` are draws from [0, 1), one per cell: never the bin's centre, which would distort
        every finer-grained statistic.
        """
        return self._values(self._bins.decode(codes, uniform))


#: A column of any kind.
AnyAttribute: TypeAlias = Categorical | Ordinal | Numeric
#: Attributes by name, in the order of their schema.
Columns: TypeAlias = Mapping[str, AnyAttribute]


def decimals(*numbers: float) -> int:
    """Return how many decimals numbers are written with, at most 20."""
    exponents = (Decimal(repr(n)).normalize().as_tuple().exponent for n in numbers)
    return min(20, max(0, *(-int(exponent) for exponent in exponents)))


def _all_finite(values: Iterable[object]) -> bool:
    return all(isinstance(value, float) and math.isfinite(value) for value in values)


def _as_float(value: Any) -> Any:
    """Return a real number as a float (infinite if it is too large); anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, (float, Real)):  # float first: it is quick
        return value
    try:
        return float(value)
    except OverflowError:
        return math.inf


class _Intervals:
    """Intervals between edges, closed on the left; the last one is closed on both sides."""

    def __init__(self, edges: Floats, spikes: Floats) -> None:
        self.edges = edges
        #: First whole number from each edge on; of the last one, the first after the domain.
        self.firsts = np.ceil(edges)
        self.firsts[-1] = edges[-1] + 1
        #: The interval of each spike.
        self.home = self.holding(spikes)
        #: How many whole numbers but spikes each holds.
        self.others = np.diff(self.firsts) - np.bincount(self.home, minlength=len(edges) - 1)

    def holding(self, values: Floats) -> Ints:
        """Return the interval that each value is in."""
        found = np.searchsorted(self.edges, values, side="right") - 1
        return np.clip(found, 0, len(self.edges) - 2)


class _Bins:
    """Intervals of numbers, and single numbers at which many rows pile up: what codes stand for.

    Codes go up with the middle of what they stand for. A bin whose whole numbers are all spikes
    has no code of its own. ``pieces`` are edges that divide bins further, ``shares`` how much of
    the values, spikes aside, lies in each.
    """

    def __init__(
        self,
        edges: Floats,
        *,
        spikes: Sequence[float],
        integer: bool,
        pieces: Floats | None = None,
        shares: Sequence[float] | None = None,
    ) -> None:
        self._integer, self._piece_edges, self._shares = integer, pieces, shares
        self._spikes = np.unique(np.asarray(spikes, dtype=np.float64)) + 0.0  # no -0.0
        self.intervals = bins = _Intervals(edges, self._spikes)
        kept = np.flatnonzero(bins.others > 0) if integer else np.arange(len(bins.others))
        low = np.concatenate([self._spikes, edges[:-1][kept]])
        high = np.concatenate([self._spikes, edges[1:][kept]])
        order = np.argsort((low + high) / 2, kind="stable")
        self._low, self._high = low[order], high[order]
        self._bin = np.concatenate([np.full(len(self._spikes), -1), kept])[order]
        code = np.argsort(order)
        self._spike_code = code[: len(self._spikes)]
        # Where only spikes are left, what is no spike (a mean, say) counts as one of them.
        self._bin_code = np.full(len(edges) - 1, -1, dtype=np.int64)
        self._bin_code[bins.home] = self._spike_code
        self._bin_code[kept] = code[len(self._spikes) :]
        self.centres: Floats = (self._low + self._high) / 2

    @cached_property
    def reach(self) -> tuple[Floats, Floats]:
        """Least and greatest value that each code stands for."""
        spike, where = self._bin < 0, np.maximum(self._bin, 0)
        if self._integer:
            least, greatest = self.intervals.firsts[where], self.intervals.firsts[where + 1] - 1
        else:
            least, greatest = self._low, np.nextafter(self._high, -np.inf)
            last = self._high == self.intervals.edges[-1]
            greatest = np.where(last, self._high, greatest)
        for one in self._spikes:
            least = np.where(least == one, self._next(one, np.inf), least)
        for one in self._spikes[::-1]:
            greatest = np.where(greatest == one, self._next(one, -np.inf), greatest)
        return np.where(spike, self._low, least), np.where(spike, self._low, greatest)

    def _next(self, value: float, way: float) -> float:
        """Return the value next to one, upwards or downwards."""
        return float(value + np.sign(way) if self._integer else np.nextafter(value, way))

    def names(
        self, values: Callable[[Floats], Floats], shown: Callable[[float], str]
    ) -> tuple[str, ...]:
        """What each code stands for, in text; with all digits only if they tell codes apart."""
        low, high, spikes = (values(n).tolist() for n in (self._low, self._high, self._spikes))
        home = self.intervals.home.tolist()

        def named(text: Callable[[float], str]) -> Iterator[str]:
            for start, end, one in zip(low, high, self._bin.tolist(), strict=True):
                without = [text(s) for s, own in zip(spikes, home, strict=True) if own == one]
                rest = f" except {', '.join(without)}" if without else ""
                yield text(start) if one < 0 else f"[{text(start)}, {text(end)}){rest}"

        short = tuple(named(shown))
        return short if len({*short}) == len(short) else tuple(named(number_text))

    def encode(self, values: Floats) -> Ints:
        """Return the code of each value."""
        codes = self._bin_code[self.intervals.holding(values)]
        if not len(self._spikes):
            return codes
        near = np.clip(np.searchsorted(self._spikes, values), 0, len(self._spikes) - 1)
        return np.where(self._spikes[near] == values, self._spike_code[near], codes)

    def decode(self, codes: NDArray[np.integer], uniform: Floats) -> Floats:
        """Return values drawn from bins, never a spike, and spikes as they are."""
        where = self._bin[codes]
        pieces = self._pieces
        piece, uniform = self._drawn_pieces(where, uniform)
        if self._integer:
            drawn = pieces.firsts[piece] + np.floor(uniform * pieces.others[piece])
            for spike, own in zip(self._spikes, pieces.home, strict=True):
                drawn[(piece == own) & (drawn >= spike)] += 1  # the next one may be a spike, too
        else:
            low, high = pieces.edges[piece], pieces.edges[piece + 1]
            drawn = low + uniform * (high - low)
            drawn = self._beside_spikes(np.minimum(drawn, np.nextafter(high, -np.inf)), where)
            edges = self.intervals.edges
            drawn = np.clip(drawn, edges[0], edges[-1])  # no float but spikes is left
        return np.asarray(np.where(where < 0, self._low[codes], drawn))

    @cached_property
    def _pieces(self) -> _Intervals:
        """The pieces of bins; the bins themselves if they have none."""
        if self._piece_edges is None:
            return self.intervals
        return _Intervals(self._piece_edges, self._spikes)

    def _drawn_pieces(self, where: Ints, uniform: Floats) -> tuple[Ints, Floats]:
        """Return the piece of its bin that each number falls into, and where in it."""
        if self._shares is None:
            return where, uniform
        ends, begin = self._cumulated
        total = ends[begin[where + 1]] - ends[begin[where]]
        aim = ends[begin[where]] + uniform * total
        aim = np.minimum(aim, np.nextafter(ends[begin[where + 1]], -np.inf))
        piece = np.searchsorted(ends, aim, side="right") - 1
        piece = np.clip(piece, begin[where], begin[where + 1] - 1)
        share = ends[piece + 1] - ends[piece]
        inside = (aim - ends[piece]) / np.where(share > 0, share, 1.0)
        return piece, np.clip(inside, 0.0, _BELOW_ONE)

    @cached_property
    def _cumulated(self) -> tuple[Floats, Ints]:
        """Cumulated shares of pieces, and the first piece of each bin."""
        pieces = self._pieces
        size = pieces.others if self._integer else np.diff(pieces.edges)
        begin = np.searchsorted(pieces.edges, self.intervals.edges)
        shares = np.where(size > 0, np.asarray(self._shares), 0.0)
        empty = np.add.reduceat(shares, begin[:-1]) <= _LEAST_SHARE
        bin_of = np.repeat(np.arange(len(begin) - 1), np.diff(begin))
        shares = np.where(empty[bin_of], size, shares)  # nothing is known inside: evenly
        whole = np.add.reduceat(shares, begin[:-1])[bin_of]
        shares = shares / np.where(whole > 0, whole, 1.0)  # of each bin, so that no digit is lost
        return np.concatenate([[0.0], np.cumsum(shares)]), begin

    def _beside_spikes(self, drawn: Floats, where: Ints) -> Floats:
        """Move what was drawn on a spike by the least step towards the middle of its bin."""
        home, edges = self.intervals.home, self.intervals.edges
        up = self._spikes < (edges[:-1] + edges[1:])[home] / 2
        for rises, way in ((up, np.inf), (~up, -np.inf)):
            near = list(zip(self._spikes[rises], home[rises], strict=True))
            for spike, own in near if way > 0 else near[::-1]:
                drawn[(where == own) & (drawn == spike)] = np.nextafter(spike, way)
        return drawn


def code_dtype(attribute: AnyAttribute) -> type[np.unsignedinteger]:
    """Return the smallest unsigned integer type that holds every code, missing included."""
    codes = attribute.size + max(1, len(attribute.kinds))
    if codes <= 2**8:
        return np.uint8
    return np.uint16 if codes <= 2**16 else np.uint32
