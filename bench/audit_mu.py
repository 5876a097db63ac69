"""Measured and claimed mu of every family, strategy and session.

The attacker sees every answer and uses the likelihood ratio (`missdp.testing`). The last
columns repeat the audit with noise of 0.7 times its scale, which must be flagged.

    python bench/audit_mu.py [--trials 400] [--family aim ...]

Three further sessions are audited: a count of imputed rows, and two means under replace-one
adjacency. The audited row is the donor of all missing values of the count.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from missdp import AIM, MST, Filter, Numeric, Ordinal, PrivBayes, Schema, Table
from missdp.pricing import PrivateMean
from missdp.statistics import ImputedStatistics, KNNImputation
from missdp.testing import Audit, audit, audit_synthesizer

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from synth.worked_example import Independent

# Structures are public where possible. Nearly all budget is then spent on marginals.
FIXED = {"degree": 1, "structure_share": 1e-3, "delta": 0.0}
CASES = {
    "histograms": (Independent, {"delta": 0.0}),
    "histograms-gaussian": (Independent, {"delta": 1e-6}),
    "privbayes": (PrivBayes, FIXED),
    "privbayes-gaussian": (PrivBayes, {**FIXED, "delta": 1e-6}),
    "aim": (AIM, {"delta": 1e-6, "rounds": 1}),
    "mst": (MST, {"delta": 1e-6}),
}


# Other functions that open a session: a function of a table, and two tables.


def count():
    """A count of a hundred values that are imputed from one row, if this row is present."""
    schema = Schema(
        (
            Ordinal(name="group", levels=(1, 2)),
            Numeric(name="x", lower=0, upper=10, bins=2, nullable=True),
        )
    )

    def table(*donors):
        frame = {"group": [1] * (100 + len(donors)), "x": [None] * 100 + list(donors)}
        return Table.read(pd.DataFrame(frame), schema)

    def run(rows):
        budget, filled = Filter(100.0), KNNImputation(impute="x", match_on="group")
        statistics = ImputedStatistics(rows, filled, budget=budget)
        statistics.count(where="x > 8", epsilon=3.0, uncertainty="noise")

    return run, (table(), table(9.0))


def mean(mechanism, multiplier):
    """The mean of rows of norm 1. One row has its sign reversed in the neighbour."""
    rows = np.tile([1.0, 0.0], (20, 1))
    other = np.vstack([rows[:-1], [[-1.0, 0.0]]])

    def run(values):
        PrivateMean(noise_multiplier=multiplier, mechanism=mechanism, delta=1e-6).fit(values)

    return run, (rows, other)


SESSIONS = {
    "count, imputed": count(),
    "replace-one mean (gaussian)": mean("gaussian", 0.5),
    "replace-one mean (laplace)": mean("laplace", 0.5),
}


def show(name: str, case: str, sound: Audit, weak: Audit) -> None:
    print(
        f"| {name} | {case} | {sound.mu_claim:.2f} | {sound.mu_emp:.2f} | "
        f"{sound.ratio:.2f} | {sound.mu_low:.2f} | {'yes' if sound.flagged else 'no'} | "
        f"{weak.mu_emp:.2f} | {weak.mu_low:.2f} | {'yes' if weak.flagged else 'no'} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument(
        "--family", nargs="*", choices=[*CASES, *SESSIONS], default=[*CASES, *SESSIONS]
    )
    options = parser.parse_args()
    print("| family | strategy | claimed | found | ratio | at least | flagged", end=" | ")
    print("x 0.7: found | at least | flagged |")
    print("|---" * 10 + "|")
    for name in options.family:
        if name in SESSIONS:
            run, tables = SESSIONS[name]
            sound, weak = (
                audit(run, *tables, trials=options.trials, scale=scale) for scale in (1.0, 0.7)
            )
            show(name, "", sound, weak)
            continue
        family, parameters = CASES[name]
        for strategy in family.family.strategies:
            settings = {
                "parameters": parameters,
                "strategies": [strategy],
                "trials": options.trials,
            }
            sound, weak = (
                audit_synthesizer(family, **settings, scale=scale)[strategy] for scale in (1.0, 0.7)
            )
            show(name, strategy, sound, weak)


if __name__ == "__main__":
    main()
