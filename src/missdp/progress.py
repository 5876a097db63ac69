"""Progress of long work: the present stage and the share that is done, without facts about data."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Progress", "progress_bar"]

#: Function of the name of a stage and the share of the work that is done, or None if unknown.
Progress: TypeAlias = Callable[[str, float | None], None]

MIN_SECONDS = 2.0  # seconds of work before commands print stages without a bar
_DONE = "done"  # the last stage of a fit, which is not printed
_printers: list[Callable[[str], None]] = []  # at most one function, which prints stages
_receivers: list[Progress] = []  # at most one function, which replaces bars


def print_stages(write: Callable[[str], None]) -> None:
    """Make this process print stages if no bar can be drawn.

    Parameters
    ----------
    write : callable
        Function that gets the name of each stage of work that takes longer than two seconds.
    """
    _printers[:] = [write]


def send_progress(receiver: Progress) -> None:
    """Make this process send its progress to a function, in place of bars and printed stages.

    Parameters
    ----------
    receiver : callable
        Function of the name of a stage, and of the share of the work that is done or None.
    """
    _receivers[:] = [receiver]


@contextlib.contextmanager
def progress_bar(
    label: str = "starting",
    *,
    console: Console | None = None,
    write: Callable[[str], None] | None = None,
) -> Iterator[Progress]:
    """Show a progress bar of long work in a terminal or notebook, as a context manager.

    The yielded function can be passed as ``progress=`` to fits.

    Parameters
    ----------
    label : str, default "starting"
        Text before the bar until a stage is named.
    console : rich console, optional
        Console of the bar. None: standard error. Notebooks need the package ``ipywidgets``.
    write : callable, optional
        Function that gets the name of each stage if no bar can be drawn. None: commands print the
        stages of work that takes longer than two seconds, and Python prints none.

    Yields
    ------
    callable
        Function ``progress(stage, done)`` of the name of a stage, and of the share of the work that
        is done, from 0 to 1. None stands for an unknown share.

    Notes
    -----
    Stages and shares are public: they do not depend on private rows.

    Examples
    --------
    >>> from missdp.evaluate import progress_bar
    >>> with progress_bar() as progress:
    ...     progress("training", 0.5)
    >>> with progress_bar(write=print) as progress:
    ...     progress("training", 0.5)
    training
    """
    if _receivers:
        yield _receivers[0]
        return
    from rich import console as consoles  # imported here, since only bars need it
    from rich import progress as bars

    target = console or consoles.Console(stderr=True)
    if sys.stderr is None or not _draws(target):
        with _stages(label, write) as progress:
            yield progress
        return
    with bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.TextColumn("{task.percentage:>3.0f}%"),
        bars.TimeRemainingColumn(),
        console=target,
        transient=True,
    ) as bar:
        task = bar.add_task(label, total=1.0)

        def show(stage: str, done: float | None) -> None:
            total = None if done is None else 1.0
            bar.update(task, description=stage, completed=done or 0.0, total=total)

        yield show


@contextlib.contextmanager
def show_stage(stage: str) -> Iterator[Progress]:
    """Show that work of one stage goes on, with an unknown share that is done.

    Parameters
    ----------
    stage : str
        The name of the stage. The yielded function may name other stages.
    """
    with progress_bar(stage) as progress:
        progress(stage, None)
        yield progress


@contextlib.contextmanager
def progress_callback(progress: Progress | bool | None) -> Iterator[Progress | None]:
    """Yield the callable of a ``progress=`` parameter.

    Parameters
    ----------
    progress : callable, bool or None
        True is a bar in a terminal or notebook, and a line for each stage elsewhere.
    """
    if progress is True:
        with progress_bar(write=_write) as shown:
            yield shown
    else:
        yield progress or None


def _write(stage: str) -> None:
    if sys.stderr is not None:
        print(stage, file=sys.stderr, flush=True)  # noqa: T201


@contextlib.contextmanager
def _stages(label: str, write: Callable[[str], None] | None) -> Iterator[Progress]:
    """Yield a function that writes each stage once."""
    if write is None and not _printers:
        yield lambda stage, done: None  # noqa: ARG005
        return
    stages = _Stages(write or _printers[0])
    if write is not None:
        stages.begin()
        yield stages.show
        return
    stages.show(label, None)
    timer = threading.Timer(MIN_SECONDS, stages.begin)
    timer.daemon = True  # a daemon keeps no process alive
    timer.start()
    try:
        yield stages.show
    finally:
        timer.cancel()


class _Stages:
    """Writer of the names of stages, which begins after some time."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write, self._begun = write, False
        self._stage = self._written = ""
        self._lock = threading.Lock()  # a timer calls `begin` in another thread

    def begin(self) -> None:
        """Write the present stage, and all later stages."""
        with self._lock:
            self._begun = True
            self._write_new()

    def show(self, stage: str, done: float | None) -> None:
        """Note the present stage. The share that is done is not written."""
        del done
        with self._lock:
            self._stage = stage
            if self._begun:
                self._write_new()

    def _write_new(self) -> None:
        if self._stage not in ("", self._written, _DONE):
            self._written = self._stage
            self._write(self._stage)


def _draws(console: Console) -> bool:
    """Whether a bar can be redrawn in one place."""
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)
