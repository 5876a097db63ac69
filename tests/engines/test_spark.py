"""Promises of the source of Spark frames alone, and the kit for all partitions of rows."""

import functools
import io
import itertools
import logging
import os
import pickle
import re
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from missdp import MST, AllPairs, Categorical, Filter, Numeric, OpenCategorical, Schema, Table
from missdp.accounting import CountedOutsideTheKernel
from missdp.engines import SparkSource, spark_sessions
from missdp.engines.spark import _add_up, count_values, select_unit_rows
from missdp.engines.spark_sessions import _LOGGERS, muted_log
from missdp.engines.spark_tasks import CountTask, merge_blocks
from missdp.errors import DataError, ParameterError, SchemaError
from missdp.schema import SurveyWeight, Unit
from missdp.schema.layout import STEPS
from missdp.session.counting import Counter
from missdp.sources import MemorySource, open_source
from missdp.testing import RULED, example_table
from missdp.testing.example_tables import unprocessed_table
from refusing import refuses
from testing.source_checks import check_source

pytestmark = pytest.mark.filterwarnings("ignore:.*PySpark:FutureWarning")
SCHEMA = Schema(
    (
        Numeric(name="x", lower=0, upper=10, bins=4, nullable=True),
        Categorical(name="a", levels=("no", "yes"), nullable=True),
    )
)
OPEN = Schema((Numeric(name="x", lower=0, upper=1e4, step=0.5, nullable=True), SCHEMA["a"]))
PAIRS = [("x",), ("x", "a"), ()]


def frame_of(spark, cells, parts=2):
    return spark.createDataFrame(cells).repartition(parts)


def counted(frame, schema=SCHEMA, cliques=PAIRS):
    return SparkSource(frame, schema).counts(cliques, rows="extended")


def alike(one, two):
    assert list(one) == list(two)
    for clique in one:
        np.testing.assert_array_equal(one[clique], two[clique])


def fails_first(batches):
    """Hands on rows, and fails behind them in the first two attempts."""
    from pyspark import TaskContext

    yield from batches
    if TaskContext.get().attemptNumber() < 2:
        raise RuntimeError("the disk is on fire")


def test_the_kit_passes(spark):
    def factory(table):
        return SparkSource(spark.createDataFrame(table.to_arrow(missing_as="codes")), table.schema)

    def in_parts(tables):
        parts = [spark.createDataFrame(t.to_arrow()).coalesce(1) for t in tables]
        return SparkSource(functools.reduce(type(parts[0]).union, parts), tables[0].schema)

    def retried(table):
        frame = frame_of(spark, table.to_arrow())
        return SparkSource(frame.mapInArrow(fails_first, frame.schema), table.schema)

    with muted_log():  # tasks fail on purpose
        report = check_source(factory, trials=2, in_parts=in_parts, retried=retried)
    assert not report.unchecked
    assert "needs rows in memory" not in str(report)


def test_open_levels_are_found_where_the_rows_are(spark):
    cells = [
        *(["x"] * 40),
        *(["\u00e9"] * 50),
        *(["e\u0301"] * 50),
        *([" y "] * 60),
        None,
        "rare",
        "?",
    ]
    frame = pd.DataFrame({"d": cells, "a": ["no", "yes"] * 100 + ["no"] * 3})
    schema = Schema((OpenCategorical(name="d", nullable=True, missing_codes=("?",)), SCHEMA["a"]))
    there = frame_of(spark, frame, 3)
    (found,) = count_values(there, (schema["d"],))
    assert found == {"x": 40, "\u00e9": 100, "y": 60, "rare": 1}
    here, where = (
        MST(epsilon=20.0, delta=1e-6, random_state=0).fit(data, schema=schema)
        for data in (frame, there)
    )
    assert where.schema_ == here.schema_
    assert where.schema_["d"].levels == ("x", "y", "\u00e9", "other")


