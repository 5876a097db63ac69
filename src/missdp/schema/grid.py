"""Numeric attributes whose bins are not declared: the grid they are counted on, and what is found.

Synthesizers find bins from a noisy count of a fine grid. The grid, and the most codes that bins and
spikes can have, follow from declared bounds and steps alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeGuard

import numpy as np

from missdp.schema.attributes import Attribute
from missdp.schema.dates import Date
from missdp.schema.differences import Difference
from missdp.schema.numeric import Numeric, decimals
from missdp.schema.schema import Schema
from missdp.types import Floats

_PENDING = "this fit"  # what ``cuts_from`` says of an attribute that a fit is about to cut
_FEW = "its numbers"  # of one that has so few numbers that each is a bin
_FOUND = "its own fit"  # of one that was cut
#: Most bins and spikes of an attribute that are found privately.
MOST_CODES = 20

_SINGLY = 16  # numbers, each of which is a bin of its own, so that nothing is to be found
_NUMBERS = 4096  # that are cells of their own
_CELLS = 2**12  # of the grid otherwise
_FINEST = 1e-8  # of the range, the unit of numbers without a step
_HAIR = 1e-12
_LINEAR = 0.25  # of the range; bounds further from 0 are cut evenly


def _step(attribute: Numeric) -> float | None:
    return attribute.step or (1.0 if attribute.integer else None)


def _numbers(attribute: Numeric) -> float:
    """Return how many numbers an attribute may be."""
    step = _step(attribute)
    return math.inf if step is None else round((attribute.upper - attribute.lower) / step) + 1


def pending(schema: Schema, names: Iterable[str]) -> Schema:
    """Return a schema with the named attributes, if their bins are open, marked as to be cut.

    Each has as many codes as it can have once it is cut. Where there are few numbers each is a bin,
    and nothing is to be found. What follows from other attributes is not counted, and stays.
    """
    wanted = {*names} - {*schema.rulebook.derives}
    earlier = {a.name: replace(a, cuts_from="an earlier fit") for a in schema if _is_found(a)}
    return _with(
        schema, earlier | {a.name: _marked(a) for a in schema if a.name in wanted and _open(a)}
    )


def _open(a: Attribute) -> TypeGuard[Numeric]:
    return isinstance(a, Numeric) and a.bins is None and a.edges is None and not a.spikes


def _marked(a: Numeric) -> Numeric:
    if (numbers := _numbers(a)) <= _SINGLY:
        return replace(a, bins=int(numbers), cuts_from=_FEW)
    return replace(a, bins=int(min(MOST_CODES, numbers)), cuts_from=_PENDING)


def is_pending(attribute: Attribute) -> TypeGuard[Numeric]:
    """Whether a fit is about to cut an attribute."""
    return isinstance(attribute, Numeric) and attribute.cuts_from == _PENDING


def takes_every_number(attribute: Attribute) -> bool:
    """Whether each number of an attribute is a bin, since it has few and its bins were open."""
    return isinstance(attribute, Numeric) and attribute.cuts_from == _FEW


def widest(schema: Schema) -> Schema:
    """Return the schema of a fit as it was before bins were found: only what was public then."""
    return _with(schema, {a.name: _marked(_uncut(a)) for a in schema if is_pending(a)})


def found(schema: Schema) -> Schema:
    """Return the schema of a fit that is done: no attribute is still to be cut."""
    cuts = {a.name: replace(a, cuts_from=_FOUND) for a in schema if is_pending(a)}
    return _with(schema, cuts)


def _is_found(a: Attribute) -> TypeGuard[Numeric]:
    return isinstance(a, Numeric) and a.cuts_from == _FOUND


def uncut(schema: Schema) -> Schema:
    """Return the schema of a fit as it was declared, before bins were found."""
    own = (a for a in schema if isinstance(a, Numeric) and a.cuts_from in (_FOUND, _FEW))
    return _with(schema, {a.name: _uncut(a) for a in own})


def _uncut(a: Numeric) -> Numeric:
    return replace(a, bins=None, edges=None, spikes=(), pieces=None, shares=None, cuts_from=None)


def _with(schema: Schema, cuts: Mapping[str, Numeric]) -> Schema:
    """Return a schema with some numeric attributes replaced by cut ones; if none, itself."""
    if not cuts:
        return schema
    return replace(schema, attributes=tuple(cuts.get(a.name, a) for a in schema))


def on_grid(schema: Schema) -> Schema:
    """Return the schema with every attribute that is to be cut on a fine grid.

    The cells are equal in asinh((x - c) / unit): fine around c, and further out as wide as their
    numbers are large. c is 0 where that is in the domain, else the bound that is nearest to 0; the
    unit is the step, or a hundred millionth of the range. Dates and their
    differences, and bounds that are far from 0, have cells of equal width. Where there are few
    numbers, each has a cell of its own.
    """
    grids = {a.name: _on_grid(_uncut(a)) for a in schema if is_pending(a)}
    return _with(schema, grids)


def _on_grid(a: Numeric) -> Numeric:
    step, lower, upper = _step(a), a.lower, a.upper
    if _numbers(a) <= _NUMBERS and step is not None:
        numbers = lower + step * np.arange(_numbers(a))
        return replace(a, edges=_edges_of(numbers, a), cuts_from=_PENDING)
    edges = _spaced(a)
    if step is not None:
        steps = np.unique(np.ceil((edges[1:-1] - lower) / step))
        return replace(a, edges=_edges_of(lower + step * steps, a), cuts_from=_PENDING)
    hair = _HAIR * max(abs(lower), abs(upper))  # by which rounding misses the bounds
    inner = edges[(edges > lower + hair) & (edges < upper - hair)]
    points = {lower, upper} | ({0.0} if lower < 0 < upper else set())
    edges = np.unique([lower, *inner, *points, upper])
    return replace(a, edges=tuple(edges.tolist()), spikes=tuple(sorted(points)), cuts_from=_PENDING)


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
        return np.asarray(np.linspace(lower, upper, _CELLS + 1))
    unit = _step(a) or _FINEST * (upper - lower)
    low, high = math.asinh((lower - near) / unit), math.asinh((upper - near) / unit)
    edges = np.asarray(near + unit * np.sinh(np.linspace(low, high, _CELLS + 1)))
    if lower < 0 < upper:
        edges[np.argmin(np.abs(edges))] = 0.0
    return edges
