"""Dependence of independent columns in synthetic rows: Cramér's V.

Tables of independent columns are fitted at ε = 1, δ = 1e-6, and 200,000 rows are drawn from each
model. The script prints the mean and the largest V over all pairs and seeds, without its bias
(Bergsma 2013), by family, by the unit that counts, and by the number of rows. 300 rows have 10
columns of 5 levels, 1,300 and 4,000 have 12 of 8. "bins" are numbers without declared bins, in
deciles.

Run: python bench/independent_columns.py [--families AllPairs,AIM,MST] [--kinds rows,bins]
         [--seeds 10] [--other-seeds 3] [--results FILE]

``--seeds`` is the number for AllPairs, ``--other-seeds`` the number for AIM and MST. Results are
appended to a file of JSON lines, if a file is named. Results that the file holds are not repeated.
"""

import argparse
import json
import sys
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np

from missdp import AIM, MST, AllPairs

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from synth.independent import KINDS, SIZES, dependence_of, independent_table

FAMILIES = {"AllPairs": AllPairs, "AIM": AIM, "MST": MST}
DRAWN = 200_000


def measured(family: str, kind: str, rows: int, seed: int) -> dict[str, object]:
    """Fit one table and return the V of its pairs: the mean, the largest and its pair."""
    frame, schema = independent_table(kind, rows, seed)
    start = time.process_time()
    model = FAMILIES[family](epsilon=1.0, delta=1e-6, random_state=seed).fit(frame, schema=schema)
    seconds = time.process_time() - start
    dependence = dependence_of(model.sample(DRAWN, random_state=seed))
    pair = max(dependence, key=dependence.__getitem__)
    return {
        "family": family,
        "kind": kind,
        "rows": rows,
        "seed": seed,
        "mean": float(np.mean(list(dependence.values()))),
        "largest": dependence[pair],
        "pair": "-".join(pair),
        "above": {"-".join(pair): round(v, 3) for pair, v in dependence.items() if v > 0.1},
        "seconds": seconds,
    }


def table_of(results: list[dict[str, object]]) -> str:
    """Return mean (largest) V by family, kind and number of rows, in Markdown."""
    lines = ["| family | a row counts | " + " | ".join(f"{n:,} rows" for n in SIZES) + " | seeds |"]
    lines.append("|---" * (3 + len(SIZES)) + "|")
    for family, kind in product(FAMILIES, KINDS):
        mine = [f for f in results if (f["family"], f["kind"]) == (family, kind)]
        if not mine:
            continue
        cells = []
        for n in SIZES:
            some = [f for f in mine if f["rows"] == n]
            mean = np.mean([f["mean"] for f in some]) if some else np.nan
            cells.append(f"{mean:.4f} ({max((f['largest'] for f in some), default=np.nan):.3f})")
        seeds = len({f["seed"] for f in mine})
        lines.append(f"| {family} | {kind} | " + " | ".join(cells) + f" | {seeds} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--other-seeds", type=int, default=3)
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of small tables
    results = []
    if options.results and options.results.exists():
        results = [json.loads(line) for line in options.results.read_text().splitlines()]
    done = {(f["family"], f["kind"], f["rows"], f["seed"]) for f in results}
    families, kinds = options.families.split(","), options.kinds.split(",")
    for seed, family, kind, rows in product(range(options.seeds), families, kinds, SIZES):
        few = family != "AllPairs" and seed >= options.other_seeds
        if few or (family, kind, rows, seed) in done:
            continue
        results.append(measured(family, kind, rows, seed))
        if options.results:
            with options.results.open("a") as file:
                file.write(json.dumps(results[-1]) + "\n")
    print(table_of(results))


if __name__ == "__main__":
    main()
