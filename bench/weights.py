"""Releases with and without survey weights: a real survey, its weighted truth, and intervals.

The table has the 8,591 people of NHANES 2009/10 in R's package survey (public domain), with their
examination weights and missing cholesterol. From Debian: ``apt-get download r-cran-survey``, unpack
it, and write ``data/nhanes.rda`` as CSV, with R or pyreadr.

``--tables`` prints the mean total variation to the weighted truth, of one-way and two-way tables.
Releases have weights, no weights, or the weight as one more column that weights synthetic rows.
``--coverage`` prints the share of 95 % intervals that hold the weighted share, over tables that are
drawn from these people. It repeats this with three equal rows of each person, where each row
counts.

Run: python bench/weights.py nhanes.csv --tables [--runs 5] --coverage [--repeats 40]
"""

import argparse
import warnings
from itertools import combinations

import numpy as np
import pandas as pd

from missdp import AIM, MST, AllPairs, Categorical, Numeric, Schema
from missdp.schema import SurveyWeight, Unit

warnings.simplefilter("ignore")
AGES = ("(0,19]", "(19,39]", "(39,59]", "(59,Inf]")
COLUMNS = (
    Categorical(name="chol", levels=("no", "yes"), nullable=True),
    Categorical(name="race", levels=("1", "2", "3", "4")),
    Categorical(name="age", levels=AGES),
    Categorical(name="sex", levels=("m", "f")),
)
UPPER = 160_000.0  # just above the largest weight, as a fact of the design
WEIGHTED = Schema(COLUMNS, weight=SurveyWeight("wt", upper=UPPER))
ASKED = ("share(race == '2')", "share(age == '(0,19]') by race", "share(sex == 'f') by age")
FAMILIES = {"AllPairs": AllPairs, "AIM": AIM, "MST": MST}


def survey(path: str) -> pd.DataFrame:
    frame = pd.read_csv(path)
    return pd.DataFrame(
        {
            "chol": frame["HI_CHOL"].map({0: "no", 1: "yes"}).astype(object),
            "race": frame["race"].astype(int).astype(str),
            "age": frame["agecat"],
            "sex": frame["RIAGENDR"].map({1: "m", 2: "f"}),
            "wt": frame["WTMEC2YR"],
        }
    )


def distribution(
    rows: pd.DataFrame, names: tuple[str, ...], weight: pd.Series | float
) -> pd.Series:
    counts = rows.assign(w=weight).dropna(subset=list(names)).groupby(list(names))["w"].sum()
    return counts / counts.sum()


def distance(
    rows: pd.DataFrame, truth: pd.DataFrame, ways: int, weight: pd.Series | float
) -> float:
    names = [a.name for a in COLUMNS]
    apart = [
        distribution(rows, c, weight)
        .sub(distribution(truth, c, truth["wt"]), fill_value=0)
        .abs()
        .sum()
        / 2
        for c in combinations(names, ways)
    ]
    return float(np.mean(apart))


def tables(truth: pd.DataFrame, family: str, runs: int) -> None:
    numeric = Numeric(name="wt", lower=0, upper=UPPER)
    wide = Schema(COLUMNS, weight=SurveyWeight("wt", upper=5 * UPPER))
    released = {
        "with weights": WEIGHTED,
        "with five times the upper end": wide,
        "without weights": Schema(COLUMNS),
        "the weight as a column": Schema((*COLUMNS, numeric)),
    }
    for what, schema in released.items():
        distances = []
        for seed in range(runs):
            reads = "wt" in schema.names or schema.weight is not None
            private = truth if reads else truth.drop(columns="wt")
            model = FAMILIES[family](epsilon=1.0, random_state=seed).fit(private, schema=schema)
            drawn = model.sample(50_000, missing_values="keep", random_state=seed)
            weight = drawn.get("wt", 1.0)
            distances.append([distance(drawn, truth, k, weight) for k in (1, 2)])
        one, two = np.mean(distances, axis=0)
        print(f"| {family} | {what} | {one:.4f} | {two:.4f} |", flush=True)


def coverage(truth: pd.DataFrame, repeats: int, family: str) -> None:
    alike = Schema(COLUMNS, unit=Unit("person", max_rows=3))
    for what, schema in (("weights", WEIGHTED), ("three rows alike", alike)):
        held, width = [], []
        for seed in range(repeats):
            rows = truth.sample(len(truth), replace=True, random_state=seed, ignore_index=True)
            if schema is alike:
                rows = rows.drop(columns="wt").assign(person=np.arange(len(rows)))
                rows = rows.loc[np.repeat(rows.index, 3)]
            model = FAMILIES[family](epsilon=1.0, random_state=1000 + seed).fit(rows, schema=schema)
            weight = truth["wt"] if schema is WEIGHTED else 1.0
            for question in ASKED:
                estimate = model.estimate(question)
                exact = shares(truth.assign(w=weight), question)
                for value, (low, high) in zip(exact, estimate.intervals, strict=True):
                    held.append(low <= value <= high)
                    width.append(high - low)
        print(
            f"| {family} | {what} | {len(held)} | {np.mean(held):.3f} | {np.mean(width):.4f} |",
            flush=True,
        )


def shares(truth: pd.DataFrame, question: str) -> list[float]:
    name, _, rest = question.removeprefix("share(").partition(" == '")
    level, _, by = rest.partition("')")
    truth = truth.assign(is_so=(truth[name] == level) * truth["w"])
    if not by:
        return [truth["is_so"].sum() / truth["w"].sum()]
    sums = truth.groupby(by.removeprefix(" by "))[["is_so", "w"]].sum()
    return (sums["is_so"] / sums["w"]).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("survey")
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--family", choices=FAMILIES, default="AllPairs")
    asked = parser.parse_args()
    truth = survey(asked.survey)
    if asked.tables:
        tables(truth, asked.family, asked.runs)
    if asked.coverage:
        coverage(truth, asked.repeats, asked.family)


if __name__ == "__main__":
    main()
