"""Fail if synthesis or a statistic got more than 10 % slower or worse than the recorded reference.

Accuracy and CPU time on 5,000 generated rows, 20 % of the cells missing, with fixed seeds. Both are
ratios within one run, so that the machine cancels out:

* time: CPU seconds of fits and samples, in as many threads as a user gets, over those of a fixed
  workload in plain NumPy and Python, in one thread, that is run between them. All subjects take
  turns, round after round, so that no busy moment falls on one of them alone; compared round by
  round, the median counts;
* error: mean total variation of all two-way marginals (for the query: width of the error bar) over
  that of independent marginals (over the standard deviation of the attribute); means over seeds.

What looks worse is measured again in as many new rounds, and all count. The reference, with where
and how it was measured, is `guard.json`; only a change that is meant to cost accuracy or time may
rewrite it. The fit and the workload compare differently from machine to machine. So what still
looks slower is timed once more in turns with the code of the reference's commit, taken from git,
and only that ratio counts. On another processor, times may be 1.5 times the reference's.

    python bench/guard.py              # exit code 1: worse
    python bench/guard.py --only aim --first-only --json
    python bench/guard.py --update     # rewrites guard.json (minutes)
"""

import argparse
import gc
import io
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from missdp import Categorical, Numeric, PrivBayes, Schema, Table
from missdp.accounting import Budget
from missdp.statistics import ImputedStatistics, KNNImputation, ScaleRelease
from missdp.synth import AIM, MST

REFERENCE = Path(__file__).with_name("guard.json")
ALLOWED = 1.10
ELSEWHERE = 1.50  # times, on another processor
ROUNDS = 9  # at first, and as many again if something looks worse
TURNS = 2  # of the reference's code and this one
ROWS = 5_000
SIZES = (2, 3, 4, 6)
SYNTHETIC_ROWS = 40_000  # so many that their own sampling error does not count


def example():
    """Complete truth (codes), and the same rows with a fifth of the cells missing."""
    rng = np.random.default_rng(20261122)
    group = rng.integers(0, 4, ROWS)
    columns = []
    for size in SIZES:
        ends = rng.dirichlet(np.full(size, 0.6), 4).cumsum(axis=1)
        columns.append((rng.random(ROWS)[:, None] > ends[group]).sum(axis=1).clip(0, size - 1))
    truth = np.stack(columns, axis=1)
    missing = rng.random(truth.shape) < 0.2
    *categorical, last = (f"a{i}" for i in range(len(SIZES)))
    attributes = [
        Categorical(name=name, levels=tuple(map(str, range(size))), nullable=True)
        for name, size in zip(categorical, SIZES, strict=False)
    ]
    top = SIZES[-1] - 1
    attributes.append(
        Numeric(name=last, lower=0, upper=top, integer=True, bins=top + 1, nullable=True)
    )
    frame = pd.DataFrame(
        {name: pd.Series(truth[:, i]).astype(str) for i, name in enumerate(categorical)}
    )
    frame[last] = truth[:, -1].astype(float)
    return truth, Table.read(frame.mask(missing), Schema(tuple(attributes)))


TRUTH, PRIVATE = example()


def distance(one, other):
    """Mean total variation distance over the two-way marginals of two arrays of codes."""
    found = []
    for i, j in itertools.combinations(range(len(SIZES)), 2):
        shares = [
            np.bincount(codes[:, i] * SIZES[j] + codes[:, j], minlength=SIZES[i] * SIZES[j])
            / len(codes)
            for codes in (one, other)
        ]
        found.append(np.abs(shares[0] - shares[1]).sum() / 2)
    return float(np.mean(found))


def independent():
    """The truth with its columns drawn independently: the error that everyone can have."""
    rng = np.random.default_rng(1)
    return np.stack([rng.choice(column, SYNTHETIC_ROWS) for column in TRUTH.T], axis=1)


def synthesis(make):
    """A subject: returns CPU seconds and error of one seed."""

    def once(seed):
        start = time.process_time()
        model = make(seed).fit(PRIVATE)
        synthetic = model.sample_table(SYNTHETIC_ROWS)
        seconds = time.process_time() - start
        codes = np.stack([synthetic.codes(name) for name in PRIVATE.schema.names], axis=1)
        return seconds, distance(codes, TRUTH) / UNIT

    return once


def query(seed):
    """A subject: a mean of k-NN-imputed values and its error bar."""
    *others, name = PRIVATE.schema.names
    start = time.process_time()
    asked = ImputedStatistics(
        PRIVATE,
        KNNImputation(impute=name, match_on=tuple(others)),
        budget=Budget(5.0),
        scale=ScaleRelease(epsilon=4.0),
        random_state=seed,
    )
    low, high = asked.mean(name, epsilon=1.0).interval
    return time.process_time() - start, (high - low) / float(TRUTH[:, -1].std())


UNIT = distance(independent(), TRUTH)
# Name: what is run, and on how many seeds in a round.
SUBJECTS = {
    "privbayes": (synthesis(lambda seed: PrivBayes(epsilon=1.0, random_state=seed)), 6),
    "mst": (synthesis(lambda seed: MST(epsilon=1.0, delta=1e-6, random_state=seed)), 3),
    "aim": (synthesis(lambda seed: AIM(epsilon=1.0, delta=1e-6, random_state=seed)), 3),
    "query": (query, 8),
}


@threadpool_limits.wrap(limits=1)
def workload():
    """CPU seconds of fixed work: counting, sorting, products, and many small steps in Python."""
    rng = np.random.default_rng(0)
    codes, matrix = rng.integers(0, 500, 200_000), rng.random((160, 160))
    small, total = rng.random(40), 0.0
    start = time.process_time()
    for _ in range(6):
        np.bincount(codes, minlength=500)
        np.sort(codes)
        matrix @ matrix
        np.exp(matrix).cumsum(axis=0)
    for step in range(6_000):
        total += float((small * step).sum())
    return time.process_time() - start


