"""The search grid of numbers that declare no bins, in which a fit finds bins from noisy counts.

The grid and the largest number of codes follow from declared bounds and steps alone. During a fit,
the bins of its schema are pending. After the fit, `released_bins` returns them as results.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeGuard

import numpy as np

from missdp.schema import Date, Difference, Numeric, Schema
from missdp.schema.attributes import Attribute
from missdp.schema.binning import Binning, BinSource
from missdp.schema.numeric import decimals
from missdp.types import Floats

#: Largest number of bins and spikes of an attribute that a fit finds.
MAX_CODES = 20

_SINGLY = 12  # numbers: shorter lists have a bin for each number
_NUMBERS = 4096  # numbers that have cells of their own, and cells of an even grid
_CELLS = 3072  # cells of an uneven grid, in addition to numbers of two digits
_MIN_NUMBER = 1e-5  # smallest number with a cell of its own, relative to the largest number
_STEPS = 1e9  # steps from which rounding merges neighbouring numbers
_FINEST = 1e-8  # unit of numbers without a step, relative to their range
_HAIR = 1e-12  # relative rounding error
_LINEAR = 0.25  # distance of the bounds from 0, relative to the range, from which the grid is even


def _step(attribute: Numeric) -> float | None:
    return attribute.step or (1.0 if attribute.integer else None)


def _numbers(attribute: Numeric) -> float:
    """Return the number of possible values of an attribute."""
    step = _step(attribute)
    return math.inf if step is None else round((attribute.upper - attribute.lower) / step) + 1


def with_pending_bins(schema: Schema, names: Iterable[str]) -> Schema:
    """Return a schema in which named attributes without declared bins have pending bins.

    Each has the largest number of codes that it can have once bins are found. Few numbers have a
    bin each.
    """
    names = {*names} - {*schema.rule_set.derived}
    declared = (a for a in schema if isinstance(a, Numeric) and not a.has_declared_bins)
    return schema.with_attributes({a.name: _pending(a) for a in declared if a.name in names})


def _pending(a: Numeric) -> Numeric:
    numbers = _numbers(a)
    source = BinSource.EACH_NUMBER if numbers <= _SINGLY else BinSource.PENDING
    edges = np.linspace(a.lower, a.upper, int(min(MAX_CODES, numbers)) + 1)
    return replace(a, bins=Binning(edges=tuple(edges.tolist()), source=source))


def is_pending(attribute: Attribute) -> TypeGuard[Numeric]:
    """Return whether the running fit finds the bins of an attribute, or has found them."""
    return isinstance(attribute, Numeric) and attribute.binning.source is BinSource.PENDING


def takes_every_number(attribute: Attribute) -> TypeGuard[Numeric]:
    """Return whether each number of an attribute is a bin, because it has few numbers."""
    return isinstance(attribute, Numeric) and attribute.binning.source is BinSource.EACH_NUMBER


def before_fit(schema: Schema) -> Schema:
    """Return the schema of a fit before bins were found, with public facts only."""
    return schema.with_attributes({a.name: _pending(a) for a in schema if is_pending(a)})


def released_bins(schema: Schema, declared: Schema) -> dict[str, Binning]:
    """Return the bins of a fitted schema that the declared schema does not have."""
    return {
        a.name: replace(a.binning, source=BinSource.RELEASE) if is_pending(a) else a.binning
        for a in schema
        if isinstance(a, Numeric) and a != declared[a.name]
    }


def with_search_grid(schema: Schema) -> Schema:
    """Return the schema with the bins of a fine grid for each attribute with pending bins.

    Cells are equal in asinh((x - c) / unit). c is 0, or the bound closest to 0. The unit is a step,
    or 1e-8 of the range. Cells are equal in x for dates, date differences and bounds far from 0.
    Few numbers, and numbers of two digits, have cells of their own.
    """
    return schema.with_attributes(
        {a.name: replace(a, bins=_grid(a)) for a in schema if is_pending(a)}
    )


def _grid(a: Numeric) -> Binning:
    step, lower, upper = _step(a), a.lower, a.upper
    if _numbers(a) <= _NUMBERS and step is not None:
        numbers = lower + step * np.arange(_numbers(a))
        return Binning(edges=_edges_of(numbers, a), source=BinSource.PENDING)
    edges, common = _spaced(a), _common(a)
    if step is not None:
        of = np.rint((common - lower) / step)
        own_cells = of[of < _STEPS, None] + [-1, 0, 1]  # and the number before it, such as .99
        steps = np.append(np.ceil((edges[1:-1] - lower) / step), own_cells)
        return Binning(edges=_edges_of(lower + step * steps, a), source=BinSource.PENDING)
    hair = _HAIR * max(abs(lower), abs(upper))  # rounding error at the bounds
    inner = edges[(edges > lower + hair) & (edges < upper - hair)]
    points = {lower, upper, *common.tolist()}
    cells = tuple(np.unique([lower, *inner, *points, upper]).tolist())
    return Binning(edges=cells, spikes=tuple(sorted(points)), source=BinSource.PENDING)


def _common(a: Numeric) -> Floats:
    """Return numbers of at most two digits, zeros aside, where rounding causes spikes."""
    if isinstance(a, (Date, Difference)):
        return np.zeros(0)
    largest = max(abs(a.lower), abs(a.upper))
    tens = range(*(math.floor(math.log10(x)) for x in (_step(a) or _MIN_NUMBER * largest, largest)))
    sizes = [float(f"{digits}e{ten}") for ten in tens for digits in range(10, 100)]
    numbers = np.unique([0.0, *sizes, *(-size for size in sizes)])
    return numbers[(numbers >= a.lower) & (numbers <= a.upper)]


def _edges_of(first: Floats, a: Numeric) -> tuple[float, ...]:
    """Return edges before each of these values. The last value never has two cells."""
    step = _step(a) or 0.0
    last = a.upper - step / 2  # the last bin is closed on both sides
    inner = np.unique(np.round(np.minimum(first, last), decimals(step, a.lower) + 1))
    inner = inner[(inner > a.lower + step / 2) & (inner < a.upper)]
    return (a.lower, *inner.tolist(), a.upper)


def _spaced(a: Numeric) -> Floats:
    """Return the edges of a grid before they are rounded to the step."""
    lower, upper = a.lower, a.upper
    near = 0.0 if lower <= 0 <= upper else min(lower, upper, key=abs)
    if isinstance(a, (Date, Difference)) or abs(near) >= _LINEAR * (upper - lower):
        return np.asarray(np.linspace(lower, upper, _NUMBERS + 1))
    unit = _step(a) or _FINEST * (upper - lower)
    low, high = math.asinh((lower - near) / unit), math.asinh((upper - near) / unit)
    return np.asarray(near + unit * np.sinh(np.linspace(low, high, _CELLS + 1)))
