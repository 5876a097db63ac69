"""Spark reads files as missdp does. The rows that its tasks draw are those of the seed."""

import copy
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from missdp import AllPairs, Categorical, Kamino, Numeric, PrivBayes, Schema, Table
from missdp.engines import SparkSource, sample_spark
from missdp.engines.spark_sessions import spark_frame, spark_session
from missdp.errors import DataError, MissingDependencyError, NotFittedError, ParameterError
from missdp.sources import MemorySource
from missdp.synth import sampling
from missdp.table import Rows
from missdp.testing import RULED, example_table
from refusing import refuses
from testing.written import CODED, spelled

pytestmark = pytest.mark.filterwarnings("ignore:.*PySpark:FutureWarning")
SCHEMA = Schema(
    (
        Categorical(name="a", levels=("x, y", 'say "hi"', "two\nlines", "ü"), nullable=True),
        Numeric(name="b", lower=0, upper=10, bins=4, nullable=True),
    )
)
TEXTS = {
    "plain": 'a,b\n"x, y",1\n"say ""hi""",2.5\n"two\nlines",\n,10\nü,0\n"",\n',
    "semicolons": 'b;a\n1;"x, y"\n2.5;ü\n;\n',
    "windows": 'a,b\r\nü,1\r\n"x, y",9\r\n',
    "empty": "a,b\n",
    "bom": "\ufeffa,b\nü,7\n",
    "blanks": "a,b\n ü , 7 \n\n   ,\n",
}


def alike(place, schema, session):
    frame = spark_frame(place, schema.names, session)
    cliques = [(), *((n,) for n in schema.names), schema.names[:2]]
    one = SparkSource(frame, schema).counts(cliques, rows="extended")
    stream = place if isinstance(place, Rows) else str(place)
    two = MemorySource(Table.read(stream, schema)).counts(cliques, rows="extended")
    for clique in cliques:
        np.testing.assert_array_equal(one[clique], two[clique])


@pytest.mark.parametrize("text", TEXTS)
def test_csv_files_mean_the_same(spark, text, tmp_path):
    path = tmp_path / "odd [name] {1} *.csv"
    path.write_bytes(TEXTS[text].encode())
    alike(path, SCHEMA, spark)


def test_cells_written_in_every_way_mean_the_same(spark, tmp_path):
    cells = spelled(CODED, 60, 1).to_arrow()
    pq.write_table(cells, tmp_path / "rows.parquet")
    pa.csv.write_csv(cells, tmp_path / "rows.csv")
    for name in ("rows.parquet", "rows.csv"):
        alike(tmp_path / name, CODED, spark)


def test_parts_of_a_folder_are_read_without_the_names_of_folders(spark, tmp_path):
    for k in range(3):
        folder = tmp_path / f"year={k}"
        folder.mkdir()
        pq.write_table(example_table(SCHEMA, 20, k).to_arrow(), folder / "rows.parquet")
    alike(Rows.of_parts(tmp_path), SCHEMA, spark)


