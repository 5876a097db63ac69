"""Ours and other libraries on the same incomplete tables, with a user's defaults and public facts.

Each fit gets the same rows with their missing values, levels and bounds of every column, and which
numbers are whole; nobody is told bins.  Ours find them privately, as dpmm does.  SmartNoise and the
published AIM on `mbi` need codes: ten equal bins of the public bounds, and "missing" as one more
level; numbers are drawn uniformly in their bin again.  "Rows dropped" is ours on complete rows.

Scores are those of `missdp.evaluate.fidelity` (as `fidelity.py` beside this file prints them, and
under `two_way` without bins chosen by the truth), against the complete truth of the fitted rows,
and F1 on rows that nobody saw.  CPU seconds and memory are of the whole process.  A method that
does not finish within the limit is not tried again on that table.  Each library runs in an
environment of its own (`bench/.environments/NAME`, made with `python -m venv` at the first run).

    python bench/compare.py                     # goes on from bench/results/compare.json
    python bench/compare.py --tables rand --methods AllPairs "dpmm MST" --runs 1
    python bench/compare.py --show              # the tables of docs/comparison.md and measured.md
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from fidelity import PEERS, READ, default_schema, fit_one, scoring_schema
from holes_elsewhere import LIBRARIES, environment

from missdp import Table
from missdp.accounting import zcdp_rho
from missdp.evaluate import MAR, classifier_f1, fidelity

HERE = Path(__file__).resolve().parent
ADULT = HERE.parents[1] / "shared" / "data" / "adult"
RESULTS = HERE / "results" / "compare.json"
LIBRARIES["mbi"] = (("mbi==2.0.0", "pandas==3.1.1"), None)
LIMIT = 900
LEARNERS = ("LogisticRegression", "DecisionTree", "XGBoost")
COLUMNS = {"two_way_equal": "2-way, equal", "two_way_deciles": "2-way, deciles", "ks": "KS"}
COLUMNS |= {"mean": "mean", "sd": "SD", "rank_corr": "rank", "slope": "slope", "f1": "F1"}
COLUMNS |= {"cpu_s": "CPU s", "gb": "GB"}
OURS = {"AllPairs": "all-pairs", "AIM": "aim", "MST": "mst"}
OURS |= {"AllPairs, rows dropped": "all-pairs/complete-rows"}
# To codes and back again: ten equal bins, and "missing" as the last level.
CODED = """
edges = {n: np.linspace(domain[n]["lower"], domain[n]["upper"], 11) for n in numbers}
sizes = {n: 10 if n in numbers else len(levels[n]) for n in domain}
codes = {}
for name in domain:
    place = {level: code for code, level in enumerate(levels.get(name, ()))}
    cells = frame[name].to_numpy()
    code = frame[name].map(place) if place else np.searchsorted(edges[name][1:-1], cells, "right")
    codes[name] = np.where(frame[name].isna(), sizes[name], code).astype(int)

def write(found):
    rng, out = np.random.default_rng(), {}
    for name in domain:
        code = np.asarray(found[name]).astype(int)
        seen = np.minimum(code, sizes[name] - 1)
        if name in numbers:
            cells = rng.uniform(edges[name][seen], edges[name][seen + 1])
            cells = np.floor(cells) if name in whole else cells
        else:
            cells = np.array(levels[name], dtype=object)[seen]
        out[name] = pd.Series(cells).where(code < sizes[name])
    pd.DataFrame(out).to_csv(made, index=False)
