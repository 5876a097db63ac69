"""Compare AllPairs with AIM, MST and PrivBayes by rows, epsilon, missing values and attributes.

The tables are Adult and BR2000, with numerics in 10 declared bins. "wide" stands for Adult side by
side with itself as `bench/wide.py` builds it. Tables of other sizes than the file are drawn from it
with replacement. Distances are nevertheless to the complete truth of the original rows. If values
of the truth are missing, distances are to the observed cells.

The figures are the mean total variation over all 2-way and 1-way marginals, the worst 2-way
marginal, and the mean over all 3-way marginals. Wide tables have 2-way marginals only, over a
sample of pairs. The costs are CPU seconds of fit plus sample with the secure noise source, and the
peak memory of a separate process, the table included. Lines that start with "!!" report cases in
which AllPairs is worse than AIM or MST, or failed.

    python bench/all_pairs.py --cases main missing          # 3 runs of each
    python bench/all_pairs.py --cases adult:mcar_0.2:30162:1 --family all-pairs aim --seeds 1
    python bench/all_pairs.py --cases wide --seeds 1 --out results.txt

Groups of cases: main, missing, bootstrap, br2000, wide, ten-million, files, small, tight. A single
case is dataset:file:rows:epsilon, where the data set may be "wide-30" (attributes).
"""

import argparse
import itertools
import json
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from _data import SHARED, table
from wide import distance, wide_codes, wide_schema

from missdp import AllPairs, PrivBayes, Table
from missdp.evaluate import marginal_distance
from missdp.synth import AIM, MST

FAMILIES = {
    "all-pairs": (AllPairs, {}),
    "aim": (AIM, {}),
    "mst": (MST, {}),
    "privbayes": (PrivBayes, {}),
}
ROWS = {"adult": 30_162, "br2000": 38_000}
MISSING_FILES = ("mcar_0.2", "mar_0.35", "mnar_0.2")
MAX_ROWS = 300_000  # synthetic rows drawn


def every_file():
    """Yield all incomplete files, except those of the group "missing" at epsilon 1."""
    for dataset in ROWS:
        for path in sorted((SHARED / dataset).glob("*.parquet")):
            for epsilon in (1, 3):
                if path.stem != "truth" and (path.stem not in MISSING_FILES or epsilon == 3):
                    yield dataset, path.stem, 0, epsilon


def groups():
    """Cases by the name of their group: data set, file, rows (0: all of the file), epsilon."""
    both = list(ROWS)
    return {
        "main": [("adult", "truth", 0, e) for e in (1, 3, 10)],
        "missing": [("adult", file, 0, 1) for file in MISSING_FILES],
        "bootstrap": [(d, "truth", 300_000, 1) for d in both],
        "br2000": [("br2000", "truth", 0, e) for e in (1, 3, 10)]
        + [("br2000", file, 0, 1) for file in MISSING_FILES],
        "wide": [(f"wide-{k}", "truth", 30_162, 1) for k in (15, 30, 50, 100)],
        "ten-million": [("adult", "truth", 10_000_000, 1)],
        "files": list(every_file()),
        "small": [(d, "truth", n, 1) for d in both for n in (500, 5_000)],
        "tight": [(d, "truth", 0, 0.1) for d in both],
    }


def cases(requested):
    """Cases of groups by name, or written out."""
    by_name = groups()
    for name in requested:
        if name in by_name:
            yield from by_name[name]
        else:
            dataset, file, rows, epsilon = name.split(":")
            yield dataset, file, int(rows), float(epsilon)


def truth_of(dataset, file):
    """The complete rows, or the rows of the raw file with their missing values."""
    return table(dataset, "raw") if file == "raw" else table(dataset, "truth", nullable=False)


def private_table(dataset, file, rows, seed):
    """The rows to fit: the rows of the file, or the requested number drawn from them."""
    if dataset.startswith("wide-"):
        attributes = int(dataset.removeprefix("wide-"))
        declared = wide_schema(attributes, nullable=False)
        codes = wide_codes(attributes, rows, seed=seed)
        return Table.from_codes(declared, dict(zip(declared.names, codes, strict=True)))
    private = table(dataset, file, nullable=file != "truth")
    if rows in (0, len(private)):
        return private
    drawn = np.random.default_rng(seed).integers(0, len(private), rows)
    names = private.schema.names
    codes = {name: private.codes(name).astype(np.uint8)[drawn] for name in names}
    return Table.from_codes(private.schema, codes)


