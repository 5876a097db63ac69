"""Files read by Spark, in a session of the caller's or of our own.

Nothing is guessed from cells: Parquet files keep their types, and cells of CSV files stay text, to
be read by the schema as those of any CSV file are.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from missdp.errors import DataError, MissDPError, MissingDependencyError, ParameterError, replacing
from missdp.table.frames import csv_separator, file_columns, is_csv
from missdp.table.quietly import quiet
from missdp.table.streams import PartRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["spark_frame", "spark_session"]


_LAUNCHED = ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE")  # set by spark-submit, and for Spark Connect
_LOCAL = {
    "spark.ui.enabled": "false",  # it would show how many rows there are
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@contextlib.contextmanager
def spark_session() -> Iterator[SparkSession]:
    """Return the session there is, or that spark-submit or ``SPARK_REMOTE`` asks for, or a new one.

    A new one runs on all processors of this machine, shows no web page, listens to this machine
    only, logs nothing, and is stopped in the end.

    Raises
    ------
    MissingDependencyError
        If PySpark or Java is not there.
    """
    absent = MissingDependencyError("PySpark is not installed; run pip install 'missdp[spark]'")
    with replacing(ImportError, by=absent), _no_warnings():
        from pyspark.sql import SparkSession
    failed = MissingDependencyError(
        "Spark does not start; it needs Java 17, for example Debian's openjdk-17-jre-headless, and "
        "JAVA_HOME if that is not found"
    )
    with contextlib.ExitStack() as stack:
        with replacing(Exception, by=failed), _no_warnings():
            session = SparkSession.getActiveSession()
            if session is None:
                build = SparkSession.builder.appName("missdp")
                if not any(name in os.environ for name in _LAUNCHED):
                    silent = stack.enter_context(_silent_log())
                    for name, value in (_LOCAL | silent).items():
                        build = build.config(name, value)
                session = build.getOrCreate()
                stack.callback(session.stop)
        yield session


# Spark takes a log without an appender for none, and sets up its own.
_SILENT = """rootLogger.level = off
rootLogger.appenderRef.stderr.ref = console
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
"""


@contextlib.contextmanager
def _silent_log() -> Iterator[dict[str, str]]:
    """Yield the settings of a Java process that logs nothing from its start."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log4j2.properties"
        path.write_text(_SILENT, encoding="utf-8")
        yield {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={path.as_uri()}"}


def spark_frame(
    data: str | Path | PartRows, names: tuple[str, ...], session: SparkSession
) -> DataFrame:
    """Return the rows of a CSV or Parquet file, of many Parquet files, or of a URL as Spark reads.

    Parameters
    ----------
    data : str, Path or PartRows
        Text with ``://`` is a place of Parquet files that Spark knows how to reach, such as
        ``"s3a://hospital/visits"``; all else is on this machine, or mounted on all of them.
    names : tuple of str
        The columns, in any order.
    session : SparkSession

    Raises
    ------
    DataError
        If it cannot be opened, or has other columns. Quotes no cell.
    ParameterError
        If it is a CSV file with a single column.
    """
    failed = DataError("Spark cannot open the data: there is none, or it is not well-formed")
    with replacing(Exception, by=lambda e: e if isinstance(e, MissDPError) else failed):
        if isinstance(data, str) and "://" in data:
            with quiet():
                return session.read.parquet(data)
        if isinstance(data, PartRows):
            paths = list(map(_url, data.paths))
            file_columns(data.paths[0], names)
        else:
            path = Path(data)
            found = file_columns(path, names)
            paths = [_url(path)]
            if is_csv(path):
                with quiet():
                    return _csv(paths[0], found, csv_separator(path), session)
        with quiet():
            return session.read.parquet(*paths)


def _url(path: Path) -> str:
    """Return a place on this machine, whatever Spark takes for its own; its names are no globs."""
    return "file://" + re.sub(r"([\\*?\[\]{}])", r"\\\1", path.absolute().as_posix())


def _csv(path: str, names: tuple[str, ...], separator: str, session: SparkSession) -> DataFrame:
    """Return the cells of a CSV file as text; a row with more or fewer ends the query."""
    from pyspark.sql.types import StringType, StructField, StructType

    if len(names) == 1:
        raise ParameterError(
            "Spark leaves out empty lines, which are missing cells in a CSV file of one column: "
            "use Parquet, or another engine"
        )
    options = {"header": True, "sep": separator, "escape": '"', "encoding": "UTF-8"}
    options |= {"mode": "FAILFAST", "multiLine": True, "columnPruning": False}
    schema = StructType([StructField(name, StringType()) for name in names])
    return session.read.options(**options).csv(path, schema)


@contextlib.contextmanager
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of versions
        yield
