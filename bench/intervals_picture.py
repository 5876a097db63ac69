"""Draw docs/img/intervals.svg: forty intervals of a mean against the truth.

Rows of the bundled survey are the population. 4,000 of them are drawn forty times. Weights go
missing more often where gender is female. The mean weight is estimated from a private model, and
from the rows with a weight, without regard to missing values and privacy.

python bench/intervals_picture.py        (needs matplotlib, two CPU minutes)
"""

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np

from missdp import AllPairs, Schema
from missdp.datasets import yrbss

mpl.use("svg")
import matplotlib.pyplot as plt

COLUMNS = ["gender", "age", "height", "weight"]
RUNS, ROWS = 40, 4_000
MISSING = {"female": 0.45, "male": 0.1}


def intervals(population, schema, seed):
    """The interval of a private model, and the interval of the rows with a weight."""
    rng = np.random.default_rng(seed)
    rows = population.sample(ROWS, replace=True, random_state=seed).reset_index(drop=True)
    gone = rng.random(ROWS) < rows["gender"].map(MISSING).astype(float)
    rows["weight"] = rows["weight"].mask(gone)
    estimate = AllPairs(epsilon=1.0).fit(rows, schema=schema).estimate("mean(weight)")
    observed = rows["weight"].dropna()
    half = 1.96 * observed.std() / len(observed) ** 0.5
    return estimate.intervals[0], (observed.mean() - half, observed.mean() + half)


def main():
    attributes = [replace(yrbss().schema()[name], nullable=name == "weight") for name in COLUMNS]
    schema = Schema(tuple(replace(a, edges=None) if a.name == "weight" else a for a in attributes))
    population = yrbss().table().to_native()[COLUMNS].dropna()
    truth = population["weight"].mean()
    both = [*zip(*(intervals(population, schema, seed) for seed in range(RUNS)), strict=True)]
    titles = ["missdp, without rows (epsilon = 1)", "incomplete rows dropped (no privacy)"]
    mpl.rcParams["svg.hashsalt"] = "missdp"
    figure, axes = plt.subplots(1, 2, figsize=(9, 2.9), sharey=True)
    for axis, title, ends in zip(axes, titles, both, strict=True):
        held = [low <= truth <= high for low, high in ends]
        colours = ["#1f77b4" if one else "#d9822b" for one in held]
        low, high = np.transpose(ends)
        axis.vlines(np.arange(1, RUNS + 1), low, high, colors=colours, linewidth=2)
        axis.axhline(truth, color="#333333", linewidth=1)
        axis.set_title(f"{title}\n{sum(held)} of {RUNS} hold the truth", loc="left", fontsize=10)
        axis.set_xlabel("sample")
        axis.spines[["top", "right"]].set_visible(False)
        print(f"{title}: {sum(held)} of {RUNS}, half width {np.mean(high - low) / 2:.3f}")
    axes[0].set_ylabel("mean weight, kg")
    figure.tight_layout()
    target = Path(__file__).parents[1] / "docs" / "img" / "intervals.svg"
    figure.savefig(target, metadata={"Date": None})
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
