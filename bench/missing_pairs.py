"""Pairs of tables that differ in one missing cell, and the facts of a release that differ for sure.

Two tables that differ in one cell of one row are neighbours under any definition of differential
privacy. A fact of a release that is constant from run to run must therefore be equal for both
tables. Examples are its columns, their types, their bounds, whether a value may be missing, a
warning, and an error. This file needs NumPy and pandas only, and runs in any library's environment.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

_MAX_LEVELS = 30
_REPEAT_FACTOR = 3  # a differing fact is checked in this many times as many runs
_MAJORITY = 2 / 3  # share of values of a level that noise cannot make the commonest by chance


@dataclass(frozen=True, eq=False)
class MissingPair:
    """Two tables that differ in one cell.

    Columns are ``job`` (levels "a", "b", "c"), ``town`` ("x", "y"), ``grade`` (the integers 1, 2, 3
    as levels), ``age`` (integers from 18 to 80) and ``score`` (numbers from 0 to 1).
    """

    name: str
    one: pd.DataFrame
    other: pd.DataFrame


def missing_pairs(rows: int = 300, *, seed: int = 0) -> tuple[MissingPair, ...]:
    """Return pairs of tables that differ in one cell, a missing cell in at least one of them.

    The pairs are:

    * ``"one missing cell"``: one more missing cell, in a column with missing cells.
    * ``"the only missing cell"``: the column has no other missing cell.
    * ``"one missing code"``: a cell is -9 instead of a number.
    * ``"a missing cell among integers"``: the only missing cell of a column of integers, which data
      frames then store as decimal numbers.
    * ``"NaN against null"``: one missing cell, as NaN or as None.
    * ``"an all-missing column"``: a column without values, or with a single value.
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
    incomplete = full.assign(job=_with(full["job"], None))
    return (
        MissingPair("one missing cell", full, full.assign(score=_with(full["score"], np.nan))),
        MissingPair("the only missing cell", full, incomplete),
        MissingPair("one missing code", full, coded),
        MissingPair(
            "a missing cell among integers", full, full.assign(grade=_with(full["grade"], np.nan))
        ),
        MissingPair("NaN against null", full.assign(job=_with(full["job"], np.nan)), incomplete),
        MissingPair("an all-missing column", empty, empty.assign(town=_with(empty["town"], "x"))),
    )


def differing_facts(
    run: Callable[[pd.DataFrame], Any], pair: MissingPair, *, repeats: int = 6
) -> dict[str, tuple[Any, Any]]:
    """Return the facts of a release that distinguish a pair of tables in every run.

    Parameters
    ----------
    run : callable
        ``run(frame)`` releases a data frame, a mapping of names to values or data frames, or
        another object, whose type is compared. Every call draws fresh noise.
    pair : MissingPair
    repeats : int, default 6
        Number of releases of each table, at least 2. Facts that vary between the releases of a
        table are not compared. If a fact differs, each table is released again, three times as
        often. Only facts that differ in all these runs too are returned. With ``repeats=3``, a fact
        that noise decides like a coin toss would be returned once in 8 million times.

    Returns
    -------
    dict of str to (value, value)
        By the name of the fact, its value on each table. Empty if no fact differs.

    Examples
    --------
    >>> pair = missing_pairs()[1]
    >>> differing_facts(lambda frame: frame.isna().any().rename(str), pair)["job"]
    (False, True)
    >>> differing_facts(lambda frame: {"rows": len(frame)}, pair)
    {}
    """
    if repeats < 2:
        raise ValueError("repeats must be 2 or more: a single run cannot show noise")
    runs: tuple[list[dict[str, Any]], ...] = ([], [])
    differing: dict[str, tuple[Any, Any]] = {}
    for times in (repeats, _REPEAT_FACTOR * repeats):
        for table, facts in zip((pair.one, pair.other), runs, strict=True):
            facts.extend(_facts(run, table) for _ in range(times))
        differing = _differing(*runs)
        if not differing:
            break
    return differing


def _differing(
    ones: list[dict[str, Any]], others: list[dict[str, Any]]
) -> dict[str, tuple[Any, Any]]:
    """Return the facts that are constant for each table and differ between the tables."""
    differing = {}
    for name in dict.fromkeys(name for facts in (*ones, *others) for name in facts):
        one, other = ([facts.get(name) for facts in runs] for runs in (ones, others))
        distinct = [{(type(value), repr(value)) for value in values} for values in (one, other)]
        if len(distinct[0]) == len(distinct[1]) == 1 and distinct[0] != distinct[1]:
            differing[name] = one[0], other[0]
    return differing


def _with(column: pd.Series[Any], value: Any) -> pd.Series[Any]:
    """Return a column whose first cell is this value."""
    cells = column.astype(object).tolist()
    cells[0] = value
    return pd.Series(cells, dtype=np.float64 if column.dtype.kind in "if" else object)


def _facts(run: Callable[[pd.DataFrame], Any], table: pd.DataFrame) -> dict[str, Any]:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            release = run(table.copy())
        except Exception as error:  # noqa: BLE001 - other libraries raise any error
            return {"refusal": type(error).__name__, "message": str(error)[:200]}
    facts: dict[str, Any] = {"warnings": sorted({str(w.message)[:200] for w in warned})}
    if isinstance(release, pd.DataFrame):
        release = {"frame": release}
    pairs = release.items() if hasattr(release, "items") else [("type", type(release).__name__)]
    for name, value in pairs:
        facts |= _of_columns(value) if isinstance(value, pd.DataFrame) else {str(name): value}
    return facts


def _of_columns(frame: pd.DataFrame) -> dict[str, Any]:
    facts: dict[str, Any] = {"columns": tuple(map(str, frame.columns)), "rows": len(frame)}
    for name in frame:
        column = frame[name]
        facts[f"type of {name}"] = str(column.dtype)
        facts[f"missing in {name}"] = bool(column.isna().any())
        values = column.dropna()
        counts = values.value_counts()
        if 0 < len(counts) <= _MAX_LEVELS and counts.iloc[0] > _MAJORITY * len(values):
            facts[f"most of {name}"] = str(counts.index[0])
        if pd.api.types.is_numeric_dtype(values) and len(values):
            facts[f"lowest {name}"], facts[f"highest {name}"] = (
                float(values.min()),
                float(values.max()),
            )
        elif values.nunique() <= _MAX_LEVELS:
            facts[f"levels of {name}"] = tuple(sorted(map(str, values.unique())))
    return facts
