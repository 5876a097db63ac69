"""Pairs of tables that differ in one missing cell, for any library, and what a release tells apart.

Two tables that differ in one cell of one row are neighbours under any definition of differential
privacy. So nothing about a release that does not vary from run to run may differ between them: its
columns, their types, whether a value may be missing, its bounds, a warning, a refusal. This file
needs NumPy and pandas only, and runs in any library's environment.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

_MOST_LEVELS = 30
_AGAIN = 3  # times as many runs before a fact is returned
_MOST = 2 / 3  # of the values: what a level has for certain, whatever noise there is


@dataclass(frozen=True, eq=False)
class HolePair:
    """Two tables that differ in one cell.

    Columns are ``job`` (levels "a", "b", "c"), ``town`` ("x", "y"), ``grade`` (the whole numbers 1,
    2, 3 as levels), ``age`` (whole numbers from 18 to 80) and ``score`` (numbers from 0 to 1).
    """

    name: str
    one: pd.DataFrame
    other: pd.DataFrame


def hole_pairs(rows: int = 300, *, seed: int = 0) -> tuple[HolePair, ...]:
    """Return pairs of tables that differ in one cell, a missing cell in at least one of them.

    ``"one hole"``: one more, in a column that has some. ``"a hole where others have none"``: the
    only one of its column. ``"one missing code"``: a cell is -9 instead of a number. ``"a hole
    among whole numbers"``: the only one of a column of whole numbers, which data frames then hold
    as decimal ones. ``"NaN against null"``: the same missing cell, as NaN or as None. ``"an
    all-missing column"``: no value at all, or one.
    """
    rng = np.random.default_rng(seed)
    full = pd.DataFrame(
        {
            "job": pd.Series(rng.choice(["a", "b", "c"], rows), dtype=object),
            "town": pd.Series(rng.choice(["x", "y"], rows), dtype=object),
            "age": rng.integers(18, 81, rows),
            "score": rng.random(rows),
            "grade": rng.choice([1, 2, 3], rows, p=[0.1, 0.1, 0.8]),
        }
    )
    full.loc[rng.random(rows) < 0.2, "score"] = np.nan
    full.loc[0, "score"] = 0.5
    empty = full.assign(town=pd.Series([None] * rows, dtype=object))
    coded = full.assign(age=full["age"].where(full.index != 0, -9))
    holed = full.assign(job=_with(full["job"], None))
    return (
        HolePair("one hole", full, full.assign(score=_with(full["score"], np.nan))),
        HolePair("a hole where others have none", full, holed),
        HolePair("one missing code", full, coded),
        HolePair(
            "a hole among whole numbers", full, full.assign(grade=_with(full["grade"], np.nan))
        ),
        HolePair("NaN against null", full.assign(job=_with(full["job"], np.nan)), holed),
        HolePair("an all-missing column", empty, empty.assign(town=_with(empty["town"], "x"))),
    )


def differing_facts(
    run: Callable[[pd.DataFrame], Any], pair: HolePair, *, repeats: int = 6
) -> dict[str, tuple[Any, Any]]:
    """Return the facts of a release that tell a pair of tables apart for certain.

    Parameters
    ----------
    run : callable
        ``run(frame)`` releases a data frame, a mapping of names to values or data frames, or
        anything else (of which the type is compared). With fresh noise at every call.
    pair : HolePair
    repeats : int, default 6
        How often each table is released, at least 2. What is not the same every time is not
        compared. If a fact differs, each table is released three times as often again, and only
        what differs in all these runs too is returned: with ``repeats=3``, a fact that noise
        decides like the toss of a coin would be returned once in 8 million times.

    Returns
    -------
    dict of str to (value, value)
        By the name of the fact, its value on either table; empty if nothing was told.

    Examples
    --------
    >>> pair = hole_pairs()[1]
    >>> differing_facts(lambda frame: frame.isna().any().rename(str), pair)["job"]
    (False, True)
    >>> differing_facts(lambda frame: {"rows": len(frame)}, pair)
    {}
    """
    if repeats < 2:
        raise ValueError("repeats must be 2 or more: once, noise cannot be seen to vary")
    runs: tuple[list[dict[str, Any]], ...] = ([], [])
    told: dict[str, tuple[Any, Any]] = {}
    for times in (repeats, _AGAIN * repeats):
        for table, seen in zip((pair.one, pair.other), runs, strict=True):
            seen.extend(_facts(run, table) for _ in range(times))
        told = _told(*runs)
        if not told:
            break
    return told


def _told(ones: list[dict[str, Any]], others: list[dict[str, Any]]) -> dict[str, tuple[Any, Any]]:
    """Return what one table always has, and the other always has in another way."""
    found = {}
    for name in dict.fromkeys(name for facts in (*ones, *others) for name in facts):
        one, other = ([facts.get(name) for facts in runs] for runs in (ones, others))
        seen = [{(type(value), repr(value)) for value in values} for values in (one, other)]
        if len(seen[0]) == len(seen[1]) == 1 and seen[0] != seen[1]:
            found[name] = one[0], other[0]
    return found


def _with(column: pd.Series[Any], value: Any) -> pd.Series[Any]:
    """Return a column whose first cell is this value."""
    cells = column.astype(object).tolist()
    cells[0] = value
    return pd.Series(cells, dtype=np.float64 if column.dtype.kind in "if" else object)


def _facts(run: Callable[[pd.DataFrame], Any], table: pd.DataFrame) -> dict[str, Any]:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found = run(table.copy())
        except Exception as error:  # noqa: BLE001 - whatever another library raises
            return {"refusal": type(error).__name__, "message": str(error)[:200]}
    facts: dict[str, Any] = {"warnings": sorted({str(w.message)[:200] for w in warned})}
    if isinstance(found, pd.DataFrame):
        found = {"frame": found}
    pairs = found.items() if hasattr(found, "items") else [("type", type(found).__name__)]
    for name, value in pairs:
        facts |= _of_columns(value) if isinstance(value, pd.DataFrame) else {str(name): value}
    return facts


def _of_columns(frame: pd.DataFrame) -> dict[str, Any]:
    facts: dict[str, Any] = {"columns": tuple(map(str, frame.columns)), "rows": len(frame)}
    for name in frame:
        column = frame[name]
        facts[f"type of {name}"] = str(column.dtype)
        facts[f"holes in {name}"] = bool(column.isna().any())
        values = column.dropna()
        counts = values.value_counts()
        if 0 < len(counts) <= _MOST_LEVELS and counts.iloc[0] > _MOST * len(values):
            facts[f"most of {name}"] = str(counts.index[0])
        if pd.api.types.is_numeric_dtype(values) and len(values):
            facts[f"lowest {name}"], facts[f"highest {name}"] = (
                float(values.min()),
                float(values.max()),
            )
        elif values.nunique() <= _MOST_LEVELS:
            facts[f"levels of {name}"] = tuple(sorted(map(str, values.unique())))
    return facts
