"""Wide questionnaires in other libraries: `compare.py --wide`.

Each library fits one table of `wide_tables.py` with 50 columns in a process of its own, with a
limit of CPU seconds, and one with 100 columns if it finished with 50. It gets levels and no rules.
"Not applicable" is one more level. dpmm models missing cells itself. The others have "missing" as
one more level, and such synthetic cells count as not drawn. missdp fits 50, 100, 300 and 842
columns with its default family.

The figures are those of `wide_tables.py`. A library that does not finish has the reason as its
result. Results are in `bench/results/wide.json`, and runs with a result are not repeated.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import compare
import numpy as np
import pandas as pd
import wide_tables

RESULTS = Path(__file__).resolve().parent / "results" / "wide.json"
PEERS = ("dpmm MST", "dpmm AIM", "mbi AIM", "SmartNoise MST", "SmartNoise AIM")
PEER_COLUMNS, OUR_COLUMNS = (50, 100), (50, 100, 300, 842)
LIMIT = 300  # CPU seconds of a fit
NOT_APPLICABLE = "not applicable"
SHOWN = {"one_way": "one-way", "strong": "strong pairs", "alone": "independent"}
SHOWN |= {"violations": "rows that break rules", "cpu_s": "CPU s", "gb": "GB"}


def peer(name, columns, seed):
    """Fit one library to one table, and return its figures, or the problem."""
    attributes, rules, frame, complete = wide_tables.questionnaire(columns, seed=seed)
    schema = wide_tables.schema_of(attributes, rules)
    table = wide_tables.Table.read(frame.drop(columns="weight"), schema)
    private, domain = pd.DataFrame(frame.drop(columns="weight")), {}
    for a in attributes:
        skipped = np.asarray(table.mask(a.name, "not_applicable"))
        private.loc[skipped, a.name] = NOT_APPLICABLE
        levels = [*a.levels, *[NOT_APPLICABLE] * bool(skipped.any())]
        domain[a.name] = {"kind": "categorical", "levels": levels}
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / part for part in ("in.csv", "domain.json", "out.csv")]
        private.to_csv(places[0], index=False)
        places[1].write_text(json.dumps(domain), "utf-8")
        rho = compare.zcdp_rho(1, wide_tables.DELTA)
        arguments = [*map(str, places), "1", str(wide_tables.DELTA), str(rho)]
        try:
            command = [*compare.command_of(name, "", len(frame)), *arguments]
        except SystemExit as problem:  # the library does not install
            return {"problem": str(problem)[:150]}
        with (Path(folder) / "errors").open("w+") as errors:
            status, cost = compare.limited(command, errors, LIMIT)
            errors.seek(0)
            message = (errors.read().strip().splitlines() or ["failed"])[-1][:100]
        if status is None:
            return cost | {"problem": f"did not finish in {LIMIT} CPU seconds"}
        if status:
            return cost | {"problem": message}
        made = pd.read_csv(places[2], dtype=str, keep_default_na=False, na_values=[""])
    return cost | figures(made, schema, complete, seed)


def figures(made, schema, complete, seed):
    """Distances of the rows that a library made, by the complete rows."""
    rng, codes = np.random.default_rng(seed), []
    for a in schema:
        place = {level: code for code, level in enumerate((*a.levels, NOT_APPLICABLE))}
        codes.append(made[a.name].map(place).fillna(-1).astype(int).to_numpy())
    codes = np.stack(codes, axis=1)
    missing, codes = codes < 0, np.maximum(codes, 0)
    truth = wide_tables.Truth(
        complete, np.zeros(complete.shape, dtype=bool), [a.size for a in schema]
    )
    alone = wide_tables.without_dependence(codes, schema, rng, rules=False)
    return {
        "one_way": truth.one_way_distance(codes, missing),
        "strong": truth.strong_distance(codes, missing),
        "alone": truth.strong_distance(alone, np.zeros(codes.shape, dtype=bool)),
        "violations": wide_tables.violations(codes, schema),
    }


def ours(columns, seed):
    """Fit missdp's default family in a process of its own, and return its figures."""
    attributes, rules, _, _ = wide_tables.questionnaire(columns, rows=10, seed=seed)
    family = wide_tables.default_synthesizer(wide_tables.schema_of(attributes, rules), delta=None)
    once_options = {"rows": wide_tables.ROWS, "workload": None, "epsilon": 1.0, "weighted": False}
    once_options |= {"real": False, "profile": None, "model": None}
    once_options |= {"columns": columns, "family": family, "seed": seed}
    command = [sys.executable, wide_tables.__file__, "--once", json.dumps(once_options)]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    run = json.loads(out.splitlines()[-1])
    return run | {"cpu_s": run["fit"] + run["sample"], "family": family}


def run(runs, methods=None):
    """Add the runs without a result to the stored results."""
    results = stored()
    todo = [("missdp", c, k) for k in range(runs) for c in OUR_COLUMNS]
    todo += [(name, c, k) for c in PEER_COLUMNS for name in PEERS for k in range(runs)]
    for name, columns, seed in todo:
        before = [r for r in results if r["method"] == name and r["columns"] <= columns]
        done = any((r["run"], r["columns"]) == (seed, columns) or "problem" in r for r in before)
        if done or (methods and name not in methods):
            continue
        result = {"method": name, "columns": columns, "run": seed}
        result |= ours(columns, seed) if name == "missdp" else peer(name, columns, seed)
        results.append(result)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
        print(result, flush=True)


def stored():
    """Stored results."""
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else []


def shown():
    """The table of docs/comparison.md: means over runs."""
    results = stored()
    lines = [
        f"| columns | method | {' | '.join(SHOWN.values())} |",
        "|---" * (len(SHOWN) + 2) + "|",
    ]
    for columns, name in sorted({(r["columns"], r["method"]) for r in results}):
        runs = [r for r in results if (r["method"], r["columns"]) == (name, columns)]
        good = [r for r in runs if "problem" not in r]
        if not good:
            lines.append(f"| {columns} | {name} | {runs[0]['problem']} |" + " |" * (len(SHOWN) - 1))
            continue
        means = {key: statistics.fmean(r[key] for r in good) for key in SHOWN}
        cells = [f"{means[k]:.4f}".lstrip("0") for k in ("one_way", "strong", "alone")]
        cells += [f"{means['violations']:,.0f}", f"{means['cpu_s']:.0f}", f"{means['gb']:.1f}"]
        lines.append(f"| {columns} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)
