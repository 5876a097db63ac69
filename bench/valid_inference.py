"""Type I error and power of four tests on released data: naive, combined, and `estimate`.

    python bench/valid_inference.py results.jsonl --epsilon 0.5 1 --replicates 1000
    python bench/valid_inference.py results.jsonl --peer "SmartNoise MST" --replicates 100
    python bench/valid_inference.py results.jsonl --report

The tests are those of Montoya Perez et al. (arXiv 2403.13612): Student's t, Mann and Whitney's U,
the chi squared test of independence, and Mood's median test. Each has a nominal level of 5 %. A
replicate draws a table of two groups and an outcome, with 15 % of the outcomes missing at random.
It fits AllPairs, and tests in three ways.

* *naive*: one synthetic table is tested as if its rows were real.
* *combined*: 20 tables of `multiple=` are combined by `combine_estimates`. The combined number is
  the difference of means, of the chance to be larger, of shares, or of shares above the median.
* *estimate*: the test rejects if the 95 % interval of `model.estimate` excludes 0. U is not
  offered.

With `--peer`, a method of `compare.py` makes one synthetic table for each private table, and only
the naive tests run. Scores are cut into ten equal bins for methods that need levels.

A replicate has no difference between groups (Type I error). Every fifth replicate is also tried
with a difference that a complete table shows with a power of .9 (power). Each trial is a line of
the file, so a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import compare
import numpy as np
import pandas as pd
from scipy import stats

from missdp import AllPairs, Categorical, Numeric, Schema
from missdp.evaluate import combine_estimates

TESTS = ("t", "U", "chi2", "median")
TABLES = 20  # of `multiple=`
POWER_EVERY = 5  # replicates, of which one is also tried with a difference
LEVEL = 0.05
DELTA = 1e-6
DOMAIN = {
    "group": {"kind": "categorical", "levels": ["a", "b"]},
    "region": {"kind": "categorical", "levels": ["north", "south", "west"]},
    "ill": {"kind": "categorical", "levels": ["no", "yes"]},
    "score": {"kind": "numeric", "lower": 0, "upper": 100},
}
# Tables that one process of another library fits, one after the other: loading it takes seconds.
AT_ONCE = 20
EACH = """
import json, sys
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["", *arguments]
    exec(compile({code!r}, "fit", "exec"), {{}})
"""
SCHEMA = Schema(
    (
        Categorical(name="group", levels=("a", "b")),
        Categorical(name="region", levels=("north", "south", "west")),
        Categorical(name="ill", levels=("no", "yes"), nullable=True),
        Numeric(name="score", lower=0, upper=100, nullable=True),
    )
)
Estimate = tuple[float, float]  # and its variance


def drawn(rows: int, rng: np.random.Generator, *, effect: bool) -> pd.DataFrame:
    """Return a table. With an effect, a t test of complete rows has a power of about .9."""
    group, region = rng.integers(0, 2, rows), rng.integers(0, 3, rows)
    shift = 3.3 / np.sqrt(rows / 4) if effect else 0.0  # in standard deviations
    score = np.clip(50 + 12 * (rng.normal(size=rows) + shift * group + 0.3 * region), 0, 100)
    ill = rng.random(rows) < 0.3 + 0.458 * shift * group
    table = pd.DataFrame(
        {
            "group": np.array(["a", "b"])[group],
            "region": np.array(["north", "south", "west"])[region],
            "ill": pd.Series(np.where(ill, "yes", "no"), dtype=object),
            "score": score.round(1),
        }
    )
    for name in ("ill", "score"):  # at random, given the region
        table.loc[rng.random(rows) < 0.08 + 0.07 * region, name] = None
    return table


# --- Tests -------------------------------------------------------------------------------------


def groups(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of both groups."""
    one, other = (table.loc[table["group"] == g, "score"].to_numpy(float) for g in "ab")
    return one, other


