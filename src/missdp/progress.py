"""Progress of long work: how many steps are done, never anything about the data."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

__all__ = ["Progress", "progress_bar"]


Progress: TypeAlias = Callable[[int, int], None]


@contextlib.contextmanager
def progress_bar(label: str, *, console: Console | None = None) -> Iterator[Progress]:
    """Show a bar on standard error, if that is a terminal; yields what ``progress=`` takes.

    Parameters
    ----------
    label : str
        What is going on.
    console : rich console, optional
        Where to draw.

    Examples
    --------
    >>> from missdp.evaluate import progress_bar
    >>> with progress_bar("training") as progress:
    ...     progress(1, 2)
    """
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    target = console or Console(stderr=True)
    with RichProgress(
        *columns,
        TimeRemainingColumn(),
        console=target,
        transient=True,
        disable=not target.is_terminal,
    ) as bar:
        task = bar.add_task(label, total=None)

        def step(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield step
