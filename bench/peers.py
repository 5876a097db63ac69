"""Other maintained libraries on the same incomplete table: mean 1- and 2-way distance to the truth.

Each peer runs in a process and a virtual environment of its own, with a time limit, on the same
discretised codes (numerics in 10 declared bins), missing as one more level, which is the best way
it accepts holes. Distances are over the cells that are not missing in the synthetic rows.

    python -m venv /tmp/dpmm && /tmp/dpmm/bin/pip install dpmm
    python -m venv /tmp/smartnoise && /tmp/smartnoise/bin/pip install torch==2.13.0 smartnoise-synth
    python bench/peers.py --dpmm /tmp/dpmm/bin/python --smartnoise /tmp/smartnoise/bin/python

Peers: dpmm (MST, AIM, PrivBayes), smartnoise-synth (MST, AIM). Ours: PrivBayes, MST, AIM.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from _data import SHARED, table

import missdp
from missdp import Table
from missdp.evaluate import marginal_distance

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


def peers(options):
    """Name, interpreter and script of every peer asked for."""
    if options.dpmm:
        models = (("mst", "MSTGM"), ("aim", "AIMGM"), ("priv_bayes", "PrivBayesGM"))
        for module, model in models:
            yield f"dpmm {module}", options.dpmm, DPMM, {"module": module, "model": model}
    if options.smartnoise:
        for model in ("mst", "aim"):
            yield f"smartnoise {model}", options.smartnoise, SMARTNOISE, {"model": model}


def run_peer(python, script, files, limit):
    """Run a peer; return its synthetic codes, seconds and what went wrong."""
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [python, "-c", script, *map(str, files)],
            timeout=limit,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, time.perf_counter() - start, f"killed after {limit} s"
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        return None, seconds, (done.stderr.strip().splitlines() or ["failed"])[-1][:60]
    return pd.read_csv(files[2]), seconds, ""


def ours(name, private, options, seed):
    """Run one of our families with its default strategy."""
    start = time.perf_counter()
    model = getattr(missdp, name)(epsilon=options.epsilon, delta=options.delta, random_state=seed)
    synthetic = model.fit(private).sample_table(len(private))
    return synthetic, time.perf_counter() - start


def report(file, name, seconds, truth, synthetic, problem=""):
    """Print one row."""
    if synthetic is None:
        print(f"{file:<10}{name:<20}{'':>16}{seconds:>8.0f}  {problem}", flush=True)
        return
    one, two = (marginal_distance(truth, synthetic, k=k).mean for k in (1, 2))
    print(f"{file:<10}{name:<20}{one:>8.4f}{two:>8.4f}{seconds:>8.0f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="adult", choices=["adult", "br2000"])
    parser.add_argument("--files", nargs="+", default=["mcar_0.2", "mar_0.35", "mnar_0.2"])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--limit", type=float, default=600, help="seconds per peer run")
    parser.add_argument("--dpmm", help="interpreter of an environment with dpmm")
    parser.add_argument("--smartnoise", help="interpreter of one with smartnoise-synth")
    options = parser.parse_args()
    if not SHARED.exists():
        raise SystemExit(f"needs the data folder {SHARED}")
    truth = table(options.dataset, "truth")
    print(
        f"{options.dataset}, epsilon={options.epsilon:g}, delta={options.delta:g}, {sys.platform}"
    )
    print(f"{'file':<10}{'method':<20}{'1-way':>8}{'2-way':>8}{'s':>8}")
    for file in options.files:
        private = table(options.dataset, file)
        names = private.schema.names
        for seed in range(options.seeds):
            for name in ("AIM", "MST", "PrivBayes"):
                synthetic, seconds = ours(name, private, options, seed)
                report(file, f"missdp {name}", seconds, truth, synthetic)
            with tempfile.TemporaryDirectory() as folder:
                files = [Path(folder) / f"{part}.csv" for part in ("in", "sizes", "out")]
                frame = pd.DataFrame({n: private.codes(n).astype(np.int64) for n in names})
                frame.to_csv(files[0], index=False)
                sizes = {n: [private.schema[n].extended_size] for n in names}
                pd.DataFrame(sizes).to_csv(files[1], index=False)
                for name, python, script, facts in peers(options):
                    filled = script.format(
                        epsilon=options.epsilon, delta=options.delta, seed=seed, **facts
                    )
                    out, seconds, problem = run_peer(python, filled, files, options.limit)
                    if out is not None:
                        codes = {n: out[n].to_numpy().astype(np.int64) for n in names}
                        out = Table.from_codes(private.schema, codes)
                    report(file, name, seconds, truth, out, problem)


if __name__ == "__main__":
    main()
