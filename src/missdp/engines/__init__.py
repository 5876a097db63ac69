"""Other engines: Spark (``missdp[spark]``), and databases (PostgreSQL: ``missdp[ledger]``).

* `spark`: a data frame counted where it is, by the tasks of `spark_tasks`, which also draw rows;
  rows are chosen by unit before. `spark_sessions` starts Spark, opens files with it, and keeps it
  silent.
* `databases`: rows of tables and queries of a database, streamed.

Nothing else in the package imports this one, but for the command line, inside a command. A frame of
Spark is known by its type, and finds its way here by name.
"""

from missdp.engines.databases import duckdb_rows, sql_rows
from missdp.engines.spark import SparkSource
from missdp.engines.spark_sessions import spark_frame, spark_rows, spark_session
from missdp.engines.spark_tasks import sample_spark

__all__ = [
    "SparkSource",
    "duckdb_rows",
    "sample_spark",
    "spark_frame",
    "spark_rows",
    "spark_session",
    "sql_rows",
]