def naive(table: pd.DataFrame) -> dict[str, bool]:
    """Return the tests that reject on one table, as if its rows were real."""
    one, other = groups(table)
    cross = pd.crosstab(table["group"], table["ill"])
    p = {
        "t": stats.ttest_ind(one, other, equal_var=False).pvalue,
        "U": stats.mannwhitneyu(one, other).pvalue,
        "chi2": stats.chi2_contingency(cross, correction=False).pvalue if cross.size == 4 else 1.0,
        "median": stats.median_test(one, other, correction=False).pvalue,
    }
    return {name: bool(value < LEVEL) for name, value in p.items()}


def of_means(one: np.ndarray, other: np.ndarray) -> Estimate:
    """Return the difference of two means."""
    variance = one.var(ddof=1) / len(one) + other.var(ddof=1) / len(other)
    return float(other.mean() - one.mean()), float(variance)


def of_ranks(one: np.ndarray, other: np.ndarray) -> Estimate:
    """Return the chance that a score of the second group is larger, less a half."""
    ranks = stats.rankdata(np.concatenate([one, other]))
    n, m = len(one), len(other)
    larger = (ranks[n:].sum() - m * (m + 1) / 2) / (n * m)
    own = stats.rankdata(one), stats.rankdata(other)
    placed = ((ranks[:n] - own[0]) / m).var(ddof=1) / n + ((ranks[n:] - own[1]) / n).var(ddof=1) / m
    return float(larger - 0.5), float(placed)  # variance of DeLong et al. 1988


def differences(table: pd.DataFrame) -> dict[str, Estimate]:
    """Return the difference of each test, with its variance in a real table."""
    one, other = groups(table)
    middle = np.median(np.concatenate([one, other]))
    ill = [(table.loc[table["group"] == g, "ill"] == "yes").to_numpy(float) for g in "ab"]
    above = [(scores > middle).astype(float) for scores in (one, other)]
    return {
        "t": of_means(one, other),
        "U": of_ranks(one, other),
        "chi2": of_means(*ill),
        "median": of_means(*above),
    }


def combined(tables: list[pd.DataFrame]) -> dict[str, bool]:
    """Return the differences that are not 0 by the combining rule."""
    of_each = [differences(table) for table in tables]
    rejected = {}
    for name in TESTS:
        q, u = np.array([each[name] for each in of_each]).T
        low, high = combine_estimates(q, u).interval(1 - LEVEL)
        rejected[name] = bool(low > 0 or high < 0)
    return rejected


QUESTIONS = {
    "t": "difference(mean(score)) by group",
    "chi2": "difference(share(ill = 'yes')) by group",
    "median": "difference(median(score)) by group",
}


def estimated(model: AllPairs) -> dict[str, bool]:
    """Return the intervals of `estimate` that exclude 0."""
    rejected = {}
    for name, question in QUESTIONS.items():
        low, high = np.asarray(model.estimate(question).intervals).reshape(-1, 2)[-1]
        rejected[name] = bool(low > 0 or high < 0)
    return rejected


# --- Replicates --------------------------------------------------------------------------------


def replicate(seed: int, epsilon: float, rows: int, *, effect: bool) -> dict[str, Any]:
    """Return the rejections of each way of testing on one table."""
    rng = np.random.default_rng((seed, int(effect)))
    table = drawn(rows, rng, effect=effect)
    model = AllPairs(epsilon=epsilon, delta=DELTA, random_state=seed).fit(table, schema=SCHEMA)
    several = model.sample(rows, multiple=TABLES, random_state=seed)
    ways: dict[str, Callable[[], dict[str, bool]]] = {
        "naive": lambda: naive(model.sample(rows, random_state=seed)),
        "combined": lambda: combined(several),
        "estimate": lambda: estimated(model),
        "private rows": lambda: naive(table.dropna()),
    }
    return {
        "seed": seed, "epsilon": epsilon, "rows": rows, "effect": effect,
        "rejected": {name: way() for name, way in ways.items()},
    }  # fmt: skip


