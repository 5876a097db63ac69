"""Which marginals should come out right, and which may be measured to that end."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import TypeAlias

from missdp.errors import ParameterError
from missdp.schema import Schema
from missdp.synth.graphical.junction import Clique

__all__ = ["MAX_CELLS", "MAX_TOTAL_CELLS", "Workload", "candidates"]

Workload: TypeAlias = int | Iterable[tuple[str, ...]] | Mapping[tuple[str, ...], float]

MAX_CELLS = 1_000_000
MAX_MARGINALS = 200_000
MAX_TOTAL_CELLS = 2**27  # a gigabyte of counts, which are all held at once
_MAX_ORDER = 4
_LEAST_WEIGHT = 1e-9


def candidates(workload: Workload, schema: Schema) -> dict[Clique, float]:
    """Return measurable marginals of two or more attributes with their weights.

    Parameters
    ----------
    workload : int, iterable of tuple of str, or mapping of tuple of str to float
        All k-way marginals, or the named ones, or the named ones with weights above 0.
    schema : Schema

    Returns
    -------
    dict of Clique to float
        Every subset (of two or more attributes) of a workload marginal, weighted as in AIM by how
        much of the workload it touches, ``w_r = Σ_s c_s |r ∩ s|``, the largest weight being one.
        Marginals of more than a million cells are left out.

    Raises
    ------
    ParameterError
        If the workload is empty or not understood, consists of more than 200,000 marginals, or all
        its marginals together have more than 2²⁷ cells: they are counted in one pass and held in
        memory.

    Examples
    --------
    >>> from missdp.schema import Categorical
    >>> schema = Schema(tuple(Categorical(name=n, levels=("x", "y")) for n in "abc"))
    >>> candidates(2, schema)
    {(0, 1): 1.0, (0, 2): 1.0, (1, 2): 1.0}
    >>> candidates({("a", "b"): 3.0, ("b", "c"): 1.0}, schema)
    {(0, 1): 1.0, (1, 2): 0.7142857142857143}
    """
    wanted = _weights(workload, schema)
    subsets = {
        part
        for clique in wanted
        for k in range(2, len(clique) + 1)
        for part in combinations(clique, k)
    }
    if len(subsets) > MAX_MARGINALS:
        raise _too_many()
    sizes = [a.extended_size for a in schema]
    small = sorted(r for r in subsets if math.prod(sizes[v] for v in r) <= MAX_CELLS)
    if sum(sizes) + sum(math.prod(sizes[v] for v in r) for r in small) > MAX_TOTAL_CELLS:
        raise ParameterError(
            f"the {len(small):,} marginals of the workload have more than {MAX_TOTAL_CELLS:,} "
            "cells together, too many to count in one pass; name fewer marginals, use a smaller "
            "k, or declare coarser bins"
        )
    each = [0.0] * len(schema)  # the sum over s of c_s |r ∩ s| is one over the members of r
    for clique, c in wanted.items():
        for v in clique:
            each[v] += c
    weight = {r: math.fsum(each[v] for v in r) for r in small}
    top = max(weight.values(), default=1.0)
    return {r: w / top for r, w in weight.items()}


def _weights(workload: Workload, schema: Schema) -> dict[Clique, float]:
    d = len(schema)
    # An iterator could be read only once.
    if isinstance(workload, (bool, str, float, Iterator)) or not isinstance(
        workload, (int, Iterable)
    ):
        raise ParameterError(
            "workload must be a number k (all k-way marginals), names, or weights by names"
        )
    if isinstance(workload, int):
        if not 1 <= workload <= _MAX_ORDER:
            raise ParameterError(f"workload must be from 1 to {_MAX_ORDER}, got {workload}")
        if math.comb(d, min(workload, d)) > MAX_MARGINALS:
            raise _too_many()
        return dict.fromkeys(combinations(range(d), min(workload, d)), 1.0)
    named = workload.items() if isinstance(workload, Mapping) else ((c, 1.0) for c in workload)
    known = set(schema.names)
    out: dict[Clique, float] = {}
    for names, weight in named:
        if not isinstance(names, (tuple, list)) or not all(
            isinstance(name, str) and name in known for name in names
        ):
            raise ParameterError("every workload marginal must be a tuple of attribute names")
        if len(set(names)) != len(names) or not 1 <= len(names) <= _MAX_ORDER:
            raise ParameterError(
                f"a workload marginal must have 1 to {_MAX_ORDER} distinct attributes"
            )
        number = isinstance(weight, numbers.Real) and not isinstance(weight, bool)
        if not number or not _LEAST_WEIGHT <= weight <= 1 / _LEAST_WEIGHT:
            raise ParameterError(
                f"workload weights must be numbers from {_LEAST_WEIGHT:g} to {1 / _LEAST_WEIGHT:g}"
            )
        out[tuple(sorted(schema.names.index(name) for name in names))] = float(weight)
    if not out:
        raise ParameterError("the workload is empty")
    return out


def _too_many() -> ParameterError:
    return ParameterError(
        f"the workload has more than {MAX_MARGINALS:,} marginals; name fewer, or use a smaller k"
    )