def test_a_retried_task_hands_in_its_counts_once(spark):
    # The attempts that fail have counted everything by then, and handed it to Spark.
    table = example_table(SCHEMA, 500, seed=1)
    flaky = SparkSource(frame_of(spark, table.to_arrow(), 3), SCHEMA)
    plan = flaky._plan

    class Failing:
        def __init__(self, task):
            self.names, self.counter, self.task = task.names, task.counter, task

        def __call__(self, batches):
            from pyspark import TaskContext

            yield from self.task(batches)
            if TaskContext.get().attemptNumber() == 0:
                raise RuntimeError("the disk is on fire")

    flaky._plan = lambda task: plan(Failing(task))
    alike(flaky.counts(PAIRS, rows="extended"), MemorySource(table).counts(PAIRS, rows="extended"))


def test_rules_and_kinds_are_those_of_a_table_in_memory(spark):
    table = example_table(RULED, 400, seed=3)
    cells = table.to_arrow(missing_as="codes")
    # Rows that break rules, too: cells of different rows side by side.
    mixed = pa.table(
        [c.take(pa.array(np.roll(np.arange(400), i))) for i, c in enumerate(cells)],
        cells.column_names,
    )
    cliques = list(itertools.combinations(RULED.names, 2))
    memory = MemorySource(Table.read(mixed, RULED))
    source = SparkSource(frame_of(spark, mixed, 3), RULED)
    alike(source.counts(cliques, rows="extended"), memory.counts(cliques, rows="extended"))
    # These read their dependent attributes, and no more.
    few = [("jahre",), ("erste stelle", "größe")]
    alike(source.counts(few, rows="observed"), memory.counts(few, rows="observed"))


def test_the_plan_has_one_scan_and_shuffles_no_rows(spark, tmp_path):
    table = example_table(SCHEMA, 100)
    frame_of(spark, table.to_arrow()).write.parquet(str(tmp_path / "rows"))
    source = SparkSource(spark.read.parquet(str(tmp_path / "rows")), SCHEMA)
    task = CountTask(schema=SCHEMA, names=("x",), counter=Counter(SCHEMA, [("x",)]))
    with muted_log():
        plan = source._plan(task)._jdf.queryExecution().executedPlan().toString()
    steps = re.findall(r"^[ +:-]*(?:\*?\(\d+\) )?([A-Z]\w+)", plan, flags=re.M)
    once = ["AdaptiveSparkPlan", "MapInArrow", "Exchange", "MapInArrow", "Project", "FileScan"]
    assert steps == once
    read = re.search(r"ReadSchema: struct<(.*)>", plan)
    assert read is not None
    assert read[1] == "x:double"  # and of the columns only those that are counted


def test_cells_of_every_type_are_read_as_arrow_holds_them(spark):
    odd = {
        "bool": "true",
        "nested": "array(1, 2)",
        "instant": "timestamp'2020-01-01 00:00:00'",
        "interval": "interval '1' day",
        "void": "NULL",
    }
    known = {"number": "CAST(9.99 AS DECIMAL(10, 2))", "day": "date'2020-02-02'"}
    terms = ", ".join(f"{cell} AS {name}" for name, cell in (odd | known).items())
    frame = spark.sql(f"SELECT {terms} UNION ALL SELECT {', '.join(['NULL'] * 7)}")
    facts = {"lower": 0, "upper": 10, "bins": 2, "nullable": True}
    loose = [Numeric(name=name, outside="missing", **facts) for name in odd]
    day = Categorical(name="day", levels=("2020-02-01", "2020-02-02"), nullable=True)
    schema = Schema((*loose, Numeric(name="number", **facts), day))
    found = counted(frame, schema, [(name,) for name in schema.names])
    assert [found[name,].tolist() for name in odd] == [[0, 0, 2]] * 5
    assert found["number",].tolist() == found["day",].tolist() == [0, 1, 1]
    strict = Schema((Numeric(name="nested", **facts),))
    with refuses(DataError, "contains a value that is not"):
        counted(frame.select("nested"), strict, [("nested",)])


