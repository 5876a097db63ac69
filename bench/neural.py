"""Adversarial families beside their own start, independent margins and families of marginals.

Mean total variation to the complete truth over all 1-way and 2-way marginals, CPU seconds of fit
plus sample with the secure noise source, and peak memory. "start" are rows drawn independently from
the margins that the same fit released first; "independent" are drawn so from the true margins.

    python bench/neural.py --file mcar_0.2 --epsilon 1 --seeds 3
    python bench/neural.py --dataset br2000 --families DPMisGAN DPCTGAN
    python bench/neural.py --gradients     # gradients of single rows, by method
    python bench/neural.py --peer /tmp/smartnoise/bin/python   # smartnoise-synth's DPCTGAN
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from _data import SHARED, table

from missdp import AIM, AllPairs, Kamino, PrivBayes, Table
from missdp.baselines import DPCTGAN, DPAutoGAN, DPMisGAN
from missdp.evaluate import marginal_distance
from missdp.synth.all_pairs import PairsSynthesizer

FAMILIES = {
    "DPMisGAN": (DPMisGAN, {}),
    "DPMisGAN, mlp": (DPMisGAN, {"critic": "mlp"}),
    "DPAutoGAN": (DPAutoGAN, {}),
    "DPCTGAN": (DPCTGAN, {}),
    "Kamino": (Kamino, {}),
    "PrivBayes": (PrivBayes, {}),
    "AIM": (AIM, {}),
    "AllPairs": (AllPairs, {}),
}
NEURAL = [name for name in FAMILIES if name.startswith("DP")]


def distances(truth, synthetic):
    return {f"{k}-way": marginal_distance(truth, synthetic, k=k).mean for k in (1, 2)}


def independent(margins, facts, rows, seed):
    """Rows whose attributes are drawn by themselves, as evenly as rows can be."""
    rng = np.random.default_rng(seed)
    codes = {}
    for name, margin in zip(facts.names, margins, strict=True):
        upto = np.cumsum(margin / margin.sum())
        at = (rng.permutation(rows) + rng.random()) / rows
        codes[name] = np.minimum(np.searchsorted(upto, at, side="right"), len(margin) - 1)
    return Table.from_codes(facts, codes)


class Started:
    """Keeps the crude margins that a fit releases first."""

    def __init__(self):
        self.crude = None
        self._own = PairsSynthesizer._crude

    def __enter__(self):
        def kept(model, *args):
            self.crude = self._own(model, *args)
            return self.crude

        PairsSynthesizer._crude = kept
        return self

    def __exit__(self, *error):
        PairsSynthesizer._crude = self._own

    def margins(self):
        """Shares of all levels, those of merged ones put back."""
        found = []
        for margin, level in zip(self.crude.margins, self.crude.levels, strict=True):
            found.append(margin[: level.n_groups][level.groups] * level.shares)
        return found


def once(options, epsilon, family, seed):
    """Fit and draw one table; return what is measured."""
    import torch

    torch.set_num_threads(options.threads)
    private, truth = (table(options.dataset, f) for f in (options.file, "truth"))
    made, settings = FAMILIES[family]
    with Started() as started:
        begin = time.process_time()
        model = made(epsilon=epsilon, delta=1e-6, **settings).fit(private)
        synthetic = model.sample_table(len(private), random_state=seed)
        seconds = time.process_time() - begin
    found = distances(truth, synthetic)
    if family in NEURAL:
        start = independent(started.margins(), private.schema, len(private), seed)
        found |= {f"start {k}": v for k, v in distances(truth, start).items()}
    found["seconds"] = seconds
    found["GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return found


def _in_process(options, epsilon, family, seed, pipe):
    pipe.send(once(options, epsilon, family, seed))


def alone(options, epsilon, family, seed):
    """Do it in a process of its own, whose peak memory is that of one fit."""
    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(
        target=_in_process, args=(options, epsilon, family, seed, there)
    )
    process.start()
    found = here.recv()
    process.join()
    return found


def table_of(options):
    """Print a line for each epsilon and family."""
    truth = table(options.dataset, "truth")
    margins = [np.bincount(truth.codes(a.name), minlength=a.size)[: a.size] for a in truth.schema]
    show("independent", 0, [distances(truth, independent(margins, truth.schema, len(truth), 0))])
    for epsilon in options.epsilon:
        for family in options.families:
            runs = [alone(options, epsilon, family, seed) for seed in range(options.seeds)]
            show(family, epsilon, runs)
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
    """Fit smartnoise-synth's DPCTGAN, in its own environment, on codes; complete rows only."""
    private, truth = (table(options.dataset, f) for f in (options.file, "truth"))
    whole = private.take(np.flatnonzero(~private.incomplete_rows()))
    import pandas as pd

    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "given.csv", Path(folder) / "made.csv"
        pd.DataFrame({n: whole.codes(n) for n in whole.schema.names}).to_csv(given, index=False)
        done = subprocess.run(
            [options.peer, "-c", PEER, given, made, str(epsilon)],
            check=True,
            capture_output=True,
            text=True,
        )
        drawn = pd.read_csv(made)
    synthetic = Table.from_codes(truth.schema, {n: drawn[n].to_numpy() for n in drawn})
    return distances(truth, synthetic) | {"seconds": float(done.stdout.split()[-1])}


