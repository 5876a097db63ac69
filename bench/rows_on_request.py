"""Rows that match a condition: their share of the model's rows, and the seconds to draw them.

    python bench/rows_on_request.py

The survey is fitted at epsilon 1. The script prints, for each event, the share of matching rows
among the rows drawn from the model, and the CPU seconds of 1,000 matching rows.
"""

import time

from missdp import MST, AllPairs, PrivBayes
from missdp.datasets import yrbss
from missdp.synth.sampling import RowSelection

WANTED = 1_000
EVENTS = (
    {"gender": "female"},
    {"race": "Asian"},
    {"gender": "female", "age": (18, 18), "race": "Asian"},
)


def main() -> None:
    """Print a table."""
    print(f"{'':9} {'share':>8} {'drawn':>9} {'s':>5}")
    table = yrbss().table()
    for family in (AllPairs, MST, PrivBayes):
        model = family(epsilon=1.0, delta=1e-6, random_state=0).fit(table)
        for event in EVENTS:
            selection = RowSelection(event, model.schema_)
            started = time.process_time()
            rows = sum(map(len, model.sample_blocks(WANTED, where=selection, random_state=3)))
            took = time.process_time() - started
            assert rows == WANTED
            print(
                f"{family.__name__:9} {selection.share:8.5f} {selection.drawn:9,} {took:5.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
