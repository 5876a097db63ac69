"""Other engines: Spark (``missdp[spark]``), and databases (PostgreSQL: ``missdp[ledger]``).

* `spark`: a data frame counted where it is, by the tasks of `spark_tasks`, which also draw rows;
  rows are chosen by unit before. `spark_sessions` starts Spark, opens files with it, and keeps it
  silent.
* `databases`: rows of tables and queries of a database, streamed.

Nothing else in the package imports this one, but for the command line, inside a command. A frame of
Spark is known by its type, and finds its way here by name.
"""

from missdp.engines.databases import duckdb_rows as duckdb_rows
from missdp.engines.databases import sql_rows as sql_rows
from missdp.engines.spark import SparkSource as SparkSource
from missdp.engines.spark_sessions import spark_frame as spark_frame
from missdp.engines.spark_sessions import spark_rows as spark_rows
from missdp.engines.spark_sessions import spark_session as spark_session
from missdp.engines.spark_tasks import sample_spark as sample_spark
from missdp.exports import exported_names

__all__ = exported_names(globals())