def replicates_of(
    peer: str, asked: list[tuple[int, float, bool]], rows: int
) -> Iterator[dict[str, Any]]:
    """Yield the rejections of naive tests on the synthetic tables of another library."""
    library, code = compare.ELSEWHERE[peer]
    python = compare.environment(library)
    with tempfile.TemporaryDirectory() as folder:
        domain = Path(folder) / "domain.json"
        domain.write_text(json.dumps(DOMAIN), "utf-8")
        arguments = []
        for place, (seed, epsilon, effect) in enumerate(asked):
            private = drawn(rows, np.random.default_rng((seed, int(effect))), effect=effect)
            private.to_csv(f"{folder}/{place}.csv", index=False)
            budget = (epsilon, DELTA, compare.zcdp_rho(epsilon, DELTA))
            files = (f"{folder}/{place}.csv", domain, f"{folder}/{place}-made.csv")
            arguments.append([*map(str, files), *map(str, budget)])
        command = EACH.format(code=compare.READ + code)
        subprocess.run([python, "-c", command, json.dumps(arguments)], check=True)
        for place, (seed, epsilon, effect) in enumerate(asked):
            made = pd.read_csv(f"{folder}/{place}-made.csv")
            yield {
                "seed": seed, "epsilon": epsilon, "rows": rows, "effect": effect, "peer": peer,
                "rejected": {peer: naive(made.dropna())},
            }  # fmt: skip


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the replicates of a results file."""
    if path.exists():
        yield from map(json.loads, path.read_text().splitlines())


def report(path: Path) -> str:
    """Return a table of rejections: Type I error and power by epsilon, rows, test and way."""
    counts: dict[Any, list[bool]] = defaultdict(list)
    for line in lines(path):
        for way, tests in line["rejected"].items():
            for test, rejected in tests.items():
                key = line["rows"], line["epsilon"], test, way, line["effect"]
                counts[key].append(rejected)
    peers = dict.fromkeys(line["peer"] for line in lines(path) if "peer" in line)
    ways = ("naive", "combined", "estimate", *peers, "private rows")
    head = "| rows | epsilon | test | " + " | ".join(ways) + " | replicates |"
    table = [head, "|" + "---|" * (len(ways) + 4)]
    for rows, epsilon, test in dict.fromkeys(key[:3] for key in sorted(counts)):
        cells = []
        for way in ways:
            error, power = (counts.get((rows, epsilon, test, way, e), []) for e in (False, True))
            shown = [f"{np.mean(x):.3f}" if x else "" for x in (error, power)]
            cells.append("not offered" if not error else f"{shown[0]} ({shown[1]})")
        n = len(counts[rows, epsilon, test, "naive", False])
        table.append(f"| {rows:,} | {epsilon} | {test} | " + " | ".join(cells) + f" | {n} |")
    return "\n".join(table)


def main() -> None:
    """Run the replicates that the file does not have yet, and print Type I error (power)."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.5, 1.0])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--replicates", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first replicate")
    parser.add_argument("--peer", help="a method of compare.py, of another library")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    done = {
        (x["seed"], x["epsilon"], x["effect"])
        for x in lines(options.results)
        if (x["rows"], x.get("peer")) == (options.rows, options.peer)
    }
    wanted = [
        (seed, epsilon, effect)
        for seed in range(options.first, 0 if options.report else options.replicates)
        for epsilon in options.epsilon
        for effect in ((False,) if seed % POWER_EVERY else (False, True))
        if (seed, epsilon, effect) not in done
    ]
    for line in _tried(wanted, options.rows, options.peer):
        with options.results.open("a") as file:
            file.write(json.dumps(line) + "\n")
    print(report(options.results))


def _tried(
    wanted: list[tuple[int, float, bool]], rows: int, peer: str | None
) -> Iterator[dict[str, Any]]:
    """Yield a line for each replicate."""
    if peer is None:
        yield from (replicate(seed, e, rows, effect=effect) for seed, e, effect in wanted)
    for start in range(0, len(wanted) if peer else 0, AT_ONCE):
        yield from replicates_of(str(peer), wanted[start : start + AT_ONCE], rows)


if __name__ == "__main__":
    main()
