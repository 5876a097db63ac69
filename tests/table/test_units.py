"""Rows of units: at most so many of each, drawn from its own rows, the same in every pass."""

import decimal
import os
import tempfile
import traceback

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from missdp import AIM, Numeric, Schema, Table
from missdp.accounting import Filter
from missdp.errors import DataError, SchemaError
from missdp.pricing import RowDomain
from missdp.schema import Unit
from missdp.session import CountedRows, SecureNoise, Session
from missdp.sources import MemorySource, open_source, strategy_named
from missdp.statistics import open_table
from missdp.table import Rows
from missdp.table.cells import to_arrow_array
from missdp.table.memory import memory_limit
from missdp.table.units import (
    identifiers,
    rows_of_units,
    sample_rows_per_unit,
    spool_rows,
    unit_numbers,
)
from refusing import refuses

AGE = Numeric(name="age", lower=0, upper=1000, bins=10)


def with_unit(**facts):
    return Schema((AGE,), unit=Unit("p", **facts))


def ages(data, **facts):
    return sorted(Table.read(data, with_unit(**facts)).values("age").tolist())


def ages_read(rows):
    batches = [np.asarray(batch.column(0), dtype=float) for batch in rows.batches(("age",))]
    return np.concatenate(batches).tolist()


@given(st.lists(st.integers(-1, 6), max_size=60), st.integers(1, 5), st.booleans())
def test_each_unit_keeps_as_many_rows_as_it_may(units, most, own):
    units = np.array(units, dtype=np.int64)
    kept = sample_rows_per_unit(
        units, Unit("p", max_rows=most, if_missing="own_unit" if own else "drop")
    )
    for unit in range(7):
        assert kept[units == unit].sum() == min(most, (units == unit).sum())
    assert (kept[units < 0] == own).all()


def test_which_rows_is_uniform_over_the_rows_of_the_unit_alone():
    # Beside a unit with as many rows before it, and without: each row is kept as often.
    for units in ([0] * 5, [1] * 5 + [0] * 5):
        units = np.array(units)
        times = sum(
            sample_rows_per_unit(units, Unit("p", max_rows=2))[units == 0] for _ in range(2000)
        )
        assert times.sum() == 4000
        assert chisquare(times).pvalue > 1e-6


def test_no_identifier_is_taken_for_another():
    large = [2**53, 2**53 + 1, 2**53 + 2]
    assert ages({"p": large, "age": [1, 2, 3]}) == [1, 2, 3]
    assert ages(pa.table({"p": pa.array(large, pa.int64()), "age": [1, 2, 3]})) == [1, 2, 3]
    assert ages(pd.DataFrame({"p": ["a", "A", "ä"], "age": [1, 2, 3]})) == [1, 2, 3]
    exact = [large[0], decimal.Decimal(large[1]), str(large[2])]
    assert ages({"p": exact, "age": [1, 2, 3]}) == [1, 2, 3]
    assert ages({"p": ["007", "7", "7.5"], "age": [1, 2, 3]}) == [1, 2, 3]
    number = [7, 7.0, "7", "7.0", decimal.Decimal("7.00"), np.int8(7), " 7 "]
    for same in (["a", " a ", "a"], number, [large[1], str(large[1])], [-7, "-7.0", -7.0]):
        assert len(ages({"p": same, "age": [*range(len(same))]})) == 1


@pytest.mark.parametrize("empty", [None, float("nan"), pd.NaT, pd.NA, "", "  ", "NA"])
def test_rows_without_an_identifier_are_dropped_kept_or_refused(empty):
    data = {"p": ["a", empty, empty, "b"], "age": [1, 2, 3, 4]}
    codes = {"missing_codes": ("NA",)}
    assert ages(data, **codes) == [1, 4]
    assert ages(data, if_missing="own_unit", **codes) == [1, 2, 3, 4]
    with refuses(DataError, "a row has no identifier in the column 'p'"):
        ages(data, if_missing="refuse", **codes)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_every_pass_sees_the_same_rows(tmp_path, suffix):
    rng = np.random.default_rng(0)
    n = 70_000  # more than a batch
    frame = pd.DataFrame({"p": rng.integers(0, 9000, n), "age": rng.integers(0, 1000, n)})
    path = tmp_path / f"visits.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    rows = rows_of_units(path, with_unit(max_rows=3))
    assert rows.names == ("age",)
    first = ages_read(rows)
    assert first == ages_read(rows)
    assert len(first) == rows.approximate_length() == frame.groupby("p").size().clip(upper=3).sum()
    with memory_limit("512MiB"):
        source = open_source(rows, Schema((AGE,)))
        held = Table.read(rows, Schema((AGE,)))
    counts = source.counts([("age",)], rows="observed")[("age",)]
    assert counts.tolist() == np.bincount(held.codes("age"), minlength=10).tolist()


