r"""Width and coverage of error bars of statistics on imputed data.

    python bench/knn_bars.py width --runs 2000      # completes results/knn_bars.json
    python bench/knn_bars.py coverage --runs 500    # on simulated populations (see --help)

Four minutes of CPU each. `width` takes a tenth of the runs where epsilon is not 1. The oracle
spends its total epsilon on the answer, and knows the scale of its Lomax noise. The population is
invented: income depends on age, sex and schooling. Missing cells depend on age and sex (MAR 35 %),
or on no column (MCAR 20 %). A sample is drawn, values go missing, and the question is answered.
`interval` should hold the answer without noise on the completed sample. `total_interval` should
hold the value of the population.
"""

import argparse
import json
import statistics
import sys
import time
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
from _data import table

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.accounting import Cost, Filter
from missdp.datasets import yrbss
from missdp.errors import WeakGuaranteeWarning
from missdp.statistics import (
    ImputedStatistics,
    KNNImputation,
    Statistic,
    run_queries,
)
from missdp.statistics.smooth_sensitivity import Bounded, _plans
from missdp.testing import RecordingNoise

sys.path.append(str(Path(__file__).parent / "papers"))
from _lomax import plan_lomax

RESULTS = Path(__file__).parent / "results" / "knn_bars.json"
warnings.simplefilter("ignore", WeakGuaranteeWarning)
SCHEMA = Schema(
    (
        Ordinal(name="age", levels=tuple(range(20, 80, 5))),
        Categorical(name="sex", levels=("f", "m")),
        Ordinal(name="school", levels=("low", "mid", "high")),
        Numeric(name="income", lower=0, upper=200, nullable=True),
    )
)
ASKED = {
    "mean": Statistic("mean", ("income",)),
    "mean of women": Statistic("mean", ("income",), where="sex = 'f'"),
    "share": Statistic("proportion", ("income >= 60",)),
    "count": Statistic("count", where="income >= 60"),
    "sum": Statistic("sum", ("income",), where="age < 40"),
}
FILL = KNNImputation(impute="income", match_on=("age", "sex", "school"))


def draw(rows, rng):
    """Return complete rows of the population."""
    age, sex = rng.integers(0, 12, rows), rng.integers(0, 2, rows)
    school = np.clip(np.round(rng.normal(0.8 + 0.02 * age, 0.8)), 0, 2).astype(int)
    income = np.exp(3.2 + 0.04 * age + 0.25 * sex + 0.3 * school + rng.normal(0, 0.5, rows))
    frame = {"age": 20 + 5 * age, "sex": np.array(["f", "m"])[sex]}
    frame["school"] = np.array(["low", "mid", "high"])[school]
    return pd.DataFrame(frame | {"income": np.minimum(income, 200.0)})


def with_missing(frame, mechanism, rng):
    """Let incomes go missing, completely at random or depending on age and sex."""
    chance = np.full(len(frame), 0.2)
    if mechanism == "mar":
        chance = 0.1 + 0.35 * (frame.age >= 50) + 0.3 * (frame.sex == "f")
    return frame.assign(income=frame.income.where(rng.random(len(frame)) >= chance))


def truth(frame, name):
    """Return the answer on complete rows."""
    some = frame[frame.sex == "f"] if "women" in name else frame
    some = some[some.age < 40] if name == "sum" else some
    answers = {"mean": some.income.mean, "share": (some.income >= 60).mean}
    answers |= {"count": (some.income >= 60).sum, "sum": some.income.sum}
    return float(answers[name.split()[0]]())


def asked(table, name, epsilon):
    budget = Filter(epsilon * (1 + 1e-9))
    return run_queries(table, FILL, [ASKED[name]], epsilon=epsilon, budget=budget)[0]


def coverage(rows, runs, epsilons, mechanisms, names):
    """Print the share of total intervals that hold the value of the population."""
    rng = np.random.default_rng(7)
    everyone = draw(1_000_000, rng)
    exact = {n: truth(everyone, n) * (rows / 1e6 if n in ("count", "sum") else 1) for n in names}
    for mechanism in mechanisms:
        for epsilon in epsilons:
            held, widths, noise = ({n: [] for n in names} for _ in range(3))
            for _ in range(runs):
                table = Table.read(with_missing(draw(rows, rng), mechanism, rng), SCHEMA)
                for name in names:
                    answer = asked(table, name, epsilon)
                    low, high = answer.total_interval
                    held[name].append(low <= exact[name] <= high)
                    widths[name].append((high - low) / 2)
                    noise[name].append((answer.interval[1] - answer.interval[0]) / 2)
            for name in names:
                share = f"held {np.mean(held[name]):.3f}"
                about = f"{mechanism:5s} epsilon {epsilon:4g}  {name:14s} {share}"
                half = [statistics.mean(values[name]) for values in (widths, noise)]
                print(f"{about}  half width {half[0]:.4g}, of noise alone {half[1]:.4g}")


SURVEY = KNNImputation(impute="strength_training_7d", match_on=("age", "gender", "grade"))
HOURS = KNNImputation(impute="hours-per-week", match_on=("age", "sex", "marital-status"))


def tables():
    """Yield three tables with missing cells, their imputation, and the columns of questions."""
    rng = np.random.default_rng(7)
    made_up = Table.read(with_missing(draw(10_000, rng), "mar", rng), SCHEMA)
    yield "made up", made_up, FILL, ("income", "income >= 60")
    yield "yrbss", yrbss().table(), SURVEY, ("strength_training_7d", "strength_training_7d >= 3")
    yield "adult", table("adult", "mar_0.35"), HOURS, ("hours-per-week", "`hours-per-week` >= 45")


