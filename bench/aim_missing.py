"""A family on incomplete tables: every strategy, mechanism and rate, side by side.

Numerics in 10 declared bins.  Mean total variation to the complete truth over all 1- and 2-way
marginals of the synthetic rows, mean and standard deviation over runs with the secure noise
source.  CPU seconds of fit plus sample in one process, and its peak memory.

    python bench/aim_missing.py --files truth mcar_0.2 mar_0.35 mnar_0.2 --strategies joint observed
    python bench/aim_missing.py --dataset br2000 --family mst --epsilon 3 --csv out.csv
    python bench/aim_missing.py --files truth --rows 0.9 --seeds 12  # the cost of fewer rows

docs/referees/measured.md has the results, and README.md has a part of them.
"""

import argparse
import csv
import resource
import statistics
import time

import numpy as np
from _data import SHARED, table

from missdp.baselines import PrivBayes
from missdp.evaluate import marginal_distance
from missdp.synth import AIM, MST, AllPairs

FAMILIES = {"aim": AIM, "mst": MST, "all-pairs": AllPairs, "privbayes": PrivBayes}
FILES = ["truth", "mcar_0.2", "mar_0.35", "mnar_0.2"]


def one_run(family, private, truth, *, share=1.0, **options):
    if share < 1:
        order = np.random.default_rng().permutation(len(private))
        private = private.take(order[: round(share * len(private))])
    start = time.process_time()
    model = FAMILIES[family](**options).fit(private)
    synthetic = model.sample_table(len(truth))
    seconds = time.process_time() - start
    one, two = (marginal_distance(truth, synthetic, k=k).mean for k in (1, 2))
    return one, two, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="adult", choices=["adult", "br2000"])
    parser.add_argument("--family", default="aim", choices=sorted(FAMILIES))
    parser.add_argument("--files", nargs="+", default=FILES, help="e.g. truth mcar_0.2 mar_0.35")
    parser.add_argument("--strategies", nargs="+", default=["joint", "observed", "complete-rows"])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0])
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--seeds", type=int, default=3, help="runs of each")
    parser.add_argument("--rows", type=float, default=1.0, help="fit to this share of the rows")
    parser.add_argument("--csv", help="also write every run to this file")
    options = parser.parse_args()
    if not SHARED.exists():
        raise SystemExit(f"needs the data folder {SHARED}")
    truth = table(options.dataset, "truth", nullable=False)
    rows = []
    print(f"{'file':<10}{'strategy':<15}{'eps':>5}{'1-way':>9}{'2-way':>9}{'+-':>8}{'cpu s':>8}")
    for file in options.files:
        private = table(options.dataset, file)
        for epsilon in options.epsilon:
            for strategy in ["joint"] if file == "truth" else options.strategies:
                runs = [
                    one_run(
                        options.family,
                        private,
                        truth,
                        share=options.rows,
                        epsilon=epsilon,
                        delta=options.delta,
                        missing=strategy,
                    )
                    for _ in range(options.seeds)
                ]
                one, two, seconds = (list(column) for column in zip(*runs, strict=True))
                spread = statistics.stdev(two) if len(two) > 1 else 0.0
                print(
                    f"{file:<10}{strategy:<15}{epsilon:>5g}{statistics.mean(one):>9.4f}"
                    f"{statistics.mean(two):>9.4f}{spread:>8.4f}{statistics.median(seconds):>8.1f}",
                    flush=True,
                )
                named = [options.dataset, options.family, file, strategy, epsilon]
                rows += [[*named, *run] for run in runs]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory {peak:.2f} GB")
    if options.csv:
        with open(options.csv, "w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(
                ["dataset", "family", "file", "strategy", "epsilon", "one_way", "two_way", "cpu_s"]
            )
            writer.writerows(rows)


if __name__ == "__main__":
    main()
