"""AIM (McKenna et al. 2022) on the public inference library `mbi`, in a separate process.

The package `mbi` has the inference but not the mechanism, so this file has the loop of their
Algorithms 1 to 4. It plans 16 rounds per attribute and spends nine tenths of the budget on
measurements. It anneals, and its junction tree has at most ``--model-size`` megabytes.  AIM does
not model missing values: they are one more level.  For comparison only: NumPy noise, no accountant.

    python bench/mbi_aim.py codes.csv sizes.csv out.csv --rho 0.0244 --seed 0
"""

import argparse
import itertools
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ.setdefault("JAX_ENABLE_COMPILATION_CACHE", "0")

import jax
import numpy as np
import pandas as pd
from mbi import Dataset, Domain, LinearMeasurement, estimation, junction_tree

ITERATIONS = 250  # of each warm-started fit, except for the last (1,000)
ROUNDS_PER_CACHE = 4


class Loop:
    """State of one run."""

    def __init__(self, data, rho, model_size, rng):
        self.data, self.rho, self.model_size, self.rng = data, rho, model_size, rng
        self.spent, self.measurements, self.model = 0.0, [], None
        names = data.domain.attributes
        pairs = list(itertools.combinations(names, 2))
        ones = [(a,) for a in names]
        self.weights = {c: sum(len(set(c) & set(p)) for p in pairs) for c in ones + pairs}
        self.answers = {c: data.project(c).datavector() for c in self.weights}

    def measure(self, clique, sigma):
        noisy = self.answers[clique] + self.rng.normal(0, sigma, self.answers[clique].size)
        self.measurements.append(LinearMeasurement(noisy, clique, stddev=sigma))
        self.spent += 0.5 / sigma**2

    def refit(self, iterations=ITERATIONS):
        self.model = estimation.MirrorDescent().estimate(
            self.data.domain, self.measurements, iters=iterations, warm_start=self.model
        )

    def predicted(self, clique):
        return np.asarray(self.model.project(clique).datavector())

    def open(self):
        """Candidates with a small enough junction tree, or inside of measured cliques."""
        limit = self.model_size * min(1.0, self.spent / self.rho)
        held = list(dict.fromkeys(m.clique for m in self.measurements))
        size = junction_tree.hypothetical_model_size
        return [
            c
            for c in self.weights
            if any(set(c) <= set(h) for h in held) or size(self.data.domain, [*held, c]) <= limit
        ]

    def select(self, epsilon, sigma):
        candidates = self.open()
        bias = np.sqrt(2 / np.pi) * sigma
        scores = [
            self.weights[c]
            * (np.abs(self.answers[c] - self.predicted(c)).sum() - bias * self.answers[c].size)
            for c in candidates
        ]
        utility = 0.5 * epsilon * np.array(scores) / max(self.weights[c] for c in candidates)
        self.spent += epsilon**2 / 8
        return candidates[int(np.argmax(utility + self.rng.gumbel(size=len(utility))))]

    def run(self):
        """Measure all single attributes, then the worst marginals until the budget is spent."""
        rounds = 16 * len(self.data.domain)
        sigma = np.sqrt(rounds / (2 * 0.9 * self.rho))
        epsilon = np.sqrt(8 * 0.1 * self.rho / rounds)
        for clique in [c for c in self.weights if len(c) == 1]:
            self.measure(clique, sigma)
        self.refit()
        last, count = False, 0
        while not last:
            count += 1
            if count % ROUNDS_PER_CACHE == 0:
                jax.clear_caches()  # each round compiles, and cached programs exhaust memory maps
            remaining = self.rho - self.spent
            last = remaining < 2 * (0.5 / sigma**2 + epsilon**2 / 8)
            if last:
                sigma, epsilon = np.sqrt(1 / (1.8 * remaining)), np.sqrt(0.8 * remaining)
            clique = self.select(epsilon, sigma)
            before = self.predicted(clique)
            self.measure(clique, sigma)
            self.refit()
            moved = np.abs(self.predicted(clique) - before).sum()
            if moved <= np.sqrt(2 / np.pi) * sigma * before.size:
                sigma, epsilon = sigma / 2, epsilon * 2
        self.refit(iterations=1000)
        return self.model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs=3, metavar="FILE", help="codes, sizes, output")
    parser.add_argument("--rho", type=float, required=True)
    parser.add_argument("--model-size", type=float, default=1.0, help="megabytes")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    frame = pd.read_csv(options.files[0])
    sizes = pd.read_csv(options.files[1]).iloc[0]
    domain = Domain(list(frame.columns), [int(sizes[n]) for n in frame.columns])
    data = Dataset({n: frame[n].to_numpy() for n in frame.columns}, domain)
    np.random.seed(options.seed)  # noqa: NPY002 - mbi draws synthetic rows from the global state
    loop = Loop(data, options.rho, options.model_size, np.random.default_rng(options.seed))
    synthetic = loop.run().synthetic_data(rows=len(frame))
    pd.DataFrame(synthetic.to_dict())[list(frame.columns)].to_csv(options.files[2], index=False)


if __name__ == "__main__":
    main()
