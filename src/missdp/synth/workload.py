"""The workload of AIM and MST: the marginals that should be accurate."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Literal, TypeAlias, cast

from missdp.errors import ParameterError, did_you_mean
from missdp.schema import Schema
from missdp.schema.modelled import ModelView
from missdp.types import Clique

Workload: TypeAlias = int | Iterable[tuple[str, ...]] | Mapping[tuple[str, ...], float]

AUTO = "auto"
"""Workload of AllPairs that selects marginals of three or four attributes privately."""

MAX_CELLS = 1_000_000  # cells of one marginal
MAX_MARGINALS = 200_000  # marginals together
MAX_TOTAL_CELLS = 2**27  # cells of all marginals together: a gigabyte of counts in memory
_MAX_ALL = 100  # attributes up to which all pairs are measured together
_MAX_NEAR_PAIRS, _REACH = 8_000, 12  # near pairs, and columns that they reach at most
_MAX_ORDER = 4  # attributes of one marginal
_MIN_WEIGHT = 1e-9  # smallest weight of a marginal, and the inverse of the largest


def candidates(workload: Workload, schema: Schema) -> dict[Clique, float]:
    """Return measurable marginals of two or more attributes with their weights.

    These are all subsets of two or more attributes of the marginals in the workload. As in AIM, a
    weight is the overlap with the workload, ``w_r = Σ_s c_s |r ∩ s|``, and the largest weight is
    one. Marginals of more than a million cells are left out. More than 200,000 marginals, or more
    than 2²⁷ cells together, raise ParameterError: all are counted in one pass and held in memory.

    >>> from missdp import Schema
    >>> from missdp.synth.workload import candidates
    >>> from missdp.schema import Categorical
    >>> schema = Schema(tuple(Categorical(name=n, levels=("x", "y")) for n in "abc"))
    >>> candidates({("a", "b"): 3.0, ("b", "c"): 1.0}, schema)
    {(0, 1): 1.0, (1, 2): 0.7142857142857143}
    """
    named = named_marginals(workload, schema)
    subsets = {
        part
        for clique in named
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
            "cells together, too many to count in one pass. Name fewer marginals, use a smaller k, "
            "or declare coarser bins."
        )
    each = [0.0] * len(schema)  # Σ_s c_s |r ∩ s| is a sum over the members of r
    for clique, c in named.items():
        for v in clique:
            each[v] += c
    weight = {r: math.fsum(each[v] for v in r) for r in small}
    top = max(weight.values(), default=1.0)
    return {r: w / top for r, w in weight.items()}


def fixed_workload(workload: Workload | Literal["auto"]) -> Workload:
    """Return the marginals that are fixed in advance, which are all pairs for ``"auto"``."""
    return 2 if workload == AUTO else cast(Workload, workload)


def pairs_of(workload: Iterable[Clique], measured: Iterable[Clique] = ()) -> list[Clique]:
    """Return the pairs inside marginals of the workload that no measured marginal contains."""
    covered = {pair for clique in measured for pair in combinations(clique, 2)}
    pairs = (pair for clique in workload for pair in combinations(clique, 2))
    return [pair for pair in dict.fromkeys(pairs) if pair not in covered]


def count_pair_cells(sizes: Sequence[int], pairs: Iterable[Clique] | None) -> int:
    """Return the number of cells of some pairs of attributes, or of all pairs for None."""
    every = combinations(range(len(sizes)), 2) if pairs is None else pairs
    return sum(sizes[a] * sizes[b] for a, b in every)


def near_pairs(modelled: ModelView) -> list[tuple[int, int]] | None:
    """Return the pairs of a wide table that are measured together, or None for all pairs.

    Related questions of a questionnaire stand side by side. So these are the pairs of attributes
    that are near in the order of the schema, and the pairs in which rules make cells impossible.

    Parameters
    ----------
    modelled : ModelView
        The modelled attributes, and their rules. Public.

    Returns
    -------
    list of (int, int) or None
        Sorted positions. None for up to 100 attributes. More attributes have at most 12 pairs with
        later attributes, and with more than 666 attributes at most 8,000 near pairs together.

    Examples
    --------
    >>> from missdp.schema.modelled import ModelView
    >>> from missdp.synth.workload import near_pairs
    >>> from missdp.datasets import yrbss
    >>> near_pairs(ModelView(yrbss().schema())) is None
    True
    """
    names, d = modelled.schema.names, len(modelled.schema)
    if d <= _MAX_ALL:
        return None
    reach = max(1, min(_REACH, _MAX_NEAR_PAIRS // d))
    pairs = {(a, b) for a in range(d) for b in range(a + 1, min(d, a + 1 + reach))}
    place = {name: a for a, name in enumerate(names)}
    cliques = (sorted(map(place.__getitem__, c)) for c in modelled.impossible_cells if len(c) == 2)
    return sorted(pairs | {(a, b) for a, b in cliques})


def named_marginals(workload: Workload, schema: Schema) -> dict[Clique, float]:
    """Return the marginals that a workload names, by positions, with their weights.

    Parameters
    ----------
    workload : int, names or weights
        The workload of a family.
    schema : Schema
        The modelled attributes.

    Returns
    -------
    dict of tuple of int to float
        Weights by sorted positions.

    Raises
    ------
    ParameterError
        If the workload is not valid for the schema.
    """
    d = len(schema)
    # An iterator can be read only once.
    if isinstance(workload, (bool, str, float, Iterator)) or not isinstance(
        workload, (int, Iterable)
    ):
        raise ParameterError(
            "workload must be an integer k (all k-way marginals), names, or weights by names"
        )
    if isinstance(workload, int):
        if not 1 <= workload <= _MAX_ORDER:
            raise ParameterError(f"workload must be from 1 to {_MAX_ORDER}, got {workload}")
        if math.comb(d, min(workload, d)) > MAX_MARGINALS:
            raise _too_many()
        return dict.fromkeys(combinations(range(d), min(workload, d)), 1.0)
    named = workload.items() if isinstance(workload, Mapping) else ((c, 1.0) for c in workload)
    out: dict[Clique, float] = {}
    for names, weight in named:
        if not isinstance(names, (tuple, list)) or not all(isinstance(n, str) for n in names):
            raise ParameterError("every workload marginal must be a tuple of attribute names")
        if unknown := [name for name in names if name not in schema]:
            near = did_you_mean(unknown[0], schema.names)
            raise ParameterError(
                f"the workload names {unknown[0]!r}, which the schema does not have{near}"
            )
        if len(set(names)) != len(names) or not 1 <= len(names) <= _MAX_ORDER:
            raise ParameterError(
                f"a workload marginal must have 1 to {_MAX_ORDER} distinct attributes"
            )
        number = isinstance(weight, numbers.Real) and not isinstance(weight, bool)
        if not number or not _MIN_WEIGHT <= weight <= 1 / _MIN_WEIGHT:
            raise ParameterError(
                f"workload weights must be numbers from {_MIN_WEIGHT:g} to {1 / _MIN_WEIGHT:g}"
            )
        out[tuple(sorted(schema.names.index(name) for name in names))] = float(weight)
    if not out:
        raise ParameterError("the workload is empty")
    return out


def _too_many() -> ParameterError:
    return ParameterError(
        f"the workload has more than {MAX_MARGINALS:,} marginals. Name fewer marginals, or use a "
        "smaller k."
    )
