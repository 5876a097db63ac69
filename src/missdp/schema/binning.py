"""Bins and spikes of numeric attributes: declared, or released by a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass

from missdp.errors import SchemaError
from missdp.schema.attributes import number_text
from missdp.serialization import Record
from missdp.types import Floats, Ints
from missdp.validation import NonNegative

Finite: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]

_BELOW_ONE = float(np.nextafter(1.0, 0.0))
_MIN_WEIGHT = 1e-12  # total weight of the subintervals of a bin, below which draws are uniform


class BinSource(StrEnum):
    """Origin of the bins of a numeric attribute: declared, implied, or estimated by a fit.

    Guarantees depend on it: bins of an earlier release become a condition of the guarantee. It is
    an enumeration of text. ``BinSource("release")`` returns the member of a text.

    Parameters
    ----------
    value : {"declared", "each number", "pending", "release"}
        Text of a member.

    Attributes
    ----------
    DECLARED : "declared"
        The schema declares the bins.
    EACH_NUMBER : "each number"
        Bounds and step allow few numbers, and each number is a bin.
    PENDING : "pending"
        The present fit estimates the bins.
    RELEASE : "release"
        A completed fit released the bins.

    Raises
    ------
    ValueError
        If the text names no member.

    Examples
    --------
    >>> from missdp.schema import BinSource
    >>> BinSource("release") is BinSource.RELEASE
    True
    """

    DECLARED = "declared"
    EACH_NUMBER = "each number"
    PENDING = "pending"
    RELEASE = "release"


@dataclass(frozen=True, kw_only=True)
class Binning(Record):
    """Bins and spikes of a numeric attribute, and the frequencies of its values inside bins.

    A bin is an interval of values, and a spike is a single value that is counted separately. A fit
    returns a binning in ``model.bins_``. :meth:`Schema.with_bins` puts it into a schema, so that
    other tables are counted alike.

    Parameters
    ----------
    edges : tuple of float
        Increasing bin edges, in the unit of the column. Bins are closed on the left. The last bin
        is closed on both sides. In an attribute they run from ``lower`` to ``upper``.
    spikes : tuple of float, default ()
        Values that are counted and drawn separately. Their bins hold the other values.
    subintervals : tuple of float, default ()
        Increasing edges that divide the bins into smaller intervals. They contain the edges of all
        bins.
    weights : tuple of float, default ()
        Relative frequency of the values, without spikes, in each subinterval, at least 0. Values
        inside a bin are drawn accordingly. Without weights they are drawn uniformly. Released or
        public.
    source : BinSource, default BinSource.DECLARED
        Origin of the bins.
    release : str, default ""
        The id of the release of the bins. It does not count in comparisons for equality.

    Raises
    ------
    SchemaError
        If numbers have the wrong type or range, or subintervals do not increase, do not contain all
        edges, or have no weight each.

    Examples
    --------
    >>> from missdp.schema import Binning
    >>> from missdp.schema import Numeric
    >>> bins = Binning(edges=(0.0, 10.0, 100.0), spikes=(0.0,))
    >>> Numeric(name="income", lower=0, upper=100, bins=bins).bin_labels
    ('0', '[0, 10) except 0', '[10, 100)')
    """

    edges: tuple[float, ...]
    spikes: tuple[float, ...] = ()
    subintervals: tuple[Finite, ...] = ()
    weights: tuple[NonNegative, ...] = ()
    source: Annotated[BinSource, Field(strict=False)] = BinSource.DECLARED
    release: str = field(default="", compare=False)

    @property
    def cells(self) -> Binning:
        """Bins and spikes of a numeric attribute without their origin, to compare two binnings.

        Returns
        -------
        Binning
            A copy whose ``source`` is ``BinSource.DECLARED`` and whose ``release`` is empty. Edges,
            spikes, subintervals and weights are unchanged. As public as this binning.
        """
        return replace(self, source=BinSource.DECLARED, release="")

    @classmethod
    def _refusal(cls, data: Mapping[str, Any], why: str) -> SchemaError:
        del data
        return SchemaError(f"bins: {why}")

    @classmethod
    def _read(cls, data: Mapping[str, Any]) -> Self:
        """Return the bins of a dictionary, which must state their origin."""
        if "source" not in data:
            raise cls._refusal(data, "source is required")
        return super()._read(data)

    def __post_init__(self) -> None:
        parts, weights = self.subintervals, self.weights
        if not (parts or weights):
            return
        edges_among = {*self.edges} <= {*parts} and len(parts) == len(weights) + 1
        if np.any(np.diff(parts) <= 0) or not edges_among:
            raise SchemaError(
                "subintervals must increase, contain all edges, and have a weight each"
            )


class _Intervals:
    """Intervals between edges, closed on the left. The last interval is closed on both sides."""

    def __init__(self, edges: Floats, spikes: Floats) -> None:
        self.edges = edges
        #: First whole number from each edge on. The last number lies after the domain.
        self.firsts = np.ceil(edges)
        self.firsts[-1] = edges[-1] + 1
        #: The interval of each spike.
        self.home = self.holding(spikes)
        #: Number of whole numbers in each interval, without spikes.
        self.others = np.diff(self.firsts) - np.bincount(self.home, minlength=len(edges) - 1)

    def holding(self, values: Floats) -> Ints:
        """Return the interval that each value is in."""
        interval = np.searchsorted(self.edges, values, side="right") - 1
        return np.clip(interval, 0, len(self.edges) - 2)


class Bins:
    """Codes of the bins and spikes of an attribute, in units of its step.

    Codes increase with the middle of their values. A bin whose whole numbers are all spikes has no
    code.

    Parameters
    ----------
    edges, spikes, subintervals : ndarray of float
        The facts of a `Binning`, in units of the step.
    weights : sequence of float
        The weight of each subinterval.
    integer : bool
        True if all values are whole numbers of units.
    """

    def __init__(
        self,
        edges: Floats,
        spikes: Floats,
        subintervals: Floats,
        weights: Sequence[float],
        *,
        integer: bool,
    ) -> None:
        self._integer, self._subedges, self._weights = integer, subintervals, weights
        self._spikes = np.unique(spikes) + 0.0  # no -0.0
        self.intervals = bins = _Intervals(edges, self._spikes)
        coded = np.flatnonzero(bins.others > 0) if integer else np.arange(len(bins.others))
        low = np.concatenate([self._spikes, edges[:-1][coded]])
        high = np.concatenate([self._spikes, edges[1:][coded]])
        order = np.argsort((low + high) / 2, kind="stable")
        self._low, self._high = low[order], high[order]
        self._bin = np.concatenate([np.full(len(self._spikes), -1), coded])[order]
        code = np.argsort(order)
        self._spike_code = code[: len(self._spikes)]
        # In a bin of spikes only, another value, such as a mean, counts as one of the spikes.
        self._bin_code = np.full(len(edges) - 1, -1, dtype=np.int64)
        self._bin_code[bins.home] = self._spike_code
        self._bin_code[coded] = code[len(self._spikes) :]
        self.centres: Floats = (self._low + self._high) / 2

    @cached_property
    def code_ranges(self) -> tuple[Floats, Floats]:
        """Smallest and largest value of each code."""
        spike, where = self._bin < 0, np.maximum(self._bin, 0)
        if self._integer:
            low, high = self.intervals.firsts[where], self.intervals.firsts[where + 1] - 1
        else:
            low, high = self._low, np.nextafter(self._high, -np.inf)
            last = self._high == self.intervals.edges[-1]
            high = np.where(last, self._high, high)
        for one in self._spikes:
            low = np.where(low == one, self._next(one, np.inf), low)
        for one in self._spikes[::-1]:
            high = np.where(high == one, self._next(one, -np.inf), high)
        return np.where(spike, self._low, low), np.where(spike, self._low, high)

    def _next(self, value: float, way: float) -> float:
        """Return the value next to a value, upwards or downwards."""
        return float(value + np.sign(way) if self._integer else np.nextafter(value, way))

    def labels(
        self, values: Callable[[Floats], Floats], format_value: Callable[[float], str]
    ) -> tuple[str, ...]:
        """Return a text for each code. It has all digits only if shorter texts would be equal."""
        low, high, spikes = (values(n).tolist() for n in (self._low, self._high, self._spikes))
        home = self.intervals.home.tolist()

        def named(text: Callable[[float], str]) -> Iterator[str]:
            for start, end, one in zip(low, high, self._bin.tolist(), strict=True):
                without = [text(s) for s, h in zip(spikes, home, strict=True) if h == one]
                rest = f" except {', '.join(without)}" if without else ""
                yield text(start) if one < 0 else f"[{text(start)}, {text(end)}){rest}"

        short = tuple(named(format_value))
        return short if len({*short}) == len(short) else tuple(named(number_text))

    def encode(self, values: Floats) -> Ints:
        """Return the code of each value."""
        codes = self._bin_code[self.intervals.holding(values)]
        if not len(self._spikes):
            return codes
        near = np.clip(np.searchsorted(self._spikes, values), 0, len(self._spikes) - 1)
        return np.where(self._spikes[near] == values, self._spike_code[near], codes)

    def decode(self, codes: NDArray[np.integer], uniform: Floats) -> Floats:
        """Return values drawn from bins, and the values of spikes. A bin never yields a spike."""
        where = self._bin[codes]
        parts = self._subintervals
        part, uniform = self._drawn_subintervals(where, uniform)
        if self._integer:
            drawn = parts.firsts[part] + np.floor(uniform * parts.others[part])
            for spike, home in zip(self._spikes, parts.home, strict=True):
                drawn[(part == home) & (drawn >= spike)] += 1  # the next one may be a spike, too
        else:
            low, high = parts.edges[part], parts.edges[part + 1]
            drawn = low + uniform * (high - low)
            drawn = self._off_spikes(np.minimum(drawn, np.nextafter(high, -np.inf)), where)
            edges = self.intervals.edges
            drawn = np.clip(drawn, edges[0], edges[-1])  # the bin holds no float but spikes
        return np.asarray(np.where(where < 0, self._low[codes], drawn))

    @cached_property
    def _subintervals(self) -> _Intervals:
        """The subintervals of bins, or the bins if they have no subintervals."""
        return _Intervals(self._subedges, self._spikes) if self._weights else self.intervals

    def _drawn_subintervals(self, where: Ints, uniform: Floats) -> tuple[Ints, Floats]:
        """Return the subinterval of each draw, and the position of the draw in the subinterval."""
        if not self._weights:
            return where, uniform
        ends, begin = self._cumulated
        total = ends[begin[where + 1]] - ends[begin[where]]
        aim = ends[begin[where]] + uniform * total
        aim = np.minimum(aim, np.nextafter(ends[begin[where + 1]], -np.inf))
        part = np.searchsorted(ends, aim, side="right") - 1
        part = np.clip(part, begin[where], begin[where + 1] - 1)
        weight = ends[part + 1] - ends[part]
        inside = (aim - ends[part]) / np.where(weight > 0, weight, 1.0)
        return part, np.clip(inside, 0.0, _BELOW_ONE)

    @cached_property
    def _cumulated(self) -> tuple[Floats, Ints]:
        """Cumulated weights of subintervals, and the first subinterval of each bin."""
        parts = self._subintervals
        size = parts.others if self._integer else np.diff(parts.edges)
        begin = np.searchsorted(parts.edges, self.intervals.edges)
        weights = np.where(size > 0, np.asarray(self._weights), 0.0)
        empty = np.add.reduceat(weights, begin[:-1]) <= _MIN_WEIGHT
        bin_of = np.repeat(np.arange(len(begin) - 1), np.diff(begin))
        weights = np.where(empty[bin_of], size, weights)  # uniform without information
        total = np.add.reduceat(weights, begin[:-1])[bin_of]
        weights = weights / np.where(total > 0, total, 1.0)  # in each bin, so no digit is lost
        return np.concatenate([[0.0], np.cumsum(weights)]), begin

    def _off_spikes(self, drawn: Floats, where: Ints) -> Floats:
        """Move each draw on a spike by the smallest step towards the middle of its bin."""
        home, edges = self.intervals.home, self.intervals.edges
        up = self._spikes < (edges[:-1] + edges[1:])[home] / 2
        for rises, way in ((up, np.inf), (~up, -np.inf)):
            near = list(zip(self._spikes[rises], home[rises], strict=True))
            for spike, bin_ in near if way > 0 else near[::-1]:
                drawn[(where == bin_) & (drawn == spike)] = np.nextafter(spike, way)
        return drawn
