"""Fail if a family became less accurate than recorded, or slower than the recorded commit.

Every family is fitted to real tables and to one invented table, with missing cells, with numbers in
declared and in private bins. The figures are distances of two-way tables, slopes of rank
correlations, standard deviations and missing shares. `guard_tables.py` documents each figure.
AllPairs, the default, is fitted to all rows of a table, of complete tables too. The other families
are fitted to 5,000 rows. `query` has the width of an error bar. `estimate` has the width and the
distance of estimates from a model of AllPairs, and the time of the first estimates. `search` is
AllPairs with workload="auto", on all rows of two tables with dependence that pairs miss: at epsilon
1 an exclusive or, at epsilon 3 BR2000. It is not timed. `waves` is an invented table whose cells
are missing in blocks, for the families that model such blocks. Its pairs count missing as a level.

Accuracy is compared with recorded values, cell by cell and figure by figure. Of the commits in
`guard.json`, the more accurate one counts, so that small losses cannot add up from change to
change. A loss is a difference of logarithms over seeds. It is paired where both codes draw equal
noise (their values correlate over seeds), and by Welch otherwise. Its lower bound (95 %, one-sided)
must not exceed 5 % in a cell (family, table, bins, missing cells). Nor must it exceed 2 % in the
geometric mean over the cells of a family, bins and figure. A cell that looks worse is measured
again, with as many new seeds of this code and of the recorded code, and all seeds count. A cell
that is not recorded fails, too.

Before logarithms are taken, errors get a floor, below which a difference does not matter. It is
0.05 for standard deviations, and 0.01 for missing shares and for the distance of estimates. The 5 %
are then at least 0.0025 and 0.0005. The slope counts as 1 + |1 - slope|: a loss of 5 % is a
twentieth of the true correlations.

CPU seconds and peak memory are compared with a commit whose code runs in turns with this code, each
fit in a separate process. If the median ratio of three turns exceeds 1.10 (3 for MST), or 1.25 for
memory, eight more turns are run. The lower bound of the median of all turns (95 %, one-sided) must
not exceed the limit.

Usage::

    python bench/guard.py                    # exit code 1: worse
    python bench/guard.py --short            # one table of each family: part of .ci/run
    python bench/guard.py --only AllPairs --tables adult br2000 --json
    python bench/guard.py --against 95f2562f --epsilon 0.3 --tables vietnam lending --only AllPairs
    python bench/guard.py --pin COMMIT       # measures a commit, and adds it to guard.json

Every fit is written to a cache at once. A killed run therefore continues from the last fit.
"""

import argparse
import hashlib
import io
import itertools
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from guard_tables import BINS, FAMILIES, SHARED, STATES, TABLES, VERSION, states_of
from scipy.special import stdtrit
from scipy.stats import binom

ROOT = Path(__file__).resolve().parents[1]
RECORD = Path(__file__).with_name("guard.json")
CHILD = Path(__file__).with_name("guard_tables.py")
CACHE = Path(tempfile.gettempdir()) / "missdp-guard" / "fits.jsonl"
IN_A_CELL, IN_THE_MEAN = 1.05, 1.02
SLOWER, LARGER = 1.10, 1.25
SLOWER_OF = {"MST": 3.0}  # it fits the model of AllPairs now, which is more accurate but slower
SEEDS = 10  # at first, and as many again if a cell looks worse
TURNS, MORE_TURNS = 3, 8
MIN_SEEDS = 3  # seeds that a bound needs
TOGETHER = 0.5  # correlation over seeds from which values are compared in pairs
FLOORS = {"pairs": 0.0, "width": 0.0, "slope": 1.0, "sd": 0.05, "missing": 0.01}
FLOORS |= {"triples": 0.0, "off": 0.01}
ROWS = dict.fromkeys(FAMILIES, 5_000) | {
    "AllPairs": None,
    "search": None,
}  # rows of a table (None: all)
# Fits in one process that is timed. A single short fit would be timed too roughly.
FITS = {"PrivBayes": 20, "MST": 2, "AIM": 2, "Kamino": 2}
SEARCHED = {("parity", 1.0): "mcar", ("br2000", 3.0): "complete"}  # of the search
IN_BLOCKS = ("AllPairs", "AIM", "MST")  # families that are fitted to cells missing in blocks
FULL, ANYWHERE = ("adult", "br2000", "yrbss", "hmeq"), ("yrbss", "generated")


