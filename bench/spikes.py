"""Numbers at which many rows pile up: Adult with and without the spikes that a draft proposes.

Shares of the rows at the largest spike of each column, and means over the true ones, both means
over fits. Nothing is missing in this table; the spikes are declared public for the benchmark.

    python bench/spikes.py [--seeds 3] [--epsilon 1]
"""

import argparse
from dataclasses import replace

import numpy as np
import pandas as pd
from _data import SHARED

from missdp import AIM, Numeric, PrivBayes, Schema
from missdp.table import draft_schema

PILES = {"capital-gain": 0, "capital-loss": 0, "hours-per-week": 40}
COLUMNS = ["age", "sex", "education-num", "marital-status", *PILES]


def without_spikes(schema):
    return Schema(tuple(replace(a, spikes=()) if isinstance(a, Numeric) else a for a in schema))


def line(name, table, truth):
    shares = [f"{np.mean(table[c] == value):6.3f}" for c, value in PILES.items()]
    means = [f"{table[c].mean() / truth[c].mean():6.2f}" for c in PILES]
    print(f"{name:<22}{'  '.join(shares)}   {'  '.join(means)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilon", type=float, default=1.0)
    options = parser.parse_args()
    truth = pd.read_parquet(SHARED / "adult" / "raw.parquet")[COLUMNS]
    schema = draft_schema(truth).declare_public()
    print(f"epsilon={options.epsilon:g}, {options.seeds} fits each: share at, mean over the truth")
    print(f"{'':<22}{'  '.join(f'{c[-4:]}={v}' for c, v in PILES.items())}")
    line("truth", truth, truth)
    for family in (AIM, PrivBayes):
        for name, declared in (("spikes", schema), ("bins only", without_spikes(schema))):
            drawn = [
                family(epsilon=options.epsilon, random_state=seed)
                .fit(truth, schema=declared)
                .sample(len(truth))
                for seed in range(options.seeds)
            ]
            line(f"{family.__name__}, {name}", pd.concat(drawn), truth)


if __name__ == "__main__":
    main()