def one_round(once, seeds):
    """Time and error ratios of one subject on a few seeds."""
    seconds, work, errors = 0.0, workload(), []
    for seed in seeds:
        took, error = once(seed)
        seconds += took
        errors.append(error)
        work += workload()
    return seconds / len(errors) / (work / (len(errors) + 1)), statistics.fmean(errors)


def measure(names, rounds):
    """Time and error ratios of subjects, by round; they take turns."""
    found = {name: {"time": [], "error": []} for name in names}
    gc.collect()
    for number in rounds:
        for name in names:
            once, many = SUBJECTS[name]
            slow, wrong = one_round(once, range(number * many, (number + 1) * many))
            found[name]["time"].append(slow)
            found[name]["error"].append(wrong)
    return found


def compare(found, reference):
    """How many times slower and worse than the reference, over the rounds that were run."""
    known = {key: values[: len(found[key])] for key, values in reference.items()}
    slower = [now / then for now, then in zip(found["time"], known["time"], strict=True)]
    return {
        "time": statistics.median(slower),
        "error": statistics.fmean(found["error"]) / statistics.fmean(known["error"]),
    }


def guard(names, reference, allowed, *, first_only=False):
    """Compare subjects; those that look worse are measured again, and all rounds count."""
    found = measure(names, range(ROUNDS))
    result = {name: compare(found[name], reference[name]) for name in names}
    again = [] if first_only else worse(result, allowed)
    for name, more in measure(again, range(ROUNDS, 2 * ROUNDS)).items():
        both = {key: found[name][key] + more[key] for key in more}
        result[name] = compare(both, reference[name])
    return result


def worse(result, allowed):
    """Names of the subjects that are slower or less accurate than is allowed."""
    return [name for name, r in result.items() if any(r[k] > allowed[k] for k in allowed)]


def processor():
    """What this machine computes with."""
    cpus = Path("/proc/cpuinfo")
    known = cpus.read_text().splitlines() if cpus.exists() else []
    names = [line.partition(":")[2].strip() for line in known if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def beside(commit, names):
    """Times over those of a commit's code, in turns; empty if git or Python cannot take it up."""
    root = REFERENCE.parents[1]
    archive = subprocess.run(
        ["git", "archive", commit, "src", "bench"], cwd=root, capture_output=True, check=False
    )
    if archive.returncode:
        return {}
    turns = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            # Python 3.11.3 and before have no filters; this is our own archive.
            files.extractall(
                folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {})
            )
        # Both over the same numbers: the commit may have other ones beside it.
        (Path(folder) / "bench" / REFERENCE.name).write_bytes(REFERENCE.read_bytes())
        for _ in range(TURNS):
            then = timed(Path(folder), names)
            if then is None:  # it needs what is no longer installed
                return {}
            now = timed(root, names)
            for name in names:
                turns[name].append(now[name]["time"] / then[name]["time"])
    return {name: statistics.median(ratios) for name, ratios in turns.items()}


def timed(checkout, names):
    """What the guard of a checkout finds of its code, over the same numbers; None if it cannot."""
    only = [word for name in names for word in ("--only", name)]
    out = subprocess.run(
        [sys.executable, checkout / "bench" / "guard.py", "--first-only", "--json", *only],
        env={**os.environ, "PYTHONPATH": str(checkout / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(out.stdout) if out.stdout else None


def update(names):
    """Measure all rounds of the named subjects, and write them down."""
    document = json.loads(REFERENCE.read_text()) if REFERENCE.exists() else {}
    subjects = document.get("subjects", {})
    for name in names:
        SUBJECTS[name][0](0)  # imports
    for name, found in measure(names, range(2 * ROUNDS)).items():
        subjects[name] = {key: [round(v, 4) for v in values] for key, values in found.items()}
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    ).stdout.strip()
    document = {
        "measured": {
            "how": "python bench/guard.py --update: ratios per round, see the script",
            "last": time.strftime("%Y-%m-%d"),
            "commit": commit,
            "processor": processor(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "subjects": subjects,
    }
    REFERENCE.write_text(json.dumps(document, indent=1) + "\n")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="rewrite the reference")
    parser.add_argument("--only", choices=list(SUBJECTS), action="append", help="this one")
    parser.add_argument("--first-only", action="store_true", help="never measure again")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    names = options.only or list(SUBJECTS)
    if options.update:
        update(names)
        return 0
    document = json.loads(REFERENCE.read_text())
    reference, measured = document["subjects"], document.get("measured", {})
    same = measured.get("processor", processor()) == processor()
    allowed = {"time": ALLOWED if same else ELSEWHERE, "error": ALLOWED}
    for name in names:
        SUBJECTS[name][0](0)  # imports
    # Elsewhere more rounds tell no more: the code of the reference does.
    found = guard(names, reference, allowed, first_only=options.first_only or not same)
    slow = [name for name in worse(found, allowed) if found[name]["time"] > allowed["time"]]
    if slow and not options.first_only:
        for name, ratio in beside(measured.get("commit", ""), slow).items():
            found[name]["time"] = ratio
    failed = worse(found, allowed)
    if options.json:
        print(json.dumps(found))
    else:
        print(f"{'':<12}{'time':>7}{'error':>7}   (1 is as recorded)")
        print(f"{'worse above':<12}{allowed['time']:>7.2f}{allowed['error']:>7.2f}")
        for name, ratios in found.items():
            mark = "  WORSE" if name in failed else ""
            print(f"{name:<12}{ratios['time']:>7.3f}{ratios['error']:>7.3f}{mark}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
