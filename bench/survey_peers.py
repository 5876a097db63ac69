"""Survey estimates under weights: missdp beside the design-based estimates of samplics and svy.

    python -m venv /tmp/survey
    /tmp/survey/bin/pip install missdp-*.whl samplics==0.6.1 svy==0.35.0
    /tmp/survey/bin/python bench/survey_peers.py [--runs 20]

The table is the subsample of NHANES II that samplics carries: 10,337 people, 32 strata of two
clusters, weights from 2,000 to 79,634, zinc missing for 11 % and lead for 52 %. The judges know all
rows, weights, strata and clusters, and have no privacy. AllPairs gets the table without strata and
clusters, with 80,000 as the public largest weight.

For each question the script prints the judges' interval of 95 %, and three numbers about missdp.
They are the root mean square distance to the judges' estimate, the width of the interval as a
multiple of the judges' width, and the share of intervals that hold the judges' estimate.

A total is the released size of the population times a released share. Totals have no interval in
missdp. `by_sums` releases sums of weights and of weighted cells in a session, a fourth of epsilon
for each column. The script computes their ratios, which have no interval.
"""

from __future__ import annotations

import argparse
import warnings
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import svy
from samplics.datasets import load_nhanes2
from samplics.estimation import TaylorEstimator
from samplics.utils.types import PopParam

from missdp import AllPairs, Categorical, Numeric, Schema, Table
from missdp.accounting import Cost, Filter
from missdp.schema import SurveyWeight
from missdp.statistics import RowSums, open_table

UPPER = 80_000.0  # just above the largest weight, taken as a fact of the design
ZINC = (40.0, 250.0)  # micrograms per decilitre
LEVELS = {"race": ("1", "2", "3")}
LEVELS |= dict.fromkeys(("diabetes", "highbp", "highlead"), ("0", "1"))
COLUMNS = (
    *(Categorical(name=name, levels=levels, nullable=True) for name, levels in LEVELS.items()),
    Numeric(name="zinc", lower=ZINC[0], upper=ZINC[1], integer=True, nullable=True),
)
SUMMED = ("diabetes", "highbp", "highlead")
# Kind of the judges' estimate, its column, and the question that missdp answers.
QUESTIONS = {
    "mean of zinc": ("mean", "zinc", "mean(zinc)"),
    "share with high blood pressure": ("mean", "highbp", "share(highbp = '1')"),
    "share with diabetes": ("mean", "diabetes", "share(diabetes = '1')"),
    "share with high lead": ("mean", "highlead", "share(highlead = '1')"),
    "people with high blood pressure": ("total", "highbp", "share(highbp = '1')"),
}
Interval = tuple[float, float, float]  # estimate, and the ends of its interval of 95 %


