"""Rows of units in Spark: at most so many of each, drawn at random, the same in every pass."""

import os
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from missdp import MST, Categorical, Numeric, Schema, Table
from missdp.accounting import Budget
from missdp.engines import SparkSource
from missdp.engines.spark import of_units
from missdp.errors import DataError, SchemaError
from missdp.schema import SurveyWeight, Unit
from missdp.schema.layout import STEPS

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*PySpark:FutureWarning")]
WHO = Numeric(name="who", lower=0, upper=400, bins=400)
LAST = Categorical(name="last", levels=("no", "yes"), nullable=True)


def with_unit(**facts):
    return Schema((WHO, LAST), unit=Unit("p", **facts))


def shuffled(batches):
    """Rows in another order whenever they are computed."""
    for batch in batches:
        order = np.random.default_rng(int.from_bytes(os.urandom(8))).permutation(batch.num_rows)
        yield batch.take(pa.array(order))


def visits(spark, people=400, each=10):
    """Ten rows of each person, of which nine are alike."""
    who = np.repeat(np.arange(people), each)
    last = ["yes" if k % each == 0 else "no" for k in range(len(who))]
    table = pd.DataFrame({"p": [f"P{k}" for k in who], "who": who.astype(float), "last": last})
    frame = spark.createDataFrame(table).repartition(3)
    return frame.mapInArrow(shuffled, frame.schema)


def counted(frame, _=None):
    cliques = [("who",), ("who", "last"), ("last",)]
    return SparkSource(frame, with_unit().of_rows).counts(cliques, rows="extended")


def test_rows_are_drawn_by_unit_and_every_pass_sees_the_same(spark, capfd):
    given = visits(spark)
    frame, sums = of_units(given, with_unit(max_rows=3))
    assert (sums / STEPS).tolist() == [1200.0, 1200.0]
    assert frame.columns == ["who", "last"]
    found, again = counted(frame), counted(frame)
    for clique in found:
        np.testing.assert_array_equal(found[clique], again[clique])
    assert (found["who",] == 3).all()
    another = counted(*of_units(given, with_unit(max_rows=3)))
    assert not np.array_equal(found["who", "last"], another["who", "last"])
    frame.explain()
    assert len(re.findall(r"Exchange hashpartitioning", capfd.readouterr().out)) == 1


def test_each_row_is_drawn_as_often_and_not_each_sort_of_rows(spark):
    found = counted(*of_units(visits(spark), with_unit()))
    assert found["who",].sum() == 400
    # One of ten rows: 40 on average, and within 5 and 90 but once in 10^9 times.
    assert 5 < found["last",][1] < 90


def test_rows_without_an_identifier_and_those_with_one_that_cannot_be_read(spark):
    table = pd.DataFrame(
        {"p": ["a", "", " ", "NA", "a ", "b"], "who": [1.0, 2, 3, 4, 5, 6], "last": ["no"] * 6}
    )
    codes = {"missing_codes": ("NA",)}
    frame = spark.createDataFrame(table)
    assert counted(*of_units(frame, with_unit(**codes)))["last",].sum() == 2
    assert counted(*of_units(frame, with_unit(missing="own", **codes)))["last",].sum() == 5
    with pytest.raises(DataError, match="a row has no identifier in the column 'p'"):
        of_units(frame, with_unit(missing="refuse", **codes))
    unread = spark.createDataFrame(
        [([1], 1.0, "no"), (None, 2.0, "no")], "p array<int>, who double, last string"
    )
    assert counted(*of_units(unread, with_unit(missing="own")))["who",].nonzero()[0].tolist() == [2]
    with pytest.raises(DataError, match="lacks columns"):
        of_units(frame.drop("p"), with_unit())


def test_a_fit_to_a_frame_of_spark_protects_the_unit(spark):
    frame = visits(spark, people=100)
    model = MST(epsilon=20.0).fit(frame, schema=with_unit(max_rows=2))
    assert (model.guarantee_.unit, model.guarantee_.max_rows) == ("p", 2)
    assert abs(model.n_rows_ - 200) < 30
    assert len(Table.read(frame, with_unit(max_rows=2))) == 200


def test_weights_are_refused_before_anything_is_charged(spark):
    class Ledger(Budget):
        charged_first = True

    for schema in (
        with_unit(max_rows=2, counts="unit"),
        Schema((WHO, LAST), weight=SurveyWeight("p", upper=4)),
    ):
        budget = Ledger(9.0, 1e-3)
        with pytest.raises(SchemaError, match="Spark counts every row as one"):
            MST(epsilon=1.0, budget=budget).fit(visits(spark, people=2), schema=schema)
        assert budget.events == ()
