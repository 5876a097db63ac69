"""Statistics of tables with missing values: missdp beside the pooled estimates of R's mice.

    apt-get install r-cran-mice
    python -m venv /tmp/mice && /tmp/mice/bin/pip install missdp-*.whl
    /tmp/mice/bin/python bench/mice_peers.py [--runs 20]

The tables are those of mice: `boys` (748 rows, growth of Dutch boys) and `nhanes2` (25 rows). R
writes them to a temporary folder, imputes 20 times with the defaults of mice, and pools means, a
share and regressions by Rubin's rules. mice has no privacy.

missdp has two ways. `by_query` is a mean or a proportion on rows that are filled from nearest
neighbours, with all of epsilon for one answer. `by_estimate` is one model of AllPairs, with all of
epsilon for all answers.

For each question the script prints three numbers. They are the root mean square distance to the
pooled estimate, the width of the interval as a multiple of the width of mice, and the share of
intervals that hold the pooled estimate.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from missdp import AllPairs, Categorical, Numeric, Ordinal, Schema, Table
from missdp.accounting import Filter
from missdp.statistics import ImputedStatistics, KNNImputation

R = """
suppressMessages(library(mice)); folder <- commandArgs(TRUE)[1]
out <- list(version = as.character(packageVersion("mice")))
for (name in c("boys", "nhanes2")) {
  d <- get(name)
  write.csv(d, file.path(folder, paste0(name, ".csv")), row.names = FALSE, na = "")
  m <- mice(d, m = 20, seed = 1, printFlag = FALSE)
  fits <- if (name == "boys") list(
    "mean(hgt)" = with(m, lm(hgt ~ 1)), "mean(wgt)" = with(m, lm(wgt ~ 1)),
    "mean(hc)" = with(m, lm(hc ~ 1)), "mean(tv)" = with(m, lm(tv ~ 1)),
    "share(reg = 'city')" = with(m, lm(I(reg == "city") ~ 1)), "hc ~ age" = with(m, lm(hc ~ age)),
    "wgt ~ hgt" = with(m, lm(wgt ~ hgt)))
  else list(
    "mean(bmi)" = with(m, lm(bmi ~ 1)), "mean(chl)" = with(m, lm(chl ~ 1)),
    "share(hyp = 'yes')" = with(m, lm(I(hyp == "yes") ~ 1)), "chl ~ bmi" = with(m, lm(chl ~ bmi)))
  for (q in names(fits)) {
    s <- summary(pool(fits[[q]]), conf.int = TRUE); k <- nrow(s)
    out[[name]][[q]] <- c(s$estimate[k], s[["2.5 %"]][k], s[["97.5 %"]][k])
  }
}
cells <- function(x) paste0('"', names(x), '": [', sapply(x, paste, collapse = ", "), "]",
  collapse = ", ")
cat("{", '"version": "', out$version, '", "boys": {', cells(out$boys), '}, "nhanes2": {',
  cells(out$nhanes2), "}}", sep = "")
"""


def numeric(name: str, lower: float, upper: float) -> Numeric:
    """Return a number that may be missing."""
    return Numeric(name=name, lower=lower, upper=upper, nullable=True)


def levels(kind: type[Any], name: str, *values: str) -> Any:
    """Return a column of levels that may be missing."""
    return kind(name=name, levels=values, nullable=True)


SCHEMAS = {
    "boys": Schema(
        (
            numeric("age", 0, 22), numeric("hgt", 40, 210), numeric("wgt", 2, 120),
            numeric("bmi", 10, 35), numeric("hc", 30, 66), numeric("tv", 1, 25),
            levels(Ordinal, "gen", "G1", "G2", "G3", "G4", "G5"),
            levels(Ordinal, "phb", "P1", "P2", "P3", "P4", "P5", "P6"),
            levels(Categorical, "reg", "north", "east", "west", "south", "city"),
        )
    ),
    "nhanes2": Schema(
        (
            levels(Ordinal, "age", "20-39", "40-59", "60-99"),
            numeric("bmi", 15, 45), levels(Categorical, "hyp", "no", "yes"),
            numeric("chl", 100, 300),
        )
    ),
}  # fmt: skip
Interval = tuple[float, float, float]  # estimate, and the ends of its interval of 95 %


def by_mice(folder: Path) -> dict[str, Any]:
    """Return the pooled estimates of mice. R writes both tables to the folder."""
    command = ["Rscript", "--vanilla", "-e", R, str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(run.stdout[run.stdout.index("{") :]))


def by_estimate(name: str, table: Table, questions: list[str], epsilon: float, seed: int) -> Any:
    """Return all estimates of one model of AllPairs."""
    model = AllPairs(epsilon=epsilon, delta=1e-6, random_state=seed)
    model = model.fit(table, schema=SCHEMAS[name])
    out = {}
    for question in questions:
        ask = model.regress if "~" in question else model.estimate
        result = ask(question)
        out[question] = (float(result.estimate[-1]), *map(float, result.intervals[-1]))
    return out


def by_query(_: str, table: Table, questions: list[str], epsilon: float, seed: int) -> Any:
    """Return each mean or proportion on imputed rows, with all of epsilon for one answer."""
    out = {}
    for question in questions:
        if "~" in question:
            continue  # a query has no regressions
        kind, inside = question.removesuffix(")").split("(")
        column = inside.partition(" ")[0]
        imputation = KNNImputation(impute=column, match_on=("age",))
        budget = Filter(1.01 * epsilon)
        rows = ImputedStatistics(table, imputation, budget=budget, random_state=seed)
        ask = rows.mean if kind == "mean" else rows.proportion
        answer = ask(inside, epsilon=epsilon)
        out[question] = (float(answer.value), *map(float, answer.total_interval))
    return out


def line(name: str, judge: Interval, runs: list[Interval]) -> str:
    """Return distance, width and held share of one question."""
    values = np.array(runs)
    distance = float(np.sqrt(np.mean((values[:, 0] - judge[0]) ** 2)))
    width = np.mean(values[:, 2] - values[:, 1]) / (judge[2] - judge[1])
    held = np.mean((values[:, 1] <= judge[0]) & (judge[0] <= values[:, 2]))
    return f"| {name} | {distance:.3g} | {width:.1f} | {held:.2f} |"


def main() -> None:
    """Print the pooled estimates of mice, and the tables of missdp for each epsilon."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=SCHEMAS, default=list(SCHEMAS))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 3.0, 10.0])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        judges = by_mice(Path(folder))
        frames = {name: pd.read_csv(Path(folder) / f"{name}.csv") for name in SCHEMAS}
    print({"missdp": version("missdp"), "mice": judges["version"]})
    for name in options.tables:
        table = Table.read(frames[name], SCHEMAS[name])
        for question, judge in judges[name].items():
            print(f"| {name}: {question} | {', '.join(f'{x:.4g}' for x in judge)} |", flush=True)
        for epsilon in options.epsilon:
            for way in (by_query, by_estimate):
                questions = list(judges[name])
                runs = [way(name, table, questions, epsilon, s) for s in range(options.runs)]
                print(f"\n{name}, {way.__name__}, epsilon {epsilon:g}")
                for question in runs[0]:
                    print(line(question, judges[name][question], [r[question] for r in runs]))


if __name__ == "__main__":
    main()
