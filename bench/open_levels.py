"""Accuracy of a column with open levels, and seconds of its fit.

    python bench/open_levels.py

The column has 2,000 levels, whose frequencies fall like those of diagnoses (Zipf, exponent 1.1).
AllPairs finds levels with its default share of the budget, at delta 1e-6. The error is the total
variation of the column's shares against the rows. "declared" is the error if a person declares the
levels that AllPairs found.
"""

import resource
import time

import numpy as np
import pandas as pd

from missdp import AllPairs, Categorical, Numeric, OpenCategorical, Schema

LEVELS = np.array([f"D{k:04}" for k in range(2000)])


def rows(n: int) -> pd.DataFrame:
    """Return rows whose first column has very many levels."""
    rng = np.random.default_rng(n)
    shares = 1 / np.arange(1, 2001) ** 1.1
    return pd.DataFrame(
        {
            "illness": LEVELS[rng.choice(2000, n, p=shares / shares.sum())],
            "sex": rng.choice(["f", "m"], n),
            "age": rng.integers(0, 100, n),
        }
    )


def off(model: AllPairs, frame: pd.DataFrame, released: set[str]) -> float:
    """Return the total variation between synthetic and real shares of the released levels."""
    truth = frame.illness.where(frame.illness.isin(released), "other").value_counts(normalize=True)
    drawn = model.sample(200_000, random_state=0).illness.value_counts(normalize=True)
    return float(truth.sub(drawn, fill_value=0.0).abs().sum() / 2)


def main() -> None:
    """Print a table."""
    rest = (
        Categorical(name="sex", levels=("f", "m")),
        Numeric(name="age", lower=0, upper=99, integer=True),
    )
    print(
        f"{'rows':>9} {'epsilon':>7} {'levels':>6} {'mass':>6} {'open':>6} {'declared':>8} {'s':>6}"
    )
    for n in (30_000, 1_000_000):
        frame = rows(n)
        for epsilon in (0.5, 1.0, 3.0):
            started = time.process_time()
            open_ = AllPairs(epsilon=epsilon, delta=1e-6).fit(
                frame, schema=Schema((OpenCategorical(name="illness"), *rest))
            )
            took = time.process_time() - started
            levels = open_.schema_["illness"].levels
            released = {*levels} - {"other"}
            merged = frame.assign(
                illness=frame.illness.where(frame.illness.isin(released), "other")
            )
            declared = AllPairs(epsilon=epsilon, delta=1e-6).fit(
                merged, schema=Schema((Categorical(name="illness", levels=levels), *rest))
            )
            print(
                f"{n:9,} {epsilon:7} {len(released):6} {frame.illness.isin(released).mean():6.3f} "
                f"{off(open_, frame, released):6.3f} {off(declared, frame, released):8.3f} "
                f"{took:6.1f}"
            )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")


if __name__ == "__main__":
    main()
