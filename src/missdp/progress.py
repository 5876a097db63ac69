"""Progress of long work: which stage it is in and how much is done, never anything about data."""

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

#: Called with the name of a stage and the share of the work that is done; None: nobody knows.
Progress: TypeAlias = Callable[[str, float | None], None]

MIN_SECONDS = 2.0  # of work, before commands print stages where no bar can be drawn
_DONE = "done"  # the last stage of a fit, which is no work
_printers: list[Callable[[str], None]] = []  # of a process whose commands print stages: one


def print_stages(write: Callable[[str], None]) -> None:
    """Let the bars of this process print stages where no bar can be drawn.

    Parameters
    ----------
    write : callable
        Called with the name of each stage, of work that takes longer than two seconds.
    """
    _printers[:] = [write]


@contextlib.contextmanager
def progress_bar(
    label: str = "starting",
    *,
    console: Console | None = None,
    write: Callable[[str], None] | None = None,
) -> Iterator[Progress]:
    """Show a bar in a terminal or notebook, if there is one; yields what ``progress=`` takes.

    Parameters
    ----------
    label : str
        What stands before the bar until a stage is named.
    console : rich console, optional
        Where to draw; by default on standard error. Notebooks need the package ``ipywidgets``.
    write : callable, optional
        Called with the name of each stage where no bar can be drawn. By default commands print
        the stages of work that takes longer than two seconds, and Python prints none.

    Yields
    ------
    callable
        Takes the name of a stage, and the share of the work that is done or None.

    Examples
    --------
    >>> with progress_bar() as progress:
    ...     progress("training", 0.5)
    >>> with progress_bar(write=print) as progress:
    ...     progress("training", 0.5)
    training
    """
    from rich import console as consoles  # only those who look at a bar wait for it
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
def working(stage: str) -> Iterator[Progress]:
    """Show that work of one stage goes on, of which nobody knows how much is done.

    Parameters
    ----------
    stage : str
        The name of the stage; the progress that is yielded may name others.
    """
    with progress_bar(stage) as progress:
        progress(stage, None)
        yield progress


@contextlib.contextmanager
def reported(progress: Progress | bool | None) -> Iterator[Progress | None]:
    """Yield the callable that a ``progress=`` parameter stands for.

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
    """Yield what writes each stage once."""
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
    timer.daemon = True  # it keeps no process alive
    timer.start()
    try:
        yield stages.show
    finally:
        timer.cancel()


class _Stages:
    """Writes the names of stages, from some time on."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write, self._begun = write, False
        self._stage = self._written = ""
        self._lock = threading.Lock()  # a timer begins in a thread of its own

    def begin(self) -> None:
        """Write the stage that goes on, and those that follow."""
        with self._lock:
            self._begun = True
            self._write_new()

    def show(self, stage: str, done: float | None) -> None:
        """Note the stage that goes on; how much of it is done is not written."""
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
    """Whether a bar can be drawn anew in the same place."""
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)
