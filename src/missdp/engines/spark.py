"""Counting of Spark data frames in one scan. Only counts leave the tasks.

Each task encodes and counts its rows with the encoder and the kernel of tables in memory. It
returns its counts once, in numbered blocks, and blocks with equal numbers are added. Rows are never
collected, and are shuffled by units only. The memory of the driver therefore depends on the number
of counted cells, not on the number of rows. Accumulators are not used, since a repeated task would
add its counts again.

Units need one shuffle by identifier, and every pass must have the same rows. A task may run again,
or twice, so no state of Spark is used. The rows of a unit that take part are a function of these
rows and of a secret that is drawn once. The rows of a unit are numbered in the order of their
cells. The rows with the smallest hashes of secret, identifier and number take part.

PySpark is imported only if a Spark data frame or session is present.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from missdp.engines.spark_sessions import muted_log
from missdp.engines.spark_tasks import CountTask, merge_blocks, value_count_batches
from missdp.errors import DataError, MissDPError, ParameterError, SchemaError, replacing
from missdp.schema import Date, OpenCategorical, Schema, Unit
from missdp.schema.layout import PLAIN, STEPS
from missdp.session.counting import Clique, Counter
from missdp.session.row_weights import RowWeight
from missdp.sources.streamed import StreamedSource
from missdp.table.cells import UNREAD
from missdp.table.frames import check_columns, engine_of
from missdp.table.units import identifiers, without_identifier
from missdp.types import Ints

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

# Spark converts cells of these types to Arrow without changes.
_UNCHANGED = (
    "BooleanType", "ByteType", "ShortType", "IntegerType", "LongType", "FloatType", "DoubleType",
    "DecimalType", "StringType", "CharType", "VarcharType", "BinaryType", "DateType",
    "TimestampNTZType",
)  # fmt: skip


def _in_arrow(frame: DataFrame, function: Any, schema: Any) -> DataFrame:
    """Return a frame that a callable maps, a batch of Arrow at a time."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from function(batches)

    return frame.mapInArrow(run, schema)


def _cells_of(frame: DataFrame, names: Clique) -> DataFrame:
    """Return the named columns, in types with equal meaning in Arrow."""
    # Nothing is cast: with ANSI casts, a cell that is not a number ends the query, and is quoted.
    from pyspark.sql import functions

    present = list(frame.columns)
    numbered = frame.toDF(*(f"c{place}" for place in range(len(present))))  # any names are allowed
    kinds = [type(field.dataType).__name__ for field in frame.schema.fields]
    chosen = []
    for place in map(present.index, names):
        column, kind = functions.col(f"c{place}"), kinds[place]
        if kind == "NullType":
            column = functions.lit(None).cast("string")
        elif kind not in _UNCHANGED:  # instants and nested values become bytes that are not text
            column = functions.when(column.isNotNull(), functions.lit(b"\xff"))
        chosen.append(column.alias(f"c{place}"))
    return numbered.select(*chosen)


def _identified(batches: Iterable[pa.RecordBatch], unit: Unit) -> Iterator[pa.RecordBatch]:
    """Convert identifiers, in the last column, to bytes or null. A task of Spark."""
    with replacing(Exception, by=DataError("a task could not read identifiers")):
        for batch in batches:
            *others, last = batch.columns
            columns = [*others, identifiers(last, unit).cast(pa.binary())]
            yield pa.record_batch(columns, names=batch.schema.names)


