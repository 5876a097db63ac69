"""Codes that a draft proposes: those that surveys use, and none in ordinary data."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Schema, Table
from missdp.schema.attributes import KINDS, read_number
from missdp.table import draft_columns, draft_schema


def proposed(cells: Any) -> dict[str, tuple[Any, ...]]:
    """The codes that are proposed for a column, all of them marked and read as their kind."""
    frame = pd.DataFrame({"x": cells})
    attribute = draft_schema(frame)["x"]
    found = {kind: codes for kind in KINDS if (codes := attribute.codes_of(kind))}
    facts = {"missing_codes" if kind == "missing" else kind for kind in found}
    assert facts <= {*attribute.undeclared}
    table = Table.read(frame, Schema((attribute,)))
    for kind, codes in found.items():
        bare = [cell.strip() if isinstance(cell, str) else cell for cell in cells]
        here = [c in codes or (isinstance(c, str) and read_number(c) in codes) for c in bare]
        assert any(here)
        assert (table.mask("x", kind) >= np.array(here)).all()
    return found


SCALE = [1, 2, 3, 4, 5] * 20
SURVEYS: list[tuple[str, list[Any], dict[str, tuple[Any, ...]]]] = [
    ("two digits", [*SCALE, 97, 98, 99], {"missing": (99,), "refused": (97,), "unknown": (98,)}),
    ("three digits", SCALE + [997] * 2, {"refused": (997,)}),
    ("four digits", list(range(1900, 2024)) + [9999] * 9, {"missing": (9999,)}),
    ("ages", list(range(60)) * 2 + [999] * 4, {"missing": (999,)}),
    ("below zero", [*SCALE, -1, -7, -8, -9], {
        "not_applicable": (-1,), "missing": (-9,), "refused": (-7,), "unknown": (-8,)}),
    ("real", [1.5, 2.25, 7.0, -9.0, -9.0, -9.0], {"missing": (-9,)}),
    ("never asked", list(range(1, 800)) + [-1] * 5, {"not_applicable": (-1,)}),
    ("hours", list(range(60)) + [-1] * 9, {"not_applicable": (-1,)}),
    ("text of numbers", ["1", "2", "3", " -8", "-8.0"], {"unknown": (-8,)}),
    ("words", ["a", "b", "Refused", "DON'T KNOW", "Not asked", "Inapplicable", "Skipped"], {
        "refused": ("Refused",), "unknown": ("DON'T KNOW",), "not_asked": ("Not asked",),
        "not_applicable": ("Inapplicable",), "missing": ("Skipped",)}),
    ("a curly quote", ["a", "Don\u2019t know"], {"unknown": ("Don\u2019t know",)}),
    ("Stata", [1.5, 2, ".", ".a", ".R", ".d", ".i"], {
        "missing": (".", ".a"), "refused": (".R",), "unknown": (".d",), "not_applicable": (".i",)}),
    ("both", ["1", "2", "3", "97", "98", "DK"], {
        "refused": (97,), "unknown": ("DK", 98)}),
    ("truth", ["true", "false", "Refused"], {"refused": ("Refused",)}),
]  # fmt: skip


@pytest.mark.parametrize(("cells", "codes"), [s[1:] for s in SURVEYS], ids=[s[0] for s in SURVEYS])
def test_codes_of_surveys_are_proposed_with_their_kind(cells: list[Any], codes: Any) -> None:
    assert proposed(cells) == codes


ORDINARY: list[list[Any]] = [
    [*range(100), *range(90)],  # ages up to 99
    [*range(20, 90), 98],  # one old person
    [1, 2, 3, 4, 5, 6, 7, 8, 9] * 5,
    [-2, -1, 0, 1, 2] * 5,
    [-1, 0, 1] * 5,
    [-1, 1] * 5,
    [-9, -8, -7, -6, -1, 0, 4, 12, 30] * 3,  # temperatures
    [-1, *range(30)],  # frost on one day
    [-9, -3, 0, 2, 4],  # scores to par
    [0] * 50 + [1] * 20 + [2, 3, 7, 99],
    [*range(1, 100), 40, 40, 40],  # hours
    [*range(0, 101, 5), 97, 98, 99],  # per cent
    [19, 99, 99, 49, 199, 599, 999],  # prices
    [49, 997, 997],
    [*range(1900, 2024)],
    [0.5, 0.25, 97.0, 97.0, 98.0],
    [-8, 2, 17, 30, 44],  # a loss among gains
    ["NA", "DK", "DE", "FR", "US"],
    ["none", "some", "much"],
    ["7", "8", "9", "x"],
    [0, 1] * 9,
    [0] * 90 + [2174, 14084, 99999, 99999],  # capital gains
]


@pytest.mark.parametrize("cells", ORDINARY)
def test_nothing_is_proposed_in_ordinary_data(cells: list[Any]) -> None:
    assert proposed(cells) == {}


@settings(max_examples=60)
@given(
    st.integers(0, 10_000),
    st.sampled_from(["poisson", "uniform", "normal", "geometric", "exponential", "likert"]),
    st.integers(50, 2000),
)
def test_nothing_is_proposed_in_random_ordinary_data(seed: int, law: str, n: int) -> None:
    rng = np.random.default_rng(seed)
    cells = {
        "poisson": lambda: rng.poisson(rng.uniform(0.5, 80), n),
        "uniform": lambda: rng.integers(0, rng.integers(2, 2000), n),
        "normal": lambda: np.rint(rng.normal(rng.uniform(-5, 60), rng.uniform(3, 30), n)),
        "geometric": lambda: rng.geometric(rng.uniform(0.02, 0.9), n),
        "exponential": lambda: np.round(rng.exponential(rng.uniform(1, 500), n), 1),
        "likert": lambda: rng.integers(1, rng.integers(3, 11), n, endpoint=True),
    }[law]()
    assert proposed(cells.tolist()) == {}


def test_the_file_shows_each_proposal_with_its_mark_and_reminds_of_rules(tmp_path: Path) -> None:
    for cells in (["Refused", "DK"], ["NA", None]):  # codes alone
        assert draft_columns(pd.DataFrame({"x": cells})).stubs == {"x": "column 'x' is empty"}
    drafted = draft_schema(pd.DataFrame({"x": ["a", "b", "Not applicable"]}))["x"]
    assert (drafted.nullable, drafted.kinds) == (False, ("not_applicable",))  # which is no hole
    draft_columns(pd.DataFrame({"x": [*SCALE, 98, 99]})).to_toml(tmp_path / "x.toml")
    text = (tmp_path / "x.toml").read_text()
    row = tomllib.loads(text)["attribute"][0]
    assert (row["missing_codes"], row["unknown"]) == ([99], [98])
    assert {"missing_codes", "unknown"} <= {*row["undeclared"]}
    assert "rule" not in tomllib.loads(text)
    example = text[text.index("# [[rule]]") :].replace("# ", "")
    assert tomllib.loads(example)["rule"][0]["kind"] == "not_applicable"
