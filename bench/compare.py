"""Ours and other libraries on the same incomplete table: 1- and 2-way distance, and F1.

30 % of the rows of the complete truth are held out of everything (nothing with `--no-f1`).  Each
method gets the other rows with their holes, as the same discretised codes (numerics in 10 declared
bins), in a process of its own with a time limit; peers get missing as one more level, which is the
best way they accept holes.  Distances are to the complete truth of the fitted rows, over the cells
that are not missing in the synthetic rows; F1 is the mean over targets and learners of the rarer
class, on the held-out rows.  CPU seconds and peak memory are those of the whole process: imports,
reading and writing of the codes included.  Each seed has its own split; ours draw noise from the
secure source.

    python -m venv /tmp/dpmm && /tmp/dpmm/bin/pip install dpmm
    python -m venv /tmp/smartnoise && /tmp/smartnoise/bin/pip install torch==2.13.0 smartnoise-synth
    python bench/compare.py --dpmm /tmp/dpmm/bin/python --smartnoise /tmp/smartnoise/bin/python \
        --mbi python --seeds 3
    python bench/compare.py --no-f1 --files truth mcar_0.2 --dpsynth /tmp/dpsynth/bin/python ...

`--mbi` names an interpreter with mbi and pandas (the extra `reference` installs it). `--mechanisms`
names the folder of that name in a copy of mbi's repository; its MST needs matplotlib and the mbi
of the same copy (`--mbi-mst` names an interpreter). `--dpsynth` names one with google/dpsynth,
which is not on PyPI: version 0.3.0 needs Python 3.12, the mbi of its repository, and dp_accounting
of google/differential-privacy.
"""

import argparse
import csv
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from _data import SHARED, schema, table

from missdp import AllPairs, PrivBayes, Table
from missdp.accounting import zcdp_rho
from missdp.evaluate import classifier_f1, marginal_distance
from missdp.synth import AIM, MST