@pytest.mark.short
def test_columns_may_have_any_name_and_any_order(spark):
    names = ("a.b", "`", "A", "a", "c0")
    schema = Schema(tuple(Categorical(name=n, levels=("u", "v")) for n in names))
    cells = pa.table({n: ["v" if n == "a" else "u"] for n in reversed(names)})
    source = open_source(spark.createDataFrame(cells), schema)
    assert isinstance(source, SparkSource)
    assert open_source(source, schema) is source
    with refuses(DataError, "another schema"):
        open_source(source, schema.subset(["a"]))
    found = source.counts([(n,) for n in names], rows="observed")
    assert [found[n,].tolist() for n in names] == [[0, 1] if n == "a" else [1, 0] for n in names]
    ignoring = Schema(tuple(schema)[1:], ignore=("a.b",))
    source = open_source(spark.createDataFrame(cells), ignoring)
    assert source.counts([("a",)], rows="observed")["a",].tolist() == [0, 1]
    with refuses(SchemaError, "makes no keys"):
        open_source(spark.range(1), Schema(tuple(schema), keys=("id",)))
    with refuses(DataError, "the data does not have"):
        SparkSource(spark.range(1), schema)
    with refuses(DataError, "does not declare"):
        SparkSource(spark.range(1).selectExpr("id AS x", "'no' AS a", "1 AS z"), SCHEMA)
    with refuses(ParameterError, "Spark data frame"):
        SparkSource(cells, schema)


HOSTILE = {
    "cast": "SELECT CAST(v AS DOUBLE) AS x, 'no' AS a FROM strings",
    "error": "SELECT if(length(v) > 2, raise_error(v), 1) AS x, 'no' AS a FROM strings",
    "outside": "SELECT v AS x, 'no' AS a FROM strings",
    "udf": "SELECT 1 AS x, quoting(v) AS a FROM strings",
}


# PySpark's own process sometimes prints this text when Java no longer listens to a worker that it
# starts. The text has paths and lines of PySpark, and nothing of a row.
_WORKER_GONE = (
    r"Traceback \(most recent call last\):\n"
    r"(?:  File \"[^\"]*pyspark/daemon\.py\".*\n(?:    .*\n)*)+"
    r"(?:BrokenPipeError: \[Errno 32\] Broken pipe|"
    r"ConnectionResetError: \[Errno 104\] Connection reset by peer)\n"
)


@pytest.fixture
def told(spark, spark_log, capfd):
    """Returns all that was printed since, by Java, by Python and by PySpark's loggers."""
    from pyspark.logger import PySparkLogger

    texts, begin = [], spark_log.stat().st_size
    handler = logging.StreamHandler(io.StringIO())
    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addHandler(handler)

    def read():
        texts.extend(capfd.readouterr())
        texts.append(handler.stream.getvalue())
        texts_of_java = spark_log.read_bytes()[begin:].decode()
        return "".join(texts) + re.sub(_WORKER_GONE, "", texts_of_java)

    yield read
    for logger in loggers:
        logger.removeHandler(handler)


@pytest.mark.parametrize(
    "query", [pytest.param(q, marks=pytest.mark.short) if q == "error" else q for q in HOSTILE]
)
def test_no_engine_prints_or_raises_a_cell(spark, query, told):
    def quoting(cell):
        raise ValueError(f"bad cell {cell}")

    spark.udf.register("quoting", quoting)
    # The strings come from a range, so that tasks compute them, and not the planner.
    last = "if(id = 3, concat('SECRET-', string(id + 424239)), string(id)) AS v"
    spark.range(4).selectExpr(last).createOrReplaceTempView("strings")
    budget = Filter(1.0, 1e-6)
    with refuses(DataError) as caught:
        AllPairs(epsilon=1.0, budget=budget).fit(spark.sql(HOSTILE[query]), schema=SCHEMA)
    assert not budget.events
    with refuses(DataError) as read:
        Table.read(spark.sql(HOSTILE[query]), SCHEMA)
    texts = [told()]
    for error in (caught.value, read.value):
        assert error.__cause__ is error.__context__ is None
        texts += [str(error), repr(error.args), repr(getattr(error, "__notes__", ""))]
    for text in texts:
        assert "424242" not in text
        assert "SECRET" not in text
        assert "Lost task" not in text


