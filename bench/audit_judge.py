"""Let the estimator of jax-privacy, which is not ours, bound the epsilon of released measurements.

    python -m venv judge
    judge/bin/pip install missdp-0.4.0-py3-none-any.whl jax-privacy
    judge/bin/python bench/audit_judge.py [--family mst ...] [--runs 500] [--broken]
    judge/bin/python bench/audit_judge.py --search [--runs 100]

A canary is a row in cells that are otherwise empty. Each family is audited at epsilon 1, 3 and 10.

*Several runs.* The fits are independent, half of them with one canary. The score of a fit is the
log likelihood ratio of its released answers. There are two audits: of a complete canary, and of a
canary with missing cells. *One run* (arXiv 2305.08846). A coin decides for each of 272 canaries
whether it is in the table, which is fitted once. Half of the canaries have missing cells. Their
scores come from the released noisy counts and sums. A second, weaker attack counts synthetic rows.

jax-privacy gets the scores with and without canaries, and returns two lower bounds on epsilon. The
first is by Clopper-Pearson, or for one run. The second assumes Gaussian DP (`gaussian_bound`). The
probability that any bound of the full design is wrong is at most 5 % (Bonferroni). ``--broken``
halves all noise, which the judge must notice.

``--search`` audits AllPairs and AIM with ``workload="auto"``, by several runs. The last column of
the table is the exclusive or of the first two, so the search selects a marginal with these three
columns. The canary breaks the exclusive or, so its cell of this marginal is otherwise empty.

The library's own samplers draw the noise, from seeds. A recording keeps the released answers. The
exact numbers that the attacker subtracts are those of example tables, which the attacker knows.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import missdp
from missdp import Categorical, Schema, Table
from missdp.session import Noise
from missdp.testing import RecordingNoise, ReplayedNoise, log_ratio
from missdp.testing.recording import StopRecording

Floats: TypeAlias = NDArray[np.float64]
Row: TypeAlias = Sequence[int]

FAMILIES = ("all-pairs", "aim", "mst", "privbayes", "kamino")
EPSILONS, DELTA = (1.0, 3.0, 10.0), 1e-6
COLUMNS = 5
BOUNDS = 2  # of jax-privacy for each audit
AUDITS = len(FAMILIES) * len(EPSILONS) * 4  # two of several runs, two of one run
SIGNIFICANCE = 0.05 / (AUDITS * BOUNDS)
MIN_RATIO = 0.5  # of epsilon in the released measurements to the claim, once for each family
EQUAL_ROWS, LEVELS = 40, 4  # of the table of several runs
ONE_RUN_LEVELS = 17  # a prime, so that two canaries share at most one cell before any is missing
ROWS_PER_LEVEL = 150  # of one run: so many that no level is merged
SYNTHETIC_ROWS = 20_000
SEED = 58
CANARIES = {
    "complete": (1, 1, 1, 1, 1),
    "with missing cells": (1, LEVELS, 1, LEVELS, 1),
}
SEARCHING = ("all-pairs", "aim")
PARITIES = [(a, b, c, d, a ^ b) for a, b, c, d in itertools.product((0, 1), repeat=4)] * 375
ODD_CANARIES = {"complete": (1, 1, 0, 0, 1), "with missing cells": (1, 1, 2, 2, 1)}


class Result(NamedTuple):
    """A finished audit: the two lower bounds of the judge on epsilon, and its cost."""

    family: str
    epsilon: float
    attack: str
    fits: int
    free: float  # bound without an assumption
    gaussian: float  # bound for Gaussian DP
    seconds: float

    @property
    def bound(self) -> float:
        """The larger lower bound."""
        return max(self.free, self.gaussian)

    def __str__(self) -> str:
        return (
            f"| {self.family} | {self.epsilon:g} | {self.attack} | {self.fits:,} | "
            f"{self.free:.2f} | {self.gaussian:.2f} | {self.bound / self.epsilon:.2f} | "
            f"{self.seconds:.0f} |"
        )


def read_table(rows: Sequence[Row], levels: int) -> Table:
    """Return a table of codes in five nullable columns. The last code is a missing cell."""
    names = tuple(f"level {code:02d}" for code in range(levels))
    cells = np.array([*names, None], dtype=object)[np.asarray(rows, dtype=int)]
    columns = [f"q{i}" for i in range(COLUMNS)]
    schema = Schema(tuple(Categorical(name=c, levels=names, nullable=True) for c in columns))
    return Table.read(pd.DataFrame(cells, columns=columns), schema)


@dataclass(frozen=True)
class Audited:
    """A family at an epsilon, with noise of so many times its scale, with or without a search."""

    name: str
    epsilon: float
    scale: float = 1.0
    searches: bool = False

    def fit(self, table: Table) -> Any:
        """Return a fitted model, with the first strategy of the family."""
        family = missdp.synthesizers()[self.name]
        strategy = family.family.strategies[0]
        more = {"workload": "auto"} if self.searches else {}
        return family(epsilon=self.epsilon, delta=DELTA, missing=strategy, **more).fit(table)

    def recorded(self, table: Table, seed: int, stop_after: int | None) -> RecordingNoise:
        """Return the answers of a fit, with the exact numbers behind them."""
        noise = RecordingNoise(seed, scale=self.scale, stop_after=stop_after)
        with noise, contextlib.suppress(StopRecording):
            self.fit(table)
        return noise

    def repeated(self, recording: RecordingNoise, table: Table) -> ReplayedNoise:
        """Return the exact numbers of another table behind the recorded answers."""
        recording.stop_after = len(recording.answers)
        noise = ReplayedNoise(recording)
        with noise, contextlib.suppress(StopRecording):
            self.fit(table)
        return noise


# --- Several runs ------------------------------------------------------------------------------


def ratio(audited: Audited, tables: tuple[Table, Table], side: int, seed: int, stop: int) -> float:
    """Return the log likelihood ratio of the second table and the first, of a fit on one."""
    recording = audited.recorded(tables[side], seed, stop)
    again = audited.repeated(recording, tables[1 - side])
    pairs = zip(recording.answers, again.answers, strict=True)
    total = sum(log_ratio(a.mechanism, a.released, a.exact, b.exact) for a, b in pairs)
    return total if side else -total


def several_runs(audited: Audited, canary: Row, runs: int) -> tuple[Floats, Floats]:
    """Return the scores of fits with the canary, and of fits without it."""
    equal = [(0,) * COLUMNS] * EQUAL_ROWS, LEVELS
    rows, levels = (PARITIES, 2) if audited.searches else equal
    tables = read_table(rows, levels), read_table([*rows, canary], levels)
    pilots = [audited.recorded(tables[k % 2], SEED + k, None) for k in range(4)]
    stop = max(len(pilot.answers) for pilot in pilots)
    absent, present = (
        np.array([ratio(audited, tables, side, 1000 + 2 * k + side, stop) for k in range(runs)])
        for side in (0, 1)
    )
    return present, absent


# --- One run -----------------------------------------------------------------------------------


def many_canaries() -> list[Row]:
    """Return canaries in cells that are otherwise empty. Every second one has missing cells."""
    p, rng = ONE_RUN_LEVELS, np.random.default_rng(SEED)
    rows = [
        [a, *((a + step * b) % p for step in range(1, 5))] for a in range(p) for b in range(1, p)
    ]
    for row in rows[::2]:
        for column in rng.choice(COLUMNS, 2, replace=False):
            row[column] = p
    return [tuple(row) for row in rows]


def numbers(noise: RecordingNoise) -> Floats:
    """Return the exact numbers of all answers with additive noise, in SDs of the noise."""
    vectors = [
        np.asarray(a.exact, dtype=float).ravel() / a.mechanism.std
        for a in noise.answers
        if isinstance(a.mechanism, Noise)
    ]
    return np.concatenate(vectors)


def released(noise: RecordingNoise) -> Floats:
    """Return the released numbers of all answers with additive noise, in SDs of the noise."""
    vectors = [
        np.asarray(a.released, dtype=float).ravel() / a.mechanism.std
        for a in noise.answers
        if isinstance(a.mechanism, Noise)
    ]
    return np.concatenate(vectors)


def scores_of_numbers(
    audited: Audited, recording: RecordingNoise, rows: list[Row], canaries: list[Row]
) -> Floats:
    """Return the best linear estimate of each coin, given the released numbers.

    The answers are repeated on the table with each canary, which gives its contribution.
    """
    without_canaries = numbers(audited.repeated(recording, read_table(rows, ONE_RUN_LEVELS)))
    shifts = np.array(
        [
            numbers(audited.repeated(recording, read_table([*rows, row], ONE_RUN_LEVELS)))
            - without_canaries
            for row in canaries
        ]
    )
    rest = released(recording) - without_canaries - shifts.sum(axis=0) / 2
    # The variance of a coin is a quarter, and of the noise one.
    gram = shifts @ shifts.T + 4 * np.eye(len(canaries))
    return np.linalg.solve(gram, shifts @ rest)


def scores_of_rows(model: Any, canaries: list[Row]) -> Floats:
    """Return the number of pairs of cells that synthetic rows share with each canary."""
    missing = "keep" if model.missing == "joint" else "fill"
    sample = model.sample(SYNTHETIC_ROWS, missing_values=missing, random_state=SEED)
    codes = np.column_stack(
        [
            pd.Categorical(sample[f"q{i}"], [f"level {c:02d}" for c in range(ONE_RUN_LEVELS)]).codes
            for i in range(COLUMNS)
        ]
    )
    codes = np.where(codes < 0, ONE_RUN_LEVELS, codes)
    shared = np.array([(codes == np.array(row)).sum(axis=1) for row in canaries])
    return np.asarray((shared * (shared - 1) / 2).sum(axis=1), dtype=float)


def one_run(audited: Audited) -> Iterator[tuple[str, Floats, Floats]]:
    """Yield name and scores of two attacks: of canaries in the table, and of the others."""
    canaries = many_canaries()
    coins = np.random.default_rng(SEED + 1).random(len(canaries)) < 0.5
    rows: list[Row] = [
        (level,) * COLUMNS for level in range(ONE_RUN_LEVELS + 1) for _ in range(ROWS_PER_LEVEL)
    ]
    inside = [row for row, coin in zip(canaries, coins, strict=True) if coin]
    noise = RecordingNoise(SEED + int(audited.epsilon), scale=audited.scale)
    with noise:
        model = audited.fit(read_table([*rows, *inside], ONE_RUN_LEVELS))
    for name, scores in (
        ("one run", scores_of_numbers(audited, noise, rows, canaries)),
        ("one run, synthetic rows", scores_of_rows(model, canaries)),
    ):
        yield name, scores[coins], scores[~coins]


# --- The judge ---------------------------------------------------------------------------------


def gaussian_bound(present: Floats, absent: Floats) -> float:
    """Return the bound of jax-privacy for Gaussian DP, at a threshold that was fixed in advance.

    jax-privacy 2.0.0 also reads each threshold in reverse, for which it uses upper bounds on the
    rates of errors where lower bounds are needed. So two samples of one distribution have a bound
    of up to 9. Here the only threshold is a likelihood ratio of 1. The bound is 0 if the threshold
    could count in reverse only.
    """
    from jax_privacy.auditing import CanaryScoreAuditor, _clopper_pearson_upper

    hits, alarms = present > 0, absent > 0
    level = SIGNIFICANCE / 6  # two rates at three thresholds, as in jax-privacy
    misses = _clopper_pearson_upper(len(hits) - hits.sum(), len(hits), level)
    false = _clopper_pearson_upper(alarms.sum(), len(alarms), level)
    if misses + false >= 1:
        return 0.0
    judge = CanaryScoreAuditor(hits.astype(float), alarms.astype(float))
    return float(judge.epsilon_from_gdp(SIGNIFICANCE, DELTA))


def audits(audited: Audited, runs: int) -> Iterator[Result]:
    """Yield the results of all audits of a family at an epsilon."""
    from jax_privacy.auditing import CanaryScoreAuditor

    for name, canary in (ODD_CANARIES if audited.searches else CANARIES).items():
        start = time.process_time()
        present, absent = several_runs(audited, canary, runs)
        judge = CanaryScoreAuditor(present, absent)
        free = judge.epsilon_clopper_pearson(SIGNIFICANCE, DELTA, one_sided=False)
        gaussian = gaussian_bound(present, absent)
        seconds = time.process_time() - start
        attack = f"several runs, {name}"
        yield Result(audited.name, audited.epsilon, attack, 2 * runs, free, gaussian, seconds)
    if audited.searches:
        return
    start = time.process_time()
    for attack, present, absent in one_run(audited):
        judge = CanaryScoreAuditor(present, absent)
        bounds = (
            judge.epsilon_one_run(SIGNIFICANCE, DELTA),
            judge.epsilon_one_run_fdp(SIGNIFICANCE, DELTA),
        )
        seconds = time.process_time() - start
        yield Result(audited.name, audited.epsilon, attack, 1, *bounds, seconds)


def main() -> int:
    """Print a table of all audits. Return 1 if a bar is missed, or broken noise passes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--family", nargs="*", choices=FAMILIES)
    parser.add_argument("--epsilon", nargs="*", type=float, default=EPSILONS)
    parser.add_argument("--runs", type=int, default=500, help="fits with and without the canary")
    parser.add_argument("--broken", action="store_true", help="halve all noise")
    parser.add_argument("--search", action="store_true", help="search for larger marginals")
    options = parser.parse_args()
    options.family = options.family or (SEARCHING if options.search else FAMILIES)
    warnings.simplefilter("ignore")
    print("| family | claimed | attack | fits | no assumption | Gaussian DP | ratio | CPU s |")
    print("|---" * 8 + "|")
    results = []
    for name in options.family:
        for epsilon in options.epsilon:
            scale = 0.5 if options.broken else 1.0
            for result in audits(Audited(name, epsilon, scale, options.search), options.runs):
                results.append(result)
                print(result, flush=True)
    exceeded = {r.family for r in results if r.bound > r.epsilon}
    close = {r.family for r in results if r.bound >= MIN_RATIO * r.epsilon}
    print(f"claims exceeded: {sorted(exceeded) or 'none'}")
    print(f"a ratio of {MIN_RATIO} or more: {sorted(close)}")
    if options.broken:
        return int(exceeded != {*options.family})
    return int(bool(exceeded) or close != {*options.family})


if __name__ == "__main__":
    sys.exit(main())
