r"""How often intervals from `sample(multiple=)` hold the truth, and how wide they are.

A real, complete table is the population. Rows are drawn from it with replacement, values may be
made to go missing, a model is fitted, and estimates from its tables are combined. An interval is to
hold the value of the population. Widths are relative to those of the complete private rows
themselves, without noise. Every repetition is a line of a file, so that a run goes on where it
stopped, and several may write to files of their own.

    python bench/coverage.py TRUTH.parquet DOMAIN.json runs.jsonl --repetitions 40
    python bench/coverage.py TRUTH.parquet DOMAIN.json more.jsonl --method aim --holes mar:0.35
    python bench/coverage.py --report runs.jsonl more.jsonl
"""

import argparse
import json
import time
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from fidelity import default_schema, with_holes

import missdp
from missdp.evaluate import combine_estimates

KINDS = ("mean", "share", "subgroup mean", "difference", "correlation", "coefficient")
LARGE = 0.1  # share of the rows that a group must have


def ols(outcome, columns):
    """Coefficients but the constant, and their variances, whatever the residuals' variance is."""
    design = np.column_stack([np.ones(len(outcome)), *columns])
    inverse = np.linalg.pinv(design.T @ design)
    found = inverse @ design.T @ outcome
    score = design * (outcome - design @ found)[:, None]
    return found[1:], np.diag(inverse @ (score.T @ score) @ inverse)[1:]


def estimates(frame, numbers, groups):
    """Yield the name, value and squared standard error of everything that is estimated."""
    n = len(frame)
    values = {name: frame[name].to_numpy(float) for name in numbers}
    chosen = {(name, level): (frame[name] == level).to_numpy() for name, level in groups}
    for name, x in values.items():
        yield f"mean {name}", x.mean(), x.var() / n
    for (name, level), rows in chosen.items():
        share = rows.mean()
        yield f"share {name} {level}", share, share * (1 - share) / n
        for number, x in values.items():
            part = x[rows]
            yield f"subgroup mean {number} {name} {level}", part.mean(), part.var() / len(part)
    for (one, rows), (other, more) in pairwise(chosen.items()):
        if one[0] == other[0]:
            for number, x in values.items():
                a, b = x[rows], x[more]
                spread = a.var() / len(a) + b.var() / len(b)
                yield f"difference {number} {one[0]}", a.mean() - b.mean(), spread
    for (one, x), (other, y) in combinations(values.items(), 2):
        r = float(np.corrcoef(x, y)[0, 1])
        yield f"correlation {one} {other}", np.arctanh(np.clip(r, -0.999, 0.999)), 1 / (n - 3)
    dummies = [rows.astype(float) for (_, _), rows in list(chosen.items())[::2]][:3]
    for outcome, y in values.items():
        others = [x for name, x in values.items() if name != outcome][:3]
        for place, (q, u) in enumerate(zip(*ols(y, [*others, *dummies]), strict=True)):
            yield f"coefficient {outcome} {place}", q, u


def facts(population, domain):
    """Numbers, and levels that many rows have: at most two of an attribute."""
    numbers = [name for name, fact in domain.items() if fact["kind"] == "numeric"]
    groups = []
    for name in [name for name in domain if name not in numbers]:
        shares = population[name].value_counts(normalize=True)
        common = shares[shares > LARGE].index[:2]
        groups += [(name, level) for level in common]
    return numbers[:5], groups[:8]


def repetition(population, domain, options, seed):
    """Truth, value and half width of each estimate, and its half width without privacy."""
    numbers, groups = facts(population, domain)
    rows = population.sample(options.rows, replace=True, random_state=seed).reset_index(drop=True)
    truth = {name: q for name, q, _ in estimates(population, numbers, groups)}
    bare = {name: 1.96 * u**0.5 for name, _, u in estimates(rows, numbers, groups)}
    schema = default_schema(domain, nullable=True)
    private = with_holes(missdp.Table.read(rows, schema), options.holes, seed)
    family = missdp.synthesizers()[options.method]
    model = family(epsilon=options.epsilon, delta=1e-6).fit(private)
    tables = model.sample(options.rows, multiple=options.tables)
    found = [{name: (q, u) for name, q, u in estimates(table, numbers, groups)} for table in tables]
    lines = {}
    for name, true in truth.items():
        q, u = zip(*(table[name] for table in found), strict=True)
        low, high = combine_estimates(q, u).interval()
        lines[name] = [true, (low + high) / 2, (high - low) / 2, bare[name]]
    return lines


def report(files):
    """Print coverage by table, settings and kind."""
    runs = [json.loads(line) for file in files for line in Path(file).read_text().splitlines()]
    keys = sorted({tuple(run["settings"]) for run in runs}, key=str)
    print(f"{'':44s}" + "".join(f"{kind:>16s}" for kind in (*KINDS, "all", "least")))
    for key in keys:
        own = [run["found"] for run in runs if tuple(run["settings"]) == key]
        held, wide = {}, {}
        for lines in own:
            for name, (true, middle, half, bare) in lines.items():
                held.setdefault(name, []).append(abs(true - middle) <= half)
                wide.setdefault(name, []).append(half / max(bare, 1e-300))
        cells = []
        for kind in (*KINDS, ""):
            names = [name for name in held if name.startswith(kind)]
            share = np.mean([np.mean(held[name]) for name in names])
            cells.append(f"{share:.2f} x{np.median([np.median(wide[n]) for n in names]):.1f}")
        least = min(held, key=lambda name: np.mean(held[name]))
        cells.append(f"{np.mean(held[least]):.2f} {least}")
        print(
            f"{' '.join(map(str, key)):44s}" + "".join(f"{cell:>16s}" for cell in cells), len(own)
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--method", default="all-pairs")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--holes", help="mcar:RATE or mar:RATE")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="number of the first repetition")
    options = parser.parse_args()
    if options.report:
        return report(options.files)
    truth, domain, out = map(Path, options.files)
    population, known = pd.read_parquet(truth), json.loads(domain.read_text("utf-8"))
    for name, fact in known.items():
        if fact["kind"] != "numeric":
            population[name] = population[name].astype(str)
    settings = [truth.parent.name + "/" + truth.stem, options.method, options.epsilon]
    settings += [options.holes or "none", options.rows, options.tables]
    done = (
        {json.loads(line)["seed"] for line in out.read_text().splitlines()} if out.exists() else ()
    )
    for seed in range(options.first, options.first + options.repetitions):
        if seed not in done:
            began = time.process_time()
            found = repetition(population, known, options, seed)
            line = {"settings": settings, "seed": seed, "found": found}
            with out.open("a") as file:
                file.write(json.dumps(line | {"seconds": time.process_time() - began}) + "\n")
    return report([out])


if __name__ == "__main__":
    main()
