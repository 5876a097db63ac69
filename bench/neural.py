"""Adversarial families compared with their start, independent marginals, and other families.

The figures are the mean total variation to the complete truth over all 1-way and 2-way marginals,
and the mean F1 of two classifiers over all attributes (--f1). The costs are CPU seconds of fit plus
sample with the secure noise source, and peak memory. Lines "start" are rows drawn independently
from the marginals that the fit released first. Lines "independent" are drawn from the true
marginals. Lines "before" are recorded figures of an earlier version, whose networks were trained by
the library's gradients (Adult, MCAR 20 %).

    python bench/neural.py --file mcar_0.2 --epsilon 1 --seeds 10 --f1
    python bench/neural.py --dataset br2000 --families DPMisGAN DPCTGAN
    python bench/neural.py --peer /tmp/smartnoise/bin/python   # smartnoise-synth's DPCTGAN
"""

import argparse
import resource
import statistics
import subprocess
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from _data import SHARED, table

from missdp import AIM, AllPairs, Kamino, PrivBayes, Table
from missdp.baselines import DPCTGAN, DPAutoGAN, DPMisGAN, adversarial
from missdp.evaluate import classifier_f1, marginal_distance

FAMILIES = {
    "DPMisGAN": (DPMisGAN, {}),
    "DPAutoGAN": (DPAutoGAN, {}),
    "DPCTGAN": (DPCTGAN, {}),
    "Kamino": (Kamino, {}),
    "PrivBayes": (PrivBayes, {}),
    "AIM": (AIM, {}),
    "AllPairs": (AllPairs, {}),
}
NEURAL = [name for name in FAMILIES if name.startswith("DP")]
# Two-way distance, one-way distance and CPU seconds at epsilon 1, seeds 0 to 2, commit 18e8ca6e.
BEFORE = {
    "DPMisGAN": (0.0559, 0.0088, 50),
    "DPAutoGAN": (0.0521, 0.0097, 72),
    "DPCTGAN": (0.0649, 0.0096, 73),
}
LEARNERS = ("LogisticRegression", "RandomForest")


def distances(truth, synthetic):
    return {f"{k}-way": marginal_distance(truth, synthetic, k=k).mean for k in (1, 2)}


def independent(margins, facts, rows, seed):
    """Rows whose attributes are drawn independently, as evenly as rows can be."""
    rng = np.random.default_rng(seed)
    codes = {}
    for name, margin in zip(facts.names, margins, strict=True):
        upto = np.cumsum(margin / margin.sum())
        at = (rng.permutation(rows) + rng.random()) / rows
        codes[name] = np.minimum(np.searchsorted(upto, at, side="right"), len(margin) - 1)
    return Table.from_codes(facts, codes)


class Started:
    """Records the one-way marginals that a fit releases first."""

    def __init__(self):
        self.one_way = None
        self._release = adversarial.release_one_way

    def __enter__(self):
        def recorded(*args):
            result = self._release(*args)
            self.one_way = result[0]
            return result

        adversarial.release_one_way = recorded
        return self

    def __exit__(self, *error):
        adversarial.release_one_way = self._release

    def margins(self):
        """Shares of all levels, including merged levels."""
        shares = []
        for margin, level in zip(self.one_way.one_way, self.one_way.levels, strict=True):
            shares.append(margin[: level.n_groups][level.groups] * level.shares)
        return shares


def once(options, epsilon, family, seed):
    """Fit and draw one table. Return the figures."""
    import torch

    torch.set_num_threads(options.threads)
    private, truth = (table(options.dataset, f) for f in (options.file, "truth"))
    made, settings = FAMILIES[family]
    with Started() as started:
        begin = time.process_time()
        model = made(epsilon=epsilon, delta=1e-6, **settings).fit(private)
        synthetic = model.sample_table(len(private), random_state=seed)
        seconds = time.process_time() - begin
    figures = distances(truth, synthetic)
    if family in NEURAL:
        start = independent(started.margins(), private.schema, len(private), seed)
        figures |= {f"start {k}": v for k, v in distances(truth, start).items()}
    if options.f1:
        figures["F1"] = classifier_f1(truth, synthetic, learners=LEARNERS, random_state=seed).mean
    figures["seconds"] = seconds
    figures["GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return figures


def _in_process(options, epsilon, family, seed, pipe):
    pipe.send(once(options, epsilon, family, seed))


def fit_separately(options, epsilon, family, seed):
    """Fit in a separate process, so that its peak memory belongs to one fit."""
    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(
        target=_in_process, args=(options, epsilon, family, seed, there)
    )
    process.start()
    figures = here.recv()
    process.join()
    return figures


def table_of(options):
    """Print a line for each epsilon and family."""
    truth = table(options.dataset, "truth")
    margins = [np.bincount(truth.codes(a.name), minlength=a.size)[: a.size] for a in truth.schema]
    show("independent", 0, [distances(truth, independent(margins, truth.schema, len(truth), 0))])
    for epsilon in options.epsilon:
        for family in options.families:
            runs = [fit_separately(options, epsilon, family, seed) for seed in range(options.seeds)]
            show(family, epsilon, runs)
            if (options.dataset, options.file, epsilon) == ("adult", "mcar_0.2", 1):
                before = BEFORE.get(family)
                if before is not None:
                    two, one, seconds = before
                    show("  before", 1, [{"1-way": one, "2-way": two, "seconds": seconds}])
        if options.peer:
            show("smartnoise-synth", epsilon, [peer(options, epsilon)])


def show(name, epsilon, runs):
    cells = "  ".join(f"{key} {statistics.mean(r[key] for r in runs):.4f}" for key in runs[0])
    print(f"{name:<20} {epsilon:<4g} {cells}", flush=True)


PEER = """
import sys, time, pandas as pd
from snsynth import Synthesizer
path, out, epsilon = sys.argv[1:]
rows = pd.read_csv(path, dtype=str)
start = time.process_time()
made = Synthesizer.create("dpctgan", epsilon=float(epsilon), verbose=False)
made.fit(rows, categorical_columns=list(rows.columns), preprocessor_eps=0.0)
made.sample(len(rows)).to_csv(out, index=False)
print(time.process_time() - start)
"""


def peer(options, epsilon):
    """Fit smartnoise-synth's DPCTGAN in its environment, on codes of the complete rows."""
    private, truth = (table(options.dataset, f) for f in (options.file, "truth"))
    complete = private.take(np.flatnonzero(~private.incomplete_rows()))
    import pandas as pd

    with tempfile.TemporaryDirectory() as folder:
        coded, made = Path(folder) / "given.csv", Path(folder) / "made.csv"
        pd.DataFrame({n: complete.codes(n) for n in complete.schema.names}).to_csv(
            coded, index=False
        )
        done = subprocess.run(
            [options.peer, "-c", PEER, coded, made, str(epsilon)],
            check=True,
            capture_output=True,
            text=True,
        )
        drawn = pd.read_csv(made)
    synthetic = Table.from_codes(truth.schema, {n: drawn[n].to_numpy() for n in drawn})
    return distances(truth, synthetic) | {"seconds": float(done.stdout.split()[-1])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="adult", choices=["adult", "br2000"])
    parser.add_argument("--file", default="mcar_0.2")
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0])
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--f1", action="store_true", help="needs missdp[learners]")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peer", help="a Python with smartnoise-synth")
    options = parser.parse_args()
    if not SHARED.exists():
        raise SystemExit(f"needs the data folder {SHARED}")
    table_of(options)


if __name__ == "__main__":
    main()
