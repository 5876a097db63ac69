"""How wrong a release is, by the number of rows and by epsilon, for docs/planning.md.

Rows are drawn without replacement from Adult (30,162 rows, 15 attributes, numerics in 10 declared
bins) with 20 % of the cells missing completely at random; delta is 1e-6. Every synthetic table has
30,000 rows, and is compared with all 30,162 complete rows: so errors hold the sampling of the
private rows, their holes and the noise. Mean total variation over all one-way and over all two-way
marginals. "margins" is AIM with one-way marginals only (`workload=1`), so that attributes are
independent. Beside it the mean of hours per week, as `missdp query` answers it with its error bar.

    python bench/rows_and_epsilon.py           # what is lacking in results/rows_and_epsilon.json
    python bench/rows_and_epsilon.py --tables  # prints what stands on the page
    python bench/rows_and_epsilon.py --short   # made-up rows, seconds; writes nothing

All of it takes about 10 minutes of CPU time. Each result is written as soon as it is there, and a
later call goes on from the file; `--again` starts anew.
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
    """Complete rows, and the same rows with holes."""
    return table("adult", "truth", nullable=False), table("adult", "mcar_0.2")


def made_up(rows=2_000):
    """Related columns in which 20 % of the cells are missing, where the files are not at hand."""
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
    holes = {name: rng.random(rows) < 0.2 for name in frame}
    return complete, Table.read(frame, declared(True)).with_missing(holes)


def distances(truth, other):
    return {f"{k}-way": marginal_distance(truth, other, k=k).mean for k in (1, 2)}


def without_privacy(truth):
    """What is as close as can be without a look at the rows, and from exact margins alone."""
    rng = np.random.default_rng(0)
    names, size = truth.schema.names, 200_000
    guessed = {n: rng.integers(0, truth.schema[n].size, size) for n in names}
    # Each column shuffled by itself: the same margins, no relation between columns.
    turns = -(-size // len(truth))
    alone = {
        n: np.concatenate([rng.permutation(truth.codes(n)) for _ in range(turns)]) for n in names
    }
    return {
        "all levels alike": distances(truth, Table.from_codes(truth.schema, guessed)),
        "independent": distances(truth, Table.from_codes(truth.schema, alone)),
    }


def drawn(complete, private, rows, seed):
    """As many rows, complete and with their holes."""
    chosen = np.random.default_rng([seed, rows]).permutation(len(private))[:rows]
    return complete.take(chosen), private.take(chosen)


def fitted(truth, private, family, epsilon):
    """Errors of one synthetic table, and what it cost."""
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


def measure(truth, holes, found, *, sizes, epsilons, seeds, answers, keep=None):
    """Fill in what is lacking in ``found``, smallest tables first; ``keep`` it after each step."""
    found.setdefault("without privacy", without_privacy(truth))
    for rows in sizes:
        for seed in range(seeds):
            complete, private = drawn(truth, holes, rows, seed)
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
                if name not in found:
                    found[name] = {
                        k: round(v, 5) if isinstance(v, float) else v for k, v in step().items()
                    }
                    if keep:
                        keep(found)
    return found


def mean_of(found, rows, rest, key):
    """Mean over the tables of one size."""
    runs = [v[key] for k, v in found.items() if k.split(" ", 2)[::2] == [f"{rows}", rest]]
    return statistics.fmean(runs)


def figure(value):
    """.0345, .345, 1."""
    return f"{value:.3f}".removeprefix("0")


def family_table(found, family):
    """Two-way errors of a family, one-way ones in brackets."""
    lines = [
        f"| {'Margins only' if family == 'margins' else TITLES[family]}: rows | "
        + " | ".join(f"ε = {e:g}" for e in EPSILONS)
        + " |",
        "|---|" + "---|" * len(EPSILONS),
    ]
    for rows in ROWS:
        cells = (
            "{} ({})".format(
                *(figure(mean_of(found, rows, f"{e:g} {family}", k)) for k in ("2-way", "1-way"))
            )
            for e in EPSILONS
        )
        lines.append(f"| {rows:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def closest_table(found):
    """Which family is closest, and whether it says more than independent margins do."""
    lines = [
        "| rows | the rows themselves | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " |",
        "|---|---|" + "---|" * len(EPSILONS),
    ]
    alone = found["without privacy"]["independent"]["2-way"]
    for rows in ROWS:
        cells = [figure(mean_of(found, rows, "rows", "2-way"))]
        for epsilon in EPSILONS:
            errors = {f: mean_of(found, rows, f"{epsilon:g} {f}", "2-way") for f in FAMILIES}
            best = min(errors, key=errors.get)
            text = f"{figure(errors[best])} {TITLES[best]}"
            cells.append(f"**{text}**" if errors[best] < alone else text)
        lines.append(f"| {rows:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def mean_table(found):
    """Root mean square error of the mean, and the median half-width of its bar."""
    lines = [
        "| rows | sampling alone | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " |",
        "|---|---|" + "---|" * len(EPSILONS),
    ]
    for rows in ROWS:
        cells = [f"{found['deviation of hours'] / math.sqrt(rows):.2f}"]
        for epsilon in EPSILONS:
            runs = [
                v
                for k, v in found.items()
                if k.split(" ", 2)[::2] == [f"{rows}", f"{epsilon:g} query"]
            ]
            errors = [e for run in runs for e in run["errors"]]
            halves = [h for run in runs for h in run["halves"]]
            error = math.sqrt(statistics.fmean(e * e for e in errors))
            cells.append(f"{error:.2f} ± {statistics.median(halves):.2f}")
        lines.append(f"| {rows:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def tables(found):
    """Every table of the page, as it stands there."""
    return [closest_table(found), *(family_table(found, f) for f in FAMILIES), mean_table(found)]


def keep(found):
    RESULTS.parent.mkdir(exist_ok=True)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(found[key])}" for key in found)
    RESULTS.with_suffix(".part").write_text("{\n" + lines + "\n}\n", encoding="utf-8")
    RESULTS.with_suffix(".part").replace(RESULTS)
    print(*list(found)[-1:], json.dumps(found[list(found)[-1]])[:100], flush=True)


def short():
    """Run everything on a few made-up rows."""
    truth, holes = made_up()
    return measure(truth, holes, {}, sizes=(100, 1_000), epsilons=(1,), seeds=1, answers=2)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="made-up rows, seconds")
    parser.add_argument("--tables", action="store_true", help="print the tables of the page")
    parser.add_argument("--again", action="store_true", help="forget earlier results")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # small tables warn, as they should
    if options.short:
        print(json.dumps(short(), indent=1))
        return
    known = RESULTS.exists() and not options.again
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if known else {}
    if options.tables:
        print("\n\n".join(tables(found)))
        return
    if not SHARED.exists():
        raise SystemExit(f"needs the data folder {SHARED}")
    truth, holes = adult()
    found.setdefault(
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
    found.setdefault("deviation of hours", round(float(truth.values(HOURS).std()), 4))
    measure(
        truth, holes, found,
        sizes=ROWS, epsilons=EPSILONS, seeds=SEEDS, answers=ANSWERS, keep=keep,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
