"""Ours and other libraries on the same incomplete table: 1- and 2-way distance, and F1.

30 % of the rows of the complete truth are held out of everything.  Each method gets the other rows
with their holes, as the same discretised codes (numerics in 10 declared bins); peers get missing as
one more level, which is the best way they accept holes, in a process of their own with a time
limit.  Distances are to the complete truth of the fitted rows, over the cells that are not missing
in the synthetic rows; F1 is the mean over targets and learners of the rarer class, on the held-out
rows.  Each seed has its own split; ours draw noise from the secure source.

    python -m venv /tmp/dpmm && /tmp/dpmm/bin/pip install dpmm
    python -m venv /tmp/smartnoise && /tmp/smartnoise/bin/pip install torch==2.13.0 smartnoise-synth
    python bench/compare.py --dpmm /tmp/dpmm/bin/python --smartnoise /tmp/smartnoise/bin/python \
        --mbi python --seeds 3

`--mbi` names an interpreter with mbi and pandas (the extra `reference` installs it).
"""

import argparse
import csv
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from _data import SHARED, table

from missdp import PrivBayes, Table
from missdp.accounting import zcdp_rho
from missdp.evaluate import classifier_f1, marginal_distance
from missdp.synth import AIM, MST

OURS = {
    "AIM": (AIM, "joint"),
    "AIM observed": (AIM, "observed"),
    "AIM complete-rows": (AIM, "complete-rows"),
    "MST": (MST, "joint"),
    "PrivBayes": (PrivBayes, "joint"),
}
DPMM = """
import sys, pandas as pd, numpy as np
from dpmm.models.{module} import {model}
frame = pd.read_csv(sys.argv[1]); sizes = pd.read_csv(sys.argv[2]).iloc[0].to_dict()
model = {model}(epsilon={epsilon}, delta={delta}, domain=sizes, n_jobs=1)
model.set_random_state(np.random.RandomState({seed}))
model.fit(frame)
model.generate(len(frame)).to_csv(sys.argv[3], index=False)
"""
SMARTNOISE = """
import sys, pandas as pd
from snsynth import Synthesizer
frame = pd.read_csv(sys.argv[1]).astype(str)
model = Synthesizer.create("{model}", epsilon={epsilon}, delta={delta})
model.fit(frame, categorical_columns=list(frame.columns), preprocessor_eps=0.0)
model.sample(len(frame)).astype(int).to_csv(sys.argv[3], index=False)
"""
TARGETS = ["income", "sex", "marital-status"]
TEST_SHARE = 0.3


def peers(options, seed):
    """Name and command line of every peer there is an interpreter for."""
    given = {"epsilon": options.epsilon, "delta": options.delta, "seed": seed}
    if options.mbi:
        rho = f"--rho={zcdp_rho(options.epsilon, options.delta)}"
        script = str(Path(__file__).with_name("mbi_aim.py"))
        yield "mbi AIM", [options.mbi, script, rho, f"--seed={seed}"]
    if options.dpmm:
        models = (("mst", "MSTGM"), ("priv_bayes", "PrivBayesGM"), ("aim", "AIMGM"))
        for module, model in models:
            script = DPMM.format(module=module, model=model, **given)
            yield f"dpmm {model.removesuffix('GM')}", [options.dpmm, "-c", script]
    if options.smartnoise:
        for model in ("mst", "aim"):
            script = SMARTNOISE.format(model=model, **given)
            yield f"smartnoise {model.upper()}", [options.smartnoise, "-c", script]


