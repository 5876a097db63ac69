"""A pytest plugin that runs only tests that have not passed yet: `pytest -p passed`.

The file `$PASSED_TESTS` holds the node ids of tests that passed in earlier runs. `.ci/run` uses it
to run tests without extras first, and then, with extras, those that were skipped or not collected.
A test that passes without extras is not run again with them.
"""

import os
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Read the file, and record in the process that collects the reports of all others."""
    path = Path(os.environ["PASSED_TESTS"])
    before = set(path.read_text(encoding="utf-8").splitlines()) if path.exists() else set()
    config.pluginmanager.register(_Selection(before))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Record(path))


class _Selection:
    """Deselects tests that have passed."""

    def __init__(self, before: set[str]) -> None:
        self.before = before

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        passed = [item for item in items if item.nodeid in self.before]
        if passed:
            items[:] = [item for item in items if item.nodeid not in self.before]
            config.hook.pytest_deselected(items=passed)


class _Record:
    """Adds the tests that pass to the file, once the run is over."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.passed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(f"{name}\n" for name in self.passed)
