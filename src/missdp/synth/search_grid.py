"""The search grid of numbers that declare no bins: a fit finds them there, from noisy counts.

The grid, and the most codes that bins and spikes can have, follow from declared bounds and steps
alone. While a fit is under way, the bins of its schema are pending. When it is done,
`released_bins` returns them as results of the fit.
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

#: Most bins and spikes of an attribute that are found privately.
MAX_CODES = 20

_SINGLY = 12  # numbers, each of which is a bin of its own, so that nothing is to be found
_NUMBERS = 4096  # that are cells of their own, and cells of equal width
_CELLS = 3072  # otherwise, beside numbers of two digits,
_LEAST = 1e-5  # down to which part of the largest number
_STEPS = 1e9  # beyond which rounding tells them apart no longer
_FINEST = 1e-8  # of the range, the unit of numbers without a step
_HAIR = 1e-12
_LINEAR = 0.25  # of the range; bounds further from 0 are cut evenly


def _step(attribute: Numeric) -> float | None:
    return attribute.step or (1.0 if attribute.integer else None)


def _numbers(attribute: Numeric) -> float:
    """Return how many numbers an attribute may be."""
    step = _step(attribute)
    return math.inf if step is None else round((attribute.upper - attribute.lower) / step) + 1


def with_pending_bins(schema: Schema, names: Iterable[str]) -> Schema:
    """Return a schema in which the named attributes, if they declare no bins, have pending bins.

    Each has as many codes as it can have once bins are found. Few numbers are a bin each.
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
    """Whether the fit that is under way finds the bins of an attribute, or has found them."""
    return isinstance(attribute, Numeric) and attribute.binning.source is BinSource.PENDING


def takes_every_number(attribute: Attribute) -> TypeGuard[Numeric]:
    """Whether each number of an attribute is a bin, since it has few and declares no bins."""
    return isinstance(attribute, Numeric) and attribute.binning.source is BinSource.EACH_NUMBER


def before_fit(schema: Schema) -> Schema:
    """Return the schema of a fit as it was before bins were found: only what was public then."""
    return schema.with_attributes({a.name: _pending(a) for a in schema if is_pending(a)})


def released_bins(schema: Schema, declared: Schema) -> dict[str, Binning]:
    """Return the bins of a schema of a fit which the declared schema does not have."""
    return {
        a.name: replace(a.binning, source=BinSource.RELEASE) if is_pending(a) else a.binning
        for a in schema
        if isinstance(a, Numeric) and a != declared[a.name]
    }


def with_search_grid(schema: Schema) -> Schema:
    """Return the schema with the bins of a fine grid for each attribute with pending bins.

    Its cells are equal in asinh((x - c) / unit): c is 0 or the bound nearest to it, the unit a step
    or a hundred millionth of the range. They are even for dates, their differences, and bounds far
    from 0. Few numbers, and those of two digits, have cells of their own.
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
        alone = of[of < _STEPS, None] + [-1, 0, 1]  # and .99 before it
        steps = np.append(np.ceil((edges[1:-1] - lower) / step), alone)
        return Binning(edges=_edges_of(lower + step * steps, a), source=BinSource.PENDING)
    hair = _HAIR * max(abs(lower), abs(upper))  # by which rounding misses the bounds
    inner = edges[(edges > lower + hair) & (edges < upper - hair)]
    points = {lower, upper, *common.tolist()}
    cells = tuple(np.unique([lower, *inner, *points, upper]).tolist())
    return Binning(edges=cells, spikes=tuple(sorted(points)), source=BinSource.PENDING)


def _common(a: Numeric) -> Floats:
    """Return numbers of at most two digits, zeros aside: heaps are where people round."""
    if isinstance(a, (Date, Difference)):
        return np.zeros(0)
    most = max(abs(a.lower), abs(a.upper))
    tens = range(*(math.floor(math.log10(x)) for x in (_step(a) or _LEAST * most, most)))
    sizes = [float(f"{digits}e{ten}") for ten in tens for digits in range(10, 100)]
    found = np.unique([0.0, *sizes, *(-size for size in sizes)])
    return found[(found >= a.lower) & (found <= a.upper)]


def _edges_of(first: Floats, a: Numeric) -> tuple[float, ...]:
    """Return edges before each of these values; the last value of all is never alone in two."""
    step = _step(a) or 0.0
    last = a.upper - step / 2  # the last bin is closed on both sides
    inner = np.unique(np.round(np.minimum(first, last), decimals(step, a.lower) + 1))
    inner = inner[(inner > a.lower + step / 2) & (inner < a.upper)]
    return (a.lower, *inner.tolist(), a.upper)


def _spaced(a: Numeric) -> Floats:
    """Return the edges of a grid before they are brought to the step."""
    lower, upper = a.lower, a.upper
    near = 0.0 if lower <= 0 <= upper else min(lower, upper, key=abs)
    if isinstance(a, (Date, Difference)) or abs(near) >= _LINEAR * (upper - lower):
        return np.asarray(np.linspace(lower, upper, _NUMBERS + 1))
    unit = _step(a) or _FINEST * (upper - lower)
    low, high = math.asinh((lower - near) / unit), math.asinh((upper - near) / unit)
    return np.asarray(near + unit * np.sinh(np.linspace(low, high, _CELLS + 1)))