class Cell(NamedTuple):
    """A table as one family fits it."""

    family: str
    table: str
    state: str
    bins: str
    epsilon: float = 1.0

    def __str__(self):
        strength = "" if self.epsilon == 1 else f" {self.epsilon:g}"
        return f"{self.family} {self.table} {self.state} {self.bins}{strength}"

    def job(self, seed, **more):
        """The job of the child process."""
        return {**self._asdict(), "rows": ROWS[self.family], "seed": seed, **more}


@dataclass(frozen=True)
class Verdict:
    """One comparison: ratio of now to then, its lower bound, and the limit."""

    name: str
    figure: str
    then: float
    now: float
    ratio: float
    low: float
    limit: float
    against: str = ""

    @property
    def failed(self):
        return not self.low <= self.limit  # NaN fails


# The rule


def as_error(figure, value):
    """Logarithm of an error, with the floor of its figure."""
    return math.log((abs(1 - value) if figure == "slope" else value) + FLOORS[figure])


def loss(now, then):
    """Mean difference of two mappings of seeds to logarithms, and its lower bound."""
    here, there = (np.array([values[s] for s in sorted(values)]) for values in (now, then))
    if min(len(here), len(there)) < MIN_SEEDS:
        return math.nan, math.nan
    difference = float(here.mean() - there.mean())
    common = sorted(now.keys() & then.keys())
    if len(common) == len(here) == len(there):
        pairs = np.array([now[s] - then[s] for s in common])
        if not pairs.std() or _together(here, there):
            error = float(pairs.std(ddof=1)) / math.sqrt(len(pairs))
            return difference, difference - _quantile(len(pairs) - 1) * error
    parts = [float(v.var(ddof=1)) / len(v) for v in (here, there)]
    total = sum(parts)
    if not total:
        return difference, difference
    freedom = total**2 / sum(p**2 / (len(v) - 1) for p, v in zip(parts, (here, there), strict=True))
    return difference, difference - _quantile(freedom) * math.sqrt(total)


def _together(one, two):
    return bool(one.std() and two.std() and np.corrcoef(one, two)[0, 1] > TOGETHER)


def _quantile(freedom):
    return float(stdtrit(freedom, 0.95))


def better(recorded, figure):
    """The commit with the smallest mean error of a cell, or None without recorded commits."""
    means = {
        commit: statistics.fmean(as_error(figure, v) for v in by_seed[figure].values())
        for commit, by_seed in recorded.items()
        if by_seed.get(figure)
    }
    return min(means, key=means.get, default=None)


def accuracy(now, recorded):
    """Verdicts of cells, and of means over tables.

    `now` has values by cell, figure and seed, `recorded` by cell, commit, figure and seed.
    """
    verdicts, together = [], defaultdict(list)
    for cell, figure in itertools.product(now, FLOORS):
        commit = better(recorded.get(cell, {}), figure)
        if commit is None:
            continue
        values, then = now[cell].get(figure, {}), recorded[cell][commit][figure]
        logs = [{s: as_error(figure, v) for s, v in side.items()} for side in (values, then)]
        verdicts.append(
            _verdict(str(cell), figure, (values, then), loss(*logs), IN_A_CELL, commit[:8])
        )
        together[cell.family, cell.bins, cell.epsilon, figure].append(logs)
    for (family, bins, epsilon, figure), group in together.items():
        if len(group) > 1:
            name = f"{family}, {bins} bins, mean of {len(group)}" + f", {epsilon:g}" * (
                epsilon != 1
            )
            sides = [_mean_by_seed([logs[side] for logs in group]) for side in (0, 1)]
            verdicts.append(_verdict(name, figure, ({}, {}), loss(*sides), IN_THE_MEAN, ""))
    return verdicts


