"""missdp and other libraries on equal incomplete tables, with a user's defaults and public facts.

Each fit gets rows with missing values, the levels and bounds of every column, and the list of
integer columns. No fit gets bins.  The families of missdp find bins privately, as dpmm does.
SmartNoise and the published AIM on `mbi` need codes. The codes are ten equal bins of the public
bounds, and "missing" as one more level. Their numbers are drawn uniformly in the bin.  "Rows
dropped" is missdp on complete rows.

The scores are those of `missdp.evaluate.fidelity`, against the complete truth of the fitted rows.
`fidelity.py` prints them, too. `two_way` has bins that do not depend on the truth. F1 is computed
on rows that no fit read.  CPU seconds and memory are totals of the process.  A method that does not
finish within the limit is not tried again on that table.  Each library runs in a separate
environment (`bench/.environments/NAME`, made with `python -m venv` at the first run).

Two more tables are hmeq with its real missing values (`real_missing.py`). There, "missing" is one
more level, and the score is the distance with numbers cut at deciles. A library that does not
install has the reason as its result.

    python bench/compare.py                     # continues bench/results/compare.json
    python bench/compare.py --tables "RAND, MAR 20 %" --methods AllPairs "dpmm MST" --runs 1
    python bench/compare.py --show              # the tables of three pages
    python bench/compare.py --wide              # wide questionnaires: see wide_peers.py

The tables of hmeq:

    python bench/compare.py --tables "hmeq, bounds" --methods AllPairs AIM MST "dpmm MST"
    python bench/compare.py --tables "hmeq, deciles" --methods AllPairs PrivSyn "mbi AIM"

Of missdp it needs an installed wheel:

    pip install missdp-*.whl scikit-learn statsmodels xgboost-cpu
"""

import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import real_missing
from fidelity import PEERS, READ, default_schema, fit_one, scoring_schema
from missing_elsewhere import LIBRARIES, environment
from real_missing import BOUNDS, DECILES

import missdp
from missdp import Table
from missdp.accounting import zcdp_rho
from missdp.evaluate import MAR, classifier_f1, fidelity

