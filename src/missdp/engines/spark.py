"""Counts of a Spark data frame: one scan, in which only counts leave the tasks.

Each task reads its share of the rows through the same door and the same kernel as a table in
memory, and hands in its counts once, in blocks; blocks of the same number are brought together and
added. Rows are never collected, and shuffled by units alone, so what the driver holds depends on
the number of cells that are counted, and not on the number of rows. There are no accumulators,
which would count what a repeated task adds once more.

For units there is one shuffle by identifier, and the same rows in every pass. Nothing that Spark
keeps is relied on, for a task may run again, or twice. Which rows take part is a function of the
rows of their unit, and of a secret that is drawn once: the rows of a unit are numbered in the order
of their cells, where rows that are alike may change places, and those take part for which a hash of
the secret, the identifier and the number is least.

PySpark is imported only where a Spark data frame or session is at hand.
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

# Spark hands the cells of these types to Arrow as they are.
_AS_THEY_ARE = frozenset(
    (
        *("BooleanType", "ByteType", "ShortType", "IntegerType", "LongType", "FloatType"),
        *("DoubleType", "DecimalType", "StringType", "CharType", "VarcharType", "BinaryType"),
        *("DateType", "TimestampNTZType"),
    )
)


def _in_arrow(frame: DataFrame, function: Any, schema: Any) -> DataFrame:
    """Return a frame mapped by a function of batches of Arrow, which may be any callable."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from function(batches)

    return frame.mapInArrow(run, schema)


def _cells_of(frame: DataFrame, names: Clique) -> DataFrame:
    """Return the named columns in types whose cells mean the same here: casts quote cells."""
    # Nothing is cast: with ANSI casts a cell that is no number would end the query, and be quoted.
    from pyspark.sql import functions

    found = list(frame.columns)
    numbered = frame.toDF(*(f"c{place}" for place in range(len(found))))  # names may be anything
    kinds = [type(field.dataType).__name__ for field in frame.schema.fields]
    chosen = []
    for place in map(found.index, names):
        column, kind = functions.col(f"c{place}"), kinds[place]
        if kind == "NullType":
            column = functions.lit(None).cast("string")
        elif kind not in _AS_THEY_ARE:  # instants and nested values: bytes that are no text
            column = functions.when(column.isNotNull(), functions.lit(b"\xff"))
        chosen.append(column.alias(f"c{place}"))
    return numbered.select(*chosen)


def _identified(batches: Iterable[pa.RecordBatch], unit: Unit) -> Iterator[pa.RecordBatch]:
    """Make bytes of identifiers, in the last column; null where there is none. A task."""
    with replacing(Exception, by=DataError("a task could not read identifiers")):
        for batch in batches:
            *others, own = batch.columns
            columns = [*others, identifiers(own, unit).cast(pa.binary())]
            yield pa.record_batch(columns, names=batch.schema.names)


def select_unit_rows(frame: DataFrame, schema: Schema) -> tuple[DataFrame, Ints]:
    """Return the rows of a frame that take part, without identifiers, and what units count."""
    from pyspark.sql import Window, functions
    from pyspark.sql.types import BinaryType, StringType, StructField, StructType

    unit = schema.unit
    assert unit is not None
    names = (*schema.names, unit.column)
    check_columns(list(frame.columns), names, unread=schema.ignore)
    cells = _cells_of(frame, names).toDF(*(f"c{place}" for place in range(len(names))))
    *others, own = cells.columns
    types = StructType([*cells.schema.fields[:-1], StructField(own, BinaryType())])
    named = _in_arrow(cells, partial(_identified, unit=unit), types)
    none, unread = named[own].isNull(), named[own] == functions.lit(UNREAD)
    if unit.if_missing == "refuse":
        _refuse(named.filter(none | unread), unit)
    rows = named.filter(none | ~unread if unit.if_missing == "own_unit" else ~none & ~unread)
    number, window = functions.row_number(), Window.partitionBy(own)
    # By their bytes, for text that differs may be alike to a collation.
    texts = {f.name for f in types.fields if isinstance(f.dataType, StringType)}
    order = [rows[name].cast("binary") if name in texts else rows[name] for name in others]
    rows = rows.withColumn("number", number.over(window.orderBy(*order)))
    told = functions.concat(rows["number"].cast("string"), functions.lit(":")).cast("binary")
    key = functions.concat(functions.lit(os.urandom(32)), told, rows[own])
    rows = rows.withColumn("draw", functions.sha2(key, 256))
    rows = rows.withColumn("place", number.over(window.orderBy("draw")))
    kept = rows.filter((rows["place"] <= unit.max_rows) | rows[own].isNull())
    return kept.select(*others).toDF(*schema.names), _sums(kept, own, unit)


