"""Numeric attributes: public facts about columns of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass

from missdp.schema.attributes import (
    CODE_FIELDS,
    MAX_INTEGER,
    MAX_LEVELS,
    Attribute,
    Categorical,
    Kind,
    Ordinal,
    is_number,
    read_number,
)
from missdp.schema.binning import Binning, Bins, Finite
from missdp.types import Floats, Ints

_MAX_SPIKES = 1000  # spikes of one attribute
_NEAR = 1e-9  # rounding error of arithmetic, in steps
_MIN_STEP = 1e-15  # smallest step whose decimals are still distinguished
_DIGITS = 6  # decimals of a number in steps


DeclaredBins: TypeAlias = Annotated[
    Annotated[int, Field(ge=1, le=MAX_LEVELS)] | Binning | None,
    Field(description=f"a whole number from 1 to {MAX_LEVELS}"),
]


@dataclass(frozen=True, kw_only=True)
class Numeric(Attribute):
    """A numeric attribute: a column of numbers between public bounds, with bins for counting.

    Use it for measurements, amounts and counts. Cells are read as numbers. Releases count them by
    code: a bin is an interval of values, and a spike is a single value with a separate code.

    :class:`Attribute` documents the facts in more detail. A guarantee holds only if they are
    public. It states this as its condition `PublicDomain`, which is not checked.

    Parameters
    ----------
    name : str
        Name of the column, any non-empty text.
    lower, upper : float
        Public bounds, in the unit of the column, with ``lower < upper``. Both belong to the domain.
        Both are below 2**53 in size.
    integer : bool, default False
        True if the values are whole numbers.
    bins : int or Binning, optional
        Number of bins of equal width, or bins that a fit released: see :meth:`Schema.with_bins`.
        The default is 10, or one bin per possible number if ``integer`` or ``step`` allows fewer
        than 10.
    edges : tuple of float, optional
        Bin edges instead of ``bins``: increasing, from ``lower`` to ``upper``. Bins are closed on
        the left. The last bin is closed on both sides.
    spikes : tuple of float, default ()
        Values that many rows have, such as an income of 0, at most 1,000. Each spike is counted
        separately, like a level, and drawn exactly. Its bin holds the other values.
    step : float, optional
        All values are ``lower`` plus a whole multiple of the step: 0.01 for amounts in cents. At
        least 1e-15, in the unit of the column. Values are rounded to the step when they are read.
        ``upper`` must be ``lower`` plus a whole number of steps. None: any number is possible.
    nullable : bool, default False
        True if a cell may be missing.
    missing_codes : tuple of str or number, default ()
        Values that stand for a missing cell in the data, such as ``-9``. They need
        ``nullable=True``. Numbers lie outside the bounds.
    refused, unknown, not_asked : tuple of str or number, or None, default None
        Values that stand for other reasons of a missing cell. They need ``nullable=True``. None:
        the reason does not occur.
    not_applicable : tuple of str or number, or None, default None
        Values of cells that can have no value, such as working hours without work. None: there are
        no such cells.
    outside : {"error", "clamp", "missing"}, default "error"
        Treatment of a cell that is not a number between the bounds. ``"error"`` raises `DataError`.
        ``"missing"`` makes the cell missing. ``"clamp"`` takes the nearest bound. A cell that is
        not a number then becomes missing, or ``lower`` if no cell may be missing.
    other : None
        Not used, since a numeric attribute has no levels.
    imputed_before : bool, default False
        True if missing cells of the column may have been filled before.
    label, units : str, default ""
        Description of the column, and unit of its values, for human readers.
    labels : mapping of str to str, default {}
        Meanings of numbers and codes for human readers, by their text.
    undeclared : tuple of str, default ()
        Names of parameters that were read from private data and are not declared public yet.

    Raises
    ------
    SchemaError
        If bounds, bins, edges, spikes or step contradict each other, or another fact is not valid.

    Notes
    -----
    Without ``bins``, ``edges`` and ``spikes``, synthesizers estimate them privately, with a small
    share of the budget. All other uses take ten bins of equal width.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp import Numeric
    >>> age = Numeric(name="age", lower=0, upper=100, integer=True, bins=10)
    >>> age.encode_values(np.array([0.0, 9.9, 10.0, 100.0])).tolist()
    [0, 0, 1, 9]
    >>> income = Numeric(name="income", lower=0, upper=1000, bins=2, spikes=(0,))
    >>> income.size, income.encode_values(np.array([0.0, 1.0, 1000.0])).tolist()
    (3, [0, 1, 2])
    """

    kind: ClassVar[str] = "numeric"
    lower: Finite
    upper: Finite
    integer: bool = False
    bins: DeclaredBins = None
    edges: Annotated[tuple[Finite, ...] | None, Field(description="a list of numbers")] = None
    spikes: Annotated[tuple[float, ...], Field(description="a list of numbers")] = ()
    step: Annotated[float, Field(gt=0)] | None = None

    def plain(self) -> Numeric:
        """Return a date or a difference of dates as an attribute of plain numbers.

        Returns
        -------
        Numeric
            An attribute of class :class:`Numeric` with the same name, bounds, bins and codes.
            Bounds of dates are numbers of units of the calendar since 1970. Public.
        """
        return Numeric(**{f.name: getattr(self, f.name) for f in fields(Numeric)})

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        bounds = (self.lower, self.upper)
        if not self.lower < self.upper:
            yield "lower must be below upper"
        if self.integer and not all(bound.is_integer() for bound in bounds):
            yield "integer attributes need whole-number bounds"
        if max(map(abs, bounds)) >= MAX_INTEGER:
            yield "lower and upper must be below 2**53 in size, so that whole numbers stay distinct"
        yield from self._wrong_step()
        yield from self._wrong_bins()
        for kind in self.kinds:
            yield from self._codes_that_are_values(kind)
        yield from self._labelled_nothing(self._is_value)
        if self.outside == "other" or self.other is not None:
            yield 'outside = "other" is for attributes with levels only'

    def _is_value(self, text: str) -> bool:
        """Return True if a text is a number in the domain."""
        number = read_number(text)
        return number is not None and self.lower <= number <= self.upper

    def _codes_that_are_values(self, kind: Kind) -> Iterator[str]:
        fact, codes = CODE_FIELDS[kind], self.codes_of(kind)
        numbers = [read_number(c.strip()) for c in codes if isinstance(c, str)]
        if any(number is not None and not math.isnan(number) for number in numbers):
            yield f"{fact} of a numeric attribute that are numbers must be without quotes"
        if any(is_number(c) and self.lower <= c <= self.upper for c in codes):
            yield (
                f"{fact} that are numbers must lie outside [lower, upper], since numbers inside "
                "are values"
            )

    def _wrong_step(self) -> Iterator[str]:
        step = self.step
        if step is None:
            return
        if step < _MIN_STEP:
            yield f"step must be at least {_MIN_STEP:g}"
        if self.integer and not step.is_integer():
            yield "the step of an integer attribute must be a whole number"
        steps = (self.upper - self.lower) / step
        if not (steps < MAX_INTEGER and abs(steps - round(steps)) < _NEAR * max(1.0, steps)):
            yield "upper must be lower plus a whole multiple of step"

    def _wrong_bins(self) -> Iterator[str]:
        if self.bins is not None and self.edges is not None:
            yield "give bins or edges, not both"
        if isinstance(self.bins, Binning) and self.spikes:
            yield "released bins have spikes already. Leave spikes out"
        facts = self.bins if isinstance(self.bins, Binning) else self
        edges = facts.edges
        if edges is not None:
            if len(edges) < 2 or np.any(np.diff(edges) <= 0):
                yield "edges must be at least two, strictly increasing numbers"
            if (edges[0], edges[-1]) != (self.lower, self.upper):
                yield "edges must start at lower and end at upper"
        yield from self._wrong_spikes(facts.spikes)
        if np.any(np.diff(self.bin_edges) <= 0):
            yield "bins are narrower than the precision of floating-point numbers"
        if self._has_steps and np.any(np.diff(self._bins.intervals.firsts) < 1):
            yield "every bin must hold a whole number, or a whole number of steps"

    def _wrong_spikes(self, spikes: tuple[float, ...]) -> Iterator[str]:
        if not all(self.lower <= spike <= self.upper for spike in spikes):
            yield "spikes must lie inside [lower, upper]"
        if len(set(spikes)) < len(spikes):
            yield "spikes must be distinct"
        if len(spikes) > _MAX_SPIKES:
            yield f"at most {_MAX_SPIKES} spikes are supported. Use bins, or an ordinal attribute"
        if self.integer and not all(spike.is_integer() for spike in spikes):
            yield "spikes of an integer attribute must be whole numbers"
        if self.step and not np.array_equal(self.round_to_step(np.array(spikes)), spikes):
            yield "spikes must lie on the step"

    @property
    def has_declared_bins(self) -> bool:
        """True if a numeric attribute declares its intervals (bins) or single values (spikes).

        Values are counted by bin, and a spike is counted separately. Without declared bins, a fit
        may estimate bins. Bins of an earlier release count as declared.

        Returns
        -------
        bool
            Public.
        """
        return self.bins is not None or self.edges is not None or bool(self.spikes)

    @cached_property
    def binning(self) -> Binning:
        """Bins and spikes by which the values of a numeric attribute are counted.

        A bin is an interval of values, and a spike is a single value that is counted separately.
        The bins are the bins of an earlier release, declared bins, or bins of equal width.

        Returns
        -------
        Binning
            Edges and spikes in the unit of the column. Released if a fit estimated the bins, and
            otherwise public.
        """
        if isinstance(self.bins, Binning):
            return self.bins
        steps = round((self.upper - self.lower) / (self.step or 1.0))
        size = self.bins or min(10, steps + 1 if self._has_steps else 10)
        even = np.linspace(self.lower, self.upper, size + 1).tolist()
        return Binning(edges=self.edges or tuple(even), spikes=self.spikes)

    @property
    def bin_edges(self) -> Floats:
        """Edges of the bins of a numeric attribute, in increasing order.

        A bin is an interval in which values are counted.

        Returns
        -------
        ndarray of float, of shape (n_bins + 1,)
            Numbers from ``lower`` to ``upper``, in the unit of the column. Released if a fit
            estimated the bins, and otherwise public.
        """
        return np.asarray(self.binning.edges, dtype=np.float64)

    @property
    def _has_steps(self) -> bool:
        """True if values are whole multiples of a step."""
        return self.integer or self.step is not None

    def _units(self, values: ArrayLike) -> Floats:
        """Return numbers in steps from ``lower``. Without a step they stay unchanged."""
        array = np.asarray(values, dtype=np.float64)
        return array if self.step is None else np.round((array - self.lower) / self.step, _DIGITS)

    def _values(self, units: Floats) -> Floats:
        """Return the numbers of units, with as many digits as the step has."""
        if self.step is None:
            return units
        values = np.round(self.lower + self.step * units, decimals(self.step, self.lower))
        return np.clip(values, self.lower, self.upper)

    def round_to_step(self, values: Floats) -> Floats:
        """Round numbers to the nearest possible values of a numeric attribute.

        Possible values are ``lower`` plus whole steps, up to ``upper``.

        Parameters
        ----------
        values : ndarray of float, of any shape
            Numbers in the unit of the column. Private, if the cells are private.

        Returns
        -------
        ndarray of float, in the shape of the input
            The rounded numbers, not below ``lower`` and not above ``upper``.
            Without a declared step, the numbers are returned unchanged. As private as the input.
        """
        return values if self.step is None else self._values(np.rint(self._units(values)))

    @cached_property
    def _bins(self) -> Bins:
        facts = self.binning
        edges, spikes, parts = map(self._units, (facts.edges, facts.spikes, facts.subintervals))
        return Bins(edges, spikes, parts, facts.weights, integer=self._has_steps)

    @property
    def size(self) -> int:
        """Number of codes for the values of a numeric attribute: one for each bin and each spike.

        A code is the whole number that stands for a bin or spike in counts. A bin is an interval of
        values, and a spike is a single value that is counted separately. A bin whose possible
        values are all spikes has no code. Missing cells are not included.

        Returns
        -------
        int
            At least 1. Released if a fit estimated the bins, and otherwise public.
        """
        return len(self._bins.centres)

    @property
    def centres(self) -> Floats:
        """Middle of each bin, and value of each spike, in the order of their codes.

        A code is the whole number that stands for a bin or spike in counts. A bin is an interval of
        values, and a spike is a single value that is counted separately.

        Returns
        -------
        ndarray of float, of shape (size,)
            Increasing numbers in the unit of the column. Released if a fit estimated the bins, and
            otherwise public.
        """
        if self.step is None:
            return self._bins.centres
        return self.lower + self.step * self._bins.centres

    @property
    def code_ranges(self) -> tuple[Floats, Floats]:
        """Smallest and largest value of each bin and each spike of a numeric attribute.

        A code is the whole number that stands for a bin (an interval of values) or a spike (a
        single value) in counts. A spike has two equal values.

        Returns
        -------
        tuple of two ndarrays of float, each of shape (size,)
            The smallest values, then the largest values, in the order of the codes and in the unit
            of the column. Released if a fit estimated the bins, and otherwise public.
        """
        low, high = self._bins.code_ranges
        return self._values(low), self._values(high)

    def format_value(self, value: float) -> str:
        """Return the text of a number of a numeric attribute for human readers.

        Parameters
        ----------
        value : float
            The number, in the unit of the column.

        Returns
        -------
        str
            The number with six significant digits. As private as ``value``.
        """
        return f"{value:g}"

    @property
    def bin_labels(self) -> tuple[str, ...]:
        """Texts of the codes of a numeric attribute: ``"[0, 10)"`` for a bin, ``"0"`` for a spike.

        A code is the whole number that stands for a bin (an interval of values) or a spike (a
        single value) in counts. A bin with spikes names them: ``"[0, 10) except 0"``. The last bin
        is closed, although its text ends in a parenthesis.

        Returns
        -------
        tuple of str, of length size
            The texts in the order of the codes. Released if a fit estimated the bins, and otherwise
            public.
        """
        return self._bins.labels(self._values, self.format_value)

    def encode_values(self, values: Floats) -> Ints:
        """Return the code of the bin or spike in which each number of a numeric attribute lies.

        A code is the whole number that stands for a bin (an interval of values) or a spike (a
        single value) in counts.

        Parameters
        ----------
        values : ndarray of float, of any shape
            Numbers from ``lower`` to ``upper``, in the unit of the column, without NaN. The first
            or last bin gets numbers beyond the bounds. Private, if the cells are private.

        Returns
        -------
        ndarray of int64, in the shape of the input
            Codes from 0 to ``size - 1``. As private as the input.
        """
        units = self._units(values)
        return self._bins.encode(units if self.step is None else np.rint(units))

    def decode(self, codes: NDArray[np.integer], uniform: Floats) -> Floats:
        """Draw a number for each code of a numeric attribute, inside the bin of the code.

        A code stands for a bin (an interval of values) or a spike (a single value). A spike yields
        its value. In a bin the number is uniform. If the bins state frequencies of smaller
        intervals (:class:`Binning`), a number is drawn from these first. Centres of bins would
        distort statistics of finer resolution.

        Parameters
        ----------
        codes : ndarray of int, of shape (n_rows,)
            Codes from 0 to ``size - 1``. Released or private.
        uniform : ndarray of float, of shape (n_rows,)
            A draw from [0, 1) for each code.

        Returns
        -------
        ndarray of float, of shape (n_rows,)
            Numbers from ``lower`` to ``upper``, on the step if a step is declared. A bin never
            yields one of its spikes, unless it holds no other number. As private as the codes.
        """
        return self._values(self._bins.decode(codes, uniform))


#: An attribute of any kind: with levels, or numeric. Dates and differences are numeric.
AnyAttribute: TypeAlias = Categorical | Ordinal | Numeric
#: Map from the name of each attribute to the attribute, in the order of the schema. Public.
Columns: TypeAlias = Mapping[str, AnyAttribute]


def each(function: Callable[[float], Any], value: Any) -> Any:
    """Apply a function to a number, or to each number of a list."""
    return [*map(function, value)] if isinstance(value, list) else function(value)


def decimals(*numbers: float) -> int:
    """Return the number of decimals of numbers in text, at most 20."""
    exponents = (Decimal(repr(n)).normalize().as_tuple().exponent for n in numbers)
    return min(20, max(0, *(-int(exponent) for exponent in exponents)))


def code_dtype(attribute: AnyAttribute) -> type[np.unsignedinteger]:
    """Return the smallest unsigned integer type for all codes, including missing cells."""
    codes = attribute.size + max(1, len(attribute.kinds))
    if codes <= 2**8:
        return np.uint8
    return np.uint16 if codes <= 2**16 else np.uint32