def _mean_by_seed(group):
    """Means over cells, by seed, of the seeds that all cells have."""
    common = set.intersection(*(set(values) for values in group))
    return {seed: statistics.fmean(values[seed] for values in group) for seed in common}


def _verdict(name, figure, sides, logs, limit, against):
    now, then = (statistics.fmean(s.values()) if s else math.nan for s in sides)
    ratio, low = map(math.exp, logs)
    return Verdict(name, figure, then, now, ratio, low, limit, against)


def cost(turns, slower=SLOWER):
    """Verdicts of CPU seconds and memory of a cell: medians of ratios over turns.

    `turns` has pairs of seconds and MiB of the other code and of this code. Fewer than five turns
    have no bound of 95 %. The median then decides whether more turns are run.
    """
    verdicts = []
    for k, (figure, limit) in enumerate((("seconds", slower), ("memory", LARGER))):
        then, now = (statistics.median(turn[side][k] for turn in turns) for side in (0, 1))
        ratios = sorted(turn[1][k] / turn[0][k] for turn in turns)
        ratio, below = statistics.median(ratios), _turns_below_the_median(len(turns))
        low = ratios[below - 1] if below else ratio
        verdicts.append(Verdict("", figure, then, now, ratio, low, limit))
    return verdicts


def _turns_below_the_median(turns):
    """The largest k so that the k-th smallest value is a 95 % lower bound of the median."""
    return max(k for k in range(turns) if binom.cdf(k - 1, turns, 0.5) <= 0.05)


# Codes, and their results


class Code(NamedTuple):
    """A source tree, and a hash of its code."""

    folder: Path
    hash: str