@pytest.mark.parametrize(
    "text",
    [
        "a,b\nü,1,SECRET\n",
        "a,b\nü,1\nSECRET\n",
        'a,b\n"SECRET,1\n',
        'a,b\nü,1\n"ü","SECRET\nü,1\n',  # which Spark would take for one cell
    ],
)
def test_malformed_files_are_refused_at_once_and_not_quoted(spark, text, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(text, encoding="utf-8")
    with refuses(DataError):
        spark_frame(path, SCHEMA.names, spark)


def test_unreadable_files_raise(spark, tmp_path):
    with refuses(DataError, "no data file"):
        spark_frame(tmp_path / "absent.csv", ("a",), spark)
    (tmp_path / "two.csv").write_text("a,id\nü,1\n", encoding="utf-8")
    with refuses(DataError, "does not declare"):
        spark_frame(tmp_path / "two.csv", ("a",), spark)
    assert spark_frame(tmp_path / "two.csv", ("a",), spark, ignore=("id",)).columns == ["a", "id"]
    (tmp_path / "one.csv").write_text("a\nü\n\n", encoding="utf-8")
    with refuses(ParameterError, "empty lines"):
        spark_frame(tmp_path / "one.csv", ("a",), spark)
    with refuses(DataError, "cannot open"):
        spark_frame(f"file://{tmp_path}/absent", ("a",), spark)
    (tmp_path / "bad.parquet").write_bytes(b"SECRET")
    with refuses(DataError):
        spark_frame(f"file://{tmp_path}/bad.parquet", ("a",), spark)


def test_a_session_that_is_there_is_used_and_left_and_the_extra_is_named(spark, monkeypatch):
    with spark_session() as session:
        assert session is spark
    assert session.range(3).count() == 3
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with refuses(MissingDependencyError, r"missdp\[spark\]"), spark_session():
        pass


def test_engines_are_not_imported_unasked():
    code = (
        "import sys, missdp.sources, missdp.synth, missdp.table, missdp.cli.app\n"
        "assert not [m for m in sys.modules if m.startswith(('pyspark', 'missdp.engines'))]\n"
        "from missdp.engines import duckdb_rows, SparkSource, sql_rows, sample_spark\n"
        "assert 'pyspark' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- rows drawn by tasks -------------------------------------------------------------------------
@pytest.fixture(scope="module")
def model():
    table = example_table(RULED, 400, seed=1)
    return AllPairs(epsilon=5.0, random_state=0, progress=lambda *_: None).fit(table)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(sampling, "_CELLS", 1000)
    monkeypatch.setattr(sampling, "_ROWS", (100, 200))


@pytest.mark.parametrize("n", [0, 500])
def test_rows_are_those_of_the_seed_however_many_blocks(spark, model, n):
    given = {"missing_values": "keep", "random_state": 7}
    frame = sample_spark(model, spark, n, missing_as="codes", **given)
    wanted = model.sample_table(n, **given).to_arrow(missing_as="codes")
    assert (frame.rdd.getNumPartitions() > 3) == (n > 0)
    assert frame.toArrow().to_pydict() == wanted.to_pydict()
    assert frame.columns == list(RULED.names)


def test_a_task_that_is_run_again_draws_the_same_rows(spark, model):
    model = copy.copy(model)
    model.random_state = None
    frame = sample_spark(model, spark, 300)  # no seed: one is drawn, once
    rows = frame.toArrow()
    assert frame.toArrow().equals(rows)
    assert not sample_spark(model, spark, 300).toArrow().equals(rows)
    assert rows.slice(0, 100).to_pylist() != rows.slice(100, 100).to_pylist()  # another block


def test_errors_of_sampling_are_raised_at_once(spark, model):
    with refuses(NotFittedError):
        sample_spark(AllPairs(epsilon=1.0), spark)
    words = (("missing_values", "?"), ("missing_as", "?"))
    for name, bad in (("n", -1), ("n", 1.5), ("n", True), *words):
        with refuses(ParameterError, f"{name} must be"):
            sample_spark(model, spark, **{name: bad})


def test_a_saved_model_is_enough_and_rows_that_must_fit_to_each_other_are_one_block(
    spark, tmp_path
):
    schema = Schema(tuple(Categorical(name=n, levels=tuple("abc")) for n in ("team", "town")))
    stated = "t1&t2&EQ(t1.team,t2.team)&IQ(t1.town,t2.town)"
    together = Kamino(epsilon=5.0, constraints=stated, random_state=0).fit(
        example_table(schema, 200)
    )
    assert together.draws_together
    fitted = PrivBayes(epsilon=5.0, random_state=0).fit(example_table(RULED, 300))
    fitted.save(tmp_path / "model.json")
    loaded = PrivBayes.load(tmp_path / "model.json")
    for model, drawn in ((together, together), (loaded, fitted)):
        found = sample_spark(model, spark, 250, random_state=3).toArrow()
        assert found.to_pydict() == drawn.sample_table(250, random_state=3).to_arrow().to_pydict()
