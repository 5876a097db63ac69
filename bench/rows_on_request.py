"""Rows that are asked for, beside those among very many rows of the model: how far, how fast.

    python bench/rows_on_request.py

The survey at epsilon 1. Of each event: its share of the model's rows, the seconds that 10,000 such
rows take, and their mean two-way distance to such rows among a million of the model; "noise" is the
same distance of such rows among another million.
"""

import itertools
import time

import numpy as np

from missdp import AIM, MST, AllPairs, Schema, Table
from missdp.datasets import yrbss
from missdp.synth.sampling import Selection

ROWS, WANTED = 1_000_000, 10_000
EVENTS = (
    {"gender": "female"},
    {"race": "Asian"},
    {"gender": "female", "age": (18, 18), "race": "Asian"},
    {"gender": "male", "race": "Asian", "hours_tv_per_school_day": "5+", "grade": "12"},
)


def distance(one: Table, two: Table, schema: Schema) -> float:
    """Return the mean total variation over all pairs of attributes."""
    found = []
    for a, b in itertools.combinations(schema, 2):
        shape = a.extended_size * b.extended_size
        cells = [
            t.codes(a.name).astype(int) * b.extended_size + t.codes(b.name) for t in (one, two)
        ]
        shares = [np.bincount(c, minlength=shape) / len(c) for c in cells]
        found.append(np.abs(shares[0] - shares[1]).sum() / 2)
    return float(np.mean(found))


def main() -> None:
    """Print a table."""
    print(f"{'':8} {'share':>8} {'rows':>7} {'s':>5} {'distance':>8} {'noise':>6}")
    table = yrbss().table()
    for family in (AllPairs, MST, AIM):
        model = family(epsilon=1.0, delta=1e-6, random_state=0).fit(table)
        wholes = [model.sample_table(ROWS, random_state=seed) for seed in (1, 2)]
        for event in EVENTS:
            asked = Selection(event, model.schema_)
            started = time.process_time()
            blocks = model.sample_blocks(WANTED, where=asked, random_state=3)
            rows = Table.joined(blocks)
            took = time.process_time() - started
            one, two = (t.take(np.flatnonzero(Selection(event, t.schema).of(t))) for t in wholes)
            k = np.arange(min(WANTED, len(one)))
            far = [distance(part.take(k), two, model.schema_) for part in (rows, one)]
            print(
                f"{family.__name__:8} {asked.share:8.5f} {len(k):7,} {took:5.2f} {far[0]:8.4f} "
                f"{far[1]:6.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
