"""`missdp synthesize --engine spark`."""

import json
import os
import subprocess
import sys

import pytest

from missdp.cli.main import main
from missdp.table.written import write_blocks
from missdp.testing import SCHEMA, made_up

pytestmark = pytest.mark.filterwarnings("ignore:.*PySpark:FutureWarning")


@pytest.fixture
def given(tmp_path):
    write_blocks([tmp_path / "rows.csv"], [[made_up(SCHEMA, 300).to_arrow()]])
    write_blocks([tmp_path / "rows.parquet"], [[made_up(SCHEMA, 300).to_arrow()]])
    SCHEMA.to_toml(tmp_path / "schema.toml")
    return tmp_path


def run(folder, data, *more):
    fixed = f"--schema {folder}/schema.toml -o {folder}/out.csv --epsilon 3 --seed 1 --overwrite"
    return main(["synthesize", data, *fixed.split(), *more])


def test_the_same_release_as_without_spark(spark, given, capfd):
    rows = []
    for data in ("rows.csv", f"file://{given}/rows.parquet"):
        place = data if "://" in data else str(given / data)
        assert run(given, place, "--engine", "spark", "--json") == 0
        assert json.loads(capfd.readouterr().out)["guarantee"]["epsilon"] <= 3
        rows.append((given / "out.csv").read_text())
    assert run(given, str(given / "rows.csv")) == 0
    assert rows == [(given / "out.csv").read_text()] * 2


def test_what_spark_refuses_has_our_words_and_codes(spark, given, capfd):
    (given / "bad.csv").write_text((given / "rows.csv").read_text() + "SECRET,1,,2,3\n")
    assert run(given, str(given / "bad.csv"), "--engine", "spark") == 3
    error = capfd.readouterr().err
    assert "SECRET" not in error
    assert "it is not a well-formed CSV file" in error
    assert run(given, str(given / "absent.csv"), "--engine", "spark") == 3
    assert run(given, str(given / "rows.csv"), "--engine", "other") == 2
    more = ("--engine", "spark", "--missing", "impute-first")
    assert run(given, str(given / "rows.csv"), *more) == 2
    assert "in memory" in capfd.readouterr().err


def test_a_command_starts_a_session_of_its_own_and_says_nothing_of_it(spark, given):
    fixed = ["--schema", "schema.toml", "-o", "out.csv", "--epsilon", "3", "--json"]
    code = "from missdp.cli.main import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", code, "synthesize", "rows.parquet", *fixed, "--engine", "spark"],
        cwd=given,
        capture_output=True,
        text=True,
        check=False,
        env={k: v for k, v in os.environ.items() if k != "PYSPARK_GATEWAY_PORT"},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] > 200
    ours = [line for line in done.stderr.splitlines() if line.startswith("missdp: ")]
    others = [line for line in done.stderr.splitlines() if line not in ours]
    assert not [line for line in others if "incubator modules" not in line]
