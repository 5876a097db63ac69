"""Draw docs/img/bins.svg: a skewed number, its synthetic values from equal and from private bins.

python bench/bins_picture.py        (needs matplotlib)
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd

from missdp import AllPairs, Categorical, Numeric, Schema

mpl.use("svg")
import matplotlib.pyplot as plt

ROWS = 20_000


def balances():
    """Balances of an invented bank: many at 0, some below, a long tail above."""
    rng = np.random.default_rng(7)
    some = np.where(
        rng.random(ROWS) < 0.15, -rng.exponential(300, ROWS), rng.lognormal(6.5, 1.3, ROWS)
    )
    balance = np.where(rng.random(ROWS) < 0.1, 0, some).round(2).clip(-2_000, 200_000)
    return pd.DataFrame({"balance": balance, "loan": np.where(balance < 500, "yes", "no")})


def main():
    table = balances()
    schema = Schema(
        (
            Numeric(name="balance", lower=-2_000, upper=200_000, step=0.01),
            Categorical(name="loan", levels=("no", "yes")),
        )
    )
    made = {
        "the truth": table,
        "ten equal bins": AllPairs(epsilon=1.0, bins="equal")
        .fit(table, schema=schema)
        .sample(ROWS),
        "bins found privately": AllPairs(epsilon=1.0).fit(table, schema=schema).sample(ROWS),
    }
    mpl.rcParams["svg.hashsalt"] = "missdp"
    figure, axes = plt.subplots(1, 3, figsize=(9, 2.6), sharey=True, sharex=True)
    edges = np.linspace(-1000, 6000, 71)
    for axis, (label, rows) in zip(axes, made.items(), strict=True):
        axis.hist(rows["balance"], bins=edges, weights=np.full(ROWS, 100 / ROWS), color="#1f77b4")
        axis.set_title(f"{label}\nmedian {rows['balance'].median():,.0f}", loc="left", fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_xlabel("balance")
        numbers = rows["balance"].agg(["median", "mean", "std"]).round(1).to_dict()
        print(f"{label:22s}", numbers)
    axes[0].set_ylabel("% of the rows")
    figure.tight_layout()
    target = Path(__file__).parents[1] / "docs" / "img" / "bins.svg"
    figure.savefig(target, metadata={"Date": None})
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