HERE = Path(__file__).resolve().parent
ADULT = HERE.parents[1] / "shared" / "data" / "adult"
RESULTS = HERE / "results" / "compare.json"
LIBRARIES["mbi"] = (("mbi==2.0.0", "pandas==3.1.1"), None)
LIBRARIES["privsyn"] = (("privsyn-core==0.1.1", "pandas"), None)
DISTRIBUTIONS = {"smartnoise": "smartnoise-synth", "privsyn": "privsyn-core"}
LIMIT = 900  # CPU seconds of a fit. A fit that waits ends after four times as many seconds
LEARNERS = ("LogisticRegression", "DecisionTree", "XGBoost")
COLUMNS = {"two_way_equal": "2-way, equal", "two_way_deciles": "2-way, deciles", "ks": "KS"}
COLUMNS |= {"mean": "mean", "sd": "SD", "rank_corr": "rank", "slope": "slope", "f1": "F1"}
COLUMNS |= {"cpu_s": "CPU s", "gb": "GB"}
OURS = {"AllPairs": "all-pairs", "AIM": "aim", "MST": "mst"}
FAMILIES = tuple(OURS)
OURS |= {"AllPairs, rows dropped": "all-pairs/complete-rows"}
# Code that converts to codes and back: ten equal bins or declared edges, and "missing" as the last
# level.
CODED = """
edges = {n: np.linspace(domain[n]["lower"], domain[n]["upper"], 11) for n in numbers}
edges |= {n: np.array(domain[n]["edges"]) for n in numbers if "edges" in domain[n]}
sizes = {n: len(edges[n]) - 1 if n in numbers else len(levels[n]) for n in domain}
codes = {}
for name in domain:
    place = {level: code for code, level in enumerate(levels.get(name, ()))}
    cells = frame[name].to_numpy()
    code = frame[name].map(place) if place else np.searchsorted(edges[name][1:-1], cells, "right")
    codes[name] = np.where(frame[name].isna(), sizes[name], code).astype(int)

def write(made_rows):
    rng, out = np.random.default_rng(), {}
    for name in domain:
        code = np.asarray(made_rows[name]).astype(int)
        observed = np.minimum(code, sizes[name] - 1)
        if name in numbers:
            cells = rng.uniform(edges[name][observed], edges[name][observed + 1])
            cells = np.floor(cells) if name in integers else cells
        else:
            cells = np.array(levels[name], dtype=object)[observed]
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
PRIVSYN = """
from privsyn import PrivSynModel
model = PrivSynModel(epsilon=epsilon, delta=delta, extra_params={settings})
model.fit(pd.DataFrame(codes), dict(zip(domain, (k + 1 for k in sizes.values()))))
write(model.sample(len(frame)))
"""
# dpmm with codes as categories. It models missing cells itself.
DPMM_CODED = """
from dpmm.pipelines.mst import MSTPipeline
places = {n: [str(k) for k in range(sizes[n])] for n in domain}
coded = pd.DataFrame({n: pd.Series(codes[n].astype(str)).where(codes[n] < sizes[n]) for n in codes})
model = MSTPipeline(epsilon=epsilon, delta=delta, proc_epsilon=None, n_jobs=1)
model.fit(coded, domain={n: {"categories": v} for n, v in places.items()})
made_rows = model.generate(n_records=len(coded))
write({n: made_rows[n].astype(float).fillna(sizes[n]) for n in domain})
"""
ELSEWHERE = {name: PEERS[name] for name in ("dpmm MST", "dpmm AIM")}
ELSEWHERE |= {
    f"SmartNoise {n.upper()}": ("smartnoise", CODED + SMARTNOISE.format(name=n))
    for n in ("mst", "aim")
}
ELSEWHERE |= {"mbi AIM": ("mbi", CODED + MBI)}
TRUTH = "the truth, no privacy"
METHODS = (TRUTH, *OURS, *ELSEWHERE)
ELSEWHERE |= {
    "dpsynth MST": PEERS["dpsynth MST"],
    "PrivSyn": ("privsyn", CODED + PRIVSYN.format(settings={})),
}
# The default stops after one selected pair, unless a pair gains more than 20,000 rows.
PAIRS = {"marg_sel_threshold": 1.0}
ELSEWHERE |= {"PrivSyn, threshold 1": ("privsyn", CODED + PRIVSYN.format(settings=PAIRS))}
ELSEWHERE |= {"dpmm MST, coded": ("dpmm", CODED + DPMM_CODED)}
OF_HMEQ = {BOUNDS: (*FAMILIES, "dpmm MST", "dpmm AIM", "dpsynth MST")}
OF_HMEQ[DECILES] = (*FAMILIES, "dpmm MST, coded", "SmartNoise MST", "SmartNoise AIM")
OF_HMEQ[DECILES] += ("mbi AIM", "PrivSyn", "PrivSyn, threshold 1")


def adult(file):
    """Public facts, the truth, the published file with missing values, targets of F1."""
    domain = json.loads((ADULT / "domain.json").read_text("utf-8"))
    truth, incomplete = (pd.read_parquet(ADULT / f"{name}.parquet") for name in ("truth", file))
    return domain, truth, incomplete, ("income", "sex", "marital-status")


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
    BOUNDS: lambda: real_missing.hmeq(BOUNDS),
    DECILES: lambda: real_missing.hmeq(DECILES),
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


def limited(command, errors, limit=LIMIT):
    """Run a command. Return its exit status (None if it took too long), CPU seconds and GB."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
    resource.prlimit(process.pid, resource.RLIMIT_CPU, (limit, limit + 5))
    late = []

    def kill(*_):
        late.append(True)
        process.kill()

    signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, 4 * limit)
    _, status, usage = os.wait4(process.pid, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    cost = {"cpu_s": usage.ru_utime + usage.ru_stime, "gb": usage.ru_maxrss / 2**20}
    stopped = late or process.returncode == -signal.SIGXCPU
    return None if stopped else process.returncode, cost


def command_of(name: str, title: str, rows: int) -> list[str]:
    """Return the command that fits a method. The environment of a library is made if needed."""
    if name in OURS:
        missing = "+missing" if title in OF_HMEQ else ""
        return [sys.executable, __file__, "--one", OURS[name] + missing, str(rows)]
    library, code = ELSEWHERE[name]
    return [str(environment(library)), "-c", READ + code]


def scored(name, title, truth, incomplete, test, domain, targets):
    """Fit one method. Return its scores and costs, or the problem."""
    with tempfile.TemporaryDirectory() as folder:
        private, facts, made = (
            Path(folder) / part for part in ("in.csv", "domain.json", "out.csv")
        )
        incomplete.to_csv(private, index=False)
        facts.write_text(json.dumps(domain), "utf-8")
        arguments = [*map(str, (private, facts, made)), "1", "1e-6", str(zcdp_rho(1, 1e-6))]
        try:
            command = ["true"] if name == TRUTH else command_of(name, title, len(truth))
        except SystemExit as problem:  # the library does not install
            return {"problem": str(problem)[:150]}
        if name == TRUTH:
            truth.to_csv(made, index=False)
        with (Path(folder) / "errors").open("w+") as errors:
            status, cost = limited([*command, *arguments], errors)
            errors.seek(0)
            message = (errors.read().strip().splitlines() or ["failed"])[-1][:100]
        if status is None:
            return cost | {"problem": f"did not finish in {LIMIT // 60} CPU minutes"}
        if status:
            return cost | {"problem": message}
        if title in OF_HMEQ:
            return real_missing.distances(truth, pd.read_csv(made)) | cost
        schema = scoring_schema(domain)
        one, other = Table.read(truth, schema), Table.read(made, schema)
    return fidelity(one, other).scores | {"f1": mean_f1(one, other, test, targets)} | cost


def mean_f1(truth: Table, made: Table, test: pd.DataFrame, targets: tuple[str, ...]) -> float:
    """Return the mean F1 of three classifiers that learn from synthetic rows."""
    from nine_learners import NINE

    rows = Table.read(test, truth.schema)
    learners = {name: NINE[name] for name in LEARNERS}
    arguments = {"test": rows, "attributes": targets, "learners": learners}
    return classifier_f1(truth, made, random_state=0, **arguments).mean


def version(name: str) -> str:
    """Return name and version of the package of a method, as it is installed."""
    if name in OURS:
        return f"missdp {missdp.__version__}"
    library = ELSEWHERE[name][0]
    package = DISTRIBUTIONS.get(library, library)
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    try:
        command = [str(environment(library)), "-c", code]
    except SystemExit:  # the library does not install
        return LIBRARIES[library][0][0].replace("==", " ")
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return f"{package} {run.stdout.strip()}"


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
        of_method = [r for r in results if r["method"] == name and r["table"] in SHORT]
        good = [r for r in of_method if "problem" not in r]
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
    """The tables of measured.md: means over runs, and the number of runs if fewer than three."""
    out = []
    for table in dict.fromkeys(row["table"] for row in results if row["table"] in TITLES):
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
    """A mean as the page shows it. The truth has no cost, and its errors are 0."""
    if name == TRUTH and column in ("cpu_s", "gb"):
        return ""
    if column == "cpu_s" or number in (0, 1):
        return f"{number:.0f}"
    return (f"{number:.1f}" if column == "gb" else f"{number:.3f}").removeprefix("0")


def pending(results, options):
    """Yield table, method and number of every run without a result.

    A method that had a problem on a table is not tried again.
    """
    for run in range(options.runs):
        for title in options.tables:
            for name in options.methods or OF_HMEQ.get(title, METHODS):
                before = [r for r in results if (r["table"], r["method"]) == (title, name)]
                if not any(r["run"] == run or "problem" in r for r in before):
                    yield title, name, run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--methods", nargs="+", choices=[TRUTH, "missdp", *OURS, *ELSEWHERE])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rows", type=int, default=10_000, help="rows of each fit")
    parser.add_argument("--show", action="store_true", help="print the stored results")
    parser.add_argument("--wide", action="store_true", help="fit wide questionnaires")
    options = parser.parse_args()
    if options.wide:
        import wide_peers

        if not options.show:
            wide_peers.run(options.runs, options.methods)
        print(wide_peers.shown())
        return
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else []
    if options.show:
        print("\n\n".join([summary(results), *shown(results), *real_missing.shown(results)]))
        print(f"\nhmeq, rows drawn again: {real_missing.resampled()}")
        return
    tables = {title: TABLES[title]() for title in options.tables}
    for title, name, run in pending(results, options):
        domain, truth, incomplete, targets = tables[title]
        order = np.random.default_rng(run).permutation(len(truth))
        fit, test = order[: options.rows], order[options.rows :][:5000]
        parts = truth.iloc[fit], incomplete.iloc[fit], truth.iloc[test]
        result = {"table": title, "method": name, "run": run}
        result |= {"version": version(name)} if name != TRUTH else {}
        result |= scored(name, title, *parts, domain, targets)
        results.append(result)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
        print(time.strftime("%H:%M:%S"), result, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        fit_one(*sys.argv[2:])
    else:
        main()
