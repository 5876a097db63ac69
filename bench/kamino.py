"""Kamino, AIM, MST, PrivBayes and AllPairs: distances and violated constraints, in one table.

The tables are Adult and BR2000 with the denial constraints of their folders. Kamino draws rows
under these constraints. Adult's two constraints hold in the truth (capital gain and loss have a
declared spike at 0). BR2000's three constraints do not hold. A line has these columns:

* mean total variation to the complete truth over all 1-way and 2-way marginals,
* the share of the ordered pairs of rows that violate each constraint,
* F1 of the nine learners (--f1: mean over targets, test rows held out),
* CPU seconds of fit plus sample with the secure noise source,
* peak memory of the process so far.

    python bench/kamino.py --dataset adult --files mcar_0.2 --epsilon 1 --seeds 3
    python bench/kamino.py --dataset br2000 --families Kamino AIM --epsilon 1 3
    python bench/kamino.py --growth        # seconds over rows and attributes
"""

import argparse
import resource
import statistics
import time
from dataclasses import replace

import numpy as np
from _data import SHARED, schema
from nine_learners import NINE

from missdp import AIM, MST, AllPairs, Kamino, PrivBayes, Schema, Table
from missdp.baselines.denial_constraints import count_conflicts, read_constraints
from missdp.evaluate import classifier_f1, marginal_distance

FAMILIES = {
    "Kamino": (Kamino, {}),
    "Kamino, complete": (Kamino, {"missing": "complete-rows"}),
    "AllPairs": (AllPairs, {}),
    "AIM": (AIM, {}),
    "MST": (MST, {}),
    "PrivBayes": (PrivBayes, {}),
}
TARGETS = {"adult": ("income", "sex"), "br2000": ("a1", "a2")}
GROWTH = [(15, 30_162), (15, 120_648), (15, 482_592), (30, 30_162), (45, 30_162)]


def declared(dataset):
    """The schema, and the text of the constraints."""
    attributes = tuple(
        replace(a, spikes=(0,)) if a.name in ("capital-gain", "capital-loss") else a
        for a in schema(dataset)
    )
    text = (SHARED / dataset / "denial_constraints.txt").read_text(encoding="utf-8")
    return Schema(attributes), text


def violations(rows, constraints):
    """Share of the ordered pairs of rows that violate each constraint."""
    pairs = len(rows) * (len(rows) - 1)
    return [
        count_conflicts(constraint, rows).sum() / 2 / pairs
        for constraint in read_constraints(constraints, rows.schema)
    ]


def once(private, truth, test, family, epsilon, dataset, constraints):
    """Fit and draw one table. Return the figures."""
    made, options = FAMILIES[family]
    if made is Kamino:
        options = options | {"constraints": constraints}
    start = time.process_time()
    model = made(epsilon=epsilon, delta=1e-6, **options).fit(private)
    synthetic = model.sample_table(len(private))
    seconds = time.process_time() - start
    figures = {
        "1-way": marginal_distance(truth, synthetic, k=1).mean,
        "2-way": marginal_distance(truth, synthetic, k=2).mean,
        "seconds": seconds,
    }
    for k, share in enumerate(violations(synthetic, constraints)):
        figures[f"c{k + 1}"] = share
    if test is not None:
        figures["F1"] = classifier_f1(
            truth,
            synthetic,
            test=test,
            attributes=TARGETS[dataset],
            random_state=0,
            learners=NINE,
        ).mean
    return figures


def table_of(options):
    """Print a line for each file, epsilon and family."""
    facts, constraints = declared(options.dataset)
    truth = Table.read(SHARED / options.dataset / "truth.parquet", facts)
    real = violations(truth, constraints)
    print("truth: " + "  ".join(f"c{k + 1} {share:.4f}" for k, share in enumerate(real)))
    rows = np.random.default_rng(0).permutation(len(truth))
    held, fitted = rows[: len(rows) // 5], np.sort(rows[len(rows) // 5 :])
    for file in options.files:
        private = Table.read(SHARED / options.dataset / f"{file}.parquet", facts)
        private = private.take(fitted) if options.f1 else private
        test = truth.take(held) if options.f1 else None
        for epsilon in options.epsilon:
            for family in options.families:
                runs = [
                    once(private, truth, test, family, epsilon, options.dataset, constraints)
                    for _ in range(options.seeds)
                ]
                cells = "  ".join(
                    f"{name} {statistics.mean(run[name] for run in runs):.4f}" for name in runs[0]
                )
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
                print(f"{file:<9} {epsilon:<4g} {family:<18} {cells}  peak {peak:.1f}", flush=True)


def growth(options):
    """Print seconds by rows and attributes: Adult side by side with itself, drawn again."""
    from wide import wide_codes, wide_schema

    print("attributes     rows   " + "   ".join(f"{name:>12}" for name in options.families))
    for attributes, rows in GROWTH:
        columns = wide_schema(attributes, nullable=False)
        codes = wide_codes(attributes, rows, seed=0)
        private = Table.from_codes(columns, dict(zip(columns.names, codes, strict=True)))
        cells = []
        for family in options.families:
            made, settings = FAMILIES[family]
            start = time.process_time()
            made(epsilon=1.0, delta=1e-6, **settings).fit(private).sample_table(rows)
            cells.append(f"{time.process_time() - start:>12.1f}")
        print(f"{attributes:>10} {rows:>8}   " + "   ".join(cells), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="adult", choices=list(TARGETS))
    parser.add_argument("--files", nargs="+", default=["mcar_0.2"])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0])
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--f1", action="store_true")
    parser.add_argument("--growth", action="store_true")
    options = parser.parse_args()
    if not SHARED.exists():
        raise SystemExit(f"needs the data folder {SHARED}")
    (growth if options.growth else table_of)(options)


if __name__ == "__main__":
    main()
