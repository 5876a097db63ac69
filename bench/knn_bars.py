r"""Error bars of statistics on imputed data: how wide, and how often they hold.

    python bench/knn_bars.py width              # half widths beside the oracle's (1 minute of CPU)
    python bench/knn_bars.py coverage --runs 500    # on simulated populations (see --help)

The oracle spends the whole epsilon on the answer and knows the scale of its noise. The population
is made up: income depends on age, sex and schooling; what is missing depends on them too (MAR 35 %)
or on nothing (MCAR 20 %); a sample is drawn, values go missing, the question is asked.
`interval` is to hold the answer without noise on the completed sample;
`total_interval` the value of the population.
"""

import argparse
import statistics
import time
import warnings

import numpy as np
import pandas as pd

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.accounting import Budget, Cost
from missdp.accounting.exact import zcdp_rho
from missdp.errors import WeakGuaranteeWarning
from missdp.mechanisms.smooth import plan_smooth
from missdp.statistics import ImputedStatistics, QueryRequest, ScaleRelease, run_query

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
    "mean": {"statistic": "mean", "of": "income"},
    "mean of women": {"statistic": "mean", "of": "income", "where": "sex = 'f'"},
    "share": {"statistic": "proportion", "of": "income >= 60"},
    "count": {"statistic": "count", "where": "income >= 60"},
    "sum": {"statistic": "sum", "of": "income", "where": "age < 40"},
}
FILL = {"impute": "income", "match": "age,sex,school"}


def draw(rows, rng):
    """Return complete rows of the population."""
    age, sex = rng.integers(0, 12, rows), rng.integers(0, 2, rows)
    school = np.clip(np.round(rng.normal(0.8 + 0.02 * age, 0.8)), 0, 2).astype(int)
    income = np.exp(3.2 + 0.04 * age + 0.25 * sex + 0.3 * school + rng.normal(0, 0.5, rows))
    frame = {"age": 20 + 5 * age, "sex": np.array(["f", "m"])[sex]}
    frame["school"] = np.array(["low", "mid", "high"])[school]
    return pd.DataFrame(frame | {"income": np.minimum(income, 200.0)})


def with_holes(frame, law, rng):
    """Let incomes go missing, completely at random or given age and sex."""
    chance = np.full(len(frame), 0.2)
    if law == "mar":
        chance = 0.1 + 0.35 * (frame.age >= 50) + 0.3 * (frame.sex == "f")
    return frame.assign(income=frame.income.where(rng.random(len(frame)) >= chance))


def truth(frame, name):
    """Return the answer on complete rows."""
    some = frame[frame.sex == "f"] if "women" in name else frame
    some = some[some.age < 40] if name == "sum" else some
    found = {"mean": some.income.mean, "share": (some.income >= 60).mean}
    found |= {"count": (some.income >= 60).sum, "sum": some.income.sum}
    return float(found[name.split()[0]]())


def asked(table, name, epsilon, **how):
    request = QueryRequest(**FILL, **ASKED[name], epsilon=epsilon, **how)
    return run_query(table, request, budget=Budget(epsilon * (1 + 1e-9)))


def coverage(rows, runs, epsilons, laws, names):
    """Print how often total intervals hold the value of the population."""
    rng = np.random.default_rng(7)
    everyone = draw(1_000_000, rng)
    exact = {n: truth(everyone, n) * (rows / 1e6 if n in ("count", "sum") else 1) for n in names}
    for law in laws:
        for epsilon in epsilons:
            held, widths, noise = ({n: [] for n in names} for _ in range(3))
            for _ in range(runs):
                table = Table.read(with_holes(draw(rows, rng), law, rng), SCHEMA)
                for name in names:
                    answer = asked(table, name, epsilon)
                    low, high = answer.total_interval
                    held[name].append(low <= exact[name] <= high)
                    widths[name].append((high - low) / 2)
                    noise[name].append((answer.interval[1] - answer.interval[0]) / 2)
            for name in names:
                about = f"{law:5s} epsilon {epsilon:4g}  {name:14s} held {np.mean(held[name]):.3f}"
                half = [statistics.mean(found[name]) for found in (widths, noise)]
                print(f"{about}  half width {half[0]:.4g}, of noise alone {half[1]:.4g}")


def oracle(table, name, epsilon):
    """Half width of whoever spends everything on the answer, and knows the scale of its noise."""
    request = QueryRequest(**FILL, **ASKED[name], epsilon=epsilon)
    door = ImputedStatistics(table, request.imputation(SCHEMA), budget=Budget(1.0))._door
    rows, n = door._rows, len(table)
    part, donee, own = {"mean": (0.9, 2, 100.0), "sum": (1, 1, 200.0)}.get(name, (1, 1, 1.0))
    part = 0.85 if name == "share" else part
    noise = plan_smooth(epsilon * part, own=1.0, donee=float(donee))
    bound = rows.bound(own=1.0, donee=float(donee), beta=noise.beta)
    unit = own / n if name in ("mean", "share") else own
    return noise.quantile(0.95) * bound * unit


def asked_with(delta, table, name, epsilon):
    """Ask with (epsilon, delta): half of delta lets the scale fail, half of the rest bounds it."""
    rho = zcdp_rho(epsilon, delta / 2) * (1 - 1e-9)
    request = QueryRequest(**FILL, **ASKED[name], epsilon=1.0, uncertainty="noise")
    asking = ImputedStatistics(
        table,
        request.imputation(SCHEMA),
        budget=Budget(epsilon, delta),
        scale=ScaleRelease(rho=rho / 2, delta=delta / 2),
    )
    return asking.answer(request.question(SCHEMA), Cost(currency="zcdp", amount=rho / 2 * 0.999))


def width(rows, epsilons, names, runs, delta, law):
    """Print half widths of error bars, ours and the oracle's."""
    rng = np.random.default_rng(7)
    table = Table.read(with_holes(draw(rows, rng), law, rng), SCHEMA)
    for epsilon in epsilons:
        for name in names:
            best, half = oracle(table, name, epsilon), []
            for _ in range(runs):
                answer = (
                    asked(table, name, epsilon)
                    if not delta
                    else asked_with(delta, table, name, epsilon)
                )
                half.append((answer.interval[1] - answer.interval[0]) / 2)
            ours = statistics.median(half)
            about = f"epsilon {epsilon:4g}  {name:14s} oracle {best:.4g}"
            print(f"{about}  ours {ours:.4g}  {ours / best:.2f}", flush=True)


def main():
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("width", "coverage"))
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--epsilon", type=float, nargs="*", default=None)
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--laws", nargs="*", default=["mcar", "mar"])
    parser.add_argument("--names", nargs="*", default=list(ASKED))
    found = parser.parse_args()
    start = time.process_time()
    if found.what == "width":
        epsilons, names = found.epsilon or (0.3, 1.0, 3.0, 10.0), found.names[:1] + found.names[2:]
        width(found.rows, epsilons, names, found.runs, found.delta, found.laws[-1])
    else:
        facts = found.rows, found.runs, found.epsilon or (1.0, 3.0), found.laws, found.names
        coverage(*facts)
    print(f"{time.process_time() - start:.0f} s of CPU")


if __name__ == "__main__":
    main()
