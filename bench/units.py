"""Error of releases that protect patients with several visits, by the number of rows per patient.

20,000 invented patients have 96,000 visits. Most have few visits, some have more than a hundred.
Age, sex and chronic illness are facts of a patient. Ward, stay and outcome are facts of a visit.
Chronically ill patients come more often. Distances are total variation over all pairs of columns
(bins as declared), to all visits, and to one visit of each patient, drawn at random.

Run: python bench/units.py [--runs 3]        (about five minutes of CPU for three)
     python bench/units.py --audit           (about six: measured and claimed mu)

The audit repeats one fit with an additional unit of equal rows. It draws all noise of the fit 6,000
times on each table, since a fit is post-processing of the answers of its session. Finally it draws
noise of 0.7 times its scale, which must be flagged.
"""

import argparse
import sys
import time
import warnings
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from missdp import AIM, AllPairs, Categorical, Numeric, Schema, Table
from missdp.schema import Unit

WARDS = ("surgery", "medicine", "children", "heart", "eyes")
MOST = (1, 2, 3, 5, 10, 30)
COLUMNS = (
    Numeric(name="age", lower=0, upper=100, bins=10),
    Categorical(name="sex", levels=("f", "m")),
    Categorical(name="chronic", levels=("no", "yes"), nullable=True),
    Categorical(name="ward", levels=WARDS, nullable=True),
    Numeric(name="stay", lower=0, upper=60, bins=10),
    Categorical(name="outcome", levels=("home", "care", "died")),
)


def visits(patients: int = 20_000, mean: float = 5.8, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(50, 22, patients), 0, 100)
    chronic = rng.random(patients) < 0.1 + 0.4 * age / 100
    times = 1 + rng.poisson(rng.gamma(0.5, 2 * (mean - 1) * (0.5 + chronic), patients))
    who = np.repeat(np.arange(patients), times)
    n = len(who)
    ward = rng.integers(0, 3, n) + 2 * (chronic[who] & (rng.random(n) < 0.6))
    stay = np.clip(rng.gamma(1.5, 2 + 4 * chronic[who]), 0, 60)
    died = rng.random(n) < 0.01 + 0.05 * (age[who] > 75)
    outcome = np.where(died, "died", np.where(rng.random(n) < age[who] / 300, "care", "home"))
    table = {
        "patient": who,
        "age": age[who],
        "sex": np.array(["f", "m"])[(rng.random(patients) < 0.5).astype(int)][who],
        "chronic": np.where(rng.random(n) < 0.15, None, np.where(chronic[who], "yes", "no")),
        "ward": np.where(rng.random(n) < 0.05, None, np.array(WARDS)[np.minimum(ward, 4)]),
        "stay": stay,
        "outcome": outcome,
    }
    return pd.DataFrame(table).sample(frac=1, random_state=seed, ignore_index=True)


def distance(one: Table, other: Table) -> float:
    """Return the mean total variation over pairs of columns, missing cells included."""
    distances = []
    for a, b in combinations(one.schema, 2):
        shape = (a.extended_size, b.extended_size)
        shares = []
        for table in (one, other):
            cells = np.ravel_multi_index((table.codes(a.name), table.codes(b.name)), shape)
            shares.append(np.bincount(cells, minlength=shape[0] * shape[1]) / len(table))
        distances.append(np.abs(shares[0] - shares[1]).sum() / 2)
    return float(np.mean(distances))


def audits() -> None:
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from synth.test_audit_of_units import CASES, along_one_path

    warnings.simplefilter("ignore")  # of small tables
    print("| | max_rows | mu claimed | found | ratio | at least | flagged | x 0.7 flagged |")
    print("|---|---|---|---|---|---|---|---|")
    for case in CASES:
        for most in (1, 3, 10):
            audit = along_one_path(case, most)
            weak = along_one_path(case, most, draws=3000, scale=0.7)
            print(
                f"| {case} | {most} | {audit.mu_claim:.2f} | {audit.mu_emp:.2f} | "
                f"{audit.ratio:.2f} | {audit.mu_low:.2f} | {audit.flagged} | {weak.flagged} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--audit", action="store_true")
    options = parser.parse_args()
    if options.audit:
        audits()
        return
    runs = options.runs
    frame = visits()
    plain = Schema(COLUMNS)
    everyone = Table.read(frame.drop(columns="patient"), plain)
    of_each = frame.sample(frac=1, random_state=1).drop_duplicates("patient")
    patients = Table.read(of_each.drop(columns="patient"), plain)
    print(f"{len(frame):,} visits of {frame['patient'].nunique():,} patients")
    print("| family | max_rows | visits kept | to all visits | to one of each | seconds |")
    print("|---|---|---|---|---|---|")
    for family in (AllPairs, AIM):
        for most in MOST:
            schema = Schema(COLUMNS, unit=Unit("patient", max_rows=most))
            measured, start = [], time.process_time()
            for _ in range(runs):
                model = family(epsilon=1.0).fit(frame, schema=schema)
                drawn = model.sample_table(100_000, missing_values="keep")
                measured.append(
                    (distance(drawn, everyone), distance(drawn, patients), model.n_rows_)
                )
            visits_, persons, retained = np.mean(measured, axis=0)
            seconds = (time.process_time() - start) / runs
            print(
                f"| {family.__name__} | {most} | {retained:,.0f} | {visits_:.4f} | {persons:.4f} | "
                f"{seconds:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
