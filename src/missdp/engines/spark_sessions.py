"""Sessions of Spark, reading of files with Spark, and suppression of its log.

Nothing is guessed from cells. Parquet files keep their types, and cells of CSV files stay text, as
in other CSV files. An error can be replaced by an error without quotes, but a log line is written
at once. Therefore nothing is logged while a query reads private rows.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import re
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from missdp.errors import (
    DataError,
    MissDPError,
    MissingDependencyError,
    ParameterError,
    import_optional,
    replacing,
)
from missdp.table.rows import Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from missdp.schema import Schema


_LAUNCHED = ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE")  # set by spark-submit and Spark Connect
_LOCAL = {
    "spark.ui.enabled": "false",  # it would show the number of rows
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@contextlib.contextmanager
def spark_session() -> Iterator[SparkSession]:
    """Open a Spark session in a ``with`` block: the active session if there is one, or a new one.

    A session of spark-submit or of the address in ``SPARK_REMOTE`` is used if there is one. A new
    session runs on all processors of this machine, without a web page and without a log. It accepts
    connections from this machine only. A session that was not active before is stopped at the end
    of the block.

    Yields
    ------
    pyspark.sql.SparkSession
        The session.

    Raises
    ------
    MissingDependencyError
        If PySpark is not installed, or Spark does not start, for example without Java.

    Examples
    --------
    >>> from missdp.engines import spark_session
    >>> with spark_session() as session:  # doctest: +SKIP
    ...     session.range(3).count()
    3
    """
    with warnings.catch_warnings(action="ignore"):
        sessions = import_optional("pyspark.sql", purpose="Spark sessions").SparkSession
    failed = MissingDependencyError(
        "Spark does not start. It needs Java 17, such as openjdk-17-jre-headless of Debian, and "
        "JAVA_HOME if Java is not found."
    )
    with contextlib.ExitStack() as stack:
        with replacing(Exception, by=failed), warnings.catch_warnings(action="ignore"):
            session = sessions.getActiveSession()
            if session is None:
                build = sessions.builder.appName("missdp")
                if not any(name in os.environ for name in _LAUNCHED):
                    silent = stack.enter_context(_silent_log())
                    for name, value in (_LOCAL | silent).items():
                        build = build.config(name, value)
                session = build.getOrCreate()
                stack.callback(session.stop)
        yield session


# Without an appender, Spark would set up its own log.
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
    """Yield the settings of a Java process without a log."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log4j2.properties"
        path.write_text(_SILENT, encoding="utf-8")
        yield {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={path.as_uri()}"}


@contextlib.contextmanager
def spark_rows(rows: Rows | str, schema: Schema) -> Iterator[DataFrame]:
    """Open private rows with Spark within a ``with`` block: files, or a URL that Spark supports.

    Parameters
    ----------
    rows : Rows or str
        The rows of files. Text is the URL of Parquet files, such as ``s3a://bucket/folder``.
    schema : Schema
        Public facts. Its attributes are read, and the column of its unit.

    Yields
    ------
    pyspark.sql.DataFrame
        The private rows, for the lifetime of the session.

    Raises
    ------
    DataError
        If the data cannot be opened, or have other columns. The message quotes no cell.
    ParameterError
        If the data are a CSV file with a single column.
    MissingDependencyError
        If PySpark is not installed, or Spark does not start.

    Examples
    --------
    >>> from missdp import Schema
    >>> from missdp.engines import SparkSource, spark_rows
    >>> schema = Schema.from_toml("schema.toml")  # doctest: +SKIP
    >>> with spark_rows("s3a://hospital/visits", schema) as frame:  # doctest: +SKIP
    ...     source = SparkSource(frame, schema)
    """
    names = (*schema.names, *([schema.unit.column] if schema.unit else []))
    place = rows if isinstance(rows, str) or len(rows.files) != 1 else str(rows.files[0])
    with spark_session() as session:
        yield spark_frame(place, names, session, ignore=schema.ignore)


def spark_frame(
    data: str | Path | Rows,
    names: tuple[str, ...],
    session: SparkSession,
    *,
    ignore: tuple[str, ...] = (),
) -> DataFrame:
    """Read a CSV file, Parquet files or a URL of Parquet files as a Spark data frame.

    Cells of Parquet files keep their types, and cells of CSV files stay text.

    Nothing is charged, because nothing is released.

    Parameters
    ----------
    data : str, Path or Rows
        Text with ``://`` is a URL of Parquet files that Spark supports, such as
        ``"s3a://hospital/visits"``. Other paths are on this machine, or mounted on all executors.
    names : tuple of str
        Names of the columns that the data must have, in any order. For a URL they are not checked.
    session : pyspark.sql.SparkSession
        The session.
    ignore : tuple of str, default ()
        Other columns that may be present.

    Returns
    -------
    pyspark.sql.DataFrame
        The rows with their columns. Private.

    Raises
    ------
    DataError
        If the data cannot be opened, or have other columns. The message quotes no cell.
    ParameterError
        If the data are a CSV file with a single column.

    Examples
    --------
    >>> from missdp.engines import spark_frame, spark_session
    >>> with spark_session() as session:  # doctest: +SKIP
    ...     frame = spark_frame("visits.parquet", ("age", "smoker"), session)
    """
    failed = DataError("Spark cannot open the data: they are absent or not well-formed")
    with replacing(Exception, by=lambda e: e if isinstance(e, MissDPError) else failed):
        if isinstance(data, str) and "://" in data:
            with muted_log():
                return session.read.parquet(data)
        rows = Rows.of(data)
        rows.check(names, unread=ignore)
        paths = list(map(_url, rows.files))
        if rows.is_text:
            for _ in rows.batches(rows.names):  # checks quotes, which Spark does not check
                pass
            with muted_log():
                return _csv(paths[0], rows.names, rows.data_files[0].header.delimiter, session)
        with muted_log():
            return session.read.parquet(*paths)


def _url(path: Path) -> str:
    """Return the URL of a local path for Spark, without patterns."""
    return "file://" + re.sub(r"([\\*?\[\]{}])", r"\\\1", path.absolute().as_posix())


def _csv(path: str, names: tuple[str, ...], delimiter: str, session: SparkSession) -> DataFrame:
    """Read the cells of a CSV file as text. A row with more or fewer cells ends the query."""
    from pyspark.sql.types import StringType, StructField, StructType

    if len(names) == 1:
        raise ParameterError(
            "Spark drops empty lines, which are missing cells in a CSV file of one column. Use "
            "Parquet, or another engine."
        )
    options = {"header": True, "sep": delimiter, "escape": '"', "encoding": "UTF-8"}
    options |= {"mode": "FAILFAST", "multiLine": True, "columnPruning": False}
    schema = StructType([StructField(name, StringType()) for name in names])
    return session.read.options(**options).csv(path, schema)


_PATIENCE, _LOOK_AGAIN, _GRACE = 5.0, 0.05, 0.3  # seconds of waiting for tasks to end
# Loggers of PySpark that write errors of queries, with values, to standard error.
_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


@contextlib.contextmanager
def muted_log() -> Iterator[None]:
    """Suppress log lines and warnings of Spark within the block, here and in its driver."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings(action="ignore"))
        from pyspark.logger import PySparkLogger

        for name in _LOGGERS:
            logger: logging.Logger = PySparkLogger.getLogger(name)
            stack.callback(setattr, logger, "disabled", logger.disabled)
            logger.disabled = True
        stack.enter_context(_no_log_lines())
        yield


@contextlib.contextmanager
def _no_log_lines() -> Iterator[None]:
    """Suppress log lines of the Java process of this session, if it runs on this machine."""
    # A server of Spark Connect has its own log. A server for a ``local`` remote runs here.
    try:
        from pyspark import SparkContext
    except ImportError:  # only the client of Spark Connect is installed
        SparkContext = None
    java = getattr(SparkContext, "_jvm", None)
    if java is None:
        yield
        return
    core = java.org.apache.logging.log4j.core
    deny = core.filter.DenyAllFilter.newBuilder().build()
    configuration = core.LoggerContext.getContext(False).getConfiguration()
    first = _next_stage(java)
    configuration.addFilter(deny)
    failed = True
    try:
        yield
        failed = False
    finally:

        def speak() -> None:
            if failed:
                configuration.addFilter(_without_stages(java, first, _next_stage(java)))
            configuration.removeFilter(deny)

        if failed:
            _once_no_task_runs(java, speak)
        else:
            speak()


def _once_no_task_runs(java: Any, then: Callable[[], object]) -> None:
    """Call a function after all tasks of a failed query have ended. Their log may quote cells."""
    # The other tasks are killed, each with a log line that quotes the first error.

    def wait(seconds: float) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not _tasks_run(java):
                time.sleep(_GRACE)
                then()
                return True
            time.sleep(_LOOK_AGAIN)
        return False

    if not wait(_PATIENCE):  # the log stays suppressed
        threading.Thread(target=partial(wait, math.inf), daemon=True).start()


def _active(java: Any) -> Any:
    """Return the Java context that schedules the queries of this process."""
    return getattr(getattr(java.org.apache.spark, "SparkContext$"), "MODULE$").getActive().get()


def _next_stage(java: Any) -> int | None:
    """Return the number of the next stage of a query, or None if it is unknown."""
    try:
        return int(_active(java).dagScheduler().nextStageId())
    except Exception:  # noqa: BLE001 - this is not a public part of Spark
        return None


def _tasks_run(java: Any) -> bool:
    """Return True if any task of any query runs, or if this is unknown."""
    try:
        running = _active(java).taskScheduler().runningTasksByExecutors()
        counts = running.values().iterator()
        while counts.hasNext():
            if counts.next():
                return True
        return False
    except Exception:  # noqa: BLE001 - after any error the log stays suppressed
        return True


def _without_stages(java: Any, first: int | None, end: int | None) -> Any:
    """Return a filter that suppresses log lines about some stages, or about all stages."""
    log4j = java.org.apache.logging.log4j.core
    numbers = "|".join(map(str, range(first or 0, end or 0)))
    numbers = r"\d+" if None in (first, end) else numbers
    pattern = rf"(?s).*\b[Ss]tage (?:{numbers or '-'})\b.*"
    results = log4j.Filter.Result
    return log4j.filter.RegexFilter.createFilter(
        pattern, None, False, results.DENY, results.NEUTRAL
    )