def shuffled(frame):
    """Rows in another order whenever they are read, as those of a database, and their passes."""
    passes = []

    def read(names):
        passes.append(names)
        mixed = frame.sample(frac=1, random_state=len(passes))
        for start in range(0, len(mixed), 64):
            part = mixed[start : start + 64]
            cells = [to_arrow_array(part[name].to_numpy(dtype=object)) for name in names]
            yield pa.RecordBatch.from_arrays(cells, list(names))

    return Rows(lambda: tuple(frame), read, is_parsed=True), passes


def test_rows_in_changing_order_are_copied_once(tmp_path):
    n = 1000
    frame = pd.DataFrame({"age": np.arange(n), "p": [f"P{k % 90}" for k in range(n)]})
    given, passes = shuffled(frame)
    with memory_limit("512MiB"):
        rows = rows_of_units(given, with_unit(max_rows=3))
    first, again = ages_read(rows), ages_read(rows)
    assert first == again
    assert len(passes) == 1
    assert len(first) == rows.approximate_length() == 270
    assert max(np.bincount(np.array(first, dtype=int) % 90)) == 3
    assert sorted(first) != sorted(ages_read(rows_of_units(given, with_unit(max_rows=3))))
    assert len(Table.read(duckdb.from_df(frame), with_unit(max_rows=3))) == 270
    with pytest.raises(DataError, match="does not declare"):
        Table.read(duckdb.from_df(frame.assign(more=1)), with_unit())
    source = MemorySource(Table.read(frame.drop(columns="p"), Schema((AGE,))))
    with pytest.raises(SchemaError, match="cannot be used with a custom source"):
        rows_of_units(source, with_unit())


def test_rows_that_are_kept_lie_where_nobody_else_reads_them(monkeypatch):
    files = []
    real = tempfile.TemporaryFile

    def noted(**options):
        files.append(real(**options))
        return files[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", noted)
    frame = pd.DataFrame({"age": [1, 2, 3], "p": [1, 1, 2]})
    rows = spool_rows(shuffled(frame)[0], ("age", "p"))
    (file,) = files
    about = os.fstat(file.fileno())
    assert (about.st_mode & 0o777, about.st_nlink, about.st_size > 0) == (0o600, 0, True)
    assert sorted(ages_read(rows)) == [1, 2, 3]

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: open("/dev/full", "r+b"))  # noqa: SIM115
    with pytest.raises(DataError, match="cannot be copied") as found:
        spool_rows(shuffled(frame)[0], ("age", "p"))
    assert "No space" not in "".join(traceback.format_exception(found.value))


def test_guarantees_for_single_rows_refuse_units():
    table = Table.read(pd.DataFrame({"p": [1, 2], "age": [3, 4]}), with_unit())
    session = {"budget": Filter(1.0), "noise": SecureNoise()}
    for protects in (
        lambda: Session(
            CountedRows.from_source(MemorySource(table), strategy_named("joint")), **session
        ),
        lambda: open_table(table, budget=Filter(1.0)),
        lambda: RowDomain.of(table.schema, rows=2),
    ):
        with pytest.raises(SchemaError, match="treats each row separately"):
            protects()
    for other in (table.take(np.array([0, 0])), Table.from_codes(table.schema, {"age": [0, 1]})):
        with pytest.raises(DataError, match="were not chosen by their 'p'"):
            AIM(epsilon=1.0).fit(other)


class Wordy:
    def __str__(self):
        raise RuntimeError("secret")


