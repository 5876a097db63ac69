"""Queries of Spark that fail quietly: what is logged would quote cells.

An error can be replaced by one that quotes nothing; a line in a log is out before anything can be
done about it. So nothing is logged while a query runs that reads private rows.
"""

from __future__ import annotations

import contextlib
import logging
import math
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["is_spark_frame", "quiet"]


def is_spark_frame(data: Any) -> TypeGuard[DataFrame]:
    """Tell whether ``data`` is a Spark data frame, of a session here or of Spark Connect.

    Examples
    --------
    >>> is_spark_frame({"age": [7]})
    False
    """
    spark = sys.modules.get("pyspark.sql")
    return spark is not None and isinstance(data, spark.DataFrame)


# Where PySpark writes errors of queries, with fragments and values, on standard error.
_PATIENCE, _LOOK_AGAIN, _GRACE = 5.0, 0.05, 0.3  # seconds
_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hold back what Spark logs, and warns of, in this process and in its driver, meanwhile."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        from pyspark.logger import PySparkLogger

        for name in _LOGGERS:
            logger: logging.Logger = PySparkLogger.getLogger(name)
            stack.callback(setattr, logger, "disabled", logger.disabled)
            logger.disabled = True
        stack.enter_context(_no_log_lines())
        yield


@contextlib.contextmanager
def _no_log_lines() -> Iterator[None]:
    """Deny every line to the log of the Java process that was started here, if there is one.

    A server of Spark Connect logs where it runs; one for a ``local`` remote runs here.
    """
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
    """Do something when the tasks of a query that failed have ended: until then they are logged.

    The other tasks of such a query are killed, each with a line that quotes what one of them said.
    """

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
