"""Real data against plain NumPy: skipped where the data folder is not beside the repository."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from missdp import Categorical, Numeric, Schema, Table
from missdp.evaluate import marginal_distance

ADULT = Path(__file__).parents[3] / "shared" / "data" / "adult"
pytestmark = pytest.mark.skipif(not ADULT.is_dir(), reason="needs the Adult files")

FILES = ("mcar_0.2", "mar_0.2", "mar_0.5", "mnar_0.2")


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


def plain_codes(file: str, domain: dict[str, dict[str, Any]]) -> dict[str, np.ndarray]:
    """Codes without this package: ten uniform bins or the level number, -1 if missing."""
    frame, codes = pd.read_parquet(ADULT / f"{file}.parquet"), {}
    for name, facts in domain.items():
        if facts["kind"] == "categorical":
            codes[name] = pd.Categorical(frame[name], categories=facts["levels"]).codes.astype(int)
            continue
        cells = frame[name].astype("Float64").to_numpy(dtype=float, na_value=np.nan)
        share = (cells - facts["lower"]) / (facts["upper"] - facts["lower"])
        codes[name] = np.where(np.isnan(cells), -1, np.minimum(np.floor(share * 10), 9)).astype(int)
    return codes


def plain_distance(one: dict[str, np.ndarray], two: dict[str, np.ndarray]) -> float:
    """Mean two-way distance over the rows observed on each pair, by plain histograms."""

    def shares(codes: dict[str, np.ndarray], a: str, b: str) -> np.ndarray:
        seen = (codes[a] >= 0) & (codes[b] >= 0)
        counts = np.bincount(codes[a][seen] * 100 + codes[b][seen], minlength=10_000)
        return counts / counts.sum()

    pairs = itertools.combinations(one, 2)
    return float(np.mean([np.abs(shares(one, *p) - shares(two, *p)).sum() / 2 for p in pairs]))


@pytest.mark.parametrize("file", FILES)
def test_distances_equal_an_independent_computation(file: str) -> None:
    schema, domain = adult_schema(), json.loads((ADULT / "domain.json").read_text())
    truth = Table.read(ADULT / "truth.parquet", schema)
    holed = Table.read(ADULT / f"{file}.parquet", schema)
    plain_truth, plain = plain_codes("truth", domain), plain_codes(file, domain)
    whole = np.all([codes >= 0 for codes in plain.values()], axis=0)
    complete = {name: codes[whole] for name, codes in plain.items()}
    found = marginal_distance(truth, holed.take(~holed.incomplete_rows()))
    assert found.mean == pytest.approx(plain_distance(plain_truth, complete), abs=1e-12)
    assert marginal_distance(truth, holed).mean == pytest.approx(
        plain_distance(plain_truth, plain), abs=1e-12
    )
    assert found.mean > 2 * marginal_distance(truth, holed).mean
