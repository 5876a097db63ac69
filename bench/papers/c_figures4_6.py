"""The published experiment on census data: impute hours worked under MAR, then ask for statistics.

Clifton et al. (2022) impute wages in the 1940 census; here hours per week in Adult (30,162 rows of
the 1994 census), hidden at random with declared weights on age, sex and marital status, so that
rows without holes mislead.  Mean hours and the proportion of 40 hours or more, for three age
groups, at four epsilons.  Each repetition hides anew, imputes anew (nearest neighbour on age,
education, marital status and sex) and adds noise anew.  Error is measured against the table before
anything was hidden.

    python bench/knn_adult.py --repetitions 200 --figure docs/img/knn_boxplot.svg
"""

import argparse
import math
import time

import numpy as np
from _data import SHARED

from missdp import Categorical, Numeric, Schema, Table
from missdp.accounting import Budget
from missdp.errors import UnprovenError
from missdp.mechanisms.smooth import plan_smooth
from missdp.statistics import (
    CappedKNN,
    CompleteRows,
    ImputedStatistics,
    KNNImputation,
    ReleasedModel,
)

EPSILONS = (0.5, 1.0, 2.0, 6 * math.log(2))
HOURS, LONG = "hours-per-week", "`hours-per-week` >= 40"
GROUPS = {"20-59": (20, 60), "20-29": (20, 30), "40-49": (40, 50)}
MATCH = ("age", "education-num", "marital-status", "sex")
COARSE = ("sex", "marital-status", "age")
KNN = KNNImputation(impute=HOURS, match_on=MATCH)
# The published, optimistic global sensitivity: nobody can serve more than all donees.
MOST_DONEES = 4_000
METHODS = ("ignore", "global", "published", "cauchy", "lomax", "model")


def adult():
    import pyarrow.parquet as pq

    frame = pq.read_table(SHARED / "adult" / "truth.parquet", columns=[*MATCH, HOURS]).to_pandas()
    marital = ("Divorced", "Married-AF-spouse", "Married-civ-spouse", "Married-spouse-absent",
               "Never-married", "Separated", "Widowed")  # fmt: skip
    schema = Schema(
        (
            Numeric(name="age", lower=0, upper=100, integer=True, bins=10),
            Numeric(name="education-num", lower=1, upper=16, integer=True, bins=16),
            Categorical(name="marital-status", levels=marital),
            Categorical(name="sex", levels=("Female", "Male")),
            Numeric(name=HOURS, lower=1, upper=99, integer=True, bins=99, nullable=True),
        )
    )
    return Table.read(frame, schema)


def hide(table, rng):
    """Hide hours at random given age, sex and marital status: about one row in nine."""
    age = table.values("age")
    score = (-3.6 + 0.9 * (table.codes("sex") == 1) + 0.9 * (table.codes("marital-status") == 2)
             + 0.4 * ((age >= 30) & (age < 60)) - 0.6 * (age < 25))  # fmt: skip
    return table.with_missing({HOURS: rng.random(len(table)) < 1 / (1 + np.exp(-score))})


def sessions(table):
    """One statistics object per method; those of nearest neighbours share one imputation."""
    budget = Budget(1e9)
    made = {
        "ignore": ImputedStatistics(table, CompleteRows(impute=(HOURS,)), budget=budget),
        "global": ImputedStatistics(
            table, CappedKNN(knn=KNN, max_donees=MOST_DONEES), budget=budget
        ),
        "published": ImputedStatistics(table, KNN, budget=budget, noise="paper"),
        "cauchy": ImputedStatistics(table, KNN, budget=budget, noise="cauchy"),
        "lomax": ImputedStatistics(table, KNN, budget=budget),
    }
    shared = made["lomax"]._parts.door._rows
    for name in ("global", "published", "cauchy"):
        made[name]._parts.door._rows = shared
    return made, shared._made.profile


