"""A test that hangs fails, and says where, instead of holding up all the others."""

import importlib.util
import signal
import threading
from collections.abc import Generator

import pytest

# Examples of what needs an optional package.
collect_ignore = [
    place
    for package, place in (("sqlalchemy", "src/missdp/table/databases.py"),)
    if importlib.util.find_spec(package) is None
]

_LIMIT, _SLOW_LIMIT = 600.0, 2400.0  # seconds of one test; of one that is marked slow


class OutOfTime(BaseException):
    """Not an `Exception`: neither a test nor a library is to take it for an ordinary failure."""


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
