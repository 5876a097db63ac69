"""For all tests: one that hangs fails, one without its extra is skipped, a long one is not traced.

What starts Java, PostgreSQL or a browser is slow, but for a short test of each; so are examples
that take seconds.

What needs an extra is named here by where it lies, for examples in docstrings and pages. `.ci/run`
first runs the tests without extras. Then it installs all extras and runs every test that has not
passed yet. It fails if a test is skipped then.
"""

import contextlib
import gc
import signal
import sys
import threading
from collections.abc import Generator, Iterator
from importlib.util import find_spec

import pytest

# By a part of the node id, the optional package that these tests need.
_NEEDS = {
    "src/missdp/baselines/dp_": "torch",
    "tests/baselines/test_adversarial": "torch",
}
collect_ignore = ["tests/engines/warm_daemon.py"]  # no test: Spark starts it, which is an extra
if find_spec("torch") is None or find_spec("opacus") is None:  # they cannot be imported
    collect_ignore += [f"src/missdp/baselines/{n}.py" for n in ("games", "private_training")]
_ENGINES = {"spark", "server", "browser"}  # fixtures: each takes seconds to start
_LONG = (
    "baselines/dp_autogan.py",
    "baselines/dp_ctgan.py",
    "governance/curator.py",
    "governance/plan.py",
)
"""Where examples take seconds."""
_LIMIT, _SLOW_LIMIT = 600.0, 2400.0  # seconds of one test; of one that is marked slow
_TRACED = 0.1  # CPU seconds of one test that are traced for coverage, which doubles their cost


class OutOfTime(BaseException):
    """Not an `Exception`: neither a test nor a library is to take it for an ordinary failure."""


gc.disable()  # until all is imported: what stays need not be looked through, again and again


def pytest_collection_finish() -> None:
    """Collect garbage again, more seldom: frozen objects would confuse Hypothesis."""
    gc.set_threshold(20_000, 10, 10)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a module that is not installed; mark as slow what starts an engine."""
    lacking = {part: module for part, module in _NEEDS.items() if find_spec(module) is None}
    for item in items:
        starts = _ENGINES & {*getattr(item, "fixturenames", ())}
        if (starts and not item.get_closest_marker("short")) or item.path.as_posix().endswith(
            _LONG
        ):
            item.add_marker(pytest.mark.slow)
        for part, module in lacking.items():
            if part in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=f"needs {module}, an extra"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Keep the tests of a file in one process: they share models that are fitted once."""
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log)


@contextlib.contextmanager
def traced_at_first() -> Iterator[None]:
    """Trace code for coverage for some time only: what a test does afterwards, it repeats mostly.

    What is reported is thus a lower bound of what is reached.
    """
    module = sys.modules.get("coverage")  # which is there if it runs
    coverage = None if module is None else module.Coverage.current()
    if coverage is None:
        yield
        return
    stopped = []

    def stop(*_: object) -> None:
        if module.Coverage.current() is coverage:
            coverage.stop()
            stopped.append(True)

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, _TRACED)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        if stopped:
            coverage.start()


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
        with traced_at_first():
            return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
