"""Sessions of Spark, the files they read, and their silence about cells.

Nothing is guessed from cells: Parquet files keep their types, and cells of CSV files stay text, to
be read by the schema as those of any CSV file are. An error can be replaced by one that quotes
nothing; a line in a log is out before anything can be done about it. So nothing is logged while a
query runs that reads private rows.
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
    """
    with warnings.catch_warnings(action="ignore"):
        sessions = import_optional("pyspark.sql", purpose="Spark sessions").SparkSession
    failed = MissingDependencyError(
        "Spark does not start; it needs Java 17, for example Debian's openjdk-17-jre-headless, and "
        "JAVA_HOME if that is not found"
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


@contextlib.contextmanager
def spark_rows(rows: Rows | str, schema: Schema) -> Iterator[DataFrame]:
    """Yield the rows of a file, of several or of a place that Spark can reach, as Spark reads them.

    Parameters
    ----------
    rows : Rows or str
        Where the rows are; text is a place of Parquet files, such as ``s3a://bucket/folder``.
    schema : Schema
        Public facts; columns that it names are read.

    Yields
    ------
    DataFrame
        As long as the session runs.
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
    """Return the rows of a CSV or Parquet file, of many Parquet files, or of a URL as Spark reads.

    Parameters
    ----------
    data : str, Path or Rows
        Text with ``://`` is a place of Parquet files that Spark knows how to reach, such as
        ``"s3a://hospital/visits"``; all else is on this machine, or mounted on all of them.
    names : tuple of str
        The columns, in any order.
    session : SparkSession
    ignore : tuple of str, default ()
        Columns that may be there besides.

    Returns
    -------
    DataFrame
        Private.

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
            with muted_log():
                return session.read.parquet(data)
        rows = Rows.of(data)
        rows.check(names, unread=ignore)
        paths = list(map(_url, rows.files))
        if rows.is_text:
            for _ in rows.batches(rows.names):  # Spark takes any quote for closed
                pass
            with muted_log():
                return _csv(paths[0], rows.names, rows.data_files[0].header.delimiter, session)
        with muted_log():
            return session.read.parquet(*paths)


def _url(path: Path) -> str:
    """Return a place on this machine, whatever Spark takes for its own; its names are no globs."""
    return "file://" + re.sub(r"([\\*?\[\]{}])", r"\\\1", path.absolute().as_posix())


def _csv(path: str, names: tuple[str, ...], delimiter: str, session: SparkSession) -> DataFrame:
    """Return the cells of a CSV file as text; a row with more or fewer ends the query."""
    from pyspark.sql.types import StringType, StructField, StructType

    if len(names) == 1:
        raise ParameterError(
            "Spark leaves out empty lines, which are missing cells in a CSV file of one column: "
            "use Parquet, or another engine"
        )
    options = {"header": True, "sep": delimiter, "escape": '"', "encoding": "UTF-8"}
    options |= {"mode": "FAILFAST", "multiLine": True, "columnPruning": False}
    schema = StructType([StructField(name, StringType()) for name in names])
    return session.read.options(**options).csv(path, schema)


# Where PySpark writes errors of queries, with fragments and values, on standard error.
_PATIENCE, _LOOK_AGAIN, _GRACE = 5.0, 0.05, 0.3  # seconds
_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


@contextlib.contextmanager
def muted_log() -> Iterator[None]:
    """Hold back what Spark logs, and warns of, in this process and in its driver, meanwhile."""
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
    """Deny every line to the log of the Java process that was started here, if there is one."""
    # A server of Spark Connect logs where it runs; one for a ``local`` remote runs here.
    try:
        from pyspark import SparkContext
    except ImportError:  # the client of Spark Connect alone
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
    """Do something once all tasks of a failed query have ended, whose lines may quote cells."""
    # The other tasks are killed, each with a line in the log that quotes what one of them said.

    def wait(seconds: float) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not _tasks_run(java):
                time.sleep(_GRACE)
                then()
                return True
            time.sleep(_LOOK_AGAIN)
        return False

    if not wait(_PATIENCE):  # stays silent meanwhile
        threading.Thread(target=partial(wait, math.inf), daemon=True).start()


def _active(java: Any) -> Any:
    """Return the context that plans and schedules what this process asks for."""
    return getattr(getattr(java.org.apache.spark, "SparkContext$"), "MODULE$").getActive().get()


def _next_stage(java: Any) -> int | None:
    """Return the number that the next stage of a query gets, if that can be told."""
    try:
        return int(_active(java).dagScheduler().nextStageId())
    except Exception:  # noqa: BLE001 - it is no public part of Spark
        return None


def _tasks_run(java: Any) -> bool:
    """Whether any task runs, of any query; yes if that cannot be told."""
    try:
        running = _active(java).taskScheduler().runningTasksByExecutors()
        counts = running.values().iterator()
        while counts.hasNext():
            if counts.next():
                return True
        return False
    except Exception:  # noqa: BLE001 - whatever it is, silence is right
        return True


def _without_stages(java: Any, first: int | None, end: int | None) -> Any:
    """Return a filter that denies whatever is said of some stages, however late; or of any."""
    log4j = java.org.apache.logging.log4j.core
    known = first is not None and end is not None
    numbers = "|".join(map(str, range(first or 0, end or 0))) if known else r"\d+"
    pattern = rf"(?s).*\b[Ss]tage (?:{numbers or '-'})\b.*"
    results = log4j.Filter.Result
    return log4j.filter.RegexFilter.createFilter(
        pattern, None, False, results.DENY, results.NEUTRAL
    )
