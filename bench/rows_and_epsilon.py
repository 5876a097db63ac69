"""Error of a release by the number of rows and by epsilon, for docs/planning.md.

Rows are drawn without replacement from Adult (30,162 rows, 15 attributes, numerics in 10 declared
bins). 20 % of the cells are missing completely at random, and delta is 1e-6. Every synthetic table
has 30,000 rows, and is compared with all 30,162 complete rows. Errors therefore contain the
sampling of the private rows, their missing cells and the noise. The error is the mean total
variation over all one-way and over all two-way marginals. "margins" is AIM with one-way marginals
only (`workload=1`), so that attributes are independent. A further table has the mean of hours per
week, as `missdp query` answers it with its error bar.

    python bench/rows_and_epsilon.py           # completes results/rows_and_epsilon.json
    python bench/rows_and_epsilon.py --tables  # prints the tables of the page
    python bench/rows_and_epsilon.py --short   # invented rows, seconds, writes nothing

All runs take about 10 minutes of CPU time. Each result is written at once. A later call continues
from the file, and `--again` starts again.
"""

import argparse
import json
import math
import platform
import statistics
import sys
import time
import warnings
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
from _data import SHARED, table

import missdp
from missdp import AllPairs, Categorical, Filter, Numeric, Schema, Table
from missdp.evaluate import marginal_distance
from missdp.statistics import KNNImputation, Statistic, run_queries
from missdp.synth import AIM, MST

RESULTS = Path(__file__).parent / "results" / "rows_and_epsilon.json"
ROWS = (100, 300, 1_000, 3_000, 10_000, 30_000)
EPSILONS = (0.1, 0.3, 1, 3, 10)
DELTA, SYNTHETIC = 1e-6, 30_000
SEEDS, ANSWERS = 3, 15  # tables of each size, and answers of `query` from each of them
FAMILIES = {
    "margins": lambda epsilon: AIM(epsilon=epsilon, delta=DELTA, workload=1),
    "aim": lambda epsilon: AIM(epsilon=epsilon, delta=DELTA),
    "mst": lambda epsilon: MST(epsilon=epsilon, delta=DELTA),
    "all-pairs": lambda epsilon: AllPairs(epsilon=epsilon, delta=DELTA),
}
TITLES = {"margins": "margins", "aim": "AIM", "mst": "MST", "all-pairs": "AllPairs"}
HOURS, NEAR = "hours-per-week", ("education-num", "sex")


def adult():
    """Complete rows, and these rows with missing cells."""
    return table("adult", "truth", nullable=False), table("adult", "mcar_0.2")


def made_up(rows=2_000):
    """Invented related columns with 20 % missing cells, for machines without the files."""
    rng = np.random.default_rng(7)
    group = rng.integers(0, 4, rows)
    frame = pd.DataFrame(
        {
            "sex": np.array(["f", "m"])[group % 2],
            "education-num": np.minimum(7, group + rng.integers(0, 5, rows)),
            "region": np.array(["a", "b", "c", "d"])[
                np.where(rng.random(rows) < 0.7, group, rng.integers(0, 4, rows))
            ],
            HOURS: 20.5 + 8 * group + rng.integers(0, 20, rows),
        }
    )

    def declared(nullable):
        return Schema(
            (
                Categorical(name="sex", levels=("f", "m"), nullable=nullable),
                Categorical(name="education-num", levels=tuple(range(8)), nullable=nullable),
                Categorical(name="region", levels=("a", "b", "c", "d"), nullable=nullable),
                Numeric(name=HOURS, lower=1, upper=99, nullable=nullable),
            )
        )

    complete = Table.read(frame, declared(False))
    is_missing = {name: rng.random(rows) < 0.2 for name in frame}
    return complete, Table.read(frame, declared(True)).with_missing(is_missing)


def distances(truth, other):
    return {f"{k}-way": marginal_distance(truth, other, k=k).mean for k in (1, 2)}


