"""AIM and MST on wide tables: time, memory and error as attributes and rows grow.

The table is Adult side by side with itself. Each further copy of its 15 attributes has Adult's rows
in another order, so attributes of a copy depend on each other as in Adult. Every second copy is
shuffled within groups of sex and income. The other copies are shuffled freely, so their attributes
are independent of all other copies. Rows are then drawn again, with replacement, up to the
requested number. Each fit runs in a separate process with secure noise. The script prints CPU
seconds of fit and sample, and the peak memory of the process, including the table. It also prints
the mean total variation to the table over a fixed sample of pairs.

    python bench/wide.py                               # 15, 30, 50, 100 attributes, 30,162 rows
    python bench/wide.py --attributes 100 --rows 1000000
    python bench/wide.py --attributes 100 --rows 1000000 --source parquet
    python bench/wide.py --attributes 30 --missing-rate 0.2
"""

import argparse
import itertools
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from _data import SHARED, schema, table

from missdp import Schema, Table
from missdp.sources import open_source
from missdp.synth import AIM, MST, AllPairs

FAMILIES = {"aim": AIM, "all-pairs": AllPairs, "mst": MST}
PAIRS = 300


def wide_schema(attributes, *, nullable):
    """Adult's attributes, copy after copy, up to the requested number."""
    adult = list(schema("adult", nullable=nullable))
    copies = itertools.count()
    named = (replace(a, name=f"{a.name}_{k}" if k else a.name) for k in copies for a in adult)
    return Schema(tuple(itertools.islice(named, attributes)))


def wide_codes(attributes, rows, *, missing_rate=0.0, seed=0):
    """Codes of every attribute, by column. A missing cell has the code after the last level."""
    rng = np.random.default_rng(seed)
    adult = table("adult", "truth", nullable=False)
    names = adult.schema.names
    columns = [np.asarray(adult.codes(name)) for name in names]
    n = len(adult)
    drawn = np.arange(n) if rows == n else rng.integers(0, n, rows)
    group = columns[names.index("sex")] * 2 + columns[names.index("income")]
    codes = []
    for copy in range(-(-attributes // len(names))):
        order = rng.permutation(n) if copy else np.arange(n)
        if copy % 2:  # shuffled inside groups
            shuffled = order[np.argsort(group[order], kind="stable")]
            order = np.empty(n, dtype=np.int64)
            order[np.argsort(group, kind="stable")] = shuffled
        codes += [column[order[drawn]] for column in columns]
    codes = codes[:attributes]
    if missing_rate:
        for k, attribute in zip(range(attributes), itertools.cycle(adult.schema), strict=False):
            codes[k] = np.where(rng.random(rows) < missing_rate, attribute.size, codes[k])
    return codes


def distance(truth, synthetic, sizes, *, seed=0):
    """Mean total variation over a sample of pairs, of lists of codes."""
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(pairs))[:PAIRS]
    distances = []
    for a, b in (pairs[i] for i in chosen):
        cells = sizes[a] * sizes[b]
        one, two = (
            np.bincount(c[a].astype(np.int64) * sizes[b] + c[b], minlength=cells) / len(c[a])
            for c in (truth, synthetic)
        )
        distances.append(np.abs(one - two).sum() / 2)
    return float(np.mean(distances))


def once(options):
    """Fit one model in this process, and print its figures."""
    codes = np.load(options["codes"], mmap_mode="r")
    declared = wide_schema(options["attributes"], nullable=options["missing_rate"] > 0)
    if options["source"] == "memory":
        columns = {name: codes[k] for k, name in enumerate(declared.names)}
        private = Table.from_codes(declared, columns, kind="pandas")
    else:
        private = open_source(options["file"], declared)
    settings = {} if options["missing"] is None else {"missing": options["missing"]}
    family = FAMILIES[options["family"]]
    start = time.process_time()
    model = family(epsilon=options["epsilon"], delta=1e-6, **settings).fit(private)
    fitted = time.process_time()
    synthetic = model.sample_table(options["rows"])
    sampled = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    truth = wide_codes(options["attributes"], options["rows"], seed=options["seed"])
    drawn = [np.asarray(synthetic.codes(name)) for name in declared.names]
    sizes = [a.size for a in declared]
    print(
        json.dumps(
            {
                "fit": fitted - start,
                "sample": sampled - fitted,
                "peak": peak,
                "two_way": distance(truth, drawn, sizes),
                "measured": len(getattr(model, "measured_", ())),
            }
        )
    )


def in_a_process(folder, **options):
    """Make the table, and fit it in a separate process."""
    drawing = {name: options[name] for name in ("missing_rate", "seed")}
    codes = wide_codes(options["attributes"], options["rows"], **drawing)
    options["codes"] = str(folder / "codes.npy")
    np.save(options["codes"], np.stack(codes).astype(np.uint8))
    if options["source"] == "parquet":
        options["file"] = str(folder / "rows.parquet")
        declared = wide_schema(options["attributes"], nullable=options["missing_rate"] > 0)
        columns = dict(zip(declared.names, codes, strict=True))
        Table.from_codes(declared, columns, kind="pandas").with_values(
            np.random.default_rng(0)
        ).to_native().to_parquet(options["file"])
    command = [sys.executable, __file__, "--once", json.dumps(options)]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(out.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attributes", type=int, nargs="+", default=[15, 30, 50, 100])
    parser.add_argument("--rows", type=int, nargs="+", default=[30_162])
    parser.add_argument("--family", nargs="+", default=["mst", "aim"], choices=sorted(FAMILIES))
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--missing-rate", type=float, default=0.0, help="share of missing cells")
    parser.add_argument("--missing", help="strategy (default: that of the family)")
    parser.add_argument("--source", default="memory", choices=["memory", "parquet"])
    parser.add_argument("--seeds", type=int, default=1, help="tables, each fitted once")
    parser.add_argument("--once", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        once(options.once)
        return
    if not SHARED.exists():
        raise SystemExit(f"needs the data folder {SHARED}")
    common = {k: getattr(options, k) for k in ("epsilon", "missing_rate", "missing", "source")}
    print(
        f"{'attributes':>10}{'rows':>10} {'family':<7}{'fit s':>8}{'sample s':>9}{'peak GB':>8}"
        f"{'2-way':>8}{'measured':>9}"
    )
    for attributes, rows, family in itertools.product(
        options.attributes, options.rows, options.family
    ):
        with tempfile.TemporaryDirectory() as folder:
            runs = [
                in_a_process(
                    Path(folder), attributes=attributes, rows=rows, family=family, seed=k, **common
                )
                for k in range(options.seeds)
            ]
        mean = {key: statistics.fmean(run[key] for run in runs) for key in runs[0]}
        print(
            f"{attributes:>10}{rows:>10,} {family:<7}{mean['fit']:>8.1f}{mean['sample']:>9.1f}"
            f"{max(run['peak'] for run in runs):>8.2f}{mean['two_way']:>8.4f}"
            f"{mean['measured']:>9.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