def _sums(kept: DataFrame, own: str, unit: Unit) -> Ints:
    """Return `missdp.table.units.unit_sums` of the rows that take part. Private."""
    from pyspark.sql import functions

    failed = DataError("the units cannot be counted by Spark, whose own message is withheld")
    with replacing(Exception, by=failed), muted_log():
        each = kept.groupBy(own).agg(functions.count("*").alias("rows"))
        lone = each[own].isNull()  # each of them by itself
        rows = functions.when(lone, 1).otherwise(each["rows"]).alias("rows")
        units = functions.when(lone, each["rows"]).otherwise(1).alias("units")
        found = each.select(rows, units).groupBy("rows").sum("units").toArrow()
    of_each, times = (np.asarray(column).astype(np.int64) for column in found.columns)
    squares = np.floor(of_each * STEPS * (of_each / unit.bound)).astype(np.int64)
    return np.array([(of_each * STEPS) @ times, squares @ times], dtype=np.int64)


def _refuse(lacking: DataFrame, unit: Unit) -> None:
    """Refuse the rows if one of these is there."""
    failed = DataError("the identifiers cannot be read by Spark, whose own message is withheld")
    with replacing(Exception, by=failed), muted_log():
        found = not lacking.isEmpty()
    if found:
        raise without_identifier(unit)


_HANDED_IN = "block int, cells binary"
_MERGED_AT_ONCE = 2**20  # cells


class SparkSource(StreamedSource):
    """Count the rows of a Spark data frame where they are.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The private rows; its columns must be the schema's, in any order, and those it ignores.
    schema : Schema
        The declared domain.

    Notes
    -----
    Every call runs the query of the frame again, in which rows must be the same each time (no
    ``rand()``, no ``limit`` without an order): persist a frame that is costly to compute. The
    executors need this package, in this version. A table that does not fit its schema is refused by
    :meth:`check`, which `open_source` calls before a fit charges anything, or by the first call of
    :meth:`counts`. Later calls read only the columns they count.

    Log lines of the driver are held back while it runs: they would quote cells of a query that
    fails. The executors' logs, the event log and the web interface show private facts; see the
    page on Spark in the documentation.

    Examples
    --------
    >>> from missdp.engines import SparkSource
    >>> rows = SparkSource(spark.table("patients"), schema)  # doctest: +SKIP
    >>> rows.counts([("smoker",)], rows="extended")  # doctest: +SKIP
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
            "executors lack missdp; Spark's own message may quote cells and is withheld"
        )
        with replacing(Exception, by=lambda e: e if isinstance(e, MissDPError) else failed):
            with muted_log():
                found = self._plan(task).toArrow()
            _add_up(found, counter)

    def _plan(self, task: CountTask) -> DataFrame:
        """Return the query that counts: a scan, and a sum of what its tasks hand in."""
        cells = sum(block.size for _, block in task.counter.blocks()) if task.counter else 0
        handed_in = _in_arrow(_cells_of(self._frame, task.names), task, _HANDED_IN)
        gathered = handed_in.repartition(1 + cells // _MERGED_AT_ONCE, "block")
        return _in_arrow(gathered, merge_blocks, _HANDED_IN)


def _add_up(table: pa.Table, counter: Counter | None) -> None:
    """Add what was handed in to a counter."""
    rows = list(zip(*(c.to_pylist() for c in table.columns), strict=True))
    refused = [row for row in rows if row[0] < 0]
    if refused:
        first = max(number for number, _ in refused)  # of the first column, in the order of texts
        raise DataError(min(text for number, text in refused if number == first).decode())
    places = dict(counter.blocks()) if counter is not None else {}
    for number, cells in rows:
        places[number] += np.frombuffer(cells, dtype=np.int64)


def count_values(frame: DataFrame, attributes: tuple[OpenCategorical, ...]) -> list[dict[str, int]]:
    """Return how many rows have each value of open columns; private. No rows leave the tasks."""
    task = partial(value_count_batches, attributes=attributes)
    failed = DataError("the values of open columns cannot be counted by Spark")
    found: list[dict[str, int]] = [{} for _ in attributes]
    with replacing(Exception, by=failed), muted_log():
        cells = _cells_of(frame, tuple(a.name for a in attributes))
        values = _in_arrow(cells, task, "place int, value string, times bigint")
        for batch in values.groupBy("place", "value").sum("times").toArrow().to_batches():
            for place, value, times in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                found[place][value] = times
    return found


def check_spark_schema(schema: Schema) -> None:
    """Refuse by name what Spark cannot read, or reads as something else."""
    if schema.is_weighted:
        raise SchemaError(
            "Spark counts every row as one: write the rows to a Parquet file, or leave the weight "
            "out of the schema"
        )
    computed = [name for name in schema.names if name not in schema.input_columns]
    if computed:
        raise SchemaError(
            f"Spark counts no differences of dates: {computed}; leave them out, or read the rows "
            "without it (--engine missdp)"
        )
    if zoned := [a.name for a in schema if isinstance(a, Date) and a.zoned]:
        raise SchemaError(
            f"Spark hands over no moments with a time zone: {zoned}; store them without one, or "
            "read the rows without it (--engine missdp)"
        )
    if schema.keys or schema.file != PLAIN:
        raise SchemaError(
            "Spark reads cells as they are, and makes no keys: ignore keys, and pass numbers as "
            "numbers and text as UTF-8; or read the rows without it (--engine missdp)"
        )


source = SparkSource
"""What a source of frames is called in every module of an engine."""