def select_unit_rows(frame: DataFrame, schema: Schema) -> tuple[DataFrame, Ints]:
    """Sample the rows of a frame by unit. Private.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The private rows.
    schema : Schema
        Public facts with a unit.

    Returns
    -------
    DataFrame
        The rows that take part, without identifiers.
    ndarray of shape (2,)
        The sums of `missdp.table.units.unit_sums`.
    """
    from pyspark.sql import Window, functions
    from pyspark.sql.types import BinaryType, StringType, StructField, StructType

    unit = schema.unit
    assert unit is not None
    names = (*schema.names, unit.column)
    check_columns(list(frame.columns), names, unread=schema.ignore)
    cells = _cells_of(frame, names).toDF(*(f"c{place}" for place in range(len(names))))
    *others, identifier = cells.columns
    types = StructType([*cells.schema.fields[:-1], StructField(identifier, BinaryType())])
    named = _in_arrow(cells, partial(_identified, unit=unit), types)
    none, unread = named[identifier].isNull(), named[identifier] == functions.lit(UNREAD)
    if unit.if_missing == "refuse":
        _refuse(named.filter(none | unread), unit)
    rows = named.filter(none | ~unread if unit.if_missing == "own_unit" else ~none & ~unread)
    number, window = functions.row_number(), Window.partitionBy(identifier)
    # Text is ordered by its bytes, since different texts may be equal in a collation.
    texts = {f.name for f in types.fields if isinstance(f.dataType, StringType)}
    order = [rows[name].cast("binary") if name in texts else rows[name] for name in others]
    rows = rows.withColumn("number", number.over(window.orderBy(*order)))
    prefix = functions.concat(rows["number"].cast("string"), functions.lit(":")).cast("binary")
    key = functions.concat(functions.lit(os.urandom(32)), prefix, rows[identifier])
    rows = rows.withColumn("draw", functions.sha2(key, 256))
    rows = rows.withColumn("place", number.over(window.orderBy("draw")))
    sample = rows.filter((rows["place"] <= unit.max_rows) | rows[identifier].isNull())
    return sample.select(*others).toDF(*schema.names), _sums(sample, identifier, unit)


def _sums(sample: DataFrame, identifier: str, unit: Unit) -> Ints:
    """Return `missdp.table.units.unit_sums` of the rows that take part. Private."""
    from pyspark.sql import functions

    failed = DataError("the units cannot be counted by Spark, whose own message is withheld")
    with replacing(Exception, by=failed), muted_log():
        by_unit = sample.groupBy(identifier).agg(functions.count("*").alias("rows"))
        single = by_unit[identifier].isNull()  # rows without an identifier are separate units
        rows = functions.when(single, 1).otherwise(by_unit["rows"]).alias("rows")
        units = functions.when(single, by_unit["rows"]).otherwise(1).alias("units")
        table = by_unit.select(rows, units).groupBy("rows").sum("units").toArrow()
    sizes, times = (np.asarray(column).astype(np.int64) for column in table.columns)
    squares = np.floor(sizes * STEPS * (sizes / unit.bound)).astype(np.int64)
    return np.array([(sizes * STEPS) @ times, squares @ times], dtype=np.int64)


def _refuse(unidentified: DataFrame, unit: Unit) -> None:
    """Raise DataError if the frame of rows without an identifier is not empty."""
    failed = DataError("the identifiers cannot be read by Spark, whose own message is withheld")
    with replacing(Exception, by=failed), muted_log():
        is_empty = unidentified.isEmpty()
    if not is_empty:
        raise without_identifier(unit)


_HANDED_IN = "block int, cells binary"
_MERGED_AT_ONCE = 2**20  # cells of a partition that adds counts