"""
SMARTNOISE = """
from snsynth import Synthesizer
model = Synthesizer.create("{name}", epsilon=epsilon, delta=delta)
coded = pd.DataFrame(codes).astype(str)
model.fit(coded, categorical_columns=list(coded.columns), preprocessor_eps=0.0)
write(model.sample(len(coded)))
"""
MBI = f"""
sys.path.insert(0, {str(HERE)!r})
from mbi_aim import Dataset, Domain, Loop
held = Dataset(codes, Domain(list(codes), [sizes[n] + 1 for n in codes]))
loop = Loop(held, rho, 1.0, np.random.default_rng())
write(loop.run().synthetic_data(rows=len(frame)).to_dict())
"""
ELSEWHERE = {name: PEERS[name] for name in ("dpmm MST", "dpmm AIM")}
ELSEWHERE |= {
    f"SmartNoise {n.upper()}": ("smartnoise", CODED + SMARTNOISE.format(name=n))
    for n in ("mst", "aim")
}
ELSEWHERE |= {"mbi AIM": ("mbi", CODED + MBI)}
TRUTH = "the truth, no privacy"
METHODS = (TRUTH, *OURS, *ELSEWHERE)


def adult(file):
    """Public facts, the truth, the published file with missing values, targets of F1."""
    domain = json.loads((ADULT / "domain.json").read_text("utf-8"))
    truth, holed = (pd.read_parquet(ADULT / f"{name}.parquet") for name in ("truth", file))
    return domain, truth, holed, ("income", "sex", "marital-status")


def rand():
    """The RAND health insurance experiment (statsmodels), five columns 20 % missing at random."""
    from statsmodels.datasets import randhie

    truth = randhie.load_pandas().data
    health = truth.pop("hlthg") + 2 * truth.pop("hlthf") + 3 * truth.pop("hlthp")
    truth["health"] = health.astype(int).map(dict(enumerate(("excellent", "good", "fair", "poor"))))
    truth["idp"] = truth["idp"].astype(int).map({0: "no", 1: "yes"})
    tops = {"mdvis": 100, "lncoins": 5, "lpi": 10, "fmde": 10, "physlm": 1, "disea": 60}
    domain = {n: {"kind": "numeric", "lower": 0, "upper": top} for n, top in tops.items()}
    domain["mdvis"]["integer"] = True
    domain |= {
        n: {"kind": "categorical", "levels": sorted(set(truth[n]))} for n in ("idp", "health")
    }
    held = MAR(rate=0.2, drivers=("idp", "lncoins", "fmde")).apply(
        Table.read(truth, default_schema(domain)), random_state=0
    )
    return domain, truth[list(domain)], held.to_native("pandas"), ("idp", "health", "mdvis")


TABLES = {
    "Adult, MCAR 20 %": lambda: adult("mcar_0.2"),
    "Adult, MAR 20 %": lambda: adult("mar_0.2"),
    "RAND, MAR 20 %": rand,
}
TITLES = {
    "Adult, MCAR 20 %": "Adult, 20 % missing completely at random",
    "Adult, MAR 20 %": "Adult, 20 % missing at random",
    "RAND, MAR 20 %": "RAND health insurance experiment, 20 % missing at random",
}
SHORT = {
    "RAND, MAR 20 %": "RAND",
    "Adult, MCAR 20 %": "Adult, MCAR",
    "Adult, MAR 20 %": "Adult, MAR",
}
FEW = {1: ", one run", 2: ", two runs"}


def limited(command, errors):
    """Run a command; return its exit status or None if it took too long, CPU seconds and GB."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
    late = []

    def kill(*_):
        late.append(True)
        process.kill()

    signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    _, status, usage = os.wait4(process.pid, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    cost = {"cpu_s": usage.ru_utime + usage.ru_stime, "gb": usage.ru_maxrss / 2**20}
    return None if late else process.returncode, cost


def scored(name, truth, holed, test, domain, targets):
    """Fit one method; return its scores and costs, or what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        private, told, made = (Path(folder) / part for part in ("in.csv", "domain.json", "out.csv"))
        holed.to_csv(private, index=False)
        told.write_text(json.dumps(domain), "utf-8")
        given = [*map(str, (private, told, made)), "1", "1e-6", str(zcdp_rho(1, 1e-6))]
        if name == TRUTH:
            truth.to_csv(made, index=False)
            command = ["true"]
        elif name in OURS:
            command = [sys.executable, __file__, "--one", OURS[name], str(len(truth))]
        else:
            library, code = ELSEWHERE[name]
            command = [str(environment(library)), "-c", READ + code]
        with (Path(folder) / "errors").open("w+") as errors:
            status, cost = limited([*command, *given], errors)
            errors.seek(0)
            said = (errors.read().strip().splitlines() or ["failed"])[-1][:100]
        if status is None:
            return cost | {"problem": f"did not finish in {LIMIT // 60} minutes"}
        if status:
            return cost | {"problem": said}
        schema = scoring_schema(domain)
        one, other = Table.read(truth, schema), Table.read(made, schema)
    from nine_learners import NINE

    learners = {name: NINE[name] for name in LEARNERS}
    given = {"test": Table.read(test, schema), "attributes": targets, "learners": learners}
    f1 = classifier_f1(one, other, random_state=0, **given)
    return fidelity(one, other).scores | {"f1": f1.mean} | cost


def versions():
    """What runs: ours, and each library in its environment."""
    code = "import importlib.metadata as m; print(m.version({!r}))"
    found = {}
    for library, name in {"dpmm": "dpmm", "smartnoise": "smartnoise-synth", "mbi": "mbi"}.items():
        command = [str(environment(library)), "-c", code.format(name)]
        found[name] = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {name: version.strip() for name, version in found.items()}


def summary(results):
    """The table of docs/comparison.md: distance and F1 on each table, and seconds over all.

    Parameters
    ----------
    results : list of dict
        The runs, as `RESULTS` keeps them.

    Returns
    -------
    str
        A Markdown table. A dash stands for a method that was not run or did not finish.
    """
    heads = [f"{what}: {table}" for what in ("distance", "F1") for table in SHORT.values()]
    lines = [f"| method | {' | '.join([*heads, 'CPU s'])} |", "|---" * (len(heads) + 2) + "|"]
    for name in METHODS[1:]:
        good = [r for r in results if r["method"] == name and "problem" not in r]
        cells = [
            written(column, statistics.mean(scores), name) if scores else "–"
            for column in ("two_way_equal", "f1")
            for table in SHORT
            for scores in [[r[column] for r in good if r["table"] == table]]
        ]
        seconds = [
            statistics.mean(r["cpu_s"] for r in good if r["table"] == table)
            for table in {r["table"] for r in good}
        ]
        ends = dict.fromkeys(f"{end:.0f}" for end in (min(seconds), max(seconds))) if good else ()
        cells.append(" to ".join(ends) or "did not finish")
        lines.append(f"| {name.replace('mbi', '`mbi`')} | {' | '.join(cells)} |")
    return "\n".join(lines)


def shown(results):
    """The tables of measured.md: means over runs, and how many these are if fewer than three."""
    out = []
    for table in dict.fromkeys(row["table"] for row in results):
        lines = [f"| {TITLES[table]} | {' | '.join(COLUMNS.values())} |"]
        lines.append("|---" * (len(COLUMNS) + 1) + "|")
        for name in METHODS:
            runs = [r for r in results if (r["table"], r["method"]) == (table, name)]
            good = [r for r in runs if "problem" not in r]
            called = name.replace("mbi", "`mbi`") + FEW.get(len(good), "")
            if good:
                cells = [written(c, statistics.mean(r[c] for r in good), name) for c in COLUMNS]
                lines.append(f"| {called} | {' | '.join(cells)} |")
            elif runs:
                said = f"{runs[0]['problem']} ({runs[0]['cpu_s']:.0f} CPU s)"
                lines.append(f"| {called} | {said} |{' |' * (len(COLUMNS) - 1)}")
        out.append("\n".join(lines).replace("|  |  |", "| | |"))
    return out


def written(column, number, name):
    """A mean as the page has it: the truth takes nothing, and is right."""
    if name == TRUTH and column in ("cpu_s", "gb"):
        return ""
    if column == "cpu_s" or number in (0, 1):
        return f"{number:.0f}"
    return (f"{number:.1f}" if column == "gb" else f"{number:.3f}").removeprefix("0")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rows", type=int, default=10_000, help="rows of each fit")
    parser.add_argument("--show", action="store_true", help="print what was kept")
    options = parser.parse_args()
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else []
    if options.show:
        print("\n\n".join([summary(results), *shown(results)]))
        return
    print(versions())
    tables = {title: TABLES[title]() for title in options.tables}
    for run in range(options.runs):
        for name in options.methods:
            for title, (domain, truth, holed, targets) in tables.items():
                before = [r for r in results if (r["table"], r["method"]) == (title, name)]
                if any(r["run"] == run or "problem" in r for r in before):
                    continue
                order = np.random.default_rng(run).permutation(len(truth))
                fit, test = order[: options.rows], order[options.rows :][:5000]
                parts = truth.iloc[fit], holed.iloc[fit], truth.iloc[test]
                found = {"table": title, "method": name, "run": run}
                found |= scored(name, *parts, domain, targets)
                results.append(found)
                RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
                print(time.strftime("%H:%M:%S"), found, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        fit_one(*sys.argv[2:])
    else:
        main()