# Faults of the identifiers, the declaration or the data. Each entry has the expected error or
# number of rows.
BAD = {
    "no identifiers": (None, {}, (DataError, "the data does not have")),
    "no rows": ([1], {"max_rows": 0}, (SchemaError, "from 1 to 1,000,000")),
    "endless rows": ([1], {"max_rows": 10**9}, (SchemaError, "from 1 to 1,000,000")),
    "half a row": ([1], {"max_rows": 1.5}, (SchemaError, "max_rows must be a whole number")),
    "a row of words": ([1], {"max_rows": "5"}, (SchemaError, "max_rows must be a whole number")),
    "no policy": ([1], {"if_missing": "keep"}, (SchemaError, "'drop', 'refuse' or 'own_unit'")),
    "none at all": ([None, ""], {}, 0),
    "mixed types": ([7, "7", 7.0, b"7", True, "x"], {}, 3),
    "strange types": ([Wordy(), [1], {}, 1j], {}, 0),
    "strange and refused": ([Wordy()], {"if_missing": "refuse"}, (DataError, "no i")),
    "strange and alone": ([Wordy(), [1]], {"if_missing": "own_unit"}, 0),
    "as many as may be": (["a"] * 9, {"max_rows": 10**6}, 9),
    "no row": ([], {}, 0),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_raises_or_follows_the_declaration(name):
    units, facts, expected = BAD[name]
    data = {"age": [1]} if units is None else {"p": units, "age": [1] * len(units)}
    if isinstance(expected, int):
        assert len(Table.read(data, with_unit(**facts))) == expected
        return
    kind, says = expected
    with pytest.raises(kind, match=says) as found:
        Table.read(data, with_unit(**facts))
    assert "secret" not in "".join(traceback.format_exception(found.value))


def test_other_columns_of_rows_with_units_are_read_as_all_are():
    for data, says in (
        ({"p": [1], "age": [1], "x": [2]}, "does not declare"),
        ({"p": [1], "age": ["secret"]}, "contains a value that is not"),
    ):
        with refuses(DataError, says):
            Table.read(data, with_unit())


def test_a_unit_is_no_attribute_and_stands_in_the_file(tmp_path):
    with pytest.raises(SchemaError, match="never modelled"):
        Schema((AGE,), unit=Unit("age"))
    schema = Schema(
        (AGE,), unit=Unit("p", max_rows=4, if_missing="own_unit", missing_codes=("NA",))
    )
    schema.to_toml(tmp_path / "s.toml")
    assert Schema.from_toml(tmp_path / "s.toml") == schema == Schema.from_json(schema.to_json())
    table = '[unit]\ncolumn = "p"\nmax_rows = 4\nif_missing = "own_unit"\n'
    assert table in (tmp_path / "s.toml").read_text()
    assert "unit" not in Schema((AGE,)).to_dict()
    with pytest.raises(SchemaError, match=r"'max_rows' in the table \[unit\]"):
        Schema.from_dict({**Schema((AGE,)).to_dict(), "max_rows": 3})


@pytest.mark.parametrize(
    "make", [str, lambda k: k * "x", lambda k: f"{k:036}", lambda k: f"ü {k}", int]
)
def test_rows_belong_together_where_identifiers_are_equal_and_nowhere_else(make):
    rng = np.random.default_rng(0)
    places = rng.integers(0, 200, 900)
    cells = [make(int(k)) for k in places]
    column = pa.array([*cells, None], pa.int64() if make is int else pa.string())
    found = unit_numbers([identifiers(part, Unit("p")) for part in (column[:400], column[400:])])
    empty = [k for k, cell in enumerate(cells) if cell == ""]
    assert (found[[*empty, 900]] == -1).all()
    known = np.setdiff1d(np.arange(900), empty)
    pairs = {*zip(places[known].tolist(), found[known].tolist(), strict=True)}
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def test_identifiers_that_cannot_be_read_never_stand_alone():
    data = {"p": [b"\xff\x00", b"\xff\x01", b"\xff\x00", [1], [1], None], "age": [*range(1, 7)]}
    assert len(ages(data)) == 2  # bytes are read by their digits, lists not at all
    kept = ages(data, if_missing="own_unit")
    assert (len(kept), 6 in kept, {4, 5} & {*kept}) == (3, True, set())
    with pytest.raises(DataError, match="no identifier"):
        ages(data, if_missing="refuse")
    assert len(ages({"p": ["\ud800", "\ud800", "x"], "age": [1, 2, 3]})) == 2
