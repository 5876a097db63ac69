"""The workload of AIM and MST: which marginals should come out right, which cells are impossible.

Structural zeros, combinations of levels that are publicly known to be impossible, are public
facts, so they cost nothing; they must never be read from the private table. Impossible cells of a
marginal are fixed at zero whatever the private counts say, which is a function of each row on its
own: one row still changes one cell by at most one, both in what is measured and in the score of a
selection.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError, did_you_mean
from missdp.inference.beliefs import log_linear
from missdp.inference.junction import Clique, tree_cells
from missdp.inference.model import Zeros
from missdp.schema import Numeric, Schema
from missdp.schema.rulebook import ImpossibleCells

Workload: TypeAlias = int | Iterable[tuple[str, ...]] | Mapping[tuple[str, ...], float]

MAX_CELLS = 1_000_000
MAX_MARGINALS = 200_000
MAX_TOTAL_CELLS = 2**27  # a gigabyte of counts, which are all held at once
_MAX_ORDER = 4
_LEAST_WEIGHT = 1e-9


def candidates(workload: Workload, schema: Schema) -> dict[Clique, float]:
    """Return measurable marginals of two or more attributes with their weights.

    These are all subsets (of two or more attributes) of workload marginals, weighted as in AIM by
    how much of the workload they touch, ``w_r = Σ_s c_s |r ∩ s|``, the largest weight being one.
    Left out are those of more than a million cells; refused are more than 200,000 marginals, and
    more than 2²⁷ cells together: they are counted in one pass and held in memory.

    >>> from missdp.schema import Categorical
    >>> schema = Schema(tuple(Categorical(name=n, levels=("x", "y")) for n in "abc"))
    >>> candidates({("a", "b"): 3.0, ("b", "c"): 1.0}, schema)
    {(0, 1): 1.0, (1, 2): 0.7142857142857143}
    """
    wanted = named_marginals(workload, schema)
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


def pairs_of(workload: Iterable[Clique], measured: Iterable[Clique] = ()) -> list[Clique]:
    """Return the pairs inside marginals of the workload that no measured marginal contains."""
    known = {pair for clique in measured for pair in combinations(clique, 2)}
    wanted = (pair for clique in workload for pair in combinations(clique, 2))
    return [pair for pair in dict.fromkeys(wanted) if pair not in known]


def named_marginals(workload: Workload, schema: Schema) -> dict[Clique, float]:
    """Return the marginals that a workload names, by positions, with their weights."""
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


StructuralZeros: TypeAlias = Mapping[
    tuple[str, ...], NDArray[np.bool_] | Sequence[tuple[str | int | bool, ...]]
]


def read_zeros(given: StructuralZeros | None, schema: Schema, *, max_cells: float) -> Zeros:
    """Check structural zeros, as `AIM` takes them, and put them on attribute positions.

    Refused are unknown names, zeros that leave nothing possible, and those that need a junction
    tree of more cells than ``max_cells``.

    >>> from missdp.schema import Categorical
    >>> schema = Schema((
    ...     Categorical(name="age", levels=("child", "adult")),
    ...     Categorical(name="married", levels=(False, True)),
    ... ))
    >>> read_zeros({("married", "age"): [(True, "child")]}, schema, max_cells=100)[0, 1].tolist()
    [[False, True], [False, False]]
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ParameterError(
            "structural_zeros must map tuples of attribute names to impossible combinations"
        )
    out: Zeros = {}
    for names, cells in given.items():
        clique = _positions(names, schema)
        table = _table(names, cells, schema)
        order = np.argsort([schema.names.index(name) for name in names])
        table = table.transpose(order)
        if table.any():
            out[clique] = out[clique] | table if clique in out else table
    if out:
        _check_possible(out, [a.size for a in schema], max_cells)
    return out


def _positions(names: Any, schema: Schema) -> Clique:
    if not isinstance(names, tuple) or not names or not set(names) <= set(schema.names):
        raise ParameterError("structural_zeros: every key must be a tuple of attribute names")
    if len(set(names)) != len(names):
        raise ParameterError("structural_zeros: the names of a key must be distinct")
    if math.prod(schema[name].size for name in names) > MAX_CELLS:
        raise ParameterError(
            f"structural_zeros: {names} has more than {MAX_CELLS:,} level combinations"
        )
    return tuple(sorted(schema.names.index(name) for name in names))


def _table(names: tuple[str, ...], cells: Any, schema: Schema) -> NDArray[np.bool_]:
    shape = tuple(schema[name].size for name in names)
    if isinstance(cells, np.ndarray):
        if cells.dtype != np.bool_ or cells.shape != shape:
            raise ParameterError(
                f"structural_zeros: the array of {names} must be of bool and have shape {shape}"
            )
        return cells.copy()
    if not isinstance(cells, (list, tuple, set, frozenset)):  # read more than once
        raise ParameterError(
            f"structural_zeros: {names} needs an array of bool or a list of level combinations"
        )
    table = np.zeros(shape, dtype=bool)
    for cell in cells:
        table[_codes(names, cell, schema)] = True
    return table


def _codes(names: tuple[str, ...], cell: Any, schema: Schema) -> tuple[int, ...]:
    if isinstance(cell, str) or not isinstance(cell, Sequence) or len(cell) != len(names):
        raise ParameterError(f"structural_zeros: {names} needs one level for each name")
    codes = []
    for name, level in zip(names, cell, strict=True):
        attribute = schema[name]
        if isinstance(attribute, Numeric):
            raise ParameterError(
                f"structural_zeros: {name!r} is numeric; give an array of bool over its bins"
            )
        if level not in attribute.levels:
            raise ParameterError(f"structural_zeros: {attribute.not_a_level(level)}")
        codes.append(attribute.levels.index(level))
    return tuple(codes)


_RULES_SHARE = 0.5  # of the cells of the junction tree; the rest is for what is measured


def with_rules(
    zeros: Zeros, impossible: ImpossibleCells, schema: Schema, *, max_cells: float
) -> Zeros:
    """Add the impossible cells of rules, smallest first, while the model stays small."""
    sizes = [a.size for a in schema]
    found = {clique: _padded(table, [sizes[v] for v in clique]) for clique, table in zeros.items()}
    for names in sorted(impossible, key=lambda names: (impossible[names].size, names)):
        clique = tuple(schema.names.index(name) for name in names)
        table = impossible[names]
        trial = found | {clique: found[clique] | table if clique in found else table}
        if tree_cells(sizes, trial) <= _RULES_SHARE * max_cells:
            found = trial
    if zeros and impossible:
        _check_possible(found, sizes, max_cells)
    return found


def _padded(table: NDArray[np.bool_], sizes: Sequence[int]) -> NDArray[np.bool_]:
    return np.pad(table, [(0, size - n) for size, n in zip(sizes, table.shape, strict=True)])


def _check_possible(zeros: Zeros, sizes: Sequence[int], max_cells: float) -> None:
    if tree_cells(sizes, zeros) > max_cells:
        raise ParameterError(
            "structural_zeros need a larger model than max_model_size allows; raise it, or give "
            "fewer constraints"
        )
    try:
        with np.errstate(divide="ignore", invalid="ignore"):
            possible = math.isfinite(log_linear(sizes, {}, zeros)[1])
    except ValueError:  # the logarithm of zero
        possible = False
    if not possible:
        raise ParameterError("structural_zeros rule out every row")
