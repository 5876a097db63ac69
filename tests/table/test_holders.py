"""Whatever holds rows: one table is the same from all of it, and nothing else is read."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from missdp import Categorical, Numeric, Schema, Table
from missdp.errors import DataError
from missdp.table import draft_schema
from refusing import refuses

RECORDS = [{"a": 1, "b": "x"}, {"a": None, "b": "y"}, {"b": "y", "a": 2.0}]
SPARSE = [{"a": 1, "b": "x"}, {"b": "y"}, {"b": "y", "a": 2.0}]
ARROW = pa.table({"a": [1.0, None, 2.0], "b": ["x", "y", "y"]})
SCHEMA = Schema(
    (Numeric(name="a", lower=0, upper=9, nullable=True), Categorical(name="b", levels=("x", "y")))
)


class Foreign:
    """A frame of a library that is not known here, which has Arrow's C interface alone."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class Broken:
    """One whose rows cannot be computed."""

    def __arrow_c_stream__(self, requested_schema=None):
        raise ValueError("secret cell")


class Odd(dict[str, Any]):
    """A record that computes its cells."""

    def get(self, key, default=None):
        raise ValueError("secret cell")


HOLDERS = [
    (lambda: pd.DataFrame(RECORDS), "pandas"),
    (lambda: ARROW, "pyarrow"),
    (lambda: ARROW.combine_chunks().to_batches()[0], "pyarrow"),
    (lambda: ARROW.to_reader(max_chunksize=1), "pyarrow"),
    (lambda: Foreign(ARROW), "pyarrow"),
    (lambda: pl.from_arrow(ARROW).lazy(), "polars"),
    (lambda: {"b": ["x", "y", "y"], "a": (1, None, 2.0)}, "pandas"),
    (lambda: {"a": np.array([1, np.nan, 2]), "b": ["x", "y", "y"]}, "pandas"),
    (lambda: RECORDS, "pandas"),
    (lambda: tuple(SPARSE), "pandas"),
]


@pytest.mark.parametrize(("holder", "kind"), HOLDERS)
def test_a_table_is_the_same_whatever_holds_it(holder, kind):
    table = Table.read(holder(), SCHEMA)
    assert table.kind == kind
    assert table.to_arrow().to_pylist() == [{"a": 1, "b": "x"}, {"a": None, "b": "y"}, RECORDS[2]]
    assert draft_schema(holder())["b"].levels == ("x", "y")


def test_columns_of_records_are_declared_or_those_of_the_first():
    assert len(Table.read([], SCHEMA)) == 0
    either = Categorical(name="b", levels=("x", "y"), nullable=True)
    table = Table.read([{}, *SPARSE], Schema((SCHEMA["a"], either)))
    assert table.mask("b").tolist() == [True, False, False, False]
    assert draft_schema([{"a": 1}, {}]).names == ("a",)
    for rows, reads in (
        ([*RECORDS, {"a": 1, "b": "x", "secret": 3}], lambda rows: Table.read(rows, SCHEMA)),
        ([{"a": 1}, {"secret": 2}], draft_schema),
    ):
        with refuses(DataError, "a record has a key that"):
            reads(rows)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"a": [1], "b": ["x", "y"]}, "same length"),
        ({"a": [1]}, "lacks columns"),
        ({"a": [1], "b": ["x"], "c": [1]}, "does not declare"),
        ({"a": "1", "b": ["x"]}, "lists of cells"),
        (["rows.csv"], "cannot read a table from 'list'"),
        ({1, 2}, "cannot read a table from 'set'"),
        (None, "cannot read a table from 'NoneType'"),
        (Broken(), "a row is malformed"),
        ([*RECORDS, Odd(a=1)], "the records cannot be read"),
    ],
)
def test_what_holds_no_table_is_refused_and_not_quoted(data, why):
    with refuses(DataError, why):
        Table.read(data, SCHEMA)