def errors(case, private, synthetic, seed):
    """Distances of the synthetic rows to the truth."""
    dataset, file, _, _ = case
    if dataset.startswith("wide-"):
        names = private.schema.names
        codes = [[np.asarray(t.codes(n)) for n in names] for t in (private, synthetic)]
        two = distance(*codes, [a.size for a in private.schema], seed=seed)
        return {"two": two, "one": math.nan, "worst": math.nan, "three": math.nan}
    truth = truth_of(dataset, file)
    one, two, three = (marginal_distance(truth, synthetic, k=k) for k in (1, 2, 3))
    return {"two": two.mean, "one": one.mean, "worst": two.max, "three": three.mean}


def once(options):
    """Fit one model in this process, and print its figures."""
    dataset, file, rows, epsilon = case = options["case"]
    private = private_table(dataset, file, rows, options["seed"])
    family, settings = FAMILIES[options["family"]]
    start = time.process_time()
    model = family(epsilon=epsilon, delta=1e-6, **settings).fit(private)
    size = min(MAX_ROWS, max(len(private), ROWS.get(dataset, 0)))
    synthetic = model.sample_table(size)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    distances = errors(case, private, synthetic, options["seed"])
    print(json.dumps(distances | {"seconds": seconds, "peak": peak}))


def in_a_process(limit, **options):
    """Fit in a separate process. Return the figures, or the problem."""
    command = [sys.executable, __file__, "--once", json.dumps(options)]
    with tempfile.TemporaryFile("w+") as errors:
        try:
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                check=False,
                timeout=limit,
            )
        except subprocess.TimeoutExpired:
            return None, f"killed after {limit:g} s"
        errors.seek(0)
        problem = (errors.read().strip().splitlines() or ["failed"])[-1]
    return (
        (json.loads(done.stdout.splitlines()[-1]), "") if done.returncode == 0 else (None, problem)
    )


def line(case, family, runs):
    """One row of the table."""
    dataset, file, rows, epsilon = case
    mean = {key: statistics.fmean(run[key] for run in runs) for key in runs[0]}
    spread = statistics.stdev(run["two"] for run in runs) if len(runs) > 1 else 0.0
    numbers = f"{mean['two']:>8.4f}{spread:>8.4f}{mean['one']:>8.4f}{mean['worst']:>8.4f}"
    return (
        f"{dataset:<9}{file:<9}{rows or ROWS[dataset]:>10,}{epsilon:>5g} {family:<10}{numbers}"
        f"{mean['three']:>8.4f}{mean['seconds']:>8.1f}{max(run['peak'] for run in runs):>8.2f}"
        f"{len(runs):>3}"
    )


HEADER = (
    f"{'data':<9}{'file':<9}{'rows':>10}{'eps':>5} {'family':<10}{'2-way':>8}{'+-':>8}{'1-way':>8}"
    f"{'max 2':>8}{'3-way':>8}{'cpu s':>8}{'GB':>8}{'n':>3}"
)


def behind(case, runs_of):
    """Yield a line for each case in which AllPairs is worse than a family that selects."""
    dataset, file, _, epsilon = case
    for key, other in itertools.product(("two", "one", "worst", "three"), ("aim", "mst")):
        if not {"all-pairs", other} <= runs_of.keys():
            continue
        ours, theirs = (
            statistics.fmean(run[key] for run in runs_of[family]) for family in ("all-pairs", other)
        )
        if ours > 1.01 * theirs:
            yield (
                f"!! {dataset} {file} {case[2]} eps {epsilon:g}: {key} all-pairs {ours:.4f}"
                f" > {other} {theirs:.4f}"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=["main", "missing"])
    parser.add_argument("--family", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--rows", type=int, help="draw this many rows in every case")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each")
    parser.add_argument("--limit", type=float, default=1_800, help="seconds per run")
    parser.add_argument("--out", help="also append every line to this file")
    parser.add_argument("--once", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        once(options.once)
        return
    if not SHARED.exists():
        raise SystemExit(f"needs the data folder {SHARED}")

    def say(text):
        print(text, flush=True)
        if options.out:
            with Path(options.out).open("a", encoding="utf-8") as stream:
                stream.write(text + "\n")

    say(HEADER)
    for dataset, file, rows, epsilon in cases(options.cases):
        case, runs_of = (dataset, file, options.rows or rows, epsilon), {}
        for family in options.family:
            runs = []
            for seed in range(options.seeds):
                run, problem = in_a_process(options.limit, case=case, family=family, seed=seed)
                if run is None:
                    say(f"!! {case} {family}: {problem}")
                    break
                runs.append(run)
            if runs:
                runs_of[family] = runs
                say(line(case, family, runs))
        for text in behind(case, runs_of):
            say(text)


if __name__ == "__main__":
    main()
