r"""Fidelity of numbers and relations: missdp without declared bins, and other libraries.

The script runs on any complete table with public facts about its columns, in the form of
`shared/data`: `{"age": {"kind": "numeric", "lower": 0, "upper": 99, "integer": true}, "sex":
{"kind": "categorical", "levels": ["f", "m"]}}`.  Values can be made missing (`--missing mcar:0.2`,
`--missing mar:0.35`). The scores are those of `missdp.evaluate.fidelity`, always against the
complete truth.  Each fit is a separate process, with a user's defaults.

Other libraries run in separate environments (`bench/.environments/NAME`), which
`missing_elsewhere.py` makes at the first run. The library dpmm 0.1.9 needs a `python3.11`, with
NumPy and pandas of its time. The library dpsynth is on no index: make its environment by hand.
These libraries get levels, bounds and the list of integer columns. They find bins themselves.

    python bench/fidelity.py ../shared/data/adult/truth.parquet ../shared/data/adult/domain.json
    python bench/fidelity.py TRUTH.parquet DOMAIN.json --missing mar:0.35 --peers "dpmm MST"
    python bench/fidelity.py TRUTH.parquet DOMAIN.json --methods all-pairs --epsilon 0.3 --runs 3

Two further runs measure the scores by the number of rows (drawn with replacement) and epsilon,
with bins of equal width for comparison, and the cost of bounds that are far too wide:

    python bench/fidelity.py TRUTH.parquet DOMAIN.json --methods all-pairs all-pairs:equal \
        --rows 1000 --epsilon 3
    python bench/fidelity.py TRUTH.parquet DOMAIN.json --methods all-pairs --generous 100 --runs 8
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import fields, replace
from pathlib import Path

from missing_elsewhere import environment

import missdp
from missdp import Categorical, Numeric, Schema, Table
from missdp.accounting import zcdp_rho
from missdp.evaluate import MAR, MCAR, fidelity

READ = """
import json, sys, warnings, numpy as np, pandas as pd
warnings.simplefilter("ignore")
private, domain, made = sys.argv[1:4]
epsilon, delta, rho = map(float, sys.argv[4:])
domain = json.load(open(domain))
numbers = [n for n in domain if domain[n]["kind"] == "numeric"]
types = {n: float if n in numbers else str for n in domain}
frame = pd.read_csv(private, dtype=types, keep_default_na=False, na_values=[""])
integers = [n for n in numbers if domain[n].get("integer")]
for name in integers:
    if frame[name].notna().all():
        frame[name] = frame[name].astype(int)
