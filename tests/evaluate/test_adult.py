"""Known numbers on real data: skipped where the data folder is not beside the repository."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from missdp import Categorical, Numeric, Schema, Table
from missdp.evaluate import marginal_distance

ADULT = Path(__file__).parents[3] / "shared" / "data" / "adult"
pytestmark = pytest.mark.skipif(not ADULT.is_dir(), reason="needs the Adult files")

# Mean 2-way distance to the truth without any noise, numerics in 10 uniform bins: complete rows,
# and each marginal from the rows observed on it. Computed independently of this package.
KNOWN = {
    "mcar_0.2": (0.0534, 0.0071),
    "mar_0.2": (0.0554, 0.0140),
    "mar_0.5": (0.2221, 0.0256),
    "mnar_0.2": (0.0835, 0.0210),
}


def adult_schema() -> Schema:
    attributes = []
    for name, facts in json.loads((ADULT / "domain.json").read_text()).items():
        kind = facts.pop("kind")
        if kind == "numeric":
            attributes.append(Numeric(name=name, nullable=True, bins=10, **facts))
        else:
            levels = tuple(facts["levels"])
            attributes.append(Categorical(name=name, nullable=True, levels=levels))
    return Schema(tuple(attributes))


@pytest.mark.parametrize("file", KNOWN)
def test_distances_equal_the_known_ones(file: str) -> None:
    schema = adult_schema()
    truth = Table.read(ADULT / "truth.parquet", schema)
    holed = Table.read(ADULT / f"{file}.parquet", schema)
    complete = marginal_distance(truth, holed.take(~holed.incomplete_rows()))
    partial = marginal_distance(truth, holed)
    assert (round(complete.mean, 4), round(partial.mean, 4)) == KNOWN[file]
