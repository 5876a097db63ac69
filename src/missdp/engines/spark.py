"""Counts of a Spark data frame: one scan, in which only counts leave the tasks.

Each task reads its share of the rows through the same door and the same kernel as a table in
memory, and hands in its counts once, in blocks; blocks of the same number are brought together and
added. Rows are never collected, and shuffled by units alone (`spark_units`), so what the driver
holds depends on the number of cells that are counted, and not on the number of rows. There are no
accumulators, which would count what a repeated task adds once more.

PySpark is imported only where a Spark data frame or session is at hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from missdp.engines.spark_cells import cells_of, in_arrow
from missdp.engines.spark_sessions import quiet
from missdp.engines.spark_tasks import CountTask, ValuesTask, add_up, merged
from missdp.engines.spark_units import of_units as of_units
from missdp.errors import DataError, MissDPError, ParameterError, SchemaError, replacing
from missdp.schema import Date, OpenCategorical, Schema
from missdp.schema.layout import PLAIN
from missdp.sources.counts import Clique, Counter, RowWeight
from missdp.sources.streamed import StreamedSource
from missdp.table.frames import check_columns, engine_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_HANDED_IN = "block int, cells binary"
_MERGED_AT_ONCE = 2**20  # cells


class SparkSource(StreamedSource):
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
    >>> from missdp.engines import SparkSource
    >>> rows = SparkSource(spark.table("patients"), schema)  # doctest: +SKIP
    >>> rows.counts([("smoker",)], rows="extended")  # doctest: +SKIP
    """

    def __init__(self, frame: DataFrame, schema: Schema) -> None:
        if engine_of(frame) is None:
            raise ParameterError("frame must be a Spark data frame")
        check_for_spark(schema)
        check_columns(list(frame.columns), schema.names)
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
            with quiet():
                found = self._plan(task).toArrow()
            add_up(found, counter)

    def _plan(self, task: CountTask) -> DataFrame:
        """Return the query that counts: a scan, and a sum of what its tasks hand in."""
        cells = sum(block.size for _, block in task.counter.blocks()) if task.counter else 0
        handed_in = in_arrow(cells_of(self._frame, task.names), task, _HANDED_IN)
        gathered = handed_in.repartition(1 + cells // _MERGED_AT_ONCE, "block")
        return in_arrow(gathered, merged, _HANDED_IN)


def occurring(frame: DataFrame, attributes: tuple[OpenCategorical, ...]) -> list[dict[str, int]]:
    """Return how many rows have each value of open columns, in this order; private.

    Values and their counts leave the tasks, no rows. The driver holds one text for each value.
    """
    task = ValuesTask(attributes)
    failed = DataError("the values of open columns cannot be counted by Spark")
    found: list[dict[str, int]] = [{} for _ in attributes]
    with replacing(Exception, by=failed), quiet():
        cells = cells_of(frame, tuple(a.name for a in attributes))
        values = in_arrow(cells, task, "place int, value string, times bigint")
        for batch in values.groupBy("place", "value").sum("times").toArrow().to_batches():
            for place, value, times in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                found[place][value] = times
    return found


def check_for_spark(schema: Schema) -> None:
    """Refuse by name what Spark cannot read, or reads as something else."""
    computed = [name for name in schema.names if name not in schema.stored]
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
    if schema.layout != PLAIN:
        raise SchemaError(
            "Spark reads all columns, as they are: drop those that are ignored or keys, and pass "
            "numbers as numbers; or read the rows without it (--engine missdp)"
        )


source = SparkSource
"""What a source of frames is called in every module of an engine."""
