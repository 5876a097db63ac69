"""Optional engines: Spark (``missdp[spark]``) and databases (PostgreSQL: ``missdp[ledger]``).

* `spark` counts a data frame in Spark, by the tasks of `spark_tasks`, which also draw rows. It
  samples rows by unit first. `spark_sessions` starts Spark, opens files and suppresses its log.
* `databases` streams rows of tables and queries of a database.

Only commands of the command line import this package. Other packages import it by name, when they
get a frame of Spark.
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
