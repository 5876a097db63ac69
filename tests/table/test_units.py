"""Rows of units: at most so many of each, drawn from its own rows, the same in every pass."""

import decimal

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from missdp import AIM, Numeric, Schema, Table
from missdp.accounting import Budget
from missdp.errors import DataError, ParameterError, SchemaError
from missdp.mechanisms import Door, RowDoor, SecureNoise
from missdp.pricing import RowDomain
from missdp.schema import Unit
from missdp.sources import MemorySource, open_source, strategy_named
from missdp.table.memory import memory_limit
from missdp.table.units import chosen, rows_of_units

AGE = Numeric(name="age", lower=0, upper=1000, bins=10)


def with_unit(**facts):
    return Schema((AGE,), unit=Unit("p", **facts))


def ages(data, **facts):
    return sorted(Table.read(data, with_unit(**facts)).values("age").tolist())


@given(st.lists(st.integers(-1, 6), max_size=60), st.integers(1, 5), st.booleans())
def test_each_unit_keeps_as_many_rows_as_it_may(units, most, own):
    units = np.array(units, dtype=np.int64)
    kept = chosen(units, Unit("p", max_rows=most, missing="own" if own else "drop"))
    for unit in range(7):
        assert kept[units == unit].sum() == min(most, (units == unit).sum())
    assert (kept[units < 0] == own).all()


def test_which_rows_is_uniform_over_the_rows_of_the_unit_alone():
    # Beside a unit with as many rows before it, and without: each row is kept as often.
    for units in ([0] * 5, [1] * 5 + [0] * 5):
        units = np.array(units)
        times = sum(chosen(units, Unit("p", max_rows=2))[units == 0] for _ in range(2000))
        assert times.sum() == 4000
        assert chisquare(times).pvalue > 1e-6


def test_no_identifier_is_taken_for_another():
    large = [2**53, 2**53 + 1, 2**53 + 2]
    assert ages({"p": large, "age": [1, 2, 3]}) == [1, 2, 3]
    assert ages(pa.table({"p": pa.array(large, pa.int64()), "age": [1, 2, 3]})) == [1, 2, 3]
    assert ages(pd.DataFrame({"p": ["a", "A", "ä"], "age": [1, 2, 3]})) == [1, 2, 3]
    one = pd.DataFrame({"p": ["a", " a ", "a"], "age": [1, 2, 3]})
    assert len(ages(one)) == 1
    assert len(ages({"p": [7, 7.0, "7"], "age": [1, 2, 3]})) == 1


@pytest.mark.parametrize("empty", [None, float("nan"), pd.NaT, pd.NA, "", "  ", "NA"])
def test_rows_without_an_identifier_are_dropped_kept_or_refused(empty):
    data = {"p": ["a", empty, empty, "b"], "age": [1, 2, 3, 4]}
    codes = {"missing_codes": ("NA",)}
    assert ages(data, **codes) == [1, 4]
    assert ages(data, missing="own", **codes) == [1, 2, 3, 4]
    with pytest.raises(DataError, match="a row has no identifier in the column 'p'"):
        ages(data, missing="refuse", **codes)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_every_pass_sees_the_same_rows(tmp_path, suffix):
    rng = np.random.default_rng(0)
    n = 70_000  # more than a batch
    frame = pd.DataFrame({"p": rng.integers(0, 9000, n), "age": rng.integers(0, 1000, n)})
    path = tmp_path / f"visits.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    rows = rows_of_units(path, with_unit(max_rows=3))
    assert rows.columns() == ("age",)
    first, again = (
        np.concatenate(
            [np.asarray(batch.column(0), dtype=float) for batch in rows.batches(("age",))]
        )
        for _ in range(2)
    )
    assert (first == again).all()
    assert len(first) == rows.about() == frame.groupby("p").size().clip(upper=3).sum()
    with memory_limit("512MiB"):
        source = open_source(rows, Schema((AGE,)))
        held = Table.read(rows, Schema((AGE,)))
    assert (
        source.counts([("age",)], rows="observed")[("age",)]
        == np.bincount(held.codes("age"), minlength=10)
    ).all()


def test_what_cannot_be_read_twice_in_one_order_is_refused(tmp_path):
    frame = pd.DataFrame({"p": [1, 2], "age": [3, 4]})
    with pytest.raises(SchemaError, match="write them to a Parquet file"):
        Table.read(duckdb.from_df(frame), with_unit())


