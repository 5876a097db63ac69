"""The process that PySpark forks workers from. It imports the modules of tasks beforehand."""

from pyspark.daemon import manager

from missdp.engines import spark_tasks

if __name__ == "__main__" and spark_tasks:
    manager()
