"""The attacks of anonymeter on an honest release, and on one that copies rows.

Half of the bundled survey is synthesized, the other half is the control. One release is honest.
Every second row of the other release is a copy of a private row.

    python bench/anonymeter_attacks.py /tmp/anonymeter     (makes this environment, if it is absent)
"""

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np
import pandas as pd

from missdp import AllPairs
from missdp.datasets import yrbss
from missdp.table import Table

ROWS, ATTEMPTS, SECRET = 2500, 500, "helmet_12m"
THEIRS = """
import json, sys, warnings
import pandas as pd
from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator
warnings.simplefilter("ignore")
folder, n, secret = sys.argv[1], int(sys.argv[2]), sys.argv[3]
ori, control = (pd.read_csv(f"{folder}/{name}.csv", dtype=str) for name in ("private", "control"))
columns = list(ori)
others = [c for c in columns if c != secret]
found = {}
for name in ("honest", "planted"):
    tables = {"ori": ori, "syn": pd.read_csv(f"{folder}/{name}.csv", dtype=str), "control": control}
    tried = {
        "singling out": SinglingOutEvaluator(**tables, n_attacks=n),
        "linkage": LinkabilityEvaluator(
            **tables, n_attacks=n, aux_cols=(columns[::2], columns[1::2]), n_neighbors=5
        ),
        "inference": InferenceEvaluator(**tables, n_attacks=n, aux_cols=others, secret=secret),
    }
    for attack, one in tried.items():
        one.evaluate(**({"mode": "multivariate"} if attack == "singling out" else {}))
        rates, risk = one.results(), one.risk()
        ends = [rates.attack_rate.value, rates.control_rate.value, risk.value, *risk.ci]
        found[f"{name}, {attack}"] = [float(end) for end in ends]
print(json.dumps(found))
"""


def releases():
    """The private rows, the control, and both releases."""
    survey = yrbss().table()
    chosen = np.random.default_rng(0).permutation(len(survey))[: 2 * ROWS]
    private, control = survey.take(chosen[:ROWS]), survey.take(chosen[ROWS:])
    model = AllPairs(epsilon=1.0, random_state=0).fit(private)
    made = [
        model.sample_table(ROWS, missing_values="keep", random_state=seed).coded_as(model.schema_)
        for seed in (0, 1)
    ]
    private, control = (table.coded_as(model.schema_) for table in (private, control))
    planted = Table.concatenate(
        [private.take(np.arange(0, ROWS, 2)), made[1].take(np.arange(ROWS // 2))]
    )
    return {"private": private, "control": control, "honest": made[0], "planted": planted}


def theirs(place, tables):
    """The rates that anonymeter measures, in a separate environment."""
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "anonymeter==1.1.0"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, table in tables.items():
            codes = {a.name: table.codes(a.name) for a in table.schema}
            pd.DataFrame(codes).to_csv(f"{folder}/{name}.csv", index=False)
        command = [python, "-c", THEIRS, folder, str(ATTEMPTS), SECRET]
        return json.loads(
            subprocess.run(command, check=True, capture_output=True, text=True).stdout
        )


def main():
    rates_of = theirs(Path(sys.argv[1]), releases())
    print("| release, attack | on the table | on the control | risk (95 %) |\n|---|---|---|---|")
    for attack, (table, control, risk, low, high) in rates_of.items():
        print(f"| {attack} | {table:.3f} | {control:.3f} | {risk:.3f} ({low:.3f} to {high:.3f}) |")


if __name__ == "__main__":
    main()