levels = {n: [str(v) for v in f["levels"]] for n, f in domain.items() if n not in numbers}
"""
# dpmm finds bins with a tenth of epsilon, and fits the model with the rest.
DPMM = """
from dpmm.pipelines.{module} import {name}Pipeline
facts = {{n: {{"categories": v}} for n, v in levels.items()}}
facts |= {{n: {{k: domain[n][k] for k in ("lower", "upper")}} for n in numbers}}
model = {name}Pipeline(epsilon=0.9 * epsilon, delta=delta, proc_epsilon=0.1 * epsilon, n_jobs=1)
model.fit(frame, domain=facts)
made_rows = model.generate(n_records=len(frame))[list(domain)]
made_rows[integers] = made_rows[integers].astype(float).apply(np.floor)
made_rows.to_csv(made, index=False)
"""
DPSYNTH = """
import dpsynth
from dpsynth import discrete_mechanisms
facts = {{n: dpsynth.CategoricalAttribute(v) for n, v in levels.items()}}
facts |= {{
    n: dpsynth.NumericalAttribute(domain[n]["lower"], domain[n]["upper"], clip_to_range=True)
    for n in numbers
}}
config = discrete_mechanisms.{name}Config()
model = dpsynth.TabularConfig(domains={{n: facts[n] for n in domain}}, discrete_mechanism=config)
made_rows = model.configure(zcdp_rho=rho)(np.random.default_rng(), frame)
made_rows = made_rows.synthetic_data[list(domain)]
made_rows[integers] = made_rows[integers].astype(float).apply(np.floor)
made_rows.to_csv(made, index=False)
"""
PEERS = {
    "dpmm MST": ("dpmm", DPMM.format(module="mst", name="MST")),
    "dpmm AIM": ("dpmm", DPMM.format(module="aim", name="AIM")),
    "dpsynth MST": ("dpsynth", DPSYNTH.format(name="MST")),
    "dpsynth AIM": ("dpsynth", DPSYNTH.format(name="AIM")),
}
PUBLIC = {"lower", "upper", "integer", "step", "edges"}
MECHANISMS = {"mcar": MCAR, "mar": MAR}
SHORT = {"two_way_equal": "equal", "two_way_deciles": "deciles", "two_way_worst": "worst"}
SHORT |= {"rank_corr": "rank", "subgroup_means": "groups", "quantiles": "quant"}


def default_schema(domain, **changes):
    """Schema of levels, bounds and steps, and of edges of bins where they are public."""
    allowed = {field.name for field in fields(Numeric)} & PUBLIC
    domain = {
        name: fact | {"edges": tuple(fact["edges"])} if "edges" in fact else fact
        for name, fact in domain.items()
    }
    return Schema(
        tuple(
            Numeric(**{"name": name, **{k: fact[k] for k in fact.keys() & allowed}, **changes})
            if fact["kind"] == "numeric"
            else Categorical(name=name, levels=tuple(map(str, fact["levels"])), nullable=True)
            for name, fact in domain.items()
        )
    )


def scoring_schema(domain):
    """Schema for scoring. Others write integers with fractions, so no number is rounded."""
    return Schema(
        tuple(
            replace(a, integer=False, outside="clamp", nullable=True)
            if isinstance(a, Numeric)
            else replace(a, outside="missing", nullable=True)
            for a in default_schema(domain)
        )
    )


def with_missing(truth, request, seed):
    """The table with values missing completely at random, or at random, drawn by the seed."""
    if request is None:
        return truth
    kind, _, rate = request.partition(":")
    return MECHANISMS[kind](rate=float(rate)).apply(truth, random_state=seed)


def fit_one(method, rows, private, domain, made, epsilon, delta, _rho):
    """Fit a family. ``all-pairs:equal`` has bins of equal width, ``aim/observed`` a strategy.

    With ``+missing`` at the end, the synthetic rows have missing cells.
    """
    method, _, cells = method.partition("+")
    schema = default_schema(json.loads(Path(domain).read_text("utf-8")), nullable=True)
    method, _, missing = method.partition("/")
    family, _, bins = method.partition(":")
    settings = {"epsilon": float(epsilon), "delta": float(delta), "bins": bins or "private"}
    settings |= {"missing": missing} if missing else {}
    model = missdp.synthesizers()[family](**settings).fit(Table.read(private, schema))
    drawn = model.sample_table(int(rows), missing_values="keep" if cells else "fill")
    drawn.to_native("pandas").to_csv(made, index=False)


def generous(domain, times):
    """Facts with bounds that are farther from 0 by a factor."""
    wider = {k: v for k, v in domain.items() if v["kind"] == "numeric"}
    low = {k: v["lower"] * (times if v["lower"] < 0 else 1) for k, v in wider.items()}
    return domain | {
        k: v | {"lower": low[k], "upper": v["upper"] * times} for k, v in wider.items()
    }


def commands(options, rows):
    """Commands by method. The families of missdp draw as many rows as the truth has."""
    by_method = {n: [sys.executable, __file__, "--one", n, str(rows)] for n in options.methods}
    for name in options.peers:
        library, code = PEERS[name]
        by_method[name] = [str(environment(library)), "-c", READ + code]
    return by_method


def scores(command, made, truth, scoring, limit):
    """Scores, seconds, and the problem."""
    began = time.monotonic()
    made.unlink(missing_ok=True)
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {}, limit, f"killed after {limit:g} s"
    seconds = time.monotonic() - began
    if run.returncode:
        return {}, seconds, (run.stderr.strip().splitlines() or ["failed"])[-1][:100]
    return fidelity(truth, made, schema=scoring).scores, seconds, ""


def line(name, values, seconds, problem, columns):
    numbers = "".join(f"{values.get(c, float('nan')):>9.4f}" for c in columns)
    return f"{name:<14}{numbers}{seconds:>8.0f}  {problem}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("truth", help="Parquet file without missing values")
    parser.add_argument("domain", help="JSON file with the public facts")
    parser.add_argument("--missing", help="mcar:RATE or mar:RATE")
    parser.add_argument("--methods", nargs="*", default=["all-pairs", "aim", "mst"])
    parser.add_argument("--peers", nargs="*", default=[], choices=list(PEERS))
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--rows", type=int, help="number of fitted rows, drawn with replacement")
    parser.add_argument(
        "--generous", type=float, default=1.0, help="factor by which bounds are wider"
    )
    parser.add_argument("--limit", type=float, default=3600, help="seconds per fit")
    parser.add_argument("--json", help="also write every run to this file")
    options = parser.parse_args()
    domain = json.loads(Path(options.domain).read_text("utf-8"))
    truth = Table.read(options.truth, default_schema(domain))
    scoring = scoring_schema(domain)
    complete = truth.to_native("pandas")
    best = fidelity(complete, complete, schema=scoring)
    columns, done = list(best.scores), []
    print(f"{'method':<14}" + "".join(f"{SHORT.get(c, c):>9}" for c in columns) + f"{'s':>8}")
    print(f"two samples of the truth would have deciles {best.by_chance:.4f}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        private, made = Path(folder) / "private.csv", Path(folder) / "made.csv"
        facts = Path(folder) / "domain.json"
        facts.write_text(json.dumps(generous(domain, options.generous)), "utf-8")
        for run in range(options.runs):
            incomplete = with_missing(truth, options.missing, run)
            rows = incomplete.to_native("pandas")
            if options.rows:
                rows = rows.sample(options.rows, replace=True, random_state=run)
            rows.to_csv(private, index=False)
            budget = options.epsilon, options.delta, zcdp_rho(options.epsilon, options.delta)
            arguments = [str(fact) for fact in (private, facts, made, *budget)]
            for name, command in commands(options, len(complete)).items():
                result = scores([*command, *arguments], made, complete, scoring, options.limit)
                done.append((name, *result))
                print(line(name, *result, columns), flush=True)
    print(f"\nmeans of {options.runs} runs, missing {options.missing}, epsilon {options.epsilon:g}")
    for name in dict.fromkeys(row[0] for row in done):
        runs = [row for row in done if row[0] == name and not row[3]]
        means = {
            c: statistics.mean(row[1].get(c, float("nan")) for row in runs) for c in columns if runs
        }
        seconds = statistics.mean(row[2] for row in runs) if runs else float("nan")
        print(line(name, means, seconds, "" if runs else "no run", columns))
    if options.json:
        rows = [
            dict(zip(("method", "scores", "seconds", "problem"), row, strict=True)) for row in done
        ]
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        fit_one(*sys.argv[2:])
    else:
        main()