def test_what_protects_single_rows_refuses_units():
    table = Table.read(pd.DataFrame({"p": [1, 2], "age": [3, 4]}), with_unit())
    says = "takes each row by itself"
    with pytest.raises(SchemaError, match=says):
        Door(MemorySource(table), strategy_named("joint"), budget=Budget(1.0), noise=SecureNoise())
    with pytest.raises(SchemaError, match=says):
        RowDoor(table, budget=Budget(1.0))
    with pytest.raises(SchemaError, match=says):
        RowDomain.of(table.schema, rows=2)
    with pytest.raises(DataError, match="were not chosen by their 'p'"):
        AIM(epsilon=1.0).fit(table.take(np.array([0, 0])))
    with pytest.raises(DataError, match="were not chosen by their 'p'"):
        AIM(epsilon=1.0).fit(Table.from_codes(table.schema, {"age": [0, 1]}))


BAD = [
    ({"age": [1]}, {}, DataError, "lacks columns"),
    ({"p": [1], "age": [1], "more": [2]}, {}, DataError, "does not declare"),
    ({"p": [1], "age": ["secret"]}, {}, DataError, "outside its declared domain"),
    ({"p": [1], "age": [1]}, {"max_rows": 0}, ParameterError, "at least 1"),
    ({"p": [1], "age": [1]}, {"max_rows": 10**9}, SchemaError, "at most 1,000,000"),
    ({"p": [1], "age": [1]}, {"max_rows": 1.5}, ParameterError, "whole number"),
    ({"p": [1], "age": [1]}, {"missing": "keep"}, SchemaError, "drop, refuse, own"),
]


@pytest.mark.parametrize(("data", "facts", "kind", "says"), BAD)
def test_bad_input_is_one_clear_error(data, facts, kind, says):
    with pytest.raises(kind, match=says) as found:
        Table.read(data, with_unit(**facts))
    assert "secret" not in str(found.value)


def test_a_unit_is_no_attribute_and_stands_in_the_file(tmp_path):
    with pytest.raises(SchemaError, match="never modelled"):
        Schema((AGE,), unit=Unit("age"))
    schema = Schema((AGE,), unit=Unit("p", max_rows=4, missing="own", missing_codes=("NA",)))
    schema.to_toml(tmp_path / "s.toml")
    assert Schema.from_toml(tmp_path / "s.toml") == schema == Schema.from_json(schema.to_json())
    assert 'unit = "p"\nmax_rows = 4\nmissing_unit = "own"\n' in (tmp_path / "s.toml").read_text()
    assert "unit" not in Schema((AGE,)).to_dict()
    (tmp_path / "bad.toml").write_text(
        'max_rows = 3\n[[attribute]]\nname = "a"\nkind = "categorical"\nlevels = ["x"]\n'
    )
    with pytest.raises(SchemaError, match="facts about a 'unit'"):
        Schema.from_toml(tmp_path / "bad.toml")


def test_one_unit_may_have_all_rows_and_none_may_be_left():
    assert len(ages({"p": [1] * 500, "age": [5] * 500}, max_rows=3)) == 3
    assert ages({"p": [None] * 5, "age": [5] * 5}) == []
    assert ages({"p": [], "age": []}) == []


def test_one_number_is_one_identifier_whatever_the_type_of_its_column():
    large = 2**53 + 1
    same = [7, 7.0, "7", "7.0", decimal.Decimal("7.00"), np.int8(7), " 7 "]
    assert len(ages({"p": same, "age": [*range(7)]})) == 1
    exact = [large, decimal.Decimal(large + 1), str(large + 2)]
    assert ages({"p": exact, "age": [1, 2, 3]}) == [1, 2, 3]
    assert len(ages({"p": [large, str(large)], "age": [1, 2]})) == 1
    assert len(ages({"p": [-7, "-7.0", -7.0], "age": [1, 2, 3]})) == 1
    assert ages({"p": ["007", "7", "7.5"], "age": [1, 2, 3]}) == [1, 2, 3]


def test_identifiers_that_cannot_be_read_never_stand_alone():
    ids = [b"\xff\x00", b"\xff\x01", b"\xff\x00", [1], [1], None]
    data = {"p": ids, "age": [1, 2, 3, 4, 5, 6]}
    assert len(ages(data)) == 2  # bytes are read by their digits, lists not at all
    kept = ages(data, missing="own")
    assert len(kept) == 3
    assert 6 in kept
    assert not {4, 5} & {*kept}
    with pytest.raises(DataError, match="no identifier"):
        ages(data, missing="refuse")
    assert len(ages({"p": ["\ud800", "\ud800", "x"], "age": [1, 2, 3]})) == 2
