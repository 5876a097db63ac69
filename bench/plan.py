"""Plans compared with real runs on four tables: noise, distances, widths, seconds, memory.

    pip install statsmodels
    python bench/plan.py [TABLE ...]

A plan gets the number of rows, missing rates, means and standard deviations, as a person would
declare them. The run gets the table. Each is a separate process, so that memory is measured
separately. Seconds are measured on one machine in turn, which should have no other load.
Widths are the mean of five runs: noise moves the ends of bins, so widths differ up to twofold.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist, fmean

from _data import SHARED
from _data import schema as schema_of
from surveys import needed

from missdp import AllPairs, Categorical, Numeric, Schema, Table
from missdp.datasets import yrbss
from missdp.governance.rehearsal import fitted_error, noise_of_tables, rehearse

EPSILONS = (0.5, 1.0, 2.0)


def width_of_mean(model: AllPairs, name: str) -> float:
    """Return the width of the 95 % interval of a mean."""
    return 2 * NormalDist().inv_cdf(0.975) * model.estimate(f"mean(`{name}`)").errors[0]


def without_bins(schema: Schema) -> Schema:
    """Return a schema with bounds and without bins, as a person would declare it."""
    attributes = (replace(a, bins=None) if isinstance(a, Numeric) else a for a in schema)
    return Schema(tuple(attributes))


def census(name: str, file: str) -> Table:
    """Return rows of Adult or BR2000."""
    return Table.read(SHARED / name / f"{file}.parquet", without_bins(schema_of(name)))


def visits() -> Table:
    """Return the RAND Health Insurance Experiment, of PyPI's statsmodels (public domain)."""
    frame = needed("statsmodels.datasets").randhie.load_pandas().data
    bounds = {"mdvis": (0, 100), "lncoins": (0, 5), "lpi": (0, 10), "fmde": (0, 10)}
    bounds |= {"physlm": (0, 1), "disea": (0, 60)}
    attributes = [
        Numeric(name=name, lower=bounds[name][0], upper=bounds[name][1], integer=name == "mdvis")
        if name in bounds
        else Categorical(name=name, levels=(0, 1))
        for name in frame.columns
    ]
    return Table.read(frame, Schema(tuple(attributes)))


TABLES = {
    "yrbss": lambda: yrbss().table(),
    "adult": lambda: census("adult", "raw"),
    "br2000": lambda: census("br2000", "mcar_0.2"),
    "randhie": visits,
}


def run(name: str) -> None:
    """Fit the real table, and print its figures."""
    import resource

    table = TABLES[name]()
    number = next(a.name for a in table.schema if isinstance(a, Numeric))
    figures, memory = [], 0.0
    for epsilon in EPSILONS:
        model = AllPairs(epsilon=epsilon, delta=1e-6, random_state=3)
        seconds, drawn = rehearse(model, table)
        memory = memory or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        one_way, two_way = noise_of_tables(model)
        others = (AllPairs(**model.get_params() | {"random_state": k}) for k in range(4, 8))
        width = fmean(width_of_mean(one.fit(table), number) for one in (model, *others))
        figures.append({"one_way": one_way, "two_way": two_way, "width": width, "seconds": seconds})
        figures[-1]["fitted"] = fitted_error(table, drawn)
    print(json.dumps({"planned": figures, "memory": memory}))


def planned(name: str, folder: Path) -> list[str]:
    """Return the command that plans a table."""
    table = TABLES[name]()
    table.schema.to_toml(folder / "schema.toml")
    command = ["-m", "missdp", "plan", str(folder / "schema.toml"), "--rows", str(len(table))]
    command += ["--epsilon", ",".join(map(str, EPSILONS)), "--delta", "1e-6", "--json"]
    for attribute in table.schema:
        is_missing = table.mask(attribute.name)
        if is_missing.any():
            command += ["--missing-rate", f"{attribute.name}={is_missing.mean():.3f}"]
        if isinstance(attribute, Numeric):
            values = table.values(attribute.name)[~is_missing]
            command += ["--sd", f"{attribute.name}={values.std():.4g}"]
            command += ["--mean", f"{attribute.name}={values.mean():.4g}"]
    return command


def output_of(command: list[str]) -> dict[str, object]:
    """Run a command in a separate process. Return its output."""
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def main() -> None:
    """Print ratios of planned and real numbers."""
    print("planned / real  epsilon   one-way  two-way   fitted    width  seconds   memory")
    for name in sys.argv[1:] or TABLES:
        with tempfile.TemporaryDirectory() as folder:
            plan = output_of(planned(name, Path(folder)))
        real = output_of([__file__, "--run", name])
        for epsilon, one, other in zip(EPSILONS, plan["planned"], real["planned"], strict=True):
            width = next(iter(one["widths"].values())) / other["width"]
            parts = [one[k] / other[k] for k in ("one_way", "two_way", "fitted")]
            parts += [width, one["seconds"] / other["seconds"], plan["memory"] / real["memory"]]
            print(f"{name:14} {epsilon:8} ", *(f"{part:8.2f}" for part in parts), flush=True)


if __name__ == "__main__":
    run(sys.argv[2]) if sys.argv[1:2] == ["--run"] else main()
