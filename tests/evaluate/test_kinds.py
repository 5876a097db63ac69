"""Kinds of missing: their shares, and what counts as a level and as missing in every comparison."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.errors import SchemaError
from missdp.evaluate import (
    marginal_distance,
    missing_fidelity,
    missingness_by_kind,
)
from missdp.evaluate.classifiers import _features
from missdp.schema import NotApplicable

SCHEMA = Schema(
    (
        Categorical(name="work", levels=("no", "yes"), nullable=True, refused=(-7,)),
        Numeric(name="hours", lower=0, upper=80, bins=4, nullable=True, refused=(-7,)),
        Ordinal(name="mood", levels=(1, 2, 3), nullable=True, unknown=("?",), not_asked=(9,)),
        Categorical(name="plain", levels=("x", "y"), nullable=True),
        Categorical(name="whole", levels=("x", "y")),
    ),
    (NotApplicable("hours", unless="work = 'yes'"),),
)


def drawn(n, seed):
    rng = np.random.default_rng(seed)
    codes = {a.name: rng.integers(0, a.extended_size, n) for a in SCHEMA}
    return Table.from_codes(SCHEMA, codes).with_values(rng)


ONE, TWO = drawn(400, 0), drawn(300, 1)


def test_shares_are_those_of_the_cells():
    found = missingness_by_kind(ONE, TWO)
    assert {name: [*shares] for name, shares in found.truth_shares.items()} == {
        "work": ["missing", "refused"],
        "hours": ["not_applicable", "missing", "refused"],
        "mood": ["missing", "unknown", "not_asked"],
        "plain": ["missing"],
        "whole": [],
    }
    gaps = []
    for (name, kind), gap in found.differences.items():
        shares = [float(table.mask(name, kind).mean()) for table in (ONE, TWO)]
        assert found.truth_shares[name][kind] == shares[0]
        assert found.synthetic_shares[name][kind] == shares[1]
        assert gap == pytest.approx(shares[1] - shares[0])
        gaps.append(abs(gap))
    assert found.mean_difference == pytest.approx(np.mean(gaps))
    assert found.max_difference == pytest.approx(np.max(gaps))


def test_the_same_table_has_the_same_shares_and_no_rows_have_none():
    assert missingness_by_kind(ONE, ONE).max_difference == 0.0
    empty = ONE.take(np.arange(0))
    found = missingness_by_kind(ONE, empty)
    assert found.synthetic_shares["hours"] == {"not_applicable": 0, "missing": 0, "refused": 0}
    none = Table.from_codes(Schema((Categorical(name="a", levels=("x",)),)), {"a": [0]})
    for table in (empty, none):
        found = missingness_by_kind(table, table)
        assert found.mean_difference == found.max_difference == 0.0


def test_kinds_survive_files_that_hold_codes_and_not_those_that_hold_nulls():
    schema = replace(SCHEMA, rules=()).subset(("work", "mood", "plain"))
    table = ONE.subset(schema.names)
    table = Table(schema, {name: table.column(name) for name in schema.names})
    coded = table.to_native("pandas", holes="codes")
    nulls = table.to_native("pandas")
    assert missingness_by_kind(table, coded).max_difference == 0.0
    found = missingness_by_kind(table, nulls).synthetic_shares
    assert found["work"]["refused"] == found["mood"]["not_asked"] == 0.0
    assert found["work"]["missing"] == table.mask("work").mean()


def test_what_is_not_applicable_follows_from_the_rules_where_a_frame_holds_nulls():
    frame = pd.DataFrame(
        {
            "work": ["yes", "no", None, "no"],
            "hours": [None, None, None, 40],
            "mood": [1, 2, 3, "?"],
            "plain": ["x"] * 4,
            "whole": ["x"] * 4,
        }
    )
    shares = missingness_by_kind(frame, ONE, schema=SCHEMA).truth_shares["hours"]
    assert shares == {"not_applicable": 0.5, "missing": 0.5, "refused": 0.0}


def test_undeclared_holes_are_listed_where_they_occur():
    frame = pd.DataFrame({name: ["x", None] for name in ("plain", "whole")})
    schema = SCHEMA.subset(("plain", "whole"))
    full = ONE.subset(schema.names)
    assert missingness_by_kind(full, frame).synthetic_shares["whole"] == {"missing": 0.5}
    assert missingness_by_kind(full, full).synthetic_shares["whole"] == {}


def test_where_only_not_applicable_is_declared_a_null_is_that():
    """As in `Table.read`: holes that are not declared change nothing about it."""
    hours = Numeric(name="hours", lower=0, upper=80)
    work = Categorical(name="work", levels=("no", "yes"), nullable=True)
    schema = Schema((work, hours), (NotApplicable("hours", unless="work = 'yes'"),))
    frame = pd.DataFrame({"work": ["yes", None, "no"], "hours": [3, None, None]})
    table = Table.read(frame, schema)
    expected = {"not_applicable": 2 / 3}
    for data in (frame, table):
        assert missingness_by_kind(data, table).truth_shares["hours"] == expected


def seen(table, name):
    """Numbers of levels, "na", and "?" for every other kind."""
    attribute, codes = table.schema[name], table.codes(name)
    cells = codes.astype(object)
    cells[codes >= attribute.size] = "?"
    cells[table.mask(name, "not_applicable")] = "na"
    return cells


def naive(one, two, names, missing):
    rows = []
    for table in (one, two):
        cells = [*zip(*(seen(table, name) for name in names), strict=True)]
        rows.append([r for r in cells if missing == "level" or "?" not in r])
    return sum(
        abs(rows[0].count(cell) / len(rows[0]) - rows[1].count(cell) / len(rows[1])) / 2
        for cell in {*rows[0], *rows[1]}
    )


@pytest.mark.parametrize("missing", ["unobserved", "level"])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_distances_follow_the_definition(missing, k):
    """Not applicable is a level, and all other kinds are one."""
    found = marginal_distance(ONE, TWO, k=k, missing=missing)
    assert list(found.per_marginal) == list(itertools.combinations(SCHEMA.names, k))
    for names, distance in found.per_marginal.items():
        assert distance == pytest.approx(naive(ONE, TWO, names, missing))
    values = list(found.per_marginal.values())
    assert (found.mean, found.max) == (pytest.approx(np.mean(values)), max(values))


def test_finer_bins_keep_kinds_apart():
    table = ONE.subset(("hours",))
    shifted = Table(
        table.schema, {"hours": replace(table.column("hours"), values=table.values("hours"))}
    )
    assert marginal_distance(table, shifted, k=1, bins=40, missing="level").mean == 0.0
    only = table.take(table.mask("hours", "not_applicable"))
    others = table.take(table.mask("hours", "refused"))
    assert marginal_distance(only, others, k=1, bins=40, missing="level").mean == 1.0
    # Refused is not observed, not applicable is: a table without rows against one with.
    assert marginal_distance(others, others, k=1, bins=40).mean == 0.0
    assert marginal_distance(only, others, k=1, bins=40).mean == 1.0


def test_missing_rates_count_holes_alone():
    found = missing_fidelity(ONE, TWO)
    for name in SCHEMA.names:
        holes = ONE.mask(name) & ~ONE.mask(name, "not_applicable")
        assert found.truth_rates[name] == pytest.approx(holes.mean())
    skipped = ONE.take(ONE.mask("hours", "not_applicable")).subset(("hours",))
    assert missing_fidelity(skipped, skipped).truth_rates["hours"] == 0.0


def test_tables_that_declare_other_kinds_are_compared():
    """Kinds that the first table does not have are plainly missing."""
    fewer = Schema(tuple(replace(a, refused=None) for a in SCHEMA.attributes), SCHEMA.rules)
    codes = {name: [0, 1] for name in SCHEMA.names} | {"work": [0, 2]}
    plain = Table.from_codes(fewer, codes)
    refused = Table.from_codes(SCHEMA, codes | {"work": [0, 3]})
    assert missingness_by_kind(plain, refused).max_difference == 0.0
    assert missingness_by_kind(refused, plain).synthetic_shares["work"]["missing"] == 0.5
    without = Schema(tuple(replace(a, not_applicable=None) for a in SCHEMA.attributes))
    with pytest.raises(SchemaError, match="different domains"):
        marginal_distance(Table.from_codes(without, codes), plain)
    assert marginal_distance(plain, Table.from_codes(without, codes), k=1).max < 1.0


def test_learners_see_not_applicable_and_missing_apart():
    schema = SCHEMA.subset(("work", "hours"))
    hours = schema["hours"]
    codes = np.arange(hours.extended_size)
    table = Table.from_codes(schema, {"work": np.zeros(len(codes), int), "hours": codes})
    encoded = _features(table, ["hours"])
    np.testing.assert_array_equal(encoded[:, 1], table.mask("hours", "not_applicable"))
    np.testing.assert_array_equal(encoded[:, 2], codes >= hours.missing_code)
    assert (encoded[hours.size :, 0] == 0).all()
    skipped = Categorical(name="c", levels=("x", "y"), nullable=True, refused=(), not_applicable=())
    table = Table.from_codes(Schema((skipped,)), {"c": [0, 1, 2, 3, 4]})
    np.testing.assert_array_equal(_features(table, ["c"]), np.eye(4)[[0, 1, 2, 3, 3]])