def test_the_log_speaks_again_afterwards(spark, told):
    bad = spark.range(4).selectExpr("CAST(concat('SECRET', id) AS INT) AS x", "'no' AS a")
    with refuses(DataError):
        counted(bad)
    said = told()  # Spark's daemon may complain that a worker's connection was closed
    assert said == "" or ("reset by peer" in said and "SECRET" not in said)
    with pytest.raises(Exception, match="SECRET"):
        bad.collect()
    said = told()
    assert "Lost task" in said  # by Java
    assert "QueryContextLogger" in said  # by PySpark


def test_tasks_that_are_killed_late_stay_unheard(spark, told, monkeypatch):
    def failing_or_slow(batches):
        from pyspark import TaskContext

        if TaskContext.get().partitionId() == 0:
            raise ValueError("SECRET")
        time.sleep(2)
        yield from batches

    monkeypatch.setattr(spark_sessions, "_PATIENCE", 0.0)  # silence is kept by a thread
    frame = frame_of(spark, example_table(SCHEMA, 50).to_arrow())
    with refuses(DataError):
        counted(frame.mapInArrow(failing_or_slow, frame.schema))
    time.sleep(3)
    while spark_sessions._tasks_run(spark._jvm):
        time.sleep(0.1)
    time.sleep(1)
    assert "SECRET" not in told()


def test_a_fit_on_spark_is_the_fit_on_the_same_rows_in_memory(spark):
    table = example_table(SCHEMA, 400, seed=5)
    frame = frame_of(spark, table.to_arrow(), 3)
    ruled = example_table(RULED, 300, seed=6).to_arrow(missing_as="codes")
    cells = example_table(OPEN, 600, seed=7).to_arrow()
    found_bins = (OPEN, "joint", frame_of(spark, cells, 3), Table.read(cells, OPEN))
    complete = (RULED, "complete-rows", frame_of(spark, ruled), Table.read(ruled, RULED))
    for schema, missing, *both in (found_bins, complete):
        one, two = (
            AllPairs(epsilon=2.0, missing=missing, random_state=1).fit(data, schema=schema)
            for data in both
        )
        outside = CountedOutsideTheKernel("Spark")
        assert one.guarantee_ == two.guarantee_.with_conditions(outside)
        assert one.bins_ == two.bins_
        drawn = [m.sample_table(50, random_state=2).to_arrow() for m in (one, two)]
        assert drawn[0].equals(drawn[1])
    assert Table.read(frame, SCHEMA).to_arrow().num_rows == 400
    with refuses(ParameterError, "in memory"):
        AllPairs(epsilon=1.0, missing="impute-first").fit(frame, schema=SCHEMA)


# -- the work of a task on its share of the rows, without an engine -----------------------------
TASKED = [("arbeit", "stunden"), ("größe",), ()]


def task(cliques=TASKED, schema=RULED, **more):
    counter = Counter(schema, cliques)
    return CountTask(schema=schema, names=schema.names, counter=counter, **more)


def batches(table, rows=7):
    return table.to_arrow(missing_as="codes").to_batches(rows)


def added_up(records, counter):
    _add_up(pa.Table.from_batches(list(records)), counter)
    return counter


