"""Counts of a Spark data frame: one scan, in which only counts leave the tasks.

Each task reads its share of the rows through the same door and the same kernel as a table in
memory, and hands in its counts once, in blocks; blocks of the same number are brought together and
added. Rows are never shuffled or collected, so what the driver holds depends on the number of
cells that are counted, and not on the number of rows. There are no accumulators, which would count
what a repeated task adds once more.

PySpark is imported only where a Spark data frame or session is at hand.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from missdp.errors import DataError, MissDPError, ParameterError, replacing
from missdp.schema import Schema
from missdp.sources.counts import Clique, Counter, Counts, Rows, check_cliques
from missdp.sources.row_weights import RowWeight
from missdp.sources.tasks import HANDED_IN, CountTask, add_up, merged
from missdp.table.frames import check_columns
from missdp.table.quietly import is_spark_frame, quiet

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["SparkSource", "run_in_arrow"]


_MERGED_AT_ONCE = 2**20  # cells
# Spark hands the cells of these types to Arrow as they are.
_AS_THEY_ARE = frozenset(
    (
        *("BooleanType", "ByteType", "ShortType", "IntegerType", "LongType", "FloatType"),
        *("DoubleType", "DecimalType", "StringType", "CharType", "VarcharType", "BinaryType"),
        *("DateType", "TimestampNTZType"),
    )
)


class SparkSource:
    """Count the rows of a Spark data frame where they are.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The private rows; its columns must be exactly the schema's, in any order.
    schema : Schema
        The declared domain.

    Raises
    ------
    DataError
        If the columns are not the schema's.

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
    >>> from missdp.sources.spark import SparkSource
    >>> source = SparkSource(spark.table("patients"), schema)  # doctest: +SKIP
    >>> source.counts([("smoker",)], rows="extended")  # doctest: +SKIP
    """

    def __init__(self, frame: DataFrame, schema: Schema) -> None:
        if not is_spark_frame(frame):
            raise ParameterError("frame must be a Spark data frame")
        check_columns(list(frame.columns), schema.names)
        self._frame, self._schema = frame, schema
        self._observed: Clique = ()
        self._validated = False

    @property
    def schema(self) -> Schema:
        """Public facts about the columns."""
        return self._schema

    def counts(self, cliques: Iterable[Clique], *, rows: Rows) -> Counts:
        """Count every clique; see :meth:`missdp.sources.MarginalSource.counts`."""
        checked = check_cliques(self._schema, cliques, rows)
        return self._counted(Counter(self._schema, checked)).result(rows)

    def weighted_counts(self, cliques: Iterable[Clique], weight: RowWeight) -> Counts:
        """Add up the weights of the rows in every cell; see :class:`WeighingSource`."""
        checked = check_cliques(self._schema, cliques, "extended")
        return self._counted(Counter(self._schema, checked), weight).result("extended")

    def observed_on(self, names: Iterable[str]) -> SparkSource:
        """Return a source of the rows that have no hole in any of these attributes."""
        fewer = SparkSource(self._frame, self._schema)
        fewer._observed = tuple(dict.fromkeys((*self._observed, *names)))
        fewer._validated = self._validated
        return fewer

    def coded_as(self, schema: Schema) -> SparkSource:
        """Return a source of the same rows, in the bins of another schema that differs in bins."""
        found = copy.copy(self)
        found._schema = schema
        return found

    def check(self) -> None:
        """Refuse now what :meth:`counts` would refuse, so that nothing is charged for it.

        Reads the columns whose policy is ``outside="error"`` once, unless it was done before. With
        other policies it cannot foresee a query that fails.

        Raises
        ------
        DataError
            If the data does not fit the schema or cannot be read. Quotes no value and no count.
        """
        if not self._validated and any(attribute.refuses for attribute in self._schema):
            self._run(CountTask(schema=self._schema, names=self._needed(())), None)
        self._validated = True

    def _counted(self, counter: Counter, weight: RowWeight | None = None) -> Counter:
        read = (*counter.names, *(weight.names if weight else ()), *self._observed)
        task = CountTask(
            schema=self._schema,
            names=self._needed(read),
            counter=counter,
            weight=weight,
            observed=self._observed,
        )
        self._run(task, counter)
        self._validated = True
        return counter

    def _needed(self, counted: Clique) -> Clique:
        """Columns to read: those counted and, the first time, those that may refuse a cell."""
        read = self._schema.rulebook.reached(counted)
        wanted = tuple(
            a.name for a in self._schema if a.name in read or (a.refuses and not self._validated)
        )
        return wanted or self._schema.names[:1]

    def _plan(self, task: CountTask) -> DataFrame:
        """Return the query that counts: a scan, and a sum of what its tasks hand in."""
        cells = sum(block.size for _, block in task.counter.blocks()) if task.counter else 0
        handed_in = run_in_arrow(_cells(self._frame, task.names), task, HANDED_IN)
        gathered = handed_in.repartition(1 + cells // _MERGED_AT_ONCE, "block")
        return run_in_arrow(gathered, merged, HANDED_IN)

    def _run(self, task: CountTask, counter: Counter | None) -> None:
        failed = DataError(
            "the rows cannot be counted by Spark: a row is malformed, the query fails, or the "
            "executors lack missdp; Spark's own message may quote cells and is withheld"
        )
        with replacing(Exception, by=lambda e: e if isinstance(e, MissDPError) else failed):
            with quiet():
                found = self._plan(task).toArrow()
            add_up(found, counter)

    def __repr__(self) -> str:
        return f"SparkSource({', '.join(self._schema.names)})"


def run_in_arrow(frame: DataFrame, function: Any, schema: Any) -> DataFrame:
    """Return a frame mapped by a function of batches of Arrow, which may be any callable."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from function(batches)

    return frame.mapInArrow(run, schema)


def _cells(frame: DataFrame, names: Clique) -> DataFrame:
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
