"""One Spark session, and one PostgreSQL server, for all tests of a process that need them.

These tests skip on machines without Spark or PostgreSQL.
"""

import contextlib
import os
import shutil
import sys
import warnings

import pytest
from hypothesis import HealthCheck, settings

# The time of an example depends on other load of the machine. Examples may share a folder.
CALM = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture)
for name, parent in (("steady", settings.default), ("ci", settings.get_profile("ci"))):
    settings.register_profile(name, parent, deadline=None, suppress_health_check=CALM)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def spark_log(tmp_path_factory):
    """The file that the Java process of Spark prints to, from its beginning."""
    return tmp_path_factory.mktemp("spark") / "stderr"


@contextlib.contextmanager
def stderr_to(path):
    kept = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@pytest.fixture(scope="session")
def spark(spark_log):
    """A small local session: two threads, three attempts at a task, no network, no web pages."""
    if shutil.which("java") is None:
        pytest.skip("needs Java: install openjdk-17-jre-headless")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the version of pandas
        sql = pytest.importorskip("pyspark.sql")
        build = sql.SparkSession.builder.master("local[2,3]").appName("missdp tests")
        for name, value in {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            # Workers are forked, one after each error, with all that tasks import.
            "spark.python.daemon.module": "engines.warm_daemon",
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
        }.items():
            build = build.config(name, value)
        with stderr_to(spark_log):
            session = build.getOrCreate()
    session.sparkContext.setLogLevel("WARN")  # where values would be quoted
    yield session
    process = session.sparkContext._gateway.proc
    session.stop()
    process.stdin.close()
    process.wait(timeout=30)


@pytest.fixture(scope="session")
def server():
    """The URL of a fresh database of PostgreSQL."""
    pytest.importorskip("psycopg")
    from engines import postgres

    with postgres.server() as url:
        yield url
