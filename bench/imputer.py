"""DPImputer against imputations without privacy: cells, means and correlations, three mechanisms.

The truth is compared with its rows after 20 % of the cells went missing: completely at random, at
random, or not at random. Numerics have 10 declared bins, and spikes at values of many rows in Adult
(no capital gain or loss, 40 hours a week). The imputer's model is AllPairs with the defaults. The
figures are:

* cells: the share of missing cells whose level, or bin, is right.
* RMSE: the root mean squared error of missing numbers over the true standard deviation. Columns
  have equal weight.
* means: the error of the filled column's mean in true standard deviations, as a mean over numeric
  columns.
* correlations: the mean absolute error of all pairwise correlations, with levels as their codes.

    python bench/imputer.py [--dataset adult] [--rows 5000] [--seeds 3] [--epsilons 1 3 10]

The peers read the rows themselves, without noise, and get --rows rows. SimpleImputer takes the
commonest level, or the mean. KNNImputer has 5 neighbours, with one-hot levels and scaled numbers.
IterativeImputer is a Bayesian ridge with equal coding, once at its mean and once with draws.
"""

import argparse
import time
import warnings
from dataclasses import replace

import numpy as np
from _data import SHARED, schema
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from missdp import AllPairs, DPImputer, Numeric, Schema, Table
from missdp.pricing import rows_of
from missdp.pricing.model_imputer import _table_of

PILES = {"capital-gain": (0.0,), "capital-loss": (0.0,), "hours-per-week": (40.0,)}


def table(dataset, file, *, nullable=True):
    facts = schema(dataset, nullable=nullable)
    piled = (replace(a, spikes=PILES[a.name]) if a.name in PILES else a for a in facts)
    return Table.read(SHARED / dataset / f"{file}.parquet", Schema(tuple(piled)))


def numbers(rows):
    """All columns as numbers: values, or codes."""
    return np.stack(
        [
            rows.values(a.name) if isinstance(a, Numeric) else rows.codes(a.name).astype(float)
            for a in rows.schema
        ],
        axis=1,
    )


def spread(columns):
    deviations = columns.std(axis=0)
    return np.where(deviations > 0, deviations, 1.0)


def correlations(columns):
    varied = columns.std(axis=0) > 0
    with np.errstate(all="ignore"):
        matrix = np.corrcoef(columns.T)
    return np.where(np.outer(varied, varied), matrix, 0.0)[np.triu_indices(len(matrix), 1)]


def scores(filled, truth, is_missing):
    """Share of right cells, RMSE, bias of means, error of correlations."""
    right = [
        (filled.codes(n) == truth.codes(n))[is_missing[n]].mean()
        for n in truth.schema.names
        if is_missing[n].any()
    ]
    numeric = [i for i, a in enumerate(truth.schema) if isinstance(a, Numeric)]
    mine, true = numbers(filled), numbers(truth)
    far = (mine - true) / spread(true)
    rmse = [
        np.sqrt(np.mean(far[is_missing[name], i] ** 2))
        for i, name in enumerate(truth.schema.names)
        if i in numeric and is_missing[name].any()
    ]
    bias = np.abs(far.mean(axis=0))[numeric]
    return (
        np.mean(right),
        np.mean(rmse),
        np.mean(bias),
        np.abs(correlations(mine) - correlations(true)).mean(),
    )


def commonest(rows):
    """SimpleImputer column by column: the commonest level, the mean of numbers."""
    columns = numbers(rows)
    for i, a in enumerate(rows.schema):
        column = np.where(rows.mask(a.name), np.nan, columns[:, i])[:, None]
        kind = "mean" if isinstance(a, Numeric) else "most_frequent"
        columns[:, i] = SimpleImputer(strategy=kind).fit_transform(column)[:, 0]
    return as_table(columns, rows)


def as_table(columns, rows):
    filled, codes, values = {}, {}, {}
    for i, a in enumerate(rows.schema):
        if isinstance(a, Numeric):
            column = np.clip(columns[:, i], a.lower, a.upper)
            values[a.name] = np.rint(column) if a.integer else column
            codes[a.name] = a.encode_values(values[a.name])
        else:
            codes[a.name] = columns[:, i].astype(int)
    plain = Table.from_codes(rows.schema, codes)
    for name in rows.schema.names:
        column = plain.column(name)
        filled[name] = type(column)(column.codes, values.get(name))
    return Table(rows.schema, filled)


def encoded(imputer):
    """An imputer of one-hot levels and scaled numbers. A level's largest column gives the level."""

    def fill(rows):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _table_of(imputer().fit_transform(rows_of(rows)), rows.schema)

    return fill


PEERS = {
    "commonest level, mean": commonest,
    "5 nearest neighbours": encoded(lambda: KNNImputer(keep_empty_features=True)),
    "iterative, its mean": encoded(
        lambda: IterativeImputer(random_state=0, max_iter=5, keep_empty_features=True)
    ),
    "iterative, drawn": encoded(
        lambda: IterativeImputer(
            random_state=0, max_iter=5, keep_empty_features=True, sample_posterior=True
        )
    ),
}


def show(name, runs, seconds):
    mean = np.mean(runs, axis=0)
    print(
        f"| {name} | {mean[0]:.3f} | {mean[1]:.2f} | {mean[2]:.4f} | {mean[3]:.4f} "
        f"| {np.mean(seconds):.1f} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="adult", choices=["adult", "br2000"])
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilons", type=float, nargs="*", default=[1.0, 3.0, 10.0])
    options = parser.parse_args()
    truth = table(options.dataset, "truth", nullable=False)
    few = np.sort(np.random.default_rng(0).permutation(len(truth))[: options.rows])
    for mechanism in ("mcar", "mar", "mnar"):
        rows = table(options.dataset, f"{mechanism}_0.2")
        is_missing = {name: rows.mask(name) for name in truth.schema.names}
        print(f"\n{options.dataset}, {mechanism} 20 %\n")
        print("| imputation | cells | RMSE | bias of means | error of correlations | s |")
        print("|---|---|---|---|---|---|")
        for name, fill in PEERS.items():
            start = time.process_time()
            filled = fill(rows.take(few))
            seconds = time.process_time() - start
            part = {n: mask[few] for n, mask in is_missing.items()}
            show(f"{name} (no privacy)", [scores(filled, truth.take(few), part)], [seconds])
        for epsilon in options.epsilons:
            runs, seconds = ({"likely": [], "mean": [], "random": []} for _ in range(2))
            for seed in range(options.seeds):
                model = AllPairs(epsilon=epsilon, delta=1e-6, random_state=seed).fit(rows)
                DPImputer(model=model).fit()
                for filling, each in runs.items():
                    start = time.process_time()
                    imputer = DPImputer(model=model, filling=filling, random_state=seed)
                    filled = imputer.transform(rows)
                    seconds[filling].append(time.process_time() - start)
                    part = filled.take(few), truth.take(few)
                    each.append(scores(*part, {n: mask[few] for n, mask in is_missing.items()}))
            for filling, each in runs.items():
                show(f"DPImputer, {filling}, epsilon {epsilon:g}", each, seconds[filling])


if __name__ == "__main__":
    main()
