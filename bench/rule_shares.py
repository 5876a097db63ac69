"""How far shares of kinds of missing are off under rules, over many seeds.

The survey of `tests/cli/test_public_facts.py`: pay is not applicable to whoever does not work,
which is unknown of a tenth. For each seed of the noise the largest difference of a share, of 10,000
synthetic rows that keep their holes; a fit that loses levels shows as .05 and more.

    python bench/rule_shares.py --seeds 80
    python bench/rule_shares.py --family AIM --epsilon 1 --seeds 10
"""

import argparse
import importlib.util
import tempfile
from pathlib import Path

import missdp
from missdp import Schema, Table
from missdp.evaluate import missingness_by_kind

SURVEY = Path(__file__).parents[1] / "tests" / "cli" / "test_public_facts.py"


def survey(rows):
    """The survey's table, read from a file as the command reads it."""
    spec = importlib.util.spec_from_file_location("public_facts", SURVEY)
    source = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(source)
    with tempfile.TemporaryDirectory() as folder:
        schema, data = Path(folder) / "schema.toml", Path(folder) / "data.csv"
        schema.write_text(source.SCHEMA, encoding="utf-8")
        source.survey(rows, 0).to_csv(data, index=False)
        return Table.read(data, Schema.from_toml(schema))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", default="AllPairs", choices=["AllPairs", "AIM", "PrivBayes"])
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=80)
    options = parser.parse_args()
    private = survey(options.rows)
    found = []
    for seed in range(options.seeds):
        made = getattr(missdp, options.family)(epsilon=options.epsilon, random_state=seed)
        drawn = made.fit(private).sample_table(10_000, missing_values="keep", random_state=1)
        found.append(missingness_by_kind(private, drawn).max_difference)
    found.sort()
    print(f"{options.family}, epsilon {options.epsilon:g}, {len(found)} seeds")
    print(f"largest difference of a share: {found[-1]:.3f}, median {found[len(found) // 2]:.3f}")
    print(f"seeds above .05: {sum(off > 0.05 for off in found)}")


if __name__ == "__main__":
    main()
