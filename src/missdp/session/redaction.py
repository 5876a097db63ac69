"""Redaction of errors and warnings while private rows are read."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from missdp.errors import DataError, MissDPError, replacing


@contextmanager
def redacted(
    text: str = "what was asked of the private rows could not be computed",
) -> Iterator[None]:
    """Give every foreign error a fixed text, and show no warning, while rows are read.

    Errors of this library have texts without private values and pass unchanged. The new error is
    raised after the old error was handled, so it carries no context.
    """
    with replacing(Exception, by=lambda error: _shown(error, text)), no_warnings():
        yield


def _shown(error: BaseException, text: str) -> MissDPError:
    return error if isinstance(error, MissDPError) else DataError(text)


@contextmanager
def no_warnings() -> Iterator[None]:
    """Suppress warnings, which may show private values, also where they are errors."""
    with np.errstate(all="ignore"), _SILENCE:
        yield


class _Silence:
    """Suppresses warnings while any thread is inside. All threads share the warning filters."""

    def __init__(self) -> None:
        self._lock, self._inside, self._before = threading.Lock(), 0, warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = warnings.catch_warnings()
                self._before.__enter__()
            self._inside += 1
            warnings.simplefilter("ignore")

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._before.__exit__(None, None, None)


_SILENCE = _Silence()