def survey() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the table as samplics loads it, and as missdp reads it."""
    raw = load_nhanes2()["data"]
    texts = {name: raw[name].astype("Int64").astype("string") for name in LEVELS}
    table = pd.DataFrame(texts).astype(object).where(raw[list(LEVELS)].notna(), None)
    return raw, table.assign(zinc=raw["zinc"].astype("Int64"), wt=raw["finalwgt"].astype(float))


def by_samplics(raw: pd.DataFrame, kind: str, column: str) -> Interval:
    """Return the estimate of samplics by Taylor linearisation."""
    estimator = TaylorEstimator(getattr(PopParam, kind))
    design = {"stratum": raw["stratid"], "psu": raw["psuid"], "samp_weight": raw["finalwgt"]}
    estimator.estimate(y=raw[column], **design, remove_nan=True)
    return float(estimator.point_est), float(estimator.lower_ci), float(estimator.upper_ci)


def by_svy(raw: pd.DataFrame, kind: str, column: str) -> Interval:
    """Return the estimate of svy by Taylor linearisation."""
    data = pl.DataFrame({name: pl.Series(raw[name].to_numpy(), nan_to_null=True) for name in raw})
    sample = svy.Sample(data, svy.Design(stratum="stratid", psu="psuid", wgt="finalwgt"))
    result = getattr(sample.estimation, kind)(column, drop_nulls=True).to_polars()
    estimate, low, high = (float(result[name][0]) for name in ("est", "lci", "uci"))
    return estimate, low, high


def by_estimate(table: pd.DataFrame, epsilon: float, seed: int) -> dict[str, Interval]:
    """Return the estimates of a model of AllPairs under weights."""
    schema = Schema(COLUMNS, weight=SurveyWeight("wt", upper=UPPER))
    model = AllPairs(epsilon=epsilon, delta=1e-6, random_state=seed).fit(table, schema=schema)
    answers = {}
    for name, (kind, _, question) in QUESTIONS.items():
        result = model.estimate(question)
        values = np.array([float(result.estimate[0]), *map(float, result.intervals[0])])
        if kind == "total":
            values = np.array([values[0] * model.population_, np.nan, np.nan])
        answers[name] = (values[0], values[1], values[2])
    return answers


def weighted(rows: Any, name: str, upper: float) -> np.ndarray:
    """Return weight and weighted cell of each row, where the cell is observed."""
    weight = np.where(rows.is_missing(name), 0.0, rows.values("wt"))
    return np.column_stack([weight, weight * rows.values(name) / upper])


def by_sums(table: pd.DataFrame, epsilon: float, seed: int) -> dict[str, Interval]:
    """Return ratios and totals of weighted sums that a session releases, an equal part each."""
    binary = [Numeric(name=n, lower=0, upper=1, integer=True, nullable=True) for n in SUMMED]
    weight = Numeric(name="wt", lower=0, upper=UPPER)
    schema = Schema((*binary, COLUMNS[-1], weight))
    columns = {n: table[n].astype("Int64") for n in SUMMED}
    private = Table.read(table[["zinc", "wt"]].assign(**columns), schema)
    session = open_table(private, budget=Filter(1.01 * epsilon), random_state=seed)
    answers = {}
    cost = Cost(privacy_measure="pure", amount=epsilon / (len(SUMMED) + 1))
    for name in (*SUMMED, "zinc"):
        upper = ZINC[1] if name == "zinc" else 1.0
        query = RowSums(
            function=weighted, reads=frozenset({name, "wt"}), arguments=(name, upper),
            bound=2 * UPPER, numbers=2,
        )  # fmt: skip
        weight_sum, cells = (float(x) for x in session.measure(query, cost).value)
        for question, (kind, column, _) in QUESTIONS.items():
            if column == name:
                value = cells * upper if kind == "total" else cells * upper / weight_sum
                answers[question] = (value, np.nan, np.nan)
    return answers


def line(name: str, judge: Interval, runs: list[Interval]) -> str:
    """Return distance, width and held share of one question."""
    values = np.array(runs)
    distance = float(np.sqrt(np.mean((values[:, 0] - judge[0]) ** 2)))
    cells = f"{distance:.4g} ({distance / abs(judge[0]):.1%})"
    if np.isnan(values[:, 1]).any():
        return f"| {name} | {cells} | not offered | |"
    width = np.mean(values[:, 2] - values[:, 1]) / (judge[2] - judge[1])
    held = np.mean((values[:, 1] <= judge[0]) & (judge[0] <= values[:, 2]))
    return f"| {name} | {cells} | {width:.2f} | {held:.2f} |"


def main() -> None:
    """Print the estimates of the judges, and the tables of missdp for each epsilon."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 3.0])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    raw, table = survey()
    print({name: version(name) for name in ("missdp", "samplics", "svy")})
    judges = {}
    for name, (kind, column, _) in QUESTIONS.items():
        judges[name] = by_samplics(raw, kind, column)
        both = [", ".join(f"{x:.6g}" for x in j) for j in (judges[name], by_svy(raw, kind, column))]
        print(f"| {name} | {' | '.join(both)} |", flush=True)
    for epsilon in options.epsilon:
        for way in (by_estimate, by_sums):
            runs = [way(table, epsilon, seed) for seed in range(options.runs)]
            print(f"\n{way.__name__}, epsilon {epsilon:g}")
            for name, judge in judges.items():
                print(line(name, judge, [run[name] for run in runs]), flush=True)


if __name__ == "__main__":
    main()
