"""Tables of independent columns, and how dependent rows drawn from a model of them are."""

from itertools import combinations

import numpy as np
import pandas as pd

from missdp import Categorical, Numeric, Schema
from missdp.schema import SurveyWeight, Unit

SIZES = {300: (10, 5), 1300: (12, 8), 4000: (12, 8)}  # columns and levels, by number of rows
KINDS = ("rows", "units", "weights", "both", "bins")
UPPER = 4.6  # of a weight, relative to the mean weight
_FIRST = 0.5  # share of the first level, where all other levels have equal shares
_GROUPS = 10  # of a number
_SPREAD = 0.7  # standard deviation of the logarithm of a weight


def independent_table(kind: str, rows: int, seed: int) -> tuple[pd.DataFrame, Schema]:
    """Return a table of independent columns, and its schema.

    Parameters
    ----------
    kind : str
        Kind of the columns and weight of a row. Rows count as ``"rows"``, as ``"units"`` of two
        rows each, by survey ``"weights"``, or by ``"both"``. With ``"bins"``, the columns are
        numbers without declared bins.
    rows : int
        Number of rows, one of `SIZES`.
    seed : int
        Seed of the table.
    """
    rng = np.random.default_rng(100 + seed)
    columns, levels = SIZES[rows]
    names = [f"c{j}" for j in range(columns)]
    if kind == "bins":
        frame = pd.DataFrame({c: rng.lognormal(3, 0.6, rows).clip(0, 200).round(1) for c in names})
        return frame, Schema(tuple(Numeric(name=c, lower=0, upper=200) for c in names))
    law = np.r_[_FIRST, np.full(levels - 1, (1 - _FIRST) / (levels - 1))]
    frame = pd.DataFrame({c: rng.choice(levels, rows, p=law).astype(str) for c in names})
    told = tuple(map(str, range(levels)))
    facts = {}
    if kind in ("units", "both"):
        frame["person"] = np.arange(rows) // 2
        facts["unit"] = Unit("person", max_rows=2)
    if kind in ("weights", "both"):
        frame["wt"] = np.minimum(rng.lognormal(-(_SPREAD**2) / 2, _SPREAD, rows), UPPER)
        facts["weight"] = SurveyWeight("wt", upper=UPPER)
    return frame, Schema(tuple(Categorical(name=c, levels=told) for c in names), **facts)


def corrected_v(one: np.ndarray, other: np.ndarray) -> float:
    """Return Cramér's V of two columns of codes without its bias (Bergsma 2013)."""
    shape = one.max() + 1, other.max() + 1
    table = np.bincount(one * shape[1] + other, minlength=shape[0] * shape[1]).reshape(shape)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0].astype(float)
    n, freedom = table.sum(), np.array(table.shape) - 1
    product = np.outer(table.sum(axis=1), table.sum(axis=0)) / n
    square = (np.square(table - product) / product).sum() / n
    left = max(0.0, square - freedom.prod() / (n - 1))
    most = (freedom - freedom**2 / (n - 1)).min()
    return float(np.sqrt(left / most)) if most > 0 else 0.0


def dependence_of(rows: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Return the corrected V of each pair of columns, numbers in groups of equal size."""
    codes = {}
    for name, column in rows.items():
        if pd.api.types.is_float_dtype(column):
            codes[name] = (column.rank(method="first").to_numpy() - 1).astype(int)
            codes[name] = codes[name] * _GROUPS // len(rows)
        else:
            codes[name] = column.astype(int).to_numpy()
    return {(a, b): corrected_v(codes[a], codes[b]) for a, b in combinations(codes, 2)}
