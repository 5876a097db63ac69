"""Three rules of combining estimates, on the same synthetic tables: docs/referees/measured.md.

The population, the missing values and the 20 proportions are those of `bench/aim_coverage.py`. AIM
is fitted to 5,000 private rows at epsilon 1. It draws 20 tables by `sample(rows, multiple=20)`,
once of the private table's size and once ten times as large. Each rule is judged by the share of
95 % intervals that hold the population's value, and by their width. The width is a multiple of the
width that the spread of the estimates between repetitions needs.

    python bench/combining_rules.py            # appends to results/combining_rules.json
    python bench/combining_rules.py --tables   # prints the table of the page
    python bench/combining_rules.py --short    # three repetitions of few rows, writes nothing

40 repetitions take about 6 minutes of CPU time.
"""

import argparse
import json
import statistics
from pathlib import Path

import numpy as np
from aim_coverage import CELLS, draw, estimates, to_rows, with_missing
from scipy.special import stdtrit

from missdp.evaluate import combine_estimates
from missdp.synth import AIM

RESULTS = Path(__file__).parent / "results" / "combining_rules.json"
TITLES = {
    "ours": "$(1 + 1/m)\\,B - \\bar u$",
    "pool": "$(1 + 1/m)\\,B + \\bar u$ (`mice::pool`)",
    "pool.syn": "$B/m + \\bar u$ (`mice::pool.syn`)",
}


def rubin(q, u):
    """Half the width of Rubin's (1987) interval, for tables that repeat the observed cells."""
    m, between = len(q), max(q.var(ddof=1), 1e-12)  # tables may be equal by chance
    total = u.mean() + (1 + 1 / m) * between
    degrees = (m - 1) * (total / ((1 + 1 / m) * between)) ** 2
    return stdtrit(degrees, 0.975) * total**0.5


def reiter(q, u):
    """Half the width of Reiter's (2003) interval, for tables that are synthetic in part."""
    m, between = len(q), max(q.var(ddof=1), 1e-12)  # tables may be equal by chance
    total = u.mean() + between / m
    degrees = (m - 1) * (total / (between / m)) ** 2
    return stdtrit(degrees, 0.975) * total**0.5


def ours(q, u):
    combined = combine_estimates(q, u)
    return combined.interval()[1] - combined.estimate


RULES = {"ours": ours, "pool": rubin, "pool.syn": reiter}


def repetition(rng, truth, *, rows, tables, times, epsilon=1.0):
    """Errors of the combined estimates and half-widths by each rule, for each size of tables."""
    private = with_missing(draw(rows, rng), rng)
    model = AIM(epsilon=epsilon, delta=1e-6).fit(private)
    by_size = {}
    for size in times:
        drawn = [to_rows(t) for t in model.sample(size * rows, multiple=tables)]
        q, u = (
            np.array(part)[:, : len(CELLS)] for part in zip(*map(estimates, drawn), strict=True)
        )
        by_size[f"{size}"] = {
            "errors": [round(float(e), 6) for e in q.mean(axis=0) - truth],
            **{
                name: [round(float(rule(q[:, j], u[:, j])), 6) for j in range(q.shape[1])]
                for name, rule in RULES.items()
            },
        }
    return by_size


def table(runs):
    """Coverage and width of each rule, as printed on the page."""
    lines = [
        "| variance of the rule | size of each table | held the truth | width |",
        "|---|---|---|---|",
    ]
    for size, words in (("1", "as many rows as the private one"), ("10", "ten times as many")):
        errors = np.array([run[size]["errors"] for run in runs])
        fair = 2 * 1.96 * errors.std(axis=0, ddof=1)
        varied = fair > 0  # a rare cell may have an equal error in all of a few runs
        for name, title in TITLES.items():
            halves = np.array([run[size][name] for run in runs])
            held = (np.abs(errors) <= halves).mean()
            width = statistics.fmean(2 * halves.mean(axis=0)[varied] / fair[varied])
            lines.append(f"| {title} | {words} | {held:.3f} | {width:.2f} |")
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--tables", action="store_true", help="print the table of the page")
    parser.add_argument("--short", action="store_true", help="few rows, writes nothing")
    options = parser.parse_args(arguments)
    runs = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    if options.tables:
        print(table(runs))
        return
    truth = estimates(draw(200_000 if options.short else 2_000_000, np.random.default_rng(0)))[0][
        : len(CELLS)
    ]
    rng = np.random.default_rng()
    if options.short:
        runs = [repetition(rng, truth, rows=500, tables=3, times=(1, 10)) for _ in range(3)]
        print(table(runs))
        return
    for _ in range(options.repetitions):
        runs.append(repetition(rng, truth, rows=5_000, tables=20, times=(1, 10)))
        RESULTS.write_text(
            "[\n" + ",\n".join(json.dumps(run) for run in runs) + "\n]\n", encoding="utf-8"
        )
        print(len(runs), flush=True)
    print(table(runs))


if __name__ == "__main__":
    main()
