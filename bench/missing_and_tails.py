"""Joint missingness and standard deviations of small counts, in synthetic rows of small tables.

An invented ward has two laboratory values that are missing together, and further cells that are
missing by chance. The public bounds of the count of children are wider than its values.  Over runs,
the script prints the share of rows in which both values are missing, and the relative error of the
count's standard deviation.

    python bench/missing_and_tails.py [--rows 4000] [--epsilon 1] [--runs 6]
"""

import argparse

import numpy as np
import pandas as pd

from missdp import AIM, MST, AllPairs, Categorical, Numeric, Schema

SCHEMA = Schema(
    (
        Numeric(name="age", lower=18, upper=90, integer=True),
        Numeric(name="children", lower=0, upper=8, integer=True),
        Numeric(name="lab1", lower=0, upper=50, step=0.1, nullable=True),
        Numeric(name="lab2", lower=0, upper=150, integer=True, nullable=True),
        Numeric(name="bmi", lower=10, upper=60, step=0.1, nullable=True),
        Categorical(name="smoker", levels=("no", "yes", "ex"), nullable=True),
        *(Categorical(name=f"code{i}", levels=tuple("abcdefgh")) for i in range(5)),
    )
)


def ward(rows, seed):
    """A table with missing cells."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.integers(18, 90, rows)})
    frame["children"] = rng.choice(9, rows, p=[0.8, 0.15, 0.04, 0.01, 0, 0, 0, 0, 0])
    frame["lab1"] = np.round(np.exp(rng.normal(1.2, 0.5, rows)), 1).clip(0, 50)
    frame["lab2"] = np.round(rng.normal(60, 10, rows)).clip(0, 150)
    frame["bmi"] = np.round(rng.normal(25, 4, rows), 1).clip(10, 60)
    frame["smoker"] = rng.choice(["no", "yes", "ex"], rows, p=[0.5, 0.3, 0.2])
    for i in range(5):
        frame[f"code{i}"] = rng.choice(list("abcdefgh"), rows)
    skipped = rng.random(rows) < 0.1 + 0.001 * frame["age"]
    chances = {"lab1": 0.02, "lab2": 0.05, "bmi": 0.25, "smoker": 0.1}
    for name, chance in chances.items():
        gone = rng.random(rows) < chance
        frame[name] = frame[name].mask(gone | (skipped & (name in ("lab1", "lab2"))))
    return frame


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=6)
    options = parser.parse_args()
    print(f"{'':10}{'both missing':>14}{'drawn':>8}{'off':>8}{'SD off by':>12}")
    for family in (AllPairs, AIM, MST):
        rows = []
        for run in range(options.runs):
            real = ward(options.rows, run)
            model = family(epsilon=options.epsilon, delta=1e-6).fit(real, schema=SCHEMA)
            made = model.sample(20_000, missing_values="keep")
            both = [float((t["lab1"].isna() & t["lab2"].isna()).mean()) for t in (real, made)]
            sds = [float(t["children"].astype(float).std()) for t in (real, made)]
            rows.append((*both, abs(both[1] - both[0]), abs(sds[1] / sds[0] - 1)))
        true, drawn, off, sd = np.mean(rows, axis=0)
        print(f"{family.__name__:10}{true:14.3f}{drawn:8.3f}{off:8.3f}{sd:12.2f}", flush=True)


if __name__ == "__main__":
    main()
