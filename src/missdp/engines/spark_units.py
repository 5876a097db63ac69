"""Rows of units in a Spark data frame: one shuffle by identifier, and the same rows in every pass.

Nothing that Spark keeps is relied on, for a task may run again, or twice. Which rows take part is a
function of the rows of their unit, and of a secret that is drawn once: the rows of a unit are
numbered in the order of their cells, where rows that are alike may change places, and those take
part for which a hash of the secret, the identifier and the number is least.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from missdp.engines.spark_cells import cells_of, in_arrow
from missdp.engines.spark_sessions import quiet
from missdp.errors import DataError, replacing
from missdp.schema import Schema, Unit
from missdp.schema.unit import STEPS
from missdp.table.frames import check_columns
from missdp.table.units import UNREAD, identifiers, without_identifier
from missdp.types import Ints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class _Identified:
    """The task that makes bytes of identifiers, in the last column; null where there is none."""

    unit: Unit

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with replacing(Exception, by=DataError("a task could not read identifiers")):
            for batch in batches:
                *others, own = batch.columns
                columns = [*others, identifiers(own, self.unit).cast(pa.binary())]
                yield pa.record_batch(columns, names=batch.schema.names)


def of_units(frame: DataFrame, schema: Schema) -> DataFrame:
    """Return the rows of a frame that take part, without identifiers.

    Raises
    ------
    DataError
        If its columns are not the schema's and the identifiers', or a row has no identifier and the
        unit says to refuse that.
    """
    from pyspark.sql import Window, functions
    from pyspark.sql.types import BinaryType, StringType, StructField, StructType

    unit = schema.unit
    assert unit is not None
    names = (*schema.names, unit.column)
    check_columns(list(frame.columns), names)
    cells = cells_of(frame, names).toDF(*(f"c{place}" for place in range(len(names))))
    *others, own = cells.columns
    types = StructType([*cells.schema.fields[:-1], StructField(own, BinaryType())])
    named = in_arrow(cells, _Identified(unit), types)
    none, unread = named[own].isNull(), named[own] == functions.lit(UNREAD)
    if unit.missing == "refuse":
        _refuse(named.filter(none | unread), unit)
    rows = named.filter(none | ~unread if unit.missing == "own" else ~none & ~unread)
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
    found = kept.select(*others).toDF(*schema.names)
    found._sums = _sums(kept, own, unit)  # where a fit looks for what units count
    return found


def _sums(kept: DataFrame, own: str, unit: Unit) -> Ints:
    """Return `missdp.table.weights.unit_sums` of the rows that take part. Private."""
    from pyspark.sql import functions

    failed = DataError("the units cannot be counted by Spark, whose own message is withheld")
    with replacing(Exception, by=failed), quiet():
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
    with replacing(Exception, by=failed), quiet():
        found = not lacking.isEmpty()
    if found:
        raise without_identifier(unit)
