"""What the door runs of rows, each alone, to answer statistics: who is in question, what each adds.

Plain functions of the rows and of public or released facts.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.mechanisms.questions import Rows
from missdp.schema.conditions import Predicate
from missdp.statistics.worst_case import Names, decide

__all__ = [
    "applicable",
    "cells",
    "deviations",
    "level",
    "members",
    "possible",
    "products",
    "squares",
]


def members(
    rows: Rows, chosen: tuple[Predicate, ...], known: Names, about: Names
) -> NDArray[np.bool_]:
    """Tell which rows are in all subpopulations, with values, of those to which some apply."""
    found = applicable(rows, about)
    for predicate in chosen:
        found &= predicate.select(rows)
    for name in known:
        found &= ~rows.mask(name)
    return found


def products(
    rows: Rows, who: tuple[Any, ...], names: Names, centres: tuple[float, ...]
) -> NDArray[np.float64]:
    """Return products of deviations from centres, of rows in question."""
    factors = (rows.values(n) - c for n, c in zip(names, centres, strict=True))
    return np.where(members(rows, *who), math.prod(factors), 0.0)


def possible(rows: Rows, where: Predicate, lacking: Names, about: Names) -> NDArray[np.bool_]:
    """Tell which rows may be in a subpopulation, and lack one of some attributes, if any."""
    found = decide(where, rows)[1] & applicable(rows, about)
    holes = [rows.holes(name) & rows.applies(name)[0] for name in lacking]
    return np.asarray(found & np.logical_or.reduce(holes) if holes else found)


def applicable(rows: Rows, about: Names) -> NDArray[np.bool_]:
    """Tell to which rows all of some attributes surely apply."""
    found = np.ones(len(rows), dtype=bool)
    for name in about:
        found &= rows.applies(name)[0]
    return found


def squares(rows: Rows, where: Predicate, name: str, centre: float) -> NDArray[np.float64]:
    """Return squared deviations of observed values, of rows that are surely in a subpopulation."""
    there = decide(where, rows)[0] & ~rows.mask(name)
    return np.where(there, np.square(rows.values(name) - centre), 0.0)


def level(rows: Rows, chosen: Predicate, name: str) -> NDArray[np.int64]:
    """Return the level of each row of a subpopulation, -1 for the others."""
    return np.where(chosen.select(rows), rows.codes(name), -1)


def cells(
    rows: Rows, who: tuple[Any, ...], by: str, condition: Predicate | None
) -> NDArray[np.int64]:
    """Return the group of each row, from the number of groups on for those without a property."""
    group, there = rows.codes(by), members(rows, *who)
    if condition is not None:
        group = group + np.where(condition.select(rows), 0, rows.schema[by].size)
    return np.where(there, group, -1)


def deviations(
    rows: Rows, who: tuple[Any, ...], by: str, name: str, centre: float, half: float
) -> NDArray[np.float64]:
    """Return each row's deviation in the place of its group, and its 1 in another one."""
    size, there = rows.schema[by].size, members(rows, *who)
    found = np.zeros((len(rows), 2 * size))
    row, group = np.flatnonzero(there), rows.codes(by)[there]
    found[row, group] = np.clip((rows.values(name)[there] - centre) / half, -1.0, 1.0)
    found[row, size + group] = 1.0
    return found
