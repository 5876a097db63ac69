"""Stays and ages of an invented hospital, with and without declared differences of dates.

    python bench/hospital.py

The table has 30,000 patients with admission, discharge, birth, ward and diagnosis. 8 % of
discharges and 4 % of admissions are missing. Epsilon is 1. The script prints the Kolmogorov-Smirnov
distance of stays and ages at admission of 100,000 synthetic rows from the true values. It also
prints the number of rows that break a rule, and seconds.
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd

from missdp import AllPairs, Categorical, Date, Difference, Schema
from missdp.schema import Always

WARDS = ("surgery", "medicine", "paediatrics")
DIAGNOSES = tuple("ABCDEFGHIJ")
STAY = Difference(name="stay", later="discharge", earlier="admission", lower=0, upper=60)
AGE = Difference(name="age", later="admission", earlier="birth", lower=0, upper=105, unit="year")
PLAIN = Schema(
    (
        Date(name="admission", lower="2018-01-01", upper="2024-12-31", nullable=True),
        Date(name="discharge", lower="2018-01-01", upper="2024-12-31", nullable=True),
        Date(name="birth", lower="1910-01-01", upper="2024-12-31"),
        Categorical(name="ward", levels=WARDS),
        Categorical(name="diagnosis", levels=DIAGNOSES),
    ),
    (Always("admission <= discharge"), Always("birth <= admission")),
)
DECLARED = Schema((*PLAIN, STAY, AGE), PLAIN.rules)


def hospital(n: int, seed: int) -> pd.DataFrame:
    """Return patients whose stay, age and diagnosis depend on the ward."""
    rng = np.random.default_rng(seed)
    ward = rng.choice(3, n, p=[0.4, 0.4, 0.2])
    came = np.datetime64("2018-01-01") + (rng.beta(1.3, 1, n) * 2450).astype(int)
    stay = np.minimum(60, rng.gamma(1.2, np.array([3, 6, 3])[ward])).astype(int)
    age = np.where(ward == 2, rng.uniform(0, 17, n), rng.normal(60, 18, n).clip(18, 99))
    days = {"admission": came, "discharge": came + stay, "birth": came - (age * 365.2).astype(int)}
    data = pd.DataFrame({name: d.astype("datetime64[s]") for name, d in days.items()})
    data["ward"] = np.array(WARDS)[ward]
    data["diagnosis"] = np.array(DIAGNOSES)[(3 * ward + rng.poisson(1.5, n)) % 10]
    data.loc[rng.random(n) < 0.08, "discharge"] = pd.NaT
    data.loc[rng.random(n) < 0.04, "admission"] = pd.NaT
    return data


def between(data: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return stays and ages in days, of the rows that have both dates."""
    stay = (data["discharge"] - data["admission"]).dropna().dt.days.to_numpy()
    return stay, (data["admission"] - data["birth"]).dropna().dt.days.to_numpy()


def ks(one: np.ndarray, two: np.ndarray) -> float:
    """Return the greatest distance of two distribution functions."""
    both = np.union1d(one, two)
    first, second = (np.searchsorted(np.sort(x), both, side="right") / len(x) for x in (one, two))
    return float(np.abs(first - second).max())


def main() -> None:
    """Print a line for each fit."""
    print(
        f"{'differences':12} {'seed':>4} {'KS stay':>8} {'KS age':>7} {'violations':>10} {'s':>5}"
    )
    for name, schema in (("declared", DECLARED), ("none", PLAIN)):
        for seed in range(3):
            data, start = hospital(30_000, seed), time.process_time()
            model = AllPairs(epsilon=1, delta=1e-6, random_state=seed).fit(data, schema=schema)
            drawn = model.sample(100_000, missing_values="keep", random_state=seed)
            stays, ages = between(drawn)
            broken = int((stays < 0).sum() + (ages < 0).sum())
            if schema is DECLARED:
                broken += int((stays > 60).sum() + (ages > 105 * 365.25 + 1).sum())
            far = [ks(*both) for both in zip(between(data), (stays, ages), strict=True)]
            spent = time.process_time() - start
            print(f"{name:12} {seed:4} {far[0]:8.4f} {far[1]:7.4f} {broken:10} {spent:5.1f}")


if __name__ == "__main__":
    main()