def test_partial_counts_of_any_number_of_tasks_add_up():
    table = example_table(RULED, 100, seed=2)
    wanted = MemorySource(Table.read(table.to_arrow(missing_as="codes"), RULED))
    for cuts in ([100], [40, 60], [0, 99, 1], [4] * 25):
        run, ends = task(), np.cumsum([0, *cuts])
        parts = [table.take(np.arange(*pair)) for pair in itertools.pairwise(ends)]
        out = [batch for part in parts for batch in run(batches(part))]
        found = added_up(merge_blocks(out), Counter(RULED, TASKED)).result("extended")
        alike(found, wanted.counts(TASKED, rows="extended"))


def test_a_task_starts_from_nothing_whenever_and_wherever_it_runs():
    table, run = example_table(RULED, 50), task()
    first = list(run(batches(table)))
    for again in (run, pickle.loads(pickle.dumps(run))):
        assert list(again(batches(table))) == first
    counter = Counter(RULED, TASKED)
    counter.add({n: table.codes(n) for n in RULED.names}, 50)
    for known, there in ((counter, True), (pickle.loads(pickle.dumps(counter)), False)):
        assert any(block.any() for _, block in known.blocks()) == there


def test_large_vectors_come_in_blocks():
    schema = Schema(tuple(Numeric(name=n, lower=0, upper=1, bins=500) for n in "ab"))
    run, table = task([("a", "b")], schema), unprocessed_table(schema, 300)
    assert [block.size for _, block in run.counter.blocks()] == [2**17, 250_000 - 2**17]
    found = added_up(run(batches(table)), run.counter).result("observed")
    alike(found, MemorySource(table).counts([("a", "b")], rows="observed"))


STRICT = Schema(
    (Categorical(name="a", levels=("u", "v")), Numeric(name="b", lower=0, upper=1, nullable=True))
)


def refused(*parts):
    run = task([("a",)], STRICT)
    out = [batch for a, b in parts for batch in run([pa.record_batch({"a": a, "b": b})])]
    with refuses(DataError) as caught:
        added_up(merge_blocks(out), Counter(STRICT, [("a",)]))
    return str(caught.value)


def test_errors_do_not_depend_on_batches():
    good, level, null, number = (["u"], [0.5]), (["SECRET"], [0.5]), ([None], [0.5]), (["u"], [7.0])
    both = refused((["u", "SECRET", None], [0.5, 0.5, 7.0]))
    for parts in ((level, number, null), (good, null, level, number), (null, number, level)):
        assert refused(*parts) == both
    whole = pa.table({"a": ["u", "SECRET", None], "b": [0.5, 0.5, 7.0]})
    with refuses(DataError) as caught:
        Table.read(whole, STRICT)
    assert str(caught.value) == both
    assert "missing cells" in refused(good, null, number)
    assert "'b'" in refused(good, number)


def test_a_task_that_cannot_go_on_quotes_nothing():
    def breaking():
        yield pa.record_batch({"a": ["u"], "b": [0.5]})
        raise ValueError("SECRET")

    with refuses(DataError, "could not count"):
        list(task([("a",)], STRICT)(breaking()))


def test_incomplete_rows_are_dropped_by_their_cells():
    table = example_table(RULED, 80, seed=4)
    run = task(observed=("arbeit", "größe"))
    found = added_up(run(batches(table)), Counter(RULED, TASKED)).result("extended")
    read = Table.read(table.to_arrow(missing_as="codes"), RULED)
    whole = read.take(~(read.mask("arbeit") | read.mask("größe")))
    alike(found, MemorySource(whole).counts(TASKED, rows="extended"))


# -- rows of units: at most so many of each, drawn at random, the same in every pass -------------
WHO = Numeric(name="who", lower=0, upper=400, bins=400)
LAST = Categorical(name="last", levels=("no", "yes"), nullable=True)


def with_unit(**facts):
    return Schema((WHO, LAST), unit=Unit("p", **facts))


def shuffled(batches):
    """Rows in another order whenever they are computed."""
    for batch in batches:
        order = np.random.default_rng(int.from_bytes(os.urandom(8))).permutation(batch.num_rows)
        yield batch.take(pa.array(order))


