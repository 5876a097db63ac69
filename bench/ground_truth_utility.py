"""Errors with and without stated missing rates, at one guarantee for the ground truth.

The table is Adult, with cells missing completely at random at 10 to 50 %. The guarantee is an
epsilon of 1 for the ground truth at delta 1e-6. Without an assumption, the fit spends an epsilon of
1 on the incomplete table. With the rates stated, the fit may spend more. The error is the mean
2-way distance to the complete truth. The script draws docs/img/ground_truth_utility.svg.

    python bench/ground_truth_utility.py [--seeds 3]
"""

import argparse
import statistics
from pathlib import Path

from _data import SHARED, table

from missdp import AIM, MST
from missdp.accounting import MissingCompletelyAtRandom
from missdp.evaluate import marginal_distance
from missdp.ground_truth import epsilon_for_ground_truth

TARGET = Path(__file__).resolve().parents[1] / "docs" / "img" / "ground_truth_utility.svg"
RATES = (0.1, 0.2, 0.3, 0.5)
FITS = {
    "AIM, observed": (AIM, "observed"),
    "MST, observed": (MST, "observed"),
    "MST, complete rows": (MST, "complete-rows"),
}


def distance(family, missing, epsilon, private, truth, seeds):
    """Mean 2-way distance over seeds."""
    distances = []
    for _ in range(seeds):
        model = family(epsilon=epsilon, delta=1e-6, missing=missing).fit(private)
        distances.append(marginal_distance(truth, model.sample_table(len(private)), k=2).mean)
    return statistics.mean(distances)


def draw(lines):
    """Draw distances over missing rates, with and without the rates stated."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "missdp"  # equal drawings give equal files
    mpl.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.6), constrained_layout=True)
    for colour, (name, runs) in zip(("C0", "C1", "C2"), lines.items(), strict=True):
        axes.plot(RATES, [run[0] for run in runs], "o--", color=colour, alpha=0.6, label=f"{name}")
        axes.plot(
            RATES, [run[1] for run in runs], "o-", color=colour, label=f"{name}, rates stated"
        )
    axes.set(xlabel="missing rate", ylabel="mean 2-way distance", yscale="log")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    figure.savefig(TARGET, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if not SHARED.exists():
        raise SystemExit(f"needs the data folder {SHARED}")
    truth = table("adult", "truth")
    print(f"{'':<20}{'missing':>8}{'spends':>8}{'unknown':>9}{'stated':>9}{'ratio':>7}")
    lines = {}
    for name, (family, missing) in FITS.items():
        lines[name] = []
        for rate in RATES:
            private = table("adult", f"mcar_{rate}")
            assumption = MissingCompletelyAtRandom(dict.fromkeys(private.schema.nullable, 1 - rate))
            asked = family(epsilon=1.0, delta=1e-6, missing=missing)
            spent = epsilon_for_ground_truth(1.0, asked, private.schema, assumption)
            errors = [
                distance(family, missing, epsilon, private, truth, options.seeds)
                for epsilon in (1.0, spent)
            ]
            lines[name].append(errors)
            print(
                f"{name:<20}{rate:>8.0%}{spent:>8.2f}{errors[0]:>9.4f}{errors[1]:>9.4f}"
                f"{errors[1] / errors[0]:>7.2f}",
                flush=True,
            )
    draw(lines)


if __name__ == "__main__":
    main()