def code_in(folder):
    """The code of a checkout. Equal code of different commits has equal results."""
    digest = hashlib.sha256()
    for path in sorted((folder / "src").rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return Code(folder, digest.hexdigest()[:16])


def git(*arguments):
    """The output of git in bytes, empty if git fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else b""


def code_of(commit, into):
    """The code of a commit from git, or None if this clone does not have it."""
    name = git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}").decode().strip()
    if not name:
        return None
    folder = into / name  # named by the hash, since a branch changes
    if not folder.exists():
        archive = git("archive", name, "src")
        # Python 3.11.3 and before have no filters. The archive is trusted.
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(part := folder.with_suffix(".part"), **safe)
        part.rename(folder)  # so that a killed run leaves no incomplete tree
    return code_in(folder)


def child(code, jobs):
    """Yield results of jobs in a separate process, with the code of a tree."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, "PYTHONPATH": str(code.folder / "src")}
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as asked:
        asked.write("".join(json.dumps(job) + "\n" for job in jobs))
        asked.flush()
        command = [sys.executable, str(CHILD), "--jobs", asked.name]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as run:
            for line in run.stdout:
                yield json.loads(line)
        if run.returncode:
            raise SystemExit(f"the child of {code.folder} ended with code {run.returncode}")


def _row_of(line):
    """A fit from a line of the cache, empty if a kill truncated the line."""
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return {}


class Fits:
    """Results by code, cell and seed. Each is written to a file at once."""

    def __init__(self, path, processes=1, seeds=SEEDS, *, more=True):
        self.path, self.processes, self.seeds, self.more = path, processes, seeds, more
        self.results = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        for line in path.read_text("utf-8").splitlines() if path.exists() else ():
            row = _row_of(line)
            if row.get("version") == VERSION and row.get("numpy") == np.__version__:
                self.results[self.key(row["code"], row)] = row

    @staticmethod
    def key(code, job):
        """The key of a fit."""
        names = ("family", "table", "state", "bins", "epsilon", "rows", "seed")
        return code, *(job[name] for name in names)

    def measure(self, code, cells, seeds):
        """Values by cell, figure and seed, and the cells without values, with the reason."""
        jobs = [cell.job(seed) for cell in cells for seed in seeds]
        groups = defaultdict(list)
        for job in jobs:
            if self.key(code.hash, job) not in self.results:
                groups[job["family"], job["table"]].append(job)
        if self.more:
            with ThreadPoolExecutor(self.processes) as pool:
                list(pool.map(lambda group: self._run(code, group), groups.values()))
        values, problems = {}, {}
        nothing = {"absent": "the cache does not have it"}
        for cell in cells:
            keys = [self.key(code.hash, cell.job(seed)) for seed in seeds]
            rows = [self.results.get(key, nothing) for key in keys]
            wrong = [row for row in rows if "figures" not in row]
            if wrong:
                problems[cell] = wrong[0]
                continue
            values[cell] = by_figure({row["seed"]: row["figures"] for row in rows})
        return values, problems

    def _run(self, code, jobs):
        for row in child(code, jobs):
            row |= {"code": code.hash, "version": VERSION, "numpy": np.__version__}
            self.results[self.key(code.hash, row)] = row
            if "figures" in row:  # a failed fit is tried again in the next run
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")


def by_figure(by_seed):
    """Values by figure and seed. A figure that some seeds lack is omitted."""
    names = set.intersection(*(set(figures) for figures in by_seed.values()))
    return {n: {s: f[n] for s, f in by_seed.items()} for n in sorted(names)}


def timed(code, cell, turn):
    """CPU seconds and peak memory of a few fits in a new process."""
    seeds = range(turn * FITS.get(cell.family, 1), (turn + 1) * FITS.get(cell.family, 1))
    rows = list(child(code, [cell.job(seed, timed=True) for seed in seeds]))
    if any("figures" not in row for row in rows):
        return None
    return sum(r["figures"]["seconds"] for r in rows), max(r["figures"]["peak"] for r in rows)


# Cells that are run


def cells_of(options):
    """Cells of the options: all cells of a family, or a few of one table in the short form."""
    tables = options.tables or [*(FULL if SHARED.exists() else ANYWHERE), "waves", "parity"]
    if options.short and not options.tables:
        tables = [ANYWHERE[0], "waves", "parity"]  # the package contains the first
    grid = itertools.product(options.only or FAMILIES, tables, options.epsilon)
    for family, table, epsilon in grid:
        for state, bins in itertools.product(states_of(table), BINS):
            asked = bins in (options.bins or BINS) and state in (options.states or STATES)
            if family == "search" or table == "parity":
                searched = bins == "declared" and state == SEARCHED.get((table, epsilon))
                guarded = family == "search" and searched
            elif table == "waves":
                guarded = family in IN_BLOCKS and bins == "declared"
            else:
                guarded = _guarded(family, state, bins, short=options.short)
            if asked and guarded:
                yield Cell(family, table, state, bins, epsilon)


def _guarded(family, state, bins, *, short):
    """Whether a cell is guarded. The default family has most cells, since each fit takes time."""
    if family in ("query", "estimate"):  # both correct for missing cells, in declared bins
        return state in ("mcar", "own") and bins == "declared"
    if family == "AllPairs":
        return not (short and state == "complete")
    return state in ("mcar", "own") and not (short and bins == "private")


def timed_cells(cells):
    """One cell of each family and table: declared bins, missing cells."""
    chosen = {}
    for cell in cells:
        timed_here = cell.family != "search" and cell.table != "waves"
        if timed_here and cell.bins == "declared" and cell.state in ("mcar", "own"):
            chosen.setdefault((cell.family, cell.table), cell)
    return list(chosen.values())


def recorded_in(document):
    """Values by cell, commit, figure and seed."""
    return {
        name: {
            commit: {f: dict(enumerate(values)) for f, values in by_figure.items()}
            for commit, by_figure in commits.items()
        }
        for name, commits in document["cells"].items()
    }


def compare(fits, code, cells, recorded, codes):
    """Verdicts on accuracy. A cell that looks worse gets new seeds of both codes."""
    now, problems = fits.measure(code, cells, range(fits.seeds))
    verdicts = accuracy(now, {c: recorded.get(str(c), {}) for c in now})
    suspects = [c for c in now if _is_of(c, [v for v in verdicts if v.failed])]
    if not suspects:
        return verdicts, problems
    print(f"measured again, with new seeds: {', '.join(map(str, suspects))}", file=sys.stderr)
    both = {c: dict(recorded.get(str(c), {})) for c in now}
    now |= fits.measure(code, suspects, range(2 * fits.seeds))[0]
    for commit in {k for c in suspects for k in both[c]}:
        other = codes(commit)
        if other is not None:
            asked = [c for c in suspects if commit in both[c]]
            new, _ = fits.measure(other, asked, range(fits.seeds, 2 * fits.seeds))
            for c, values in new.items():
                old = both[c][commit]
                both[c][commit] = {f: old[f] | values.get(f, {}) for f in old}
    return accuracy(now, both), problems


def _is_of(cell, verdicts):
    """Whether a verdict is about a cell, or about a mean in which it counts."""
    start = f"{cell.family}, {cell.bins} bins, "
    return any(v.name == str(cell) or v.name.startswith(start) for v in verdicts)


def compare_cost(code, other, cells):
    """Verdicts on CPU seconds and memory, in turns with another code."""
    verdicts = []
    for cell in cells:
        turns, slower = [], SLOWER_OF.get(cell.family, SLOWER)
        for turn in range(TURNS + MORE_TURNS):
            if turn == TURNS and not any(v.failed for v in cost(turns, slower)):
                break
            pair = [timed(which, cell, turn) for which in (other, code)]
            if None in pair:
                break  # one of them cannot run, which the accuracy reports
            turns.append(pair)
        if turns:
            verdicts += [replace(v, name=str(cell)) for v in cost(turns, slower)]
    return verdicts


def pin(commit, fits, cells, code):
    """Measure a commit, and add its values to the record."""
    document = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {"cells": {}}
    values, problems = fits.measure(code, cells, range(fits.seeds))
    for cell, figures in values.items():
        rounded = {
            figure: [float(f"{v:.4g}") for _, v in sorted(by_seed.items())]
            for figure, by_seed in figures.items()
            if figure in (*FLOORS, "rank")
        }
        seconds = statistics.median(figures["seconds"].values())
        rounded["seconds"] = [float(f"{seconds:.3g}")]
        document["cells"].setdefault(str(cell), {})[commit] = rounded
    document.setdefault("measured", {})[commit] = {
        "date": time.strftime("%Y-%m-%d"),
        "processor": processor(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "seeds": fits.seeds,
    }
    document.setdefault("timed_against", dict.fromkeys(FAMILIES, commit))
    write(document)
    return problems


def write(document):
    """Write the record, a line for each cell and commit."""
    cells = document["cells"]
    lines = [
        f"  {json.dumps(name)}: {{\n"
        + ",\n".join(f"   {json.dumps(c)}: {json.dumps(cells[name][c])}" for c in cells[name])
        + "\n  }"
        for name in sorted(cells)
    ]
    head = json.dumps({k: v for k, v in document.items() if k != "cells"}, indent=1)
    RECORD.write_text(f'{head[:-2]},\n "cells": {{\n' + ",\n".join(lines) + "\n }\n}\n", "utf-8")


def processor():
    """The name of this machine's processor."""
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text().splitlines() if cpus.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


# The command


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="one table of each family")
    parser.add_argument("--only", choices=FAMILIES, action="append", help="this family")
    parser.add_argument("--tables", choices=TABLES, nargs="+")
    parser.add_argument("--states", choices=STATES, nargs="+", help="how cells are missing")
    parser.add_argument("--bins", choices=BINS, nargs="+")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--against", metavar="COMMIT", help="measured now, instead of the record")
    parser.add_argument("--pin", metavar="COMMIT", help="measure a commit, and record it")
    parser.add_argument("--no-cost", action="store_true", help="accuracy only")
    parser.add_argument("--processes", type=int, default=1, help="parallel fits that are not timed")
    parser.add_argument("--cache", type=Path, default=CACHE, help="file of completed fits")
    parser.add_argument("--cached", action="store_true", help="use only fits of the cache")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parsed(arguments)
    fits = Fits(options.cache, options.processes, options.seeds, more=not options.cached)
    cells = list(cells_of(options))
    trees = options.cache.parent / "trees"
    if options.pin:
        code = code_of(options.pin, trees)
        if code is None:
            raise SystemExit(f"git has no commit {options.pin} here: fetch it")
        for cell, row in pin(options.pin, fits, cells, code).items():
            print(f"{cell}: {reason(row)}")
        return 0
    document = json.loads(RECORD.read_text("utf-8"))
    codes = {}

    def tree_of(commit):
        if commit not in codes:
            codes[commit] = code_of(commit, trees)
        return codes[commit]

    recorded = recorded_in(document)
    if options.against:
        recorded = measured_of(options.against, tree_of, fits, cells)
    code = code_in(ROOT)
    verdicts, problems = compare(fits, code, cells, recorded, tree_of)
    if not (options.no_cost or options.cached):
        possible = [c for c in timed_cells(cells) if c not in problems]
        verdicts += costs(possible, code, tree_of, options.against, document["timed_against"])
    return report(verdicts, problems, cells, recorded, as_json=options.json)


def costs(cells, code, tree_of, against, commits):
    """Verdicts on time and memory, of each family in turns with the commit recorded for it."""
    verdicts = []
    for commit in dict.fromkeys(against or commits[cell.family] for cell in cells):
        mine = [c for c in cells if (against or commits[c.family]) == commit]
        other = tree_of(commit)
        if other is None:
            lacks = f"NOT COMPARED: time and memory. This clone has no commit {commit}: fetch it"
            print(lacks, file=sys.stderr)  # standard output may be JSON
            continue
        verdicts += [replace(v, against=commit[:8]) for v in compare_cost(code, other, mine)]
    return verdicts


def measured_of(commit, tree_of, fits, cells):
    """The record of one commit, measured in this run."""
    other = tree_of(commit)
    if other is None:
        raise SystemExit(f"git has no commit {commit} here: fetch it")
    values, _ = fits.measure(other, cells, range(fits.seeds))
    return {str(cell): {commit: figures} for cell, figures in values.items()}


def reason(row):
    """The reason why a cell has no values."""
    return f"skipped: {row['absent']}" if "absent" in row else f"failed: {row.get('failed')}"


def report(verdicts, problems, cells, recorded, *, as_json):
    """Print all verdicts. Return the exit code: 1 if a cell is worse, lost or not recorded."""
    broken = {str(c): reason(row) for c, row in problems.items()}
    unknown = [str(c) for c in cells if str(c) not in recorded and c not in problems]
    failed = [v for v in verdicts if v.failed]
    lost = [name for name, why in broken.items() if why.startswith("failed")]
    if as_json:
        rows = [asdict(v) | {"failed": v.failed} for v in verdicts]
        print(json.dumps({"verdicts": rows, "without": broken, "not recorded": unknown}))
        return int(bool(failed or lost or unknown))
    print(f"{'':<46}{'figure':<9}{'then':>9}{'now':>9}{'ratio':>8}{'at least':>9}{'limit':>7}")
    for v in verdicts:
        numbers = "".join(f"{x:>9.4f}" if x == x else f"{'':>9}" for x in (v.then, v.now))
        mark = "  WORSE" if v.failed else ""
        print(
            f"{v.name:<46}{v.figure:<9}{numbers}{v.ratio:>8.3f}{v.low:>9.3f}{v.limit:>7.2f}"
            f"  {v.against}{mark}"
        )
    for name, why in broken.items():
        print(f"{name}: {why}")
    for name in unknown:
        print(f"{name}: not recorded, so not compared")
    print(
        f"{len(verdicts)} comparisons, {len(failed)} worse, {len(lost)} cells without a fit, "
        f"{len(unknown)} not recorded"
    )
    return int(bool(failed or lost or unknown))


if __name__ == "__main__":
    raise SystemExit(main())
