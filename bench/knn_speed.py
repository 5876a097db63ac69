"""Seconds to impute and to profile: rows and matching domain grow.

python bench/knn_speed.py
"""

import resource
import time

import numpy as np

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.mechanisms.smooth import plan_smooth
from missdp.statistics import KNNImputation

CASES = [(100_000, (10, 16, 7, 2)), (1_000_000, (10, 16, 7, 2)), (1_000_000, (74, 16, 7, 5))]


def make(rows, sizes):
    rng = np.random.default_rng(0)
    names = [f"match{i}" for i in range(len(sizes))]
    kinds = (Ordinal, Ordinal, Categorical, Categorical)
    matched = [
        kind(name=n, levels=tuple(range(s))) for kind, n, s in zip(kinds, names, sizes, strict=True)
    ]
    schema = Schema((*matched, Numeric(name="y", lower=0, upper=1, bins=10, nullable=True)))
    codes = {}
    for name, size in zip(names, sizes, strict=True):
        odds = np.arange(size, 0, -1) ** 1.5
        codes[name] = rng.choice(size, rows, p=odds / odds.sum())
    y = rng.integers(0, 10, rows)
    codes["y"] = np.where(rng.random(rows) < 0.1, 10, y)
    return Table.from_codes(schema, codes).with_values(rng)


def main():
    print(
        f"{'rows':>10} {'domain':>8} {'impute':>8} {'S at eps 1':>11} {'S at eps 0.1':>13}   M_0.."
    )
    for rows, sizes in CASES:
        table = make(rows, sizes)
        knn = KNNImputation(impute="y", match_on=table.schema.names[:-1])
        how = knn.preparation(table.schema)
        labels = np.random.default_rng().integers(0, 2**64, rows, dtype=np.uint64)
        start = time.perf_counter()
        prepared = how.function(table, labels, *how.given)
        marks = [time.perf_counter()]
        for epsilon in (1.0, 0.1):
            prepared.profile.smooth_bound(own=1, donee=1, beta=plan_smooth(epsilon).beta)
            marks.append(time.perf_counter())
        first = [prepared.profile.exact(j) for j in range(5)]
        spent = np.diff([start, *marks])
        print(f"{rows:10,} {np.prod(sizes):8,}", *(f"{s:9.2f} s" for s in spent), first)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB")


if __name__ == "__main__":
    main()