def visits(spark, people=400):
    """Ten rows of each person, of which nine are alike."""
    who = np.repeat(np.arange(people), 10)
    last = ["yes" if k % 10 == 0 else "no" for k in range(len(who))]
    table = pd.DataFrame({"p": [f"P{k}" for k in who], "who": who.astype(float), "last": last})
    frame = frame_of(spark, table, 3)
    return frame.mapInArrow(shuffled, frame.schema)


def counted_units(frame, _=None):
    return counted(frame, with_unit().without_unit, [("who",), ("who", "last"), ("last",)])


def test_rows_are_drawn_by_unit_and_every_pass_sees_the_same(spark, capfd):
    given = visits(spark)
    frame, sums = select_unit_rows(given, with_unit(max_rows=3))
    assert (sums / STEPS).tolist() == [1200.0, 1200.0]
    assert frame.columns == ["who", "last"]
    found = counted_units(frame)
    alike(found, counted_units(frame))
    assert (found["who",] == 3).all()
    another = counted_units(*select_unit_rows(given, with_unit(max_rows=3)))
    assert not np.array_equal(found["who", "last"], another["who", "last"])
    frame.explain()
    assert len(re.findall(r"Exchange hashpartitioning", capfd.readouterr().out)) == 1


def test_each_row_is_drawn_as_often_and_not_each_sort_of_rows(spark):
    found = counted_units(*select_unit_rows(visits(spark), with_unit()))
    assert found["who",].sum() == 400
    # One of ten rows: 40 on average, and within 5 and 90 but once in 10^9 times.
    assert 5 < found["last",][1] < 90


def test_rows_without_an_identifier_and_those_with_one_that_cannot_be_read(spark):
    table = pd.DataFrame(
        {"p": ["a", "", " ", "NA", "a ", "b"], "who": [1.0, 2, 3, 4, 5, 6], "last": ["no"] * 6}
    )
    codes = {"missing_codes": ("NA",)}
    frame = spark.createDataFrame(table)
    assert counted_units(*select_unit_rows(frame, with_unit(**codes)))["last",].sum() == 2
    assert (
        counted_units(*select_unit_rows(frame, with_unit(if_missing="own_unit", **codes)))[
            "last",
        ].sum()
        == 5
    )
    with pytest.raises(DataError, match="a row has no identifier in the column 'p'"):
        select_unit_rows(frame, with_unit(if_missing="refuse", **codes))
    unread = spark.createDataFrame(
        [([1], 1.0, "no"), (None, 2.0, "no")], "p array<int>, who double, last string"
    )
    assert counted_units(*select_unit_rows(unread, with_unit(if_missing="own_unit")))[
        "who",
    ].nonzero()[0].tolist() == [2]
    with pytest.raises(DataError, match="the data does not have"):
        select_unit_rows(frame.drop("p"), with_unit())


def test_a_fit_to_a_frame_of_spark_protects_the_unit(spark):
    frame = visits(spark, people=100)
    model = MST(epsilon=20.0).fit(frame, schema=with_unit(max_rows=2))
    assert (model.guarantee_.unit, model.guarantee_.max_rows) == ("p", 2)
    assert abs(model.n_rows_ - 200) < 30
    assert len(Table.read(frame, with_unit(max_rows=2))) == 200


def test_weights_are_refused_before_anything_is_charged(spark):
    class Ledger(Filter):
        charged_first = True

    for schema in (
        with_unit(max_rows=2, counts_as="one"),
        Schema((WHO, LAST), weight=SurveyWeight("p", upper=4)),
    ):
        budget = Ledger(9.0, 1e-3)
        with pytest.raises(SchemaError, match="Spark counts every row as one"):
            MST(epsilon=1.0, budget=budget).fit(visits(spark, people=2), schema=schema)
        assert budget.events == ()
