"""Rows that break rules are counted, and nothing is mended before."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from missdp import Categorical, Numeric, Schema, Table
from missdp.errors import DataError, ParameterError, SchemaError, SchemaWarning
from missdp.evaluate import RuleViolations, rule_violations
from missdp.schema import Always, Determined, Never, NotApplicable
from missdp.table.written import write_blocks

YEAR = {"lower": 1900, "upper": 2030, "integer": True, "nullable": True}
SCHEMA = Schema(
    (
        Categorical(name="sex", levels=("f", "m"), nullable=True),
        Categorical(name="schwanger", levels=("nein", "ja"), nullable=True, refused=(-7,)),
        Categorical(name="work", levels=("no", "yes"), nullable=True),
        Numeric(name="hours", lower=0, upper=80, nullable=True, not_applicable=(-9,)),
        Categorical(name="degree", levels=("none", "master"), nullable=True),
        Numeric(name="years", lower=0, upper=20, integer=True, nullable=True),
        Numeric(name="age", lower=0, upper=120, integer=True, nullable=True),
        Numeric(name="größe", **YEAR),
        Numeric(name="start", **YEAR),
        Numeric(name="end", **YEAR),
    ),
    (
        Never("sex = 'm' and schwanger = 'ja'"),
        NotApplicable("hours", unless="work = 'yes'"),
        Determined("years", by="degree", map=(("none", 9), ("master", 18))),
        Always("age + größe = 2024"),
        Always("start <= end"),
    ),
)
GOOD = {
    "sex": "f", "schwanger": "ja", "work": "yes", "hours": 40, "degree": "master", "years": 18,
    "age": 24, "größe": 2000, "start": 1999, "end": 1999,
}  # fmt: skip
BREAKS = {
    "never sex = 'm' and schwanger = 'ja'": {"sex": "m"},
    "hours is not applicable unless work = 'yes'": {"work": "no"},
    "years follows from degree": {"years": 9},
    "age + größe = 2024": {"age": 25},
    "start <= end": {"start": 2000},
}


def frame(*changes):
    return pd.DataFrame([{**GOOD, **change} for change in changes])


@pytest.mark.parametrize("text", list(BREAKS))
def test_each_rule_is_counted_by_itself(text, tmp_path):
    rows = frame({}, BREAKS[text], {}, BREAKS[text])
    write_blocks([tmp_path / "x.csv"], [(0, pa.Table.from_pandas(rows))])
    plain = Table.read(rows, Schema(SCHEMA.attributes))
    for data in (rows, tmp_path / "x.csv", plain):
        result = rule_violations(data, schema=SCHEMA)
        assert result.broken == {other: 2 * (other == text) for other in BREAKS}
        assert (result.rows, result.broken_rows, result.share) == (4, 2, 0.5)
    # Rows that were read by the rules keep to them.
    assert rule_violations(Table.read(rows, SCHEMA)).broken_rows == 0


def test_missing_cells_leave_rules_open_not_applicable_does_not():
    pairs = [{"sex", "schwanger"}, {"work", "hours"}, {"degree", "years"}, {"age", "größe"}]
    pairs.append({"start", "end"})
    for pair, (text, change) in zip(pairs, BREAKS.items(), strict=True):
        for name in GOOD:
            result = rule_violations(frame({**change, name: None}), schema=SCHEMA)
            assert result.broken[text] == result.broken_rows == (name not in pair), (text, name)
    skipped = frame({"hours": -9}, {"hours": -9, "work": "no"}, {"hours": -9, "work": None})
    assert rule_violations(skipped, schema=SCHEMA).broken_rows == 1
    assert rule_violations(frame({"schwanger": -7, "sex": "m"}), schema=SCHEMA).broken_rows == 0


def test_a_row_that_breaks_all_counts_once_and_few_rows_or_no_rules_count_for_nothing():
    worst = {key: value for change in BREAKS.values() for key, value in change.items()}
    result = rule_violations(frame(worst, {}), schema=SCHEMA)
    assert (result.broken_rows, result.broken) == (1, dict.fromkeys(BREAKS, 1))
    result = rule_violations(frame({}).head(0), schema=SCHEMA)
    assert (result.rows, result.broken_rows, result.share) == (0, 0, 0.0)
    assert result.shares == dict.fromkeys(BREAKS, 0.0)
    without = Schema(SCHEMA.attributes)
    assert rule_violations(frame({}), schema=without) == RuleViolations(1, 0, {})
    names = [f"x{i}" for i in range(200)]
    columns = tuple(Numeric(name=name, lower=0, upper=9) for name in names)
    rising = pd.DataFrame({name: [i / 200, i / 200] for i, name in enumerate(names)})
    rising.loc[1, "x100"] = 9
    with pytest.warns(SchemaWarning, match="A long order"):
        wide = Schema(columns, (Always(" <= ".join(names)),))
    assert rule_violations(rising, schema=wide).broken_rows == 1
    codes = {name: np.zeros(2, dtype=int) for name in SCHEMA.names}  # bins: where they surely do
    table = Table.from_codes(SCHEMA, codes | {"start": [5, 0], "work": [1, 1]})
    assert rule_violations(table).broken["start <= end"] == 1


def test_other_tables_are_refused_and_no_cell_is_quoted():
    other = Schema((Categorical(name="zip", levels=("x", "y")),))
    for error, reported, data, schema in (
        (ParameterError, "schema=", frame({}), None),
        (SchemaError, "different", Table.from_codes(other, {"zip": [0, 1]}), SCHEMA),
        (DataError, None, frame({"age": 4321}), SCHEMA),
    ):
        with pytest.raises(error, match=reported) as caught:
            rule_violations(data, schema=schema)
        assert "4321" not in str(caught.value)


def test_undeclared_missing_cells_are_not_levels():
    """255 levels, "not applicable" and an undeclared missing cell: one code more than a byte."""
    work = Categorical(name="work", levels=("no", "yes"))
    many = Categorical(name="job", levels=tuple(range(255)))
    routing = NotApplicable("job", unless="work = 'yes'")
    spare = Categorical(name="spare", levels=("a", "b"))
    never = Never("spare = 'a' and job = 0")
    schema = Schema((work, spare, many), (routing, never))
    incomplete = Schema((work, spare, replace(many, nullable=True)))
    codes = {"work": [1, 1, 0], "spare": [0, 0, 0], "job": [255, 0, 255]}
    table = Table.from_codes(incomplete, codes)
    assert rule_violations(table, schema=schema).broken_rows == 1
