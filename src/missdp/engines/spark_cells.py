"""Cells of a Spark data frame, as functions of batches of Arrow are given them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from missdp.sources.counts import Clique

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


def in_arrow(frame: DataFrame, function: Any, schema: Any) -> DataFrame:
    """Return a frame mapped by a function of batches of Arrow, which may be any callable."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from function(batches)

    return frame.mapInArrow(run, schema)


def cells_of(frame: DataFrame, names: Clique) -> DataFrame:
    """Return the named columns in types whose cells mean here what they mean to Spark.

    Nothing is cast: with ANSI casts a cell that is no number would end the query, and be quoted.
    """
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
