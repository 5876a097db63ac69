"""Threads: one thread for small linear algebra, and parallel maps that keep the order."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


__all__ = ["map_in_order", "one_blas_thread"]

_lock = threading.Lock()
_inside: list[Any] = []  # the limits, once for each active block
if hasattr(os, "register_at_fork"):  # a child must not wait for a thread that it does not have
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit linear algebra (BLAS) to one thread within a ``with`` block or a decorated function.

    The limit applies to the whole process. The first active block sets it, and the last block to
    end removes it.

    Use it for many small matrices, for which several threads are slower than one.

    Yields
    ------
    None
        The limit holds within the block.

    Examples
    --------
    >>> from missdp.threads import one_blas_thread
    >>> import numpy as np
    >>> with one_blas_thread():
    ...     total = np.ones((2, 2)) @ np.ones(2)
    >>> total.tolist()
    [2.0, 2.0]
    >>> @one_blas_thread()
    ... def product(a, b):
    ...     return a @ b
    >>> product(np.eye(2), np.ones(2)).tolist()
    [1.0, 1.0]
    """
    with _lock:
        _inside.append(_inside[0] if _inside else _limited())
    try:
        yield
    finally:
        with _lock:
            limits = _inside.pop()
            if not _inside:
                _take_charge()
                limits.restore_original_limits()
                _take_charge()


def _take_charge() -> None:
    """Make this thread the controlling thread, since threadpoolctl lets only one set limits."""
    from threadpoolctl import OpenBLASController

    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)


def _limited() -> Any:
    _take_charge()
    limits = _libraries().limit(limits=1, user_api="blas")
    _take_charge()
    return limits


@functools.cache
def _libraries() -> ThreadpoolController:
    """Search for libraries once, which takes milliseconds, after all are loaded."""
    import scipy.linalg  # noqa: F401 - loads a separate BLAS
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


_In = TypeVar("_In")
_Out = TypeVar("_Out")


def map_in_order(
    function: Callable[[_In], _Out], items: Iterable[_In], *, n_jobs: int | None = None
) -> Iterator[_Out]:
    """Yield the values of a function for each item, in order, computed by a few threads.

    Parameters
    ----------
    function : callable
        Function of one item, which several threads call.
    items : iterable
        The items. A few items are read in advance.
    n_jobs : int, optional
        Number of threads, at least 1. None: the number of processors, at most 4. With fewer than
        two items, no thread is started.

    Yields
    ------
    object
        The value of the function for the next item.

    Raises
    ------
    Exception
        An error of the function, when its value would be yielded. Later items are cancelled.

    Examples
    --------
    >>> from missdp.threads import map_in_order
    >>> list(map_in_order(lambda x: x * x, [1, 2, 3], n_jobs=2))
    [1, 4, 9]
    """
    items = iter(items)
    begin = list(islice(items, 2))
    if len(begin) < 2:
        yield from map(function, begin)
        return
    jobs = n_jobs or min(4, os.cpu_count() or 1)
    with ThreadPoolExecutor(jobs) as pool, contextlib.ExitStack() as stack:
        waiting: deque[Future[_Out]] = deque()
        stack.callback(lambda: [task.cancel() for task in waiting])
        for item in chain(begin, items):
            waiting.append(pool.submit(function, item))
            if len(waiting) > jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