def questions(of):
    """Return the questions about a table by kind."""
    name, condition = of
    return {
        "mean": Statistic("mean", (name,), uncertainty="noise"),
        "share": Statistic("proportion", (condition,), uncertainty="noise"),
        "count": Statistic("count", where=condition, uncertainty="noise"),
        "sum": Statistic("sum", (name,), uncertainty="noise"),
        "histogram": Statistic("histogram", (name,), uncertainty="noise"),
    }


def oracle(profile, rows, attribute, kind, epsilon, plans=None):
    """Half width of a mechanism that spends all epsilon on the answer and knows its noise scale.

    Means spend nine tenths of epsilon on the sum, and shares spend .85 on the count. The divisor
    has no further cost. With ``plans``, the result is the shortest half width of these plans of the
    library's noise.
    """
    half, largest = (attribute.upper - attribute.lower) / 2, max(abs(attribute.upper), 1e-9)
    facts = {"mean": (0.9, 2, half), "share": (0.85, 1, 1.0)}
    facts["sum"] = (1, (2 * half) / largest, largest)
    # Share of epsilon, weight of a recipient in units of a row's weight, and the row's weight.
    part, recipient_weight, row_weight = facts.get(kind, (1, 2 if kind == "histogram" else 1, 1.0))
    size = attribute.size if kind == "histogram" else 1
    level = 1 - 0.05 / size
    made = plans or [
        plan_lomax(epsilon * part, recipient_weight=float(recipient_weight), dimension=size)
    ]
    unit = row_weight / rows if kind in ("mean", "share") else row_weight

    def width(noise):
        bound = profile.smooth_bound(
            row_weight=1.0, recipient_weight=float(recipient_weight), beta=noise.beta
        )
        scale = noise.alpha if plans else 1.0  # the quantile of Lomax noise contains the scale
        return noise.quantile(level) * bound / scale * unit

    return min(map(width, made))


class Exact(RecordingNoise):
    """Noise source without noise."""

    def answer(self, event, mechanism, exact):
        """Return the exact numbers."""
        del event, mechanism
        result = exact()
        return tuple(map(Fraction, result.totals)) if isinstance(result, Bounded) else result


def noiseless(rows, imputation, question):
    """Return the answer without noise."""
    with Exact(0):
        asked = ImputedStatistics(rows, imputation, budget=Filter(1e9))
        result = asked.answer(question, Cost(privacy_measure="pure", amount=1.0))
    return np.atleast_1d(getattr(result, "values", getattr(result, "value", None)))


def one_setting(rows, imputation, question, kind, epsilon, runs):
    """Width of intervals, their coverage of the noiseless answer, and the error of answers."""
    exact = noiseless(rows, imputation, question)
    asked = ImputedStatistics(rows, imputation, budget=Filter(1e9))
    profile = asked._session._rows.rows.ways(asked._change).profile
    facts = profile, len(rows), rows.schema[imputation.impute[0]]
    cost = Cost(privacy_measure="pure", amount=epsilon)
    best, halves, held, errors = oracle(*facts, kind, epsilon), [], 0, []
    for _ in range(runs):
        answer = asked.answer(question, cost)
        intervals = np.array(getattr(answer, "intervals", None) or [answer.interval])
        value = np.atleast_1d(getattr(answer, "values", getattr(answer, "value", None)))
        held += bool(((intervals[:, 0] <= exact) & (exact <= intervals[:, 1])).all())
        halves.append(float(np.median(intervals[:, 1] - intervals[:, 0]) / 2))
        errors.append(float(np.median(np.abs(value - exact))))
    size = facts[2].size if kind == "histogram" else 1
    part = {"mean": 0.8, "share": 0.8}.get(kind, 1.0)  # share that the library spends on noise
    plans = list(_plans(epsilon * part, 1.0, 1.0, size))
    chosen = oracle(*facts, kind, epsilon, plans)
    return {
        "oracle": best, "half": statistics.median(halves), "chosen": chosen, "runs": runs,
        "held": held / runs, "error": statistics.median(errors),
    }  # fmt: skip


def width(runs, epsilons):
    """Measure the settings that the file of results lacks, and print the table."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, rows, fill, of in tables():
        for kind, question in questions(of).items():
            for epsilon in epsilons:
                key = f"{name}, {kind}, {epsilon:g}"
                if key not in results:
                    many = runs if epsilon == 1 else runs // 10
                    results[key] = one_setting(rows, fill, question, kind, epsilon, many)
                    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
                f = results[key]
                print(
                    f"| {key.replace(', ', ' | ')} | {f['oracle']:.3g} | {f['half']:.3g} "
                    f"| {f['half'] / f['oracle']:.2f} | {f['chosen']:.3g} | {f['error']:.3g} "
                    f"| {f['held']:.3f} ({f['runs']:,}) |",
                    flush=True,
                )


def main():
    """Measure widths or coverage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("width", "coverage"))
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--epsilon", type=float, nargs="*", default=None)
    parser.add_argument("--mechanisms", nargs="*", default=["mcar", "mar"])
    parser.add_argument("--names", nargs="*", default=list(ASKED))
    options = parser.parse_args()
    start = time.process_time()
    if options.what == "width":
        width(options.runs, options.epsilon or (0.3, 1.0, 3.0, 10.0))
    else:
        facts = (
            options.rows,
            options.runs,
            options.epsilon or (1.0, 3.0),
            options.mechanisms,
            options.names,
        )
        coverage(*facts)
    print(f"{time.process_time() - start:.0f} s of CPU")


if __name__ == "__main__":
    main()
