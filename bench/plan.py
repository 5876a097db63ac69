"""Plans beside real runs: noise, widths of intervals, seconds and memory, on three tables.

    python bench/plan.py

A plan gets the number of rows, missing rates and standard deviations, as a person would declare
them; the run gets the table. Each is a process of its own, for the memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from missdp import AllPairs, Categorical, Numeric, Schema, Table
from missdp.datasets import yrbss
from missdp.evaluate import MCAR
from missdp.office.rehearsal import noise_of_tables, seconds_of, width_of_mean

EPSILONS = (0.5, 1.0, 2.0)


def survey(rows: int, numbers: int, seed: int) -> Table:
    """Return people whose answers depend on one hidden number, with holes."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=rows)
    attributes: list[Categorical | Numeric] = [
        Numeric(name=f"n{i}", lower=0, upper=100, bins=12, nullable=True) for i in range(numbers)
    ]
    attributes += [
        Categorical(name=f"c{i}", levels=tuple("abcde"[: 2 + i % 4]), nullable=True)
        for i in range(8)
    ]
    codes = {}
    for attribute in attributes:
        near = 0.5 + 0.15 * (0.6 * hidden + 0.8 * rng.normal(size=rows))
        codes[attribute.name] = (np.clip(near, 0, 1 - 1e-9) * attribute.size).astype(np.int64)
    table = Table.from_codes(Schema(tuple(attributes)), codes).with_values(rng)
    rates = {a.name: 0.05 * (1 + i % 4) for i, a in enumerate(attributes)}
    return MCAR(rate=rates).apply(table, random_state=seed)


TABLES = {
    "yrbss": lambda: yrbss().table(),
    "survey of 5,000": lambda: survey(5_000, 2, 1),
    "survey of 20,000": lambda: survey(20_000, 3, 2),
}


def run(name: str) -> None:
    """Fit the real table, and print what it turned out to be."""
    import resource

    table = TABLES[name]()
    number = next(a.name for a in table.schema if isinstance(a, Numeric))
    found, memory = [], 0.0
    for epsilon in EPSILONS:
        model = AllPairs(epsilon=epsilon, delta=1e-6, random_state=3)
        seconds = seconds_of(model, table)
        memory = memory or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        one_way, two_way = noise_of_tables(model)
        width = width_of_mean(model, number)
        found.append({"one_way": one_way, "two_way": two_way, "width": width, "seconds": seconds})
    print(json.dumps({"planned": found, "memory": memory}))


def planned(name: str, folder: Path) -> list[str]:
    """Return the command that plans it."""
    table = TABLES[name]()
    table.schema.to_toml(folder / "schema.toml")
    command = ["-m", "missdp", "plan", str(folder / "schema.toml"), "--rows", str(len(table))]
    command += ["--epsilons", ",".join(map(str, EPSILONS)), "--delta", "1e-6", "--json"]
    for attribute in table.schema:
        holes = table.mask(attribute.name)
        if holes.any():
            command += ["--missing", f"{attribute.name}={holes.mean():.3f}"]
        if isinstance(attribute, Numeric):
            spread = float(np.std(table.values(attribute.name)[~holes]))
            command += ["--spread", f"{attribute.name}={spread:.4g}"]
    return command


def told(command: list[str]) -> dict[str, object]:
    """Run it in a process of its own."""
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    """Print planned numbers over real ones."""
    print("planned / real             epsilon  one-way  two-way  width  seconds  memory")
    for name in TABLES:
        with tempfile.TemporaryDirectory() as folder:
            plan = told(planned(name, Path(folder)))
        real = told([__file__, name])
        for epsilon, one, other in zip(EPSILONS, plan["planned"], real["planned"], strict=True):
            width = next(iter(one["widths"].values())) / other["width"]
            parts = [one[k] / other[k] for k in ("one_way", "two_way")]
            parts += [width, one["seconds"] / other["seconds"], plan["memory"] / real["memory"]]
            print(f"{name:26} {epsilon:7} ", *(f"{part:8.2f}" for part in parts), flush=True)


if __name__ == "__main__":
    run(sys.argv[1]) if len(sys.argv) > 1 else main()