def without_privacy(truth):
    """Distances of uniform levels, and of independent columns with exact marginals."""
    rng = np.random.default_rng(0)
    names, size = truth.schema.names, 200_000
    guessed = {n: rng.integers(0, truth.schema[n].size, size) for n in names}
    # Each column is shuffled separately, which removes all relations between columns.
    turns = -(-size // len(truth))
    independent = {
        n: np.concatenate([rng.permutation(truth.codes(n)) for _ in range(turns)]) for n in names
    }
    return {
        "all levels alike": distances(truth, Table.from_codes(truth.schema, guessed)),
        "independent": distances(truth, Table.from_codes(truth.schema, independent)),
    }


def drawn(complete, private, rows, seed):
    """A sample of rows, complete and with missing cells."""
    chosen = np.random.default_rng([seed, rows]).permutation(len(private))[:rows]
    return complete.take(chosen), private.take(chosen)


def fitted(truth, private, family, epsilon):
    """Errors of one synthetic table, and its CPU seconds."""
    start = time.process_time()
    model = FAMILIES[family](epsilon).fit(private)
    synthetic = model.sample_table(SYNTHETIC)
    seconds = time.process_time() - start
    return distances(truth, synthetic) | {"released": model.n_rows_, "cpu": round(seconds, 2)}


def asked(truth, private, epsilon, answers):
    """Errors of answers of ``query``, and half the widths of their error bars."""
    filled, mean = KNNImputation(impute=HOURS, match_on=NEAR), Statistic("mean", (HOURS,))
    spent = float(epsilon)
    exact, errors, halves = truth.values(HOURS).mean(), [], []
    for _ in range(answers):
        (answer,) = run_queries(private, filled, [mean], epsilon=spent, budget=Filter(spent))
        errors.append(round(float(answer.value - exact), 4))
        halves.append(round((answer.interval[1] - answer.interval[0]) / 2, 4))
    return {"errors": errors, "halves": halves}


def measure(truth, incomplete, results, *, sizes, epsilons, seeds, answers, keep=None):
    """Add absent results to ``results``, smallest tables first. Call ``keep`` after each step."""
    results.setdefault("without privacy", without_privacy(truth))
    for rows in sizes:
        for seed in range(seeds):
            complete, private = drawn(truth, incomplete, rows, seed)
            steps = {f"{rows} {seed} rows": lambda c=complete: distances(truth, c)}
            for epsilon in epsilons:
                for family in FAMILIES:
                    steps[f"{rows} {seed} {epsilon:g} {family}"] = (
                        lambda p=private, f=family, e=epsilon: fitted(truth, p, f, e)
                    )
                steps[f"{rows} {seed} {epsilon:g} query"] = lambda p=private, e=epsilon: asked(
                    truth, p, e, answers
                )
            for name, step in steps.items():
                if name not in results:
                    results[name] = {
                        k: round(v, 5) if isinstance(v, float) else v for k, v in step().items()
                    }
                    if keep:
                        keep(results)
    return results


def mean_of(results, rows, rest, key):
    """Mean over the tables of one size."""
    runs = [v[key] for k, v in results.items() if k.split(" ", 2)[::2] == [f"{rows}", rest]]
    return statistics.fmean(runs)


def figure(value):
    """Return a number with three decimals and without a leading 0: .035, 1.000."""
    return f"{value:.3f}".removeprefix("0")


def family_table(results, family):
    """Two-way errors of a family, with one-way errors in brackets."""
    lines = [
        f"| {'Margins only' if family == 'margins' else TITLES[family]}: rows | "
        + " | ".join(f"ε = {e:g}" for e in EPSILONS)
        + " |",
        "|---|" + "---|" * len(EPSILONS),
    ]
    for rows in ROWS:
        cells = (
            "{} ({})".format(
                *(figure(mean_of(results, rows, f"{e:g} {family}", k)) for k in ("2-way", "1-way"))
            )
            for e in EPSILONS
        )
        lines.append(f"| {rows:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def closest_table(results):
    """The closest family, and whether it is closer than independent marginals."""
    lines = [
        "| rows | the rows themselves | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " |",
        "|---|---|" + "---|" * len(EPSILONS),
    ]
    independent = results["without privacy"]["independent"]["2-way"]
    for rows in ROWS:
        cells = [figure(mean_of(results, rows, "rows", "2-way"))]
        for epsilon in EPSILONS:
            errors = {f: mean_of(results, rows, f"{epsilon:g} {f}", "2-way") for f in FAMILIES}
            best = min(errors, key=errors.get)
            text = f"{figure(errors[best])} {TITLES[best]}"
            cells.append(f"**{text}**" if errors[best] < independent else text)
        lines.append(f"| {rows:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def mean_table(results):
    """Root mean square error of the mean, and the median half-width of its error bar."""
    lines = [
        "| rows | sampling alone | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " |",
        "|---|---|" + "---|" * len(EPSILONS),
    ]
    for rows in ROWS:
        cells = [f"{results['deviation of hours'] / math.sqrt(rows):.2f}"]
        for epsilon in EPSILONS:
            runs = [
                v
                for k, v in results.items()
                if k.split(" ", 2)[::2] == [f"{rows}", f"{epsilon:g} query"]
            ]
            errors = [e for run in runs for e in run["errors"]]
            halves = [h for run in runs for h in run["halves"]]
            error = math.sqrt(statistics.fmean(e * e for e in errors))
            cells.append(f"{error:.2f} ± {statistics.median(halves):.2f}")
        lines.append(f"| {rows:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def tables(results):
    """All tables of the page in order."""
    return [
        closest_table(results),
        *(family_table(results, f) for f in FAMILIES),
        mean_table(results),
    ]


def keep(results):
    RESULTS.parent.mkdir(exist_ok=True)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(results[key])}" for key in results)
    RESULTS.with_suffix(".part").write_text("{\n" + lines + "\n}\n", encoding="utf-8")
    RESULTS.with_suffix(".part").replace(RESULTS)
    print(*list(results)[-1:], json.dumps(results[list(results)[-1]])[:100], flush=True)


def short():
    """Run all steps on a few invented rows."""
    truth, incomplete = made_up()
    return measure(truth, incomplete, {}, sizes=(100, 1_000), epsilons=(1,), seeds=1, answers=2)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="invented rows, seconds")
    parser.add_argument("--tables", action="store_true", help="print the tables of the page")
    parser.add_argument("--again", action="store_true", help="ignore earlier results")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # warnings about small tables are expected
    if options.short:
        print(json.dumps(short(), indent=1))
        return
    continues = RESULTS.exists() and not options.again
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if continues else {}
    if options.tables:
        print("\n\n".join(tables(results)))
        return
    if not SHARED.exists():
        raise SystemExit(f"needs the data folder {SHARED}")
    truth, incomplete = adult()
    results.setdefault(
        "how",
        {
            "date": f"{date.today()}",
            "python": platform.python_version(),
            "numpy": np.__version__,
            "missdp": missdp.__version__,
            "delta": DELTA,
            "synthetic rows": SYNTHETIC,
        },
    )
    results.setdefault("deviation of hours", round(float(truth.values(HOURS).std()), 4))
    measure(
        truth, incomplete, results,
        sizes=ROWS, epsilons=EPSILONS, seeds=SEEDS, answers=ANSWERS, keep=keep,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