class SparkSource(StreamedSource):
    """Source that lets Spark count the private rows of a Spark data frame.

    Only counts leave the executors. Use it for tables that are stored or computed in a cluster.
    Each task of Spark encodes and counts its rows as this package does for tables in memory. A
    guarantee then has the condition `CountedOutsideTheKernel`: Spark reads and counts each row
    once. This condition is not checked. The counts are exact and private.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The private rows. The columns must be the columns of the schema, in any order, and may
        include ignored columns.
    schema : Schema
        Public facts about the columns, without weights, differences of dates, keys, a file layout
        and dates with a time zone.

    Attributes
    ----------
    engine : str
        Class attribute: the public name of the engine, ``"Spark"``.

    Raises
    ------
    DataError
        If the columns are not those of the schema.
    ParameterError
        If ``frame`` is not a Spark data frame.
    SchemaError
        If the schema has a fact that Spark does not support.

    Notes
    -----
    Every call runs the query of the frame again. The query must return the same rows each time,
    without ``rand()`` and without ``limit`` on unordered rows. Persist a frame that is costly to
    compute. The executors need this version of this package. A table that does not fit its schema
    raises an error in :meth:`check` or in the first call of :meth:`counts`. `open_source` calls
    :meth:`check` before a fit charges. Later calls read only the columns that they count.

    Log lines of the driver are suppressed while it runs, since they would quote cells of a failed
    query. The logs of executors, the event log and the web interface show private facts. See the
    page on Spark in the documentation.

    Examples
    --------
    The example needs Java.

    >>> from missdp import Categorical, Schema
    >>> from missdp.engines import SparkSource
    >>> from pyspark.sql import SparkSession  # doctest: +SKIP
    >>> spark = SparkSession.builder.master("local[1]").getOrCreate()  # doctest: +SKIP
    >>> frame = spark.createDataFrame([("yes",), ("no",)], ["smoker"])  # doctest: +SKIP
    >>> schema = Schema((Categorical(name="smoker", levels=("no", "yes")),))
    >>> SparkSource(frame, schema).counts([("smoker",)], rows="extended")  # doctest: +SKIP
    {('smoker',): array([1, 1])}
    """

    engine = "Spark"

    def __init__(self, frame: DataFrame, schema: Schema) -> None:
        if engine_of(frame) is None:
            raise ParameterError("frame must be a Spark data frame")
        check_spark_schema(schema)
        check_columns(list(frame.columns), schema.names, unread=schema.ignore)
        self._frame = frame
        super().__init__(schema)

    def _run(self, names: Clique, counter: Counter | None, weight: RowWeight | None) -> None:
        task = CountTask(
            schema=self.schema,
            names=names,
            counter=counter,
            weight=weight,
            observed=self._observed,
        )
        failed = DataError(
            "the rows cannot be counted by Spark: a row is malformed, the query fails, or the "
            "executors lack missdp. Spark's own message may quote cells and is withheld"
        )
        with replacing(Exception, by=lambda e: e if isinstance(e, MissDPError) else failed):
            with muted_log():
                table = self._plan(task).toArrow()
            _add_up(table, counter)

    def _plan(self, task: CountTask) -> DataFrame:
        """Return the query that counts: a scan, and a sum of the blocks of its tasks."""
        cells = sum(block.size for _, block in task.counter.blocks()) if task.counter else 0
        handed_in = _in_arrow(_cells_of(self._frame, task.names), task, _HANDED_IN)
        gathered = handed_in.repartition(1 + cells // _MERGED_AT_ONCE, "block")
        return _in_arrow(gathered, merge_blocks, _HANDED_IN)


def _add_up(table: pa.Table, counter: Counter | None) -> None:
    """Add the blocks of tasks to a counter. Raise DataError if a task reports an error."""
    rows = list(zip(*(c.to_pylist() for c in table.columns), strict=True))
    refused = [row for row in rows if row[0] < 0]
    if refused:
        first = max(number for number, _ in refused)  # the first column
        raise DataError(min(text for number, text in refused if number == first).decode())
    places = dict(counter.blocks()) if counter is not None else {}
    for number, cells in rows:
        places[number] += np.frombuffer(cells, dtype=np.int64)


def count_values(frame: DataFrame, attributes: tuple[OpenCategorical, ...]) -> list[dict[str, int]]:
    """Count the rows of each value of open columns. Private. No rows leave the tasks."""
    task = partial(value_count_batches, attributes=attributes)
    failed = DataError("the values of open columns cannot be counted by Spark")
    counts: list[dict[str, int]] = [{} for _ in attributes]
    with replacing(Exception, by=failed), muted_log():
        cells = _cells_of(frame, tuple(a.name for a in attributes))
        values = _in_arrow(cells, task, "place int, value string, times bigint")
        for batch in values.groupBy("place", "value").sum("times").toArrow().to_batches():
            for place, value, times in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                counts[place][value] = times
    return counts


def check_spark_schema(schema: Schema) -> None:
    """Raise SchemaError for facts of a schema that Spark does not support."""
    if schema.is_weighted:
        raise SchemaError(
            "Spark counts every row as one. Write the rows to a Parquet file, or leave the weight "
            "out of the schema."
        )
    problem = ""
    if computed := [name for name in schema.names if name not in schema.input_columns]:
        problem = f"counts no differences of dates: {computed}. Leave them out"
    elif zoned := [a.name for a in schema if isinstance(a, Date) and a.zoned]:
        problem = f"passes no moments with a time zone: {zoned}. Store them without a time zone"
    elif schema.keys or schema.file != PLAIN:
        problem = (
            "reads cells without conversion, and makes no keys. Ignore keys, and pass numbers as "
            "numbers and text as UTF-8"
        )
    if problem:
        raise SchemaError(f"Spark {problem}, or read the rows without Spark (--engine missdp)")


source = SparkSource
"""The name of the source in every module of an engine."""
