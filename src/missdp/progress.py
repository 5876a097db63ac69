"""Progress of long work: which stage it is in and how much is done, never anything about data."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Progress", "progress_bar"]

#: Called with the name of a stage and the share of the work that is done; None: nobody knows.
Progress: TypeAlias = Callable[[str, float | None], None]


@contextlib.contextmanager
def progress_bar(label: str = "starting", *, console: Console | None = None) -> Iterator[Progress]:
    """Show a bar in a terminal or notebook, if there is one; yields what ``progress=`` takes.

    Parameters
    ----------
    label : str
        What stands before the bar until a stage is named.
    console : rich console, optional
        Where to draw; by default on standard error. Notebooks need the package ``ipywidgets``.

    Examples
    --------
    >>> with progress_bar() as progress:
    ...     progress("training", 0.5)
    """
    from rich import console as consoles  # only those who look at a bar wait for it
    from rich import progress as bars

    target = console or consoles.Console(stderr=True)
    with bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.TextColumn("{task.percentage:>3.0f}%"),
        bars.TimeRemainingColumn(),
        console=target,
        transient=True,
        disable=sys.stderr is None or not _draws(target),
    ) as bar:
        task = bar.add_task(label, total=1.0)

        def show(stage: str, done: float | None) -> None:
            total = None if done is None else 1.0
            bar.update(task, description=stage, completed=done or 0.0, total=total)

        yield show


def _draws(console: Console) -> bool:
    """Whether a bar can be drawn anew in the same place."""
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)