def answers(table, made, epsilon):
    """Released (mean, proportion) of every group by every method."""
    # The model is released once and serves all six questions; it gets a third of one question, and
    # fewer attributes: a table over all four would be mostly noise.
    model = ReleasedModel(impute=(HOURS,), match_on=COARSE, epsilon=epsilon / 3)
    modelled = ImputedStatistics(table, model, budget=Budget(1e9))
    for method in METHODS:
        asked, spend = made.get(method, modelled), epsilon
        if method == "model":
            spend = epsilon * 2 / 3
        for group, (low, high) in GROUPS.items():
            where = f"{low} <= age < {high}"
            try:
                mean = asked.mean(HOURS, where=where, epsilon=spend).value
                share = asked.proportion(LONG, where=where, epsilon=spend).value
            except UnprovenError:
                mean = share = math.nan
            yield (method, group), (mean, share)


def truth(table):
    hours, age = table.values(HOURS), table.values("age")
    inside = {g: (age >= low) & (age < high) for g, (low, high) in GROUPS.items()}
    return {g: (hours[i].mean(), (hours[i] >= 40).mean()) for g, i in inside.items()}


def print_deviations(profile):
    print("\nprofile M_0..M_9:", [profile.exact(j) for j in range(10)])
    print("standard deviation of the noise of a count")
    print(f"{'epsilon':>8} {'lomax':>8} {'cauchy':>8} {'published':>10} {'variance ratio':>15}")
    for epsilon in (0.1, *EPSILONS):
        row = []
        for law in ("lomax", "cauchy"):
            noise = plan_smooth(epsilon, law=law)
            bound = profile.smooth_bound(own=1, donee=1, beta=noise.beta)
            row.append(noise.standard_deviation * bound)
        gamma = 1 + epsilon / (2 * math.log(2))
        published = math.inf
        if gamma > 3:
            spread = math.sqrt(math.sin(math.pi / gamma) / math.sin(3 * math.pi / gamma))
            published = spread * (1 + profile.exact(0)) / math.log(2)
        ratio = (published / row[0]) ** 2
        print(f"{epsilon:8.3f} {row[0]:8.2f} {row[1]:8.2f} {published:10.2f} {ratio:15.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--figure", help="where to write the box plot (needs matplotlib)")
    options = parser.parse_args()
    complete, rng, began = adult(), np.random.default_rng(), time.time()
    exact = truth(complete)
    found = {}
    for _ in range(options.repetitions):
        table = hide(complete, rng)
        made, profile = sessions(table)
        for epsilon in EPSILONS:
            for key, value in answers(table, made, epsilon):
                found.setdefault((epsilon, *key), []).append(value)
    print(f"{options.repetitions} repetitions in {time.time() - began:.0f} s;"
          f" hidden: {table.mask(HOURS).mean():.1%}")  # fmt: skip
    for index, label in enumerate(("mean hours", "proportion of 40 hours or more")):
        print(f"\n{label}: mean squared error (times 1e4)")
        print(f"{'epsilon':>8} {'group':>6}", *(f"{m:>10}" for m in METHODS))
        for epsilon in EPSILONS:
            for group in GROUPS:
                errors = [np.array(found[epsilon, m, group])[:, index] for m in METHODS]
                mse = [float(np.mean((e - exact[group][index]) ** 2)) * 1e4 for e in errors]
                cells = ("   refused" if math.isnan(m) else f"{m:10.4g}" for m in mse)
                print(f"{epsilon:8.3f} {group:>6}", *cells)
    print_deviations(profile)
    if options.figure:
        draw(found, exact, options.figure)


def draw(found, exact, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = ("ignore", "published", "cauchy", "lomax", "model")
    figure, axes = plt.subplots(2, 3, figsize=(11, 6.2), layout="constrained")
    for row, label in enumerate(("mean hours per week", "proportion with 40 hours or more")):
        for axis, group in zip(axes[row], GROUPS, strict=True):
            data = [np.array(found[EPSILONS[-1], m, group])[:, row] for m in shown]
            axis.boxplot(data, whis=(5, 95), showfliers=False, tick_labels=shown, widths=0.6)
            axis.axhline(exact[group][row], color="tab:red", linewidth=1)
            axis.set_title(f"ages {group}", fontsize=10)
            axis.tick_params(axis="x", labelsize=8, rotation=20)
        axes[row][0].set_ylabel(label)
    figure.suptitle("epsilon = 6 ln 2; red: the table before hours were hidden", fontsize=10)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
