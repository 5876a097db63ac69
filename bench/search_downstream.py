"""Accuracy of a classifier on real rows, trained on rows of AllPairs with and without a search.

    python bench/search_downstream.py [--epsilons 1 3 10] [--seeds 3] [--output RESULTS.json]

The tables are Adult (complete, predict `income`) and hmeq (its own missing values, predict `BAD`).
Bins are declared: ten equal ones for Adult, and edges at deciles for hmeq. A family is fitted to
70 % of the rows. Boosting is trained on its synthetic rows, which keep missing cells, and is tested
on the other 30 %. The score is the area under the ROC curve (AUC). The script also prints the AUC
after training on the real rows, and the number of marginals that the search selected. Runs with a
result are not repeated.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import pandas as pd
import real_missing
from fidelity import default_schema
from sklearn.metrics import roc_auc_score
from xgboost import XGBClassifier

from missdp import AllPairs, Numeric

ADULT = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult"
DELTA, TRAINED = 1e-6, 0.7
WORKLOADS = {"pairs": 2, "search": "auto"}


def adult():
    """Return the schema, the complete rows and the label of Adult."""
    domain = json.loads((ADULT / "domain.json").read_text("utf-8"))
    return default_schema(domain, bins=10), pd.read_parquet(ADULT / "truth.parquet"), "income"


def hmeq():
    """Return the schema, the rows with missing cells and the label of hmeq."""
    facts, frame = real_missing.read()
    return default_schema(real_missing.with_edges(facts, frame), nullable=True), frame, "BAD"


TABLES = {"adult": adult, "hmeq": hmeq}


def codes(cells, attribute):
    """Return the codes of the levels of a column, with NaN for a missing cell."""
    place = {level: float(code) for code, level in enumerate(attribute.levels)}
    text = (None if pd.isna(cell) else str(cell).removesuffix(".0") for cell in cells)
    return np.array([place.get(one, np.nan) for one in text])


def features(rows, schema, label):
    """Return numbers for boosting: values, and codes of levels. A missing cell is NaN."""
    columns = []
    for attribute in schema:
        cells = rows[attribute.name]
        if isinstance(attribute, Numeric):
            columns.append(np.array([np.nan if pd.isna(cell) else float(cell) for cell in cells]))
        elif attribute.name != label:
            columns.append(codes(cells, attribute))
    return np.column_stack(columns)


def auc(train, test, schema, label, seed):
    """Return the AUC on real rows of boosting that was trained on other rows."""
    model = XGBClassifier(n_estimators=200, max_depth=4, learning_rate=0.1, n_jobs=1)
    model.set_params(random_state=seed)
    target, real = (codes(rows[label], schema[label]) for rows in (train, test))
    has_label = ~np.isnan(target)
    model.fit(features(train, schema, label)[has_label], target[has_label])
    chances = model.predict_proba(features(test, schema, label))[:, 1]
    return float(roc_auc_score(real, chances))


def one(table, epsilon, seed):
    """Return a result for each workload, and for the real rows."""
    schema, frame, label = TABLES[table]()
    order = np.random.default_rng(seed).permutation(len(frame))
    cut = int(TRAINED * len(frame))
    train, test = (frame.iloc[part] for part in (order[:cut], order[cut:]))
    result = {"table": table, "epsilon": epsilon, "seed": seed}
    result["real"] = auc(train, test, schema, label, seed)
    for name, workload in WORKLOADS.items():
        began = time.process_time()
        model = AllPairs(epsilon=epsilon, delta=DELTA, workload=workload, random_state=seed).fit(
            train, schema=schema
        )
        rows = model.sample(len(train), missing_values="keep", random_state=seed)
        result[f"{name}_cpu_s"] = round(time.process_time() - began, 1)
        result[name] = auc(rows, test, schema, label, seed)
        result[f"{name}_selected"] = len(model.tables_.higher_order)
    return result


def main():
    """Run the fits that have no result yet, and print the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0, 10.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("search_downstream.json"))
    options = parser.parse_args()
    file = options.output
    results = json.loads(file.read_text("utf-8")) if file.exists() else []
    done = {(r["table"], r["epsilon"], r["seed"]) for r in results}
    for seed in range(options.seeds):
        for table in TABLES:
            for epsilon in options.epsilons:
                if (table, epsilon, seed) not in done:
                    results.append(one(table, epsilon, seed))
                    file.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    print("| table | ε | real rows | pairs | search | selected |\n|---|---|---|---|---|---|")
    for table in TABLES:
        for epsilon in options.epsilons:
            runs = [r for r in results if (r["table"], r["epsilon"]) == (table, epsilon)]
            means = [statistics.fmean(r[key] for r in runs) for key in ("real", *WORKLOADS)]
            cells = [f"{mean:.3f}".lstrip("0") for mean in means]
            selected = ", ".join(str(r["search_selected"]) for r in runs)
            print(f"| {table} | {epsilon:g} | {' | '.join(cells)} | {selected} |")


if __name__ == "__main__":
    main()
