"""For all tests: one that hangs fails and says where, and one without its extra is skipped.

What needs an extra is named here by where it lies, for examples in docstrings and pages. `.ci/run`
installs all extras and fails if anything is skipped.
"""

import signal
import threading
from collections.abc import Generator
from importlib.util import find_spec

import pytest

# By a part of the path, the module without which what lies there cannot run.
_NEEDS = {
    "src/missdp/baselines/dp_": "torch",
    "tests/baselines/test_adversarial": "torch",
    "src/missdp/table/databases.py": "sqlalchemy",
}
collect_ignore = ["tests/engines/warm_daemon.py"]  # no test: Spark starts it, which is an extra
_LIMIT, _SLOW_LIMIT = 600.0, 2400.0  # seconds of one test; of one that is marked slow


class OutOfTime(BaseException):
    """Not an `Exception`: neither a test nor a library is to take it for an ordinary failure."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a module that is not installed."""
    lacking = {part: module for part, module in _NEEDS.items() if find_spec(module) is None}
    for item in items:
        for part, module in lacking.items():
            if part in item.path.as_posix():
                item.add_marker(pytest.mark.skip(reason=f"needs {module}, an extra"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Stop a test after its time, wherever in Python it is."""
    if not hasattr(signal, "setitimer") or threading.current_thread() != threading.main_thread():
        return (yield)
    slow = any(item.get_closest_marker(name) for name in ("slow", "reference"))
    limit = _SLOW_LIMIT if slow else _LIMIT

    def stop(*_: object) -> None:
        raise OutOfTime(f"{item.nodeid} ran for more than {limit:.0f} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit, limit)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