# Gradients of single rows


def by_hand_in_torch(torch, columns, starts, holed, p):
    """As `two_critics_gradient`, in torch."""
    rows = len(columns[0])

    def slope_of(fed):
        return 0.2 + 0.8 * (fed > 0).double()

    def upper(out, slope, w2, b2, w3, b3):
        fed = out @ w2 + b2
        end = -torch.sigmoid(-(torch.nn.functional.leaky_relu(fed, 0.2) @ w3 + b3))
        below = end[:, None] * w3 * slope_of(fed)
        hidden = torch.nn.functional.leaky_relu(fed, 0.2)
        parts = (out[:, :, None] * below[:, None], below, end[:, None] * hidden, end[:, None])
        return parts, (below @ w2.T) * slope

    fed = p[1].expand(rows, -1).clone()
    for a, column in enumerate(columns):
        block = torch.cat([p[0][starts[a] : starts[a + 1]], torch.zeros_like(p[0][:1])])
        fed += block[column]
    leaky, bent = torch.nn.functional.leaky_relu, slope_of(fed)
    parts, back = upper(leaky(fed, 0.2), bent, *p[2:6])
    first = torch.zeros(rows, *p[0].shape, dtype=torch.float64)
    for a, column in enumerate(columns):
        seen = torch.nonzero(column < starts[a + 1] - starts[a]).ravel()
        first[seen, starts[a] + column[seen]] = back[seen]
    ends = starts[holed + 1] - starts[holed]
    mask = (torch.cat([columns[a][:, None] for a in holed], 1) < torch.tensor(ends)).double()
    fed = mask @ p[6] + p[7]
    masks, behind = upper(leaky(fed, 0.2), slope_of(fed), *p[8:])
    return (first, back, *parts, mask[:, :, None] * behind[:, None], behind, *masks)


def by_transforms(torch, columns, starts, holed, p):
    """By `torch.func`: vmap of grad."""
    width = int(starts[-1])
    rows = len(columns[0])
    shown = torch.zeros(rows, width, dtype=torch.float64)
    for a, column in enumerate(columns):
        seen = torch.nonzero(column < starts[a + 1] - starts[a]).ravel()
        shown[seen, starts[a] + column[seen]] = 1.0
    ends = starts[holed + 1] - starts[holed]
    mask = (torch.cat([columns[a][:, None] for a in holed], 1) < torch.tensor(ends)).double()
    leaky = torch.nn.functional.leaky_relu

    def loss(q, x, m):
        first = leaky(leaky(x @ q[0] + q[1], 0.2) @ q[2] + q[3], 0.2) @ q[4] + q[5]
        second = leaky(leaky(m @ q[6] + q[7], 0.2) @ q[8] + q[9], 0.2) @ q[10] + q[11]
        plus = torch.nn.functional.softplus
        return (plus(-first) + plus(-second)).sum()

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    return each(tuple(p), shown, mask)


def gradients(rows=512):
    """Print milliseconds of the gradients of so many rows of Adult to both critics."""
    import torch

    from missdp.baselines.critics import two_critics_gradient
    from missdp.baselines.networks import random_critic

    rng = np.random.default_rng(0)
    facts = table("adult", "mcar_0.2").schema
    starts = np.cumsum([0, *(a.size for a in facts)])
    codes = {a.name: rng.integers(0, a.size + 1, rows) for a in facts}
    holed = np.arange(len(starts) - 1)
    weights = [*random_critic(int(starts[-1]), 32, rng), *random_critic(len(holed), 16, rng)]
    columns = [torch.tensor(c) for c in codes.values()]
    tensors = [torch.tensor(w) for w in weights]
    methods = {
        "by hand, NumPy": lambda: two_critics_gradient(codes, starts, holed, *weights),
        "by hand, torch": lambda: by_hand_in_torch(torch, columns, starts, holed, tensors),
        "vmap(grad)": lambda: by_transforms(torch, columns, starts, holed, tensors),
    }
    wanted = methods["by hand, NumPy"]()
    for name, method in methods.items():
        found = method()
        assert all(
            np.allclose(a, np.asarray(b), atol=1e-12) for a, b in zip(wanted, found, strict=True)
        )
        seconds = []
        for _ in range(20):
            begin = time.process_time()
            method()
            seconds.append(time.process_time() - begin)
        print(f"{name:<16} {1000 * statistics.median(seconds):6.1f} ms for {rows} rows")
    print(
        f"{sum(w.size for w in weights):,} parameters, torch {torch.__version__}", file=sys.stderr
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="adult", choices=["adult", "br2000"])
    parser.add_argument("--file", default="mcar_0.2")
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0])
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peer", help="a Python with smartnoise-synth")
    parser.add_argument("--gradients", action="store_true")
    options = parser.parse_args()
    if not SHARED.exists():
        raise SystemExit(f"needs the data folder {SHARED}")
    if options.gradients:
        gradients()
    else:
        table_of(options)


if __name__ == "__main__":
    main()
