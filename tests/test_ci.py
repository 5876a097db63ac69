"""Tests of `.ci/run` and of its plugin, which runs tests that have not passed yet."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CI = Path(__file__).parents[1] / ".ci"
TESTS = """
import os, pytest
def test_plain(): pass
def test_extra():
    if "EXTRA" not in os.environ: pytest.skip("needs an extra")
if "EXTRA" in os.environ:
    def test_more(): pass
"""


def test_run_readme_commands_precede_other_installs():
    steps = (CI / "run").read_text(encoding="utf-8").partition('step "clone"')[2]
    order = [
        steps.index(text)
        for text in ('eval "$(readme 1)"', 'eval "$(readme 2)"', "\ninstall_system_packages")
    ]
    assert order == sorted(order)
    assert re.search(r"pip\S* install", steps).start() > order[1]


@pytest.mark.long
def test_passed_plugin_second_run_has_the_other_tests(tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS, encoding="utf-8")
    settings = {"PYTHONPATH": str(CI), "PASSED_TESTS": str(tmp_path / "passed.txt")}
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"} | settings
    command = [sys.executable, "-m", "pytest", "-q", "-p", "passed", "-p", "no:cacheprovider"]
    summaries = []
    for more in ({}, {"EXTRA": "1"}):
        done = subprocess.run(
            [*command, "--rootdir", str(tmp_path), str(tmp_path)],
            cwd=tmp_path,
            env=environment | more,
            capture_output=True,
            text=True,
            check=True,
        )
        summaries.append(re.findall(r"\d+ \w+", done.stdout.splitlines()[-1]))
    assert summaries == [["1 passed", "1 skipped"], ["2 passed", "1 deselected"]]