OURS = {
    "AllPairs": (AllPairs, "joint"),
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
DPSYNTH = """
import sys, numpy as np, pandas as pd, dpsynth
from dpsynth import discrete_mechanisms
frame = pd.read_csv(sys.argv[1]); sizes = pd.read_csv(sys.argv[2]).iloc[0].to_dict()
domains = {{n: dpsynth.CategoricalAttribute(list(range(int(sizes[n])))) for n in frame.columns}}
model = dpsynth.TabularSynthesizer(
    domains=domains, discrete_mechanism=discrete_mechanisms.{model}Config()
).calibrate(epsilon={epsilon}, delta={delta})
found = model(np.random.default_rng({seed}), frame).synthetic_data
found[list(frame.columns)].to_csv(sys.argv[3], index=False)
"""
MBI_MST = """
import sys, numpy as np, pandas as pd
sys.path.insert(0, {folder!r})
from mbi import Dataset, Domain
from mst import MST
frame = pd.read_csv(sys.argv[1]); sizes = pd.read_csv(sys.argv[2]).iloc[0]
domain = Domain(list(frame.columns), [int(sizes[n]) for n in frame.columns])
np.random.seed({seed})
data = Dataset({{n: frame[n].to_numpy() for n in frame.columns}}, domain)
found = pd.DataFrame(MST(data, {epsilon}, {delta}).to_dict())
found[list(frame.columns)].to_csv(sys.argv[3], index=False)
"""
TARGETS = ["income", "sex", "marital-status"]
TEST_SHARE = 0.3
COLUMNS = ("file", "method", "seed", "one_way", "two_way", "two_way_max", "three_way", "f1")
COLUMNS += ("cpu_s", "gb")


def peers(options, seed):
    """Name and command line of every peer there is an interpreter for."""
    given = {"epsilon": options.epsilon, "delta": options.delta, "seed": seed}
    if options.mbi:
        rho = f"--rho={zcdp_rho(options.epsilon, options.delta)}"
        script = str(Path(__file__).with_name("mbi_aim.py"))
        yield "mbi AIM", [options.mbi, script, rho, f"--seed={seed}"]
        if options.mechanisms:
            script = MBI_MST.format(folder=options.mechanisms, **given)
            yield "mbi MST", [options.mbi_mst or options.mbi, "-c", script]
    if options.dpsynth:
        for model in ("MST", "AIM", "AIMGDP", "SWIFT"):
            script = DPSYNTH.format(model=model, **given)
            yield f"dpsynth {model}", [options.dpsynth, "-c", script]
    if options.dpmm:
        models = (("mst", "MSTGM"), ("priv_bayes", "PrivBayesGM"), ("aim", "AIMGM"))
        for module, model in models:
            script = DPMM.format(module=module, model=model, **given)
            yield f"dpmm {model.removesuffix('GM')}", [options.dpmm, "-c", script]
    if options.smartnoise:
        for model in ("mst", "aim"):
            script = SMARTNOISE.format(model=model, **given)
            yield f"smartnoise {model.upper()}", [options.smartnoise, "-c", script]


def ours(name, arguments):
    """Fit one of ours to codes in a file, in this process, and write synthetic codes."""
    dataset, nullable, epsilon, delta, *files = arguments
    declared = schema(dataset, nullable=nullable == "True")
    private = Table.from_codes(declared, codes_of(declared, files[0]))
    family, strategy = OURS[name]
    model = family(epsilon=float(epsilon), delta=float(delta), missing=strategy)
    synthetic = model.fit(private).sample_table(len(private))
    pd.DataFrame({n: synthetic.codes(n) for n in declared.names}).to_csv(files[2], index=False)


def codes_of(declared, file):
    """Codes of a table written as CSV."""
    frame = pd.read_csv(file)
    return {n: frame[n].to_numpy().astype(np.int64) for n in declared.names}


def limited(command, limit, errors):
    """Run a command; return its exit status or None if it took too long, CPU seconds and GB."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
    late = []

    def kill(*_):
        late.append(True)
        process.kill()

    before = signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, limit)
    _, status, usage = os.wait4(process.pid, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20
    return None if late else process.returncode, seconds, memory


def run(command, private, limit):
    """Run a method on codes; return its synthetic table, CPU seconds, GB and what went wrong."""
    declared = private.schema
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{part}.csv" for part in ("in", "sizes", "out")]
        frame = pd.DataFrame({n: private.codes(n).astype(np.int64) for n in declared.names})
        frame.to_csv(files[0], index=False)
        sizes = {n: [declared[n].extended_size] for n in declared.names}
        pd.DataFrame(sizes).to_csv(files[1], index=False)
        with (Path(folder) / "errors").open("w+") as errors:
            status, *cost = limited([*command, *map(str, files)], limit, errors)
            errors.seek(0)
            lines = errors.read().strip().splitlines() or ["failed"]
        if status is None:
            return None, *cost, f"killed after {limit:g} s"
        if status != 0:
            return None, *cost, lines[-1][:60]
        return Table.from_codes(declared, codes_of(declared, files[2])), *cost, ""


def synthetic_tables(private, options, seed):
    """Name, synthetic table (None if it failed), CPU seconds, GB, problem of every method."""
    holes = any(attribute.nullable for attribute in private.schema)
    given = [options.dataset, str(holes), str(options.epsilon), str(options.delta)]
    commands = {name: [sys.executable, __file__, "--ours", name, *given] for name in OURS}
    commands |= dict(peers(options, seed))
    for name in options.methods or commands:
        if name in commands:
            yield name, *run(commands[name], private, options.limit)


def score(truth, test, synthetic, options, seed):
    """Distances, the largest 2-way too, and F1 unless it is not asked for."""
    one, two, three = (marginal_distance(truth, synthetic, k=k) for k in (1, 2, 3))
    found = (one.mean, two.mean, two.max, three.mean)
    if options.no_f1:
        return *found, float("nan")
    given = {"attributes": options.attributes, "learners": options.learners, "test": test}
    f1 = classifier_f1(truth, synthetic, random_state=seed, **given)
    return *found, f1.mean


def one_split(file, seed, options):
    """Rows of results for one file and one split."""
    truth = table(options.dataset, "truth", nullable=False)
    order = np.random.default_rng(seed).permutation(len(truth))
    size = 0 if options.no_f1 else round(TEST_SHARE * len(truth))
    test, real = truth.take(order[:size]), truth.take(order[size:])
    private = table(options.dataset, file, nullable=file != "truth").take(order[size:])
    if not options.no_f1 and file == options.files[0]:  # the truth has no holes: once is enough
        yield "-", "truth", seed, *score(real, test, real, options, seed), 0.0, 0.0, ""
    for name, synthetic, seconds, memory, problem in synthetic_tables(private, options, seed):
        nothing = (float("nan"),) * 5
        found = nothing if synthetic is None else score(real, test, synthetic, options, seed)
        yield file, name, seed, *found, seconds, memory, problem


def line(file, name, one, two, worst, three, f1, seconds, memory, problem):
    return (
        f"{file:<10}{name:<20}{one:>8.4f}{two:>8.4f}{worst:>8.4f}{three:>8.4f}{f1:>7.3f}"
        f"{seconds:>8.1f}{memory:>7.2f}  {problem}"
    )


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
    parser.add_argument("--mechanisms", help="folder with mbi's mst.py")
    parser.add_argument("--mbi-mst", help="interpreter for it, if not the one of --mbi")
    parser.add_argument("--dpsynth", help="interpreter of one with google/dpsynth")
    parser.add_argument("--ours", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--csv", help="also write every run to this file")
    options = parser.parse_args()
    if options.ours:
        ours(options.ours[0], options.ours[1:])
        return
    if not SHARED.exists():
        raise SystemExit(f"needs the data folder {SHARED}")
    rows = []
    print(
        f"{'file':<10}{'method':<20}{'1-way':>8}{'2-way':>8}{'max 2':>8}{'3-way':>8}{'F1':>7}"
        f"{'cpu s':>8}{'GB':>7}"
    )
    for file in options.files:
        for seed in range(options.seeds):
            for row in one_split(file, seed, options):
                rows.append(row)
                print(line(file, row[1], *row[3:]), flush=True)
    print("\nmeans over seeds")
    for file, name in dict.fromkeys(row[:2] for row in rows):
        runs = [row[3:10] for row in rows if row[:2] == (file, name)]
        print(line(file, name, *map(statistics.mean, zip(*runs, strict=True)), f"{len(runs)} runs"))
    if options.csv:
        with open(options.csv, "w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow([*COLUMNS, "problem"])
            writer.writerows(rows)


if __name__ == "__main__":
    main()
