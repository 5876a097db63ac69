"""Cliques of attributes that are counted together: checks, batches and groups.

Plans depend on public facts only. The counting kernel (`missdp.session.counting`) puts each row
into one cell of each group, for any groups. So a poor plan takes time, and changes no bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

import numpy as np

from missdp.errors import ParameterError
from missdp.schema.schema import Schema
from missdp.types import Flags, Floats

#: Names of attributes whose combinations of codes are counted together. The order is the order of
#: the axes of the counts. The empty clique counts all rows.
Clique: TypeAlias = tuple[str, ...]
#: The rows that counts include: "observed" for rows without a missing cell in the attributes of the
#: clique, or "extended" for all rows, with kinds of missing as additional levels.
Rows: TypeAlias = Literal["observed", "extended"]

MAX_CELLS = 50_000_000  # cells of one clique, 400 MB of counts
_MAX_TOTAL_CELLS = 4 * MAX_CELLS  # cells of all cliques of one call
_PLANNED_AT_ONCE = 2000  # cliques of one batch of planning
_BLOCK = 32  # neighbouring attributes of one block


def check_cliques(schema: Schema, cliques: Iterable[Clique], rows: Rows) -> tuple[Clique, ...]:
    """Check cliques against limits of memory, and return each clique once, in order.

    Parameters
    ----------
    schema : Schema
        Public facts about the rows.
    cliques : iterable of tuple of str
        Names of attributes. Their order is the order of the axes of the counts.
    rows : {"observed", "extended"}
        The rows that count: rows observed on the clique, or all rows.

    Returns
    -------
    tuple of tuple of str
        Each clique once.

    Raises
    ------
    ParameterError
        If a clique repeats an attribute, or if the counts are too large to hold in memory.
    """
    if rows not in ("observed", "extended"):
        raise ParameterError(f"rows must be 'observed' or 'extended', not {rows!r}")
    distinct: dict[Clique, int] = {}
    for clique in cliques:
        if isinstance(clique, str):
            raise ParameterError(f"a clique is a tuple of names: write ({clique!r},)")
        names = tuple(clique)
        if len(set(names)) != len(names):
            raise ParameterError(f"clique {names} repeats an attribute")
        cells = math.prod(schema.extended_shape(names))
        if cells > MAX_CELLS:
            raise ParameterError(
                f"clique {names} has {cells:,} cells, more than the {MAX_CELLS:,} that are counted "
                "exactly. Use fewer attributes, or fewer bins or levels."
            )
        distinct[names] = cells
    total = sum(distinct.values())
    if total > _MAX_TOTAL_CELLS:
        raise ParameterError(
            f"{len(distinct)} cliques have {total:,} cells together, more than the "
            f"{_MAX_TOTAL_CELLS:,} that are held at once. Request fewer cliques at a time."
        )
    return tuple(distinct)


def plan_groups(
    schema: Schema, cliques: Sequence[Clique], *, group_cells: int
) -> list[tuple[Clique, list[Clique]]]:
    """Cover cliques by few groups of attributes, greedily.

    The time of planning grows with the square of the number of cliques. Many cliques are therefore
    planned in batches, by the blocks of neighbouring attributes that contain them.

    Parameters
    ----------
    schema : Schema
        Public facts about the rows.
    cliques : sequence of tuple of str
        Distinct cliques.
    group_cells : int
        Largest number of cells of a group that cliques are merged into.

    Returns
    -------
    list of (tuple of str, list of tuple of str)
        The attributes of each group, in schema order, and the cliques that are summed out of it.
    """
    if len(cliques) <= _PLANNED_AT_ONCE:
        return _planned(schema, cliques, group_cells)
    column = {name: i for i, name in enumerate(schema.names)}
    batches: dict[tuple[int, ...], list[Clique]] = {}
    for clique in cliques:
        blocks = tuple(sorted({column[name] // _BLOCK for name in clique}))
        batches.setdefault(blocks, []).append(clique)
    groups: list[tuple[Clique, list[Clique]]] = []
    for batch in batches.values():
        for start in range(0, len(batch), _PLANNED_AT_ONCE):
            part = batch[start : start + _PLANNED_AT_ONCE]
            groups += _planned(schema, part, group_cells)
    return groups


def _planned(
    schema: Schema, cliques: Sequence[Clique], group_cells: int
) -> list[tuple[Clique, list[Clique]]]:
    """Cover a few cliques by groups. See `plan_groups`."""
    used = {name for clique in cliques for name in clique}
    attributes = [a for a in schema if a.name in used]
    all_names = tuple(a.name for a in attributes)
    sizes = np.array([a.extended_size for a in attributes], dtype=np.float64)
    column = {name: i for i, name in enumerate(all_names)}
    member = np.zeros((len(cliques), len(attributes)), dtype=bool)
    for row, clique in enumerate(cliques):
        member[row, [column[name] for name in clique]] = True
    waiting = np.arange(len(cliques))[np.argsort(-member.sum(axis=1), kind="stable")]
    member = np.asfortranarray(member[waiting])
    groups = []
    while len(waiting):
        chosen = _grow(member[0], member, sizes, group_cells)
        covered = ~np.any(member[:, ~chosen], axis=1)
        names = tuple(name for name, flag in zip(all_names, chosen, strict=True) if flag)
        groups.append((names, [cliques[row] for row in waiting[covered]]))
        waiting, member = waiting[~covered], np.asfortranarray(member[~covered])
    return groups


def _grow(start: Flags, member: Flags, sizes: Floats, group_cells: int) -> Flags:
    """Return the attributes of a group that starts from a clique and covers more cliques."""
    chosen = start.copy()
    lacking = np.count_nonzero(member[:, ~chosen], axis=1)
    while True:
        gain = member[lacking == 1].sum(axis=0).astype(np.float64)
        too_big = np.prod(sizes[chosen]) * sizes > group_cells
        gain[chosen | too_big] = 0.0
        if not gain.any():
            return chosen
        best = np.lexsort((sizes, -gain))[0]
        chosen[best] = True
        lacking -= member[:, best]


def batches(schema: Schema, cliques: Iterable[Clique], max_cells: int) -> Iterator[list[Clique]]:
    """Split cliques into lists whose counts fit into memory together.

    Parameters
    ----------
    schema : Schema
        Public facts about the rows.
    cliques : iterable of tuple of str
        All cliques, in the order in which they are counted.
    max_cells : int
        Largest number of cells of a list. A single clique may have more cells.

    Yields
    ------
    list of tuple of str
        The next cliques.
    """
    batch: list[Clique] = []
    cells = 0
    for clique in cliques:
        size = math.prod(schema.extended_shape(clique))
        if batch and cells + size > max_cells:
            yield batch
            batch, cells = [], 0
        batch.append(clique)
        cells += size
    if batch:
        yield batch