def run_peer(command, private, limit):
    """Run a peer on codes; return its synthetic table, or what went wrong."""
    schema = private.schema
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{part}.csv" for part in ("in", "sizes", "out")]
        frame = pd.DataFrame({n: private.codes(n).astype(np.int64) for n in schema.names})
        frame.to_csv(files[0], index=False)
        sizes = {n: [schema[n].extended_size] for n in schema.names}
        pd.DataFrame(sizes).to_csv(files[1], index=False)
        try:
            done = subprocess.run(
                [*command, *map(str, files)],
                timeout=limit,
                capture_output=True,
                text=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None, f"killed after {limit:g} s"
        if done.returncode != 0:
            return None, (done.stderr.strip().splitlines() or ["failed"])[-1][:60]
        out = pd.read_csv(files[2])
    codes = {n: out[n].to_numpy().astype(np.int64) for n in schema.names}
    return Table.from_codes(schema, codes), ""


def synthetic_tables(private, options, seed):
    """Name, synthetic table (None if it failed), seconds and problem of every method asked for."""
    wanted = options.methods or [*OURS, *(name for name, _ in peers(options, seed))]
    for name in (n for n in OURS if n in wanted):
        family, strategy = OURS[name]
        start = time.perf_counter()
        model = family(epsilon=options.epsilon, delta=options.delta, missing=strategy).fit(private)
        yield name, model.sample_table(len(private)), time.perf_counter() - start, ""
    for name, command in peers(options, seed):
        if name in wanted:
            start = time.perf_counter()
            synthetic, problem = run_peer(command, private, options.limit)
            yield name, synthetic, time.perf_counter() - start, problem


def score(truth, test, synthetic, options, seed):
    """1-way and 2-way distance, and F1 unless it is not asked for."""
    one, two = (marginal_distance(truth, synthetic, k=k).mean for k in (1, 2))
    if options.no_f1:
        return one, two, float("nan")
    given = {"attributes": options.attributes, "learners": options.learners, "test": test}
    f1 = classifier_f1(truth, synthetic, random_state=seed, **given)
    return one, two, f1.mean


def one_split(file, seed, options):
    """Rows of results for one file and one split."""
    truth = table(options.dataset, "truth", nullable=False)
    order = np.random.default_rng(seed).permutation(len(truth))
    size = round(TEST_SHARE * len(truth))
    test, real = truth.take(order[:size]), truth.take(order[size:])
    private = table(options.dataset, file).take(order[size:])
    if not options.no_f1 and file == options.files[0]:  # the truth has no holes: once is enough
        yield "-", "truth", seed, *score(real, test, real, options, seed), 0.0, ""
    for name, synthetic, seconds, problem in synthetic_tables(private, options, seed):
        nothing = (float("nan"),) * 3
        found = nothing if synthetic is None else score(real, test, synthetic, options, seed)
        yield file, name, seed, *found, seconds, problem


def line(file, name, one, two, f1, seconds, problem):
    return f"{file:<10}{name:<20}{one:>8.4f}{two:>8.4f}{f1:>7.3f}{seconds:>8.0f}  {problem}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="adult", choices=["adult", "br2000"])
    parser.add_argument("--files", nargs="+", default=["mcar_0.2", "mar_0.35", "mnar_0.2"])
    parser.add_argument("--methods", nargs="+", help="by default all; e.g. AIM 'mbi AIM'")
    parser.add_argument("--attributes", nargs="+", default=TARGETS, help="targets of F1")
    parser.add_argument("--learners", nargs="+", help="by default all nine")
    parser.add_argument("--no-f1", action="store_true")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--limit", type=float, default=900, help="seconds per peer run")
    parser.add_argument("--dpmm", help="interpreter of an environment with dpmm")
    parser.add_argument("--smartnoise", help="interpreter of one with smartnoise-synth")
    parser.add_argument("--mbi", help="interpreter of one with mbi")
    parser.add_argument("--csv", help="also write every run to this file")
    options = parser.parse_args()
    if not SHARED.exists():
        raise SystemExit(f"needs the data folder {SHARED}")
    rows = []
    print(f"{'file':<10}{'method':<20}{'1-way':>8}{'2-way':>8}{'F1':>7}{'s':>8}")
    for file in options.files:
        for seed in range(options.seeds):
            for row in one_split(file, seed, options):
                rows.append(row)
                print(line(file, row[1], *row[3:]), flush=True)
    print("\nmeans over seeds")
    for file, name in dict.fromkeys(row[:2] for row in rows):
        runs = [row[3:7] for row in rows if row[:2] == (file, name)]
        print(line(file, name, *map(statistics.mean, zip(*runs, strict=True)), f"{len(runs)} runs"))
    if options.csv:
        with open(options.csv, "w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(["file", "method", "seed", "one_way", "two_way", "f1", "s", "problem"])
            writer.writerows(rows)


if __name__ == "__main__":
    main()
